//! A private tracefs instance: made, set up, read and removed. Its name has the process number and
//! start time, which tell leftovers of killed recorders from instances in use.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::OFlags;
use rustix::time::{ClockId, clock_gettime};

use super::error::{TraceError, at};
use super::tracefs::Tracefs;

const PREFIX: &str = "seekless-";

/// Distinguishes recorders of one process.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The instance. Dropping it removes it.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    /// Open pipes prevent the removal of the instance: they are closed first.
    pub pipes: Vec<Pipe>,
    _tracefs: Tracefs,
}

/// The events of one CPU.
#[derive(Debug)]
pub struct Pipe {
    /// Its path, for messages.
    pub path: PathBuf,
    /// Does not block.
    pub file: File,
    stats: PathBuf,
}

impl Instance {
    /// A new instance that does not record yet.
    pub fn new() -> Result<Self, TraceError> {
        let tracefs = Tracefs::find()?;
        let all = tracefs.path().join("instances");
        remove_stale(&all);
        let pid = std::process::id();
        let start = start_of(pid).unwrap_or(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = all.join(format!("{PREFIX}{pid}-{start}-{number}"));
        fs::create_dir(&path)
            .map_err(|e| TraceError::NoTracing { what: format!("{}: {e}", path.display()) })?;
        let instance = Self { path, pipes: Vec::new(), _tracefs: tracefs };
        instance.set("tracing_on", "0")?;
        // User space can read this clock too.
        instance.set("trace_clock", "mono")?;
        // A full buffer keeps its events, and counts the lost ones.
        instance.set("options/overwrite", "0")?;
        Ok(instance)
    }

    /// The path of a setting.
    pub fn setting(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a setting.
    pub fn set(&self, name: &str, value: &str) -> Result<(), TraceError> {
        let path = self.path.join(name);
        // Never creates a file: an absent file is a setting that this kernel does not have.
        let file = File::options().write(true).open(&path);
        file.and_then(|mut f| f.write_all(value.as_bytes()))
            .map_err(at(&path, "set what recording needs"))
    }

    /// Fails if this setting is not on any more.
    pub fn must_be_on(&self, name: &str) -> Result<(), TraceError> {
        let path = self.path.join(name);
        let text = description(&path).map_err(at(&path, "read whether events are recorded"))?;
        if text.starts_with('1') {
            return Ok(());
        }
        let what = "another program has switched this off, so nothing is seen any more (`trace-cmd reset` does so); start again";
        Err(TraceError::Data { path, what: what.to_owned() })
    }

    /// Reads and parses a description.
    pub fn describe<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, TraceError> {
        let path = self.path.join(name);
        let text = description(&path).map_err(at(&path, "read how events are laid out"))?;
        parse(&text).map_err(|what| TraceError::Layout { path, what })
    }

    /// Divides `bytes` of buffer among the CPUs, and opens their pipes.
    pub fn open_pipes(&mut self, bytes: u64) -> Result<(), TraceError> {
        let all = self.path.join("per_cpu");
        let entries = fs::read_dir(&all).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut cpus: Vec<PathBuf> =
            entries.map_err(at(&all, "list the CPUs"))?.iter().map(fs::DirEntry::path).collect();
        cpus.sort();
        let each = (bytes / cpus.len().max(1) as u64).div_ceil(1024).max(1);
        self.set("buffer_size_kb", &each.to_string())?;
        for cpu in cpus {
            let path = cpu.join("trace_pipe_raw");
            let flags = OFlags::NONBLOCK.bits().cast_signed();
            let file = File::options()
                .read(true)
                .custom_flags(flags)
                .open(&path)
                .map_err(at(&path, "read its events"))?;
            self.pipes.push(Pipe { path, file, stats: cpu.join("stats") });
        }
        Ok(())
    }
}

/// The present time of the trace clock.
pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

impl Pipe {
    /// Reads the next page. Returns its length; 0 if there is none now.
    pub fn read(&mut self, page: &mut [u8]) -> Result<usize, TraceError> {
        loop {
            match self.file.read(page) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => return read.map_err(at(&self.path, "read events")),
            }
        }
    }

    /// Events lost on this CPU since the instance was made.
    pub fn lost(&self) -> Result<u64, TraceError> {
        let text =
            fs::read_to_string(&self.stats).map_err(at(&self.stats, "read what was lost"))?;
        lost(&text).ok_or_else(|| TraceError::Layout {
            path: self.stats.clone(),
            what: "no counts of 'overrun', 'commit overrun' and 'dropped events'".to_owned(),
        })
    }
}

/// Longest piece of a description.
const PIECE: usize = 1 << 16;

/// The text of a description. Some of these files answer only one read, however short.
fn description(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut piece, mut all) = (vec![0; PIECE], Vec::new());
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(String::from_utf8_lossy(&all).into_owned()),
            Ok(n) => all.extend_from_slice(&piece[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// The sum of the three kinds of loss in a ring buffer.
fn lost(stats: &str) -> Option<u64> {
    ["overrun", "commit overrun", "dropped events"].iter().try_fold(0u64, |sum, name| {
        let count = |line: &str| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok();
        sum.checked_add(stats.lines().find_map(count)?)
    })
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.set("tracing_on", "0");
        self.pipes.clear();
        let _ = fs::remove_dir(&self.path);
    }
}

/// Removes instances of processes that have ended. The kernel refuses to remove an instance that is
/// being read, which also protects recorders in other process namespaces.
fn remove_stale(all: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().and_then(owner).is_some_and(|(pid, start)| start_of(pid) != Some(start)) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Process number and start time in the name of an instance.
fn owner(name: &str) -> Option<(u32, u64)> {
    let (pid, rest) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let (start, number) = rest.split_once('-')?;
    number.parse::<u32>().ok()?;
    Some((pid.parse().ok()?, start.parse().ok()?))
}

/// Start of a process in the kernel's ticks; `None` without such a process.
pub fn start_of(pid: u32) -> Option<u64> {
    start_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The 22nd field. The second field is the command in parentheses, with any characters.
fn start_in(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_of_instances() {
        assert_eq!(owner("seekless-12-345-0"), Some((12, 345)));
        for other in [
            "seekless-12-345",
            "seekless-12",
            "seekless-x-1-0",
            "mine",
            "seekless-",
            "seekless-1-2-x",
        ] {
            assert_eq!(owner(other), None, "{other}");
        }
        let tail = "S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 10 11";
        assert_eq!(start_in(&format!("7 (a) b (c) {tail}")), Some(987_654));
        assert_eq!(start_in("7 (a) S 1"), None);
        assert!(start_of(std::process::id()).is_some());
    }

    #[test]
    fn losses_are_added_up() {
        let stats = "entries: 5\noverrun: 3\ncommit overrun: 4\nbytes: 9\noldest event ts:     0.000000\ndropped events: 50\nread events: 1\n";
        assert_eq!(lost(stats), Some(57));
        assert_eq!(lost("overrun: 3\ndropped events: 50\n"), None);
    }
}
