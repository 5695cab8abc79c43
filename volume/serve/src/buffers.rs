//! Reusable buffers: after warm-up, no request allocates.

/// The smallest class; classes double up to [`LARGEST`].
const SMALLEST: usize = 4096;
/// The largest class: the longest payload of a request.
const LARGEST: usize = 32 << 20;
/// Most bytes kept per class.
const KEPT_BYTES: usize = 16 << 20;
/// Buffers below this length come from memory that the allocator shares out in small pieces.
const SMALL: usize = 128 << 10;
/// Bytes of small buffers given up until the allocator gives free memory back to the host.
const TRIM_EVERY: usize = 8 << 20;

/// Free buffers by size.
#[derive(Debug)]
pub(crate) struct Buffers {
    classes: Vec<Vec<Vec<u8>>>,
    kept: usize,
    kept_most: usize,
    /// Bytes handed out.
    out: usize,
    /// Bytes of small buffers given up since the last trim.
    given_up: usize,
}

impl Buffers {
    /// Keeps at most this number of bytes for reuse.
    pub(crate) fn new(kept_most: usize) -> Self {
        let classes = class_of(LARGEST) + 1;
        let classes = (0..classes).map(|c| Vec::with_capacity(kept(c))).collect();
        Self { classes, kept: 0, kept_most, out: 0, given_up: 0 }
    }

    /// A buffer of at least `len` bytes; its content is undefined.
    pub(crate) fn take(&mut self, len: usize) -> Vec<u8> {
        let class = class_of(len);
        let buf = match self.classes.get_mut(class).and_then(Vec::pop) {
            Some(buf) => {
                self.kept -= buf.len();
                buf
            }
            None => vec![0; size_of(len)],
        };
        self.out += buf.len();
        buf
    }

    /// Keeps a buffer for reuse, or gives its memory up.
    pub(crate) fn give(&mut self, buf: Vec<u8>) {
        // A buffer of another front end was never handed out.
        self.out = self.out.saturating_sub(buf.len());
        let class = class_of(buf.len());
        if buf.len() == SMALLEST << class
            && let Some(free) = self.classes.get_mut(class)
            && free.len() < kept(class)
            && self.kept + buf.len() <= self.kept_most
        {
            self.kept += buf.len();
            free.push(buf);
        } else if buf.len() < SMALL {
            self.given_up += buf.len();
            drop(buf);
            if self.given_up > TRIM_EVERY {
                self.given_up = 0;
                seekless_host::pressure::trim_freed_memory();
            }
        }
    }

    /// Bytes handed out and kept.
    pub(crate) const fn bytes(&self) -> usize {
        self.out + self.kept
    }
}

/// The memory that a buffer of this length takes.
pub(crate) fn size_of(len: usize) -> usize {
    if len > LARGEST { len } else { SMALLEST << class_of(len) }
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
        let mut buffers = Buffers::new(64 << 20);
        for len in [1, 4096, 4097, 65_536, 1 << 20, (32 << 20) - 1, 32 << 20, 40 << 20] {
            let mut buf = buffers.take(len);
            assert!(buf.len() >= len);
            assert_eq!(buf.len(), size_of(len));
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

    #[test]
    fn no_more_is_kept_than_may_be() {
        let mut buffers = Buffers::new(3 << 20);
        let taken: Vec<_> = (0..8).map(|_| buffers.take(1 << 20)).collect();
        assert_eq!(buffers.bytes(), 8 << 20);
        taken.into_iter().for_each(|buf| buffers.give(buf));
        assert_eq!(buffers.bytes(), 3 << 20);
    }
}
