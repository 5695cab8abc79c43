//! Pages come back as they were written, damage is refused, and nothing panics.

use proptest::prelude::*;
use seekless_block::{Device, DeviceError, Extent, Lba, MemDevice, Sectors};

use super::*;

/// An area of 4 segments for reading and 3 of log, of 8 pages each.
fn superblock() -> Superblock {
    let geometry = Geometry::new(8, 4, 3).unwrap();
    Superblock {
        uuid: AreaId(std::array::from_fn(|i| i as u8 * 17)),
        generation: 77,
        home_capacity: Sectors(1_000_003),
        area_size: Sectors(geometry.pages() * 8 + 5),
        area_at: Lba(123_456),
        checkpoint_generation: 9,
        checkpoint_entries: 56,
        next_sequence: 1 << 40,
        plan_generation: 4,
        plan_slots: 32,
        position: Position { segment: 5, page: 3 },
        segment_pages: 8,
        read_segments: 4,
        log_segments: 3,
        previous: 0xDEAD_BEEF,
        tail: 4,
        grid: 7,
        mode: Mode::Writeback,
        flags: AreaFlags::DIRTY.union(AreaFlags::GUARDED),
        inside: true,
        checkpoint_slot: 1,
        stamp: [0xA5; 32],
        label: Label::new("the disk of Ångström"),
    }
}

fn entry() -> impl Strategy<Value = Entry> {
    let held = [State::Suspect, State::Clean, State::Dirty];
    prop_oneof![
        1 => Just(Entry::FREE),
        3 => (0..HOME_PAGES_MAX, prop::sample::select(held.to_vec()), any::<u32>())
            .prop_map(|(home, state, sum)| Entry { home, state, sum }),
    ]
}

fn position() -> impl Strategy<Value = Position> {
    any::<(u32, u32)>().prop_map(|(segment, page)| Position { segment, page })
}

prop_compose! {
    fn superblocks()(read in 1u32..1000, log in 2u32..100, power in 3u32..9)
        (read in Just(read), log in Just(log), pages in Just(1u32 << power),
         uuid in any::<[u8; 16]>(), stamp in any::<[u8; 32]>(), label in ".{0,80}",
         numbers in any::<[u64; 4]>(), has in any::<[bool; 4]>(), previous in any::<u32>(),
         home in 1..=HOME_PAGES_MAX * 8, spare in 0u64..4096, grid in 0u8..8, flags in 0u8..8,
         segment in read..read + log, tail in read..read + log, page in 0..=1u32 << power) -> Superblock {
        let geometry = Geometry::new(pages, read, log).unwrap();
        let all = [AreaFlags::DIRTY, AreaFlags::CLEAN, AreaFlags::GUARDED];
        Superblock {
            uuid: AreaId(uuid),
            generation: numbers[0],
            home_capacity: Sectors(home),
            area_size: Sectors(geometry.pages() * 8 + spare),
            area_at: Lba(if has[0] { numbers[1] >> 1 } else { 0 }),
            checkpoint_generation: if has[1] { numbers[2].max(1) } else { 0 },
            checkpoint_entries: if has[1] { geometry.slots().into() } else { 0 },
            next_sequence: numbers[3],
            plan_generation: if has[2] { numbers[3].max(1) } else { 0 },
            plan_slots: if has[2] { geometry.read_slots().into() } else { 0 },
            position: Position { segment, page },
            segment_pages: pages,
            read_segments: read,
            log_segments: log,
            previous,
            tail,
            grid,
            mode: if has[3] { Mode::Writeback } else { Mode::Writethrough },
            flags: all.into_iter().filter(|f| flags & f.bits() != 0)
                .fold(AreaFlags::NONE, AreaFlags::union),
            inside: has[0],
            checkpoint_slot: u8::from(has[2]),
            stamp,
            label: Label::new(&label),
        }
    }
}

fn content() -> impl Strategy<Value = Content> {
    let tombstone = (0..HOME_PAGES_MAX, any::<u32>()).prop_map(|(first, pages)| {
        let room = HOME_PAGES_MAX - first;
        Tombstone { first, pages: pages.min(u32::try_from(room).unwrap_or(u32::MAX)) }
    });
    let clean = entry().prop_filter("clean", |e| e.state != State::Dirty);
    let held = entry().prop_filter("held", |e| e.state != State::Free);
    prop_oneof![
        prop::collection::vec(clean, 0..=335).prop_map(Content::ReadMap),
        prop::collection::vec(held, 0..=335).prop_map(Content::Data),
        prop::collection::vec(tombstone, 0..=335).prop_map(Content::Tombstones),
        prop::collection::vec(any::<u32>(), 0..=1005).prop_map(Content::Invalid),
        prop::collection::vec(any::<u32>(), 0..=1005).prop_map(Content::Committed),
    ]
}

prop_compose! {
    fn headers()(uuid in any::<[u8; 16]>(), numbers in any::<[u64; 3]>(), position in position(),
                 previous in any::<u32>(), tail in any::<u32>(), content in content()) -> Header {
        let [sequence, durable, plan_generation] = numbers;
        Header { uuid: AreaId(uuid), sequence, durable, plan_generation, position, previous, tail, content }
    }
}

prop_compose! {
    fn checkpoint_pages()(uuid in any::<[u8; 16]>(), generation in 1u64.., first in any::<u32>(),
                          entries in prop::collection::vec(entry(), 337)) -> CheckpointPage {
        CheckpointPage { uuid: AreaId(uuid), generation, first, entries: entries.try_into().unwrap() }
    }
}

prop_compose! {
    fn plan_pages()(uuid in any::<[u8; 16]>(), generation in 1u64.., first in any::<u32>(),
                    wanted in prop::collection::vec(prop::option::of(0..HOME_PAGES_MAX), 675)) -> PlanPage {
        PlanPage { uuid: AreaId(uuid), generation, first, wanted: wanted.try_into().unwrap() }
    }
}

prop_compose! {
    fn checkpoint_headers()(uuid in any::<[u8; 16]>(), generation in 1u64.., numbers in any::<[u64; 2]>(),
                            position in position(), last in any::<[u32; 2]>()) -> CheckpointHeader {
        CheckpointHeader { uuid: AreaId(uuid), generation, entries: numbers[0], next_sequence: numbers[1],
                           position, previous: last[0], tail: last[1] }
    }
}

/// A page by its type, so that one test serves all.
trait AnyPage: Sized + PartialEq + std::fmt::Debug {
    fn write(&self, page: &mut Page) -> u32;
    fn read(bytes: &[u8]) -> Result<Self, FormatError>;
}

macro_rules! any_page {
    ($($name:ident),+) => {
        $(impl AnyPage for $name {
            fn write(&self, page: &mut Page) -> u32 { self.encode(page) }
            fn read(bytes: &[u8]) -> Result<Self, FormatError> { Self::decode(bytes) }
        })+
    };
}

any_page!(Superblock, CheckpointHeader, CheckpointPage, PlanHeader, PlanPage, Header);

fn comes_back<T: AnyPage>(written: &T) -> Result<Page, TestCaseError> {
    // What was in the buffer before must not show.
    let mut page = [0xEE; 4096];
    let sum = written.write(&mut page);
    prop_assert_eq!(sum, checksum(&page));
    let read = T::read(&page);
    prop_assert_eq!(read.as_ref(), Ok(written));
    Ok(page)
}

fn fuzz_all(bytes: &[u8]) {
    fuzzing::superblock(bytes);
    fuzzing::header(bytes);
    fuzzing::checkpoint(bytes);
    fuzzing::plan(bytes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pages_come_back_as_they_were_written(
        superblock in superblocks(), header in headers(), checkpoint in checkpoint_pages(),
        head in checkpoint_headers(), plan in plan_pages(), slots in any::<u64>(),
        bit in 0usize..32_768,
    ) {
        let plan_head = PlanHeader { uuid: plan.uuid, generation: plan.generation, slots };
        for mut page in [comes_back(&superblock)?, comes_back(&header)?, comes_back(&checkpoint)?,
                         comes_back(&head)?, comes_back(&plan)?, comes_back(&plan_head)?] {
            page[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Superblock::decode(&page).is_err() && Header::decode(&page).is_err());
            prop_assert!(CheckpointPage::decode(&page).is_err() && PlanPage::decode(&page).is_err());
            prop_assert!(CheckpointHeader::decode(&page).is_err() && PlanHeader::decode(&page).is_err());
        }
    }

    #[test]
    fn no_bytes_make_a_page_panic(bytes in prop::collection::vec(any::<u8>(), 0..5000)) {
        fuzz_all(&bytes);
    }

    /// Good pages with wrong fields and a right checksum: refused, or read and written as the same.
    #[test]
    fn no_fields_make_a_page_panic(
        superblock in superblocks(), header in headers(), checkpoint in checkpoint_pages(), plan in plan_pages(),
        wrong in prop::collection::vec((16usize..240, any::<u8>()), 1..6), far in 16usize..4096, byte in any::<u8>(),
    ) {
        for mut page in [comes_back(&superblock)?, comes_back(&header)?, comes_back(&checkpoint)?,
                         comes_back(&plan)?] {
            page[far] = byte;
            for &(at, byte) in &wrong {
                page[at] = byte;
            }
            fuzz_all(&page);
        }
    }
}

#[test]
fn each_single_flipped_bit_is_refused() {
    let mut page = [0; 4096];
    let written = superblock();
    written.encode(&mut page);
    for bit in 0..32_768 {
        page[bit / 8] ^= 1 << (bit % 8);
        let read = Superblock::decode(&page);
        let expected = if bit < 64 {
            matches!(read, Err(FormatError::NotSeekless { .. }))
        } else {
            matches!(read, Err(FormatError::Checksum { .. }))
        };
        assert!(expected, "bit {bit}: {read:?}");
        page[bit / 8] ^= 1 << (bit % 8);
    }
    assert_eq!(Superblock::decode(&page), Ok(written));
}

#[test]
fn what_is_wrong_is_said() {
    let mut page = [0; 4096];
    superblock().encode(&mut page);
    let said = |bytes: &[u8]| Superblock::decode(bytes).unwrap_err().to_string();
    assert_eq!(said(&page[..4095]), "4095 bytes are no page, which has 4096");
    assert_eq!(
        said(&[0; 4096]),
        "not a page of seekless: it begins with \"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\", not \"SEEKLESS\""
    );
    assert_eq!(
        Header::decode(&page).unwrap_err().to_string(),
        "a page of kind 1 where one of kind 5 (header) belongs"
    );

    let with = |at: usize, bytes: &[u8]| {
        let mut changed = page;
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        let sum = computed(&changed);
        changed[CHECKSUM_AT..FIELDS_AT].copy_from_slice(&sum.to_le_bytes());
        said(&changed)
    };
    assert_eq!(
        with(VERSION_AT, &[2, 0]),
        "a page of version 2 of the format; this seekless reads version 1 alone: use the one that wrote it"
    );
    for (at, bytes, expected) in [
        (40, &[0; 8][..], "home_capacity = 0; expected 1 to 2199023255552"),
        (72, &[55], "checkpoint_entries = 55; expected 56 with a checkpoint, 0 without"),
        (96, &[0], "plan_slots = 0; expected 32 with a plan, 0 without"),
        (104, &[3], "position = page 3 of segment 3; expected a page of segments 4..7"),
        (108, &[9], "position = page 9 of segment 5; expected a page of segments 4..7"),
        (
            112,
            &[12],
            "segment_pages = 4 segments for reading and 3 of log, of 12 pages each; expected segments of 12 pages; expected a power of two from 8 to 256",
        ),
        (
            116,
            &[200],
            "segment_pages = 200 segments for reading and 3 of log, of 8 pages each; expected what fits into the area's 517 sectors",
        ),
        (
            118,
            &[255, 255],
            "segment_pages = 4294901764 segments for reading and 3 of log, of 8 pages each; expected 34359214136 pages in segments; expected less than 2^32 (16 TiB): use a smaller area",
        ),
        (128, &[7], "tail = 7; expected one of 4..7"),
        (132, &[8], "grid = 8; expected 0 to 7"),
        (133, &[2], "mode = [02]; expected 0 (writethrough) or 1 (writeback)"),
        (134, &[8], "flags = [08]; expected known flags alone"),
        (135, &[0], "area_at = sector 123456; expected sector 0 where the area is not inside"),
        (136, &[2], "checkpoint_slot = 2; expected 0 to 1"),
        (
            176,
            &[0],
            "label = [00, 68, 65, 20, 64, 69, 73, 6b, 20, 6f, 66, 20, c3, 85, 6e, 67]; expected UTF-8 filled up with zeroes",
        ),
    ] {
        assert_eq!(with(at, bytes), format!("the superblock says {expected}"));
    }
    assert_eq!(
        with(56, &[255; 8]),
        "the superblock says area_at = sector 18446744073709551615; expected an area that ends before sector 2^64"
    );
    assert_eq!(
        with(140, &[1]),
        "the superblock holds something at byte 140, where version 1 writes zero"
    );
}

#[test]
fn impossible_entries_and_records_are_refused() {
    let header = Header {
        uuid: AreaId([3; 16]),
        sequence: 5,
        durable: 4,
        plan_generation: 1,
        position: Position { segment: 4, page: 0 },
        previous: 7,
        tail: 4,
        content: Content::Data(vec![Entry { home: 9, state: State::Dirty, sum: 8 }; 2]),
    };
    let mut page = [0; 4096];
    header.encode(&mut page);
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = page;
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        seal(&mut changed, Header::LAYOUT.kind);
        Header::decode(&changed)
            .unwrap_err()
            .to_string()
            .rsplit_once("expected ")
            .unwrap()
            .1
            .to_owned()
    };
    assert_eq!(with(72, &[6]), "a known kind of record");
    assert_eq!(with(72, &[0]), "a known kind of record");
    assert_eq!(with(74, &336u16.to_le_bytes()), "no more items than the page has room for");
    assert_eq!(with(72, &[1]), "no dirty copy in a read segment");
    assert_eq!(with(76, &[0; 12]), "no free slot in a record of data");
    assert_eq!(with(76, &[0; 8]), "zeroes in the entry of a free slot");
    assert_eq!(with(81, &[1]), "home pages below 2^38");
    let mut one_less = page;
    one_less[74] = 1;
    seal(&mut one_less, Header::LAYOUT.kind);
    assert_eq!(
        Header::decode(&one_less),
        Err(FormatError::Reserved { page: "header", at: 88 }),
        "an item that the count leaves out"
    );
}

#[test]
#[should_panic(expected = "335 at most")]
fn a_record_too_long_is_not_written() {
    let entries = vec![Entry { home: 1, state: State::Clean, sum: 0 }; 336];
    let header = Header {
        uuid: AreaId::default(),
        sequence: 1,
        durable: 0,
        plan_generation: 0,
        position: Position::default(),
        previous: 0,
        tail: 0,
        content: Content::Data(entries),
    };
    header.encode(&mut [0; 4096]);
}

#[test]
fn a_page_holds_as_many_entries_as_it_can() {
    for (layout, bytes) in [(CheckpointPage::LAYOUT, 12), (PlanPage::LAYOUT, 6)] {
        let end = layout.parts.last().unwrap().range().end;
        assert!(end <= 4096 && end + bytes > 4096, "{}: {end}", layout.name);
    }
    // A record never needs more items than a segment has pages.
    assert!(Content::Data(vec![]).items_max() >= 256);
}

#[test]
fn a_label_is_cut_between_characters() {
    let long = "ä".repeat(40);
    assert_eq!(Label::new(&long).as_str(), "ä".repeat(32));
    assert_eq!(Label::new(&format!("x{long}")).as_str(), format!("x{}", "ä".repeat(31)));
    assert_eq!(Label::new("a\0b").as_str(), "a");
    assert_eq!(
        AreaId(std::array::from_fn(|i| i as u8)).to_string(),
        "00010203-0405-0607-0809-0a0b0c0d0e0f"
    );
}

proptest! {
    #[test]
    fn an_area_is_divided_without_waste(pages in 1u64..100_000, power in 3u32..9, percent in 0u8..=100) {
        let segment = 1 << power;
        let area = Sectors(pages * 8 + pages % 8);
        match Geometry::fit(area, segment, percent) {
            Err(GeometryError::TooSmall { needed, .. }) => {
                prop_assert!(needed.0 > area.0);
                prop_assert!(Geometry::fit(needed, segment, percent).is_ok());
                prop_assert!(Geometry::fit(Sectors(needed.0 - 1), segment, percent).is_err());
            }
            Err(error) => prop_assert!(false, "{error}"),
            Ok(g) => {
                prop_assert!(g.pages() <= pages);
                let (read, log) = (g.read_segments(), g.log_segments());
                let all = read + log;
                let share = (u64::from(all) * u64::from(percent)).div_ceil(100);
                prop_assert_eq!(u64::from(log), share.clamp(2, u64::from(all) - 1));
                // One more segment of either kind would not do with this share.
                let share = (u64::from(all + 1) * u64::from(percent)).div_ceil(100);
                let log = share.clamp(2, u64::from(all)) as u32;
                prop_assert!(Geometry::new(segment, all + 1 - log, log).unwrap().pages() > pages);
                // Regions follow each other, each large enough.
                prop_assert_eq!(g.checkpoint_at(0), 2);
                prop_assert!((g.checkpoint_pages() - 1) * 337 >= g.slots().into());
                prop_assert_eq!(g.checkpoint_at(1), 2 + g.checkpoint_pages());
                prop_assert_eq!(g.plan_at(), 2 + 2 * g.checkpoint_pages());
                prop_assert!((g.plan_pages() - 1) * 675 >= g.read_slots().into());
                prop_assert_eq!(g.extent(g.slots() - 1, 1).end().0, g.pages() * 8);
                prop_assert_eq!(g.extent(0, 1).start.0, g.data_at() * 8);
            }
        }
    }

    #[test]
    fn places_are_the_read_slots_without_maps(read in 1u32..20, power in 3u32..9) {
        let g = Geometry::new(1 << power, read, 2).unwrap();
        let slots: Vec<u32> = (0..g.places()).map(|p| g.slot_of_place(p)).collect();
        let twin: Vec<u32> = (0..g.read_slots()).filter(|s| s % (1 << power) != 0).collect();
        prop_assert_eq!(&slots, &twin);
        for slot in 0..g.slots() {
            let place = slots.iter().position(|&s| s == slot).map(|p| p as u32);
            prop_assert_eq!(g.place_of_slot(slot), place);
        }
    }
}

#[test]
fn an_area_that_cannot_be_divided_is_refused_in_words() {
    let said = |pages: u64, segment: u32, percent: u8| {
        Geometry::fit(Sectors(pages * 8), segment, percent).unwrap_err().to_string()
    };
    assert_eq!(
        said(100, 256, 10),
        "an area of 400 KiB; with segments of 256 pages it needs at least 3194880 bytes (3.0 MiB): use a larger area or smaller segments"
    );
    assert_eq!(said(100, 12, 10), "segments of 12 pages; expected a power of two from 8 to 256");
    assert_eq!(said(100, 512, 10), "segments of 512 pages; expected a power of two from 8 to 256");
    assert_eq!(
        said(100, 8, 101),
        "101 percent of the area for the write buffer; expected 0 to 100"
    );
    assert!(said(1 << 33, 256, 10).contains("less than 2^32 (16 TiB)"));
    assert_eq!(
        Geometry::new(8, 0, 1).unwrap_err().to_string(),
        "0 segments for reading and 1 of log; expected at least 1 and 2"
    );
    assert!(Geometry::fit(Sectors(u64::MAX), 8, 0).is_err());
}

fn device(at: u64, a: Option<&Superblock>, b: Option<&Superblock>) -> MemDevice {
    let mut device = MemDevice::new(Sectors(4096));
    for (i, copy) in [a, b].into_iter().enumerate() {
        if let Some(superblock) = copy {
            let mut page = [0; 4096];
            superblock.encode(&mut page);
            device.write(Extent::new(at + 8 * i as u64, 8), &page).unwrap();
        }
    }
    device
}

#[test]
fn the_newer_good_superblock_counts() {
    let old = superblock();
    let new = Superblock { generation: 78, tail: 6, ..superblock() };
    for at in [0, 1003] {
        let read = |a, b| read_superblock(&mut device(at, a, b), Lba(at)).unwrap();
        let found = read(Some(&new), Some(&new));
        assert!(found.other.is_none() && found.which == Which::A && found.superblock == new);
        let found = read(Some(&new), Some(&old));
        assert!(found.which == Which::A && found.superblock == new);
        assert_eq!(found.other.unwrap().to_string(), "is of generation 77, the other one of 78");
        let found = read(Some(&old), Some(&new));
        assert!(found.which == Which::B && found.superblock == new);
        assert!(matches!(found.other, Some(Problem::Older { found: 77, newer: 78 })));
        let found = read(Some(&old), None);
        assert!(found.which == Which::A && found.superblock == old);
        assert!(matches!(found.other, Some(Problem::Format(FormatError::NotSeekless { .. }))));
        let found = read(None, Some(&old));
        assert!(found.which == Which::B && found.superblock == old && found.other.is_some());
    }
}

#[test]
fn an_area_without_a_good_superblock_is_refused_with_both_reasons() {
    let mut torn = device(0, Some(&superblock()), None);
    torn.write(Extent::new(1, 1), &[1; 512]).unwrap();
    let said = read_superblock(&mut torn, Lba(0)).unwrap_err().to_string();
    assert!(
        said.starts_with(
            "no area of seekless at sector 0: superblock A is no good: a damaged page"
        ),
        "{said}"
    );
    assert!(said.contains("; superblock B is no good: not a page of seekless"), "{said}");

    // Past the end, and where the place of B alone is past the end.
    for at in [u64::MAX - 3, 4096] {
        let said = read_superblock(&mut device(0, None, None), Lba(at)).unwrap_err().to_string();
        assert!(said.contains("superblock B cannot be read"), "{said}");
    }
    let mut short = device(4088, Some(&superblock()), None);
    let found = read_superblock(&mut short, Lba(4088)).unwrap();
    assert!(matches!(found.other, Some(Problem::Device(DeviceError::OutOfRange { .. }))));
}

#[test]
fn a_newer_version_or_a_stranger_in_one_copy_is_refused() {
    let mut page = [0; 4096];
    superblock().encode(&mut page);
    page[VERSION_AT] = 2;
    let sum = computed(&page);
    page[CHECKSUM_AT..FIELDS_AT].copy_from_slice(&sum.to_le_bytes());
    for (copy, name) in [(0, "superblock A"), (1, "superblock B")] {
        let mut device = device(0, Some(&superblock()), Some(&superblock()));
        device.write(Extent::new(copy * 8, 8), &page).unwrap();
        let said = read_superblock(&mut device, Lba(0)).unwrap_err().to_string();
        assert!(said.contains("another version") && said.contains(name), "{said}");
        // A damaged page that seems newer is only damaged.
        device.write(Extent::new(copy * 8 + 7, 1), &[1; 512]).unwrap();
        assert_eq!(read_superblock(&mut device, Lba(0)).unwrap().superblock, superblock());
    }
    let stranger = Superblock { uuid: AreaId([9; 16]), generation: 500, ..superblock() };
    let mut two = device(0, Some(&superblock()), Some(&stranger));
    assert!(matches!(
        read_superblock(&mut two, Lba(0)),
        Err(SuperblockError::Strangers { b, .. }) if b == stranger.uuid
    ));
}
