//! Distance and time of the arm's movements under a distribution, one request at a time: equations
//! 10 to 14.

use super::Access;
use crate::disk::Disk;

/// Above this number of cylinders, distances are convolved by a Fourier transform.
const DIRECT: usize = 4096;

/// The properties of a disk that determine the time of an access, if all cylinders are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// Milliseconds for each distance in cylinders; the first is 0.
    curve: Vec<f64>,
    tracks: u32,
    /// Sectors of a track; the mean over all tracks.
    sectors: f64,
    turn_ms: f64,
}

/// Means over accesses, one at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Light {
    /// Cylinders crossed.
    pub distance: f64,
    /// Seek time from access to access: equation 11.
    pub seek_ms: f64,
    /// Seek time if the arm returns to the middle each time: equation 12.
    pub from_middle_ms: f64,
    /// Half a revolution.
    pub rotation_ms: f64,
    /// Transfer of the block.
    pub transfer_ms: f64,
    /// Share of the time spent transferring: equation 13.
    pub utilization: f64,
}

impl Arm {
    /// The paper's disk, with the seek curve of equation 14: 5 ms + 0.5 ms * sqrt(distance).
    pub fn paper(cylinders: u32, tracks: u32, sectors: u32, rpm: f64) -> Self {
        let ms = |d: u32| if d == 0 { 0.0 } else { 5.0 + 0.5 * f64::from(d).sqrt() };
        Self {
            curve: (0..cylinders.max(1)).map(ms).collect(),
            tracks: tracks.max(1),
            sectors: f64::from(sectors.max(1)),
            turn_ms: 60_000.0 / rpm,
        }
    }

    /// A modelled disk, with the mean number of sectors per track. Head switches and skew are left
    /// out, as in the paper.
    pub fn of(disk: &Disk) -> Self {
        let geometry = disk.geometry();
        let (cylinders, heads) = (geometry.cylinders().max(1), geometry.heads().max(1));
        let tracks = f64::from(cylinders) * f64::from(heads);
        let sectors = geometry.capacity().0 as f64 / tracks;
        let ms = |d: u32| {
            // Some curves use the distance in sectors.
            let logical = (f64::from(d) * f64::from(heads) * sectors) as u64;
            disk.curve().time(d, logical).as_millis_f64()
        };
        Self {
            curve: (0..cylinders).map(ms).collect(),
            tracks: heads,
            sectors,
            turn_ms: disk.spindle().revolution().as_millis_f64(),
        }
    }

    /// Number of cylinders.
    pub fn cylinders(&self) -> u32 {
        self.curve.len() as u32
    }

    /// Tracks of a cylinder.
    pub const fn tracks(&self) -> u32 {
        self.tracks
    }

    /// Number of whole blocks of `block_sectors` on a track; at least one.
    pub fn blocks_per_track(&self, block_sectors: u32) -> u32 {
        (self.sectors / f64::from(block_sectors.max(1))).floor().max(1.0) as u32
    }

    /// Milliseconds of a revolution.
    pub const fn turn_ms(&self) -> f64 {
        self.turn_ms
    }

    /// Milliseconds to transfer a block of `block_sectors`.
    pub fn transfer_ms(&self, block_sectors: u32) -> f64 {
        self.turn_ms * f64::from(block_sectors) / self.sectors
    }

    /// Milliseconds to move by `distance` cylinders, C(d).
    pub fn seek_ms(&self, distance: u32) -> f64 {
        self.curve[(distance as usize).min(self.curve.len() - 1)]
    }

    /// Means over accesses of blocks of `block_sectors`, with the cylinders of `access`. If the
    /// numbers of cylinders differ, only the common cylinders count.
    pub fn light(&self, access: &Access, block_sectors: u32) -> Light {
        let f = access.shares();
        let pairs = distances(&f[..f.len().min(self.curve.len())]);
        let sum = |of: &dyn Fn(usize) -> f64| -> f64 {
            pairs.iter().enumerate().map(|(d, p)| p * of(d)).sum()
        };
        let middle = (f.len() as f64 - 1.0) / 2.0;
        let home = |(i, p): (usize, &f64)| {
            // With an even number of cylinders, either of the two middle ones is right.
            p * self.seek_ms((i as f64 - middle).abs().floor() as u32)
        };
        let (seek_ms, rotation_ms) = (sum(&|d| self.curve[d]), self.turn_ms / 2.0);
        let transfer_ms = self.transfer_ms(block_sectors);
        Light {
            distance: sum(&|d| d as f64),
            seek_ms,
            from_middle_ms: f.iter().enumerate().map(home).sum(),
            rotation_ms,
            transfer_ms,
            utilization: transfer_ms / (transfer_ms + rotation_ms + seek_ms),
        }
    }
}

/// The probability of each distance between two independent accesses: the inner sum of equation 11,
/// doubled except for distance 0.
fn distances(f: &[f64]) -> Vec<f64> {
    if f.len() > DIRECT {
        return convolved(f);
    }
    let apart = |d: usize| {
        let sum: f64 = f.iter().zip(&f[d..]).map(|(a, b)| a * b).sum();
        if d == 0 { sum } else { 2.0 * sum }
    };
    (0..f.len()).map(apart).collect()
}

/// The same in n log n: the inverse transform of the transform's squared magnitude.
fn convolved(f: &[f64]) -> Vec<f64> {
    let n = (2 * f.len()).next_power_of_two();
    let mut x: Vec<(f64, f64)> = f.iter().map(|p| (*p, 0.0)).collect();
    x.resize(n, (0.0, 0.0));
    transform(&mut x);
    x.iter_mut().for_each(|(re, im)| (*re, *im) = (*re * *re + *im * *im, 0.0));
    // The values are real and even, so the forward transform is also the inverse.
    transform(&mut x);
    let apart = |(d, (re, _)): (usize, &(f64, f64))| {
        let sum = (re / n as f64).max(0.0);
        if d == 0 { sum } else { 2.0 * sum }
    };
    x.iter().take(f.len()).enumerate().map(apart).collect()
}

/// Fourier transform in place; the number of points is a power of two.
fn transform(x: &mut [(f64, f64)]) {
    let n = x.len();
    let mut j = 0;
    for i in 1..n {
        let mut bit = n >> 1;
        while j & bit != 0 {
            j ^= bit;
            bit >>= 1;
        }
        j ^= bit;
        if i < j {
            x.swap(i, j);
        }
    }
    let mut len = 2;
    while len <= n {
        let half = len / 2;
        let turn = |k: usize| (-std::f64::consts::TAU * k as f64 / len as f64).sin_cos();
        let wheel: Vec<(f64, f64)> = (0..half).map(turn).collect();
        for part in x.chunks_exact_mut(len) {
            let (a, b) = part.split_at_mut(half);
            for ((a, b), (sin, cos)) in a.iter_mut().zip(b).zip(&wheel) {
                let t = (b.0 * cos - b.1 * sin, b.0 * sin + b.1 * cos);
                (*a, *b) = ((a.0 + t.0, a.1 + t.1), (a.0 - t.0, a.1 - t.1));
            }
        }
        len *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rz55() -> Arm {
        Arm::paper(1224, 15, 36, 3600.0)
    }

    #[test]
    fn equation_11_is_equation_10() {
        let f = Access::perfect(40).drifted(0.2);
        let arm = Arm::paper(40, 15, 36, 3600.0);
        let twice: f64 = (0..40u32)
            .flat_map(|i| (0..40u32).map(move |j| (i, j)))
            .map(|(i, j)| {
                f.shares()[i as usize] * f.shares()[j as usize] * arm.seek_ms(i.abs_diff(j))
            })
            .sum();
        assert!((arm.light(&f, 4).seek_ms - twice).abs() < 1e-12);
    }

    #[test]
    fn transformed_distances_are_the_direct_ones() {
        for n in [1usize, 2, 5, 1000] {
            let f = Access::perfect(n as u32).lazily(0.3);
            let (a, b) = (distances(f.shares()), convolved(f.shares()));
            assert!(a.iter().zip(&b).all(|(x, y)| (x - y).abs() < 1e-13), "{n}");
            assert!((a.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn random_accesses_cross_a_third_of_the_disk() {
        let light = rz55().light(&Access::random(1224), 4);
        assert!((light.distance - (1224.0 * 1224.0 - 1.0) / (3.0 * 1224.0)).abs() < 1e-6);
        // The paper: a block of 2 KiB takes 1.85 ms, a turn 16.6 ms.
        assert!(
            (light.transfer_ms - 1.85).abs() < 0.005 && (rz55().turn_ms() - 16.67).abs() < 0.01
        );
        assert!((light.rotation_ms - 8.33).abs() < 0.01);
    }

    #[test]
    fn a_catalogue_disk_has_the_same_arm() {
        let disk = Disk::new(&crate::catalogue::get("rz55").unwrap()).unwrap();
        let (a, b) = (Arm::of(&disk), rz55());
        assert_eq!((a.cylinders(), a.tracks(), a.blocks_per_track(4)), (1224, 15, 9));
        for d in [0, 1, 2, 50, 1223] {
            assert!((a.seek_ms(d) - b.seek_ms(d)).abs() < 1e-6, "{d}");
        }
        assert!((a.turn_ms() - b.turn_ms()).abs() < 1e-5 && b.blocks_per_track(2) == 18);
    }

    #[test]
    fn every_disk_of_the_catalogue_can_be_analysed() {
        for name in crate::catalogue::disks() {
            let spec = crate::catalogue::get(name).unwrap();
            let Ok(disk) = Disk::new(&spec) else { continue };
            let arm = Arm::of(&disk);
            let n = arm.cylinders();
            let (r, p) = (arm.light(&Access::random(n), 8), arm.light(&Access::perfect(n), 8));
            assert!(p.seek_ms < r.seek_ms && p.utilization > r.utilization, "{name}: {r:?} {p:?}");
            assert!(p.seek_ms > 0.0 && r.seek_ms < 40.0, "{name}: {r:?} {p:?}");
        }
    }
}
