//! I/Os and counters of a disk in the words of the status.

use seekless_block::{Op, SECTOR_BYTES};
use seekless_engine::Target;

use crate::backend::emulated::DiskStats;
use crate::status::{Busy, Head, Kind, Point};
use crate::tap::IoSample;

/// An I/O as a point of the page; addresses of the area stand behind home.
pub(super) fn point(io: &IoSample, home_bytes: u64) -> Point {
    let kind = match (io.background, io.op, io.target) {
        (true, ..) => Kind::Moving,
        (_, Op::Read, Target::Home) => Kind::HomeRead,
        (_, Op::Read, Target::Area) => Kind::CopyRead,
        _ => Kind::Write,
    };
    let from = if io.target == Target::Area { home_bytes } else { 0 };
    let at_bytes = from.saturating_add(io.extent.start.0.saturating_mul(SECTOR_BYTES));
    Point { time_unix_ms: 0, at_bytes, len_bytes: io.extent.bytes().0, kind }
}

/// Counters of an emulated disk, and the seconds for moving data.
pub(super) fn books(d: &DiskStats) -> (Busy, f64) {
    let seconds = |d: seekless_block::Duration| d.as_secs_f64();
    let phases = seconds(d.seek) + seconds(d.rotation) + seconds(d.transfer);
    let energy = d.usage.energy.seek + d.usage.energy.rotation_transfer;
    let busy = Busy {
        seek_s: seconds(d.seek),
        rotation_s: seconds(d.rotation),
        transfer_s: seconds(d.transfer),
        overhead_s: (seconds(d.busy) - phases).max(0.0),
        energy_j: energy.as_joules_f64(),
    };
    (busy, seconds(d.background_busy))
}

pub(super) fn head(d: &DiskStats) -> Head {
    Head {
        ios: d.ios,
        nonsequential: d.nonsequential,
        seek_cylinders: d.seek_cylinders,
        bytes: d.sectors * SECTOR_BYTES,
        late_s: d.lateness.total.as_secs_f64(),
    }
}
