//! Areas elsewhere, opened for repairs, and repairs that stop.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

use seekless_block::{Bytes, DeviceError, PAGE_BYTES};
use seekless_engine::Mode;
use tempfile::TempDir;

use super::*;
use crate::area::{AreaPlacement, MakeOptions, Share, make, resize};
use crate::control::{AdministerError, state_of};

/// A disk of 64 MiB, and its area in another file: of 16 MiB in write-back, or for replicas.
struct Pair {
    dir: TempDir,
    disk: PathBuf,
    area: PathBuf,
}

impl Pair {
    fn new(name: &str) -> Self {
        let options = MakeOptions {
            size: Some(Share::Bytes(Bytes(16 << 20))),
            write_buffer_percent: 50,
            mode: Mode::WriteBack,
            ..MakeOptions::new(AreaPlacement::Start)
        };
        Self::with(name, options)
    }

    fn for_replicas(name: &str) -> Self {
        let replicas = Some(Share::Bytes(Bytes(8 << 20)));
        Self::with(name, MakeOptions { replicas, ..MakeOptions::new(AreaPlacement::Start) })
    }

    fn with(name: &str, options: MakeOptions) -> Self {
        let dir = tempfile::Builder::new().prefix(name).tempdir().unwrap();
        let pair = Self { disk: dir.path().join("disk"), area: dir.path().join("area"), dir };
        let disk = File::create(&pair.disk).unwrap();
        disk.set_len(64 << 20).unwrap();
        // A region of zeroes would count as lost.
        disk.write_all_at(&[1; 512], 4096).unwrap();
        let at = AreaPlacement::Beside(pair.area.clone());
        make(&pair.disk, &MakeOptions { at, ..options }).unwrap();
        pair
    }

    fn open(&self, write: bool) -> Lasting {
        open(&self.disk, Some(&self.area), write).unwrap()
    }

    /// As a server that is killed before its first request: the guard is up.
    fn attach(&self) {
        let config = Config::new(Sectors(0));
        let (_, report) = self.open(true).attach(config, false, false).unwrap();
        assert!(report.needs_guard);
    }

    fn write_to_disk(&self, at: u64) {
        let disk = File::options().write(true).open(&self.disk).unwrap();
        disk.write_all_at(&[7; 512], at).unwrap();
    }

    fn bytes(&self) -> (Vec<u8>, Vec<u8>) {
        (fs::read(&self.disk).unwrap(), fs::read(&self.area).unwrap())
    }
}

fn is_older(error: &ServeError) -> bool {
    matches!(error, ServeError::Area { source, .. } if matches!(**source, AttachError::Older { .. }))
}

/// A client has a volume of seekless in the disk. The area of the disk itself is not named.
#[test]
fn a_repair_of_a_guarded_disk_without_its_area_takes_no_superblock_of_a_client() {
    let pair = Pair::new("unnamed");
    pair.attach();
    let inner = pair.dir.path().join("inner");
    File::create(&inner).unwrap().set_len(64 << 20).unwrap();
    let size = Some(Share::Bytes(Bytes(16 << 20)));
    make(&inner, &MakeOptions { size, ..MakeOptions::new(AreaPlacement::Start) }).unwrap();
    let place = open(&inner, None, false).unwrap().superblock.places()[1] * PAGE_BYTES;
    let mut page = [0; PAGE_BYTES as usize];
    File::open(&inner).unwrap().read_exact_at(&mut page, place).unwrap();
    let disk = File::options().write(true).open(&pair.disk).unwrap();
    disk.write_all_at(&page, place).unwrap();
    let before = pair.bytes();
    for write in [false, true] {
        let refused = open(&pair.disk, None, write).unwrap_err().to_string();
        assert!(refused.contains("name this area"), "{refused}");
        assert!(pair.bytes() == before, "it was changed");
    }
}

/// Another program wrote over the guard, but not over its first sector, which names the area's
/// generation. A rescue reads what [`Lasting::examine`] finds.
#[test]
fn an_older_copy_is_refused_although_its_guard_is_refused_for_another_reason() {
    // The superblock of an ext4, and another page of the guard.
    for at in [1024, 8192] {
        refuses_an_older_copy(at);
    }
}

fn refuses_an_older_copy(written_at: u64) {
    let pair = Pair::new("older");
    pair.attach();
    let older = fs::read(&pair.area).unwrap();
    pair.attach();
    let newest = fs::read(&pair.area).unwrap();
    pair.write_to_disk(written_at);
    fs::write(&pair.area, &older).unwrap();
    let before = pair.bytes();
    let mut lasting = pair.open(false);
    assert!(lasting.is_guarded().unwrap_err().contains("over the guard"));
    let refused = lasting.examine().unwrap_err();
    assert!(is_older(&refused), "{refused:?}");
    drop(lasting);
    let refused = state_of(&pair.disk, Some(&pair.area)).unwrap_err();
    assert!(matches!(&refused, AdministerError::Serve(e) if is_older(e)), "{refused:?}");
    for lose in [false, true] {
        let refused = pair.open(true).repair(lose).unwrap_err();
        assert!(is_older(&refused), "{refused:?}");
        assert!(pair.bytes() == before, "it was changed");
    }
    fs::write(&pair.area, &newest).unwrap();
    assert!(pair.open(false).examine().is_ok(), "the newest copy");
    let repaired = pair.open(true).repair(true).unwrap();
    assert!(matches!(repaired.area, Repair::Done(_)) && repaired.error.is_none());
    // The restored guard names the repaired area.
    fs::write(&pair.area, &newest).unwrap();
    assert!(is_older(&pair.open(false).examine().unwrap_err()));
}

/// Nobody knows whether the area is the newest copy.
#[test]
fn an_area_whose_guard_cannot_be_read_is_not_repaired() {
    let pair = Pair::new("unread");
    pair.attach();
    let before = pair.bytes();
    for lose in [false, true] {
        let mut lasting = pair.open(true);
        let source = std::io::Error::other("a medium error");
        let extent = Extent::new(0, 8);
        lasting.guard = Err(GuardError::Device(DeviceError::Io { op: "reading", extent, source }));
        lasting.repair(lose).unwrap_err();
        drop(lasting);
        assert!(pair.bytes() == before, "it was changed");
    }
}

/// The area is repaired before the guard. The region takes no write.
#[test]
fn a_repair_of_the_guard_that_fails_hides_nothing_of_the_areas_repair() {
    let pair = Pair::new("stops");
    pair.attach();
    pair.write_to_disk(8192);
    let mut lasting = pair.open(true);
    let keys = (lasting.superblock.uuid, lasting.superblock.home_capacity);
    let at = lasting.area.capacity().bytes().0;
    let only_read = File::open(&pair.area).unwrap();
    let region = Region::new(only_read.into(), at, keys, Label::new("area"));
    let home = lasting.home.bare().unwrap();
    lasting.home = home.with_guard(region);
    let before = lasting.superblock.generation;
    let stopped = lasting.repair(true).unwrap();
    let Repair::Done(report) = &stopped.area else { panic!("{stopped:?}") };
    assert!(report.mended.iter().any(|f| f.what.contains("another program wrote to the disk")));
    assert!(stopped.error.is_some());
    assert!(stopped.guard.is_some_and(|fault| fault.loses));
    assert!(lasting.superblock.generation > before);
    drop(lasting);
    // The next repair goes on.
    let mended = pair.open(true).repair(true).unwrap();
    assert!(mended.error.is_none());
    assert_eq!(pair.open(false).is_guarded(), Ok(true));
}

/// The free map is damaged, and this byte of the guard region.
fn without_free_map(name: &str, byte_of_region: u64) -> Pair {
    let pair = Pair::for_replicas(name);
    pair.attach();
    let lasting = pair.open(false);
    let (at, s) = (lasting.area.capacity().bytes().0 + byte_of_region, &lasting.superblock);
    let geo = s.geometry().unwrap();
    let free_maps = u64::from(s.checkpoint_slot) * u64::from(geo.free_map_pages());
    let free_map = (geo.checkpoint_at(2) + free_maps) * PAGE_BYTES;
    drop(lasting);
    let file = File::options().read(true).write(true).open(&pair.area).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
    file.write_all_at(&[0; 512], free_map).unwrap();
    pair
}

/// A repair that gives up one of both gives up the other, too.
#[test]
fn what_a_repair_would_lose_of_the_area_is_listed_although_the_guard_would_lose_something() {
    let pair = without_free_map("both", PAGE_BYTES + 100);
    let before = pair.bytes();
    let refused = pair.open(true).repair(false).unwrap();
    let Repair::WouldLose(report) = &refused.area else { panic!("{refused:?}") };
    assert!(report.mended.iter().any(|f| f.loss && f.what.contains("discarded")), "{report:?}");
    assert!(refused.guard.is_some_and(|fault| fault.loses && !fault.unproven));
    assert!(pair.bytes() == before, "it was changed");
    let repaired = pair.open(true).repair(true).unwrap();
    assert!(matches!(repaired.area, Repair::Done(_)) && repaired.error.is_none());
    assert_eq!(pair.open(false).is_guarded(), Ok(true));
}

/// The header of the guard region is damaged, which by itself needs no permission.
#[test]
fn a_repair_that_would_lose_data_writes_nothing_to_the_guard_either() {
    let pair = without_free_map("header", 40);
    let before = pair.bytes();
    let refused = pair.open(true).repair(false).unwrap();
    assert!(matches!(refused.area, Repair::WouldLose(_)), "{refused:?}");
    assert!(refused.guard.is_some_and(|fault| fault.unproven && !fault.loses));
    assert!(pair.bytes() == before, "it was changed");
    let repaired = pair.open(true).repair(true).unwrap();
    assert!(matches!(repaired.area, Repair::Done(_)) && repaired.error.is_none());
    assert_eq!(pair.open(false).is_guarded(), Ok(true));
}

/// Each error names its way out.
#[test]
fn where_guard_and_area_are_damaged_an_attach_names_both() {
    let pair = without_free_map("named", 40);
    let before = pair.bytes();
    let attached = pair.open(true).attach(Config::new(Sectors(0)), false, false);
    let refused = attached.map(drop).unwrap_err().to_string();
    for part in ["the header of its guard region", "free map", "run `seekless volume repair`"] {
        assert!(refused.contains(part), "{refused}");
    }
    assert!(pair.bytes() == before, "it was changed");
}

/// The first superblock is damaged, and another one: opening the area for a repair restores both.
#[test]
fn a_repair_names_superblocks_that_were_restored() {
    let pair = Pair::new("restored");
    pair.attach();
    let places = pair.open(false).superblock.places();
    let file = File::options().write(true).open(&pair.area).unwrap();
    for page in places.into_iter().take(2) {
        file.write_all_at(&[0; 4096], page * PAGE_BYTES).unwrap();
    }
    drop(file);
    let repaired = pair.open(true).repair(false).unwrap();
    let Repair::Done(report) = &repaired.area else { panic!("{repaired:?}") };
    assert!(repaired.restored && report.mended.iter().any(|f| f.what.contains("superblock")));
    let again = pair.open(true).repair(false).unwrap();
    assert!(!again.restored, "{again:?}");
}

/// The guard is down, and its header is damaged.
#[test]
fn a_resize_says_what_is_wrong_with_the_guard() {
    let size = Some(Share::Bytes(Bytes(16 << 20)));
    let pair =
        Pair::with("resized", MakeOptions { size, ..MakeOptions::new(AreaPlacement::Start) });
    let at = pair.open(false).area.capacity().bytes().0;
    let file = File::options().read(true).write(true).open(&pair.area).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at + 40).unwrap();
    file.write_all_at(&[!byte[0]], at + 40).unwrap();
    drop(file);
    let refused = resize(&pair.disk, Some(&pair.area), None).unwrap_err().to_string();
    assert!(refused.contains("run `seekless volume repair`"), "{refused}");
    assert!(!refused.contains("former size"), "{refused}");
    // The area itself is sound, and stays drained and detached.
    pair.open(true).repair(false).unwrap();
    resize(&pair.disk, Some(&pair.area), None).unwrap();
}

/// Nobody searches behind the end of a disk for the superblock of an area.
#[test]
fn a_locator_of_a_place_behind_the_end_tells_that_the_disk_shrank() {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    File::create(&disk).unwrap().set_len(64 << 20).unwrap();
    let size = Some(Share::Bytes(Bytes(16 << 20)));
    make(&disk, &MakeOptions { size, ..MakeOptions::new(AreaPlacement::Middle) }).unwrap();
    let file = File::options().read(true).write(true).open(&disk).unwrap();
    let mut page = [0; PAGE_BYTES as usize];
    file.read_exact_at(&mut page, 0).unwrap();
    let locator = Superblock::decode(&page).unwrap();
    // Its bytes are more than 64 bits count; a search would not end.
    for (area_at, area_size) in
        [(Lba(1 << 55), locator.area_size), (locator.area_at, Sectors(1 << 60))]
    {
        let moved = Superblock { area_at, area_size, ..locator.clone() };
        moved.encode(&mut page);
        file.write_all_at(&page, 0).unwrap();
        let said = open(&disk, None, true).unwrap_err();
        let ServeError::Area { source, .. } = &said else { panic!("{said}") };
        assert!(matches!(**source, AttachError::Shrunken { .. }), "{said}");
    }
}

/// Linux reports an error of write-back once to each open file description: what shares one could
/// take the report of another.
#[test]
fn home_area_and_guard_region_have_open_files_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    for (name, inside) in [("inside", true), ("beside", false)] {
        let (backing, area) = (dir.path().join(name), dir.path().join("area"));
        File::create(&backing).unwrap().set_len(64 << 20).unwrap();
        let at = if inside { AreaPlacement::Middle } else { AreaPlacement::Beside(area.clone()) };
        let options = MakeOptions {
            size: Some(Share::Bytes(Bytes(16 << 20))),
            write_buffer_percent: 50,
            mode: Mode::WriteBack,
            ..MakeOptions::new(at)
        };
        make(&backing, &options).unwrap();
        let lasting = open(&backing, (!inside).then_some(&*area), true).unwrap();
        // Their device reports its errors once to all of them.
        let (of_home, of_area) = (lasting.home.flushes(), lasting.area.flushes());
        assert!(of_area.is_beside(of_home), "{name}");
        assert!(lasting.home.guard().is_none_or(|region| region.flushes().is_beside(of_area)));
        let region = lasting.home.guard().map(Region::handle);
        let files = [lasting.home.file(), lasting.area.file(), region];
        let mut seen = Vec::new();
        for file in files.into_iter().flatten() {
            let flags = rustix::fs::fcntl_getfl(file).unwrap();
            assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK), "{name}: shared");
            rustix::fs::fcntl_setfl(file, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
            seen.push(file);
        }
        assert_eq!(seen.len(), if inside { 2 } else { 3 });
    }
}
