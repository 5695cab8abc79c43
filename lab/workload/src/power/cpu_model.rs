//! Models of power: the power of a whole machine from the use of its processors.

use serde::{Deserialize, Serialize};

use super::{Basis, Energy, Source};

/// A machine needs `idle` watts without load and `peak` watts with fully used processors; between
/// them the power is linear.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CpuModel {
    /// Idle power in W.
    pub idle: f64,
    /// Peak power in W.
    pub peak: f64,
}

impl Default for CpuModel {
    /// The server of Sehgal, Tarasov and Zadok (FAST 2010, section 4): 214 to 279 W.
    fn default() -> Self {
        Self { idle: 214.0, peak: 279.0 }
    }
}

impl CpuModel {
    /// Parses `IDLE-PEAK`, in W.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let watts = |t: &str| t.trim().parse().ok().filter(|w: &f64| (0.0..=100_000.0).contains(w));
        let pair = text.split_once('-').and_then(|(a, b)| Some((watts(a)?, watts(b)?)));
        match pair {
            Some((idle, peak)) if idle <= peak => Ok(Self { idle, peak }),
            _ => Err(format!(
                "'{text}' is not a power range; write IDLE-PEAK in W, for example 214-279"
            )),
        }
    }

    /// Energy of `seconds` with the processors `busy`, a fraction of all their time.
    pub(super) fn energy(&self, seconds: f64, busy: f64) -> Energy {
        let watts = self.idle + (self.peak - self.idle) * busy.clamp(0.0, 1.0);
        let by = format!("processor use, between {} and {} W", self.idle, self.peak);
        let source = Source { name: "machine".to_owned(), basis: Basis::Modelled, by };
        Energy::new(source, watts * seconds, seconds, Some(self.idle))
    }
}
