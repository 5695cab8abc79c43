//! Reads at home: how far a miss reads before and behind the demanded pages.

use std::cell::Cell;
use std::ops::Range;

use super::features::{CandidatePlace, Features, RegionFeatures, Trigger, TriggerClasses};
use super::history::{REGION, Region};
use super::predictor::odds;
use super::{Adaptive, View, WATCHED, Window, WindowId};

/// Pages above the first demanded one that may be read along.
const ABOVE: u64 = 256;
/// Pages below.
const BELOW: u64 = 64;
/// Share of the expected saving that counts.
const CAUTION: f32 = 0.8;

impl Adaptive {
    /// A client misses these pages. Returns the disk time, ms, that a read at home would save
    /// beside these pages. [`Self::go_home`] returns the pages of this read: within `limits`, and
    /// `most` at most.
    pub fn weigh_home(
        &mut self,
        demanded: &Range<u64>,
        limits: Range<u64>,
        most: u64,
        view: &impl View,
    ) -> f32 {
        let most = most.min(self.longest(ABOVE as u32).into());
        let spare = most.saturating_sub(demanded.end - demanded.start);
        let run = match demanded.start == self.last_miss.end && self.now > 1 {
            true => (self.run + 1).min(2),
            false => 0,
        };
        let mut found = std::mem::take(&mut self.home.features);
        found.clear();
        let first = demanded.start.saturating_sub(BELOW).max(limits.start);
        let room = demanded.start - first;
        let (below, worth_below) = self.reach(demanded, run, false, room, view, &mut found);
        let mut weighed = found.len() as u64;
        let below = below.min(spare);
        self.looked_at.clear();
        let first = demanded.start - below;
        self.look_at(&found, below, |i| first - 1 - i);
        found.truncate(below as usize);
        found.reverse();
        found.extend(demanded.clone().map(|_| Features::default()));
        let behind = found.len();
        let end = (demanded.start + ABOVE).min(limits.end).max(demanded.end);
        let room = (end - demanded.end).min(spare - below);
        let (above, worth_above) = self.reach(demanded, run, true, room, view, &mut found);
        weighed += (found.len() - behind) as u64;
        let first = demanded.end + above;
        self.look_at(&found, behind as u64 + above, |i| first + i);
        found.truncate(behind + above as usize);
        self.counts.weighed += weighed;
        self.home = Window { features: found, slot: None, reads: 0 };
        self.home_pages = demanded.start - below..demanded.end + above;
        self.home_for = demanded.clone();
        worth_below + worth_above
    }

    /// Notes pages that a window does not reach, on every fourth miss.
    fn look_at(&mut self, found: &[Features], reach: u64, page: impl Fn(u64) -> u64) {
        if self.misses.is_multiple_of(4) {
            let beyond = found.get(reach as usize..).unwrap_or_default();
            let beyond = beyond.iter().take(WATCHED).zip(0..);
            self.looked_at.extend(beyond.map(|(features, i)| (page(i), *features)));
        }
    }

    /// Whether the read at home that was weighed last is the one of these pages.
    pub fn has_weighed_home(&self, demanded: &Range<u64>) -> bool {
        self.home_for == *demanded
    }

    /// The last weighed miss is read at home. Returns the pages of the read, which include
    /// `demanded`.
    ///
    /// # Panics
    /// If [`Self::has_weighed_home`] is false: the pages would belong to another miss.
    pub fn go_home(&mut self, demanded: &Range<u64>) -> (Range<u64>, WindowId) {
        assert!(self.has_weighed_home(demanded), "{demanded:?} was not weighed");
        self.home_for = 0..0;
        if let Some(trail) = &mut self.trail {
            trail.end_run();
        }
        self.missed(demanded);
        self.watch_looked_at();
        let pages = self.home_pages.clone();
        (pages, self.begin(false))
    }

    /// The properties that all candidates of one direction share. `region` holds the demanded page
    /// nearest to the candidates.
    fn trigger(&self, demanded: &Range<u64>, run: u32, forward: bool, region: &Region) -> Trigger {
        let page = if forward { demanded.end - 1 } else { demanded.start };
        Trigger {
            history: region[(page % REGION) as usize],
            forward,
            now: self.now,
            pages: demanded.end - demanded.start,
            run,
            last_miss: self.last_miss.start,
            used_beside: region.iter().filter(|h| h.last > 0).count() as u32,
            rate: self.rate(page),
        }
    }

    /// The features of a candidate and its probability: the mean of what the table of counts and the
    /// regression say, and the regression's alone. The table knows sooner, the regression better.
    fn predicted(
        &self,
        page: u64,
        of: &TriggerClasses,
        place: &CandidatePlace,
    ) -> (Features, f32, f32) {
        let counted = Cell::new(0.0);
        let odds_of = |cells| {
            counted.set(self.predictor.counts.probability(cells));
            odds(counted.get())
        };
        let features = Features::new(of, place, odds_of);
        if let Some(foreseen) = &self.foreseen {
            let p = foreseen.probability(page);
            return (features, p, p);
        }
        let regression = self.predictor.probability(&features);
        (features, f32::midpoint(counted.get(), regression), regression)
    }

    /// Returns the number of pages to read beyond the demanded pages in one direction, and the disk
    /// time that these pages save, ms. Adds the features of all examined pages to `found`.
    fn reach(
        &self,
        demanded: &Range<u64>,
        run: u32,
        forward: bool,
        room: u64,
        view: &impl View,
        found: &mut Vec<Features>,
    ) -> (u64, f32) {
        let page = if forward { demanded.end - 1 } else { demanded.start };
        let mut beside = CandidateRegion::new(self, page, view);
        let trigger = self.trigger(demanded, run, forward, beside.around.region);
        let classes = TriggerClasses::from(trigger);
        let (access, transfer) = (self.costs.access, self.costs.transfer);
        let pollution = self.costs.pollution();
        let give_up = self.give_up();
        let (mut sum, mut best, mut reach) = (0.0f32, 0.0f32, 0);
        // What a read of the trail saves is predicted by regression alone: so is what it is
        // compared with.
        let (mut by_regression, mut worth) = (0.0f32, 0.0f32);
        let mut previous = (1.0, trigger.history.last);
        let mut held_before = true;
        let mut at = page;
        for gap in 0..room {
            at = step(at, forward);
            beside.go(self, at, view);
            let next = step(at, forward);
            let (held, (held_next, last_next)) = (beside.holds(at), beside.next(self, next, view));
            let mut held_beside = [held_before, held_next];
            let mut beside_last = [previous.1, last_next];
            if !forward {
                held_beside.reverse();
                beside_last.reverse();
            }
            let around = &beside.around;
            let place = CandidatePlace {
                page: at,
                gap,
                around,
                beside: held_beside,
                beside_last,
                previous,
            };
            let (features, p, regression) = self.predicted(at, &classes, &place);
            found.push(features);
            previous = (p, beside.last(at));
            let saves = |p: f32| match held {
                true => -transfer,
                false => CAUTION * p * access - transfer - pollution,
            };
            sum += saves(p);
            by_regression += saves(regression);
            held_before = held;
            if sum > best {
                (best, reach, worth) = (sum, gap + 1, by_regression);
            }
            if sum < best - give_up {
                break;
            }
        }
        (reach, worth)
    }
}

/// The region of a candidate: what is known of its eight pages, looked up at once.
struct CandidateRegion<'a> {
    number: u64,
    around: RegionFeatures<'a>,
    held: [bool; REGION as usize],
}

impl<'a> CandidateRegion<'a> {
    fn new(of: &'a Adaptive, page: u64, view: &impl View) -> Self {
        let number = page / REGION;
        let held = view.eight_in_ram(number * REGION).map(|slot| slot.is_some());
        Self { number, around: of.around(number), held }
    }

    fn go(&mut self, of: &'a Adaptive, page: u64, view: &impl View) {
        if page / REGION != self.number {
            *self = Self::new(of, page, view);
        }
    }

    const fn holds(&self, page: u64) -> bool {
        self.held[(page % REGION) as usize]
    }

    fn last(&self, page: u64) -> u32 {
        self.around.region[(page % REGION) as usize].last
    }

    /// Whether a page in this region, or in the next, is in RAM; and its last use.
    fn next(&self, of: &Adaptive, page: u64, view: &impl View) -> (bool, u32) {
        match page / REGION == self.number {
            true => (self.holds(page), self.last(page)),
            false => (view.in_ram(page).is_some(), of.history.page(page).last),
        }
    }
}

/// The page beside this one.
const fn step(page: u64, forward: bool) -> u64 {
    if forward { page + 1 } else { page.wrapping_sub(1) }
}
