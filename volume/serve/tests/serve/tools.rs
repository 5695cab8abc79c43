//! Other NBD clients: qemu-io, libnbd's nbdinfo and nbdsh, fio's nbd engine. Each test reports a
//! missing program.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seekless_block::{Bytes, Extent, Lba};
use seekless_learn::{Copy, Plan};
use seekless_serve::{Address, Backing, Builder, ServerHandle};

use crate::Dir;

const SIZE: u64 = 64 << 20;

/// The output of a program; `None`, with a message, if it cannot run.
fn run(test: &str, program: &str, args: &[&str]) -> Option<Output> {
    match Command::new(program).args(args).output() {
        Ok(output) => Some(output),
        Err(e) => {
            eprintln!("SKIPPED {test}: {program} does not run here ({e})");
            None
        }
    }
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// A server on a file, its socket, and its URI.
fn serve(dir: &Dir) -> (ServerHandle, String) {
    let socket = dir.path("s");
    let server = Builder::new(Backing::Path(dir.file("disk", SIZE)))
        .area(Bytes(SIZE / 2))
        .listen(Address::Unix(socket.clone()))
        .spawn()
        .unwrap();
    (server, format!("nbd+unix:///?socket={}", socket.display()))
}

#[test]
fn nbdinfo_sees_everything_offered() {
    let dir = Dir::new("nbdinfo");
    let (_server, uri) = serve(&dir);
    let Some(output) = run("nbdinfo_sees_everything_offered", "nbdinfo", &[&uri]) else { return };
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    for line in [
        "newstyle-fixed without TLS, using structured packets",
        "export-size: 67108864",
        "base:allocation",
        "is_read_only: false",
        "can_cache: true",
        "can_df: true",
        "can_fast_zero: true",
        "can_flush: true",
        "can_fua: true",
        "can_multi_conn: true",
        "can_trim: true",
        "can_zero: true",
        "block_size_minimum: 512",
        "block_size_maximum: 33554432",
    ] {
        assert!(text.contains(line), "no '{line}' in:\n{text}");
    }
    let list = run("nbdinfo --list", "nbdinfo", &["--list", &uri]).unwrap();
    assert!(list.status.success() && String::from_utf8_lossy(&list.stdout).contains("export=\"\""));
}

#[test]
fn qemu_io_reads_what_it_wrote() {
    let dir = Dir::new("qemu-io");
    let (server, uri) = serve(&dir);
    server.install(some_plan(0)).unwrap();
    let commands = [
        "write -P 1 0 4M",
        "write -f -P 2 64k 512",
        "read -P 1 0 64k",
        "read -P 2 64k 512",
        "write -z 128k 128k",
        "read -P 0 128k 128k",
        "write -z -u 1M 1M",
        "read -P 0 1M 1M",
        "discard 2M 1M",
        "flush",
        "aio_write -P 7 8M 1M",
        "aio_write -P 8 9M 1M",
        "aio_flush",
        "read -P 7 8M 1M",
        "read -P 8 9M 1M",
        "write -P 9 -s 512 12M 513",
        "map",
    ];
    let mut args = vec!["-f", "raw"];
    for c in commands.iter().filter(|c| !c.contains("-s 512")) {
        args.extend(["-c", *c]);
    }
    args.push(&uri);
    let Some(output) = run("qemu_io_reads_what_it_wrote", "qemu-io", &args) else { return };
    let text = text(&output);
    assert!(output.status.success() && !text.contains("failed"), "{text}");
    assert!(!text.contains("error"), "{text}");
}

#[test]
fn nbdsh_commands_and_errors() {
    let dir = Dir::new("nbdsh");
    let (_server, _uri) = serve(&dir);
    let script = format!(
        r#"
import errno
h.add_meta_context("base:allocation")
h.connect_unix("{}")
def fails(call, code):
    try:
        call()
    except nbd.Error as e:
        assert e.errnum == code, (e.errnum, code)
    else:
        raise AssertionError("no error")
h.set_strict_mode(0)
data = bytes(range(256)) * 131072
h.pwrite(data, 0)
assert h.pread(len(data), 0) == data
h.pwrite(b"F" * 512, 1024, nbd.CMD_FLAG_FUA)
h.zero(4096, 8192, nbd.CMD_FLAG_NO_HOLE)
assert h.pread(4096, 8192) == bytes(4096)
h.zero(4096, 65536, nbd.CMD_FLAG_FAST_ZERO)
h.trim(1 << 20, 4 << 20)
h.cache(1 << 20, 0)
h.flush()
fails(lambda: h.pread(512, 64 << 20), errno.EINVAL)
fails(lambda: h.pwrite(b"x" * 512, 64 << 20), errno.ENOSPC)
fails(lambda: h.pread(10, 3), errno.EINVAL)
runs = []
def extent(context, offset, entries, err):
    runs.extend(entries)
h.block_status(8 << 20, 0, extent)
assert sum(runs[0::2]) == 8 << 20, runs
assert 3 in runs[1::2] and 0 in runs[1::2], runs
buf = h.pread_structured(65536, 0, lambda *a: None, nbd.CMD_FLAG_DF)
assert buf[:1024] == data[:1024]
h.shutdown()
print("all well")
"#,
        dir.path("s").display()
    );
    // nbdsh runs the first python3 of the path; libnbd's module is the system's.
    let found = Command::new("nbdsh").env("PATH", "/usr/bin:/bin").args(["-c", &script]).output();
    let output = match found {
        Ok(output) if !text(&output).contains("No module named") => output,
        other => {
            eprintln!("SKIPPED nbdsh_commands_and_errors: nbdsh does not run here ({other:?})");
            return;
        }
    };
    let text = text(&output);
    assert!(text.contains("all well"), "{text}");
}

/// Copies of a quarter of the device in turn.
fn some_plan(turn: u64) -> Plan {
    let copies = (0..256)
        .map(|i| Copy { home: Extent::new((i * 4 + turn % 4) * 128, 128), place: Lba(i * 128) })
        .collect();
    Plan { copies }
}

#[test]
fn fio_verifies_while_layouts_change() {
    let dir = Dir::new("fio");
    let (server, uri) = serve(&dir);
    let name = "fio_verifies_while_layouts_change";
    match run(name, "fio", &["--enghelp"]) {
        Some(output) if text(&output).contains("nbd") => {}
        Some(_) => return eprintln!("SKIPPED {name}: this fio has no nbd engine"),
        None => return,
    }
    let over = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        let installer = scope.spawn(|| {
            let mut turn = 0;
            while !over.load(Ordering::Relaxed) {
                server.install(some_plan(turn)).unwrap();
                server.wait_settled(Duration::from_millis(200)).unwrap();
                turn += 1;
            }
            turn
        });
        let uri = format!("--uri={uri}");
        let output = run(
            name,
            "fio",
            &[
                "--name=verify",
                "--ioengine=nbd",
                &uri,
                "--rw=randrw",
                "--bsrange=512-128k",
                "--blockalign=512",
                "--size=32m",
                "--iodepth=16",
                "--verify=crc32c",
                "--verify_fatal=1",
                "--verify_state_save=0",
                "--verify_backlog=256",
                "--randseed=9",
                "--loops=2",
            ],
        );
        over.store(true, Ordering::Relaxed);
        assert!(installer.join().unwrap() > 1);
        output.unwrap()
    });
    let text = text(&output);
    assert!(output.status.success() && text.contains("err= 0"), "{text}");
    assert!(server.stop().unwrap().engine.copy_reads > 0);
}
