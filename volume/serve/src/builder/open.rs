//! Opens the backing and its area, and makes the engine of a volume.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use seekless_block::{Bytes, SECTOR_BYTES, Sectors};
use seekless_engine::{AttachReport, Config, Engine, divided_like};
use seekless_host::{Opened, private};
use seekless_learn::{Policy, PolicyName};

use super::{Backing, Builder, FrontEnds};
use crate::area::Store;
use crate::backend::files::{Disk, Files};
use crate::backend::home::Home;
use crate::backend::remote::Remote;
use crate::backend::runs::Runs;
use crate::backend::unnamed::opened_memory;
use crate::error::ServeError;
use crate::learner::AreaHolds;
use crate::memory_shares::{Needs, Shares};
use crate::ublk::ensure_no_device_waits;

/// The files and the engine of a volume.
pub(super) struct NewVolume {
    pub(super) front: FrontEnds,
    pub(super) files: Files,
    pub(super) engine: Engine,
    pub(super) policy: Policy,
    pub(super) attached: Option<AttachReport>,
    pub(super) area_path: PathBuf,
    /// True if a guard can protect home.
    pub(super) guardable: bool,
    pub(super) shares: Shares,
}

impl NewVolume {
    fn unattached(
        front: FrontEnds,
        files: Files,
        (config, shares): (Config, Shares),
        policy: Policy,
        area_path: PathBuf,
    ) -> Self {
        let engine = Engine::new(config);
        let attached = None;
        Self { front, files, engine, policy, attached, area_path, guardable: true, shares }
    }
}

impl Builder {
    /// Opens the backing and its area, and attaches a lasting area.
    pub(super) fn open(&mut self) -> Result<NewVolume, ServeError> {
        let store = match &self.backing {
            Backing::Path(path) => {
                let opened = Opened::path(path, self.read_only)?;
                self.ensure_free(path)?;
                self.notes.extend(private::open_to_all(path, &opened));
                Store::open(Home::Here(opened), path, self.area_path.as_deref(), self.read_only)?
            }
            Backing::Nbd(uri) => {
                let path = PathBuf::from(uri.to_string());
                self.ensure_free(&path)?;
                let home = Home::Elsewhere(Arc::new(Remote::connect(uri.clone(), self.read_only)?));
                Store::open(home, &path, self.area_path.as_deref(), self.read_only)?
            }
            Backing::Memory(bytes) => {
                Store::Plain(Home::Here(opened_memory(bytes.0 / SECTOR_BYTES * SECTOR_BYTES)?))
            }
        };
        match store {
            Store::Plain(Home::Here(opened)) => {
                self.plain(opened.bytes, opened.dir, Disk::new(opened.fd, Runs::all()))
            }
            Store::Plain(Home::Elsewhere(remote)) => {
                self.plain(remote.bytes(), None, Disk::elsewhere(remote))
            }
            Store::Lasting(mut lasting) => {
                let holds = lasting.holds();
                let policy = self.policy(if self.read_only { AreaHolds::NoPlan } else { holds })?;
                self.notes.extend(lasting.note.take());
                let s = &lasting.superblock;
                let found = Config::new(s.home_capacity);
                let needs = self.needs(policy, &found, s, holds == AreaHolds::Replicas);
                let (config, shares) = self.config(policy, found, needs)?;
                if self.read_only {
                    // Nothing is written, not even a mark of use.
                    let newest = lasting.examine()?;
                    let front = self.front(&config)?;
                    let files = Files::overlaid(lasting.home, lasting.area, newest);
                    let (settled, place) = ((config, shares), lasting.place);
                    return Ok(NewVolume::unattached(front, files, settled, policy, place));
                }
                // The attach refuses an area without a geometry, and says why.
                let s = &lasting.superblock;
                let divided = s.geometry().map_or(config, |geo| divided_like(config, s, &geo));
                let front = self.front(&divided)?;
                let (mut engine, report) = lasting.attach(config, self.moved, self.to_drain)?;
                if self.free_from_ext && engine.replicated().is_some() && report.dirty == 0 {
                    engine.seed_free(lasting.free_in_ext()?);
                }
                let own = lasting.own_stamp();
                Ok(NewVolume {
                    front,
                    // An area inside its disk needs no guard: the disk begins with a page of
                    // seekless.
                    guardable: own.is_some() || lasting.home.guard().is_some(),
                    files: Files::of(lasting.home, lasting.area, own),
                    engine,
                    policy,
                    attached: Some(report),
                    area_path: lasting.place,
                    shares,
                })
            }
        }
    }

    /// Refuses to write a backing whose block device waits for another server.
    fn ensure_free(&self, path: &Path) -> Result<(), ServeError> {
        if self.read_only || self.takes_over { Ok(()) } else { ensure_no_device_waits(path) }
    }

    /// A volume without a lasting area: its area is a file in `dir`, unless another one was named.
    fn plain(
        &mut self,
        bytes: u64,
        dir: Option<PathBuf>,
        home: Disk,
    ) -> Result<NewVolume, ServeError> {
        let policy = self.policy(AreaHolds::NoPlan)?;
        let area = match policy.name() {
            PolicyName::Vanilla if self.learning.is_some() => Bytes(0),
            PolicyName::Adaptive if self.read_only || !policy.trail => Bytes(0),
            _ => self.area.of(&policy, Bytes(bytes)),
        };
        let dir = self.area_dir.take().or(dir);
        if area.0 > 0 && dir.is_none() && !matches!(self.backing, Backing::Memory(_)) {
            return Err(ServeError::NoAreaDir);
        }
        let found = Config::new(Sectors(bytes / SECTOR_BYTES));
        let found = Config { area: area.sectors_ceil(), ..found };
        let settled = self.config(policy, found, Needs::of(&found, found.area, false))?;
        let front = self.front(&settled.0)?;
        let files = Files::new(home, area.0, dir.as_deref())?;
        Ok(NewVolume::unattached(front, files, settled, policy, PathBuf::new()))
    }
}
