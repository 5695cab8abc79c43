//! The way back from an adoption: the end of a release, and of an adoption that failed.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use seekless_block::PAGE_BYTES;
use seekless_host::{HostError, Opened};

use super::record::Record;
use super::units::{self, Systemd};
use super::{AdoptError, file, fstab, refused};
use crate::backend::guard;
use crate::control::{AdministerError, Administered};
use crate::stop_in_order::in_one_line;
use crate::ublk;

/// Longest wait for a server that ends, after its volume has ended.
const PATIENCE: Duration = Duration::from_secs(10);

/// Undoes all of an adoption that was done. Nothing is removed before all data is at home. Returns
/// notes for the user. `say` hears what takes long, before it begins.
pub(super) fn undo(
    record: &Record,
    systemd: &Systemd,
    say: &dyn Fn(&str),
) -> Result<Vec<String>, AdoptError> {
    let root = &systemd.root;
    let mut notes = Vec::new();
    if systemd.runs {
        systemd.stop(record, say)?;
    }
    // systemd may start the mount again, because a program needs the directory: the server waits for
    // the disk, and finds no area later.
    let _held = if record.is_area_made(root) {
        Some(bring_home(record, record.does_area_go(root))?)
    } else {
        None
    };
    // The unit counts before a line with its directory. So if the line comes first, one of both mounts
    // the disk, whenever a power cut ends this. With two directories, both would want the disk. Without
    // its area, the unit cannot mount, and a line may keep the machine from starting.
    if record.is_line_of_mount() && record.area.exists() {
        fstab::restore(root, &record.name)?;
    }
    record.remove_units(root)?;
    // systemd leaves it when the server stops; it goes with the next start of the machine anyway.
    let run = systemd.at(&units::run_of(&record.name));
    // A restart that failed has left the file.
    let _ = std::fs::remove_file(run.join("mounts"));
    let _ = std::fs::remove_dir(run);
    if let Some(line) = &record.fstab {
        fstab::restore(root, &record.name)?;
        if !fstab::has_line(root, line)? {
            notes.push(format!(
                "the line '{line}' is not in /etc/fstab: somebody has changed or removed the line that adoption switched off"
            ));
        }
    }
    notes.extend(end_area(record, root)?);
    if systemd.runs {
        systemd.reload()?;
        Systemd::stop_tries(record, say);
    }
    record.end(root)?;
    Ok(notes)
}

/// Removes the area. Returns why it stays, if it does.
fn end_area(record: &Record, root: &Path) -> Result<Option<String>, AdoptError> {
    let area = record.area.display();
    if !record.is_area_made(root) {
        return Ok(record.has_area().unwrap_or(false).then(|| {
            format!(
                "{area} stays: it may be the area of this adoption, which was interrupted; if nothing else uses it, remove it"
            )
        }));
    }
    let again = record.does_area_go(root);
    let why = match record.end_area(root) {
        // All else is undone, and a device that fails would keep its adoption for ever.
        Err(e) if again => Some(in_one_line(&e)),
        Err(e) => return Err(e),
        Ok(others) => others.map(|what| {
            format!(
                "it may not be the area of this adoption any more, and holds {what}; if nothing else uses it, remove it"
            )
        }),
    };
    Ok(why.map(|why| format!("{area} stays as it is: {why}")))
}

/// Writes all data home, and ends a server that is left. If `area_goes`, an earlier release has done
/// so, and may have removed the area in part. Returns the locked disk: no server gets it.
fn bring_home(record: &Record, area_goes: bool) -> Result<Opened, AdoptError> {
    let Record { backing, area, .. } = record;
    if !area_goes && record.has_area()? {
        let volume = Administered::reach(backing, Some(area), false)?;
        return match volume.detach(false, &mut |_| {}) {
            Ok(_) => hold(backing),
            Err(AdministerError::InUse { by, .. }) => {
                Err(refused(backing, format!("in use, and nothing was removed: {by}")))
            }
            Err(e) => Err(e.into()),
        };
    }
    // Without the area, home is complete unless its guard says otherwise.
    let opened = Opened::path(backing, true)?;
    ublk::ensure_no_device_waits(backing)?;
    let mut first = vec![0; PAGE_BYTES as usize];
    let read = rustix::io::pread(&opened.fd, &mut first, 0)
        .map_err(|e| file(backing, "read its first page")(e.into()))?;
    let page = first.as_slice().try_into().ok().filter(|_| read == first.len());
    if page.and_then(guard::of_page).is_some() {
        let why = format!(
            "its newest data are in {}, which is gone; nothing was changed",
            area.display()
        );
        return Err(refused(backing, why));
    }
    Ok(opened)
}

/// Opens and locks a disk whose server has just ended.
fn hold(backing: &Path) -> Result<Opened, AdoptError> {
    let start = Instant::now();
    loop {
        match Opened::path(backing, false) {
            Err(HostError::Locked { .. } | HostError::InUse { .. })
                if start.elapsed() < PATIENCE =>
            {
                thread::sleep(Duration::from_millis(20));
            }
            Err(HostError::Locked { by, .. } | HostError::InUse { by, .. }) => {
                let why = format!(
                    "is in use again, and nothing was removed: {by}; run `seekless release` again"
                );
                return Err(refused(backing, why));
            }
            opened => return Ok(opened?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_held_when_its_server_has_let_it_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::write(&path, [0; 512]).unwrap();
        let held = hold(&path).unwrap();
        assert!(matches!(Opened::path(&path, false), Err(HostError::Locked { .. })));
        let waiting = thread::spawn(move || hold(&path).map(drop));
        // Longer than an attempt to open the disk waits for the lock.
        thread::sleep(Duration::from_secs(1));
        drop(held);
        waiting.join().unwrap().unwrap();
    }
}
