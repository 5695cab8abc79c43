//! `seekless adopt` and `seekless release`: what is made is served, and afterwards image, folder of
//! units and fstab are as before, to the byte. A script stands in place of systemctl, and runs the
//! units that were written.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::host::{self, Loop, Mount, run_line, seekless};
use crate::need;

pub(crate) const MIB: u64 = 1 << 20;

/// A new file of this size without content.
pub(crate) fn sparse(path: impl AsRef<Path>, mib: u64) -> File {
    let file = File::create_new(path).unwrap();
    file.set_len(mib * MIB).unwrap();
    file
}

/// A system in a folder, a disk image with an ext4, and a place for its area.
pub(crate) struct System {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) name: String,
}

impl System {
    pub(crate) fn new(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let system = Self { dir, name: format!("test_{name}_{}", std::process::id()) };
        for folder in ["root/etc/systemd/system", "mnt", "bin"] {
            fs::create_dir_all(system.path(folder)).unwrap();
        }
        fs::write(system.path("root/etc/systemd/system/other.service"), "[Unit]\n").unwrap();
        let image = system.path("disk.img");
        sparse(&image, 64);
        let fstab = format!(
            "proc /proc proc defaults 0 0\n{}  {} ext4  noatime,loop 0 2\n# the end",
            image.display(),
            system.path("mnt").display()
        );
        fs::write(system.path("root/etc/fstab"), fstab).unwrap();
        system
    }

    pub(crate) fn with_ext4(self) -> Self {
        run_line(&format!("mkfs.ext4 -q -F {}", self.path("disk.img").display()));
        self
    }

    /// Lets a script be its systemd.
    pub(crate) fn booted(self) -> Self {
        fs::create_dir_all(self.path("root/run/systemd/system")).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/systemctl.sh");
        fs::copy(script, self.path("bin/systemctl")).unwrap();
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.path("bin/systemctl"), executable).unwrap();
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = seekless();
        let path = std::env::var("PATH").unwrap();
        command.args(args).args(["--root", "root"]).current_dir(self.dir.path());
        command.env("PATH", format!("{}:{path}", self.path("bin").display()));
        command.env("ROOT", self.path("root")).env("STATE", self.path("state"));
        command
    }

    pub(crate) fn adopt(&self, rest: &[&str]) -> Command {
        self.command(&[&["adopt", "disk.img", "--name", &self.name], rest].concat())
    }

    /// Releases the disk; returns what it notes.
    pub(crate) fn release(&self) -> String {
        let output = self.command(&["release", &self.name]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// A release that fails at its last step: all but its record is undone.
    pub(crate) fn release_ends_early(&self) {
        // This file cannot be removed.
        let part = self.path(&format!("root/etc/seekless/{}.adopted.json.part", self.name));
        fs::create_dir(&part).unwrap();
        host::refused(&mut self.command(&["release", &self.name]), &[".part", "remove"]);
        fs::remove_dir(&part).unwrap();
    }

    /// The units, but for one that was there before.
    fn units(&self) -> Vec<PathBuf> {
        let units = self.path("root/etc/systemd/system").read_dir().unwrap();
        let units = units.map(|e| e.unwrap().path()).filter(|p| p.is_file());
        let (other, units): (Vec<_>, _) = units.partition(|p| p.ends_with("other.service"));
        assert_eq!(other.len(), 1, "{other:?}");
        units
    }

    /// Every file, folder and link of the system, and the image, with their bytes.
    pub(crate) fn all(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.path("root")];
        while let Some(folder) = folders.pop() {
            for entry in folder.read_dir().unwrap() {
                let path = entry.unwrap().path();
                let kind = path.symlink_metadata().unwrap();
                let bytes = if kind.is_symlink() {
                    fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                } else if kind.is_dir() {
                    folders.push(path.clone());
                    Vec::new()
                } else {
                    fs::read(&path).unwrap()
                };
                found.insert(path, bytes);
            }
        }
        found.insert("image".into(), fs::read(self.path("disk.img")).unwrap());
        found.insert("area".into(), vec![u8::from(self.path("area").exists())]);
        found
    }
}

impl Drop for System {
    fn drop(&mut self) {
        // Only what a failed test leaves.
        let released = self.command(&["release", &self.name]).output();
        assert!(released.is_ok() || std::thread::panicking());
    }
}

pub(crate) fn same(
    before: &BTreeMap<PathBuf, Vec<u8>>,
    after: &BTreeMap<PathBuf, Vec<u8>>,
    when: &str,
) {
    let differ = |path: &&PathBuf| before.get(*path) != after.get(*path);
    let changed: Vec<_> = before.keys().chain(after.keys()).filter(differ).collect();
    assert!(changed.is_empty(), "{when}: {changed:?}");
}

#[test]
fn without_systemd_it_says_what_to_type_and_release_undoes_it() {
    let system = System::new("plain");
    let before = system.all();
    let said = host::succeeds(&mut system.adopt(&["--area", "area", "--dry-run"]));
    let unit = format!("seekless-file@{}.service", system.name);
    for word in ["disk.img", "64 MiB", "8 MiB", "mnt.mount", unit.as_str(), "nothing was written"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    same(&before, &system.all(), "a dry run");

    let said = host::succeeds(&mut system.adopt(&["--area", "new/area"]));
    assert!(said.lines().take_while(|l| !l.starts_with("done")).count() == 6, "{said}");
    // The root is no system that has the image, the area and the program.
    let lacks = said.lines().find(|l| l.starts_with("lacks ")).unwrap();
    for file in ["disk.img, ", "new/area, ", "seekless: "] {
        assert!(lacks.contains(file), "{file}: {lacks}");
    }
    assert!(said.contains("systemd does not run") && said.contains("seekless serve"), "{said}");
    let fstab = fs::read_to_string(system.path("root/etc/fstab")).unwrap();
    assert!(fstab.contains("# /") && fstab.ends_with("# the end"), "{fstab}");
    let words = ["adopted already", "seekless release"];
    host::refused(&mut system.adopt(&["--area", "other"]), &words);

    let stays = system.all();
    assert!(system.path("new/area").exists());
    let said = host::succeeds(&mut system.command(&["release", "disk.img", "--dry-run"]));
    assert!(said.contains(&unit) && said.contains("noatime,loop 0 2"), "{said}");
    same(&stays, &system.all(), "a dry run of release");
    host::succeeds(&mut system.command(&["release", "disk.img"]));
    same(&before, &system.all(), "released");
    assert!(!system.path("new").exists(), "the folder of the area");
    host::refused(&mut system.command(&["release", "disk.img"]), &["not adopted"]);
}

#[test]
fn what_cannot_be_adopted_is_left_as_it_was() {
    let system = System::new("bad");
    fs::write(system.path("used"), b"mine").unwrap();
    fs::create_dir(system.path("a b")).unwrap();
    let before = system.all();
    let name = system.name.clone();
    for (args, words) in [
        (&["disk.img"][..], &["--area", "/var/lib/seekless/disk.img.area"][..]),
        (&["absent", "--area", "area"], &["absent", "No such file"]),
        (&["disk.img", "--area", "used"], &["used", "exists", "new file"]),
        (&["disk.img", "--area", "disk.img"], &["is the disk itself"]),
        (&["disk.img", "--area", "mnt"], &["is a folder"]),
        (&["disk.img", "--area", "none/deep/area"], &["none", "cannot enter"]),
        (&["disk.img", "--area", "a b/area"], &["a b/area", "' '", "another name"]),
        (&["disk.img", "--area", "area", "--mount", "/"], &["cannot be mounted"]),
        (&["disk.img", "--area", "area", "--name", "a/b"], &["a/b", "letters"]),
        (&["disk.img", "--area", "area", "--optimized", "64KiB"], &["area"]),
        (&["disk.img", "--area", "area", "--optimized", "900TB"], &["area"]),
        (&["mnt", "--area", "area"], &["mnt"]),
    ] {
        let mut command = system.command(&[&["adopt"], args].concat());
        if !args.contains(&"--name") {
            command.args(["--name", &name]);
        }
        let said = host::refused(&mut command, words);
        assert!(!said.contains("panicked"), "{said}");
        same(&before, &system.all(), &format!("{args:?}"));
    }
    // The system opens the disk when it starts.
    let crypttab = system.path("root/etc/crypttab");
    fs::write(&crypttab, format!("data {} none luks", system.path("disk.img").display())).unwrap();
    let opened = system.all();
    host::refused(&mut system.adopt(&["--area", "area"]), &["crypttab", "/dev/mapper/data"]);
    same(&opened, &system.all(), "crypttab");
    fs::remove_file(&crypttab).unwrap();
    // The units name the paths without a mount too.
    fs::write(system.path("root/etc/fstab"), "# none").unwrap();
    let before = system.all();
    for area in ["a b/area", "area%n", "area\nUser=x"] {
        host::refused(&mut system.adopt(&["--area", area]), &["another meaning in units"]);
        same(&before, &system.all(), area);
    }
    // What cannot be written is undone: the folder of units is a file.
    fs::rename(system.path("root/etc/systemd"), system.path("kept")).unwrap();
    fs::write(system.path("root/etc/systemd"), "").unwrap();
    let before = system.all();
    host::refused(&mut system.adopt(&["--area", "area"]), &[]);
    same(&before, &system.all(), "units cannot be written");
}

/// A power cut may come between the area and its mark, and an administrator may edit /etc/fstab.
#[test]
fn release_names_what_it_leaves_and_what_it_does_not_find() {
    let system = System::new("notes");
    let fstab = system.path("root/etc/fstab");
    let before = system.all();
    host::succeeds(&mut system.adopt(&["--area", "area"]));
    fs::remove_file(system.path(&format!("root/etc/seekless/{}.area-made", system.name))).unwrap();
    let text = fs::read_to_string(&fstab).unwrap();
    let kept: Vec<&str> = text.lines().filter(|l| !l.contains("noatime")).collect();
    fs::write(&fstab, kept.join("\n")).unwrap();
    let said = system.release();
    let notes: Vec<&str> = said.lines().filter(|l| l.starts_with("note: ")).collect();
    assert!(notes.len() == 2 && notes[0].contains("noatime,loop 0 2' is not in"), "{said}");
    assert!(notes[1].contains("/area stays") && system.path("area").exists(), "{said}");
    // Both as before: nothing to say.
    fs::remove_file(system.path("area")).unwrap();
    fs::write(&fstab, &before[&fstab]).unwrap();
    host::succeeds(&mut system.adopt(&["--area", "area"]));
    assert_eq!(system.release(), "");
    same(&before, &system.all(), "released");
}

/// A power cut may end a release at any moment. The next start of the machine mounts the disk.
#[test]
fn a_release_that_ends_early_leaves_the_line_or_the_whole_unit() {
    let system = System::new("early");
    let before = system.all();
    host::succeeds(&mut system.adopt(&["--area", "area"]));
    // This file cannot be removed.
    let settings = system.path(&format!("root/etc/seekless/{}.conf", system.name));
    fs::remove_file(&settings).unwrap();
    fs::create_dir(&settings).unwrap();
    host::refused(&mut system.command(&["release", &system.name]), &[&system.name, "remove"]);
    let fstab = system.path("root/etc/fstab");
    assert!(before[&fstab] == fs::read(&fstab).unwrap(), "the line is there");
    assert_eq!(system.units(), [] as [PathBuf; 0]);
    fs::remove_dir(&settings).unwrap();
    host::succeeds(&mut system.command(&["release", &system.name]));
    same(&before, &system.all(), "released");
}

/// A system that is not started has its files below a folder here, and will see them elsewhere.
#[test]
fn units_of_another_system_name_its_files_as_it_sees_them() {
    let system = System::new("other_root");
    let root = system.path("root");
    let program = fs::canonicalize(crate::PROGRAM).unwrap();
    let there = root.join(program.strip_prefix("/").unwrap());
    for folder in [root.join("srv"), root.join("var"), there.parent().unwrap().to_owned()] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(&there, "").unwrap();
    sparse(root.join("srv/x.img"), 64);
    let before = system.all();
    let adopt = ["adopt", "root/srv/x.img", "--name", &system.name, "--area", "root/var/x.area"];
    let said = host::succeeds(system.command(&adopt).arg("--dry-run"));
    for line in ["BACKING=/srv/x.img", "AREA=/var/x.area"] {
        assert!(said.lines().any(|l| l == line), "{line}: {said}");
    }
    let needs = format!(" {} /srv/x.img /var/x.area", program.display());
    assert!(said.contains(&needs) && said.contains("root/var/x.area, a new file"), "{said}");
    assert!(!said.contains("lacks "), "{said}");
    host::succeeds(&mut system.command(&adopt));
    assert!(root.join("var/x.area").exists());
    // At the release, this system has another root.
    fs::rename(&root, system.path("moved")).unwrap();
    let mut release = seekless();
    release.args(["release", &system.name, "--root", "moved"]).current_dir(system.dir.path());
    host::succeeds(&mut release);
    fs::rename(system.path("moved"), &root).unwrap();
    same(&before, &system.all(), "released");
}

/// The root may be a tree that another user owns.
#[test]
fn a_link_out_of_the_root_is_refused() {
    let system = System::new("leads_out");
    fs::create_dir(system.path("out")).unwrap();
    let (units, kept) = (system.path("root/etc/systemd/system"), system.path("kept"));
    let link = |at: &Path| std::os::unix::fs::symlink(system.path("out"), at).unwrap();
    fs::rename(&units, &kept).unwrap();
    link(&units);
    let words = ["leads out of the root", "etc/systemd/system"];
    host::refused(&mut system.adopt(&["--area", "area"]), &words);
    fs::remove_file(&units).unwrap();
    fs::rename(&kept, &units).unwrap();
    link(&system.path("root/srv"));
    let before = system.all();
    let words = ["leads out of the root", "root/srv"];
    host::refused(&mut system.adopt(&["--area", "area", "--mount", "/srv"]), &words);
    same(&before, &system.all(), "refused");
    assert_eq!(system.path("out").read_dir().unwrap().count(), 0);
}

#[test]
fn of_two_adoptions_at_once_one_is_refused() {
    let system = System::new("twice");
    let before = system.all();
    let names = ["a", "b"].map(|end| format!("{}_{end}", system.name));
    let adopting = names.each_ref().map(|name| {
        let args = ["adopt", "disk.img", "--name", name, "--area", name];
        let mut command = system.command(&args);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    });
    let ended = adopting.map(|child| child.wait_with_output().unwrap());
    let done = ended.iter().filter(|output| output.status.success()).count();
    assert_eq!(done, 1, "{ended:?}");
    let refused = ended.iter().find(|output| !output.status.success()).unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("adopted already"), "{said}");
    host::succeeds(&mut system.command(&["release", "disk.img"]));
    same(&before, &system.all(), "released");
}

/// The unit would replace the other mount, and a release would take it away.
#[test]
fn a_directory_of_another_mount_is_refused() {
    let system = System::new("taken").booted();
    let mnt = system.path("mnt");
    let adopt = ["--area", "area", "--mount", mnt.to_str().unwrap()];
    let line = format!("UUID=x-none {} ext4", mnt.display());
    fs::write(system.path("root/etc/fstab"), &line).unwrap();
    let before = system.all();
    host::refused(&mut system.adopt(&adopt), &["another line", &line]);
    same(&before, &system.all(), "another line");
    need!("a mount of another file system", "root");
    fs::write(system.path("root/etc/fstab"), "# none").unwrap();
    let before = system.all();
    run_line(&format!("mount -t tmpfs none {}", mnt.display()));
    let mount = Mount::at(&mnt);
    fs::write(mnt.join("file"), b"mine").unwrap();
    host::refused(&mut system.adopt(&adopt), &["is a mount already", "unmount"]);
    assert_eq!(fs::read(mnt.join("file")).unwrap(), b"mine");
    drop(mount);
    same(&before, &system.all(), "another mount");
}

/// The next start of the machine mounts it before the servers.
#[test]
fn a_mount_over_files_of_another_adoption_is_refused() {
    let system = System::new("above");
    fs::create_dir(system.path("root/srv")).unwrap();
    sparse(system.path("root/srv/x.img"), 64);
    let area = "root/srv/x.area";
    let first = ["adopt", "root/srv/x.img", "--name", &system.name, "--area", area];
    host::succeeds(&mut system.command(&first));
    let before = system.all();
    let words = ["/x.img", "under this name", "another --name"];
    host::refused(&mut system.adopt(&["--area", "area"]), &words);
    let name = format!("{}_2", system.name);
    let second = |dir: &str| {
        let adopt = ["adopt", "disk.img", "--name", &name, "--area", "area", "--mount", dir];
        let mut command = system.command(&adopt);
        command.arg("--dry-run");
        command
    };
    host::refused(&mut second("/srv"), &["/srv", "/x.img", "needs before the mount"]);
    host::succeeds(&mut second("/srv2"));
    same(&before, &system.all(), "refused");
}

/// The next start of the machine mounts another file system over the area.
#[test]
fn an_area_that_a_mount_will_hide_is_refused() {
    let system = System::new("hidden").booted();
    let mnt = system.path("mnt").display().to_string();
    let fstab = system.path("root/etc/fstab");
    let adopt = || system.adopt(&["--area", "mnt/area", "--dry-run"]);
    fs::write(&fstab, format!("UUID=x-none {mnt} ext4")).unwrap();
    host::refused(&mut adopt(), &["mnt/area", "will be hidden", &format!("the mount at {mnt}")]);
    fs::write(&fstab, format!("UUID=x-none {mnt} ext4 noauto")).unwrap();
    host::succeeds(&mut adopt());
}

/// The mount of another adoption is not up.
#[test]
fn an_area_that_the_mount_of_an_adoption_will_hide_is_refused() {
    let system = System::new("hidden_by");
    fs::write(system.path("root/etc/fstab"), "# none").unwrap();
    sparse(system.path("x.img"), 64);
    let mnt = system.path("mnt").display().to_string();
    let first = ["adopt", "x.img", "--name", &system.name, "--area", "area", "--mount", &mnt];
    host::succeeds(&mut system.command(&first));
    let system = system.booted();
    let name = format!("{}_2", system.name);
    let adopt = |area: &str| {
        system.command(&["adopt", "disk.img", "--name", &name, "--area", area, "--dry-run"])
    };
    let words = format!("will be hidden by the mount at {mnt}");
    host::refused(&mut adopt("mnt/area"), &["mnt/area", &words]);
    host::succeeds(&mut adopt("area2"));
}

/// A start of the machine empties memory, and Debian's empties /tmp.
#[test]
fn an_area_in_tmp_or_in_memory_is_refused() {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let system = System::new("emptied");
    for (folder, words) in [
        ("/tmp", ["would be in", "a blank device"]),
        ("/dev/shm", ["in memory", "a file on a disk"]),
    ] {
        if folder == "/dev/shm" && !mounts.contains(" /dev/shm tmpfs ") {
            eprintln!("SKIPPED an area in memory: no tmpfs at /dev/shm");
            continue;
        }
        let area = format!("{folder}/{}.area", system.name);
        let mut adopt = seekless();
        adopt.args(["adopt", "disk.img", "--name", &system.name, "--area", &area, "--dry-run"]);
        host::refused(adopt.current_dir(system.dir.path()), &[&area, words[0], words[1]]);
    }
}

/// The units would start it as root.
#[test]
fn a_program_that_others_may_change_is_refused() {
    let system = System::new("program");
    let folder = system.path("open");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let program = folder.join("seekless");
    let linked = fs::hard_link(crate::PROGRAM, &program);
    linked.or_else(|_| fs::copy(crate::PROGRAM, &program).map(drop)).unwrap();
    let area = format!("/var/lib/{}.area", system.name);
    let mut adopt = Command::new(&program);
    adopt.args(["adopt", "disk.img", "--name", &system.name, "--area", &area, "--dry-run"]);
    let words = ["open/seekless", "others than root may change", "/usr/local/bin/"];
    host::refused(adopt.current_dir(system.dir.path()), &words);
}

/// Any user may open the root of the system, and lock it.
#[test]
fn a_lock_of_another_program_on_the_root_holds_up_nobody() {
    need!("a lock on the root", "root");
    let dir = tempfile::tempdir().unwrap();
    let root = File::open("/").unwrap();
    rustix::fs::flock(&root, rustix::fs::FlockOperation::LockShared).unwrap();
    let mut adopt = seekless();
    adopt.args(["adopt", "absent", "--area", "area"]).current_dir(dir.path());
    host::refused(&mut adopt, &["absent", "No such file"]);
}

/// A mount of the loop device would write beside the server.
#[test]
fn an_image_under_a_loop_device_is_refused_by_each_of_its_names() {
    need!("an image under a loop device", "root losetup blockdev ext4");
    let system = System::new("under_loop");
    let other = system.path("other.img");
    fs::hard_link(system.path("disk.img"), &other).unwrap();
    let before = system.all();
    for name in [system.path("disk.img"), other] {
        let device = Loop::attach(&name, &[]);
        let words = [device.device(), "uses it", "losetup -d"];
        host::refused(&mut system.adopt(&["--area", "area", "--dry-run"]), &words);
        host::refused(&mut system.adopt(&["--area", "area"]), &words);
        same(&before, &system.all(), "refused");
        device.detach();
    }
    host::succeeds(&mut system.adopt(&["--area", "area", "--dry-run"]));
}

pub(crate) fn missing() -> Option<String> {
    host::lacks("fuse root ext4 losetup mkfs.ext4 e2fsck umount setsid flock")
}

#[test]
fn an_adopted_disk_is_served_and_a_released_one_is_as_it_was() {
    need!("adoption", missing());
    let system = System::new("served").with_ext4().booted();
    let (mnt, before) = (system.path("mnt"), system.all());

    // The mount fails, when the server runs: everything is undone.
    let mut failing = system.adopt(&["--area", "area"]);
    let said = host::refused(failing.env("FAIL", "1"), &["on purpose"]);
    same(&before, &system.all(), &said);

    // Served, and nothing written: to the byte.
    fs::write(system.path("root/etc/fstab"), "# none").unwrap();
    let before = system.all();
    let said = host::succeeds(&mut system.adopt(&["--area", "area"]));
    assert!(said.ends_with("done    the disk is served\n"), "{said}");
    assert_eq!(host::status(&system.path("disk.img"), &[])["served"], true);
    host::succeeds(&mut system.command(&["release", &system.name]));
    same(&before, &system.all(), "released");

    // Mounted, in use, written.
    host::succeeds(&mut system.adopt(&["--area", "area", "--mount", mnt.to_str().unwrap()]));
    assert!(host::is_mounted(&mnt));
    // The ends of the disk are in the area alone when release begins.
    let image = system.path("disk.img");
    host::succeeds(seekless().args(["volume", "mode", "writeback"]).arg(&image));
    fs::write(mnt.join("file"), b"through seekless").unwrap();
    run_line(&format!("sync -f {}", mnt.display()));
    assert_eq!(host::status(&image, &[])["guarded"], true);
    let open = File::open(mnt.join("file")).unwrap();
    let user = format!("process {} ", std::process::id());
    let words = ["systemctl stop", "busy", "is mounted at", &user];
    host::refused(&mut system.command(&["release", "disk.img"]), &words);
    assert_eq!(fs::read(mnt.join("file")).unwrap(), b"through seekless", "it is still served");
    drop(open);
    let disk = system.path("disk.img");
    host::succeeds(system.command(&["release", "disk.img"]).env("PROBE", disk));
    assert!(!system.path("state/free").exists(), "a server could have the disk meanwhile");
    let mut after = system.all();
    let image = after.insert("image".into(), before[Path::new("image")].clone());
    assert_ne!(image.as_ref(), before.get(Path::new("image")));
    same(&before, &after, "released, but for what was written");
    run_line(&format!("e2fsck -fn {}", system.path("disk.img").display()));
    let device = Loop::attach(&system.path("disk.img"), &[]);
    let mount = Mount::new(device.device(), &mnt, "ro");
    assert_eq!(fs::read(mnt.join("file")).unwrap(), b"through seekless");
    mount.unmount();

    // The mount stops before the device, and the device before the server. No program has started
    // them again meanwhile.
    let calls = fs::read_to_string(system.path("state/calls")).unwrap();
    let calls: Vec<_> = calls.lines().map(|l| l.split('@').next().unwrap()).collect();
    let from = calls.iter().rposition(|l| l.ends_with("mnt.mount")).unwrap();
    let servers = ["stop seekless-loop", "stop seekless-file"];
    assert!(calls[from].starts_with("stop"), "{calls:?}");
    assert_eq!(calls[from + 1..], [&servers[..], &["daemon-reload"]].concat());
}

/// The mount fails, and somebody removes the line meanwhile.
#[test]
fn an_adoption_that_fails_says_what_is_not_undone() {
    need!("adoption", missing());
    let system = System::new("not_undone").with_ext4().booted();
    let mut failing = system.adopt(&["--area", "area"]);
    let words = ["on purpose", "Undone. Note: ", "is not in /etc/fstab"];
    host::refused(failing.env("FAIL", "fstab"), &words);
    assert!(!system.path("area").exists());
}

#[test]
fn systemd_finds_no_fault_with_the_units_of_an_adoption() {
    need!("units of an adoption", "systemd-analyze");
    let system = System::new("verified");
    host::succeeds(&mut system.adopt(&["--area", "area"]));
    let made = system.units();
    assert_eq!(made.len(), 3, "{made:?}");
    crate::units::verified(&made, &system.name);
    host::succeeds(&mut system.command(&["release", &system.name]));
}
