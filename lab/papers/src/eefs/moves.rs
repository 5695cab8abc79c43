//! Moves of files between the file system and the group store.

use rustc_hash::FxHashSet;
use seekless_block::{Op, SimTime};
use seekless_store::{Arrival, Ask, Attributes, FILE_BYTES_MAX, FileNumber, Member, Stability};

use super::group_module::StoreRequest;
use super::replay::Simulated;
use super::simulation::{Purpose, World, join};
use crate::ffs::Work;

/// Groups formed, or files moved back, in one batch, as in a mount: the log is not written for each
/// file.
const AT_ONCE: usize = 64;

/// A write that waits for its file to move back: time of arrival, offset and length.
pub(super) type LateWrite = (SimTime, u64, u64);

/// A batch of moves; batches go one after the other, so that a shuffle's work is bounded.
#[derive(Clone, Debug)]
pub(super) enum FileMove {
    /// Form a group of these files: read the new ones.
    Form(Vec<u64>),
    /// The files of several groups have been read.
    Formed(Vec<Vec<u64>>),
    /// The files are in the store: their blocks in the file system are free.
    Left,
    /// Move a file back, with the write that then follows: time of arrival, offset and length.
    Back(u64, Option<LateWrite>),
    /// The files are back in the file system.
    Returned(Vec<FileNumber>),
}

impl World {
    /// A request of the batch has ended. After the last, the file system does its part, and then
    /// `step` follows.
    pub(super) fn one_less(&mut self, step: FileMove) -> Simulated {
        let Some(eefs) = &mut self.eefs else { return Ok(()) };
        eefs.open = eefs.open.saturating_sub(1);
        if eefs.open > 0 {
            return Ok(());
        }
        let (mut work, lot) = (std::mem::take(&mut eefs.work), std::mem::take(&mut eefs.lot));
        // Names of several files in one block are written once.
        work.wait.sort_unstable_by_key(|(op, e, _)| (e.start, e.len, *op == Op::Write));
        work.wait.dedup();
        let step = match step {
            FileMove::Returned(_) => FileMove::Returned(lot),
            step => {
                self.ask(Ask::Settle { files: lot }, StoreRequest::Nothing)?;
                step
            }
        };
        self.begin(work, Purpose::Move(step), true)
    }

    /// EEFS's group shuffle: files that belong to no group move back, new members of groups move to
    /// the store.
    pub(super) fn shuffle(&mut self) -> Simulated {
        let Some(eefs) = &mut self.eefs else { return Ok(()) };
        let facts = &self.facts;
        let ffs = &self.ffs;
        let small = |f: u64| {
            facts.get(f as usize).is_some_and(|f| f.size <= u64::from(FILE_BYTES_MAX))
                && ffs.knows(f)
        };
        let groups = eefs.graph.groups(small);
        if !eefs.groups.is_empty() {
            let s = Stability::between(&eefs.groups, &groups);
            let [before, after, stable] = [s.before, s.after, s.stable].map(|n| n as f64);
            let seen = [before, after, stable, s.mean_size, s.left, s.joined];
            eefs.compared += 1.0;
            for (mean, seen) in eefs.result.changes.iter_mut().zip(seen) {
                *mean += (seen - *mean) / eefs.compared;
            }
        }
        eefs.result.shuffles += 1;
        let wanted: FxHashSet<u64> = groups.iter().flatten().copied().collect();
        let mut back: Vec<u64> =
            eefs.here.keys().copied().filter(|f| !wanted.contains(f)).collect();
        back.sort_unstable();
        // Unfinished moves of an earlier shuffle are obsolete, except those with a waiting client.
        eefs.moves.retain(|m| matches!(m, FileMove::Back(_, Some(_))));
        eefs.moves.extend(back.into_iter().map(|f| FileMove::Back(f, None)));
        eefs.moves.extend(groups.iter().cloned().map(FileMove::Form));
        eefs.uses.shuffled(&groups);
        eefs.groups = groups;
        self.next_move()
    }

    pub(super) fn next_move(&mut self) -> Simulated {
        let Some(eefs) = &mut self.eefs else { return Ok(()) };
        if eefs.moving {
            return Ok(());
        }
        let Some(step) = eefs.moves.pop_front() else { return Ok(()) };
        eefs.moving = true;
        match step {
            FileMove::Form(first) => {
                let mut lot = vec![first];
                while lot.len() < AT_ONCE
                    && let Some(FileMove::Form(next)) = eefs.moves.front_mut()
                {
                    lot.push(std::mem::take(next));
                    eefs.moves.pop_front();
                }
                lot.retain(|files| !eefs.stands(files));
                let now = self.now;
                let mut work = Work::default();
                for &file in lot.iter().flatten().filter(|f| !eefs.here.contains_key(f)) {
                    let size = self.ffs.size(file).unwrap_or(0);
                    join(&mut work, self.ffs.read(now, file, 0, size));
                }
                self.begin(work, Purpose::Move(FileMove::Formed(lot)), true)
            }
            FileMove::Back(file, then) => {
                let mut lot = vec![file];
                while then.is_none()
                    && lot.len() < AT_ONCE
                    && let Some(&FileMove::Back(next, None)) = eefs.moves.front()
                {
                    lot.push(next);
                    eefs.moves.pop_front();
                }
                lot.retain(|f| eefs.here.contains_key(f));
                let files: Vec<FileNumber> =
                    lot.iter().filter_map(|f| eefs.here.get(f).copied()).collect();
                if files.is_empty() {
                    return self.moved();
                }
                self.ask(Ask::Leave { files }, StoreRequest::Leave(lot, then))
            }
            _ => self.moved(),
        }
    }

    pub(super) fn go_on_moving(&mut self, step: FileMove) -> Simulated {
        match step {
            FileMove::Formed(lot) => {
                let Some(eefs) = &mut self.eefs else { return Ok(()) };
                let mut asks = Vec::new();
                for mut files in lot {
                    files.retain(|f| eefs.here.contains_key(f) || self.ffs.size(*f).is_some());
                    if files.is_empty() {
                        continue;
                    }
                    let member = |f: &u64| match eefs.here.get(f) {
                        Some(number) => Member::Here(*number),
                        None => {
                            let size = self.ffs.size(*f).unwrap_or(0).min(FILE_BYTES_MAX.into());
                            Member::New(Arrival {
                                attributes: Attributes::default(),
                                name: format!("f{f}").into_bytes(),
                                data: vec![0; size as usize],
                            })
                        }
                    };
                    let members = files.iter().map(member).collect();
                    asks.push((Ask::Group { members }, StoreRequest::Form(files)));
                }
                if asks.is_empty() {
                    return self.moved();
                }
                eefs.open = asks.len();
                asks.into_iter().try_for_each(|(ask, asked)| self.ask(ask, asked))
            }
            FileMove::Returned(numbers) => {
                for file in numbers {
                    self.ask(Ask::Remove { file }, StoreRequest::Nothing)?;
                }
                self.moved()
            }
            _ => self.moved(),
        }
    }

    pub(super) fn moved(&mut self) -> Simulated {
        if let Some(eefs) = &mut self.eefs {
            eefs.moving = false;
        }
        self.next_move()
    }
}
