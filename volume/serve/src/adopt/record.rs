//! The record of an adoption: all that it made, in `/etc/seekless/NAME.adopted.json`.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

use seekless_host::{HostError, Opened};
use serde::{Deserialize, Serialize};

use super::units::{self, Mounted, below};
use super::{AdoptError, file, fstab, refused};
use crate::area;

pub(super) const SCHEMA: &str = "seekless.adopted/1";
const FOLDER: &str = "/etc/seekless";
/// Modes of new files, less the umask. systemd warns of units that only their owner may read.
const PRIVATE: u32 = 0o600;
const READABLE: u32 = 0o666;
const ENDING: &str = ".adopted.json";
/// Beside the record from when the area is made: until then, its path belongs to others.
const MADE: &str = ".area-made";
/// Beside the record from when all data is at home and the area is removed: a power cut may leave
/// half an area, which nobody can read.
const GOES: &str = ".area-goes";

/// All that an adoption makes. The paths of units, links and folders are without `--root`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) schema: String,
    pub(super) name: String,
    /// The served disk, by a name that stays.
    pub(super) backing: PathBuf,
    pub(super) area: PathBuf,
    pub(super) area_is_device: bool,
    /// The number of the block device by ublk; without it, a loop device over a file.
    #[serde(default)]
    pub(super) ublk: Option<u32>,
    pub(super) mount: Option<Mounted>,
    /// The line of /etc/fstab that is switched off.
    pub(super) fstab: Option<String>,
    pub(super) files: Vec<PathBuf>,
    /// Symbolic links, and where they lead.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// Folders that did not exist, outermost first.
    pub(super) dirs: Vec<PathBuf>,
    /// The folder of the area, if it did not exist; not below `--root`.
    pub(super) area_dir: Option<PathBuf>,
    /// The root of the system at its adoption. Disk, area and folder of the area have their paths of
    /// that time.
    #[serde(default)]
    pub(super) root: Option<PathBuf>,
}

impl Record {
    fn path(root: &Path, name: &str) -> PathBuf {
        below(root, Path::new(FOLDER)).join(format!("{name}{ENDING}"))
    }

    /// Names all that will be made. Refuses if something is there already.
    pub(super) fn makes(
        &mut self,
        root: &Path,
        texts: &[(PathBuf, String)],
    ) -> Result<(), AdoptError> {
        self.files = texts.iter().map(|t| t.0.clone()).collect();
        self.links = vec![units::wanted(self)];
        let made = self.files.iter().chain(self.links.iter().map(|l| &l.0));
        for path in made.clone() {
            let path = below(root, path);
            if path.symlink_metadata().is_ok() {
                return Err(refused(&path, "exists; give the adoption another --name"));
            }
        }
        let mut dirs: Vec<PathBuf> = Vec::new();
        let folders = made.filter_map(|p| p.parent()).map(Path::to_owned);
        let folders = folders.chain(self.mount.as_ref().map(|m| m.dir.clone()));
        for folder in folders.chain([PathBuf::from(FOLDER)]) {
            units::check_stays(root, &folder)?;
            let missing = folder.ancestors().take_while(|d| !below(root, d).is_dir());
            let mut missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
            missing.reverse();
            missing.retain(|d| !dirs.contains(d));
            dirs.extend(missing);
        }
        self.dirs = dirs;
        Ok(())
    }

    /// Writes the record: from now on, release can undo the adoption.
    pub(super) fn begin(&self, root: &Path) -> Result<(), AdoptError> {
        let path = Self::path(root, &self.name);
        let text =
            serde_json::to_string_pretty(self).map_err(|e| file(&path, "write it")(e.into()))?;
        let begun = self.make_dirs(root).and_then(|()| write_new(&path, &text, READABLE));
        if begun.is_err() {
            self.remove_dirs(root);
        }
        begun
    }

    fn make_dirs(&self, root: &Path) -> Result<(), AdoptError> {
        let area_dir = self.area_dir.clone().map(|dir| (dir, 0o700));
        let dirs = self.dirs.iter().map(|dir| (below(root, dir), 0o755)).chain(area_dir);
        for (dir, mode) in dirs {
            match DirBuilder::new().mode(mode).create(&dir) {
                Ok(()) => sync_folders([dir.as_path()])?,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(file(&dir, "make the folder")(e)),
            }
        }
        Ok(())
    }

    fn remove_dirs(&self, root: &Path) {
        // A folder that others use by now stays.
        for dir in self.dirs.iter().rev() {
            let _ = fs::remove_dir(below(root, dir));
        }
        if let Some(dir) = &self.area_dir {
            let _ = fs::remove_dir(dir);
        }
    }

    pub(super) fn write(&self, root: &Path, texts: &[(PathBuf, String)]) -> Result<(), AdoptError> {
        for (path, text) in texts {
            // Options of the server: one is the token of its page.
            let mode = if path.starts_with(FOLDER) { PRIVATE } else { READABLE };
            write_new(&below(root, path), text, mode)?;
        }
        for (link, to) in &self.links {
            let link = below(root, link);
            symlink(to, &link).map_err(file(&link, "make the link"))?;
            sync_folders([link.as_path()])?;
        }
        Ok(())
    }

    /// Whether the line of /etc/fstab and the unit mount on one directory.
    pub(super) fn is_line_of_mount(&self) -> bool {
        let line = self.fstab.as_deref().and_then(fstab::dir_of);
        self.mount.as_ref().is_some_and(|mount| Some(&mount.dir) == line.as_ref())
    }

    /// Removes the units and their links, as far as they exist. What needs others goes first: a mount
    /// without its server would keep the machine from starting.
    pub(super) fn remove_units(&self, root: &Path) -> Result<(), AdoptError> {
        let made = self.links.iter().map(|l| &l.0).chain(self.files.iter().rev());
        let made: Vec<PathBuf> = made.map(|path| below(root, path)).collect();
        for path in &made {
            remove(path)?;
            // A power cut may have left it.
            remove(&part_of(path))?;
        }
        // Before the area: units without an area could keep the machine from starting.
        sync_folders(made.iter().map(PathBuf::as_path))
    }

    /// Notes that the area is this adoption's.
    pub(super) fn area_is_made(&self, root: &Path) -> Result<(), AdoptError> {
        write_new(&self.mark(root, MADE), "", READABLE)
    }

    pub(super) fn is_area_made(&self, root: &Path) -> bool {
        self.mark(root, MADE).exists()
    }

    /// Notes that the area is not needed any more, and what it is known by. The units must be gone: a
    /// server could write to the area again.
    fn area_goes(&self, root: &Path) -> Result<(), AdoptError> {
        if self.does_area_go(root) {
            return Ok(());
        }
        let words = if self.area.exists() {
            area::known_by(&Opened::path(&self.area, true)?, &self.area)?
        } else {
            None
        };
        write_new(&self.mark(root, GOES), &words.unwrap_or_default().join(" "), READABLE)
    }

    /// Removes the area, and notes that before: a file goes, a device becomes blank. An earlier release
    /// may have begun or done it, so others may use the path or the device now: only this area is
    /// removed. Returns what is there otherwise, in words.
    pub(super) fn end_area(&self, root: &Path) -> Result<Option<String>, AdoptError> {
        let again = self.does_area_go(root);
        self.area_goes(root)?;
        if !self.area.exists() {
            return Ok(None);
        }
        // Nobody else can have made this file: its data has just come home.
        if !again && !self.area_is_device {
            return remove(&self.area).map(|()| None);
        }
        let opened = Opened::path(&self.area, false)?;
        let mark = self.mark(root, GOES);
        let noted = fs::read_to_string(&mark).map_err(file(&mark, "read it"))?;
        let words = area::known_by(&opened, &self.area)?;
        if words.is_none_or(|words| !area::is_left_of(&words, &noted)) {
            return Ok(area::holds(&opened, &self.area)?);
        }
        if self.area_is_device {
            area::make_blank(&opened, &self.area)?;
        } else {
            remove(&self.area)?;
        }
        Ok(None)
    }

    pub(super) fn does_area_go(&self, root: &Path) -> bool {
        self.mark(root, GOES).exists()
    }

    fn mark(&self, root: &Path, ending: &str) -> PathBuf {
        below(root, Path::new(FOLDER)).join(format!("{}{ending}", self.name))
    }

    /// False if the area is lost, and once [`Self::end_area`] has done its work: a device is blank
    /// then. True if the device cannot be read.
    pub(super) fn has_area(&self) -> Result<bool, AdoptError> {
        if !self.area_is_device || !self.area.exists() {
            return Ok(self.area.exists());
        }
        match Opened::path(&self.area, true) {
            // Its server has it.
            Err(HostError::Locked { .. }) => Ok(true),
            opened => Ok(!area::is_blank(&opened?, &self.area)),
        }
    }

    /// Removes the file of the area; a device becomes blank again. A lost device stays as it is. Only
    /// for an area that nobody can have replaced: see [`Self::end_area`].
    pub(super) fn remove_area(&self) -> Result<(), AdoptError> {
        if !self.area_is_device {
            return remove(&self.area);
        }
        if self.area.exists() {
            area::make_blank(&Opened::path(&self.area, false)?, &self.area)?;
        }
        Ok(())
    }

    /// The record of an adoption that a power cut ended before its first step, and its file: it has
    /// not got its name yet, and nothing but folders was made.
    pub(super) fn begun(root: &Path, what: &Path) -> Option<(Self, PathBuf)> {
        let name = what.to_str().filter(|name| units::check_name(name).is_ok())?;
        let path = Self::path(root, name);
        let part = part_of(&path);
        let record = Self::read(root, &part).ok().filter(|r| r.name == name && !path.exists())?;
        Some((record, part))
    }

    /// Ends the adoption: removes the record, and the folders that were made.
    pub(super) fn end(&self, root: &Path) -> Result<(), AdoptError> {
        // A power cut may have left it.
        remove(&part_of(&Self::path(root, &self.name)))?;
        for mark in [MADE, GOES].map(|ending| self.mark(root, ending)) {
            remove(&part_of(&mark))?;
            remove(&mark)?;
        }
        let path = Self::path(root, &self.name);
        remove(&path)?;
        sync_folders([path.as_path()])?;
        self.remove_dirs(root);
        Ok(())
    }

    pub(super) fn all(root: &Path) -> Result<Vec<Self>, AdoptError> {
        let folder = below(root, Path::new(FOLDER));
        let entries = match folder.read_dir() {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(file(&folder, "list it")(e)),
        };
        let paths = entries.flatten().map(|e| e.path());
        let mut paths: Vec<PathBuf> =
            paths.filter(|p| p.to_str().is_some_and(|p| p.ends_with(ENDING))).collect();
        paths.sort();
        paths.iter().map(|path| Self::read(root, path)).collect()
    }

    /// The numbers of the block devices of all adoptions, and of units that were made by hand.
    pub(super) fn ublk_numbers(root: &Path) -> Result<Vec<u32>, AdoptError> {
        let adopted = Self::all(root)?.into_iter().filter_map(|r| r.ublk);
        let folder = below(root, Path::new(FOLDER));
        let entries = folder.read_dir().into_iter().flatten().flatten().map(|e| e.path());
        let settings = entries.filter(|path| path.extension().is_some_and(|e| e == "conf"));
        let by_hand = settings.filter_map(|path| number_in(&fs::read_to_string(path).ok()?));
        Ok(adopted.chain(by_hand).collect())
    }

    fn read(root: &Path, path: &Path) -> Result<Self, AdoptError> {
        let text = fs::read_to_string(path).map_err(file(path, "read it"))?;
        let record: Self = serde_json::from_str(&text)
            .map_err(|e| refused(path, format!("is no record of an adoption: {e}")))?;
        if record.schema != SCHEMA {
            let why = format!("has the schema '{}', expected {SCHEMA}", record.schema);
            return Err(refused(path, why));
        }
        Ok(record.moved_to(root))
    }

    /// The record with the paths of now: its system had another root at the adoption, if that system
    /// did not run then, or does not run now.
    fn moved_to(mut self, root: &Path) -> Self {
        let Some(old) = self.root.take() else { return self };
        let new = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let moved = |path: &Path| match path.strip_prefix(&old) {
            Ok(rest) if !path.starts_with("/dev") => new.join(rest),
            _ => path.to_owned(),
        };
        self.backing = moved(&self.backing);
        self.area = moved(&self.area);
        self.area_dir = self.area_dir.as_deref().map(moved);
        self.root = Some(new);
        self
    }

    /// The record with this name or of this disk, if any.
    pub(super) fn find(
        root: &Path,
        backing: &Path,
        name: &str,
    ) -> Result<Option<Self>, AdoptError> {
        let same = |r: &Self| {
            let theirs = r.backing.canonicalize().unwrap_or_else(|_| r.backing.clone());
            r.name == name || theirs == backing
        };
        Ok(Self::all(root)?.into_iter().find(same))
    }

    /// The record that the user names by its disk or its name.
    pub(super) fn named(root: &Path, what: &Path) -> Result<Self, AdoptError> {
        let backing = what.canonicalize().unwrap_or_else(|_| what.to_owned());
        let name = what.to_str().unwrap_or_default();
        if let Some(record) = Self::find(root, &backing, name)? {
            return Ok(record);
        }
        let known: Vec<String> = Self::all(root)?
            .into_iter()
            .map(|r| format!("{} ({})", r.name, r.backing.display()))
            .collect();
        let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
        let why = format!(
            "is not adopted; adopted now: {known}; name an adopted disk, or the name of its units"
        );
        Err(refused(what, why))
    }
}

/// The number of the block device in the settings of a unit.
fn number_in(settings: &str) -> Option<u32> {
    let mut values = settings.lines().filter_map(|line| line.trim().strip_prefix("UBLK="));
    values.next_back()?.trim_matches(['"', '\'']).parse().ok()
}

/// Writes a new file durably: whole, or not under this name. Half a record could not be read, and so
/// no disk could be adopted or released.
fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), AdoptError> {
    let part = part_of(path);
    let write = || -> io::Result<()> {
        if mode == PRIVATE {
            // One that a power cut has left keeps its mode, and a program that opened it could read on.
            let _ = fs::remove_file(&part);
        }
        let mut options = File::options();
        options.write(true).create(true).truncate(true).create_new(mode == PRIVATE).mode(mode);
        let mut new = options.open(&part)?;
        new.write_all(text.as_bytes())?;
        new.sync_all()?;
        // Unlike a rename, this replaces nothing.
        fs::hard_link(&part, path)
    };
    let written = write();
    let _ = fs::remove_file(&part);
    let sync = || path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all());
    written.and_then(|()| sync()).map_err(file(path, "write it"))
}

/// Makes new and removed names durable, in the folders that these paths are in. A folder that is gone
/// has none.
fn sync_folders<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<(), AdoptError> {
    let folders: BTreeSet<&Path> = paths.into_iter().filter_map(Path::parent).collect();
    for folder in folders.into_iter().filter(|folder| folder.is_dir()) {
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(file(folder, "make its changes durable"))?;
    }
    Ok(())
}

/// The name of a file that is not whole yet.
fn part_of(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    part.into()
}

fn remove(path: &Path) -> Result<(), AdoptError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(file(path, "remove it")(e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    #[test]
    fn only_its_owner_may_read_the_options_of_a_server() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let paths = ["/etc/seekless/a.conf", "/etc/systemd/system/a.service"].map(PathBuf::from);
        let texts = paths.clone().map(|path| (path, "OPTIONS=--http-token secret".to_owned()));
        for path in &paths {
            fs::create_dir_all(below(root, path).parent().unwrap()).unwrap();
        }
        // As an earlier program left it at a power cut.
        let part = part_of(&below(root, &paths[0]));
        fs::write(&part, "").unwrap();
        fs::set_permissions(&part, fs::Permissions::from_mode(0o644)).unwrap();
        let reader = File::open(&part).unwrap();
        Record::default().write(root, &texts).unwrap();
        assert_eq!(io::read_to_string(reader).unwrap(), "", "opened before");
        fs::write(root.join("usual"), "").unwrap();
        let mode = |path: PathBuf| path.metadata().unwrap().mode() & 0o777;
        assert_eq!(mode(below(root, &paths[0])), 0o600);
        assert_eq!(mode(below(root, &paths[1])), mode(root.join("usual")), "as the umask says");
    }

    /// A power cut left a part of another one.
    #[test]
    fn a_new_file_is_whole_and_replaces_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let (path, part) = (dir.join("a.adopted.json"), dir.join("a.adopted.json.part"));
        fs::write(&part, "longer than the next one").unwrap();
        write_new(&path, "whole", READABLE).unwrap();
        write_new(&path, "other", READABLE).unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
        assert!(!part.exists());
        assert_eq!(part_of(&path), part);
        // The disk is full.
        let torn = dir.join("b.adopted.json");
        symlink("/dev/full", dir.join("b.adopted.json.part")).unwrap();
        write_new(&torn, "text", READABLE).unwrap_err();
        assert_eq!(fs::read_dir(dir).unwrap().count(), 1, "only the whole one");
    }

    #[test]
    fn the_end_of_an_adoption_removes_what_power_cuts_leave() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let record = Record {
            schema: SCHEMA.to_owned(),
            name: "a".to_owned(),
            dirs: vec!["/etc".into(), FOLDER.into()],
            ..Record::default()
        };
        let (what, path) = (Path::new("a"), Record::path(root, "a"));
        // After the record got its name.
        record.begin(root).unwrap();
        fs::copy(&path, part_of(&path)).unwrap();
        fs::write(part_of(&record.mark(root, MADE)), "").unwrap();
        record.area_goes(root).unwrap();
        record.area_goes(root).unwrap();
        assert!(record.does_area_go(root) && !record.is_area_made(root));
        fs::write(part_of(&record.mark(root, GOES)), "").unwrap();
        assert!(Record::begun(root, what).is_none());
        record.end(root).unwrap();
        assert_eq!(fs::read_dir(root).unwrap().count(), 0);
        // Before that, and in the middle of the record's text.
        record.begin(root).unwrap();
        fs::rename(&path, part_of(&path)).unwrap();
        let (begun, part) = Record::begun(root, what).unwrap();
        assert_eq!((&begun, &part), (&record, &part_of(&path)));
        fs::write(&part, "{").unwrap();
        assert!(Record::begun(root, what).is_none());
        begun.end(root).unwrap();
        assert_eq!(fs::read_dir(root).unwrap().count(), 0);
    }

    #[test]
    fn numbers_of_units_made_by_hand_are_taken() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert!(Record::ublk_numbers(root).unwrap().is_empty());
        let folder = below(root, Path::new(FOLDER));
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in [
            ("a.conf", "BACKING=/dev/a\nUBLK=3\n"),
            ("b.conf", "UBLK=\"5\"\n"),
            ("c.conf", "# UBLK=7\nUBLK=\n"),
            ("d.conf.part", "UBLK=8\n"),
        ] {
            fs::write(folder.join(name), text).unwrap();
        }
        let mut taken = Record::ublk_numbers(root).unwrap();
        taken.sort_unstable();
        assert_eq!(taken, [3, 5]);
    }

    #[test]
    fn a_folder_that_is_gone_has_no_names_to_make_durable() {
        let dir = std::env::temp_dir();
        sync_folders([dir.join("a").as_path(), dir.join("b").as_path()]).unwrap();
        sync_folders([dir.join("seekless-absent/a").as_path()]).unwrap();
    }

    #[test]
    fn a_device_that_is_lost_holds_no_area() {
        for area_is_device in [true, false] {
            let area = PathBuf::from("/dev/seekless-absent");
            let record = Record { area_is_device, area, ..Record::default() };
            assert!(!record.has_area().unwrap());
            record.remove_area().unwrap();
        }
    }

    #[test]
    fn files_are_found_below_the_root_that_their_system_has_now() {
        let here = std::env::temp_dir().canonicalize().unwrap();
        let record = Record {
            backing: "/dev/disk/by-id/a".into(),
            area: here.join("var/a.area"),
            area_dir: Some(here.join("var")),
            root: Some(here.clone()),
            ..Record::default()
        };
        assert_eq!(record.clone().moved_to(&here), record);
        // The system runs now.
        let runs = record.clone().moved_to(Path::new("/"));
        assert_eq!(runs.backing, record.backing);
        assert_eq!(
            (runs.area.as_path(), runs.area_dir.as_deref()),
            (Path::new("/var/a.area"), Some(Path::new("/var")))
        );
        assert_eq!(runs.moved_to(&here), record);
        // Files of the system that runs the program.
        let outside = Record { area: "/srv/a.area".into(), area_dir: None, ..record };
        assert_eq!(outside.clone().moved_to(Path::new("/")).area, outside.area);
        let unknown = Record { root: None, ..outside };
        assert_eq!(unknown.clone().moved_to(Path::new("/")), unknown);
    }

    #[test]
    fn a_record_without_a_ublk_device_is_one_of_a_loop_device() {
        let text = r#"{"schema": "seekless.adopted/1", "name": "a", "backing": "/dev/a",
            "area": "/a.area", "area_is_device": false, "mount": null, "fstab": null,
            "files": [], "links": [], "dirs": [], "area_dir": null}"#;
        let mut record: Record = serde_json::from_str(text).unwrap();
        assert_eq!(record.ublk, None);
        record.ublk = Some(3);
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    }
}
