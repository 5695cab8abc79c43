//! Asks that wait until changes are on stable storage.

use super::Commit;
use crate::api::{Fault, Reply, RequestId};
use crate::group_store::GroupStore;

/// The changes that an ask waits for.
#[derive(Clone, Debug)]
pub(crate) enum WaitScope {
    /// All groups, removed files included.
    All,
    /// These groups; number 0 stands for removed files.
    Groups(Vec<u32>),
}

impl WaitScope {
    pub(super) fn has(&self, group: u32) -> bool {
        match self {
            Self::All => true,
            Self::Groups(groups) => groups.contains(&group),
        }
    }

    /// A file has moved from one group to another: the scope follows.
    pub(crate) fn follow(&mut self, from: u32, to: u32) {
        if let Self::Groups(groups) = self
            && groups.contains(&from)
        {
            groups.push(to);
        }
    }
}

/// An ask that waits for all changes in its scope up to a moment.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) id: RequestId,
    pub(crate) scope: WaitScope,
    /// Number of the latest change that counts.
    pub(crate) clock: u64,
    pub(crate) reply: Reply,
}

impl GroupStore {
    fn has_open_changes(&self, waiter: &Waiter) -> bool {
        self.dirty.iter().any(|(g, d)| d.since <= waiter.clock && waiter.scope.has(*g))
    }

    /// Completes asks whose changes are all on stable storage, and every waiting ask after a failed
    /// write.
    pub(super) fn answer_waiters(&mut self) {
        let mut i = 0;
        while i < self.waiters.len() {
            if !self.broken && self.has_open_changes(&self.waiters[i]) {
                i += 1;
            } else if let Some(waiter) = self.waiters.remove(i) {
                let result = if self.broken { Err(Fault::Broken) } else { Ok(waiter.reply) };
                self.complete(waiter.id, result);
            }
        }
    }

    /// Asks whose last changes are in this commit wait for its end.
    pub(super) fn attach_waiters(&mut self, commit: &mut Commit) {
        let (stay, go) =
            std::mem::take(&mut self.waiters).into_iter().partition(|w| self.has_open_changes(w));
        (self.waiters, commit.waiters) = (stay, go);
    }

    /// No commit is possible: all waiting asks fail.
    pub(super) fn refuse_waiters(&mut self) {
        for waiter in std::mem::take(&mut self.waiters) {
            self.complete(waiter.id, Err(Fault::NoSpace));
        }
    }
}
