//! Parses and formats sizes such as `64KiB`, `1.5GB` and `4096`.

const UNITS: [(&str, u64); 13] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("b", 1),
];

/// Parses a size in bytes: digits with an optional fraction and an optional unit, in upper or lower
/// case. Units are KiB MiB GiB TiB, KB MB GB TB, and the letters K M G T for powers of 1024.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let bad = || {
        format!(
            "'{text}' is not a size; write bytes (4096), or a number with KiB, MiB, GiB, TiB (powers of 1024) or KB, MB, GB, TB (powers of 1000)"
        )
    };
    let t = text.trim().to_ascii_lowercase();
    let (digits, unit) = UNITS
        .iter()
        .find_map(|&(name, unit)| t.strip_suffix(name).map(|d| (d.trim_end(), unit)))
        .unwrap_or((t.as_str(), 1));
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(bad());
    }
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(unit).ok_or_else(bad);
    }
    let value = digits.parse::<f64>().map_err(|_| bad())? * unit as f64;
    if value.is_finite() && value < u64::MAX as f64 { Ok(value.round() as u64) } else { Err(bad()) }
}

/// Formats bytes for people: in the largest binary unit that gives at least 1, with at most one
/// decimal.
pub fn format_size(bytes: u64) -> String {
    for (name, unit) in [("TiB", 1u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)]
    {
        if bytes >= unit {
            return if bytes.is_multiple_of(unit) {
                format!("{} {name}", bytes / unit)
            } else {
                format!("{:.1} {name}", bytes as f64 / unit as f64)
            };
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_sizes_are_parsed() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64KiB", 65_536),
            ("64 kib", 65_536),
            ("1.5GiB", 3 << 29),
            ("2MB", 2_000_000),
            ("16M", 16 << 20),
            ("512B", 512),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "KiB", "-1", "1e9", "1..2", "nan", "99999999999999999999", "9999999TiBB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert!(parse_size("99999999999 TiB").is_err());
    }

    #[test]
    fn formatted_sizes_can_be_parsed() {
        for b in [0, 512, 4096, 65_536, 16 << 20, 256 << 20, 3 << 30, 5 << 40] {
            assert_eq!(parse_size(&format_size(b)), Ok(b));
        }
    }
}
