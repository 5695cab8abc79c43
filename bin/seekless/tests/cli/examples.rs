//! The examples in `--help`, run in a folder of their own as far as they need neither root, nor a
//! device, nor another program. A unit test of the program parses every one of them.

use std::collections::BTreeSet;
use std::io::Write as _;

use crate::support::{Place, mixed};
use crate::wrong::verbs;

/// What only a machine with disks has, and what belongs to the reader.
const ELSEWHERE: &[&str] =
    &["/dev/", "/run/", "/srv", "/var/", "/usr/", "9713", "unix:", "tcp:", "--root", "../"];
/// Verbs that run until they are stopped, draw on the clock, or ask a server.
const LIVE: [&str; 3] = [
    "demo,serve,record,top,watch,volume status,volume replan,volume mode,volume drain",
    "volume prove,volume detach,volume replicate,volume resize,volume check,volume repair",
    // The last needs measured times of a real disk.
    "volume dump,disk validate,disk import,disk fit",
];

fn packed(text: &str) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(text.as_bytes()).unwrap();
    gz.finish().unwrap()
}

/// A folder with the files that the examples name.
fn place() -> Place {
    let place = Place::new();
    let day: u64 = 864_000_000_000;
    let msr: String = (0..400u64)
        .map(|i| {
            format!(
                "{},prxy,0,Read,{},4096,900\n",
                128_166_372_000_000_000 + i * day / 40,
                (i % 50) * 1_000_000_000 / 4096 * 4096
            )
        })
        .collect();
    let alibaba: String = (0..400)
        .map(|i| {
            format!("{},R,{},4096,{}\n", 81 + i % 2, i * 8192, 1_577_808_000_000_000u64 + i * 1000)
        })
        .collect();
    let strace = "7 1.000000 openat(AT_FDCWD, \"/a\", O_RDONLY) = 3\n7 1.100000 read(3, \"\"..., 4096) = 4096\n7 1.200000 close(3) = 0\n";
    let text = mixed();
    place
        .file("week.blkparse.gz", packed(&text))
        .file("week.blkparse", &text)
        .file("prxy_0.csv", &msr)
        .file("prxy_1.csv", &msr)
        .file("random-reads.csv", &msr)
        .file("alibaba.csv.gz", packed(&alibaba))
        .file("web.strace", strace)
        .file("disk.img", vec![0; 64 << 20]);
    for to in ["week", "day", "sda", "trace", "home"] {
        place.ok(&["convert", "week.blkparse", &format!("{to}.parquet")]);
    }
    std::fs::create_dir(place.path("traces")).unwrap();
    place.file("traces/one.blkparse", &text);
    let shown = place.run(&["disk", "show", "wd800jb"]).out;
    place.file("mine.toml", &shown).file("cheetah9lp.toml", &shown);
    place.file("P3.lis.zst", zstd::encode_all(text.as_bytes(), 3).unwrap());
    place
}

/// Each example of a help: the words of its first program, if that is ours.
fn examples(help: &str) -> Vec<Vec<String>> {
    let Some((_, text)) = help.split_once("Examples:\n") else { return Vec::new() };
    let lines = text.split("\n\n").take_while(|p| p.starts_with("  ")).flat_map(str::lines);
    let ours = lines.filter_map(|l| l.trim().strip_prefix("seekless "));
    let part = |l: &str| l.split(['|', '&', '>']).next().unwrap().to_owned();
    let words = ours.map(|l| part(l.split("   then").next().unwrap()));
    words.map(|l| l.split_whitespace().map(|w| w.trim_matches('\'').to_owned()).collect()).collect()
}

#[test]
fn the_examples_of_every_help_do_what_they_say() {
    let place = place();
    let (mut run, mut left) = (BTreeSet::new(), 0);
    for verb in verbs(&place) {
        let path: Vec<&str> = verb.split('-').collect();
        let mut help = place.command(&[&path[..], &["--help"]].concat());
        let help = String::from_utf8(help.env("COLUMNS", "300").output().unwrap().stdout).unwrap();
        for words in examples(&help) {
            let line = words.join(" ");
            let live = LIVE.iter().flat_map(|l| l.split(',')).any(|v| line.starts_with(v));
            let live = live && !line.contains("--dry-run");
            let missing = |w: &&String| w.ends_with(".trace.0") || w.contains("blktrace");
            let absent = words.iter().any(|w| missing(&w))
                || words.contains(&"-".to_owned()) && words[0] == "convert" && words[1] == "-";
            if live
                || absent
                || ELSEWHERE.iter().any(|e| line.contains(e))
                || line.contains("blkparse:-")
            {
                left += 1;
                continue;
            }
            let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
            if args[0] == "convert" {
                // Another example may have written the same file.
                args.push("--force");
            }
            place.done(&args);
            run.insert(line);
        }
    }
    eprintln!("{} examples run, {left} parsed only", run.len());
    assert!(run.len() >= 20, "{run:?}");
}
