//! Lasting areas, which outlive a server: how to make one on the served device or elsewhere, and
//! how to find it again. This module knows the place of every byte; the engine knows the meaning.
//!
//! An area inside its device takes part of the device, and the volume is smaller by that part. At
//! the device's start the area begins with its own superblock. In the middle or at the end, the
//! first [`HEAD`] of the device is for a locator: a copy of the first superblock, which says where
//! the area begins. In both cases the bare device starts with a page of seekless, so no program
//! sees a file system there. An area elsewhere is followed by the guard region, which can hold both
//! ends of a disk that must not be mounted bare.

mod lasting;
mod resize;

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use seekless_block::{
    Bytes, Device, DeviceError, Extent, Lba, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES, Sectors,
};
use seekless_engine::format::{
    AreaId, Geometry, GuardPage, Page, SEGMENT_PAGES_DEFAULT, Superblock, page_extent,
    read_superblock,
};
use seekless_engine::{AttachError, FormatOptions, Mode, format_area};
use seekless_host::{HostError, OpenFile, Opened, cannot, private, signature};
use twox_hash::XxHash3_64;

use crate::backend::files::Disk;
use crate::backend::guard;
use crate::backend::home::Home;
use crate::backend::remote::NbdUri;
use crate::backend::runs::Runs;
use crate::backend::{identity, loop_device, partition_grid};
use crate::error::ServeError;

pub use crate::backend::guard::repair::GuardFault;
pub(crate) use lasting::Store;
pub use lasting::{Lasting, Repaired, open};
pub use resize::resize;

/// Head of a device with the area in its middle or at its end: the locator and padding. The padding
/// aligns MiB boundaries of the volume to MiB boundaries of the device.
const HEAD: Sectors = Sectors((1 << 20) / SECTOR_BYTES);
/// Areas begin on a MiB boundary if possible.
const ALIGN: u64 = HEAD.0;
const MAGIC: &[u8] = b"SEEKLESS";
/// In place of the checksum of zeroes.
const BLANK: &str = "blank";
/// In place of the checksum of what cannot be read.
const UNREAD: &str = "unread";
/// Why a server refuses an area that may hold the only copy of some data.
pub(crate) const NO_ROOM: &str = "has no space for a guard, which keeps the bare disk from being mounted while the area holds newest data: run `seekless volume drain`, then `seekless volume resize`, which makes this space, then `seekless volume mode writeback`";

/// Place of an area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AreaPlacement {
    /// The device's beginning.
    Start,
    /// Its middle, which is not far from any other place.
    Middle,
    /// Its end.
    End,
    /// Another file or device; the backing stays unchanged.
    Beside(PathBuf),
}

/// Size of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// In bytes.
    Bytes(Bytes),
    /// Percent of the backing.
    Percent(u8),
}

/// Options for a new area.
#[derive(Clone, Debug)]
pub struct MakeOptions {
    /// Its place.
    pub at: AreaPlacement,
    /// Its size; by default the whole of an existing area device, else a twentieth of the backing.
    pub size: Option<Share>,
    /// Share of the write buffer in percent.
    pub write_buffer_percent: u8,
    /// Limit for replicas in the volume's discarded pages (FS2); `None` for copies in the area
    /// itself. With replicas, the rest of the area is the write buffer, and the default size of the
    /// area follows from the replicas.
    pub replicas: Option<Share>,
    /// Write-through or write-back.
    pub mode: Mode,
    /// First sector of the first whole page; by default it follows the backing's partitions.
    pub grid: Option<u8>,
    /// Overwrite a device that looks used.
    pub force: bool,
}

impl MakeOptions {
    /// An area of the usual size with a small write buffer, in write-through.
    pub fn new(at: AreaPlacement) -> Self {
        let (mode, write_buffer_percent) = (Mode::WriteThrough, 10);
        let (size, replicas, grid) = (None, None, None);
        Self { at, size, write_buffer_percent, replicas, mode, grid, force: false }
    }
}

/// A new area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its name.
    pub uuid: AreaId,
    /// Size of the volume that clients will see.
    pub volume: Sectors,
    /// Size of the area.
    pub area: Sectors,
    /// Its first sector on the backing, if it is there.
    pub at: Option<Lba>,
    /// Its division.
    pub geometry: Geometry,
    /// First sector of the first whole page.
    pub grid: u8,
}

impl Made {
    fn new(format: &FormatOptions, area: Sectors, geometry: Geometry) -> Self {
        let (uuid, grid) = (AreaId(format.uuid), format.grid.0 as u8);
        Self { uuid, volume: format.capacity, area, at: format.inside, geometry, grid }
    }
}

/// Makes an area for `backing`.
///
/// # Errors
/// The backing or the area's device is in use, or holds data and `force` is not set; there is no
/// space; the backing or the area's device cannot be opened or written.
pub fn make(backing: &Path, options: &MakeOptions) -> Result<Made, ServeError> {
    unused(backing)?;
    let mut uuid = [0; 16];
    rustix::rand::getrandom(&mut uuid, rustix::rand::GetRandomFlags::empty())
        .map_err(cannot("get random bytes"))?;
    match &options.at {
        AreaPlacement::Beside(path) => beside(backing, path, uuid, options),
        _ if NbdUri::in_path(backing).is_some() => Err(refused(
            backing,
            "is on another server: its area must be on this machine; give --at FILE-or-DEVICE",
        )),
        _ => inside(backing, uuid, options),
    }
}

fn refused(path: &Path, why: impl Into<String>) -> ServeError {
    HostError::Refused { path: path.to_owned(), why: why.into() }.into()
}

fn failed<E: Into<AttachError>>(path: &Path) -> impl FnOnce(E) -> ServeError {
    move |e| ServeError::Area { path: path.to_owned(), source: Box::new(e.into()) }
}

/// Refuses a regular file under a loop device, which cannot be claimed as a device can.
pub(crate) fn unused(path: &Path) -> Result<(), ServeError> {
    match loop_device::loop_device(path) {
        Some(device) => Err(HostError::InUse {
            path: path.to_owned(),
            by: format!("{} uses it (losetup -d {0})", device.display()),
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

/// For a device of `home` sectors, the limit for replicas, and the size of the area.
fn sizes(options: &MakeOptions, home: u64) -> (Sectors, u64) {
    let replicas = Sectors(options.replicas.map_or(0, |size| share(size, home)));
    let otherwise = match replicas.0 {
        0 => Share::Percent(5),
        _ => Share::Bytes(Geometry::area_beside(replicas).bytes()),
    };
    (replicas, share(options.size.unwrap_or(otherwise), home))
}

fn whole(opened: &Opened) -> Result<Disk, ServeError> {
    part(&opened.fd, &[(0, opened.bytes)])
}

/// The first page of a device; zeroes if the device is smaller.
fn first_page(disk: &mut Disk, path: &Path) -> Result<Page, ServeError> {
    let mut first: Page = [0; PAGE_BYTES as usize];
    if disk.capacity().0 >= PAGE_SECTORS {
        disk.read(page_extent(0, 1), &mut first).map_err(failed(path))?;
    }
    Ok(first)
}

fn part(fd: &OwnedFd, runs: &[(u64, u64)]) -> Result<Disk, ServeError> {
    Ok(Disk::new(fd.try_clone().map_err(cannot("duplicate a descriptor"))?, Runs::new(runs)))
}

/// The same, with flushes that report their own errors: see [`OpenFile::reopened`].
fn part_apart(fd: &OwnedFd, runs: &[(u64, u64)]) -> Result<Disk, ServeError> {
    let fd = OpenFile::reopened(fd).map_err(cannot("open the file again"))?;
    Ok(Disk::new(fd, Runs::new(runs)))
}

/// Refuses a device that looks used.
fn blank(
    disk: &mut Disk,
    path: &Path,
    options: &MakeOptions,
    hint: &str,
) -> Result<(), ServeError> {
    let found = signature::found(disk).map_err(failed(path))?;
    match found {
        Some(what) if !options.force => Err(refused(
            path,
            format!(
                "holds {what}; nothing was changed. {hint}--force overwrites it, and its contents are lost"
            ),
        )),
        _ => Ok(()),
    }
}

/// The content of an opened device, in words; `None` if it is blank.
pub(crate) fn holds(opened: &Opened, path: &Path) -> Result<Option<String>, ServeError> {
    signature::found(&mut whole(opened)?).map_err(failed(path))
}

/// Whether an opened device is blank. One that cannot be read is not: with an error in its place, a
/// damaged sector would keep every release from its end.
pub(crate) fn is_blank(opened: &Opened, path: &Path) -> bool {
    matches!(holds(opened, path), Ok(None))
}

/// What an opened device, or a partition of it, is a member of, in words: see [`signature::member`].
pub(crate) fn member(opened: &Opened, path: &Path) -> Result<Option<String>, ServeError> {
    let parts = identity::partitions(path).into_iter().map(|(from, sectors)| {
        ("has a partition that is", (from * SECTOR_BYTES, sectors * SECTOR_BYTES))
    });
    for (what, place) in [("is", (0, opened.bytes))].into_iter().chain(parts) {
        let mut disk = part(&opened.fd, &[place])?;
        let found = signature::member(&mut disk).map_err(failed(path))?;
        if let Some(name) = found {
            return Ok(Some(format!("{what} {name}")));
        }
    }
    Ok(None)
}

/// Both ends of a file or device of `end` sectors, where programs look for signatures, without the
/// first page.
fn ends(end: u64) -> [(u64, u64); 2] {
    let (look, first) = (HEAD.0.min(end), PAGE_SECTORS.min(end));
    [(first, look), (look.max(end - look), end)]
}

/// Words for the area that an opened file or device begins with: its id, and for each of its [`ends`]
/// a checksum, [`BLANK`] or [`UNREAD`]. The id alone is no proof: others may leave the first page as it
/// is, such as RAID, whose marks are in the second page or near the end. `None` if there is no area, or
/// its first page cannot be read: an area of which nothing is known stays.
pub(crate) fn known_by(opened: &Opened, path: &Path) -> Result<Option<Vec<String>>, ServeError> {
    let mut disk = whole(opened)?;
    let Ok(first) = first_page(&mut disk, path) else { return Ok(None) };
    let Some(superblock) = Superblock::decode(&first).ok().filter(|s| !s.inside) else {
        return Ok(None);
    };
    let mut words = vec![superblock.uuid.to_string()];
    for (from, to) in ends(disk.capacity().0) {
        let mut bytes = vec![0; ((to - from) * SECTOR_BYTES) as usize];
        let all = Extent::new(from, to - from);
        let read = if from < to { disk.read(all, &mut bytes) } else { Ok(()) };
        words.push(match read {
            // With an error in its place, a damaged sector would keep every release from its end.
            Err(_) => UNREAD.to_owned(),
            Ok(()) if bytes.iter().all(|b| *b == 0) => BLANK.to_owned(),
            Ok(()) => format!("{:016x}", XxHash3_64::oneshot(&bytes)),
        });
    }
    Ok(Some(words))
}

/// Whether these words are for the area that `noted` is for, or for a part of it that [`make_blank`]
/// has left.
pub(crate) fn is_left_of(words: &[String], noted: &str) -> bool {
    let noted: Vec<&str> = noted.split(' ').collect();
    let is = |(i, word): (usize, &String)| word == BLANK || noted.get(i) == Some(&word.as_str());
    words.iter().enumerate().all(is)
}

/// Makes a device blank again: zeroes at both [`ends`]. The first page goes last: if a power cut ends
/// this, the device begins with the id of its area until all else is blank.
pub(crate) fn make_blank(opened: &Opened, path: &Path) -> Result<(), ServeError> {
    let mut disk = whole(opened)?;
    let end = disk.capacity().0;
    let [head, tail] = ends(end);
    let mut work = || -> Result<(), DeviceError> {
        for (from, to) in [head, tail, (0, PAGE_SECTORS.min(end))] {
            if from < to {
                disk.write_zeroes(Extent::new(from, to - from))?;
            }
            disk.flush()?;
        }
        Ok(())
    };
    work().map_err(failed(path))
}

fn erase_ends(disk: &mut Disk) -> Result<(), DeviceError> {
    let (end, look) = (disk.capacity().0, HEAD.0.min(disk.capacity().0));
    disk.write_zeroes(Extent::new(0, look))?;
    disk.write_zeroes(Extent::new(end - look, look))?;
    disk.flush()
}

fn inside(backing: &Path, uuid: [u8; 16], options: &MakeOptions) -> Result<Made, ServeError> {
    let opened = Opened::path(backing, false)?;
    let device = opened.bytes / SECTOR_BYTES;
    let mut disk = whole(&opened)?;
    let hint = "To keep its contents, name another place for the area: --at FILE-or-DEVICE. ";
    let first = first_page(&mut disk, backing)?;
    if let Some(page) = guard::of_page(&first).filter(|_| !options.force) {
        return Err(guarded_by(backing, &page));
    }
    blank(&mut disk, backing, options, hint)?;
    let (replicas, len) = sizes(options, device);
    let head = if options.at == AreaPlacement::Start { 0 } else { HEAD.0 };
    let Some(room) = device.checked_sub(head + len).filter(|left| *left >= PAGE_SECTORS) else {
        return Err(refused(
            backing,
            format!(
                "has {}: an area of {}, {} before it and a volume do not fit; give a smaller --optimized",
                Sectors(device).bytes(),
                Sectors(len).bytes(),
                Sectors(head).bytes()
            ),
        ));
    };
    let at = match options.at {
        AreaPlacement::Start => 0,
        AreaPlacement::End => (device - len) / PAGE_SECTORS * PAGE_SECTORS,
        _ => (head + room / 2) / ALIGN * ALIGN,
    };
    // At the end, the rest of a page belongs to the area.
    let len = if options.at == AreaPlacement::End { device - at } else { len };
    let volume = Sectors(device - head - len);
    let mut format = format_options(options, uuid, backing);
    (format.capacity, format.inside, format.replicas) = (volume, Some(Lba(at)), replicas);
    let mut area = part(&opened.fd, &[(at * SECTOR_BYTES, len * SECTOR_BYTES)])?;
    // Before anything is overwritten.
    let geometry = format.geometry(area.capacity()).map_err(failed(backing))?;

    let mut work = || -> Result<(), AttachError> {
        // First, the signatures of earlier contents, at both ends, where programs look for them.
        erase_ends(&mut disk)?;
        format_area(&mut area, &format)?;
        if at > 0 {
            // The last write: the locator points to a complete area.
            let superblock = read_superblock(&mut disk, Lba(at))?.superblock;
            let mut page: Page = [0; PAGE_BYTES as usize];
            superblock.encode(&mut page);
            disk.write(page_extent(0, 1), &page)?;
            disk.flush()?;
        }
        Ok(())
    };
    work().map_err(failed(backing))?;
    Ok(Made::new(&format, Sectors(len), geometry))
}

fn beside(
    backing: &Path,
    path: &Path,
    uuid: [u8; 16],
    options: &MakeOptions,
) -> Result<Made, ServeError> {
    // Only read; the lock keeps other writers away.
    let home = Home::named(backing, false)?;
    let mut disk = home.whole()?;
    let volume = disk.capacity();
    let (replicas, size) = sizes(options, volume.0);
    check_home(backing, &mut disk, options.mode == Mode::WriteBack || replicas.0 > 0)?;
    if is_same(backing, path) {
        return Err(refused(path, "is the backing itself; name another file or device"));
    }
    let made = MadeFile::new(path, || (size + guard::REGION) * SECTOR_BYTES)?;
    if made.is_none() {
        unused(path)?;
    }
    let opened = Opened::path(path, false)?;
    let wanted = options.size.filter(|_| made.is_none()).map(|_| size);
    let len = length_beside(path, opened.bytes / SECTOR_BYTES, wanted)?;
    let mut all = whole(&opened)?;
    blank(&mut all, path, options, "")?;
    private::keep_private(path, &opened, true, home.owner())?;
    let mut format = format_options(options, uuid, backing);
    (format.capacity, format.replicas) = (volume, replicas);
    if options.grid.is_none() {
        format.grid = Sectors(partition_grid::partition_grid(&mut disk).map_err(failed(backing))?);
    }
    let mut area = part(&opened.fd, &[(0, len * SECTOR_BYTES)])?;
    // Before anything is overwritten.
    let geometry = format.geometry(area.capacity()).map_err(failed(path))?;
    if let Ok(former) = read_superblock(&mut all, Lba(0)) {
        // If the new first superblock were lost, the last ones of the former area must not count.
        for page in former.superblock.places() {
            all.write_zeroes(page_extent(page, 1)).map_err(failed(path))?;
        }
    }
    make_region(&opened.fd, len, AreaId(uuid), volume).map_err(failed(path))?;
    format_area(&mut area, &format).map_err(failed(path))?;
    if let Some(made) = made {
        made.keep(&opened)?;
    }
    Ok(Made::new(&format, Sectors(len), geometry))
}

/// Whether both paths lead to one file or device.
fn is_same(a: &Path, b: &Path) -> bool {
    let file = |path: &Path| path.metadata().map(|m| (m.dev(), m.ino())).ok();
    file(a).is_some_and(|a| file(b) == Some(a))
}

/// The sectors of an area on a file or device of `there` sectors: those wanted, or all but a guard's.
fn length_beside(path: &Path, there: u64, wanted: Option<u64>) -> Result<u64, ServeError> {
    let all = there.saturating_sub(guard::REGION) / PAGE_SECTORS * PAGE_SECTORS;
    let len = wanted.unwrap_or(all);
    if len + guard::REGION <= there {
        return Ok(len);
    }
    let [there, len, region] = [there, len, guard::REGION].map(|s| Sectors(s).bytes());
    let why = format!(
        "has {there}, less than {len} and {region} for a guard; give a smaller --optimized"
    );
    Err(refused(path, why))
}

/// Refuses a home that has an area already, or is too small for a guard that it needs.
fn check_home(backing: &Path, disk: &mut Disk, needs_guard: bool) -> Result<(), ServeError> {
    let first = first_page(disk, backing)?;
    if let Some(page) = guard::of_page(&first) {
        return Err(guarded_by(backing, &page));
    }
    if first.starts_with(MAGIC) {
        let why = "begins with a page of seekless: it has an area already, or is one; nothing was changed";
        return Err(refused(backing, why));
    }
    if needs_guard && disk.capacity().0 < guard::HOME_MIN {
        let why = format!(
            "has {}; a disk with its area elsewhere needs {} for the guard that keeps it from being mounted by itself in write-back and with replicas",
            disk.capacity().bytes(),
            Sectors(guard::HOME_MIN).bytes()
        );
        return Err(refused(backing, why));
    }
    Ok(())
}

/// Makes space for the guard of a home, behind an area of `len` sectors.
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
        "its newest data are in another area, {}, which was {}: name this area with --area; nothing was changed",
        page.uuid,
        page.place.as_str()
    );
    refused(backing, why)
}

/// Gives a file all its space: an area without space later could not keep its promises.
fn reserve(file: impl AsFd, bytes: u64) -> Result<(), Errno> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes.max(1)) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(e) => Err(e),
    }
}

/// A new file for an area; removed if the area is not finished.
struct MadeFile(Option<PathBuf>);

impl MadeFile {
    /// Makes the file, unless something is there, with all its space.
    fn new(path: &Path, bytes: impl FnOnce() -> u64) -> Result<Option<Self>, ServeError> {
        let fail = |what, source| HostError::Path { path: path.to_owned(), what, source };
        let file = match private::create_private(path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Ok(None),
            Err(e) => return Err(fail("make a file for the area", e).into()),
        };
        let made = Self(Some(path.to_owned()));
        let bytes = bytes();
        file.set_len(bytes).map_err(|e| fail("size the area", e))?;
        reserve(&file, bytes).map_err(|e| fail("reserve the area's space", e.into()))?;
        Ok(Some(made))
    }

    /// Keeps the file, and makes its directory entry durable.
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

#[cfg(test)]
mod tests;
