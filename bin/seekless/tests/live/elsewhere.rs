//! A home on another server: nbdkit, which is killed and started again while fio writes and
//! verifies. Three kills, 100 with SEEKLESS_LONG=1, N with SEEKLESS_KILLS=N.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::host::{self, Server, attempt};
use crate::need;

/// nbdkit in the foreground; killed when dropped.
struct Nbdkit(Child);

impl Nbdkit {
    fn start(socket: &std::path::Path, disk: &std::path::Path) -> Self {
        let _ = std::fs::remove_file(socket);
        let mut command = Command::new("nbdkit");
        command.args(["-f", "--exit-with-parent", "--filter=delay", "-U"]).arg(socket);
        command.arg("file").arg(disk).args(["rdelay=1ms", "wdelay=1ms"]);
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
    server.stop();
    drop(kit);
    // A server that is not there is named, and so is what to do about an area.
    let refused = attempt([crate::PROGRAM, "serve", &uri, "--nbd", &listen]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("cannot connect to nbd+unix"), "{said}");
}
