//! `seekless record` on loop devices: what other programs ask for, known beforehand, against what the trace
//! says; limits, losses and full disks; and that nothing stays behind in the kernel.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use seekless_block::{Extent, Flags, Op};
use seekless_trace::{Info, OpenOptions, Source};
use serde_json::Value;

use crate::host::{
    self, Loop, Mount, Running, attempt, lacks, next_line, root, run, run_line, seekless,
};
use crate::need;

const INSTANCES: &str = "/sys/kernel/tracing/instances";

/// What is missing for recording a loop device.
pub(crate) fn recording() -> Option<String> {
    let tracefs = || fs::read_dir(INSTANCES).err().map(|e| format!("{INSTANCES}: {e}"));
    let loops = || File::open("/dev/loop-control").err().map(|e| format!("loop devices: {e}"));
    root().or_else(tracefs).or_else(loops).or_else(|| lacks("dd losetup"))
}

/// Instances of one process.
fn instances(pid: u32) -> usize {
    let prefix = format!("seekless-{pid}-");
    let names = fs::read_dir(INSTANCES).unwrap().map(|e| e.unwrap().file_name());
    names.filter(|n| n.to_str().unwrap().starts_with(&prefix)).count()
}

/// A loop device over a sparse file of 64 MiB.
fn disk(dir: &Path, name: &str, options: &[&str]) -> Loop {
    let file = dir.join(name);
    File::create(&file).unwrap().set_len(64 << 20).unwrap();
    let disk = Loop::attach(&file, options);
    // Where there is a udev, it looks at new devices: that is over then.
    let _ = attempt(["udevadm", "settle"]);
    disk
}

/// A folder with such a device.
fn folder() -> (tempfile::TempDir, Loop) {
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(dir.path(), "disk.img", &[]);
    (dir, disk)
}

/// A running `seekless record` that does record. Dropping it ends it.
pub(crate) struct Recording {
    running: Running,
    dir: PathBuf,
}

impl Recording {
    /// Writes `trace.parquet` and `counts.json` into `dir`.
    pub(crate) fn start(dir: &Path, device: &str, args: &[&str]) -> Self {
        let mut command = seekless();
        command.args(["record", device, "-o", "trace.parquet", "--json", "counts.json"]).args(args);
        command.current_dir(dir);
        let recording = Self { running: Running::start(command), dir: dir.to_owned() };
        assert!(recording.says("recording "), "it never began");
        recording
    }

    /// Whether it says a line with this beginning.
    fn says(&self, beginning: &str) -> bool {
        next_line(&self.running.errors, beginning).is_some()
    }

    fn pid(&self) -> u32 {
        self.running.id()
    }

    fn signal(&self, signal: Signal) {
        self.running.signal(signal);
    }

    /// Its end, and what it said.
    fn wait(&mut self) -> (ExitStatus, String) {
        let status = self.running.wait(Duration::from_secs(20));
        let status = status.unwrap_or_else(|| panic!("it does not end"));
        (status, self.running.errors.iter().collect::<Vec<_>>().join("\n"))
    }

    /// Waits for a good end; its trace.
    fn ended(&mut self) -> Trace {
        let (status, said) = self.wait();
        assert!(status.success(), "{status}\n{said}");
        assert_eq!(instances(self.pid()), 0, "its instance stands");
        Trace::read(&self.dir, said)
    }

    pub(crate) fn stop(mut self) -> Trace {
        self.signal(Signal::INT);
        self.ended()
    }
}

/// One request, as a test expects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    op: Op,
    extent: Extent,
    sync: bool,
    pid: u32,
    command: String,
}

/// What stands in a trace.
pub(crate) struct Trace {
    pub(crate) rows: Vec<Row>,
    services: Vec<Option<u64>>,
    info: Info,
    lost: u64,
    pub(crate) counts: Value,
    said: String,
}

impl Trace {
    fn read(dir: &Path, said: String) -> Self {
        let path = dir.join("trace.parquet");
        let source = Source::new(path.to_str().unwrap());
        let mut reader = source.open(&OpenOptions::default()).unwrap();
        let (mut rows, mut services, mut last) = (Vec::new(), Vec::new(), 0);
        while let Some(record) = reader.next_record().unwrap() {
            let r = record.request;
            let who = &reader.streams()[r.stream.0 as usize];
            let sync = r.flags.contains(Flags::SYNC);
            let (pid, command) = (who.pid, who.name.clone());
            rows.push(Row { op: r.op, extent: r.extent, sync, pid, command });
            services.push(record.service.map(|s| s.0));
            assert!(r.arrival.0 >= last, "time runs backwards");
            last = r.arrival.0;
        }
        let counts = serde_json::from_slice(&fs::read(dir.join("counts.json")).unwrap()).unwrap();
        Self {
            rows,
            services,
            info: reader.info(),
            lost: reader.skipped().lost_events,
            counts,
            said,
        }
    }

    /// Rows of one process.
    fn of(&self, pid: u32) -> Vec<Row> {
        self.rows.iter().filter(|r| r.pid == pid).cloned().collect()
    }
}

/// Copies with dd past the page cache; its pid.
fn dd(args: &str) -> u32 {
    let mut command = std::process::Command::new("dd");
    command.args(host::words(args)).args(["status=none", "bs=4096"]).stdin(Stdio::null());
    let mut child = command.spawn().unwrap();
    assert!(child.wait().unwrap().success(), "dd {args}");
    child.id()
}

fn write(device: &str, page: u64, count: u64) -> u32 {
    dd(&format!("if=/dev/zero of={device} seek={page} count={count} oflag=direct"))
}

fn read(device: &str, page: u64, count: u64) -> u32 {
    dd(&format!("if={device} of=/dev/null skip={page} count={count} iflag=direct"))
}

/// What dd asks for: pages, one at a time.
fn pages(op: Op, first: u64, count: u64, pid: u32) -> Vec<Row> {
    let row = |page| Row {
        op,
        extent: Extent::new(page * 8, 8),
        sync: true,
        pid,
        command: "dd".to_owned(),
    };
    (first..first + count).map(row).collect()
}

#[test]
fn every_request_is_in_the_trace_as_it_was_asked() {
    need!("record: requests as asked", recording());
    let (dir, disk) = folder();
    for event in ["Q", "D"] {
        let recording = Recording::start(dir.path(), disk.device(), &["--force", "--event", event]);
        let writer = write(disk.device(), 5, 300);
        let reader = read(disk.device(), 100, 7);
        let own = fs::OpenOptions::new().write(true).open(disk.device()).unwrap();
        own.write_all_at(&[1; 4096], 1 << 20).unwrap();
        own.sync_all().unwrap();
        let trace = recording.stop();

        assert_eq!(trace.of(writer), pages(Op::Write, 5, 300, writer), "{event}");
        assert_eq!(trace.of(reader), pages(Op::Read, 100, 7, reader), "{event}");
        // Ours went through the page cache, and ended with a flush.
        let ours = Extent::new(2048, 8);
        assert!(trace.rows.iter().any(|r| r.op == Op::Write && r.extent == ours), "{event}");
        assert!(trace.rows.iter().any(|r| r.op == Op::Flush && r.extent.is_empty()), "{event}");
        let c = &trace.counts;
        assert_eq!(c["schema"], "seekless.record/1");
        assert_eq!((&c["event"], &c["stopped_by"]), (&event.into(), &"signal".into()));
        assert_eq!(c["requests"], trace.rows.len());
        assert_eq!(c["reads"], trace.rows.iter().filter(|r| r.op == Op::Read).count());
        assert_eq!(c["trace_bytes"], fs::metadata(dir.path().join("trace.parquet")).unwrap().len());
        assert_eq!((&c["lost_events"], trace.lost), (&0.into(), 0));
        assert!(trace.said.contains("lost 0 events"), "{}", trace.said);
        assert!(trace.info.has_processes && trace.info.has_times);
        // How long the disk took is known of what it was handed.
        assert_eq!(trace.info.has_service, event == "D");
        let known = trace.services.iter().filter(|s| s.is_some_and(|ns| ns > 0)).count();
        assert_eq!(known, if event == "D" { trace.rows.len() } else { 0 });
    }
    let path = dir.path().join("trace.parquet");
    run([env!("CARGO_BIN_EXE_seekless"), "simulate", path.to_str().unwrap(), "--disk", "exos-x20"]);
}

#[test]
fn a_partition_counts_from_its_start_and_two_recorders_do_not_meet() {
    need!("record: partitions", recording().or_else(|| lacks("addpart")));
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(dir.path(), "disk.img", &["-P"]);
    let added = attempt(["addpart", disk.device(), "2", "40960", "40960"]);
    need!("record: partitions", (!added.status.success()).then(|| format!("{added:?}")));
    let part = format!("{}p2", disk.device());
    let (whole, partial) = (dir.path().join("whole"), dir.path().join("part"));
    fs::create_dir(&whole).unwrap();
    fs::create_dir(&partial).unwrap();
    for event in ["Q", "D"] {
        let args = ["--force", "--event", event];
        let of_disk = Recording::start(&whole, disk.device(), &args);
        let of_part = Recording::start(&partial, &part, &args);
        let inside = write(&part, 3, 5);
        let outside = write(disk.device(), 3, 5);
        // By the disk's own address, into the partition's last page and past it.
        let across = write(disk.device(), 5120 + 5119, 2);
        let (of_disk, of_part) = (of_disk.stop(), of_part.stop());
        assert_eq!(of_part.of(inside), pages(Op::Write, 3, 5, inside), "{event}");
        assert_eq!(of_part.of(outside), [], "{event}");
        assert_eq!(of_part.of(across), pages(Op::Write, 5119, 1, across), "{event}");
        assert_eq!(of_disk.of(inside), pages(Op::Write, 5120 + 3, 5, inside), "{event}");
        assert_eq!(of_disk.of(outside), pages(Op::Write, 3, 5, outside), "{event}");
        assert_eq!(of_disk.of(across), pages(Op::Write, 5120 + 5119, 2, across), "{event}");
    }
    run(["delpart", disk.device(), "2"]);
}

#[test]
fn only_the_device_asked_for_is_recorded() {
    need!("record: one device", recording());
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (disk(dir.path(), "1.img", &[]), disk(dir.path(), "2.img", &[]));
    let recording = Recording::start(dir.path(), one.device(), &[]);
    let there = write(other.device(), 0, 9);
    let here = write(one.device(), 0, 9);
    let trace = recording.stop();
    assert_eq!(trace.of(there), []);
    assert_eq!(trace.of(here), pages(Op::Write, 0, 9, here));
}

#[test]
fn a_recording_that_another_program_switches_off_fails() {
    need!("switched off", recording());
    let (dir, disk) = folder();
    let mut recording = Recording::start(dir.path(), disk.device(), &[]);
    let prefix = format!("seekless-{}-", recording.pid());
    let mut paths = fs::read_dir(INSTANCES).unwrap().map(|e| e.unwrap().path());
    let own = |p: &PathBuf| p.file_name().unwrap().to_str().unwrap().starts_with(&prefix);
    fs::write(paths.find(own).unwrap().join("tracing_on"), "0").unwrap();
    let (status, said) = recording.wait();
    assert!(!status.success());
    assert!(said.contains("another program switched the recording off"), "{said}");
    assert_eq!(instances(recording.pid()), 0, "its instance stands");
    // What came before is kept.
    assert_eq!(Trace::read(dir.path(), String::new()).counts["stopped_by"], "switched_off");
}

#[test]
fn whatever_ends_it_nothing_stays_behind() {
    need!("record: ends", recording());
    let (dir, disk) = folder();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut recording = Recording::start(dir.path(), disk.device(), &["--force"]);
        assert_eq!(instances(recording.pid()), 1);
        let reader = read(disk.device(), 0, 3);
        recording.signal(signal);
        assert_eq!(recording.ended().of(reader), pages(Op::Read, 0, 3, reader), "{signal:?}");
    }
    // Killed, it cannot take its instance away; the next one does. Others' stay.
    let mut killed = Recording::start(dir.path(), disk.device(), &["--force"]);
    let pid = killed.pid();
    killed.running.kill();
    let mine = Path::new(INSTANCES).join(format!("seekless-test-{}", std::process::id()));
    fs::create_dir(&mine).unwrap();
    let alive = Recording::start(dir.path(), disk.device(), &["--force"]);
    let next = tempfile::tempdir().unwrap();
    let stood = Recording::start(next.path(), disk.device(), &["--duration", "1ms"]).ended();
    let (gone, kept) = (instances(pid), mine.is_dir());
    fs::remove_dir(&mine).unwrap();
    assert_eq!((gone, kept), (0, true));
    assert_eq!(stood.counts["stopped_by"], "duration");
    assert_eq!(instances(alive.pid()), 1, "it took away one that was in use");
    let reader = read(disk.device(), 0, 3);
    assert_eq!(alive.stop().of(reader), pages(Op::Read, 0, 3, reader));
}

#[test]
fn what_is_lost_is_counted_to_the_last_event() {
    need!("record: losses", recording());
    let (dir, disk) = folder();
    let recording = Recording::start(dir.path(), disk.device(), &["--buffer", "4KiB"]);
    // While it cannot look, its two pages a CPU fill.
    recording.signal(Signal::STOP);
    let reader = read(disk.device(), 0, 3000);
    recording.signal(Signal::CONT);
    let trace = recording.stop();
    let seen = trace.of(reader);
    assert!(seen.len() < 3000 && !seen.is_empty(), "{} of 3000", seen.len());
    let other = trace.rows.len() - seen.len();
    assert_eq!(other, 0, "somebody else used the device");
    assert_eq!(seen.len() as u64 + trace.lost, 3000);
    assert_eq!(trace.counts["lost_events"], trace.lost);
    assert!(trace.said.contains("gaps") && trace.said.contains("--buffer"), "{}", trace.said);
}

#[test]
fn limits_are_kept() {
    need!("record: limits", recording());
    let (dir, disk) = folder();
    let start = |args: &[&str]| Recording::start(dir.path(), disk.device(), args);
    let mut few = start(&["--max-requests", "5"]);
    let reader = read(disk.device(), 9, 20);
    let trace = few.ended();
    assert_eq!(trace.of(reader), pages(Op::Read, 9, 5, reader));
    assert_eq!(trace.counts["stopped_by"], "max_requests");

    let mut small = start(&["--force", "--max-size", "64KiB"]);
    read(disk.device(), 0, 5000);
    let trace = small.ended();
    let size = fs::metadata(dir.path().join("trace.parquet")).unwrap().len();
    assert!(size <= 64 << 10 && trace.rows.len() > 500, "{size} bytes, {}", trace.rows.len());
    assert_eq!(trace.counts["stopped_by"], "max_size");
}

#[test]
fn a_full_disk_is_told_and_leaves_nothing() {
    need!("record: full disk", recording());
    let (dir, disk) = folder();
    let small = dir.path().join("small");
    fs::create_dir(&small).unwrap();
    run_line(&format!("mount -t tmpfs -o size=4096 none {}", small.display()));
    let full = Mount::at(&small);
    let mut recording = Recording::start(full.path(), disk.device(), &[]);
    read(disk.device(), 0, 5000);
    recording.signal(Signal::INT);
    let (status, said) = recording.wait();
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.contains("trace.parquet: cannot be written") && said.contains("space"), "{said}");
    assert_eq!(instances(recording.pid()), 0);
    assert_eq!(fs::read_dir(full.path()).unwrap().count(), 0, "something is left");
}

#[test]
fn its_own_writes_are_not_in_the_trace() {
    need!("record: own writes", recording().or_else(|| lacks("ext4 mkfs.ext4 fio")));
    let (dir, disk) = folder();
    run(["mkfs.ext4", "-q", disk.device()]);
    let at = dir.path().join("mnt");
    fs::create_dir(&at).unwrap();
    let mounted = Mount::new(disk.device(), &at, "noatime");
    let file = at.join("file");
    fs::write(&file, vec![7; 4 << 20]).unwrap();
    run(["sync", "-f", at.to_str().unwrap()]);

    let recording = Recording::start(&at, disk.device(), &[]);
    assert!(recording.says("trace.parquet is on the recorded disk"));
    // More than one row group: the store writes some of it out while it records.
    let mut reads = vec!["fio", "--name=r", "--rw=randread", "--direct=1", "--bs=512"];
    reads.extend(["--size=4MiB", "--ioengine=libaio", "--iodepth=16", "--loops=17"]);
    let name = format!("--filename={}", file.display());
    let told = run(reads.into_iter().chain([name.as_str(), "--output-format=json"]));
    let told: Value = serde_json::from_str(&told).unwrap();
    let asked = told["jobs"][0]["read"]["total_ios"].as_u64().unwrap() as usize;
    let own = recording.pid();
    let seen = recording.stop();
    let by_fio = seen.rows.iter().filter(|r| r.command == "fio" && r.op == Op::Read);
    assert_eq!((by_fio.count(), seen.lost), (asked, 0));
    assert!(asked > 122_880, "{asked}");
    assert_eq!(seen.of(own), []);
    mounted.unmount();
}

#[test]
fn without_tracefs_it_mounts_one_for_itself() {
    need!("record: no tracefs", recording().or_else(|| lacks("unshare umount")));
    let (dir, disk) = folder();
    let program = env!("CARGO_BIN_EXE_seekless");
    let out = dir.path().join("trace.parquet");
    let script = format!(
        "umount -l /sys/kernel/tracing; umount -l /sys/kernel/debug 2>/dev/null; ! grep -q tracefs /proc/self/mounts && \
         {program} record {} -o {} --duration 300ms",
        disk.device(),
        out.display()
    );
    let output = attempt(["unshare", "-m", "sh", "-c", &script]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("lost 0 events"), "{said}");
}

/// Read as a trace it would be copied whole to a temporary file first.
#[test]
fn a_disk_is_not_taken_for_its_trace() {
    need!("a disk is no trace", recording());
    let (dir, disk) = folder();
    for args in
        [["stat", disk.device()].as_slice(), &["simulate", disk.device(), "--disk", "wd800jb"]]
    {
        let words = [disk.device(), "seekless record"];
        host::refused(seekless().args(args).current_dir(dir.path()), &words);
    }
    // Nor for its counts, which would be written over it.
    let counts = ["record", disk.device(), "-o", "t", "--json", disk.device()];
    host::refused(seekless().args(counts).current_dir(dir.path()), &["it is a disk"]);
}

#[test]
fn a_disk_is_no_file_for_a_trace() {
    need!("a disk as the output", recording());
    let (dir, disk) = folder();
    fs::write(dir.path().join("in"), "0.0 0 8 8 1\n20.0 0 16 8 1\n").unwrap();
    std::os::unix::fs::symlink(disk.device(), dir.path().join("link")).unwrap();
    let device = File::options().read(true).write(true).open(disk.device()).unwrap();
    device.write_all_at(&[0x5A; 4096], 0).unwrap();
    for output in [disk.device(), "link"] {
        let fio = format!("fio:{output}");
        for args in [
            ["convert", "disksim:in", output].as_slice(),
            &["convert", "disksim:in", "-o", fio.as_str(), "--force"],
            &["record", disk.device(), "-o", output, "--force"],
        ] {
            host::refused(seekless().args(args).current_dir(dir.path()), &["it is a disk"]);
        }
    }
    let mut page = [0; 4096];
    device.read_exact_at(&mut page, 0).unwrap();
    assert_eq!(page, [0x5A; 4096]);
}

/// A device is recorded, then advised on, and nothing stays behind.
#[test]
fn advice_on_a_device_records_it_first() {
    need!("advice on a device", recording());
    let (dir, disk) = folder();
    // A file: a pipe that nobody reads meanwhile holds 64 KiB.
    let told = dir.path().join("advice.json");
    let mut child = seekless()
        .args(["advise", disk.device(), "--for", "3s", "--json", "-"])
        .env("TMPDIR", dir.path())
        .stdout(File::create(&told).unwrap())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let reads = "of=/dev/null bs=4k count=50 iflag=direct status=none";
    let line = format!("dd if={} {reads}", disk.device());
    while child.try_wait().unwrap().is_none() {
        attempt(host::words(&line));
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let advice: Value = serde_json::from_slice(&fs::read(&told).unwrap()).unwrap();
    fs::remove_file(told).unwrap();
    assert_eq!(advice["trace"]["path"], disk.device());
    let requests = advice["trace"]["requests"].as_u64().unwrap();
    assert!(requests >= 50 && advice["trace"]["reads"] == requests, "{}", advice["trace"]);
    assert!(said.contains("computed for wd800jb"), "{said}");
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["disk.img"]);
}

#[test]
fn who_may_not_trace_is_told() {
    need!("record: without root", recording().or_else(|| lacks("setpriv")));
    let disk = disk(tempfile::tempdir().unwrap().path(), "disk.img", &[]);
    let open = tempfile::tempdir().unwrap();
    run(["chmod", "777", open.path().to_str().unwrap()]);
    let out = open.path().join("t");
    let program = env!("CARGO_BIN_EXE_seekless");
    let user =
        ["setpriv", "--reuid=65534", "--clear-groups", program, "record", disk.device(), "-o"];
    let output = attempt(user.into_iter().chain([out.to_str().unwrap()]));
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("failed to execute") {
        eprintln!("SKIPPED record: without root: {program} is out of reach for others");
        return;
    }
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("root") && said.contains("CAP_SYS_ADMIN"), "{said}");
    assert_eq!(fs::read_dir(open.path()).unwrap().count(), 0);
}
