//! Effects that the paper found, looked for again: found, refuted, not to be told, or not run; each with its numbers.

use serde::Serialize;

use super::sample::Sample;
use super::tables::{Measured, Relative, Results};

/// How it stands with an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// Every comparison that says anything says the same as the paper.
    FoundAgain,
    /// Every comparison that says anything says the contrary, or that there is no such difference where the paper has one.
    Refuted,
    /// Some say this, some that.
    Mixed,
    /// Nothing was run that could tell.
    NotRun,
}

impl Finding {
    /// In words.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::FoundAgain => "found again",
            Self::Refuted => "refuted",
            Self::Mixed => "not everywhere",
            Self::NotRun => "not run",
        }
    }
}

/// One comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Evidence {
    /// What was compared with what.
    pub what: String,
    /// How they differ.
    pub relative: Relative,
    /// Whether that is as the paper says.
    pub agrees: bool,
}

/// An effect and how it stands.
#[derive(Clone, Debug, Serialize)]
pub struct Effect {
    /// What the paper says.
    pub claim: String,
    /// Where.
    pub section: String,
    /// How it stands.
    pub finding: Finding,
    /// On what grounds.
    pub evidence: Vec<Evidence>,
}

#[derive(Clone, Copy)]
enum Says {
    More,
    Less,
    Same,
}

struct Claim {
    claim: &'static str,
    section: &'static str,
    workload: &'static str,
    /// Pairs of systems: file system, options of the one, options of the other.
    pairs: &'static [(&'static str, &'static str, &'static str, Says)],
}

const CLAIMS: &[Claim] = &[
    Claim {
        claim: "Not writing access times helps a web server, little but for Reiserfs",
        section: "5.2",
        workload: "webserver",
        pairs: &[
            ("ext2", "noatime", "strictatime", Says::More),
            ("ext3", "noatime", "strictatime", Says::More),
            ("ext4", "noatime", "strictatime", Says::More),
            ("xfs", "noatime", "strictatime", Says::Same),
            ("reiserfs", "noatime", "strictatime", Says::More),
        ],
    },
    Claim {
        claim: "A database gains about twice where blocks are as large as its I/O, 2 KiB",
        section: "5.5",
        workload: "oltp",
        pairs: &[
            ("ext2", "blk2k", "", Says::More),
            ("ext3", "blk2k", "", Says::More),
            ("ext4", "blk2k", "", Says::More),
            ("xfs", "blk2k", "", Says::More),
        ],
    },
    Claim {
        claim: "Journalling data costs a file server a tenth and more",
        section: "5.3",
        workload: "fileserver",
        pairs: &[("ext3", "dtlg", "", Says::Less), ("ext4", "dtlg", "", Says::Less)],
    },
    Claim {
        claim: "Write-back journalling costs a file server some per cent",
        section: "5.3",
        workload: "fileserver",
        pairs: &[("ext3", "wrbck", "", Says::Less), ("ext4", "wrbck", "", Says::Less)],
    },
    Claim {
        claim: "More allocation groups help a file server on XFS",
        section: "5.3",
        workload: "fileserver",
        pairs: &[
            ("xfs", "agcnt32", "agcnt8", Says::More),
            ("xfs", "agcnt64", "agcnt8", Says::More),
            ("xfs", "agcnt16", "", Says::More),
        ],
    },
    Claim {
        claim: "Allocation groups do nothing for a web server",
        section: "5.2",
        workload: "webserver",
        pairs: &[("xfs", "agcnt32", "agcnt8", Says::Same), ("xfs", "agcnt16", "", Says::Same)],
    },
    Claim {
        claim: "Small blocks cost ext a mail server dearly, and help it on XFS",
        section: "5.4",
        workload: "varmail",
        pairs: &[
            ("ext2", "blk1k", "", Says::Less),
            ("ext3", "blk1k", "", Says::Less),
            ("ext4", "blk1k", "", Says::Less),
            ("xfs", "blk1k", "", Says::More),
        ],
    },
];

/// The effects, as far as they were run. The one that compares two file systems is of mail: with an fsync for every
/// message, the file system without a journal is the slower (section 5.4).
#[must_use]
pub fn effects(results: &Results) -> Vec<Effect> {
    let (devices, _) = results.axes();
    let find = |device: &str, workload: &str, fs: &str, options: &str| -> Option<Measured> {
        let wanted: Vec<&str> = options.split('+').filter(|o| !o.is_empty()).collect();
        let workloads =
            results.axes().1.into_iter().filter(|w| w.split(':').next() == Some(workload));
        let is_it = |m: &&Measured| {
            let given = m.cell.format.iter().chain(&m.cell.mount).map(String::as_str);
            m.cell.filesystem == fs && given.eq(wanted.iter().copied())
        };
        workloads.into_iter().find_map(|w| results.of(device, &w).find(is_it).cloned())
    };
    let mut all = Vec::new();
    for c in CLAIMS {
        let mut evidence = Vec::new();
        for device in &devices {
            for (fs, one, other, says) in c.pairs {
                let (Some(a), Some(b)) =
                    (find(device, c.workload, fs, one), find(device, c.workload, fs, other))
                else {
                    continue;
                };
                evidence.push(compared(&a, &b, *says));
            }
        }
        all.push(effect(c.claim, c.section, evidence));
    }
    let mut mail = Vec::new();
    for device in &devices {
        for (with, options, without, none) in
            [("ext3", "", "ext2", ""), ("ext4", "", "ext4", "nojournal")]
        {
            let pair =
                find(device, "varmail", without, none).zip(find(device, "varmail", with, options));
            mail.extend(pair.map(|(a, b)| compared(&a, &b, Says::Less)));
        }
    }
    all.push(effect(
        "Mail, with an fsync for every message, is slower without a journal",
        "5.4",
        mail,
    ));
    all
}

fn compared(one: &Measured, other: &Measured, says: Says) -> Evidence {
    let relative = Relative::of(&one.ops_per_s, &other.ops_per_s);
    let agrees = match says {
        Says::More => relative.differs && relative.change > 0.0,
        Says::Less => relative.differs && relative.change < 0.0,
        Says::Same => !relative.differs || relative.change.abs() < 0.05,
    };
    let told = |s: &Sample| format!("{:.0} ± {:.0}", s.mean, s.half_width);
    let what = format!(
        "{} ({} operations/s) against {} ({}), {}",
        one.cell.system(),
        told(&one.ops_per_s),
        other.cell.system(),
        told(&other.ops_per_s),
        one.cell.device
    );
    Evidence { what, relative, agrees }
}

fn effect(claim: &str, section: &str, evidence: Vec<Evidence>) -> Effect {
    let agree = evidence.iter().filter(|e| e.agrees).count();
    let finding = match (agree, evidence.len()) {
        (_, 0) => Finding::NotRun,
        (0, _) => Finding::Refuted,
        (a, n) if a == n => Finding::FoundAgain,
        _ => Finding::Mixed,
    };
    Effect { claim: claim.to_owned(), section: section.to_owned(), finding, evidence }
}
