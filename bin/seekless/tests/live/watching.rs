//! What is shown of a running server: the metrics as Prometheus' own parser reads them, the shadow
//! of the vanilla system against the disk that served, and `seekless top`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use seekless_serve::Address;
use seekless_serve::client::Client;
use serde_json::Value;

use crate::host::{self, Numbers, Server};
use crate::need;

/// A server with a page on a unix socket, and a client.
pub(crate) struct Watched {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) page: PathBuf,
    pub(crate) url: String,
    _dir: tempfile::TempDir,
}

impl Watched {
    pub(crate) fn new(args: &[&str]) -> Self {
        Self::with(args, true)
    }

    /// The same, with the page where `args` say.
    pub(crate) fn on_tcp(args: &[&str]) -> Self {
        Self::with(args, false)
    }

    fn with(args: &[&str], unix: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let (nbd, page) = (path("nbd"), path("page"));
        let (nbd_arg, page_arg) =
            (format!("unix:{}", nbd.display()), format!("unix:{}", page.display()));
        let front = ["--nbd", &nbd_arg, "--http", &page_arg];
        let front = if unix { &front[..] } else { &front[..2] };
        let server = Server::start(dir.path(), &path("disk.img"), None, &[front, args].concat());
        let said = server.expect("http ");
        let url = said.trim_start_matches("http").trim().to_owned();
        let client = Client::connect(&Address::Unix(nbd)).unwrap();
        Self { server, client, page, url, _dir: dir }
    }

    fn top(&self, option: &str) -> Command {
        let address = format!("unix:{}", self.page.display());
        let mut command = host::seekless();
        command.args(["top", &address, option]).stdin(Stdio::null()).env("COLUMNS", "100");
        command
    }

    /// The status once it fits.
    pub(crate) fn status(&self, fits: impl FnMut(&Value) -> bool) -> Value {
        host::json_that(30, || host::json(&mut self.top("--json")), fits)
    }

    /// Groups of places far apart, each group read in the same order again and again.
    pub(crate) fn read_groups(&mut self, rounds: u64) -> u64 {
        let mut numbers = Numbers::new(3);
        let groups: Vec<Vec<u64>> =
            (0..8).map(|_| (0..12).map(|_| numbers.below(1 << 18) * 4096).collect()).collect();
        for round in 0..rounds {
            for at in &groups[(round % 8) as usize] {
                self.client.read(*at, 4096).unwrap();
            }
        }
        rounds * 12
    }
}

const DISK: [&str; 4] = ["--size", "1GiB", "--disk", "wd800jb,speed=50"];
/// Small enough that RAM answers nothing of what comes again.
const BARE: [&str; 4] = ["--cache", "0", "--read-ahead", "0"];

#[test]
fn with_no_copy_the_shadow_is_the_disk_itself() {
    for disk in [&["--disk", "wd800jb,speed=50"], &["--model", "wd800jb"]] {
        let args = [&["--size", "1GiB", "--policy", "vanilla"], &disk[..], &BARE].concat();
        let mut watched = Watched::new(&args);
        let asked = watched.read_groups(32);
        // Two looks after the last request nothing is in flight in the shadow either.
        let mut last = 0;
        let status = watched.status(|s| {
            let now = s["time_unix_ms"].as_u64().unwrap();
            if s["requests"]["total"] != asked || last == 0 {
                last = now;
            }
            now > last + 700
        });
        let busy = &status["busy"];
        let total = |of: &Value| {
            ["seek_s", "rotation_s", "transfer_s", "overhead_s"].map(|k| of[k].as_f64().unwrap())
        };
        let (now, vanilla) = (total(&busy["now"]), total(&busy["vanilla"]));
        let head = &busy["head"];
        assert_eq!(head.is_object(), busy["basis"] == "emulated", "{head}");
        assert!(head.is_null() || head["seek_cylinders"].as_u64() > Some(0), "{head}");
        let (n, v): (f64, f64) = (now.iter().sum(), vanilla.iter().sum());
        // The vanilla system gets each request at the volume's own instant: its platter stands the same.
        assert!((n / v - 1.0).abs() < 0.01, "{disk:?}: {now:?} and {vanilla:?}");
        let verdict = status["verdict"]["text"].as_str().unwrap();
        assert!(verdict.ends_with("the disk worked as much as without seekless"), "{verdict}");
        assert!(n > 0.5, "{n} s for {asked} reads of a disk that takes milliseconds for each");
        watched.server.stop();
    }
}

#[test]
fn what_was_learned_is_seen_to_pay_and_the_words_say_why() {
    // RAM for 32 pages: groups of 12 come round after 96, so that vanilla finds none of them there;
    // with copies, one read brings in most of a group.
    let little = ["--cache", "128KiB", "--read-ahead", "0", "--policy", "borg"];
    let mut watched = Watched::new(&[&DISK[..], &little].concat());
    watched.read_groups(40);
    watched.server.learn();
    let before = watched.status(|s| s["copies"]["usable_bytes"].as_u64() > Some(0));
    watched.read_groups(40);
    let after = watched.status(|s| s["requests"]["total"] == 960);
    let gone = |key: &str| {
        let of = |s: &Value| {
            let b = &s["busy"][key];
            b["seek_s"].as_f64().unwrap() + b["rotation_s"].as_f64().unwrap()
        };
        of(&after) - of(&before)
    };
    assert!(
        gone("now") < 0.6 * gone("vanilla"),
        "{} s, vanilla {} s",
        gone("now"),
        gone("vanilla")
    );
    assert!(after["requests"]["copy_reads"].as_u64().unwrap() > 20, "{after:#}");
    let text = host::succeeds(&mut watched.top("--once"));
    for words in
        ["Made a plan from", "The move is over: copies of", "vanilla", "plan      number 1: "]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains('\u{1b}') && text.lines().all(|l| l.chars().count() <= 100), "{text}");
    let counts = watched.server.stop();
    assert_eq!(counts["requests"], 960);
}

/// A Python with Prometheus' parser.
fn python() -> Option<&'static str> {
    ["python3", "/usr/bin/python3"].into_iter().find(|python| {
        let import = "import prometheus_client.openmetrics.parser";
        let ran = Command::new(python).args(["-c", import]).stderr(Stdio::null()).status();
        ran.is_ok_and(|s| s.success())
    })
}

/// Reads OpenMetrics from a unix socket over HTTP, parses it strictly, and prints the samples.
const PARSE: &str = r#"
import http.client, json, socket, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
connection = http.client.HTTPConnection("localhost")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(sys.argv[1])
connection.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
answer = connection.getresponse()
assert answer.getheader("Content-Type").startswith("application/openmetrics-text; version=1.0.0"), answer.headers
out = {}
for family in text_string_to_metric_families(answer.read().decode()):
    assert family.documentation and family.type in ("counter", "gauge", "info"), family
    for sample in family.samples:
        out[sample.name + "".join("," + v for _, v in sorted(sample.labels.items()))] = sample.value
print(json.dumps(out))
"#;

/// Reads the metrics as a collector that asks for nothing, and prints them.
const PLAIN: &str = r#"
import http.client, socket, sys
connection = http.client.HTTPConnection("localhost")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(sys.argv[1])
connection.request("GET", "/metrics")
sys.stdout.write(connection.getresponse().read().decode())
"#;

#[test]
fn promtool_finds_no_fault_with_the_metrics() {
    need!("promtool", "promtool python3");
    let mut watched = Watched::new(&DISK);
    let asked = watched.read_groups(9);
    watched.status(|s| s["requests"]["total"] == asked);
    let text = host::run(["python3", "-c", PLAIN, watched.page.to_str().unwrap()]);
    assert!(text.contains("seekless_disk_busy_seconds_total{"), "{text}");
    promtool(&text);
}

/// Fails if promtool finds a fault with these metrics.
pub(crate) fn promtool(text: &str) {
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = promtool.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

#[test]
fn prometheus_own_parser_reads_the_metrics() {
    let Some(python) = python() else {
        eprintln!("SKIPPED metrics: no Python has prometheus_client (python3-prometheus-client)");
        return;
    };
    let mut watched = Watched::new(&DISK);
    let asked = watched.read_groups(9);
    watched.status(|s| s["requests"]["total"] == asked);
    let text = host::run([python, "-c", PARSE, watched.page.to_str().unwrap()]);
    let samples: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(samples["seekless_requests_total"], 108.0);
    assert_eq!(samples["seekless_volume_bytes"], (1u64 << 30) as f64);
    let reads = ["ram", "copy", "home"]
        .map(|f| samples[format!("seekless_reads_total,{f}")].as_f64().unwrap());
    assert!(reads[2] > 50.0, "{reads:?}");
    for layout in ["now", "vanilla"] {
        let name = format!("seekless_disk_busy_seconds_total,{layout},seek");
        assert!(samples[&name].as_f64().unwrap() > 0.0, "{samples:#}");
    }
    // The dashboard asks for nothing that is not there.
    let dashboard = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana/seekless.json");
    let dashboard: Value = serde_json::from_slice(&std::fs::read(dashboard).unwrap()).unwrap();
    let mut asked = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            for word in expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
                if word.starts_with("seekless_") {
                    let known = samples.as_object().unwrap().keys();
                    assert!(known.clone().any(|k| k.split(',').next() == Some(word)), "{word}");
                    asked += 1;
                }
            }
        }
    }
    assert!(asked > 10, "{asked}");
}

#[test]
fn top_says_what_to_do_where_nobody_answers() {
    let dir = tempfile::tempdir().unwrap();
    for (address, words) in [
        (
            format!("unix:{}", dir.path().join("none").display()),
            "is `seekless serve --http` running",
        ),
        ("no-port".to_owned(), "no-port"),
    ] {
        host::refused(host::seekless().args(["top", &address, "--once"]), &[words]);
    }
}

#[test]
fn a_page_for_the_network_needs_a_token_and_a_model_needs_room() {
    let dir = tempfile::tempdir().unwrap();
    for (args, words) in [
        (&["--http", "0.0.0.0:0"][..], "can be reached from other machines"),
        (&["--http", "0.0.0.0:0", "--http-token", "short"], "at least 16"),
        (
            &["--http", "unix:page", "--model", "wd800jb", "--size", "100GiB"],
            "it holds 74.5 GiB, less than",
        ),
        (&["--model", "wd800jb", "--policy", "borg"], "--http"),
    ] {
        let image = dir.path().join("disk.img");
        let mut command = host::seekless();
        command.arg("serve").arg(&image).args(["--nbd", "unix:nbd"]).args(args);
        if !args.contains(&"--size") {
            command.args(["--size", "1MiB"]);
        }
        command.current_dir(dir.path()).env_remove("SEEKLESS_HTTP_TOKEN");
        host::refused(&mut command, &[words]);
        assert!(!image.exists(), "{args:?}: nothing is left behind");
    }
}
