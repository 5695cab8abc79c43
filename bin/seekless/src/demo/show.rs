//! The demo's results: a table, sentences and a report.

use seekless_block::{Extent, Sectors, SimTime};
use seekless_report::{
    Axis, Basis, Better, Column, Figure, HeadKind, HeadMove, HeadPath, HeadRun, Provenance, Report,
    Section, StackedBars, Table, Tile, Unit, Values,
};
use serde_json::json;

use super::{AHEAD, CACHE, Played, Run};
use crate::simulate_report::{both, change};

fn capital(words: &str) -> String {
    words[..1].to_uppercase() + &words[1..]
}

pub(crate) fn table(played: &Played) -> Table {
    let lower = |name: &str, unit| Column::number(name, unit).better(Better::Lower);
    let seconds = |name: &str| lower(name, Unit::Seconds);
    let title = capital(&format!("{} on the emulated disk, from cold", played.scene.span));
    Table::of(title, played.runs())
        .text("", |run| run.name)
        .column(seconds("busy"), |run| run.disk.busy.as_secs_f64())
        .column(seconds("seek"), |run| run.disk.seek.as_secs_f64())
        .column(seconds("rotation"), |run| run.disk.rotation.as_secs_f64())
        .column(seconds("transfer"), |run| run.disk.transfer.as_secs_f64())
        .column(seconds("of it background"), |run| run.disk.background_busy.as_secs_f64())
        .column(lower("energy", Unit::Joules), joules)
        .column(lower("disk I/Os", Unit::Count), |run| run.disk.ios)
        .done()
        .baseline(0)
        .note(format!(
            "Time and energy of the emulated disk while busy. RAM {CACHE} for both; read-ahead {AHEAD} for vanilla."
        ))
}

/// Disk time by part of the recording, if it has parts.
pub(crate) fn parts(played: &Played) -> Option<Table> {
    let [vanilla, adaptive] = played.runs().map(|run| &run.parts);
    if vanilla.len() < 2 {
        return None;
    }
    let nights = vanilla.iter().zip(adaptive).enumerate();
    let table = Table::of("Disk time of each night", nights)
        .text("", |(i, _)| format!("night {}", i + 1))
        .number("vanilla", Unit::Seconds, |(_, (old, _))| *old)
        .number("adaptive", Unit::Seconds, |(_, (_, new))| *new)
        .number("of vanilla", Unit::Share, |(_, (old, new))| new / old);
    Some(table.done())
}

/// The numbers for programs. With two recordings, those of the second stand in the field `nights`.
pub(crate) fn documents(played: &[Played]) -> serde_json::Value {
    let mut all = played.iter().map(document);
    let mut first = all.next().unwrap_or_default();
    if let Some(nights) = all.next() {
        first["nights"] = nights;
    }
    first
}

fn document(played: &Played) -> serde_json::Value {
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
            "parts": h.parts,
        })
    };
    json!({
        "schema": "seekless.demo/1",
        "disk": played.spec.name(),
        "speed": played.speed,
        "cache_bytes": CACHE.0,
        "read_ahead_bytes": AHEAD.0,
        "area_bytes": played.scene.area.0,
        "runs": played.runs().map(run),
    })
}

/// Energy while busy.
fn joules(run: &Run) -> f64 {
    (run.disk.usage.energy.seek + run.disk.usage.energy.rotation_transfer).as_joules_f64()
}

pub(crate) fn finding(played: &Played) -> String {
    let [vanilla, adaptive] = played.runs();
    let busy = |run: &Run| run.disk.busy.as_secs_f64();
    let served = &adaptive.served;
    let share = served.prefetch_used as f64 / served.prefetched.max(1) as f64;
    format!(
        "From cold, over {}, the adaptive policy changes the disk's busy time by {}, and its energy while busy \
         by {}; background work ({} of disk time) is counted. Clients used {} of the data that was read ahead. {} of \
         {} disk reads went to the trail.",
        played.scene.span,
        change(busy(adaptive), busy(vanilla)),
        change(joules(adaptive), joules(vanilla)),
        Unit::Seconds.format(adaptive.disk.background_busy.as_secs_f64(), 3),
        Unit::Share.format(share, 2),
        Unit::count(served.copy_reads),
        Unit::count(served.copy_reads + served.home_reads),
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

fn head_paths(played: &Played) -> HeadPath {
    let start = |h: &Run| h.path.first().map_or(SimTime::ZERO, |s| s.time);
    let (volume, area) = (played.scene.volume.0, played.scene.area.0);
    let trail = Extent::new(volume / 512, area / 512);
    HeadPath {
        capacity: Sectors((volume + area) / 512),
        runs: played
            .runs()
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
                area: Some(trail),
            })
            .to_vec(),
    }
}

/// The measured and the modelled numbers.
fn provenance(played: &[Played]) -> Provenance {
    let mut origin = Provenance::of(seekless_cli::args::command_line())
        .fact("RAM", CACHE)
        .fact("read-ahead of vanilla", AHEAD)
        .modelled("every time and every joule: the emulated disk answers at the time that its model computes; the delays of client and server, multiplied by the speed, also change when requests reach the disk");
    for one in played {
        let (span, scene) = (one.scene.span, one.scene);
        let words = format!("{}, {} times faster than real", one.spec.title(), one.speed);
        let bytes = one.runs().iter().map(|run| run.replayed.bytes_checked).sum();
        origin = origin.fact(format!("disk, {span}"), words);
        origin = origin.fact(format!("space for the trail, {span}"), scene.area);
        origin = origin.measured(format!(
            "{span}: block requests of real programs, described in {}; {} read over NBD, and each byte compared with the written byte",
            scene.told_in,
            seekless_block::format_size(bytes)
        ));
    }
    origin
}

pub(crate) fn report(all: &[Played]) -> Report {
    let findings: Vec<_> = all.iter().map(finding).collect();
    let mut report = Report::new("seekless demo", findings.join(" "));
    for played in all {
        let busy = |h: &Run| h.disk.busy.as_secs_f64();
        let tile = |what: &str, f: &dyn Fn(&Run) -> f64, unit: Unit| {
            let [old, new] = played.runs().map(f);
            let label = format!("{what}, {}", played.scene.span);
            Tile::new(label, change(new, old), both(&unit, old, new))
        };
        let caption = format!(
            "Time of the emulated disk over {}; writing the trail is counted.",
            played.scene.span
        );
        let title = format!("{}, without and with seekless", played.scene.span);
        let mut section = Section::new(capital(&title)).table(table(played));
        if let Some(parts) = parts(played) {
            section = section.table(parts);
        }
        let head = Figure::new("Where the head goes", Basis::Modelled, head_paths(played)).caption(
            "Every command of the emulated disk at its first sector. The shaded band at the top is the trail: copies of data in the order of use.",
        );
        let bars =
            Figure::new("Where the disk's time goes", Basis::Modelled, time_bars(played.runs()));
        report = report
            .tile(tile("Disk busy time", &busy, Unit::Seconds))
            .tile(tile("Energy while busy", &joules, Unit::Joules))
            .section(section.figure(head).figure(bars.caption(caption)));
    }
    report.provenance(provenance(all))
}
