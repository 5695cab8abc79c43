//! The device descriptions that come with seekless, embedded in the program. A caller that reads
//! description files passes their text to [`DeviceSpec::parse`].

use seekless_block::{Bytes, Sectors};

use crate::device::{DeviceSpec, Kind};
use crate::spec::DiskSpec;
use crate::spec_text::SpecError;

const ENTRIES: [(&str, &str); 20] = [
    ("wd800jb", include_str!("../catalogue/wd800jb.toml")),
    ("wd2500aaks", include_str!("../catalogue/wd2500aaks.toml")),
    ("wd360gd", include_str!("../catalogue/wd360gd.toml")),
    ("maxtor-6l020", include_str!("../catalogue/maxtor-6l020.toml")),
    ("atlas15k", include_str!("../catalogue/atlas15k.toml")),
    ("atlas10k", include_str!("../catalogue/atlas10k.toml")),
    ("cheetah9lp", include_str!("../catalogue/cheetah9lp.toml")),
    ("cheetah15k5", include_str!("../catalogue/cheetah15k5.toml")),
    ("rz55", include_str!("../catalogue/rz55.toml")),
    ("disk1000", include_str!("../catalogue/disk1000.toml")),
    ("toshiba-pccard", include_str!("../catalogue/toshiba-pccard.toml")),
    ("travelstar-5k320", include_str!("../catalogue/travelstar-5k320.toml")),
    ("exos-x20", include_str!("../catalogue/exos-x20.toml")),
    ("exos-2x18", include_str!("../catalogue/exos-2x18.toml")),
    ("archive-8tb", include_str!("../catalogue/archive-8tb.toml")),
    ("sata-ssd", include_str!("../catalogue/sata-ssd.toml")),
    ("cloud-hdd", include_str!("../catalogue/cloud-hdd.toml")),
    ("cloud-hdd-metered", include_str!("../catalogue/cloud-hdd-metered.toml")),
    ("cloud-ssd", include_str!("../catalogue/cloud-ssd.toml")),
    ("object-store", include_str!("../catalogue/object-store.toml")),
];

/// Minimum size of a modern disk, 80 GB. Smaller disks are in the catalogue for the papers.
const OLDEST: Sectors = Sectors(80_000_000_000 / 512);

/// The catalogue has no such entry, or the entry cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say the same")]
pub enum CatalogueError {
    #[error("no disk is called '{0}'; there are {known}", known = names().collect::<Vec<_>>().join(", "))]
    Unknown(String),
    #[error("'{0}' is a device of kind {1}; this needs a device of kind disk")]
    NoDisk(String, Kind),
    #[error(transparent)]
    Spec(#[from] SpecError),
}

/// The names of all entries, in the order of the catalogue.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().map(|e| e.0)
}

/// The text of an entry.
pub fn text(name: &str) -> Option<&'static str> {
    ENTRIES.iter().find(|e| e.0 == name).map(|e| e.1)
}

/// The names of the disks with one arm and no media cache.
pub fn disks() -> impl Iterator<Item = &'static str> {
    names().filter(|name| get(name).is_ok())
}

/// Finds an entry of any kind by name.
pub fn device(name: &str) -> Result<DeviceSpec, CatalogueError> {
    let text = text(name).ok_or_else(|| CatalogueError::Unknown(name.to_owned()))?;
    Ok(DeviceSpec::parse(&format!("{name}.toml"), text)?)
}

/// Finds a disk with one arm and no media cache by name.
pub fn get(name: &str) -> Result<DiskSpec, CatalogueError> {
    match device(name)? {
        DeviceSpec::Disk(spec) if spec.kind == Kind::Disk => Ok(spec),
        other => Err(CatalogueError::NoDisk(name.to_owned(), other.kind())),
    }
}

/// A disk of the catalogue for a device of this size: the smallest that is large enough, otherwise
/// the largest.
pub fn stand_in(size: Bytes) -> Result<DeviceSpec, CatalogueError> {
    let mut modern: Vec<DiskSpec> = disks().map(get).collect::<Result<_, _>>()?;
    modern.retain(|d| d.capacity_sectors >= OLDEST.0);
    modern.sort_by_key(|d| d.capacity_sectors);
    let last = modern.len() - 1;
    let at = modern.iter().position(|d| Sectors(d.capacity_sectors).bytes() >= size);
    Ok(modern.swap_remove(at.unwrap_or(last)).into())
}

/// A nearline disk of today, for a rotating disk of which only the size is known. Beyond the size of
/// the catalogue's disk it has more heads: the same seeks over more sectors.
pub fn nearline(size: Bytes) -> Result<DiskSpec, CatalogueError> {
    let mut disk = get("exos-x20")?;
    let (has, heads) = (disk.capacity_sectors, disk.geometry.heads);
    let more = size.sectors_ceil().0.div_ceil(has / u64::from(heads));
    if let Ok(more @ 1..) = u32::try_from(more)
        && more > heads
    {
        disk.geometry.heads = more;
        disk.capacity_sectors = has / u64::from(heads) * u64::from(more);
    }
    Ok(disk)
}
