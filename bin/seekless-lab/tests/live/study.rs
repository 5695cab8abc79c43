//! `seekless-lab study` over loop files and real file systems. After a kill at any moment, the next
//! run detaches everything that was left, and continues.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::host::{self, Numbers, attempt, seekless};
use crate::need;

const SPEC: &str = r#"
name = "small"
seed = 3
least_runs = 2
most_runs = 2
warm_up = 0
seconds = 0.2
power = "cpu-model"
check = true
[[device]]
name = "file"
kind = "loop"
size = "64MiB"
[[workload]]
personality = "varmail"
scale = 0.002
threads = 0.05
[[system]]
filesystem = "ext4"
format = ["blk1k"]
mount = ["noatime"]
"#;

/// Why this host cannot run devices with a server of this project. The lab runs the `seekless`
/// beside itself.
fn no_server() -> Option<String> {
    let program = Path::new(crate::PROGRAM).with_file_name("seekless");
    let built = program.is_file();
    host::fuse().or_else(|| (!built).then(|| format!("{} is not built", program.display())))
}

fn missing() -> Option<String> {
    let programs = ["losetup", "mount", "mkfs.ext4", "e2fsck", "timeout"];
    host::root().or_else(|| host::programs(&programs)).or_else(|| host::loop_mounts("ext4"))
}

/// Nothing is left: no mount below the folder, no loop device on its files, no server, no image.
fn assert_clean(dir: &Path) {
    let place = dir.canonicalize().unwrap();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&format!("{}/", place.display())), "{mounts}");
    for entry in std::fs::read_dir("/sys/block").unwrap().flatten() {
        let file =
            std::fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        assert!(
            !Path::new(file.trim()).starts_with(&place),
            "{:?} is attached to {file}",
            entry.file_name()
        );
    }
    for name in ["disk.img", "attached", "volume"] {
        assert!(!place.join(name).exists(), "{name} is left");
    }
}

fn start(spec: &Path, out: &Path) -> Child {
    let mut command = seekless();
    command.args(["study", "run"]).arg(spec).arg("-o").arg(out).args(["--json", "-"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn finish(spec: &Path, out: &Path) -> Value {
    let output = start(spec, out).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn lines(out: &Path) -> usize {
    std::fs::read_to_string(out.join("runs.jsonl")).unwrap_or_default().lines().count()
}

#[test]
fn a_killed_study_is_cleaned_up_and_continues() {
    need!("study", missing());
    let dir = tempfile::tempdir().unwrap();
    let (spec, out) = (dir.path().join("spec.toml"), dir.path().join("out"));
    std::fs::write(&spec, SPEC).unwrap();
    let seed = u64::from(std::process::id());
    eprintln!("seed {seed}");
    let mut numbers = Numbers::new(seed);
    let mut left = 0;
    for kill in 0..8 {
        let mut child = start(&spec, &out);
        let wait = Duration::from_millis(20 + numbers.below(700));
        let end = Instant::now() + wait;
        while Instant::now() < end && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = kill_process(Pid::from_child(&child), Signal::KILL);
        child.wait().unwrap();
        left += usize::from(out.join("attached").exists());
        let before = lines(&out);
        let output =
            attempt([crate::PROGRAM.as_ref(), "study".as_ref(), "clean".as_ref(), out.as_os_str()]);
        assert!(
            output.status.success() || !out.exists(),
            "kill {kill}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        if out.exists() {
            assert_clean(&out);
        }
        assert_eq!(before, lines(&out), "finished runs are kept");
    }
    assert!(left > 0, "no kill came while a device was attached");
    let told = finish(&spec, &out);
    assert_clean(&out);
    let measured = told["measured"].as_array().unwrap();
    assert_eq!(measured.len(), 3, "{told:#}");
    assert!(measured.iter().all(|m| m["ops_per_s"]["values"].as_array().unwrap().len() == 2));
    assert!(told["failed"].as_array().unwrap().is_empty(), "{told:#}");
    // The study is complete: no more runs.
    let runs = lines(&out);
    finish(&spec, &out);
    assert_eq!(lines(&out), runs);
    let records = std::fs::read_to_string(out.join("runs.jsonl")).unwrap();
    let record: Value = serde_json::from_str(records.lines().next().unwrap()).unwrap();
    assert_eq!(record["driver"], "ext4");
    assert_eq!(record["energy"][0]["basis"], "modelled");
    // Runs of another specification are refused.
    std::fs::write(&spec, SPEC.replace("seconds = 0.2", "seconds = 0.3")).unwrap();
    let output = start(&spec, &out).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("another specification"));
}

#[test]
fn a_killed_study_on_an_emulated_disk_is_cleaned_up() {
    need!("study", missing().or_else(no_server));
    let dir = tempfile::tempdir().unwrap();
    let (spec, out) = (dir.path().join("spec.toml"), dir.path().join("out"));
    let device = "kind = \"emulated\"\ndisk = \"wd800jb\"\nspeed = 20";
    let text = SPEC.replace("kind = \"loop\"", device).replace("seconds = 0.2", "seconds = 60");
    std::fs::write(&spec, text).unwrap();
    for kill in 0..3 {
        let mut child = start(&spec, &out);
        let begun = Instant::now();
        // The server's file system is mounted and in use.
        let noted = || std::fs::read_to_string(out.join("attached")).unwrap_or_default();
        let stands = || noted().split_once("server\t").is_some_and(|(_, r)| r.contains("mount\t"));
        while !stands() {
            assert!(begun.elapsed().as_secs() < 60, "it never mounted");
            assert!(child.try_wait().unwrap().is_none(), "it ended");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(300 * kill));
        let _ = kill_process(Pid::from_child(&child), Signal::KILL);
        child.wait().unwrap();
        host::succeeds(seekless().args(["study", "clean"]).arg(&out).stdin(Stdio::null()));
        assert_clean(&out);
    }
}

#[test]
fn a_signal_ends_a_study_after_it_cleaned_up() {
    need!("study", missing());
    let dir = tempfile::tempdir().unwrap();
    let (spec, out) = (dir.path().join("spec.toml"), dir.path().join("out"));
    std::fs::write(&spec, SPEC.replace("seconds = 0.2", "seconds = 60")).unwrap();
    for signal in [Signal::INT, Signal::TERM] {
        let child = start(&spec, &out);
        let begun = Instant::now();
        let noted = || std::fs::read_to_string(out.join("attached")).unwrap_or_default();
        while !noted().contains("mount\t") {
            assert!(begun.elapsed().as_secs() < 60, "it never mounted");
            std::thread::sleep(Duration::from_millis(10));
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("run the same command again"), "{said}");
        assert_clean(&out);
        assert_eq!(lines(&out), 0);
    }
}

#[test]
fn emulated_disks_and_volumes_are_devices_of_a_study() {
    need!("study", missing().or_else(no_server));
    let dir = tempfile::tempdir().unwrap();
    let (spec, out) = (dir.path().join("spec.toml"), dir.path().join("out"));
    let devices = r#"
[[device]]
name = "old-disk"
kind = "emulated"
disk = "wd800jb"
scheduler = "sptf"
speed = 20
size = "64MiB"
[[device]]
name = "ours"
kind = "served"
size = "64MiB"
arguments = ["--size", "64MiB", "--optimized", "8MiB"]
[[workload]]"#;
    let text =
        SPEC.replacen("[[workload]]", devices, 1).replace("least_runs = 2", "least_runs = 1");
    let text = text
        .replace("most_runs = 2", "most_runs = 1")
        .replace("check = true", "memory = \"128MiB\"")
        .replace("mount = [\"noatime\"]", "");
    std::fs::write(
        &spec,
        text.replace("format = [\"blk1k\"]", "").replace("seconds = 0.2", "seconds = 1.5")
            + "[[system]]\nfilesystem = \"eefs\"\n",
    )
    .unwrap();
    let told = finish(&spec, &out);
    assert_clean(&out);
    assert_eq!(told["measured"].as_array().unwrap().len(), 6, "{told:#}");
    let records = std::fs::read_to_string(out.join("runs.jsonl")).unwrap();
    assert_eq!(records.matches("\"eefs over ext4\"").count(), 3, "{records}");
    let mut emulated = records.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
    let emulated = emulated.rfind(|r| r["cell"].as_str().unwrap().starts_with("old-disk")).unwrap();
    let disk = &emulated["energy"][1];
    assert_eq!(
        (&disk["name"], &disk["basis"]),
        (&"disk:wd800jb".into(), &"modelled".into()),
        "{emulated:#}"
    );
    // At twenty times its speed, too, this is the power of the disk: idling is counted.
    let idle_w = seekless_disk::catalogue::get("wd800jb").unwrap().power.idle_w;
    assert!(disk["joules"].as_f64().unwrap() > 0.0);
    assert!(disk["watts"].as_f64().unwrap() >= 0.98 * idle_w, "{disk}");
}

#[test]
fn a_device_without_confirmation_is_never_erased() {
    need!("study", host::root());
    let dir = tempfile::tempdir().unwrap();
    let (spec, out) = (dir.path().join("spec.toml"), dir.path().join("out"));
    let of = |path: &str| {
        SPEC.replace(
            "kind = \"loop\"\nsize = \"64MiB\"",
            &format!("kind = \"block\"\npath = \"{path}\""),
        )
    };
    let run = |text: String, more: &[&str]| {
        std::fs::write(&spec, text).unwrap();
        let output = seekless()
            .args(["study", "run"])
            .arg(&spec)
            .arg("-o")
            .arg(&out)
            .args(more)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = run(of("/dev/nosuch"), &[]);
    assert!(code == Some(2) && said.contains("--confirm-erase /dev/nosuch"), "{said}");
    let (code, said) = run(
        of("/dev/nosuch"),
        &["--confirm-erase", "/dev/nosuch", "--confirm-erase", "/dev/other"],
    );
    assert!(code == Some(2) && said.contains("names no such device"), "{said}");
    // A file is no block device: its runs fail, and the file stays unchanged.
    let file = dir.path().join("precious");
    std::fs::write(&file, "precious").unwrap();
    let path = file.display().to_string();
    let (_, said) = run(of(&path), &["--confirm-erase", &path]);
    assert!(said.contains("is not a block device"), "{said}");
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    let (code, said) = run(SPEC.replace("\"varmail\"", "\"warmail\""), &[]);
    assert!(code == Some(2) && said.contains("there are: webserver"), "{said}");
    let (code, said) = run(SPEC.replace("kind = \"loop\"", "kind = \"loops\""), &[]);
    assert!(
        code == Some(2) && said.contains("spec.toml:12:8") && said.contains("`loop`"),
        "{said}"
    );
}
