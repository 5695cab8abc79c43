//! A running server, and how other threads reach its volume.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use seekless_block::{Bytes, Extent, Flags, Op};
use seekless_engine::{AttachReport, Command, Mode};
use seekless_host::reserve::Reserve;
use seekless_host::{Users, cannot};
use seekless_learn::{Plan, Policy, PolicyName, Replica};
use seekless_nbd::Errno;

use crate::backend::emulated::HeadSample;
use crate::backend::workers::ring;
use crate::error::ServeError;
use crate::learner::{LearnerThread, Message, Room};
use crate::observe::{self, Streams};
use crate::server::{Control, Job, ServerStats};
use crate::shadow::Shadow;
use crate::tap::TapEnd;
use crate::watch::{self, About, Board, Sources, Watcher};

/// A running server. Dropping it stops it.
pub struct ServerHandle {
    pub(crate) volume: Injector,
    pub(crate) size: Bytes,
    pub(crate) area: Bytes,
    /// Length of the staging memory.
    pub(crate) stage: Bytes,
    /// The bound on all memory, and pages of RAM; `None` without a bound.
    pub(crate) memory: Option<(Bytes, Bytes)>,
    pub(crate) read_only: bool,
    pub(crate) policy: Policy,
    pub(crate) tcp: Vec<SocketAddr>,
    pub(crate) thread: Option<JoinHandle<Result<ServerStats, ServeError>>>,
    pub(crate) learner: Option<LearnerThread>,
    pub(crate) watcher: Option<Watcher>,
    pub(crate) attached: Option<AttachReport>,
    pub(crate) notes: Vec<String>,
    /// Memory for the kernel's work on the server's own writes, where the volume is mounted here.
    pub(crate) _reserve: Option<Reserve>,
}

impl ServerHandle {
    /// The report of attaching a lasting area; `None` without one.
    pub const fn attached(&self) -> Option<&AttachReport> {
        self.attached.as_ref()
    }

    /// Notes for the administrator: which other users may open the server's files.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Size of the volume.
    pub const fn size(&self) -> Bytes {
        self.size
    }

    /// Size of the optimized area.
    pub const fn area(&self) -> Bytes {
        self.area
    }

    /// The bound on all memory, and the pages of RAM within it; `None` without a bound.
    pub const fn memory(&self) -> Option<(Bytes, Bytes)> {
        self.memory
    }

    /// The policy in use.
    pub const fn policy(&self) -> Policy {
        self.policy
    }

    /// Why no plan can be made; `None` with a learner.
    pub fn plans_nothing(&self) -> Option<String> {
        let does = match self.policy.name() {
            PolicyName::Adaptive => "decides at each request",
            _ => "learns nothing",
        };
        let name = self.policy.name().name();
        let learner = self.learner.is_some();
        (!learner).then(|| format!("there is nothing to plan: the policy {name} {does}"))
    }

    /// True if writes are refused.
    pub(crate) const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The TCP addresses in use, with the actual ports.
    pub fn tcp_addresses(&self) -> &[SocketAddr] {
        &self.tcp
    }

    /// Counters so far.
    pub fn stats(&self) -> Result<ServerStats, ServeError> {
        self.volume.stats()
    }

    /// The path of the emulated disk's head; empty without one.
    pub fn head_path(&self) -> Result<Vec<HeadSample>, ServeError> {
        self.volume.ask(Control::HeadPath)
    }

    /// Resets the emulated disk's counters and head path.
    pub fn reset_disk_stats(&self) -> Result<(), ServeError> {
        self.volume.send(Control::ResetDisk)
    }

    /// Executes an administrator's command; see [`Injector::command`].
    pub fn command(&self, command: Command) -> Result<(), ServeError> {
        self.volume.command(command)
    }

    /// Moves to a layout in the background; [`ServerStats::progress`] shows the progress.
    pub fn install(&self, plan: Plan) -> Result<(), ServeError> {
        self.volume.send(Control::Install(plan))
    }

    /// Lets the learner plan, and waits for nothing. The answer comes once the plan is installed:
    /// the sectors that will have a copy. None comes from a learner that has ended.
    pub fn plan(&self) -> Receiver<u64> {
        let (reply, answer) = sync_channel(1);
        if let Some(learner) = &self.learner {
            // A message that is not sent is dropped, and ends the wait for the answer.
            let _ = learner.messages.send(Message::Relearn(reply));
        }
        answer
    }

    /// The source of the learner's requests.
    pub fn streams(&self) -> Streams {
        self.learner.as_ref().map(|l| observe::read(&l.streams)).unwrap_or_default()
    }

    /// Waits until all moves are done; false after `most`.
    pub fn wait_settled(&self, most: Duration) -> Result<bool, ServeError> {
        let start = Instant::now();
        while self.stats()?.progress.is_some() {
            if start.elapsed() > most {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(true)
    }

    /// A new client's end of a socket, for NBD.
    pub fn connect(&self) -> Result<UnixStream, ServeError> {
        let (ours, theirs) = UnixStream::pair().map_err(cannot("make a pair of sockets"))?;
        self.volume.send(Control::Client(theirs.into()))?;
        Ok(ours)
    }

    /// The watcher's board, if there is a watcher.
    pub fn board(&self) -> Option<Board> {
        self.watcher.as_ref().map(Watcher::board)
    }

    pub(crate) fn watch(
        &mut self,
        about: About,
        shadow: Option<Box<dyn Shadow>>,
        tap: TapEnd,
        emulated: bool,
    ) -> Result<(), ServeError> {
        let sources = Sources {
            volume: self.injector(),
            tap,
            learned: self.learner.as_ref().map(|l| Arc::clone(&l.learned)),
            streams: self.learner.as_ref().map(|l| Arc::clone(&l.streams)),
            size: self.size,
            area: self.area,
            read_only: self.read_only,
            emulated,
            adapts: self.policy.name() == PolicyName::Adaptive,
        };
        self.watcher = Some(watch::start(sources, about, shadow)?);
        Ok(())
    }

    /// Access for other front ends.
    pub fn injector(&self) -> Injector {
        self.volume.clone()
    }

    /// Stops: takes no more requests, ends those in flight, and makes all writes durable.
    pub fn stop(mut self) -> Result<ServerStats, ServeError> {
        self.end().unwrap_or(Err(ServeError::Stopped))
    }

    /// Waits until the server ends by itself, after an error.
    pub fn wait(mut self) -> Result<ServerStats, ServeError> {
        self.thread.take().and_then(|t| t.join().ok()).unwrap_or(Err(ServeError::Stopped))
    }

    fn end(&mut self) -> Option<Result<ServerStats, ServeError>> {
        // A server that has ended needs no command.
        let _ = self.volume.send(Control::Stop);
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
    pub(crate) control: Sender<Control>,
    pub(crate) bell: Arc<OwnedFd>,
    /// True if a guard can protect home.
    pub(crate) guardable: bool,
}

impl Injector {
    pub(crate) fn send(&self, control: Control) -> Result<(), ServeError> {
        self.control.send(control).map_err(|_| ServeError::Stopped)?;
        ring(&self.bell);
        Ok(())
    }

    fn ask<T>(&self, question: impl FnOnce(SyncSender<T>) -> Control) -> Result<T, ServeError> {
        let (reply, answer) = sync_channel(1);
        self.send(question(reply))?;
        answer.recv().map_err(|_| ServeError::Stopped)
    }

    /// Counters so far.
    pub fn stats(&self) -> Result<ServerStats, ServeError> {
        self.ask(Control::Stats)
    }

    /// Executes an administrator's command. With an area elsewhere, nothing is absorbed before the
    /// guard is up. [`AreaStats::mode`](crate::AreaStats) and
    /// [`AreaStats::drained`](crate::AreaStats) show when a command is done.
    pub fn command(&self, command: Command) -> Result<(), ServeError> {
        if command == Command::SetMode(Mode::WriteBack) && !self.guardable {
            return Err(ServeError::NoGuard);
        }
        self.send(Control::Command(command))
    }

    /// The users of the volume on this host: of its mount, and of NBD devices that are mounted or
    /// used in another way. Programs that speak NBD themselves do not count.
    pub fn users(&self, mount: Option<&Path>) -> Users {
        let users = mount.map(Users::of_file).unwrap_or_default();
        let (pids, sectors) = self.ask(Control::Peers).unwrap_or_default();
        users.and(Users::of_nbd(&pids, sectors))
    }

    /// Free space for replicas, and the existing ones; `None` if the volume has no replicas.
    pub(crate) fn room(&self) -> Result<Option<Room>, ServeError> {
        Room::of_parts(|from| self.ask(|reply| Control::Room(from, reply)))
    }

    /// Writes replicas in the background, at the pace of moves and before learned replicas. Skips a
    /// replica if its place is no longer free, or if its home has a replica already.
    pub fn replicate(&self, list: Vec<Replica>) -> Result<(), ServeError> {
        self.send(Control::Replicate(list, true))
    }

    /// Starts a job; its reply is called at its end.
    pub fn submit(&self, job: Job) -> Result<(), ServeError> {
        self.send(Control::Job(job))
    }

    /// Executes one request. `data` is the data of a write, or a buffer for a read; returns this
    /// buffer.
    /// The error is the request's, or [`Errno::Shutdown`].
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
