//! What every test here needs: the binary, a folder of its own, made traces, a disk worked out on
//! paper.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

pub(crate) use seekless_block::Dice;
use serde_json::Value;
use tempfile::TempDir;

/// A disk for calculations by hand.
pub(crate) const TOY: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../base/disk/tests/fixtures/toy.toml"));

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

impl Ran {
    /// Bad input: exit code 2, nothing on standard output, and a message with these words. In a
    /// word, `|` stands between alternatives.
    pub(crate) fn refused(&self, line: &str, words: &[&str]) {
        assert_eq!((self.code, self.out.as_str()), (Some(2), ""), "`{line}`: {}", self.err);
        assert!(!self.err.contains("panicked"), "`{line}`: {}", self.err);
        for word in words {
            let holds = word.split('|').any(|w| self.err.contains(w));
            assert!(holds, "`{line}`: {word:?} is not in\n{}", self.err);
        }
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder with this file.
    pub(crate) fn with(name: &str, bytes: impl AsRef<[u8]>) -> Self {
        let place = Self::new();
        place.file(name, bytes);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.path(name), bytes).unwrap();
        self
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.names_in("")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(crate::PROGRAM);
        command.args(args).current_dir(self.0.path()).env_remove("COLUMNS").stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.command(args).output().unwrap().into()
    }

    /// Runs this line of words, which must be refused and leave nothing behind.
    pub(crate) fn refuses(&self, line: &str, words: &[&str]) {
        let (before, args) = (self.names(), self::words(line));
        self.run(&args).refused(line, words);
        assert_eq!(self.names(), before, "`{line}` left something behind");
    }

    /// Runs with standard output to a pipe that nobody reads any more.
    pub(crate) fn unread(&self, args: &[&str]) -> Ran {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        self.command(args).stdout(writer).stderr(Stdio::piped()).output().unwrap().into()
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

    /// Stops a run by SIGINT once its unfinished output is there: it says so, and leaves nothing.
    pub(crate) fn stops(&self, args: &[&str]) {
        let before = self.names();
        let child = self.command(args).stderr(Stdio::piped()).spawn().unwrap();
        while self.names() == before {
            std::thread::yield_now();
        }
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let ran = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.code() == Some(2) && said.contains("was stopped"), "{said}");
        assert_eq!(self.names(), before);
    }

    /// A run that must succeed.
    pub(crate) fn done(&self, args: &[&str]) -> Ran {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.err);
        ran
    }

    /// Standard output of a run that must succeed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        self.done(args).out
    }

    /// The names of the files in a folder here.
    pub(crate) fn names_in(&self, folder: &str) -> Vec<String> {
        let entries = self.path(folder).read_dir().unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A text that a run wrote.
    pub(crate) fn text_of(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.path(name));
        text.unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// Standard error of a run that must be refused.
    pub(crate) fn fails(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        ran.refused(&args.join(" "), &[]);
        ran.err
    }

    /// The document of `... --json -`, which must succeed.
    pub(crate) fn told(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[args, &["--json", "-"]].concat())).unwrap()
    }

    /// A document that a run wrote.
    pub(crate) fn read(&self, name: &str) -> Value {
        serde_json::from_slice(&std::fs::read(self.path(name)).unwrap()).unwrap()
    }

    /// The text of `simulate ... --json -`, which must succeed.
    pub(crate) fn text(&self, args: &[&str]) -> String {
        self.ok(&[&["simulate"], args, &["--json", "-"]].concat())
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

/// The words of a line.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

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

/// Reads of 8 sectors, scattered over 20 GB.
pub(crate) fn scattered(dice: &mut Dice, n: usize) -> Vec<(u64, u64, bool)> {
    (0..n).map(|_| (dice.below(5_000_000) * 8, 8, true)).collect()
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
    let mut dice = Dice::new(1);
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
