//! A volume and its area, found and locked: by the area's name, or inside the device. Attaches the
//! area, and proves the state of home.

use std::path::{Path, PathBuf};

use seekless_block::{Device, Extent, Lba, SECTOR_BYTES, Sectors};
use seekless_engine::format::{AreaId, FormatError, Label, Page, Superblock, read_superblock};
use seekless_engine::{
    AttachError, AttachReport, Config, Engine, Examined, Finding, HomeGuard, Proof, Repair, attach,
    examine, repair, repair_outdated, repair_report, restore_superblock,
};

use seekless_host::{OpenFile, Opened, cannot, private};

use super::{
    HEAD, MAGIC, NO_ROOM, failed, first_page, guarded_by, part, part_apart, refused, whole,
};
use crate::backend::files::Disk;
use crate::backend::guard::{self, GuardError, GuardFault, Standing};
use crate::backend::home::Home;
use crate::backend::identity;
use crate::backend::region::Region;
use crate::backend::remote::NbdUri;
use crate::error::ServeError;
use crate::learner::AreaHolds;

/// A backing, with its area if it has one.
pub(crate) enum Store {
    /// A disk without a lasting area.
    Plain(Home),
    /// A volume and its area.
    Lasting(Box<Lasting>),
}

/// Opens and locks a volume and its area without attaching it; `write` for repairs.
pub fn open(backing: &Path, area: Option<&Path>, write: bool) -> Result<Lasting, ServeError> {
    let restored = write && restore(backing, area)?;
    let home = Home::named(backing, !write)?;
    match Store::open(home, backing, area, !write)? {
        Store::Lasting(mut lasting) => {
            match lasting.ask_the_medium() {
                // A device that refuses flushes is one to look at.
                Err(e) if !write => lasting.unflushed = Some(e),
                asked => asked?,
            }
            lasting.restored = restored;
            Ok(*lasting)
        }
        Store::Plain(_) => Err(refused(
            backing,
            "holds no area: name its area with --area, or make one with `seekless volume format`",
        )),
    }
}

/// Searches the superblock of an area that has none where one is expected, and writes it to its
/// places: true then. Other errors are for the one who opens the area next.
fn restore(backing: &Path, area: Option<&Path>) -> Result<bool, ServeError> {
    let path = area.unwrap_or(backing);
    if NbdUri::in_path(path).is_some() {
        return Ok(false);
    }
    let opened = Opened::path(path, false)?;
    let mut all = whole(&opened)?;
    let first = first_page(&mut all, path)?;
    if let Ok(Superblock { area_at, area_size, .. }) = Superblock::decode(&first) {
        if area_at.0.saturating_add(area_size.0) > all.capacity().0 {
            return Ok(false);
        }
        all = part(&opened.fd, &[(area_at.0 * SECTOR_BYTES, area_size.bytes().0)])?;
    } else if guard::of_page(&first).is_some() || foreign(&mut all, path)?.is_some() {
        // A guarded disk is no area: a superblock there is data of a client.
        return Ok(false);
    }
    Ok(restore_superblock(&mut all).unwrap_or(false))
}

/// The content of a first page that is no superblock, if that is no damage.
fn foreign(all: &mut Disk, path: &Path) -> Result<Option<&'static str>, ServeError> {
    let first = first_page(all, path)?;
    if first.starts_with(MAGIC) {
        return Ok(None);
    }
    let look = Sectors(all.capacity().0.min(HEAD.0));
    let mut bytes = vec![0; look.bytes().0 as usize];
    all.read(Extent::new(0, look.0), &mut bytes).map_err(failed(path))?;
    Ok(seekless_host::signature::marks(&bytes))
}

/// A volume and its area, locked.
#[derive(Debug)]
pub struct Lasting {
    pub(crate) home: Disk,
    pub(crate) area: Disk,
    pub(crate) superblock: Superblock,
    pub(super) backing: PathBuf,
    /// Path of the area, for messages.
    pub(crate) place: PathBuf,
    /// Current size of home.
    pub(super) found: Sectors,
    /// State of the guard at opening, and the generation of the area that the guard names.
    pub(super) guard: Result<Standing, GuardError>,
    pub(super) named_generation: u64,
    /// Rights of other users to the area, in words.
    pub(crate) note: Option<String>,
    /// Why the host's memory may have other bytes of the area than the device.
    unflushed: Option<ServeError>,
    /// Opening it wrote copies of its superblock to their places.
    restored: bool,
}

/// What a repair has done.
#[derive(Debug)]
pub struct Repaired {
    /// Copies of the superblock were written to their places, whatever came then.
    pub restored: bool,
    /// The end of the area's repair.
    pub area: Repair,
    /// The fault of the guard; `None`: no fault.
    pub guard: Option<GuardFault>,
    /// Why the guard was not repaired although the area was.
    pub error: Option<ServeError>,
}

impl Store {
    /// Finds the area of a backing: the named area, or the one inside it.
    pub(crate) fn open(
        home: Home,
        backing: &Path,
        area: Option<&Path>,
        read_only: bool,
    ) -> Result<Self, ServeError> {
        let mut all = home.whole()?;
        let first = first_page(&mut all, backing)?;
        let ours = first.starts_with(MAGIC);
        match area {
            None if !ours => Ok(Self::Plain(home)),
            None => match &home {
                Home::Here(opened) => Lasting::inside(opened, all, &first, backing),
                Home::Elsewhere(_) => {
                    let why = "begins with a page of seekless: it is an area, or contains one; serve it on the machine where it is a file or device; nothing was changed";
                    let guard = guard::of_page(&first);
                    Err(guard.map_or_else(|| refused(backing, why), |p| guarded_by(backing, &p)))
                }
            },
            Some(path) if super::is_same(backing, path) => {
                Err(refused(path, "is the backing itself; name its area, or leave out --area"))
            }
            Some(path) => Lasting::beside(&home, all, &first, backing, path, read_only),
        }
    }
}

impl Lasting {
    fn inside(
        opened: &Opened,
        mut all: Disk,
        first: &Page,
        backing: &Path,
    ) -> Result<Store, ServeError> {
        let superblock = superblock_inside(opened, &mut all, first, backing)?;
        let (at, len) = (superblock.area_at.0, superblock.area_size.0);
        let head = if at == 0 { 0 } else { HEAD.0 };
        let volume = superblock.home_capacity.0;
        let before = volume.min(at.saturating_sub(head));
        let needed = at.saturating_add(len).saturating_add(volume - before);
        let device = opened.bytes / SECTOR_BYTES;
        if needed > device {
            let (expected, found) = (Sectors(needed), Sectors(device));
            return Err(failed(backing)(AttachError::Shrunken { expected, found }));
        }
        let bytes =
            |parts: [(u64, u64); 2]| parts.map(|(a, b)| (a * SECTOR_BYTES, b * SECTOR_BYTES));
        let home = part(&opened.fd, &bytes([(head, before), (at + len, volume - before)]))?;
        let area = part_apart(&opened.fd, &bytes([(at, len), (0, 0)]))?;
        let area = area.on_device_of(home.flushes());
        let found = superblock.home_capacity;
        let lasting = Self::without_guard(home, area, superblock, (backing, backing), found);
        Ok(Store::Lasting(Box::new(lasting)))
    }

    fn without_guard(
        home: Disk,
        area: Disk,
        superblock: Superblock,
        (backing, place): (&Path, &Path),
        found: Sectors,
    ) -> Self {
        let (backing, place) = (backing.to_owned(), place.to_owned());
        let (guard, named_generation) = (Ok(Standing::Nowhere), 0);
        let (note, unflushed, restored) = (None, None, false);
        Self {
            home,
            area,
            superblock,
            backing,
            place,
            found,
            guard,
            named_generation,
            note,
            unflushed,
            restored,
        }
    }

    fn beside(
        opened: &Home,
        home: Disk,
        first: &Page,
        backing: &Path,
        path: &Path,
        read_only: bool,
    ) -> Result<Store, ServeError> {
        if let Ok(s) = Superblock::decode(first) {
            let why = if s.inside {
                "has its area within itself: leave --area out"
            } else {
                "is an area itself, not a disk"
            };
            return Err(refused(backing, why));
        }
        let place = Opened::path(path, read_only)?;
        let note = private::keep_private(path, &place, !read_only, opened.owner())?;
        let mut all = whole(&place)?;
        let found = read_superblock(&mut all, Lba(0)).map_err(failed(path))?;
        if let Some(what) = foreign(&mut all, path)? {
            let why = format!("was an area once, and holds {what}; nothing was changed");
            return Err(refused(path, why));
        }
        let superblock = found.superblock;
        if superblock.inside {
            return Err(refused(path, "holds an area and its disk: serve it without --area"));
        }
        let (expected, found) = (superblock.area_size, all.capacity());
        if expected > found {
            return Err(failed(path)(AttachError::Shrunken { expected, found }));
        }
        let area = area_beside(&place, expected, &home, (backing, path))?;
        let found = Sectors(opened.bytes() / SECTOR_BYTES);
        let keys = (superblock.uuid, superblock.home_capacity);
        let mut lasting = Self::without_guard(home, area, superblock, (backing, path), found);
        lasting.note = note;
        if keys.1.0 >= guard::HOME_MIN {
            let region = region_beside(&place, path, &lasting.area, keys)?;
            (lasting.guard, lasting.named_generation) = state_of_guard(&region, &lasting.home);
            if !matches!(lasting.guard, Ok(Standing::Nowhere)) {
                lasting.home = lasting.home.with_guard(region);
            }
        }
        Ok(Store::Lasting(Box::new(lasting)))
    }

    pub(crate) const fn holds(&self) -> AreaHolds {
        if self.superblock.free_map_pages > 0 {
            AreaHolds::Replicas
        } else if self.superblock.plan_generation > 0 {
            AreaHolds::Plan
        } else {
            AreaHolds::NoPlan
        }
    }

    /// The contents of the area, for readers; writes nothing.
    pub(crate) fn examine(&mut self) -> Result<Examined, ServeError> {
        self.ensure_newest()?;
        let proof = self.proof(false);
        let examined = examine(&mut self.area).map_err(failed(&self.place))?;
        proof.fits(examined.superblock()).map_err(failed(&self.place))?;
        let examined = examined.doubting(&proof);
        let (expected, found) = (examined.superblock().home_capacity, self.found);
        if expected != found {
            return Err(failed(&self.backing)(AttachError::Capacity { expected, found }));
        }
        match &self.guard {
            // The region holds what a program overwrote on the disk.
            Err(GuardError::Wrong { here: true, .. }) | Ok(_) => Ok(examined),
            Err(e) => Err(refused(&self.backing, e.to_string())),
        }
    }

    /// True if its guard is up, so that the bare disk cannot be mounted.
    /// The error is its fault, in words.
    pub fn is_guarded(&self) -> Result<bool, String> {
        self.guard.as_ref().map(|standing| standing.is_in_region()).map_err(ToString::to_string)
    }

    /// Refuses an older copy of the area; also where another program wrote over the guard, but not
    /// over its first sector.
    ///
    /// # Errors
    /// If the guard on home names a later generation than the area has.
    pub fn ensure_newest(&self) -> Result<(), ServeError> {
        let (area, guard) = (self.superblock.generation, self.named_generation);
        if guard > area {
            return Err(failed(&self.place)(AttachError::Older { area, guard }));
        }
        Ok(())
    }

    /// Repairs the area, and then a guard that [`Self::is_guarded`] refuses. Without `lose`, a
    /// repair that gives up any bytes writes nothing.
    ///
    /// # Errors
    /// As [`seekless_engine::repair`]; the area is an older copy, the disk is another one, or its
    /// guard cannot be repaired. Nothing was changed then, except that copies of the superblock may
    /// stand in their places again.
    pub fn repair(&mut self, lose: bool) -> Result<Repaired, ServeError> {
        // A repair advances the area's generation: an older copy would pass for the newest one.
        // Without the guard nobody knows.
        if let Err(GuardError::Device(e)) = &self.guard {
            return Err(refused(&self.backing, e.to_string()));
        }
        self.ensure_newest()?;
        let guard = self.guard_fault()?;
        let loses = guard.as_ref().is_some_and(|fault| fault.loses);
        let outdated = matches!(self.guard, Err(GuardError::Wrong { outdated: true, .. }));
        let area = if loses && outdated {
            // Before the guard stands again: a guard proves that nobody else wrote home.
            repair_outdated(&mut self.area, lose)
        } else if loses && !lose {
            // A user who allows the loss allows all of it.
            repair_report(&mut self.area).map(Repair::WouldLose)
        } else {
            repair(&mut self.area, lose)
        };
        let mut area = area.map_err(failed(&self.place))?;
        if self.restored {
            let (Repair::Done(report) | Repair::WouldLose(report) | Repair::Stopped(report, _)) =
                &mut area;
            let what = "a copy of the superblock was found elsewhere and written to its places";
            let what = what.to_owned();
            report.mended.insert(0, Finding { loss: false, perhaps: false, what });
        }
        let goes_on = guard.is_some() && matches!(area, Repair::Done(_));
        let error = if goes_on { self.repair_guard(lose).err() } else { None };
        Ok(Repaired { restored: self.restored, area, guard, error })
    }

    /// The fault of the guard, if there is one that a repair can end; writes nothing.
    fn guard_fault(&self) -> Result<Option<GuardFault>, ServeError> {
        match (self.home.guard(), &self.guard) {
            (Some(region), Err(_)) => {
                self.is_home(false)?;
                region.fault(&self.home).map_err(|e| self.guard_failed(&self.place, e))
            }
            _ => Ok(None),
        }
    }

    /// Repairs the guard of a repaired area. Guard pages that are written name its generation: copies
    /// from before a change of the area are older ones then.
    fn repair_guard(&mut self, lose: bool) -> Result<(), ServeError> {
        let repaired = read_superblock(&mut self.area, Lba(0));
        self.superblock = repaired.map_err(failed(&self.place))?.superblock;
        let Some(region) = self.home.guard() else { return Ok(()) };
        let repaired = region.repair(&self.home, self.superblock.generation, lose);
        repaired.map(drop).map_err(|e| self.guard_failed(&self.place, e))
    }

    fn guard_failed(&self, at: &Path, error: GuardError) -> ServeError {
        match error {
            GuardError::Device(e) => failed(at)(e),
            GuardError::Wrong { why, .. } => refused(&self.backing, why),
        }
    }

    /// The proven state of home and of its guard; `to_drain` if the area is only opened for a
    /// drain.
    fn proof(&self, to_drain: bool) -> Proof {
        let guard = match &self.guard {
            _ if self.superblock.inside => HomeGuard::SameDevice,
            Ok(standing) if standing.is_in_region() => HomeGuard::Up(self.named_generation),
            Ok(_) if self.home.guard().is_some() => HomeGuard::Down,
            Ok(_) => HomeGuard::Missing,
            Err(_) => HomeGuard::Down,
        };
        Proof { stamp: self.stamp(), guard, to_drain }
    }

    /// Free space of the ext2, ext3 or ext4 file system at home.
    pub(crate) fn free_in_ext(&mut self) -> Result<Vec<Extent>, ServeError> {
        let found = crate::ext::free(&mut self.home);
        found.map_err(|e| refused(&self.backing, format!("the free space is not known: {e}")))
    }

    fn stamp(&self) -> [u8; 32] {
        self.own_stamp().unwrap_or_else(|| self.home.stamp())
    }

    /// Refuses a disk that the area was not made for.
    fn is_home(&self, moved: bool) -> Result<(), ServeError> {
        let s = &self.superblock;
        let (is, was) = (identity::label(&self.backing), s.label.as_str());
        if !s.inside && !moved && !identity::is_of(&self.backing, was) {
            let why = format!(
                "the area {} was made for '{was}', and this is '{is}'; if it is the same disk under a new name, give --moved",
                self.place.display()
            );
            return Err(refused(&self.backing, why));
        }
        let (expected, found) = (s.home_capacity, self.found);
        if expected != found {
            return Err(failed(&self.backing)(AttachError::Capacity { expected, found }));
        }
        Ok(())
    }

    /// After a kill, the last writes may be only in the host's memory. If a flush failed, these
    /// bytes stay in memory and never reach the area. From now on, reads return the bytes that a
    /// power cut would leave.
    fn ask_the_medium(&mut self) -> Result<(), ServeError> {
        self.area.flush().map_err(failed(&self.place))?;
        self.area.forget_cached();
        Ok(())
    }

    /// An error if the device of the area refused a flush: then its bytes may be those of the
    /// host's memory alone.
    pub fn ensure_flushed(&mut self) -> Result<(), ServeError> {
        self.unflushed.take().map_or(Ok(()), Err)
    }

    /// The area, as a device.
    pub fn area(&mut self) -> &mut dyn Device {
        &mut self.area
    }

    /// Its superblock at opening.
    pub const fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The file or device of the area.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Current size of home.
    pub const fn home_capacity(&self) -> Sectors {
        self.found
    }

    /// A device that begins with a page of seekless is used only through seekless, like the members
    /// of a RAID: an orderly detach is enough proof. Times of change would prove nothing, because
    /// writes to the area also change them.
    pub(crate) fn own_stamp(&self) -> Option<[u8; 32]> {
        let uuid = self.superblock.uuid.0;
        let mut stamp = [0; 32];
        stamp[..16].copy_from_slice(&uuid);
        self.superblock.inside.then_some(stamp)
    }

    /// Attaches: recovers the area, and marks it as in use. If the area may hold the only copy of
    /// some data, the guard goes up. `moved`: home may have another name than before. `to_drain`: a
    /// drain needs no space for a guard.
    pub(crate) fn attach(
        &mut self,
        config: Config,
        moved: bool,
        to_drain: bool,
    ) -> Result<(Engine, AttachReport), ServeError> {
        self.is_home(moved)?;
        if let Err(e) = &self.guard {
            // A repair of one repairs the other too.
            let why = match examine(&mut self.area) {
                Ok(_) => e.to_string(),
                Err(of_area) => format!("{e}. Its area is at fault too: {of_area}"),
            };
            return Err(refused(&self.backing, why));
        }
        self.ask_the_medium()?;
        let config = Config { capacity: self.found, ..config };
        let proof = self.proof(to_drain);
        let attached = attach(&mut self.area, config, &proof);
        let (engine, report) = attached.map_err(|error| match error {
            AttachError::NoGuard => refused(&self.place, NO_ROOM),
            error => failed(&self.place)(error),
        })?;
        if let Some(region) = self.home.guard() {
            // The area's generation is durable: now the guard may name it.
            let named = region.settle(&self.home).and_then(|standing| {
                region.name_generation(&self.home, report.generation).map(|()| standing)
            });
            let moved = named.and_then(|standing| match standing {
                Standing::Down if report.needs_guard => region.put_up(&self.home),
                _ => Ok(()),
            });
            moved.map_err(|e| self.guard_failed(&self.backing, e))?;
        }
        Ok((engine, report))
    }
}

/// An area of this length in a file or device, which may lie on home's disk.
fn area_beside(
    place: &Opened,
    len: Sectors,
    home: &Disk,
    (backing, path): (&Path, &Path),
) -> Result<Disk, ServeError> {
    let area = part(&place.fd, &[(0, len.bytes().0)])?;
    let shares = identity::share_a_disk(backing, path);
    Ok(if shares { area.on_device_of(home.flushes()) } else { area })
}

/// The guard region behind an area.
fn region_beside(
    place: &Opened,
    path: &Path,
    area: &Disk,
    keys: (AreaId, Sectors),
) -> Result<Region, ServeError> {
    let name = tail(&path.canonicalize().unwrap_or_else(|_| path.to_owned()));
    let fd = OpenFile::reopened(&place.fd).map_err(cannot("open the area again"))?;
    let region = Region::new(fd, area.capacity().bytes().0, keys, name);
    Ok(region.on_device_of(area.flushes()))
}

/// The state of the guard, and the generation of the area that it names.
fn state_of_guard(region: &Region, home: &Disk) -> (Result<Standing, GuardError>, u64) {
    let standing = region.look(home);
    match region.named_generation(home) {
        Ok(named) => (standing, named),
        // Without this name an older copy of the area could pass for the newest one.
        Err(e) => (Err(e), 0),
    }
}

/// The end of a path, which says more than its beginning.
fn tail(path: &Path) -> Label {
    let text = path.to_string_lossy();
    let from = (text.len().saturating_sub(64)..=text.len()).find(|&i| text.is_char_boundary(i));
    Label::new(text.get(from.unwrap_or(0)..).unwrap_or_default())
}

/// The superblock of an area inside its device; `first` is its copy or the locator.
fn superblock_inside(
    opened: &Opened,
    all: &mut Disk,
    first: &Page,
    backing: &Path,
) -> Result<Superblock, ServeError> {
    match Superblock::decode(first) {
        Ok(s) if !s.inside => {
            let why = format!(
                "is an area, made for '{}': name that disk, and give this area as --area",
                s.label.as_str()
            );
            Err(refused(backing, why))
        }
        Ok(locator) => {
            let (expected, found) =
                (locator.area_at.0.saturating_add(locator.area_size.0), all.capacity());
            if expected > found.0 {
                let expected = Sectors(expected);
                return Err(failed(backing)(AttachError::Shrunken { expected, found }));
            }
            let place = (locator.area_at.0 * SECTOR_BYTES, locator.area_size.bytes().0);
            let mut area = part(&opened.fd, &[place])?;
            let s = read_superblock(&mut area, Lba(0)).map_err(failed(backing))?.superblock;
            if s.uuid != locator.uuid || s.area_at != locator.area_at || !s.inside {
                let why = "its locator and its area do not belong together; nothing was changed; run `seekless volume check`";
                return Err(refused(backing, why));
            }
            Ok(s)
        }
        Err(FormatError::Kind { .. }) => {
            let why = "begins with a page of seekless that is no superblock; nothing was changed";
            Err(guard::of_page(first)
                .map_or_else(|| refused(backing, why), |page| guarded_by(backing, &page)))
        }
        // At the start of a device the locator is a superblock, which has a second copy.
        Err(_) => {
            let s = read_superblock(all, Lba(0)).map_err(failed(backing))?.superblock;
            if !s.inside || s.area_at.0 != 0 {
                return Err(refused(backing, "its first page is damaged; nothing was changed"));
            }
            Ok(s)
        }
    }
}

#[cfg(test)]
mod tests;
