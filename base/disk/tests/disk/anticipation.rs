//! Anticipatory scheduling: timelines computed by hand, and invariants for any readers.
//!
//! The disk is `toy.toml`: sector k of a track is at k / 10 ms, and a seek over d cylinders takes
//! 2 + d / 100 ms.

use proptest::prelude::*;
use seekless_block::{Duration, Extent, Op, SimTime, StreamId};
use seekless_disk::{Command, Completion, Disk, DiskSpec, Drive, Scheduler};

const BOUND: Duration = Duration::from_millis(6);

fn disk() -> Disk {
    let text = include_str!("../fixtures/toy.toml");
    Disk::new(&DiskSpec::parse("toy.toml", text).unwrap()).unwrap()
}

/// A reader that sends a request, waits for the answer, thinks, and sends the next.
#[derive(Clone, Copy, Debug)]
struct Reader {
    next: u64,
    /// Distance from one start to the next; addresses wrap.
    step: u64,
    len: u64,
    think: Duration,
    left: u32,
    op: Op,
    background: bool,
}

const fn reader(next: u64, think_us: u64, left: u32) -> Reader {
    let think = Duration::from_micros(think_us);
    Reader { next, step: 10, len: 10, think, left, op: Op::Read, background: false }
}

/// Runs readers, reader i as stream i + 1, until all are done. Returns the completions in order,
/// each with its reader.
fn run(scheduler: Scheduler, readers: &[Reader]) -> Vec<(usize, Completion)> {
    run_on(Drive::new(disk(), scheduler), readers)
}

fn run_on(mut drive: Drive, readers: &[Reader]) -> Vec<(usize, Completion)> {
    let mut readers = readers.to_vec();
    let mut asks: Vec<Option<SimTime>> = readers.iter().map(|_| Some(SimTime(0))).collect();
    let mut out = Vec::new();
    loop {
        let ask = (0..asks.len()).filter_map(|i| Some((asks[i]?, i))).min();
        let event = drive.next_event();
        match (ask, event) {
            (Some((at, i)), event) if event.is_none_or(|e| at < e) => {
                asks[i] = None;
                let r = &mut readers[i];
                if r.left == 0 {
                    continue;
                }
                r.left -= 1;
                let extent = Extent::new(r.next, r.len);
                r.next = (r.next + r.step) % 99_900;
                let (stream, background) = (StreamId(i as u32 + 1), r.background);
                let command =
                    Command { stream, background, ..Command::new(i as u64, r.op, extent) };
                drive.submit(at, command).unwrap();
            }
            (_, Some(at)) => {
                while let Some(c) = drive.poll(at) {
                    let i = c.tag as usize;
                    asks[i] = Some(c.finished + readers[i].think);
                    out.push((i, c));
                }
                let next = drive.next_event();
                assert!(next.is_none_or(|n| n > at), "time does not advance at {at:?}");
            }
            (_, None) => break,
        }
    }
    assert!(drive.is_idle());
    out
}

fn order(done: &[(usize, Completion)]) -> String {
    done.iter().map(|(i, _)| char::from(b'A' + *i as u8)).collect()
}

#[test]
fn two_sequential_readers_by_hand() {
    // Both think for 1 ms; A is on cylinder 0, B on cylinder 900: 11 ms apart.
    let readers = [reader(0, 1_000, 100), reader(90_000, 1_000, 100)];
    let done = run(Scheduler::Anticipatory, &readers);
    // A's first read ends at 1 ms. A has no history: B's read starts, arrives at 12, waits for
    // angle 0 at 20, ends at 21. B has no history: A's second read starts at 21, arrives at 32,
    // waits for angle 1 at 41, ends at 42. A thought for 1 ms and reads where its last read ended:
    // 1 ms is less than 11, so the disk waits. A's read arrives at 43, gets angle 2 at 52 and ends
    // at 53. This repeats every 11 ms, until A has had the disk since 21 for 500 ms: at 526.
    let ms = |c: &Completion| c.finished.0 as f64 / 1e6;
    let ends: Vec<f64> = done.iter().take(6).map(|(_, c)| ms(c)).collect();
    assert_eq!(ends, [1.0, 21.0, 42.0, 53.0, 64.0, 75.0]);
    assert_eq!(&order(&done)[..50], format!("AB{}BBB", "A".repeat(45)));
    assert_eq!(ms(&done[46].1), 526.0);
    // C-LOOK alone alternates.
    let alternating = run(Scheduler::CLook, &readers);
    assert_eq!(order(&alternating), "AB".repeat(100));
    assert!(ms(&done.last().unwrap().1) < 0.6 * ms(&alternating.last().unwrap().1));
}

#[test]
fn no_wait_for_a_stream_with_long_think_time_or_distant_reads() {
    let as_clook = |r: &[Reader]| run(Scheduler::Anticipatory, r) == run(Scheduler::CLook, r);
    // 7 ms of think time exceed the bound.
    let slow = [reader(0, 7_000, 40), reader(90_000, 7_000, 40)];
    assert!(as_clook(&slow));
    // Each reader moves 150 cylinders on: 3.5 ms of seek and 1 of thinking, against 3 or 2.5 to the
    // other.
    let far = |next| Reader { step: 15_000, ..reader(next, 1_000, 6) };
    let far = [far(0), far(10_000)];
    assert!(as_clook(&far));
    // The other reader is as near as the stream itself.
    let near = [reader(0, 1_000, 4), reader(50, 1_000, 4)];
    assert!(as_clook(&near));
    // After writes the disk does not wait.
    let writes = [0, 90_000].map(|next| Reader { op: Op::Write, ..reader(next, 1_000, 40) });
    assert!(as_clook(&writes));
}

#[test]
fn a_stream_that_stops_causes_one_wait_within_the_bound() {
    // A reads three times and stops; B waits once too long, for 6 ms.
    let readers = [reader(0, 1_000, 3), reader(90_000, 1_000, 3)];
    let done = run(Scheduler::Anticipatory, &readers);
    assert_eq!(order(&done), "ABAABB");
    let (last_of_a, first_of_b) = (&done[3].1, &done[4].1);
    assert_eq!(first_of_b.started, last_of_a.finished + BOUND);
}

#[test]
fn a_stream_that_reads_downwards_causes_waits_too() {
    // C-LOOK alone would go on upwards, to B.
    let down = Reader { step: 99_900 - 10, ..reader(50_000, 1_000, 30) };
    let done = run(Scheduler::Anticipatory, &[down, reader(90_000, 1_000, 30)]);
    assert!(order(&done).starts_with("ABAAAAAAAA"), "{}", order(&done));
}

#[test]
fn background_work_is_its_own_stream() {
    let copying = Reader { background: true, ..reader(90_000, 0, 100) };
    let readers = [reader(0, 1_000, 60), copying];
    let done = run(Scheduler::Anticipatory, &readers);
    // Background work comes between the reads of a returning stream only once in half a second.
    let while_reading = order(&done).rfind('A').unwrap() + 1 - 60;
    assert_eq!(while_reading, 2, "{}", order(&done));
    assert!(order(&run(Scheduler::CLook, &readers)).starts_with("ABABAB"));
}

#[test]
fn a_host_can_anticipate_for_a_disk_with_depth_one() {
    let readers = [reader(0, 1_000, 60), reader(90_000, 1_000, 60)];
    let host = Drive::with_host(disk(), Scheduler::Fcfs, 1, Scheduler::Anticipatory);
    assert_eq!(run_on(host, &readers), run(Scheduler::Anticipatory, &readers));
}

#[test]
fn nobody_starves() {
    let readers: Vec<Reader> = (0..4).map(|i| reader(i * 25_000, 500, 400)).collect();
    let done = run(Scheduler::Anticipatory, &readers);
    // The three others have the disk for half a second, one read and one wait each.
    let longest = done.iter().map(|(_, c)| c.finished.since(c.submitted)).max().unwrap();
    assert!(longest < Duration::from_millis(3 * (500 + 40)), "{longest:?}");
    assert!(longest > Duration::from_millis(1_000), "the streams alternated: {longest:?}");
}

fn readers() -> impl Strategy<Value = Vec<Reader>> {
    let one = (0u64..99_000, 0u64..9_000, 1u32..40, 0u64..99_900, any::<[bool; 3]>());
    let one = one.prop_map(|(next, think, left, step, [sequential, reads, background])| Reader {
        step: if sequential { 10 } else { step },
        op: if reads || sequential { Op::Read } else { Op::Write },
        background: background && !sequential,
        ..reader(next, think, left)
    });
    proptest::collection::vec(one, 1..6)
}

proptest! {
    #[test]
    fn all_are_served_and_no_wait_exceeds_the_bound(readers in readers()) {
        let done = run(Scheduler::Anticipatory, &readers);
        let sorted = |done: &[(usize, Completion)]| {
            let mut all: Vec<_> = done.iter().map(|(i, c)| (*i, c.extent)).collect();
            all.sort();
            all
        };
        prop_assert_eq!(sorted(&done), sorted(&run(Scheduler::Fcfs, &readers)));
        for (n, (_, c)) in done.iter().enumerate() {
            let free = n.checked_sub(1).map_or(SimTime(0), |before| done[before].1.finished);
            let waits_since = done[n..].iter().map(|(_, c)| c.submitted).min().unwrap();
            prop_assert!(c.started <= (free + BOUND).max(waits_since), "{n}: {c:?} after {free:?}");
            prop_assert!(c.started >= free && c.started >= c.submitted);
        }
    }
}
