//! A plan on request.

use std::sync::mpsc::{Receiver, TryRecvError};

use seekless_block::{Bytes, Sectors};
use seekless_serve::{ServerHandle, ServerStats};

/// The plan that was asked for last.
#[derive(Default)]
pub(super) struct Planning {
    /// The answer of the learner, which may take its time, or have ended.
    answer: Option<Receiver<u64>>,
    /// The plan is made, and perhaps not carried out yet.
    moves: bool,
}

impl Planning {
    pub(super) fn ask(&mut self, server: &ServerHandle, say: &dyn Fn(&str)) {
        match server.plans_nothing() {
            Some(why) => say(&why),
            None => self.answer = Some(server.plan()),
        }
    }

    pub(super) const fn is_busy(&self) -> bool {
        self.answer.is_some() || self.moves
    }

    /// Looks whether the plan is made.
    pub(super) fn look(&mut self, say: &dyn Fn(&str)) {
        match self.answer.as_ref().map(Receiver::try_recv) {
            None | Some(Err(TryRecvError::Empty)) => return,
            Some(Ok(_)) => self.moves = true,
            Some(Err(TryRecvError::Disconnected)) => {
                say("the learner has failed: the server makes no more plans");
            }
        }
        self.answer = None;
    }

    /// The size of all copies, once a plan is carried out. The counters are newer than its answer.
    pub(super) fn copied(&mut self, stats: &ServerStats) -> Option<Bytes> {
        let done = self.moves && stats.progress.is_none();
        self.moves &= !done;
        done.then(|| Sectors(stats.copied_sectors).bytes())
    }
}
