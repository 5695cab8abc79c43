//! The view of clients: for each sector the writes that a read may return, now and after a power
//! failure.
//!
//! Sectors are registers; a request is one operation on each of its sectors. A write is *dead* once
//! another write certainly came after it: no later read may return it. A write is *lost* once a
//! later write was promised to be on stable storage: no crash may bring it back. This module knows
//! no engine and no device.

#[cfg(test)]
mod tests;
mod unreadable;

use seekless_block::{Extent, Flags, Op, SECTOR_BYTES};

use self::unreadable::{is_unreadable, settle_unsure, unreadable_after_crash};

/// The token of zeroes: discarded, or written with zeroes.
const ZEROES: u64 = 0;
/// The token of the content before the first write.
pub(crate) const INITIAL: u64 = 1 << 63;

/// A moment: counts the actions of the client and the answers.
type HistoryStep = u64;

/// The content of sector `lba` after the write `token`; no other sector has the same bytes. It ends
/// with its own CRC-32C, as many structures of file systems do: all versions of such a sector have
/// the same CRC of that polynomial.
pub(crate) fn encode(token: u64, lba: u64) -> [u8; SECTOR_BYTES as usize] {
    let mut bytes = [0; SECTOR_BYTES as usize];
    if token == ZEROES {
        return bytes;
    }
    let pattern = pattern(token, lba);
    for (i, word) in bytes.chunks_exact_mut(8).enumerate() {
        let value = match i {
            0 => token,
            1 => lba,
            _ => pattern.rotate_left(i as u32),
        };
        word.copy_from_slice(&value.to_le_bytes());
    }
    let (content, own) = bytes.split_at_mut(SECTOR_BYTES as usize - 4);
    own.copy_from_slice(&crc_fast::crc32_iscsi(content).to_le_bytes());
    bytes
}

/// Its bits, turned by the number of a word, are that word of the sector.
const fn pattern(token: u64, lba: u64) -> u64 {
    (token ^ lba << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The token of a sector's content.
pub(crate) fn decode(bytes: &[u8], lba: u64) -> Result<u64, String> {
    let word = |i: usize| {
        bytes.get(i * 8..i * 8 + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
    };
    let token = word(0);
    if bytes == encode(token, lba) {
        Ok(token)
    } else {
        let (first, second) = (word(0), word(1));
        Err(format!(
            "sector {lba} holds bytes that nobody wrote there (they begin {first:#x} {second:#x})"
        ))
    }
}

/// One write of one sector, or the content at the start of this life.
#[derive(Clone, Debug, Default)]
struct Version {
    token: u64,
    /// No file system used the sector when the area was made: this content may read as zeroes, now
    /// and then.
    unused: bool,
    /// A unique number among all versions of all lives.
    name: u64,
    issued: HistoryStep,
    done: Option<HistoryStep>,
    /// The end of the first read that returned it.
    seen: Option<HistoryStep>,
    /// A discard, which may be ignored as a hint, or a failed write: it may never take effect.
    weak: bool,
    /// A flush failed that may have lost it: later flushes promise nothing about it.
    doubtful: bool,
    /// A failed write: until a later promise, a crash may bring it back even if nobody has seen it.
    failed: bool,
    /// In flight when the area forgot sectors: it may have no effect, though it ends well.
    unsure: bool,
    /// Promised to be on stable storage, by this moment at the latest; for a flush, when it was
    /// requested.
    durable: Option<HistoryStep>,
    dead: Option<HistoryStep>,
    /// Names of versions that certainly came after it.
    later: Vec<u64>,
}

/// All sectors of the client's device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    sectors: Vec<Vec<Version>>,
    /// Sectors that may hold any of their former versions.
    lax: Vec<bool>,
    /// For each sector: when a failed flush of the area may have made its page unreadable; 0 for
    /// never. See [`Model::area_forgot`].
    unreadable: Vec<HistoryStep>,
    /// Until a crash, reads of such sectors may return one version, then an older one.
    wavers: bool,
    /// Reads in flight: they may return versions lost since.
    reads: u32,
    step: HistoryStep,
    /// When the host last forgot sectors.
    forgot: HistoryStep,
    names: u64,
}

/// The model's account of a request, from [`Model::issue`] until it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Issued {
    op: Op,
    extent: Extent,
    flags: Flags,
    step: HistoryStep,
}

impl Model {
    /// A device of `sectors` whose content is [`INITIAL`].
    pub(crate) fn new(sectors: u64) -> Self {
        let mut model = Self::default();
        model.resize(sectors);
        model
    }

    /// The device has another size; new sectors are [`INITIAL`].
    pub(crate) fn resize(&mut self, sectors: u64) {
        self.sectors.truncate(sectors as usize);
        while self.len() < sectors {
            let first = self.first(INITIAL);
            self.sectors.push(vec![first]);
        }
        self.lax.resize(sectors as usize, false);
        self.unreadable.resize(sectors as usize, 0);
    }

    /// The newest bytes of these sectors were reported as lost: any older ones may stand there.
    pub(crate) fn relax(&mut self, extent: Extent) {
        self.lax[Self::range(extent)].fill(true);
    }

    /// No file system uses these sectors, which nobody has written yet.
    pub(crate) fn unused(&mut self, extent: Extent) {
        let sectors = &mut self.sectors[Self::range(extent)];
        sectors.iter_mut().flatten().for_each(|first| first.unused = true);
    }

    /// Content on stable storage at the start of a life.
    fn first(&mut self, token: u64) -> Version {
        self.names += 1;
        Version {
            token,
            name: self.names,
            issued: self.step,
            done: Some(self.step),
            durable: Some(self.step),
            ..Version::default()
        }
    }

    fn range(extent: Extent) -> std::ops::Range<usize> {
        extent.start.0 as usize..extent.end().0 as usize
    }

    /// A client's request. `token` names the content of a write.
    pub(crate) fn issue(&mut self, op: Op, extent: Extent, flags: Flags, token: u64) -> Issued {
        self.step += 1;
        let token = if op == Op::Write { token } else { ZEROES };
        self.reads += u32::from(op == Op::Read);
        if op.is_write_like() {
            self.names += 1;
            let version = Version {
                token,
                name: self.names,
                issued: self.step,
                weak: op == Op::Discard,
                ..Version::default()
            };
            for versions in &mut self.sectors[Self::range(extent)] {
                versions.push(version.clone());
            }
        }
        Issued { op, extent, flags, step: self.step }
    }

    /// The request ended well; `data` is the result of a read.
    pub(crate) fn end(&mut self, issued: Issued, data: &[u8]) -> Result<(), String> {
        self.step += 1;
        match issued.op {
            Op::Read => {
                self.reads -= 1;
                self.read(issued, data)
            }
            Op::Flush => {
                self.promise(issued.step);
                Ok(())
            }
            _ => {
                self.written(issued);
                Ok(())
            }
        }
    }

    /// The request failed: a write took effect or did not, and will not later.
    pub(crate) fn fail(&mut self, issued: Issued) {
        self.step += 1;
        let now = self.step;
        match issued.op {
            Op::Read => self.reads -= 1,
            Op::Flush => {}
            _ => {
                for versions in &mut self.sectors[Self::range(issued.extent)] {
                    let this = |v: &&mut Version| v.issued == issued.step && v.done.is_none();
                    if let Some(v) = versions.iter_mut().find(this) {
                        (v.done, v.weak, v.failed) = (Some(now), true, true);
                    }
                }
            }
        }
    }

    /// A flush of home failed, and the host forgot sectors that it could not write. A version that no
    /// flush has covered may be lost, so reads may return a version before it.
    pub(crate) fn forgot(&mut self) {
        self.step += 1;
        self.forgot = self.step;
        for versions in &mut self.sectors {
            let durable: Vec<u64> =
                versions.iter().filter(|v| v.durable.is_some()).map(|v| v.name).collect();
            let stands = |v: &&mut Version| !v.later.iter().any(|name| durable.contains(name));
            for v in versions.iter_mut().filter(stands) {
                (v.dead, v.later) = (None, Vec::new());
            }
        }
    }

    /// A flush failed, and no later one may cover the writes that have ended.
    pub(crate) fn doubt(&mut self) {
        let all = self.sectors.iter_mut().flatten();
        for v in all.filter(|v| v.done.is_some() && v.durable.is_none()) {
            v.doubtful = true;
        }
    }

    fn read(&mut self, issued: Issued, data: &[u8]) -> Result<(), String> {
        for (i, bytes) in data.chunks(SECTOR_BYTES as usize).enumerate() {
            let lba = issued.extent.start.0 + i as u64;
            let token = decode(bytes, lba)?;
            if self.lax[lba as usize] {
                continue;
            }
            let now = self.step;
            let versions = &mut self.sectors[lba as usize];
            let may = |v: &Version| v.holds(token) && v.dead.is_none_or(|dead| dead >= issued.step);
            let Some(at) = versions.iter().position(may) else {
                return Err(format!(
                    "a read of sector {lba} returned {token:#x}; {}",
                    tell(versions)
                ));
            };
            let wavers =
                self.wavers && is_unreadable(versions, self.unreadable[lba as usize], issued.step);
            let twice = versions.iter().filter(|v| may(v)).count() > 1;
            if twice || wavers || issued.step < self.forgot {
                continue; // zeroes twice, or bytes that were forgotten: nothing is learned
            }
            let (name, since) = (versions[at].name, versions[at].issued);
            for v in versions.iter_mut().filter(|v| v.name != name) {
                // It took effect before the read began, was seen before, or ended before this one
                // was requested.
                if v.done.is_some_and(|done| done < issued.step || done < since)
                    || v.seen.is_some_and(|seen| seen < issued.step)
                {
                    v.follow(name, now);
                }
            }
            versions[at].seen.get_or_insert(now);
        }
        Ok(())
    }

    fn written(&mut self, issued: Issued) {
        let now = self.step;
        for versions in &mut self.sectors[Self::range(issued.extent)] {
            let Some(at) =
                versions.iter().position(|v| v.issued == issued.step && v.done.is_none())
            else {
                continue;
            };
            versions[at].done = Some(now);
            versions[at].durable = issued.flags.contains(Flags::FUA).then_some(now);
            let this = &versions[at];
            let (name, weak) = (this.name, this.weak || this.unsure && this.durable.is_none());
            for v in versions.iter_mut().filter(|v| v.name != name && !weak) {
                if v.done.is_some_and(|done| done < issued.step) {
                    v.follow(name, now);
                }
            }
            if self.reads == 0 {
                forget_lost(versions);
            }
        }
    }

    /// Everything that had ended before `at` is on stable storage.
    fn promise(&mut self, at: HistoryStep) {
        for versions in &mut self.sectors {
            if versions.len() > 1 || versions.iter().any(|v| v.durable.is_none()) {
                let ended = |v: &&mut Version| v.done.is_some_and(|done| done < at);
                for v in versions.iter_mut().filter(|v| ended(v) && !v.doubtful) {
                    v.durable.get_or_insert(at);
                }
                settle_unsure(versions, self.step);
                if self.reads == 0 {
                    forget_lost(versions);
                }
            }
        }
    }

    /// Everything that ended is on stable storage: the system was stopped in order.
    pub(crate) fn stopped(&mut self) {
        self.step += 1;
        self.promise(self.step);
    }

    /// The engine died, and the devices live on: a write in flight took effect or did not, and
    /// ended writes are there. No flush has covered them yet.
    pub(crate) fn killed(&mut self) {
        self.step += 1;
        self.reads = 0;
        for v in self.sectors.iter_mut().flatten().filter(|v| v.done.is_none()) {
            (v.done, v.weak, v.failed) = (Some(self.step), true, true);
        }
    }

    /// The same, and ended writes that no flush has covered may be lost.
    pub(crate) fn killed_with_losses(&mut self) {
        self.crash();
        self.sectors.iter_mut().filter(|versions| versions.len() > 1).flatten().for_each(|v| {
            v.durable = None;
        });
    }

    /// The power failed, and a new life begins: each sector now has one of its versions that were
    /// not lost.
    pub(crate) fn crash(&mut self) {
        self.step += 1;
        self.reads = 0;
        self.wavers = false;
        for at in 0..self.sectors.len() {
            forget_lost(&mut self.sectors[at]);
            let since = self.unreadable[at];
            self.unreadable[at] = unreadable_after_crash(&self.sectors[at], since, self.step);
            let mut contents: Vec<(u64, bool)> =
                self.sectors[at].iter().map(|v| (v.token, v.unused)).collect();
            contents.sort_unstable();
            contents.dedup();
            self.sectors[at] = contents
                .into_iter()
                .map(|(token, unused)| Version { unused, ..self.first(token) })
                .collect();
        }
    }

    /// Whether a read that begins now may return this content.
    pub(crate) fn current(&self, lba: u64, bytes: &[u8]) -> Result<(), String> {
        let token = decode(bytes, lba)?;
        let versions = &self.sectors[lba as usize];
        let lax = self.lax[lba as usize];
        if lax || versions.iter().any(|v| v.holds(token) && v.dead.is_none()) {
            Ok(())
        } else {
            Err(format!("sector {lba} holds {token:#x}; {}", tell(versions)))
        }
    }

    /// Whether this content may be there after a crash.
    pub(crate) fn survives(&self, lba: u64, bytes: &[u8]) -> Result<(), String> {
        let token = decode(bytes, lba)?;
        let versions = &self.sectors[lba as usize];
        if self.lax[lba as usize] || versions.iter().any(|v| v.holds(token)) {
            Ok(())
        } else {
            Err(format!("after a crash sector {lba} holds {token:#x}; {}", tell(versions)))
        }
    }

    /// Sectors of the device.
    pub(crate) const fn len(&self) -> u64 {
        self.sectors.len() as u64
    }
}

impl Version {
    const fn holds(&self, token: u64) -> bool {
        self.token == token || self.unused && token == ZEROES
    }

    fn follow(&mut self, by: u64, now: HistoryStep) {
        self.dead.get_or_insert(now);
        if !self.later.contains(&by) {
            self.later.push(by);
        }
    }
}

/// Drops versions that a durable version follows, directly or not. A promise from before a failed
/// write says nothing about that write: it may be on the device or in the log, where recovery finds
/// it after a crash.
fn forget_lost(versions: &mut Vec<Version>) {
    loop {
        let lost = versions.iter().position(|v| {
            let settles = |k: &Version| {
                let after = |at: HistoryStep| v.done.is_some_and(|done| done < at);
                k.durable.is_some_and(|at| !v.failed || v.durable.is_some() || after(at))
            };
            let by = |name: u64| versions.iter().find(|k| k.name == name);
            v.later.iter().any(|&name| by(name).is_none_or(settles))
        });
        match lost {
            Some(at) => drop(versions.remove(at)),
            None => return,
        }
    }
}

/// The possible versions, for a message.
fn tell(versions: &[Version]) -> String {
    let list: Vec<String> = versions
        .iter()
        .map(|v| {
            let state = match (v.dead, v.durable.is_some(), v.done) {
                (Some(_), ..) => " (overwritten, not flushed)",
                (_, true, _) => " (durable)",
                (_, _, Some(_)) => " (ended)",
                _ => " (in flight)",
            };
            format!("{:#x}{state}", v.token)
        })
        .collect();
    format!("there may be {}", list.join(", "))
}
