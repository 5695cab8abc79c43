//! The control socket of a running server.

use std::path::{Path, PathBuf};

use seekless_block::Bytes;
use seekless_engine::{Command, Mode};
use serde::Serialize;

use super::replicate::replicate;
use super::socket::{make_directory, socket_of};
use super::{VolumeCommand, VolumeState};
use crate::http::{ControlAnswers, HttpServer};
use crate::{Board, Injector, ServeError, ServerHandle};

/// Commands for the thread that owns the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MainThread {
    /// Make a plan now.
    Replan,
    /// End the server in order.
    Stop,
}

/// Starts to take commands for `server`, at the socket of its backing. `tell` gives a command to the thread that owns the server; false once that thread has
/// ended.
pub fn start(
    backing: &Path,
    server: &ServerHandle,
    tell: impl Fn(MainThread) -> bool + Send + Sync + 'static,
) -> Result<HttpServer, ServeError> {
    let socket = socket_of(backing)?;
    make_directory(&socket)?;
    let steered = Steered {
        volume: server.injector(),
        backing: backing.to_owned(),
        sizes: (server.size(), server.area()),
        board: server.board(),
        plans_nothing: server.plans_nothing(),
        lasting: server.attached().is_some(),
        tell: Box::new(tell),
    };
    HttpServer::control(&socket, Box::new(steered))
}

/// A volume that takes commands.
struct Steered {
    volume: Injector,
    backing: PathBuf,
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

impl Steered {
    fn tell(&self, what: MainThread) -> Result<(), String> {
        if (self.tell)(what) { Ok(()) } else { Err("the server is ending".to_owned()) }
    }
}

impl ControlAnswers for Steered {
    fn state(&self) -> Result<String, String> {
        let stats = self.volume.stats().map_err(|e| e.to_string())?;
        let shown = self.board.as_ref().and_then(|board| board.status().adaptive.clone());
        let guard = shown.and_then(|adaptive| Some((adaptive.guard?, adaptive.guard_note)));
        json(&VolumeState::of(&self.backing, self.sizes, &stats, guard))
    }

    fn command(&self, body: &[u8]) -> Result<String, String> {
        let command = serde_json::from_slice(body)
            .map_err(|e| format!("this server does not know that command: {e}"))?;
        let words = |e: ServeError| e.to_string();
        match command {
            VolumeCommand::Engine(Command::SetMode(Mode::WriteBack)) if !self.lasting => {
                return Err("its area is gone when the server ends, and the writes it absorbed with it: make an area that lasts with `seekless volume format`".to_owned());
            }
            VolumeCommand::Engine(command) => self.volume.command(command).map_err(words)?,
            VolumeCommand::Replan => {
                self.plans_nothing.clone().map_or(Ok(()), Err)?;
                self.tell(MainThread::Replan)?;
            }
            VolumeCommand::Stop => self.tell(MainThread::Stop)?,
            VolumeCommand::Replicate { near, homes } => {
                return json(&replicate(&self.volume, near, &homes)?);
            }
        }
        Ok("{}".to_owned())
    }
}
