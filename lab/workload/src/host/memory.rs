//! Less RAM than the host has: a memory control group of our own (version 1 or 2 of the kernel's interface), whose limit
//! counts the page cache too. So a small set of files meets the disk as a large one on a whole host does.

use std::fs;
use std::path::{Path, PathBuf};

use super::program::HostError;

/// Where the kernel's control groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";
/// How the names of ours begin.
const NAME: &str = "seekless-study-";

/// This process within a limit; it leaves it when this is dropped.
#[derive(Debug)]
pub struct MemoryLimit {
    group: PathBuf,
    parent: PathBuf,
}

impl MemoryLimit {
    /// Where the group of this process would be: to be noted before it is made.
    ///
    /// # Errors
    /// The kernel has no control group of memory here.
    pub fn place() -> Result<PathBuf, HostError> {
        let none = || {
            HostError::Refused(format!(
                "memory cannot be limited: no control group of memory is mounted at {ROOT}; leave out 'memory'"
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
            // In version 2 a group with processes has no groups within: ours stands at the top.
            None if fs::read_to_string(Path::new(ROOT).join("cgroup.subtree_control"))
                .is_ok_and(|c| c.split_whitespace().any(|c| c == "memory")) =>
            {
                PathBuf::from(ROOT)
            }
            _ => return Err(none()),
        };
        Ok(parent.join(format!("{NAME}{}", std::process::id())))
    }

    /// Puts this process into a group of so many bytes at `group`.
    ///
    /// # Errors
    /// It cannot be made, limited, or entered.
    pub fn enter(group: &Path, bytes: u64) -> Result<Self, HostError> {
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
        // What cannot be left is removed by the ledger when the process is gone.
        let _ = self.go(&self.parent);
        let _ = fs::remove_dir(&self.group);
    }
}

/// Removes a group that a killed process left; whether there was one.
pub(super) fn remove(group: &Path) -> Result<bool, HostError> {
    let ours = group.starts_with(ROOT)
        && group.file_name().is_some_and(|n| n.to_string_lossy().starts_with(NAME))
        && !group.to_string_lossy().contains("..");
    if !ours {
        return Err(HostError::Refused(format!(
            "{} is no control group of a study: it is not removed",
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
        assert!(!inside() && !place.exists());
        assert!(matches!(remove(&place), Ok(false)), "it is gone already");
        fs::create_dir(&place).unwrap();
        assert!(matches!(remove(&place), Ok(true)), "a killed process left it");
        let foreign = place.with_file_name("not-ours");
        assert!(matches!(remove(&foreign), Err(HostError::Refused(_))));
    }
}
