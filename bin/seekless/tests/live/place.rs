//! A folder with a disk and its area, for tests that work as an administrator does.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

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

    /// Runs it; it must succeed.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        host::succeeds(seekless().args(args).current_dir(self.dir.path()))
    }

    /// Runs it; it must refuse, and say all of this.
    pub(crate) fn refused(&self, args: &[&str], words: &[&str]) {
        host::refused(seekless().args(args).current_dir(self.dir.path()), words);
    }

    pub(crate) fn status(&self, rest: &[&str]) -> Value {
        serde_json::from_str(
            &self.run(&[&["volume", "status", "disk.img", "--json"], rest].concat()),
        )
        .unwrap()
    }

    pub(crate) fn serve(&self, args: &[&str]) -> (Server, Client) {
        let socket = self.path("nbd.sock");
        let address = format!("unix:{}", socket.display());
        let all = [args, &["--nbd", &address]].concat();
        let server = Server::start(self.dir.path(), &self.path("disk.img"), None, &all);
        let client = Client::connect(&Address::Unix(socket)).unwrap();
        (server, client)
    }
}
