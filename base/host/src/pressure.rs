//! Memory for a server whose clients are on the same host. When memory is short, the kernel lets a
//! process that asks for more wait until dirty pages are written. If these pages go to the server's
//! own volume, the server waits for itself. So such a server takes its memory before it begins, and
//! keeps it.

use std::path::{Path, PathBuf};

use rustix::mm::MlockAllFlags;
use rustix::thread::CapabilitySet;

use crate::sys;
pub use crate::sys::{return_freed_memory, trim_freed_memory};

/// Size of one piece of the reserve: below the size that the allocator maps by itself.
const PIECE_BYTES: usize = 1 << 20;

/// The kernel ends all other programs before one with this adjustment (proc(5), oom_score_adj).
const LAST: i32 = -900;

/// Prepares this process, before it starts threads: memory that is freed stays with the process,
/// and the kernel gives its threads memory without waiting for writes, where it may. The kernel ends
/// other programs first: if it ends the server, all programs on the volume get errors.
pub fn prepare() {
    protect(Path::new("/proc/self/oom_score_adj"));
    sys::keep_freed_memory();
    crate::fuse_mount::serve_under_memory_pressure();
}

/// Lowers the share of the memory by which the kernel chooses the program that it ends. Only a
/// privileged process may. The memory of the server has a bound.
fn protect(adjustment: &Path) {
    let now = std::fs::read_to_string(adjustment).ok();
    // A unit may have forbidden the kernel to end the server at all.
    if now.and_then(|text| text.trim().parse::<i32>().ok()).is_some_and(|now| now > LAST) {
        let _ = std::fs::write(adjustment, LAST.to_string());
    }
}

/// The memory of this machine, or of the control group of this process if that is less.
pub fn machine_bytes() -> u64 {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let machine = total(&read("/proc/meminfo".as_ref())).unwrap_or(u64::MAX);
    group_limit(&read("/proc/self/cgroup".as_ref()), read).map_or(machine, |g| g.min(machine))
}

fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// The folders of a process's control groups, each from its own outwards; true for the second
/// version. `own`: the text of /proc/self/cgroup, which has a line for each hierarchy.
pub fn groups(own: &str) -> Vec<(PathBuf, bool)> {
    let mut found = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(kinds), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, second) = match kinds {
            "" => ("/sys/fs/cgroup", true),
            k if k.split(',').any(|k| k == "memory") => ("/sys/fs/cgroup/memory", false),
            _ => continue,
        };
        let whole = Path::new(root).join(path.trim_start_matches('/'));
        let dirs = whole.ancestors().take_while(|d| d.starts_with(root));
        found.extend(dirs.map(|d| (d.to_owned(), second)));
    }
    found
}

/// The least limit of a control group and of those around it.
fn group_limit(own: &str, read: impl Fn(&Path) -> String) -> Option<u64> {
    let limit = |(dir, second): (PathBuf, bool)| {
        let name = if second { "memory.max" } else { "memory.limit_in_bytes" };
        read(&dir.join(name)).trim().parse::<u64>().ok()
    };
    groups(own).into_iter().filter_map(limit).min()
}

/// Bytes that the control group of this process and those around it can still hold, if the kernel
/// drops clean pages of files. `None` without a limit.
pub fn group_room() -> Option<u64> {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    room(&read("/proc/self/cgroup".as_ref()), read)
}

/// `own`: the text of /proc/self/cgroup.
fn room(own: &str, read: impl Fn(&Path) -> String) -> Option<u64> {
    let free = |(dir, second): (PathBuf, bool)| {
        let number = |name: &str| read(&dir.join(name)).trim().parse::<u64>().ok();
        let (limit, usage) = if second {
            (number("memory.max")?, number("memory.current")?)
        } else {
            (number("memory.limit_in_bytes")?, number("memory.usage_in_bytes")?)
        };
        let clean = clean(&read(&dir.join("memory.stat")));
        Some(limit.saturating_sub(usage.saturating_sub(clean)))
    };
    groups(own).into_iter().filter_map(free).min()
}

/// Bytes of clean pages of files, from the text of memory.stat. In the first version, lines without
/// `total_` leave out the groups below.
fn clean(stat: &str) -> u64 {
    let line =
        |name: &str| stat.lines().find_map(|l| l.strip_prefix(name)?.trim().parse::<u64>().ok());
    let all = |name: &str| line(&format!("total_{name}")).or_else(|| line(name)).unwrap_or(0);
    let files = all("inactive_file ") + all("active_file ");
    let dirty = ["dirty ", "writeback ", "file_dirty ", "file_writeback "];
    files.saturating_sub(dirty.into_iter().map(all).sum())
}

/// Takes `reserve` bytes for later, and locks all memory of this process, also future memory.
/// Returns what is missing, in words.
pub fn hold(reserve: usize) -> Option<&'static str> {
    let pieces: Vec<Vec<u8>> =
        std::iter::repeat_with(|| vec![1; PIECE_BYTES]).take(reserve / PIECE_BYTES).collect();
    drop(pieces);
    // A limit on locked memory would make later allocations fail.
    let may = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    let locked =
        may && rustix::mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).is_ok();
    let missing = "the server's memory is not locked (CAP_IPC_LOCK): when memory is short, programs on the mount may hang";
    (!locked).then_some(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_that_protects_the_server_more_keeps_its_adjustment() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("oom_score_adj");
        for (before, after) in [("-1000\n", "-1000\n"), ("0\n", "-900"), ("-901\n", "-901\n")] {
            std::fs::write(&file, before).unwrap();
            protect(&file);
            assert_eq!(std::fs::read_to_string(&file).unwrap(), after);
        }
    }

    #[test]
    fn the_least_of_machine_and_groups_counts() {
        assert_eq!(total("MemTotal:  2048 kB\nMemFree: 1 kB\n"), Some(2 << 20));
        let files = [
            ("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000\n"),
            ("/sys/fs/cgroup/u/memory.max", "max\n"),
            ("/sys/fs/cgroup/v/memory.max", "600\n"),
        ];
        let read = |path: &Path| {
            let file = files.iter().find(|(name, _)| Path::new(name) == path);
            file.map_or_else(String::new, |(_, text)| (*text).to_owned())
        };
        assert_eq!(group_limit("4:memory:/a/b\n0::/u\n", read), Some(1000));
        assert_eq!(group_limit("0::/v\n", read), Some(600));
        assert_eq!(group_limit("0::/u\n", read), None);
        assert_eq!(group_limit("no line of that kind", read), None);
    }

    #[test]
    fn the_tightest_control_group_bounds() {
        let files = [
            ("memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/a/b/memory.usage_in_bytes", "500\n"),
            ("memory/a/memory.limit_in_bytes", "1000\n"),
            ("memory/a/memory.usage_in_bytes", "700\n"),
            (
                "memory/a/memory.stat",
                "inactive_file 1\ntotal_inactive_file 60\ntotal_active_file 7\ntotal_dirty 8\ntotal_writeback 2\n",
            ),
            ("u/memory.max", "max\n"),
            ("u/memory.current", "5\n"),
            ("v/memory.max", "600\n"),
            ("v/memory.current", "800\n"),
            ("v/memory.stat", "anon 9\ninactive_file 300\nactive_file 22\nfile_dirty 2\n"),
        ];
        let read = |path: &Path| {
            let place = path.strip_prefix("/sys/fs/cgroup").map(Path::to_str);
            let found = files.iter().find(|f| place == Ok(Some(f.0)));
            found.map_or_else(String::new, |f| f.1.to_owned())
        };
        assert_eq!(room("5:cpu:/a/b\n4:foo,memory:/a/b\n0::/none\n", read), Some(357));
        assert_eq!(room("0::/u\n", read), None, "no limit");
        assert_eq!(room("0::/v\n", read), Some(120));
        assert_eq!(room("broken\n", read), None);
    }
}
