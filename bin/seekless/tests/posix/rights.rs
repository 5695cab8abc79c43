//! Who may do what: permissions as users who are not root meet them.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{
    Access, AtFlags, CWD, Mode, OFlags, accessat, link, mkdir, rename, rmdir, symlink, unlink,
};
use rustix::io::Errno;

use crate::case::{ALICE, BOB, BOB_IN_GROUP, Case, Check, User, chmod, chown, open};
use crate::sys;

pub(crate) const CHECKS: &[(&str, Check)] = &[
    ("owner, group and others", classes),
    ("directories without write", unwritable_directories),
    ("directories without search or read", closed_directories),
    ("sticky directories", sticky_directories),
    ("access", asking_first),
    ("what is made belongs to who made it", ownership),
    ("special flags", flags_of_the_owner),
];

fn classes(c: &Case<'_>) {
    let file = c.file("f", b"secret");
    c.ok("chown", chown(&file, ALICE));
    let stranger = User { uid: 65_531, gid: 65_531, groups: &[] };
    let may = |user: User, flags: OFlags| user.does(|| open(&file, flags, 0).map(|_| ()));
    let none = Err(Errno::ACCESS);
    for (bits, owner, group, others) in [
        (0o400, (true, false), (false, false), (false, false)),
        (0o040, (false, false), (true, false), (false, false)),
        (0o004, (false, false), (false, false), (true, false)),
        (0o200, (false, true), (false, false), (false, false)),
        (0o060, (false, false), (true, true), (false, false)),
        (0o606, (true, true), (false, false), (true, true)),
        (0o077, (false, false), (true, true), (true, true)),
    ] {
        c.ok("chmod", chmod(&file, bits));
        for (who, user, (read, write)) in
            [("owner", ALICE, owner), ("group", BOB_IN_GROUP, group), ("others", stranger, others)]
        {
            let wanted = |may: bool| if may { Ok(()) } else { none };
            c.is(&format!("{who} reads {bits:03o}"), may(user, OFlags::RDONLY), wanted(read));
            c.is(&format!("{who} writes {bits:03o}"), may(user, OFlags::WRONLY), wanted(write));
            c.is(
                &format!("{who} does both {bits:03o}"),
                may(user, OFlags::RDWR),
                wanted(read && write),
            );
        }
    }
    c.ok("chmod", chmod(&file, 0o444));
    let cut = BOB.does(|| sys::truncate(&file, 0));
    c.err("truncate without write", cut, &[Errno::ACCESS]);
    c.err("O_TRUNC without write", may(BOB, OFlags::RDONLY | OFlags::TRUNC), &[Errno::ACCESS]);
    c.reads("nothing was cut", &file, b"secret");
    c.ok("chmod", chmod(&file, 0));
    c.ok("root may", fs::read(&file));
    // Root runs only what somebody may run.
    let run = |path: &Path| {
        std::process::Command::new(path).status().map_err(|e| Errno::from_io_error(&e))
    };
    c.is("root runs nothing without x", run(&file).err(), Some(Some(Errno::ACCESS)));
    let script = c.file("run", b"#!/bin/sh\nexit 0\n");
    c.ok("chmod", chmod(&script, 0o711));
    let exec = BOB.does(|| accessat(CWD, &script, Access::EXEC_OK, AtFlags::EACCESS));
    c.ok("others may run", exec);
}

fn unwritable_directories(c: &Case<'_>) {
    let (dir, file, sub) = (c.dir("d"), c.file("d/f", b"x"), c.dir("d/s"));
    c.ok("chown", chown(&dir, ALICE));
    let theirs = c.dir("bobs");
    c.ok("chown", chown(&theirs, BOB));
    let own = theirs.join("own");
    c.ok("own file", BOB.does(|| fs::write(&own, b"mine")));
    let target = dir.join("new");
    let by = |act: &(dyn Fn() -> Result<(), Errno> + Sync)| BOB.does(act);
    let no = &[Errno::ACCESS];
    c.err("create", by(&|| open(&target, OFlags::CREATE | OFlags::WRONLY, 0o644).map(|_| ())), no);
    c.err("mkdir", by(&|| mkdir(&target, Mode::RWXU)), no);
    c.err("symlink", by(&|| symlink("x", &target)), no);
    c.err("link", by(&|| link(&own, &target)), no);
    c.err("mkfifo", by(&|| rustix::fs::mkfifoat(CWD, &target, Mode::RWXU)), no);
    c.err("unlink", by(&|| unlink(&file)), no);
    c.err("rmdir", by(&|| rmdir(&sub)), no);
    c.err("rename within", by(&|| rename(&file, &target)), no);
    c.err("rename into", by(&|| rename(&own, &target)), no);
    c.err("rename out of", by(&|| rename(&file, theirs.join("f"))), no);
    c.ok("reading is allowed", by(&|| open(&file, OFlags::RDONLY, 0).map(|_| ())));
    c.ok(
        "what is there is opened with O_CREAT",
        by(&|| open(&file, OFlags::CREATE, 0o644).map(|_| ())),
    );
    // A directory that is moved to another parent is written itself: its '..' changes.
    let moved = c.dir("d/moved");
    c.ok("chown", chown(&moved, ALICE));
    c.ok("chmod", chmod(&dir, 0o777));
    let other = c.dir("bobs/to");
    c.ok("chown", chown(&other, BOB));
    c.err(
        "moving another's directory",
        by(&|| rename(&moved, other.join("m"))),
        &[Errno::ACCESS, Errno::PERM],
    );
    c.ok("once it may be written", chmod(&moved, 0o777));
    c.ok("moving it", by(&|| rename(&moved, other.join("m"))));
}

fn closed_directories(c: &Case<'_>) {
    let (dir, file) = (c.dir("d"), c.file("d/f", b"x"));
    c.ok("chown", chown(&dir, ALICE));
    let list = || {
        BOB.does(|| fs::read_dir(&dir).map(Iterator::count).map_err(|e| Errno::from_io_error(&e)))
    };
    let look = || BOB.does(|| rustix::fs::stat(&file).map(|_| ()));
    c.ok("chmod", chmod(&dir, 0o744));
    c.is("listing without search", list(), Ok(1));
    c.err("stat without search", look(), &[Errno::ACCESS]);
    let go = |act: &(dyn Fn() -> Result<(), Errno> + Sync)| BOB.does(act);
    let (no, link, none) = (&[Errno::ACCESS], dir.join("l"), dir.join("none"));
    c.err("open without search", go(&|| open(&file, OFlags::RDONLY, 0).map(|_| ())), no);
    c.err("chmod without search", go(&|| rustix::fs::chmod(&file, Mode::RWXU)), no);
    c.err("readlink without search", go(&|| rustix::fs::readlink(&link, []).map(|_| ())), no);
    c.err("what is not there either", go(&|| rustix::fs::stat(&none).map(|_| ())), no);
    c.ok("chmod", chmod(&dir, 0o711));
    c.is("listing without read", list(), Err(Some(Errno::ACCESS)));
    c.ok("stat without read", look());
    c.ok("chmod", chmod(&dir, 0o722));
    c.err("creating without search", go(&|| mkdir(dir.join("n"), Mode::RWXU)), no);
    // A handle from before is as good as ever.
    c.ok("chmod", chmod(&dir, 0o755));
    let held = BOB.does(|| open(&file, OFlags::RDONLY, 0));
    c.ok("chmod", chmod(&dir, 0o700));
    let read = held.map(|f| BOB.does(|| f.read_at(&mut [0; 1], 0).map_err(|_| Errno::IO)));
    c.is("reading what was opened before", read.ok(), Some(Ok(1)));
}

fn sticky_directories(c: &Case<'_>) {
    let dir = c.dir("sticky");
    c.ok("chmod", chmod(&dir, 0o1777));
    let make = |user: User, name: &str| user.does(|| fs::write(dir.join(name), b"x"));
    for name in ["a", "b", "c"] {
        c.ok("Alice's", make(ALICE, name));
    }
    c.ok("Alice's directory", ALICE.does(|| fs::create_dir(dir.join("ad"))));
    c.ok("Bob's", make(BOB, "bob"));
    let at = |name: &str| dir.join(name);
    let no = &[Errno::PERM, Errno::ACCESS];
    c.err("unlink of another's", BOB.does(|| unlink(at("a"))), no);
    c.err("rename of another's", BOB.does(|| rename(at("a"), at("z"))), no);
    c.err("rename over another's", BOB.does(|| rename(at("bob"), at("a"))), no);
    c.err("rmdir of another's", BOB.does(|| rmdir(at("ad"))), no);
    c.ok("unlink of one's own", ALICE.does(|| unlink(at("a"))));
    c.ok("rename of one's own", ALICE.does(|| rename(at("b"), at("b2"))));
    c.ok("chown", chown(&dir, BOB));
    c.ok("unlink by the directory's owner", BOB.does(|| unlink(at("c"))));
    c.ok("rmdir by the directory's owner", BOB.does(|| rmdir(at("ad"))));
    c.ok("unlink by root", unlink(at("b2")));
}

fn asking_first(c: &Case<'_>) {
    let file = c.file("f", b"x");
    c.given(&file, ALICE, 0o640);
    let ask = |user: User, access| user.does(|| accessat(CWD, &file, access, AtFlags::EACCESS));
    c.is("the owner reads", ask(ALICE, Access::READ_OK | Access::WRITE_OK), Ok(()));
    c.is("the owner runs", ask(ALICE, Access::EXEC_OK), Err(Errno::ACCESS));
    c.is("the group reads", ask(BOB_IN_GROUP, Access::READ_OK), Ok(()));
    c.is("the group writes", ask(BOB_IN_GROUP, Access::WRITE_OK), Err(Errno::ACCESS));
    c.is("others read", ask(BOB, Access::READ_OK), Err(Errno::ACCESS));
    c.is("it is there for all", ask(BOB, Access::EXISTS), Ok(()));
    c.is("root runs", rustix::fs::access(&file, Access::EXEC_OK), Err(Errno::ACCESS));
    c.is("root writes", rustix::fs::access(&file, Access::WRITE_OK), Ok(()));
    c.is("nothing", rustix::fs::access(c.at("none"), Access::EXISTS), Err(Errno::NOENT));
}

fn ownership(c: &Case<'_>) {
    let dir = c.dir("open");
    c.ok("chmod", chmod(&dir, 0o777));
    let make = ALICE.does(|| -> Result<(), Errno> {
        open(&dir.join("f"), OFlags::CREATE | OFlags::WRONLY, 0o644)?;
        mkdir(dir.join("d"), Mode::RWXU)?;
        symlink("f", dir.join("l"))?;
        rustix::fs::mkfifoat(CWD, dir.join("p"), Mode::RUSR)
    });
    c.ok("making things", make);
    for name in ["f", "d", "l", "p"] {
        c.is(
            &format!("owner and group of {name}"),
            c.stat(&dir.join(name)).owner(),
            (ALICE.uid, ALICE.gid),
        );
    }
    // With the set-group bit, a file that is made by who is not of the group does not keep that
    // bit.
    c.ok("chown", std::os::unix::fs::chown(&dir, None, Some(4_321)));
    c.ok("chmod", chmod(&dir, 0o2777));
    let made =
        ALICE.does(|| open(&dir.join("s"), OFlags::CREATE | OFlags::WRONLY, 0o2755).map(|_| ()));
    c.ok("making a set-group file", made);
    let facts = c.stat(&dir.join("s"));
    c.is(
        "the directory's group, without the bit",
        (facts.gid, facts.permissions()),
        (4_321, 0o755),
    );
}

fn flags_of_the_owner(c: &Case<'_>) {
    let file = c.file("f", b"x");
    c.given(&file, ALICE, 0o666);
    let quiet = OFlags::RDONLY | OFlags::NOATIME;
    c.ok("O_NOATIME by the owner", ALICE.does(|| open(&file, quiet, 0).map(|_| ())));
    c.err("O_NOATIME by another", BOB.does(|| open(&file, quiet, 0).map(|_| ())), &[Errno::PERM]);
    let null = rustix::fs::makedev(1, 3);
    let device = rustix::fs::mknodat(
        CWD,
        c.at("dev"),
        rustix::fs::FileType::CharacterDevice,
        Mode::RUSR,
        null,
    );
    c.ok("mknod by root", device);
    c.ok("chmod", chmod(&c.at(""), 0o777));
    let at = c.at("dev2");
    let device = BOB.does(|| {
        rustix::fs::mknodat(CWD, &at, rustix::fs::FileType::CharacterDevice, Mode::RUSR, null)
    });
    c.err("mknod by another", device, &[Errno::PERM]);
}
