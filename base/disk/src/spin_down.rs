//! When a drive stops its platters: the policies, as data. Knows no time of day; [`crate::Drive`] does.

use std::fmt;
use std::str::FromStr;

use seekless_block::Duration;

use crate::energy::PowerStates;

/// When the platters are stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpinDown {
    /// Never.
    #[default]
    None,
    /// After this long without work.
    After(Duration),
    /// After a time that adapts (Douglis, Krishnan and Bershad, USENIX Mobile and Location-Independent Computing 1995):
    /// it doubles when a spin-up makes a command wait for more than 5% of the idle time before it, and halves when not.
    /// It starts at the break-even time, which by itself costs at most twice what foresight would (Karlin and others,
    /// 1990), and stays within an eighth and eight times of it.
    Adaptive,
}

/// Least timeout.
const LEAST: Duration = Duration::from_millis(100);
/// Greatest timeout, in seconds.
const GREATEST_S: f64 = 86_400.0;
/// Adaptive: one in so many parts of the idle time may be waited for without regret.
const TOLERATED: u64 = 20;
/// Adaptive: how far the timeout may leave the break-even time, as a factor.
const RANGE: u64 = 8;

/// Why a drive cannot follow a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpinDownError {
    /// It is of a kind that never stops.
    #[error("it has no platters, or two arms over them: only a disk with one arm is stopped")]
    Never,
    /// The description lacks something.
    #[error(
        "this disk's description does not say how it spins down: it needs power.standby_w, power.spin_up_s, and power.spin_up_w or power.spin_up_j"
    )]
    NoStandby,
    /// Standby saves nothing.
    #[error(
        "this disk saves nothing by spinning down: power.standby_w is not below what it takes idling"
    )]
    NoGain,
}

impl SpinDown {
    /// The timeout to begin with.
    pub(crate) fn timeout(self, power: &PowerStates) -> Result<Option<Duration>, SpinDownError> {
        let standby = power.standby.ok_or(SpinDownError::NoStandby);
        match self {
            Self::None => Ok(None),
            Self::After(time) => standby.map(|_| Some(time.max(LEAST))),
            Self::Adaptive => {
                standby?;
                let even = power.break_even().ok_or(SpinDownError::NoGain)?;
                Ok(Some(even.max(LEAST)))
            }
        }
    }

    /// The timeout after a spin-up that was waited for so long after so long without work.
    pub(crate) fn adapted(
        self,
        power: &PowerStates,
        timeout: Duration,
        waited: Duration,
        idle: Duration,
    ) -> Duration {
        let (Self::Adaptive, Some(even)) = (self, power.break_even()) else { return timeout };
        let even = even.max(LEAST);
        if waited.0.saturating_mul(TOLERATED) > idle.0 {
            Duration((timeout.0 * 2).min(even.0.saturating_mul(RANGE)))
        } else {
            Duration((timeout.0 / 2).max(even.0 / RANGE)).max(LEAST)
        }
    }
}

impl fmt::Display for SpinDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::After(time) => write!(f, "{}", time.as_secs_f64()),
            Self::Adaptive => f.write_str("adaptive"),
        }
    }
}

/// Not a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no spin-down policy: write none, adaptive, or seconds without work from 0.1 to 86400"
)]
pub struct ParseSpinDownError(pub String);

impl FromStr for SpinDown {
    type Err = ParseSpinDownError;
    fn from_str(text: &str) -> Result<Self, ParseSpinDownError> {
        match text {
            "none" => Ok(Self::None),
            "adaptive" => Ok(Self::Adaptive),
            _ => text
                .parse::<f64>()
                .ok()
                .filter(|s| (LEAST.as_secs_f64()..=GREATEST_S).contains(s))
                .map(|s| Self::After(Duration::from_millis_f64(s * 1e3)))
                .ok_or_else(|| ParseSpinDownError(text.to_owned())),
        }
    }
}
