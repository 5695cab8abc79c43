//! `seekless convert`: whole or not at all, and never over what is there.

use crate::support::{Place, mixed};

const BAD: &str = "0.0 0 0 8 1\n1.0 0 100 8 1\nnot a request\n3.0 0 300 8 1\n4.0 0 300 0 1\n";

#[test]
fn it_says_what_was_converted_and_what_was_not() {
    let place = Place::new();
    place.file("a.trace", mixed()).file("bad", BAD);
    let ran = place.run(&["convert", "a.trace", "a.parquet"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""));
    let lines = mixed().lines().count().to_string();
    for word in ["a.parquet", &lines, "a.trace", "DiskSim"] {
        assert!(ran.err.contains(word), "{word}: {}", ran.err);
    }
    assert!(!ran.err.contains("skipped"), "{}", ran.err);
    assert!(std::fs::read(place.path("a.parquet")).unwrap().starts_with(b"PAR1"));

    let ran = place.run(&["convert", "--lenient", "bad", "b.parquet"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for word in
        ["3 requests", "1 malformed", "line 3", "'not a request'", "1 requests of no sectors"]
    {
        assert!(ran.err.contains(word), "{word}: {}", ran.err);
    }
}

#[test]
fn it_replaces_nothing_unless_told_to() {
    let place = Place::new();
    place.file("a.trace", mixed()).file("out", "precious");
    let ran = place.run(&["convert", "a.trace", "out"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("out exists") && ran.err.contains("--force"), "{}", ran.err);
    assert_eq!(std::fs::read(place.path("out")).unwrap(), b"precious");
    let ran = place.run(&["convert", "--force", "a.trace", "out"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(std::fs::read(place.path("out")).unwrap().starts_with(b"PAR1"));
    // In place, from the store itself.
    let before = std::fs::read(place.path("out")).unwrap();
    let ran = place.run(&["convert", "--force", "out", "out"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(std::fs::read(place.path("out")).unwrap().len() * 2 > before.len());
    assert_eq!(place.names(), ["a.trace", "out"]);
}

#[test]
fn a_trace_that_ends_badly_leaves_nothing_and_harms_nothing() {
    let place = Place::new();
    place.file("bad", BAD).file("old.parquet", "precious").file("empty", "");
    let nothing = ["bad", "empty", "old.parquet"];
    for (args, words) in [
        (&["bad", "new.parquet"][..], &["bad: line 3", "expected", "lenient"][..]),
        (&["--force", "bad", "old.parquet"], &["bad: line 3"]),
        (&["empty", "new.parquet"], &["empty"]),
        (&["none", "new.parquet"], &["none", "No such file"]),
        (
            &["--lenient", "bad", "no/such/new.parquet"],
            &["no/such/new.parquet", "cannot be written"],
        ),
        (&["--lenient", "bad", "."], &["cannot be written", "directory"]),
        (&["--lenient", "bad", "-"], &["OUT", "'-'"]),
        (&["bad"], &["OUT"]),
    ] {
        let ran = place.run(&[&["convert"], args].concat());
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{args:?}: {}", ran.err);
        for word in words {
            assert!(ran.err.contains(word), "{args:?}: {word:?} is not in\n{}", ran.err);
        }
        assert_eq!(place.names(), nothing, "{args:?}");
    }
    assert_eq!(std::fs::read(place.path("old.parquet")).unwrap(), b"precious");
}

#[test]
fn standard_input_is_converted_too() {
    let place = Place::new();
    let ran = place.feed(&["convert", "-", "a.parquet"], mixed().as_bytes());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    place.file("a.trace", mixed());
    assert_eq!(place.run(&["convert", "a.trace", "b.parquet"]).code, Some(0));
    let runs =
        |name| crate::support::timeless(place.json(&[name, "--disk", "wd800jb"]))["runs"].clone();
    assert_eq!(runs("a.parquet"), runs("b.parquet"));
}

#[test]
fn help_has_examples() {
    let place = Place::new();
    for verb in ["convert", "simulate"] {
        let ran = place.run(&[verb, "--help"]);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
        assert!(ran.out.contains("Examples:") && ran.out.contains(&format!("seekless {verb}")));
    }
    let help = place.run(&["convert", "--help"]).out;
    for format in [
        "blktrace", "blkparse", "tracefs", "fio", "msr", "spc", "disksim", "mqsim", "lis", "vscsi",
        "srt",
    ] {
        assert!(help.contains(format), "{format}");
    }
}
