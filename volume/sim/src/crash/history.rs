//! A history: what clients and operators do, and when the power fails. Plain data, made from a seed.

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use seekless_block::{Extent, Lba, Op, PAGE_BYTES, PAGE_SECTORS};
use seekless_engine::{Class, Input, Io, Mode, Target};
use seekless_learn::{Copy, Plan, Replica};

use super::machine::{Placement, Setup};

/// A piece of a plan: home sector, sectors, sectors left free before its place.
pub type Piece = (u64, u64, u64);

/// Replicas to be written: from a home page on, these runs of home pages in this order.
pub type Side = (u64, Vec<(u64, u64)>);

/// One thing that happens. A number that chooses is reduced to what there is to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A client asks for `len` sectors from `start`.
    Ask {
        /// What.
        op: Op,
        /// First sector.
        start: u64,
        /// Sectors.
        len: u64,
        /// With FUA.
        fua: bool,
    },
    /// A client writes once more what it wrote so many writes ago.
    Repeat(usize),
    /// One of the I/Os in flight takes effect.
    Execute(usize),
    /// All of them do, and what comes of them.
    Settle(u64),
    /// A new plan.
    Install(Vec<Piece>),
    /// Replicas to be written into what was discarded.
    Replicate(Vec<Side>),
    /// No more replicas, and zeroes where they stood.
    Withdraw,
    /// Another mode.
    Mode(Mode),
    /// Bring all home.
    Drain,
    /// The time passes that the engine waits for.
    Pass,
    /// Some I/Os take effect only where no others are in flight, from now on.
    Slow(Option<Slow>),
    /// A device begins to fail.
    Break(Fault),
    /// It works again; all comes to rest.
    Heal,
    /// All comes to rest and the engine is stopped in order; then, where there are sectors `(start, len)`, somebody else
    /// writes them at home; then the engine is started.
    Restart(Option<(u64, u64)>),
    /// All is brought home and the engine stopped in order; home and area have other sizes, in sectors, and the area is
    /// divided anew.
    Resize {
        /// Home's.
        home: u64,
        /// The area's.
        area: u64,
    },
    /// The engine dies, and nothing else; then it is started.
    Kill {
        /// Chooses what becomes of what was in flight.
        choice: u64,
    },
    /// The power fails, and the engine is started.
    Crash {
        /// Chooses what the caches lose.
        choice: u64,
        /// The writes and flushes of the recovery at which it fails again, attempt by attempt.
        again: Vec<u64>,
    },
}

/// I/Os that are slower than all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    /// Flushes of either device.
    Flushes,
    /// What the engine does by itself.
    Background,
    /// All of a device.
    Device(Target),
    /// Writes to a device.
    Writes(Target),
}

impl Slow {
    pub(crate) fn is(self, io: &Io) -> bool {
        match self {
            Self::Flushes => io.op == Op::Flush,
            Self::Background => io.class == Class::Background,
            Self::Device(target) => io.target == target,
            Self::Writes(target) => io.target == target && io.op.is_write_like(),
        }
    }
}

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Of which device.
    pub target: Target,
    /// Reads, flushes, or writes of any kind.
    pub op: Op,
    /// So often; `None`: until it is healed.
    pub left: Option<u32>,
}

impl Fault {
    pub(crate) fn hits(&self, io: &Io) -> bool {
        let op = if io.op.is_write_like() { Op::Write } else { io.op };
        (self.target, self.op) == (io.target, op)
    }
}

/// A whole history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// What it was made from; also chooses the states that are looked at.
    pub seed: u64,
    /// How it begins.
    pub setup: Setup,
    /// What happens.
    pub steps: Vec<Step>,
}

impl History {
    /// The history of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        Self::make(seed, false, false)
    }

    /// The same with replicas in what is discarded instead of copies in the area.
    #[must_use]
    pub fn with_replicas(seed: u64) -> Self {
        Self::make(seed, true, false)
    }

    /// One in which devices fail, for a time or for good; of the others without replicas every fifth is such.
    #[must_use]
    pub fn with_faults(seed: u64, replicas: bool) -> Self {
        Self::make(seed, replicas, true)
    }

    /// As a file system with blocks shorter than a page on a loop device has it: blocks of two sectors written, discarded and
    /// zeroed side by side, several of a page at a time, while replicas come and go at a limited rate; and many lives.
    #[must_use]
    pub fn with_parts(seed: u64) -> Self {
        let mut history = Self::with_replicas(seed);
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ PARTS);
        let setup = &mut history.setup;
        // So much time for each page that is moved: a few I/Os, or many.
        let nanos = [0, 4, 40][rng.random_range(0..3)];
        setup.background_rate = (PAGE_BYTES * 1_000_000_000).checked_div(nanos).unwrap_or(0);
        setup.write_back &= rng.random_ratio(1, 4);
        setup.gather = 0;
        setup.at_once = rng.random();
        let mut parts = Parts::new(&mut rng, setup);
        let often = parts.rng.random_range(2..6);
        let steps = std::mem::take(&mut history.steps);
        for step in steps {
            match step {
                Step::Mode(Mode::WriteBack) if parts.rng.random_ratio(3, 4) => {}
                other => history.steps.push(other),
            }
            if parts.rng.random_ratio(often - 1, often) {
                parts.steps(&mut history.steps);
            }
        }
        history.draw_attach();
        history
    }

    fn make(seed: u64, replicas: bool, faults: bool) -> Self {
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
        // Each history has a bent of its own: what never meets in a fair mix meets in a lopsided one.
        let mut weights: [u32; KINDS] = std::array::from_fn(|kind| match kind {
            0 => rng.random_range(10..40),
            // A plan, and time for it to be carried out.
            12 | 16 => rng.random_range(0..6u32),
            _ if kind < COMMON => rng.random_range(0..12u32).saturating_sub(3),
            // Something is slow.
            19 => rng.random_range(0..4u32),
            20 | 21 => 0,
            _ => rng.random_range(0..4u32).saturating_sub(1),
        });
        let mut count = 20..200;
        match bent {
            Bent::Fair => {}
            Bent::Wrap => {
                // The log is small, and goes round and round.
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
                // Many writes to few pages are on their way at a time.
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
        let pages = (setup.home - setup.grid) / PAGE_SECTORS;
        let hot = rng.random_range(0..pages);
        let mut mix = Mix {
            rng,
            bent,
            pages,
            grid: setup.grid,
            home: setup.home,
            weights,
            hot,
            plan: Vec::new(),
            freed: (0, 0),
            gathers: setup.gather > 0,
        };
        let count = mix.rng.random_range(count);
        let often = mix.rng.random_range(2..8);
        let step = |mix: &mut Mix| {
            if replicas && mix.rng.random_ratio(1, often) {
                mix.about_replicas()
            } else {
                mix.step()
            }
        };
        let steps = (0..count).map(|_| step(&mut mix)).collect();
        let mut history = Self { seed, setup, steps };
        history.draw_attach();
        history
    }
}

impl History {
    /// Draws what a server may be told, and may find, when it attaches.
    fn draw_attach(&mut self) {
        let mut rng = Pcg64Mcg::seed_from_u64(self.seed ^ ATTACH);
        let placement = [Placement::SameDevice, Placement::Elsewhere, Placement::Elsewhere]
            [rng.random_range(0..3)];
        // Without space for a guard nothing may be absorbed or replicated.
        let unguarded = self.never_absorbs() && self.setup.replicas == 0 && rng.random();
        self.setup.placement = if unguarded { Placement::ElsewhereUnguarded } else { placement };
        self.setup.degree = rng.random_range(1..4);
    }

    /// Whether the write buffer is never in use.
    pub(crate) fn never_absorbs(&self) -> bool {
        !self.setup.write_back && !self.steps.contains(&Step::Mode(Mode::WriteBack))
    }
}

fn setup(rng: &mut Pcg64Mcg) -> Setup {
    let grid = if rng.random() { 0 } else { rng.random_range(0..PAGE_SECTORS) };
    let home = grid + rng.random_range(24..56) * PAGE_SECTORS + rng.random_range(0..PAGE_SECTORS);
    let mut pick = |choices: &[u64]| choices[rng.random_range(0..choices.len())];
    Setup {
        home,
        area: pick(&[96, 128, 160]) * PAGE_SECTORS,
        grid,
        segment_pages: 8,
        write_buffer_percent: pick(&[1, 20, 40, 60]) as u8,
        replicas: 0,
        soon: false,
        degree: 1,
        placement: Placement::SameDevice,
        write_back: pick(&[0, 1, 1]) == 1,
        cache_pages: pick(&[0, 0, 3, 32]),
        read_ahead: pick(&[0, 2 * PAGE_BYTES]),
        cluster: pick(&[0, 2 * PAGE_BYTES, 4 * PAGE_BYTES]),
        buffer_bytes: 16 * PAGE_BYTES,
        stage_bytes: pick(&[16, 32, 64]) * PAGE_BYTES,
        background_pause: pick(&[0, 0, 1_000]),
        background_rate: 0,
        at_once: false,
        gather: 0,
        shared: pick(&[0, 1]) == 1,
    }
}

/// Tells the seeds of one kind of history from those of another.
const PARTS: u64 = 0x9a27;
/// And what is drawn for an attach from all else.
const ATTACH: u64 = 0xa77a_c4ed;
/// A block of a file system, in sectors.
const BLOCK: u64 = 2;

/// Who has blocks shorter than a page.
struct Parts<'a> {
    rng: &'a mut Pcg64Mcg,
    grid: u64,
    pages: u64,
    /// Pages around which most happens.
    hot: [u64; 3],
}

impl<'a> Parts<'a> {
    fn new(rng: &'a mut Pcg64Mcg, setup: &Setup) -> Self {
        let (grid, pages) = (setup.grid, (setup.home - setup.grid) / PAGE_SECTORS);
        let hot = std::array::from_fn(|_| rng.random_range(0..pages));
        Self { rng, grid, pages, hot }
    }

    fn page(&mut self) -> u64 {
        let hot = self.hot[self.rng.random_range(0..self.hot.len())];
        if self.rng.random_ratio(1, 8) { self.rng.random_range(0..self.pages) } else { hot }
    }

    /// Blocks from somewhere in a page on: most often fewer than there are to its end.
    fn blocks(&mut self) -> (u64, u64) {
        let first = self.page() * PAGE_SECTORS / BLOCK + self.rng.random_range(0..4);
        let most = if self.rng.random_ratio(1, 4) { 24 } else { 4 };
        let count = self.rng.random_range(1..=most);
        let all = self.pages * PAGE_SECTORS / BLOCK;
        (self.grid + first * BLOCK, count.min(all - first) * BLOCK)
    }

    fn steps(&mut self, steps: &mut Vec<Step>) {
        let ask = |op, (start, len)| Step::Ask { op, start, len, fua: false };
        let grid = self.grid;
        let page = |at: u64| (grid + at * PAGE_SECTORS, PAGE_SECTORS);
        match self.rng.random_range(0..24) {
            // Several at once, of which none need be waited for.
            0..8 => {
                for _ in 0..self.rng.random_range(1..5) {
                    let op =
                        [Op::Write, Op::Write, Op::Write, Op::WriteZeroes, Op::Discard, Op::Read]
                            [self.rng.random_range(0..6)];
                    let at = self.blocks();
                    steps.push(ask(op, at));
                }
            }
            8..11 => {
                let (start, len) = page(self.page());
                let pages = self
                    .rng
                    .random_range(1..6)
                    .min(self.pages - (start - self.grid) / PAGE_SECTORS);
                let op = [Op::WriteZeroes, Op::Discard][self.rng.random_range(0..2)];
                steps.push(ask(op, (start, len * pages)));
            }
            11..14 => {
                let place = self.page();
                let home = self.rng.random_range(0..self.pages);
                let many = self.rng.random_range(1..5).min(self.pages - home);
                steps.push(Step::Replicate(vec![(place, vec![(home, many)])]));
            }
            14 | 15 => steps.push(ask(Op::Flush, (0, 0))),
            16..20 => {
                for _ in 0..self.rng.random_range(1..12) {
                    steps.push(Step::Execute(self.rng.random_range(0..64)));
                }
            }
            20 => steps.push(Step::Settle(self.rng.random())),
            21 => steps.push(Step::Pass),
            22 if self.rng.random_ratio(1, 3) => {
                steps.push(Step::Kill { choice: self.rng.random() });
            }
            22 => steps.push(Step::Pass),
            // Elsewhere from now on.
            _ => self.hot[self.rng.random_range(0..3)] = self.rng.random_range(0..self.pages),
        }
    }
}

/// Kinds of steps: those of every day, then the rarer ones.
const COMMON: usize = 11;
const KINDS: usize = 23;

/// What a history is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bent {
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
    /// Home pages.
    pages: u64,
    grid: u64,
    home: u64,
    /// The page around which most happens.
    hot: u64,
    plan: Vec<Piece>,
    /// Pages discarded last.
    freed: (u64, u64),
    /// Clients are told of writes that are in RAM alone.
    gathers: bool,
}

impl Mix {
    /// Of discarded pages and what stands there.
    fn about_replicas(&mut self) -> Step {
        let (op, (start, len)) = match self.rng.random_range(0..20) {
            0..5 => {
                let (start, len) = self.aligned(20);
                self.freed = ((start - self.grid) / PAGE_SECTORS, len / PAGE_SECTORS);
                (Op::Discard, (start, len))
            }
            5..14 => {
                let sides = self.rng.random_range(1..3);
                let side = |mix: &mut Self| {
                    // Often where there is room for it.
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
                return Step::Replicate((0..sides).map(|_| side(self)).collect());
            }
            14 => return Step::Withdraw,
            15..18 => return Step::Settle(self.rng.random()),
            _ => (Op::Write, self.any(20)),
        };
        Step::Ask { op, start, len, fua: self.rng.random_ratio(1, 6) }
    }

    fn step(&mut self) -> Step {
        let mut at = self.rng.random_range(0..self.weights.iter().sum());
        let kind = self.weights.iter().position(|&w| {
            let here = at < w;
            at = at.saturating_sub(w);
            here
        });
        let (op, (start, len)) = match kind.unwrap_or(0) {
            0 => return Step::Execute(self.rng.random_range(0..64)),
            1 | 2 => (Op::Write, self.aligned(3)),
            3 => (Op::Write, self.any(12)),
            4 => (Op::Write, self.aligned(16)),
            5 => (Op::Read, self.any(40)),
            6 => (Op::Flush, (0, 0)),
            7 => (Op::Discard, if self.rng.random() { self.aligned(4) } else { self.any(30) }),
            8 => (Op::WriteZeroes, if self.rng.random() { self.aligned(4) } else { self.any(30) }),
            9 => {
                // Elsewhere from now on; the first and the last page are worth a visit.
                self.hot = match self.rng.random_range(0..4) {
                    0 => 0,
                    1 => self.pages - 1,
                    _ => self.rng.random_range(0..self.pages),
                };
                return Step::Execute(self.rng.random_range(0..64));
            }
            10 => return Step::Repeat(self.rng.random_range(0..6)),
            11 => return Step::Settle(self.rng.random()),
            12 => return Step::Install(self.plan()),
            13 => return Step::Mode(Mode::WriteBack),
            14 => return Step::Mode(Mode::WriteThrough),
            15 => return Step::Drain,
            16 => return Step::Pass,
            17 => {
                let by_another = self.rng.random_ratio(1, 4).then(|| self.any(20));
                return Step::Restart(by_another);
            }
            19 => return Step::Slow(self.slow()),
            20 => {
                // What a client was told and neither device then takes is lost, and every flush says so: no history for
                // devices that heal.
                let which = if self.gathers { 1 } else { self.rng.random_range(0..2) };
                let target = [Target::Home, Target::Area][which];
                let op = [Op::Read, Op::Write, Op::Write, Op::Flush][self.rng.random_range(0..4)];
                let left = self.rng.random_ratio(2, 3).then(|| self.rng.random_range(1..8));
                return Step::Break(Fault { target, op, left });
            }
            21 => return Step::Heal,
            22 => {
                let pages = self.rng.random_range(24..56);
                let home = if self.rng.random() {
                    self.home
                } else {
                    self.grid + pages * PAGE_SECTORS + self.rng.random_range(0..PAGE_SECTORS)
                };
                let area = [96, 128, 160][self.rng.random_range(0..3)] * PAGE_SECTORS;
                return Step::Resize { home, area };
            }
            _ => {
                let again = (0..self.rng.random_range(0..4))
                    .map(|_| self.rng.random_range(1..12))
                    .collect();
                return Step::Crash { choice: self.rng.random(), again };
            }
        };
        Step::Ask {
            op,
            start,
            len,
            fua: op != Op::Read && op != Op::Flush && self.rng.random_ratio(1, 6),
        }
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

    /// Whole pages, at most `most`.
    fn aligned(&mut self, most: u64) -> (u64, u64) {
        let page = self.page();
        let pages = self.rng.random_range(1..=most).min(self.pages - page);
        (self.grid + page * PAGE_SECTORS, pages * PAGE_SECTORS)
    }

    /// Any sectors, at most `most`; before the first page and behind the last one, too.
    fn any(&mut self, most: u64) -> (u64, u64) {
        let from = self.page() * PAGE_SECTORS + self.rng.random_range(0..2 * PAGE_SECTORS);
        let start = from.min(self.home - 1);
        (start, self.rng.random_range(1..=most).min(self.home - start))
    }

    /// A plan like the last one, its pieces in another order and so at each other's places, or a new one.
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

/// Asks for these replicas.
#[must_use]
pub(crate) fn replicate(sides: &[Side], setup: &Setup) -> Input {
    let extent =
        |page: u64, pages: u64| Extent::new(setup.grid + page * PAGE_SECTORS, pages * PAGE_SECTORS);
    let side = |(place, runs): &Side| Replica {
        place: extent(*place, 1).start,
        homes: runs.iter().map(|&(page, pages)| extent(page, pages)).collect(),
    };
    let replicas = sides.iter().map(side).collect();
    if setup.soon { Input::ReplicateSoon(replicas) } else { Input::Replicate(replicas) }
}

/// The plan of these pieces on a device of `home` sectors with room for copies of `room`; pieces that do not fit or copy
/// a sector twice are left out.
#[must_use]
pub(crate) fn plan_of(pieces: &[Piece], home: u64, room: u64) -> Plan {
    let mut used = vec![false; home as usize];
    let mut place = 0;
    let mut copies = Vec::new();
    for &(start, len, gap) in pieces {
        let sectors = Extent::span(start, home.min(start + len));
        let taken = &mut used[start.min(home) as usize..sectors.end().0.min(home) as usize];
        if sectors.is_empty() || taken.contains(&true) || place + gap + sectors.len.0 > room {
            continue;
        }
        taken.fill(true);
        copies.push(Copy { home: sectors, place: Lba(place + gap) });
        place += gap + sectors.len.0;
    }
    Plan { copies }
}
