//! Tests of the protocol from outside: transcripts written from the specification, hostile streams,
//! and both sides together.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests fail by panic, and read the corpus from disk"
)]

mod harness;
mod hostile;
mod loopback;
mod transcripts;

use seekless_nbd::{Command, CommandFlags};

/// Parses hexadecimal text. Spaces and line ends are ignored; `'text'` is taken as ASCII.
fn hex(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for (i, part) in text.split('\'').enumerate() {
        if i % 2 == 1 {
            out.extend_from_slice(part.as_bytes());
            continue;
        }
        let digits: Vec<u8> =
            part.bytes().filter(|b| !b.is_ascii_whitespace()).map(digit).collect();
        assert!(digits.len().is_multiple_of(2), "odd hex: {part}");
        out.extend(digits.chunks(2).map(|d| d[0] << 4 | d[1]));
    }
    out
}

fn digit(b: u8) -> u8 {
    (b as char).to_digit(16).expect("a hex digit") as u8
}

/// A request's bytes.
fn request(flags: CommandFlags, command: Command, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    raw_request(flags.bits(), command as u16, cookie, offset, len)
}

fn raw_request(flags: u16, command: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut out = hex("25609513");
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(&command.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&offset.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
    out
}
