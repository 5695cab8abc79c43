//! A server's announcement, status and summary: sentences, a line, and JSON.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use seekless_block::{Bytes, Duration, Energy, PAGE_BYTES, SECTOR_BYTES};
use seekless_compare::States;
use seekless_engine::AttachReport;
use seekless_learn::PolicyName;
use seekless_serve::status::{ElsewhereStatus, OperationStatus};
use seekless_serve::{Address, DiskStats, HostEnd, ServerHandle, ServerStats};
use serde::Serialize;

use super::Args;

/// The path for a process in any folder.
fn anywhere(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The served volume, and the command that attaches it.
pub(super) fn announcement(args: &Args, server: &ServerHandle, end: Option<&HostEnd>) -> String {
    let mut text = String::new();
    let mut tcp = server.tcp_addresses().iter();
    for address in &args.nbd {
        let name = &args.name;
        let _ = match address {
            Address::Unix(path) => {
                let path = anywhere(path);
                let path = path.display();
                writeln!(text, "nbd   nbd+unix:///{name}?socket={path}").and_then(|()| {
                    let name = if name.is_empty() { String::new() } else { format!(" -N {name}") };
                    writeln!(text, "      attach: nbd-client -unix {path} /dev/nbd0{name}")
                })
            }
            Address::Tcp(asked) => {
                let found = tcp.next().map_or_else(|| asked.clone(), ToString::to_string);
                writeln!(text, "nbd   nbd://{found}/{name}").and_then(|()| {
                    writeln!(text, "      attach: qemu -drive file=nbd://{found}/{name},format=raw")
                })
            }
        };
    }
    if let Some(end) = end {
        let path = anywhere(&end.path());
        let path = path.display();
        let read_only = if args.read_only { " -r" } else { "" };
        let _ = match end {
            HostEnd::Device(_) => writeln!(text, "disk  {path}"),
            HostEnd::File(_) => writeln!(
                text,
                "file  {path}\n      attach: losetup -f --show --direct-io=on{read_only} {path}"
            ),
        };
    }
    let missing = end.and_then(HostEnd::missing).map(ToOwned::to_owned);
    for note in server.notes().iter().chain(&missing) {
        let _ = writeln!(text, "note  {note}");
    }
    if let Some(found) = server.attached() {
        let _ = writeln!(text, "{}", attached(found));
    }
    if server.policy().name() != PolicyName::Vanilla {
        let _ = writeln!(text, "policy {}", policy(args, server));
    }
    if let Some((all, pages)) = server.memory() {
        let _ = writeln!(text, "memory {all} at most (--memory), of which {pages} for pages");
    }
    let mode = if args.read_only { ", read-only" } else { "" };
    let _ = write!(text, "serving {} ({}{mode})", args.backing.display(), server.size());
    text
}

/// The policy, why it was chosen, and the size of its trail.
fn policy(args: &Args, server: &ServerHandle) -> String {
    let policy = server.policy();
    let why = match policy.name() {
        _ if args.policy().is_some() => "",
        PolicyName::Borg => ", because the area holds a plan",
        PolicyName::Fs2 => ", because the area is made for replicas",
        _ => ", the default",
    };
    match (policy.name(), server.area()) {
        (PolicyName::Adaptive, area) if area.0 > 0 && policy.trail => {
            format!("{policy}{why}; a trail in {area}")
        }
        (PolicyName::Adaptive, _) => format!("{policy}{why}; no trail"),
        _ => format!("{policy}{why}"),
    }
}

fn attached(found: &AttachReport) -> String {
    let bytes = |pages: u64| Bytes(pages * PAGE_BYTES);
    let mut text = "area  ".to_owned();
    text += match (found.clean, found.trusted) {
        (true, true) => "detached in order, and its copies are good",
        (true, false) => "detached in order; another program may have written home since then",
        (false, _) => "recovered: it was not detached in order",
    };
    let _ = write!(text, "; copies of {}", bytes(found.copies));
    if found.suspects > 0 {
        let _ = write!(text, ", {} more to be compared with home", bytes(found.suspects));
    }
    if found.dirty > 0 {
        let _ = write!(text, ", {} of newest data only in the area", bytes(found.dirty));
    }
    if found.incomplete > 0 {
        let _ = write!(
            text,
            "; the area lacks some of the newest bytes of {}: normal after a crash for writes without a flush, otherwise the area is damaged (before a start, `seekless volume check` names these pages)",
            bytes(found.incomplete)
        );
    }
    if found.missing {
        text += "; a record of the log is missing although a later one exists: normal after a crash for writes without a flush, otherwise the area is damaged";
    }
    text
}

pub(super) fn status(stats: &ServerStats) -> String {
    let e = &stats.engine;
    let mut line = format!(
        "{} requests | {} RAM hits, {} reads from copies, {} from home | copies of {}",
        e.requests,
        e.cache_hits,
        e.copy_reads,
        e.home_reads,
        Bytes(stats.copied_sectors * SECTOR_BYTES),
    );
    if let Some(p) = stats.progress {
        let share = 100 * p.done.0 / p.total.0.max(1);
        let _ = write!(line, ", moving: {share} %");
    }
    if let Some(d) = &stats.disk {
        let (busy, elapsed) = (d.busy.as_secs_f64(), d.elapsed.as_secs_f64());
        let _ = write!(line, " | disk busy {busy:.1} of {elapsed:.1} s");
    }
    if stats.clients > 0 {
        let _ = write!(line, " | NBD clients: {}", stats.clients);
    }
    line
}

/// The work done.
pub(super) fn summary(stats: &ServerStats, operations: Option<OperationStatus>) -> String {
    let e = &stats.engine;
    let mut text = format!(
        "stopped after {} requests: {} reads answered from RAM, {} from copies, {} from home; {} moved",
        e.requests,
        e.cache_hits,
        e.copy_reads,
        e.home_reads,
        Bytes(e.moved_bytes),
    );
    if stats.unobserved > 0 {
        let _ = write!(
            text,
            "\nnot learned, because the learner was too slow: {} requests",
            stats.unobserved
        );
    }
    if let Some(c) = stats.elsewhere {
        let _ = write!(
            text,
            "\nthe server of home answered {} reads and {} changes; connected again {} times, {} requests sent again, {:.1} s without a connection",
            c.reads, c.changes, c.reconnects, c.sent_again, c.away_s,
        );
    }
    text += &stats.disk.as_ref().map_or_else(String::new, of_the_disk);
    if let Some(operations) = operations {
        let _ = write!(text, "\n{operations}");
    }
    text
}

fn of_the_disk(d: &DiskStats) -> String {
    let mut text = String::new();
    let _ = write!(
        text,
        "\nthe disk was busy {:.1} s of {:.1} s: seek {:.1}, rotation {:.1}, transfer {:.1}; {:.0} J, {:.3} J an I/O",
        d.busy.as_secs_f64(),
        d.elapsed.as_secs_f64(),
        d.seek.as_secs_f64(),
        d.rotation.as_secs_f64(),
        d.transfer.as_secs_f64(),
        d.energy_total().as_joules_f64(),
        d.energy_total().as_joules_f64() / d.ios.max(1) as f64,
    );
    let us = |late: std::time::Duration| late.as_secs_f64() * 1e6;
    let _ = write!(
        text,
        "\nthe answers came later than the model computes: {:.0} us in the median, {:.0} us at p99, {:.0} us at most",
        us(d.lateness.median),
        us(d.lateness.p99),
        us(d.lateness.max),
    );
    if d.usage.spin_downs > 0 {
        let _ = write!(
            text,
            "\nthe platters stopped {} times and stood still for {:.1} s; spinning up took {:.1} s",
            d.usage.spin_downs,
            d.usage.time.standby.as_secs_f64(),
            d.usage.time.spin_up.as_secs_f64(),
        );
    }
    text
}

/// Schema `seekless.serve/1`: counts since the start.
#[derive(Serialize)]
struct ServeCounts<'a> {
    schema: &'static str,
    backing: &'a str,
    requests: u64,
    cache_hits: u64,
    copy_reads: u64,
    home_reads: u64,
    moved_bytes: u64,
    overtaken_sectors: u64,
    plans_refused: u64,
    copied_sectors: u64,
    /// Under the policy adaptive: pages read before a client asked for them, and those used.
    prefetched_pages: u64,
    prefetch_used_pages: u64,
    unobserved_requests: u64,
    /// Of a home on another server.
    elsewhere: Option<ElsewhereStatus>,
    /// At a provider, modelled, beside the vanilla system's.
    operations: Option<OperationStatus>,
    disk: Option<DiskCounts<'a>>,
}

#[derive(Serialize)]
struct DiskCounts<'a> {
    name: &'a str,
    device_ios: u64,
    elapsed_s: f64,
    busy_s: f64,
    background_busy_s: f64,
    seek_s: f64,
    rotation_s: f64,
    transfer_s: f64,
    energy_j: f64,
    /// Delay of the answers against the modelled disk, in real time.
    late_median_s: f64,
    late_p99_s: f64,
    late_max_s: f64,
    /// Energy of an I/O.
    j_per_op: f64,
    /// Energy by state, in joules, and time by state, in seconds.
    energy_by_state_j: States,
    state_s: States,
    spin_downs: u64,
}

pub(super) fn json(
    args: &Args,
    stats: &ServerStats,
    operations: Option<OperationStatus>,
) -> anyhow::Result<String> {
    let e = &stats.engine;
    let name = args.disk.as_ref().map_or("", |d| &d.name);
    let backing = args.backing.to_string_lossy();
    let counts = ServeCounts {
        schema: "seekless.serve/1",
        backing: &backing,
        requests: e.requests,
        cache_hits: e.cache_hits,
        copy_reads: e.copy_reads,
        home_reads: e.home_reads,
        moved_bytes: e.moved_bytes,
        overtaken_sectors: e.overtaken,
        plans_refused: e.plans_refused,
        copied_sectors: stats.copied_sectors,
        prefetched_pages: e.prefetched,
        prefetch_used_pages: e.prefetch_used,
        unobserved_requests: stats.unobserved,
        elsewhere: stats.elsewhere,
        operations,
        disk: stats.disk.as_ref().map(|d| disk_counts(name, d)),
    };
    Ok(serde_json::to_string_pretty(&counts)?)
}

fn disk_counts<'a>(name: &'a str, d: &DiskStats) -> DiskCounts<'a> {
    DiskCounts {
        name,
        device_ios: d.ios,
        elapsed_s: d.elapsed.as_secs_f64(),
        busy_s: d.busy.as_secs_f64(),
        background_busy_s: d.background_busy.as_secs_f64(),
        seek_s: d.seek.as_secs_f64(),
        rotation_s: d.rotation.as_secs_f64(),
        transfer_s: d.transfer.as_secs_f64(),
        energy_j: d.energy_total().as_joules_f64(),
        late_median_s: d.lateness.median.as_secs_f64(),
        late_p99_s: d.lateness.p99.as_secs_f64(),
        late_max_s: d.lateness.max.as_secs_f64(),
        j_per_op: d.energy_total().as_joules_f64() / d.ios.max(1) as f64,
        energy_by_state_j: d.usage.energy.map(Energy::as_joules_f64),
        state_s: d.usage.time.map(Duration::as_secs_f64),
        spin_downs: d.usage.spin_downs,
    }
}
