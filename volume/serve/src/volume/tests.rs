//! Reads that wait for memory, and long reads that come in pieces.

use rustix::event::{EventfdFlags, eventfd};
use seekless_block::{SECTOR_BYTES, Sectors};
use seekless_engine::Config;

use super::*;
use crate::backend::files::Disk;
use crate::backend::runs::Runs;
use crate::backend::unnamed::opened_memory;
use crate::conn::tests::volume_of;

const MIB: u64 = 1 << 20;
const BYTES: u64 = 32 * MIB;

/// The byte at this place of home.
fn byte(at: u64) -> u8 {
    (at / 512 * 7 + at / MIB) as u8
}

/// A volume with so much memory for reads in flight; `slow`: no read is done at once.
fn volume(reads: usize, read_ahead: u64, slow: bool) -> Volume<u64> {
    let home = opened_memory(BYTES).unwrap().fd;
    let bytes: Vec<u8> = (0..BYTES).map(byte).collect();
    rustix::io::pwrite(&home, &bytes, 0).unwrap();
    let files = Files::new(Disk::new(home, Runs::all()), 0, None);
    let config = Config {
        cache_bytes: Bytes(16 * MIB),
        read_ahead: Bytes(read_ahead),
        ..Config::new(Sectors(BYTES / SECTOR_BYTES))
    };
    let shares = Shares { reads, kept: 0, ..Shares::UNBOUND };
    let bell = eventfd(0, EventfdFlags::empty()).unwrap();
    let files = files.map(|files| if slow { files.slow() } else { files });
    volume_of(config, files, shares, Arc::new(bell))
}

/// Starts reads of these bytes; a read has its place as its owner.
fn ask(volume: &mut Volume<u64>, at: u64, len: u64) {
    let extent = Extent::new(at / SECTOR_BYTES, len / SECTOR_BYTES);
    let data = Data::Owned(vec![0; len as usize]);
    assert!(volume.start(at, Op::Read, extent, Flags::NONE, data).is_none());
}

/// What ends, until nothing is in flight. Reads never hold more memory than they may, but one alone.
fn ends(volume: &mut Volume<u64>) -> Vec<Finished<u64>> {
    let (mut ends, began) = (Vec::new(), std::time::Instant::now());
    while !volume.is_idle() || !volume.finished.is_empty() {
        assert!(began.elapsed().as_secs() < 20, "it never ends");
        volume.refresh();
        volume.advance();
        let most = volume.reads_most.max(1 << 20);
        assert!(volume.reads_hold <= most, "{}", volume.reads_hold);
        // Buffers of pieces, and those of windows that stay.
        assert!(volume.memories.bytes() <= 2 * most, "{}", volume.memories.bytes());
        ends.extend(std::iter::from_fn(|| volume.drain()));
    }
    ends
}

#[test]
fn reads_wait_for_memory_and_bring_the_bytes_of_their_places() {
    for (reads, slow) in [(4 << 20, true), (4 << 20, false), (4096, true), (4096, false)] {
        let mut volume = volume(reads, MIB, slow);
        // RAM has a MiB at their fronts, and one in their middle: so the rest of a long read comes in
        // two parts, and in pieces.
        let places = (0..5).map(|n| n * 6 * MIB);
        for at in places.clone().flat_map(|at| [at, at + 3 * MIB]) {
            ask(&mut volume, at, 4096);
        }
        assert_eq!(ends(&mut volume).len(), 10);
        for at in places {
            ask(&mut volume, at, 6 * MIB);
        }
        assert!(!slow || volume.reads_hold > 0 && !volume.starved.is_empty());
        let ends = ends(&mut volume);
        assert_eq!(ends.len(), 5);
        for Finished { owner, result, buf, .. } in ends {
            result.unwrap();
            let right = buf.unwrap().iter().zip(owner..).all(|(&b, at)| b == byte(at));
            assert!(right, "the read at {owner}");
        }
        assert!(volume.reads_hold == 0 && volume.starved.is_empty());
        volume.memories.trim(volume.engine.idle_buffers());
        assert!(volume.memories.bytes() <= reads / 2, "{}", volume.memories.bytes());
    }
}

#[test]
fn no_read_overtakes_those_that_wait_for_memory() {
    let mut volume = volume(1 << 20, 0, true);
    for at in [0, 8 * MIB, 16 * MIB] {
        ask(&mut volume, at, 4096);
    }
    ends(&mut volume);
    // The last one needs a page, and there are some.
    for (at, len) in [(0, MIB / 2 + 4096), (8 * MIB, MIB + 4096), (16 * MIB, 8192)] {
        ask(&mut volume, at, len);
    }
    assert_eq!((volume.reads_hold, volume.starved.len()), (512 << 10, 2));
    assert_eq!(ends(&mut volume).len(), 3);
}

#[test]
fn a_read_fails_if_any_piece_fails() {
    let mut volume = volume(4 << 20, MIB, true);
    ask(&mut volume, 0, 4096);
    ends(&mut volume);
    ask(&mut volume, 0, 4 * MIB);
    // As if the worker had said that the first of three pieces failed.
    let io = volume.running.iter().flatten().next().unwrap().io.id;
    let (name, result, buf) = (JobName::Io(io), Err(Errno::Io), vec![0; 1 << 20]);
    volume.ended(crate::backend::workers::EndedJob { name, result, buf, runs: Vec::new() });
    assert_eq!(volume.drain().unwrap().result, Err(Errno::Io));
    assert_eq!(volume.reads_hold, 0);
}
