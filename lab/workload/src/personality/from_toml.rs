//! Parses a personality from TOML. Errors give line, column, field and the allowed values.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::{
    FDS, FileSetSpec, FileSlot, Flow, FlowStep, PaceUnit, Personality, SizeSpec, StepAction,
};
use crate::config_text::{self, Amount, ConfigText, Parsed};

/// Upper limits; a larger value is probably a mistake.
pub(crate) const FILES_MAX: u64 = 100_000_000;
pub(crate) const THREADS_MAX: u64 = 10_000;
pub(crate) const IO_MAX: u64 = 1 << 30;
pub(crate) const STEPS_MAX: usize = 10_000;
pub(crate) const SECONDS_MAX: f64 = 86_400.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: String,
    title: String,
    #[serde(default)]
    about: String,
    rate: Option<Spanned<f64>>,
    set: Vec<RawSet>,
    flow: Vec<RawFlow>,
    #[serde(default)]
    variant: Vec<RawVariant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSet {
    name: Spanned<String>,
    files: Spanned<u64>,
    size: Spanned<Amount>,
    #[serde(default)]
    shape: Option<Spanned<f64>>,
    width: Spanned<f64>,
    #[serde(default)]
    width_shape: Option<Spanned<f64>>,
    prealloc: Spanned<f64>,
    #[serde(default)]
    read_only: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFlow {
    name: String,
    threads: Spanned<u64>,
    steps: Vec<Spanned<RawStep>>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Word {
    Open,
    Create,
    Close,
    Delete,
    Stat,
    Fsync,
    ReadWhole,
    WriteWhole,
    Append,
    Read,
    Write,
    Await,
    Think,
    Burn,
    Wait,
    Post,
    Pace,
    Repeat,
}

impl Word {
    /// Required fields, and optional fields.
    const fn fields(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Open | Self::Create => (&["set", "fd"], &[]),
            Self::Close | Self::Fsync => (&["fd"], &[]),
            Self::Delete | Self::Stat => (&["set"], &[]),
            Self::ReadWhole | Self::WriteWhole => (&["io"], &["fd", "set"]),
            Self::Append => (&["io"], &["fd", "set", "random"]),
            Self::Read => (&["io"], &["fd", "set", "random", "rotate", "direct"]),
            Self::Write => {
                (&["io"], &["fd", "set", "random", "rotate", "direct", "sync", "background"])
            }
            Self::Await => (&[], &[]),
            Self::Think => (&["seconds"], &[]),
            Self::Burn => (&["loops"], &[]),
            Self::Wait => (&["gate", "posts"], &["high"]),
            Self::Post => (&["gate"], &["posts"]),
            Self::Pace => (&["by"], &[]),
            Self::Repeat => (&["steps"], &[]),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    op: Word,
    name: Option<String>,
    times: Option<Spanned<u32>>,
    set: Option<Spanned<String>>,
    fd: Option<Spanned<u64>>,
    io: Option<Spanned<Amount>>,
    random: Option<bool>,
    rotate: Option<bool>,
    direct: Option<bool>,
    sync: Option<bool>,
    background: Option<bool>,
    seconds: Option<Spanned<f64>>,
    loops: Option<u64>,
    gate: Option<Spanned<String>>,
    posts: Option<Spanned<u64>>,
    high: Option<u64>,
    by: Option<PaceUnit>,
    steps: Option<Vec<Spanned<RawStep>>>,
}

/// The same workload with other numbers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawVariant {
    name: String,
    #[serde(default)]
    about: String,
    #[serde(default)]
    files: BTreeMap<Spanned<String>, u64>,
    #[serde(default)]
    size: BTreeMap<Spanned<String>, Amount>,
    #[serde(default)]
    threads: BTreeMap<Spanned<String>, u32>,
}

#[derive(Default)]
struct Reader<'a> {
    text: ConfigText<'a>,
    sets: Vec<FileSetSpec>,
    gates: Vec<(String, u64)>,
    posts: Vec<(usize, usize)>,
    steps: usize,
}

impl Personality {
    /// Parses a personality without a variant; see [`crate::preset`] for variants.
    pub(crate) fn toml(file: &str, text: &str) -> Parsed<Self> {
        Self::toml_variant(file, text, None)
    }

    /// Parses one of the variants in the file.
    pub(crate) fn toml_variant(file: &str, text: &str, variant: Option<&str>) -> Parsed<Self> {
        let raw: Raw = config_text::toml(file, text)?;
        let mut reader = Reader { text: ConfigText { file, text }, ..Reader::default() };
        for set in raw.set {
            let spec = reader.set(set)?;
            reader.sets.push(spec);
        }
        let mut flows = Vec::new();
        for flow in raw.flow {
            flows.push(reader.flow(flow)?);
        }
        if reader.sets.is_empty() || flows.is_empty() {
            let what = "a personality needs at least one [[set]] and one [[flow]]";
            return reader.text.refuse(0, what);
        }
        if let Some((_, offset)) = reader.posts.iter().find(|(gate, _)| reader.gates[*gate].1 == 0)
        {
            let what = "no step waits at this gate, so threads that post to it would wait forever";
            return reader.text.refuse(*offset, what);
        }
        let rate = raw.rate.map(|r| reader.text.within("rate", r, 0.001..=1e9)).transpose()?;
        let mut personality = Self {
            name: raw.name,
            title: raw.title,
            about: raw.about,
            sets: std::mem::take(&mut reader.sets),
            flows,
            gates: std::mem::take(&mut reader.gates),
            rate,
        };
        for v in raw.variant {
            reader.apply(&mut personality, v, variant)?;
        }
        match variant {
            Some(name) if !personality.name.ends_with(&format!(":{name}")) => {
                reader.text.refuse(0, format!("has no [[variant]] '{name}'"))
            }
            _ => Ok(personality),
        }
    }

    /// The names of the variants in a file, with their descriptions.
    pub(crate) fn variants(file: &str, text: &str) -> Parsed<Vec<(String, String)>> {
        let raw: Raw = config_text::toml(file, text)?;
        Ok(raw.variant.into_iter().map(|v| (v.name, v.about)).collect())
    }
}

impl Reader<'_> {
    fn set(&self, raw: RawSet) -> Parsed<FileSetSpec> {
        let (offset, name) = (raw.name.span().start, raw.name.into_inner());
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || !name.chars().all(plain) || name.starts_with('.') {
            let what = format!("set '{name}': a name is letters, digits, - and _");
            return self.text.refuse(offset, what);
        }
        if self.sets.iter().any(|s| s.name == name) {
            return self.text.refuse(offset, format!("there are two sets '{name}'"));
        }
        let mean = raw.size.get_ref().0;
        let size = match raw.shape {
            None => SizeSpec::Fixed(mean),
            Some(shape) => {
                SizeSpec::Gamma { mean, shape: self.text.within("shape", shape, 0.01..=1000.0)? }
            }
        };
        let width_shape =
            self.text.within_or("width_shape", raw.width_shape, 1.5, 0.01..=1000.0)?;
        Ok(FileSetSpec {
            name,
            files: self.text.within("files", raw.files, 1..=FILES_MAX)?,
            size,
            width: self.text.within("width", raw.width, 1.0..=1e12)?,
            width_shape,
            prealloc: self.text.within("prealloc", raw.prealloc, 0.0..=1.0)?,
            read_only: raw.read_only,
        })
    }

    fn flow(&mut self, raw: RawFlow) -> Parsed<Flow> {
        let offset = raw.threads.span().start;
        let threads = self.text.within("threads", raw.threads, 1..=THREADS_MAX)? as u32;
        let (mut steps, mut offsets) = (Vec::new(), Vec::new());
        self.steps(raw.steps, &mut steps, &mut offsets, 0)?;
        if steps.is_empty() {
            return self.text.refuse(offset, format!("flow '{}' has no steps", raw.name));
        }
        let flow = Flow { name: raw.name, threads, steps };
        if let Some((step, fd)) = flow.unopened() {
            let what = format!(
                "no step of this flow opens descriptor {fd}; open or create it, or name a set"
            );
            return self.text.refuse(offsets[step], what);
        }
        Ok(flow)
    }

    fn steps(
        &mut self,
        raw: Vec<Spanned<RawStep>>,
        steps: &mut Vec<FlowStep>,
        offsets: &mut Vec<usize>,
        depth: usize,
    ) -> Parsed<()> {
        for step in raw {
            let (offset, mut step) = (step.span().start, step.into_inner());
            self.allowed(&step, offset)?;
            let times = step.times.as_ref().map_or(1, |t| *t.get_ref());
            if times == 0 {
                let offset = step.times.map_or(offset, |t| t.span().start);
                return self.text.refuse(offset, "times = 0 is out of range; allowed: 1 and more");
            }
            if let (Word::Repeat, Some(inner)) = (step.op, step.steps.take()) {
                if depth >= 4 {
                    let what = "repeat is nested too deep; allowed: 4 levels";
                    return self.text.refuse(offset, what);
                }
                let (mut more, mut places) = (Vec::new(), Vec::new());
                self.steps(inner, &mut more, &mut places, depth + 1)?;
                for _ in 0..times {
                    if steps.len() + more.len() > STEPS_MAX {
                        return self.text.refuse(offset, format!("more than {STEPS_MAX} steps"));
                    }
                    steps.extend_from_slice(&more);
                    offsets.extend_from_slice(&places);
                }
                continue;
            }
            let name = step.name.clone();
            let act = self.act(step, offset)?;
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return self.text.refuse(offset, format!("more than {STEPS_MAX} steps"));
            }
            steps.push(FlowStep {
                name: name.unwrap_or_else(|| act.word().to_owned()),
                act,
                times,
            });
            offsets.push(offset);
        }
        Ok(())
    }

    /// Checks that the fields fit the operation.
    fn allowed(&self, step: &RawStep, offset: usize) -> Parsed<()> {
        let given = [
            ("set", step.set.is_some()),
            ("fd", step.fd.is_some()),
            ("io", step.io.is_some()),
            ("random", step.random.is_some()),
            ("rotate", step.rotate.is_some()),
            ("direct", step.direct.is_some()),
            ("sync", step.sync.is_some()),
            ("background", step.background.is_some()),
            ("seconds", step.seconds.is_some()),
            ("loops", step.loops.is_some()),
            ("gate", step.gate.is_some()),
            ("posts", step.posts.is_some()),
            ("high", step.high.is_some()),
            ("by", step.by.is_some()),
            ("steps", step.steps.is_some()),
        ];
        self.text.check_fields(offset, "this operation", &given, step.op.fields(), "name, times")
    }

    fn act(&mut self, mut s: RawStep, offset: usize) -> Parsed<StepAction> {
        let set = s.set.as_ref().map(|n| self.find_set(n)).transpose()?;
        let fd = s.fd.take().map(|f| self.text.within("fd", f, 0..=FDS as u64 - 1)).transpose()?;
        if s.io.is_some() && set.is_none() && fd.is_none() {
            return self.text.refuse(offset, "this operation needs 'fd', 'set' or both");
        }
        let io = match &s.io {
            None => 0,
            Some(io) if (1..=IO_MAX).contains(&io.get_ref().0) => io.get_ref().0,
            Some(io) => {
                let what = format!("io is out of range; allowed: 1 byte to {IO_MAX}");
                return self.text.refuse(io.span().start, what);
            }
        };
        let (fd, yes) = (fd.unwrap_or(0) as usize, |b: Option<bool>| b.unwrap_or(false));
        let slot = FileSlot { fd, set, rotate: yes(s.rotate) };
        if slot.rotate && slot.set.is_none() {
            let what = "'rotate' needs a 'set'; it uses the files of the set in turn";
            return self.text.refuse(offset, what);
        }
        let set = set.unwrap_or(0);
        let (random, direct) = (yes(s.random), yes(s.direct));
        if direct && (!random || io % 512 != 0) {
            let what = "'direct' needs 'random' and an io that is a multiple of 512 bytes";
            return self.text.refuse(offset, what);
        }
        let posts = self.text.within_or("posts", s.posts.take(), 1, 1..=1 << 40)?;
        Ok(match s.op {
            Word::Open => StepAction::Open { set, fd },
            Word::Create => StepAction::Create { set, fd },
            Word::Close => StepAction::Close { fd },
            Word::Delete => StepAction::Delete { set },
            Word::Stat => StepAction::Stat { set },
            Word::Fsync => StepAction::Fsync { fd },
            Word::ReadWhole => StepAction::ReadWhole { slot, io },
            Word::WriteWhole => StepAction::WriteWhole { slot, io },
            Word::Append => StepAction::Append { slot, io, random },
            Word::Read => StepAction::Read { slot, io, random, direct },
            Word::Write => {
                let (sync, background) = (yes(s.sync), yes(s.background));
                if background && !random {
                    return self.text.refuse(offset, "'background' needs 'random'");
                }
                StepAction::Write { slot, io, random, direct, sync, background }
            }
            Word::Await => StepAction::Await,
            _ => return self.other_operation(s, posts, offset),
        })
    }

    /// An operation without a file: thinking, computing, gates and rates.
    fn other_operation(&mut self, s: RawStep, posts: u64, offset: usize) -> Parsed<StepAction> {
        Ok(match s.op {
            Word::Think => match s.seconds {
                Some(t) => StepAction::Think {
                    seconds: self.text.within("seconds", t, 0.0..=SECONDS_MAX)?,
                },
                None => return self.text.refuse(offset, "this operation needs 'seconds'"),
            },
            Word::Burn => StepAction::Burn { loops: s.loops.unwrap_or(0) },
            Word::Wait => {
                let gate = self.gate(&s.gate);
                // A gate that holds fewer posts than a step waits for would never open.
                let holds = s.high.unwrap_or(posts).max(posts);
                self.gates[gate].1 = self.gates[gate].1.max(holds);
                StepAction::Wait { gate, posts }
            }
            Word::Post => {
                let gate = self.gate(&s.gate);
                self.posts.push((gate, offset));
                StepAction::Post { gate, posts }
            }
            Word::Pace => StepAction::Pace { by: s.by.unwrap_or(PaceUnit::Turns) },
            _ => return self.text.refuse(offset, "this operation needs 'steps'"),
        })
    }

    fn find_set(&self, name: &Spanned<String>) -> Parsed<usize> {
        let found = self.sets.iter().position(|s| s.name == *name.get_ref());
        found.ok_or_else(|| {
            let all: Vec<_> = self.sets.iter().map(|s| s.name.as_str()).collect();
            let what = format!("there is no set '{}'; allowed: {}", name.get_ref(), all.join(", "));
            self.text.error(name.span().start, what)
        })
    }

    /// The gate's number. A new gate holds nothing until a step waits at it.
    fn gate(&mut self, name: &Option<Spanned<String>>) -> usize {
        let name = name.as_ref().map_or("", |n| n.get_ref());
        self.gates.iter().position(|g| g.0 == name).unwrap_or_else(|| {
            self.gates.push((name.to_owned(), 0));
            self.gates.len() - 1
        })
    }

    fn apply(&self, p: &mut Personality, v: RawVariant, wanted: Option<&str>) -> Parsed<()> {
        let is_it = wanted == Some(v.name.as_str());
        let missing = |name: &Spanned<String>, what: &str| {
            self.text.error(name.span().start, format!("there is no {what} '{}'", name.get_ref()))
        };
        for (name, files) in v.files {
            let set = p.sets.iter_mut().find(|s| s.name == *name.get_ref());
            let set = set.ok_or_else(|| missing(&name, "set"))?;
            if files == 0 || files > FILES_MAX {
                let what = format!("allowed: 1 to {FILES_MAX} files");
                return self.text.refuse(name.span().start, what);
            }
            if is_it {
                set.files = files;
            }
        }
        for (name, size) in v.size {
            let set = p.sets.iter_mut().find(|s| s.name == *name.get_ref());
            let set = set.ok_or_else(|| missing(&name, "set"))?;
            if is_it {
                set.size = set.size.with_mean(size.0);
            }
        }
        for (name, threads) in v.threads {
            let flow = p.flows.iter_mut().find(|f| f.name == *name.get_ref());
            let flow = flow.ok_or_else(|| missing(&name, "flow"))?;
            if !(1..=THREADS_MAX).contains(&u64::from(threads)) {
                let what = format!("allowed: 1 to {THREADS_MAX} threads");
                return self.text.refuse(name.span().start, what);
            }
            if is_it {
                flow.threads = threads;
            }
        }
        if is_it {
            p.name = format!("{}:{}", p.name, v.name);
            if !v.about.is_empty() {
                p.about = format!("{}\n\n{}", p.about.trim_end(), v.about.trim());
            }
        }
        Ok(())
    }
}
