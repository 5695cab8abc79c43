//! Entry points for fuzzers: any bytes, and what must hold for them. They panic where bytes that were
//! read are not written as the same bytes again: a bug.

use seekless_block::PAGE_BYTES;

use super::{
    CheckpointHeader, CheckpointPage, FormatError, FreeMapPage, GuardHeader, GuardPage, Header,
    LearnedPage, Page, PlanHeader, PlanPage, Superblock, VERSION, VERSION_AT, seal, seal_as,
};

/// Reads bytes as a superblock: as they are, and with what every page begins with set right.
pub fn superblock(data: &[u8]) {
    page(data, Superblock::LAYOUT.kind, Superblock::decode, Superblock::encode);
}

/// Reads bytes as the map of a read segment or the header of a record.
pub fn header(data: &[u8]) {
    page(data, Header::LAYOUT.kind, Header::decode, Header::encode);
    let mut again = [0; PAGE_BYTES as usize];
    for (header, sum) in Header::all_in(data) {
        header.put(&mut again);
        assert!(Header::all_in(&again).iter().any(|(found, _)| *found == header), "{sum:#x}");
    }
}

/// Reads bytes as a checkpoint's header and as one of its pages.
pub fn checkpoint(data: &[u8]) {
    page(data, CheckpointHeader::LAYOUT.kind, CheckpointHeader::decode, CheckpointHeader::encode);
    page(data, CheckpointPage::LAYOUT.kind, CheckpointPage::decode, CheckpointPage::encode);
}

/// Reads bytes as a page of a free map.
pub fn free_map(data: &[u8]) {
    page(data, FreeMapPage::LAYOUT.kind, FreeMapPage::decode, FreeMapPage::encode);
}

/// Reads bytes as a plan's header, as one of its pages, and as a part of learned state.
pub fn plan(data: &[u8]) {
    page(data, PlanHeader::LAYOUT.kind, PlanHeader::decode, PlanHeader::encode);
    page(data, PlanPage::LAYOUT.kind, PlanPage::decode, PlanPage::encode);
    page(data, LearnedPage::LAYOUT.kind, LearnedPage::decode, LearnedPage::encode);
}

/// Reads bytes as the header of a guard region and as a guard page.
pub fn guard(data: &[u8]) {
    page(data, GuardHeader::LAYOUT.kind, GuardHeader::decode, GuardHeader::encode);
    page(data, GuardPage::LAYOUT.kind, GuardPage::decode, GuardPage::encode);
}

fn page<T>(
    data: &[u8],
    kind: u16,
    decode: fn(&[u8]) -> Result<T, FormatError>,
    encode: fn(&T, &mut Page) -> u32,
) {
    let check = |bytes: &[u8]| {
        let Ok(read) = decode(bytes) else { return };
        let mut again = [0; PAGE_BYTES as usize];
        encode(&read, &mut again);
        // Older versions are read, and not written.
        let version = bytes.get(VERSION_AT).map_or(VERSION, |low| u16::from(*low));
        seal_as(version, &mut again, kind);
        assert!(again == bytes, "what was read is written otherwise");
    };
    check(data);
    // A fuzzer finds no checksum by chance.
    let mut sealed = [0; PAGE_BYTES as usize];
    let held = data.len().min(sealed.len());
    sealed[..held].copy_from_slice(&data[..held]);
    seal(&mut sealed, kind);
    check(&sealed);
}
