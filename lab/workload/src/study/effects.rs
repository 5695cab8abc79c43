//! Effects that the paper found, tested again: found again, refuted, undecided, or not run; each
//! with its numbers.

use serde::Serialize;

use super::sample::Sample;
use super::tables::{Measured, Relative, Results};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Finding {
    /// Every significant comparison agrees with the paper.
    FoundAgain,
    /// Every significant comparison contradicts the paper, or excludes a difference as large as the
    /// paper's.
    Refuted,
    /// Some comparisons agree, some contradict.
    Mixed,
    /// No comparison is significant: too few runs, or too much variation.
    Undecided,
    NotRun,
}

impl Finding {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::FoundAgain => "found again",
            Self::Refuted => "refuted",
            Self::Mixed => "not everywhere",
            Self::Undecided => "undecided",
            Self::NotRun => "not run",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Evidence {
    /// The compared systems.
    pub what: String,
    /// Their difference.
    pub relative: Relative,
    /// Whether the difference agrees with the paper; `None` if it is not significant.
    pub agrees: Option<bool>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Effect {
    /// The paper's claim.
    pub claim: String,
    /// The section of the paper.
    pub section: String,
    pub finding: Finding,
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
        claim: "Without writes of access times a web server gains little, except on Reiserfs",
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
        claim: "A database is about twice as fast with blocks of the size of its I/O, 2 KiB",
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
        claim: "Data journalling costs a file server a tenth or more",
        section: "5.3",
        workload: "fileserver",
        pairs: &[("ext3", "dtlg", "", Says::Less), ("ext4", "dtlg", "", Says::Less)],
    },
    Claim {
        claim: "Write-back journalling costs a file server a few per cent",
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
        claim: "Small blocks slow a mail server much on ext, and speed it up on XFS",
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

/// All effects with their findings. The effect between two file systems is about mail: with an
/// fsync for every message, the file system without a journal is slower (section 5.4).
pub(super) fn effects(results: &Results) -> Vec<Effect> {
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
    let (change, reach) = (relative.change, relative.reach);
    // No significant difference; a difference of 5% or more is refuted only if the interval
    // excludes it.
    let none = |towards: f64| reach.filter(|r| towards * change + r < 0.05).map(|_| false);
    let agrees = match says {
        Says::More if relative.differs => Some(change > 0.0),
        Says::Less if relative.differs => Some(change < 0.0),
        Says::More => none(1.0),
        Says::Less => none(-1.0),
        Says::Same if relative.differs => Some(change.abs() < 0.05),
        Says::Same => reach.filter(|r| change.abs() + r < 0.1).map(|_| true),
    };
    let shown = |s: &Sample| format!("{:.0} ± {:.0}", s.mean, s.half_width);
    let what = format!(
        "{} ({} operations/s) against {} ({}), {}",
        one.cell.system(),
        shown(&one.ops_per_s),
        other.cell.system(),
        shown(&other.ops_per_s),
        one.cell.device
    );
    Evidence { what, relative, agrees }
}

fn effect(claim: &str, section: &str, evidence: Vec<Evidence>) -> Effect {
    let count = |what: bool| evidence.iter().filter(|e| e.agrees == Some(what)).count();
    let finding = match (count(true), count(false)) {
        _ if evidence.is_empty() => Finding::NotRun,
        (0, 0) => Finding::Undecided,
        (_, 0) => Finding::FoundAgain,
        (0, _) => Finding::Refuted,
        _ => Finding::Mixed,
    };
    Effect { claim: claim.to_owned(), section: section.to_owned(), finding, evidence }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::Cell;

    fn measured(ops: &[f64]) -> Measured {
        let cell = Cell {
            device: "d".to_owned(),
            filesystem: "xfs".to_owned(),
            short: "x".to_owned(),
            format: Vec::new(),
            mount: Vec::new(),
            workload: "oltp".to_owned(),
            rate: None,
        };
        let ops_per_s = Sample::of(ops).unwrap();
        Measured { id: cell.id(), cell, ops_per_s, ops_per_joule: None, watts: None, cpu: [0.0; 3] }
    }

    #[test]
    fn an_undecided_effect_is_not_refuted() {
        let base = measured(&[100.0, 101.0, 99.0, 100.0, 100.0]);
        let (more, less) = (
            measured(&[200.0, 201.0, 199.0, 202.0, 198.0]),
            measured(&[50.0, 51.0, 50.0, 49.0, 50.0]),
        );
        let (wide, same) = (
            measured(&[60.0, 150.0, 90.0, 120.0, 80.0]),
            measured(&[100.0, 100.0, 101.0, 99.5, 100.0]),
        );
        let agrees = |m: &Measured, says| compared(m, &base, says).agrees;
        assert_eq!(
            (agrees(&more, Says::More), agrees(&less, Says::More)),
            (Some(true), Some(false))
        );
        assert_eq!((agrees(&wide, Says::More), agrees(&same, Says::More)), (None, Some(false)));
        assert_eq!((agrees(&wide, Says::Same), agrees(&same, Says::Same)), (None, Some(true)));
        assert_eq!(
            (agrees(&more, Says::Same), agrees(&less, Says::Less)),
            (Some(false), Some(true))
        );
        assert_eq!(agrees(&measured(&[300.0]), Says::More), None, "one run says nothing");
        let of = |list: Vec<&Measured>| {
            effect("", "", list.iter().map(|m| compared(m, &base, Says::More)).collect()).finding
        };
        assert_eq!(of(vec![]), Finding::NotRun);
        assert_eq!(of(vec![&wide]), Finding::Undecided);
        assert_eq!(
            (of(vec![&more, &wide]), of(vec![&same]), of(vec![&more, &less])),
            (Finding::FoundAgain, Finding::Refuted, Finding::Mixed)
        );
    }
}
