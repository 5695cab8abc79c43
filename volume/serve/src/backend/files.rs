//! The files under a volume: the backing, and the optimized area. Positional I/O in two forms: one
//! never waits for the disk, the other may wait. Knows no engine.

use std::ops::Range;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::{Errno, ReadWriteFlags};
use seekless_block::{Device, DeviceError, Extent, Flags, Op, SECTOR_BYTES, Sectors};
use seekless_engine::format::UNSUMMED;
use seekless_engine::{Examined, Target, in_guard_region, page_sum};
use seekless_host::{HostError, OpenFile, device_error};

use super::flushes::{Failed, Flushes};
use super::guard::GuardError;
use super::identity;
use super::medium::{Medium, status_of_piece};
use super::region::Region;
use super::remote::Remote;
use super::runs::{Runs, Side};
use super::unnamed::{anonymous_file, memory_file};
use super::{FAST_ZERO, PAGE};

/// Longest write that is done at once: it goes into the page cache, which does not wait.
const WRITE_NOW_BYTES: usize = 1 << 20;

/// The two files of a volume.
#[derive(Debug)]
pub(crate) struct Files {
    home: Disk,
    area: Option<Disk>,
    /// Proof that nobody wrote home, if home is on a device that only seekless uses.
    own: Option<[u8; 32]>,
    /// The area may have newer bytes than home: a hole at home may be data.
    may_be_newer: bool,
    /// The area ends with the server: no write to it needs to be durable.
    is_area_temporary: bool,
    /// Of an area that is not attached: the places of bytes newer than home.
    newest: Option<Box<Examined>>,
    /// Nothing goes through the host's page cache, so nothing can be done at once.
    direct: bool,
}

/// One file or block device, or runs of it; while guarded, its two ends are elsewhere.
#[derive(Debug)]
pub(crate) struct Disk {
    own: Medium,
    runs: Runs,
    guard: Option<Box<Region>>,
    /// Of its own file.
    flushes: Flushes,
    /// A flush failed that the engine did not ask for: its next flush fails. The host reports the
    /// failure of a write once.
    owes: AtomicBool,
    /// One flush runs at a time: the host reports a failure to one of two. This one fails too then.
    /// The lock of a failed flush is held until its report, or until the disk `owes`.
    flushing: Mutex<()>,
    failures: AtomicU64,
}

impl Files {
    /// A backing with an optimized area of `area` bytes: an anonymous file in `dir`, or memory
    /// without `dir`.
    pub(crate) fn new(home: Disk, area: u64, dir: Option<&Path>) -> Result<Self, HostError> {
        let area = match (area, dir) {
            (0, _) => None,
            (bytes, Some(dir)) => Some(anonymous_file(dir, bytes)?),
            (bytes, None) => Some(memory_file(bytes)?),
        };
        let area = area.map(|fd| Disk::new(fd, Runs::all()));
        Ok(Self { may_be_newer: false, is_area_temporary: true, ..Self::over(home, area) })
    }

    /// A home and its area; `own` if both are on one device.
    pub(crate) fn of(home: Disk, area: Disk, own: Option<[u8; 32]>) -> Self {
        Self { own, ..Self::over(home, Some(area)) }
    }

    /// A home as it reads with its area attached; neither is written.
    pub(crate) fn overlaid(home: Disk, area: Disk, newest: Examined) -> Self {
        Self { newest: Some(Box::new(newest)), ..Self::over(home, Some(area)) }
    }

    const fn over(home: Disk, area: Option<Disk>) -> Self {
        Self {
            home,
            area,
            own: None,
            may_be_newer: true,
            is_area_temporary: false,
            newest: None,
            direct: false,
        }
    }

    /// True if home is on another server, which says that its disk rotates.
    pub(crate) fn is_rotational(&self) -> bool {
        self.remote().is_some_and(Remote::is_rotational)
    }

    /// The other server that home is on.
    pub(crate) fn remote(&self) -> Option<&Remote> {
        match &self.home.own {
            Medium::Remote(remote) => Some(remote),
            Medium::File(_) => None,
        }
    }

    /// Moves bytes past the host's page cache, where that is possible.
    pub(crate) fn go_direct(&mut self) {
        let disks = std::iter::once(&mut self.home).chain(&mut self.area);
        self.direct = disks.fold(true, |direct, disk| {
            disk.go_direct();
            direct && disk.own.is_direct()
        });
    }

    /// True if nothing goes through the host's page cache.
    pub(crate) const fn is_direct(&self) -> bool {
        self.direct
    }

    /// The same files, with nothing done at once.
    #[cfg(test)]
    pub(crate) const fn slow(mut self) -> Self {
        self.direct = true;
        self
    }

    /// The stamp of a home that gets no more writes.
    pub(crate) fn stamp_home(&self) -> [u8; 32] {
        // Without a successful sync there is no proof.
        let stamp = || self.own.unwrap_or_else(|| self.home.stamp());
        let synced = self.home.sync().inspect_err(|_| self.home.owe());
        synced.map_or([0; 32], |()| stamp())
    }

    /// The guard of home, if there is space for one.
    pub(crate) fn guard(&self) -> Option<&Region> {
        self.home.guard()
    }

    #[cfg(test)]
    pub(crate) const fn home(&self) -> &Disk {
        &self.home
    }

    /// Puts the guard up or takes it down; see [`Region`].
    pub(crate) fn move_guard(&self, up: bool) -> Result<(), Errno> {
        let home = &self.home;
        let region = home.guard().ok_or(Errno::NXIO)?;
        let _alone = home.flushing();
        let moved = region
            .keep_account(home, || if up { region.put_up(home) } else { region.take_down(home) });
        moved.inspect_err(|_| home.owe()).map_err(|e| match e {
            GuardError::Device(DeviceError::Io { source, .. }) => {
                Errno::from_io_error(&source).unwrap_or(Errno::IO)
            }
            _ => Errno::IO,
        })
    }

    fn disk(&self, target: Target) -> Result<&Disk, Errno> {
        match target {
            Target::Home => Ok(&self.home),
            Target::Area => self.area.as_ref().ok_or(Errno::NXIO),
        }
    }

    /// Reads without waiting: `None` if the read would wait for the disk.
    pub(crate) fn read_now(&self, target: Target, at: u64, buf: &mut [u8]) -> Option<()> {
        if self.newest.is_some() || self.direct {
            return None;
        }
        self.disk(target).ok()?.read_now(at, buf)
    }

    /// Writes without waiting: `None` if the write might wait for the disk.
    pub(crate) fn write_now(
        &self,
        target: Target,
        at: u64,
        buf: &[u8],
    ) -> Option<Result<(), Errno>> {
        let disk = self.disk(target).ok()?;
        if buf.len() > WRITE_NOW_BYTES || self.direct {
            return None;
        }
        // A write of part of a page reads the page first, unless it is cached.
        let end = at + buf.len() as u64;
        for edge in [at, end] {
            if !edge.is_multiple_of(PAGE) {
                disk.read_now(edge / 512 * 512 - if edge == end { 512 } else { 0 }, &mut [0; 512])?;
            }
        }
        let (side, place) = disk.runs().one(at, buf.len() as u64)?;
        // Direct I/O waits, and so does another server, which has no file.
        if disk.handle(side).is_none_or(OpenFile::is_direct) {
            return None;
        }
        let waits = |region: &Region| region.loses_sums(place, buf.len() as u64);
        if side == Side::Region && disk.guard().is_some_and(waits) {
            return None;
        }
        Some(disk.write(at, buf, ReadWriteFlags::empty()).map_err(Errno::from))
    }

    /// Reads, and may wait.
    pub(crate) fn read(&self, target: Target, at: u64, buf: &mut [u8]) -> Result<(), Errno> {
        self.disk(target)?.read(at, buf)?;
        match (&self.newest, target) {
            (Some(newest), Target::Home) => self.lay_over(newest, at, buf),
            _ => Ok(()),
        }
    }

    /// Copies the area's newer bytes over those of home, and zeroes over discarded pages.
    fn lay_over(&self, newest: &Examined, at: u64, buf: &mut [u8]) -> Result<(), Errno> {
        let area = self.disk(Target::Area)?;
        let grid = newest.home_of(0).start.0 * SECTOR_BYTES;
        let end = at + buf.len() as u64;
        let pages = at.saturating_sub(grid) / PAGE..end.saturating_sub(grid).div_ceil(PAGE);
        let mut bytes = [0; PAGE as usize];
        for page in pages {
            match newest.newest(page) {
                Some((place, sum)) => {
                    area.read(place.start.0 * SECTOR_BYTES, &mut bytes)?;
                    // A copy that was written in place has no sum before it goes home.
                    if sum != UNSUMMED && page_sum(&bytes) != sum {
                        return Err(Errno::IO);
                    }
                }
                // Home may hold a replica there.
                None if newest.is_free(page) => bytes.fill(0),
                None => continue,
            }
            let home = newest.home_of(page).start.0 * SECTOR_BYTES;
            let (from, to) = (home.max(at), (home + PAGE).min(end));
            let src = bytes.get((from - home) as usize..(to - home) as usize);
            let dst = buf.get_mut((from - at) as usize..(to - at) as usize);
            if let (Some(dst), Some(src)) = (dst, src) {
                dst.copy_from_slice(src);
            }
        }
        Ok(())
    }

    /// Writes, discards, zeroes or flushes, and may wait.
    pub(crate) fn change(
        &self,
        target: Target,
        op: Op,
        flags: Flags,
        at: u64,
        len: u64,
        buf: &[u8],
    ) -> Result<(), Failed<'_>> {
        let disk = self.disk(target)?;
        let is_temporary = target == Target::Area && self.is_area_temporary;
        let fua = flags.contains(Flags::FUA) && !is_temporary;
        let failures = disk.failures.load(SeqCst);
        match op {
            Op::Flush if is_temporary => return Ok(()),
            Op::Read => return Ok(()),
            Op::Write => {
                let how = if fua { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
                return disk.write(at, buf, how);
            }
            Op::Flush => return disk.sync(),
            Op::Discard => disk.punch(at, len)?,
            Op::WriteZeroes => disk.zero(at, len, flags)?,
        }
        // A flush that failed since then may have had the report about these bytes.
        if fua { disk.sync_after(failures) } else { Ok(()) }
    }

    pub(crate) fn will_need(&self, target: Target, at: u64, len: u64) {
        let Ok(disk) = self.disk(target) else { return };
        for p in disk.runs().pieces(at, len) {
            let advice = rustix::fs::Advice::WillNeed;
            let Some(file) = disk.handle(p.side) else { continue };
            // The advice may fail.
            let _ = rustix::fs::fadvise(file, p.at, std::num::NonZeroU64::new(p.len), advice);
        }
    }

    /// Lets the next reads of the area ask its medium, and not the host's memory.
    pub(crate) fn forget_area(&self) {
        let Some(area) = &self.area else { return };
        if let Err(_held) = area.sync() {
            area.owe();
        }
        area.forget();
    }

    /// True if the host probably has these bytes in memory: tests the first and the last sector.
    pub(crate) fn holds(&self, target: Target, at: u64, len: u64) -> bool {
        let mut sector = [0; 512];
        let last = at + len.saturating_sub(512);
        [at, last].into_iter().all(|at| self.read_now(target, at, &mut sector).is_some())
    }

    /// Holes of the backing from `at` on, as (bytes, state): for `len` bytes, or the first
    /// runs, if there are many.
    pub(crate) fn status(&self, at: u64, len: u32) -> Vec<(u32, u32)> {
        let Medium::File(home) = &self.home.own else { return vec![(len, 0)] };
        if self.may_be_newer {
            return vec![(len, 0)];
        }
        let mut runs = Vec::new();
        // Only a lasting area can have a guard, and then this line is not reached.
        for p in self.home.runs.pieces(at, len.into()) {
            status_of_piece(home, p.at, p.len, &mut runs);
        }
        runs
    }
}

impl Disk {
    pub(crate) fn new(fd: OwnedFd, runs: Runs) -> Self {
        Self::over(Medium::File(OpenFile::new(fd)), runs)
    }

    /// A whole export of another server.
    pub(crate) fn elsewhere(remote: Arc<Remote>) -> Self {
        let runs = Runs::new(&[(0, remote.bytes())]);
        Self::over(Medium::Remote(remote), runs)
    }

    fn over(own: Medium, runs: Runs) -> Self {
        let (owes, failures) = (AtomicBool::new(false), AtomicU64::new(0));
        let (flushes, flushing) = (Flushes::default(), Mutex::new(()));
        Self { own, runs, guard: None, flushes, owes, flushing, failures }
    }

    /// The flushes of its own file.
    pub(crate) const fn flushes(&self) -> &Flushes {
        &self.flushes
    }

    /// The same disk, on the device of another file.
    pub(crate) fn on_device_of(self, other: &Flushes) -> Self {
        Self { flushes: other.beside(), ..self }
    }

    /// The file of the disk; `None` on another server.
    pub(crate) fn file(&self) -> Option<&OpenFile> {
        match &self.own {
            Medium::File(file) => Some(file),
            Medium::Remote(_) => None,
        }
    }

    /// See [`identity::stamp`]; another server proves nothing.
    pub(crate) fn stamp(&self) -> [u8; 32] {
        self.file().map_or([0; 32], |file| identity::stamp(file.as_fd()))
    }

    /// The kernel of this host reads the partitions again, if the disk is a device of this host.
    pub(crate) fn read_partitions(&self) -> Result<(), Errno> {
        self.file().map_or(Ok(()), |file| seekless_host::sys::read_partitions(file.as_fd()))
    }

    fn go_direct(&mut self) {
        self.own.go_direct();
        if let Some(guard) = &mut self.guard {
            guard.go_direct();
        }
    }

    /// With space for a guard, whose state the region knows.
    pub(crate) fn with_guard(mut self, region: Region) -> Self {
        self.guard = Some(Box::new(region));
        self
    }

    /// Closes the guard's file; the guard must be down.
    pub(crate) fn forget_guard(&mut self) {
        self.guard = None;
    }

    /// The same disk without its guard.
    pub(crate) fn bare(&self) -> Result<Self, Errno> {
        let own = match &self.own {
            Medium::File(file) => {
                Medium::File(OpenFile::new(rustix::io::fcntl_dupfd_cloexec(file, 0)?))
            }
            Medium::Remote(remote) => Medium::Remote(Arc::clone(remote)),
        };
        Ok(Self::over(own, self.runs.clone()).on_device_of(&self.flushes))
    }

    /// Its guard, if there is space for one.
    pub(crate) fn guard(&self) -> Option<&Region> {
        self.guard.as_deref()
    }

    /// The current places of its bytes.
    #[inline]
    fn runs(&self) -> &Runs {
        match &self.guard {
            Some(guard) if guard.is_in_region() => guard.runs(),
            _ => &self.runs,
        }
    }

    #[inline]
    fn handle(&self, side: Side) -> Option<&OpenFile> {
        match side {
            Side::Own => self.file(),
            Side::Region => self.guard().map(Region::handle),
        }
    }

    /// Whether a flush would have to wait.
    #[cfg(test)]
    pub(crate) fn is_busy(&self) -> bool {
        self.flushing.try_lock().is_err() || self.flushes.is_busy()
    }

    fn flushing(&self) -> MutexGuard<'_, ()> {
        self.flushing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sync(&self) -> Result<(), Failed<'_>> {
        self.sync_after(self.failures.load(SeqCst))
    }

    /// Flushes bytes that were written after this number of `failures`.
    fn sync_after(&self, failures: u64) -> Result<(), Failed<'_>> {
        let alone = self.flushing();
        let owes = self.owes.swap(false, SeqCst);
        let synced = self.flushes.flush(|| self.own.write_back(), || self.own.sync());
        let synced = synced.and(self.guard().map_or(Ok(()), Region::sync));
        if synced.is_err() {
            self.failures.fetch_add(1, SeqCst);
        }
        let missed = owes || self.failures.load(SeqCst) != failures;
        let ended = if missed { synced.and(Err(Errno::IO)) } else { synced };
        ended.map_err(|errno| Failed::flush(errno, alone))
    }

    /// Drops what the host has in memory and need not write.
    fn forget(&self) {
        for p in self.runs().pieces(0, self.runs.bytes()) {
            let Some(file) = self.handle(p.side) else { continue };
            let (at, len) = (p.at, std::num::NonZeroU64::new(p.len));
            // The advice may fail: a file in memory has no other place.
            let _ = rustix::fs::fadvise(file, at, len, rustix::fs::Advice::DontNeed);
        }
    }

    /// The engine must hear of a flush that failed.
    pub(super) fn owe(&self) {
        self.owes.store(true, SeqCst);
    }

    /// Fails past the end.
    fn check_end(&self, at: u64, len: u64) -> Result<(), Errno> {
        if self.runs.hold(at, len) { Ok(()) } else { Err(Errno::IO) }
    }

    fn read(&self, at: u64, buf: &mut [u8]) -> Result<(), Errno> {
        self.check_end(at, buf.len() as u64)?;
        for p in self.runs().pieces(at, buf.len() as u64) {
            let part = buf.get_mut(p.from as usize..(p.from + p.len) as usize).unwrap_or_default();
            match (p.side, self.guard()) {
                (Side::Region, Some(region)) => region.read(p.at, part)?,
                _ => self.own.read(p.at, part)?,
            }
        }
        Ok(())
    }

    fn read_now(&self, at: u64, buf: &mut [u8]) -> Option<()> {
        let (side, at) = self.runs().one(at, buf.len() as u64)?;
        match (side, self.guard()) {
            (Side::Region, Some(region)) => region.read_now(at, buf),
            _ => self.own.read_now(at, buf),
        }
    }

    fn write(&self, at: u64, buf: &[u8], how: ReadWriteFlags) -> Result<(), Failed<'_>> {
        self.check_end(at, buf.len() as u64)?;
        for p in self.runs().pieces(at, buf.len() as u64) {
            let part = buf.get(p.from as usize..(p.from + p.len) as usize).unwrap_or_default();
            match (p.side, self.guard()) {
                (Side::Region, Some(region)) => {
                    // It may have flushed the region's header.
                    region.write(p.at, part, how).inspect_err(|_| self.owe())?;
                }
                _ => {
                    let durable = how.contains(ReadWriteFlags::DSYNC);
                    let written = self.flushes.write(durable, || self.own.write(p.at, part, how));
                    if durable && written.is_err() {
                        // Its report may be about bytes that the flush of another client covers.
                        self.failures.fetch_add(1, SeqCst);
                    }
                    written?;
                }
            }
        }
        Ok(())
    }

    /// Frees space. Guarded ranges keep their space; see [`in_guard_region`].
    fn punch(&self, at: u64, len: u64) -> Result<(), Errno> {
        self.runs().pieces(at, len).try_for_each(|p| match p.side {
            Side::Region if in_guard_region(Op::Discard) == Op::WriteZeroes => {
                self.zero(at + p.from, p.len, Flags::NONE)
            }
            Side::Region => Ok(()),
            Side::Own => self.own.punch(p.at, p.len),
        })
    }

    /// Zeroes in the cheapest way of the file system; guarded ranges by writing.
    fn zero(&self, at: u64, len: u64, flags: Flags) -> Result<(), Errno> {
        self.runs().pieces(at, len).try_for_each(|p| {
            let fast = match p.side {
                Side::Own => self.own.fast_part(p.at, p.len),
                Side::Region => p.at..p.at,
            };
            self.zero_piece(at + p.from, p.at..p.at + p.len, fast, flags)
        })
    }

    /// Zeroes the bytes from `at` on, which are at this place of the file: the part `fast` in the
    /// cheapest way, the rest by writing.
    fn zero_piece(
        &self,
        at: u64,
        place: Range<u64>,
        mut fast: Range<u64>,
        flags: Flags,
    ) -> Result<(), Errno> {
        if !fast.is_empty() && !self.own.zero_fast(fast.start, fast.end - fast.start, flags)? {
            if flags.contains(FAST_ZERO) {
                return Err(Errno::OPNOTSUPP);
            }
            fast = place.start..place.start;
        }
        let write =
            |at, part: &[u8]| self.write(at, part, ReadWriteFlags::empty()).map_err(Errno::from);
        for rest in [place.start..fast.start, fast.end..place.end] {
            let from = at + (rest.start - place.start);
            OpenFile::write_zeroes(from, rest.end - rest.start, write)?;
        }
        Ok(())
    }
}

impl Device for Disk {
    fn capacity(&self) -> Sectors {
        Sectors(self.runs.bytes() / SECTOR_BYTES)
    }

    fn read(&mut self, extent: Extent, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check(extent, buf.len())?;
        Self::read(self, extent.start.0 * SECTOR_BYTES, buf)
            .map_err(device_error("reading", extent))
    }

    fn write(&mut self, extent: Extent, buf: &[u8]) -> Result<(), DeviceError> {
        self.check(extent, buf.len())?;
        let at = extent.start.0 * SECTOR_BYTES;
        Self::write(self, at, buf, ReadWriteFlags::empty())
            .map_err(Errno::from)
            .map_err(device_error("writing", extent))
    }

    fn flush(&mut self) -> Result<(), DeviceError> {
        self.sync().map_err(Errno::from).map_err(device_error("flushing", Extent::default()))
    }

    fn write_zeroes(&mut self, extent: Extent) -> Result<(), DeviceError> {
        self.check(extent, extent.bytes().0 as usize)?;
        self.zero(extent.start.0 * SECTOR_BYTES, extent.bytes().0, Flags::NONE)
            .map_err(device_error("zeroing", extent))
    }

    fn forget_cached(&mut self) {
        self.forget();
    }
}

#[cfg(test)]
mod tests;
