//! `seekless serve`: sets up a volume from arguments, prints its status, and ends it in order on a
//! signal.

mod access;
mod backing;
mod disk;
mod planning;
mod report;
mod reported;
pub(crate) mod watching;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::Parser as _;
use indicatif::ProgressBar;
use seekless_block::{Bytes, Toll};
use seekless_disk::{Device, Scheduler, SpinDown};
use seekless_host::notify::{self, Manager};
use seekless_host::pressure;
use seekless_learn::{Policy, PolicyName};
use seekless_serve::control::{self, MainThread};
use seekless_serve::status::OperationStatus;
use seekless_serve::{
    Address, Backing, Builder, Emulation, Ending, HostEnd, Learning, MemoryFile, MountPoint, Say,
    ServeError, ServerHandle, ServerStats, StopReply, UblkPoint, on_one_disk,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};

pub(crate) use access::AccessArgs;
pub(crate) use disk::Emulated;
use planning::Planning;
use reported::Reported;
use seekless_cli::args::{duration, number, size};
use seekless_cli::output;
use seekless_cli::signals::on_signal;
use watching::HttpArgs;

/// Interval at which the status line is renewed, and a failed server is noticed.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Interval between attempts to unmount.
const TRY_EVERY: Duration = Duration::from_millis(200);

/// Serve a disk image or block device, learn from its use, and keep copies of used data
#[derive(Debug, clap::Args)]
#[command(after_help = "\
SIGINT, SIGTERM and SIGHUP stop the server: all writes are durable then, and the area is saved.
The server refuses to stop while the volume is mounted, or a program has the volume open. SIGUSR1
makes a plan now (not under adaptive). Without a formatted area, copies are in a temporary file.

Examples:
  # A new disk over a unix socket; then, from another terminal
  seekless serve disk.img --size 10GiB --nbd unix:disk.sock
  nbd-client -unix disk.sock /dev/nbd0

  # A block device, /dev/ublkb0, that outlives its server (Linux 6.5 or later)
  seekless serve disk.img --ublk 0

  # A blank disk with a lasting area, as a file; then: losetup -f --show --direct-io=on /run/disk
  seekless volume format /dev/sdb
  seekless serve /dev/sdb --fuse /run/disk

  # A live page, and the same in a terminal
  seekless serve disk.img --nbd unix:disk.sock --http 9713 --model wd800jb
  seekless top 9713

  # A disk on another server (Ceph, S3 or iSCSI behind nbdkit or qemu-nbd), and a trail here
  seekless serve nbd://storage:10809/vm1 --area-dir /var/tmp --nbd unix:disk.sock

  # An old disk at its own speed
  seekless serve disk.img --disk wd800jb --nbd tcp:localhost:10809")]
pub(crate) struct Args {
    /// The file or block device to serve, or another server's disk: nbd://HOST[:PORT]/[EXPORT] or
    /// nbd+unix:///[EXPORT]?socket=PATH; with TLS nbds:// or nbds+unix://
    pub(crate) backing: PathBuf,
    /// Make the backing as a sparse file of this size, if it does not exist
    #[arg(long, value_parser = size)]
    pub(crate) size: Option<Bytes>,
    /// Refuse writes
    #[arg(long)]
    pub(crate) read_only: bool,
    /// NBD at unix:PATH or tcp:HOST:PORT; may be repeated
    #[arg(long, value_name = "ADDRESS", help_heading = "Front ends")]
    pub(crate) nbd: Vec<Address>,
    /// Name of the NBD export
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true,
        help_heading = "Front ends"
    )]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    /// Mount the volume over this file, for losetup; the file is made if absent
    #[arg(long, value_name = "PATH", help_heading = "Front ends")]
    pub(crate) fuse: Option<PathBuf>,
    /// A block device, /dev/ublkbN; without N, any free one [Linux 6.5 or later]
    #[arg(long, value_name = "N", num_args = 0..=1, conflicts_with = "fuse",
          value_parser = number::<u32>("the number of a device", 0.., 3), help_heading = "Front ends")]
    pub(crate) ublk: Option<Option<u32>>,
    /// The area that `seekless volume format --at` made
    #[arg(long, value_name = "PATH", help_heading = "Learning")]
    pub(crate) area: Option<PathBuf>,
    /// Accept a backing whose name has changed since its area was made
    #[arg(long, help_heading = "Learning")]
    pub(crate) moved: bool,
    /// Size of the temporary area, if none was formatted; 0 = no area [default: an eighth of the
    /// backing, at most 2GiB; 256MiB for other policies than adaptive]
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Learning")]
    pub(crate) optimized: Option<Bytes>,
    /// Directory of the temporary area [default: that of the backing]
    #[arg(long, value_name = "DIR", help_heading = "Learning")]
    pub(crate) area_dir: Option<PathBuf>,
    /// The policy: `seekless policies` lists all policies [default: adaptive; borg if the area
    /// holds a plan; fs2 if the area is for replicas]
    #[arg(long, value_name = "NAME[:key=value]", value_parser = crate::policies::policy,
          help_heading = "Learning")]
    pub(crate) policy: Option<Policy>,
    /// Time between plans, for a policy that plans: 90s, 15m, 1h, 1d
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1h",
          help_heading = "Learning")]
    pub(crate) learn_every: Duration,
    /// Learn from each thread separately, by the kernel's trace of this device (/dev/loop0)
    #[arg(long, value_name = "DEVICE", help_heading = "Learning")]
    pub(crate) observe: Option<PathBuf>,
    /// Keep the learned data in this file, and load it at start
    #[arg(long, value_name = "FILE", help_heading = "Learning")]
    pub(crate) state: Option<PathBuf>,
    /// Maximum rate for moving data; 0 = no limit
    #[arg(long, value_name = "SIZE/s", value_parser = rate, default_value = "16MiB/s",
          help_heading = "Learning")]
    pub(crate) background_rate: Bytes,
    /// Time between checks of a formatted area against its checksums
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "7d",
          help_heading = "Learning")]
    pub(crate) scrub: Duration,
    /// In write-back, acknowledged writes wait in RAM for this time at most, or until a flush
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Memory")]
    pub(crate) gather: Option<Duration>,
    /// Maximum memory of this server [default: a 64th of the machine's, at least 128MiB]
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Memory")]
    pub(crate) memory: Option<Bytes>,
    /// RAM for cached pages, beside the host's [default: the rest of --memory]
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Memory")]
    pub(crate) cache: Option<Bytes>,
    /// Minimum length of a read from home
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "64KiB", help_heading = "Memory")]
    pub(crate) read_ahead: Bytes,
    /// Minimum length of a read from a copy
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "64KiB", help_heading = "Memory")]
    pub(crate) cluster: Bytes,
    /// A modelled disk under the volume, in real time: `seekless disk list`
    #[arg(long, value_name = "NAME[,speed=X]", help_heading = "Emulation")]
    pub(crate) disk: Option<Emulated>,
    /// Order of requests in the modelled disk: fcfs, sstf, look, clook, sptf, asptf, anticipatory
    /// or elevator
    #[arg(
        long,
        value_name = "NAME",
        default_value = "fcfs",
        requires = "disk",
        help_heading = "Emulation"
    )]
    pub(crate) scheduler: Scheduler,
    /// Stop the platters: none, after SECONDS, or adaptive
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "none",
        requires = "disk",
        help_heading = "Emulation"
    )]
    pub(crate) spin_down: SpinDown,
    #[command(flatten)]
    pub(crate) watching: HttpArgs,
    /// Model this disk beside the volume: for --http, and for the guard of the policy adaptive
    #[arg(long, value_name = "NAME", conflicts_with = "disk", help_heading = "Watching")]
    pub(crate) model: Option<String>,
    /// Write the final counts as JSON (seekless.serve/1); - = standard output
    #[arg(long, value_name = "FILE|-", value_parser = seekless_cli::args::out_file())]
    pub(crate) json: Option<PathBuf>,
}

impl Args {
    /// The arguments of this backing and nothing else, for other verbs that serve.
    pub(crate) fn defaults(backing: &Path) -> Self {
        #[derive(clap::Parser)]
        struct Defaults {
            #[command(flatten)]
            args: Args,
        }
        Defaults::parse_from([OsStr::new("serve"), OsStr::new("--"), backing.as_os_str()]).args
    }

    /// The given policy, if any. Without an area, it reads ahead alone.
    fn policy(&self) -> Option<Policy> {
        let no_area = self.optimized == Some(Bytes(0));
        let mut policy = self.policy.or(no_area.then(|| Policy::new(PolicyName::Adaptive)))?;
        policy.trail &= !no_area;
        Some(policy)
    }

    /// Programs on this host use the volume.
    const fn is_local(&self) -> bool {
        self.fuse.is_some() || self.ublk.is_some()
    }

    fn learns(&self) -> bool {
        match self.policy().map(|p| p.name()) {
            Some(PolicyName::Vanilla) => false,
            None | Some(PolicyName::Adaptive) => true,
            Some(_) => self.optimized != Some(Bytes(0)),
        }
    }

    fn disk_name(&self) -> Option<&String> {
        self.disk.as_ref().map(|d| &d.name).or(self.model.as_ref())
    }

    /// True if the policy is adaptive, unless the area decides otherwise.
    fn may_adapt(&self) -> bool {
        self.policy().is_none_or(|p| p.name() == PolicyName::Adaptive)
    }
}

/// An event for the main thread.
enum Event {
    /// A signal, or a command with its answer.
    Stop(Option<StopReply>),
    /// Also while the volume is in use.
    ForceStop(StopReply),
    Learn,
    Unmounted,
}

/// Refuses options that have no effect together.
fn check(args: &Args) -> anyhow::Result<()> {
    let paths = [&args.area, &args.state, &args.fuse, &args.observe].map(Option::as_deref);
    let disk = args.disk_name().and_then(|name| seekless_cli::disk::file(name));
    let paths = paths.into_iter().chain([disk, Some(args.backing.as_path())]).flatten();
    output::ensure_apart([args.json.as_deref()], paths.chain(args.access.files()))?;
    ensure!(
        !args.nbd.is_empty() || args.is_local(),
        "no front end: give --ublk, --nbd ADDRESS, or --fuse PATH"
    );
    let named = args.policy.map(|p| p.name());
    let remembers = args.observe.is_some() || args.state.is_some();
    ensure!(
        args.optimized != Some(Bytes(0)) || !remembers,
        "--optimized 0 leaves no area for a plan: leave out --observe and --state, or give an optimized area"
    );
    if let Some(name @ (PolicyName::Vanilla | PolicyName::Adaptive)) = named {
        let name = name.name();
        ensure!(
            !remembers,
            "the policy {name} makes no plans: leave out --observe and --state, or give another policy"
        );
    }
    ensure!(
        args.model.is_none() || args.may_adapt() || args.watching.http.is_some(),
        "--model alone has no effect: add --http ADDRESS to see its numbers, or --policy adaptive to decide by them"
    );
    Ok(())
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    check(args)?;
    if args.is_local() {
        pressure::prepare();
    }
    let (send, events) = channel();
    let manager = Manager::from_env()?;
    let signals = send.clone();
    on_signal(&[SIGINT, SIGTERM, SIGHUP, SIGUSR1], move |signal| {
        signals.send(if signal == SIGUSR1 { Event::Learn } else { Event::Stop(None) }).is_ok()
    })?;
    let point = args.fuse.as_deref().map(MountPoint::new).transpose()?;
    let made = backing::prepare(&args.backing, args.size)?;
    let (builder, knows) = builder(args)?;
    let server = builder.spawn().map_err(|e| explain(e, args))?;
    if knows {
        // Use the remembered data at once.
        let _ = send.send(Event::Learn);
    }
    // The control socket has the backing's name. The mount, made later, may cover the backing.
    let commands = send.clone();
    let device = args.ublk.map(|number| UblkPoint::new(number, &args.backing)).transpose()?;
    let local = device.as_ref().map(UblkPoint::path).or_else(|| args.fuse.clone());
    let control = control::start(&args.backing, &server, local.as_deref(), move |what| {
        commands
            .send(match what {
                MainThread::Replan => Event::Learn,
                MainThread::Stop { force: true, reply } => Event::ForceStop(reply),
                MainThread::Stop { force: false, reply } => Event::Stop(Some(reply)),
            })
            .is_ok()
    });
    if let Err(why) = &control {
        output::say(&format!("no control socket ({why}): only signals control this server"));
    }
    let ended = move || drop(send.send(Event::Unmounted));
    // Nothing below may end a server whose device is in use.
    let http = watching::start(args, &server)?;
    let end = match (device, point) {
        (Some(device), _) => Some(HostEnd::Device(device.start(&server, ended)?)),
        (None, Some(point)) => Some(HostEnd::File(point.mount(&server, ended)?)),
        (None, None) => None,
    };
    made.keep();
    let _ = tell(args, &report::announcement(args, &server, end.as_ref()));
    http.iter().for_each(|(_, place)| drop(tell(args, place)));
    let result = watch(args, &server, end, &events, Reported::new(manager));
    drop(http);
    let (stats, operations) = stop(server)?;
    // Until here, the volume counts as served.
    drop(control);
    result?;
    if let Some(path) = &args.json {
        output::write(path, &report::json(args, &stats, operations)?)?;
    }
    tell(args, &report::summary(&stats, operations))
}

/// Stops the server: its counts, and those of the provider's operations.
fn stop(server: ServerHandle) -> anyhow::Result<(ServerStats, Option<OperationStatus>)> {
    if server.attached().is_some() {
        output::say("saving the area");
    }
    let operations = server.board().and_then(|board| board.status().operations);
    Ok((server.stop().context("the server failed")?, operations))
}

/// Prints text to standard output, or to standard error if standard output has the JSON.
fn tell(args: &Args, text: &str) -> anyhow::Result<()> {
    if output::is_stdout(args.json.as_deref()) {
        output::say(text);
        return Ok(());
    }
    output::print(text)
}

/// Shows the status and makes plans on request, until a stop is requested and the mount is gone.
/// Only a volume that nobody can use any more is an error: all else is said, and the server goes on.
fn watch(
    args: &Args,
    server: &ServerHandle,
    mut end: Option<HostEnd>,
    events: &Receiver<Event>,
    mut told: Reported,
) -> anyhow::Result<()> {
    let line = output::status_line();
    let say = |text: &str| line.suspend(|| output::say(text));
    told.manager(notify::READY, "serving");
    let mut ending = Ending::new(told.manager.is_some());
    let mut planning = Planning::default();
    loop {
        let wait = if ending.is_asked() || planning.is_busy() { TRY_EVERY } else { LOOK_EVERY };
        let event = events.recv_timeout(wait);
        end.as_ref().map_or(Ok(()), HostEnd::ensure_works)?;
        match event {
            Ok(Event::ForceStop(reply)) => {
                line.finish_and_clear();
                force(server, end, &reply);
                return Ok(());
            }
            Ok(Event::Stop(reply)) => {
                if reply.is_none() {
                    told.manager(notify::STOPPING, "stopping");
                }
                ending.ask(reply);
            }
            Ok(Event::Unmounted) if !ending.is_asked() => {
                end = None;
                if args.nbd.is_empty() {
                    line.finish_and_clear();
                    output::say(
                        "another program unmounted the volume, and no other front end is left: stopping",
                    );
                    return Ok(());
                }
                say("another program unmounted the volume; NBD clients are still served");
            }
            Ok(Event::Learn) => planning.ask(server, &say),
            Ok(Event::Unmounted) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("the thread for signals has ended"),
        }
        planning.look(&say);
        // A failed server reports its error when it is stopped.
        let Ok(stats) = server.stats() else { return Ok(()) };
        told.area(&stats, &say);
        if ending.attempt(server, end.as_mut(), &say) {
            line.finish_and_clear();
            return Ok(());
        }
        if let Some(copied) = planning.copied(&stats) {
            tell_running(args, &line, &format!("learned: copies of {copied} are written"));
        }
        let state = (!ending.is_asked()).then_some(notify::ALIVE);
        told.status(args, server, &line, state, report::status(&stats));
    }
}

/// Prints text while the volume is in use. A full disk or a closed pipe costs this text alone.
fn tell_running(args: &Args, line: &ProgressBar, text: &str) {
    let _ = line.suspend(|| tell(args, text));
}

/// Names the users of the volume, and disconnects them.
fn force(server: &ServerHandle, end: Option<HostEnd>, reply: &StopReply) {
    let users = server.injector().users(end.as_ref().map(HostEnd::path).as_deref());
    let _ = reply.send(Ok(users.to_string()));
    end.into_iter().for_each(HostEnd::cut_off);
}

/// The server to start, and whether it has remembered data.
fn builder(args: &Args) -> anyhow::Result<(Builder, bool)> {
    let (read_ahead, cluster, rate) = (args.read_ahead, args.cluster, args.background_rate);
    let degree = args.policy.map_or(1, |p| p.degree);
    let toll = toll(args)?;
    let gather = args.gather.map_or(0, |g| u64::try_from(g.as_nanos()).unwrap_or(u64::MAX));
    let mut builder = Builder::new(Backing::named(&args.backing)?)
        .read_only(args.read_only)
        .name(&args.name)
        .moved(args.moved)
        .mounted(args.is_local())
        .takes_over(args.ublk.is_some())
        .scrub_every(args.scrub)
        .area_path(args.area.clone())
        .area_dir(args.area_dir.clone())
        .observe(args.observe.clone())
        .memory(args.memory, args.cache)
        .engine(move |config| {
            config.read_ahead = read_ahead;
            config.cluster = cluster;
            config.gather = seekless_block::Duration(gather);
            config.background_rate = rate;
            config.degree = degree;
            config.toll = toll;
        });
    builder = args.access.apply(builder);
    let mut knows = false;
    let disk = disk(args)?;
    if args.learns() {
        let learning = learning(args)?;
        knows = learning.knows();
        builder = builder.learning(learning);
        let most = disk.as_ref().map(|d| d.capacity().bytes());
        builder = match args.optimized {
            Some(bytes) => builder.area(bytes.sectors_ceil().bytes()),
            None => builder.usual_area(most),
        };
    }
    if args.watching.http.is_some() || args.may_adapt() {
        let (about, shadow) = watching::about(args, disk.clone());
        builder = builder.watched(about, shadow);
    }
    if let (Some(Emulated { speed, host, .. }), Some(disk)) = (&args.disk, disk) {
        builder = builder.emulate(Emulation {
            disk,
            scheduler: args.scheduler,
            host: *host,
            spin_down: args.spin_down,
            speed: *speed,
            path_max: 0,
        });
    }
    Ok((args.nbd.iter().cloned().fold(builder, Builder::listen), knows))
}

/// What operations cost at the provider that `--disk` or `--model` names. Every area of a home on
/// another server lies elsewhere, and so does an area that was placed on another disk, or beside a
/// provider's volume.
fn toll(args: &Args) -> anyhow::Result<Toll> {
    let toll = match args.disk_name() {
        Some(name) => seekless_cli::disk::named(name)?.toll(),
        None => Toll::default(),
    };
    let placed = args.area.as_ref().or(args.area_dir.as_ref());
    let elsewhere = matches!(Backing::named(&args.backing)?, Backing::Nbd(_))
        || placed.is_some_and(|at| !toll.is_none() || !on_one_disk(&args.backing, at));
    Ok(Toll { area: args.disk.is_some() || !elsewhere, ..toll })
}

/// The emulated or modelled disk, if there is one.
fn disk(args: &Args) -> anyhow::Result<Option<Device>> {
    let Some(name) = args.disk_name() else { return Ok(None) };
    let spec = seekless_cli::disk::named(name)?;
    Ok(Some(Device::new(&spec).with_context(|| format!("disk {name}"))?))
}

fn learning(args: &Args) -> anyhow::Result<Learning> {
    let mut learning = Learning::default().every(args.learn_every);
    if let Some(policy) = args.policy() {
        policy.check_live()?;
        learning = learning.policy(policy);
    }
    if let Some(path) = &args.state {
        let say: Say = Arc::new(output::say);
        learning = learning.memory(MemoryFile::open(path, say)?);
    }
    Ok(learning)
}

/// The server's error, with advice in terms of the command line.
fn explain(error: ServeError, args: &Args) -> anyhow::Error {
    match (&error, &args.disk) {
        (ServeError::NoAreaDir, _) => anyhow::Error::new(error).context(format!(
            "{}: give --area-dir DIR for the area, or --optimized 0 to serve without one",
            args.backing.display()
        )),
        (ServeError::DiskTooSmall { .. }, Some(disk)) => anyhow::Error::new(error)
            .context(format!("disk {} is too small for {}", disk.name, args.backing.display())),
        _ => error.into(),
    }
}

/// A size a second.
fn rate(text: &str) -> Result<Bytes, String> {
    size(text.strip_suffix("/s").unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_rates_as_people_write_them() {
        for (text, ms) in [("250ms", 250), ("5s", 5_000), ("15m", 900_000), ("1d", 86_400_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "5", "s", "0s", "-1s", "1.5h", "1w", "99999999999999999d"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!(rate("8MiB/s"), Ok(Bytes(8 << 20)));
        assert_eq!(rate("0"), Ok(Bytes(0)));
    }
}
