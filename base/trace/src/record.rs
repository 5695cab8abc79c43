//! The record of a request, common to all formats, and the names of the formats.

use std::fmt;

use seekless_block::{Duration, Request};

use crate::Columns;

/// One request of a trace. The reader's tables have the names of streams and devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The request. `arrival` counts from the first record of the trace (always zero if the trace
    /// has no times). Records keep the order of the file, so `arrival` can decrease, and it is zero
    /// for a record older than the first. Formats that are known to be out of order are first
    /// sorted in a window. `stream` is 0 if the trace names no process.
    pub request: Request,
    /// The device, as a dense index in the order of first appearance.
    pub device: u32,
    /// Day number, if the trace has days and no times.
    pub day: Option<u32>,
    /// Service time of the traced disk, if the trace has it.
    pub service: Option<Duration>,
}

/// The moment of a request's life that counts as the request, for traces that have several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Event {
    /// Queued: the request of the file system or program, before merging.
    #[default]
    Queue,
    /// Issued to the driver, after merging and scheduling. The process is usually the sender.
    Issue,
    /// Completed. The process is the one that ran at the interrupt.
    Complete,
}

impl Event {
    /// blktrace's letter: Q, D or C.
    pub const fn letter(self) -> char {
        match self {
            Self::Queue => 'Q',
            Self::Issue => 'D',
            Self::Complete => 'C',
        }
    }
}

/// Options for reading a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// The event that counts as a request, for blktrace formats.
    pub event: Event,
    /// Count and skip malformed records, instead of stopping at the first.
    pub lenient: bool,
    /// The columns of a table whose format has no name.
    pub columns: Option<Columns>,
}

macro_rules! formats {
    ($($id:ident = $name:literal, $title:literal;)*) => {
        /// A trace format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Format { $(#[doc = $title] $id,)* }

        impl Format {
            /// Every format.
            pub const ALL: &[Self] = &[$(Self::$id,)*];

            /// The name used in `FORMAT:PATH`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)* }
            }

            /// A short description.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$id => $title,)* }
            }
        }
    };
}

formats! {
    Native = "parquet", "native store (Parquet)";
    Blktrace = "blktrace", "blktrace binary";
    Blkparse = "blkparse", "blkparse text";
    Tracefs = "tracefs", "tracefs block events";
    Fio = "fio", "fio iolog";
    Msr = "msr", "MSR Cambridge CSV";
    Spc = "spc", "SPC";
    DiskSim = "disksim", "DiskSim ASCII";
    DiskSimRw0 = "disksim-rw0", "DiskSim ASCII, 0 = read";
    MqSim = "mqsim", "MQSim";
    MqSimRw0 = "mqsim-rw0", "MQSim, 0 = read";
    Lis = "lis", "ARC .lis";
    Heimdall = "heimdall", "DiskSim ASCII in bytes";
    Vscsi = "vscsi", "vscsi";
    Srt = "srt", "HPL SRT";
    Alibaba = "alibaba", "Alibaba block";
    Tencent = "tencent", "Tencent CBS";
    Systor = "systor17", "SYSTOR'17";
    Fiu = "fiu", "FIU";
    Oracle = "oraclegeneral", "libCacheSim oracleGeneral";
    Etw = "etw", "ETW disk events";
    Biosnoop = "biosnoop", "biosnoop";
    BioTracer = "biotracer", "BIOTracer";
    Mobile = "mobile", "mobile block traces";
    Csv = "csv", "seekless CSV";
    Columns = "columns", "table with named columns";
    Strace = "strace", "strace";
    Procmon = "procmon", "Procmon CSV";
    Synthetic = "synth", "made up";
}

impl Format {
    /// Whether the trace contains accesses to files, not to a disk. [`crate::Source::open_files`]
    /// reads such traces, and [`crate::Source::open`] places the files one after another.
    pub const fn is_of_files(self) -> bool {
        matches!(self, Self::Strace | Self::Procmon)
    }

    /// Whether its records are known to be out of order. A reader sorts them in a window.
    pub(crate) const fn is_unsorted(self) -> bool {
        matches!(
            self,
            Self::Tencent
                | Self::Systor
                | Self::Mobile
                | Self::Columns
                | Self::BioTracer
                | Self::Biosnoop
                | Self::Etw
                | Self::Strace
                | Self::Procmon
        )
    }

    /// A note for readers of results, if the trace did not come from a disk's queue.
    pub const fn caveat(self) -> Option<&'static str> {
        match self {
            Self::Strace | Self::Procmon => Some(
                "this is a trace of files: requests of programs, before any page cache; the files are placed one after another, so distances between files are invented",
            ),
            Self::Synthetic => Some(
                "this trace is synthetic: only the properties listed in docs/lab/synth.md agree with a real machine",
            ),
            Self::Oracle => Some(
                "this is a trace of cache objects: object numbers are used as addresses, and every access counts as a read",
            ),
            _ => None,
        }
    }

    /// From the name used in `FORMAT:PATH`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|f| f.name() == name)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}
