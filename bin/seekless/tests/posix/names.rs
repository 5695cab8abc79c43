//! Names: making, linking, renaming and removing what they lead to.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{
    AtFlags, CWD, FileType, OFlags, RenameFlags, link, linkat, makedev, mkdir, mkfifoat, mknodat,
    readlink, rename, renameat_with, rmdir, symlink, unlink,
};
use rustix::io::Errno;

use crate::case::{Case, Check, chmod, later, mode, open};

pub(crate) const CHECKS: &[(&str, Check)] = &[
    ("mkdir", making_directories),
    ("rmdir", removing_directories),
    ("unlink", unlinking),
    ("without a name, and not open", held_alone),
    ("link", linking),
    ("symlink", symbolic_links),
    ("rename: files", renaming_files),
    ("rename: directories", renaming_directories),
    ("rename: flags", renaming_with_flags),
    ("rename: times", renaming_moves_times),
    ("mkfifo, mknod, sockets", special_files),
    ("creation mask", creation_mask),
    ("names of all kinds", odd_names),
    ("paths too long, loops", long_paths_and_loops),
    ("directory streams", directory_streams),
    ("directory streams while changing", changing_directories),
];

/// A descriptor that can neither be read nor written keeps a file all the same.
fn held_alone(c: &Case<'_>) {
    for (how, replaced) in [("unlink", false), ("rename", true)] {
        let file = c.file("f", b"still here");
        let Some(held) = c.ok("open", open(&file, OFlags::PATH, 0)) else { return };
        if replaced {
            let over = c.file("g", b"another");
            c.ok(how, rename(&over, &file));
        } else {
            c.ok(how, unlink(&file));
        }
        c.file("other", b"x");
        let again = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
        c.is(how, fs::metadata(&again).map(|m| (m.len(), m.nlink())).ok(), Some((10, 0)));
        c.reads(how, &again, b"still here");
        if let Some(file) = c.ok(how, open(&again, OFlags::RDWR, 0)) {
            c.ok(how, (&file).write_all(b"and written"));
        }
        c.reads(how, &again, b"and written");
    }
}

/// The three ways in which a path that leads nowhere fails, for an operation on one path.
fn bad_paths(c: &Case<'_>, what: &str, act: impl Fn(&Path) -> Result<(), Errno>) {
    let file = c.file("plain file", b"x");
    c.err(&format!("{what} below nothing"), act(&c.at("nothing/x")), &[Errno::NOENT]);
    c.err(&format!("{what} below a file"), act(&file.join("x")), &[Errno::NOTDIR]);
    let long = "n".repeat(256);
    c.err(&format!("{what} of 256 bytes"), act(&c.at(&long)), &[Errno::NAMETOOLONG]);
    let _ = symlink("circle", c.at("circle"));
    c.err(&format!("{what} below a loop"), act(&c.at("circle/x")), &[Errno::LOOP]);
    c.err(&format!("{what} of nothing"), act(Path::new("")), &[Errno::NOENT]);
    let _ = (unlink(&file), unlink(c.at("circle")));
}

fn making_directories(c: &Case<'_>) {
    bad_paths(c, "mkdir", |p| mkdir(p, mode(0o755)));
    let up = c.dir("up");
    let before = c.stat(&up);
    later();
    let made = c.at("up/made");
    c.ok("mkdir", mkdir(&made, mode(0o700)));
    let (after, own) = (c.stat(&up), c.stat(&made));
    c.is("links of the parent", after.nlink, before.nlink + 1);
    c.is("links of a new directory", own.nlink, 2);
    c.is("its mode", own.mode, 0o40_700);
    c.holds("the parent's times", after.mtime > before.mtime && after.ctime > before.ctime);
    c.holds("its own times", own.mtime > before.mtime && own.atime > before.mtime);
    let file = c.file("file", b"");
    let _ = symlink("nowhere", c.at("dangling"));
    for (what, path) in
        [("directory", &made), ("file", &file), ("dangling link", &c.at("dangling"))]
    {
        c.err(&format!("mkdir over a {what}"), mkdir(path, mode(0o755)), &[Errno::EXIST]);
    }
    c.err("mkdir .", mkdir(up.join("."), mode(0o755)), &[Errno::EXIST]);
    c.ok("mkdir with a slash behind", mkdir(c.at("up/slash/"), mode(0o755)));
    // A directory with the set-group bit hands its group, and the bit, to what is made in it.
    c.ok("chown", std::os::unix::fs::chown(&up, None, Some(4_321)));
    c.ok("chmod", chmod(&up, 0o2755));
    c.ok("mkdir in set-group", mkdir(c.at("up/in"), mode(0o755)));
    let inner = c.stat(&c.at("up/in"));
    c.is("group taken over", inner.gid, 4_321);
    c.is("bit taken over", inner.permissions(), 0o2755);
    c.file("up/f", b"");
    let inner = c.stat(&c.at("up/f"));
    c.is("group of a file taken over", (inner.gid, inner.permissions()), (4_321, 0o644));
}

fn removing_directories(c: &Case<'_>) {
    bad_paths(c, "rmdir", |p| rmdir(p));
    let (up, full) = (c.dir("up"), c.dir("up/full"));
    c.file("up/full/file", b"");
    let full_errors = &[Errno::NOTEMPTY, Errno::EXIST];
    c.err("rmdir of one with a file", rmdir(&full), full_errors);
    c.err("rmdir of one with a directory", rmdir(&up), full_errors);
    c.err("rmdir of a file", rmdir(full.join("file")), &[Errno::NOTDIR]);
    let _ = symlink("full", c.at("up/link"));
    c.err("rmdir of a link", rmdir(c.at("up/link")), &[Errno::NOTDIR]);
    c.err("rmdir of .", rmdir(full.join(".")), &[Errno::INVAL]);
    c.err("rmdir of ..", rmdir(full.join("..")), full_errors);
    let held = c.ok("open", open(&full, OFlags::RDONLY | OFlags::DIRECTORY, 0));
    let _ = unlink(full.join("file"));
    let before = c.stat(&up);
    later();
    c.ok("rmdir", rmdir(&full));
    let after = c.stat(&up);
    c.is("links of the parent", after.nlink, before.nlink - 1);
    c.holds("the parent's times", after.mtime > before.mtime && after.ctime > before.ctime);
    let Some(held) = held else { return };
    let made = rustix::fs::openat(&held, "new", OFlags::CREATE | OFlags::RDWR, mode(0o644));
    c.err("creating in a directory that is gone", made, &[Errno::NOENT]);
    let gone = c.fstat(&held);
    c.is("links of a directory that is gone", gone.nlink, 0);
    // The name is free at once.
    c.ok("mkdir again", mkdir(&full, mode(0o755)));
    c.holds("another inode", c.at("up/full").metadata().is_ok_and(|m| m.ino() != gone.ino));
}

fn unlinking(c: &Case<'_>) {
    bad_paths(c, "unlink", |p| unlink(p));
    c.err("unlink of nothing", unlink(c.at("nothing")), &[Errno::NOENT]);
    let dir = c.dir("dir");
    c.err("unlink of a directory", unlink(&dir), &[Errno::ISDIR, Errno::PERM]);
    let (file, other) = (c.file("file", b"bytes"), c.at("dir/other"));
    c.ok("link", link(&file, &other));
    let (before, up) = (c.stat(&other), c.stat(c.at("").as_path()));
    later();
    c.ok("unlink", unlink(&file));
    let after = c.stat(&other);
    c.is("links left", after.nlink, 1);
    c.holds(
        "its ctime moves, its mtime does not",
        after.ctime > before.ctime && after.mtime == before.mtime,
    );
    let now = c.stat(c.at("").as_path());
    c.holds("the parent's times", now.mtime > up.mtime && now.ctime > up.ctime);
    c.reads("the other name still leads there", &other, b"bytes");
    let _ = symlink("dir/other", c.at("link"));
    c.ok("unlink of a link", unlink(c.at("link")));
    c.reads("what it led to is still there", &other, b"bytes");
    c.err("unlink with a slash behind", unlink(c.at("dir/other/")), &[Errno::NOTDIR]);
}

fn linking(c: &Case<'_>) {
    let (file, dir) = (c.file("file", b"one"), c.dir("dir"));
    bad_paths(c, "link to", |p| link(&file, p));
    let target = c.at("target");
    c.err("link of nothing", link(c.at("nothing"), &target), &[Errno::NOENT]);
    c.err("link of a directory", link(&dir, &target), &[Errno::PERM]);
    c.err("link over a directory", link(&file, &dir), &[Errno::EXIST]);
    let (before, up) = (c.stat(&file), c.stat(&dir));
    later();
    let second = c.at("dir/second");
    c.ok("link", link(&file, &second));
    c.err("link over itself", link(&file, &second), &[Errno::EXIST]);
    let (first, other, now) = (c.stat(&file), c.stat(&second), c.stat(&dir));
    c.is("both lead to one inode", first, other);
    c.is("links", first.nlink, 2);
    c.holds(
        "ctime moves, mtime does not",
        first.ctime > before.ctime && first.mtime == before.mtime,
    );
    c.holds("the parent's times", now.mtime > up.mtime && now.ctime > up.ctime);
    c.ok("writing through one name", fs::write(&second, b"longer than before"));
    c.reads("is read through the other", &file, b"longer than before");
    c.is("and so is its size", c.at("file").metadata().map(|m| m.len()).ok(), Some(18));
    c.ok("chmod through one name", chmod(&file, 0o600));
    c.is("is seen through the other", c.stat(&second).permissions(), 0o600);
    let _ = symlink("file", c.at("soft"));
    c.ok("link of a symbolic link", link(c.at("soft"), c.at("soft2")));
    c.is("links the link", readlink(c.at("soft2"), []).ok(), Some(c"file".to_owned()));
    let followed = linkat(CWD, c.at("soft"), CWD, c.at("third"), AtFlags::SYMLINK_FOLLOW);
    c.ok("linkat, following", followed);
    let facts = c.stat(&c.at("third"));
    c.is("links what it leads to", (facts.ino, facts.nlink), (first.ino, 3));
    let many: Vec<PathBuf> = (0..100).map(|i| c.at(&format!("dir/n{i}"))).collect();
    let made = many.iter().try_for_each(|p| link(&file, p));
    c.ok("a hundred links", made);
    c.is("are counted", c.stat(&file).nlink, 103);
    c.reads("each has the bytes", &many[99], b"longer than before");
}

fn symbolic_links(c: &Case<'_>) {
    bad_paths(c, "symlink", |p| symlink("x", p));
    let link = c.at("link");
    c.ok("symlink", symlink("some/where", &link));
    let facts = c.stat(&link);
    c.is("its size is its text's", facts.size, 10);
    c.is("its type and links", (facts.mode & 0o170_000, facts.nlink), (0o120_000, 1));
    c.is("its text", readlink(&link, []).ok(), Some(c"some/where".to_owned()));
    c.err("a dangling one is not opened", open(&link, OFlags::RDONLY, 0), &[Errno::NOENT]);
    c.err("one over another", symlink("x", &link), &[Errno::EXIST]);
    c.err("of no text", symlink("", c.at("empty")), &[Errno::NOENT]);
    let long = "t".repeat(4_095);
    c.ok("of 4095 bytes", symlink(&long, c.at("long")));
    let text = readlink(c.at("long"), []).map(|t| t.as_bytes().len()).ok();
    c.is("text of 4095 bytes", text, Some(4_095));
    c.err("of 4096 bytes", symlink("t".repeat(4_096), c.at("longer")), &[Errno::NAMETOOLONG]);
    let file = c.file("file", b"there");
    c.err("readlink of a file", readlink(&file, []), &[Errno::INVAL]);
    let _ = (symlink("file", c.at("a")), symlink("a", c.at("b")));
    c.reads("through two links", &c.at("b"), b"there");
    let _ = (c.dir("d"), symlink("d", c.at("dl")));
    c.file("dl/inner", b"inside");
    c.reads("a directory through a link", &c.at("d/inner"), b"inside");
    c.ok("writing through a link", fs::write(c.at("b"), b"changed"));
    c.reads("reaches the file", &file, b"changed");
    let _ = symlink("new", c.at("to new"));
    c.ok("creating through a link", fs::write(c.at("to new"), b"n"));
    c.reads("makes what it leads to", &c.at("new"), b"n");
}

fn renaming_files(c: &Case<'_>) {
    let (a, b, dir) = (c.file("a", b"one"), c.file("b", b"two"), c.dir("dir"));
    bad_paths(c, "rename to", |p| rename(&a, p));
    bad_paths(c, "rename from", |p| rename(p, c_path(&b)));
    c.err("rename of nothing", rename(c.at("nothing"), &b), &[Errno::NOENT]);
    let ino = c.stat(&a).ino;
    c.ok("rename into a directory", rename(&a, c.at("dir/c")));
    c.is("the same inode", c.stat(&c.at("dir/c")).ino, ino);
    c.holds("the old name is gone", !a.exists());
    let held = File::open(&b);
    c.ok("rename over a file", rename(c.at("dir/c"), &b));
    c.reads("the new one is there", &b, b"one");
    if let Ok(held) = held {
        c.holds_bytes("the old one lives as long as it is open", &held, b"two");
    }
    c.err("a file over a directory", rename(&b, &dir), &[Errno::ISDIR]);
    c.err("a directory over a file", rename(&dir, &b), &[Errno::NOTDIR]);
    c.err("a file with a slash behind", rename(&b, c.at("x/")), &[Errno::NOTDIR]);
    // Two names of one inode: both stay.
    c.ok("link", link(&b, c.at("b2")));
    c.ok("rename over another name of the same", rename(&b, c.at("b2")));
    c.holds("both names stay", b.exists() && c.at("b2").exists());
    c.ok("rename over itself", rename(&b, &b));
    c.is("links", c.stat(&b).nlink, 2);
    let _ = symlink("b", c.at("soft"));
    c.ok("rename of a link", rename(c.at("soft"), c.at("dir/soft")));
    c.is("moves the link", readlink(c.at("dir/soft"), []).ok(), Some(c"b".to_owned()));
    c.file("over", b"over");
    c.ok("rename over a link", rename(c.at("over"), c.at("dir/soft")));
    c.reads("replaces the link", &c.at("dir/soft"), b"over");
    c.reads("and not what it led to", &b, b"one");
    // Written before, between and after.
    let w = c.file("w", b"");
    let Some(mut file) = c.ok("open", File::options().append(true).open(&w)) else { return };
    let mut wrote = file.write_all(b"before ");
    c.ok("rename while it is open", rename(&w, c.at("dir/w")));
    wrote = wrote.and_then(|()| file.write_all(b"after"));
    c.ok("writing before and after", wrote);
    c.reads("all of it is there", &c.at("dir/w"), b"before after");
}

fn c_path(path: &Path) -> &Path {
    path
}

fn renaming_directories(c: &Case<'_>) {
    let (a, b) = (c.dir("a"), c.dir("b"));
    let _ = (c.dir("a/in"), c.file("a/in/f", b"deep"));
    c.err("into itself", rename(&a, c.at("a/in/a")), &[Errno::INVAL]);
    c.err("over its own parent", rename(c.at("a/in"), &a), &[Errno::NOTEMPTY, Errno::EXIST]);
    c.err("over one that is full", rename(&b, &a), &[Errno::NOTEMPTY, Errno::EXIST]);
    c.err(".", rename(a.join("."), c.at("x")), &[Errno::BUSY, Errno::INVAL]);
    c.err("..", rename(a.join("in/.."), c.at("x")), &[Errno::BUSY, Errno::INVAL]);
    c.ok("over one that is empty", rename(&a, &b));
    c.reads("with all that is in it", &c.at("b/in/f"), b"deep");
    let (other, root) = (c.dir("other"), c.at(""));
    let (before, target) = (c.stat(&root), c.stat(&other));
    c.ok("into another directory", rename(&b, c.at("other/b")));
    let (after, now) = (c.stat(&root), c.stat(&other));
    c.is("links of the old parent", after.nlink, before.nlink - 1);
    c.is("links of the new parent", now.nlink, target.nlink + 1);
    let (up, parent) = (fs::metadata(c.at("other/b/..")), fs::metadata(&other));
    c.is("'..' leads to the new parent", up.map(|m| m.ino()).ok(), parent.map(|m| m.ino()).ok());
    let held = c.ok("open", open(&c.at("other/b/in"), OFlags::RDONLY | OFlags::DIRECTORY, 0));
    c.ok("rename above one that is open", rename(&other, c.at("third")));
    let Some(held) = held else { return };
    let found = rustix::fs::openat(&held, "f", OFlags::RDONLY, mode(0)).map(File::from);
    if let Some(file) = c.ok("what is in it is found through it", found) {
        c.holds_bytes("and read", &file, b"deep");
    }
    c.reads("and by its new name", &c.at("third/b/in/f"), b"deep");
}

fn renaming_with_flags(c: &Case<'_>) {
    let (a, b, d) = (c.file("a", b"one"), c.file("b", b"two"), c.dir("d"));
    c.file("d/in", b"in");
    let go = |from: &Path, to: &Path, flags| renameat_with(CWD, from, CWD, to, flags);
    let (keep, swap) = (RenameFlags::NOREPLACE, RenameFlags::EXCHANGE);
    c.err("NOREPLACE over a file", go(&a, &b, keep), &[Errno::EXIST]);
    c.err("NOREPLACE over itself", go(&a, &a, keep), &[Errno::EXIST]);
    c.ok("NOREPLACE to a new name", go(&a, &c.at("new"), keep));
    c.ok("EXCHANGE of files", go(&c.at("new"), &b, swap));
    c.reads("the one is here", &b, b"one");
    c.reads("the other is there", &c.at("new"), b"two");
    c.ok("EXCHANGE of a file and a directory", go(&b, &d, swap));
    c.reads("the file", &d, b"one");
    c.reads("the directory", &c.at("b/in"), b"in");
    c.err("EXCHANGE with nothing", go(&d, &c.at("nothing"), swap), &[Errno::NOENT]);
    c.err("both flags", go(&d, &c.at("x"), keep | swap), &[Errno::INVAL]);
    c.err("EXCHANGE into itself", go(&c.at("b"), &c.at("b/in"), swap), &[Errno::INVAL]);
}

fn renaming_moves_times(c: &Case<'_>) {
    let (from, to) = (c.dir("from"), c.dir("to"));
    let file = c.file("from/f", b"x");
    let (old_from, old_to, old) = (c.stat(&from), c.stat(&to), c.stat(&file));
    later();
    c.ok("rename", rename(&file, c.at("to/f")));
    let (new_from, new_to, new) = (c.stat(&from), c.stat(&to), c.stat(&c.at("to/f")));
    c.holds(
        "old parent's times",
        new_from.mtime > old_from.mtime && new_from.ctime > old_from.ctime,
    );
    c.holds("new parent's times", new_to.mtime > old_to.mtime && new_to.ctime > old_to.ctime);
    c.is("the file's mtime stays", new.mtime, old.mtime);
    c.is("its size and mode stay", (new.size, new.mode), (old.size, old.mode));
    let (held, over) = (c.file("held", b"h"), c.file("over", b"o"));
    c.ok("link", link(&held, c.at("held2")));
    let before = c.stat(&held);
    later();
    c.ok("rename over one of two names", rename(&over, c.at("held2")));
    let after = c.stat(&held);
    c.is("a link less", after.nlink, before.nlink - 1);
    c.holds("and its ctime moves", after.ctime > before.ctime);
}

fn special_files(c: &Case<'_>) {
    bad_paths(c, "mkfifo", |p| mkfifoat(CWD, p, mode(0o644)));
    let fifo = c.at("fifo");
    c.ok("mkfifo", mkfifoat(CWD, &fifo, mode(0o640)));
    c.err("mkfifo over it", mkfifoat(CWD, &fifo, mode(0o640)), &[Errno::EXIST]);
    c.is("its mode", c.stat(&fifo).mode, 0o10_640);
    c.err("no reader", open(&fifo, OFlags::WRONLY | OFlags::NONBLOCK, 0), &[Errno::NXIO]);
    let Some(mut reader) = c.ok("reader", open(&fifo, OFlags::RDONLY | OFlags::NONBLOCK, 0)) else {
        return;
    };
    let Some(mut writer) = c.ok("writer", open(&fifo, OFlags::WRONLY, 0)) else { return };
    let mut got = [0; 5];
    let passed = writer.write_all(b"hello").and_then(|()| reader.read_exact(&mut got));
    c.ok("passing bytes", passed);
    c.is("bytes passed", &got, b"hello");
    let device = c.at("null");
    let made = mknodat(CWD, &device, FileType::CharacterDevice, mode(0o666), makedev(1, 3));
    c.ok("mknod of a device", made);
    let facts = c.stat(&device);
    c.is("its number", (facts.mode & 0o170_000, facts.rdev), (0o20_000, makedev(1, 3)));
    let made = mknodat(CWD, c.at("plain"), FileType::RegularFile, mode(0o604), 0);
    c.ok("mknod of a file", made);
    let facts = c.stat(&c.at("plain"));
    c.is("its mode and size", (facts.mode, facts.size), (0o100_604, 0));
    let socket = c.at("socket");
    let Some(listener) = c.ok("bind", std::os::unix::net::UnixListener::bind(&socket)) else {
        return;
    };
    c.holds("a socket", socket.metadata().is_ok_and(|m| m.file_type().is_socket()));
    c.err("opening a socket", open(&socket, OFlags::RDONLY, 0), &[Errno::NXIO]);
    c.ok("connect", std::os::unix::net::UnixStream::connect(&socket));
    drop(listener);
    c.ok("unlink of a socket", unlink(&socket));
    c.ok("rename of a fifo", rename(&fifo, c.at("fifo2")));
}

fn creation_mask(c: &Case<'_>) {
    let script = "umask 027; mkdir d; : >f; mkfifo p; umask 0; mkdir d0; : >f0";
    let status = Command::new("sh").args(["-c", script]).current_dir(c.at("")).status();
    c.is("the script", status.map(|s| s.success()).ok(), Some(true));
    for (name, wanted) in [("d", 0o750), ("f", 0o640), ("p", 0o640), ("d0", 0o777), ("f0", 0o666)] {
        c.is(name, c.stat(&c.at(name)).permissions(), wanted);
    }
}

fn odd_names(c: &Case<'_>) {
    let longest = "l".repeat(255);
    let wide = "ü".repeat(127);
    let names: [&[u8]; 9] = [
        longest.as_bytes(),
        wide.as_bytes(),
        b"\xff\xfe not text",
        b"line\nfeed",
        b" ",
        b"...",
        b"-rf",
        b"\x01",
        b"back\\slash*?[",
    ];
    for name in names {
        let path = c.at("").join(OsStr::from_bytes(name));
        let shown = String::from_utf8_lossy(&name[..name.len().min(12)]).into_owned();
        c.ok(&format!("making {shown:?}"), fs::write(&path, name));
        c.reads(&format!("reading {shown:?}"), &path, name);
    }
    let mut found: Vec<Vec<u8>> = fs::read_dir(c.at(""))
        .map(|d| d.flatten().map(|e| e.file_name().as_bytes().to_vec()).collect())
        .unwrap_or_default();
    found.sort_unstable();
    let mut wanted: Vec<Vec<u8>> = names.iter().map(|n| n.to_vec()).collect();
    wanted.sort_unstable();
    c.is("all are listed", found, wanted);
    c.file("Case", b"upper");
    c.file("case", b"lower");
    c.reads("case matters", &c.at("Case"), b"upper");
}

fn long_paths_and_loops(c: &Case<'_>) {
    // A path may have 4,095 bytes; one more is too many, be it there or not.
    let part = "p".repeat(200);
    let mut deep = c.at("");
    while deep.as_os_str().len() + part.len() + 2 < 3_900 {
        deep.push(&part);
        if let Err(error) = fs::create_dir(&deep) {
            c.ok("a deep directory", Err::<(), _>(error));
            return;
        }
    }
    let room = 4_095 - deep.as_os_str().len() - 1;
    let last = deep.join("f".repeat(room));
    c.is("the path's length", last.as_os_str().len(), 4_095);
    c.ok("a path of 4095 bytes", fs::write(&last, b"deep down"));
    c.reads("is read", &last, b"deep down");
    let more = deep.join("f".repeat(room + 1));
    c.err("a path of 4096 bytes", open(&more, OFlags::RDONLY, 0), &[Errno::NAMETOOLONG]);
    let _ = (symlink("b", c.at("a")), symlink("a", c.at("b")));
    for (what, flags) in [("reading", OFlags::RDONLY), ("creating", OFlags::CREATE | OFlags::RDWR)]
    {
        c.err(&format!("{what} a loop"), open(&c.at("a"), flags, 0o644), &[Errno::LOOP]);
    }
    c.err("chmod of a loop", rustix::fs::chmod(c.at("a"), mode(0o644)), &[Errno::LOOP]);
    c.ok("lstat of a loop", rustix::fs::lstat(c.at("a")));
    // Forty links are followed, and no more.
    c.file("chain0", b"end");
    for i in 1..=41 {
        let _ = symlink(format!("chain{}", i - 1), c.at(&format!("chain{i}")));
    }
    c.reads("forty links", &c.at("chain40"), b"end");
    c.err("forty-one links", open(&c.at("chain41"), OFlags::RDONLY, 0), &[Errno::LOOP]);
}

fn listed(dir: &Path) -> BTreeMap<Vec<u8>, u32> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        *found.entry(entry.file_name().as_bytes().to_vec()).or_default() += 1;
    }
    found
}

fn directory_streams(c: &Case<'_>) {
    let dir = c.dir("many");
    for i in 0..1_500 {
        let path = dir.join(format!("entry number {i}"));
        let made = match i % 50 {
            0 => fs::create_dir(&path).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO)),
            1 => symlink("x", &path),
            _ => open(&path, OFlags::CREATE | OFlags::WRONLY, 0o644).map(|_| ()),
        };
        if made.is_err() {
            c.ok("making entries", made);
            return;
        }
    }
    let found = listed(&dir);
    c.is("entries", found.len(), 1_500);
    c.holds("each once", found.values().all(|n| *n == 1));
    let mut wrong = 0;
    for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
        let (told, is) = (entry.file_type(), entry.path().symlink_metadata());
        let same = told.is_ok_and(|t| is.as_ref().is_ok_and(|m| m.file_type() == t));
        wrong += u32::from(
            !same || is.is_ok_and(|m| m.ino() != std::os::unix::fs::DirEntryExt::ino(&entry)),
        );
    }
    c.is("entries with another type or inode than stat's", wrong, 0);
    let Some(raw) = c.ok("open", open(&dir, OFlags::RDONLY | OFlags::DIRECTORY, 0)) else { return };
    let names: Vec<_> = rustix::fs::Dir::read_from(&raw)
        .map(|d| d.flatten().map(|e| e.file_name().to_owned()).collect())
        .unwrap_or_default();
    c.holds("'.' and '..'", names.contains(&c".".to_owned()) && names.contains(&c"..".to_owned()));
    c.is("all with them", names.len(), 1_502);
}

fn changing_directories(c: &Case<'_>) {
    let dir = c.dir("changing");
    let make = |i: u32| File::create(dir.join(format!("{i:05}"))).map(|_| ());
    let stay: Vec<u32> = (0..600).filter(|i| i % 2 == 0).collect();
    c.ok("making entries", (0..600).try_for_each(make));
    // While it is read, every other entry is removed and new ones appear: those that stay are seen,
    // and seen once.
    let mut seen: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    let Some(stream) = c.ok("reading", fs::read_dir(&dir)) else { return };
    for (n, entry) in (0u32..).zip(stream.flatten()) {
        *seen.entry(entry.file_name().as_bytes().to_vec()).or_default() += 1;
        if n < 300 {
            let _ = (fs::remove_file(dir.join(format!("{:05}", 2 * n + 1))), make(1_000 + n));
        }
    }
    let missing = stay.iter().filter(|i| !seen.contains_key(format!("{i:05}").as_bytes())).count();
    c.is("entries that stayed and were not seen", missing, 0);
    c.holds("none twice", seen.values().all(|n| *n == 1));
    c.is("entries afterwards", listed(&dir).len(), 600);
    // As `rm -r` does it.
    c.ok("removing all that is seen", fs::remove_dir_all(&dir));
}
