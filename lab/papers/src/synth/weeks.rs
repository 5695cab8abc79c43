//! The numbers of BORG's weeks (FAST'09, 2 and Table 1), one personality after another.

use super::{Journal, Personality, Printed, Side};

/// All personalities.
#[rustfmt::skip]
pub const PERSONALITIES: [&Personality; 5] = [
    // BORG's office desktop (FAST'09, 2 and Table 1): one user's browsing, plotting and office
    // programs; mostly reads, similar from day to day.
    &Personality {
        name: "borg-office",
        title: "an office desktop, one user",
        printed_in: Some("BORG, FAST 2009, Table 1"),
        printed: Printed {
            size_gb: 8.29, read_gb: 6.49, unique_read_gb: 1.63, written_gb: 0.32,
            unique_written_gb: 0.22, accessed: 0.2222, top20: 0.5140, determinism: 0.6542,
        },
        reads: Side {
            again: 0.7, single: 0.004, again_pages: 6.0, once_pages: 8.0, steps: 3.5, steady: 0.95,
            hours: 6.0, think_ms: 8.0,
            programs: &["firefox-bin", "soffice.bin", "gnuplot", "acroread", "bash", "Xorg"],
        },
        writes: Side {
            again: 0.1, single: 0.004, again_pages: 2.0, once_pages: 8.0, steps: 3.5, steady: 0.7,
            hours: 6.0, think_ms: 4.0,
            programs: &["pdflush"],
        },
        journal: Journal { pages: 8192, share: 0.3 },
        directory: 400,
        scattered: 0.2,
        hours: [0, 0, 0, 0, 0, 0, 0, 1, 4, 9, 10, 9, 4, 7, 9, 10, 9, 6, 3, 1, 1, 1, 0, 0],
        days: [10, 10, 10, 10, 9, 2, 2],
    },
    // BORG's developer desktop (FAST'09, 2 and Table 1): editing, compiling, mail, documents and
    // system updates of one user; mostly writes.
    &Personality {
        name: "borg-developer",
        title: "a developer's desktop, one user",
        printed_in: Some("BORG, FAST 2009, Table 1"),
        printed: Printed {
            size_gb: 45.59, read_gb: 3.82, unique_read_gb: 2.57, written_gb: 10.46,
            unique_written_gb: 3.96, accessed: 0.1432, top20: 0.6027, determinism: 0.6156,
        },
        reads: Side {
            again: 0.235, single: 0.004, again_pages: 2.5, once_pages: 6.0, steps: 7.0,
            steady: 0.95, hours: 10.0, think_ms: 6.0,
            programs: &["emacs", "cc1", "gdb", "latex", "thunderbird-bin", "firefox-bin", "bash", "yum"],
        },
        writes: Side {
            again: 0.235, single: 0.002, again_pages: 2.0, once_pages: 6.0, steps: 7.0,
            steady: 0.95, hours: 10.0, think_ms: 2.0,
            programs: &["pdflush"],
        },
        journal: Journal { pages: 32_768, share: 0.25 },
        directory: 400,
        scattered: 0.1,
        hours: [2, 1, 0, 0, 0, 0, 0, 0, 1, 4, 8, 9, 6, 7, 9, 10, 10, 8, 5, 4, 5, 6, 5, 3],
        days: [10, 10, 9, 10, 8, 4, 4],
    },
    // BORG's Subversion server (FAST'09, 2 and Table 1): documents and code of a group of six;
    // mostly writes, by commits that make new data and are soon followed by others.
    &Personality {
        name: "borg-svn",
        title: "a Subversion server of six people",
        printed_in: Some("BORG, FAST 2009, Table 1"),
        printed: Printed {
            size_gb: 2.39, read_gb: 0.29, unique_read_gb: 0.17, written_gb: 0.62,
            unique_written_gb: 0.18, accessed: 0.1460, top20: 0.4579, determinism: 0.5073,
        },
        reads: Side {
            again: 0.6, single: 0.004, again_pages: 10.0, once_pages: 4.0, steps: 4.35,
            steady: 0.02, hours: 5.0, think_ms: 6.0,
            programs: &["svnserve", "httpd", "svnlook"],
        },
        writes: Side {
            again: 0.8, single: 0.004, again_pages: 10.0, once_pages: 4.0, steps: 4.35,
            steady: 0.02, hours: 5.0, think_ms: 3.0,
            programs: &["pdflush"],
        },
        journal: Journal { pages: 2048, share: 0.2 },
        directory: 200,
        scattered: 0.5,
        hours: [1, 1, 1, 1, 0, 0, 0, 1, 2, 5, 8, 9, 7, 8, 10, 10, 9, 7, 4, 3, 3, 3, 2, 2],
        days: [10, 10, 10, 10, 9, 5, 5],
    },
    // BORG's web server (FAST'09, 2 and Table 1): the mirror of a department's server, 1.1 million
    // requests in the week to 256,017 files (6.2); mostly reads, the same popular pages all week,
    // pages in changing order.
    &Personality {
        name: "borg-web",
        title: "a department's web server",
        printed_in: Some("BORG, FAST 2009, Table 1"),
        printed: Printed {
            size_gb: 169.54, read_gb: 21.07, unique_read_gb: 7.32, written_gb: 2.24,
            unique_written_gb: 0.33, accessed: 0.0451, top20: 0.5950, determinism: 0.1555,
        },
        reads: Side {
            again: 0.45, single: 0.01, again_pages: 7.5, once_pages: 7.5, steps: 1.18, steady: 0.9,
            hours: 8.0, think_ms: 10.0,
            programs: &["httpd", "httpd", "httpd", "httpd", "httpd", "httpd", "httpd", "httpd"],
        },
        writes: Side {
            again: 0.5, single: 0.02, again_pages: 3.0, once_pages: 6.0, steps: 2.0, steady: 0.9,
            hours: 8.0, think_ms: 4.0,
            programs: &["pdflush"],
        },
        journal: Journal { pages: 8192, share: 0.4 },
        directory: 300,
        scattered: 0.3,
        hours: [4, 3, 3, 2, 2, 2, 3, 4, 6, 8, 10, 10, 10, 10, 10, 10, 9, 8, 7, 7, 7, 7, 6, 5],
        days: [10, 10, 10, 10, 9, 6, 6],
    },
    // A substitute for BORG's virtual machines (FAST'09, 6.3): four guests of one host run
    // Postmark, each on a file system of 4 GB; the host sees one process for each guest. The paper
    // prints only the disk's busy time for this trace, so the target numbers are ours.
    &Personality {
        name: "borg-vmm",
        title: "four virtual machines that run a mail server's benchmark (after BORG, FAST 2009, 6.3)",
        printed_in: None,
        printed: Printed {
            size_gb: 16.0, read_gb: 1.0, unique_read_gb: 0.3, written_gb: 3.0,
            unique_written_gb: 0.35, accessed: 0.0406, top20: 0.55, determinism: 0.25,
        },
        // `think_ms` is long compared with the time between two tasks: tasks of one guest overlap.
        reads: Side {
            again: 0.6, single: 0.05, again_pages: 2.5, once_pages: 4.0, steps: 8.0, steady: 0.5,
            hours: 15.0, think_ms: 20_000.0,
            programs: &["vm1", "vm2", "vm3", "vm4"],
        },
        writes: Side {
            again: 0.6, single: 0.03, again_pages: 3.0, once_pages: 4.0, steps: 8.0, steady: 0.5,
            hours: 15.0, think_ms: 2_000.0,
            programs: &["vm1", "vm2", "vm3", "vm4"],
        },
        journal: Journal { pages: 16_384, share: 0.3 },
        directory: 500,
        scattered: 0.1,
        hours: [1; 24],
        days: [1; 7],
    },
];
