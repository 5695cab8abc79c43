//! The functions that the fuzz targets call: they feed any bytes to the parsers and check their
//! guarantees. A test replays the corpora with them.

use seekless_block::{Extent, Op, SimTime};
use seekless_disk::{Command, Device, DeviceSpec, Drive, Scheduler, import_disksim};

/// Parses bytes as a device's description.
///
/// # Panics
/// Panics if an accepted description makes no device, or a device that cannot serve its own
/// sectors. Both are bugs.
pub(crate) fn toml(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(spec) = DeviceSpec::parse("fuzz", text)
    {
        serve(&spec);
    }
}

/// Parses bytes as DiskSim's parameters. Every file that they name has the same bytes.
///
/// # Panics
/// As [`toml`].
pub(crate) fn import(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(spec) = import_disksim("fuzz", text, &mut |_| Ok(text.to_owned()))
    {
        serve(&spec.into());
    }
}

fn serve(spec: &DeviceSpec) {
    let made = Device::new(spec);
    assert!(made.is_ok(), "the description was accepted, but makes no device");
    let Ok(device) = made else { return };
    let end = device.capacity().get();
    let mut drive = Drive::new(device, Scheduler::Fcfs);
    let mut open = 0;
    for (tag, start) in [0, end / 2, end - 1, end / 2].into_iter().enumerate() {
        let op = if tag % 2 == 0 { Op::Read } else { Op::Write };
        let command = Command::new(tag as u64, op, Extent::new(start, 1));
        let command = Command { background: tag == 3, ..command };
        let taken = drive.submit(SimTime(tag as u64), command);
        assert!(taken.is_ok(), "sector {start} of the device is refused");
        open += 1;
    }
    let past = Command::new(9, Op::Read, Extent::new(end, 1));
    assert!(drive.submit(SimTime(9), past).is_err(), "a sector after the end is served");
    while let Some(at) = drive.next_event() {
        while drive.poll(at).is_some() {
            open -= 1;
        }
    }
    assert!(open == 0 && drive.is_idle(), "{open} commands never end");
}
