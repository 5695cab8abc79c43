//! Areas that outlast their server: made, refused, attached, drained, killed and recovered,
//! rescued, as an administrator does it. What a kill leaves is what the page cache has: a power cut
//! is another matter, and the crash enumeration's.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

use crate::host::Numbers;
use crate::place::{BESIDE, Place, end_both};

/// Serves a disk with its area, without a client.
const SERVE: &str = "serve disk.img --area disk.area --nbd unix:x.sock";

/// A disk of 64 MiB in use, adopted in write-back, with something dirty, its server killed. What it
/// looked like before, and the bytes that a client wrote over its first and last MiB.
fn killed(place: &Place) -> (Vec<u8>, Vec<u8>) {
    let disk = place.disk(64, true);
    let before = fs::read(&disk).unwrap();
    place.run("volume format disk.img --at disk.area --optimized 16MiB --mode writeback");
    let (mut server, mut client) = place.vanilla(&[]);
    let new = Numbers::new(9).bytes(2 << 20);
    // What is no whole page goes past the write buffer, to home's ends.
    client.write(512, &new[512..1 << 20]).unwrap();
    client.write(63 << 20, &new[1 << 20..][..(1 << 20) - 512]).unwrap();
    client.write(100 << 10, &new[100 << 10..][..64 << 10]).unwrap();
    client.flush().unwrap();
    server.kill();
    (before, new)
}

#[test]
fn what_was_written_over_a_guard_is_refused_shown_and_mended() {
    let place = Place::new();
    let (before, new) = killed(&place);
    let disk = File::options().read(true).write(true).open(place.path("disk.img")).unwrap();
    // As a repair of the file system would.
    disk.write_all_at(&before[1024..2048], 1024).unwrap();
    let held = || (place.bytes("disk.img"), place.bytes("disk.area"));
    let was = held();
    place.refused(SERVE, &["over the guard"]);
    assert!(held() == was, "serving wrote something");
    for verb in ["drain", "check", "repair", "resize"] {
        let words = if verb == "resize" { "not drained" } else { "over the guard" };
        place.volume_refuses(verb, &[words]);
        assert!(held() == was, "{verb} wrote something");
    }
    let (rescue, mut client) = place.rescue();
    assert!(client.read(0, 512).unwrap() == before[..512]);
    assert!(client.read(512, (1 << 20) - 512).unwrap() == new[512..1 << 20]);
    assert!(client.read(63 << 20, (1 << 20) - 512).unwrap() == new[1 << 20..][..(1 << 20) - 512]);
    drop((client, rescue));
    assert!(held() == was, "rescuing wrote something");
    place.volume("repair --lose-data");
    // The restored guard names the repaired area.
    let repaired = place.bytes("disk.area");
    fs::write(place.path("disk.area"), &was.1).unwrap();
    place.volume_refuses("drain", &["an older copy"]);
    fs::write(place.path("disk.area"), repaired).unwrap();
    place.volume("detach");
    let home = place.bytes("disk.img");
    assert!(home[..512] == before[..512] && home[512..1 << 20] == new[512..1 << 20]);
    assert!(home[63 << 20..(64 << 20) - 512] == new[1 << 20..][..(1 << 20) - 512]);
    assert!(home[1 << 20..63 << 20] == before[1 << 20..63 << 20]);
    assert!(home[(64 << 20) - 512..] == before[(64 << 20) - 512..]);
}

#[test]
fn a_guarded_disk_of_another_size_or_with_another_area_is_refused() {
    let place = Place::new();
    let (before, _) = killed(&place);
    let disk = File::options().read(true).write(true).open(place.path("disk.img")).unwrap();
    for mib in [63, 65] {
        let end = place.bytes("disk.img")[63 << 20..].to_vec();
        disk.set_len(mib << 20).unwrap();
        place.refused(SERVE, &["made for a device of"]);
        place.volume_refuses("drain", &["made for a device of"]);
        place.volume_refuses("resize", &["nothing was changed"]);
        disk.set_len(64 << 20).unwrap();
        disk.write_all_at(&end, 63 << 20).unwrap();
    }
    // Another disk under its name.
    fs::rename(place.path("disk.img"), place.path("right.img")).unwrap();
    fs::write(place.path("disk.img"), &before).unwrap();
    place.refused(SERVE, &["does not carry its guard", "another disk"]);
    fs::rename(place.path("right.img"), place.path("disk.img")).unwrap();
    // An older copy of the area, which has an older end of the log.
    let area = place.bytes("disk.area");
    fs::write(place.path("other.img"), &before).unwrap();
    place.run("volume format other.img --at other.area --optimized 16MiB");
    place.refused(
        "serve disk.img --area other.area --moved --nbd unix:x.sock",
        &["the guard of another area", "disk.area"],
    );
    // No repair mends that: it changes nothing.
    fs::copy(place.path("disk.img"), place.path("other.img")).unwrap();
    let other = place.bytes("other.area");
    for lose in ["", "--lose-data"] {
        let line = format!("volume repair other.img --area other.area {lose}");
        place.refused(&line, &["the guard of another area", "disk.area"]);
        assert!(place.bytes("other.area") == other, "{line}");
    }
    // An area cut short, and one without room, as older ones are.
    let file = File::options().read(true).write(true).open(place.path("disk.area")).unwrap();
    file.set_len((16 << 20) + 8192).unwrap();
    place.refused(SERVE, &["extend it"]);
    // And extended again.
    file.set_len(16 << 20).unwrap();
    file.set_len(area.len() as u64).unwrap();
    let words = ["was cut, and extended again", "--lose-data"];
    place.refused(SERVE, &words);
    place.volume_refuses("drain", &words);
    place.volume_refuses("repair", &words);
    file.write_all_at(&area[16 << 20..], 16 << 20).unwrap();
    place.volume("drain");
    file.set_len(16 << 20).unwrap();
    place.volume_refuses("mode writeback", &["has no space for a guard"]);
    place.volume("resize --optimized 16MiB");
    place.volume("mode writeback");
    assert_eq!(place.status(&BESIDE)["guarded"], true);
    file.set_len(16 << 20).unwrap();
    place.refused(SERVE, &["extend it"]);
    place.refused("volume format small.img --at small.area", &["small.img"]);
    File::create(place.path("small.img")).unwrap().set_len(255 << 10).unwrap();
    let small = "volume format small.img --at small.area --optimized 8MiB";
    place.refused(&format!("{small} --mode writeback"), &["255 KiB", "256 KiB"]);
    place.run(small);
}

/// A repair advances the area's generation, and an older copy could pass for the newest one.
#[test]
fn an_older_copy_of_an_area_is_refused_by_a_repair_too() {
    let place = Place::new();
    place.disk(64, true);
    place.run("volume format disk.img --at disk.area --optimized 16MiB --mode writeback");
    let path = place.path("disk.area");
    let after_a_write_of = |byte: u8| {
        let (mut server, mut client) = place.vanilla(&[]);
        client.write(8 << 20, &[byte; 4096]).unwrap();
        client.flush().unwrap();
        server.kill();
        fs::read(&path).unwrap()
    };
    let older = after_a_write_of(1);
    let newest = after_a_write_of(2);
    fs::write(&path, &older).unwrap();
    let verbs = ["drain", "status", "check", "dump", "dump --json", "repair", "repair --lose-data"];
    for verb in verbs.into_iter().chain(["rescue --nbd unix:x.sock"]) {
        place.volume_refuses(verb, &["an older copy", "name the newest copy"]);
        assert!(fs::read(&path).unwrap() == older, "{verb} changed it");
    }
    fs::write(&path, &newest).unwrap();
    place.volume("repair");
    place.volume("detach");
    let home = place.bytes("disk.img");
    assert!(home[8 << 20..][..4096] == [2; 4096]);
}

/// Over a server that runs, under a client that writes to the disk's ends without end.
#[test]
fn a_guard_goes_up_and_down_under_a_client_that_writes_home() {
    let place = Place::new();
    let disk = place.disk(32, true);
    let mut model = fs::read(&disk).unwrap();
    place.run("volume format disk.img --at disk.area --optimized 8MiB");
    let (server, client) = place.vanilla(&[]);
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writer = {
        let (stop, mut client) = (std::sync::Arc::clone(&stop), client);
        std::thread::spawn(move || {
            let mut numbers = Numbers::new(17);
            let mut count = 0u64;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let len = 512 * (1 + numbers.below(80)) as usize;
                let room = (320 << 10) - len as u64;
                let at = numbers.below(room / 512 + 1) * 512;
                let at = if numbers.below(2) == 0 { at } else { (32 << 20) - (320 << 10) + at };
                let range = at as usize..at as usize + len;
                assert!(client.read(at, len as u32).unwrap() == model[range.clone()], "at {at}");
                let bytes = numbers.bytes(len);
                client.write(at, &bytes).unwrap();
                model[range].copy_from_slice(&bytes);
                if numbers.below(20) == 0 {
                    client.flush().unwrap();
                }
                count += 1;
            }
            (model, count)
        })
    };
    for _ in 0..6 {
        place.run("volume mode writeback disk.img");
        assert!(fs::read(&disk).unwrap().starts_with(b"SEEKLESS"));
        place.run("volume drain disk.img");
        assert!(!fs::read(&disk).unwrap().starts_with(b"SEEKLESS"));
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let (model, count) = writer.join().unwrap();
    assert!(count > 100, "{count}");
    server.stop();
    assert!(fs::read(&disk).unwrap() == model, "home differs");
}

#[test]
fn a_disk_in_use_is_adopted_and_not_a_byte_of_it_changes() {
    let place = Place::new();
    let disk = place.disk(32, true);
    let before = fs::read(&disk).unwrap();
    place
        .refused("volume format disk.img", &["ext2/3/4", "nothing was changed", "--at", "--force"]);
    place.run("volume format disk.img --at disk.area --optimized 8MiB");
    assert!(fs::read(&disk).unwrap() == before, "adopting it changed it");
    place.refused(
        "volume format disk.img --at disk.area",
        &["an area or a locator", "nothing was changed"],
    );
    let (server, mut client) = place.serve(&BESIDE);
    assert!(client.read(0, 4 << 20).unwrap() == before[..4 << 20]);
    end_both(server, client);
    assert!(fs::read(&disk).unwrap() == before, "serving it changed it");
}

#[test]
fn a_blank_disk_gives_a_part_to_its_area_wherever_that_lies() {
    for at in ["start", "middle", "end"] {
        let place = Place::new();
        let disk = place.disk(64, false);
        place.run(&format!("volume format disk.img --at {at} --optimized 8MiB"));
        assert!(fs::read(&disk).unwrap().starts_with(b"SEEKLESS"), "{at}");
        let size = place.status(&[])["size_bytes"].as_u64().unwrap();
        assert_eq!(size, (if at == "start" { 56 } else { 55 }) << 20, "{at}");
        let content = Numbers::new(5).bytes(size as usize);
        let (server, mut client) = place.serve(&["--policy", "vanilla"]);
        for (i, piece) in content.chunks(1 << 20).enumerate() {
            client.write((i as u64) << 20, piece).unwrap();
        }
        end_both(server, client);
        let (server, mut client) = place.serve(&["--policy", "vanilla"]);
        for (i, piece) in content.chunks(1 << 20).enumerate() {
            assert!(client.read((i as u64) << 20, 1 << 20).unwrap() == piece, "{at}, MiB {i}");
        }
        end_both(server, client);
        assert!(fs::read(&disk).unwrap().starts_with(b"SEEKLESS"), "{at}: data over the locator");
        place.refused("volume format disk.img", &["seekless", "--force"]);
    }
}

#[test]
fn writes_are_absorbed_survive_a_kill_and_go_home_when_drained() {
    let place = Place::new();
    let disk = place.disk(64, true);
    let before = fs::read(&disk).unwrap();
    place.run("volume format disk.img --at disk.area --optimized 32MiB --mode writeback");
    let (mut server, mut client) = place.vanilla(&[]);
    let new = Numbers::new(9).bytes(2 << 20);
    client.write(8 << 20, &new).unwrap();
    client.flush().unwrap();
    // A hole of home is none where the area has data.
    assert_eq!(client.block_status(8 << 20, 1 << 20).unwrap(), [(1 << 20, 0)]);
    let status = place.status(&BESIDE);
    assert_eq!(status["mode"], "writeback");
    assert_eq!(status["dirty_bytes"], 2 << 20);
    server.kill();
    drop((server, client));

    let whole =
        |bytes: &[u8]| bytes[..8 << 20] == before[..8 << 20] && bytes[8 << 20..10 << 20] == new[..];
    let bare = fs::read(&disk).unwrap();
    assert!(bare.starts_with(b"SEEKLESS") && bare[1080..1082] != [0x53, 0xef], "it is not guarded");
    assert!(bare[128 << 10..8 << 20] == before[128 << 10..8 << 20]);
    place.refused("serve disk.img --nbd unix:x.sock", &["another area", "disk.area"]);
    place.refused("volume format disk.img --at new.area", &["another area", "disk.area"]);
    place.refused("volume format disk.img", &["seekless", "nothing was changed"]);
    assert_eq!(place.status(&BESIDE)["guarded"], true);
    assert!(!whole(&fs::read(&disk).unwrap()), "the write was not absorbed: this tests nothing");
    assert_eq!(place.status(&BESIDE)["dirty_bytes"], 2 << 20);
    // Rescued, with not a byte written.
    let held = || (fs::read(&disk).unwrap(), place.bytes("disk.area"));
    let was = held();
    let (rescue, mut client) = place.rescue();
    assert!(client.read(8 << 20, 2 << 20).unwrap() == new);
    // Across the edge of the newer bytes, and not on a page's.
    let edge = client.read((8 << 20) - 512, 1024).unwrap();
    assert!(edge[..512] == before[(8 << 20) - 512..8 << 20] && edge[512..] == new[..512]);
    assert_eq!(client.block_status(8 << 20, 4096).unwrap(), [(4096, 0)]);
    drop((client, rescue));
    assert!(held() == was, "rescuing wrote something");

    place.volume("check --data");
    let dump = place.json("volume dump --json disk.img --area disk.area");
    assert_eq!(dump["map"].as_array().unwrap().len(), 512);
    assert_eq!(dump["map"][0]["sum"].as_str().unwrap().len(), 12);
    place.volume("drain");
    assert!(whole(&fs::read(&disk).unwrap()), "drained, and home is not complete");
    let status = place.status(&BESIDE);
    assert_eq!((&status["drained"], &status["guarded"]), (&true.into(), &false.into()));
}

#[test]
fn a_running_server_is_steered() {
    let place = Place::new();
    place.disk(64, false);
    place.run("volume format disk.img --optimized 16MiB");
    let (mut server, mut client) = place.serve(&["--policy", "borg"]);
    place.run("volume mode writeback disk.img");
    client.write(0, &[7; 4096]).unwrap();
    let status = place.status(&[]);
    assert_eq!((&status["mode"], &status["dirty_bytes"]), (&"writeback".into(), &4096.into()));
    place.run("volume drain disk.img");
    assert_eq!(place.status(&[])["dirty_bytes"], 0);
    client.write(0, &[8; 4096]).unwrap();
    assert_eq!(place.status(&[])["dirty_bytes"], 0, "it absorbs though it was drained");
    place.run("volume mode writeback disk.img");
    place.run("volume mode writethrough disk.img");
    place.run("volume replan disk.img");
    server.expect("learned: ");
    place.refused("volume check disk.img", &["a server serves this volume", "detach"]);
    drop(client);
    place.run("volume detach disk.img");
    server.ended();
    let status = place.status(&[]);
    assert_eq!((&status["served"], &status["drained"]), (&false.into(), &true.into()));
    place.refused("volume replan disk.img", &["no server of this volume"]);
    // Not served, it can be steered as well.
    place.run("volume mode writeback disk.img");
    assert_eq!(place.status(&[])["mode"], "writeback");
}

#[test]
fn what_does_not_belong_together_is_not_attached() {
    let place = Place::new();
    let disk = place.disk(32, true);
    place.run("volume format disk.img --at disk.area --optimized 8MiB");
    let with =
        |backing: &str, area: &str| format!("serve {backing} --area {area} --nbd unix:x.sock");
    // Two servers, two areas for one backing, one area for two backings.
    fs::copy(&disk, place.path("other.img")).unwrap();
    place.run("volume format other.img --at other.area --optimized 8MiB");
    let (server, client) = place.serve(&BESIDE);
    place.refused(&with("disk.img", "disk.area"), &["disk.img", "another process"]);
    place.refused(&with("disk.img", "other.area"), &["disk.img", "another process"]);
    place.refused(&with("other.img", "disk.area"), &["disk.area", "another process"]);
    end_both(server, client);
    // Another disk of the same size.
    place.refused(&with("other.img", "disk.area"), &["disk.img", "other.img", "--moved"]);
    // Another size.
    let file = File::options().write(true).open(&disk).unwrap();
    file.set_len(31 << 20).unwrap();
    place.refused(
        &with("disk.img", "disk.area"),
        &["made for a device of", "seekless volume resize"],
    );
    let words = ["made for a device of 32 MiB", "this one has 31 MiB", "resize"];
    place.volume_refuses("check", &words);
    file.set_len(32 << 20).unwrap();
    assert!(place.volume("check").contains("sound"));
    // A shorter area, no area, an older and a newer version.
    let area = File::options().read(true).write(true).open(place.path("disk.area")).unwrap();
    area.set_len(7 << 20).unwrap();
    place.refused(&with("disk.img", "disk.area"), &["the device shrank"]);
    area.set_len((8 << 20) + (260 << 10)).unwrap();
    place.refused(&with("disk.area", "disk.img"), &["is an area itself"]);
    place.refused("serve disk.area --nbd unix:x.sock", &["is an area", "disk.img"]);
    place.refused(&with("disk.img", "disk.img"), &["disk.img"]);
    let bytes = place.bytes("disk.area");
    let pages = bytes.chunks(4096).enumerate();
    // Magic, version and kind of a superblock.
    let copies = pages.filter(|(_, page)| page.starts_with(b"SEEKLESS\x04\x00\x01\x00"));
    let copies: Vec<_> = copies.map(|(i, page)| (i as u64 * 4096, page.to_vec())).collect();
    assert_eq!((copies[0].0, copies.len()), (0, 2), "the last copy was cut off");
    for version in [1, 5] {
        for (at, mut page) in copies.clone() {
            page[8] = version;
            page[12..16].fill(0);
            let sum = crc_fast::crc32_iscsi(&page);
            page[12..16].copy_from_slice(&sum.to_le_bytes());
            area.write_all_at(&page, at).unwrap();
        }
        let said = format!("version {version}");
        place.refused(&with("disk.img", "disk.area"), &[&said, "use the seekless that wrote it"]);
    }
    for (at, page) in copies {
        area.write_all_at(&vec![0; page.len()], at).unwrap();
    }
    place.refused(&with("disk.img", "disk.area"), &["no area of seekless"]);
}

#[test]
fn an_area_follows_its_home_to_another_size() {
    let place = Place::new();
    let disk = place.disk(32, true);
    place.run("volume format disk.img --at disk.area --optimized 8MiB --mode writeback");
    place.volume_refuses("resize --optimized 1MiB", &["needs at least"]);
    let (mut server, mut client) = place.serve(&BESIDE);
    client.write(9 << 20, &[7; 4096]).unwrap();
    server.kill();
    drop((server, client));
    let bytes = place.bytes("disk.area");
    place.volume_refuses("resize", &["not drained", "nothing was changed"]);
    assert!(place.bytes("disk.area") == bytes);
    place.volume("detach");
    File::options().write(true).open(&disk).unwrap().set_len(48 << 20).unwrap();
    place.volume("resize --optimized 12MiB");
    let status = place.status(&BESIDE);
    assert_eq!(status["size_bytes"], 48 << 20);
    assert_eq!(status["area_bytes"], 12 << 20);
    let (server, mut client) = place.serve(&BESIDE);
    assert!(client.read(9 << 20, 4096).unwrap() == [7; 4096]);
    end_both(server, client);
}

#[test]
fn a_damaged_area_is_mended_and_what_is_lost_is_said_before() {
    let place = Place::new();
    place.disk(32, true);
    place.run("volume format disk.img --at disk.area --optimized 16MiB --mode writeback");
    let (mut server, mut client) = place.vanilla(&[]);
    let new = Numbers::new(4).bytes(64 << 10);
    client.write(1 << 20, &new).unwrap();
    client.flush().unwrap();
    server.kill();
    drop((server, client));
    let path = place.path("disk.area");
    let area = File::options().read(true).write(true).open(&path).unwrap();
    // The last copy of the superblock, before the 65 pages of the guard region: no loss.
    let last = area.metadata().unwrap().len() - 66 * 4096;
    area.write_all_at(&[0xAA; 100], last + 200).unwrap();
    let check = place.volume("check");
    assert!(check.contains("harmless"), "{check}");
    for said in ["repaired", "no fault found"] {
        assert!(place.volume("repair").contains(said), "{said}");
    }
    // A page of data that stands in the area alone.
    let bytes = fs::read(&path).unwrap();
    let at =
        (0..bytes.len() / 4096).find(|p| bytes[p * 4096..][..4096] == new[8192..][..4096]).unwrap();
    area.write_all_at(&[0x55], at as u64 * 4096 + 7).unwrap();
    place.volume_refuses("check --data", &["1 pages", "damaged"]);
    let before = fs::read(&path).unwrap();
    place.volume_refuses("repair", &["nothing was written", "--lose-data"]);
    assert!(fs::read(&path).unwrap() == before);
    place.volume("repair --lose-data");
    place.volume("detach");
    let home = place.bytes("disk.img");
    let page = |i: usize| &home[(1 << 20) + i * 4096..][..4096];
    let good = (0..16).filter(|&i| page(i) == &new[i * 4096..][..4096]).count();
    assert_eq!(good, 15, "all but the damaged page went home");
}
