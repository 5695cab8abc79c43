//! The demo's results: a table, sentences and a report.

use seekless_block::{Extent, Sectors, SimTime};
use seekless_disk::DeviceSpec;
use seekless_report::{
    Axis, Basis, Better, Cell, Column, Figure, HeadKind, HeadMove, HeadPath, HeadRun, Provenance,
    Report, Section, StackedBars, Table, Tile, Unit, Values,
};
use serde_json::json;

use super::{AHEAD, AREA, CACHE, Half, VOLUME};

pub(crate) fn table(vanilla: &Half, borg: &Half) -> Table {
    let seconds = |name: &str| Column::number(name, Unit::Seconds).better(Better::Lower);
    let mut table = Table::new(
        "Days 4 to 6 on the emulated disk",
        vec![
            Column::text(""),
            seconds("busy"),
            seconds("seek"),
            seconds("rotation"),
            seconds("transfer"),
            Column::number("energy", Unit::Joules).better(Better::Lower),
            Column::number("energy, an I/O", Unit::Joules).better(Better::Lower),
            Column::number("disk I/Os", Unit::Count).better(Better::Lower),
        ],
    )
    .baseline(0)
    .note(format!(
        "Time and energy of the emulated disk while busy; RAM {CACHE}, read-ahead {AHEAD} for both."
    ));
    for half in [vanilla, borg] {
        let d = &half.disk;
        table = table.row([
            Cell::from(half.name),
            Cell::from(d.busy.as_secs_f64()),
            Cell::from(d.seek.as_secs_f64()),
            Cell::from(d.rotation.as_secs_f64()),
            Cell::from(d.transfer.as_secs_f64()),
            Cell::from(joules(half)),
            Cell::from(joules(half) / d.ios.max(1) as f64),
            Cell::from(d.ios),
        ]);
    }
    table
}

/// The numbers for programs.
pub(crate) fn document(
    vanilla: &Half,
    borg: &Half,
    spec: &DeviceSpec,
    speed: f64,
) -> serde_json::Value {
    let run = |h: &Half| {
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
            "moving_s": h.moving.background_busy.as_secs_f64(),
            "moved_bytes": h.moved_bytes,
        })
    };
    json!({
        "schema": "seekless.demo/1",
        "disk": spec.name(),
        "speed": speed,
        "cache_bytes": CACHE.0,
        "read_ahead_bytes": AHEAD.0,
        "area_bytes": AREA.0,
        "runs": [run(vanilla), run(borg)],
    })
}

/// Energy while busy.
fn joules(half: &Half) -> f64 {
    (half.disk.usage.energy.seek + half.disk.usage.energy.rotation_transfer).as_joules_f64()
}

fn change(new: f64, old: f64) -> String {
    let x = new / old - 1.0;
    let sign = if x < 0.0 { "\u{2212}" } else { "+" };
    format!("{sign}{}", Unit::Share.format(x.abs(), 3))
}

pub(crate) fn finding(vanilla: &Half, borg: &Half) -> String {
    let moving = &borg.moving;
    let (old, new) = (vanilla.disk.busy.as_secs_f64(), borg.disk.busy.as_secs_f64());
    format!(
        "Serving days 4 to 6 from what days 1 to 3 taught changes busy time by {}; with the moving of {} \
         once ({} of disk time, {}) counted, by {}. {} of {} disk reads came from copies.",
        change(new, old),
        seekless_block::format_size(borg.moved_bytes),
        Unit::Seconds.format(moving.background_busy.as_secs_f64(), 3),
        Unit::Joules.format(
            (moving.usage.energy.seek + moving.usage.energy.rotation_transfer).as_joules_f64(),
            3
        ),
        change(new + moving.background_busy.as_secs_f64(), old),
        Unit::Count.format(borg.served.copy_reads as f64, 3),
        Unit::Count.format((borg.served.copy_reads + borg.served.home_reads) as f64, 3),
    )
}

/// Where the disk's time goes.
fn time_bars(halves: [&Half; 2]) -> StackedBars {
    StackedBars {
        axis: Axis::new("disk time", Unit::Seconds),
        parts: ["seek", "rotation", "transfer", "moving data, once"].map(str::to_owned).to_vec(),
        bars: halves
            .map(|h| {
                let d = &h.disk;
                Values::new(
                    h.name,
                    [
                        d.seek.as_secs_f64(),
                        d.rotation.as_secs_f64(),
                        d.transfer.as_secs_f64(),
                        h.moving.background_busy.as_secs_f64(),
                    ],
                )
            })
            .to_vec(),
    }
}

fn head_paths(halves: [&Half; 2]) -> HeadPath {
    // Both runs start when day 4 does.
    let start = |h: &Half| h.path.first().map_or(SimTime::ZERO, |s| s.time);
    let area = Extent::new(VOLUME.0 / 512, AREA.0 / 512);
    HeadPath {
        capacity: Sectors((VOLUME.0 + AREA.0) / 512),
        runs: halves
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
fn provenance(vanilla: &Half, borg: &Half, spec: &DeviceSpec, speed: f64) -> Provenance {
    Provenance {
            command: std::env::args().collect::<Vec<_>>().join(" "),
            facts: vec![
                ("seekless".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
                ("disk".to_owned(), spec.title().to_owned()),
                ("speed".to_owned(), format!("{speed} times real")),
                ("RAM".to_owned(), CACHE.to_string()),
                ("read-ahead, cluster".to_owned(), AHEAD.to_string()),
                ("optimized area".to_owned(), AREA.to_string()),
            ],
            measured: vec![
                "the requests: block events of real programs, as sample/README.md tells".to_owned(),
                format!(
                    "the bytes: {} read over NBD, each compared with what was written",
                    seekless_block::format_size(
                        vanilla.replayed.bytes_checked + borg.replayed.bytes_checked
                    )
                ),
            ],
            modelled: vec![
                "every time and every joule: an emulated disk that answers as late as the model says; the client's and the server's own time, times the speed, is part of when requests reach it".to_owned(),
            ],
        }
}

pub(crate) fn report(vanilla: &Half, borg: &Half, spec: &DeviceSpec, speed: f64) -> Report {
    let busy = |h: &Half| h.disk.busy.as_secs_f64();
    let tile = |label: &str, f: &dyn Fn(&Half) -> f64, unit: Unit| {
        let (old, new) = (f(vanilla), f(borg));
        let note = format!("{} \u{2192} {}", unit.format(old, 3), unit.format(new, 3));
        Tile::new(label, change(new, old), note)
    };
    let (bars, head) = (time_bars([vanilla, borg]), head_paths([vanilla, borg]));
    Report::new("seekless demo: six days at a computer", finding(vanilla, borg))
        .tile(tile("Disk busy time", &busy, Unit::Seconds))
        .tile(tile("Seek time", &|h| h.disk.seek.as_secs_f64(), Unit::Seconds))
        .tile(tile("Rotational delay", &|h| h.disk.rotation.as_secs_f64(), Unit::Seconds))
        .tile(tile("Energy while busy", &joules, Unit::Joules))
        .section(
            Section::new("Days 4 to 6, before and after")
                .table(table(vanilla, borg))
                .figure(
                    Figure::new("Where the head goes", Basis::Modelled, head).caption(
                        "Every command of the emulated disk at its first sector. The shaded band at the top is the optimized area: copies of the data that days 1 to 3 used together, side by side.",
                    ),
                )
                .figure(
                    Figure::new("Where the disk's time goes", Basis::Modelled, bars)
                        .caption("Time of the emulated disk over days 4 to 6; moving data happened once, before day 4."),
                ),
        )
        .provenance(provenance(vanilla, borg, spec, speed))
}
