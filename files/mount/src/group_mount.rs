//! A directory that is mounted, and its group store: made, attached, mounted, looked after, unmounted.

use std::fs::File;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fuser::{Session, SessionACL};
use rustix::mount::MountFlags;
use rustix::process::Resource;
use seekless_block::Bytes;
use seekless_host::{FileDevice, HostError, Opened, cannot, fuse_mount, signature};
use seekless_store::{Config, DiskPhase, GroupConfig, format_store};

use crate::control::{self, MountStatus};
use crate::disk_watch::{DiskSleep, WatchedDisk};
use crate::error::MountError;
use crate::fuse_requests::FuseRequests;
use crate::grouped_files::GroupedFiles;
use crate::mounted_dir::MountedDir;
use crate::shuffle::{Shuffled, Shuffler};
use crate::underlying::UnderlyingDir;

/// Threads that take requests.
const THREADS: usize = 4;
/// How often what clients did is taken up.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How a directory is mounted.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The group store: a file or a block device.
    pub store: PathBuf,
    /// The store is made, as a sparse file of this size, if it is not there.
    pub create: Option<Bytes>,
    /// Memory for groups.
    pub cache: Bytes,
    /// Groups are formed anew after so many requests.
    pub every: u64,
    /// And when no file has been opened for so long.
    pub idle: Option<Duration>,
    /// How files are grouped.
    pub groups: GroupConfig,
    /// The directory's disk sleeps: background work heeds that.
    pub sleep: Option<DiskSleep>,
    /// The kernel may read and write files that are not grouped by itself.
    pub passthrough: bool,
}

/// A mounted directory. Dropping it unmounts it; files that are in use then give errors.
#[derive(Debug)]
pub struct GroupMount {
    point: PathBuf,
    live: Arc<MountedDir>,
    session: Option<JoinHandle<()>>,
    keeper: Option<(Sender<()>, JoinHandle<()>)>,
    gone: bool,
}

impl MountedDir {
    pub(crate) fn shuffle(&self) -> Shuffled {
        self.shuffler.shuffle(&self.groups, |h| self.is_open(h))
    }

    /// What is to be done now and then; `due` is since when a shuffle has been waiting.
    fn look_after(&self, due: &mut Option<Instant>) {
        self.shuffler.learn();
        let phase = self.rest.as_ref().map_or(DiskPhase::Turning, WatchedDisk::look);
        self.groups.tick(phase);
        if self.rest.is_some() {
            self.shuffler.read_ahead(&self.groups, phase);
        }
        if self.shuffler.is_due(phase) {
            let since = *due.get_or_insert_with(Instant::now);
            if self.rest.as_ref().is_none_or(|rest| rest.may_begin(since)) {
                *due = None;
                self.shuffle();
            }
        }
    }
}

/// Makes a group store.
///
/// # Errors
/// Where the file or device cannot be opened, is in use, or looks so and `force` is not given, or is too small.
pub fn format(
    store: &Path,
    size: Option<Bytes>,
    cluster: Bytes,
    force: bool,
) -> Result<[u8; 16], MountError> {
    if let Some(size) = size {
        make_file(store, size)?;
    }
    let opened = Opened::path(store, false)?;
    let mut disk = FileDevice::new(opened);
    let failed =
        |source| MountError::GroupStore { path: store.to_owned(), source: Box::new(source) };
    if let Some(what) = signature::found(&mut disk).map_err(|e| failed(e.into()))?
        && !force
    {
        let why = format!(
            "holds {what}; nothing was changed. --force overwrites it, and what it held is lost"
        );
        return Err(HostError::Refused { path: store.to_owned(), why }.into());
    }
    let mut uuid = [0; 16];
    rustix::rand::getrandom(&mut uuid, rustix::rand::GetRandomFlags::empty())
        .map_err(cannot("get random bytes"))?;
    format_store(&mut disk, uuid, cluster, "").map_err(failed)?;
    Ok(uuid)
}

/// Makes a sparse file, if there is none. It will hold bytes of files that not everybody may read.
fn make_file(path: &Path, size: Bytes) -> Result<bool, MountError> {
    let fail = |what| move |source| HostError::Path { path: path.to_owned(), what, source };
    match File::options().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => {
            file.set_len(size.0).map_err(fail("give it its size"))?;
            Ok(true)
        }
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(fail("make it")(e).into()),
    }
}

/// Refuses a store that others can read: it has bytes of files that they may not.
fn private(store: &Path) -> Result<(), MountError> {
    match store.metadata() {
        Ok(meta) if meta.is_file() && meta.mode() & 0o077 != 0 => {
            let why =
                "others can read this group store, and with it every file in it; `chmod 600` it";
            Err(HostError::Refused { path: store.to_owned(), why: why.to_owned() }.into())
        }
        _ => Ok(()),
    }
}

impl GroupMount {
    /// Mounts a directory, over itself or elsewhere. `ended` is called when it is no longer mounted, whoever unmounted it.
    ///
    /// # Errors
    /// Where the directory, the store or the host do not allow it.
    pub fn mount(
        dir: &Path,
        point: &Path,
        options: &MountOptions,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Self, MountError> {
        let fail = |path: &Path, what| {
            let path = path.to_owned();
            move |source| HostError::Path { path, what, source }
        };
        if fuse_mount::is_dead(point) {
            let what = "take away the mount of a server that died";
            fuse_mount::unmount(point, true).map_err(fail(point, what))?;
        }
        if let Some(size) = options.create
            && make_file(&options.store, size)?
        {
            format(&options.store, None, Bytes(128 << 10), false)?;
        }
        private(&options.store)?;
        let inside = |store: PathBuf, dir: PathBuf| store.starts_with(dir);
        if let (Ok(store), Ok(dir)) = (options.store.canonicalize(), dir.canonicalize())
            && inside(store, dir)
        {
            let why =
                "the group store lies in the directory that is to be mounted: put it elsewhere";
            return Err(
                HostError::Refused { path: options.store.clone(), why: why.to_owned() }.into()
            );
        }
        more_files();
        // What a client asks for is made as it says.
        rustix::process::umask(rustix::fs::Mode::empty());
        let underlying = UnderlyingDir::open(dir)?;
        let opened = Opened::path(&options.store, false)?;
        let config = Config { cache: options.cache, ..Config::default() };
        let groups =
            GroupedFiles::attach(underlying, FileDevice::new(opened), config, &options.store)?;
        let shuffler = Shuffler::new(options.groups, options.every, options.idle, &groups)?;
        let rest = options.sleep.as_ref().map(|sleep| WatchedDisk::new(dir, sleep)).transpose()?;
        let live = Arc::new(MountedDir::new(groups, shuffler, rest)?);
        let what = "mount over it";
        let device = fuse_mount::attach(
            point,
            "rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other",
            mount_flags(&live)?,
        )
        .map_err(fail(point, what))?;
        let mut mounted = Self {
            point: point.to_owned(),
            live: Arc::clone(&live),
            session: None,
            keeper: None,
            gone: false,
        };
        let mut config = fuser::Config::default();
        (config.n_threads, config.clone_fd) = (Some(THREADS), true);
        let front = FuseRequests { live: Arc::clone(&live), passthrough: options.passthrough };
        let session =
            Session::from_fd(front, device, SessionACL::All, config).map_err(fail(point, what))?;
        let thread = std::thread::Builder::new().name("seekless-store".into()).spawn(move || {
            // It ends when it is unmounted, and has nothing to add to that.
            let _ = session.run();
            ended();
        });
        mounted.session = Some(thread.map_err(cannot("start the thread of the mount"))?);
        let (stop, stopped) = channel();
        let keeper = std::thread::Builder::new().name("seekless-shuffle".into()).spawn(move || {
            let mut due = None;
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK_EVERY) {
                live.look_after(&mut due);
            }
        });
        mounted.keeper = Some((stop, keeper.map_err(cannot("start the thread of the shuffle"))?));
        Ok(mounted)
    }

    /// How it stands.
    #[must_use]
    pub fn state(&self) -> MountStatus {
        control::state_of(&self.live)
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.point
    }

    /// Unmounts it, unless it has been unmounted already. False where it is in use: nothing is changed then.
    ///
    /// # Errors
    /// Where the host refuses.
    pub fn unmount(&mut self) -> Result<bool, MountError> {
        match self.take_away(false) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == std::io::ErrorKind::ResourceBusy => Ok(false),
            Err(source) => {
                let path = self.point.clone();
                Err(HostError::Path { path, what: "unmount it", source }.into())
            }
        }
    }

    fn take_away(&mut self, lazily: bool) -> std::io::Result<()> {
        let ended = self.session.as_ref().is_none_or(JoinHandle::is_finished);
        if !self.gone && (!ended || fuse_mount::is_dead(&self.point)) {
            fuse_mount::unmount(&self.point, lazily || ended)?;
        }
        self.gone = true;
        if let Some(thread) = self.session.take()
            && !lazily
        {
            // It sees the kernel hang up.
            let _ = thread.join();
        }
        Ok(())
    }

    /// Unmounts it, whoever still uses it, and puts the store to rest.
    ///
    /// # Errors
    /// Why it could not be; what was durable is not lost.
    pub fn end(mut self) -> Result<(), MountError> {
        self.take_away_anyhow();
        self.stop_keeper();
        let release = self.live.shuffler.is_stopped();
        let path = self.live.groups.underlying.path().to_owned();
        self.live.groups.end(release).map_err(|fault| HostError::Refused {
            path,
            why: format!("the group store could not be put to rest: {fault}"),
        })?;
        Ok(())
    }

    fn take_away_anyhow(&mut self) {
        if self.take_away(false).is_err() {
            // In use: it goes when its last user has gone, or with this process.
            let _ = self.take_away(true);
        }
    }

    fn stop_keeper(&mut self) {
        if let Some((stop, keeper)) = self.keeper.take() {
            drop(stop);
            let _ = keeper.join();
        }
    }
}

impl Drop for GroupMount {
    fn drop(&mut self) {
        self.take_away_anyhow();
        self.stop_keeper();
    }
}

/// What holds of the directory's own mount holds of this one.
fn mount_flags(live: &MountedDir) -> Result<MountFlags, MountError> {
    use rustix::fs::StatVfsMountFlags as Own;
    let own = live
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

/// Each file that a client has open is one of ours.
fn more_files() {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = rustix::process::setrlimit(Resource::Nofile, limit);
}
