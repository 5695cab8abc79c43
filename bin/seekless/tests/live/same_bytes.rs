//! The file and the NBD export are one disk: a write through one is read at once through the other.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use rustix::fs::FallocateFlags;
use seekless_serve::client::Client;

use crate::host::{self, Numbers, Server, status};
use crate::need;

const SIZE: u64 = 4 << 20;

#[test]
fn both_front_ends_show_the_same_bytes_at_the_same_time() {
    need!("same bytes", "fuse");
    for policy in ["borg:planning=anew", "organ-pipe", "buckets"] {
        same_bytes_with(policy);
    }
}

fn same_bytes_with(policy: &str) {
    let dir = tempfile::tempdir().unwrap();
    let (image, path) = (dir.path().join("disk.img"), dir.path().join("volume"));
    let address = format!("unix:{}", dir.path().join("nbd.sock").display());
    let args = format!("--nbd {address} --policy {policy} --learn-every 20ms --background-rate 0");
    let sizes = "--size 4MiB --optimized 4MiB --cache 256KiB";
    let server = Server::line(dir.path(), &image, Some(&path), &format!("{args} {sizes}"));
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let mut client = Client::connect(&address.parse().unwrap()).unwrap();
    assert_eq!((client.size(), file.metadata().unwrap().len()), (SIZE, SIZE));

    let mut numbers = Numbers::new(11);
    let mut model = vec![0; SIZE as usize];
    let begun = Instant::now();
    let mut steps = 0;
    // For some time, and until there is a copy: that depends on idle time of the host.
    let least = Duration::from_secs(if host::is_long() { 4 } else { 2 });
    while steps < 2000
        || begun.elapsed() < least
        || steps % 500 != 0
        || status(&image, &[])["copied_bytes"] == 0
    {
        assert!(begun.elapsed() < Duration::from_secs(60), "{policy}: nothing is copied");
        steps += 1;
        let at = numbers.below(SIZE);
        let most = if numbers.below(4) == 0 { 200_000 } else { 5000 };
        let len = (1 + numbers.below(most)).min(SIZE - at);
        let (from, to) = (at as usize, (at + len) as usize);
        let (low, high) = (at / 512 * 512, (at + len).next_multiple_of(512));
        match numbers.below(8) {
            0 => {
                model[from..to].copy_from_slice(&numbers.bytes(to - from));
                file.write_all_at(&model[from..to], at).unwrap();
            }
            1 => {
                let range = low as usize..high as usize;
                model[range.clone()].copy_from_slice(&numbers.bytes((high - low) as usize));
                client.write(low, &model[range]).unwrap();
            }
            2 => {
                let how = [FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE];
                let how = how[numbers.below(2) as usize] | FallocateFlags::KEEP_SIZE;
                model[from..to].fill(0);
                rustix::fs::fallocate(&file, how, at, len).unwrap();
            }
            _ => {
                let through_nbd = client.read(low, (high - low) as u32).unwrap();
                assert!(through_nbd == model[low as usize..high as usize], "NBD, step {steps}");
                let mut through_file = vec![0; to - from];
                file.read_exact_at(&mut through_file, at).unwrap();
                assert!(through_file == model[from..to], "file, step {steps}");
            }
        }
    }
    for (i, page) in model.chunks(4096).enumerate() {
        assert!(client.read(i as u64 * 4096, 4096).unwrap() == page, "page {i}");
    }
    drop((file, client));
    let counts = server.stop();
    assert!(counts["copy_reads"].as_u64().unwrap() > 0, "{counts:#}");
    assert!(std::fs::read(image).unwrap() == model, "home differs");
}

/// Linux may keep pages after a sendfile(2), and learns of no write by NBD. A read(2) has the bytes
/// of the write, and so has a copy by the kernel if the file was opened after the write.
#[test]
fn a_file_that_is_opened_after_a_write_is_copied_with_its_bytes() {
    need!("copies by the kernel", host::fuse());
    let dir = tempfile::tempdir().unwrap();
    let (image, path) = (dir.path().join("disk.img"), dir.path().join("volume"));
    let address = format!("unix:{}", dir.path().join("nbd.sock").display());
    let args = ["--size", "1MiB", "--policy", "vanilla", "--nbd", &address];
    let server = Server::start(dir.path(), &image, Some(&path), &args);
    let mut client = Client::connect(&address.parse().unwrap()).unwrap();
    let held = File::open(&path).unwrap();
    for with in 1..4 {
        client.write(0, &[with; 4096]).unwrap();
        let mut found = [0; 4096];
        held.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(found, [with; 4096], "read(2)");
        let (opened, out) = (File::open(&path).unwrap(), tempfile::tempfile().unwrap());
        assert_eq!(rustix::fs::sendfile(&out, &opened, Some(&mut 0), 4096), Ok(4096));
        out.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(found, [with; 4096], "sendfile(2)");
        let copy = dir.path().join("copy");
        std::fs::copy(&path, &copy).unwrap();
        assert_eq!(std::fs::read(&copy).unwrap()[..4096], [with; 4096], "a copy");
    }
    drop((held, client));
    server.stop();
}

/// One request of the kernel is one request of the volume, and a flush too: none is lost, none
/// added.
#[test]
fn every_sync_reaches_the_volume() {
    need!("syncs", "fuse");
    let dir = tempfile::tempdir().unwrap();
    let (image, path) = (dir.path().join("disk.img"), dir.path().join("volume"));
    let server = Server::line(dir.path(), &image, Some(&path), "--size 1MiB --policy vanilla");
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[1; 4096], 0).unwrap(); // 1
    file.sync_all().unwrap(); // 2
    file.sync_data().unwrap(); // 3
    file.write_all_at(&[2; 1024], 512).unwrap(); // 4
    file.sync_data().unwrap(); // 5
    file.write_all_at(&[3; 10], 700).unwrap(); // 6 and 7: the sector is read, mended and written
    drop(file);
    assert_eq!(server.stop()["requests"], 7);
}
