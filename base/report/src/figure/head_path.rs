//! The path of the head: position on the disk over time, one panel per run, all with the same axes,
//! so that runs can be compared (modelled on FS2, SOSP'05, figure 1).

use std::fmt::Write as _;

use seekless_block::{Extent, Lba, Sectors, SimTime};

use super::thinning::{thin_line, thin_points};
use crate::axis_ticks::Mapped;
use crate::canvas::{Canvas, Frame, GLYPHS, Key, fit, polyline, xy};
use crate::escape::csv_line;
use crate::{Scale, Unit};

const RUNS: usize = 4;
/// A panel with more points than this is thinned.
const POINTS: usize = 3_000;
/// A thinned panel has one mark per square of this many pixels, the limit of what a reader can
/// distinguish.
const SPOT: f64 = 3.2;
/// Marks of a thinned panel, smaller than elsewhere: read, write, background.
const SMALL: [&str; 3] = ["h0", "h3", "l2 2m0-2l-2 2"];
/// Maximum number of marks for zooming into thinned panels, over all panels of a figure.
const FINE: usize = 16_000;
/// Maximum number of columns of a thinned line, over all panels.
const COLUMNS: usize = 3_200;

/// The reason for a movement of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum HeadKind {
    Read,
    Write,
    Background,
}

impl HeadKind {
    const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Background];

    /// The word, the style of its colour, and its symbol.
    const fn look(self) -> (&'static str, usize, usize) {
        match self {
            Self::Read => ("read", 0, 0),
            Self::Write => ("write", 1, 6),
            Self::Background => ("background", 2, 2),
        }
    }
}

/// One device I/O: its time and position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadMove {
    /// Time of its service.
    pub at: SimTime,
    /// Its first sector.
    pub lba: Lba,
    /// Its reason.
    pub kind: HeadKind,
}

/// The path of the head in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadRun {
    /// The name of the run, for example `vanilla`.
    pub name: String,
    /// The movements; they are sorted by time.
    pub moves: Vec<HeadMove>,
    /// The optimized area; drawn shaded.
    pub area: Option<Extent>,
}

/// The head's position over time in up to four runs, one below the other on the same axes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadPath {
    /// Size of the disk.
    pub capacity: Sectors,
    /// The runs, from top to bottom.
    pub runs: Vec<HeadRun>,
}

/// A run in seconds and bytes, in order of time.
struct RunLine {
    line: Vec<(f64, f64)>,
    kinds: Vec<HeadKind>,
}

impl RunLine {
    fn of(run: &HeadRun) -> Self {
        let mut moves: Vec<&HeadMove> = run.moves.iter().collect();
        moves.sort_by_key(|m| m.at);
        let line = moves.iter().map(|m| (m.at.as_secs_f64(), bytes(m.lba.0))).collect();
        Self { line, kinds: moves.iter().map(|m| m.kind).collect() }
    }
}

fn bytes(sector: u64) -> f64 {
    sector as f64 * seekless_block::SECTOR_BYTES as f64
}

impl HeadPath {
    pub(super) fn draw(&self, svg: &mut Canvas) -> Option<f64> {
        let runs = &self.runs[..self.runs.len().min(RUNS)];
        let tracks: Vec<RunLine> = runs.iter().map(RunLine::of).collect();
        if tracks.iter().all(|t| t.line.is_empty()) {
            return None;
        }
        let narrow = svg.width < 500.0;
        let times = tracks.iter().flat_map(|t| t.line.iter().map(|p| p.0));
        let want = if narrow { 4 } else { 8 };
        let x = Mapped::over(times, Scale::Linear, &Unit::Seconds, (true, true), want)?;
        let y = self.y_axis(runs, &tracks)?;
        let left = y.label_room();
        let mut keys: Vec<(usize, Key, &str)> = Vec::new();
        for kind in HeadKind::ALL {
            let (name, style, glyph) = kind.look();
            if tracks.iter().any(|t| t.kinds.contains(&kind)) {
                keys.push((style, Key::Glyph(glyph), name));
            }
        }
        if runs.iter().any(|r| r.area.is_some_and(|a| !a.is_empty())) {
            keys.push((5, Key::Area, "optimized area"));
        }
        let mut top = svg.legend(0.0, &keys) + 54.0;
        let high = match (runs.len(), narrow) {
            (1, false) => 320.0,
            (2, false) => 230.0,
            (1 | 2, true) => 170.0,
            _ => 140.0,
        };
        let y_label = format!("Position on disk ({})", y.unit);
        let x_label = format!("Time ({})", x.unit);
        let right = svg.width - 10.0;
        let x = x.at(left, right);
        svg.text(0.0, top - 34.0, "lab", "start", &y_label);
        for (i, (run, track)) in runs.iter().zip(&tracks).enumerate() {
            let f = Frame { left, top, right, bottom: top + high };
            let y = y.clone().at(f.bottom, f.top);
            svg.text(left, top - 9.0, "panel-name", "start", &fit(&run.name, right - left));
            panel(svg, i, f, (run, track), (&x, &y), runs.len());
            let last = i + 1 == runs.len();
            svg.x_axis(f, &x, if last { &x_label } else { "" }, false);
            top = f.bottom + if last { 42.0 } else { 54.0 };
        }
        Some(top)
    }

    /// The whole disk if the runs use most of it, otherwise the part that they use.
    fn y_axis(&self, runs: &[HeadRun], tracks: &[RunLine]) -> Option<Mapped> {
        let areas = runs.iter().filter_map(|r| r.area.filter(|a| !a.is_empty()));
        let ends = areas.flat_map(|a| [bytes(a.start.0), bytes(a.end().0)]);
        let used = || tracks.iter().flat_map(|t| t.line.iter().map(|p| p.1)).chain(ends.clone());
        let (lo, hi) = used().fold((f64::INFINITY, 0f64), |m, v| (m.0.min(v), m.1.max(v)));
        let whole = bytes(self.capacity.0);
        let values = if hi - lo > 0.4 * whole || lo < 0.1 * whole {
            [0.0, if hi > 0.6 * whole { whole.max(hi) } else { hi }]
        } else {
            [lo, hi]
        };
        Mapped::over(values.into_iter(), Scale::Linear, &Unit::Bytes, (false, false), 5)
    }

    pub(super) fn csv(&self, limit: usize) -> (String, bool) {
        let total: usize = self.runs.iter().map(|r| r.moves.len()).sum();
        let whole = total.saturating_mul(48) <= limit;
        let mut out = String::new();
        if whole {
            csv_line(&mut out, ["run", "time [ns]", "position [sectors]", "kind"]);
            for run in &self.runs {
                for m in &run.moves {
                    let (at, lba) = (m.at.0.to_string(), m.lba.0.to_string());
                    csv_line(&mut out, [&run.name, &at, &lba, m.kind.look().0]);
                }
            }
        } else {
            csv_line(&mut out, ["run", "time [s]", "position [bytes]"]);
            let bins = (limit / 48 / 4 / self.runs.len().max(1)).max(1);
            for run in &self.runs {
                let line = RunLine::of(run).line;
                let (Some(first), Some(last)) = (line.first(), line.last()) else { continue };
                for p in thin_line(&line, first.0, last.0, bins) {
                    csv_line(&mut out, [run.name.clone(), format!("{}", p.0), format!("{}", p.1)]);
                }
            }
        }
        (out, whole)
    }
}

/// Draws one run: the shaded area, the head's path as a thin line, and a mark for every I/O.
fn panel(
    svg: &mut Canvas,
    index: usize,
    f: Frame,
    (run, track): (&HeadRun, &RunLine),
    (x, y): (&Mapped, &Mapped),
    panels: usize,
) {
    let clip = Frame { top: f.top - 4.0, right: f.right + 4.0, bottom: f.bottom + 4.0, ..f };
    let _ = write!(
        svg.out,
        "<clipPath id=\"{}-c{index}\"><rect {}/></clipPath>",
        svg.id,
        clip.attributes()
    );
    svg.y_axis(f, y, "");
    svg.open_panel(f, &run.name, x, y, ("s", "bytes"));
    shade_area(svg, f, run, y);
    let _ = write!(svg.out, "<g clip-path=\"url(#{}-c{index})\">", svg.id);
    let place = |p: &(f64, f64)| Some((x.place(p.0)?, y.place(p.1)?));
    let points: Vec<_> = track.line.iter().map(|p| place(p).unwrap_or((-1.0, -1.0))).collect();
    let dense = points.len() > POINTS;
    let finest = (f.right - f.left) as usize * if svg.width < 500.0 { 1 } else { 2 };
    let bins = (COLUMNS / panels).min(finest);
    let line = thin_line(&points, f.left, f.right, bins);
    if !line.is_empty() {
        let (faint, path) = (if dense { " faint" } else { "" }, polyline(&line));
        let _ = write!(svg.out, "<path class=\"track{faint}\" d=\"M{path}\"/>");
    }
    if dense {
        // One mark per spot, for the first kind there. A kind drawn later does not cover the
        // others.
        let (columns, rows) = ((f.right - f.left) / SPOT, (f.bottom - f.top) / SPOT);
        let kept = thin(&points, f, columns as usize, rows as usize);
        marks(svg, "coarse", &kept, &points, &track.kinds);
        if svg.zooms {
            let kept = fine_marks(&points, f, FINE / panels);
            marks(svg, "fine", &kept, &points, &track.kinds);
        }
    } else {
        let all: Vec<usize> = (0..points.len()).collect();
        marks(svg, "exact", &all, &points, &track.kinds);
    }
    svg.close();
    svg.close();
}

/// Shades the optimized area.
fn shade_area(svg: &mut Canvas, f: Frame, run: &HeadRun, y: &Mapped) {
    if let Some(area) = run.area.filter(|a| !a.is_empty())
        && let (Some(a), Some(b)) = (y.place(bytes(area.start.0)), y.place(bytes(area.end().0)))
    {
        // A small area on a large disk stays visible.
        let mid = (a + b) / 2.0;
        let half = ((a - b) / 2.0).max(1.5);
        let shade = Frame { top: mid - half, bottom: mid + half, ..f };
        svg.rect("area", Some(5), shade, "optimized area");
    }
}

/// Draws the marks of one layer, one path per kind.
fn marks(svg: &mut Canvas, layer: &str, kept: &[usize], points: &[(f64, f64)], kinds: &[HeadKind]) {
    let _ = write!(svg.out, "<g class=\"{layer}\">");
    for kind in HeadKind::ALL {
        let (name, style, glyph) = kind.look();
        let shape = if layer == "exact" { GLYPHS[glyph] } else { SMALL[style] };
        let mut of_kind = kept.iter().filter(|i| kinds[**i] == kind).map(|i| points[*i]).peekable();
        if of_kind.peek().is_none() {
            continue;
        }
        let _ = write!(
            svg.out,
            "<path class=\"mk g{glyph} s{style} series\" data-s=\"{style}\" data-g=\"{shape}\" data-name=\"{name}\" d=\"",
        );
        for p in of_kind {
            let _ = write!(svg.out, "M{}{shape}", xy(p));
        }
        svg.out.push_str("\"/>");
    }
    svg.close();
}

fn thin(points: &[(f64, f64)], f: Frame, columns: usize, rows: usize) -> Vec<usize> {
    thin_points(points, (f.left, f.right), (f.top, f.bottom), columns, rows)
}

/// All points, or a grid in time as fine as `most` points allow, for zooming in.
fn fine_marks(points: &[(f64, f64)], f: Frame, most: usize) -> Vec<usize> {
    if points.len() <= most {
        return (0..points.len()).collect();
    }
    let (wide, high) = (f.right - f.left, f.bottom - f.top);
    let mut columns = (wide * 16.0) as usize;
    loop {
        // The grid is coarser in position than in time: columns with fewer marks allow more
        // columns.
        let rows = (high / SPOT / if columns as f64 > wide { 3.0 } else { 1.0 }) as usize;
        let kept = thin(points, f, columns, rows);
        if kept.len() <= most || columns <= 80 {
            return kept;
        }
        columns = columns * 2 / 3;
    }
}
