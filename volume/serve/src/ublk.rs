//! A volume as a block device of the kernel, /dev/ublkbN, by the driver ublk (Linux 6.5 and later).
//!
//! The device outlives its server. If a server dies, requests wait, and the next server of the same
//! backing takes the device over. Programs see a pause, and no error. This requires that every
//! acknowledged write is at home. Otherwise the users of the device get errors, as from a disk that
//! was unplugged: without an error, no program would know that an unflushed write may be lost.

mod queue;
mod sys;
mod wire;

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::EventfdFlags;
use seekless_block::SECTOR_BYTES;
use seekless_host::{HostError, Users, cannot, cannot_at, pressure};
use twox_hash::XxHash3_64;

use crate::backend::identity;
use crate::backend::remote::NbdUri;
use crate::error::ServeError;
use crate::handle::ServerHandle;
use queue::Service;
use sys::{ControlDevice, Queue};
use wire::{DeviceInfo, Parameters};

/// Requests in flight: as many as disks with a queue of their own take.
const DEPTH: u16 = 32;
/// Longest request.
const REQUEST_BYTES: u32 = 512 << 10;
/// Memory to hold for a request in flight: its data, and a read buffer of the engine.
const OF_REQUEST_BYTES: usize = REQUEST_BYTES as usize + (1 << 20);
/// Longest wait until the kernel has cleared up behind a dead server.
const PATIENCE: Duration = Duration::from_secs(20);
/// Most devices that the kernel makes by default: `ublks_max`.
const DEVICES: u32 = 64;

/// A device that does not work yet: new, or left by a server that died.
#[derive(Debug)]
pub struct UblkPoint {
    control: ControlDevice,
    number: u32,
    /// A server died; its device waits for the next one.
    left: bool,
    /// That one served another disk or file, which was at the same path.
    replaced: bool,
    /// Delete it when this is dropped.
    made: bool,
    /// The backing is on another server.
    elsewhere: bool,
    rotates: bool,
}

/// A number for a new device that stays: neither a device nor one of `taken` has it. None if the
/// kernel has no driver for such devices, and cannot load it.
pub(crate) fn free_number(taken: &[u32]) -> Option<u32> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let loads = || {
        let tried = Command::new("/sbin/modprobe").args(["-n", "-q", "ublk_drv"]).status();
        tried.is_ok_and(|s| s.success())
    };
    if !is_new_enough(&release) || !Path::new(wire::CONTROL).exists() && !loads() {
        return None;
    }
    (0..DEVICES).find(|n| !taken.contains(n) && !node('c', *n).exists())
}

/// Linux 6.5 and later let the server copy the data itself, which it does.
fn is_new_enough(release: &str) -> bool {
    let mut numbers = release.split(['.', '-', '+']).map_while(|n| n.trim().parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(5))
}

fn node(kind: char, number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/ublk{kind}{number}"))
}

impl UblkPoint {
    /// The device `number`, or any. Takes over the device of a server of the same backing that
    /// died.
    pub fn new(number: Option<u32>, backing: &Path) -> Result<Self, ServeError> {
        let what = "open it: this needs Linux 6.5 or later, root, and `modprobe ublk_drv`";
        let control = ControlDevice::open().map_err(cannot_at(Path::new(wire::CONTROL), what))?;
        let mark = Mark::of(backing);
        let rotates = identity::rotates(backing).unwrap_or(true);
        let elsewhere = NbdUri::in_path(backing).is_some();
        let found = left_of(&control, mark);
        if let Some((left, _)) = found
            && number.is_some_and(|wanted| wanted != left)
        {
            return Err(waits(left, backing));
        }
        let (number, replaced) = match found {
            Some((left, fit)) => (left, fit == Fit::Replaced),
            None => (add(&control, number, mark.new)?, false),
        };
        let left = found.is_some();
        Ok(Self { control, number, left, replaced, made: !left, elsewhere, rotates })
    }

    /// The block device.
    pub fn path(&self) -> PathBuf {
        node('b', self.number)
    }

    /// Serves the volume at the device. Calls `ended` when the device has ended.
    pub fn start(
        mut self,
        server: &ServerHandle,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<UblkDevice, ServeError> {
        let mut wanted = self.parameters(server);
        if self.left {
            self.take_over(server, &wanted)?;
        } else {
            let set = self.control.with_parameters(wire::SET_PARAMS, self.number, &mut wanted);
            set.map_err(cannot_at(&self.path(), "set its parameters"))?;
        }
        let in_order = Arc::new(OnceLock::new());
        let (thread, ready) = self.spawn(server, Arc::clone(&in_order), ended)?;
        let ready = ready.recv().unwrap_or_else(|_| Err(io::Error::other("its thread ended")));
        let what = "take requests from it: is io_uring allowed here?";
        ready.map_err(cannot_at(&node('c', self.number), what))?;
        let start = if self.left { wire::END_USER_RECOVERY } else { wire::START_DEV };
        let own = u64::from(std::process::id());
        let started = self.control.send(start, self.number, own);
        started.map_err(cannot_at(&self.path(), "start the device"))?;
        // From here on the device has users.
        self.made = false;
        let reserve = usize::from(DEPTH) * OF_REQUEST_BYTES + server.stage.0 as usize;
        let missing = pressure::hold(reserve);
        Ok(UblkDevice { point: self, thread: Some(thread), in_order, missing })
    }

    /// Starts the thread of the queue; it reports when all requests can come.
    fn spawn(
        &self,
        server: &ServerHandle,
        in_order: Arc<OnceLock<bool>>,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<(JoinHandle<()>, Receiver<io::Result<()>>), ServeError> {
        let (volume, number, read_only) = (server.injector(), self.number, server.is_read_only());
        let (say, ready) = sync_channel(1);
        let thread = std::thread::Builder::new().name("seekless-ublk".into()).spawn(move || {
            let opened = || -> io::Result<Service> {
                let device = File::options().read(true).write(true).open(node('c', number))?;
                let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
                let bell = Arc::new(rustix::event::eventfd(0, flags)?);
                let queue = Queue::new(device, bell.try_clone()?, DEPTH)?;
                Ok(Service::new(queue, bell, volume, read_only))
            };
            match opened() {
                Err(e) => drop(say.send(Err(e))),
                Ok(service) => {
                    let _ = say.send(Ok(()));
                    // Ends with the device. A failed volume or ring ends the process's part of the
                    // device, and the kernel keeps the requests for the next server.
                    let _ = in_order.set(service.run(DEPTH).is_ok());
                    ended();
                }
            }
        });
        Ok((thread.map_err(cannot("start the thread of the ublk device"))?, ready))
    }

    /// Prepares the device of a dead server, if nothing that was acknowledged can be missing.
    fn take_over(&self, server: &ServerHandle, wanted: &Parameters) -> Result<(), ServeError> {
        let path = self.path();
        let mut found = Parameters { len: wanted.len, ..Parameters::default() };
        let got = self.control.with_parameters(wire::GET_PARAMS, self.number, &mut found);
        got.map_err(cannot_at(&path, "ask for its parameters"))?;
        let same = found.sectors == wanted.sectors
            && (found.attributes ^ wanted.attributes) & wire::READ_ONLY == 0;
        // In write-back, with replicas, and after a crash of another server, an acknowledged write
        // that was not flushed may be lost.
        let whole = !self.elsewhere && server.attached().is_none_or(|found| !found.may_be_newer);
        if !same || !whole || self.replaced {
            // A process of another PID namespace has no number here: it may live.
            if !self.is_quiesced() {
                let why = "another server has it, perhaps in a container; nothing was changed. Stop that server, or give the backing another path";
                return Err(HostError::Refused { path, why: why.to_owned() }.into());
            }
            self.cut_off();
            let why = if self.replaced {
                "its server died, and another disk or file is in the place of its backing now: its users get errors from now on. Unmount it, and start again"
            } else if same {
                "its server died, and writes that were not flushed may be lost: its users get errors from now on. Unmount it, check the file system, and start again"
            } else {
                "its server died, and the disk has another size or mode now: its users get errors from now on. Unmount it, and start again"
            };
            return Err(HostError::Refused { path, why: why.to_owned() }.into());
        }
        let (start, what) = (Instant::now(), "take it over from a dead server");
        loop {
            match self.control.send(wire::START_USER_RECOVERY, self.number, 0) {
                Err(e) if is_busy(&e) && start.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                other => break other.map_err(cannot_at(&path, what))?,
            }
        }
        Ok(())
    }

    /// Whether the kernel says that no server has the device. Waits while the kernel clears up.
    fn is_quiesced(&self) -> bool {
        let start = Instant::now();
        loop {
            let mut info = DeviceInfo::default();
            let asked = self.control.with_info(wire::GET_DEV_INFO, self.number, &mut info);
            if asked.is_err() || info.state != wire::STATE_LIVE || start.elapsed() > PATIENCE {
                return asked.is_ok() && info.state == wire::STATE_QUIESCED;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends a device whose users get errors. The kernel forgets it when the last user has gone.
    fn cut_off(&self) {
        let _ = self.control.send(wire::STOP_DEV, self.number, 0);
        // Does not wait for these users. A kernel without this command keeps the number in use.
        let _ = self.control.send(wire::DEL_DEV_ASYNC, self.number, 0);
    }

    fn parameters(&self, server: &ServerHandle) -> Parameters {
        let most = u32::MAX >> 9;
        let mut attributes = wire::VOLATILE_CACHE | wire::FUA;
        let mut types = wire::BASIC;
        if self.rotates {
            attributes |= wire::ROTATIONAL;
        }
        if server.is_read_only() {
            attributes |= wire::READ_ONLY;
        } else {
            types |= wire::DISCARD;
        }
        Parameters {
            len: size_of::<Parameters>() as u32,
            types,
            attributes,
            logical_shift: 9,
            physical_shift: 12,
            io_opt_shift: 12,
            io_min_shift: 12,
            max_sectors: REQUEST_BYTES / SECTOR_BYTES as u32,
            sectors: server.size().0 / SECTOR_BYTES,
            discard_granularity: 4096,
            discard_sectors_max: most,
            zero_sectors_max: most,
            discard_segments_max: 1,
            ..Parameters::default()
        }
    }
}

impl Drop for UblkPoint {
    fn drop(&mut self) {
        if self.made {
            let _ = self.control.send(wire::DEL_DEV, self.number, 0);
        }
    }
}

fn is_busy(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::ResourceBusy
}

/// Marks the devices of a backing.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// The upper half is of the path, the lower half of the disk or file there.
    new: u64,
    /// Of the path alone: earlier servers gave their devices this one.
    old: u64,
    /// Of the beginning of a long name: later servers gave this one, which other disks may have too.
    former: Option<u64>,
}

/// Whether a device that waits is of a backing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    Same,
    /// Another disk or file is at its path now.
    Replaced,
}

impl Mark {
    fn of(backing: &Path) -> Self {
        let path = backing.canonicalize().unwrap_or_else(|_| backing.to_owned());
        let old = XxHash3_64::oneshot(path.as_os_str().as_encoded_bytes());
        let former = identity::former_label(&path);
        Self::named(old, &identity::lasting_name(&path), former.as_deref())
    }

    /// `old` is of the path, the names are of the disk or file there.
    fn named(old: u64, name: &str, former: Option<&str>) -> Self {
        let of = |name: &str| {
            let there = XxHash3_64::oneshot(name.as_bytes());
            old & !u64::from(u32::MAX) | there & u64::from(u32::MAX)
        };
        Self { new: of(name), old, former: former.map(of) }
    }

    /// `None`: a device with the mark `found` is of another path.
    fn fit(self, found: u64) -> Option<Fit> {
        let same = found == self.new || found == self.old || Some(found) == self.former;
        let fit = if same { Fit::Same } else { Fit::Replaced };
        (found >> 32 == self.old >> 32).then_some(fit)
    }
}

/// The number of a device of this backing that waits for its next server.
fn left_of(control: &ControlDevice, mark: Mark) -> Option<(u32, Fit)> {
    let numbers = (0..DEVICES).filter(|&n| node('c', n).exists());
    let left =
        numbers.filter_map(|n| Some((n, mark.fit(left_by_a_server(control, n)?.owner_mark)?)));
    left.min_by_key(|(_, fit)| *fit == Fit::Replaced)
}

/// Refuses to change a backing whose block device waits for its next server. The kernel holds
/// requests that are older than the change, and programs would continue after the change without
/// notice. The caller has locked the backing.
pub(crate) fn ensure_no_device_waits(backing: &Path) -> Result<(), ServeError> {
    let left = ControlDevice::open().ok().and_then(|control| left_of(&control, Mark::of(backing)));
    left.map_or(Ok(()), |(number, _)| Err(waits(number, backing)))
}

fn waits(number: u32, backing: &Path) -> ServeError {
    let why = format!(
        "waits for the next server of {0}, with requests of programs; nothing was changed. Start \
         `seekless serve {0} --ublk {number}` again. Then unmount the device, and stop that server",
        backing.display()
    );
    HostError::Refused { path: node('b', number), why }.into()
}

/// The device, if its server has died or is dying.
fn left_by_a_server(control: &ControlDevice, number: u32) -> Option<DeviceInfo> {
    let mut info = DeviceInfo::default();
    control.with_info(wire::GET_DEV_INFO, number, &mut info).ok()?;
    let dying = || !Path::new(&format!("/proc/{}", info.pid)).exists();
    let left = info.state == wire::STATE_QUIESCED || info.state == wire::STATE_LIVE && dying();
    (left && info.flags & wire::FEATURES == wire::FEATURES).then_some(info)
}

/// Makes a device with this number, or with any, and returns the number.
fn add(control: &ControlDevice, number: Option<u32>, mark: u64) -> Result<u32, ServeError> {
    let device = number.unwrap_or(wire::ANY_DEVICE);
    let mut info = DeviceInfo {
        queues: 1,
        depth: DEPTH,
        io_bytes_max: REQUEST_BYTES,
        device,
        flags: wire::FEATURES,
        owner_mark: mark,
        ..DeviceInfo::default()
    };
    match control.with_info(wire::ADD_DEV, device, &mut info) {
        Ok(()) => Ok(info.device),
        Err(e) if number.is_some() && e.kind() == io::ErrorKind::AlreadyExists => {
            let why = "another server has this device, or had it and died; give another number, or start that server again and stop it".to_owned();
            Err(HostError::Refused { path: node('b', device), why }.into())
        }
        Err(e) => {
            let what = "make a device (Linux 6.5 or later)";
            Err(cannot_at(Path::new(wire::CONTROL), what)(e).into())
        }
    }
}

/// A block device that serves a volume. Dropped in use, it waits for the next server of the volume.
#[derive(Debug)]
pub struct UblkDevice {
    point: UblkPoint,
    thread: Option<JoinHandle<()>>,
    /// Set when the queue's thread ends: whether the device ended before it.
    in_order: Arc<OnceLock<bool>>,
    missing: Option<&'static str>,
}

impl UblkDevice {
    /// The block device.
    pub fn path(&self) -> PathBuf {
        self.point.path()
    }

    /// What its server lacks to serve when memory is short, in words.
    pub const fn missing(&self) -> Option<&'static str> {
        self.missing
    }

    /// An error if nobody takes the device's requests any more: they wait for the next server.
    pub fn ensure_works(&self) -> Result<(), ServeError> {
        // In this order: a thread that has just ended has said how.
        let is_finished = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
        if self.in_order.get().map_or(!is_finished, |in_order| *in_order) {
            return Ok(());
        }
        let why =
            "its volume or its queue failed; its requests wait for the next server".to_owned();
        Err(HostError::Refused { path: self.path(), why }.into())
    }

    /// Ends and deletes the device, unless it is in use: then false, and nothing has changed.
    pub fn end(&mut self) -> Result<bool, ServeError> {
        // Deleting it would give errors to its users.
        self.ensure_works()?;
        let path = self.path();
        if self.in_order.get() == Some(&true) {
            return self.delete().map(|()| true);
        }
        if !Users::of_file(&path).is_empty() {
            return Ok(false);
        }
        // While this is open, nobody can mount the device.
        let claim = File::options().read(true).custom_flags(libc::O_EXCL).open(&path);
        let claim = match claim {
            Err(e) if is_busy(&e) => return Ok(false),
            other => other.map_err(cannot_at(&path, "claim it"))?,
        };
        let stopped = self.point.control.send(wire::STOP_DEV, self.point.number, 0);
        stopped.map_err(cannot_at(&path, "stop it"))?;
        drop(claim);
        self.delete()?;
        Ok(true)
    }

    /// Ends the device; its users get errors.
    pub fn cut_off(&mut self) {
        self.point.cut_off();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// After the device has stopped.
    fn delete(&mut self) -> Result<(), ServeError> {
        if let Some(thread) = self.thread.take() {
            // It sees the device end, and closes it.
            let _ = thread.join();
        }
        match self.point.control.send(wire::DEL_DEV, self.point.number, 0) {
            // Somebody else has deleted it.
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => Ok(()),
            other => Ok(other.map_err(cannot_at(&self.path(), "delete it"))?),
        }
    }
}

impl Drop for UblkDevice {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // In use, or refused: the kernel keeps the device for the next server.
            let _ = self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kernels_that_copy_no_data_themselves_are_new_enough() {
        for new in ["6.5.0", "6.12.117+deb12-cloud-amd64\n", "6.10-rc1", "7.0.1", "6.5+"] {
            assert!(is_new_enough(new), "{new}");
        }
        for old in ["6.4.16", "6.1.0-37-amd64", "5.19", "", "6", "x.7"] {
            assert!(!is_new_enough(old), "{old}");
        }
    }

    /// A device may wait while its server is upgraded.
    #[test]
    fn a_device_of_an_earlier_server_is_of_a_disk_with_a_long_name() {
        let path = (7 << 32) + 5;
        let mark = |name| Mark::named(path, name, Some("device t10.ATA"));
        let (one, two) = (mark("disk 1"), mark("disk 2"));
        let earlier = Mark::named(path, "device t10.ATA", None);
        assert_eq!(one.fit(earlier.new), Some(Fit::Same));
        assert_eq!((one.fit(one.new), one.fit(one.old)), (Some(Fit::Same), Some(Fit::Same)));
        assert_eq!(one.fit(two.new), Some(Fit::Replaced));
        assert_eq!(one.fit(Mark::named(8 << 32, "disk 1", None).new), None);
    }

    #[test]
    fn a_device_is_of_the_file_that_its_server_had() {
        let path = |name: &str| {
            std::env::temp_dir().join(format!("seekless-{}-{name}", std::process::id()))
        };
        let (disk, backup) = (path("marked"), path("restored"));
        let born = |path: &Path| path.metadata().unwrap().created().ok();
        std::fs::write(&disk, "first").unwrap();
        let (first, other) = (Mark::of(&disk), Mark::of(&path("absent")));
        std::fs::write(&disk, "written since").unwrap();
        assert_eq!(Mark::of(&disk).fit(first.new), Some(Fit::Same));
        assert_eq!(Mark::of(&disk).fit(first.old), Some(Fit::Same), "of an earlier server");
        assert_eq!((first.fit(other.new), first.fit(other.old)), (None, None));
        let known = born(&disk);
        // The clock of a file system has ticks.
        std::fs::write(&backup, "second").unwrap();
        while known.is_some() && born(&backup) == known {
            std::fs::remove_file(&backup).unwrap();
            std::fs::write(&backup, "second").unwrap();
        }
        std::fs::rename(&backup, &disk).unwrap();
        let restored = Mark::of(&disk);
        let fit = if known.is_some() { Fit::Replaced } else { Fit::Same };
        assert_eq!(restored.fit(first.new), Some(fit));
        assert_eq!(restored.fit(restored.new), Some(Fit::Same));
        std::fs::remove_file(&disk).unwrap();
    }
}
