//! Devices that fail, and the consequences that the promises allow.

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use seekless_block::{Extent, Flags, Op};
use seekless_engine::{Input, IoFailed, Target};

use super::super::history::Fault;
use super::super::machine::Machine;
use super::super::model::Issued;
use super::{Sent, World};

impl<M: Machine> World<M> {
    /// The device fails the I/O.
    pub(super) fn fail(&mut self, sent: Sent, fault: usize, seed: usize) -> Result<Input, String> {
        let Sent { io, ticket, .. } = sent;
        self.faulty = true;
        self.home_faulty |= io.target == Target::Home;
        self.faults_met += 1;
        if let Some(left) = &mut self.faults[fault].left {
            *left -= 1;
            if *left == 0 {
                self.faults.swap_remove(fault);
            }
        }
        let mut rng = Pcg64Mcg::seed_from_u64(seed as u64 ^ self.now);
        match (io.op, io.memory) {
            (Op::Read, Some(to)) => self.memory(to, io.extent.len)?.fill(0xEE),
            (Op::Flush, _) => self.medium.borrow_mut().fail_flush(ticket),
            _ => self.medium.borrow_mut().fail_write(ticket, &mut rng),
        }
        // A host may tell a write with FUA of the failure of any earlier write.
        let syncs = io.op == Op::Flush || io.flags.contains(Flags::FUA);
        if syncs && io.target == Target::Home {
            // The engine takes it that the host forgets, and brings back what the log has.
            if self.setup.forgets || self.past.buffered && self.setup.replicas == 0 {
                self.forgot = true;
                self.past.model.forgot();
            }
            if self.setup.forgets {
                self.medium.borrow_mut().forget(Target::Home, &mut rng);
            }
        }
        if syncs && io.target == Target::Area && self.setup.area_forgets {
            self.medium.borrow_mut().forget(Target::Area, &mut rng);
            self.area_forgot();
        }
        Ok(Input::Done { io: io.id, result: Err(IoFailed) })
    }

    /// The host forgot sectors of the area. If the area never held newest data, nobody notices.
    fn area_forgot(&mut self) {
        if self.past.buffered {
            self.forgot = true;
            let in_place = self.setup.in_place || self.setup.in_place_toggles;
            self.past.model.area_forgot(self.setup.grid, in_place);
        }
    }

    /// Whether a request may fail because a failed flush of the area may have lost pages.
    pub(super) fn may_fail(&self, issued: Issued) -> bool {
        let model = &self.past.model;
        // A lost page keeps its place in the log. A log that is full behind it takes no record.
        let waits = issued.waits_for_records(self.setup.replicas > 0);
        model.touches_unreadable(issued, self.setup.grid)
            || waits && model.has_unreadable() && self.machine.is_dirty()
    }

    /// The devices begin to fail.
    pub(crate) fn break_down(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// Whether a device fails for good.
    pub(crate) fn is_broken(&self) -> bool {
        self.faults.iter().any(|f| f.left.is_none())
    }

    /// Whether the engine may try for ever to bring all home: a device fails for good, or pages of the
    /// write buffer may be lost.
    pub(crate) fn may_never_drain(&self) -> bool {
        self.is_broken() || self.past.model.has_unreadable()
    }

    /// All has ended and was flushed: if the engine calls home complete, no page is lost.
    pub(super) fn expect_readable(&mut self) {
        if !self.machine.is_dirty() {
            self.past.model.all_is_readable();
        }
    }

    /// The devices work again, and all requests have ended. From here on nothing may fail, except for
    /// pages that a failed flush of the area has lost.
    pub(crate) fn heal(&mut self, order: u64) -> Result<(), String> {
        self.faults.clear();
        self.rest(order)?;
        // One flush reports what failed without a client.
        self.issue(Op::Flush, Extent::default(), Flags::NONE)?;
        self.rest(order)?;
        (self.faulty, self.home_faulty) = (false, false);
        // A flush can promise again.
        self.issue(Op::Flush, Extent::default(), Flags::NONE)?;
        self.rest(order)?;
        self.expect_readable();
        Ok(())
    }
}
