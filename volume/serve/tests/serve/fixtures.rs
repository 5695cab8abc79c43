//! Areas from an earlier seekless, attached and served by this one: see tests/fixtures/README.md.
//! Every sector is read and compared; then again with one damaged byte in the area.

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use seekless_serve::client::ClientError;
use seekless_serve::{Backing, Builder, ServeError, ServerHandle};
use serde_json::Value;

use crate::packed::{flip, unpack};
use crate::{Dir, client};

const SECTOR: usize = 512;
const PAGE_SECTORS: u64 = 8;
const PAGE: usize = 4096;
/// Sectors of one read without expected errors.
const READ: u64 = 128;

/// An unpacked fixture in its own folder.
struct Fixture {
    dir: Dir,
    name: &'static str,
    said: Value,
    /// Allowed versions of a sector; empty: only zeroes.
    allowed: Vec<Vec<u64>>,
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

impl Fixture {
    fn new(name: &'static str, test: &str) -> Self {
        let text = std::fs::read_to_string(fixture(&format!("{name}.json"))).unwrap();
        let said: Value = serde_json::from_str(&text).unwrap();
        let mut allowed = vec![Vec::new(); said["sectors"].as_u64().unwrap() as usize];
        for run in said["runs"].as_array().unwrap() {
            let start = run[0].as_u64().unwrap() as usize;
            let versions: Vec<_> =
                run[2].as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).collect();
            for of in &mut allowed[start..start + run[1].as_u64().unwrap() as usize] {
                of.clone_from(&versions);
            }
        }
        let fixture = Self { dir: Dir::new(&format!("{test}-{name}")), name, said, allowed };
        fixture.restore();
        fixture
    }

    /// The original state.
    fn restore(&self) {
        let packed = |what: &str| fixture(&format!("{}.{what}.zst", self.name));
        unpack(&packed("home"), &self.said["home_bytes"], &self.home());
        if !self.said["area_bytes"].is_null() {
            unpack(&packed("area"), &self.said["area_bytes"], &self.area());
        }
    }

    /// The area remembers its home's name.
    fn home(&self) -> PathBuf {
        self.dir.path("home.img")
    }

    fn area(&self) -> PathBuf {
        self.dir.path("home.area")
    }

    fn builder(&self) -> Builder {
        let builder = Builder::new(Backing::Path(self.home()));
        if self.said["area_bytes"].is_null() { builder } else { builder.area_path(self.area()) }
    }

    /// Checks that the number in `bytes` is allowed for this sector.
    fn compare(&self, sector: u64, bytes: &[u8], when: &str) {
        assert_eq!(bytes.len(), SECTOR);
        let seed = self.said["seed"].as_u64().unwrap();
        let is = |version: u64| {
            let word = if version == 0 { 0 } else { sector | version << 32 | seed << 48 };
            bytes.chunks(8).all(|w| w == word.to_le_bytes())
        };
        let allowed = &self.allowed[sector as usize];
        let fits = if allowed.is_empty() { is(0) } else { allowed.iter().any(|&v| is(v)) };
        assert!(
            fits,
            "{}, {when}: sector {sector} begins {:02x?}; versions {allowed:?} of {seed} may stand there",
            self.name,
            &bytes[..8]
        );
    }

    /// Reads everything.
    fn compare_all(&self, server: &ServerHandle, when: &str) {
        let mut client = client(server);
        assert_eq!(client.size(), self.allowed.len() as u64 * SECTOR as u64, "{}", self.name);
        for at in (0..self.allowed.len() as u64).step_by(READ as usize) {
            let len = READ.min(self.allowed.len() as u64 - at);
            let bytes = client.read(at * SECTOR as u64, len as u32 * SECTOR as u32).unwrap();
            for (i, bytes) in bytes.chunks(SECTOR).enumerate() {
                self.compare(at + i as u64, bytes, when);
            }
        }
    }

    /// Reads everything by page; returns the pages with an error.
    fn compare_pages(&self, server: &ServerHandle, when: &str) -> Vec<u64> {
        let mut client = client(server);
        let mut told = Vec::new();
        for at in (0..self.allowed.len() as u64).step_by(PAGE_SECTORS as usize) {
            match client.read(at * SECTOR as u64, PAGE as u32) {
                Ok(bytes) => {
                    for (i, bytes) in bytes.chunks(SECTOR).enumerate() {
                        self.compare(at + i as u64, bytes, when);
                    }
                }
                Err(ClientError::Errno(_)) => told.push(at),
                Err(e) => panic!("{}, {when}: {e}", self.name),
            }
        }
        told
    }
}

fn is_served(name: &'static str) {
    let f = Fixture::new(name, "fixture");
    // Readers write nothing.
    let looking = f.builder().read_only(true).spawn().unwrap();
    f.compare_all(&looking, "read-only");
    looking.stop().unwrap();

    let server = f.builder().spawn().unwrap();
    let report = server.attached().unwrap();
    let pages = |state: &str| f.said["pages"][state].as_u64().unwrap();
    assert_eq!(Value::from(report.clean), f.said["detached_in_order"], "{name}: {report:?}");
    assert_eq!(report.dirty, pages("dirty"), "{name}: {report:?}");
    assert_eq!(report.records, f.said["log_records"].as_u64().unwrap(), "{name}: {report:?}");
    // Detached in order, and home may have been written since, because it is another file: copies
    // are dropped.
    let dropped = report.clean && !report.trusted && f.said["stained_sectors"] == 0;
    let copies = if dropped { 0 } else { pages("clean") + pages("suspect") };
    assert_eq!(report.copies + report.suspects, copies, "{name}: {report:?}");
    f.compare_all(&server, "attached");
    // By now some copies are proven, and RAM holds some data.
    f.compare_all(&server, "read again");
    let stats = server.stop().unwrap();
    assert_eq!(stats.area.failure, None, "{name}");

    let server = f.builder().spawn().unwrap();
    assert!(server.attached().unwrap().clean, "{name} was not detached in order");
    f.compare_all(&server, "after a clean stop");
    server.command(seekless_engine::Command::Drain).unwrap();
    let begun = Instant::now();
    while !server.stats().unwrap().area.drained {
        let area = server.stats().unwrap().area;
        assert!(begun.elapsed() < Duration::from_secs(20), "{name} is not drained: {area:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    f.compare_all(&server, "drained");
    server.stop().unwrap();
    if !f.said["area_bytes"].is_null() {
        // Bare home is the volume now.
        let home = std::fs::read(f.home()).unwrap();
        for (i, bytes) in home.chunks(SECTOR).enumerate() {
            f.compare(i as u64, bytes, "home by itself");
        }
    }
    let server = f.builder().spawn().unwrap();
    assert_eq!(server.attached().unwrap().dirty, 0, "{name}");
    f.compare_all(&server, "drained and attached again");
    server.stop().unwrap();
}

/// Without RAM and page cache, several threads deliver the pieces of a read.
fn is_served_piece_by_piece(name: &'static str) {
    let f = Fixture::new(name, "pieces");
    let server = f.builder().spawn().unwrap();
    let mut client = client(&server);
    let files: Vec<_> = [f.home(), f.area()].iter().filter_map(|p| File::open(p).ok()).collect();
    for at in (0..f.allowed.len() as u64).step_by(READ as usize) {
        for file in &files {
            file.sync_data().unwrap();
            rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
        let len = READ.min(f.allowed.len() as u64 - at) as u32;
        let bytes = client.read(at * SECTOR as u64, len * SECTOR as u32).unwrap();
        for (i, bytes) in bytes.chunks(SECTOR).enumerate() {
            f.compare(at + i as u64, bytes, "in pieces");
        }
    }
}

#[test]
fn pieces_of_a_read_do_not_overtake_each_other() {
    for name in ["writeback-clean", "writeback-killed", "replicas-clean", "replicas-killed"] {
        is_served_piece_by_piece(name);
    }
}

/// Damage from the manifest.
fn is_told(name: &'static str) {
    let f = Fixture::new(name, "damage");
    let mut kinds = Vec::new();
    for row in f.said["damage"].as_array().unwrap() {
        let what = row[0].as_str().unwrap();
        f.restore();
        let path = if row[1] == "area" { f.area() } else { f.home() };
        for offset in row[2].as_array().unwrap() {
            flip(&path, offset.as_u64().unwrap());
        }
        match (f.builder().spawn(), &row[3]) {
            (Err(e), told) => {
                assert_eq!(told, "refused", "{name}, {what}: {e}");
                assert!(matches!(e, ServeError::Area { .. }), "{name}, {what}: {e:?}");
            }
            (Ok(server), Value::String(told)) => {
                assert_eq!(told, "nothing", "{name}, {what}: it was attached");
                assert_eq!(f.compare_pages(&server, what), Vec::<u64>::new(), "{name}, {what}");
                server.stop().unwrap();
            }
            (Ok(server), told) => {
                let lost = told[0].as_u64().unwrap() / PAGE_SECTORS * PAGE_SECTORS;
                assert_eq!(f.compare_pages(&server, what), vec![lost], "{name}, {what}");
                drop(server);
            }
        }
        kinds.push(what);
    }
    assert!(kinds.len() >= 2, "{name}: {kinds:?}");
}

macro_rules! fixtures {
    ($($module:ident $name:literal)*) => {$(
        mod $module {
            #[test]
            fn is_served_as_it_was_written() {
                super::is_served($name);
            }
            #[test]
            fn damage_is_told_and_not_served() {
                super::is_told($name);
            }
        }
    )*};
}

fixtures! {
    writethrough_clean "writethrough-clean"
    writethrough_killed "writethrough-killed"
    writeback_clean "writeback-clean"
    writeback_killed "writeback-killed"
    writeback_inside_killed "writeback-inside-killed"
    replicas_clean "replicas-clean"
    replicas_killed "replicas-killed"
    writethrough_killed_3 "3-writethrough-killed"
    writeback_clean_3 "3-writeback-clean"
    writeback_killed_3 "3-writeback-killed"
    trail_killed_3 "3-trail-killed"
    replicas_clean_3 "3-replicas-clean"
    replicas_killed_3 "3-replicas-killed"
}
