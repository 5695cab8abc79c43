//! Every order of steps between the two modules: stopped at each of them, and with the power cut at each of them, over a model of
//! what an inode keeps that was not synced. A real directory and a real store; the steps are noted by [`UnderlyingDir`] and [`GroupedFiles`].

use std::fs;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, UNIX_EPOCH};

use seekless_block::StreamId;
use seekless_store::GroupConfig;

use super::*;
use crate::format;
use crate::shuffle::{Observed, Shuffler};
use crate::underlying::InodeStep;
use seekless_host::Opened;

/// What was done, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Inode(InodeStep, InodeHandle),
    /// The store has an entry, durably.
    Entered(FileNumber, InodeHandle),
    /// The entry is leaving, durably.
    Leaving(FileNumber),
    /// May be durable from now on.
    Settled(FileNumber),
    /// May be durable once the other module was synced after this.
    Removed(FileNumber),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Steps {
    /// Steps that can be done until it stops, as a process does that is killed.
    left: AtomicI64,
    /// Steps until one fails, as a disk does, and how many do.
    fails: AtomicI64,
    failures: AtomicI64,
    events: Mutex<Vec<Event>>,
    /// Who wants to look around at each step of an inode, and says when that is done.
    watcher: Mutex<Option<Watcher>>,
}

type Watcher = (Sender<(InodeStep, InodeHandle)>, Receiver<()>);

impl Default for Steps {
    fn default() -> Self {
        let never = || AtomicI64::new(i64::MAX);
        let (left, fails, failures) = (never(), never(), AtomicI64::new(1));
        Self { left, fails, failures, events: Mutex::default(), watcher: Mutex::default() }
    }
}

impl Steps {
    pub(crate) fn may(&self) -> Result<(), Errno> {
        let stopped = self.left.fetch_sub(1, SeqCst) <= 0;
        let until = self.fails.fetch_sub(1, SeqCst);
        let failed = until <= 0 && until > -self.failures.load(SeqCst);
        if stopped || failed { Err(Errno::IO) } else { Ok(()) }
    }

    pub(crate) fn did(&self, step: InodeStep, handle: InodeHandle) {
        held(self.events.lock()).push(Event::Inode(step, handle));
        if let Some((look, looked)) = &*held(self.watcher.lock()) {
            look.send((step, handle)).unwrap();
            looked.recv().unwrap();
        }
    }

    pub(crate) fn asks(&self, asks: &[Ask]) -> Option<Vec<Result<Reply, Fault>>> {
        if self.may().is_err() {
            return Some(asks.iter().map(|_| Err(Fault::Broken)).collect());
        }
        for ask in asks {
            let mut events = held(self.events.lock());
            match ask {
                Ask::Settle { files } => events.extend(files.iter().map(|n| Event::Settled(*n))),
                Ask::Remove { file } => events.push(Event::Removed(*file)),
                _ => {}
            }
        }
        None
    }

    pub(crate) fn answered(&self, asks: &[Ask], results: &[Result<Reply, Fault>]) {
        for (ask, result) in asks.iter().zip(results) {
            let mut events = held(self.events.lock());
            match (ask, result) {
                (Ask::Group { members }, Ok(Reply::Numbers(numbers))) => {
                    for (member, number) in members.iter().zip(numbers) {
                        if let Member::New(new) = member {
                            let handle = InodeHandle::from_name(&new.name).unwrap();
                            events.push(Event::Entered(*number, handle));
                        }
                    }
                }
                (Ask::Leave { files }, Ok(_)) => {
                    events.extend(files.iter().map(|n| Event::Leaving(*n)));
                }
                _ => {}
            }
        }
    }
}

/// A directory that goes with it.
struct Temp(PathBuf);

impl Temp {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("seekless-{}-{}", std::process::id(), COUNT.fetch_add(1, SeqCst));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Place {
    temp: Temp,
    groups: Option<GroupedFiles>,
}

fn content(name: usize) -> Vec<u8> {
    (0..3_000 + name * 1_000).map(|i| (i * (name + 3) % 251) as u8).collect()
}

impl Place {
    /// Files 0 to 3, and an empty store. `None`, said aloud, where the host cannot have it.
    fn new() -> Option<Self> {
        let temp = Temp::new();
        let place = Self { temp, groups: None };
        fs::create_dir(place.dir()).unwrap();
        if let Err(e) = UnderlyingDir::open(&place.dir()).and_then(|h| {
            h.bind(Some([1; 16]))
                .and_then(|()| h.bind(None))
                .map_err(|e| seekless_host::cannot("bind")(e).into())
        }) {
            eprintln!("SKIPPED the order of steps: {e}");
            return None;
        }
        for name in 0..4 {
            fs::write(place.path(name), content(name)).unwrap();
        }
        format(
            &place.store(),
            Some(seekless_block::Bytes(32 << 20)),
            seekless_block::Bytes(64 << 10),
            false,
        )
        .unwrap();
        Some(place)
    }

    fn dir(&self) -> PathBuf {
        self.temp.0.join("dir")
    }

    fn store(&self) -> PathBuf {
        self.temp.0.join("store")
    }

    fn path(&self, name: usize) -> PathBuf {
        self.dir().join(name.to_string())
    }

    fn attach(&mut self) -> &GroupedFiles {
        self.groups = None;
        let underlying = UnderlyingDir::open(&self.dir()).unwrap();
        let disk = FileDevice::new(Opened::path(&self.store(), false).unwrap());
        self.groups.insert(
            GroupedFiles::attach(underlying, disk, Config::default(), &self.store()).unwrap(),
        )
    }

    fn handle(&self, name: usize) -> InodeHandle {
        InodeHandle::of(File::open(self.path(name)).unwrap().as_fd()).unwrap()
    }

    fn handles(&self, names: &[usize]) -> Vec<InodeHandle> {
        names.iter().map(|n| self.handle(*n)).collect()
    }

    /// Each file is whole, and in exactly one place.
    fn check(&self, when: &str, emptied: Option<usize>) {
        let groups = self.groups.as_ref().unwrap();
        for name in 0..4 {
            let Ok(file) = File::open(self.path(name)) else { continue };
            let (fd, handle) = (OwnedFd::from(file), self.handle(name));
            let stat = rustix::fs::fstat(&fd).unwrap();
            let marked = underlying::marker(&fd).unwrap() != MarkerFound::Nothing;
            let kept = groups.kept_whole(&handle).unwrap_or_else(|e| panic!("{when}: {name}: {e}"));
            assert_eq!(kept.is_some(), marked, "{when}: marker of {name}");
            let bytes = match kept {
                Some(kept) => {
                    assert_eq!(stat.st_size, 0, "{when}: {name} is in both");
                    groups.read(&kept, 0, FILE_BYTES_MAX).unwrap()
                }
                None => {
                    groups.is_whole(&fd, &stat).unwrap_or_else(|e| panic!("{when}: {name}: {e}"));
                    fs::read(self.path(name)).unwrap()
                }
            };
            let whole = bytes == content(name) || (emptied == Some(name) && bytes.is_empty());
            assert!(whole, "{when}: {name} has {} bytes", bytes.len());
        }
    }
}

const QUIET: fn(&InodeHandle) -> bool = |_| false;

type Act = fn(&Place, &GroupedFiles);

/// What is done, what has been done before it, and which file it may empty.
struct Deed {
    name: &'static str,
    formed: bool,
    emptied: Option<usize>,
    act: Act,
}

const DEEDS: &[Deed] = &[
    Deed {
        name: "form",
        formed: false,
        emptied: None,
        act: |p, g| drop(g.form(&[p.handles(&[0, 1]), p.handles(&[2])], QUIET)),
    },
    Deed {
        name: "form anew, with one that comes",
        formed: true,
        emptied: None,
        act: |p, g| drop(g.form(&[p.handles(&[0, 3])], QUIET)),
    },
    Deed {
        name: "bring all home",
        formed: true,
        emptied: None,
        act: |p, g| _ = g.bring_all_home(&p.handles(&[0, 1, 2])),
    },
    Deed {
        name: "bring one home",
        formed: true,
        emptied: None,
        act: |p, g| _ = g.bring_home(&p.handle(1)),
    },
    Deed {
        name: "empty one",
        formed: true,
        emptied: Some(1),
        act: |p, g| _ = g.empty(&p.handle(1)),
    },
    Deed {
        name: "there and back, and there",
        formed: false,
        emptied: None,
        act: |p, g| {
            let all = p.handles(&[0, 1]);
            g.form(std::slice::from_ref(&all), QUIET);
            g.bring_all_home(&all);
            let _ = g.ask(Ask::Sync { file: None });
            g.form(&[all], QUIET);
        },
    },
];

fn prepared(deed: &Deed) -> Option<Place> {
    let mut place = Place::new()?;
    place.attach();
    if deed.formed {
        let groups = place.groups.as_ref().unwrap();
        let came = groups.form(&[place.handles(&[0, 1]), place.handles(&[2])], QUIET);
        assert_eq!(came, [Ok(2), Ok(1)]);
    }
    Some(place)
}

#[test]
fn stopped_at_any_step_every_file_is_whole_and_in_one_place() {
    for deed in DEEDS {
        for stop in 0.. {
            let Some(mut place) = prepared(deed) else { return };
            let groups = place.groups.as_ref().unwrap();
            groups.underlying.steps.left.store(stop, SeqCst);
            (deed.act)(&place, groups);
            let ended = groups.underlying.steps.left.load(SeqCst) >= 0;
            let groups = place.attach();
            let when = format!("{}, stopped after {stop} steps", deed.name);
            settled_only_what_is_durable(&held(groups.underlying.steps.events.lock()), &when);
            place.check(&when, deed.emptied);
            // What was settled stays so.
            place.attach();
            place.check(&format!("{when}, and again"), deed.emptied);
            if ended {
                assert!(stop > 1, "{}: {stop} steps", deed.name);
                break;
            }
        }
    }
}

/// Nothing is settled before what was done to its inode is durable.
fn settled_only_what_is_durable(events: &[Event], when: &str) {
    let (mut loose, mut entered) = (FxHashSet::default(), FxHashMap::default());
    for event in events {
        match event {
            Event::Entered(number, of) => drop(entered.insert(*number, *of)),
            Event::Inode(InodeStep::Cut, of) => drop(loose.insert(*of)),
            Event::Inode(InodeStep::Synced, of) => drop(loose.remove(of)),
            Event::Settled(number) => {
                let durable = match entered.get(number) {
                    Some(handle) => !loose.contains(handle),
                    // It came before this.
                    None => loose.is_empty(),
                };
                assert!(durable, "{when}: {number:?} of {events:#?}");
            }
            _ => {}
        }
    }
}

/// An fdatasync of what a client has overwritten covers no marker: it must be gone for good before any client may write.
#[test]
fn a_marker_is_durably_gone_before_its_file_can_be_written() {
    let homes: &[Act] = &[
        |p, g| g.bring_home(&p.handle(1)).unwrap(),
        |p, g| assert_eq!(g.bring_all_home(&p.handles(&[0, 1])), 2),
    ];
    for bring in homes {
        let Some(mut place) = Place::new() else { return };
        let wanted = [place.handles(&[0, 1])];
        assert_eq!(place.attach().form(&wanted, QUIET), [Ok(2)]);
        let (groups, handle) = (place.groups.as_ref().unwrap(), place.handle(1));
        bring(&place, groups);
        let events = held(groups.underlying.steps.events.lock()).clone();
        let steps = events.iter().filter_map(|e| match e {
            Event::Inode(step, of) if *of == handle => Some(*step),
            _ => None,
        });
        let last: Vec<InodeStep> = steps.collect();
        assert!(last.ends_with(&[InodeStep::Unmarked, InodeStep::Synced]), "{last:?}");
    }
}

/// Nobody reads a file, or opens it, between two steps of its way but the last: that what was cut is durable.
#[test]
fn a_file_on_its_way_is_locked() {
    let Some(mut place) = Place::new() else { return };
    let all = place.handles(&[0, 1, 2]);
    let groups = place.attach();
    let (look, looks) = channel();
    let (done, looked) = channel();
    *held(groups.underlying.steps.watcher.lock()) = Some((look, looked));
    let free = std::thread::scope(|scope| {
        let watch = scope.spawn(move || {
            let mut free = Vec::new();
            let mut cut = FxHashSet::default();
            while let Ok((step, handle)) = looks.recv() {
                let lock = &groups.locks[groups.lock_of(&handle)];
                if step != InodeStep::AllSynced && lock.try_read().is_ok() {
                    let last = step == InodeStep::Synced && cut.contains(&handle);
                    free.extend((!last).then_some(step));
                }
                if step == InodeStep::Cut {
                    cut.insert(handle);
                }
                done.send(()).unwrap();
            }
            free
        });
        assert_eq!(groups.form(std::slice::from_ref(&all), QUIET), [Ok(3)]);
        assert_eq!(groups.bring_all_home(&all), 3);
        *held(groups.underlying.steps.watcher.lock()) = None;
        watch.join().unwrap()
    });
    assert_eq!(free, []);
}

/// Two files that share a lock come together: it is taken once.
#[test]
fn files_that_share_a_lock_do_not_wait_for_each_other() {
    let Some(mut place) = Place::new() else { return };
    let mut seen = FxHashMap::default();
    let pair = (4..).find_map(|name| {
        fs::write(place.path(name), content(0)).unwrap();
        let handle = place.handle(name);
        seen.insert(handle.id() as usize % LOCKS, handle).map(|other| vec![other, handle])
    });
    let wanted = pair.unwrap();
    place.attach();
    let (end, ended) = channel();
    std::thread::spawn(move || {
        let came = place.groups.as_ref().unwrap().form(&[wanted], QUIET);
        let _ = end.send(came);
    });
    assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(vec![Ok(2)]), "it waits for itself");
}

/// What the kernel has cached of a file is of its last stay, which this one is not; and its times are the file's own.
#[test]
fn each_stay_in_the_store_begins_with_nothing_cached_and_moves_no_times() {
    let Some(mut place) = Place::new() else { return };
    place.attach();
    let (groups, handle) = (place.groups.as_ref().unwrap(), place.handle(1));
    let times = || {
        let stat = place.path(1).metadata().unwrap();
        (stat.accessed().unwrap(), stat.modified().unwrap())
    };
    let (read, written) = (UNIX_EPOCH + Duration::new(77, 3), UNIX_EPOCH + Duration::new(66, 5));
    let file = File::options().write(true).open(place.path(1)).unwrap();
    file.set_times(fs::FileTimes::new().set_accessed(read).set_modified(written)).unwrap();
    drop(file);
    for _ in 0..2 {
        assert_eq!(groups.form(&[vec![handle]], QUIET), [Ok(1)]);
        assert!(!groups.is_cached(&handle));
        assert_eq!(
            groups.gfs(GroupStore::unsettled),
            [],
            "what is written beneath now is somebody else's"
        );
        assert_eq!(times(), (read, written), "there");
        let kept = groups.peek(&handle).unwrap();
        groups.now_cached(&handle, &kept);
        assert!(groups.is_cached(&handle));
        groups.bring_home(&handle).unwrap();
        assert_eq!(times(), (read, written), "home");
    }
}

/// A file with capabilities, which moving it would take away, does not.
#[test]
fn a_file_with_capabilities_stays() {
    let Some(mut place) = Place::new() else { return };
    let value = [0x0200_0000u32, 1 << 10, 0, 0, 0].map(u32::to_le_bytes).concat();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(place.path(1), underlying::CAPABILITIES, &value, flags).unwrap();
    let wanted = [place.handles(&[0, 1])];
    assert_eq!(place.attach().form(&wanted, QUIET), [Ok(1)]);
    let file = File::open(place.path(1)).unwrap();
    assert!(underlying::has_capabilities(&file));
    assert_eq!(fs::read(place.path(1)).unwrap(), content(1));
}

#[test]
fn where_any_one_step_fails_every_file_is_whole_and_in_one_place() {
    where_steps_fail(DEEDS, 1);
}

/// What was to be undone because a step failed cannot be undone either.
#[test]
fn where_any_step_and_the_next_fail_every_file_that_comes_is_whole_and_in_one_place() {
    where_steps_fail(&DEEDS[..2], 2);
}

fn where_steps_fail(deeds: &[Deed], failures: i64) {
    for deed in deeds {
        for fail in 0.. {
            let Some(mut place) = prepared(deed) else { return };
            let groups = place.groups.as_ref().unwrap();
            groups.underlying.steps.failures.store(failures, SeqCst);
            groups.underlying.steps.fails.store(fail, SeqCst);
            (deed.act)(&place, groups);
            let ended = groups.underlying.steps.fails.load(SeqCst) >= 0;
            let when = format!("{}, where {failures} from step {fail} on fail", deed.name);
            let events = held(groups.underlying.steps.events.lock()).clone();
            settled_only_what_is_durable(&events, &when);
            lost_at_any(&events, &place, &when, deed.emptied);
            place.attach();
            place.check(&when, deed.emptied);
            if ended {
                break;
            }
        }
    }
}

/// What an inode's file system may have kept of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bytes {
    Whole,
    None,
    /// Written, and not synced.
    Torn,
}

const NOT_ITS_BYTES: &str = "no marker, and not its bytes";

/// Why a file is lost where the power is cut after these events, whatever was kept of what was not synced.
fn lost(events: &[Event], handle: InodeHandle) -> Option<&'static str> {
    let mut sure = (Bytes::Whole, false);
    let mut loose: Vec<InodeStep> = Vec::new();
    let (mut number, mut leaving, mut settled) = (None, false, false);
    // Whether the entry may be gone, and whether it will be once all is synced.
    let (mut gone, mut going) = (false, false);
    let after = |(bytes, marked), step| match step {
        InodeStep::Marked => (bytes, true),
        InodeStep::Unmarked => (bytes, false),
        InodeStep::Cut => (Bytes::None, marked),
        _ => (Bytes::Torn, marked),
    };
    for event in events {
        match *event {
            Event::Inode(InodeStep::AllSynced, _) => {
                sure = loose.drain(..).fold(sure, after);
                gone |= going;
            }
            Event::Inode(InodeStep::Synced, of) if of == handle => {
                sure = loose.drain(..).fold(sure, after);
            }
            Event::Inode(step, of) if of == handle => loose.push(step),
            Event::Entered(new, of) if of == handle => {
                (number, leaving, settled, gone, going) = (Some(new), false, false, false, false);
            }
            Event::Leaving(n) if number == Some(n) => leaving = true,
            Event::Settled(n) if number == Some(n) => (settled, leaving) = (true, false),
            Event::Removed(n) if number == Some(n) => going = true,
            _ => {}
        }
        // Torn bytes that were synced are whole.
        if loose.is_empty() && sure.0 == Bytes::Torn {
            sure.0 = Bytes::Whole;
        }
    }
    (0..1u32 << loose.len()).find_map(|kept| {
        let kept = (0..).zip(&loose).filter(|(i, _)| kept & 1 << i != 0).map(|(_, s)| *s);
        let (bytes, marked) = kept.fold(sure, after);
        match (marked, number) {
            (false, _) => (bytes != Bytes::Whole).then_some(NOT_ITS_BYTES),
            (true, None) => Some("a marker without an entry"),
            (true, Some(_)) if gone => Some("a marker whose entry may be gone"),
            // Settled for good, with bytes beside it: as if somebody else had written them.
            (true, Some(_)) if settled && !leaving && bytes != Bytes::None => {
                Some("settled, and its inode has bytes")
            }
            _ => None,
        }
    })
}

/// Fails where a file is lost with the power cut after any of these events.
fn lost_at_any(events: &[Event], place: &Place, what: &str, emptied: Option<usize>) {
    let all: Vec<InodeHandle> = place.handles(&[0, 1, 2, 3]);
    for end in 0..=events.len() {
        for (name, handle) in all.iter().enumerate() {
            let lost = |events: &[Event]| {
                lost(events, *handle).filter(|w| emptied != Some(name) || *w != NOT_ITS_BYTES)
            };
            let mut events = events[..end].to_vec();
            let why = lost(&events);
            assert_eq!(why, None, "{what}: {name}, after {events:#?}");
            // Somebody else may have all synced at any time.
            events.push(Event::Inode(InodeStep::AllSynced, *handle));
            let why = lost(&events);
            assert_eq!(why, None, "{what}: {name}, after {events:#?}");
        }
    }
}

#[test]
fn with_the_power_cut_at_any_step_no_file_is_lost() {
    for deed in DEEDS {
        let Some(place) = prepared(&Deed { formed: false, ..*deed }) else { return };
        let groups = place.groups.as_ref().unwrap();
        if deed.formed {
            groups.form(&[place.handles(&[0, 1]), place.handles(&[2])], QUIET);
        }
        (deed.act)(&place, groups);
        let _ = groups.ask(Ask::Sync { file: None });
        let events = held(groups.underlying.steps.events.lock()).clone();
        assert!(events.len() > 10, "{}: {events:?}", deed.name);
        lost_at_any(&events, &place, deed.name, deed.emptied);
        place.check(deed.name, deed.emptied);
    }
}

/// What happens to a file between being read and being marked keeps it where it is.
#[test]
fn a_file_that_is_used_meanwhile_does_not_move() {
    let uses: &[(&str, Act)] = &[
        ("touched", |p, g| g.touch(&p.handle(1))),
        ("written, of the same length", |p, _| {
            // As the kernel does it that writes by itself.
            let file = File::options().write(true).open(p.path(1)).unwrap();
            file.write_all_at(b"newer", 7).unwrap();
        }),
        ("longer", |p, _| {
            let file = File::options().append(true).open(p.path(1)).unwrap();
            let modified = file.metadata().unwrap().modified().unwrap();
            std::io::Write::write_all(&mut &file, b"newer").unwrap();
            file.set_modified(modified).unwrap();
        }),
        ("removed", |p, _| fs::remove_file(p.path(1)).unwrap()),
        ("open elsewhere", |p, _| {
            std::mem::forget(File::options().write(true).open(p.path(1)).unwrap());
        }),
    ];
    for (what, used) in uses {
        let Some(mut place) = Place::new() else { return };
        place.attach();
        let groups = place.groups.as_ref().unwrap();
        let handle = place.handle(1);
        // Asked once when it is read, and again when it is to be marked.
        let asked = AtomicI64::new(0);
        let came = groups.form(&[place.handles(&[0, 1])], |h| {
            if *h == handle && asked.fetch_add(1, SeqCst) == 0 {
                return false;
            }
            if *h == place.handle(0) && asked.load(SeqCst) == 1 {
                used(&place, groups);
            }
            false
        });
        assert_eq!(came, [Ok(1)], "{what}");
        assert_eq!(groups.peek(&handle).map(|k| k.size), None, "{what}");
        assert!(groups.peek(&place.handle(0)).is_some(), "{what}: the other came");
        let counts = [&groups.counts.came, &groups.counts.given_up].map(|c| c.load(SeqCst));
        assert_eq!(counts, [1, 1], "{what}: came, given up");
        assert_eq!(groups.gfs(|g| g.files().count()), 1, "{what}: no entry is left of it");
        if let Ok(bytes) = fs::read(place.path(1)) {
            assert!(!bytes.is_empty(), "{what}");
        }
    }
    // Open elsewhere while it is read, and closed since: what is mapped can be written after that without a trace.
    let Some(mut place) = Place::new() else { return };
    let wanted = [place.handles(&[0, 1])];
    let open = Mutex::new(Some(File::options().write(true).open(place.path(1)).unwrap()));
    let asked = AtomicI64::new(0);
    let came = place.attach().form(&wanted, |_| {
        // Each is asked for when it is read; then it is marked.
        if asked.fetch_add(1, SeqCst) == 2 {
            held(open.lock()).take();
        }
        false
    });
    assert_eq!((came, asked.load(SeqCst)), (vec![Ok(1)], 3), "open while it was read");
    // Open through the mount: from the beginning, and since it was read.
    for open_since in [0, 1] {
        let Some(mut place) = Place::new() else { return };
        let handle = place.handle(1);
        let wanted = [place.handles(&[0, 1])];
        let asked = AtomicI64::new(0);
        let busy = |h: &InodeHandle| *h == handle && asked.fetch_add(1, SeqCst) >= open_since;
        assert_eq!(place.attach().form(&wanted, busy), [Ok(1)], "open since {open_since}");
        assert_eq!(fs::read(place.path(1)).unwrap(), content(1));
    }
}

/// Files 0 and 2 lead to each other and are in two groups, of which none is in memory; both were opened just now.
fn leading_to_each_other() -> Option<(Place, Shuffler)> {
    let mut place = Place::new()?;
    let wanted = [place.handles(&[0, 1]), place.handles(&[2, 3])];
    let came = place.attach().form(&wanted, QUIET);
    assert_eq!(came, [Ok(2), Ok(2)]);
    let groups = place.attach();
    let shuffler = Shuffler::new(GroupConfig::default(), u64::MAX, None, groups).unwrap();
    for handle in place.handles(&[0, 2]).into_iter().cycle().take(8) {
        shuffler.saw(Observed::Opened { stream: StreamId(1), handle, size: 1_000 });
    }
    shuffler.learn();
    Some((place, shuffler))
}

impl Place {
    fn groups_read(&self) -> u64 {
        self.groups.as_ref().unwrap().gfs(|g| g.stats().groups_read)
    }
}

#[test]
fn it_is_read_ahead_once_and_not_while_the_disk_sleeps() {
    let Some((place, shuffler)) = leading_to_each_other() else { return };
    let groups = place.groups.as_ref().unwrap();
    shuffler.read_ahead(groups, DiskPhase::Asleep);
    assert_eq!((shuffler.ahead.load(SeqCst), place.groups_read()), (0, 0), "it was woken");
    shuffler.read_ahead(groups, DiskPhase::Drowsy);
    assert_eq!((shuffler.ahead.load(SeqCst), place.groups_read()), (2, 2), "what waited is read");
    for name in 0..4 {
        let kept = groups.kept_whole(&place.handle(name)).unwrap().unwrap();
        assert_eq!(groups.read(&kept, 0, FILE_BYTES_MAX).unwrap(), content(name));
    }
    assert_eq!(place.groups_read(), 2, "a client waited for what was read ahead");
    shuffler.read_ahead(groups, DiskPhase::Turning);
    assert_eq!((shuffler.ahead.load(SeqCst), place.groups_read()), (2, 2), "and once is enough");
}

/// A file that went home meanwhile is not asked of the store, and one that came again has its new bytes.
#[test]
fn what_was_written_meanwhile_is_not_read_ahead_as_it_was() {
    let Some((place, shuffler)) = leading_to_each_other() else { return };
    let groups = place.groups.as_ref().unwrap();
    let handle = place.handle(2);
    groups.bring_home(&handle).unwrap();
    let read = place.groups_read();
    fs::write(place.path(2), b"newer").unwrap();
    shuffler.read_ahead(groups, DiskPhase::Turning);
    // The other's group alone: of this one there is nothing to ask for.
    assert_eq!((shuffler.ahead.load(SeqCst), place.groups_read()), (1, read + 1));
    assert_eq!(groups.form(&[place.handles(&[2])], QUIET), [Ok(1)]);
    for handle in place.handles(&[0, 2]) {
        shuffler.saw(Observed::Opened { stream: StreamId(1), handle, size: 5 });
    }
    shuffler.learn();
    shuffler.read_ahead(groups, DiskPhase::Turning);
    let kept = groups.kept_whole(&handle).unwrap().unwrap();
    assert_eq!(groups.read(&kept, 0, FILE_BYTES_MAX).unwrap(), b"newer");
}

/// What stands one after the other in the store was not used one after the other.
#[test]
fn of_what_the_store_has_no_group_leads_to_the_next() {
    let Some(mut place) = Place::new() else { return };
    let wanted = [place.handles(&[0, 1]), place.handles(&[2, 3])];
    assert_eq!(place.attach().form(&wanted, QUIET), [Ok(2), Ok(2)]);
    let all = place.handles(&[0, 1, 2, 3]);
    let groups = place.attach();
    let config = GroupConfig { needed: 1, least: 2, ..GroupConfig::default() };
    let read = all.into_iter().map(|handle| {
        let shuffler = Shuffler::new(config, u64::MAX, None, groups).unwrap();
        shuffler.saw(Observed::Opened { stream: StreamId(1), handle, size: 1_000 });
        shuffler.learn();
        shuffler.read_ahead(groups, DiskPhase::Turning);
        shuffler.ahead.load(SeqCst)
    });
    // Of each group the first file has it read, and the second finds it.
    assert_eq!(read.collect::<Vec<_>>(), [1, 0, 1, 0]);
}
