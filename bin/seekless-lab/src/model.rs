//! `seekless-lab model`: the gain of clustered hot data on a disk, by analysis alone.

use std::path::PathBuf;

use anyhow::Context as _;
use seekless_block::Bytes;
use seekless_disk::Disk;
use seekless_papers::clustering::{Arm, Layout, Light, Order, Point};
use seekless_papers::clustering::{Effort, Loaded};
use seekless_report::{Better, Cell, Column, Table, Unit};
use serde_json::json;

use crate::reproduce::Account;
use seekless_cli::args::size;
use seekless_cli::{disk, output};

/// Compute the gain of clustered hot data on a disk, by analysis alone: seek time, utilization,
/// queues
///
/// Staelin and Garcia-Molina's model (docs/believing/clustering.md). A layout gives the share of
/// accesses to each cylinder: random; perfect (as in their traces, hottest in the middle);
/// normal:SIGMA; concentrated:SHARE (the rest of the disk unused); buckets:N; lazy:SHARE (only the
/// hottest part organized). +drift:SHARE after a layout is the share of accesses to data that
/// drifted to any cylinder. Expected seeks and rotational delays are exact; queues are drawn.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless-lab model
  seekless-lab model --disk wd800jb --layout perfect,lazy:5%,buckets:6+drift:20%
  seekless-lab model --disk nearline --block 4KiB --queue 1,32,256 --json -")]
pub(crate) struct Args {
    /// The disk: a name from `seekless disk list`, or the path of a TOML file
    #[arg(long, default_value = "rz55")]
    disk: String,
    /// Layouts to compare with a random one
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "perfect,perfect+drift:20%,lazy:1%,lazy:8%,buckets:3,buckets:6"
    )]
    layout: Vec<Layout>,
    /// Size of a request
    #[arg(long, value_parser = size, default_value = "2KiB")]
    block: Bytes,
    /// Lengths of the queue, 1 to 300
    #[arg(long, value_delimiter = ',', default_value = "1,10,50,300", value_parser = clap::value_parser!(u32).range(1..=300))]
    queue: Vec<u32>,
    /// Runs of the loaded disk for each point
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Seed of all draws
    #[arg(long, value_name = "N", default_value_t = 1990)]
    seed: u64,
    /// How to count the delay before the first block: from the head's arrival, or half a
    /// revolution, as the paper does
    #[arg(long, value_enum, default_value = "arrival")]
    account: Account,
    /// Write the numbers as JSON (schema seekless.model/1) to FILE, or to standard output with -
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
}

/// A layout's numbers.
struct Row {
    name: String,
    light: Light,
    /// By queue length: in order of arrival, and in order of position.
    loaded: Vec<[Point; 2]>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let spec = disk::named(&args.disk)?;
    let plain = spec.plain_disk().with_context(|| {
        format!(
            "'{}' has no single arm to analyse: choose one of kind disk (seekless disk list)",
            args.disk
        )
    })?;
    let arm = Arm::of(&Disk::new(plain)?);
    let sectors = u32::try_from(args.block.sectors_ceil().0).ok().filter(|s| *s > 0);
    let sectors = sectors
        .with_context(|| format!("--block {}: give at least one sector, 512 bytes", args.block))?;
    let most = args.queue.iter().copied().max().unwrap_or(1);
    let effort = Effort { runs: args.runs, seed: args.seed, start: args.account.into() };
    let loaded = Loaded::new(&arm, sectors, most, effort);
    let layouts = std::iter::once("random".parse::<Layout>().map_err(anyhow::Error::msg)?);
    let bar = output::bar();
    bar.set_length(args.layout.len() as u64 + 1);
    let rows: Vec<Row> = layouts
        .chain(args.layout.iter().copied())
        .map(|layout| {
            bar.set_message(layout.to_string());
            let access = layout.access(arm.cylinders());
            let both =
                |q: u32| [Order::Arrival, Order::Position].map(|o| loaded.point(&access, q, o));
            let row = Row {
                name: layout.to_string(),
                light: arm.light(&access, sectors),
                loaded: args.queue.iter().map(|&q| both(q)).collect(),
            };
            bar.inc(1);
            row
        })
        .collect();
    bar.finish_and_clear();
    if let Some(path) = &args.json {
        output::json(path, &document(args, &arm, &rows))?;
        if output::is_stdout(Some(path)) {
            return Ok(());
        }
    }
    for table in tables(args, &rows) {
        output::print(&table.terminal(output::width(), output::colour()))?;
        output::print("")?;
    }
    output::print(
        "All numbers are modelled: accesses are independent of each other, every cylinder has the mean length.",
    )
}

fn tables(args: &Args, rows: &[Row]) -> [Table; 2] {
    let seconds = |name: &str| Column::number(name, Unit::Seconds).better(Better::Lower);
    let columns = vec![
        Column::text("layout"),
        Column::number("seek distance", Unit::Other("cylinders".into())),
        seconds("seek"),
        seconds("seek from the middle"),
        seconds("rotation"),
        seconds("transfer"),
        Column::number("utilization", Unit::Share).better(Better::Higher),
    ];
    let title = format!("One request of {} at a time, {}", args.block, args.disk);
    let light = rows.iter().fold(Table::new(title, columns), |table, r| {
        let l = &r.light;
        table.row([
            Cell::from(r.name.as_str()),
            Cell::from(l.distance),
            Cell::from(l.seek_ms / 1e3),
            Cell::from(l.from_middle_ms / 1e3),
            Cell::from(l.rotation_ms / 1e3),
            Cell::from(l.transfer_ms / 1e3),
            Cell::from(l.utilization),
        ])
    });
    let mut columns = vec![Column::text("layout")];
    for q in &args.queue {
        for how in ["by arrival", "by position"] {
            let name = format!("queue {q}, {how}");
            columns.push(Column::number(name, Unit::Share).better(Better::Higher));
        }
    }
    let title = "Utilization of a disk with a queue of constant length, requests of a cylinder in either order";
    let loaded = rows.iter().fold(Table::new(title, columns), |table, r| {
        let cells = r.loaded.iter().flatten().map(|p| Cell::from(p.utilization));
        table.row([Cell::from(r.name.as_str())].into_iter().chain(cells))
    });
    [light.baseline(0), loaded.baseline(0)]
}

fn document(args: &Args, arm: &Arm, rows: &[Row]) -> serde_json::Value {
    let point = |p: &Point| {
        json!({ "seek_ms": p.seek_ms, "rotation_ms": p.rotation_ms, "transfer_ms": p.transfer_ms,
                "a_visit": p.a_visit, "utilization": p.utilization, "spread": p.spread })
    };
    let row = |r: &Row| {
        let l = &r.light;
        let loaded: Vec<_> = r
            .loaded
            .iter()
            .map(|[arrival, position]| {
                json!({ "queue": arrival.queue, "by_arrival": point(arrival), "by_position": point(position) })
            })
            .collect();
        json!({ "layout": r.name, "distance_cylinders": l.distance, "seek_ms": l.seek_ms,
                "seek_from_middle_ms": l.from_middle_ms, "rotation_ms": l.rotation_ms,
                "transfer_ms": l.transfer_ms, "utilization": l.utilization, "loaded": loaded })
    };
    json!({
        "schema": "seekless.model/1",
        "disk": args.disk,
        "cylinders": arm.cylinders(),
        "block_bytes": args.block.0,
        "runs": args.runs,
        "seed": args.seed,
        "layouts": rows.iter().map(row).collect::<Vec<_>>(),
    })
}
