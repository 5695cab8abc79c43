//! Names that drivers give to files. They use little memory: there may be a million.

use std::fmt;
use std::ops::Deref;

/// Length of the longest name without its own allocation: a file handle of ext4, XFS, F2FS or
/// tmpfs, with its kind.
const SHORT: usize = 14;

/// The name of a file: any bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Name(NameBytes);

#[derive(Clone, PartialEq, Eq)]
enum NameBytes {
    Short { len: u8, bytes: [u8; SHORT] },
    Long(Box<Long>),
}

/// One pointer instead of pointer and length.
#[derive(Clone, PartialEq, Eq)]
struct Long(Box<[u8]>);

const _: () = assert!(size_of::<Name>() == 16);

impl Deref for Name {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            NameBytes::Short { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or_default(),
            NameBytes::Long(long) => &long.0,
        }
    }
}

impl From<&[u8]> for Name {
    fn from(name: &[u8]) -> Self {
        let mut bytes = [0; SHORT];
        Self(match bytes.get_mut(..name.len()) {
            Some(part) => {
                part.copy_from_slice(name);
                NameBytes::Short { len: name.len() as u8, bytes }
            }
            None => NameBytes::Long(Box::new(Long(name.into()))),
        })
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_any_length_comes_back_unchanged() {
        for len in [0, 1, SHORT - 1, SHORT, SHORT + 1, 200] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8 ^ 0x5a).collect();
            assert_eq!(*Name::from(&bytes[..]), bytes[..]);
            assert_eq!(Name::from(&bytes[..]).clone(), Name::from(&bytes[..]));
        }
    }
}
