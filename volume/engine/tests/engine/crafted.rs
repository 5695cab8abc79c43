//! Areas whose pages are all well-formed, and that seekless did not write.

use seekless_engine::format::{Superblock, read_superblock};
use seekless_engine::resizable;

use super::area::{in_use, writeback};
use super::log::log_of;
use super::salvaged::same;
use super::*;

/// The last number that a count may have.
const LAST: u64 = u64::MAX >> 1;

fn superblock(area: &mut MemDevice) -> Superblock {
    read_superblock(area, Lba(0)).unwrap().superblock
}

/// The superblock after the next change could not be read.
#[test]
fn an_area_whose_counts_end_is_refused_and_stays_as_it_is() {
    let config = writeback();
    let mut made = MemDevice::new(config.area);
    let slots = format_area(&mut made, &options_of(&config)).unwrap().slots();
    let first = superblock(&mut made);
    let checkpoint_entries = slots.into();
    for superblock in [
        Superblock { generation: LAST, ..first.clone() },
        Superblock { next_sequence: LAST - 1, ..first.clone() },
        Superblock { checkpoint_generation: LAST, checkpoint_entries, ..first.clone() },
    ] {
        let mut area = made.clone();
        let mut page = [0; 4096];
        superblock.encode(&mut page);
        for place in superblock.places() {
            area.write(page_extent(place, 1), &page).unwrap();
        }
        let before = area.clone();
        let refused = [
            attach(&mut area, config, &kept([1; 32])).err(),
            examine(&mut area).err(),
            repair(&mut area, true).err(),
            resizable(&mut area, &superblock).err(),
        ];
        for error in refused {
            let Some(AttachError::Damaged { what, .. }) = error else { panic!("{error:?}") };
            assert_eq!(what, "the superblock");
        }
        assert!(same(&area, &before), "something was written");
    }
}

/// A repair counts on behind the highest number of a record behind its cut.
#[test]
fn a_record_whose_number_ends_the_count_proves_nothing() {
    let mut world = in_use(false);
    let (at, last) = log_of(&mut world).pop().unwrap();
    let pages = 1 + last.content.len() as u32;
    let record = Header {
        sequence: LAST,
        durable: LAST,
        position: Position { page: last.position.page + pages, ..last.position },
        content: Content::Data(Vec::new()),
        ..last
    };
    let mut bytes = [0; 4096];
    record.encode(&mut bytes);
    world.area.write(page_extent(at + u64::from(pages), 1), &bytes).unwrap();
    assert!(matches!(repair(&mut world.area, true).unwrap(), Repair::Done(_)));
    world.crash([0; 32]);
    assert_eq!(world.engine.dirty(), Sectors(3 * 8), "all that was flushed");
    world.read_all();
}

/// An area in which the checkpoint calls all slots for copies those of one page.
fn crowded(state: impl Fn(u32) -> CopyState) -> World {
    let mut world = World::new(Config { area: Sectors(4 * AREA), ..config(0) });
    let superblock = superblock(&mut world.area);
    let geometry = superblock.geometry().unwrap();
    let at = geometry.checkpoint_at(superblock.checkpoint_slot) + 1;
    let mut bytes = [0; 4096];
    world.area.read(page_extent(at, 1), &mut bytes).unwrap();
    let mut page = CheckpointPage::decode(&bytes).unwrap();
    let slots = geometry.read_slots();
    assert!(slots > 100 && geometry.slots() as usize <= page.entries.len(), "{geometry:?}");
    // A segment begins with its map.
    let holds_copies = |(slot, _): &(u32, &mut Entry)| !slot.is_multiple_of(8);
    for (slot, entry) in (0..slots).zip(&mut page.entries).filter(holds_copies) {
        *entry = Entry { home: 5, state: state(slots - slot), sum: 1 };
    }
    page.encode(&mut bytes);
    world.area.write(page_extent(at, 1), &bytes).unwrap();
    world
}

/// A search for one of them walks past all others.
#[test]
fn of_a_page_in_all_slots_an_attach_takes_few_copies() {
    let mut world = crowded(|_| CopyState::Clean);
    world.crash([0; 32]);
    assert_eq!(world.engine.in_doubt(), Sectors(64 * 8));
    world.settle_and_read();
    assert_eq!(world.engine.in_doubt() + world.engine.copied(), Sectors(0), "home proves none");
}

/// The rest costs speed. An only copy costs data.
#[test]
fn a_copy_that_may_be_newer_than_home_is_taken_beside_any_others() {
    let mut world = crowded(|left| if left == 1 { CopyState::Dirty } else { CopyState::Clean });
    world.crash([0; 32]);
    let found = (world.engine.in_doubt(), world.engine.dirty());
    assert_eq!(found, (Sectors(64 * 8), Sectors(8)));
}

#[test]
fn an_area_with_many_only_copies_of_a_page_is_refused_and_stays_as_it_is() {
    let mut world = crowded(|_| CopyState::Dirty);
    let (config, before) = (*world.engine.config(), world.area.clone());
    let refused = attach(&mut world.area, config, &kept([0; 32])).map(drop).unwrap_err();
    assert!(matches!(refused, AttachError::Stranger { .. }), "{refused}");
    assert!(same(&world.area, &before), "something was written");
}
