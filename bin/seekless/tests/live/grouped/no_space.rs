//! A group store or a directory without space.

use super::*;

#[test]
fn without_room_at_home_a_file_stays_and_nothing_is_lost() {
    need!("no room at home", missing().or_else(|| host::loop_mounts("ext4")));
    let mut place = place();
    let image = place.dir.with_extension("img");
    File::create(&image).unwrap().set_len(16 << 20).unwrap();
    host::run(["mkfs.ext4".as_ref(), "-q".as_ref(), "-m0".as_ref(), image.as_os_str()]);
    let device = Loop::attach(&image, &[]);
    let small = Mount::new(device.device(), &place.dir, "rw");
    place.dir = place.dir.join("files");
    fs::create_dir(&place.dir).unwrap();
    let (mounted, mut contents) = grouped(&place);
    let mut filler = File::create(mounted.path("filler")).unwrap();
    let block = vec![1; 1 << 16];
    while filler.write_all(&block).is_ok() {}
    let mut end = File::create(mounted.path("end")).unwrap();
    while end.write_all(&[1; 512]).is_ok() {}
    let _ = filler.sync_all();
    // Written where it is, it needs none.
    let open = File::options().write(true).open(mounted.path("c")).unwrap();
    open.write_all_at(b"here", 60).unwrap();
    open.sync_all().unwrap();
    contents[2][60..64].copy_from_slice(b"here");
    for grown in [open.set_len(65_537), open.write_all_at(b"home", 65_536)] {
        assert_eq!(grown.map_err(|e| Errno::from_io_error(&e)), Err(Some(Errno::NOSPC)));
    }
    drop(open);
    for (name, bytes) in NAMES.iter().zip(&contents) {
        assert_eq!(fs::read(mounted.path(name)).unwrap(), *bytes);
    }
    let refused = host::attempt([
        env!("CARGO_BIN_EXE_seekless").as_ref(),
        "files".as_ref(),
        "unmount".as_ref(),
        mounted.point.as_os_str(),
        "--return".as_ref(),
    ]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && words.contains("could not be moved back"), "{words}");
    for (name, bytes) in NAMES.iter().zip(&contents) {
        assert_eq!(fs::read(mounted.path(name)).unwrap(), *bytes);
    }
    drop((filler, end));
    fs::remove_file(mounted.path("filler")).unwrap();
    wait("there is room again", || {
        let file = File::options().write(true).open(mounted.path("c")).unwrap();
        file.write_all_at(b"home", 65_536).is_ok()
    });
    contents[2].extend(b"home");
    mounted.unmount(&["--return"]);
    for (name, bytes) in NAMES.iter().zip(&contents) {
        assert_eq!(fs::read(place.dir.join(name)).unwrap(), *bytes);
    }
    small.unmount();
    device.detach();
}

#[test]
fn a_full_group_store_takes_no_more_and_loses_nothing() {
    need!("no room in the store", missing());
    let place = place();
    let mut numbers = Numbers::new(3);
    let mut files: Vec<(String, Vec<u8>)> =
        (0..160).map(|i| (format!("f{i}"), numbers.bytes(60_000))).collect();
    for (name, bytes) in &files {
        fs::write(place.dir.join(name), bytes).unwrap();
    }
    let mounted = Mounted::start(&place.dir, &place.point, &place.store, &["--create", "6MiB"]);
    let names: Vec<&str> = files.iter().map(|(n, _)| n.as_str()).collect();
    mounted.group(&names);
    let state = mounted.state();
    let here = state["grouped_files"].as_u64().unwrap();
    assert!(here > 20 && here < 160, "{here} files");
    assert!(state["trouble"].as_str().unwrap().contains("no space left"), "{state}");
    // A sixteenth of the clusters is free for stored files that are written.
    for (name, bytes) in &mut files {
        assert_eq!(fs::read(mounted.path(&name)).unwrap(), *bytes);
        let file = File::options().write(true).open(mounted.path(&name)).unwrap();
        file.write_all_at(b"written", 50_000).unwrap();
        bytes[50_000..50_007].copy_from_slice(b"written");
    }
    assert_eq!((mounted.number("grouped_files"), mounted.number("grouped_writes")), (here, here));
    for (name, bytes) in &files {
        assert_eq!(fs::read(mounted.path(name)).unwrap(), *bytes);
    }
    mounted.unmount(&["--return"]);
    for (name, bytes) in &files {
        assert_eq!(fs::read(place.dir.join(name)).unwrap(), *bytes);
    }
}

/// Small files fill the clusters of a store, and grow.
#[test]
fn a_grouped_file_goes_home_where_the_store_has_no_space_for_what_is_written() {
    need!("no room to grow", missing());
    let place = place();
    let mut numbers = Numbers::new(4);
    let mut files: Vec<(String, Vec<u8>)> =
        (0..480).map(|i| (format!("f{i}"), numbers.bytes(1_000))).collect();
    for (name, bytes) in &files {
        fs::write(place.dir.join(name), bytes).unwrap();
    }
    let mounted = Mounted::start(&place.dir, &place.point, &place.store, &["--create", "6MiB"]);
    let names: Vec<&str> = files.iter().map(|(n, _)| n.as_str()).collect();
    mounted.group(&names);
    let here = mounted.number("grouped_files");
    assert!(here > 200, "{here} files");
    for (name, bytes) in &mut files {
        let mut file = File::options().append(true).open(mounted.path(&name)).unwrap();
        let more = numbers.bytes(50_000);
        file.write_all(&more).unwrap();
        bytes.extend(more);
    }
    let counts = ["grouped_writes", "returned", "grouped_files"].map(|n| mounted.number(n));
    assert!(counts.iter().all(|n| *n > 10), "{counts:?}");
    assert_eq!(counts[1] + counts[2], here);
    for (name, bytes) in &files {
        assert_eq!(fs::read(mounted.path(name)).unwrap(), *bytes);
    }
    mounted.unmount(&[]);
    place.check();
    place.mount().unmount(&["--return"]);
    for (name, bytes) in &files {
        assert_eq!(fs::read(place.dir.join(name)).unwrap(), *bytes);
    }
}
