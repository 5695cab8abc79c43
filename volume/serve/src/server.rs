//! The loop of a volume's thread: waits for sockets, worker threads, the emulated disk and commands
//! together. Takes no lock.

mod clients;
mod memory;
mod stats;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno as HostErrno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use seekless_block::{Extent, Flags, Op, SECTOR_BYTES};
use seekless_engine::{Command, RoomFrom};
use seekless_host::cannot;
use seekless_learn::{Plan, Replica};
use seekless_nbd::{Errno, Export};
use slab::Slab;

use crate::backend::emulated::HeadSample;
use crate::conn::{Conn, Owner, memory_of};
use crate::error::ServeError;
use crate::learner::{LearnerLink, RoomReply};
use crate::listen::{Accepted, Listener, Peer, is_hidden, process_of};
use crate::memory::Data;
use crate::memory_shares::ClientShare;
use crate::poll_or_sleep::{Eagerness, SPIN};
use crate::volume::{Finished, Volume};
pub use stats::{AdaptiveCounts, AreaStats, ServerStats};

/// Most clients; more are refused.
pub(crate) const CLIENTS_MAX: usize = 128;
/// While a client waits for memory, the others are looked at after this time; and clients that the
/// server could not accept are accepted.
const STALL_LOOK: Duration = Duration::from_secs(1);
/// Most events per call.
const EVENTS: usize = 64;
/// Most requests of one client in a row before others are checked.
const ALONE_MOST: u32 = 16;
/// A detach takes a pass over the map, a second or two; longer only if the area's device fails.
const DETACH_MOST: Duration = Duration::from_secs(60);
const BELL: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
const LISTENER: u64 = u64::MAX - 64;

/// The answer to a job: its buffer, filled by a read.
pub type Reply = Box<dyn FnOnce(Result<Vec<u8>, Errno>) + Send>;

/// A request from another front end than NBD.
pub struct Job {
    /// The operation.
    pub op: Op,
    /// The sectors; empty for a flush.
    pub extent: Extent,
    /// [`Flags::FUA`] or none.
    pub flags: Flags,
    /// The data of a write, or a buffer for a read, at least as long as the extent; else empty.
    pub data: Vec<u8>,
    /// Called on the volume's thread: it must not wait.
    pub reply: Reply,
}

/// Commands from other threads.
pub(crate) enum Control {
    Install(Plan),
    /// Replicas, and true if an administrator asks for them.
    Replicate(Vec<Replica>, bool),
    Room(RoomFrom, SyncSender<RoomReply>),
    Bypass(bool),
    Stats(SyncSender<ServerStats>),
    HeadPath(SyncSender<Vec<HeadSample>>),
    /// Asks for the clients that may be NBD devices of this host's kernel. The answer has the
    /// processes at the other ends of unix sockets. The answer also has the sectors of the volume,
    /// if a client of this host uses TCP.
    Peers(SyncSender<(Vec<i32>, Option<u64>)>),
    ResetDisk,
    /// An administrator's command.
    Command(Command),
    Client(OwnedFd),
    Job(Job),
    Stop,
}

/// An injected job in flight.
struct Injected {
    reply: Reply,
    /// The caller's length of the buffer.
    len: usize,
    flushes: bool,
}

pub(crate) struct Server {
    epoll: OwnedFd,
    timer: OwnedFd,
    volume: Volume<Owner>,
    conns: Slab<Conn>,
    /// Counts clients; forms the upper half of their tokens.
    served: u64,
    /// Clients that may not have chosen an export yet, by token, and the end of their time.
    greeting: VecDeque<(Instant, u64)>,
    /// Longest time of a client without an export.
    greeting_most: Duration,
    /// What each client has for itself.
    share: ClientShare,
    dirty: Vec<usize>,
    /// Clients with input for another turn.
    again: Vec<usize>,
    listeners: Vec<Listener>,
    /// Since when the listeners are not watched, because file descriptors or memory are short.
    deaf: Option<Instant>,
    control: Receiver<Control>,
    bell: Arc<OwnedFd>,
    exports: Arc<[Export]>,
    injected: Slab<Injected>,
    /// Failed flushes that the callers of injected jobs have heard of.
    failures_heard: u64,
    /// The newest plan, while the volume still moves to an earlier one.
    plan: Option<Plan>,
    learner: Option<LearnerLink>,
    stopping: bool,
    /// Path of the area, for messages.
    area_path: PathBuf,
    eagerness: Eagerness,
    /// The only client with recent input, and its number of turns in a row.
    alone: Option<(usize, u32)>,
}

impl Server {
    pub(crate) fn new(
        volume: Volume<Owner>,
        export: Export,
        (listeners, greeting_most, share): (Vec<Listener>, Duration, ClientShare),
        control: Receiver<Control>,
        bell: Arc<OwnedFd>,
        learner: Option<LearnerLink>,
        area_path: PathBuf,
    ) -> Result<Self, ServeError> {
        let server = Self {
            epoll: epoll::create(CreateFlags::CLOEXEC).map_err(cannot("make an epoll instance"))?,
            timer: timerfd_create(
                TimerfdClockId::Monotonic,
                TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
            )
            .map_err(cannot("make a timer"))?,
            volume,
            conns: Slab::with_capacity(CLIENTS_MAX),
            served: 0,
            greeting: VecDeque::with_capacity(CLIENTS_MAX),
            greeting_most,
            share,
            dirty: Vec::with_capacity(CLIENTS_MAX),
            again: Vec::with_capacity(CLIENTS_MAX),
            listeners,
            deaf: None,
            control,
            bell,
            exports: [export].into(),
            injected: Slab::with_capacity(1024),
            failures_heard: 0,
            plan: None,
            learner,
            stopping: false,
            area_path,
            eagerness: Eagerness::default(),
            alone: None,
        };
        epoll::add(&server.epoll, &server.timer, EventData::new_u64(TIMER), EventFlags::IN)
            .map_err(cannot("watch the timer"))?;
        epoll::add(&server.epoll, &server.bell, EventData::new_u64(BELL), EventFlags::IN)
            .map_err(cannot("watch the event descriptor"))?;
        Ok(server)
    }

    /// Serves until told to stop; then ends requests in flight and makes their data durable.
    pub(crate) fn run(mut self) -> Result<ServerStats, ServeError> {
        self.listen();
        let mut events = Vec::with_capacity(EVENTS);
        let mut resting = None;
        let mut failed = None;
        loop {
            self.turn(&mut events)?;
            if self.stopping && self.volume.is_idle() {
                // Unsent replies are dropped: those clients do not read.
                self.conns.clear();
                if self.volume.detach() {
                    break;
                }
                let waited = resting.get_or_insert_with(Instant::now).elapsed();
                let error = || ServeError::NotDetached { path: self.area_path.clone(), waited };
                if self.volume.detach_fails() {
                    failed = Some(error());
                    break;
                }
                if waited > DETACH_MOST {
                    return Err(error());
                }
            }
        }
        let stats = self.volume.stats(self.conns.len());
        drop(self.listeners);
        self.volume
            .stop()
            .map_err(|e| cannot("make the last writes durable")(std::io::Error::other(e)))?;
        failed.map_or(Ok(stats), Err)
    }

    /// Waits for events, and does all that they lead to.
    fn turn(&mut self, events: &mut Vec<epoll::Event>) -> Result<(), ServeError> {
        self.wait(events)?;
        self.volume.refresh();
        for event in events {
            self.event(*event);
        }
        while let Some(key) = self.again.pop() {
            self.mark(key);
        }
        self.settle();
        self.end_greetings();
        self.end_stalls(Instant::now());
        if self.deaf.is_some_and(|since| since.elapsed() >= STALL_LOOK) {
            self.listen();
        }
        Ok(())
    }

    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> Result<(), ServeError> {
        events.clear();
        let began = Instant::now();
        let mut next =
            if self.again.is_empty() { self.volume.idle_for() } else { Some(Duration::ZERO) };
        if let Some((end, _)) = self.greeting.front() {
            let left = end.saturating_duration_since(began);
            next = Some(next.map_or(left, |next| next.min(left)));
        }
        // Stalled clients, the longest wait for the area at the end, and clients that nobody hears.
        let stalls = self.volume.memories.payload.first().is_some();
        if self.stopping || self.deaf.is_some() || stalls {
            next = Some(next.map_or(STALL_LOOK, |next| next.min(STALL_LOOK)));
        }
        if next.is_none_or(|d| d > SPIN) && self.eagerness.wants_spin() {
            while began.elapsed() < SPIN {
                if self.look_at_alone() {
                    self.eagerness.spun(true);
                    return Ok(());
                }
                let now = Timespec { tv_sec: 0, tv_nsec: 0 };
                let spare = rustix::buffer::spare_capacity(events);
                match epoll::wait(&self.epoll, spare, Some(&now)) {
                    Ok(0) => {}
                    Ok(_) => {
                        self.eagerness.spun(true);
                        self.find_alone(events);
                        return Ok(());
                    }
                    Err(_) => break,
                }
                std::hint::spin_loop();
            }
            self.eagerness.spun(false);
            next = next.map(|d| d.saturating_sub(began.elapsed()));
        }
        // Older kernels count epoll's timeout in milliseconds, and an emulated disk must be
        // punctual: so this is a timer.
        let timeout = next.filter(Duration::is_zero).map(|_| Timespec::default());
        if let Some(d) = next.filter(|d| !d.is_zero()) {
            let most = Timespec { tv_sec: i64::MAX, tv_nsec: 0 };
            let it_value = d.try_into().unwrap_or(most);
            let once = Itimerspec { it_interval: Timespec::default(), it_value };
            timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)
                .map_err(cannot("set the timer"))?;
        }
        let spare = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
            Ok(_) | Err(HostErrno::INTR) => {
                self.eagerness.slept(began.elapsed());
                self.find_alone(events);
                Ok(())
            }
            Err(e) => Err(cannot("wait for events")(e).into()),
        }
    }

    fn find_alone(&mut self, events: &[epoll::Event]) {
        self.alone = match events {
            [event] if event.data.u64() < LISTENER => Some((key_of(event.data.u64()), 0)),
            _ => None,
        };
    }

    /// Receives directly from the only active client, which saves one call. Other clients are
    /// checked often enough.
    fn look_at_alone(&mut self) -> bool {
        let Some((key, times)) = &mut self.alone else { return false };
        let looks = *times < ALONE_MOST && self.conns.get_mut(*key).is_some_and(Conn::look);
        if looks {
            *times += 1;
            self.again.push(*key);
        }
        looks
    }

    fn event(&mut self, event: epoll::Event) {
        let token = event.data.u64();
        if token == TIMER {
            // Reading resets the timer; the volume reads the clock itself.
            let _ = rustix::io::read(&self.timer, &mut [0; 8]);
        } else if token == BELL {
            // Reading resets the event; its value has no meaning.
            let _ = rustix::io::read(&self.bell, &mut [0; 8]);
            while let Ok(control) = self.control.try_recv() {
                self.obey(control);
            }
        } else if token >= LISTENER {
            self.accept((token - LISTENER) as usize);
        } else {
            let key = key_of(token);
            let Some(conn) = self.conns.get_mut(key) else { return };
            let flags = event.flags;
            let mut over = false;
            if flags.contains(EventFlags::OUT) {
                over |= conn.flush(&mut self.volume).is_err();
            }
            if flags.intersects(EventFlags::IN) {
                over |= conn.receive(&mut self.volume, self.alone.is_some()).is_err();
            } else if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
                over = true;
            }
            if over { self.drop_conn(key) } else { self.mark(key) }
        }
    }

    /// After the events: finished requests, then replies, then input that waited for room.
    fn settle(&mut self) {
        self.volume.advance();
        self.adopt();
        loop {
            while let Some(finished) = self.volume.drain() {
                self.finished(finished);
            }
            let next = self.dirty.pop().or_else(|| self.next_admitted());
            let Some(key) = next else { break };
            self.attend(key);
        }
        if let Some(learner) = &self.learner
            && self.volume.observer_needs_room()
        {
            learner.call();
        }
    }

    /// Sends pending replies of a client, continues its waiting input, and updates the watched
    /// events.
    fn attend(&mut self, key: usize) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        conn.marked = false;
        let mut over = conn.flush(&mut self.volume).is_err();
        if !over && conn.starts_tls() {
            let _ = epoll::delete(&self.epoll, conn.fd());
            let data = EventData::new_u64(conn.token());
            over = conn.start_tls().is_err()
                || epoll::add(&self.epoll, conn.fd(), data, conn.watched).is_err();
        }
        if !over && conn.can_resume(&self.volume.memories.payload) {
            let alone = self.alone.is_some_and(|(only, _)| only == key);
            over =
                conn.act(&mut self.volume, alone).is_err() || conn.flush(&mut self.volume).is_err();
        }
        if over || conn.let_go().is_err() || conn.is_over() {
            return self.drop_conn(key);
        }
        // There may be room now, or the turn is over: other clients go first.
        if conn.can_resume(&self.volume.memories.payload) {
            self.again.push(key);
        }
        let (input, room) = conn.interest();
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, input);
        flags.set(EventFlags::OUT, room);
        if flags != conn.watched {
            conn.watched = flags;
            let data = EventData::new_u64(conn.token());
            if epoll::modify(&self.epoll, conn.fd(), data, flags).is_err() {
                self.drop_conn(key);
            }
        }
    }

    fn mark(&mut self, key: usize) {
        if let Some(conn) = self.conns.get_mut(key)
            && !conn.marked
        {
            conn.marked = true;
            self.dirty.push(key);
        }
    }

    fn finished(&mut self, mut finished: Finished<Owner>) {
        self.hear_of_failures(&mut finished);
        match finished.owner {
            Owner::Client { token, request } => {
                let key = key_of(token);
                match self.conns.get_mut(key).filter(|c| c.token() == token) {
                    Some(conn) => {
                        conn.finished(&request, finished, &mut self.volume);
                        self.mark(key);
                    }
                    // The client has gone.
                    None => {
                        self.volume.memories.payload.ended(memory_of(&request));
                        if let Some(buf) = finished.buf {
                            self.volume.memories.buffers.give(buf);
                        }
                    }
                }
            }
            Owner::Injected(key) => {
                if let Some(Injected { reply, len, .. }) = self.injected.try_remove(key) {
                    let mut data = finished.buf.unwrap_or_default();
                    data.truncate(len);
                    reply(finished.result.map(|()| data));
                }
            }
        }
    }

    /// See [`Volume::hear_of_failures`].
    fn hear_of_failures(&mut self, finished: &mut Finished<Owner>) {
        let heard = match finished.owner {
            Owner::Client { token, request } if request.command == seekless_nbd::Command::Flush => {
                self.conns.get_mut(key_of(token)).map(|conn| &mut conn.failures_heard)
            }
            Owner::Injected(key) if self.injected.get(key).is_some_and(|job| job.flushes) => {
                Some(&mut self.failures_heard)
            }
            _ => None,
        };
        if let Some(heard) = heard {
            finished.result = self.volume.hear_of_failures(heard, finished.result);
        }
    }

    fn obey(&mut self, control: Control) {
        match control {
            Control::Install(plan) => {
                self.plan = Some(plan);
                self.adopt();
            }
            Control::Replicate(list, soon) => self.volume.replicate(list, soon),
            // The caller may have stopped waiting.
            Control::Room(from, reply) => {
                let _ = reply.send(self.volume.room(from));
            }
            Control::Bypass(on) => self.volume.bypass(on),
            Control::Stats(reply) => {
                let _ = reply.send(self.volume.stats(self.conns.len()));
            }
            Control::HeadPath(reply) => {
                let _ = reply.send(self.volume.head_path());
            }
            Control::Peers(reply) => {
                let conns = || self.conns.iter().map(|(_, conn)| conn);
                let pids = conns().filter_map(|conn| process_of(conn.fd())).collect();
                // Another process may serve the kernel's device now, or this process cannot see the
                // device.
                let unknown =
                    |c: &Conn| !matches!(c.peer, Some(Peer::Machine(_))) && is_hidden(c.fd());
                let local = conns().any(|c| c.peer == Some(Peer::Here) || unknown(c));
                let size = self.exports.first().map(|export| export.size / SECTOR_BYTES);
                let _ = reply.send((pids, size.filter(|_| local)));
            }
            Control::ResetDisk => self.volume.reset_disk_stats(),
            Control::Command(command) => self.volume.command(command),
            Control::Client(fd) => self.admit(Accepted { fd, peer: None, tls: None }),
            Control::Job(job) => self.inject(job),
            Control::Stop => {
                self.stopping = true;
                self.listeners.clear();
                for (key, conn) in &mut self.conns {
                    conn.leave();
                    conn.marked = true;
                    self.dirty.push(key);
                }
            }
        }
    }

    fn inject(&mut self, job: Job) {
        let Job { op, extent, flags, data, reply } = job;
        let needs = if matches!(op, Op::Read | Op::Write) { extent.bytes().0 } else { 0 };
        if self.stopping || (data.len() as u64) < needs {
            return reply(Err(if self.stopping { Errno::Shutdown } else { Errno::Inval }));
        }
        let key =
            self.injected.insert(Injected { reply, len: data.len(), flushes: op == Op::Flush });
        let data = Data::Owned(data);
        let owner = Owner::Injected(key);
        if let Some(result) = self.volume.start(owner, op, extent, flags, data) {
            self.finished(Finished { owner, result, buf: None, runs: Vec::new() });
        }
    }

    /// Starts the newest plan after the current move. A plan that interrupts a move could keep all
    /// moves from ending.
    fn adopt(&mut self) {
        if !self.volume.is_moving()
            && let Some(plan) = self.plan.take()
        {
            self.volume.install(plan);
        }
    }

    fn listen(&mut self) {
        self.deaf = None;
        for (i, listener) in self.listeners.iter().enumerate() {
            let data = EventData::new_u64(LISTENER + i as u64);
            // A listener that cannot be watched does not affect the others.
            let _ = epoll::add(&self.epoll, listener.fd(), data, EventFlags::IN);
        }
    }
}

const fn key_of(token: u64) -> usize {
    (token & 0xFFFF_FFFF) as usize
}
