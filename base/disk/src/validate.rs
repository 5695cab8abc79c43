//! Compares the model with a real drive: replays measured requests and compares the service times.
//!
//! Input is text and output is numbers; files, printing and the limits for a good match belong to
//! the caller.

use seekless_block::{Extent, Op, SimTime};

use crate::disk::{Disk, DiskError};
use crate::drive::{Command, Drive};
use crate::scheduler::Scheduler;

/// A text of measured requests that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct TextError {
    /// The caller's name for the text.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// The fault and the expected text.
    pub what: String,
}

/// One line of a text with columns separated by whitespace or commas.
struct Columns<'a> {
    file: &'a str,
    line: usize,
    fields: Vec<&'a str>,
}

impl Columns<'_> {
    fn get<T: std::str::FromStr>(&self, column: usize, name: &str) -> Result<T, TextError> {
        let field = self.fields.get(column).copied().unwrap_or("");
        field.parse().map_err(|_| TextError {
            file: self.file.to_owned(),
            line: self.line,
            what: format!("column {} should be {name}, found '{field}'", column + 1),
        })
    }
}

fn lines<'a>(file: &'a str, text: &'a str) -> impl Iterator<Item = Columns<'a>> {
    text.lines()
        .enumerate()
        .filter(|(_, l)| !l.trim().is_empty() && !l.trim_start().starts_with('#'))
        .map(move |(i, l)| Columns {
            file,
            line: i + 1,
            fields: l
                .split(|c: char| c.is_whitespace() || c == ',')
                .filter(|f| !f.is_empty())
                .collect(),
        })
}

/// A request measured on a real drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Read or write.
    pub op: Op,
    /// The sectors.
    pub extent: Extent,
    /// Service time of the drive, in nanoseconds.
    pub service_ns: u64,
    /// Time from the end of the request to the next request, in nanoseconds.
    pub think_ns: u64,
}

/// Maximum time in a line, in microseconds: about 31 years.
const LONGEST_US: f64 = 1e15;

/// Parses a trace of measured requests: `R|W Hit|Miss|... sector sectors service_us think_us`. The
/// second column, the supposed state of the drive's buffer, is optional.
pub fn parse_measured(file: &str, text: &str) -> Result<Vec<Measured>, TextError> {
    lines(file, text)
        .map(|c| {
            let error = |what: String| TextError { file: file.to_owned(), line: c.line, what };
            let op = match c.fields.first().copied().unwrap_or("") {
                "R" | "r" => Op::Read,
                "W" | "w" => Op::Write,
                other => return Err(error(format!("column 1 should be R or W, found '{other}'"))),
            };
            let told = c.fields.get(1).is_some_and(|f| f.parse::<f64>().is_err());
            let first = if told { 2 } else { 1 };
            let time = |column: usize, name: &str| -> Result<u64, TextError> {
                let us: f64 = c.get(column, name)?;
                if (0.0..=LONGEST_US).contains(&us) {
                    return Ok((us * 1e3).round() as u64);
                }
                Err(error(format!("column {} should be {name}, found {us}", column + 1)))
            };
            let sectors: u64 = c.get(first + 1, "a number of sectors")?;
            if sectors == 0 {
                return Err(error(format!(
                    "column {} should be a number of sectors, found 0",
                    first + 2
                )));
            }
            Ok(Measured {
                op,
                extent: Extent::new(c.get(first, "a sector")?, sectors),
                service_ns: time(first + 2, "the service time in microseconds")?,
                think_ns: time(first + 3, "the think time in microseconds")?,
            })
        })
        .collect()
}

/// Replays measured requests one at a time, each `think` after the end of the request before.
/// Returns the modelled service times in milliseconds.
fn replay_measured(disk: Disk, requests: &[Measured]) -> Result<Vec<f64>, DiskError> {
    let mut drive = Drive::new(disk, Scheduler::Fcfs);
    let mut now = SimTime(0);
    let mut out = Vec::with_capacity(requests.len());
    for (tag, r) in requests.iter().enumerate() {
        let command = Command::new(tag as u64, r.op, r.extent);
        drive.submit(now, command)?;
        while let Some(at) = drive.next_event() {
            if let Some(c) = drive.poll(at) {
                out.push(c.finished.since(c.submitted).as_millis_f64());
                now = SimTime(c.finished.0.saturating_add(r.think_ns));
            }
        }
    }
    Ok(out)
}

/// A drive's measured service times and the model's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// Number of requests compared.
    pub requests: usize,
    /// Mean service time of the drive.
    pub measured_ms_mean: f64,
    /// Mean service time of the model.
    pub model_ms_mean: f64,
    /// Demerit between the two, after Ruemmler and Wilkes.
    pub demerit_ms: f64,
    /// Demerit divided by the measured mean.
    pub demerit_share: f64,
}

/// Replays measured requests and compares the service times.
pub fn compare_measured(disk: Disk, requests: &[Measured]) -> Result<Measurement, DiskError> {
    let model = replay_measured(disk, requests)?;
    let real: Vec<f64> = requests.iter().map(|r| r.service_ns as f64 / 1e6).collect();
    let (measured_ms_mean, demerit_ms) = (mean(&real), demerit(&real, &model));
    Ok(Measurement {
        requests: requests.len(),
        measured_ms_mean,
        model_ms_mean: mean(&model),
        demerit_ms,
        demerit_share: demerit_ms / measured_ms_mean,
    })
}

/// The demerit figure of Ruemmler and Wilkes (IEEE Computer, March 1994): the root mean square of
/// the horizontal distance between two distributions, in the unit of the samples. If the samples
/// have different sizes, they are compared at evenly spaced quantiles, as many as the larger sample
/// has values.
pub fn demerit(a: &[f64], b: &[f64]) -> f64 {
    let sorted = |x: &[f64]| {
        let mut x = x.to_vec();
        x.sort_by(f64::total_cmp);
        x
    };
    let (a, b) = (sorted(a), sorted(b));
    let n = a.len().max(b.len());
    if a.is_empty() || b.is_empty() {
        return f64::NAN;
    }
    let quantile = |x: &[f64], i: usize| {
        let at = (i as f64 + 0.5) / n as f64 * x.len() as f64 - 0.5;
        let low = at.max(0.0).floor() as usize;
        let high = (low + 1).min(x.len() - 1);
        x[low] + (x[high] - x[low]) * (at - low as f64).clamp(0.0, 1.0)
    };
    let sum: f64 = (0..n).map(|i| (quantile(&a, i) - quantile(&b, i)).powi(2)).sum();
    (sum / n as f64).sqrt()
}

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demerit_figure_by_hand() {
        // Sorted: 1 2 3 4 against 1 2 3 8: one is off by 4, so the root mean square is 2.
        assert_eq!(demerit(&[4.0, 1.0, 3.0, 2.0], &[8.0, 3.0, 1.0, 2.0]), 2.0);
        assert_eq!(demerit(&[5.0; 7], &[6.0; 3]), 1.0);
        // All values shifted by 0.5.
        let a: Vec<f64> = (0..100).map(f64::from).collect();
        let b: Vec<f64> = (0..100).rev().map(|i| f64::from(i) + 0.5).collect();
        assert!((demerit(&a, &b) - 0.5).abs() < 1e-12);
        assert!(demerit(&[], &[1.0]).is_nan());
    }
}
