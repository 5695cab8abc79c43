//! Anticipatory scheduling: after a read, the disk waits a short time for the next read of the same
//! stream instead of moving to another request at once. The module has no timer. It returns the
//! time until which to wait, and the caller asks again at that time.
//!
//! Source: Iyer and Druschel, SOSP 2001. Waiting pays if the saved seek is longer than the expected
//! time until the stream's next command. Think time and distance between the commands of a stream
//! are decaying means. The wait has the same bound as in the scheduler of that name in Linux 2.6,
//! which is FS2's baseline. Two differences from the paper: means replace its median and 95th
//! percentile, and seek times replace positioning times.

use seekless_block::{Duration, Lba, Op, SimTime, StreamId};

use crate::disk::{Disk, Key};
use crate::drive::Command;

const BOUND: Duration = Duration::from_millis(6);
/// A stream that was preferred for this long is not preferred again until another stream was
/// served. It is the length of a batch of reads in Linux.
const RUN_MAX: Duration = Duration::from_millis(500);
/// Upper limit of one think time, so that the mean forgets a long pause soon.
const THINK_MAX: Duration = Duration(BOUND.0 * 4);
/// Number of streams to remember. The stream with the longest silence is forgotten first.
const STREAMS: usize = 64;

/// The owner of a command: a stream, or background work.
type Owner = Option<StreamId>;

const fn who(command: &Command) -> Owner {
    if command.background { None } else { Some(command.stream) }
}

/// A decaying mean: each new value has a weight of one eighth.
#[derive(Clone, Copy, Debug, Default)]
struct Mean(Option<u64>);

impl Mean {
    fn push(&mut self, value: u64) {
        self.0 = Some(self.0.map_or(value, |old| old - old / 8 + value / 8));
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    who: Owner,
    /// Commands that are waiting or in progress.
    open: u32,
    /// End of its last command: address and cylinder.
    place: Option<(Lba, u32)>,
    /// Time at which its last command finished.
    ended: Option<SimTime>,
    /// Nanoseconds from a completion to the next command.
    think: Mean,
    /// From the end of one command to the start of the next, in sectors and in cylinders.
    sectors: Mean,
    cylinders: Mean,
    /// Increases with each use.
    used: u64,
}

/// Statistics of all streams, and the stream to wait for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Anticipation {
    streams: Vec<Stream>,
    uses: u64,
    /// The read that finished last, if no command has started since then.
    last: Option<(Owner, SimTime)>,
    /// The owner of the last command, and the start of its present run without commands of other
    /// owners.
    run: Option<(Owner, SimTime)>,
}

/// Advice for the next action of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Serve the command that the underlying policy chose.
    Go,
    /// Serve a command of this stream if it is as near as the chosen command or nearer; otherwise
    /// the chosen command.
    Prefer(Owner),
    /// Wait, and ask again at this time at the latest.
    Wait(SimTime),
}

impl Anticipation {
    fn find(&mut self, who: Owner) -> Option<&mut Stream> {
        self.streams.iter_mut().find(|s| s.who == who)
    }

    /// The statistics of a stream; added if the stream is new.
    fn stream(&mut self, who: Owner) -> &mut Stream {
        let at = self.streams.iter().position(|s| s.who == who).unwrap_or_else(|| {
            let new = Stream { who, ..Stream::default() };
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

    pub(crate) fn started(&mut self, at: SimTime, command: &Command) {
        let who = who(command);
        self.last = None;
        if self.run.is_none_or(|r| r.0 != who) {
            self.run = Some((who, at));
        }
    }

    pub(crate) fn ended(&mut self, at: SimTime, command: &Command) {
        let who = who(command);
        if let Some(stream) = self.find(who) {
            stream.open = stream.open.saturating_sub(1);
            stream.ended = Some(at);
        }
        self.last = (command.op == Op::Read && who.is_some()).then_some((who, at));
    }

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

    /// Whether `command` belongs to the stream of an advice.
    pub(crate) fn is_of(command: &Command, stream: Owner) -> bool {
        who(command) == stream
    }
}

#[cfg(test)]
mod tests {
    use seekless_block::Extent;

    use super::*;

    #[test]
    fn memory_is_bounded_and_streams_with_waiting_commands_are_kept() {
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
