//! Clients that wait for memory, and clients that keep others waiting.

use std::time::Instant;

use super::{Server, key_of};
use crate::conn::Conn;
use crate::payload::STALL_MOST;

impl Server {
    /// The client that waits longest for memory, if there is some for it now. A client that must
    /// first take its replies does not keep others waiting.
    pub(super) fn next_admitted(&mut self) -> Option<usize> {
        let pool = &mut self.volume.memories.payload;
        while let Some(token) = pool.first() {
            match self.conns.get(key_of(token)) {
                Some(conn) if !conn.is_full() => {
                    return conn.can_resume(pool).then_some(key_of(token));
                }
                _ => pool.withdraw(token),
            }
        }
        None
    }

    /// Drops clients that hold memory for which others wait, and neither send nor take anything.
    pub(super) fn end_stalls(&mut self, now: Instant) {
        match self.volume.memories.payload.waits_since(now) {
            None => {}
            Some(Err(())) => self.conns.iter_mut().for_each(|(_, c)| c.mark_carried()),
            Some(Ok(since)) if now.duration_since(since) >= STALL_MOST => {
                let stalled = |(key, c): (usize, &Conn)| c.stalls().then_some(key);
                let stalled: Vec<usize> = self.conns.iter().filter_map(stalled).collect();
                stalled.into_iter().for_each(|key| self.drop_conn(key));
                self.volume.memories.payload.wait_again(now);
                self.conns.iter_mut().for_each(|(_, c)| c.mark_carried());
            }
            Some(Ok(_)) => {}
        }
    }
}
