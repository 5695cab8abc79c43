//! EEFS's group shuffle. The shuffler learns, stream by stream, which file is opened after which.
//! After a number of requests, or when no file has been opened for a while, it forms groups anew:
//! files that are used together move to the group store, all others move back. Clients never wait
//! for this: their actions go into a list, which the shuffler reads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use seekless_block::StreamId;
use seekless_store::{
    Ask, DiskPhase, FILE_BYTES_MAX, Fault, FileNumber, GroupConfig, GroupConfigError, GroupStore,
    Successors, groups_to_read_ahead,
};

use crate::grouped_files::GroupedFiles;
use crate::inode_handle::InodeHandle;
use crate::inode_table::{InodeRow, InodeTable};
use crate::mounted_dir::held;

/// Client actions that wait to be learned, at most; further actions are not learned.
const OBSERVED_MAX: usize = 1 << 16;
/// Files that one shuffle moves to the store, at most, and files that it moves back, at most. The
/// next shuffle goes on.
const MOVES_MAX: usize = 1 << 13;
/// Recently opened files whose successors are looked up together.
const RECENT_MAX: usize = 64;
/// Groups that are read ahead for them.
const AHEAD_MAX: usize = 8;
/// Groups that are formed together and share flushes. A client that opens one of their files
/// meanwhile waits for the flushes.
const TOGETHER: usize = 16;

/// An action of a client.
#[derive(Clone, Copy, Debug)]
pub(super) enum Observed {
    /// A stream has opened a file of this size.
    Opened { stream: StreamId, handle: InodeHandle, size: u64 },
    /// A file that was open for writing was closed with this size.
    Written { handle: InodeHandle, size: u64 },
    /// A file was removed.
    Removed(InodeHandle),
}

#[derive(Debug)]
struct Learned {
    graph: Successors,
    files: InodeTable<Size>,
    /// The files opened last, for reading ahead.
    recent: Vec<InodeHandle>,
}

/// The size of a remembered file in bytes, at most `u32::MAX`.
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
    /// The number of the file in the learner.
    type Key = u64;

    fn key(&self, handle: InodeHandle) -> u64 {
        handle.id()
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Shuffler {
    observed: Mutex<Vec<Observed>>,
    learned: Mutex<Learned>,
    /// `requests` and `opens` at the last shuffle.
    shuffled_at: (AtomicU64, AtomicU64),
    pub(super) requests: AtomicU64,
    pub(super) shuffles: AtomicU64,
    /// Actions that were not learned.
    pub(super) overlooked: AtomicU64,
    pub(super) read_ahead: AtomicU64,
    every: u64,
    idle: Option<Duration>,
    /// All files move back, and no groups are formed any more.
    stopped: AtomicBool,
    /// The mount ends, and waits for a running shuffle.
    ending: AtomicBool,
    files: AtomicU64,
    wanted: AtomicU64,
    opens: AtomicU64,
    /// `opens` at the last look, and the time since which it has not changed.
    quiet: Mutex<(u64, Instant)>,
}

/// Learns the groups of the store, the newest groups first, as many files as the learner remembers.
fn learn_from_store(
    graph: &mut Successors,
    files: &mut InodeTable<Size>,
    config: &GroupConfig,
    groups: &GroupedFiles,
    store: &GroupStore,
) {
    let all = store.groups();
    let mut space = config.files_max;
    let fits = |g: &&Vec<FileNumber>| {
        space = space.saturating_sub(g.len());
        space > 0
    };
    let newest = all.iter().rev().take_while(fits).count();
    for group in &all[all.len() - newest..] {
        let member = |n: &FileNumber| {
            let file = store.file(*n)?;
            Some((groups.underlying.handle_named(&file.name)?, Size::of(file.size.into())))
        };
        let members: Vec<_> = group.iter().filter_map(member).collect();
        // As many rounds as a prediction takes; new observations soon outweigh them.
        for _ in 0..=config.needed {
            for &(handle, size) in &members {
                graph.observe(StreamId(0), handle.id());
                files.insert(handle, size);
            }
        }
        // The last file of a group does not lead to the first file of the next.
        graph.end(StreamId(0));
    }
}

impl Shuffler {
    /// A shuffler that already knows the groups of the store.
    ///
    /// # Errors
    /// The configuration contradicts itself.
    pub(super) fn new(
        config: GroupConfig,
        every: u64,
        idle: Option<Duration>,
        groups: &GroupedFiles,
    ) -> Result<Self, GroupConfigError> {
        let mut graph = Successors::new(config)?;
        let mut files = InodeTable::new(groups.underlying.handle().shape());
        groups.group_store(|store| {
            learn_from_store(&mut graph, &mut files, &config, groups, store);
        });
        Ok(Self {
            observed: Mutex::default(),
            learned: Mutex::new(Learned { graph, files, recent: Vec::new() }),
            shuffled_at: <(AtomicU64, AtomicU64)>::default(),
            opens: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            shuffles: AtomicU64::new(0),
            overlooked: AtomicU64::new(0),
            read_ahead: AtomicU64::new(0),
            every: every.max(1),
            idle,
            stopped: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            files: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            quiet: Mutex::new((0, Instant::now())),
        })
    }

    /// Notes an action of a client.
    pub(super) fn observe(&self, what: Observed) {
        if matches!(what, Observed::Opened { .. }) {
            self.opens.fetch_add(1, Relaxed);
        }
        let mut observed = held(&self.observed);
        if observed.len() < OBSERVED_MAX {
            observed.push(what);
        } else {
            self.overlooked.fetch_add(1, Relaxed);
        }
    }

    /// Learns the noted actions. Call often enough that the list does not overflow.
    pub(super) fn learn(&self) {
        self.learn_observed(&mut held(&self.learned));
    }

    fn learn_observed(&self, learned: &mut Learned) {
        for observed in std::mem::take(&mut *held(&self.observed)) {
            match observed {
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
                Observed::Removed(handle) => learned.forget(&handle),
            }
        }
        if learned.files.len() > learned.graph.files() + learned.graph.files() / 4 {
            let forgotten = |h: &InodeHandle| !learned.graph.knows(h.id());
            let forgotten: Vec<InodeHandle> =
                learned.files.iter().map(|(h, _)| h).filter(forgotten).collect();
            for handle in forgotten {
                learned.files.remove(handle.id());
            }
        }
        self.files.store(learned.files.len() as u64, Relaxed);
    }

    /// Number of remembered files, and of groups that the last shuffle wanted. During a shuffle
    /// they are the numbers at its beginning.
    pub(super) fn remembered(&self) -> (u64, u64) {
        (self.files.load(Relaxed), self.wanted.load(Relaxed))
    }

    /// True if no groups are formed any more.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// A running shuffle leaves the other files for the next mount.
    pub(super) fn end(&self) {
        self.ending.store(true, Relaxed);
    }

    /// True if a running shuffle must stop after the moves that it has begun.
    fn must_stop(&self) -> bool {
        self.is_stopped() || self.ending.load(Relaxed)
    }

    /// Reads groups that are likely to be used next, while the platters turn. While the disk
    /// sleeps, opened files are kept for later.
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
            let next = groups.group_store(|store| {
                groups_to_read_ahead(store, &learned.graph, handle.id(), number)
            });
            for file in next.into_iter().take(left) {
                left -= 1;
                if groups.ask(Ask::Read { file, offset: 0, len: 1 }).is_ok() {
                    self.read_ahead.fetch_add(1, Relaxed);
                }
            }
        }
    }

    /// True if it is time to shuffle: after enough requests; or if files were opened, but none for
    /// the idle time, or none until the disk is about to sleep.
    pub(super) fn is_due(&self, phase: DiskPhase) -> bool {
        if self.is_stopped() {
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
        since(&self.requests, &self.shuffled_at.0) >= self.every
            || (idle && since(&self.opens, &self.shuffled_at.1) > 0)
    }

    /// Forms groups anew. `busy` says whether a file is open.
    pub(super) fn shuffle(
        &self,
        groups: &GroupedFiles,
        busy: impl Fn(&InodeHandle) -> bool + Sync,
    ) {
        let mut learned = held(&self.learned);
        self.shuffled_at.0.store(self.requests.load(Relaxed), Relaxed);
        self.shuffled_at.1.store(self.opens.load(Relaxed), Relaxed);
        self.learn_observed(&mut learned);
        if self.must_stop() {
            return;
        }
        let wanted = learned.wanted_groups(&groups.take_rewritten_too_often());
        self.wanted.store(wanted.len() as u64, Relaxed);
        let stays: FxHashSet<InodeHandle> = wanted.iter().flatten().copied().collect();
        let mut leaves = groups.files_where(|h, file| !file.is_missing() && !stays.contains(h));
        leaves.truncate(MOVES_MAX);
        groups.move_back_until(&leaves, || self.must_stop());
        for handle in self.form_wanted(groups, wanted, &busy) {
            learned.forget(&handle);
        }
        self.shuffles.fetch_add(1, Relaxed);
    }

    /// Forms the wanted groups that the store does not have. Returns files that are not found.
    fn form_wanted(
        &self,
        groups: &GroupedFiles,
        wanted: Vec<Vec<InodeHandle>>,
        busy: &(impl Fn(&InodeHandle) -> bool + Sync),
    ) -> Vec<InodeHandle> {
        let current = CurrentGroups::of(groups);
        let mut missing = Vec::new();
        let mut wanted = wanted.into_iter();
        let (mut came, mut is_full) = (0, false);
        while !is_full && !self.must_stop() && came < MOVES_MAX {
            let next = next_groups(groups, &current, &mut wanted, &mut missing);
            if next.is_empty() {
                break;
            }
            for formed in groups.form_groups(&next, busy) {
                match formed {
                    Ok(moved) => came += moved,
                    Err(fault @ (Fault::NoSpace | Fault::TableFull)) => {
                        groups.note_trouble(format!("a group was not formed: {fault}"));
                        is_full |= fault == Fault::TableFull;
                    }
                    // A file was removed meanwhile, or the store has already reported that it is
                    // broken.
                    Err(_) => {}
                }
            }
        }
        missing
    }

    /// Moves all files back, and stops the forming of groups. Returns the number of files that
    /// could not be moved.
    pub(super) fn move_all_back(&self, groups: &GroupedFiles) -> usize {
        self.stopped.store(true, Relaxed);
        // A running shuffle sees the flag and ends.
        let _learned = held(&self.learned);
        groups.move_all_back(&groups.files_where(|_, _| true));
        groups.drop_removed();
        groups.len()
    }
}

impl Learned {
    fn forget(&mut self, handle: &InodeHandle) {
        self.graph.forget(handle.id());
        self.files.remove(handle.id());
    }

    /// The groups of small files that the learner wants. The files in `out` are left out of their
    /// groups, whose other files stay together.
    fn wanted_groups(&self, out: &FxHashSet<InodeHandle>) -> Vec<Vec<InodeHandle>> {
        let small = |id: u64| self.files.get(id).is_some_and(|(_, size)| size.is_small());
        let handle = |id: &u64| self.files.get(*id).map(|(h, _)| h).filter(|h| !out.contains(h));
        let groups = self.graph.groups(small).into_iter();
        groups.map(|g| g.iter().filter_map(handle).collect()).collect()
    }
}

/// The next wanted groups that differ from the groups of the store. Collects files that are not
/// found.
fn next_groups(
    groups: &GroupedFiles,
    current: &CurrentGroups,
    wanted: &mut impl Iterator<Item = Vec<InodeHandle>>,
    missing: &mut Vec<InodeHandle>,
) -> Vec<Vec<InodeHandle>> {
    let mut next = Vec::new();
    for mut files in wanted {
        // No inode of an unchanged group is looked at: there may be very many, and none in memory.
        if current.has(groups, &files) {
            continue;
        }
        files.retain(|handle| {
            let exists = groups.inode_exists(handle);
            missing.extend((!exists).then_some(*handle));
            exists && groups.may_be_grouped(handle)
        });
        if !files.is_empty() && !current.has(groups, &files) {
            next.push(files);
        }
        if next.len() == TOGETHER {
            break;
        }
    }
    next
}

/// Number of members of each group of the store, at the beginning of a shuffle.
struct CurrentGroups(FxHashMap<u32, usize>);

impl CurrentGroups {
    fn of(groups: &GroupedFiles) -> Self {
        let mut members = FxHashMap::<u32, usize>::default();
        groups.group_store(|g| {
            g.files().for_each(|(_, f)| *members.entry(f.group).or_default() += 1);
        });
        Self(members)
    }

    /// True if a group has exactly these files.
    fn has(&self, groups: &GroupedFiles, files: &[InodeHandle]) -> bool {
        let numbers: Vec<_> = files.iter().map(|h| groups.peek(h).map(|k| k.number)).collect();
        let of = |n: &Option<FileNumber>| groups.group_store(|g| g.file((*n)?).map(|f| f.group));
        let Some(Some(group)) = numbers.first().map(of) else { return false };
        numbers.iter().all(|n| of(n) == Some(group)) && self.0.get(&group) == Some(&files.len())
    }
}
