//! Verbs that speak to a running server, or do without one: how a volume stands, where its writes go, a new plan,
//! everything home.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use seekless_block::{Bytes, PAGE_SECTORS, Sectors};
use seekless_engine::format::State;
use seekless_engine::{Mode, examine};
use seekless_serve::{Address, Backing, Builder, ServerHandle, area};
use serde_json::Value;

use super::{ReplicaState, VOLUME_SCHEMA, VolumeArgs, VolumeState, mode_name, mode_of, server_of};
use seekless_cli::ask::{ask, command};
use seekless_cli::output;

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// What has not moved for so long is stuck.
const STUCK: Duration = Duration::from_secs(20);

/// How a volume stands: its mode, what is dirty, what moves, what failed
///
/// Asks the server that has it; of a volume that is not served, looks into its area, and writes nothing.
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

/// Have a running server make a new plan of what it has learned, and move to it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless volume replan /dev/sdb")]
pub(crate) struct ReplanArgs {
    /// The file or block device that is served
    backing: PathBuf,
}

/// Write everything home that stands in the area alone, and absorb nothing more
///
/// Of a served volume or one that is not. Afterwards the backing is complete by itself; of a volume with its
/// area beside it, it can be used without seekless. A served volume absorbs again after `seekless volume mode writeback`.
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

/// Change where writes go: home at once, or into the write buffer first
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

/// Drain, then end the server, if there is one, with the area in order
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless volume detach /dev/sdb")]
pub(crate) struct DetachArgs {
    #[command(flatten)]
    volume: VolumeArgs,
    /// The backing may have another name than when its area was made
    #[arg(long)]
    moved: bool,
}

pub(crate) fn status(args: &StatusArgs) -> anyhow::Result<()> {
    let state = match server_of(&args.volume.backing)? {
        Some(server) => ask(&server, None, "/state")?,
        None => look(&args.volume)?,
    };
    if args.json {
        return output::print(&serde_json::to_string_pretty(&state)?);
    }
    output::print(&words(&state))
}

/// Of a volume that nobody serves.
fn look(volume: &VolumeArgs) -> anyhow::Result<VolumeState> {
    let mut lasting = area::open(&volume.backing, volume.area.as_deref(), false)?;
    let found = examine(lasting.area())
        .with_context(|| format!("{}: cannot be attached as it is", lasting.place().display()))?;
    let s = found.superblock();
    let guard = lasting.is_guarded();
    // What is wrong with it keeps the volume from being served.
    let guarded = *guard.as_ref().unwrap_or(&true);
    let mut pages = [0u64; 2];
    let mut usable = 0;
    for (.., state, _) in found.copies() {
        match state {
            State::Dirty => pages[0] += 1,
            State::Suspect => pages[1] += 1,
            State::Clean => usable += 1,
            State::Free => {}
        }
    }
    let bytes = |pages: u64| Sectors(pages * PAGE_SECTORS).bytes().0;
    Ok(VolumeState {
        schema: VOLUME_SCHEMA.to_owned(),
        backing: volume.backing.display().to_string(),
        served: false,
        lasting: true,
        size_bytes: s.home_capacity.bytes().0,
        area_bytes: s.area_size.bytes().0,
        mode: mode_name(s.mode).to_owned(),
        dirty_bytes: bytes(pages[0]),
        in_doubt_bytes: bytes(pages[1]),
        copied_bytes: bytes(usable + pages[0]),
        drained: pages[0] == 0 && s.mode == Mode::WriteThrough && found.is_clean() && !guarded,
        guarded,
        moving_bytes: None,
        moved_bytes: 0,
        replicas: (s.free_map_pages > 0).then(|| {
            let (free, stained) = found.free();
            let room = u64::from(s.read_segments) * u64::from(s.segment_pages - 1);
            ReplicaState {
                room_bytes: bytes(room),
                home_bytes: s.home_capacity.bytes().0,
                free_bytes: free.bytes().0,
                spare_bytes: free.bytes().0.saturating_sub(bytes(usable + pages[1])),
                stained_bytes: stained.bytes().0,
                ..ReplicaState::default()
            }
        }),
        requests: 0,
        nbd_clients: 0,
        damaged_pages: 0,
        trouble: None,
        last_failure: guard.err(),
    })
}

fn words(s: &VolumeState) -> String {
    let served = if s.served { "served" } else { "not served" };
    let lasting = if s.lasting { "" } else { ", gone when the server ends" };
    let mut text = format!(
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
            "nothing at the moment".to_owned()
        },
        Bytes(s.copied_bytes),
    );
    if s.guarded {
        text +=
            "\nguard    up: the bare disk cannot be mounted; `seekless volume drain` takes it down";
    }
    if s.in_doubt_bytes > 0 {
        text += &format!(", and {} to be compared with home", Bytes(s.in_doubt_bytes));
    }
    if let Some((done, all)) = s.moving_bytes {
        text += &format!("\nmoving   {} of {}", Bytes(done), Bytes(all));
    }
    if let Some(r) = &s.replicas {
        let percent = |part: u64| part as f64 * 100.0 / r.home_bytes.max(1) as f64;
        text += &format!(
            "\nreplicas in discarded pages, {} at most; {:.1}% of the volume is discarded, {:.1}% spare",
            Bytes(r.room_bytes),
            percent(r.free_bytes),
            percent(r.spare_bytes),
        );
        if r.suspended {
            text += ": below 10% nothing is replicated, until 15% are";
        }
        if r.stained_bytes > 0 {
            text += &format!(
                "\nstained  {}: `seekless volume drain` zeroes them",
                Bytes(r.stained_bytes)
            );
        }
    }
    if s.served {
        text += &format!("\nrequests {}, NBD clients {}", s.requests, s.nbd_clients);
    }
    if s.damaged_pages > 0 {
        text += &format!(
            "\ndamaged  {} pages of the area did not match their checksums; run `seekless volume check --data`",
            s.damaged_pages
        );
    }
    if let Some(trouble) = &s.trouble {
        text += &format!("\nstuck    {trouble}");
    }
    if let Some(failure) = &s.last_failure {
        text += &format!("\nfailed   {failure}");
    }
    text
}

/// Why a volume does not go on, behind the words that it does not.
fn why(state: &VolumeState) -> String {
    let mut why = String::new();
    if let Some(trouble) = &state.trouble {
        why += &format!(": {trouble}");
    }
    if let Some(failure) = &state.last_failure {
        why += &format!("; the last failure was {failure}");
    }
    if state.damaged_pages > 0 {
        why += &format!(
            "; {} pages of the area are damaged: stop the server, run `seekless volume check --data` and `seekless volume repair`",
            state.damaged_pages
        );
    }
    why
}

fn served(backing: &Path) -> anyhow::Result<Address> {
    server_of(backing)?.with_context(|| {
        format!("{}: nobody serves it, as far as this user can see", backing.display())
    })
}

pub(crate) fn replan(args: &ReplanArgs) -> anyhow::Result<()> {
    let _: Value = command(&served(&args.backing)?, "/replan")?;
    output::print("a new plan is being made; `seekless volume status` shows the move to it")
}

/// A volume that nobody serves, opened to be changed.
fn opened(volume: &VolumeArgs, moved: bool) -> anyhow::Result<ServerHandle> {
    let backing = Backing::Path(volume.backing.clone());
    let mut builder = Builder::new(backing).moved(moved).to_drain(true);
    if let Some(area) = &volume.area {
        builder = builder.area_path(area.clone());
    }
    let server = builder.spawn()?;
    ensure!(
        server.attached().is_some(),
        "{}: no area lies within it: name the one that was made for it with --area",
        volume.backing.display()
    );
    Ok(server)
}

/// Either a server that runs, or a volume opened here.
enum Reached {
    Server(Address),
    Here(Box<ServerHandle>),
}

impl Reached {
    fn new(volume: &VolumeArgs, moved: bool) -> anyhow::Result<Self> {
        Ok(match server_of(&volume.backing)? {
            Some(address) => Self::Server(address),
            None => Self::Here(Box::new(opened(volume, moved)?)),
        })
    }

    fn state(&self, backing: &Path) -> anyhow::Result<VolumeState> {
        match self {
            Self::Server(address) => ask(address, None, "/state"),
            Self::Here(server) => {
                Ok(VolumeState::of(backing, (server.size(), server.area()), &server.stats()?))
            }
        }
    }

    /// Waits until everything is at home, and says how far it is; replicas may stay where `replicas`.
    fn drained(&self, backing: &Path, replicas: bool) -> anyhow::Result<()> {
        let bar = output::bar();
        let (mut least, mut since) = (u64::MAX, Instant::now());
        loop {
            let state = self.state(backing)?;
            let stained = state.replicas.map_or(0, |r| r.stained_bytes);
            let left = state.dirty_bytes + if replicas { 0 } else { stained };
            if state.drained || replicas && state.replicas.is_some() && left == 0 {
                bar.finish_and_clear();
                return Ok(());
            }
            if left < least {
                (least, since) = (left, Instant::now());
            }
            bar.set_message(format!("{} left to be written home", Bytes(left)));
            if since.elapsed() > STUCK {
                bar.finish_and_clear();
                bail!(
                    "cannot go on: {} have not become less for {STUCK:?}{}. The area still has them",
                    Bytes(left),
                    why(&state)
                );
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

pub(crate) fn drain(args: &DrainArgs) -> anyhow::Result<()> {
    let backing = &args.volume.backing;
    let reached = Reached::new(&args.volume, args.moved)?;
    match &reached {
        Reached::Server(address) => drop(command::<Value>(address, "/drain")?),
        Reached::Here(server) => server.drain()?,
    }
    reached.drained(backing, false)?;
    if let Reached::Here(server) = reached {
        server.stop()?;
    }
    output::print("drained: everything is at home")
}

pub(crate) fn mode(args: &ModeArgs) -> anyhow::Result<()> {
    let backing = &args.volume.backing;
    let reached = Reached::new(&args.volume, args.moved)?;
    let name = mode_name(args.mode);
    match &reached {
        Reached::Server(address) => drop(command::<Value>(address, &format!("/mode/{name}"))?),
        Reached::Here(server) => server.set_mode(args.mode)?,
    }
    if args.mode == Mode::WriteThrough {
        reached.drained(backing, true)?;
    }
    let start = Instant::now();
    loop {
        let state = reached.state(backing)?;
        if state.mode == name {
            break;
        }
        ensure!(
            start.elapsed() < STUCK,
            "the guard of the disk and the area's superblock could not be written for {STUCK:?}{}",
            why(&state)
        );
        std::thread::sleep(LOOK_EVERY);
    }
    if let Reached::Here(server) = reached {
        server.stop()?;
    }
    output::print(&format!("{}: {name}", backing.display()))
}

pub(crate) fn detach(args: &DetachArgs) -> anyhow::Result<()> {
    let backing = &args.volume.backing;
    let reached = Reached::new(&args.volume, args.moved)?;
    match &reached {
        Reached::Server(address) => drop(command::<Value>(address, "/drain")?),
        Reached::Here(server) => server.drain()?,
    }
    reached.drained(backing, false)?;
    match reached {
        Reached::Here(server) => {
            server.stop()?;
        }
        Reached::Server(address) => {
            let _: Value = command(&address, "/stop")?;
            let start = Instant::now();
            while server_of(backing)?.is_some() {
                if start.elapsed() > Duration::from_secs(60) {
                    let state = ask(&address, None, "/state").ok();
                    let why = state.filter(|s: &VolumeState| s.trouble.is_some()).map_or_else(
                        || ": something still uses what it mounts".to_owned(),
                        |state| why(&state),
                    );
                    bail!("drained, but the server has not ended{why}");
                }
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }
    output::print("detached: everything is at home, and nobody serves it")
}

#[cfg(test)]
mod tests {
    use seekless_engine::Trouble;

    use super::*;

    #[test]
    fn a_volume_that_does_not_go_on_says_why() {
        let mut state = VolumeState {
            replicas: None,
            schema: VOLUME_SCHEMA.to_owned(),
            backing: "disk.img".to_owned(),
            served: true,
            lasting: true,
            size_bytes: 1 << 30,
            area_bytes: 1 << 20,
            mode: mode_name(Mode::WriteBack).to_owned(),
            dirty_bytes: 4096,
            in_doubt_bytes: 0,
            copied_bytes: 4096,
            drained: false,
            guarded: false,
            moving_bytes: None,
            moved_bytes: 0,
            requests: 1,
            nbd_clients: 1,
            damaged_pages: 0,
            trouble: None,
            last_failure: None,
        };
        assert!(!words(&state).contains("stuck") && why(&state).is_empty());
        state.trouble = Some(Trouble::Home.to_string());
        state.last_failure = Some("write of home at 8+8: eio".to_owned());
        for text in [words(&state), why(&state)] {
            assert!(text.contains("home cannot be written") && text.contains("eio"), "{text}");
        }
    }
}
