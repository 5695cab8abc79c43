//! The user of a block device, as the kernel reports it: a mount or swap.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::unescaped;

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
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for line in mounts.lines() {
        let mut words = line.split(' ');
        if let (Some(device), Some(point)) = (words.nth(2), words.nth(1))
            && numbers.iter().any(|n| n == device)
        {
            return format!("it is mounted at {}", unescaped(point));
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
