//! Records come back as they were written, damage is refused, and nothing panics.

use proptest::prelude::*;
use seekless_block::Sectors;

use super::*;
use crate::FileNumber;

fn change() -> impl Strategy<Value = Change> {
    let number =
        (1u64..1 << 32, any::<u32>()).prop_map(|(count, place)| count << 32 | u64::from(place));
    let file = (
        number.clone(),
        1u32..,
        0u32..=65_536,
        any::<[u32; 3]>(),
        any::<[i64; 3]>(),
        0u8..3,
        prop::collection::vec(any::<u8>(), 0..80),
    )
        .prop_map(
            |(
                number,
                group,
                size,
                [mode, uid, gid],
                [accessed, modified, changed],
                state,
                name,
            )| {
                let name_bytes = name.len() as u16;
                let record = FileRecord {
                    number,
                    group,
                    size,
                    mode,
                    uid,
                    gid,
                    accessed,
                    modified,
                    changed,
                    state,
                    name_bytes,
                };
                Change::File(record, name.into())
            },
        );
    let slots = prop::collection::vec((number.clone(), 0u32..9_000), 1..=64);
    let group = (1u32.., any::<u32>(), 1u16.., any::<u32>(), slots).prop_map(
        |(group, cluster, clusters, sum, sizes)| {
            let mut end = 0;
            let slots: Vec<SlotRecord> = sizes
                .into_iter()
                .map(|(number, bytes)| {
                    let offset = end;
                    end += bytes;
                    SlotRecord { number: FileNumber(number), offset, bytes }
                })
                .collect();
            let files = slots.len() as u16;
            Change::Group(
                GroupRecord { group, cluster, clusters, bytes: end, sum, files },
                slots.into(),
            )
        },
    );
    prop_oneof![file, number.prop_map(Change::Gone), group]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn records_come_back_as_they_were_written(changes in prop::collection::vec(change(), 0..40), bit in 0usize..32_768) {
        let bodies = pack(&changes);
        let mut back = Vec::new();
        for (index, body) in (0..).zip(bodies) {
            prop_assert!(body.len() <= BODY_BYTES);
            back.extend(records(&body).unwrap());
            let page = RecordPage {
                uuid: [9; 16], role: Role::Log, number: 7, index, pages: 3, batch_sum: 5, checkpoint: 2, body,
            };
            let mut bytes = page.encode();
            prop_assert_eq!(RecordPage::decode(&bytes).unwrap(), page);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(RecordPage::decode(&bytes).is_err());
        }
        prop_assert_eq!(back, changes);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(data in prop::collection::vec(any::<u8>(), 0..5_000)) {
        fuzzing::page(&data);
        fuzzing::body(&data);
    }

    /// Records that are right but for some bytes.
    #[test]
    fn no_records_make_a_reader_panic(
        changes in prop::collection::vec(change(), 1..6), wrong in prop::collection::vec((0usize..400, any::<u8>()), 0..6),
    ) {
        let mut bytes = pack(&changes).concat();
        for (at, byte) in wrong {
            let len = bytes.len();
            bytes[at % len] = byte;
        }
        fuzzing::body(&bytes);
    }

    #[test]
    fn no_store_makes_attaching_panic(data in prop::collection::vec(any::<u8>(), 0..600), low in 0u8..4) {
        let mut data = data;
        // Most of the time something that is read.
        for at in (0..data.len()).step_by(97) {
            data[at] = low.wrapping_add(data[at] % 40);
        }
        fuzzing::store(&data);
    }
}

#[test]
fn what_is_wrong_is_said_in_words() {
    let said = |bytes: &[u8]| records(bytes).unwrap_err().to_string();
    assert_eq!(said(&[9]), "the tag of a record: found 9, expected 1, 2 or 3");
    assert_eq!(said(&[2, 1, 0, 0]), "a file's number is cut off");
    assert_eq!(
        said(&[2, 1, 0, 0, 0, 0, 0, 0, 0]),
        "a file's number: found 1, expected 2^32 or more"
    );
    let geometry = Geometry::fit(Sectors(1 << 16), 65_536).unwrap();
    assert!(geometry.end().0 <= 1 << 16);
    assert_eq!(
        Geometry::fit(Sectors(1 << 16), 4_096).unwrap_err().to_string(),
        "clusters of 4096 bytes: expected 65536 (64 KiB) or 131072 (128 KiB)"
    );
    let small = Geometry::fit(Sectors(100), 65_536).unwrap_err();
    let GeometryError::Small { needed, .. } = small else { panic!("{small}") };
    assert!(Geometry::fit(Sectors(needed / 512), 65_536).is_ok());
    let mut page = [0; 4_096];
    assert!(
        Superblock::decode(&page)
            .unwrap_err()
            .to_string()
            .starts_with("not a page of a group store")
    );
    page[..8].copy_from_slice(&MAGIC);
    assert!(matches!(Superblock::decode(&page), Err(FormatError::Checksum { .. })));
}

/// One page of each kind, as version 1 writes it, and changes to a store.
fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let uuid = std::array::from_fn(|i| i as u8 * 17);
    let superblock = Superblock {
        uuid,
        capacity: Sectors(1 << 20),
        cluster: Sectors(128),
        clusters: 8_000,
        checkpoint_pages: 500,
        log_pages: 500,
        label: std::array::from_fn(|i| if i < 5 { b"small"[i] } else { 0 }),
    };
    let checkpoint = CheckpointHeader {
        uuid,
        generation: 9,
        sequence: 1 << 40,
        log_page: 77,
        pages: 2,
        files: 3,
        groups: 1,
        next_count: 12,
        next_group: 6,
        pointer: 5,
    };
    let file = FileRecord {
        number: 5 << 32 | 1,
        group: 3,
        size: 100,
        mode: 0o100_644,
        uid: 1_000,
        gid: 100,
        accessed: 1,
        modified: -2,
        changed: 3,
        state: 1,
        name_bytes: 4,
    };
    let group =
        GroupRecord { group: 3, cluster: 7, clusters: 1, bytes: 130, sum: 0xDEAD_BEEF, files: 2 };
    let slots = [
        SlotRecord { number: FileNumber(5 << 32 | 1), offset: 0, bytes: 100 },
        SlotRecord { number: FileNumber(6 << 32 | 2), offset: 100, bytes: 30 },
    ];
    let changes = [
        Change::Group(group, slots.into()),
        Change::File(file, (*b"a/b!").into()),
        Change::Gone(9 << 32),
    ];
    let body = pack(&changes).concat();
    let records = |role, number, checkpoint| {
        let (index, pages, batch_sum) = (0, 1, crc_fast::crc32_iscsi(&body));
        let body = body.clone();
        RecordPage { uuid, role, number, index, pages, batch_sum, checkpoint, body }
            .encode()
            .to_vec()
    };
    vec![
        ("page/superblock", superblock.encode().to_vec()),
        ("page/checkpoint", checkpoint.encode().to_vec()),
        ("page/log", records(Role::Log, 41, 9)),
        ("page/tables", records(Role::Checkpoint, 9, 0)),
        ("page/body", body.clone()),
        ("store/log", [&[70, 0, 0, 220][..], &records(Role::Log, 1, 1)[16..236]].concat()),
    ]
}

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");

/// Whoever changes the format without a new version breaks this.
#[test]
#[allow(clippy::disallowed_methods, reason = "tests read the corpus from disk")]
fn version_1_is_written_as_it_always_was() {
    for (name, bytes) in samples() {
        let held = std::fs::read(format!("{CORPUS}/{name}")).unwrap();
        let differs = bytes.iter().zip(&held).position(|(a, b)| a != b);
        assert_eq!(
            (held.len(), differs),
            (bytes.len(), None),
            "{name}: the first byte that differs"
        );
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "tests read the corpus from disk")]
fn the_corpus_breaks_nothing() {
    for (folder, target) in [("page", fuzzing::page as fn(&[u8])), ("store", fuzzing::store)] {
        let mut replayed = 0;
        for file in std::fs::read_dir(format!("{CORPUS}/{folder}")).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            target(&bytes);
            target(&bytes[..bytes.len() / 2]);
            fuzzing::body(&bytes);
            for at in 0..bytes.len().min(256) {
                let mut turned = bytes.clone();
                turned[at] ^= 0xFF;
                target(&turned);
            }
            replayed += 1;
        }
        assert!(replayed > 0, "{folder} has no corpus");
    }
}

/// `files format` would overwrite a device with a store that no mount takes.
#[test]
fn every_store_that_is_made_has_a_superblock_that_is_read() {
    let (mut made, mut large) = (0, 0);
    for power in 12..47 {
        for capacity in [1u64 << power, (1 << power) + 9, 3 << power] {
            for cluster in [65_536, 131_072] {
                let geometry = match Geometry::fit(Sectors(capacity), cluster) {
                    Ok(geometry) => geometry,
                    Err(error) => {
                        large += u32::from(matches!(error, GeometryError::Large(_)));
                        continue;
                    }
                };
                let superblock = Superblock {
                    uuid: [7; 16],
                    capacity: Sectors(capacity),
                    cluster: geometry.cluster,
                    clusters: geometry.clusters,
                    checkpoint_pages: geometry.checkpoint_pages,
                    log_pages: geometry.log_pages,
                    label: [0; 64],
                };
                let read = Superblock::decode(&superblock.encode());
                assert!(
                    read.is_ok_and(|read| read == superblock),
                    "{capacity} sectors: {geometry:?}"
                );
                made += 1;
            }
        }
    }
    assert!(made > 100 && large > 10, "{made} made, {large} too large");
}
