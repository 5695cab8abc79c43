//! BORG's developer desktop (FAST'09, 2 and Table 1): editing, compiling, mail, documents and
//! system updates of one user; mostly writes. Numbers only.

use super::{Journal, Personality, Printed, Side};

pub(super) const PERSONALITY: Personality = Personality {
    name: "borg-developer",
    title: "a developer's desktop, one user",
    printed_in: Some("BORG, FAST 2009, Table 1"),
    printed: Printed {
        size_gb: 45.59,
        read_gb: 3.82,
        unique_read_gb: 2.57,
        written_gb: 10.46,
        unique_written_gb: 3.96,
        accessed: 0.1432,
        top20: 0.6027,
        determinism: 0.6156,
    },
    reads: Side {
        again: 0.235,
        single: 0.004,
        again_pages: 2.5,
        once_pages: 6.0,
        steps: 7.0,
        steady: 0.95,
        hours: 10.0,
        think_ms: 6.0,
        programs: &[
            "emacs",
            "cc1",
            "gdb",
            "latex",
            "thunderbird-bin",
            "firefox-bin",
            "bash",
            "yum",
        ],
    },
    writes: Side {
        again: 0.235,
        single: 0.002,
        again_pages: 2.0,
        once_pages: 6.0,
        steps: 7.0,
        steady: 0.95,
        hours: 10.0,
        think_ms: 2.0,
        programs: &["pdflush"],
    },
    journal: Journal { pages: 32_768, share: 0.25 },
    directory: 400,
    scattered: 0.1,
    hours: [2, 1, 0, 0, 0, 0, 0, 0, 1, 4, 8, 9, 6, 7, 9, 10, 10, 8, 5, 4, 5, 6, 5, 3],
    days: [10, 10, 9, 10, 8, 4, 4],
};
