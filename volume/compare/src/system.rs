//! The systems that are compared: a device, its host, and its learning.

use seekless_block::{Bytes, Duration, Sectors};
use seekless_disk::{DeviceSpec, Scheduler, SpinDown};
use seekless_engine::Config;
use seekless_engine::format::Geometry;
use seekless_learn::Policy;

/// Size of a trail, if the user names none.
const TRAIL: Bytes = Bytes(2 << 30);
/// A smaller trail is not worth its writes.
pub(crate) const TRAIL_MIN: Bytes = Bytes(64 << 20);

/// How a system learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Learning {
    pub(crate) policy: Policy,
    /// Size of the optimized area, or the limit for replicas.
    pub(crate) optimized: Bytes,
    /// Share of the write buffer in the area, in percent; 0 writes through.
    pub(crate) write_buffer: u8,
    /// Longest time of such writes in RAM.
    pub(crate) gather: Duration,
    /// Folds from one plan to the next, at least 1. Adaptive policies make no plans.
    pub(crate) every: u32,
}

impl Learning {
    /// Folds from one plan to the next, if that is fixed.
    pub(crate) const fn plan_folds(&self) -> Option<u32> {
        if self.policy.adapts() { None } else { Some(self.every) }
    }
}

/// A system to try.
#[derive(Clone, Debug)]
pub(crate) struct System {
    /// Its name, for tables.
    pub(crate) name: String,
    pub(crate) disk: DeviceSpec,
    /// The drive's scheduler.
    pub(crate) scheduler: Scheduler,
    /// When the drive stops its platters.
    pub(crate) spin_down: SpinDown,
    /// RAM.
    pub(crate) cache: Bytes,
    pub(crate) read_ahead: Bytes,
    /// Least length of a read of a copy.
    pub(crate) cluster: Bytes,
    /// `None` is vanilla.
    pub(crate) learning: Option<Learning>,
}

impl System {
    pub(crate) fn policy(&self) -> Option<Policy> {
        self.learning.map(|l| l.policy)
    }

    /// Size of its optimized area, or of the area beside replicas.
    pub(crate) fn area(&self) -> Sectors {
        self.learning.map_or(Sectors(0), |l| {
            let optimized = l.optimized.sectors_ceil();
            match &l.policy {
                policy if policy.replicates() => Geometry::area_beside(optimized),
                policy if !policy.has_area() => Sectors(0),
                _ => optimized,
            }
        })
    }

    /// The engine's configuration for client addresses of `capacity`, with pages from sector `grid`
    /// on.
    pub(crate) fn engine(&self, capacity: Sectors, grid: Sectors) -> Config {
        let config = Config {
            area: self.area(),
            cache_bytes: self.cache,
            read_ahead: self.read_ahead,
            cluster: self.cluster,
            grid,
            toll: self.disk.toll(),
            ..Config::new(capacity)
        };
        let Some(learning) = self.learning else { return config };
        let policy = &learning.policy;
        let (adaptive, in_place) = (policy.adapts(), policy.writes_in_place());
        let config = Config { adaptive, in_place, ..config };
        // BORG writes in place in write-back alone: its write buffer has the size of 6.1.1.
        let write_buffer = match learning.write_buffer {
            0 if in_place => 20,
            percent => percent,
        };
        let config = config.with_write_buffer(write_buffer, learning.gather);
        if !learning.policy.replicates() {
            return config;
        }
        let replicas = learning.optimized.sectors_ceil();
        Config { replicas, degree: learning.policy.degree, ..config }
    }
}

/// The device and its host, without layout.
#[derive(Clone, Debug)]
pub struct Host {
    /// The device.
    pub disk: DeviceSpec,
    /// The drive's scheduler.
    pub scheduler: Scheduler,
    /// When the drive stops its platters.
    pub spin_down: SpinDown,
    /// RAM.
    pub cache: Bytes,
    /// Read-ahead.
    pub read_ahead: Bytes,
    /// Least length of a read of a copy.
    pub cluster: Bytes,
    /// Longest time of writes in RAM, with a write buffer.
    pub gather: Duration,
}

impl Host {
    /// Space of the device behind `capacity` of client addresses.
    pub(crate) fn room(&self, capacity: Sectors) -> Bytes {
        Sectors(self.disk.capacity().0.saturating_sub(capacity.0)).bytes()
    }

    /// An adaptive policy, and the size of its trail: what the device has space for. The policy reads
    /// ahead alone if the room is too small for a trail.
    pub(crate) fn with_trail(&self, mut policy: Policy, capacity: Sectors) -> (Policy, Bytes) {
        let size = Bytes(self.room(capacity).min(TRAIL).0 >> 20 << 20);
        policy.trail &= size >= TRAIL_MIN;
        (policy, size)
    }

    /// A system on this host.
    pub(crate) fn system(&self, name: String, learning: Option<Learning>) -> System {
        let Self { disk, scheduler, spin_down, cache, read_ahead, cluster, .. } = self.clone();
        System { name, disk, scheduler, spin_down, cache, read_ahead, cluster, learning }
    }
}
