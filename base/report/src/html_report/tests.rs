//! Reports as a browser parses them: well-formed, complete, and safe against hostile input.

use super::*;
use crate::{Axis, Basis, Column, HeatMap, Lines, Points, Unit};

const EVIL: &str = "</title></script><script>alert('x')</script><img src=x onerror=alert(1)>\" ' & ]]> \u{1b}\u{0}";

/// The body of the page, without the script, as a tree.
fn body(html: &str) -> String {
    let from = html.find("<main>").unwrap();
    let to = html.find("</main>").unwrap();
    html[from..to].to_owned() + "</main>"
}

fn evil() -> Report {
    let lines = Lines {
        x: Axis::new(EVIL, Unit::Other(EVIL.into())),
        y: Axis::new(EVIL, Unit::Seconds),
        series: vec![
            Points::new(EVIL, [(1.0, 1.0), (2.0, 3.0)]),
            Points::new("other", [(1.0, 2.0), (2.0, 5.0)]),
        ],
    };
    Report::new(EVIL, EVIL)
        .tile(Tile::new(EVIL, EVIL, EVIL))
        .section(
            Section::new(EVIL)
                .text(EVIL)
                .table(Table::new(EVIL, vec![Column::text(EVIL)]).row([EVIL.into()]).note(EVIL))
                .figure(Figure::new(EVIL, Basis::Measured, lines).caption(EVIL)),
        )
        .provenance(Provenance {
            command: EVIL.into(),
            facts: vec![(EVIL.into(), EVIL.into())],
            measured: vec![EVIL.into()],
            modelled: vec![EVIL.into()],
        })
}

#[test]
fn outside_text_stays_text() {
    let html = evil().html();
    let page = body(&html);
    let tree = roxmltree::Document::parse(&page).unwrap();
    for node in tree.descendants().filter(roxmltree::Node::is_element) {
        assert!(!matches!(node.tag_name().name(), "script" | "img"), "{node:?}");
        assert!(node.attributes().all(|a| !a.name().starts_with("on")), "{node:?}");
    }
    let shown = EVIL.replace(['\u{1b}', '\u{0}'], "\u{fffd}");
    let h1 = tree.descendants().find(|n| n.has_tag_name("h1")).unwrap();
    assert_eq!(h1.text(), Some(shown.as_str()));
    // The page has only its own two scripts and its own title.
    assert_eq!(html.matches("<script").count(), 2);
    assert_eq!(html.matches("</script>").count(), 2);
    assert_eq!(html.matches("<title>").count(), 1 + page.matches("<title>").count());
    assert!(!html.contains('\u{1b}') && !html.contains('\u{0}'));
}

#[test]
fn a_page_needs_no_network() {
    let html = evil().html().replace("http://www.w3.org/2000/svg", "");
    for word in
        ["http:", "https:", "@import", "url(h", "src=\"", "<link", "<iframe", "fetch(", "XMLHttp"]
    {
        assert!(!html.contains(word), "{word}");
    }
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn every_id_is_used_once_and_every_reference_has_its_target() {
    let map = HeatMap {
        columns: 2,
        values: vec![1.0, 2.0, 3.0, 4.0],
        x_range: (0.0, 1.0),
        y_range: (0.0, 1.0),
        ..HeatMap::default()
    };
    let report = Report::new("a", "b").section(
        Section::new("c")
            .figure(Figure::new("same", Basis::Synthetic, map.clone()))
            .figure(Figure::new("same", Basis::Mixed, map)),
    );
    let page = body(&report.html());
    let tree = roxmltree::Document::parse(&page).unwrap();
    let mut ids: Vec<&str> = tree.descendants().filter_map(|n| n.attribute("id")).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
    assert!(all >= 10, "two figures, two widths, title and description each");
    for node in tree.descendants() {
        for target in node.attribute("aria-labelledby").unwrap_or("").split_whitespace() {
            assert!(ids.binary_search(&target).is_ok(), "{target}");
        }
    }
    for piece in page.split("url(#").skip(1) {
        let target = piece.split(')').next().unwrap();
        assert!(ids.binary_search(&target).is_ok(), "{target}");
    }
}

#[test]
fn the_finding_comes_first_and_empty_parts_leave_no_trace() {
    let html = Report::new("Title", "Finding.").html();
    assert!(
        html.contains("<main><header><h1>Title</h1><p class=\"lead\">Finding.</p></header></main>")
    );
    assert_eq!(html, Report::new("Title", "Finding.").html());
}
