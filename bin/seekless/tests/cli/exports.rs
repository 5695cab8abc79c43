//! What is made beside results: figures as files, man pages, completions; and what the exit status
//! says.

use std::io::{Read as _, Seek as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use crate::support::{Place, mixed, words};

#[test]
fn every_figure_of_a_report_is_written_as_svg_csv_and_png() {
    let place = Place::with("trace", mixed());
    let line = "simulate disksim:trace --disk wd800jb --figures out/figures --report r.html";
    let ran = place.done(&words(line));
    let names = place.names_in("out/figures");
    let page = place.text_of("r.html");
    let figures = page.matches("<figure ").count();
    assert!(figures >= 3);
    for end in [".svg", ".csv"] {
        assert_eq!(names.iter().filter(|n| n.ends_with(end)).count(), figures, "{names:?}");
    }
    let pictures: Vec<&String> = names.iter().filter(|n| n.ends_with(".png")).collect();
    if ran.err.contains("no PNG files") {
        eprintln!("SKIPPED pictures: {}", ran.err);
        assert!(pictures.is_empty());
    } else {
        assert_eq!(pictures.len(), figures);
    }
    for name in &names {
        let bytes = std::fs::read(place.path("out/figures").join(name)).unwrap();
        let magic: &[u8] = match name.rsplit_once('.').unwrap().1 {
            "svg" => b"<?xml",
            "png" => b"\x89PNG\r\n\x1a\n",
            _ => b"",
        };
        assert!(bytes.starts_with(magic) && bytes.len() > 50, "{name}");
    }
    // The same trace, the same busy time: the CSV beside says what the JSON does.
    let busy = names.iter().find(|n| n.ends_with("where-the-disk-s-time-goes.csv")).unwrap();
    let csv = place.text_of(&format!("out/figures/{busy}"));
    let json = place.json(&["disksim:trace", "--disk", "wd800jb"]);
    let seek = json["runs"][0]["seek_s"].to_string();
    assert!(csv.lines().any(|l| l.starts_with("vanilla,") && l.contains(&seek)), "{seek}: {csv}");

    place.file("file", "");
    place.refuses("simulate disksim:trace --disk wd800jb --figures file/x", &["file/x"]);
}

#[test]
fn a_picture_that_cannot_be_written_costs_no_numbers() {
    let place = Place::with("trace", mixed());
    let line = "simulate disksim:trace --disk wd800jb --policy vanilla --json numbers.json";
    // A folder is where the first figure belongs; a device without space is the picture.
    std::fs::create_dir_all(place.path("out/01-where-the-disk-s-time-goes.svg")).unwrap();
    for picture in ["--figures out", "--picture /dev/full"] {
        let ran = place.run(&[words(line), words(picture)].concat());
        assert_eq!(ran.code, Some(2), "{picture}: {}", ran.err);
        assert!(ran.err.contains("cannot write"), "{picture}: {}", ran.err);
        assert_eq!(place.read("numbers.json")["runs"][0]["policy"], "vanilla", "{picture}");
        std::fs::remove_file(place.path("numbers.json")).unwrap();
    }
}

/// As after `2>log; rm log`.
#[test]
fn a_result_for_a_stream_goes_to_its_open_file_though_that_has_no_name() {
    let place = Place::with("trace", mixed());
    for stream in ["/dev/stdout", "/dev/stderr"] {
        let line =
            format!("simulate disksim:trace --disk wd800jb --policy vanilla --json {stream}");
        let mut log = tempfile::tempfile_in(place.path("")).unwrap();
        let mut command = place.command(&words(&line));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let copy = log.try_clone().unwrap();
        if stream == "/dev/stderr" {
            command.stderr(copy)
        } else {
            command.stdout(copy)
        };
        assert!(command.status().unwrap().success(), "{stream}");
        let mut text = String::new();
        log.rewind().unwrap();
        log.read_to_string(&mut text).unwrap();
        assert!(text.contains("\"policy\": \"vanilla\""), "{stream}: {text}");
        assert_eq!(place.names(), ["trace"], "{stream}: no new file");
    }
}

#[test]
fn a_folder_that_takes_no_figures_is_refused_before_the_work() {
    let place = Place::new();
    let closed = place.path("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o555)).unwrap();
    if rustix::fs::access(&closed, rustix::fs::Access::WRITE_OK).is_ok() {
        eprintln!("SKIPPED: root may write into every folder");
        return;
    }
    place.refuses("stat none --figures closed/plots", &["cannot write into closed"]);
    place.refuses("stat none --figures closed", &["cannot write into closed"]);
}

#[test]
fn every_command_has_a_man_page_that_says_what_help_says() {
    let place = Place::new();
    let ran = place.run(&["man", "share/man1"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let read = |name: &str| place.text_of(&format!("share/man1/{name}"));
    let help = place.run(&["--help"]).out;
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|l| *l != "Commands:")
        .skip(1)
        .take_while(|l| !l.is_empty())
        .filter(|l| l.starts_with("  ") && !l.starts_with("   "))
        .filter_map(|l| l.split_whitespace().next())
        .filter(|c| *c != "help")
        .collect();
    assert!(commands.len() >= 9, "{commands:?}");
    for command in &commands {
        assert!(read(&format!("seekless-{command}.1")).contains(".SH NAME"), "{command}");
    }
    assert!(read("seekless-disk-list.1").contains("json"));
    assert!(read("seekless.1").contains("Exit status"));
    let serve = read("seekless-serve.1");
    assert!(serve.contains("\\-\\-http") && serve.contains("Examples"), "{serve}");
}

#[test]
fn every_shell_gets_completions_that_know_the_commands() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let out = place.ok(&["completions", shell]);
        for word in ["simulate", "figures", "serve", "learn-every"] {
            assert!(out.contains(word), "{shell}: {word}");
        }
    }
    place.refuses("completions tcsh", &["bash"]);
}

#[test]
fn the_exit_status_is_what_help_says_and_no_colour_is_no_colour() {
    let place = Place::new();
    let help = place.run(&["--help"]);
    assert_eq!(help.code, Some(0));
    assert!(
        help.out.contains("  0  the command") && help.out.contains("  2  a bad"),
        "{}",
        help.out
    );
    assert_eq!(place.run(&["simulate", "nothing", "--disk", "wd800jb"]).code, Some(2));
    assert_eq!(place.run(&["--no-such-thing"]).code, Some(2));
    assert_eq!(place.run(&["disk", "list"]).code, Some(0));
    for args in [&["disk", "list"][..], &["--help"], &["simulate", "nothing", "--disk", "x"]] {
        let output =
            place.command(args).env("NO_COLOR", "1").env("CLICOLOR_FORCE", "0").output().unwrap();
        let all = [output.stdout, output.stderr].concat();
        assert!(!all.contains(&0x1b), "{args:?}");
    }
    // A progress bar is for a terminal; here is none.
    place.file("trace", mixed());
    let ran = place.run(&["simulate", "disksim:trace", "--disk", "wd800jb"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
}
