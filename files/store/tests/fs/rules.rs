//! The order of writes on the device, and what recovery believes: rules that only a crash at one
//! particular moment would show.

use std::cell::RefCell;
use std::rc::Rc;

use seekless_block::{Bytes, Device, DeviceError, Duration, Extent, Sectors, SimTime};
use seekless_store::format::{Geometry, RecordPage, Role};
use seekless_store::{
    Arrival, Ask, Attributes, Config, DiskPhase, Fault, FileNumber, GroupStore, Input, Member,
    OtherModule, Output, Reply, RequestId, StoreOnDevice, format_store, superblock,
};

use crate::medium::Image;

mod unreadable;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Done {
    Write(Extent),
    Flush,
}

/// A device that records its I/Os.
#[derive(Clone, Debug)]
struct Noted {
    image: Image,
    done: Rc<RefCell<Vec<Done>>>,
}

impl Device for Noted {
    fn capacity(&self) -> Sectors {
        self.image.capacity()
    }
    fn read(&mut self, extent: Extent, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.image.read(extent, buf)
    }
    fn write(&mut self, extent: Extent, buf: &[u8]) -> Result<(), DeviceError> {
        self.done.borrow_mut().push(Done::Write(extent));
        self.image.write(extent, buf)
    }
    fn flush(&mut self) -> Result<(), DeviceError> {
        self.done.borrow_mut().push(Done::Flush);
        self.image.flush()
    }
    fn write_zeroes(&mut self, extent: Extent) -> Result<(), DeviceError> {
        self.image.write_zeroes(extent)
    }
}

fn noted(clusters: u64) -> (Noted, Geometry) {
    let mut image = Image::zeroed(1_800 + clusters * 128);
    format_store(&mut image, [5; 16], Bytes(65_536), "rules").unwrap();
    let (_, geometry) = superblock(&mut image).unwrap();
    (Noted { image, done: Rc::default() }, geometry)
}

fn config() -> Config {
    Config { cache: Bytes(1 << 20), commit_after: Duration(1_000), commit_along: Duration(10) }
}

fn arrival(name: Vec<u8>, data: Vec<u8>) -> Member {
    Member::New(Arrival { attributes: Attributes::default(), name, data })
}

fn group(
    store: &mut StoreOnDevice<Noted, impl FnMut() -> bool>,
    members: Vec<Member>,
) -> Vec<FileNumber> {
    let Ok(Reply::Numbers(numbers)) = store.ask(SimTime(1), Ask::Group { members }) else {
        panic!()
    };
    store.ask(SimTime(1), Ask::Settle { files: numbers.clone() }).unwrap();
    numbers
}

#[test]
fn changes_that_nobody_syncs_go_before_a_disk_sleeps_and_wait_while_it_does() {
    let (device, _) = noted(32);
    let done = Rc::clone(&device.done);
    let mut store = StoreOnDevice::attach(device, || true, config()).unwrap();
    let file = group(&mut store, vec![arrival(vec![1], vec![1; 5_000])])[0];
    store.ask(SimTime(1), Ask::Sync { file: None }).unwrap();
    let mut now = 10;
    for (phase, waits) in
        [(DiskPhase::Turning, 1_000), (DiskPhase::Drowsy, 10), (DiskPhase::Asleep, 600_000_000_000)]
    {
        done.borrow_mut().clear();
        store.set_disk_phase(phase);
        let attributes = Attributes { mode: now as u32, ..Attributes::default() };
        store.ask(SimTime(now), Ask::SetAttributes { file, attributes }).unwrap();
        assert_eq!(store.group_store().wakeup(), Some(SimTime(now + waits)), "{phase:?}");
        // A read from memory does not wake the disk either.
        store.ask(SimTime(now + waits - 1), Ask::Read { file, offset: 0, len: 9 }).unwrap();
        store.tick(SimTime(now + waits - 1));
        assert!(done.borrow().is_empty(), "{phase:?}");
        store.tick(SimTime(now + waits));
        assert!(!done.borrow().is_empty(), "{phase:?}");
        now += waits + 10;
    }
    // A sync does not wait.
    store.ask(SimTime(now), Ask::Leave { files: vec![file] }).unwrap();
    done.borrow_mut().clear();
    store.ask(SimTime(now), Ask::Settle { files: vec![file] }).unwrap();
    store.ask(SimTime(now), Ask::Sync { file: Some(file) }).unwrap();
    assert!(!done.borrow().is_empty());
}

#[test]
fn what_is_asked_together_is_answered_in_order_and_shares_flushes() {
    let flushes = |together: bool| {
        let (device, _) = noted(64);
        let done = Rc::clone(&device.done);
        let mut store = StoreOnDevice::attach(device, || true, config()).unwrap();
        done.borrow_mut().clear();
        let form = |i: u8| Ask::Group { members: vec![arrival(vec![i], vec![i; 900])] };
        let mut asks: Vec<Ask> = (0..8).map(form).collect();
        asks.insert(3, Ask::Remove { file: FileNumber(u64::MAX) });
        let replies: Vec<_> = if together {
            store.ask_all(SimTime(1), asks)
        } else {
            asks.into_iter().map(|ask| store.ask(SimTime(1), ask)).collect()
        };
        for (i, reply) in replies.into_iter().enumerate() {
            match reply {
                Ok(Reply::Numbers(numbers)) => {
                    let name = &store.group_store().file(numbers[0]).unwrap().name;
                    assert_eq!(**name, [(i - usize::from(i > 3)) as u8]);
                }
                other => assert_eq!((i, other), (3, Err(Fault::NoFile(FileNumber(u64::MAX))))),
            }
        }
        let done = done.borrow();
        done.iter().filter(|d| **d == Done::Flush).count()
    };
    let (together, alone) = (flushes(true), flushes(false));
    assert!(3 * together < alone, "{together} flushes, {alone} one by one");
}

/// Batches of several pages, so that some do not fit before the end of the log. The store restarts
/// after each batch; checkpoints are few.
#[test]
fn the_log_goes_round_and_is_found_wherever_it_ends() {
    let (device, geometry) = noted(16);
    let synced: fn() -> bool = || true;
    let mut store = StoreOnDevice::attach(device, synced, config()).unwrap();
    let members = (0..20u8).map(|i| arrival(vec![i; 1_000], vec![i; 50])).collect();
    let files = group(&mut store, members);
    let pages = 6;
    let rounds = 3 * geometry.log_pages / pages;
    let mut checkpoints = 0;
    for round in 1..=rounds {
        for &file in &files {
            let attributes = Attributes { mode: round, ..Attributes::default() };
            store.ask(SimTime(1), Ask::SetAttributes { file, attributes }).unwrap();
        }
        store.ask(SimTime(1), Ask::Sync { file: None }).unwrap();
        checkpoints += store.group_store().stats().checkpoints;
        store = StoreOnDevice::attach(store.into_device(), synced, config()).unwrap();
        for &file in &files {
            let mode = store.group_store().file(file).map(|f| f.attributes.mode);
            assert_eq!(mode, Some(round), "{round} of {rounds}");
        }
    }
    assert!(checkpoints > 1 && checkpoints < u64::from(rounds) / 2, "{checkpoints}, {rounds}");
}

/// Otherwise a crash could bring back a marker without an entry.
#[test]
fn a_removal_is_written_down_only_when_the_other_module_is_synced() {
    for synced in [true, false] {
        let (device, _) = noted(32);
        let mut store = StoreOnDevice::attach(device, || true, config()).unwrap();
        let file = group(&mut store, vec![arrival(vec![1], vec![1; 5_000])])[0];
        store.ask(SimTime(1), Ask::Sync { file: None }).unwrap();
        let mut group_store = GroupStore::attach(&mut store.into_device(), config()).unwrap();
        let asks = [Ask::Remove { file }, Ask::Sync { file: None }];
        for (id, ask) in (1..).map(RequestId).zip(asks) {
            group_store.handle(SimTime(2), Input::Ask { id, ask });
        }
        let outputs = |group_store: &mut GroupStore| {
            std::iter::from_fn(|| group_store.poll()).collect::<Vec<_>>()
        };
        let writes = |outputs: &[Output]| outputs.iter().any(|o| matches!(o, Output::Submit(_)));
        let first = outputs(&mut group_store);
        assert!(first.contains(&Output::SyncOther) && !writes(&first), "{first:?}");
        group_store.handle(SimTime(3), Input::OtherSynced(synced));
        assert_eq!(writes(&outputs(&mut group_store)), synced);
    }
}

/// A removal writes no group, also if the group is in memory.
#[test]
fn a_group_that_lost_a_file_is_read_whole_until_it_changes() {
    let (device, _) = noted(32);
    let synced: fn() -> bool = || true;
    let mut store = StoreOnDevice::attach(device, synced, config()).unwrap();
    let files = group(&mut store, (0..8u8).map(|i| arrival(vec![i], vec![i; 8_000])).collect());
    let file = files[0];
    // Syncs, and reads a file of the group from the device: bytes read.
    let read_cold = |mut store: StoreOnDevice<Noted, fn() -> bool>| {
        store.ask(SimTime(1), Ask::Sync { file: None }).unwrap();
        let mut store = StoreOnDevice::attach(store.into_device(), synced, config()).unwrap();
        store.ask(SimTime(1), Ask::Read { file, offset: 0, len: 1 }).unwrap();
        let bytes = store.group_store().stats().bytes_read;
        (store, bytes)
    };
    let (mut store, whole) = read_cold(store);
    store.ask(SimTime(1), Ask::Remove { file: files[7] }).unwrap();
    store.ask(SimTime(1), Ask::Sync { file: None }).unwrap();
    assert_eq!(store.group_store().stats().groups_written, 0);
    let (mut store, bytes) = read_cold(store);
    assert_eq!((whole, bytes), (65_536, 65_536));
    store.ask(SimTime(1), Ask::Write { file, offset: 0, data: vec![9], time: 1 }).unwrap();
    let (_, bytes) = read_cold(store);
    assert_eq!(bytes, 57_344, "seven files are left");
}

/// Four files, written repeatedly until all clusters have been used several times.
#[test]
fn what_a_checkpoint_needs_is_not_written_over_and_its_header_comes_last() {
    let (device, geometry) = noted(16);
    let done = Rc::clone(&device.done);
    let mut store = StoreOnDevice::attach(device, || true, config()).unwrap();
    let files: Vec<FileNumber> =
        (0..4u8).flat_map(|i| group(&mut store, vec![arrival(vec![i], vec![i; 5_000])])).collect();
    store.ask(SimTime(1), Ask::Checkpoint).unwrap();
    done.borrow_mut().clear();

    let headers = [0, 1].map(|place| Geometry::pages(geometry.checkpoint_at(place), 1));
    let checkpoints = geometry.checkpoint_at(0).min(geometry.checkpoint_at(1));
    let checkpoints = Extent::span(
        Geometry::pages(checkpoints, 1).start.0,
        Geometry::pages(checkpoints + 2 * u64::from(geometry.checkpoint_pages), 0).start.0,
    );
    // The place of each file's group: by the newest checkpoint, or by the log after it.
    let mut live: Vec<Option<Extent>> = vec![None; files.len()];
    let mut needed: Vec<Extent> = Vec::new();
    let (mut groups, mut stood) = (0, 0);
    let (mut pages, mut unflushed, mut header) = (0, 0, false);
    for round in 0..400u64 {
        let which = (round * 7 % 4) as usize;
        let file = files[which];
        let write = Ask::Write { file, offset: 0, data: vec![round as u8; 4_000], time: 1 };
        store.ask(SimTime(1), write).unwrap();
        store.ask(SimTime(1), Ask::Sync { file: Some(file) }).unwrap();
        for did in done.borrow_mut().drain(..) {
            match did {
                Done::Write(e) if headers.contains(&e) => {
                    assert!(pages > 0, "round {round}: a header, and none of its pages");
                    assert_eq!(
                        unflushed, 0,
                        "round {round}: a header over pages that are not safe"
                    );
                    (header, pages) = (true, 0);
                }
                Done::Write(e) if checkpoints.overlaps(e) => {
                    (pages, unflushed) = (pages + 1, unflushed + 1);
                }
                Done::Write(e) if e.start.0 >= geometry.clusters_at().0 => {
                    assert!(
                        !header,
                        "round {round}: a group before its checkpoint's header was safe"
                    );
                    if let Some(old) = needed.iter().find(|n| n.overlaps(e)) {
                        panic!(
                            "round {round}: {e} is written over {old}, which a crash would go back to"
                        );
                    }
                    needed.push(e);
                    live[which] = Some(e);
                    groups += 1;
                }
                Done::Write(_) => {}
                Done::Flush => {
                    unflushed = 0;
                    if std::mem::take(&mut header) {
                        needed = live.iter().copied().flatten().collect();
                        stood += 1;
                    }
                }
            }
        }
    }
    assert!(groups >= 400 && stood >= 10, "{groups} groups, {stood} checkpoints");
}

/// Two whole pages of the same batch, written by different attempts.
#[test]
fn a_batch_whose_pages_do_not_add_up_is_not_believed() {
    let (device, geometry) = noted(16);
    let mut store = StoreOnDevice::attach(device, || true, config()).unwrap();
    // Long names, so that a batch takes several pages.
    let long = |i: u8| vec![i; 1_000];
    let members = (1..=20).map(|i| arrival(long(i), vec![i; 100])).collect();
    let Ok(Reply::Numbers(numbers)) = store.ask(SimTime(1), Ask::Group { members }) else {
        panic!()
    };
    let whole = store.into_device().image;
    let attached = |image: &Image| GroupStore::attach(&mut image.clone(), config()).unwrap();
    assert!(numbers.iter().all(|n| attached(&whole).file(*n).is_some()));

    let mut changed = 0;
    for page in geometry.log_at()..geometry.log_at() + u64::from(geometry.log_pages) {
        let mut image = whole.clone();
        let mut bytes = [0; 4_096];
        image.read(Geometry::pages(page, 1), &mut bytes).unwrap();
        let Ok(mut read) = RecordPage::decode(&bytes) else { continue };
        if read.role != Role::Log || read.pages < 2 {
            continue;
        }
        // One letter of a name changes: the page's own checksum is correct, the batch's is wrong.
        let at =
            read.body.windows(8).rposition(|w| w.iter().all(|b| *b == w[0] && *b > 0)).unwrap();
        read.body[at] ^= 0x40;
        image.write(Geometry::pages(page, 1), &read.encode()).unwrap();
        let found = attached(&image);
        let left = numbers.iter().filter(|n| found.file(**n).is_some()).count();
        assert_eq!(
            left, 0,
            "page {page} of a batch was changed, and {left} files of it are believed"
        );
        changed += 1;
    }
    assert!(changed >= 4, "only {changed} pages");
}

/// A host's cache in front of a disk. A flush that fails forgets which bytes the disk lacks, as
/// Linux does.
#[derive(Clone, Debug)]
struct Forgetful {
    cache: Image,
    disk: Image,
    unflushed: Vec<Extent>,
    /// Successful flushes before one that fails.
    flushes: Rc<RefCell<u32>>,
}

impl Device for Forgetful {
    fn capacity(&self) -> Sectors {
        self.cache.capacity()
    }
    fn read(&mut self, extent: Extent, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.cache.read(extent, buf)
    }
    fn write(&mut self, extent: Extent, buf: &[u8]) -> Result<(), DeviceError> {
        self.unflushed.push(extent);
        self.cache.write(extent, buf)
    }
    fn flush(&mut self) -> Result<(), DeviceError> {
        let unflushed = std::mem::take(&mut self.unflushed);
        let left = self.flushes.borrow().checked_sub(1);
        *self.flushes.borrow_mut() = left.unwrap_or(u32::MAX);
        if left.is_none() {
            let (op, extent) = ("flushing", Extent::default());
            return Err(DeviceError::Io { op, extent, source: std::io::ErrorKind::Other.into() });
        }
        for extent in unflushed {
            let mut bytes = vec![0; extent.bytes().0 as usize];
            self.cache.read(extent, &mut bytes)?;
            self.disk.write(extent, &bytes)?;
        }
        Ok(())
    }
    fn forget_cached(&mut self) {
        let mut kept = self.disk.clone();
        for &extent in &self.unflushed {
            let mut bytes = vec![0; extent.bytes().0 as usize];
            self.cache.read(extent, &mut bytes).unwrap();
            kept.write(extent, &bytes).unwrap();
        }
        self.cache = kept;
    }
}

/// The store restarts after a failed flush, and the power fails later. Each flush of a write and of
/// a checkpoint fails once.
#[test]
fn an_attach_believes_no_page_that_only_the_cache_of_the_host_has() {
    let (device, _) = noted(32);
    let mut store = StoreOnDevice::attach(device, || true, config()).unwrap();
    let file = group(&mut store, vec![arrival(vec![1], vec![1; 5_000])])[0];
    store.ask(SimTime(1), Ask::Sync { file: None }).unwrap();
    let image = store.into_device().image;
    for (failing, changed) in (0..4).map(|f| (f, f < 2)) {
        let flushes = Rc::new(RefCell::new(u32::MAX));
        let (cache, disk) = (image.clone(), image.clone());
        let device = Forgetful { cache, disk, unflushed: Vec::new(), flushes: Rc::clone(&flushes) };
        let mut store = StoreOnDevice::attach(device, || true, config()).unwrap();
        *flushes.borrow_mut() = failing % 2;
        let write = |byte: u8| Ask::Write { file, offset: 0, data: vec![byte; 4_000], time: 1 };
        let failed = if changed {
            store.ask(SimTime(1), write(2)).unwrap();
            store.ask(SimTime(1), Ask::Sync { file: Some(file) })
        } else {
            store.ask(SimTime(1), Ask::Checkpoint)
        };
        assert_eq!(failed, Err(Fault::Broken), "flush {failing}");
        let mut store = StoreOnDevice::attach(store.into_device(), || true, config()).unwrap();
        for byte in [3, 4] {
            store.ask(SimTime(1), write(byte)).unwrap();
            store.ask(SimTime(1), Ask::Sync { file: Some(file) }).unwrap();
        }
        let disk = store.into_device().disk;
        let mut store =
            StoreOnDevice::attach(Noted { image: disk, done: Rc::default() }, || true, config())
                .unwrap_or_else(|e| panic!("flush {failing}: {e}"));
        let read = store.ask(SimTime(1), Ask::Read { file, offset: 0, len: 4_000 });
        assert_eq!(read, Ok(Reply::Data(vec![4; 4_000])), "flush {failing}");
    }
}

/// Otherwise a shuffle that fails would let go of bytes that only the memory has.
#[test]
fn a_store_that_is_broken_keeps_what_was_acknowledged_and_takes_no_more_memory() {
    let (device, _) = noted(32);
    let mut store = StoreOnDevice::attach(device, || true, config()).unwrap();
    let files = [1, 2, 3, 4].map(|i| group(&mut store, vec![arrival(vec![i], vec![i; 5_000])])[0]);
    store.ask(SimTime(1), Ask::Checkpoint).unwrap();
    let mut image = store.into_device().image;
    for sector in image.0.iter_mut().filter(|s| s.iter().all(|b| *b == 2)) {
        *sector = Rc::new([9; 512]);
    }
    for fresh in [false, true] {
        let flushes = Rc::new(RefCell::new(u32::MAX));
        let (cache, disk) = (image.clone(), image.clone());
        let device = Forgetful { cache, disk, unflushed: Vec::new(), flushes: Rc::clone(&flushes) };
        // Memory for one group.
        let config = Config { cache: Bytes(1), ..config() };
        let mut store = StoreOnDevice::attach(device, || true, config).unwrap();
        *flushes.borrow_mut() = 0;
        let (data, members) = (vec![7; 5_000], vec![arrival(vec![5], vec![7; 5_000])]);
        let first = if fresh {
            Ask::Group { members }
        } else {
            Ask::Write { file: files[0], offset: 0, data, time: 1 }
        };
        assert_eq!(store.ask(SimTime(1), first).is_err(), fresh);
        let newest = store.group_store().files().map(|(n, _)| n).max().unwrap();
        let changed = if fresh { newest } else { files[0] };
        let mut ask = |ask: Ask| store.ask(SimTime(1), ask);
        assert_eq!(ask(Ask::Sync { file: None }), Err(Fault::Broken));
        for members in [[changed, files[2]], [changed, files[1]]] {
            let members = members.map(Member::Here).to_vec();
            assert_eq!(ask(Ask::Group { members }), Err(Fault::Broken));
        }
        let read = |file| Ask::Read { file, offset: 0, len: 5_000 };
        assert_eq!(ask(read(files[3])), Ok(Reply::Data(vec![4; 5_000])));
        assert_eq!(ask(read(changed)), Ok(Reply::Data(vec![7; 5_000])), "fresh: {fresh}");
        // The changed group, and the one that was used last.
        let bytes = store.group_store().cached_bytes();
        assert!(bytes < 3 * 5_000, "{bytes} bytes are cached");
    }
}

/// The caller of this store syncs the other module.
struct Later;

impl OtherModule for Later {
    fn sync(&mut self) -> Option<bool> {
        None
    }
}

#[test]
fn a_store_is_read_and_written_while_the_other_module_syncs() {
    let (device, _) = noted(32);
    let mut store = StoreOnDevice::attach(device, || true, config()).unwrap();
    let members = vec![arrival(vec![1], vec![1; 5_000]), arrival(vec![2], vec![2; 3_000])];
    let files = group(&mut store, members);
    store.ask(SimTime(1), Ask::Sync { file: None }).unwrap();
    let mut store = StoreOnDevice::attach(store.into_device(), Later, config()).unwrap();
    let asks = vec![Ask::Remove { file: files[0] }, Ask::Sync { file: None }];
    let removal = store.send(SimTime(2), asks);
    assert!(!store.have_ended(&removal) && !store.is_syncing());
    assert!(store.begins_sync());
    assert!(!store.begins_sync() && store.is_syncing(), "one caller begins it");
    let write = Ask::Write { file: files[1], offset: 0, data: vec![3; 9], time: 7 };
    store.ask(SimTime(3), write).unwrap();
    let read = store.ask(SimTime(3), Ask::Read { file: files[1], offset: 0, len: 9 }).unwrap();
    assert_eq!(read, Reply::Data(vec![3; 9]));
    assert!(!store.have_ended(&removal));
    store.other_synced(SimTime(4), true);
    assert!(store.have_ended(&removal) && !store.is_syncing());
    assert!(store.take_replies(removal).iter().all(Result::is_ok));
    store.ask(SimTime(5), Ask::Sync { file: None }).unwrap();
    assert!(!store.group_store().is_being_written(files[1]));
}

/// A store that always has changes to write would refuse new files long before its table is full.
#[test]
fn records_of_new_groups_are_reserved_until_they_are_in_the_table() {
    let (device, _) = noted(128);
    let mut store = StoreOnDevice::attach(device, || true, config()).unwrap();
    let changed = group(&mut store, vec![arrival(vec![1], vec![1; 100])])[0];
    // The commits of other groups do not carry this change.
    let attributes = Attributes { mode: 7, ..Attributes::default() };
    store.ask(SimTime(1), Ask::SetAttributes { file: changed, attributes }).unwrap();
    for round in 0..100u8 {
        let name = |i: u8| [&[round, i][..], &[0; 98]].concat();
        let members = (0..8u8).map(|i| arrival(name(i), vec![i; 9])).collect();
        let formed = store.ask(SimTime(1), Ask::Group { members });
        assert!(formed.is_ok(), "round {round}: {formed:?}");
        assert!(!store.group_store().is_clean(), "round {round}");
    }
}

/// The tables fit into a checkpoint, also with groups that wait for their commit.
#[test]
fn a_new_group_counts_the_records_of_groups_that_are_not_committed() {
    let (device, _) = noted(32);
    let mut store = StoreOnDevice::attach(device, || true, config()).unwrap();
    let removed = group(&mut store, vec![arrival(vec![1], vec![1; 100])])[0];
    store.ask(SimTime(1), Ask::Sync { file: None }).unwrap();
    let mut store = StoreOnDevice::attach(store.into_device(), Later, config()).unwrap();
    // A commit that waits for the other module, and behind it groups that wait for the commit.
    store.send(SimTime(2), vec![Ask::Remove { file: removed }, Ask::Sync { file: None }]);
    let members = || (0..8u8).map(|i| arrival(vec![i; 1_000], vec![i; 9])).collect();
    let asks: Vec<Ask> = (0..20).map(|_| Ask::Group { members: members() }).collect();
    let formed = store.send(SimTime(2), asks);
    assert!(store.begins_sync());
    store.other_synced(SimTime(3), true);
    let formed = store.take_replies(formed);
    let refused = formed.iter().filter(|f| **f == Err(Fault::TableFull)).count();
    assert!(formed[0].is_ok() && refused > 10, "{formed:?}");
    store.send(SimTime(4), vec![Ask::Checkpoint]);
    let store = StoreOnDevice::attach(store.into_device(), Later, config()).unwrap();
    assert_eq!(store.group_store().file_count() as usize, (20 - refused) * 8);
}
