//! The end of a server. While somebody on this host uses the volume, a request to end is refused and
//! changes nothing: no later request cuts the users off. Only an explicit force does.

use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use seekless_host::Users;

use crate::{HostEnd, ServerHandle};

/// A user that has just gone, such as a loop device, keeps the mount for a moment.
const LEAVING: Duration = Duration::from_secs(2);

/// The one who asked: the users that were cut off, or why the server does not end.
pub type StopReply = SyncSender<Result<String, String>>;

/// A request to end, and its answer.
pub struct Ending {
    /// A service manager asks once, and kills later: its request stays.
    stays: bool,
    asked: Option<StopRequest>,
}

struct StopRequest {
    since: Instant,
    /// `None`: a signal.
    reply: Option<StopReply>,
    /// A request that stays was answered.
    told: bool,
}

impl Ending {
    /// For a server that a service manager started, or not.
    pub const fn new(managed: bool) -> Self {
        Self { stays: managed, asked: None }
    }

    /// True while a request waits for its answer.
    pub const fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Takes a request; [`Self::attempt`] answers it.
    pub fn ask(&mut self, reply: Option<StopReply>) {
        match (&self.asked, reply) {
            (Some(_), Some(reply)) => drop(reply.send(Err("the server is ending".to_owned()))),
            (Some(_), None) => {}
            (None, reply) => {
                self.asked = Some(StopRequest { since: Instant::now(), reply, told: false });
            }
        }
    }

    /// Ends the mount if nobody uses the volume; then true. Otherwise refuses the request.
    pub fn attempt(
        &mut self,
        server: &ServerHandle,
        mut mount: Option<&mut HostEnd>,
        say: &dyn Fn(&str),
    ) -> bool {
        let Some(asked) = &mut self.asked else { return false };
        let volume = server.injector();
        let nbd = volume.users(None);
        let mut failed = None;
        if nbd.is_empty() {
            match mount.as_mut().map_or(Ok(true), |m| m.end()) {
                Ok(true) => {
                    if let Some(reply) = &asked.reply {
                        let _ = reply.send(Ok(String::new()));
                    }
                    return true;
                }
                Ok(false) => {}
                // Somebody may still use it: a mount that was unmounted lazily, for instance.
                Err(e) => failed = Some(in_one_line(&e)),
            }
        }
        if asked.told {
            return false;
        }
        let users = volume.users(mount.as_ref().map(|m| m.path()).as_deref());
        if failed.is_none() && users.is_empty() && asked.since.elapsed() < LEAVING {
            return false;
        }
        let what = mount
            .as_ref()
            .map_or_else(|| "the volume".to_owned(), |m| m.path().display().to_string());
        let why = failed.unwrap_or_else(|| format!("{what} is in use: {}", in_words(&users)));
        match &asked.reply {
            Some(reply) => drop(reply.send(Err(format!("{why}. The server goes on")))),
            None if self.stays => {
                let waits = "the server ends when it is free";
                say(&format!("{why}. A service manager asked the server to stop: {waits}"));
                asked.told = true;
                return false;
            }
            None => say(&format!("{why}. The server goes on")),
        }
        self.asked = None;
        false
    }
}

/// An error with its cause.
pub(crate) fn in_one_line(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

fn in_words(users: &Users) -> String {
    if users.is_empty() {
        return "by something that is not visible here, such as a mount of another container"
            .to_owned();
    }
    users.to_string()
}
