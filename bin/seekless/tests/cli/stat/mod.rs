//! `seekless stat`, run as a person runs it: an independent calculation in Python, the contract of
//! its JSON. Knows nothing of the code behind.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::beside::shared;
use crate::support::Place;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn sample() -> String {
    format!("{ROOT}/sample/desktop.trace.zst")
}

/// Runs check.py; false, said aloud, where there is no Python.
fn agrees(test: &str, format: &str, trace: &Path, args: &[&str]) -> bool {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("SKIPPED {test}: no python3");
        return false;
    }
    let file = std::fs::File::open(trace).unwrap();
    let mut raw = Vec::new();
    match trace.extension().and_then(|e| e.to_str()) {
        Some("zst") => drop(zstd::Decoder::new(file).unwrap().read_to_end(&mut raw).unwrap()),
        Some("xz") => drop(liblzma::read::XzDecoder::new(file).read_to_end(&mut raw).unwrap()),
        _ => unreachable!("{}", trace.display()),
    }
    let place = Place::new();
    place.ok(&[&["stat", trace.to_str().unwrap(), "--json", "a.json"], args].concat());
    let mut check = Command::new("python3")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/stat/check.py"))
        .args([format.as_ref(), place.path("a.json").as_os_str()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = check.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&raw));
    let out = check.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    eprintln!("{} {args:?}: {said}", trace.display());
    assert!(out.status.success(), "{said}");
    assert!(!said.contains("\n0 numbers"), "nothing was compared");
    true
}

/// False, said aloud, in the short form.
fn is_long(test: &str) -> bool {
    let long = std::env::var_os("SEEKLESS_LONG").is_some();
    if !long {
        eprintln!("SKIPPED {test} (the rest): long; SEEKLESS_LONG=1 runs it");
    }
    long
}

#[test]
fn a_python_script_finds_the_same_in_the_sample_trace() {
    let name = "a_python_script_finds_the_same_in_the_sample_trace";
    // Days of 45 s: each of the six rounds is one.
    if agrees(name, "tracefs", sample().as_ref(), &["--day", "45s"]) && is_long(name) {
        agrees(name, "tracefs", sample().as_ref(), &["--day", "45s", "--memory", "16MiB"]);
    }
}

#[test]
fn a_python_script_finds_the_same_in_reference_traces() {
    let name = "a_python_script_finds_the_same_in_reference_traces";
    if !is_long(name) {
        return;
    }
    let Some(dir) = shared(name, "traces") else { return };
    for (format, file, memory) in
        [("lis", "P3.lis.zst", "16MiB"), ("srt", "ajw.1week.srt.xz", "1GiB")]
    {
        agrees(name, format, &dir.join(file), &["--memory", memory]);
    }
}

/// Every key with the keys above it; elements of lists as one.
fn keys(value: &Value, at: &str, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                if value.get("plus_minus").is_some_and(|_| value.get("exact").is_some()) {
                    out.insert(at);
                } else {
                    keys(value, &at, out);
                }
            }
        }
        // A list of nothing does not tell what it is of; another trace does.
        Value::Array(list) if list.is_empty() => {}
        Value::Array(list) if list.iter().any(Value::is_object) => {
            list.iter().for_each(|v| keys(v, &format!("{at}[]"), out));
        }
        _ => drop(out.insert(at.to_owned())),
    }
}

#[test]
fn every_key_of_the_json_is_in_the_document() {
    let place = Place::new();
    let mut all = BTreeSet::new();
    let args = ["stat", &sample(), "--day", "45s", "--size", "8GiB"];
    keys(&place.told(&args), "", &mut all);
    if let Some(shared) =
        shared("every_key_of_the_json_is_in_the_document: service times", "traces")
    {
        let trace = shared.join("ajw.1week.srt.xz");
        keys(&place.told(&["stat", trace.to_str().unwrap()]), "", &mut all);
    }
    let document = std::fs::read_to_string(format!("{ROOT}/docs/using/stat.md")).unwrap();
    let shape = ["count", "mean", "min", "p50", "p90", "p99", "max", "plus_minus_share", "curve"];
    for key in &all {
        // Distributions share their keys.
        let base = key.rsplit_once('.').filter(|(_, last)| shape.contains(last));
        let known = |k: &str| document.contains(&format!("`{k}`"));
        let ok = known(key)
            // A list that is empty here.
            || document.contains(&format!("`{key}[]."))
            || base.is_some_and(|(above, last)| known(above) && known(&format!(".{last}")));
        assert!(ok, "docs/using/stat.md does not name {key}");
    }
    assert!(all.len() > 90, "{}", all.len());
}

#[test]
fn the_store_the_pipe_and_the_file_say_the_same() {
    let place = Place::new();
    let text = "0.0 0 0 8 1\n1.0 0 100 8 1\n1.5 0 108 16 0\n900.0 1 0 8 1\n";
    place.file("a.trace", text).ok(&["convert", "a.trace", "a.parquet"]);
    let alike = |mut v: Value| {
        v["trace"]["path"] = Value::Null;
        v["trace"]["format"] = Value::Null;
        v
    };
    let file = alike(place.told(&["stat", "a.trace"]));
    assert_eq!(file, alike(place.told(&["stat", "a.parquet"])));
    let piped = place.feed(&["stat", "-", "--json", "-"], text.as_bytes());
    assert_eq!(file, alike(serde_json::from_str(&piped.out).unwrap()));
    assert_eq!(file["table1"]["reads"], 3);
    let one = place.told(&["stat", "a.trace", "--device", "1"]);
    assert_eq!((&one["trace"]["requests"], &one["device"]), (&1.into(), &"1".into()));
    // A single request has no span, no pair and no second window.
    assert_eq!(one["table1"]["determinism"]["non_sequential"], 0);
    assert_eq!(one["time"]["bursts"], Value::Array(Vec::new()));
}

#[test]
fn the_tables_and_the_report_say_what_is_exact() {
    let place = Place::new();
    let args = ["--day", "45s", "--report", "a.html", "--top", "3", "--figures", "figures"];
    let ran = place.done(&[&["stat", &sample()][..], &args].concat());
    // PNG needs a font on this machine: that may be said, nothing else.
    assert!(ran.err.is_empty() || ran.err.contains("no PNG files"), "{}", ran.err);
    for words in
        ["partial determinism", "exact", "Bursts", "first accesses", "git", "89,497 requests"]
    {
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
    assert!(!ran.out.contains("±  ") && !ran.out.contains("NaN"), "{}", ran.out);
    let html = place.text_of("a.html");
    for words in [
        "by rank",
        "hottest pages take",
        "RAM would save",
        "over time and address",
        "How long heat lasts",
    ] {
        assert!(html.contains(words), "{words}");
    }
    assert!(!html.contains("No data"), "a figure is empty");
    let names = place.names_in("figures");
    for ending in [".svg", ".csv"] {
        let found = names.iter().filter(|n| n.ends_with(ending)).count();
        assert_eq!(found, html.matches("<figure ").count(), "{names:?}");
    }
    // Little memory: the numbers say that they are estimates.
    let ran = place.run(&["stat", &sample(), "--memory", "16MiB"]);
    assert!(ran.out.contains("± "), "{}", ran.out);
}

#[test]
fn what_the_trace_warns_of_is_passed_on_and_every_figure_is_a_file() {
    let calls = "1 1700000000.000100 open(\"/a\", O_RDONLY) = 3\n1 1700000000.000200 read(3, \"\"..., 8192) = 8192\n";
    let place = Place::with("t", calls);
    let ran = place.done(&["stat", "t", "--json", "t.json", "--figures", "f"]);
    assert!(ran.err.contains("note: this is a trace of files"), "{}", ran.err);
    let v = place.read("t.json");
    assert!(v["notes"][0].as_str().unwrap().contains("this is a trace of files"), "{v:#}");
    let names = place.names_in("f");
    let count = |end: &str| names.iter().filter(|n| n.ends_with(end)).count();
    assert!(count(".svg") >= 6 && count(".svg") == count(".csv"), "{names:?}");
    // Skipped records are reported too.
    let ran =
        place.feed(&["stat", "-", "--lenient"], b"0.0 0 0 8 1\nnot a request\n1.0 0 100 8 1\n");
    assert!(ran.err.contains("note: 1 malformed records were skipped"), "{}", ran.err);
    let text = b"1 1.0 open(\"/a\", O_RDONLY) = 3\n1 1.1 read(3, \"\"..., 8) = 8\n1 1.2 read(5, \"\"..., 8) = 8\n";
    let ran = place.feed(&["stat", "strace:-", "--json", "-"], text);
    assert!(ran.err.contains("note: 1 calls were left out"), "{}", ran.err);
    let v: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(v["trace"]["unknown_files"], 1);
}

#[test]
fn lenient_reading_counts_what_it_skips() {
    let place = Place::with("line", "0.0 0 0 8 1\nnot a request\n1.0 0 100 8 1\n");
    place.refuses("stat line", &["line: line 2", "expected", "lenient"]);
    let trace = &place.told(&["stat", "--lenient", "line"])["trace"];
    assert_eq!((&trace["requests"], &trace["malformed"]), (&2.into(), &1.into()));
}
