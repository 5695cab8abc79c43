//! Who may connect: unix sockets of one user, TCP with TLS or on this machine alone, and no crowd of
//! silent clients that keeps others out.

use std::io::Read as _;
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::process::{Command, Output};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode};
use seekless_block::Bytes;
use seekless_serve::client::Client;
use seekless_serve::{Address, Backing, Builder, ServeError, ServerHandle, TlsFiles};

use crate::certificates::certificates;
use crate::{Dir, client};

const SIZE: u64 = 8 << 20;

fn memory() -> Builder {
    Builder::new(Backing::Memory(Bytes(SIZE)))
}

/// What is missing of these programs.
fn missing(names: &[&str]) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = |name: &str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    names.iter().find(|n| !there(n)).map(|n| format!("no program {n}"))
}

/// The address of this host on a network, if it has one.
fn own_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Sends nothing: only chooses the route.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then(|| address.to_string())
}

#[test]
fn other_machines_need_tls_or_a_word() {
    let all: Address = "tcp:0.0.0.0:0".parse().unwrap();
    for address in ["tcp:0.0.0.0:0", "tcp:[::]:0"] {
        match memory().listen(address.parse().unwrap()).spawn().err() {
            Some(ServeError::OpenToAll(found)) => assert_eq!(found, address),
            Some(ServeError::Listen { .. }) => eprintln!("SKIPPED {address}: not on this host"),
            other => panic!("{address}: {other:?}"),
        }
    }
    memory().listen("tcp:127.0.0.1:0".parse().unwrap()).spawn().unwrap();
    memory().listen("tcp:localhost:0".parse().unwrap()).spawn().unwrap();
    let open = memory().listen(all).insecure(true).spawn().unwrap();
    let host = own_address().unwrap_or_else(|| "127.0.0.1".to_owned());
    let port = open.tcp_addresses()[0].port();
    let mut client = Client::connect(&Address::Tcp(format!("{host}:{port}"))).unwrap();
    assert_eq!(client.read(0, 512).unwrap(), [0; 512]);
}

#[test]
fn a_unix_socket_belongs_to_one_user_unless_others_are_named() {
    let dir = Dir::new("users");
    std::fs::set_permissions(dir.0.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let socket = dir.path("s");
    let mode = || socket.metadata().unwrap().mode() & 0o777;
    let connects = |user: u32| -> Option<bool> {
        if !rustix::process::geteuid().is_root() || missing(&["setpriv", "nbdinfo"]).is_some() {
            eprintln!("SKIPPED other users: not root, or no program setpriv or nbdinfo");
            return None;
        }
        let uri = format!("nbd+unix:///?socket={}", socket.display());
        let (reuid, regid) = (format!("--reuid={user}"), format!("--regid={user}"));
        let args = [&reuid, &regid, "--clear-groups", "timeout", "10", "nbdinfo", "--size", &uri];
        Some(Command::new("setpriv").args(args).output().unwrap().status.success())
    };
    let one = memory().listen(Address::Unix(socket.clone())).spawn().unwrap();
    assert_eq!(mode(), 0o600);
    assert!(connects(0).unwrap_or(true));
    assert!(!connects(65_534).unwrap_or(false));
    one.stop().unwrap();
    let two = memory().listen(Address::Unix(socket.clone())).users(vec![65_534]).spawn().unwrap();
    assert_eq!(mode(), 0o666);
    for (user, may) in [(0, true), (65_534, true), (65_533, false)] {
        assert_eq!(connects(user).unwrap_or(may), may, "user {user}");
    }
    two.stop().unwrap();
}

#[test]
fn silent_clients_are_sent_away_and_keep_nobody_out() {
    let dir = Dir::new("silent");
    let socket = dir.path("s");
    let limit = Duration::from_millis(300);
    let builder = memory().listen(Address::Unix(socket.clone())).greeting_most(limit);
    let server = builder.listen("tcp:127.0.0.1:0".parse().unwrap()).spawn().unwrap();
    // One who has chosen an export may be silent for as long as it likes.
    let mut idle = client(&server);
    let crowd: Vec<_> = (0..200).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    let start = Instant::now();
    for mut silent in crowd {
        silent.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut said = Vec::new();
        // Its greeting, then the end. A client above the limit hears nothing.
        silent.read_to_end(&mut said).unwrap();
        assert!(said.is_empty() || said.len() == 18, "{said:?}");
    }
    assert!(start.elapsed() >= limit - Duration::from_millis(50), "sent away at once");
    Client::connect(&Address::Unix(socket)).unwrap().read(0, 512).unwrap();
    assert_eq!(idle.read(0, 512).unwrap(), [0; 512]);
}

#[test]
fn one_machine_gets_a_part_of_the_places() {
    let server = memory().listen("tcp:127.0.0.1:0".parse().unwrap()).spawn().unwrap();
    let at = server.tcp_addresses()[0];
    let crowd: Vec<_> = (0..200).map(|_| TcpStream::connect(at).unwrap()).collect();
    let mut greeted = 0;
    for mut stream in crowd.iter() {
        let mut greeting = [0; 18];
        greeted += usize::from(stream.read_exact(&mut greeting).is_ok());
    }
    assert_eq!(greeted, 32);
    client(&server).read(0, 512).unwrap();
}

fn with_tls(dir: &Dir, ca: bool) -> ServerHandle {
    let ca = ca.then(|| dir.path("ca-cert.pem"));
    let files = TlsFiles { cert: dir.path("server-cert.pem"), key: dir.path("server-key.pem"), ca };
    memory().listen("tcp:127.0.0.1:0".parse().unwrap()).tls(files).spawn().unwrap()
}

fn run(args: &[&str]) -> Output {
    Command::new("timeout").arg("30").args(args).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Who reads the key can be the server to every client.
#[test]
fn a_key_that_any_user_may_read_is_reported() {
    if let Some(missing) = missing(&["openssl"]) {
        eprintln!("SKIPPED a_key_that_any_user_may_read_is_reported: {missing}");
        return;
    }
    let dir = Dir::new("key");
    certificates(dir.0.path());
    for (mode, open) in [(0o644, true), (0o640, false), (0o600, false)] {
        let key = dir.path("server-key.pem");
        std::fs::set_permissions(&key, PermissionsExt::from_mode(mode)).unwrap();
        let server = with_tls(&dir, false);
        let said = server.notes().iter().any(|note| note.contains("key.pem: any user may open it"));
        assert_eq!(said, open, "{mode:o}: {:?}", server.notes());
    }
}

/// Nobody writes to the pipe a second time.
#[test]
fn a_key_may_come_through_a_pipe() {
    if let Some(missing) = missing(&["openssl"]) {
        eprintln!("SKIPPED a_key_may_come_through_a_pipe: {missing}");
        return;
    }
    let dir = Dir::new("pipe");
    certificates(dir.0.path());
    let (cert, key) = (dir.path("server-cert.pem"), dir.path("key.fifo"));
    rustix::fs::mkfifoat(CWD, &key, Mode::RUSR | Mode::WUSR).unwrap();
    let (pem, pipe) = (std::fs::read(dir.path("server-key.pem")).unwrap(), key.clone());
    std::thread::spawn(move || std::fs::write(pipe, pem).unwrap());
    let (sender, started) = channel();
    std::thread::spawn(move || {
        let server = memory().tls(TlsFiles { cert, key, ca: None }).spawn();
        sender.send(server.map(|server| server.notes().to_vec()).map_err(|e| e.to_string()))
    });
    let notes = started.recv_timeout(Duration::from_secs(20)).unwrap();
    let says_key = |notes: &Vec<String>| notes.iter().any(|note| note.contains("key"));
    assert!(notes.as_ref().is_ok_and(|notes| !says_key(notes)), "{notes:?}");
}

#[test]
fn tls_with_other_clients() {
    let programs = ["openssl", "nbdinfo", "nbdcopy", "qemu-img", "qemu-io", "timeout"];
    if let Some(missing) = missing(&programs) {
        eprintln!("SKIPPED tls_with_other_clients: {missing}");
        return;
    }
    let dir = Dir::new("tls");
    certificates(dir.0.path());
    for mutual in [false, true] {
        let server = with_tls(&dir, mutual);
        let port = server.tcp_addresses()[0].port();
        let plain = format!("nbd://localhost:{port}/");
        let uri = |certs: &str| {
            format!("nbds://localhost:{port}/?tls-certificates={}", dir.path(certs).display())
        };
        // libnbd.
        let size = run(&["nbdinfo", "--size", &uri(".")]);
        assert_eq!(said(&size).trim(), SIZE.to_string());
        assert!(!run(&["nbdinfo", "--size", &plain]).status.success(), "served without TLS");
        assert!(Client::connect(&Address::Tcp(format!("127.0.0.1:{port}"))).is_err());
        // Who has no certificate is refused where one is asked for.
        let anonymous = run(&["nbdinfo", "--size", &uri("anonymous")]);
        assert_eq!(anonymous.status.success(), !mutual, "{}", said(&anonymous));
        let random: Vec<u8> = (0..SIZE).map(|i| (i * i / 4093) as u8).collect();
        std::fs::write(dir.path("in"), &random).unwrap();
        let (from, to) = (dir.path("in"), dir.path("out"));
        let copied = run(&["nbdcopy", from.to_str().unwrap(), &uri(".")]);
        assert!(copied.status.success(), "{}", said(&copied));
        assert!(client(&server).read(0, SIZE as u32).unwrap() == random);
        let copied = run(&["nbdcopy", &uri("."), to.to_str().unwrap()]);
        assert!(copied.status.success(), "{}", said(&copied));
        assert!(std::fs::read(&to).unwrap() == random);
        // QEMU.
        let creds = format!("tls-creds-x509,id=t,endpoint=client,dir={}", dir.0.path().display());
        let opts = format!(
            "driver=nbd,server.type=inet,server.host=localhost,server.port={port},tls-creds=t"
        );
        let info = run(&["qemu-img", "info", "--object", &creds, "--image-opts", &opts]);
        assert!(said(&info).contains("8 MiB"), "{}", said(&info));
        let io = ["qemu-io", "--object", &creds, "--image-opts", &opts];
        let io =
            run(&[&io[..], &["-c", "write -P 7 1M 3M", "-c", "flush", "-c", "read -P 7 1M 3M"]]
                .concat());
        assert!(io.status.success() && !said(&io).contains("failed"), "{}", said(&io));
        assert!(client(&server).read(1 << 20, 3 << 20).unwrap() == vec![7; 3 << 20]);
        server.stop().unwrap();
    }
}

/// nbdkit with TLS, on a socket; killed when dropped.
struct Nbdkit(std::process::Child);

impl Nbdkit {
    fn start(dir: &Dir, tls: &[&str]) -> Self {
        let socket = dir.path("home");
        let _ = std::fs::remove_file(&socket);
        let mut command = Command::new("nbdkit");
        command.args(["-f", "--exit-with-parent"]).args(tls).arg("-U").arg(&socket);
        let kit = Self(command.arg("file").arg(dir.path("disk")).spawn().unwrap());
        let begun = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(20), "nbdkit does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        kit
    }
}

impl Drop for Nbdkit {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_home_behind_tls() {
    if let Some(missing) = missing(&["openssl", "nbdkit"]) {
        eprintln!("SKIPPED a_home_behind_tls: {missing}");
        return;
    }
    let (dir, other) = (Dir::new("tls-home"), Dir::new("tls-other"));
    certificates(dir.0.path());
    certificates(other.0.path());
    std::fs::File::create(dir.path("disk")).unwrap().set_len(SIZE).unwrap();
    let here = format!("--tls-certificates={}", dir.0.path().display());
    let tls = ["--tls=require", "--tls-verify-peer", &here];
    let mut kit = Nbdkit::start(&dir, &tls);
    let (socket, certs) = (dir.path("home"), dir.0.path().display().to_string());
    let home = |scheme: &str, query: &str| {
        let uri = format!("{scheme}:///?socket={}{query}", socket.display());
        Builder::new(Backing::Nbd(uri.parse().unwrap()))
    };
    let refused = |scheme: &str, query: &str| {
        let error = home(scheme, query).spawn().err().unwrap();
        let source = std::error::Error::source(&error);
        let source = source.map(|e| format!("{e}: {:?}", e.source()));
        format!("{error}: {}", source.unwrap_or_default())
    };
    let own = format!("&tls-certificates={certs}");
    let server = home("nbds+unix", &own).spawn().unwrap();
    let mut front = client(&server);
    let bytes: Vec<u8> = (0..3 << 20).map(|i: u64| (i * i / 4093) as u8).collect();
    front.write(1 << 20, &bytes).unwrap();
    front.flush().unwrap();
    assert!(std::fs::read(dir.path("disk")).unwrap()[1 << 20..4 << 20] == bytes);
    // A new connection has TLS again.
    drop(kit);
    kit = Nbdkit::start(&dir, &tls);
    assert!(front.read(1 << 20, 3 << 20).unwrap() == bytes);
    server.stop().unwrap();

    let said = refused("nbd+unix", "");
    assert!(said.contains("requires TLS: write nbds"), "{said}");
    let said = refused("nbds+unix", &format!("{own}&tls-hostname=elsewhere"));
    assert!(said.contains("NotValidForName"), "{said}");
    let said = refused("nbds+unix", &format!("&tls-certificates={}", other.0.path().display()));
    assert!(said.contains("certificate"), "{said}");
    let said = refused("nbds+unix", "&tls-certificates=/nowhere");
    assert!(said.contains("/nowhere/ca-cert.pem: cannot be used for TLS"), "{said}");
    // It asks for a client's certificate.
    let anonymous = dir.path("anonymous").display().to_string();
    refused("nbds+unix", &format!("&tls-certificates={anonymous}"));
    drop(kit);
    kit = Nbdkit::start(&dir, &[]);
    let said = refused("nbds+unix", &own);
    assert!(said.contains("has no TLS"), "{said}");
    drop(kit);
}

#[test]
fn broken_tls_costs_its_client_alone() {
    use std::io::Write as _;
    if let Some(missing) = missing(&["openssl"]) {
        eprintln!("SKIPPED broken_tls_costs_its_client_alone: {missing}");
        return;
    }
    let dir = Dir::new("broken-tls");
    certificates(dir.0.path());
    let server = with_tls(&dir, false);
    let at = server.tcp_addresses()[0];
    let start =
        [&0u32.to_be_bytes()[..3], &[3], b"IHAVEOPT", &5u32.to_be_bytes(), &[0; 4]].concat();
    for (behind, waits) in [
        (&b""[..], true),
        // Bytes that somebody put between STARTTLS and TLS.
        (b"IHAVEOPT\0\0\0\x07\0\0\0\0", false),
    ] {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.write_all(&[&start, behind].concat()).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        if waits {
            let mut reply = [0; 20];
            stream.read_exact(&mut reply).unwrap();
            assert_eq!(reply[12..16], 1u32.to_be_bytes());
            stream.write_all(&[0x55; 4000]).unwrap();
        }
        // An alert at most, then the end.
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.len() < 64 && !rest.windows(4).any(|w| w == b"\0\0\0\x07"), "{rest:?}");
    }
    let files =
        |cert: &str, key: &str| TlsFiles { cert: dir.path(cert), key: dir.path(key), ca: None };
    for (cert, key) in [
        ("none.pem", "server-key.pem"),
        ("server-cert.pem", "client-key.pem"),
        ("server-key.pem", "server-key.pem"),
    ] {
        let refused = memory().tls(files(cert, key)).spawn().err().unwrap().to_string();
        assert!(refused.contains("cannot be used for TLS"), "{cert} {key}: {refused}");
    }
    // A client in the middle of its handshake has no more time than others.
    let files = files("server-cert.pem", "server-key.pem");
    let builder = memory().tls(files).greeting_most(Duration::from_millis(200));
    let slow = builder.listen("tcp:127.0.0.1:0".parse().unwrap()).spawn().unwrap();
    let mut stream = TcpStream::connect(slow.tcp_addresses()[0]).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(&start).unwrap();
    let begun = Instant::now();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10) && rest.len() == 38, "{rest:?}");
    slow.stop().unwrap();
    client(&server).read(0, 512).unwrap();
    server.stop().unwrap();
}
