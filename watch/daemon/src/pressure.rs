//! How much memory reading ahead may take now: little under pressure. The kernel charges pages to
//! the control group of the thread that reads them first, so that the daemon's own group is the one
//! that counts, and not the reader's.

use std::fs;
use std::path::{Path, PathBuf};

use seekless_host::pressure::groups;

/// Percent of the last ten seconds in which some process waited for memory, from which on nothing
/// is fetched, if less than this share of the memory is available. A process that waits at the
/// limit of its own control group counts too, and says nothing about the machine.
const PRESSURE: f64 = 10.0;
const SCARCE: u64 = 4;
/// Most pages ahead of a reader: 512 MiB.
const PAGES_MOST: u64 = 1 << 17;
/// Share of the available memory that is used ahead of readers.
const SHARE: u64 = 8;
/// The same for what the daemon's control group can hold: little else is in there.
const SHARE_GROUP: u64 = 2;

/// Pages that may be fetched and not used yet.
pub(crate) fn pages_ahead() -> u64 {
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let machine = allowed(&read("/proc/pressure/memory".as_ref()), &read("/proc/meminfo".as_ref()));
    let group = group(&read("/proc/self/cgroup".as_ref()), read);
    group.map_or(machine, |bytes| machine.min(bytes / 4096 / SHARE_GROUP))
}

/// Bytes that a control group and those around it can still hold, where they have a limit. `own`:
/// the text of /proc/self/cgroup.
fn group(own: &str, read: impl Fn(&Path) -> String) -> Option<u64> {
    let free = |(dir, second): (PathBuf, bool)| {
        let number = |name: &str| read(&dir.join(name)).trim().parse::<u64>().ok();
        let (limit, usage) = if second {
            (number("memory.max")?, number("memory.current")?)
        } else {
            (number("memory.limit_in_bytes")?, number("memory.usage_in_bytes")?)
        };
        let cached = cached(&read(&dir.join("memory.stat")));
        Some(limit.saturating_sub(usage.saturating_sub(cached)))
    };
    groups(own).into_iter().filter_map(free).min()
}

/// Bytes of files in memory, from the text of memory.stat. In the first version, lines without
/// `total_` leave out the groups below.
fn cached(stat: &str) -> u64 {
    let line =
        |name: &str| stat.lines().find_map(|l| l.strip_prefix(name)?.trim().parse::<u64>().ok());
    let both = ["inactive_file ", "active_file "];
    both.iter().map(|n| line(&format!("total_{n}")).or_else(|| line(n)).unwrap_or(0)).sum()
}

fn allowed(pressure: &str, meminfo: &str) -> u64 {
    let some = pressure.lines().find_map(|l| l.strip_prefix("some "));
    let average = some.and_then(|l| l.split_whitespace().find_map(|w| w.strip_prefix("avg10=")));
    let kib = |name: &str| {
        let line = meminfo.lines().find_map(|l| l.strip_prefix(name));
        line.and_then(|a| a.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    let (available, total) = (kib("MemAvailable:"), kib("MemTotal:"));
    let waits = average.and_then(|a| a.parse::<f64>().ok()).is_some_and(|a| a >= PRESSURE);
    if waits && available < total / SCARCE {
        return 0;
    }
    (available / 4 / SHARE).min(PAGES_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_stops_and_available_memory_bounds() {
        let calm = "some avg10=0.12 avg60=0.00 avg300=0.00 total=9\nfull avg10=99.0 total=0\n";
        let hard = calm.replace("0.12", "10.00");
        let mem = |kib: u64| format!("MemTotal: 20000 kB\nMemAvailable:   {kib} kB\n");
        assert_eq!(allowed(calm, &mem(3200)), 100);
        assert_eq!(allowed(calm, &mem(1 << 40)), PAGES_MOST);
        assert_eq!(allowed(&hard, &mem(3200)), 0);
        assert_eq!(allowed(&hard, &mem(6400)), 200, "the wait is at the limit of some group");
        assert_eq!(allowed("", &mem(3200)), 100, "a kernel without PSI");
        assert_eq!(allowed(calm, ""), 0);
    }

    #[test]
    fn the_tightest_control_group_bounds() {
        let files = [
            ("memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/a/b/memory.usage_in_bytes", "500\n"),
            ("memory/a/memory.limit_in_bytes", "1000\n"),
            ("memory/a/memory.usage_in_bytes", "700\n"),
            (
                "memory/a/memory.stat",
                "inactive_file 1\ntotal_inactive_file 50\ntotal_active_file 7\n",
            ),
            ("u/memory.max", "max\n"),
            ("u/memory.current", "5\n"),
            ("v/memory.max", "600\n"),
            ("v/memory.current", "800\n"),
            ("v/memory.stat", "anon 9\ninactive_file 300\nactive_file 20\n"),
        ];
        let read = |path: &Path| {
            let place = path.strip_prefix("/sys/fs/cgroup").map(Path::to_str);
            let found = files.iter().find(|f| place == Ok(Some(f.0)));
            found.map_or_else(String::new, |f| f.1.to_owned())
        };
        assert_eq!(group("5:cpu:/a/b\n4:foo,memory:/a/b\n0::/none\n", read), Some(357));
        assert_eq!(group("0::/u\n", read), None, "no limit");
        assert_eq!(group("0::/v\n", read), Some(120));
        assert_eq!(group("broken\n", read), None);
    }
}
