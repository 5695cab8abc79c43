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
    for setting in ["what", "seed", "runs"] {
        assert_eq!(marked[setting], told[setting], "{file}: {setting}");
    }
    // Some programs write a whole number without a point.
    assert_eq!(marked["scale"].as_f64(), told["scale"].as_f64(), "{file}: scale");
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

/// A row of Table 2 that counts: the printed change, ours, and whether it holds.
type Row = (f64, f64, bool);

/// The page's sentences on the rows of Table 2.
fn sentences_on_rows(rows: &[Row]) -> [String; 3] {
    let count = |fits: &dyn Fn(Row) -> bool| rows.iter().filter(|r| fits(**r)).count();
    let small = |(printed, ..): Row| printed.abs() < 0.0501;
    let held = |(_, _, holds): Row| holds;
    [
        format!(
            "it would hold {} of the {} counted rows of Table 2, where ours holds {}:",
            count(&small),
            rows.len(),
            count(&held)
        ),
        format!(
            "Of the {} rows with a printed change of more than 5 points, ours holds {}.",
            count(&|r| !small(r)),
            count(&|r| !small(r) && held(r))
        ),
        format!(
            "**Directions**: {} of {} printed changes have the same sign here;",
            count(&|(printed, ours, _)| printed * ours > 0.0),
            count(&|(printed, ..)| printed != 0.0)
        ),
    ]
}

/// The page's sentence on the intervals of a study's cells.
fn sentence_on_intervals(report: &Value) -> String {
    let cells: Vec<_> = report["measured"].as_array().unwrap().iter().collect();
    let closed: Vec<_> =
        cells.into_iter().filter(|m| !m["id"].as_str().unwrap().contains('@')).collect();
    let [(narrow, median), (narrow_j, median_j)] = ["ops_per_s", "ops_per_joule"].map(|what| {
        let of = |m: &&Value, key: &str| m[what][key].as_f64().unwrap();
        let mut widths: Vec<_> =
            closed.iter().map(|m| of(m, "half_width") / of(m, "mean") * 100.0).collect();
        widths.sort_by(f64::total_cmp);
        let at = widths.len() / 2;
        let narrow = widths.iter().filter(|w| **w <= 5.0).count();
        (narrow, f64::midpoint(widths[at - 1], widths[at]))
    });
    format!(
        "Of the {} cells without a given rate, {narrow} reach 5%, and the median half-width of an \
         interval is {median:.0}% (operations a joule: {narrow_j}, and {median_j:.0}%).",
        closed.len()
    )
}

#[test]
fn the_page_counts_what_the_archive_shows() {
    let page = std::fs::read_to_string(format!("{ROOT}/docs/believing/papers.md")).unwrap();
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let study = format!("{ROOT}/studies/runs/fast10-shared-vm");
    let place = Place::new();
    let told = place.told(&["reproduce", "fast10", "--study", &study]);
    let counted = told["results"].as_array().unwrap().iter();
    let counted = counted.filter(|r| r["where"] == "Table 2" && r["incomparable"].is_null());
    let number = |v: &Value| v.as_f64().unwrap();
    let rows: Vec<Row> = counted
        .map(|r| (number(&r["paper"]), number(&r["ours"]), r["holds"]["ours"] == true))
        .collect();
    let intervals = sentence_on_intervals(&place.told(&["study", "report", &study]));
    for said in sentences_on_rows(&rows).iter().chain([&intervals]) {
        assert!(page.contains(said.as_str()), "the page does not say: {said}");
    }
    let total = &told["counts"]["ours"];
    assert!(page.contains(&format!("| all | **{} of {}** |", total["holds"], total["of"])));
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
