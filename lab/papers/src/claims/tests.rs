//! The rules by which a claim holds, at their limits.

use super::*;

const FILE: &str = r#"
[[claim]]
id = "share"
what = "a share"
where = "Table 1"
kind = "share"
printed = 0.50
answers = ["paper", "beyond"]
better = "more"

[[claim]]
id = "value"
what = "a value"
where = "Table 1"
kind = "value"
printed = -200.0
answers = ["paper"]

[[claim]]
id = "wide"
what = "a value with a wider tolerance"
where = "Table 1"
kind = "value"
printed = 100.0
answers = ["paper", "beyond"]
better = "less"
tolerance = 0.5
reason = "printed without digits"

[[claim]]
id = "least"
what = "a bound"
where = "Table 1"
kind = "at-least"
printed = 1.3
answers = ["paper"]

[[claim]]
id = "most"
what = "a bound"
where = "Table 1"
kind = "at-most"
printed = 1.5
answers = ["paper"]

[[claim]]
id = "more"
what = "a gain"
where = "Table 1"
kind = "more-than"
printed = 0.0
answers = ["paper"]

[[claim]]
id = "order"
what = "an order"
where = "Table 1"
kind = "ranking"
order = ["a", "b", "c"]
answers = ["paper"]

[[unanswered]]
what = "a machine"
where = "Table 2"
printed = "17 W"
why = "not modelled"
"#;

fn claim(id: &str) -> Claim {
    let file: ClaimFile = toml::from_str(FILE).unwrap();
    file.claim.into_iter().find(|c| c.id == id).unwrap()
}

fn holds(id: &str, who: Answerer, ours: impl Into<Answer>) -> bool {
    claim(id).holds(who, &ours.into())
}

#[test]
fn a_number_holds_up_to_its_tolerance_and_no_further() {
    for (id, inside, outside) in [
        ("share", [0.45, 0.55], [0.449, 0.551]),
        ("value", [-230.0, -170.0], [-231.0, -169.0]),
        ("wide", [50.0, 150.0], [49.0, 151.0]),
        ("least", [1.3, 9.0], [1.299, -9.0]),
        ("most", [1.5, -9.0], [1.501, 9.0]),
        ("more", [0.001, 9.0], [0.0, -1.0]),
    ] {
        assert!(inside.into_iter().all(|n| holds(id, Paper, n)), "{id}");
        assert!(!outside.into_iter().any(|n| holds(id, Paper, n)), "{id}");
        assert!(!holds(id, Paper, f64::NAN) && !holds(id, Paper, [("a", 1.0)]), "{id}");
    }
    assert!(!holds("least", Paper, f64::INFINITY) && !holds("most", Paper, f64::NEG_INFINITY));
}

#[test]
fn only_ours_beyond_the_paper_may_be_better_by_any_amount() {
    assert!(holds("share", Beyond, 0.9) && !holds("share", Paper, 0.9));
    assert!(!holds("share", Beyond, 0.44));
    assert!(holds("wide", Beyond, 1.0) && !holds("wide", Paper, 1.0));
    assert!(!holds("wide", Beyond, 151.0));
}

#[test]
fn a_ranking_holds_in_the_papers_order_without_ties() {
    assert!(holds("order", Paper, [("c", 3.0), ("a", 1.0), ("b", 2.0)]));
    for other in [
        [("a", 2.0), ("b", 1.0), ("c", 3.0)],
        [("a", 1.0), ("b", 1.0), ("c", 3.0)],
        [("a", f64::NAN), ("b", 1.0), ("c", 3.0)],
        [("a", 1.0), ("b", 2.0), ("d", 3.0)],
    ] {
        assert!(!holds("order", Paper, other), "{other:?}");
    }
    assert!(!holds("order", Paper, [("a", 1.0), ("b", 2.0)]) && !holds("order", Paper, 1.0));
}

fn answers() -> Answers {
    let mut answers = Answers::default();
    for (id, ours) in [("share", 0.52), ("value", 0.0), ("wide", 99.0), ("least", 1.29)] {
        answers.add(Paper, id, ours);
    }
    answers.add(Paper, "most", f64::NAN);
    answers.add(Paper, "more", 0.1);
    answers.add(Paper, "order", [("a", 1.0), ("b", 2.0), ("c", 3.0)]);
    answers.add(Beyond, "share", 0.1);
    answers.add(Beyond, "wide", 9.0);
    answers
}

#[test]
fn the_two_answers_are_counted_apart_and_what_is_open_is_not_held() {
    let judged = Judged::new(FILE, &answers()).unwrap();
    assert_eq!((judged.count(Paper), judged.count(Beyond)), ((4, 7), (1, 2)));
    let lead = judged.lead();
    for words in ["rule: 4 of 7 ", "beyond it: 1 of 2 ", "1 printed statement is not"] {
        assert!(lead.contains(words), "{words}: {lead}");
    }
    let mut document = json!({});
    judged.document(&mut document);
    assert_eq!(document["counts"]["ours"], json!({ "holds": 4, "of": 7 }));
    assert_eq!(document["counts"]["unanswered"], 1);
    let share = &document["results"][0];
    assert_eq!(share["holds"], json!({ "ours": true, "beyond": false }));
    assert_eq!((&share["paper"], &share["tolerance"]), (&json!(0.5), &json!(0.05)));
    assert_eq!(document["results"][1]["holds"]["beyond"], Value::Null);
    assert_eq!(document["results"][4]["ours"], Value::Null, "not a number");
}

#[test]
fn a_claim_without_an_answer_and_an_answer_without_a_claim_are_refused() {
    let mut short = answers();
    short.0.remove(&("share".to_owned(), Beyond));
    let mut long = answers();
    long.add(Beyond, "value", 1.0);
    for (answers, id) in [(short, "share"), (long, "value")] {
        let why = Judged::new(FILE, &answers).unwrap_err().to_string();
        assert!(why.contains(id), "{why}");
    }
    for (from, to) in [
        ("tolerance = 0.5\n", ""),
        ("reason = \"printed without digits\"\n", ""),
        ("printed = 1.3", "printed = 1.3\nbetter = \"more\""),
        ("order = [\"a\", \"b\", \"c\"]", "printed = 3.0"),
        ("kind = \"at-most\"", "kind = \"about\""),
    ] {
        assert!(Judged::new(&FILE.replacen(from, to, 1), &answers()).is_err(), "{to}");
    }
}

#[test]
fn numbers_that_eefs_days_match_do_not_count() {
    let file: ClaimFile = toml::from_str(claims_of("eefs")).unwrap();
    let matched = |c: &Claim| {
        let last = c.id.rsplit('.').next();
        let place = matches!(c.place.as_str(), "Table 2" | "Figure 5");
        place || matches!(last, Some("ffs" | "idle" | "grouped"))
    };
    assert_eq!(file.claim.iter().filter(|c| matched(c)).count(), 24 + 4 + 2 + 4 + 2 + 4);
    for claim in &file.claim {
        assert_eq!(claim.fitted, matched(claim), "{}", claim.id);
    }
}

/// What a run computes is a claim, also if it fails.
#[test]
fn nothing_unanswered_waits_for_a_judgement() {
    for paper in ["borg", "clustering", "eefs", "fast10", "fs2"] {
        let file: ClaimFile = toml::from_str(claims_of(paper)).unwrap();
        for open in file.unanswered {
            assert!(!open.why.contains("not judged"), "{paper}, {}: {}", open.what, open.why);
        }
    }
}

#[test]
fn numbers_that_hold_by_our_choice_do_not_count() {
    let oaimpress = ["start.oaimpress.time", "start.oaimpress.random", "start.oaimpress.seek"];
    for (paper, chosen) in [("fs2", &["tpcw.first"][..]), ("borg", &oaimpress[..])] {
        let file: ClaimFile = toml::from_str(claims_of(paper)).unwrap();
        let fitted: Vec<_> =
            file.claim.iter().filter(|c| c.fitted).map(|c| c.id.as_str()).collect();
        assert_eq!(fitted, chosen, "{paper}");
    }
}

/// The file of claims of the paper with this name.
fn claims_of(paper: &str) -> &'static str {
    match paper {
        "borg" => include_str!("../../claims/borg.toml"),
        "clustering" => include_str!("../../claims/clustering.toml"),
        "eefs" => include_str!("../../claims/eefs.toml"),
        "fast10" => include_str!("../../claims/fast10.toml"),
        _ => include_str!("../../claims/fs2.toml"),
    }
}

/// An answer as a document has it.
fn answer(value: &Value) -> Answer {
    let number = |v: &Value| v.as_f64().unwrap_or(f64::NAN);
    match value.as_array() {
        None => Answer::Number(number(value)),
        Some(named) => {
            let name = |n: &Value| (n[0].as_str().unwrap().to_owned(), number(&n[1]));
            Answer::Ranked(named.iter().map(name).collect())
        }
    }
}

/// The marks of a document that its own numbers contradict.
fn contradicted(claims: &str, marked: &Value) -> Vec<String> {
    let mut answers = Answers::default();
    for r in marked["results"].as_array().unwrap() {
        for (who, column) in [(Paper, "ours"), (Beyond, "beyond")] {
            if !r["holds"][column].is_null() {
                answers.add(who, r["id"].as_str().unwrap(), answer(&r[column]));
            }
        }
    }
    let mut document = json!({});
    Judged::new(claims, &answers).unwrap().document(&mut document);
    let results = |d: &Value| d["results"].as_array().unwrap().clone();
    let mut wrong: Vec<String> = results(marked)
        .iter()
        .zip(results(&document))
        .filter(|(m, now)| m["id"] != now["id"] || m["holds"] != now["holds"])
        .map(|(m, now)| format!("{m}: {}", now["holds"]))
        .collect();
    if marked["counts"] != document["counts"] {
        wrong.push(format!("{}: {}", marked["counts"], document["counts"]));
    }
    wrong
}

#[test]
fn no_committed_claim_is_marked_against_its_own_number() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/claims/results");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let mut marked: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let claims = claims_of(marked["what"].as_str().unwrap());
        let wrong = contradicted(claims, &marked);
        assert!(wrong.is_empty(), "{}:\n{}", path.display(), wrong.join("\n"));
        // Each mark turned, once.
        for i in 0..marked["results"].as_array().unwrap().len() {
            let mark = &mut marked["results"][i]["holds"]["ours"];
            let Some(holds) = mark.as_bool() else { continue };
            *mark = (!holds).into();
            assert_eq!(contradicted(claims, &marked).len(), 1, "{}, {i}", path.display());
            marked["results"][i]["holds"]["ours"] = holds.into();
        }
        files += 1;
    }
    assert!(files >= 6, "{files} files of results");
}
