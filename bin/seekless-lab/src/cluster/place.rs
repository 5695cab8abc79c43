//! Where hot files lie and where they might: in which order, which of them lie together already, and how far the head travels
//! from one to the next, by the clustering paper's model (equation 10: accesses independent of each other).

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::fmt;

use anyhow::bail;
use seekless_block::{Bytes, Lba, SECTOR_BYTES};
use seekless_disk::Disk;
use seekless_papers::clustering::{Access, Arm};
use serde::Serialize;

use super::lies::{self, Movable};
use super::list::List;
use super::volume::Volume;
use seekless_cli::disk;

/// Parts of a volume that are told apart where no disk is named.
const BANDS: u32 = 4096;
/// Points of a run that are looked at.
const POINTS: u64 = 64;

/// Bytes of the volume and how hot they are together: first byte, length, weight.
pub(super) type Place = (u64, u64, f64);

/// How the way of a head is found.
pub(super) struct Travel {
    disk: Option<(Disk, Arm)>,
    band: u64,
}

/// Means from one access to the next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Trip {
    /// Bytes of addresses passed over; with a disk named, cylinders.
    pub(crate) distance: f64,
    /// Expected seek time, where a disk is named.
    pub(crate) seek_ms: Option<f64>,
}

impl fmt::Display for Trip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seek_ms {
            Some(ms) => write!(f, "{:.1} cylinders in {ms:.2} ms", self.distance),
            None => write!(f, "{}", Bytes(self.distance as u64)),
        }
    }
}

impl Travel {
    pub(super) fn new(volume: &Volume, disk: Option<&str>) -> anyhow::Result<Self> {
        let size = volume.blocks.saturating_mul(volume.block);
        let band = (size / u64::from(BANDS)).max(1);
        let Some(name) = disk else { return Ok(Self { disk: None, band }) };
        let spec = disk::named(name)?;
        let Some(plain) = spec.plain_disk() else {
            bail!("'{name}' has no single arm: choose a disk of kind disk (seekless disk list)");
        };
        let disk = Disk::new(plain)?;
        if disk.capacity().bytes().0 < size {
            bail!(
                "{} holds {}, disk '{name}' {}: choose a larger one",
                volume.path.display(),
                Bytes(size),
                disk.capacity().bytes()
            );
        }
        let arm = Arm::of(&disk);
        Ok(Self { disk: Some((disk, arm)), band })
    }

    /// From one access to the next.
    pub(super) fn of(&self, places: &[Place]) -> Trip {
        let cylinders = self.disk.as_ref().map_or(BANDS + 1, |(_, arm)| arm.cylinders());
        let mut weights = vec![0.0; cylinders as usize];
        for &(start, len, weight) in places {
            let points = (len / 4096).clamp(1, POINTS);
            for i in 0..points {
                let at = start + (2 * i + 1) * len / (2 * points);
                let cylinder = match &self.disk {
                    None => at / self.band,
                    Some((disk, _)) => {
                        let lba = Lba((at / SECTOR_BYTES).min(disk.capacity().0 - 1));
                        disk.geometry().place(lba).map_or(0, |p| u64::from(p.cylinder))
                    }
                };
                weights[(cylinder as usize).min(cylinders as usize - 1)] += weight / points as f64;
            }
        }
        let Some(access) = Access::new(weights) else {
            return Trip { distance: 0.0, seek_ms: None };
        };
        match &self.disk {
            Some((_, arm)) => {
                let light = arm.light(&access, 8);
                Trip { distance: light.distance, seek_ms: Some(light.seek_ms) }
            }
            None => {
                let light = Arm::paper(cylinders, 1, 8, 3600.0).light(&access, 8);
                Trip { distance: light.distance * self.band as f64, seek_ms: None }
            }
        }
    }
}

/// The files of a list as they lie, by their place in the list; those that may not be moved say why.
pub(super) struct Survey {
    pub(super) files: Vec<(usize, Movable)>,
    pub(super) heat: Vec<f64>,
    alone: BTreeMap<&'static str, u64>,
}

/// Looks at every file of a list. One that is named twice counts once.
pub(super) fn survey(volume: &Volume, list: &List) -> Survey {
    let swaps = lies::swaps(volume);
    let mut seen: rustc_hash::FxHashSet<u64> = Default::default();
    let mut survey = Survey {
        files: Vec::new(),
        heat: list.files.iter().map(|f| f.moved as f64).collect(),
        alone: BTreeMap::new(),
    };
    for (i, hot) in list.files.iter().enumerate() {
        if !seen.insert(hot.inode) {
            continue;
        }
        let looked =
            if swaps.contains(&hot.inode) { Err("swapped to") } else { lies::look(volume, hot) };
        let looked = looked.and_then(|m| match volume.refusal() {
            // On other file systems ext4's attributes mean nothing.
            Some(_) => Ok(m),
            None => lies::allowed(&m).map(|()| m),
        });
        match looked {
            Ok(movable) => survey.files.push((i, movable)),
            Err(why) => *survey.alone.entry(why).or_insert(0) += 1,
        }
    }
    survey
}

impl Survey {
    /// Why files are left alone, and how many.
    pub(super) fn left_alone(&self) -> &BTreeMap<&'static str, u64> {
        &self.alone
    }

    /// Where each file lies now.
    pub(super) fn lies(&self) -> Vec<Place> {
        self.files.iter().flat_map(|(i, m)| places(m, self.heat[*i])).collect()
    }

    /// Where they would lie side by side, about the middle of where they are asked for now.
    pub(super) fn ideal(&self, volume: &Volume) -> Vec<Place> {
        let all: Vec<usize> = (0..self.files.len()).collect();
        let total: u64 = self.files.iter().map(|f| f.1.bytes()).sum();
        let size = volume.blocks.saturating_mul(volume.block);
        let mut at = self.middle().saturating_sub(total / 2).min(size.saturating_sub(total));
        let side_by_side = |i: usize| {
            let (hot, movable) = &self.files[i];
            let place = (at, movable.bytes(), self.heat[*hot]);
            at += movable.bytes();
            place
        };
        self.organ_pipe(&all).into_iter().map(side_by_side).collect()
    }

    /// The byte of the volume below which half of the heat lies.
    pub(super) fn middle(&self) -> u64 {
        let mut lies = self.lies();
        lies.sort_by_key(|p| p.0);
        let half = lies.iter().map(|p| p.2).sum::<f64>() / 2.0;
        let mut sum = 0.0;
        let found = lies.iter().find(|p| {
            sum += p.2;
            sum >= half
        });
        found.map_or(0, |p| p.0)
    }

    /// These files in the order they should lie in: the hottest by their size in the middle.
    pub(super) fn organ_pipe(&self, which: &[usize]) -> Vec<usize> {
        let temperature =
            |i: usize| self.heat[self.files[i].0] / self.files[i].1.bytes().max(1) as f64;
        let mut hottest_first = which.to_vec();
        hottest_first.sort_by(|&a, &b| temperature(b).total_cmp(&temperature(a)).then(a.cmp(&b)));
        let (mut order, mut before, mut after) = (VecDeque::new(), 0, 0);
        for i in hottest_first {
            let bytes = self.files[i].1.bytes();
            if before <= after {
                before += bytes;
                order.push_back(i);
            } else {
                after += bytes;
                order.push_front(i);
            }
        }
        order.into()
    }

    /// Files that lie apart: those not wholly in the stretch that holds most of their bytes and little else, less than a
    /// fifth. All of them, where that is less than a quarter of the bytes.
    pub(super) fn apart(&self) -> Vec<usize> {
        let all = 0..self.files.len();
        let total: u64 = self.files.iter().map(|f| f.1.bytes()).sum();
        let runs = self.files.iter().flat_map(|f| f.1.runs.iter().map(|r| (r.physical, r.len)));
        let (start, end, inside) = densest(runs.collect());
        if inside < total / 4 {
            return all.collect();
        }
        let within =
            |m: &Movable| m.runs.iter().all(|r| r.physical >= start && r.physical + r.len <= end);
        all.filter(|&i| !within(&self.files[i].1)).collect()
    }
}

/// The stretch, from its first byte to past its last, in which the bytes of `runs` outweigh four times what lies between
/// them by most, and how many of them it holds.
fn densest(mut runs: Vec<(u64, u64)>) -> (u64, u64, u64) {
    runs.sort_unstable();
    // Start, end, bytes, and by how much they outweigh the gaps; of the stretch that ends here, and of the best.
    let (mut here, mut best) = ((0, 0, 0, 0i128), (0, 0, 0, 0i128));
    for (at, len) in runs {
        let gap = i128::from(at.saturating_sub(here.1));
        let left = here.3 - 4 * gap;
        here = if here.2 == 0 || left <= 0 {
            (at, at + len, len, i128::from(len))
        } else {
            (here.0, at + len, here.2 + len, left + i128::from(len))
        };
        if here.3 > best.3 {
            best = here;
        }
    }
    (best.0, best.1, best.2)
}

/// A file's runs with their part of its heat.
fn places(movable: &Movable, heat: f64) -> impl Iterator<Item = Place> + '_ {
    let total = movable.bytes().max(1) as f64;
    movable.runs.iter().map(move |r| (r.physical, r.len, heat * r.len as f64 / total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_densest_stretch_has_little_between() {
        assert_eq!(densest(vec![]), (0, 0, 0));
        // Three that lie together with a small gap, and two far off.
        let runs = vec![(5000, 10), (100, 40), (140, 40), (185, 100), (9000, 60)];
        assert_eq!(densest(runs), (100, 285, 180));
        // What is spread evenly lies apart.
        let spread: Vec<(u64, u64)> = (0..50).map(|i| (i * 100, 10)).collect();
        assert_eq!(densest(spread).2, 10);
    }
}
