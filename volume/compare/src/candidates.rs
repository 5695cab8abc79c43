//! The systems that `advise` tries on a trace: the current system, learned policies, other settings,
//! and other devices.

use seekless_block::{Bytes, Duration, Sectors};
use seekless_disk::{Device, DeviceSpec, Drive, Scheduler, SpinDown};
use seekless_learn::{Policy, PolicyName};
use seekless_sim::Replay;

use crate::advise::{AdviseOptions, Change};
use crate::error::StudyError;
use crate::outcome::TraceFacts;
use crate::system::{Learning, System};

/// Sizes are rounded up to a multiple of this.
pub(crate) const STEP: u64 = 16 << 20;

/// Refuses policies that cannot be tried fold by fold: their area has no size to choose, or the
/// first fold decides its place.
pub(crate) fn check(policy: &Policy) -> Result<(), StudyError> {
    if policy.adapts() { Ok(()) } else { check_plans(policy) }
}

/// Refuses policies that do not plan before each fold, for an area of any size.
pub(crate) fn check_plans(policy: &Policy) -> Result<(), StudyError> {
    let plans = policy.has_area() && !policy.adapts();
    if plans && policy.name() != PolicyName::OuterZone {
        return Ok(());
    }
    let why = "works only in `simulate`: the policies that can plan fold by fold are borg, organ-pipe, buckets, lazy, cylinder-shuffle and block-shuffle; `advise` also tries adaptive and clairvoyant";
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
    let room = options.host.room(capacity).0;
    let mut sizes: Vec<u64> = [16, 4, 1]
        .map(|part| (facts.footprint_bytes / part).next_multiple_of(STEP).max(STEP))
        .into_iter()
        .filter(|&size| size <= room)
        .collect();
    sizes.dedup();
    let mut all = vec![(Change::None, vanilla.clone())];
    let learned = learned(options, &vanilla, &sizes, capacity);
    let with_ram = with_more_ram(options, &learned);
    all.extend(learned);
    all.extend(settings(options, &vanilla).into_iter().map(|s| (Change::Setting, s)));
    all.extend(with_ram);
    all.extend(devices(options, &vanilla, &sizes, capacity));
    all
}

fn layout(vanilla: &System, size: u64, policy: Policy, every: u32) -> System {
    let optimized = Bytes(size);
    let name = format!("{policy} {optimized}");
    let name = if every > 1 { format!("{name}, every {every}") } else { name };
    let learning = Learning { policy, optimized, write_buffer: 0, gather: Duration::ZERO, every };
    System { name, learning: Some(learning), ..vanilla.clone() }
}

/// The policies: each size and interval of those that plan; those that adapt as they are.
fn learned(
    options: &AdviseOptions,
    vanilla: &System,
    sizes: &[u64],
    capacity: Sectors,
) -> Vec<(Change, System)> {
    let mut all = Vec::new();
    for policy in options.policies.iter().filter(|p| p.adapts()) {
        let change = match policy.name() {
            PolicyName::Clairvoyant => Change::Foresight,
            _ => Change::Layout,
        };
        let (policy, size) = options.host.with_trail(*policy, capacity);
        let size = if policy.trail { size } else { Bytes(0) };
        let system = layout(vanilla, size.0, policy, 1);
        let name = policy.to_string();
        if !all.iter().any(|(_, other): &(_, System)| other.name == name) {
            all.push((change, System { name, ..system }));
        }
    }
    let plans = options.policies.iter().filter(|p| !p.adapts());
    all.extend(plans.flat_map(|policy| {
        let of =
            |&size| [1, 4].map(|every| (Change::Layout, layout(vanilla, size, *policy, every)));
        sizes.iter().flat_map(of)
    }));
    all
}

/// The RAM that a setting tries.
fn more_ram(options: &AdviseOptions) -> Bytes {
    Bytes(options.host.cache.0.max(STEP) * 4)
}

/// The policies that adapt, with more RAM: what RAM answers, a policy cannot save. Those that plan
/// have many sizes and intervals already.
fn with_more_ram(options: &AdviseOptions, learned: &[(Change, System)]) -> Vec<(Change, System)> {
    let cache = more_ram(options);
    let adapts = |s: &System| s.learning.is_some_and(|l| l.policy.adapts());
    let tried = learned.iter().filter(|(change, s)| *change == Change::Layout && adapts(s));
    let more =
        tried.map(|(_, s)| System { name: format!("{}, RAM {cache}", s.name), cache, ..s.clone() });
    more.map(|s| (Change::LayoutAndRam, s)).collect()
}

/// More RAM, more or no read-ahead, another scheduler, spin-down.
fn settings(options: &AdviseOptions, vanilla: &System) -> Vec<System> {
    let host = &options.host;
    let more = more_ram(options);
    let read_ahead = Bytes(host.read_ahead.0.max(65_536) * 4);
    let mut all = vec![
        System { name: format!("RAM {more}"), cache: more, ..vanilla.clone() },
        System { name: format!("read-ahead {read_ahead}"), read_ahead, ..vanilla.clone() },
    ];
    if host.read_ahead > Bytes(0) {
        let name = "no read-ahead".to_owned();
        all.push(System { name, read_ahead: Bytes(0), ..vanilla.clone() });
    }
    let queues =
        !matches!(options.rolling.replay, Replay::Closed { depth: 0 | 1 } | Replay::Think { .. });
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

/// Whether a device has the addresses of a trace of `capacity` sectors.
pub(crate) fn holds(device: &DeviceSpec, capacity: Sectors) -> bool {
    device.capacity() >= capacity
}

/// Other devices instead of the disk, if the trace fits them; also with a layout if operations are
/// billed.
fn devices(
    options: &AdviseOptions,
    vanilla: &System,
    sizes: &[u64],
    capacity: Sectors,
) -> Vec<(Change, System)> {
    let mut all = Vec::new();
    for disk in options.others.iter().filter(|disk| holds(disk, capacity)) {
        let there = System {
            name: disk.name().to_owned(),
            disk: disk.clone(),
            spin_down: SpinDown::None,
            ..vanilla.clone()
        };
        let room = disk.capacity().bytes().0.saturating_sub(capacity.bytes().0);
        // Fewer priced operations may be worth a layout, even if the time saved is not.
        let size = sizes.last().filter(|&&s| s <= room && disk.bills_operations());
        let policy = options.policies.iter().find(|p| !p.adapts());
        if let (Some(&size), Some(policy)) = (size, policy) {
            let System { name, learning, .. } = layout(vanilla, size, *policy, 4);
            let name = format!("{}, {name}", disk.name());
            all.push((Change::DeviceLayout, System { name, learning, ..there.clone() }));
        }
        all.push((Change::Device, there));
    }
    all
}
