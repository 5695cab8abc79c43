//! Turns the events that a recorder sees into records, with the same checks and the same tables of
//! streams and devices as a format's reader. The source of the events is not known here.

use std::path::Path;

use seekless_block::{Duration, Op};

use crate::error::{BadRecord, Parsed};
use crate::formats::rwbs;
use crate::reader_context::{Dev, Device, Process, RawRequest, ReaderContext, Skipped, Stream};
use crate::{Format, Info, OpenOptions, Record, TracePosition};

/// A request, as reported by the kernel's block events.
#[derive(Clone, Copy, Debug)]
pub struct Sighting<'a> {
    /// Time in nanoseconds; the clock can have any origin.
    pub time: u64,
    /// The kernel's letters for the kind of request (`blk_fill_rwbs`), without a zero at the end.
    pub kind: &'a [u8],
    /// First sector, of 512 bytes.
    pub sector: u64,
    /// Length in sectors.
    pub sectors: u64,
    /// Thread that sent the request; 0 if unknown.
    pub pid: u32,
    /// Its command name; empty if unknown.
    pub command: &'a [u8],
    /// Service time of the disk.
    pub service: Option<Duration>,
}

/// Turns sightings into records.
#[derive(Debug)]
pub struct Collector {
    cx: ReaderContext,
    device: Box<[u8]>,
    seen: u64,
}

impl Collector {
    /// A collector for one device with the name `device`.
    pub fn new(device: &Path) -> Self {
        let options = OpenOptions { lenient: true, ..OpenOptions::default() };
        let name = device.to_string_lossy().into_owned().into_bytes();
        let cx = ReaderContext::new(device.to_owned(), Format::Tracefs, options);
        Self { cx, device: name.into(), seen: 0 }
    }

    /// The information that such records contain.
    pub const fn info(has_service: bool) -> Info {
        Info {
            format: Format::Tracefs,
            has_times: true,
            has_days: false,
            has_processes: true,
            has_service,
        }
    }

    /// The record. `None` if the event moves no data and is not a flush, or if the event is invalid
    /// (invalid events are counted).
    pub fn record(&mut self, seen: &Sighting<'_>) -> Option<Record> {
        let place = TracePosition::Row(self.seen);
        self.seen += 1;
        match self.admit(seen, place) {
            Ok(record) => record,
            Err(bad) => {
                // Reading is lenient here: this call only counts and cannot fail.
                let _ = self.cx.bad(place, bad, seen.kind);
                None
            }
        }
    }

    fn admit(&mut self, seen: &Sighting<'_>, place: TracePosition) -> Parsed<Option<Record>> {
        let kind = rwbs::parse(seen.kind).ok_or(BadRecord::new("the letters of a block event"))?;
        let Some(op) = kind.op else { return Ok(None) };
        let op = if seen.sectors == 0 && kind.flush_before { Op::Flush } else { op };
        let mut raw = RawRequest::new(op, seen.sector, seen.sectors);
        raw.time = Some(seen.time);
        raw.flags = kind.flags;
        raw.process = Process { pid: seen.pid, name: seen.command };
        raw.device = Dev::Name(&self.device);
        raw.service = seen.service.map(|s| s.0);
        self.cx.finish(&raw, place)
    }

    /// The counts of skipped events.
    pub const fn skipped(&self) -> &Skipped {
        &self.cx.skipped
    }

    /// The streams seen so far, indexed by stream number. The first means "unknown".
    pub fn streams(&self) -> &[Stream] {
        &self.cx.streams
    }

    /// Starts the table of streams again, so that it does not grow without limit. Stream numbers in
    /// earlier records become invalid.
    pub fn forget_streams(&mut self) {
        self.cx.forget_streams();
    }

    /// The device, after its first event.
    pub fn devices(&self) -> &[Device] {
        &self.cx.devices
    }
}

#[cfg(test)]
mod tests {
    use seekless_block::{Extent, Flags, SimTime};

    use super::*;

    #[test]
    fn events_become_records_with_the_tables_of_a_reader() {
        let mut c = Collector::new(Path::new("/dev/sdx"));
        let seen = |time, kind, sector, sectors, pid, command| Sighting {
            time,
            kind,
            sector,
            sectors,
            pid,
            command,
            service: None,
        };
        let first = c.record(&seen(1000, b"RM", 8, 16, 7, b"cat")).unwrap();
        assert_eq!(first.request.extent, Extent::new(8, 16));
        assert_eq!((first.request.op, first.request.flags), (Op::Read, Flags::META));
        assert_eq!((first.request.stream.0, first.request.arrival), (1, SimTime(0)));
        let flush = c.record(&seen(1500, b"FF", 0, 0, 9, b"jbd2")).unwrap();
        assert_eq!((flush.request.op, flush.request.arrival), (Op::Flush, SimTime(500)));
        assert_eq!(flush.request.stream.0, 2);
        // A driver's own command, a read of nothing, invalid letters, and a sector after the end of
        // all disks.
        assert_eq!(c.record(&seen(1600, b"N", 0, 0, 9, b"x")), None);
        assert_eq!(c.record(&seen(1600, b"R", 5, 0, 9, b"x")), None);
        assert_eq!(c.record(&seen(1600, b"?", 5, 8, 9, b"x")), None);
        assert_eq!(c.record(&seen(1600, b"R", u64::MAX, 8, 9, b"x")), None);
        assert_eq!((c.skipped().zero_length, c.skipped().malformed), (1, 2));
        assert_eq!(c.streams()[2].name, "jbd2");
        assert_eq!(c.devices()[0].name, "/dev/sdx");
        c.forget_streams();
        assert_eq!(c.streams().len(), 1);
        let again = c.record(&seen(1700, b"R", 8, 8, 9, b"jbd2")).unwrap();
        assert_eq!((again.request.stream.0, &*c.streams()[1].name), (1, "jbd2"));
    }
}
