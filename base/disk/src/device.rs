//! Every kind of device under one roof: which there are, their descriptions, and the machines made from them. How each
//! works is its own file's.

use std::fmt;

use seekless_block::Sectors;
use serde::{Deserialize, Serialize};

use crate::check::RangeError;
use crate::disk::Disk;
use crate::spec::{DiskSpec, PowerSpec, Source};
use crate::volume::Volume;
use crate::volume_spec::VolumeSpec;

/// What sort of device a description is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One arm over turning platters.
    #[default]
    Disk,
    /// Two arms on one spindle, each with half of the heads and of the addresses.
    DualActuator,
    /// Drive-managed shingled recording: a media cache, and bands rewritten whole.
    Shingled,
    /// A cloud volume on disks: counts large operations.
    CloudHdd,
    /// A cloud volume on flash.
    CloudSsd,
    /// Objects fetched and put whole, priced by the request.
    ObjectStore,
    /// A flash drive.
    Ssd,
}

impl Kind {
    /// Every kind, in the order of lists.
    pub const ALL: [Self; 7] = [
        Self::Disk,
        Self::DualActuator,
        Self::Shingled,
        Self::Ssd,
        Self::CloudHdd,
        Self::CloudSsd,
        Self::ObjectStore,
    ];

    /// Whether it has arms and platters.
    #[must_use]
    pub const fn is_mechanical(self) -> bool {
        matches!(self, Self::Disk | Self::DualActuator | Self::Shingled)
    }

    /// As in a description.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::DualActuator => "dual_actuator",
            Self::Shingled => "shingled",
            Self::CloudHdd => "cloud_hdd",
            Self::CloudSsd => "cloud_ssd",
            Self::ObjectStore => "object_store",
            Self::Ssd => "ssd",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A description of a device of any kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(clippy::large_enum_variant, reason = "few are made, and none moved often")]
pub enum DeviceSpec {
    /// One with arms and platters.
    Disk(DiskSpec),
    /// One without.
    Volume(VolumeSpec),
}

impl DeviceSpec {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Disk(d) => d.kind,
            Self::Volume(v) => v.kind,
        }
    }

    /// Short name, as given on the command line.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Disk(d) => &d.name,
            Self::Volume(v) => &v.name,
        }
    }

    /// Maker or provider, and model.
    #[must_use]
    pub fn title(&self) -> &str {
        match self {
            Self::Disk(d) => &d.title,
            Self::Volume(v) => &v.title,
        }
    }

    /// Sectors a client sees.
    #[must_use]
    pub const fn capacity(&self) -> Sectors {
        match self {
            Self::Disk(d) => Sectors(d.capacity_sectors),
            Self::Volume(v) => Sectors(v.capacity_sectors),
        }
    }

    /// Where the values come from.
    #[must_use]
    pub fn sources(&self) -> &[Source] {
        match self {
            Self::Disk(d) => &d.sources,
            Self::Volume(v) => &v.sources,
        }
    }

    /// The description as one of a disk with a single arm and no media cache: what can be fitted and validated.
    #[must_use]
    pub const fn plain_disk(&self) -> Option<&DiskSpec> {
        match self {
            Self::Disk(d) if matches!(d.kind, Kind::Disk) => Some(d),
            _ => None,
        }
    }

    /// What sends a bill.
    #[must_use]
    pub fn priced(&self) -> Option<&VolumeSpec> {
        match self {
            Self::Volume(v) if v.price.is_some() => Some(v),
            _ => None,
        }
    }
}

impl From<DiskSpec> for DeviceSpec {
    fn from(spec: DiskSpec) -> Self {
        Self::Disk(spec)
    }
}

impl DiskSpec {
    /// Sectors of the disk: those a client sees, and those of the media cache.
    pub(crate) fn disk_sectors(&self) -> u64 {
        self.capacity_sectors + self.shingled.as_ref().map_or(0, |s| s.cache_sectors)
    }

    /// What one actuator of two has: half of the heads, the addresses and the power.
    pub(crate) fn half(&self) -> Option<Self> {
        if self.kind != Kind::DualActuator {
            return None;
        }
        let mut half = Self { kind: Kind::Disk, ..self.clone() };
        half.capacity_sectors /= 2;
        half.geometry.heads /= 2;
        let PowerSpec { seek_w, rotation_transfer_w, idle_w, coast_w, read_w, write_w, .. } =
            &mut half.power;
        let optional = [coast_w, read_w, write_w].into_iter().flatten();
        for watts in [seek_w, rotation_transfer_w, idle_w].into_iter().chain(optional) {
            *watts /= 2.0;
        }
        half.power.idle_level.iter_mut().for_each(|level| level.w /= 2.0);
        Some(half)
    }
}

/// A device of any kind, ready to serve behind a [`crate::Drive`].
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "few are made, and none moved often")]
pub enum Device {
    /// One arm.
    Disk(Disk),
    /// Two arms, each with half of the addresses.
    Dual(Disk, Disk),
    /// No arm.
    Volume(Volume),
}

impl Device {
    /// As new.
    ///
    /// # Errors
    /// Where a value of the specification is out of its range.
    pub fn new(spec: &DeviceSpec) -> Result<Self, RangeError> {
        match spec {
            DeviceSpec::Volume(spec) => Ok(Self::Volume(Volume::new(spec)?)),
            DeviceSpec::Disk(spec) => {
                spec.validate()?;
                let Some(half) = spec.half() else { return Ok(Self::Disk(Disk::new(spec)?)) };
                let half = Disk::new(&half)?;
                Ok(Self::Dual(half.clone(), half))
            }
        }
    }

    /// Sectors a client sees.
    #[must_use]
    pub const fn capacity(&self) -> Sectors {
        match self {
            Self::Disk(disk) => disk.capacity(),
            Self::Dual(first, second) => Sectors(first.capacity().0 + second.capacity().0),
            Self::Volume(volume) => volume.capacity(),
        }
    }
}

impl From<Disk> for Device {
    fn from(disk: Disk) -> Self {
        Self::Disk(disk)
    }
}
