//! The mount's server is killed at any moment, with files being written, synced, removed and moved:
//! each file that was synced is whole, as it was then or newer, and in exactly one of the two
//! places. The page cache outlives a server: this is no power cut; those are enumerated in
//! `seekless-store`. SEEKLESS_KILLS=50 makes a long run of it.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use rustix::fs::{Mode, Timespec, Timestamps, XattrFlags};

use crate::case::Facts;
use crate::ground::{Ground, RESTLESS, shuffle};
use crate::host::{self, Numbers, seekless};
use crate::need;

const FILES: u64 = 24;

/// A file's bytes, which tell what they are.
fn content(file: u64, version: u64) -> Vec<u8> {
    let mut numbers = Numbers::new(file << 32 | version);
    // Some beyond what groups keep.
    let len = if numbers.below(8) == 0 { 70_000 } else { numbers.below(9_000) };
    let mut bytes = [file.to_le_bytes(), version.to_le_bytes()].concat();
    bytes.extend(numbers.bytes(len as usize));
    bytes
}

const fn mode_of(version: u64) -> u32 {
    0o600 + (version % 0o100) as u32
}

/// What is known of a file: its newest version that is synced, and the newest that was begun. 0:
/// there is none.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    synced: u64,
    begun: u64,
}

/// Writes a new version, by one of the ways that programs have.
fn renew(dir: &Path, file: u64, known: &Mutex<Known>, way: u64) -> std::io::Result<()> {
    let version = {
        let mut known = known.lock().unwrap();
        known.begun += 1;
        known.begun
    };
    let (path, bytes) = (dir.join(format!("file{file}")), content(file, version));
    // In place there would be moments at which it is neither: only a new file, renamed, is always
    // whole.
    let fresh = dir.join(format!("new{file}"));
    let mut f = File::create(&fresh)?;
    f.write_all(&bytes)?;
    rustix::fs::fchmod(&f, Mode::from_raw_mode(mode_of(version)))?;
    let at = Timespec { tv_sec: version as i64, tv_nsec: 7 };
    rustix::fs::futimens(&f, &Timestamps { last_access: at, last_modification: at })?;
    rustix::fs::fsetxattr(&f, "user.version", &version.to_le_bytes(), XattrFlags::empty())?;
    f.sync_all()?;
    drop(f);
    if way == 0 {
        // Moved perhaps before it gets its name.
        shuffle(dir);
    }
    fs::rename(&fresh, &path)?;
    File::open(dir)?.sync_all()?;
    known.lock().unwrap().synced = version;
    Ok(())
}

/// Which version a file holds; anything else is a loss.
fn version_of(file: u64, bytes: &[u8]) -> Result<u64, String> {
    let number =
        |at: usize| bytes.get(at..at + 8).map(|b| u64::from_le_bytes(b.try_into().unwrap()));
    match (number(0), number(8)) {
        (Some(f), Some(version)) if f == file && bytes == content(file, version) => Ok(version),
        other => Err(format!("{} bytes that are no version of it: {other:?}", bytes.len())),
    }
}

fn look(dir: &Path, known: &[Mutex<Known>], when: &str) {
    for (file, known) in (0..).zip(known) {
        let mut known = known.lock().unwrap();
        let path = dir.join(format!("file{file}"));
        let found = match fs::read(&path) {
            Ok(bytes) => {
                version_of(file, &bytes).unwrap_or_else(|e| panic!("{when}: file {file}: {e}"))
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => 0,
            Err(e) => panic!("{when}: file {file}: {e}"),
        };
        assert!(
            (known.synced..=known.begun).contains(&found),
            "{when}: file {file} is version {found}, and was {known:?}"
        );
        if found > 0 {
            let facts = Facts::of(rustix::fs::lstat(&path).unwrap());
            let attributes = (facts.permissions(), facts.mtime, facts.nlink);
            let wanted = (mode_of(found), i128::from(found) * 1_000_000_000 + 7, 1);
            assert_eq!(
                attributes, wanted,
                "{when}: mode, time and links of file {file}, version {found}"
            );
            let mut value = [0; 8];
            rustix::fs::getxattr(&path, "user.version", &mut value[..]).unwrap();
            assert_eq!(u64::from_le_bytes(value), found, "{when}: file {file}");
        }
        // What is found stays.
        known.synced = found;
    }
}

/// A record of a log, which is written where it lies.
fn record(writer: u64, n: u64) -> Vec<u8> {
    Numbers::new(writer << 40 | n).bytes(48)
}

/// Opens a log anew, wherever it is by now, puts a record behind it, and makes that durable.
fn append(dir: &Path, writer: u64, logged: &AtomicU64) -> std::io::Result<()> {
    let path = dir.join(format!("log{writer}"));
    let n = logged.load(SeqCst);
    let mut file = File::options().create(true).append(true).open(path)?;
    // What a kill tore off is written again.
    file.set_len(n * 48)?;
    file.write_all(&record(writer, n))?;
    file.sync_data()?;
    if n == 0 {
        File::open(dir)?.sync_all()?;
    }
    logged.store(n + 1, SeqCst);
    Ok(())
}

fn look_at_logs(dir: &Path, logged: &[AtomicU64], when: &str) {
    for (writer, logged) in (0..).zip(logged) {
        let synced = logged.load(SeqCst) as usize;
        let bytes = fs::read(dir.join(format!("log{writer}"))).unwrap_or_default();
        let wanted: Vec<u8> = (0..=synced as u64).flat_map(|n| record(writer, n)).collect();
        // The one record that was under way is there in part, or as zeroes where only its length
        // is.
        let whole = bytes.get(..synced * 48) == Some(&wanted[..synced * 48]);
        assert!(
            whole && bytes.len() <= wanted.len(),
            "{when}: log {writer} has {} bytes, {synced} records were synced, all as written: {whole}",
            bytes.len()
        );
    }
}

/// Beneath, what a mount has settled: a file has bytes, or a marker with an entry of the store, and
/// never both. How many have a marker.
fn in_one_place(ground: &Ground, when: &str) -> u64 {
    let mut marked = 0;
    for entry in fs::read_dir(ground.path("beneath")).unwrap() {
        let path = entry.unwrap().path();
        let marker = rustix::fs::getxattr(&path, "trusted.seekless.group", &mut [0; 64][..]);
        let size = path.symlink_metadata().unwrap().len();
        match marker {
            Ok(_) => {
                assert_eq!(size, 0, "{when}: {} has a marker and bytes", path.display());
                marked += 1;
            }
            Err(e) => assert_eq!(e, rustix::io::Errno::NODATA, "{when}: {}", path.display()),
        }
    }
    // An entry without a marker is nothing; each marker must have its entry.
    let entries = ground.state()["grouped_files"].as_u64().unwrap();
    assert!(marked <= entries, "{when}: {marked} markers, {entries} entries");
    marked
}

fn kills() -> u64 {
    host::rounds("SEEKLESS_KILLS", 2, 20)
}

fn check(ground: &Ground) {
    let mut check = seekless();
    check.args(["files", "check"]).arg(ground.path("beneath"));
    host::succeeds(check.arg("--store").arg(ground.path("groups")));
}

#[test]
fn synced_files_survive_kills_in_one_place() {
    need!("kills", Ground::missing());
    let mut ground = Ground::mounted(RESTLESS);
    let root = ground.root();
    let mut numbers = Numbers::new(host::seed());
    let known: Vec<Mutex<Known>> = (0..FILES).map(|_| Mutex::default()).collect();
    let logged: Vec<AtomicU64> = (0..3).map(|_| AtomicU64::new(0)).collect();
    let (mut came, mut written, mut renewed, mut marked) = (0, 0, 0, 0);
    for kill in 0..kills() {
        let ended = AtomicBool::new(false);
        let seeds = [numbers.next(), numbers.next(), numbers.next()];
        let wait = Duration::from_millis(150 + numbers.below(900));
        let counts = std::thread::scope(|scope| {
            let (root, known, logged, ended) = (&root, &known, &logged, &ended);
            let writers = seeds.map(|seed| {
                let mine = seeds.iter().position(|s| *s == seed).unwrap() as u64;
                scope.spawn(move || {
                    let (mut numbers, mut done) = (Numbers::new(seed), 0u64);
                    while !ended.load(SeqCst) {
                        let file = numbers.below(FILES / 3) * 3 + mine;
                        let way = numbers.below(4);
                        let log = append(root, mine, &logged[mine as usize]);
                        if log.and_then(|()| renew(root, file, &known[file as usize], way)).is_err()
                        {
                            break;
                        }
                        done += 1;
                        // Readers see it whole at any time.
                        let path = root.join(format!("file{file}"));
                        if let Ok(bytes) = fs::read(path) {
                            version_of(file, &bytes).unwrap();
                        }
                    }
                    done
                })
            });
            scope.spawn(move || {
                while !ended.load(SeqCst) {
                    for file in 0..FILES {
                        let _ = fs::read(root.join(format!("file{file}")));
                        let _ = fs::read(root.join(format!("log{}", file % 3)));
                    }
                    shuffle(root);
                }
            });
            std::thread::sleep(wait);
            let state = ground.state();
            came += state["came"].as_u64().unwrap();
            written += state["grouped_writes"].as_u64().unwrap();
            ground.kill_server();
            ended.store(true, SeqCst);
            writers.map(|w| w.join().unwrap())
        });
        renewed += counts.iter().sum::<u64>();
        ground.bury();
        ground.start(RESTLESS);
        marked += in_one_place(&ground, &format!("after kill {kill}"));
        look(&root, &known, &format!("after kill {kill}"));
        look_at_logs(&root, &logged, &format!("after kill {kill}"));
    }
    eprintln!(
        "{} kills, {renewed} versions and {} records synced, {came} files came, {written} writes in the store, {marked} were there after a kill",
        kills(),
        logged.iter().map(|l| l.load(SeqCst)).sum::<u64>()
    );
    assert!(
        came > 10 && written > 10 && renewed > 10 && marked > 0,
        "too little happened: {came} came, {written} written there, {renewed} renewed, {marked} in the store"
    );
    ground.stop();
    check(&ground);
    // All come home, and are then plain files: nothing was in two places.
    ground.start(RESTLESS);
    look(&root, &known, "mounted again");
    look_at_logs(&root, &logged, "mounted again");
    ground.bring_home();
    let beneath = ground.path("beneath");
    look(&beneath, &known, "home again");
    look_at_logs(&beneath, &logged, "home again");
    for entry in fs::read_dir(&beneath).unwrap() {
        let path = entry.unwrap().path();
        let marker = rustix::fs::getxattr(&path, "trusted.seekless.group", &mut [0; 64][..]);
        assert_eq!(marker, Err(rustix::io::Errno::NODATA), "{} has a marker yet", path.display());
    }
}
