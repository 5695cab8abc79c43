//! Pages decode as they were encoded, damage is refused, and nothing panics.

use proptest::prelude::*;
use seekless_block::{Lba, Sectors};

use super::pages::COUNT_MAX;
use super::*;
use crate::api::Mode;
use crate::core::page_map::HOME_PAGES_MAX;

/// An area of 4 segments for reading and 3 of log, of 8 pages each.
pub(super) fn superblock() -> Superblock {
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
        free_map_pages: 0,
        previous: 0xDEAD_BEEF,
        tail: 4,
        grid: 7,
        mode: Mode::WriteBack,
        flags: AreaFlags::DIRTY,
        inside: true,
        checkpoint_slot: 1,
        stamp: [0xA5; 32],
        label: Label::new("the disk of Ångström"),
        spread: false,
        trail_head: 0,
        learned_generation: 0,
        learned_bytes: 0,
    }
}

/// An entry in one of some states.
fn entry(states: &[CopyState]) -> impl Strategy<Value = Entry> + use<> {
    (0..HOME_PAGES_MAX, prop::sample::select(states.to_vec()), 0..1u64 << 48).prop_map(
        |(home, state, sum)| match state {
            CopyState::Free => Entry::FREE,
            _ => Entry { home, state, sum },
        },
    )
}

fn position() -> impl Strategy<Value = Position> {
    any::<(u32, u32)>().prop_map(|(segment, page)| Position { segment, page })
}

prop_compose! {
    fn superblocks()(read in 1u32..1000, log in 2u32..100, power in 3u32..9)
        (read in Just(read), log in Just(log), pages in Just(1u32 << power),
         uuid in any::<[u8; 16]>(), stamp in any::<[u8; 32]>(), label in ".{0,80}",
         numbers in any::<[u64; 4]>(), has in any::<[bool; 4]>(), previous in any::<u32>(),
         free_map_pages in prop_oneof![Just(0u32), 1u32..5000], home in 1..=HOME_PAGES_MAX * 8, spare in 0u64..4096, grid in 0u8..8, flags in 0u8..8,
         segment in read..read + log, tail in read..read + log, page in 0..=1u32 << power,
         spread in any::<bool>(), trail_head in 0..=read << power, learned in 0u32..100) -> Superblock {
        let geometry = Geometry::new(pages, read, log).unwrap().with_free_map(free_map_pages).with_spread(spread);
        let learned = if has[2] { 0 } else { learned.min(geometry.learned_most()) };
        let all = [AreaFlags::DIRTY, AreaFlags::CLEAN, AreaFlags::IN_PLACE];
        Superblock {
            uuid: AreaId(uuid),
            generation: numbers[0] & COUNT_MAX,
            home_capacity: Sectors(home),
            area_size: Sectors(geometry.pages() * 8 + spare),
            area_at: Lba(if has[0] { numbers[1] >> 1 } else { 0 }),
            checkpoint_generation: if has[1] { (numbers[2] & COUNT_MAX).max(1) } else { 0 },
            checkpoint_entries: if has[1] { geometry.slots().into() } else { 0 },
            next_sequence: numbers[3] & COUNT_MAX,
            plan_generation: if has[2] && free_map_pages == 0 { (numbers[3] & COUNT_MAX).max(1) } else { 0 },
            plan_slots: if has[2] && free_map_pages == 0 { geometry.read_slots().into() } else { 0 },
            position: Position { segment, page },
            segment_pages: pages,
            read_segments: read,
            log_segments: log,
            free_map_pages,
            previous,
            tail,
            grid,
            mode: if has[3] { Mode::WriteBack } else { Mode::WriteThrough },
            flags: all.into_iter().filter(|f| flags & f.bits() != 0)
                .fold(AreaFlags::NONE, AreaFlags::union),
            inside: has[0],
            checkpoint_slot: u8::from(has[2]),
            stamp,
            label: Label::new(&label),
            spread,
            trail_head,
            learned_generation: learned.into(),
            learned_bytes: learned,
        }
    }
}

fn run(kinds: &'static [RunKind]) -> impl Strategy<Value = Run> {
    let pages = (0..HOME_PAGES_MAX, 1..=u32::MAX);
    (pages, prop::sample::select(kinds)).prop_map(|((first, pages), kind)| {
        let room = HOME_PAGES_MAX - first;
        Run { first, pages: pages.min(u32::try_from(room).unwrap_or(u32::MAX)), kind }
    })
}

prop_compose! {
    fn free_maps()(uuid in any::<[u8; 16]>(), generation in 1..=COUNT_MAX, first in any::<u32>(),
                   held in prop::collection::vec(run(&RunKind::ALL[1..]), 0..=337)) -> FreeMapPage {
        let run = |i: usize| held.get(i).copied().unwrap_or(Run::NONE);
        FreeMapPage { uuid: AreaId(uuid), generation, first, runs: std::array::from_fn(run) }
    }
}

fn content() -> impl Strategy<Value = Content> {
    let tombstone = (0..HOME_PAGES_MAX, any::<u32>()).prop_map(|(first, pages)| {
        let room = HOME_PAGES_MAX - first;
        Tombstone { first, pages: pages.min(u32::try_from(room).unwrap_or(u32::MAX)) }
    });
    let clean = entry(&[CopyState::Free, CopyState::Suspect, CopyState::Clean]);
    let held = entry(&[CopyState::Suspect, CopyState::Clean, CopyState::Dirty]);
    prop_oneof![
        prop::collection::vec(clean, 0..=335).prop_map(Content::ReadMap),
        prop::collection::vec(held, 0..=335).prop_map(Content::Data),
        prop::collection::vec(tombstone, 0..=335).prop_map(Content::Tombstones),
        prop::collection::vec(any::<u32>(), 0..=1005).prop_map(Content::Invalid),
        prop::collection::vec(any::<u32>(), 0..=1005).prop_map(Content::Committed),
        prop::collection::vec(run(&RunKind::ALL), 0..=335).prop_map(Content::FreeMap),
    ]
}

prop_compose! {
    fn headers()(uuid in any::<[u8; 16]>(), numbers in any::<[u64; 3]>(), position in position(),
                 previous in any::<u32>(), tail in any::<u32>(), content in content()) -> Header {
        let [sequence, durable, plan_generation] = numbers.map(|n| n & COUNT_MAX);
        Header { uuid: AreaId(uuid), sequence, durable, plan_generation, position, previous, tail, content }
    }
}

prop_compose! {
    fn checkpoint_pages()(uuid in any::<[u8; 16]>(), generation in 1..=COUNT_MAX, first in any::<u32>(),
                          entries in prop::collection::vec(entry(&CopyState::ALL), 337)) -> CheckpointPage {
        CheckpointPage { uuid: AreaId(uuid), generation, first, entries: entries.try_into().unwrap() }
    }
}

prop_compose! {
    fn plan_pages()(uuid in any::<[u8; 16]>(), generation in 1..=COUNT_MAX, first in any::<u32>(),
                    wanted in prop::collection::vec(prop::option::of(0..HOME_PAGES_MAX), 675)) -> PlanPage {
        PlanPage { uuid: AreaId(uuid), generation, first, wanted: wanted.try_into().unwrap() }
    }
}

prop_compose! {
    fn learned_pages()(uuid in any::<[u8; 16]>(), generation in 1..=COUNT_MAX, first in any::<u32>(),
                       bytes in prop::collection::vec(any::<u8>(), 4052)) -> LearnedPage {
        LearnedPage { uuid: AreaId(uuid), generation, first, bytes: bytes.try_into().unwrap() }
    }
}

prop_compose! {
    fn checkpoint_headers()(uuid in any::<[u8; 16]>(), generation in 1..=COUNT_MAX, numbers in any::<[u64; 2]>(),
                            position in position(), last in any::<[u32; 2]>()) -> CheckpointHeader {
        CheckpointHeader { uuid: AreaId(uuid), generation, entries: numbers[0], next_sequence: numbers[1] & COUNT_MAX,
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

prop_compose! {
    fn guards()(uuid in any::<[u8; 16]>(), generation in 0..=COUNT_MAX, number in 0u32..64, place in ".{0,80}",
                home in 1..=HOME_PAGES_MAX * 8, sum in any::<u32>(), state in 0usize..3,
                summed in any::<u64>(), of_page in any::<u32>(), area in 0..=COUNT_MAX) -> (GuardHeader, GuardPage) {
        let (uuid, place) = (AreaId(uuid), Label::new(&place));
        let state = [GuardState::Down, GuardState::Between, GuardState::Up][state];
        let sums = std::array::from_fn(|i| of_page.wrapping_mul(i as u32));
        let guard = GuardPage::new(uuid, generation, number, place);
        (GuardHeader { uuid, generation, home_capacity: Sectors(home), sum, state, place, summed, sums },
         GuardPage { area_generation: area, ..guard })
    }
}

any_page!(
    Superblock,
    CheckpointHeader,
    CheckpointPage,
    PlanHeader,
    PlanPage,
    Header,
    GuardHeader,
    GuardPage,
    FreeMapPage,
    LearnedPage
);

fn comes_back<T: AnyPage>(written: &T) -> Result<Page, TestCaseError> {
    // Former bytes of the buffer must not show.
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
    fuzzing::guard(bytes);
    fuzzing::free_map(bytes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pages_come_back_as_they_were_written(
        superblock in superblocks(), header in headers(), checkpoint in checkpoint_pages(),
        head in checkpoint_headers(), plan in plan_pages(), slots in any::<u64>(),
        free in free_maps(), (guard, guarded) in guards(), learned in learned_pages(), bit in 0usize..32_768,
    ) {
        let plan_head = PlanHeader { uuid: plan.uuid, generation: plan.generation, slots };
        for mut page in [comes_back(&superblock)?, comes_back(&header)?, comes_back(&checkpoint)?,
                         comes_back(&head)?, comes_back(&plan)?, comes_back(&plan_head)?,
                         comes_back(&guard)?, comes_back(&guarded)?, comes_back(&free)?,
                         comes_back(&learned)?] {
            page[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Superblock::decode(&page).is_err() && Header::decode(&page).is_err());
            prop_assert!(CheckpointPage::decode(&page).is_err() && PlanPage::decode(&page).is_err());
            prop_assert!(CheckpointHeader::decode(&page).is_err() && PlanHeader::decode(&page).is_err());
            prop_assert!(GuardHeader::decode(&page).is_err() && GuardPage::decode(&page).is_err());
            prop_assert!(FreeMapPage::decode(&page).is_err() && LearnedPage::decode(&page).is_err());
        }
    }

    #[test]
    fn no_bytes_make_a_page_panic(bytes in prop::collection::vec(any::<u8>(), 0..5000)) {
        fuzz_all(&bytes);
    }

    /// Undamaged pages with wrong fields: refused, or decoded and encoded as the same.
    #[test]
    fn no_fields_make_a_page_panic(
        superblock in superblocks(), header in headers(), checkpoint in checkpoint_pages(), plan in plan_pages(),
        free in free_maps(), (guard, guarded) in guards(),
        wrong in prop::collection::vec((16usize..240, any::<u8>()), 1..6), far in 16usize..4096, byte in any::<u8>(),
    ) {
        for mut page in [comes_back(&superblock)?, comes_back(&header)?, comes_back(&checkpoint)?,
                         comes_back(&plan)?, comes_back(&guard)?, comes_back(&guarded)?, comes_back(&free)?] {
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
    assert_eq!(said(&page[..4095]), "4095 bytes are no page: a page has 4096");
    assert_eq!(
        said(&[0; 4096]),
        "not a page of seekless: it begins with \"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\", not \"SEEKLESS\""
    );
    assert_eq!(
        Header::decode(&page).unwrap_err().to_string(),
        "a page of kind 1 where one of kind 6 (header of a segment or record) belongs"
    );

    let with = |at: usize, bytes: &[u8]| {
        let mut changed = page;
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        let sum = computed(&changed);
        changed[CHECKSUM_AT..FIELDS_AT].copy_from_slice(&sum.to_le_bytes());
        said(&changed)
    };
    assert_eq!(
        with(VERSION_AT, &[1, 0]),
        "a page of version 1 of the format; this seekless reads versions 2 to 4: use the seekless that wrote it"
    );
    for (at, bytes, expected) in [
        (39, &[0x80][..], "generation = 9223372036854775885; expected 0 to 9223372036854775807"),
        (40, &[0; 8], "home_capacity = 0; expected 1 to 2199023255552"),
        // 511 sectors are one page too few.
        (
            48,
            &[255, 1],
            "segment_pages = 4 segments for reading and 3 of log, of 8 pages each; expected what fits into the area's 511 sectors",
        ),
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
        (133, &[2], "mode = [02]; expected 0 (write-through) or 1 (write-back)"),
        (134, &[8], "flags = [08]; expected known flags alone"),
        (135, &[0], "area_at = sector 123456; expected sector 0 where the area is not inside"),
        (136, &[2], "checkpoint_slot = 2; expected 0 to 1"),
        (140, &[1], "plan_generation = 4; expected 0 where copies stand in home"),
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
        with(137, &[1]),
        "the superblock has a non-zero byte 137, where version 4 writes zero"
    );
}

#[test]
fn impossible_entries_and_records_are_refused() {
    let entries = vec![Entry { home: 9, state: CopyState::Dirty, sum: 8 }; 2];
    let mut page = [0; 4096];
    header(Content::Data(entries)).encode(&mut page);
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
    assert_eq!(with(72, &[8]), "a known kind of record");
    assert_eq!(with(72, &[0]), "a known kind of record");
    assert_eq!(with(74, &336u16.to_le_bytes()), "no more items than the page has space for");
    assert_eq!(with(72, &[1]), "no dirty copy in a read segment");
    assert_eq!(with(76, &[0; 12]), "no free slot in a record of data");
    assert_eq!(with(76, &[0; 8]), "zeroes in the entry of a free slot");
    assert_eq!(with(81, &[1]), "home pages below 2^38");
    let mut one_less = page;
    one_less[74] = 1;
    seal(&mut one_less, Header::LAYOUT.kind);
    assert_eq!(
        Header::decode(&one_less),
        Err(FormatError::Reserved { page: "header of a segment or record", at: 88 }),
        "an item that the count leaves out"
    );
}

#[test]
#[should_panic(expected = "335 at most")]
fn a_record_too_long_is_not_written() {
    let entries = vec![Entry { home: 1, state: CopyState::Clean, sum: 0 }; 336];
    header(Content::Data(entries)).encode(&mut [0; 4096]);
}

#[test]
fn a_page_holds_as_many_entries_as_it_can() {
    for (layout, bytes) in [(CheckpointPage::LAYOUT, 12), (PlanPage::LAYOUT, 6)] {
        let end = layout.parts.last().unwrap().range().end;
        assert!(end <= 4096 && end + bytes > 4096, "{}: {end}", layout.name);
    }
    // A map never needs more items than a segment has pages.
    assert!(Content::ReadMap(vec![]).items_max() >= 256);
}

/// Damage of one sector loses no header of a record.
#[test]
fn a_record_has_its_header_twice() {
    let entry = |home| Entry { home, state: CopyState::Dirty, sum: 8 };
    let most = Content::Data(vec![]).items_max();
    for count in [0, 1, most] {
        let written = header(Content::Data((0..count as u64).map(entry).collect()));
        let mut page = [0xEE; 4096];
        let sum = written.put(&mut page);
        for sector in 0..8 {
            let mut damaged = page;
            damaged[sector * 512..][..512].fill(0);
            assert_eq!(Header::all_in(&damaged), [(written.clone(), sum)], "sector {sector}");
        }
        assert_eq!(Header::all_in(&page), [(written, sum)]);
    }
    // One more, as version 2 wrote it, stands once. A map, too.
    let entries: Vec<Entry> = (0..=most as u64).map(entry).collect();
    let clean = |e: &Entry| Entry { state: CopyState::Clean, ..*e };
    for content in [Content::ReadMap(entries.iter().map(clean).collect()), Content::Data(entries)] {
        let written = header(content);
        let mut page = [0; 4096];
        let sum = written.put(&mut page);
        assert_eq!(Header::all_in(&page), [(written, sum)]);
        page[0] ^= 1;
        assert_eq!(Header::all_in(&page), []);
    }
    // A crash tore the page: each half has the header of another record.
    let (one, other) = (header(Content::Invalid(vec![1])), header(Content::Invalid(vec![2])));
    let (mut page, mut later) = ([0; 4096], [0; 4096]);
    let sums = [one.put(&mut page), other.put(&mut later)];
    page[2048..].copy_from_slice(&later[2048..]);
    assert_eq!(Header::all_in(&page), [(one, sums[0]), (other, sums[1])]);
}

/// No program takes a guarded disk for anything else, and no sector of the guard is empty.
#[test]
fn a_guard_page_tells_people_what_to_do_and_programs_nothing() {
    let place = Label::new("/var/lib/seekless/sda.area");
    let pages = GuardPage::all(superblock().uuid, 7, place, 12);
    assert_eq!(pages.len() as u64, 2 * GUARD_PAGES * 4096);
    for (page, number) in pages.chunks(4096).zip(0..) {
        let area_generation = if number == 0 { 12 } else { 0 };
        let expected = GuardPage::new(superblock().uuid, 7, number, place);
        let expected = GuardPage { area_generation, ..expected };
        assert_eq!(GuardPage::decode(page), Ok(expected));
    }
    assert!(pages.chunks(512).all(|s| s.iter().filter(|b| b.is_ascii_graphic()).count() > 300));
    let text = String::from_utf8_lossy(&pages);
    assert!(text.contains("THIS DISK BELONGS TO A SEEKLESS AREA, 00112233-4455"), "{text}");
    assert!(text.contains("/var/lib/seekless/sda.area"));
    let words = pages.windows(GUARD_WORDS.len()).filter(|w| *w == GUARD_WORDS).count();
    assert!(words > 2 * GUARD_PAGES as usize * 8, "{words}");
    // The header fits in one sector, so that a crash leaves it old or new.
    assert!(GuardHeader::LAYOUT.parts.last().unwrap().range().end <= 512);
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

fn header(content: Content) -> Header {
    Header {
        uuid: superblock().uuid,
        sequence: 1 << 33,
        durable: (1 << 33) - 2,
        plan_generation: 4,
        position: Position { segment: 5, page: 3 },
        previous: 0x1234_5678,
        tail: 6,
        content,
    }
}

/// One page of each kind, as files of the corpus have them. The fields that version 3 added are
/// zero in version 2.
fn samples(version: u16) -> Vec<(&'static str, Page)> {
    let seal = |mut page: Page| {
        let kind = u16::from_le_bytes(take(&page, KIND_AT));
        if version != VERSION {
            seal_as(version, &mut page, kind);
        }
        page
    };
    fn page<T: AnyPage>(written: &T, seal: impl Fn(Page) -> Page) -> Page {
        let mut page = [0; 4096];
        written.write(&mut page);
        let page = seal(page);
        assert_eq!(T::read(&page).as_ref(), Ok(written));
        page
    }
    let (is_new, in_place) = (version > 2, version > 3);
    let new = |n: u64| if is_new { n } else { 0 };
    let uuid = superblock().uuid;
    let entry = |home: u64, state| Entry { home, state, sum: home << 8 ^ 0xFACE_0000_5EED };
    let clean: Vec<Entry> = (0..7).map(|i| entry(1000 + i, CopyState::Clean)).collect();
    let dirty: Vec<Entry> =
        (0..4).map(|i| entry(HOME_PAGES_MAX - 1 - i, CopyState::Dirty)).collect();
    let mut entries = [Entry::FREE; ENTRIES_PER_PAGE as usize];
    entries[1] = entry(77, CopyState::Suspect);
    entries[336] = entry(78, CopyState::Dirty);
    let mut wanted = [None; PLAN_PER_PAGE as usize];
    wanted[1] = Some(0);
    wanted[674] = Some(HOME_PAGES_MAX - 1);
    let gone = vec![Tombstone { first: 5, pages: 6 }, Tombstone { first: 1 << 30, pages: 1 << 31 }];
    let guard = GuardPage::new(uuid, 3, 63, Label::new("/var/lib/seekless/sda.area"));
    let area =
        Superblock { area_size: Sectors(superblock().area_size.0 + 16 * new(1)), ..superblock() };
    let flags = if in_place { area.flags.union(AreaFlags::IN_PLACE) } else { area.flags };
    let area = Superblock { spread: is_new, flags, ..area };
    let record = |header: &Header| {
        let mut page = [0; 4096];
        header.encode(&mut page);
        let mut page = seal(page);
        if is_new {
            page.copy_within(..2048, 2048);
        }
        assert_eq!(Header::all_in(&page), [(header.clone(), checksum(&page))]);
        page
    };
    let opened = vec![Entry { home: 9, state: CopyState::Dirty, sum: 11 }];
    let opened = in_place.then(|| ("header/opened", record(&header(Content::Opened(opened)))));
    let mut all = vec![
        ("superblock/area", page(&area, seal)),
        ("header/read_map", page(&header(Content::ReadMap(clean)), seal)),
        ("header/data", record(&header(Content::Data(dirty)))),
        ("header/tombstones", record(&header(Content::Tombstones(gone)))),
        ("header/invalid", record(&header(Content::Invalid(vec![0, 3, 1])))),
        ("header/committed", record(&header(Content::Committed(vec![0, 3])))),
        (
            "checkpoint/header",
            page(
                &CheckpointHeader {
                    uuid,
                    generation: 9,
                    entries: 56,
                    next_sequence: 1 << 40,
                    position: Position { segment: 5, page: 3 },
                    previous: 0xDEAD_BEEF,
                    tail: 4,
                },
                seal,
            ),
        ),
        (
            "checkpoint/page",
            page(&CheckpointPage { uuid, generation: 9, first: 337, entries }, seal),
        ),
        ("plan/header", page(&PlanHeader { uuid, generation: 4, slots: 32 }, seal)),
        ("plan/page", page(&PlanPage { uuid, generation: 4, first: 675, wanted }, seal)),
        (
            "guard/header",
            page(
                &GuardHeader {
                    uuid,
                    generation: 3,
                    home_capacity: Sectors(1_000_003),
                    sum: 0xC0FF_EE11,
                    state: GuardState::Between,
                    place: Label::new("/var/lib/seekless/sda.area"),
                    summed: new(1 << 63 | 5),
                    sums: std::array::from_fn(|i| new(i as u64 * 7) as u32),
                },
                seal,
            ),
        ),
        ("guard/page", page(&GuardPage { area_generation: new(77), ..guard }, seal)),
    ];
    all.extend(opened);
    all
}

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");

#[allow(clippy::disallowed_methods, reason = "tests read the corpus from disk")]
fn is_in_corpus(name: &str, page: &Page) {
    let held = std::fs::read(format!("{CORPUS}/{name}")).unwrap();
    let differs = page.iter().zip(&held).position(|(a, b)| a != b);
    assert_eq!((held.len(), differs), (4096, None), "{name}: the first byte that differs");
}

/// A changed format without a new version breaks this test.
#[test]
fn version_4_is_written_as_it_always_was() {
    for (name, page) in samples(4) {
        is_in_corpus(&format!("{name}.4"), &page);
    }
}

/// And it reads what version 3 wrote.
#[test]
fn version_3_is_read_as_it_always_was() {
    for (name, page) in samples(3) {
        is_in_corpus(&format!("{name}.3"), &page);
    }
    let learned = LearnedPage {
        uuid: superblock().uuid,
        generation: 4,
        first: 4052,
        bytes: std::array::from_fn(|i| i as u8),
    };
    let mut page = [0; 4096];
    learned.encode(&mut page);
    let kind = u16::from_le_bytes(take(&page, KIND_AT));
    seal_as(3, &mut page, kind);
    is_in_corpus("plan/learned.3", &page);
}

/// And it reads what version 2 wrote.
#[test]
fn version_2_is_read_as_it_always_was() {
    for (name, page) in samples(2) {
        is_in_corpus(name, &page);
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "tests read the corpus from disk")]
fn the_corpus_breaks_nothing() {
    for (folder, target) in [
        ("superblock", fuzzing::superblock as fn(&[u8])),
        ("header", fuzzing::header),
        ("checkpoint", fuzzing::checkpoint),
        ("plan", fuzzing::plan),
        ("guard", fuzzing::guard),
    ] {
        let mut replayed = 0;
        for file in std::fs::read_dir(format!("{CORPUS}/{folder}")).unwrap() {
            let path = file.unwrap().path();
            println!("{}", path.display());
            let bytes = std::fs::read(&path).unwrap();
            target(&bytes);
            // And cut short, and with each byte of what a field may be turned over.
            target(&bytes[..bytes.len() / 2]);
            for at in 16..bytes.len().min(256) {
                let mut turned = bytes.clone();
                turned[at] ^= 0xFF;
                target(&turned);
            }
            replayed += 1;
        }
        assert!(replayed > 0, "{folder} has no corpus");
    }
}

/// As in ext4's superblock, directories and extents. A CRC would be equal for all of them.
#[test]
fn pages_that_end_with_their_own_checksum_differ_by_their_sums() {
    let page = |content: u8, at: usize| {
        let mut page = [0; 4096];
        page[at..at + 1020].fill(content);
        let own = crc_fast::crc32_iscsi(&page[at..at + 1020]);
        page[at + 1020..at + 1024].copy_from_slice(&own.to_le_bytes());
        page
    };
    for at in [0, 1024, 3072] {
        let (one, other) = (page(1, at), page(2, at));
        assert_eq!(crc_fast::crc32_iscsi(&one), crc_fast::crc32_iscsi(&other));
        assert_ne!(page_sum(&one), page_sum(&other), "at {at}");
    }
}

/// The sums of no input and of one byte, from the reference implementation of xxHash (its sanity
/// tests). An entry keeps all bits.
#[test]
fn page_sums_are_the_upper_bits_of_xxh3() {
    assert_eq!(page_sum(&[]), 0x2D06_8005_38D3_94C2 >> 16);
    assert!(page_sum(&[7; 4096]) < 1 << 48);
}
