//! Checks the effects that the paper found: found again, refuted, undecided, or not run; each with
//! its numbers.

use serde::Serialize;

use super::statistics::Sample;
use super::tables::{Measured, Relative, Results};

/// The result for an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// Every conclusive comparison agrees with the paper.
    FoundAgain,
    /// Every conclusive comparison disagrees with the paper, or excludes the paper's difference.
    Refuted,
    /// Some comparisons agree, others disagree.
    Mixed,
    /// No comparison is conclusive: too few runs, or too much variation.
    Undecided,
    /// No comparison of this effect was run.
    NotRun,
}

impl Finding {
    /// The result in words.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::FoundAgain => "found again",
            Self::Refuted => "refuted",
            Self::Mixed => "not everywhere",
            Self::Undecided => "undecided",
            Self::NotRun => "not run",
        }
    }
}

/// One comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Evidence {
    /// The two compared systems.
    pub what: String,
    /// Their difference.
    pub relative: Relative,
    /// Whether it agrees with the paper; `None` if it is not conclusive.
    pub agrees: Option<bool>,
}

/// An effect and its result.
#[derive(Clone, Debug, Serialize)]
pub struct Effect {
    /// The paper's claim.
    pub claim: String,
    /// The paper's section.
    pub section: String,
    /// The result.
    pub finding: Finding,
    /// The comparisons.
    pub evidence: Vec<Evidence>,
}

#[derive(Clone, Copy)]
enum ExpectedChange {
    More,
    Less,
    Same,
}

struct Claim {
    claim: &'static str,
    section: &'static str,
    workload: &'static str,
    /// Pairs of systems: file system, options of the first, options of the second, expected change.
    pairs: &'static [(&'static str, &'static str, &'static str, ExpectedChange)],
}

const CLAIMS: &[Claim] = &[
    Claim {
        claim: "Without access times a web server is faster, little except on Reiserfs",
        section: "5.2",
        workload: "webserver",
        pairs: &[
            ("ext2", "noatime", "strictatime", ExpectedChange::More),
            ("ext3", "noatime", "strictatime", ExpectedChange::More),
            ("ext4", "noatime", "strictatime", ExpectedChange::More),
            ("xfs", "noatime", "strictatime", ExpectedChange::Same),
            ("reiserfs", "noatime", "strictatime", ExpectedChange::More),
        ],
    },
    Claim {
        claim: "A database is about twice as fast with blocks of its I/O size, 2 KiB",
        section: "5.5",
        workload: "oltp",
        pairs: &[
            ("ext2", "blk2k", "", ExpectedChange::More),
            ("ext3", "blk2k", "", ExpectedChange::More),
            ("ext4", "blk2k", "", ExpectedChange::More),
            ("xfs", "blk2k", "", ExpectedChange::More),
        ],
    },
    Claim {
        claim: "Data journalling slows a file server by 10% or more",
        section: "5.3",
        workload: "fileserver",
        pairs: &[
            ("ext3", "dtlg", "", ExpectedChange::Less),
            ("ext4", "dtlg", "", ExpectedChange::Less),
        ],
    },
    Claim {
        claim: "Write-back journalling slows a file server by some percent",
        section: "5.3",
        workload: "fileserver",
        pairs: &[
            ("ext3", "wrbck", "", ExpectedChange::Less),
            ("ext4", "wrbck", "", ExpectedChange::Less),
        ],
    },
    Claim {
        claim: "More allocation groups make a file server on XFS faster",
        section: "5.3",
        workload: "fileserver",
        pairs: &[
            ("xfs", "agcnt32", "agcnt8", ExpectedChange::More),
            ("xfs", "agcnt64", "agcnt8", ExpectedChange::More),
            ("xfs", "agcnt16", "", ExpectedChange::More),
        ],
    },
    Claim {
        claim: "Allocation groups have no effect on a web server",
        section: "5.2",
        workload: "webserver",
        pairs: &[
            ("xfs", "agcnt32", "agcnt8", ExpectedChange::Same),
            ("xfs", "agcnt16", "", ExpectedChange::Same),
        ],
    },
    Claim {
        claim: "Small blocks make a mail server much slower on ext, and faster on XFS",
        section: "5.4",
        workload: "varmail",
        pairs: &[
            ("ext2", "blk1k", "", ExpectedChange::Less),
            ("ext3", "blk1k", "", ExpectedChange::Less),
            ("ext4", "blk1k", "", ExpectedChange::Less),
            ("xfs", "blk1k", "", ExpectedChange::More),
        ],
    },
];

/// The effects, as far as their comparisons were run. The one that compares two file systems
/// concerns mail: with an fsync for every message, the file system without a journal is slower
/// (section 5.4).
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
            mail.extend(pair.map(|(a, b)| compared(&a, &b, ExpectedChange::Less)));
        }
    }
    all.push(effect(
        "Mail with an fsync for every message is slower without a journal",
        "5.4",
        mail,
    ));
    all
}

fn compared(one: &Measured, other: &Measured, says: ExpectedChange) -> Evidence {
    let relative = Relative::of(&one.ops_per_s, &other.ops_per_s);
    let (change, reach) = (relative.change, relative.reach);
    // No difference was seen. A difference of 5% or more in the claimed direction is refuted only
    // if the interval excludes it.
    let none = |towards: f64| reach.filter(|r| towards * change + r < 0.05).map(|_| false);
    let agrees = match says {
        ExpectedChange::More if relative.differs => Some(change > 0.0),
        ExpectedChange::Less if relative.differs => Some(change < 0.0),
        ExpectedChange::More => none(1.0),
        ExpectedChange::Less => none(-1.0),
        ExpectedChange::Same if relative.differs => Some(change.abs() < 0.05),
        ExpectedChange::Same => reach.filter(|r| change.abs() + r < 0.1).map(|_| true),
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
    fn undecided_effects_are_not_reported_as_refuted() {
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
            (agrees(&more, ExpectedChange::More), agrees(&less, ExpectedChange::More)),
            (Some(true), Some(false))
        );
        assert_eq!(
            (agrees(&wide, ExpectedChange::More), agrees(&same, ExpectedChange::More)),
            (None, Some(false))
        );
        assert_eq!(
            (agrees(&wide, ExpectedChange::Same), agrees(&same, ExpectedChange::Same)),
            (None, Some(true))
        );
        assert_eq!(
            (agrees(&more, ExpectedChange::Same), agrees(&less, ExpectedChange::Less)),
            (Some(false), Some(true))
        );
        assert_eq!(
            agrees(&measured(&[300.0]), ExpectedChange::More),
            None,
            "one run is not conclusive"
        );
        let of = |list: Vec<&Measured>| {
            effect("", "", list.iter().map(|m| compared(m, &base, ExpectedChange::More)).collect())
                .finding
        };
        assert_eq!(of(vec![]), Finding::NotRun);
        assert_eq!(of(vec![&wide]), Finding::Undecided);
        assert_eq!(
            (of(vec![&more, &wide]), of(vec![&same]), of(vec![&more, &less])),
            (Finding::FoundAgain, Finding::Refuted, Finding::Mixed)
        );
    }
}
