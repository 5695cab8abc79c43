//! The private tracefs instance with the watched events.

use std::os::fd::{AsFd as _, BorrowedFd};

use seekless_host::tracing::{Instance, PageLayout, Pipe, TraceError, check_entries};

use crate::events::{Decoder, EVENTS, Event, KernelEvent, Layout};
use crate::switch::Switch;

/// Kernel memory for unread events of all CPUs.
const BUFFER: u64 = 16 << 20;
/// The kernel refuses a filter that does not fit into a page.
const FILTER_BYTES: usize = 4000;
/// Most pages of one CPU that are read at once: other work must go on.
const PAGES_MOST: usize = 1024;

/// The devices whose events are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Devices {
    /// Device numbers of file systems, as the kernel has them.
    pub(crate) filesystems: Vec<u64>,
    /// Those whose metadata is in the page cache of their device.
    pub(crate) cached: Vec<u64>,
    /// Device numbers of the whole disks below.
    pub(crate) disks: Vec<u64>,
    /// Trees of btrfs.
    pub(crate) trees: Vec<u64>,
}

/// The source of events.
#[derive(Debug)]
pub(crate) struct Tracer {
    /// Ends before the instance.
    switch: Switch,
    instance: Instance,
    decoder: Decoder,
    page: Vec<u8>,
    /// Lost events, by the pages that followed them.
    missed: u64,
}

/// Fills and reads of the disk are watched always; uses in memory only at times.
pub(crate) const fn is_always_on(what: KernelEvent) -> bool {
    matches!(
        what,
        KernelEvent::Added | KernelEvent::Sent | KernelEvent::Inode | KernelEvent::Listed
    )
}

impl Tracer {
    pub(crate) fn start(devices: &Devices) -> Result<Self, TraceError> {
        let mut instance = Instance::new()?;
        let page = instance.describe("events/header_page", PageLayout::parse)?;
        instance.describe("events/header_event", check_entries)?;
        let mut layouts = Vec::new();
        let mut format = String::new();
        for (what, name, _, optional) in EVENTS {
            let parse = |text: &str| Ok((Layout::parse(what, text)?, text.to_owned()));
            match instance.describe(&format!("events/{name}/format"), parse) {
                Ok((layout, text)) => {
                    layouts.push(layout);
                    format = text;
                }
                Err(_) if optional => {}
                Err(e) => return Err(e),
            }
        }
        let unknown = |what| TraceError::Layout { path: "events".into(), what };
        let page_bytes = page.data.end;
        let decoder = Decoder::new(page, &format, layouts).map_err(unknown)?;
        // Wakes a reader that waits at the first event. Without a reader that waits this costs
        // nothing. Kernels before 5.0 have no such setting.
        let _ = instance.set("buffer_percent", "0");
        instance.open_pipes(BUFFER)?;
        let known = EVENTS.iter().filter(|e| decoder.knows(e.0) && !is_always_on(e.0));
        let folders = known.map(|e| (e.0, instance.setting(&format!("events/{}", e.1)))).collect();
        let switch = Switch::new(folders).map_err(|source| TraceError::Tracefs {
            path: "events".into(),
            what: "start a thread that switches events",
            source,
        })?;
        let mut tracer = Self { switch, instance, decoder, page: vec![0; page_bytes], missed: 0 };
        tracer.watch(devices)?;
        let always = |e: &&(KernelEvent, _, _, _)| tracer.decoder.knows(e.0) && is_always_on(e.0);
        for (_, name, ..) in EVENTS.iter().filter(always) {
            tracer.instance.set(&format!("events/{name}/enable"), "1")?;
        }
        tracer.instance.set("tracing_on", "1")?;
        Ok(tracer)
    }

    /// Watches these devices from now on.
    pub(crate) fn watch(&mut self, devices: &Devices) -> Result<(), TraceError> {
        let always = |e: &&(KernelEvent, _, _, _)| self.decoder.knows(e.0) && is_always_on(e.0);
        for (what, name, ..) in EVENTS.iter().filter(always) {
            self.instance.set(&format!("events/{name}/filter"), &filter(*what, devices))?;
        }
        Ok(())
    }

    /// Fails if another program has switched off what is always on, or tracefs is gone: without
    /// this, a daemon that sees nothing looks like a quiet disk.
    pub(crate) fn check(&self) -> Result<(), TraceError> {
        self.instance.must_be_on("tracing_on")?;
        let always = |e: &&(KernelEvent, _, _, _)| self.decoder.knows(e.0) && is_always_on(e.0);
        EVENTS.iter().filter(always).try_for_each(|(_, name, ..)| {
            self.instance.must_be_on(&format!("events/{name}/enable"))
        })
    }

    /// Shows uses in memory of these devices; of none if there are none. They are many.
    pub(crate) fn touches(&mut self, devices: Devices) {
        self.switch.set(devices);
    }

    /// Events that were lost because a buffer was full.
    pub(crate) fn lost(&self) -> u64 {
        let lost = self.instance.pipes.iter().map(|p| p.lost().unwrap_or(0)).sum();
        self.missed.max(lost)
    }

    /// True if this kernel shows uses of files in memory.
    pub(crate) fn sees_files(&self) -> bool {
        self.decoder.knows(KernelEvent::Got)
    }

    /// True if this kernel shows uses of inodes of XFS.
    pub(crate) fn sees_xfs(&self) -> bool {
        self.decoder.knows(KernelEvent::Inode) && self.decoder.knows(KernelEvent::Listed)
    }

    /// True if this kernel shows uses of nodes of btrfs.
    pub(crate) fn sees_btrfs(&self) -> bool {
        self.decoder.knows(KernelEvent::Node)
    }

    /// What becomes readable with the first event.
    pub(crate) fn pipes(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.instance.pipes.iter().map(|p: &Pipe| p.file.as_fd())
    }

    /// Adds the events so far, in order of time.
    pub(crate) fn read(&mut self, out: &mut Vec<Event>) -> Result<(), TraceError> {
        for pipe in &mut self.instance.pipes {
            for _ in 0..PAGES_MOST {
                match pipe.read(&mut self.page)? {
                    0 => break,
                    n => self.missed += self.decoder.page(&self.page[..n], out),
                }
            }
        }
        // Each CPU's events are in order: this sort is fast for sorted runs.
        out.sort_by_key(|e| e.time);
        Ok(())
    }
}

/// The kernel's filter. The pages of a block device belong to an inode whose number is the
/// device's. For very many devices there is no filter: each file system looks at the numbers anyway.
pub(crate) fn filter(what: KernelEvent, devices: &Devices) -> String {
    let all = |names: &[&str], numbers: &[u64]| {
        let each = numbers.iter().flat_map(|d| names.iter().map(move |n| format!("{n} == {d}")));
        each.collect::<Vec<_>>().join(" || ")
    };
    let text = match what {
        KernelEvent::Added => {
            [all(&["s_dev"], &devices.filesystems), all(&["i_ino"], &devices.cached)]
                .into_iter()
                .filter(|t| !t.is_empty())
                .collect::<Vec<_>>()
                .join(" || ")
        }
        KernelEvent::Sent => match all(&["dev"], &devices.disks) {
            none if none.is_empty() => none,
            // Writes say nothing, and are many.
            disks => format!("({disks}) && rwbs ~ \"R*\""),
        },
        KernelEvent::Touched => all(&["dev"], &devices.cached),
        KernelEvent::Inode | KernelEvent::Listed => all(&["dev"], &devices.filesystems),
        KernelEvent::Node => all(&["owner"], &devices.trees),
        KernelEvent::Got | KernelEvent::Mapped => all(&["s_dev"], &devices.filesystems),
    };
    match text.len() {
        // No device: nothing passes.
        0 => "common_pid == 4294967295".to_owned(),
        1..FILTER_BYTES => text,
        _ => "0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_filters_by_device() {
        let devices =
            Devices { filesystems: vec![8, 9], cached: vec![8], disks: vec![7], trees: vec![5] };
        assert_eq!(filter(KernelEvent::Added, &devices), "s_dev == 8 || s_dev == 9 || i_ino == 8");
        assert_eq!(filter(KernelEvent::Sent, &devices), "(dev == 7) && rwbs ~ \"R*\"");
        assert_eq!(filter(KernelEvent::Sent, &Devices::default()), "common_pid == 4294967295");
        assert_eq!(filter(KernelEvent::Touched, &devices), "dev == 8");
        assert_eq!(filter(KernelEvent::Inode, &devices), "dev == 8 || dev == 9");
        assert_eq!(filter(KernelEvent::Node, &devices), "owner == 5");
        assert_eq!(filter(KernelEvent::Got, &Devices::default()), "common_pid == 4294967295");
        let numbers: Vec<u64> = (0..200).map(|n| 254 << 20 | n).collect();
        let many = Devices { filesystems: numbers.clone(), cached: numbers, ..Devices::default() };
        assert_eq!(filter(KernelEvent::Added, &many), "0", "a longer filter is refused");
    }
}
