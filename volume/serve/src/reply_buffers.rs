//! Pending output of one client: small replies in one run of bytes, large payloads in their own
//! buffers, in order.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};

use crate::buffers::Buffers;

/// A buffer for small replies that is too short grows by this.
const GROWTH_BYTES: usize = 4096;
/// Most pieces per call.
const PIECES: usize = 16;

/// A large payload.
#[derive(Debug)]
struct LargePayload {
    /// Precedes this byte of the small replies.
    before: usize,
    data: Vec<u8>,
    len: usize,
    sent: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Out {
    /// Always of full length: `sent .. filled` is pending.
    small: Vec<u8>,
    sent: usize,
    filled: usize,
    large: VecDeque<LargePayload>,
    large_bytes: usize,
    /// Memory of the large payloads.
    large_held: usize,
    /// Usual length of the buffer for small replies.
    room: usize,
    /// Bytes sent so far.
    pub(crate) carried: u64,
}

impl Out {
    /// Small replies have a buffer of `room` bytes.
    pub(crate) fn new(room: usize) -> Self {
        let large = VecDeque::with_capacity(16);
        Self { small: vec![0; room], large, room, ..Self::default() }
    }

    pub(crate) const fn pending(&self) -> usize {
        self.filled - self.sent + self.large_bytes
    }

    /// Memory of pending bytes, beyond the usual buffer.
    pub(crate) fn held(&self) -> usize {
        self.small.len().saturating_sub(self.room) + self.large_held
    }

    /// Gives back the memory of unsent payloads.
    pub(crate) fn end(self, buffers: &mut Buffers) {
        self.large.into_iter().for_each(|large| buffers.give(large.data));
    }

    /// Whether the buffer for small replies takes this number of bytes.
    pub(crate) const fn takes(&self, len: usize) -> bool {
        self.filled - self.sent + len <= self.room
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        let end = self.filled + bytes.len();
        if let Some(dst) = self.small.get_mut(self.filled..end) {
            dst.copy_from_slice(bytes);
            self.filled = end;
        }
    }

    /// A buffer of `len` bytes at the end, to fill and then keep with [`Self::keep`]. Its content
    /// is undefined.
    #[inline]
    pub(crate) fn room(&mut self, len: usize) -> &mut [u8] {
        self.make_room(len);
        self.small.get_mut(self.filled..self.filled + len).unwrap_or_default()
    }

    /// Appends the first `len` bytes of that buffer.
    pub(crate) fn keep(&mut self, len: usize) {
        self.filled = (self.filled + len).min(self.small.len());
    }

    /// Appends the first `len` bytes of a buffer without copying them.
    pub(crate) fn push_large(&mut self, data: Vec<u8>, len: usize) {
        self.large_bytes += len;
        self.large_held += data.len();
        self.large.push_back(LargePayload { before: self.filled, data, len, sent: 0 });
    }

    #[inline]
    fn make_room(&mut self, len: usize) {
        if self.filled + len > self.small.len() {
            self.compact(len);
        }
    }

    /// Moves pending bytes to the front, and grows if that is not enough. The limit on requests in
    /// flight makes growth rare and small.
    #[cold]
    fn compact(&mut self, len: usize) {
        self.small.copy_within(self.sent..self.filled, 0);
        for large in &mut self.large {
            large.before -= self.sent;
        }
        self.filled -= self.sent;
        self.sent = 0;
        if self.filled + len > self.small.len() {
            let longer = (self.filled + len).next_multiple_of(GROWTH_BYTES);
            self.small.reserve_exact(longer - self.small.len());
            self.small.resize(longer, 0);
        }
    }

    /// Sends as much as the socket takes. True if nothing is left.
    pub(crate) fn flush(
        &mut self,
        fd: BorrowedFd<'_>,
        buffers: &mut Buffers,
    ) -> Result<bool, Errno> {
        while self.pending() > 0 {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let sent = if self.large.is_empty() {
                let waiting = self.small.get(self.sent..self.filled).unwrap_or_default();
                rustix::net::send(fd, waiting, flags)
            } else {
                let mut pieces = [IoSlice::new(&[]); PIECES];
                let n = self.pieces(&mut pieces);
                let pieces = pieces.get(..n).unwrap_or_default();
                rustix::net::sendmsg(fd, pieces, &mut SendAncillaryBuffer::default(), flags)
            };
            match sent {
                Ok(n) => self.advance(n, buffers),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Collects the first pieces of the stream; returns their number.
    fn pieces<'a>(&'a self, pieces: &mut [IoSlice<'a>; PIECES]) -> usize {
        let mut n = 0;
        let mut add = |bytes: Option<&'a [u8]>| {
            if let (Some(slot), Some(bytes)) = (pieces.get_mut(n), bytes)
                && !bytes.is_empty()
            {
                *slot = IoSlice::new(bytes);
                n += 1;
            }
        };
        let mut at = self.sent;
        for large in self.large.iter().take(PIECES / 2) {
            add(self.small.get(at..large.before));
            add(large.data.get(large.sent..large.len));
            at = large.before;
        }
        if self.large.len() < PIECES / 2 {
            add(self.small.get(at..self.filled));
        }
        n
    }

    /// Drops the first `n` bytes of the stream.
    fn advance(&mut self, mut n: usize, buffers: &mut Buffers) {
        self.carried += n as u64;
        while let Some(large) = self.large.front_mut() {
            let small = n.min(large.before - self.sent);
            self.sent += small;
            n -= small;
            let part = n.min(large.len - large.sent);
            large.sent += part;
            n -= part;
            self.large_bytes -= part;
            if large.sent < large.len || self.sent < large.before {
                return;
            }
            if let Some(large) = self.large.pop_front() {
                self.large_held -= large.data.len();
                buffers.give(large.data);
            }
        }
        self.sent += n;
        if self.sent == self.filled {
            self.sent = 0;
            self.filled = 0;
            if self.small.len() > self.room {
                self.small = vec![0; self.room];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_stream_keeps_its_order(parts in prop::collection::vec((0usize..300_000, any::<bool>()), 1..12)) {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.set_nonblocking(true).unwrap();
            let (mut out, mut buffers) = (Out::new(64 << 10), Buffers::new(64 << 20));
            let (mut expected, mut got) = (Vec::new(), Vec::new());
            let mut buf = vec![0; 100_000];
            for (i, (len, large)) in parts.into_iter().enumerate() {
                let part: Vec<u8> = (0..len).map(|b| (b * 7 + i) as u8).collect();
                expected.extend_from_slice(&part);
                if large {
                    let mut data = buffers.take(len);
                    data[..len].copy_from_slice(&part);
                    out.push_large(data, len);
                } else if len % 2 == 0 {
                    out.room(len + 3)[..len].copy_from_slice(&part);
                    out.keep(len);
                } else {
                    out.push(&part);
                }
                out.flush(ours.as_fd(), &mut buffers).unwrap();
                if let Ok(n) = theirs.read(&mut buf) {
                    got.extend_from_slice(&buf[..n]);
                }
                prop_assert_eq!(expected.len() - out.pending() >= got.len(), true);
            }
            while got.len() < expected.len() {
                out.flush(ours.as_fd(), &mut buffers).unwrap();
                if let Ok(n) = theirs.read(&mut buf) {
                    got.extend_from_slice(&buf[..n]);
                }
            }
            prop_assert!(out.flush(ours.as_fd(), &mut buffers).unwrap());
            prop_assert_eq!(out.held(), 0);
            prop_assert_eq!(out.pending(), 0);
            prop_assert!(got == expected);
        }
    }
}
