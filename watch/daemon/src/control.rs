//! Questions to a running daemon, through a socket in the folder of its state. A user who may enter
//! the folder and write to the socket, which takes its mode from the umask, may ask.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use seekless_host::cannot_at;

use crate::WatchError;
use crate::report::{SCHEMA, WatchReport};

/// Longest answer.
const ANSWER: u64 = 16 << 20;

fn socket(state: &Path) -> PathBuf {
    state.join("control")
}

/// The socket of a daemon that holds the lock of the folder.
pub(crate) fn listen(state: &Path) -> Result<UnixListener, WatchError> {
    let path = socket(state);
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path).and_then(|l| l.set_nonblocking(true).map(|()| l));
    Ok(listener.map_err(cannot_at(&path, "listen for questions"))?)
}

/// After the end, nothing is left but the learned data.
pub(crate) fn remove(state: &Path) {
    let _ = fs::remove_file(socket(state));
}

/// Asks the daemon with this state.
pub fn ask(state: &Path) -> Result<WatchReport, WatchError> {
    let path = socket(state);
    let text =
        read(&path).map_err(|source| WatchError::NotRunning { path: state.to_owned(), source })?;
    let wrong = |what: String| WatchError::Answer { path: path.clone(), what };
    let report: WatchReport = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
    if report.schema != SCHEMA {
        return Err(wrong(format!("schema {}, this program knows {SCHEMA}", report.schema)));
    }
    Ok(report)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut text = Vec::new();
    stream.take(ANSWER).read_to_end(&mut text)?;
    Ok(text)
}
