//! A folder with a disk and its area, for tests that work as an administrator does.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use seekless_serve::Address;
use seekless_serve::client::Client;
use serde_json::Value;

use crate::host::{self, Numbers, Server, seekless};

/// The area of [`Place`], on command lines.
pub(crate) const BESIDE: [&str; 2] = ["--area", "disk.area"];

/// A folder with a disk, and what stands on it.
pub(crate) struct Place {
    pub(crate) dir: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// A sparse disk of so many MiB, in use where `content`.
    pub(crate) fn disk(&self, mib: u64, content: bool) -> PathBuf {
        let path = self.path("disk.img");
        let file = File::create(&path).unwrap();
        file.set_len(mib << 20).unwrap();
        if content {
            file.write_all_at(&Numbers::new(3).bytes(4 << 20), 0).unwrap();
            file.write_all_at(&[0x53, 0xef], 1080).unwrap();
        }
        path
    }

    /// `seekless` with this line of arguments.
    fn command(&self, line: &str) -> Command {
        let mut command = seekless();
        command.args(line.split_whitespace()).current_dir(self.dir.path());
        command
    }

    /// Runs it; it must succeed.
    pub(crate) fn run(&self, line: &str) -> String {
        host::succeeds(&mut self.command(line))
    }

    /// Runs it; it must refuse, and say all of this.
    pub(crate) fn refused(&self, line: &str, words: &[&str]) {
        host::refused(&mut self.command(line), words);
    }

    /// The JSON that it prints.
    pub(crate) fn json(&self, line: &str) -> Value {
        host::json(&mut self.command(line))
    }

    /// Runs `seekless volume` with this verb for the disk and its area.
    pub(crate) fn volume(&self, verb: &str) -> String {
        self.run(&beside(verb))
    }

    /// The same, which must be refused, with all of these words.
    pub(crate) fn volume_refuses(&self, verb: &str, words: &[&str]) {
        self.refused(&beside(verb), words);
    }

    /// Starts `seekless volume rescue`, and connects to its server.
    pub(crate) fn rescue(&self) -> (Server, Client) {
        let rescue = self.command(&beside("rescue --nbd unix:rescue.sock"));
        let server = Server::of_rescue(rescue, self.dir.path());
        (server, Client::connect(&Address::Unix(self.path("rescue.sock"))).unwrap())
    }

    pub(crate) fn status(&self, rest: &[&str]) -> Value {
        self.json(&format!("volume status disk.img --json {}", rest.join(" ")))
    }

    pub(crate) fn serve(&self, args: &[&str]) -> (Server, Client) {
        serve(self.dir.path(), &self.path("disk.img"), args)
    }

    /// Serves the disk with its area, without a learner.
    pub(crate) fn vanilla(&self, more: &[&str]) -> (Server, Client) {
        self.serve(&[&BESIDE[..], &["--policy", "vanilla"], more].concat())
    }
}

/// `seekless volume` with this verb for the disk of a [`Place`] and its area.
fn beside(verb: &str) -> String {
    format!("volume {verb} disk.img --area disk.area")
}

/// A server of a backing at a socket in a folder, and its client.
pub(crate) fn serve(dir: &Path, backing: &Path, args: &[&str]) -> (Server, Client) {
    let socket = dir.join("nbd.sock");
    let address = format!("unix:{}", socket.display());
    let server = Server::start(dir, backing, None, &[args, &["--nbd", &address]].concat());
    (server, Client::connect(&Address::Unix(socket)).unwrap())
}

/// Ends a client and its server.
pub(crate) fn end_both(server: Server, client: Client) -> Value {
    drop(client);
    server.stop()
}
