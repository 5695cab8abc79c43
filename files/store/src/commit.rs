//! How changes reach the store. One job at a time:
//!
//! - a **commit**: groups to free clusters, and the other module's part | one batch of the log |
//! - a **checkpoint**: both tables, in the place that is not in use | its header |
//!
//! A bar is a flush. What was written before stands until a checkpoint does without it (EEFS, "Writes").

use std::collections::VecDeque;

use seekless_block::{Extent, Op, SECTOR_BYTES};

use crate::FileNumber;
use crate::api::{Fault, IoPurpose, Reply, RequestId};
use crate::format::{
    BODY_BYTES, Change, CheckpointHeader, Geometry, GroupRecord, Page, RecordPage, Role,
    SlotRecord, crc32c, file_bytes, group_bytes, pack,
};
use crate::group_store::{Flight, GroupStore, bins};

/// Bytes of groups that one commit takes along, at most, unless a single one has more.
const COMMIT_BYTES: u64 = 16 << 20;
/// Files that are gone that one commit takes along, at most.
const REMOVALS: usize = 256;
/// Bytes of groups that one request writes, at most, unless a single one has more.
const RUN_BYTES: u64 = 1 << 20;
/// Pages of a checkpoint that are written at once.
const CHUNK_PAGES: usize = 64;

/// Where the log goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    /// Page of the next batch, if it fits there.
    pub(crate) head: u32,
    /// Pages that are needed until the next checkpoint.
    pub(crate) used: u32,
    /// Of the next batch.
    pub(crate) sequence: u64,
}

impl Log {
    /// Where a batch of so many pages goes, and what is used then.
    pub(crate) const fn place(&self, geometry: &Geometry, pages: u32) -> Option<(u32, u32)> {
        let (all, rest) = (geometry.log_pages, geometry.log_pages - self.head);
        if pages <= rest && self.used + pages <= all {
            Some((self.head, self.used + pages))
        } else if pages > rest && self.used + rest + pages <= all {
            Some((0, self.used + rest + pages))
        } else {
            None
        }
    }
}

/// What somebody waits for.
#[derive(Clone, Debug)]
pub(crate) enum WaitScope {
    All,
    Groups(Vec<u32>),
}

impl WaitScope {
    fn has(&self, group: u32) -> bool {
        match self {
            Self::All => true,
            Self::Groups(groups) => groups.contains(&group),
        }
    }

    /// A file has gone from one group to another.
    pub(crate) fn follow(&mut self, from: u32, to: u32) {
        if let Self::Groups(groups) = self
            && groups.contains(&from)
        {
            groups.push(to);
        }
    }
}

/// Somebody who waits for what was done up to a moment.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) id: RequestId,
    pub(crate) scope: WaitScope,
    pub(crate) clock: u64,
    pub(crate) reply: Reply,
}

/// What is under way.
#[derive(Debug)]
pub(crate) enum Job {
    Commit(Commit),
    Checkpoint(Checkpoint),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobStep {
    /// Groups, or a checkpoint's pages.
    Data,
    DataFlush,
    /// The batch, or the checkpoint's header.
    Record,
    RecordFlush,
}

#[derive(Debug)]
pub(crate) struct Commit {
    step: JobStep,
    /// I/Os that have not ended, the other module's sync among them.
    open: u32,
    other: bool,
    failed: bool,
    wrote: bool,
    groups: Vec<u32>,
    /// Their bytes, and where they go.
    images: Vec<(Extent, Vec<u8>)>,
    changes: Vec<Change>,
    /// The entries as they are in it.
    versions: Vec<(FileNumber, u64)>,
    waiters: Vec<Waiter>,
}

#[derive(Debug)]
pub(crate) struct Checkpoint {
    step: JobStep,
    groups: Vec<u32>,
    next_group: usize,
    next_place: usize,
    pages: u32,
    body: Vec<u8>,
}

impl Job {
    /// Whether a group is on its way to the store.
    pub(crate) fn carries(&self, group: u32) -> bool {
        matches!(self, Self::Commit(c) if c.groups.contains(&group))
    }
}

impl GroupStore {
    /// Begins what there is to do.
    pub(crate) fn advance(&mut self) {
        while self.job.is_none() {
            self.answer_waiters();
            if self.broken {
                for id in std::mem::take(&mut self.checkpoints) {
                    self.complete(id, Err(Fault::Broken));
                }
                return;
            }
            let due = self.oldest().is_some_and(|t| t + self.commit_after() <= self.now);
            let full = self.dirty_bytes() > self.config.cache.0 / 2;
            let starved = !self.starved.is_empty();
            if !self.checkpoints.is_empty() || self.log.used > self.geometry.log_pages / 2 {
                self.start_checkpoint();
            } else if !self.waiters.is_empty() || due || full || self.kick || starved {
                if self.dirty.is_empty() {
                    self.kick = false;
                    self.retry();
                    if self.job.is_none() && self.starved.is_empty() && self.waiters.is_empty() {
                        return;
                    }
                    if self.dirty.is_empty() && !self.starved.is_empty() {
                        // Nothing is left that could free clusters for them.
                        return;
                    }
                    continue;
                }
                let all = due || full || self.kick || starved;
                if !self.start_commit(all) {
                    return;
                }
            } else {
                return;
            }
        }
    }

    fn dirty_bytes(&self) -> u64 {
        if self.dirty.len() as u64 * u64::from(self.geometry.cluster_bytes()) * 8
            < self.config.cache.0 / 2
        {
            return 0;
        }
        let cluster = u64::from(self.geometry.cluster_bytes());
        self.dirty.values().filter(|d| d.data).map(|d| u64::from(d.bins) * cluster).sum()
    }

    /// Asks that waited for clusters get another chance; those for which there are none still are told.
    fn retry(&mut self) {
        for (id, ask) in std::mem::take(&mut self.starved) {
            self.ask(id, ask, false);
        }
    }

    /// Those whose changes have all arrived.
    fn answer_waiters(&mut self) {
        let mut i = 0;
        while i < self.waiters.len() {
            let waits =
                |w: &Waiter| self.dirty.iter().any(|(g, d)| d.since <= w.clock && w.scope.has(*g));
            if !self.broken && waits(&self.waiters[i]) {
                i += 1;
            } else if let Some(waiter) = self.waiters.remove(i) {
                let result = if self.broken { Err(Fault::Broken) } else { Ok(waiter.reply) };
                self.complete(waiter.id, result);
            }
        }
    }

    /// The groups that go next, oldest first, as far as one batch has room for them.
    fn choose(&self, all: bool) -> (Vec<u32>, u32, u64) {
        let wanted = |g: u32| all || self.waiters.iter().any(|w| w.scope.has(g));
        let mut order: Vec<(u64, u32)> =
            self.dirty.iter().filter(|(g, _)| wanted(**g)).map(|(g, d)| (d.since, *g)).collect();
        order.sort_unstable();
        let room = (self.geometry.log_pages / 4) as usize * Geometry::page_holds();
        let (mut records, mut bytes, mut clusters) = (0, 0, 0);
        let mut chosen = Vec::new();
        for (_, group) in order {
            let needs = self.needs(group);
            let many = self.dirty.get(&0).is_some_and(|d| d.files.len() > REMOVALS);
            // It goes behind what it needs, in the same batch or a later one.
            let itself = Some(group).filter(|_| !(many && needs.contains(&0)));
            for group in needs.into_iter().chain(itself) {
                if chosen.contains(&group) {
                    continue;
                }
                let (more, data, bins) = self.weight(group);
                if !chosen.is_empty() && (records + more > room || bytes + data > COMMIT_BYTES) {
                    return (chosen, clusters, records as u64);
                }
                records += more;
                bytes += data;
                clusters += bins;
                chosen.push(group);
            }
        }
        (chosen, clusters, records as u64)
    }

    /// Groups that must be on the store before this one is written anew. Files have gone from it to them, or for good
    /// (0), and the tables do not know yet: were it written without them, a crash would find them nowhere. Files go to
    /// new groups alone, so that these need none.
    fn needs(&self, group: u32) -> Vec<u32> {
        let Some(at) = self.table.group(group) else { return Vec::new() };
        if !self.dirty.get(&group).is_some_and(|d| d.data) {
            return Vec::new();
        }
        let mut needs = Vec::new();
        for slot in &at.slots {
            if self.table.file(slot.number).is_some_and(|f| f.group == group) {
                let now = self.file(slot.number).map_or(0, |f| f.group);
                if now != group && !needs.contains(&now) {
                    needs.push(now);
                }
            }
        }
        needs
    }

    /// Bytes of records and of data, and clusters, that a group takes at worst.
    fn weight(&self, group: u32) -> (usize, u64, u32) {
        let Some(dirty) = self.dirty.get(&group) else { return (0, 0, 0) };
        let entry = |n: &FileNumber| file_bytes(self.file(*n).map_or(0, |f| f.name.len()));
        if !dirty.data {
            return (dirty.files.iter().take(REMOVALS).map(entry).sum(), 0, 0);
        }
        // Taken apart, each file has a group, and needs a record to say so.
        let files = self.cache.peek(group).into_iter().flat_map(|c| c.files.iter());
        let (mut records, mut data) = (group_bytes(1), 0);
        for (n, b) in files {
            records += group_bytes(1) + entry(n);
            data += b.len() as u64;
        }
        (records, data, dirty.bins)
    }

    /// Whether a job was begun: a commit, or the checkpoint that it needs first.
    fn start_commit(&mut self, all: bool) -> bool {
        let (mut groups, mut clusters, records) = self.choose(all);
        let pages = (records / Geometry::page_holds() as u64 + 1) as u32;
        let cramped = clusters > self.space.free() && self.space.deleted() > 0;
        if self.log.place(&self.geometry, pages).is_none() || cramped {
            self.start_checkpoint();
            return true;
        }
        while clusters > self.space.free() {
            // They were promised; whoever waits for what cannot be kept is told.
            let Some(last) = groups.pop() else { break };
            clusters -= self.dirty.get(&last).map_or(0, |d| if d.data { d.bins } else { 0 });
        }
        if groups.is_empty() {
            for waiter in std::mem::take(&mut self.waiters) {
                self.complete(waiter.id, Err(Fault::NoSpace));
            }
            self.kick = false;
            return false;
        }
        let mut job = Commit {
            step: JobStep::Data,
            open: 0,
            other: false,
            failed: false,
            wrote: false,
            groups: Vec::new(),
            images: Vec::new(),
            changes: Vec::new(),
            versions: Vec::new(),
            waiters: Vec::new(),
        };
        for group in groups {
            self.take_along(group, &mut job);
        }
        self.write_images(&mut job);
        let left =
            |w: &Waiter| self.dirty.iter().any(|(g, d)| d.since <= w.clock && w.scope.has(*g));
        let (stay, go): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiters).into_iter().partition(left);
        self.waiters = VecDeque::from(stay);
        job.waiters = go;
        self.kick &= !self.dirty.is_empty();
        self.job = Some(Job::Commit(job));
        self.step();
        true
    }

    /// Puts a group and its files' entries into a commit.
    fn take_along(&mut self, group: u32, job: &mut Commit) {
        let Some(mut dirty) = self.dirty.remove(&group) else { return };
        if group == 0 {
            if let Some(&first) = dirty.files.iter().nth(REMOVALS) {
                let files = dirty.files.split_off(&first);
                self.dirty.insert(0, crate::group_store::Dirty { files, ..dirty.clone() });
            }
            job.changes.extend(dirty.files.iter().map(|n| Change::Gone(n.0)));
            job.open += 1;
            job.other = true;
            self.sync_other();
        } else if dirty.data {
            self.write_group(group, &mut dirty.files, job);
        }
        for number in dirty.files {
            let Some(changed) = self.changed.get(&number) else { continue };
            job.versions.push((number, changed.version));
            job.changes.extend(changed.file.as_ref().map(|f| f.record(number)));
        }
        if group != 0 {
            job.groups.push(group);
        }
    }

    /// Writes a group behind the cluster pointer; where no run of clusters is long enough, in parts.
    fn write_group(
        &mut self,
        group: u32,
        entries: &mut std::collections::BTreeSet<FileNumber>,
        job: &mut Commit,
    ) {
        let cluster = self.geometry.cluster_bytes();
        let sizes: Vec<(FileNumber, u32)> = self
            .cache
            .peek(group)
            .into_iter()
            .flat_map(|c| c.files.iter().map(|(n, b)| (*n, b.len() as u32)))
            .collect();
        let bytes: u32 = sizes.iter().map(|(_, b)| b).sum();
        let whole = self.geometry.clusters_for(bytes);
        if let Some(at) = self.space.allocate(whole) {
            return self.write_part(group, at, whole, job);
        }
        debug_assert!(bins(sizes.iter().map(|s| s.1), cluster) > 1);
        self.stats.split += 1;
        let (mut part, mut room) = (group, cluster);
        let mut parts = vec![group];
        for (number, size) in sizes {
            if size > room {
                part = self.table.next_group;
                self.table.next_group += 1;
                parts.push(part);
                room = cluster;
            }
            room -= size;
            if part == group {
                continue;
            }
            let data = self.cache.edit(group, |files| files.remove(&number).unwrap_or_default());
            self.cache.edit(part, |files| files.insert(number, data));
            self.cache.hold(part, true);
            if let Some(mut file) = self.file(number).cloned() {
                file.group = part;
                self.clock += 1;
                let version = self.clock;
                self.changed
                    .insert(number, crate::group_store::Changed { file: Some(file), version });
                entries.insert(number);
            }
        }
        for part in parts {
            // As many as were counted before it began.
            let Some(at) = self.space.allocate(1) else {
                unreachable!("no cluster for a part of group {group}")
            };
            self.write_part(part, at, 1, job);
            if part != group {
                job.groups.push(part);
            }
        }
    }

    fn write_part(&mut self, group: u32, cluster: u32, clusters: u32, job: &mut Commit) {
        let (mut image, mut slots) = (Vec::new(), Vec::new());
        for (number, data) in self.cache.peek(group).into_iter().flat_map(|c| c.files.iter()) {
            let (offset, bytes) = (image.len() as u32, data.len() as u32);
            slots.push(SlotRecord { number: number.0, offset, bytes });
            image.extend_from_slice(data);
        }
        let bytes = image.len() as u32;
        let record = GroupRecord {
            group,
            cluster,
            clusters: clusters as u16,
            bytes,
            sum: crc_fast::crc32_iscsi(&image),
            files: slots.len() as u16,
        };
        job.changes.push(Change::Group(record, slots.into()));
        let extent = self.geometry.group_extent(cluster, bytes);
        image.resize(extent.bytes().0 as usize, 0);
        self.stats.groups_written += 1;
        self.stats.bytes_written += extent.bytes().0;
        job.images.push((extent, image));
    }

    /// Groups that stand together go in one request; what lies between is the rest of the former's last cluster.
    fn write_images(&mut self, job: &mut Commit) {
        let cluster = u64::from(self.geometry.cluster_bytes()) / SECTOR_BYTES;
        let mut runs: Vec<(Extent, Vec<u8>)> = Vec::new();
        for (extent, image) in std::mem::take(&mut job.images) {
            if let Some((run, bytes)) = runs.last_mut()
                && extent.start >= run.end()
                && (extent.start - run.end()).0 < cluster
                && (extent.end() - run.start).bytes().0 <= RUN_BYTES
            {
                run.len = extent.end() - run.start;
                let padded = run.len.bytes().0 as usize - image.len();
                bytes.resize(padded, 0);
                bytes.extend_from_slice(&image);
            } else {
                runs.push((extent, image));
            }
        }
        for (extent, bytes) in runs {
            (job.open, job.wrote) = (job.open + 1, true);
            self.submit(Flight::Job, Op::Write, extent, bytes, IoPurpose::Group);
        }
    }

    /// An I/O of the job at hand has ended.
    pub(crate) fn job_done(&mut self, done: bool) {
        if let Some(Job::Commit(job)) = &mut self.job
            && job.step == JobStep::Data
        {
            job.open -= 1;
            job.failed |= !done;
        } else if !done {
            self.fail();
            return;
        }
        self.step();
    }

    /// The other module has everything on stable storage.
    pub(crate) fn other_synced(&mut self, done: bool) {
        if let Some(Job::Commit(job)) = &mut self.job
            && job.other
        {
            job.other = false;
            job.open -= 1;
            job.failed |= !done;
            self.step();
        }
    }

    /// Nobody knows what a device that failed to write has kept: nothing more is written.
    fn fail(&mut self) {
        self.broken = true;
        if let Some(Job::Commit(job)) = self.job.take() {
            for waiter in job.waiters {
                self.complete(waiter.id, Err(Fault::Broken));
            }
        }
        for (id, _) in std::mem::take(&mut self.starved) {
            self.complete(id, Err(Fault::Broken));
        }
    }

    fn flush(&mut self) {
        self.submit(Flight::Job, Op::Flush, Extent::default(), Vec::new(), IoPurpose::Flush);
    }

    /// The next step of the job at hand, where the one before it is over.
    fn step(&mut self) {
        match self.job.take() {
            Some(Job::Commit(mut job)) => {
                if job.step == JobStep::Data && job.open > 0 {
                    self.job = Some(Job::Commit(job));
                    return;
                }
                if job.failed {
                    self.job = Some(Job::Commit(job));
                    return self.fail();
                }
                job.step = match job.step {
                    JobStep::Data if job.wrote => {
                        self.flush();
                        JobStep::DataFlush
                    }
                    JobStep::Data | JobStep::DataFlush => {
                        self.write_batch(&job);
                        JobStep::Record
                    }
                    JobStep::Record => {
                        self.flush();
                        JobStep::RecordFlush
                    }
                    JobStep::RecordFlush => return self.committed(job),
                };
                self.job = Some(Job::Commit(job));
            }
            Some(Job::Checkpoint(mut job)) => {
                job.step = match job.step {
                    JobStep::Data => {
                        if self.write_tables(&mut job) {
                            JobStep::Data
                        } else {
                            self.flush();
                            JobStep::DataFlush
                        }
                    }
                    JobStep::DataFlush => {
                        self.write_header(&job);
                        JobStep::Record
                    }
                    JobStep::Record => {
                        self.flush();
                        JobStep::RecordFlush
                    }
                    JobStep::RecordFlush => return self.checkpointed(),
                };
                self.job = Some(Job::Checkpoint(job));
            }
            None => {}
        }
    }

    fn write_batch(&mut self, job: &Commit) {
        let bodies = pack(&job.changes);
        let pages = bodies.len() as u32;
        let Some((at, used)) = self.log.place(&self.geometry, pages) else {
            unreachable!("room for a batch was made before it was begun");
        };
        let batch_sum = crc32c(bodies.iter().map(|body| &body[..]));
        let data: Vec<u8> = (0..)
            .zip(bodies)
            .flat_map(|(index, body)| {
                let page = RecordPage {
                    uuid: self.uuid,
                    role: Role::Log,
                    number: self.log.sequence,
                    index,
                    pages,
                    batch_sum,
                    checkpoint: self.generation,
                    body,
                };
                page.encode()
            })
            .collect();
        let extent = Geometry::pages(self.geometry.log_at() + u64::from(at), pages.into());
        self.stats.batches += 1;
        self.stats.log_bytes += data.len() as u64;
        (self.log.head, self.log.used) = (at + pages, used);
        self.submit(Flight::Job, Op::Write, extent, data, IoPurpose::Log);
    }

    fn committed(&mut self, job: Commit) {
        self.log.sequence += 1;
        if let Err(error) = self.table.apply(&job.changes, &self.geometry, &mut self.space) {
            unreachable!("our own records do not fit our tables: {error}");
        }
        debug_assert_eq!(self.table.verify(&self.geometry).err(), None, "{:#?}", job.changes);
        for (number, version) in job.versions {
            if self.changed.get(&number).is_some_and(|c| c.version == version) {
                self.changed.remove(&number);
            }
        }
        for group in job.groups {
            self.settle_hold(group);
        }
        if self.dirty.is_empty() {
            self.coming = 0;
        }
        self.cache.shrink(self.config.cache.0);
        for waiter in job.waiters {
            self.complete(waiter.id, Ok(waiter.reply));
        }
        self.retry();
    }

    fn start_checkpoint(&mut self) {
        if self.table.bytes() > self.geometry.table_bytes_max() {
            // Groups that were taken apart have filled it: what stands is whole, and no more is taken.
            return self.fail();
        }
        let job = Checkpoint {
            step: JobStep::Data,
            groups: self.table.group_numbers(),
            next_group: 0,
            next_place: 0,
            pages: 0,
            body: Vec::new(),
        };
        self.stats.checkpoints += 1;
        self.job = Some(Job::Checkpoint(job));
        self.step();
    }

    /// The next pages of a checkpoint; false where there are no more. The tables do not change meanwhile: they do so
    /// at the end of a commit alone.
    fn write_tables(&mut self, job: &mut Checkpoint) -> bool {
        let (first, mut data) = (job.pages, Vec::new());
        let generation = self.generation + 1;
        let uuid = self.uuid;
        let mut record = Vec::new();
        let mut put = |job: &mut Checkpoint, body: Vec<u8>| {
            let (role, number, index) = (Role::Checkpoint, generation, job.pages);
            let page = RecordPage {
                uuid,
                role,
                number,
                index,
                pages: 0,
                batch_sum: 0,
                checkpoint: 0,
                body,
            };
            let page: Page = page.encode();
            data.extend_from_slice(&page);
            job.pages += 1;
        };
        let mut add = |job: &mut Checkpoint, change: &Change| {
            record.clear();
            change.put(&mut record);
            if job.body.len() + record.len() > BODY_BYTES {
                let body = std::mem::take(&mut job.body);
                put(job, body);
            }
            job.body.extend_from_slice(&record);
            job.pages as usize >= first as usize + CHUNK_PAGES
        };
        let mut full = false;
        while !full && job.next_group < job.groups.len() {
            let number = job.groups[job.next_group];
            job.next_group += 1;
            let Some(g) = self.table.group(number) else { continue };
            let slots: Box<[SlotRecord]> = g
                .slots
                .iter()
                .map(|s| SlotRecord { number: s.number.0, offset: s.offset, bytes: s.bytes })
                .collect();
            let record = GroupRecord {
                group: number,
                cluster: g.cluster,
                clusters: g.clusters as u16,
                bytes: g.bytes,
                sum: g.sum,
                files: slots.len() as u16,
            };
            full = add(job, &Change::Group(record, slots));
        }
        if !full {
            let mut next = usize::MAX;
            for (number, file) in self.table.files_from(job.next_place) {
                if full {
                    next = number.place();
                    break;
                }
                full = add(job, &file.record(number));
            }
            job.next_place = next;
        }
        if !full && !job.body.is_empty() {
            let body = std::mem::take(&mut job.body);
            put(job, body);
        }
        if data.is_empty() {
            return false;
        }
        let at = self.geometry.checkpoint_at(generation) + 1 + u64::from(first);
        self.stats.checkpoint_bytes += data.len() as u64;
        let extent = Geometry::pages(at, (job.pages - first).into());
        self.submit(Flight::Job, Op::Write, extent, data, IoPurpose::Checkpoint);
        true
    }

    fn write_header(&mut self, job: &Checkpoint) {
        let generation = self.generation + 1;
        let header = CheckpointHeader {
            uuid: self.uuid,
            generation,
            sequence: self.log.sequence,
            log_page: self.log.head,
            pages: job.pages,
            files: self.table.files(),
            groups: self.table.groups(),
            next_count: self.table.next_count,
            next_group: self.table.next_group,
            pointer: self.space.pointer,
        };
        let extent = Geometry::pages(self.geometry.checkpoint_at(generation), 1);
        let page = header.encode().to_vec();
        self.stats.checkpoint_bytes += page.len() as u64;
        self.submit(Flight::Job, Op::Write, extent, page, IoPurpose::Checkpoint);
    }

    fn checkpointed(&mut self) {
        self.generation += 1;
        self.log.used = 0;
        self.space.reclaim();
        for id in std::mem::take(&mut self.checkpoints) {
            self.complete(id, Ok(Reply::Done));
        }
        self.retry();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seekless_block::Sectors;

    use super::*;

    proptest! {
        /// Against a log of which each page says whether a crash would need it.
        #[test]
        fn a_batch_stands_where_no_crash_needs_anything(
            log_pages in 16u32..40, steps in prop::collection::vec((0u32..20, 0u8..12), 1..120),
        ) {
            let geometry =
                Geometry { cluster: Sectors(128), clusters: 8, checkpoint_pages: 2, log_pages };
            let mut log = Log { head: 0, used: 0, sequence: 1 };
            let mut needed = vec![false; log_pages as usize];
            for (pages, checkpoint) in steps {
                // As long as batches are.
                let pages = 1 + pages % (log_pages / 4);
                let free = |needed: &[bool], from: u32| {
                    let run = needed.get(from as usize..(from + pages) as usize);
                    run.is_some_and(|run| run.iter().all(|n| !n))
                };
                let Some((at, used)) = log.place(&geometry, pages) else {
                    let behind = free(&needed, log.head);
                    let around = log.head + pages > log_pages && free(&needed, 0);
                    prop_assert!(!behind && !around, "{log:?}: {pages} pages had a place");
                    (log.used, needed) = (0, vec![false; log_pages as usize]);
                    continue;
                };
                // Recovery looks at these two places, and at the second where the first has no room.
                prop_assert!(at == log.head || (at == 0 && log.head + pages > log_pages));
                prop_assert!(free(&needed, at), "{log:?}: {pages} pages at {at} over {needed:?}");
                needed[at as usize..(at + pages) as usize].fill(true);
                if at != log.head {
                    // What was skipped counts until the next checkpoint.
                    needed[log.head as usize..].fill(true);
                }
                (log.head, log.used) = (at + pages, used);
                if checkpoint == 0 {
                    (log.used, needed) = (0, vec![false; log_pages as usize]);
                }
            }
        }
    }
}
