//! Layouts by name, as on the command line: `perfect`, `lazy:8%`, `buckets:3+drift:20%`.

use std::fmt;
use std::str::FromStr;

use seekless_disk::clustering::Access;

/// One layout of section 4.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Base {
    Random,
    Perfect,
    Normal(f64),
    Concentrated(f64),
    Buckets(u32),
    Lazy(f64),
}

/// A layout, and the share of the accesses that has drifted away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    base: Base,
    drift: Option<f64>,
}

impl Layout {
    pub(super) const RANDOM: Self = Self { base: Base::Random, drift: None };

    /// Its distribution of accesses over this many cylinders.
    pub(super) fn access(&self, cylinders: u32) -> Access {
        let perfect = || Access::perfect(cylinders);
        let base = match self.base {
            Base::Random => Access::random(cylinders),
            Base::Perfect => perfect(),
            Base::Normal(sigma) => Access::normal(cylinders, sigma),
            Base::Concentrated(k) => Access::concentrated(cylinders, k),
            Base::Buckets(b) => perfect().in_buckets(b),
            Base::Lazy(k) => perfect().lazily(k),
        };
        self.drift.map_or(base.clone(), |delta| base.drifted(delta))
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |x: f64| format!("{}%", (x * 1e6).round() / 1e4);
        match self.base {
            Base::Random => f.write_str("random")?,
            Base::Perfect => f.write_str("perfect")?,
            Base::Normal(s) => write!(f, "normal:{}", percent(s))?,
            Base::Concentrated(k) => write!(f, "concentrated:{}", percent(k))?,
            Base::Buckets(b) => write!(f, "buckets:{b}")?,
            Base::Lazy(k) => write!(f, "lazy:{}", percent(k))?,
        }
        self.drift.map_or(Ok(()), |d| write!(f, "+drift:{}", percent(d)))
    }
}

impl FromStr for Layout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |why: &str| {
            format!(
                "'{text}' is not a layout: {why}; write random, perfect, normal:SHARE, concentrated:SHARE, buckets:N or lazy:SHARE, followed by +drift:SHARE if accesses drift"
            )
        };
        let share = |s: &str| {
            let (digits, factor) = s.strip_suffix('%').map_or((s, 1.0), |d| (d, 0.01));
            let value = digits.parse::<f64>().map(|v| v * factor);
            value
                .ok()
                .filter(|v| (0.0..=1.0).contains(v))
                .ok_or_else(|| bad(&format!("'{s}' is not a share between 0% and 100%")))
        };
        let (base, drift) = match text.split_once('+') {
            None => (text, None),
            Some((base, drift)) => match drift.strip_prefix("drift:") {
                Some(d) => (base, Some(share(d)?)),
                None => return Err(bad("only drift:SHARE may follow the plus")),
            },
        };
        let base = match base.split_once(':') {
            None if base == "random" => Base::Random,
            None if base == "perfect" => Base::Perfect,
            // The paper's name for this layout.
            None if base == "drift" => {
                return Err(bad("name the layout that drifts, as in perfect+drift:20%"));
            }
            Some(("normal", s)) => Base::Normal(share(s)?),
            Some(("concentrated", s)) => Base::Concentrated(share(s)?),
            Some(("lazy", s)) => Base::Lazy(share(s)?),
            Some(("buckets", n)) => match n.parse() {
                Ok(n @ 0..=31) => Base::Buckets(n),
                _ => return Err(bad("buckets are a number from 0 to 31")),
            },
            _ => return Err(bad("the name is not known")),
        };
        Ok(Self { base, drift })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_print_alike() {
        for text in [
            "random",
            "perfect",
            "normal:3%",
            "concentrated:10%",
            "buckets:3",
            "lazy:0.5%",
            "buckets:3+drift:20%",
            "lazy:8%+drift:30%",
        ] {
            let layout: Layout = text.parse().unwrap();
            assert_eq!(layout.to_string(), text);
            assert_eq!(layout.access(100).shares().len(), 100);
        }
        assert_eq!("lazy:0.08".parse::<Layout>().unwrap().to_string(), "lazy:8%");
        for bad in
            ["", "best", "lazy", "lazy:120%", "buckets:99", "perfect+lazy:3%", "normal:x", "drift"]
        {
            assert!(bad.parse::<Layout>().unwrap_err().contains("+drift:SHARE"), "{bad}");
        }
    }
}
