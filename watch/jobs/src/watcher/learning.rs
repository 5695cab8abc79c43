//! What a file system's runs teach: a run that has ended becomes a job, or changes one.

use seekless_block::Duration;

use super::{GROUPS_LEAST, JOBS_MOST, PIECES_ALL, RUN_LEAST, Watcher};
use crate::job::{Job, between, pages_of};
use crate::run::Run;

impl Watcher {
    /// A run has ended: learns from it.
    pub(super) fn close(&mut self, group: u32, today: u64) {
        let Some(last) = self.runs.get(&group).map(|r| r.last) else { return };
        self.end_chase(last, group);
        let Some(mut run) = self.runs.remove(&group) else { return };
        run.seen.retain(|p| !run.unreached.contains(&p.place));
        let pages = pages_of(&run.seen);
        // A recognized run was counted at its job.
        self.learned |= !run.turns.is_empty();
        self.count_own(&run);
        if run.seen.len() < RUN_LEAST && !(self.by_inode && pages >= GROUPS_LEAST) {
            return;
        }
        self.learned = true;
        // Uses of the same pages again are seen in helped runs alone.
        let took = between(run.started, run.grown);
        // Each program has its own jobs: two programs on one tree use other parts of it.
        let program = run.who.program;
        let own = |j: &&mut Job| program == 0 || j.program == 0 || j.program == program;
        let own = self.jobs.iter_mut().filter(own);
        let best = own.map(|j| (j.overlap(&run.seen), j)).max_by_key(|b| b.0);
        match best {
            Some((overlap, job)) if 2 * overlap >= pages.max(job.pages()) => {
                // Without one fetched page, nothing has helped; the limits allowed none.
                let helped = |id| id == job.id && run.fetched > 0;
                let measured = run.helped_by.is_none_or(helped) && !run.blind;
                // Pages that were in memory before make a run short, alone and helped alike. A group
                // of inodes may come with the read of another one, which nobody counts.
                let from_disk = run.pages_missed().saturating_add(run.fetched);
                let cold = if self.by_inode { overlap } else { overlap.min(from_disk) };
                if measured && 10 * cold >= 7 * job.pages() {
                    job.whole_run(run.helped_by.is_some(), run.misses, took);
                }
                let visible = || run.visible.and_then(|p| job.find(p)).unwrap_or(usize::MAX);
                // Of another job, uses in memory were not seen.
                let exact = (run.exact && run.helped_by == Some(job.id)).then(visible);
                job.merge(&run.seen, exact);
                Self::used_again(job, &run, today);
            }
            // A part of a job is nothing new, unless the whole job is too much for it.
            Some((overlap, job)) if 10 * overlap >= 9 * pages && !run.lost => {
                job.last_used = today;
            }
            _ => self.learn(&run, took, today),
        }
        self.evict();
    }

    /// A script begins with another program than that of its job, and is asked as another one: its
    /// runs count for the pause of the job's own program too.
    fn count_own(&mut self, run: &Run) {
        for &(id, _, asked_own) in &run.turns {
            let own = |j: &&mut Job| j.id == id && j.program == run.who.program;
            let job = self.jobs.iter_mut().find(own);
            if let Some(job) = job.filter(|j| !asked_own && j.program != 0) {
                let pause = &mut job.rests[0].runs;
                *pause = pause.saturating_sub(1);
            }
        }
    }

    fn used_again(job: &mut Job, run: &Run, today: u64) {
        job.runs = job.runs.saturating_add(1);
        job.last_used = today;
        if run.who.program != 0 {
            job.program = run.who.program;
        }
    }

    fn learn(&mut self, run: &Run, took: Duration, today: u64) {
        let mut job = Job::new(self.next_job, run.who.program, run.seen.clone());
        self.next_job = self.next_job.checked_add(1).unwrap_or(1);
        (job.runs, job.last_used) = (1, today);
        if run.helped_by.is_none() {
            job.whole_run(false, run.misses, took);
        }
        self.jobs.push(job);
    }

    /// True if the jobs fit into a file. While runs follow too many jobs, they may not.
    pub fn fits(&self) -> bool {
        let pieces = self.jobs.iter().map(|j| j.pieces.len()).sum::<usize>();
        self.jobs.len() <= JOBS_MOST && pieces <= PIECES_ALL
    }

    /// Drops jobs until the rest fits, those that ran longest ago first. Jobs that ran once have a
    /// quarter of the jobs and of the pieces: beyond it, they go first, and within it, the others do.
    /// So a new job is learned in any case.
    pub(super) fn evict(&mut self) {
        while !self.fits() {
            let chased =
                |id| self.runs.values().any(|r| r.chase.as_ref().is_some_and(|c| c.job == id));
            let free = self.jobs.iter().enumerate().filter(|(_, j)| !chased(j.id));
            let once = || self.jobs.iter().filter(|j| j.runs <= 1);
            let pieces = once().map(|j| j.pieces.len()).sum::<usize>();
            let many = once().count() > JOBS_MOST / 4 || pieces > PIECES_ALL / 4;
            let rank = |j: &Job| ((j.runs > 1) == many, j.last_used, j.id);
            let Some((i, _)) = free.min_by_key(|(_, j)| rank(j)) else { return };
            self.jobs.remove(i);
        }
    }
}
