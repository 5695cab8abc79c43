//! An advice as a page: the answer, the savings of each system with their range, and each day.

use seekless_compare::{Advice, Tried, Verdict};
use seekless_report::{
    Axis, BarSeries, BarValue, Bars, Basis, Figure, Lines, Points, Provenance, Report, Section,
    Tile, Unit,
};

pub(crate) fn report(advice: &Advice, command: &str) -> Report {
    let by = advice.ranked_by;
    let title = format!("Advice for {} on {}", advice.trace.path, advice.disk);
    let mut report = Report::new(title, advice.sentences.join(" "))
        .tile(Tile::new(
            "Learned policy",
            match advice.verdict {
                Verdict::Worth => "worth it",
                Verdict::Unsure => "unsure",
                Verdict::NoGain => "no gain",
            },
            advice.choice.map_or("no policy saves anything".to_owned(), |i| {
                let t = &advice.tried[i];
                format!(
                    "{} saves {}, background work counted",
                    t.system,
                    percent(by.saves(t).map_or(0.0, |gain| gain.share))
                )
            }),
        ))
        .tile(Tile::new(
            "Positioning",
            percent(advice.positioning_share),
            "of the disk's time: the arm moves, or waits for the platter",
        ))
        .tile(Tile::new(
            "Foresight",
            percent(advice.foresight_share),
            "saved by a policy that knows the next 1,000 requests, background work counted",
        ));
    if let Some(t) = advice.choice.map(|i| &advice.tried[i])
        && advice.held_out_folds > 0
    {
        report = report.tile(Tile::new(
            "Left-out folds",
            percent(by.held_out(t)),
            "saved on folds that the choice did not use",
        ));
    }
    let saves = Figure::new("What each system saves", Basis::Modelled, bars(advice)).caption(
        format!("Share of {} saved, compared with the present system, background work counted. The whisker is the 90% range for the folds left out.", by.words()),
    );
    let days = Figure::new("Fold by fold", Basis::Modelled, folds(advice)).caption(
        "Busy time of each fold of the trace, background work counted. Plans come from the folds before; the last folds were left out of the choice.",
    );
    report
        .section(
            Section::new("What was tried")
                .table(seekless_cli::tables::advice(advice))
                .figure(saves)
                .figure(days),
        )
        .provenance(provenance(advice, command))
}

fn percent(share: f64) -> String {
    Unit::Share.format(share, 2)
}

fn bars(advice: &Advice) -> Bars {
    let by = advice.ranked_by;
    let value = |t: &Tried| {
        let g = by.saves(t)?;
        Some(BarValue { value: g.share, spread: g.low.is_finite().then_some((g.low, g.high)) })
    };
    let tried: Vec<&Tried> = advice.tried[1..].iter().filter(|t| by.saves(t).is_some()).collect();
    Bars {
        axis: Axis::new(format!("{} saved", by.words()), Unit::Share),
        categories: tried.iter().map(|t| t.system.clone()).collect(),
        series: vec![BarSeries {
            name: "saved".to_owned(),
            values: tried.iter().filter_map(|t| value(t)).collect(),
        }],
    }
}

fn folds(advice: &Advice) -> Lines {
    let line = |t: &Tried| {
        let points: Vec<(f64, f64)> =
            t.laps.iter().enumerate().map(|(i, lap)| ((i + 1) as f64, lap.all_busy_s())).collect();
        Points::new(t.system.clone(), points)
    };
    let mut shown = vec![&advice.tried[0]];
    shown.extend(advice.choice.map(|i| &advice.tried[i]));
    Lines {
        x: Axis::new("fold", Unit::Count),
        y: Axis::new("busy time", Unit::Seconds),
        series: shown.into_iter().map(line).collect(),
    }
}

fn provenance(advice: &Advice, command: &str) -> Provenance {
    let (base, trace) = (&advice.tried[0], &advice.trace);
    let (folds, held_out) = (advice.fold_requests.len(), advice.held_out_folds);
    let requests = Unit::count(trace.requests);
    Provenance::of(command)
        .fact("trace", format_args!("{}: {requests} requests", trace.format))
        .fact("folds", format_args!("{folds}, of which {held_out} left out of the choice"))
        .fact("disk", &advice.disk)
        .fact("scheduler", &base.scheduler)
        .fact("RAM", Unit::bytes(base.cache_bytes))
        .fact("read-ahead", Unit::bytes(base.read_ahead_bytes))
        .fact("replay", advice.replay)
        .measured("the requests of the trace")
        .modelled("every time and every joule")
}
