//! A home on another server: nbdkit, which is killed and started again while fio writes and
//! verifies, and is killed together with seekless while an area here has the newest data. Three
//! kills, 100 with SEEKLESS_LONG=1, N with SEEKLESS_KILLS=N.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use seekless_block::Op;
use seekless_nbd::Options;
use seekless_serve::Address;
use seekless_serve::client::{Client, ClientError};
use seekless_trace::{Event, OpenOptions, Source};

use crate::PROGRAM;
use crate::host::{self, Numbers, Server, run_line};
use crate::need;
use crate::tests;
use crate::workloads::{BLOCK, Writings, block};

/// nbdkit in the foreground; killed when dropped.
pub(crate) struct Nbdkit(Child);

impl Nbdkit {
    /// Each request takes a millisecond.
    fn start(socket: &Path, disk: &Path) -> Self {
        Self::with(socket, disk, &["--filter=delay"], &["rdelay=1ms", "wdelay=1ms"])
    }

    pub(crate) fn with(socket: &Path, disk: &Path, filters: &[&str], settings: &[&str]) -> Self {
        let _ = std::fs::remove_file(socket);
        let mut command = Command::new("nbdkit");
        command.args(["-f", "--exit-with-parent"]).args(filters).arg("-U").arg(socket);
        command.arg("file").arg(disk).args(settings);
        let kit = Self(command.stdin(Stdio::null()).spawn().unwrap());
        let connect = || std::os::unix::net::UnixStream::connect(socket);
        host::until("nbdkit answers", 20, || connect().is_ok());
        kit
    }

    /// Waits until it serves no connection: it has a thread of its own then, and no other. It still
    /// carries out requests of a client that died, and the next client could read before that.
    fn settle(&self) {
        let threads = format!("/proc/{}/task", self.0.id());
        let is_alone = || std::fs::read_dir(&threads).unwrap().count() <= 1;
        host::until("nbdkit lets a dead client go", 60, is_alone);
    }
}

impl Drop for Nbdkit {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// fio on a volume, which writes, reads and verifies; `more` says how long.
fn fio(front: &Path, more: &[&str]) -> Child {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=2", "900", "fio", "--name=verify", "--ioengine=nbd"]);
    command.arg(format!("--uri={}", uri_of(front).display()));
    command.args(["--bs=4k", "--rw=randrw", "--iodepth=8", "--fsync=50", "--verify=crc32c"]);
    command
        .arg("--verify_state_save=0")
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn verified(fio: Child) {
    let output = fio.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}", String::from_utf8_lossy(&output.stdout));
}

/// Each kill is noticed before the next one: the count is of connections that broke.
#[test]
fn fio_notices_nothing_of_a_home_whose_server_is_killed() {
    need!("elsewhere", "nbdkit fio timeout");
    let Home { dir, socket, disk, uri, front, listen } = Home::new();
    let mut kit = Nbdkit::start(&socket, &disk);
    let args = format!("--nbd {listen} --area-dir . --optimized 16MiB --cache 1MiB");
    let server = Server::line(dir.path(), &uri, None, &args);
    let kills = host::rounds("SEEKLESS_KILLS", 3, 100);
    let reconnects = || host::status(&uri, &[])["elsewhere"]["reconnects"].as_u64().unwrap();
    let runtime = if host::is_long() { "--runtime=5" } else { "--runtime=3" };
    let settings = ["--size=32m", "--verify_backlog=64", "--time_based", runtime];
    let mut running = fio(&front, &settings);
    for kill in 0..kills {
        drop(kit);
        kit = Nbdkit::start(&socket, &disk);
        let begun = Instant::now();
        while reconnects() <= kill {
            assert!(begun.elapsed() < Duration::from_secs(60), "kill {kill} goes unnoticed");
            std::thread::sleep(Duration::from_millis(20));
            if running.try_wait().unwrap().is_some() {
                verified(running);
                running = fio(&front, &settings);
            }
        }
    }
    verified(running);
    let counts = server.stop();
    let elsewhere = &counts["elsewhere"];
    assert!(elsewhere["reconnects"].as_u64().unwrap() >= kills, "{elsewhere}");
    assert!(elsewhere["away_s"].as_f64().unwrap() > 0.0, "{elsewhere}");
    drop(kit);
    // A server that is not there is named.
    let mut serve = host::limited(45);
    serve.args([PROGRAM, "serve"]).arg(&uri).args(["--nbd", &listen]);
    host::refused(&mut serve, &["cannot connect to nbd+unix"]);
}

/// A server that fails requests and tries again by itself; and one that says, again and again, that
/// it shuts down, which ends all connections.
#[test]
fn fio_verifies_through_filters_that_fail() {
    need!("filters", "nbdkit fio timeout");
    let retries = &["--filter=retry-request", "--filter=error", "--filter=delay"];
    let asked = &["retry-request-delay=1", "error=EIO", "error-rate=1%", "rdelay=1ms"];
    let (ends, shutdown) = (&["--filter=error"], &["error=ESHUTDOWN", "error-rate=3%"]);
    // A request that fails is repeated after a second.
    let retried = if host::is_long() { "--size=8m" } else { "--size=3m" };
    for (filters, settings, size, least) in
        [(&retries[..], &asked[..], retried, 0), (ends, shutdown, "--size=8m", 50)]
    {
        let Home { dir, socket, disk, uri, front, listen } = Home::new();
        let kit = Nbdkit::with(&socket, &disk, filters, settings);
        let args = format!("--nbd {listen} --area-dir . --optimized 16MiB --cache 1MiB");
        let server = Server::line(dir.path(), &uri, None, &args);
        verified(fio(&front, &[size]));
        let counts = server.stop();
        let reconnects = counts["elsewhere"]["reconnects"].as_u64().unwrap();
        assert!(reconnects >= least && (least > 0 || reconnects == 0), "{counts}");
        drop(kit);
    }
}

/// A folder with a disk to be served by nbdkit, and the address for clients of seekless before it.
struct Home {
    dir: tempfile::TempDir,
    socket: PathBuf,
    disk: PathBuf,
    uri: PathBuf,
    front: PathBuf,
    listen: String,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let [socket, disk, front] = ["home", "disk", "front"].map(|name| dir.path().join(name));
        File::create(&disk).unwrap().set_len(64 << 20).unwrap();
        let listen = format!("unix:{}", front.display());
        Self { dir, uri: uri_of(&socket), socket, disk, front, listen }
    }
}

pub(crate) fn uri_of(socket: &Path) -> PathBuf {
    PathBuf::from(format!("nbd+unix:///?socket={}", socket.display()))
}

const BLOCKS: u64 = 1024;

/// Writes and reads until the connection breaks. Blocks are read in an order that repeats.
fn go_on(blocks: &mut Writings, client: &mut Client, numbers: &mut Numbers) -> ClientError {
    loop {
        if let Err(e) = step(blocks, client, numbers) {
            return e;
        }
    }
}

fn step(
    blocks: &mut Writings,
    client: &mut Client,
    numbers: &mut Numbers,
) -> Result<(), ClientError> {
    let written = blocks.begin(numbers);
    for &(number, writing) in &written {
        client.write(number * BLOCK as u64, &block(number, writing))?;
    }
    for number in (0..BLOCKS).step_by(7).take(40) {
        let found = client.read(number * BLOCK as u64, BLOCK as u32)?;
        let last = blocks.last(number);
        assert!(found == block(number, last), "block {number} is not of writing {last}");
    }
    client.flush()?;
    blocks.are_durable(&written);
    Ok(())
}

tests! {
    fn an_area_here_and_its_home_elsewhere_survive_kills_with_writes_passed_on() {
        need!("elsewhere", "nbdkit");
        survives("writethrough");
    }
    fn an_area_here_and_its_home_elsewhere_survive_kills_with_writes_absorbed() {
        need!("elsewhere", "nbdkit");
        survives("writeback");
    }
}

/// nbdkit keeps writes in a cache of its own until a flush, and loses them when it is killed. A kill
/// hits seekless, nbdkit, or both at once.
fn survives(mode: &str) {
    let Home { dir, socket, disk, uri, front, listen } = Home::new();
    let kit = || Nbdkit::with(&socket, &disk, &["--filter=cache"], &["cache=writeback"]);
    let mut home = Some(kit());
    let area = dir.path().join("area");
    let (uri, area) = (uri.to_str().unwrap(), area.to_str().unwrap());
    let sizes = format!("--optimized 16MiB --mode {mode}");
    run_line(&format!("{PROGRAM} volume format {uri} --at {area} {sizes}"));
    let more = "--learn-every 200ms --policy borg:planning=anew --cache 1MiB";
    let args = format!("--nbd {listen} --area {area} {more}");
    let start = || Server::line(dir.path(), uri.as_ref(), None, &args);
    let connect = || {
        let address = Address::Unix(front.clone());
        Client::connect_to(&address, Options::default(), Duration::from_secs(60)).unwrap()
    };
    let seed = host::seed();
    let (mut numbers, mut blocks) = (Numbers::new(seed), Writings::new(BLOCKS, 0));
    let mut server = Some(start());
    for kill in 0..host::rounds("SEEKLESS_KILLS", 3, 60) {
        let mut client = connect();
        let after = format!("kill {kill}");
        let ended = std::thread::scope(|scope| {
            let worker = scope.spawn(|| go_on(&mut blocks, &mut client, &mut numbers));
            std::thread::sleep(Duration::from_millis(200 + kill * 37 % 300));
            assert!(!worker.is_finished(), "{after}: it ended by itself");
            let killed = server.as_ref().unwrap();
            match kill % 3 {
                0 => killed.signal(Signal::KILL),
                // Nobody notices this one.
                1 => {
                    drop(home.take());
                    home = Some(kit());
                    std::thread::sleep(Duration::from_millis(200));
                    killed.signal(Signal::KILL);
                }
                _ => {
                    drop(home.take());
                    killed.signal(Signal::KILL);
                    home = Some(kit());
                }
            }
            worker.join().unwrap()
        });
        assert!(!matches!(ended, ClientError::Errno(_) | ClientError::Violation(_)), "{ended}");
        drop(server.take());
        home.as_ref().unwrap().settle();
        server = Some(start());
        let mut client = connect();
        blocks.check(&after, true, |n| client.read(n * BLOCK as u64, BLOCK as u32).unwrap());
        let bare = std::fs::read(&disk).unwrap();
        assert_eq!(bare.starts_with(b"SEEKLESS"), mode == "writeback", "{after}: the guard");
    }
    let mut client = connect();
    client.flush().unwrap();
    server.take().unwrap().stop();
    run_line(&format!("{PROGRAM} volume detach {uri} --area {area}"));
    drop(home);
    let bare = std::fs::read(&disk).unwrap();
    blocks.check("all is at home", true, |n| bare[n as usize * BLOCK..][..BLOCK].to_vec());
    assert!((0..BLOCKS).any(|n| blocks.last(n) > 0), "nothing was written");
}

/// The recorded desktop, served from a provider's volume: the server names the operations and the
/// dollars that it saved, beside the vanilla system's.
#[test]
fn a_live_run_names_the_operations_and_the_money_that_it_saves() {
    need!("operations and money", "nbdkit");
    let Home { dir, socket, disk, uri, .. } = Home::new();
    File::options().write(true).open(&disk).unwrap().set_len(80 << 30).unwrap();
    let _kit = Nbdkit::with(&socket, &disk, &[], &[]);
    let args = ["--model", "cloud-hdd-metered", "--area-dir", ".", "--cache", "16MiB"];
    let (server, mut client) = crate::place::serve(dir.path(), &uri, &args);
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sample/desktop.trace.zst");
    let options = OpenOptions { event: Event::Issue, ..OpenOptions::default() };
    let mut reader = Source::new(sample).open(&options).unwrap();
    let mut requests = 0;
    while let Some(record) = reader.next_record().unwrap() {
        let r = record.request;
        if r.op == Op::Read && r.extent.end().0 <= (80 << 30) / 512 {
            client.read(r.extent.start.0 * 512, r.extent.bytes().0 as u32).unwrap();
            requests += 1;
        }
    }
    drop(client);
    let said = |state: &serde_json::Value| {
        let number = |field: &str| state["operations"][field].as_f64().unwrap();
        (number("now"), number("vanilla"), number("now_usd"), number("vanilla_usd"))
    };
    let state = host::status(&uri, &[]);
    let (now, vanilla, now_usd, vanilla_usd) = said(&state);
    assert!(requests > 20_000 && vanilla > 10_000.0, "{requests} requests: {state}");
    assert!(now < 0.8 * vanilla && now_usd < 0.8 * vanilla_usd, "{state}");
    eprintln!("{now} operations for {vanilla}, ${now_usd:.6} for ${vanilla_usd:.6}");
    let counts = server.stop();
    assert!(said(&counts).0 >= now, "{counts}");
}
