//! Divides an area again after a change of its size or of its device's size.

use std::fs::File;
use std::path::Path;

use rustix::io::Errno;
use seekless_block::{Bytes, Device as _, PAGE_BYTES, SECTOR_BYTES, Sectors};
use seekless_engine::format::{AreaFlags, AreaId};
use seekless_engine::{AttachError, FormatOptions, Resizable, resizable, resize_area};

use seekless_host::{HostError, Opened};

use super::lasting::{Lasting, open};
use super::{HEAD, Made, failed, make_region, part, refused, reserve};
use crate::backend::guard::{self, Standing};
use crate::backend::identity;
use crate::error::ServeError;

/// Divides the area again for the current sizes of its home and its place; its copies are dropped.
/// An area inside its device keeps its size, because another size would move home.
///
/// Home must hold all newest data before the call, and holds all newest data after the call. The
/// function erases the superblocks first. A crash before the new superblocks are written leaves no
/// area: `make` can then make a new area.
///
/// # Errors
/// The area was not drained and detached, has no space in the new size, or cannot be written.
pub fn resize(
    backing: &Path,
    area: Option<&Path>,
    size: Option<Bytes>,
) -> Result<Made, ServeError> {
    let mut lasting = open(backing, area, true)?;
    let s = &lasting.superblock;
    if s.flags.contains(AreaFlags::DIRTY) || !s.flags.contains(AreaFlags::CLEAN) {
        let why = "is not drained and detached: the area may hold the only copy of some data; nothing was changed";
        return Err(refused(&lasting.place, why));
    }
    match &lasting.guard {
        Ok(Standing::Down | Standing::Nowhere) => {}
        // On a disk of another size the guard's last pages are not where they were.
        Err(e) if lasting.found == s.home_capacity => return Err(refused(backing, e.to_string())),
        _ => {
            let why = format!(
                "its guard is not down: give the disk its former size, {}, and run `seekless volume drain` first; nothing was changed",
                s.home_capacity.bytes()
            );
            return Err(refused(backing, why));
        }
    }
    // Before anything is written: a smaller area does not have all of the former one.
    let before = resizable(&mut lasting.area, s).map_err(failed(&lasting.place))?;
    let parts = s.geometry().map(|g| g.contents(s.area_size).parts());
    let (write_buffer_percent, replicas) = parts.unwrap_or((0, Sectors(0)));
    let format = FormatOptions {
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
    if s.inside {
        resize_inside(lasting, &before, format, size)
    } else {
        resize_beside(lasting, &before, &format, size)
    }
}

fn resize_inside(
    lasting: Lasting,
    before: &Resizable,
    mut format: FormatOptions,
    size: Option<Bytes>,
) -> Result<Made, ServeError> {
    let Lasting { area: mut disk, superblock, backing, .. } = lasting;
    let area = superblock.area_size;
    if size.is_some_and(|b| b != area.bytes()) {
        let why = "an area within its device keeps its size: another size would move the volume's data; nothing was changed";
        return Err(refused(&backing, why));
    }
    let head = if superblock.area_at.0 == 0 { 0 } else { HEAD.0 };
    format.capacity = Sectors(device_sectors(&backing)? - head - area.0);
    let geometry = resize_area(&mut disk, &format, before).map_err(failed(&backing))?;
    Ok(Made::new(&format, area, geometry))
}

fn resize_beside(
    lasting: Lasting,
    before: &Resizable,
    format: &FormatOptions,
    size: Option<Bytes>,
) -> Result<Made, ServeError> {
    let Lasting { place, area: disk, mut home, .. } = lasting;
    // The lock of the area ends here, and the next line takes it again. The lock of home stays.
    home.forget_guard();
    drop(disk);
    let grown = Opened::path(&place, false)?;
    let region = guard::REGION * SECTOR_BYTES;
    let wanted = size.map_or(grown.bytes.saturating_sub(region), |b| b.0);
    let wanted = wanted / PAGE_BYTES * PAGE_BYTES;
    let all = wanted + region;
    let is_file = grown.dir.is_some();
    let fail = |what| {
        let path = place.clone();
        move |source: Errno| HostError::Path { path, what, source: source.into() }
    };
    let set_len = |bytes| rustix::fs::ftruncate(&grown.fd, bytes).map_err(fail("size the area"));
    let mut disk = part(&grown.fd, &[(0, wanted)])?;
    // Before anything is overwritten.
    format.geometry(disk.capacity()).map_err(failed(&place))?;
    if all > grown.bytes {
        if !is_file {
            let (expected, found) = (Bytes(all).sectors_ceil(), Bytes(grown.bytes).sectors_ceil());
            return Err(failed(&place)(AttachError::Shrunken { expected, found }));
        }
        set_len(all)?;
    }
    if is_file && let Err(error) = reserve(&grown.fd, all) {
        set_len(grown.bytes)?;
        return Err(fail("reserve the area's space")(error).into());
    }
    make_region(&grown.fd, wanted / SECTOR_BYTES, AreaId(format.uuid), format.capacity)
        .map_err(failed(&place))?;
    let geometry = resize_area(&mut disk, format, before).map_err(failed(&place))?;
    if is_file && all < grown.bytes {
        set_len(all)?;
    }
    Ok(Made::new(format, Bytes(wanted).sectors_ceil(), geometry))
}

/// Size of a file or device that is open elsewhere.
fn device_sectors(path: &Path) -> Result<u64, ServeError> {
    let fail = |source| HostError::Path { path: path.to_owned(), what: "find its end", source };
    let mut file = File::open(path).map_err(fail)?;
    let end = std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).map_err(fail)?;
    Ok(end / SECTOR_BYTES)
}
