//! Which file follows which, as EEFS learns it: the learner remembers the latest successors of each
//! file, and predicts those that are frequent enough among them (Recent Popularity; Amer and
//! others, IPCCC 2002). One pass, bounded memory. A file is a number; the learner knows no name, no
//! size and no time.

use std::hash::{BuildHasher as _, BuildHasherDefault};

use hashbrown::HashTable;
use rustc_hash::{FxHashMap, FxHasher};
use seekless_block::StreamId;

const WINDOW_MAX: u8 = 32;

/// How files are grouped. The defaults are those of EEFS, where the paper gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// k of Recent Popularity: number of latest successors of a file that count, 1 to 32. The
    /// example of EEFS has 10.
    pub window: u8,
    /// j of Recent Popularity: number of these that must be the same file to predict that file. The
    /// example of EEFS has 3.
    pub needed: u8,
    /// `G_min` of EEFS: fewest files of a group.
    pub least: u32,
    /// `G_max` of EEFS: most files of a group. At least twice `least` minus one, so that no part of
    /// a divided group is too small.
    pub most: u32,
    /// Remembered files, at most; then the quarter not seen for longest is forgotten.
    pub files_max: usize,
    /// Remembered streams, at most; then likewise.
    pub streams_max: usize,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self { window: 10, needed: 3, least: 3, most: 8, files_max: 1 << 20, streams_max: 1 << 12 }
    }
}

/// A configuration that contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum GroupConfigError {
    #[error(
        "{needed} of the last {window} successors: expected a window of 1 to {WINDOW_MAX}, and 1 to all of its successors"
    )]
    Popularity { window: u8, needed: u8 },
    #[error("groups of {least} to {most} files: expected at least 1 file, and a maximum of at least {}", 2 * least.max(&1) - 1)]
    Size { least: u32, most: u32 },
    #[error(
        "{files} remembered files and {streams} remembered streams: expected at least 4 of each"
    )]
    Room { files: usize, streams: usize },
}

impl GroupConfig {
    /// Checks the configuration.
    ///
    /// # Errors
    /// The first contradiction.
    pub const fn check(&self) -> Result<(), GroupConfigError> {
        let Self { window, needed, least, most, files_max, streams_max } = *self;
        if window == 0 || window > WINDOW_MAX || needed == 0 || needed > window {
            return Err(GroupConfigError::Popularity { window, needed });
        }
        if least == 0 || least > 1 << 16 || most < 2 * least - 1 {
            return Err(GroupConfigError::Size { least, most });
        }
        if files_max < 4 || streams_max < 4 {
            return Err(GroupConfigError::Room { files: files_max, streams: streams_max });
        }
        Ok(())
    }
}

/// A forgotten file: still part of a window, but never predicted.
const FORGOTTEN: u32 = u32::MAX;

/// A remembered file. Its latest successors are in [`Successors::latest`].
#[derive(Clone, Copy, Debug)]
struct Node {
    file: u64,
    /// Time of the last request, counted in requests.
    seen: u64,
    /// Number of latest successors.
    len: u8,
    /// Position of the next successor in the window.
    next: u8,
    /// Forgotten; the next sweep removes the file.
    gone: bool,
}

/// The file-relation graph of EEFS. A file takes 24 bytes, 4 more for each successor in its window,
/// and about 10 in the index.
#[derive(Clone, Debug)]
pub struct Successors {
    config: GroupConfig,
    nodes: Vec<Node>,
    /// The window of each node, as indices of `nodes`.
    latest: Vec<u32>,
    /// Indices of `nodes` by file.
    index: HashTable<u32>,
    /// The latest file of each stream, and its time.
    streams: FxHashMap<StreamId, (u64, u64)>,
    /// Number of observed requests.
    clock: u64,
}

fn hash(file: u64) -> u64 {
    BuildHasherDefault::<FxHasher>::default().hash_one(file)
}

/// Grows a list by an eighth, so that a million files do not take the memory of two million.
fn reserve<T>(list: &mut Vec<T>, more: usize) {
    if list.len() + more > list.capacity() {
        list.reserve_exact(more + list.len() / 8);
    }
}

impl Successors {
    /// A learner without observations.
    ///
    /// # Errors
    /// The configuration contradicts itself.
    pub fn new(config: GroupConfig) -> Result<Self, GroupConfigError> {
        config.check()?;
        Ok(Self {
            config,
            nodes: Vec::new(),
            latest: Vec::new(),
            index: HashTable::new(),
            streams: FxHashMap::default(),
            clock: 0,
        })
    }

    /// The configuration.
    pub const fn config(&self) -> &GroupConfig {
        &self.config
    }

    /// A stream asks for a file. A successor is another file that the same stream asks for next;
    /// requests of two processes at the same time make no relation between their files. Stream 0 of
    /// unknown origin is a stream like the others.
    pub fn observe(&mut self, stream: StreamId, file: u64) {
        self.clock += 1;
        let clock = self.clock;
        let before = self.streams.insert(stream, (file, clock));
        if before.is_none() && self.streams.len() > self.config.streams_max {
            forget_oldest(&mut self.streams, |s| s.1);
        }
        let at = self.index_of(file).unwrap_or_else(|| self.enter(file));
        if let Some(node) = self.nodes.get_mut(at) {
            node.seen = clock;
        }
        if self.index.len() > self.config.files_max {
            self.forget_oldest();
        }
        // The index of both may have changed.
        let from =
            before.filter(|(last, _)| *last != file).and_then(|(last, _)| self.index_of(last));
        if let (Some(from), Some(to)) = (from, self.index_of(file)) {
            let (window, node) = (self.config.window, &mut self.nodes[from]);
            self.latest[from * usize::from(window) + usize::from(node.next)] = to as u32;
            node.next = (node.next + 1) % window;
            node.len = (node.len + 1).min(window);
        }
    }

    fn index_of(&self, file: u64) -> Option<usize> {
        let nodes = &self.nodes;
        let found = self.index.find(hash(file), |&i| nodes[i as usize].file == file);
        found.map(|&i| i as usize)
    }

    fn enter(&mut self, file: u64) -> usize {
        let at = self.nodes.len();
        let window = self.config.window.into();
        reserve(&mut self.nodes, 1);
        reserve(&mut self.latest, window);
        self.nodes.push(Node { file, seen: self.clock, len: 0, next: 0, gone: false });
        self.latest.resize((at + 1) * window, FORGOTTEN);
        let nodes = &self.nodes;
        self.index.insert_unique(hash(file), at as u32, |&i| hash(nodes[i as usize].file));
        at
    }

    /// Forgets the quarter that was not seen for longest. The mean cost per request is constant.
    fn forget_oldest(&mut self) {
        let mut times: Vec<u64> = self.nodes.iter().filter(|n| !n.gone).map(|n| n.seen).collect();
        let at = times.len() / 4;
        let (_, &mut limit, _) = times.select_nth_unstable(at);
        self.nodes.iter_mut().filter(|n| n.seen < limit).for_each(|n| n.gone = true);
        self.sweep();
    }

    /// Removes forgotten files, and all successors that are forgotten files.
    fn sweep(&mut self) {
        let window = usize::from(self.config.window);
        let mut left = 0;
        let moved: Vec<u32> = self
            .nodes
            .iter()
            .map(|n| {
                let to = if n.gone { FORGOTTEN } else { left };
                left += u32::from(!n.gone);
                to
            })
            .collect();
        let moved_to = |place: u32| moved.get(place as usize).copied().unwrap_or(FORGOTTEN);
        for (from, &to) in moved.iter().enumerate().filter(|(_, to)| **to != FORGOTTEN) {
            self.nodes[to as usize] = self.nodes[from];
            for i in 0..window {
                self.latest[to as usize * window + i] = moved_to(self.latest[from * window + i]);
            }
        }
        self.nodes.truncate(left as usize);
        self.latest.truncate(left as usize * window);
        self.index.clear();
        let nodes = &self.nodes;
        for (place, node) in (0..).zip(nodes) {
            self.index.insert_unique(hash(node.file), place, |&i| hash(nodes[i as usize].file));
        }
    }

    /// Forgets a file that was removed: nothing leads to it or from it any more, even if its number
    /// comes back.
    pub fn forget(&mut self, file: u64) {
        let nodes = &mut self.nodes;
        let found = self.index.find_entry(hash(file), |&i| nodes[i as usize].file == file);
        let Ok(entry) = found else { return };
        let (place, _) = entry.remove();
        nodes[place as usize].gone = true;
        if self.index.len() < self.nodes.len() / 4 * 3 {
            self.sweep();
        }
    }

    /// A stream has ended: its next file is no successor.
    pub fn end(&mut self, stream: StreamId) {
        self.streams.remove(&stream);
    }

    /// Number of remembered files.
    pub fn files(&self) -> usize {
        self.index.len()
    }

    /// True if the file is remembered.
    pub fn knows(&self, file: u64) -> bool {
        self.index_of(file).is_some()
    }

    /// The predicted successors of a file, each with its count in the window, most frequent first.
    pub(crate) fn predictions(&self, file: u64) -> Vec<(u64, u8)> {
        let Some(at) = self.index_of(file) else { return Vec::new() };
        let from = at * usize::from(self.config.window);
        let mut latest = self.latest[from..from + usize::from(self.nodes[at].len)].to_vec();
        latest.sort_unstable();
        let mut found: Vec<(u64, u8)> = latest
            .chunk_by(|a, b| a == b)
            .filter(|run| run.len() >= self.config.needed.into())
            .filter_map(|run| {
                let to = self.nodes.get(run[0] as usize).filter(|n| !n.gone)?;
                Some((to.file, run.len() as u8))
            })
            .collect();
        found.sort_unstable_by_key(|&(file, count)| (std::cmp::Reverse(count), file));
        found
    }

    /// Every remembered file, in order of number.
    pub(crate) fn all(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.nodes.iter().filter(|n| !n.gone).map(|n| n.file).collect();
        all.sort_unstable();
        all
    }
}

/// Forgets the quarter of a table that was not seen for longest. The mean cost per request is
/// constant.
fn forget_oldest<K, V>(table: &mut FxHashMap<K, V>, seen: impl Fn(&V) -> u64) {
    let mut times: Vec<u64> = table.values().map(&seen).collect();
    let at = times.len() / 4;
    let (_, &mut limit, _) = times.select_nth_unstable(at);
    table.retain(|_, v| seen(v) >= limit);
}
