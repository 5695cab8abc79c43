//! The functions that the fuzz targets call: they check the guarantees that hold for any bytes. A
//! test replays their corpora.

use std::io;
use std::path::Path;

use seekless_block::Op;
use seekless_trace::{
    Columns, Event, FileOp, Format, OpenOptions, Reader, Source, StoreWriter, TraceError,
};

/// Reads `data` as `format` (detected if `None`), for every event, strictly and leniently.
///
/// # Panics
/// Panics if a reader breaks a guarantee.
pub(crate) fn read(format: Option<Format>, data: &[u8]) {
    let has_events =
        matches!(format, None | Some(Format::Blktrace | Format::Blkparse | Format::Tracefs));
    let events = [Event::Queue, Event::Issue, Event::Complete];
    for event in events.into_iter().take(if has_events { 3 } else { 1 }) {
        for lenient in [false, true] {
            let options = OpenOptions { event, lenient, columns: None };
            let from = io::Cursor::new(data.to_vec());
            match Reader::from_read(from, Path::new("fuzz"), format, &options) {
                Ok(reader) => drain(reader, lenient),
                Err(e) => sound(&e, lenient),
            }
            if format.is_some_and(Format::is_of_files) {
                read_files(format, data, &options);
            }
        }
    }
}

/// Reads `data` behind its first line as a table with the columns of that line, strictly and
/// leniently.
///
/// # Panics
/// Panics if the reader breaks a guarantee.
pub(crate) fn table(data: &[u8]) {
    let end = data.iter().position(|b| *b == b'\n').unwrap_or(data.len());
    let (columns, data) = (&data[..end], data.get(end + 1..).unwrap_or_default());
    let Ok(columns) = String::from_utf8_lossy(columns).parse::<Columns>() else { return };
    for lenient in [false, true] {
        let columns = Some(columns.with_header(lenient));
        let options = OpenOptions { lenient, columns, ..OpenOptions::default() };
        match Reader::from_read(io::Cursor::new(data.to_vec()), Path::new("fuzz"), None, &options) {
            Ok(reader) => drain(reader, lenient),
            Err(e) => sound(&e, lenient),
        }
    }
}

/// Reads the events of a trace of files.
fn read_files(format: Option<Format>, data: &[u8], options: &OpenOptions) {
    let opened = Source::from_bytes("fuzz", data).and_then(|s| s.named(format).open_files(options));
    let mut reader = match opened {
        Ok(reader) => reader,
        Err(e) => return sound(&e, options.lenient),
    };
    while let Some(event) = reader.next_event().unwrap_or_else(|e| {
        sound(&e, options.lenient);
        None
    }) {
        let file = reader.files().get(event.file as usize);
        assert!((event.stream.0 as usize) < reader.streams().len(), "{event:?}");
        assert!(file.is_some(), "{event:?}");
        if matches!(event.op, FileOp::Read | FileOp::Write) {
            let end = event.offset.saturating_add(event.len);
            assert!(event.len > 0 && file.is_some_and(|f| f.end >= end), "{event:?}");
        }
    }
    assert!(matches!(reader.next_event(), Ok(None)), "no event follows an error");
}

/// Writes a small native store, puts wrong bytes into it and reads it. Every three bytes of `edits`
/// are a position (low byte first) and the byte to write there. This reaches code that random bytes
/// never reach.
///
/// # Panics
/// As [`read`], or if the valid store cannot be written.
pub(crate) fn damaged_store(edits: &[u8]) {
    let mut store = match sound_store() {
        Ok(store) => store,
        Err(e) => panic!("{e}"),
    };
    for edit in edits.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % store.len();
        store[at] = edit[2];
    }
    read(Some(Format::Native), &store);
}

fn sound_store() -> Result<Vec<u8>, TraceError> {
    let text: String = (0..40)
        .map(|i| format!(" 8,{} 0 1 {i}.5 {} Q RS {} + {i} [p]\n", i % 3, i % 7, i * 999))
        .collect();
    let (path, options) = (Path::new("fuzz"), OpenOptions::default());
    let from = io::Cursor::new(text);
    let mut reader = Reader::from_read(from, path, Some(Format::Blkparse), &options)?;
    let mut store = StoreWriter::new(Vec::new(), path, path, reader.info())?;
    while let Some(record) = reader.next_record()? {
        store.write(&record, reader.streams(), reader.devices())?;
    }
    store.finish(false)
}

fn drain(mut reader: Reader, lenient: bool) {
    loop {
        match reader.next_record() {
            Ok(Some(r)) => {
                let e = r.request.extent;
                assert_eq!(e.is_empty(), r.request.op == Op::Flush, "{r:?}");
                assert!(e.end().0 <= 1 << 55, "{r:?}");
                assert!((r.device as usize) < reader.devices().len(), "{r:?}");
                assert!((r.request.stream.0 as usize) < reader.streams().len(), "{r:?}");
            }
            Ok(None) => break,
            Err(e) => {
                sound(&e, lenient);
                assert!(matches!(reader.next_record(), Ok(None)), "no record follows an error");
                break;
            }
        }
    }
    let skipped = reader.skipped();
    assert!(lenient || skipped.malformed == 0);
    assert_eq!(skipped.malformed > 0, skipped.malformed_first.is_some());
}

/// Every error names its file, and lenient reading never stops at a record.
fn sound(e: &TraceError, lenient: bool) {
    assert!(e.to_string().contains("fuzz"), "{e}");
    assert!(!lenient || !matches!(e, TraceError::Malformed(_)), "{e}");
}
