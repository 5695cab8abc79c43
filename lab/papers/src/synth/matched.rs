//! A made-up week beside the numbers that the paper prints of the real one.

use seekless_report::Unit;
use seekless_trace::stats::{StatOptions, Table1, characterize};
use seekless_trace::{OpenOptions, Source, TraceError};

use super::{Printed, Synthetic};
use crate::Progress;

/// A number of Table 1: its name, its unit, the paper's at this scale, ours.
pub type Matched = (&'static str, Unit, f64, f64);

/// Our numbers beside the paper's, sizes at the trace's scale.
pub fn matched(synthetic: &Synthetic, ours: &Table1) -> [Matched; 8] {
    let Printed { size_gb, read_gb, unique_read_gb, written_gb, unique_written_gb, .. } =
        synthetic.personality.printed;
    let Printed { accessed, top20, determinism, .. } = synthetic.personality.printed;
    let size = |what, gb: f64, ours: f64| {
        (what, Unit::Bytes, gb * f64::from(1 << 30) * synthetic.scale, ours)
    };
    let share = |what, printed, ours| (what, Unit::Share, printed, ours);
    [
        size("file system", size_gb, synthetic.size().0 as f64),
        size("reads, total", read_gb, ours.read_bytes as f64),
        size("reads, unique", unique_read_gb, ours.unique_read_bytes.value),
        size("writes, total", written_gb, ours.written_bytes as f64),
        size("writes, unique", unique_written_gb, ours.unique_written_bytes.value),
        share("file system accessed", accessed, ours.accessed_share.map_or(0.0, |e| e.value)),
        share("top 20% data access", top20, ours.top20_share.value),
        share("partial determinism", determinism, ours.determinism.share.value),
    ]
}

/// The counts of `seekless stat` for the trace.
///
/// # Errors
/// If the trace cannot be read.
pub fn counted(
    synthetic: &Synthetic,
    source: &Source,
    progress: &Progress<'_>,
) -> Result<Table1, TraceError> {
    let options = StatOptions { size: Some(synthetic.size()), ..StatOptions::default() };
    let mut reader = source.open(&OpenOptions::default())?;
    let summary = characterize(&mut reader, &options, None, &mut |at| {
        progress("counting", at.read, at.total);
    });
    Ok(summary?.table1)
}
