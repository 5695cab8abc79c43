//! The disk below a file system, in the kernel's counts: how many reads are under way, and what a
//! read costs.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use seekless_block::Duration;

use crate::mounts::Mounted;

/// Fewest requests from which a price is taken.
const REQUESTS: u64 = 64;
const PRICE_LEAST: u64 = 20_000;
const PRICE_MOST: u64 = 50_000_000;

/// The counts of a disk.
#[derive(Debug)]
pub(crate) struct Disk {
    inflight: File,
    stat: File,
    before: (u64, u64),
    price: Duration,
}

impl Disk {
    pub(crate) fn open(mounted: &Mounted) -> io::Result<Self> {
        Self::at(&mounted.disk()?.0)
    }

    /// The counts in this folder, as /sys has them.
    pub(crate) fn at(folder: &Path) -> io::Result<Self> {
        let open = |name| File::open(folder.join(name));
        let (inflight, stat) = (open("inflight")?, open("stat")?);
        let mut disk = Self { inflight, stat, before: (0, 0), price: Duration(8_000_000) };
        disk.before = disk.counts().unwrap_or((0, 0));
        Ok(disk)
    }

    pub(crate) fn reads_under_way(&self) -> u64 {
        let mut text = [0; 64];
        let n = self.inflight.read_at(&mut text, 0).unwrap_or(0);
        let text = std::str::from_utf8(&text[..n]).unwrap_or("");
        text.split_whitespace().next().and_then(|w| w.parse().ok()).unwrap_or(0)
    }

    /// Requests so far, and milliseconds in which the disk was busy.
    fn counts(&self) -> Option<(u64, u64)> {
        let mut text = [0; 512];
        let n = self.stat.read_at(&mut text, 0).ok()?;
        counts(std::str::from_utf8(text.get(..n)?).ok()?)
    }

    /// Time of the disk for one request, as the last looks saw it.
    pub(crate) const fn price(&self) -> Duration {
        self.price
    }

    /// Looks at the counts: the price follows once there are enough new requests.
    pub(crate) fn look(&mut self) {
        if let Some((requests, millis)) = self.counts() {
            let done = requests.saturating_sub(self.before.0);
            if done >= REQUESTS {
                let busy = millis.saturating_sub(self.before.1).saturating_mul(1_000_000);
                let found = (busy / done).clamp(PRICE_LEAST, PRICE_MOST);
                self.price = Duration(self.price.0.midpoint(found));
                self.before = (requests, millis);
            }
        }
    }
}

/// From the text of `stat`: reads and writes, and busy milliseconds.
fn counts(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_whitespace().map(|w| w.parse::<u64>().ok());
    let reads = numbers.next()??;
    let writes = numbers.nth(3)??;
    let busy = numbers.nth(4)??;
    Some((reads.checked_add(writes)?, busy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_busy_time_are_read() {
        let text = "     100    2  3 4      50     6    7     8        0   900  10   1 2 3 4 5 6\n";
        assert_eq!(counts(text), Some((150, 900)));
        assert_eq!(counts("1 2 3"), None);
        assert_eq!(counts("x"), None);
    }
}
