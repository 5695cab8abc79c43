//! The guard region of an open disk: which bytes are there now, and how to move them. The switch
//! between home and region is one atomic store, made while no I/O on home's ends is in flight;
//! requests take no lock.
#![allow(
    clippy::redundant_closure_for_method_calls,
    reason = "the method itself has one lifetime too few"
)]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::SeqCst};

use rustix::io::{Errno, ReadWriteFlags};
use seekless_block::{Extent, PAGE_BYTES, SECTOR_BYTES, Sectors};
use seekless_engine::format::{AreaId, Label};
use seekless_host::OpenFile;

use super::files::Disk;
use super::flushes::{Failed, Flushes};
use super::guard::{
    EDGE, Guard, GuardError, GuardFault, PAGES, REGION, Standing, open_pages, sum_of, sum_pages,
};
use super::runs::Runs;

/// Home's ends are at home.
const DOWN: u8 = 0;
/// Home's ends are in the region.
const UP: u8 = 1;
/// Home's ends are in the region, which must not change: a move of the guard failed halfway.
const HALFWAY: u8 = 2;

#[derive(Debug)]
pub(crate) struct Region {
    handle: OpenFile,
    /// Its device is the area's.
    flushes: Flushes,
    /// Its start in bytes.
    at: u64,
    /// Home's runs while its ends are here.
    runs: Runs,
    keys: (AreaId, Sectors),
    /// The area's name in the guard pages.
    place: Label,
    switch: AtomicU8,
    /// Number of finished writes, and number of durable writes.
    written: AtomicU64,
    durable: AtomicU64,
    /// The area's generation, for the guard.
    area_generation: AtomicU64,
    /// Of each page: its checksum, and whether the checksum holds. A page that is written loses it.
    sums: [AtomicU32; PAGES],
    summed: AtomicU64,
    /// Held while pages lose their checksums on the device: once for each page in a server's life.
    opening: Mutex<()>,
}

impl Region {
    /// The region at byte `at` of a file, for a home of this capacity with two ends.
    pub(crate) fn new(
        fd: OwnedFd,
        at: u64,
        (uuid, capacity): (AreaId, Sectors),
        place: Label,
    ) -> Self {
        let edge = EDGE * SECTOR_BYTES;
        // Behind the header.
        let runs = Runs::guarded(capacity.bytes().0, edge, at + PAGE_BYTES);
        Self {
            handle: OpenFile::new(fd),
            flushes: Flushes::default(),
            at,
            runs,
            keys: (uuid, capacity),
            place,
            switch: AtomicU8::new(DOWN),
            // Writes before this server may not be durable.
            written: AtomicU64::new(1),
            durable: AtomicU64::new(0),
            area_generation: AtomicU64::new(0),
            sums: [const { AtomicU32::new(0) }; PAGES],
            summed: AtomicU64::new(0),
            opening: Mutex::new(()),
        }
    }

    /// The same region, on the device of another file.
    pub(crate) fn on_device_of(mut self, other: &Flushes) -> Self {
        self.flushes = other.beside();
        self
    }

    #[cfg(test)]
    pub(crate) const fn flushes(&self) -> &Flushes {
        &self.flushes
    }

    pub(crate) fn go_direct(&mut self) {
        self.handle.go_direct();
    }

    #[inline]
    pub(crate) fn is_in_region(&self) -> bool {
        self.switch.load(SeqCst) != DOWN
    }

    pub(crate) const fn runs(&self) -> &Runs {
        &self.runs
    }

    pub(crate) const fn handle(&self) -> &OpenFile {
        &self.handle
    }

    /// True if an extent of home overlaps home's ends.
    pub(crate) fn touches(&self, extent: Extent) -> bool {
        extent.len.0 > 0 && (extent.start.0 < EDGE || extent.end().0 > self.keys.1.0 - EDGE)
    }

    pub(crate) fn write(&self, at: u64, buf: &[u8], how: ReadWriteFlags) -> Result<(), Failed<'_>> {
        if self.switch.load(SeqCst) == HALFWAY {
            return Err(Errno::IO.into());
        }
        if self.loses_sums(at, buf.len() as u64) {
            self.open_pages(self.pages(at, buf.len() as u64)).map_err(|_| Errno::IO)?;
        }
        let durable = how.contains(ReadWriteFlags::DSYNC);
        // Twice, so that the region is not called flushed while the write is in flight.
        self.written.fetch_add(1, SeqCst);
        self.flushes.write(durable, || self.handle.write(at, buf, how))?;
        self.written.fetch_add(1, SeqCst);
        Ok(())
    }

    /// The pages of a range of the file, one bit each.
    fn pages(&self, at: u64, len: u64) -> u64 {
        let from = at.saturating_sub(self.at + PAGE_BYTES);
        let pages = from / PAGE_BYTES..(from + len).div_ceil(PAGE_BYTES).min(PAGES as u64);
        pages.fold(0, |mask, page| mask | 1 << page)
    }

    /// Whether a write there first takes checksums away, which needs a flush.
    pub(crate) fn loses_sums(&self, at: u64, len: u64) -> bool {
        self.summed.load(SeqCst) & self.pages(at, len) != 0
    }

    fn open_pages(&self, pages: u64) -> Result<(), GuardError> {
        let _one = self.opening.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if self.summed.load(SeqCst) & pages != 0 {
            open_pages(&mut self.device()?, pages)?;
            self.summed.fetch_and(!pages, SeqCst);
        }
        Ok(())
    }

    /// No more writes come: all pages get their checksums.
    pub(crate) fn close(&self) -> Result<(), GuardError> {
        if self.is_in_region() { sum_pages(&mut self.device()?) } else { Ok(()) }
    }

    /// Reads a range of the file. A page that does not match its checksum is an error.
    pub(crate) fn read(&self, at: u64, buf: &mut [u8]) -> Result<(), Errno> {
        self.read_by(at, buf, |at, page| self.handle.read(at, page))
    }

    /// The same without waiting; `None` too if a page does not match.
    pub(crate) fn read_now(&self, at: u64, buf: &mut [u8]) -> Option<()> {
        let now = |at, page: &mut [u8]| self.handle.read_now(at, page).ok_or(Errno::AGAIN);
        self.read_by(at, buf, now).ok()
    }

    fn read_by(
        &self,
        mut at: u64,
        buf: &mut [u8],
        read: impl Fn(u64, &mut [u8]) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut page = [0; PAGE_BYTES as usize];
        let mut rest = buf;
        while !rest.is_empty() {
            let from = at - self.at - PAGE_BYTES;
            let (number, within) = (from / PAGE_BYTES, from % PAGE_BYTES);
            let len = (PAGE_BYTES - within).min(rest.len() as u64);
            read(at - within, &mut page)?;
            let holds = || self.summed.load(SeqCst) >> number & 1 == 1;
            let sum = self.sums.get(number as usize).map_or(0, |sum| sum.load(SeqCst));
            // A write may have changed the page meanwhile: then its checksum holds no longer.
            if holds() && sum_of(&page) != sum && holds() {
                return Err(Errno::IO);
            }
            let (to, behind) = rest.split_at_mut(len as usize);
            to.copy_from_slice(
                page.get(within as usize..(within + len) as usize).unwrap_or_default(),
            );
            (rest, at) = (behind, at + len);
        }
        Ok(())
    }

    /// Makes writes in the region durable, if any are not.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        let failures = self.flushes.failures();
        let written = self.written.load(SeqCst);
        if !self.is_in_region() {
            return Ok(()); // The next move settles the account.
        }
        if self.durable.load(SeqCst) == written {
            // Pages of the area, which is in the same file, unless a write came meanwhile.
            let report = self.handle.take_report(self.at);
            self.flushes.lost_nothing(failures);
            return if self.written.load(SeqCst) == written { Ok(()) } else { report };
        }
        self.flushes.flush(|| self.write_back(), || self.handle.sync())?;
        self.durable.fetch_max(written, SeqCst);
        Ok(())
    }

    fn write_back(&self) -> Result<(), Errno> {
        self.handle.write_back(self.at, REGION * SECTOR_BYTES)
    }

    /// A move of the guard leaves no account behind: home's next flush fails if bytes of home's ends
    /// may be lost with a failed flush of the area that no flush of home has reported.
    pub(crate) fn keep_account<T>(&self, home: &Disk, moves: impl FnOnce() -> T) -> T {
        let unflushed = self.durable.load(SeqCst) < self.written.load(SeqCst);
        let may_lack = self.is_in_region() && unflushed;
        // Linux reports a page of the area that it could not write to the region too, because both
        // are in one file. The move does not fail for it.
        let told = self.flushes.flush(|| self.write_back(), || self.handle.sync());
        if may_lack && told.is_err() {
            home.owe();
        }
        let moved = moves();
        let failures = self.flushes.failures();
        if may_lack && self.flushes.owes() {
            home.owe();
        }
        self.flushes.lost_nothing(failures);
        moved
    }

    /// Calls `f` with the disk without its guard.
    fn with<T>(
        &self,
        home: &Disk,
        f: impl FnOnce(&mut Guard<'_>) -> Result<T, GuardError>,
    ) -> Result<T, GuardError> {
        let (uuid, capacity) = self.keys;
        let mut home = home.bare().map_err(io("opening"))?;
        let area_generation = self.area_generation.load(SeqCst);
        let mut region = self.device()?;
        let mut guard =
            Guard { home: &mut home, region: &mut region, uuid, capacity, area_generation };
        let result = f(&mut guard);
        self.learn_sums(&mut guard)?;
        result
    }

    fn device(&self) -> Result<Disk, GuardError> {
        let fd = self.handle.as_fd().try_clone_to_owned().map_err(|e| io("opening")(from(&e)))?;
        let end = rustix::fs::seek(&fd, rustix::fs::SeekFrom::End(0)).map_err(io("measuring"))?;
        let room = end.saturating_sub(self.at).min(REGION * SECTOR_BYTES);
        Ok(Disk::new(fd, Runs::new(&[(self.at, room)])).on_device_of(&self.flushes))
    }

    /// Nobody reads or writes home's ends meanwhile.
    fn learn_sums(&self, guard: &mut Guard<'_>) -> Result<(), GuardError> {
        let (summed, sums) = guard.sums()?;
        self.summed.store(0, SeqCst);
        self.sums.iter().zip(sums).for_each(|(to, sum)| to.store(sum, SeqCst));
        self.summed.store(summed, SeqCst);
        Ok(())
    }

    /// The generation of the area that the guard on home names.
    pub(crate) fn named_generation(&self, home: &Disk) -> Result<u64, GuardError> {
        self.with(home, |g| Ok(g.named_generation()?))
    }

    /// The area was attached: a guard that is up names its generation from now on.
    pub(crate) fn name_generation(&self, home: &Disk, generation: u64) -> Result<(), GuardError> {
        self.area_generation.store(generation, SeqCst);
        self.with(home, |g| g.name_generation())
    }

    /// The state of the guard on the devices; writes nothing. Later reads of clients follow this
    /// state.
    pub(crate) fn look(&self, home: &Disk) -> Result<Standing, GuardError> {
        let standing = self.with(home, |g| g.standing());
        let here = match &standing {
            Ok(standing) => standing.is_in_region(),
            Err(GuardError::Wrong { here, .. }) => *here,
            Err(GuardError::Device(_)) => false,
        };
        self.turn(if here { UP } else { DOWN });
        standing
    }

    /// Ends a move that was cut short.
    pub(crate) fn settle(&self, home: &Disk) -> Result<Standing, GuardError> {
        let before = self.with(home, |g| g.standing())?;
        let standing = self.with(home, |g| g.settle())?;
        if before != standing {
            home.read_partitions().map_err(io("reading the partitions of"))?;
        }
        self.turn(if standing == Standing::Up { UP } else { DOWN });
        Ok(standing)
    }

    /// Puts the guard up durably, or leaves it down. No I/O on home's ends may be in flight.
    pub(crate) fn put_up(&self, home: &Disk) -> Result<(), GuardError> {
        let mut touched = false;
        let result = self.with(home, |g| {
            let put = g.put_up(self.place);
            touched = put.as_ref().map_or_else(|half| half.touched, |()| true);
            put.map_err(|half| half.error)
        });
        // A partition in use would be another way to mount the disk.
        let result =
            result.and_then(|()| home.read_partitions().map_err(io("reading the partitions of")));
        if result.is_ok() {
            self.turn(UP);
        } else if touched {
            self.turn(HALFWAY);
            // If this fails too, the next try ends it.
            let _ = self.take_down(home);
        }
        result
    }

    /// Takes the guard down durably; no I/O on home's ends may be in flight. After a failure
    /// clients can read home's ends, and cannot write them until a later try succeeds.
    pub(crate) fn take_down(&self, home: &Disk) -> Result<(), GuardError> {
        let taken = self.with(home, |g| g.take_down());
        self.turn(if taken.is_ok() { DOWN } else { HALFWAY });
        if taken.is_ok() {
            // A partition in use is already known to its user.
            let _ = home.read_partitions();
        }
        taken
    }

    /// See [`Guard::fault`].
    pub(crate) fn fault(&self, home: &Disk) -> Result<Option<GuardFault>, GuardError> {
        self.with(home, |g| g.fault())
    }

    /// See [`Guard::repair`]. Guard pages that are written name this generation of the area.
    pub(crate) fn repair(
        &self,
        home: &Disk,
        generation: u64,
        lose: bool,
    ) -> Result<Option<GuardFault>, GuardError> {
        self.area_generation.store(generation, SeqCst);
        self.with(home, |g| g.repair(lose))
    }

    fn turn(&self, to: u8) {
        self.switch.store(to, SeqCst);
    }
}

/// The last I/O has ended. Without the checksums, the next server has none: after a kill, too.
impl Drop for Region {
    fn drop(&mut self) {
        if self.written.load(SeqCst) > 1 {
            let _ = self.close();
        }
    }
}

fn from(e: &std::io::Error) -> Errno {
    Errno::from_io_error(e).unwrap_or(Errno::IO)
}

fn io(op: &'static str) -> impl FnOnce(Errno) -> GuardError {
    move |e| {
        let source = e.into();
        seekless_block::DeviceError::Io { op, extent: Extent::default(), source }.into()
    }
}

#[cfg(test)]
mod tests {
    use seekless_block::{Flags, Op};
    use seekless_engine::Target;

    use super::super::files::Files;
    use super::super::unnamed::opened_memory;
    use super::*;
    use crate::backend::guard;

    const HOME: u64 = 2 << 20;
    const AREA: u64 = 1 << 20;

    /// A disk of 2 MiB and the file of its area, with the guard up; and a second handle of the file.
    fn guarded() -> (Files, OwnedFd) {
        let keys = (AreaId([7; 16]), Sectors(HOME / SECTOR_BYTES));
        let area = opened_memory(AREA + REGION * SECTOR_BYTES).unwrap().fd;
        let mut region =
            Disk::new(area.try_clone().unwrap(), Runs::new(&[(AREA, REGION * SECTOR_BYTES)]));
        guard::make(&mut region, keys.0, keys.1).unwrap();
        let home = Disk::new(opened_memory(HOME).unwrap().fd, Runs::all());
        let guard = Region::new(area.try_clone().unwrap(), AREA, keys, Label::new("area"));
        let home = home.with_guard(guard);
        let part = Disk::new(area.try_clone().unwrap(), Runs::new(&[(0, AREA)]));
        let files = Files::of(home, part, None);
        files.move_guard(true).unwrap();
        (files, area)
    }

    /// A device whose flushes fail.
    fn full() -> std::fs::File {
        std::fs::File::options().read(true).write(true).open("/dev/full").unwrap()
    }

    fn flush(files: &Files, target: Target) -> Result<(), Errno> {
        files.change(target, Op::Flush, Flags::NONE, 0, 0, &[]).map_err(Errno::from)
    }

    /// The log and home's ends lie on one device, which reports a failed flush once.
    #[test]
    fn a_flush_of_the_region_or_of_the_area_that_fails_is_one_of_both() {
        let keys = (AreaId([7; 16]), Sectors(HOME / SECTOR_BYTES));
        let memory = |bytes| opened_memory(bytes).unwrap().fd;
        for (bad, other) in [(Target::Home, Target::Area), (Target::Area, Target::Home)] {
            let (of_region, of_area) = match bad {
                Target::Home => (full().into(), memory(AREA)),
                Target::Area => (memory(AREA + REGION * SECTOR_BYTES), full().into()),
            };
            let area = Disk::new(of_area, Runs::new(&[(0, AREA)]));
            let region = Region::new(of_region, AREA, keys, Label::new("area"));
            let region = region.on_device_of(area.flushes());
            region.turn(UP);
            let home = Disk::new(memory(HOME), Runs::all()).with_guard(region);
            let files = Files::of(home, area, None);
            flush(&files, bad).unwrap_err();
            flush(&files, other).unwrap_err();
            assert_eq!(flush(&files, other), Ok(()), "once");
        }
    }

    /// With and without a write that the region may have lost: the area, whose flush fails, and the
    /// guard, which goes down, are `taken_down`.
    fn reports_what_the_region_may_have_lost(taken_down: impl Fn(&Files, &mut Disk)) {
        let (files, _area) = guarded();
        flush(&files, Target::Home).unwrap();
        for writes in [false, true] {
            if writes {
                let bytes = [7; 512];
                files.change(Target::Home, Op::Write, Flags::NONE, 8192, 512, &bytes).unwrap();
            }
            let area = Disk::new(full().into(), Runs::new(&[(0, AREA)]));
            let mut area = area.on_device_of(files.guard().unwrap().flushes());
            taken_down(&files, &mut area);
            assert_eq!(flush(&files, Target::Home).is_err(), writes);
            assert_eq!(flush(&files, Target::Home), Ok(()), "once");
            files.move_guard(true).unwrap();
            assert_eq!(flush(&files, Target::Home), Ok(()), "once");
        }
    }

    /// A failed flush of the area may have lost bytes of home's ends, and then the guard goes down.
    #[test]
    fn what_the_region_may_have_lost_is_reported_though_the_guard_went_down() {
        reports_what_the_region_may_have_lost(|files, area| {
            seekless_block::Device::flush(area).unwrap_err();
            files.move_guard(false).unwrap();
        });
    }

    /// The same if the flush of the area fails while the guard goes down.
    #[test]
    fn what_the_region_may_have_lost_during_a_move_of_the_guard_is_reported_too() {
        reports_what_the_region_may_have_lost(|files, area| {
            let region = files.guard().unwrap();
            region.keep_account(files.home(), || {
                region.take_down(files.home()).unwrap();
                seekless_block::Device::flush(area).unwrap_err();
            });
        });
    }

    /// Clients of a volume with replicas read zeroes there; after a crash the area may not know.
    #[test]
    fn a_discard_in_the_region_is_zeroes_for_the_next_server_too() {
        let (files, _area) = guarded();
        let change = |op, at, len: u64, with| {
            let bytes = vec![with; if op == Op::Write { len as usize } else { 0 }];
            files.change(Target::Home, op, Flags::NONE, at, len, &bytes).unwrap();
        };
        for at in [0, 64 << 10, HOME - (64 << 10)] {
            change(Op::Write, at, 64 << 10, 0xA5);
        }
        // In both ends, and from the first end into the middle.
        for (at, len) in [(8192, 4096), ((128 << 10) - 4096, 8192), (HOME - 4096, 4096)] {
            change(Op::Discard, at, len, 0);
            let mut found = vec![1; len as usize];
            files.read(Target::Home, at, &mut found).unwrap();
            assert!(found.iter().all(|&b| b == 0), "{at}");
        }
        let mut beside = [0; 512];
        files.read(Target::Home, 8192 - 512, &mut beside).unwrap();
        assert_eq!(beside, [0xA5; 512]);
    }

    /// Checksums hold from the stop in order of one server to the first write of the next.
    #[test]
    fn a_flipped_bit_in_the_region_is_not_read() {
        let (files, area) = guarded();
        let write = |at: u64, with: u8| {
            files.change(Target::Home, Op::Write, Flags::NONE, at, 512, &[with; 512]).unwrap();
        };
        let read = |at: u64| {
            let mut found = [0; 512];
            files.read(Target::Home, at, &mut found).map(|()| found[0])
        };
        write(8192 + 512, 7);
        assert!(!files.guard().unwrap().loses_sums(AREA + 4096 + 8192, 4096));
        assert_eq!(read(8192 + 512), Ok(7));
        files.guard().unwrap().close().unwrap();
        files.guard().unwrap().settle(files.home()).unwrap();
        for at in [8192, HOME - 4096] {
            let place = AREA + 4096 + if at < HOME / 2 { at } else { EDGE * 512 * 2 - 4096 };
            rustix::io::pwrite(&area, &[0x99], place + 600).unwrap();
            assert_eq!(read(at), Err(Errno::IO), "any sector of the page");
            assert_eq!(files.read_now(Target::Home, at + 512, &mut [0; 512]), None);
        }
        assert!(read(0).is_ok());
        // A write does not need the other bytes of the page to be right.
        assert!(files.write_now(Target::Home, 8192, &[3; 512]).is_none(), "a flush comes first");
        write(8192, 3);
        assert_eq!(read(8192), Ok(3));
    }
}
