//! Traces from a generator in the program, read through the same reader as every format.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seekless_block::{Bytes, Request};

use crate::reader::{Info, Parse, Reader};
use crate::reader_context::{Device, ReaderContext, Stream};
use crate::{Format, OpenOptions, Record, Source, Traced};

/// Makes the requests of a synthetic trace, in order of time.
pub trait Generated: Send {
    /// The processes that send requests. Request streams count them from 1.
    fn streams(&self) -> Vec<Stream>;
    /// Bytes of all requests together, for the progress bar.
    fn bytes(&self) -> Bytes;
    /// The next request; `None` at the end.
    fn next_request(&mut self) -> Option<Request>;
}

/// Starts a generator. Each start produces the same requests.
type Generator = Arc<dyn Fn() -> Box<dyn Generated> + Send + Sync>;

struct Requests {
    generated: Box<dyn Generated>,
    read: Arc<AtomicU64>,
}

impl Parse for Requests {
    fn next(&mut self, cx: &mut ReaderContext) -> Traced<Option<Record>> {
        let Some(request) = self.generated.next_request() else { return Ok(None) };
        cx.records += 1;
        self.read.fetch_add(request.extent.len.bytes().0, Ordering::Relaxed);
        Ok(Some(Record { request, device: 0, day: None, service: None }))
    }
}

/// The information that a synthetic trace contains.
const INFO: Info = Info {
    format: Format::Synthetic,
    has_times: true,
    has_days: false,
    has_processes: true,
    has_service: false,
};

impl Source {
    /// A synthetic trace: each opening produces the same requests.
    pub fn generated(name: &str, generator: Generator) -> Self {
        let owned = name.to_owned();
        Self::made(name, move |options| Ok(reader(&owned, &generator, options)))
    }
}

fn reader(name: &str, generator: &Generator, options: &OpenOptions) -> Reader {
    let mut cx = ReaderContext::new(name.into(), Format::Synthetic, *options);
    let generated = generator();
    cx.streams.extend(generated.streams());
    cx.devices.push(Device { name: name.to_owned() });
    let read = Arc::new(AtomicU64::new(0));
    let total = generated.bytes().0;
    let parse = Box::new(Requests { generated, read: Arc::clone(&read) });
    Reader { parse, cx, info: INFO, read, total, ended: false }
}
