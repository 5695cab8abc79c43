//! A live volume that judges itself: data is moved if that pays in the model and the volume is
//! idle, and every byte stays right.

use std::time::{Duration, Instant};

use seekless_serve::client::Client;

use crate::host::{Numbers, Server, status};

const SIZE: u64 = 64 << 20;

#[test]
fn what_proved_itself_is_moved_in_quiet_and_served() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.img");
    let address = format!("unix:{}", dir.path().join("nbd.sock").display());
    let mut numbers = Numbers::new(12);
    let model = numbers.bytes(SIZE as usize);
    std::fs::write(&image, &model).unwrap();
    let args = ["--policy", "judged", "--model", "wd800jb"];
    let args = [&args[..], &["--optimized", "16MiB", "--learn-every", "500ms"]].concat();
    let more = ["--quiet-for", "100ms", "--cache", "0", "--read-ahead", "0", "--nbd", &address];
    let server = Server::start(dir.path(), &image, None, &[&args[..], &more].concat());
    server.expect_error("judged by the model wd800jb");
    let mut client = Client::connect(&address.parse().unwrap()).unwrap();
    let places: Vec<u64> = (0..500).map(|_| numbers.below(SIZE / 4096) * 4096).collect();
    let mut read_all = || {
        for &at in places.iter().cycle().take(4 * places.len()) {
            let read = client.read(at, 4096).unwrap();
            assert!(read == model[at as usize..at as usize + 4096], "at {at}");
        }
    };
    let begun = Instant::now();
    while status(&image, &[])["moved_bytes"] == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is moved");
        read_all();
        // The learner may move data now: it looks once a second.
        std::thread::sleep(Duration::from_millis(2500));
    }
    read_all();
    drop(client);
    let counts = server.stop();
    assert!(counts["copy_reads"].as_u64().unwrap() > 0, "{counts:#}");
    assert!(std::fs::read(image).unwrap() == model, "home differs");
}
