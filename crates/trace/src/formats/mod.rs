//! The trace formats, one a file.

use crate::context::Context;
use crate::input::Input;
use crate::reader::{Info, Parse};
use crate::text::{LineFormat, Lines};
use crate::{Format, OpenOptions};

mod blkparse;
mod disksim;
mod lis;
mod msr;
mod rwbs;
mod spc;

pub(crate) use disksim::{Scale, scale_of};

/// A fresh parser of a line-oriented format; `None` for the others.
pub(crate) fn line_format(format: Format) -> Option<Box<dyn LineFormat>> {
    Some(match format {
        Format::Blkparse => Box::new(blkparse::Blkparse::default()),
        Format::Msr => Box::new(msr::Msr),
        Format::Spc => Box::new(spc::Spc),
        Format::DiskSim => Box::new(disksim::DiskSim::new(Scale::Milliseconds, 1)),
        Format::DiskSimRw0 => Box::new(disksim::DiskSim::new(Scale::Milliseconds, 0)),
        Format::MqSim => Box::new(disksim::DiskSim::new(Scale::Nanoseconds, 1)),
        Format::MqSimRw0 => Box::new(disksim::DiskSim::new(Scale::Nanoseconds, 0)),
        Format::Lis => Box::new(lis::Lis::default()),
        _ => return None,
    })
}

/// What traces of a format can tell.
pub(crate) const fn info(format: Format) -> Info {
    use Format as F;
    Info {
        format,
        has_times: !matches!(format, F::Lis),
        has_days: matches!(format, F::Lis),
        has_processes: matches!(format, F::Blktrace | F::Blkparse | F::Tracefs),
        has_service: matches!(format, F::Msr | F::Srt),
    }
}

/// The reader of a format over one stream.
pub(crate) fn open(format: Format, input: Input) -> Box<dyn Parse> {
    match format {
        Format::Blkparse => Box::new(Lines::new(input, blkparse::Blkparse::default())),
        Format::Msr => Box::new(Lines::new(input, msr::Msr)),
        Format::Spc => Box::new(Lines::new(input, spc::Spc)),
        Format::Lis => Box::new(Lines::new(input, lis::Lis::default())),
        Format::DiskSim => {
            Box::new(Lines::new(input, disksim::DiskSim::new(Scale::Milliseconds, 1)))
        }
        Format::DiskSimRw0 => {
            Box::new(Lines::new(input, disksim::DiskSim::new(Scale::Milliseconds, 0)))
        }
        Format::MqSim => Box::new(Lines::new(input, disksim::DiskSim::new(Scale::Nanoseconds, 1))),
        Format::MqSimRw0 => {
            Box::new(Lines::new(input, disksim::DiskSim::new(Scale::Nanoseconds, 0)))
        }
        _ => todo!(),
    }
}

/// A context that only tries lines out.
pub(crate) fn trial(format: Format) -> Context {
    Context::new(std::path::PathBuf::new(), format, OpenOptions::default())
}

pub(crate) fn is_blktrace(_: &[u8]) -> bool {
    false
}
pub(crate) fn is_vscsi(_: &[u8]) -> bool {
    false
}
