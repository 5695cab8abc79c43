//! Group stores of an earlier seekless, attached by this one: see tests/fixtures/README.md. Every
//! file is read and compared with its manifest; then again with one changed byte. The tests of the
//! mount check the directories of these stores.

use std::collections::BTreeSet;
use std::rc::Rc;

use seekless_block::{PAGE_BYTES, SimTime};
use seekless_store::{
    Ask, AttachError, Config, Fault, FileNumber, FileState, Reply, StoreOnDevice, examine,
    superblock,
};
use serde_json::Value;

use crate::medium::Image;

const PAGE: usize = PAGE_BYTES as usize;
/// The content of the file `b3`, repeated.
const LINE: &[u8] = b"b3 1\n";

struct Fixture {
    packed: &'static [u8],
    manifest: &'static str,
}

const CLEAN: Fixture = Fixture {
    packed: include_bytes!("../fixtures/groups-clean.store.zst"),
    manifest: include_str!("../fixtures/groups-clean.json"),
};
const KILLED: Fixture = Fixture {
    packed: include_bytes!("../fixtures/groups-killed.store.zst"),
    manifest: include_str!("../fixtures/groups-killed.json"),
};

/// A file of the manifest.
struct Known {
    name: String,
    size: usize,
    versions: Vec<u64>,
    /// The name that its bytes repeat.
    within: String,
}

impl Fixture {
    fn said(&self) -> Value {
        serde_json::from_str(self.manifest).unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        let size = self.said()["store_bytes"].as_u64().unwrap() as usize;
        let bytes = zstd::bulk::decompress(self.packed, size).unwrap();
        assert_eq!(bytes.len(), size);
        bytes
    }

    fn known(&self) -> Vec<Known> {
        let row = |row: &Value| Known {
            name: row[0].as_str().unwrap().to_owned(),
            size: row[1].as_u64().unwrap() as usize,
            versions: row[2].as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).collect(),
            within: row[3].as_str().unwrap().to_owned(),
        };
        self.said()["files"].as_array().unwrap().iter().map(row).collect()
    }
}

fn image(bytes: &[u8]) -> Image {
    let mut image = Image::zeroed(bytes.len() as u64 / 512);
    for (sector, bytes) in image.0.iter_mut().zip(bytes.chunks(512)) {
        if bytes.iter().any(|&b| b != 0) {
            *sector = Rc::new(bytes.try_into().unwrap());
        }
    }
    image
}

fn content(name: &str, version: u64, size: usize) -> Vec<u8> {
    format!("{name} {version}\n").into_bytes().into_iter().cycle().take(size).collect()
}

/// A store beside another module whose syncs always succeed.
type Attached = StoreOnDevice<Image, fn() -> bool>;

fn attach(image: Image) -> Result<Attached, AttachError> {
    StoreOnDevice::attach(image, || true, Config::default())
}

/// Reads every file; each must be whole. Returns the names of settled and arriving files with a
/// version of the manifest, and the files that could not be read.
fn read(fixture: &Fixture, store: &mut Attached) -> (BTreeSet<String>, Vec<(FileNumber, Fault)>) {
    let known = fixture.known();
    let (mut found, mut faults) = (BTreeSet::new(), Vec::new());
    let files: Vec<_> = store.group_store().files().map(|(n, f)| (n, f.size, f.state)).collect();
    for (file, size, state) in files {
        let data = match store.ask(SimTime(0), Ask::Read { file, offset: 0, len: size }) {
            Ok(Reply::Data(data)) => data,
            Ok(other) => panic!("{other:?}"),
            Err(fault) => {
                faults.push((file, fault));
                continue;
            }
        };
        assert_eq!(data.len(), size as usize);
        let line = data.split(|&b| b == b'\n').next().unwrap();
        let line = std::str::from_utf8(line).unwrap();
        let (name, version) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?}"));
        let version: u64 = version.parse().unwrap();
        assert_eq!(data, content(name, version, data.len()), "{line} is torn");
        let of = known.iter().find(|k| k.within == name && k.size == data.len());
        if let Some(of) = of.filter(|k| k.versions.contains(&version)) {
            found.insert(of.name.clone());
        } else {
            // Removed, or replaced by newer bytes: on its way back, or forgotten by the other
            // module.
            assert!(state != FileState::Settled || of.is_none(), "{line} is older than it may be");
        }
    }
    (found, faults)
}

fn is_attached(fixture: &Fixture) {
    let bytes = fixture.bytes();
    let mut store = attach(image(&bytes)).unwrap();
    let examined = examine(&mut image(&bytes)).unwrap();
    assert!(examined.damaged.is_empty(), "{examined:?}");
    let check = |store: &mut Attached, when: &str| {
        let (found, faults) = read(fixture, store);
        assert!(faults.is_empty(), "{when}: {faults:?}");
        for name in fixture.said()["with_a_marker"].as_array().unwrap() {
            assert!(found.contains(name.as_str().unwrap()), "{when}: {name} is not in the store");
        }
    };
    check(&mut store, "attached");
    // A change and a checkpoint by this code, then the check again.
    let file = store.group_store().files().next().unwrap().0;
    let attributes = store.group_store().file(file).unwrap().attributes;
    assert_eq!(store.ask(SimTime(0), Ask::SetAttributes { file, attributes }), Ok(Reply::Done));
    assert_eq!(store.ask(SimTime(0), Ask::Checkpoint), Ok(Reply::Done));
    assert_eq!(store.ask(SimTime(0), Ask::Sync { file: None }), Ok(Reply::Done));
    let mut store = attach(store.into_device()).unwrap();
    assert!(store.group_store().is_clean());
    check(&mut store, "after a checkpoint");
}

fn is_told(fixture: &Fixture) {
    let bytes = fixture.bytes();
    let flip = |offsets: &[usize]| {
        let mut bytes = bytes.clone();
        offsets.iter().for_each(|&o| bytes[o] ^= 1);
        image(&bytes)
    };
    let (_, geometry) = superblock(&mut image(&bytes)).unwrap();
    // One superblock replaces the other.
    let (found, faults) = read(fixture, &mut attach(flip(&[100])).unwrap());
    assert!(faults.is_empty());
    let whole = found;
    let both = attach(flip(&[100, PAGE + 100])).err().unwrap();
    assert!(matches!(both, AttachError::Superblock { .. }), "{both}");
    // The bytes of a group, and of groups that were elsewhere before.
    let groups = bytes.len() - geometry.clusters as usize * geometry.cluster.bytes().0 as usize;
    let begins = |&at: &usize| bytes[at..].starts_with(LINE) && !bytes[..at].ends_with(LINE);
    let at: Vec<_> = (groups..bytes.len()).filter(begins).map(|at| at + LINE.len()).collect();
    let mut damaged = flip(&at);
    let (found, faults) = read(fixture, &mut attach(damaged.clone()).unwrap());
    assert!(!faults.is_empty() && !found.contains("b3"), "{faults:?}");
    assert!(faults.iter().all(|(_, f)| matches!(f, Fault::Damaged { .. })), "{faults:?}");
    assert!(!examine(&mut damaged).unwrap().damaged.is_empty());
    // Every page of records, of the log and of both checkpoints: the store is refused, or no read
    // returns wrong bytes.
    let mut pages = Vec::new();
    for page in (2 * PAGE..groups).step_by(PAGE) {
        if !bytes[page..].starts_with(b"SEEKGRPS") {
            continue;
        }
        pages.push(page + 40);
        if let Ok(mut store) = attach(flip(&[page + 40])) {
            let (found, faults) = read(fixture, &mut store);
            assert!(faults.is_empty(), "page {}: {faults:?}", page / PAGE);
            // A damaged last batch looks like a torn batch: its changes are lost.
            assert!(found.is_subset(&whole));
        }
    }
    // One checkpoint replaces the other, with the log.
    assert!(pages.len() > 3 && attach(flip(&pages)).is_err());
}

#[test]
fn a_store_detached_in_order_is_read_as_it_was_written() {
    is_attached(&CLEAN);
}

#[test]
fn a_store_whose_server_was_killed_is_read_as_it_was_written() {
    is_attached(&KILLED);
}

#[test]
fn damage_to_a_store_detached_in_order_is_told() {
    is_told(&CLEAN);
}

#[test]
fn damage_to_a_store_whose_server_was_killed_is_told() {
    is_told(&KILLED);
}
