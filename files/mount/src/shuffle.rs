//! EEFS's group shuffle: who opens which file after which is learned, stream by stream, and every so many requests, or
//! when no file has been opened for a while, groups are formed anew: what belongs together comes to the group store, what no
//! longer belongs goes underlying. Clients wait for none of it: what they do goes into a list, and whoever shuffles reads it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use seekless_block::StreamId;
use seekless_store::{
    Ask, DiskPhase, FILE_BYTES_MAX, Fault, FileNumber, GroupConfig, GroupConfigError, Successors,
    ahead,
};

use crate::grouped_files::GroupedFiles;
use crate::inode_handle::InodeHandle;
use crate::inode_table::{InodeRow, InodeTable};
use crate::mounted_dir::held;

/// What clients did and nobody has looked at yet, at most; what comes beyond is not learned from.
const SEEN_MAX: usize = 1 << 16;
/// Files that one shuffle moves, at most; the next one goes on.
const MOVES_MAX: usize = 1 << 13;

/// Opened files whose successors are looked up at a time, and groups that are read ahead for them.
const RECENT_MAX: usize = 64;
const AHEAD_MAX: usize = 8;
/// Groups that are formed together, and share flushes. Whoever opens one of their files meanwhile waits for those.
const TOGETHER: usize = 16;

/// What is learned from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Observed {
    /// A stream has opened a file of this size.
    Opened { stream: StreamId, handle: InodeHandle, size: u64 },
    /// A file that could be written was closed, with this size.
    Written { handle: InodeHandle, size: u64 },
    /// It was removed.
    Gone(InodeHandle),
}

/// What a shuffle did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shuffled {
    /// Groups that files should be in.
    pub groups: usize,
    /// Files that came to the group store.
    pub came: usize,
    /// Files that went underlying.
    pub returned: usize,
    /// Groups that found no room.
    pub refused: usize,
}

#[derive(Debug)]
struct Learned {
    graph: Successors,
    /// Files remembered.
    files: InodeTable<Size>,
    /// Files that were opened last, for reading ahead of them.
    recent: Vec<InodeHandle>,
}

/// Of a file that is remembered.
#[derive(Clone, Copy, Debug)]
struct Size(u32);

impl Size {
    fn of(bytes: u64) -> Self {
        Self(bytes.try_into().unwrap_or(u32::MAX))
    }

    const fn is_small(self) -> bool {
        self.0 > 0 && self.0 <= FILE_BYTES_MAX
    }
}

impl InodeRow for Size {
    /// The learner's number.
    type Key = u64;

    fn key(&self, handle: InodeHandle) -> u64 {
        handle.id()
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Shuffler {
    seen: Mutex<Vec<Observed>>,
    learned: Mutex<Learned>,
    /// Requests, and opens, when it was shuffled last.
    at: (AtomicU64, AtomicU64),
    pub(super) requests: AtomicU64,
    pub(super) shuffles: AtomicU64,
    pub(super) overlooked: AtomicU64,
    /// Groups read ahead.
    pub(super) ahead: AtomicU64,
    every: u64,
    idle: Option<Duration>,
    /// Everything is to go home, and stay.
    stopped: AtomicBool,
    files: AtomicU64,
    wanted: AtomicU64,
    opens: AtomicU64,
    /// Opens when it was last looked, and since when there have been no more.
    quiet: Mutex<(u64, Instant)>,
}

impl Shuffler {
    /// Learns from now on; what the store's groups say is known already.
    ///
    /// # Errors
    /// Where the configuration makes no sense.
    pub(super) fn new(
        config: GroupConfig,
        every: u64,
        idle: Option<Duration>,
        groups: &GroupedFiles,
    ) -> Result<Self, GroupConfigError> {
        let mut graph = Successors::new(config)?;
        let mut files = InodeTable::new(groups.underlying.handle().shape());
        // No more than is remembered; the last are the newest.
        groups.gfs(|gfs| {
            let all = gfs.groups();
            let mut room = config.files_max;
            let fits = |g: &&Vec<FileNumber>| {
                room = room.saturating_sub(g.len());
                room > 0
            };
            let newest = all.iter().rev().take_while(fits).count();
            for group in &all[all.len() - newest..] {
                let member = |n: &FileNumber| {
                    let file = gfs.file(*n)?;
                    Some((groups.underlying.handle_named(&file.name)?, Size::of(file.size.into())))
                };
                let members: Vec<_> = group.iter().filter_map(member).collect();
                // As often round as it takes to predict; what is seen from now on outweighs that soon.
                for _ in 0..=config.needed {
                    for &(handle, size) in &members {
                        graph.observe(StreamId(0), handle.id());
                        files.insert(handle, size);
                    }
                }
                // Groups that stand one after the other lead nowhere.
                graph.end(StreamId(0));
            }
        });
        Ok(Self {
            seen: Mutex::default(),
            learned: Mutex::new(Learned { graph, files, recent: Vec::new() }),
            at: <(AtomicU64, AtomicU64)>::default(),
            opens: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            shuffles: AtomicU64::new(0),
            overlooked: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
            every: every.max(1),
            idle,
            stopped: AtomicBool::new(false),
            files: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            quiet: Mutex::new((0, Instant::now())),
        })
    }

    /// Notes what a client did.
    pub(super) fn saw(&self, what: Observed) {
        if matches!(what, Observed::Opened { .. }) {
            self.opens.fetch_add(1, Relaxed);
        }
        let mut seen = held(&self.seen);
        if seen.len() < SEEN_MAX {
            seen.push(what);
        } else {
            self.overlooked.fetch_add(1, Relaxed);
        }
    }

    /// Takes up what clients did. It is called often enough that the list does not run over.
    pub(super) fn learn(&self) {
        self.take_up(&mut held(&self.learned));
    }

    fn take_up(&self, learned: &mut Learned) {
        for seen in std::mem::take(&mut *held(&self.seen)) {
            match seen {
                Observed::Opened { stream, handle, size } => {
                    learned.graph.observe(stream, handle.id());
                    learned.files.insert(handle, Size::of(size));
                    if learned.recent.len() < RECENT_MAX {
                        learned.recent.push(handle);
                    }
                }
                Observed::Written { handle, size } => {
                    if let Some(file) = learned.files.get_mut(handle.id()) {
                        *file = Size::of(size);
                    }
                }
                Observed::Gone(handle) => {
                    learned.graph.forget(handle.id());
                    learned.files.remove(handle.id());
                }
            }
        }
        if learned.files.len() > learned.graph.files() + learned.graph.files() / 4 {
            let gone = |h: &InodeHandle| !learned.graph.knows(h.id());
            let gone: Vec<InodeHandle> =
                learned.files.iter().map(|(h, _)| h).filter(gone).collect();
            for handle in gone {
                learned.files.remove(handle.id());
            }
        }
        self.files.store(learned.files.len() as u64, Relaxed);
    }

    /// Files that are remembered, and groups that the last shuffle wanted. While one is under way they are those
    /// that it began with.
    pub(super) fn told(&self) -> (u64, u64) {
        (self.files.load(Relaxed), self.wanted.load(Relaxed))
    }

    /// Whether everything is to go home, and stay.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// Reads groups that are likely to be used next, while the disk turns. What was opened while it sleeps waits.
    pub(super) fn read_ahead(&self, groups: &GroupedFiles, phase: DiskPhase) {
        if phase == DiskPhase::Asleep {
            return;
        }
        let mut learned = held(&self.learned);
        let recent = std::mem::take(&mut learned.recent);
        let learned = &*learned;
        let number =
            |id| learned.files.get(id).and_then(|(h, _)| groups.peek(&h)).map(|k| k.number);
        let mut left = AHEAD_MAX;
        for handle in recent {
            let next = groups.gfs(|gfs| ahead(gfs, &learned.graph, handle.id(), number));
            for file in next.into_iter().take(left) {
                left -= 1;
                if groups.ask(Ask::Read { file, offset: 0, len: 1 }).is_ok() {
                    self.ahead.fetch_add(1, Relaxed);
                }
            }
        }
    }

    /// Whether it is time to shuffle: enough requests since the last time, or files were opened, and none for a while, or none
    /// for so long that the disk is about to sleep.
    pub(super) fn is_due(&self, phase: DiskPhase) -> bool {
        if self.stopped.load(Relaxed) {
            return false;
        }
        let since = |now: &AtomicU64, then: &AtomicU64| {
            now.load(Relaxed).saturating_sub(then.load(Relaxed))
        };
        let opens = self.opens.load(Relaxed);
        let mut quiet = held(&self.quiet);
        if quiet.0 != opens {
            *quiet = (opens, Instant::now());
        }
        let idle =
            self.idle.is_some_and(|idle| quiet.1.elapsed() >= idle || phase == DiskPhase::Drowsy);
        since(&self.requests, &self.at.0) >= self.every
            || (idle && since(&self.opens, &self.at.1) > 0)
    }

    /// Forms groups anew. `busy` says whether a file is open.
    pub(super) fn shuffle(
        &self,
        groups: &GroupedFiles,
        busy: impl Fn(&InodeHandle) -> bool + Sync,
    ) -> Shuffled {
        let mut learned = held(&self.learned);
        self.at.0.store(self.requests.load(Relaxed), Relaxed);
        self.at.1.store(self.opens.load(Relaxed), Relaxed);
        self.take_up(&mut learned);
        let mut done = Shuffled::default();
        if self.stopped.load(Relaxed) {
            return done;
        }
        let small = |id: u64| learned.files.get(id).is_some_and(|(_, size)| size.is_small());
        let wanted: Vec<Vec<InodeHandle>> = learned
            .graph
            .groups(small)
            .into_iter()
            .map(|g| g.iter().filter_map(|id| learned.files.get(*id).map(|(h, _)| h)).collect())
            .collect();
        done.groups = wanted.len();
        self.wanted.store(wanted.len() as u64, Relaxed);
        let stays: FxHashSet<InodeHandle> = wanted.iter().flatten().copied().collect();
        let mut leaves = groups.those(|h| !stays.contains(h));
        leaves.truncate(MOVES_MAX);
        done.returned = groups.bring_all_home(&leaves);
        let standing = CurrentGroups::of(groups);
        let mut gone = Vec::new();
        let mut wanted = wanted.into_iter();
        let mut is_full = false;
        while !is_full && !self.stopped.load(Relaxed) && done.came < MOVES_MAX {
            let mut next = Vec::new();
            for mut files in wanted.by_ref() {
                // Of what stands as it should no inode is looked at: there may be very many, and none in memory.
                if standing.has(groups, &files) {
                    continue;
                }
                files.retain(|handle| {
                    let stays = groups.is_there(handle);
                    gone.extend((!stays).then_some(*handle));
                    stays
                });
                if !files.is_empty() && !standing.has(groups, &files) {
                    next.push(files);
                }
                if next.len() == TOGETHER {
                    break;
                }
            }
            if next.is_empty() {
                break;
            }
            for formed in groups.form(&next, &busy) {
                match formed {
                    Ok(came) => done.came += came,
                    Err(fault @ (Fault::NoSpace | Fault::TableFull)) => {
                        done.refused += 1;
                        groups.note(format!("a group was not formed: {fault}"));
                        is_full |= fault == Fault::TableFull;
                    }
                    // A file that has gone meanwhile; and a store that takes no changes has said so.
                    Err(_) => {}
                }
            }
        }
        for handle in gone {
            learned.graph.forget(handle.id());
            learned.files.remove(handle.id());
        }
        self.shuffles.fetch_add(1, Relaxed);
        done
    }

    /// Brings everything home; nothing leaves it again. Returns how many files are left in the store: those that could not
    /// be brought.
    pub(super) fn bring_home(&self, groups: &GroupedFiles) -> usize {
        self.stopped.store(true, Relaxed);
        // Whoever shuffles sees that and ends.
        let _learned = held(&self.learned);
        groups.bring_all_home(&groups.those(|_| true));
        groups.len()
    }
}

/// The groups as they stand.
struct CurrentGroups(FxHashMap<u32, usize>);

impl CurrentGroups {
    fn of(groups: &GroupedFiles) -> Self {
        let mut members = FxHashMap::<u32, usize>::default();
        groups.gfs(|g| g.files().for_each(|(_, f)| *members.entry(f.group).or_default() += 1));
        Self(members)
    }

    /// Whether exactly these files are a group.
    fn has(&self, groups: &GroupedFiles, files: &[InodeHandle]) -> bool {
        let numbers: Vec<_> = files.iter().map(|h| groups.peek(h).map(|k| k.number)).collect();
        let of = |n: &Option<FileNumber>| groups.gfs(|g| g.file((*n)?).map(|f| f.group));
        let Some(Some(group)) = numbers.first().map(of) else { return false };
        numbers.iter().all(|n| of(n) == Some(group)) && self.0.get(&group) == Some(&files.len())
    }
}
