//! The kernel's own description of its binary trace: `events/header_page`, `events/header_event`
//! and each event's `format`. The layout comes from these files only.

use std::ops::Range;

/// Place of a number or text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// From the event's or the page's start.
    pub offset: usize,
    /// In bytes.
    pub size: usize,
}

impl Field {
    /// The number, in this machine's byte order. `None` past the end, or of another size.
    pub fn number(self, bytes: &[u8]) -> Option<u64> {
        let b = self.bytes(bytes)?;
        Some(match *b {
            [b] => b.into(),
            [a, b] => u16::from_ne_bytes([a, b]).into(),
            [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
            _ => u64::from_ne_bytes(b.try_into().ok()?),
        })
    }

    /// The bytes. `None` past the end.
    pub fn bytes(self, bytes: &[u8]) -> Option<&[u8]> {
        bytes.get(self.offset..self.offset.checked_add(self.size)?)
    }

    /// Text up to the first zero. `None` past the end.
    pub fn text(self, bytes: &[u8]) -> Option<&[u8]> {
        let b = self.bytes(bytes)?;
        Some(&b[..b.iter().position(|&c| c == 0).unwrap_or(b.len())])
    }
}

/// Largest accepted page: the kernel uses at most 64 pages of up to 64 KiB.
const PAGE_MAX: usize = 4 << 20;

/// Header of a page of the ring buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// The time before the first entry.
    pub timestamp: Field,
    /// The committed length, and flags.
    pub commit: Field,
    /// The place of the entries.
    pub data: Range<usize>,
}

impl PageLayout {
    /// The description by Linux 6.18 on x86-64, for tests and fuzz targets.
    pub const EXAMPLE: &'static str = "\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
";

    /// From `events/header_page`; an error names the missing part.
    pub fn parse(text: &str) -> Result<Self, String> {
        let data = field(text, "data")?;
        let layout = Self {
            timestamp: number_field(text, "timestamp")?,
            commit: number_field(text, "commit")?,
            data: data.offset..data.offset.saturating_add(data.size),
        };
        let head = layout.timestamp.offset.max(layout.commit.offset);
        if layout.data.end > PAGE_MAX || layout.data.start < head || data.size < 16 {
            return Err("a page whose parts do not fit each other".to_owned());
        }
        Ok(layout)
    }
}

/// Checks the layout of entries that [`super::page`] expects.
pub fn check_entries(text: &str) -> Result<(), String> {
    let words: Vec<String> =
        text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for wanted in [
        "type_len : 5 bits",
        "time_delta : 27 bits",
        "array : 32 bits",
        "padding : type == 29",
        "time_extend : type == 30",
        "time_stamp : type == 31",
        "data max type_len == 28",
    ] {
        if !words.iter().any(|w| w == wanted) {
            return Err(format!("no line '{wanted}'"));
        }
    }
    Ok(())
}

/// The number of an event, from its `format`.
pub fn event_id(text: &str) -> Result<u16, String> {
    let id = text.lines().find_map(|l| l.strip_prefix("ID:")?.trim().parse().ok());
    id.ok_or_else(|| "no line 'ID: NUMBER'".to_owned())
}

/// The number at the start of every event.
pub fn common_type(text: &str) -> Result<Field, String> {
    number_field(text, "common_type")
}

/// A number among the fields of an event.
pub fn number_field(text: &str, name: &str) -> Result<Field, String> {
    match field(text, name)? {
        f @ Field { size: 1 | 2 | 4 | 8, .. } => Ok(f),
        f => Err(format!("a field '{name}' of {} bytes", f.size)),
    }
}

/// Any field: the line `field:TYPE NAME[N]; offset:N; size:N; ...`.
pub fn field(text: &str, name: &str) -> Result<Field, String> {
    let missing = || format!("no field '{name}'");
    let line = text
        .lines()
        .find_map(|line| {
            let (declared, rest) = line.trim().strip_prefix("field:")?.split_once(';')?;
            let declared = declared.split_once('[').map_or(declared, |(d, _)| d);
            (declared.split_whitespace().last()? == name).then_some(rest)
        })
        .ok_or_else(missing)?;
    let value = |key: &str| {
        line.split(';')
            .find_map(|part| part.trim().strip_prefix(key)?.strip_prefix(':')?.trim().parse().ok())
            .filter(|&n: &usize| n <= PAGE_MAX)
    };
    let (Some(offset), Some(size)) = (value("offset"), value("size")) else {
        return Err(missing());
    };
    Ok(Field { offset, size })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As described by Linux 6.18 on x86-64.
    const ENTRY: &str = "# compressed entry header
\ttype_len    :    5 bits
\ttime_delta  :   27 bits
\tarray       :   32 bits

\tpadding     : type == 29
\ttime_extend : type == 30
\ttime_stamp : type == 31
\tdata max type_len  == 28
";
    const QUEUE: &str = "name: block_bio_queue
ID: 2097
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:char rwbs[10];\toffset:28;\tsize:10;\tsigned:0;
";

    #[test]
    fn the_kernels_words_are_understood() {
        let f = |offset, size| Field { offset, size };
        let page = PageLayout::parse(PageLayout::EXAMPLE).unwrap();
        assert_eq!(page, PageLayout { timestamp: f(0, 8), commit: f(8, 8), data: 16..4096 });
        assert_eq!(check_entries(ENTRY), Ok(()));
        assert_eq!(common_type(QUEUE), Ok(f(0, 2)));
        assert_eq!(event_id(QUEUE), Ok(2097));
        assert_eq!(number_field(QUEUE, "dev"), Ok(f(8, 4)));
        assert_eq!(field(QUEUE, "rwbs"), Ok(f(28, 10)));
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(field(QUEUE, "sector").unwrap_err().contains("sector"));
        assert!(number_field(QUEUE, "rwbs").is_err());
        assert!(event_id(&QUEUE.replace("ID: 2097", "ID: x")).is_err());
        assert!(event_id(&QUEUE.replace("ID: 2097", "ID: 99999999")).is_err());
        let page = PageLayout::EXAMPLE;
        assert!(PageLayout::parse(&page.replace("size:4080", "size:99999999999")).is_err());
        assert!(PageLayout::parse(&page.replace("offset:16", "offset:4")).is_err());
        assert!(check_entries(&ENTRY.replace("27 bits", "26 bits")).unwrap_err().contains("27"));
        assert!(PageLayout::parse("").is_err() && check_entries("").is_err());
    }

    #[test]
    fn fields_past_the_end_are_none() {
        let f = |offset, size| Field { offset, size };
        assert_eq!(f(0, 4).number(&[1, 0, 0]), None);
        assert_eq!(f(usize::MAX, 4).number(&[1, 0, 0]), None);
        assert!(f(1, 2).number(&7u16.to_ne_bytes().repeat(2)[..3]).is_some());
        assert_eq!(f(1, 3).number(&[0; 8]), None);
        assert_eq!(f(0, 4).text(b"ab\0c"), Some(b"ab".as_slice()));
        assert_eq!(f(0, 2).text(b"abc"), Some(b"ab".as_slice()));
    }
}
