//! Parses Filebench's language as a [`Personality`].

use std::collections::BTreeMap;

use super::lexer::{Kind, Word, words};
use crate::config_text::{Amount, ConfigText, Parsed, TextError};
use crate::personality::read_limits::{FILES_MAX, STEPS_MAX, THREADS_MAX};
use crate::personality::{FileSetSpec, Flow, Personality, SizeSpec};

/// The value of a variable or of an attribute.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Text(String),
    /// Gamma distributed: mean and shape.
    Gamma(f64, f64),
    /// An attribute without a value.
    Yes,
}

/// An attribute and its position.
#[derive(Clone, Debug)]
pub(super) struct Attribute {
    pub(super) name: String,
    value: Value,
    pub(super) at: usize,
}

#[derive(Default)]
pub(super) struct Parser<'a> {
    source: ConfigText<'a>,
    words: Vec<Word>,
    next: usize,
    variables: BTreeMap<String, Value>,
    pub(super) sets: Vec<FileSetSpec>,
    flows: Vec<Flow>,
    /// Names of semblock steps, with their number of posts.
    pub(super) gates: Vec<(String, u64)>,
    /// Gates that are posted to, each with the position of the post.
    pub(super) posts: Vec<(usize, usize)>,
    rate: Option<f64>,
    steps: usize,
}

const COMMANDS: &str = "set, define fileset, define process, eventgen, and run, echo, usage, debug, version, create, \
                        load, psrun, sleep, stats, system, enable, quit, which are ignored";
const SET_ATTRIBUTES: &str = "name, path, entries, size, dirwidth, dirgamma, prealloc, readonly, reuse, paralloc, \
                              trusttree, cached";

impl Personality {
    /// Parses a workload in Filebench's language, as far as its shipped personalities use it.
    pub(crate) fn wml(file: &str, text: &str) -> Parsed<Self> {
        let source = ConfigText { file, text };
        let mut parser = Parser { source, words: words(source)?, ..Parser::default() };
        parser.all()?;
        let end = text.len();
        if parser.sets.is_empty() || parser.flows.is_empty() {
            return parser
                .refuse(end, "there is no 'define fileset', or no 'define process' with a thread");
        }
        if let Some((_, at)) = parser.posts.iter().find(|p| parser.gates[p.0].1 == 0) {
            return parser.refuse(*at, "its target is not a semblock of this file");
        }
        let name = file.rsplit('/').next().unwrap_or(file).trim_end_matches(".f").to_owned();
        Ok(Self {
            title: format!("{name}, from Filebench's language"),
            about: format!("Read from {file}."),
            name,
            sets: parser.sets,
            flows: parser.flows,
            gates: parser.gates,
            rate: parser.rate,
        })
    }
}

impl Parser<'_> {
    pub(super) fn error(&self, offset: usize, what: impl Into<String>) -> TextError {
        self.source.error(offset, what)
    }

    pub(super) fn refuse<T>(&self, offset: usize, what: impl Into<String>) -> Parsed<T> {
        self.source.refuse(offset, what)
    }

    /// Refuses an attribute. `thing` has the attributes `all`.
    pub(super) fn no_attribute<T>(&self, a: &Attribute, thing: &str, all: &str) -> Parsed<T> {
        self.refuse(a.at, format!("{thing} has no attribute '{}'; allowed: {all}", a.name))
    }

    fn peek(&self) -> &Word {
        // The last word is an end, and is never consumed.
        &self.words[self.next.min(self.words.len() - 1)]
    }

    fn take(&mut self) -> Word {
        let word = self.peek().clone();
        self.next = (self.next + 1).min(self.words.len());
        word
    }

    fn over(&self) -> bool {
        self.next >= self.words.len()
    }

    fn ends(&mut self) {
        while !self.over() && self.peek().kind == Kind::End {
            self.next += 1;
        }
    }

    fn skip_line(&mut self) {
        while !self.over() && self.peek().kind != Kind::End {
            self.next += 1;
        }
    }

    pub(super) fn plain(&mut self, what: &str) -> Parsed<(String, usize)> {
        let word = self.take();
        match word.kind {
            Kind::Plain(text) => Ok((text, word.at)),
            _ => self.refuse(word.at, format!("expected {what}")),
        }
    }

    fn sign(&mut self, sign: char) -> Parsed<()> {
        let word = self.take();
        if word.kind == Kind::Sign(sign) {
            return Ok(());
        }
        self.refuse(word.at, format!("expected '{sign}'"))
    }

    fn accept(&mut self, sign: char) -> bool {
        let is_it = self.peek().kind == Kind::Sign(sign);
        self.next += usize::from(is_it);
        is_it
    }

    fn all(&mut self) -> Parsed<()> {
        loop {
            self.ends();
            if self.over() {
                return Ok(());
            }
            let (command, offset) = self.plain("a command")?;
            match command.as_str() {
                "set" => self.set()?,
                "define" => self.define()?,
                "eventgen" => {
                    for a in self.attributes()? {
                        match a.name.as_str() {
                            "rate" => {
                                let rate = self.number(&a)?;
                                self.rate = (rate > 0.0).then_some(rate.min(1e9));
                            }
                            _ => return self.refuse(a.at, "eventgen accepts only 'rate'"),
                        }
                    }
                }
                "run" | "echo" | "usage" | "debug" | "version" | "create" | "load" | "psrun"
                | "sleep" | "stats" | "system" | "enable" | "quit" | "list" | "foreach" => {
                    self.skip_line();
                }
                other => {
                    let what = format!("'{other}' is not a known command; allowed: {COMMANDS}");
                    return self.refuse(offset, what);
                }
            }
        }
    }

    /// `$name = value`, or a command that sets a mode.
    fn set(&mut self) -> Parsed<()> {
        let word = self.take();
        let Kind::Variable(name) = word.kind else {
            if word.kind == Kind::Plain("mode".to_owned()) {
                self.skip_line();
                return Ok(());
            }
            return self.refuse(word.at, "expected '$' and a variable's name, or 'mode'");
        };
        self.sign('=')?;
        let value = self.value()?;
        self.variables.insert(name, value);
        Ok(())
    }

    fn value(&mut self) -> Parsed<Value> {
        let word = self.take();
        match word.kind {
            Kind::Plain(text) if text == "cvar" || text == "randvar" => self.random(word.at),
            Kind::Plain(text) | Kind::Quoted(text) => Ok(Value::Text(text)),
            Kind::Variable(name) => self.variables.get(&name).cloned().ok_or_else(|| {
                let all: Vec<_> = self.variables.keys().map(|k| format!("${k}")).collect();
                self.error(word.at, format!("${name} is not set; set so far: {}", all.join(", ")))
            }),
            _ => self.refuse(word.at, "expected a value"),
        }
    }

    /// `(type=cvar-gamma,parameters=mean:16384;gamma:1.5)`, or randvar's
    /// `(type=gamma,mean=..,gamma=..)`.
    fn random(&mut self, offset: usize) -> Parsed<Value> {
        self.sign('(')?;
        let (mut kind, mut mean, mut shape) = (String::new(), None, 1.5);
        loop {
            let (name, name_at) = self.plain("'type', 'parameters', 'mean' or 'gamma'")?;
            match name.as_str() {
                "type" => {
                    self.sign('=')?;
                    kind = self.plain("a distribution")?.0;
                }
                "parameters" => {
                    self.sign('=')?;
                    continue;
                }
                "mean" | "gamma" | "scale" | "shape" => {
                    if !self.accept(':') {
                        self.sign('=')?;
                    }
                    let value = self.value()?;
                    let value = self.number_of(&value, name_at)?;
                    match name.as_str() {
                        "mean" => mean = Some(value),
                        // randvar uses thousandths.
                        _ if value >= 100.0 => shape = value / 1000.0,
                        _ => shape = value,
                    }
                }
                other => {
                    let what = format!("'{other}' is not known here; allowed: mean, gamma");
                    return self.refuse(name_at, what);
                }
            }
            if !(self.accept(',') || self.accept(';')) {
                break;
            }
        }
        self.sign(')')?;
        match (kind.as_str(), mean) {
            ("cvar-gamma" | "gamma", Some(mean))
                if mean >= 0.0 && (0.01..=1000.0).contains(&shape) =>
            {
                Ok(Value::Gamma(mean, shape))
            }
            ("cvar-gamma" | "gamma", _) => self
                .refuse(offset, "a gamma distribution needs a mean, and a gamma from 0.01 to 1000"),
            (kind, _) => self.refuse(
                offset,
                format!("distribution '{kind}' is not known here; allowed: cvar-gamma, gamma"),
            ),
        }
    }

    /// `name=value, name, ...` to the end of the line or to a brace; a line can end after a comma.
    pub(super) fn attributes(&mut self) -> Parsed<Vec<Attribute>> {
        let mut all = Vec::new();
        loop {
            if !matches!(self.peek().kind, Kind::Plain(_)) || self.over() {
                return Ok(all);
            }
            let (name, offset) = self.plain("an attribute")?;
            let value = if self.accept('=') { self.value()? } else { Value::Yes };
            all.push(Attribute { name, value, at: offset });
            if !self.accept(',') {
                return Ok(all);
            }
            self.ends();
        }
    }

    fn number_of(&self, value: &Value, offset: usize) -> Parsed<f64> {
        match value {
            Value::Text(text) => {
                let number = text.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
                let number = number.or_else(|| Amount::parse(text).ok().map(|a| a.0 as f64));
                number.ok_or_else(|| self.error(offset, format!("'{text}' is not a number")))
            }
            Value::Gamma(mean, _) => Ok(*mean),
            Value::Yes => self.refuse(offset, "needs '=' and a number"),
        }
    }

    pub(super) fn number(&self, a: &Attribute) -> Parsed<f64> {
        self.number_of(&a.value, a.at)
    }

    pub(super) fn whole(&self, a: &Attribute, low: u64, high: u64) -> Parsed<u64> {
        let n = self.number(a)?;
        if n >= low as f64 && n <= high as f64 {
            return Ok(n as u64);
        }
        self.refuse(a.at, format!("{} = {n} is out of range; allowed: {low} to {high}", a.name))
    }

    pub(super) fn truth(&self, a: &Attribute) -> Parsed<bool> {
        match &a.value {
            Value::Yes => Ok(true),
            Value::Text(t) => match t.as_str() {
                "true" | "1" => Ok(true),
                "false" | "0" => Ok(false),
                _ => self.refuse(a.at, format!("{} must be true or false", a.name)),
            },
            Value::Gamma(..) => self.refuse(a.at, format!("{} must be true or false", a.name)),
        }
    }

    pub(super) fn word(&self, a: &Attribute) -> Parsed<String> {
        match &a.value {
            Value::Text(text) => Ok(text.clone()),
            _ => self.refuse(a.at, format!("{} needs '=' and a name", a.name)),
        }
    }

    fn define(&mut self) -> Parsed<()> {
        let (what, offset) = self.plain("'fileset', 'file' or 'process'")?;
        match what.as_str() {
            "fileset" | "file" => self.fileset(offset, what == "file"),
            "process" => self.process(),
            other => self.refuse(
                offset,
                format!("'{other}' cannot be defined; allowed: fileset, file, process"),
            ),
        }
    }

    fn fileset(&mut self, offset: usize, single: bool) -> Parsed<()> {
        let mut set = FileSetSpec {
            name: String::new(),
            files: if single { 1 } else { 0 },
            size: SizeSpec::Fixed(1024),
            width: 1e6,
            width_shape: 1.5,
            prealloc: 0.0,
            read_only: false,
        };
        for a in self.attributes()? {
            match a.name.as_str() {
                "name" => set.name = self.word(&a)?,
                "entries" => set.files = self.whole(&a, 1, FILES_MAX)?,
                "size" | "filesize" => {
                    set.size = match a.value {
                        Value::Gamma(mean, shape) => {
                            SizeSpec::Gamma { mean: mean.min(i64::MAX as f64) as u64, shape }
                        }
                        _ => SizeSpec::Fixed(self.whole(&a, 0, i64::MAX as u64)?),
                    }
                }
                "dirwidth" => {
                    let width = self.number(&a)?;
                    set.width = if width < 1.0 { 1e12 } else { width.min(1e12) };
                }
                "dirgamma" => set.width_shape = (self.number(&a)? / 1000.0).clamp(0.01, 1000.0),
                "prealloc" => {
                    set.prealloc = match a.value {
                        Value::Yes => 1.0,
                        _ => self.whole(&a, 0, 100)? as f64 / 100.0,
                    }
                }
                "readonly" => set.read_only = self.truth(&a)?,
                "path" | "reuse" | "paralloc" | "trusttree" | "cached" | "filesizegamma"
                | "leafdirs" => {}
                _ => return self.no_attribute(&a, "a file set", SET_ATTRIBUTES),
            }
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if set.name.is_empty() || !set.name.chars().all(plain) || set.name.starts_with('.') {
            return self.refuse(offset, "a file set needs a name of letters, digits, - and _");
        }
        if set.files == 0 {
            return self.refuse(offset, "a file set needs 'entries'");
        }
        if self.sets.iter().any(|s| s.name == set.name) {
            return self.refuse(offset, format!("there are two file sets '{}'", set.name));
        }
        self.sets.push(set);
        Ok(())
    }

    fn process(&mut self) -> Parsed<()> {
        let (mut instances, mut name) = (1, String::new());
        for a in self.attributes()? {
            match a.name.as_str() {
                "instances" => instances = self.whole(&a, 1, THREADS_MAX)?,
                "name" => name = self.word(&a)?,
                "nice" => {}
                _ => return self.no_attribute(&a, "a process", "name, instances, nice"),
            }
        }
        self.ends();
        self.sign('{')?;
        while self.next_in_block("thread")?.is_some() {
            self.thread(instances, &name)?;
        }
        Ok(())
    }

    /// Takes the next keyword of a block and returns its position; `None` at the end of the block.
    fn next_in_block(&mut self, keyword: &str) -> Parsed<Option<usize>> {
        self.ends();
        if self.accept('}') {
            return Ok(None);
        }
        let (word, offset) = self.plain(&format!("'{keyword}' or '}}'"))?;
        if word == keyword {
            return Ok(Some(offset));
        }
        self.refuse(offset, format!("expected '{keyword}' or '}}', found '{word}'"))
    }

    fn thread(&mut self, processes: u64, process: &str) -> Parsed<()> {
        let begin = self.peek().at;
        let (mut instances, mut name) = (1, process.to_owned());
        for a in self.attributes()? {
            match a.name.as_str() {
                "instances" => instances = self.whole(&a, 1, THREADS_MAX)?,
                "name" => name = self.word(&a)?,
                "memsize" | "useism" | "ioprio" => {}
                _ => {
                    return self.no_attribute(&a, "a thread", "name, instances, memsize, useism");
                }
            }
        }
        self.ends();
        self.sign('{')?;
        let (mut steps, mut offsets) = (Vec::new(), Vec::new());
        while let Some(offset) = self.next_in_block("flowop")? {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return self.refuse(offset, format!("more than {STEPS_MAX} flowops"));
            }
            steps.push(self.flowop()?);
            offsets.push(offset);
        }
        let threads = processes.saturating_mul(instances);
        if threads > THREADS_MAX || steps.is_empty() {
            let what = format!(
                "a thread needs flowops, and at most {THREADS_MAX} instances over all processes"
            );
            return self.refuse(begin, what);
        }
        let flow = Flow { name, threads: threads as u32, steps };
        if let Some((step, fd)) = flow.unopened() {
            let what = format!(
                "no flowop of this thread opens fd {fd}; open or create it, or name a file set"
            );
            return self.refuse(offsets[step], what);
        }
        self.flows.push(flow);
        Ok(())
    }

    pub(super) fn gate(&mut self, name: &str) -> usize {
        self.gates.iter().position(|g| g.0 == name).unwrap_or_else(|| {
            self.gates.push((name.to_owned(), 0));
            self.gates.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::personality::preset;
    use crate::personality::{FileSlot, StepAction};

    /// Written for this test with the facts of the shipped personality; the flows must agree with
    /// those of the preset.
    const VARMAIL: &str = r#"
set $dir=/tmp
set $nfiles=1000
set $filesize=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)
set $iosize=1m   # a remark
define fileset name=mails,path=$dir,size=$filesize,entries=$nfiles,dirwidth=1000000,prealloc=80
define process name=mailer,instances=1
{
  thread name=mailer,memsize=10m,instances=16
  {
    flowop deletefile name=delete,filesetname=mails
    flowop createfile name=create,filesetname=mails,fd=1
    flowop appendfilerand name=append,iosize=16k,fd=1
    flowop fsync name=fsync,fd=1
    flowop closefile name=close,fd=1
    flowop openfile name=open,filesetname=mails,fd=1
    flowop readwholefile name=read-whole,fd=1,iosize=$iosize
    flowop appendfilerand name=append,iosize=16k,
        fd=1
    flowop fsync name=fsync,fd=1
    flowop closefile name=close,fd=1
    flowop openfile name=open,filesetname=mails,fd=1
    flowop readwholefile name=read-whole,fd=1,iosize=$iosize
    flowop closefile name=close,fd=1
  }
}
echo "loaded"
usage "set \$dir=<dir>"
run 60
"#;

    #[test]
    fn a_file_agrees_with_the_preset() {
        let (ours, theirs) = (
            preset("varmail:filebench").unwrap().unwrap(),
            Personality::wml("varmail.f", VARMAIL).unwrap(),
        );
        assert_eq!(ours.sets, theirs.sets);
        assert_eq!(ours.flows, theirs.flows);
    }

    #[test]
    fn gates_posts_and_asynchronous_writes() {
        let p = Personality::wml("db.f", "eventgen rate = 7\ndefine fileset name=d,size=10m,entries=10,dirwidth=1024,prealloc=100,reuse\n\
            define process name=w,instances=10 {\n thread name=w,memsize=1m,useism {\n\
            flowop aiowrite name=a,filesetname=d,iosize=2k,workingset=0,random,iters=100,opennext,directio=0,dsync\n\
            flowop semblock name=b,value=1000,highwater=2000\n flowop aiowait name=c\n }\n}\n\
            define process name=r,instances=200 {\n thread name=r {\n\
            flowop read name=r,filesetname=d,iosize=2k,random,opennext\n flowop hog name=h,value=200000\n\
            flowop sempost name=p,value=1,target=b,blocking\n flowop eventlimit name=e\n }\n}\n").unwrap();
        assert_eq!(
            (p.threads(), p.rate, p.gates.clone()),
            (210, Some(7.0), vec![("b".to_owned(), 2000)])
        );
        let slot = FileSlot { fd: 0, set: Some(0), rotate: true };
        let write = StepAction::Write {
            slot,
            io: 2048,
            random: true,
            direct: false,
            sync: true,
            background: true,
        };
        assert_eq!((p.flows[0].steps[0].act, p.flows[0].steps[0].times), (write, 100));
    }

    #[test]
    fn errors_give_the_position_of_the_fault() {
        for (old, new, place, word) in [
            ("flowop fsync", "flowop fsink", "14:12", "allowed: openfile"),
            ("entries=$nfiles", "entries=$files", "6:", "$nfiles"),
            ("prealloc=80", "prealloc=180", "6:", "0 to 100"),
            ("filesetname=mails,fd=1", "filesetname=letters,fd=1", "12:", "allowed: mails"),
            ("set $dir=/tmp", "put $dir=/tmp", "2:1", "not a known command"),
            ("instances=16\n  {", "instances=16\n  [", "10:", "expected '{'"),
            ("echo \"loaded\"", "echo \"loaded", "27:6", "closing"),
            ("cvar-gamma", "cvar-weibull", "4:", "weibull"),
            ("iosize=16k,fd=1", "iosize=16k,fd=2", "13:", "opens fd 2"),
        ] {
            let text = VARMAIL.replacen(old, new, 1);
            assert_ne!(text, VARMAIL, "{old}");
            let e = Personality::wml("x.f", &text).unwrap_err().to_string();
            assert!(e.starts_with(&format!("x.f:{place}")) && e.contains(word), "{new}: {e}");
        }
        assert!(Personality::wml("x.f", "").is_err());
    }
}
