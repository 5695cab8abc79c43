//! Finding the valid superblock.

use seekless_block::{Device, DeviceError, Lba, PAGE_BYTES, PAGE_SECTORS};

use super::geometry::page_extent;
use super::guard::GUARD_REGION_PAGES;
use super::value::AreaId;
use super::{FormatError, Superblock};

/// The fault of one copy.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Problem {
    #[error("cannot be read ({0})")]
    Device(#[from] DeviceError),
    #[error("is not valid: {0}")]
    Format(#[from] FormatError),
    #[error("is of generation {found}, another one of {newer}")]
    Older { found: u64, newer: u64 },
}

/// Why an area has no superblock.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum SuperblockError {
    #[error(
        "no area of seekless at {at}: the superblock in the first page {first}, and there is none in the last page or in the second; if an area was here, run `seekless volume repair`, which searches all pages"
    )]
    None { at: Lba, first: Box<Problem> },
    #[error("the area at {at} is of another version: the superblock in page {page} is {error}")]
    Version { at: Lba, page: u64, error: FormatError },
    #[error(
        "two areas are at {at}: the superblock in page {of} belongs to {a}, that in page {page} to {b}; one of the areas was only half made"
    )]
    Strangers { at: Lba, of: u64, a: AreaId, page: u64, b: AreaId },
}

/// The valid superblock.
#[derive(Debug)]
pub struct Superblocks {
    /// The newest valid copy.
    pub superblock: Superblock,
    /// Its page. A change writes and flushes the other copies before this one: else a crash could
    /// leave no superblock, or only an old one.
    pub page: u64,
    /// The pages and faults of the other copies.
    pub others: Vec<(u64, Problem)>,
}

/// Reads the superblock in a page of an area that begins at sector `at`.
fn copy(device: &mut dyn Device, at: Lba, page: u64) -> Result<Superblock, Problem> {
    let mut bytes = [0; PAGE_BYTES as usize];
    let mut extent = page_extent(page, 1);
    extent.start.0 = extent.start.0.saturating_add(at.0);
    device.read(extent, &mut bytes)?;
    Ok(Superblock::decode(&bytes)?)
}

/// Reads all copies of the superblock of an area that begins at sector `at`, and chooses the one
/// with the highest generation. If the first copy is damaged, the last one is searched at the
/// device's end, with and without a guard region behind it.
///
/// # Errors
/// If none is found, if one has a version that this code does not know, or if they belong to
/// several areas.
pub fn read_superblock(device: &mut dyn Device, at: Lba) -> Result<Superblocks, SuperblockError> {
    let first = match copy(device, at, 0) {
        Ok(first) => return all_of(device, at, 0, first),
        Err(Problem::Format(error @ FormatError::Version { .. })) => {
            return Err(SuperblockError::Version { at, page: 0, error });
        }
        Err(problem) => problem,
    };
    let end = device.capacity().0.saturating_sub(at.0) / PAGE_SECTORS;
    for page in [1, end.saturating_sub(1), end.saturating_sub(1 + GUARD_REGION_PAGES)] {
        match copy(device, at, page) {
            // Of a former area of another size, only one copy can stand there.
            Ok(found) if is_at(&found, page) => {
                let found = all_of(device, at, page, found)?;
                let is_bad = |(_, fault): &&(u64, Problem)| !matches!(fault, Problem::Older { .. });
                if !found.superblock.spread || found.others.iter().filter(is_bad).count() < 2 {
                    return Ok(found);
                }
            }
            Err(Problem::Format(error @ FormatError::Version { .. })) => {
                return Err(SuperblockError::Version { at, page, error });
            }
            _ => {}
        }
    }
    Err(SuperblockError::None { at, first: first.into() })
}

/// Searches all pages of the device for the superblock of an area that begins at sector `at`. This
/// reads up to the whole device.
///
/// # Errors
/// As [`read_superblock`].
pub fn find_superblock(device: &mut dyn Device, at: Lba) -> Result<Superblocks, SuperblockError> {
    let none = match read_superblock(device, at) {
        Err(none @ SuperblockError::None { .. }) => none,
        other => return other,
    };
    let end = device.capacity().0.saturating_sub(at.0) / PAGE_SECTORS;
    let found = (1..end).filter_map(|page| Some((page, copy(device, at, page).ok()?)));
    // After a resize, superblocks of the former division may still stand somewhere.
    let newest = found.filter(|(page, s)| is_at(s, *page)).max_by_key(|(_, s)| s.generation);
    match newest {
        Some((page, superblock)) => all_of(device, at, page, superblock),
        None => Err(none),
    }
}

/// Whether a superblock stands where the area that it describes has one.
fn is_at(superblock: &Superblock, page: u64) -> bool {
    superblock.places().contains(&page)
}

/// The newest of all copies, of which one is known.
fn all_of(
    device: &mut dyn Device,
    at: Lba,
    of: u64,
    known: Superblock,
) -> Result<Superblocks, SuperblockError> {
    let mut places = known.places().to_vec();
    places.dedup();
    let (a, mut found) = (known.uuid, vec![(of, Ok(known))]);
    for page in places.into_iter().filter(|page| *page != of) {
        let read = copy(device, at, page);
        match &read {
            Ok(other) if other.uuid != a => {
                return Err(SuperblockError::Strangers { at, of, a, page, b: other.uuid });
            }
            Err(Problem::Format(error @ FormatError::Version { .. })) => {
                return Err(SuperblockError::Version { at, page, error: error.clone() });
            }
            _ => found.push((page, read)),
        }
    }
    let generation = |read: &Result<Superblock, Problem>| read.as_ref().map_or(0, |s| s.generation);
    let newer = found.iter().map(|(_, read)| generation(read)).max().unwrap_or(0);
    let mut best = None;
    let mut others = Vec::new();
    for (page, read) in found {
        match read {
            Ok(s) if s.generation < newer => {
                others.push((page, Problem::Older { found: s.generation, newer }));
            }
            Ok(s) => best = best.or(Some((page, s))),
            Err(problem) => others.push((page, problem)),
        }
    }
    let Some((page, superblock)) = best else { unreachable!("one is known") };
    Ok(Superblocks { superblock, page, others })
}

#[cfg(test)]
mod tests {
    use seekless_block::{Extent, MemDevice, Sectors};

    use super::*;
    use crate::format::tests::superblock;
    use crate::format::{CHECKSUM_AT, FIELDS_AT, Page, VERSION_AT, computed};

    const AREA: u64 = 8 * 80 + 5;

    fn spread(generation: u64) -> Superblock {
        Superblock { generation, area_size: Sectors(AREA), spread: true, ..superblock() }
    }

    /// A device with copies of the superblock in their places, and `behind` sectors more.
    fn device(at: u64, behind: u64, copies: [Option<&Superblock>; 3]) -> MemDevice {
        let mut device = MemDevice::new(Sectors(at + AREA + behind));
        for (i, superblock) in copies.into_iter().enumerate() {
            if let Some(superblock) = superblock {
                write(&mut device, at, superblock.places()[i], superblock);
            }
        }
        device
    }

    fn write(device: &mut MemDevice, at: u64, page: u64, superblock: &Superblock) {
        let mut bytes = [0; 4096];
        superblock.encode(&mut bytes);
        device.write(Extent::new(at + 8 * page, 8), &bytes).unwrap();
    }

    #[test]
    fn the_three_copies_stand_far_apart() {
        let [first, middle, last] = spread(1).places();
        let geometry = spread(1).geometry().unwrap();
        assert_eq!((first, last), (0, AREA / 8 - 1));
        let before = geometry.page_of(geometry.read_slots() - 1).unwrap();
        let behind = geometry.page_of(geometry.read_slots()).unwrap();
        assert_eq!((before, behind), (middle - 1, middle + 1), "between copies and log");
        assert!(geometry.page_of(geometry.slots() - 1).unwrap() < last);
    }

    #[test]
    fn the_newest_good_superblock_counts() {
        let (old, new) = (spread(77), spread(78));
        let places = new.places();
        for at in [0, 1003] {
            for newest in 0..3 {
                let mut copies = [Some(&old); 3];
                copies[newest] = Some(&new);
                let found = read_superblock(&mut device(at, 0, copies), Lba(at)).unwrap();
                assert_eq!((found.page, &found.superblock), (places[newest], &new));
                assert_eq!(found.others.len(), 2);
                let said = found.others[0].1.to_string();
                assert_eq!(said, "is of generation 77, another one of 78");
            }
            let found = read_superblock(&mut device(at, 0, [Some(&new); 3]), Lba(at)).unwrap();
            assert!(found.others.is_empty() && found.page == 0);
        }
    }

    /// With a guard region behind the area, and without.
    #[test]
    fn zeroes_in_one_place_do_not_end_an_area() {
        let good = spread(78);
        for behind in [0, GUARD_REGION_PAGES * 8] {
            for lost in 0..3 {
                let mut device = device(0, behind, [Some(&good); 3]);
                let at = good.places()[lost] * 8;
                let len = 16.min(AREA + behind - at);
                device.write(Extent::new(at, len), &vec![0; len as usize * 512]).unwrap();
                let found = read_superblock(&mut device, Lba(0)).unwrap();
                assert_eq!((&found.superblock, found.others.len()), (&good, 1), "{lost}");
            }
        }
        // One alone that is not the first: it may be of a former area of another size.
        for left in [1, 2] {
            let mut copies = [None; 3];
            copies[left] = Some(&good);
            let mut device = device(0, 0, copies);
            let said = read_superblock(&mut device, Lba(0)).unwrap_err().to_string();
            assert!(said.contains("not a page of seekless") && said.contains("repair"), "{said}");
            let found = find_superblock(&mut device, Lba(0)).unwrap();
            assert_eq!((found.superblock, found.page), (good.clone(), good.places()[left]));
        }
        assert!(find_superblock(&mut device(0, 0, [None; 3]), Lba(0)).is_err());
    }

    /// Both in the first two pages.
    #[test]
    fn the_superblocks_of_version_2_are_found() {
        let (old, new) = (superblock(), Superblock { generation: 78, ..superblock() });
        assert_eq!(new.places(), [0, 1, 1]);
        for (copies, page) in [
            ([Some(&new), Some(&old)], 0),
            ([Some(&old), Some(&new)], 1),
            ([None, Some(&new)], 1),
            ([Some(&new), None], 0),
        ] {
            let found =
                read_superblock(&mut device(0, 0, [copies[0], copies[1], None]), Lba(0)).unwrap();
            assert_eq!((found.page, &found.superblock), (page, &new));
            assert_eq!(found.others.len(), 1);
        }
    }

    #[test]
    fn a_device_without_an_area_is_refused_with_the_reason() {
        for at in [u64::MAX - 3, 4096] {
            let said = read_superblock(&mut device(0, 0, [None; 3]), Lba(at)).unwrap_err();
            assert!(said.to_string().contains("cannot be read"), "{said}");
        }
    }

    #[test]
    fn a_newer_version_or_a_stranger_in_one_copy_is_refused() {
        let good = spread(78);
        let mut newer: Page = [0; 4096];
        good.encode(&mut newer);
        newer[VERSION_AT] = 5;
        let sum = computed(&newer);
        newer[CHECKSUM_AT..FIELDS_AT].copy_from_slice(&sum.to_le_bytes());
        let stranger = Superblock { uuid: AreaId([9; 16]), ..good.clone() };
        for page in good.places() {
            let mut held = device(0, 0, [Some(&good); 3]);
            held.write(Extent::new(page * 8, 8), &newer).unwrap();
            let said = read_superblock(&mut held, Lba(0)).unwrap_err().to_string();
            let place = format!("the superblock in page {page} is");
            assert!(said.contains("another version") && said.contains(&place), "{said}");
            // A damaged page with a newer version is only damaged.
            held.write(Extent::new(page * 8 + 7, 1), &[1; 512]).unwrap();
            assert_eq!(read_superblock(&mut held, Lba(0)).unwrap().superblock, good);
            write(&mut held, 0, page, &stranger);
            let said = read_superblock(&mut held, Lba(0)).unwrap_err().to_string();
            assert!(said.starts_with("two areas are at sector 0"), "{said}");
        }
    }
}
