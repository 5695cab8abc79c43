//! Two devices with volatile write caches, and every state that a power failure can leave.
//!
//! A write is a set of sectors, each atomic. Until a flush of its cache covers the write, each of
//! its sectors may or may not be on the medium, independently of the others: a superset of what a
//! disk does. This module knows no engine and no meaning of a byte.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_pcg::Pcg64Mcg;
use seekless_block::{Device, DeviceError, Extent, Flags, SECTOR_BYTES, Sectors};
use seekless_engine::Target;

/// The bytes of one sector; shared between images.
pub(crate) type Sector = Rc<[u8; SECTOR_BYTES as usize]>;

/// A sector that cannot be read until it is written again.
pub(crate) const UNREADABLE: [u8; SECTOR_BYTES as usize] = [0xBD; SECTOR_BYTES as usize];

/// The contents of both devices at the beginning of a life: home's sectors, then the area's.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    sectors: Vec<Sector>,
    home: usize,
    /// After a death of the engine alone: sectors that a cache has and no flush has covered, in
    /// order, with their bytes on the medium.
    cached: Vec<(usize, Sector)>,
    /// The guard of home is up, and names this generation of the area: nobody mounts home alone.
    pub(crate) guard: Option<u64>,
}

impl Image {
    /// Devices of `home` and `area` sectors, all zeroes.
    pub(crate) fn zeroed(home: Sectors, area: Sectors) -> Self {
        let zero = Rc::new([0; SECTOR_BYTES as usize]);
        let sectors = vec![zero; (home.0 + area.0) as usize];
        Self { sectors, home: home.0 as usize, cached: Vec::new(), guard: None }
    }

    /// The same on devices of other sizes; `home` and `area` make new sectors.
    pub(crate) fn resized(
        &self,
        sizes: (u64, u64),
        home: impl Fn(u64) -> Sector,
        area: &Sector,
    ) -> Self {
        let mut sectors = self.sectors(Target::Home).to_vec();
        sectors.truncate(sizes.0 as usize);
        sectors.extend((sectors.len() as u64..sizes.0).map(home));
        let old = self.sectors(Target::Area).iter().chain(std::iter::repeat(area));
        sectors.extend(old.take(sizes.1 as usize).cloned());
        Self { sectors, home: sizes.0 as usize, cached: Vec::new(), guard: self.guard }
    }

    /// Somebody flushes both devices.
    pub(crate) fn flush(&mut self) {
        self.cached.clear();
    }

    /// The caches' contents as ended writes; the image then is that of the medium.
    fn take_cached(&mut self) -> Vec<Unflushed> {
        let mut writes: Vec<Unflushed> = Vec::new();
        for (at, old) in std::mem::take(&mut self.cached) {
            let new = Some(std::mem::replace(&mut self.sectors[at], old));
            match writes.last_mut() {
                Some(w) if w.start + w.sectors.len() == at && at != self.home => {
                    w.sectors.push(new);
                }
                _ => {
                    let (ticket, done, failed) = (0, Some(0), false);
                    writes.push(Unflushed { ticket, start: at, sectors: vec![new], done, failed });
                }
            }
        }
        writes
    }

    /// The sectors of one device.
    pub(crate) fn sectors(&self, target: Target) -> &[Sector] {
        match target {
            Target::Home => &self.sectors[..self.home],
            Target::Area => &self.sectors[self.home..],
        }
    }

    /// The same, mutable.
    pub(crate) fn sectors_mut(&mut self, target: Target) -> &mut [Sector] {
        match target {
            Target::Home => &mut self.sectors[..self.home],
            Target::Area => &mut self.sectors[self.home..],
        }
    }
}

/// A write that is not known to be on the medium.
#[derive(Clone, Debug)]
struct Unflushed {
    ticket: u64,
    /// First sector, counted as in [`Image`].
    start: usize,
    /// A sector is `None` once a later write to it bypassed the cache.
    sectors: Vec<Option<Sector>>,
    /// When it ended; `None` while it is in flight.
    done: Option<u64>,
    /// The device failed it: its sectors prove nothing.
    failed: bool,
}

/// Home and area, with the contents of their caches. A write starts and ends by its ticket. So does
/// a flush, which covers all writes that ended before its start.
#[derive(Clone, Debug)]
pub(crate) struct Medium {
    /// The contents that are certainly on the medium.
    flushed: Image,
    /// The bytes that a read returns.
    current: Image,
    /// For each sector that is certainly on the medium: when it was sent, and when a flush ended
    /// after which the engine may rely on it. Without such a flush, a time after all others.
    history: Vec<(u64, u64)>,
    /// Ended writes in order of their ends, then writes in flight.
    unflushed: Vec<Unflushed>,
    /// Flushes in flight: the ticket, and that of the first write to the area that had not ended by
    /// then.
    flushes: Vec<(u64, u64)>,
    /// One cache serves both devices: the area is a part of home's disk.
    shared: bool,
    /// Starts and ends so far.
    clock: u64,
    /// Synchronous writes and flushes until the power fails; see [`Disk`].
    power: Option<u64>,
}

impl Medium {
    /// Devices that hold `image`; `shared` if one cache serves both.
    pub(crate) fn new(mut image: Image, shared: bool) -> Self {
        let mut current = image.clone();
        current.flush();
        let unflushed = image.take_cached();
        let history = vec![(0, 0); image.sectors.len()];
        Self {
            flushed: image,
            current,
            history,
            unflushed,
            flushes: Vec::new(),
            shared,
            clock: 0,
            power: None,
        }
    }

    /// The bytes that a read of both devices returns now.
    pub(crate) const fn current(&self) -> &Image {
        &self.current
    }

    /// Counts every start and end of a write or flush: equal values mean equal states.
    pub(crate) const fn clock(&self) -> u64 {
        self.clock
    }

    /// The power fails at the synchronous write or flush after the next `operations`; never if
    /// `None`.
    pub(crate) const fn set_power(&mut self, operations: Option<u64>) {
        self.power = operations;
    }

    /// Whether the power has failed.
    pub(crate) const fn is_off(&self) -> bool {
        matches!(self.power, Some(0))
    }

    fn at(&self, target: Target, extent: Extent) -> Range<usize> {
        let from =
            extent.start.0 as usize + if target == Target::Area { self.flushed.home } else { 0 };
        from..from + extent.len.0 as usize
    }

    /// Fills `buf` with the bytes of `extent`. False if the read fails.
    pub(crate) fn read(&self, target: Target, extent: Extent, buf: &mut [u8]) -> bool {
        let sectors = &self.current.sectors[self.at(target, extent)];
        for (sector, to) in sectors.iter().zip(buf.chunks_mut(SECTOR_BYTES as usize)) {
            to.copy_from_slice(&sector[..]);
        }
        sectors.iter().all(|sector| **sector != UNREADABLE)
    }

    /// From here on the sectors may be on the medium; zeroes without bytes. Returns the ticket.
    pub(crate) fn start_write(
        &mut self,
        target: Target,
        extent: Extent,
        bytes: Option<&[u8]>,
    ) -> u64 {
        self.clock += 1;
        let range = self.at(target, extent);
        let sectors = match bytes {
            Some(bytes) => bytes
                .chunks_exact(SECTOR_BYTES as usize)
                .map(|s| <[u8; SECTOR_BYTES as usize]>::try_from(s).ok().map(Rc::new))
                .collect(),
            None => vec![Some(Rc::new([0; SECTOR_BYTES as usize])); range.len()],
        };
        self.unflushed.push(Unflushed {
            ticket: self.clock,
            start: range.start,
            sectors,
            done: None,
            failed: false,
        });
        self.clock
    }

    /// As a write of zeroes; sectors that are not `zeroed` keep their bytes.
    pub(crate) fn start_discard(
        &mut self,
        target: Target,
        extent: Extent,
        zeroed: impl Fn(u64) -> bool,
    ) -> u64 {
        let ticket = self.start_write(target, extent, None);
        if let Some(write) = self.unflushed.last_mut() {
            for (sector, lba) in write.sectors.iter_mut().zip(extent.start.0..) {
                sector.take_if(|_| !zeroed(lba));
            }
        }
        ticket
    }

    /// The write has ended: reads see it. With FUA it is on the medium.
    ///
    /// # Panics
    /// If no such write is in flight.
    pub(crate) fn finish_write(&mut self, ticket: u64, flags: Flags) {
        self.clock += 1;
        let found = self.unflushed.iter().position(|w| w.ticket == ticket && w.done.is_none());
        let Some(index) = found else { panic!("write {ticket} is not in flight") };
        let mut write = self.unflushed.remove(index);
        for (i, sector) in write.sectors.iter().enumerate() {
            if let Some(sector) = sector {
                self.current.sectors[write.start + i] = Rc::clone(sector);
            }
        }
        let first_open = self.unflushed.partition_point(|w| w.done.is_some());
        if flags.contains(Flags::FUA) {
            for (i, sector) in write.sectors.into_iter().enumerate() {
                let Some(sector) = sector else { continue };
                let at = write.start + i;
                self.flushed.sectors[at] = sector;
                for older in &mut self.unflushed[..first_open] {
                    if let Some(s) =
                        at.checked_sub(older.start).and_then(|i| older.sectors.get_mut(i))
                    {
                        *s = None;
                    }
                }
            }
        } else {
            write.done = Some(self.clock);
            self.unflushed.insert(first_open, write);
        }
    }

    /// The write failed: some of its sectors reached the device, as with any write, or none, or
    /// all.
    pub(crate) fn fail_write(&mut self, ticket: u64, rng: &mut Pcg64Mcg) {
        let found = self.unflushed.iter_mut().find(|w| w.ticket == ticket && w.done.is_none());
        let Some(write) = found else { panic!("write {ticket} is not in flight") };
        write.failed = true;
        let cut = rng.random_range(0..=write.sectors.len());
        let kind = rng.random_range(0..4u8);
        for (i, sector) in write.sectors.iter_mut().enumerate() {
            let keep = match kind {
                0 => false,
                1 => true,
                2 => i < cut,
                _ => rng.random(),
            };
            if !keep {
                *sector = None;
            }
        }
        self.finish_write(ticket, Flags::NONE);
    }

    /// The flush failed: it proves nothing.
    pub(crate) fn fail_flush(&mut self, ticket: u64) {
        self.clock += 1;
        self.flushes.retain(|&(flush, _)| flush != ticket);
    }

    /// The host forgets sectors of a device that it could not write: no later flush covers them. Reads
    /// of home still return them, from the host's cache. Reads of the area bypass that cache: they
    /// return the bytes from before.
    pub(crate) fn forget(&mut self, target: Target, rng: &mut Pcg64Mcg) {
        let (home, of_home) = (self.flushed.home, target == Target::Home);
        for write in self.unflushed.iter_mut().filter(|w| (w.start < home) == of_home) {
            let all = rng.random();
            for sector in &mut write.sectors {
                sector.take_if(|_| write.done.is_some() && (all || rng.random()));
            }
            write.failed |= write.done.is_some();
        }
        if !of_home {
            let current = &mut self.current.sectors;
            current[home..].clone_from_slice(&self.flushed.sectors[home..]);
            for write in self.unflushed.iter().filter(|w| w.start >= home && w.done.is_some()) {
                apply(current, write, |_| true);
            }
        }
    }

    /// Returns the ticket of a flush.
    pub(crate) fn start_flush(&mut self) -> u64 {
        self.clock += 1;
        // A log ends in order: a write behind one in flight has not ended, though it may be
        // finished.
        let open =
            self.unflushed.iter().filter(|w| w.done.is_none() && w.start >= self.flushed.home);
        let ended = open.map(|w| w.ticket).min().unwrap_or(self.clock);
        self.flushes.push((self.clock, ended));
        self.clock
    }

    /// The flush has ended: writes that were finished at its start are on the medium; later ones
    /// may be. `told`: the engine takes the flush as a promise about the area.
    pub(crate) fn finish_flush(&mut self, target: Target, ticket: u64, told: bool) {
        self.clock += 1;
        let home = self.flushed.home;
        let (flushed, history, shared) = (&mut self.flushed, &mut self.history, self.shared);
        self.unflushed.retain(|write| {
            let here = shared || (write.start < home) == (target == Target::Home);
            let covered = here && write.done.is_some_and(|done| done < ticket);
            if covered {
                apply(&mut flushed.sectors, write, |_| true);
                if !write.failed {
                    history[write.start..write.start + write.sectors.len()]
                        .fill((write.ticket, u64::MAX));
                }
            }
            !covered
        });
        let at = self.flushes.iter().position(|&(flush, _)| flush == ticket);
        let ended = at.map_or(0, |at| self.flushes.swap_remove(at).1);
        if told && target == Target::Area {
            for (sent, known) in &mut history[home..] {
                if *known == u64::MAX && *sent < ended {
                    *known = self.clock;
                }
            }
        }
    }

    /// Whether `log`, sectors of the area, has on the medium a sector that was sent after the
    /// engine knew that sector `at` is on the medium. Without such proof a sector looks like a torn
    /// write.
    pub(crate) fn is_vouched(&self, log: &Range<u64>, at: usize) -> bool {
        let (area, here) = (&self.history[self.flushed.home..], self.flushed.home + at);
        if self.unflushed.iter().any(|w| (w.start..w.start + w.sectors.len()).contains(&here)) {
            return false;
        }
        // The checkpoint at attach knows these contents.
        area[at].0 == 0
            || area[log.start as usize..log.end as usize].iter().any(|&(sent, _)| sent > area[at].1)
    }

    /// Moves the guard of home, durably; up with the area's generation.
    pub(crate) const fn move_guard(&mut self, to: Option<u64>) {
        self.clock += 1;
        (self.flushed.guard, self.current.guard) = (to, to);
    }

    /// The same as one more operation at which the power may fail.
    pub(crate) const fn sync_guard(&mut self, to: Option<u64>) {
        if let Some(left) = &mut self.power {
            *left = left.saturating_sub(1);
        }
        if !self.is_off() {
            self.move_guard(to);
        }
    }

    /// The state that the engine's death leaves while the devices live on: all ended writes, and
    /// any part of those in flight, chosen by `rng`. What no flush has covered is still in a cache.
    pub(crate) fn kill(&self, rng: &mut Pcg64Mcg) -> Image {
        let mut image = self.current.clone();
        let mut open: Vec<_> = self.unflushed.iter().filter(|w| w.done.is_none()).collect();
        open.shuffle(rng);
        for write in open {
            match rng.random_range(0..4u8) {
                0 | 1 => {}
                2 => apply(&mut image.sectors, write, |_| true),
                _ => tear(&mut image.sectors, write, rng),
            }
        }
        let both = image.sectors.iter().zip(&self.flushed.sectors).enumerate();
        let cached = both.filter(|(_, (new, old))| new != old);
        image.cached = cached.map(|(at, (_, old))| (at, Rc::clone(old))).collect();
        image
    }

    /// A state that a power failure may leave, chosen by `rng`. Two caches lose their contents
    /// independently.
    pub(crate) fn crash(&self, rng: &mut Pcg64Mcg) -> Image {
        let mut image = self.flushed.clone();
        let home = self.flushed.home;
        let (of_home, of_area): (Vec<_>, Vec<_>) =
            self.unflushed.iter().partition(|w| w.start < home);
        if self.shared {
            lose(&mut image.sectors, self.unflushed.iter().collect(), rng);
        } else {
            lose(&mut image.sectors, of_home, rng);
            lose(&mut image.sectors, of_area, rng);
        }
        image
    }
}

fn apply(sectors: &mut [Sector], write: &Unflushed, mut keep: impl FnMut(usize) -> bool) {
    for (i, sector) in write.sectors.iter().enumerate() {
        if let Some(sector) = sector
            && keep(i)
        {
            sectors[write.start + i] = Rc::clone(sector);
        }
    }
}

/// Puts some of the unflushed writes of one cache on the medium.
fn lose(sectors: &mut [Sector], mut writes: Vec<&Unflushed>, rng: &mut Pcg64Mcg) {
    let open = writes.partition_point(|w| w.done.is_some());
    writes[open..].shuffle(rng);
    match rng.random_range(0..8u8) {
        // All of it lost, acknowledged writes since the last flush included.
        0 => {}
        // Nothing lost.
        1 => writes.iter().for_each(|w| apply(sectors, w, |_| true)),
        // A prefix in order, and a part of the next write.
        2 | 3 => {
            let whole = rng.random_range(0..=writes.len());
            writes[..whole].iter().for_each(|w| apply(sectors, w, |_| true));
            if let Some(torn) = writes.get(whole) {
                tear(sectors, torn, rng);
            }
        }
        // All but one write: tests code that relies on it.
        4 => {
            let without = rng.random_range(0..writes.len().max(1));
            for (i, w) in writes.iter().enumerate() {
                if i != without {
                    apply(sectors, w, |_| true);
                } else if rng.random() {
                    tear(sectors, w, rng);
                }
            }
        }
        // One write alone: tests code that relies on earlier ones.
        5 => {
            if let Some(w) = writes.choose(rng) {
                apply(sectors, w, |_| true);
            }
        }
        // Any of the writes, in order or not, and a part of the last one.
        6 => {
            writes.retain(|_| rng.random());
            if rng.random() {
                writes.shuffle(rng);
            }
            if let Some((last, rest)) = writes.split_last() {
                rest.iter().for_each(|w| apply(sectors, w, |_| true));
                tear(sectors, last, rng);
            }
        }
        // Any sector of any write.
        _ => {
            writes.shuffle(rng);
            writes.iter().for_each(|w| apply(sectors, w, |_| rng.random()));
        }
    }
}

/// Puts a part of a write on the medium: its first sectors, its last, or any.
fn tear(sectors: &mut [Sector], write: &Unflushed, rng: &mut Pcg64Mcg) {
    let cut = rng.random_range(0..=write.sectors.len());
    match rng.random_range(0..3u8) {
        0 => apply(sectors, write, |i| i < cut),
        1 => apply(sectors, write, |i| i >= cut),
        _ => apply(sectors, write, |_| rng.random()),
    }
}

/// One of the two devices for synchronous readers and writers. When the power fails, the current
/// operation stays in flight, and this and all later ones fail.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    medium: Rc<RefCell<Medium>>,
    target: Target,
}

impl Disk {
    /// The home or the area of `medium`.
    pub(crate) const fn new(medium: Rc<RefCell<Medium>>, target: Target) -> Self {
        Self { medium, target }
    }

    fn put(
        &self,
        extent: Extent,
        bytes: Option<&[u8]>,
        op: &'static str,
    ) -> Result<(), DeviceError> {
        let mut medium = self.medium.borrow_mut();
        if medium.is_off() {
            return Err(lost(op, extent));
        }
        let ticket = medium.start_write(self.target, extent, bytes);
        spend(&mut medium, op, extent)?;
        medium.finish_write(ticket, Flags::NONE);
        Ok(())
    }
}

fn lost(op: &'static str, extent: Extent) -> DeviceError {
    DeviceError::Io { op, extent, source: std::io::Error::other("the power is off") }
}

fn spend(medium: &mut Medium, op: &'static str, extent: Extent) -> Result<(), DeviceError> {
    if let Some(left) = &mut medium.power {
        *left = left.saturating_sub(1);
        if *left == 0 {
            return Err(lost(op, extent));
        }
    }
    Ok(())
}

impl Device for Disk {
    fn capacity(&self) -> Sectors {
        Sectors(self.medium.borrow().current.sectors(self.target).len() as u64)
    }

    fn read(&mut self, extent: Extent, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check(extent, buf.len())?;
        let medium = self.medium.borrow();
        if medium.is_off() {
            return Err(lost("read", extent));
        }
        if medium.read(self.target, extent, buf) {
            return Ok(());
        }
        let source = std::io::Error::other("a sector cannot be read");
        Err(DeviceError::Io { op: "read", extent, source })
    }

    fn write(&mut self, extent: Extent, buf: &[u8]) -> Result<(), DeviceError> {
        self.check(extent, buf.len())?;
        self.put(extent, Some(buf), "write")
    }

    fn flush(&mut self) -> Result<(), DeviceError> {
        let mut medium = self.medium.borrow_mut();
        if medium.is_off() {
            return Err(lost("flush", Extent::default()));
        }
        let ticket = medium.start_flush();
        spend(&mut medium, "flush", Extent::default())?;
        medium.finish_flush(self.target, ticket, true);
        Ok(())
    }

    fn write_zeroes(&mut self, extent: Extent) -> Result<(), DeviceError> {
        self.check(extent, extent.bytes().0 as usize)?;
        self.put(extent, None, "write zeroes")
    }
}
