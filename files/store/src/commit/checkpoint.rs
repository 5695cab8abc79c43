//! A checkpoint: both tables, written to the area that holds the older of the two checkpoints.

use seekless_block::Op;

use super::{Job, JobStep};
use crate::api::{IoPurpose, Reply};
use crate::format::{
    BODY_BYTES, Change, CheckpointHeader, Geometry, GroupRecord, RecordPage, Role,
};
use crate::group_store::{Flight, GroupStore};
use crate::tables::GroupEntry;

const CHUNK_PAGES: usize = 64;

/// A checkpoint that is being written. The tables do not change meanwhile: only the end of a commit
/// changes them.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub(super) step: JobStep,
    groups: Vec<u32>,
    next_group: usize,
    /// Index in the file table of the next file.
    next_file: usize,
    /// Pages written so far.
    pages: u32,
    /// Records of the page that is not full yet.
    body: Vec<u8>,
}

/// The pages of one write.
struct Chunk {
    uuid: [u8; 16],
    generation: u64,
    first: u32,
    bytes: Vec<u8>,
    /// The latest record, here so that its memory is used again.
    record: Vec<u8>,
}

impl Chunk {
    /// Adds a page with the records collected so far.
    fn put_page(&mut self, job: &mut Checkpoint) {
        let page = RecordPage {
            uuid: self.uuid,
            role: Role::Checkpoint,
            number: self.generation,
            index: job.pages,
            pages: 0,
            batch_sum: 0,
            checkpoint: 0,
            body: std::mem::take(&mut job.body),
        };
        self.bytes.extend_from_slice(&page.encode());
        job.pages += 1;
    }

    /// Adds a record. True if the chunk is full.
    fn add(&mut self, job: &mut Checkpoint, change: &Change) -> bool {
        self.record.clear();
        change.put(&mut self.record);
        if job.body.len() + self.record.len() > BODY_BYTES {
            self.put_page(job);
        }
        job.body.extend_from_slice(&self.record);
        job.pages as usize >= self.first as usize + CHUNK_PAGES
    }
}

fn group_record(number: u32, group: &GroupEntry) -> Change {
    let record = GroupRecord {
        group: number,
        cluster: group.cluster,
        clusters: group.clusters as u16,
        bytes: group.bytes,
        sum: group.sum,
        files: group.slots.len() as u16,
    };
    Change::Group(record, group.slots.clone())
}

impl GroupStore {
    pub(super) fn start_checkpoint(&mut self) {
        if self.tables.bytes() > self.geometry.table_bytes_max() {
            // Split groups have filled the area. The committed state is whole, and no more changes
            // are accepted.
            return self.fail();
        }
        let job = Checkpoint {
            step: JobStep::Data,
            groups: self.tables.group_numbers(),
            next_group: 0,
            next_file: 0,
            pages: 0,
            body: Vec::new(),
        };
        self.stats.checkpoints += 1;
        self.job = Some(Job::Checkpoint(job));
        self.step();
    }

    /// The job after its current step; `None` at the end of the checkpoint.
    pub(super) fn step_checkpoint(&mut self, mut job: Checkpoint) -> Option<Checkpoint> {
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
            JobStep::RecordFlush => {
                self.end_checkpoint();
                return None;
            }
        };
        Some(job)
    }

    /// Writes the next pages. False if all pages are written.
    fn write_tables(&mut self, job: &mut Checkpoint) -> bool {
        let generation = self.generation + 1;
        let first = job.pages;
        let mut chunk =
            Chunk { uuid: self.uuid, generation, first, bytes: Vec::new(), record: Vec::new() };
        let mut full = false;
        while !full && job.next_group < job.groups.len() {
            let number = job.groups[job.next_group];
            job.next_group += 1;
            let Some(group) = self.tables.group(number) else { continue };
            full = chunk.add(job, &group_record(number, group));
        }
        if !full {
            full = self.add_files(job, &mut chunk);
        }
        if !full && !job.body.is_empty() {
            chunk.put_page(job);
        }
        if chunk.bytes.is_empty() {
            return false;
        }
        let at = self.geometry.checkpoint_at(generation) + 1 + u64::from(first);
        let extent = Geometry::pages(at, (job.pages - first).into());
        self.submit(Flight::Job, Op::Write, extent, chunk.bytes, IoPurpose::Checkpoint);
        true
    }

    /// Adds files from `next_file` on. True if the chunk is full.
    fn add_files(&self, job: &mut Checkpoint, chunk: &mut Chunk) -> bool {
        let mut full = false;
        for (number, file) in self.tables.files_from(job.next_file) {
            if full {
                job.next_file = number.index();
                return full;
            }
            full = chunk.add(job, &file.record(number));
        }
        job.next_file = usize::MAX;
        full
    }

    fn write_header(&mut self, job: &Checkpoint) {
        let generation = self.generation + 1;
        let header = CheckpointHeader {
            uuid: self.uuid,
            generation,
            sequence: self.log.sequence,
            log_page: self.log.head,
            pages: job.pages,
            files: self.tables.files(),
            groups: self.tables.groups(),
            next_count: self.tables.next_count,
            next_group: self.tables.next_group,
            pointer: self.clusters.pointer,
        };
        let extent = Geometry::pages(self.geometry.checkpoint_at(generation), 1);
        let page = header.encode().to_vec();
        self.submit(Flight::Job, Op::Write, extent, page, IoPurpose::Checkpoint);
    }

    fn end_checkpoint(&mut self) {
        self.generation += 1;
        self.log.used = 0;
        self.clusters.reclaim();
        for id in std::mem::take(&mut self.checkpoints) {
            self.complete(id, Ok(Reply::Done));
        }
        self.retry_starved();
    }
}
