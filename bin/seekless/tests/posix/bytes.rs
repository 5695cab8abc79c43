//! What is in a file: opening, reading, writing, cutting, mapping it, and holes.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FlockOperation, Mode, OFlags, SeekFrom, StatxFlags,
    copy_file_range, fallocate, flock, ftruncate, linkat, seek, statx, symlink, unlink,
};
use rustix::io::Errno;

use crate::case::{ALICE, Case, Check, chmod, chown, open};
use crate::sys::{self, Map};

pub(crate) const CHECKS: &[(&str, Check)] = &[
    ("open", opening),
    ("open: flags", open_flags),
    ("open: access mode", access_modes),
    ("O_TMPFILE", files_without_names),
    ("O_DIRECT", direct),
    ("programs being written and run", text_busy),
    ("truncate", cutting),
    ("writes beyond the end", beyond_the_end),
    ("sizes around what groups keep", around_the_limit),
    ("fallocate", allocating),
    ("fallocate: holes and ranges", punching),
    ("holes", holes),
    ("copy_file_range", copying),
    ("mmap", mapping),
    ("mmap and other users", mapping_and_others),
    ("unlink while open", unlinked_and_open),
    ("O_APPEND, several writers", appending),
    ("several writers, one file", writing_together),
    ("locks", locks),
    ("large offsets", large_offsets),
    ("fsync", syncing),
];

const RW: OFlags = OFlags::RDWR;

fn opening(c: &Case<'_>) {
    let (file, dir) = (c.file("f", b"bytes"), c.dir("d"));
    c.err("nothing", open(&c.at("nothing"), RW, 0), &[Errno::NOENT]);
    c.err("below a file", open(&file.join("x"), RW, 0), &[Errno::NOTDIR]);
    c.err("a file with a slash behind", open(&c.at("f/"), OFlags::RDONLY, 0), &[Errno::NOTDIR]);
    c.err("a directory, to write", open(&dir, OFlags::WRONLY, 0), &[Errno::ISDIR]);
    c.err("a directory, to create", open(&dir, RW | OFlags::CREATE, 0o644), &[Errno::ISDIR]);
    c.err("a directory, to cut", open(&dir, OFlags::RDONLY | OFlags::TRUNC, 0), &[Errno::ISDIR]);
    c.err(
        "a file as a directory",
        open(&file, OFlags::RDONLY | OFlags::DIRECTORY, 0),
        &[Errno::NOTDIR],
    );
    c.err("a name too long", open(&c.at(&"n".repeat(256)), RW, 0), &[Errno::NAMETOOLONG]);
    let _ = (symlink("f", c.at("soft")), symlink("gone", c.at("dangling")));
    c.err(
        "a link, not following",
        open(&c.at("soft"), OFlags::RDONLY | OFlags::NOFOLLOW, 0),
        &[Errno::LOOP],
    );
    let exclusive = RW | OFlags::CREATE | OFlags::EXCL;
    for name in ["f", "d", "soft", "dangling"] {
        c.err(
            &format!("exclusively, over {name}"),
            open(&c.at(name), exclusive, 0o644),
            &[Errno::EXIST],
        );
    }
    c.holds("what a dangling link leads to was not made", !c.at("gone").exists());
    c.ok("exclusively, a new one", open(&c.at("new"), exclusive, 0o600));
    let facts = c.stat(&c.at("new"));
    c.is("its mode and size", (facts.permissions(), facts.size), (0o600, 0));
    if let Some(dir) = c.ok("a directory", open(&dir, OFlags::RDONLY, 0)) {
        c.err("reading it", rustix::io::read(&dir, &mut [0; 9][..]), &[Errno::ISDIR]);
    }
}

fn open_flags(c: &Case<'_>) {
    let file = c.file("f", b"0123456789");
    if let Some(mut f) = c.ok("append", open(&file, RW | OFlags::APPEND, 0)) {
        c.ok("seek", f.seek(std::io::SeekFrom::Start(2)));
        c.ok("write", f.write_all(b"abc"));
        c.is("goes to the end", f.stream_position().ok(), Some(13));
        // Linux's pwrite appends as well.
        c.ok("pwrite", f.write_at(b"Z", 0));
    }
    c.reads("appended", &file, b"0123456789abcZ");
    c.ok("create what is there", open(&file, RW | OFlags::CREATE, 0o600));
    c.reads("leaves it", &file, b"0123456789abcZ");
    c.is("and its mode", c.stat(&file).permissions(), 0o644);
    c.ok("cut", open(&file, OFlags::WRONLY | OFlags::TRUNC, 0));
    c.reads("is empty", &file, b"");
    for (name, flag) in [("O_SYNC", OFlags::SYNC), ("O_DSYNC", OFlags::DSYNC)] {
        if let Some(f) = c.ok(name, open(&file, OFlags::WRONLY | flag, 0)) {
            c.ok("write", f.write_all_at(name.as_bytes(), 0));
        }
    }
    c.reads("written in step", &file, b"O_DSYNC");
    if let Some(f) = c.ok("O_PATH", open(&file, OFlags::PATH, 0)) {
        c.err("has no bytes", rustix::io::read(&f, &mut [0; 9][..]), &[Errno::BADF]);
        c.is("its size", c.fstat(&f).size, 7);
    }
    // Two openings have two offsets; two descriptors of one opening have one.
    let (Ok(mut a), Ok(mut b)) = (File::open(&file), File::open(&file)) else { return };
    let mut byte = [0; 1];
    c.ok("read", a.read_exact(&mut byte));
    let Some(mut same) = c.ok("dup", a.try_clone()) else { return };
    c.ok("read", same.read_exact(&mut byte));
    c.is("one offset", byte, *b"_");
    c.ok("read", b.read_exact(&mut byte));
    c.is("another offset", byte, *b"O");
}

fn access_modes(c: &Case<'_>) {
    let file = c.file("f", b"bytes");
    if let Some(f) = c.ok("for reading", open(&file, OFlags::RDONLY, 0)) {
        c.err("writing", rustix::io::pwrite(&f, b"x", 0), &[Errno::BADF]);
        c.err("cutting", ftruncate(&f, 0), &[Errno::INVAL, Errno::BADF]);
        c.err("allocating", fallocate(&f, FallocateFlags::empty(), 0, 9), &[Errno::BADF]);
        c.err("mapping for writing", Map::new(&f, 5, true, true).map(|_| ()), &[Errno::ACCESS]);
        if let Some(map) = c.ok("mapping for reading", Map::new(&f, 5, false, true)) {
            c.err("becoming writable", map.make_writable(), &[Errno::ACCESS]);
        }
    }
    if let Some(f) = c.ok("for writing", open(&file, OFlags::WRONLY, 0)) {
        c.err("reading", rustix::io::pread(&f, &mut [0; 9][..], 0), &[Errno::BADF]);
    }
    // The mode of a new file does not bind who made it.
    if let Some(f) = c.ok("made without any right", open(&c.at("none"), RW | OFlags::CREATE, 0)) {
        c.ok("is written", f.write_all_at(b"mine", 0));
        c.holds_bytes("and read", &f, b"mine");
    }
    let dir = c.dir("theirs");
    c.ok("chown", chown(&dir, ALICE));
    let made = ALICE.does(|| -> Result<(), Errno> {
        let file = open(&dir.join("none"), RW | OFlags::CREATE, 0)?;
        rustix::io::pwrite(&file, b"mine", 0)?;
        ftruncate(&file, 2)
    });
    c.ok("nor when it was not root", made);
    let again = ALICE.does(|| open(&dir.join("none"), OFlags::RDONLY, 0));
    c.err("but a second opening", again, &[Errno::ACCESS]);
    // Rights that are taken away leave open files alone.
    let kept = c.file("theirs/kept", b"");
    c.ok("chown", chown(&kept, ALICE));
    let wrote = ALICE.does(|| -> Result<(), Errno> {
        let file = open(&kept, RW, 0)?;
        rustix::fs::fchmod(&file, Mode::empty())?;
        rustix::io::pwrite(&file, b"still", 0).map(|_| ())
    });
    c.ok("writing after chmod 0", wrote);
    c.reads("is there", &kept, b"still");
}

fn files_without_names(c: &Case<'_>) {
    let Some(f) = c.ok("O_TMPFILE", open(&c.at(""), RW | OFlags::TMPFILE, 0o640)) else { return };
    c.ok("write", f.write_all_at(b"nameless", 0));
    c.is("no name", fs::read_dir(c.at("")).map(Iterator::count).ok(), Some(0));
    c.is("no link", c.fstat(&f).nlink, 0);
    c.ok("a name", linkat(f.as_fd(), "", CWD, c.at("named"), AtFlags::EMPTY_PATH));
    c.reads("is there", &c.at("named"), b"nameless");
}

/// A part of `room` that begins at a multiple of a page.
fn aligned(room: &mut [u8], len: usize) -> &mut [u8] {
    let skip = room.as_ptr().align_offset(4_096);
    &mut room[skip..skip + len]
}

fn direct(c: &Case<'_>) {
    let path = c.at("f");
    let Some(f) = c.ok("open", open(&path, RW | OFlags::CREATE | OFlags::DIRECT, 0o644)) else {
        return;
    };
    let mut room = vec![0; 1 << 17];
    let block = aligned(&mut room, 65_536);
    block.iter_mut().enumerate().for_each(|(i, b)| *b = (i / 512) as u8);
    c.ok("write", f.write_all_at(block, 0));
    c.ok("write in the middle", f.write_all_at(&block[4_096..8_192], 32_768));
    let mut wanted = block.to_vec();
    wanted.copy_within(4_096..8_192, 32_768);
    c.reads("seen through the cache", &path, &wanted);
    c.ok(
        "write through the cache",
        File::options().write(true).open(&path).and_then(|f| f.write_all_at(&[0xEE; 100], 5_000)),
    );
    wanted[5_000..5_100].fill(0xEE);
    block.fill(0);
    c.is("read", f.read_at(block, 0).ok(), Some(65_536));
    c.holds("sees what was written through the cache", *block == wanted[..]);
    c.is("read across the end", f.read_at(&mut block[..8_192], 61_440).ok(), Some(4_096));
    c.is("read at the end", f.read_at(&mut block[..4_096], 65_536).ok(), Some(0));
}

fn text_busy(c: &Case<'_>) {
    let program = c.at("program");
    let sleep = ["/bin/sleep", "/usr/bin/sleep"].map(Path::new).into_iter().find(|p| p.exists());
    let Some(sleep) = sleep else { return };
    c.ok("copy", fs::copy(sleep, &program));
    c.ok("chmod", chmod(&program, 0o755));
    let writer = c.ok("open", open(&program, OFlags::WRONLY, 0));
    let run = Command::new(&program).arg("0").status();
    let told = run.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO));
    c.err("running what is open for writing", told, &[Errno::TXTBSY]);
    drop(writer);
    // Another test's child, forked a moment ago, may still have a copy of the descriptor until it
    // executes.
    let child = (0..200).find_map(|_| {
        let child = Command::new(&program).arg("60").stdin(Stdio::null()).spawn();
        child.map_err(|_| std::thread::sleep(std::time::Duration::from_millis(10))).ok()
    });
    let Some(mut child) = c.ok("running it", child.ok_or("never ran")) else { return };
    c.err("writing what runs", open(&program, OFlags::WRONLY, 0), &[Errno::TXTBSY]);
    c.err("cutting what runs", sys::truncate(&program, 0), &[Errno::TXTBSY]);
    let emptying = open(&program, OFlags::RDONLY | OFlags::TRUNC, 0);
    c.err("emptying what runs", emptying, &[Errno::TXTBSY]);
    // Not from the kernel's memory, which still has the old size.
    let asked = (AtFlags::STATX_FORCE_SYNC, StatxFlags::SIZE);
    let size = statx(CWD, &program, asked.0, asked.1).map(|s| s.stx_size).ok();
    c.is("size of what runs", size, sleep.metadata().map(|m| m.len()).ok());
    c.ok("unlink of what runs", unlink(&program));
    let _ = child.kill();
    c.ok("its end", child.wait());
}

fn cutting(c: &Case<'_>) {
    let (file, dir) = (c.file("f", b"0123456789"), c.dir("d"));
    c.ok("shorter", sys::truncate(&file, 4));
    c.reads("shorter", &file, b"0123");
    c.ok("longer", sys::truncate(&file, 8));
    c.reads("zeroes, not what was there", &file, b"0123\0\0\0\0");
    c.ok("much longer", sys::truncate(&file, 10_000));
    let mut wanted = b"0123".to_vec();
    wanted.resize(10_000, 0);
    c.reads("zeroes", &file, &wanted);
    c.ok("to nothing", sys::truncate(&file, 0));
    c.reads("nothing", &file, b"");
    c.err("less than nothing", sys::truncate(&file, -1), &[Errno::INVAL]);
    c.err("a directory", sys::truncate(&dir, 0), &[Errno::ISDIR]);
    c.err("nothing", sys::truncate(&c.at("nothing"), 0), &[Errno::NOENT]);
    c.err("below a file", sys::truncate(&file.join("x"), 0), &[Errno::NOTDIR]);
    let _ = symlink("f", c.at("soft"));
    c.ok("through a link", sys::truncate(&c.at("soft"), 3));
    c.reads("three zeroes", &file, &[0; 3]);
    // What was in a page before must not come back, by whichever way the file grows again.
    for (what, grow) in [
        ("ftruncate", (|f: &File| ftruncate(f, 9_000)) as fn(&File) -> Result<(), Errno>),
        ("a write far behind", |f| rustix::io::pwrite(f, &[0], 8_999).map(|_| ())),
        ("fallocate", |f| fallocate(f, FallocateFlags::empty(), 0, 9_000)),
    ] {
        c.ok("write", fs::write(&file, [0xAA; 9_000]));
        let Some(f) = c.ok("open", open(&file, RW, 0)) else { return };
        c.ok("cut within a page", ftruncate(&f, 5_000));
        c.ok(what, grow(&f));
        let mut wanted = vec![0xAA; 5_000];
        wanted.resize(9_000, 0);
        c.reads(&format!("cut, and grown by {what}"), &file, &wanted);
    }
}

fn beyond_the_end(c: &Case<'_>) {
    let file = c.file("f", b"abc");
    let Some(f) = c.ok("open", open(&file, RW, 0)) else { return };
    c.is("reading at the end", f.read_at(&mut [0; 9], 3).ok(), Some(0));
    c.is("reading beyond it", f.read_at(&mut [0; 9], 1 << 40).ok(), Some(0));
    c.is("reading across it", f.read_at(&mut [0; 9], 1).ok(), Some(2));
    c.ok("writing beyond it", f.write_all_at(b"xyz", 20_000));
    let mut wanted = b"abc".to_vec();
    wanted.resize(20_000, 0);
    wanted.extend_from_slice(b"xyz");
    c.reads("zeroes between", &file, &wanted);
    c.ok("writing into it", f.write_all_at(&[9; 100], 9_990));
    wanted[9_990..10_090].fill(9);
    c.reads("as written", &file, &wanted);
    c.ok("writing nothing beyond the end", f.write_at(b"", 99_999));
    c.is("changes no size", c.stat(&file).size, 20_003);
    c.err("seeking before the beginning", seek(&f, SeekFrom::End(-99_999)), &[Errno::INVAL]);
    c.is("seeking beyond the end", seek(&f, SeekFrom::End(5)).ok(), Some(20_008));
}

fn around_the_limit(c: &Case<'_>) {
    let path = c.at("f");
    let mut wanted = Vec::new();
    let Some(f) = c.ok("open", open(&path, RW | OFlags::CREATE, 0o644)) else { return };
    let limit = 65_536usize;
    let sizes = [1, 4_095, 4_096, 4_097, limit - 1, limit, limit + 1, 2 * limit + 3];
    for (i, &size) in sizes.iter().chain(sizes.iter().rev()).enumerate() {
        let byte = i as u8 + 1;
        let old = wanted.len();
        wanted.resize(size, byte);
        let done = if size > old {
            f.write_all_at(&wanted[old..], old as u64)
        } else {
            f.set_len(size as u64)
        };
        c.ok(&format!("size {size}"), done);
        wanted[size / 2] = 0x77;
        c.ok("writing in the middle", f.write_all_at(&[0x77], size as u64 / 2));
        c.holds_bytes(&format!("{size} bytes"), &f, &wanted);
        c.is("its size", c.stat(&path).size, size as u64);
    }
    c.reads("at the end", &path, &wanted);
}

fn allocating(c: &Case<'_>) {
    let file = c.file("f", b"abc");
    let Some(f) = c.ok("open", open(&file, RW, 0)) else { return };
    c.ok("beyond the end", fallocate(&f, FallocateFlags::empty(), 0, 10_000));
    let mut wanted = b"abc".to_vec();
    wanted.resize(10_000, 0);
    c.reads("grows with zeroes", &file, &wanted);
    c.ok("within", fallocate(&f, FallocateFlags::empty(), 0, 100));
    c.reads("changes nothing", &file, &wanted);
    c.ok("keeping the size", fallocate(&f, FallocateFlags::KEEP_SIZE, 0, 1 << 20));
    c.is("the size is kept", c.stat(&file).size, 10_000);
    c.err("of no bytes", fallocate(&f, FallocateFlags::empty(), 0, 0), &[Errno::INVAL]);
    c.err(
        "of too many",
        fallocate(&f, FallocateFlags::empty(), 1 << 62, 1 << 62),
        &[Errno::FBIG, Errno::INVAL],
    );
}

fn punching(c: &Case<'_>) {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let cases: [(&str, FallocateFlags, u64, u64); 7] = [
        ("a hole", hole, 8_192, 8_192),
        ("a hole within a page", hole, 5_000, 100),
        ("a hole across the end", hole, 40_000, 100_000),
        ("a hole beyond the end", hole, 200_000, 4_096),
        ("zeroes", FallocateFlags::ZERO_RANGE, 3_000, 20_000),
        ("zeroes that grow", FallocateFlags::ZERO_RANGE, 45_000, 20_000),
        (
            "zeroes that do not",
            FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
            45_000,
            20_000,
        ),
    ];
    for (what, flags, from, len) in cases {
        let file = c.file("f", &[0xAB; 50_000]);
        let Some(f) = c.ok("open", open(&file, RW, 0)) else { return };
        c.ok(what, fallocate(&f, flags, from, len));
        let mut wanted = vec![0xAB; 50_000];
        if !flags.contains(FallocateFlags::KEEP_SIZE) {
            wanted.resize(wanted.len().max((from + len) as usize), 0);
        }
        let range = (from as usize).min(wanted.len())..((from + len) as usize).min(wanted.len());
        wanted[range].fill(0);
        c.reads(what, &file, &wanted);
    }
    for (what, flags) in
        [("collapse", FallocateFlags::COLLAPSE_RANGE), ("insert", FallocateFlags::INSERT_RANGE)]
    {
        let pattern: Vec<u8> = (0..49_152usize).map(|i| (i / 4_096) as u8 + 1).collect();
        let file = c.file("g", &pattern);
        let Some(f) = c.ok("open", open(&file, RW, 0)) else { return };
        if c.ok(what, fallocate(&f, flags, 8_192, 4_096)).is_some() {
            let mut wanted = pattern;
            if what == "collapse" {
                wanted.drain(8_192..12_288);
            } else {
                wanted.splice(8_192..8_192, [0; 4_096]);
            }
            c.reads(what, &file, &wanted);
        }
    }
    let file = c.file("h", &[1; 9_000]);
    let Some(f) = c.ok("open", open(&file, RW, 0)) else { return };
    let bare = fallocate(&f, FallocateFlags::PUNCH_HOLE, 0, 4_096);
    c.err("a hole that would change the size", bare, &[Errno::OPNOTSUPP, Errno::INVAL]);
    c.reads("is none", &file, &[1; 9_000]);
}

fn holes(c: &Case<'_>) {
    let path = c.at("f");
    let Some(f) = c.ok("open", open(&path, RW | OFlags::CREATE, 0o644)) else { return };
    c.ok("size", ftruncate(&f, 1 << 20));
    c.ok("data in the middle", f.write_all_at(&[1; 4_096], 512 << 10));
    c.ok("sync", f.sync_all());
    c.holds("a hole takes no room", c.stat(&path).blocks <= 64);
    c.is("data", seek(&f, SeekFrom::Data(0)).ok(), Some(512 << 10));
    c.is("hole", seek(&f, SeekFrom::Hole(512 << 10)).ok(), Some((512 << 10) + 4_096));
    c.is("hole at once", seek(&f, SeekFrom::Hole(0)).ok(), Some(0));
    c.err("no data behind", seek(&f, SeekFrom::Data(600 << 10)), &[Errno::NXIO]);
    c.err("data beyond the end", seek(&f, SeekFrom::Data(1 << 20)), &[Errno::NXIO]);
    c.err("hole beyond the end", seek(&f, SeekFrom::Hole(1 << 21)), &[Errno::NXIO]);
    let full = c.file("full", &[3; 10_000]);
    let Some(f) = c.ok("open", open(&full, OFlags::RDONLY, 0)) else { return };
    c.is("data from the beginning", seek(&f, SeekFrom::Data(0)).ok(), Some(0));
    c.is("a hole at the end", seek(&f, SeekFrom::Hole(0)).ok(), Some(10_000));
}

fn copying(c: &Case<'_>) {
    let bytes: Vec<u8> = (0..150_000u32).map(|i| (i % 251) as u8).collect();
    let (from, to) = (c.file("from", &bytes), c.file("to", &[0xCC; 10]));
    let (Ok(source), Ok(target)) =
        (File::open(&from), File::options().read(true).write(true).open(&to))
    else {
        return c.holds("opening", false);
    };
    let (mut read, mut write) = (1_000, 5);
    let mut left = 100_000;
    while left > 0 {
        match copy_file_range(&source, Some(&mut read), &target, Some(&mut write), left) {
            Ok(n) if n > 0 => left -= n,
            other => {
                c.ok("copy_file_range", other.and(Err::<(), _>(Errno::IO)));
                return;
            }
        }
    }
    let wanted = [&[0xCC; 5][..], &bytes[1_000..101_000]].concat();
    c.reads("copied", &to, &wanted);
    c.ok("a whole file, as programs do it", fs::copy(&from, c.at("whole")));
    c.reads("copied whole", &c.at("whole"), &bytes);
    let overlap = copy_file_range(&target, Some(&mut 0), &target, Some(&mut 10), 100);
    c.err("onto itself", overlap, &[Errno::INVAL]);
}

fn mapping(c: &Case<'_>) {
    let file = c.file("f", &[b'a'; 6_000]);
    let Some(f) = c.ok("open", open(&file, RW, 0)) else { return };
    let Some(map) = c.ok("mapping", Map::new(&f, 8_192, true, true)) else { return };
    let mut got = [9; 100];
    map.read(5_950, &mut got);
    c.holds("the file's bytes, then zeroes", got[..50] == [b'a'; 50] && got[50..] == [0; 50]);
    map.write(10, b"through the map");
    let mut wanted = vec![b'a'; 6_000];
    wanted[10..25].copy_from_slice(b"through the map");
    c.reads("what the map writes, others read", &file, &wanted);
    c.ok("write", f.write_all_at(b"by write", 4_000));
    let mut got = [0; 8];
    map.read(4_000, &mut got);
    c.is("what others write, the map reads", &got, b"by write");
    wanted[4_000..4_008].copy_from_slice(b"by write");
    map.write(7_000, b"beyond the end");
    c.ok("msync", map.sync());
    c.reads("beyond the end is nowhere", &file, &wanted);
    c.is("and changes no size", c.stat(&file).size, 6_000);
    let Some(private) = c.ok("private mapping", Map::new(&f, 4_096, true, false)) else { return };
    private.write(0, b"mine alone");
    c.reads("stays private", &file, &wanted);
    // The map outlives descriptor and name.
    let held = c.ok("open", open(&file, OFlags::RDONLY, 0));
    drop(f);
    c.ok("unlink", unlink(&file));
    map.write(0, b"nameless");
    c.ok("msync of one without a name", map.sync());
    wanted[..8].copy_from_slice(b"nameless");
    if let Some(held) = held {
        c.holds_bytes("is written", &held, &wanted);
    }
}

fn mapping_and_others(c: &Case<'_>) {
    let file = c.file("f", &[0; 40_960]);
    let Some(f) = c.ok("open", open(&file, RW, 0)) else { return };
    let Some(map) = c.ok("mapping", Map::new(&f, 40_960, true, true)) else { return };
    let before = c.stat(&file);
    crate::case::later();
    map.write(0, b"x");
    c.ok("msync", map.sync());
    let after = c.stat(&file);
    c.holds("times move at once", after.mtime > before.mtime && after.ctime > before.ctime);
    let begun = std::time::Instant::now();
    let moved = loop {
        let after = c.stat(&file);
        let moved = after.mtime > before.mtime && after.ctime > before.ctime;
        if moved || begun.elapsed() > std::time::Duration::from_secs(2) {
            break moved;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    c.holds("times move within two seconds", moved);
    // Cut and grown again, a map shows zeroes.
    map.write(8_192, &[5; 4_096]);
    c.ok("cut", ftruncate(&f, 8_192));
    c.ok("grown", ftruncate(&f, 40_960));
    let mut got = [1; 4_096];
    map.read(8_192, &mut got);
    c.holds("zeroes after growing", got == [0; 4_096]);
    // Two maps and a process of its own see one another.
    let Some(other) = c.ok("a second opening", open(&file, RW, 0)) else { return };
    let Some(second) = c.ok("mapping", Map::new(&other, 40_960, true, true)) else { return };
    second.write(20_000, b"from the second");
    let mut got = [0; 15];
    map.read(20_000, &mut got);
    c.is("seen by the first", &got, b"from the second");
    let output = Command::new("od").args(["-An", "-c", "-j20000", "-N4"]).arg(&file).output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).replace([' ', '\n'], ""));
    c.is("seen by another process", text.ok().as_deref(), Some("from"));
}

fn unlinked_and_open(c: &Case<'_>) {
    let file = c.file("f", b"bytes");
    let (Some(f), Some(reader)) =
        (c.ok("open", open(&file, RW, 0)), c.ok("open", open(&file, OFlags::RDONLY, 0)))
    else {
        return;
    };
    c.ok("unlink", unlink(&file));
    c.err("by name", open(&file, OFlags::RDONLY, 0), &[Errno::NOENT]);
    c.ok("write", f.write_all_at(&[7; 100_000], 0));
    c.holds_bytes("read by another opening", &reader, &[7; 100_000]);
    c.ok("cut", ftruncate(&f, 10));
    c.ok("fsync", f.sync_all());
    c.ok("fchmod", rustix::fs::fchmod(&f, Mode::from_raw_mode(0o600)));
    let facts = c.fstat(&f);
    c.is("no link, ten bytes", (facts.nlink, facts.size), (0, 10));
    // A new file of the same name is another one.
    c.file("f", b"another");
    c.holds_bytes("the old one", &f, &[7; 10]);
    c.reads("the new one", &file, b"another");
    drop((f, reader));
    c.reads("the new one stays", &file, b"another");
}

fn appending(c: &Case<'_>) {
    let path = c.file("log", b"");
    let wrote = std::thread::scope(|s| {
        let writers: Vec<_> = (0..4u8)
            .map(|who| {
                let path = &path;
                s.spawn(move || -> std::io::Result<()> {
                    let mut file = File::options().append(true).open(path)?;
                    for i in 0..250u32 {
                        let mut record = [who; 100];
                        record[1..5].copy_from_slice(&i.to_le_bytes());
                        // One write, one record: it must be all of it.
                        let n = file.write(&record)?;
                        if n != record.len() {
                            return Err(std::io::Error::other(format!("wrote {n} of a record")));
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        writers.into_iter().map(|w| w.join().unwrap()).collect::<Result<Vec<()>, _>>()
    });
    c.ok("four writers", wrote);
    let bytes = fs::read(&path).unwrap_or_default();
    c.is("all records", bytes.len(), 100_000);
    let mut next = [0u32; 4];
    let mut whole = true;
    for record in bytes.chunks(100) {
        let who = usize::from(record[0]).min(3);
        let mut wanted = [record[0]; 100];
        wanted[1..5].copy_from_slice(&next[who].to_le_bytes());
        whole &= record == &wanted[..];
        next[who] += 1;
    }
    c.holds("each whole, once, and in its writer's order", whole && next == [250; 4]);
}

fn writing_together(c: &Case<'_>) {
    let path = c.file("shared", &[0; 64_000]);
    let wrote = std::thread::scope(|s| {
        let writers: Vec<_> = (0..4u64)
            .map(|who| {
                let path = &path;
                s.spawn(move || -> std::io::Result<()> {
                    for i in 0..160 {
                        // Opened and closed each time; every fourth hundred is this writer's.
                        let file = File::options().write(true).open(path)?;
                        file.write_all_at(&[who as u8 + 1; 100], (i * 4 + who) * 100)?;
                    }
                    Ok(())
                })
            })
            .collect();
        writers.into_iter().map(|w| w.join().unwrap()).collect::<Result<Vec<()>, _>>()
    });
    c.ok("four writers", wrote);
    let wanted: Vec<u8> = (0..64_000).map(|i| (i / 100 % 4) as u8 + 1).collect();
    c.reads("nobody's bytes are lost", &path, &wanted);
}

fn locks(c: &Case<'_>) {
    let path = c.file("f", b"x");
    let (Ok(a), Ok(b)) = (File::open(&path), File::open(&path)) else {
        return c.holds("open", false);
    };
    let (share, only, end) = (
        FlockOperation::NonBlockingLockShared,
        FlockOperation::NonBlockingLockExclusive,
        FlockOperation::Unlock,
    );
    c.ok("shared", flock(&a, share));
    c.ok("shared by two", flock(&b, share));
    c.err("exclusive over shared", flock(&a, only), &[Errno::WOULDBLOCK]);
    c.ok("unlock", flock(&b, end));
    c.ok("exclusive", flock(&a, only));
    c.err("shared over exclusive", flock(&b, share), &[Errno::WOULDBLOCK]);
    drop(a);
    c.ok("free when it is closed", flock(&b, only));
    // Record locks are a process's: another one asks.
    let Some(f) = c.ok("open", open(&path, RW, 0)) else { return };
    c.ok("record lock", rustix::fs::fcntl_lock(&f, only));
    if crate::host::programs(&["python3"]).is_some() {
        return;
    }
    let script = "import fcntl,sys\nf=open(sys.argv[1],'r+')\ntry:\n fcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB)\n print('got it')\nexcept OSError: print('taken')";
    let ask = || {
        let output = Command::new("python3").args(["-c", script]).arg(&path).output();
        output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default()
    };
    c.is("another process", ask(), "taken".to_owned());
    c.ok("unlock", rustix::fs::fcntl_lock(&f, end));
    c.is("another process, then", ask(), "got it".to_owned());
}

fn large_offsets(c: &Case<'_>) {
    let path = c.at("f");
    let Some(f) = c.ok("open", open(&path, RW | OFlags::CREATE, 0o644)) else { return };
    for at in [(1u64 << 31) - 1, (1 << 32) - 3, 1 << 33, 1 << 40] {
        c.ok(&format!("write at {at}"), f.write_all_at(b"far out", at));
        let mut got = [0; 7];
        c.ok("read", f.read_exact_at(&mut got, at));
        c.is("the same", &got, b"far out");
        c.is("its size", c.stat(&path).size, at + 7);
    }
    c.err("a size beyond all", ftruncate(&f, i64::MAX as u64), &[Errno::FBIG, Errno::INVAL]);
    c.ok("cut", ftruncate(&f, 3));
    c.holds_bytes("zeroes", &f, &[0; 3]);
}

fn syncing(c: &Case<'_>) {
    let (path, dir) = (c.file("f", b""), c.at(""));
    let Some(f) = c.ok("open", open(&path, RW, 0)) else { return };
    for i in 0..20u8 {
        c.ok("write", f.write_all_at(&[i; 3_000], u64::from(i) * 3_000));
        c.ok("fsync", f.sync_all());
        c.ok("fdatasync", f.sync_data());
    }
    let Some(reader) = c.ok("open for reading", open(&path, OFlags::RDONLY, 0)) else { return };
    c.ok("fsync of one open for reading", rustix::fs::fsync(&reader));
    let Some(dir) = c.ok("open a directory", open(&dir, OFlags::RDONLY, 0)) else { return };
    c.ok("fsync of a directory", rustix::fs::fsync(&dir));
    let wanted: Vec<u8> = (0..60_000u32).map(|i| (i / 3_000) as u8).collect();
    c.reads("all of it", &path, &wanted);
}
