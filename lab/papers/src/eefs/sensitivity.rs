//! The settings on which the gain depends: directories, memory, truncation and delayed writes.

use seekless_block::Bytes;
use seekless_report::{Axis, Basis, Figure, Lines, Points, Table, Unit};

use super::experiments::Sensitivity;
use super::tables::{percent, share};
use crate::synth::FileDay;

pub(super) fn depends_table(all: &[Sensitivity]) -> Table {
    let writing = |d: &Sensitivity| match (d.truncate, d.sync) {
        (false, false) => "over",
        (true, false) => "O_TRUNC",
        (false, true) => "over, sync",
        (true, true) => "O_TRUNC, sync",
    };
    let table = Table::of("What the gain depends on", all)
        .text("", |d| d.day)
        .right("directories", |d| d.directories.to_string())
        .right("memory", |d| Bytes(d.memory_bytes).to_string())
        .right("writing", writing)
        .right("hits", |d| share(d.hits))
        .right("FFS", |d| d.ffs_requests.to_string())
        .right("EEFS / FFS", |d| format!("{:.2}", d.of_ffs))
        .right("EEFS / read-ahead", |d| format!("{:.2}", d.of_read_ahead))
        .right("energy at work", |d| percent(d.energy_at_work, 1.0))
        .right("energy", |d| percent(d.energy, 1.0))
        .done();
    table.note("Writing: over existing bytes, or into a file that was emptied first; sync: FFS delays no write, alone and beside the groups. Hits and requests of the disk are FFS's. Energy is EEFS's against FFS's. The paper: 0.31 of the requests with 70 % and 80 % hits, -50.2 % and -46.5 % of the energy.")
}

pub(super) fn depends_figure(day: &FileDay, all: &[Sensitivity]) -> Figure {
    let mut series: Vec<Points> = Vec::new();
    for d in all.iter().filter(|d| d.day == day.name && !d.truncate && !d.sync) {
        let n = d.directories;
        let name = Bytes(d.memory_bytes).to_string();
        match series.iter_mut().find(|s| s.name == name) {
            Some(s) => s.points.push((f64::from(n), d.of_ffs)),
            None => series.push(Points::new(name, [(f64::from(n), d.of_ffs)])),
        }
    }
    let lines = Lines {
        x: Axis::new("Directories of all files", Unit::Number).log(),
        y: Axis::new("Requests of the disk, EEFS to FFS", Unit::Share),
        series,
    };
    Figure::new(
        format!("Requests saved, by directories and memory: {}", day.name),
        Basis::Modelled,
        lines,
    )
    .caption(
        "FFS reads and writes inodes in many places one by one. A group keeps its inodes together.",
    )
}
