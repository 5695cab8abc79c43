//! One page of the kernel's ring buffer, from `trace_pipe_raw`: entries and their times. The layout
//! is that of Documentation/trace/ring-buffer-design and include/linux/ring_buffer.h. A header has
//! the page's time and the committed length. Each entry has a 32-bit head (5 bits type or length,
//! 27 bits time since the previous entry) and words.

use super::format::PageLayout;

/// Bits of the commit field for the length.
const LENGTH_MASK: u64 = (1 << 27) - 1;
/// The kernel lost entries before this page.
const MISSED: u64 = 1 << 31;
/// The number of lost entries follows the committed bytes, in 64 bits.
const MISSED_STORED: u64 = 1 << 30;
const TYPE_DATA_MAX: u32 = 28;
const TYPE_PADDING: u32 = 29;
const TYPE_EXTEND: u32 = 30;
/// Bits of a time that an absolute stamp lacks.
const STAMP_TOP: u64 = !((1 << 59) - 1);

/// The entries of a page.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u8],
    time: u64,
    /// Least number of entries lost before this page.
    pub missed: u64,
    broken: bool,
}

impl<'a> Entries<'a> {
    /// `None` if the page's header is incomplete, or claims too many bytes.
    pub fn new(page: &'a [u8], layout: &PageLayout) -> Option<Self> {
        let time = layout.timestamp.number(page)?;
        let commit = layout.commit.number(page)?;
        let data = page.get(layout.data.start..)?;
        let length = usize::try_from(commit & LENGTH_MASK).ok()?;
        let (rest, behind) = data.split_at_checked(length)?;
        let stored = || Some(u64::from_ne_bytes(*behind.first_chunk()?));
        let missed = match (commit & MISSED != 0, commit & MISSED_STORED != 0) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => stored()?.max(1),
        };
        Some(Self { rest, time, missed, broken: false })
    }

    /// True if reading ended at an invalid entry.
    pub const fn broken(&self) -> bool {
        self.broken
    }

    /// Takes the next word.
    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_ne_bytes(*word))
    }

    /// `None` for an invalid entry; `Some(None)` for an entry without data.
    fn step(&mut self) -> Option<Option<&'a [u8]>> {
        let head = self.word()?;
        // The kernel declares bit fields; compilers begin at the low end of the number on
        // little-endian machines, and at the high end on others.
        let (kind, delta) = if cfg!(target_endian = "big") {
            (head >> 27, head & ((1 << 27) - 1))
        } else {
            (head & 0x1F, head >> 5)
        };
        let delta = u64::from(delta);
        match kind {
            0 => {
                self.time = self.time.wrapping_add(delta);
                // The length includes its own word.
                let length = (self.word()? as usize).checked_sub(4)?;
                self.take(length).map(Some)
            }
            1..=TYPE_DATA_MAX => {
                self.time = self.time.wrapping_add(delta);
                self.take(kind as usize * 4).map(Some)
            }
            // Without a time: the rest of the page is empty.
            TYPE_PADDING if delta == 0 => {
                self.rest = &[];
                Some(None)
            }
            TYPE_PADDING => {
                self.time = self.time.wrapping_add(delta);
                let length = self.word()? as usize;
                self.take(length.checked_sub(4)?)?;
                Some(None)
            }
            TYPE_EXTEND => {
                let high = u64::from(self.word()?);
                self.time = self.time.wrapping_add(high << 27 | delta);
                Some(None)
            }
            _ => {
                let high = u64::from(self.word()?);
                self.time = (self.time & STAMP_TOP) | (high << 27 | delta);
                Some(None)
            }
        }
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }
}

impl<'a> Iterator for Entries<'a> {
    /// Nanoseconds of the trace clock, and the entry's bytes.
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            match self.step() {
                Some(Some(bytes)) => return Some((self.time, bytes)),
                Some(None) => {}
                None => {
                    self.broken = true;
                    self.rest = &[];
                }
            }
        }
        None
    }
}

#[cfg(all(test, target_endian = "little"))]
#[allow(clippy::unwrap_used, reason = "tests fail by panic")]
mod tests {
    use super::*;

    fn layout() -> PageLayout {
        PageLayout::parse(PageLayout::EXAMPLE).unwrap()
    }

    fn page(time: u64, flags: u64, words: &[u32]) -> Vec<u8> {
        let mut page = time.to_ne_bytes().to_vec();
        page.extend(((words.len() as u64 * 4) | flags).to_ne_bytes());
        page.extend(words.iter().flat_map(|w| w.to_ne_bytes()));
        page
    }

    fn read(page: &[u8]) -> (Vec<(u64, Vec<u8>)>, bool) {
        let mut entries = Entries::new(page, &layout()).unwrap();
        let found = entries.by_ref().map(|(t, b)| (t, b.to_vec())).collect();
        (found, entries.broken())
    }

    const fn head(kind: u32, delta: u32) -> u32 {
        delta << 5 | kind
    }

    #[test]
    fn every_kind_of_entry() {
        let words = [
            head(1, 5),
            0xAAAA,
            head(30, 3), // + 3 + 2 * 2^27
            2,
            head(2, 1),
            1,
            2,
            head(29, 7), // padding: length word and 4 bytes
            8,
            0xDEAD,
            head(0, 10), // 8 bytes, its length in a word
            12,
            3,
            4,
            head(31, 9), // at 9 + 4 * 2^27
            4,
            head(1, 1),
            0xBBBB,
            head(29, 0), // the rest is nothing
            head(1, 1),
            0xCCCC,
        ];
        let (found, broken) = read(&page(1000, 0, &words));
        let b = |words: &[u32]| words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<_>>();
        let second = 1000 + 5 + 3 + (2 << 27) + 1;
        let fourth = 9 + (4 << 27) + 1;
        assert_eq!(
            found,
            [
                (1005, b(&[0xAAAA])),
                (second, b(&[1, 2])),
                (second + 7 + 10, b(&[3, 4])),
                (fourth, b(&[0xBBBB])),
            ]
        );
        assert!(!broken);
        // An absolute stamp lacks the top bits, which come from the page.
        let (found, _) = read(&page(1 << 60 | 77, 0, &[head(31, 9), 0, head(1, 1), 0]));
        assert_eq!(found[0].0, (1 << 60) + 10);
    }

    #[test]
    fn lost_entries_are_told() {
        let missed = |p: &[u8]| Entries::new(p, &layout()).map(|e| e.missed);
        assert_eq!(missed(&page(1, 0, &[])), Some(0));
        // The kernel adds a negative int: all bits above are set too.
        assert_eq!(missed(&page(1, MISSED | !0 << 32, &[])), Some(1));
        let mut told = page(1, MISSED | MISSED_STORED, &[head(1, 1), 2]);
        assert_eq!(missed(&told), None, "it promises a number that is not there");
        told.extend(15u64.to_ne_bytes());
        assert_eq!(missed(&told), Some(15));
    }

    #[test]
    fn what_ends_too_soon_is_broken_and_nothing_else() {
        let words = [head(1, 5), 1, head(30, 3), 2, head(0, 1), 12, 3, 4, head(29, 2), 8, 0];
        let whole = page(7, 0, &words);
        let (all, _) = read(&whole);
        for cut in 0..whole.len() {
            // The header claims more than there is.
            assert!(Entries::new(&whole[..cut], &layout()).is_none(), "{cut}");
            // The header is right, and the data ends inside an entry.
            let Some(rest) = cut.checked_sub(16) else { continue };
            let mut short = whole[..cut].to_vec();
            short[8] = rest as u8;
            let (found, broken) = read(&short);
            assert_eq!(found, all[..found.len()], "{cut}");
            assert_eq!(broken, ![0, 8, 16, 32].contains(&rest), "{cut}");
        }
        // Impossible lengths.
        for length in [0, 3, u32::MAX] {
            assert!(read(&page(1, 0, &[head(0, 1), length, 0])).1, "{length}");
            assert!(read(&page(1, 0, &[head(29, 1), length, 0])).1, "{length}");
        }
    }
}
