//! BORG's web server (FAST'09, 2 and Table 1): the mirror of a department's server, 1.1 million
//! requests in the week to 256,017 files (6.2); mostly reads, the same popular pages all week,
//! pages in changing order. Numbers only.

use super::{Journal, Personality, Printed, Side};

pub(super) const PERSONALITY: Personality = Personality {
    name: "borg-web",
    title: "a department's web server",
    printed_in: Some("BORG, FAST 2009, Table 1"),
    printed: Printed {
        size_gb: 169.54,
        read_gb: 21.07,
        unique_read_gb: 7.32,
        written_gb: 2.24,
        unique_written_gb: 0.33,
        accessed: 0.0451,
        top20: 0.5950,
        determinism: 0.1555,
    },
    reads: Side {
        again: 0.45,
        single: 0.01,
        again_pages: 7.5,
        once_pages: 7.5,
        steps: 1.18,
        steady: 0.9,
        hours: 8.0,
        think_ms: 10.0,
        programs: &["httpd", "httpd", "httpd", "httpd", "httpd", "httpd", "httpd", "httpd"],
    },
    writes: Side {
        again: 0.5,
        single: 0.02,
        again_pages: 3.0,
        once_pages: 6.0,
        steps: 2.0,
        steady: 0.9,
        hours: 8.0,
        think_ms: 4.0,
        programs: &["pdflush"],
    },
    journal: Journal { pages: 8192, share: 0.4 },
    directory: 300,
    scattered: 0.3,
    hours: [4, 3, 3, 2, 2, 2, 3, 4, 6, 8, 10, 10, 10, 10, 10, 10, 9, 8, 7, 7, 7, 7, 6, 5],
    days: [10, 10, 10, 10, 9, 6, 6],
};
