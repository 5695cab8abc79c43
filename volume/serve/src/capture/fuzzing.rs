//! The body of the fuzz target, here for replay by a test. Checks the laws for any bytes as the
//! kernel's descriptions and pages.

use seekless_host::tracing::{Entries, PageLayout, check_entries, common_type};

use super::format::EventLayout;
use super::recorder::{BlockEventKind, Decoder};

/// As described by Linux 6.18 on x86-64.
pub(super) const EVENT: &str = "name: block_bio_queue
ID: 2097
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;
\tfield:char rwbs[10];\toffset:28;\tsize:10;\tsigned:0;
\tfield:char comm[16];\toffset:38;\tsize:16;\tsigned:0;
";

/// A decoder for that kernel and device 7,0.
pub(super) fn decoder(page: &str, event: &str) -> Result<Decoder, String> {
    Ok(Decoder {
        page: PageLayout::parse(page)?,
        common_type: common_type(event)?,
        events: vec![(BlockEventKind::Queue, EventLayout::parse(event)?)],
        dev: 7 << 20,
    })
}

/// Reads `data` as a page, and as descriptions of a page and of events.
///
/// # Panics
/// A law is broken.
pub fn page(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = check_entries(&text);
    let page = PageLayout::EXAMPLE;
    for (page, event) in [(page, EVENT), (&*text, EVENT), (page, &*text)] {
        let Ok(decoder) = decoder(page, event) else { continue };
        let Some(entries) = Entries::new(data, &decoder.page) else { continue };
        let bytes: usize = entries.map(|(_, entry)| entry.len()).sum();
        assert!(bytes <= data.len(), "more came out than went in");
        let mut events = Vec::new();
        let _ = decoder.page(data, &mut events);
        assert!(events.len() * 4 <= data.len(), "{} of {}", events.len(), data.len());
    }
}
