//! Which file follows which, as EEFS learns it: the successors of each file that were seen most recently, of which those
//! that came up often enough predict (Recent Popularity; Amer and others, IPCCC 2002). One pass, bounded memory. It knows
//! no name, no size, no time: a file is a number.

use std::hash::{BuildHasher as _, BuildHasherDefault};

use hashbrown::HashTable;
use rustc_hash::{FxHashMap, FxHasher};
use seekless_block::StreamId;

/// Successors that are remembered of one file, at most.
const WINDOW_MAX: u8 = 32;

/// How files are grouped; the defaults are EEFS's where it tells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// Recent Popularity's k: so many of a file's latest successors count. EEFS's example has 10; 1 to 32.
    pub window: u8,
    /// Recent Popularity's j: so many of them must be the same file to predict it. EEFS's example has 3.
    pub needed: u8,
    /// EEFS's G_min: fewer files are no group.
    pub least: u32,
    /// EEFS's G_max: more are divided. At least twice `least`, less one, so that no part is too small.
    pub most: u32,
    /// Files remembered; beyond, the quarter not seen for longest is forgotten.
    pub files_max: usize,
    /// Streams remembered, likewise.
    pub streams_max: usize,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self { window: 10, needed: 3, least: 3, most: 8, files_max: 1 << 20, streams_max: 1 << 12 }
    }
}

/// What cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupConfigError {
    /// Of Recent Popularity's two numbers.
    #[error(
        "{needed} of the last {window} successors: expected a window from 1 to {WINDOW_MAX}, and at least 1 and at most all of it"
    )]
    Popularity {
        /// k.
        window: u8,
        /// j.
        needed: u8,
    },
    /// Of a group's size.
    #[error("groups of {least} to {most} files: expected at least 1 file, and at most no fewer than {}", 2 * least.max(&1) - 1)]
    Size {
        /// `G_min`.
        least: u32,
        /// `G_max`.
        most: u32,
    },
    /// Room for too little.
    #[error("room for {files} files and {streams} streams: expected at least 4 of each")]
    Room {
        /// Files.
        files: usize,
        /// Streams.
        streams: usize,
    },
}

impl GroupConfig {
    /// Whether it makes sense.
    ///
    /// # Errors
    /// What does not.
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

/// No file, or one that was forgotten: it takes a place in the window and predicts nothing.
const NOBODY: u32 = u32::MAX;

/// A file, while it is remembered; its latest successors stand beside, in [`Successors::latest`].
#[derive(Clone, Copy, Debug)]
struct Node {
    file: u64,
    /// When it was last seen.
    seen: u64,
    /// How many latest successors there are, and where the next one goes.
    len: u8,
    next: u8,
    /// Forgotten, and to be swept.
    gone: bool,
}

/// The file-relation graph of EEFS. A file takes 24 bytes, 4 more for each place of its window, and some 10 to be found by.
#[derive(Clone, Debug)]
pub struct Successors {
    config: GroupConfig,
    nodes: Vec<Node>,
    /// Of each node the window, as places in `nodes`.
    latest: Vec<u32>,
    /// Places in `nodes`, by file.
    index: HashTable<u32>,
    /// The file each stream asked for last, and when.
    streams: FxHashMap<StreamId, (u64, u64)>,
    /// Requests observed.
    clock: u64,
}

fn hash(file: u64) -> u64 {
    BuildHasherDefault::<FxHasher>::default().hash_one(file)
}

/// Makes room for one more, an eighth at a time: a million files must not take the memory of two.
fn reserve<T>(list: &mut Vec<T>, more: usize) {
    if list.len() + more > list.capacity() {
        list.reserve_exact(more + list.len() / 8);
    }
}

impl Successors {
    /// Of nothing yet.
    ///
    /// # Errors
    /// Where the configuration makes no sense.
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

    /// How it groups.
    #[must_use]
    pub const fn config(&self) -> &GroupConfig {
        &self.config
    }

    /// A stream asks for a file. A successor is a different file that the same stream asks for next: what two
    /// processes do at the same time makes no relation between their files. Stream 0, of which nobody knows who
    /// it is, is one like the others.
    pub fn observe(&mut self, stream: StreamId, file: u64) {
        self.clock += 1;
        let clock = self.clock;
        let before = self.streams.insert(stream, (file, clock));
        if before.is_none() && self.streams.len() > self.config.streams_max {
            forget_oldest(&mut self.streams, |s| s.1);
        }
        let place = self.place(file).unwrap_or_else(|| self.enter(file));
        if let Some(node) = self.nodes.get_mut(place) {
            node.seen = clock;
        }
        if self.index.len() > self.config.files_max {
            self.forget_oldest();
        }
        // Where both are, now that room was made.
        let at = before.filter(|(last, _)| *last != file).and_then(|(last, _)| self.place(last));
        if let (Some(from), Some(to)) = (at, self.place(file)) {
            let (window, node) = (self.config.window, &mut self.nodes[from]);
            self.latest[from * usize::from(window) + usize::from(node.next)] = to as u32;
            node.next = (node.next + 1) % window;
            node.len = (node.len + 1).min(window);
        }
    }

    fn place(&self, file: u64) -> Option<usize> {
        let nodes = &self.nodes;
        let found = self.index.find(hash(file), |&i| nodes[i as usize].file == file);
        found.map(|&i| i as usize)
    }

    fn enter(&mut self, file: u64) -> usize {
        let place = self.nodes.len();
        let window = self.config.window.into();
        reserve(&mut self.nodes, 1);
        reserve(&mut self.latest, window);
        self.nodes.push(Node { file, seen: self.clock, len: 0, next: 0, gone: false });
        self.latest.resize((place + 1) * window, NOBODY);
        let nodes = &self.nodes;
        self.index.insert_unique(hash(file), place as u32, |&i| hash(nodes[i as usize].file));
        place
    }

    /// Forgets the quarter that was not seen for longest; seldom enough to cost a constant each time.
    fn forget_oldest(&mut self) {
        let mut times: Vec<u64> = self.nodes.iter().filter(|n| !n.gone).map(|n| n.seen).collect();
        let at = times.len() / 4;
        let (_, &mut limit, _) = times.select_nth_unstable(at);
        self.nodes.iter_mut().filter(|n| n.seen < limit).for_each(|n| n.gone = true);
        self.sweep();
    }

    /// Lets the places of forgotten files go, and with them what led there.
    fn sweep(&mut self) {
        let window = usize::from(self.config.window);
        let mut left = 0;
        let moved: Vec<u32> = self
            .nodes
            .iter()
            .map(|n| {
                let to = if n.gone { NOBODY } else { left };
                left += u32::from(!n.gone);
                to
            })
            .collect();
        let moved_to = |place: u32| moved.get(place as usize).copied().unwrap_or(NOBODY);
        for (from, &to) in moved.iter().enumerate().filter(|(_, to)| **to != NOBODY) {
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

    /// The file is gone: nothing leads to it or from it any more, also where it comes back.
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

    /// A stream has ended: what comes under its number from now on follows nothing.
    pub fn end(&mut self, stream: StreamId) {
        self.streams.remove(&stream);
    }

    /// Files remembered.
    #[must_use]
    pub fn files(&self) -> usize {
        self.index.len()
    }

    /// Whether the file is remembered.
    #[must_use]
    pub fn knows(&self, file: u64) -> bool {
        self.place(file).is_some()
    }

    /// The files that a file predicts, each with its popularity in counts of the window, most popular first.
    #[must_use]
    pub fn predictions(&self, file: u64) -> Vec<(u64, u8)> {
        let Some(place) = self.place(file) else { return Vec::new() };
        let from = place * usize::from(self.config.window);
        let mut latest = self.latest[from..from + usize::from(self.nodes[place].len)].to_vec();
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

    /// Every file remembered, in order of number.
    pub(crate) fn all(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.nodes.iter().filter(|n| !n.gone).map(|n| n.file).collect();
        all.sort_unstable();
        all
    }
}

/// Forgets the quarter of a table that was not seen for longest; seldom enough to cost a constant each time.
fn forget_oldest<K, V>(table: &mut FxHashMap<K, V>, seen: impl Fn(&V) -> u64) {
    let mut times: Vec<u64> = table.values().map(&seen).collect();
    let at = times.len() / 4;
    let (_, &mut limit, _) = times.select_nth_unstable(at);
    table.retain(|_, v| seen(v) >= limit);
}
