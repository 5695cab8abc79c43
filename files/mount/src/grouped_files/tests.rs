//! The order of steps in moves between the directory and the store: a test stops, fails or cuts the
//! power at each step. The directory and the store are real; [`UnderlyingDir`] and [`GroupedFiles`]
//! note the steps. A model says which unsynced changes of an inode a power cut may keep.

mod moving;
mod power_cut;
mod read_ahead;
mod stopped;
mod used_meanwhile;

use std::fs::{self, File};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender};

use seekless_host::Opened;
use seekless_store::{Config, FILE_BYTES_MAX, Member};

use super::*;
use crate::format;
use crate::underlying::{self, InodeStep, MarkerFound};

/// A noted step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Inode(InodeStep, InodeHandle),
    /// The store has a durable entry.
    Entered(FileNumber, InodeHandle),
    /// The entry is durably leaving.
    Leaving(FileNumber),
    /// The entry may be durably settled from now on.
    Settled(FileNumber),
    /// The removal of the entry may be durable after the next sync of the directory.
    Removed(FileNumber),
}

#[derive(Debug)]
pub(crate) struct StepLog {
    /// Steps before the stop, which acts like a kill of the process.
    left: AtomicI64,
    /// Steps before the first failure, which acts like a failing disk; and number of failures.
    fails: AtomicI64,
    failures: AtomicI64,
    events: Mutex<Vec<Event>>,
    /// A thread that looks at each step of an inode; the step waits for its answer.
    watcher: Mutex<Option<Watcher>>,
}

type Watcher = (Sender<(InodeStep, InodeHandle)>, Receiver<()>);

impl Default for StepLog {
    fn default() -> Self {
        let never = || AtomicI64::new(i64::MAX);
        let (left, fails, failures) = (never(), never(), AtomicI64::new(1));
        Self { left, fails, failures, events: Mutex::default(), watcher: Mutex::default() }
    }
}

impl StepLog {
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

/// A directory that is removed with this value.
struct TempDir(PathBuf);

impl TempDir {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("seekless-{}-{}", std::process::id(), COUNT.fetch_add(1, SeqCst));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct TestDir {
    temp: TempDir,
    groups: Option<GroupedFiles>,
}

fn content(name: usize) -> Vec<u8> {
    (0..3_000 + name * 1_000).map(|i| (i * (name + 3) % 251) as u8).collect()
}

impl TestDir {
    /// Files 0 to 3 and an empty store. `None`, with a message, if the host cannot do this.
    fn new() -> Option<Self> {
        let temp = TempDir::new();
        let dir = Self { temp, groups: None };
        fs::create_dir(dir.dir()).unwrap();
        if let Err(e) = UnderlyingDir::open(&dir.dir()).and_then(|h| {
            h.bind(Some([1; 16]))
                .and_then(|()| h.bind(None))
                .map_err(|e| seekless_host::cannot("bind")(e).into())
        }) {
            eprintln!("SKIPPED the order of steps: {e}");
            return None;
        }
        for name in 0..4 {
            fs::write(dir.path(name), content(name)).unwrap();
        }
        format(
            &dir.store(),
            Some(seekless_block::Bytes(32 << 20)),
            seekless_block::Bytes(64 << 10),
            false,
        )
        .unwrap();
        Some(dir)
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
            let kept =
                groups.lookup_clean(&handle).unwrap_or_else(|e| panic!("{when}: {name}: {e}"));
            assert_eq!(kept.is_some(), marked, "{when}: marker of {name}");
            let bytes = match kept {
                Some(kept) => {
                    assert_eq!(stat.st_size, 0, "{when}: {name} is in both");
                    groups.read(&kept, 0, FILE_BYTES_MAX).unwrap()
                }
                None => {
                    groups
                        .check_ungrouped(&fd, &stat)
                        .unwrap_or_else(|e| panic!("{when}: {name}: {e}"));
                    fs::read(self.path(name)).unwrap()
                }
            };
            let whole = bytes == content(name) || (emptied == Some(name) && bytes.is_empty());
            assert!(whole, "{when}: {name} has {} bytes", bytes.len());
        }
    }
}

const NOT_BUSY: fn(&InodeHandle) -> bool = |_| false;

type Act = fn(&TestDir, &GroupedFiles);

/// What a test does.
struct Action {
    name: &'static str,
    /// Groups are formed first.
    formed: bool,
    /// A file that the action may empty.
    emptied: Option<usize>,
    act: Act,
}

const ACTIONS: &[Action] = &[
    Action {
        name: "form",
        formed: false,
        emptied: None,
        act: |p, g| drop(g.form_groups(&[p.handles(&[0, 1]), p.handles(&[2])], NOT_BUSY)),
    },
    Action {
        name: "form anew, with a newcomer",
        formed: true,
        emptied: None,
        act: |p, g| drop(g.form_groups(&[p.handles(&[0, 3])], NOT_BUSY)),
    },
    Action {
        name: "move all back",
        formed: true,
        emptied: None,
        act: |p, g| _ = g.move_all_back(&p.handles(&[0, 1, 2])),
    },
    Action {
        name: "move one back",
        formed: true,
        emptied: None,
        act: |p, g| _ = g.move_back(&p.handle(1)),
    },
    Action {
        name: "empty one",
        formed: true,
        emptied: Some(1),
        act: |p, g| _ = g.make_empty(&p.handle(1)),
    },
    Action {
        name: "there and back, and there",
        formed: false,
        emptied: None,
        act: |p, g| {
            let all = p.handles(&[0, 1]);
            g.form_groups(std::slice::from_ref(&all), NOT_BUSY);
            g.move_all_back(&all);
            let _ = g.ask(Ask::Sync { file: None });
            g.form_groups(&[all], NOT_BUSY);
        },
    },
];

fn prepared(action: &Action) -> Option<TestDir> {
    let mut dir = TestDir::new()?;
    dir.attach();
    if action.formed {
        let groups = dir.groups.as_ref().unwrap();
        let came = groups.form_groups(&[dir.handles(&[0, 1]), dir.handles(&[2])], NOT_BUSY);
        assert_eq!(came, [Ok(2), Ok(1)]);
    }
    Some(dir)
}
