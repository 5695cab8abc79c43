//! The trace formats, one per file.

use std::path::PathBuf;

use crate::detect::SAMPLE;
use crate::files::FileFormat;
use crate::input::Input;
use crate::reader::{Info, Parse};
use crate::reader_context::ReaderContext;
use crate::text_lines::{LineFormat, Lines, Stateless};
use crate::{Event, Format, OpenOptions};

mod alibaba;
mod binary_records;
mod biosnoop;
mod biotracer;
mod blkparse;
mod blktrace;
mod columns;
mod disksim;
mod etw;
mod fio;
mod fiu;
mod lis;
mod mobile;
mod msr;
mod oracle;
mod procmon;
pub(crate) mod rwbs;
mod seekless_csv;
mod spc;
mod srt;
mod strace;
mod systor;
mod tencent;
mod tracefs;
mod vscsi;

pub(crate) use blktrace::is_blktrace;
pub use columns::Columns;
pub(crate) use disksim::{Scale, scale_of};
pub(crate) use oracle::{Access, is_oracle};
pub(crate) use seekless_csv::HEADER as CSV_HEADER;
pub(crate) use vscsi::is_vscsi;

/// Runs `$then` with a new parser of a text format, and `$other` for all other formats.
macro_rules! with_line_format {
    ($format:expr, $parser:ident => $then:expr, else $other:expr) => {{
        macro_rules! with {
            ($value:expr) => {{
                let $parser = $value;
                $then
            }};
        }
        use disksim::DiskSim;
        match $format {
            Format::Blkparse => with!(blkparse::Blkparse::default()),
            Format::Tracefs => with!(Stateless(tracefs::parse, tracefs::EXPECTED)),
            Format::Fio => with!(fio::Fio::default()),
            Format::Msr => with!(Stateless(msr::parse, msr::EXPECTED)),
            Format::Spc => with!(Stateless(spc::parse, spc::EXPECTED)),
            Format::DiskSim => with!(DiskSim::new(Scale::Milliseconds, 1)),
            Format::DiskSimRw0 => with!(DiskSim::new(Scale::Milliseconds, 0)),
            Format::MqSim => with!(DiskSim::new(Scale::Nanoseconds, 1)),
            Format::MqSimRw0 => with!(DiskSim::new(Scale::Nanoseconds, 0)),
            Format::Heimdall => with!(DiskSim::in_bytes()),
            Format::Lis => with!(lis::Lis::default()),
            Format::Alibaba => with!(Stateless(alibaba::parse, alibaba::EXPECTED)),
            Format::Tencent => with!(Stateless(tencent::parse, tencent::EXPECTED)),
            Format::Systor => with!(Stateless(systor::parse, systor::EXPECTED)),
            Format::Fiu => with!(Stateless(fiu::parse, fiu::EXPECTED)),
            Format::Etw => with!(etw::Etw::default()),
            Format::Biosnoop => with!(Stateless(biosnoop::parse, biosnoop::EXPECTED)),
            Format::BioTracer => with!(Stateless(biotracer::parse, biotracer::EXPECTED)),
            Format::Mobile => with!(Stateless(mobile::parse, mobile::EXPECTED)),
            Format::Csv => with!(seekless_csv::Table::default()),
            Format::Native
            | Format::Blktrace
            | Format::Vscsi
            | Format::Srt
            | Format::Oracle
            | Format::Strace
            | Format::Procmon
            | Format::Columns
            | Format::Synthetic => $other,
        }
    }};
}

/// A new parser of a text format; `None` for other formats.
pub(crate) fn line_format(format: Format) -> Option<Box<dyn LineFormat>> {
    with_line_format!(format, parser => Some(Box::new(parser)), else None)
}

/// A new parser of a format for traces of files; `None` for other formats.
pub(crate) fn file_format(format: Format) -> Option<Box<dyn FileFormat>> {
    match format {
        Format::Strace => Some(Box::new(strace::Strace::default())),
        Format::Procmon => Some(Box::new(procmon::Procmon::default())),
        _ => None,
    }
}

/// The information in a trace of this format that begins with `head`. The native store describes
/// itself.
pub(crate) fn info(format: Format, head: &[u8], options: &OpenOptions) -> Info {
    use Format as F;
    let table = if format == F::Csv { seekless_csv::filled(head) } else { [false; 9] };
    let [times, processes, service] = match &options.columns {
        Some(columns) if format == F::Columns => columns.knows(),
        _ => [false; 3],
    };
    Info {
        format,
        has_times: match format {
            F::Lis => false,
            F::Columns => times,
            F::Fio => fio::has_times(head),
            F::Csv => table[0],
            F::Strace => strace::has_times(head),
            _ => true,
        },
        has_days: format == F::Lis || table[7],
        has_processes: match format {
            F::Blktrace | F::Blkparse | F::Tracefs => options.event != Event::Complete,
            F::Fiu | F::Etw | F::Biosnoop | F::Procmon | F::Mobile => true,
            F::Strace => strace::has_processes(head),
            _ => processes || table[5] || table[6],
        },
        has_service: matches!(
            format,
            F::Msr | F::Srt | F::Systor | F::Etw | F::Biosnoop | F::BioTracer
        ) || service
            || table[8],
    }
}

/// The reader of a format over its files; only blktrace has more than one. `None` if there is no
/// file, for formats of files, and for the native store, which has its own reader.
pub(crate) fn open(
    format: Format,
    inputs: Vec<(PathBuf, Input)>,
    options: &OpenOptions,
) -> Option<Box<dyn Parse>> {
    if format == Format::Blktrace {
        return Some(Box::new(blktrace::Blktrace::new(inputs)));
    }
    let (_, mut input) = inputs.into_iter().next()?;
    let head = |input: &mut Input| input.peek(SAMPLE).map(<[u8]>::to_vec).unwrap_or_default();
    with_line_format!(format, parser => Some(Box::new(Lines::new(input, parser))), else match format {
        Format::Vscsi => {
            let vscsi = vscsi::Vscsi::new(&head(&mut input));
            Some(Box::new(binary_records::Records::new(input, vscsi)))
        }
        Format::Oracle => {
            let oracle = oracle::Oracle::new(&head(&mut input));
            Some(Box::new(binary_records::Records::new(input, oracle)))
        }
        Format::Columns => {
            let table = columns::Table::new(options.columns?);
            Some(Box::new(Lines::new(input, table)))
        }
        Format::Srt => Some(Box::new(binary_records::Records::new(input, srt::Srt::default()))),
        _ => None,
    })
}

/// A context for trying lines.
pub(crate) fn trial(format: Format) -> ReaderContext {
    ReaderContext::new(PathBuf::new(), format, OpenOptions::default())
}
