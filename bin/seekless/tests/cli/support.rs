//! What every test here needs: the binary, a folder of its own, made traces, a disk worked out on
//! paper.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// One head, 1000 cylinders of 100 sectors, 6000 rpm: a revolution takes 10 ms, a sector 0.1 ms. No
/// skew. A seek takes 2 ms + 0.01 ms a cylinder.
pub(crate) const TOY: &str = r#"
name = "toy"
title = "A disk worked out on paper"
capacity_sectors = 100000
[mechanics]
rpm = 6000
head_switch_ms = 0.0
[seek]
kind = "table"
points = [[1, 2.01], [999, 11.99]]
[power]
seek_w = 10.0
rotation_transfer_w = 5.0
idle_w = 3.0
[geometry]
heads = 1
[[geometry.zone]]
first_cylinder = 0
cylinders = 1000
sectors_per_track = 100
track_skew = 0
cylinder_skew = 0
[[source]]
fields = ["capacity_sectors", "mechanics", "seek", "geometry", "power"]
kind = "derived"
from = "made up"
"#;

/// A folder that the binary runs in.
pub(crate) struct Place(TempDir);

/// What a run of the binary left.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(o: Output) -> Self {
        Self {
            code: o.status.code(),
            out: String::from_utf8(o.stdout).unwrap(),
            err: String::from_utf8(o.stderr).unwrap(),
        }
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.path(name), bytes).unwrap();
        self
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = self.0.path().read_dir().unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(crate::PROGRAM);
        command.args(args).current_dir(self.0.path()).env_remove("COLUMNS").stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.command(args).output().unwrap().into()
    }

    /// Runs with `input` on standard input.
    pub(crate) fn feed(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || stdin.write_all(&input));
        let ran = child.wait_with_output().unwrap().into();
        writer.join().unwrap().unwrap();
        ran
    }

    /// The text of `simulate ... --json -`, which must succeed.
    pub(crate) fn text(&self, args: &[&str]) -> String {
        let ran = self.run(&[&["simulate"], args, &["--json", "-"]].concat());
        assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.err);
        ran.out
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.text(args)).unwrap()
    }
}

/// The JSON without what the clock on the wall says.
pub(crate) fn timeless(mut json: Value) -> Value {
    for run in json["runs"].as_array_mut().unwrap() {
        run.as_object_mut().unwrap().remove("wall_s").unwrap();
        run.as_object_mut().unwrap().remove("requests_per_wall_s").unwrap();
    }
    json
}

/// The run of a policy.
pub(crate) fn run_of<'a>(json: &'a Value, policy: &str) -> &'a Value {
    // Settings follow a policy's name.
    let name = |run: &&Value| run["policy"].as_str().unwrap().split(':').next() == Some(policy);
    json["runs"].as_array().unwrap().iter().find(name).unwrap()
}

pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

pub(crate) fn busy(json: &Value, policy: &str) -> f64 {
    number(&run_of(json, policy)["busy_s"])
}

/// Numbers that look random and are the same on every run (SplitMix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }
}

/// DiskSim text, a request every 20 ms: first sector, sectors, whether it reads.
pub(crate) fn disksim(requests: &[(u64, u64, bool)]) -> String {
    let line = |(i, &(start, len, reads)): (usize, &(u64, u64, bool))| {
        format!("{}.0 0 {start} {len} {}\n", i * 20, u8::from(reads))
    };
    requests.iter().enumerate().map(line).collect()
}

/// A trace of every kind of request, some of them again and again: small, and of interest to every
/// policy.
pub(crate) fn mixed() -> String {
    let mut dice = Dice(1);
    let scattered: Vec<u64> = (0..60).map(|_| dice.below(4_000_000) * 8).collect();
    let mut requests = Vec::new();
    for round in 0..8 {
        for &at in &scattered {
            requests.push((at, 8 + 8 * (at % 3), true));
            if dice.below(5) == 0 {
                requests.push((dice.below(4_000_000) * 8, 8, round % 2 == 0));
            }
        }
    }
    disksim(&requests)
}

/// Where the reference traces lie; says so where they do not.
pub(crate) fn shared(test: &str) -> Option<PathBuf> {
    let named = std::env::var_os("SEEKLESS_SHARED").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let dir = named.unwrap_or(beside).join("traces");
    if dir.is_dir() {
        return Some(dir);
    }
    eprintln!("SKIPPED {test}: no ../shared");
    None
}
