//! What the fuzz target calls, here so that a test can replay it. Checks what must hold for any bytes at
//! all: the kernel's descriptions and its pages, both from `data`.

use super::format::{EventLayout, Field, PageLayout, check_entries, common_type};
use super::page::Entries;
use super::recorder::{Decoder, What};

const PAGE: &str = "field: u64 timestamp; offset:0; size:8;\nfield: local_t commit; offset:8; size:8;\nfield: char data; offset:16; size:4080;";
const EVENT: &str = "ID: 7\nfield: unsigned short common_type; offset:0; size:2;\nfield: int common_pid; offset:4; size:4;\nfield: dev_t dev; offset:8; size:4;\nfield: sector_t sector; offset:16; size:8;\nfield: unsigned int nr_sector; offset:24; size:4;\nfield: char rwbs[10]; offset:28; size:10;\nfield: char comm[16]; offset:38; size:16;";

/// Reads `data` as a page, and as the descriptions of a page and of events.
///
/// # Panics
/// Where something comes out that must not.
pub fn page(data: &[u8]) {
    if let (Ok(page), Ok(event), Ok(common_type)) =
        (PageLayout::parse(PAGE), EventLayout::parse(EVENT), common_type(EVENT))
    {
        read(&Decoder { page, common_type, events: vec![(What::Queue, event)], dev: 0 }, data);
    }
    let text = String::from_utf8_lossy(data);
    let _ = check_entries(&text);
    let layout = |text| Some((PageLayout::parse(text).ok()?, common_type(text).ok()?));
    if let Some((page, common_type)) = layout(&text) {
        let events = EventLayout::parse(&text).ok().map(|l| (What::Issue, l));
        let common_type = Field { size: common_type.size.min(8), ..common_type };
        read(&Decoder { page, common_type, events: events.into_iter().collect(), dev: 0 }, data);
    }
}

fn read(decoder: &Decoder, data: &[u8]) {
    let Some(entries) = Entries::new(data, &decoder.page) else { return };
    let bytes: usize = entries.map(|(_, entry)| entry.len()).sum();
    assert!(bytes <= data.len(), "more came out than went in");
    let mut events = Vec::new();
    let _ = decoder.page(data, &mut events);
    assert!(events.len() * 8 <= data.len(), "{} events of {} bytes", events.len(), data.len());
}
