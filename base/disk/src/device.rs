//! All kinds of devices: the list of kinds, their descriptions, and the models built from them.
//! Each kind's behaviour is in its own file.

use seekless_block::{Sectors, Toll, named};
use serde::{Deserialize, Serialize};

use crate::disk::Disk;
use crate::spec::{DiskSpec, PowerSpec, Source};
use crate::spec_check::RangeError;
use crate::volume::Volume;
use crate::volume_spec::VolumeSpec;

/// The kind of device in a description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One arm above rotating platters.
    #[default]
    Disk,
    /// Two arms on one spindle. Each has half of the heads and half of the addresses.
    DualActuator,
    /// Drive-managed shingled recording: a media cache, and bands that are rewritten as a whole.
    Shingled,
    /// A cloud volume on hard disks. It counts large operations.
    CloudHdd,
    /// A cloud volume on flash.
    CloudSsd,
    /// Objects that are read and written as a whole, with a price per request.
    ObjectStore,
    /// A flash drive.
    Ssd,
}

impl Kind {
    /// Whether the device has arms and platters.
    pub(crate) const fn is_mechanical(self) -> bool {
        matches!(self, Self::Disk | Self::DualActuator | Self::Shingled)
    }
}

// In the order used in lists.
named!(names Kind:
    Disk = "disk",
    DualActuator = "dual_actuator",
    Shingled = "shingled",
    Ssd = "ssd",
    CloudHdd = "cloud_hdd",
    CloudSsd = "cloud_ssd",
    ObjectStore = "object_store",
);

/// A description of a device of any kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(clippy::large_enum_variant, reason = "only few values exist, and they are rarely moved")]
pub enum DeviceSpec {
    /// A device with arms and platters.
    Disk(DiskSpec),
    /// A device without arms and platters.
    Volume(VolumeSpec),
}

impl DeviceSpec {
    /// The kind of the device.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Disk(d) => d.kind,
            Self::Volume(v) => v.kind,
        }
    }

    /// Short name, as used on the command line.
    pub fn name(&self) -> &str {
        match self {
            Self::Disk(d) => &d.name,
            Self::Volume(v) => &v.name,
        }
    }

    /// Manufacturer or provider, and model.
    pub fn title(&self) -> &str {
        match self {
            Self::Disk(d) => &d.title,
            Self::Volume(v) => &v.title,
        }
    }

    /// Capacity visible to a client, in sectors.
    pub const fn capacity(&self) -> Sectors {
        match self {
            Self::Disk(d) => Sectors(d.capacity_sectors),
            Self::Volume(v) => Sectors(v.capacity_sectors),
        }
    }

    /// The sources of the values.
    pub fn sources(&self) -> &[Source] {
        match self {
            Self::Disk(d) => &d.sources,
            Self::Volume(v) => &v.sources,
        }
    }

    /// The description, if the device is a disk with one arm and no media cache. Only such disks
    /// can be fitted and validated.
    pub const fn plain_disk(&self) -> Option<&DiskSpec> {
        match self {
            Self::Disk(d) if matches!(d.kind, Kind::Disk) => Some(d),
            _ => None,
        }
    }

    /// The cost of operations beside their time: zero, except at a provider.
    pub fn toll(&self) -> Toll {
        match self {
            Self::Disk(_) => Toll::default(),
            Self::Volume(v) => v.toll(),
        }
    }

    /// Whether the power is known. Otherwise the energy is counted as zero, and means nothing.
    pub fn has_power(&self) -> bool {
        match self {
            // Where nobody knows them, a disk's powers are zeroes: `disk import`, `fit` and `probe`
            // write these.
            Self::Disk(d) => {
                let p = &d.power;
                let known = [p.seek_w, p.rotation_transfer_w, p.idle_w];
                known.iter().any(|watts| *watts > 0.0)
            }
            Self::Volume(v) => v.power.is_some(),
        }
    }

    /// Power without requests, in watts; zero if the power is not known.
    pub fn idle_w(&self) -> f64 {
        match self {
            Self::Disk(d) => d.power.idle_w,
            Self::Volume(v) => v.power.as_ref().map_or(0.0, |p| p.idle_w),
        }
    }

    /// The description, if the device has a provider's prices.
    pub fn priced(&self) -> Option<&VolumeSpec> {
        match self {
            Self::Volume(v) if v.price.is_some() => Some(v),
            _ => None,
        }
    }

    /// Whether a provider bills operations, and not only capacity and limits.
    pub fn bills_operations(&self) -> bool {
        let price = self.priced().and_then(|volume| volume.price.as_ref());
        price.is_some_and(|p| p.usd_per_million_reads.max(p.usd_per_million_writes) > 0.0)
    }
}

impl From<DiskSpec> for DeviceSpec {
    fn from(spec: DiskSpec) -> Self {
        Self::Disk(spec)
    }
}

impl DiskSpec {
    /// Sectors of the disk: the sectors visible to a client and the sectors of the media cache.
    pub(crate) fn disk_sectors(&self) -> u64 {
        self.capacity_sectors + self.shingled.as_ref().map_or(0, |s| s.cache_sectors)
    }

    /// The share of one actuator of two: half of the heads, the addresses and the power.
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

/// A device of any kind, ready to serve requests through a [`crate::Drive`].
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "only few values exist, and they are rarely moved")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Device {
    Disk(Disk),
    Dual(Disk, Disk),
    Volume(Volume),
}

impl Device {
    /// A new device.
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

    /// Capacity visible to a client, in sectors.
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
