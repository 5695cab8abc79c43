//! The whole crate from outside.

use seekless_block::{Duration, Extent, Op, SimTime};
use seekless_disk::{Command, Disk, Drive, Scheduler, catalogue};

#[test]
fn every_entry_of_the_catalogue_is_sound_and_streams() {
    for name in catalogue::names() {
        let disk = Disk::new(&catalogue::get(name).unwrap()).unwrap();
        let mut drive = Drive::new(disk, Scheduler::Fcfs);
        let command =
            Command { tag: 7, op: Op::Read, extent: Extent::new(0, 1 << 20), background: false };
        drive.submit(SimTime(0), command).unwrap();
        let at = drive.next_event().unwrap();
        let c = drive.poll(at).unwrap();
        assert_eq!(c.tag, 7);
        let rate = 512.0 * f64::from(1 << 20) / c.access.transfer.as_secs_f64();
        println!("{name}: {rate:.0} B/s");
        assert!(c.access.transfer > Duration::ZERO);
    }
}
