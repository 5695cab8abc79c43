//! The settings on which the gain depends: directories, memory, truncation and delayed writes.

use seekless_block::Bytes;
use seekless_report::{Axis, Basis, Column, Figure, Lines, Points, Table, Unit};

use super::experiments::Sensitivity;
use super::tables::{column, percent};
use crate::synth::FileDay;

pub(super) fn depends_table(all: &[Sensitivity]) -> Table {
    let names = [
        "directories",
        "memory",
        "writing",
        "hits",
        "FFS",
        "EEFS / FFS",
        "EEFS / read-ahead",
        "energy at work",
        "energy",
    ];
    let columns = std::iter::once(Column::text(""));
    let mut table = Table::new(
        "What the gain depends on",
        columns.chain(names.iter().map(|n| column(n))).collect(),
    );
    for d in all {
        table = table.row(
            [
                d.day.to_owned(),
                d.directories.to_string(),
                Bytes(d.memory_bytes).to_string(),
                match (d.truncate, d.sync) {
                    (false, false) => "over",
                    (true, false) => "O_TRUNC",
                    (false, true) => "over, sync",
                    (true, true) => "O_TRUNC, sync",
                }
                .to_owned(),
                format!("{:.1} %", d.hits * 100.0),
                d.ffs_requests.to_string(),
                format!("{:.2}", d.of_ffs),
                format!("{:.2}", d.of_read_ahead),
                percent(d.energy_at_work, 1.0),
                percent(d.energy, 1.0),
            ]
            .map(Into::into),
        );
    }
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
