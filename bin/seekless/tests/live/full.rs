//! An area on a file system without free space.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::PROGRAM;
use crate::host::{Mount, Numbers, run_line, status};
use crate::need;
use crate::place::{end_both, serve};

const MIB: usize = 1 << 20;

fn small_file_system(dir: &Path, size: &str) -> Mount {
    fs::create_dir(dir).unwrap();
    run_line(&format!("mount -t tmpfs -o {size} tmpfs {}", dir.display()));
    Mount::at(dir)
}

/// Writes to a new file until no byte is left.
fn fill(dir: &Path) {
    let mut file = File::create(dir.join("filler")).unwrap();
    let some = vec![1; 64 << 10];
    while file.write_all(&some).is_ok() {}
    while file.write_all(&some[..512]).is_ok() {}
    assert!(fs::write(dir.join("more"), &some).is_err(), "the file system is full");
}

/// The area has all of its space from the start: it absorbs, destages and checkpoints as before.
#[test]
fn a_full_disk_of_the_area_costs_no_byte_in_any_mode() {
    need!("an area on a full disk", "root");
    for mode in ["writethrough", "writeback"] {
        let dir = tempfile::tempdir().unwrap();
        let small = dir.path().join("small");
        let mount = small_file_system(&small, "size=48m");
        let image = dir.path().join("disk.img");
        let mut model = Numbers::new(3).bytes(32 * MIB);
        fs::write(&image, &model).unwrap();
        let (image_name, area) = (image.to_str().unwrap(), small.join("disk.area"));
        let area_name = area.to_str().unwrap();
        let sizes = format!("--optimized 32MiB --mode {mode}");
        run_line(&format!("{PROGRAM} volume format {image_name} --at {area_name} {sizes}"));
        fill(&small);
        for round in 0..2u64 {
            let (mut server, mut client) = serve(dir.path(), &image, &["--area", area_name]);
            for at in 0..24 {
                let new = Numbers::new(100 * round + at).bytes(300 << 10);
                let from = at as usize * MIB + 4096;
                client.write(from as u64, &new).unwrap();
                model[from..][..new.len()].copy_from_slice(&new);
                client.flush().unwrap();
                let old = client.read((from / 2) as u64 & !511, 64 << 10).unwrap();
                assert!(old == model[(from / 2) & !511..][..64 << 10], "{mode}: read");
            }
            let state = status(&image, &[]);
            assert_eq!((state["mode"].as_str(), &state["fell_back"]), (Some(mode), &false.into()));
            drop(client);
            server.signal(Signal::TERM);
            let ended = server.wait(Duration::from_secs(60)).unwrap();
            assert!(ended.success(), "{mode}: {:?}", server.said());
        }
        run_line(&format!("{PROGRAM} volume detach {image_name} --area {area_name}"));
        assert!(fs::read(&image).unwrap() == model, "{mode}: the bare disk");
        drop(mount);
    }
}

/// A temporary area takes its space as it grows. Without space there are no copies, and no errors.
#[test]
fn a_temporary_area_without_space_costs_no_byte() {
    need!("a temporary area without space", "root");
    let dir = tempfile::tempdir().unwrap();
    let small = dir.path().join("small");
    let mount = small_file_system(&small, "size=1m");
    let image = dir.path().join("disk.img");
    let mut model = Numbers::new(4).bytes(32 * MIB);
    fs::write(&image, &model).unwrap();
    let args = ["--disk", "exos-x20,speed=1000", "--cache", "2MiB", "--area-dir"];
    let args = [&args[..], &[small.to_str().unwrap()]].concat();
    let (server, mut client) = serve(dir.path(), &image, &args);
    for round in 0..4 {
        for n in 0..400usize {
            let at = (n * 7919 % 500) * (64 << 10);
            let found = client.read(at as u64, 16 << 10).unwrap();
            assert!(found == model[at..][..16 << 10], "round {round}");
            if n % 8 == round {
                let new = Numbers::new((400 * round + n) as u64).bytes(4096);
                client.write(at as u64, &new).unwrap();
                model[at..][..4096].copy_from_slice(&new);
            }
        }
        client.flush().unwrap();
    }
    fs::write(small.join("more"), vec![1; MIB]).expect_err("the trail has filled it");
    end_both(server, client);
    assert!(fs::read(&image).unwrap() == model, "the bare disk");
    drop(mount);
}
