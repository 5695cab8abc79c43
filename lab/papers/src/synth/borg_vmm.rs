//! A substitute for BORG's virtual machines (FAST'09, 6.3): four guests of one host run Postmark,
//! each on a file system of 4 GB; the host sees one process for each guest. The paper prints only
//! the disk's busy time for this trace, so the target numbers are ours. Numbers only.

use super::{Journal, Personality, Printed, Side};

pub(super) const PERSONALITY: Personality = Personality {
    name: "borg-vmm",
    title: "four virtual machines that run a mail server's benchmark (after BORG, FAST 2009, 6.3)",
    printed_in: None,
    printed: Printed {
        size_gb: 16.0,
        read_gb: 1.0,
        unique_read_gb: 0.3,
        written_gb: 3.0,
        unique_written_gb: 0.35,
        accessed: 0.0406,
        top20: 0.55,
        determinism: 0.25,
    },
    reads: Side {
        again: 0.6,
        single: 0.05,
        again_pages: 2.5,
        once_pages: 4.0,
        steps: 8.0,
        steady: 0.5,
        hours: 15.0,
        // Long compared with the time between two tasks, so that tasks of one guest overlap.
        think_ms: 20_000.0,
        programs: &["vm1", "vm2", "vm3", "vm4"],
    },
    writes: Side {
        again: 0.6,
        single: 0.03,
        again_pages: 3.0,
        once_pages: 4.0,
        steps: 8.0,
        steady: 0.5,
        hours: 15.0,
        think_ms: 2_000.0,
        programs: &["vm1", "vm2", "vm3", "vm4"],
    },
    journal: Journal { pages: 16_384, share: 0.3 },
    directory: 500,
    scattered: 0.1,
    hours: [1; 24],
    days: [1; 7],
};
