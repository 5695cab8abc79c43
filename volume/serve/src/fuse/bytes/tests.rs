//! Byte ranges against a plain array of bytes, one by one and concurrently.

use std::sync::mpsc::{Receiver, channel};

use proptest::prelude::*;
use seekless_block::Bytes;

use super::*;
use crate::{Backing, Builder, ServerHandle};

const SIZE: usize = 6 * 512;

fn disk() -> (ServerHandle, ByteDisk) {
    let server = Builder::new(Backing::Memory(Bytes(SIZE as u64))).spawn().unwrap();
    let disk = ByteDisk::new(server.injector(), SIZE as u64);
    (server, disk)
}

fn wait<T: Send + 'static>(start: impl FnOnce(Done<T>)) -> Result<T, Errno> {
    let (send, receive) = channel();
    start(Box::new(move |result| send.send(result).unwrap()));
    receive.recv().unwrap()
}

fn read(disk: &ByteDisk, at: u64, len: u64) -> Vec<u8> {
    let (send, receive) = channel();
    disk.read(at, len, move |r| send.send(r.unwrap().to_vec()).unwrap());
    receive.recv().unwrap()
}

#[derive(Clone, Debug)]
enum ByteOperation {
    Read(u64, u64),
    Write(u64, Vec<u8>, bool),
    Zero(u64, u64),
}

fn step() -> impl Strategy<Value = ByteOperation> {
    let at = 0..SIZE as u64 + 700;
    let len = prop_oneof![0..40u64, 0..2000u64, Just(512), Just(1024)];
    let at = prop_oneof![at.clone(), at.prop_map(|a| a / 512 * 512)];
    prop_oneof![
        (at.clone(), len.clone()).prop_map(|(a, l)| ByteOperation::Read(a, l)),
        (at.clone(), len.clone(), 1u8.., any::<bool>())
            .prop_map(|(a, l, b, fua)| ByteOperation::Write(a, vec![b; l as usize], fua)),
        (at, len).prop_map(|(a, l)| ByteOperation::Zero(a, l)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_byte_range_reads_and_writes_as_in_a_plain_array(steps in prop::collection::vec(step(), 1..40)) {
        let (_server, disk) = disk();
        let mut model = vec![0u8; SIZE];
        let clip = |at: u64, len: u64| (at as usize).min(SIZE)..((at + len) as usize).min(SIZE);
        for step in steps {
            match step {
                ByteOperation::Read(at, len) => {
                    prop_assert_eq!(read(&disk, at, len), &model[clip(at, len)]);
                }
                ByteOperation::Write(at, data, fua) => {
                    let range = clip(at, data.len() as u64);
                    let expected = match (data.len(), range.len()) {
                        (1.., 0) => Err(Errno::NoSpc),
                        (_, n) => Ok(n as u64),
                    };
                    model[range.clone()].copy_from_slice(&data[..range.len()]);
                    prop_assert_eq!(wait(|done| disk.write(at, &data, fua, done)), expected);
                }
                ByteOperation::Zero(at, len) => {
                    model[clip(at, len)].fill(0);
                    prop_assert_eq!(wait(|done| disk.zero(at, len, Flags::NONE, done)), Ok(()));
                }
            }
        }
        prop_assert_eq!(read(&disk, 0, SIZE as u64 + 1), model);
    }

    /// Concurrent writers share sectors but no byte: each finds its own bytes afterwards.
    #[test]
    fn writes_of_disjoint_parts_of_the_same_sectors_at_once_lose_nothing(
        mut cuts in prop::collection::vec(0..SIZE, 2..30),
        order in Just(()).prop_perturb(|(), mut rng| rng.random::<u64>()),
    ) {
        let (_server, disk) = disk();
        cuts.extend([0, SIZE]);
        cuts.sort_unstable();
        let mut parts: Vec<_> = cuts.windows(2).map(|w| w[0]..w[1]).filter(|r| !r.is_empty()).collect();
        parts.sort_unstable_by_key(|r| (r.start as u64 ^ order).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut model = vec![0u8; SIZE];
        for round in 1..4u8 {
            let (send, ends): (_, Receiver<Result<u64, Errno>>) = channel();
            for (i, part) in parts.iter().enumerate() {
                let byte = (i as u8).wrapping_mul(7).wrapping_add(round);
                model[part.clone()].fill(byte);
                let send = send.clone();
                let done = Box::new(move |r| send.send(r).unwrap());
                disk.write(part.start as u64, &vec![byte; part.len()], false, done);
            }
            drop(send);
            prop_assert_eq!(ends.iter().map(|r| r.unwrap()).sum::<u64>(), SIZE as u64);
        }
        prop_assert_eq!(read(&disk, 0, SIZE as u64), model);
    }
}

#[test]
fn a_range_is_cut_at_sectors() {
    let cut = |from, to| pieces(&(from..to)).iter().map(|r| (r.start, r.end)).collect::<Vec<_>>();
    assert_eq!(cut(0, 512), [(0, 512)]);
    assert_eq!(cut(3, 5), [(3, 5)]);
    assert_eq!(cut(3, 512), [(3, 512)]);
    assert_eq!(cut(500, 520), [(500, 512), (512, 520)]);
    assert_eq!(cut(500, 1540), [(500, 512), (512, 1536), (1536, 1540)]);
    assert_eq!(cut(512, 1540), [(512, 1536), (1536, 1540)]);
}

#[test]
fn a_flush_is_one_request_of_the_volume_and_errors_come_back() {
    let (server, disk) = disk();
    wait(|done| disk.flush(done)).unwrap();
    assert_eq!(server.stats().unwrap().engine.requests, 1);
    server.stop().unwrap();
    let (send, receive) = channel::<Result<(), Errno>>();
    disk.flush(Box::new(move |r| send.send(r).unwrap()));
    assert!(receive.recv().is_err(), "dropped, uncalled");
}
