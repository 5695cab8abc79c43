//! A home on another server: nbdkit, which is killed and started again while fio writes and
//! verifies, and is killed together with seekless while an area here has the newest data. Three
//! kills, 100 with SEEKLESS_LONG=1, N with SEEKLESS_KILLS=N.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use seekless_nbd::Options;
use seekless_serve::Address;
use seekless_serve::client::{Client, ClientError};

use crate::host::{self, Numbers, Server, attempt, run};
use crate::need;

/// nbdkit in the foreground; killed when dropped.
struct Nbdkit(Child);

impl Nbdkit {
    /// Each request takes a millisecond.
    fn start(socket: &Path, disk: &Path) -> Self {
        Self::with(socket, disk, &["--filter=delay"], &["rdelay=1ms", "wdelay=1ms"])
    }

    fn with(socket: &Path, disk: &Path, filters: &[&str], settings: &[&str]) -> Self {
        let _ = std::fs::remove_file(socket);
        let mut command = Command::new("nbdkit");
        command.args(["-f", "--exit-with-parent"]).args(filters).arg("-U").arg(socket);
        command.arg("file").arg(disk).args(settings);
        let kit = Self(command.stdin(Stdio::null()).spawn().unwrap());
        let begun = Instant::now();
        while std::os::unix::net::UnixStream::connect(socket).is_err() {
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
fn fio_notices_nothing_of_a_home_whose_server_is_killed() {
    need!("elsewhere", host::programs(&["nbdkit", "fio", "timeout"]));
    let dir = tempfile::tempdir().unwrap();
    let (socket, disk) = (dir.path().join("home"), dir.path().join("disk"));
    std::fs::File::create(&disk).unwrap().set_len(64 << 20).unwrap();
    let mut kit = Nbdkit::start(&socket, &disk);
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    let front = dir.path().join("front");
    let listen = format!("unix:{}", front.display());
    let args = ["--nbd", &listen, "--area-dir", ".", "--optimized", "16MiB", "--cache", "1MiB"];
    let server = Server::start(dir.path(), uri.as_ref(), None, &args);
    let fio = |seconds: u64, seed: u64| {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=2", "900", "fio", "--name=verify", "--ioengine=nbd"]);
        command.arg(format!("--uri=nbd+unix:///?socket={}", front.display()));
        command.args(["--size=32m", "--bs=4k", "--rw=randrw", "--iodepth=8", "--fsync=50"]);
        command.args(["--verify=crc32c", "--verify_backlog=64", "--time_based"]);
        command.arg(format!("--runtime={seconds}")).arg(format!("--randseed={seed}"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let kills = host::rounds("SEEKLESS_KILLS", 3, 100);
    let fio = fio(2 + kills / 2, 1);
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(300));
        drop(kit);
        kit = Nbdkit::start(&socket, &disk);
    }
    let output = fio.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}", String::from_utf8_lossy(&output.stdout));
    let counts = server.stop();
    let elsewhere = &counts["elsewhere"];
    assert!(elsewhere["reconnects"].as_u64().unwrap() >= kills, "{elsewhere}");
    assert!(elsewhere["away_s"].as_f64().unwrap() > 0.0, "{elsewhere}");
    drop(kit);
    // A server that is not there is named, and so is what to do about an area.
    let refused = attempt([crate::PROGRAM, "serve", &uri, "--nbd", &listen]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("cannot connect to nbd+unix"), "{said}");
}

/// Filters that break connections, fail and wait. A failed request is the client's to see, and no
/// byte may be wrong; the retry filter hides what it can.
#[test]
fn fio_verifies_through_filters_that_fail_and_retry() {
    need!("filters", host::programs(&["nbdkit", "fio", "timeout"]));
    let dir = tempfile::tempdir().unwrap();
    let (socket, disk) = (dir.path().join("home"), dir.path().join("disk"));
    File::create(&disk).unwrap().set_len(64 << 20).unwrap();
    let filters = ["--filter=retry-request", "--filter=error", "--filter=delay"];
    let settings =
        ["retry-request-delay=0", "retry-request-retries=20", "error=EIO", "error-rate=5%"];
    let delays = ["rdelay=1ms", "wdelay=1ms"];
    let settings: Vec<&str> = settings.into_iter().chain(delays).collect();
    let kit = Nbdkit::with(&socket, &disk, &filters, &settings);
    let (uri, front) = (uri_of(&socket), dir.path().join("front"));
    let listen = format!("unix:{}", front.display());
    let args = ["--nbd", &listen, "--area-dir", ".", "--optimized", "16MiB", "--cache", "1MiB"];
    let server = Server::start(dir.path(), uri.as_ref(), None, &args);
    let mut command = Command::new("timeout");
    command.args(["--kill-after=2", "100", "fio", "--name=verify", "--ioengine=nbd"]);
    command.arg(format!("--uri={}", uri_of(&front).display()));
    command.args(["--size=8m", "--bs=4k", "--rw=randrw", "--iodepth=8", "--verify=crc32c"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(server.stop()["elsewhere"]["reconnects"], 0);
    drop(kit);
}

fn uri_of(socket: &Path) -> PathBuf {
    PathBuf::from(format!("nbd+unix:///?socket={}", socket.display()))
}

const BLOCK: usize = 4096;
const BLOCKS: u64 = 1024;

/// What block `number` holds after its writing `writing`.
fn block(number: u64, writing: u64) -> Vec<u8> {
    if writing == 0 {
        return vec![0; BLOCK];
    }
    let mut bytes = [number.to_le_bytes(), writing.to_le_bytes()].concat();
    bytes.extend(Numbers::new(number << 32 | writing).bytes(BLOCK - bytes.len()));
    bytes
}

/// Of each block, the writing that a flush has covered, and the last one that was begun.
struct Blocks(Vec<(u64, u64)>);

impl Blocks {
    fn new() -> Self {
        Self(vec![(0, 0); BLOCKS as usize])
    }

    /// Writes and reads until the connection breaks. Some blocks are used far more than others, and
    /// are read in an order that repeats.
    fn go_on(&mut self, client: &mut Client, numbers: &mut Numbers) -> ClientError {
        loop {
            if let Err(e) = self.step(client, numbers) {
                return e;
            }
        }
    }

    fn step(&mut self, client: &mut Client, numbers: &mut Numbers) -> Result<(), ClientError> {
        let mut written = Vec::new();
        for _ in 0..1 + numbers.below(16) {
            let most = if numbers.below(2) == 0 { 32 } else { BLOCKS };
            let number = numbers.below(most);
            let last = &mut self.0[number as usize].1;
            *last += 1;
            written.push((number, *last));
            client.write(number * BLOCK as u64, &block(number, *last))?;
        }
        for number in (0..BLOCKS).step_by(7).take(40) {
            let found = client.read(number * BLOCK as u64, BLOCK as u32)?;
            let last = self.0[number as usize].1;
            assert!(found == block(number, last), "block {number} is not of writing {last}");
        }
        client.flush()?;
        for (number, writing) in written {
            self.0[number as usize].0 = writing;
        }
        Ok(())
    }

    /// Holds all blocks against what was made durable. What is found counts from now on.
    fn check(&mut self, after: &str, mut read: impl FnMut(u64) -> Vec<u8>) {
        for (number, (durable, last)) in (0..).zip(&mut self.0) {
            let found = read(number);
            let writing = u64::from_le_bytes(found[8..16].try_into().unwrap());
            assert!(
                (*durable..=*last).contains(&writing) && found == block(number, writing),
                "{after}: block {number} is of writing {writing}; durable is {durable}, begun {last}"
            );
            *last = writing;
        }
    }
}

#[test]
fn an_area_here_and_its_home_elsewhere_survive_kills_with_writes_passed_on() {
    need!("elsewhere", host::programs(&["nbdkit"]));
    survives("writethrough");
}

#[test]
fn an_area_here_and_its_home_elsewhere_survive_kills_with_writes_absorbed() {
    need!("elsewhere", host::programs(&["nbdkit"]));
    survives("writeback");
}

/// nbdkit keeps writes in a cache of its own until a flush, and loses them when it is killed. A kill
/// hits seekless, nbdkit, or both at once.
fn survives(mode: &str) {
    let dir = tempfile::tempdir().unwrap();
    let (socket, disk) = (dir.path().join("home"), dir.path().join("disk"));
    File::create(&disk).unwrap().set_len(64 << 20).unwrap();
    let kit = || Nbdkit::with(&socket, &disk, &["--filter=cache"], &["cache=writeback"]);
    let mut home = Some(kit());
    let (uri, area) = (uri_of(&socket), dir.path().join("area"));
    let (uri, area) = (uri.to_str().unwrap(), area.to_str().unwrap());
    let seekless = crate::PROGRAM;
    let sizes = ["--optimized", "16MiB", "--mode", mode];
    run([&[seekless, "volume", "format", uri, "--at", area], &sizes[..]].concat());
    let front = dir.path().join("front");
    let listen = format!("unix:{}", front.display());
    let args = ["--nbd", &listen, "--area", area, "--learn-every", "200ms"];
    let more = ["--policy", "borg:planning=anew", "--cache", "1MiB"];
    let start = || Server::start(dir.path(), uri.as_ref(), None, &[&args[..], &more].concat());
    let connect = || {
        let address = Address::Unix(front.clone());
        Client::connect_to(&address, Options::default(), Duration::from_secs(60)).unwrap()
    };
    let seed = std::env::var("SEEKLESS_SEED").ok().map(|n| n.parse().unwrap());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("SEEKLESS_SEED={seed}");
    let (mut numbers, mut blocks) = (Numbers::new(seed), Blocks::new());
    let mut server = Some(start());
    for kill in 0..host::rounds("SEEKLESS_KILLS", 6, 60) {
        let mut client = connect();
        let after = format!("kill {kill}");
        let ended = std::thread::scope(|scope| {
            let worker = scope.spawn(|| blocks.go_on(&mut client, &mut numbers));
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
        server = Some(start());
        let mut client = connect();
        blocks.check(&after, |n| client.read(n * BLOCK as u64, BLOCK as u32).unwrap());
        let bare = std::fs::read(&disk).unwrap();
        assert_eq!(bare.starts_with(b"SEEKLESS"), mode == "writeback", "{after}: the guard");
    }
    let mut client = connect();
    client.flush().unwrap();
    server.take().unwrap().stop();
    run([seekless, "volume", "detach", uri, "--area", area]);
    drop(home);
    let bare = std::fs::read(&disk).unwrap();
    blocks.check("all is at home", |n| bare[n as usize * BLOCK..][..BLOCK].to_vec());
    assert!(blocks.0.iter().any(|(_, last)| *last > 0), "nothing was written");
}
