//! A shingled disk, managed by the drive: a media cache that is a log, bands that are only
//! rewritten as a whole, and the cleaning that moves data from the cache to the bands. It has no
//! queue.
//!
//! The structure is the one that Aghayev and Desnoyers found in drives ("Skylight", FAST 2015): one
//! persistent cache, a static map of bands, and cleaning in the order of the log, in idle time or
//! only when the cache is full. Assumptions without a published source are listed in
//! `docs/believing/disk-models.md`.

use std::collections::{BTreeMap, VecDeque};

use seekless_block::{Duration, Extent, Lba, SimTime};

use crate::disk::Access;
use crate::mechanism::{AccessPhases, Mechanism};
use crate::spec::ShingledSpec;

/// A write in the cache; all of it belongs to one band.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    len: u64,
    /// Sector of the cache.
    at: u64,
}

/// The additions of shingling to a mechanism. The cache uses the first sectors of the disk; the
/// bands follow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shingled {
    band: u64,
    cache: u64,
    entries_max: usize,
    idle: Option<Duration>,
    sequential: u64,
    capacity: u64,
    /// Client addresses whose newest copy is in the cache: length, and sector of the cache.
    map: BTreeMap<u64, (u64, u64)>,
    /// Writes in the cache, oldest first. The first one is in use.
    log: VecDeque<Entry>,
    /// Position of the next write in the log.
    head: u64,
    /// The run of consecutive writes: its first address, and the address after its last.
    run: (u64, u64),
    /// A band written in place up to this address, but not yet to its end.
    torn: Option<u64>,
    free_at: SimTime,
    pub(crate) next: Lba,
}

#[derive(Clone, Copy, Debug, Default)]
struct TimeSpent {
    seek: Duration,
    other: Duration,
}

impl TimeSpent {
    fn total(&self) -> Duration {
        self.seek + self.other
    }
}

impl Shingled {
    pub(crate) fn new(spec: &ShingledSpec, capacity: u64) -> Self {
        Self {
            band: spec.band_sectors,
            cache: spec.cache_sectors,
            entries_max: spec.cache_entries as usize,
            idle: spec.idle_ms.map(Duration::from_millis_f64),
            sequential: spec.sequential_sectors,
            capacity,
            ..Self::default()
        }
    }

    pub(crate) const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The sector of the disk that is the home of a client's address in its band.
    pub(crate) const fn home(&self, lba: u64) -> u64 {
        self.cache + lba
    }

    /// Performs an access that starts at `at`. Cleaning uses the idle time before it.
    pub(crate) fn access(
        &mut self,
        m: &mut Mechanism,
        at: SimTime,
        write: bool,
        extent: Extent,
    ) -> Access {
        let (ready, mut behind) = self.clean_while_idle(m, at);
        let begin = at.max(ready);
        // Cleaning that began before the command and ends after its arrival counts as time of the
        // command.
        let late = begin.since(at);
        behind.other = Duration(behind.other.0.saturating_sub(late.0));
        let mut pass = AccessSeries::new(m, begin);
        if write {
            self.write(&mut pass, extent);
        } else {
            self.read(&mut pass, extent);
        }
        self.free_at = pass.now;
        self.next = extent.end();
        let (start, first) = pass.first.unwrap_or((pass.now, AccessPhases::default()));
        let transfer = pass.now.since(start).0 - first.seek.0 - first.rotation.0;
        Access {
            overhead: start.since(at),
            seek: first.seek,
            rotation: first.rotation,
            transfer: Duration(transfer),
            cylinders: first.cylinders,
            behind_seek: behind.seek,
            behind_rotation_transfer: behind.other,
            ..Access::default()
        }
    }

    fn read(&self, pass: &mut AccessSeries<'_>, extent: Extent) {
        let (mut at, end) = (extent.start.0, extent.end().0);
        while at < end {
            let cached = self.map.range(..=at).next_back().filter(|(s, (len, _))| *s + len > at);
            let (lbn, len) = match cached {
                Some((s, (len, place))) => (place + (at - s), (s + len).min(end) - at),
                None => {
                    let next = self.map.range(at..end).next().map_or(end, |(s, _)| *s);
                    (self.home(at), next - at)
                }
            };
            pass.command(false, lbn, len);
            at += len;
        }
    }

    fn write(&mut self, pass: &mut AccessSeries<'_>, extent: Extent) {
        let (mut at, end) = (extent.start.0, extent.end().0);
        if at != self.run.1 {
            self.run.0 = at;
        }
        while at < end {
            let (first, last) = self.band_of(at);
            let to = end.min(last);
            if self.torn.is_some_and(|torn| torn != at) {
                self.repair(pass);
            }
            let long = self.run.0 <= first && at - self.run.0 >= self.sequential;
            if long || (at == first && to == last) {
                self.unmap(at, to);
                self.trim();
                pass.command(true, self.home(at), to - at);
                self.torn = (to < last).then_some(to);
            } else {
                let place = self.room(pass, to - at);
                pass.command(true, place, to - at);
                self.unmap(at, to);
                self.map.insert(at, (to - at, place));
                self.log.push_back(Entry { start: at, len: to - at, at: place });
                self.head = place + (to - at);
                self.trim();
            }
            at = to;
        }
        self.run.1 = end;
    }

    const fn band_of(&self, lba: u64) -> (u64, u64) {
        let first = lba / self.band * self.band;
        let last = first + self.band;
        (first, if last < self.capacity { last } else { self.capacity })
    }

    /// Finds a position in the cache; cleans bands until there is one.
    fn room(&mut self, pass: &mut AccessSeries<'_>, len: u64) -> u64 {
        loop {
            if let Some(place) = self.place(len) {
                return place;
            }
            let Some(oldest) = self.log.front().copied() else { return 0 };
            self.clean(pass, oldest.start);
        }
    }

    /// The position of the next entry of the log. An entry is not split at the cache's end.
    fn place(&self, len: u64) -> Option<u64> {
        let Some(tail) = self.log.front().map(|e| e.at) else { return Some(0) };
        if self.log.len() >= self.entries_max {
            return None;
        }
        if self.head <= tail {
            return (self.head + len <= tail).then_some(self.head);
        }
        if self.head + len <= self.cache {
            return Some(self.head);
        }
        (len <= tail).then_some(0)
    }

    /// Removes a range from the cache. The cached data around the range stays.
    fn unmap(&mut self, from: u64, to: u64) {
        if let Some((&s, &(len, place))) = self.map.range(..from).next_back()
            && s + len > from
        {
            self.map.insert(s, (from - s, place));
            if s + len > to {
                self.map.insert(to, (s + len - to, place + (to - s)));
            }
        }
        while let Some((&s, &(len, place))) = self.map.range(from..to).next() {
            self.map.remove(&s);
            if s + len > to {
                self.map.insert(to, (s + len - to, place + (to - s)));
            }
        }
    }

    /// Frees the oldest part of the log if none of it is in use.
    fn trim(&mut self) {
        while let Some(e) = self.log.front() {
            let mut over = self.map.range(..e.start + e.len).rev();
            let alive = over
                .by_ref()
                .take_while(|(s, (len, _))| *s + len > e.start)
                .any(|(s, (_, place))| place.wrapping_sub(*s) == e.at.wrapping_sub(e.start));
            if alive {
                return;
            }
            self.log.pop_front();
        }
        self.head = 0;
    }

    /// Updates a band: reads the band and its data in the cache, then writes the whole band.
    fn clean(&mut self, pass: &mut AccessSeries<'_>, lba: u64) {
        let (first, last) = self.band_of(lba);
        pass.own(false, self.home(first), last - first);
        let mut at = first;
        while let Some((&s, &(len, place))) = self.map.range(at..last).next() {
            pass.own(false, place, len);
            at = s + len;
        }
        pass.own(true, self.home(first), last - first);
        self.unmap(first, last);
        self.trim();
        if self.torn.is_some_and(|torn| (first..last).contains(&torn)) {
            self.torn = None;
        }
    }

    /// Completes a band that a stream left half-written: reads the rest and writes it again.
    fn repair(&mut self, pass: &mut AccessSeries<'_>) {
        let Some(torn) = self.torn.take() else { return };
        let (_, last) = self.band_of(torn);
        pass.own(false, self.home(torn), last - torn);
        pass.own(true, self.home(torn), last - torn);
    }

    /// Cleans from the time at which the disk has been idle long enough, until `at`. A band that
    /// was begun is completed. Returns the end time and the time spent.
    fn clean_while_idle(&mut self, m: &mut Mechanism, at: SimTime) -> (SimTime, TimeSpent) {
        let from = self.idle.map_or(at, |wait| SimTime(self.free_at.0.saturating_add(wait.0)));
        let mut pass = AccessSeries::new(m, from);
        while pass.now < at {
            if self.torn.is_some() {
                self.repair(&mut pass);
            } else if let Some(oldest) = self.log.front().copied() {
                self.clean(&mut pass, oldest.start);
            } else {
                break;
            }
        }
        let ended = if pass.own.total() > Duration::ZERO { pass.now } else { at };
        (ended, pass.own)
    }
}

/// A series of accesses without a break.
#[derive(Debug)]
struct AccessSeries<'m> {
    mechanism: &'m mut Mechanism,
    now: SimTime,
    /// Start of the command's first access, and its phases.
    first: Option<(SimTime, AccessPhases)>,
    /// Time spent on the drive's own work.
    own: TimeSpent,
}

impl<'m> AccessSeries<'m> {
    fn new(mechanism: &'m mut Mechanism, now: SimTime) -> Self {
        Self { mechanism, now, first: None, own: TimeSpent::default() }
    }

    fn access(&mut self, write: bool, lbn: u64, len: u64) -> AccessPhases {
        let target = self.mechanism.target(lbn, len, true, write);
        let extent = Extent::new(lbn, len);
        let phases = self.mechanism.access(self.now, &target, extent, &mut |_, _, _| {});
        self.now += phases.total();
        phases
    }

    /// An access that a command needs.
    fn command(&mut self, write: bool, lbn: u64, len: u64) {
        let began = self.now;
        let phases = self.access(write, lbn, len);
        self.first.get_or_insert((began, phases));
    }

    /// An access for the drive's own work.
    fn own(&mut self, write: bool, lbn: u64, len: u64) {
        let phases = self.access(write, lbn, len);
        self.own.seek += phases.seek;
        self.own.other += phases.rotation + phases.transfer;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::catalogue;
    use crate::device::DeviceSpec;

    fn small(idle_ms: Option<f64>) -> (Shingled, Mechanism) {
        let Ok(DeviceSpec::Disk(spec)) = catalogue::device("archive-8tb") else { panic!() };
        let shingled = ShingledSpec {
            band_sectors: 64,
            cache_sectors: 100,
            cache_entries: 9,
            sequential_sectors: 40,
            idle_ms,
        };
        (Shingled::new(&shingled, 1_000), Mechanism::new(&spec))
    }

    /// The invariants of the log and the map after any writes.
    fn sound(s: &Shingled) -> Result<(), TestCaseError> {
        prop_assert!(s.log.len() <= s.entries_max);
        let mut places: Vec<(u64, u64)> = s.map.values().map(|(len, at)| (*at, *len)).collect();
        places.sort_unstable();
        for pair in places.windows(2) {
            prop_assert!(pair[0].0 + pair[0].1 <= pair[1].0, "two copies share a sector");
        }
        let mut last = 0;
        for (start, (len, at)) in &s.map {
            prop_assert!(*len > 0 && *start >= last && start + len <= s.capacity);
            prop_assert_eq!(start / s.band, (start + len - 1) / s.band);
            prop_assert!(at + len <= s.cache);
            let within = |e: &Entry| e.at <= *at && at + len <= e.at + e.len;
            prop_assert!(s.log.iter().any(within), "a copy outside the log");
            last = start + len;
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn no_cached_copy_is_overwritten(
            steps in proptest::collection::vec((any::<bool>(), 0u64..1_000, 1u64..150, 0u64..4), 1..200),
            idles in any::<bool>(),
        ) {
            let (mut s, mut m) = small(idles.then_some(30.0));
            let (mut at, mut next) = (SimTime(0), 0);
            for (write, start, len, pause) in steps {
                // Every other write continues at the end of the last one.
                let start = if pause % 2 == 0 { start } else { next % 1_000 };
                let len = len.min(1_000 - start);
                at += Duration(pause / 2 * 100_000_000);
                let a = s.access(&mut m, at, write, Extent::new(start, len));
                at += a.total();
                next = start + len;
                sound(&s)?;
                if write {
                    // The last sector is in one of its two positions; cleaning does not lose it.
                    let cached = s.map.range(..next).next_back().is_some_and(|(f, (l, _))| f + l == next);
                    prop_assert!(cached || s.torn == Some(next) || next % 64 == 0 || next == 1_000);
                }
            }
            while let Some(oldest) = s.log.front().copied() {
                s.clean(&mut AccessSeries::new(&mut m, at), oldest.start);
                sound(&s)?;
            }
            prop_assert!(s.map.is_empty());
        }
    }
}
