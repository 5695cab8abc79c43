//! A small web server beside the volume: HTTP/1.1, one request per connection. Its page is
//! read-only; commands are accepted only on a unix socket. Connections, request sizes and times are
//! bounded. It runs in its own threads and reads a [`Board`], so clients cannot delay the volume.

mod api;
mod guard;
mod metrics;

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use seekless_host::cannot;

use crate::backend::workers::ring;
use crate::error::ServeError;
use crate::listen::{Accepted, Access, Address, Listener, Peer};
use crate::watch::Board;
use guard::Guard;
pub use metrics::MetricText;

/// Most connections, and most of one machine or one other user; more are closed at once.
const CONNECTIONS_MAX: usize = 16;
const PEER_CONNECTIONS_MAX: usize = CONNECTIONS_MAX / 2;
/// Most bytes of a request line and headers.
const HEAD_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;
/// Most bytes of a command's body.
const BODY_MAX: usize = 64 << 10;
/// Longest time for a request to arrive, and for its answer to be taken.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running web server. Dropping it ends it.
pub struct HttpServer {
    tcp: Option<SocketAddr>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Shows `board` at `address`. Without a `token` the address must be local: loopback or a unix
    /// socket.
    ///
    /// # Errors
    /// The address is not local and there is no token; the token is too short; the address is not
    /// available.
    pub fn start(address: &Address, token: Option<&str>, board: Board) -> Result<Self, ServeError> {
        Self::show(address, token, Content::Board(board))
    }

    /// Shows something else than a volume, under the same rules.
    ///
    /// # Errors
    /// Those of [`Self::start`].
    pub fn of(
        address: &Address,
        token: Option<&str>,
        shown: Box<dyn Shown>,
    ) -> Result<Self, ServeError> {
        Self::show(address, token, Content::Shown(shown))
    }

    fn show(address: &Address, token: Option<&str>, content: Content) -> Result<Self, ServeError> {
        let (address, name) = match address {
            Address::Tcp(name) => {
                let fail = |source| ServeError::Listen { address: format!("tcp:{name}"), source };
                // Resolved once: the checked address is the one in use.
                let found: Vec<SocketAddr> = name.to_socket_addrs().map_err(fail)?.collect();
                if token.is_none() && !found.iter().all(|a| a.ip().to_canonical().is_loopback()) {
                    return Err(ServeError::HttpOpen(name.clone()));
                }
                let first =
                    found.first().ok_or_else(|| fail(std::io::ErrorKind::NotFound.into()))?;
                (Address::Tcp(first.to_string()), Some(name.as_str()))
            }
            Address::Unix(path) => (Address::Unix(path.clone()), None),
        };
        let guard = Guard::new(name, token)?;
        // The guard decides what other machines may see.
        let access = Access { insecure: true, ..Access::default() };
        let listener = Listener::bind(&address, &access)?;
        Self::run(listener, guard, content)
    }

    /// Takes commands at a unix socket. Its directory must restrict access to its owner.
    ///
    /// # Errors
    /// Another server listens there, or the socket is not available.
    pub(crate) fn control(
        socket: &Path,
        answers: Box<dyn ControlAnswers>,
    ) -> Result<Self, ServeError> {
        let listener = Listener::bind(&Address::Unix(socket.to_owned()), &Access::default())?;
        Self::run(listener, Guard::new(None, None)?, Content::Control(answers))
    }

    fn run(listener: Listener, guard: Guard, content: Content) -> Result<Self, ServeError> {
        let tcp = listener.tcp_address();
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(cannot("make an event descriptor"))?;
        let stop = Arc::new(stop);
        let site = Arc::new(SharedSite { guard, content, open: Mutex::default() });
        let bell = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("seekless-http".into())
            .spawn(move || {
                if !matches!(site.content, Content::Control(_)) {
                    go_with_programs();
                }
                accept(&listener, &bell, &site);
            })
            .map_err(cannot("start the web server's thread"))?;
        Ok(Self { tcp, stop, thread: Some(thread) })
    }

    /// The TCP address in use, with the actual port.
    pub const fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        ring(&self.stop);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked returns nothing.
            let _ = thread.join();
        }
    }
}

/// Shared by all connections.
struct SharedSite {
    guard: Guard,
    content: Content,
    /// Where the present connections come from.
    open: Mutex<Vec<Option<Peer>>>,
}

impl SharedSite {
    fn open(&self) -> MutexGuard<'_, Vec<Option<Peer>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a web server shows beside volumes.
pub trait Shown: Send + Sync {
    /// The body of its page, and its script.
    fn page(&self) -> (&'static str, &'static str);
    /// Its present state as JSON, or the reason why it is unknown.
    fn status(&self) -> Result<String, String>;
    /// The JSON Schema of its state.
    fn schema(&self) -> &'static str;
    /// Adds its metrics.
    fn metrics(&self, text: &mut MetricText) -> Result<(), String>;
}

/// A volume that takes commands. Answers are JSON, or the reason for a refusal.
pub(crate) trait ControlAnswers: Send + Sync {
    /// The volume's state.
    fn state(&self) -> Result<String, String>;
    /// The answer to the command in the body of a request.
    fn command(&self, body: &[u8]) -> Result<String, String>;
}

enum Content {
    /// Read-only.
    Board(Board),
    /// Read-only.
    Shown(Box<dyn Shown>),
    Control(Box<dyn ControlAnswers>),
}

/// Raises a niceness below zero of this thread, which its connections inherit: the daemon of `watch`
/// goes before programs, but readers of its page must not.
fn go_with_programs() {
    if rustix::process::getpriority_process(None).is_ok_and(|niceness| niceness < 0) {
        // Without this, only the page is served a little sooner.
        let _ = rustix::process::setpriority_process(None, 0);
    }
}

/// Accepts connections until told to stop. Open connections end within their time limit.
fn accept(listener: &Listener, stop: &OwnedFd, site: &Arc<SharedSite>) {
    loop {
        let mut ready = [
            PollFd::from_borrowed_fd(listener.fd(), PollFlags::IN),
            PollFd::new(stop, PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        if !ready[1].revents().is_empty() {
            return;
        }
        match listener.accept() {
            Ok(client) => admit(client, site),
            // Waits a little for connections to end.
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                std::thread::sleep(Duration::from_millis(50));
            }
            // The client has gone again, or may not connect.
            Err(_) => {}
        }
    }
}

fn admit(client: Accepted, site: &Arc<SharedSite>) {
    let Some(place) = ConnectionPlace::of(client.peer, site) else { return };
    let fd = client.fd;
    let work = move || {
        // A client that has gone, or is late, needs no answer.
        let _ = rustix::io::ioctl_fionbio(&fd, false)
            .and_then(|()| serve(&mut Timed::new(fd), &place.site));
    };
    let builder = std::thread::Builder::new().name("seekless-http-1".into()).stack_size(256 << 10);
    // If the host starts no thread, the connection closes and its place is free again.
    let _ = builder.spawn(work);
}

/// The place of a connection, free again at its end.
struct ConnectionPlace {
    site: Arc<SharedSite>,
    peer: Option<Peer>,
}

impl ConnectionPlace {
    /// A free one. Root and the user who serves may have all.
    fn of(peer: Option<Peer>, site: &Arc<SharedSite>) -> Option<Self> {
        let mut open = site.open();
        let of_peer = open.iter().filter(|p| peer.is_some() && **p == peer).count();
        let free = open.len() < CONNECTIONS_MAX && of_peer < PEER_CONNECTIONS_MAX;
        free.then(|| {
            open.push(peer);
            Self { site: Arc::clone(site), peer }
        })
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut open = self.site.open();
        if let Some(i) = open.iter().position(|p| *p == self.peer) {
            open.swap_remove(i);
        }
    }
}

/// A connection with a time limit for reads and writes.
struct Timed {
    fd: OwnedFd,
    until: Instant,
}

impl Timed {
    fn new(fd: OwnedFd) -> Self {
        Self { fd, until: Instant::now() + PATIENCE }
    }

    fn renew(&mut self) {
        self.until = Instant::now() + PATIENCE;
    }

    fn left(&self, kind: Timeout) -> rustix::io::Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Errno::TIMEDOUT);
        }
        set_socket_timeout(&self.fd, kind, Some(left))
    }

    fn read(&self, buf: &mut [u8]) -> rustix::io::Result<usize> {
        self.left(Timeout::Recv)?;
        recv(&self.fd, buf, RecvFlags::empty()).map(|n| n.0)
    }

    fn write_all(&self, mut bytes: &[u8]) -> rustix::io::Result<()> {
        while !bytes.is_empty() {
            self.left(Timeout::Send)?;
            let n = send(&self.fd, bytes, SendFlags::NOSIGNAL)?;
            bytes = bytes.get(n..).unwrap_or_default();
        }
        Ok(())
    }
}

struct Answer {
    status: &'static str,
    kind: &'static str,
    /// More header lines, each with its end.
    headers: String,
    body: Vec<u8>,
}

impl Answer {
    fn new(kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: "200 OK", kind, headers: String::new(), body: body.into() }
    }

    fn refusal(status: &'static str, why: &str) -> Self {
        Self { status, ..Self::new("text/plain; charset=utf-8", format!("{why}\n")) }
    }

    fn with(mut self, header: &str) -> Self {
        self.headers += header;
        self.headers += "\r\n";
        self
    }
}

/// A parsed request.
enum ParsedRequest {
    /// Already answered.
    Answered(Answer),
    /// A command with a body of this length.
    Command(usize),
}

impl ParsedRequest {
    fn from_control(
        request: &httparse::Request<'_, '_>,
        path: &str,
        volume: &dyn ControlAnswers,
    ) -> Self {
        match (request.method, path) {
            (Some("GET"), "/state") => Self::Answered(told(volume.state())),
            (Some("POST"), "/command") => match body_length(request) {
                Some(length) if length <= BODY_MAX => Self::Command(length),
                _ => Self::Answered(Answer::refusal(
                    "413 Content Too Large",
                    "a command has a Content-Length of 64 KiB at most",
                )),
            },
            _ => Self::Answered(Answer::refusal("404 Not Found", "no such command")),
        }
    }
}

fn serve(stream: &mut Timed, site: &SharedSite) -> rustix::io::Result<()> {
    let mut head = vec![0; HEAD_MAX];
    let mut filled = 0;
    let refused = |status, why: &str| ParsedRequest::Answered(Answer::refusal(status, why));
    let (asked, body_at, only_head) = loop {
        let n = stream.read(&mut head[filled..])?;
        if n == 0 {
            return Ok(());
        }
        filled += n;
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&head[..filled]) {
            Ok(httparse::Status::Complete(end)) => {
                break (asked(&request, site), end, request.method == Some("HEAD"));
            }
            Ok(httparse::Status::Partial) if filled < HEAD_MAX => {}
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                let status = "431 Request Header Fields Too Large";
                break (refused(status, "a request has at most 8 KiB of headers"), 0, false);
            }
            Err(e) => break (refused("400 Bad Request", &e.to_string()), 0, false),
        }
    };
    let answer = match (asked, &site.content) {
        (ParsedRequest::Answered(answer), _) => answer,
        (ParsedRequest::Command(length), Content::Control(volume)) => {
            let mut body = head[body_at..filled].to_vec();
            let come = body.len().min(length);
            body.resize(length, 0);
            let mut at = come;
            while at < length {
                match stream.read(&mut body[at..])? {
                    0 => return Ok(()),
                    n => at += n,
                }
            }
            told(volume.command(&body))
        }
        (ParsedRequest::Command(_), Content::Board(_) | Content::Shown(_)) => return Ok(()),
    };
    stream.renew();
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\n{}\r\n",
        answer.status,
        answer.kind,
        answer.body.len(),
        answer.headers
    );
    stream.write_all(head.as_bytes())?;
    if only_head { Ok(()) } else { stream.write_all(&answer.body) }
}

fn told(result: Result<String, String>) -> Answer {
    match result {
        Ok(json) => Answer::new("application/json", json),
        Err(why) => Answer::refusal("409 Conflict", &why),
    }
}

fn asked(request: &httparse::Request<'_, '_>, site: &SharedSite) -> ParsedRequest {
    if let Err(refusal) = site.guard.check(request.headers) {
        return ParsedRequest::Answered(refusal);
    }
    let path = request.path.unwrap_or("/");
    if let Content::Control(volume) = &site.content {
        return ParsedRequest::from_control(request, path, &**volume);
    }
    ParsedRequest::Answered(if matches!(request.method, Some("GET" | "HEAD")) {
        let accept = request.headers.iter().find(|h| h.name.eq_ignore_ascii_case("accept"));
        let dialect = metrics::Dialect::accepted(accept.map_or(&[], |h| h.value));
        let path = path.split('?').next().unwrap_or(path);
        match &site.content {
            Content::Board(board) => api::answer(path, board, dialect),
            Content::Shown(shown) => api::shown(path, &**shown, dialect),
            Content::Control(_) => Answer::refusal("404 Not Found", "no such command"),
        }
    } else {
        Answer::refusal("405 Method Not Allowed", "this server only shows: GET or HEAD")
            .with("Allow: GET, HEAD")
    })
}

fn body_length(request: &httparse::Request<'_, '_>) -> Option<usize> {
    let header = request.headers.iter().find(|h| h.name.eq_ignore_ascii_case("content-length"))?;
    std::str::from_utf8(header.value).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::sync::Mutex;

    use super::*;

    /// Keeps the bodies of the commands that reached it.
    struct KeptCommands(Arc<Mutex<Vec<Vec<u8>>>>);

    impl ControlAnswers for KeptCommands {
        fn state(&self) -> Result<String, String> {
            Ok("{}".to_owned())
        }

        fn command(&self, body: &[u8]) -> Result<String, String> {
            self.0.lock().unwrap().push(body.to_vec());
            Ok("{}".to_owned())
        }
    }

    /// Its state is the niceness of the thread that answers.
    struct Niceness;

    impl Shown for Niceness {
        fn page(&self) -> (&'static str, &'static str) {
            ("", "")
        }

        fn status(&self) -> Result<String, String> {
            let niceness = rustix::process::getpriority_process(None);
            niceness.map(|n| n.to_string()).map_err(|e| e.to_string())
        }

        fn schema(&self) -> &'static str {
            ""
        }

        fn metrics(&self, _: &mut MetricText) -> Result<(), String> {
            Ok(())
        }
    }

    #[test]
    fn a_page_of_a_daemon_does_not_go_before_programs() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        for (daemon, page) in [(-5, 0), (5, 5)] {
            let socket = socket.clone();
            let ask = move || {
                if rustix::process::setpriority_process(None, daemon).is_err() {
                    return println!("SKIPPED a niceness of {daemon}: not root");
                }
                let address = Address::Unix(socket.clone());
                let _server = HttpServer::of(&address, None, Box::new(Niceness)).unwrap();
                let mut stream = UnixStream::connect(&socket).unwrap();
                let request = b"GET /api/status HTTP/1.1\r\nHost: localhost\r\n\r\n";
                stream.write_all(request).unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                assert!(answer.ends_with(&format!("\r\n\r\n{page}")), "{daemon}: {answer}");
            };
            std::thread::spawn(ask).join().unwrap();
        }
    }

    #[test]
    fn one_machine_leaves_places_for_others() {
        let content = Content::Board(Board::default());
        let guard = Guard::new(None, None).unwrap();
        let site = Arc::new(SharedSite { guard, content, open: Mutex::default() });
        let machine = |n| Some(Peer::Machine(std::net::Ipv4Addr::new(10, 0, 0, n).into()));
        let many =
            |peer, n: usize| (0..n).filter_map(|_| ConnectionPlace::of(peer, &site)).collect();
        let mut one: Vec<ConnectionPlace> = many(machine(1), 20);
        let own: Vec<ConnectionPlace> = many(None, 20);
        assert_eq!((one.len(), own.len()), (PEER_CONNECTIONS_MAX, PEER_CONNECTIONS_MAX));
        one.pop();
        assert!(ConnectionPlace::of(machine(2), &site).is_some());
        drop((one, own));
        assert!(site.open().is_empty());
    }

    #[test]
    fn a_command_arrives_whole_or_not_at_all() {
        let socket = std::env::temp_dir().join(format!("seekless-{}.sock", std::process::id()));
        let kept = Arc::new(Mutex::new(Vec::new()));
        let server =
            HttpServer::control(&socket, Box::new(KeptCommands(Arc::clone(&kept)))).unwrap();
        let answer = |request: &[u8]| {
            let mut stream = UnixStream::connect(&socket).unwrap();
            stream.write_all(request).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let head =
            |length: &str| format!("POST /command HTTP/1.1\r\nHost: localhost\r\n{length}\r\n");
        // Without a length, with an invalid length, with a large length, and cut off.
        assert!(answer(head("").as_bytes()).contains("413"));
        assert!(answer(head("Content-Length: -1\r\n").as_bytes()).contains("413"));
        assert!(answer(head("Content-Length: 65537\r\n").as_bytes()).contains("413"));
        let huge = head("Content-Length: 99999999999999999999\r\n");
        assert!(answer(huge.as_bytes()).contains("413"));
        let short = head("Content-Length: 8\r\n") + "\"drain";
        assert_eq!(answer(short.as_bytes()), "");
        assert!(kept.lock().unwrap().is_empty(), "half a command was carried out");
        // Bytes behind the command are ignored.
        let long = head("Content-Length: 7\r\n") + "\"drain\"and more";
        assert!(answer(long.as_bytes()).contains("200 OK"));
        assert_eq!(*kept.lock().unwrap(), [b"\"drain\"".to_vec()]);
        drop(server);
        let _ = std::fs::remove_file(&socket);
    }
}
