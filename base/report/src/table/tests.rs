//! Tables against text written by hand, and hostile words in every position.

use super::*;

fn policies() -> Table {
    Table::new(
        "Busy time",
        vec![
            Column::text("policy"),
            Column::number("busy time", Unit::Seconds).better(Better::Lower),
            Column::number("hits", Unit::Count).better(Better::Higher),
            Column::number("moved", Unit::Bytes),
        ],
    )
    .row(["vanilla".into(), 512.4.into(), 1000u64.into(), 0u64.into()])
    .row(["borg".into(), 338.2.into(), 1530u64.into(), (268_435_456u64).into()])
    .row(["broken".into(), f64::NAN.into(), Cell::Empty])
    .baseline(0)
}

#[test]
fn a_terminal_table_agrees_with_the_expected_text() {
    let want = "\
Busy time
policy   busy time (s) ↓       hits ↑  moved (MiB)
───────  ───────────────  ───────────  ───────────
vanilla        512        1,000                  0
borg           338 −34 %  1,530 +53 %          256
broken           –
Changes against vanilla; ↓ lower is better, ↑ higher is better.
";
    assert_eq!(policies().terminal(80, false), want);
}

#[test]
fn headings_of_a_table_too_wide_take_several_lines() {
    let want = "\
Busy time
          busy
          time               moved
policy   (s) ↓       hits ↑  (MiB)
───────  ─────  ───────────  ─────
";
    let mut table = policies();
    table.rows.remove(1);
    table.rows.push(["borg".into(), Cell::Empty, 1530u64.into(), (268_435_456u64).into()].into());
    let text = table.terminal(44, false);
    assert!(text.starts_with(want), "{text}");
    assert!(table.terminal(80, false).contains("policy   busy time (s) ↓"));
}

#[test]
fn colour_adds_escapes_and_nothing_else() {
    let painted = policies().terminal(80, true);
    assert!(painted.contains("\u{1b}[32m−34 %\u{1b}[0m"));
    let mut bare = painted;
    for code in ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m"] {
        bare = bare.replace(code, "");
    }
    assert_eq!(bare, policies().terminal(80, false));
}

#[test]
fn every_width_is_respected_or_the_table_becomes_a_list() {
    use unicode_width::UnicodeWidthStr as _;
    let mut table = policies();
    table.rows[1][0] = "a very long name of a policy that nobody should have chosen, 磁盘".into();
    for width in 56..120 {
        let text = table.terminal(width, false);
        let rows: Vec<&str> = text.lines().skip(1).take(5).collect();
        assert!(rows.iter().all(|l| l.width() <= width), "{width}\n{text}");
    }
    assert!(table.terminal(20, false).contains("  busy time: 338 s −34 %\n"));
}

#[test]
fn csv_carries_every_digit() {
    assert_eq!(
        policies().csv(),
        "policy,busy time [s],hits [count],moved [bytes]\nvanilla,512.4,1000,0\nborg,338.2,1530,268435456\nbroken,,,\n"
    );
}

#[test]
fn hostile_words_stay_text() {
    let evil = "</td><script>alert(1)</script>\u{1b}[31m\n|,\"";
    let table = Table::new(evil, vec![Column::text(evil)]).row([evil.into()]).note(evil);
    let html = table.html();
    let page = format!("<div>{html}</div>");
    let tree = roxmltree::Document::parse(&page).unwrap();
    assert!(!tree.descendants().any(|n| n.has_tag_name("script")));
    assert!(!table.terminal(200, false).contains('\u{1b}'));
    assert_eq!(table.csv().lines().count(), 2);
}

#[test]
fn small_numbers_keep_a_digit_beside_large_ones() {
    let table = Table::new("", vec![Column::number("t", Unit::Seconds)])
        .row([Cell::from(120.0)])
        .row([Cell::from(0.04)]);
    assert_eq!(table.shown()[0].cells[1].text, "0.04");
    assert_eq!(table.shown()[0].cells[0].text, "120.00");
}

#[test]
fn a_number_too_small_for_its_column_is_not_shown_as_zero() {
    let table = Table::new("", vec![Column::number("b", Unit::Bytes)])
        .row([Cell::from(3e9)])
        .row([Cell::from(5.0)])
        .row([Cell::from(-5.0)])
        .row([Cell::from(0.0)]);
    let shown: Vec<String> = table.shown()[0].cells.iter().map(|c| c.text.clone()).collect();
    assert_eq!(shown, ["2.7940", "<0.0001", ">−0.0001", "0.0000"]);
}

#[test]
fn a_change_from_nothing_is_missing() {
    let change = |base| Cell::Change { value: 1.0, base, better: Better::Lower };
    let table = Table::new("", vec![Column::text("x")]).row([change(0.0)]).row([change(2.0)]);
    let shown = table.shown();
    assert_eq!(shown[0].cells[0].change, Some(("–".into(), Verdict::Same)));
    assert_eq!(shown[0].cells[1].change, Some(("−50 %".into(), Verdict::Better)));
}

#[test]
fn an_empty_heading_is_a_plain_cell() {
    let table = Table::new("t", vec![Column::text(""), Column::text("value").right()]);
    let html = table.row(["a".into(), "1".into()]).html();
    assert!(
        html.contains("<tr><td></td><th scope=\"col\" class=\"num\">value</th></tr>"),
        "{html}"
    );
}
