//! The built-in workloads.

use super::Personality;
use crate::config_text::Parsed;

/// A built-in workload as a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// The TOML file.
    pub text: &'static str,
}

macro_rules! presets {
    ($($name:literal),*) => {
        &[$(Preset { name: $name, text: include_str!(concat!("../../personalities/", $name, ".toml")) }),*]
    };
}

const ALL: &[Preset] = presets!(
    "webserver",
    "fileserver",
    "varmail",
    "oltp",
    "webproxy",
    "videoserver",
    "postmark",
    "appends",
    "page-reads",
    "lookups",
    "mail-syncs",
    "mail-appends"
);

/// All built-in workloads.
pub const fn presets() -> &'static [Preset] {
    ALL
}

/// The workload with this name: `webserver`, or a variant, `webserver:filebench`. `None` if there
/// is no such workload.
pub(crate) fn preset(name: &str) -> Option<Parsed<Personality>> {
    let (base, variant) = match name.split_once(':') {
        Some((base, variant)) => (base, Some(variant)),
        None => (name, None),
    };
    let preset = ALL.iter().find(|p| p.name == base)?;
    Some(Personality::toml_variant(&format!("{base}.toml"), preset.text, variant))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::personality::StepAction;

    /// The paper's Table 1: files, mean size, mean depth, threads; and the counts of one turn.
    #[test]
    fn the_four_workloads_agree_with_the_papers_table_1() {
        for (name, set, files, size, depth, threads) in [
            ("webserver", "pages", 20_000, 32 << 10, 3.3, 100),
            ("fileserver", "homes", 50_000, 256 << 10, 3.6, 100),
            ("varmail", "mails", 50_000, 16 << 10, 0.8, 100),
            ("oltp", "data", 10, 512 << 20, 0.3, 211),
        ] {
            let p = preset(name).unwrap().unwrap();
            let set = p.sets.iter().find(|s| s.name == set).unwrap();
            assert_eq!((set.files, set.size.mean(), p.threads()), (files, size, threads), "{name}");
            assert!((set.mean_depth() - depth).abs() < 0.051, "{name}: {}", set.mean_depth());
        }
    }

    /// Reads and writes of one turn, as in Table 1; a whole file counts as one.
    #[test]
    fn reads_and_writes_agree_with_the_paper() {
        let ratio = |name: &str| {
            let p = preset(name).unwrap().unwrap();
            let of = |reads: bool| {
                let steps = p.flows.iter().flat_map(|f| &f.steps);
                let of = steps.filter(|s| s.act.transfer().is_some_and(|t| t.1 == reads));
                of.map(|s| s.times).sum::<u32>()
            };
            (of(true), of(false))
        };
        assert_eq!(ratio("webserver"), (10, 1));
        assert_eq!(ratio("fileserver"), (1, 2));
        assert_eq!(ratio("varmail"), (2, 2));
        // For the database the ratio is that of the threads: 200 readers, 10 writers.
        let p = preset("oltp").unwrap().unwrap();
        let threads: Vec<_> = p.flows.iter().map(|f| (f.name.as_str(), f.threads)).collect();
        assert_eq!(threads, [("log-writer", 1), ("writer", 10), ("reader", 200)]);
    }

    /// The micro-benchmarks work on the files of the servers whose result they explain.
    #[test]
    fn the_micro_benchmarks_use_the_files_of_their_servers() {
        for (name, server) in [
            ("page-reads", "webserver"),
            ("lookups", "fileserver"),
            ("mail-syncs", "varmail"),
            ("mail-appends", "varmail"),
        ] {
            let [micro, whole] =
                [name, server].map(|n| preset(n).unwrap().unwrap().sets[0].clone());
            assert_eq!(
                (micro.files, micro.size.mean()),
                (whole.files, whole.size.mean()),
                "{name}"
            );
            assert_eq!(micro.mean_depth().to_bits(), whole.mean_depth().to_bits(), "{name}");
        }
    }

    #[test]
    fn every_preset_and_every_variant_can_be_parsed() {
        for p in presets() {
            let base = preset(p.name).unwrap().unwrap();
            assert!(!base.about.is_empty() && !base.title.is_empty(), "{}", p.name);
            assert_eq!(base.name, p.name);
            for (variant, _) in Personality::variants(p.name, p.text).unwrap() {
                let v = preset(&format!("{}:{variant}", p.name)).unwrap().unwrap();
                assert_ne!(v, base, "{}", p.name);
            }
        }
        assert!(preset("nosuch").is_none());
        assert!(preset("webserver:nosuch").unwrap().is_err());
        let mail = preset("varmail").unwrap().unwrap();
        let syncs = |s: &&crate::personality::FlowStep| matches!(s.act, StepAction::Fsync { .. });
        assert_eq!(mail.flows[0].steps.iter().filter(syncs).count(), 2);
    }
}
