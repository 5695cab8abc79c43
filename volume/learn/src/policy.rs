//! Policies by name: `NAME[:key=value:key=value]`, the same words for simulations and for a served
//! volume. [`table`] has the names, keys and defaults.

mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use seekless_block::named;

use crate::{Planning, ReplicationRule, Strategy, Training};

pub use table::{KEYS, KeyEntry, POLICIES, PolicyEntry, PolicyKey, PolicyName};

/// The position of the optimized area on a simulated disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AreaAt {
    /// Among client addresses, at the median of the reads learned from; later addresses are shifted
    /// by its size.
    #[default]
    Median,
    /// Behind all client addresses.
    End,
    /// At the end of the disk. On a disk much larger than the addresses, this is far from them.
    DiskEnd,
}

/// Which requests form a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Streams {
    /// Each process is one stream, where the trace names processes.
    #[default]
    Recorded,
    /// All requests are one stream, as in a server that observes no device.
    One,
}

/// A policy and its settings. [`Policy::new`] has the defaults; [`str::parse`] reads the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    name: PolicyName,
    /// The order of copies.
    pub order: Strategy,
    /// How much of the past counts.
    pub training: Training,
    /// The treatment of the plan in force.
    pub planning: Planning,
    /// An extent is copied only if it was read this often before or after another copied extent; 0
    /// copies all.
    pub min_weight: u32,
    /// Which requests form a stream.
    pub streams: Streams,
    /// The position of the optimized area. Only for simulations.
    pub area_at: AreaAt,
    /// Most replicas of one page.
    pub degree: u32,
    /// Whether the adaptive policy keeps a trail of copies; else it reads ahead alone.
    pub trail: bool,
}

impl Policy {
    /// The policy with its defaults.
    pub const fn new(name: PolicyName) -> Self {
        let (order, planning) = match name {
            PolicyName::BorgPaper => (Strategy::MostConnected, Planning::Anew),
            PolicyName::OrganPipe => (Strategy::OrganPipe, Planning::Anew),
            PolicyName::Buckets => (Strategy::Buckets, Planning::Anew),
            PolicyName::Lazy => (Strategy::Lazy, Planning::Anew),
            PolicyName::CylinderShuffle => (Strategy::CylinderShuffle, Planning::Anew),
            PolicyName::BlockShuffle => (Strategy::BlockShuffle, Planning::Anew),
            PolicyName::OuterZone => (Strategy::HottestFirst, Planning::Anew),
            _ => (Strategy::MostConnected, Planning::Revise),
        };
        // The trail lies behind home: without copies this is the vanilla system.
        let area_at = match name {
            PolicyName::Adaptive | PolicyName::Clairvoyant => AreaAt::End,
            _ => AreaAt::Median,
        };
        Self {
            name,
            order,
            training: Training::Cumulative,
            planning,
            min_weight: 0,
            streams: Streams::Recorded,
            area_at,
            degree: 1,
            trail: true,
        }
    }

    /// Its name.
    pub const fn name(&self) -> PolicyName {
        self.name
    }

    /// Its row of the table.
    pub fn entry(&self) -> &'static PolicyEntry {
        self.name.entry()
    }

    /// Whether it chooses at each request what is read along, and keeps a trail.
    pub const fn adapts(&self) -> bool {
        matches!(self.name, PolicyName::Adaptive | PolicyName::Clairvoyant)
    }

    /// Whether writes of copied pages go to the copies, in write-back.
    pub const fn writes_in_place(&self) -> bool {
        matches!(self.name, PolicyName::BorgPaper)
    }

    /// The rule by which it chooses blocks to replicate, if it does.
    pub const fn rule(&self) -> Option<ReplicationRule> {
        match self.name {
            PolicyName::Fs2 => Some(ReplicationRule::Paper),
            PolicyName::Fs2Whole => Some(ReplicationRule::Whole),
            PolicyName::Fs2Proven => Some(ReplicationRule::Proven),
            _ => None,
        }
    }

    /// Whether it puts replicas into free space.
    pub const fn replicates(&self) -> bool {
        matches!(self.name, PolicyName::Fs2Static) || self.rule().is_some()
    }

    /// Whether it puts copies into an optimized area.
    pub const fn has_area(&self) -> bool {
        match self.name {
            PolicyName::Vanilla => false,
            PolicyName::Adaptive | PolicyName::Clairvoyant => self.trail,
            _ => !self.replicates() && !self.moves_in_place(),
        }
    }

    /// Whether the data itself changes places on the disk, without copies.
    pub const fn moves_in_place(&self) -> bool {
        matches!(self.name, PolicyName::CylindersInPlace | PolicyName::BlocksInPlace)
    }

    /// A setting's text in a policy.
    pub fn value(&self, key: PolicyKey) -> String {
        match key {
            PolicyKey::Order => self.order.to_string(),
            PolicyKey::Training => self.training.to_string(),
            PolicyKey::Planning => self.planning.to_string(),
            PolicyKey::MinWeight => self.min_weight.to_string(),
            PolicyKey::Streams => self.streams.to_string(),
            PolicyKey::AreaAt => self.area_at.to_string(),
            PolicyKey::Degree => self.degree.to_string(),
            PolicyKey::Trail => if self.trail { "on" } else { "off" }.to_owned(),
        }
    }

    /// Parses policies separated by commas.
    ///
    /// # Errors
    /// The first policy that does not exist, or the first key or value that it does not take.
    pub fn list(text: &str) -> Result<Vec<Self>, PolicyError> {
        text.split(',').map(str::parse).collect()
    }

    /// Whether a served volume can run the policy.
    ///
    /// # Errors
    /// If the policy, or a key that was set, is only for simulations.
    pub fn check_live(&self) -> Result<(), PolicyError> {
        if !self.entry().live {
            return Err(PolicyError::NotLive { policy: self.name.name() });
        }
        match self.changed().find(|key| !key.entry().live) {
            Some(key) => Err(PolicyError::KeyNotLive { policy: self.name.name(), key: key.text() }),
            None => Ok(()),
        }
    }

    /// The keys whose values differ from the defaults.
    fn changed(&self) -> impl Iterator<Item = PolicyKey> + '_ {
        let default = Self::new(self.name);
        let keys = self.entry().keys.iter().copied();
        keys.filter(move |&key| self.value(key) != default.value(key))
    }

    fn set(&mut self, key: PolicyKey, value: &str) -> Result<(), ()> {
        fn parsed<T: FromStr>(to: &mut T, value: &str) -> Result<(), ()> {
            *to = value.parse().map_err(|_| ())?;
            Ok(())
        }
        fn number(to: &mut u32, value: &str, from: u32, most: u32) -> Result<(), ()> {
            let n = value.parse().map_err(|_| ())?;
            *to = n;
            if (from..=most).contains(&n) { Ok(()) } else { Err(()) }
        }
        match key {
            PolicyKey::Order => parsed(&mut self.order, value),
            PolicyKey::Training => parsed(&mut self.training, value),
            PolicyKey::Planning => parsed(&mut self.planning, value),
            PolicyKey::Streams => parsed(&mut self.streams, value),
            PolicyKey::AreaAt => {
                parsed(&mut self.area_at, value)?;
                // A trail begins before any read is learned.
                if self.adapts() && self.area_at == AreaAt::Median { Err(()) } else { Ok(()) }
            }
            PolicyKey::MinWeight => number(&mut self.min_weight, value, 0, u32::MAX),
            PolicyKey::Degree => number(&mut self.degree, value, 1, 16),
            PolicyKey::Trail => {
                self.trail = value == "on";
                if matches!(value, "on" | "off") { Ok(()) } else { Err(()) }
            }
        }
    }
}

impl From<ReplicationRule> for PolicyName {
    fn from(rule: ReplicationRule) -> Self {
        match rule {
            ReplicationRule::Paper => Self::Fs2,
            ReplicationRule::Whole => Self::Fs2Whole,
            ReplicationRule::Proven => Self::Fs2Proven,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.name())?;
        self.changed().try_for_each(|key| write!(f, ":{}={}", key.text(), self.value(key)))
    }
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        if let Some((old, new)) = table::REPLACED.into_iter().find(|(old, _)| *old == name) {
            return Err(PolicyError::Replaced { old, new });
        }
        let entry = POLICIES.iter().find(|p| p.name.name() == name);
        let entry = entry.ok_or_else(|| PolicyError::UnknownName(name.to_owned()))?;
        let policy = entry.name.name();
        let mut parsed = Self::new(entry.name);
        let mut given: Vec<PolicyKey> = Vec::new();
        for part in parts {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| PolicyError::NotKeyValue { policy, text: part.to_owned() })?;
            let known = entry.keys.iter().copied().find(|k| k.text() == key);
            let known = known.ok_or_else(|| PolicyError::UnknownKey {
                policy,
                key: key.to_owned(),
                keys: entry.keys.iter().map(|k| k.text()).collect::<Vec<_>>().join(", "),
            })?;
            if given.contains(&known) {
                return Err(PolicyError::Twice { policy, key: known.text() });
            }
            given.push(known);
            parsed.set(known, value).map_err(|()| PolicyError::Value {
                policy,
                key: known.text(),
                value: value.to_owned(),
                allowed: known.entry().values,
            })?;
        }
        Ok(parsed)
    }
}

/// Why a text is no policy, or no policy of a served volume.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum PolicyError {
    #[error("'{0}' is not a policy; the policies are {names}", names = table::names())]
    UnknownName(String),
    #[error("policy {old} is replaced: write --policy {new}")]
    Replaced { old: &'static str, new: &'static str },
    #[error("policy {policy}: '{text}' is not a setting: write NAME:key=value")]
    NotKeyValue { policy: &'static str, text: String },
    #[error("policy {policy} has no key '{key}'; {}", keys_are(.keys))]
    UnknownKey { policy: &'static str, key: String, keys: String },
    #[error("policy {policy}: key {key} is given twice")]
    Twice { policy: &'static str, key: &'static str },
    #[error("policy {policy}: {key}={value} is not allowed; {key} is {allowed}")]
    Value { policy: &'static str, key: &'static str, value: String, allowed: &'static str },
    #[error(
        "policy {policy} is for simulations alone; a served volume takes {}",
        table::live_names()
    )]
    NotLive { policy: &'static str },
    #[error("policy {policy}: key {key} is for simulations alone")]
    KeyNotLive { policy: &'static str, key: &'static str },
}

fn keys_are(keys: &str) -> String {
    if keys.is_empty() { "it has no keys".to_owned() } else { format!("its keys: {keys}") }
}

named!(AreaAt: Median = "median", End = "end", DiskEnd = "disk-end");
named!(Streams: Recorded = "recorded", One = "one");
