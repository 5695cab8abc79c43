//! The long run of the crash enumerator: any number of states, from a seed on. It prints its
//! progress, and for each failure the seed and the smallest history that shows it.
//!
//!     cargo run --release -p seekless-sim --example torture -- --states 1000000 --seed 1
//!
//! Histories are made from the seeds SEED, SEED + 1, ...; the last line names the next seed. Run
//! one process on each core, with seeds far apart. `--one` runs the history of that seed alone.
//! `--all` runs the seven kinds, a seventh of the states each, and ends with the table that is kept in
//! benches/engine/runs.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[allow(dead_code, unused_imports, reason = "the tests use the rest")]
#[path = "../tests/enumerator/mod.rs"]
mod enumerator;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use enumerator::{History, Looks, Tally, explore, shrink};
use seekless_engine::Engine;

const USAGE: &str =
    "usage: torture [--states N] [--seed S] [--looks L] [--failures F] [--faults] [--replicas]
               [--parts] [--trail] [--in-place] [--all] [--one]
  --states N     states to look at (1000000)
  --seed S       seed of the first history (1)
  --looks L      states at each moment (3)
  --failures F   stop after so many broken promises (5)
  --faults       devices fail in every history
  --replicas     replicas in discarded pages, instead of copies in the area
  --parts        the same under blocks shorter than a page, with more lives
  --trail        the adaptive policy in every history, with reads that repeat
  --in-place     writes of copied pages go to the copies
  --all          a seventh of the states each without any, with faults, replicas, both, parts, trail and in-place, then a table of them
  --one          live one history alone";

/// A kind of histories: a name, the options that choose it, and how a history is made from a seed.
type Kind = (&'static str, &'static [&'static str], fn(u64) -> History);

const KINDS: [Kind; 7] = [
    ("plain", &[], History::of),
    ("faults", &["--faults"], |seed| History::with_faults(seed, false)),
    ("replicas", &["--replicas"], History::with_replicas),
    ("faulty-replicas", &["--faults", "--replicas"], |seed| History::with_faults(seed, true)),
    ("parts", &["--parts"], History::with_parts),
    ("trail", &["--trail"], History::with_trail),
    ("in-place", &["--in-place"], History::with_in_place),
];

#[derive(Default)]
struct Options {
    states: u64,
    seed: u64,
    looks: u64,
    failures: u64,
    /// Those that choose a kind, in the order of the alphabet.
    kind: BTreeSet<String>,
    all: bool,
    one: bool,
}

fn options() -> Result<Options, String> {
    let (states, seed, looks, failures) = (1_000_000, 1, 3, 5);
    let mut options = Options { states, seed, looks, failures, ..Options::default() };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let to = match name.as_str() {
            "--states" => &mut options.states,
            "--seed" => &mut options.seed,
            "--looks" => &mut options.looks,
            "--failures" => &mut options.failures,
            "--all" => {
                options.all = true;
                continue;
            }
            "--one" => {
                options.one = true;
                continue;
            }
            kind if KINDS.iter().any(|(_, of, _)| of.contains(&kind)) => {
                options.kind.insert(kind.to_owned());
                continue;
            }
            _ => return Err(format!("'{name}' is no option\n{USAGE}")),
        };
        *to = args
            .next()
            .and_then(|v| v.parse().ok())
            .ok_or_else(|| format!("{name} needs a whole number\n{USAGE}"))?;
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(words) => {
            eprintln!("{words}");
            return ExitCode::from(2);
        }
    };
    // A panic is a finding and told as one; where it was, only the hook knows.
    let shrinking = Arc::new(AtomicBool::new(false));
    let quiet = Arc::clone(&shrinking);
    std::panic::set_hook(Box::new(move |panic| {
        if let Some(place) = panic.location().filter(|_| !quiet.load(Ordering::Relaxed)) {
            println!("panic at {place}");
        }
    }));
    let (mut seed, mut all, mut failed, mut table) =
        (options.seed, Tally::default(), 0, Vec::new());
    for (name, of, make) in KINDS {
        let (from, mut states) = (seed, options.states);
        if options.all {
            states /= KINDS.len() as u64;
        } else if !options.kind.iter().eq(of) {
            continue;
        }
        let (tally, failures) = run(&options, states, make, &mut seed, &shrinking);
        all.add(tally);
        failed += failures;
        table.push(line(name, from, &tally, failures));
    }
    table.push(line("total", options.seed, &all, failed));
    println!(
        "# kind seed histories states killed cut damaged told mended resized strangers device-failures failed"
    );
    let [appended, reads, rounds, dropped, in_doubt, proven] = all.trail;
    println!(
        "{}\n# trail: {appended} appended, {reads} reads, {rounds} rounds, {dropped} dropped by writes, {in_doubt} in doubt at an attach, {proven} proven\n# areas: {} older ones refused, {} with a superblock zeroed, {} after a failed flush of them\n# in place: {} writes, {} dirty pages moved\n# go on with --seed {seed}",
        table.join("\n"),
        all.older,
        all.zeroed,
        all.forgot,
        all.in_place,
        all.relocated,
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn line(name: &str, seed: u64, tally: &Tally, failures: u64) -> String {
    let &Tally {
        histories,
        states,
        killed,
        cut,
        damaged,
        told,
        mended,
        resized,
        strangers,
        failed,
        ..
    } = tally;
    format!(
        "{name} {seed} {histories} {states} {killed} {cut} {damaged} {told} {mended} {resized} {strangers} {failed} {failures}"
    )
}

/// History after history of one kind.
fn run(
    options: &Options,
    states: u64,
    make: fn(u64) -> History,
    seed: &mut u64,
    shrinking: &AtomicBool,
) -> (Tally, u64) {
    let (mut tally, mut failures, mut told) = (Tally::default(), 0, 0);
    while tally.states < states && failures < options.failures {
        let history = make(*seed);
        if let Err(failure) = explore::<Engine>(&history, &Looks::Each(options.looks), &mut tally) {
            failures += 1;
            println!("FAILED seed {seed}, after {} states: {}", tally.states, failure.reason);
            shrinking.store(true, Ordering::Relaxed);
            println!("smallest found: {}", shrink::<Engine>(failure, 300));
            shrinking.store(false, Ordering::Relaxed);
        }
        *seed += 1;
        if tally.states / 20_000 > told || options.one {
            told = tally.states / 20_000;
            println!("{tally:?}, {failures} failed; next seed {seed}");
        }
        if options.one {
            break;
        }
    }
    (tally, failures)
}
