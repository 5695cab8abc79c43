//! Judged claims as tables and as a sentence.

use seekless_report::{Table, Tile};

use super::{Answer, Answerer, BOTH, Better, Beyond, Claim, Judged, Judgement, Kind, Paper};

/// A number in the form of its claim.
fn number(kind: Kind, value: f64) -> String {
    let size = value.abs();
    match kind {
        _ if !value.is_finite() => "–".to_owned(),
        Kind::Share => format!("{:.1} %", value * 100.0).replace('-', "−"),
        _ if size >= 100.0 => format!("{value:.0}"),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}").replace('-', "−"),
    }
}

fn printed(claim: &Claim) -> String {
    claim.printed.map_or_else(|| claim.order.join(" < "), |p| number(claim.kind, p))
}

fn ours(claim: &Claim, answer: Option<&Answer>) -> String {
    match answer {
        None => "–".to_owned(),
        Some(Answer::Number(n)) => number(claim.kind, *n),
        Some(Answer::Ranked(named)) => {
            let mut sorted: Vec<_> = named.iter().collect();
            sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
            let named = sorted.iter().map(|(n, v)| format!("{n} ({})", number(Kind::Value, *v)));
            named.collect::<Vec<_>>().join(" < ")
        }
    }
}

fn tolerance(claim: &Claim) -> String {
    let t = claim.tolerance() * 100.0;
    let mut words = match claim.kind {
        Kind::Share => format!("± {t:.0} points"),
        Kind::Value => format!("± {t:.0} %"),
        Kind::AtLeast => "at least".to_owned(),
        Kind::AtMost => "at most".to_owned(),
        Kind::MoreThan => "more".to_owned(),
        Kind::Ranking => "same order".to_owned(),
    };
    if claim.scaled {
        words += ", by the scale";
    }
    words += match (claim.better, claim.answers.contains(&Beyond)) {
        (Some(Better::More), true) => "; ours also more",
        (Some(Better::Less), true) => "; ours also less",
        _ => "",
    };
    if claim.fitted {
        words += "; fitted, not counted";
    }
    if let Some(why) = &claim.incomparable {
        words += &format!("; {why}, not counted");
    }
    if let Some(reason) = &claim.reason {
        words += &format!(" ({reason})");
    }
    words
}

const fn mark(holds: Option<bool>) -> &'static str {
    match holds {
        Some(true) => "yes",
        Some(false) => "no",
        None => "–",
    }
}

impl Judged {
    /// The claims, and what is not answered.
    pub(crate) fn tables(&self) -> [Table; 2] {
        let answer = |r: &Judgement, who: Answerer| ours(&r.claim, r.ours[who as usize].as_ref());
        let claims = Table::of("The paper's claims", &self.results)
            .text("claim", |r| r.claim.what.as_str())
            .text("where", |r| r.claim.place.as_str())
            .text("printed", |r| printed(&r.claim))
            .text("the paper's rule", |r| answer(r, Paper))
            .text("ours beyond it", |r| answer(r, Beyond))
            .text("tolerance", |r| tolerance(&r.claim))
            .text("holds: rule, ours", |r| BOTH.map(|who| mark(r.holds(who))).join(", "))
            .done();
        let open = Table::of("Printed, and not answered here", &self.unanswered)
            .text("statement", |u| u.what.as_str())
            .text("where", |u| u.place.as_str())
            .text("printed", |u| u.printed.as_str())
            .text("why no model answers it", |u| u.why.as_str());
        [claims.note(
            "Tolerances follow one rule for all papers. The paper's rule has both limits. Our results beyond the paper's rule may be better by any amount, if the line says so.",
        ), open.done()]
    }

    /// A tile of a report: our number by the paper's rule, beside the printed one.
    pub(crate) fn tile(&self, label: &str, id: &str) -> Option<Tile> {
        let r = self.results.iter().find(|r| r.claim.id == id)?;
        let value = ours(&r.claim, r.ours[Paper as usize].as_ref());
        Some(Tile::new(label, value, format!("the paper: {}", printed(&r.claim))))
    }

    /// The two counts.
    pub(crate) fn lead(&self) -> String {
        let of = |who: Answerer, name: &str| match self.count(who) {
            (_, 0) => format!("{name}: no claim."),
            (held, all) => format!("{name}: {held} of {all} claims hold."),
        };
        let open = match self.unanswered.len() {
            1 => "1 printed statement is".to_owned(),
            n => format!("{n} printed statements are"),
        };
        format!(
            "{}\n{}\n{open} not answered by any model here.",
            of(Paper, "The paper's rule"),
            of(Beyond, "Ours beyond it")
        )
    }
}
