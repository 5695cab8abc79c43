//! Lines of /etc/fstab that mount an adopted disk: switched off at adoption, and restored. Lines of
//! /etc/crypttab that open it are only read.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use seekless_host::{unescaped, write_whole_through};

use super::units::below;
use super::{AdoptError, file, refused};

const FSTAB: &str = "/etc/fstab";
const CRYPTTAB: &str = "/etc/crypttab";
/// The folders of the links to disks.
const LINKS: &str = "/dev/disk";
/// The kernel's list of disks and partitions.
const DISKS: &str = "/sys/class/block";
/// Names of disks in the first column, and the folders of their links.
const TAGS: &[(&str, &str)] = &[
    ("ID=", "by-id"),
    ("UUID=", "by-uuid"),
    ("LABEL=", "by-label"),
    ("PARTUUID=", "by-partuuid"),
    ("PARTLABEL=", "by-partlabel"),
];

/// Beginnings of options that the unit of a mount cannot have: those of systemd for lines, and those
/// of a second loop device above the served disk.
const UNKNOWN: [&str; 6] =
    ["x-systemd.", "x-initrd.", "comment=systemd.", "loop=", "offset=", "sizelimit="];

/// A line that mounts a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) line: String,
    pub(super) dir: PathBuf,
    pub(super) kind: String,
    pub(super) options: String,
}

impl Entry {
    /// Refuses a line with a meaning that the unit of a mount cannot have.
    pub(super) fn check(&self) -> Result<(), AdoptError> {
        let unknown = |o: &&str| *o == "noauto" || UNKNOWN.iter().any(|start| o.starts_with(start));
        let why = if self.kind == "swap" || !self.dir.is_absolute() {
            "mounts no file system; remove the line".to_owned()
        } else if let Some(option) = self.options.split(',').find(unknown) {
            format!(
                "has the option {option}, which the unit of a mount cannot have; remove the option, or the line"
            )
        } else {
            return Ok(());
        };
        Err(refused(Path::new(FSTAB), format!("the line '{}' {why}", self.line)))
    }

    /// Whether the machine does not start without this mount.
    pub(super) fn is_required(&self) -> bool {
        !self.has(&["nofail", "_netdev"])
    }

    /// Whether the line has one of these options.
    fn has(&self, options: &[&str]) -> bool {
        self.options.split(',').any(|o| options.contains(&o))
    }
}

/// The file itself, if it exists; a link is followed. Below another root, it must stay there.
fn located(root: &Path, table: &str) -> Result<Option<PathBuf>, AdoptError> {
    let path = below(root, Path::new(table));
    let found = match path.canonicalize() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(file(&path, "find it"))?,
    };
    if !found.starts_with(root.canonicalize().map_err(file(root, "find it"))?) {
        let why = format!("leads to {}, which is not below the root", found.display());
        return Err(refused(&path, why));
    }
    Ok(Some(found))
}

fn read(root: &Path) -> Result<String, AdoptError> {
    let Some(path) = located(root, FSTAB)? else { return Ok(String::new()) };
    fs::read_to_string(&path).map_err(file(&path, "read it"))
}

/// Refuses a disk that a line of /etc/crypttab opens, or a partition of which: at the next start of
/// the machine, this line and the server would want the same disk.
pub(super) fn check_crypttab(root: &Path, backing: &Path) -> Result<(), AdoptError> {
    let Some(path) = located(root, CRYPTTAB)? else { return Ok(()) };
    let text = fs::read(&path).map_err(file(&path, "read it"))?;
    // Only names and disks matter; a comment may be in any character set.
    for line in String::from_utf8_lossy(&text).lines() {
        let mut words = words(line);
        let (Some(name), Some(source)) = (words.next(), words.next()) else { continue };
        let wants =
            |used: PathBuf| used == backing || is_partition(&used, backing, Path::new(DISKS));
        if !name.starts_with('#') && disk_of(source, Path::new(LINKS)).is_some_and(wants) {
            let why = format!(
                "is opened as {name} by the line '{line}' of /etc/crypttab: adopt /dev/mapper/{name}, or remove the line"
            );
            return Err(refused(backing, why));
        }
    }
    Ok(())
}

/// The words of a line: other blanks than these two are part of a word.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split([' ', '\t']).filter(|word| !word.is_empty())
}

/// The lines that mount this disk, which is given by its canonical path. A line that uses a
/// partition of the disk is refused: the partition would have to be adopted.
pub(super) fn lines_of(root: &Path, backing: &Path) -> Result<Vec<Entry>, AdoptError> {
    let mut found = Vec::new();
    for line in read(root)?.lines() {
        // It mounts a folder or a file, which may be on a server that does not answer.
        if entry(line).is_some_and(|e| e.has(&["bind", "rbind"])) {
            continue;
        }
        let Some(used) = disk_of(line, Path::new(LINKS)) else { continue };
        if is_partition(&used, backing, Path::new(DISKS)) {
            let why = format!(
                "has the partition {}, which a line of /etc/fstab uses: adopt the partition, or remove the line '{line}'",
                used.display()
            );
            return Err(refused(backing, why));
        }
        if used == backing && root != Path::new("/") && has_kernels_name(line) {
            let why = format!(
                "may be another disk in that system: write UUID= for the disk in the line '{line}'"
            );
            return Err(refused(backing, why));
        }
        found.extend(entry(line).filter(|_| used == backing));
    }
    Ok(found)
}

/// The lines that mount on this directory, of any disk.
pub(super) fn lines_at(root: &Path, dir: &Path) -> Result<Vec<String>, AdoptError> {
    let lines = entries(root)?.into_iter();
    let lines = lines.filter(|e| e.dir == dir || found(root, &e.dir) == dir);
    Ok(lines.map(|e| e.line).collect())
}

/// The directories on which a start of the machine mounts, but for this line.
pub(super) fn dirs(root: &Path, but: Option<&Entry>) -> Result<Vec<PathBuf>, AdoptError> {
    let others = entries(root)?.into_iter().filter(|e| Some(&e.line) != but.map(|e| &e.line));
    let mounted = others.filter(|e| e.dir.is_absolute() && !e.has(&["noauto"]));
    Ok(mounted.map(|e| found(root, &e.dir)).collect())
}

/// The directories of lines whose mounts wait for the network.
pub(super) fn dirs_behind_network(root: &Path) -> Result<Vec<PathBuf>, AdoptError> {
    let waiting = entries(root)?.into_iter().filter(|e| e.has(&["_netdev"]));
    Ok(waiting.map(|e| found(root, &e.dir)).collect())
}

/// The lines that are in force.
fn entries(root: &Path) -> Result<Vec<Entry>, AdoptError> {
    let text = read(root)?;
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    Ok(lines.filter_map(entry).collect())
}

/// A directory without links on the way. A file system that hangs may be mounted there, so only the
/// folder above is looked at. A link leads elsewhere in another system.
fn found(root: &Path, dir: &Path) -> PathBuf {
    let above = dir.parent().filter(|_| root == Path::new("/"));
    let above = above.and_then(|above| above.canonicalize().ok());
    above.zip(dir.file_name()).map_or_else(|| dir.to_owned(), |(above, name)| above.join(name))
}

/// Whether a line names its disk as the kernel does: the name may mean another disk elsewhere.
fn has_kernels_name(line: &str) -> bool {
    let device = line.trim_start().strip_prefix("/dev/");
    device.is_some_and(|name| !name.starts_with("disk/") && !name.starts_with("mapper/"))
}

/// The canonical path of the disk that a line uses, if the disk exists.
fn disk_of(line: &str, links: &Path) -> Option<PathBuf> {
    let source = words(line).next().filter(|s| !s.starts_with('#'))?;
    let tagged = TAGS.iter().find_map(|(tag, folder)| {
        let value = source.strip_prefix(tag)?.trim_matches(['"', '\'']);
        Some(links.join(folder).join(link_name(&unescaped(value))))
    });
    let path = tagged.unwrap_or_else(|| PathBuf::from(unescaped(source)));
    // A word such as `proc` is no file of the current folder.
    if path.is_absolute() { path.canonicalize().ok() } else { None }
}

/// The directory of a line.
pub(super) fn dir_of(line: &str) -> Option<PathBuf> {
    entry(line).map(|entry| entry.dir)
}

fn entry(line: &str) -> Option<Entry> {
    let mut words = words(line).skip(1);
    Some(Entry {
        line: line.to_owned(),
        dir: PathBuf::from(unescaped(words.next()?)),
        kind: words.next()?.to_owned(),
        options: words.next().unwrap_or("defaults").to_owned(),
    })
}

/// The name of udev's link for a label or another name of a disk.
fn link_name(value: &str) -> String {
    let fits = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "#+-.:=@_".contains(c);
    let one = |c: char| if fits(c) { c.to_string() } else { format!("\\x{:02x}", c as u32) };
    value.chars().map(one).collect()
}

/// Whether a device is a partition of a disk. `disks` is the kernel's list.
fn is_partition(one: &Path, disk: &Path, disks: &Path) -> bool {
    let Some(found) = one.file_name().and_then(|name| disks.join(name).canonicalize().ok()) else {
        return false;
    };
    let of = found.parent().and_then(Path::file_name);
    found.join("partition").exists() && of == disk.file_name() && one.parent() == disk.parent()
}

fn prefix(name: &str) -> String {
    format!("#seekless adopt {name}# ")
}

/// Switches the line off.
pub(super) fn disable(root: &Path, name: &str, line: &str) -> Result<(), AdoptError> {
    let off = format!("{}{line}", prefix(name));
    if !change(root, |l| (l == line).then(|| off.clone()))? {
        let why = format!("has no line '{line}' any more; adopt the disk again");
        return Err(refused(Path::new(FSTAB), why));
    }
    Ok(())
}

/// Restores the lines that this adoption switched off.
pub(super) fn restore(root: &Path, name: &str) -> Result<(), AdoptError> {
    let prefix = prefix(name);
    // A power cut may have left it.
    if let Some(target) = located(root, FSTAB)? {
        let _ = fs::remove_file(part_of(&target));
    }
    change(root, |l| l.strip_prefix(&prefix).map(ToOwned::to_owned)).map(|_| ())
}

/// Whether the file has this line.
pub(super) fn has_line(root: &Path, line: &str) -> Result<bool, AdoptError> {
    Ok(read(root)?.lines().any(|l| l == line))
}

/// The new text on its way: a name that a release knows.
fn part_of(target: &Path) -> PathBuf {
    target.with_extension("seekless-part")
}

/// Replaces lines; whole or not at all. False if no line was replaced.
fn change(root: &Path, with: impl Fn(&str) -> Option<String>) -> Result<bool, AdoptError> {
    // A link stays a link.
    let Some(target) = located(root, FSTAB)? else { return Ok(false) };
    let text = read(root)?;
    let mut changed = false;
    let mut new = String::new();
    for piece in text.split_inclusive('\n') {
        let line = piece.lines().next().unwrap_or_default();
        let other = with(line);
        changed |= other.is_some();
        new.push_str(other.as_deref().unwrap_or(line));
        new.push_str(&piece[line.len()..]);
    }
    if !changed {
        return Ok(false);
    }
    let mode = target.metadata().map_err(file(&target, "write it"))?.mode();
    let written = write_whole_through(&part_of(&target), &target, new.as_bytes(), mode);
    written.map_err(file(&target, "write it"))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_found_by_each_of_its_names() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let disk = dir.join("my disk");
        fs::write(&disk, b"").unwrap();
        let disk = disk.canonicalize().unwrap();
        for (folder, link) in [
            ("by-id", "ata-X_1"),
            ("by-label", "\\x2fhome"),
            ("by-label", "My\\x20Disk"),
            ("by-partlabel", "Linux\\x20é"),
        ] {
            fs::create_dir_all(dir.join(folder)).unwrap();
            std::os::unix::fs::symlink(&disk, dir.join(folder).join(link)).unwrap();
        }
        let path = disk.to_str().unwrap().replace(' ', "\\040");
        for source in [
            "ID=ata-X_1",
            "LABEL=/home",
            "LABEL='My\\040Disk'",
            "PARTLABEL=\"Linux\\040\\303\\251\"",
            &path,
        ] {
            let line = format!("{source} /srv/my\\040data ext4");
            assert_eq!(disk_of(&line, dir).as_ref(), Some(&disk), "{source}");
            assert_eq!(entry(&line).unwrap().dir, Path::new("/srv/my data"));
            assert_eq!(disk_of(&format!("#{line}"), dir), None, "{source}");
        }
        // No word is a file of the current folder, and no other blank ends a word.
        assert!(Path::new("Cargo.toml").exists());
        assert_eq!(disk_of("Cargo.toml /srv tmpfs", dir), None);
        let odd = entry("/dev/sdb1\t/srv/my\u{a0}data \t ext4").unwrap();
        assert_eq!(odd.dir, Path::new("/srv/my\u{a0}data"));
    }

    /// The system opens it when it starts.
    #[test]
    fn a_disk_of_crypttab_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        fs::create_dir_all(root.join("etc")).unwrap();
        let disk = root.join("disk.img");
        fs::write(&disk, b"x").unwrap();
        let disk = disk.canonicalize().unwrap();
        check_crypttab(root, &disk).unwrap();
        let path = disk.display();
        for (line, refuses) in [
            (format!("data {path} none luks"), true),
            (format!("\tdata\t\t{path}"), true),
            (format!("# data {path} none luks"), false),
            (format!("#data {path} none luks"), false),
            ("data UUID=x-none none luks".to_owned(), false),
            (format!("data /dev/null {path} luks"), false),
            ("data".to_owned(), false),
            (String::new(), false),
        ] {
            let text = [&b"# <name> <ger\xe4t>\n"[..], line.as_bytes(), b"\n"].concat();
            fs::write(root.join("etc/crypttab"), text).unwrap();
            match check_crypttab(root, &disk) {
                Ok(()) => assert!(!refuses, "{line}"),
                Err(e) => {
                    let said = e.to_string();
                    assert!(refuses && said.contains("/dev/mapper/data"), "{line}: {said}");
                }
            }
        }
    }

    #[test]
    fn a_line_that_no_unit_can_replace_is_refused() {
        for (rest, refuses, required) in [
            ("/srv ext4 defaults 0 2", "", true),
            ("/srv ext4", "", true),
            ("/srv ext4 noatime,nofail", "", false),
            ("/srv ext4 _netdev", "", false),
            ("/srv ext4 noatime,noauto", "noauto", true),
            ("/srv ext4 nofail,x-systemd.automount", "x-systemd.automount", false),
            ("/srv ext4 loop,offset=1048576", "offset=1048576", true),
            ("/srv ext4 sizelimit=4096", "sizelimit=4096", true),
            ("/srv ext4 loop=/dev/loop7", "loop=/dev/loop7", true),
            ("/srv ext4 x-initrd.mount", "x-initrd.mount", true),
            ("/srv ext4 comment=systemd.automount", "comment=systemd.automount", true),
            ("/srv ext4 loop", "", true),
            ("none swap sw", "no file system", true),
        ] {
            let entry = entry(&format!("/dev/sdb1 {rest}")).unwrap();
            assert_eq!(entry.is_required(), required, "{rest}");
            match entry.check() {
                Ok(()) => assert_eq!(refuses, "", "{rest}"),
                Err(e) => {
                    assert!(!refuses.is_empty() && e.to_string().contains(refuses), "{e}");
                }
            }
        }
    }

    #[test]
    fn a_partition_belongs_to_its_disk_alone() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let disks = dir.join("class");
        fs::create_dir_all(&disks).unwrap();
        for name in ["sdb", "sdb/sdb1", "sdc"] {
            let device = dir.join("devices").join(name);
            fs::create_dir_all(&device).unwrap();
            let link = disks.join(device.file_name().unwrap());
            std::os::unix::fs::symlink(&device, link).unwrap();
        }
        fs::write(dir.join("devices/sdb/sdb1/partition"), "1\n").unwrap();
        for (one, disk, is) in [
            ("/dev/sdb1", "/dev/sdb", true),
            ("/dev/sdb1", "/dev/sdc", false),
            ("/dev/sdb", "/dev/sdb", false),
            ("/dev/sdb1", "/srv/sdb", false),
            ("/dev/sdd1", "/dev/sdd", false),
        ] {
            assert_eq!(is_partition(Path::new(one), Path::new(disk), &disks), is, "{one} {disk}");
        }
    }

    #[test]
    fn a_start_mounts_on_the_directories_of_lines_without_noauto() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        fs::create_dir_all(root.join("etc")).unwrap();
        let text = "proc /proc proc\n# /dev/null /off ext4\n/dev/null /srv/null none bind\n\
            /dev/zero /mnt/zero ext4 noauto\nUUID=x-none / ext4\n/dev/zero none swap sw\n";
        fs::write(root.join("etc/fstab"), text).unwrap();
        let all = ["/proc", "/srv/null", "/"].map(PathBuf::from);
        assert_eq!(dirs(root, None).unwrap(), all);
        let but = entry("UUID=x-none / ext4").unwrap();
        assert_eq!(dirs(root, Some(&but)).unwrap(), all[..2]);
        // The line with `bind` mounts no disk, so its kernel's name is no matter.
        assert_eq!(lines_of(root, Path::new("/dev/null")).unwrap(), []);
    }

    #[test]
    fn a_line_is_found_switched_off_and_put_back_to_the_byte() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        fs::create_dir_all(root.join("etc")).unwrap();
        let disk = root.join("disk.img");
        fs::write(&disk, b"x").unwrap();
        let disk = disk.canonicalize().unwrap();
        let line = format!("{} \t/srv/data ext4 noatime,loop 0 2", disk.display());
        // No newline at the end, an end as Windows writes it, and one line that only looks like it.
        let text = format!("# {line}\nproc /proc proc\n\n  \n{line}\r\nUUID=x-none / ext4");
        let fstab = root.join("etc/fstab");
        fs::write(&fstab, &text).unwrap();
        let found = lines_of(root, &disk).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        let Entry { line: found, dir, kind, options } = &found[0];
        assert_eq!((found, dir.as_path()), (&line, Path::new("/srv/data")));
        assert_eq!((kind.as_str(), options.as_str()), ("ext4", "noatime,loop"));
        assert_eq!(lines_at(root, Path::new("/srv/data")).unwrap(), [line.as_str()]);
        assert_eq!(lines_at(root, Path::new("/")).unwrap(), ["UUID=x-none / ext4"]);
        assert!(lines_at(root, Path::new("/srv")).unwrap().is_empty());
        disable(root, "disk", &line).unwrap();
        assert_eq!(lines_of(root, &disk).unwrap(), []);
        assert!(lines_at(root, Path::new("/srv/data")).unwrap().is_empty());
        assert_ne!(fs::read_to_string(&fstab).unwrap(), text);
        assert!(disable(root, "disk", &line).is_err(), "the line is off");
        assert!(!has_line(root, &line).unwrap());
        // The only name that a power cut may leave.
        let part = root.join("etc/fstab.seekless-part");
        fs::create_dir(&part).unwrap();
        assert!(restore(root, "disk").is_err(), "written under another name");
        fs::remove_dir(&part).unwrap();
        fs::write(&part, "torn").unwrap();
        restore(root, "other").unwrap();
        assert_eq!(lines_of(root, &disk).unwrap(), []);
        restore(root, "disk").unwrap();
        assert_eq!(fs::read_to_string(&fstab).unwrap(), text);
        assert!(has_line(root, &line).unwrap());
        assert!(!part.exists());
        // The kernel's names mean other disks there.
        let names = |line: &str| {
            fs::write(&fstab, line).unwrap();
            lines_of(root, Path::new("/dev/null")).map(|found| found.len())
        };
        let error = names("/dev/null /srv ext4").unwrap_err().to_string();
        assert!(error.contains("UUID="), "{error}");
        assert_eq!(names("/dev/zero /srv ext4").unwrap(), 0);
        fs::write(&fstab, &text).unwrap();
        // The fstab of another system is never that of this one.
        fs::rename(&fstab, root.join("fstab")).unwrap();
        std::os::unix::fs::symlink(root.join("fstab"), &fstab).unwrap();
        assert_eq!(lines_of(root, &disk).unwrap().len(), 1);
        fs::create_dir(root.join("other")).unwrap();
        fs::rename(root.join("etc"), root.join("other/etc")).unwrap();
        let error = lines_of(&root.join("other"), &disk).unwrap_err().to_string();
        assert!(error.contains("not below the root"), "{error}");
        fs::remove_dir_all(root).unwrap();
        assert_eq!(lines_of(root, &disk).unwrap(), []);
    }
}
