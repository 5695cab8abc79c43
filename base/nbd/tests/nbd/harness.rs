//! The functions that the fuzz targets call: they feed any bytes to a session and check its
//! guarantees. The tests replay the corpora with them.

use seekless_nbd::{
    ClientEvent, ClientSession, Command, CommandFlags, Errno, Export, Options, Request,
    ServerEvent, ServerSession, Violation,
};

/// The most bytes of one option that a session keeps.
const MAX_OPTION_BYTES: usize = 16 << 10;

/// The effects of a hostile client: every event, in order. The payload pieces of one write are
/// joined.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Requests, and the payload of each.
    pub(crate) requests: Vec<(Request, Vec<u8>)>,
    /// Whether TLS began.
    pub(crate) tls: bool,
    /// Whether transmission began.
    pub(crate) started: bool,
    /// Whether the client disconnected.
    pub(crate) closed: bool,
    /// The violation that ended the session early.
    pub(crate) violation: Option<Violation>,
    /// The bytes that the server sent. The harness answers each request as soon as the request is
    /// complete.
    pub(crate) sent: Vec<u8>,
}

/// The exports of [`server`].
pub(crate) fn exports() -> Vec<Export> {
    let mut main = Export::new("", 1 << 20);
    "a disk".clone_into(&mut main.description);
    vec![main, Export::new("other", 4096).read_only()]
}

/// Feeds `data` to a server in pieces of `piece` bytes.
///
/// # Panics
/// Panics if the session has a bug: the session takes more bytes than it got, asks for more bytes
/// than its limit, makes no progress, or accepts a request outside the export.
pub(crate) fn feed_server(data: &[u8], piece: usize) -> Seen {
    feed(data, piece, false)
}

/// The same for a server that requires TLS. The bytes behind `STARTTLS` stand for those that TLS
/// has decrypted.
///
/// # Panics
/// As [`feed_server`], and if anything is served before TLS.
pub(crate) fn feed_tls_server(data: &[u8], piece: usize) -> Seen {
    let seen = feed(data, piece, true);
    assert!(seen.tls || !seen.started && seen.requests.is_empty(), "served without TLS");
    seen
}

fn feed(data: &[u8], piece: usize, tls: bool) -> Seen {
    let mut seen = Seen::default();
    let session = ServerSession::new(exports().into(), &mut seen.sent);
    let mut session = if tls { session.with_tls() } else { session };
    let mut held: Vec<u8> = Vec::new();
    let mut sizes = exports().into_iter().map(|e| e.size);
    let mut size = 0;
    for part in data.chunks(piece.max(1)) {
        held.extend_from_slice(part);
        loop {
            let before = seen.sent.len();
            let (taken, event) = match session.step(&held, &mut seen.sent) {
                Ok(stepped) => stepped,
                Err(violation) => {
                    seen.violation = Some(violation);
                    return seen;
                }
            };
            assert!(taken <= held.len(), "took more bytes than it got");
            assert!(seen.sent.len() - before <= 1024, "an unbounded reply");
            match event {
                ServerEvent::More(n) => {
                    assert!(taken == 0 && n > held.len(), "asked for bytes that it already has");
                    assert!(n <= MAX_OPTION_BYTES + 16, "asked for more than the limit");
                    break;
                }
                ServerEvent::Nothing => assert!(taken > 0, "stood still"),
                ServerEvent::Start { export } => {
                    seen.started = true;
                    size = sizes.nth(export).unwrap_or(0);
                }
                ServerEvent::Request(r) => {
                    assert!(r.offset.checked_add(r.len.into()).is_some_and(|end| end <= size));
                    seen.requests.push((r, Vec::new()));
                    if r.command != Command::Write {
                        answer(&session, &r, &mut seen.sent);
                    }
                }
                ServerEvent::Payload { last } => {
                    let (head, _) = held.split_at(taken);
                    if let Some((r, payload)) = seen.requests.last_mut() {
                        payload.extend_from_slice(head);
                        assert_eq!(last, payload.len() == r.len as usize);
                        if last {
                            answer(&session, r, &mut seen.sent);
                        }
                    }
                }
                ServerEvent::StartTls => {
                    assert!(tls && !seen.tls, "TLS begins once");
                    seen.tls = true;
                }
                ServerEvent::Close => seen.closed = true,
            }
            held.drain(..taken);
        }
    }
    seen
}

/// Answers a request. The command and the cookie choose the answer.
fn answer(session: &ServerSession, r: &Request, out: &mut Vec<u8>) {
    match r.command {
        _ if r.cookie % 5 == 4 => session.error(r.cookie, Errno::Io, out),
        Command::Read => {
            out.extend_from_slice(session.read_header(r).as_bytes());
            // The caller would send the data after this header; the harness leaves it out.
        }
        Command::BlockStatus => {
            session.block_status(r, &[(512, 3), (1024, 0), (u32::MAX, 3)], out);
        }
        _ => session.done(r.cookie, out),
    }
}

/// A fuzz target: a client's bytes. Fed whole or byte by byte, they must have the same meaning and
/// break nothing.
pub(crate) fn server(data: &[u8]) {
    let whole = feed_server(data, data.len());
    assert_eq!(whole, feed_server(data, 1), "the size of the pieces changed the meaning");
    let whole = feed_tls_server(data, data.len());
    assert_eq!(whole, feed_tls_server(data, 1), "the size of the pieces changed the meaning");
}

/// A fuzz target: a server's bytes, received after a client has sent one request of each kind.
pub(crate) fn client(data: &[u8]) {
    let mut session = ClientSession::new(Options::default());
    let mut out = Vec::new();
    let mut rest = data;
    let mut idle = 0;
    loop {
        let Ok((taken, event)) = session.step(rest, &mut out) else { return };
        let Some((_, tail)) = rest.split_at_checked(taken) else {
            assert!(taken <= rest.len(), "took more bytes than it got");
            return;
        };
        rest = tail;
        idle = if taken == 0 { idle + 1 } else { 0 };
        assert!(idle < 4, "stood still");
        match event {
            ClientEvent::More(n) => {
                assert!(n > rest.len() && n <= MAX_OPTION_BYTES + 20);
                return;
            }
            ClientEvent::Ready => {
                for command in [Command::Read, Command::BlockStatus, Command::Write] {
                    let cookie = session.request(command, 4096, 1024, CommandFlags::NONE, &mut out);
                    assert!(cookie.is_some());
                }
            }
            ClientEvent::Data { at, .. } => assert!(at as usize + taken <= 1024),
            ClientEvent::Zeroes { at, len, .. } => assert!(at + len <= 1024),
            ClientEvent::Status { len, .. } => assert!(len <= 1024),
            _ => {}
        }
    }
}
