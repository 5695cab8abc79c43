//! Finds the interval between plans, the size of the optimized area and its share for writes that
//! fit a trace: BORG's sensitivity analysis (FAST'09, 6.5, Figure 12), and the iterative search
//! that the paper leaves open. Coordinate descent on geometric grids: one parameter after the
//! other, in the paper's order, until none changes. Only earlier folds choose; the last folds
//! measure the choice.

use seekless_block::{Bytes, Sectors};
use seekless_learn::Policy;
use seekless_trace::{Progress, Source};
use serde::Serialize;

use crate::advise::{RankedBy, Scale, chooses};
use crate::candidates::{STEP, check_plans};
use crate::error::StudyError;
use crate::estimate::{Gain, saved};
use crate::fold_costs::FoldCosts;
use crate::folds::Cutting;
use crate::outcome::TraceFacts;
use crate::rolling::{Rolled, RollingOptions, RollingStage, roll};
use crate::system::{Host, Learning, System};

/// Most rounds over all parameters.
const ROUNDS: u32 = 3;
/// Sizes to try: the footprint, and this number of halvings.
const SIZES: u32 = 6;

/// Shares of the write buffer in the area, in percent: those of the paper.
const WRITE_BUFFERS: [u8; 5] = [0, 25, 50, 75, 100];

/// The question.
#[derive(Clone, Debug)]
pub struct TuneOptions {
    /// How the trace is read and cut.
    pub rolling: RollingOptions,
    /// The disk and its surroundings.
    pub host: Host,
    /// The learning policy: `borg`, or one by temperature.
    pub policy: Policy,
}

/// A parameter of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Parameter {
    /// Folds from one plan to the next.
    Interval,
    /// Size of the optimized area.
    Size,
    /// Share of the area for writes.
    WriteBuffer,
}

impl Parameter {
    /// All of them, in the order of the search.
    pub const ALL: [Self; 3] = [Self::Interval, Self::Size, Self::WriteBuffer];
}

/// A value for each parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Folds from one plan to the next.
    pub interval_folds: u32,
    /// Size of the optimized area.
    pub optimized_bytes: u64,
    /// Share of the area for writes; 0 writes through.
    pub write_buffer_percent: u8,
}

/// A setting, and its savings against no layout.
#[derive(Clone, Debug, Serialize)]
pub struct Tuning {
    /// The setting.
    pub setting: Setting,
    /// Disk time over the folds that choose, with moving counted, and the 90% range for held-out
    /// folds.
    pub saves_busy: Gain,
    /// The same without moving: the paper's measure, "improvement in disk busy time throughput"
    /// (6.5).
    pub saves_foreground: f64,
    /// Disk time over the held-out folds, with moving counted.
    pub held_out_saves_busy: f64,
    /// Over all folds but the first.
    pub total: FoldCosts,
}

/// One parameter varied, the others fixed: a panel of Figure 12.
#[derive(Clone, Debug, Serialize)]
pub struct Panel {
    /// The parameter.
    pub parameter: Parameter,
    /// Which time the parameters are gone through, from 1.
    pub round: u32,
    /// From the smallest value to the largest.
    pub points: Vec<Tuning>,
    /// Index of the best, by `saves_busy.share`.
    pub best: usize,
}

/// The whole search: schema `seekless.tune/1`.
#[derive(Clone, Debug, Serialize)]
pub struct Tuned {
    /// `seekless.tune/1`.
    pub schema: &'static str,
    /// The trace.
    pub trace: TraceFacts,
    /// The disk.
    pub disk: String,
    /// `closed` or `open`.
    pub replay: &'static str,
    /// Requests of each fold.
    pub fold_requests: Vec<u64>,
    /// Days of each fold; zeroes if the trace is cut by requests.
    pub fold_days: Vec<u64>,
    /// Last folds, which no choice has seen.
    pub held_out_folds: usize,
    /// In order; the search ends with the first round that changes nothing.
    pub panels: Vec<Panel>,
    /// Settings simulated.
    pub settings_tried: usize,
    /// The best setting.
    pub chosen: Tuning,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

impl Tuned {
    /// The last panel of a parameter: the curve to show.
    pub fn panel(&self, parameter: Parameter) -> Option<&Panel> {
        self.panels.iter().rev().find(|p| p.parameter == parameter)
    }
}

/// The state of the search.
struct Search<'a> {
    source: &'a Source,
    options: &'a TuneOptions,
    /// Settings that were simulated.
    known: Vec<Tuning>,
    last: Option<Rolled>,
}

/// Finds interval, size and share by simulation. Calls `progress` from time to time.
pub fn tune(
    source: &Source,
    options: &TuneOptions,
    progress: &mut dyn FnMut(Parameter, RollingStage, Progress),
) -> Result<Tuned, StudyError> {
    check_plans(&options.policy)?;
    let mut search = Search { source, options, known: Vec::new(), last: None };
    // The grids follow from the trace; the first panel's pass finds them.
    let (mut sizes, mut intervals) = (Vec::new(), Vec::new());
    let mut at = Setting { interval_folds: 1, optimized_bytes: 0, write_buffer_percent: 0 };
    let mut panels: Vec<Panel> = Vec::new();
    for round in 1..=ROUNDS {
        let before = at;
        for parameter in Parameter::ALL {
            if parameter == Parameter::WriteBuffer
                && search.last.as_ref().is_some_and(|rolled| rolled.trace.writes == 0)
            {
                continue; // no writes, no buffer
            }
            let tunings =
                search.panel(parameter, &mut at, (&mut intervals, &mut sizes), progress)?;
            let best = best_of(&tunings);
            at = tunings[best].setting;
            panels.push(Panel { parameter, round, points: tunings, best });
        }
        if round > 1 && at == before {
            break;
        }
    }
    let chosen = search.known.iter().find(|t| t.setting == at).cloned();
    let (Some(chosen), Some(rolled)) = (chosen, search.last) else {
        unreachable!("every panel ends with a setting that was tried")
    };
    let (_, held_out) = chooses(rolled.folds.len());
    Ok(Tuned {
        schema: "seekless.tune/1",
        disk: options.host.disk.name().to_owned(),
        replay: rolled.replay_words().0,
        fold_requests: rolled.folds.iter().map(|f| f.requests).collect(),
        fold_days: rolled.folds.iter().map(|f| f.days).collect(),
        held_out_folds: held_out,
        panels,
        settings_tried: search.known.len(),
        chosen,
        notes: rolled.notes,
        trace: rolled.trace,
    })
}

/// The first of the best settings.
fn best_of(tunings: &[Tuning]) -> usize {
    let saves = |i: usize| tunings[i].saves_busy.share;
    (0..tunings.len()).rev().max_by(|&a, &b| saves(a).total_cmp(&saves(b))).unwrap_or(0)
}

impl Search<'_> {
    /// Every value of the parameter, the others as in `at`. Known settings are not simulated again.
    /// Empty grids are filled.
    fn panel(
        &mut self,
        parameter: Parameter,
        at: &mut Setting,
        (intervals, sizes): (&mut Vec<u32>, &mut Vec<u64>),
        progress: &mut dyn FnMut(Parameter, RollingStage, Progress),
    ) -> Result<Vec<Tuning>, StudyError> {
        let mut wanted = Vec::new();
        let ready = !sizes.is_empty();
        if ready {
            wanted = settings(parameter, *at, intervals, sizes);
        }
        let is_known = |known: &[Tuning], s: &Setting| known.iter().any(|t| t.setting == *s);
        if !ready || wanted.iter().any(|s| !is_known(&self.known, s)) {
            let (options, known) = (self.options, &self.known);
            let mut tried = Vec::new();
            let (_, rolled) = roll(
                self.source,
                &options.rolling,
                |facts, capacity| {
                    if !ready {
                        *sizes = size_grid(options, facts, capacity);
                        *intervals = interval_grid(options.rolling.cutting);
                        // The paper also begins with a medium size.
                        at.optimized_bytes = sizes.get(sizes.len() / 2).copied().unwrap_or(0);
                        wanted = settings(parameter, *at, intervals, sizes);
                    }
                    tried = wanted.iter().copied().filter(|s| !is_known(known, s)).collect();
                    let layouts = tried.iter().map(|&s| system(options, Some(s)));
                    std::iter::once(system(options, None)).chain(layouts).collect()
                },
                &mut |stage, at| progress(parameter, stage, at),
            )?;
            if sizes.is_empty() {
                return Err(StudyError::NoRoom {
                    path: self.source.path().display().to_string(),
                    disk: options.host.disk.name().to_owned(),
                });
            }
            let laps = rolled.laps();
            let base = &laps[0];
            let new = tried.iter().zip(&laps[1..]).map(|(&s, laps)| tuning(s, base, laps));
            self.known.extend(new);
            self.last = Some(Rolled { runs: Vec::new(), ..rolled });
        }
        let of = |s: &Setting| self.known.iter().find(|t| t.setting == *s).cloned();
        Ok(wanted.iter().filter_map(of).collect())
    }
}

fn settings(parameter: Parameter, at: Setting, intervals: &[u32], sizes: &[u64]) -> Vec<Setting> {
    match parameter {
        Parameter::Interval => {
            intervals.iter().map(|&interval_folds| Setting { interval_folds, ..at }).collect()
        }
        Parameter::Size => {
            sizes.iter().map(|&optimized_bytes| Setting { optimized_bytes, ..at }).collect()
        }
        Parameter::WriteBuffer => WRITE_BUFFERS
            .map(|write_buffer_percent| Setting { write_buffer_percent, ..at })
            .to_vec(),
    }
}

/// 1, 2, 4 ... folds, up to one plan for the whole trace.
fn interval_grid(cutting: Cutting) -> Vec<u32> {
    let folds = match cutting {
        Cutting::Folds(most) => most,
        Cutting::Train(_) => 2,
    };
    let doubles = std::iter::successors(Some(1u32), |n| n.checked_mul(2));
    doubles.take_while(|&n| n < folds.max(2)).collect()
}

/// The footprint, and halvings of it, as far as there is room; in whole steps, ascending.
fn size_grid(options: &TuneOptions, facts: &TraceFacts, capacity: Sectors) -> Vec<u64> {
    let room = options.host.room(capacity).0;
    let mut sizes: Vec<u64> = (0..SIZES)
        .rev()
        .map(|halves| (facts.footprint_bytes >> halves).next_multiple_of(STEP).max(STEP))
        .filter(|&size| size <= room)
        .collect();
    sizes.dedup();
    sizes
}

fn system(options: &TuneOptions, setting: Option<Setting>) -> System {
    let learning = setting.map(|s| Learning {
        policy: options.policy,
        optimized: Bytes(s.optimized_bytes),
        write_buffer: s.write_buffer_percent,
        gather: options.host.gather,
        every: s.interval_folds,
    });
    let name = setting.map_or("vanilla".to_owned(), |s| {
        let Setting { interval_folds, optimized_bytes, write_buffer_percent } = s;
        format!("{} every {interval_folds}, {write_buffer_percent} %", Bytes(optimized_bytes))
    });
    options.host.system(name, learning)
}

fn tuning(setting: Setting, base: &[FoldCosts], laps: &[FoldCosts]) -> Tuning {
    let scale = Scale::new(base, RankedBy::Time);
    let foreground =
        |laps: &[FoldCosts]| laps[scale.chooses.clone()].iter().map(|lap| lap.busy_s).sum();
    Tuning {
        setting,
        saves_busy: scale.estimate(laps, FoldCosts::all_busy_s),
        saves_foreground: saved(foreground(base), foreground(laps)),
        held_out_saves_busy: scale.left_out(laps, FoldCosts::all_busy_s),
        total: FoldCosts::sum(&laps[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_geometric() {
        assert_eq!(interval_grid(Cutting::Folds(12)), [1, 2, 4, 8]);
        assert_eq!(interval_grid(Cutting::Folds(2)), [1]);
        let at = Setting { interval_folds: 4, optimized_bytes: 7, write_buffer_percent: 0 };
        let varied = settings(Parameter::Interval, at, &[1, 2], &[]);
        assert_eq!(
            varied.iter().map(|s| (s.interval_folds, s.optimized_bytes)).collect::<Vec<_>>(),
            [(1, 7), (2, 7)]
        );
    }

    #[test]
    fn the_first_of_equals_is_the_best() {
        let lap = |busy_s| FoldCosts { busy_s, ..FoldCosts::default() };
        let base = vec![lap(10.0); 5];
        let point = |busy: f64| {
            let setting =
                Setting { interval_folds: 1, optimized_bytes: 0, write_buffer_percent: 0 };
            tuning(setting, &base, &vec![lap(busy); 5])
        };
        assert_eq!(best_of(&[point(9.0), point(8.0), point(8.0), point(9.5)]), 1);
        let t = point(8.0);
        assert!(
            (t.saves_busy.share - 0.2).abs() < 1e-12 && (t.held_out_saves_busy - 0.2).abs() < 1e-12
        );
    }
}
