//! Where the disk's time goes, by kind of I/O, with a write buffer and without one. No plan is made: what the buffer gains
//! it gains alone.
//!
//!     cargo run --release -p seekless-study --example write_buffer -- synth:borg-developer:0.1 wd2500aaks 1024 40 open
//!
//! TRACE DISK AREA_MIB PERCENT open|DEPTH [RAM_MIB]; areas of made-up weeks are multiplied by their scale.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::exit)]

use std::collections::BTreeMap;

use seekless_block::{Bytes, Lba, Op, Sectors};
use seekless_disk::{Device, DeviceSpec, Scheduler, SpinDown, catalogue};
use seekless_engine::{Class, Config, Mode, Target};
use seekless_sim::{IoCost, Measured, Replay, SimConfig, Simulation};
use seekless_trace::synth::Synthetic;
use seekless_trace::{Event, OpenOptions, Source};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [trace, disk, area, percent, replay, rest @ ..] = &args[..] else {
        eprintln!("TRACE DISK AREA_MIB PERCENT open|DEPTH [RAM_MIB]");
        std::process::exit(2);
    };
    let parts: Vec<&str> = trace.split(':').collect();
    let (source, scale) = match parts[..] {
        ["synth", name] => (Source::synthetic(Synthetic::new(name, 1.0, 1).unwrap()), 1.0),
        ["synth", name, scale] => {
            let scale = scale.parse().unwrap();
            (Source::synthetic(Synthetic::new(name, scale, 1).unwrap()), scale)
        }
        _ => (Source::new(trace), 1.0),
    };
    let open = OpenOptions { event: Event::Issue, lenient: false };
    let (mut end, mut ops) = (0, BTreeMap::<String, (u64, u64)>::new());
    let mut reader = source.open(&open).unwrap();
    while let Some(r) = reader.next_record().unwrap() {
        end = end.max(r.request.extent.end().0);
        let op = ops.entry(format!("{:?}", r.request.op)).or_default();
        *op = (op.0 + 1, op.1 + r.request.extent.len.0);
    }
    println!("{trace}: {ops:?} (requests, sectors)");
    let capacity = Sectors(end.next_multiple_of(2048));
    let disk: DeviceSpec = match std::fs::read_to_string(disk) {
        Ok(text) => DeviceSpec::parse(disk, &text).unwrap(),
        Err(_) => catalogue::device(disk).unwrap(),
    };
    let replay = match replay.as_str() {
        "open" => Replay::Open,
        depth => Replay::Closed { depth: depth.parse().unwrap() },
    };
    let area = Bytes(((area.parse::<f64>().unwrap() * scale) as u64) << 20).sectors_ceil();
    let ram = Bytes(rest.first().map_or(0, |m| m.parse::<u64>().unwrap()) << 20);
    for percent in [0, percent.parse().unwrap()] {
        let engine = Config {
            area: if percent == 0 { Sectors(0) } else { area },
            write_buffer_percent: percent,
            mode: if percent == 0 { Mode::WriteThrough } else { Mode::WriteBack },
            cache_bytes: ram,
            read_ahead: if ram.0 == 0 { Bytes(0) } else { Bytes(64 << 10) },
            ..Config::new(capacity)
        };
        let config = SimConfig {
            area_at: Lba(capacity.0),
            engine,
            scheduler: Scheduler::Fcfs,
            spin_down: SpinDown::None,
            replay,
        };
        let mut simulation = Simulation::new(Device::new(&disk).unwrap(), config).unwrap();
        let mut reader = source.open(&open).unwrap();
        while let Some(r) = reader.next_record().unwrap() {
            simulation.offer(&r.request).unwrap();
        }
        show(percent, &simulation.finish().unwrap());
    }
}

fn show(percent: u8, m: &Measured) {
    let (clients, background) =
        (m.foreground.busy().as_secs_f64(), m.background.busy().as_secs_f64());
    println!(
        "\nwrite buffer {percent} %: clients {clients:.1} s + background {background:.1} s = {:.1} s; response {:.2} ms, \
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
    let each = |d: seekless_block::Duration| d.as_secs_f64() * 1e3 / c.ios as f64;
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
