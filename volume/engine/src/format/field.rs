//! One definition of a page's fields gives its struct, its codec and its table in the document.

use super::FormatError;

/// A value with a fixed number of bytes, little endian.
pub(super) trait Field: Sized {
    /// The length.
    const BYTES: usize;
    /// The type's name in the document.
    const FORMAT: &'static str;
    /// The number of values in a row.
    const COUNT: usize = 1;
    /// Writes it to `out`, which has `BYTES` bytes.
    fn put(&self, out: &mut [u8]);
    /// Reads a value from `BYTES` bytes.
    ///
    /// # Errors
    /// The expected values, if the bytes are none.
    fn get(bytes: &[u8]) -> Result<Self, &'static str>;
    /// The value as a number, if it is one.
    fn number(&self) -> Option<u64> {
        None
    }
}

/// A field as the document shows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) at: usize,
    pub(super) bytes: usize,
    pub(super) name: &'static str,
    pub(super) format: &'static str,
    pub(super) count: usize,
    pub(super) limits: Option<(u64, u64)>,
    pub(super) about: &'static [&'static str],
}

impl Part {
    /// The field's bytes within the page.
    pub(super) const fn range(&self) -> std::ops::Range<usize> {
        self.at..self.at + self.bytes
    }
}

/// A page as the document shows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) name: &'static str,
    pub(super) kind: u16,
    pub(super) about: &'static [&'static str],
    pub(super) parts: &'static [Part],
}

impl Layout {
    /// Whether the fields stand in order, behind the frame, without overlap, within the page.
    pub(super) const fn is_sound(&self) -> bool {
        let (mut i, mut end) = (0, super::FIELDS_AT);
        while i < self.parts.len() {
            let part = &self.parts[i];
            if part.at < end {
                return false;
            }
            end = part.at + part.bytes;
            i += 1;
        }
        end <= seekless_block::PAGE_BYTES as usize
    }

    /// The field that begins at a byte.
    pub(super) const fn part(&self, at: usize) -> Part {
        let mut i = 0;
        while self.parts[i].at != at {
            i += 1;
        }
        self.parts[i]
    }
}

/// Reads one field and checks its range.
pub(super) fn read<T: Field>(
    page: &super::Page,
    layout: &Layout,
    at: usize,
) -> Result<T, FormatError> {
    let part = layout.part(at);
    let bytes = &page[part.range()];
    let wrong = |found: String, expected: String| FormatError::Field {
        page: layout.name,
        field: part.name,
        found,
        expected,
    };
    let value = T::get(bytes).map_err(|expected| {
        let shown = &bytes[..bytes.len().min(16)];
        wrong(format!("{shown:02x?}"), expected.to_owned())
    })?;
    if let (Some((low, high)), Some(number)) = (part.limits, value.number())
        && !(low..=high).contains(&number)
    {
        return Err(wrong(number.to_string(), format!("{low} to {high}")));
    }
    Ok(value)
}

/// `page! { /// about  Name "shown name" = kind, check; /// about  at field: type where low..=high,
/// ... }`
macro_rules! page {
    ($(#[doc = $about:literal])+ $name:ident $shown:literal = $kind:literal, $check:expr;
     $($(#[doc = $what:literal])+ $at:literal $field:ident: $type:ty $(where $low:literal..=$high:expr)?,)+) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[doc = $what])+ pub $field: $type,)+
        }

        impl $name {
            pub(super) const LAYOUT: $crate::format::field::Layout = $crate::format::field::Layout {
                name: $shown,
                kind: $kind,
                about: &[$($about),+],
                parts: &[$(
                    $crate::format::field::Part {
                        at: $at,
                        bytes: <$type as $crate::format::field::Field>::BYTES,
                        name: stringify!($field),
                        format: <$type as $crate::format::field::Field>::FORMAT,
                        count: <$type as $crate::format::field::Field>::COUNT,
                        limits: $crate::format::field::limits!($($low, $high)?),
                        about: &[$($what),+],
                    },
                )+],
            };

            /// Fills a page and returns its checksum.
            ///
            /// # Panics
            /// If the fields contradict each other, so that nobody could read the page: a bug.
            pub fn encode(&self, page: &mut $crate::format::Page) -> u32 {
                let check: fn(&Self) -> Result<(), $crate::format::FormatError> = $check;
                let checked = check(self);
                assert!(checked.is_ok(), "{checked:?}");
                self.fill(page);
                let sum = $crate::format::seal(page, $kind);
                debug_assert_eq!(Self::decode(page).as_ref(), Ok(self));
                sum
            }

            /// All bytes of the page but its frame.
            fn fill(&self, page: &mut $crate::format::Page) {
                use $crate::format::field::Field as _;
                page.fill(0);
                $(self.$field.put(&mut page[const { Self::LAYOUT.part($at).range() }]);)+
            }

            /// Reads a page.
            ///
            /// # Errors
            /// If [`Self::encode`] cannot have written the bytes; see
            /// [`FormatError`](crate::format::FormatError).
            pub fn decode(bytes: &[u8]) -> Result<Self, $crate::format::FormatError> {
                let page = $crate::format::open(bytes, $shown, $kind)?;
                let read = Self {
                    $($field: $crate::format::field::read(page, &Self::LAYOUT, $at)?,)+
                };
                let check: fn(&Self) -> Result<(), $crate::format::FormatError> = $check;
                check(&read)?;
                // Bytes outside of all fields must be zero: else the next write would lose them.
                let mut again = [0; seekless_block::PAGE_BYTES as usize];
                read.fill(&mut again);
                let fields = $crate::format::FIELDS_AT..;
                let (held, written) = (&page[fields.clone()], &again[fields]);
                // All at once first: recovery reads many pages, and nearly all are right.
                if held == written {
                    return Ok(read);
                }
                let same = held.iter().zip(written).take_while(|(a, b)| a == b).count();
                let at = $crate::format::FIELDS_AT + same;
                Err($crate::format::FormatError::Reserved { page: $shown, at })
            }
        }

        const _: () = assert!($name::LAYOUT.is_sound());
    };
}

macro_rules! limits {
    () => {
        None
    };
    ($low:expr, $high:expr) => {
        Some(($low as u64, $high as u64))
    };
}

pub(super) use {limits, page};
