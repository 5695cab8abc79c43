//! A driver with bytes: an engine, its memory, its clients, and two devices that answer in any
//! order.
//!
//! A device I/O takes effect when it is executed, and the engine learns of it at once. A write may
//! be on the medium from the moment it was sent. Every answer to a client goes through the
//! [`Model`].

mod faults;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use rand_pcg::Pcg64Mcg;
use seekless_block::{
    Extent, Flags, Op, PAGE_BYTES, PAGE_SECTORS, Request, SECTOR_BYTES, Sectors, SimTime,
};
use seekless_engine::{
    Class, Fault as Told, Guarding, Input, Io, IoFailed, Memory, Mode, Output, RequestId, Target,
    in_guard_region, page_sum,
};

use super::history::{Fault, Slow};
use super::machine::{Machine, Placement, Setup};
use super::medium::{Image, Medium};
use super::model::{Issued, Model, encode};

/// More device I/Os than any request or background work of these sizes needs.
pub(super) const RESTS_WITHIN: usize = 20_000;

struct Client {
    issued: Issued,
    op: Op,
    extent: Extent,
    buffer: Vec<u8>,
}

/// An I/O that was sent and has not taken effect.
struct Sent {
    io: Io,
    /// The medium's ticket of a write or a flush.
    ticket: u64,
    /// The bytes of a write when it was sent.
    bytes: Vec<u8>,
}

/// The knowledge and the actions of clients: they outlive an engine.
#[derive(Clone)]
pub(crate) struct Past {
    pub(crate) model: Model,
    /// The name of the last request.
    last: u64,
    /// The last writes with their names, oldest first.
    writes: Vec<(Extent, u64)>,
    /// The area was wanted to hold newest data at some time.
    pub(super) buffered: bool,
}

impl Past {
    /// The newest bytes of these extents were reported as lost; `None`: of all `home` sectors.
    pub(crate) fn expect_less(&mut self, home: u64, lost: Option<Vec<Extent>>) {
        let all = || vec![Extent::new(0, home)];
        lost.unwrap_or_else(all).into_iter().for_each(|extent| self.model.relax(extent));
    }

    /// The device has another size.
    pub(crate) fn resize(&mut self, sectors: u64) {
        self.model.resize(sectors);
        self.writes.retain(|(extent, _)| extent.end().0 <= sectors);
    }

    /// Somebody else writes these sectors of home: returns the bytes.
    fn by_another(&mut self, extent: Extent) -> Result<Vec<u8>, String> {
        self.last += 1;
        let token = self.last;
        let issued = self.model.issue(Op::Write, extent, Flags::FUA, token);
        self.model.end(issued, &[])?;
        Ok((extent.start.0..extent.end().0).flat_map(|lba| encode(token, lba)).collect())
    }

    /// The same, to devices that nobody uses.
    pub(crate) fn by_another_on(
        &mut self,
        image: &mut Image,
        extent: Extent,
    ) -> Result<(), String> {
        let bytes = self.by_another(extent)?;
        let sectors = &mut image.sectors_mut(Target::Home)[extent.start.0 as usize..];
        for (sector, new) in sectors.iter_mut().zip(bytes.chunks_exact(SECTOR_BYTES as usize)) {
            let mut bytes = [0; SECTOR_BYTES as usize];
            bytes.copy_from_slice(new);
            *sector = Rc::new(bytes);
        }
        Ok(())
    }

    /// Clients of a new device of this many sectors.
    pub(crate) fn new(sectors: u64) -> Self {
        Self { model: Model::new(sectors), last: 0, writes: Vec::new(), buffered: false }
    }
}

/// An engine at work. Errors are findings, in words.
pub(crate) struct World<M> {
    pub(super) machine: M,
    /// The area's generation since its attach.
    pub(super) generation: u64,
    pub(super) medium: Rc<RefCell<Medium>>,
    pub(super) past: Past,
    pub(super) setup: Setup,
    clients: BTreeMap<u64, Client>,
    buffers: Vec<Vec<u8>>,
    slots: Vec<u8>,
    stage: Vec<u8>,
    sent: Vec<Sent>,
    now: u64,
    /// The medium was damaged: a request may fail, but no read may be wrong.
    pub(super) damaged: bool,
    pub(super) failed: bool,
    /// I/Os that take effect only when no others are in flight.
    pub(super) slow: Option<Slow>,
    faults: Vec<Fault>,
    /// A device failed since all was well: a request may fail.
    faulty: bool,
    /// Home failed since all was well.
    home_faulty: bool,
    /// The host forgot sectors that clients may have written.
    forgot: bool,
    /// Failed I/Os.
    pub(super) faults_met: u64,
    /// Clean copies that a write of their home drops.
    pub(super) dropped: u64,
    /// The moves of home's guard; `None` without a guard.
    pub(super) guarding: Option<Guarding>,
    /// The mode that was last wanted.
    pub(super) wants: Mode,
    /// The devices before the attach: a copy of the area that somebody may have kept.
    pub(super) before: Option<Image>,
}

impl<M: Machine> World<M> {
    /// `machine` has been attached to `medium`.
    ///
    /// # Errors
    /// If it breaks a promise before the first request.
    pub(crate) fn new(
        (machine, generation): (M, u64),
        medium: Rc<RefCell<Medium>>,
        past: Past,
        setup: Setup,
    ) -> Result<Self, String> {
        let guarded = setup.placement == Placement::Elsewhere;
        let mut world = Self {
            guarding: machine.guarding(setup.to_drain).filter(|_| guarded),
            wants: if setup.write_back { Mode::WriteBack } else { Mode::WriteThrough },
            machine,
            generation,
            medium,
            past,
            setup,
            clients: BTreeMap::new(),
            buffers: Vec::new(),
            slots: Vec::new(),
            stage: Vec::new(),
            sent: Vec::new(),
            now: 0,
            damaged: false,
            failed: false,
            slow: None,
            faults: Vec::new(),
            faulty: false,
            home_faulty: false,
            forgot: false,
            faults_met: 0,
            dropped: 0,
            before: None,
        };
        world.past.buffered |= world.setup.write_back;
        world.is_kept()?;
        if world.setup.to_drain
            || world.machine.resumes_drain(world.guarding.as_ref(), world.is_guarded())
        {
            world.drain()?;
        }
        Ok(world)
    }

    /// A client's request.
    pub(crate) fn issue(&mut self, op: Op, extent: Extent, flags: Flags) -> Result<(), String> {
        let token = self.past.last + 1;
        if op == Op::Write {
            self.past.writes.push((extent, token));
        }
        self.ask(op, extent, flags, token)
    }

    /// A client repeats its write of `back` writes ago, as one does that is not sure of it.
    pub(crate) fn repeat(&mut self, back: usize) -> Result<(), String> {
        let at = self.past.writes.len().wrapping_sub(1 + back);
        let Some(&(extent, token)) = self.past.writes.get(at) else { return Ok(()) };
        self.ask(Op::Write, extent, Flags::NONE, token)
    }

    fn ask(&mut self, op: Op, extent: Extent, flags: Flags, token: u64) -> Result<(), String> {
        self.past.last += 1;
        let id = self.past.last;
        let data = if matches!(op, Op::Read | Op::Write) { extent.bytes().0 } else { 0 };
        let mut buffer = vec![0; data as usize];
        if op == Op::Write {
            for (lba, sector) in (extent.start.0..).zip(buffer.chunks_mut(SECTOR_BYTES as usize)) {
                sector.copy_from_slice(&encode(token, lba));
            }
        }
        let issued = self.past.model.issue(op, extent, flags, token);
        if op.is_write_like() && self.setup.has_trail() {
            let standing = self.machine.standing();
            self.dropped += standing.iter().filter(|home| home.overlaps(extent)).count() as u64;
        }
        self.clients.insert(id, Client { issued, op, extent, buffer });
        let request = Request { flags, ..Request::new(SimTime(self.now), op, extent) };
        self.handle(Input::Request { id: RequestId(id), request })
    }

    pub(crate) fn handle(&mut self, input: Input) -> Result<(), String> {
        self.now += 1;
        self.machine.handle(SimTime(self.now), input);
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Submit(io) => {
                    self.send(io)?;
                    if self.is_at_once(&io)
                        && let Some(sent) = self.sent.pop()
                    {
                        self.now += 1;
                        let done = self.carry_out(sent, io.id.0 as usize)?;
                        self.machine.handle(SimTime(self.now), done);
                    }
                }
                Output::Move(m) => {
                    let data = self.memory(m.from, m.len)?.to_vec();
                    self.memory(m.to, m.len)?.copy_from_slice(&data);
                }
                Output::Put { page, to } => {
                    let bytes = self.machine.page(page).to_vec();
                    self.memory(to, Sectors(PAGE_SECTORS))?.copy_from_slice(&bytes);
                }
                Output::Zero { to, len } => self.memory(to, len)?.fill(0),
                Output::Sum(sum) => {
                    let bytes =
                        self.memory(sum.from, Sectors(u64::from(sum.pages) * PAGE_SECTORS))?;
                    let sums: Vec<_> = bytes.chunks(PAGE_BYTES as usize).map(page_sum).collect();
                    self.machine.summed(&sums);
                }
                Output::Complete { id, result } => self.complete(id.0, result)?,
            }
        }
        self.move_guard()
    }

    fn send(&mut self, io: Io) -> Result<(), String> {
        let mut sent = Sent { io, ticket: 0, bytes: Vec::new() };
        let mut medium = self.medium.borrow_mut();
        if io.extent.end().0 > medium.current().sectors(io.target).len() as u64 {
            return Err(format!("an I/O past the end of the device: {io:?}"));
        }
        match io.op {
            Op::Read => {}
            Op::Flush => sent.ticket = medium.start_flush(),
            Op::Write => {
                let Some(from) = io.memory else {
                    return Err(format!("a write of nothing: {io:?}"));
                };
                drop(medium);
                sent.bytes = self.memory(from, io.extent.len)?.to_vec();
                sent.ticket =
                    self.medium.borrow_mut().start_write(io.target, io.extent, Some(&sent.bytes));
            }
            Op::Discard | Op::WriteZeroes => {
                let (ends, up) = (self.setup.ends, medium.current().guard.is_some());
                let behind = medium.current().sectors(io.target).len() as u64 - ends;
                // A region keeps its space: there a discard alone changes no byte.
                let zeroed = |lba: u64| {
                    let in_region =
                        io.target == Target::Home && up && !(ends..behind).contains(&lba);
                    !in_region || in_guard_region(io.op) == Op::WriteZeroes
                };
                sent.ticket = medium.start_discard(io.target, io.extent, zeroed);
            }
        }
        self.sent.push(sent);
        Ok(())
    }

    fn memory(&mut self, at: Memory, len: Sectors) -> Result<&mut [u8], String> {
        let slots = self.setup.cache_pages * PAGE_BYTES;
        let (bytes, offset, most) = match at {
            Memory::Client { id, offset } => match self.clients.get_mut(&id.0) {
                Some(client) => {
                    let most = client.buffer.len() as u64;
                    (&mut client.buffer, offset, most)
                }
                None => return Err(format!("memory of a request that is over: {at:?}")),
            },
            Memory::Buffer { index, offset } => {
                while self.buffers.len() <= index as usize {
                    self.buffers.push(Vec::new());
                }
                (&mut self.buffers[index as usize], offset, self.setup.buffer_bytes)
            }
            Memory::Slot { index, offset } => {
                (&mut self.slots, Sectors(u64::from(index) * PAGE_SECTORS + offset.0), slots)
            }
            Memory::Stage { offset } => (&mut self.stage, offset, self.setup.stage_bytes),
        };
        let range = (offset.0 * SECTOR_BYTES) as usize..((offset + len).0 * SECTOR_BYTES) as usize;
        // Allocated on first use.
        if bytes.len() < range.end && range.end as u64 <= most {
            bytes.resize(range.end, 0);
        }
        bytes.get_mut(range).ok_or_else(|| format!("{len} past the end of memory: {at:?}"))
    }

    /// Lets one of the I/Os in flight take effect. False if there is none.
    pub(crate) fn execute(&mut self, which: usize) -> Result<bool, String> {
        if self.sent.is_empty() {
            return Ok(false);
        }
        let sent = self.choose(which);
        let done = self.carry_out(sent, which)?;
        self.handle(done)?;
        Ok(true)
    }

    /// Lets an I/O take effect; returns the engine's input.
    fn carry_out(&mut self, sent: Sent, which: usize) -> Result<Input, String> {
        if let Some(fault) = self.faults.iter().position(|f| f.hits(&sent.io)) {
            return self.fail(sent, fault, which);
        }
        let Sent { io, ticket, bytes } = sent;
        let mut result = Ok(());
        match (io.op, io.memory) {
            (Op::Read, Some(to)) => {
                self.now += if io.target == Target::Home { self.setup.home_nanos } else { 0 };
                let mut data = vec![0; io.extent.bytes().0 as usize];
                if !self.medium.borrow().read(io.target, io.extent, &mut data) {
                    result = Err(IoFailed);
                }
                self.memory(to, io.extent.len)?.copy_from_slice(&data);
            }
            (Op::Write, Some(from)) => {
                if self.memory(from, io.extent.len)? != bytes {
                    return Err(format!("its bytes changed while it was in flight: {io:?}"));
                }
                self.medium.borrow_mut().finish_write(ticket, io.flags);
            }
            (Op::Discard | Op::WriteZeroes, _) => {
                self.medium.borrow_mut().finish_write(ticket, io.flags);
            }
            (Op::Flush, _) => {
                let told = io.class == Class::Foreground;
                self.medium.borrow_mut().finish_flush(io.target, ticket, told);
            }
            _ => return Err(format!("an I/O that makes no sense: {io:?}")),
        }
        Ok(Input::Done { io: io.id, result })
    }

    /// Whether an I/O takes effect at once, before the engine is polled again, as with the host's
    /// page cache. Any choice that varies will do.
    fn is_at_once(&self, io: &Io) -> bool {
        let quick = matches!(io.op, Op::Read | Op::Write) && !io.flags.contains(Flags::FUA);
        let some = (self.now ^ u64::from(io.id.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62;
        self.setup.at_once && quick && some > 0 && self.slow.is_none_or(|slow| !slow.is(io))
    }

    /// One of the I/Os in flight; a slow one only if there are no others.
    fn choose(&mut self, which: usize) -> Sent {
        let quick = |s: &Sent| self.slow.is_none_or(|slow| !slow.is(&s.io));
        let many = self.sent.iter().filter(|s| quick(s)).count();
        let at = match which.checked_rem(many) {
            Some(nth) => self.sent.iter().enumerate().filter(|(_, s)| quick(s)).nth(nth),
            None => None,
        };
        let at = at.map_or(which % self.sent.len(), |(at, _)| at);
        self.sent.swap_remove(at)
    }

    fn complete(&mut self, id: u64, result: Result<(), Told>) -> Result<(), String> {
        let Some(client) = self.clients.remove(&id) else {
            return Err(format!("request {id} ended, and was not asked or had ended before"));
        };
        let Client { issued, op, extent, buffer } = client;
        match result {
            Ok(()) => self.past.model.end(issued, if op == Op::Read { &buffer } else { &[] }),
            // All data is at home, and home works.
            Err(fault) if self.faulty && !self.home_faulty && self.is_home_enough() => {
                Err(format!(
                    "the area fails and home does not, and {op:?} of {extent} failed: {fault:?}"
                ))
            }
            Err(_) if self.faulty => {
                self.past.model.fail(issued);
                if op == Op::Flush && self.forgot {
                    self.past.model.doubt();
                }
                Ok(())
            }
            Err(_) if self.damaged || self.may_fail(issued) => {
                self.failed = true;
                self.past.model.fail(issued);
                Ok(())
            }
            Err(fault) => Err(format!("{op:?} of {extent} failed: {fault:?}")),
        }
    }

    /// Whether home always had the newest bytes, and no other bytes that clients do not see.
    const fn is_home_enough(&self) -> bool {
        !self.past.buffered && self.setup.replicas == 0
    }

    /// Lets the time pass that the engine waits for. False if it waits for nothing.
    pub(crate) fn pass(&mut self) -> Result<bool, String> {
        let Some(at) = self.machine.wakeup() else { return Ok(false) };
        self.now = self.now.max(at.0);
        self.handle(Input::Tick)?;
        Ok(true)
    }

    /// Executes one I/O, or lets time pass if none is in flight. False if there is nothing to wait
    /// for. `order` chooses.
    pub(crate) fn advance(&mut self, order: u64) -> Result<bool, String> {
        // Any order that varies will do.
        let which = order.wrapping_mul(self.now | 1).rotate_right(7) as usize;
        Ok(self.execute(which)? || self.pass()?)
    }

    /// Executes all I/Os in flight and all that follow. An engine with a damaged area may try for
    /// ever, but no request may wait for that.
    pub(crate) fn rest(&mut self, order: u64) -> Result<(), String> {
        for steps in 0..RESTS_WITHIN {
            let enough = steps >= RESTS_WITHIN / 20 && self.clients.is_empty();
            if enough && self.tries_for_ever() || !self.advance(order)? {
                break;
            }
        }
        if let Some((id, c)) = self.clients.iter().next() {
            return Err(format!("request {id} never ends: {:?} of {}", c.op, c.extent));
        }
        if self.tries_for_ever() || self.sent.is_empty() && self.machine.wakeup().is_none() {
            Ok(())
        } else {
            Err("its work does not end".to_owned())
        }
    }

    fn tries_for_ever(&self) -> bool {
        self.damaged || self.may_never_drain()
    }

    /// Reads every sector, in pieces of `len`.
    pub(crate) fn read_all(&mut self, len: u64, order: u64) -> Result<(), String> {
        let end = self.past.model.len();
        for start in (0..end).step_by(len as usize) {
            self.issue(Op::Read, Extent::span(start, end.min(start + len)), Flags::NONE)?;
            while self.clients.len() > 2 && self.advance(order)? {}
        }
        self.rest(order)
    }

    /// Everything ended, and the engine was stopped in order.
    pub(crate) fn stopped(&mut self) {
        if self.forgot {
            // No client has asked for a flush.
            self.past.model.doubt();
        }
        self.past.model.stopped();
        self.expect_readable();
    }

    /// Somebody else writes home, durably.
    pub(crate) fn by_another(&mut self, extent: Extent) -> Result<(), String> {
        let bytes = self.past.by_another(extent)?;
        let mut medium = self.medium.borrow_mut();
        let ticket = medium.start_write(Target::Home, extent, Some(&bytes));
        medium.finish_write(ticket, Flags::FUA);
        Ok(())
    }

    /// The power fails: the contents of the devices, chosen by `rng`, and the clients'
    /// expectations.
    pub(crate) fn cut(&self, rng: &mut Pcg64Mcg) -> (Image, Past) {
        let mut past = self.past.clone();
        past.model.crash();
        (self.medium.borrow().crash(rng), past)
    }

    /// The engine dies and the devices live on: their contents, and the clients' expectations. If
    /// home `alone` always was complete, every ended write is there. Otherwise the area may lack
    /// news of a write, and the promises are those of a power failure.
    pub(crate) fn killed(&self, alone: bool, rng: &mut Pcg64Mcg) -> (Image, Past) {
        let mut past = self.past.clone();
        if alone {
            past.model.killed();
        } else {
            past.model.killed_with_losses();
        }
        (self.medium.borrow().kill(rng), past)
    }

    /// Whether the scrub finds no damage where no device failed. A copy whose bytes a crash kept from
    /// the area is no damage.
    pub(crate) fn is_sound(&self) -> Result<(), String> {
        let found = self.machine.scrubbed();
        let lost = if self.past.model.has_unreadable() { 0 } else { found.lost };
        if !self.damaged && self.faults_met == 0 && found.metadata + lost > 0 {
            return Err(format!("in a sound area the scrub finds damage: {found:?}"));
        }
        Ok(())
    }

    /// Whether home alone, without the engine, has the clients' data. Nothing is in flight.
    pub(crate) fn bare_home(&self) -> Result<(), String> {
        let medium = self.medium.borrow();
        let stained = self.machine.stained();
        for (lba, sector) in medium.current().sectors(Target::Home).iter().enumerate() {
            let replica = stained.iter().any(|e| e.contains(Extent::new(lba as u64, 1)));
            if replica {
                continue;
            }
            self.past
                .model
                .current(lba as u64, &sector[..])
                .map_err(|e| format!("bare home: {e}"))?;
        }
        Ok(())
    }
}
