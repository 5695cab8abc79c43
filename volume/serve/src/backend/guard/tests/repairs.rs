//! Repairs of the region's header, and guards that are not the region's own.

use super::*;

/// A guard that is up, with bytes of a client in the region.
fn up(dice: &mut Dice) -> World {
    let mut world = World::new(dice);
    world.put_up(u64::MAX).unwrap();
    world.write(0, 1, true);
    world.flush();
    world
}

/// Home's ends stand behind the header, and only the header has their checksums.
#[test]
fn what_another_program_wrote_over_the_header_is_given_up_only_where_that_is_allowed() {
    let mut world = up(&mut Dice::new(19));
    for sector in 0..PAGE_BYTES / SECTOR_BYTES {
        world.region.flushed.insert(sector, [0x5A; SECTOR].into());
    }
    assert!(said(&mut world).contains("is not one of seekless"));
    let before = world.clone();
    let fault = world.with(u64::MAX, |g| g.repair(false)).unwrap().unwrap();
    assert!(fault.loses && fault.unproven);
    assert!(world.region.all() == before.region.all() && world.home.all() == before.home.all());
    let outdated = world.with(u64::MAX, |g| g.standing()).unwrap_err();
    assert!(matches!(outdated, GuardError::Wrong { outdated: true, here: false, .. }));
    world.with(u64::MAX, |g| g.repair(true)).unwrap().unwrap();
    assert_eq!(world.with(u64::MAX, |g| g.standing()).unwrap(), Standing::Up);
    assert!(world.view(true) == world.seen);
}

/// A file system's superblock in the guard's first page, and a header that is not one of seekless:
/// this is no disk without a guard, whose ends a new guard may take.
#[test]
fn two_overwritten_places_do_not_make_a_disk_without_a_guard() {
    let mut world = up(&mut Dice::new(31));
    world.region.flushed.insert(0, [0x5A; SECTOR].into());
    world.home.flushed.insert(2, [0xEF; SECTOR].into());
    let before = world.clone();
    for loses in [false, true] {
        assert!(world.with(u64::MAX, |g| g.standing()).is_err());
        assert!(world.with(u64::MAX, |g| g.settle()).is_err());
        let done = world.with(u64::MAX, |g| g.repair(loses));
        let is_up = matches!(world.with(u64::MAX, |g| g.standing()), Ok(Standing::Up));
        assert!(is_up == matches!(done, Ok(Some(_)) if loses), "{done:?}");
        if !is_up {
            assert!(world.region.all() == before.region.all());
            assert!(world.home.all() == before.home.all());
        }
    }
}

/// The words of a fault end before its remedy, which a repair has carried out.
#[test]
fn a_fault_is_named_without_its_remedy() {
    let mut world = up(&mut Dice::new(23));
    let page = PAGE_BYTES / SECTOR_BYTES;
    for (sector, at) in [(0, 40), (0, 0), (page, 9)] {
        let mut rotten = world.clone();
        rotten.with(u64::MAX, |g| g.settle()).unwrap();
        rot(&mut rotten.region, sector, at);
        let fault = rotten.with(u64::MAX, |g| g.fault()).unwrap().unwrap();
        assert!(fault.why.contains("seekless volume repair"), "{}", fault.why);
        assert!(!fault.fault().contains("run `"), "{}", fault.fault());
        assert!(!fault.fault().contains("nothing was changed"), "{}", fault.fault());
        assert!(!fault.fault().is_empty());
    }
    assert_eq!(world.with(u64::MAX, |g| g.fault()).unwrap(), None);
}

/// A kill leaves home's pages in the host's memory. Then the header is damaged and repaired, and the
/// power fails.
#[test]
fn a_repaired_header_tells_what_home_durably_holds() {
    let mut dice = Dice::new(29);
    for start_up in [false, true] {
        let mut world = World::new(&mut dice);
        if start_up {
            world.put_up(u64::MAX).unwrap();
        }
        // The flush of home fails: all before it is done.
        let moved = |world: &mut World, power| match start_up {
            true => world.take_down(power).is_ok(),
            false => world.put_up(power).is_ok(),
        };
        let mut left = (0..).map(|power| {
            let mut world = world.clone();
            (moved(&mut world, power), world)
        });
        let is_there = |world: &World| {
            let cached = world.home.cached.len() as u64;
            cached == 2 * EDGE
        };
        let (_, mut cut) = left.find(|(done, world)| !done && is_there(world)).unwrap();
        rot(&mut cut.region, 0, 40);
        cut.with(u64::MAX, |g| g.repair(false)).unwrap().unwrap();
        let mut cut = cut.stopped(&mut dice, 1);
        let expected = if start_up { Standing::Down } else { Standing::Up };
        assert_eq!(cut.with(u64::MAX, |g| g.standing()).unwrap(), expected);
        assert!(cut.view(!start_up) == cut.seen);
    }
}

/// A repaired header counts the guards from 0 again if none is up. An older copy of the area may
/// know a guard of the same number.
#[test]
fn a_guard_of_a_repaired_region_names_a_later_generation_than_older_copies_have() {
    let mut world = up(&mut Dice::new(31));
    let older = world.region.clone();
    world.take_down(u64::MAX).unwrap();
    rot(&mut world.region, 0, 40);
    world.with(u64::MAX, |g| g.repair(false)).unwrap().unwrap();
    // An attach advances the area's generation, and puts the guard up.
    let put = world.with(u64::MAX, |g| {
        g.area_generation = GENERATION + 1;
        g.put_up(Label::new("/the/area"))
    });
    put.unwrap();
    let mut older = World { region: older, ..world };
    assert_eq!(older.with(u64::MAX, |g| g.standing()).unwrap(), Standing::Up, "the same number");
    let named = older.with(u64::MAX, |g| g.named_generation()).unwrap();
    assert!(named > GENERATION, "{named}");
}

/// A move was cut short before home was written. Later, home gets the guard of another area, or the
/// area under another name puts up its own.
#[test]
fn a_move_that_was_cut_short_does_not_hide_the_guard_of_a_newer_area() {
    let mut half = World::new(&mut Dice::new(37));
    assert!(half.put_up(3).is_err());
    half.flush();
    let standing = half.with(u64::MAX, |g| g.standing()).unwrap();
    assert_eq!(standing, Standing::Between { lacking: false });
    for (uuid, words) in [(AreaId([1; 16]), "another area"), (UUID, "an older copy")] {
        let mut half = half.clone();
        let guard = GuardPage::all(uuid, 9, Label::new("/moved"), GENERATION + 5);
        half.with(u64::MAX, |g| g.write_home(&guard)).unwrap();
        assert!(said(&mut half).contains(words), "{}", said(&mut half));
        assert!(half.with(u64::MAX, |g| g.settle()).is_err());
        unmended(&mut half);
    }
}

/// A repair of a file system writes its superblock behind the first sector.
#[test]
fn the_first_sector_of_a_guard_is_enough_to_tell_an_older_copy() {
    let mut world = up(&mut Dice::new(41));
    let named = |world: &mut World| world.with(u64::MAX, |g| g.named_generation()).unwrap();
    for sector in 1..PAGE_BYTES / SECTOR_BYTES {
        world.home.flushed.insert(sector, [0xEF; SECTOR].into());
    }
    assert_eq!(named(&mut world), GENERATION);
    // Each byte of it counts, those without a meaning too.
    for at in (0..SECTOR).step_by(5) {
        let mut rotten = world.clone();
        rot(&mut rotten.home, 0, at);
        assert_eq!(named(&mut rotten), 0, "{at}");
    }
    // The guard of another area.
    let other = GuardPage::all(AreaId([1; 16]), 1, Label::new("/other"), GENERATION);
    world.home.flushed.insert(0, Rc::from(&other[..SECTOR]));
    assert_eq!(named(&mut world), 0);
}
