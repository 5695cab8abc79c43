//! Servers over sockets, with several clients at once, hostile ones, and other NBD clients. Uses
//! only the public interface.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panic")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests say what they skip and draw")]

mod access;
mod certificates;
mod emulation;
mod ext;
mod fixtures;
mod guard;
mod hostile;
mod http;
mod model;
mod other_server;
mod packed;
mod remote;
mod setup;
mod tools;

use std::path::PathBuf;

use seekless_nbd::Options;
use seekless_serve::ServerHandle;
use seekless_serve::client::Client;
use tempfile::TempDir;

/// A test's own directory, removed with it.
struct Dir(TempDir);

impl Dir {
    fn new(name: &str) -> Self {
        Self(tempfile::Builder::new().prefix(name).tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A file of zeroes.
    fn file(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.path(name);
        std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
        path
    }
}

/// A client on a socket pair.
fn client(server: &ServerHandle) -> Client {
    Client::new(Box::new(server.connect().unwrap()), Options::default()).unwrap()
}
