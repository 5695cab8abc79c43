//! `seekless volume status`, `replan`, `mode`, `drain` and `detach`.

use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use seekless_block::Bytes;
use seekless_cli::output;
use seekless_engine::Mode;
use seekless_serve::control::{
    Administered, ReplicaState, VolumeState, mode_name, mode_of, state_of,
};
use seekless_serve::status::{AdaptiveStatus, ElsewhereStatus, MemoryStatus, ScrubStatus};

use super::VolumeArgs;

/// Show the state of a volume: its mode, dirty data, moves, failures
///
/// Asks the server of the volume. If the volume is not served, reads its area, and writes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless volume status /dev/sdb
  seekless volume status disk.img --area disk.area --json | jq .dirty_bytes")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    volume: VolumeArgs,
    /// As JSON (schema seekless.volume/1)
    #[arg(long)]
    json: bool,
}

/// Let a running server make a new plan from its learned data, and move to the plan
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless volume replan /dev/sdb")]
pub(crate) struct ReplanArgs {
    /// The served file or block device
    backing: PathBuf,
}

/// Write all newest data home, and absorb no more writes
///
/// The volume may be served or not. Afterwards the backing alone is complete: if the area is beside
/// it, the backing can be used without seekless. A served volume absorbs writes again after
/// `seekless volume mode writeback`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless volume drain /dev/sdb
  seekless volume drain disk.img --area disk.area")]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    volume: VolumeArgs,
    /// The backing may have another name than when its area was made
    #[arg(long)]
    moved: bool,
}

/// Change the destination of writes: home at once, or the write buffer first
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless volume mode writeback /dev/sdb
  seekless volume mode writethrough disk.img --area disk.area")]
pub(crate) struct ModeArgs {
    /// writethrough or writeback
    #[arg(value_parser = mode_of)]
    mode: Mode,
    #[command(flatten)]
    volume: VolumeArgs,
    /// The backing may have another name than when its area was made
    #[arg(long)]
    moved: bool,
}

/// Wait until every copy in doubt was compared with its home, and report
///
/// After a crash, a clean copy serves no read before seekless has compared it with its home. A server
/// does so beside its clients; this command waits for the end. A volume without a server is attached
/// meanwhile: then nothing is left to compare when it is served.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless volume prove /dev/sdb
  seekless volume prove disk.img --area disk.area")]
pub(crate) struct ProveArgs {
    #[command(flatten)]
    volume: VolumeArgs,
    /// The backing may have another name than when its area was made
    #[arg(long)]
    moved: bool,
}

/// Drain the volume, then end its server, if there is one
///
/// Refused while the volume is in use on this host: the message names the mounts, the loop device and
/// the processes, and the commands that free the volume. Nothing changes then.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless volume detach /dev/sdb")]
pub(crate) struct DetachArgs {
    #[command(flatten)]
    volume: VolumeArgs,
    /// Also while file systems are mounted from it: they lose what they have not written yet
    #[arg(long)]
    force: bool,
    /// The backing may have another name than when its area was made
    #[arg(long)]
    moved: bool,
}

pub(crate) fn status(args: &StatusArgs) -> anyhow::Result<()> {
    let state = state_of(&args.volume.backing, args.volume.area.as_deref())?;
    if args.json {
        return output::print(&serde_json::to_string_pretty(&state)?);
    }
    output::print(&words(&state))
}

fn words(s: &VolumeState) -> String {
    let served = if s.served { "served" } else { "not served" };
    let lasting = if s.lasting { "" } else { ", gone when the server ends" };
    let verdict = s.verdict.as_ref().map_or_else(String::new, |v| format!("verdict  {}\n", v.text));
    let mut text = verdict
        + &format!(
            "volume   {} ({}), {served}\narea     {}{lasting}\nmode     {}\ndirty    {}\ncopies   {}",
            s.backing,
            Bytes(s.size_bytes),
            Bytes(s.area_bytes),
            s.mode,
            if s.dirty_bytes > 0 {
                format!("{} in the area alone", Bytes(s.dirty_bytes))
            } else if s.drained {
                "nothing; everything is at home".to_owned()
            } else {
                "nothing now".to_owned()
            },
            Bytes(s.copied_bytes),
        );
    if s.in_doubt_bytes > 0 {
        text += &format!(", and {} to be compared with home", Bytes(s.in_doubt_bytes));
    }
    if s.guarded {
        text +=
            "\nguard    up: the bare disk cannot be mounted; `seekless volume drain` takes it down";
    }
    if let Some((done, all)) = s.moving_bytes {
        text += &format!("\nmoving   {} of {}", Bytes(done), Bytes(all));
    }
    text += &s.adaptive.as_ref().map_or_else(String::new, adaptive);
    text += &s.replicas.as_ref().map_or_else(String::new, replicas);
    if s.served {
        text += &format!("\nrequests {}, NBD clients {}", s.requests, s.nbd_clients);
    }
    if s.damaged_pages > 0 {
        text += &format!(
            "\ndamaged  {} pages of the area did not match their checksums; run `seekless volume check --data`",
            s.damaged_pages
        );
    }
    text += &s.scrub.as_ref().map_or_else(String::new, scrub);
    text += &s.elsewhere.as_ref().map_or_else(String::new, elsewhere);
    text += &s.memory.as_ref().map_or_else(String::new, memory);
    text += &s.operations.map_or_else(String::new, |o| format!("\nprovider {o}"));
    if s.fell_back {
        text += "\nfailing  the area: writes go home since an I/O of it failed; `seekless volume mode` sets write-back again";
    }
    if let Some(trouble) = &s.trouble {
        text += &format!("\nstuck    {trouble}");
    }
    if let Some(failure) = &s.last_failure {
        text += &format!("\nfailed   {failure}");
    }
    text
}

fn scrub(s: &ScrubStatus) -> String {
    let when = match s.last_end_unix_ms.map(|ms| UNIX_EPOCH + Duration::from_millis(ms)) {
        Some(end) => {
            let hours = end.elapsed().unwrap_or_default().as_secs_f64() / 3600.0;
            format!("last pass ended {hours:.1} hours ago")
        }
        None => "no pass has ended yet".to_owned(),
    };
    let now = if s.running { ", one is running" } else { "" };
    let mut text =
        format!("\nscrub    {when}{now}; {} pages compared, {} damaged", s.pages, s.damaged_pages);
    if s.lost_pages > 0 {
        text += &format!(
            "\nLOST     {} damaged pages have no other copy: reads of them fail until they are written; stop the server, run `seekless volume check --data` and `seekless volume repair`",
            s.lost_pages
        );
    }
    text
}

fn elsewhere(e: &ElsewhereStatus) -> String {
    format!(
        "\nhome     {}: {} reads, {} changes; connected again {} times, {} requests sent again, {:.1} s without a connection",
        if e.connected { "on another server" } else { "NOT CONNECTED to its server" },
        e.reads,
        e.changes,
        e.reconnects,
        e.sent_again,
        e.away_s,
    )
}

fn memory(m: &MemoryStatus) -> String {
    let most = m.most_bytes.map_or_else(String::new, |b| format!("{} at most, ", Bytes(b)));
    let mut text = format!(
        "\nmemory   {most}{} for pages, {} in buffers now",
        Bytes(m.pages_bytes),
        Bytes(m.buffers_bytes)
    );
    if m.waiting_clients > 0 {
        text += &format!("; {} clients wait for more", m.waiting_clients);
    }
    text
}

fn adaptive(a: &AdaptiveStatus) -> String {
    let mut text = format!(
        "\nadaptive {} pages read ahead, {} used, {} not; ",
        a.prefetched_pages, a.prefetch_used_pages, a.prefetch_unused_pages
    );
    text += &match a.trail_bytes {
        0 => "no trail".to_owned(),
        all => format!("the trail is at {} of {}", Bytes(a.trail_position_bytes), Bytes(all)),
    };
    if let Some(g) = a.guard {
        text += &format!(
            "\ntoday    disk time {:.1} s, of the vanilla system {:.1} s; worst excess {:.1} s",
            g.actual_today_s, g.vanilla_today_s, g.worst_excess_s
        );
    }
    text + &format!("\n         {}", a.guard_note)
}

fn replicas(r: &ReplicaState) -> String {
    let percent = |part: u64| part as f64 * 100.0 / r.home_bytes.max(1) as f64;
    let mut text = format!(
        "\nreplicas in discarded pages, {} at most; {:.1}% of the volume is discarded, {:.1}% spare",
        Bytes(r.room_bytes),
        percent(r.free_bytes),
        percent(r.spare_bytes),
    );
    if r.suspended {
        text += ": below 10% nothing is replicated, until 15% are";
    }
    if r.stained_bytes > 0 {
        let stained = Bytes(r.stained_bytes);
        text += &format!("\nstained  {stained}: `seekless volume drain` zeroes them");
    }
    text
}

pub(crate) fn replan(args: &ReplanArgs) -> anyhow::Result<()> {
    Administered::served(&args.backing)?.replan()?;
    output::print("a new plan is being made; `seekless volume status` shows the move to it")
}

fn reached(volume: &VolumeArgs, moved: bool) -> anyhow::Result<Administered> {
    Ok(Administered::reach(&volume.backing, volume.area.as_deref(), moved)?)
}

/// Runs a command with a progress bar that shows the bytes left, and what is done with them.
fn with_bar<T, E>(
    what: &str,
    command: impl FnOnce(&mut dyn FnMut(Bytes)) -> Result<T, E>,
) -> Result<T, E> {
    let bar = output::bar();
    let result = command(&mut |left| bar.set_message(format!("{left} left to be {what}")));
    bar.finish_and_clear();
    result
}

pub(crate) fn drain(args: &DrainArgs) -> anyhow::Result<()> {
    let volume = reached(&args.volume, args.moved)?;
    with_bar("written home", |left| volume.drain(left))?;
    output::print("drained: everything is at home")
}

pub(crate) fn mode(args: &ModeArgs) -> anyhow::Result<()> {
    let volume = reached(&args.volume, args.moved)?;
    with_bar("written home", |left| volume.set_mode(args.mode, left))?;
    output::print(&format!("{}: {}", args.volume.backing.display(), mode_name(args.mode)))
}

pub(crate) fn prove(args: &ProveArgs) -> anyhow::Result<()> {
    let volume = reached(&args.volume, args.moved)?;
    let proven = with_bar("compared with home", |left| volume.prove(left))?;
    if proven.doubted == Bytes(0) {
        return output::print("no copy was in doubt");
    }
    let dropped = Bytes(proven.doubted.0.saturating_sub(proven.usable.0));
    output::print(&format!(
        "proven: {} of {} in {:.1} s; {dropped} were dropped: home is newer, or a client wrote there",
        proven.usable,
        proven.doubted,
        proven.took.as_secs_f64()
    ))
}

pub(crate) fn detach(args: &DetachArgs) -> anyhow::Result<()> {
    let volume = reached(&args.volume, args.moved)?;
    let cut_off = with_bar("written home", |left| volume.detach(args.force, left))?;
    if !cut_off.is_empty() {
        output::say(&format!(
            "cut off: {cut_off}. Data that these had not written yet is lost: check the file system before its next use"
        ));
    }
    output::print("detached: everything is at home, and nobody serves it")
}
