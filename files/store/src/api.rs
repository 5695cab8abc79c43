//! Inputs and outputs of the group store, and their types.

use seekless_block::{Bytes, Duration, Extent, Op};

/// Size of the largest file in the store, in bytes: larger files move back to the other module
/// (EEFS).
pub const FILE_BYTES_MAX: u32 = 65_536;
/// Files in a group, at most. `G_max` of EEFS is 8; a record has space for 64.
pub const GROUP_FILES_MAX: usize = 64;
/// Length of the longest name in bytes.
pub const NAME_BYTES_MAX: usize = 1_023;

/// A file of the store: its index in the file table, and a count. No number is ever used twice.
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

/// Attributes of a file. Times are in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
// Packed, because there may be a million.
#[repr(Rust, packed(4))]
pub struct Attributes {
    /// Type and permissions.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group of the owner.
    pub gid: u32,
    /// Time of the last read.
    pub accessed: i64,
    /// Time of the last write.
    pub modified: i64,
    /// Time of the last change, attributes included.
    pub changed: i64,
}

/// How far a file is on its way into the store or out of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileState {
    /// The file is in the store, and the other module has its marker.
    #[default]
    Settled = 0,
    /// On its way into the store. After a crash without a marker, the bytes in the other module are
    /// the file.
    Arriving = 1,
    /// On its way back. After a crash without a marker, the bytes in the other module are the file.
    Leaving = 2,
}

/// The driver's identifier of an ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The store's identifier of an I/O, unique among those in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u32);

/// A file that moves from the other module to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Owner, permissions and times.
    pub attributes: Attributes,
    /// Leads the driver back to the marker; at most [`NAME_BYTES_MAX`] bytes.
    pub name: Vec<u8>,
    /// The contents; at most [`FILE_BYTES_MAX`] bytes.
    pub data: Vec<u8>,
}

/// A member of a new group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    /// A file of the store, from any group.
    Here(FileNumber),
    /// A file that moves to the store.
    New(Arrival),
}

/// A request of the driver. Times are in nanoseconds since 1970; offsets and sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are explained in the variant's text")]
pub enum Ask {
    /// Reads up to `len` bytes from `offset` on; fewer at the end of the file. The store reads the
    /// whole group.
    Read { file: FileNumber, offset: u64, len: u32 },
    /// Writes bytes. A write past the end lets the file grow, with zeroes in between. `time` is the
    /// new `modified` and `changed`.
    Write { file: FileNumber, offset: u64, data: Vec<u8>, time: i64 },
    /// Truncates a file, or lets it grow with zeroes. `time` is the new `modified` and `changed`.
    Resize { file: FileNumber, size: u64, time: i64 },
    /// Replaces the attributes of a file.
    SetAttributes { file: FileNumber, attributes: Attributes },
    /// Removes a file whose marker is gone. The removal reaches stable storage only after the
    /// answer to [`Output::SyncOther`].
    Remove { file: FileNumber },
    /// Makes a group of 1 to [`GROUP_FILES_MAX`] different files, in any order. Ends with
    /// [`Reply::Numbers`] when the group is on stable storage; a new file is then
    /// [`FileState::Arriving`].
    Group { members: Vec<Member> },
    /// The markers of these files are set, and their inodes are durably empty.
    Settle { files: Vec<FileNumber> },
    /// These files are about to move back. Ends when that is on stable storage.
    Leave { files: Vec<FileNumber> },
    /// Ends when all earlier changes are on stable storage: of one file, or of all files, removals
    /// included.
    Sync { file: Option<FileNumber> },
    /// Writes a checkpoint now. Ends when the checkpoint is complete and deleted clusters are free.
    Checkpoint,
}

/// The reply to an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done.
    Done,
    /// The bytes read.
    Data(Vec<u8>),
    /// The files of a new group, in the order of the ask.
    Numbers(Vec<FileNumber>),
}

/// Why an ask failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Fault {
    #[error("file {:#x} is not in the group store", .0.0)]
    NoFile(FileNumber),
    #[error("a file of more than {FILE_BYTES_MAX} bytes cannot be in a group")]
    TooLarge,
    #[error(
        "a group has 1 to {GROUP_FILES_MAX} different files, with names of at most {NAME_BYTES_MAX} bytes"
    )]
    NoGroup,
    #[error("no space left in the group store")]
    NoSpace,
    #[error("the file table of the group store is full")]
    TableFull,
    #[error("the device of the group store failed to read {0}")]
    Read(Extent),
    #[error("group {group} at {extent} is damaged: its checksum does not match")]
    Damaged { group: u32, extent: Extent },
    #[error("the device of the group store failed to write; the store accepts no more changes")]
    Broken,
}

/// An input of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are explained in the variant's text")]
pub enum Input {
    /// An ask of the driver, with the driver's identifier.
    Ask { id: RequestId, ask: Ask },
    /// An I/O has ended. The result has the bytes of a read, and no bytes of other I/Os; `None` if
    /// the I/O failed.
    Done { io: IoId, result: Option<Vec<u8>> },
    /// [`Output::SyncOther`] has ended; false if it failed.
    OtherSynced(bool),
    /// The time of [`crate::GroupStore::wakeup`] has come.
    Tick,
}

/// A device I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Io {
    /// The store's identifier.
    pub id: IoId,
    /// Read, write or flush.
    pub op: Op,
    /// The extent, counted from the start of the store; empty for a flush.
    pub extent: Extent,
    /// The bytes of a write, as long as the extent; empty for other I/Os.
    pub data: Vec<u8>,
    /// The purpose.
    pub what: IoPurpose,
}

/// The purpose of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoPurpose {
    /// Reads or writes groups.
    Group,
    /// Writes the log.
    Log,
    /// Writes a checkpoint.
    Checkpoint,
    /// Flushes the device.
    Flush,
}

/// An output for the driver, to be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are explained in the variant's text")]
pub enum Output {
    /// Start this I/O. Answer with [`Input::Done`]; I/Os may end in any order.
    Submit(Io),
    /// Make all changes of the other module durable, above all removed markers. Answer with
    /// [`Input::OtherSynced`].
    SyncOther,
    /// An ask has ended.
    Complete { id: RequestId, result: Result<Reply, Fault> },
}

/// Settings of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Memory for cached groups.
    pub cache: Bytes,
    /// Age at which a change is committed.
    pub commit_after: Duration,
    /// Age at which a change is committed after a read of a group: the platters turn then.
    pub commit_along: Duration,
}

impl Default for Config {
    fn default() -> Self {
        let (commit_after, commit_along) =
            (Duration::from_millis(30_000), Duration::from_millis(5_000));
        Self { cache: Bytes(64 << 20), commit_after, commit_along }
    }
}

/// Counters of a store since its attach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Reads and writes of files whose group was cached.
    pub hits: u64,
    /// Groups read.
    pub groups_read: u64,
    /// Bytes of these.
    pub bytes_read: u64,
    /// Groups written.
    pub groups_written: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Groups that were split, because no run of free clusters was long enough.
    pub split: u64,
    /// Groups that could not be read, or had a wrong checksum, at their latest read.
    pub damaged: u64,
}
