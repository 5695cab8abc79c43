//! The policies for stopping the platters of a drive, as data. [`crate::Drive`] applies them over
//! time.

use std::fmt;
use std::str::FromStr;

use seekless_block::Duration;

use crate::energy::PowerStates;

/// When to stop the platters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpinDown {
    /// Never.
    #[default]
    None,
    /// After this long without work.
    After(Duration),
    /// After a timeout that adapts (Douglis, Krishnan and Bershad, USENIX Mobile and
    /// Location-Independent Computing 1995). The timeout doubles if a spin-up lets a command wait
    /// for more than 5% of the idle time before it; otherwise it halves. It starts at the
    /// break-even time, which alone costs at most twice as much as perfect knowledge of the future
    /// (Karlin and others, 1990). It stays between one eighth and eight times the break-even time.
    Adaptive,
}

const LEAST: Duration = Duration::from_millis(100);
const GREATEST_S: f64 = 86_400.0;
/// Adaptive: a wait of at most this fraction (1/20) of the idle time is acceptable.
const TOLERATED: u64 = 20;
/// Adaptive: maximum factor between the timeout and the break-even time.
const RANGE: u64 = 8;

/// The reason why a drive cannot use a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say the same")]
pub enum SpinDownError {
    #[error(
        "the device has no platters, or it has two arms; only a disk with one arm can stop its platters"
    )]
    Never,
    #[error(
        "this disk's description has no values for spinning down; add power.standby_w, power.spin_up_s, and power.spin_up_w or power.spin_up_j"
    )]
    NoStandby,
    #[error(
        "this disk saves nothing by spinning down: power.standby_w is not below its idle power"
    )]
    NoGain,
}

impl SpinDown {
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

    /// The new timeout after a spin-up: a command waited for `wait`, after `idle` without work.
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

impl FromStr for SpinDown {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "adaptive" => Ok(Self::Adaptive),
            _ => text
                .parse::<f64>()
                .ok()
                .filter(|s| (LEAST.as_secs_f64()..=GREATEST_S).contains(s))
                .map(|s| Self::After(Duration::from_millis_f64(s * 1e3)))
                .ok_or_else(|| {
                    let choice = "none, adaptive, or seconds without work from 0.1 to 86400";
                    format!("'{text}' is not a spin-down policy; write {choice}")
                }),
        }
    }
}
