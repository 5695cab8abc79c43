//! Clients that come and go.

use std::sync::Arc;
use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno as HostErrno;

use super::{CLIENTS_MAX, Server, key_of};
use crate::conn::Conn;
use crate::listen::{Accepted, Peer};

/// Most clients of one machine or of one other user.
const PEER_CLIENTS_MAX: usize = CLIENTS_MAX / 4;

impl Server {
    pub(super) fn accept(&mut self, index: usize) {
        let Some(listener) = self.listeners.get(index) else { return };
        match listener.accept() {
            Ok(client) => self.admit(client),
            Err(HostErrno::MFILE | HostErrno::NFILE | HostErrno::NOBUFS | HostErrno::NOMEM) => {
                // Until a client leaves, or for a moment: otherwise the loop would spin.
                self.deaf = Some(Instant::now());
                for listener in &self.listeners {
                    let _ = epoll::delete(&self.epoll, listener.fd());
                }
            }
            // The client has gone again, or may not connect.
            Err(_) => {}
        }
    }

    /// Serves a client, unless too many are served already.
    pub(super) fn admit(&mut self, client: Accepted) {
        let of_peer = |peer: Peer| self.conns.iter().filter(|(_, c)| c.peer == Some(peer)).count();
        if self.conns.len() >= CLIENTS_MAX
            || self.stopping
            || self.volume.memories.payload.is_swamped()
            || client.peer.is_some_and(|peer| of_peer(peer) >= PEER_CLIENTS_MAX)
        {
            return;
        }
        self.served = (self.served + 1) & 0x7FFF_FFFF;
        let entry = self.conns.vacant_entry();
        let key = entry.key();
        let token = self.served << 32 | key as u64;
        let data = EventData::new_u64(token);
        let mut conn = Conn::new(client, token, Arc::clone(&self.exports), self.share);
        conn.failures_heard = self.volume.failed_flushes();
        conn.watched = EventFlags::IN;
        if epoll::add(&self.epoll, conn.fd(), data, EventFlags::IN).is_ok() {
            entry.insert(conn);
            self.greeting.push_back((Instant::now() + self.greeting_most, token));
            self.mark(key);
        }
    }

    /// Drops clients that have not chosen an export in time: silent ones would keep others out.
    pub(super) fn end_greetings(&mut self) {
        while let Some(&(end, token)) = self.greeting.front() {
            let key = key_of(token);
            let conn = self.conns.get(key).filter(|c| c.token() == token && c.is_greeting());
            if conn.is_some() {
                if Instant::now() < end {
                    return;
                }
                self.drop_conn(key);
            }
            self.greeting.pop_front();
        }
    }

    /// Drops a client. Its requests in flight end without it.
    pub(super) fn drop_conn(&mut self, key: usize) {
        if let Some(conn) = self.conns.try_remove(key) {
            let _ = epoll::delete(&self.epoll, conn.fd());
            conn.end(&mut self.volume);
            if self.deaf.is_some() {
                self.listen();
            }
        }
    }
}
