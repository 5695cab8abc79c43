//! Lines of /etc/fstab that mount an adopted disk: switched off at adoption, and restored.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::units::below;
use super::{AdoptError, file, refused};

const FSTAB: &str = "/etc/fstab";
/// Names of disks in the first column, and the folders of their links.
const TAGS: &[(&str, &str)] = &[
    ("UUID=", "by-uuid"),
    ("LABEL=", "by-label"),
    ("PARTUUID=", "by-partuuid"),
    ("PARTLABEL=", "by-partlabel"),
];

/// A line that mounts a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) line: String,
    pub(super) dir: PathBuf,
    pub(super) kind: String,
    pub(super) options: String,
}

fn read(root: &Path) -> Result<String, AdoptError> {
    let path = below(root, Path::new(FSTAB));
    match fs::read_to_string(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        other => other.map_err(file(&path, "read it")),
    }
}

/// The lines that mount this disk, which is given by its canonical path.
pub(super) fn lines_of(root: &Path, backing: &Path) -> Result<Vec<Entry>, AdoptError> {
    let text = read(root)?;
    Ok(text.lines().filter_map(|line| entry(line, backing)).collect())
}

fn entry(line: &str, backing: &Path) -> Option<Entry> {
    let mut words = line.split_whitespace();
    let source = words.next().filter(|s| !s.starts_with('#'))?;
    let tagged = TAGS.iter().find_map(|(tag, folder)| {
        let value = source.strip_prefix(tag)?.trim_matches('"');
        Some(Path::new("/dev/disk").join(folder).join(value))
    });
    let source = tagged.unwrap_or_else(|| PathBuf::from(source));
    if source.canonicalize().ok()? != backing {
        return None;
    }
    Some(Entry {
        line: line.to_owned(),
        dir: PathBuf::from(words.next()?),
        kind: words.next()?.to_owned(),
        options: words.next().unwrap_or("defaults").to_owned(),
    })
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
    change(root, |l| l.strip_prefix(&prefix).map(ToOwned::to_owned)).map(|_| ())
}

/// Replaces lines; whole or not at all. False if no line was replaced.
fn change(root: &Path, with: impl Fn(&str) -> Option<String>) -> Result<bool, AdoptError> {
    let path = below(root, Path::new(FSTAB));
    let text = read(root)?;
    let mut changed = false;
    let mut new = String::new();
    for piece in text.split_inclusive('\n') {
        let line = piece.strip_suffix('\n').unwrap_or(piece);
        let other = with(line);
        changed |= other.is_some();
        new.push_str(other.as_deref().unwrap_or(line));
        new.push_str(&piece[line.len()..]);
    }
    if !changed {
        return Ok(false);
    }
    // A link stays a link.
    let target = path.canonicalize().map_err(file(&path, "find it"))?;
    let part = target.with_extension("seekless-part");
    let write = || -> io::Result<()> {
        let mode = target.metadata()?.mode();
        let _ = fs::remove_file(&part);
        let mut out = fs::File::options().write(true).create_new(true).mode(mode).open(&part)?;
        out.set_permissions(target.metadata()?.permissions())?;
        out.write_all(new.as_bytes())?;
        out.sync_all()?;
        fs::rename(&part, &target)
    };
    let written = write().map_err(file(&path, "write it"));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written.map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_switched_off_and_put_back_to_the_byte() {
        let root = std::env::temp_dir().join(format!("seekless-fstab-{}", std::process::id()));
        fs::create_dir_all(root.join("etc")).unwrap();
        let disk = root.join("disk.img");
        fs::write(&disk, b"x").unwrap();
        let disk = disk.canonicalize().unwrap();
        let line = format!("{} \t/srv/data ext4 noatime,loop 0 2", disk.display());
        // No newline at the end, and one line that only looks like it.
        let text = format!("# {line}\nproc /proc proc\n\n  \n{line}\nUUID=x-none / ext4");
        let fstab = root.join("etc/fstab");
        fs::write(&fstab, &text).unwrap();
        let found = lines_of(&root, &disk).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        let Entry { line: found, dir, kind, options } = &found[0];
        assert_eq!((found, dir.as_path()), (&line, Path::new("/srv/data")));
        assert_eq!((kind.as_str(), options.as_str()), ("ext4", "noatime,loop"));
        disable(&root, "disk", &line).unwrap();
        assert_eq!(lines_of(&root, &disk).unwrap(), []);
        assert_ne!(fs::read_to_string(&fstab).unwrap(), text);
        assert!(disable(&root, "disk", &line).is_err(), "the line is off");
        restore(&root, "other").unwrap();
        assert_eq!(lines_of(&root, &disk).unwrap(), []);
        restore(&root, "disk").unwrap();
        assert_eq!(fs::read_to_string(&fstab).unwrap(), text);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(lines_of(&root, &disk).unwrap(), []);
    }
}
