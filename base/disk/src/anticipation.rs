//! Anticipatory scheduling: after a read, waiting a little for the next read of the same stream instead of going
//! elsewhere at once. Knows no timer of its own: it says until when to wait, and is asked again.
//!
//! Iyer and Druschel, SOSP 2001: waiting pays where the seek it saves is longer than the time until the stream is
//! expected to ask again. Think time and distance between a stream's commands are means that forget, and the wait is
//! bounded as in Linux 2.6's scheduler of that name, FS2's baseline. Departures: means stand for the paper's median
//! and 95th percentile, and seek times for positioning times.

use seekless_block::{Duration, Lba, Op, SimTime, StreamId};

use crate::disk::{Disk, Key};
use crate::drive::Command;

/// Longest wait.
const BOUND: Duration = Duration::from_millis(6);
/// A stream that has been preferred for so long is not preferred again before another was served: Linux's length of
/// a batch of reads.
const RUN_MAX: Duration = Duration::from_millis(500);
/// A think time counts at most this much, so that a pause is soon forgotten.
const THINK_MAX: Duration = Duration(BOUND.0 * 4);
/// Streams that are remembered; the one longest silent is forgotten first.
const STREAMS: usize = 64;

/// Whose a command is: a stream's, or the background's.
type Who = Option<StreamId>;

const fn who(command: &Command) -> Who {
    if command.background { None } else { Some(command.stream) }
}

/// A mean that forgets: each new value weighs an eighth.
#[derive(Clone, Copy, Debug, Default)]
struct Mean(Option<u64>);

impl Mean {
    fn push(&mut self, value: u64) {
        self.0 = Some(self.0.map_or(value, |old| old - old / 8 + value / 8));
    }
}

/// What is known of a stream.
#[derive(Clone, Copy, Debug)]
struct Stream {
    who: Who,
    /// Commands that wait or run.
    open: u32,
    /// Where its last command ended: address and cylinder.
    place: Option<(Lba, u32)>,
    /// When the last one was done.
    ended: Option<SimTime>,
    /// Nanoseconds from an answer to the next command.
    think: Mean,
    /// From the end of one command to the start of the next, in sectors and in cylinders.
    sectors: Mean,
    cylinders: Mean,
    /// Rises with use.
    used: u64,
}

/// What is known of all streams, and who may be waited for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Anticipation {
    streams: Vec<Stream>,
    uses: u64,
    /// The read that ended last, while nothing has been started since.
    last: Option<(Who, SimTime)>,
    /// Who was served last, and since when without another in between.
    run: Option<(Who, SimTime)>,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Serve what the policy beneath chose.
    Go,
    /// Serve a command of this stream that stands at this place or nearer, else what was chosen.
    Prefer(Who),
    /// Wait, and ask again then at the latest.
    Wait(SimTime),
}

impl Anticipation {
    fn find(&mut self, who: Who) -> Option<&mut Stream> {
        self.streams.iter_mut().find(|s| s.who == who)
    }

    /// The stream, made if it is not known.
    fn stream(&mut self, who: Who) -> &mut Stream {
        let at = self.streams.iter().position(|s| s.who == who).unwrap_or_else(|| {
            let new = Stream {
                who,
                open: 0,
                place: None,
                ended: None,
                think: Mean::default(),
                sectors: Mean::default(),
                cylinders: Mean::default(),
                used: 0,
            };
            if self.streams.len() < STREAMS {
                self.streams.push(new);
                return self.streams.len() - 1;
            }
            let oldest = (0..STREAMS)
                .min_by_key(|&i| (self.streams[i].open > 0, self.streams[i].used))
                .unwrap_or(0);
            self.streams[oldest] = new;
            oldest
        });
        self.uses += 1;
        self.streams[at].used = self.uses;
        &mut self.streams[at]
    }

    /// A command came at `at`.
    pub(crate) fn came(&mut self, at: SimTime, command: &Command, key: &Key) {
        let stream = self.stream(who(command));
        if let (0, Some(ended)) = (stream.open, stream.ended) {
            stream.think.push(at.since(ended).min(THINK_MAX).0);
        }
        if let Some((end, cylinder)) = stream.place {
            stream.sectors.push(end.distance(command.extent.start).0);
            stream.cylinders.push(u64::from(cylinder.abs_diff(key.cylinder)));
        }
        stream.place = Some((command.extent.end(), key.cylinder));
        stream.open += 1;
    }

    /// The disk turns to a command at `at`.
    pub(crate) fn started(&mut self, at: SimTime, command: &Command) {
        let who = who(command);
        self.last = None;
        if self.run.is_none_or(|r| r.0 != who) {
            self.run = Some((who, at));
        }
    }

    /// A command ended at `at`.
    pub(crate) fn ended(&mut self, at: SimTime, command: &Command) {
        let who = who(command);
        if let Some(stream) = self.find(who) {
            stream.open = stream.open.saturating_sub(1);
            stream.ended = Some(at);
        }
        self.last = (command.op == Op::Read && who.is_some()).then_some((who, at));
    }

    /// What to do at `at`, when the policy beneath has chosen `chosen`.
    pub(crate) fn advice(&self, disk: &Disk, at: SimTime, chosen: (&Command, &Key)) -> Advice {
        let Some((last, ended)) = self.last.filter(|l| l.0 != who(chosen.0)) else {
            return Advice::Go;
        };
        if self.run.is_some_and(|r| r.0 == last && at.since(r.1) >= RUN_MAX) {
            return Advice::Go;
        }
        let Some(stream) = self.streams.iter().find(|s| s.who == last) else { return Advice::Go };
        if stream.open > 0 {
            return Advice::Prefer(last);
        }
        let (Some(think), Some(sectors), Some(cylinders)) =
            (stream.think.0, stream.sectors.0, stream.cylinders.0)
        else {
            return Advice::Go;
        };
        let waited = at.since(ended);
        if waited >= BOUND || think > BOUND.0 {
            return Advice::Go;
        }
        let there = disk.curve().time(u32::try_from(cylinders).unwrap_or(u32::MAX), sectors);
        let expected = Duration(think.saturating_sub(waited.0)) + there;
        if disk.seek_to(chosen.1) > expected { Advice::Wait(ended + BOUND) } else { Advice::Go }
    }

    /// Whether `command` is of the stream an advice speaks of.
    pub(crate) fn is_of(command: &Command, stream: Who) -> bool {
        who(command) == stream
    }
}

#[cfg(test)]
mod tests {
    use seekless_block::Extent;

    use super::*;

    #[test]
    fn memory_is_bounded_and_those_who_wait_are_kept() {
        let mut a = Anticipation::default();
        let key = Key { lba: Lba(0), angle: 0, cylinder: 0, head: 0, moves: true, write: false };
        let command =
            |n| Command { stream: StreamId(n), ..Command::new(0, Op::Read, Extent::new(0, 1)) };
        a.came(SimTime(0), &command(1_000_000), &key);
        for n in 0..1_000 {
            a.came(SimTime(n.into()), &command(n), &key);
            a.ended(SimTime(n.into()), &command(n));
        }
        assert_eq!(a.streams.len(), STREAMS);
        assert!(a.find(Some(StreamId(1_000_000))).is_some());
        assert!(a.find(Some(StreamId(999))).is_some());
        assert!(a.find(Some(StreamId(0))).is_none());
    }

    #[test]
    fn means_forget() {
        let mut mean = Mean::default();
        mean.push(800);
        assert_eq!(mean.0, Some(800));
        mean.push(1_600);
        assert_eq!(mean.0, Some(900));
    }
}
