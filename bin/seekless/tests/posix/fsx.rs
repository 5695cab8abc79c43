//! Random work on files of which a model in RAM knows every byte, after fsx (Apple, then FreeBSD
//! and LTP): reads, writes, cuts, mappings, holes, syncs, closing and opening, from several threads
//! and processes at once, while files are moved between the two modules beneath. SEEKLESS_FSX=N
//! makes N operations of each; SEEKLESS_SEED repeats a run.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use rustix::fs::{FallocateFlags, OFlags, fallocate};

use crate::case::{difference, fill, open};
use crate::ground::{Ground, RESTLESS, shuffle};
use crate::host::{self, Numbers};
use crate::need;
use crate::sys::Map;

/// Some files grow beyond what a group keeps, so that they go back and forth; the others do not.
const LARGEST: [u64; 2] = [160_000, 56_000];
const TOLD: &str = "SEEKLESS_FSX_CHILD";

fn operations() -> u64 {
    host::rounds("SEEKLESS_FSX", 400, 6_000)
}

/// One file and what it must hold.
struct Tester {
    path: PathBuf,
    file: File,
    model: Vec<u8>,
    numbers: Numbers,
    largest: u64,
    /// Files may be moved: it is a mount.
    moves: bool,
    done: Vec<String>,
}

impl Tester {
    fn new(path: &Path, seed: u64, largest: u64, moves: bool) -> Self {
        let file = open(path, OFlags::CREATE | OFlags::RDWR, 0o644).unwrap();
        Self {
            path: path.to_owned(),
            file,
            model: Vec::new(),
            numbers: Numbers::new(seed),
            largest,
            moves,
            done: Vec::new(),
        }
    }

    fn fail(&self, what: &str) -> ! {
        let tail = self.done.iter().rev().take(12).rev().cloned().collect::<Vec<_>>().join("\n  ");
        panic!(
            "{}: {what}; the last of {} operations:\n  {tail}",
            self.path.display(),
            self.done.len()
        );
    }

    fn expect(&self, what: &str, got: &[u8], from: usize) {
        let wanted = &self.model[from..from + got.len()];
        if got != wanted {
            self.fail(&format!("{what} from {from}: {}", difference(got, wanted)));
        }
    }

    fn did<E: std::fmt::Debug>(&self, result: Result<(), E>) {
        if let Err(error) = result {
            self.fail(&format!("{error:?}"));
        }
    }

    /// Most are small, many around the size where a file leaves its group.
    fn offset(&mut self) -> u64 {
        match self.numbers.below(4) {
            0 => self.numbers.below(4_096),
            1 if self.largest > 70_000 => 65_000 + self.numbers.below(1_200),
            _ => self.numbers.below(self.largest),
        }
    }

    fn step(&mut self) {
        let size = self.model.len() as u64;
        let (at, len) = (self.offset(), 1 + self.numbers.below(9_000));
        let within = if size > 0 { self.numbers.below(size) } else { 0 };
        let kind = self.numbers.below(16);
        self.done.push(format!("{kind}: at {at} len {len}, within {within}, size {size}"));
        match kind {
            0..=3 => {
                let bytes = self.numbers.bytes(len as usize);
                self.did(self.file.write_all_at(&bytes, at));
                let end = (at + len) as usize;
                self.model.resize(self.model.len().max(end), 0);
                self.model[at as usize..end].copy_from_slice(&bytes);
            }
            4..=6 => {
                let mut got = vec![0; (len.min(size - within)) as usize];
                self.did(self.file.read_exact_at(&mut got, within));
                self.expect("read", &got, within as usize);
            }
            7 => {
                self.did(self.file.set_len(at));
                self.model.resize(at as usize, 0);
            }
            8 if size > 0 => {
                let map = Map::new(&self.file, size as usize, false, true);
                let Ok(map) = map else { self.fail(&format!("mmap: {:?}", map.err())) };
                let mut got = vec![0; (len.min(size - within)) as usize];
                map.read(within as usize, &mut got);
                self.expect("mapped read", &got, within as usize);
            }
            9 if size > 0 => {
                let map = Map::new(&self.file, size as usize, true, true);
                let Ok(map) = map else { self.fail(&format!("mmap: {:?}", map.err())) };
                let bytes = self.numbers.bytes(len.min(size - within) as usize);
                map.write(within as usize, &bytes);
                if self.numbers.below(2) == 0 {
                    self.did(map.sync());
                }
                self.model[within as usize..within as usize + bytes.len()].copy_from_slice(&bytes);
            }
            10 => {
                self.did(fallocate(&self.file, FallocateFlags::empty(), at, len));
                self.model.resize(self.model.len().max((at + len) as usize), 0);
            }
            11 => {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                self.did(fallocate(&self.file, hole, at, len));
                let range = at.min(size) as usize..(at + len).min(size) as usize;
                self.model[range].fill(0);
            }
            12 => self.did(if len % 2 == 0 { self.file.sync_all() } else { self.file.sync_data() }),
            13 => {
                let len = std::fs::metadata(&self.path).map(|m| m.len());
                if len.as_ref().ok() != Some(&size) {
                    self.fail(&format!("its size is told to be {len:?}"));
                }
            }
            // Closed, it may be moved; what is next meets it wherever it is then.
            14 => {
                match File::open(&self.path) {
                    Ok(file) => self.file = file,
                    Err(e) => self.fail(&format!("{e}")),
                }
                self.whole();
                match File::open("/dev/null") {
                    Ok(nothing) => self.file = nothing,
                    Err(e) => self.fail(&format!("{e}")),
                }
                if self.moves && self.numbers.below(2) == 0 {
                    shuffle(self.path.parent().unwrap());
                }
                match std::fs::read(&self.path) {
                    Ok(all) if all == self.model => {}
                    Ok(all) => self.fail(&format!("closed: {}", difference(&all, &self.model))),
                    Err(e) => self.fail(&format!("closed: {e}")),
                }
                match open(&self.path, OFlags::RDWR, 0) {
                    Ok(file) => self.file = file,
                    Err(e) => self.fail(&format!("{e}")),
                }
            }
            _ => self.whole(),
        }
    }

    fn whole(&self) {
        let mut got = vec![0; self.model.len() + 1];
        let read = fill(&self.file, &mut got);
        let Ok(read) = read else { self.fail(&format!("reading all: {read:?}")) };
        got.truncate(read);
        if got != self.model {
            self.fail(&format!("all of it: {}", difference(&got, &self.model)));
        }
    }
}

/// Files of one process, a thread each.
fn work(dir: &Path, seed: u64, operations: u64, moves: bool) {
    std::thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                let path = dir.join(format!("{}-{thread}", std::process::id()));
                let largest = LARGEST[thread as usize % 2];
                let mut tester = Tester::new(&path, seed.wrapping_add(thread), largest, moves);
                (0..operations).for_each(|_| tester.step());
                tester.whole();
                drop(tester.file);
                assert_eq!(std::fs::read(&path).unwrap(), tester.model, "{}", path.display());
            });
        }
    });
}

/// Another process's part.
#[test]
fn a_process_at_work() {
    let Some(told) = std::env::var_os(TOLD) else { return };
    let told = Path::new(&told);
    work(told, host::seed(), operations(), host::is_mounted(told));
}

fn all(ground: &Ground) {
    let (root, seed) = (ground.root(), host::seed());
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if ground.is_mounted() {
            scope.spawn(|| {
                while !ended.load(SeqCst) {
                    for entry in std::fs::read_dir(&root).into_iter().flatten().flatten() {
                        let _ = std::fs::read(entry.path());
                    }
                    shuffle(&root);
                }
            });
        }
        let result = std::panic::catch_unwind(|| {
            let children: Vec<_> = (1..=2)
                .map(|i| {
                    let mut child = Command::new(std::env::current_exe().unwrap());
                    child.args(["--exact", "fsx::a_process_at_work", "--nocapture"]);
                    child.env(TOLD, &root).env("SEEKLESS_SEED", (seed + 100 * i).to_string());
                    child.stdout(Stdio::null()).spawn().unwrap()
                })
                .collect();
            work(&root, seed, operations(), ground.is_mounted());
            for mut child in children {
                assert!(
                    child.wait().unwrap().success(),
                    "another process's files are wrong: see above"
                );
            }
        });
        ended.store(true, SeqCst);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn random_work_on_a_plain_directory() {
    all(&Ground::plain());
}

#[test]
fn random_work_while_files_move() {
    need!("fsx", "root fuse");
    let ground = Ground::mounted(RESTLESS);
    all(&ground);
    let moved = ground.state();
    let counts = ["came", "returned", "grouped_writes"].map(|n| moved[n].as_u64().unwrap());
    eprintln!(
        "{} files came, {} went home, {} writes in the store",
        counts[0], counts[1], counts[2]
    );
    assert!(counts[0] > 10 && counts[2] > 10, "nothing moved, or was written there: {moved}");
    ground.end();
}
