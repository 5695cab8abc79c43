//! Two directories that are done the same to, one of them through the mount: each answer must be
//! the same, and so must what is left in the end. Random operations on few names, so that they
//! meet; SEEKLESS_SEED repeats a run.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps, Uid, XattrFlags, chownat,
    link, mkdir, readlink, removexattr, rename, renameat_with, rmdir, setxattr, symlink, unlink,
    utimensat,
};
use rustix::io::Errno;

use crate::case::{Facts, open};
use crate::fsx::seed;
use crate::ground::{Ground, RESTLESS, shuffle};
use crate::host::{self, Numbers};
use crate::need;
use crate::sys;

const OPERATIONS: u64 = 4_000;

fn path(numbers: &mut Numbers) -> String {
    let name = |n: u64| ["a", "b", "c", "d", "e"][n as usize];
    match numbers.below(3) {
        0 => name(numbers.below(5)).to_owned(),
        1 => format!("{}/{}", name(numbers.below(5)), name(numbers.below(5))),
        _ => format!("d/{}", name(numbers.below(5))),
    }
}

/// One operation, the same for the same numbers; what came of it.
fn act(root: &Path, mut numbers: Numbers) -> (String, Result<String, Errno>) {
    let (kind, first, second) = (numbers.below(22), path(&mut numbers), path(&mut numbers));
    let (one, two) = (root.join(&first), root.join(&second));
    let (some, size) = (numbers.below(1 << 16), numbers.below(90_000));
    let unit = |result: Result<(), Errno>| result.map(|()| String::new());
    let result = match kind {
        0 | 1 => {
            unit(open(&one, OFlags::CREATE | OFlags::WRONLY | OFlags::EXCL, 0o644).map(|_| ()))
        }
        2 => unit(mkdir(&one, Mode::from_raw_mode(0o755))),
        3 => unit(link(&one, &two)),
        4 => unit(symlink(&second, &one)),
        5 | 6 => unit(rename(&one, &two)),
        7 => unit(renameat_with(CWD, &one, CWD, &two, RenameFlags::EXCHANGE)),
        8 => unit(renameat_with(CWD, &one, CWD, &two, RenameFlags::NOREPLACE)),
        9 => unit(unlink(&one)),
        10 => unit(rmdir(&one)),
        11..=13 => unit(open(&one, OFlags::WRONLY, 0).and_then(|f| {
            let bytes = numbers.bytes(1 + (size / 10) as usize);
            f.write_all_at(&bytes, some).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
        })),
        14 => unit(sys::truncate(&one, size as i64)),
        15 => unit(rustix::fs::chmod(&one, Mode::from_raw_mode((some & 0o7777) as u32 | 0o700))),
        16 => {
            let (uid, gid) = (Uid::from_raw(some as u32 % 7), Gid::from_raw(size as u32 % 7));
            unit(chownat(CWD, &one, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW))
        }
        17 => {
            let at = Timespec { tv_sec: some as i64, tv_nsec: size as _ };
            let times = Timestamps { last_access: at, last_modification: at };
            unit(utimensat(CWD, &one, &times, AtFlags::SYMLINK_NOFOLLOW))
                .and_then(|_| rustix::fs::lstat(&one))
                .map(|s| Facts::of(s).mtime.to_string())
        }
        18 => unit(setxattr(&one, "user.x", &some.to_le_bytes(), XattrFlags::empty())),
        19 => unit(removexattr(&one, "user.x")),
        20 => readlink(&one, []).map(|t| t.to_string_lossy().into_owned()),
        _ => open(&one, OFlags::RDONLY, 0).and_then(|f| {
            let mut bytes = vec![0; 200_000];
            let n = crate::case::fill(&f, &mut bytes)
                .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
            Ok(format!("{n} bytes, sum {:08x}", crc_fast::crc32_iscsi(&bytes[..n])))
        }),
    };
    (format!("operation {kind}: {first}, {second}, {some}, {size}"), result)
}

/// All that is below a directory, as clients see it.
fn tree(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut names: BTreeMap<u64, usize> = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(dir) = left.pop() {
        let mut entries: Vec<_> =
            std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            let facts = Facts::of(rustix::fs::lstat(&path).unwrap());
            // Which names lead to the same inode, whatever its number.
            let next = names.len();
            let same = *names.entry(facts.ino).or_insert(next);
            let mut said = format!(
                "{:o} {} {} {} inode {same}",
                facts.mode, facts.nlink, facts.uid, facts.gid
            );
            let meta = path.symlink_metadata().unwrap();
            if meta.is_file() {
                let mut value = [0; 64];
                let x = rustix::fs::getxattr(&path, "user.x", &mut value[..]);
                let bytes = std::fs::read(&path).unwrap();
                assert_eq!(bytes.len() as u64, meta.size(), "{}", path.display());
                said += &format!(
                    " {} {:08x} {:?}",
                    bytes.len(),
                    crc_fast::crc32_iscsi(&bytes),
                    x.map(|n| value[..n].to_vec())
                );
            } else if meta.is_symlink() {
                said += &format!(" {:?}", std::fs::read_link(&path).unwrap());
            } else {
                left.push(path.clone());
            }
            found.insert(path.strip_prefix(root).unwrap().display().to_string(), said);
        }
    }
    found
}

fn twins(ground: &Ground) {
    let seed = seed();
    eprintln!("SEEKLESS_SEED={seed}");
    let other = Ground::plain();
    let roots = [other.root(), ground.root()];
    let (mut numbers, mut worked) = (Numbers::new(seed), 0);
    for i in 0..OPERATIONS {
        let one = numbers.next();
        let [(what, plain), (_, mount)] = [0, 1].map(|r: usize| act(&roots[r], Numbers::new(one)));
        assert_eq!(plain, mount, "{i}: {what}; on a plain directory, then on this one");
        worked += u32::from(plain.is_ok());
        if i % 200 == 199 {
            assert_eq!(tree(&roots[0]), tree(&roots[1]), "after {i}");
            if ground.is_mounted() {
                shuffle(&roots[1]);
                assert_eq!(tree(&roots[0]), tree(&roots[1]), "after a shuffle after {i}");
            }
        }
    }
    assert!(
        u64::from(worked) > OPERATIONS / 8,
        "only {worked} of {OPERATIONS} operations did something"
    );
}

#[test]
fn two_plain_directories_answer_alike() {
    need!("twins", host::root());
    twins(&Ground::plain());
}

#[test]
fn the_mount_answers_as_a_plain_directory_does() {
    need!("twins", Ground::missing());
    let ground = Ground::mounted(RESTLESS);
    twins(&ground);
    let state = ground.state();
    assert!(state["came"].as_u64() > Some(10), "nothing moved: {state}");
    ground.end();
}
