//! Small runs of the built-in workloads, in memory: their mix, their loads, and their ends.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::*;
use crate::personality::preset;

fn options(ms: u64) -> RunOptions {
    let measured = Duration::from_millis(ms);
    RunOptions { warm_up: Duration::from_millis(50), measured, load: Load::Closed, seed: 1 }
}

/// A folder in memory, if the host has one.
fn folder() -> tempfile::TempDir {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { tempfile::tempdir_in(shm).unwrap() } else { tempfile::tempdir().unwrap() }
}

fn ran(p: &Personality, options: &RunOptions) -> Outcome {
    let (dir, stop) = (folder(), AtomicBool::new(false));
    let files = FileSet::fill(dir.path(), p, 1, &stop, &mut |_, _| ()).unwrap();
    run(p, &files, options, &stop, &mut |_, _| ()).unwrap()
}

/// Every built-in workload runs, at a small scale, and executes its steps in the proportions of its
/// flow.
#[test]
fn all_run_and_keep_their_mix() {
    for preset in crate::presets() {
        let scale = match preset.name {
            "oltp" => 0.002,
            "videoserver" => 0.0001,
            "fileserver" => 0.004,
            "postmark" => 0.2,
            _ => 0.02,
        };
        let p = crate::personality::preset(preset.name)
            .unwrap()
            .unwrap()
            .scaled(scale)
            .with_threads(0.1);
        let out = ran(&p, &options(300));
        assert!(out.operations > 0, "{}: {out:?}", p.name);
        assert_eq!(out.operations, out.steps.iter().map(|s| s.count).sum::<u64>());
        let threads = f64::from(p.threads());
        for (flow, turns) in p.flows.iter().zip(&out.turns).filter(|f| f.0.name != "writer") {
            for step in
                flow.steps.iter().filter(|s| s.act.counts() && !matches!(s.act, StepAction::Await))
            {
                let same = flow.steps.iter().filter(|s| s.name == step.name);
                let each = same.map(|s| f64::from(s.times)).sum::<f64>();
                let count = out.steps.iter().find(|s| s.name == step.name).unwrap().count as f64;
                let want = each * turns.count as f64;
                assert!(
                    (count - want).abs() <= each * (threads + 1.0),
                    "{}: {} {count}, {want}",
                    p.name,
                    step.name
                );
            }
        }
    }
}

#[test]
fn an_open_load_arrives_at_its_rate_and_counts_from_its_due_time() {
    let p = preset("webserver").unwrap().unwrap().scaled(0.005).with_threads(0.1);
    let load = Load::Open { ops_per_s: 620.0 };
    let out = ran(&p, &RunOptions { load, ..options(1000) });
    assert!((310.0..700.0).contains(&out.ops_per_s), "{}", out.ops_per_s);
    // More than is possible: waiting turns are late, and the result shows it.
    let load = Load::Open { ops_per_s: 1e9 };
    let out = ran(&p, &RunOptions { load, ..options(500) });
    assert!(out.turns[0].latency.max_s > 0.2, "{:?}", out.turns);
}

#[test]
fn a_rate_limit_is_kept() {
    let mut p = preset("webproxy").unwrap().unwrap().scaled(0.02).with_threads(0.1);
    p.rate = Some(500.0);
    let out = ran(&p, &options(1000));
    // Never more; less only if the host is busy.
    assert!((250.0..560.0).contains(&out.ops_per_s), "{}", out.ops_per_s);
}

#[test]
fn errors_name_their_step_and_a_stop_is_noticed() {
    let mut p = preset("fileserver").unwrap().unwrap().scaled(0.002);
    // Without deletions there is soon no file left to create.
    for flow in &mut p.flows {
        flow.steps.retain(|s| !matches!(s.act, StepAction::Delete { .. }));
    }
    let (dir, stop) = (folder(), AtomicBool::new(false));
    let files = FileSet::fill(dir.path(), &p, 1, &stop, &mut |_, _| ()).unwrap();
    let error = run(&p, &files, &options(20_000), &stop, &mut |_, _| ()).unwrap_err();
    assert!(matches!(&error, WorkloadError::RanOut { step, .. } if step == "create"), "{error}");
    let p = preset("oltp").unwrap().unwrap().scaled(0.001).with_threads(0.1);
    let dir = folder();
    let files = FileSet::fill(dir.path(), &p, 1, &stop, &mut |_, _| ()).unwrap();
    let mut looks = 0;
    let begun = Instant::now();
    let result = run(&p, &files, &options(60_000), &stop, &mut |_, _| {
        looks += 1;
        stop.store(looks > 4, Ordering::Relaxed);
    });
    assert!(matches!(result, Err(WorkloadError::Stopped)) && begun.elapsed().as_secs() < 10);
}
