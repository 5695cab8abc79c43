//! What work costs in power. Every number says whether it was measured or comes from a model, and by what; what the
//! same machine takes at rest is kept apart.

mod models;
mod readers;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use models::CpuModel;
pub use readers::{Battery, CommandMeter, Hwmon, Rapl};

/// Where a number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// An instrument's reading.
    Measured,
    /// Computed from something else that was measured.
    Modelled,
}

/// What a meter reads, and by what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Such as `rapl:package-0`.
    pub name: String,
    /// Measured or modelled.
    pub basis: Basis,
    /// The instrument or the model, in words.
    pub by: String,
}

/// A reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// Joules since some time; never fewer than before.
    Joules(f64),
    /// Watts, just now.
    Watts(f64),
}

/// Something that tells power or energy.
pub trait Meter: Send {
    /// What it reads.
    fn source(&self) -> Source;
    /// Reads it. None where it says nothing at present.
    fn read(&mut self) -> Option<Reading>;
}

/// Energy of a run by one source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// By what.
    #[serde(flatten)]
    pub source: Source,
    /// Over the time measured, all of it.
    pub joules: f64,
    /// Of these, what rest would have taken; none where it is not known.
    pub idle_joules: Option<f64>,
    /// Mean power.
    pub watts: f64,
}

impl Energy {
    /// From a source, joules over some seconds, and the watts at rest.
    #[must_use]
    pub fn new(source: Source, joules: f64, seconds: f64, idle_watts: Option<f64>) -> Self {
        let idle_joules = idle_watts.map(|w| w * seconds);
        Self { source, joules, idle_joules, watts: joules / seconds.max(1e-9) }
    }

    /// In words, with operations for each joule.
    #[must_use]
    pub fn told(&self, operations: u64) -> String {
        let basis = match self.source.basis {
            Basis::Measured => "measured",
            Basis::Modelled => "modelled",
        };
        let idle =
            self.idle_joules.map_or(String::new(), |j| format!(", of which {j:.1} J at rest"));
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

/// A meter and what it has told.
struct Book {
    meter: Box<dyn Meter>,
    /// Joules at the start, for counters; joules so far, for gauges.
    begin: Option<f64>,
    joules: f64,
    last: Option<(f64, f64)>,
    idle_watts: Option<f64>,
}

impl Book {
    fn new(meter: Box<dyn Meter>) -> Self {
        Self { meter, begin: None, joules: 0.0, last: None, idle_watts: None }
    }

    fn reset(&mut self) {
        (self.begin, self.joules, self.last) = (None, 0.0, None);
    }

    /// Takes a reading at `at` seconds: counters by difference, gauges by the trapezoidal rule.
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
    books: Vec<Book>,
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

/// How often meters are read.
const EVERY_S: f64 = 0.2;

impl Meters {
    /// These, and the model of the processors if there is one.
    #[must_use]
    pub fn new(meters: Vec<Box<dyn Meter>>, cpu: Option<CpuModel>) -> Self {
        Self { books: meters.into_iter().map(Book::new).collect(), cpu, next_s: 0.0 }
    }

    /// Those that a list names: `auto`, `none`, `rapl`, `hwmon`, `battery`, `cpu-model`, `cpu-model=IDLE-PEAK`,
    /// `command=COMMAND`, with commas between. `auto` is what there is of RAPL, hwmon and batteries, the first
    /// that tells anything, else the model.
    ///
    /// # Errors
    /// What cannot be, or is not there.
    pub fn parse(list: &str) -> Result<Self, String> {
        let (mut meters, mut cpu): (Vec<Box<dyn Meter>>, _) = (Vec::new(), None);
        for word in list.split(',').map(str::trim) {
            let found = match word {
                "none" => continue,
                "auto" => {
                    let found = readers::auto();
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
                "rapl" => readers::boxed(Rapl::all()),
                "hwmon" => readers::boxed(Hwmon::all()),
                "battery" => readers::boxed(Battery::all()),
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
                            "'{word}' is no power meter; allowed: auto, none, rapl, hwmon, battery, cpu-model, \
                             cpu-model=IDLE-PEAK, command=COMMAND"
                        ));
                    }
                },
            };
            if found.is_empty() {
                return Err(format!("this host has nothing that '{word}' could read"));
            }
            meters.extend(found);
        }
        Ok(Self::new(meters, cpu))
    }

    /// Takes the power at rest, for so long: nothing should run meanwhile.
    pub fn measure_idle(&mut self, time: Duration, stop: &AtomicBool) {
        let begin = Instant::now();
        self.books.iter_mut().for_each(Book::reset);
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

    /// Looks at the meters; to be called several times a second, first at zero.
    pub fn sample(&mut self, at: Duration) {
        let at = at.as_secs_f64();
        if at == 0.0 {
            self.books.iter_mut().for_each(Book::reset);
        } else if at < self.next_s {
            return;
        }
        self.next_s = at + EVERY_S;
        self.books.iter_mut().for_each(|b| b.sample(at));
    }

    /// The energy of a run that took `seconds` with the processors `busy`, a share. Meters that told nothing are
    /// left out.
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
        assert_eq!(measured(vec![]), [], "what tells nothing is left out");
    }

    #[test]
    fn rest_is_told_apart() {
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
