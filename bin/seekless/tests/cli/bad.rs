//! Bad input: exit code 2, nothing on standard output, and a message that says what, where, and
//! what to do.

use std::io::Write as _;

use crate::support::{Place, TOY, mixed, run_of, words};

const GOOD: &str = "0.0 0 0 8 1\n1.0 0 100 8 1\n2.0 0 200 8 0\n";

fn place() -> Place {
    let place = Place::new();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(mixed().as_bytes()).unwrap();
    let gz = gz.finish().unwrap();
    place
        .file("good", GOOD)
        .file("empty", "")
        .file("garbage", [0xfbu8, 0, 7, 0x91, 0xff, 0x1c, 200, 3].repeat(300))
        .file("cut.gz", &gz[..gz.len() / 2])
        .file("line", format!("{GOOD}not a request\n3.0 0 300 8 1\n"))
        .file("early.lis", "0 8 3 0\n8 8 3 1\n16 eight 3 2\n")
        .file("toy.toml", TOY)
        .file("type.toml", TOY.replace("capacity_sectors = 100000", "capacity_sectors = \"big\""))
        .file("range.toml", TOY.replace("rpm = 6000", "rpm = -1"))
        .file("field.toml", TOY.replace("rpm = 6000", "rmp = 6000"))
        .file("syntax.toml", TOY.replace("rpm = 6000", "rpm = = 6000"));
    place
}

#[test]
fn every_bad_input_is_refused_with_reasons() {
    let place = place();
    // Arguments after `simulate`, and words that the message must hold.
    let table: &[(&str, &[&str])] = &[
        ("none --disk wd800jb", &["none", "No such file"]),
        ("msr:none --disk wd800jb", &["none", "No such file"]),
        ("mrs:none --disk wd800jb", &["mrs:none", "not the name of a format"]),
        ("empty --disk wd800jb", &["empty", "the file is empty"]),
        ("garbage --disk wd800jb", &["garbage", "no known trace format", "FORMAT:garbage"]),
        ("srt:garbage --disk wd800jb", &["garbage", "expected"]),
        ("cut.gz --disk wd800jb", &["cut.gz", "reading stopped", "incomplete"]),
        ("line --disk wd800jb", &["line: line 4", "expected", "'not a request'", "lenient"]),
        ("early.lis --disk wd800jb", &["early.lis: line 3", "expected", "'16 eight 3 2'"]),
        (". --disk wd800jb", &["directory"]),
        ("good --disk wd80", &["'wd80'", "wd800jb", "exos-x20", ".toml"]),
        ("good --disk ./none.toml", &["none.toml", "No such file"]),
        ("good --disk type.toml", &["type.toml:4", "capacity_sectors", "\"big\""]),
        ("good --disk range.toml", &["range.toml:6", "mechanics.rpm", "-1", "allowed"]),
        ("good --disk field.toml", &["field.toml:6", "rmp", "expected"]),
        ("good --disk syntax.toml", &["syntax.toml:6"]),
        (
            "good --disk ./toy.toml --policy borg",
            &["toy", "optimized area", "larger disk", "smaller area"],
        ),
        ("good --disk wd800jb --optimized 99999TB", &["wd800jb", "smaller area"]),
        ("good --disk wd800jb --device 9", &["good", "'9'", "its devices"]),
        ("good --disk wd800jb --policy vanilla,brog", &["'brog'", "borg", "adaptive"]),
        ("good --disk wd800jb --cache 16XB", &["--cache", "'16XB'", "KiB", "GB"]),
        ("good --disk wd800jb --cache 99999TB", &["--cache", "99999TB", "64 GiB"]),
        ("good --disk wd800jb --cluster -1", &["-1"]),
        ("good --disk wd800jb --train 120%", &["--train", "'120%'", "0% to 100%"]),
        ("good --disk wd800jb --train 100%", &["nothing is left to measure", "lower"]),
        ("good --disk wd800jb --scheduler lift", &["--scheduler", "'lift'", "elevator"]),
        ("good --disk wd800jb --queue-depth 0", &["--queue-depth", "1"]),
        ("good --disk wd800jb --queue-depth 2 --open-loop", &["cannot be used with"]),
        ("good --disk wd800jb --event Z", &["--event", "Q", "D", "C"]),
        ("good --disk wd800jb --json no/such/o.json", &["no/such/o.json", "cannot write"]),
        ("good --disk wd800jb --json .", &["'.'", "it is a folder"]),
        ("good --disk wd800jb --json - --report no/o.html", &["no/o.html"]),
        ("good", &["--disk"]),
        ("--disk wd800jb", &["TRACE"]),
    ];
    for (line, words) in table {
        place.refuses(&format!("simulate {line}"), words);
    }
    place.feed(&["simulate", "-", "--disk", "wd800jb"], b"").refused("simulate -", &["empty"]);
}

#[test]
fn numbers_from_the_edge_are_refused_and_never_wrap() {
    let place = Place::new();
    let far = (1u64 << 55) - 8;
    let devices: String = (0..2000).map(|d| format!("{d}.0 {d} {far} 8 1\n")).collect();
    for (text, word) in [
        (devices, "larger disk"),
        (format!("0.0 0 {far} 8 1\n"), "larger disk"),
        (format!("0.0 0 0 {far} 1\n").repeat(2000), "larger disk"),
        (format!("0.0 0 {} 8 1\n", u64::MAX - 8), "line 1"),
        (format!("0.0 0 8 {} 1\n", u64::MAX), "line 1"),
        ("99999999999999999999999.0 0 8 8 1\n".to_owned(), "line 1"),
    ] {
        place.file("a.trace", &text);
        place.refuses("simulate disksim:a.trace --disk wd800jb --open-loop", &[word]);
    }
    // Centuries apart is odd, and no fault.
    place.file("a.trace", "0.0 0 0 8 1\n9223372036854.0 0 800 8 1\n0.0 0 1600 8 1\n");
    place.ok(&words("simulate disksim:a.trace --disk wd800jb --open-loop --train 0"));
}

#[test]
fn lenient_reading_counts_what_it_skips() {
    let place = place();
    let args = ["simulate", "line", "--disk", "wd800jb", "--lenient", "--json", "-"];
    let ran = place.done(&args);
    assert!(ran.err.contains("1 malformed record"), "{}", ran.err);
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&json["trace"]["skipped"], &json["trace"]["requests"]), (&1.into(), &4.into()));
    assert_eq!(run_of(&json, "vanilla")["requests"], 2);
    // A truncated file is no malformed record.
    place.refuses("simulate cut.gz --disk wd800jb --lenient", &[]);
}

#[test]
fn a_truncated_file_is_refused_wherever_it_ends() {
    let place = Place::new();
    let text = mixed();
    let zst = zstd::encode_all(text.as_bytes(), 3).unwrap();
    for share in [0.1, 0.5, 0.9, 0.99] {
        let end = (zst.len() as f64 * share) as usize;
        place.file("cut.zst", &zst[..end]);
        place.refuses("simulate cut.zst --disk wd800jb", &["cut.zst"]);
    }
}
