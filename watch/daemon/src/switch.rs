//! Switches events on and off from a thread of its own: the kernel changes its own code for this,
//! which takes up to 20 ms an event, and the loop must not wait.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// The switch. Dropping it waits for its thread: an instance in use cannot be removed.
#[derive(Debug)]
pub(crate) struct Switch {
    to: Option<Sender<bool>>,
    thread: Option<JoinHandle<()>>,
    on: bool,
}

impl Switch {
    /// A switch for events that are off; these are their `enable` files.
    pub(crate) fn new(files: Vec<PathBuf>) -> std::io::Result<Self> {
        let (to, wanted) = channel();
        let thread = thread::Builder::new()
            .name("seekless-switch".to_owned())
            .spawn(move || work(&files, &wanted))?;
        Ok(Self { to: Some(to), thread: Some(thread), on: false })
    }

    pub(crate) fn set(&mut self, on: bool) {
        if self.on != on {
            self.on = on;
            // An event that cannot be switched on costs speed, and nothing else.
            let _ = self.to.as_ref().is_none_or(|t| t.send(on).is_ok());
        }
    }
}

fn work(files: &[PathBuf], wanted: &Receiver<bool>) {
    let mut is_on = false;
    while let Ok(first) = wanted.recv() {
        // Only the newest wish counts.
        let on = wanted.try_iter().last().unwrap_or(first);
        if on != is_on {
            is_on = on;
            for file in files {
                let _ = std::fs::write(file, if on { "1" } else { "0" });
            }
        }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.to = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
