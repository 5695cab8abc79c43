//! Which claims of the papers hold is committed, one file a paper and size of run. A run that
//! differs from its file fails, in either direction: `held`, after a run of another test here, or of
//! the tests of the other files. `lab/papers/claims/README.md` says how the files are written.

use std::path::Path;

use serde_json::Value;

use crate::support::Place;

/// The folder of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// What differs between a run and the committed results.
fn differences(marked: &Value, told: &Value) -> Vec<String> {
    let results = |v: &Value| v["results"].as_array().cloned().unwrap_or_default();
    let (marked, told) = (results(marked), results(told));
    let mut all: Vec<String> = Vec::new();
    for (marked, told) in marked.iter().zip(&told) {
        if marked["id"] != told["id"] {
            all.push(format!("{}: the file has {} here", told["id"], marked["id"]));
        }
        for who in ["ours", "beyond"] {
            let (before, now) = (&marked["holds"][who], &told["holds"][who]);
            if before != now {
                let id = &told["id"];
                all.push(format!("{id}, {who}: holds is {now}, marked as {before}: {told}"));
            }
        }
    }
    if marked.len() != told.len() {
        all.push(format!("{} claims, {} are marked", told.len(), marked.len()));
    }
    all
}

/// Asserts that a run holds exactly what its committed file says.
pub(crate) fn held(file: &str, told: &Value) {
    let path = Path::new(ROOT).join(format!("lab/papers/claims/results/{file}.json"));
    let marked: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    for setting in ["what", "scale", "seed", "runs"] {
        assert_eq!(marked[setting], told[setting], "{file}: {setting}");
    }
    let found = differences(&marked, told);
    assert!(found.is_empty(), "{}:\n{}", path.display(), found.join("\n"));
    assert_eq!(marked["counts"], told["counts"], "{file}");
}

#[test]
fn a_run_that_differs_from_its_marks_is_noticed_in_both_directions() {
    let marks = |holds: [Value; 2]| {
        let [ours, beyond] = holds;
        serde_json::json!({ "results": [{ "id": "a", "holds": { "ours": ours, "beyond": beyond } }] })
    };
    let (yes, no, none) = (Value::Bool(true), Value::Bool(false), Value::Null);
    let base = marks([yes.clone(), no.clone()]);
    assert!(differences(&base, &base).is_empty());
    for other in [[no.clone(), no.clone()], [yes.clone(), yes.clone()], [yes, none]] {
        assert_eq!(differences(&base, &marks(other.clone())).len(), 1, "{other:?}");
    }
    assert_eq!(differences(&base, &serde_json::json!({ "results": [] })).len(), 1);
}

#[test]
fn the_study_of_file_systems_holds_what_is_marked() {
    let study = format!("{ROOT}/studies/runs/fast10-shared-vm");
    held("fast10", &Place::new().told(&["reproduce", "fast10", "--study", &study]));
}

/// What the archives say of a disk's joules that leave out idling.
const WITHOUT_IDLING: &str =
    "the emulated disk's own account of seeking, turning, moving data and idling";

/// The modelled disks' energies in an archive of runs.
fn disk_energies(archive: &Path) -> Vec<Value> {
    let runs = std::fs::read_to_string(archive.join("runs.jsonl")).unwrap();
    let of = |line: &str| serde_json::from_str::<Value>(line).unwrap()["energy"].take();
    let all = runs.lines().flat_map(|line| of(line).as_array().cloned().unwrap_or_default());
    all.filter(|e| e["name"].as_str().unwrap().starts_with("disk:")).collect()
}

#[test]
fn no_archived_run_needs_less_than_its_idle_disk() {
    let mut runs = 0;
    for archive in std::fs::read_dir(format!("{ROOT}/studies/runs")).unwrap() {
        for energy in disk_energies(&archive.unwrap().path()) {
            let disk = energy["name"].as_str().unwrap().trim_start_matches("disk:");
            let idle_w = seekless_disk::catalogue::get(disk).unwrap().power.idle_w;
            // Each record says which account it has.
            let least = if energy["by"] == WITHOUT_IDLING { 0.0 } else { 0.98 * idle_w };
            assert!(energy["watts"].as_f64().unwrap() > least, "{energy}");
            runs += 1;
        }
    }
    assert!(runs >= 580, "{runs} runs with a disk's energy");
}

/// The reason in the claims goes when the study has run again.
#[test]
fn rows_of_power_count_only_with_an_archive_that_counts_idling() {
    let archive = format!("{ROOT}/studies/runs/fast10-shared-vm");
    let energies = disk_energies(Path::new(&archive));
    let without = energies.iter().filter(|e| e["by"] == WITHOUT_IDLING).count();
    assert!(without == 0 || without == energies.len(), "{without} of {}", energies.len());
    let told = Place::new().told(&["reproduce", "fast10", "--study", &archive]);
    let rows = told["results"].as_array().unwrap();
    for row in rows.iter().filter(|r| r["id"].as_str().unwrap().ends_with(".power")) {
        let why = row["incomparable"].as_str().unwrap_or_default();
        assert!(without == 0 || !why.is_empty(), "{row}");
        assert!(without > 0 || !why.contains("idling"), "{row}");
    }
}

/// Minutes: the size of the papers.
#[test]
fn full_runs_hold_what_is_marked() {
    if std::env::var_os("SEEKLESS_LONG").is_none() {
        return eprintln!("SKIPPED full_runs_hold_what_is_marked: SEEKLESS_LONG is not set");
    }
    for paper in ["fs2", "borg", "eefs", "clustering"] {
        held(&format!("{paper}-full"), &Place::new().told(&["reproduce", paper]));
    }
}
