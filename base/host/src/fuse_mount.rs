//! Mounts and unmounts FUSE file systems: by system calls, or without that privilege by the helper
//! `fusermount3`.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, IoSliceMut, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::process::{getgid, getuid};

/// The device of the kernel that opens FUSE connections.
pub const DEVICE: &str = "/dev/fuse";
const HELPER: &str = "fusermount3";

/// Lets this thread, and its later threads, write to disk when the host is short of memory.
/// Otherwise they could wait for memory that only their own writes free: the dirty pages of a file
/// system on the mount. Without `CAP_SYS_RESOURCE` nothing changes.
pub fn serve_under_memory_pressure() {
    let _ = rustix::process::configure_io_flusher_behavior(true);
}

/// Mounts over the regular file `path`. The descriptor delivers the kernel's requests.
pub fn mount(path: &Path, read_only: bool) -> io::Result<OwnedFd> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    let options = format!("rootmode=100600,user_id={user},group_id={group}");
    let mut flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOATIME;
    flags.set(MountFlags::RDONLY, read_only);
    match attach(path, &options, flags) {
        Err(e) if e.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
            ask_helper(path, read_only)
        }
        other => other,
    }
}

/// Mounts by a system call, with the options of fuse(4). Their `rootmode` says whether `path` is a
/// file or a directory.
pub fn attach(path: &Path, options: &str, flags: MountFlags) -> io::Result<OwnedFd> {
    let device = File::options().read(true).write(true).open(DEVICE)?;
    let options = CString::new(format!("fd={},{options}", device.as_raw_fd()))?;
    rustix::mount::mount("seekless", path, "fuse.seekless", flags, options.as_c_str())?;
    Ok(device.into())
}

/// Whether `path` is a FUSE mount whose server has died. The kernel can have cached the attributes,
/// but it must ask the server for the free space.
pub fn is_dead(path: &Path) -> bool {
    rustix::fs::statfs(path).is_err_and(|e| e == Errno::NOTCONN)
}

/// Lets the helper mount. The helper sends the connection through a socket, its standard input.
fn ask_helper(path: &Path, read_only: bool) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    let mode = if read_only { "ro" } else { "rw" };
    let mut helper = Command::new(HELPER)
        .arg("-o")
        .arg(format!("{mode},noatime,fsname=seekless,subtype=seekless"))
        .arg("--")
        .arg(path)
        .env("_FUSE_COMMFD", "0")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| explain("cannot be run; only root can mount without it", &e.to_string()))?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    rustix::net::recvmsg(&ours, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    let device = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    let mut words = String::new();
    if let Some(mut errors) = helper.stderr.take() {
        errors.read_to_string(&mut words)?;
    }
    helper.wait()?;
    device.ok_or_else(|| explain("refuses", words.trim()))
}

/// Unmounts `path`. `lazily`: hides a mount that is in use, which then ends with its last user.
/// Error `BUSY`: the mount is in use.
pub fn unmount(path: &Path, lazily: bool) -> io::Result<()> {
    let flags = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(path, flags) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => {
            let option = if lazily { "-uz" } else { "-u" };
            let output = Command::new(HELPER).arg(option).arg("--").arg(path).output()?;
            if output.status.success() {
                return Ok(());
            }
            let words = String::from_utf8_lossy(&output.stderr);
            // The helper reports a busy mount only in its message.
            let busy = words.contains("busy");
            Err(if busy { Errno::BUSY.into() } else { explain("refuses", words.trim()) })
        }
        Err(e) => Err(e.into()),
    }
}

fn explain(what: &str, words: &str) -> io::Error {
    io::Error::other(format!("{HELPER} {what}: {words}"))
}
