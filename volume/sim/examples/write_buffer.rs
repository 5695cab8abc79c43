//! Disk time by kind of I/O, without a write buffer and with one. No plan is made: all gain is the
//! buffer's. At the end the whole buffer is destaged, and that counts.
//!
//!     seekless-lab synth borg-developer --scale 0.1 -o csv:developer.csv
//!     cargo run --release -p seekless-sim --example write_buffer -- wd2500aaks 102 40 open 0 1000 <developer.csv
//!
//! DISK AREA_MIB PERCENT open|DEPTH [RAM_MIB [GATHER_MS]] <TRACE.csv
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, clippy::exit)]

use std::collections::BTreeSet;

use seekless_block::{Bytes, Duration, Extent, Lba, Op, Request, Sectors, SimTime};
use seekless_disk::{Device, DeviceSpec, Scheduler, SpinDown, catalogue};
use seekless_engine::{Class, Config, Target};
use seekless_sim::{IoCost, Measured, Replay, SimConfig, Simulation};

/// The first columns of what `seekless convert` writes as CSV.
fn request(line: &str) -> Option<Request> {
    let (at, rest) = line.split_once(',')?;
    let at = at.parse::<f64>().ok()?;
    // A device's name may have a comma in it.
    let rest = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once("\",")?.1,
        None => rest.split_once(',')?.1,
    };
    let mut fields = rest.split(',');
    let op = match fields.next()? {
        kind if kind.starts_with('R') => Op::Read,
        kind if kind.starts_with('W') => Op::Write,
        kind if kind.starts_with('D') => Op::Discard,
        _ => Op::Flush,
    };
    let mut number = || fields.next()?.parse().ok();
    let extent = Extent::new(number()?, number()?);
    Some(Request::new(SimTime((at * 1e9) as u64), op, extent))
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [disk, area, percent, replay, rest @ ..] = &args[..] else {
        eprintln!("DISK AREA_MIB PERCENT open|DEPTH [RAM_MIB [GATHER_MS]] <TRACE.csv");
        std::process::exit(2);
    };
    let text = std::io::read_to_string(std::io::stdin()).unwrap();
    let requests: Vec<Request> = text.lines().filter_map(request).collect();
    let end = requests.iter().map(|r| r.extent.end().0).max().unwrap();
    let capacity = Sectors(end.next_multiple_of(2048));
    let disk: DeviceSpec = catalogue::device(disk).unwrap();
    let replay = match replay.as_str() {
        "open" => Replay::Open,
        depth => Replay::Closed { depth: depth.parse().unwrap() },
    };
    let area = Bytes(area.parse::<u64>().unwrap() << 20).sectors_ceil();
    let number = |i: usize| rest.get(i).map_or(0, |n| n.parse::<u64>().unwrap());
    let (ram, gather) = (Bytes(number(0) << 20), Duration::from_millis(number(1)));
    let swept = gathered(&requests, gather);
    let percent = percent.parse().unwrap();
    let mut runs = vec![("no write buffer", 0, &requests), ("write buffer", percent, &requests)];
    if gather > Duration::ZERO {
        runs.push(("no write buffer, but writes gathered and sorted in RAM", 0, &swept));
    }
    for (name, percent, requests) in runs {
        let engine = Config {
            area: if percent == 0 { Sectors(0) } else { area },
            cache_bytes: ram,
            read_ahead: if ram.0 == 0 { Bytes(0) } else { Bytes(64 << 10) },
            ..Config::new(capacity)
        };
        let engine = engine.with_write_buffer(percent, gather);
        let config = SimConfig {
            area_at: Lba(capacity.0),
            engine,
            scheduler: Scheduler::Fcfs,
            spin_down: SpinDown::None,
            replay,
        };
        let mut simulation = Simulation::new(Device::new(&disk).unwrap(), config).unwrap();
        for request in requests {
            simulation.offer(request).unwrap();
        }
        simulation.drain().unwrap();
        show(name, percent, &simulation.finish().unwrap());
    }
}

/// The requests of a host whose RAM keeps writes for this long, at most 255 pages, and then sends
/// them in order of address: the baseline of a gathering write buffer. A flush, or a read of these
/// pages, sends them at once.
fn gathered(requests: &[Request], wait: Duration) -> Vec<Request> {
    let (mut out, mut held, mut until) = (Vec::new(), BTreeSet::new(), SimTime::ZERO);
    let send = |held: &mut BTreeSet<u64>, at: SimTime, out: &mut Vec<Request>| {
        let mut runs: Vec<Extent> = Vec::new();
        for page in std::mem::take(held) {
            match runs.last_mut() {
                Some(run) if run.end().0 == page * 8 && run.len.0 < 2048 => run.len.0 += 8,
                _ => runs.push(Extent::new(page * 8, 8)),
            }
        }
        out.extend(runs.into_iter().map(|run| Request::new(at, Op::Write, run)));
    };
    for r in requests {
        let pages = r.extent.start.0 / 8..r.extent.end().0.div_ceil(8);
        let whole = r.extent.start.0.is_multiple_of(8) && r.extent.len.0.is_multiple_of(8);
        if r.arrival >= until {
            send(&mut held, until, &mut out);
        } else if r.op == Op::Flush
            || !whole
            || held.range(pages.clone()).next().is_some() && r.op == Op::Read
        {
            send(&mut held, r.arrival, &mut out);
        }
        if r.op == Op::Write && whole {
            if held.is_empty() {
                until = r.arrival + wait;
            }
            held.extend(pages);
            if held.len() >= 255 {
                send(&mut held, r.arrival, &mut out);
            }
        } else {
            out.push(*r);
        }
    }
    send(&mut held, until, &mut out);
    out
}

fn show(name: &str, percent: u8, m: &Measured) {
    let (clients, background) =
        (m.foreground.busy().as_secs_f64(), m.background.busy().as_secs_f64());
    println!(
        "\n{name} {percent} %: clients {clients:.1} s + background {background:.1} s = {:.1} s; response {:.2} ms, \
         absorbed {}, destaged {} MiB",
        clients + background,
        m.response.mean_ms(),
        m.engine.absorbed,
        m.engine.destaged_bytes >> 20
    );
    println!(
        "{:26} {:>8} {:>7} {:>9} | ms an I/O: seek, rotation, transfer, overhead, behind",
        "", "I/Os", "KiB", "busy s"
    );
    for (class, who) in [(Class::Foreground, "clients"), (Class::Background, "background")] {
        for (target, place) in [(Target::Home, "home"), (Target::Area, "area")] {
            for (writes, what) in [(false, "reads"), (true, "writes")] {
                line(&format!("{who}, {place}, {what}"), m.costs.of(class, target, writes));
            }
        }
    }
}

fn line(name: &str, c: &IoCost) {
    if c.ios == 0 {
        return;
    }
    let each = |d: Duration| d.as_secs_f64() * 1e3 / c.ios as f64;
    let p = &c.phases;
    println!(
        "{name:26} {:>8} {:>7.1} {:>9.1} | {:.2} {:.2} {:.2} {:.2} {:.2}",
        c.ios,
        c.sectors as f64 / 2.0 / c.ios as f64,
        p.busy().as_secs_f64(),
        each(p.seek),
        each(p.rotation),
        each(p.transfer),
        each(p.overhead),
        each(c.behind)
    );
}
