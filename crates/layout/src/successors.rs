//! Which file follows which, as EEFS learns it: the successors of each file that were seen most recently, of which those
//! that came up often enough predict (Recent Popularity; Amer and others, IPCCC 2002). One pass, bounded memory. It knows
//! no name, no size, no time: a file is a number.

use rustc_hash::FxHashMap;
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

/// A file, while it is remembered.
#[derive(Clone, Debug)]
struct Node {
    /// When it was last seen.
    seen: u64,
    /// How many of `latest` there are, and where the next one goes.
    len: u8,
    next: u8,
    latest: Box<[u64]>,
}

/// The file-relation graph of EEFS.
#[derive(Clone, Debug)]
pub struct Successors {
    config: GroupConfig,
    files: FxHashMap<u64, Node>,
    /// The file each stream asked for last, and when.
    streams: FxHashMap<StreamId, (u64, u64)>,
    /// Requests observed.
    clock: u64,
}

impl Successors {
    /// Of nothing yet.
    ///
    /// # Errors
    /// Where the configuration makes no sense.
    pub fn new(config: GroupConfig) -> Result<Self, GroupConfigError> {
        config.check()?;
        let (files, streams) = (FxHashMap::default(), FxHashMap::default());
        Ok(Self { config, files, streams, clock: 0 })
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
        match self.files.get_mut(&file) {
            Some(node) => node.seen = clock,
            None => {
                let latest = vec![0; self.config.window.into()].into_boxed_slice();
                self.files.insert(file, Node { seen: clock, len: 0, next: 0, latest });
                if self.files.len() > self.config.files_max {
                    forget_oldest(&mut self.files, |n| n.seen);
                }
            }
        }
        if let Some((last, _)) = before
            && last != file
            && let Some(node) = self.files.get_mut(&last)
        {
            node.latest[usize::from(node.next)] = file;
            node.next = (node.next + 1) % self.config.window;
            node.len = (node.len + 1).min(self.config.window);
        }
    }

    /// The file is gone: nothing leads to it or from it any more.
    pub fn forget(&mut self, file: u64) {
        self.files.remove(&file);
    }

    /// Files remembered.
    #[must_use]
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Whether the file is remembered.
    #[must_use]
    pub fn knows(&self, file: u64) -> bool {
        self.files.contains_key(&file)
    }

    /// The files that a file predicts, each with its popularity in counts of the window, most popular first.
    #[must_use]
    pub fn predictions(&self, file: u64) -> Vec<(u64, u8)> {
        let Some(node) = self.files.get(&file) else { return Vec::new() };
        let mut latest = node.latest[..node.len.into()].to_vec();
        latest.sort_unstable();
        let mut found: Vec<(u64, u8)> = latest
            .chunk_by(|a, b| a == b)
            .filter(|run| {
                run.len() >= self.config.needed.into() && self.files.contains_key(&run[0])
            })
            .map(|run| (run[0], run.len() as u8))
            .collect();
        found.sort_unstable_by_key(|&(file, count)| (std::cmp::Reverse(count), file));
        found
    }

    /// Every file remembered, in order of number.
    pub(crate) fn all(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.files.keys().copied().collect();
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
