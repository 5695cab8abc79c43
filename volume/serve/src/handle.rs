//! Starts a server, and talks to a running one.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::EventfdFlags;
use seekless_block::{Bytes, Extent, Flags, Op, SECTOR_BYTES, Sectors};
use seekless_disk::{Device, Drive, Scheduler, SpinDown};
use seekless_engine::{AttachReport, Command, Config, Engine, Mode};
use seekless_host::{Opened, cannot};
use seekless_learn::{Plan, Replica};
use seekless_nbd::{Errno, Export, TransmissionFlags};

use crate::area::Store;
use crate::backend::emulated::{Emulated, HeadSample};
use crate::backend::files::{Files, opened_memory};
use crate::backend::workers::ring;
use crate::error::ServeError;
use crate::learner::{self, LearnerThread, Learning, Message, Room};
use crate::listen::{Address, Listener};
use crate::observe::{self, KernelTrace, Observer, Streams};
use crate::server::{Control, Job, Server, ServerStats};
use crate::tap;
use crate::volume::{Clock, Parts, Volume};
use crate::watch::{self, About, Board, Shadow, Sources, Watcher};

/// The data to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// A regular file or a block device.
    Path(PathBuf),
    /// Zeroed memory of this size, which ends with the server.
    Memory(Bytes),
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
pub struct Builder {
    backing: Backing,
    read_only: bool,
    name: String,
    area: Bytes,
    area_dir: Option<PathBuf>,
    area_path: Option<PathBuf>,
    moved: bool,
    drain: bool,
    free_from_ext: bool,
    tune: Box<dyn FnOnce(&mut Config) + Send>,
    workers: usize,
    emulation: Option<Emulation>,
    learning: Option<Learning>,
    observe: Option<PathBuf>,
    addresses: Vec<Address>,
    watched: Option<(About, Option<MakeShadow>)>,
}

impl Builder {
    /// A plain pass-through of `backing` with the default export name and without an address.
    #[must_use]
    pub fn new(backing: Backing) -> Self {
        Self {
            backing,
            read_only: false,
            name: String::new(),
            area: Bytes(0),
            area_dir: None,
            area_path: None,
            moved: false,
            drain: false,
            free_from_ext: false,
            tune: Box::new(|_| {}),
            workers: 8,
            emulation: None,
            learning: None,
            observe: None,
            addresses: Vec::new(),
            watched: None,
        }
    }

    /// Refuses writes.
    #[must_use]
    pub fn read_only(mut self, yes: bool) -> Self {
        self.read_only = yes;
        self
    }

    /// The export's name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Size of the optimized area, an anonymous file beside the backing. Whole sectors.
    #[must_use]
    pub const fn area(mut self, size: Bytes) -> Self {
        self.area = size;
        self
    }

    /// The directory of the optimized area's file. Required for block devices.
    #[must_use]
    pub fn area_dir(mut self, dir: PathBuf) -> Self {
        self.area_dir = Some(dir);
        self
    }

    /// The file or device of an area from [`crate::area::make`], used instead of [`Self::area`]. An
    /// area inside the backing is found by itself.
    #[must_use]
    pub fn area_path(mut self, path: PathBuf) -> Self {
        self.area_path = Some(path);
        self
    }

    /// The backing may have another name than when its area was made.
    #[must_use]
    pub const fn moved(mut self, yes: bool) -> Self {
        self.moved = yes;
        self
    }

    /// The volume is opened for a drain: its area may have no room for a guard.
    #[must_use]
    pub const fn to_drain(mut self, yes: bool) -> Self {
        self.drain = yes;
        self
    }

    /// Treats the free space of the unmounted ext2, ext3 or ext4 file system on the volume as
    /// discarded. The volume must keep replicas, and no newer data may be in its write buffer.
    #[must_use]
    pub const fn free_from_ext(mut self, yes: bool) -> Self {
        self.free_from_ext = yes;
        self
    }

    /// Sets the engine's RAM cache, read-ahead and budgets; capacity and area are already set.
    #[must_use]
    pub fn engine(mut self, tune: impl FnOnce(&mut Config) + Send + 'static) -> Self {
        self.tune = Box::new(tune);
        self
    }

    /// Threads that wait for the disk.
    #[must_use]
    pub const fn workers(mut self, count: usize) -> Self {
        self.workers = count;
        self
    }

    /// Emulates a mechanical disk under the volume.
    #[must_use]
    pub fn emulate(mut self, emulation: Emulation) -> Self {
        self.emulation = Some(emulation);
        self
    }

    /// Learns from the requests.
    #[must_use]
    pub fn learning(mut self, learning: Learning) -> Self {
        self.learning = Some(learning);
        self
    }

    /// Lets the learner distinguish processes by the kernel's block trace of `device`, the clients'
    /// device for the volume or its partition. The device may come later. Without a trace, the
    /// volume's own requests count as one stream; see [`ServerHandle::streams`].
    #[must_use]
    pub fn observe(mut self, device: PathBuf) -> Self {
        self.observe = Some(device);
        self
    }

    /// Listens on an address.
    #[must_use]
    pub fn listen(mut self, address: Address) -> Self {
        self.addresses.push(address);
        self
    }

    /// Watches requests and I/Os; see [`ServerHandle::board`].
    #[must_use]
    pub fn watched(mut self, about: About, shadow: Option<MakeShadow>) -> Self {
        self.watched = Some((about, shadow));
        self
    }

    /// Starts the volume's thread.
    ///
    /// # Errors
    /// The backing cannot be opened, is no disk, is not whole sectors, or is in use; the emulated
    /// disk is too small; an address is not available.
    pub fn spawn(self) -> Result<ServerHandle, ServeError> {
        let opened = match &self.backing {
            Backing::Path(path) => Opened::path(path, self.read_only)?,
            Backing::Memory(bytes) => opened_memory(bytes.0 / SECTOR_BYTES * SECTOR_BYTES)?,
        };
        let store = match &self.backing {
            Backing::Path(path) => {
                Store::open(opened, path, self.area_path.as_deref(), self.read_only)?
            }
            Backing::Memory(_) => Store::Plain(opened),
        };
        let mut guardable = true;
        let (files, engine, attached, area_path) = match store {
            Store::Plain(opened) => {
                let area = Bytes(self.area.0 / SECTOR_BYTES * SECTOR_BYTES);
                let dir = self.area_dir.or_else(|| opened.dir.clone());
                if area.0 > 0 && dir.is_none() && matches!(self.backing, Backing::Path(_)) {
                    return Err(ServeError::NoAreaDir);
                }
                let mut config = Config::new(Sectors(opened.bytes / SECTOR_BYTES));
                config.area = area.sectors_ceil();
                (self.tune)(&mut config);
                let files = Files::new(opened, area.0, dir.as_deref())?;
                (files, Engine::new(config), None, PathBuf::new())
            }
            Store::Lasting(mut lasting) if self.read_only => {
                // Nothing is written, not even a mark of use.
                let mut config = Config::new(lasting.superblock.home_capacity);
                (self.tune)(&mut config);
                let newest = lasting.examine()?;
                let files = Files::overlaid(lasting.home, lasting.area, newest);
                (files, Engine::new(config), None, lasting.place)
            }
            Store::Lasting(mut lasting) => {
                let mut config = Config::new(lasting.superblock.home_capacity);
                (self.tune)(&mut config);
                let (mut engine, report) = lasting.attach(config, self.moved, self.drain)?;
                if self.free_from_ext && engine.replicated().is_some() && report.dirty == 0 {
                    engine.seed_free(lasting.free_in_ext()?);
                }
                let own = lasting.own_stamp();
                // An area inside its disk needs no guard: the disk begins with a page of seekless.
                guardable = own.is_some() || lasting.home.guard().is_some();
                let files = Files::of(lasting.home, lasting.area, own);
                (files, engine, Some(report), lasting.place)
            }
        };
        let config = *engine.config();
        let (bytes, area) = (config.capacity.bytes().0, config.area.bytes());
        let files = Arc::new(files);
        let speed = self.emulation.as_ref().map_or(1.0, |e| e.speed);
        if speed.is_nan() || speed <= 0.0 {
            return Err(ServeError::Speed(speed));
        }
        let rotational = self.emulation.is_some();
        let emulated =
            self.emulation.map(|e| Emulated::new(e, config.capacity, config.area)).transpose()?;

        let listeners: Vec<Listener> =
            self.addresses.iter().map(Listener::bind).collect::<Result<_, _>>()?;
        let tcp = listeners.iter().filter_map(Listener::tcp_address).collect();

        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bell = rustix::event::eventfd(0, flags).map_err(cannot("make an event descriptor"))?;
        let bell = Arc::new(bell);
        let (control, commands) = channel();
        let observer = match &self.observe {
            Some(device) if self.learning.is_some() => {
                let backing = match &self.backing {
                    Backing::Path(path) => Some(path.as_path()),
                    Backing::Memory(_) => None,
                };
                let trace = KernelTrace::new(device, config.capacity, backing)?;
                Some(Observer::new(device, Box::new(trace), std::time::Instant::now()))
            }
            _ => None,
        };
        let pupil = match self.learning {
            Some(learning) => {
                learning.begin(&config, engine.plan()).map_err(ServeError::Learning)?
            }
            None => None,
        };
        let learning = pupil
            .map(|pupil| learner::start(pupil, observer, control.clone(), Arc::clone(&bell)))
            .transpose()?;
        let (tap, tap_end) = self.watched.as_ref().map(|_| tap::tap()).unzip();
        let watched = match self.watched {
            Some((about, None)) => Some((about, None)),
            Some((about, Some(make))) => {
                Some((about, Some(make(&config).map_err(ServeError::Model)?)))
            }
            None => None,
        };
        let (observer, link, learner) = match learning {
            Some(s) => (Some(s.producer), Some(s.link), Some(s.thread)),
            None => (None, None, None),
        };

        let volume = Volume::new(Parts {
            engine,
            lasting: attached.is_some(),
            drain: self.drain,
            files,
            workers: self.workers,
            bell: Arc::clone(&bell),
            emulated,
            clock: Clock::new(speed),
            observer,
            tap,
        })?;
        let mut export = Export::new(&self.name, bytes);
        export.flags = export.flags.union(TransmissionFlags::SEND_FAST_ZERO);
        if rotational {
            export.flags = export.flags.union(TransmissionFlags::ROTATIONAL);
        }
        if self.read_only {
            export = export.read_only();
        }
        let server =
            Server::new(volume, export, listeners, commands, Arc::clone(&bell), link, area_path)?;
        let thread = std::thread::Builder::new()
            .name("seekless-volume".into())
            .spawn(move || server.run())
            .map_err(cannot("start the volume's thread"))?;
        let mut handle = ServerHandle {
            link: Link { control, bell, guardable },
            size: Bytes(bytes),
            area,
            read_only: self.read_only,
            tcp,
            thread: Some(thread),
            learner,
            watcher: None,
            attached,
        };
        if let (Some((about, shadow)), Some(tap)) = (watched, tap_end) {
            let sources = Sources {
                volume: handle.injector(),
                tap,
                learned: handle.learner.as_ref().map(|l| Arc::clone(&l.learned)),
                streams: handle.learner.as_ref().map(|l| Arc::clone(&l.streams)),
                size: handle.size,
                area,
                read_only: self.read_only,
                emulated: rotational,
            };
            handle.watcher = Some(watch::start(sources, about, shadow)?);
        }
        Ok(handle)
    }
}

/// Sends commands to the volume's thread.
#[derive(Clone)]
struct Link {
    control: Sender<Control>,
    bell: Arc<OwnedFd>,
    /// True if a guard can protect home.
    guardable: bool,
}

impl Link {
    fn send(&self, control: Control) -> Result<(), ServeError> {
        self.control.send(control).map_err(|_| ServeError::Stopped)?;
        ring(&self.bell);
        Ok(())
    }

    fn ask<T>(
        &self,
        question: impl FnOnce(std::sync::mpsc::SyncSender<T>) -> Control,
    ) -> Result<T, ServeError> {
        let (reply, answer) = sync_channel(1);
        self.send(question(reply))?;
        answer.recv().map_err(|_| ServeError::Stopped)
    }
}

/// A running server. Dropping it stops it.
pub struct ServerHandle {
    link: Link,
    size: Bytes,
    area: Bytes,
    read_only: bool,
    tcp: Vec<SocketAddr>,
    thread: Option<JoinHandle<Result<ServerStats, ServeError>>>,
    learner: Option<LearnerThread>,
    watcher: Option<Watcher>,
    attached: Option<AttachReport>,
}

impl ServerHandle {
    /// The report of attaching a lasting area; `None` without one.
    #[must_use]
    pub const fn attached(&self) -> Option<&AttachReport> {
        self.attached.as_ref()
    }

    /// Size of the volume.
    #[must_use]
    pub const fn size(&self) -> Bytes {
        self.size
    }

    /// Size of the optimized area.
    #[must_use]
    pub const fn area(&self) -> Bytes {
        self.area
    }

    /// True if writes are refused.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The TCP addresses in use, with the actual ports.
    #[must_use]
    pub fn tcp_addresses(&self) -> &[SocketAddr] {
        &self.tcp
    }

    /// Counters so far.
    ///
    /// # Errors
    /// The server has stopped.
    pub fn stats(&self) -> Result<ServerStats, ServeError> {
        self.link.ask(Control::Stats)
    }

    /// The path of the emulated disk's head; empty without one.
    ///
    /// # Errors
    /// The server has stopped.
    pub fn head_path(&self) -> Result<Vec<HeadSample>, ServeError> {
        self.link.ask(Control::HeadPath)
    }

    /// Resets the emulated disk's counters and head path.
    ///
    /// # Errors
    /// The server has stopped.
    pub fn reset_disk_stats(&self) -> Result<(), ServeError> {
        self.link.send(Control::ResetDisk)
    }

    /// Executes an administrator's command; see [`Injector::command`].
    ///
    /// # Errors
    /// The server has stopped, or there is no room for a guard.
    pub fn command(&self, command: Command) -> Result<(), ServeError> {
        self.injector().command(command)
    }

    /// Moves to a layout in the background; [`ServerStats::progress`] shows the progress.
    ///
    /// # Errors
    /// The server has stopped.
    pub fn install(&self, plan: Plan) -> Result<(), ServeError> {
        self.link.send(Control::Install(plan))
    }

    /// Lets the learner plan now, and installs the plan. Returns the sectors that will have a copy;
    /// zero without a learner.
    ///
    /// # Errors
    /// The server has stopped.
    pub fn relearn(&self) -> Result<Sectors, ServeError> {
        let Some(learner) = &self.learner else { return Ok(Sectors(0)) };
        let (reply, answer) = sync_channel(1);
        learner.messages.send(Message::Relearn(reply)).map_err(|_| ServeError::Stopped)?;
        answer.recv().map(Sectors).map_err(|_| ServeError::Stopped)
    }

    /// The source of the learner's requests.
    #[must_use]
    pub fn streams(&self) -> Streams {
        self.learner.as_ref().map(|l| observe::read(&l.streams)).unwrap_or_default()
    }

    /// Waits until all moves are done; false after `most`.
    ///
    /// # Errors
    /// The server has stopped.
    pub fn wait_settled(&self, most: Duration) -> Result<bool, ServeError> {
        let start = std::time::Instant::now();
        while self.stats()?.progress.is_some() {
            if start.elapsed() > most {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(true)
    }

    /// A new client's end of a socket, for NBD.
    ///
    /// # Errors
    /// The server has stopped, or the host has no more sockets.
    pub fn connect(&self) -> Result<UnixStream, ServeError> {
        let (ours, theirs) = UnixStream::pair().map_err(cannot("make a pair of sockets"))?;
        self.link.send(Control::Client(theirs.into()))?;
        Ok(ours)
    }

    /// The watcher's board, if there is a watcher.
    #[must_use]
    pub fn board(&self) -> Option<Board> {
        self.watcher.as_ref().map(Watcher::board)
    }

    /// Access for other front ends.
    #[must_use]
    pub fn injector(&self) -> Injector {
        Injector { link: self.link.clone() }
    }

    /// Stops: takes no more requests, ends those in flight, and makes all writes durable.
    ///
    /// # Errors
    /// The loop failed, or the last writes could not be made durable.
    pub fn stop(mut self) -> Result<ServerStats, ServeError> {
        self.end().unwrap_or(Err(ServeError::Stopped))
    }

    /// Waits until the server ends by itself, after an error.
    ///
    /// # Errors
    /// The error.
    pub fn wait(mut self) -> Result<ServerStats, ServeError> {
        self.thread.take().and_then(|t| t.join().ok()).unwrap_or(Err(ServeError::Stopped))
    }

    fn end(&mut self) -> Option<Result<ServerStats, ServeError>> {
        // A server that has ended needs no command.
        let _ = self.link.send(Control::Stop);
        let result = self.thread.take()?.join().ok();
        if let Some(LearnerThread { messages, thread, .. }) = self.learner.take() {
            drop(messages);
            // The thread sees its ring abandoned.
            let _ = thread.join();
        }
        result
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.end();
    }
}

/// Sends requests to a volume from another thread.
#[derive(Clone)]
pub struct Injector {
    link: Link,
}

impl Injector {
    /// Counters so far.
    pub fn stats(&self) -> Result<ServerStats, ServeError> {
        self.link.ask(Control::Stats)
    }

    /// Executes an administrator's command. With an area elsewhere, nothing is absorbed before the
    /// guard is up. [`AreaStats::mode`](crate::AreaStats) and
    /// [`AreaStats::drained`](crate::AreaStats) show when a command is done.
    ///
    /// # Errors
    /// The server has stopped, or there is no room for a guard.
    pub fn command(&self, command: Command) -> Result<(), ServeError> {
        if command == Command::SetMode(Mode::WriteBack) && !self.link.guardable {
            return Err(ServeError::NoGuard);
        }
        self.link.send(Control::Command(command))
    }

    /// Free space for replicas, and the existing ones; `None` if the volume has no replicas.
    ///
    /// # Errors
    /// The server has stopped.
    pub(crate) fn room(&self) -> Result<Option<Room>, ServeError> {
        Room::of_parts(|from| self.link.ask(|reply| Control::Room(from, reply)))
    }

    /// Writes replicas in the background, at the pace of moves and before learned replicas. Skips a
    /// replica whose place is no longer free, or whose home has one already.
    ///
    /// # Errors
    /// The server has stopped.
    pub fn replicate(&self, list: Vec<Replica>) -> Result<(), ServeError> {
        self.link.send(Control::Replicate(list, true))
    }

    /// Starts a job; its reply is called at its end.
    ///
    /// # Errors
    /// The server has stopped; the reply is then never called.
    pub fn submit(&self, job: Job) -> Result<(), ServeError> {
        self.link.send(Control::Job(job))
    }

    /// Executes one request. `data` is the data of a write, or a buffer for a read; returns this
    /// buffer.
    ///
    /// # Errors
    /// The error of the request; [`Errno::Shutdown`] if the server has stopped.
    pub fn call(
        &self,
        op: Op,
        extent: Extent,
        flags: Flags,
        data: Vec<u8>,
    ) -> Result<Vec<u8>, Errno> {
        let (done, answer) = sync_channel(1);
        let reply = Box::new(move |result| {
            // The caller waits below.
            let _ = done.send(result);
        });
        self.submit(Job { op, extent, flags, data, reply }).map_err(|_| Errno::Shutdown)?;
        answer.recv().unwrap_or(Err(Errno::Shutdown))
    }
}
