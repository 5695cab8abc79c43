//! A trace's statistics as one HTML report: figures of the rank and frequency of pages, heat over
//! time and address, working sets, temperature, miss ratio and distributions.

use seekless_block::Bytes;
use seekless_report::{
    Axis, Basis, Figure, HeatMap, Lines, Points, Provenance, Report, Section, Tile, Unit,
};
use seekless_trace::stats::{Distribution, Heat, Summary};

use crate::stat::By;
use crate::stat_tables;

/// Most heat maps.
const HEATS: usize = 4;

pub(crate) fn report(s: &Summary, memory: Bytes, top: usize, by: By, command: &str) -> Report {
    let t = &s.table1;
    let mut report = Report::new(s.trace.path.clone(), stat_tables::finding(s));
    for (label, e, unit, note) in [
        ("Footprint", t.unique_bytes, Unit::Bytes, "read or written at least once"),
        ("Hottest 20% of pages", t.top20_share, Unit::Share, "of the accesses"),
        (
            "Partial determinism",
            t.determinism.share,
            Unit::Share,
            "of non-sequential accesses repeat",
        ),
    ] {
        let note = format!("{note}; {}", stat_tables::trust(e, &unit));
        report = report.tile(Tile::new(label, unit.format(e.value, 3), note));
    }
    let [first, rest @ ..] = &stat_tables::all(s, top, by)[..] else { return report };
    let mut asked = Section::new("Requests by operation").table(first.clone());
    asked = asked.figure(rank_frequency(s)).figure(temperature(s)).figure(misses(s));
    report = report.section(asked);
    let mut place = Section::new("Where and when");
    // The busiest first: devices are in that order.
    let rank = |h: &Heat| s.devices.iter().position(|d| d.name == h.device).unwrap_or(usize::MAX);
    let mut heats: Vec<&Heat> = s.heat.iter().collect();
    heats.sort_by_key(|h| rank(h));
    for heat in heats.iter().take(HEATS) {
        place = place.figure(heat_map(heat));
    }
    report = report.section(place);
    if let Some(days) = s.days.as_ref().filter(|d| d.active > 1) {
        report = report.section(
            Section::new("From day to day").figure(overlap(days)).figure(persistence(days)),
        );
    }
    let shape = rest.iter().fold(shape(s), |section, table| section.table(table.clone()));
    report.section(shape).provenance(provenance(s, memory, command))
}

/// Distributions of sizes, distances and times.
fn shape(s: &Summary) -> Section {
    let mut shape = Section::new("Sizes, distances, times").figure(cdf(
        "Sizes of requests",
        "size",
        Unit::Bytes,
        &[("reads", &s.shape.read_size_bytes), ("writes", &s.shape.write_size_bytes)],
        512.0,
        "Share of requests no longer than this.",
    ));
    shape = shape.figure(cdf(
        "Seek distances",
        "distance",
        Unit::Bytes,
        &[("seeks", &s.shape.seek_bytes)],
        512.0,
        "Distance from the end of a request to the start of the next request of its device, sequential requests left out.",
    ));
    if let Some(time) = &s.time {
        shape = shape.figure(cdf(
            "From one request to the next",
            "time",
            Unit::Seconds,
            &[("requests", &time.interarrival_s)],
            1e-9,
            "Requests at the same time are at the left edge.",
        ));
    }
    if let Some(service) = &s.service {
        shape = shape.figure(cdf(
            "Service times of the disk of the time",
            "time",
            Unit::Seconds,
            &[("reads", &service.read_s), ("writes", &service.write_s)],
            1e-9,
            "As recorded in the trace.",
        ));
    }
    shape
}

fn line(x: Axis, y: Axis, series: Vec<Points>) -> Lines {
    // An empty series would only take a colour.
    Lines { x, y, series: series.into_iter().filter(|p| !p.points.is_empty()).collect() }
}

fn rank_frequency(s: &Summary) -> Figure {
    let f = &s.rank_frequency;
    let series = [("reads and writes", &f.all), ("reads", &f.reads), ("writes", &f.writes)];
    let points = series.map(|(name, points)| {
        let at = points.iter().map(|p| (p.rank.value, p.accesses as f64));
        Points::new(name, at.collect::<Vec<_>>())
    });
    let x = Axis::new("rank of the page", Unit::Count).log();
    let plot = line(x, Axis::new("accesses", Unit::Count).log(), points.to_vec());
    Figure::new("How often pages are accessed, by rank", Basis::Measured, plot)
        .caption("Pages of 4 KiB, most accessed first; BORG's Figure 1, top row.")
}

fn temperature(s: &Summary) -> Figure {
    let points: Vec<_> = s.temperature.iter().map(|p| (p.space, p.accesses.value)).collect();
    let plot = line(
        Axis::new("pages, hottest first", Unit::Share),
        Axis::new("accesses", Unit::Share),
        std::iter::once(Points::new("accesses", points))
            .chain(crate::stat_heat::fit(s).map(|fit| crate::stat_heat::line(&fit)))
            .collect(),
    );
    Figure::new("How much the hottest pages take", Basis::Measured, plot)
        .caption("Cumulative accesses over cumulative accessed space: the clustering paper's Figure 1, by pages. The second curve is the closest mixture of normal distributions (section 4 of that paper).")
}

fn misses(s: &Summary) -> Figure {
    let points: Vec<_> =
        s.reuse.curve.iter().map(|p| (p.bytes as f64, p.miss_ratio.value)).collect();
    let mut series = vec![Points::new("miss ratio", points)];
    if s.reuse.curve.iter().any(|p| !p.miss_ratio.is_exact()) {
        for (name, sign) in [("no more than", 1.0), ("no less than", -1.0)] {
            let at = s.reuse.curve.iter().map(|p| {
                let e = p.miss_ratio;
                (p.bytes as f64, (e.value + sign * e.error).clamp(0.0, 1.0))
            });
            series.push(Points::new(name, at.collect::<Vec<_>>()));
        }
    }
    let x = Axis::new("LRU cache", Unit::Bytes).log();
    let plot = line(x, Axis::new("accesses that miss", Unit::Share), series);
    Figure::new("What RAM would save", Basis::Measured, plot).caption(
        "Page accesses, reads and writes, that miss an LRU cache of this size. The cache starts empty. The trace was recorded \
         below another cache.",
    )
}

fn heat_map(heat: &Heat) -> Figure {
    let rows = heat.cells.len() / heat.columns.max(1);
    let time = heat.across == "s";
    let title = match heat.device.as_str() {
        "" => "Requests over time and address".to_owned(),
        name => format!("Requests over time and address, device {name}"),
    };
    let plot = HeatMap {
        x: if time { Axis::new("time", Unit::Seconds) } else { Axis::new("request", Unit::Count) },
        y: Axis::new("address", Unit::Bytes),
        value: Axis::new("requests", Unit::Count).log(),
        x_range: (0.0, heat.column * heat.columns as f64),
        y_range: (0.0, heat.row_bytes as f64 * rows as f64),
        columns: heat.columns,
        values: heat.cells.iter().map(|n| *n as f64).collect(),
    };
    Figure::new(title, Basis::Measured, plot)
        .caption("Reads and writes by their first address. Equal steps of shade are equal ratios, as in BORG's Figure 1.")
}

fn overlap(days: &seekless_trace::stats::Days) -> Figure {
    use seekless_trace::stats::{DayRow, Estimate};
    let series = |name: &str, of: fn(&DayRow) -> Option<Estimate>| {
        let at = days.rows.iter().filter_map(|d| Some((d.day as f64, of(d)?.value)));
        Points::new(name, at.collect::<Vec<_>>())
    };
    let plot = line(
        Axis::new("day", Unit::Count),
        Axis::new("of the day's pages", Unit::Share),
        vec![
            series("also on the first day", |d| d.of_first_day),
            series("top 20%, also top 20% of the first", |d| d.top20_of_first_day),
            series("also on the active day before", |d| d.of_day_before),
            series("top 20%, also top 20% of the one before", |d| d.top20_of_day_before),
        ],
    );
    Figure::new("Pages that a day shares with other days", Basis::Measured, plot)
        .caption("Days with requests; BORG's Figure 1, bottom row.")
}

fn persistence(days: &seekless_trace::stats::Days) -> Figure {
    let name = |later: u64| match later {
        0 => "that day".to_owned(),
        1 => "the next active day".to_owned(),
        n => format!("{n} active days later"),
    };
    let series =
        days.persistence.iter().map(|p| Points::new(name(p.days_later), p.curve.clone())).collect();
    let plot = line(
        Axis::new("hottest pages of a day", Unit::Share).log(),
        Axis::new("accesses", Unit::Share),
        series,
    );
    Figure::new("How long heat lasts", Basis::Measured, plot).caption(
        "Accesses that go to the hottest pages of one day, on that day and later; the clustering paper's Figure 2, by \
         pages. Mean over all such pairs of days.",
    )
}

fn cdf(
    title: &str,
    label: &str,
    unit: Unit,
    of: &[(&str, &Distribution)],
    least: f64,
    caption: &str,
) -> Figure {
    // A logarithmic axis has no zero. Between two values the share is constant.
    let curve = |d: &Distribution| {
        let mut before = 0.0;
        let step = |&(v, q): &(f64, f64)| {
            let at = v.max(least);
            [(at, std::mem::replace(&mut before, q)), (at, q)]
        };
        d.curve.iter().flat_map(step).collect::<Vec<_>>()
    };
    let series = of.iter().map(|(name, d)| Points::new(*name, curve(d))).collect();
    let plot = line(Axis::new(label, unit).log(), Axis::new("requests", Unit::Share), series);
    Figure::new(title, Basis::Measured, plot).caption(caption)
}

fn provenance(s: &Summary, memory: Bytes, command: &str) -> Provenance {
    let t = &s.trace;
    let has = [
        (t.has_times, "times"),
        (t.has_days, "days"),
        (t.has_processes, "processes"),
        (t.has_service, "service times"),
    ];
    let has: Vec<&str> = has.iter().filter(|h| h.0).map(|h| h.1).collect();
    let has = if has.is_empty() { "addresses alone".to_owned() } else { has.join(", ") };
    let known = if s.table1.pages.is_exact() {
        "exact"
    } else {
        "estimated from a sample of pages, with three standard errors"
    };
    let origin = Provenance::of(command)
        .fact("trace", format_args!("{}, with {has}", t.format))
        .fact("requests", Unit::count(t.requests))
        .fact("memory allowed", memory)
        .fact("numbers of pages", known)
        .measured("all of it, from the requests of the trace");
    s.notes.iter().fold(origin, |origin, note| origin.fact("note", note))
}
