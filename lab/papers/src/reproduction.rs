//! The results of a reproduced experiment, ready to be printed or written.

use seekless_disk::fit::Fit;
use seekless_report::{Basis, Figure, HeadMove, Report, Table};
use seekless_sim::HeadPath;
use serde_json::Value;

/// The schema of a document.
pub(crate) const SCHEMA: &str = "seekless.reproduce/2";

/// Reports progress: the work at hand, the parts done, and all parts.
pub type Progress<'a> = dyn Fn(&str, u64, u64) + Sync + 'a;

/// Makes the points of a figure from a head's path.
pub type HeadMoves = fn(&HeadPath) -> Vec<HeadMove>;

/// Makes the figure of access time over seek distance. The text says where the accesses come from.
pub type AccessFigure = fn(&Fit, Basis, &str) -> Figure;

/// The results of a reproduced experiment in each of their forms.
#[derive(Debug)]
pub struct Reproduction {
    /// Text before the tables; empty where there is none.
    pub opening: String,
    /// Tables for the terminal.
    pub tables: Vec<Table>,
    /// Text after the tables; empty where there is none.
    pub closing: String,
    /// The numbers, as schema `seekless.reproduce/2`.
    pub document: Value,
    /// The report with figures.
    pub report: Report,
}

/// The sum of some runs, field by field. The field after `last` is that of the last run; the
/// response time is the mean over all requests.
macro_rules! sum_of_runs {
    ($runs:expr, $($field:ident)* $(; last $last:ident)?) => {{
        let mut all = $runs.iter().fold(Self::default(), |a, b| Self {
            $($field: a.$field + b.$field,)*
            $($last: b.$last,)?
            response_ms: a.response_ms + b.response_ms * b.requests as f64,
        });
        all.response_ms /= all.requests.max(1) as f64;
        all
    }};
}
pub(crate) use sum_of_runs;
