//! The fields of block events, from the kernel's own description of each event.

use seekless_host::tracing::{Field, event_id, field, number_field};

/// Longest accepted text.
const TEXT_MAX: usize = 256;

/// Fields of a block event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventLayout {
    pub(super) id: u16,
    pub(super) pid: Field,
    pub(super) dev: Field,
    pub(super) sector: Field,
    pub(super) sectors: Field,
    pub(super) kind: Field,
    /// Completions have none.
    pub(super) command: Option<Field>,
}

impl EventLayout {
    /// From an event's `format`; an error names the missing part.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let letters = |name| match field(text, name) {
            Ok(f) if f.size > TEXT_MAX => Err(format!("a field '{name}' of {} bytes", f.size)),
            other => other,
        };
        Ok(Self {
            id: event_id(text)?,
            pid: number_field(text, "common_pid")?,
            dev: number_field(text, "dev")?,
            sector: number_field(text, "sector")?,
            sectors: number_field(text, "nr_sector")?,
            kind: letters("rwbs")?,
            command: letters("comm").ok(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::fuzzing::EVENT as QUEUE;
    use super::*;

    #[test]
    fn the_kernels_words_are_understood() {
        let f = |offset, size| Field { offset, size };
        let event = EventLayout::parse(QUEUE).unwrap();
        let (pid, dev, sector, sectors) = (f(4, 4), f(8, 4), f(16, 8), f(24, 4));
        let (kind, command) = (f(28, 10), Some(f(38, 16)));
        assert_eq!(event, EventLayout { id: 2097, pid, dev, sector, sectors, kind, command });
        // Older kernels have 8 letters, which shifts the rest; later kernels may shift anything.
        let moved = QUEUE.replace("size:10;", "size:8;").replace("offset:38", "offset:36");
        assert_eq!(EventLayout::parse(&moved).unwrap().command, Some(f(36, 16)));
    }

    #[test]
    fn what_is_missing_is_named() {
        for name in ["sector", "nr_sector", "rwbs", "dev", "common_pid"] {
            let gone = QUEUE.replace(&format!(" {name}"), " other");
            assert!(EventLayout::parse(&gone).unwrap_err().contains(name), "{name}");
        }
        assert!(EventLayout::parse(&QUEUE.replace("ID: 2097", "ID: x")).is_err());
        assert!(EventLayout::parse(&QUEUE.replace("size:8;", "size:9;")).is_err());
        assert!(EventLayout::parse(&QUEUE.replace("size:10;", "size:99999;")).is_err());
    }
}
