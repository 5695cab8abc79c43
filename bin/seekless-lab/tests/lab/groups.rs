//! `synth eefs-*` and `reproduce eefs` through the binary.

use serde_json::{Value, json};

use crate::claims::held;
use crate::support::{Place, number};

#[test]
fn a_made_up_day_of_files_is_strace_text_and_equal_seeds_give_equal_days() {
    let place = Place::new();
    let make = |seed: &str, name: &str| {
        place.ok(&["synth", "eefs-light", "--scale", "0.02", "--seed", seed, "-o", name]);
        std::fs::read_to_string(place.path(name)).unwrap()
    };
    let day = make("1", "a.strace");
    assert_eq!(day, make("1", "b.strace"));
    assert_ne!(day, make("2", "c.strace"));
    let count = |call: &str| day.lines().filter(|l| l.contains(call)).count();
    assert!(
        count("openat(") > 100 && count("pread64(") > 10 && count("close(") > 100,
        "{}",
        day.len()
    );
    place.refuses("synth eefs-light --scale 0.02 -o a.strace", &["--force"]);
}

#[test]
fn eefs_is_reproduced_with_the_papers_numbers_beside_ours() {
    let place = Place::new();
    let told = place.told(&["reproduce", "eefs", "--scale", "0.01", "--report", "e.html"]);
    assert_eq!((&told["what"], &told["scale"]), (&"eefs".into(), &0.01.into()));
    held("eefs-small", &told);
    let traces = told["traces"].as_array().unwrap();
    let names: Vec<_> = traces.iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["eefs-ins", "eefs-res", "eefs-light", "eefs-heavy"]);
    assert_eq!(traces[0]["paper_disk_requests"], json!([482947, 151901]));
    for trace in traces {
        let outcomes = trace["outcomes"].as_array().unwrap();
        let systems: Vec<_> = outcomes.iter().map(|o| o["system"].as_str().unwrap()).collect();
        assert_eq!(systems, ["ffs", "ffs_read_ahead", "eefs"]);
        for o in outcomes {
            // Every system serves the same requests; each request of the disk has one cause, and
            // each joule one state.
            assert_eq!(o["requests"], outcomes[0]["requests"]);
            let sum = |v: &Value| v.as_object().unwrap().values().map(number).sum::<f64>();
            assert_eq!(sum(&o["causes"]), number(&o["disk_reads"]) + number(&o["disk_writes"]));
            let total = number(&o["energy"]["total"]);
            assert!(((sum(&o["energy"]) - total) / total - 1.0).abs() < 1e-6, "{o}");
            assert!(o["idle_times"].as_array().unwrap().iter().map(number).sum::<f64>() > 0.0);
        }
        let share = |name: &str| number(&outcomes[2]["grouping"][name]);
        assert!(share("at_once") <= share("within_five_minutes"));
        assert!(share("within_five_minutes") <= share("used_after_first"));
        assert_eq!(outcomes[0]["grouping"], Value::Null);
    }
    let html = std::fs::read_to_string(place.path("e.html")).unwrap();
    assert!(html.contains("made up") && html.contains("toshiba-pccard"));
    assert_eq!(told["sensitivity"], json!([]));
    let again = place.ok(&["reproduce", "eefs", "--scale", "0.01", "--json", "again.json"]);
    for words in ["Table 1", "Table 2", "Table 3", "0.31", "70 to 89 %", "-50.2 %"] {
        assert!(again.contains(words), "{words} is missing:\n{again}");
    }
    assert_eq!(place.read("again.json"), told);
}

#[test]
fn the_sensitivity_table_has_every_setting() {
    let place = Place::new();
    let base = ["reproduce", "eefs", "--scale", "0.01"];
    let told = place.told(&[&base[..], &["--sensitivity", "--report", "e.html"]].concat());
    let every = told["sensitivity"].as_array().unwrap();
    assert_eq!(every.len(), 2 * (6 * 3 + 3 * 3));
    // A system that delays no write makes more requests.
    let delays = |d: &&Value| !d["sync"].as_bool().unwrap();
    for hasty in every.iter().filter(|d| !delays(d)) {
        let same = |d: &&Value| {
            ["day", "directories", "memory_bytes", "truncate"]
                .iter()
                .all(|key| d[*key] == hasty[*key])
        };
        let slow = every.iter().filter(delays).find(same).unwrap();
        assert!(number(&slow["ffs_requests"]) < number(&hasty["ffs_requests"]), "{hasty}");
    }
    let all: Vec<&Value> =
        every.iter().filter(|d| delays(d) && !d["truncate"].as_bool().unwrap()).collect();
    assert_eq!(all.len(), 2 * 6 * 3);
    for settings in all.chunks(3) {
        // Less memory, fewer hits and more requests.
        assert!(settings.iter().all(|d| d["day"] == settings[0]["day"]));
        assert!(settings.is_sorted_by_key(|d| -number(&d["hits"])), "{settings:?}");
        assert!(settings.is_sorted_by_key(|d| number(&d["ffs_requests"])), "{settings:?}");
    }
    // A fast file system reads and writes inodes in many places.
    for day in all.chunks(18) {
        let [few, many] = [3, 12].map(|i: usize| number(&day[i]["ffs_requests"]));
        assert!(few < many, "{few} {many}");
    }
    let html = std::fs::read_to_string(place.path("e.html")).unwrap();
    assert!(html.contains("What the gain depends on"));
    let spread = ["--directories", "1000", "--cache", "16MiB"];
    // The same run.
    let eefs = &place.told(&[&base[..], &spread].concat())["traces"][0]["outcomes"][0];
    let requests = number(&eefs["disk_reads"]) + number(&eefs["disk_writes"]);
    assert!((requests - number(&all[12]["ffs_requests"])).abs() < 0.5);
}

#[test]
fn a_users_trace_runs_under_the_same_systems() {
    let place = Place::new();
    place.ok(&["synth", "eefs-light", "--scale", "0.05", "-o", "day.strace"]);
    let args =
        ["reproduce", "eefs", "--trace", "day.strace", "--shuffle", "500", "--cache", "2MiB"];
    let told = place.told(&[&args[..], &["--spin-down", "5"]].concat());
    let outcomes = told["traces"][0]["outcomes"].as_array().unwrap();
    assert_eq!(outcomes.len(), 3);
    assert!(
        outcomes
            .iter()
            .all(|o| number(&o["spin_downs"]) > 0.0 && number(&o["energy"]["standby"]) > 0.0)
    );
    assert!(number(&outcomes[2]["grouping"]["shuffles"]) > 1.0, "{}", outcomes[2]);
}
