//! Random operations on names, open descriptors, mappings, locks, watches, ACLs and directory streams,
//! also by clients who are not root. Each is asked of a plain directory and of the mount: each answer
//! must be the same, and so must the tree that is left. Where the two cannot be alike for a reason
//! that docs/using/files.md gives, the operation says so below. SEEKLESS_STRICT=N: N operations;
//! SEEKLESS_SEED repeats a run.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{
    Access, AtFlags, CWD, Dir, FallocateFlags, FileType, FlockOperation, Gid, Mode, OFlags,
    RenameFlags, SeekFrom, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use crate::case::{ALICE, BOB, BOB_IN_GROUP, Facts, User, chmod, fill, open};
use crate::ground::{Ground, RESTLESS, shuffle, shuffling};
use crate::host::{self, Numbers};
use crate::need;
use crate::sys::{self, Map};

const SLOTS: usize = 6;
/// Set by utimensat; a file that was written since has another.
const LONG_AGO: i64 = 1_000_000;

fn operations() -> u64 {
    host::rounds("SEEKLESS_STRICT", 3_000, 20_000)
}

type Answer = Result<String, Errno>;

fn word(e: &std::io::Error) -> Errno {
    Errno::from_io_error(e).unwrap_or(Errno::IO)
}

fn long_ago(some: u64) -> Timestamps {
    let at = Timespec { tv_sec: LONG_AGO, tv_nsec: some as _ };
    Timestamps { last_access: at, last_modification: at }
}

fn unit(result: Result<(), Errno>) -> Answer {
    result.map(|()| String::new())
}

fn sum(bytes: &[u8]) -> String {
    format!("{} bytes, sum {:08x}", bytes.len(), crc_fast::crc32_iscsi(bytes))
}

/// Few names, so that operations meet; some of them are odd.
fn name(n: u64) -> OsString {
    match n {
        0..=4 => OsString::from(["a", "b", "c", "d", "e"][n as usize]),
        5 => OsString::from_vec(vec![b'x'; 255]),
        6 => OsString::from_vec(vec![b'x'; 256]),
        7 => OsString::from_vec(vec![0xFF, b'\n', 0x80, b'\\']),
        8 => OsString::from("."),
        _ => OsString::from(".."),
    }
}

fn one_of(numbers: &mut Numbers) -> OsString {
    let n = if numbers.below(12) == 0 { numbers.below(10) } else { numbers.below(5) };
    name(n)
}

/// `d` and `e` are mostly directories.
fn path(numbers: &mut Numbers) -> PathBuf {
    let mut path = PathBuf::new();
    match numbers.below(8) {
        0..=2 => {}
        3..=5 => path.push("d"),
        6 => path.push("e"),
        _ => path.push("d/e"),
    }
    path.push(one_of(numbers));
    if numbers.below(20) == 0 {
        path.push("");
    }
    path
}

fn who(numbers: &mut Numbers) -> Option<User> {
    match numbers.below(10) {
        0 => Some(ALICE),
        1 => Some(BOB),
        2 => Some(BOB_IN_GROUP),
        _ => None,
    }
}

/// Around the sizes where something changes.
fn size(numbers: &mut Numbers) -> u64 {
    match numbers.below(12) {
        0 => 0,
        1 => 65_535 + numbers.below(3),
        2 => numbers.below(300_000),
        3 => 4_095 + numbers.below(3),
        _ => numbers.below(20_000),
    }
}

/// Sometimes far beyond.
fn place(numbers: &mut Numbers) -> u64 {
    if numbers.below(40) == 0 { (1 << 32) + numbers.below(1 << 34) } else { size(numbers) }
}

/// One of the two, and what a client holds open there.
struct Side {
    root: PathBuf,
    slots: [Option<File>; SLOTS],
    /// How long it is, of which file, and whether it may be written.
    map: Option<(Map, usize, File, bool)>,
    watch: rustix::fd::OwnedFd,
}

impl Side {
    fn new(root: PathBuf) -> Self {
        std::fs::create_dir_all(&root).unwrap();
        chmod(&root, 0o777).unwrap();
        let watch = inotify::init(CreateFlags::NONBLOCK).unwrap();
        let what = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::CLOSE_WRITE;
        inotify::add_watch(&watch, &root, what).unwrap();
        for name in ["d", "d/e", "e"] {
            std::fs::create_dir(root.join(name)).unwrap();
            chmod(&root.join(name), 0o777).unwrap();
        }
        for name in ["a", "d/a", "e/b"] {
            std::fs::write(root.join(name), Numbers::new(9).bytes(5_000)).unwrap();
        }
        Self { root, slots: [const { None }; SLOTS], map: None, watch }
    }

    /// One that is open, if any is.
    fn slot(&self, numbers: &mut Numbers) -> Option<usize> {
        let first = numbers.below(SLOTS as u64) as usize;
        (first..first + SLOTS).map(|i| i % SLOTS).find(|i| self.slots[*i].is_some())
    }

    /// What the directory's watch has seen, in order, but for what comes twice: the kernel may or
    /// may not merge that.
    fn events(&self) -> Vec<String> {
        let mut room = [MaybeUninit::uninit(); 8192];
        let mut events = inotify::Reader::new(&self.watch, &mut room);
        let mut seen = Vec::new();
        while let Ok(event) = events.next() {
            let name = event.file_name().map(|n| n.to_string_lossy().into_owned());
            seen.push(format!("{:?} {}", event.events(), name.unwrap_or_default()));
        }
        seen.dedup();
        seen
    }

    /// An operation on names.
    fn on_names(&mut self, numbers: &mut Numbers) -> (String, Answer) {
        let (kind, first, second, user) =
            (numbers.below(32), path(numbers), path(numbers), who(numbers));
        let (one, two) = (self.root.join(&first), self.root.join(&second));
        let (some, bits) = (numbers.below(1 << 16), (numbers.below(0o10000)) as u32);
        let (at, slot) = (place(numbers), numbers.below(SLOTS as u64) as usize);
        // Of a file that its group may not execute the kernel leaves the set-group bit to FUSE's
        // servers, and does not tell them who writes.
        let bits = bits | ((bits & 0o2000) >> 7);
        let mode = Mode::from_raw_mode(bits);
        let held = &self.slots[slot];
        let act = || -> (Answer, Option<File>) {
            let answer = match kind {
                0..=6 | 30 | 31 => {
                    let opened = open(&one, flags(some), bits & 0o7777 | 0o600);
                    return match opened {
                        Ok(file) => (Ok(String::new()), Some(file)),
                        Err(e) => (Err(e), None),
                    };
                }
                7 | 8 => unit(rustix::fs::mkdir(&one, mode | Mode::RWXU)),
                9 | 10 => unit(rustix::fs::rename(&one, &two)),
                11 => {
                    let flags = [
                        RenameFlags::EXCHANGE,
                        RenameFlags::NOREPLACE,
                        RenameFlags::WHITEOUT,
                        RenameFlags::EXCHANGE | RenameFlags::NOREPLACE,
                        RenameFlags::WHITEOUT | RenameFlags::NOREPLACE,
                        RenameFlags::from_bits_retain(64),
                    ][some as usize % 6];
                    unit(rustix::fs::renameat_with(CWD, &one, CWD, &two, flags))
                }
                12 => unit(rustix::fs::link(&one, &two)),
                13 => unit(rustix::fs::linkat(CWD, &one, CWD, &two, AtFlags::SYMLINK_FOLLOW)),
                // A file is given a name by its descriptor.
                14 => match held {
                    Some(file) => {
                        unit(rustix::fs::linkat(file, "", CWD, &two, AtFlags::EMPTY_PATH))
                    }
                    None => Err(Errno::BADFD),
                },
                15 => {
                    let target = "../".repeat(some as usize % 3) + &"a".repeat(some as usize % 5);
                    unit(rustix::fs::symlink(target, &one))
                }
                16 => {
                    let kind = [FileType::Fifo, FileType::Socket, FileType::CharacterDevice];
                    let kind = kind[some as usize % 3];
                    unit(rustix::fs::mknodat(CWD, &one, kind, mode, some & 3))
                }
                17 => unit(rustix::fs::unlink(&one)),
                18 | 19 if some % 4 > 0 => rustix::fs::lstat(&one).map(|s| told(Facts::of(s))),
                18 | 19 => unit(rustix::fs::rmdir(&one)),
                20 => unit(rustix::fs::chmod(&one, mode | Mode::RUSR | Mode::WUSR)),
                21 => {
                    let ids = [None, Some(0), Some(ALICE.uid), Some(BOB.uid)];
                    let (uid, gid) = (ids[some as usize % 4], ids[some as usize / 4 % 4]);
                    let flags = AtFlags::SYMLINK_NOFOLLOW;
                    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
                    unit(rustix::fs::chownat(CWD, &one, uid, gid, flags))
                }
                22 => {
                    let time = |n: u64| match n % 4 {
                        0 => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
                        1 => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
                        2 => Timespec { tv_sec: LONG_AGO, tv_nsec: 999_999_999 },
                        _ => Timespec { tv_sec: -(some as i64), tv_nsec: some as _ },
                    };
                    let times =
                        Timestamps { last_access: time(some), last_modification: time(some / 4) };
                    unit(rustix::fs::utimensat(CWD, &one, &times, AtFlags::SYMLINK_NOFOLLOW))
                }
                23 => unit(sys::truncate(&one, at as i64)),
                24 => attribute(&one, some),
                25 => rustix::fs::access(&one, Access::from_bits_retain(some as u32 % 8))
                    .map(|()| String::new()),
                26 => rustix::fs::readlink(&one, []).map(|t| t.to_string_lossy().into_owned()),
                27 => open(&one, OFlags::RDONLY | OFlags::NONBLOCK, 0).and_then(|f| {
                    let mut all = vec![0; 400_000];
                    let n = fill(&f, &mut all).map_err(|e| word(&e))?;
                    Ok(sum(&all[..n]))
                }),
                28 => listed(&one),
                _ => rustix::fs::stat(&one).map(|s| told(Facts::of(s))),
            };
            (answer, None)
        };
        let what = format!("{kind} {first:?} {second:?} {some} {bits:o} {at} as {user:?}");
        let (answer, file) = match user {
            Some(user) => user.does(act),
            None => act(),
        };
        if file.is_some() {
            self.slots[slot] = file;
        }
        (what, answer)
    }

    /// An operation on what is open.
    fn on_open(&mut self, numbers: &mut Numbers) -> (String, Answer) {
        let kind = numbers.below(30);
        let (at, len, some) = (place(numbers), size(numbers), numbers.below(1 << 16));
        let (Some(slot), Some(other)) = (self.slot(numbers), self.slot(numbers)) else {
            return ("nothing is open".to_owned(), Err(Errno::BADFD));
        };
        let what = format!("open {kind} of {slot}, {other}: {at} {len} {some}");
        if kind == 0 {
            self.slots[slot] = None;
            return (what, Ok(String::new()));
        }
        if kind == 1 {
            self.map = None;
        }
        // What is open is opened again, though it has lost its name perhaps.
        if kind >= 28
            && let Some(file) = &self.slots[slot]
        {
            let link = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            let again = open(&link, flags(some) - OFlags::NOFOLLOW, 0);
            let answer = again.map(|file| {
                self.slots[slot] = Some(file);
                String::new()
            });
            return (what, answer);
        }
        let two = [slot, other].map(|i| self.slots[i].as_ref().map(|f| f.try_clone().unwrap()));
        let [Some(file), Some(other)] = two else { return (what, Err(Errno::BADFD)) };
        (what, self.act([file, other], kind, (at, len, some)))
    }

    fn act(
        &mut self,
        [file, other]: [File; 2],
        kind: u64,
        (at, len, some): (u64, u64, u64),
    ) -> Answer {
        // Where a directory's stream may be set, and whether a fifo's times move when it is used,
        // is not the same.
        let is = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
        if is != FileType::RegularFile && matches!(kind, 1..=16 | 23 | 25) {
            return Ok(String::new());
        }
        match kind {
            1 => {
                let size = rustix::fs::fstat(&file)?.st_size as usize;
                if size == 0 || size > 1 << 20 {
                    return Ok(String::new());
                }
                let writable = some.is_multiple_of(2);
                let map = Map::new(&file, size, writable, true)?;
                self.map = Some((map, size, file, writable));
                Ok(String::new())
            }
            2..=4 => {
                let mut bytes = vec![0; len as usize];
                let n = rustix::io::pread(&file, &mut bytes[..], at)?;
                Ok(sum(&bytes[..n]))
            }
            5..=8 => {
                let bytes = Numbers::new(some).bytes(len as usize);
                rustix::io::pwrite(&file, &bytes, at).map(|n| n.to_string())
            }
            9 => {
                let bytes = Numbers::new(some).bytes(len as usize);
                rustix::io::write(&file, &bytes).map(|n| n.to_string())
            }
            10 => {
                let mut bytes = vec![0; len as usize];
                let n = rustix::io::read(&file, &mut bytes[..])?;
                Ok(sum(&bytes[..n]))
            }
            11 => {
                let to = match some % 3 {
                    0 => SeekFrom::Start(at),
                    1 => SeekFrom::Current(at as i64 - 5_000),
                    _ => SeekFrom::End(at as i64 - 5_000),
                };
                rustix::fs::seek(&file, to).map(|n| n.to_string())
            }
            // Holes of a small file are filled when it moves: only what is found is checked.
            // Where a directory can be sought to is its file system's matter.
            12 if !FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode).is_file() => {
                Ok(String::new())
            }
            12 => {
                let hole = rustix::fs::seek(&file, SeekFrom::Hole(at));
                let data = hole.and_then(|h| rustix::fs::seek(&file, SeekFrom::Data(h)));
                if let (Ok(hole), Ok(data)) = (hole, data) {
                    let mut bytes = vec![0; (data - hole).min(1 << 20) as usize];
                    // Which of the two has a hole may differ; one open for writing alone shows it
                    // to nobody.
                    let n = match rustix::io::pread(&file, &mut bytes[..], hole) {
                        Err(Errno::BADF) => 0,
                        read => read?,
                    };
                    assert!(bytes[..n].iter().all(|b| *b == 0), "{hole} to {data} is no hole");
                }
                rustix::fs::seek(&file, SeekFrom::Start(at)).map(|n| n.to_string())
            }
            13 => unit(rustix::fs::ftruncate(&file, at)),
            14 => {
                let how = [
                    FallocateFlags::empty(),
                    FallocateFlags::KEEP_SIZE,
                    FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                    FallocateFlags::ZERO_RANGE,
                    FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
                ][some as usize % 5];
                unit(rustix::fs::fallocate(&file, how, at.min(1 << 20), len))
            }
            15 | 16 => {
                let (mut from, mut to) = (at, some * 3);
                let (from, to) = (Some(&mut from), Some(&mut to));
                let n = rustix::fs::copy_file_range(&file, from, &other, to, len as usize)?;
                Ok(n.to_string())
            }
            17 => unit(rustix::fs::fsync(&file)),
            18 => unit(rustix::fs::fdatasync(&file)),
            19 => {
                let how = [
                    FlockOperation::NonBlockingLockExclusive,
                    FlockOperation::NonBlockingLockShared,
                    FlockOperation::Unlock,
                ][some as usize % 3];
                unit(rustix::fs::flock(&file, how))
            }
            20 => {
                let kind = [libc::F_RDLCK, libc::F_WRLCK, libc::F_UNLCK][some as usize % 3];
                unit(sys::range_lock(&file, kind, at as i64, len as i64))
            }
            21 => {
                let bits = some as u32 & 0o7777 | 0o600;
                let bits = bits | ((bits & 0o2000) >> 7);
                unit(rustix::fs::fchmod(&file, Mode::from_raw_mode(bits)))
            }
            22 => unit(rustix::fs::futimens(&file, &long_ago(some))),
            // As somebody who is not root: rights of the file's owner that it carries go when it is
            // written.
            23 => ALICE.does(|| rustix::io::pwrite(&file, &[1; 100], at).map(|n| n.to_string())),
            24 => match &self.map {
                Some((map, len, mapped, _)) => {
                    // Beyond the end there is nothing that could be touched.
                    let len = (*len).min(rustix::fs::fstat(mapped)?.st_size as usize);
                    let mut bytes = vec![0; len];
                    map.read(0, &mut bytes);
                    Ok(sum(&bytes))
                }
                None => Ok(String::new()),
            },
            25 => {
                let mut all = vec![0; 400_000];
                let n = fill(&file, &mut all).map_err(|e| word(&e))?;
                Ok(sum(&all[..n]))
            }
            // Its times are set at once: when they move is not the same, and
            // docs/using/files.md says so.
            26 => match &self.map {
                Some((map, len, mapped, true)) => {
                    let len = (*len).min(rustix::fs::fstat(mapped)?.st_size as usize);
                    let bytes = Numbers::new(some).bytes(len / 2);
                    map.write(len - bytes.len(), &bytes);
                    map.sync()?;
                    unit(rustix::fs::futimens(mapped, &long_ago(some)))
                }
                _ => Ok(String::new()),
            },
            _ => rustix::fs::fstat(&file).map(|s| told(Facts::of(s))),
        }
    }
}

/// What is the same on any file system: sizes of directories, blocks and the numbers of inodes are
/// not.
fn told(facts: Facts) -> String {
    let Facts { mode, uid, gid, nlink, size, rdev, mtime, .. } = facts;
    let size = if FileType::from_raw_mode(mode) == FileType::Directory { 0 } else { size };
    // A time that somebody has set is told; what the clock said is another on each side.
    let recent = mtime > i128::from(LONG_AGO + 1) * 1_000_000_000;
    let mtime = if recent { "lately".to_owned() } else { mtime.to_string() };
    format!("{mode:o} {nlink} {uid} {gid} {size} {rdev} {mtime}")
}

fn flags(some: u64) -> OFlags {
    let mut flags = [OFlags::RDONLY, OFlags::RDWR, OFlags::WRONLY, OFlags::RDWR][some as usize % 4];
    let wish = [
        (4, OFlags::CREATE),
        (8, OFlags::CREATE),
        (16, OFlags::CREATE),
        (32 | 512 | 1024, OFlags::EXCL),
        (64, OFlags::APPEND),
        (128, OFlags::NOFOLLOW),
    ];
    for (bit, wish) in wish {
        if some & bit == bit && (wish != OFlags::EXCL || flags.contains(OFlags::CREATE)) {
            flags |= wish;
        }
    }
    flags |= match some >> 8 & 31 {
        0..=2 => OFlags::TRUNC,
        3 => OFlags::DIRECTORY,
        4 => OFlags::SYNC,
        5 => OFlags::DSYNC,
        6 => OFlags::NOATIME,
        7 | 8 => OFlags::PATH,
        _ => OFlags::empty(),
    };
    // Of a fifo or a device nobody waits for the other end.
    flags | OFlags::NONBLOCK
}

/// Extended attributes and ACLs, set, read, listed and removed.
fn attribute(path: &Path, some: u64) -> Answer {
    let entry = |tag: u16, perm: u16, id: u32| {
        [&tag.to_le_bytes()[..], &perm.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let any = u32::MAX;
    let bits = |n: u64| (n & 7) as u16;
    let acl = [
        2u32.to_le_bytes().to_vec(),
        entry(1, 7, any),
        entry(2, bits(some), ALICE.uid),
        entry(4, bits(some >> 3), any),
        entry(8, bits(some >> 6), BOB.gid),
        entry(16, 7, any),
        entry(32, bits(some >> 9), any),
    ]
    .concat();
    let name = [
        "user.x",
        "user.long",
        "trusted.x",
        "security.x",
        "security.capability",
        "system.posix_acl_access",
        "system.posix_acl_default",
        "nonsense.x",
    ][some as usize % 8];
    let value = match name {
        "user.long" => vec![7; (some % 3_000) as usize],
        // Of the kernel's second form: of some.
        "security.capability" => {
            [0x0200_0000, 1 << (some % 32), 0, 0, 0].map(u32::to_le_bytes).concat()
        }
        "system.posix_acl_access" | "system.posix_acl_default" => acl,
        _ => some.to_le_bytes().to_vec(),
    };
    match some >> 12 {
        0..=5 => unit(rustix::fs::lsetxattr(path, name, &value, XattrFlags::empty())),
        6 => unit(rustix::fs::lsetxattr(path, name, &value, XattrFlags::CREATE)),
        7 => unit(rustix::fs::lsetxattr(path, name, &value, XattrFlags::REPLACE)),
        8 | 9 => unit(rustix::fs::lremovexattr(path, name)),
        10 | 11 => {
            let mut room = vec![0; (some % 300) as usize];
            let n = rustix::fs::lgetxattr(path, name, &mut room[..])?;
            Ok(format!("{n} {:?}", &room[..n.min(room.len())]))
        }
        _ => attributes_of(path),
    }
}

fn attributes_of(path: &Path) -> Answer {
    let mut room = vec![0; 8_192];
    let n = rustix::fs::llistxattr(path, &mut room[..])?;
    let mut said = BTreeMap::new();
    for name in room[..n].split(|b| *b == 0).filter(|n| !n.is_empty()) {
        let name = OsStr::from_bytes(name);
        let mut value = vec![0; 8_192];
        let n = rustix::fs::lgetxattr(path, name, &mut value[..])?;
        said.insert(name.to_string_lossy().into_owned(), sum(&value[..n]));
    }
    Ok(format!("{said:?}"))
}

/// The names in a directory, with their types.
fn listed(path: &Path) -> Answer {
    let dir = open(path, OFlags::RDONLY | OFlags::DIRECTORY, 0)?;
    let mut names = Vec::new();
    for entry in Dir::read_from(&dir)? {
        let entry = entry?;
        names.push(format!("{:?} {:?}", entry.file_name(), entry.file_type()));
    }
    names.sort();
    Ok(format!("{names:?}"))
}

/// All that is below a directory, as clients see it.
fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let (mut found, mut inodes) = (BTreeMap::new(), BTreeMap::<u64, usize>::new());
    let mut left = vec![PathBuf::new()];
    while let Some(dir) = left.pop() {
        let at = root.join(&dir);
        let mut names: Vec<OsString> =
            std::fs::read_dir(&at).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        for name in names {
            let (at, path) = (at.join(&name), dir.join(&name));
            let facts = Facts::of(rustix::fs::lstat(&at).unwrap());
            let next = inodes.len();
            let same = *inodes.entry(facts.ino).or_insert(next);
            let mut said = format!("{} inode {same} {:?}", told(facts), attributes_of(&at));
            match FileType::from_raw_mode(facts.mode) {
                FileType::RegularFile if facts.size < 1 << 24 => {
                    said += &sum(&std::fs::read(&at).unwrap());
                }
                FileType::RegularFile => {
                    let (file, mut end) = (File::open(&at).unwrap(), vec![0; 1 << 16]);
                    let n = file.read_at(&mut end, facts.size - (1 << 16)).unwrap();
                    said += &sum(&end[..n]);
                }
                FileType::Symlink => said += &format!("{:?}", std::fs::read_link(&at)),
                FileType::Directory => left.push(path.clone()),
                _ => {}
            }
            found.insert(path, said);
        }
    }
    found
}

fn compare(sides: &[Side; 2], when: &str) {
    let [plain, mount] = [0, 1].map(|i: usize| tree(&sides[i].root));
    let all: std::collections::BTreeSet<_> = plain.keys().chain(mount.keys()).collect();
    for path in all {
        assert_eq!(plain.get(path), mount.get(path), "{path:?} {when}; plain, then this one");
    }
}

/// The events of both sides, once they are the same, or after ten seconds. A process that another
/// test starts holds all open files until it runs its program: a close of ours is then seen late,
/// on one side perhaps.
fn settled(sides: &[Side; 2], mut seen: [Vec<String>; 2]) -> [Vec<String>; 2] {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while seen[0] != seen[1] && std::time::Instant::now() < end {
        std::thread::sleep(std::time::Duration::from_millis(1));
        for (side, seen) in sides.iter().zip(&mut seen) {
            seen.extend(side.events());
            seen.sort();
            seen.dedup();
        }
    }
    seen
}

/// Both do the same.
fn strict(ground: &Ground, operations: u64, seed: u64) {
    let other = Ground::plain();
    // So deep that nobody climbs out of it.
    let mut sides = [&other, ground].map(|g| Side::new(g.root().join("strict/1/2/3/4/5/6/7/8")));
    let (mut numbers, mut worked) = (Numbers::new(seed), 0);
    let mut last = std::collections::VecDeque::new();
    for i in 0..operations {
        let one = numbers.next();
        let answers = [0, 1].map(|s: usize| {
            let mut numbers = Numbers::new(one);
            let side = &mut sides[s];
            let (what, answer) = match numbers.below(2) {
                0 => side.on_names(&mut numbers),
                _ => side.on_open(&mut numbers),
            };
            (what, answer, side.events())
        });
        let [(what, plain, seen), (_, mount, seen_there)] = answers;
        last.push_back(format!("{i}: {what}: {plain:?} {seen:?}"));
        if last.len() > 25 {
            last.pop_front();
        }
        let before = || last.iter().cloned().collect::<Vec<_>>().join("\n");
        assert_eq!(plain, mount, "{i}: {what}; plain, then this one; seed {seed}\n{}", before());
        let [seen, seen_there] = settled(&sides, [seen, seen_there]);
        assert_eq!(seen, seen_there, "{i}: {what}: watched; seed {seed}\n{}", before());
        worked += u64::from(plain.is_ok());
        if i % 100 == 99 {
            compare(&sides, &format!("after {i}; seed {seed}"));
            if ground.is_mounted() {
                shuffle(&ground.root());
                compare(&sides, &format!("after a shuffle after {i}; seed {seed}"));
            }
            sides.iter().for_each(|s| drop(s.events()));
        }
        // What was closed only now and then would never move.
        if i % 40 == 39 {
            let seen = sides.each_mut().map(|side| {
                (side.slots, side.map) = ([const { None }; SLOTS], None);
                side.events()
            });
            let [seen, seen_there] = settled(&sides, seen);
            assert_eq!(seen, seen_there, "all closed after {i}: watched; seed {seed}");
        }
    }
    assert!(worked > operations / 8, "only {worked} of {operations} operations did something");
}

#[test]
fn two_plain_directories_answer_whatever_is_asked_alike() {
    need!("strict", "root");
    strict(&Ground::plain(), operations(), host::seed());
}

#[test]
fn the_mount_answers_whatever_is_asked_as_a_plain_directory_does() {
    need!("strict", Ground::missing());
    let ground = Ground::mounted(RESTLESS);
    let ((), shuffles) = shuffling(&ground.root(), || strict(&ground, operations(), host::seed()));
    let state = ground.state();
    let counts = ["came", "grouped_writes"].map(|n| state[n].as_u64().unwrap());
    eprintln!("{shuffles} shuffles, {} files moved, {} writes in the store", counts[0], counts[1]);
    assert!(counts[0] > 10 && counts[1] > 10, "nothing moved, or was written there: {state}");
    ground.end();
}
