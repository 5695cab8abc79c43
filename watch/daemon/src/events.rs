//! The events that are watched, decoded by the kernel's own description of them.

use std::ops::ControlFlow;

use seekless_host::tracing::{
    Entries, Field, PageLayout, common_type, event_id, field, number_field,
};

/// The events, in the order of [`EVENTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelEvent {
    /// A page, or a folio of 2^`c` pages, enters the page cache: device, inode, page, order.
    Added,
    /// A request goes to the disk: device, sectors, [`READ`] and [`METADATA`], and the first sector.
    Sent,
    /// Metadata in memory is used: device, block number, bytes in a block.
    Touched,
    /// Pages of a file in memory are read: device, inode, first and last page.
    Got,
    /// Pages of a file in memory are mapped: device, inode, first and last page.
    Mapped,
    /// An inode of XFS was put into memory: device, inode.
    Inode,
    /// A part of a directory of XFS is read: device, inode.
    Listed,
    /// A node of btrfs in memory is used: the tree in place of the device, address, version.
    Node,
}

/// Bits of [`KernelEvent::Sent`]: a read, and of metadata.
pub(crate) const READ: u64 = 1;
pub(crate) const METADATA: u64 = 2;

/// Each event: its name, its fields, and whether watching works without it.
pub(crate) const EVENTS: [(KernelEvent, &str, &[&str], bool); 8] = [
    (
        KernelEvent::Added,
        "filemap/mm_filemap_add_to_page_cache",
        &["s_dev", "i_ino", "index", "order"],
        false,
    ),
    (KernelEvent::Sent, "block/block_bio_queue", &["dev", "nr_sector", "sector"], false),
    (KernelEvent::Touched, "block/block_touch_buffer", &["dev", "sector", "size"], false),
    (
        KernelEvent::Got,
        "filemap/mm_filemap_get_pages",
        &["s_dev", "i_ino", "index", "last_index"],
        true,
    ),
    (
        KernelEvent::Mapped,
        "filemap/mm_filemap_map_pages",
        &["s_dev", "i_ino", "index", "last_index"],
        true,
    ),
    (KernelEvent::Inode, "xfs/xfs_iget_miss", &["dev", "ino"], true),
    (KernelEvent::Listed, "xfs/xfs_readdir", &["dev", "ino"], true),
    (KernelEvent::Node, "btrfs/btrfs_tree_read_lock", &["owner", "block", "generation"], true),
];

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The thread.
    pub thread: u32,
    /// Which event.
    pub what: KernelEvent,
    /// Device number of the kernel.
    pub device: u64,
    /// The other fields, in the order of [`KernelEvent`].
    pub values: [u64; 3],
}

/// Where the fields of an event are.
#[derive(Clone, Debug)]
pub struct Layout {
    what: KernelEvent,
    id: u16,
    thread: Field,
    fields: Vec<Field>,
    /// The letters of a request.
    letters: Option<Field>,
}

impl Layout {
    /// From an event's `format`; an error names the missing part.
    pub fn parse(what: KernelEvent, text: &str) -> Result<Self, String> {
        let names = EVENTS.iter().find(|e| e.0 == what).map_or(&[][..], |e| e.2);
        // Kernels before large folios have no order: each event is one page.
        let there = |n: &&&str| **n != "order" || number_field(text, "order").is_ok();
        let fields = names.iter().filter(there).map(|n| number_field(text, n));
        let letters = (what == KernelEvent::Sent).then(|| field(text, "rwbs")).transpose()?;
        Ok(Self {
            what,
            id: event_id(text)?,
            thread: number_field(text, "common_pid")?,
            fields: fields.collect::<Result<_, _>>()?,
            letters,
        })
    }

    fn event(&self, time: u64, bytes: &[u8]) -> Option<Event> {
        let mut all = [0; 4];
        for (value, field) in all.iter_mut().zip(&self.fields) {
            *value = field.number(bytes)?;
        }
        let [device, mut values @ ..] = all;
        if let Some(letters) = self.letters {
            let letters = letters.text(bytes)?;
            let bit = |letter, bit| if letters.contains(&letter) { bit } else { 0 };
            values[2] = values[1];
            values[1] = bit(b'R', READ) | bit(b'M', METADATA);
        }
        let thread = u32::try_from(self.thread.number(bytes)?).ok()?;
        Some(Event { time, thread, what: self.what, device, values })
    }
}

/// Decodes pages of the ring buffer.
#[derive(Clone, Debug)]
pub struct Decoder {
    page: PageLayout,
    kind: Field,
    layouts: Vec<Layout>,
}

impl Decoder {
    /// A decoder for these events.
    pub fn new(page: PageLayout, format: &str, layouts: Vec<Layout>) -> Result<Self, String> {
        Ok(Self { page, kind: common_type(format)?, layouts })
    }

    /// True if this event is known to the kernel.
    pub fn knows(&self, what: KernelEvent) -> bool {
        self.layouts.iter().any(|l| l.what == what)
    }

    /// Adds the events of a page. Returns the number of lost ones. Entries that are not understood
    /// are skipped: a missing event costs speed only.
    pub fn page(&self, page: &[u8], out: &mut Vec<Event>) -> u64 {
        let Some(mut entries) = Entries::new(page, &self.page) else { return 1 };
        let lost = entries.missed;
        let _ = entries.try_for_each(|(time, bytes)| {
            let id = self.kind.number(bytes);
            let layout = self.layouts.iter().find(|l| id == Some(l.id.into()));
            out.extend(layout.and_then(|l| l.event(time, bytes)));
            ControlFlow::<()>::Continue(())
        });
        lost
    }
}

/// The body of the fuzz target: any bytes as a page, as its description, and as an event's.
///
/// # Panics
/// A law is broken.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for (what, ..) in EVENTS {
        let _ = Layout::parse(what, &text);
    }
    for page in [PageLayout::EXAMPLE, &*text] {
        let Ok(decoder) = samples::decoder(page) else { continue };
        let mut events = Vec::new();
        decoder.page(data, &mut events);
        assert!(events.len() * 4 <= data.len(), "more came out than went in");
    }
}

/// Descriptions by Linux 6.18 on x86-64.
pub(crate) mod samples {
    use super::{Decoder, KernelEvent, Layout, PageLayout};

    pub(crate) const ADDED: &str = "name: mm_filemap_add_to_page_cache
ID: 600
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:unsigned long pfn;\toffset:8;\tsize:8;\tsigned:0;
\tfield:unsigned long i_ino;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned long index;\toffset:24;\tsize:8;\tsigned:0;
\tfield:dev_t s_dev;\toffset:32;\tsize:4;\tsigned:0;
\tfield:unsigned char order;\toffset:36;\tsize:1;\tsigned:0;
";
    pub(crate) const SENT: &str = "name: block_bio_queue
ID: 2097
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;
\tfield:char rwbs[10];\toffset:28;\tsize:10;\tsigned:0;
";

    pub(crate) fn decoder(page: &str) -> Result<Decoder, String> {
        let layouts = vec![
            Layout::parse(KernelEvent::Added, ADDED)?,
            Layout::parse(KernelEvent::Sent, SENT)?,
        ];
        Decoder::new(PageLayout::parse(page)?, ADDED, layouts)
    }
}

#[cfg(all(test, target_endian = "little"))]
#[allow(clippy::unwrap_used, reason = "tests fail by panic")]
mod tests {
    use super::samples::{ADDED, SENT, decoder};
    use super::*;

    fn page(entry: &[u8]) -> Vec<u8> {
        let mut page = 100u64.to_ne_bytes().to_vec();
        page.extend((entry.len() as u64 + 4).to_ne_bytes());
        page.extend(((5u32 << 5) | (entry.len() as u32 / 4)).to_ne_bytes());
        page.extend(entry);
        page
    }

    fn added() -> Vec<u8> {
        let mut entry = vec![0; 40];
        entry[..2].copy_from_slice(&600u16.to_ne_bytes());
        entry[4..8].copy_from_slice(&77u32.to_ne_bytes());
        entry[16..24].copy_from_slice(&12u64.to_ne_bytes());
        entry[24..32].copy_from_slice(&9u64.to_ne_bytes());
        entry[32..36].copy_from_slice(&(7u32 << 20 | 1).to_ne_bytes());
        entry[36] = 2;
        entry
    }

    #[test]
    fn events_are_read_as_the_kernel_describes_them() {
        let decoder = decoder(PageLayout::EXAMPLE).unwrap();
        let mut out = Vec::new();
        assert_eq!(decoder.page(&page(&added()), &mut out), 0);
        let device = 7 << 20 | 1;
        let want =
            Event { time: 105, thread: 77, what: KernelEvent::Added, device, values: [12, 9, 2] };
        assert_eq!(out, [want]);
        let mut sent = vec![0; 40];
        sent[..2].copy_from_slice(&2097u16.to_ne_bytes());
        sent[24] = 16;
        sent[16] = 99;
        for (letters, read) in [("RA", 1), ("WS", 0), ("RAM", 3)] {
            sent[28..28 + letters.len()].copy_from_slice(letters.as_bytes());
            out.clear();
            decoder.page(&page(&sent), &mut out);
            assert_eq!(out[0].values, [16, read, 99], "{letters}");
        }
    }

    #[test]
    fn what_is_missing_is_named_and_older_kernels_have_single_pages() {
        for name in ["s_dev", "i_ino", "index", "common_pid"] {
            let gone = ADDED.replace(&format!(" {name};"), " other;");
            assert!(Layout::parse(KernelEvent::Added, &gone).unwrap_err().contains(name), "{name}");
        }
        let old = ADDED.replace(" order;", " other;");
        let layouts = vec![Layout::parse(KernelEvent::Added, &old).unwrap()];
        let page_layout = PageLayout::parse(PageLayout::EXAMPLE).unwrap();
        let decoder = Decoder::new(page_layout, &old, layouts).unwrap();
        let mut out = Vec::new();
        decoder.page(&page(&added()), &mut out);
        assert_eq!(out[0].values, [12, 9, 0]);
        assert!(Layout::parse(KernelEvent::Sent, &SENT.replace("rwbs", "other")).is_err());
    }

    #[test]
    fn any_cut_or_changed_page_gives_no_panic() {
        let whole = page(&added());
        for at in 0..whole.len() {
            fuzz(&whole[..at]);
            for value in [0, 1, 0x1F, 0x80, 0xFF] {
                let mut changed = whole.clone();
                changed[at] = value;
                fuzz(&changed);
            }
        }
        for text in [ADDED, SENT, PageLayout::EXAMPLE] {
            (0..text.len()).for_each(|cut| fuzz(&text.as_bytes()[..cut]));
        }
    }
}
