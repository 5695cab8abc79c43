//! How much memory reading ahead may take now: little under pressure.

use std::fs;
use std::path::Path;

/// Percent of the last ten seconds in which some process waited for memory, from which on nothing
/// is fetched.
const PRESSURE: f64 = 10.0;
/// Most pages ahead of a reader: 512 MiB.
const PAGES_MOST: u64 = 1 << 17;
/// Share of the available memory that is used ahead of readers.
const SHARE: u64 = 8;

/// Pages that may be fetched and not used yet.
pub(crate) fn pages_ahead() -> u64 {
    let read = |path| fs::read_to_string(Path::new(path)).unwrap_or_default();
    allowed(&read("/proc/pressure/memory"), &read("/proc/meminfo"))
}

fn allowed(pressure: &str, meminfo: &str) -> u64 {
    let some = pressure.lines().find_map(|l| l.strip_prefix("some "));
    let average = some.and_then(|l| l.split_whitespace().find_map(|w| w.strip_prefix("avg10=")));
    if average.and_then(|a| a.parse::<f64>().ok()).is_some_and(|a| a >= PRESSURE) {
        return 0;
    }
    let available = meminfo.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib = available.and_then(|a| a.split_whitespace().next()?.parse::<u64>().ok());
    (kib.unwrap_or(0) / 4 / SHARE).min(PAGES_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_stops_and_available_memory_bounds() {
        let calm = "some avg10=0.12 avg60=0.00 avg300=0.00 total=9\nfull avg10=99.0 total=0\n";
        let hard = calm.replace("0.12", "10.00");
        let mem = |kib: u64| format!("MemTotal: 5 kB\nMemAvailable:   {kib} kB\n");
        assert_eq!(allowed(calm, &mem(3200)), 100);
        assert_eq!(allowed(calm, &mem(1 << 40)), PAGES_MOST);
        assert_eq!(allowed(&hard, &mem(3200)), 0);
        assert_eq!(allowed("", &mem(3200)), 100, "a kernel without PSI");
        assert_eq!(allowed(calm, ""), 0);
    }
}
