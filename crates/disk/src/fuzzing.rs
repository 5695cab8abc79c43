//! Entry points for fuzzers: any bytes, and what must hold for them. It refuses to know which fuzzer calls.

use seekless_block::{Extent, Op, SimTime};

use crate::{Disk, DiskSpec, import_disksim};

/// Reads bytes as a disk's description.
///
/// # Panics
/// Where a description that was accepted makes no disk, or one that cannot serve its own sectors: bugs.
pub fn toml(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(spec) = DiskSpec::parse("fuzz", text)
    {
        serve(&spec);
    }
}

/// Reads bytes as DiskSim's parameters; every file they name is they themselves.
///
/// # Panics
/// As [`toml`].
pub fn import(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(spec) = import_disksim("fuzz", text, &mut |_| Ok(text.to_owned()))
    {
        serve(&spec);
    }
}

fn serve(spec: &DiskSpec) {
    let made = Disk::new(spec);
    assert!(made.is_ok(), "accepted, and makes no disk");
    let Ok(mut disk) = made else { return };
    let end = disk.capacity().get();
    for (at, start) in [0, end / 2, end - 1].into_iter().enumerate() {
        let served = disk.access(SimTime(at as u64), Op::Read, Extent::new(start, 1));
        assert!(served.is_ok(), "its own sector {start} is refused");
    }
    let past = disk.access(SimTime(9), Op::Read, Extent::new(end, 1));
    assert!(past.is_err(), "a sector past the end is served");
}
