//! The units of packaging/systemd, as systemd itself reads them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};

use crate::host::attempt;
use crate::need;

/// The script of the unit of a ublk device.
const SCRIPT: &str = "/usr/local/libexec/seekless/ublk-mounts";
/// Stands in place of systemctl, findmnt and sleep: writes its words to a file, and says what another
/// holds. A stop of mounts fails as often as the file `busy` has lines.
const STAND_IN: &str = "#!/bin/sh
echo \"$*\" >>\"$HERE/called\"
printf '%s\\n' \"$@\" >>\"$HERE/words\"
case $0:$1:$3:$5 in
*/systemctl:stop:*) if [ -s \"$HERE/busy\" ]; then sed -i 1d \"$HERE/busy\"; else : >\"$HERE/mounted\"; fi ;;
*/findmnt:*) echo \"$LC_ALL\" >>\"$HERE/locale\"; sed 's:^/:ext4     /:' \"$HERE/mounted\" ;;
*:list-jobs::*) cat \"$HERE/jobs\" ;;
*:show:RequiredBy:*) cat \"$HERE/above\" ;;
*:show:Job:*) while read -r job unit rest; do [ \"$unit\" != \"$5\" ] || echo \"$job\"; done <\"$HERE/jobs\" ;;
*:show:ActiveState:stopped.service | *:queued.service) echo inactive ;;
*:show:ActiveState:restarts.service) echo deactivating ;;
*:show:ActiveState:begins.service) echo activating ;;
*:show:ActiveState:*) echo active ;;
esac
";
/// The unit that a restart stops: its disk is `a-b`.
const UNIT: &str = "seekless-ublk@a\\x2db.service";
/// The jobs of these units. The number of one is the end of another's.
const JOBS: &str = " 8 restarts.service restart running
 9 queued.service start waiting
19 ends.service stop waiting
";

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd")
}

/// A folder in place of /run/seekless/NAME, with the commands of the unit of a ublk device.
struct Ublk(tempfile::TempDir);

impl Ublk {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for program in ["systemctl", "findmnt", "sleep"] {
            let path = dir.path().join(program);
            fs::write(&path, STAND_IN).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(dir.path().join("above"), "local-fs.target\n").unwrap();
        Self(dir)
    }

    /// Runs the script as the unit does for this key.
    fn run(&self, key: &str) {
        let unit = fs::read_to_string(packaging().join("seekless-ublk@.service")).unwrap();
        let start = format!("{key}=-{SCRIPT} ");
        let words = unit.lines().find_map(|l| l.strip_prefix(&start)).unwrap();
        let here = self.0.path().to_str().unwrap();
        // As systemd does.
        let words = words.replace("/run/seekless/%i", here).replace("${UBLK}", "3");
        let words = words.replace("%n", UNIT);
        let words: Vec<&str> = words.split(' ').collect();
        assert!(self.script(&words).success(), "{key}: {words:?}");
    }

    /// Runs the script with these words.
    fn script(&self, words: &[&str]) -> ExitStatus {
        let here = self.0.path().to_str().unwrap();
        let path = format!("{here}:{}", std::env::var("PATH").unwrap());
        let mut script = Command::new(packaging().join("ublk-mounts"));
        script.args(words).env("PATH", &path).env("HERE", here).env("LC_ALL", "C.UTF-8");
        script.status().unwrap()
    }

    /// The calls of a stop with this job, and of the next start.
    fn calls(&self, job: &str, mounted: &str) -> Vec<String> {
        let jobs = format!("{JOBS} 7 {UNIT} {job} running\n");
        for (name, text) in [("jobs", jobs.as_str()), ("mounted", mounted), ("called", "")] {
            fs::write(self.0.path().join(name), text).unwrap();
        }
        self.run("ExecStop");
        self.run("ExecStartPost");
        let called = fs::read(self.0.path().join("called")).unwrap();
        let called = String::from_utf8_lossy(&called);
        called.lines().map(ToOwned::to_owned).collect()
    }
}

/// The calls with these first words.
fn of<'a>(calls: &'a [String], words: &str) -> Vec<&'a str> {
    calls.iter().map(String::as_str).filter(|l| l.starts_with(words)).collect()
}

/// Programs would write to the empty directory below.
#[test]
fn a_restart_of_a_ublk_unit_mounts_again_and_a_stop_does_not() {
    let ublk = Ublk::new();
    let mounted = "/srv/data\n/srv/more\n";
    let start = "start --no-block /srv/data /srv/more";
    let called = ublk.calls("restart", mounted);
    assert_eq!(of(&called, "stop "), ["stop /srv/data /srv/more"]);
    assert_eq!(of(&called, "start "), [start]);
    // Units that need a mount stop with it.
    let above = "local-fs.target data.service\n\nstopped.service my\\x2djob.service\n\
        restarts.service queued.service ends.service begins.service\n";
    fs::write(ublk.0.path().join("above"), above).unwrap();
    // A restart of both at once: that of the unit above is cancelled when its mount stops.
    let going = "restarts.service queued.service begins.service";
    let more = format!("{start} data.service my\\x2djob.service {going}");
    let called = ublk.calls("restart", mounted);
    assert_eq!(of(&called, "start "), [more.as_str()]);
    let required = "show -p RequiredBy --value /srv/data /srv/more";
    assert_eq!(of(&called, "show -p RequiredBy"), [required]);
    assert_eq!(of(&ublk.calls("restart", ""), "start "), [""; 0]);
    assert_eq!(of(&ublk.calls("stop", mounted), "start "), [""; 0]);
    let looks = ublk.calls("restart", mounted);
    assert_eq!(of(&looks, "-nlo "), ["-nlo FSTYPE,TARGET /dev/ublkb3"; 3]);
    // A restart that did not come to its start is forgotten by the next stop.
    fs::write(ublk.0.path().join("mounted"), mounted).unwrap();
    ublk.run("ExecStop");
    assert!(ublk.0.path().join("mounts").exists());
    assert_eq!(of(&ublk.calls("stop", mounted), "start "), [""; 0]);
    assert!(!ublk.0.path().join("mounts").exists());
    // Any user may name a FUSE mount as this device.
    let rows = format!("{mounted}fuse.x   /home/a\nfuse     /home/b\nfuseblk  /srv/ntfs\n");
    let stops = "stop /srv/data /srv/more /srv/ntfs";
    assert_eq!(of(&ublk.calls("stop", &rows), "stop "), [stops]);
}

/// Without an order between both, a service may end a moment after the first stop of its mount.
#[test]
fn a_mount_in_use_for_a_moment_is_stopped_by_the_unit_of_its_ublk_device() {
    let ublk = Ublk::new();
    let busy = ublk.0.path().join("busy");
    for (lines, stops) in [(0, 1), (2, 3), (15, 16), (40, 16)] {
        fs::write(&busy, "busy\n".repeat(lines)).unwrap();
        let called = ublk.calls("stop", "/srv/data\n");
        assert_eq!(of(&called, "stop "), vec!["stop /srv/data"; stops]);
    }
}

/// As above, of a loop device and an NBD device, whose mounts stop before their units.
#[test]
fn a_mount_in_use_for_a_moment_is_unmounted_by_the_unit_of_its_device() {
    let umount = "echo \"umount $*\" >>\"$HERE/called\"
[ ! -s \"$HERE/busy\" ] || { sed -i 1d \"$HERE/busy\"; exit 1; }
: >\"$HERE/mounted\"";
    let said = "echo \"${0##*/} $*\" >>\"$HERE/called\"";
    let dir = stand_ins(&[
        ("findmnt", "cat \"$HERE/mounted\""),
        ("umount", umount),
        ("losetup", said),
        ("nbd-client", said),
        ("sleep", ":"),
        ("lsblk", ":"),
    ]);
    let here = dir.path().to_str().unwrap();
    let device = "/dev/x7";
    for (unit, end) in [("loop", "losetup -d /dev/x7"), ("nbd", "nbd-client -d /dev/x7")] {
        for (mounted, busy, tries) in [
            ("", 0, 0),
            ("ext4\n", 0, 1),
            ("ext4\n", 3, 4),
            ("fuseblk\n", 40, 15),
            // A user's own.
            ("fuse.x\n", 0, 0),
            ("fuse\n", 0, 0),
        ] {
            let lines = "x\n".repeat(busy);
            for (name, text) in [("mounted", mounted), ("called", ""), ("busy", lines.as_str())] {
                fs::write(dir.path().join(name), text).unwrap();
            }
            let _ = std::os::unix::fs::symlink(device, dir.path().join("device"));
            let changes = [("/run/seekless/%i", here), ("/usr/sbin", here)];
            let env = [("NBD", device)];
            let unit = format!("seekless-{unit}@.service");
            let output = shell(&unit, "ExecStop", &changes, dir.path(), &env);
            assert!(output.status.success(), "{unit}: {output:?}");
            let called = fs::read_to_string(dir.path().join("called")).unwrap();
            let mut expected = vec!["umount -A /dev/x7"; tries];
            expected.push(end);
            assert_eq!(called.lines().collect::<Vec<_>>(), expected, "{unit}: {mounted:?} {busy}");
        }
    }
}

/// A client chooses the label of a file system, and udisks mounts it at a directory of that name.
#[test]
fn a_ublk_unit_stops_and_starts_mounts_with_any_name() {
    let ublk = Ublk::new();
    // As findmnt writes them in the locale C, and as they are.
    let names: [(&str, &[u8]); 12] = [
        ("it's", b"it's"),
        ("a  b", b"a  b"),
        ("\"", b"\""),
        ("c\\d", b"c\\d"),
        ("*", b"*"),
        ("-q", b"-q"),
        ("100%s", b"100%s"),
        (r"\xc3\x84", "\u{c4}".as_bytes()),
        (r"a\xe4 \x09b", b"a\xe4 \tb"),
        (r"\x5cx41", br"\x41"),
        (r"\x5cx0a", br"\x0a"),
        (r"c\\x5cx", br"c\\x"),
    ];
    let mut written = "/media/line\\x0aend\n".to_owned();
    let mut mounted = Vec::new();
    for (as_written, name) in names {
        written.push_str(&format!("/media/{as_written}\n"));
        mounted.extend([&b"/media/"[..], name, b"\n"].concat());
    }
    ublk.calls("restart", &written);
    let words = fs::read(ublk.0.path().join("words")).unwrap();
    for call in ["stop\n", "RequiredBy\n--value\n", "start\n--no-block\n"] {
        let all = [call.as_bytes(), mounted.as_slice()].concat();
        let said = String::from_utf8_lossy(&words);
        assert!(words.windows(all.len()).any(|part| part == all), "{call}: {said}");
    }
    let locale = fs::read_to_string(ublk.0.path().join("locale")).unwrap();
    assert_eq!(locale, "C\n".repeat(3));
}

/// Without a device, findmnt would name other mounts.
#[test]
fn a_call_with_words_missing_stops_nothing() {
    let ublk = Ublk::new();
    fs::write(ublk.0.path().join("mounted"), "/\n").unwrap();
    let here = ublk.0.path().to_str().unwrap();
    for words in [&["stop", "unit", here][..], &["stop", "unit", here, "device", "more"]] {
        assert_eq!(ublk.script(words).code(), Some(2), "{words:?}");
    }
    assert!(!ublk.0.path().join("called").exists());
}

/// Runs a line of a unit in the shell, as systemd does, with these changes. Programs of `here` come first.
fn shell(
    unit: &str,
    key: &str,
    changes: &[(&str, &str)],
    here: &Path,
    env: &[(&str, &str)],
) -> Output {
    let text = fs::read_to_string(packaging().join(unit)).unwrap();
    let start = format!("{key}=");
    let line = text.lines().find_map(|l| l.strip_prefix(&start)).unwrap();
    let line = line.trim_start_matches('-').strip_prefix("/bin/sh ").unwrap();
    let (options, script) = line.split_once(" '").unwrap();
    let here = here.to_str().unwrap();
    let script = script.strip_suffix('\'').unwrap().to_owned();
    let script = changes.iter().fold(script, |script, (from, to)| script.replace(from, to));
    let path = format!("{here}:{}", std::env::var("PATH").unwrap());
    let mut shell = Command::new("/bin/sh");
    shell.args([options, &script]).env("PATH", path).env("HERE", here).envs(env.iter().copied());
    shell.output().unwrap()
}

/// A folder with these programs of the shell.
fn stand_ins(programs: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in programs {
        let path = dir.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    dir
}

/// systemd-oomd looks at no other setting.
#[test]
fn what_the_kernel_spares_without_memory_systemd_spares_too() {
    let mut servers = 0;
    for entry in fs::read_dir(packaging()).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        if text.lines().any(|l| l.starts_with("OOMScoreAdjust=-")) {
            assert!(text.lines().any(|l| l == "ManagedOOMPreference=omit"), "{text}");
            servers += 1;
        }
    }
    assert_eq!(servers, 3);
}

/// Else a start that finds an earlier server in use is the last one.
#[test]
fn a_server_that_is_started_again_and_never_killed_is_not_waited_for_at_a_failed_start() {
    let mut servers = 0;
    for entry in fs::read_dir(packaging()).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let has = |line: &str| text.lines().any(|l| l == line);
        if has("Restart=on-failure") && has("SendSIGKILL=no") {
            assert!(has("KillMode=process") && has("StartLimitIntervalSec=0"), "{text}");
            servers += 1;
        }
    }
    assert_eq!(servers, 2);
}

/// The units whose servers wait for the lock of their disk.
const WAITING: [&str; 2] = ["seekless-ublk@.service", "seekless@.service"];

/// Runs the line that waits for the disk, as [`shell`], for one second or one `sleep` at most.
fn waits(unit: &str, here: &Path, backing: &str) -> Option<i32> {
    let env = [("BACKING", backing)];
    shell(unit, "ExecStartPre", &[("60", "1")], here, &env).status.code()
}

/// systemd tries a mount after the first start of its server alone.
#[test]
fn a_start_waits_for_a_disk_that_comes_late() {
    for unit in ["seekless-ublk@.service", "seekless@.service", "seekless-file@.service"] {
        // The disk comes while the unit sleeps.
        let dir =
            stand_ins(&[("sleep", ": >\"$HERE/disk\"; echo >>\"$HERE/slept\""), ("flock", ":")]);
        let slept = || fs::read(dir.path().join("slept")).map_or(0, |text| text.len());
        let disk = dir.path().join("disk");
        let backing = disk.to_str().unwrap();
        for when in ["it is absent", "it is there"] {
            assert_eq!(waits(unit, dir.path(), backing), Some(0), "{unit}: {when}");
            assert_eq!(slept(), 1, "{unit}: {when}");
        }
        waits(unit, dir.path(), "/none/of/these");
        assert_eq!(slept(), 2, "{unit}: not for ever");
        assert_eq!(waits(unit, dir.path(), "nbd://storage/x"), Some(0), "{unit}");
        assert_eq!(slept(), 2, "{unit}: an address is no file");
    }
}

/// An earlier server may be in use. Two servers that only read share a disk.
#[test]
fn a_start_waits_for_the_lock_of_an_earlier_server() {
    need!("the lock of a disk", "flock");
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    let backing = disk.to_str().unwrap();
    for unit in WAITING {
        let file = fs::File::create(&disk).unwrap();
        for (lock, code) in [
            (rustix::fs::FlockOperation::LockExclusive, 1),
            (rustix::fs::FlockOperation::LockShared, 0),
            (rustix::fs::FlockOperation::Unlock, 0),
        ] {
            rustix::fs::flock(&file, lock).unwrap();
            assert_eq!(waits(unit, dir.path(), backing), Some(code), "{unit}: {lock:?}");
        }
        assert_eq!(waits(unit, dir.path(), "nbd://storage/x"), Some(0), "{unit}");
    }
}

/// The server would be in use for ever.
#[test]
fn a_loop_device_whose_direct_io_fails_is_detached() {
    let losetup = "echo \"$*\" >>\"$HERE/called\"; [ \"$1\" = -d ] || { cat \"$HERE/prints\"; exit $(cat \"$HERE/code\"); }";
    let dir = stand_ins(&[("losetup", losetup)]);
    let path = |name: &str| dir.path().join(name);
    let attach = format!("-f --show --direct-io=on {}", path("disk").display());
    for (prints, code, calls) in [
        ("/dev/x7\n", 0, &[attach.as_str()][..]),
        ("/dev/x7\n", 1, &[attach.as_str(), "-d /dev/x7"]),
        ("", 1, &[attach.as_str()]),
    ] {
        let status = code.to_string();
        for (name, text) in [("prints", prints), ("code", status.as_str()), ("called", "")] {
            fs::write(path(name), text).unwrap();
        }
        let _ = fs::remove_file(path("device"));
        let changes = [("/run/seekless/%i", dir.path().to_str().unwrap())];
        let output = shell("seekless-loop@.service", "ExecStart", &changes, dir.path(), &[]);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let called = fs::read_to_string(path("called")).unwrap();
        assert_eq!(called.lines().collect::<Vec<_>>(), calls);
        assert_eq!(fs::read_link(path("device")).is_ok(), code == 0);
    }
}

/// The kernel would lose what the file system has not written.
#[test]
fn an_nbd_device_in_use_is_not_cut_off_by_its_unit() {
    let lsblk = "[ \"$*\" = \"-nro TYPE,MOUNTPOINT /dev/nbd7\" ] && cat \"$HERE/tree\"";
    let dir = stand_ins(&[("lsblk", lsblk), ("nbd-client", "echo \"$*\" >\"$HERE/called\"")]);
    let called = dir.path().join("called");
    for (tree, cut) in [
        // A device that is not connected.
        ("", true),
        ("disk \n", true),
        ("disk\npart\n", true),
        ("disk /srv\n", false),
        ("disk [SWAP]\n", false),
        ("disk \npart \npart /a\n", false),
        ("disk \ncrypt \n", false),
        ("disk \npart \nlvm /srv\n", false),
    ] {
        fs::write(dir.path().join("tree"), tree).unwrap();
        let env = [("NBD", "/dev/nbd7")];
        let here = [("/usr/sbin", dir.path().to_str().unwrap())];
        let output = shell("seekless-nbd@.service", "ExecStop", &here, dir.path(), &env);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(i32::from(!cut)), "{tree:?}: {said}");
        assert_eq!(said.contains("/dev/nbd7 is in use"), !cut, "{tree:?}: {said}");
        let words = fs::read_to_string(&called).unwrap_or_default();
        assert_eq!(words, if cut { "-d /dev/nbd7\n" } else { "" }, "{tree:?}");
        let _ = fs::remove_file(&called);
    }
}

/// Runs a script of the package in a machine that runs systemd, in place of which a program prints
/// `units`. Returns its exit status, its words, and the calls of systemd.
fn package_script(name: &str, verb: &str, units: &str) -> (Option<i32>, String, String) {
    let systemctl =
        "echo \"$*\" >>\"$HERE/called\"; [ \"$1\" != list-units ] || cat \"$HERE/units\"";
    let dir = stand_ins(&[("systemctl", systemctl)]);
    let here = dir.path().to_str().unwrap();
    fs::write(dir.path().join("units"), units).unwrap();
    let text = fs::read_to_string(packaging().join("../debian/scripts").join(name)).unwrap();
    let text = text.replace("/run/systemd/system", here).replace("/etc/seekless", here);
    let path = format!("{here}:{}", std::env::var("PATH").unwrap());
    let mut script = Command::new("/bin/sh");
    script.args(["-c", &text, name, verb]).env("PATH", path).env("HERE", here);
    let output = script.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let called = fs::read_to_string(dir.path().join("called")).unwrap_or_default();
    (output.status.code(), said, called)
}

/// A server that dies later could not be started again.
#[test]
fn the_package_stays_while_its_units_serve() {
    let unit = "seekless-ublk@a\\x2db.service";
    let row = format!("{unit} loaded active running seekless: a-b as a block device\n");
    let (code, said, called) = package_script("prerm", "remove", &row);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("systemctl disable --now '{unit}'")), "{said}");
    assert!(called.contains(" seekless*@*\n"), "{called}");
    assert_eq!(package_script("prerm", "remove", "").0, Some(0));
    assert_eq!(package_script("prerm", "upgrade", &row), (Some(0), String::new(), String::new()));
}

#[test]
fn systemd_reads_the_units_again_after_each_change_of_the_package() {
    let read = "--system daemon-reload\n";
    for (script, verb, calls) in [
        ("postinst", "configure", read),
        ("postinst", "abort-remove", ""),
        ("postrm", "remove", read),
        ("postrm", "purge", ""),
        ("postrm", "upgrade", ""),
    ] {
        let (code, said, called) = package_script(script, verb, "");
        assert_eq!((code, called.as_str()), (Some(0), calls), "{script} {verb}: {said}");
    }
}

/// Without a priority of its own, the kernel takes that of the niceness for reads too.
#[test]
fn reads_ahead_do_not_come_before_the_reads_of_programs() {
    let text = fs::read_to_string(packaging().join("seekless-watch.service")).unwrap();
    let value = |key: &str| text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('='));
    assert_eq!(value("Nice"), Some("-10"), "else this test has no subject");
    // What Linux gives to programs of usual niceness.
    assert_eq!(value("IOSchedulingClass"), Some("best-effort"));
    assert_eq!(value("IOSchedulingPriority"), Some("4"));
}

#[test]
fn systemd_finds_no_fault_with_the_units() {
    need!("systemd units", "systemd-analyze");
    let dir = tempfile::tempdir().unwrap();
    let mut units = Vec::new();
    for entry in fs::read_dir(packaging()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "service") {
            // The programs need not be installed here.
            let text = fs::read_to_string(&path).unwrap();
            let text = text.replace("/usr/local/bin/seekless", "/bin/true");
            let text = text.replace("/usr/sbin/nbd-client", "/bin/true");
            let text = text.replace(SCRIPT, "/bin/true");
            let unit = dir.path().join(path.file_name().unwrap());
            fs::write(&unit, text).unwrap();
            units.push(unit);
        }
    }
    assert_eq!(units.len(), 6, "{units:?}");
    verified(&units, "seekless");
}

/// systemd finds no fault with these units whose line has this word.
pub(crate) fn verified(units: &[PathBuf], word: &str) {
    let verify = ["systemd-analyze".as_ref(), "verify".as_ref(), "--man=no".as_ref()];
    let output = attempt(verify.into_iter().chain(units.iter().map(|u| u.as_os_str())));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // Without a running systemd it says so, and still reads them.
    let faults: Vec<&str> = said.lines().filter(|l| l.contains(word)).collect();
    assert!(output.status.success() && faults.is_empty(), "{said}");
}
