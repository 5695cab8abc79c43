//! Formats numbers for people: significant digits, a fitting prefix, and the unit.

/// The unit of a number. Callers always give values in the base unit named here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// A number without unit, for example a ratio.
    #[default]
    Number,
    /// A count; large counts are grouped in thousands.
    Count,
    /// Bytes, shown in powers of 1024.
    Bytes,
    /// Seconds, shown from ns to h.
    Seconds,
    /// A fraction of one, shown in percent.
    Share,
    /// Joules, with SI prefixes.
    Joules,
    /// Watts, with SI prefixes.
    Watts,
    /// Any other unit, by its name ("requests/s", "sectors"), with the prefixes k, M, G.
    Other(String),
}

/// The text for a number that is missing or not finite.
pub(crate) const MISSING: &str = "–";

/// Larger than any quantity of a disk. Larger numbers could overflow in axis arithmetic.
const HUGE: f64 = 1e150;

/// The number, if it can be drawn.
pub(crate) fn finite(v: f64) -> Option<f64> {
    (v.is_finite() && v.abs() < HUGE).then_some(v)
}

impl Unit {
    /// The divisor and the name of the unit if the largest value is `max`.
    pub(crate) fn scale(&self, max: f64) -> (f64, String) {
        let max = max.abs();
        let pick = |steps: &[(f64, &str)]| {
            let fits = steps.iter().rev().find(|(factor, _)| max >= *factor * 0.9995);
            let &(factor, name) = fits.unwrap_or(if max == 0.0 {
                steps.iter().find(|(f, _)| *f == 1.0).unwrap_or(&steps[0])
            } else {
                &steps[0]
            });
            (factor, name.to_owned())
        };
        match self {
            Self::Number | Self::Count => (1.0, String::new()),
            Self::Bytes => pick(&[
                (1.0, "B"),
                (1024.0, "KiB"),
                (1_048_576.0, "MiB"),
                (1_073_741_824.0, "GiB"),
                (1_099_511_627_776.0, "TiB"),
            ]),
            Self::Seconds if max >= 36_000.0 => (3_600.0, "h".to_owned()),
            Self::Seconds => pick(&[(1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s")]),
            Self::Share => (0.01, "%".to_owned()),
            Self::Joules => {
                pick(&[(1e-6, "µJ"), (1e-3, "mJ"), (1.0, "J"), (1e3, "kJ"), (1e6, "MJ")])
            }
            Self::Watts => pick(&[(1e-6, "µW"), (1e-3, "mW"), (1.0, "W"), (1e3, "kW")]),
            Self::Other(name) => {
                let (factor, prefix) = if max >= 1e9 {
                    (1e9, "G")
                } else if max >= 1e6 {
                    (1e6, "M")
                } else if max >= 1e4 {
                    (1e3, "k")
                } else {
                    (1.0, "")
                };
                let space = if prefix.is_empty() { "" } else { " " };
                (factor, format!("{prefix}{space}{name}"))
            }
        }
    }

    /// The value with its unit and `digits` significant digits: `1.23 ms`, `16 MiB`, `34.5 %`.
    /// Digits before the decimal point are never rounded. A value that is not finite becomes `–`.
    pub fn format(&self, value: f64, digits: u8) -> String {
        if finite(value).is_none() {
            return MISSING.to_owned();
        }
        let (factor, name) = self.scale(value);
        let scaled = value / factor;
        let text = match self {
            Self::Count => grouped(scaled, if scaled.fract() == 0.0 { 0 } else { 1 }),
            _ => significant(scaled, digits),
        };
        if name.is_empty() { text } else { format!("{text} {name}") }
    }

    /// A count, with thousands grouped.
    pub fn count(n: u64) -> String {
        Self::Count.format(n as f64, 3)
    }

    /// A number of bytes, with three digits.
    pub fn bytes(n: u64) -> String {
        Self::Bytes.format(n as f64, 3)
    }

    /// A name with the base unit, for CSV headers.
    pub(crate) fn of(&self, name: &str) -> String {
        let base = self.base();
        if base.is_empty() { name.to_owned() } else { format!("{name} [{base}]") }
    }

    /// The name of the base unit, for CSV headers and scripts.
    pub(crate) fn base(&self) -> &str {
        match self {
            Self::Number => "",
            Self::Count => "count",
            Self::Bytes => "bytes",
            Self::Seconds => "s",
            Self::Share => "share",
            Self::Joules => "J",
            Self::Watts => "W",
            Self::Other(name) => name,
        }
    }
}

/// Number of decimals that show `value` with `digits` significant digits.
pub(crate) fn decimals(value: f64, digits: u8) -> usize {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    let lead = value.abs().log10().floor() as i32;
    (i32::from(digits) - 1 - lead).clamp(0, 12) as usize
}

/// A number with `digits` significant digits. A whole number has no zeroes after the decimal point.
pub(crate) fn significant(value: f64, digits: u8) -> String {
    if value.abs() >= 1e15 || (value != 0.0 && value.abs() < 1e-9) {
        return format!("{value:.*e}", usize::from(digits.saturating_sub(1)));
    }
    let places = if value.fract() == 0.0 { 0 } else { decimals(value, digits) };
    minus(format!("{value:.places$}"))
}

/// A number with `places` decimals, in groups of three digits.
pub(crate) fn grouped(value: f64, places: usize) -> String {
    if value.abs() >= 1e15 {
        return significant(value, 3);
    }
    let text = format!("{:.places$}", value.abs());
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), ""), |(w, r)| (w, r));
    let mut out = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    if !rest.is_empty() {
        out.push('.');
        out.push_str(rest);
    }
    let zero = out.chars().all(|c| matches!(c, '0' | '.'));
    if value < 0.0 && !zero { format!("−{out}") } else { out }
}

/// Replaces the hyphen by a minus sign; zero gets no sign.
fn minus(text: String) -> String {
    match text.strip_prefix('-') {
        None => text,
        Some(rest) if rest.chars().all(|c| matches!(c, '0' | '.')) => rest.to_owned(),
        Some(rest) => format!("−{rest}"),
    }
}

/// The change from `base` to `value` in percent, with its sign; `None` if a comparison is not
/// possible.
pub(crate) fn change(value: f64, base: f64) -> Option<(f64, String)> {
    let (value, base) = (finite(value)?, finite(base)?);
    if base == 0.0 {
        return (value == 0.0).then(|| (0.0, "±0 %".to_owned()));
    }
    let share = finite((value - base) / base.abs())?;
    // A change of nearly 100% keeps a decimal, because 100% means that nothing is left.
    let near_all = share.abs() >= 0.995 && share.abs() < 1.0;
    let places = if share.abs() < 0.0995 || near_all { 1 } else { 0 };
    let text = grouped(share.abs() * 100.0, places);
    if text.chars().all(|c| matches!(c, '0' | '.')) {
        return Some((0.0, "±0 %".to_owned()));
    }
    let sign = if share > 0.0 { '+' } else { '−' };
    Some((share, format!("{sign}{text} %")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_a_fitting_prefix() {
        for (unit, value, want) in [
            (Unit::Seconds, 0.001_234, "1.23 ms"),
            (Unit::Seconds, 4.5e-7, "450 ns"),
            (Unit::Seconds, 0.0, "0 s"),
            (Unit::Seconds, 512.0, "512 s"),
            (Unit::Seconds, 72_000.0, "20 h"),
            (Unit::Bytes, 16.0 * 1048576.0, "16 MiB"),
            (Unit::Bytes, 1536.0, "1.50 KiB"),
            (Unit::Share, 0.345, "34.5 %"),
            (Unit::Joules, 1234.5, "1.23 kJ"),
            (Unit::Count, 1_234_567.0, "1,234,567"),
            (Unit::Number, -2.5, "−2.50"),
            (Unit::Other("requests/s".into()), 1.5e6, "1.50 M requests/s"),
            (Unit::Seconds, f64::NAN, "–"),
            (Unit::Bytes, f64::INFINITY, "–"),
        ] {
            assert_eq!(unit.format(value, 3), want, "{unit:?} {value}");
        }
    }

    #[test]
    fn a_change_has_a_sign_and_a_base() {
        assert_eq!(change(66.0, 100.0), Some((-0.34, "−34 %".into())));
        assert_eq!(change(103.0, 100.0), Some((0.03, "+3.0 %".into())));
        assert_eq!(change(100.0, 100.0), Some((0.0, "±0 %".into())));
        assert_eq!(change(0.004, 3.0), Some((-0.9986666666666667, "−99.9 %".into())));
        assert_eq!(change(5.0, 0.0), None);
        assert_eq!(change(f64::NAN, 1.0), None);
    }
}
