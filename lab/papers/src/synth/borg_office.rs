//! BORG's office desktop (FAST'09, 2 and Table 1): one user's browsing, plotting and office
//! programs; mostly reads, similar from day to day. Numbers only.

use super::{Journal, Personality, Printed, Side};

pub(super) const PERSONALITY: Personality = Personality {
    name: "borg-office",
    title: "an office desktop, one user",
    printed_in: Some("BORG, FAST 2009, Table 1"),
    printed: Printed {
        size_gb: 8.29,
        read_gb: 6.49,
        unique_read_gb: 1.63,
        written_gb: 0.32,
        unique_written_gb: 0.22,
        accessed: 0.2222,
        top20: 0.5140,
        determinism: 0.6542,
    },
    reads: Side {
        again: 0.7,
        single: 0.004,
        again_pages: 6.0,
        once_pages: 8.0,
        steps: 3.5,
        steady: 0.95,
        hours: 6.0,
        think_ms: 8.0,
        programs: &["firefox-bin", "soffice.bin", "gnuplot", "acroread", "bash", "Xorg"],
    },
    writes: Side {
        again: 0.1,
        single: 0.004,
        again_pages: 2.0,
        once_pages: 8.0,
        steps: 3.5,
        steady: 0.7,
        hours: 6.0,
        think_ms: 4.0,
        programs: &["pdflush"],
    },
    journal: Journal { pages: 8192, share: 0.3 },
    directory: 400,
    scattered: 0.2,
    hours: [0, 0, 0, 0, 0, 0, 0, 1, 4, 9, 10, 9, 4, 7, 9, 10, 9, 6, 3, 1, 1, 1, 0, 0],
    days: [10, 10, 10, 10, 9, 2, 2],
};
