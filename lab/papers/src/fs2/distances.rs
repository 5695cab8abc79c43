//! Figures 9 (a2) to (c2) and 11: access time by seek distance. The paper's figures are clouds of
//! points without numbers. Beside our access times stand the seek times by the paper's own method
//! (4.2): its seek curve at each distance, with coefficients adjusted so that the curve's two parts
//! meet (docs/believing/disk-models.md).

use seekless_disk::SeekCurve;
use seekless_report::{Axis, Cell, Column, Figure, Points, Scatter, Table, Unit};
use seekless_sim::{HeadPath, Kind, Point};
use serde_json::{Value, json};

use super::experiments::Load;
use super::figures::basis;
use super::printed::{PRINTED, PrintedLoad};
use crate::synth::Fs2Load;

/// Bands of seek distances end before these, in sectors.
const ENDS: [u64; 6] = [1, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000];
const NAMES: [&str; 7] = [
    "none: sequential",
    "below 5 MB",
    "5 to 51 MB",
    "51 to 512 MB",
    "0.5 to 5 GB",
    "5 to 26 GB",
    "26 GB and more",
];

/// T_s of a seek over this many sectors, in milliseconds.
fn ms(curve: &SeekCurve, sectors: u64) -> f64 {
    curve.time(0, sectors).as_millis_f64()
}

/// Clients' accesses of a band.
#[derive(Clone, Copy, Default)]
struct Band {
    accesses: u64,
    took_ms: f64,
}

/// A run's accesses by seek distance.
struct Distances {
    bands: [Band; 7],
    accesses: u64,
    /// Mean T_s by the paper's method.
    seek_ms: f64,
    /// The sectors of the 5th and the 95th hundredth of all accesses.
    span: (u64, u64),
}

fn of_clients(path: &HeadPath) -> impl Iterator<Item = &Point> {
    path.points().iter().filter(|p| p.kind != Kind::Background)
}

impl Distances {
    fn of(path: &HeadPath, curve: &SeekCurve) -> Self {
        let mut bands = [Band::default(); 7];
        let (mut accesses, mut seek_ms) = (0, 0.0);
        let mut sectors: Vec<u64> = Vec::new();
        for p in of_clients(path) {
            let band = &mut bands[ENDS.partition_point(|&end| end <= p.distance)];
            let took = p.took.as_millis_f64();
            band.accesses += 1;
            band.took_ms += took;
            accesses += 1;
            // A faster access came out of the drive's buffer: no seek, all transfer.
            let seek = ms(curve, p.distance);
            seek_ms += if took < seek { 0.0 } else { seek };
            sectors.push(p.lba.0);
        }
        sectors.sort_unstable();
        let at = |share: f64| {
            sectors.get((sectors.len() as f64 * share) as usize).copied().unwrap_or_default()
        };
        let seek_ms = seek_ms / (accesses as f64).max(1.0);
        Self { bands, accesses, seek_ms, span: (at(0.05), at(0.95)) }
    }

    fn share(&self, band: usize) -> f64 {
        self.bands[band].accesses as f64 / self.accesses.max(1) as f64
    }

    fn mean_ms(&self, band: usize) -> f64 {
        self.bands[band].took_ms / self.bands[band].accesses.max(1) as f64
    }

    fn cell(&self, band: usize) -> Cell {
        if self.bands[band].accesses == 0 {
            return Cell::Empty;
        }
        format!("{:.1} %: {:.2} ms", self.share(band) * 100.0, self.mean_ms(band)).into()
    }
}

/// The drawn runs of a load, with their titles.
fn columns(l: &Load) -> Vec<(String, &'static str, &HeadPath)> {
    let last = l.runs();
    let paths = l.paths.iter().flat_map(|(name, runs)| runs.iter().map(move |r| (*name, r)));
    paths
        // Figure 9 has the last runs, Figure 11 the first, second and last of FS2-dynamic.
        .filter(|(name, run)| run.0 == last || *name == "fs2")
        .map(|(name, run)| {
            let called =
                if run.0 == last { name.to_owned() } else { format!("{name}, run {}", run.0) };
            (called, name, &run.1)
        })
        .collect()
}

/// Sectors between the 5th and the 95th hundredth of all accesses in the system's last run.
pub(super) fn range(l: &Load, system: &str, curve: &SeekCurve) -> f64 {
    let found = columns(l).into_iter().find(|c| c.0 == system);
    found.map_or(f64::NAN, |(_, _, path)| {
        let (from, to) = Distances::of(path, curve).span;
        (to - from) as f64
    })
}

/// The paper's mean T_s in milliseconds, if the paper prints it for this run.
fn printed_seek(p: &PrintedLoad, called: &str) -> Option<f64> {
    let ext2 = p.ext2?[1];
    let less = match called {
        "ext2" => 0.0,
        "fs2-static" => p.fs2_static?.seek,
        "fs2" => p.fs2.seek,
        _ => return None,
    };
    Some(ext2 * (1.0 - less))
}

pub(super) fn table(l: &Load, curve: &SeekCurve) -> Table {
    let p = &PRINTED[l.printed];
    let all: Vec<_> = columns(l)
        .into_iter()
        .map(|(called, name, path)| (called, name, Distances::of(path, curve)))
        .collect();
    let mut heads = vec![Column::text("seek distance"), Column::text("paper's T_s").right()];
    heads.extend(all.iter().map(|(called, ..)| Column::text(called.as_str()).right()));
    let title =
        format!("{}: access time by seek distance, last run unless another is named", l.name);
    let mut table = Table::new(title, heads);
    for (i, name) in NAMES.iter().enumerate() {
        let (from, to) = (if i == 0 { 0 } else { ENDS[i - 1] }, ENDS.get(i).copied());
        let ms = |at: u64| format!("{:.1}", ms(curve, at));
        let printed = match to {
            _ if i == 0 => "0".to_owned(),
            Some(to) => format!("{} to {} ms", ms(from), ms(to)),
            None => format!("{} ms and more", ms(from)),
        };
        let cells = all.iter().map(|(_, _, d)| d.cell(i));
        table = table.row([Cell::from(*name), printed.into()].into_iter().chain(cells));
    }
    let seeks = all.iter().map(|(called, _, d)| {
        let paper = printed_seek(p, called).filter(|_| !l.real);
        let paper = paper.map_or(String::new(), |ms| format!(" ({ms:.2})"));
        Cell::from(format!("{:.2} ms{paper}", d.seek_ms))
    });
    table = table.row([Cell::from("mean T_s by its curve"), Cell::Empty].into_iter().chain(seeks));
    let spans = all.iter().map(|(_, _, d)| {
        let gb = (d.span.1 - d.span.0) as f64 * 512.0 / 1e9;
        Cell::from(format!("{gb:.1} GB"))
    });
    table = table.row([Cell::from("nine in ten within"), Cell::Empty].into_iter().chain(spans));
    table.note(
        "Share of the accesses at this distance, and their mean time. The paper plots them (Figure 9 a2 to c2, Figure 11) \
         without numbers: in brackets is its mean seek time (Figure 10), which the paper computes from its printed curve in the same way. The last \
         line corresponds to Figure 12: the distance on the disk between the 5th and the 95th hundredth of all accesses.",
    )
}

/// One figure a run, as in the paper: two clouds in one figure would hide each other.
pub(super) fn figures(l: &Load) -> Vec<Figure> {
    let figure = |(called, _, path): (String, &'static str, &HeadPath)| {
        let points = of_clients(path).map(|p| (p.distance as f64, p.took.as_secs_f64()));
        let title = format!("Access time by seek distance: {called}{}", place(l, &called));
        let cloud = Scatter {
            x: Axis::new("Seek distance", Unit::Other("sectors".to_owned())),
            y: Axis::new("Access time", Unit::Seconds),
            series: vec![Points::new(called, points.collect::<Vec<_>>())],
        };
        let (basis, words) = basis(l);
        Figure::new(title, basis, cloud).caption(words)
    };
    columns(l).into_iter().map(figure).collect()
}

/// The same figure in the paper.
fn place(l: &Load, called: &str) -> &'static str {
    match called {
        _ if l.real || PRINTED[l.printed].load != Fs2Load::TpcW => "",
        "ext2" => " (Figure 9 a2)",
        "fs2-static" => " (Figure 9 b2)",
        "fs2" => " (Figures 9 c2 and 11 c)",
        "fs2, run 1" => " (Figure 11 a)",
        "fs2, run 2" => " (Figure 11 b)",
        _ => "",
    }
}

/// As JSON.
pub(super) fn document(l: &Load, curve: &SeekCurve) -> Value {
    let all = columns(l).into_iter().map(|(called, _, path)| {
        let d = Distances::of(path, curve);
        let bands = (0..NAMES.len()).map(|i| {
            json!({ "from_sectors": if i == 0 { 0 } else { ENDS[i - 1] }, "share": d.share(i), "mean_ms": d.mean_ms(i) })
        });
        json!({
            "name": called, "bands": bands.collect::<Vec<_>>(), "seek_ms_by_the_papers_curve": d.seek_ms,
            "paper_seek_ms": printed_seek(&PRINTED[l.printed], &called).filter(|_| !l.real),
            "nine_in_ten_within_sectors": d.span.1 - d.span.0,
        })
    });
    all.collect()
}
