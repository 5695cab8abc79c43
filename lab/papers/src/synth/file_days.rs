//! The days of EEFS's Table 1, with the numbers that the paper leaves open.

/// A column of EEFS's Table 1, and numbers that the table leaves open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileDay {
    /// The name on the command line.
    pub name: &'static str,
    /// The users of the day.
    pub title: &'static str,
    /// Requests.
    pub requests: u64,
    /// Megabytes (2^20) read; repetitions count.
    pub read_mb: f64,
    /// Megabytes written.
    pub written_mb: f64,
    /// Megabytes touched; each byte counts once.
    pub distinct_mb: f64,
    /// Share of the files below 16 KiB.
    pub small: f64,
    /// Mean bytes of the other files. Our number.
    pub(super) large_bytes: f64,
    /// Programs that use several files repeatedly. INS and RES: the groups of Table 2. The others:
    /// our numbers.
    pub(super) programs: u32,
    /// Files of such a program: least and most. INS and RES: so that groups have Table 2's mean
    /// size.
    pub(super) uses: (u32, u32),
    /// Share of the programs that use unusual files between two shuffles; `others`: least and most
    /// of these files. Chosen so that stable groups, and files that come and go, match Table 2.
    pub(super) varied: f64,
    pub(super) others: (u32, u32),
    /// In one sitting, a program uses one of its files and this share of the others. INS and RES:
    /// fitted to Figure 5, files used at once. The others, without a printed share: RES's.
    pub(super) part: f64,
    /// Mean minutes of a sitting; the next one begins elsewhere in the program's list. INS and RES:
    /// fitted to Figure 5, files used within five minutes. Heavy: RES's. Light: as many intervals
    /// between shuffles as RES's.
    pub(super) sitting_minutes: f64,
    /// Directories; files lie evenly in them. Fitted, so that FFS makes Table 3's requests.
    pub(crate) directories: u32,
    /// Hours from the first request to the last. Fitted, so that FFS's disk works for the share of
    /// the time that Table 3 implies.
    pub(super) hours: f64,
    /// Megabytes of memory for blocks. INS and RES: fitted to FFS's printed hit rates. The others,
    /// without a printed rate: RES's.
    pub(crate) memory_mb: f64,
}

/// All days. The two printed shares of RES's file sizes add up to 97%; ours is the first.
#[rustfmt::skip]
pub const FILE_DAYS: [FileDay; 4] = [
    FileDay {
        name: "eefs-ins",
        title: "20 machines of a laboratory for undergraduates (INS)",
        requests: 5_583_587, read_mb: 3_052.0, written_mb: 543.0, distinct_mb: 132.0, small: 0.828,
        large_bytes: 49_152.0, programs: 28, uses: (6, 8), varied: 0.29, others: (2, 3),
        part: 0.53, sitting_minutes: 1.5,
        directories: 52, hours: 6.6, memory_mb: 1.5,
    },
    FileDay {
        name: "eefs-res",
        title: "13 desktops of a research group (RES)",
        requests: 2_917_247, read_mb: 1_701.0, written_mb: 455.0, distinct_mb: 133.0, small: 0.63,
        large_bytes: 49_152.0, programs: 28, uses: (4, 6), varied: 0.3, others: (1, 2),
        part: 0.77, sitting_minutes: 30.0,
        directories: 1_200, hours: 4.5, memory_mb: 3.5,
    },
    FileDay {
        name: "eefs-light",
        title: "2 users of a time-sharing system (Light I/O)",
        requests: 86_154, read_mb: 101.0, written_mb: 18.0, distinct_mb: 44.0, small: 0.815,
        large_bytes: 49_152.0, programs: 6, uses: (4, 8), varied: 0.24, others: (1, 3),
        part: 0.77, sitting_minutes: 0.6,
        directories: 4, hours: 0.082, memory_mb: 3.5,
    },
    FileDay {
        name: "eefs-heavy",
        title: "50 users of a time-sharing system (Heavy I/O)",
        requests: 8_400_764, read_mb: 4_732.0, written_mb: 965.0, distinct_mb: 202.0, small: 0.769,
        large_bytes: 49_152.0, programs: 40, uses: (4, 8), varied: 0.24, others: (1, 3),
        part: 0.77, sitting_minutes: 30.0,
        directories: 112, hours: 14.4, memory_mb: 3.5,
    },
];

impl FileDay {
    /// The day with its files evenly in this many directories.
    pub(crate) const fn in_directories(self, directories: u32) -> Self {
        Self { directories, ..self }
    }

    /// Requests from one shuffle to the next: the paper's 100,000, about an hour of its traces. The
    /// light day has fewer in all, and would have no group: there it is a 24th of the day. Our
    /// number.
    pub const fn interval(&self) -> u64 {
        let hour = self.requests / 24;
        if hour < 100_000 { hour } else { 100_000 }
    }
}
