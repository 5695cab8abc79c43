//! Markers; and a sync of a file system that has stopped, or that lost bytes of some file.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLock};

use seekless_block::{Device as _, Extent};
use seekless_host::{FileDevice, Opened};

use super::*;

#[test]
fn a_marker_is_read_back_and_other_bytes_are_refused() {
    let marker = Marker { store: [7; 16], file: FileNumber(0x0102_0304_0506_0708), ino: 99 };
    assert_eq!(Marker::decode(&marker.encode()), Some(marker));
    assert_eq!(Marker::decode(&marker.encode()[1..]), None);
    assert_eq!(Marker::decode(&[0; MARKER_BYTES + 1]), None);
}

/// The kernel takes a short read for the end of a file.
#[test]
fn a_read_that_fails_behind_some_bytes_is_no_short_read() {
    let file = |end: usize, error: Option<Errno>| {
        let mut interrupted = false;
        move |rest: &mut [u8], done: usize| {
            interrupted = !interrupted;
            match error {
                _ if interrupted => Err(Errno::INTR),
                Some(e) if done == end => Err(e),
                _ => {
                    let len = rest.len().min(end - done).min(3);
                    rest[..len].fill(7);
                    Ok(len)
                }
            }
        }
    };
    let mut buffer = [0; 10];
    assert_eq!(read_whole(&mut buffer, file(8, Some(Errno::IO))), Err(Errno::IO));
    assert_eq!(read_whole(&mut buffer, file(0, Some(Errno::IO))), Err(Errno::IO));
    assert_eq!(read_whole(&mut buffer, file(8, None)), Ok(8), "the end of the file");
    assert_eq!(read_whole(&mut buffer, file(20, Some(Errno::IO))), Ok(10));
    assert_eq!(buffer, [7; 10]);
}

/// A file system in memory, and an ext4 on a file in it.
pub(crate) struct Disk {
    ram: PathBuf,
    pub(crate) ext4: PathBuf,
}

/// A child has all files of this process open until its program starts, and a file that is open
/// elsewhere gets no lease. So no program starts while somebody reads this lock.
pub(crate) static STARTS: RwLock<()> = RwLock::new(());

fn runs(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = {
        let _alone = STARTS.write().unwrap_or_else(PoisonError::into_inner);
        command.spawn()
    };
    let output = started.and_then(std::process::Child::wait_with_output);
    let done = output.as_ref().is_ok_and(|o| o.status.success());
    if !done {
        eprintln!("{program} {arguments:?}: {output:?}");
    }
    done
}

impl Disk {
    /// `None`, with a message, if the host cannot do this.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let at = |part: &str| {
            std::env::temp_dir().join(format!("seekless-{}-{name}-{part}", std::process::id()))
        };
        let disk = Self { ram: at("ram"), ext4: at("ext4") };
        let (ram, ext4) = (disk.ram.to_str()?, disk.ext4.to_str()?);
        let image = &format!("{ram}/image");
        fs::create_dir(ram).ok()?;
        fs::create_dir(ext4).ok()?;
        let options = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";
        let made = runs("mount", &["-t", "tmpfs", "-o", "size=24m", "seekless", ram])
            && runs("truncate", &["-s", "16M", image])
            && runs("mkfs.ext4", &["-q", "-E", options, image])
            && runs("fallocate", &["-l", "16M", image])
            && runs("mount", &["-o", "loop", image, ext4]);
        if !made {
            eprintln!("SKIPPED a file system that fails: no root, loop device or ext4");
        }
        made.then_some(disk)
    }

    /// From now on, only space that the ext4 uses already can be written.
    fn exhaust(&self) {
        assert!(runs("fstrim", &[self.ext4.to_str().unwrap()]));
        let filler = fs::File::create(self.ram.join("filler")).unwrap();
        while write_at(&filler, &[1; 4096], filler.metadata().unwrap().len()).is_ok() {}
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for point in [&self.ext4, &self.ram] {
            // The kernel lets go of the loop device, and so of the image, a moment later.
            let _ = runs("umount", &["-l", &point.to_string_lossy()]);
            let _ = fs::remove_dir(point);
        }
    }
}

/// A sync that succeeded would let the store forget files whose removal a crash can undo.
#[test]
fn a_sync_of_a_file_system_that_has_stopped_fails() {
    let Some(disk) = Disk::new("stopped") else { return };
    let point = disk.ext4.to_str().unwrap();
    let stops = |option: &str| {
        let dir = UnderlyingDir::open(&disk.ext4).unwrap();
        fs::write(disk.ext4.join("removed"), "").unwrap();
        dir.sync().unwrap();
        fs::remove_file(disk.ext4.join("removed")).unwrap();
        // The command can fail, because the file system does not remount.
        let _ = runs("mount", &["-o", option, point]);
        assert!(dir.sync().is_err(), "{option}");
    };
    stops("remount,abort");
    // Another kind, of which the kernel reports nothing.
    assert!(runs("umount", &[point]) && runs("mount", &["-t", "tmpfs", "seekless", point]));
    stops("remount,ro");
}

/// Otherwise bytes that another program cannot write would end the writes of the whole store.
#[test]
fn a_sync_is_not_about_the_bytes_of_other_files() {
    let Some(disk) = Disk::new("bytes") else { return };
    disk.exhaust();
    let dir = UnderlyingDir::open(&disk.ext4).unwrap();
    fs::write(disk.ext4.join("other"), vec![1; 1 << 20]).unwrap();
    dir.sync().unwrap();
    let other = fs::File::open(disk.ext4.join("other")).unwrap();
    assert!(other.sync_all().is_err(), "the bytes of the file were written");
}

/// The store that is attached next trusts no byte that only the memory of the host has.
#[test]
fn bytes_that_a_failed_flush_lost_are_not_read_again() {
    let Some(disk) = Disk::new("lost") else { return };
    disk.exhaust();
    let (path, bytes) = (disk.ext4.join("store"), 64 << 10);
    assert!(runs("fallocate", &["-l", "64K", path.to_str().unwrap()]));
    UnderlyingDir::open(&disk.ext4).unwrap().sync().unwrap();
    let mut device = FileDevice::new(Opened::path(&path, false).unwrap());
    let all = Extent::new(0, bytes as u64 / 512);
    let read = |device: &mut FileDevice| {
        let mut found = vec![0; bytes];
        device.read(all, &mut found).unwrap();
        found
    };
    device.write(all, &vec![7; bytes]).unwrap();
    device.forget_cached();
    assert_eq!(read(&mut device), vec![7; bytes], "bytes that wait to be written");
    assert!(device.flush().is_err());
    device.flush().unwrap();
    device.forget_cached();
    assert_eq!(read(&mut device), vec![0; bytes]);
}
