//! Runs other programs: to their end with a time limit, or as servers beside this process. Each has
//! a mark in its environment, so that it can be found if this process is killed.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The mark: `tool:`, `server:` or `over:`, then the folder of the study.
pub(super) const MARK: &str = "SEEKLESS_STUDY_OF";
/// Time limit of a program.
const LONGEST: Duration = Duration::from_secs(600);

/// An operation that the host refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say it")]
pub enum HostError {
    #[error("{program} failed: {said}")]
    Program { program: String, said: String },
    #[error("cannot {what} {place}")]
    Io { what: &'static str, place: String, source: std::io::Error },
    #[error("{0}")]
    Refused(String),
}

impl HostError {
    pub(super) fn io(
        what: &'static str,
        place: impl AsRef<Path>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let place = place.as_ref().display().to_string();
        move |source| Self::Io { what, place, source }
    }
}

fn command(args: &[OsString], mark: &str) -> Command {
    let mut command = Command::new(args.first().map_or(OsStr::new("false"), OsString::as_os_str));
    command.args(args.iter().skip(1)).env(MARK, mark).env("LC_ALL", "C").stdin(Stdio::null());
    command
}

/// Runs a program to its end. Returns whether it succeeded, and its standard output and error.
pub(crate) fn attempt<S: AsRef<OsStr>>(
    args: &[S],
    dir: &Path,
) -> Result<(bool, String), HostError> {
    let args: Vec<OsString> = args.iter().map(|a| a.as_ref().to_owned()).collect();
    let name = || args.iter().map(|a| a.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let mut command = command(&args, &format!("tool:{}", dir.display()));
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(HostError::io("start", name()))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let gather = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = pipe.map(|p| p.take(1 << 20).read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    let (out, err) = (gather(out.map(|p| Box::new(p) as _)), gather(err.map(|p| Box::new(p) as _)));
    let end = Instant::now() + LONGEST;
    let status = loop {
        match child.try_wait().map_err(HostError::io("wait for", name()))? {
            Some(status) => break status,
            None if Instant::now() > end => {
                let _ = child.kill();
                let _ = child.wait();
                let said = format!("it took longer than {} s", LONGEST.as_secs());
                return Err(HostError::Program { program: name(), said });
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let said = [out, err].map(|t| t.join().unwrap_or_default()).concat();
    Ok((status.success(), said))
}

/// Runs a program that must succeed. Returns its output.
pub(crate) fn run_program<S: AsRef<OsStr>>(args: &[S], dir: &Path) -> Result<String, HostError> {
    let (good, said) = attempt(args, dir)?;
    if good {
        return Ok(said);
    }
    let program = args.iter().map(|a| a.as_ref().to_string_lossy()).collect::<Vec<_>>().join(" ");
    let lines: Vec<_> = said.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let said = lines[lines.len().saturating_sub(3)..].join("; ");
    Err(HostError::Program { program, said })
}

/// A server of this project beside this process: an emulated disk, or a volume. Dropping it ends
/// it.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
}

impl Server {
    /// Starts the server, and waits until it prints `serving` or `mounted`. `kind` is its mark:
    /// `server` or `over`.
    pub(crate) fn start<S: AsRef<OsStr>>(
        args: &[S],
        kind: &str,
        dir: &Path,
    ) -> Result<Self, HostError> {
        let args: Vec<OsString> = args.iter().map(|a| a.as_ref().to_owned()).collect();
        let name = args.iter().map(|a| a.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let log = dir.join(format!("{kind}.log"));
        let errors = std::fs::File::create(&log).map_err(HostError::io("write", &log))?;
        let mut child = command(&args, &format!("{kind}:{}", dir.display()))
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .map_err(HostError::io("start", &name))?;
        let (send, said) = channel();
        if let Some(out) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    let _ = send.send(line);
                }
            });
        }
        let mut server = Self { child };
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            match said.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with("serving ") || line.starts_with("mounted ") => {
                    return Ok(server);
                }
                Ok(_) => {}
                Err(e) => {
                    server.end();
                    let words = std::fs::read_to_string(&log).unwrap_or_default();
                    let late = e == RecvTimeoutError::Timeout;
                    let said = if late { "it did not start to serve".to_owned() } else { words };
                    return Err(HostError::Program { program: name, said: said.trim().to_owned() });
                }
            }
        }
    }

    /// Ends it: two requests, then by force.
    pub(crate) fn end(&mut self) {
        end_process(Pid::from_child(&self.child), || {
            matches!(self.child.try_wait(), Ok(Some(_)) | Err(_))
        });
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Asks a process to end, again after five seconds (a server refuses while its mount is in use),
/// and ends it by force after five more.
pub(super) fn end_process(pid: Pid, mut gone: impl FnMut() -> bool) {
    for signal in [Signal::TERM, Signal::TERM, Signal::KILL] {
        if gone() {
            return;
        }
        let _ = kill_process(pid, signal);
        let end = Instant::now() + Duration::from_secs(5);
        while !gone() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Processes with the mark of a study in `dir`; `kind` is `tool`, `server` or `over`.
pub(super) fn marked(kind: &str, dir: &Path) -> Vec<Pid> {
    let needle = format!("{MARK}={kind}:{}\0", dir.display());
    let ours = std::process::id();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| u32::try_from(*pid).is_ok_and(|p| p != ours))
        .filter(|pid| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.windows(needle.len()).any(|w| w == needle.as_bytes())
        })
        .filter_map(Pid::from_raw)
        .collect()
}

/// Whether a process exists and is not a zombie.
pub(super) fn alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|s| s.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X'])))
}
