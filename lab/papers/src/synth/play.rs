//! The week itself: every task runs its number of times, at times that follow people's hours, and
//! all requests come in order of time. Memory grows with the number of files, not with the number
//! of requests.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use seekless_block::{Bytes, Extent, Op, PAGE_BYTES, PAGE_SECTORS, Request, SimTime, StreamId};
use seekless_trace::{Generated, Stream};

use super::clock::{Clock, WEEK};
use super::dice::Dice;
use super::population::{Population, Run};
use super::{Personality, Side, Synthetic};

/// Longest request: 128 KiB, Linux's default read-ahead.
const REQUEST_PAGES: u32 = 32;
/// Hours of activity in a person's week: the unit of a task's lifetime.
const ACTIVE_HOURS: f64 = 70.0;
/// Milliseconds from one request to the next of one extent.
const NEXT_MS: f64 = 0.5;

/// A task at work or waiting for its next run.
#[derive(Clone, Copy, Debug)]
struct TaskState {
    /// Activity of the week at its last run, and at the end of its life.
    activity: f64,
    end: f64,
    runs_left: u32,
    step: u32,
    /// Pages of the present extent that are done.
    done: u32,
    stream: u32,
}

/// A week of requests.
#[derive(Debug)]
pub(super) struct Play {
    personality: &'static Personality,
    population: Population,
    clock: Clock,
    dice: Dice,
    states: Vec<TaskState>,
    /// The next requests: time and task; the index behind the last task is the journal.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    /// Next page of the journal, pages that wait for a commit, and the fraction of a page left
    /// over.
    head: u32,
    waiting: u32,
    owed: f64,
    /// Time of the first request.
    began: Option<u64>,
}

impl Play {
    pub(super) fn new(synthetic: &Synthetic) -> Self {
        let personality = synthetic.personality;
        let population = Population::new(synthetic);
        let clock = Clock::new(&personality.hours, &personality.days);
        let mut dice = Dice::new(synthetic.seed, 3);
        let mut due = BinaryHeap::with_capacity(population.tasks.len() + 1);
        let mut states = Vec::with_capacity(population.tasks.len());
        let readers = personality.reads.programs.len() as u32;
        for (i, task) in population.tasks.iter().enumerate() {
            let (side, first) = match task.writes {
                false => (&personality.reads, 1),
                true => (&personality.writes, 1 + readers),
            };
            let life =
                if dice.unit() < side.steady { 1.0 } else { (side.hours / ACTIVE_HOURS).min(1.0) };
            let begin = dice.unit() * (1.0 - life);
            let stream = first + dice.below(side.programs.len() as u32);
            let mut state = TaskState {
                activity: begin,
                end: begin + life,
                runs_left: task.runs,
                step: 0,
                done: 0,
                stream,
            };
            let at = state.next_run(&clock, &mut dice);
            due.push(Reverse((at, i as u32)));
            states.push(state);
        }
        Self {
            personality,
            population,
            clock,
            dice,
            states,
            due,
            head: 0,
            waiting: 0,
            owed: 0.0,
            began: None,
        }
    }

    fn side(&self, task: u32) -> &'static Side {
        let Personality { reads, writes, .. } = self.personality;
        if self.population.tasks[task as usize].writes { writes } else { reads }
    }

    /// The next request of a task, and the time of the task's following request.
    fn run(&mut self, now: u64, index: u32) -> (Op, Run, u32) {
        let side = self.side(index);
        let task = self.population.tasks[index as usize];
        let state = &mut self.states[index as usize];
        let extent = self.population.extents[(task.first + state.step) as usize];
        let len = (extent.len - state.done).min(REQUEST_PAGES);
        let pages = Run { start: extent.start + state.done, len };
        let stream = state.stream;
        state.done += len;
        let mut pause = NEXT_MS;
        if state.done == extent.len {
            (state.step, state.done) = (state.step + 1, 0);
            pause += self.dice.exponential(side.think_ms);
        }
        let mut at = now + (pause * 1e6) as u64;
        if state.step == task.steps {
            state.step = 0;
            if state.runs_left > 0 {
                at = at.max(state.next_run(&self.clock, &mut self.dice));
                self.due.push(Reverse((at, index)));
            }
            if task.writes {
                self.commit(now);
            }
        } else {
            self.due.push(Reverse((at, index)));
        }
        (if task.writes { Op::Write } else { Op::Read }, pages, stream)
    }

    /// A writing run has ended: its changes go to the journal.
    fn commit(&mut self, now: u64) {
        self.owed += self.population.commit_pages;
        let idle = self.waiting == 0;
        self.waiting += self.owed as u32;
        self.owed = self.owed.fract();
        if idle && self.waiting > 0 {
            let at = now + (NEXT_MS * 1e6) as u64;
            self.due.push(Reverse((at, self.population.tasks.len() as u32)));
        }
    }

    /// The next request of the journal.
    fn journal(&mut self, now: u64) -> (Op, Run, u32) {
        let Run { start, len } = self.population.journal;
        let pages = self.waiting.min(REQUEST_PAGES).min(len - self.head);
        let run = Run { start: start + self.head, len: pages };
        self.head = (self.head + pages) % len;
        self.waiting -= pages;
        if self.waiting > 0 {
            let at = now + (NEXT_MS * 1e6) as u64;
            self.due.push(Reverse((at, self.population.tasks.len() as u32)));
        }
        let Personality { reads, writes, .. } = self.personality;
        (Op::Write, run, 1 + (reads.programs.len() + writes.programs.len()) as u32)
    }
}

impl TaskState {
    /// The time of the next run. The runs left are uniform over the activity of the task's life:
    /// this is the least of that many uniform draws.
    fn next_run(&mut self, clock: &Clock, dice: &mut Dice) -> u64 {
        let rest = (1.0 - dice.unit()).powf(1.0 / f64::from(self.runs_left));
        self.activity = self.end - (self.end - self.activity) * rest;
        self.runs_left -= 1;
        clock.at(self.activity)
    }
}

impl Generated for Play {
    fn streams(&self) -> Vec<Stream> {
        let Personality { reads, writes, .. } = self.personality;
        let names = reads.programs.iter().chain(writes.programs).chain(&["kjournald"]);
        let stream =
            |(i, name): (usize, &&str)| Stream { pid: 1000 + i as u32, name: (*name).to_owned() };
        names.enumerate().map(stream).collect()
    }

    fn bytes(&self) -> Bytes {
        Bytes(self.population.accesses * PAGE_BYTES)
    }

    fn next_request(&mut self) -> Option<Request> {
        let Reverse((now, index)) = self.due.pop()?;
        let (op, pages, stream) = if index as usize == self.population.tasks.len() {
            self.journal(now)
        } else {
            self.run(now, index)
        };
        let extent =
            Extent::new(u64::from(pages.start) * PAGE_SECTORS, u64::from(pages.len) * PAGE_SECTORS);
        // The last run may end a moment after the week.
        let now = now.min(WEEK - 1);
        let arrival = SimTime(now - *self.began.get_or_insert(now));
        Some(Request { stream: StreamId(stream), ..Request::new(arrival, op, extent) })
    }
}
