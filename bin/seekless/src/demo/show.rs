//! The demo's results: a table, sentences and a report.

use seekless_block::{Extent, Sectors, SimTime};
use seekless_disk::DeviceSpec;
use seekless_report::{
    Axis, Basis, Better, Cell, Column, Figure, HeadKind, HeadMove, HeadPath, HeadRun, Provenance,
    Report, Section, StackedBars, Table, Tile, Unit, Values,
};
use serde_json::json;

use super::{AHEAD, AREA, CACHE, Run, VOLUME};

pub(crate) fn table(vanilla: &Run, adaptive: &Run) -> Table {
    let seconds = |name: &str| Column::number(name, Unit::Seconds).better(Better::Lower);
    let mut table = Table::new(
        "Six days on the emulated disk, from cold",
        vec![
            Column::text(""),
            seconds("busy"),
            seconds("seek"),
            seconds("rotation"),
            seconds("transfer"),
            seconds("of it background"),
            Column::number("energy", Unit::Joules).better(Better::Lower),
            Column::number("energy, an I/O", Unit::Joules).better(Better::Lower),
            Column::number("disk I/Os", Unit::Count).better(Better::Lower),
        ],
    )
    .baseline(0)
    .note(format!(
        "Time and energy of the emulated disk while busy. RAM {CACHE} for both; read-ahead {AHEAD} for vanilla."
    ));
    for run in [vanilla, adaptive] {
        let d = &run.disk;
        table = table.row([
            Cell::from(run.name),
            Cell::from(d.busy.as_secs_f64()),
            Cell::from(d.seek.as_secs_f64()),
            Cell::from(d.rotation.as_secs_f64()),
            Cell::from(d.transfer.as_secs_f64()),
            Cell::from(d.background_busy.as_secs_f64()),
            Cell::from(joules(run)),
            Cell::from(joules(run) / d.ios.max(1) as f64),
            Cell::from(d.ios),
        ]);
    }
    table
}

/// The numbers for programs.
pub(crate) fn document(
    vanilla: &Run,
    adaptive: &Run,
    spec: &DeviceSpec,
    speed: f64,
) -> serde_json::Value {
    let run = |h: &Run| {
        let d = &h.disk;
        json!({
            "policy": h.name,
            "requests": h.replayed.requests,
            "bytes_checked": h.replayed.bytes_checked,
            "busy_s": d.busy.as_secs_f64(),
            "seek_s": d.seek.as_secs_f64(),
            "rotation_s": d.rotation.as_secs_f64(),
            "transfer_s": d.transfer.as_secs_f64(),
            "energy_busy_j": joules(h),
            "disk_ios": d.ios,
            "copy_reads": h.served.copy_reads,
            "home_reads": h.served.home_reads,
            "background_s": d.background_busy.as_secs_f64(),
            "moved_bytes": h.served.moved_bytes,
            "prefetched_pages": h.served.prefetched,
            "prefetch_used_pages": h.served.prefetch_used,
        })
    };
    json!({
        "schema": "seekless.demo/1",
        "disk": spec.name(),
        "speed": speed,
        "cache_bytes": CACHE.0,
        "read_ahead_bytes": AHEAD.0,
        "area_bytes": AREA.0,
        "runs": [run(vanilla), run(adaptive)],
    })
}

/// Energy while busy.
fn joules(run: &Run) -> f64 {
    (run.disk.usage.energy.seek + run.disk.usage.energy.rotation_transfer).as_joules_f64()
}

fn change(new: f64, old: f64) -> String {
    let x = new / old - 1.0;
    let sign = if x < 0.0 { "\u{2212}" } else { "+" };
    format!("{sign}{}", Unit::Share.format(x.abs(), 3))
}

pub(crate) fn finding(vanilla: &Run, adaptive: &Run) -> String {
    let busy = |run: &Run| run.disk.busy.as_secs_f64();
    let served = &adaptive.served;
    let count = |n: u64| Unit::Count.format(n as f64, 3);
    let share = served.prefetch_used as f64 / served.prefetched.max(1) as f64;
    format!(
        "From cold, over six days, the adaptive policy changes the disk's busy time by {}, and its energy while busy \
         by {}; background work ({} of disk time) is counted. Clients used {} of the data that was read ahead. {} of \
         {} disk reads went to the trail.",
        change(busy(adaptive), busy(vanilla)),
        change(joules(adaptive), joules(vanilla)),
        Unit::Seconds.format(adaptive.disk.background_busy.as_secs_f64(), 3),
        Unit::Share.format(share, 2),
        count(served.copy_reads),
        count(served.copy_reads + served.home_reads),
    )
}

/// Where the disk's time goes.
fn time_bars(runs: [&Run; 2]) -> StackedBars {
    StackedBars {
        axis: Axis::new("disk time", Unit::Seconds),
        parts: ["seek", "rotation", "transfer"].map(str::to_owned).to_vec(),
        bars: runs
            .map(|h| {
                let d = &h.disk;
                Values::new(
                    h.name,
                    [d.seek.as_secs_f64(), d.rotation.as_secs_f64(), d.transfer.as_secs_f64()],
                )
            })
            .to_vec(),
    }
}

fn head_paths(runs: [&Run; 2]) -> HeadPath {
    let start = |h: &Run| h.path.first().map_or(SimTime::ZERO, |s| s.time);
    let area = Extent::new(VOLUME.0 / 512, AREA.0 / 512);
    HeadPath {
        capacity: Sectors((VOLUME.0 + AREA.0) / 512),
        runs: runs
            .map(|h| HeadRun {
                name: h.name.to_owned(),
                moves: h
                    .path
                    .iter()
                    .map(|s| HeadMove {
                        at: SimTime(s.time.since(start(h)).0),
                        lba: s.lba,
                        kind: if s.background { HeadKind::Background } else { HeadKind::Read },
                    })
                    .collect(),
                area: Some(area),
            })
            .to_vec(),
    }
}

/// The measured and the modelled numbers.
fn provenance(vanilla: &Run, adaptive: &Run, spec: &DeviceSpec, speed: f64) -> Provenance {
    Provenance {
            command: std::env::args().collect::<Vec<_>>().join(" "),
            facts: vec![
                ("seekless".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
                ("disk".to_owned(), spec.title().to_owned()),
                ("speed".to_owned(), format!("{speed} times real")),
                ("RAM".to_owned(), CACHE.to_string()),
                ("read-ahead of vanilla".to_owned(), AHEAD.to_string()),
                ("room for the trail".to_owned(), AREA.to_string()),
            ],
            measured: vec![
                "the requests: block events of real programs, as sample/README.md tells".to_owned(),
                format!(
                    "the bytes: {} read over NBD, each compared with what was written",
                    seekless_block::format_size(
                        vanilla.replayed.bytes_checked + adaptive.replayed.bytes_checked
                    )
                ),
            ],
            modelled: vec![
                "every time and every joule: an emulated disk that answers as late as the model says; the client's and the server's own time, times the speed, is part of when requests reach it".to_owned(),
            ],
        }
}

pub(crate) fn report(vanilla: &Run, adaptive: &Run, spec: &DeviceSpec, speed: f64) -> Report {
    let busy = |h: &Run| h.disk.busy.as_secs_f64();
    let tile = |label: &str, f: &dyn Fn(&Run) -> f64, unit: Unit| {
        let (old, new) = (f(vanilla), f(adaptive));
        let note = format!("{} \u{2192} {}", unit.format(old, 3), unit.format(new, 3));
        Tile::new(label, change(new, old), note)
    };
    let (bars, head) = (time_bars([vanilla, adaptive]), head_paths([vanilla, adaptive]));
    Report::new("seekless demo: six days at a computer", finding(vanilla, adaptive))
        .tile(tile("Disk busy time", &busy, Unit::Seconds))
        .tile(tile("Seek time", &|h| h.disk.seek.as_secs_f64(), Unit::Seconds))
        .tile(tile("Rotational delay", &|h| h.disk.rotation.as_secs_f64(), Unit::Seconds))
        .tile(tile("Energy while busy", &joules, Unit::Joules))
        .section(
            Section::new("Six days, without and with seekless")
                .table(table(vanilla, adaptive))
                .figure(
                    Figure::new("Where the head goes", Basis::Modelled, head).caption(
                        "Every command of the emulated disk at its first sector. The shaded band at the top is the trail: copies of data in the order of use.",
                    ),
                )
                .figure(
                    Figure::new("Where the disk's time goes", Basis::Modelled, bars)
                        .caption("Time of the emulated disk over the six days; writing the trail is counted."),
                ),
        )
        .provenance(provenance(vanilla, adaptive, spec, speed))
}
