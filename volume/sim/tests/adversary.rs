//! Traces that mislead the adaptive policy. On each of them the guard keeps the policy's disk time
//! close to that of the vanilla system.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use seekless_block::{Bytes, Duration, Extent, Lba, Op, PAGE_SECTORS, Request, Sectors, SimTime};
use seekless_disk::{Device, DeviceSpec, Scheduler, SpinDown, catalogue};
use seekless_engine::Config;
use seekless_sim::{Guarded, Replay, SimConfig};

/// Pages of RAM, and of the client's device.
const RAM: u64 = 1024;
const PAGES: u64 = 5_000_000;
/// A random read of one page on this disk.
const RANDOM_READ: Duration = Duration::from_millis(13);

/// Pages of a set that fits into RAM, and reads after which it still stands there under vanilla.
const HELD: u64 = 700;
const BAITS: usize = 20;

/// A misleading habit of a client.
#[derive(Clone, Copy, Debug)]
enum Habit {
    /// Scattered pages in a circle, one more than RAM holds.
    Circle,
    /// The same with pages side by side.
    Scan,
    /// Sequential reads that stop after two pages.
    Bait,
    /// Runs of reads are repeated twice in their order, and never again.
    Shift,
    /// A set is read in one order, then in another.
    Shuffle,
    /// Pages are read, written, and read again.
    Rewrite,
    /// A set that fits into RAM is written, some reads tempt the policy to read along, and then the
    /// set is read in a circle.
    Held,
    Writes,
    Random,
}

const HABITS: [Habit; 9] = [
    Habit::Circle,
    Habit::Scan,
    Habit::Bait,
    Habit::Shift,
    Habit::Shuffle,
    Habit::Rewrite,
    Habit::Held,
    Habit::Writes,
    Habit::Random,
];

/// A client with one habit at a time.
struct Client {
    rng: Pcg64Mcg,
    habit: Habit,
    set: Vec<u64>,
    at: usize,
    now: SimTime,
}

impl Client {
    fn new(seed: u64, habit: Habit) -> Self {
        let rng = Pcg64Mcg::seed_from_u64(seed);
        let mut client = Self { rng, habit, set: Vec::new(), at: 0, now: SimTime::ZERO };
        client.take_up(habit);
        client
    }

    fn take_up(&mut self, habit: Habit) {
        (self.habit, self.at) = (habit, 0);
        let first = self.page();
        self.set = match habit {
            Habit::Circle => (0..=RAM).map(|_| self.page()).collect(),
            Habit::Scan => (first..=first + RAM).collect(),
            Habit::Rewrite => (0..300).map(|_| self.page()).collect(),
            Habit::Held => (0..HELD).map(|_| self.page()).collect(),
            _ => (0..RAM * 3 / 2).map(|_| self.page()).collect(),
        };
    }

    fn page(&mut self) -> u64 {
        self.rng.random_range(0..PAGES - 2 * RAM)
    }

    /// The next request: operation, page, pages.
    fn next(&mut self) -> (Op, u64, u64) {
        let (at, len) = (self.at, self.set.len());
        self.at += 1;
        let here = self.set[at % len];
        match self.habit {
            Habit::Circle | Habit::Scan => (Op::Read, here, 1),
            Habit::Bait => {
                if at % 2 == 0 {
                    self.set[0] = self.page();
                }
                (Op::Read, self.set[0] + at as u64 % 2, 1)
            }
            Habit::Shift => {
                if self.at == 2 * len {
                    self.take_up(Habit::Shift);
                }
                (Op::Read, here, 1)
            }
            Habit::Shuffle => {
                let turn = (at / len) as u64;
                let step = [1, 7, 11, 13, 17][turn as usize % 5];
                (Op::Read, self.set[at % len * step % len], 1)
            }
            Habit::Rewrite if at / len % 2 == 1 => (Op::Write, here, 1),
            Habit::Rewrite => (Op::Read, here, 1),
            Habit::Held if at < len => (Op::Write, here, 1),
            Habit::Held if at < len + BAITS => (Op::Read, self.page(), 1),
            Habit::Held => (Op::Read, here, 1),
            Habit::Writes => (Op::Write, self.page(), self.rng.random_range(1..9)),
            Habit::Random => (Op::Read, self.page(), self.rng.random_range(1..5)),
        }
    }

    /// Its request at its time. Now and then the client pauses, so that copies are written.
    fn request(&mut self) -> Request {
        let (op, page, pages) = self.next();
        let pause = if self.rng.random_ratio(1, 20) { 200 } else { 15 };
        self.now.0 += self.rng.random_range(0..pause) * 1_000_000;
        Request::new(self.now, op, Extent::new(page * PAGE_SECTORS, pages * PAGE_SECTORS))
    }
}

fn guarded() -> Guarded {
    let disk = Device::new(&DeviceSpec::Disk(catalogue::get("wd800jb").unwrap())).unwrap();
    let capacity = Sectors(PAGES * PAGE_SECTORS);
    let engine = Config {
        area: Sectors(64 << 11),
        adaptive: true,
        cache_bytes: Bytes(RAM * 4096),
        read_ahead: Bytes(64 << 10),
        cluster: Bytes(64 << 10),
        ..Config::new(capacity)
    };
    let (scheduler, spin_down) = (Scheduler::Fcfs, SpinDown::None);
    let sim =
        SimConfig { engine, area_at: Lba(capacity.0), scheduler, spin_down, replay: Replay::Open };
    Guarded::new(&disk, &sim, None).unwrap()
}

/// At most 1%, 3 s and one refill of RAM behind vanilla.
fn is_close(guarded: &Guarded, what: &str) {
    let times = guarded.guard().today();
    let allowed = times.vanilla.0 / 100 + Duration::from_millis(3_000).0 + RAM * RANDOM_READ.0;
    let (vanilla, actual) = (times.vanilla.as_secs_f64(), times.actual.as_secs_f64());
    let aside = guarded.guard().bypassed().as_secs_f64();
    let stats = guarded.actual().stats();
    println!("{what}: {actual:.1} s of {vanilla:.1} s, aside for {aside:.1} s; {stats:?}");
    assert!(times.excess().0 <= allowed, "{what}: {actual} s, vanilla {vanilla} s");
}

#[test]
fn no_trace_misleads_the_policy_for_long() {
    for (seed, habit) in (1..).zip(HABITS) {
        let mut client = Client::new(seed, habit);
        let mut guarded = guarded();
        for _ in 0..20_000 {
            guarded.offer(0, &client.request()).unwrap();
        }
        is_close(&guarded, &format!("{habit:?}, seed {seed}"));
    }
}

/// Ten million requests of changing habits.
#[test]
fn changing_habits_do_not_mislead_it_either() {
    let long = std::env::var_os("SEEKLESS_LONG").is_some();
    let (clients, requests) = if long { (10, 1_000_000) } else { (1, 40_000) };
    for seed in 100..100 + clients {
        println!("seed {seed}");
        let mut client = Client::new(seed, Habit::Random);
        let mut guarded = guarded();
        let mut left = 0;
        for _ in 0..requests {
            if left == 0 {
                left = client.rng.random_range(100..6_000);
                let habit = HABITS[client.rng.random_range(0..HABITS.len())];
                client.take_up(habit);
            }
            left -= 1;
            guarded.offer(0, &client.request()).unwrap();
        }
        is_close(&guarded, &format!("a mix, seed {seed}"));
    }
}
