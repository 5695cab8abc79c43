//! The record of a request, common to all formats, and the names of the formats.

use std::fmt;

use seekless_block::{Duration, Request};

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
    #[must_use]
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
}

macro_rules! formats {
    ($($(#[$doc:meta])* $id:ident = $name:literal, $title:literal;)*) => {
        /// A trace format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Format { $($(#[$doc])* $id,)* }

        impl Format {
            /// Every format.
            pub const ALL: &[Self] = &[$(Self::$id,)*];

            /// The name used in `FORMAT:PATH`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)* }
            }

            /// A short description.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$id => $title,)* }
            }
        }
    };
}

formats! {
    /// The native store: Parquet, schema in `docs/changing/trace-store.md`.
    Native = "parquet", "native store (Parquet)";
    /// blktrace's binary records, one file per CPU, or ftrace's binary stream of the same records.
    Blktrace = "blktrace", "blktrace binary";
    /// The default output of blkparse.
    Blkparse = "blkparse", "blkparse text";
    /// Block events or the `blk` tracer, as text from tracefs' `trace` or `trace_pipe`.
    Tracefs = "tracefs", "tracefs block events";
    /// fio's I/O log, version 2 or 3.
    Fio = "fio", "fio iolog";
    /// MSR Cambridge CSV.
    Msr = "msr", "MSR Cambridge CSV";
    /// Storage Performance Council CSV, as kept by UMass.
    Spc = "spc", "SPC";
    /// DiskSim ASCII: milliseconds, flag bit 0 set for a read.
    DiskSim = "disksim", "DiskSim ASCII";
    /// DiskSim ASCII as in many repositories: flag bit 0 clear for a read.
    DiskSimRw0 = "disksim-rw0", "DiskSim ASCII, 0 = read";
    /// MQSim: DiskSim's columns with nanoseconds, type 1 for a read.
    MqSim = "mqsim", "MQSim";
    /// MQSim's columns, type 0 for a read.
    MqSimRw0 = "mqsim-rw0", "MQSim, 0 = read";
    /// The ARC paper's block lists.
    Lis = "lis", "ARC .lis";
    /// MSR's traces in DiskSim's columns, with bytes instead of sectors.
    Heimdall = "heimdall", "DiskSim ASCII in bytes";
    /// VMware vscsiStats, version 1 or 2.
    Vscsi = "vscsi", "vscsi";
    /// HP Labs' SRT.
    Srt = "srt", "HPL SRT";
    /// Alibaba's block traces of 2020.
    Alibaba = "alibaba", "Alibaba block";
    /// Tencent's cloud block storage traces.
    Tencent = "tencent", "Tencent CBS";
    /// SYSTOR'17: virtual desktops.
    Systor = "systor17", "SYSTOR'17";
    /// FIU: SRCMap and I/O Deduplication.
    Fiu = "fiu", "FIU";
    /// libCacheSim's binary records of objects.
    Oracle = "oraclegeneral", "libCacheSim oracleGeneral";
    /// Windows' disk events, as printed by xperf.
    Etw = "etw", "ETW disk events";
    /// biosnoop's table, of bcc or libbpf-tools.
    Biosnoop = "biosnoop", "biosnoop";
    /// BIOTracer's traces of a phone.
    BioTracer = "biotracer", "BIOTracer";
    /// The table that `seekless convert` writes.
    Csv = "csv", "seekless CSV";
    /// System calls on files, as printed by strace.
    Strace = "strace", "strace";
    /// File events of Windows' Process Monitor, saved as CSV.
    Procmon = "procmon", "Procmon CSV";
    /// No file: requests from a [`crate::Generated`].
    Synthetic = "synth", "made up";
}

impl Format {
    /// Whether the trace contains accesses to files, not to a disk. [`crate::Source::open_files`]
    /// reads such traces, and [`crate::Source::open`] places the files one after another.
    #[must_use]
    pub const fn is_of_files(self) -> bool {
        matches!(self, Self::Strace | Self::Procmon)
    }

    /// Whether its records are known to be out of order. A reader sorts them in a window.
    pub(crate) const fn is_unsorted(self) -> bool {
        matches!(
            self,
            Self::Tencent
                | Self::Systor
                | Self::BioTracer
                | Self::Biosnoop
                | Self::Etw
                | Self::Strace
                | Self::Procmon
        )
    }

    /// A note for readers of results, if the trace did not come from a disk's queue.
    #[must_use]
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
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|f| f.name() == name)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}
