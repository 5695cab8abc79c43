//! Figures 9 to 15: the sectors accessed, the parts of an access, its energy, and the change from
//! run to run.

use seekless_block::{Sectors, SimTime};
use seekless_report::{
    Axis, BarSeries, Bars, Basis, Figure, HeadPath, HeadRun, Lines, Points, StackedBars, Unit,
    Values,
};

use super::claims::access;
use super::experiments::Load;
use super::replay::Fs2Run;
use crate::HeadMoves;

pub(super) fn basis(l: &Load) -> (Basis, &'static str) {
    if l.real {
        (Basis::Mixed, "A recorded update on the modelled disk.")
    } else {
        (Basis::Modelled, "A synthetic load on the modelled disk.")
    }
}

/// Figure 9 (a1) to (c1): the sectors that were accessed in the last run.
pub(super) fn accesses(l: &Load, head_moves: HeadMoves) -> Figure {
    let track = |(name, paths): &(&'static str, Vec<(usize, seekless_sim::HeadPath)>)| {
        let path = &paths.last()?.1;
        let mut moves = head_moves(path);
        let first = moves.first().map_or(SimTime::ZERO, |m| m.at);
        moves.iter_mut().for_each(|m| m.at = SimTime(m.at.0 - first.0));
        Some(HeadRun { name: (*name).to_owned(), moves, area: None })
    };
    let runs: Vec<HeadRun> = l.paths.iter().filter_map(track).collect();
    let highest = runs.iter().flat_map(|r| &r.moves).map(|m| m.lba.0 + 1).max().unwrap_or(1);
    let capacity = Sectors(highest.next_multiple_of(1 << 11));
    let (basis, words) = basis(l);
    Figure::new("Sectors accessed in the last run", basis, HeadPath { capacity, runs })
        .caption(words)
}

pub(super) fn parts(l: &Load) -> Figure {
    let bar = |(name, runs): &(&str, Vec<Fs2Run>)| {
        let run = runs.last().copied().unwrap_or_default();
        let parts = [run.seek_s, run.rotation_s, run.transfer_s];
        Values::new(*name, parts.map(|s| run.mean_ms(s) / 1e3))
    };
    let bars = StackedBars {
        axis: Axis::new("Access time", Unit::Seconds),
        parts: ["seek", "rotation", "transfer"].map(String::from).to_vec(),
        bars: l.systems.iter().map(bar).collect(),
    };
    let (basis, words) = basis(l);
    Figure::new("Mean access time and its parts", basis, bars).caption(words)
}

pub(super) fn energy(l: &Load) -> Figure {
    let bars = Bars {
        axis: Axis::new("Energy of an access", Unit::Joules),
        categories: l.systems.iter().map(|s| s.0.to_owned()).collect(),
        series: vec![BarSeries {
            name: "last run".to_owned(),
            values: l.systems.iter().map(|s| (access(&l.last(s.0))[3] / 1e3).into()).collect(),
        }],
    };
    let (basis, words) = basis(l);
    Figure::new("Mean energy of an access", basis, bars).caption(words)
}

pub(super) fn progress(l: &Load) -> Figure {
    let series = |(name, runs): &(&str, Vec<Fs2Run>)| {
        let points = runs.iter().enumerate().map(|(i, r)| (i as f64 + 1.0, access(r)[0] / 1e3));
        Points::new(*name, points.collect::<Vec<_>>())
    };
    let lines = Lines {
        x: Axis::new("Run", Unit::Count),
        y: Axis::new("Access time", Unit::Seconds),
        series: l.systems.iter().map(series).collect(),
    };
    let (basis, words) = basis(l);
    Figure::new("Access time from run to run", basis, lines).caption(words)
}
