//! The user of a block device, as the kernel reports it: a mount or swap.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::mounts;

/// The `major:minor` of a block device and of its partitions.
fn numbers(path: &Path) -> Vec<String> {
    let Ok(meta) = path.metadata() else { return Vec::new() };
    let own = number(meta.rdev());
    let mut all = vec![own.clone()];
    let inside = std::fs::read_dir(format!("/sys/dev/block/{own}"));
    for entry in inside.into_iter().flatten().flatten() {
        if entry.path().join("partition").exists()
            && let Ok(text) = std::fs::read_to_string(entry.path().join("dev"))
        {
            all.push(text.trim().to_owned());
        }
    }
    all
}

fn number(device: u64) -> String {
    format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device))
}

pub(crate) fn user_of(path: &Path) -> String {
    let numbers = numbers(path);
    for mount in mounts::mounts().unwrap_or_default() {
        let (major, minor) = mount.device;
        if numbers.contains(&format!("{major}:{minor}")) {
            return format!("it is mounted at {}", mount.point.display());
        }
    }
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    for name in swaps.lines().skip(1).filter_map(|l| l.split_whitespace().next()) {
        if Path::new(name).metadata().is_ok_and(|m| numbers.contains(&number(m.rdev()))) {
            return format!("{name} is swap space");
        }
    }
    "another program or the kernel holds it: a server, a mount elsewhere, RAID or device mapper"
        .to_owned()
}
