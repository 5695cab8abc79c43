//! Asks: each is carried out in memory at once, or waits until its group has been read or clusters
//! are free.

use seekless_block::Op;

use super::{Flight, GroupStore};
use crate::api::{Ask, Fault, FileNumber, FileState, IoPurpose, Member, Reply, RequestId};
use crate::commit::{WaitScope, Waiter};
use crate::tables::GroupEntry;

/// How an ask continues.
enum AskOutcome {
    Ended(Result<Reply, Fault>),
    /// The reply is sent when these changes are on stable storage.
    Durable(WaitScope, Reply),
    /// The reply is sent at the end of a checkpoint.
    AtCheckpoint,
    /// The current job may free clusters for this ask.
    Starved,
}

impl AskOutcome {
    /// The result of a change without a reply of its own.
    fn of(result: Result<(), Fault>) -> Self {
        Self::Ended(result.map(|()| Reply::Done))
    }
}

impl GroupStore {
    /// Carries out an ask, or lets the ask wait for its group. `first`: the ask has not waited yet.
    pub(crate) fn ask(&mut self, id: RequestId, ask: Ask, first: bool) {
        if self.broken && !matches!(ask, Ask::Read { .. }) {
            return self.complete(id, Err(Fault::Broken));
        }
        if let Some(group) = self.group_to_load(&ask) {
            self.load(group, id, ask);
            return;
        }
        if first && matches!(ask, Ask::Read { .. } | Ask::Write { .. } | Ask::Resize { .. }) {
            self.stats.hits += 1;
        }
        match self.carry_out(&ask) {
            AskOutcome::Ended(result) => self.complete(id, result),
            AskOutcome::Durable(scope, reply) => {
                self.waiters.push_back(Waiter { id, scope, clock: self.clock, reply });
            }
            AskOutcome::AtCheckpoint => self.checkpoints.push(id),
            AskOutcome::Starved => self.starved.push_back((id, ask)),
        }
    }

    fn carry_out(&mut self, ask: &Ask) -> AskOutcome {
        match ask {
            Ask::Read { file, offset, len } => {
                AskOutcome::Ended(self.read(*file, *offset, *len).map(Reply::Data))
            }
            Ask::Write { file, data, .. } if data.is_empty() => {
                AskOutcome::of(self.file(*file).map(|_| ()).ok_or(Fault::NoFile(*file)))
            }
            Ask::Write { file, offset, data, time } => {
                let result = self.edit(*file, *time, data.len() as u64, *offset, |bytes| {
                    let end = *offset as usize + data.len();
                    if bytes.len() < end {
                        bytes.resize(end, 0);
                    }
                    bytes[*offset as usize..end].copy_from_slice(data);
                });
                self.unless_starved(result)
            }
            Ask::Resize { file, size, time } => {
                let result = self.edit(*file, *time, 0, *size, |b| b.resize(*size as usize, 0));
                self.unless_starved(result)
            }
            Ask::SetAttributes { file, attributes } => {
                AskOutcome::of(self.modify(*file, |f| f.attributes = *attributes))
            }
            Ask::Remove { file } => AskOutcome::of(self.remove(*file)),
            Ask::Settle { files } => AskOutcome::of(self.settle(files)),
            Ask::Leave { files } => self.leave(files),
            Ask::Group { members } => self.group(members),
            Ask::Sync { file } => match file.map(|f| (f, self.file(f))) {
                None => AskOutcome::Durable(WaitScope::All, Reply::Done),
                Some((_, Some(f))) => {
                    AskOutcome::Durable(WaitScope::Groups(vec![f.group]), Reply::Done)
                }
                Some((f, None)) => AskOutcome::Ended(Err(Fault::NoFile(f))),
            },
            Ask::Checkpoint => AskOutcome::AtCheckpoint,
        }
    }

    /// A change of contents: without clusters it waits for the current job.
    fn unless_starved(&self, result: Result<(), Fault>) -> AskOutcome {
        match result {
            Err(Fault::NoSpace) if self.may_wait() => AskOutcome::Starved,
            other => AskOutcome::of(other),
        }
    }

    fn settle(&mut self, files: &[FileNumber]) -> Result<(), Fault> {
        let mut done = Ok(());
        for file in files {
            done = done.and(self.modify(*file, |f| f.state = FileState::Settled));
        }
        done
    }

    fn leave(&mut self, files: &[FileNumber]) -> AskOutcome {
        let mut groups = Vec::new();
        for file in files {
            if let Err(fault) = self.modify(*file, |f| f.state = FileState::Leaving) {
                return AskOutcome::Ended(Err(fault));
            }
            groups.extend(self.file(*file).map(|f| f.group));
        }
        AskOutcome::Durable(WaitScope::Groups(groups), Reply::Done)
    }

    fn group(&mut self, members: &[Member]) -> AskOutcome {
        if self.has_uncommitted_group(members) {
            // A new group may take files only from committed groups: see
            // `GroupStore::needed_first`.
            return AskOutcome::Starved;
        }
        match self.form(members) {
            Ok((group, numbers)) => {
                AskOutcome::Durable(WaitScope::Groups(vec![group]), Reply::Numbers(numbers))
            }
            Err(Fault::NoSpace) if self.may_wait() => AskOutcome::Starved,
            Err(fault) => AskOutcome::Ended(Err(fault)),
        }
    }

    /// True if a member belongs to a group that is not committed yet.
    fn has_uncommitted_group(&self, members: &[Member]) -> bool {
        members.iter().any(|m| match m {
            Member::Here(n) => self.file(*n).is_some_and(|f| self.tables.group(f.group).is_none()),
            Member::New(_) => false,
        })
    }

    /// True if the current job, or the next one, may free clusters.
    fn may_wait(&self) -> bool {
        self.job.is_some() || !self.dirty.is_empty()
    }

    fn read(&mut self, file: FileNumber, offset: u64, len: u32) -> Result<Vec<u8>, Fault> {
        let Some(f) = self.file(file) else { return Err(Fault::NoFile(file)) };
        if offset >= f.size.into() {
            return Ok(Vec::new());
        }
        let group = f.group;
        let bytes = self.cache.get(group).and_then(|c| c.files.get(&file));
        let Some(bytes) = bytes.and_then(|b| b.get(offset as usize..)) else {
            return Ok(Vec::new());
        };
        Ok(bytes[..bytes.len().min(len as usize)].to_vec())
    }

    /// A group that must be in memory before this ask can be carried out.
    fn group_to_load(&mut self, ask: &Ask) -> Option<u32> {
        match ask {
            Ask::Read { file, offset, len } => {
                let inside = self.file(*file).is_some_and(|f| *offset < f.size.into());
                self.absent_group(*file).filter(|_| inside && *len > 0)
            }
            Ask::Write { file, .. } | Ask::Resize { file, .. } => self.absent_group(*file),
            Ask::Group { members } => {
                for member in members {
                    let &Member::Here(file) = member else { continue };
                    if let Some(group) = self.absent_group(file) {
                        return Some(group);
                    }
                    // A group in memory stays until the other groups have been read.
                    if let Some(group) = self.file(file).map(|f| f.group) {
                        self.cache.hold(group, true);
                    }
                }
                None
            }
            _ => None,
        }
    }

    fn load(&mut self, group: u32, id: RequestId, ask: Ask) {
        if let Some(waiting) = self.loading.get_mut(&group) {
            waiting.push((id, ask));
            return;
        }
        self.loading.insert(group, vec![(id, ask)]);
        let Some(entry) = self.tables.group(group) else {
            // Every group that is not on the device is in memory.
            unreachable!("group {group} is neither in memory nor on the store");
        };
        let extent = self.geometry.group_extent(entry.cluster, entry.bytes);
        self.stats.groups_read += 1;
        self.stats.bytes_read += extent.bytes().0;
        self.submit(Flight::Load(group), Op::Read, extent, Vec::new(), IoPurpose::Group);
    }

    /// The read of a group has ended: its asks continue, or fail with it.
    pub(super) fn loaded(&mut self, group: u32, result: Option<Vec<u8>>) {
        let waiting = self.loading.remove(&group).unwrap_or_default();
        let loaded = match self.tables.group(group).cloned() {
            // Its last file was removed during the read: nobody needs the bytes.
            None => Ok(()),
            Some(entry) => self.fill_cache(group, &entry, result),
        };
        if self.oldest_change().is_some_and(|t| t + self.config.commit_along <= self.now) {
            self.commit_now = true;
        }
        for (id, ask) in waiting {
            match loaded {
                Err(fault) => {
                    self.release(&ask);
                    self.complete(id, Err(fault));
                }
                Ok(()) => self.ask(id, ask, false),
            }
        }
    }

    fn fill_cache(
        &mut self,
        group: u32,
        entry: &GroupEntry,
        result: Option<Vec<u8>>,
    ) -> Result<(), Fault> {
        let extent = self.geometry.group_extent(entry.cluster, entry.bytes);
        self.damaged.insert(group);
        let bytes = result.ok_or(Fault::Read(extent))?;
        let whole = bytes.get(..entry.bytes as usize);
        let Some(bytes) = whole.filter(|b| crc_fast::crc32_iscsi(b) == entry.sum) else {
            return Err(Fault::Damaged { group, extent });
        };
        self.damaged.remove(&group);
        let live = entry.slots.iter().filter(|s| self.is_member(s.number, group));
        let files = live
            .map(|s| (s.number, bytes[s.offset as usize..(s.offset + s.bytes) as usize].to_vec()))
            .collect();
        self.cache.put(group, files);
        self.cache.shrink(self.config.cache.0);
        Ok(())
    }

    fn is_member(&self, file: FileNumber, group: u32) -> bool {
        self.file(file).is_some_and(|f| f.group == group)
    }

    /// Groups that were held for a new group may be evicted again.
    pub(super) fn release(&mut self, ask: &Ask) {
        if let Ask::Group { members } = ask {
            self.release_members(members);
        }
    }

    /// The same for the members of a new group.
    pub(super) fn release_members(&mut self, members: &[Member]) {
        for member in members {
            if let &Member::Here(file) = member
                && let Some(group) = self.file(file).map(|f| f.group)
            {
                self.update_hold(group);
            }
        }
    }

    /// Holds a group in memory as long as its contents are newer than on the device, or a commit
    /// carries them. In a broken store, every held group stays: the failed commit carried some.
    pub(crate) fn update_hold(&mut self, group: u32) {
        if self.broken {
            return;
        }
        let newer = self.dirty.get(&group).is_some_and(|d| d.data);
        let in_commit = self.job.as_ref().is_some_and(|j| j.carries(group));
        self.cache.hold(group, newer || in_commit);
    }
}
