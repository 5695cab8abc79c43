//! Our answers to the paper's claims (`claims/borg.toml`).

use super::experiments::{Curve, Results};
use super::printed::STARTS;
use super::replay::{BorgPhase, BorgRun, Reconfiguration};
use super::start_up::Started;
use crate::PaperError;
use crate::claims::{Answerer, Answers, BOTH, Judged, Paper, least, most};

/// Busy time of the disk in all normal phases, in seconds. The paper's write buffer is emptied in
/// reconfigurations, ours also in normal phases: this counts, by both rules.
pub(super) fn normal_s(run: &BorgRun) -> f64 {
    BorgPhase::sum(&run.phases).disk_s()
}

/// Busy time of a run in seconds: normal phases, moving, and the destaging after the last phase.
pub(super) fn all_s(run: &BorgRun) -> f64 {
    let moving: f64 = run.reconfigurations.iter().map(|r| r.reconfigurer_s).sum();
    normal_s(run) + moving + run.drained.disk_s()
}

fn less(before: f64, after: f64) -> f64 {
    1.0 - after / before
}

/// The reduction of the disk's busy time in each normal phase.
fn reductions(vanilla: &BorgRun, borg: &BorgRun) -> Vec<f64> {
    vanilla.phases.iter().zip(&borg.phases).map(|(v, b)| less(v.disk_s(), b.disk_s())).collect()
}

pub(super) fn judged(results: &Results) -> Result<Judged, PaperError> {
    let mut answers = Answers::default();
    for who in BOTH {
        let of = |figure| {
            let phases = results.figure(figure)?;
            Some((phases.vanilla()?, phases.of(who)))
        };
        let one = |figure| of(figure).and_then(|(v, runs)| Some((v, *runs.first()?)));
        if let Some((vanilla, borg)) = one("6") {
            svn(&mut answers, who, vanilla, borg, results.scale);
        }
        if let Some((vanilla, borg)) = one("7") {
            developer(&mut answers, who, vanilla, borg);
        }
        if let Some((vanilla, runs)) = of("8")
            && let [cumulative, partial] = runs[..]
        {
            web(&mut answers, who, vanilla, cumulative, partial);
            web_plans(&mut answers, who, cumulative, partial);
        }
        if let Some((vanilla, borg)) = one("11") {
            virtual_machines(&mut answers, who, vanilla, borg);
        }
    }
    starts(&mut answers, &results.starts, &results.boots);
    for curve in &results.curves {
        sensitivity(&mut answers, curve);
    }
    Judged::new(include_str!("../../claims/borg.toml"), &answers)
}

/// Non-sequential access and mean seek over all normal phases.
fn weeks(answers: &mut Answers, who: Answerer, trace: &str, vanilla: &BorgRun, borg: &BorgRun) {
    // I/Os are counted for requests alone. By our rule N has destaging too, so ours has no answer.
    if who == Paper {
        let [v, b] = [vanilla, borg].map(|run| BorgPhase::sum(&run.phases));
        let random = less(v.nonsequential_share(), b.nonsequential_share());
        answers.add(who, format!("{trace}.random"), random);
        let seek = less(v.seek_mean_sectors(), b.seek_mean_sectors());
        answers.add(who, format!("{trace}.seek"), seek);
    }
}

/// Busy seconds of the longer of R1 and R2, and of the shorter of R3 and R4.
fn moving(borg: &BorgRun) -> (f64, f64) {
    let moving: Vec<f64> = borg.reconfigurations.iter().map(|r| r.reconfigurer_s).collect();
    let (early, late) = moving.split_at(moving.len().min(2));
    (most(early), least(late))
}

fn svn(answers: &mut Answers, who: Answerer, vanilla: &BorgRun, borg: &BorgRun, scale: f64) {
    let c = reductions(vanilla, borg);
    answers.add(who, "svn.least", least(&c));
    answers.add(who, "svn.best", most(&c));
    let others: Vec<f64> = c.iter().enumerate().filter(|c| c.0 != 1).map(|c| *c.1).collect();
    let n2 = c.get(1).copied().unwrap_or(f64::NAN);
    answers.add(who, "svn.best.phase", [("others", most(&others)), ("N2", n2)]);
    for (id, i) in [("svn.r3", 2), ("svn.r4", 3)] {
        let moving = borg.reconfigurations.get(i).map_or(f64::NAN, |r| r.reconfigurer_s);
        answers.add(who, id, moving / scale);
    }
    let (early, late) = moving(borg);
    answers.add(who, "svn.moving", late / early);
    weeks(answers, who, "svn", vanilla, borg);
}

fn developer(answers: &mut Answers, who: Answerer, vanilla: &BorgRun, borg: &BorgRun) {
    let c = reductions(vanilla, borg);
    let (early, late) = c.split_at(c.len().min(4));
    answers.add(who, "developer.least", least(early));
    answers.add(who, "developer.best", most(early));
    answers.add(who, "developer.n5", late.first().copied().unwrap_or(f64::NAN));
    let (early, late) = moving(borg);
    answers.add(who, "developer.moving", [("R1 and R2", early), ("R3 and R4", late)]);
    weeks(answers, who, "developer", vanilla, borg);
}

fn web(
    answers: &mut Answers,
    who: Answerer,
    vanilla: &BorgRun,
    cumulative: &BorgRun,
    partial: &BorgRun,
) {
    let (c, p) = (reductions(vanilla, cumulative), reductions(vanilla, partial));
    let (early, late) = c.split_at(c.len().min(4));
    answers.add(who, "web.c.least", least(early));
    answers.add(who, "web.c.best", most(early));
    answers.add(who, "web.c.n5", late.first().copied().unwrap_or(f64::NAN));
    // In N1 nothing is trained, so N1 is equal in both. The paper's 5% of partial training lies below
    // its 14% of cumulative training, so behind N1.
    let trained = p.get(1..).unwrap_or_default();
    answers.add(who, "web.p.least", least(trained));
    answers.add(who, "web.p.best", most(trained));
    let [c, p] = [cumulative, partial].map(|run| less(all_s(vanilla), all_s(run)));
    answers.add(who, "web.c.all", c);
    answers.add(who, "web.p.all", p);
    answers.add(who, "web.training", [("cumulative", c), ("partial", p)]);
}

fn web_plans(answers: &mut Answers, who: Answerer, cumulative: &BorgRun, partial: &BorgRun) {
    let size = |r: &Reconfiguration| {
        (r.change.new_bytes + r.change.relocated_bytes + r.change.kept_bytes) as f64
    };
    let plans = cumulative.reconfigurations.iter().enumerate();
    let sizes: Vec<_> = plans.map(|(i, r)| (format!("R{}", i + 1), size(r))).collect();
    answers.add(who, "web.c.plan", sizes);
    let moved = cumulative.reconfigurations.iter().skip(1).map(|r| {
        let all = (r.change.relocated_bytes + r.change.new_bytes).max(1);
        r.change.relocated_bytes as f64 / all as f64
    });
    answers.add(who, "web.c.relocated", least(&moved.collect::<Vec<_>>()));
    let last = |run: &BorgRun| run.reconfigurations.last().map_or(f64::NAN, size);
    let order = [("partial", last(partial)), ("cumulative", last(cumulative))];
    answers.add(who, "web.p.plan", order);
}

fn virtual_machines(answers: &mut Answers, who: Answerer, vanilla: &BorgRun, borg: &BorgRun) {
    let c = reductions(vanilla, borg);
    answers.add(who, "vm.mean", less(normal_s(vanilla), normal_s(borg)));
    // Training, and the paper's reason for an early loss, come with reconfigurations: behind N1.
    let trained = c.iter().enumerate().skip(1).map(|(i, c)| (format!("N{}", i + 1), *c));
    answers.add(who, "vm.training", trained.collect::<Vec<_>>());
    answers.add(who, "vm.early", -c.get(1).copied().unwrap_or(f64::NAN));
}

/// Table 4, and the boots of 6.3.
fn starts(answers: &mut Answers, starts: &[Started], boots: &[Started]) {
    for (s, ours) in STARTS.iter().zip(starts) {
        let (v, b) = (&ours.vanilla, &ours.borg);
        for (what, before, after) in [
            ("time", v.busy_s, b.busy_s),
            ("random", v.nonsequential_share(), b.nonsequential_share()),
            ("seek", v.seek_mean_sectors(), b.seek_mean_sectors()),
        ] {
            answers.add(Paper, format!("start.{}.{what}", s.name), less(before, after));
        }
    }
    let [v, b] = [|s: &Started| s.vanilla.busy_s, |s: &Started| s.borg.busy_s]
        .map(|of| boots.iter().map(of).sum::<f64>());
    answers.add(Paper, "vm.boot", less(v, b));
}

/// A curve of Figure 12.
fn sensitivity(answers: &mut Answers, curve: &Curve) {
    let points: Vec<_> = curve.points.iter().map(|p| (p.0.clone(), p.1)).collect();
    let rest = |name: &str| {
        let others = points.iter().filter(|p| p.0 != name).map(|p| p.1);
        others.collect::<Vec<_>>()
    };
    let at = |name: &str| points.iter().find(|p| p.0 == name).map_or(f64::NAN, |p| p.1);
    let who = curve.who;
    match (curve.varied, curve.trace) {
        ("interval", "borg-developer") => answers.add(who, "interval.developer", points),
        ("interval", _) => answers.add(who, "interval.svn", points),
        ("size of the area", "borg-developer") => {
            let ends = ["256 MiB", "8192 MiB"].map(|name| (name, at(name)));
            answers.add(who, "size.developer", ends);
        }
        ("size of the area", _) => {
            let above = rest("256 MiB");
            answers.add(who, "size.svn", most(&above) - least(&above));
        }
        (_, "borg-developer") => {
            let (none, half) = ("0 %", "50 %");
            let order = [(none, at(none)), ("others", least(&rest(none)))];
            answers.add(who, "buffer.developer.least", order);
            let order = [("others", most(&rest(half))), (half, at(half))];
            answers.add(who, "buffer.developer.most", order);
        }
        _ => answers.add(who, "buffer.svn", points),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_normal_phase_counts_all_work_of_the_disk_and_the_last_destaging_is_in_none() {
        let phase = |busy_s, background_s| BorgPhase { busy_s, background_s, ..Default::default() };
        let run = |a, b, drained| BorgRun { phases: vec![a, b], drained, ..Default::default() };
        let vanilla = run(phase(20.0, 0.0), phase(20.0, 0.0), phase(0.0, 0.0));
        let borg = run(phase(10.0, 20.0), phase(10.0, 0.0), phase(0.0, 5.0));
        assert_eq!(reductions(&vanilla, &borg), [-0.5, 0.5]);
        assert_eq!((normal_s(&borg), all_s(&borg)), (40.0, 45.0));
    }

    #[test]
    fn reconfigurations_that_are_a_little_longer_are_not_substantially_longer() {
        let of = |reconfigurer_s| Reconfiguration { reconfigurer_s, ..Default::default() };
        let reconfigurations = [10.0, 26.4, 28.7, 36.0].map(of).into();
        let (early, late) = moving(&BorgRun { reconfigurations, ..Default::default() });
        assert_eq!((early, late), (26.4, 28.7));
        assert!((1.08..1.09).contains(&(late / early)), "below the 1.15 of the claim");
    }
}
