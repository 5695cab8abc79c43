//! Repairs of areas with replicas: the cost of one damaged page. No repair hides bytes that a client
//! or another program wrote.

use seekless_engine::format::{Run, RunKind, read_superblock};
use seekless_engine::{Finding, RepairReport, repair_outdated, resizable, resize_area};

use super::area::{in_use, spoil};
use super::device::{Ruled, fails_after};
use super::log::record_of;
use super::replicas::{fs2, replicated, stands};
use super::rules::{ask_settled, discarded, pass_until};
use super::*;

/// The first page of the checkpoint in use, and the first one of its free map.
fn checkpoint(world: &mut World) -> [u64; 2] {
    let superblock = read_superblock(&mut world.area, Lba(0)).unwrap().superblock;
    let (geo, place) = (superblock.geometry().unwrap(), superblock.checkpoint_slot);
    let free_map = geo.checkpoint_at(2) + u64::from(place) * u64::from(geo.free_map_pages());
    [geo.checkpoint_at(place), free_map]
}

/// Whether two areas have the same bytes.
pub(super) fn same(one: &MemDevice, other: &MemDevice) -> bool {
    (0..one.capacity().0).all(|s| one.sector(Lba(s)) == other.sector(Lba(s)))
}

fn is_refused(world: &mut World) {
    let refused = examine(&mut world.area).unwrap_err();
    assert!(refused.to_string().contains("seekless volume repair"), "{refused}");
}

/// A repair that loses nothing.
fn repaired(world: &mut World) -> RepairReport {
    is_refused(world);
    match repair(&mut world.area, false).unwrap() {
        Repair::Done(report) => report,
        other => panic!("{other:?}"),
    }
}

/// A repair that loses something, and is made only if that is allowed.
fn given_up(world: &mut World) -> RepairReport {
    is_refused(world);
    let before = world.area.clone();
    let Repair::WouldLose(report) = repair(&mut world.area, false).unwrap() else {
        panic!("it was not allowed")
    };
    assert!(report.mended.iter().any(|f| f.loss && f.what.contains("discarded")), "{report:?}");
    assert!(same(&world.area, &before), "it wrote something");
    let Repair::Done(report) = repair(&mut world.area, true).unwrap() else { panic!("allowed") };
    report
}

/// No page counts as discarded, and no replica is used.
fn nothing_is_free(world: &World) {
    assert_eq!(world.engine.free(), Sectors(0));
    assert_eq!(world.engine.stained().count(), 0);
    assert_eq!(world.engine.copied() + world.engine.in_doubt(), Sectors(0));
}

/// The places of the replicas of [`replicated`] are named.
fn places_are_named(report: &RepairReport) {
    assert_eq!(report.stained, Some(vec![home(20, 3)]), "{report:?}");
    let name = home(20, 3).to_string();
    assert!(report.mended.iter().any(|f| f.perhaps && f.what.contains(&name)), "{report:?}");
}

/// Replicas are written again once their space was discarded again.
fn replicates_again(world: &mut World) {
    world.issue_settled(Op::Discard, home(10, 40));
    ask_settled(world, 20, &[(0, 1), (2, 1)]);
    assert!(stands(world, 0) && stands(world, 2));
    world.read_all();
}

#[test]
fn a_lost_checkpoint_beside_a_sound_free_map_costs_the_replicas_alone() {
    let mut world = replicated();
    // The attach writes a checkpoint of all free pages.
    world.crash([1; 32]);
    let [header, _] = checkpoint(&mut world);
    // Its header, and a page of the map.
    for page in [header, header + 1] {
        let sound = world.area.clone();
        spoil(&mut world, page);
        let report = repaired(&mut world);
        assert!(report.lost.is_empty() && report.stained.is_none(), "{report:?}");
        world.crash([1; 32]);
        assert_eq!(world.engine.free(), Sectors(40 * 8));
        assert!(world.engine.stained().eq([home(20, 3)]), "zeroes are read there");
        assert_eq!(world.engine.copied() + world.engine.in_doubt(), Sectors(0));
        world.read_all();
        world.settle();
        world.area = sound;
    }
}

/// A region that was opened before the checkpoint is closed by it.
#[test]
fn a_rebuilt_map_has_the_free_pages_of_the_checkpoint_and_not_of_the_records_before() {
    let mut world = discarded(fs2(0));
    world.issue_settled(Op::Write, home(12, 1));
    world.handle_settled(Input::Command(Command::SetMode(Mode::WriteBack)));
    let [header, _] = checkpoint(&mut world);
    spoil(&mut world, header);
    let report = repaired(&mut world);
    assert!(report.stained.is_none(), "{report:?}");
    world.crash([1; 32]);
    assert_eq!(world.engine.free(), Sectors(39 * 8));
    world.read_all();
}

#[test]
fn behind_a_damaged_free_map_no_page_counts_as_discarded_and_replicas_are_named() {
    let mut world = replicated();
    world.crash([1; 32]);
    let [_, free_map] = checkpoint(&mut world);
    spoil(&mut world, free_map);
    let report = given_up(&mut world);
    places_are_named(&report);
    world.crash([1; 32]);
    nothing_is_free(&world);
    // Where replicas stood, a client's write is all that is read.
    world.issue_settled(Op::Write, home(20, 3));
    world.read_all();
    world.home_is_complete();
    replicates_again(&mut world);
}

/// The page of the record that calls a page used.
fn record_of_use(world: &mut World, page: u64) -> u64 {
    let says = |h: &Header| {
        let used = |run: &Run| run.kind == RunKind::Used && run.first == page;
        matches!(&h.content, Content::FreeMap(runs) if runs.iter().any(used))
    };
    let mut bytes = [0; 4096];
    for at in (0..world.area.capacity().0 / 8).rev() {
        world.area.read(page_extent(at, 1), &mut bytes).unwrap();
        if Header::all_in(&bytes).iter().any(|(h, _)| says(h)) {
            return at;
        }
    }
    panic!("no record calls page {page} used")
}

#[test]
fn behind_a_cut_of_the_log_no_page_that_a_client_took_back_reads_as_zeroes() {
    let mut world = replicated();
    for page in [20, 21] {
        for (op, extent) in [(Op::Write, home(page, 1)), (Op::Flush, Extent::default())] {
            world.issue(op, extent);
            pass_until(&mut world, |w| w.clients.is_empty());
        }
    }
    // The later record knows that this one was flushed.
    let record = record_of_use(&mut world, 20);
    spoil(&mut world, record);
    let report = given_up(&mut world);
    places_are_named(&report);
    world.crash([1; 32]);
    nothing_is_free(&world);
    world.issue_settled(Op::Read, home(20, 2));
    world.issue_settled(Op::Write, home(22, 1));
    world.read_all();
    world.home_is_complete();
    replicates_again(&mut world);
}

/// The lost record, or one behind it, may say that home has newer bytes of a page.
#[test]
fn pages_of_the_write_buffer_before_a_cut_of_the_log_are_named() {
    let mut world = in_use(false);
    let record = record_of(&mut world, 9);
    for (op, extent) in [(Op::Write, home(3, 1)), (Op::Flush, Extent::default())] {
        world.issue_at_once(op, extent);
    }
    // Its older bytes stand before this record, and 4 behind it.
    spoil(&mut world, record);
    is_refused(&mut world);
    let Repair::WouldLose(report) = repair(&mut world.area, false).unwrap() else {
        panic!("it was not allowed")
    };
    assert_eq!(report.doubtful, [home(3, 1)], "{report:?}");
    let name = home(3, 1).to_string();
    assert!(report.mended.iter().any(|f| f.perhaps && f.what.contains(&name)), "{report:?}");
    let Repair::Done(after) = repair(&mut world.area, true).unwrap() else { panic!("allowed") };
    assert_eq!(after.doubtful, report.doubtful);
    assert!(examine(&mut world.area).unwrap().newest(3).is_some());
}

/// Another program writes a page of home.
fn write_beside(world: &mut World, page: u64) {
    let (extent, value) = (home(page, 1), 1 << 40 | page);
    let mut bytes = [0; 4096];
    fill(&mut bytes, value);
    world.home.write(extent, &bytes).unwrap();
    for s in extent.start.0..extent.end().0 {
        let written = Written { value, by: 0, issued: 0, ended: 0, dead: NEVER };
        world.history[s as usize] = vec![written];
    }
}

#[test]
fn a_repair_hides_no_bytes_that_another_program_wrote_in_discarded_space() {
    // After a crash, and after a stop in order.
    for stops in [false, true] {
        let mut world = replicated();
        if stops {
            world.handle_settled(Input::Detach { stamp: [1; 32] });
        }
        // In the places of replicas, and where none ever stood.
        for page in [20, 21, 22, 40] {
            write_beside(&mut world, page);
        }
        let before = world.area.clone();
        let ended = repair_outdated(&mut world.area, false).unwrap();
        let Repair::WouldLose(report) = ended else { panic!("it was not allowed") };
        let says = |f: &Finding| f.loss && f.what.contains("another program");
        assert!(report.mended.iter().any(says), "{report:?}");
        assert!(same(&world.area, &before), "it wrote something");
        let ended = repair_outdated(&mut world.area, true).unwrap();
        let Repair::Done(report) = ended else { panic!("allowed") };
        places_are_named(&report);
        // The guard stands again.
        world.crash([1; 32]);
        nothing_is_free(&world);
        world.read_all();
        world.handle(Input::Command(Command::Drain));
        world.handle_settled(Input::Withdraw);
        world.read_all();
        world.home_is_complete();
        replicates_again(&mut world);
    }
}

#[test]
fn pages_that_the_write_buffer_lays_over_another_programs_are_named() {
    let mut world = in_use(false);
    let ended = repair_outdated(&mut world.area, false).unwrap();
    let Repair::WouldLose(report) = ended else { panic!("it was not allowed") };
    for extent in [home(3, 2), home(9, 1)] {
        let name = extent.to_string();
        assert!(report.mended.iter().any(|f| f.perhaps && f.what.contains(&name)), "{report:?}");
    }
    assert_eq!(report.stained, None, "there are no replicas");
}

/// The former area does not fit into the new one, and only the former one says where replicas are.
#[test]
fn an_area_with_replicas_is_divided_for_a_smaller_size_once_they_are_gone() {
    let mut world = replicated();
    let checked = |world: &mut World| {
        world.handle_settled(Input::Detach { stamp: [1; 32] });
        let superblock = read_superblock(&mut world.area, Lba(0)).unwrap().superblock;
        resizable(&mut world.area, &superblock)
    };
    let refused = checked(&mut world).unwrap_err();
    assert!(matches!(refused, AttachError::HasReplicas { .. }), "{refused}");
    world.crash([1; 32]);
    world.handle(Input::Command(Command::Drain));
    world.handle_settled(Input::Withdraw);
    let before = checked(&mut world).unwrap();
    let mut smaller = MemDevice::new(Sectors(world.area.capacity().0 - 8 * 16));
    for s in 0..smaller.capacity().0 {
        smaller.write(Extent::new(s, 1), &world.area.sector(Lba(s))).unwrap();
    }
    let config = *world.engine.config();
    let options = FormatOptions {
        mode: Mode::WriteThrough,
        replicas: fs2(0).replicas,
        ..options_of(&config)
    };
    resize_area(&mut smaller, &options, &before).unwrap();
    world.area = smaller;
    world.crash([1; 32]);
    nothing_is_free(&world);
    world.read_all();
    replicates_again(&mut world);
}

/// The next repair does not name them: they are gone from the map.
#[test]
fn a_repair_that_stops_at_any_write_names_what_it_gave_up() {
    let mut world = in_use(false);
    let damaged = record_of(&mut world, 9) + 1;
    spoil(&mut world, damaged);
    let mut silent = 0;
    for left in 0.. {
        let mut area = world.area.clone();
        let mut failing = Ruled { area: &mut area, rule: fails_after(left) };
        let ended = repair(&mut failing, true).unwrap();
        let (report, stopped) = match ended {
            Repair::Done(report) => (report, false),
            Repair::Stopped(report, _) => (report, true),
            Repair::WouldLose(_) => panic!("it was allowed"),
        };
        assert_eq!(report.lost, [home(9, 1)], "after {left} writes");
        if !stopped {
            break;
        }
        let Repair::Done(next) = repair(&mut area, true).unwrap() else { panic!("allowed") };
        silent += u32::from(next.lost.is_empty());
        assert!(examine(&mut area).is_ok());
    }
    assert!(silent > 0, "the first report was never the only one");
}

/// After a kill and after a stop in order, whose proof about home stays.
#[test]
fn a_repair_of_a_sound_area_writes_nothing() {
    for stops in [false, true] {
        let mut world = in_use(true);
        if stops {
            world.settle();
            world.handle_settled(Input::Detach { stamp: [1; 32] });
            assert!(world.engine.is_detached());
        }
        let before = world.area.clone();
        for lose in [false, true] {
            let Repair::Done(report) = repair(&mut world.area, lose).unwrap() else {
                panic!("nothing is lost")
            };
            assert!(report.mended.is_empty(), "{report:?}");
            assert!(same(&world.area, &before), "it wrote something");
        }
        assert_eq!(examine(&mut world.area).unwrap().is_clean(), stops);
    }
}
