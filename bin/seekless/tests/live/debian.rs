//! The package on a Debian of its own, under its systemd: installed, a disk adopted, written,
//! restarted, stopped and released. `systemd-nspawn` runs the Debian; FUSE and loop devices are
//! those of the host.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::host::{self, attempt, run};
use crate::need;

/// Longest time of a start or an end of the machine.
const PATIENCE: Duration = Duration::from_secs(200);

/// The target of the static program.
const STATIC: &str = "x86_64-unknown-linux-musl";

/// A part of a release of this build, from packaging/release.sh.
pub(crate) fn package(out: &Path, what: &str) -> PathBuf {
    let built = Path::new(crate::PROGRAM).parent().unwrap();
    let profile = match built.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        other => other,
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/release.sh");
    let output = Command::new(script)
        .arg(out)
        .env("PROFILE", profile)
        .env("CARGO_TARGET_DIR", built.parent().unwrap())
        .env("PARTS", what)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let found = fs::read_dir(out).unwrap().map(|e| e.unwrap().path());
    let mut found = found.filter(|p| p.extension().is_none_or(|e| e != "sha256"));
    found.next().unwrap_or_else(|| panic!("nothing was made: {output:?}"))
}

/// A Debian in a folder.
pub(crate) struct Debian {
    dir: tempfile::TempDir,
    running: Option<(Child, u32)>,
}

impl Debian {
    /// Made from the registry of its packages; an error says why it cannot be had.
    pub(crate) fn new() -> Result<Self, String> {
        let system = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let release = system.lines().find_map(|l| l.strip_prefix("VERSION_CODENAME="));
        let release = release.filter(|_| system.contains("\nID=debian"));
        let release = release.ok_or("this host is no Debian, for which the package is built")?;
        // Not in memory, as /tmp may be: an area must outlive the machine.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let tree = dir.path().join("tree");
        let packages = "--include=systemd,systemd-sysv,dbus,udev,kmod,e2fsprogs";
        let args = ["debootstrap", "--variant=minbase", packages, release, tree.to_str().unwrap()];
        let made = attempt(args);
        if !made.status.success() {
            let said = String::from_utf8_lossy(&made.stdout).into_owned();
            return Err(said.lines().last().unwrap_or("debootstrap failed").to_owned());
        }
        // A container has no udev; the host's kernel has the loop devices.
        let nodes: String =
            (0..64).map(|n| format!("b /dev/loop{n} 0600 root root - 7:{n}\n")).collect();
        fs::write(tree.join("etc/tmpfiles.d/loop.conf"), nodes).unwrap();
        Ok(Self { dir, running: None })
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    /// Starts its systemd, and waits until that has started everything.
    fn boot(&mut self) {
        let said = File::create(self.dir.path().join("console")).unwrap();
        let mut nspawn = Command::new("systemd-nspawn")
            .arg("-D")
            .arg(self.tree())
            .args(["--register=no", "--keep-unit", "--private-network", "-b"])
            .args(["--capability=CAP_IPC_LOCK", "--bind=/dev/fuse", "--bind=/dev/loop-control"])
            .stdin(Stdio::null())
            .stdout(said.try_clone().unwrap())
            .stderr(said)
            .spawn()
            .unwrap();
        let children = format!("/proc/{0}/task/{0}/children", nspawn.id());
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let leader = fs::read_to_string(&children).unwrap_or_default();
            if let Some(leader) = leader.split_whitespace().next().and_then(|l| l.parse().ok()) {
                let state = inside(leader, "systemctl is-system-running --wait").output().unwrap();
                let state = String::from_utf8_lossy(&state.stdout).into_owned();
                if ["running", "degraded"].contains(&state.trim()) {
                    self.running = Some((nspawn, leader));
                    return;
                }
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = nspawn.kill();
        let _ = nspawn.wait();
        panic!("it did not start: {}", self.console());
    }

    fn console(&self) -> String {
        fs::read_to_string(self.dir.path().join("console")).unwrap_or_default()
    }

    /// Runs this in its shell, and shows command and answer as they are.
    fn attempt(&self, line: &str) -> (bool, String) {
        let (_, leader) = self.running.as_ref().unwrap();
        let output = inside(*leader, &format!("({line}) 2>&1")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        eprintln!("# {line}\n{said}");
        (output.status.success(), said)
    }

    fn run(&self, line: &str) -> String {
        let (done, said) = self.attempt(line);
        assert!(done, "{line}: {said}\n{}", self.journal());
        said
    }

    fn journal(&self) -> String {
        let (_, leader) = self.running.as_ref().unwrap();
        let output = inside(*leader, "journalctl -b --no-pager -o cat").output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Ends it by `systemctl poweroff` or `reboot`; returns what the console showed.
    fn end(&mut self, how: &str) -> String {
        let (mut nspawn, leader) = self.running.take().unwrap();
        eprintln!("# systemctl {how}\n");
        let _ = inside(leader, &format!("systemctl {how}")).output();
        let start = Instant::now();
        while nspawn.try_wait().unwrap().is_none() {
            if start.elapsed() > PATIENCE {
                let _ = nspawn.kill();
                let _ = nspawn.wait();
                panic!("it did not end: {}", self.console());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        self.console()
    }

    /// The files below /srv/data with their bytes, in a line each.
    fn files(&self) -> String {
        let sums = "cd /srv/data && find . -type f -print0 | sort -z | xargs -0 sha256sum";
        let (_, leader) = self.running.as_ref().unwrap();
        let output = inside(*leader, sums).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Debian {
    fn drop(&mut self) {
        // Only what a failed test leaves.
        if let Some((mut nspawn, leader)) = self.running.take() {
            let _ = inside(leader, "seekless release disk; systemctl poweroff").output();
            let start = Instant::now();
            while nspawn.try_wait().is_ok_and(|s| s.is_none()) && start.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(100));
            }
            let _ = nspawn.kill();
            let _ = nspawn.wait();
        }
    }
}

/// A command for the shell of a machine.
fn inside(leader: u32, line: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=2", "100", "nsenter", "-t", &leader.to_string()]);
    command.args(["-m", "-p", "-u", "-i", "-n", "--", "/usr/bin/env", "-i", "LANG=C", "HOME=/"]);
    command.args(["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "sh", "-c", line]);
    command.stdin(Stdio::null());
    command
}

/// The first of these words in a text, in this order.
pub(crate) fn in_order(text: &str, words: &[&str]) {
    let mut from = 0;
    for word in words {
        let at = text[from..].find(word);
        from += at.unwrap_or_else(|| panic!("{word:?} is not behind the others in {text}"));
    }
}

fn missing() -> Option<String> {
    let tools = "debootstrap systemd-nspawn nsenter losetup dpkg-deb cargo-deb";
    host::lacks("long fuse root ext4").or_else(|| host::lacks(tools))
}

#[test]
fn the_package_adopts_a_disk_that_stands_after_a_restart_and_is_released() {
    need!("the package under systemd", missing());
    let packages = tempfile::tempdir().unwrap();
    let package = package(packages.path(), "deb");
    let mut debian = match Debian::new() {
        Ok(debian) => debian,
        Err(why) => return eprintln!("SKIPPED the package under systemd: {why}"),
    };
    fs::copy(&package, debian.tree().join("opt/seekless.deb")).unwrap();
    debian.boot();
    debian.run("dpkg -i /opt/seekless.deb");
    debian.run("seekless --version");
    debian.run("truncate -s 256M /srv/disk.img && mkfs.ext4 -q /srv/disk.img && mkdir /srv/data");
    let bare = debian.run("sha256sum /srv/disk.img");
    let files = "/etc/fstab /etc/systemd /var/lib/seekless /etc/seekless /run/seekless/disk";
    let system = format!("find {files} -exec ls -ld --time-style=+ {{}} + 2>/dev/null | md5sum");
    let before = debian.attempt(&system).1;

    // A mount would write to the disk.
    let adopt = "seekless adopt /srv/disk.img --area /var/lib/seekless/disk.area";
    let said = debian.run(adopt);
    assert!(said.ends_with("done    the disk is served\n"), "{said}");
    debian.run("seekless release disk");
    assert_eq!(debian.run("sha256sum /srv/disk.img"), bare, "nothing was written");
    assert_eq!(debian.attempt(&system).1, before, "released");

    // Used, and restarted.
    debian.run(&format!("{adopt} --mount /srv/data"));
    debian.run("findmnt /srv/data");
    let (removed, said) = debian.attempt("dpkg -r seekless");
    assert!(!removed && said.contains("run: seekless release disk"), "{said}");
    debian.run("test -x /usr/bin/seekless && dpkg -i /opt/seekless.deb && findmnt /srv/data");
    debian.run("cp -r /usr/share/doc /srv/data && sync -f /srv/data");
    debian.run("seekless volume mode writeback /srv/disk.img");
    debian.run("head -c 20M /dev/urandom >/srv/data/noise && sync -f /srv/data");
    let written = debian.files();
    let console = debian.end("reboot");
    assert!(!console.contains("Failed unmounting"), "{console}");
    in_order(&console, &["Unmounted", "srv-data.mount", "Stopped", "seekless-loop@", "Stopped"]);
    debian.boot();
    debian.run("systemctl is-active srv-data.mount seekless-loop@disk seekless-file@disk");
    assert_eq!(debian.files(), written, "after a restart");

    // The mount goes before the server, without force.
    debian.run("systemctl stop seekless-file@disk");
    let journal = debian.journal();
    let order = ["Unmounted srv-data", "Stopped seekless-loop@", "saving the area"];
    in_order(&journal, &[&order[..], &["Stopped seekless-file@"]].concat());
    assert!(!journal.contains("SIGKILL") && !journal.contains("Failed unm"), "{journal}");
    debian.run("systemctl start srv-data.mount");
    in_use(&debian, &written);

    debian.run("seekless release disk");
    assert_eq!(debian.attempt(&system).1, before, "released");
    debian.run("e2fsck -fn /srv/disk.img");
    debian.run("mount -o loop,ro /srv/disk.img /srv/data");
    assert_eq!(debian.files(), written, "on the bare disk");
    debian.run("umount /srv/data && dpkg -P seekless");
    debian.end("poweroff");
    run(["test", "!", "-e", debian.tree().join("usr/bin/seekless").to_str().unwrap()]);
}

#[test]
fn the_static_program_runs_where_there_is_nothing_else() {
    need!("the static program", "long root musl-gcc strip readelf chroot");
    let installed = attempt(["rustc", "--print", "target-libdir", "--target", STATIC]);
    let libraries = String::from_utf8_lossy(&installed.stdout).trim().to_owned();
    if !Path::new(&libraries).is_dir() {
        return eprintln!("SKIPPED the static program: no target {STATIC}");
    }
    let root = tempfile::tempdir().unwrap();
    let program = package(root.path(), "static");
    let name = program.file_name().unwrap().to_str().unwrap();
    let version = format!("seekless {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(name, format!("{}-{STATIC}", version.replace(' ', "-")));
    let trace = "0.0 0 0 8 1\n1.0 0 100 8 1\n2.0 0 200 8 0\n";
    fs::write(root.path().join("trace"), trace).unwrap();
    let program = format!("/{name}");
    let root = root.path().to_str().unwrap();
    let inside = |args: &[&str]| run([&["chroot", root, &program], args].concat());
    assert_eq!(inside(&["--version"]).trim(), version);
    // What C libraries it has: zstd, LZMA.
    inside(&["convert", "trace", "trace.parquet"]);
    inside(&["convert", "trace.parquet", "trace.csv.zst"]);
    let counted = inside(&["stat", "trace.csv.zst", "--json", "-"]);
    let said: serde_json::Value = serde_json::from_str(&counted).unwrap();
    assert_eq!(said["schema"], "seekless.stat/1", "{counted}");
}

/// Starts a program that works on the mount and ignores SIGTERM.
fn hold(debian: &Debian) {
    let program = debian.tree().join("opt/hold.sh");
    let text = "#!/bin/sh\ncd /srv/data\ntrap '' TERM\ntouch /run/holds\nsleep 900\nsleep 900\n";
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    debian.run("setsid /opt/hold.sh >/dev/null 2>&1 & until [ -e /run/holds ]; do sleep 0.1; done");
}

/// A stop while the mount is in use: the server goes on, and ends when the mount is free.
fn in_use(debian: &Debian, written: &str) {
    let short = "/run/systemd/system/seekless-file@disk.service.d";
    debian.run(&format!(
        "mkdir -p {short}; printf '[Service]\\nTimeoutStopSec=2s\\n' >{short}/x.conf"
    ));
    debian.run("systemctl daemon-reload");
    hold(debian);
    debian.attempt("systemctl stop seekless-file@disk");
    assert_eq!(debian.files(), written, "after a stop that was refused");
    let journal = debian.journal();
    assert!(journal.contains("Skipping SIGKILL") && journal.contains("in use"), "{journal}");
    debian.run("for p in /proc/[0-9]*; do [ \"$(readlink $p/cwd)\" != /srv/data ] || kill -9 ${p#/proc/}; done");
    // The kill ends a little later.
    debian.run(
        "i=0; until umount /srv/data; do i=$((i + 1)); [ $i -lt 100 ] || exit 1; sleep 0.1; done",
    );
    debian.run("while grep -qsa 'seekles[s].serve' /proc/[0-9]*/cmdline; do sleep 0.1; done");
    debian.run("rm /run/holds; systemctl start srv-data.mount");
    assert_eq!(debian.files(), written, "started again");
}
