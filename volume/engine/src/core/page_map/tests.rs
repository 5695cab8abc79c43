//! The map against a naive twin, its searches and its size.

use std::collections::BTreeMap;

use super::*;
use proptest::prelude::*;
use seekless_block::Dice;

#[derive(Clone, Debug)]
enum MapStep {
    Set(u32, u64, CopyState, PageSum),
    Add(u32, u64, CopyState, PageSum),
    State(u32, CopyState),
    Clear(u32),
}

fn held() -> impl Strategy<Value = CopyState> {
    prop_oneof![Just(CopyState::Suspect), Just(CopyState::Clean), Just(CopyState::Dirty)]
}

/// Runs are likely: home mostly follows the slot.
fn home() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0u64..40, 1 => HOME_PAGES_MAX - 10..HOME_PAGES_MAX]
}

fn step(slots: u32) -> impl Strategy<Value = MapStep> {
    prop_oneof![
        4 => (0..slots, home(), held(), 0..1u64 << 48).prop_map(|(s, h, t, c)| MapStep::Set(s, h, t, c)),
        4 => (0..slots, held(), 0..1u64 << 48).prop_map(|(s, t, c)| MapStep::Set(s, u64::from(s) + 3, t, c)),
        4 => (0..slots, held(), 0..1u64 << 48).prop_map(|(s, t, c)| MapStep::Add(s, u64::from(s % 12) + 3, t, c)),
        1 => (0..slots, held()).prop_map(|(s, t)| MapStep::State(s, t)),
        2 => (0..slots).prop_map(MapStep::Clear),
    ]
}

type Twin = BTreeMap<u32, (u64, CopyState, PageSum)>;

fn twin_find(twin: &Twin, home: u64) -> Vec<u32> {
    twin.iter().filter(|(_, held)| held.0 == home).map(|(&slot, _)| slot).collect()
}

fn twin_runs(twin: &Twin, home: u64, pages: u32) -> Vec<u32> {
    let whole = |first: &u32| {
        (0..pages).all(|i| {
            twin.get(&(first + i)).is_some_and(|&(h, state, _)| {
                h == home + u64::from(i) && matches!(state, CopyState::Clean | CopyState::Dirty)
            })
        })
    };
    twin_find(twin, home).into_iter().filter(whole).collect()
}

fn sorted(slots: impl Iterator<Item = Slot>) -> Vec<u32> {
    let mut slots: Vec<u32> = slots.map(|s| s.0).collect();
    slots.sort_unstable();
    slots
}

proptest! {
    #[test]
    fn the_map_is_a_list_of_slots((slots, steps) in (1u32..34).prop_flat_map(|slots|
                                  (Just(slots), prop::collection::vec(step(slots), 1..120))),
                                  bits in 0u32..=6) {
        let mut map = PageMap::new(slots);
        // As in a large map, where slots leave few bits for the distance, or none.
        if bits <= DISTANCE_BITS {
            (map.slot_bits, map.distance_bits) = (32 - bits, bits);
        }
        let mut twin = Twin::new();
        for step in steps {
            match step {
                MapStep::Set(slot, home, state, sum) => {
                    map.set(Slot(slot), HomePage(home), state, sum);
                    twin.retain(|_, held| held.0 != home);
                    twin.insert(slot, (home, state, sum));
                }
                MapStep::Add(slot, home, state, sum) => {
                    map.add(Slot(slot), HomePage(home), state, sum);
                    twin.insert(slot, (home, state, sum));
                }
                MapStep::State(slot, state) => if let Some(held) = twin.get_mut(&slot) {
                    map.set_state(Slot(slot), state);
                    held.1 = state;
                },
                MapStep::Clear(slot) => {
                    map.clear(Slot(slot));
                    twin.remove(&slot);
                }
            }
            for slot in 0..slots {
                let held = twin.get(&slot);
                prop_assert_eq!(map.home(Slot(slot)), held.map(|h| HomePage(h.0)));
                prop_assert_eq!(map.state(Slot(slot)), held.map_or(CopyState::Free, |h| h.1));
                prop_assert!(held.is_none_or(|h| map.sum(Slot(slot)) == h.2));
            }
            for home in (0..44).chain(HOME_PAGES_MAX - 12..HOME_PAGES_MAX + 2) {
                prop_assert_eq!(sorted(map.find_all(HomePage(home))), twin_find(&twin, home));
                prop_assert_eq!(map.find(HomePage(home)), map.find_all(HomePage(home)).next());
                for pages in 1..5 {
                    prop_assert_eq!(sorted(map.runs(HomePage(home), pages)), twin_runs(&twin, home, pages));
                }
            }
            prop_assert_eq!(map.len(), twin.len() as u64);
            for state in CopyState::ALL {
                let counted = (0..slots).filter(|&s| map.state(Slot(s)) == state).count() as u64;
                prop_assert_eq!(map.count(state), counted);
            }
        }
    }
}

/// Full of single pages, `stride` apart. Deterministic.
fn full(slots: u32, stride: u64) -> PageMap {
    let mut map = PageMap::new(slots);
    for slot in 0..slots {
        let home = HomePage(u64::from(slot) * stride % HOME_PAGES_MAX);
        map.set(Slot(slot), home, CopyState::Clean, slot.into());
    }
    map
}

#[test]
fn a_full_map_of_single_pages_takes_a_quarter_of_a_percent_of_the_area() {
    for slots in [1_000u32, 4_095, 4_096, 65_537, 300_000] {
        let map = full(slots, 977);
        assert_eq!(map.len(), u64::from(slots));
        let without_sums = map.bytes() - 6 * u64::from(slots);
        assert!(without_sums <= u64::from(slots) * 4096 / 400, "{slots} slots: {without_sums}");
        assert_eq!(map.bytes(), PageMap::new(slots).bytes(), "nothing was allocated meanwhile");
        assert_eq!(map.find(HomePage(HOME_PAGES_MAX - 1)), None, "a search of a full map ends");
    }
}

/// Knuth (6.4): linear probing at a load of 0.8 looks at 3 entries where it finds, on average.
#[test]
fn a_full_map_finds_in_three_looks_whatever_the_homes() {
    for stride in [1, 8, 255, 256, 4096, 1 << 18, 1 << 20] {
        let map = full(50_000, stride);
        let looks: usize = (0..50_000)
            .map(|slot| {
                let slot = Slot(slot);
                let home = map.home(slot).unwrap();
                let (at, start) = (map.search(slot, home), map.start(mix(home)));
                1 + (at + map.table.len() - start) % map.table.len()
            })
            .sum();
        let mean = looks as f64 / 50_000.0;
        assert!((2.0..3.5).contains(&mean), "stride {stride}: {mean} looks");
    }
}

/// Asserts that each entry notes its real distance, as far as its bits can tell, that the entries
/// are in Robin Hood order, and that a search finds each slot that holds a page.
fn assert_in_order(map: &PageMap, when: &str) {
    let size = map.table.len();
    let real = |at: usize| {
        let entry = map.table[at];
        let home = (entry != EMPTY).then(|| map.home(map.slot_of(entry)).unwrap());
        home.map(|home| (at + size - map.start(mix(home))) % size)
    };
    for at in 0..size {
        let Some(distance) = real(at) else { continue };
        assert_eq!(map.noted(map.table[at]), distance.min(map.farthest()), "{when}, place {at}");
        let before = real((at + size - 1) % size);
        assert!(
            distance == 0 || before.is_some_and(|before| before + 1 >= distance),
            "{when}, place {at}: {distance} from its start, behind {before:?}"
        );
    }
    let entries = map.table.iter().filter(|&&entry| entry != EMPTY).count();
    assert_eq!(entries as u64, map.len(), "{when}");
    for slot in slots(0..map.homes.len() as u32) {
        if let Some(home) = map.home(slot) {
            assert!(map.find_all(home).any(|found| found == slot), "{when}: {slot:?} is not found");
        }
    }
}

/// At a load of 0.8. Three pages are in some hundred slots each, so that distances are longer than
/// any number of bits can tell.
#[test]
fn a_full_map_that_changes_keeps_its_entries_in_order() {
    const SLOTS: u32 = 4_000;
    for bits in 0..=DISTANCE_BITS {
        let mut map = PageMap::new(SLOTS);
        // As in a large map, where slots leave few bits for the distance, or none.
        (map.slot_bits, map.distance_bits) = (32 - bits, bits);
        for slot in slots(0..SLOTS) {
            map.set(slot, HomePage(u64::from(slot.0) * 977), CopyState::Clean, 0);
        }
        let mut dice = Dice::new(bits.into());
        for step in 1..=20_000 {
            let [cleared, changed] = [(); 2].map(|()| Slot(dice.below(SLOTS.into()) as u32));
            map.clear(cleared);
            for slot in [changed, cleared] {
                let pages = if dice.below(8) == 0 { 3 } else { 1 << 20 };
                map.add(slot, HomePage(dice.below(pages)), CopyState::Clean, 0);
            }
            if step % 4_000 == 0 {
                assert_in_order(&map, &format!("{bits} bits, which are the seed, step {step}"));
            }
        }
        assert_eq!(map.len(), u64::from(SLOTS), "{bits} bits");
    }
}

#[test]
fn maps_of_no_slot_and_of_one_work() {
    let none = PageMap::new(0);
    assert_eq!(
        (none.find(HomePage(7)), none.runs(HomePage(7), 1).next(), none.len()),
        (None, None, 0)
    );
    let mut one = PageMap::new(1);
    let (only, seven, eight) = (Slot(0), HomePage(7), HomePage(8));
    one.set(only, seven, CopyState::Dirty, 1);
    one.set(only, eight, CopyState::Clean, 2);
    assert_eq!((one.find(seven), one.find(eight), one.sum(only)), (None, Some(only), 2));
    let run = |pages| one.runs(eight, pages).next();
    assert_eq!((run(1), run(2), run(u32::MAX)), (Some(only), None, None));
    one.clear(only);
    assert_eq!((one.find(eight), one.count(CopyState::Free)), (None, 1));
}

#[test]
#[should_panic(expected = "cannot become Clean from Free")]
fn a_free_slot_has_no_state_to_change() {
    PageMap::new(2).set_state(Slot(1), CopyState::Clean);
}
