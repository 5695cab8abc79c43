//! An area whose device is pulled out while the volume is used. The device is a loop device over the
//! file of another seekless, which is killed: from then on, each of its requests fails.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use seekless_serve::client::Client;
use serde_json::Value;

use crate::host::{self, Loop, Numbers, Server, run, status};
use crate::need;
use crate::place::serve;

const MIB: usize = 1 << 20;

fn missing() -> Option<String> {
    host::lacks("fuse root losetup blockdev")
}

/// A disk, and its area on a device that can be pulled out.
struct Unplugged {
    dir: tempfile::TempDir,
    stick: Option<Server>,
    // Detached before the server beneath it is dropped.
    device: Option<Loop>,
    before: Vec<u8>,
}

impl Unplugged {
    fn new(mode: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let before = Numbers::new(5).bytes(32 * MIB);
        fs::write(path("disk.img"), &before).unwrap();
        File::create(path("stick.img")).unwrap().set_len(16 << 20).unwrap();
        let stick = dir.path().join("stick");
        fs::create_dir(&stick).unwrap();
        let args = ["--policy", "vanilla", "--optimized", "0"];
        let file = path("stick.disk");
        let server = Server::start(&stick, &path("stick.img"), Some(&file), &args);
        let device = Loop::attach(&file, &["--direct-io=on"]);
        let area = device.device();
        let image = path("disk.img");
        let mut format = host::seekless();
        format.args(["volume", "format"]).arg(image).args(["--at", area, "--mode", mode]);
        host::succeeds(&mut format);
        Self { dir, stick: Some(server), device: Some(device), before }
    }

    fn image(&self) -> std::path::PathBuf {
        self.dir.path().join("disk.img")
    }

    fn serve(&self) -> (Server, Client) {
        let area = self.device.as_ref().unwrap().device();
        // No RAM: reads show what the devices have.
        let args = ["--area", area, "--policy", "borg:min-weight=1", "--cache", "0"];
        serve(self.dir.path(), &self.image(), &args)
    }

    fn unplug(&mut self) {
        let mut stick = self.stick.take().unwrap();
        stick.kill();
        // What the host still has of it.
        run(["blockdev", "--flushbufs", self.device.as_ref().unwrap().device()]);
    }

    /// Its status, as soon as it says this.
    fn until(&self, what: impl Fn(&Value) -> bool) -> Value {
        host::json_that(30, || status(&self.image(), &[]), what)
    }
}

impl Drop for Unplugged {
    fn drop(&mut self) {
        self.device.take();
        self.stick.take();
    }
}

/// It tries a few times to save the area, and then says that it could not. A hang, or the minute of
/// an area that is slow, would take longer. Returns what the server said.
fn end(server: &mut Server, image: &Path) -> String {
    server.signal(Signal::TERM);
    let ended = server.wait(Duration::from_secs(45));
    let ended = ended.unwrap_or_else(|| panic!("it does not end: {:#}", status(image, &[])));
    let said = server.said().join("\n");
    assert_eq!(ended.code(), Some(2), "{said}");
    assert!(said.contains("could not be marked as detached"), "{said}");
    said
}

fn same(found: &[u8], expected: &[u8], when: &str) {
    assert!(found == expected, "{when}: other bytes");
}

fn home(image: &Path, at: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    File::open(image).unwrap().read_exact_at(&mut bytes, at as u64).unwrap();
    bytes
}

#[test]
fn in_write_through_an_unplugged_area_costs_no_byte() {
    need!("an unplugged area", missing());
    let mut place = Unplugged::new("writethrough");
    let (mut server, mut client) = place.serve();
    // Copies that reads use.
    for _ in 0..3 {
        for at in [20, 3, 11, 7] {
            client.read((at * MIB) as u64, 64 << 10).unwrap();
        }
    }
    server.learn();
    place.unplug();
    let mut model = place.before.clone();
    for (n, at) in [3usize, 7, 11, 20, 30].into_iter().enumerate() {
        let found = client.read((at * MIB) as u64, 64 << 10).unwrap();
        same(&found, &model[at * MIB..][..64 << 10], "read behind it");
        let new = Numbers::new(n as u64).bytes(64 << 10);
        client.write((at * MIB) as u64, &new).unwrap();
        model[at * MIB..][..new.len()].copy_from_slice(&new);
        client.flush().unwrap();
        same(&home(&place.image(), at * MIB, new.len()), &new, "home, flushed");
        same(&client.read((at * MIB) as u64, new.len() as u32).unwrap(), &new, "read again");
    }
    place.until(|state| state["last_failure"].to_string().contains("area"));
    drop(client);
    end(&mut server, &place.image());
    same(&fs::read(place.image()).unwrap(), &model, "the bare disk");
}

#[test]
fn in_write_back_the_loss_of_an_unplugged_area_is_said_at_once() {
    need!("an unplugged area", missing());
    let mut place = Unplugged::new("writeback");
    let (mut server, mut client) = place.serve();
    let absorbed = Numbers::new(9).bytes(MIB);
    client.write(8 << 20, &absorbed).unwrap();
    client.flush().unwrap();
    assert_eq!(status(&place.image(), &[])["dirty_bytes"], MIB as u64);
    place.unplug();
    // What is in the area alone is an error, never old bytes.
    assert!(client.read(8 << 20, 4096).is_err(), "the lost page");
    let gone = |state: &Value| state["trouble"].to_string().contains("read-only");
    let state = place.until(|state| state["fell_back"] == true && gone(state));
    assert_eq!(state["mode"], "writethrough", "{state}");
    assert_eq!(state["dirty_bytes"], MIB as u64, "{state}");
    // The rest of the disk is read. The guarded beginning is lost with the area.
    let rest = client.read(128 << 10, MIB as u32).unwrap();
    same(&rest, &place.before[128 << 10..][..MIB], "the rest");
    let new = Numbers::new(10).bytes(4096);
    assert!(client.write(24 << 20, &new).is_err(), "a write behind the loss");
    same(&home(&place.image(), 24 << 20, 4096), &place.before[24 << 20..][..4096], "home");
    drop(client);
    let said = end(&mut server, &place.image());
    assert!(said.contains("DATA LOST"), "{said}");
}
