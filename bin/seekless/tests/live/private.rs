//! Clients' data belongs to one user: files that seekless makes, and files that it finds open.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::host::{self, Server, seekless};
use crate::need;

/// A user without any rights.
const NOBODY: u32 = 65_534;

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o777
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
}

fn format(dir: &Path) {
    let args = ["volume", "format", "disk.img", "--at", "disk.area", "--optimized", "8MiB"];
    host::succeeds(seekless().args(args).current_dir(dir));
}

#[test]
fn images_and_areas_are_made_for_their_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (image, area) = (dir.path().join("disk.img"), dir.path().join("disk.area"));
    let args = ["--size", "16MiB", "--nbd", "unix:nbd.sock"];
    Server::start(dir.path(), &image, None, &args).stop();
    assert_eq!(mode(&image), 0o600);
    // Not even beside an image that others may read.
    open_to_all(&image);
    format(dir.path());
    assert_eq!(mode(&area), 0o600);
}

#[test]
fn an_area_that_others_may_open_is_closed_and_an_open_image_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (image, area) = (dir.path().join("disk.img"), dir.path().join("disk.area"));
    File::create(&image).unwrap().set_len(16 << 20).unwrap();
    format(dir.path());
    open_to_all(&image);
    open_to_all(&area);
    // Who only looks changes nothing.
    assert!(host::status(&image, &["--area", area.to_str().unwrap()])["lasting"] == true);
    assert_eq!(mode(&area), 0o644);
    let mut command = seekless();
    command.args(["serve", "disk.img", "--area", "disk.area", "--nbd", "unix:nbd.sock"]);
    let (server, said) = Server::told(command, dir.path(), "note  ");
    assert!(said.contains("disk.img: any user may open it (mode 644)"), "{said}");
    assert_eq!((mode(&image), mode(&area)), (0o644, 0o600));
    server.stop();
}

#[test]
fn an_area_of_another_user_is_refused() {
    need!("area of another user", "root");
    let dir = tempfile::tempdir().unwrap();
    let (image, area) = (dir.path().join("disk.img"), dir.path().join("disk.area"));
    File::create(&image).unwrap().set_len(16 << 20).unwrap();
    format(dir.path());
    std::os::unix::fs::chown(&area, Some(NOBODY), None).unwrap();
    let mut serve = seekless();
    serve.args(host::words("serve disk.img --area disk.area --nbd unix:nbd.sock"));
    host::refused(serve.current_dir(dir.path()), &["belongs to user 65534"]);
    // In a container, it may be the file of any user.
    fs::set_permissions(&area, Permissions::from_mode(0o666)).unwrap();
    let within = |program: &str, args: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", program]).args(host::words(args));
        command.current_dir(dir.path()).output()
    };
    if within("true", "").is_ok_and(|output| output.status.success()) {
        let output = within(crate::PROGRAM, "volume status disk.img --area disk.area").unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("belongs to user 65534 (in this user namespace"), "{said}");
    } else {
        eprintln!("SKIPPED area of another user in a container: no user namespaces");
    }
    fs::set_permissions(&area, Permissions::from_mode(0o600)).unwrap();
    // Who owns the image may own its area.
    std::os::unix::fs::chown(&image, Some(NOBODY), None).unwrap();
    Server::line(dir.path(), &image, None, "--area disk.area --nbd unix:nbd.sock").stop();
}

#[test]
fn a_stranger_cannot_keep_a_server_from_starting() {
    need!("stranger", "root flock sleep");
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let image = dir.path().join("disk.img");
    let args = ["--size", "16MiB", "--nbd", "unix:nbd.sock"];
    Server::start(dir.path(), &image, None, &args).stop();
    // `flock -n FILE -c` prints a line once it has the lock; -o keeps the lock out of the child.
    let stranger = || {
        let mut flock = Command::new("flock");
        flock.args(["-n", "-E", "9"]).arg(&image).args(["sh", "-c", "echo locked; exec sleep 60"]);
        flock.uid(NOBODY).gid(NOBODY).stdout(Stdio::piped()).stderr(Stdio::null());
        flock.process_group(0).spawn().unwrap()
    };
    let mut refused = stranger();
    assert!(!refused.wait().unwrap().success(), "a stranger opened the image");
    Server::start(dir.path(), &image, None, &args[2..]).stop();

    // Where others may open the image, the message names who did it.
    open_to_all(&image);
    let mut stranger = stranger();
    let lines = host::lines_of(stranger.stdout.take().unwrap());
    assert!(host::next_line(&lines, "locked").is_some());
    let serve = ["serve", "disk.img", "--nbd", "unix:nbd.sock"];
    let output = seekless().args(serve).current_dir(dir.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let group = rustix::process::Pid::from_child(&stranger);
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    stranger.wait().unwrap();
    let words = ["of user 65534 has taken its lock", "chmod 600"];
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}
