//! The values of options as people write them: sizes, shares and durations.

use seekless_block::{Bytes, parse_size};

/// A size with a unit.
pub fn size(text: &str) -> Result<Bytes, String> {
    parse_size(text).map(Bytes)
}

/// Largest modelled RAM. A modelled page takes about 60 bytes of real RAM: a gigabyte in all.
const RAM_MAX: Bytes = Bytes(64 << 30);

/// A size of modelled RAM.
pub fn ram(text: &str) -> Result<Bytes, String> {
    match size(text)? {
        bytes if bytes > RAM_MAX => Err(format!("{text} is more than {RAM_MAX}, the maximum")),
        bytes => Ok(bytes),
    }
}

/// A share: `50%` or `0.5`.
pub fn share(text: &str) -> Result<f64, String> {
    let (digits, factor) = text.strip_suffix('%').map_or((text, 1.0), |d| (d, 0.01));
    match digits.trim().parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&(value * factor)) => Ok(value * factor),
        _ => Err(format!("'{text}' is not a share: expected 0% to 100%, for example 50% or 0.5")),
    }
}

/// A share in whole per cent, rounded up. The rounding of a binary fraction adds no per cent.
pub fn percent(text: &str) -> Result<u8, String> {
    share(text).map(|share| (share * 100.0 - 1e-9).ceil() as u8)
}

/// The longest time, in days: nanoseconds of 64 bits count up to 213,503 days.
const DAYS_MAX: u64 = 200_000;

/// A time with a unit, not zero.
pub fn duration(text: &str) -> Result<std::time::Duration, String> {
    let bad = || {
        format!(
            "'{text}' is not a duration: write 90s, 15m, 1h or 1d; longer than 0, at most {DAYS_MAX}d"
        )
    };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..) {
        Some("ms") => 1,
        Some("s") => 1_000,
        Some("m" | "min") => 60_000,
        Some("h") => 3_600_000,
        Some("d") => 86_400_000,
        _ => return Err(bad()),
    };
    let millis = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit));
    let allowed = 1..=DAYS_MAX * 86_400_000;
    millis.filter(|ms| allowed.contains(ms)).map(std::time::Duration::from_millis).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_as_people_write_them() {
        assert_eq!(share("50%"), Ok(0.5));
        assert_eq!(share("0.25"), Ok(0.25));
        assert_eq!(share("0"), Ok(0.0));
        for bad in ["", "%", "120%", "-1%", "nan", "half", "2"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_duration_fits_nanoseconds() {
        let days = |n: u64| std::time::Duration::from_secs(n * 86_400);
        assert_eq!(duration("5ms"), Ok(std::time::Duration::from_millis(5)));
        assert_eq!(duration("200000d"), Ok(days(200_000)));
        assert!(u64::try_from(days(DAYS_MAX).as_nanos()).is_ok());
        for bad in ["0s", "200001d", "300000d", "18446744073709551615ms", "5"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_whole_per_cent_stays_as_it_is() {
        for p in 0..=100 {
            assert_eq!(percent(&format!("{p}%")), Ok(p));
            assert_eq!(percent(&format!("{}.{:02}", p / 100, p % 100)), Ok(p));
        }
        assert_eq!([percent("0.1%"), percent("7.01%")], [Ok(1), Ok(8)]);
    }
}
