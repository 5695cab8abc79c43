//! Areas that outlast a server: making one, on the device it serves or elsewhere, and finding it again. Where
//! which byte stands is decided here; what the bytes mean is the engine's to know.
//!
//! An area within its device takes a part of it, and the volume is that much smaller. At the device's start it
//! begins with its own superblock. In the middle or at the end it leaves the first [`HEAD`] to a locator: a
//! copy of the superblock as it was made, which says where the area begins. Either way the bare device starts
//! with a page of ours, and nothing can take it for a file system. Behind an area elsewhere stands the guard region,
//! which has room for the two ends of a disk that must not be mounted by itself.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use seekless_block::{
    Bytes, Device, DeviceError, Extent, Lba, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES, Sectors,
};
use seekless_engine::format::{
    AreaFlags, AreaId, Contents, FormatError, Geometry, GuardPage, Label, Page,
    SEGMENT_PAGES_DEFAULT, Superblock, page_extent, read_superblock,
};
use seekless_engine::{
    AttachError, AttachReport, Config, Engine, Examined, FormatOptions, HomeGuard, Mode, Proof,
    attach, examine, format_area, resize_area,
};
use seekless_host::{HostError, Opened, cannot, signature};

use crate::backend::files::Disk;
use crate::backend::guard::{self, GuardError, Standing};
use crate::backend::region::Region;
use crate::backend::runs::Runs;
use crate::backend::{identity, loop_device, partition_grid};
use crate::error::ServeError;

/// Of a device whose area lies in its middle or at its end: the locator, and room so that what begins on a MiB
/// of the volume does so on the device.
pub const HEAD: Sectors = Sectors((1 << 20) / SECTOR_BYTES);
/// Areas begin on a MiB where they can.
const ALIGN: u64 = HEAD.0;
const MAGIC: &[u8] = b"SEEKLESS";
/// Why an area that may hold the only copy of something is not served.
pub(crate) const NO_ROOM: &str = "was made without room for a guard, and nothing would keep the bare disk from being mounted while this holds its newest data: run `seekless volume drain`, then `seekless volume resize`, which makes room, then `seekless volume mode writeback`";

/// Where an area goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// The device's beginning.
    Start,
    /// Its middle: from anywhere on the device it is not far.
    Middle,
    /// Its end.
    End,
    /// Another file or device; of the backing not one byte changes.
    Beside(PathBuf),
}

/// How large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// So much.
    Bytes(Bytes),
    /// Percent of the backing.
    Percent(u8),
}

/// What an area is made with.
#[derive(Clone, Debug)]
pub struct MakeOptions {
    /// Where.
    pub at: At,
    /// How large; by default all of an area's device that is there already, else a twentieth of the backing.
    pub size: Option<Share>,
    /// Share of the write buffer in percent.
    pub write_buffer_percent: u8,
    /// How much replicas may take of the volume's discarded pages (FS2); `None` for copies in the area itself. With replicas,
    /// all of the area that they leave is the write buffer, and its default size follows theirs.
    pub replicas: Option<Share>,
    /// Where writes go.
    pub mode: Mode,
    /// First sector of the first whole page; by default what the backing's partitions suggest.
    pub grid: Option<u8>,
    /// Overwrite what looks in use.
    pub force: bool,
}

/// An area as it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its name.
    pub uuid: AreaId,
    /// Size of the volume that clients will see.
    pub volume: Sectors,
    /// Size of the area.
    pub area: Sectors,
    /// Where it begins on the backing, if there.
    pub at: Option<Lba>,
    /// How it is divided.
    pub geometry: Geometry,
    /// First sector of the first whole page.
    pub grid: u8,
}

/// Makes an area for `backing`.
///
/// # Errors
/// Where the backing or the area's device is in use, or looks so and `force` is not given; where there is no room;
/// where either cannot be opened or written.
pub fn make(backing: &Path, options: &MakeOptions) -> Result<Made, ServeError> {
    unused(backing)?;
    let mut uuid = [0; 16];
    rustix::rand::getrandom(&mut uuid, rustix::rand::GetRandomFlags::empty())
        .map_err(cannot("get random bytes"))?;
    match &options.at {
        At::Beside(path) => beside(backing, path, uuid, options),
        At::Start | At::Middle | At::End => inside(backing, uuid, options),
    }
}

fn refused(path: &Path, why: impl Into<String>) -> ServeError {
    HostError::Refused { path: path.to_owned(), why: why.into() }.into()
}

fn failed(path: &Path) -> impl FnOnce(AttachError) -> ServeError {
    move |source| ServeError::Area { path: path.to_owned(), source: Box::new(source) }
}

/// A regular file under a loop device cannot be claimed as a device can.
fn unused(path: &Path) -> Result<(), ServeError> {
    match loop_device::loop_device(path) {
        Some(device) => Err(HostError::InUse {
            path: path.to_owned(),
            by: format!("{} stands on it (losetup -d {0})", device.display()),
        }
        .into()),
        None => Ok(()),
    }
}

fn share(size: Share, of: u64) -> u64 {
    let sectors = match size {
        Share::Bytes(bytes) => bytes.0 / SECTOR_BYTES,
        Share::Percent(percent) => of / 100 * u64::from(percent),
    };
    sectors / PAGE_SECTORS * PAGE_SECTORS
}

fn format_options(options: &MakeOptions, uuid: [u8; 16], backing: &Path) -> FormatOptions {
    FormatOptions {
        uuid,
        capacity: Sectors(0),
        inside: None,
        grid: Sectors(options.grid.unwrap_or(0).into()),
        mode: options.mode,
        segment_pages: SEGMENT_PAGES_DEFAULT,
        write_buffer_percent: options.write_buffer_percent,
        replicas: Sectors(0),
        label: identity::label(backing),
    }
}

/// Of a device of `home` sectors, how much replicas may take, and how large the area beside them is.
fn sizes(options: &MakeOptions, home: u64) -> (Sectors, u64) {
    let replicas = Sectors(options.replicas.map_or(0, |size| share(size, home)));
    let otherwise = match replicas.0 {
        0 => Share::Percent(5),
        _ => Share::Bytes(Geometry::area_beside(replicas).bytes()),
    };
    (replicas, share(options.size.unwrap_or(otherwise), home))
}

/// The whole of an opened file as a device.
fn whole(opened: &Opened) -> Result<Disk, ServeError> {
    part(&opened.fd, &[(0, opened.bytes)])
}

fn part(fd: &OwnedFd, runs: &[(u64, u64)]) -> Result<Disk, ServeError> {
    Ok(Disk::new(fd.try_clone().map_err(cannot("duplicate a descriptor"))?, Runs::new(runs)))
}

/// Refuses what looks in use.
fn blank(
    disk: &mut Disk,
    path: &Path,
    options: &MakeOptions,
    hint: &str,
) -> Result<(), ServeError> {
    let found = signature::found(disk).map_err(|e| failed(path)(e.into()))?;
    match found {
        Some(what) if !options.force => Err(refused(
            path,
            format!(
                "holds {what}; nothing was changed. {hint}--force overwrites it, and what it held is lost"
            ),
        )),
        _ => Ok(()),
    }
}

fn inside(backing: &Path, uuid: [u8; 16], options: &MakeOptions) -> Result<Made, ServeError> {
    let opened = Opened::path(backing, false)?;
    let device = opened.bytes / SECTOR_BYTES;
    let mut disk = whole(&opened)?;
    let hint = "To keep it, put the area elsewhere: --at FILE-or-DEVICE. ";
    let mut first: Page = [0; PAGE_BYTES as usize];
    if device >= PAGE_SECTORS {
        disk.read(page_extent(0, 1), &mut first).map_err(|e| failed(backing)(e.into()))?;
    }
    if let Some(page) = guard::of_page(&first).filter(|_| !options.force) {
        return Err(guarded_by(backing, &page));
    }
    blank(&mut disk, backing, options, hint)?;
    let (replicas, len) = sizes(options, device);
    let head = if options.at == At::Start { 0 } else { HEAD.0 };
    let Some(room) = device.checked_sub(head + len).filter(|left| *left >= PAGE_SECTORS) else {
        return Err(refused(
            backing,
            format!(
                "has {}, no room for an area of {}, {} before it and a volume; give a smaller --optimized",
                Sectors(device).bytes(),
                Sectors(len).bytes(),
                Sectors(head).bytes()
            ),
        ));
    };
    let at = match options.at {
        At::Start => 0,
        At::End => (device - len) / PAGE_SECTORS * PAGE_SECTORS,
        _ => (head + room / 2) / ALIGN * ALIGN,
    };
    // At the end, what is left of a page belongs to the area.
    let len = if options.at == At::End { device - at } else { len };
    let volume = Sectors(device - head - len);
    let mut format = format_options(options, uuid, backing);
    (format.capacity, format.inside, format.replicas) = (volume, Some(Lba(at)), replicas);
    let mut area = part(&opened.fd, &[(at * SECTOR_BYTES, len * SECTOR_BYTES)])?;
    let geometry = divided(&area, &format).map_err(failed(backing))?;

    let mut work = || -> Result<(), AttachError> {
        // Marks of what was there go first, at both ends, where programs look for them.
        let look = HEAD.0.min(device);
        disk.write_zeroes(Extent::new(0, look))?;
        disk.write_zeroes(Extent::new(device - look, look))?;
        disk.flush()?;
        format_area(&mut area, &format)?;
        if at > 0 {
            // Last: what it points to is whole.
            let superblock = read_superblock(&mut disk, Lba(at))?.superblock;
            let mut page: Page = [0; PAGE_BYTES as usize];
            superblock.encode(&mut page);
            disk.write(page_extent(0, 1), &page)?;
            disk.flush()?;
        }
        Ok(())
    };
    work().map_err(failed(backing))?;
    let (at, grid, area) = (Some(Lba(at)), format.grid.0 as u8, Sectors(len));
    Ok(Made { uuid: AreaId(uuid), volume, area, at, geometry, grid })
}

/// Whether the area can be divided, before anything is overwritten.
fn divided(area: &Disk, format: &FormatOptions) -> Result<Geometry, AttachError> {
    Ok(format.geometry(area.capacity())?)
}

fn beside(
    backing: &Path,
    path: &Path,
    uuid: [u8; 16],
    options: &MakeOptions,
) -> Result<Made, ServeError> {
    // Only looked at; a writer's lock keeps others away meanwhile.
    let home = Opened::path(backing, false)?;
    let volume = Sectors(home.bytes / SECTOR_BYTES);
    let mut disk = whole(&home)?;
    let mut first: Page = [0; PAGE_BYTES as usize];
    if volume.0 >= PAGE_SECTORS {
        disk.read(page_extent(0, 1), &mut first).map_err(|e| failed(backing)(e.into()))?;
    }
    if let Some(page) = guard::of_page(&first) {
        return Err(guarded_by(backing, &page));
    }
    if first.starts_with(MAGIC) {
        let why = "begins with a page of seekless: it has an area already, or is one; nothing was changed";
        return Err(refused(backing, why));
    }
    let (replicas, size) = sizes(options, volume.0);
    if (options.mode == Mode::WriteBack || replicas.0 > 0) && volume.0 < guard::HOME_MIN {
        return Err(refused(backing, too_small_to_guard(volume)));
    }
    let is_same = || {
        let (a, b) = (backing.metadata().ok()?, path.metadata().ok()?);
        Some((a.dev(), a.ino()) == (b.dev(), b.ino()))
    };
    if is_same() == Some(true) {
        return Err(refused(path, "is the backing itself; name another file or device"));
    }
    let made = MadeFile::new(path, || (size + guard::REGION) * SECTOR_BYTES)?;
    if made.is_none() {
        unused(path)?;
    }
    let opened = Opened::path(path, false)?;
    let there = opened.bytes / SECTOR_BYTES;
    let len = match (options.size, &made) {
        (Some(_), None) => size,
        _ => there.saturating_sub(guard::REGION) / PAGE_SECTORS * PAGE_SECTORS,
    };
    if len + guard::REGION > there {
        return Err(refused(
            path,
            format!(
                "has {}, less than {} and {} for a guard; give a smaller --optimized",
                Sectors(there).bytes(),
                Sectors(len).bytes(),
                Sectors(guard::REGION).bytes(),
            ),
        ));
    }
    let mut all = whole(&opened)?;
    blank(&mut all, path, options, "")?;
    let mut format = format_options(options, uuid, backing);
    (format.capacity, format.replicas) = (volume, replicas);
    if options.grid.is_none() {
        format.grid = Sectors(
            partition_grid::partition_grid(&mut disk).map_err(|e| failed(backing)(e.into()))?,
        );
    }
    let mut area = part(&opened.fd, &[(0, len * SECTOR_BYTES)])?;
    let geometry = divided(&area, &format).map_err(failed(path))?;
    make_region(&opened.fd, len, AreaId(uuid), volume).map_err(failed(path))?;
    format_area(&mut area, &format).map_err(failed(path))?;
    if let Some(made) = made {
        made.keep(&opened)?;
    }
    let (grid, area) = (format.grid.0 as u8, Sectors(len));
    Ok(Made { uuid: AreaId(uuid), volume, area, at: None, geometry, grid })
}

/// Room for the guard of a home, behind an area of `len` sectors.
fn make_region(fd: &OwnedFd, len: u64, uuid: AreaId, home: Sectors) -> Result<(), AttachError> {
    let fd = rustix::io::fcntl_dupfd_cloexec(fd, 0).map_err(|e| DeviceError::Io {
        op: "opening",
        extent: page_extent(len / PAGE_SECTORS, 1),
        source: e.into(),
    })?;
    let at = (len * SECTOR_BYTES, guard::REGION * SECTOR_BYTES);
    Ok(guard::make(&mut Disk::new(fd, Runs::new(&[at])), uuid, home)?)
}

fn guarded_by(backing: &Path, page: &GuardPage) -> ServeError {
    let why = format!(
        "its newest data stand in an area elsewhere, {}, which was {}: name it with --area; nothing was changed",
        page.uuid,
        page.place.as_str()
    );
    refused(backing, why)
}

fn too_small_to_guard(volume: Sectors) -> String {
    format!(
        "has {}; a disk with its area elsewhere needs {} for the guard that keeps it from being mounted by itself in write-back and with replicas",
        volume.bytes(),
        Sectors(guard::HOME_MIN).bytes()
    )
}

/// A file made for an area; removed where that comes to nothing.
struct MadeFile(Option<PathBuf>);

impl MadeFile {
    /// Makes it, unless something is there. All its space is taken at once: an area that finds no room later
    /// could not keep what it has promised.
    fn new(path: &Path, bytes: impl FnOnce() -> u64) -> Result<Option<Self>, ServeError> {
        let fail = |what, source| HostError::Path { path: path.to_owned(), what, source };
        let file = match File::create_new(path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Ok(None),
            Err(e) => return Err(fail("make a file for the area", e).into()),
        };
        let made = Self(Some(path.to_owned()));
        let bytes = bytes();
        file.set_len(bytes).map_err(|e| fail("size the area", e))?;
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes.max(1)) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Some(made)),
            Err(e) => Err(fail("reserve the area's space", e.into()).into()),
        }
    }

    /// The file stays, and its directory knows it for good.
    fn keep(mut self, opened: &Opened) -> Result<(), ServeError> {
        if let Some(dir) = &opened.dir {
            let sync = || File::open(dir)?.sync_all();
            sync().map_err(cannot("make the area's directory entry durable"))?;
        }
        self.0 = None;
        Ok(())
    }
}

impl Drop for MadeFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// What a backing is, together with the area named for it, if any.
pub(crate) enum Store {
    /// A disk without an area that lasts.
    Plain(Opened),
    /// A volume and its area.
    Lasting(Box<Lasting>),
}

/// Opens a volume and its area without attaching it, `write` to mend it. Nobody else has it meanwhile.
///
/// # Errors
/// Where either cannot be opened, is in use, or holds no area.
pub fn open(backing: &Path, area: Option<&Path>, write: bool) -> Result<Lasting, ServeError> {
    let opened = Opened::path(backing, !write)?;
    match Store::open(opened, backing, area, !write)? {
        Store::Lasting(lasting) => Ok(*lasting),
        Store::Plain(_) => Err(refused(
            backing,
            "no area lies within it: name the one that was made for it with --area, or make one with `seekless volume format`",
        )),
    }
}

/// Divides the area anew for the sizes that its home and its place have now; its copies are dropped. An area
/// within its device keeps its own size, since moving it would move home.
///
/// Nothing may stand in the area alone: home is complete before, and stays so. The superblocks go first; a crash
/// before they are written anew leaves no area, and `make` makes another.
///
/// # Errors
/// Where it was not drained and detached in order, where the new size has no room for it, where it fails.
pub fn resize(
    backing: &Path,
    area: Option<&Path>,
    size: Option<Bytes>,
) -> Result<Made, ServeError> {
    let lasting = open(backing, area, true)?;
    let s = &lasting.superblock;
    if s.flags.contains(AreaFlags::DIRTY) || !s.flags.contains(AreaFlags::CLEAN) {
        let why = "is not drained and detached: the area may hold the only copy of something; nothing was changed";
        return Err(refused(&lasting.place, why));
    }
    if !matches!(lasting.guard, Ok(Standing::Down | Standing::Nowhere)) {
        let why = format!(
            "its guard is up or half up: give the disk the size that it had, {}, and run `seekless volume drain` first; nothing was changed",
            s.home_capacity.bytes()
        );
        return Err(refused(backing, why));
    }
    // As it was divided.
    let contents = s.geometry().map(|g| g.contents(s.area_size));
    let (write_buffer_percent, replicas) = match contents {
        Ok(Contents::Copies { write_buffer_percent }) => (write_buffer_percent, Sectors(0)),
        Ok(Contents::Replicas { most }) => (0, most),
        Err(_) => (0, Sectors(0)),
    };
    let mut format = FormatOptions {
        uuid: s.uuid.0,
        capacity: lasting.found,
        inside: s.inside.then_some(s.area_at),
        grid: Sectors(s.grid.into()),
        mode: s.mode,
        segment_pages: s.segment_pages,
        write_buffer_percent,
        replicas,
        label: identity::label(backing),
    };
    let before = s.clone();
    let (geometry, area, volume);
    if s.inside {
        if size.is_some_and(|b| b != s.area_size.bytes()) {
            let why = "an area within its device keeps its size, since another would move the volume's data; nothing was changed";
            return Err(refused(backing, why));
        }
        let device = device_sectors(backing)?;
        let head = if s.area_at.0 == 0 { 0 } else { HEAD.0 };
        volume = Sectors(device - head - s.area_size.0);
        format.capacity = volume;
        let mut disk = lasting.area;
        area = s.area_size;
        geometry = resize_area(&mut disk, &format, &before).map_err(failed(backing))?;
    } else {
        let Lasting { place, area: disk, mut home, .. } = lasting;
        // The lock goes with these two, and comes back with the next line; that of home stays.
        home.forget_guard();
        drop(disk);
        let grown = Opened::path(&place, false)?;
        let region = guard::REGION * SECTOR_BYTES;
        let wanted = size.map_or(grown.bytes.saturating_sub(region), |b| b.0);
        let wanted = wanted / PAGE_BYTES * PAGE_BYTES;
        let all = wanted + region;
        let is_file = grown.dir.is_some();
        let fail = |source: Errno| HostError::Path {
            path: place.clone(),
            what: "size the area",
            source: source.into(),
        };
        let mut disk = part(&grown.fd, &[(0, wanted)])?;
        divided(&disk, &format).map_err(failed(&place))?;
        if all > grown.bytes {
            if !is_file {
                let (expected, found) =
                    (Bytes(all).sectors_ceil(), Bytes(grown.bytes).sectors_ceil());
                return Err(failed(&place)(AttachError::Shrunken { expected, found }));
            }
            rustix::fs::ftruncate(&grown.fd, all).map_err(fail)?;
        }
        make_region(&grown.fd, wanted / SECTOR_BYTES, AreaId(format.uuid), format.capacity)
            .map_err(failed(&place))?;
        geometry = resize_area(&mut disk, &format, &before).map_err(failed(&place))?;
        if is_file && all < grown.bytes {
            rustix::fs::ftruncate(&grown.fd, all).map_err(fail)?;
        }
        area = Bytes(wanted).sectors_ceil();
        volume = format.capacity;
    }
    let (at, grid) = (format.inside, format.grid.0 as u8);
    Ok(Made { uuid: AreaId(format.uuid), volume, area, at, geometry, grid })
}

/// Size of a file or device that is open elsewhere.
fn device_sectors(path: &Path) -> Result<u64, ServeError> {
    let fail = |source| HostError::Path { path: path.to_owned(), what: "find its end", source };
    let mut file = File::open(path).map_err(fail)?;
    let end = std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).map_err(fail)?;
    Ok(end / SECTOR_BYTES)
}

/// A volume and its area, locked.
#[derive(Debug)]
pub struct Lasting {
    pub(crate) home: Disk,
    pub(crate) area: Disk,
    pub(crate) superblock: Superblock,
    backing: PathBuf,
    /// Where the area stands, for people.
    pub(crate) place: PathBuf,
    /// Sectors that home has now.
    found: Sectors,
    /// How its guard stood when it was opened.
    guard: Result<Standing, GuardError>,
}

impl Store {
    /// Finds the area of a backing: the one named, or the one within it.
    pub(crate) fn open(
        opened: Opened,
        backing: &Path,
        area: Option<&Path>,
        read_only: bool,
    ) -> Result<Self, ServeError> {
        let mut all = whole(&opened)?;
        let mut first: Page = [0; PAGE_BYTES as usize];
        if all.capacity().0 >= PAGE_SECTORS {
            all.read(page_extent(0, 1), &mut first).map_err(|e| failed(backing)(e.into()))?;
        }
        let ours = first.starts_with(MAGIC);
        match area {
            None if !ours => Ok(Self::Plain(opened)),
            None => Lasting::inside(&opened, all, &first, backing),
            Some(path) => Lasting::beside(&opened, all, &first, backing, path, read_only),
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
        let superblock = match Superblock::decode(first) {
            Ok(s) if !s.inside => {
                let why = format!(
                    "is an area, made for '{}': name that one, and this as its --area",
                    s.label.as_str()
                );
                return Err(refused(backing, why));
            }
            Ok(locator) => {
                let (expected, found) =
                    (locator.area_at.0.saturating_add(locator.area_size.0), all.capacity());
                if expected > found.0 {
                    let expected = Sectors(expected);
                    return Err(failed(backing)(AttachError::Shrunken { expected, found }));
                }
                let s = read_superblock(&mut all, locator.area_at)
                    .map_err(|e| failed(backing)(e.into()))?
                    .superblock;
                if s.uuid != locator.uuid || s.area_at != locator.area_at || !s.inside {
                    let why = "its locator and its area do not belong together; nothing was changed; run `seekless volume check`";
                    return Err(refused(backing, why));
                }
                s
            }
            Err(FormatError::Kind { .. }) => {
                let why =
                    "begins with a page of seekless that is no superblock; nothing was changed";
                return Err(guard::of_page(first)
                    .map_or_else(|| refused(backing, why), |page| guarded_by(backing, &page)));
            }
            // At the start of a device the locator is a superblock, and there is another copy of it.
            Err(_) => {
                let s = read_superblock(&mut all, Lba(0))
                    .map_err(|e| failed(backing)(e.into()))?
                    .superblock;
                if !s.inside || s.area_at.0 != 0 {
                    return Err(refused(backing, "its first page is damaged; nothing was changed"));
                }
                s
            }
        };
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
        let area = part(&opened.fd, &bytes([(at, len), (0, 0)]))?;
        let (backing, place) = (backing.to_owned(), backing.to_owned());
        let found = superblock.home_capacity;
        let guard = Ok(Standing::Nowhere);
        Ok(Store::Lasting(Box::new(Self { home, area, superblock, backing, place, found, guard })))
    }

    fn beside(
        opened: &Opened,
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
        let mut all = whole(&place)?;
        let superblock =
            read_superblock(&mut all, Lba(0)).map_err(|e| failed(path)(e.into()))?.superblock;
        if superblock.inside {
            return Err(refused(path, "holds an area and the disk it serves: serve it by itself"));
        }
        let (expected, found) = (superblock.area_size, all.capacity());
        if expected > found {
            return Err(failed(path)(AttachError::Shrunken { expected, found }));
        }
        let area = part(&place.fd, &[(0, expected.bytes().0)])?;
        let found = Sectors(opened.bytes / SECTOR_BYTES);
        let keys = (superblock.uuid, superblock.home_capacity);
        let (mut home, mut standing) = (home, Ok(Standing::Nowhere));
        if keys.1.0 >= guard::HOME_MIN {
            let name = tail(&path.canonicalize().unwrap_or_else(|_| path.to_owned()));
            let region = Region::new(place.fd, expected.bytes().0, keys, name);
            standing = region.look(&home);
            if !matches!(standing, Ok(Standing::Nowhere)) {
                home = home.with_guard(region);
            }
        }
        let (backing, place, guard) = (backing.to_owned(), path.to_owned(), standing);
        Ok(Store::Lasting(Box::new(Self { home, area, superblock, backing, place, found, guard })))
    }

    /// What the area holds, for whoever only reads; nothing is written.
    pub(crate) fn examine(&mut self) -> Result<Examined, ServeError> {
        let proof = self.proof(false);
        let examined = examine(&mut self.area).map_err(failed(&self.place))?;
        let examined = examined.doubting(&proof);
        let (expected, found) = (examined.superblock().home_capacity, self.found);
        if expected != found {
            return Err(failed(&self.backing)(AttachError::Capacity { expected, found }));
        }
        match &self.guard {
            // The region has what somebody wrote over.
            Err(GuardError::Wrong { here: true, .. }) | Ok(_) => Ok(examined),
            Err(e) => Err(refused(&self.backing, e.to_string())),
        }
    }

    /// Whether its guard is up, so that the bare disk cannot be mounted; or why that cannot be said.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn is_guarded(&self) -> Result<bool, String> {
        match &self.guard {
            Ok(standing) => Ok(standing.is_in_region()),
            Err(e) => Err(e.to_string()),
        }
    }

    /// Mends a guard that [`Self::is_guarded`] is not content with. What was wrong, and whether bytes that somebody
    /// wrote to the disk without its area are given up for it: those only where `lose`, else nothing is written.
    /// `None` where nothing was wrong.
    ///
    /// # Errors
    /// Where it cannot be mended, where the disk is another one by its name, or a device fails.
    pub fn repair_guard(&mut self, lose: bool) -> Result<Option<(String, bool)>, ServeError> {
        let wrong = |e: GuardError| match e {
            GuardError::Device(e) => failed(&self.place)(e.into()),
            GuardError::Wrong { why, .. } => refused(&self.backing, why),
        };
        match (self.home.guard(), &self.guard) {
            (Some(region), Err(_)) => {
                self.is_home(false)?;
                region.repair(&self.home, lose).map_err(wrong)
            }
            _ => Ok(None),
        }
    }

    /// What is known of home and of its guard; `to_drain` where the area is only to be brought home.
    fn proof(&self, to_drain: bool) -> Proof {
        let guard = match &self.guard {
            _ if self.superblock.inside => HomeGuard::SameDevice,
            Ok(standing) if standing.is_in_region() => HomeGuard::Up,
            Ok(_) if self.home.guard().is_some() => HomeGuard::Down,
            Ok(_) => HomeGuard::Missing,
            Err(_) => HomeGuard::Down,
        };
        Proof { stamp: self.stamp(), guard, to_drain }
    }

    /// What is free in the ext2, ext3 or ext4 file system at home.
    pub(crate) fn free_in_ext(&mut self) -> Result<Vec<Extent>, ServeError> {
        let found = crate::ext::free(&mut self.home);
        found.map_err(|e| refused(&self.backing, format!("what is free is not known: {e}")))
    }

    /// What can be proven of home.
    fn stamp(&self) -> [u8; 32] {
        let of_home = || identity::stamp(std::os::fd::AsFd::as_fd(&self.home));
        self.own_stamp().unwrap_or_else(of_home)
    }

    /// Refuses another disk than the area was made for.
    fn is_home(&self, moved: bool) -> Result<(), ServeError> {
        let s = &self.superblock;
        let (is, was) = (identity::label(&self.backing), s.label.as_str());
        if !s.inside && !moved && !identity::same(&is, was) {
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

    /// The area, as a device.
    pub fn area(&mut self) -> &mut dyn Device {
        &mut self.area
    }

    /// What its superblock said when it was opened.
    #[must_use]
    pub const fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The file or device that the area stands on.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Sectors of home as it is now.
    #[must_use]
    pub const fn home_capacity(&self) -> Sectors {
        self.found
    }

    /// A device that begins with a page of ours is used through us alone, as a RAID's members are through it: that
    /// the area was detached in order is proof enough. The times of its last change would prove nothing, since the
    /// area's own writes change them.
    pub(crate) fn own_stamp(&self) -> Option<[u8; 32]> {
        let uuid = self.superblock.uuid.0;
        let mut stamp = [0; 32];
        stamp[..16].copy_from_slice(&uuid);
        self.superblock.inside.then_some(stamp)
    }

    /// Attaches: what the area holds is recovered, and it is marked as in use; where it may hold the only copy of
    /// something the guard is put up. `moved`: the home may have another name than when the area was made. `to_drain`: it is
    /// only to be brought home, which needs no room for a guard.
    pub(crate) fn attach(
        &mut self,
        config: Config,
        moved: bool,
        to_drain: bool,
    ) -> Result<(Engine, AttachReport), ServeError> {
        self.is_home(moved)?;
        if let Err(e) = &self.guard {
            return Err(refused(&self.backing, e.to_string()));
        }
        let config = Config { capacity: self.found, ..config };
        let proof = self.proof(to_drain);
        let attached = attach(&mut self.area, config, &proof);
        let (engine, report) = attached.map_err(|error| match error {
            AttachError::NoGuard => refused(&self.place, NO_ROOM),
            error => failed(&self.place)(error),
        })?;
        if let Some(region) = self.home.guard() {
            let moved = region.settle(&self.home).and_then(|standing| match standing {
                Standing::Down if report.needs_guard => region.put_up(&self.home),
                _ => Ok(()),
            });
            moved.map_err(|e| match e {
                GuardError::Device(e) => failed(&self.backing)(e.into()),
                GuardError::Wrong { why, .. } => refused(&self.backing, why),
            })?;
        }
        Ok((engine, report))
    }
}

/// The end of a path, which says more than its beginning.
fn tail(path: &Path) -> Label {
    let text = path.to_string_lossy();
    let from = (text.len().saturating_sub(64)..=text.len()).find(|&i| text.is_char_boundary(i));
    Label::new(text.get(from.unwrap_or(0)..).unwrap_or_default())
}
