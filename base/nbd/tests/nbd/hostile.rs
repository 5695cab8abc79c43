//! Hostile streams: cut, split and invented. The sessions never panic, always make progress, and
//! never ask for more bytes than their limits; the harness asserts this. The size of
//! the pieces does not change the meaning.

use proptest::prelude::*;
use seekless_nbd::{ClientEvent, ClientSession, Command, CommandFlags, Options, ViolationKind};

use crate::harness::{client, feed_server, server};
use crate::{hex, raw_request, request};

/// A long, valid conversation with every option and every command.
fn valid_conversation() -> Vec<u8> {
    let mut out = hex("00000003
        'IHAVEOPT' 00000005 00000000
        'IHAVEOPT' 00000003 00000000
        'IHAVEOPT' 00000008 00000000
        'IHAVEOPT' 00000009 00000008 00000000 00000000
        'IHAVEOPT' 0000000a 0000001b 00000000 00000001 0000000f 'base:allocation'
        'IHAVEOPT' 00000006 0000000b 00000005 'other' 0000
        'IHAVEOPT' 00000007 0000000a 00000000 0002 0003 0002");
    let none = CommandFlags::NONE;
    out.extend(request(none, Command::Read, 1, 0, 4096));
    out.extend(request(CommandFlags::FUA, Command::Write, 2, 512, 512));
    out.extend([0x25; 512]);
    out.extend(request(none, Command::Write, 3, 511, 3));
    out.extend([0x60; 3]);
    out.extend(request(none, Command::BlockStatus, 5, 0, 1 << 20));
    out.extend(request(CommandFlags::NO_HOLE, Command::WriteZeroes, 6, 0, 65_536));
    out.extend(request(none, Command::Trim, 7, 0, 65_536));
    out.extend(request(none, Command::Cache, 8, 0, 65_536));
    out.extend(raw_request(0, 77, 10, 0, 65_536));
    out.extend(request(none, Command::Flush, 11, 0, 0));
    out.extend(request(none, Command::Disconnect, 12, 0, 0));
    out
}

#[test]
fn every_split_means_the_same() {
    let bytes = valid_conversation();
    let whole = feed_server(&bytes, bytes.len());
    assert_eq!((whole.requests.len(), whole.closed), (7, true));
    assert_eq!(whole.violation, None);
    for piece in 1..bytes.len() {
        assert_eq!(feed_server(&bytes, piece), whole, "pieces of {piece}");
    }
}

#[test]
fn truncation_and_a_flipped_bit_at_every_byte_break_nothing() {
    let bytes = valid_conversation();
    for n in 0..bytes.len() {
        let cut = feed_server(&bytes[..n], n.max(1));
        assert_eq!(cut.violation, None, "a cut at {n} is no violation");
        for bit in 0..8 {
            let mut torn = bytes.clone();
            torn[n] ^= 1 << bit;
            server(&torn);
        }
    }
}

#[test]
fn the_corpus_breaks_nothing() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");
    for (kind, target) in [("server", server as fn(&[u8])), ("client", client)] {
        let mut names: Vec<_> = std::fs::read_dir(format!("{dir}/{kind}"))
            .expect("the corpus")
            .map(|e| e.expect("a corpus file").path())
            .collect();
        names.sort();
        assert!(names.len() >= 4, "{kind}: {} files", names.len());
        for name in names {
            println!("{}", name.display());
            target(&std::fs::read(&name).expect("a corpus file"));
        }
    }
}

/// A server may describe its export, and its contexts, in any number of replies.
#[test]
fn a_handshake_has_an_end() {
    let bare = Options { structured: false, allocation: false, ..Options::default() };
    let info = "0003e889045565a9 00000007 00000003 00000002 0063";
    let structured = "0003e889045565a9 00000008 00000001 00000000";
    let context = "0003e889045565a9 0000000a 00000004 00000013 00000001 'base:allocation'";
    for (options, first, again) in [(bare, "", info), (Options::default(), structured, context)] {
        let mut bytes = hex(&format!("'NBDMAGICIHAVEOPT' 0003 {first}"));
        bytes.extend(hex(again).repeat(20_000));
        let (mut session, mut rest, mut out) =
            (ClientSession::new(options), &bytes[..], Vec::new());
        let violation = loop {
            match session.step(rest, &mut out) {
                Ok((taken, event)) => {
                    assert_eq!(event, ClientEvent::Nothing);
                    rest = &rest[taken..];
                }
                Err(violation) => break violation,
            }
        };
        assert_eq!(violation.kind, ViolationKind::EndlessHandshake);
        assert!(violation.at < 300_000, "{violation}");
    }
}

/// Requests that are almost valid.
fn requests() -> impl Strategy<Value = Vec<u8>> {
    let one = (
        prop_oneof![9 => Just(0u16), 1 => any::<u16>()],
        0u16..9,
        any::<u64>(),
        prop_oneof![Just(0u64), Just(512), Just(1 << 20), Just((1 << 20) - 512), any::<u64>()],
        prop_oneof![Just(0u32), Just(512), Just(513), Just(4096), 0..3000u32, any::<u32>()],
        0usize..3000,
    )
        .prop_map(|(flags, command, cookie, offset, len, payload)| {
            let mut bytes = raw_request(flags, command, cookie, offset, len);
            if command == 1 {
                let whole = if payload % 8 == 0 { payload } else { (len as usize).min(1 << 16) };
                bytes.resize(bytes.len() + whole, payload as u8);
            }
            bytes
        });
    prop::collection::vec(one, 0..20).prop_map(|v| v.concat())
}

proptest! {
    #[test]
    fn invented_requests_break_nothing(tail in requests(), structured: bool, piece in 1usize..200) {
        let mut bytes = hex("00000003");
        if structured {
            bytes.extend(hex("'IHAVEOPT' 00000008 00000000
                'IHAVEOPT' 0000000a 0000001b 00000000 00000001 0000000f 'base:allocation'"));
        }
        bytes.extend(hex("'IHAVEOPT' 00000007 00000006 00000000 0000"));
        bytes.extend(tail);
        server(&bytes);
        prop_assert_eq!(feed_server(&bytes, bytes.len()), feed_server(&bytes, piece));
    }

    #[test]
    fn invented_options_break_nothing(
        options in prop::collection::vec((0u32..14, prop::collection::vec(0u8..8, 0..40), 0u32..3), 0..12)
    ) {
        let mut bytes = hex("00000003");
        for (option, data, lie) in options {
            bytes.extend(hex("'IHAVEOPT'"));
            bytes.extend(option.to_be_bytes());
            bytes.extend((data.len() as u32 + lie / 2).to_be_bytes());
            bytes.extend(data);
        }
        server(&bytes);
    }

    #[test]
    fn noise_breaks_nothing(noise in prop::collection::vec(any::<u8>(), 0..300)) {
        server(&noise);
        client(&noise);
    }
}
