//! Areas that outlast a server: making one, on the device it serves or elsewhere, and finding it again. Where
//! which byte stands is decided here; what the bytes mean is the engine's to know.
//!
//! An area within its device takes a part of it, and the volume is that much smaller. At the device's start it
//! begins with its own superblock. In the middle or at the end it leaves the first [`HEAD`] to a locator: a
//! copy of the superblock as it was made, which says where the area begins. Either way the bare device starts
//! with a page of ours, and nothing can take it for a file system. Behind an area elsewhere stands the guard region,
//! which has room for the two ends of a disk that must not be mounted by itself.

mod lasting;
mod resize;

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
    AreaId, Geometry, GuardPage, Page, SEGMENT_PAGES_DEFAULT, page_extent, read_superblock,
};
use seekless_engine::{AttachError, FormatOptions, Mode, format_area};
use seekless_host::{HostError, Opened, cannot, signature};

use crate::backend::files::Disk;
use crate::backend::guard;
use crate::backend::runs::Runs;
use crate::backend::{identity, loop_device, partition_grid};
use crate::error::ServeError;

pub(crate) use lasting::Store;
pub use lasting::{Lasting, open};
pub use resize::resize;

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
