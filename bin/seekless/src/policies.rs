//! `seekless policies`: the policies and their keys, from the one table.

use seekless_cli::output;
use seekless_learn::{KEYS, POLICIES, Policy};
use seekless_report::{Cell, Column, Table};

/// List the policies that simulate, advise and serve take, and their settings
///
/// A policy is written NAME[:key=value:key=value]; commas separate policies in a list.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless simulate week.blkparse.gz --disk wd800jb --policy vanilla,borg:planning=anew,fs2
  seekless advise trace.parquet --disk exos-x20 --policy borg:training=decaying,judged
  seekless serve disk.img --nbd unix:/tmp/disk.sock --policy judged:allowance=20")]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> anyhow::Result<()> {
    for table in [policies(), keys()] {
        output::print(&table.terminal(output::width(), output::colour()))?;
    }
    Ok(())
}

/// Whether a served volume takes it.
fn place(live: bool) -> &'static str {
    if live { "yes" } else { "" }
}

fn policies() -> Table {
    let columns = ["policy", "served", "what it does", "keys"].map(Column::text).to_vec();
    let mut table = Table::new("Policies", columns);
    for entry in POLICIES {
        let keys: Vec<&str> = entry.keys.iter().map(|k| k.text()).collect();
        table = table.row([
            Cell::from(entry.name.text()),
            Cell::from(place(entry.live)),
            Cell::from(entry.about),
            Cell::from(keys.join(", ").as_str()),
        ]);
    }
    table.note("served: `seekless serve` takes it, too")
}

fn keys() -> Table {
    let columns = ["key", "served", "values", "default", "what it decides"].map(Column::text);
    let mut table = Table::new("Keys", columns.to_vec());
    for entry in KEYS {
        let takes = POLICIES.iter().filter(|p| p.keys.contains(&entry.key));
        let mut defaults: Vec<String> =
            takes.map(|p| Policy::new(p.name).value(entry.key)).collect();
        defaults.dedup();
        table = table.row([
            Cell::from(entry.text),
            Cell::from(place(entry.live)),
            Cell::from(entry.values),
            Cell::from(defaults.join(", ").as_str()),
            Cell::from(entry.about),
        ]);
    }
    table.note("where defaults differ, they are those of the policies in their order")
}
