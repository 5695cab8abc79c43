//! Where checks stand: a plain directory, or a mount over one.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use rustix::fs::{FallocateFlags, XattrFlags, fallocate};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::case::{chmod, difference};
use crate::host::{self, Numbers, seekless};

/// A mount that moves every small file that was ever read into the group store, each by itself, and
/// does so often.
pub(crate) const RESTLESS: &[&str] = &[
    "--least", "1", "--most", "1", "--window", "1", "--needed", "1", "--every", "300", "--idle",
    "none",
];

/// Has the mount at `root` form groups now and move what is to be moved; whether it could.
pub(crate) fn shuffle(root: &Path) -> bool {
    rustix::fs::setxattr(root, "trusted.seekless.do", b"shuffle", XattrFlags::empty()).is_ok()
}

/// Does this while the mount at `root` shuffles all the time and has something to move; how many
/// shuffles there were besides.
pub(crate) fn shuffling<T>(root: &Path, act: impl FnOnce() -> T) -> (T, u64) {
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let shuffler = scope.spawn(|| {
            let mut done = 0;
            for i in 0u64.. {
                if stop.load(SeqCst) {
                    break;
                }
                // A few files that come and go; a test may have used up what files need.
                let path = root.join(format!(".restless{}", i % 5));
                let content = Numbers::new(i).bytes(1 + (i * 997 % 20_000) as usize);
                if std::fs::write(&path, &content).is_ok() {
                    // Every second time it goes home; the others are written in the store.
                    if i % 2 == 0
                        && let Ok(file) = std::fs::File::options().write(true).open(&path)
                    {
                        let _ = fallocate(file, FallocateFlags::KEEP_SIZE, 0, 1);
                    }
                    let before = std::fs::read(&path);
                    done += u64::from(shuffle(root));
                    for read in [before, std::fs::read(&path)].into_iter().flatten() {
                        assert!(read == content, "{}", difference(&read, &content));
                    }
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            for i in 0..5 {
                let _ = std::fs::remove_file(root.join(format!(".restless{i}")));
            }
            done
        });
        // Also where `act` panics: the scope waits for the shuffler.
        let stop = Stop(&stop);
        let result = act();
        drop(stop);
        (result, shuffler.join().unwrap())
    })
}

/// A directory, and perhaps a mount over it.
#[derive(Debug)]
pub(crate) struct Ground {
    dir: TempDir,
    mount: Option<Child>,
    /// The directory's name and the mount's; the same where it is mounted over itself.
    names: [&'static str; 2],
}

impl Ground {
    pub(crate) fn plain() -> Self {
        let dir = tempfile::tempdir().unwrap();
        chmod(dir.path(), 0o755).unwrap();
        for name in ["beneath", "mounted"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir, mount: None, names: ["beneath", "mounted"] }
    }

    /// What is missing for a mount.
    pub(crate) fn missing() -> Option<String> {
        host::root().or_else(host::fuse)
    }

    pub(crate) fn mounted(args: &[&str]) -> Self {
        let mut ground = Self::plain();
        ground.start(args);
        ground
    }

    /// Mounted over the directory itself.
    pub(crate) fn over_itself(args: &[&str]) -> Self {
        let mut ground = Self::plain();
        ground.names[1] = ground.names[0];
        ground.start(args);
        ground
    }

    fn point(&self) -> PathBuf {
        self.path(self.names[1])
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Where files are asked for.
    pub(crate) fn root(&self) -> PathBuf {
        self.path(self.names[usize::from(self.mount.is_some())])
    }

    /// Mounts, with these arguments more.
    pub(crate) fn start(&mut self, args: &[&str]) {
        let mut command = seekless();
        command.args(["files", "mount"]).args([self.path(self.names[0]), self.point()]);
        command.arg("--store").arg(self.path("groups")).args(["--create", "256MiB"]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !host::is_mounted(&self.point()) {
            line.clear();
            let n = said.read_line(&mut line).unwrap();
            assert!(n > 0, "it ended before it was mounted: {:?}", child.wait());
        }
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        self.mount = Some(child);
    }

    pub(crate) const fn is_mounted(&self) -> bool {
        self.mount.is_some()
    }

    /// A place for other things, not on the mount.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// How the mount stands: `seekless files status`.
    pub(crate) fn state(&self) -> Value {
        let mut status = seekless();
        status.args(["files", "status", "--json"]).arg(self.root());
        serde_json::from_str(&host::succeeds(&mut status)).unwrap()
    }

    /// kill -9. Who uses the mount gets errors from now on.
    pub(crate) fn kill_server(&mut self) {
        let child = self.mount.as_mut().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Takes away the mount that a killed server left.
    pub(crate) fn bury(&mut self) {
        self.mount = None;
        host::unmount(&self.point());
    }

    /// Brings every file home and unmounts.
    pub(crate) fn bring_home(&mut self) {
        host::run([crate::PROGRAM, "files", "unmount", "--return", text(&self.point())]);
        let status = self.mount.take().unwrap().wait().unwrap();
        assert!(status.success(), "it ended with {status}");
    }

    /// Stops it, which must end well.
    pub(crate) fn stop(&mut self) {
        let child = self.mount.as_mut().unwrap();
        kill_process(Pid::from_child(child), Signal::TERM).unwrap();
        let mut status = None;
        host::until("the end of the mount", 60, || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        self.mount = None;
        assert!(status.is_some_and(|s| s.success()), "it ended with {status:?}");
        assert!(!host::is_mounted(&self.point()), "the mount is left");
    }

    pub(crate) fn end(mut self) {
        self.stop();
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Some(mut child) = self.mount.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if host::is_mounted(&self.point()) {
            let _ = host::attempt(["umount".as_ref(), "-l".as_ref(), self.point().as_os_str()]);
        }
    }
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
