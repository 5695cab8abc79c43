//! Two arms on one spindle. Each has half of the addresses and its own queue. A command across the
//! middle is split into two parts; it ends when both parts have ended.

use seekless_block::{Duration, Extent, Flags, Op, SimTime};
use slab::Slab;

use crate::arm_queue::Arm;
use crate::disk::{Access, DiskError};
use crate::drive::{Command, Completion};
use crate::power_meter::Usage;
use crate::spin_down::{SpinDown, SpinDownError};

/// Two arms. The commands sent to the arms carry their slot number as tag.
#[derive(Clone, Debug)]
pub(crate) struct Dual {
    arms: [Arm; 2],
    /// First address of the second arm.
    middle: u64,
    slots: Slab<Slot>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    tag: u64,
    extent: Extent,
    /// Number of parts that have not ended.
    left: u8,
    /// The completion of the part that ended first.
    ended: Option<Completion>,
}

impl Dual {
    pub(crate) fn new(first: Arm, second: Arm) -> Self {
        let middle = first.disk().capacity().0;
        Self { arms: [first, second], middle, slots: Slab::new() }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.arms.iter().map(Arm::waiting).sum()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.arms.iter().all(Arm::is_idle)
    }

    /// Refused: neither arm knows when the other is at rest.
    pub(crate) fn set_spin_down(&self, policy: SpinDown) -> Result<(), SpinDownError> {
        if policy == SpinDown::None { Ok(()) } else { Err(SpinDownError::Never) }
    }

    pub(crate) fn usage(&self, now: SimTime) -> Usage {
        let mut both = self.arms[0].usage(now);
        both += self.arms[1].usage(now);
        both
    }

    pub(crate) fn submit_with(
        &mut self,
        now: SimTime,
        command: Command,
        flags: Flags,
    ) -> Result<(), DiskError> {
        let Extent { start, .. } = command.extent;
        let (end, middle) = (command.extent.end().0, self.middle);
        let parts = match command.op {
            // Both arms can have data to write back.
            Op::Flush => [Some(Extent::new(0, 0)), Some(Extent::new(0, 0))],
            _ if end <= middle => [Some(command.extent), None],
            _ if start.0 >= middle => [None, Some(Extent::span(start.0 - middle, end - middle))],
            _ => [Some(Extent::span(start.0, middle)), Some(Extent::new(0, end - middle))],
        };
        let left = parts.iter().flatten().count() as u8;
        let slot = Slot { tag: command.tag, extent: command.extent, left, ended: None };
        let index = self.slots.insert(slot);
        for (arm, part) in self.arms.iter_mut().zip(parts) {
            if let Some(extent) = part {
                arm.submit_with(now, Command { tag: index as u64, extent, ..command }, flags)?;
            }
        }
        Ok(())
    }

    pub(crate) fn next_event(&self) -> Option<SimTime> {
        self.arms.iter().filter_map(Arm::next_event).min()
    }

    pub(crate) fn poll(&mut self, now: SimTime) -> Option<Completion> {
        loop {
            let due = |arm: &Arm| arm.next_event().unwrap_or(SimTime(u64::MAX));
            let second = usize::from(due(&self.arms[1]) < due(&self.arms[0]));
            // The arm may have been idle until this time; its clock still advances.
            let part = match self.arms[second].poll(now) {
                Some(part) => part,
                None => self.arms[1 - second].poll(now)?,
            };
            if let Some(whole) = self.ended(part) {
                return Some(whole);
            }
        }
    }

    /// Handles the end of a part. Returns the completion of the command if that was the last part.
    fn ended(&mut self, part: Completion) -> Option<Completion> {
        let index = part.tag as usize;
        let slot = &mut self.slots[index];
        slot.left -= 1;
        if slot.left > 0 {
            slot.ended = Some(part);
            return None;
        }
        let Slot { tag, extent, ended, .. } = self.slots.remove(index);
        let mut whole = part;
        if let Some(first) = ended {
            let started = first.started.min(part.started);
            // All other time than the later part's own counts as overhead, because the phases belong
            // to one arm. A part that was merged with another command has no time of its own.
            if [part.access, first.access] != [Access::default(); 2] {
                let own = part.access.total();
                whole.access.overhead += Duration(part.finished.since(started).0 - own.0);
            }
            whole.access.behind_seek += first.access.behind_seek;
            whole.access.behind_rotation_transfer += first.access.behind_rotation_transfer;
            whole.started = started;
            whole.seek_distance_sectors += first.seek_distance_sectors;
            whole.sequential &= first.sequential;
        }
        Some(Completion { tag, extent, ..whole })
    }
}
