//! The memory that a client holds: within its own share, or beyond.

use seekless_nbd::{Command, Request};

use super::{Conn, Owner};
use crate::buffers::size_of;
use crate::memory::Memories;
use crate::payload::{LEAST_BYTES, PayloadPool};
use crate::volume::Volume;

/// Memory of a request without payload, and of a question with its answer.
const PLAIN_BYTES: usize = 512;
const ANSWER_BYTES: usize = 8192;

impl Conn {
    /// Memory that the client holds, beside its buffers.
    fn held(&self) -> usize {
        let write = self.write.as_ref().map_or(0, |(_, buf, _)| buf.len());
        self.in_flight_held + write + self.out.held()
    }

    /// The memory that a request needs beyond the client's own share.
    pub(super) fn needs(&self, r: &Request) -> usize {
        let beyond = (self.held() + memory_of(r)).saturating_sub(self.share.payload);
        beyond.saturating_sub(self.beyond)
    }

    /// True if unread input waits and there is space for it.
    pub(crate) fn can_resume(&self, pool: &PayloadPool) -> bool {
        let worth = |next: Request| pool.is_worth_a_try(self.token, self.needs(&next));
        self.waiting && !self.is_full() && self.next.is_none_or(worth)
    }

    /// Tells the pool what the client holds now.
    pub(super) fn account(&mut self, pool: &mut PayloadPool) {
        let beyond = self.held().saturating_sub(self.share.payload);
        if beyond != self.beyond {
            pool.hold(self.beyond, beyond);
            self.beyond = beyond;
        }
    }

    /// The connection ends, and gives its memory back. Its requests in flight go on without it.
    pub(crate) fn end(self, volume: &mut Volume<Owner>) {
        let Memories { buffers, payload, .. } = &mut volume.memories;
        payload.leave(self.token, self.beyond, self.in_flight_held);
        self.out.end(buffers);
        if let Some((_, buf, _)) = self.write {
            buffers.give(buf);
        }
    }

    /// Somebody begins to wait for memory.
    pub(crate) const fn mark_carried(&mut self) {
        self.carried_then = self.carried + self.out.carried;
    }

    /// Whether the client holds memory that others may have, and its connection hardly carried
    /// anything since [`Self::mark_carried`].
    pub(crate) const fn stalls(&self) -> bool {
        let carried = self.carried + self.out.carried - self.carried_then;
        // A write without its payload waits for the client, whatever else is in flight.
        let owes = self.in_flight == 0 || self.write.is_some() && !self.waiting;
        self.beyond > 0 && owes && carried < LEAST_BYTES
    }
}

/// Memory of a request until its reply is sent.
pub(crate) fn memory_of(r: &Request) -> usize {
    match r.command {
        Command::Read | Command::Write => size_of(r.len as usize),
        Command::BlockStatus => ANSWER_BYTES,
        _ => PLAIN_BYTES,
    }
}
