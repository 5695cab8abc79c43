//! Reports of the engine: progress, counters, copies.

use seekless_block::{Lba, PAGE_SECTORS, Sectors, SimTime};
use seekless_learn::{Copy, Plan};

use super::page_map::CopyState;
use crate::background::Progress;
use crate::{Config, Engine, IoId, Mode, Pending, Stats};

impl Engine {
    /// When to send [`crate::Input::Tick`], if ever: background work waits for its budget or for
    /// idle clients.
    pub const fn wakeup(&self) -> Option<SimTime> {
        self.background.wakeup
    }

    /// Whether an I/O in flight only reads ahead: no client asked for its pages when it began.
    pub fn reads_ahead(&self, io: IoId) -> bool {
        let pending = self.pending.get(io.0 as usize).and_then(Option::as_ref);
        matches!(pending, Some(Pending::Read(read)) if read.wanted.is_empty())
    }

    /// Progress of the move to the installed plan; `None` without a move.
    pub fn progress(&self) -> Option<Progress> {
        if self.state.is_detached() { None } else { self.background.progress() }
    }

    /// The counters.
    pub fn stats(&self) -> Stats {
        let prefetch = self.ahead.as_ref().map(|ahead| ahead.policy.counts()).unwrap_or_default();
        Stats { prefetched: prefetch.pages, prefetch_used: prefetch.used, ..self.stats }
    }

    /// Sectors that have a usable copy.
    pub fn copied(&self) -> Sectors {
        Sectors(
            (self.copies.count(CopyState::Clean) + self.copies.count(CopyState::Dirty))
                * PAGE_SECTORS,
        )
    }

    /// The clean copies in the places of plans, in order of place: the rest of all installed plans.
    pub fn standing(&self) -> Plan {
        let mut copies: Vec<Copy> = Vec::new();
        for place in 0..self.geo.capacity().0 / PAGE_SECTORS {
            let slot = self.geo.slot_of_place(place);
            if self.copies.state(slot) != CopyState::Clean {
                continue;
            }
            let Some(page) = self.copies.home(slot) else { continue };
            let (home, place) = (self.home_of(page, 1), Lba(place * PAGE_SECTORS));
            match copies.last_mut() {
                Some(c) if c.home.end() == home.start && c.placed().end() == place => {
                    c.home.len += home.len;
                }
                _ => copies.push(Copy { home, place }),
            }
        }
        Plan { copies }
    }

    /// Sectors whose only valid copy stands in the area.
    pub fn dirty(&self) -> Sectors {
        Sectors(self.copies.count(CopyState::Dirty) * PAGE_SECTORS)
    }

    /// Sectors whose copies have yet to be proven equal to their homes.
    pub fn in_doubt(&self) -> Sectors {
        Sectors(self.copies.count(CopyState::Suspect) * PAGE_SECTORS)
    }

    /// Where writes go now.
    pub const fn mode(&self) -> Mode {
        self.state.mode()
    }

    /// The settings at the start ([`Self::mode`] may have changed since). The engine raises memory
    /// sizes to what the area's division needs.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The plan in force: a better one should begin with it.
    pub fn plan(&self) -> Plan {
        let copies = self.background.todo.wants().iter().map(|&(slot, page, pages)| Copy {
            home: self.home_of(page, pages.into()),
            place: Lba(self.geo.place_of_slot(slot) * PAGE_SECTORS),
        });
        Plan { copies: copies.collect() }
    }

    /// Capacity for a plan.
    pub const fn room(&self) -> Sectors {
        self.geo.capacity()
    }
}
