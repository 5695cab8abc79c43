//! A server and a writer on its mount share little memory. Each page that the writer makes dirty can
//! only be freed by the server, so the server must not wait for memory itself.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::host::{self, Loop, Mount, Server, rounds, run};
use crate::need;

const CGROUPS: &str = "/sys/fs/cgroup/memory";
const MIB: u64 = 1 << 20;
/// A plain loop device takes a second or two for all. On a busy host the server is slow too, but
/// never stands still for so long.
const STILL: Duration = Duration::from_secs(40);

/// A memory cgroup (version 1); removed when it is empty.
pub(crate) struct Group(pub(crate) PathBuf);

impl Group {
    pub(crate) fn new(name: &str, limit: u64) -> Self {
        let group =
            Self(Path::new(CGROUPS).join(format!("seekless-{}-{name}", std::process::id())));
        fs::create_dir(&group.0).unwrap();
        fs::write(group.0.join("memory.limit_in_bytes"), limit.to_string()).unwrap();
        group
    }

    /// Runs a program inside.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        let procs = self.0.join("cgroup.procs");
        command.args(["-c", &format!("echo $$ > {} && exec \"$0\" \"$@\"", procs.display())]);
        command.arg(program);
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let end = Instant::now() + Duration::from_secs(10);
        while fs::remove_dir(&self.0).is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Ends the connection of a FUSE mount: the only way to free a server that waits for itself.
fn abort(device: u64) {
    let connections = Path::new("/sys/fs/fuse/connections");
    if !connections.join("1").exists() && fs::read_dir(connections).unwrap().next().is_none() {
        let _ = host::attempt(["mount", "-t", "fusectl", "none", "/sys/fs/fuse/connections"]);
    }
    let _ = fs::write(connections.join(rustix::fs::minor(device).to_string()).join("abort"), "1");
}

pub(crate) fn no_group() -> Option<String> {
    (!Path::new(CGROUPS).join("memory.limit_in_bytes").exists()).then(|| format!("no {CGROUPS}"))
}

fn missing() -> Option<String> {
    host::lacks("root fuse ext4 mkfs.ext4 losetup dd sh timeout").or_else(no_group)
}

/// Where the threads of these programs wait in the kernel, and the memory of the group.
fn standing(programs: &[u32], group: &Group) -> String {
    let text = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
    let mut all = text(group.0.join("memory.stat"));
    for program in programs {
        let tasks = fs::read_dir(format!("/proc/{program}/task")).into_iter().flatten().flatten();
        for task in tasks.map(|task| task.path()) {
            let [name, stack] = ["comm", "stack"].map(|part| text(task.join(part)));
            all.push_str(&format!("{}: {name}{stack}", task.display()));
        }
    }
    all
}

/// Writes more than the limit to a new file system on the mount, inside the group. The disk's image
/// is a sparse file in `on`. `pauses`: the server stands still for so long, again and again, so that
/// the writer fills all memory of the group before the server goes on.
fn write_under(
    on: &Path,
    name: &str,
    limit: u64,
    args: &[&str],
    round: u64,
    pauses: Option<Duration>,
) {
    let dir = tempfile::tempdir().unwrap();
    let (image, path, root) =
        (on.join("disk.img"), dir.path().join("vol"), dir.path().join("root"));
    File::create(&image).unwrap().set_len(1024 * MIB).unwrap();
    fs::create_dir(&root).unwrap();
    let group = Group::new(name, limit);
    let mut command = group.command(crate::PROGRAM);
    command.arg("serve").arg(&image).args(args);
    let server = Server::of(command, dir.path(), Some(&path));
    let connection = path.metadata().unwrap().dev();
    let device = Loop::attach(&path, &["--direct-io=on"]);
    run(["mkfs.ext4", "-q", "-E", "nodiscard", device.device()]);
    let mount = Mount::new(device.device(), &root, "noatime");
    let mut dd = group.command("dd");
    let count = format!("count={}", 2 * limit.min(300 * MIB) / MIB);
    dd.args(["if=/dev/zero", "bs=1M", "conv=fsync", &count])
        .arg(format!("of={}", root.join("f").display()));
    let said = dir.path().join("dd.txt");
    let mut dd = dd.stderr(File::create(&said).unwrap()).spawn().unwrap();
    // What has come to the disk's image.
    let moved = || image.metadata().unwrap().blocks();
    let (mut last, mut end) = (0, Instant::now() + STILL);
    let status = loop {
        if moved() > last {
            (last, end) = (moved(), Instant::now() + STILL);
        }
        match dd.try_wait().unwrap() {
            None if Instant::now() < end => {
                if let Some(pause) = pauses {
                    server.signal(Signal::STOP);
                    std::thread::sleep(pause);
                    server.signal(Signal::CONT);
                    std::thread::sleep(pause / 2);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            status => break status,
        }
    };
    let mut stood = String::new();
    if status.is_none() {
        stood = standing(&[server.id(), dd.id()], &group);
        abort(connection);
        dd.wait().unwrap();
    }
    let reached = moved() / 2048;
    let limit = limit / MIB;
    assert!(
        status.is_some_and(|s| s.success()),
        "round {round}, {limit} MiB: {status:?}; {reached} MiB have reached the disk; {}\n{stood}",
        fs::read_to_string(&said).unwrap()
    );
    mount.unmount();
    device.detach();
    server.stop();
    fs::remove_file(&image).unwrap();
}

#[test]
fn a_writer_in_the_servers_memory_cgroup_is_served() {
    need!("memory pressure", missing());
    let dir = tempfile::tempdir().unwrap();
    for round in 0..rounds("SEEKLESS_PRESSURE", 1, 100) {
        // A test build of the server takes 150 MiB at least: 40 MiB are the program.
        write_under(dir.path(), "small", 200 * MIB, &[], round, None);
        write_under(dir.path(), "large", 400 * MIB, &[], round, None);
        write_under(dir.path(), "plans", 240 * MIB, &["--policy", "borg"], round, None);
    }
}

/// ext4 needs memory for the first block that it takes from a block group. Here a group has 8 MiB, so
/// the server's writes need memory sixteen times as often as on usual file systems.
#[test]
fn a_sparse_image_needs_memory_that_the_server_has_kept() {
    need!("memory pressure", missing());
    for round in 0..rounds("SEEKLESS_PRESSURE", 1, 20) {
        let dir = tempfile::tempdir().unwrap();
        let (file, root) = (dir.path().join("host.img"), dir.path().join("host"));
        File::create(&file).unwrap().set_len(2048 * MIB).unwrap();
        fs::create_dir(&root).unwrap();
        let device = Loop::attach(&file, &["--direct-io=on"]);
        run(["mkfs.ext4", "-q", "-b", "4096", "-g", "2048", "-O", "^flex_bg", device.device()]);
        let mount = Mount::new(device.device(), &root, "noatime,no_prefetch_block_bitmaps");
        write_under(&root, "groups", 400 * MIB, &[], round, Some(Duration::from_millis(200)));
        mount.unmount();
        device.detach();
    }
}

#[test]
fn a_writer_in_a_guest_is_served_by_ublk_and_fuse() {
    let steps = ["group ublk", "group fuse", "whole ublk", "whole fuse"];
    crate::ublk::in_guest("memory pressure in a guest", "pressure.sh", &steps);
}
