//! Advice as commands: what to type for the chosen system, and what a year of it saves.

use seekless_disk::DeviceSpec;
use seekless_learn::Policy;
use serde::Serialize;

use crate::advise::{Advice, Change, RankedBy, Tried, WORTH};

/// A trace that is shorter says nothing about a year.
const SPAN_LEAST_S: f64 = 3_600.0;
const YEAR_S: f64 = 365.25 * 86_400.0;

/// The savings of the chosen system in a year of days like those of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Yearly {
    /// Energy above that of an idle disk, background work counted; `null` if the disk's power is not
    /// known.
    pub joules: Option<f64>,
    /// Price of operations in US dollars; `null` without a provider's prices.
    pub usd: Option<f64>,
}

/// A size as options take it: the largest unit that leaves a whole number.
fn size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units.into_iter().find(|(bits, _)| bytes > 0 && bytes.is_multiple_of(1 << bits));
    whole.map_or_else(|| bytes.to_string(), |(bits, unit)| format!("{}{unit}", bytes >> bits))
}

/// The commands that serve `disk` as the chosen system does; none if no policy saves enough.
pub(crate) fn commands(
    advice: &Advice,
    policy_of: impl Fn(usize) -> Option<Policy>,
    disk: &str,
) -> Vec<String> {
    let Some((i, chosen)) = worth(advice) else { return Vec::new() };
    let Some(policy) = policy_of(i).filter(|p| p.check_live().is_ok()) else { return Vec::new() };
    let cache = size(chosen.cache_bytes);
    match chosen.optimized_bytes.unwrap_or(0) {
        0 => vec![format!(
            "seekless serve {disk} --fuse /run/disk --policy {policy} --optimized 0 --cache {cache}"
        )],
        area => {
            let name = disk.rsplit('/').next().unwrap_or(disk);
            let area = size(area);
            vec![format!(
                "seekless adopt {disk} --area /var/lib/seekless/{name}.area --optimized {area} --policy {policy} --cache {cache}"
            )]
        }
    }
}

/// The choice, if it saves what is worth a change.
fn worth(advice: &Advice) -> Option<(usize, &Tried)> {
    let i = advice.choice?;
    advice.tried.get(i).filter(|t| advice.ranked_by.share(t) >= WORTH).map(|t| (i, t))
}

/// The savings of the choice in a year; none if the trace has no times, or is too short.
pub(crate) fn yearly(advice: &Advice, disk: &DeviceSpec) -> Option<Yearly> {
    let (_, chosen) = worth(advice)?;
    let span = advice.trace.span_s.filter(|s| advice.trace.has_times && *s >= SPAN_LEAST_S)?;
    let (now, then) = (&advice.tried[0].total, &chosen.total);
    // The first fold teaches, and counts for nothing.
    let all: u64 = advice.fold_requests.iter().sum();
    let times = YEAR_S / span * all as f64 / now.requests.max(1) as f64;
    // A year is as long for both systems: the faster system only ends earlier, and moves take time
    // in which the disk would idle. No year saves or costs the idle power of these times.
    let shorter_s = (now.span_s + now.before_s) - (then.span_s + then.before_s);
    let saved = |(now, then): (f64, f64)| (now - then - disk.idle_w() * shorter_s) * times;
    Some(Yearly {
        joules: now.joules.zip(then.joules).map(saved),
        usd: disk.priced().map(|_| (now.operations_usd - then.operations_usd) * times),
    })
}

/// The savings of a year, in a sentence.
pub(crate) fn in_a_year(advice: &Advice) -> Option<String> {
    let Yearly { joules, usd } = advice.a_year?;
    let word = |x: f64| if x < 0.0 { "costs" } else { "saves" };
    let energy = joules.map(|joules| {
        let (mj, kwh) = (joules.abs() / 1e6, joules.abs() / 3.6e6);
        format!("{} {mj:.3} MJ ({kwh:.2} kWh) of the disk's energy", word(joules))
    });
    let money = usd.map(|usd| format!("{} ${:.2} for operations", word(usd), usd.abs()));
    let saved: Vec<String> = energy.into_iter().chain(money).collect();
    let system = &worth(advice)?.1.system;
    (!saved.is_empty())
        .then(|| format!("In a year of such days, {system} {}.", saved.join(", and ")))
}

/// The changes that would help if no policy and no tried change does.
pub(crate) fn else_would(advice: &Advice) -> Option<String> {
    let helps = |t: &Tried| {
        matches!(t.change, Change::Layout | Change::LayoutAndRam | Change::Setting | Change::Device)
            && advice.ranked_by.share(t) >= WORTH
    };
    if advice.tried.iter().any(helps) {
        return None;
    }
    let now = &advice.tried[0].total;
    Some(if advice.ranked_by == RankedBy::Money {
        "No candidate saves operations: no request repeats in a way that a policy can learn. More RAM than was tried (--cache) would save some.".to_owned()
    } else if now.transfer_s > 0.5 * now.busy_s {
        "No candidate helps: the disk spends its time in transfer. Only a device with faster transfer would help; name such devices with --or.".to_owned()
    } else if advice.positioning_share == 0.0 {
        "No candidate helps: no request repeats in a way that a policy can learn. More RAM than was tried (--cache), or a device with less latency (--or) would help.".to_owned()
    } else {
        "No candidate helps: no request repeats in a way that a policy can learn. More RAM than was tried (--cache), or a device without seeks (--or) would help.".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_that_options_take() {
        for (bytes, text) in [
            (0, "0"),
            (1, "1"),
            (4096, "4KiB"),
            (1 << 30, "1GiB"),
            (3 << 19, "1536KiB"),
            ((1 << 40) + 512, "1099511628288"),
        ] {
            assert_eq!(size(bytes), text);
            assert_eq!(seekless_block::parse_size(text), Ok(bytes));
        }
    }
}
