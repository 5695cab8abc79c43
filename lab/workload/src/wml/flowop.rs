//! Flowops: the operations of a thread in Filebench's language.

use super::parser::{Attribute, Parser};
use crate::config_text::Parsed;
use crate::personality::read_limits::{IO_MAX, SECONDS_MAX};
use crate::personality::{FDS, FileSlot, FlowStep, PaceUnit, StepAction};

const FLOWOPS: &str = "openfile, createfile, closefile, deletefile, statfile, readwholefile, writewholefile, \
                       appendfile, appendfilerand, read, write, aiowrite, aiowait, fsync, delay, hog, semblock, \
                       sempost, eventlimit, opslimit, iopslimit, bwlimit";

const ATTRIBUTES: &str = "name, fd, srcfd, filesetname, iosize, iters, value, highwater, target, random, opennext, \
                          dsync, directio, workingset, blocking";

#[derive(Default)]
struct FlowopValues {
    fd: usize,
    source: Option<usize>,
    set: Option<usize>,
    io: Option<u64>,
    times: u32,
    value: Option<f64>,
    high: Option<u64>,
    target: Option<(String, usize)>,
    random: bool,
    rotate: bool,
    sync: bool,
    direct: bool,
}

impl Parser<'_> {
    /// Parses a flowop after its keyword.
    pub(super) fn flowop(&mut self) -> Parsed<FlowStep> {
        let (kind, offset) = self.plain("the kind of flowop")?;
        let mut o = FlowopValues { times: 1, ..FlowopValues::default() };
        let mut name = String::new();
        for a in self.attributes()? {
            match a.name.as_str() {
                "name" => name = self.word(&a)?,
                "fd" => o.fd = self.whole(&a, 0, FDS as u64 - 1)? as usize,
                "srcfd" => o.source = Some(self.whole(&a, 0, FDS as u64 - 1)? as usize),
                "filesetname" | "filename" => o.set = Some(self.find_set(&a)?),
                "iosize" => o.io = Some(self.whole(&a, 1, IO_MAX)?),
                "iters" => o.times = self.whole(&a, 1, 1 << 30)? as u32,
                "value" => o.value = Some(self.number(&a)?),
                "highwater" => o.high = Some(self.whole(&a, 0, 1 << 40)?),
                "target" => o.target = Some((self.word(&a)?, a.at)),
                "random" => o.random = self.truth(&a)?,
                "opennext" | "rotatefd" => o.rotate = self.truth(&a)?,
                "dsync" => o.sync = self.truth(&a)?,
                "directio" => o.direct = self.truth(&a)?,
                "workingset" => {
                    if self.number(&a)? != 0.0 {
                        let what =
                            "a working set smaller than the file is not known here; allowed: 0";
                        return self.refuse(a.at, what);
                    }
                }
                "blocking" | "indexed" => {}
                _ => return self.no_attribute(&a, "a flowop", ATTRIBUTES),
            }
        }
        let times = o.times;
        let act = self.act(&kind, &name, o, offset)?;
        Ok(FlowStep { name: if name.is_empty() { kind } else { name }, act, times })
    }

    /// The index of the file set that an attribute names.
    fn find_set(&self, a: &Attribute) -> Parsed<usize> {
        let wanted = self.word(a)?;
        let found = self.sets.iter().position(|s| s.name == wanted);
        found.ok_or_else(|| {
            let all: Vec<_> = self.sets.iter().map(|s| s.name.as_str()).collect();
            let what = format!("there is no file set '{wanted}'; allowed: {}", all.join(", "));
            self.error(a.at, what)
        })
    }

    /// The operation of a flowop of kind `kind`.
    fn act(&mut self, kind: &str, name: &str, o: FlowopValues, at: usize) -> Parsed<StepAction> {
        if o.direct && (!o.random || o.io.is_some_and(|io| io % 512 != 0)) {
            let what = "directio needs 'random' and an iosize that is a multiple of 512 bytes";
            return self.refuse(at, what);
        }
        match self.file_operation(kind, &o, at)? {
            Some(action) => Ok(action),
            None => self.other_operation(kind, name, o, at),
        }
    }

    /// An operation on a file; `None` for other kinds.
    fn file_operation(
        &self,
        kind: &str,
        o: &FlowopValues,
        offset: usize,
    ) -> Parsed<Option<StepAction>> {
        let set = || o.set.ok_or_else(|| self.error(offset, format!("{kind} needs 'filesetname'")));
        let io = || o.io.ok_or_else(|| self.error(offset, format!("{kind} needs 'iosize'")));
        let (fd, random, direct, sync) = (o.fd, o.random, o.direct, o.sync);
        let slot = FileSlot { fd, set: o.set, rotate: o.rotate && o.set.is_some() };
        Ok(Some(match kind {
            "openfile" => StepAction::Open { set: set()?, fd },
            "createfile" => StepAction::Create { set: set()?, fd },
            "closefile" => StepAction::Close { fd },
            "deletefile" => StepAction::Delete { set: set()? },
            "statfile" => StepAction::Stat { set: set()? },
            "fsync" => StepAction::Fsync { fd },
            "readwholefile" => StepAction::ReadWhole { slot, io: io()? },
            "writewholefile" => {
                let fd = o.source.filter(|_| o.set.is_none()).unwrap_or(fd);
                StepAction::WriteWhole { slot: FileSlot { fd, ..slot }, io: io()? }
            }
            "appendfile" => StepAction::Append { slot, io: io()?, random: false },
            "appendfilerand" => StepAction::Append { slot, io: io()?, random: true },
            "read" => StepAction::Read { slot, io: io()?, random, direct },
            "write" => {
                StepAction::Write { slot, io: io()?, random, direct, sync, background: false }
            }
            "aiowrite" if random => {
                StepAction::Write { slot, io: io()?, random, direct, sync, background: true }
            }
            "aiowrite" => return self.refuse(offset, "aiowrite needs 'random'"),
            _ => return Ok(None),
        }))
    }

    /// An operation without a file: waiting, computing, posts and rates.
    fn other_operation(
        &mut self,
        kind: &str,
        name: &str,
        o: FlowopValues,
        offset: usize,
    ) -> Parsed<StepAction> {
        let value = || o.value.ok_or_else(|| self.error(offset, format!("{kind} needs 'value'")));
        Ok(match kind {
            "aiowait" => StepAction::Await,
            "delay" => match value()? {
                seconds if seconds <= SECONDS_MAX => StepAction::Think { seconds },
                _ => return self.refuse(offset, format!("a delay is at most {SECONDS_MAX} s")),
            },
            "hog" => StepAction::Burn { loops: value()? as u64 },
            "semblock" => {
                let posts = (value()? as u64).max(1);
                let gate = self.gate(name);
                self.gates[gate].1 = o.high.unwrap_or(0).max(posts);
                StepAction::Wait { gate, posts }
            }
            "sempost" => {
                let posts = (value()? as u64).max(1);
                let (target, place) =
                    o.target.ok_or_else(|| self.error(offset, "sempost needs 'target'"))?;
                let gate = self.gate(&target);
                self.posts.push((gate, place));
                StepAction::Post { gate, posts }
            }
            "eventlimit" => StepAction::Pace { by: PaceUnit::Turns },
            "opslimit" => StepAction::Pace { by: PaceUnit::Operations },
            "iopslimit" => StepAction::Pace { by: PaceUnit::Transfers },
            "bwlimit" => StepAction::Pace { by: PaceUnit::Mebibytes },
            other => {
                let what = format!("flowop '{other}' is not known here; allowed: {FLOWOPS}");
                return self.refuse(offset, what);
            }
        })
    }
}
