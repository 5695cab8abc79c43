//! Limits the RAM of this process by its own memory control group (version 1 or 2 of the kernel's
//! interface). The limit includes the page cache. With it, a small set of files loads the disk as a
//! large set does on the whole host.

use std::fs;
use std::path::{Path, PathBuf};

use super::program::HostError;

/// Mount point of the kernel's control groups.
const ROOT: &str = "/sys/fs/cgroup";
/// Prefix of the names of our groups.
const NAME: &str = "seekless-study-";

/// The limit of this process; dropping it ends the limit.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    group: PathBuf,
    parent: PathBuf,
}

impl MemoryLimit {
    /// The path of this process's group; it must be recorded before it is created.
    pub(crate) fn place() -> Result<PathBuf, HostError> {
        let none = || {
            HostError::Refused(format!(
                "memory cannot be limited: no memory control group is mounted at {ROOT}; remove 'memory' from the specification"
            ))
        };
        let ours = fs::read_to_string("/proc/self/cgroup").map_err(|_| none())?;
        let of = |controller: &str| {
            ours.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                let (list, path) = (parts.next()?, parts.next()?);
                list.split(',').any(|c| c == controller).then(|| path.trim_start_matches('/'))
            })
        };
        let first = Path::new(ROOT).join("memory");
        let parent = match of("memory") {
            Some(path) if first.join(path).is_dir() => first.join(path),
            Some(_) if first.is_dir() => first,
            // In version 2 a group with processes cannot contain groups, so ours is at the top
            // level.
            None if fs::read_to_string(Path::new(ROOT).join("cgroup.subtree_control"))
                .is_ok_and(|c| c.split_whitespace().any(|c| c == "memory")) =>
            {
                PathBuf::from(ROOT)
            }
            _ => return Err(none()),
        };
        Ok(parent.join(format!("{NAME}{}", std::process::id())))
    }

    /// Moves this process into a group of `bytes` bytes at `group`.
    pub(crate) fn enter(group: &Path, bytes: u64) -> Result<Self, HostError> {
        let parent = match fs::read_to_string("/proc/self/cgroup") {
            Ok(text) if !text.lines().any(|l| l.contains(":memory:")) => {
                let own = text.lines().find_map(|l| l.strip_prefix("0::/")).unwrap_or_default();
                Path::new(ROOT).join(own)
            }
            _ => group.parent().unwrap_or(Path::new(ROOT)).to_owned(),
        };
        match fs::create_dir(group) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(HostError::io("make", group)(e));
            }
            _ => {}
        }
        let limit = Self { group: group.to_owned(), parent };
        let file = ["memory.max", "memory.limit_in_bytes"].map(|f| group.join(f));
        let file = file.iter().find(|f| f.exists()).unwrap_or(&file[0]);
        fs::write(file, bytes.to_string()).map_err(HostError::io("limit memory by", file))?;
        limit.go(group)?;
        Ok(limit)
    }

    fn go(&self, group: &Path) -> Result<(), HostError> {
        let procs = group.join("cgroup.procs");
        fs::write(&procs, std::process::id().to_string())
            .map_err(HostError::io("move this process into", &procs))
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // If the group cannot be removed now, the ledger removes it after this process has ended.
        let _ = self.go(&self.parent);
        let _ = fs::remove_dir(&self.group);
    }
}

/// Removes a group of a killed process. Returns whether there was one.
pub(super) fn remove(group: &Path) -> Result<bool, HostError> {
    let ours = group.starts_with(ROOT)
        && group.file_name().is_some_and(|n| n.to_string_lossy().starts_with(NAME))
        && !group.to_string_lossy().contains("..");
    if !ours {
        return Err(HostError::Refused(format!(
            "{} is not a control group of a study, so it is not removed",
            group.display()
        )));
    }
    match fs::remove_dir(group) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(HostError::io("remove", group)(e)),
    }
}

#[cfg(test)]
#[allow(clippy::print_stderr)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_within_the_limit_and_then_out_of_it() {
        let place = MemoryLimit::place()
            .and_then(|place| MemoryLimit::enter(&place, 1 << 30).map(|limit| (place, limit)));
        let (place, limit) = match place {
            Ok(both) => both,
            Err(e) => return eprintln!("SKIPPED: memory limit: {e}"),
        };
        let name = place.file_name().unwrap().to_string_lossy().into_owned();
        let inside = || fs::read_to_string("/proc/self/cgroup").unwrap().contains(&name);
        assert!(inside() && !remove(&place).is_ok_and(|gone| gone), "it is in use");
        let told =
            ["memory.max", "memory.limit_in_bytes"].map(|f| fs::read_to_string(place.join(f)));
        assert!(told.into_iter().flatten().any(|t| t.trim() == (1u64 << 30).to_string()));
        drop(limit);
        assert!(!inside());
        // A program that another test started meanwhile is in the group until it ends.
        let begun = std::time::Instant::now();
        while remove(&place).is_err() && begun.elapsed().as_secs() < 60 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(!place.exists());
        assert!(matches!(remove(&place), Ok(false)), "it is already removed");
        fs::create_dir(&place).unwrap();
        assert!(matches!(remove(&place), Ok(true)), "a killed process left it");
        let foreign = place.with_file_name("not-ours");
        assert!(matches!(remove(&foreign), Err(HostError::Refused(_))));
    }
}
