//! The group store's words: what goes in, what comes out.

use seekless_block::{Bytes, Duration, Extent, Op};

/// Largest file that is kept: EEFS sends files beyond 64 KiB back to the other module.
pub const FILE_BYTES_MAX: u32 = 65_536;
/// Most files in a group. EEFS's G_max is 8; one that is set otherwise must fit a record.
pub const GROUP_FILES_MAX: usize = 64;
/// Longest name.
pub const NAME_BYTES_MAX: usize = 1_023;

/// A file of the store: its place in the lookup table, and a count, so that no number is ever used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNumber(pub u64);

impl FileNumber {
    pub(crate) const fn new(index: u32, count: u32) -> Self {
        Self((count as u64) << 32 | index as u64)
    }

    pub(crate) const fn index(self) -> usize {
        (self.0 & 0xFFFF_FFFF) as usize
    }

    pub(crate) const fn count(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// What a file system knows of a file besides its bytes and names. Times in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
// There may be a million.
#[repr(Rust, packed(4))]
pub struct Attributes {
    /// Type and permissions.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Last read.
    pub accessed: i64,
    /// Last written.
    pub modified: i64,
    /// Last changed, these attributes included.
    pub changed: i64,
}

/// Whether a file is here for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileState {
    /// It is, and the other module has a marker for it.
    #[default]
    Settled = 0,
    /// On its way here: where the other module has no marker for it after a crash, its copy there is the file.
    Arriving = 1,
    /// On its way back: where the other module has no marker for it after a crash, its copy there is the file.
    Leaving = 2,
}

/// The driver's name for what it asks, handed back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The store's name for an I/O; unique among those in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u32);

/// A file that comes from the other module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Owner, permissions, times.
    pub attributes: Attributes,
    /// What the driver needs to find its marker again; at most [`NAME_BYTES_MAX`] bytes.
    pub name: Vec<u8>,
    /// All of it; at most [`FILE_BYTES_MAX`] bytes.
    pub data: Vec<u8>,
}

/// A member of a group to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    /// A file that the store has, whatever its group.
    Here(FileNumber),
    /// A file that comes.
    New(Arrival),
}

/// What the driver asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Up to `len` bytes from `offset` on; fewer at the end of the file. The whole group is read.
    Read {
        /// Of which file.
        file: FileNumber,
        /// From here.
        offset: u64,
        /// So many.
        len: u32,
    },
    /// Puts bytes into a file; beyond its end it grows, with zeroes in between.
    Write {
        /// Which file.
        file: FileNumber,
        /// From here.
        offset: u64,
        /// What.
        data: Vec<u8>,
        /// When, for `modified` and `changed`.
        time: i64,
    },
    /// Cuts a file, or lets it grow with zeroes.
    Resize {
        /// Which file.
        file: FileNumber,
        /// To so many bytes.
        size: u64,
        /// When.
        time: i64,
    },
    /// Replaces a file's attributes.
    SetAttributes {
        /// Which file.
        file: FileNumber,
        /// By these.
        attributes: Attributes,
    },
    /// Replaces a file's name: its marker has moved.
    Rename {
        /// Which file.
        file: FileNumber,
        /// At most [`NAME_BYTES_MAX`] bytes.
        name: Vec<u8>,
    },
    /// Forgets a file: no marker names it any more. It is gone at once; on the store not before
    /// [`Output::SyncOther`] was answered.
    Remove {
        /// Which file.
        file: FileNumber,
    },
    /// Makes a group of these files. Ends when it is on stable storage, with [`Reply::Numbers`]; a file that comes is
    /// then [`FileState::Arriving`].
    Group {
        /// In any order, no file twice, 1 to [`GROUP_FILES_MAX`].
        members: Vec<Member>,
    },
    /// The markers of files that came stand.
    Settle {
        /// Which.
        files: Vec<FileNumber>,
    },
    /// Files are about to go back. Ends when that is on stable storage.
    Leave {
        /// Which.
        files: Vec<FileNumber>,
    },
    /// Ends when all that was asked before, of one file or of all, is on stable storage.
    Sync {
        /// Of which file; `None` for all, removals included.
        file: Option<FileNumber>,
    },
    /// Writes a checkpoint now; ends when it stands and deleted clusters are free.
    Checkpoint,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done.
    Done,
    /// Bytes read.
    Data(Vec<u8>),
    /// Of a group: its files, in the order asked.
    Numbers(Vec<FileNumber>),
}

/// Why it did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not of this store, or gone.
    #[error("file {:#x} is not in the group store", .0.0)]
    NoFile(FileNumber),
    /// A file must go back before it grows beyond what is kept here.
    #[error("a file of more than {FILE_BYTES_MAX} bytes is not kept in a group")]
    TooLarge,
    /// No file, too many files, a file twice, a name too long.
    #[error(
        "that is no group: 1 to {GROUP_FILES_MAX} different files, names of at most {NAME_BYTES_MAX} bytes"
    )]
    NoGroup,
    /// No clusters are left.
    #[error("no space left in the group store")]
    NoSpace,
    /// The lookup table is full.
    #[error("no room left in the group store's file table")]
    TableFull,
    /// The device failed to read.
    #[error("the group store's device failed to read at {0}")]
    Read(Extent),
    /// A group does not match its checksum.
    #[error("group {group} at {extent} is damaged: its checksum does not match")]
    Damaged {
        /// Which.
        group: u32,
        /// Where.
        extent: Extent,
    },
    /// The device failed to write. The store takes no more changes: what is on stable storage is whole.
    #[error("the group store's device failed to write; it takes no more changes")]
    Broken,
}

/// What happens to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The driver asks.
    Ask {
        /// Its name for it.
        id: RequestId,
        /// What.
        ask: Ask,
    },
    /// An I/O ended: a read with its bytes, the others with none; `None` where it failed.
    Done {
        /// Which.
        io: IoId,
        /// Bytes.
        result: Option<Vec<u8>>,
    },
    /// [`Output::SyncOther`] was carried out; whether it could be.
    OtherSynced(bool),
    /// The time named by [`crate::GroupStore::wakeup`] has come.
    Tick,
}

/// A device I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Io {
    /// Its name.
    pub id: IoId,
    /// Read, write or flush.
    pub op: Op,
    /// Where, in sectors from the store's start; empty for a flush.
    pub extent: Extent,
    /// What to write; its length is the extent's. Empty for the others.
    pub data: Vec<u8>,
    /// What it is for.
    pub what: IoPurpose,
}

/// What an I/O is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoPurpose {
    /// A group's files.
    Group,
    /// The log.
    Log,
    /// A checkpoint.
    Checkpoint,
    /// All of them.
    Flush,
}

/// What the driver must do, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Start this I/O; answer with [`Input::Done`], in any order.
    Submit(Io),
    /// Make all that the other module was told on stable storage, markers taken away above all; answer with
    /// [`Input::OtherSynced`].
    SyncOther,
    /// What was asked has ended.
    Complete {
        /// The driver's name for it.
        id: RequestId,
        /// How.
        result: Result<Reply, Fault>,
    },
}

/// How a store behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Memory for groups.
    pub cache: Bytes,
    /// A change is on its way to the store at the latest so long after it was made.
    pub commit_after: Duration,
    /// A change at least so old goes along when a group is read anyway: the disk turns.
    pub commit_along: Duration,
}

impl Default for Config {
    fn default() -> Self {
        let (commit_after, commit_along) =
            (Duration::from_millis(30_000), Duration::from_millis(5_000));
        Self { cache: Bytes(64 << 20), commit_after, commit_along }
    }
}

/// What a store has done since it was attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Asks.
    pub asks: u64,
    /// Reads and writes of files whose group was in memory.
    pub hits: u64,
    /// Groups read.
    pub groups_read: u64,
    /// Bytes of them.
    pub bytes_read: u64,
    /// Groups written.
    pub groups_written: u64,
    /// Bytes of them.
    pub bytes_written: u64,
    /// Batches of the log written.
    pub batches: u64,
    /// Bytes of them.
    pub log_bytes: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Bytes of them.
    pub checkpoint_bytes: u64,
    /// Groups that were taken apart because no run of clusters was long enough.
    pub split: u64,
    /// Groups that did not match their checksum.
    pub damaged: u64,
}
