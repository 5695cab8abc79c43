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

    let ran = place.done(&["convert", "--lenient", "bad", "b.parquet"]);
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
    place.refuses("convert a.trace out", &["out exists", "--force"]);
    assert_eq!(std::fs::read(place.path("out")).unwrap(), b"precious");
    place.ok(&["convert", "--force", "a.trace", "out"]);
    assert!(std::fs::read(place.path("out")).unwrap().starts_with(b"PAR1"));
    // In place, from the store itself.
    let before = std::fs::read(place.path("out")).unwrap();
    place.ok(&["convert", "--force", "out", "out"]);
    assert!(std::fs::read(place.path("out")).unwrap().len() * 2 > before.len());
    assert_eq!(place.names(), ["a.trace", "out"]);
}

#[test]
fn a_trace_that_ends_badly_leaves_nothing_and_harms_nothing() {
    let place = Place::new();
    place.file("bad", BAD).file("old.parquet", "precious");
    for (line, words) in [
        ("convert bad new.parquet", &["bad: line 3", "expected", "lenient"][..]),
        ("convert --force bad old.parquet", &["bad: line 3"]),
        (
            "convert --lenient bad no/such/new.parquet",
            &["no/such/new.parquet", "cannot be written"],
        ),
        ("convert --lenient bad .", &["cannot be written", "directory"]),
        ("convert --lenient bad -", &["OUT", "'-'"]),
    ] {
        place.refuses(line, words);
    }
    assert_eq!(std::fs::read(place.path("old.parquet")).unwrap(), b"precious");
}

#[test]
fn standard_input_is_converted_too() {
    let place = Place::new();
    let ran = place.feed(&["convert", "-", "a.parquet"], mixed().as_bytes());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    place.file("a.trace", mixed()).ok(&["convert", "a.trace", "b.parquet"]);
    let runs =
        |name| crate::support::timeless(place.json(&[name, "--disk", "wd800jb"]))["runs"].clone();
    assert_eq!(runs("a.parquet"), runs("b.parquet"));
}

#[test]
fn other_formats_are_written_to_files_and_standard_output() {
    let place = Place::with("a.trace", "0.0 0 2048 8 1\n1.5 7 16 8 0\n");
    assert_eq!(
        place.ok(&["convert", "a.trace", "csv:-"]),
        "time_s,device,rwbs,sector,sectors,pid,process,day,service_s\n\
         0.000000000,0,R,2048,8,,,,\n0.001500000,7,W,16,8,,,,\n"
    );
    let ran = place.run(&["convert", "a.trace", "b.fio", "--device", "7"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "{}", ran.err);
    assert!(ran.err.contains("1 requests"), "{}", ran.err);
    let log = place.text_of("b.fio");
    assert_eq!(
        log,
        "fio version 3 iolog\n1500 7 add\n1500 7 open\n1500 7 write 8192 4096\n1500 7 close\n"
    );
    let words = ["no requests of device '8'", "'0', '7'"];
    place.refuses("convert a.trace c.csv --device 8", &words);
    place.refuses("convert a.trace msr:c", &["msr can be read but not written"]);
    place.refuses("convert a.trace c.parquet.gz", &["its own compression"]);
    assert_eq!(place.names(), ["a.trace", "b.fio"]);
}

#[test]
fn the_json_tells_what_the_lines_tell() {
    let place = Place::with("bad", BAD);
    let v = place.told(&["convert", "--lenient", "bad", "b.parquet"]);
    assert_eq!(v["schema"], "seekless.convert/1");
    assert_eq!((&v["requests"], &v["from"]["path"]), (&3.into(), &"bad".into()));
    assert_eq!((&v["to"]["path"], &v["to"]["format"]), (&"b.parquet".into(), &"parquet".into()));
    let size = std::fs::metadata(place.path("b.parquet")).unwrap().len();
    assert_eq!(v["to"]["bytes"], size);
    let out = &v["left_out"];
    assert_eq!((&out["malformed"], &out["of_no_sectors"]), (&1.into(), &1.into()), "{v:#}");
    let words = ["cannot both go to standard output"];
    place.refuses("convert --lenient bad csv:- --json -", &words);
}

#[test]
fn a_stop_leaves_no_unfinished_output() {
    let place = Place::with("a.trace", mixed().repeat(4000));
    place.stops(&["convert", "a.trace", "o.csv"]);
}

#[test]
fn a_trace_of_files_says_that_its_addresses_are_ours() {
    let place = Place::with(
        "t",
        "1 1700000000.000100 open(\"/a\", O_RDONLY) = 3\n1 1700000000.000200 read(3, \"\"..., 8192) = 8192\n1 1700000000.000300 read(3, \"\"..., 8192) = 8192\n",
    );
    let ran = place.done(&["convert", "t", "t.parquet"]);
    assert!(ran.err.contains("2 requests") && ran.err.contains("one after another"), "{}", ran.err);
    // Its store says so too, and a store of the store.
    place.ok(&["convert", "t.parquet", "u.parquet"]);
    for name in ["t", "t.parquet", "u.parquet"] {
        let simulate = ["simulate", name, "--disk", "wd800jb"];
        for args in [&simulate[..], &["stat", name]] {
            let ran = place.done(args);
            let said = ran.err.contains("note: this is a trace of files");
            assert!(said || ran.out.contains("this is a trace of files"), "{args:?}: {}", ran.err);
        }
    }
}

#[test]
fn a_store_of_cache_objects_says_that_they_are_no_addresses() {
    // The same time, object, size and next use as in oracleGeneral: 24 bytes an access.
    let access = |time: u32, object: u64| {
        let size = 4096u32.to_le_bytes();
        [&time.to_le_bytes()[..], &object.to_le_bytes(), &size, &(-1i64).to_le_bytes()].concat()
    };
    let bytes: Vec<u8> = (0..20).flat_map(|i| access(i, u64::from(i % 7))).collect();
    let place = Place::with("t.oracleGeneral", bytes);
    place.ok(&["convert", "oraclegeneral:t.oracleGeneral", "t.parquet"]);
    let ran = place.done(&["simulate", "t.parquet", "--disk", "wd800jb"]);
    assert!(ran.err.contains("note: this is a trace of cache objects"), "{}", ran.err);
}

#[test]
fn help_names_every_format() {
    let help = Place::new().ok(&["convert", "--help"]);
    let formats = "blktrace blkparse tracefs fio msr spc disksim mqsim lis vscsi srt alibaba tencent systor17 \
        fiu oraclegeneral etw biosnoop biotracer strace procmon csv";
    for format in formats.split(' ') {
        assert!(help.contains(format), "{format}");
    }
}

#[test]
fn several_traces_become_one_in_order_of_time() {
    let place = Place::new();
    place.file("a.trace", "1.0 0 8 8 1\n5.0 0 16 8 1\n").file("b.trace", "3.0 0 800 8 0\n");
    let json = place.told(&["convert", "a.trace", "b.trace", "-o", "both.csv"]);
    assert_eq!((&json["requests"], &json["from"]["path"]), (&3.into(), &"a.trace, b.trace".into()));
    let text = place.text_of("both.csv");
    let sectors: Vec<bool> = text.lines().skip(1).map(|l| l.contains("800,")).collect();
    assert_eq!(sectors, [false, true, false], "{text}");
    assert!(text.contains("b:0"), "{text}");

    place.file("late.trace", "9.0 0 8 8 1\n5.0 0 16 8 1\n");
    let words = ["late.trace: line 2: not in order of time"];
    place.refuses("convert a.trace late.trace -o x.csv", &words);
    place.refuses("convert a.trace b.trace x.csv", &["-o OUT"]);
}
