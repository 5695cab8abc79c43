//! An emulated device in front of the files: an I/O may run when that disk would have ended it.
//! Moves no byte, knows no file.
//!
//! The backing is at the disk's first sector, followed by the optimized area.

use seekless_block::{Duration, Energy, Extent, Lba, Sectors, SimTime};
use seekless_disk::{Access, Command, Completion, Drive, Usage};
use seekless_engine::{Class, Io, IoId, Target};

use super::lateness::{Lateness, LatenessCounts};
use crate::builder::Emulation;
use crate::error::ServeError;

/// Counters of an emulated disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Accesses to the disk, as in simulations: merged commands are one, and a discard, or a flush
    /// of a disk without a cache, is none.
    pub ios: u64,
    /// Time the disk was busy: overhead, seek, rotation and transfer.
    pub busy: Duration,
    /// Of this, for background work.
    pub background_busy: Duration,
    /// Time of arm movement.
    pub seek: Duration,
    /// Time of waiting for the platter.
    pub rotation: Duration,
    /// Time of transfer.
    pub transfer: Duration,
    /// Sum over commands of the distance from the end of the previous command, in sectors.
    pub seek_distance_sectors: u64,
    /// Commands that did not start at the end of the previous command.
    pub nonsequential: u64,
    /// Sum over commands of the cylinders crossed before the first sector.
    pub seek_cylinders: u64,
    /// Sectors read, written and otherwise changed.
    pub sectors: u64,
    /// Time and energy by state; the times add up to [`Self::elapsed`].
    pub usage: Usage,
    /// Time of the disk since the server started, or since the last reset.
    pub elapsed: Duration,
    /// Delay of answers behind the modelled disk.
    pub lateness: Lateness,
}

impl DiskStats {
    /// Total energy.
    pub fn energy_total(&self) -> Energy {
        self.usage.energy.total()
    }
}

/// A position of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadSample {
    /// Start of the command.
    pub time: SimTime,
    /// Its first sector on the disk: home addresses first, then those of the optimized area.
    pub lba: Lba,
    /// Its length.
    pub len: Sectors,
    /// True for background work.
    pub background: bool,
}

/// The disk and its books.
#[derive(Debug)]
pub(crate) struct Emulated {
    drive: Drive,
    home: Sectors,
    stats: DiskStats,
    since: SimTime,
    /// The drive's account at `since`.
    usage_before: Usage,
    path: Vec<HeadSample>,
    path_max: usize,
    running: Vec<Running>,
    late: LatenessCounts,
}

/// State of an I/O, by its number.
#[derive(Clone, Copy, Debug, Default)]
struct Running {
    extent: Extent,
    background: bool,
    /// When the disk ended it.
    due: Option<SimTime>,
}

impl Emulated {
    /// A disk that holds `home` and then `area`.
    pub(crate) fn new(
        emulation: Emulation,
        home: Sectors,
        area: Sectors,
    ) -> Result<Self, ServeError> {
        let path_max = emulation.path_max;
        let drive = emulation.drive()?;
        let needed = home.0.saturating_add(area.0);
        let capacity = drive.capacity();
        if capacity.0 < needed {
            return Err(ServeError::DiskTooSmall {
                disk_sectors: capacity.0,
                needed_sectors: needed,
            });
        }
        Ok(Self {
            drive,
            home,
            stats: DiskStats::default(),
            since: SimTime(0),
            usage_before: Usage::default(),
            path: Vec::with_capacity(path_max.min(1 << 20)),
            path_max,
            running: Vec::new(),
            late: LatenessCounts::new(),
        })
    }

    /// Takes an I/O. False if it passes the end of the disk.
    pub(crate) fn submit(&mut self, now: SimTime, io: &Io) -> bool {
        let shift = if io.target == Target::Area { self.home } else { Sectors(0) };
        let extent = Extent::new(io.extent.start.0.saturating_add(shift.0), io.extent.len.0);
        let background = io.class.is_background();
        let in_turn = io.class == Class::InTurn;
        let slot = io.id.0 as usize;
        if slot >= self.running.len() {
            self.running.resize(slot + 1, Running::default());
        }
        if let Some(entry) = self.running.get_mut(slot) {
            *entry = Running { extent, background, due: None };
        }
        let (tag, op, stream) = (io.id.0.into(), io.op, io.stream);
        let command = Command { tag, op, extent, stream, background, in_turn };
        self.drive.submit_with(now, command, io.flags).is_ok()
    }

    /// When the next I/O ends.
    pub(crate) fn next_event(&self) -> Option<SimTime> {
        self.drive.next_event()
    }

    /// The next I/O that has ended by `now`.
    pub(crate) fn poll(&mut self, now: SimTime) -> Option<IoId> {
        let ended = self.drive.poll(now)?;
        let id = IoId(u32::try_from(ended.tag).unwrap_or(u32::MAX));
        if let Some(running) = self.running.get_mut(id.0 as usize) {
            running.due = Some(ended.finished);
            let Running { extent, background, .. } = *running;
            self.account(&ended, extent, background);
        }
        Some(id)
    }

    /// When the disk ended an I/O that [`Self::poll`] has returned.
    pub(crate) fn due(&self, id: IoId) -> Option<SimTime> {
        self.running.get(id.0 as usize)?.due
    }

    /// Counts a late answer, in real time.
    pub(crate) fn was_late(&mut self, by: std::time::Duration) {
        self.late.add(by);
    }

    fn account(&mut self, ended: &Completion, extent: Extent, background: bool) {
        let access = &ended.access;
        let s = &mut self.stats;
        let is_own = *access != Access::default();
        s.ios += u64::from(is_own);
        s.busy += access.busy();
        s.seek += access.seek;
        s.rotation += access.rotation;
        s.transfer += access.transfer;
        s.seek_distance_sectors += ended.seek_distance_sectors;
        s.nonsequential += u64::from(is_own && !ended.sequential);
        s.seek_cylinders += u64::from(access.cylinders);
        s.sectors += extent.len.0;
        if background {
            s.background_busy += access.busy();
        }
        if self.path.len() < self.path_max {
            let (time, lba, len) = (ended.started, extent.start, extent.len);
            self.path.push(HeadSample { time, lba, len, background });
        }
    }

    pub(crate) fn stats(&self, now: SimTime) -> DiskStats {
        let mut stats = self.stats.clone();
        stats.elapsed = now.since(self.since);
        stats.lateness = self.late.summary();
        stats.usage = self.drive.usage(now).since(&self.usage_before);
        stats
    }

    pub(crate) fn path(&self) -> &[HeadSample] {
        &self.path
    }

    pub(crate) fn reset(&mut self, now: SimTime) {
        self.stats = DiskStats::default();
        self.late = LatenessCounts::new();
        self.since = now;
        self.usage_before = self.drive.usage(now);
        self.path.clear();
    }
}
