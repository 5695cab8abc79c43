//! The model against the field's reference simulator and against real drives, where their results are at hand.

use std::path::{Path, PathBuf};
use std::process::Command as Process;

use seekless_disk::validate::{
    Comparison, Loop, compare, demerit, mean, parse_arrivals, parse_measured, parse_recorded,
    replay, replay_measured,
};
use seekless_disk::{Disk, DiskSpec, Scheduler, import_disksim};

/// The folder of references, or a loud word that there is none.
fn shared(test: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let path = std::env::var_os("SEEKLESS_SHARED").map_or(beside, PathBuf::from);
    if path.join("reference/mech/summary.csv").is_file() {
        return Some(path);
    }
    println!("SKIPPED {test}: no ../shared");
    None
}

/// The text of a file compressed with zstd.
fn zstd(path: &Path) -> String {
    let out = Process::new("zstdcat").arg(path).output().unwrap();
    assert!(out.status.success(), "zstdcat {}", path.display());
    String::from_utf8(out.stdout).unwrap()
}

fn import(folder: &Path, file: &str) -> DiskSpec {
    let mut open =
        |name: &str| std::fs::read_to_string(folder.join(name)).map_err(|e| e.to_string());
    let text = open(file).unwrap();
    import_disksim(file, &text, &mut open).unwrap()
}

fn mechanical(
    shared: &Path,
    disk: &str,
    model: &str,
    run: &str,
    scheduler: Scheduler,
) -> Comparison {
    let spec = import(&shared.join("traces/disks"), model);
    let mech = shared.join("reference/mech");
    let workload = run.split('_').next().unwrap();
    let trace = zstd(&mech.join(format!("{disk}_{workload}.trace.zst")));
    let results = zstd(&mech.join(format!("{disk}_mech_{run}.req.csv.zst")));
    let requests = parse_arrivals("trace", &trace).unwrap();
    let reference = parse_recorded("results", &results).unwrap();
    let mode = match workload {
        "seq64k" => Loop::Closed(1),
        "mix8k" => Loop::Closed(16),
        _ => Loop::Open,
    };
    let ours = replay(Disk::new(&spec).unwrap(), scheduler, mode, &requests).unwrap();
    compare(&ours, &reference)
}

#[test]
fn mechanical_runs_agree_with_the_reference_simulator() {
    let Some(shared) = shared("mechanical_runs_agree_with_the_reference_simulator") else { return };
    let mut worst: f64 = 0.0;
    for (disk, model) in [("cheetah9lp", "cheetah9LP.model"), ("atlas10k", "atlas10k.model")] {
        for (run, scheduler) in [
            ("rand4k", Scheduler::Fcfs),
            ("seq64k", Scheduler::Fcfs),
            ("mixopen8k_fcfs", Scheduler::Fcfs),
            ("mix8k_drv_fcfs", Scheduler::Fcfs),
            ("mix8k_drv_sstf", Scheduler::Sstf),
            ("mix8k_drv_look", Scheduler::Look),
            ("mix8k_drv_clook", Scheduler::CLook),
            ("mix8k_drv_sptf", Scheduler::Sptf),
        ] {
            let c = mechanical(&shared, disk, model, run, scheduler);
            let (m, r) = (c.model, c.reference);
            println!(
                "{disk} {run}: seek {:.4}/{:.4} rotation {:.4}/{:.4} transfer {:.4}/{:.4} response {:.4}/{:.4} \
                 demerit response {:.3}% service {:.3}% of {} requests",
                m.seek,
                r.seek,
                m.rotation,
                r.rotation,
                m.transfer,
                r.transfer,
                m.response,
                r.response,
                c.response_demerit * 100.0,
                c.service_demerit * 100.0,
                c.requests,
            );
            let figure =
                if scheduler == Scheduler::Sptf { c.service_demerit } else { c.response_demerit };
            worst = worst.max(figure);
        }
    }
    assert!(worst < 0.01, "{worst}");
}

#[test]
fn measured_drives_are_met() {
    let Some(shared) = shared("measured_drives_are_met") else { return };
    for (spec, trace, theirs) in [
        ("atlas10k.diskspecs", "atlas10k", 0.268),
        ("cheetah9LP.diskspecs", "cheetah9LP", 0.107),
        ("barracuda.diskspecs", "barracuda", 0.349),
        ("ibm18es.diskspecs", "ibm18es", 0.135),
        ("hp_c3323a_validate.diskspecs", "hp_c3323a", 0.306),
    ] {
        let folder = shared.join("traces/disks");
        let spec = import(&folder, spec);
        println!("{} holds {}", spec.name, spec.capacity_sectors);
        let text = zstd(&folder.join(format!("{trace}.trace.zst")));
        let requests = parse_measured(trace, &text).unwrap();
        let model = replay_measured(Disk::new(&spec).unwrap(), &requests).unwrap();
        let real: Vec<f64> = requests.iter().map(|r| r.service_ns as f64 / 1e6).collect();
        println!(
            "{trace}: measured {:.4} model {:.4} ms, demerit {:.4} ms; DiskSim {theirs}",
            mean(&real),
            mean(&model),
            demerit(&real, &model)
        );
    }
}
