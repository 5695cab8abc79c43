//! HP Labs' SRT: an ASCII header that ends with byte 0x0C, then records of big-endian words: size,
//! version and type, seconds, microseconds, start and stop of the service (microseconds after the
//! arrival), bytes, sector, device, driver, cylinder, flags, more. Types 1 and 4 are requests; the
//! others are skipped.
//!
//! The header gives the sector size of each disk, for some 256 bytes. Addresses are converted to
//! sectors of 512 bytes. Extents that are not on whole sectors are rounded outward, so that no
//! requested byte is lost. A disk without a size in the header has sectors of 512 bytes.

use seekless_block::{Flags, Op};

use super::binary_records::{ParsedRecord, RecordFormat, cut_short};
use crate::error::{BadRecord, quote};
use crate::input::WINDOW;
use crate::reader_context::{Dev, RawRequest};
use crate::text_lines::{number, sectors_of_bytes};

/// The minimum and the maximum number of words in a record.
const WORDS_MIN: usize = 13;
const BYTES_MAX: usize = 4096;

const FLAG_READ: u32 = 1;
const FLAG_SYNC: u32 = 0x0100_0000;

#[derive(Debug, Default)]
pub(super) struct Srt {
    /// Bytes per sector of each unit, after the header.
    sector_bytes: Option<Vec<(u64, u64)>>,
}

impl RecordFormat for Srt {
    fn look_ahead(&self) -> usize {
        if self.sector_bytes.is_none() { WINDOW } else { BYTES_MAX }
    }

    fn record(&mut self, bytes: &[u8]) -> Result<ParsedRecord, (BadRecord, usize)> {
        let Some(units) = &self.sector_bytes else {
            let Some(end) = memchr::memchr(0x0C, bytes) else {
                let bad = BadRecord::new("a header of at most 256 KiB, ended by byte 0x0C");
                return Err((bad, bytes.len()));
            };
            self.sector_bytes = Some(sector_sizes(&bytes[..end]));
            return Ok(ParsedRecord { request: None, bytes: end + 1 });
        };
        let Some(size) = bytes.first_chunk::<4>() else {
            return Err(cut_short("a record of 52 bytes or more", bytes));
        };
        let size = u32::from_be_bytes(*size) as usize;
        if !(4 * WORDS_MIN..=BYTES_MAX).contains(&size) || !size.is_multiple_of(4) {
            // The next word can begin a record; nothing else marks the beginning of a record.
            let found = format!("{size}");
            return Err((BadRecord::found("a record's size, 52 to 4096, at its front", found), 4));
        }
        let Some(r) = bytes.get(..size) else {
            return Err(cut_short("a record as long as its first word says", bytes));
        };
        let word =
            |i: usize| u32::from_be_bytes([r[4 * i], r[4 * i + 1], r[4 * i + 2], r[4 * i + 3]]);
        if !matches!(word(1) & 0xFFFF, 1 | 4) {
            return Ok(ParsedRecord { request: None, bytes: size });
        }
        let unit = u64::from(word(8) >> 8 & 0xFF);
        let sector_bytes = units.iter().find(|u| u.0 == unit).map_or(512, |u| u.1);
        let wrong = |expected| (BadRecord::found(expected, quote(&r[..4 * WORDS_MIN])), size);
        let (start, len) = u64::from(word(7))
            .checked_mul(sector_bytes)
            .and_then(|offset| sectors_of_bytes(offset, u64::from(word(6))))
            .ok_or(wrong("an address below 2^64 bytes"))?;
        let op = if word(11) & FLAG_READ == 0 { Op::Write } else { Op::Read };
        let mut raw = RawRequest::new(op, start, len);
        let micros = u64::from(word(2)) * 1_000_000 + u64::from(word(3));
        raw.time = Some(micros * 1_000);
        raw.device = Dev::Number(unit);
        raw.service = u64::from(word(5)).checked_sub(u64::from(word(4))).map(|us| us * 1_000);
        if word(11) & FLAG_SYNC != 0 {
            raw.flags = Flags::SYNC;
        }
        Ok(ParsedRecord { request: Some(raw), bytes: size })
    }
}

/// `sectorsize` of each disk in `disks = { UNIT -> { ... sectorsize = N, ... } ... }`. Settings
/// that are nested deeper are ignored.
fn sector_sizes(header: &[u8]) -> Vec<(u64, u64)> {
    let mut sizes = Vec::new();
    let (mut depth, mut unit) = (0u32, None);
    let mut word: &[u8] = b"";
    let mut i = 0;
    while i < header.len() {
        let from = i;
        i += 1;
        match header[from] {
            b'"' => i += header[i..].iter().position(|&b| b == b'"').map_or(0, |n| n + 1),
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                i += header[i..].iter().take_while(|b| b.is_ascii_alphanumeric()).count();
                if word == b"sectorsize"
                    && depth == 2
                    && let (Some(unit), Some(size @ 1..=65_536)) = (unit, number(&header[from..i]))
                {
                    sizes.push((unit, size));
                }
                word = &header[from..i];
            }
            b'{' => {
                depth += 1;
                if depth == 2 {
                    unit = number(word);
                }
            }
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    sizes
}
