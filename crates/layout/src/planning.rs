//! How one plan follows another.

use std::fmt;
use std::str::FromStr;

use crate::{AccessGraph, Plan, PlanConfig, plan, revise};

/// What becomes of the plan in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planning {
    /// It stays, but for what is worth its move: [`revise()`].
    #[default]
    Revise,
    /// Everything is laid anew, whatever that moves: BORG (FAST'09, 4.3).
    Anew,
}

impl Planning {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Revise, Self::Anew];

    /// As on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Revise => "revise",
            Self::Anew => "anew",
        }
    }
}

impl fmt::Display for Planning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Planning {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|p| p.name() == text)
            .ok_or_else(|| format!("'{text}' is no way of planning: revise or anew"))
    }
}

/// The plan that follows `old`, from what `graph` remembers.
#[must_use]
pub fn next_plan(old: &Plan, graph: &AccessGraph, config: &PlanConfig) -> Plan {
    match config.planning {
        Planning::Revise => revise(old, graph, config),
        Planning::Anew => plan(graph, config),
    }
}
