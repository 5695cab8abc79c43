//! Switches events on and off from a thread of its own: the kernel changes its own code for this,
//! which takes up to 20 ms an event, and the loop must not wait.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use crate::events::KernelEvent;
use crate::tracer::{Devices, filter};

/// The switch. Dropping it waits for its thread: an instance in use cannot be removed.
#[derive(Debug)]
pub(crate) struct Switch {
    to: Option<Sender<Devices>>,
    thread: Option<JoinHandle<()>>,
    devices: Devices,
}

/// An event: its folder in tracefs, and its filter.
#[derive(Debug)]
struct Switched {
    what: KernelEvent,
    folder: PathBuf,
    filter: String,
}

impl Switch {
    /// A switch for events that are off, with their folders.
    pub(crate) fn new(events: Vec<(KernelEvent, PathBuf)>) -> std::io::Result<Self> {
        let (to, wanted) = channel();
        let switched = |(what, folder)| Switched { what, folder, filter: String::new() };
        let mut events: Vec<Switched> = events.into_iter().map(switched).collect();
        let thread = thread::Builder::new()
            .name("seekless-switch".to_owned())
            .spawn(move || work(&mut events, &wanted))?;
        Ok(Self { to: Some(to), thread: Some(thread), devices: Devices::default() })
    }

    /// Shows events of these devices from now on, and no events if there are none.
    pub(crate) fn set(&mut self, devices: Devices) {
        if self.devices != devices {
            // An event that cannot be switched on costs speed, and nothing else.
            let _ = self.to.as_ref().is_none_or(|t| t.send(devices.clone()).is_ok());
            self.devices = devices;
        }
    }
}

fn work(events: &mut [Switched], wanted: &Receiver<Devices>) {
    let mut is_on = false;
    while let Ok(first) = wanted.recv() {
        // Only the newest wish counts.
        let devices = wanted.try_iter().last().unwrap_or(first);
        let on = devices != Devices::default();
        for event in &mut *events {
            // The kernel exchanges the filter of an event that is on: no event is lost meanwhile.
            let text = filter(event.what, &devices);
            if on && text != event.filter {
                let _ = std::fs::write(event.folder.join("filter"), &text);
                event.filter = text;
            }
            if on != is_on {
                let _ = std::fs::write(event.folder.join("enable"), if on { "1" } else { "0" });
            }
        }
        is_on = on;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses on another disk cost its programs time, and may be too many to follow.
    #[test]
    fn only_events_of_wanted_devices_are_shown() {
        let dir = tempfile::tempdir().unwrap();
        let read = |name| std::fs::read_to_string(dir.path().join(name)).unwrap_or_default();
        let of = |number| Devices { filesystems: vec![number], ..Devices::default() };
        for (wanted, enable, filter) in [
            (vec![Devices::default()], "", ""),
            (vec![of(8)], "1", "s_dev == 8"),
            (vec![of(8), of(9)], "1", "s_dev == 9"),
        ] {
            let events = vec![(KernelEvent::Got, dir.path().to_owned())];
            let mut switch = Switch::new(events).unwrap();
            wanted.into_iter().for_each(|devices| switch.set(devices));
            drop(switch);
            assert_eq!((&*read("enable"), &*read("filter")), (enable, filter));
        }
    }
}
