//! The cost of k requests in one cylinder, in revolutions: section 5.2, Figure 6. Expected values
//! are counted over all configurations of k blocks, in big integers: exact for any geometry,
//! without random draws.
//!
//! All blocks of a rotational position pass the heads at the same time, and the disk reads one of
//! them each time. If the fullest position holds m blocks, its last block comes after m - 1 whole
//! revolutions; if r positions are as full, the last of them decides. So the cost of a
//! configuration depends on m and r alone. With s positions and t tracks there are
//!
//! ```text
//! C(s, r) * C(t, m)^r * [x^(k - r m)] (C(t, 0) + C(t, 1) x + ... + C(t, m - 1) x^(m - 1))^(s - r)
//! ```
//!
//! configurations of them, of C(s t, k) in all. These r positions are uniform: the mean distance
//! from the first to the last is (r - 1)(s + 1) / (r + 1); the mean index of the last, from 1, is r
//! (s + 1) / (r + 1).

use num_bigint::BigUint;

/// Where rotational delay begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// Half a revolution before the first of the fullest positions, whatever lies on the way: the
    /// paper's account.
    #[default]
    Paper,
    /// At a uniform position of arrival, until the last block has been read: a disk's account. If
    /// several positions are as full, the first of them comes sooner than after half a revolution.
    Arrival,
}

/// An exact expected cost in revolutions: a fraction, not in lowest terms.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Exact {
    numerator: BigUint,
    denominator: BigUint,
}

impl Exact {
    /// The value, to about 2^-52.
    fn revolutions(&self) -> f64 {
        let scaled = (&self.numerator << 53u32) / &self.denominator;
        // Costs of real cylinders fit by far; greater ones saturate.
        let digits = scaled.to_u64_digits();
        let value = digits.iter().rev().fold(0.0, |sum, d| sum * 2f64.powi(64) + *d as f64);
        value / 2f64.powi(53)
    }
}

/// Expected costs of 1, 2, 3... requests in a cylinder.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotation {
    positions: u32,
    tracks: u32,
    costs: Vec<f64>,
}

impl Rotation {
    /// For cylinders of `tracks` tracks with `positions` blocks each, up to `most` requests, or up
    /// to the number of blocks. All arguments are at least 1.
    pub fn new(positions: u32, tracks: u32, most: u32, start: Start) -> Self {
        let (positions, tracks) = (positions.max(1), tracks.max(1));
        let most = most.clamp(1, positions.saturating_mul(tracks));
        let costs = exact(positions, tracks, most, start).iter().map(Exact::revolutions).collect();
        Self { positions, tracks, costs }
    }

    /// Blocks of a track.
    pub const fn positions(&self) -> u32 {
        self.positions
    }

    /// Blocks of a cylinder.
    pub const fn blocks(&self) -> u32 {
        self.positions * self.tracks
    }

    /// The greatest number of requests with a counted cost.
    pub fn most(&self) -> u32 {
        self.costs.len() as u32
    }

    /// Expected revolutions for k requests in order of position, with transfer; 0 for none. For
    /// more than [`Self::most`], the cost of that many.
    pub fn ordered(&self, k: u32) -> f64 {
        k.min(self.most()).checked_sub(1).map_or(0.0, |i| self.costs[i as usize])
    }

    /// Expected revolutions in order of arrival: half a revolution for each request, equation 16,
    /// and the transfer.
    pub(super) fn arriving(&self, k: u32) -> f64 {
        f64::from(k) * (0.5 + 1.0 / f64::from(self.positions))
    }
}

/// The exact costs of 1 to `most` requests on `t` tracks of `s` positions.
fn exact(s: u32, t: u32, most: u32, start: Start) -> Vec<Exact> {
    let most = most as usize;
    let mut sums = vec![BigUint::ZERO; most + 1];
    let (of_positions, of_tracks) = (binomials(s + 1), binomials(t));
    for m in 1..=t.min(most as u32) {
        let below = &of_tracks[..m as usize];
        let full = &of_tracks[m as usize];
        // The power, by the number of positions that are less full.
        let mut power = vec![BigUint::from(1u8)];
        let fulls = powers(full, s.min(most as u32 / m));
        for others in 0..s {
            let r = s - others;
            if (r as usize) < fulls.len() {
                // C(s, r) / (r + 1) = C(s + 1, r + 1) / (s + 1): all costs have one
                // denominator.
                let ways = &of_positions[r as usize + 1] * &fulls[r as usize];
                let each = ways * cost(s, m, r, start);
                let from = (r * m) as usize;
                for (sum, p) in sums[from..].iter_mut().zip(&power) {
                    *sum += &each * p;
                }
            }
            if others + 1 < s {
                power = times(&power, below, most + 1);
            }
        }
    }
    let unit = BigUint::from(2 * u64::from(s) * (u64::from(s) + 1));
    let mut ways = BigUint::from(1u8);
    let all = u64::from(s) * u64::from(t);
    let exact = sums.into_iter().enumerate().skip(1).map(|(k, numerator)| {
        ways = &ways * (all - k as u64 + 1) / k as u64;
        Exact { numerator, denominator: &ways * &unit }
    });
    exact.collect()
}

/// Cost of configurations whose fullest `r` positions hold `m` blocks, times 2 s (r + 1).
fn cost(s: u32, m: u32, r: u32, start: Start) -> u64 {
    let (s, m, r) = (u64::from(s), u64::from(m), u64::from(r));
    let whole = 2 * s * (r + 1) * (m - 1);
    match start {
        Start::Paper => s * (r + 1) + whole + 2 * ((r - 1) * (s + 1) + r + 1),
        Start::Arrival => (r + 1) + whole + 2 * r * (s + 1),
    }
}

/// C(n, 0) to C(n, n).
fn binomials(n: u32) -> Vec<BigUint> {
    let mut row = vec![BigUint::from(1u8)];
    for k in 1..=n {
        let last = &row[k as usize - 1];
        row.push(last * (n - k + 1) / k);
    }
    row
}

/// x^0 to x^most.
fn powers(x: &BigUint, most: u32) -> Vec<BigUint> {
    let mut all = vec![BigUint::from(1u8)];
    for i in 0..most as usize {
        all.push(&all[i] * x);
    }
    all
}

/// Product of two polynomials, its first `keep` coefficients.
fn times(a: &[BigUint], b: &[BigUint], keep: usize) -> Vec<BigUint> {
    let mut out = vec![BigUint::ZERO; (a.len() + b.len() - 1).min(keep)];
    for (i, x) in a.iter().enumerate() {
        let room = out.len().saturating_sub(i).min(b.len());
        for (o, y) in out[i.min(keep)..].iter_mut().zip(&b[..room]) {
            *o += x * y;
        }
    }
    out
}

#[cfg(test)]
mod tests;
