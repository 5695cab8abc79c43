//! Judges a paper by its file of claims: each printed number beside ours, with its tolerance. Two
//! answers are judged apart: the paper's own rule, and ours beyond it.
//! `claims/README.md` defines the kinds of claims.

mod show;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::PaperError;

/// Points of a share, and part of a value, by which ours may differ.
const POINTS: f64 = 0.05;
const PART: f64 = 0.15;
/// Sums of rounded numbers differ by less.
const ROUNDING: f64 = 1e-9;

/// The answer that is compared with the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answerer {
    /// The paper's own rule.
    Paper,
    /// Ours, beyond the paper.
    Beyond,
}

pub(crate) use Answerer::{Beyond, Paper};

/// Both, in the order of the columns.
pub(crate) const BOTH: [Answerer; 2] = [Paper, Beyond];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Share,
    Value,
    AtLeast,
    AtMost,
    MoreThan,
    Ranking,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Better {
    More,
    Less,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    id: String,
    what: String,
    #[serde(rename = "where")]
    place: String,
    kind: Kind,
    /// The printed number; a ranking has `order` instead, least first.
    printed: Option<f64>,
    #[serde(default)]
    order: Vec<String>,
    answers: Vec<Answerer>,
    /// The side on which ours beyond the paper may be by any amount.
    better: Option<Better>,
    tolerance: Option<f64>,
    /// Why the tolerance is not the default.
    reason: Option<String>,
    /// Whether ours was divided by the scale of the run.
    #[serde(default)]
    scaled: bool,
    /// Whether the made-up load, or a parameter of ours, was fitted to this number, or guessed. Such
    /// a claim is shown and not counted.
    #[serde(default)]
    fitted: bool,
    /// Why ours is another comparison than the paper's. Such a claim is shown and not counted.
    incomparable: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unanswered {
    what: String,
    #[serde(rename = "where")]
    place: String,
    printed: String,
    why: String,
}

pub(crate) fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

pub(crate) fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// A paper's file of claims.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimFile {
    claim: Vec<Claim>,
    #[serde(default)]
    unanswered: Vec<Unanswered>,
}

/// A number of ours, or named numbers to be ranked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Number(f64),
    Ranked(Vec<(String, f64)>),
}

impl From<f64> for Answer {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl<S: Into<String>, const N: usize> From<[(S, f64); N]> for Answer {
    fn from(named: [(S, f64); N]) -> Self {
        Self::Ranked(named.map(|(name, value)| (name.into(), value)).into())
    }
}

impl From<Vec<(String, f64)>> for Answer {
    fn from(named: Vec<(String, f64)>) -> Self {
        Self::Ranked(named)
    }
}

/// Our answers to a paper's claims.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers(BTreeMap<(String, Answerer), Answer>);

impl Answers {
    pub(crate) fn add(&mut self, who: Answerer, id: impl Into<String>, ours: impl Into<Answer>) {
        self.0.insert((id.into(), who), ours.into());
    }
}

impl Claim {
    /// By how much ours may differ: in points of a share, as a part of a value.
    fn tolerance(&self) -> f64 {
        self.tolerance.unwrap_or(match self.kind {
            Kind::Share => POINTS,
            Kind::Value => PART,
            _ => 0.0,
        })
    }

    fn holds(&self, who: Answerer, ours: &Answer) -> bool {
        match (ours, self.printed) {
            (Answer::Number(ours), Some(printed)) if ours.is_finite() => {
                self.near(who, *ours, printed)
            }
            (Answer::Ranked(named), None) => self.ranked(named),
            _ => false,
        }
    }

    fn near(&self, who: Answerer, ours: f64, printed: f64) -> bool {
        let reach = match self.kind {
            Kind::Value => self.tolerance() * printed.abs(),
            _ => self.tolerance(),
        } + ROUNDING;
        let free = |better| who == Beyond && self.better == Some(better);
        match self.kind {
            Kind::Share | Kind::Value => {
                (ours >= printed - reach || free(Better::Less))
                    && (ours <= printed + reach || free(Better::More))
            }
            Kind::AtLeast => ours >= printed - ROUNDING,
            Kind::AtMost => ours <= printed + ROUNDING,
            Kind::MoreThan => ours > printed,
            Kind::Ranking => false,
        }
    }

    /// Whether our numbers rise in the paper's order.
    fn ranked(&self, named: &[(String, f64)]) -> bool {
        let of = |name: &String| named.iter().find(|n| n.0 == *name).map(|n| n.1);
        let values: Vec<f64> = self.order.iter().filter_map(of).collect();
        named.len() == self.order.len()
            && values.len() == named.len()
            && values.iter().all(|v| v.is_finite())
            && values.windows(2).all(|v| v[0] < v[1])
    }

    /// Why the claim is not well formed.
    fn fault(&self) -> Option<&'static str> {
        let ranking = self.kind == Kind::Ranking;
        let near = matches!(self.kind, Kind::Share | Kind::Value);
        if ranking != self.printed.is_none() || ranking != (self.order.len() > 1) {
            return Some("a ranking has an order of two at least, all others a printed number");
        }
        if !near && (self.tolerance.is_some() || self.better.is_some()) {
            return Some("only a share or a value has a tolerance, or a better side");
        }
        if self.tolerance.is_some() != self.reason.is_some() {
            return Some("a tolerance needs its reason, and a reason its tolerance");
        }
        self.answers.is_empty().then_some("no answer is named")
    }
}

/// A claim, and our answers: the paper's rule, and ours beyond it.
#[derive(Clone, Debug)]
struct Judgement {
    claim: Claim,
    ours: [Option<Answer>; 2],
}

impl Judgement {
    fn holds(&self, who: Answerer) -> Option<bool> {
        self.ours[who as usize].as_ref().map(|ours| self.claim.holds(who, ours))
    }
}

/// A paper's claims with our answers.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    results: Vec<Judgement>,
    unanswered: Vec<Unanswered>,
}

impl Judged {
    /// The claims of this file with these answers.
    ///
    /// # Errors
    /// If the file is not well formed, a claim has no answer, or an answer no claim.
    pub(crate) fn new(file: &str, answers: &Answers) -> Result<Self, PaperError> {
        let invalid = |why: String| PaperError::Invalid(format!("file of claims: {why}"));
        let file: ClaimFile = toml::from_str(file).map_err(|e| invalid(e.to_string()))?;
        let mut open: BTreeSet<_> = answers.0.keys().cloned().collect();
        let mut results = Vec::new();
        for claim in file.claim {
            if let Some(why) = claim.fault() {
                return Err(invalid(format!("{}: {why}", claim.id)));
            }
            let mut ours = [None, None];
            for &who in &claim.answers {
                let key = (claim.id.clone(), who);
                if !open.remove(&key) {
                    return Err(invalid(format!("{}: no answer of {who:?}, or twice", claim.id)));
                }
                ours[who as usize] = answers.0.get(&key).cloned();
            }
            results.push(Judgement { claim, ours });
        }
        if let Some((id, who)) = open.first() {
            return Err(invalid(format!("{id}: an answer of {who:?} without a claim")));
        }
        Ok(Self { results, unanswered: file.unanswered })
    }

    /// The claims that hold, of those that are answered and comparable, and that nothing was fitted
    /// to.
    pub(crate) fn count(&self, who: Answerer) -> (usize, usize) {
        let counts = |c: &Claim| !c.fitted && c.incomparable.is_none();
        let counted = self.results.iter().filter(|r| counts(&r.claim));
        let answered = counted.filter_map(|r| r.holds(who));
        answered.fold((0, 0), |(held, all), holds| (held + usize::from(holds), all + 1))
    }

    /// Adds `results`, `counts` and `unanswered` to a document.
    pub(crate) fn document(&self, document: &mut Value) {
        let number = |who: Answerer, j: &Judgement| {
            j.ours[who as usize].as_ref().map(|ours| match ours {
                Answer::Number(n) => json!(n),
                Answer::Ranked(named) => {
                    json!(named.iter().map(|(n, v)| json!([n, v])).collect::<Vec<_>>())
                }
            })
        };
        let result = |j: &Judgement| {
            let c = &j.claim;
            json!({
                "id": c.id, "what": c.what, "where": c.place, "kind": c.kind,
                "paper": c.printed.map_or_else(|| json!(c.order), |p| json!(p)),
                "ours": number(Paper, j), "beyond": number(Beyond, j),
                "tolerance": c.tolerance(), "fitted": c.fitted,
                "incomparable": c.incomparable,
                "holds": { "ours": j.holds(Paper), "beyond": j.holds(Beyond) },
            })
        };
        let count = |who| {
            let (holds, of) = self.count(who);
            json!({ "holds": holds, "of": of })
        };
        document["results"] = self.results.iter().map(result).collect();
        document["counts"] = json!({ "ours": count(Paper), "beyond": count(Beyond), "unanswered": self.unanswered.len() });
        let unanswered = self
            .unanswered
            .iter()
            .map(|u| json!({ "what": u.what, "where": u.place, "paper": u.printed, "why": u.why }));
        document["unanswered"] = unanswered.collect();
    }
}
