//! Logs with correct checksums whose records contradict each other.

use proptest::prelude::*;
use seekless_block::{MemDevice, SimTime};

use super::*;
use crate::format::{FileRecord, GroupRecord, RecordPage, Role, SlotRecord, crc32c, pack};
use crate::{Ask, FileNumber, Reply, StoreOnDevice};

type Attached = StoreOnDevice<MemDevice, fn() -> bool>;

/// Bytes of each file.
const BYTES: u32 = 100;

fn number(file: u32) -> FileNumber {
    FileNumber::new(file, 1 + file)
}

fn file(file: u32, group: u32) -> Change {
    let (number, size) = (number(file).0, BYTES);
    let record = FileRecord {
        number,
        group,
        size,
        mode: 0,
        uid: 0,
        gid: 0,
        accessed: 0,
        modified: 0,
        changed: 0,
        state: 0,
        name_bytes: 0,
    };
    Change::File(record, Box::default())
}

fn gone(file: u32) -> Change {
    Change::Gone(number(file).0)
}

fn group(group: u32, cluster: u32, clusters: u16, files: &[u32]) -> Change {
    let slot =
        |(i, f): (u32, &u32)| SlotRecord { number: number(*f), offset: i * BYTES, bytes: BYTES };
    let slots: Box<[SlotRecord]> = (0..).zip(files).map(slot).collect();
    let (bytes, files) = (slots.len() as u32 * BYTES, slots.len() as u16);
    let sum = crc_fast::crc32_iscsi(&vec![0; bytes as usize]);
    Change::Group(GroupRecord { group, cluster, clusters, bytes, sum, files }, slots)
}

/// Attaches an empty store with these batches in its log.
fn attached(batches: &[Vec<Change>]) -> Result<Attached, AttachError> {
    let mut device = MemDevice::new(Sectors(1 << 13));
    format(&mut device, [7; 16], Bytes(65_536), "").unwrap();
    let (_, geometry) = superblock(&mut device).unwrap();
    for (at, changes) in (0..).zip(batches) {
        let [body] = pack(changes).try_into().unwrap();
        let page = RecordPage {
            uuid: [7; 16],
            role: Role::Log,
            number: 1 + at,
            index: 0,
            pages: 1,
            batch_sum: crc32c([&body[..]]),
            checkpoint: 1,
            body,
        };
        device.write(Geometry::pages(geometry.log_at() + at, 1), &page.encode()).unwrap();
    }
    StoreOnDevice::attach(device, || true, Config::default())
}

#[test]
fn a_log_whose_records_contradict_each_other_is_refused() {
    let written = |cluster| vec![group(1, cluster, 1, &[0]), file(0, 1)];
    assert!(attached(&[written(0), written(1), vec![gone(0)]]).is_ok());
    let refused = |batches: &[Vec<Change>]| attached(batches).unwrap_err().to_string();
    // The file is in no group when its record comes.
    refused(&[vec![file(0, 1), group(1, 0, 1, &[0]), gone(0)]]);
    // A checkpoint would free the cluster.
    refused(&[written(0), written(1), vec![group(2, 0, 1, &[1]), file(1, 2)]]);
    refused(&[written(0), written(0)]);
}

/// Their checksums are correct: the memory that they ask for must be that of a real store.
#[test]
fn records_that_ask_for_more_memory_than_any_file_or_table_has_are_refused() {
    let mut device = MemDevice::new(Sectors(1 << 13));
    format(&mut device, [7; 16], Bytes(65_536), "").unwrap();
    let (_, geometry) = superblock(&mut device).unwrap();
    let most = (geometry.table_bytes_max() / 72) as u32;
    let with = |index| attached(&[vec![group(1, 0, 1, &[index]), file(index, 1)]]);
    assert!(with(most).is_ok());
    assert!(matches!(with(most + 1), Err(AttachError::Table(TableError::Number(_)))));
    let large = |bytes| {
        let Change::Group(record, slots) = group(1, 0, u16::MAX, &[0]) else { unreachable!() };
        attached(&[vec![Change::Group(GroupRecord { bytes, ..record }, slots)]]).unwrap_err()
    };
    // The store has no space for this group, whose size is allowed.
    assert!(matches!(large(4 << 20), AttachError::Table(_)));
    assert!(matches!(large((4 << 20) + 1), AttachError::Record { .. }));
}

proptest! {
    #[test]
    fn no_order_of_records_makes_a_store_panic_or_lose_clusters(
        batches in prop::collection::vec(prop::collection::vec(
            (0u8..3, 0u32..3, 1u32..3, 0u32..5, 1u16..3, 1usize..4), 1..5), 1..5),
    ) {
        let change = |(kind, f, g, cluster, clusters, files): (_, _, _, _, _, usize)| match kind {
            0 => file(f, g),
            1 => gone(f),
            _ => group(g, cluster, clusters, &[0, 1, 2][..files]),
        };
        let batches: Vec<Vec<Change>> =
            batches.into_iter().map(|batch| batch.into_iter().map(change).collect()).collect();
        let Ok(mut store) = attached(&batches) else { return Ok(()) };
        let now = SimTime(0);
        let files: Vec<FileNumber> = store.group_store().files().map(|(n, _)| n).collect();
        for file in files {
            let read = store.ask(now, Ask::Read { file, offset: 0, len: BYTES });
            prop_assert_eq!(read, Ok(Reply::Data(vec![0; BYTES as usize])));
            store.ask(now, Ask::Remove { file }).unwrap();
        }
        store.ask(now, Ask::Sync { file: None }).unwrap();
        store.ask(now, Ask::Checkpoint).unwrap();
        let all = store.group_store().geometry().clusters;
        prop_assert_eq!(store.group_store().free_clusters(), (all, 0));
    }
}
