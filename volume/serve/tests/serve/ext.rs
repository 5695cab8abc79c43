//! Free space of ext2, ext3 and ext4, compared with their own tools for many kinds of file systems;
//! everything else is refused.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use seekless_block::{Extent, SECTOR_BYTES};
use seekless_host::{FileDevice, Opened};
use seekless_serve::ext::{ExtError, free};

/// Opened for reading alone: nothing is written.
fn found(path: &Path) -> Result<Vec<Extent>, ExtError> {
    free(&mut FileDevice::new(Opened::path(path, true).unwrap()))
}

fn refused(path: &Path, word: &str) {
    let error = found(path).expect_err(word).to_string();
    assert!(error.contains(word), "{error} does not say '{word}'");
}

/// The missing tools.
fn tools() -> bool {
    let there = |name: &str| Command::new(name).arg("-V").output().is_ok();
    let all = ["mke2fs", "dumpe2fs", "debugfs"].into_iter().all(there);
    if !all {
        eprintln!("SKIPPED: no e2fsprogs");
    }
    all
}

fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {args:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A file system with some files, and holes from deleted files.
fn make(dir: &Path, size: u64, args: &[&str]) -> std::path::PathBuf {
    let image = dir.join("image");
    let _ = fs::remove_file(&image);
    File::create(&image).unwrap().set_len(size).unwrap();
    let tree = dir.join("tree");
    fs::create_dir_all(&tree).unwrap();
    for i in 0..40usize {
        fs::write(tree.join(format!("f{i}")), vec![i as u8; 1 + i * 7919]).unwrap();
    }
    let (image_name, tree) = (image.to_str().unwrap(), tree.to_str().unwrap());
    run("mke2fs", &[&["-q", "-F", "-d", tree], args, &[image_name]].concat());
    for i in (0..40).step_by(3) {
        run("debugfs", &["-w", "-R", &format!("rm f{i}"), image_name]);
    }
    image
}

/// The free blocks that dumpe2fs lists, and their size.
fn listed(image: &Path) -> (BTreeSet<u64>, u64) {
    let said = run("dumpe2fs", &[image.to_str().unwrap()]);
    let number = |name: &str| -> Option<u64> {
        said.lines().find_map(|l| l.strip_prefix(name)).map(|n| n.trim().parse().unwrap())
    };
    let (block, all) = (number("Block size:").unwrap(), number("Block count:").unwrap());
    // Of clusters the first block is printed.
    let more = number("Cluster size:").unwrap_or(block) / block - 1;
    let mut blocks = BTreeSet::new();
    for line in said.lines().filter_map(|l| l.trim().strip_prefix("Free blocks: ")) {
        for run in line.split(", ").filter(|r| !r.trim().is_empty()) {
            let (from, to) = run.trim().split_once('-').unwrap_or((run.trim(), run.trim()));
            if let (Ok(from), Ok(to)) = (from.parse::<u64>(), to.parse::<u64>()) {
                blocks.extend(from..=(to + more).min(all - 1));
            }
        }
    }
    (blocks, block)
}

#[test]
fn what_is_free_is_what_their_own_tools_say() {
    if !tools() {
        return;
    }
    let own = crate::Dir::new("ext");
    let dir = own.path("");
    for (size, args) in [
        (40 << 20, &["-t", "ext2", "-b", "1024"][..]),
        (70 << 20, &["-t", "ext2", "-b", "4096", "-r", "0"]),
        (90 << 20, &["-t", "ext3", "-b", "2048"]),
        (300 << 20, &["-t", "ext4"]),
        (300 << 20, &["-t", "ext4", "-b", "1024", "-O", "^64bit,^metadata_csum,uninit_bg"]),
        (300 << 20, &["-t", "ext4", "-b", "1024", "-O", "^flex_bg,64bit,metadata_csum"]),
        // With descriptors of 64 bytes, and of 32, under the older checksums.
        (300 << 20, &["-t", "ext4", "-b", "1024", "-O", "uninit_bg,^metadata_csum"]),
        (900 << 20, &["-t", "ext3", "-O", "uninit_bg,^metadata_csum"]),
        (300 << 20, &["-t", "ext4", "-b", "1024", "-O", "meta_bg,^resize_inode"]),
        (900 << 20, &["-t", "ext4", "-O", "meta_bg,^resize_inode,^64bit"]),
        (500 << 20, &["-t", "ext4", "-b", "1024", "-g", "1024", "-O", "sparse_super2"]),
        (900 << 20, &["-t", "ext4", "-O", "bigalloc", "-C", "65536"]),
        (900 << 20, &["-t", "ext4", "-O", "metadata_csum_seed,inline_data,orphan_file"]),
        (
            900 << 20,
            &["-t", "ext4", "-O", "^has_journal,^sparse_super,^resize_inode", "-g", "8192"],
        ),
        ((3 << 30) + 12_345 * 1024, &["-t", "ext4", "-E", "packed_meta_blocks=1"]),
    ] {
        let image = make(&dir, size, args);
        let (blocks, block) = listed(&image);
        let mut ours = BTreeSet::new();
        for extent in found(&image).unwrap_or_else(|e| panic!("{args:?}: {e}")) {
            let sectors = block / SECTOR_BYTES;
            assert_eq!((extent.start.0 % sectors, extent.len.0 % sectors), (0, 0), "{args:?}");
            ours.extend(extent.start.0 / sectors..extent.end().0 / sectors);
        }
        assert!(!ours.is_empty(), "{args:?}");
        let wrong: Vec<_> = ours.symmetric_difference(&blocks).take(10).collect();
        assert!(
            wrong.is_empty(),
            "{args:?}: blocks {wrong:?}, of {} and {}",
            ours.len(),
            blocks.len()
        );
    }
}

#[test]
fn what_is_not_known_to_be_whole_is_refused() {
    if !tools() {
        return;
    }
    let own = crate::Dir::new("ext-refused");
    let dir = own.path("");
    let fresh = || make(&dir, 64 << 20, &["-t", "ext4", "-b", "4096"]);
    let patch = |image: &Path, at: u64, with: &dyn Fn(u8) -> u8| {
        let file = File::options().read(true).write(true).open(image).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[with(byte[0])], at).unwrap();
    };
    let debugfs = |image: &Path, command: &str| {
        run("debugfs", &["-w", "-R", command, image.to_str().unwrap()]);
    };
    for (command, word) in [
        ("set_super_value state 0", "not unmounted cleanly"),
        ("set_super_value state 2", "has errors"),
        ("feature needs_recovery", "not unmounted cleanly"),
        ("feature mmp", "mmp"),
        // Its own tools write a checksum for an inconsistent superblock.
        ("set_super_value free_blocks_count 77", "77 free blocks"),
        ("set_super_value blocks_count 99999999", "contradicts itself"),
    ] {
        let image = fresh();
        debugfs(&image, command);
        refused(&image, word);
    }
    // An unknown feature.
    for at in [0x62, 0x66] {
        let image = fresh();
        patch(&image, 1024 + at, &|b| b | 0x80);
        refused(&image, "not known here");
    }
    let image = fresh();
    patch(&image, 1024 + 0x0C, &|b| b ^ 1);
    refused(&image, "checksum");
    for (command, word) in [
        ("set_block_group 0 free_blocks_count 5", "its bitmap"),
        ("set_block_group 0 block_bitmap 99999999", "past the file system"),
    ] {
        let image = fresh();
        debugfs(&image, command);
        refused(&image, "descriptor of group 0 is damaged");
        let plain = "^metadata_csum,^uninit_bg";
        let image = make(&dir, 64 << 20, &["-t", "ext4", "-b", "4096", "-O", plain]);
        debugfs(&image, command);
        refused(&image, word);
    }
    // A bit of a descriptor under uninit_bg: behind the fields of both lengths, and inside the
    // checksum.
    for (wide, byte) in [("64bit", 0x0E), ("64bit", 0x2C), ("64bit", 0x1E), ("^64bit", 0x0E)] {
        let features = format!("uninit_bg,^metadata_csum,{wide}");
        let image = make(&dir, 64 << 20, &["-t", "ext4", "-b", "4096", "-O", &features]);
        assert!(found(&image).is_ok());
        patch(&image, 4096 + byte, &|b| b ^ 1);
        refused(&image, "descriptor of group 0 is damaged");
    }
    // One bit of the bitmap, without and with a checksum for it.
    for features in ["^metadata_csum", "metadata_csum"] {
        let image = make(&dir, 64 << 20, &["-t", "ext4", "-b", "4096", "-O", features]);
        let said = run("dumpe2fs", &[image.to_str().unwrap()]);
        let line = said.lines().find(|l| l.contains("Block bitmap at ")).unwrap();
        let at = line.split("Block bitmap at ").nth(1).unwrap();
        let at: u64 = at.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
        patch(&image, at * 4096, &|b| b ^ 1);
        refused(&image, "bitmap");
    }
    let image = fresh();
    File::options().write(true).open(&image).unwrap().set_len(60 << 20).unwrap();
    refused(&image, "contradicts itself");
    fs::write(&image, vec![0; 4096]).unwrap();
    refused(&image, "no ext2");
    fs::write(&image, vec![0; 512]).unwrap();
    refused(&image, "too small");
}

/// The corpus of the fuzz target, and each of its files with one bit changed.
#[test]
fn no_bytes_do_harm() {
    for name in ["plain", "meta"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/ext").join(name);
        let bytes = fs::read(&path).unwrap();
        seekless_serve::ext::fuzz(&bytes);
        for bit in (1024 * 8..3072 * 8).step_by(7) {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            seekless_serve::ext::fuzz(&bytes);
        }
    }
}
