//! How far the head travels from one access to the next, by the clustering paper's model (equation
//! 10: accesses that are independent of each other).

use std::fmt;

use seekless_block::{Bytes, Lba, SECTOR_BYTES};
use seekless_disk::{Disk, DiskSpec};
use serde::Serialize;

use super::error::HotFilesError;
use super::mounted::Mounted;
use seekless_disk::clustering::{Access, Arm};

/// Parts of a volume that the model distinguishes if no disk is named.
const BANDS: u32 = 4096;
/// Points of a run that the model looks at.
const POINTS: u64 = 64;

/// A range of the device and its heat: first byte, length, bytes transferred of it.
pub(super) type HotRange = (u64, u64, f64);

/// The model of the head's travel.
#[derive(Debug)]
pub struct Travel {
    disk: Option<(Disk, Arm)>,
    band: u64,
}

/// Means from one access to the next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Trip {
    /// Bytes of addresses passed over; if a disk is named, cylinders.
    pub distance: f64,
    /// Expected seek time, if a disk is named.
    pub seek_ms: Option<f64>,
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
    /// On a disk of this name and description, or on addresses alone.
    ///
    /// # Errors
    /// If the disk is smaller than the file system.
    pub fn new(mounted: &Mounted, disk: Option<(&str, &DiskSpec)>) -> Result<Self, HotFilesError> {
        let size = mounted.bytes();
        let band = (size / u64::from(BANDS)).max(1);
        let Some((name, spec)) = disk else { return Ok(Self { disk: None, band }) };
        let disk = Disk::new(spec)?;
        if disk.capacity().bytes().0 < size {
            return Err(HotFilesError::Refused(format!(
                "{} holds {}, disk '{name}' {}: choose a larger one",
                mounted.path().display(),
                Bytes(size),
                disk.capacity().bytes()
            )));
        }
        let arm = Arm::of(&disk);
        Ok(Self { disk: Some((disk, arm)), band })
    }

    /// From one access to the next, if accesses fall on these ranges by their heat.
    pub(super) fn between(&self, ranges: &[HotRange]) -> Trip {
        let cylinders = self.disk.as_ref().map_or(BANDS + 1, |(_, arm)| arm.cylinders());
        let mut weights = vec![0.0; cylinders as usize];
        for &(start, len, weight) in ranges {
            let points = (len / 4096).clamp(1, POINTS);
            for i in 0..points {
                let at = start + (2 * i + 1) * len / (2 * points);
                let cylinder = self.cylinder(at) as usize;
                weights[cylinder.min(cylinders as usize - 1)] += weight / points as f64;
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

    /// The cylinder, or the band, of a byte of the device.
    fn cylinder(&self, byte: u64) -> u64 {
        match &self.disk {
            None => byte / self.band,
            Some((disk, _)) => {
                let lba = Lba((byte / SECTOR_BYTES).min(disk.capacity().0 - 1));
                disk.geometry().place(lba).map_or(0, |p| u64::from(p.cylinder))
            }
        }
    }
}
