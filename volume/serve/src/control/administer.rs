//! Administration of a volume, with or without a server.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use seekless_block::{Bytes, Extent, PAGE_SECTORS, Sectors};
use seekless_engine::format::CopyState;
use seekless_engine::{AttachError, Command, Mode, examine};
use serde_json::Value;

use super::ask::{self, AskError, ask};
use super::socket::server_of;
use super::state::{ReplicaState, VOLUME_SCHEMA, VolumeState, mode_name};
use super::{Placed, VolumeCommand};
use crate::area::{self, Lasting};
use crate::ublk::ensure_no_device_waits;
use crate::{Address, Backing, Builder, ServeError, ServerHandle};

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Work without progress for this long is stuck.
const STUCK: Duration = Duration::from_secs(20);
/// Longest wait for a server to end, once everything is at home.
const END_MOST: Duration = Duration::from_secs(60);
/// Extents that one command carries.
const EXTENTS_A_COMMAND: usize = 1_000;

/// A command was not carried out.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum AdministerError {
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("{}: the area cannot be attached in its present state", place.display())]
    Area {
        place: PathBuf,
        #[source]
        source: Box<AttachError>,
    },
    #[error("{}: this user can see no server of this volume; start `seekless serve`, or use the server's user", .0.display())]
    NotServed(PathBuf),
    #[error("{}: a server serves this volume; run `seekless volume detach` first", .0.display())]
    Served(PathBuf),
    #[error("{}: in use, and nothing was changed: {by}. `--force` disconnects its users", backing.display())]
    InUse { backing: PathBuf, by: String },
    #[error(
        "{}: holds no area: name its area with --area", .0.display()
    )]
    NoArea(PathBuf),
    #[error(
        "{}: its area was not made for replicas: `seekless volume format --replicas` makes one",
        .0.display()
    )]
    NoReplicas(PathBuf),
    #[error("{extent} lies past the end of the volume, {volume}")]
    PastEnd { extent: Extent, volume: Bytes },
    #[error("no progress for {STUCK:?}: {left} are not at home yet{why}. The area still has them")]
    NotDrained { left: Bytes, why: String },
    #[error(
        "the guard of the disk and the area's superblock could not be written for {STUCK:?}{why}"
    )]
    ModeNotChanged { why: String },
    #[error("no replica was written for {STUCK:?}; `seekless volume status` shows the progress")]
    NotReplicated,
    #[error(
        "no copy was compared with home for {STUCK:?}: {left} are left{why}. No read uses them"
    )]
    NotProven { left: Bytes, why: String },
    #[error("drained, but the server has not ended{why}")]
    NotEnded { why: String },
    #[error(
        "{}: drained, and its server has ended; but another server serves it now: first stop what starts servers of it",
        .0.display()
    )]
    ServedAgain(PathBuf),
}

/// A running server, or a volume opened here.
enum Reached {
    Server(Address),
    Here(Box<ServerHandle>),
}

/// Tells a slow command from a stuck one. A command is stuck if nothing goes on for a while.
#[derive(Debug)]
struct Watch {
    most: Duration,
    since: Instant,
    /// The least that was left.
    least: u64,
    /// See [`VolumeState::homeward_bytes`].
    homeward: u64,
}

impl Watch {
    fn new(most: Duration) -> Self {
        Self { most, since: Instant::now(), least: u64::MAX, homeward: 0 }
    }

    /// For work other than writing home: what else is written meanwhile is no progress of it.
    fn of_other_work(most: Duration) -> Self {
        Self { homeward: u64::MAX, ..Self::new(most) }
    }

    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.since) > self.most
    }

    /// Notes a state with this much left; true if nothing has gone on for too long. Bytes that are
    /// written count as long as nothing fails: a try that is repeated is no progress.
    fn is_stuck(&mut self, now: Instant, state: &VolumeState, left: u64) -> bool {
        let writes = state.homeward_bytes > self.homeward && state.trouble.is_none();
        if left < self.least || writes {
            self.since = now;
        }
        self.least = self.least.min(left);
        self.homeward = self.homeward.max(state.homeward_bytes);
        self.is_over(now)
    }
}

/// A volume under administration.
pub struct Administered {
    backing: PathBuf,
    reached: Reached,
}

/// The result of [`Administered::prove`].
#[derive(Clone, Copy, Debug)]
pub struct Proven {
    /// Copies in doubt at first.
    pub doubted: Bytes,
    /// Copies that became usable meanwhile.
    pub usable: Bytes,
    /// Time until none was in doubt.
    pub took: Duration,
}

/// Progress of a long command: bytes left.
pub type Progress<'a> = &'a mut dyn FnMut(Bytes);

impl Administered {
    /// Reaches the server of a volume, or opens a volume without a server. `moved`: the backing may
    /// have another name than when its area was made.
    pub fn reach(
        backing: &Path,
        area: Option<&Path>,
        moved: bool,
    ) -> Result<Self, AdministerError> {
        let reached = match server_of(backing)? {
            Some(address) => Reached::Server(address),
            None => Reached::Here(Box::new(open_here(backing, area, moved)?)),
        };
        Ok(Self { backing: backing.to_owned(), reached })
    }

    /// Reaches the server of a volume.
    pub fn served(backing: &Path) -> Result<Self, AdministerError> {
        let address =
            server_of(backing)?.ok_or_else(|| AdministerError::NotServed(backing.to_owned()))?;
        Ok(Self { backing: backing.to_owned(), reached: Reached::Server(address) })
    }

    /// The state of the volume.
    pub fn state(&self) -> Result<VolumeState, AdministerError> {
        Ok(match &self.reached {
            Reached::Server(address) => ask(address, None, "/state")?,
            Reached::Here(server) => {
                let sizes = (server.size(), server.area());
                VolumeState::of(&self.backing, sizes, &server.stats()?, None)
            }
        })
    }

    /// Has the server plan again from everything learned.
    pub fn replan(&self) -> Result<(), AdministerError> {
        self.command(&VolumeCommand::Replan)
    }

    /// Writes home all data that is only in the area. The write buffer takes no more data.
    pub fn drain(self, progress: Progress<'_>) -> Result<(), AdministerError> {
        self.command(&VolumeCommand::Engine(Command::Drain))?;
        self.wait_drained(false, progress)?;
        self.close()
    }

    /// Changes the mode, and waits until it is in force.
    pub fn set_mode(self, mode: Mode, progress: Progress<'_>) -> Result<(), AdministerError> {
        self.command(&VolumeCommand::Engine(Command::SetMode(mode)))?;
        if mode == Mode::WriteThrough {
            self.wait_drained(true, progress)?;
        }
        let left = |state: &VolumeState| (state.mode != mode_name(mode)).then_some((0, false));
        let stuck = |_, why| AdministerError::ModeNotChanged { why };
        self.wait(LOOK_EVERY, Watch::new(STUCK), left, &mut |_| {}, stuck)?;
        self.close()
    }

    /// Drains the volume, then ends its server, if there is one, with the area saved. Refused while
    /// the volume is in use, before anything changes; with `force`, its users are cut off, and
    /// returned in words.
    pub fn detach(self, force: bool, progress: Progress<'_>) -> Result<String, AdministerError> {
        if let (Reached::Server(address), false) = (&self.reached, force) {
            let by: String = ask::command(address, &VolumeCommand::Users)?;
            if !by.is_empty() {
                return Err(AdministerError::InUse { backing: self.backing, by });
            }
        }
        self.command(&VolumeCommand::Engine(Command::Drain))?;
        let mut last = self.wait_drained(false, progress)?;
        let Reached::Server(address) = &self.reached else {
            return self.close().map(|()| String::new());
        };
        let cut_off: String = ask::command(address, &VolumeCommand::Stop { force })?;
        let (mut watch, started) = (Watch::new(END_MOST), last.started_unix_ms);
        while server_of(&self.backing)?.is_some() {
            // A server that ends, and one that saves a large area, may not answer.
            last = ask(address, None, "/state").unwrap_or(last);
            // What the next server writes is no progress of this one.
            if last.started_unix_ms != started {
                return Err(AdministerError::ServedAgain(self.backing));
            }
            if watch.is_stuck(Instant::now(), &last, 0) {
                return Err(AdministerError::NotEnded { why: last.why() });
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(cut_off)
    }

    /// Waits until every copy that an unclean stop left in doubt was compared with its home (FS2,
    /// SOSP'05, 3.3: `chkfs2`).
    pub fn prove(self, progress: Progress<'_>) -> Result<Proven, AdministerError> {
        let start = Instant::now();
        let before = self.state()?;
        let mut last = before.in_doubt_bytes;
        let left = |state: &VolumeState| {
            let left = state.in_doubt_bytes;
            let goes_on = std::mem::replace(&mut last, left) != left;
            (left > 0).then_some((left, goes_on))
        };
        let stuck = |left, why| AdministerError::NotProven { left, why };
        let watch = Watch::of_other_work(STUCK);
        let after = self.wait(LOOK_EVERY, watch, left, progress, stuck)?;
        let usable = Bytes(after.copied_bytes.saturating_sub(before.copied_bytes));
        self.close()?;
        Ok(Proven { doubted: Bytes(before.in_doubt_bytes), usable, took: start.elapsed() })
    }

    /// Replicates the pages of `homes` in free space close to `near`, and waits until the replicas
    /// are written. Returns the pages placed, and the bytes of all replicas.
    pub fn replicate(
        &self,
        near: Extent,
        homes: &[Extent],
        progress: Progress<'_>,
    ) -> Result<(Placed, Bytes), AdministerError> {
        let Reached::Server(address) = &self.reached else {
            return Err(AdministerError::NotServed(self.backing.clone()));
        };
        let before = self.state()?;
        if before.replicas.is_none() {
            return Err(AdministerError::NoReplicas(self.backing.clone()));
        }
        let volume = Bytes(before.size_bytes);
        let end = volume.sectors_ceil().0;
        if let Some(&extent) = homes.iter().chain([&near]).find(|e| e.end().0 > end) {
            return Err(AdministerError::PastEnd { extent, volume });
        }
        let mut placed = Placed::default();
        for some in homes.chunks(EXTENTS_A_COMMAND) {
            let command = VolumeCommand::Replicate { near, homes: some.to_vec() };
            let answer: Placed = ask::command(address, &command)?;
            placed.asked_sectors += answer.asked_sectors;
            placed.placed_sectors += answer.placed_sectors;
        }
        Ok((placed, self.wait_replicated(progress)?))
    }

    fn command(&self, command: &VolumeCommand) -> Result<(), AdministerError> {
        match (&self.reached, command) {
            (Reached::Server(address), _) => {
                let _: Value = ask::command(address, command)?;
            }
            (Reached::Here(server), VolumeCommand::Engine(command)) => server.command(*command)?,
            // Only a server learns, replicates and ends.
            (Reached::Here(_), _) => return Err(AdministerError::NotServed(self.backing.clone())),
        }
        Ok(())
    }

    /// Waits until everything is at home; with `replicas`, these may stay.
    fn wait_drained(
        &self,
        replicas: bool,
        progress: Progress<'_>,
    ) -> Result<VolumeState, AdministerError> {
        let left = |state: &VolumeState| {
            let stained = state.replicas.map_or(0, |r| r.stained_bytes);
            let left = state.dirty_bytes + if replicas { 0 } else { stained };
            let is_done = state.drained || replicas && state.replicas.is_some() && left == 0;
            (!is_done).then_some((left, false))
        };
        let stuck = |left, why| AdministerError::NotDrained { left, why };
        self.wait(LOOK_EVERY, Watch::new(STUCK), left, progress, stuck)
    }

    /// Waits until the requested replicas are written. Returns the bytes of all replicas.
    fn wait_replicated(&self, progress: Progress<'_>) -> Result<Bytes, AdministerError> {
        let mut last = 0;
        let left = |state: &VolumeState| {
            let (done, all) = state.moving_bytes?;
            Some((all.saturating_sub(done), std::mem::replace(&mut last, done) != done))
        };
        let stuck = |_, _| AdministerError::NotReplicated;
        let watch = Watch::of_other_work(STUCK);
        Ok(Bytes(self.wait(LOOK_EVERY / 2, watch, left, progress, stuck)?.copied_bytes))
    }

    /// Waits until `left` is `None`. It has the bytes that are left, and whether the work went on
    /// since the last look.
    fn wait(
        &self,
        every: Duration,
        mut watch: Watch,
        mut left: impl FnMut(&VolumeState) -> Option<(u64, bool)>,
        progress: Progress<'_>,
        stuck: impl FnOnce(Bytes, String) -> AdministerError,
    ) -> Result<VolumeState, AdministerError> {
        loop {
            let state = match self.state() {
                // A server that is busy for a moment has not failed.
                Err(AdministerError::Ask(AskError::Silent { .. }))
                    if !watch.is_over(Instant::now()) =>
                {
                    std::thread::sleep(every);
                    continue;
                }
                state => state?,
            };
            let Some((left, goes_on)) = left(&state) else { return Ok(state) };
            let now = Instant::now();
            if goes_on {
                watch.since = now;
            }
            progress(Bytes(left));
            if watch.is_stuck(now, &state, left) {
                return Err(stuck(Bytes(left), state.why()));
            }
            std::thread::sleep(every);
        }
    }

    /// Saves a volume opened by this process.
    fn close(self) -> Result<(), AdministerError> {
        if let Reached::Here(server) = self.reached {
            server.stop()?;
        }
        Ok(())
    }
}

/// Opens a volume without a server for a change.
fn open_here(
    backing: &Path,
    area: Option<&Path>,
    moved: bool,
) -> Result<ServerHandle, AdministerError> {
    let builder = Builder::new(Backing::named(backing)?).moved(moved).to_drain(true);
    let server = builder.area_path(area.map(Path::to_owned)).spawn()?;
    if server.attached().is_none() {
        return Err(AdministerError::NoArea(backing.to_owned()));
    }
    Ok(server)
}

/// Refuses a volume with a server, and a change of a volume whose block device waits for a server.
pub fn ensure_unserved(backing: &Path, write: bool) -> Result<(), AdministerError> {
    if server_of(backing)?.is_some() {
        return Err(AdministerError::Served(backing.to_owned()));
    }
    if write {
        ensure_no_device_waits(backing)?;
    }
    Ok(())
}

/// Opens the area of a volume without a server; `write` for repairs.
pub fn open_unserved(
    backing: &Path,
    area: Option<&Path>,
    write: bool,
) -> Result<Lasting, AdministerError> {
    ensure_unserved(backing, write)?;
    Ok(area::open(backing, area, write)?)
}

/// The state of a volume: from its server, or read from its area.
pub fn state_of(backing: &Path, area: Option<&Path>) -> Result<VolumeState, AdministerError> {
    match server_of(backing)? {
        Some(server) => Ok(ask(&server, None, "/state")?),
        None => state_of_area(backing, area),
    }
}

fn state_of_area(backing: &Path, area: Option<&Path>) -> Result<VolumeState, AdministerError> {
    let mut lasting = area::open(backing, area, false)?;
    // Nobody may take an area for drained by what the host's memory has, or an older copy.
    lasting.ensure_flushed()?;
    lasting.ensure_newest()?;
    let found = examine(lasting.area()).map_err(|source| AdministerError::Area {
        place: lasting.place().to_owned(),
        source: Box::new(source),
    })?;
    let s = found.superblock();
    let guard = lasting.is_guarded();
    // A volume whose guard is damaged cannot be served.
    let guarded = *guard.as_ref().unwrap_or(&true);
    let (mut dirty, mut doubted, mut usable) = (0u64, 0u64, 0u64);
    for (.., state, _) in found.copies() {
        match state {
            CopyState::Dirty => dirty += 1,
            CopyState::Suspect => doubted += 1,
            CopyState::Clean => usable += 1,
            CopyState::Free => {}
        }
    }
    let bytes = |pages: u64| Sectors(pages * PAGE_SECTORS).bytes().0;
    let replicas = (s.free_map_pages > 0).then(|| {
        let (free, stained) = found.free();
        let room = u64::from(s.read_segments) * u64::from(s.segment_pages - 1);
        ReplicaState {
            room_bytes: bytes(room),
            home_bytes: s.home_capacity.bytes().0,
            free_bytes: free.bytes().0,
            spare_bytes: free.bytes().0.saturating_sub(bytes(usable + doubted)),
            stained_bytes: stained.bytes().0,
            ..ReplicaState::default()
        }
    });
    Ok(VolumeState {
        schema: VOLUME_SCHEMA.to_owned(),
        backing: backing.display().to_string(),
        lasting: true,
        size_bytes: s.home_capacity.bytes().0,
        area_bytes: s.area_size.bytes().0,
        mode: mode_name(s.mode).to_owned(),
        dirty_bytes: bytes(dirty),
        in_doubt_bytes: bytes(doubted),
        copied_bytes: bytes(usable + dirty),
        drained: dirty == 0 && s.mode == Mode::WriteThrough && found.is_clean() && !guarded,
        guarded,
        replicas,
        last_failure: guard.err(),
        ..VolumeState::default()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::SeqCst;

    use super::super::socket::{make_directory, socket_of};
    use super::*;
    use crate::http::{ControlAnswers, HttpServer};

    #[test]
    fn a_command_is_stuck_only_if_nothing_goes_on() {
        let begun = Instant::now();
        let mut watch = Watch::new(STUCK);
        let mut state = VolumeState::default();
        let mut at = |seconds: u64, state: &VolumeState, left: u64| {
            watch.is_stuck(begun + Duration::from_secs(seconds), state, left)
        };
        assert!(!at(1, &state, 100));
        // Zeroes are written, and the area has yet to learn of them.
        for minute in 1..10 {
            state.homeward_bytes += 1 << 20;
            assert!(!at(60 * minute, &state, 100), "minute {minute}");
        }
        assert!(!at(550, &state, 100) && !at(560, &state, 99), "less is left");
        assert!(!at(579, &state, 99) && at(581, &state, 99));
        // The same pages, again and again.
        state.trouble = Some("home cannot be written".to_owned());
        state.homeward_bytes += 1 << 20;
        assert!(at(582, &state, 99));
        assert!(!at(583, &state, 98));
    }

    /// Else `prove` and `replicate` would wait for as long as clients write.
    #[test]
    fn what_goes_home_is_no_progress_of_other_work() {
        let begun = Instant::now();
        let mut watch = Watch::of_other_work(STUCK);
        let mut state = VolumeState::default();
        let mut at = |seconds: u64, written: u64, left: u64| {
            state.homeward_bytes = written;
            watch.is_stuck(begun + Duration::from_secs(seconds), &state, left)
        };
        assert!(!at(1, 1 << 20, 100) && !at(15, 2 << 20, 100));
        assert!(at(22, 3 << 20, 100));
        assert!(!at(23, 4 << 20, 99), "less is left");
    }

    /// A server that has to stop, and the next one of the same volume, which writes all the
    /// time. Looks at the next one; 0 while the first one runs.
    struct TwoServers(AtomicU64);

    impl ControlAnswers for TwoServers {
        fn state(&self) -> Result<String, String> {
            let looks = self.0.load(SeqCst);
            if looks > 0 {
                self.0.fetch_add(1, SeqCst);
            }
            let state = VolumeState {
                served: true,
                drained: true,
                started_unix_ms: 1 + looks.min(1),
                // Not for ever, so that this test ends.
                homeward_bytes: looks.min(20) << 20,
                ..VolumeState::default()
            };
            serde_json::to_string(&state).map_err(|e| e.to_string())
        }

        fn command(&self, body: &[u8]) -> Result<String, String> {
            match serde_json::from_slice(body).map_err(|e| e.to_string())? {
                VolumeCommand::Stop { .. } => {
                    self.0.store(1, SeqCst);
                    Ok("\"\"".to_owned())
                }
                VolumeCommand::Users => Ok("\"\"".to_owned()),
                _ => Ok("{}".to_owned()),
            }
        }
    }

    #[test]
    fn a_detach_does_not_wait_for_the_next_server() {
        let name = format!("seekless-{}-served-again", std::process::id());
        let backing = std::env::temp_dir().join(name);
        std::fs::write(&backing, b"").unwrap();
        let socket = socket_of(&backing).unwrap();
        make_directory(&socket).unwrap();
        let servers = Box::new(TwoServers(AtomicU64::new(0)));
        let _servers = HttpServer::control(&socket, servers).unwrap();
        let ended = Administered::served(&backing).unwrap().detach(false, &mut |_| {});
        std::fs::remove_file(&backing).unwrap();
        let _ = std::fs::remove_file(&socket);
        assert!(matches!(ended, Err(AdministerError::ServedAgain(_))), "{ended:?}");
    }
}
