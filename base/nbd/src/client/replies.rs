//! The server's replies, simple and structured: parses them and checks them against their requests.

use super::{ClientEvent, ClientSession, ClientState, Pending, StepResult};
use crate::error::{Violation, ViolationKind};
use crate::wire::{
    CHUNK_BLOCK_STATUS, CHUNK_BYTES, CHUNK_DATA, CHUNK_DONE, CHUNK_ERROR_BIT, CHUNK_HOLE,
    CHUNK_MAGIC, CHUNK_NONE, Command, Errno, Fields, SIMPLE_REPLY_BYTES, SIMPLE_REPLY_MAGIC,
};

impl ClientSession {
    pub(super) fn reply(&mut self, input: &[u8]) -> StepResult {
        match self.state {
            ClientState::Data { slot, at, left, last } => {
                let n = left.min(u32::try_from(input.len()).unwrap_or(u32::MAX));
                if n == 0 {
                    return Ok((0, ClientEvent::More(1)));
                }
                self.state = if n < left {
                    ClientState::Data { slot, at: at + n, left: left - n, last }
                } else {
                    after(slot, last)
                };
                let cookie = self.pending.get(slot).map_or(0, |p| p.cookie);
                Ok((n as usize, ClientEvent::Data { cookie, at }))
            }
            ClientState::Skip { slot, left, last } => {
                let n = left.min(u32::try_from(input.len()).unwrap_or(u32::MAX));
                if n == 0 && left > 0 {
                    return Ok((0, ClientEvent::More(1)));
                }
                self.state = if n < left {
                    ClientState::Skip { slot, left: left - n, last }
                } else {
                    after(slot, last)
                };
                Ok((n as usize, ClientEvent::Nothing))
            }
            ClientState::Runs { slot, left, last } => self.run(input, slot, left, last),
            ClientState::End { slot } => self.end(slot),
            _ => match Fields(input).u32() {
                None => Ok((0, ClientEvent::More(SIMPLE_REPLY_BYTES))),
                Some(SIMPLE_REPLY_MAGIC) => self.simple(input),
                Some(CHUNK_MAGIC) if self.structured => self.chunk(input),
                Some(found) => Err(self.violation(ViolationKind::Magic {
                    what: "a reply",
                    expected: SIMPLE_REPLY_MAGIC.into(),
                    found: found.into(),
                })),
            },
        }
    }

    fn find(&self, cookie: u64) -> Result<(usize, Pending), Violation> {
        let slot = (cookie & u64::from(u32::MAX)) as usize;
        self.pending
            .get(slot)
            .filter(|p| p.active && p.cookie == cookie)
            .map(|p| (slot, *p))
            .ok_or_else(|| self.violation(ViolationKind::UnknownCookie(cookie)))
    }

    fn simple(&mut self, input: &[u8]) -> StepResult {
        let mut f = Fields(input);
        let (Some(_), Some(error), Some(cookie)) = (f.u32(), f.u32(), f.u64()) else {
            return Ok((0, ClientEvent::More(SIMPLE_REPLY_BYTES)));
        };
        let (slot, p) = self.find(cookie)?;
        if matches!(p.command, Command::Read | Command::BlockStatus) && self.structured {
            return Err(self.violation(ViolationKind::BadChunk { kind: 0, len: 0 }));
        }
        self.set_error(slot, Errno::from_wire(error));
        self.state = if p.command == Command::Read && error == 0 && p.len > 0 {
            self.add_received(slot, p.len);
            ClientState::Data { slot, at: 0, left: p.len, last: true }
        } else {
            ClientState::End { slot }
        };
        Ok((SIMPLE_REPLY_BYTES, ClientEvent::Nothing))
    }

    fn chunk(&mut self, input: &[u8]) -> StepResult {
        let mut f = Fields(input);
        let (Some(_), Some(flags), Some(kind), Some(cookie), Some(len)) =
            (f.u32(), f.u16(), f.u16(), f.u64(), f.u32())
        else {
            return Ok((0, ClientEvent::More(CHUNK_BYTES)));
        };
        let (slot, p) = self.find(cookie)?;
        let bad = self.violation(ViolationKind::BadChunk { kind, len });
        let last = flags & CHUNK_DONE != 0;
        match kind {
            CHUNK_NONE => {
                if len != 0 || !last {
                    return Err(bad);
                }
                self.state = ClientState::End { slot };
                Ok((CHUNK_BYTES, ClientEvent::Nothing))
            }
            CHUNK_DATA => {
                let data = len.checked_sub(8).filter(|&n| n > 0).ok_or(bad)?;
                let Some(offset) = f.u64() else {
                    return Ok((0, ClientEvent::More(CHUNK_BYTES + 8)));
                };
                let at = self.place(slot, &p, offset, data).ok_or(bad)?;
                self.state = ClientState::Data { slot, at, left: data, last };
                Ok((CHUNK_BYTES + 8, ClientEvent::Nothing))
            }
            CHUNK_HOLE => {
                if len != 12 {
                    return Err(bad);
                }
                let (Some(offset), Some(hole)) = (f.u64(), f.u32()) else {
                    return Ok((0, ClientEvent::More(CHUNK_BYTES + 12)));
                };
                let at = self.place(slot, &p, offset, hole).ok_or(bad)?;
                self.state = after(slot, last);
                Ok((CHUNK_BYTES + 12, ClientEvent::Zeroes { cookie, at, len: hole }))
            }
            CHUNK_BLOCK_STATUS => {
                let runs = len.checked_sub(4).filter(|&n| n > 0 && n % 8 == 0).ok_or(bad)?;
                let Some(context) = f.u32() else {
                    return Ok((0, ClientEvent::More(CHUNK_BYTES + 4)));
                };
                if p.command != Command::BlockStatus || self.context != Some(context) {
                    return Err(bad);
                }
                self.state = ClientState::Runs { slot, left: runs, last };
                Ok((CHUNK_BYTES + 4, ClientEvent::Nothing))
            }
            _ if kind & CHUNK_ERROR_BIT != 0 => self.error_chunk(f, slot, len, last, bad),
            _ => Err(bad),
        }
    }

    /// An error chunk with `len` bytes of payload, of which `f` holds the front.
    fn error_chunk(
        &mut self,
        mut f: Fields<'_>,
        slot: usize,
        len: u32,
        last: bool,
        bad: Violation,
    ) -> StepResult {
        let rest = len.checked_sub(6).ok_or(bad)?;
        let (Some(error), Some(message)) = (f.u32(), f.u16()) else {
            return Ok((0, ClientEvent::More(CHUNK_BYTES + 6)));
        };
        let errno = Errno::from_wire(error).ok_or(bad)?;
        if u32::from(message) > rest {
            return Err(bad);
        }
        self.set_error(slot, Some(errno));
        self.state = ClientState::Skip { slot, left: rest, last };
        Ok((CHUNK_BYTES + 6, ClientEvent::Nothing))
    }

    /// Offset of a content chunk inside its read request. Counts the bytes of the chunk as
    /// received. `None` if the chunk does not fit the request.
    fn place(&mut self, slot: usize, p: &Pending, offset: u64, len: u32) -> Option<u32> {
        let at = u32::try_from(offset.checked_sub(p.offset)?).ok()?;
        let fits = p.command == Command::Read
            && len > 0
            && at.checked_add(len)? <= p.len
            && p.received.checked_add(len)? <= p.len;
        self.add_received(slot, len);
        fits.then_some(at)
    }

    fn run(&mut self, input: &[u8], slot: usize, left: u32, last: bool) -> StepResult {
        let mut f = Fields(input);
        let (Some(len), Some(state)) = (f.u32(), f.u32()) else {
            return Ok((0, ClientEvent::More(8)));
        };
        let bad = self.violation(ViolationKind::BadChunk { kind: CHUNK_BLOCK_STATUS, len: left });
        let p = self.pending.get(slot).ok_or(bad)?;
        let cookie = p.cookie;
        if len == 0 || p.received.checked_add(len).is_none_or(|sum| sum > p.len) {
            return Err(bad);
        }
        self.add_received(slot, len);
        self.state = if left > 8 {
            ClientState::Runs { slot, left: left - 8, last }
        } else {
            after(slot, last)
        };
        Ok((8, ClientEvent::Status { cookie, len, state }))
    }

    fn end(&mut self, slot: usize) -> StepResult {
        self.state = ClientState::Replies;
        let Some(p) = self.pending.get_mut(slot) else {
            return Ok((0, ClientEvent::Nothing));
        };
        p.active = false;
        let p = *p;
        self.free.push(slot);
        if p.error.is_none() && p.command == Command::Read && p.received != p.len {
            let short = ViolationKind::ShortRead { expected: p.len, found: p.received };
            return Err(self.violation(short));
        }
        Ok((0, ClientEvent::Done { cookie: p.cookie, result: p.error.map_or(Ok(()), Err) }))
    }

    fn add_received(&mut self, slot: usize, n: u32) {
        if let Some(p) = self.pending.get_mut(slot) {
            p.received = p.received.saturating_add(n);
        }
    }

    fn set_error(&mut self, slot: usize, error: Option<Errno>) {
        if let Some(p) = self.pending.get_mut(slot) {
            p.error = p.error.or(error);
        }
    }
}

/// The state after the body of a chunk.
const fn after(slot: usize, last: bool) -> ClientState {
    if last { ClientState::End { slot } } else { ClientState::Replies }
}
