//! A mounted directory and its group store: making, mounting, background work and unmounting.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fuser::{Session, SessionACL};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::process::Resource;
use seekless_block::Bytes;
use seekless_host::{
    FileDevice, HostError, Opened, cannot, cannot_at, fuse_mount, private, signature,
};
use seekless_store::{Config, DiskPhase, GroupConfig, format_store};

use crate::control::{self, MountStatus};
use crate::disk_watch::{DiskSleep, WatchedDisk};
use crate::error::MountError;
use crate::fuse_requests::FuseRequests;
use crate::grouped_files::GroupedFiles;
use crate::mounted_dir::MountedDir;
use crate::shuffle::Shuffler;
use crate::underlying::UnderlyingDir;

/// Threads that take requests of the kernel.
const THREADS: usize = 4;
/// What failed, in errors.
const MOUNT: &str = "mount over it";
/// Interval at which the keeper thread learns, commits and shuffles.
const KEEPER_INTERVAL: Duration = Duration::from_millis(500);
/// Age at which the store writes a change that no sync covers, while the disk turns: a killed server
/// loses it until then. The default of the journal of ext4.
const COMMIT_AFTER: seekless_block::Duration = seekless_block::Duration::from_millis(5_000);

/// How a directory is mounted.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The group store: a file or a block device.
    pub store: PathBuf,
    /// Size of a file that is made if the store does not exist.
    pub create: Option<Bytes>,
    /// Memory for cached groups.
    pub cache: Bytes,
    /// Requests after which groups are formed again.
    pub every: u64,
    /// Time without an opened file after which groups are formed again.
    pub idle: Option<Duration>,
    /// How files are grouped.
    pub groups: GroupConfig,
    /// The disk of the directory sleeps: background work respects that.
    pub sleep: Option<DiskSleep>,
    /// The kernel may read and write ungrouped files without a request to us.
    pub passthrough: bool,
}

/// A mounted directory. A drop unmounts it; files in use then give errors.
#[derive(Debug)]
pub struct GroupMount {
    point: PathBuf,
    mounted: Arc<MountedDir>,
    session: Option<JoinHandle<()>>,
    keeper: Option<(Sender<()>, JoinHandle<()>)>,
    /// Unmounted already.
    gone: bool,
}

impl MountedDir {
    pub(crate) fn shuffle(&self) {
        self.shuffler.shuffle(&self.groups, |h| self.is_open(h));
    }

    /// The work of one interval. `due`: the time since which a shuffle waits.
    fn keep(&self, due: &mut Option<Instant>) {
        self.shuffler.learn();
        let phase = self.disk.as_ref().map_or(DiskPhase::Turning, WatchedDisk::look);
        self.groups.tick(phase);
        if self.disk.is_some() {
            self.shuffler.read_ahead(&self.groups, phase);
        }
        if self.shuffler.is_due(phase) {
            let since = *due.get_or_insert_with(Instant::now);
            if self.disk.as_ref().is_none_or(|disk| disk.may_begin(since)) {
                *due = None;
                self.shuffle();
            }
        }
    }
}

/// Makes a group store; `size`: first makes a file of this size, if there is none.
///
/// # Errors
/// The file or device cannot be opened, is in use, is too small, or holds data and `force` is
/// false.
pub fn format(
    store: &Path,
    size: Option<Bytes>,
    cluster: Bytes,
    force: bool,
) -> Result<(), MountError> {
    let made = size.map(|size| make_file(store, size)).transpose()?.unwrap_or(false);
    format_opened(store, cluster, force).inspect_err(|_| {
        if made {
            let _ = std::fs::remove_file(store);
        }
    })
}

fn format_opened(store: &Path, cluster: Bytes, force: bool) -> Result<(), MountError> {
    let mut device = FileDevice::new(Opened::path(store, false)?);
    let failed =
        |source| MountError::GroupStore { path: store.to_owned(), source: Box::new(source) };
    if let Some(what) = signature::found(&mut device).map_err(|e| failed(e.into()))?
        && !force
    {
        let why = format!(
            "holds {what}; nothing was changed. --force overwrites it; its contents are lost"
        );
        return Err(HostError::Refused { path: store.to_owned(), why }.into());
    }
    format_store(&mut device, new_uuid()?, cluster, "").map_err(failed)?;
    Ok(())
}

pub(crate) fn new_uuid() -> Result<[u8; 16], HostError> {
    let mut uuid = [0; 16];
    rustix::rand::getrandom(&mut uuid, rustix::rand::GetRandomFlags::empty())
        .map_err(cannot("get random bytes"))?;
    Ok(uuid)
}

/// Makes a file, if there is none. Only its owner may read the file: it will hold bytes of
/// private files.
fn make_file(path: &Path, size: Bytes) -> Result<bool, HostError> {
    match File::options().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => {
            let named = || File::open(seekless_host::folder(path))?.sync_all();
            let made = reserve(&file, size).map_err(cannot_at(path, "give it its size"));
            let saved = made.and_then(|()| named().map_err(cannot_at(path, "save its name")));
            saved.inspect_err(|_| drop(std::fs::remove_file(path)))?;
            Ok(true)
        }
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(cannot_at(path, "make it")(e)),
    }
}

/// Gives a new file its size and its space, so that no later write needs space of the file system.
fn reserve(file: &File, size: Bytes) -> std::io::Result<()> {
    loop {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size.0) {
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return file.set_len(size.0),
            done => return Ok(done?),
        }
    }
}

/// Refuses a store that other users own or can read, or that lies in the directory itself.
fn check_store(store: &Path, dir: &Path) -> Result<(), HostError> {
    let refuse =
        |why: &str| Err(HostError::Refused { path: store.to_owned(), why: why.to_owned() });
    if let Ok(meta) = store.metadata()
        && meta.is_file()
    {
        if meta.mode() & 0o077 != 0 {
            return refuse(
                "other users can read this group store, and with it every file in it; `chmod 600` it",
            );
        }
        if meta.uid() != rustix::process::geteuid().as_raw() {
            return refuse(&format!(
                "another user owns this group store, {}, and can read and change every file in it; `chown root` it",
                private::owner_in_words(meta.uid())
            ));
        }
    }
    match (store.canonicalize(), dir.canonicalize()) {
        (Ok(store), Ok(dir)) if store.starts_with(&dir) => refuse(
            "the group store is below the directory that is mounted: choose another place for the store",
        ),
        _ => Ok(()),
    }
}

impl GroupMount {
    /// Mounts a directory, over itself or elsewhere. `ended` is called after an unmount by anybody.
    ///
    /// # Errors
    /// The directory, the store or the host cannot be used.
    pub fn mount(
        dir: &Path,
        point: &Path,
        options: &MountOptions,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Self, MountError> {
        if fuse_mount::is_dead(point) {
            fuse_mount::unmount(point, true)
                .map_err(cannot_at(point, "unmount the mount of a server that died"))?;
        }
        let mounted = Arc::new(attach(dir, options)?);
        let flags = mount_flags(&mounted)?;
        let device = fuse_mount::attach(
            point,
            "rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other",
            flags,
        )
        .map_err(cannot_at(point, MOUNT))?;
        // From here on, a drop unmounts.
        let mut mount =
            Self { point: point.to_owned(), mounted, session: None, keeper: None, gone: false };
        mount.start_session(device, options.passthrough, ended)?;
        mount.start_keeper()?;
        Ok(mount)
    }

    /// Starts the threads that answer the kernel.
    fn start_session(
        &mut self,
        device: OwnedFd,
        passthrough: bool,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<(), MountError> {
        let mut config = fuser::Config::default();
        (config.n_threads, config.clone_fd) = (Some(THREADS), true);
        let requests = FuseRequests { mounted: Arc::clone(&self.mounted), passthrough };
        let session = Session::from_fd(requests, device, SessionACL::All, config)
            .map_err(cannot_at(&self.point, MOUNT))?;
        let thread = std::thread::Builder::new().name("seekless-store".into()).spawn(move || {
            // An unmount ends the session; its result says no more than that.
            let _ = session.run();
            ended();
        });
        self.session = Some(thread.map_err(cannot("start the thread of the mount"))?);
        Ok(())
    }

    /// Starts the thread for background work.
    fn start_keeper(&mut self) -> Result<(), MountError> {
        let mounted = Arc::clone(&self.mounted);
        let (stop, stopped) = channel();
        let keeper = std::thread::Builder::new().name("seekless-shuffle".into()).spawn(move || {
            let mut due = None;
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(KEEPER_INTERVAL) {
                mounted.keep(&mut due);
            }
        });
        self.keeper = Some((stop, keeper.map_err(cannot("start the thread of the shuffle"))?));
        Ok(())
    }

    /// The status of the mount.
    pub fn status(&self) -> MountStatus {
        control::status_of(&self.mounted)
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.point
    }

    /// Unmounts the directory, unless that has happened already. False if the mount is in use:
    /// nothing is changed then.
    ///
    /// # Errors
    /// The host refuses.
    pub fn unmount(&mut self) -> Result<bool, MountError> {
        match self.unmount_now(false) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == std::io::ErrorKind::ResourceBusy => Ok(false),
            Err(e) => Err(cannot_at(&self.point, "unmount it")(e).into()),
        }
    }

    fn unmount_now(&mut self, lazily: bool) -> std::io::Result<()> {
        let ended = self.session.as_ref().is_none_or(JoinHandle::is_finished);
        if !self.gone && (!ended || fuse_mount::is_dead(&self.point)) {
            fuse_mount::unmount(&self.point, lazily || ended)?;
        }
        self.gone = true;
        if let Some(thread) = self.session.take()
            && !lazily
        {
            // The session ends, because the kernel has closed the connection.
            let _ = thread.join();
        }
        Ok(())
    }

    /// Unmounts the directory, even if it is in use, and saves the store.
    ///
    /// # Errors
    /// The store cannot be saved; committed files are safe.
    pub fn end(mut self) -> Result<(), MountError> {
        self.unmount_always();
        self.stop_keeper();
        let release = self.mounted.shuffler.is_stopped();
        let path = self.mounted.groups.underlying.path().to_owned();
        self.mounted.groups.end(release).map_err(|fault| HostError::Refused {
            path,
            why: format!("the group store could not be saved: {fault}"),
        })?;
        Ok(())
    }

    fn unmount_always(&mut self) {
        if self.unmount_now(false).is_err() {
            // In use: the mount ends with its last user, or with this process.
            let _ = self.unmount_now(true);
        }
    }

    fn stop_keeper(&mut self) {
        if let Some((stop, keeper)) = self.keeper.take() {
            // A whole shuffle takes minutes.
            self.mounted.shuffler.end();
            drop(stop);
            let _ = keeper.join();
        }
    }
}

impl Drop for GroupMount {
    fn drop(&mut self) {
        self.unmount_always();
        self.stop_keeper();
    }
}

/// The options of the directory's own mount hold for this mount, too.
fn mount_flags(mounted: &MountedDir) -> Result<MountFlags, HostError> {
    use rustix::fs::StatVfsMountFlags as Own;
    let own = mounted
        .groups
        .underlying
        .statvfs()
        .map_err(cannot("ask for the directory's mount options"))?;
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::NODEV, own.f_flag.contains(Own::NODEV));
    flags.set(MountFlags::NOSUID, own.f_flag.contains(Own::NOSUID));
    flags.set(MountFlags::NOEXEC, own.f_flag.contains(Own::NOEXEC));
    Ok(flags)
}

/// Raises the limit of open files: each open file of a client is open here, too.
fn raise_file_limit() {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = rustix::process::setrlimit(Resource::Nofile, limit);
}

/// Opens the directory and its store, and makes the store first if that is asked for.
fn attach(dir: &Path, options: &MountOptions) -> Result<MountedDir, MountError> {
    if options.create.is_some() && !options.store.exists() {
        format(&options.store, options.create, Bytes(128 << 10), false)?;
    }
    check_store(&options.store, dir)?;
    raise_file_limit();
    // The kernel has applied the umask of the client.
    rustix::process::umask(rustix::fs::Mode::empty());
    let underlying = UnderlyingDir::open(dir)?;
    let device = FileDevice::new(Opened::path(&options.store, false)?);
    let config = Config { cache: options.cache, commit_after: COMMIT_AFTER, ..Config::default() };
    let groups = GroupedFiles::attach(underlying, device, config, &options.store)?;
    let shuffler = Shuffler::new(options.groups, options.every, options.idle, &groups)?;
    let disk = options.sleep.as_ref().map(|sleep| WatchedDisk::new(dir, sleep)).transpose()?;
    MountedDir::new(groups, shuffler, disk)
}

#[cfg(test)]
mod tests {
    use rustix::fs::{Mode, Uid};
    use seekless_block::{Device as _, Extent, Sectors};

    use super::*;
    use crate::underlying::tests::Disk;

    /// Its owner could read and change the files of all users.
    #[test]
    fn a_store_that_another_user_owns_or_may_read_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let (store, dir) = (temp.path().join("store"), temp.path().join("dir"));
        std::fs::create_dir(&dir).unwrap();
        make_file(&store, Bytes(4 << 10)).unwrap();
        let refused = || check_store(&store, &dir).map_err(|e| e.to_string()).err();
        assert_eq!(refused(), None);
        rustix::fs::chmod(&store, Mode::from_raw_mode(0o640)).unwrap();
        assert!(refused().is_some_and(|e| e.contains("chmod 600")), "{:?}", refused());
        rustix::fs::chmod(&store, Mode::from_raw_mode(0o600)).unwrap();
        if rustix::fs::chown(&store, Some(Uid::from_raw(65_533)), None).is_err() {
            return eprintln!("SKIPPED a store of another user: this needs root");
        }
        assert!(refused().is_some_and(|e| e.contains("another user owns")), "{:?}", refused());
    }

    /// Otherwise a file system that other files fill makes writes of the store fail.
    #[test]
    fn a_store_that_was_made_has_all_of_its_space() {
        let Some(disk) = Disk::new("space") else { return };
        let (path, size) = (disk.ext4.join("store"), Bytes(4 << 20));
        format(&path, Some(size), Bytes(64 << 10), false).unwrap();
        let filler = File::create(disk.ext4.join("filler")).unwrap();
        let mut end = 0;
        while let Ok(n) = crate::underlying::write_at(&filler, &[1; 512], end) {
            end += n as u64;
        }
        filler.sync_all().unwrap();
        let mut device = FileDevice::new(Opened::path(&path, false).unwrap());
        assert_eq!(device.capacity(), Sectors(size.0 / 512));
        for page in 0..size.0 / 4096 {
            let written = device.write(Extent::new(page * 8, 8), &[2; 4096]);
            assert!(written.is_ok() && device.flush().is_ok(), "page {page}: {written:?}");
        }
    }
}
