//! Adoption and release. Adoption gives a disk in use an area on another file or device, and
//! systemd units that serve the disk now and after each start of the machine. Release removes both.
//!
//! Adoption first writes a record of everything that it will make. If an adoption is interrupted,
//! release undoes all that the record names.

mod alone;
mod checks;
mod fstab;
mod record;
mod undo;
mod units;

use std::fmt::Write as _;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use seekless_block::{Bytes, SECTOR_BYTES};
use seekless_host::mounts::mounts;
use seekless_host::{HostError, Opened, cannot_at, is_in_memory, quoted, signature};

use crate::area::{self, AreaPlacement, MakeOptions, Share};
use crate::backend::identity;
use crate::builder::usual_trail;
use crate::control::{AdministerError, state_of};
use crate::error::ServeError;
use crate::ublk;
use alone::Alone;
use record::Record;
use undo::undo;
use units::Systemd;

/// Share of the write buffer in percent: small, because adopted volumes start in write-through.
const WRITE_BUFFER_PERCENT: u8 = 10;

/// A disk was not adopted or not released.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum AdoptError {
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Administer(#[from] AdministerError),
    #[error("{}: {why}", path.display())]
    Refused { path: PathBuf, why: String },
    #[error("`{command}` failed: {said}")]
    Systemd { command: String, said: String },
    #[error(
        "{cause}. The steps before it could not be undone: {undoing}. `seekless release {name}` tries again"
    )]
    NotUndone { cause: Box<AdoptError>, undoing: Box<AdoptError>, name: String },
    #[error("{cause}. Undone. Note: {notes}")]
    Undone { cause: Box<AdoptError>, notes: String },
}

impl From<HostError> for AdoptError {
    fn from(e: HostError) -> Self {
        Self::Serve(e.into())
    }
}

fn refused(path: &Path, why: impl Into<String>) -> AdoptError {
    AdoptError::Refused { path: path.to_owned(), why: why.into() }
}

fn file(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> AdoptError {
    let error = cannot_at(path, what);
    move |source| error(source).into()
}

/// The disk to adopt, and the settings.
#[derive(Clone, Debug)]
pub struct AdoptOptions {
    /// The disk: a block device, or an image.
    pub backing: PathBuf,
    /// A new file for the area, or a blank device.
    pub area: PathBuf,
    /// Size of the area; by default the usual size of a trail, or the whole device.
    pub size: Option<Share>,
    /// Name of the units; by default after the backing.
    pub name: Option<String>,
    /// Directory on which the served disk is mounted.
    pub mount: Option<PathBuf>,
    /// Further options of `seekless serve`.
    pub serve: Vec<String>,
    /// Root of the system whose units are written: `/`, or a folder.
    pub root: PathBuf,
    /// The installed program, which the units start as root: nobody else may change it.
    pub program: PathBuf,
}

/// All that an adoption will do. Nothing is done yet.
#[derive(Debug)]
pub struct Adoption {
    record: Record,
    size: Option<Share>,
    systemd: Systemd,
    /// The disk in words.
    disk: String,
    /// The area in words.
    place: String,
    /// Each file to write, and its text.
    texts: Vec<(PathBuf, String)>,
    /// Files that the units name, and that the system below the root does not have.
    lacks: Vec<PathBuf>,
    /// From the first look to the last step.
    _alone: Alone,
}

/// The next commands of the user; empty if everything runs.
pub type Remaining = Vec<String>;

/// Looks at the disk, and plans its adoption. Writes nothing.
pub fn plan(options: &AdoptOptions) -> Result<Adoption, AdoptError> {
    let systemd = Systemd::of(&options.root)?;
    // Before the disk is opened: another adoption may need it.
    let alone = Alone::at(&options.root)?;
    let backing = absolute(&options.backing)?;
    let opened = Opened::path(&backing, false).map_err(|e| unmount_first(e, &options.backing))?;
    let name = options.name.clone().unwrap_or_else(|| units::name_of(&backing));
    units::check_name(&name)?;
    checks::check_new(options, &backing, &name)?;
    checks::check_unclaimed(options, &backing, &opened)?;
    let entry = line_of(options, &backing)?;
    let (area, is_device) = place_of(options, &backing)?;
    let area = if is_device { lasting(&options.area, &area)? } else { area };
    let size = match (options.size, is_device) {
        (None, false) => Some(Share::Bytes(usual_trail(Bytes(opened.bytes)))),
        (size, _) => size,
    };
    let served = if opened.dir.is_some() { backing } else { lasting(&options.backing, &backing)? };
    for option in &options.serve {
        units::check_path(Path::new(option))?;
    }
    let top = absolute(&options.root)?;
    let needed = [&served, &area, &options.program].map(|path| units::seen(&top, path));
    let mount = mount_of(options, entry.as_ref(), &needed, systemd.runs)?;
    let mut record = Record {
        schema: record::SCHEMA.to_owned(),
        name,
        backing: served,
        area,
        area_is_device: is_device,
        mount,
        fstab: entry.map(|e| e.line),
        root: Some(top.clone()),
        ..Record::default()
    };
    // Another system's kernel is not known.
    if options.root == Path::new("/") {
        record.ublk = ublk::free_number(&Record::ublk_numbers(&options.root)?);
    }
    record.area_dir = record.area.parent().filter(|dir| !dir.exists()).map(ToOwned::to_owned);
    let [backing, area, program] = needed;
    let lacks = lacking(&top, &record, &program);
    let there = Record { backing, area, ..record.clone() };
    let texts = units::texts(&there, &program, &options.serve);
    record.makes(&options.root, &texts)?;
    checks::check_program(options)?;
    let disk = words(&options.backing, &opened)?;
    let place = match (size, is_device) {
        (_, true) => "a blank device".to_owned(),
        (Some(Share::Bytes(bytes)), _) => format!("a new file of {bytes}"),
        (Some(Share::Percent(percent)), _) => format!("a new file, {percent}% of the disk"),
        (None, _) => "a new file".to_owned(),
    };
    Ok(Adoption { record, size, systemd, disk, place, texts, lacks, _alone: alone })
}

/// Files that the units name, and that the system below this root does not have. The area is made
/// later.
fn lacking(top: &Path, record: &Record, program: &Path) -> Vec<PathBuf> {
    let files = [record.backing.as_path(), record.area.as_path()].into_iter();
    let outside = files.filter(|path| !path.starts_with("/dev") && !path.starts_with(top));
    let program = Some(program).filter(|path| !units::below(top, path).exists());
    outside.chain(program).map(Path::to_owned).collect()
}

/// The line of /etc/fstab that mounts the disk, if any.
fn line_of(options: &AdoptOptions, backing: &Path) -> Result<Option<fstab::Entry>, AdoptError> {
    let mut lines = fstab::lines_of(&options.root, backing)?;
    if lines.len() > 1 {
        let why = format!(
            "{} lines of /etc/fstab mount it; keep one of them, which adoption then replaces",
            lines.len()
        );
        return Err(refused(&options.backing, why));
    }
    Ok(lines.pop())
}

/// The name of a device that stays when disks change places. Without such a name, the units could
/// serve another disk after the next start of the machine.
fn lasting(given: &Path, device: &Path) -> Result<PathBuf, AdoptError> {
    let name = identity::permanent_path(device);
    if name == device {
        let why = "has no name that stays when disks change places (in /dev/disk/by-id or /dev/disk/by-partuuid); give the disk a serial number, or name a partition of it";
        return Err(refused(given, why));
    }
    Ok(name)
}

/// The mount that the units will make; refused over files that the server needs. Without a mount,
/// the units name these files too.
fn mount_of(
    options: &AdoptOptions,
    entry: Option<&fstab::Entry>,
    needed: &[PathBuf; 3],
    systemd_runs: bool,
) -> Result<Option<units::Mounted>, AdoptError> {
    needed.iter().try_for_each(|path| units::check_path(path))?;
    // The mounts of a system that does not run are not known.
    if systemd_runs {
        checks::check_hidden(options, entry, &needed[..2])?;
    }
    let dir = match (&options.mount, entry) {
        (Some(dir), _) => absolute_new(dir)?,
        (None, Some(entry)) => {
            // The directories of another root are not known here.
            let dir = entry.dir.canonicalize().ok().filter(|_| options.root == Path::new("/"));
            dir.unwrap_or_else(|| entry.dir.clone())
        }
        (None, None) => return Ok(None),
    };
    let mount = units::Mounted::at(&dir, entry)?;
    needed.iter().try_for_each(|path| units::check_needed(path, &mount))?;
    checks::check_free(options, entry, &mount, systemd_runs)?;
    checks::check_others(options, &mount)?;
    if systemd_runs {
        checks::check_network(options, &mount, needed)?;
    }
    Ok(Some(mount))
}

impl Adoption {
    /// The steps to come, in five lines; in a sixth, the files that another system lacks.
    pub fn explain(&self) -> String {
        let Record { name, backing, area, mount, fstab, .. } = &self.record;
        let backing = backing.display();
        let mounts = mount.as_ref().map_or_else(
            || format!("nothing; to mount it: `mount /run/seekless/{name}/device DIR`"),
            |m| {
                let instead = if fstab.is_some() {
                    ", in place of the line in /etc/fstab, without fsck"
                } else {
                    ""
                };
                format!("it at {} ({}){instead}", m.dir.display(), m.unit)
            },
        );
        let mut text = format!(
            "disk    {}\narea    {}, {}\nserves  {backing} as /run/seekless/{name}/device, now and after each start ({unit})\nmounts  {mounts}\nundo    `seekless release {name}`; adoption itself changes no byte of the disk",
            self.disk,
            area.display(),
            self.place,
            unit = units::device_unit(&self.record).trim_end_matches(".service"),
        );
        if !self.lacks.is_empty() {
            let lacks: Vec<String> = self.lacks.iter().map(|p| p.display().to_string()).collect();
            let _ = write!(
                text,
                "\nlacks   {}: the units name these files, and that system does not have them",
                lacks.join(", ")
            );
        }
        text
    }

    /// Each file with its text, and each command, for a reader.
    pub fn details(&self) -> String {
        let mut text = String::new();
        for (path, content) in &self.texts {
            let _ = writeln!(text, "--- {}\n{content}", self.systemd.at(path).display());
        }
        for (link, to) in &self.record.links {
            let _ = writeln!(text, "--- {} -> {}", self.systemd.at(link).display(), to.display());
        }
        if let Some(line) = &self.record.fstab {
            let _ = writeln!(text, "--- /etc/fstab without: {line}");
        }
        for command in units::starting(&self.record) {
            let _ = writeln!(text, "$ {command}");
        }
        text
    }

    /// Makes the area and the units, starts them, and waits until the disk is served. If anything
    /// fails, undoes what was done. `say` hears what takes long, before it begins.
    pub fn carry_out(self, say: &dyn Fn(&str)) -> Result<Remaining, AdoptError> {
        self.record.begin(&self.systemd.root)?;
        match self.steps() {
            Ok(remaining) => Ok(remaining),
            Err(cause) => match undo(&self.record, &self.systemd, say) {
                Ok(notes) if notes.is_empty() => Err(cause),
                Ok(notes) => {
                    Err(AdoptError::Undone { cause: Box::new(cause), notes: notes.join("; ") })
                }
                Err(undoing) => Err(AdoptError::NotUndone {
                    cause: Box::new(cause),
                    undoing: Box::new(undoing),
                    name: self.record.name.clone(),
                }),
            },
        }
    }

    fn steps(&self) -> Result<Remaining, AdoptError> {
        let Record { backing, area, .. } = &self.record;
        let options = MakeOptions {
            size: self.size,
            write_buffer_percent: WRITE_BUFFER_PERCENT,
            ..MakeOptions::new(AreaPlacement::Beside(area.clone()))
        };
        area::make(backing, &options)?;
        self.record.area_is_made(&self.systemd.root).inspect_err(|_| {
            // Without the note nobody knows later whose area it is.
            if !self.record.is_area_made(&self.systemd.root) {
                let _ = self.record.remove_area();
            }
        })?;
        self.record.write(&self.systemd.root, &self.texts)?;
        if let Some(line) = &self.record.fstab {
            fstab::disable(&self.systemd.root, &self.record.name, line)?;
        }
        if !self.systemd.runs {
            return Ok(units::by_hand(&self.record));
        }
        self.systemd.start(&self.record)?;
        let state = state_of(backing, Some(area))?;
        if !state.served {
            let why = "its unit has started, but no server answers; for the reason see `systemctl status` and `journalctl`";
            return Err(refused(backing, why));
        }
        Ok(Remaining::new())
    }
}

/// The steps of a release, in words. Writes nothing.
pub fn plan_release(what: &Path, root: &Path) -> Result<String, AdoptError> {
    let systemd = Systemd::of(root)?;
    if let Some((_, part)) = Record::begun(root, what) {
        return Ok(format!("removes {}: nothing else was made\n", part.display()));
    }
    let record = Record::named(root, what)?;
    let area = record.area.display();
    let mut text = format!("writes  everything home to {}\n", record.backing.display());
    for command in units::stopping(&record) {
        let _ = writeln!(text, "runs    {command}");
    }
    let ends = if record.area_is_device { "blanks" } else { "removes" };
    let _ = writeln!(text, "{ends} {area}");
    for path in record.files.iter().chain(record.links.iter().map(|l| &l.0)) {
        let _ = writeln!(text, "removes {}", systemd.at(path).display());
    }
    if let Some(line) = &record.fstab {
        let _ = writeln!(text, "restores in /etc/fstab: {line}");
    }
    Ok(text)
}

/// A disk whose adoption has ended.
#[derive(Debug)]
pub struct Released {
    /// The disk.
    pub disk: PathBuf,
    /// Changes of others that the release found, and things that it left.
    pub notes: Vec<String>,
}

/// Ends the adoption of this disk, or with this name: stops the units, writes all data home,
/// removes the area and the units, and restores /etc/fstab. `say` hears what takes long, before it
/// begins.
pub fn release(what: &Path, root: &Path, say: &dyn Fn(&str)) -> Result<Released, AdoptError> {
    let systemd = Systemd::of(root)?;
    let _alone = Alone::at(root)?;
    if let Some((record, _)) = Record::begun(root, what) {
        record.end(root)?;
        return Ok(Released { disk: record.backing, notes: Vec::new() });
    }
    let record = Record::named(root, what)?;
    let notes = undo(&record, &systemd, say)?;
    Ok(Released { disk: record.backing, notes })
}

/// The disk in words: path, size, model, kind and contents.
fn words(path: &Path, opened: &Opened) -> Result<String, AdoptError> {
    let mut text =
        format!("{}: {}", path.display(), Bytes(opened.bytes / SECTOR_BYTES * SECTOR_BYTES));
    if let Some(model) = identity::model(path) {
        let _ = write!(text, ", {model}");
    }
    match (opened.dir.is_some(), identity::rotates(path)) {
        (true, Some(true)) => text.push_str(", an image on a disk that rotates"),
        (true, _) => text.push_str(", an image"),
        (false, Some(true)) => text.push_str(", rotates"),
        (false, Some(false)) => text.push_str(", does not rotate: there are no seeks to save"),
        (false, None) => {}
    }
    let mut begin = vec![0; 128 << 10];
    let read = rustix::io::pread(&opened.fd, &mut begin, 0)
        .map_err(|e| file(path, "read it")(e.into()))?;
    let holds = signature::marks(&begin[..read]).unwrap_or("nothing known");
    let _ = write!(text, ", not mounted, holds {holds}");
    Ok(text)
}

/// The place of the area, and whether it is a device.
fn place_of(options: &AdoptOptions, backing: &Path) -> Result<(PathBuf, bool), AdoptError> {
    let area = &options.area;
    let folder = area.parent().filter(|p| !p.as_os_str().is_empty() && !p.exists());
    let place = match (folder, area.file_name()) {
        // One folder may be missing, such as /var/lib/seekless at first.
        (Some(folder), Some(name)) => absolute_new(folder)?.join(name),
        _ => absolute_new(area)?,
    };
    match place.metadata() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let folder = place.ancestors().skip(1).find(|folder| folder.exists());
            // Another system has its own file systems in memory.
            if options.root == Path::new("/") && folder.is_some_and(is_in_memory) {
                let why = "would be in memory, and gone at the next start of the machine; name a file on a disk, or a blank device";
                return Err(refused(area, why));
            }
            if options.root == Path::new("/") && place.starts_with("/tmp") {
                let why = "would be in /tmp, which many systems empty when they start; name a file in another folder, or a blank device";
                return Err(refused(area, why));
            }
            Ok((place, false))
        }
        Err(e) => Err(file(area, "look at the place of the area")(e)),
        Ok(_) if place == backing => {
            Err(refused(area, "is the disk itself; name another file or device for the area"))
        }
        Ok(meta) if meta.file_type().is_block_device() => {
            let opened = Opened::path(&place, false)?;
            if let Some(what) = area::holds(&opened, area)? {
                return Err(refused(
                    area,
                    format!("holds {what}; name a blank device or a new file"),
                ));
            }
            Ok((place, true))
        }
        Ok(meta) if meta.is_dir() => {
            Err(refused(area, "is a folder; name a new file in it for the area"))
        }
        Ok(_) => Err(refused(area, "exists; name a new file for the area, or a blank device")),
    }
}

fn absolute(path: &Path) -> Result<PathBuf, AdoptError> {
    path.canonicalize().map_err(file(path, "open it"))
}

/// The absolute path of something that may not exist, in a folder that does.
fn absolute_new(path: &Path) -> Result<PathBuf, AdoptError> {
    if let Ok(path) = path.canonicalize() {
        return Ok(path);
    }
    let parent = seekless_host::folder(path);
    let name =
        path.file_name().ok_or_else(|| refused(path, "has no name; name a file or folder"))?;
    Ok(parent.canonicalize().map_err(file(parent, "enter the folder"))?.join(name))
}

/// The error of a disk that is in use, with what to do.
fn unmount_first(error: HostError, path: &Path) -> AdoptError {
    match &error {
        HostError::InUse { by, .. } => {
            let number = path.metadata().map(|meta| meta.rdev()).unwrap_or_default();
            let number = seekless_host::blocks::numbers_of(number);
            let mut mounts = mounts().unwrap_or_default().into_iter();
            let what = mounts.find(|m| m.device == number).map_or_else(
                || "end this use, then adopt the disk".to_owned(),
                |mount| {
                    let dir = quoted(&mount.point.to_string_lossy());
                    format!("`umount {dir}`, then adopt it with --mount {dir}")
                },
            );
            refused(path, format!("in use: {by}; {what}"))
        }
        _ => error.into(),
    }
}
