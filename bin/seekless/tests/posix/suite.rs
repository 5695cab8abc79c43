//! The checks, run underneath and on the mount, and held against each other.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;

use crate::case::{Case, Check, chmod};
use crate::ground::{Ground, RESTLESS};
use crate::{attributes, bytes, names, need, rights, tests};

/// What the mount may fail where a plain directory does not, each with the reason.
const EXCLUSIONS: &[(&str, &str, &str)] = &[
    (
        "O_TMPFILE",
        "O_TMPFILE",
        "the kernel asks for it by a FUSE operation that our protocol library does not know",
    ),
    ("fallocate: holes and ranges", "collapse", "the kernel refuses it for every FUSE mount"),
    ("fallocate: holes and ranges", "insert", "the kernel refuses it for every FUSE mount"),
    (
        "mmap and other users",
        "times move at once",
        "the kernel writes a mapped file by itself, and believes the times it was told for a second",
    ),
];

fn all() -> impl Iterator<Item = &'static (&'static str, Check)> {
    [names::CHECKS, attributes::CHECKS, rights::CHECKS, bytes::CHECKS].into_iter().flatten()
}

struct Run {
    points: u32,
    failed: Vec<(&'static str, String)>,
}

/// What the checks find in a plain directory: once for all mounts.
static BENEATH: OnceLock<Run> = OnceLock::new();

fn run(root: &Path, restless: bool) -> Run {
    let only = std::env::var("SEEKLESS_CHECK").unwrap_or_default();
    let mut run = Run { points: 0, failed: Vec::new() };
    for (i, (name, check)) in all().filter(|c| c.0.contains(&only)).enumerate() {
        let place = root.join(format!("check{i}"));
        std::fs::create_dir(&place).unwrap();
        chmod(&place, 0o755).unwrap();
        let case = Case::new(&place, restless.then_some(root));
        check(&case);
        let (points, failed) = case.end();
        run.points += points;
        run.failed.extend(failed.into_iter().map(|f| (*name, f)));
        if let Err(error) = std::fs::remove_dir_all(&place) {
            run.failed.push((name, format!("removing what it made: {error}")));
        }
    }
    run
}

/// What failed, without the values, so that the same failure in two places is one.
fn kind(failure: &(&'static str, String)) -> (&'static str, String) {
    let (check, said) = failure;
    (check, said.split(": ").next().unwrap_or_default().to_owned())
}

fn compare(mount: impl FnOnce() -> Ground, restless: bool) {
    need!("posix", "root sh od timeout");
    let beneath = BENEATH.get_or_init(|| run(&Ground::plain().root(), false));
    eprintln!("beneath: {} points, {} failed", beneath.points, beneath.failed.len());
    for (check, said) in &beneath.failed {
        eprintln!("  beneath: {check}: {said}");
    }
    need!("posix on the mount", Ground::missing());
    let ground = mount();
    let mount = run(&ground.root(), restless);
    let state = ground.state();
    ground.end();
    let came = state["came"].as_u64();
    eprintln!(
        "mount: {} points, {} failed, {came:?} files moved",
        mount.points,
        mount.failed.len()
    );
    assert!(!restless || came > Some(20), "nothing moved: {state}");
    let written = state["grouped_writes"].as_u64();
    assert!(!restless || written > Some(20), "nothing was written in the store: {state}");
    let known: BTreeSet<_> = beneath.failed.iter().map(kind).collect();
    let mut wrong = Vec::new();
    for failure in &mount.failed {
        let excluded = EXCLUSIONS.iter().find(|e| e.0 == failure.0 && failure.1.starts_with(e.1));
        match excluded {
            Some((_, _, why)) => eprintln!("  excluded: {}: {} ({why})", failure.0, failure.1),
            None if known.contains(&kind(failure)) => {
                eprintln!("  as beneath: {}: {}", failure.0, failure.1);
            }
            None => wrong.push(format!("{}: {}", failure.0, failure.1)),
        }
    }
    assert!(wrong.is_empty(), "the mount alone fails {}:\n{}", wrong.len(), wrong.join("\n"));
}

tests! {
    fn the_mount_fails_nothing_that_the_directory_beneath_does_not() {
        compare(|| Ground::mounted(&[]), false);
    }
    fn nor_does_it_where_every_file_is_moved_as_soon_as_it_is_made() {
        compare(|| Ground::mounted(RESTLESS), true);
    }
    fn nor_does_it_over_the_directory_itself() {
        compare(|| Ground::over_itself(RESTLESS), true);
    }
}
