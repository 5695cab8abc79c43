//! Power and energy of a workload. Every number has a label, measured or modelled, and its source.
//! The energy that the idle machine would have needed is reported separately.

mod cpu_model;
mod instruments;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use cpu_model::CpuModel;
use instruments::{Battery, CommandMeter, Hwmon, Rapl};

/// The origin of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The reading of an instrument.
    Measured,
    /// Computed from another measured quantity.
    Modelled,
}

/// The name and the origin of a meter's numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// A name such as `rapl:package-0`.
    pub name: String,
    /// Measured or modelled.
    pub basis: Basis,
    /// The instrument or the model, in words.
    pub by: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reading {
    /// Joules since a fixed time; never decreases.
    Joules(f64),
    Watts(f64),
}

/// A meter of power or energy.
pub(crate) trait Meter: Send {
    /// The name and the origin of its numbers.
    fn source(&self) -> Source;
    /// Takes a reading; `None` if there is none at present.
    fn read(&mut self) -> Option<Reading>;
}

/// The energy of a run, from one source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// The source.
    #[serde(flatten)]
    pub source: Source,
    /// Energy in the measured time, in joules.
    pub joules: f64,
    /// The part that the idle machine would have needed; `None` if not known.
    pub idle_joules: Option<f64>,
    /// Mean power.
    pub watts: f64,
}

impl Energy {
    /// Creates it from a source, joules over a time in seconds, and the idle power in watts.
    pub(crate) fn new(source: Source, joules: f64, seconds: f64, idle_watts: Option<f64>) -> Self {
        let idle_joules = idle_watts.map(|w| w * seconds);
        Self { source, joules, idle_joules, watts: joules / seconds.max(1e-9) }
    }

    /// As text, with operations per joule.
    pub fn told(&self, operations: u64) -> String {
        let basis = match self.source.basis {
            Basis::Measured => "measured",
            Basis::Modelled => "modelled",
        };
        let idle = self.idle_joules.map_or(String::new(), |j| format!(", of which {j:.1} J idle"));
        format!(
            "{}: {:.1} J{idle}, {:.2} W, {:.4} operations/J ({basis}: {})",
            self.source.name,
            self.joules,
            self.watts,
            operations as f64 / self.joules.max(1e-9),
            self.source.by
        )
    }
}

/// A meter and its readings so far.
struct MeterReadings {
    meter: Box<dyn Meter>,
    /// Joules at the start for counters; joules so far for gauges.
    begin: Option<f64>,
    joules: f64,
    last: Option<(f64, f64)>,
    idle_watts: Option<f64>,
}

impl MeterReadings {
    fn new(meter: Box<dyn Meter>) -> Self {
        Self { meter, begin: None, joules: 0.0, last: None, idle_watts: None }
    }

    fn reset(&mut self) {
        (self.begin, self.joules, self.last) = (None, 0.0, None);
    }

    /// Takes a reading at `at` seconds. Counters are subtracted; gauges are integrated by the
    /// trapezoidal rule.
    fn sample(&mut self, at: f64) {
        match self.meter.read() {
            Some(Reading::Joules(j)) => {
                let begin = *self.begin.get_or_insert(j);
                self.joules = (j - begin).max(0.0);
            }
            Some(Reading::Watts(w)) => {
                if let Some((before, watts)) = self.last {
                    self.joules += (at - before).max(0.0) * f64::midpoint(w, watts);
                }
                self.last = Some((at, w));
            }
            None => {}
        }
    }

    fn has_told(&self) -> bool {
        self.begin.is_some() || self.last.is_some()
    }
}

/// The meters of a run.
pub struct Meters {
    books: Vec<MeterReadings>,
    cpu: Option<CpuModel>,
    next_s: f64,
}

impl std::fmt::Debug for Meters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.books.iter().map(|b| b.meter.source().name).collect();
        f.debug_struct("Meters")
            .field("meters", &names)
            .field("cpu", &self.cpu)
            .finish_non_exhaustive()
    }
}

/// Interval between readings in seconds.
const EVERY_S: f64 = 0.2;

impl Meters {
    /// These meters, and the processor model if there is one.
    fn new(meters: Vec<Box<dyn Meter>>, cpu: Option<CpuModel>) -> Self {
        Self { books: meters.into_iter().map(MeterReadings::new).collect(), cpu, next_s: 0.0 }
    }

    /// The meters of a list: `auto`, `none`, `rapl`, `hwmon`, `battery`, `cpu-model`,
    /// `cpu-model=IDLE-PEAK`, `command=COMMAND`, separated by commas. `auto` means the first of
    /// RAPL, hwmon and batteries that gives readings, otherwise the model.
    ///
    /// # Errors
    /// An invalid word, or a meter that does not exist here.
    pub fn parse(list: &str) -> Result<Self, String> {
        let (mut meters, mut cpu): (Vec<Box<dyn Meter>>, _) = (Vec::new(), None);
        for word in list.split(',').map(str::trim) {
            let found = match word {
                "none" => continue,
                "auto" => {
                    let found = instruments::auto();
                    if found.is_empty() {
                        cpu = Some(CpuModel::default());
                    }
                    meters.extend(found);
                    continue;
                }
                "cpu-model" => {
                    cpu = Some(CpuModel::default());
                    continue;
                }
                "rapl" => instruments::boxed(Rapl::all()),
                "hwmon" => instruments::boxed(Hwmon::all()),
                "battery" => instruments::boxed(Battery::all()),
                _ => match word.split_once('=') {
                    Some(("cpu-model", range)) => {
                        cpu = Some(CpuModel::parse(range)?);
                        continue;
                    }
                    Some(("command", command)) => {
                        let meter = CommandMeter::start(command)
                            .map_err(|e| format!("'{command}': {e}"))?;
                        vec![Box::new(meter) as Box<dyn Meter>]
                    }
                    _ => {
                        return Err(format!(
                            "'{word}' is not a power meter; allowed: auto, none, rapl, hwmon, battery, cpu-model, \
                             cpu-model=IDLE-PEAK, command=COMMAND"
                        ));
                    }
                },
            };
            if found.is_empty() {
                return Err(format!("this host has no instrument for '{word}'"));
            }
            meters.extend(found);
        }
        Ok(Self::new(meters, cpu))
    }

    /// Measures the idle power for `time`; no work should run meanwhile.
    pub fn measure_idle(&mut self, time: Duration, stop: &AtomicBool) {
        let begin = Instant::now();
        self.books.iter_mut().for_each(MeterReadings::reset);
        while begin.elapsed() < time && !stop.load(Ordering::Relaxed) {
            let at = begin.elapsed().as_secs_f64();
            self.books.iter_mut().for_each(|b| b.sample(at));
            std::thread::sleep(Duration::from_millis(50).min(time));
        }
        let seconds = begin.elapsed().as_secs_f64();
        for book in &mut self.books {
            book.sample(seconds);
            book.idle_watts = (book.has_told() && seconds > 0.0).then(|| book.joules / seconds);
            book.reset();
        }
    }

    /// Takes readings. Call it several times a second, the first time at zero.
    pub fn sample(&mut self, at: Duration) {
        let at = at.as_secs_f64();
        if at == 0.0 {
            self.books.iter_mut().for_each(MeterReadings::reset);
        } else if at < self.next_s {
            return;
        }
        self.next_s = at + EVERY_S;
        self.books.iter_mut().for_each(|b| b.sample(at));
    }

    /// The energy of a run of `seconds` with the processors `busy` (a fraction). Meters without
    /// readings are left out.
    pub fn finish(&mut self, seconds: f64, busy: f64) -> Vec<Energy> {
        self.next_s = 0.0;
        let mut all = Vec::new();
        for book in &mut self.books {
            book.sample(seconds);
            if book.has_told() {
                all.push(Energy::new(book.meter.source(), book.joules, seconds, book.idle_watts));
            }
            book.reset();
        }
        all.extend(self.cpu.map(|model| model.energy(seconds, busy)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fake(Vec<Reading>);

    impl Meter for Fake {
        fn source(&self) -> Source {
            Source { name: "fake".to_owned(), basis: Basis::Measured, by: "a test".to_owned() }
        }
        fn read(&mut self) -> Option<Reading> {
            (!self.0.is_empty()).then(|| self.0.remove(0))
        }
    }

    fn measured(readings: Vec<Reading>) -> Vec<Energy> {
        let mut meters = Meters::new(vec![Box::new(Fake(readings))], None);
        for at in [0.0, 1.0, 2.0] {
            meters.sample(Duration::from_secs_f64(at));
        }
        meters.finish(3.0, 0.5)
    }

    #[test]
    fn counters_by_difference_and_gauges_by_trapezoids() {
        let counter = measured([5.0, 6.0, 8.0, 11.0].map(Reading::Joules).to_vec());
        assert!((counter[0].joules - 6.0).abs() < 1e-12 && (counter[0].watts - 2.0).abs() < 1e-12);
        let gauge = measured([10.0, 20.0, 20.0, 10.0].map(Reading::Watts).to_vec());
        assert!((gauge[0].joules - 50.0).abs() < 1e-12, "{gauge:?}");
        assert_eq!(measured(vec![]), [], "a meter without readings is left out");
    }

    #[test]
    fn idle_energy_is_separate() {
        let readings = std::iter::repeat_n(Reading::Watts(4.0), 100).collect();
        let mut meters = Meters::new(vec![Box::new(Fake(readings))], None);
        meters.measure_idle(Duration::from_millis(120), &AtomicBool::new(false));
        meters.sample(Duration::ZERO);
        let energy = meters.finish(10.0, 1.0);
        assert!((energy[0].joules - 40.0).abs() < 1e-9);
        assert!((energy[0].idle_joules.unwrap() - 40.0).abs() < 1.0, "{energy:?}");
    }

    #[test]
    fn lists_are_read() {
        assert!(Meters::parse("none").unwrap().finish(1.0, 1.0).is_empty());
        let model = Meters::parse("cpu-model").unwrap().finish(10.0, 0.5);
        assert_eq!((model[0].joules, model[0].idle_joules), (2465.0, Some(2140.0)));
        assert_eq!(model[0].source.basis, Basis::Modelled);
        let model = Meters::parse("cpu-model=10-30").unwrap().finish(1.0, 0.25);
        assert_eq!(model[0].joules, 15.0);
        for (bad, word) in [("sun", "allowed"), ("cpu-model=30-10", "30-10"), ("command=", "empty")]
        {
            assert!(Meters::parse(bad).unwrap_err().contains(word), "{bad}");
        }
    }
}
