//! The one table of policies and their keys. Help, errors, and `seekless policies` read it.

use super::{PolicyKey, PolicyName};
use PolicyKey::{AreaAt, Degree, MinWeight, Order, Planning, Streams, Trail, Training};

/// Policies of earlier versions, and the policy that does their work now.
pub(super) const REPLACED: [(&str, &str); 2] = [("judged", "adaptive"), ("oracle", "clairvoyant")];

/// A policy of the table. Its defaults are those of [`super::Policy::new`].
#[derive(Clone, Copy, Debug)]
pub struct PolicyEntry {
    /// Which policy.
    pub name: PolicyName,
    /// One line about it.
    pub about: &'static str,
    /// Whether a served volume can run it.
    pub live: bool,
    /// Its keys.
    pub keys: &'static [PolicyKey],
}

/// A key of the table.
#[derive(Clone, Copy, Debug)]
pub struct KeyEntry {
    /// Which key.
    pub key: PolicyKey,
    /// Its name.
    pub text: &'static str,
    /// Its values, in words.
    pub values: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// Whether a served volume has the choice.
    pub live: bool,
}

const fn entry(
    name: PolicyName,
    live: bool,
    keys: &'static [PolicyKey],
    about: &'static str,
) -> PolicyEntry {
    PolicyEntry { name, about, live, keys }
}

const BY_HEAT: &[PolicyKey] = &[Training, Planning, AreaAt];

/// Every policy, in the order of lists.
pub const POLICIES: &[PolicyEntry] = &[
    entry(PolicyName::Vanilla, true, &[], "all data stays at home: the baseline"),
    entry(
        PolicyName::Adaptive,
        true,
        &[Trail, AreaAt],
        "learned read-ahead, and a trail of copies in the order of use; never far behind vanilla",
    ),
    entry(
        PolicyName::Clairvoyant,
        false,
        &[Trail, AreaAt],
        "as adaptive, but with knowledge of the next 1,000 requests; for comparison, no upper bound",
    ),
    entry(
        PolicyName::Borg,
        true,
        &[Order, Training, Planning, MinWeight, Streams, AreaAt],
        "copies of data that are read together, side by side in the optimized area (BORG)",
    ),
    entry(
        PolicyName::BorgPaper,
        true,
        &[Training, MinWeight, Streams, AreaAt],
        "BORG as printed: as borg, in write-back; writes of copied pages go to the copies in place",
    ),
    entry(
        PolicyName::OrganPipe,
        true,
        BY_HEAT,
        "copies by temperature: the hottest extent in the middle of the area",
    ),
    entry(
        PolicyName::Buckets,
        true,
        BY_HEAT,
        "as organ-pipe, in buckets that double in size from the middle outwards",
    ),
    entry(PolicyName::Lazy, true, BY_HEAT, "as organ-pipe, of the hottest 8% of the data"),
    entry(PolicyName::CylinderShuffle, true, BY_HEAT, "as organ-pipe, by whole megabytes"),
    entry(PolicyName::BlockShuffle, true, BY_HEAT, "as organ-pipe, by pieces of 8 KiB"),
    entry(
        PolicyName::OuterZone,
        false,
        &[Training],
        "hottest extent first, in an area where the disk's own curve makes it cheapest",
    ),
    entry(
        PolicyName::CylindersInPlace,
        false,
        &[Training],
        "no copies: cylinders change places, the hottest in the middle of the disk",
    ),
    entry(
        PolicyName::BlocksInPlace,
        false,
        &[Training],
        "no copies: blocks of 8 KiB change places, the hottest in the middle of the disk",
    ),
    entry(
        PolicyName::Fs2,
        true,
        &[Degree],
        "replicas, in free space, of data that are read together with the hottest region (FS2)",
    ),
    entry(
        PolicyName::Fs2Static,
        false,
        &[Degree],
        "replicas in free space of all that was read, in order of address (FS2-static)",
    ),
    entry(
        PolicyName::Fs2Whole,
        true,
        &[Degree],
        "replicas in free space of whole sequences that are read in short runs",
    ),
    entry(
        PolicyName::Fs2Proven,
        true,
        &[Degree],
        "as fs2-whole, but only replicas that will probably pay; they cost at most 2% of accesses",
    ),
];

/// Every key of a policy.
pub const KEYS: &[KeyEntry] = &[
    KeyEntry {
        key: Order,
        text: "order",
        values: "most-connected, heaviest-edge, many-starts, organ-pipe, buckets, lazy, cylinder-shuffle, block-shuffle or hottest-first",
        about: "order of copies in the area: the first three by reads that follow each other, the others by temperature",
        live: true,
    },
    KeyEntry {
        key: Training,
        text: "training",
        values: "cumulative, decaying or partial",
        about: "the counted requests: all, all with counts halved each day, or those since the last plan",
        live: true,
    },
    KeyEntry {
        key: Planning,
        text: "planning",
        values: "revise or anew",
        about: "the next plan: change the last plan where a move pays, or plan all copies from the start",
        live: true,
    },
    KeyEntry {
        key: MinWeight,
        text: "min-weight",
        values: "a number from 0",
        about: "copy an extent only if it was read before or after another copied extent this often",
        live: true,
    },
    KeyEntry {
        key: Streams,
        text: "streams",
        values: "recorded or one",
        about: "one stream for each process of the trace, or one stream for all requests",
        live: false,
    },
    KeyEntry {
        key: AreaAt,
        text: "area-at",
        values: "median (not for a trail), end or disk-end",
        about: "place of the area: among client addresses, at the median read; behind all of them; or at the end of the disk",
        live: false,
    },
    KeyEntry {
        key: Degree,
        text: "degree",
        values: "a number from 1 to 16",
        about: "most replicas of one page; a read takes the nearest",
        live: true,
    },
    KeyEntry {
        key: Trail,
        text: "trail",
        values: "on or off",
        about: "keep a trail of copies in the optimized area, or read ahead alone",
        live: true,
    },
];

impl PolicyName {
    /// Its row of the table.
    pub fn entry(self) -> &'static PolicyEntry {
        // The table begins with vanilla, and has every name: a test checks that.
        POLICIES.iter().find(|p| p.name == self).unwrap_or(&POLICIES[0])
    }
}

impl PolicyKey {
    /// As on the command line.
    pub fn text(self) -> &'static str {
        self.entry().text
    }

    /// Its row of the table.
    pub fn entry(self) -> &'static KeyEntry {
        // Every key has a row: a test checks that.
        KEYS.iter().find(|k| k.key == self).unwrap_or(&KEYS[0])
    }
}

pub(super) fn names() -> String {
    listed(|_| true)
}

pub(super) fn live_names() -> String {
    listed(|p| p.live)
}

fn listed(which: impl Fn(&PolicyEntry) -> bool) -> String {
    let names: Vec<&str> = POLICIES.iter().filter(|p| which(p)).map(|p| p.name.name()).collect();
    names.join(", ")
}
