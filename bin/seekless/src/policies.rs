//! `seekless policies`: the learner's table of policies and their keys.

use seekless_cli::output;
use seekless_cli::similar_names::did_you_mean;
use seekless_learn::{KEYS, POLICIES, Policy, PolicyEntry, PolicyError, PolicyKey};
use seekless_report::Table;
use serde::Serialize;

/// List the policies of simulate, advise and serve, with their keys and defaults
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless policies
  seekless simulate week.parquet --disk exos-x20 --policy vanilla,adaptive,borg:training=decaying
  seekless serve disk.img --fuse /run/disk --policy adaptive:trail=off")]
pub(crate) struct Args {
    /// As JSON (schema seekless.policies/1)
    #[arg(long)]
    json: bool,
}

/// The list: schema `seekless.policies/1`.
#[derive(Debug, Serialize)]
struct List {
    schema: &'static str,
    policies: Vec<Entry>,
    keys: Vec<Key>,
}

#[derive(Debug, Serialize)]
struct Entry {
    name: &'static str,
    about: &'static str,
    /// A served volume can run it.
    live: bool,
    /// Its keys with their defaults, as `key=value`.
    keys: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Key {
    name: &'static str,
    values: &'static str,
    about: &'static str,
    live: bool,
}

fn with_default(policy: &PolicyEntry, key: PolicyKey) -> String {
    format!("{}={}", key.text(), Policy::new(policy.name).value(key))
}

fn entry(policy: &PolicyEntry) -> Entry {
    Entry {
        name: policy.name.name(),
        about: policy.about,
        live: policy.live,
        keys: policy.keys.iter().map(|&key| with_default(policy, key)).collect(),
    }
}

/// A policy of a command line. A wrong name is answered with the nearest one.
pub(crate) fn policy(text: &str) -> Result<Policy, String> {
    text.parse().map_err(|error: PolicyError| match &error {
        PolicyError::UnknownName(name) => {
            format!("{error}{}", did_you_mean(name, POLICIES.iter().map(|p| p.name.name())))
        }
        _ => error.to_string(),
    })
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let list = List {
        schema: "seekless.policies/1",
        policies: POLICIES.iter().map(entry).collect(),
        keys: KEYS
            .iter()
            .map(|k| Key { name: k.text, values: k.values, about: k.about, live: k.live })
            .collect(),
    };
    if args.json {
        return output::print(&serde_json::to_string_pretty(&list)?);
    }
    let yes = |live: bool| if live { "yes" } else { "" };
    let policies = Table::of("Policies", &list.policies)
        .text("policy", |p| p.name)
        .text("serve", |p| yes(p.live))
        .text("what it does", |p| p.about)
        .text("keys and defaults", |p| p.keys.join(":"))
        .done();
    let keys = Table::of("Keys", &list.keys)
        .text("key", |k| k.name)
        .text("serve", |k| yes(k.live))
        .text("what it decides", |k| k.about)
        .text("values", |k| k.values)
        .done();
    let text = |table: &Table| table.terminal(output::width(), output::colour());
    output::print(&format!(
        "Write a policy as NAME[:key=value:key=value], several with commas between them.\n\n{}\n{}",
        text(&policies),
        text(&keys)
    ))
}
