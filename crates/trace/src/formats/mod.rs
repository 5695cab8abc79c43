//! The trace formats, one a file.

use std::path::PathBuf;

use crate::context::Context;
use crate::input::Input;
use crate::reader::{Info, Parse};
use crate::text::{LineFormat, Lines};
use crate::{Event, Format, OpenOptions};

mod blkparse;
mod blktrace;
mod disksim;
mod fio;
mod fixed;
mod lis;
mod msr;
pub(crate) mod rwbs;
mod spc;
mod srt;
mod tracefs;
mod vscsi;

pub(crate) use blktrace::is_blktrace;
pub(crate) use disksim::{Scale, scale_of};
pub(crate) use vscsi::is_vscsi;

/// Does `$then` with a fresh parser of a line-oriented format, `$other` for a format that is none.
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
            Format::Tracefs => with!(tracefs::Tracefs),
            Format::Fio => with!(fio::Fio::default()),
            Format::Msr => with!(msr::Msr),
            Format::Spc => with!(spc::Spc),
            Format::DiskSim => with!(DiskSim::new(Scale::Milliseconds, 1)),
            Format::DiskSimRw0 => with!(DiskSim::new(Scale::Milliseconds, 0)),
            Format::MqSim => with!(DiskSim::new(Scale::Nanoseconds, 1)),
            Format::MqSimRw0 => with!(DiskSim::new(Scale::Nanoseconds, 0)),
            Format::Lis => with!(lis::Lis::default()),
            Format::Native | Format::Blktrace | Format::Vscsi | Format::Srt => $other,
        }
    }};
}

/// A fresh parser of a line-oriented format; `None` for the others.
pub(crate) fn line_format(format: Format) -> Option<Box<dyn LineFormat>> {
    with_line_format!(format, parser => Some(Box::new(parser)), else None)
}

/// What a trace can tell that is in this format and begins with `head`. The native store tells by itself.
pub(crate) fn info(format: Format, head: &[u8], options: &OpenOptions) -> Info {
    use Format as F;
    Info {
        format,
        has_times: match format {
            F::Lis => false,
            F::Fio => fio::has_times(head),
            _ => true,
        },
        has_days: matches!(format, F::Lis),
        has_processes: matches!(format, F::Blktrace | F::Blkparse | F::Tracefs)
            && options.event != Event::Complete,
        has_service: matches!(format, F::Msr | F::Srt),
    }
}

/// The reader of a format over its files; only blktrace has more than one. `None` without a file, and for
/// the native store, which is no stream and is opened by its own reader.
pub(crate) fn open(format: Format, inputs: Vec<(PathBuf, Input)>) -> Option<Box<dyn Parse>> {
    if format == Format::Blktrace {
        return Some(Box::new(blktrace::Blktrace::new(inputs)));
    }
    let (_, input) = inputs.into_iter().next()?;
    with_line_format!(format, parser => Some(Box::new(Lines::new(input, parser))), else match format {
        Format::Vscsi => Some(Box::new(fixed::Records::new(input, vscsi::Vscsi))),
        Format::Srt => Some(Box::new(fixed::Records::new(input, srt::Srt::default()))),
        _ => None,
    })
}

/// A context that only tries lines out.
pub(crate) fn trial(format: Format) -> Context {
    Context::new(PathBuf::new(), format, OpenOptions::default())
}
