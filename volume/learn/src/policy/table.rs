//! The one table of policies and their keys. Help, errors, and `seekless policies` read it.

use PolicyKey::{AreaAt, Degree, MinWeight, Order, Planning, Streams, Trail, Training};
use seekless_block::named;

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

/// The table of policies. A row: name, its text, whether a served volume can run it, its keys, one
/// line about it.
macro_rules! policies {
    ($($name:ident $text:literal $live:literal $keys:expr, $about:literal;)+) => {
        /// The policy that places copies.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum PolicyName {
            $(#[doc = $about] $name,)+
        }

        named!(PolicyName: $($name = $text),+);

        /// Every policy, in the order of lists.
        pub const POLICIES: &[PolicyEntry] = &[
            $(PolicyEntry { name: PolicyName::$name, about: $about, live: $live, keys: $keys },)+
        ];
    };
}

/// The table of keys. A row: name, its text, whether a served volume has the choice, its values in
/// words, one line about it.
macro_rules! keys {
    ($($key:ident $text:literal $live:literal $values:literal, $about:literal;)+) => {
        /// A setting of a policy: the field of [`super::Policy`] with this name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum PolicyKey {
            $(#[doc = $about] $key,)+
        }

        /// Every key of a policy.
        pub const KEYS: &[KeyEntry] = &[$(KeyEntry {
            key: PolicyKey::$key,
            text: $text,
            values: $values,
            about: $about,
            live: $live,
        },)+];
    };
}

const BY_HEAT: &[PolicyKey] = &[Training, Planning, AreaAt];

policies! {
    Vanilla "vanilla" true &[], "all data stays at home: the baseline";
    Adaptive "adaptive" true &[Trail, AreaAt],
        "learned read-ahead, and a trail of copies in the order of use; never far behind vanilla";
    Clairvoyant "clairvoyant" false &[Trail, AreaAt],
        "as adaptive, but knows the next 1,000 requests, and its trail all; for comparison, no upper bound";
    Borg "borg" true &[Order, Training, Planning, MinWeight, Streams, AreaAt],
        "copies of data that are read together, side by side in the optimized area (BORG)";
    BorgPaper "borg-paper" true &[Training, MinWeight, Streams, AreaAt],
        "BORG as printed: as borg, in write-back; writes of copied pages go to the copies in place";
    OrganPipe "organ-pipe" true BY_HEAT,
        "copies by temperature: the hottest extent in the middle of the area";
    Buckets "buckets" true BY_HEAT,
        "as organ-pipe, in buckets that double in size from the middle outwards";
    Lazy "lazy" true BY_HEAT, "as organ-pipe, of the hottest 8% of the data";
    CylinderShuffle "cylinder-shuffle" true BY_HEAT, "as organ-pipe, by whole megabytes";
    BlockShuffle "block-shuffle" true BY_HEAT, "as organ-pipe, by pieces of 8 KiB";
    OuterZone "outer-zone" false &[Training],
        "hottest extent first, in an area where the disk's own curve makes it cheapest";
    CylindersInPlace "cylinders-in-place" false &[Training],
        "no copies: cylinders change places, the hottest in the middle of the disk";
    BlocksInPlace "blocks-in-place" false &[Training],
        "no copies: blocks of 8 KiB change places, the hottest in the middle of the disk";
    // FS2 (SOSP'05). The last two are not the paper's.
    Fs2 "fs2" true &[Degree],
        "replicas, in free space, of data that are read together with the hottest region (FS2)";
    Fs2Static "fs2-static" false &[Degree],
        "replicas in free space of all that was read, in order of address (FS2-static)";
    Fs2Whole "fs2-whole" true &[Degree],
        "replicas in free space of whole sequences that are read in short runs";
    Fs2Proven "fs2-proven" true &[Degree],
        "as fs2-whole, but only replicas that will probably pay; they cost at most 2% of accesses";
}

keys! {
    Order "order" true "most-connected, heaviest-edge, many-starts, organ-pipe, buckets, lazy, cylinder-shuffle, block-shuffle or hottest-first",
        "order of copies in the area: the first three by reads that follow each other, the others by temperature";
    Training "training" true "cumulative, decaying or partial",
        "the counted requests: all, all with counts halved each day, or those since the last plan";
    Planning "planning" true "revise or anew",
        "the next plan: change the last plan where a move pays, or plan all copies from the start";
    MinWeight "min-weight" true "a number from 0",
        "copy an extent only if it was read before or after another copied extent this often";
    Streams "streams" false "recorded or one",
        "one stream for each process of the trace, or one stream for all requests";
    AreaAt "area-at" false "median (not for a trail), end or disk-end",
        "place of the area: among client addresses, at the median read; behind all of them; or at the end of the disk";
    Degree "degree" true "a number from 1 to 16",
        "most replicas of one page; a read takes the nearest";
    Trail "trail" true "on or off",
        "keep a trail of copies in the optimized area, or read ahead alone";
}

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
