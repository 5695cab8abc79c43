//! One definition of a structure on the store gives the struct, its codec and its table in the
//! document.

use seekless_block::Sectors;

use crate::FileNumber;

/// A value with a fixed number of bytes, little endian.
pub(crate) trait Field: Sized {
    const BYTES: usize;
    /// The type's name in the document.
    const FORMAT: &'static str;
    fn put(&self, out: &mut Vec<u8>);
    /// Takes the value off the front; `None` if there are too few bytes.
    fn take(bytes: &mut &[u8]) -> Option<Self>;
}

macro_rules! number {
    ($($type:ty),+) => {
        $(impl Field for $type {
            const BYTES: usize = size_of::<Self>();
            const FORMAT: &'static str = stringify!($type);
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn take(bytes: &mut &[u8]) -> Option<Self> {
                let (own, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some(Self::from_le_bytes(*own))
            }
        })+
    };
}

number!(u8, u16, u32, u64, i64);

impl<const N: usize> Field for [u8; N] {
    const BYTES: usize = N;
    const FORMAT: &'static str = "bytes";
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let (own, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(*own)
    }
}

macro_rules! wrapped {
    ($($type:ident $format:literal),+) => {
        $(impl Field for $type {
            const BYTES: usize = 8;
            const FORMAT: &'static str = $format;
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }
            fn take(bytes: &mut &[u8]) -> Option<Self> {
                u64::take(bytes).map(Self)
            }
        })+
    };
}

wrapped!(Sectors "u64, sectors", FileNumber "u64");

/// A field as the document shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) bytes: usize,
    pub(crate) name: &'static str,
    pub(crate) format: &'static str,
    pub(crate) about: &'static [&'static str],
}

/// A structure as the document shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) name: &'static str,
    pub(crate) about: &'static [&'static str],
    pub(crate) parts: &'static [Part],
}

/// `layout! { /// about  pub Name "shown name" { /// about  field: type, ... } }`: the fields
/// follow each other without gaps.
macro_rules! layout {
    ($(#[doc = $about:literal])+ $vis:vis $name:ident $shown:literal {
        $($(#[doc = $what:literal])+ $field:ident: $type:ty,)+
    }) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        $vis struct $name {
            $($(#[doc = $what])+ $vis $field: $type,)+
        }

        impl $name {
            pub(crate) const BYTES: usize = 0 $(+ <$type as $crate::format::field::Field>::BYTES)+;
            pub(crate) const LAYOUT: $crate::format::field::Layout = $crate::format::field::Layout {
                name: $shown,
                about: &[$($about),+],
                parts: &[$(
                    $crate::format::field::Part {
                        bytes: <$type as $crate::format::field::Field>::BYTES,
                        name: stringify!($field),
                        format: <$type as $crate::format::field::Field>::FORMAT,
                        about: &[$($what),+],
                    },
                )+],
            };

            pub(crate) fn put(&self, out: &mut Vec<u8>) {
                $($crate::format::field::Field::put(&self.$field, out);)+
            }

            pub(crate) fn take(bytes: &mut &[u8]) -> Option<Self> {
                Some(Self { $($field: $crate::format::field::Field::take(bytes)?,)+ })
            }
        }
    };
}

pub(crate) use layout;
