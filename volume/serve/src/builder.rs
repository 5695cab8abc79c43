//! The options of a server, and its start.

mod open;
mod settings;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::event::EventfdFlags;
use seekless_block::{Bytes, SECTOR_BYTES};
use seekless_disk::{Device, Drive, Scheduler, SpinDown};
use seekless_engine::{Config, Engine};
use seekless_host::reserve::{Reserve, Waits};
use seekless_host::{cannot, private};
use seekless_learn::{Policy, PolicyName};
use seekless_nbd::{Export, TransmissionFlags};

use crate::backend::emulated::Emulated;
use crate::backend::remote::NbdUri;
use crate::error::ServeError;
use crate::handle::{Injector, ServerHandle};
use crate::learner::{self, AreaHolds, Learning};
use crate::listen::{Access, Address, Listener};
use crate::memory_shares::Shares;
use crate::observe::{KernelTrace, Observer};
use crate::server::Server;
use crate::shadow::Shadow;
use crate::tap::{self, Tap, TapEnd};
use crate::tls::{Tls, TlsFiles};
use crate::volume::{Clock, Volume, VolumeParts};
use crate::watch::About;
use open::NewVolume;

/// Time in which a client must choose an export: a handshake takes a few round trips.
const GREETING_MOST: Duration = Duration::from_secs(10);
/// Usual time from one check of an area to the next.
const SCRUB_EVERY: Duration = Duration::from_secs(7 * 24 * 3600);
/// Threads that wait for the disk.
const WORKERS: usize = 8;

/// The data to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// A regular file or a block device.
    Path(PathBuf),
    /// An export of another NBD server. It must be nobody else's.
    Nbd(NbdUri),
    /// Zeroed memory of this size, which ends with the server.
    Memory(Bytes),
}

impl Backing {
    /// What a path of the command line names: an export of an NBD server, or a file or device.
    ///
    /// # Errors
    /// See [`NbdUri::in_path`].
    pub fn named(path: &Path) -> Result<Self, ServeError> {
        NbdUri::in_path(path)
            .map_or_else(|| Ok(Self::Path(path.to_owned())), |uri| uri.map(Self::Nbd))
    }
}

/// A modelled device to put under the volume, in real time.
#[derive(Clone, Debug)]
pub struct Emulation {
    /// The device; it must hold the backing and the optimized area.
    pub disk: Device,
    /// Its scheduler.
    pub scheduler: Scheduler,
    /// A queue above the disk's own; `None`: the disk takes every command at once.
    pub host: Option<HostQueue>,
    /// When the platters stop.
    pub spin_down: SpinDown,
    /// Speed relative to the real disk; 1 is real time.
    pub speed: f64,
    /// Most head positions to record.
    pub path_max: usize,
}

/// Makes the shadow of a volume from the settings of its engine. The error says why there is none.
pub type MakeShadow = Box<dyn FnOnce(&Config) -> Result<Box<dyn Shadow>, String> + Send>;
/// The parts of a watcher: its subject, its shadow, and its end of the queue.
type Watcher = (About, Option<Box<dyn Shadow>>, TapEnd);

/// A queue of commands that the disk does not take yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostQueue {
    /// Commands that the disk takes at once, with the running one; at least 1.
    pub depth: usize,
    /// Chooses the next command for the disk.
    pub scheduler: Scheduler,
}

impl Emulation {
    pub(crate) fn drive(self) -> Result<Drive, ServeError> {
        let mut drive = match self.host {
            None => Drive::new(self.disk, self.scheduler),
            Some(h) => Drive::with_host(self.disk, self.scheduler, h.depth, h.scheduler),
        };
        drive.set_spin_down(self.spin_down)?;
        Ok(drive)
    }
}

/// Options of a server. A size of zero turns its mechanism off.
#[must_use]
pub struct Builder {
    backing: Backing,
    read_only: bool,
    takes_over: bool,
    name: String,
    area: AreaSize,
    area_dir: Option<PathBuf>,
    area_path: Option<PathBuf>,
    moved: bool,
    to_drain: bool,
    free_from_ext: bool,
    mounted: bool,
    tune: Box<dyn FnOnce(&mut Config) + Send>,
    emulate: Option<Emulation>,
    learning: Option<Learning>,
    observe: Option<PathBuf>,
    addresses: Vec<Address>,
    tls: Option<TlsFiles>,
    access: Access,
    greeting_most: Duration,
    watched: Option<(About, Option<MakeShadow>)>,
    notes: Vec<String>,
    scrub_every: Duration,
    memory: MemoryBound,
}

/// The bound on the memory of a server.
#[derive(Clone, Copy, Debug)]
enum MemoryBound {
    /// None, for programs that hold a server.
    None,
    /// The given one, or the usual one for this machine; and the pages of RAM, where given.
    Most(Option<Bytes>, Option<Bytes>),
}

/// Size of an area that was not formatted.
#[derive(Clone, Copy, Debug)]
enum AreaSize {
    Bytes(Bytes),
    /// The usual size for the policy; backing and area together take at most this.
    Usual(Option<Bytes>),
}

/// Staging memory of a mounted volume, which is held from the start.
const MOUNTED_STAGE: Bytes = Bytes(8 << 20);
/// Usual size of an area for a plan, and usual limits of a trail.
const PLAN_AREA: Bytes = Bytes(256 << 20);
const TRAIL_MOST: Bytes = Bytes(2 << 30);
const TRAIL_LEAST: Bytes = Bytes(4 << 20);

/// Usual size of the adaptive policy's area, for a backing of this size.
pub(crate) fn usual_trail(backing: Bytes) -> Bytes {
    Bytes((backing.0 / 8).clamp(TRAIL_LEAST.0, TRAIL_MOST.0))
}

impl AreaSize {
    /// The size for a backing of this size, in whole sectors.
    fn of(self, policy: &Policy, backing: Bytes) -> Bytes {
        let bytes = match self {
            Self::Bytes(bytes) => bytes.0,
            Self::Usual(most) => {
                let usual = match policy.name() {
                    PolicyName::Adaptive => usual_trail(backing).0,
                    _ => PLAN_AREA.0,
                };
                most.map_or(usual, |most| usual.min(most.0.saturating_sub(backing.0)))
            }
        };
        Bytes(bytes / SECTOR_BYTES * SECTOR_BYTES)
    }
}

/// The parts of a server that others can refuse: a name in use, a wrong key, a device. They are made
/// before an area is attached, because a start that fails later leaves the area as a crash does.
struct FrontEnds {
    listeners: Vec<Listener>,
    /// The emulated disk, and the speed of its clock.
    emulated: (Option<Emulated>, f64),
    /// Both ends of the queue of requests to watch, and the shadow.
    watched: Option<(Tap, Watcher)>,
    trace: Option<KernelTrace>,
}

/// Methods that set one option.
macro_rules! options {
    ($($(#[$about:meta])+ $name:ident: $type:ty,)+) => {
        impl Builder {$(
            $(#[$about])+
            pub fn $name(mut self, $name: $type) -> Self {
                self.$name = $name.into();
                self
            }
        )+}
    };
}

options! {
    /// The export's name.
    name: &str,
    /// Emulates a mechanical disk under the volume.
    emulate: Emulation,
    /// The volume is opened for a drain: its area may have no space for a guard.
    to_drain: bool,
    /// Refuses writes.
    read_only: bool,
    /// The directory of the optimized area's file. Required for block devices.
    area_dir: impl Into<Option<PathBuf>>,
    /// The file or device of an area from [`crate::area::make`], used instead of [`Self::area`]. An
    /// area inside the backing is found by itself.
    area_path: impl Into<Option<PathBuf>>,
    /// The server takes over the block device of a server that died. Otherwise a device that waits
    /// for its next server is an error.
    takes_over: bool,
    /// The backing may have another name than when its area was made.
    moved: bool,
    /// Treats the free space of the unmounted ext2, ext3 or ext4 file system on the volume as
    /// discarded. The volume must keep replicas, and no newer data may be in its write buffer.
    free_from_ext: bool,
    /// The volume will be mounted on this host. So the server bypasses the page cache, unless a
    /// disk is emulated: the server must not wait for memory that only its own writes free.
    mounted: bool,
    /// Learns from the requests.
    learning: impl Into<Option<Learning>>,
    /// Lets the learner distinguish processes by the kernel's block trace of this device, the
    /// clients' device for the volume or its partition. The device may come later. Without a trace,
    /// the volume's own requests count as one stream; see [`ServerHandle::streams`].
    observe: impl Into<Option<PathBuf>>,
    /// Requires TLS from every client over TCP.
    tls: impl Into<Option<TlsFiles>>,
    /// Time from one check of a lasting area to the next.
    scrub_every: Duration,
    /// Time in which a client must choose an export.
    greeting_most: Duration,
}

impl Builder {
    /// A plain pass-through of `backing` with the default export name and without an address.
    pub fn new(backing: Backing) -> Self {
        Self {
            backing,
            read_only: false,
            takes_over: false,
            name: String::new(),
            area: AreaSize::Bytes(Bytes(0)),
            area_dir: None,
            area_path: None,
            moved: false,
            to_drain: false,
            free_from_ext: false,
            mounted: false,
            tune: Box::new(|_| {}),
            emulate: None,
            learning: None,
            observe: None,
            addresses: Vec::new(),
            tls: None,
            access: Access::default(),
            greeting_most: GREETING_MOST,
            watched: None,
            notes: Vec::new(),
            scrub_every: SCRUB_EVERY,
            memory: MemoryBound::None,
        }
    }

    /// Size of the optimized area, an anonymous file beside the backing. Whole sectors.
    pub const fn area(mut self, size: Bytes) -> Self {
        self.area = AreaSize::Bytes(size);
        self
    }

    /// The optimized area has the usual size for the policy. Backing and area together have at most
    /// `most`, the size of an emulated or modelled disk.
    pub const fn usual_area(mut self, most: Option<Bytes>) -> Self {
        self.area = AreaSize::Usual(most);
        self
    }

    /// Sets the engine's RAM cache, read-ahead and budgets; capacity and area are already set.
    pub fn engine(mut self, tune: impl FnOnce(&mut Config) + Send + 'static) -> Self {
        self.tune = Box::new(tune);
        self
    }

    /// Bounds all memory of the server; without `most`, by what is usual on this machine. Pages of RAM
    /// get `pages`, or what remains.
    pub const fn memory(mut self, most: Option<Bytes>, pages: Option<Bytes>) -> Self {
        self.memory = MemoryBound::Most(most, pages);
        self
    }

    /// Listens on an address.
    pub fn listen(mut self, address: Address) -> Self {
        self.addresses.push(address);
        self
    }

    /// Lets other machines connect over TCP without TLS.
    pub const fn insecure(mut self, yes: bool) -> Self {
        self.access.insecure = yes;
        self
    }

    /// Lets these users connect to unix sockets, beside root and the user who serves.
    pub fn users(mut self, users: Vec<u32>) -> Self {
        self.access.users = users;
        self
    }

    /// Watches requests and I/Os; see [`ServerHandle::board`].
    pub fn watched(mut self, about: About, shadow: Option<MakeShadow>) -> Self {
        self.watched = Some((about, shadow));
        self
    }

    /// Starts the volume's thread.
    ///
    /// # Errors
    /// The backing cannot be opened, is no disk, is not whole sectors, or is in use; the emulated
    /// disk is too small; an address is not available.
    pub fn spawn(mut self) -> Result<ServerHandle, ServeError> {
        let NewVolume { front, mut files, engine, policy, attached, area_path, guardable, shares } =
            self.open()?;
        let FrontEnds { listeners, emulated: (emulated, speed), watched, trace } = front;
        let config = *engine.config();
        let (size, area) = (config.capacity.bytes(), config.area.bytes());
        let rotational = emulated.is_some() || files.is_rotational();
        if self.mounted && emulated.is_none() {
            files.go_direct();
        }
        let tcp = listeners.iter().filter_map(Listener::tcp_address).collect();
        let (tap, watched) = watched.unzip();
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let bell = Arc::new(bell.map_err(cannot("make an event descriptor"))?);
        let (control, commands) = channel();
        let injector = Injector { control, bell: Arc::clone(&bell), guardable };
        let started = self.start_learner(policy, (&engine, &shares), trace, &injector)?;
        let (observer, started) = started.map(|s| (s.producer, (s.link, s.thread))).unzip();
        let (link, learner) = started.unzip();
        let waits = Arc::new(Waits::new(WORKERS));
        let reserve = self.mounted.then(|| Reserve::watch(Arc::clone(&waits))).transpose()?;
        let volume = Volume::new(VolumeParts {
            engine,
            lasting: attached.is_some(),
            scrub_every: self.scrub_every,
            drain: self.to_drain,
            files: Arc::new(files),
            waits,
            bell: Arc::clone(&bell),
            emulated,
            clock: Clock::new(speed),
            observer,
            tap,
            shares,
        })?;
        let export = self.export(size, rotational);
        let front = (listeners, self.greeting_most, shares.client);
        let server = Server::new(volume, export, front, commands, bell, link, area_path)?;
        let thread = std::thread::Builder::new().name("seekless-volume".into());
        let thread = thread.spawn(move || server.run());
        let mut handle = ServerHandle {
            volume: injector,
            size,
            area,
            stage: config.stage_bytes,
            memory: shares.all.map(|all| (all, config.cache_bytes)),
            read_only: self.read_only,
            policy,
            tcp,
            thread: Some(thread.map_err(cannot("start the volume's thread"))?),
            learner,
            watcher: None,
            attached,
            notes: self.notes,
            _reserve: reserve,
        };
        if let Some((about, shadow, tap)) = watched {
            handle.watch(about, shadow, tap, rotational)?;
        }
        Ok(handle)
    }

    fn front(&mut self, config: &Config) -> Result<FrontEnds, ServeError> {
        let observed = self.observe.as_ref().filter(|_| self.learning.is_some());
        let trace = observed.map(|device| KernelTrace::new(device, config.capacity, self.path()));
        Ok(FrontEnds {
            trace: trace.transpose()?,
            emulated: self.emulated(config)?,
            listeners: self.bind()?,
            watched: self.watching(config)?,
        })
    }

    fn bind(&mut self) -> Result<Vec<Listener>, ServeError> {
        self.access.tls = self.tls.as_ref().map(Tls::load).transpose()?;
        // A pipe has no rights to look at, and would wait for a second writer.
        if let Some(TlsFiles { key, .. }) = &self.tls
            && key.is_file()
            && let Ok(file) = File::open(key)
        {
            self.notes.extend(private::open_to_all(key, file));
        }
        self.addresses.iter().map(|a| Listener::bind(a, &self.access)).collect()
    }

    /// Both ends of the queue of requests to watch, and the shadow; none without watching.
    fn watching(&mut self, config: &Config) -> Result<Option<(Tap, Watcher)>, ServeError> {
        let Some((about, make)) = self.watched.take() else { return Ok(None) };
        let shadow = match make.map(|make| make(config)).transpose() {
            // Without a guard the volume is served all the same.
            Err(_) if about.stand_in => None,
            made => made.map_err(ServeError::Model)?,
        };
        let (tap, end) = tap::tap();
        Ok(Some((tap, (about, shadow, end))))
    }

    /// The emulated disk, and the speed of its clock.
    fn emulated(&mut self, config: &Config) -> Result<(Option<Emulated>, f64), ServeError> {
        let Some(emulation) = self.emulate.take() else { return Ok((None, 1.0)) };
        let speed = emulation.speed;
        if speed.is_nan() || speed <= 0.0 {
            return Err(ServeError::Speed(speed));
        }
        Ok((Some(Emulated::new(emulation, config.capacity, config.area)?), speed))
    }

    fn path(&self) -> Option<&Path> {
        match &self.backing {
            Backing::Path(path) => Some(path),
            Backing::Nbd(_) | Backing::Memory(_) => None,
        }
    }

    /// The policy: the given one, or the usual one for what the area holds.
    fn policy(&self, held: AreaHolds) -> Result<Policy, ServeError> {
        let Some(learning) = &self.learning else { return Ok(Policy::new(PolicyName::Vanilla)) };
        let policy = learning.policy_for(held).map_err(ServeError::Learning)?;
        if policy.name() == PolicyName::Adaptive && self.observe.is_some() {
            let why = "the policy adaptive observes no device: leave out --observe, or give another policy";
            return Err(ServeError::Learning(why.to_owned()));
        }
        Ok(policy)
    }

    fn start_learner(
        &mut self,
        policy: Policy,
        (engine, shares): (&Engine, &Shares),
        trace: Option<KernelTrace>,
        volume: &Injector,
    ) -> Result<Option<learner::Started>, ServeError> {
        let Some(learning) = self.learning.take() else { return Ok(None) };
        let config = engine.config();
        let observer = self.observe.as_ref().zip(trace);
        let observer = observer.map(|(on, t)| Observer::new(on, Box::new(t), Instant::now()));
        let pupil = learning.begin(policy, config, engine.plan(), shares.edges);
        let start = |pupil| learner::start(pupil, observer, volume.clone());
        pupil.map(start).transpose()
    }

    fn export(&self, size: Bytes, rotational: bool) -> Export {
        let mut export = Export::new(&self.name, size.0);
        export.flags = export.flags.union(TransmissionFlags::SEND_FAST_ZERO);
        if rotational {
            export.flags = export.flags.union(TransmissionFlags::ROTATIONAL);
        }
        if self.read_only { export.read_only() } else { export }
    }
}
