//! The log after a crash: what its headers prove, where it ends, and unreadable pages.

use std::cell::Cell;

use super::area::{in_use, spoil, writeback};
use super::device::{Ruled, unreadable};
use super::rules::{fail, none, until};
use super::*;
use seekless_engine::format::read_superblock;

/// The headers of the log's records with the pages where they stand, in their order.
pub(super) fn log_of(world: &mut World) -> Vec<(u64, Header)> {
    let mut found: Vec<(u64, Header)> = Vec::new();
    for page in 0..AREA / 8 {
        let mut bytes = [0; 4096];
        world.area.read(page_extent(page, 1), &mut bytes).unwrap();
        let headers = Header::all_in(&bytes).into_iter().map(|(h, _)| h);
        found.extend(headers.filter(|h| h.sequence > 0).take(1).map(|h| (page, h)));
    }
    found.sort_unstable_by_key(|(_, h)| h.sequence);
    found
}

/// The page of the record that holds a home page.
pub(super) fn record_of(world: &mut World, home: u64) -> u64 {
    let holds = |h: &Header| matches!(&h.content, Content::Data(entries) if entries.iter().any(|e| e.home == home));
    log_of(world).into_iter().rfind(|(_, h)| holds(h)).unwrap().0
}

/// Executes all I/Os in flight, and lets no time pass.
pub(super) fn execute_all(world: &mut World) {
    while !world.waiting.is_empty() {
        world.execute(0);
    }
}

pub(super) fn flushes_area(io: &Io) -> bool {
    (io.target, io.op) == (Target::Area, Op::Flush)
}

/// The position of an I/O in flight.
pub(super) fn in_flight(world: &World, which: impl Fn(&Io) -> bool) -> usize {
    world.waiting.iter().position(which).unwrap()
}

/// A record that ended together with the record of a flush is on stable storage as well, and the
/// next header says so.
#[test]
fn a_header_knows_of_all_that_was_flushed() {
    let mut world = in_use(false);
    // This voids a page. A record says so, and the flush waits for it.
    world.issue_at_once(Op::WriteZeroes, home(9, 1));
    world.issue(Op::Flush, Extent::default());
    until(&mut world, none, |io| io.target == Target::Area && io.op == Op::Write);
    world.issue(Op::Write, home(50, 1));
    // The later one ends first.
    world.execute(in_flight(&world, |io| io.extent.len == Sectors(2 * 8)));
    execute_all(&mut world);
    assert!(world.clients.is_empty());
    let flushed = record_of(&mut world, 50);
    world.issue_at_once(Op::Write, home(51, 1));
    let log = log_of(&mut world);
    let (_, last) = log.last().unwrap();
    let sequence = log.iter().find(|(page, _)| *page == flushed).unwrap().1.sequence;
    assert!(last.sequence > sequence && last.durable >= sequence, "{log:?}");
    // So damage of it is reported.
    spoil(&mut world, flushed);
    let refused = examine(&mut world.area).unwrap_err();
    assert!(matches!(refused, AttachError::BrokenLog { .. }), "{refused}");
}

/// Half a second after the last request, a mark separates the last flushed record from a torn one.
/// One mark is enough.
#[test]
fn what_was_flushed_last_is_vouched_for_when_nobody_asks_for_anything() {
    for (damaged, pages) in [(0, 1), (1, 1), (0, 6), (1, 6)] {
        let mut world = World::new(writeback());
        if pages == 6 {
            // A segment, and a mark in the next one, which the record of six pages fills.
            world.issue_at_once(Op::Write, home(20, 7));
            world.issue_at_once(Op::Flush, Extent::default());
            world.now += 500_000_000;
            world.handle(Input::Tick);
            execute_all(&mut world);
        }
        world.issue_at_once(Op::Write, home(3, pages));
        world.issue(Op::Flush, Extent::default());
        let asked = world.now;
        execute_all(&mut world);
        assert!(world.clients.is_empty());
        let flushed = record_of(&mut world, 3);
        let at = world.engine.wakeup().expect("the mark is to be put down");
        assert_eq!(at.0 - asked, 500_000_000);
        world.now = at.0;
        world.handle(Input::Tick);
        let sent: Vec<_> =
            world.waiting.iter().map(|io| (io.target, io.op, io.extent.len)).collect();
        assert_eq!(sent, [(Target::Area, Op::Write, Sectors(8))]);
        execute_all(&mut world);
        assert_eq!(world.engine.wakeup(), None, "it needs none itself");
        spoil(&mut world, flushed + damaged);
        let found = examine(&mut world.area)
            .and_then(|found| found.check(&mut world.area, true, &mut |_| ()));
        match found {
            Err(refused) => assert!(matches!(refused, AttachError::BrokenLog { .. }), "{refused}"),
            Ok(found) => assert!(damaged == 1 && found.iter().any(|f| f.loss), "{found:?}"),
        }
    }
}

/// The header that proves a damaged record stands behind a header that never reached the disk.
#[test]
fn damage_is_found_though_a_record_between_is_lost() {
    let mut world = World::new(writeback());
    let write = |world: &mut World, page| {
        world.issue(Op::Write, home(page, 1));
        let at = in_flight(world, |io| io.op == Op::Write && io.class == Class::Foreground);
        world.execute(at);
    };
    write(&mut world, 3);
    // A slow flush: a segment and a half of log does not know of it.
    world.issue(Op::Flush, Extent::default());
    (10..17).for_each(|page| write(&mut world, page));
    // The first record of the next segment is in flight when the flush ends. The record behind it
    // reaches the disk earlier.
    world.issue(Op::Write, home(20, 1));
    while let Some(at) = world.waiting.iter().position(|io| io.op == Op::Flush) {
        world.execute(at);
    }
    world.issue(Op::Write, home(21, 1));
    let last = world.waiting.len() - 1;
    world.execute(last);
    let log = log_of(&mut world);
    let (_, vouches) = log.last().unwrap();
    assert_eq!((vouches.position.page, log.len()), (2, 9), "{log:?}");
    assert!(vouches.durable >= log[0].1.sequence);
    assert!(log[..8].iter().all(|(_, h)| h.durable < log[0].1.sequence));
    let damaged = log[0].0;
    spoil(&mut world, damaged);
    let refused = examine(&mut world.area).unwrap_err();
    assert!(matches!(refused, AttachError::BrokenLog { .. }), "{refused}");
}

/// The area refuses two records in flight at the same time. Each holds two runs of pages, which go
/// home as two writes. A client is answered only when its own bytes are at home.
#[test]
fn two_records_that_the_area_refuses_go_home_one_after_the_other() {
    let mut world = World::new(writeback());
    let is_record =
        |io: &Io| (io.target, io.op, io.class) == (Target::Area, Op::Write, Class::Foreground);
    let write = |world: &mut World, page| (world.issue(Op::Write, home(page, 1)), page);
    // Two records are in flight; later writes gather in the next record.
    write(&mut world, 3);
    write(&mut world, 9);
    let mut refused = vec![write(&mut world, 20), write(&mut world, 30)];
    for pages in [[40, 50], [41, 60]] {
        let at = in_flight(&world, is_record);
        world.execute(at);
        refused.extend(pages.map(|page| write(&mut world, page)));
    }
    let records = world.waiting.iter().filter(|io| is_record(io));
    let sizes: Vec<u64> = records.map(|io| io.extent.len.0 / 8).collect();
    assert_eq!(sizes, [3, 3], "a header and two pages each");
    while let Some(at) = world.waiting.iter().position(is_record) {
        fail(&mut world, at);
    }
    let is_home = |world: &mut World, id: u64, page| {
        let mut bytes = [0; 4096];
        world.home.read(home(page, 1), &mut bytes).unwrap();
        bytes.chunks(SECTOR).all(|sector| value_of(sector) == id << 32 | 7)
    };
    while !world.waiting.is_empty() {
        world.execute(0);
        for &(id, page) in &refused {
            let answered = !world.clients.contains_key(&id);
            assert!(!answered || is_home(&mut world, id, page), "page {page}: answered too early");
        }
    }
    assert!(refused.iter().all(|&(id, page)| is_home(&mut world, id, page)));
    assert_eq!((world.clients.len(), world.failed), (0, 0));
    world.handle_settled(Input::Command(Command::Drain));
    world.home_is_complete();
    world.read_all();
}

/// A record names the position before which recovery need not look. Destaged data may be lost until
/// home is flushed, and the record is written meanwhile.
#[test]
fn a_record_names_no_tail_that_home_does_not_hold_durably() {
    let config =
        Config { area: Sectors(AREA + 8 * 8 * 16), write_buffer_percent: 80, ..writeback() };
    let mut world = World::new(config);
    // The flush behind the destage; checkpoints flush home as well.
    let held = |world: &World, io: &Io| {
        io.class.is_background()
            && (io.target, io.op) == (Target::Home, Op::Flush)
            && world.engine.stats().destaged_bytes > 0
    };
    let is_held = |world: &World| world.waiting.iter().any(|io| held(world, io));
    let others = |world: &mut World| {
        while let Some(at) = world.waiting.iter().position(|io| !held(world, io)) {
            world.execute(at);
        }
    };
    // The tail's data, and then enough to destage it: more than eight tenths of the log.
    world.issue(Op::Write, home(57, 7));
    others(&mut world);
    let before = world.home.clone();
    for write in 0..16 {
        world.issue(Op::Write, home(write % 8 * 7, 7));
        others(&mut world);
    }
    // Once the clients are idle.
    while !is_held(&world) {
        assert!(world.wake());
        others(&mut world);
    }
    world.issue(Op::Write, home(3, 1));
    others(&mut world);
    assert!(world.clients.is_empty() && is_held(&world));
    world.home = before;
    world.crash_and_read([0; 32]);
}

/// A move has read the page. The client's write goes home while the copy is written, and ends after
/// that.
#[test]
fn a_copy_on_its_way_is_not_used_once_its_home_is_being_written() {
    let mut world = World::new(config(0));
    world.handle(Input::Install(plan_of(&[(3, 2, 0)])));
    let read = |io: &Io| io.class.is_background() && (io.target, io.op) == (Target::Home, Op::Read);
    until(&mut world, none, read);
    while let Some(at) = world.waiting.iter().position(read) {
        world.execute(at);
    }
    world.issue(Op::Write, home(3, 1));
    let mine =
        |io: &Io| (io.target, io.op, io.class) == (Target::Home, Op::Write, Class::Foreground);
    assert!(world.waiting.iter().any(mine), "{:?}", world.waiting);
    while let Some(at) = world.waiting.iter().position(|io| !mine(io)) {
        world.execute(at);
    }
    assert_eq!(world.engine.copied(), Sectors(8), "the page that nobody writes");
    world.settle_and_read();
    assert_eq!(world.engine.stats().overtaken, 8);
}

/// A disk turns about once for each MiB of log that is read: an attach must not read all of a large
/// one.
#[test]
fn an_attach_looks_behind_the_log_as_far_as_a_crash_can_have_lost_writes() {
    let (capacity, pages) = (Sectors(8 << 21), 256);
    let mut area = MemDevice::new(capacity);
    let options = FormatOptions {
        capacity,
        grid: Sectors(0),
        segment_pages: pages,
        write_buffer_percent: 90,
        ..options_of(&writeback())
    };
    let geometry = format_area(&mut area, &options).unwrap();
    assert!(geometry.log_segments() > 6000, "{geometry:?}");
    let mut read = 0;
    let rule = |op: Op, extent: Extent| -> Result<(), DeviceError> {
        read += if op == Op::Read { extent.len.0 / 8 } else { 0 };
        Ok(())
    };
    examine(&mut Ruled { area: &mut area, rule }).unwrap();
    let lost = (256 << 20 >> 12) / u64::from(pages);
    assert!(read < lost + 6 * u64::from(pages), "{read} pages");
    // A record that knows of a missing one.
    for (silent, known) in [(lost, true), (lost + 1, false)] {
        let position = Position { segment: geometry.read_segments() + 1 + silent as u32, page: 0 };
        let vouches = Header {
            uuid: AreaId([7; 16]),
            sequence: 900,
            durable: 800,
            plan_generation: 0,
            position,
            previous: 0,
            tail: geometry.read_segments(),
            content: Content::Data(Vec::new()),
        };
        let mut bytes = [0; 4096];
        vouches.encode(&mut bytes);
        let at = geometry.page_of(position.segment * pages).unwrap();
        area.write(page_extent(at, 1), &bytes).unwrap();
        let found = examine(&mut area);
        assert_eq!(matches!(found, Err(AttachError::BrokenLog { .. })), known, "{silent}");
        area.write_zeroes(page_extent(at, 1)).unwrap();
    }
}

/// A checkpoint is not of one moment: it may know records behind the cut of a repair.
#[test]
fn what_a_checkpoint_knows_behind_the_cut_is_given_up() {
    let mut world = in_use(false);
    let found = examine(&mut world.area).unwrap();
    let (slot, sum) = found.copies().find(|c| c.1 == 9).map(|(slot, .., sum)| (slot, sum)).unwrap();
    let place = 2 + 2 * u64::from(found.superblock().checkpoint_slot);
    let mut bytes = [0; 4096];
    world.area.read(page_extent(place + 1, 1), &mut bytes).unwrap();
    let mut page = CheckpointPage::decode(&bytes).unwrap();
    page.entries[slot as usize] = Entry { home: 9, state: CopyState::Dirty, sum };
    page.encode(&mut bytes);
    world.area.write(page_extent(place + 1, 1), &bytes).unwrap();
    assert!(examine(&mut world.area).unwrap().newest(9).is_some());
    let header = record_of(&mut world, 3);
    spoil(&mut world, header);
    let Repair::Done(report) = repair(&mut world.area, true).unwrap() else { panic!("allowed") };
    assert!(report.mended.iter().any(|f| f.what.contains("the log was cut")), "{report:?}");
    assert_eq!(examine(&mut world.area).unwrap().newest(9), None);
    // The log goes on at that position.
    world.crash([0; 32]);
    world.issue_at_once(Op::Write, home(40, 2));
    let found = examine(&mut world.area).unwrap();
    let findings = found.check(&mut world.area, true, &mut |_| ()).unwrap();
    assert!(found.newest(40).is_some() && findings.is_empty(), "{findings:?}");
}

/// A page that looks like the next record, but names another predecessor, is none.
#[test]
fn a_record_follows_the_one_whose_checksum_it_has() {
    let mut world = in_use(false);
    let (at, last) = log_of(&mut world).pop().unwrap();
    let mut bytes = [0; 4096];
    world.area.read(page_extent(at, 1), &mut bytes).unwrap();
    let pages = 1 + last.content.len() as u32;
    let stranger = Header {
        sequence: last.sequence + 1,
        position: Position { page: last.position.page + pages, ..last.position },
        previous: checksum(&bytes),
        content: Content::Tombstones(vec![Tombstone { first: 3, pages: 1 }]),
        ..last
    };
    for (previous, follows) in [(stranger.previous ^ 1, false), (stranger.previous, true)] {
        Header { previous, ..stranger.clone() }.encode(&mut bytes);
        world.area.write(page_extent(at + u64::from(pages), 1), &bytes).unwrap();
        assert_eq!(examine(&mut world.area).unwrap().newest(3).is_none(), follows);
    }
}

/// A page of the log is unreadable: the engine reports it, and a repair gives up only what is lost
/// with it.
#[test]
fn a_log_that_cannot_be_read_is_refused_and_mended() {
    let world = || in_use(false);
    // The header in the middle: later headers know of it.
    let mut w = world();
    let pages = vec![record_of(&mut w, 9)];
    let mut area = Ruled { area: &mut w.area, rule: unreadable(pages) };
    let refused = examine(&mut area).unwrap_err();
    assert!(matches!(refused, AttachError::BrokenLog { .. }), "{refused}");
    assert!(matches!(repair(&mut area, false).unwrap(), Repair::WouldLose(_)));
    assert!(matches!(repair(&mut area, true).unwrap(), Repair::Done(_)));
    let found = examine(&mut area).unwrap();
    assert!(found.newest(3).is_some() && found.newest(9).is_none());
    // The data of one record: a read of it fails, the rest is served.
    let mut w = world();
    let pages = vec![record_of(&mut w, 9) + 1];
    let mut area = Ruled { area: &mut w.area, rule: unreadable(pages) };
    let lost: Vec<bool> = examine(&mut area)
        .unwrap()
        .check(&mut area, true, &mut |_| ())
        .unwrap()
        .iter()
        .map(|f| f.loss)
        .collect();
    assert_eq!(lost, [true]);
    let Repair::Done(report) = repair(&mut area, true).unwrap() else { panic!("allowed") };
    assert_eq!(report.lost, vec![home(9, 1)]);
    assert!(examine(&mut area).unwrap().newest(4).is_some());
    // The position of the next record: there may be one.
    let mut w = world();
    let (at, last) = log_of(&mut w).pop().unwrap();
    let next = at + 1 + last.content.len() as u64;
    let before = w.area.clone();
    let mut area = Ruled { area: &mut w.area, rule: unreadable(vec![next]) };
    let refused = examine(&mut area).unwrap_err();
    assert!(matches!(refused, AttachError::Unreadable { page, .. } if page == next), "{refused}");
    let Repair::WouldLose(report) = repair(&mut area, false).unwrap() else { panic!("it may be") };
    assert!(report.mended.iter().any(|f| f.loss && f.what.contains("cannot be read")));
    for s in 0..AREA {
        assert_eq!(area.area.sector(Lba(s)), before.sector(Lba(s)), "nothing was written");
    }
    assert!(matches!(repair(&mut area, true).unwrap(), Repair::Done(_)));
    let found = examine(&mut area).unwrap();
    assert!([3, 9, 4].iter().all(|&page| found.newest(page).is_some()));
    w.crash_and_read([0; 32]);
    // The checkpoint, too: the map is rebuilt.
    let mut w = in_use(true);
    let mut area = Ruled { area: &mut w.area, rule: unreadable(vec![2, 3, 4, 5]) };
    let refused = examine(&mut area).unwrap_err();
    assert!(matches!(refused, AttachError::Unreadable { .. }), "{refused}");
    let Repair::Done(report) = repair(&mut area, false).unwrap() else { panic!("nothing is lost") };
    assert!(report.lost.is_empty(), "{report:?}");
    w.crash_and_read([0; 32]);
}

/// Home is complete until the superblock says that it may not be.
#[test]
fn nothing_is_absorbed_before_the_superblock_says_so() {
    let mut world = World::new(config(0));
    world.settle();
    world.handle(Input::Command(Command::SetMode(Mode::WriteBack)));
    world.issue(Op::Write, home(3, 1));
    assert!(
        world.waiting.iter().any(|io| io.target == Target::Home && io.op == Op::Write),
        "{:?}",
        world.waiting
    );
    while world.engine.mode() != Mode::WriteBack {
        assert!(!world.waiting.is_empty(), "{:?}", world.engine);
        world.execute(0);
    }
    assert_eq!(examine(&mut world.area).unwrap().superblock().mode, Mode::WriteBack);
    world.settle_and_read();
}

/// Nothing written later tells that these records were flushed. The damage of one sector is healed,
/// or said.
#[test]
fn one_damaged_sector_behind_a_flush_is_healed_or_said() {
    let flushed = || {
        let mut world = World::new(writeback());
        for page in [3, 9, 14] {
            world.issue_at_once(Op::Write, home(page, 2));
        }
        world.issue_at_once(Op::Flush, Extent::default());
        assert!(world.clients.is_empty());
        world
    };
    let mut log = log_of(&mut flushed());
    log.retain(|(_, h)| !h.content.is_empty());
    assert_eq!(log.len(), 4, "the last write is in two segments");
    for (at, header) in log {
        for sector in 0..8 * (1 + header.content.len() as u64) {
            let mut world = flushed();
            world.area.write(Extent::new(at * 8 + sector, 1), &[0; SECTOR]).unwrap();
            let found = examine(&mut world.area).unwrap();
            let said: Vec<Extent> = found.incomplete().collect();
            let Content::Data(entries) = &header.content else { panic!("{header:?}") };
            let lost = (sector / 8).checked_sub(1).map(|i| home(entries[i as usize].home, 1));
            let findings = found.check(&mut world.area, true, &mut |_| ()).unwrap();
            // A later record tells of some that they were flushed: then the loss is certain.
            let is_certain = findings.iter().any(|f| f.loss);
            let which = lost.filter(|_| !is_certain);
            assert_eq!(said, which.into_iter().collect::<Vec<_>>(), "page {at}, sector {sector}");
            assert_eq!(findings.len(), usize::from(lost.is_some()), "{findings:?}");
            assert!(findings.iter().all(|f| f.perhaps != f.loss), "{findings:?}");
            for page in [3, 4, 9, 10, 14, 15] {
                let is_there = found.newest(page).is_some();
                assert!(is_there || said == [home(page, 1)], "page {page} is lost, said: {said:?}");
            }
        }
    }
}

/// The server says it too, and a repair.
#[test]
fn an_attach_says_what_is_not_complete() {
    let mut world = World::new(writeback());
    world.issue_at_once(Op::Write, home(3, 2));
    let (at, _) = log_of(&mut world)[0];
    world.area.write(Extent::new((at + 2) * 8, 1), &[0; SECTOR]).unwrap();
    let mut area = world.area.clone();
    let Repair::Done(report) = repair(&mut area, false).unwrap() else { panic!("not a loss") };
    assert!(report.mended.iter().any(|f| f.perhaps), "{report:?}");
    let config = *world.engine.config();
    let (engine, report) = attach(&mut world.area, config, &kept([0; 32])).unwrap();
    assert_eq!((report.incomplete, engine.dirty()), (1, Sectors(8)));
}

/// A later record shows that the one before it is missing.
#[test]
fn an_attach_says_that_a_record_is_missing() {
    for damaged in [false, true] {
        let mut world = World::new(writeback());
        for page in [3, 9] {
            world.issue(Op::Write, home(page, 1));
        }
        execute_all(&mut world);
        let records = log_of(&mut world);
        assert!(records.len() > 1, "{records:?}");
        if damaged {
            world.area.write(Extent::new(records[0].0 * 8, 8), &[0; 4096]).unwrap();
        }
        let config = *world.engine.config();
        let (_, report) = attach(&mut world.area, config, &kept([0; 32])).unwrap();
        assert_eq!((report.missing, report.incomplete), (damaged, 0));
    }
}

/// A server that died may have left the newest superblock in a cache. The one before it names the
/// checkpoint that an attach overwrites.
#[test]
fn an_attach_makes_durable_what_an_earlier_server_wrote() {
    let mut world = in_use(false);
    let config = *world.engine.config();
    // The area may not be written before it was flushed.
    let flushed = Cell::new(false);
    let rule = |op: Op, extent: Extent| -> Result<(), DeviceError> {
        flushed.set(flushed.get() || op == Op::Flush);
        assert!(op != Op::Write || flushed.get(), "{extent} is written");
        Ok(())
    };
    let mut area = Ruled { area: &mut world.area, rule };
    attach(&mut area, config, &kept([1; 32])).unwrap();
    let [.., last] = read_superblock(&mut area, Lba(0)).unwrap().superblock.places();
    area.area.write(page_extent(last, 1), &[0; 4096]).unwrap();
    flushed.set(false);
    let Repair::Done(report) = repair(&mut area, false).unwrap() else { panic!("not a loss") };
    assert!(!report.mended.is_empty(), "it wrote nothing");
}

/// After a drain somebody else may write home: no page of the log may count as newer. So a drain waits
/// for a reader of the log's next segment.
#[test]
fn a_drain_ends_when_the_next_segment_of_the_log_is_free() {
    let mut world = World::new(writeback());
    world.issue_at_once(Op::Write, home(1, 1));
    world.issue(Op::Read, home(1, 1));
    let read = world.waiting[0].id;
    let others = |world: &mut World| {
        while let Some(at) = world.waiting.iter().position(|io| io.id != read) {
            world.execute(at);
        }
    };
    // The log is full up to its last segment, which has a record without data.
    for page in (2..18).step_by(2) {
        world.issue(Op::Write, home(page, 2));
        others(&mut world);
    }
    world.issue(Op::WriteZeroes, home(8, 1));
    others(&mut world);
    world.issue(Op::Flush, Extent::default());
    others(&mut world);
    // The oldest pages went home. This one goes to the last segment; the next one is being read.
    world.issue(Op::Write, home(50, 1));
    others(&mut world);
    assert!(world.engine.dirty() > Sectors(0));
    world.handle(Input::Command(Command::Drain));
    others(&mut world);
    assert_eq!((world.engine.dirty(), world.engine.is_drained()), (Sectors(0), false));
    execute_all(&mut world);
    world.settle();
    assert!(world.engine.is_drained());
    world.crash_with(&open([0; 32]));
    assert_eq!(world.engine.dirty(), Sectors(0));
}

/// The area can no longer be read. Writes of parts of dirty pages wait for a destage of these pages:
/// each of them gets an error, and not only those of the first batch.
#[test]
fn no_write_waits_for_ever_for_pages_that_cannot_be_read() {
    let mut world = World::new(Config { stage_bytes: Bytes(4 * 4096), ..writeback() });
    for page in 40..60 {
        world.issue_settled(Op::Write, home(page, 1));
    }
    for page in 40..60 {
        world.issue(Op::Write, Extent::new(home(page, 1).start.0 + 1, 2));
    }
    assert_eq!(world.clients.len(), 20);
    let reads_area = |io: &Io| io.target == Target::Area && io.op == Op::Read;
    for _ in 0..500 {
        match world.waiting.iter().position(|io| !reads_area(io)) {
            Some(other) => world.execute(other),
            None if !world.waiting.is_empty() => fail(&mut world, 0),
            None => break,
        }
    }
    assert!(world.clients.is_empty(), "{} writes wait", world.clients.len());
    assert!(world.failed > 2, "{} failed", world.failed);
}
