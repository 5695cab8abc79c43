//! Units as types. The compiler keeps apart address and length, time and duration, power and
//! energy.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// Bytes in a sector: always 512, also if the disk's physical sector is larger.
pub const SECTOR_BYTES: u64 = 512;
/// Bytes in a page.
pub const PAGE_BYTES: u64 = 4096;
/// Sectors in a page.
pub const PAGE_SECTORS: u64 = PAGE_BYTES / SECTOR_BYTES;

macro_rules! integer_unit {
    ($(#[$meta:meta])* $name:ident($inner:ty)) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// Zero of this unit.
            pub const ZERO: Self = Self(0);
            /// The number without its unit.
            pub const fn get(self) -> $inner {
                self.0
            }
        }
    };
}

macro_rules! additive {
    ($name:ident) => {
        impl Add for $name {
            type Output = Self;
            fn add(self, rhs: Self) -> Self {
                Self(self.0 + rhs.0)
            }
        }
        impl AddAssign for $name {
            fn add_assign(&mut self, rhs: Self) {
                self.0 += rhs.0;
            }
        }
        impl Sub for $name {
            type Output = Self;
            fn sub(self, rhs: Self) -> Self {
                Self(self.0 - rhs.0)
            }
        }
        impl SubAssign for $name {
            fn sub_assign(&mut self, rhs: Self) {
                self.0 -= rhs.0;
            }
        }
        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                iter.fold(Self::ZERO, Add::add)
            }
        }
    };
}

integer_unit!(
    /// A logical block address: the index of a 512-byte sector.
    Lba(u64)
);
integer_unit!(
    /// A count of 512-byte sectors.
    Sectors(u64)
);
integer_unit!(
    /// A count of bytes.
    Bytes(u64)
);
integer_unit!(
    /// A point in time: nanoseconds since the start of the trace, the simulation or the server.
    SimTime(u64)
);
integer_unit!(
    /// A span of time in nanoseconds.
    Duration(u64)
);
integer_unit!(
    /// Power in milliwatts.
    Power(u32)
);
integer_unit!(
    /// Energy in picojoules (1 mW for 1 ns), in 128 bits: one year at 10 W is 3e20 pJ, which does
    /// not fit in 64 bits.
    Energy(u128)
);

additive!(Sectors);
additive!(Bytes);
additive!(Duration);
additive!(Energy);

impl Sub for Lba {
    type Output = Sectors;
    fn sub(self, rhs: Self) -> Sectors {
        Sectors(self.0 - rhs.0)
    }
}

impl Add<Sectors> for Lba {
    type Output = Self;
    fn add(self, rhs: Sectors) -> Self {
        Self(self.0 + rhs.0)
    }
}

impl Lba {
    /// Distance between two addresses, without a sign.
    pub const fn distance(self, other: Self) -> Sectors {
        Sectors(self.0.abs_diff(other.0))
    }
}

impl Sectors {
    /// The same length in bytes, at most 2^64 - 1.
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0.saturating_mul(SECTOR_BYTES))
    }
}

impl Bytes {
    /// Number of sectors that hold these bytes, rounded up.
    pub const fn sectors_ceil(self) -> Sectors {
        Sectors(self.0.div_ceil(SECTOR_BYTES))
    }
}

impl Add<Duration> for SimTime {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        Self(self.0 + rhs.0)
    }
}

impl AddAssign<Duration> for SimTime {
    fn add_assign(&mut self, rhs: Duration) {
        self.0 += rhs.0;
    }
}

impl SimTime {
    /// The latest time that can be represented; it means "never".
    pub const MAX: Self = Self(u64::MAX);

    /// Time elapsed since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// Seconds as a float, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Duration {
    /// From whole milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// From whole microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// From milliseconds, the unit of data sheets, rounded to the nearest nanosecond. Negative
    /// numbers and NaN become zero.
    pub fn from_millis_f64(ms: f64) -> Self {
        Self((ms * 1e6).round() as u64)
    }

    /// Seconds as a float, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Milliseconds as a float, for reports.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Mul<Duration> for Power {
    type Output = Energy;
    fn mul(self, rhs: Duration) -> Energy {
        Energy(u128::from(self.0) * u128::from(rhs.0))
    }
}

impl Energy {
    /// Joules as a float, for reports.
    pub fn as_joules_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }
}

impl fmt::Display for Lba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sector {}", self.0)
    }
}

impl fmt::Display for Sectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sectors", self.0)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::format_size(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_of_fs2_formula_is_exact_in_integers() {
        // FS2 (SOSP'05) 4.2: E_A = T_s P_s + (T_r + T_t) P_i with Table 1's 14 W and 8 W.
        let e = Power(14_000) * Duration::from_micros(3_900)
            + Power(8_000) * Duration::from_micros(4_300);
        assert_eq!(e, Energy(14_000 * 3_900_000 + 8_000 * 4_300_000));
        assert!((e.as_joules_f64() - 0.089).abs() < 1e-12);
    }

    #[test]
    fn bytes_are_rounded_up_to_sectors() {
        assert_eq!(Bytes(1000).sectors_ceil(), Sectors(2));
    }

    #[test]
    fn time_never_goes_negative() {
        assert_eq!(SimTime(5).since(SimTime(9)), Duration::ZERO);
        assert_eq!(Duration::from_millis_f64(-1.0), Duration::ZERO);
    }
}
