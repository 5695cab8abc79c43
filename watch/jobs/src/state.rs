//! The file in which the jobs of a file system are kept: a magic number, the version, a checksum,
//! and the jobs in little-endian numbers. A file that is not sound is refused as a whole.

use twox_hash::XxHash3_64;

use crate::job::{EXITS_MOST, Job, JobPause, LOSSES, Tally};
use crate::piece::{Piece, PieceId};
use crate::run::PIECES_MOST;
use crate::watcher::{JOBS_MOST, PIECES_ALL};

const MAGIC: &[u8; 8] = b"SKLWATCH";
/// Version of the format.
pub const VERSION: u32 = 2;
/// The version before: jobs without exits.
const WITHOUT_EXITS: u32 = 1;
const HEADER: usize = 8 + 4 + 8;
const NAME_MOST: usize = 64;
/// Bytes of a piece.
const PIECE: usize = 8 + 4 + 4 + 4 + 8 + 1;
/// Bytes of an exit.
const EXIT: usize = 8 + 4 + 2;
/// No sound file is longer.
pub const BYTES_MOST: usize = HEADER + PIECES_ALL * PIECE + JOBS_MOST * 384 + 64;

/// Why a file is not sound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum StateError {
    #[error("no state of seekless watch: expected the bytes SKLWATCH at byte 0")]
    Magic,
    #[error("state of version {0}, this program knows {VERSION}")]
    Version(u32),
    #[error("the checksum at byte 12 does not match the {0} bytes behind it")]
    Checksum(usize),
    #[error("byte {at}: {what}")]
    Contents { at: usize, what: &'static str },
}

/// The bytes of a file.
pub fn encode(jobs: &[Job]) -> Vec<u8> {
    let mut body = Vec::new();
    put32(&mut body, jobs.len() as u32);
    for job in jobs {
        put32(&mut body, job.id);
        put64(&mut body, job.program);
        let name = job.name.as_bytes();
        let name = if name.len() <= NAME_MOST { name } else { b"" };
        body.push(name.len() as u8);
        body.extend_from_slice(name);
        for n in [job.runs, job.recognized] {
            put32(&mut body, n);
        }
        put64(&mut body, job.last_used);
        for tally in [job.plain, job.helped] {
            for n in [tally.runs, tally.misses, tally.millis] {
                put32(&mut body, n);
            }
        }
        for n in [job.fetched, job.vain, job.would.0, job.would.1] {
            put64(&mut body, n);
        }
        let [own, others] = job.rests;
        body.extend([own.losses, others.losses, own.runs, others.runs]);
        put32(&mut body, job.exits.len() as u32);
        for (place, rest) in &job.exits {
            put64(&mut body, place.file);
            put32(&mut body, place.chunk);
            body.extend([rest.losses, rest.runs]);
        }
        put32(&mut body, job.pieces.len() as u32);
        for piece in &job.pieces {
            put64(&mut body, piece.place.file);
            for n in [piece.place.chunk, piece.pages, piece.generation] {
                put32(&mut body, n);
            }
            put64(&mut body, piece.block);
            body.push(piece.unseen);
        }
    }
    let mut all = MAGIC.to_vec();
    put32(&mut all, VERSION);
    put64(&mut all, XxHash3_64::oneshot(&body));
    all.extend(body);
    all
}

/// The jobs in a file.
pub fn decode(bytes: &[u8]) -> Result<Vec<Job>, StateError> {
    let mut input = Input { bytes, at: 0, exits: true };
    if input.array::<8>() != Ok(*MAGIC) {
        return Err(StateError::Magic);
    }
    let version = input.u32()?;
    if version != VERSION && version != WITHOUT_EXITS {
        return Err(StateError::Version(version));
    }
    input.exits = version != WITHOUT_EXITS;
    let sum = input.u64()?;
    let body = &bytes[HEADER..];
    if XxHash3_64::oneshot(body) != sum {
        return Err(StateError::Checksum(body.len()));
    }
    let count = input.count(JOBS_MOST, 64, "more jobs than a file may hold")?;
    let jobs = (0..count).map(|_| input.job()).collect::<Result<Vec<_>, _>>()?;
    if jobs.iter().map(|j| j.pieces.len()).sum::<usize>() > PIECES_ALL {
        return Err(input.fault("more pieces than a file may hold"));
    }
    if input.at != bytes.len() {
        return Err(input.fault("bytes behind the last job"));
    }
    Ok(jobs)
}

/// The body of the fuzz target: what is read is written back the same.
///
/// # Panics
/// A law is broken.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    let mut sealed = MAGIC.to_vec();
    put32(&mut sealed, VERSION);
    put64(&mut sealed, XxHash3_64::oneshot(data));
    sealed.extend_from_slice(data);
    for bytes in [data, &sealed] {
        if let Ok(jobs) = decode(bytes) {
            let before = bytes.get(8..12) == Some(&WITHOUT_EXITS.to_le_bytes());
            assert!(before || encode(&jobs) == bytes, "read and written back");
        }
    }
}

fn put32(out: &mut Vec<u8>, n: u32) {
    out.extend(n.to_le_bytes());
}

fn put64(out: &mut Vec<u8>, n: u64) {
    out.extend(n.to_le_bytes());
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Jobs have exits.
    exits: bool,
}

impl Input<'_> {
    const fn fault(&self, what: &'static str) -> StateError {
        StateError::Contents { at: self.at, what }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let found = *rest.first_chunk().ok_or_else(|| self.fault("the file ends too soon"))?;
        self.at += N;
        Ok(found)
    }

    fn u8(&mut self) -> Result<u8, StateError> {
        Ok(self.array::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32, StateError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, StateError> {
        self.array().map(u64::from_le_bytes)
    }

    /// A count of things that take at least `least` bytes each.
    fn count(
        &mut self,
        most: usize,
        least: usize,
        what: &'static str,
    ) -> Result<usize, StateError> {
        let count = self.u32()? as usize;
        let rest = self.bytes.len().saturating_sub(self.at);
        if count > most || count > rest / least { Err(self.fault(what)) } else { Ok(count) }
    }

    fn job(&mut self) -> Result<Job, StateError> {
        let mut job = Job::new(self.u32()?, self.u64()?, Vec::new());
        let length = usize::from(self.u8()?);
        let name = self.bytes.get(self.at..self.at + length).filter(|_| length <= NAME_MOST);
        let name = name.and_then(|n| std::str::from_utf8(n).ok());
        job.name = name.ok_or_else(|| self.fault("a name that is no text"))?.to_owned();
        self.at += length;
        (job.runs, job.recognized, job.last_used) = (self.u32()?, self.u32()?, self.u64()?);
        job.plain = self.tally()?;
        job.helped = self.tally()?;
        (job.fetched, job.vain) = (self.u64()?, self.u64()?);
        job.would = (self.u64()?, self.u64()?);
        let [own, others, own_runs, other_runs] = self.array()?;
        job.rests = [self.rest(own, own_runs)?, self.rest(others, other_runs)?];
        let exits = if self.exits {
            self.count(EXITS_MOST, EXIT, "more exits than a job may have")?
        } else {
            0
        };
        job.exits = (0..exits).map(|_| self.exit()).collect::<Result<_, _>>()?;
        let count = self.count(2 * PIECES_MOST, PIECE, "more pieces than a job may have")?;
        job.pieces = (0..count).map(|_| self.piece()).collect::<Result<_, _>>()?;
        job.index();
        if job.distinct() != job.pieces.len() {
            return Err(self.fault("a piece that is there twice"));
        }
        Ok(job)
    }

    fn rest(&self, losses: u8, runs: u8) -> Result<JobPause, StateError> {
        let sound = losses < LOSSES;
        sound
            .then_some(JobPause { losses, runs })
            .ok_or_else(|| self.fault("more losses than a job may have"))
    }

    fn exit(&mut self) -> Result<(PieceId, JobPause), StateError> {
        let place = PieceId { file: self.u64()?, chunk: self.u32()? };
        let [losses, runs] = self.array()?;
        Ok((place, self.rest(losses, runs)?))
    }

    fn tally(&mut self) -> Result<Tally, StateError> {
        Ok(Tally { runs: self.u32()?, misses: self.u32()?, millis: self.u32()? })
    }

    fn piece(&mut self) -> Result<Piece, StateError> {
        let place = PieceId { file: self.u64()?, chunk: self.u32()? };
        let (pages, generation) = (self.u32()?, self.u32()?);
        Ok(Piece { place, pages, generation, block: self.u64()?, unseen: self.u8()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn jobs() -> Vec<Job> {
        let piece = |n: u32| Piece {
            generation: n,
            block: n.into(),
            unseen: 1,
            ..Piece::new(PieceId { file: n.into(), chunk: n }, n)
        };
        let mut one = Job::new(3, 7, (1..20).map(piece).collect());
        one.name = "du".to_owned();
        (one.runs, one.recognized, one.last_used, one.would) = (4, 3, 9, (1, 2));
        one.exits = vec![(PieceId { file: 5, chunk: 5 }, JobPause { losses: 1, runs: 8 })];
        one.helped = Tally { runs: 2, misses: 3, millis: 4 };
        vec![one, Job::new(4, 0, Vec::new())]
    }

    /// With the right checksum, whatever the body holds.
    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        let sum = XxHash3_64::oneshot(&bytes[HEADER..]);
        bytes[12..HEADER].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = encode(&jobs());
        let read = decode(&bytes).unwrap();
        assert_eq!(encode(&read), bytes);
        assert_eq!(format!("{read:?}"), format!("{:?}", jobs()));
        assert!(decode(&encode(&[])).unwrap().is_empty());
    }

    /// Another value means another format: then files of today need a new version.
    #[test]
    fn bytes_of_version_2_stay_as_they_are() {
        assert_eq!(
            (VERSION, XxHash3_64::oneshot(&encode(&jobs()))),
            (2, 11_409_822_894_917_462_434)
        );
    }

    #[test]
    fn version_1_is_read_as_it_always_was() {
        let mut jobs = jobs();
        jobs[0].exits.clear();
        let mut bytes = encode(&jobs);
        // The numbers of exits, which version 1 does not have: zero here.
        let first = HEADER + 4 + 91;
        let second = first + 4 + 19 * PIECE + 89;
        bytes.drain(first..first + 4);
        bytes.drain(second..second + 4);
        bytes[8] = 1;
        let bytes = sealed(bytes);
        assert_eq!(XxHash3_64::oneshot(&bytes), 467_470_740_640_727_401);
        assert_eq!(decode(&bytes), Ok(jobs));
    }

    #[test]
    fn every_truncation_and_every_changed_byte_is_refused() {
        let bytes = encode(&jobs());
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut]).is_err(), "{cut}");
            if cut > HEADER {
                assert!(decode(&sealed(bytes[..cut].to_vec())).is_err(), "{cut}, sealed");
            }
            let mut changed = bytes.clone();
            changed[cut] ^= 1;
            assert!(decode(&changed).is_err(), "{cut}");
        }
        assert_eq!(decode(b"something"), Err(StateError::Magic));
    }

    proptest! {
        #[test]
        fn any_sealed_bytes_are_refused_or_read_back_the_same(
            at in HEADER..600usize, value: u8, cut in 0usize..100
        ) {
            let mut bytes = encode(&jobs());
            let at = at.min(bytes.len() - 1);
            bytes[at] = value;
            bytes.truncate((bytes.len() - cut).max(HEADER));
            fuzz(&bytes);
            fuzz(&bytes[HEADER..]);
        }
    }
}
