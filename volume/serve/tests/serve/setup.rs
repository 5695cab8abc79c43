//! Start and stop: refusals and their messages; other connections than a unix socket.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use seekless_block::{Bytes, Extent, Flags, Op};
use seekless_host::HostError;
use seekless_nbd::{Errno, STATE_HOLE, STATE_ZERO, TransmissionFlags};
use seekless_serve::area::{AreaPlacement, MakeOptions, Share, make, resize};
use seekless_serve::client::{Client, ClientError};
use seekless_serve::{
    About, Address, Backing, Builder, Learning, MakeShadow, ServeError, TlsFiles,
};

use crate::{Dir, client};

fn path(dir: &Dir, name: &str, bytes: u64) -> Builder {
    Builder::new(Backing::Path(dir.file(name, bytes)))
}

#[test]
fn what_is_no_disk_is_refused() {
    let dir = Dir::new("refused");
    let odd = path(&dir, "odd", 1000).spawn().err().unwrap();
    assert!(matches!(odd, ServeError::Host(HostError::Size { bytes: 1000, .. })), "{odd}");
    assert!(odd.to_string().contains("1000 bytes is not a multiple of 512"));
    let directory =
        Builder::new(Backing::Path(dir.0.path().to_owned())).read_only(true).spawn().err().unwrap();
    assert!(matches!(directory, ServeError::Host(HostError::NotADisk(_))), "{directory}");
    let none = Builder::new(Backing::Path(dir.path("none"))).spawn().err().unwrap();
    assert!(matches!(none, ServeError::Host(HostError::Path { what: "open it", .. })), "{none}");
}

#[test]
fn two_servers_never_share_a_file() {
    let dir = Dir::new("locked");
    let file = dir.file("disk", 4096);
    let first = Builder::new(Backing::Path(file.clone())).spawn().unwrap();
    let second = Builder::new(Backing::Path(file.clone())).spawn().err().unwrap();
    assert!(matches!(second, ServeError::Host(HostError::Locked { .. })), "{second}");
    let reader = Builder::new(Backing::Path(file.clone())).read_only(true).spawn();
    assert!(matches!(reader.err(), Some(ServeError::Host(HostError::Locked { .. }))));
    first.stop().unwrap();
    // Readers share.
    let a = Builder::new(Backing::Path(file.clone())).read_only(true).spawn().unwrap();
    let b = Builder::new(Backing::Path(file)).read_only(true).spawn().unwrap();
    let mut c = client(&b);
    assert!(c.flags().contains(TransmissionFlags::READ_ONLY));
    assert!(matches!(c.write(0, &[1; 512]), Err(ClientError::Errno(Errno::Perm))));
    assert_eq!(c.read(0, 512).unwrap(), [0; 512]);
    drop(a);
}

#[test]
fn sockets_are_taken_over_only_from_the_dead() {
    let dir = Dir::new("socket");
    let socket = dir.path("s");
    let listen = |name: &str| path(&dir, name, 4096).listen(Address::Unix(socket.clone()));
    let first = listen("a").spawn().unwrap();
    let refused = listen("b").spawn().err().unwrap();
    assert!(refused.to_string().contains("another server listens there"), "{refused}");
    UnixStream::connect(&socket).unwrap();
    first.stop().unwrap();
    assert!(!socket.exists(), "the name is removed at the end");
    // A dead server's socket.
    drop(UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    listen("b").spawn().unwrap().stop().unwrap();
    // No socket at all.
    std::fs::write(&socket, b"precious").unwrap();
    let refused = listen("b").spawn().err().unwrap();
    assert!(refused.to_string().contains("not a socket"), "{refused}");
    assert_eq!(std::fs::read(&socket).unwrap(), b"precious");
}

#[test]
fn tcp_and_export_names() {
    let server = Builder::new(Backing::Memory(Bytes(1 << 20)))
        .name("disk")
        .listen("tcp:127.0.0.1:0".parse().unwrap())
        .spawn()
        .unwrap();
    let address = Address::Tcp(server.tcp_addresses()[0].to_string());
    let wrong = Client::connect(&address).err().unwrap();
    assert!(matches!(wrong, ClientError::Refused(0x8000_0006)), "{wrong}");
    let stream = std::net::TcpStream::connect(server.tcp_addresses()[0]).unwrap();
    let options = seekless_nbd::Options { export: "disk".into(), ..Default::default() };
    let mut c = Client::new(Box::new(stream), options).unwrap();
    assert_eq!(c.size(), 1 << 20);
    // Larger than the receive buffer, the inline limit and the copy limit.
    let data: Vec<u8> = (0..1 << 20).map(|i| (i % 251) as u8).collect();
    c.write(0, &data).unwrap();
    assert!(c.read(0, 1 << 20).unwrap() == data);
    for len in [512, 4096, 16 << 10, 17 << 10, 128 << 10, 129 << 10] {
        assert!(c.read(512, len).unwrap() == data[512..512 + len as usize], "{len}");
        c.write_fua(1024, &data[..len as usize]).unwrap();
        assert!(c.read(1024, len).unwrap() == data[..len as usize], "{len}");
        c.write(0, &data).unwrap();
    }
}

#[test]
fn holes_are_reported_and_writes_past_the_end_refused() {
    let dir = Dir::new("holes");
    let server = path(&dir, "disk", 1 << 20).spawn().unwrap();
    let mut c = client(&server);
    let hole = STATE_HOLE | STATE_ZERO;
    assert_eq!(c.block_status(0, 1 << 20).unwrap(), [(1 << 20, hole)]);
    c.write(65_536, &[1; 65_536]).unwrap();
    assert_eq!(
        c.block_status(0, 1 << 20).unwrap(),
        [(65_536, hole), (65_536, 0), ((1 << 20) - 131_072, hole)]
    );
    c.trim(65_536, 65_536).unwrap();
    assert_eq!(c.block_status(4096, 8192).unwrap(), [(8192, hole)]);
    let past = c.write((1 << 20) - 512, &[1; 1024]);
    assert!(matches!(past, Err(ClientError::Errno(Errno::NoSpc))));
    assert!(matches!(c.read(1, 512), Err(ClientError::Errno(Errno::Inval))));
}

#[test]
fn other_front_ends_come_in_by_injection() {
    let server = Builder::new(Backing::Memory(Bytes(1 << 20))).spawn().unwrap();
    let way_in = server.injector();
    let call = |op, at, len, data| way_in.call(op, Extent::new(at, len), Flags::NONE, data);
    call(Op::Write, 8, 2, vec![7; 1024]).unwrap();
    assert_eq!(call(Op::Read, 9, 1, vec![0; 512]).unwrap(), [7; 512]);
    call(Op::WriteZeroes, 8, 1, vec![]).unwrap();
    call(Op::Flush, 0, 0, vec![]).unwrap();
    assert_eq!(client(&server).read(8 * 512, 1024).unwrap()[..512], [0; 512]);
    assert_eq!(call(Op::Read, 0, 2, vec![0; 512]), Err(Errno::Inval), "too little room");
    assert_eq!(call(Op::Read, 2048, 1, vec![0; 512]), Err(Errno::Inval), "past the end");
    server.stop().unwrap();
    assert_eq!(call(Op::Read, 0, 1, vec![0; 512]), Err(Errno::Shutdown));
}

#[test]
fn what_was_written_survives_a_restart() {
    let dir = Dir::new("restart");
    let file = dir.file("disk", 1 << 20);
    let start = || Builder::new(Backing::Path(file.clone())).area(Bytes(1 << 19)).spawn().unwrap();
    let server = start();
    client(&server).write(4096, &[9; 8192]).unwrap();
    server.stop().unwrap();
    let names: Vec<_> = std::fs::read_dir(dir.0.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "the optimized area leaves no file: {names:?}");
    assert_eq!(client(&start()).read(4096, 8192).unwrap(), [9; 8192]);
}

/// An area beside a disk, with their sizes and the write buffer in percent.
fn new_area(dir: &Dir, (disk, size): (u64, u64), write_buffer_percent: u8) -> (PathBuf, PathBuf) {
    let (file, area) = (dir.file("disk", disk), dir.path("area"));
    let at = AreaPlacement::Beside(area.clone());
    let size = Some(Share::Bytes(Bytes(size)));
    make(&file, &MakeOptions { size, write_buffer_percent, ..MakeOptions::new(at) }).unwrap();
    (file, area)
}

/// An area of 16 MiB beside a disk of 64 MiB, after a volume that was served and has ended in order.
fn used_area(dir: &Dir) -> (PathBuf, PathBuf) {
    let (file, area) = new_area(dir, (64 << 20, 16 << 20), 50);
    let server = lasting(&file, &area).spawn().unwrap();
    client(&server).write(4096, &[9; 8192]).unwrap();
    server.stop().unwrap();
    (file, area)
}

fn lasting(file: &Path, area: &Path) -> Builder {
    Builder::new(Backing::Path(file.to_owned())).area_path(area.to_owned())
}

/// It would be recovered, its copies would be in doubt, and its learned data would be gone.
#[test]
fn a_start_that_is_refused_leaves_the_area_detached_in_order() {
    let dir = Dir::new("refused-start");
    let (file, area) = used_area(&dir);
    let before = std::fs::read(&area).unwrap();
    let socket = dir.path("s");
    let _other = UnixListener::bind(&socket).unwrap();
    let taken = lasting(&file, &area).listen(Address::Unix(socket)).spawn().err().unwrap();
    assert!(taken.to_string().contains("another server listens there"), "{taken}");
    let tls = TlsFiles { cert: dir.path("none"), key: dir.path("none"), ca: None };
    let wrong = lasting(&file, &area).tls(tls).spawn().err().unwrap();
    assert!(wrong.to_string().contains("cannot be used for TLS"), "{wrong}");
    assert!(std::fs::read(&area).unwrap() == before, "the area was attached");
    let server = lasting(&file, &area).spawn().unwrap();
    assert!(server.attached().is_some_and(|found| found.clean && found.trusted));
    server.stop().unwrap();
}

/// The guard compares the volume with a vanilla system that has the same write buffer.
#[test]
fn the_guard_knows_the_write_buffer_of_the_area() {
    let dir = Dir::new("guard-buffer");
    let (file, area) = used_area(&dir);
    let (send, made) = std::sync::mpsc::channel();
    let about = About { stand_in: true, ..About::default() };
    let shadow: MakeShadow = Box::new(move |config: &seekless_engine::Config| {
        send.send(*config).unwrap();
        Err("no shadow in this test".to_owned())
    });
    lasting(&file, &area).watched(about, Some(shadow)).spawn().unwrap().stop().unwrap();
    assert!(made.recv().unwrap().write_buffer_percent > 0);
}

/// The vanilla system of the guard has a map of its write buffer too.
#[test]
fn the_least_memory_grows_with_the_write_buffer() {
    let least = |percent: u8| {
        let dir = Dir::new(&format!("least-{percent}"));
        let (file, area) = new_area(&dir, (2 << 30, 512 << 20), percent);
        let server = lasting(&file, &area).learning(Learning::default());
        match server.memory(Some(Bytes(1 << 20)), None).spawn().err() {
            Some(ServeError::Memory { least, .. }) => least.0,
            other => panic!("{other:?}"),
        }
    };
    let (small, large) = (least(10), least(90));
    assert!(large > small, "{small} and {large} bytes");
}

#[test]
fn a_larger_area_has_its_space() {
    let dir = Dir::new("grown");
    let (file, area) = used_area(&dir);
    let holes = || {
        let meta = area.metadata().unwrap();
        meta.len().saturating_sub(meta.blocks() * 512)
    };
    if holes() > 0 {
        eprintln!("SKIPPED a_larger_area_has_its_space: no fallocate here");
        return;
    }
    resize(&file, Some(&area), Some(Bytes(32 << 20))).unwrap();
    assert!(area.metadata().unwrap().len() >= 32 << 20);
    // An erased superblock is one.
    assert!(holes() <= 4096, "{}", holes());
    // More than any file can have.
    resize(&file, Some(&area), Some(Bytes(1 << 60))).unwrap_err();
    let server = lasting(&file, &area).spawn().unwrap();
    assert_eq!(client(&server).read(4096, 8192).unwrap(), [9; 8192]);
    server.stop().unwrap();
}
