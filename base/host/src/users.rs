//! The users of a served disk on this host: loop and NBD devices over it, mounts of them, and the
//! processes that hold any of it; with the commands that free the disk.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use crate::{mounts, quoted};

/// Disks and partitions.
const BLOCK: &str = "/sys/class/block";
/// Most processes that a message names.
const NAMED_MOST: usize = 5;

/// The users of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users {
    /// Each user in words.
    pub what: Vec<String>,
    /// The commands that free the disk, in their order.
    pub free: Vec<String>,
}

impl fmt::Display for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what.join("; "))?;
        if self.free.is_empty() {
            Ok(())
        } else {
            write!(f, ". To free it: {}", self.free.join("; "))
        }
    }
}

impl Users {
    /// True if nobody uses the disk.
    pub fn is_empty(&self) -> bool {
        self.what.is_empty()
    }

    /// The users of the file or block device `path`, a served volume.
    pub fn of_file(path: &Path) -> Self {
        let mut users = Self::default();
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut places = vec![path.clone()];
        if path.metadata().is_ok_and(|m| m.file_type().is_block_device()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            users.of_device(&name, &mut places);
        }
        for name in names(Path::new(BLOCK)) {
            let attribute = |a: &str| read(&Path::new(BLOCK).join(&name).join("loop").join(a));
            if Path::new(&attribute("backing_file")) != path {
                continue;
            }
            let device = Path::new("/dev").join(&name);
            places.push(device.clone());
            let used = users.of_device(&name, &mut places);
            // A loop device that somebody has detached goes by itself when its last user goes.
            if used || attribute("autoclear") != "1" {
                users.what.push(format!("the loop device {} uses it", device.display()));
                users.free.push(format!("losetup -d {}", device.display()));
            }
        }
        users.processes(&places);
        users
    }

    /// The users of the kernel's NBD devices that these processes connected, and of all those with
    /// this size. A device without a user is none.
    pub fn of_nbd(pids: &[i32], sectors: Option<u64>) -> Self {
        let mut users = Self::default();
        for name in nbd_devices(Path::new(BLOCK), pids, sectors) {
            let mut places = vec![Path::new("/dev").join(&name)];
            if users.of_device(&name, &mut places) {
                users.free.push(format!("nbd-client -d /dev/{name}"));
                users.processes(&places);
            }
        }
        users
    }

    /// Adds these users.
    pub fn and(mut self, more: Self) -> Self {
        self.what.extend(more.what);
        self.free.extend(more.free);
        self
    }

    /// Mounts, swap and other devices on a block device and its partitions. False if there are
    /// none. Adds the directories of mounts to `places`.
    fn of_device(&mut self, name: &str, places: &mut Vec<PathBuf>) -> bool {
        let before = self.what.len();
        let sys = Path::new(BLOCK).join(name);
        let parts = names(&sys).into_iter().filter(|n| sys.join(n).join("partition").exists());
        let all = parts.map(|n| sys.join(n)).chain([sys.clone()]);
        let mounts = mounts::mounts().unwrap_or_default();
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        for part in all {
            let number = mounts::numbers(&read(&part.join("dev")));
            let device = Path::new("/dev").join(part.file_name().unwrap_or_default());
            let shown = device.display();
            for mount in mounts.iter().filter(|m| Some(m.device) == number) {
                let at = mount.point.display().to_string();
                self.what.push(format!("{shown} is mounted at {at}"));
                self.free.push(format!("umount {}", quoted(&at)));
                places.push(mount.point.clone());
            }
            if swaps.lines().any(|l| l.split_whitespace().next() == device.to_str()) {
                self.what.push(format!("{shown} is swap space"));
                self.free.push(format!("swapoff {shown}"));
            }
            for holder in names(&part.join("holders")) {
                let mut others = Vec::new();
                self.of_device(&holder, &mut others);
                places.extend(others);
                self.what.push(format!("/dev/{holder} uses {shown}"));
                self.free
                    .push(format!("remove /dev/{holder} (dmsetup, vgchange -an, mdadm --stop)"));
            }
        }
        self.what.len() > before
    }

    /// Processes that have one of these files open, or anything below one of these directories.
    fn processes(&mut self, places: &[PathBuf]) {
        let own = std::process::id().to_string();
        let numbers = names(Path::new("/proc")).into_iter();
        let pids = numbers.filter(|n| n.bytes().all(|b| b.is_ascii_digit()) && *n != own);
        let mut found = BTreeSet::new();
        for pid in pids {
            let dir = Path::new("/proc").join(&pid);
            let open = names(&dir.join("fd")).into_iter().map(|n| dir.join("fd").join(n));
            let links = open.chain(["cwd", "root", "exe"].map(|n| dir.join(n)));
            let holds = |link: PathBuf| {
                let to = fs::read_link(link).unwrap_or_default();
                places.iter().any(|p| to.starts_with(p))
            };
            if links.into_iter().any(holds) {
                found.insert(format!("process {pid} ({}) uses it", read(&dir.join("comm"))));
            }
        }
        let more = found.len().saturating_sub(NAMED_MOST);
        let ends = !found.is_empty();
        self.what.extend(found.into_iter().take(NAMED_MOST));
        if more > 0 {
            self.what.push(format!("{more} more processes use it"));
        }
        if ends {
            self.free.insert(0, "end these processes".to_owned());
        }
    }
}

/// The kernel's connected NBD devices of these processes, or of this size in whole pages, below a
/// folder like /sys/block.
fn nbd_devices(block: &Path, pids: &[i32], sectors: Option<u64>) -> Vec<String> {
    let pages = |sectors: u64| sectors / 8;
    let mut devices = names(block);
    devices.retain(|n| {
        let number = |name: &str| read(&block.join(n).join(name)).parse::<u64>().ok();
        let pid = number("pid").and_then(|pid| i32::try_from(pid).ok());
        let same = || sectors.is_some() && number("size").map(pages) == sectors.map(pages);
        n.starts_with("nbd") && pid.is_some_and(|pid| is_of(pids, pid) || same())
    });
    devices
}

/// Whether a number that the kernel names is one of these processes, or a thread of one: the kernel
/// names the thread that connected a device.
fn is_of(pids: &[i32], number: i32) -> bool {
    let has = |pid: &i32| Path::new(&format!("/proc/{pid}/task/{number}")).exists();
    pids.contains(&number) || pids.iter().any(has)
}

/// The names in a directory, in order; none if it cannot be read.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default().trim_end_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_holds_a_file_is_named() {
        let path = std::env::temp_dir().join(format!("seekless-{}-used", std::process::id()));
        fs::write(&path, b"x").unwrap();
        assert_eq!(Users::of_file(&path), Users::default());
        let file = fs::File::open(&path).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").stdin(file).spawn().unwrap();
        let said = Users::of_file(&path).to_string();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(said.contains(&format!("process {} (", child.id())), "{said}");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn nbd_devices_are_found_by_their_numbers() {
        let block = std::env::temp_dir().join(format!("seekless-{}-block", std::process::id()));
        // No process has these numbers.
        for (name, size, pid) in [
            ("nbd0", "2048\n", Some("9000077\n")),
            ("nbd1", "2051\n", Some("9000078\n")),
            ("nbd2", "2048\n", None),
            ("sda", "2048\n", Some("9000077\n")),
        ] {
            fs::create_dir_all(block.join(name)).unwrap();
            fs::write(block.join(name).join("size"), size).unwrap();
            if let Some(pid) = pid {
                fs::write(block.join(name).join("pid"), pid).unwrap();
            }
        }
        assert_eq!(nbd_devices(&block, &[9_000_077, 5], None), ["nbd0"]);
        assert_eq!(nbd_devices(&block, &[9_000_077, 5], Some(4096)), ["nbd0"]);
        // The kernel may count a volume in whole pages.
        assert_eq!(nbd_devices(&block, &[], Some(2048)), ["nbd0", "nbd1"]);
        // A thread of a client connected it.
        let own = i32::try_from(std::process::id()).unwrap();
        let found = std::thread::scope(|scope| {
            let of_thread = scope.spawn(|| {
                let thread = fs::read_link("/proc/thread-self").unwrap();
                let number = thread.file_name().unwrap().to_str().unwrap();
                assert_ne!(number, own.to_string());
                fs::write(block.join("nbd1/pid"), format!("{number}\n")).unwrap();
                nbd_devices(&block, &[own], None)
            });
            of_thread.join().unwrap()
        });
        assert_eq!(found, ["nbd1"]);
        fs::remove_dir_all(&block).unwrap();
    }
}
