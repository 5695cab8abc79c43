//! The live learner acts like the simulator on the same requests and times, and fits its volume.

use seekless_block::{Bytes, Extent, Lba, Op};
use seekless_disk::{Device, Scheduler, SpinDown, catalogue};
use seekless_engine::RoomFrom;
use seekless_learn::{DAY, EDGES_MAX, POLICIES, Pages};
use seekless_sim::{EngineSpace, Replay, SimConfig, Simulation};

use super::*;

const MIB: u64 = 1 << 11;

fn simulation(volume: Config) -> Simulation {
    let device = Device::new(&catalogue::device("wd800jb").unwrap()).unwrap();
    let config = SimConfig {
        engine: volume,
        area_at: Lba(volume.capacity.0),
        scheduler: Scheduler::Fcfs,
        spin_down: SpinDown::None,
        replay: Replay::Closed { depth: 1 },
    };
    let mut simulation = Simulation::new(device, config).unwrap();
    // 40% of the disk is free.
    simulation.seed_free((0..20).map(|i| Extent::new(i * 50 * MIB + 30 * MIB, 20 * MIB)));
    simulation
}

/// The same reads six times, of three places in turn, with a few others between.
fn request(i: u64) -> Request {
    let (turn, at) = (i / 5000, i % 5000);
    let mixed = at.wrapping_mul(6_364_136_223_846_793_005) >> 40;
    let by_chance = if at % 10 == 9 { turn * 977 } else { 0 };
    let place = [500, 510, 900][(at % 3) as usize] * MIB;
    let extent = Extent::new(place + (mixed + by_chance) % 2000 * 8, 8);
    Request::new(SimTime(i), Op::Read, extent)
}

/// A request every 4 s.
fn time(i: u64) -> SimTime {
    SimTime(i * 4_000_000_000)
}

/// Serves all requests; executes and returns all acts of the learner.
fn served(
    volume: Config,
    mut learn: impl FnMut(SimTime, &Request, &Simulation) -> Vec<Act>,
) -> Vec<(u64, Act)> {
    let mut simulation = simulation(volume);
    let mut all = Vec::new();
    for i in 0..30_000u64 {
        let request = request(i);
        simulation.offer(&request).unwrap();
        for act in learn(time(i), &request, &simulation) {
            match &act {
                Act::Install(plan) => simulation.install(plan.clone()).unwrap(),
                Act::Replicate(list) => simulation.replicate(list.clone()).unwrap(),
                Act::Save(_) => {}
            }
            all.push((i, act));
        }
        simulation.settle_replicas().unwrap();
    }
    all
}

/// The room as the volume's thread lists it.
fn room_of(simulation: &Simulation) -> Option<Room> {
    let engine = simulation.engine();
    let part = |from: RoomFrom| -> Result<RoomReply, std::convert::Infallible> {
        let part = engine.room_part(from);
        let degree = engine.config().degree;
        let pages = Pages::new(engine.config().grid, engine.config().capacity);
        let room = |state| Room { free: part.free, placed: part.placed, degree, pages, state };
        Ok(engine.replicated().map(|state| (room(state), part.next)))
    };
    let Ok(room) = Room::of_parts(part);
    room
}

#[test]
fn a_server_does_what_the_simulator_does() {
    let every = Duration::from_secs(6 * 3600);
    let volume = |replicas| Config {
        area: Sectors(40 * MIB),
        replicas: Sectors(if replicas { 100 * MIB } else { 0 }),
        cache_bytes: Bytes(1 << 20),
        ..Config::new(Sectors(1000 * MIB))
    };
    for text in [
        "borg",
        "borg:training=decaying:planning=anew",
        "borg:training=partial:order=many-starts",
        "organ-pipe",
        "fs2",
        "fs2-whole",
        "fs2-proven",
        "fs2-whole:degree=2",
    ] {
        let policy: Policy = text.parse().unwrap();
        let volume = Config { degree: policy.degree, ..volume(policy.replicates()) };
        let every_ns = span(every.as_nanos());
        let mut learner = Learner::new(policy, shape_of(&volume)).every(Some(every_ns));
        let mut plan = Plan::default();
        let simulated = served(volume, |now, request, simulation| {
            learner.observe(now, request);
            let space = EngineSpace { engine: simulation.engine(), answered_before: 0 };
            let acts = learner.tick(now, &VolumeState { plan: &plan, replicas: Some(&space) });
            for act in &acts {
                if let Act::Install(new) = act {
                    plan.clone_from(new);
                }
            }
            acts
        });
        let learning = Learning::default().policy(policy).every(every);
        let mut pupil = learning.begin(policy, &volume, Plan::default(), EDGES_MAX).unwrap();
        let live = served(volume, |now, request, simulation| {
            pupil.observe(now, request);
            let ask = || room_of(simulation);
            pupil.acts(now, false, &LazySpace::new(&ask))
        });
        assert!(live == simulated, "{text}: {} and {} acts", live.len(), simulated.len());
        let acts = live.iter().filter(|(_, act)| match act {
            Act::Install(plan) => !plan.copies.is_empty(),
            Act::Replicate(list) => !list.is_empty(),
            Act::Save(_) => false,
        });
        assert!(acts.count() > 0, "{text}");
        assert!(time(30_000).0 > DAY.0, "days end");
    }
}

#[test]
fn a_policy_must_fit_the_volume() {
    use AreaHolds::{NoPlan, Plan, Replicas};
    let policy = |text: &str, holds| {
        let learning = match text {
            "" => Learning::default(),
            text => Learning::default().policy(text.parse().unwrap()),
        };
        learning.policy_for(holds).map(|policy| policy.to_string())
    };
    for (holds, usual) in [(NoPlan, "adaptive"), (Plan, "borg"), (Replicas, "fs2")] {
        assert_eq!(policy("", holds), Ok(usual.to_owned()));
        assert_eq!(policy("vanilla", holds), Ok("vanilla".to_owned()));
    }
    assert_eq!(policy("adaptive", Plan), Ok("adaptive".to_owned()), "a plan may be given up");
    assert!(policy("borg", Replicas).unwrap_err().contains("choose fs2"));
    assert!(policy("adaptive", Replicas).unwrap_err().contains("choose fs2"));
    assert!(policy("fs2-whole", NoPlan).unwrap_err().contains("--replicas"));
    for entry in POLICIES.iter().filter(|p| !p.live) {
        let holds = if Policy::new(entry.name).replicates() { Replicas } else { NoPlan };
        let why = policy(entry.name.name(), holds).unwrap_err();
        assert!(why.contains("for simulations alone"), "{why}");
    }
}

#[test]
fn what_makes_no_plans_has_no_learner() {
    let config = Config { area: Sectors(40 * MIB), ..Config::new(Sectors(1000 * MIB)) };
    for (text, learns) in [("vanilla", false), ("adaptive", false), ("borg", true)] {
        let policy = text.parse().unwrap();
        let pupil = Learning::default().begin(policy, &config, Plan::default(), EDGES_MAX);
        assert_eq!(pupil.is_some(), learns, "{text}");
    }
}
