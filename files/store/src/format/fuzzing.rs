//! Entry points for fuzzers: properties that hold for any bytes.

use seekless_block::{Device as _, MemDevice, PAGE_BYTES, Sectors};

use super::{CheckpointHeader, Geometry, Page, RecordPage, Superblock, pack, records, seal};

/// Reads bytes as each kind of page: as they are, and with a correct beginning.
///
/// # Panics
/// A page that was read is written as other bytes.
pub fn page(data: &[u8]) {
    let mut page: Page = [0; PAGE_BYTES as usize];
    let held = data.len().min(page.len());
    page[..held].copy_from_slice(&data[..held]);
    each(&page);
    for kind in 1..=3 {
        each(&seal(kind, &data[..data.len().min(page.len() - 16)]));
    }
}

fn each(page: &Page) {
    // Any store's geometry.
    let geometry = Geometry {
        cluster: Sectors(128),
        clusters: 1 << 20,
        checkpoint_pages: 1 << 10,
        log_pages: 1 << 10,
    };
    if let Ok(read) = Superblock::decode(page) {
        assert!(read.encode() == *page, "a superblock is written otherwise");
    }
    if let Ok(read) = CheckpointHeader::decode(page, &geometry) {
        assert!(read.encode() == *page, "a checkpoint is written otherwise");
    }
    if let Ok(read) = RecordPage::decode(page) {
        assert!(read.encode() == *page, "a page of records is written otherwise");
        body(&read.body);
    }
}

/// Reads bytes as records.
///
/// # Panics
/// Records that were read are written as other bytes.
pub fn body(data: &[u8]) {
    if let Ok(changes) = records(data) {
        assert!(pack(&changes).concat() == data, "records are written otherwise");
    }
}

/// Attaches a small store with changed bytes. `data` is a list of changes: `(page, offset in the
/// page, length, bytes...)`; each changed page gets a correct checksum. The store is refused, or it
/// can be read and written.
pub fn store(data: &[u8]) {
    const PAGES: u64 = 1_024;
    let mut device = MemDevice::new(Sectors(PAGES * 8));
    if crate::format_store(&mut device, [7; 16], seekless_block::Bytes(65_536), "").is_err() {
        return;
    }
    let mut rest = data;
    while let [low, high, at, len, more @ ..] = rest {
        let number = u64::from(u16::from_le_bytes([*low, *high])) % PAGES;
        let extent = Geometry::pages(number, 1);
        let mut page: Page = [0; PAGE_BYTES as usize];
        if device.read(extent, &mut page).is_err() {
            return;
        }
        let (put, left) = more.split_at(more.len().min(usize::from(*len)));
        let at = 16 + usize::from(*at);
        page[at..at + put.len()].copy_from_slice(put);
        let kind = match number {
            0 | 1 => 1,
            _ => 2 + u16::from(*high >> 7),
        };
        let page = seal(kind, &page[16..]);
        if device.write(extent, &page).is_err() {
            return;
        }
        rest = left;
    }
    let Ok(mut store) = crate::StoreOnDevice::attach(device, || true, crate::Config::default())
    else {
        return;
    };
    let numbers: Vec<crate::FileNumber> = store.group_store().files().map(|(n, _)| n).collect();
    let now = seekless_block::SimTime(0);
    for file in numbers {
        let _ = store.ask(now, crate::Ask::Read { file, offset: 0, len: 1 << 16 });
        let _ = store.ask(now, crate::Ask::Remove { file });
    }
    let _ = store.ask(now, crate::Ask::Sync { file: None });
}
