//! Several clients at once against a flat array of bytes, while layouts change.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seekless_block::{Bytes, Dice, Extent, Lba};
use seekless_disk::{Disk, Scheduler, SpinDown, catalogue};
use seekless_learn::{Copy, Plan};
use seekless_nbd::{Command, CommandFlags};
use seekless_serve::{Backing, Builder, Emulation, ServerHandle};

use crate::{Dir, client};

const SECTORS: u64 = 8192;
/// The optimized area.
const AREA: u64 = 16_384;
/// The least part of it for copies.
const ROOM: u64 = AREA / 4;
const CLIENTS: u64 = 3;
/// Clients own runs of this number of sectors in turn: less than a page, so that they share pages.
const STRIPE: u64 = 5;

/// The `i`-th sector that a client owns.
fn owned(client: u64, i: u64) -> u64 {
    (i / STRIPE * CLIENTS + client) * STRIPE + i % STRIPE
}

/// Copies of random runs, packed in random order.
fn random_plan(random: &mut Dice) -> Plan {
    let mut copies = Vec::new();
    // Whole pages, and not more than the area can hold beside its metadata.
    let (mut home, mut place) = (8 * random.below(8), 0);
    while home < SECTORS && place < ROOM {
        let len = (8 * (1 + random.below(12))).min(SECTORS - home).min(ROOM - place);
        copies.push(Copy { home: Extent::new(home, len), place: Lba(place) });
        home += len + 8 * random.below(8);
        place += len;
    }
    // Places in another order than homes.
    if random.below(2) == 0 {
        let mut place = 0;
        copies.reverse();
        for copy in &mut copies {
            copy.place = Lba(place);
            place += copy.home.len.0;
        }
    }
    Plan { copies }
}

/// One client: requests for its own sectors, several in flight, without overlap.
fn live(server: &ServerHandle, me: u64, seed: u64, steps: u32) -> BTreeMap<u64, u8> {
    let mut random = Dice::new(seed);
    let mut client = client(server);
    let mut model: BTreeMap<u64, u8> = BTreeMap::new();
    // Expected data by cookie; the sectors in flight.
    let mut in_flight: BTreeMap<u64, (u64, u64, Option<Vec<u8>>)> = BTreeMap::new();
    let runs = SECTORS / CLIENTS / STRIPE - 1;
    for step in 0..steps {
        let at = owned(me, random.below(runs) * STRIPE);
        let skip = random.below(STRIPE);
        let (start, len) = (at + skip, 1 + random.below(STRIPE - skip));
        let clash = in_flight.values().any(|&(s, l, _)| start < s + l && s < start + len);
        if clash || in_flight.len() >= 8 {
            let ended = client.next_end().unwrap();
            let (s, l, expected) = in_flight.remove(&ended.cookie).unwrap();
            assert_eq!(ended.result, Ok(()), "seed {seed} step {step}");
            if let Some(expected) = expected {
                let (start, len) = (s, l);
                assert!(ended.data == expected, "seed {seed} step {step}: sectors {start}+{len}");
            }
            continue;
        }
        let byte = random.draw() as u8;
        let none = CommandFlags::NONE;
        let fua = if random.below(8) == 0 { CommandFlags::FUA } else { none };
        let (command, flags, fill) = match random.below(20) {
            0..=8 => (Command::Read, none, None),
            9..=15 => (Command::Write, fua, Some(byte)),
            16 => (Command::WriteZeroes, fua, Some(0)),
            17 => (Command::WriteZeroes, CommandFlags::NO_HOLE, Some(0)),
            18 => (Command::Trim, none, Some(0)),
            _ => (Command::Flush, none, None),
        };
        let expected = (command == Command::Read).then(|| {
            (start..start + len)
                .flat_map(|s| [model.get(&s).copied().unwrap_or(0); 512])
                .collect::<Vec<u8>>()
        });
        if let Some(fill) = fill {
            model.extend((start..start + len).map(|s| (s, fill)));
        }
        let bytes = (len * 512) as u32;
        let payload = vec![byte; if command == Command::Write { bytes as usize } else { 0 }];
        let (offset, bytes) = if command == Command::Flush { (0, 0) } else { (start * 512, bytes) };
        let cookie = client.submit(command, flags, offset, bytes, &payload).unwrap();
        let busy = if command == Command::Flush { 0 } else { len };
        in_flight.insert(cookie, (start, busy, expected));
    }
    while !in_flight.is_empty() {
        let ended = client.next_end().unwrap();
        let (.., expected) = in_flight.remove(&ended.cookie).unwrap();
        assert_eq!(ended.result, Ok(()));
        assert!(expected.is_none_or(|e| e == ended.data), "seed {seed}: at the end");
    }
    client.flush().unwrap();
    client.disconnect().unwrap();
    model
}

fn hold_against_the_model(builder: Builder, seed: u64, steps: u32) {
    println!("seed {seed}");
    let server = builder.area(Bytes(AREA * 512)).spawn().unwrap();
    let over = AtomicBool::new(false);
    let models: Vec<_> = std::thread::scope(|scope| {
        let installer = scope.spawn(|| {
            let mut random = Dice::new(seed);
            let mut installed = 0;
            while !over.load(Ordering::Relaxed) {
                server.install(random_plan(&mut random)).unwrap();
                installed += 1;
                // Some plans are replaced half-way, some complete.
                server.wait_settled(Duration::from_millis(random.below(40))).unwrap();
            }
            installed
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|me| {
                let server = &server;
                scope.spawn(move || live(server, me, seed + 1 + me, steps))
            })
            .collect();
        let ends: Vec<_> = clients.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        over.store(true, Ordering::Relaxed);
        let models = ends.into_iter().map(Result::unwrap).collect();
        assert!(installer.join().unwrap() > 1, "layouts changed meanwhile");
        models
    });
    // Another client sees all writes, from any place, twice.
    assert!(server.wait_settled(Duration::from_secs(60)).unwrap());
    let mut reader = client(&server);
    for _ in 0..2 {
        for start in (0..SECTORS).step_by(64) {
            let got = reader.read(start * 512, 64 * 512).unwrap();
            for (i, sector) in got.chunks(512).enumerate() {
                let at = start + i as u64;
                let model: &BTreeMap<u64, u8> = &models[(at / STRIPE % CLIENTS) as usize];
                let byte = model.get(&at).copied().unwrap_or(0);
                assert!(sector.iter().all(|&b| b == byte), "seed {seed}: sector {at}");
            }
        }
    }
    let stats = server.stop().unwrap();
    assert!(stats.engine.copy_reads > 0 && stats.engine.home_reads > 0, "{stats:?}");
    assert_eq!(stats.engine.plans_refused, 0);
}

#[test]
fn a_file_holds_what_was_written() {
    let dir = Dir::new("model-file");
    let file = dir.file("disk", SECTORS * 512);
    hold_against_the_model(Builder::new(Backing::Path(file)), 11, 6000);
}

#[test]
fn a_file_behind_a_small_cache_holds_what_was_written() {
    let dir = Dir::new("model-cache");
    let file = dir.file("disk", SECTORS * 512);
    let builder = Builder::new(Backing::Path(file)).engine(|c| {
        c.cache_bytes = Bytes(256 << 10);
        c.read_ahead = Bytes(32 << 10);
        c.cluster = Bytes(16 << 10);
        c.buffer_bytes = Bytes(64 << 10);
    });
    hold_against_the_model(builder, 22, 6000);
}

#[test]
fn an_emulated_disk_holds_what_was_written() {
    let disk = Disk::new(&catalogue::get("wd800jb").unwrap()).unwrap();
    let emulation = Emulation {
        disk: disk.into(),
        scheduler: Scheduler::Sptf,
        host: None,
        spin_down: SpinDown::None,
        speed: 200.0,
        path_max: 1000,
    };
    let builder = Builder::new(Backing::Memory(Bytes(SECTORS * 512)))
        .engine(|c| {
            c.cache_bytes = Bytes(128 << 10);
            c.read_ahead = Bytes(16 << 10);
            c.cluster = Bytes(16 << 10);
        })
        .emulate(emulation);
    hold_against_the_model(builder, 33, 2500);
}
