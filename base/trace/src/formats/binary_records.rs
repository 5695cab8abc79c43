//! The common part of binary formats: the loop over records, the end inside a record, and skipping
//! a bad record. The layouts are elsewhere.

use crate::error::{BadRecord, quote};
use crate::input::Input;
use crate::reader::{Parse, read_error};
use crate::reader_context::{RawRequest, ReaderContext};
use crate::{Record, TracePosition, Traced};

pub(super) trait RecordFormat: Send {
    /// The length of the longest header or record; at most the input's window.
    fn look_ahead(&self) -> usize;
    /// Parses the front of `bytes`. `bytes` is never empty, and shorter than the look-ahead only at
    /// the end of the file. An error gives the number of bytes to skip.
    fn record(&mut self, bytes: &[u8]) -> Result<ParsedRecord, (BadRecord, usize)>;
}

pub(super) struct ParsedRecord {
    pub(super) request: Option<RawRequest<'static>>,
    pub(super) bytes: usize,
}

#[derive(Debug)]
pub(super) struct Records<F> {
    input: Input,
    format: F,
}

impl<F> Records<F> {
    pub(super) const fn new(input: Input, format: F) -> Self {
        Self { input, format }
    }
}

impl<F: RecordFormat> Parse for Records<F> {
    fn next(&mut self, cx: &mut ReaderContext) -> Traced<Option<Record>> {
        loop {
            let place = TracePosition::Byte(self.input.at());
            let bytes =
                self.input.peek(self.format.look_ahead()).map_err(|e| read_error(cx, place, e))?;
            if bytes.is_empty() {
                return Ok(None);
            }
            let (done, n) = match self.format.record(bytes) {
                Ok(ParsedRecord { request, bytes: n }) => {
                    let Some(raw) = request else {
                        self.input.consume(n);
                        continue;
                    };
                    (cx.finish(&raw, place), n)
                }
                Err((bad, n)) => (Err(bad), n),
            };
            match done {
                Ok(Some(record)) => {
                    self.input.consume(n);
                    return Ok(Some(record));
                }
                Ok(None) => {}
                Err(bad) => cx.bad(place, bad, &bytes[..n.min(bytes.len())])?,
            }
            self.input.consume(n);
        }
    }
}

/// The error for a file that ends inside a record; the whole rest is skipped.
pub(super) fn cut_short(expected: &'static str, bytes: &[u8]) -> (BadRecord, usize) {
    let found = format!("the last {} bytes of the file, {}", bytes.len(), quote(bytes));
    (BadRecord::found(expected, found), bytes.len())
}
