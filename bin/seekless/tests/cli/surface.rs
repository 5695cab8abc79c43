//! The command line that one can remember: every earlier verb names its successor, the help of
//! `serve` fits two screens, and the program only parses, calls and prints.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Place, Ran};

/// Two screens of 48 lines, 100 columns wide.
const TWO_SCREENS: usize = 96;

#[test]
fn an_earlier_verb_answers_with_its_name_today() {
    let place = Place::new();
    for (command, verbs) in [
        ("seekless volume", "format status replan replicate drain mode detach"),
        ("seekless volume", "check repair dump resize rescue"),
        ("seekless disk", "emulate"),
        ("seekless files", "fs"),
        ("seekless-lab", "reproduce synth workload study model cluster tune"),
    ] {
        for old in verbs.split(' ') {
            let new = if old == "fs" { command.to_owned() } else { format!("{command} {old}") };
            place.refuses(&format!("{old} disk.img"), &[&format!("'{new}'")]);
            if let Some(words) = new.strip_prefix("seekless ") {
                let words: Vec<&str> = words.split(' ').chain(["--help"]).collect();
                assert_eq!(place.run(&words).code, Some(0), "{new}");
            }
        }
    }
    assert_eq!(place.names(), [] as [&str; 0]);
}

#[test]
fn an_earlier_policy_answers_with_its_name_today() {
    let place = Place::new();
    for (old, new) in [("judged", "adaptive"), ("oracle", "clairvoyant")] {
        for command in ["simulate", "advise", "serve"] {
            let new = format!("--policy {new}");
            place.refuses(&format!("{command} absent --policy {old}"), &[&new]);
        }
    }
}

#[test]
fn the_help_of_serve_fits_two_screens() {
    let mut command = Command::new(crate::PROGRAM);
    let ran: Ran = command.args(["serve", "--help"]).env("COLUMNS", "100").output().unwrap().into();
    let lines = ran.out.lines().count();
    assert!(lines <= TWO_SCREENS, "{lines} lines");
    assert!(ran.out.contains("--policy") && ran.out.contains("Examples"), "{}", ran.out);
}

#[test]
fn every_policy_of_the_list_is_one_that_simulate_takes() {
    let place = Place::new();
    let list: Value = serde_json::from_str(&place.ok(&["policies", "--json"])).unwrap();
    assert_eq!(list["schema"], "seekless.policies/1");
    let policies = list["policies"].as_array().unwrap();
    assert!(policies.len() > 10, "{list}");
    for policy in policies {
        let name = policy["name"].as_str().unwrap();
        let keys = policy["keys"].as_array().unwrap().iter().map(|k| k.as_str().unwrap());
        let whole = [name].into_iter().chain(keys).collect::<Vec<_>>().join(":");
        // The policy is understood: what fails is the absent trace.
        let said = place.fails(&["simulate", "absent", "--disk", "wd800jb", "--policy", &whole]);
        assert!(said.contains("absent") && !said.contains("policy"), "{whole}: {said}");
    }
    let out = place.ok(&["policies"]);
    assert!(out.contains("adaptive") && out.contains("trail"), "{out}");
}

/// Lines of a folder's Rust files, tests left out, and the longest file.
fn lines(folder: &Path) -> (usize, usize) {
    let (mut all, mut longest) = (0, 0);
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let (more, most) = if path.is_dir() {
            lines(&path)
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let own = text.lines().take_while(|l| *l != "#[cfg(test)]").count();
            (own, own)
        } else {
            (0, 0)
        };
        (all, longest) = (all + more, longest.max(most));
    }
    (all, longest)
}

#[test]
fn the_programs_only_parse_call_and_print() {
    let bin = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (program, most) in [("seekless", 7_500), ("seekless-lab", 3_000), ("cli", 1_000)] {
        let (all, longest) = lines(&bin.join(program).join("src"));
        assert!(all <= most, "{program} has {all} lines: move what decides into a room");
        assert!(longest <= 600, "{program} has a file of {longest} lines");
    }
}
