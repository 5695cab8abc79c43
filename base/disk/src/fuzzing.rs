//! Entry points for fuzzers: any bytes, and what must hold for them. It refuses to know which fuzzer calls.

use seekless_block::{Extent, Op, SimTime};

use crate::{Command, Device, DeviceSpec, Drive, Scheduler, import_disksim};

/// Reads bytes as a device's description.
///
/// # Panics
/// Where a description that was accepted makes no device, or one that cannot serve its own sectors: bugs.
pub fn toml(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(spec) = DeviceSpec::parse("fuzz", text)
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
        serve(&spec.into());
    }
}

fn serve(spec: &DeviceSpec) {
    let made = Device::new(spec);
    assert!(made.is_ok(), "accepted, and makes no device");
    let Ok(device) = made else { return };
    let end = device.capacity().get();
    let mut drive = Drive::new(device, Scheduler::Fcfs);
    let mut open = 0;
    for (tag, start) in [0, end / 2, end - 1, end / 2].into_iter().enumerate() {
        let op = if tag % 2 == 0 { Op::Read } else { Op::Write };
        let command = Command::new(tag as u64, op, Extent::new(start, 1));
        let command = Command { background: tag == 3, ..command };
        let taken = drive.submit(SimTime(tag as u64), command);
        assert!(taken.is_ok(), "its own sector {start} is refused");
        open += 1;
    }
    let past = Command::new(9, Op::Read, Extent::new(end, 1));
    assert!(drive.submit(SimTime(9), past).is_err(), "a sector past the end is served");
    while let Some(at) = drive.next_event() {
        while drive.poll(at).is_some() {
            open -= 1;
        }
    }
    assert!(open == 0 && drive.is_idle(), "{open} commands never end");
}
