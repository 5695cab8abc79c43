//! The smallest engine: every request goes home, and a copy of one page stands in the area. Each of
//! its mistakes is one of real engines; the enumerator must find it.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::ops::Range;

use crate::enumerator::{Disk, Machine, Mended, Refused, Setup};
use seekless_block::Sectors;
use seekless_block::{Device, Extent, Flags, Op, SECTOR_BYTES, SimTime, StreamId};
use seekless_engine::{Class, Fault, Input, Io, IoId, Memory, Output, Proof, RequestId, Target};

/// Its mistake.
#[repr(u8)]
pub(crate) enum Wrong {
    Nothing,
    /// A flush ends without one of the device.
    FlushLies,
    /// FUA is dropped.
    FuaForgotten,
    /// A write ends when it is sent.
    EndsEarly,
    /// Reads of the copied page go on after a write of it.
    StaleCopy,
    /// The area's copy is written home at attach, though home is newer.
    RecoveryGoesBack,
    /// Recovery writes home before its data is safe elsewhere.
    RecoveryIsTorn,
    /// The copy is read without a checksum.
    TrustsTheArea,
    /// Writes of an odd sector go one sector too far.
    Misplaced,
    /// A write of the last sector.
    Panics,
    /// The third flush.
    NeverEnds,
}

/// The copied page: home's second, at the area's fourth.
const COPIED: Extent = Extent::new(8, 8);
const COPY: Extent = Extent::new(24, 8);

#[derive(Default)]
pub(crate) struct Toy<const WRONG: u8> {
    home: u64,
    copied: bool,
    detached: bool,
    /// `None`: nobody waits for it.
    requests: BTreeMap<u32, Option<(RequestId, Extent)>>,
    /// The last flush failed.
    trouble: bool,
    flushes: u32,
    next: u32,
    out: VecDeque<Output>,
}

const fn is(wrong: u8, which: Wrong) -> bool {
    wrong == which as u8
}

fn sum(page: &[u8]) -> [u8; 8] {
    page.chunks(8)
        .fold(0u64, |sum, c| {
            (sum ^ u64::from_le_bytes(c.try_into().unwrap()))
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(29)
        })
        .to_le_bytes()
}

impl<const WRONG: u8> Toy<WRONG> {
    fn last_flush(&mut self) {
        let io = Io {
            id: IoId(self.next),
            target: Target::Home,
            op: Op::Flush,
            extent: Extent::default(),
            flags: Flags::NONE,
            class: Class::Foreground,
            stream: StreamId(0),
            memory: None,
        };
        self.next += 1;
        self.requests.insert(io.id.0, None);
        self.out.push_back(Output::Submit(io));
    }
}

impl<const WRONG: u8> Machine for Toy<WRONG> {
    fn format(_: &Setup, area: &mut Disk, _: u8) -> Result<(), String> {
        area.write_zeroes(Extent::new(0, 32)).and_then(|()| area.flush()).map_err(|e| e.to_string())
    }

    fn resize(setup: &Setup, area: &mut Disk) -> Result<bool, String> {
        Self::format(setup, area, 1).map(|()| true)
    }

    fn repair(_: &mut Disk, _: bool) -> Result<Mended, String> {
        Ok(Mended::But(Some(Vec::new())))
    }

    /// The copy is made again, whatever stood there.
    fn attach(
        setup: &Setup,
        area: &mut Disk,
        home: &mut Disk,
        _: &Proof,
    ) -> Result<(Self, u64, bool), Refused> {
        let mut page = vec![0; COPIED.bytes().0 as usize];
        let mut work = || {
            let sum_at = Extent::new(0, 1);
            let mut stored = vec![0; SECTOR_BYTES as usize];
            let read = area.read(COPY, &mut page).and_then(|()| area.read(sum_at, &mut stored));
            let holds = read.is_ok() && stored[..8] == sum(&page) && page.iter().any(|&b| b != 0);
            if holds && is(WRONG, Wrong::RecoveryGoesBack) {
                home.write(COPIED, &page)?;
            } else if is(WRONG, Wrong::RecoveryIsTorn) {
                let mut now = vec![0; page.len()];
                home.read(COPIED, &mut now)?;
                home.write_zeroes(COPIED)?;
                home.flush()?;
                home.write(COPIED, &now)?;
            }
            if !is(WRONG, Wrong::TrustsTheArea) || !holds {
                home.read(COPIED, &mut page)?;
                area.write(COPY, &page)?;
                stored[..8].copy_from_slice(&sum(&page));
                area.write(sum_at, &stored)?;
            }
            area.flush()
        };
        work().map_err(|e| Refused::Other(e.to_string()))?;
        Ok((Self { home: setup.home, copied: true, ..Self::default() }, 0, false))
    }

    fn room(&self) -> u64 {
        64
    }

    fn says_why(&self) -> bool {
        self.trouble
    }

    fn is_detached(&self) -> bool {
        self.detached && self.requests.is_empty()
    }

    fn summed(&mut self, _: &[seekless_engine::PageSum]) {}

    fn log(_: &Setup) -> Range<u64> {
        0..0
    }

    fn check(_: &mut Disk) -> Vec<String> {
        Vec::new()
    }

    fn handle(&mut self, _: SimTime, input: Input) {
        match input {
            Input::Request { id, request } => {
                let end = Output::Complete { id, result: Ok(()) };
                if request.op == Op::Flush {
                    self.flushes += 1;
                    if is(WRONG, Wrong::FlushLies)
                        || is(WRONG, Wrong::NeverEnds) && self.flushes == 3
                    {
                        if is(WRONG, Wrong::FlushLies) {
                            self.out.push_back(end);
                        }
                        return;
                    }
                }
                let mut io = Io {
                    id: IoId(self.next),
                    target: Target::Home,
                    op: request.op,
                    extent: request.extent,
                    flags: if is(WRONG, Wrong::FuaForgotten) { Flags::NONE } else { request.flags },
                    class: Class::Foreground,
                    stream: StreamId(0),
                    memory: matches!(request.op, Op::Read | Op::Write)
                        .then_some(Memory::Client { id, offset: Sectors(0) }),
                };
                self.next += 1;
                if io.op.is_write_like()
                    && io.extent.overlaps(COPIED)
                    && !is(WRONG, Wrong::StaleCopy)
                {
                    self.copied = false;
                }
                if io.op == Op::Read && self.copied && COPIED.contains(io.extent) {
                    io.target = Target::Area;
                    io.extent.start = COPY.start + (io.extent.start - COPIED.start);
                }
                if is(WRONG, Wrong::Misplaced) && io.op == Op::Write && io.extent.start.0 % 2 == 1 {
                    io.extent.start.0 = (io.extent.start.0 + 1).min(self.home - io.extent.len.0);
                }
                assert!(
                    !is(WRONG, Wrong::Panics)
                        || io.op != Op::Write
                        || io.extent.end().0 < self.home
                );
                let early = is(WRONG, Wrong::EndsEarly) && io.op == Op::WriteZeroes;
                self.requests.insert(io.id.0, (!early).then_some((id, request.extent)));
                self.out.push_back(Output::Submit(io));
                if early {
                    self.out.push_back(end);
                }
            }
            Input::Done { io, result } => {
                if let Some((id, extent)) = self.requests.remove(&io.0).unwrap() {
                    let result = result.map_err(|_| Fault::Device(extent));
                    self.out.push_back(Output::Complete { id, result });
                } else if self.detached && result.is_err() {
                    self.trouble = true;
                    self.last_flush();
                }
            }
            Input::Detach { .. } => {
                self.detached = true;
                self.last_flush();
            }
            _ => {}
        }
    }

    fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }
}
