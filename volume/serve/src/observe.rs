//! The source of the learner's requests. The kernel's block trace of the clients' device has the
//! thread of each request; the volume's own requests are all alike. One source counts at a time.

use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use seekless_block::{Request, Sectors, StreamId};

use crate::capture::{self, BlockDevice, CaptureError, Config, Recorder};
use crate::error::ServeError;
use crate::stop_in_order::in_one_line;

/// Interval between looks for a missing device.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Longest wait for a missing device.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// Interval between polls of a recorder.
pub(crate) const POLL_EVERY: Duration = Duration::from_millis(50);
/// Pause of the kernel's trace after lost events.
const REST: Duration = Duration::from_secs(60);
/// Longest delay from a request in the trace to the volume: within it, the volume's requests do not
/// count again.
const LAG: Duration = Duration::from_secs(1);
/// With this number of requests to the volume and none in the trace, the device is another one.
const UNSEEN_MAX: u64 = 1_000;
/// Most streams: thread numbers are folded to this range, so that memory stays bounded.
const STREAMS: u32 = 1 << 16;
/// The kernel may round a device's size down to a page.
const ROUNDED: u64 = 8;

/// The source of the learner's requests, for watchers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// The observed device; `None`: the volume's own requests, without processes.
    pub observed: Option<PathBuf>,
    /// The reason in words; empty if no device was named.
    pub note: String,
    /// Events that the kernel lost since the start.
    pub lost_events: u64,
}

impl fmt::Display for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.observed {
            Some(device) => write!(f, "each thread's its own, observed on {}", device.display())?,
            None => f.write_str("all requests are one")?,
        }
        if self.note.is_empty() { Ok(()) } else { write!(f, " ({})", self.note) }
    }
}

/// [`Streams`], shared with the status page.
pub(crate) type SharedStreams = Arc<Mutex<Streams>>;

/// The present state. Plain data: a panic elsewhere cannot leave it half changed.
pub(crate) fn read(streams: &Mutex<Streams>) -> Streams {
    streams.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The trace of one device. Tests have their own.
pub(crate) trait Trace: Send {
    /// Checks that the device is there and belongs to the volume.
    fn ready(&mut self) -> Result<(), NotReady>;
    /// Starts to record.
    fn start(&mut self) -> Result<(), CaptureError>;
    /// Passes on the requests since the last call. Returns the number of events lost since the
    /// start.
    fn take(&mut self, each: &mut dyn FnMut(&Request)) -> Result<u64, CaptureError>;
    /// Ends the recording, and passes on its last requests.
    fn stop(&mut self, each: &mut dyn FnMut(&Request));
}

/// Reason why a device is not observed.
#[derive(Debug)]
pub(crate) enum NotReady {
    /// It may be ready later.
    Yet(String),
    /// It will never be ready.
    Ever(ServeError),
}

enum ObserverState {
    /// For the device, or for the end of a pause.
    Waiting {
        from: Instant,
        until: Instant,
        looked: Option<Instant>,
    },
    Recording {
        looked: Instant,
        seen: bool,
        unseen: u64,
    },
    GivenUp,
}

/// Chooses between the two sources. Its owner passes the time, and uses one thread.
pub(crate) struct Observer {
    device: PathBuf,
    trace: Box<dyn Trace>,
    state: ObserverState,
    /// After a recording, the volume's own requests count from this time on.
    own_from: Option<Instant>,
    /// Events lost by earlier recordings.
    lost: u64,
    streams: SharedStreams,
}

impl Observer {
    pub(crate) fn new(device: &Path, trace: Box<dyn Trace>, now: Instant) -> Self {
        let note = format!("waiting for {}", device.display());
        let streams = Streams { note, ..Streams::default() };
        Self {
            device: device.to_owned(),
            trace,
            state: ObserverState::Waiting { from: now, until: now + WAIT_MAX, looked: None },
            own_from: None,
            lost: 0,
            streams: Arc::new(Mutex::new(streams)),
        }
    }

    pub(crate) fn streams(&self) -> SharedStreams {
        Arc::clone(&self.streams)
    }

    /// Time until [`Self::look`] is due.
    pub(crate) fn patience(&self) -> Duration {
        if matches!(self.state, ObserverState::Recording { .. }) { POLL_EVERY } else { LOOK_EVERY }
    }

    /// True if the learner should take this request from the volume.
    pub(crate) fn takes_own(&mut self, now: Instant) -> bool {
        match &mut self.state {
            ObserverState::Recording { unseen, .. } => {
                *unseen += 1;
                false
            }
            _ => self.own_from.is_none_or(|from| now >= from),
        }
    }

    /// Passes on the trace's requests, and changes the source if necessary. The volume's own
    /// requests must be taken just before.
    pub(crate) fn look(&mut self, now: Instant, each: &mut dyn FnMut(&Request)) {
        match self.state {
            ObserverState::Waiting { from, until, looked } => {
                let soon = looked.is_some_and(|at| now < at + LOOK_EVERY);
                if now < from || soon {
                    return;
                }
                self.state = ObserverState::Waiting { from, until, looked: Some(now) };
                self.await_device(now, until);
            }
            ObserverState::Recording { .. } => self.record(now, each),
            ObserverState::GivenUp => {}
        }
    }

    fn await_device(&mut self, now: Instant, until: Instant) {
        match self.trace.ready() {
            Ok(()) => match self.trace.start() {
                Ok(()) => {
                    self.state = ObserverState::Recording { looked: now, seen: false, unseen: 0 };
                    let device = self.device.clone();
                    self.tell(Some(device), String::new());
                }
                Err(error) => self.give_up(&error.to_string()),
            },
            Err(NotReady::Yet(why)) if now >= until => {
                let minutes = WAIT_MAX.as_secs() / 60;
                self.give_up(&format!("{why}; waited {minutes} minutes for it"));
            }
            Err(NotReady::Yet(why)) => {
                let note = format!("waiting for {}: {why}", self.device.display());
                self.tell(None, note);
            }
            Err(NotReady::Ever(error)) => self.give_up(&in_one_line(&error)),
        }
    }

    fn record(&mut self, now: Instant, each: &mut dyn FnMut(&Request)) {
        let ObserverState::Recording { looked, seen, unseen } = &mut self.state else { return };
        let taken = self.trace.take(&mut |request| {
            *seen = true;
            each(request);
        });
        let is_another = !*seen && *unseen > UNSEEN_MAX;
        let check = now >= *looked + LOOK_EVERY;
        if check {
            *looked = now;
        }
        let name = self.device.display();
        let (why, rest) = match taken {
            Err(error) => (error.to_string(), Some(REST)),
            Ok(lost @ 1..) => {
                self.lost += lost;
                let why = format!(
                    "the kernel lost {lost} events of {name}: its buffer was full; it is observed again in {} s",
                    REST.as_secs()
                );
                (why, Some(REST))
            }
            Ok(0) if is_another => {
                let why = format!(
                    "{name} had no requests while this volume had {UNSEEN_MAX}: name the device that clients use"
                );
                (why, None)
            }
            Ok(0) => match check.then(|| self.trace.ready()) {
                None | Some(Ok(())) => return,
                Some(Err(NotReady::Yet(why))) => {
                    (format!("waiting for {name} to come back: {why}"), Some(Duration::ZERO))
                }
                Some(Err(NotReady::Ever(error))) => (in_one_line(&error), None),
            },
        };
        self.trace.stop(each);
        self.own_from = Some(now + LAG);
        match rest {
            Some(rest) => {
                let from = now + rest;
                self.state =
                    ObserverState::Waiting { from, until: from + WAIT_MAX, looked: Some(now) };
                self.tell(None, why);
            }
            None => self.give_up(&why),
        }
    }

    fn give_up(&mut self, why: &str) {
        self.state = ObserverState::GivenUp;
        self.tell(None, format!("{why}; the server observes again after its next start"));
    }

    fn tell(&self, observed: Option<PathBuf>, note: String) {
        let lost_events = self.lost;
        *self.streams.lock().unwrap_or_else(PoisonError::into_inner) =
            Streams { observed, note, lost_events };
    }
}

/// The kernel's trace of a device that is the whole volume, or a partition of it.
pub(crate) struct KernelTrace {
    device: PathBuf,
    volume: Sectors,
    /// The disks below the backing.
    below: BTreeSet<(u32, u32)>,
    recorder: Option<Recorder>,
    /// First sector of the device on the volume.
    start: u64,
}

impl KernelTrace {
    /// Checks as much as possible before the device is there.
    pub(crate) fn new(
        device: &Path,
        volume: Sectors,
        backing: Option<&Path>,
    ) -> Result<Self, ServeError> {
        let device = device.to_owned();
        let below = backing.map(capture::disks_below).unwrap_or_default();
        let mut trace = Self { device, volume, below, recorder: None, start: 0 };
        capture::check().map_err(|source| trace.refusal(source))?;
        match trace.ready() {
            Err(NotReady::Ever(error)) => Err(error),
            Ok(()) | Err(NotReady::Yet(_)) => Ok(trace),
        }
    }

    /// True if another disk has the device's number: the kernel reuses the numbers of loop devices.
    fn is_replaced(&self, found: &BlockDevice) -> bool {
        let recorded = self.recorder.as_ref().map(Recorder::device);
        recorded.is_some_and(|r| r.disk != found.disk || r.sequence != found.sequence)
    }

    fn refusal(&self, source: CaptureError) -> ServeError {
        ServeError::Observe { device: self.device.clone(), source }
    }
}

impl Trace for KernelTrace {
    fn ready(&mut self) -> Result<(), NotReady> {
        let found = match (BlockDevice::find(&self.device), self.device.metadata()) {
            (Ok(found), _) => found,
            (Err(error), Ok(meta)) if !meta.file_type().is_block_device() => {
                return Err(NotReady::Ever(self.refusal(error)));
            }
            (Err(_), Ok(_)) => return Err(NotReady::Yet("its driver is not there".to_owned())),
            (Err(_), Err(_)) => return Err(NotReady::Yet("it is not there".to_owned())),
        };
        if self.below.contains(&found.disk) {
            return Err(NotReady::Ever(ServeError::ObserveBacking(self.device.clone())));
        }
        let (has, wants) = (found.disk_sectors, self.volume.0);
        if has == 0 {
            return Err(NotReady::Yet("nothing is attached to it".to_owned()));
        }
        if has > wants || wants - has >= ROUNDED {
            return Err(NotReady::Yet(format!(
                "its disk has {has} sectors, and the volume has {wants}: it is another disk, or a part"
            )));
        }
        if self.is_replaced(&found) {
            return Err(NotReady::Yet("another disk is attached to it now".to_owned()));
        }
        self.start = found.partition.map_or(0, |p| p.start.0);
        Ok(())
    }

    fn start(&mut self) -> Result<(), CaptureError> {
        self.recorder = Some(Recorder::start(&Config::new(&self.device))?);
        Ok(())
    }

    fn take(&mut self, each: &mut dyn FnMut(&Request)) -> Result<u64, CaptureError> {
        let Some(recorder) = &mut self.recorder else { return Ok(0) };
        recorder.poll()?;
        self.pass_on(each);
        Ok(self.recorder.as_ref().map_or(0, Recorder::lost_events))
    }

    fn stop(&mut self, each: &mut dyn FnMut(&Request)) {
        if let Some(recorder) = &mut self.recorder {
            // Errors no longer matter.
            let _ = recorder.stop();
            self.pass_on(each);
        }
        self.recorder = None;
    }
}

impl KernelTrace {
    /// Passes on the records, unless another disk may be attached. A device without a disk cannot
    /// have had new requests.
    fn pass_on(&mut self, each: &mut dyn FnMut(&Request)) {
        let found = self.recorder.as_ref().and_then(|r| r.device().again());
        let others = found.is_some_and(|f| f.disk_sectors > 0 && self.is_replaced(&f));
        let Some(recorder) = &mut self.recorder else { return };
        if others {
            while recorder.next_record().is_some() {}
        } else {
            drain(recorder, self.start, each);
        }
    }
}

/// The stream of a request is its thread, also for kernel threads.
fn drain(recorder: &mut Recorder, start: u64, each: &mut dyn FnMut(&Request)) {
    while let Some(record) = recorder.next_record() {
        let mut request = record.request;
        let pid = recorder.streams().get(request.stream.0 as usize).map_or(0, |s| s.pid);
        request.stream = StreamId(pid % STREAMS);
        request.extent.start.0 = request.extent.start.0.saturating_add(start);
        each(&request);
    }
    if recorder.streams().len() > STREAMS as usize {
        recorder.forget_streams();
    }
}

#[cfg(test)]
mod tests;
