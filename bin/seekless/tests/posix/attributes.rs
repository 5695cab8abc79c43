//! Modes, owners, times, extended attributes.

use std::ffi::CStr;
use std::fs;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Gid, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, XattrFlags,
    chmodat, chownat, futimens, getxattr, lgetxattr, link, listxattr, lsetxattr, removexattr,
    setxattr, symlink, utimensat,
};
use rustix::io::Errno;

use crate::case::{ALICE, BOB, BOB_IN_GROUP, Case, Check, User, chmod, chown, later, mode, open};
use crate::sys;

pub(crate) const CHECKS: &[(&str, Check)] = &[
    ("chmod", changing_modes),
    ("chown", changing_owners),
    ("set-user and set-group bits", bits_are_cleared),
    ("utimensat", setting_times),
    ("utimensat: permissions", who_sets_times),
    ("times", when_times_move),
    ("times of access", reading_moves_atime),
    ("xattrs", extended_attributes),
    ("xattrs: sizes", attribute_sizes),
    ("xattrs: permissions", who_sets_attributes),
    ("capabilities", capabilities),
    ("statvfs", the_file_system),
    ("flags of chattr", inode_flags),
    ("append-only files", append_only),
];

/// A log to which programs may only append. It is open to a reader, and to nobody else.
fn append_only(c: &Case<'_>) {
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
    let append = OFlags::WRONLY | OFlags::APPEND;
    for (name, read) in [("alone", false), ("read", true)] {
        let log = c.file(name, b"first");
        c.ok("chown", chown(&log, ALICE));
        let Some(fd) = c.ok("open", open(&log, OFlags::RDONLY, 0)) else { return };
        let Some(before) = c.ok("reading flags", ioctl_getflags(&fd)) else { return };
        c.ok("setting the flag", ioctl_setflags(&fd, before | IFlags::APPEND));
        let reader = read.then_some(fd);
        c.err("opening", ALICE.does(|| open(&log, OFlags::WRONLY, 0)), &[Errno::PERM]);
        let emptied = ALICE.does(|| open(&log, append | OFlags::TRUNC, 0));
        c.err("emptying", emptied, &[Errno::PERM]);
        let appending = ALICE.does(|| open(&log, append, 0));
        let Some(writer) = c.ok("opening for appending", appending) else { return };
        c.is("appended", rustix::io::write(&writer, b", second"), Ok(8));
        c.reads("after one write", &log, b"first, second");
        // Linux appends, whatever the offset is.
        c.is("appended at an offset", rustix::io::pwrite(&writer, b", third", 0), Ok(7));
        let all = b"first, second, third";
        c.reads("after both", &log, all);
        c.ok("fsync", rustix::fs::fsync(&writer));
        drop(writer);
        if let Some(reader) = &reader {
            c.holds_bytes("by the reader", reader, all);
        }
        c.is("size", c.stat(&log).size, all.len() as u64);
        let Some(fd) = c.ok("open", open(&log, OFlags::RDONLY, 0)) else { return };
        c.ok("taking it away", ioctl_setflags(&fd, before));
        c.ok("opening again", open(&log, OFlags::WRONLY, 0));
    }
}

fn inode_flags(c: &Case<'_>) {
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
    for path in [c.file("f", b"content"), c.dir("d")] {
        let Some(fd) = c.ok("open", open(&path, OFlags::RDONLY, 0)) else { return };
        let Some(before) = c.ok("reading them", ioctl_getflags(&fd)) else { return };
        for flag in [IFlags::NODUMP, IFlags::APPEND, IFlags::IMMUTABLE] {
            c.ok("setting one", ioctl_setflags(&fd, before | flag));
            let now = c.ok("reading it", ioctl_getflags(&fd));
            c.is("it is set", now, Some(before | flag));
        }
        c.err("chmod of what is immutable", rustix::fs::chmod(&path, mode(0o777)), &[Errno::PERM]);
        let written = open(&path, OFlags::WRONLY, 0);
        c.err("opening it", written, &[Errno::PERM, Errno::ISDIR, Errno::ACCESS]);
        let by_another = ALICE.does(|| ioctl_setflags(&fd, before | IFlags::NODUMP));
        c.err("setting one by another", by_another, &[Errno::PERM]);
        c.ok("taking it away", ioctl_setflags(&fd, before));
        let now = c.ok("reading them again", ioctl_getflags(&fd));
        c.is("as it was", now, Some(before));
    }
    let file = c.at("f");
    c.reads("its bytes", &file, b"content");
    c.ok("chmod", rustix::fs::chmod(&file, mode(0o600)));
}

fn own(path: &Path, uid: Option<u32>, gid: Option<u32>, flags: AtFlags) -> Result<(), Errno> {
    chownat(CWD, path, uid.map(Uid::from_raw), gid.map(Gid::from_raw), flags)
}

fn changing_modes(c: &Case<'_>) {
    let (file, dir) = (c.file("f", b"x"), c.dir("d"));
    for bits in [0, 0o777, 0o4755, 0o2755, 0o1644, 0o7777, 0o600] {
        c.ok(&format!("chmod {bits:o}"), rustix::fs::chmod(&file, mode(bits)));
        c.is(&format!("mode {bits:o}"), c.stat(&file).mode, 0o100_000 | bits);
        c.ok(&format!("chmod {bits:o} of a directory"), rustix::fs::chmod(&dir, mode(bits)));
        c.is(&format!("mode {bits:o} of a directory"), c.stat(&dir).mode, 0o40_000 | bits);
    }
    let before = c.stat(&file);
    later();
    c.ok("chmod to what it is", rustix::fs::chmod(&file, mode(0o600)));
    let after = c.stat(&file);
    c.holds("ctime alone moves", after.ctime > before.ctime && after.mtime == before.mtime);
    let _ = symlink("f", c.at("soft"));
    c.ok("chmod through a link", rustix::fs::chmod(c.at("soft"), mode(0o640)));
    c.is("reaches the file", c.stat(&file).permissions(), 0o640);
    c.err("chmod of nothing", rustix::fs::chmod(c.at("nothing"), mode(0)), &[Errno::NOENT]);
    c.err("chmod below a file", rustix::fs::chmod(file.join("x"), mode(0)), &[Errno::NOTDIR]);
    if let Some(open) = c.ok("open", open(&file, OFlags::RDONLY, 0)) {
        c.ok("unlink", fs::remove_file(&file));
        c.ok("fchmod of one without a name", rustix::fs::fchmod(&open, mode(0o444)));
        c.is("its mode", c.fstat(&open).permissions(), 0o444);
    }
    let theirs = c.file("theirs", b"");
    c.ok("chown", chown(&theirs, ALICE));
    let by = |user: User| user.does(|| rustix::fs::chmod(&theirs, mode(0o666)));
    c.err("chmod by another", by(BOB), &[Errno::PERM]);
    c.ok("chmod by the owner", by(ALICE));
    // Who is not in the file's group cannot set its set-group bit.
    c.ok("chown to another group", own(&theirs, None, Some(4_321), AtFlags::empty()));
    c.ok("chmod by the owner", ALICE.does(|| rustix::fs::chmod(&theirs, mode(0o2755))));
    c.is("without the bit", c.stat(&theirs).permissions(), 0o755);
    let gone = chmodat(CWD, c.at("soft"), mode(0o600), AtFlags::SYMLINK_NOFOLLOW);
    c.holds("no mode of a link", gone.is_err());
}

fn changing_owners(c: &Case<'_>) {
    let file = c.file("f", b"x");
    let none = AtFlags::empty();
    let before = c.stat(&file);
    later();
    c.ok("chown", own(&file, Some(65_533), Some(65_533), none));
    let facts = c.stat(&file);
    c.is("owner and group", facts.owner(), (65_533, 65_533));
    c.holds("ctime alone moves", facts.ctime > before.ctime && facts.mtime == before.mtime);
    c.ok("owner alone", own(&file, Some(1), None, none));
    c.ok("group alone", own(&file, None, Some(2), none));
    c.is("each by itself", c.stat(&file).owner(), (1, 2));
    c.ok("neither", own(&file, None, None, none));
    c.ok("large numbers", own(&file, Some(4_000_000_000), Some(3_999_999_999), none));
    c.is("large numbers kept", c.stat(&file).owner(), (4_000_000_000, 3_999_999_999));
    let _ = symlink("f", c.at("soft"));
    c.ok("lchown", own(&c.at("soft"), Some(7), Some(8), AtFlags::SYMLINK_NOFOLLOW));
    let (link, facts) = (c.stat(&c.at("soft")), c.stat(&file));
    c.is("of the link", link.owner(), (7, 8));
    c.is("not of the file", facts.uid, 4_000_000_000);
    c.ok("chown", chown(&file, ALICE));
    let by = |user: User, uid, gid| user.does(|| own(&file, uid, gid, none));
    c.err("given away by the owner", by(ALICE, Some(65_532), None), &[Errno::PERM]);
    c.err("taken by another", by(BOB, Some(65_532), None), &[Errno::PERM]);
    c.err("a group one is not in", by(ALICE, None, Some(65_532)), &[Errno::PERM]);
    c.ok("a group one is in", by(ALICE, None, Some(65_533)));
    c.ok("chown", chown(&file, BOB_IN_GROUP));
    c.ok("a supplementary group", by(BOB_IN_GROUP, None, Some(65_533)));
    c.is("is the file's", c.stat(&file).owner(), (65_532, 65_533));
}

fn bits_are_cleared(c: &Case<'_>) {
    let file = c.file("f", b"program");
    let after = |what: &str, act: &dyn Fn(&Path) -> Result<(), Errno>, wanted: u32| {
        c.given(&file, ALICE, 0o6777);
        c.ok(what, act(&file));
        c.is(&format!("mode after {what}"), c.stat(&file).permissions(), wanted);
    };
    let write = |p: &Path| {
        let file = open(p, OFlags::WRONLY, 0)?;
        rustix::io::pwrite(&file, b"P", 0).map(|_| ())
    };
    after("another's write", &|p| BOB.does(|| write(p)), 0o777);
    after("the owner's write", &|p| ALICE.does(|| write(p)), 0o777);
    after("root's write", &write, 0o6777);
    after("another's truncation", &|p| BOB.does(|| sys::truncate(p, 3)), 0o777);
    let cut = |p: &Path| open(p, OFlags::WRONLY | OFlags::TRUNC, 0).map(|_| ());
    after("another's O_TRUNC", &|p| BOB.does(|| cut(p)), 0o777);
    let allocate = |p: &Path| -> Result<(), Errno> {
        let file = open(p, OFlags::WRONLY, 0)?;
        rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, 99)
    };
    after("another's fallocate", &|p| BOB.does(|| allocate(p)), 0o777);
    let give = |p: &Path| own(p, None, Some(65_533), AtFlags::empty());
    after("the owner's chown", &|p| ALICE.does(|| give(p)), 0o777);
    after("root's chown", &|p| own(p, Some(65_532), None, AtFlags::empty()), 0o777);
    after("the owner's chmod", &|p| ALICE.does(|| rustix::fs::chmod(p, mode(0o6755))), 0o6755);
    c.ok("chmod", chmod(&file, 0o2644));
    c.ok("chown", own(&file, Some(1), Some(1), AtFlags::empty()));
    c.is("a set-group bit without execution stays", c.stat(&file).permissions(), 0o2644);
}

fn stamp(s: i64, ns: i64) -> Timespec {
    Timespec { tv_sec: s, tv_nsec: ns as _ }
}

fn times(accessed: Timespec, modified: Timespec) -> Timestamps {
    Timestamps { last_access: accessed, last_modification: modified }
}

fn setting_times(c: &Case<'_>) {
    let (now, omit) = (stamp(0, UTIME_NOW), stamp(0, UTIME_OMIT));
    let none = AtFlags::empty();
    let (file, dir) = (c.file("f", b"x"), c.dir("d"));
    let _ = symlink("f", c.at("soft"));
    for path in [&file, &dir] {
        let before = c.stat(path);
        later();
        let both = times(stamp(1_000, 123_456_789), stamp(2_000, 987_654_321));
        c.ok("utimensat", utimensat(CWD, path, &both, none));
        let facts = c.stat(path);
        let wanted = (1_000_123_456_789, 2_000_987_654_321);
        c.is("to the nanosecond", facts.times(), wanted);
        c.holds("ctime moves", facts.ctime > before.ctime);
        c.ok("one omitted", utimensat(CWD, path, &times(omit, stamp(3_000, 5)), none));
        c.ok("the other omitted", utimensat(CWD, path, &times(stamp(4_000, 6), omit), none));
        c.is("the other stays", c.stat(path).times(), (4_000_000_000_006, 3_000_000_000_005));
        c.ok("both omitted", utimensat(CWD, path, &times(omit, omit), none));
        c.ok("now", utimensat(CWD, path, &times(now, omit), none));
        let facts = c.stat(path);
        c.holds("now is now", facts.atime > before.atime && facts.mtime == 3_000_000_000_005);
        // Before 1970, and beyond 32 bits.
        c.ok(
            "far times",
            utimensat(CWD, path, &times(stamp(-5, 7), stamp(5_000_000_000, 8)), none),
        );
        c.is("far times kept", c.stat(path).times(), (-4_999_999_993, 5_000_000_000_000_000_008));
    }
    let bad = times(stamp(0, 1_000_000_000), omit);
    c.err("a second of too many nanoseconds", utimensat(CWD, &file, &bad, none), &[Errno::INVAL]);
    let own = times(stamp(11, 0), stamp(12, 0));
    c.ok("of a link", utimensat(CWD, c.at("soft"), &own, AtFlags::SYMLINK_NOFOLLOW));
    let (link, facts) = (c.stat(&c.at("soft")), c.stat(&file));
    c.is("the link's", link.mtime, 12_000_000_000);
    c.is("not the file's", facts.mtime, 5_000_000_000_000_000_008);
    if let Some(open) = c.ok("open", open(&file, OFlags::RDONLY, 0)) {
        c.ok("futimens", futimens(&open, &times(stamp(21, 0), stamp(22, 0))));
        c.is("through an open file", c.stat(&file).times(), (21_000_000_000, 22_000_000_000));
    }
    // Set times are not moved by what was written before.
    if let Some(open) = c.ok("open", open(&file, OFlags::WRONLY, 0)) {
        c.ok("write", rustix::io::pwrite(&open, b"abc", 0));
        c.ok("futimens after a write", futimens(&open, &times(stamp(31, 0), stamp(32, 0))));
        drop(open);
        c.is("stays as it was set", c.stat(&file).mtime, 32_000_000_000);
    }
}

fn who_sets_times(c: &Case<'_>) {
    let file = c.file("f", b"x");
    c.given(&file, ALICE, 0o646);
    let (now, omit) = (stamp(0, UTIME_NOW), stamp(0, UTIME_OMIT));
    let by = |user: User, t: Timestamps| user.does(|| utimensat(CWD, &file, &t, AtFlags::empty()));
    c.ok("the owner", by(ALICE, times(stamp(1, 0), stamp(2, 0))));
    c.err("another, at will", by(BOB, times(stamp(1, 0), stamp(2, 0))), &[Errno::PERM]);
    c.ok("another who may write, to now", by(BOB, times(now, now)));
    c.err("another, to now by half", by(BOB, times(now, omit)), &[Errno::PERM]);
    c.ok("chmod", chmod(&file, 0o644));
    c.err("another who may not write", by(BOB, times(now, now)), &[Errno::ACCESS]);
    c.ok("nothing at all", by(BOB, times(omit, omit)));
}

fn when_times_move(c: &Case<'_>) {
    let file = c.file("f", b"some bytes");
    let moves = |what: &str, act: &dyn Fn(&Path) -> Result<(), Errno>, wanted: (bool, bool)| {
        let before = c.stat(&file);
        later();
        c.ok(what, act(&file));
        let after = c.stat(&file);
        let moved = (after.mtime > before.mtime, after.ctime > before.ctime);
        c.is(&format!("mtime and ctime move by {what}"), moved, wanted);
    };
    let write = |p: &Path, bytes: &[u8]| -> Result<(), Errno> {
        rustix::io::pwrite(open(p, OFlags::WRONLY, 0)?, bytes, 0).map(|_| ())
    };
    moves("a write", &|p| write(p, b"S"), (true, true));
    moves("a write of nothing", &|p| write(p, b""), (false, false));
    moves(
        "a read",
        &|p| rustix::io::pread(open(p, OFlags::RDONLY, 0)?, &mut [0; 4], 0).map(|_| ()),
        (false, false),
    );
    moves("opening for writing", &|p| open(p, OFlags::RDWR, 0).map(|_| ()), (false, false));
    moves("truncate", &|p| sys::truncate(p, 5), (true, true));
    moves(
        "ftruncate to what it is",
        &|p| rustix::fs::ftruncate(open(p, OFlags::WRONLY, 0)?, 5),
        (true, true),
    );
    for what in ["O_TRUNC", "O_TRUNC of an empty one"] {
        let cut = |p: &Path| open(p, OFlags::WRONLY | OFlags::TRUNC, 0).map(|_| ());
        moves(what, &cut, (true, true));
    }
    moves("chmod", &|p| rustix::fs::chmod(p, mode(0o600)), (false, true));
    moves("link", &|p| link(p, p.with_extension("2")), (false, true));
    moves("unlink of another name", &|p| rustix::fs::unlink(p.with_extension("2")), (false, true));
    moves("setxattr", &|p| setxattr(p, "user.a", b"b", XattrFlags::empty()), (false, true));
    moves("removexattr", &|p| removexattr(p, "user.a"), (false, true));
    moves("fsync", &|p| rustix::fs::fsync(open(p, OFlags::WRONLY, 0)?), (false, false));
    // What is written through an open file is seen by others at once.
    let Some(held) = c.ok("open", open(&file, OFlags::RDWR | OFlags::APPEND, 0)) else { return };
    for i in 1..=3u64 {
        c.ok("append", rustix::io::write(&held, &[b'x'; 100]));
        c.is("size by name while it is open", c.stat(&file).size, i * 100);
        c.is("size by the open file", c.fstat(&held).size, i * 100);
    }
}

fn reading_moves_atime(c: &Case<'_>) {
    // With relatime, the first read after a change moves the time of access.
    let file = c.file("f", &[7; 9_000]);
    later();
    c.ok("write", fs::write(&file, [8; 9_000]));
    let before = c.stat(&file);
    later();
    c.reads("read", &file, &[8; 9_000]);
    let after = c.stat(&file);
    c.holds("atime moves by the first read", after.atime > before.atime);
    c.is("and ctime does not", after.ctime, before.ctime);
    let old = times(stamp(1_000, 0), stamp(2_000, 0));
    c.ok("utimensat", utimensat(CWD, &file, &old, AtFlags::empty()));
    c.ok(
        "O_NOATIME",
        open(&file, OFlags::RDONLY | OFlags::NOATIME, 0)
            .map(|f| rustix::io::pread(f, &mut [0; 9], 0)),
    );
    c.is("O_NOATIME leaves it", c.stat(&file).atime, 1_000_000_000_000);
}

fn names_of(list: &[u8]) -> Vec<String> {
    let mut names: Vec<String> = list
        .split_inclusive(|b| *b == 0)
        .filter_map(|n| CStr::from_bytes_with_nul(n).ok())
        .map(|n| n.to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    names
}

fn get(path: &Path, name: &str) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; 1 << 16];
    let len = getxattr(path, name, &mut value[..])?;
    value.truncate(len);
    Ok(value)
}

fn list(path: &Path) -> Result<Vec<String>, Errno> {
    let mut names = vec![0; 1 << 16];
    let len = listxattr(path, &mut names[..])?;
    Ok(names_of(&names[..len]))
}

fn extended_attributes(c: &Case<'_>) {
    let (file, dir) = (c.file("f", b"x"), c.dir("d"));
    let any = XattrFlags::empty();
    for path in [&file, &dir] {
        c.is("none at first", list(path), Ok(vec![]));
        c.err("getting what is not there", get(path, "user.a"), &[Errno::NODATA]);
        c.err("removing what is not there", removexattr(path, "user.a"), &[Errno::NODATA]);
        c.err(
            "REPLACE of what is not there",
            setxattr(path, "user.a", b"1", XattrFlags::REPLACE),
            &[Errno::NODATA],
        );
        c.ok("CREATE", setxattr(path, "user.a", b"1", XattrFlags::CREATE));
        c.err("CREATE again", setxattr(path, "user.a", b"2", XattrFlags::CREATE), &[Errno::EXIST]);
        c.ok("REPLACE", setxattr(path, "user.a", b"three", XattrFlags::REPLACE));
        c.is("its value", get(path, "user.a"), Ok(b"three".to_vec()));
        c.ok("an empty value", setxattr(path, "user.empty", b"", any));
        c.is("is a value", get(path, "user.empty"), Ok(vec![]));
        c.ok("a trusted one, by root", setxattr(path, "trusted.t", b"\0\xff", any));
        c.is("bytes of all kinds", get(path, "trusted.t"), Ok(vec![0, 255]));
        let wanted = ["trusted.t", "user.a", "user.empty"].map(str::to_owned).to_vec();
        c.is("all are listed", list(path), Ok(wanted));
        c.err("room for less", getxattr(path, "user.a", &mut [0; 2][..]), &[Errno::RANGE]);
        c.err("room for fewer names", listxattr(path, &mut [0; 3][..]), &[Errno::RANGE]);
        c.is("asking for the size", rustix::fs::getxattr_query(path, "user.a"), Ok(5));
        c.ok("removing one", removexattr(path, "user.a"));
        c.err("is gone", get(path, "user.a"), &[Errno::NODATA]);
        c.err("in no known room", setxattr(path, "nowhere.a", b"1", any), &[Errno::OPNOTSUPP]);
        c.err("without a name", setxattr(path, "user.", b"1", any), &[Errno::INVAL]);
    }
    // What is written since does not touch them.
    c.ok("set", setxattr(&file, "user.kept", b"kept", any));
    c.ok("write", fs::write(&file, vec![1; 100_000]));
    c.ok("truncate", sys::truncate(&file, 10));
    c.ok("rename", fs::rename(&file, c.at("g")));
    c.is("kept through all", get(&c.at("g"), "user.kept"), Ok(b"kept".to_vec()));
    c.ok("link", link(c.at("g"), c.at("h")));
    c.is("by another name", get(&c.at("h"), "user.kept"), Ok(b"kept".to_vec()));
    let _ = symlink("g", c.at("soft"));
    c.is("through a link", get(&c.at("soft"), "user.kept"), Ok(b"kept".to_vec()));
    c.err("user's on a link itself", lsetxattr(c.at("soft"), "user.a", b"1", any), &[Errno::PERM]);
    c.ok("trusted on a link itself", lsetxattr(c.at("soft"), "trusted.a", b"1", any));
    c.is("is read there", lgetxattr(c.at("soft"), "trusted.a", &mut [0; 9][..]), Ok(1));
    c.err("and not through it", get(&c.at("soft"), "trusted.a"), &[Errno::NODATA]);
}

fn attribute_sizes(c: &Case<'_>) {
    let file = c.file("f", b"x");
    let any = XattrFlags::empty();
    let longest = format!("user.{}", "n".repeat(250));
    c.ok("a name of 255 bytes", setxattr(&file, &longest, b"1", any));
    c.is("is kept", get(&file, &longest), Ok(b"1".to_vec()));
    c.err(
        "a name of 256 bytes",
        setxattr(&file, format!("{longest}n"), b"1", any),
        &[Errno::RANGE],
    );
    c.ok("removing it", removexattr(&file, &longest));
    c.ok("a value of 2000 bytes", setxattr(&file, "user.v", &[9; 2_000], any));
    c.is("is kept", get(&file, "user.v"), Ok(vec![9; 2_000]));
    c.err("more than 64 KiB", setxattr(&file, "user.v", &[9; 65_537], any), &[Errno::TOOBIG]);
    c.ok("removing it", removexattr(&file, "user.v"));
    let set = (0..20).try_for_each(|i| setxattr(&file, format!("user.many{i}"), &[i; 50], any));
    c.ok("twenty of them", set);
    c.is("are listed", list(&file).map(|l| l.len()), Ok(20));
    c.is("and have their values", get(&file, "user.many13"), Ok(vec![13; 50]));
}

fn who_sets_attributes(c: &Case<'_>) {
    let file = c.file("f", b"x");
    let any = XattrFlags::empty();
    c.given(&file, ALICE, 0o600);
    let set = |user: User, name: &'static str| user.does(|| setxattr(&file, name, b"v", any));
    c.ok("the owner", set(ALICE, "user.a"));
    c.err("another who may not write", set(BOB, "user.a"), &[Errno::ACCESS]);
    c.err("another who may not read", BOB.does(|| get(&file, "user.a")), &[Errno::ACCESS]);
    c.err("trusted, by the owner", set(ALICE, "trusted.a"), &[Errno::PERM]);
    c.ok("trusted, by root", setxattr(&file, "trusted.a", b"v", any));
    c.is(
        "trusted is not shown to others",
        ALICE.does(|| list(&file)),
        Ok(vec!["user.a".to_owned()]),
    );
    c.ok("chmod", chmod(&file, 0o604));
    c.is("another who may read", BOB.does(|| get(&file, "user.a")), Ok(b"v".to_vec()));
    c.err("another who may not write", BOB.does(|| removexattr(&file, "user.a")), &[Errno::ACCESS]);
    let sticky = c.dir("sticky");
    c.ok("chmod", chmod(&sticky, 0o1777));
    let by = BOB.does(|| setxattr(&sticky, "user.a", b"v", any));
    c.err("on a sticky directory of another", by, &[Errno::PERM]);
}

/// Who writes a file takes away what it may do as a program; who only moves it must not.
fn capabilities(c: &Case<'_>) {
    const NAME: &str = "security.capability";
    let net_bind = [0x0200_0000, 1 << 10, 0, 0, 0].map(u32::to_le_bytes).concat();
    let file = c.file("f", b"program");
    c.ok("set", setxattr(&file, NAME, &net_bind, XattrFlags::empty()));
    c.is("is kept", get(&file, NAME), Ok(net_bind.clone()));
    c.reads("read", &file, b"program");
    // What may move does now.
    c.file("other", b"x");
    c.reads("read again", &file, b"program");
    c.is("is kept still", get(&file, NAME), Ok(net_bind));
    c.ok("write", fs::write(&file, b"another"));
    c.err("goes when it is written", get(&file, NAME), &[Errno::NODATA]);
}

fn the_file_system(c: &Case<'_>) {
    let Some(told) = c.ok("statvfs", rustix::fs::statvfs(c.at(""))) else { return };
    c.is("longest name", told.f_namemax, 255);
    c.holds(
        "blocks",
        told.f_blocks > 0 && told.f_bfree <= told.f_blocks && told.f_bavail <= told.f_bfree,
    );
    c.holds("a block's size", told.f_frsize >= 512 && told.f_bsize >= 512);
    let file = c.file("f", b"x");
    let open = c.ok("open", open(&file, OFlags::RDONLY, 0));
    let same = open.and_then(|f| rustix::fs::fstatvfs(f).ok()).map(|s| s.f_blocks);
    c.is("the same by an open file", same, Some(told.f_blocks));
    c.holds("sync", fs::File::open(c.at("")).is_ok_and(|f| rustix::fs::syncfs(f).is_ok()));
}
