//! Reusable buffers: after warm-up, no request allocates.

/// The smallest class; classes double up to [`LARGEST`].
const SMALLEST: usize = 4096;
/// The largest class: the longest payload of a request.
const LARGEST: usize = 32 << 20;
/// Most bytes kept per class.
const KEPT_BYTES: usize = 16 << 20;
/// Most bytes kept of all classes.
const KEPT_ALL_BYTES: usize = 64 << 20;

/// Free buffers by size.
#[derive(Debug)]
pub(crate) struct Buffers {
    classes: Vec<Vec<Vec<u8>>>,
    kept: usize,
}

impl Buffers {
    pub(crate) fn new() -> Self {
        let classes = class_of(LARGEST) + 1;
        Self { classes: (0..classes).map(|c| Vec::with_capacity(kept(c))).collect(), kept: 0 }
    }

    /// A buffer of at least `len` bytes; its content is undefined.
    pub(crate) fn take(&mut self, len: usize) -> Vec<u8> {
        let class = class_of(len);
        match self.classes.get_mut(class).and_then(Vec::pop) {
            Some(buf) => {
                self.kept -= buf.len();
                buf
            }
            None => vec![0; if len > LARGEST { len } else { SMALLEST << class }],
        }
    }

    /// Keeps a buffer for reuse.
    pub(crate) fn give(&mut self, buf: Vec<u8>) {
        let class = class_of(buf.len());
        if buf.len() == SMALLEST << class
            && let Some(free) = self.classes.get_mut(class)
            && free.len() < kept(class)
            && self.kept + buf.len() <= KEPT_ALL_BYTES
        {
            self.kept += buf.len();
            free.push(buf);
        }
    }
}

/// The smallest class that holds `len` bytes.
fn class_of(len: usize) -> usize {
    (len.max(SMALLEST).next_power_of_two() / SMALLEST).trailing_zeros() as usize
}

/// Number of buffers kept in a class.
fn kept(class: usize) -> usize {
    (KEPT_BYTES / (SMALLEST << class)).clamp(1, 256)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_and_are_large_enough() {
        let mut buffers = Buffers::new();
        for len in [1, 4096, 4097, 65_536, 1 << 20, (32 << 20) - 1, 32 << 20, 40 << 20] {
            let mut buf = buffers.take(len);
            assert!(buf.len() >= len);
            buf[0] = 0x5A;
            buffers.give(buf);
            let again = buffers.take(len);
            assert_eq!(again[0] == 0x5A, len <= LARGEST, "{len}");
        }
        for _ in 0..1000 {
            buffers.give(vec![0; SMALLEST]);
        }
        assert_eq!(buffers.classes[0].len(), 256);
    }
}
