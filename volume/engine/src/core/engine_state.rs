//! The state of the volume. Legal are the combinations that [`EngineState`] can hold, and no
//! others:
//!
//! | state | writes | what goes on |
//! |:--|:--|:--|
//! | `Serving` | `Home` | write-through, or no area |
//! | `Serving` | `Draining` | write-through; what the write buffer holds goes home, and the superblock is to say so |
//! | `Serving` | `Announcing` | write-through, until the superblock says that home may not be complete |
//! | `Serving` | `Buffered` | write-back |
//! | `Detaching` | any of these | the last checkpoint is on its way, or is tried again |
//! | `Detached` | any of these | it stands; no request may follow |
//!
//! Three things hold in each of these states, and change none of them. Reads may bypass copies.
//! Replicas may be suspended, as too little is free, and may be on their way out, both at a time.
//! The log may have failed, until a checkpoint leaves that record behind.

use seekless_block::SimTime;

use super::page_map::CopyState;
use crate::background::Job;
use crate::write_buffer::durability::Waiter;
use crate::{Engine, Mode};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    Home,
    /// To home; the write buffer is being destaged.
    Draining,
    /// To home, until the superblock says that the write buffer is in use.
    Announcing,
    Buffered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineState {
    Serving(Writes),
    Detaching {
        writes: Writes,
        /// The proof about home.
        stamp: [u8; 32],
    },
    Detached(Writes),
}

impl EngineState {
    pub(crate) const fn new(mode: Mode) -> Self {
        Self::Serving(match mode {
            Mode::WriteThrough => Writes::Home,
            Mode::WriteBack => Writes::Buffered,
        })
    }

    const fn writes(&self) -> Writes {
        match *self {
            Self::Serving(writes) | Self::Detaching { writes, .. } | Self::Detached(writes) => {
                writes
            }
        }
    }

    const fn set_writes(&mut self, to: Writes) {
        match self {
            Self::Serving(writes) | Self::Detaching { writes, .. } | Self::Detached(writes) => {
                *writes = to;
            }
        }
    }

    /// Where writes go now.
    pub(crate) const fn mode(&self) -> Mode {
        match self.writes() {
            Writes::Buffered => Mode::WriteBack,
            _ => Mode::WriteThrough,
        }
    }

    /// Where writes are to go.
    pub(crate) const fn wanted_mode(&self) -> Mode {
        match self.writes() {
            Writes::Buffered | Writes::Announcing => Mode::WriteBack,
            Writes::Home | Writes::Draining => Mode::WriteThrough,
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.writes() == Writes::Draining
    }

    /// Whether an administrator waits for the end of a change: a drain, a new mode, a detach.
    pub(crate) fn is_changing(&self) -> bool {
        matches!(self.writes(), Writes::Draining | Writes::Announcing) || self.stamp().is_some()
    }

    pub(crate) const fn drained(&mut self) {
        self.set_writes(Writes::Home);
    }

    /// A superblock with this mode is now on stable storage.
    pub(crate) fn announced(&mut self, mode: Mode) {
        if self.writes() == Writes::Announcing && mode == Mode::WriteBack {
            self.set_writes(Writes::Buffered);
        }
    }

    pub(crate) const fn detach(&mut self, stamp: [u8; 32]) {
        if let Self::Serving(writes) | Self::Detaching { writes, .. } = *self {
            *self = Self::Detaching { writes, stamp };
        }
    }

    pub(crate) const fn detached(&mut self) {
        *self = Self::Detached(self.writes());
    }

    /// The proof that the last checkpoint saves, while that checkpoint is in progress.
    pub(crate) const fn stamp(&self) -> Option<[u8; 32]> {
        match *self {
            Self::Detaching { stamp, .. } => Some(stamp),
            _ => None,
        }
    }

    pub(crate) const fn is_detached(&self) -> bool {
        matches!(self, Self::Detached(_))
    }

    /// No request follows.
    pub(crate) const fn is_leaving(&self) -> bool {
        matches!(self, Self::Detaching { .. } | Self::Detached(_))
    }
}

impl Engine {
    /// Whether the last checkpoint is complete after [`crate::Input::Detach`].
    pub const fn is_detached(&self) -> bool {
        self.state.is_detached()
    }

    /// How often the last checkpoint failed. The engine tries again every second.
    pub const fn failed_detaches(&self) -> u32 {
        self.background.detaches_failed
    }

    /// How many flushes have failed of devices that may have newest bytes, writes with FUA included.
    /// Each client must hear of each: the next flush may succeed without bytes that clients have
    /// written.
    pub const fn failed_flushes(&self) -> u64 {
        self.sync.home.failures + self.sync.area_client_failures
    }

    /// Whether everything is at home, and the write buffer takes nothing more.
    pub fn is_drained(&self) -> bool {
        self.state.mode() == Mode::WriteThrough
            && !self.state.is_draining()
            && self.copies.count(CopyState::Dirty) == 0
            && !self.copies.any_open()
            && self.log.is_idle()
            // These move and compare copies alone.
            && matches!(
                self.background.job,
                Job::None | Job::Move(_) | Job::Prove(_) | Job::Trail(_) | Job::Scrub(_)
            )
            && !self.background.superblock_due
    }

    pub(crate) fn set_mode(&mut self, mode: Mode) {
        self.fell_back = false;
        if self.geo.log_segments == 0 || mode == self.state.wanted_mode() {
            return;
        }
        match mode {
            Mode::WriteThrough => self.drain(),
            Mode::WriteBack => {
                // Writes follow once the superblock says that home may not be complete.
                self.state.set_writes(Writes::Announcing);
                self.background.superblock_due = true;
            }
        }
    }

    /// The area cannot be written, or the only copy of a page cannot be read. From now on writes go
    /// home, and so does all that can still be read, until an administrator sets the mode again.
    pub(crate) fn area_fails(&mut self) {
        if self.state.mode() == Mode::WriteBack && !self.state.is_leaving() {
            self.fell_back = true;
            self.drain();
            // A record shows whether the area can be written.
            self.sync.wait(Waiter::Tail);
        }
    }

    /// The device of the area cannot read an only copy.
    pub(crate) fn only_copy_fails(&mut self) {
        self.area_reads_fail = true;
        self.area_fails();
    }

    /// The area takes writes and flushes.
    pub(crate) const fn area_works(&mut self) {
        (self.area_reads_fail, self.area_writes_fail) = (false, false);
    }

    /// Whether the area is gone with newest data. A client that went on writing would build on data
    /// that nobody can read.
    pub(crate) fn is_area_gone(&self) -> bool {
        self.area_reads_fail && self.area_writes_fail && self.copies.count(CopyState::Dirty) > 0
    }

    /// Whether the engine left write-back by itself, because the area failed.
    pub const fn has_fallen_back(&self) -> bool {
        self.fell_back
    }

    /// An area was attached in write-through. Pages that only the write buffer holds are those of a
    /// drain that a stop or a crash cut short: it goes on. Without it, the engine would take all for
    /// saved at home.
    pub(crate) fn go_on_draining(&mut self) {
        if self.state.mode() == Mode::WriteThrough && self.copies.count(CopyState::Dirty) > 0 {
            self.drain();
        }
    }

    pub(crate) fn drain(&mut self) {
        let has_log = self.geo.log_segments > 0;
        self.state.set_writes(if has_log { Writes::Draining } else { Writes::Home });
        self.background.destage_not_before = SimTime::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The administrator changes the mode while a superblock is in flight.
    #[test]
    fn only_what_is_still_wanted_is_announced() {
        let mut state = EngineState::new(Mode::WriteThrough);
        state.set_writes(Writes::Announcing);
        state.announced(Mode::WriteThrough);
        assert_eq!((state.mode(), state.wanted_mode()), (Mode::WriteThrough, Mode::WriteBack));
        state.announced(Mode::WriteBack);
        assert_eq!(state.mode(), Mode::WriteBack);
        state.set_writes(Writes::Draining);
        state.announced(Mode::WriteBack);
        assert!(state.is_draining() && state.mode() == Mode::WriteThrough);
        state.drained();
        assert_eq!(state, EngineState::new(Mode::WriteThrough));
    }

    #[test]
    fn a_volume_that_is_detached_stays_so() {
        let mut state = EngineState::new(Mode::WriteBack);
        state.detach([1; 32]);
        assert_eq!((state.stamp(), state.is_detached()), (Some([1; 32]), false));
        state.detached();
        state.detach([2; 32]);
        assert!(state.is_detached() && state.is_leaving() && state.stamp().is_none());
        assert_eq!(state.mode(), Mode::WriteBack, "what is dirty stays so");
    }
}
