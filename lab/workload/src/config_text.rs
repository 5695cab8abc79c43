//! Positions of faults in texts that people write, and sizes with units.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde::{Deserialize, Deserializer, de};
use toml::Spanned;

/// A text that cannot be used, with the position of the fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {what}")]
pub struct TextError {
    /// The caller's name for the text.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The fault and the allowed values.
    pub what: String,
}

/// What is read from a text.
pub(crate) type Parsed<T> = Result<T, TextError>;

fn at(file: &str, text: &str, offset: usize, what: impl Into<String>) -> TextError {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &text[..offset];
    let start = before.rfind('\n').map_or(0, |i| i + 1);
    TextError {
        file: file.to_owned(),
        line: 1 + before.bytes().filter(|&b| b == b'\n').count(),
        column: 1 + before[start..].chars().count(),
        what: what.into(),
    }
}

/// A text with its name. Errors of its fields have a position.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConfigText<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl ConfigText<'_> {
    pub(crate) fn error(self, offset: usize, what: impl Into<String>) -> TextError {
        at(self.file, self.text, offset, what)
    }

    /// The same as a result.
    pub(crate) fn refuse<T>(self, offset: usize, what: impl Into<String>) -> Parsed<T> {
        Err(self.error(offset, what))
    }

    /// The value of a field, which must be in this range.
    pub(crate) fn within<T: PartialOrd + Display>(
        self,
        field: &str,
        value: Spanned<T>,
        allowed: RangeInclusive<T>,
    ) -> Parsed<T> {
        let (offset, value) = (value.span().start, value.into_inner());
        if allowed.contains(&value) {
            return Ok(value);
        }
        let (low, high) = allowed.into_inner();
        let what = format!("{field} = {value} is out of range; allowed: {low} to {high}");
        self.refuse(offset, what)
    }

    /// The same for an optional field.
    pub(crate) fn within_or<T: PartialOrd + Display>(
        self,
        field: &str,
        value: Option<Spanned<T>>,
        default: T,
        allowed: RangeInclusive<T>,
    ) -> Parsed<T> {
        value.map_or(Ok(default), |value| self.within(field, value, allowed))
    }

    /// Refuses missing and unknown fields. `common` lists fields that every such table has.
    pub(crate) fn check_fields(
        self,
        offset: usize,
        table: &str,
        given: &[(&str, bool)],
        (must, may): (&[&str], &[&str]),
        common: &str,
    ) -> Parsed<()> {
        let all = || must.iter().chain(may).copied().collect::<Vec<_>>().join(", ");
        for (field, is_given) in given {
            let what = if *is_given && !must.contains(field) && !may.contains(field) {
                format!("{table} has no field '{field}'; allowed: {common}, {}", all())
            } else if !is_given && must.contains(field) {
                format!("{table} needs '{field}'; its fields: {common}, {}", all())
            } else {
                continue;
            };
            return self.refuse(offset, what);
        }
        Ok(())
    }
}

/// Parses TOML; errors give the position. `field` can add the name of the field.
pub(crate) fn toml<T: de::DeserializeOwned>(file: &str, text: &str) -> Parsed<T> {
    toml::from_str(text).map_err(|e| {
        let offset = e.span().map_or(0, |s| s.start);
        at(file, text, offset, e.message().replace('\n', " "))
    })
}

/// A number of bytes: a whole number, or a text such as `16KiB`, `1m`, `10 MiB`; k, m, g, t are
/// powers of 1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Amount(pub u64);

impl Amount {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let clean = text.trim();
        let bad = || {
            format!(
                "'{clean}' is not a size; write a whole number with B, KiB, MiB, GiB or TiB, or k, m, g, t (powers of 1024)"
            )
        };
        let end = clean.find(|c: char| !c.is_ascii_digit()).unwrap_or(clean.len());
        let number: u64 = clean[..end].parse().map_err(|_| bad())?;
        let shift = match clean[end..].trim().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kib" | "kb" => 10,
            "m" | "mib" | "mb" => 20,
            "g" | "gib" | "gb" => 30,
            "t" | "tib" | "tb" => 40,
            _ => return Err(bad()),
        };
        let bytes = number.checked_mul(1 << shift).filter(|b| *b <= i64::MAX as u64);
        bytes.map(Self).ok_or_else(|| format!("'{clean}' is larger than any file can be"))
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Amount;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a size: bytes as a whole number, or text such as \"16KiB\"")
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Amount, E> {
                u64::try_from(v).map(Amount).map_err(|_| E::custom("a size is not negative"))
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<Amount, E> {
                Ok(Amount(v))
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<Amount, E> {
                Amount::parse(v).map_err(E::custom)
            }
        }
        d.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_sizes_are_parsed() {
        for (text, bytes) in [("16KiB", 16 << 10), ("1m", 1 << 20), ("2 GiB", 2 << 30), ("7", 7)] {
            assert_eq!(Amount::parse(text), Ok(Amount(bytes)), "{text}");
        }
        for text in ["", "k", "-1", "1.5m", "9999999999t", "1x"] {
            assert!(Amount::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn positions_are_lines_and_characters() {
        let e = at("f", "a\nöb", 4, "x");
        assert_eq!((e.line, e.column, e.to_string().as_str()), (2, 2, "f:2:2: x"));
        assert_eq!(at("f", "ö", 1, "x").column, 1);
    }
}
