//! What every format comes down to: one small record per request, and the names of the formats.
//! Nothing here knows how a format is laid out.

use std::fmt;

use seekless_block::{Duration, Request};

/// One request of a trace. Names of streams and devices stand in the reader's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The request. `arrival` counts from the first record of the trace (zero throughout where the trace
    /// has no times). Records are passed on in the order of the file, so it may run backwards, and is zero for
    /// a record older than the first; formats known to be out of order are sorted within a window first. `stream` is 0 where the trace names no process.
    pub request: Request,
    /// Which device, as a dense index in order of first sight.
    pub device: u32,
    /// Day number, where the trace has days and no times.
    pub day: Option<u32>,
    /// How long the disk of the time took, where the trace tells.
    pub service: Option<Duration>,
}

/// Which moment of a request's life counts as the request, in traces that hold several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Event {
    /// Queued: as the file system or program asked, before merging.
    #[default]
    Queue,
    /// Issued to the driver: after merging and scheduling. The process is the submitter's, mostly.
    Issue,
    /// Completed. The process is whatever ran when the interrupt came.
    Complete,
}

impl Event {
    /// The letter blktrace uses: Q, D or C.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Queue => 'Q',
            Self::Issue => 'D',
            Self::Complete => 'C',
        }
    }

    /// From a letter, in either case.
    #[must_use]
    pub fn from_letter(letter: &str) -> Option<Self> {
        match letter {
            "Q" | "q" => Some(Self::Queue),
            "D" | "d" => Some(Self::Issue),
            "C" | "c" => Some(Self::Complete),
            _ => None,
        }
    }
}

/// How to read a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Which event counts as a request, in the blktrace family.
    pub event: Event,
    /// Count malformed records and pass over them, instead of stopping at the first.
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

            /// What it is, in a few words.
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
    /// What blkparse prints by default.
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
    /// DiskSim ASCII as many repositories have it: flag bit 0 clear for a read.
    DiskSimRw0 = "disksim-rw0", "DiskSim ASCII, 0 = read";
    /// MQSim: DiskSim's columns with nanoseconds, type 1 for a read.
    MqSim = "mqsim", "MQSim";
    /// MQSim's columns, type 0 for a read.
    MqSimRw0 = "mqsim-rw0", "MQSim, 0 = read";
    /// The ARC paper's block lists.
    Lis = "lis", "ARC .lis";
    /// MSR's columns after other hands: DiskSim's, with bytes for sectors.
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
    /// Windows' disk events, as xperf prints them.
    Etw = "etw", "ETW disk events";
    /// biosnoop's table, of bcc or libbpf-tools.
    Biosnoop = "biosnoop", "biosnoop";
    /// BIOTracer's traces of a phone.
    BioTracer = "biotracer", "BIOTracer";
    /// The table `seekless convert` writes.
    Csv = "csv", "seekless CSV";
    /// System calls of files, as strace prints them.
    Strace = "strace", "strace";
    /// File events of Windows' Process Monitor, saved as CSV.
    Procmon = "procmon", "Procmon CSV";
    /// No file: requests that a [`crate::Generated`] makes.
    Synthetic = "synth", "made up";
}

impl Format {
    /// Whether it tells accesses to files, not to a disk: [`crate::Source::open_files`] reads these, and
    /// [`crate::Source::open`] lays the files end to end.
    #[must_use]
    pub const fn is_of_files(self) -> bool {
        matches!(self, Self::Strace | Self::Procmon)
    }

    /// Whether its records are known to stand out of order; a reader sorts them within a window.
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

    /// What a reader of results must know of a trace that did not come from a disk's queue.
    #[must_use]
    pub const fn caveat(self) -> Option<&'static str> {
        match self {
            Self::Strace | Self::Procmon => Some(
                "the trace is of files: what programs asked for, before any page cache; the files are laid end to end, so distances between them are ours",
            ),
            Self::Synthetic => Some(
                "the trace is made up: only what docs/lab/synth.md says was matched is as it was on a real machine",
            ),
            Self::Oracle => Some(
                "the trace is of a cache's objects: their numbers were taken for addresses, and every access for a read",
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
