//! Advice in plain sentences.

use crate::advise::{Advice, Change, RankedBy, Tried, Verdict, WORTH};
use crate::advise_commands::{else_would, in_a_year};
use crate::estimate::Gain;

fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value.abs() < 9.95 { format!("{value:.1}%") } else { format!("{value:.0}%") }
}

fn range(gain: &Gain) -> String {
    if gain.low.is_finite() {
        format!("{} to {}", percent(gain.low), percent(gain.high))
    } else {
        "unknown: too few folds".to_owned()
    }
}

pub(crate) fn sentences(advice: &Advice) -> Vec<String> {
    let mut out = Vec::new();
    let now = &advice.tried[0].total;
    if now.busy_s <= 0.0 {
        out.push(
            "The disk is almost idle, because RAM answers the requests: nothing can be gained."
                .into(),
        );
        return out;
    }
    out.push(time_goes(advice));
    if advice.tried.iter().any(|t| t.change == Change::Foresight) {
        out.push(format!(
            "A policy that knows the next 1,000 requests would save {}{}, background work counted.",
            percent(advice.foresight_share),
            of_money(advice)
        ));
    }
    let days: u64 = advice.fold_days.iter().rev().take(advice.held_out_folds).sum();
    let requests: u64 = advice.fold_requests.iter().rev().take(advice.held_out_folds).sum();
    let folds = match (advice.held_out_folds, days) {
        (0, _) => "what comes next".to_owned(),
        (_, 0) => format!("the last {requests} requests"),
        _ => format!("the last {days} days"),
    };
    let chosen = advice.choice.map(|i| &advice.tried[i]);
    if !advice.tried.iter().any(|t| t.change == Change::Layout) {
        out.push(format!(
            "No policy was tried, because {} has no space for an optimized area behind the trace. Name a larger disk to \
             see the savings of a policy.",
            advice.disk
        ));
        out.extend(instead(advice));
        return out;
    }
    out.extend(found(advice, chosen, &folds));
    out.extend(operations(advice, chosen));
    out.extend(in_a_year(advice));
    out.extend(together(advice));
    out.extend(instead(advice));
    out.extend(else_would(advice));
    out
}

/// The parts of the disk's time.
fn time_goes(advice: &Advice) -> String {
    let now = &advice.tried[0].total;
    let positioning = percent(advice.positioning_share);
    let head = format!("Seeks and rotational waits take {positioning} of the disk's time");
    if now.busy_s - now.positioning_s - now.transfer_s < 0.0005 * now.busy_s {
        return format!("{head}; the rest is transfer, with read-ahead.");
    }
    let transfer = percent(now.transfer_s / now.busy_s);
    format!(
        "{head}, and transfer, with read-ahead, takes {transfer}; the rest is latency and the controller's time."
    )
}

/// Names the cost where it is not disk time.
fn of_money(advice: &Advice) -> String {
    match advice.ranked_by {
        RankedBy::Time => String::new(),
        by @ RankedBy::Money => format!(" of {}", by.words()),
    }
}

/// The cost that does not decide, if it is known.
fn beside(advice: &Advice, t: &Tried) -> String {
    let (gain, cost) = match advice.ranked_by {
        RankedBy::Money => (Some(t.saves_busy), "its time"),
        RankedBy::Time if advice.replay == "open" => (t.saves_energy, "its joules"),
        RankedBy::Time => (t.saves_energy, "the joules of its work"),
    };
    gain.map_or_else(String::new, |gain| format!(", and {} of {cost}", percent(gain.share)))
}

/// Whether a policy pays, and how surely.
fn found(advice: &Advice, chosen: Option<&Tried>, folds: &str) -> Vec<String> {
    let (mut out, by) = (Vec::new(), advice.ranked_by);
    match (advice.verdict, chosen) {
        (Verdict::NoGain, _) | (_, None) => {
            let best = chosen.map_or(String::new(), |t| {
                format!(
                    " The best of the policies tried ({}) saves {}.",
                    t.system,
                    percent(by.share(t))
                )
            });
            out.push(format!(
                "No gain here: with background work counted, no learned policy saves {} of {}.{best}",
                percent(WORTH),
                by.words()
            ));
        }
        (verdict, Some(t)) => {
            out.push(format!(
                "{}: {} saves {} of {}, background work counted (90% range for {folds}: {}){}.",
                if verdict == Verdict::Worth { "Worth it" } else { "Unsure" },
                t.system,
                percent(by.share(t)),
                by.words(),
                by.saves(t).map_or_else(String::new, |gain| range(&gain)),
                beside(advice, t),
            ));
            if advice.held_out_folds > 0 {
                out.push(format!(
                    "On {folds}, which the choice did not use, it saved {}.",
                    percent(by.held_out(t))
                ));
            } else {
                out.push("The trace is too short to check this on held-out days.".to_owned());
            }
        }
    }
    out
}

/// The operations that a policy saves on a device that counts them, and their price.
fn operations(advice: &Advice, chosen: Option<&Tried>) -> Option<String> {
    let now = &advice.tried[0].total;
    let then = &chosen?.total;
    if now.operations == 0 {
        return None;
    }
    let saves = |now: f64, then: f64| {
        let share = percent((now - then).abs() / now.max(f64::MIN_POSITIVE));
        format!("{share} {}", if then > now { "more" } else { "fewer" })
    };
    let mut text = format!(
        "{} sends {} operations to {} instead of {}, {}",
        chosen?.system,
        then.operations,
        advice.disk,
        now.operations,
        saves(now.operations as f64, then.operations as f64),
    );
    if now.operations_usd > 0.0 {
        let saved = now.operations_usd - then.operations_usd;
        text += &format!(
            ", and {} ${:.4} of ${:.4} for operations",
            if saved < 0.0 { "costs another" } else { "saves" },
            saved.abs(),
            now.operations_usd
        );
    }
    Some(text + ".")
}

/// A policy with more RAM, where both together save more than each alone.
fn together(advice: &Advice) -> Option<String> {
    let by = advice.ranked_by;
    let best = |of: &dyn Fn(&Tried) -> bool| {
        let tried = advice.tried.iter().filter(|t| of(t));
        tried.max_by(|a, b| by.share(a).total_cmp(&by.share(b)))
    };
    let share = |tried: Option<&Tried>| tried.map_or(0.0, |t| by.share(t));
    let both = best(&|t| t.change == Change::LayoutAndRam)?;
    let policy = share(best(&|t| t.change == Change::Layout));
    let has_ram = |t: &Tried| t.cache_bytes == both.cache_bytes;
    let ram = share(best(&|t| t.change == Change::Setting && has_ram(t)));
    (by.share(both) >= policy.max(ram) + WORTH).then(|| {
        format!(
            "Both together: {} saves {}; the policy alone saves {}, and that RAM alone {}.",
            both.system,
            percent(by.share(both)),
            percent(policy),
            percent(ram),
        )
    })
}

/// Other changes that help, best first.
fn instead(advice: &Advice) -> Vec<String> {
    let by = advice.ranked_by;
    let mut others: Vec<&Tried> = advice
        .tried
        .iter()
        .filter(|t| matches!(t.change, Change::Setting | Change::Device) && by.share(t) >= WORTH)
        .collect();
    others.sort_by(|a, b| by.share(b).total_cmp(&by.share(a)));
    let mut out = Vec::new();
    let now = &advice.tried[0].total;
    if !others.is_empty() {
        let list: Vec<String> = others
            .iter()
            .map(|t| format!("{} saves {}{}", t.system, percent(by.share(t)), of_money(advice)))
            .collect();
        let word = if advice.verdict == Verdict::Worth { "Also" } else { "Instead" };
        out.push(format!("{word}, without a learned policy: {}.", list.join("; ")));
    }
    for t in advice.tried.iter().filter(|t| t.change == Change::Setting) {
        if by.share(t) < WORTH
            && let Some(energy) = t.saves_energy.filter(|gain| gain.share >= WORTH)
        {
            out.push(format!(
                "{} saves {} of the joules; the mean response time is then {:.1} ms instead of {:.1}.",
                t.system,
                percent(energy.share),
                t.total.response_ms,
                now.response_ms,
            ));
        }
    }
    let device = |t: &&Tried| matches!(t.change, Change::Device | Change::DeviceLayout);
    let billed = advice.tried.iter().filter(device).filter(|t| t.total.operations_usd > 0.0);
    out.extend(billed.map(|t| {
        format!(
            "On {}: {} operations, ${:.4} without the price of holding it.",
            t.system, t.total.operations, t.total.operations_usd
        )
    }));
    let moved = advice.trace.reads + advice.trace.writes;
    if moved > 0 && advice.trace.writes * 2 > moved {
        out.push(format!(
            "{} of the requests are writes, which copies do not help. Reduce the writes: noatime, a longer commit \
             interval, a larger journal, fewer fsyncs.",
            percent(advice.trace.writes as f64 / moved as f64)
        ));
    }
    out
}
