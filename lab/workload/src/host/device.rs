//! Devices and mounts. Each is recorded in the ledger before it is created.

use std::fs::File;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use seekless_host::mounts::{Mount, mounts};

use super::filesystem::FsKind;
use super::ledger::{Ledger, LedgerEntry};
use super::program::{HostError, Server, run_program};

/// The file system that is mounted at exactly this path.
pub(super) fn mount_at(path: &Path) -> Option<Mount> {
    mounts().ok()?.into_iter().rfind(|m| m.point == path)
}

/// Loop devices that are attached to this file.
pub(super) fn loops_of(file: &Path) -> Vec<String> {
    let entries = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let is_its = |e: &std::fs::DirEntry| {
        let backing =
            std::fs::read_to_string(e.path().join("loop/backing_file")).unwrap_or_default();
        let backing = backing.trim_end_matches('\n');
        Path::new(backing.strip_suffix(" (deleted)").unwrap_or(backing)) == file
    };
    entries.filter(is_its).map(|e| format!("/dev/{}", e.file_name().to_string_lossy())).collect()
}

#[derive(Clone, Debug)]
pub(crate) struct Attached {
    pub device: PathBuf,
    /// Whether a server of this project provides it.
    pub served: bool,
}

/// A block device named by the user.
#[derive(Clone, Debug)]
pub(crate) struct BlockDevice(PathBuf);

impl BlockDevice {
    /// Checks that a block device is not in use.
    pub(crate) fn unused(path: &Path) -> Result<Self, HostError> {
        let refused = |why: &str| HostError::Refused(format!("{}: {why}", path.display()));
        let meta = std::fs::metadata(path).map_err(HostError::io("look at", path))?;
        if !meta.file_type().is_block_device() {
            return Err(refused("is not a block device"));
        }
        // Exclusive use fails if the device is mounted or part of another device.
        let flags = OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
        match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
            Ok(_) => Ok(Self(path.to_owned())),
            Err(rustix::io::Errno::BUSY) => {
                Err(refused("is in use: it is mounted, used for swap, or part of another device"))
            }
            Err(e) => Err(HostError::io("open", path)(e.into())),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

/// A mounted file system.
#[derive(Debug)]
pub(crate) struct Mounted {
    /// The directory for the files.
    pub dir: PathBuf,
    /// The kernel driver of the file system: `ext4` also for ext2 and ext3 in most kernels.
    pub driver: String,
    /// The mount options in force, as reported by the kernel.
    pub options: String,
    /// The program that mounts `dir` over itself; the ledger ends it.
    _over: Option<Server>,
}

impl Ledger {
    /// Creates a sparse file of this size.
    pub(crate) fn make_image(&mut self, name: &str, bytes: u64) -> Result<PathBuf, HostError> {
        let path = self.dir().join(name);
        self.note(LedgerEntry::Files, &path)?;
        let make = || {
            let file = File::create(&path)?;
            file.set_len(bytes)
        };
        make().map_err(HostError::io("make", &path))?;
        Ok(path)
    }

    /// Attaches a loop device to a file, with direct I/O if `direct`, and returns its path.
    pub(crate) fn attach_loop(&mut self, file: &Path, direct: bool) -> Result<PathBuf, HostError> {
        self.note(LedgerEntry::Loop, file)?;
        let direct = if direct { "--direct-io=on" } else { "--direct-io=off" };
        let args = [
            "losetup".as_ref(),
            "-f".as_ref(),
            "--show".as_ref(),
            direct.as_ref(),
            file.as_os_str(),
        ];
        // Other programs use loop devices too: the free one can be taken before this call uses it.
        let mut tries = 0;
        loop {
            match run_program(&args, self.dir()) {
                Ok(said) => return Ok(PathBuf::from(said.trim())),
                Err(HostError::Program { said, .. }) if tries < 20 && said.contains("busy") => {
                    tries += 1;
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Starts a server of this project that serves a file at `file`, by this command.
    pub(crate) fn start_server<S: AsRef<std::ffi::OsStr>>(
        &mut self,
        args: &[S],
        file: &Path,
    ) -> Result<Server, HostError> {
        self.note(LedgerEntry::Files, file)?;
        self.note(LedgerEntry::Server, file)?;
        Server::start(args, LedgerEntry::Server.word(), self.dir())
    }

    pub(crate) fn format(
        &mut self,
        device: &Path,
        kind: &FsKind,
        options: &[String],
    ) -> Result<(), HostError> {
        self.note(LedgerEntry::Format, device)?;
        let args = kind.make_command(device, options);
        run_program(&args, self.dir())?;
        self.forget(LedgerEntry::Format, device)
    }

    /// Mounts a device at a new directory in the study's folder. If the kind of file system needs
    /// it, `program` (this program) then mounts a directory of it over itself.
    pub(crate) fn mount(
        &mut self,
        device: &Path,
        kind: &FsKind,
        options: &[String],
        program: &Path,
    ) -> Result<Mounted, HostError> {
        let dir = self.dir().join("mnt");
        self.note(LedgerEntry::Mount, &dir)?;
        std::fs::create_dir_all(&dir).map_err(HostError::io("make", &dir))?;
        run_program(&kind.mount_command(device, &dir, options), self.dir())?;
        let mounted = mount_at(&dir).map(|m| (m.kind, format!("{};{}", m.own_options, m.options)));
        let (mounted_as, options) = mounted.unwrap_or_default();
        let (mut driver, mut within, mut over) = (driver_of(device, &mounted_as), dir, None);
        let (inner, beside) = (within.join("files"), within.join("beside"));
        if let Some(command) = kind.over_command(program, &inner, &beside) {
            std::fs::create_dir_all(&inner).map_err(HostError::io("make", &inner))?;
            self.note(LedgerEntry::Over, &inner)?;
            over = Some(Server::start(&command, LedgerEntry::Over.word(), self.dir())?);
            (driver, within) = (format!("{} over {driver}", kind.name), inner);
        }
        Ok(Mounted { driver, dir: within, options, _over: over })
    }
}

/// The driver of a mounted device: the one that lists it in /sys/fs.
fn driver_of(device: &Path, mounted_as: &str) -> String {
    let Some(name) = device.file_name() else { return mounted_as.to_owned() };
    let drivers = std::fs::read_dir("/sys/fs").into_iter().flatten().flatten();
    let shows = drivers
        .filter(|d| d.path().join(name).is_dir())
        .map(|d| d.file_name().to_string_lossy().into_owned());
    shows.into_iter().next().unwrap_or_else(|| mounted_as.to_owned())
}
