//! How changes reach the device. One job at a time:
//!
//! - a **commit**: groups to free clusters, and a sync of the other module | one batch of the log |
//! - a **checkpoint**: both tables, in the area that is not in use | its header |
//!
//! A bar is a flush. Committed bytes stay in place until a checkpoint does without them (EEFS,
//! "Writes").

mod checkpoint;
mod choose;
mod log;
mod wait;
mod write_groups;

use seekless_block::{Extent, Op};

use crate::FileNumber;
use crate::api::{Fault, IoPurpose};
use crate::format::{Change, Geometry, RecordPage, Role, crc32c, pack};
use crate::group_store::{Flight, GroupStore};

pub(crate) use checkpoint::Checkpoint;
pub(crate) use log::Log;
pub(crate) use wait::{WaitScope, Waiter};

#[derive(Debug)]
pub(crate) enum Job {
    Commit(Commit),
    Checkpoint(Checkpoint),
}

/// The step of a job whose I/Os are in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum JobStep {
    /// Writes groups, or pages of a checkpoint.
    #[default]
    Data,
    DataFlush,
    /// Writes the batch, or the header of the checkpoint.
    Record,
    RecordFlush,
}

/// A commit on its way to the device.
#[derive(Debug, Default)]
pub(crate) struct Commit {
    step: JobStep,
    /// Number of writes that have not ended; the sync of the other module counts as one.
    open: u32,
    /// The sync of the other module has not ended.
    syncs_other: bool,
    failed: bool,
    /// At least one group is written.
    wrote: bool,
    groups: Vec<u32>,
    /// Bytes of records that were reserved for these groups.
    records: u64,
    /// Contents of the groups, and their extents.
    images: Vec<(Extent, Vec<u8>)>,
    changes: Vec<Change>,
    /// The version of each entry in the batch.
    versions: Vec<(FileNumber, u64)>,
    waiters: std::collections::VecDeque<Waiter>,
}

impl Job {
    /// True if this job writes the group.
    pub(crate) fn carries(&self, group: u32) -> bool {
        matches!(self, Self::Commit(c) if c.groups.contains(&group))
    }

    /// Bytes of records that this job will add to the tables.
    pub(crate) const fn records(&self) -> u64 {
        match self {
            Self::Commit(commit) => commit.records,
            Self::Checkpoint(_) => 0,
        }
    }
}

impl GroupStore {
    /// Starts the next job, if there is one to start.
    pub(crate) fn advance(&mut self) {
        while self.job.is_none() {
            self.answer_waiters();
            if self.broken {
                for id in std::mem::take(&mut self.checkpoints) {
                    self.complete(id, Err(Fault::Broken));
                }
                return;
            }
            if !self.checkpoints.is_empty() || self.log.used > self.geometry.log_pages / 2 {
                self.start_checkpoint();
                continue;
            }
            let due = self.oldest_change().is_some_and(|t| t + self.commit_after() <= self.now);
            let all = due || self.is_crowded() || self.commit_now || !self.starved.is_empty();
            if self.waiters.is_empty() && !all {
                return;
            }
            let goes_on = if self.dirty.is_empty() {
                self.retry_while_clean()
            } else {
                self.start_commit(all)
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Nothing is dirty: asks that wait for clusters try again. True if there may be a job now.
    fn retry_while_clean(&mut self) -> bool {
        self.commit_now = false;
        self.retry_starved();
        if self.job.is_none() && self.starved.is_empty() && self.waiters.is_empty() {
            return false;
        }
        // Without dirty groups no job can free clusters for them.
        !self.dirty.is_empty() || self.starved.is_empty()
    }

    pub(crate) fn dirty_bytes(&self) -> u64 {
        let cluster = u64::from(self.geometry.cluster_bytes());
        if self.dirty.len() as u64 * cluster * 8 < self.config.cache.0 / 2 {
            return 0;
        }
        self.dirty.values().filter(|d| d.data).map(|d| u64::from(d.bins) * cluster).sum()
    }

    /// Carries out again the asks that wait for clusters.
    fn retry_starved(&mut self) {
        for (id, ask) in std::mem::take(&mut self.starved) {
            self.ask(id, ask, false);
        }
    }

    /// Starts a commit, or the checkpoint that the commit needs first. False if neither is
    /// possible.
    fn start_commit(&mut self, all: bool) -> bool {
        let mut chosen = self.choose_groups(all);
        let pages = (chosen.record_bytes as u64 / Geometry::page_holds() as u64 + 1) as u32;
        let cramped = chosen.clusters > self.clusters.free() && self.clusters.deleted() > 0;
        if self.log.place(&self.geometry, pages).is_none() || cramped {
            self.start_checkpoint();
            return true;
        }
        while chosen.clusters > self.clusters.free() {
            // Their clusters were reserved; where that fails, the asks that wait for them fail.
            let Some(last) = chosen.groups.pop() else { break };
            chosen.clusters -= self.dirty.get(&last).map_or(0, |d| if d.data { d.bins } else { 0 });
        }
        if chosen.groups.is_empty() {
            self.refuse_waiters();
            self.commit_now = false;
            return false;
        }
        let mut commit = Commit::default();
        for group in chosen.groups {
            self.add_to_commit(group, &mut commit);
        }
        self.write_images(&mut commit);
        self.attach_waiters(&mut commit);
        self.commit_now &= !self.dirty.is_empty();
        self.job = Some(Job::Commit(commit));
        self.step();
        true
    }

    /// An I/O of the current job has ended.
    pub(crate) fn job_io_ended(&mut self, done: bool) {
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

    /// The sync of the other module has ended.
    pub(crate) fn other_synced(&mut self, done: bool) {
        if let Some(Job::Commit(job)) = &mut self.job
            && job.syncs_other
        {
            job.syncs_other = false;
            job.open -= 1;
            job.failed |= !done;
            self.step();
        }
    }

    /// After a failed write the contents of the device are unknown: no more is written.
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

    /// Starts the next step of the current job, if the step before has ended.
    fn step(&mut self) {
        match self.job.take() {
            Some(Job::Commit(job)) => {
                if job.step == JobStep::Data && job.open > 0 {
                    self.job = Some(Job::Commit(job));
                } else if job.failed {
                    self.job = Some(Job::Commit(job));
                    self.fail();
                } else {
                    self.step_commit(job);
                }
            }
            Some(Job::Checkpoint(job)) => {
                if let Some(job) = self.step_checkpoint(job) {
                    self.job = Some(Job::Checkpoint(job));
                }
            }
            None => {}
        }
    }

    fn step_commit(&mut self, mut job: Commit) {
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
            JobStep::RecordFlush => return self.end_commit(job),
        };
        self.job = Some(Job::Commit(job));
    }

    fn write_batch(&mut self, job: &Commit) {
        let bodies = pack(&job.changes);
        let pages = bodies.len() as u32;
        let Some((at, used)) = self.log.place(&self.geometry, pages) else {
            unreachable!("space for a batch was reserved before the commit began");
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
        (self.log.head, self.log.used) = (at + pages, used);
        self.submit(Flight::Job, Op::Write, extent, data, IoPurpose::Log);
    }

    fn end_commit(&mut self, job: Commit) {
        self.log.sequence += 1;
        if let Err(error) = self.tables.apply(&job.changes, &self.geometry, &mut self.clusters) {
            unreachable!("our own records do not fit our tables: {error}");
        }
        debug_assert_eq!(self.tables.verify(&self.geometry).err(), None, "{:#?}", job.changes);
        for (number, version) in job.versions {
            if self.changed.get(&number).is_some_and(|c| c.version == version) {
                self.changed.remove(&number);
            }
        }
        for group in job.groups {
            self.update_hold(group);
        }
        self.cache.shrink(self.config.cache.0);
        for waiter in job.waiters {
            self.complete(waiter.id, Ok(waiter.reply));
        }
        self.retry_starved();
    }
}
