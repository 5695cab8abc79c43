//! Other people's NBD programs: what fio writes it finds again, and what one program writes another
//! reads, while the server learns.

use crate::host::{self, Server, run};
use crate::need;

/// The distribution's Python has the library, whichever other one comes first in the path.
const SYSTEM: [&str; 2] = ["env", "PATH=/usr/bin:/bin"];

fn nbdsh(uri: &str, command: &str) {
    run([SYSTEM[0], SYSTEM[1], "nbdsh", "-u", uri, "-c", command]);
}

#[test]
fn fio_qemu_and_libnbd_find_what_was_written_while_it_learns() {
    need!("NBD programs", "fio qemu-io nbdsh nbdcopy timeout");
    let library = host::attempt([SYSTEM[0], SYSTEM[1], "python3", "-c", "import nbd"]);
    need!("NBD programs", (!library.status.success()).then(|| "no python3-libnbd".to_owned()));
    let engines = run(["fio", "--enghelp"]);
    need!("NBD programs", (!engines.contains("nbd")).then(|| "fio has no nbd engine".to_owned()));

    let dir = tempfile::tempdir().unwrap();
    let (image, socket) = (dir.path().join("disk.img"), dir.path().join("nbd.sock"));
    let address = format!("unix:{}", socket.display());
    let args = "--policy borg:planning=anew --learn-every 200ms --background-rate 0";
    let more = format!("--size 64MiB --optimized 64MiB --cache 1MiB --nbd {address}");
    let server = Server::line(dir.path(), &image, None, &format!("{args} {more}"));
    let uri = format!("nbd+unix:///?socket={}", socket.display());

    let fio = |options: &str| {
        let uri = format!("--uri={uri}");
        let always = ["fio", "--name=verify", "--ioengine=nbd", &uri, "--size=32m", "--iodepth=16"];
        run(always.into_iter().chain(options.split(' ')));
    };
    let verify = "--rw=randwrite --verify=crc32c --verify_fatal=1 --verify_state_save=0";
    // Enough readings that copies are worth it; the next writes then go over what has copies.
    fio(&format!("{verify} --bs=64k"));
    fio("--rw=read --bs=64k --loops=4");
    server.learn();
    fio("--rw=read --bs=64k");
    fio(&format!("{verify} --bsrange=512-16k --randseed=2"));
    fio(&format!("{verify} --bsrange=4k-64k --randseed=3"));

    run(["qemu-io", "-f", "raw", "-c", "write -P 0xa5 40M 192k", "-c", "flush", &uri]);
    let equal = "h.pread(0x30000, 40 << 20) == b'\\xa5' * 0x30000";
    nbdsh(&uri, &format!("assert {equal}"));
    nbdsh(&uri, "h.pwrite(b'\\x5a' * 512, (40 << 20) + 512); h.flush()");
    let read = "read -P 0x5a 41943552 512";
    run(["qemu-io", "-f", "raw", "-c", read, "-c", "read -P 0xa5 41944064 512", &uri]);

    let copy = dir.path().join("copy.img");
    run(["nbdcopy".as_ref(), uri.as_ref(), copy.as_os_str()]);
    let counts = server.stop();
    assert!(counts["copy_reads"].as_u64().unwrap() > 0, "{counts:#}");
    assert!(std::fs::read(copy).unwrap() == std::fs::read(image).unwrap(), "home differs");
}
