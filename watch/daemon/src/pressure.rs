//! How much memory reading ahead may take now: little under pressure. The kernel charges pages to
//! the control group of the thread that reads them first, so that the daemon's own group is the one
//! that counts, and not the reader's.

use std::fs;

use seekless_host::pressure::group_room;

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
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let machine = allowed(&read("/proc/pressure/memory"), &read("/proc/meminfo"));
    group_room().map_or(machine, |bytes| machine.min(bytes / 4096 / SHARE_GROUP))
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
}
