//! The adaptive policy. **Learned read-ahead** chooses at each miss how many pages to read before
//! and behind the demanded pages. A page is read if the disk time that the page will probably save
//! is more than the disk time that the page costs. The **trail** is a ring of copies in the order
//! of use. A miss reads the trail if this read will probably save more disk time than a read at
//! home. Both learn from each prefetched page when the page is used, or is evicted unused.
//!
//! Pure: pages, slots and times are arguments. The policy allocates nothing after its construction,
//! unless more windows are in flight than ever before. A "first use" is a client's read of a page
//! that is not in RAM, or the first read of a prefetched page.

mod costs;
mod features;
mod foreseen;
mod ghosts;
mod guard;
mod history;
mod home_reads;
mod memory;
mod predictor;
mod trail;
mod trail_features;
mod trail_price;
mod trail_reads;

use std::ops::Range;

use costs::Costs;
pub use costs::without_stall;
pub use foreseen::Foreseen;
pub use guard::{DayTimes, Guard};
pub use trail_reads::TRAIL_WINDOW;

use features::{COARSE, FEATURES, FINE, Features, RegionFeatures, prior};
use ghosts::Ghosts;
use history::{History, PrefetchOutcome, REGION};
use predictor::Predictor;
use trail::Trail;

/// A window ends where the sum of its values has lost the cost of this number of worthless pages.
const GIVE_UP: f32 = 10.0;
/// Worth of the use of a page that another prefetched page would have brought.
const COVERED: f32 = 0.1;
/// Pages in one direction that a miss looks at and does not read, and that are watched.
const WATCHED: usize = 64;
/// Windows that have memory from the start. More are in flight under many clients alone.
const WINDOWS: u32 = 16;
/// The clock is set back before it reaches this.
const CLOCK_END: u32 = 1 << 31;
/// Pages of the longest I/O, 2 MiB.
const LONGEST_IO: u64 = 512;
/// No window, no slot.
const NONE: u32 = u32::MAX;

/// What a device I/O was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A client's read at home.
    HomeRead {
        /// Pages that were read.
        pages: u64,
    },
    /// Pages that are read along behind such a read.
    HomeAlong {
        /// Pages that were read.
        pages: u64,
    },
    /// A client's read of the trail.
    TrailRead {
        /// Pages that were read.
        pages: u64,
    },
    /// Slots of the trail that are read along behind such a read.
    TrailAlong,
    /// Anything that the trail has written.
    TrailWrite,
    /// Anything else at home.
    HomeOther,
    /// Anything else.
    Other,
}

impl Work {
    /// Pages of the I/O, or the most that it can have.
    const fn pages(self) -> u64 {
        match self {
            Self::HomeRead { pages } | Self::HomeAlong { pages } | Self::TrailRead { pages } => {
                pages
            }
            Self::TrailAlong | Self::TrailWrite | Self::HomeOther | Self::Other => LONGEST_IO,
        }
    }
}

/// What the engine knows of RAM and of the trail.
pub trait View {
    /// The slot of RAM in which a page stands.
    fn in_ram(&self, page: u64) -> Option<u32>;
    /// The same for eight pages, from a page that eight divides.
    fn eight_in_ram(&self, first: u64) -> [Option<u32>; 8];
    /// The page whose copy stands, and may be read, in a slot of the trail.
    fn copy_in(&self, slot: u32) -> Option<u64>;
    /// The slot of the newest copy of a page.
    fn newest_copy(&self, page: u64) -> Option<u32>;
    /// Slots of the trail that were written after this one.
    fn behind_head(&self, slot: u32) -> u32;
}

/// What stands in a page of RAM.
#[derive(Clone, Copy, Debug, Default)]
struct RamPage {
    features: Features,
    /// Slot of the trail that it came from, or none.
    slot: u32,
    /// Count of insertions and touches when it was last touched.
    touched: u32,
    /// Prefetched, and neither used nor evicted so far.
    waits: bool,
}

/// A window: the features of its pages, in order.
#[derive(Debug)]
struct Window {
    features: Vec<Features>,
    /// First slot of a window of the trail.
    slot: Option<u32>,
    /// Reads that bring it.
    reads: u32,
}

impl Window {
    /// An empty one, with memory for the longest: pages below, demanded ones of a buffer, above.
    fn new() -> Self {
        Self { features: Vec::with_capacity(640), slot: None, reads: 0 }
    }
}

/// The name of a window in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowId(u32);

impl Default for WindowId {
    fn default() -> Self {
        Self(NONE)
    }
}

/// What was prefetched so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefetched {
    /// Pages that were brought to RAM although nobody had asked for them.
    pub pages: u64,
    /// Of these, pages that were used.
    pub used: u64,
    /// Of these, pages that were evicted or overwritten unused.
    pub unused: u64,
    /// Candidates that were weighed, prefetched or not.
    pub weighed: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Adaptive {
    costs: Costs,
    history: History,
    predictor: Predictor<FEATURES>,
    trail: Option<Trail>,
    ram: Vec<RamPage>,
    /// By slot of RAM: the read of another used, prefetched page would also have read this page.
    covered: Vec<bool>,
    /// The windows that the last miss may take: at home, on the trail.
    home: Window,
    along: Window,
    home_pages: Range<u64>,
    /// The demanded pages that a read at home was weighed for; none once that read was sent, or
    /// another way was chosen.
    home_for: Range<u64>,
    /// Pages that the last miss looked at in vain.
    looked_at: Vec<(u64, Features)>,
    ghosts: Ghosts,
    misses: u32,
    windows: Vec<Window>,
    windows_free: Vec<u32>,
    /// First uses so far.
    now: u32,
    /// Insertions and touches so far.
    touches: u32,
    recent: [u64; 8],
    recent_at: usize,
    last_miss: Range<u64>,
    run: u32,
    /// Hit rate of prefetched pages by 128 KiB, hashed: 0 unknown, else 1 to 255.
    rates: Vec<u8>,
    counts: Prefetched,
    /// See [`Self::count_pages`].
    whole: bool,
    foreseen: Option<Box<Foreseen>>,
}

const RATES: usize = 1 << 16;

fn rate_at(page: u64) -> usize {
    ((page >> 5).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as usize
}

/// Pages that a read of this page would have brought along.
fn brought_with(page: u64) -> Range<u64> {
    page.saturating_sub(2)..page.saturating_add(16)
}

impl Adaptive {
    /// With RAM of `ram` pages, memory of the uses of about `remembered` pages, and a trail of `slots` slots, or none.
    pub fn new(ram: u32, remembered: u64, trail: u32) -> Self {
        Self {
            costs: Costs::new(ram),
            history: History::new(remembered),
            predictor: Predictor::new((COARSE, FINE), prior),
            trail: (trail > 0).then(|| Trail::new(trail)),
            ram: vec![RamPage::default(); ram as usize],
            covered: vec![false; ram as usize],
            home: Window::new(),
            along: Window::new(),
            home_pages: 0..0,
            home_for: 0..0,
            looked_at: Vec::with_capacity(2 * WATCHED),
            ghosts: Ghosts::new(),
            misses: 0,
            windows: (0..WINDOWS).map(|_| Window::new()).collect(),
            windows_free: (0..WINDOWS).collect(),
            now: 1,
            touches: 0,
            recent: [u64::MAX; 8],
            recent_at: 0,
            last_miss: 0..0,
            run: 0,
            rates: vec![0; RATES],
            counts: Prefetched::default(),
            whole: false,
            foreseen: None,
        }
    }

    /// From now on the future is known, and nothing is predicted.
    pub fn foresee(&mut self, foreseen: Foreseen) {
        self.foreseen = Some(Box::new(foreseen));
    }

    /// What is known of the future.
    pub fn foreseen(&mut self) -> Option<&mut Foreseen> {
        self.foreseen.as_deref_mut()
    }

    /// What it prefetched so far.
    pub const fn counts(&self) -> Prefetched {
        self.counts
    }

    /// Time that a page takes to be transferred, ms.
    pub const fn transfer_ms(&self) -> f32 {
        self.costs.transfer
    }

    /// A search ends where its sum is below its maximum by this time, ms.
    fn give_up(&self) -> f32 {
        GIVE_UP * (self.costs.transfer + self.costs.pollution())
    }

    /// Each page of a read costs `ms` beside its transfer. `whole`: one read gets the demanded
    /// pages and the read-ahead, so the policy must derive access and transfer times from the times
    /// of such reads.
    pub fn count_pages(&mut self, whole: bool, ms: f32) {
        (self.whole, self.costs.transfer) = (whole, self.costs.transfer + ms);
    }

    /// The disk worked for `ms`.
    pub fn worked(&mut self, work: Work, ms: f64) {
        let ms = self.costs.counted(work.pages(), ms);
        self.costs.busy(ms);
        let way_back = f64::from(self.costs.way_back());
        match work {
            Work::HomeRead { pages } => {
                if self.whole {
                    self.costs.fit(pages, ms);
                }
                self.costs.read(pages, ms, false);
            }
            Work::HomeAlong { pages } => {
                self.costs.read_along(pages, ms);
                self.costs.went(false);
            }
            Work::TrailRead { pages } => self.costs.read(pages, ms, true),
            Work::TrailAlong | Work::TrailWrite => self.costs.went(true),
            Work::HomeOther => self.costs.went(false),
            Work::Other => {}
        }
        if let Some(trail) = &mut self.trail {
            trail.worked(work, ms, way_back);
        }
    }

    /// Hands a window that was weighed to a read in flight.
    fn begin(&mut self, on_trail: bool) -> WindowId {
        let id = self.windows_free.pop().unwrap_or_else(|| {
            self.windows.push(Window::new());
            self.windows.len() as u32 - 1
        });
        let from = if on_trail { &mut self.along } else { &mut self.home };
        std::mem::swap(from, &mut self.windows[id as usize]);
        self.windows[id as usize].reads = 1;
        WindowId(id)
    }

    /// A client misses these pages while the policy does not choose the read. The policy still
    /// learns: now and then it watches the pages that it could have read ahead.
    pub fn stood_aside(
        &mut self,
        demanded: &Range<u64>,
        limits: Range<u64>,
        most: u64,
        view: &impl View,
    ) {
        if let Some(trail) = &mut self.trail {
            trail.end_run();
        }
        // A longer request has no window that could be learned of.
        let watches = self.misses.is_multiple_of(4) && demanded.end - demanded.start <= most;
        if watches {
            self.weigh_home(demanded, limits, most, view);
        }
        self.missed(demanded);
        if watches {
            for (page, at) in self.home_pages.clone().zip(0..) {
                if !demanded.contains(&page) {
                    self.ghosts.watch(page, self.touches, self.home.features[at]);
                }
            }
        }
        self.home_for = 0..0;
        self.watch_looked_at();
    }

    /// Nothing is appended to the trail.
    pub fn append_nothing(&mut self) {
        if let Some(trail) = &mut self.trail {
            trail.append_nothing();
        }
    }

    /// Watches the pages that the last miss looked at in vain.
    fn watch_looked_at(&mut self) {
        for (page, features) in self.looked_at.drain(..) {
            self.ghosts.watch(page, self.touches, features);
        }
        self.misses = self.misses.wrapping_add(1);
    }

    fn missed(&mut self, demanded: &Range<u64>) {
        self.run = match demanded.start == self.last_miss.end && self.now > 1 {
            true => (self.run + 1).min(2),
            false => 0,
        };
        self.last_miss = demanded.clone();
        for page in demanded.clone() {
            if let Some(features) = self.ghosts.take(page) {
                let y = if page == demanded.start { 1.0 } else { COVERED };
                self.predictor.learn(&features, y);
            }
        }
        while let Some(features) = self.ghosts.expired(self.touches) {
            self.predictor.learn(&features, 0.0);
        }
        demanded.clone().for_each(|page| self.used(page));
    }

    /// Pages that a client waited for came to RAM. In the order in which such pages come, they are
    /// appended to the trail.
    pub fn came(&mut self, pages: Range<u64>, from_trail: bool) {
        if let Some(trail) = &mut self.trail {
            pages.for_each(|page| trail.used(page, from_trail, self.touches));
        }
    }

    fn around(&self, region: u64) -> RegionFeatures<'_> {
        let rate = self.rate(region * REGION);
        RegionFeatures::new(self.history.region(region), region, rate, &self.recent)
    }

    fn rate(&self, page: u64) -> u32 {
        match self.rates[rate_at(page)] {
            0 => 0,
            rate => 1 + u32::from(rate) / 32,
        }
    }

    /// A first use.
    fn used(&mut self, page: u64) {
        let now = self.now;
        let entry = self.history.entry(page, now);
        (entry.before, entry.last) = (entry.last, now);
        self.now += 1;
        if self.now >= CLOCK_END {
            self.history.rewind(CLOCK_END / 2);
            self.now -= CLOCK_END / 2;
        }
        self.recent[self.recent_at] = page;
        self.recent_at = (self.recent_at + 1) % self.recent.len();
        self.costs.used();
    }

    /// A page came into a new slot of RAM: the page with this number in a window, or a page that a
    /// client requested. `full`: another page was evicted for this page.
    pub fn fill(&mut self, slot: u32, page: u64, from: Option<(WindowId, u32)>, full: bool) {
        self.touch(slot);
        if full {
            self.costs.inserted();
        }
        let features = from.filter(|(id, _)| id.0 != NONE).and_then(|(id, at)| {
            let window = &self.windows[id.0 as usize];
            let features = window.features.get(at as usize).copied();
            features.map(|features| (features, window.slot.map_or(NONE, |slot| slot + at)))
        });
        let entry = &mut self.ram[slot as usize];
        *entry = RamPage { touched: entry.touched, ..RamPage::default() };
        self.covered[slot as usize] = false;
        self.ghosts.take(page);
        if let Some((features, from)) = features {
            (entry.features, entry.slot, entry.waits) = (features, from, true);
            if let Some(trail) = &mut self.trail {
                trail.uncover(from);
            }
            self.counts.pages += 1;
            let now = self.now;
            let entry = self.history.entry(page, now);
            entry.fetched = (entry.fetched + 1).min(3);
        }
    }

    /// One more read brings a part of a window.
    pub fn share(&mut self, window: WindowId) {
        if let Some(window) = self.windows.get_mut(window.0 as usize) {
            window.reads += 1;
        }
    }

    /// A read of a window has ended.
    pub fn end(&mut self, window: WindowId) {
        if let Some(ended) = self.windows.get_mut(window.0 as usize) {
            ended.reads -= 1;
            if ended.reads == 0 {
                self.windows_free.push(window.0);
            }
        }
    }

    fn touch(&mut self, slot: u32) {
        self.touches = self.touches.wrapping_add(1);
        self.ram[slot as usize].touched = self.touches;
    }

    /// RAM lost all its pages: none is close to eviction until RAM is full again.
    pub const fn ram_emptied(&mut self) {
        self.costs.full = false;
    }

    /// A client reads a page that stands in a slot of RAM. `oldest` is the slot that is evicted next.
    pub fn hit(&mut self, slot: u32, page: u64, oldest: u32, view: &impl View) {
        let of = |slot: u32| self.touches.wrapping_sub(self.ram[slot as usize].touched);
        if of(slot) > of(oldest) / 8 * 7 {
            self.costs.close_hit(page);
        }
        self.touch(slot);
        let RamPage { waits, slot: from, .. } = self.ram[slot as usize];
        if !waits {
            return;
        }
        self.resolve(slot, page, true);
        self.used(page);
        self.came(page..page + 1, from != NONE);
        self.cover(brought_with(page), view);
        if let Some(trail) = &mut self.trail {
            trail.cover(from);
        }
    }

    /// One read would have brought all of these pages.
    fn cover(&mut self, pages: Range<u64>, view: &impl View) {
        for first in (pages.start / REGION * REGION..pages.end).step_by(REGION as usize) {
            for (page, slot) in (first..).zip(view.eight_in_ram(first)) {
                if let Some(slot) = slot.filter(|_| pages.contains(&page)) {
                    self.covered[slot as usize] = true;
                }
            }
        }
    }

    /// A slot of RAM is given to another page.
    pub fn evicted(&mut self, slot: u32, page: u64) {
        self.ghosts.evicted(self.touches.wrapping_sub(self.ram[slot as usize].touched));
        if self.ram[slot as usize].waits {
            self.resolve(slot, page, false);
        }
    }

    /// The page in a slot of RAM is overwritten: neither used nor in vain.
    pub fn dropped(&mut self, slot: u32) {
        let slot = &mut self.ram[slot as usize];
        self.counts.unused += u64::from(slot.waits);
        slot.waits = false;
    }

    /// A client writes these pages.
    pub fn wrote(&mut self, pages: Range<u64>) {
        let mut from = pages.start;
        while from < pages.end {
            let region = from / REGION;
            let to = pages.end.min((region + 1) * REGION);
            if let Some(known) = self.history.known_region(region) {
                let [first, last] = [from, to - 1].map(|page| (page % REGION) as usize);
                known[first..=last].iter_mut().for_each(|page| page.written = self.now);
            }
            from = to;
        }
    }

    fn resolve(&mut self, slot: u32, page: u64, used: bool) {
        let entry = &mut self.ram[slot as usize];
        entry.waits = false;
        let (features, from) = (entry.features, entry.slot);
        let along = self.trail.as_ref().is_some_and(|trail| trail.is_covered(from));
        let y = match used {
            false => 0.0,
            true if along || self.covered[slot as usize] => COVERED,
            true => 1.0,
        };
        self.counts.used += u64::from(used);
        self.counts.unused += u64::from(!used);
        let outcome = if used { PrefetchOutcome::Used } else { PrefetchOutcome::Unused };
        if from != NONE {
            let Some(trail) = &mut self.trail else { return };
            trail.predictor.learn(&features, y);
            trail.came_to(from, outcome);
        } else {
            self.predictor.learn(&features, y);
        }
        let rate = &mut self.rates[rate_at(page)];
        let seen = if *rate == 0 { 0.3 } else { f32::from(*rate) / 255.0 };
        let hit = if used { 1.0 } else { 0.0 };
        *rate = ((seen + 0.06 * (hit - seen)) * 255.0).clamp(1.0, 255.0) as u8;
        if let Some(entry) = self.history.known(page) {
            entry.outcome = outcome;
            entry.used = (entry.used + u8::from(used)).min(3);
        }
    }
}
