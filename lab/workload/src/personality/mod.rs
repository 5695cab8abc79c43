//! A workload as data: sets of files, and flows of operations over them. The execution is
//! elsewhere.

mod from_toml;
mod presets;

/// Limits common to both parsers.
pub(crate) mod read_limits {
    pub(crate) use super::from_toml::{FILES_MAX, IO_MAX, SECONDS_MAX, STEPS_MAX, THREADS_MAX};
}

use serde::Deserialize;

pub(crate) use presets::preset;
pub use presets::{Preset, presets};

/// Maximum number of descriptors in a flow.
pub(crate) const FDS: usize = 64;

/// A workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Personality {
    /// Its name; the name of a variant follows after a colon.
    pub name: String,
    pub(crate) title: String,
    /// The system that it imitates, and the source of its numbers.
    pub(crate) about: String,
    pub(crate) sets: Vec<FileSetSpec>,
    pub(crate) flows: Vec<Flow>,
    /// The gates of the steps: name, and maximum number of posts.
    pub(crate) gates: Vec<(String, u64)>,
    /// The rate per second, over all threads, that [`StepAction::Pace`] allows; `None` means no
    /// limit.
    pub(crate) rate: Option<f64>,
}

/// The sizes of the files in a set. The size of a file is drawn once and never changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SizeSpec {
    /// All files have this size.
    Fixed(u64),
    /// Gamma-distributed sizes with this mean in bytes; the shape is 1.5 in Filebench.
    Gamma { mean: u64, shape: f64 },
}

impl SizeSpec {
    /// The mean in bytes.
    pub(crate) const fn mean(self) -> u64 {
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
pub(crate) struct FileSetSpec {
    /// Its name, which is also the name of its directory.
    pub name: String,
    pub files: u64,
    pub size: SizeSpec,
    /// Mean number of entries per directory.
    pub width: f64,
    /// Shape of the gamma distributions of widths and depths.
    pub width_shape: f64,
    /// Fraction of the files that exist at the beginning of the run.
    pub prealloc: f64,
    /// Whether files are opened for reading only.
    pub read_only: bool,
}

/// A set with fewer files than this is scaled by the size of its files.
const FEW: u64 = 200;

impl FileSetSpec {
    /// Mean depth of the tree: ln(files) / ln(width).
    pub(crate) fn mean_depth(&self) -> f64 {
        (self.files.max(1) as f64).ln() / self.width.max(2.0).ln()
    }

    /// Mean total size in bytes after filling.
    pub(crate) fn mean_bytes(&self) -> f64 {
        self.files as f64 * self.prealloc * self.size.mean() as f64
    }
}

/// Steps that some threads repeat.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Flow {
    pub name: String,
    pub threads: u32,
    /// The steps in order, repeated without end.
    pub steps: Vec<FlowStep>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FlowStep {
    /// The name for its counts and latencies; several steps can have the same name.
    pub name: String,
    pub act: StepAction,
    /// Number of repetitions in a row.
    pub times: u32,
}

/// The file of an operation: a descriptor of the thread. If it is not open and a set is given, a
/// file of that set is opened first. That open does not count as an operation, and the file stays
/// open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSlot {
    pub fd: usize,
    /// Index into [`Personality::sets`].
    pub set: Option<usize>,
    /// Each operation uses the next file of the set, each with its own descriptor.
    pub rotate: bool,
}

/// The operation of a step. Sets and gates are indices; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum StepAction {
    /// Opens the next existing file of the set.
    Open { set: usize, fd: usize },
    /// Creates the next absent file of the set.
    Create { set: usize, fd: usize },
    /// Closes the descriptor.
    Close { fd: usize },
    /// Deletes the next file of the set that no thread has open.
    Delete { set: usize },
    /// Reads the attributes of the next file of the set.
    Stat { set: usize },
    /// Makes the file durable.
    Fsync { fd: usize },
    /// Reads the whole file, `io` bytes at a time; counts as one operation.
    ReadWhole { slot: FileSlot, io: u64 },
    /// Writes the file's size from the beginning, `io` bytes at a time; counts as one operation.
    /// The last write has `io` bytes, too.
    WriteWhole { slot: FileSlot, io: u64 },
    /// Appends `io` bytes, or a random number of bytes below `io`.
    Append { slot: FileSlot, io: u64, random: bool },
    /// Reads `io` bytes: the next ones, or at a random multiple of `io`. At the end of the file,
    /// reading starts again at the beginning.
    Read { slot: FileSlot, io: u64, random: bool, direct: bool },
    /// Writes `io` bytes: the next ones, or at a random multiple of `io`. With `sync`, each write
    /// is durable when it ends. With `background`, the thread continues at once.
    Write { slot: FileSlot, io: u64, random: bool, direct: bool, sync: bool, background: bool },
    /// Waits for the thread's background writes.
    Await,
    /// Waits `seconds`.
    Think { seconds: f64 },
    /// Computes: `loops` rounds of a short loop.
    Burn { loops: u64 },
    /// Waits for `posts` posts, and takes them.
    Wait { gate: usize, posts: u64 },
    /// Posts; waits while the gate is full.
    Post { gate: usize, posts: u64 },
    /// Waits until the rate allows the operations since the last pace.
    Pace { by: PaceUnit },
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PaceUnit {
    /// Number of times the step is reached.
    Turns,
    Operations,
    /// Reads and writes.
    Transfers,
    /// Bytes read and written, in MiB.
    Mebibytes,
}

impl StepAction {
    /// Whether the step counts as an operation, as in Filebench: I/O, open, create, close, delete,
    /// stat, fsync and waiting for asynchronous I/O do. Computing, gates and pauses do not.
    pub(crate) const fn counts(&self) -> bool {
        !matches!(
            self,
            Self::Think { .. }
                | Self::Burn { .. }
                | Self::Wait { .. }
                | Self::Post { .. }
                | Self::Pace { .. }
        )
    }

    /// Its name in a TOML file.
    pub(crate) const fn word(&self) -> &'static str {
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

    /// The descriptor that the step needs to be open, if any.
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

    /// Bytes of one transfer, and whether it is a read.
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
    /// Bytes of its largest single read.
    pub(crate) fn largest_read(&self) -> u64 {
        let reads = self.steps.iter().filter_map(|s| s.act.transfer().filter(|t| t.1));
        reads.map(|t| t.0).max().unwrap_or(0)
    }

    /// The first step that uses a descriptor that no step of the flow opens, and that descriptor.
    pub(crate) fn unopened(&self) -> Option<(usize, usize)> {
        let opened: Vec<usize> = self
            .steps
            .iter()
            .filter_map(|s| match s.act {
                StepAction::Open { fd, .. } | StepAction::Create { fd, .. } => Some(fd),
                _ => None,
            })
            .collect();
        let needs = self.steps.iter().map(|s| s.act.needs()).enumerate();
        needs.filter_map(|(i, fd)| Some((i, fd?))).find(|(_, fd)| !opened.contains(fd))
    }
}

impl Personality {
    /// Scales the workload by the number of files in each set; sets with fewer than 200 files are
    /// scaled by file size. Threads and I/O sizes stay.
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

    /// Multiplies the number of threads in each flow; at least one thread remains.
    #[must_use]
    pub fn with_threads(mut self, times: f64) -> Self {
        for flow in &mut self.flows {
            flow.threads = ((f64::from(flow.threads) * times).round() as u32).max(1);
        }
        self
    }

    /// Number of counted operations in one turn of each flow.
    pub(crate) fn operations_per_turn(&self) -> Vec<u64> {
        let of =
            |f: &Flow| f.steps.iter().filter(|s| s.act.counts()).map(|s| u64::from(s.times)).sum();
        self.flows.iter().map(of).collect()
    }

    /// Total number of threads.
    pub fn threads(&self) -> u32 {
        self.flows.iter().map(|f| f.threads).sum()
    }

    /// Bytes of all threads' read buffers.
    pub(crate) fn buffers(&self) -> u64 {
        self.flows.iter().map(|f| u64::from(f.threads) * f.largest_read()).sum()
    }

    /// Mean total size in bytes of all sets after filling.
    pub(crate) fn mean_bytes(&self) -> f64 {
        self.sets.iter().map(FileSetSpec::mean_bytes).sum()
    }
}
