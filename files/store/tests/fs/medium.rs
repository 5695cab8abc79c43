//! A device with a volatile write cache, and every state that a power loss can leave. Until a flush
//! covers a write, each of its sectors may be on the medium or not, independently of others. As in
//! volume/sim/tests/enumerator.

use std::rc::Rc;

use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_pcg::Pcg64Mcg;
use seekless_block::{Device, DeviceError, Extent, Sectors};

pub(crate) type Sector = Rc<[u8; 512]>;

/// The contents of a device, for synchronous reads and writes.
#[derive(Clone, Debug)]
pub(crate) struct Image(pub(crate) Vec<Sector>);

impl Image {
    pub(crate) fn zeroed(sectors: u64) -> Self {
        // Sectors are never changed in place: all can share one.
        let zero: Sector = Rc::new([0; 512]);
        Self((0..sectors).map(|_| Rc::clone(&zero)).collect())
    }
}

fn range(e: Extent) -> std::ops::Range<usize> {
    e.start.0 as usize..e.end().0 as usize
}

impl Device for Image {
    fn capacity(&self) -> Sectors {
        Sectors(self.0.len() as u64)
    }
    fn read(&mut self, extent: Extent, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check(extent, buf.len())?;
        for (s, to) in self.0[range(extent)].iter().zip(buf.chunks_mut(512)) {
            to.copy_from_slice(&s[..]);
        }
        Ok(())
    }
    fn write(&mut self, extent: Extent, buf: &[u8]) -> Result<(), DeviceError> {
        self.check(extent, buf.len())?;
        for (s, from) in self.0[range(extent)].iter_mut().zip(buf.chunks(512)) {
            *s = Rc::new(from.try_into().unwrap());
        }
        Ok(())
    }
    fn flush(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

#[derive(Clone, Debug)]
struct Unflushed {
    ticket: u64,
    start: usize,
    sectors: Vec<Sector>,
    done: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Medium {
    flushed: Image,
    pub(crate) current: Image,
    /// Finished writes in their order, then writes in flight.
    unflushed: Vec<Unflushed>,
    clock: u64,
}

impl Medium {
    pub(crate) fn new(image: Image) -> Self {
        Self { current: image.clone(), flushed: image, unflushed: Vec::new(), clock: 0 }
    }

    /// Counts starts and ends: equal values, equal states.
    pub(crate) const fn clock(&self) -> u64 {
        self.clock
    }

    pub(crate) fn start_write(&mut self, extent: Extent, bytes: &[u8]) -> u64 {
        self.clock += 1;
        assert!(extent.end().0 <= self.current.0.len() as u64, "a write past the end: {extent}");
        let sectors = bytes.chunks(512).map(|s| Rc::new(s.try_into().unwrap())).collect();
        let start = extent.start.0 as usize;
        self.unflushed.push(Unflushed { ticket: self.clock, start, sectors, done: None });
        self.clock
    }

    pub(crate) fn finish_write(&mut self, ticket: u64) {
        self.clock += 1;
        let at = self.unflushed.iter().position(|w| w.ticket == ticket).unwrap();
        let mut write = self.unflushed.remove(at);
        for (i, s) in write.sectors.iter().enumerate() {
            self.current.0[write.start + i] = Rc::clone(s);
        }
        write.done = Some(self.clock);
        let open = self.unflushed.partition_point(|w| w.done.is_some());
        self.unflushed.insert(open, write);
    }

    pub(crate) const fn start_flush(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub(crate) fn finish_flush(&mut self, ticket: u64) {
        self.clock += 1;
        let flushed = &mut self.flushed;
        self.unflushed.retain(|w| {
            let covered = w.done.is_some_and(|done| done < ticket);
            if covered {
                apply(flushed, w, |_| true);
            }
            !covered
        });
    }

    /// A state that a power loss can leave.
    pub(crate) fn crash(&self, rng: &mut Pcg64Mcg) -> Image {
        let mut image = self.flushed.clone();
        let mut writes: Vec<&Unflushed> = self.unflushed.iter().collect();
        let open = writes.partition_point(|w| w.done.is_some());
        writes[open..].shuffle(rng);
        match rng.random_range(0..7u8) {
            0 => {}
            1 => writes.iter().for_each(|w| apply(&mut image, w, |_| true)),
            // A prefix of the writes, and a part of the next.
            2 | 3 => {
                let whole = rng.random_range(0..=writes.len());
                writes[..whole].iter().for_each(|w| apply(&mut image, w, |_| true));
                if let Some(torn) = writes.get(whole) {
                    tear(&mut image, torn, rng);
                }
            }
            // All writes but one.
            4 => {
                let without = rng.random_range(0..writes.len().max(1));
                for (i, w) in writes.iter().enumerate() {
                    if i != without {
                        apply(&mut image, w, |_| true);
                    }
                }
            }
            // One write alone.
            5 => {
                if let Some(w) = writes.choose(rng) {
                    apply(&mut image, w, |_| true);
                }
            }
            // Any sectors of any writes.
            _ => {
                writes.shuffle(rng);
                writes.iter().for_each(|w| apply(&mut image, w, |_| rng.random()));
            }
        }
        image
    }
}

fn apply(image: &mut Image, write: &Unflushed, mut keep: impl FnMut(usize) -> bool) {
    for (i, s) in write.sectors.iter().enumerate() {
        if keep(i) {
            image.0[write.start + i] = Rc::clone(s);
        }
    }
}

fn tear(image: &mut Image, write: &Unflushed, rng: &mut Pcg64Mcg) {
    let cut = rng.random_range(0..=write.sectors.len());
    match rng.random_range(0..3u8) {
        0 => apply(image, write, |i| i < cut),
        1 => apply(image, write, |i| i >= cut),
        _ => apply(image, write, |_| rng.random()),
    }
}
