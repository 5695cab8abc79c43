//! The page's server with honest and hostile clients: the volume must keep serving.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use seekless_block::{Bytes, Dice, Request};
use seekless_serve::http::HttpServer;
use seekless_serve::status::{Busy, Events, History, Status};
use seekless_serve::{
    About, Address, Backing, Builder, IoSample, ServeError, ServerHandle, Shadow,
};

use crate::emulation::emulation;
use crate::{Dir, client};

/// Longer than the time limit of a request.
const LONG: Duration = Duration::from_secs(30);

fn volume() -> ServerHandle {
    let about = About { backing: "memory".to_owned(), ..About::default() };
    Builder::new(Backing::Memory(Bytes(64 << 20))).watched(about, None).spawn().unwrap()
}

fn server(volume: &ServerHandle) -> (HttpServer, SocketAddr) {
    let address: Address = "tcp:127.0.0.1:0".parse().unwrap();
    let http = HttpServer::start(&address, None, volume.board().unwrap()).unwrap();
    let at = http.tcp_address().unwrap();
    (http, at)
}

/// Sends this, and reads to the end.
fn raw(at: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    // The server may have closed the connection before everything was sent.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn get(at: SocketAddr, path: &str) -> String {
    raw(at, format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

/// Asks for the status until it fits.
fn status_that(at: SocketAddr, fits: impl Fn(&Status) -> bool) -> Status {
    let began = Instant::now();
    loop {
        let status: Status = serde_json::from_str(body(&get(at, "/api/status"))).unwrap();
        if fits(&status) {
            return status;
        }
        assert!(began.elapsed() < LONG, "{status:?}");
    }
}

#[test]
fn what_was_asked_is_what_is_shown() {
    let volume = volume();
    let (_http, at) = server(&volume);
    let mut nbd = client(&volume);
    for i in 0..10u64 {
        nbd.write(i << 20, &[7; 4096]).unwrap();
    }
    nbd.read(3 << 20, 4096).unwrap();
    let status = status_that(at, |s| s.requests.total == 11);
    assert_eq!((status.requests.home_reads, status.requests.ram_reads), (1, 0));
    assert_eq!((status.volume.size_bytes, status.volume.nbd_clients), (64 << 20, 1));
    assert_eq!(status.busy, None, "no disk is known, and none is made up");
    let history: History = serde_json::from_str(body(&get(at, "/api/history"))).unwrap();
    assert_eq!(history.samples.iter().map(|s| s.requests).sum::<u64>(), 11);
    assert_eq!((history.position.as_str(), history.end_bytes), ("address", 64 << 20));
    let mut places: Vec<u64> = history.points.iter().map(|p| p.at_bytes >> 20).collect();
    places.sort_unstable();
    assert_eq!(places, [0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9]);
    let events: Events = serde_json::from_str(body(&get(at, "/api/events"))).unwrap();
    assert!(events.events[0].text.contains("learns and copies nothing"), "{events:?}");
    assert!(get(at, "/metrics").contains("\nseekless_requests_total 11\n"));
    let page = get(at, "/");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("frame-ancestors 'none'"));
}

#[test]
fn a_head_has_no_body_and_nothing_but_showing_is_done() {
    let volume = volume();
    let (_http, at) = server(&volume);
    let head = raw(at, b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.contains("text/plain; version=0.0.4") && body(&head).is_empty());
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get"] {
        let answer = raw(at, format!("{method} / HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        assert!(answer.starts_with("HTTP/1.1 405 "), "{method}: {answer}");
    }
    let foreign = raw(at, b"GET / HTTP/1.1\r\nHost: rebound.example\r\n\r\n");
    assert!(foreign.starts_with("HTTP/1.1 421 "), "{foreign}");
    assert!(!foreign.contains("<html"));
}

#[test]
fn a_token_is_needed_wherever_others_can_reach_it() {
    let volume = volume();
    let board = || volume.board().unwrap();
    for open in ["tcp:0.0.0.0:0", "tcp:[::]:0", "tcp:192.0.2.1:80"] {
        let address: Address = open.parse().unwrap();
        let error = HttpServer::start(&address, None, board()).err().unwrap();
        assert!(matches!(error, ServeError::HttpOpen(_)), "{open}: {error}");
    }
    let all: Address = "tcp:0.0.0.0:0".parse().unwrap();
    assert!(matches!(HttpServer::start(&all, Some("short"), board()), Err(ServeError::HttpToken)));
    let token = "correct-horse-battery";
    let http = HttpServer::start(&all, Some(token), board()).unwrap();
    let at = SocketAddr::from(([127, 0, 0, 1], http.tcp_address().unwrap().port()));
    for path in ["/", "/api/status", "/metrics", "/nothing"] {
        let answer = get(at, path);
        assert!(answer.starts_with("HTTP/1.1 401 "), "{path}: {answer}");
        assert!(!answer.contains("memory"), "{path}");
    }
    let asked = format!(
        "GET /api/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    assert!(raw(at, asked.as_bytes()).starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_unix_socket_serves_and_goes_with_its_server() {
    let dir = Dir::new("http-unix");
    let volume = volume();
    let path = dir.path("watch.sock");
    let address = Address::Unix(path.clone());
    let http = HttpServer::start(&address, None, volume.board().unwrap()).unwrap();
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"GET /api/status HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 "));
    drop(http);
    assert!(!path.exists());
}

#[test]
fn bytes_that_are_no_request_are_refused_and_nobody_else_is_the_worse_for_it() {
    let volume = volume();
    let (_http, at) = server(&volume);
    let large = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "a".repeat(1 << 20));
    assert!(raw(at, large.as_bytes()).starts_with("HTTP/1.1 431 "));
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "A: b\r\n".repeat(100));
    assert!(raw(at, many.as_bytes()).starts_with("HTTP/1.1 431 "));
    for bad in
        [&b"\x16\x03\x01\x02\x00\x01"[..], b"\0\0\0\0", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"]
    {
        let answer = raw(at, bad);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    let (seed, mut random) = (20, Dice::new(20));
    let good = b"GET /api/status HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";
    for round in 0..200 {
        let mut bytes = good.to_vec();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.draw() as u8;
        }
        bytes.truncate(random.below(bytes.len() as u64 + 1) as usize);
        let answer = raw(at, &bytes);
        let fine = answer.is_empty() || answer.starts_with("HTTP/1.1 ");
        assert!(fine, "seed {seed}, round {round}: {bytes:?}: {answer}");
    }
    assert!(get(at, "/metrics").contains("\nseekless_requests_total "));
}

#[test]
fn clients_that_never_finish_are_put_out_and_the_volume_serves_on() {
    let volume = volume();
    let (_http, at) = server(&volume);
    // More connections than the limit, each with half a request.
    let mut slow: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = TcpStream::connect(at).unwrap();
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: loc");
            stream
        })
        .collect();
    let mut nbd = client(&volume);
    for i in 0..1000u64 {
        nbd.write(i * 4096, &[i as u8; 4096]).unwrap();
        assert_eq!(nbd.read(i * 4096, 4096).unwrap(), [i as u8; 4096]);
    }
    // One sends a byte at a time, which does not extend its time.
    let began = Instant::now();
    slow[0].set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut byte = [0];
    while !matches!(slow[0].read(&mut byte), Ok(0)) {
        if slow[0].write_all(b"a").is_err() {
            break;
        }
        assert!(began.elapsed() < LONG, "it is still let in");
    }
    for stream in &mut slow[1..] {
        stream.set_read_timeout(Some(LONG)).unwrap();
        let end = stream.read(&mut byte);
        assert!(!matches!(end, Ok(1)), "nothing was asked, nothing is answered");
    }
    // All places are free again.
    let status = status_that(at, |s| s.requests.total == 2000);
    assert_eq!(status.learning.unwatched, 0);
}

/// Counts its input.
struct Counter(u64, u64);

impl Shadow for Counter {
    fn request(&mut self, _: &Request) {
        self.0 += 1;
    }
    fn io(&mut self, _: &IoSample) {
        self.1 += 1;
    }
    fn now(&self) -> Option<(Busy, f64)> {
        Some((Busy { seek_s: self.1 as f64, ..Busy::default() }, 0.5))
    }
    fn vanilla(&self) -> Result<Busy, String> {
        if self.0 > 3 {
            Err("counted to three".to_owned())
        } else {
            Ok(Busy { rotation_s: self.0 as f64, ..Busy::default() })
        }
    }
    fn note(&self) -> String {
        "counted".to_owned()
    }
}

#[test]
fn a_shadow_sees_everything_and_may_say_that_it_cannot_say() {
    let about = About { disk: "toy".to_owned(), ..About::default() };
    let volume = Builder::new(Backing::Memory(Bytes(1 << 20)))
        .watched(about, Some(Box::new(|_| Ok(Box::new(Counter(0, 0))))))
        .spawn()
        .unwrap();
    let (_http, at) = server(&volume);
    let mut nbd = client(&volume);
    for i in 0..3 {
        nbd.read(i * 512, 512).unwrap();
    }
    let busy =
        status_that(at, |s| s.requests.total == 3 && s.busy.as_ref().unwrap().now.seek_s == 3.0)
            .busy
            .unwrap();
    assert_eq!((busy.basis.as_str(), busy.disk.as_str(), busy.moving_s), ("modelled", "toy", 0.5));
    assert_eq!(busy.total_j, None, "the model does not idle");
    assert_eq!(busy.vanilla.unwrap().rotation_s, 3.0);
    nbd.read(0, 512).unwrap();
    let busy = status_that(at, |s| s.busy.as_ref().unwrap().vanilla.is_none()).busy.unwrap();
    assert_eq!(busy.note, "counted to three");
    assert!(!get(at, "/metrics").contains("layout=\"vanilla\""));
    let events = get(at, "/api/events");
    assert!(
        events.contains("No comparison with the vanilla system: counted to three."),
        "{events}"
    );
    let refused = Builder::new(Backing::Memory(Bytes(1 << 20)))
        .watched(About::default(), Some(Box::new(|_| Err("too small".to_owned()))))
        .spawn();
    assert!(matches!(refused, Err(ServeError::Model(why)) if why == "too small"));
}

#[test]
fn the_energy_of_an_emulated_disk_includes_its_idling() {
    let volume = Builder::new(Backing::Memory(Bytes(64 << 20)))
        .emulate(emulation(100.0))
        .watched(About::default(), None)
        .spawn()
        .unwrap();
    let (_http, at) = server(&volume);
    let busy = status_that(at, |s| s.busy.as_ref().is_some_and(|b| b.elapsed_s > 10.0));
    let busy = busy.busy.unwrap();
    assert_eq!(busy.now.energy_j, 0.0, "nothing was asked");
    let watts = busy.total_j.unwrap() / busy.elapsed_s;
    let idle_w = seekless_disk::catalogue::get("wd800jb").unwrap().power.idle_w;
    assert!((watts - idle_w).abs() < 0.01, "{watts}");
}
