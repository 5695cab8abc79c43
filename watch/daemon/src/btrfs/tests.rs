//! Leaves as the tool of btrfs dumps them; damaged images.

use std::path::Path;
use std::process::Command;

use super::*;
use crate::scratch::output;

const TREE: u64 = 5;

/// An image with some thousand files, made without a mount.
fn image(dir: &Path, options: &[&str]) -> Option<std::path::PathBuf> {
    if Command::new("mkfs.btrfs").arg("-V").output().is_err() {
        eprintln!("SKIPPED leaves of btrfs: no mkfs.btrfs");
        return None;
    }
    let (root, image) = (dir.join("root"), dir.join("image"));
    for i in 0..3000 {
        let folder = root.join(format!("d{}", i % 20));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{i:050}")), vec![7; i * 3 % 900]).unwrap();
    }
    File::create(&image).unwrap().set_len(256 << 20).unwrap();
    let mut make = Command::new("mkfs.btrfs");
    output(make.args(["-q", "-f"]).args(options).arg("-r").arg(&root).arg(&image));
    Some(image)
}

/// An item's inode and kind.
type Item = (u64, String);

/// Each leaf: its address, its version, and its items.
fn dumped(image: &Path) -> Vec<(u64, u64, Vec<Item>)> {
    let mut dump = Command::new("btrfs");
    let text = output(dump.args(["inspect-internal", "dump-tree", "-t", "5"]).arg(image));
    let mut all = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match &words[..] {
            ["leaf", address, rest @ ..] if rest.contains(&"generation") => {
                let at = rest.iter().position(|w| *w == "generation").unwrap();
                all.push((address.parse().unwrap(), rest[at + 1].parse().unwrap(), Vec::new()));
            }
            ["item", _, "key", object, kind, ..] => {
                let object = object.trim_start_matches('(').parse().unwrap();
                all.last_mut().unwrap().2.push((object, kind.to_string()));
            }
            _ => {}
        }
    }
    all
}

#[test]
fn leaves_are_those_of_the_file_systems_own_tool() {
    let dir = tempfile::tempdir().unwrap();
    for options in [&["-m", "dup"][..], &["-m", "single", "-n", "4096"]] {
        let Some(image) = image(dir.path(), options) else { return };
        let device = File::open(&image).unwrap();
        let leaves = Leaves::default().again(&device, TREE).unwrap().unwrap();
        let all = dumped(&image);
        assert!(all.len() > 50, "{}", all.len());
        assert_eq!(leaves.leaves.len(), all.len());
        let mut parts = 0;
        for (i, (address, generation, objects)) in all.into_iter().enumerate() {
            assert_eq!(leaves.groups(address, Some(generation + 1)), None);
            let groups = leaves.groups(address, Some(generation)).unwrap();
            assert_eq!((leaves.order[i].1, leaves.order[i].0.0), (address, objects[0].0));
            let begun = objects.iter().filter(|(o, kind)| o % GROUP == 0 && kind == "INODE_ITEM");
            // A leaf with few inodes far apart stands for one group.
            let all = begun.clone().all(|(o, _)| groups.contains(&(o / GROUP)));
            assert!(all || groups.end - groups.start == 1, "{groups:?}");
            parts += usize::from(begun.count() == 0);
            for group in groups {
                let found: Vec<_> = leaves.of_group(group).collect();
                assert!(found.iter().any(|&(a, k)| (k, a) == leaves.order[i]));
                let back = |&(a, _): &(u64, Key)| leaves.groups(a, None).unwrap();
                assert!(found[1..].iter().all(|f| back(f).contains(&group)), "{group}");
            }
        }
        assert!(parts > 10, "no large directory");
        assert!(leaves.again(&device, TREE).unwrap().is_none(), "nothing has changed");
        assert!(leaves.groups(1, None).is_none());
        assert!(Leaves::default().again(&device, 999).is_err(), "no such tree");
    }
}

#[test]
fn any_changed_byte_gives_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let Some(image) = image(dir.path(), &["-m", "single"]) else { return };
    let device = File::options().read(true).write(true).open(&image).unwrap();
    let sound = Leaves::default().again(&device, TREE).unwrap().unwrap();
    let mut bytes = vec![0; SUPERBLOCK.1];
    device.read_exact_at(&mut bytes, SUPERBLOCK.0).unwrap();
    let volume = Volume::parse(&device, &bytes).unwrap().with_chunks().unwrap();
    // The superblock, and the roots of three trees.
    let root = volume.root_of(TREE).unwrap();
    let nodes = [volume.chunk_root.0, volume.root.0, root.0].map(|address| {
        let chunk = volume.chunks.iter().find(|c| (c.0..c.0 + c.1).contains(&address)).unwrap();
        chunk.2 + address - chunk.0
    });
    let places = [(SUPERBLOCK.0, 0x400), (nodes[0], 700), (nodes[1], 700), (nodes[2], 700)];
    let mut found = 0;
    for (start, length) in places {
        for at in start..start + length {
            let mut old = [0];
            device.read_exact_at(&mut old, at).unwrap();
            for value in [0, 1, 0x7F, 0xFF] {
                device.write_all_at(&[value], at).unwrap();
                found += usize::from(Leaves::default().again(&device, TREE).is_ok());
                let _ = sound.again(&device, TREE);
            }
            device.write_all_at(&old, at).unwrap();
        }
    }
    assert!(found > 0);
}

#[test]
fn a_file_with_many_extents_is_few_leaves_of_its_group_and_a_large_directory_is_some() {
    const DIRECTORY: u8 = 96;
    for (kind, most) in [(EXTENT, EXTENTS_MOST), (DIRECTORY, PARTS_MOST)] {
        let mut leaves = Leaves::default();
        leaves.add(((1000, 1, 0), 4096, 1));
        (0..1000).for_each(|n| leaves.add(((1001, kind, n), 8192 + n * 4096, 1)));
        leaves.add(((1002, 1, 0), 5 << 30, 1));
        leaves.add(((2000, 1, 0), 6 << 30, 1));
        let found: Vec<u64> = leaves.of_group(1000 / GROUP).map(|l| l.0).collect();
        // The first one, and the last one: other inodes follow there.
        let ends = found.contains(&4096) && found.contains(&(8192 + 999 * 4096));
        assert!(ends && found.len() <= most + 2, "{kind}: {found:?}");
        assert!(found.len() >= most, "{kind}: {found:?}");
    }
}

#[test]
fn a_name_in_a_large_directory_brings_a_few_leaves() {
    const NAMES: u8 = 84;
    const LISTING: u8 = 96;
    let mut leaves = Leaves::default();
    leaves.add(((0, 0, 0), 1 << 20, 1));
    for (kind, from) in [(NAMES, 2), (LISTING, 10_002)] {
        (0..10_000u64).for_each(|i| leaves.add(((256, kind, i << 20), (from + i) << 20, 1)));
    }
    leaves.add(((257, 1, 0), 1 << 50, 1));
    let found: Vec<Key> = leaves.of_group(16).map(|l| l.1).collect();
    let of = |kind| found.iter().filter(|k| k.1 == kind).count();
    assert!(found.len() <= 2 * PARTS_MOST + 2, "{}", found.len());
    assert!(of(NAMES) == PARTS_MOST && of(LISTING) > PARTS_MOST, "a listing uses the second kind");
}

#[test]
fn a_tree_of_chunks_that_leads_to_one_leaf_many_times_takes_bounded_memory() {
    const NODE: usize = 65_536;
    let file = tempfile::tempfile().unwrap();
    let node = |address: u64, level: u8, count: u32| {
        let mut node = vec![0u8; NODE];
        node[48..56].copy_from_slice(&address.to_le_bytes());
        node[80..88].copy_from_slice(&1u64.to_le_bytes());
        node[96..100].copy_from_slice(&count.to_le_bytes());
        node[100] = level;
        node
    };
    let mut leaf = node(0x2_0000, 0, 800);
    for (i, item) in leaf[HEAD..HEAD + 800 * ITEM].chunks_exact_mut(ITEM).enumerate() {
        item[8] = CHUNK_ITEM;
        item[9..17].copy_from_slice(&((i as u64) << 20).to_le_bytes());
        item[17..21].copy_from_slice(&40_000u32.to_le_bytes());
        item[21..25].copy_from_slice(&20_000u32.to_le_bytes());
    }
    // All items are the same bytes: length, kind, and disk.
    leaf[HEAD + 40_000..][..8].copy_from_slice(&4096u64.to_le_bytes());
    leaf[HEAD + 40_000 + 24] = 1;
    leaf[HEAD + 40_000 + CHUNK] = 1;
    let mut root = node(0x1_0000, 1, 100);
    for pointer in root[HEAD..HEAD + 100 * POINTER].chunks_exact_mut(POINTER) {
        pointer[17..25].copy_from_slice(&0x2_0000u64.to_le_bytes());
        pointer[25..33].copy_from_slice(&1u64.to_le_bytes());
    }
    file.write_all_at(&root, 0x1_0000).unwrap();
    file.write_all_at(&leaf, 0x2_0000).unwrap();
    let volume = Volume {
        device: &file,
        generation: 1,
        root: (0, 0, 0),
        chunk_root: (0x1_0000, 1, 1),
        node_bytes: NODE,
        disk: 1,
        chunks: vec![(0, 1 << 30, 0)],
        budget: Cell::new(NODES_MOST),
    };
    assert_eq!(volume.with_chunks().unwrap().chunks.len(), CHUNKS_MOST);
}

#[test]
fn a_tree_that_leads_to_the_same_nodes_again_and_again_takes_bounded_memory() {
    let mut leaves = Leaves::default();
    let child = ((0, 0, 0), 4096, 1);
    leaves.add(child);
    leaves.add(child);
    assert_eq!((leaves.order.len(), leaves.leaves.len()), (1, 1));
    let children = [child; 1 << 11];
    let kept = (0..NODES_MOST as u64).filter(|&n| leaves.keep((n, 1), &children)).count();
    assert_eq!((kept, leaves.nodes.len()), (POINTERS_MOST >> 11, POINTERS_MOST >> 11));
    assert!(leaves.pointers <= POINTERS_MOST);
    let mut leaves = Leaves::default();
    assert_eq!([1, 2, 1].map(|n| leaves.keep((n, 1), &children)), [true, true, false], "known");
}
