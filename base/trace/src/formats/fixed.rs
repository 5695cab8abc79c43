//! What formats of binary records share: the loop over records, the end in mid-record, and passing over a
//! bad one. Knows no layout.

use crate::context::{Context, Raw};
use crate::error::{Bad, quote};
use crate::input::Input;
use crate::reader::{Parse, read_error};
use crate::{Place, Record, TraceError};

/// A format of binary records.
pub(super) trait RecordFormat: Send {
    /// The longest header or record that may come next, to look ahead by; at most the input's window.
    fn look_ahead(&self) -> usize;
    /// What stands at the front of `bytes`, which is never empty, and shorter than the look-ahead only at
    /// the end of the file. An error says how far to go on from the bad record.
    fn record(&mut self, bytes: &[u8]) -> Result<Found, (Bad, usize)>;
}

/// What was found, and how many bytes it takes.
pub(super) struct Found {
    pub(super) request: Option<Raw<'static>>,
    pub(super) bytes: usize,
}

/// A reader over binary records.
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
    fn next(&mut self, cx: &mut Context) -> Result<Option<Record>, TraceError> {
        loop {
            let place = Place::Byte(self.input.at());
            let bytes =
                self.input.peek(self.format.look_ahead()).map_err(|e| read_error(cx, place, e))?;
            if bytes.is_empty() {
                return Ok(None);
            }
            let (done, n) = match self.format.record(bytes) {
                Ok(Found { request, bytes: n }) => {
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

/// The error of a file that ends within a record: all of the rest is passed over.
pub(super) fn cut_short(expected: &'static str, bytes: &[u8]) -> (Bad, usize) {
    let found = format!("the last {} bytes of the file, {}", bytes.len(), quote(bytes));
    (Bad::found(expected, found), bytes.len())
}
