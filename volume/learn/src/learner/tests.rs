//! The learner against a graph, an age and a plan made by hand; its memory; and when it plans.

use proptest::prelude::*;
use seekless_block::Op;

use super::*;
use crate::{ACCESS, DAY, Training};

fn shape(replicas: u64) -> VolumeShape {
    VolumeShape {
        capacity: Sectors(1 << 20),
        room: Sectors(1000),
        replicas: Sectors(replicas),
        ..VolumeShape::default()
    }
}

fn learner(policy: &str) -> Learner {
    Learner::new(policy.parse().unwrap(), shape(0))
}

fn remembering(policy: &str) -> Learner {
    let mut learner = learner(policy);
    learner.recall(None).unwrap();
    learner
}

fn read(start: u64) -> Request {
    Request::new(SimTime(0), Op::Read, Extent::new(start, 8))
}

const NOWHERE: VolumeState<'static> =
    VolumeState { plan: &Plan { copies: Vec::new() }, replicas: None };

fn at(days: u64) -> SimTime {
    SimTime(days * DAY.0)
}

fn installed(acts: &[Act]) -> &Plan {
    match acts {
        [Act::Install(plan), ..] => plan,
        other => panic!("{other:?}"),
    }
}

/// Space of a volume of which nothing has a replica.
struct Space {
    blocked: bool,
    free: Vec<Extent>,
}

impl ReplicaSpace for Space {
    fn progress(&self) -> ReplicaProgress {
        ReplicaProgress { blocked: self.blocked, ..ReplicaProgress::default() }
    }

    fn free(&self) -> Vec<Extent> {
        self.free.clone()
    }

    fn is_placed(&self, _: Lba, _: Extent) -> bool {
        false
    }
}

proptest! {
    /// A graph that is aged and planned from by hand, a day at a time.
    #[test]
    fn it_does_what_the_paper_does_by_hand(
        requests in prop::collection::vec((0u64..3, 0u64..60, 0u32..3), 1..200),
        training in prop::sample::select(Training::ALL.to_vec()),
        plans in prop::collection::vec(any::<bool>(), 200),
        one in any::<bool>(),
    ) {
        let streams = if one { ":streams=one" } else { "" };
        let mut ours = learner(&format!("borg:planning=anew:training={training}{streams}"));
        let pages = Pages::new(Sectors(0), Sectors(1 << 20));
        let mut graph = AccessGraph::new(pages, Bytes(0), EDGES_MAX);
        let mut day = 0;
        for ((days, place, stream), plans) in requests.into_iter().zip(plans) {
            for _ in 0..days {
                training.day_ended(&mut graph);
            }
            day += days;
            let request = Request { stream: StreamId(stream), ..read(place * 8) };
            ours.observe(at(day), &request);
            let stream = if one { 0 } else { stream };
            graph.observe(&Request { stream: StreamId(stream), ..request });
            prop_assert_eq!(ours.accesses().unwrap().snapshot(), graph.snapshot());
            if plans {
                let expected = crate::plan(&graph, &ours.plan_config());
                let acts = ours.plan(at(day), &NOWHERE);
                prop_assert_eq!(installed(&acts), &expected);
                training.planned(&mut graph);
            }
        }
    }

    /// A learner that is saved and begun again goes on as if it had never ended, but for streams.
    #[test]
    fn a_memory_goes_on_with_its_day(
        before in prop::collection::vec(0u64..40, 1..60),
        after in prop::collection::vec(0u64..40, 1..60),
        hours in 0u64..80,
    ) {
        let policy = "borg:training=decaying";
        let ended = SimTime(hours * DAY.0 / 24);
        let fresh = || remembering(policy);
        let mut whole = fresh();
        let mut first = fresh();
        for place in before {
            whole.observe(SimTime(0), &read(place * 8));
            first.observe(SimTime(0), &read(place * 8));
        }
        first.age(ended);
        let bytes = first.save(ended).unwrap();
        prop_assert_eq!(first.save(ended), None, "nothing has changed");
        let known = AccessGraph::decode(&bytes, Bytes(0), EDGES_MAX).unwrap();
        let mut again = learner(policy);
        again.recall(Some(known)).unwrap();
        for place in after {
            // Each its own stream: a stream's last request is not saved.
            let request = Request { stream: StreamId(u32::try_from(place).unwrap() + 9), ..read(place * 8) };
            whole.observe(ended + DAY, &request);
            again.observe(SimTime(0) + DAY, &request);
        }
        let counts = |l: &Learner| {
            l.accesses().unwrap().snapshot().0.iter().map(|v| (v.extent, v.reads)).collect::<Vec<_>>()
        };
        prop_assert_eq!(counts(&again), counts(&whole));
    }
}

#[test]
fn a_memory_of_another_volume_is_not_used() {
    let shape = VolumeShape { grid: Sectors(3), ..shape(0) };
    let mut other = Learner::new("borg".parse().unwrap(), shape);
    other.recall(None).unwrap();
    let known = |l: &mut Learner| {
        let bytes = l.save(SimTime(0));
        bytes.map(|b| AccessGraph::decode(&b, Bytes(0), EDGES_MAX).unwrap())
    };
    assert!(known(&mut other).is_none(), "nothing was learned");
    other.observe(SimTime(0), &read(8));
    let known = known(&mut other);
    let mut fresh = learner("borg");
    assert_eq!(fresh.recall(known), Err(OtherVolume));
    assert_eq!(fresh.accesses().unwrap().vertex_count(), 0);
}

#[test]
fn a_memory_of_a_larger_server_is_cut_to_size() {
    let mut large = remembering("borg");
    for place in 0..200 {
        large.observe(SimTime(0), &read(place * 8));
    }
    let bytes = large.save(SimTime(0)).unwrap();
    let known = AccessGraph::decode(&bytes, Bytes(0), EDGES_MAX).unwrap();
    assert!(known.graph.edge_count() > 100);
    let mut small = learner("borg").edges(20);
    small.recall(Some(known)).unwrap();
    let edges = small.accesses().unwrap().edge_count();
    assert!((10..=20).contains(&edges), "{edges}");
}

/// RAM is empty at a start, whatever its size: the first read of each extent is one of the disk.
#[test]
fn known_extents_are_learned_from_again_at_their_first_read_after_a_start() {
    let fresh = || {
        let shape = VolumeShape { ram: Bytes(1 << 20), ..shape(0) };
        Learner::new("borg".parse().unwrap(), shape)
    };
    let mut first = fresh();
    first.recall(None).unwrap();
    // Each by its own stream: no edge stands between the two.
    for (stream, start) in [(1, 8), (2, 800)] {
        first.observe(SimTime(0), &Request { stream: StreamId(stream), ..read(start) });
    }
    let bytes = first.save(SimTime(0)).unwrap();
    let known = AccessGraph::decode(&bytes, Bytes(0), EDGES_MAX).unwrap();
    assert_eq!(known.graph.edge_count(), 0);
    let mut again = fresh();
    again.recall(Some(known)).unwrap();
    // RAM answers the last one.
    for start in [8, 800, 8] {
        again.observe(SimTime(0), &read(start));
    }
    let (vertices, edges) = again.accesses().unwrap().snapshot();
    let reads: Vec<u32> = vertices.iter().map(|v| v.reads).collect();
    assert_eq!(reads, [2 * ACCESS; 2]);
    assert_eq!(edges.iter().map(|e| e.weight).collect::<Vec<_>>(), [ACCESS]);
}

#[test]
fn what_a_plan_was_made_of_is_saved_before_it_is_forgotten() {
    let mut learner = remembering("borg:training=partial");
    learner.observe(SimTime(0), &read(8));
    let acts = learner.plan(SimTime(5), &NOWHERE);
    let [Act::Install(_), Act::Save(bytes)] = &acts[..] else { panic!("{acts:?}") };
    let saved = AccessGraph::decode(bytes, Bytes(0), EDGES_MAX).unwrap();
    assert_eq!((saved.graph.vertex_count(), saved.since_aged), (1, Duration(5)));
    assert_eq!(learner.accesses().unwrap().vertex_count(), 0);
}

#[test]
fn it_plans_when_its_time_has_come() {
    let mut learner = learner("borg").every(Some(Duration(100)));
    learner.observe(SimTime(0), &read(8));
    assert_eq!(
        (learner.due_in(SimTime(30)), learner.tick(SimTime(99), &NOWHERE)),
        (Some(Duration(70)), vec![])
    );
    assert_eq!(
        learner.tick(SimTime(100), &NOWHERE).len(),
        1,
        "saves nothing: nobody asked for that"
    );
    assert!(!learner.is_due(SimTime(199)) && learner.is_due(SimTime(200)));
    let told = self::learner("borg");
    assert!(!told.is_due(SimTime(u64::MAX)) && told.due_in(SimTime(0)).is_none());
}

#[test]
fn replicas_wait_until_something_can_be_done() {
    let policy: Policy = "fs2-whole".parse().unwrap();
    let mut learner = Learner::new(policy, shape(1 << 11)).when_due();
    let mut at = 0;
    while !learner.is_due(SimTime(7)) {
        learner.observe(SimTime(7), &read(at % 3 * 9000 * 8 + at * 16));
        at += 1;
    }
    let mut plan = |blocked, free: &[Extent]| {
        let space = Space { blocked, free: free.to_vec() };
        learner.tick(SimTime(7), &VolumeState { replicas: Some(&space), ..NOWHERE })
    };
    let free = [Extent::new(900_000, 2000)];
    assert_eq!((plan(true, &free), plan(false, &[])), (vec![], vec![]));
    let acts = plan(false, &free);
    assert!(matches!(&acts[..], [Act::Replicate(list)] if !list.is_empty()), "{acts:?}");
    assert_eq!(plan(false, &free), [], "what was seen is used up");
}

#[test]
fn static_replicas_are_all_reads_in_order_of_address() {
    let mut learner = Learner::new("fs2-static".parse().unwrap(), shape(1 << 14));
    // The hot region is the first; the others are read once, the last first.
    (0..9).for_each(|i| learner.observe(SimTime(0), &read(i * 8)));
    for start in [800_004, 400_000, 400_008] {
        learner.observe(SimTime(0), &read(start));
    }
    let space = Space { blocked: false, free: vec![Extent::new(100_000, 4000)] };
    let acts = learner.plan(SimTime(0), &VolumeState { replicas: Some(&space), ..NOWHERE });
    let [Act::Replicate(list)] = &acts[..] else { panic!("{acts:?}") };
    assert_eq!(list[0].homes, [Extent::new(400_000, 16), Extent::new(800_000, 16)]);
}

#[test]
fn a_long_silence_leaves_what_was_used_often() {
    let mut learner = learner("borg:training=decaying");
    for _ in 0..1000 {
        learner.observe(at(0), &read(0));
        learner.observe(at(0), &read(8000));
    }
    learner.observe(at(0), &read(16_000));
    learner.observe(at(400), &read(24_000));
    let (vertices, _) = learner.accesses().unwrap().snapshot();
    let left: Vec<(u64, u32)> = vertices.iter().map(|v| (v.extent.start.0, v.reads)).collect();
    let often = (1000 * ACCESS) >> crate::days::AGES_MAX;
    assert_eq!(left, [(0, often), (8000, often), (24_000, ACCESS)]);
}
