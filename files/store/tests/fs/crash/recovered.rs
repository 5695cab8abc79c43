//! The states after a power loss: damaged at random, recovered by the driver's rules, and read.

use std::collections::BTreeSet;
use std::rc::Rc;

use rand::Rng;
use rand::seq::IndexedRandom;
use rand_pcg::Pcg64Mcg;
use seekless_block::SimTime;
use seekless_store::format::{Geometry, RecordPage};
use seekless_store::{Ask, AttachError, Fault, FileNumber, Reply, StoreOnDevice, superblock};

use super::{Content, Inode, Ordered, config};
use crate::medium::Image;

/// Damages a used sector. True if the sector may belong to the last batch of the log.
pub(super) fn damage(image: &mut Image, rng: &mut Pcg64Mcg) -> bool {
    let (_, geometry) = superblock(image).unwrap();
    let used: Vec<usize> =
        (0..image.0.len()).filter(|&i| image.0[i].iter().any(|b| *b != 0)).collect();
    // Mostly metadata, of which there is less.
    let meta = geometry.clusters_at().0 as usize;
    let few: Vec<usize> = used.iter().copied().filter(|i| *i < meta).collect();
    let at = *if rng.random_ratio(2, 3) { &few } else { &used }.choose(rng).unwrap();
    let mut last = (0, Vec::new());
    for page in geometry.log_at()..geometry.log_at() + u64::from(geometry.log_pages) {
        let mut bytes = [0; 4_096];
        seekless_block::Device::read(image, Geometry::pages(page, 1), &mut bytes).unwrap();
        if let Ok(read) = RecordPage::decode(&bytes) {
            if read.number > last.0 {
                last = (read.number, Vec::new());
            }
            if read.number == last.0 {
                last.1.push(page);
            }
        }
    }
    let mut sector = *image.0[at];
    sector[rng.random_range(0..512)] ^= 1 << rng.random_range(0..8);
    image.0[at] = Rc::new(sector);
    // A torn batch leaves pages with its own number: then the batch before it is the last.
    let page = at as u64 / 8;
    let in_log =
        (geometry.log_at()..geometry.log_at() + u64::from(geometry.log_pages)).contains(&page);
    in_log && (last.1.contains(&page) || has_number(image, page, last.0))
}

/// Whether the damaged page itself has the number of the last batch, or a later one.
fn has_number(image: &mut Image, page: u64, last: u64) -> bool {
    let mut bytes = [0; 4_096];
    seekless_block::Device::read(image, Geometry::pages(page, 1), &mut bytes).unwrap();
    let number = u64::from_le_bytes(std::array::from_fn(|i| bytes[16 + 16 + 1 + i]));
    number + 1 >= last
}

pub(super) struct Found {
    pub(super) files: Vec<Result<Option<Content>, String>>,
    pub(super) dead: u64,
}

/// Attaches the store, settles the files on their way, and reads all files.
pub(super) fn look(
    image: Image,
    mut other: Vec<Ordered>,
    unlinked: &BTreeSet<FileNumber>,
    rng: &mut Pcg64Mcg,
) -> Result<Found, AttachError> {
    let mut store = StoreOnDevice::attach(image, || true, config(rng))?;
    recover(&mut store, &mut other);
    let mut claimed = BTreeSet::new();
    let mut files = Vec::new();
    for inode in &other {
        files.push(match inode.now() {
            None => Ok(None),
            Some(Inode { content, marker: None }) => Ok(Some(Rc::clone(content))),
            Some(Inode { marker: Some(file), .. }) => {
                claimed.insert(*file);
                match store.ask(SimTime(1), Ask::Read { file: *file, offset: 0, len: 1 << 17 }) {
                    Ok(Reply::Data(data)) => Ok(Some(Rc::new(data))),
                    Err(Fault::Damaged { .. }) => Err("damaged".to_owned()),
                    other => Err(format!("its marker names {file:?}: {other:?}")),
                }
            }
        });
    }
    // Exactly one place: an entry without a marker is dead, because its inode is removed.
    let mut dead = 0;
    for (number, file) in store.group_store().files() {
        if !claimed.contains(&number) {
            if !unlinked.contains(&number) {
                let id: usize = std::str::from_utf8(&file.name).unwrap().parse().unwrap();
                files[id] =
                    Err(format!("in two places: {number:?} {:?} is not its marker", file.state));
            }
            dead += 1;
        }
    }
    Ok(Found { files, dead })
}

pub(super) fn recover(
    store: &mut StoreOnDevice<Image, impl FnMut() -> bool>,
    other: &mut [Ordered],
) {
    for number in store.group_store().unsettled() {
        let id: usize = std::str::from_utf8(&store.group_store().file(number).unwrap().name)
            .unwrap()
            .parse()
            .unwrap();
        let marked = other[id].now().is_some_and(|i| i.marker == Some(number));
        let ask = if marked {
            other[id].set(Some(Inode { content: Rc::default(), marker: Some(number) }));
            Ask::Settle { files: vec![number] }
        } else {
            Ask::Remove { file: number }
        };
        store.ask(SimTime(1), ask).unwrap();
    }
}
