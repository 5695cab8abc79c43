//! FS2's disk: the parts of random accesses (Figure 2), and the band of access times (Figure 8).
//! Everything here is modelled; the paper's printed numbers stand beside ours.

use seekless_block::{Dice, Op, SimTime};
use seekless_disk::fit::{Fit, Sample, fit, workload};
use seekless_disk::{Disk, SeekSpec, catalogue};
use seekless_report::{
    Axis, Basis, Column, Figure, Provenance, Report, Section, StackedBars, Table, Tile, Unit,
    Values,
};
use serde_json::{Value, json};

use crate::reproduction::SCHEMA;
use crate::{AccessFigure, PaperError, Reproduction};

/// From a 15,000 rpm SCSI drive to a 5,400 rpm laptop drive, as in the figure, with the paper's own
/// disk.
const DRIVES: [&str; 4] = ["atlas15k", "atlas10k", "wd800jb", "travelstar-5k320"];
/// FS2's testbed.
const TESTBED: &str = "wd800jb";
/// Random reads of each drive; the sectors of FS2's block size.
const READS: u64 = 20_000;
const SECTORS: u64 = 8;
/// Nanoseconds of the disk's time for Figure 8.
const PROBED_NS: u64 = 120_000_000_000;

/// Means over random reads, in milliseconds, and energy.
struct AccessParts {
    name: &'static str,
    title: String,
    seek: f64,
    rotation: f64,
    transfer: f64,
    /// Millijoules an access, if the disk's power is known.
    energy_mj: f64,
    /// Millijoules by the paper's equation, from these means and the two powers.
    equation_mj: f64,
}

impl AccessParts {
    fn access(&self) -> f64 {
        self.seek + self.rotation + self.transfer
    }
}

fn parts(name: &'static str) -> Result<AccessParts, PaperError> {
    let spec = catalogue::get(name)?;
    let mut disk = Disk::new(&spec)?;
    let (mut now, mut dice) = (SimTime(0), Dice::new(2005));
    let mut sums = [0u64; 3];
    let mut energy = 0.0;
    for _ in 0..READS {
        let at = dice.below(disk.capacity().0 / SECTORS) * SECTORS;
        let access = disk.access(now, Op::Read, seekless_block::Extent::new(at, SECTORS))?;
        now += access.total();
        sums[0] += access.seek.0;
        sums[1] += access.rotation.0;
        sums[2] += (access.transfer + access.overhead).0;
        energy += disk.energy(&access).total().as_joules_f64() * 1e3;
    }
    let [seek, rotation, transfer] = sums.map(|s| s as f64 / READS as f64 / 1e6);
    let (p_s, p_i) = (spec.power.seek_w, spec.power.rotation_transfer_w);
    Ok(AccessParts {
        name,
        title: spec.title,
        seek,
        rotation,
        transfer,
        energy_mj: energy / READS as f64,
        equation_mj: seek * p_s + (rotation + transfer) * p_i,
    })
}

/// Figure 8: the testbed's disk, probed and fitted.
fn probed() -> Result<Fit, PaperError> {
    let spec = catalogue::get(TESTBED)?;
    let mut disk = Disk::new(&spec)?;
    let mut now = SimTime(0);
    let mut samples = Vec::new();
    let too_small = || PaperError::Invalid("the disk is too small to probe".to_owned());
    for extent in workload(spec.capacity_sectors).ok_or_else(too_small)? {
        let service = disk.access(now, Op::Read, extent)?.total();
        now += service;
        samples.push(Sample { op: Op::Read, extent, service });
        if now.0 > PROBED_NS {
            break;
        }
    }
    Ok(fit(TESTBED, spec.capacity_sectors, &samples, "Reads of the modelled disk")?)
}

fn breakdown(all: &[AccessParts]) -> Table {
    let seconds = |name: &str| Column::number(name, Unit::Seconds).digits(4);
    let table = Table::of("Figure 2: the parts of a random read of 4 KiB, modelled", all)
        .text("disk", |p| p.name)
        .column(seconds("T_s seek"), |p| p.seek / 1e3)
        .column(seconds("T_r rotation"), |p| p.rotation / 1e3)
        .column(seconds("T_t transfer"), |p| p.transfer / 1e3)
        .column(seconds("T_A access"), |p| p.access() / 1e3)
        .number("seek's share", Unit::Share, |p| p.seek / p.access())
        .number("E_A an access", Unit::Joules, |p| (p.energy_mj > 0.0).then_some(p.energy_mj / 1e3))
        .done();
    table.note("T_A = T_s + T_r + T_t. The paper prints Figure 2 as a plot without numbers or names of drives.")
}

/// A comparison: words, the paper's number, ours, and their unit.
type ComparisonRow = (&'static str, Option<f64>, f64, &'static str);

fn beside(testbed: &AccessParts, fit: &Fit) -> Vec<ComparisonRow> {
    let outer = fit.zones.first().map_or(f64::NAN, |z| z.sectors_per_second);
    let at = |x: f64| {
        let after = fit.envelope.partition_point(|k| k.0 < x).max(1);
        match (fit.envelope.get(after - 1), fit.envelope.get(after)) {
            (Some(a), Some(b)) => a.1 + (b.1 - a.1) * (x - a.0) / (b.0 - a.0),
            _ => f64::NAN,
        }
    };
    let line = match fit.spec.seek {
        SeekSpec::CubicLinear { linear, .. } => linear,
        _ => [f64::NAN; 2],
    };
    let printed = |x: f64| 9e-8 * x + 4.16;
    vec![
        ("Height of the band", Some(8.33), fit.band_ms, "ms"),
        ("Mean rotational delay of random reads (Table 1)", Some(4.16), testbed.rotation, "ms"),
        ("Mean seek time of random reads (Table 1)", Some(9.9), testbed.seek, "ms"),
        ("Seek over 2e7 sectors, by the printed line", Some(printed(2e7)), at(2e7), "ms"),
        ("Seek over 5e7 sectors, by the printed line", Some(printed(5e7)), at(5e7), "ms"),
        ("Seek over 1e8 sectors, by the printed line", Some(printed(1e8)), at(1e8), "ms"),
        ("Line of the fitted curve: a million sectors", Some(0.09), line[0] * 1e6, "ms"),
        ("Line of the fitted curve: constant", Some(4.16), line[1], "ms"),
        (
            "Bandwidth of the outermost zone (MB of 2^20)",
            Some(54.0),
            outer * 512.0 / 1048576.0,
            "MB/s",
        ),
        ("Time to transfer a sector there", Some(9.0), 1e6 / outer, "µs"),
        ("E_A of random reads, by T_s P_s + (T_r + T_t) P_i", None, testbed.equation_mj, "mJ"),
        ("The same, from the model's account", None, testbed.energy_mj, "mJ"),
    ]
}

fn beside_table(rows: &[ComparisonRow]) -> Table {
    let number = |v: f64| format!("{v:.2}");
    let table = Table::of("FS2's numbers and ours", rows)
        .text("what", |r| r.0)
        .right("paper", |r| r.1.map(number))
        .right("ours", |r| number(r.2))
        .text("unit", |r| r.3);
    table.done().note(
        "The catalogue takes rpm, power and the seek curve from the paper and derives the zones from its bandwidth: \
         agreement shows that model and fit preserve these numbers; nothing was measured again. The mean seek of \
         Table 1 is the maker's, not the curve's.",
    )
}

/// The experiments on the disk alone. `access_figure` draws Figure 8; `command` is the command
/// line, for the report.
///
/// # Errors
/// If the catalogue lacks a disk, or a disk refuses a request.
pub fn reproduce(command: &str, access_figure: AccessFigure) -> Result<Reproduction, PaperError> {
    let all = DRIVES.into_iter().map(parts).collect::<Result<Vec<_>, _>>()?;
    let fit = probed()?;
    let missing = || PaperError::Invalid("the testbed's disk is missing".to_owned());
    let testbed = all.iter().find(|p| p.name == TESTBED).ok_or_else(missing)?;
    let rows = beside(testbed, &fit);
    let tables = vec![breakdown(&all), beside_table(&rows)];
    let figure8 = access_figure(
        &fit,
        Basis::Modelled,
        "Reads at all distances on the modelled disk of FS2's testbed",
    );
    Ok(Reproduction {
        opening: String::new(),
        closing: String::new(),
        document: document(&all, &fit, &rows),
        report: report(command, testbed, [figure2(&all), figure8], &tables),
        tables,
    })
}

fn report(
    command: &str,
    testbed: &AccessParts,
    [figure2, figure8]: [Figure; 2],
    tables: &[Table],
) -> Report {
    let share = testbed.transfer / testbed.access() * 100.0;
    let section = |title: &str, figure: Figure, table: Option<&Table>| {
        let section = Section::new(title).figure(figure);
        table.cloned().map_or(section.clone(), |t| section.table(t))
    };
    Report::new(
        "The parts of an access on FS2's disk",
        format!("On the disk of FS2's testbed a random read spends {share:.1} % of its time transferring; the rest is seek and rotation. All numbers are modelled."),
    )
    .tile(Tile::new("T_s, seek", format!("{:.2} ms", testbed.seek), TESTBED))
    .tile(Tile::new("T_r, rotation", format!("{:.2} ms", testbed.rotation), TESTBED))
    .tile(Tile::new("T_t, transfer", format!("{:.2} ms", testbed.transfer), TESTBED))
    .section(section("Figure 2", figure2, tables.first()))
    .section(section("Figure 8", figure8, tables.get(1)))
    .provenance(
        Provenance::of(command)
            .fact("disks", DRIVES.join(", "))
            .fact("reads of each", Unit::count(READS))
            .measured("The paper's numbers, on its authors' machine.")
            .modelled("All our numbers."),
    )
}

fn document(all: &[AccessParts], fit: &Fit, rows: &[ComparisonRow]) -> Value {
    json!({
        "schema": SCHEMA,
        "what": "fs2-disk",
        "figure2": all.iter().map(|p| json!({
            "disk": p.name, "title": p.title, "reads": READS,
            "seek_ms": p.seek, "rotation_ms": p.rotation, "transfer_ms": p.transfer,
            "access_ms": p.access(), "energy_mj": p.energy_mj,
        })).collect::<Vec<_>>(),
        "figure8": { "disk": TESTBED, "accesses": fit.points.len(), "band_ms": fit.band_ms,
                     "rpm": fit.spec.mechanics.rpm, "envelope_sectors_ms": fit.envelope },
        "beside": rows.iter().map(|(what, paper, ours, unit)| json!({
            "what": what, "paper": paper, "ours": ours, "unit": unit,
        })).collect::<Vec<_>>(),
    })
}

fn figure2(all: &[AccessParts]) -> Figure {
    let bars = StackedBars {
        axis: Axis::new("Access time", Unit::Seconds),
        parts: ["seek", "rotation", "transfer"].map(String::from).to_vec(),
        bars: all
            .iter()
            .map(|p| Values::new(p.name, [p.seek / 1e3, p.rotation / 1e3, p.transfer / 1e3]))
            .collect(),
    };
    Figure::new("The parts of a random read of 4 KiB", Basis::Modelled, bars).caption(format!(
        "Mean over {} uniformly random reads of each disk, one at a time. FS2's Figure 2 has four unnamed drives \
         of 2005, from a 15,000 rpm SCSI drive to a 5,400 rpm laptop drive.",
        Unit::count(READS)
    ))
}
