//! Histories from seeds: draws the setup, and each step. Each history has a bent of its own:
//! lopsided mixes find faults that a fair mix does not.

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use seekless_block::{Op, PAGE_BYTES, PAGE_SECTORS};
use seekless_engine::{Mode, Target};

use super::draw_in_place::lean_in_place;
use super::history::{Fault, History, HistoryStep, Piece, Slow};
use super::machine::{Placement, Setup};
use super::parts::Parts;

/// Separates the seeds of one kind of history from those of the others.
const PARTS: u64 = 0x9a27;
/// And the draws for an attach from all others.
const ATTACH: u64 = 0xa77a_c4ed;
const SCRUB: u64 = 0x5c_2b;
const MEMORY: u64 = 0x3e_30;
const KILLS: u64 = 0x4b11;
/// The draws for the adaptive policy.
const ADAPTIVE: u64 = 0xada9;
/// Times for each page moved in the background, in nanoseconds: none, a few I/Os, or many.
const PACES: [u64; 3] = [0, 4, 40];

impl History {
    /// The history of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        Self::make(seed, Kind::Plain)
    }

    /// The same with the adaptive policy in most lives. Clients repeat their reads, so that the
    /// policy appends copies to the trail, reads them, and goes round its ring.
    pub(crate) fn with_trail(seed: u64) -> Self {
        Self::make(seed, Kind::Trail)
    }

    /// The same with replicas in discarded pages instead of copies in the area.
    pub(crate) fn with_replicas(seed: u64) -> Self {
        Self::make(seed, Kind::Replicas)
    }

    /// A history in which devices fail, for a time or for good. Of the other histories without
    /// replicas, every fifth is such a one.
    pub(crate) fn with_faults(seed: u64, replicas: bool) -> Self {
        Self::make(seed, Kind::Faults { replicas })
    }

    /// Writes of pages with a copy go to the copy. Plans come often, and clients write in parts of
    /// pages. In every fourth history devices fail.
    pub(crate) fn with_in_place(seed: u64) -> Self {
        Self::make(seed, Kind::InPlace)
    }

    /// A file system with blocks shorter than a page on a loop device: blocks of two sectors are
    /// written, discarded and zeroed side by side, several of a page at a time. Meanwhile replicas
    /// come and go at a limited rate. Such a history has many lives.
    pub(crate) fn with_parts(seed: u64) -> Self {
        let mut history = Self::with_replicas(seed);
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ PARTS);
        let setup = &mut history.setup;
        setup.write_back &= rng.random_ratio(1, 4);
        setup.gather = 0;
        setup.at_once = rng.random();
        let mut parts = Parts::new(&mut rng, setup);
        let often = parts.rng.random_range(2..6);
        let steps = std::mem::take(&mut history.steps);
        for step in steps {
            match step {
                HistoryStep::Mode(Mode::WriteBack) if parts.rng.random_ratio(3, 4) => {}
                other => history.steps.push(other),
            }
            if parts.rng.random_ratio(often - 1, often) {
                parts.steps(&mut history.steps);
            }
        }
        history.draw_attach();
        history
    }

    fn make(seed: u64, kind: Kind) -> Self {
        let (replicas, faults) = match kind {
            Kind::Faults { replicas } => (replicas, true),
            _ => (kind == Kind::Replicas, false),
        };
        let trail = kind == Kind::Trail;
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let drawn = [Bent::Fair, Bent::Wrap, Bent::Contend, Bent::Fair, Bent::Break]
            [rng.random_range(0..5)];
        let bent = match (faults, replicas) {
            (true, _) => Bent::Break,
            (_, true) => Bent::Fair,
            _ => drawn,
        };
        let mut setup = setup(&mut rng);
        if replicas {
            setup.replicas = rng.random_range(1..5) * 7 * PAGE_SECTORS;
        }
        setup.gather = [0, 30, 1_000_000][(seed % 3) as usize];
        setup.soon = seed / 3 % 2 == 1;
        // Zeroes in the places of replicas are not written again: see the guarantees.
        setup.forgets = !replicas && seed / 6 % 2 == 1;
        setup.area_forgets = seed / 12 % 2 == 1;
        let mut weights = weights(&mut rng);
        let mut count = lean(bent, &mut rng, &mut setup, &mut weights);
        if trail {
            count = lean_to_trail(&mut rng, &mut setup, &mut weights);
        }
        if kind == Kind::InPlace {
            count = lean_in_place(bent, &mut rng, &mut setup, &mut weights);
        }
        let mut mix = Mix::new(rng, bent, &setup, weights);
        if trail {
            mix.draw_path();
        }
        let count = mix.rng.random_range(count);
        let often = mix.rng.random_range(2..8);
        let step = |mix: &mut Mix| {
            if replicas && mix.rng.random_ratio(1, often) {
                mix.about_replicas()
            } else {
                mix.step()
            }
        };
        let mut steps: Vec<_> = (0..count).map(|_| step(&mut mix)).collect();
        // A server of replicas takes no plans.
        steps.retain(|s| !replicas || !matches!(s, HistoryStep::Install(_)));
        let mut history = Self { seed, setup, steps };
        history.draw_attach();
        history.draw_adaptive(trail);
        if kind == Kind::InPlace {
            history.draw_in_place();
        }
        history.draw_scrubs();
        history.draw_kills();
        history
    }
}

/// What a history is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Replicas,
    Faults { replicas: bool },
    Trail,
    InPlace,
}

impl History {
    /// Draws memory for the log, and the options and the state of home for an attach.
    fn draw_attach(&mut self) {
        let mut rng = Pcg64Mcg::seed_from_u64(self.seed ^ MEMORY);
        self.setup.records = [u32::MAX, 2, 3][rng.random_range(0..3)];
        let mut rng = Pcg64Mcg::seed_from_u64(self.seed ^ ATTACH);
        let placement = [Placement::SameDevice, Placement::Elsewhere, Placement::Elsewhere]
            [rng.random_range(0..3)];
        // Without space for a guard, nothing may be absorbed or replicated.
        let unguarded = self.never_absorbs() && self.setup.replicas == 0 && rng.random();
        self.setup.placement = if unguarded { Placement::ElsewhereUnguarded } else { placement };
        self.setup.degree = rng.random_range(1..4);
        if placement == Placement::Elsewhere {
            self.setup.ends = rng.random_range(0..8) * PAGE_SECTORS;
        }
        self.setup.drains = rng.random_ratio(1, 8);
        if self.setup.replicas > 0 && rng.random_ratio(1, 3) {
            let start = rng.random_range(0..self.setup.home);
            self.setup.unused = (start, rng.random_range(0..=self.setup.home - start));
        }
    }

    /// Draws when passes of the scrub begin, and when reads bypass copies.
    fn draw_scrubs(&mut self) {
        let mut rng = Pcg64Mcg::seed_from_u64(self.seed ^ SCRUB);
        let often = rng.random_range(4..40);
        let bypasses = rng.random_ratio(1, 3);
        for step in std::mem::take(&mut self.steps) {
            self.steps.push(step);
            if rng.random_ratio(1, often) {
                self.steps.push(HistoryStep::Scrub);
            }
            if bypasses && rng.random_ratio(1, often) {
                self.steps.push(HistoryStep::Bypass(rng.random_ratio(1, 3)));
            }
        }
    }

    /// Draws a death of the engine alone in place of every third power failure.
    fn draw_kills(&mut self) {
        let mut rng = Pcg64Mcg::seed_from_u64(self.seed ^ KILLS);
        for step in &mut self.steps {
            if let HistoryStep::Crash { choice, .. } = *step
                && rng.random_ratio(1, 3)
            {
                *step = HistoryStep::Kill { choice };
            }
        }
    }

    /// Draws the adaptive policy's options.
    fn draw_adaptive(&mut self, trail: bool) {
        let mut rng = Pcg64Mcg::seed_from_u64(self.seed ^ ADAPTIVE);
        let setup = &mut self.setup;
        // A server refuses the policy without RAM for its read-ahead, and beside replicas.
        let may = setup.cache_pages > 0 && setup.replicas == 0;
        setup.adaptive = trail || may && rng.random_ratio(2, 3);
        let keeps_trail = trail || rng.random_ratio(3, 4);
        setup.append_pages = if keeps_trail { rng.random_range(1..5) } else { 0 };
        setup.toggles = setup.adaptive && rng.random_ratio(1, 4);
        if trail {
            setup.cache_pages = [4, 8, 16][rng.random_range(0..3)];
            setup.home_nanos = [1_000_000, 30_000_000, 30_000_000][rng.random_range(0..3)];
        }
    }

    /// Whether the write buffer is never in use.
    pub(crate) fn never_absorbs(&self) -> bool {
        !self.setup.write_back && !self.steps.contains(&HistoryStep::Mode(Mode::WriteBack))
    }
}

/// How often each kind of step comes. Each history has weights of its own.
fn weights(rng: &mut Pcg64Mcg) -> [u32; KINDS] {
    std::array::from_fn(|kind| match kind {
        0 => rng.random_range(10..40),
        // A plan, and time for its move.
        12 | 16 => rng.random_range(0..6u32),
        _ if kind < COMMON => rng.random_range(0..12u32).saturating_sub(3),
        // A class of I/Os becomes slow.
        19 => rng.random_range(0..4u32),
        20 | 21 => 0,
        _ => rng.random_range(0..4u32).saturating_sub(1),
    })
}

/// Applies a bent to the setup and to the weights of steps; returns the number of steps.
fn lean(
    bent: Bent,
    rng: &mut Pcg64Mcg,
    setup: &mut Setup,
    weights: &mut [u32; KINDS],
) -> std::ops::Range<u32> {
    let mut count = 20..200;
    match bent {
        Bent::Fair => {}
        Bent::Wrap => {
            // The log is small, and goes round many times.
            (setup.area, setup.write_back) = (96 * PAGE_SECTORS, true);
            setup.write_buffer_percent = rng.random_range(25..70);
            let (settles, slow) = (rng.random_range(0..3), rng.random_range(2..8));
            for (kind, weight) in
                [(0, 45), (1, 12), (2, 12), (4, 12), (6, 6), (11, settles), (19, slow)]
            {
                weights[kind] = weight;
            }
            for kind in [7, 8, 12, 14, 15, 17, 18, 22] {
                weights[kind] = rng.random_range(0..2);
            }
            count = 80..250;
        }
        Bent::Contend => {
            // Many writes to few pages are in flight at the same time.
            setup.write_back = true;
            setup.write_buffer_percent = rng.random_range(20..70);
            for (kind, weight) in
                [(0, 24), (1, 8), (2, 8), (3, 3), (5, 6), (6, 6), (7, 4), (8, 8), (19, 3)]
            {
                weights[kind] = weight;
            }
            for kind in [12, 14, 15, 17, 18, 22] {
                weights[kind] = rng.random_range(0..2);
            }
        }
        Bent::Break => {
            weights[20] = rng.random_range(1..6);
            weights[21] = rng.random_range(1..6);
        }
    }
    count
}

/// Clients mostly read, and pause; in every third history the ring goes round many times.
fn lean_to_trail(
    rng: &mut Pcg64Mcg,
    setup: &mut Setup,
    weights: &mut [u32; KINDS],
) -> std::ops::Range<u32> {
    let laps = rng.random_ratio(1, 3);
    for weight in &mut *weights {
        *weight = (*weight).min(if laps { 1 } else { 4 });
    }
    for (kind, weight) in [(0, 50), (5, 60), (11, 40), (16, 10), (17, 1), (18, 1), (22, 1)] {
        weights[kind] = weight;
    }
    setup.home += rng.random_range(0..64) * PAGE_SECTORS;
    setup.area = 96 * PAGE_SECTORS;
    setup.write_buffer_percent = [40, 60, 80][rng.random_range(0..3)];
    if !laps {
        return 150..500;
    }
    // No new life.
    for kind in [13, 14, 17, 18, 20, 22] {
        weights[kind] = 0;
    }
    setup.write_buffer_percent = 90;
    400..800
}

fn setup(rng: &mut Pcg64Mcg) -> Setup {
    let grid = if rng.random() { 0 } else { rng.random_range(0..PAGE_SECTORS) };
    let home = grid + rng.random_range(24..56) * PAGE_SECTORS + rng.random_range(0..PAGE_SECTORS);
    let mut pick = |choices: &[u64]| choices[rng.random_range(0..choices.len())];
    Setup {
        home,
        area: pick(&[96, 128, 160]) * PAGE_SECTORS,
        grid,
        write_buffer_percent: pick(&[1, 20, 40, 60]) as u8,
        degree: 1,
        write_back: pick(&[0, 1, 1]) == 1,
        cache_pages: pick(&[0, 0, 3, 32]),
        read_ahead: pick(&[0, 2 * PAGE_BYTES]),
        cluster: pick(&[0, 2 * PAGE_BYTES, 4 * PAGE_BYTES]),
        stage_bytes: pick(&[16, 32, 64]) * PAGE_BYTES,
        background_rate: (PAGE_BYTES * 1_000_000_000).checked_div(pick(&PACES)).unwrap_or(0),
        shared: pick(&[0, 1]) == 1,
        ..Setup::plain()
    }
}

/// Kinds of steps: the common ones, then the rare ones.
const COMMON: usize = 11;
pub(super) const KINDS: usize = 23;

/// The subject of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bent {
    /// A bit of everything.
    Fair,
    /// The log goes round.
    Wrap,
    /// Requests overlap.
    Contend,
    /// Devices fail.
    Break,
}

struct Mix {
    rng: Pcg64Mcg,
    bent: Bent,
    weights: [u32; KINDS],
    pages: u64,
    grid: u64,
    home: u64,
    /// The page around which most requests fall.
    hot: u64,
    plan: Vec<Piece>,
    /// Pages discarded last.
    freed: (u64, u64),
    /// Writes are acknowledged while they are in RAM alone.
    gathers: bool,
    /// Reads that clients repeat in this order, and the next of them.
    path: Vec<(u64, u64)>,
    at: usize,
}

impl Mix {
    fn new(mut rng: Pcg64Mcg, bent: Bent, setup: &Setup, weights: [u32; KINDS]) -> Self {
        let pages = (setup.home - setup.grid) / PAGE_SECTORS;
        Self {
            hot: rng.random_range(0..pages),
            rng,
            bent,
            weights,
            pages,
            grid: setup.grid,
            home: setup.home,
            plan: Vec::new(),
            freed: (0, 0),
            gathers: setup.gather > 0,
            path: Vec::new(),
            at: 0,
        }
    }

    /// A step with discarded pages and replicas.
    fn about_replicas(&mut self) -> HistoryStep {
        let (op, (start, len)) = match self.rng.random_range(0..20) {
            0..5 => {
                let (start, len) = self.aligned(20);
                self.freed = ((start - self.grid) / PAGE_SECTORS, len / PAGE_SECTORS);
                (Op::Discard, (start, len))
            }
            5..14 => {
                let sides = self.rng.random_range(1..3);
                let side = |mix: &mut Self| {
                    // Often where replicas fit.
                    let (first, pages) = mix.freed;
                    let place = match mix.rng.random_range(0..4) {
                        0 => mix.page(),
                        _ => first + mix.rng.random_range(0..pages.max(1)),
                    };
                    let runs = mix.rng.random_range(1..4);
                    let run = |mix: &mut Self| {
                        let page = mix.rng.random_range(0..mix.pages);
                        (page, mix.rng.random_range(1..4).min(mix.pages - page))
                    };
                    (place, (0..runs).map(|_| run(mix)).collect())
                };
                return HistoryStep::Replicate((0..sides).map(|_| side(self)).collect());
            }
            14 => return HistoryStep::Withdraw,
            15..18 => return HistoryStep::Settle(self.rng.random()),
            _ => (Op::Write, self.any(20)),
        };
        HistoryStep::Ask { op, start, len, fua: self.rng.random_ratio(1, 6) }
    }

    fn step(&mut self) -> HistoryStep {
        let mut at = self.rng.random_range(0..self.weights.iter().sum());
        let kind = self.weights.iter().position(|&w| {
            let here = at < w;
            at = at.saturating_sub(w);
            here
        });
        let (op, (start, len)) = match kind.unwrap_or(0) {
            0 => return HistoryStep::Execute(self.rng.random_range(0..64)),
            1 | 2 => (Op::Write, self.aligned(3)),
            3 => (Op::Write, self.any(12)),
            4 => (Op::Write, self.aligned(16)),
            5 => (Op::Read, self.read()),
            6 => (Op::Flush, (0, 0)),
            7 => (Op::Discard, if self.rng.random() { self.aligned(4) } else { self.any(30) }),
            8 => (Op::WriteZeroes, if self.rng.random() { self.aligned(4) } else { self.any(30) }),
            9 => {
                self.move_hot();
                return HistoryStep::Execute(self.rng.random_range(0..64));
            }
            10 => return HistoryStep::Repeat(self.rng.random_range(0..6)),
            11 => return HistoryStep::Settle(self.rng.random()),
            12 => return HistoryStep::Install(self.plan()),
            13 => return HistoryStep::Mode(Mode::WriteBack),
            14 => return HistoryStep::Mode(Mode::WriteThrough),
            15 => return HistoryStep::Drain,
            16 => return HistoryStep::Pass,
            17 => {
                let by_another = self.rng.random_ratio(1, 4).then(|| self.any(20));
                return HistoryStep::Restart(by_another);
            }
            19 => return HistoryStep::Slow(self.slow()),
            20 => return HistoryStep::Break(self.fault()),
            21 => return HistoryStep::Heal,
            22 => return self.resize(),
            _ => {
                let again = (0..self.rng.random_range(0..4))
                    .map(|_| self.rng.random_range(1..12))
                    .collect();
                return HistoryStep::Crash { choice: self.rng.random(), again };
            }
        };
        HistoryStep::Ask {
            op,
            start,
            len,
            fua: op != Op::Read && op != Op::Flush && self.rng.random_ratio(1, 6),
        }
    }

    fn draw_path(&mut self) {
        for _ in 0..self.rng.random_range(4..14) {
            let start = self.grid + self.rng.random_range(0..self.pages) * PAGE_SECTORS;
            let aside = if self.rng.random_ratio(1, 4) { self.rng.random_range(0..8) } else { 0 };
            let len = if self.rng.random() { 8 } else { self.rng.random_range(1..30) };
            self.path.push((start + aside, len.min(self.home - start - aside)));
        }
    }

    /// The next read of the path, or any.
    fn read(&mut self) -> (u64, u64) {
        if self.path.is_empty() || self.rng.random_ratio(1, 5) {
            return self.any(40);
        }
        if self.rng.random_ratio(1, 8) {
            self.at = self.rng.random_range(0..self.path.len());
        }
        self.at = (self.at + 1) % self.path.len();
        self.path[self.at]
    }

    fn move_hot(&mut self) {
        // The first and the last page are worth a visit.
        self.hot = match self.rng.random_range(0..4) {
            0 => 0,
            1 => self.pages - 1,
            _ => self.rng.random_range(0..self.pages),
        };
    }

    fn fault(&mut self) -> Fault {
        // An acknowledged write that neither device takes is lost, and every flush says so. That
        // does not fit a history of devices that heal.
        let which = if self.gathers { 1 } else { self.rng.random_range(0..2) };
        let target = [Target::Home, Target::Area][which];
        let op = [Op::Read, Op::Write, Op::Write, Op::Flush][self.rng.random_range(0..4)];
        let left = self.rng.random_ratio(2, 3).then(|| self.rng.random_range(1..8));
        Fault { target, op, left }
    }

    fn resize(&mut self) -> HistoryStep {
        let pages = self.rng.random_range(24..56);
        let home = if self.rng.random() {
            self.home
        } else {
            self.grid + pages * PAGE_SECTORS + self.rng.random_range(0..PAGE_SECTORS)
        };
        let area = [96, 128, 160][self.rng.random_range(0..3)] * PAGE_SECTORS;
        HistoryStep::Resize { home, area }
    }

    fn slow(&mut self) -> Option<Slow> {
        Some(match self.rng.random_range(0..8) {
            0 | 1 => Slow::Flushes,
            2 | 3 => Slow::Background,
            4 => Slow::Writes(Target::Area),
            5 => Slow::Writes(Target::Home),
            6 => Slow::Device(Target::Home),
            _ => return None,
        })
    }

    /// A page near the hot one, or anywhere.
    fn page(&mut self) -> u64 {
        if self.bent == Bent::Contend && self.rng.random_ratio(7, 8) {
            (self.hot + self.rng.random_range(0..2)) % self.pages
        } else if self.rng.random_ratio(3, 4) {
            (self.hot + self.rng.random_range(0..6)) % self.pages
        } else {
            self.rng.random_range(0..self.pages)
        }
    }

    /// Whole pages, at most `most` of them.
    fn aligned(&mut self, most: u64) -> (u64, u64) {
        let page = self.page();
        let pages = self.rng.random_range(1..=most).min(self.pages - page);
        (self.grid + page * PAGE_SECTORS, pages * PAGE_SECTORS)
    }

    /// Any sectors, at most `most`; also before the first page and behind the last one.
    fn any(&mut self, most: u64) -> (u64, u64) {
        let from = self.page() * PAGE_SECTORS + self.rng.random_range(0..2 * PAGE_SECTORS);
        let start = from.min(self.home - 1);
        (start, self.rng.random_range(1..=most).min(self.home - start))
    }

    /// A new plan, or the last one with its pieces in another order, so at each other's places.
    fn plan(&mut self) -> Vec<Piece> {
        if self.plan.is_empty() || self.rng.random_ratio(1, 4) {
            let pieces = self.rng.random_range(0..10);
            self.plan = (0..pieces)
                .map(|_| {
                    // A plan that is not of whole pages is refused.
                    let (start, len) =
                        if self.rng.random_ratio(99, 100) { self.aligned(3) } else { self.any(30) };
                    (start, len, self.rng.random_range(0u64..5).saturating_sub(2) * PAGE_SECTORS)
                })
                .collect();
        } else {
            match self.rng.random_range(0..4) {
                0 => self.plan.rotate_left(1),
                1 => drop(self.plan.pop()),
                2 => {
                    let (start, len) = self.aligned(3);
                    self.plan.insert(0, (start, len, 0));
                }
                _ => self.plan.shuffle(&mut self.rng),
            }
        }
        self.plan.clone()
    }
}
