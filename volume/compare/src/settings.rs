//! The options of a simulation by their names, and grids of them.

use std::str::FromStr;

use seekless_block::{Bytes, Duration};
use seekless_disk::{DeviceSpec, Scheduler, SpinDown, catalogue};
use seekless_learn::Policy;
use seekless_sim::Replay;
use seekless_trace::OpenOptions;

use crate::folds::Cutting;
use crate::rolling::{AssumedFree, RollingOptions};
use crate::simulate::Options;
use crate::system::Host;
use crate::words;

/// The options that [`Options::set`] takes: those of `seekless simulate` with one value.
pub const KEYS: [&str; 15] = [
    "cache",
    "cluster",
    "disk",
    "free",
    "free-seed",
    "gather",
    "open-loop",
    "optimized",
    "queue-depth",
    "read-ahead",
    "scheduler",
    "spin-down",
    "think",
    "train",
    "write-buffer",
];

/// The ways of replay: a simulation has one.
const REPLAYS: [&str; 3] = ["open-loop", "queue-depth", "think"];

/// A name that is near an unknown one must be at least this similar, between 0 and 1.
const NEAR: f64 = 0.7;

/// Most requests in flight.
const DEPTH_MAX: u32 = 65_536;

/// Most cells of a grid: a simulation takes seconds at least.
const CELLS_MAX: usize = 100_000;

impl Options {
    /// The defaults of `seekless simulate`.
    pub fn new(disk: DeviceSpec, policies: Vec<Policy>) -> Self {
        let cache = Bytes(16 << 20);
        let rolling = RollingOptions {
            open: OpenOptions::default(),
            device: None,
            replay: Replay::Closed { depth: 1 },
            cutting: Cutting::Train(0.5),
            ram: cache,
            free: AssumedFree::default(),
            threads: None,
        };
        let host = Host {
            disk,
            scheduler: Scheduler::default(),
            spin_down: SpinDown::None,
            cache,
            read_ahead: Bytes(64 << 10),
            cluster: Bytes(64 << 10),
            gather: Duration::ZERO,
        };
        Self { rolling, host, policies, train: 0.5, optimized: None, write_buffer: 0 }
    }

    /// Sets the option `key` to a value, as `--key value` of `seekless simulate` does.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let Self { rolling, host, .. } = self;
        match key {
            "cache" => {
                host.cache = words::ram(value)?;
                rolling.ram = host.cache;
            }
            "cluster" => host.cluster = words::size(value)?,
            "disk" => host.disk = disk(value)?,
            "free" => rolling.free.share = words::share(value)?,
            "free-seed" => rolling.free.seed = number(value, u64::MAX)?,
            "gather" => host.gather = duration(value)?,
            "open-loop" => match value {
                "true" => rolling.replay = Replay::Open,
                "false" if rolling.replay != Replay::Open => {}
                "false" => rolling.replay = Replay::Closed { depth: 1 },
                _ => return Err(format!("'{value}' is neither true nor false")),
            },
            "optimized" => self.optimized = Some(words::size(value)?),
            "queue-depth" => {
                let depth = number(value, DEPTH_MAX.into())?.max(1) as u32;
                rolling.replay = Replay::Closed { depth };
            }
            "read-ahead" => host.read_ahead = words::size(value)?,
            "scheduler" => host.scheduler = value.parse()?,
            "spin-down" => host.spin_down = value.parse()?,
            "think" => rolling.replay = Replay::Think { time: duration(value)? },
            "train" => {
                self.train = words::share(value)?;
                rolling.cutting = Cutting::Train(self.train);
            }
            "write-buffer" => self.write_buffer = words::percent(value)?,
            _ => return Err(unknown(key)),
        }
        Ok(())
    }
}

fn disk(name: &str) -> Result<DeviceSpec, String> {
    if catalogue::names().any(|n| n == name) {
        return catalogue::device(name).map_err(|e| e.to_string());
    }
    let names: Vec<&str> = catalogue::names().collect();
    Err(format!("no disk '{name}' in the catalogue: {}", names.join(", ")))
}

fn number(text: &str, most: u64) -> Result<u64, String> {
    let number = text.parse().ok().filter(|n| *n <= most);
    number.ok_or_else(|| format!("'{text}' is not a number from 0 to {most}"))
}

fn duration(text: &str) -> Result<Duration, String> {
    words::duration(text).map(|d| Duration::from_millis(d.as_millis() as u64))
}

fn unknown(key: &str) -> String {
    let near = KEYS
        .iter()
        .map(|known| (strsim::jaro_winkler(key, known), known))
        .filter(|(similar, _)| *similar >= NEAR)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = near.map_or(String::new(), |(_, known)| format!(" Did you mean '{known}'?"));
    format!("'{key}' is not an option that can be set.{hint} The options are {}", KEYS.join(", "))
}

/// Refuses options that ask for two ways of replay. `open-loop=false` asks for none.
pub fn one_replay<'a>(options: impl Iterator<Item = (&'a str, &'a str)>) -> Result<(), String> {
    let asks = |(key, value): &(&str, &str)| {
        REPLAYS.contains(key) && (*key, *value) != ("open-loop", "false")
    };
    let mut first = None;
    for (key, _) in options.filter(asks) {
        let one = *first.get_or_insert(key);
        if one != key {
            return Err(format!("'{one}' and '{key}' are two ways of replay: give one of them"));
        }
    }
    Ok(())
}

/// The option that gives this way of replay; none for the default.
const fn replay_option(replay: Replay) -> Option<(&'static str, &'static str)> {
    match replay {
        Replay::Closed { depth: 0 | 1 } => None,
        Replay::Closed { .. } => Some(("queue-depth", "")),
        Replay::Think { .. } => Some(("think", "")),
        Replay::Open => Some(("open-loop", "true")),
    }
}

/// One option of a grid, and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// One of [`KEYS`].
    pub key: String,
    /// As the user wrote them.
    pub values: Vec<String>,
}

impl FromStr for Axis {
    type Err = String;

    /// `KEY=VALUE,VALUE...`
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not KEY=VALUE,VALUE...; an example: cache=16MiB,64MiB");
        let (key, values) = text.split_once('=').ok_or_else(wrong)?;
        let key = key.trim();
        if !KEYS.contains(&key) {
            return Err(unknown(key));
        }
        let values: Vec<String> = values.split(',').map(|v| v.trim().to_owned()).collect();
        if values.iter().any(String::is_empty) {
            return Err(wrong());
        }
        Ok(Self { key: key.to_owned(), values })
    }
}

/// A simulation of a grid.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Keys and values, in the order of the axes.
    pub settings: Vec<(String, String)>,
    /// The options with these settings.
    pub options: Options,
}

impl Cell {
    /// Its settings as `key=value`, with commas between.
    pub(crate) fn name(&self) -> String {
        self.settings.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(", ")
    }
}

/// Every combination of the axes' values; the last axis changes fastest. Options and axes that ask
/// for two ways of replay are refused.
pub fn grid(base: &Options, axes: &[Axis]) -> Result<Vec<Cell>, String> {
    let swept = axes.iter().flat_map(|a| a.values.iter().map(|v| (a.key.as_str(), v.as_str())));
    // `open-loop=false` keeps the given way of replay.
    let keeps = |a: &Axis| a.key == "open-loop" && a.values.iter().any(|v| v == "false");
    let given = replay_option(base.rolling.replay)
        .filter(|(key, _)| *key == "open-loop" || !axes.iter().any(keeps));
    one_replay(given.into_iter().chain(swept))?;
    let mut cells = vec![Cell { settings: Vec::new(), options: base.clone() }];
    for (i, axis) in axes.iter().enumerate() {
        let Axis { key, values } = axis;
        if axes[..i].iter().any(|other| other.key == *key) {
            return Err(format!("'{key}' is swept twice: write all its values after one ="));
        }
        if cells.len().saturating_mul(values.len()) > CELLS_MAX {
            return Err(format!("the sweep has more than {CELLS_MAX} cells: give fewer values"));
        }
        let mut next = Vec::with_capacity(cells.len() * values.len());
        for cell in &cells {
            for value in values {
                let mut cell = cell.clone();
                cell.options.set(key, value).map_err(|e| format!("{key}: {e}"))?;
                cell.settings.push((key.clone(), value.clone()));
                next.push(cell);
            }
        }
        cells = next;
    }
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Options {
        Options::new(catalogue::device("wd800jb").unwrap(), vec!["vanilla".parse().unwrap()])
    }

    #[test]
    fn a_grid_has_every_combination_in_order() {
        let axes: Vec<Axis> =
            ["cluster=0,64KiB", "cache=1MiB,2MiB,4MiB"].map(|a| a.parse().unwrap()).into();
        let cells = grid(&base(), &axes).unwrap();
        let names: Vec<String> = cells.iter().map(Cell::name).collect();
        assert_eq!(names.len(), 6);
        assert_eq!(names[0], "cluster=0, cache=1MiB");
        assert_eq!(names[1], "cluster=0, cache=2MiB");
        assert_eq!(names[3], "cluster=64KiB, cache=1MiB");
        assert_eq!(cells[5].options.host.cluster, Bytes(64 << 10));
        assert_eq!(cells[5].options.host.cache, Bytes(4 << 20));
        assert_eq!(
            cells[5].options.rolling.ram,
            Bytes(4 << 20),
            "what is learned sees the same RAM"
        );
    }

    #[test]
    fn each_key_is_known_and_refuses_nonsense() {
        for key in KEYS {
            let error = base().set(key, "nonsense").unwrap_err();
            assert!(error.contains("nonsense"), "{key}: {error}");
        }
    }

    #[test]
    fn a_simulation_has_one_way_of_replay() {
        let [open, deep] = [("open-loop", "true"), ("queue-depth", "8")];
        for (given, axes, both) in [
            (None, &["open-loop=true,false", "queue-depth=1,8"][..], Some("open-loop queue-depth")),
            (None, &["think=1ms,5ms", "queue-depth=2,4"], Some("think queue-depth")),
            (Some(open), &["queue-depth=1,8"], Some("open-loop queue-depth")),
            (Some(open), &["think=1ms"], Some("open-loop think")),
            (Some(("think", "10ms")), &["queue-depth=1,2"], Some("think queue-depth")),
            (Some(deep), &["open-loop=true,false"], None),
            (Some(deep), &["open-loop=true"], Some("queue-depth open-loop")),
            (Some(("think", "10ms")), &["open-loop=true,false"], None),
            (Some(deep), &["think=1ms"], Some("queue-depth think")),
            (None, &["open-loop=true,false", "cache=1MiB,2MiB"], None),
            (None, &["queue-depth=1,8", "open-loop=false"], None),
            (Some(open), &["open-loop=false"], None),
            (Some(deep), &["open-loop=false"], None),
            (Some(deep), &["queue-depth=1,2"], None),
        ] {
            let mut base = base();
            if let Some((key, value)) = given {
                base.set(key, value).unwrap();
            }
            let parsed: Vec<Axis> = axes.iter().map(|a| a.parse().unwrap()).collect();
            let error = grid(&base, &parsed).err();
            let expected = both.map(|both| {
                let (one, other) = both.split_once(' ').unwrap();
                format!("'{one}' and '{other}' are two ways of replay: give one of them")
            });
            assert_eq!(error, expected, "{given:?} {axes:?}");
        }
    }

    #[test]
    fn wrong_axes_are_refused_with_what_is_wrong() {
        for (text, what) in [
            ("", "KEY=VALUE"),
            ("cache", "KEY=VALUE"),
            ("cache=", "KEY=VALUE"),
            ("cache=1MiB,,2MiB", "KEY=VALUE"),
            ("cachee=1", "Did you mean 'cache'?"),
            ("readahead=1", "Did you mean 'read-ahead'?"),
            ("zzz=1", "The options are cache, cluster"),
        ] {
            let error = text.parse::<Axis>().unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
        let twice: Vec<Axis> = ["cache=1MiB", "cache=2MiB"].map(|a| a.parse().unwrap()).into();
        assert!(grid(&base(), &twice).unwrap_err().contains("twice"));
        let many = vec!["0"; 400].join(",");
        let many = [format!("cache={many}"), format!("cluster={many}")];
        let many: Vec<Axis> = many.iter().map(|a| a.parse().unwrap()).collect();
        assert!(grid(&base(), &many).unwrap_err().contains("100000"));
    }
}
