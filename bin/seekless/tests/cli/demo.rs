//! The demo: its numbers, and the claims that it prints.

use crate::support::Place;

#[test]
fn the_demo_saves_time_and_its_parts_add_up() {
    let place = Place::new();
    let ran = place.run(&["demo", "--speed", "10", "--report", "d.html", "--json", "-"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let v: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&v["schema"], &v["disk"]), (&"seekless.demo/1".into(), &"wd800jb".into()));
    let [vanilla, adaptive] = &v["runs"].as_array().unwrap()[..] else { panic!("{v:#}") };
    assert_eq!((&vanilla["policy"], &adaptive["policy"]), (&"vanilla".into(), &"adaptive".into()));
    for run in [vanilla, adaptive] {
        let of = |key: &str| run[key].as_f64().unwrap();
        let parts = of("seek_s") + of("rotation_s") + of("transfer_s");
        assert!((parts - of("busy_s")).abs() < 1e-6 && parts > 0.0, "{run:#}");
        assert!(of("background_s") < of("busy_s"));
        assert_eq!(run["bytes_checked"], vanilla["bytes_checked"]);
    }
    for key in ["moved_bytes", "copy_reads", "prefetched_pages"] {
        assert_eq!(vanilla[key], 0, "{key}");
        assert!(adaptive[key].as_u64() > Some(0), "{key}");
    }
    let busy = |run: &serde_json::Value| run["busy_s"].as_f64().unwrap();
    // The host's delays count ten times, as clients that think. On a busy host little is left of
    // the 45% that adaptive saves on a quiet one.
    assert!(busy(adaptive) < 0.97 * busy(vanilla), "{} of {}", busy(adaptive), busy(vanilla));
    assert!(ran.err.contains("Every byte was checked") && place.path("d.html").exists());
    let nights = &v["nights"];
    assert_eq!((&nights["schema"], &nights["disk"]), (&v["schema"], &"exos-x20".into()));
    let parts = |run: usize| -> Vec<f64> {
        nights["runs"][run]["parts"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(serde_json::Value::as_f64)
            .collect()
    };
    let (vanilla, adaptive) = (parts(0), parts(1));
    eprintln!("four nights, disk time: {vanilla:.1?} s, adaptive {adaptive:.1?} s");
    assert_eq!((vanilla.len(), adaptive.len()), (4, 4));
    assert!(adaptive[0] <= vanilla[0] * 1.05);
    assert!(adaptive[2] < 0.5 * vanilla[2], "the third night");
    let sum = |parts: &[f64]| parts.iter().sum::<f64>();
    assert!((sum(&adaptive) - busy(&nights["runs"][1])).abs() < 0.05 * sum(&adaptive));
}
