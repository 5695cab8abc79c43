//! Figures as a reader's browser parses them: well-formed, finite, described in words, and small.

use std::collections::BTreeSet;

use proptest::prelude::*;
use seekless_block::{Dice, Extent, Lba, Sectors, SimTime};

use super::*;

const STRANGE: [f64; 12] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    5e-324,
    0.0,
    -0.0,
    1e149,
    -1e149,
    1e-99,
];

const KINDS: [HeadKind; 3] = [HeadKind::Read, HeadKind::Write, HeadKind::Background];

fn axis(unit: Unit, log: bool) -> Axis {
    let axis = Axis::new("a label", unit);
    if log { axis.log() } else { axis }
}

/// One figure of every kind from the same numbers.
fn every_kind(v: &[f64], unit: &Unit, log: bool) -> Vec<Figure> {
    let x = || axis(unit.clone(), log);
    let pairs: Vec<(f64, f64)> = v.iter().copied().zip(v.iter().rev().copied()).collect();
    let series = || {
        vec![Points::new("one", pairs.clone()), Points::new("two", vec![(1.0, 2.0); v.len() % 2])]
    };
    let at = |i: usize| v.get(i).copied().unwrap_or(0.0);
    let bar = |v: &f64| BarValue { value: *v, spread: Some((at(0), at(1))) };
    let values = vec![Values::new("one", v), Values::new("two", &v[..v.len() / 2])];
    let samples = [("one".to_owned(), v.to_vec())];
    let plots: Vec<Plot> = vec![
        StackedBars { axis: x(), parts: vec!["p".into(), "q".into()], bars: values.clone() }.into(),
        Bars {
            axis: x(),
            categories: v.iter().map(|_| "category".to_owned()).collect(),
            series: vec![
                BarSeries { name: "one".into(), values: v.iter().map(bar).collect() },
                BarSeries { name: "two".into(), values: v.iter().map(|v| (*v).into()).collect() },
            ],
        }
        .into(),
        Lines { x: x(), y: x(), series: series() }.into(),
        Lines::cdf("a label", unit.clone(), samples).into(),
        Scatter { x: x(), y: x(), series: series() }.into(),
        Histogram::of(x(), 7, &values).into(),
        Histogram { x: x(), y: x(), edges: v.to_vec(), series: values }.into(),
        HeatMap {
            x: x(),
            y: x(),
            value: x(),
            x_range: (at(0), at(1)),
            y_range: (at(1), at(2)),
            columns: 2,
            values: v.to_vec(),
        }
        .into(),
        head_bits(v),
    ];
    plots.into_iter().map(|p| Figure::new("A title", Basis::Synthetic, p)).collect()
}

/// A head path from the bits of floats, so that extreme times and positions occur.
fn head_bits(v: &[f64]) -> Plot {
    let moves = v.iter().enumerate().map(|(i, v)| HeadMove {
        at: SimTime(v.to_bits()),
        lba: Lba(v.to_bits().rotate_left(17)),
        kind: KINDS[i % 3],
    });
    let area = Some(Extent::new(9, u64::MAX));
    let run = HeadRun { name: "one".into(), moves: moves.collect(), area };
    let runs = vec![run, HeadRun::default()];
    HeadPath { capacity: Sectors(v.len() as u64), runs }.into()
}

/// Asserts that a figure is well-formed, has a description, and contains only finite numbers.
fn check(figure: &Figure) {
    let svg = figure.svg();
    let tree = roxmltree::Document::parse(&svg).unwrap();
    let root = tree.root_element();
    let text = |tag| root.children().find(|n| n.has_tag_name(tag)).and_then(|n| n.text()).unwrap();
    assert_eq!(text("title"), figure.title);
    assert!(text("desc").contains(figure.basis.word()));
    let csv = figure.csv();
    for text in [svg.as_str(), csv.as_str()] {
        assert!(!text.contains("NaN") && !text.contains("inf"), "{figure:?}\n{text}");
    }
    for node in tree.descendants().filter(roxmltree::Node::is_element) {
        for name in ["x", "y", "width", "height"] {
            if let Some(v) = node.attribute(name) {
                let v: f64 = v.parse().unwrap();
                assert!(v.is_finite() && (-100.0..20_000.0).contains(&v), "{name}={v}");
            }
        }
        if node.has_tag_name("path") && node.attribute("class") != Some("hatch") {
            let d = node.attribute("d").unwrap();
            assert!(d.starts_with('M'), "{d}");
            assert!(d.chars().all(|c| "MLHVhvmlz-. ".contains(c) || c.is_ascii_digit()), "{d}");
        }
    }
    let html = figure.html("id");
    roxmltree::Document::parse(&html).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_input_panics_or_draws_an_invalid_number(
        v in prop::collection::vec(prop_oneof![any::<f64>(), -1e3..1e3, prop::sample::select(&STRANGE[..])], 0..12),
        unit in prop::sample::select(vec![Unit::Number, Unit::Count, Unit::Bytes, Unit::Seconds, Unit::Share, Unit::Joules]),
        log: bool,
    ) {
        every_kind(&v, &unit, log).iter().for_each(check);
    }

    #[test]
    fn ordinary_numbers_are_drawn(v in prop::collection::vec(0.001..1e4, 3..40), log: bool) {
        for figure in every_kind(&v, &Unit::Seconds, log) {
            check(&figure);
            let sorted = !matches!(&figure.plot, Plot::Histogram(h) if !h.edges.is_sorted());
            let ranged = !matches!(&figure.plot, Plot::HeatMap(m) if m.x_range.0 >= m.x_range.1 || m.y_range.0 >= m.y_range.1);
            prop_assert_eq!(figure.svg().contains(">no data<"), !(sorted && ranged), "{:?}", figure);
        }
    }
}

#[test]
fn a_figure_without_data_says_so() {
    for v in [&[][..], &[f64::NAN, f64::INFINITY][..]] {
        for figure in every_kind(v, &Unit::Seconds, false) {
            if !v.is_empty() && matches!(figure.plot, Plot::HeadPath(_)) {
                continue; // Made from the bits: those are times.
            }
            if matches!(&figure.plot, Plot::Scatter(s) if s.series[1].points.len() == 1) {
                continue;
            }
            check(&figure);
            assert!(figure.svg().contains(">no data<"), "{figure:?}");
        }
    }
}

#[test]
fn one_point_and_equal_points_are_drawn() {
    for v in [&[3.0][..], &[3.0; 9][..], &[0.0; 4][..]] {
        let points = Points::new("p", v.iter().map(|y| (1.0, *y)).collect::<Vec<_>>());
        let plot = Scatter {
            x: axis(Unit::Number, false),
            y: axis(Unit::Number, false),
            series: vec![points],
        };
        let figure = Figure::new("A title", Basis::Synthetic, plot);
        check(&figure);
        assert!(figure.svg().contains("series"));
    }
}

#[test]
fn stacked_parts_add_up_to_their_pixels() {
    let bars = StackedBars {
        axis: Axis::new("busy", Unit::Seconds),
        parts: vec!["seek".into(), "rotation".into()],
        bars: vec![Values::new("a", [30.0, 70.0]), Values::new("b", [25.0, 25.0])],
    };
    let svg = Figure::new("t", Basis::Modelled, bars).svg();
    let tree = roxmltree::Document::parse(&svg).unwrap();
    let number =
        |n: roxmltree::Node<'_, '_>, a: &str| n.attribute(a).unwrap().parse::<f64>().unwrap();
    let parts: Vec<(f64, f64, String)> = tree
        .descendants()
        .filter(|n| {
            n.attribute("class").is_some_and(|c| c.starts_with("fl ")) && n.has_attribute("data-s")
        })
        .map(|n| {
            let tip = n.first_element_child().unwrap().text().unwrap().to_owned();
            (number(n, "x"), number(n, "width"), tip)
        })
        .collect();
    assert_eq!(parts.len(), 4);
    let whole = parts[0].1 + parts[1].1;
    assert!((parts[0].1 / whole - 0.3).abs() < 0.002, "{parts:?}");
    assert!((parts[0].0 + parts[0].1 - parts[1].0).abs() < 0.2, "parts touch");
    assert!(((parts[2].1 + parts[3].1) / whole - 0.5).abs() < 0.002);
    assert_eq!(parts[0].2, "a, seek: 30 s (30 %)");
}

#[test]
fn a_cumulative_distribution_keeps_its_ends() {
    let samples: Vec<f64> = (1..=1000).rev().map(f64::from).collect();
    let lines = Lines::cdf("t", Unit::Seconds, [("a".to_owned(), samples)]);
    let points = &lines.series[0].points;
    assert_eq!(points.first(), Some(&(1.0, 0.001)));
    assert_eq!(points.last(), Some(&(1000.0, 1.0)));
    assert!(points.iter().all(|p| (p.1 * 1000.0 - p.0).abs() < 1e-9));
}

#[test]
fn a_histogram_counts_every_sample_once() {
    let samples = [Values::new("a", [1.0, 1.5, 2.0, 3.0, 5.0, f64::NAN])];
    let h = Histogram::of(axis(Unit::Number, false), 4, &samples);
    assert_eq!(h.edges, [1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(h.series[0].values, [2.0, 1.0, 1.0, 1.0]);
    let (csv, whole) = h.csv(100);
    assert!(!whole);
    assert_eq!(csv, "series,a label from,a label to,Count [count]\na,1,3,3\na,3,5,2\n");
    let log = Histogram::of(
        axis(Unit::Number, true),
        2,
        &[Values::new("a", [1.0, 99.0, 100.0, 1e4, -1.0])],
    );
    assert_eq!(log.series[0].values, [2.0, 2.0]);
}

#[test]
fn csv_holds_the_data_in_base_units() {
    let moves = vec![HeadMove { at: SimTime(1500), lba: Lba(77), kind: HeadKind::Write }];
    let runs = vec![HeadRun { name: "a,b".into(), moves, area: None }];
    let path = HeadPath { capacity: Sectors(100), runs };
    let csv = Figure::new("t", Basis::Measured, path).csv();
    assert_eq!(csv, "run,time [ns],position [sectors],kind\n\"a,b\",1500,77,write\n");
}

/// A million random moves, the worst case for thinning: every position at every time, all kinds
/// mixed.
fn noise(runs: usize, each: u64) -> HeadPath {
    let mut dice = Dice::new(7);
    let mut run = |name: usize| {
        let moves = (0..each).map(|i| HeadMove {
            at: SimTime(i * 1_000_000),
            lba: Lba(dice.below(1_000_000)),
            kind: KINDS[dice.below(3) as usize],
        });
        HeadRun { name: name.to_string(), moves: moves.collect(), area: None }
    };
    HeadPath { capacity: Sectors(1_000_000), runs: (0..runs).map(&mut run).collect() }
}

#[test]
fn a_million_points_need_less_than_1_5_mb_and_are_reproducible() {
    for runs in [1, 2, 4] {
        let figure = Figure::new("Noise", Basis::Synthetic, noise(runs, 1_000_000 / runs as u64));
        let report = crate::Report::new("Noise", "Noise.")
            .section(crate::Section::new("Noise").figure(figure));
        let html = report.html();
        eprintln!("{runs} runs: {} bytes", html.len());
        assert!(html.len() < 1_500_000, "{runs} runs make {} bytes", html.len());
        assert!(html == report.html(), "two calls differ");
    }
}

#[test]
fn every_other_figure_of_a_million_numbers_stays_small_too() {
    let moves = &noise(1, 1_000_000).runs[0].moves;
    let points: Vec<(f64, f64)> = moves.iter().map(|m| (m.at.0 as f64, m.lba.0 as f64)).collect();
    let numbers: Vec<f64> = points.iter().map(|p| p.1).collect();
    let x = || axis(Unit::Number, false);
    let series = vec![Points::new("p", points)];
    let values = Values::new("v", numbers.clone());
    let plots: [Plot; 5] = [
        Lines { x: x(), y: x(), series: series.clone() }.into(),
        Lines::cdf("t", Unit::Seconds, [("p".to_owned(), numbers.clone())]).into(),
        Scatter { x: x(), y: x(), series }.into(),
        Histogram::of(x(), 10_000, &[values]).into(),
        HeatMap {
            x: x(),
            y: x(),
            value: x(),
            x_range: (0.0, 1.0),
            y_range: (0.0, 1.0),
            columns: 1000,
            values: numbers,
        }
        .into(),
    ];
    for plot in plots {
        let figure = Figure::new("A title", Basis::Synthetic, plot);
        let bytes = figure.html("id").len();
        assert!(bytes < 1_000_000, "{bytes} bytes: {}", figure.description());
        eprintln!("{bytes} bytes: {}", figure.description());
    }
}

#[test]
fn a_thinned_path_keeps_its_extremes_and_every_kind() {
    let mut path = noise(1, 50_000);
    path.runs[0].moves[25_000] =
        HeadMove { at: SimTime(25_000_000_000), lba: Lba(999_999), kind: HeadKind::Write };
    for m in &mut path.runs[0].moves[..20_000] {
        m.lba.0 %= 500_000;
    }
    let figure = Figure::new("t", Basis::Synthetic, path);
    assert!(!figure.svg().contains("class=\"fine\""), "a picture cannot be zoomed");
    let html = figure.html("f");
    let start = html.find("<svg class=\"fig wide\"").unwrap();
    let svg = &html[start..start + html[start..].find("</svg>").unwrap() + 6];
    let tree = roxmltree::Document::parse(svg).unwrap();
    let layer = |name| tree.descendants().find(|n| n.attribute("class") == Some(name)).unwrap();
    for name in ["coarse", "fine"] {
        let kinds: BTreeSet<_> =
            layer(name).children().filter_map(|n| n.attribute("data-name")).collect();
        assert_eq!(kinds.len(), 3, "{name}");
    }
    let panel = tree.descendants().find(|n| n.attribute("class") == Some("panel")).unwrap();
    let frame: Vec<f64> =
        panel.attribute("data-frame").unwrap().split(' ').map(|v| v.parse().unwrap()).collect();
    let writes =
        layer("coarse").children().find(|n| n.attribute("data-name") == Some("write")).unwrap();
    let top = writes.attribute("d").unwrap().split('M').skip(1).map(|p| {
        let mut n = p.split([' ', 'm', 'h', 'l']);
        let x: f64 = n.next().unwrap().parse().unwrap();
        (x, n.next().unwrap().parse::<f64>().unwrap())
    });
    let mid = (frame[0] + frame[2]) / 2.0;
    let near = top.filter(|p| (p.0 - mid).abs() < 1.0).map(|p| p.1).fold(f64::MAX, f64::min);
    let (_, line) = svg.split_once("class=\"track faint\" d=\"").unwrap();
    let (line, _) = line.split_once('"').unwrap();
    let ys = line.split('L').filter_map(|p| p.split(' ').nth(1));
    let least = ys.map(|y| y.parse::<f64>().unwrap()).fold(f64::MAX, f64::min);
    assert!((near - least).abs() < 0.11, "the highest move is drawn: {near} {least}");
}

#[test]
fn a_logarithmic_heat_map_shades_by_ratio_and_shows_the_number() {
    let map = |value: Axis| HeatMap {
        x: Axis::new("time", Unit::Seconds),
        y: Axis::new("address", Unit::Bytes),
        value,
        x_range: (0.0, 3.0),
        y_range: (0.0, 1.0),
        columns: 3,
        values: vec![0.0, 31.0, 1023.0],
    };
    let html = |value: Axis| Figure::new("h", Basis::Synthetic, map(value)).html("h");
    // 1 + 31 = 2^5, 1 + 1023 = 2^10: the middle shade, 9 / 2 rounded up. On a linear scale 31 is a
    // 33rd.
    let log = html(Axis::new("requests", Unit::Count).log());
    assert!(log.contains("\"heat h5\" d=") && log.contains("\"heat h9\" d="), "{log}");
    assert!(!log.contains("\"heat h1\" d="));
    assert!(html(Axis::new("requests", Unit::Count)).contains("\"heat h1\" d="));
    assert!(log.contains("data-values=\"0,31,1023,\"") && log.contains(">1,023<"), "{log}");
}

#[test]
fn amounts_start_at_zero_and_counts_have_no_halves() {
    let lines = Lines {
        x: Axis::new("fold", Unit::Count),
        y: Axis::new("busy", Unit::Seconds),
        series: vec![Points::new("a", [(1.0, 90.0), (2.0, 95.0), (3.0, 100.0)])],
    };
    let svg = Figure::new("t", Basis::Synthetic, lines).svg();
    let ticks: Vec<&str> = svg
        .split("class=\"tick\"")
        .skip(1)
        .filter_map(|t| t.split_once('>')?.1.split('<').next())
        .collect();
    assert_eq!(ticks, ["0", "20", "40", "60", "80", "100", "1", "2", "3"]);
}
