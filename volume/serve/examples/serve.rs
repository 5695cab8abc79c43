//! Serves a file over a unix socket until its standard input ends, for measurements: `serve FILE
//! SOCKET [vanilla|adaptive|learn|area|free|replicas]`. `vanilla` and `adaptive`: 16 MiB of RAM and
//! read-ahead of 64 KiB, as `seekless serve` has them; the second has an area too. `learn`: every request is observed, and every other 64 KiB
//! of the device has a copy, up to the size of such a map, before it reports ready. `area`: there
//! is an empty area beside the file. `free`: serves a copy of the file whose last quarter is
//! discarded and may have replicas. `replicas`: it is full of them. At the end it prints the reads
//! from copies, and the requests that the learner missed.
#![allow(clippy::print_stdout, reason = "a program")]

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use seekless_block::{Bytes, Extent, Flags, Lba, Op, Sectors};
use seekless_learn::{Copy, Plan, Policy, PolicyName, Replica};
use seekless_serve::area::{AreaPlacement, MakeOptions, Share, make};
use seekless_serve::{Address, Backing, Builder, Learning, ServerHandle};

type Error = Box<dyn std::error::Error>;

/// Copies of every other 64 KiB of the device: as many entries as such a map can have.
fn full_map(size: Bytes) -> Plan {
    const RUN: u64 = 128;
    let runs = size.0 / 512 / RUN;
    let copies = (0..runs / 2)
        .map(|i| Copy { home: Extent::new(i * 2 * RUN, RUN), place: Lba(i * RUN) })
        .collect();
    Plan { copies }
}

/// Copies a file page by page, so that the host's cache holds it as after random access.
fn twin(file: &Path) -> std::io::Result<PathBuf> {
    let path = file.with_extension("twin");
    let (mut from, mut to) = (File::open(file)?, File::create(&path)?);
    let mut page = [0; 4096];
    for _ in 0..from.metadata()?.len() / 4096 {
        from.read_exact(&mut page)?;
        to.write_all(&page)?;
    }
    Ok(path)
}

/// Makes an area for a file, beside it.
fn area(file: &Path, replicas: bool) -> Result<PathBuf, Error> {
    let path = file.with_extension("area");
    // An area from the last run belonged to an older state of the file.
    if path.exists() {
        std::fs::remove_file(&path)?;
    }
    let replicas = replicas.then_some(Share::Percent(25));
    let options = MakeOptions {
        replicas,
        force: true,
        ..MakeOptions::new(AreaPlacement::Beside(path.clone()))
    };
    make(file, &options)?;
    Ok(path)
}

/// Discards the last quarter of the device, and allows replicas of every fourth of its 64 KiB.
fn spread(server: &ServerHandle, fill: bool) -> Result<(), Error> {
    const RUN: u64 = 128;
    let runs = server.size().0 / 512 / RUN;
    let way_in = server.injector();
    let free = Extent::new(runs / 4 * 3 * RUN, runs / 4 * RUN);
    way_in.call(Op::Discard, free, Flags::NONE, Vec::new())?;
    if !fill {
        return Ok(());
    }
    // A fifth of the device stays free, as required.
    let homes: Vec<Extent> = (0..runs / 16).map(|i| Extent::new(i * 12 * RUN, RUN)).collect();
    let sectors = homes.len() as u64 * RUN;
    way_in.replicate(vec![Replica { place: free.start, homes }])?;
    let began = Instant::now();
    while server.stats()?.area.replicas.is_none_or(|r| r.standing.0 < sectors) {
        if began.elapsed() > Duration::from_secs(60) {
            return Err(format!("the replicas do not stand: {:?}", server.stats()?.area).into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().collect();
    let [_, file, socket, rest @ ..] = args.as_slice() else {
        return Err("usage: serve FILE SOCKET [vanilla|adaptive|learn|area|free|replicas]".into());
    };
    let how = rest.first().map_or("", String::as_str);
    let (learn, replicas) = (how == "learn", how == "free" || how == "replicas");
    let file = if replicas { twin(Path::new(file))? } else { file.into() };
    let size = std::fs::metadata(&file)?.len();
    let mut builder =
        Builder::new(Backing::Path(file.clone())).listen(Address::Unix(socket.into()));
    if how == "vanilla" || how == "adaptive" {
        builder = builder.engine(|config| {
            config.cache_bytes = Bytes(16 << 20);
            config.read_ahead = Bytes(64 << 10);
            config.cluster = Bytes(64 << 10);
        });
        if how == "adaptive" {
            let policy = Policy::new(PolicyName::Adaptive);
            let area = Bytes(size / 8);
            builder = builder.area(area).learning(Learning::default().policy(policy));
        }
    } else if learn {
        // Half the device, and its metadata.
        let area = Sectors(size / 1024 * 5 / 4);
        // The learner of the server; nobody asks it to plan.
        builder = builder.area(area.bytes()).learning(Learning::default());
    } else if !how.is_empty() {
        builder = builder.area_path(area(&file, replicas)?);
    }
    let server = builder.spawn()?;
    if learn {
        let plan = full_map(server.size());
        let sectors = plan.sectors().0;
        server.install(plan)?;
        server.wait_settled(Duration::from_secs(600))?;
        let copied = server.stats()?.copied_sectors;
        if copied != sectors {
            return Err(format!("only {copied} of {sectors} sectors were copied").into());
        }
        // A read through the server loads its part of the area into the page cache.
        let way_in = server.injector();
        for at in (0..size / 512).step_by(128) {
            let room = vec![0; 65_536];
            way_in.call(Op::Read, Extent::new(at, 128), Flags::NONE, room)?;
        }
    } else if replicas {
        spread(&server, how == "replicas")?;
    }
    println!("ready, {} sectors copied", server.stats()?.copied_sectors);
    // There is no input; its end is the signal.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    let stats = server.stop()?;
    let engine = stats.engine;
    println!(
        "{} requests, {} reads of copies, {} unobserved",
        engine.requests, engine.copy_reads, stats.unobserved
    );
    Ok(())
}
