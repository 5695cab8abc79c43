//! EEFS's evaluation: Tables 1 to 3 and what Figures 5 and 6 show, the paper's numbers beside ours; or the same comparison over a
//! real trace of files. The paper's traces are not to be had: ours are made up to match Table 1. Everything is modelled.

use std::path::PathBuf;

use anyhow::Context as _;
use seekless_block::{Bytes, parse_size};
use seekless_disk::{DiskSpec, SpinDown, catalogue};
use seekless_papers::synth::{FILE_DAYS, FileDay, FilePlay, Synthetic};
use seekless_papers::{FileFacts, FileOutcome, FileSystem, FilesOptions, facts_of, run_files};
use seekless_report::{
    Axis, Basis, Column, Figure, Lines, Points, Provenance, Report, Section, StackedBars, Table,
    Unit, Values,
};
use seekless_store::GroupConfig;
use seekless_trace::{FileEvent, FileOp, OpenOptions, Source};
use serde::Serialize;
use serde_json::{Value, json};

use super::Out;
use seekless_cli::output;

/// Scale of `--quick`.
const QUICK: f64 = 0.05;
/// EEFS's disk.
const DISK: &str = "toshiba-pccard";
const SYSTEMS: [(FileSystem, &str); 3] = [
    (FileSystem::Ffs, "FFS"),
    (FileSystem::FfsReadAhead, "FFS, read-ahead"),
    (FileSystem::Eefs, "EEFS"),
];

/// EEFS: files in groups against a fast file system, from made-up days that match its Table 1, on a modelled disk
///
/// Three systems with the same memory: a fast file system, the same with plain read-ahead of one cluster, and EEFS. With
/// --trace, the same over your own trace of files. docs/believing/groups.md says what is modelled and what was invented.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless-lab reproduce eefs --quick
  seekless-lab reproduce eefs --report eefs.html --json eefs.json
  seekless-lab reproduce eefs --spin-down adaptive --quick
  seekless-lab reproduce eefs --sensitivity --report eefs.html
  seekless-lab reproduce eefs --trace build.strace --shuffle 1000 --cache 16MiB")]
pub(crate) struct Args {
    /// A twentieth of the requests, files, memory and of the interval between shuffles
    #[arg(long, conflicts_with = "scale")]
    quick: bool,
    /// Requests, files, memory and the interval between shuffles as a multiple of the paper's: 0.001 to 1
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    scale: f64,
    /// Seed of all that is made up
    #[arg(long, value_name = "N", default_value_t = Synthetic::SEED)]
    seed: u64,
    /// A trace of files (strace, Process Monitor) instead of the made-up days
    #[arg(long, value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Memory of each system; default: the paper's 128 MiB times the scale
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    cache: Option<u64>,
    /// All files of the made-up days evenly in so many directories, instead of in those that were made up; the fast file system
    /// gives each directory's inodes a place of their own
    #[arg(long, value_name = "N", conflicts_with = "trace", value_parser = clap::value_parser!(u32).range(1..))]
    directories: Option<u32>,
    /// What the gain depends on: INS and RES once more with 30, 100, 300 and 1000 directories (below --scale 1 fewer), each with all, an eighth
    /// and a thirty-second of the memory
    #[arg(long, conflicts_with_all = ["trace", "cache", "directories"])]
    sensitivity: bool,
    /// Requests from one shuffle to the next; default: the paper's 100,000 times the scale
    #[arg(long, value_name = "N")]
    shuffle: Option<u64>,
    /// When the platters stop: none, adaptive, or seconds without work
    #[arg(long, value_name = "POLICY", default_value = "none")]
    spin_down: SpinDown,
    /// Which disk, by its name in the catalogue
    #[arg(long, value_name = "NAME", default_value = DISK)]
    disk: String,
    /// The fast file system delays no write, as if mounted with `sync`; the group store still does
    #[arg(long, conflicts_with = "sensitivity")]
    sync: bool,
    /// Whoever writes a file from its beginning on empties it first (`O_TRUNC`); the made-up days write over what is there
    #[arg(long, conflicts_with_all = ["trace", "sensitivity"])]
    truncate: bool,
    #[command(flatten)]
    out: Out,
}

/// What the paper prints of a day: Table 3, and Table 2 at 100,000 requests.
struct Paper {
    requests: [u64; 2],
    /// Percent: read, write, rotation, seek, idle, total.
    energy: [f64; 6],
    /// Groups before, after, stable; mean size; percent that left, and joined.
    groups: Option<[f64; 6]>,
    /// Percent: used after the first; within five minutes.
    figure5: Option<[f64; 2]>,
    /// Percent of hits: FFS, EEFS.
    hits: Option<[f64; 2]>,
}

const PAPER: [Paper; 4] = [
    Paper {
        requests: [482_947, 151_901],
        energy: [12.6, 11.8, -78.5, -78.1, 25.5, -50.2],
        groups: Some([28.0, 26.0, 17.0, 7.0, 14.6, 16.7]),
        figure5: Some([49.3, 85.9]),
        hits: Some([69.76, 77.43]),
    },
    Paper {
        requests: [252_325, 79_107],
        energy: [14.4, 17.4, -75.7, -75.6, 21.9, -46.5],
        groups: Some([28.0, 27.0, 15.0, 5.0, 11.2, 9.5]),
        figure5: Some([72.3, 75.8]),
        hits: Some([80.20, 84.30]),
    },
    Paper {
        requests: [7_072, 2_217],
        energy: [11.6, 12.0, -56.5, -42.2, 15.5, -33.4],
        groups: None,
        figure5: None,
        hits: None,
    },
    Paper {
        requests: [630_057, 415_026],
        energy: [18.6, 12.0, -39.7, -40.6, 7.7, -12.3],
        groups: None,
        figure5: None,
        hits: None,
    },
];

/// One trace under the three systems.
struct Compared {
    name: String,
    paper: Option<&'static Paper>,
    outcomes: Vec<FileOutcome>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let scale = if args.quick { QUICK } else { args.scale };
    anyhow::ensure!((0.001..=1.0).contains(&scale), "a scale of {scale}: give one from 0.001 to 1");
    let spec: DiskSpec = catalogue::get(&args.disk)?;
    // Of a made-up day, a part has a part of the memory and of the interval.
    let options = FilesOptions {
        disk: spec,
        cache: Bytes(args.cache.unwrap_or((128.0 * scale * f64::from(1 << 20)) as u64)),
        store: Bytes(256 << 20),
        cluster: Bytes(65_536),
        shuffle_every: args.shuffle.unwrap_or((100_000.0 * scale) as u64).max(1),
        groups: GroupConfig::default(),
        spin_down: args.spin_down,
        sync: args.sync,
    };
    let compared = match &args.trace {
        Some(path) => vec![real(path, &options)?],
        None => FILE_DAYS
            .iter()
            .zip(&PAPER)
            .map(|(day, paper)| made_up(day, paper, scale, args, &options))
            .collect::<anyhow::Result<_>>()?,
    };
    let depends = if args.sensitivity { sensitivity(scale, args, &options)? } else { Vec::new() };
    let mut tables = vec![
        requests(&compared),
        causes(&compared, 0.0),
        causes(&compared, 1e3),
        energy(&compared),
        times(&compared),
        groups(&compared),
    ];
    if args.trace.is_none() {
        tables.insert(0, table1(scale, args.seed));
    }
    if args.sensitivity {
        tables.push(depends_table(&depends));
    }
    let report = |command: &str| {
        let mut report = Report::new(
            "Files in groups",
            "EEFS against a fast file system, with and without read-ahead, with the same memory. Everything of ours is modelled.",
        );
        for c in &compared {
            report = report.section(Section::new(c.name.clone()).figure(figure(c)));
        }
        for day in &FILE_DAYS[..SENSITIVE] {
            if args.sensitivity {
                let heading = format!("What the gain depends on: {}", day.name);
                let figure = depends_figure(day, &depends);
                report = report.section(Section::new(heading).figure(figure));
            }
        }
        for table in &tables {
            report = report.section(Section::new("Beside the paper").table(table.clone()));
        }
        report.provenance(Provenance {
            command: command.to_owned(),
            facts: vec![
                ("seekless".into(), env!("CARGO_PKG_VERSION").into()),
                ("disk".into(), args.disk.clone()),
                ("memory".into(), options.cache.to_string()),
            ],
            measured: vec!["The paper's numbers, simulated by its authors.".into()],
            modelled: vec!["Everything of ours; the days are made up.".into()],
        })
    };
    if args.out.write(&document(&compared, &depends, scale, args.seed), report)? {
        for table in tables {
            output::print(&table.terminal(output::width(), output::colour()))?;
        }
    }
    Ok(())
}

fn made_up(
    day: &FileDay,
    paper: &'static Paper,
    scale: f64,
    args: &Args,
    options: &FilesOptions,
) -> anyhow::Result<Compared> {
    let part = part_of(day, scale);
    let mut options = options.clone();
    options.cache = Bytes(args.cache.unwrap_or((128.0 * part * f64::from(1 << 20)) as u64));
    options.shuffle_every = args.shuffle.unwrap_or((day.interval() as f64 * part) as u64).max(1);
    let way = Way { directories: args.directories, truncate: args.truncate };
    let outcomes = outcomes(day, part, args.seed, way, &options)?;
    Ok(Compared { name: day.name.to_owned(), paper: Some(paper), outcomes })
}

/// What a made-up day leaves open, and Table 1 with it.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    /// Files lie evenly in so many; none: in those that were made up.
    directories: Option<u32>,
    /// Who writes a file anew empties it first.
    truncate: bool,
}

/// A made-up day under each of the systems.
fn outcomes(
    day: &FileDay,
    part: f64,
    seed: u64,
    way: Way,
    options: &FilesOptions,
) -> anyhow::Result<Vec<FileOutcome>> {
    let mut outcomes = Vec::new();
    for (system, _) in SYSTEMS {
        let play = FilePlay::new(*day, part, seed);
        let files = play.files().iter().enumerate();
        let facts: Vec<FileFacts> = files
            .map(|(number, f)| {
                let directory = way.directories.map_or(f.directory, |n| evenly(number as u64, n));
                FileFacts { directory, size: f.size, existed: true }
            })
            .collect();
        let expected = play.expected();
        let events = play.flat_map(|event| emptied(event, way.truncate));
        outcomes.push(run_files(system, &facts, watched(expected, events.map(Ok)), options)?);
    }
    Ok(outcomes)
}

/// An event, with what `O_TRUNC` does before it where it begins to write a file.
fn emptied(event: FileEvent, truncate: bool) -> impl Iterator<Item = FileEvent> {
    let first = truncate && event.op == FileOp::Write && event.offset == 0;
    let cut = first.then_some(FileEvent { op: FileOp::Truncate, len: 0, ..event });
    cut.into_iter().chain([event])
}

/// One of `n`, so that neighbours in number are none in place: Fibonacci hashing (Knuth, volume 3, 6.4).
const fn evenly(number: u64, n: u32) -> u32 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((mixed * n as u64) >> 32) as u32
}

/// A day in one setting: what EEFS does to it.
#[derive(Debug, Serialize)]
struct Depends {
    day: &'static str,
    /// Of all files; none: those that were made up.
    directories: Option<u32>,
    memory_bytes: u64,
    /// Who writes a file anew empties it first.
    truncate: bool,
    /// FFS delays no write.
    sync: bool,
    /// Requests of the disk: FFS's; EEFS's to them; EEFS's to those of FFS with read-ahead.
    ffs_requests: u64,
    of_ffs: f64,
    of_read_ahead: f64,
    /// Joules of the disk at work, and all of them: EEFS's to FFS's.
    energy_at_work: f64,
    energy: f64,
    /// Share of FFS's blocks that were in memory.
    hits: f64,
}

/// INS and RES, whose requests the paper tells.
const SENSITIVE: usize = 2;

fn sensitivity(scale: f64, args: &Args, options: &FilesOptions) -> anyhow::Result<Vec<Depends>> {
    let mut all = Vec::new();
    for day in &FILE_DAYS[..SENSITIVE] {
        let part = part_of(day, scale);
        let spread = |n: f64| Some((n * part).ceil() as u32);
        let mut settings = Vec::new();
        for directories in [None, spread(30.0), spread(100.0), spread(300.0), spread(1_000.0)] {
            settings.extend([1.0, 8.0, 32.0].map(|share| (directories, share, false, false)));
        }
        for directories in [None, spread(100.0), spread(1_000.0)] {
            let ways = [(true, false), (false, true), (true, true)];
            settings.extend(ways.map(|(truncate, sync)| (directories, 1.0, truncate, sync)));
        }
        for (directories, share, truncate, sync) in settings {
            let cache = Bytes((128.0 * part * f64::from(1 << 20) / share) as u64);
            let shuffle_every =
                args.shuffle.unwrap_or((day.interval() as f64 * part) as u64).max(1);
            let options = FilesOptions { cache, shuffle_every, sync, ..options.clone() };
            let way = Way { directories, truncate };
            let o = outcomes(day, part, args.seed, way, &options)?;
            let requests = |o: &FileOutcome| (o.disk_reads + o.disk_writes).max(1);
            let ratio = |i: usize| requests(&o[2]) as f64 / requests(&o[i]) as f64;
            all.push(Depends {
                day: day.name,
                directories,
                memory_bytes: cache.0,
                truncate,
                sync,
                ffs_requests: requests(&o[0]),
                of_ffs: ratio(0),
                of_read_ahead: ratio(1),
                energy_at_work: at_work(&o[2]) / at_work(&o[0]),
                energy: o[2].energy.total / o[0].energy.total,
                hits: o[0].hits,
            });
        }
    }
    Ok(all)
}

fn at_work(o: &FileOutcome) -> f64 {
    let e = o.energy;
    e.read + e.write + e.rotation + e.seek
}

fn depends_table(all: &[Depends]) -> Table {
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
                d.directories.map_or("made up".to_owned(), |n| n.to_string()),
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
    table.note("Writing: over what is there, or into a file that was emptied first; sync: FFS delays no write, alone and beside the groups. Hits and requests of the disk: FFS's. Energy: EEFS's against FFS's. The paper: 0.31 of the requests with 70 % and 80 % hits, -50.2 % and -46.5 % of the energy.")
}

fn depends_figure(day: &FileDay, all: &[Depends]) -> Figure {
    let mut series: Vec<Points> = Vec::new();
    for d in all.iter().filter(|d| d.day == day.name && !d.truncate && !d.sync) {
        let Some(n) = d.directories else { continue };
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
    Figure::new(format!("Requests saved, by directories and memory: {}", day.name), Basis::Modelled, lines)
        .caption("The paper's 0.31 needs inodes in many places, which FFS writes one by one, and memory too small for all.")
}

/// The light day is short enough as it is.
fn part_of(day: &FileDay, scale: f64) -> f64 {
    if day.requests < 1_000_000 { scale.max(0.2) } else { scale }
}

fn real(path: &PathBuf, options: &FilesOptions) -> anyhow::Result<Compared> {
    let source = Source::new(path);
    let open = || source.open_files(&OpenOptions::default());
    let facts = facts_of(&mut open()?)?;
    let outcomes = SYSTEMS
        .map(|(system, _)| {
            run_files(system, &facts, open()?, options)
                .with_context(|| format!("{}", path.display()))
        })
        .into_iter()
        .collect::<anyhow::Result<_>>()?;
    Ok(Compared { name: path.display().to_string(), paper: None, outcomes })
}

/// The same, with a bar for people.
fn watched<T>(expected: u64, all: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    let bar = output::bar();
    bar.set_length(expected.max(1));
    let mut count = 0u64;
    all.inspect(move |_| {
        count += 1;
        if count.is_multiple_of(1 << 14) {
            bar.set_position(count.min(expected));
        }
    })
}

fn column(name: &str) -> Column {
    Column::text(name).right()
}

fn percent(new: f64, old: f64) -> String {
    if old == 0.0 { "-".to_owned() } else { format!("{:+.1} %", (new / old - 1.0) * 100.0) }
}

fn table1(scale: f64, seed: u64) -> Table {
    let names = [
        "",
        "requests",
        "paper",
        "read MB",
        "paper",
        "written MB",
        "paper",
        "files",
        "below 16 KiB",
        "paper",
    ];
    let mut table = Table::new(
        "Table 1: the days",
        names.iter().map(|n| if n.is_empty() { Column::text("") } else { column(n) }).collect(),
    );
    for day in &FILE_DAYS {
        let part = part_of(day, scale);
        let mut play = FilePlay::new(*day, part, seed);
        let [requests, read, written] = play.by_ref().fold([0u64; 3], |[n, r, w], e| match e.op {
            FileOp::Read => [n + 1, r + e.len, w],
            FileOp::Write => [n + 1, r, w + e.len],
            _ => [n + 1, r, w],
        });
        let mb = |bytes: u64| format!("{:.0}", bytes as f64 / f64::from(1 << 20));
        let small = play.files().iter().filter(|f| f.size < 16_384).count() as f64;
        table = table.row([
            day.name.into(),
            requests.to_string().into(),
            format!("{:.0}", day.requests as f64 * part).into(),
            mb(read).into(),
            format!("{:.0}", day.read_mb * part).into(),
            mb(written).into(),
            format!("{:.0}", day.written_mb * part).into(),
            play.files().len().to_string().into(),
            format!("{:.1} %", small / play.files().len() as f64 * 100.0).into(),
            format!("{:.1} %", day.small * 100.0).into(),
        ]);
    }
    table.note(format!("The paper's requests and megabytes times {scale} (the light day: at least 0.2). Made up to match."))
}

fn requests(all: &[Compared]) -> Table {
    let mut table = Table::new(
        "Table 3: requests of the disk",
        vec![
            Column::text(""),
            column("FFS"),
            column("read-ahead"),
            column("EEFS"),
            column("EEFS / FFS"),
            column("EEFS / read-ahead"),
            column("paper: EEFS / FFS"),
        ],
    );
    for c in all {
        let n = |i: usize| (c.outcomes[i].disk_reads + c.outcomes[i].disk_writes) as f64;
        let paper = c.paper.map_or("-".to_owned(), |p| {
            format!("{:.2}", p.requests[1] as f64 / p.requests[0] as f64)
        });
        table = table.row([
            c.name.clone().into(),
            n(0).to_string().into(),
            n(1).to_string().into(),
            n(2).to_string().into(),
            format!("{:.2}", n(2) / n(0).max(1.0)).into(),
            format!("{:.2}", n(2) / n(1).max(1.0)).into(),
            paper.into(),
        ]);
    }
    table
}

/// Requests by cause: all of them, or of so many opens of files.
fn causes(all: &[Compared], of_opens: f64) -> Table {
    let names = [
        "inodes", "names", "data", "inodes", "names", "data", "groups", "groups", "log", "moving",
        "moving", "all",
    ];
    let kinds = [
        "read", "read", "read", "written", "written", "written", "read", "written", "written",
        "read", "written", "",
    ];
    let columns = std::iter::once(Column::text(""));
    let names = names.iter().zip(kinds).map(|(name, kind)| column(format!("{name} {kind}").trim()));
    let per = of_opens > 0.0;
    let title = if per {
        "The same, per 1,000 opens of files"
    } else {
        "Requests of the disk, by what they were for"
    };
    let mut table = Table::new(title, columns.chain(names).collect());
    for c in all {
        for (o, (_, name)) in c.outcomes.iter().zip(SYSTEMS) {
            let n = o.causes;
            let counts = [
                n.inodes_read,
                n.names_read,
                n.data_read,
                n.inodes_written,
                n.names_written,
                n.data_written,
                n.groups_read,
                n.groups_written,
                n.log_written,
                n.moves_read,
                n.moves_written,
                o.disk_reads + o.disk_writes,
            ];
            let cells = counts.map(|n| {
                let share = n as f64 * of_opens / o.opens.max(1) as f64;
                if per { format!("{share:.1}") } else { n.to_string() }.into()
            });
            table = table.row(std::iter::once(format!("{}, {name}", c.name).into()).chain(cells));
        }
    }
    table.note("Inodes, names and data: the fast file system's, in EEFS of files in no group. Moving: its part of what a shuffle moves.")
}

fn energy(all: &[Compared]) -> Table {
    let names = ["read", "write", "rotation", "seek", "idle", "standby", "total", "without idle"];
    let columns = std::iter::once(Column::text("against FFS"));
    let mut table =
        Table::new("Table 3: energy", columns.chain(names.iter().map(|n| column(n))).collect());
    for c in all {
        let parts = |o: &FileOutcome| {
            let e = o.energy;
            [e.read, e.write, e.rotation, e.seek, e.idle, e.standby, e.total, at_work(o)]
        };
        let ffs = parts(&c.outcomes[0]);
        let joules = ffs.iter().map(|j| format!("{j:.1} J").into());
        table = table.row(std::iter::once(format!("{}, FFS", c.name).into()).chain(joules));
        for (o, (_, name)) in c.outcomes.iter().zip(SYSTEMS).skip(1) {
            let changes = parts(o).into_iter().zip(ffs).map(|(new, old)| percent(new, old).into());
            let name = format!("{}, {name}", c.name).into();
            table = table.row(std::iter::once(name).chain(changes));
        }
        if let Some(p) = c.paper {
            let [read, write, rotation, seek, idle, total] = p.energy.map(|v| format!("{v:+.1} %"));
            let cells = [read, write, rotation, seek, idle, "-".to_owned(), total, "-".to_owned()];
            let name = format!("{}, EEFS in the paper", c.name).into();
            table = table.row(std::iter::once(name).chain(cells.into_iter().map(Into::into)));
        }
    }
    table.note("The paper does not say how long its traces' idle time was taken to be; ours is the whole day's.")
}

fn times(all: &[Compared]) -> Table {
    let mut table = Table::new(
        "Figure 6: response times, and hits of the cache",
        vec![
            Column::text(""),
            column("open"),
            column("read"),
            column("write"),
            column("hits"),
            column("paper: hits"),
            column("spin-downs"),
        ],
    );
    for c in all {
        for (i, (o, (_, name))) in c.outcomes.iter().zip(SYSTEMS).enumerate() {
            let paper = c.paper.and_then(|p| p.hits).and_then(|h| match i {
                0 => Some(h[0]),
                2 => Some(h[1]),
                _ => None,
            });
            table = table.row([
                format!("{}, {name}", c.name).into(),
                format!("{:.3} ms", o.open_ms).into(),
                format!("{:.3} ms", o.read_ms).into(),
                format!("{:.3} ms", o.write_ms).into(),
                format!("{:.1} %", o.hits * 100.0).into(),
                paper.map_or("-".to_owned(), |h| format!("{h:.1} %")).into(),
                o.spin_downs.to_string().into(),
            ]);
        }
    }
    table.note("The paper has up to 21% less for INS and RES, and no numbers. Requests that need no disk take no time here. With --spin-down, shuffles and the group store's commits wait for a sleeping disk; the fast file system's delayed writes, alone or beside the groups, do not.")
}

fn groups(all: &[Compared]) -> Table {
    let names = [
        "shuffles", "before", "after", "stable", "size", "left", "joined", "came", "went",
        "grouped", "used", "in 1 s", "in 5 min",
    ];
    let columns = std::iter::once(Column::text(""));
    let mut table = Table::new(
        "Table 2 and Figure 5: groups",
        columns.chain(names.iter().map(|n| column(n))).collect(),
    );
    for c in all {
        let Some(g) = c.outcomes.iter().find_map(|o| o.grouping) else { continue };
        let share = |v: f64| format!("{:.1} %", v * 100.0);
        table = table.row(
            [
                c.name.clone(),
                g.shuffles.to_string(),
                format!("{:.0}", g.changes[0]),
                format!("{:.0}", g.changes[1]),
                format!("{:.0}", g.changes[2]),
                format!("{:.1}", g.changes[3]),
                share(g.changes[4]),
                share(g.changes[5]),
                g.arrived.to_string(),
                g.returned.to_string(),
                share(g.grouped_opens),
                share(g.used_after_first),
                share(g.at_once),
                share(g.within_five_minutes),
            ]
            .map(Into::into),
        );
        if let Some(p) = c.paper
            && let (Some(t), Some(f)) = (p.groups, p.figure5)
        {
            let dash = || "-".to_owned();
            table = table.row(
                [
                    format!("{}, paper", c.name),
                    dash(),
                    t[0].to_string(),
                    t[1].to_string(),
                    t[2].to_string(),
                    t[3].to_string(),
                    format!("{} %", t[4]),
                    format!("{} %", t[5]),
                    dash(),
                    dash(),
                    "70 to 89 %".to_owned(),
                    dash(),
                    format!("{} %", f[0]),
                    format!("{} %", f[1]),
                ]
                .map(Into::into),
            );
        }
    }
    table.note("Groups before and after a shuffle, in the mean of all. Stable: at most a quarter of the files in either are not in both. Left and joined: of the files in groups; came and went: files moved. Grouped: of all opens. Used: of a group's other files, until the next shuffle. The paper's figures for that may be shares at once and within five minutes.")
}

fn figure(c: &Compared) -> Figure {
    let bars = StackedBars {
        axis: Axis::new("Energy", Unit::Joules),
        parts: ["read", "write", "rotation", "seek"].map(String::from).to_vec(),
        bars: c
            .outcomes
            .iter()
            .zip(SYSTEMS)
            .map(|(o, (_, name))| {
                let e = o.energy;
                Values::new(name, [e.read, e.write, e.rotation, e.seek])
            })
            .collect(),
    };
    Figure::new(format!("Energy of the disk at work: {}", c.name), Basis::Modelled, bars)
        .caption("Without idling, which is nearly the same for all.")
}

fn document(all: &[Compared], depends: &[Depends], scale: f64, seed: u64) -> Value {
    json!({
        "schema": "seekless.reproduce/1",
        "what": "eefs",
        "scale": scale,
        "seed": seed,
        "traces": all.iter().map(|c| json!({
            "name": c.name,
            "outcomes": c.outcomes,
            "paper_disk_requests": c.paper.map(|p| p.requests),
            "paper_energy_percent": c.paper.map(|p| p.energy),
        })).collect::<Vec<_>>(),
        "sensitivity": depends,
    })
}
