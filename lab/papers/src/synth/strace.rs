//! Made-up days of file requests as text of strace.

use std::io::{self, Write};

use seekless_trace::{FileEvent, FileOp};

use super::eefs::FilePlay;
use super::file_days::FileDay;

/// The size of a written day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenDay {
    /// Requests.
    pub requests: u64,
    /// Files.
    pub files: usize,
}

/// Writes a day at this scale, one request a line.
///
/// # Errors
/// If `out` refuses a line.
pub fn write_strace(
    day: &FileDay,
    scale: f64,
    seed: u64,
    out: &mut dyn Write,
) -> io::Result<WrittenDay> {
    let mut play = FilePlay::new(*day, scale, seed);
    let files = play.files().to_vec();
    let mut requests = 0;
    for event in play.by_ref() {
        requests += 1;
        let path = files.get(event.file as usize).map_or_else(String::new, |f| f.path(event.file));
        writeln!(out, "{}", strace_line(&event, &path))?;
    }
    out.flush()?;
    Ok(WrittenDay { requests, files: files.len() })
}

/// An event as a line of `strace -f -ttt -T -y`; each line can be read alone.
pub(super) fn strace_line(event: &FileEvent, path: &str) -> String {
    let (pid, s) = (event.stream.0 + 1_000, 1_000_000_000.0 + event.time.as_secs_f64());
    let (offset, len) = (event.offset, event.len);
    match event.op {
        FileOp::Read => {
            format!("{pid} {s:.6} pread64(3<{path}>, \"\"..., {len}, {offset}) = {len} <0.000001>")
        }
        FileOp::Write => {
            format!("{pid} {s:.6} pwrite64(3<{path}>, \"\"..., {len}, {offset}) = {len} <0.000001>")
        }
        FileOp::Close => format!("{pid} {s:.6} close(3<{path}>) = 0 <0.000001>"),
        _ => format!("{pid} {s:.6} openat(AT_FDCWD</>, \"{path}\", O_RDWR) = 3<{path}> <0.000001>"),
    }
}
