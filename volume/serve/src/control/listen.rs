//! The control socket of a running server.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use seekless_block::Bytes;
use seekless_engine::{Command, Mode};
use serde::Serialize;

use super::replicate::replicate;
use super::socket::{make_directory, socket_of};
use super::{VolumeCommand, VolumeState};
use crate::http::{ControlAnswers, HttpServer};
use crate::watch::unix_ms;
use crate::{Board, Injector, ServeError, ServerHandle};

/// Commands for the thread that owns the server.
#[derive(Debug)]
pub enum MainThread {
    /// Make a plan now.
    Replan,
    /// End the server in order.
    Stop {
        /// Also while the volume is in use: its users are cut off.
        force: bool,
        /// The users that were cut off, or why the server does not end.
        reply: SyncSender<Result<String, String>>,
    },
}

/// Longest wait for the thread that owns the server; the asking program waits a little longer.
const ANSWER_MOST: Duration = Duration::from_secs(4);

/// Starts to take commands for `server`, at the socket of its backing. `mount` is the file that it is
/// mounted over. `tell` gives a command to the thread that owns the server; false once that thread
/// has ended.
pub fn start(
    backing: &Path,
    server: &ServerHandle,
    mount: Option<&Path>,
    tell: impl Fn(MainThread) -> bool + Send + Sync + 'static,
) -> Result<HttpServer, ServeError> {
    let socket = socket_of(backing)?;
    make_directory(&socket)?;
    let steered = ControlledVolume {
        started_unix_ms: unix_ms(),
        volume: server.injector(),
        backing: backing.to_owned(),
        mount: mount.map(Path::to_owned),
        sizes: (server.size(), server.area()),
        board: server.board(),
        plans_nothing: server.plans_nothing(),
        lasting: server.attached().is_some(),
        tell: Box::new(tell),
    };
    HttpServer::control(&socket, Box::new(steered))
}

/// A volume that takes commands.
struct ControlledVolume {
    started_unix_ms: u64,
    volume: Injector,
    backing: PathBuf,
    mount: Option<PathBuf>,
    /// Sizes of the volume and of its area.
    sizes: (Bytes, Bytes),
    /// Why no plan can be made.
    plans_nothing: Option<String>,
    board: Option<Board>,
    /// Its area outlasts the server.
    lasting: bool,
    tell: Box<dyn Fn(MainThread) -> bool + Send + Sync>,
}

fn json(value: &impl Serialize) -> Result<String, String> {
    serde_json::to_string(value).map_err(|e| e.to_string())
}

impl ControlledVolume {
    fn tell(&self, what: MainThread) -> Result<(), String> {
        if (self.tell)(what) { Ok(()) } else { Err("the server is ending".to_owned()) }
    }
}

impl ControlAnswers for ControlledVolume {
    fn state(&self) -> Result<String, String> {
        let stats = self.volume.stats().map_err(|e| e.to_string())?;
        let shown = self.board.as_ref().map(Board::status);
        let adaptive = shown.as_ref().and_then(|s| s.adaptive.clone());
        let guard = adaptive.and_then(|adaptive| Some((adaptive.guard?, adaptive.guard_note)));
        let verdict = shown.as_ref().and_then(|s| s.verdict.clone());
        let operations = shown.and_then(|s| s.operations);
        let state = VolumeState::of(&self.backing, self.sizes, &stats, guard);
        let started_unix_ms = self.started_unix_ms;
        json(&VolumeState { started_unix_ms, verdict, operations, ..state })
    }

    fn command(&self, body: &[u8]) -> Result<String, String> {
        let command = serde_json::from_slice(body)
            .map_err(|e| format!("this server does not know that command: {e}"))?;
        let words = |e: ServeError| e.to_string();
        match command {
            VolumeCommand::Engine(Command::SetMode(Mode::WriteBack)) if !self.lasting => {
                return Err("its area is temporary: it ends with the server, and the absorbed writes would be lost; make a lasting area with `seekless volume format`".to_owned());
            }
            VolumeCommand::Engine(command) => self.volume.command(command).map_err(words)?,
            VolumeCommand::Replan => {
                self.plans_nothing.clone().map_or(Ok(()), Err)?;
                self.tell(MainThread::Replan)?;
            }
            VolumeCommand::Users => {
                return json(&self.volume.users(self.mount.as_deref()).to_string());
            }
            VolumeCommand::Stop { force } => {
                let (reply, answer) = sync_channel(1);
                self.tell(MainThread::Stop { force, reply })?;
                let late = |_| "the server is busy, and has not confirmed that it ends".to_owned();
                return json(&answer.recv_timeout(ANSWER_MOST).map_err(late)??);
            }
            VolumeCommand::Replicate { near, homes } => {
                return json(&replicate(&self.volume, near, &homes)?);
            }
        }
        Ok("{}".to_owned())
    }
}
