//! The store against a map from names to bytes, over many restarts of a store.

use std::collections::BTreeMap;

use proptest::prelude::*;
use seekless_block::{Bytes, Duration, MemDevice, Sectors, SimTime};
use seekless_store::{
    Arrival, Ask, Attributes, Config, Fault, FileNumber, Member, Reply, StoreOnDevice, examine,
    format_store,
};

pub(crate) type Mem = StoreOnDevice<MemDevice, fn() -> bool>;

pub(crate) fn arrival(name: &str, data: Vec<u8>) -> Member {
    let attributes = Attributes { mode: 0o100_644, modified: 5, ..Attributes::default() };
    Member::New(Arrival { attributes, name: name.into(), data })
}

pub(crate) fn device(clusters: u64) -> MemDevice {
    // The tables take about 200 pages.
    let mut device = MemDevice::new(Sectors(1_800 + clusters * 128));
    format_store(&mut device, [3; 16], Bytes(65_536), "test").unwrap();
    device
}

pub(crate) fn attach(device: MemDevice, cache: u64) -> Mem {
    let config = Config { cache: Bytes(cache), ..Config::default() };
    StoreOnDevice::attach(device, (|| true) as fn() -> bool, config).unwrap()
}

pub(crate) const NOW: SimTime = SimTime(1);

#[derive(Clone, Debug)]
enum JobStep {
    Group(Vec<(bool, u16, u32)>),
    Write(u16, u32, u32),
    Resize(u16, u32),
    Remove(u16),
    Read(u16, u32, u32),
    Sync(Option<u16>),
    Checkpoint,
    Restart,
}

fn step() -> impl Strategy<Value = JobStep> {
    let size = prop_oneof![4 => 0u32..3_000, 1 => 0u32..65_537, 1 => Just(65_536u32)];
    prop_oneof![
        3 => prop::collection::vec((any::<bool>(), any::<u16>(), size.clone()), 1..9).prop_map(JobStep::Group),
        4 => (any::<u16>(), size.clone(), 0u32..5_000).prop_map(|(f, at, n)| JobStep::Write(f, at, n)),
        1 => (any::<u16>(), size.clone()).prop_map(|(f, n)| JobStep::Resize(f, n)),
        1 => any::<u16>().prop_map(JobStep::Remove),
        4 => (any::<u16>(), size.clone(), size).prop_map(|(f, at, n)| JobStep::Read(f, at, n)),
        2 => prop::option::of(any::<u16>()).prop_map(JobStep::Sync),
        1 => Just(JobStep::Checkpoint),
        1 => Just(JobStep::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn a_store_is_a_map(steps in prop::collection::vec(step(), 1..70), cache in prop::sample::select(vec![0u64, 200_000, 1 << 24]), clusters in 12u64..80) {
        let mut store = attach(device(clusters), cache);
        let mut twin: BTreeMap<FileNumber, (Vec<u8>, Vec<u8>)> = BTreeMap::new();
        let mut stamp = 0u8;
        for step in steps {
            stamp = stamp.wrapping_add(1);
            let pick = |twin: &BTreeMap<FileNumber, _>, which: u16| {
                twin.keys().nth(which as usize % twin.len().max(1)).copied()
            };
            match step {
                JobStep::Group(members) => {
                    let mut chosen = Vec::new();
                    let mut asked = Vec::new();
                    for (here, which, size) in members {
                        match pick(&twin, which).filter(|n| here && !chosen.contains(&Some(*n))) {
                            Some(n) => { asked.push(Member::Here(n)); chosen.push(Some(n)); }
                            None => { asked.push(arrival("x", vec![stamp; size as usize])); chosen.push(None); }
                        }
                    }
                    match store.ask(NOW, Ask::Group { members: asked.clone() }) {
                        Ok(Reply::Numbers(numbers)) => {
                            prop_assert_eq!(numbers.len(), asked.len());
                            for (number, member) in numbers.into_iter().zip(asked) {
                                if let Member::New(a) = member {
                                    prop_assert!(twin.insert(number, (a.data, a.name)).is_none());
                                } else {
                                    prop_assert!(twin.contains_key(&number));
                                }
                            }
                        }
                        other => prop_assert_eq!(other, Err(Fault::NoSpace)),
                    }
                }
                JobStep::Write(which, at, n) => {
                    let Some(file) = pick(&twin, which) else { continue };
                    let data = vec![stamp; n as usize];
                    let (offset, end) = (at.into(), (at + n) as usize);
                    match store.ask(NOW, Ask::Write { file, offset, data: data.clone(), time: 9 }) {
                        Ok(_) => {
                            let bytes = &mut twin.get_mut(&file).unwrap().0;
                            if n > 0 {
                                bytes.resize(bytes.len().max(end), 0);
                                bytes[at as usize..end].copy_from_slice(&data);
                            }
                        }
                        Err(Fault::TooLarge) => prop_assert!(end > 65_536),
                        other => prop_assert_eq!(other, Err(Fault::NoSpace)),
                    }
                }
                JobStep::Resize(which, n) => {
                    let Some(file) = pick(&twin, which) else { continue };
                    match store.ask(NOW, Ask::Resize { file, size: n.into(), time: 9 }) {
                        Ok(_) => twin.get_mut(&file).unwrap().0.resize(n as usize, 0),
                        other => prop_assert_eq!(other, Err(Fault::NoSpace)),
                    }
                }
                JobStep::Remove(which) => {
                    let Some(file) = pick(&twin, which) else { continue };
                    prop_assert_eq!(store.ask(NOW, Ask::Remove { file }), Ok(Reply::Done));
                    twin.remove(&file);
                    let gone = store.ask(NOW, Ask::Read { file, offset: 0, len: 1 });
                    prop_assert_eq!(gone, Err(Fault::NoFile(file)));
                }
                JobStep::Read(which, at, n) => {
                    let Some(file) = pick(&twin, which) else { continue };
                    let bytes = &twin[&file].0;
                    let from = bytes.len().min(at as usize);
                    let expected = bytes[from..bytes.len().min((at + n) as usize).max(from)].to_vec();
                    let got = store.ask(NOW, Ask::Read { file, offset: at.into(), len: n });
                    prop_assert!(got == Ok(Reply::Data(expected)), "a read of {:?} from {at}", file);
                }
                JobStep::Sync(which) => {
                    let file = which.and_then(|w| pick(&twin, w));
                    prop_assert_eq!(store.ask(NOW, Ask::Sync { file }), Ok(Reply::Done));
                    if file.is_none() {
                        prop_assert!(store.group_store().is_clean());
                    }
                }
                JobStep::Checkpoint => prop_assert_eq!(store.ask(NOW, Ask::Checkpoint), Ok(Reply::Done)),
                JobStep::Restart => {
                    prop_assert_eq!(store.ask(NOW, Ask::Sync { file: None }), Ok(Reply::Done));
                    let mut device = store.into_device();
                    let found = examine(&mut device).unwrap();
                    prop_assert_eq!(found.files as usize, twin.len());
                    prop_assert_eq!(found.bytes, twin.values().map(|f| f.0.len() as u64).sum::<u64>());
                    prop_assert!(found.damaged.is_empty());
                    store = attach(device, cache);
                }
            }
            let files: BTreeMap<FileNumber, (u32, Vec<u8>)> =
                store.group_store().files().map(|(n, f)| (n, (f.size, f.name.to_vec()))).collect();
            let expected = twin.iter().map(|(n, f)| (*n, (f.0.len() as u32, f.1.clone()))).collect();
            prop_assert_eq!(files, expected);
        }
        for (file, (bytes, _)) in &twin {
            let got = store.ask(NOW, Ask::Read { file: *file, offset: 0, len: 1 << 20 });
            prop_assert!(got == Ok(Reply::Data(bytes.clone())), "{:?}", file);
        }
        // No leak: when all files are removed and committed, every cluster is free.
        for file in twin.into_keys() {
            prop_assert_eq!(store.ask(NOW, Ask::Remove { file }), Ok(Reply::Done));
        }
        prop_assert_eq!(store.ask(NOW, Ask::Sync { file: None }), Ok(Reply::Done));
        prop_assert_eq!(store.ask(NOW, Ask::Checkpoint), Ok(Reply::Done));
        prop_assert_eq!(store.group_store().free_clusters(), (store.group_store().geometry().clusters, 0));
    }
}

#[test]
fn a_change_goes_to_the_store_when_it_is_due() {
    let mut store = attach(device(40), 1 << 20);
    let group = store.ask(NOW, Ask::Group { members: vec![arrival("a", vec![1; 100])] });
    let Ok(Reply::Numbers(numbers)) = group else { panic!("{group:?}") };
    let file = numbers[0];
    assert_eq!(store.group_store().wakeup(), None);
    store.ask(NOW, Ask::Write { file, offset: 0, data: vec![2], time: 3 }).unwrap();
    let due = store.group_store().wakeup().unwrap();
    assert_eq!(due, NOW + Config::default().commit_after);
    store.tick(SimTime(due.0 - 1));
    assert!(!store.group_store().is_clean());
    store.tick(due);
    assert!(store.group_store().is_clean());
    // A read from the disk commits changes sooner; a read from memory does not.
    let late = due + Config::default().commit_along + Duration(1);
    store
        .ask(
            due,
            Ask::SetAttributes {
                file,
                attributes: Attributes { mode: 0o600, ..Attributes::default() },
            },
        )
        .unwrap();
    store.ask(late, Ask::Read { file, offset: 0, len: 1 }).unwrap();
    assert!(!store.group_store().is_clean());
    let attached = attach(store.into_device(), 1 << 20);
    let f = attached.group_store().file(file).unwrap();
    // Unsynced changes are lost when the store is dropped.
    assert_eq!((f.attributes.modified, f.attributes.mode, f.size), (3, 0o100_644, 100));
}
