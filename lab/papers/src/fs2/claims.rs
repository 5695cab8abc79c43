//! Our answers to the paper's claims (`claims/fs2.toml`).

use seekless_disk::SeekCurve;

use super::distances::range;
use super::experiments::{Load, Results};
use super::printed::PRINTED;
use super::replay::Fs2Run;
use crate::PaperError;
use crate::claims::{Answerer, Answers, BOTH, Beyond, Judged, Paper, most};
use crate::synth::Fs2Load;

/// The system of each answer.
pub(super) const fn system(who: Answerer) -> &'static str {
    match who {
        Paper => "fs2",
        Beyond => "fs2-whole",
    }
}

/// An improvement, as a share of `before`.
pub(super) fn gain(before: f64, after: f64) -> f64 {
    if before > 0.0 { 1.0 - after / before } else { 0.0 }
}

/// T_A, T_s and T_r of one I/O of the disk in milliseconds, and its energy in millijoules.
pub(super) fn access(run: &Fs2Run) -> [f64; 4] {
    [run.busy_s(), run.seek_s, run.rotation_s, run.access_j].map(|s| run.mean_ms(s))
}

/// The time that a user waits: the mean response time in milliseconds if requests come at fixed
/// times, otherwise the time of the whole run in seconds.
pub(super) fn user(run: &Fs2Run, timed: bool) -> f64 {
    if timed { run.response_ms } else { run.span_s }
}

pub(super) fn percent(share: f64) -> String {
    format!("{}{:.1} %", if share < 0.0 { "−" } else { "" }, share.abs() * 100.0)
}

/// The names of the loads in the file of claims, and in a ranking.
const fn names(load: Fs2Load) -> (&'static str, &'static str) {
    match load {
        Fs2Load::TpcW => ("tpcw", "TPC-W"),
        Fs2Load::Cvs => ("cvs", "CVS"),
        Fs2Load::X => ("x", "X"),
        Fs2Load::Surge => ("surge", "SURGE"),
    }
}

pub(super) fn judged(results: &Results) -> Result<Judged, PaperError> {
    let mut answers = Answers::default();
    let loads: Vec<&Load> = results.loads.iter().filter(|l| !l.real).collect();
    for who in BOTH {
        for load in &loads {
            let id = names(PRINTED[load.printed].load).0;
            improvements(&mut answers, who, id, load, system(who));
            let [before, after] = ["ext2", system(who)].map(|s| load.last(s).joules);
            answers.add(who, format!("{id}.saved"), gain(before, after));
        }
        rankings(&mut answers, who, &loads, &results.seek);
    }
    for load in loads.iter().filter(|l| PRINTED[l.printed].fs2_static.is_some()) {
        let id = format!("{}.static", names(PRINTED[load.printed].load).0);
        improvements(&mut answers, Paper, &id, load, "fs2-static");
    }
    Judged::new(include_str!("../../claims/fs2.toml"), &answers)
}

fn is_timed(load: &Load) -> bool {
    PRINTED[load.printed].load.is_timed()
}

fn waits_less(load: &Load, system: &str) -> f64 {
    let timed = is_timed(load);
    gain(user(&load.last("ext2"), timed), user(&load.last(system), timed))
}

fn shorter(load: &Load, system: &str) -> f64 {
    gain(access(&load.last("ext2"))[0], access(&load.last(system))[0])
}

/// The rows of Tables 2 to 5, and the numbers of the text beside them.
fn improvements(answers: &mut Answers, who: Answerer, id: &str, load: &Load, system: &str) {
    let (before, run) = (load.last("ext2"), load.last(system));
    let parts = access(&before).into_iter().zip(access(&run)).map(|(b, a)| gain(b, a));
    for (what, gain) in ["access", "seek", "rotation", "energy"].into_iter().zip(parts) {
        answers.add(who, format!("{id}.{what}"), gain);
    }
    let [b, a] = [before, run].map(|run| run.busy_s() / run.span_s);
    answers.add(who, format!("{id}.busy"), gain(b, a));
    answers.add(who, format!("{id}.user"), waits_less(load, system));
}

/// Orders among systems and among loads; the first run; the degree; verification.
fn rankings(answers: &mut Answers, who: Answerer, loads: &[&Load], curve: &SeekCurve) {
    let dynamic = system(who);
    if let Some(load) = loads.iter().find(|l| PRINTED[l.printed].fs2_static.is_some()) {
        let part = |system, i: usize| access(&load.last(system))[i];
        let (fixed, ext2) = ("fs2-static", "ext2");
        answers.add(
            who,
            "tpcw.order",
            [("dynamic", part(dynamic, 0)), ("static", part(fixed, 0)), ("Ext2", part(ext2, 0))],
        );
        let rotations = [("dynamic", part(dynamic, 2)), ("static", part(fixed, 2))];
        answers.add(who, "tpcw.order.rotation", rotations);
        let [wide, narrow] = [fixed, dynamic].map(|system| range(load, system, curve));
        answers.add(who, "tpcw.range", wide / narrow);
        let first = |system| user(&load.first(system), is_timed(load));
        answers.add(who, "tpcw.first", first(dynamic) / first(ext2) - 1.0);
    }
    let twice = format!("{dynamic}, 2 replicas");
    let access_ms = |load: &Load, system: &str| access(&load.last(system))[0];
    let second = loads.iter().map(|l| gain(access_ms(l, dynamic), access_ms(l, &twice)).abs());
    answers.add(who, "degree", most(&second.collect::<Vec<_>>()));
    let of = |each: fn(&Load, &str) -> f64| -> Vec<(String, f64)> {
        let name = |l: &Load| names(PRINTED[l.printed].load).1.to_owned();
        loads.iter().map(|l| (name(l), each(l, dynamic))).collect()
    };
    answers.add(who, "order.access", of(shorter));
    answers.add(who, "order.user", of(waits_less));
    let proofs = loads.iter().flat_map(|l| &l.proofs);
    let mut proofs: Vec<_> =
        proofs.filter(|p| p.0 == dynamic && p.1.replica_bytes > 0).map(|p| p.1).collect();
    proofs.sort_by_key(|p| p.replica_bytes);
    let at = |proof: Option<&super::replay::Fs2Proof>| proof.map_or(f64::NAN, |p| p.rest_s);
    let order = [("fewest", at(proofs.first())), ("most", at(proofs.last()))];
    answers.add(who, "verified", order);
}
