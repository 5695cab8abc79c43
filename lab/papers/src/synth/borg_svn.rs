//! BORG's Subversion server (FAST'09, 2 and Table 1): documents and code of a group of six; mostly
//! writes, by commits that make new data and are soon followed by others. Numbers only.

use super::{Journal, Personality, Printed, Side};

pub(super) const PERSONALITY: Personality = Personality {
    name: "borg-svn",
    title: "a Subversion server of six people",
    printed_in: Some("BORG, FAST 2009, Table 1"),
    printed: Printed {
        size_gb: 2.39,
        read_gb: 0.29,
        unique_read_gb: 0.17,
        written_gb: 0.62,
        unique_written_gb: 0.18,
        accessed: 0.1460,
        top20: 0.4579,
        determinism: 0.5073,
    },
    reads: Side {
        again: 0.6,
        single: 0.004,
        again_pages: 10.0,
        once_pages: 4.0,
        steps: 4.35,
        steady: 0.02,
        hours: 5.0,
        think_ms: 6.0,
        programs: &["svnserve", "httpd", "svnlook"],
    },
    writes: Side {
        again: 0.8,
        single: 0.004,
        again_pages: 10.0,
        once_pages: 4.0,
        steps: 4.35,
        steady: 0.02,
        hours: 5.0,
        think_ms: 3.0,
        programs: &["pdflush"],
    },
    journal: Journal { pages: 2048, share: 0.2 },
    directory: 200,
    scattered: 0.5,
    hours: [1, 1, 1, 1, 0, 0, 0, 1, 2, 5, 8, 9, 7, 8, 10, 10, 9, 7, 4, 3, 3, 3, 2, 2],
    days: [10, 10, 10, 10, 9, 5, 5],
};
