//! A workload as data: sets of files, and flows of operations over them. It knows what is to be done, not how it
//! is done nor how fast.

mod presets;
mod read;

/// Limits that both readers share.
pub(crate) mod read_limits {
    pub(crate) use super::read::{FILES_MAX, IO_MAX, SECONDS_MAX, STEPS_MAX, THREADS_MAX};
}

pub use presets::{Preset, preset, presets};

/// Most descriptors that a flow may name.
pub(crate) const FDS: usize = 64;

/// A workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Personality {
    /// Its name, with the variant's after a colon.
    pub name: String,
    /// One line.
    pub title: String,
    /// What it imitates and where its numbers come from.
    pub about: String,
    /// Sets of files.
    pub sets: Vec<FileSetSpec>,
    /// Flows, each run by threads of its own.
    pub flows: Vec<Flow>,
    /// Names of the gates that steps wait at and post to, and how many posts each holds.
    pub gates: Vec<(String, u64)>,
    /// What [`Act::Pace`] allows a second over all threads; none: as fast as it goes.
    pub rate: Option<f64>,
}

/// How large the files of a set are. A file's size is drawn once and is its own for life.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SizeSpec {
    /// All of this size.
    Fixed(u64),
    /// Gamma distributed.
    Gamma {
        /// In bytes.
        mean: u64,
        /// The distribution's shape; 1.5 in Filebench.
        shape: f64,
    },
}

impl SizeSpec {
    /// In bytes.
    #[must_use]
    pub const fn mean(self) -> u64 {
        match self {
            Self::Fixed(size) => size,
            Self::Gamma { mean, .. } => mean,
        }
    }

    fn with_mean(self, mean: u64) -> Self {
        match self {
            Self::Fixed(_) => Self::Fixed(mean),
            Self::Gamma { shape, .. } => Self::Gamma { mean, shape },
        }
    }
}

/// A set of files in a tree of directories.
#[derive(Clone, Debug, PartialEq)]
pub struct FileSetSpec {
    /// Its name, and that of its directory.
    pub name: String,
    /// How many files it has places for.
    pub files: u64,
    /// Their sizes.
    pub size: SizeSpec,
    /// Mean number of entries of a directory.
    pub width: f64,
    /// Shape of the gamma distribution of widths and depths.
    pub width_shape: f64,
    /// Share of the files that are there when the run begins.
    pub prealloc: f64,
    /// Opened for reading only.
    pub read_only: bool,
}

/// Sets with fewer files than this are scaled by the size of their files.
const FEW: u64 = 200;

impl FileSetSpec {
    /// Mean depth of the tree: ln(files) / ln(width).
    #[must_use]
    pub fn mean_depth(&self) -> f64 {
        (self.files.max(1) as f64).ln() / self.width.max(2.0).ln()
    }

    /// Bytes when it is filled, in the mean.
    #[must_use]
    pub fn mean_bytes(&self) -> f64 {
        self.files as f64 * self.prealloc * self.size.mean() as f64
    }
}

/// What some threads do, over and over.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// How many threads do it.
    pub threads: u32,
    /// In order; then from the beginning.
    pub steps: Vec<Step>,
}

/// One operation of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What its counts and latencies stand under; steps may share it.
    pub name: String,
    /// What is done.
    pub act: Act,
    /// How often in a row.
    pub times: u32,
}

/// The file of an operation: a descriptor of the thread. Where it is not open and a set is named, a file of that
/// set is opened first, which counts as no operation and is never closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Number of the descriptor.
    pub fd: usize,
    /// Index into [`Personality::sets`].
    pub set: Option<usize>,
    /// The next file of the set at each operation, each with a descriptor of its own.
    pub rotate: bool,
}

/// What a step does. Sets and gates are indices; sizes are bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "fields are named as in the variant's text, and said there")]
pub enum Act {
    /// Opens the set's next file that exists.
    Open { set: usize, fd: usize },
    /// Creates the set's next file that does not exist.
    Create { set: usize, fd: usize },
    /// Closes.
    Close { fd: usize },
    /// Deletes the set's next file that no one has open.
    Delete { set: usize },
    /// Asks for the attributes of the set's next file.
    Stat { set: usize },
    /// Makes durable.
    Fsync { fd: usize },
    /// Reads from the beginning to the end, `io` bytes at a time: one operation.
    ReadWhole { slot: Slot, io: u64 },
    /// Writes the file's size from the beginning, `io` bytes at a time: one operation. The last write is whole, too.
    WriteWhole { slot: Slot, io: u64 },
    /// Writes at the end: `io` bytes, or evenly from 0 to less than `io`.
    Append { slot: Slot, io: u64, random: bool },
    /// Reads `io` bytes: the next, from the beginning again at the end; or at a random multiple of `io`.
    Read { slot: Slot, io: u64, random: bool, direct: bool },
    /// Writes `io` bytes: the next, or at a random multiple of `io`. `sync`: each durable when it ends.
    /// `background`: the thread goes on at once.
    Write { slot: Slot, io: u64, random: bool, direct: bool, sync: bool, background: bool },
    /// Waits for the thread's background writes.
    Await,
    /// Waits for some time.
    Think { seconds: f64 },
    /// Computes, so many rounds of a short loop.
    Burn { loops: u64 },
    /// Waits until so many posts have come, and takes them.
    Wait { gate: usize, posts: u64 },
    /// Posts; waits while the gate is full.
    Post { gate: usize, posts: u64 },
    /// Waits until the rate allows what was done since the last time.
    Pace { by: Pace },
}

/// What a rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Times the step is come by.
    Turns,
    /// Operations.
    Operations,
    /// Reads and writes.
    Transfers,
    /// Bytes read and written, in MiB.
    Mebibytes,
}

impl Act {
    /// Whether it counts as an operation, as Filebench counts: I/O, open, create, close, delete, stat, fsync and
    /// waiting for asynchronous I/O do, computing, gates and pauses do not.
    #[must_use]
    pub const fn counts(&self) -> bool {
        !matches!(
            self,
            Self::Think { .. }
                | Self::Burn { .. }
                | Self::Wait { .. }
                | Self::Post { .. }
                | Self::Pace { .. }
        )
    }

    /// What it is called in a TOML file.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Open { .. } => "open",
            Self::Create { .. } => "create",
            Self::Close { .. } => "close",
            Self::Delete { .. } => "delete",
            Self::Stat { .. } => "stat",
            Self::Fsync { .. } => "fsync",
            Self::ReadWhole { .. } => "read-whole",
            Self::WriteWhole { .. } => "write-whole",
            Self::Append { .. } => "append",
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Await => "await",
            Self::Think { .. } => "think",
            Self::Burn { .. } => "burn",
            Self::Wait { .. } => "wait",
            Self::Post { .. } => "post",
            Self::Pace { .. } => "pace",
        }
    }

    /// The descriptor it uses and must find open, if there is one.
    pub(crate) const fn needs(&self) -> Option<usize> {
        match self {
            Self::Close { fd } | Self::Fsync { fd } => Some(*fd),
            Self::ReadWhole { slot, .. }
            | Self::WriteWhole { slot, .. }
            | Self::Append { slot, .. }
            | Self::Read { slot, .. }
            | Self::Write { slot, .. } => match slot.set {
                None => Some(slot.fd),
                Some(_) => None,
            },
            _ => None,
        }
    }

    /// Bytes of one transfer, and whether it reads.
    pub(crate) const fn transfer(&self) -> Option<(u64, bool)> {
        match self {
            Self::ReadWhole { io, .. } | Self::Read { io, .. } => Some((*io, true)),
            Self::WriteWhole { io, .. } | Self::Append { io, .. } | Self::Write { io, .. } => {
                Some((*io, false))
            }
            _ => None,
        }
    }
}

impl Flow {
    /// Bytes of its largest read at once.
    pub(crate) fn largest_read(&self) -> u64 {
        let reads = self.steps.iter().filter_map(|s| s.act.transfer().filter(|t| t.1));
        reads.map(|t| t.0).max().unwrap_or(0)
    }

    /// Whether a step uses a descriptor that nothing in the flow opens: the first, with that descriptor.
    pub(crate) fn unopened(&self) -> Option<(usize, usize)> {
        let opened: Vec<usize> = self
            .steps
            .iter()
            .filter_map(|s| match s.act {
                Act::Open { fd, .. } | Act::Create { fd, .. } => Some(fd),
                _ => None,
            })
            .collect();
        let needs = self.steps.iter().map(|s| s.act.needs()).enumerate();
        needs.filter_map(|(i, fd)| Some((i, fd?))).find(|(_, fd)| !opened.contains(fd))
    }
}

impl Personality {
    /// Smaller or larger: as many times the files of each set, or, where there are fewer than 200, as many times
    /// their size. Threads and I/O sizes stay.
    #[must_use]
    pub fn scaled(mut self, scale: f64) -> Self {
        let times = |n: u64| ((n as f64 * scale).round() as u64).max(1);
        for set in &mut self.sets {
            if set.files >= FEW {
                set.files = times(set.files);
            } else {
                set.size = set.size.with_mean(times(set.size.mean()));
            }
        }
        self
    }

    /// So many threads in each flow, at least one, as multiples of what they are.
    #[must_use]
    pub fn with_threads(mut self, times: f64) -> Self {
        for flow in &mut self.flows {
            flow.threads = ((f64::from(flow.threads) * times).round() as u32).max(1);
        }
        self
    }

    /// Operations that one turn of each flow counts.
    #[must_use]
    pub fn operations_per_turn(&self) -> Vec<u64> {
        let of =
            |f: &Flow| f.steps.iter().filter(|s| s.act.counts()).map(|s| u64::from(s.times)).sum();
        self.flows.iter().map(of).collect()
    }

    /// All threads.
    #[must_use]
    pub fn threads(&self) -> u32 {
        self.flows.iter().map(|f| f.threads).sum()
    }

    /// Bytes of all threads' buffers for reading.
    #[must_use]
    pub fn buffers(&self) -> u64 {
        self.flows.iter().map(|f| u64::from(f.threads) * f.largest_read()).sum()
    }

    /// Bytes of all sets when they are filled, in the mean.
    #[must_use]
    pub fn mean_bytes(&self) -> f64 {
        self.sets.iter().map(FileSetSpec::mean_bytes).sum()
    }
}
