//! The systems that `advise` tries on a trace: the current system, learned layouts, other settings,
//! and other devices.

use seekless_block::{Bytes, Duration, Sectors};
use seekless_disk::{Device, Drive, Scheduler, SpinDown};
use seekless_learn::{Policy, PolicyName};
use seekless_sim::Replay;

use crate::advise::{AdviseOptions, Change};
use crate::error::StudyError;
use crate::outcome::TraceFacts;
use crate::system::{Learning, System};

/// Sizes are rounded up to a multiple of this.
pub(crate) const STEP: u64 = 16 << 20;

/// True if a policy plans by itself or before every fold.
fn plans_by_itself(policy: &Policy) -> bool {
    matches!(policy.name(), PolicyName::Judged | PolicyName::Oracle)
}

/// Refuses policies that cannot be tried fold by fold: their area has no size to choose, or the
/// first fold decides its place.
pub(crate) fn check(policy: &Policy) -> Result<(), StudyError> {
    if policy.has_area() && policy.name() != PolicyName::OuterZone {
        return Ok(());
    }
    let why = "works only in `simulate`: the policies that can plan fold by fold are borg, judged, oracle, organ-pipe, buckets, lazy, cylinder-shuffle and block-shuffle";
    Err(StudyError::Policy { policy: *policy, why })
}

/// The systems to try on a trace with this footprint, on `capacity` sectors; the first is the
/// current system.
pub(crate) fn systems(
    options: &AdviseOptions,
    facts: &TraceFacts,
    capacity: Sectors,
) -> Vec<(Change, System)> {
    let vanilla = options.host.system("as it is".to_owned(), None);
    let room = Sectors(options.host.disk.capacity().0.saturating_sub(capacity.0)).bytes().0;
    let mut sizes: Vec<u64> = [16, 4, 1]
        .map(|part| (facts.footprint_bytes / part).next_multiple_of(STEP).max(STEP))
        .into_iter()
        .filter(|&size| size <= room)
        .collect();
    sizes.dedup();
    let mut all = vec![(Change::None, vanilla.clone())];
    all.extend(layouts(options, &vanilla, &sizes));
    all.extend(settings(options, &vanilla).into_iter().map(|s| (Change::Setting, s)));
    all.extend(devices(options, &vanilla, &sizes, capacity));
    all
}

/// A learned layout.
fn layout(vanilla: &System, size: u64, policy: Policy, every: u32) -> System {
    let optimized = Bytes(size);
    let text = policy.to_string();
    let name = text.strip_prefix("oracle").map(|rest| format!("foresight{rest}"));
    let name = format!("{} {optimized}", name.unwrap_or(text));
    let name = if every > 1 { format!("{name}, every {every}") } else { name };
    let learning = Learning { policy, optimized, write_buffer: 0, gather: Duration::ZERO, every };
    System { name, learning: Some(learning), ..vanilla.clone() }
}

/// Learned layouts: of each size for policies with a fixed interval, of the largest size for the
/// others.
fn layouts(options: &AdviseOptions, vanilla: &System, sizes: &[u64]) -> Vec<(Change, System)> {
    let (by_themselves, told): (Vec<Policy>, Vec<Policy>) =
        options.policies.iter().partition(|p| plans_by_itself(p));
    let mut all = Vec::new();
    for &size in sizes {
        for policy in &told {
            let every = [1, 4].map(|every| layout(vanilla, size, *policy, every));
            all.extend(every.map(|system| (Change::Layout, system)));
        }
    }
    if let Some(&size) = sizes.last() {
        for policy in by_themselves {
            let oracle = policy.name() == PolicyName::Oracle;
            let change = if oracle { Change::Foresight } else { Change::Layout };
            all.push((change, layout(vanilla, size, policy, 1)));
        }
    }
    all
}

/// More RAM, more read-ahead, another scheduler, spin-down.
fn settings(options: &AdviseOptions, vanilla: &System) -> Vec<System> {
    let host = &options.host;
    let more = Bytes(host.cache.0.max(STEP) * 4);
    let read_ahead = Bytes(host.read_ahead.0.max(65_536) * 4);
    let mut all = vec![
        System { name: format!("RAM {more}"), cache: more, ..vanilla.clone() },
        System { name: format!("read-ahead {read_ahead}"), read_ahead, ..vanilla.clone() },
    ];
    let queues = !matches!(options.rolling.replay, Replay::Closed { depth: 0 | 1 });
    for scheduler in [Scheduler::CLook, Scheduler::Sptf] {
        if queues && scheduler != host.scheduler {
            let name = format!("scheduler {scheduler}");
            all.push(System { name, scheduler, ..vanilla.clone() });
        }
    }
    let spin_down = SpinDown::Adaptive;
    let stops = Device::new(&host.disk)
        .is_ok_and(|d| Drive::new(d, host.scheduler).set_spin_down(spin_down).is_ok());
    if options.rolling.replay == Replay::Open && stops && host.spin_down != spin_down {
        let name = "spin-down adaptive".to_owned();
        all.push(System { name, spin_down, ..vanilla.clone() });
    }
    all
}

/// Other devices instead of the disk; also with a layout if operations have a price.
fn devices(
    options: &AdviseOptions,
    vanilla: &System,
    sizes: &[u64],
    capacity: Sectors,
) -> Vec<(Change, System)> {
    let mut all = Vec::new();
    for disk in &options.others {
        let there = System {
            name: disk.name().to_owned(),
            disk: disk.clone(),
            spin_down: SpinDown::None,
            ..vanilla.clone()
        };
        let room = disk.capacity().bytes().0.saturating_sub(capacity.bytes().0);
        // Fewer priced operations may be worth a layout, even if the time saved is not.
        let size = sizes.last().filter(|&&s| s <= room && disk.priced().is_some());
        let policy = options.policies.iter().find(|p| !plans_by_itself(p));
        if let (Some(&size), Some(policy)) = (size, policy) {
            let System { name, learning, .. } = layout(vanilla, size, *policy, 4);
            let name = format!("{}, {name}", disk.name());
            all.push((Change::DeviceLayout, System { name, learning, ..there.clone() }));
        }
        all.push((Change::Device, there));
    }
    all
}
