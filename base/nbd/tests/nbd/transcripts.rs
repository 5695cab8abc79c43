//! Conversations written byte for byte from the text of the protocol.

use seekless_nbd::{Command, CommandFlags, ViolationKind};

use crate::harness::{Seen, feed_server, feed_tls_server};
use crate::{hex, raw_request, request};

const GREETING: &str = "'NBDMAGIC' 'IHAVEOPT' 0003";
const REPLY: &str = "0003e889045565a9";

/// The server's output for the bytes in `client`, after the greeting.
fn converse(client: &[u8]) -> (Vec<u8>, Seen) {
    let seen = feed_server(client, client.len());
    let greeting = hex(GREETING);
    assert_eq!(seen.sent[..18], greeting);
    (seen.sent[18..].to_vec(), seen)
}

fn client(parts: &[&str]) -> Vec<u8> {
    let mut out = hex("00000003");
    for part in parts {
        out.extend(hex(part));
    }
    out
}

fn expect(parts: &[&str]) -> Vec<u8> {
    parts.iter().flat_map(|p| hex(&p.replace("REPLY", REPLY))).collect()
}

#[test]
fn export_name_gives_size_and_flags_with_and_without_zeroes() {
    // 1 MiB; has flags, flush, fua, trim, write zeroes, multi-conn, cache:
    // 1+4+8+0x20+0x40+0x100+0x400.
    let (said, seen) = converse(&client(&["'IHAVEOPT' 00000001 00000000"]));
    assert_eq!(said, hex("0000000000100000 056d"));
    assert!(seen.started);
    let (said, _) = converse(&hex("00000001 'IHAVEOPT' 00000001 00000000"));
    assert_eq!(said[..10], hex("0000000000100000 056d"));
    assert_eq!(said[10..], [0; 124]);
    // A client without the fixed newstyle flag may still use it.
    let (said, seen) = converse(&hex("00000000 'IHAVEOPT' 00000001 00000005 'other'"));
    assert_eq!(said[..10], hex("0000000000001000 056f"));
    assert!(seen.started);
}

#[test]
fn export_name_of_an_unknown_export_ends_the_session() {
    let (said, seen) = converse(&client(&["'IHAVEOPT' 00000001 00000004 'none'"]));
    assert!(said.is_empty());
    let violation = seen.violation.expect("a violation");
    assert_eq!((violation.at, violation.kind), (4, ViolationKind::UnknownExport));
}

#[test]
fn unknown_client_flags_end_the_session() {
    for flags in ["00000007", "80000003", "00010001"] {
        let (_, seen) = converse(&hex(flags));
        assert!(
            matches!(seen.violation.map(|v| v.kind), Some(ViolationKind::ClientFlags(_))),
            "{flags}"
        );
    }
}

#[test]
fn other_options_need_the_fixed_newstyle_flag() {
    let (said, seen) = converse(&hex("00000000 'IHAVEOPT' 00000003 00000000"));
    assert!(said.is_empty());
    assert_eq!(seen.violation.map(|v| v.kind), Some(ViolationKind::NotFixedNewstyle(3)));
}

#[test]
fn list_names_every_export_then_acknowledges() {
    let (said, _) = converse(&client(&["'IHAVEOPT' 00000003 00000000"]));
    let expected = expect(&[
        "REPLY 00000003 00000002 0000000a 00000000 'a disk'",
        "REPLY 00000003 00000002 00000009 00000005 'other'",
        "REPLY 00000003 00000001 00000000",
    ]);
    assert_eq!(said, expected);
    let (said, _) = converse(&client(&["'IHAVEOPT' 00000003 00000001 00"]));
    assert_eq!(said[8..16], hex("00000003 80000003"));
}

#[test]
fn abort_is_acknowledged_and_ends_the_session() {
    let (said, seen) = converse(&client(&["'IHAVEOPT' 00000002 00000000"]));
    assert_eq!(said, expect(&["REPLY 00000002 00000001 00000000"]));
    assert!(seen.closed && !seen.started && seen.violation.is_none());
}

#[test]
fn unknown_options_are_refused_and_the_handshake_goes_on() {
    // STARTTLS, the withdrawn PEEK_EXPORT, EXTENDED_HEADERS, and an undefined number.
    for option in ["00000005", "00000004", "0000000b", "deadbeef"] {
        let text = format!("'IHAVEOPT' {option} 00000003 aabbcc");
        let (said, seen) = converse(&client(&[&text, "'IHAVEOPT' 00000001 00000000"]));
        assert_eq!(said[..16], expect(&[&format!("REPLY {option} 80000001")])[..], "{option}");
        assert!(seen.started, "{option}");
    }
}

#[test]
fn an_option_too_long_is_skipped_and_answered() {
    let mut bytes = client(&["'IHAVEOPT' 00000007 00004001"]);
    bytes.resize(bytes.len() + 0x4001, 0x49);
    bytes.extend(hex("'IHAVEOPT' 00000002 00000000"));
    let (said, seen) = converse(&bytes);
    assert_eq!(said[8..16], hex("00000007 80000009"));
    assert!(seen.closed);
}

#[test]
fn go_sends_export_and_block_sizes_once() {
    // Name "other", three kinds asked: block size twice, name once.
    let (said, seen) =
        converse(&client(&["'IHAVEOPT' 00000007 00000011 00000005 'other' 0003 0003 0001 0003"]));
    let expected = expect(&[
        "REPLY 00000007 00000003 0000000c 0000 0000000000001000 056f",
        "REPLY 00000007 00000003 00000007 0001 'other'",
        "REPLY 00000007 00000003 0000000e 0003 00000200 00001000 02000000",
        "REPLY 00000007 00000001 00000000",
    ]);
    assert_eq!(said, expected);
    assert!(seen.started);
}

#[test]
fn info_does_not_start_transmission_and_unknown_exports_are_refused() {
    let (said, seen) = converse(&client(&["'IHAVEOPT' 00000006 00000006 00000000 0000"]));
    let expected = expect(&[
        "REPLY 00000006 00000003 0000000c 0000 0000000000100000 056d",
        "REPLY 00000006 00000001 00000000",
    ]);
    assert_eq!(said, expected);
    assert!(!seen.started);
    let (said, seen) = converse(&client(&["'IHAVEOPT' 00000007 00000007 00000001 'x' 0000"]));
    assert_eq!(said[8..16], hex("00000007 80000006"));
    assert!(!seen.started);
}

#[test]
fn malformed_go_is_invalid() {
    for data in [
        "00000006 0000ffff 'x' 00",
        "00000005 00000000 00",
        "00000004 00000000",
        "00000007 00000000 0000 00",
        "00000006 00000000 0001",
        "00000000",
    ] {
        let text = format!("'IHAVEOPT' 00000007 {data}");
        let (said, seen) = converse(&client(&[&text]));
        assert_eq!(said[8..16], hex("00000007 80000003"), "{data}");
        assert!(!seen.started);
    }
}

const STRUCTURED: &str = "'IHAVEOPT' 00000008 00000000";
const SET: &str = "'IHAVEOPT' 0000000a 0000001b 00000000 00000001 0000000f 'base:allocation'";
const GO: &str = "'IHAVEOPT' 00000007 00000006 00000000 0000";

#[test]
fn contexts_need_structured_replies() {
    let (said, _) = converse(&client(&[SET]));
    assert_eq!(said[8..16], hex("0000000a 80000003"));
}

#[test]
fn contexts_are_listed_and_set() {
    let (said, _) = converse(&client(&[
        STRUCTURED,
        "'IHAVEOPT' 00000009 00000008 00000000 00000000",
        "'IHAVEOPT' 00000009 00000011 00000000 00000001 00000005 'base:'",
        "'IHAVEOPT' 00000009 0000000e 00000000 00000001 00000002 'x:'",
        SET,
        "'IHAVEOPT' 0000000a 00000011 00000000 00000001 00000005 'base:'",
        "'IHAVEOPT' 0000000a 00000009 00000001 'z' 00000000",
    ]));
    let listed = "REPLY 00000009 00000004 00000013 00000000 'base:allocation'";
    let list_ack = "REPLY 00000009 00000001 00000000";
    let expected = expect(&[
        "REPLY 00000008 00000001 00000000",
        listed,
        list_ack,
        listed,
        list_ack,
        list_ack,
        "REPLY 0000000a 00000004 00000013 00000001 'base:allocation'",
        "REPLY 0000000a 00000001 00000000",
        "REPLY 0000000a 00000001 00000000",
        "REPLY 0000000a 80000006 00000016 'no export of this name'",
    ]);
    assert_eq!(said, expected);
}

/// The server's output during transmission, on the 1 MiB export.
fn transmit(structured: bool, requests: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = if structured { client(&[STRUCTURED, SET, GO]) } else { client(&[GO]) };
    let preamble = converse(&bytes).0.len();
    requests.iter().for_each(|r| bytes.extend_from_slice(r));
    let (said, seen) = converse(&bytes);
    assert_eq!(seen.violation, None);
    said[preamble..].to_vec()
}

fn ask(command: Command, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    request(CommandFlags::NONE, command, cookie, offset, len)
}

#[test]
fn simple_and_structured_replies() {
    let asks = [
        ask(Command::Read, 0x10, 512, 1024),
        ask(Command::Flush, 0x11, 0, 0),
        ask(Command::Read, 0x13, 0, 512), // cookie 19: the harness answers EIO
    ];
    assert_eq!(
        transmit(false, &asks),
        hex("67446698 00000000 0000000000000010
             67446698 00000000 0000000000000011
             67446698 00000005 0000000000000013")
    );
    assert_eq!(
        transmit(true, &asks),
        hex("668e33ef 0001 0001 0000000000000010 00000408 0000000000000200
             67446698 00000000 0000000000000011
             668e33ef 0001 8001 0000000000000013 00000006 00000005 0000")
    );
}

#[test]
fn block_status_is_cut_to_the_request() {
    let head = "668e33ef 0001 0005 0000000000000001";
    assert_eq!(
        transmit(true, &[ask(Command::BlockStatus, 1, 0, 4096)]),
        hex(&format!(
            "{head} 0000001c 00000001 00000200 00000003 00000400 00000000 00000a00 00000003"
        ))
    );
    assert_eq!(
        transmit(true, &[request(CommandFlags::REQ_ONE, Command::BlockStatus, 1, 0, 4096)]),
        hex(&format!("{head} 0000000c 00000001 00000200 00000003"))
    );
    // Without the context there is no block status.
    assert_eq!(
        transmit(false, &[ask(Command::BlockStatus, 1, 0, 4096)]),
        hex("67446698 00000016 0000000000000001")
    );
}

/// The error number of the one simple reply to a request without structured replies.
fn errno_of(bytes: Vec<u8>) -> u8 {
    let said = transmit(false, &[bytes, ask(Command::Flush, 0x77, 0, 0)]);
    assert_eq!(said.len(), 32, "two replies");
    assert_eq!(said[24..32], hex("0000000000000077"), "the stream is in step");
    said[7]
}

#[test]
fn bad_requests_are_refused_and_the_stream_stays_in_step() {
    let none = CommandFlags::NONE;
    let end = 1 << 20;
    let mut write_past = ask(Command::Write, 1, end - 512, 1024);
    write_past.extend([7; 1024]);
    let mut write_unaligned = ask(Command::Write, 1, 0, 511);
    write_unaligned.extend([7; 511]);
    let mut huge = ask(Command::Write, 1, 0, (32 << 20) + 512);
    huge.resize(huge.len() + (32 << 20) + 512, 0);
    for (what, bytes, errno) in [
        ("write past the end", write_past, 28),
        ("unaligned write", write_unaligned, 22),
        ("write over the largest payload", huge, 22),
        ("empty write", ask(Command::Write, 1, 0, 0), 22),
        ("read past the end", ask(Command::Read, 1, end, 512), 22),
        ("read past 2^64", ask(Command::Read, 1, u64::MAX - 511, 512), 22),
        ("unaligned read", ask(Command::Read, 1, 1, 512), 22),
        ("trim past the end", ask(Command::Trim, 1, end, 512), 28),
        ("flush of a range", ask(Command::Flush, 1, 0, 512), 22),
        ("an unknown command", raw_request(0, 99, 1, 0, 512), 22),
        ("an unknown flag", raw_request(0x8000, 0, 1, 0, 512), 22),
        ("DF without structured replies", request(CommandFlags::DF, Command::Read, 1, 0, 512), 22),
        ("a fast zero not offered", raw_request(0x10, 6, 1, 0, 512), 22),
        ("no hole on a trim", request(CommandFlags::NO_HOLE, Command::Trim, 1, 0, 512), 22),
        ("a good read", request(none, Command::Read, 1, end - 512, 512), 0),
        ("a read with FUA", request(CommandFlags::FUA, Command::Read, 1, 0, 512), 0),
        ("a cache", ask(Command::Cache, 1, 0, 4096), 0),
        ("a trim of everything", ask(Command::Trim, 1, 0, 1 << 20), 0),
        ("zeroes, no hole", raw_request(3, 6, 1, 0, 4096), 0),
    ] {
        assert_eq!(errno_of(bytes), errno, "{what}");
    }
}

#[test]
fn a_read_only_export_refuses_writes() {
    let mut bytes = client(&["'IHAVEOPT' 00000001 00000005 'other'"]);
    bytes.extend(ask(Command::Write, 1, 0, 512));
    bytes.extend([1; 512]);
    bytes.extend(ask(Command::Trim, 2, 0, 512));
    bytes.extend(ask(Command::WriteZeroes, 3, 0, 512));
    bytes.extend(ask(Command::Read, 5, 0, 512));
    let (said, seen) = converse(&bytes);
    let replies: Vec<u8> = said[10..].chunks(16).map(|r| r[7]).collect();
    assert_eq!(replies, [1, 1, 1, 0]);
    assert_eq!(seen.requests.len(), 1);
}

#[test]
fn payloads_arrive_complete_and_disconnect_has_no_reply() {
    let mut bytes = client(&[GO]);
    bytes.extend(request(CommandFlags::FUA, Command::Write, 8, 512, 1024));
    bytes.extend((0..1024u32).map(|i| i as u8));
    bytes.extend(ask(Command::Disconnect, 9, 0, 0));
    let (said, seen) = converse(&bytes);
    assert_eq!(said[said.len() - 16..], hex("67446698 00000000 0000000000000008"));
    assert!(seen.closed);
    let (request, payload) = &seen.requests[0];
    assert!(request.flags.contains(CommandFlags::FUA));
    assert_eq!((request.offset, request.len), (512, 1024));
    assert!(payload.iter().enumerate().all(|(i, &b)| b == i as u8));
}

#[test]
fn a_bad_request_magic_ends_the_session_and_reports_its_byte() {
    let mut bytes = client(&[GO]);
    let at = bytes.len() as u64;
    bytes.extend(ask(Command::Flush, 1, 0, 0));
    bytes.extend([0xEE; 28]);
    let violation = converse(&bytes).1.violation.expect("a violation");
    assert_eq!(violation.at, at + 28);
    assert_eq!(
        violation.to_string(),
        format!(
            "byte {} of the peer's stream: expected a request (0x25609513), found 0xeeeeeeee",
            at + 28
        )
    );
}

#[test]
fn before_tls_nothing_is_said_and_behind_it_everything() {
    let abort = "'IHAVEOPT' 00000002 00000000";
    // LIST, INFO, GO, structured replies, both contexts, and an option that nobody knows.
    let asked =
        ["00000003", "00000006", "00000007", "00000008", "00000009", "0000000a", "deadbeef"];
    for option in asked {
        let ask = format!("'IHAVEOPT' {option} 00000000");
        let seen = feed_tls_server(&client(&[&ask, abort]), 7);
        let said = &seen.sent[18..];
        assert_eq!(said[..16], expect(&[&format!("REPLY {option} 80000005")])[..], "{option}");
        assert!(seen.closed && !seen.tls, "{option}");
    }
    let seen = feed_tls_server(&client(&["'IHAVEOPT' 00000001 00000000"]), 7);
    assert_eq!(seen.violation.map(|v| v.kind), Some(ViolationKind::TlsRequired));
    assert!(!seen.started && seen.sent.len() == 18, "it said something");

    // STARTTLS carries nothing, begins once, and then the handshake goes on.
    let start = "'IHAVEOPT' 00000005 00000000";
    let seen = feed_tls_server(
        &client(&["'IHAVEOPT' 00000005 00000001 00", start, start, "'IHAVEOPT' 00000001 00000000"]),
        7,
    );
    let said = &seen.sent[18..];
    assert_eq!(said[..16], expect(&["REPLY 00000005 80000003"])[..]);
    let rest =
        &said[said.windows(16).position(|w| w == expect(&["REPLY 00000005 00000001"])).unwrap()..];
    assert_eq!(rest[20..36], expect(&["REPLY 00000005 80000003"])[..], "a second STARTTLS");
    assert!(seen.tls && seen.started);
}
