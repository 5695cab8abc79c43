//! Pages and groups that the device cannot read.

use seekless_store::{AttachError, examine};

use super::*;

/// A device with an extent that cannot be read.
struct Unreadable {
    image: Image,
    extent: Extent,
}

impl Device for Unreadable {
    fn capacity(&self) -> Sectors {
        self.image.capacity()
    }
    fn read(&mut self, extent: Extent, buf: &mut [u8]) -> Result<(), DeviceError> {
        if extent.overlaps(self.extent) {
            let (op, source) = ("reading", std::io::ErrorKind::Other.into());
            return Err(DeviceError::Io { op, extent, source });
        }
        self.image.read(extent, buf)
    }
    fn write(&mut self, extent: Extent, buf: &[u8]) -> Result<(), DeviceError> {
        self.image.write(extent, buf)
    }
    fn flush(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// A page that the disk cannot read now may be read later, so no newest changes are given up for it.
#[test]
fn an_unreadable_page_is_an_error_only_where_the_newest_changes_may_be() {
    let (device, geometry) = noted(32);
    let synced: fn() -> bool = || true;
    let mut store = StoreOnDevice::attach(device, synced, config()).unwrap();
    let file = group(&mut store, vec![arrival(vec![1], vec![1; 5_000])])[0];
    store.ask(SimTime(1), Ask::Checkpoint).unwrap();
    let device = store.into_device();
    let checkpointed = device.image.clone();
    let mut store = StoreOnDevice::attach(device, synced, config()).unwrap();
    for mode in [7, 8] {
        let attributes = Attributes { mode, ..Attributes::default() };
        store.ask(SimTime(1), Ask::SetAttributes { file, attributes }).unwrap();
        store.ask(SimTime(1), Ask::Sync { file: None }).unwrap();
    }
    let image = store.into_device().image;
    let batch_at = |page: &u64| {
        let mut bytes = [0; 4_096];
        image.clone().read(Geometry::pages(*page, 1), &mut bytes).unwrap();
        RecordPage::decode(&bytes).is_ok()
    };
    let first = geometry.log_at();
    let pages = first..first + u64::from(geometry.log_pages);
    assert_eq!(pages.filter(batch_at).collect::<Vec<_>>(), [first, first + 1, first + 2]);
    let (middle, last, next) = (first + 1, first + 2, first + 3);
    let attach = |image: &Image, page: u64| {
        let (image, extent) = (image.clone(), Geometry::pages(page, 1));
        let store = GroupStore::attach(&mut Unreadable { image, extent }, config())?;
        let mode = store.file(file).map(|f| f.attributes.mode);
        let newest = store.generation() + u64::from(store.lost_checkpoint());
        assert!(newest >= 2, "page {page}: not taken for an older copy");
        Ok::<_, AttachError>(mode)
    };
    let newest = geometry.checkpoint_at(2);
    for page in [newest, newest + 1] {
        let found = attach(&checkpointed, page).ok();
        assert_eq!(found, Some(Some(0)), "page {page}, no batch since the checkpoint");
    }
    for page in [0, 1, geometry.checkpoint_at(1), next + 9] {
        assert_eq!(attach(&image, page).ok(), Some(Some(8)), "page {page}");
    }
    // Recovery also looks for a batch at the log's first page.
    for page in [first, middle, last, next] {
        let refused = attach(&image, page);
        assert!(
            matches!(refused, Err(AttachError::LogPage { page: at, .. }) if at == page),
            "{page}"
        );
    }
    assert!(matches!(attach(&image, newest), Err(AttachError::Checkpoint(_))));
}

/// The check of a store names all files that are lost.
#[test]
fn a_group_that_cannot_be_read_counts_as_damaged_and_the_others_are_read() {
    let (device, geometry) = noted(32);
    let mut store = StoreOnDevice::attach(device, || true, config()).unwrap();
    let files = [1, 2, 3].map(|i| group(&mut store, vec![arrival(vec![i], vec![i; 5_000])])[0]);
    let mut image = store.into_device().image;
    let clusters = geometry.clusters_at().0 as usize;
    let begins = |byte: u8| {
        let at = image.0[clusters..].iter().position(|s| s.iter().all(|b| *b == byte));
        clusters + at.unwrap()
    };
    let (unreadable, wrong) = (begins(1), begins(3));
    image.0[wrong] = Rc::new([9; 512]);
    let extent = Extent::new(unreadable as u64, 1);
    let found = examine(&mut Unreadable { image, extent }).unwrap();
    let damaged: Vec<_> = found.damaged.into_iter().flat_map(|(_, files)| files).collect();
    assert_eq!(damaged, [files[0], files[2]]);
    assert_eq!((found.files, found.groups, found.bytes), (3, 3, 15_000));
}

/// Each read of a damaged file would look like one more damaged group.
#[test]
fn the_status_counts_groups_that_are_damaged_and_not_their_reads() {
    let (device, geometry) = noted(32);
    let mut store = StoreOnDevice::attach(device, || true, config()).unwrap();
    let files = [1, 2].map(|i| group(&mut store, vec![arrival(vec![i], vec![i; 5_000])])[0]);
    store.ask(SimTime(1), Ask::Sync { file: None }).unwrap();
    let mut image = store.into_device().image;
    let clusters = geometry.clusters_at();
    let at = |image: &Image, byte: u8| {
        image.0.iter().position(|s| s.iter().all(|b| *b == byte)).unwrap() as u64
    };
    let (wrong, unreadable) = (at(&image, 1), at(&image, 2));
    assert!(wrong >= clusters.0 && unreadable >= clusters.0);
    image.0[wrong as usize] = Rc::new([9; 512]);
    let synced: fn() -> bool = || true;
    let device = Unreadable { image, extent: Extent::new(unreadable, 1) };
    let mut store = StoreOnDevice::attach(device, synced, config()).unwrap();
    for _ in 0..3 {
        for file in files {
            let read = store.ask(SimTime(1), Ask::Read { file, offset: 0, len: 9 });
            assert!(matches!(read, Err(Fault::Damaged { .. } | Fault::Read(_))), "{read:?}");
        }
        assert_eq!(store.group_store().stats().damaged, 2);
    }
    store.ask(SimTime(1), Ask::Remove { file: files[0] }).unwrap();
    store.ask(SimTime(1), Ask::Sync { file: None }).unwrap();
    assert_eq!(store.group_store().stats().damaged, 1, "nobody needs the other one");
    let device = Unreadable { extent: Extent::default(), ..store.into_device() };
    let mut store = StoreOnDevice::attach(device, synced, config()).unwrap();
    store.ask(SimTime(1), Ask::Read { file: files[1], offset: 0, len: 9 }).unwrap();
    assert_eq!(store.group_store().stats().damaged, 0);
}
