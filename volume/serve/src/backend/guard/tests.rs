//! Power cuts and kills at every write and flush of a guard's moves and repairs. Each unflushed
//! sector is on the medium or not, independent of the others.
#![allow(
    clippy::redundant_closure_for_method_calls,
    reason = "the method itself has one lifetime too few"
)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use seekless_block::Dice;

use super::*;

const UUID: AreaId = AreaId([0xA7; 16]);
const GENERATION: u64 = 12;
/// Not whole pages, so that the last end begins inside one.
const HOME: u64 = HOME_MIN + 24 + 3;

type Sectors512 = BTreeMap<u64, Rc<[u8]>>;

/// A device with a volatile cache, and power for a number of operations.
#[derive(Clone, Default)]
struct Medium {
    capacity: u64,
    flushed: Sectors512,
    cached: Sectors512,
}

impl Medium {
    fn get(&self, sector: u64) -> &[u8] {
        let held = self.cached.get(&sector).or_else(|| self.flushed.get(&sector));
        held.map_or(&[0; SECTOR], |held| held)
    }

    fn all(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.capacity as usize * SECTOR);
        (0..self.capacity).for_each(|s| bytes.extend_from_slice(self.get(s)));
        bytes
    }

    /// State after a power cut: any part of the cache is lost.
    fn lose(&mut self, dice: &mut Dice, keep: u64) {
        for (sector, bytes) in std::mem::take(&mut self.cached) {
            if dice.draw() % 100 < keep {
                self.flushed.insert(sector, bytes);
            }
        }
    }
}

#[derive(Clone)]
struct Disk {
    medium: Rc<RefCell<Medium>>,
    power: Rc<RefCell<u64>>,
}

impl Disk {
    fn spend(&self) -> Result<(), DeviceError> {
        let mut power = self.power.borrow_mut();
        if *power == 0 {
            let source = std::io::Error::other("the power failed");
            return Err(DeviceError::Io { op: "anything", extent: Extent::default(), source });
        }
        *power -= 1;
        Ok(())
    }
}

impl Device for Disk {
    fn capacity(&self) -> Sectors {
        Sectors(self.medium.borrow().capacity)
    }
    fn read(&mut self, extent: Extent, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check(extent, buf.len())?;
        for (i, to) in buf.chunks_mut(SECTOR).enumerate() {
            to.copy_from_slice(self.medium.borrow().get(extent.start.0 + i as u64));
        }
        Ok(())
    }
    fn write(&mut self, extent: Extent, buf: &[u8]) -> Result<(), DeviceError> {
        self.check(extent, buf.len())?;
        let failed = self.spend();
        // A write at the power cut has reached the cache.
        for (i, from) in buf.chunks(SECTOR).enumerate() {
            self.medium.borrow_mut().cached.insert(extent.start.0 + i as u64, from.into());
        }
        failed
    }
    fn flush(&mut self) -> Result<(), DeviceError> {
        self.spend()?;
        let mut medium = self.medium.borrow_mut();
        let mut cached = std::mem::take(&mut medium.cached);
        medium.flushed.append(&mut cached);
        Ok(())
    }
}

/// A home and a region, and home as clients must see it.
#[derive(Clone)]
struct World {
    home: Medium,
    region: Medium,
    seen: Vec<u8>,
}

impl World {
    fn new(dice: &mut Dice) -> Self {
        let mut home = Medium { capacity: HOME, ..Medium::default() };
        for sector in 0..HOME {
            // Some are zeroes, as on any disk.
            if !dice.draw().is_multiple_of(4) {
                let byte = dice.draw();
                home.flushed.insert(sector, (0..SECTOR as u64).map(|i| (byte + i) as u8).collect());
            }
        }
        let seen = home.all();
        let mut world =
            Self { home, region: Medium { capacity: REGION, ..Medium::default() }, seen };
        world.with(u64::MAX, |g| make(g.region, UUID, Sectors(HOME))).unwrap();
        world
    }

    /// Runs with power for this number of operations. Returns the operations left.
    fn powered<T, E>(
        &mut self,
        power: u64,
        f: impl FnOnce(&mut Guard<'_>) -> Result<T, E>,
    ) -> (Result<T, E>, u64) {
        let power = Rc::new(RefCell::new(power));
        let disk = |medium: &Medium| Disk {
            medium: Rc::new(RefCell::new(medium.clone())),
            power: Rc::clone(&power),
        };
        let (mut home, mut region) = (disk(&self.home), disk(&self.region));
        let (ours, theirs) = (Rc::clone(&home.medium), Rc::clone(&region.medium));
        let result = f(&mut Guard {
            home: &mut home,
            region: &mut region,
            uuid: UUID,
            capacity: Sectors(HOME),
            area_generation: GENERATION,
        });
        self.home = ours.borrow().clone();
        self.region = theirs.borrow().clone();
        let left = *power.borrow();
        (result, left)
    }

    fn with<T, E>(
        &mut self,
        power: u64,
        f: impl FnOnce(&mut Guard<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.powered(power, f).0
    }

    fn put_up(&mut self, power: u64) -> Result<(), HalfUp> {
        self.with(power, |g| g.put_up(Label::new("/the/area")))
    }

    fn take_down(&mut self, power: u64) -> Result<(), GuardError> {
        self.with(power, |g| g.take_down())
    }

    /// A client's write to a sector of home, wherever it is.
    fn write(&mut self, sector: u64, byte: u8, up: bool) {
        let bytes: Rc<[u8]> = [byte; SECTOR].into();
        self.seen[sector as usize * SECTOR..][..SECTOR].copy_from_slice(&bytes);
        let last = HOME - EDGE;
        let page = PAGE_BYTES / SECTOR_BYTES;
        let in_region = match sector {
            s if up && s < EDGE => Some(s),
            s if up && s >= last => Some(EDGE + s - last),
            _ => None,
        };
        if let Some(at) = in_region {
            self.with(u64::MAX, |g| open_pages(g.region, 1 << (at / page))).unwrap();
        }
        match sector {
            s if up && s < EDGE => self.region.cached.insert(page + s, bytes),
            s if up && s >= last => self.region.cached.insert(page + EDGE + s - last, bytes),
            s => self.home.cached.insert(s, bytes),
        };
    }

    fn flush(&mut self) {
        for medium in [&mut self.home, &mut self.region] {
            let mut cached = std::mem::take(&mut medium.cached);
            medium.flushed.append(&mut cached);
        }
    }

    /// Home as clients see it.
    fn view(&self, up: bool) -> Vec<u8> {
        let mut bytes = self.home.all();
        if up {
            let region = self.region.all();
            let region = &region[PAGE_BYTES as usize..];
            bytes[..EDGE_BYTES].copy_from_slice(&region[..EDGE_BYTES]);
            let last = (HOME - EDGE) as usize * SECTOR;
            bytes[last..].copy_from_slice(&region[EDGE_BYTES..]);
        }
        bytes
    }

    /// True if bare home shows any bytes of its former ends.
    fn shows(&self) -> bool {
        let home = self.home.all();
        let ends = [&home[..EDGE_BYTES], &home[home.len() - EDGE_BYTES..]];
        ends.iter()
            .any(|e| e.chunks(SECTOR).any(|s| s.iter().filter(|b| b.is_ascii()).count() < 400))
    }

    /// State after a stop: a kill keeps everything, a power cut any part.
    fn stopped(&self, dice: &mut Dice, how: u64) -> Self {
        let mut left = self.clone();
        match how {
            0 => {}
            1 => [&mut left.home, &mut left.region].into_iter().for_each(|m| m.lose(dice, 0)),
            _ => {
                let keep = [25, 50, 75, 90][how as usize % 4];
                [&mut left.home, &mut left.region].into_iter().for_each(|m| m.lose(dice, keep));
            }
        }
        left
    }

    /// After another attach, stopped at any moment too, each sector of home is as it was seen, or
    /// as before if it was never flushed.
    fn recovers(&self, lost: &[u8], dice: &mut Dice, states: &mut u64) {
        for power in 0.. {
            let mut world = self.clone();
            let (settled, left) = world.powered(power, |g| g.settle());
            for how in 0..3 {
                let mut again = world.stopped(dice, how);
                *states += 1;
                let standing = again.with(u64::MAX, |g| g.settle()).unwrap();
                assert!(matches!(standing, Standing::Up | Standing::Down), "{standing:?}");
                let up = standing == Standing::Up;
                let view = again.view(up);
                is_either(&view, &self.seen, lost);
                assert!(!up || !again.shows(), "up, and it shows");
                if up {
                    // The client's next writes may be lost at another stop; everything else stays.
                    let mut served = again.clone();
                    (0..40).for_each(|sector| served.write(sector, 0x55, true));
                    let mut served = served.stopped(dice, 2);
                    let standing = served.with(u64::MAX, |g| g.settle()).unwrap();
                    assert_eq!(standing, Standing::Up);
                    // In the middle of home, a write that nobody flushed may be lost once more.
                    let (after, last) = (served.view(true), (HOME - EDGE) as usize * SECTOR);
                    assert!(after[40 * SECTOR..EDGE_BYTES] == view[40 * SECTOR..EDGE_BYTES]);
                    assert!(after[last..] == view[last..]);
                }
                // From any state the guard can be moved durably.
                if up {
                    again.take_down(u64::MAX).unwrap();
                } else {
                    again.put_up(u64::MAX).unwrap();
                }
                assert!(again.stopped(dice, 1).view(!up) == view, "moved, other bytes");
            }
            if settled.is_ok() && left > 0 {
                return;
            }
        }
    }
}

/// Each sector equals one or the other.
fn is_either(found: &[u8], one: &[u8], other: &[u8]) {
    let sectors = found.chunks(SECTOR).zip(one.chunks(SECTOR)).zip(other.chunks(SECTOR));
    for (at, ((found, one), other)) in sectors.enumerate() {
        assert!(found == one || found == other, "sector {at} is neither");
    }
}

mod repairs;

#[test]
fn a_crash_at_any_moment_leaves_home_as_it_was_or_what_makes_it_so() {
    let mut dice = Dice::new(7);
    let mut states = 0;
    for start_up in [false, true] {
        let mut before = World::new(&mut dice);
        if start_up {
            before.put_up(u64::MAX).unwrap();
            before.write(0, 1, true);
            before.flush();
        }
        // Written, seen, and not flushed; a move makes it durable.
        before.write(3, 9, start_up);
        before.write(HOME - 1, 8, start_up);
        before.write(EDGE, 7, start_up);
        let lost = before.stopped(&mut Dice::new(0), 1).view(start_up);
        for power in 0.. {
            let mut world = before.clone();
            let done =
                if start_up { world.take_down(power).is_ok() } else { world.put_up(power).is_ok() };
            for how in 0..5 {
                let mut left = world.stopped(&mut dice, how);
                let standing = left.with(u64::MAX, |g| g.standing()).unwrap();
                is_either(&left.view(standing.is_in_region()), &before.seen, &lost);
                left.recovers(&lost, &mut dice, &mut states);
            }
            if done {
                assert_eq!(world.shows(), start_up);
                break;
            }
        }
    }
    assert!(states > 500, "{states}");
}

/// Nobody could read the next header.
#[test]
fn a_guard_whose_count_ends_does_not_go_up() {
    let mut world = World::new(&mut Dice::new(5));
    let header = header_down(UUID, Sectors(HOME));
    let last = GuardHeader { generation: u64::MAX >> 1, ..header };
    world.with(u64::MAX, |g| write_header(g.region, &last)).unwrap();
    let before = (world.home.all(), world.region.all());
    let refused = world.put_up(u64::MAX).unwrap_err();
    assert!(!refused.touched && refused.error.to_string().contains("counts"), "{refused:?}");
    assert!(before == (world.home.all(), world.region.all()), "it was changed");
}

#[test]
fn a_guard_goes_up_and_down_and_clients_see_no_difference() {
    let mut dice = Dice::new(3);
    let mut world = World::new(&mut dice);
    for round in 0..3u8 {
        world.put_up(u64::MAX).unwrap();
        assert!(!world.shows() && world.view(true) == world.seen);
        assert_eq!(
            seekless_host::signature::marks(&world.home.all()),
            Some("an area or a locator of seekless")
        );
        // A second time changes nothing.
        assert!(world.put_up(u64::MAX).is_err());
        for sector in [0, 2, EDGE - 1, EDGE, HOME - EDGE - 1, HOME - EDGE, HOME - 1] {
            world.write(sector, round, true);
        }
        world.take_down(u64::MAX).unwrap();
        assert!(world.view(false) == world.seen, "round {round}");
        world.take_down(u64::MAX).unwrap();
    }
}

fn rot(medium: &mut Medium, sector: u64, at: usize) {
    let mut bytes = medium.get(sector).to_vec();
    bytes[at] ^= 1;
    medium.flushed.insert(sector, bytes.into());
}

fn said(world: &mut World) -> String {
    world.with(u64::MAX, |g| g.standing()).unwrap_err().to_string()
}

/// No repair may begin: the area would be changed before the guard is refused.
fn unmended(world: &mut World) {
    let before = world.clone();
    for lose in [false, true] {
        assert!(world.with(u64::MAX, |g| g.repair(lose)).is_err(), "{lose}");
        assert!(world.home.all() == before.home.all(), "{lose}");
        assert!(world.region.all() == before.region.all(), "{lose}");
    }
}

#[test]
fn what_does_not_fit_together_is_refused_and_mended_only_as_far_as_is_said() {
    let mut dice = Dice::new(5);
    let mut up = World::new(&mut dice);
    let old = up.region.clone();
    up.put_up(u64::MAX).unwrap();
    up.write(0, 1, true);
    up.flush();

    // Another disk.
    let mut other = World { region: up.region.clone(), ..World::new(&mut dice) };
    assert!(said(&mut other).contains("another disk"), "{}", said(&mut other));
    // An older copy of the area.
    let mut older = World { region: old, ..up.clone() };
    assert!(said(&mut older).contains("an older copy"), "{}", said(&mut older));
    unmended(&mut older);
    // Nor does an older copy from an earlier guard.
    let mut again = up.clone();
    again.take_down(u64::MAX).unwrap();
    again.put_up(u64::MAX).unwrap();
    let mut earlier = World { region: up.region.clone(), ..again };
    assert!(said(&mut earlier).contains("an older copy"), "{}", said(&mut earlier));
    unmended(&mut earlier);
    // Home from before the guard, written without seekless since: home is valid.
    let mut half = World::new(&mut dice);
    assert!(half.put_up(3).is_err());
    half.flush();
    half.write(0, 0xAB, false);
    half.flush();
    let standing = half.with(u64::MAX, |g| g.standing()).unwrap();
    assert_eq!(standing, Standing::Between { lacking: false });
    assert_eq!(half.with(u64::MAX, |g| g.settle()).unwrap(), Standing::Down);
    assert!(half.view(false) == half.seen);
    // The guard of another area.
    let mut stranger = World::new(&mut dice);
    stranger.home = up.home.clone();
    stranger.with(u64::MAX, |g| make(g.region, AreaId([1; 16]), g.capacity)).unwrap();
    let why = stranger.with(u64::MAX, |g| {
        g.uuid = AreaId([1; 16]);
        g.standing()
    });
    assert!(why.unwrap_err().to_string().contains("another area"));
    for lose in [false, true] {
        let repaired = stranger.with(u64::MAX, |g| {
            g.uuid = AreaId([1; 16]);
            g.repair(lose)
        });
        assert!(repaired.is_err(), "{lose}");
    }
    // A program wrote over it, like a repair of the file system.
    let mut over = up.clone();
    over.home.flushed.insert(2, [0xEF; SECTOR].into());
    assert!(said(&mut over).contains("over the guard"), "{}", said(&mut over));
    let before = over.clone();
    let fault = over.with(u64::MAX, |g| g.repair(false)).unwrap().unwrap();
    assert!(fault.loses && over.home.all() == before.home.all());
    over.with(u64::MAX, |g| g.repair(true)).unwrap().unwrap();
    assert_eq!(over.with(u64::MAX, |g| g.standing()).unwrap(), Standing::Up);
    assert!(over.view(true) == over.seen);
    // Damage to the header in each of its states, or to the region.
    for state in [Standing::Down, Standing::Up] {
        let mut rotten = up.clone();
        if state == Standing::Down {
            rotten.take_down(u64::MAX).unwrap();
        }
        for wipe in [false, true] {
            let mut rotten = rotten.clone();
            rot(&mut rotten.region, 0, if wipe { 0 } else { 40 });
            if !wipe || state == Standing::Up {
                assert!(said(&mut rotten).contains("repair"), "{}", said(&mut rotten));
                let fault = rotten.with(u64::MAX, |g| g.repair(false)).unwrap().unwrap();
                assert!(!fault.loses);
                assert_eq!(fault.unproven, state == Standing::Up);
                assert_eq!(rotten.with(u64::MAX, |g| g.standing()).unwrap(), state);
                assert!(rotten.view(state == Standing::Up) == rotten.seen);
            }
        }
    }
    let mut half = up.clone();
    // The region has all checksums: the first write of a move is its own.
    half.with(u64::MAX, |g| g.settle()).unwrap();
    assert!(half.take_down(3).is_err());
    half.flush();
    rot(&mut half.region, PAGE_BYTES / SECTOR_BYTES, 7);
    assert!(said(&mut half).contains("damaged"), "{}", said(&mut half));
    // An area without space for a guard.
    let mut none = World::new(&mut dice);
    none.region = Medium::default();
    assert_eq!(none.with(u64::MAX, |g| g.standing()).unwrap(), Standing::Nowhere);
    let mut cut = World { region: Medium::default(), ..up };
    assert!(said(&mut cut).contains("extend it"), "{}", said(&mut cut));
}

/// The file of an area was cut, and extended again.
#[test]
fn a_region_of_zeroes_is_not_taken_for_the_ends_of_a_disk() {
    let mut dice = Dice::new(17);
    let mut world = World::new(&mut dice);
    world.put_up(u64::MAX).unwrap();
    world.flush();
    let header = world.region.get(0).to_vec();
    // Cut before the header, and within it.
    for kept in [0, 40] {
        let mut world = world.clone();
        world.region = Medium { capacity: REGION, ..Medium::default() };
        let mut first = vec![0; SECTOR];
        first[..kept].copy_from_slice(&header[..kept]);
        world.region.flushed.insert(0, first.into());
        assert!(said(&mut world).contains("was cut"), "{kept}: {}", said(&mut world));
        let before = world.clone();
        let fault = world.with(u64::MAX, |g| g.repair(false)).unwrap().unwrap();
        assert!(fault.loses && world.region.all() == before.region.all(), "zeroes are no ends");
        world.with(u64::MAX, |g| g.repair(true)).unwrap().unwrap();
        assert_eq!(world.with(u64::MAX, |g| g.standing()).unwrap(), Standing::Up);
    }
}

/// While the guard is up, the region alone has home's ends.
#[test]
fn a_flipped_bit_in_the_region_is_not_taken_for_data() {
    let mut dice = Dice::new(11);
    let mut world = World::new(&mut dice);
    world.put_up(u64::MAX).unwrap();
    let page = PAGE_BYTES / SECTOR_BYTES;
    for number in [0, 31, 32, 63] {
        let mut rotten = world.clone();
        rot(&mut rotten.region, page * (1 + number) + 3, 100);
        let why = format!("page {} of the guard region", number + 1);
        assert!(said(&mut rotten).contains(&why), "{}", said(&mut rotten));
        assert!(rotten.take_down(u64::MAX).is_err(), "page {number} goes home");
        assert!(rotten.with(u64::MAX, |g| g.settle()).is_err());
        let fault = rotten.with(u64::MAX, |g| g.repair(false)).unwrap().unwrap();
        assert!(fault.loses && said(&mut rotten).contains(&why));
        rotten.with(u64::MAX, |g| g.repair(true)).unwrap().unwrap();
        assert_eq!(rotten.with(u64::MAX, |g| g.settle()).unwrap(), Standing::Up);
    }
    // A page that is being written has none until a stop in order or the next attach.
    world.write(page + 1, 5, true);
    let mut killed = world.clone();
    killed.write(page + 2, 6, true);
    assert_eq!(killed.with(u64::MAX, |g| g.standing()).unwrap(), Standing::Up);
    world.with(u64::MAX, |g| sum_pages(g.region)).unwrap();
    let mut rotten = world.clone();
    rot(&mut rotten.region, page * 2 + 5, 9);
    assert!(said(&mut rotten).contains("page 2 of the guard region"), "{}", said(&mut rotten));
    assert!(world.view(true) == world.seen);
}

/// The first sector of the guard names the area's generation: it is the old one or the new one.
#[test]
fn a_guard_names_the_generation_of_its_area_after_a_crash_too() {
    let mut dice = Dice::new(13);
    let mut world = World::new(&mut dice);
    world.put_up(u64::MAX).unwrap();
    let named = |world: &mut World| world.with(u64::MAX, |g| g.named_generation()).unwrap();
    assert_eq!(named(&mut world), GENERATION);
    for power in 0..3 {
        let mut cut = world.clone();
        let done = cut.with(power, |g| {
            g.area_generation = GENERATION + 5;
            g.name_generation()
        });
        for how in 0..5 {
            let mut left = cut.stopped(&mut dice, how);
            assert_eq!(left.with(u64::MAX, |g| g.standing()).unwrap(), Standing::Up);
            let found = named(&mut left);
            assert!(found == GENERATION + 5 || done.is_err() && found == GENERATION, "{found}");
        }
        assert_eq!(done.is_ok(), power == 2);
    }
}

/// Guards of older versions are taken as they are. The next attach names its generation in the
/// first page, as the present version writes the page; the others stay.
#[test]
fn a_guard_of_an_older_version_is_taken_over() {
    for version in OLDEST..VERSION {
        let mut dice = Dice::new(17 + u64::from(version));
        let mut world = World::new(&mut dice);
        world.put_up(u64::MAX).unwrap();
        let header = world.with(u64::MAX, |g| g.good_header()).unwrap();
        let (generation, place) = (header.generation, header.place);
        let old = GuardPage::all_of_version(version, UUID, generation, place, GENERATION);
        world
            .with(u64::MAX, |g| g.write_home(&old).map(|()| open_pages(g.region, u64::MAX)))
            .unwrap()
            .unwrap();
        let named = if version == 2 { 0 } else { GENERATION };
        assert_eq!(world.with(u64::MAX, |g| g.named_generation()).unwrap(), named);
        assert_eq!(world.with(u64::MAX, |g| g.settle()).unwrap(), Standing::Up, "{version}");
        assert_eq!(world.with(u64::MAX, |g| g.sums()).unwrap().0, u64::MAX);
        world.with(u64::MAX, |g| g.name_generation()).unwrap();
        assert_eq!(world.with(u64::MAX, |g| g.standing()).unwrap(), Standing::Up, "{version}");
        assert_eq!(world.with(u64::MAX, |g| g.named_generation()).unwrap(), GENERATION);
        world.take_down(u64::MAX).unwrap();
        assert!(world.view(false) == world.seen);
    }
}
