//! Characterization, after FS2 (SOSP 2005) 4.2: from how long single accesses took to a disk's description.
//!
//! The access time over the distance from the access before is a band: its lower envelope is the seek curve,
//! its height one revolution. Long sequential reads give the bandwidth of each zone. Knows where each access
//! was and how long it took; not what took it, so the controller's own time counts as part of the seek.

mod entry;
mod seeks;
mod workload;
mod zones;

use seekless_block::{Duration, Extent, Op};

use crate::RangeError;
use crate::spec::{DiskSpec, SeekSpec};

pub use workload::{Pace, workload};

/// An access made while nothing else was asked of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Reads are fitted; writes only tell where the arm was.
    pub op: Op,
    /// Where.
    pub extent: Extent,
    /// How long it took.
    pub service: Duration,
}

/// Over which distance the seek curve is a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// Sectors from address to address, as FS2 has it.
    Sectors,
    /// Tracks: sectors divided by how many lie on a track, zone by zone.
    Tracks,
}

/// How the rotation speed was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpeedFrom {
    /// Reads that step backwards on a track: each waits one revolution less the step.
    BackwardSteps,
    /// The height of the band of access times.
    BandHeight,
}

/// A run of addresses with one bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedZone {
    /// First sector.
    pub first: u64,
    /// Sector after the last.
    pub end: u64,
    /// Sustained, track switches included, in sectors a second.
    pub sectors_per_second: f64,
    /// Sectors on a track.
    pub sectors_per_track: u32,
    /// From the last sector of a track to the first of the next, in milliseconds.
    pub switch_ms: f64,
}

/// What a set of samples tells of a disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The description.
    pub spec: DiskSpec,
    /// One revolution, in milliseconds.
    pub revolution_ms: f64,
    /// Where that comes from.
    pub speed_from: SpeedFrom,
    /// The band's height, whatever the speed was taken from, in milliseconds.
    pub band_ms: f64,
    /// Zones, outermost first.
    pub zones: Vec<FittedZone>,
    /// What distance the curve of the description is over.
    pub distance: Distance,
    /// Lower envelope over logical distance: sectors and milliseconds.
    pub envelope: Vec<(f64, f64)>,
    /// The accesses fitted: logical distance in sectors, access time in milliseconds.
    pub points: Vec<(f64, f64)>,
}

/// Samples that do not tell enough.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FitError {
    /// Too few of a kind.
    #[error("{found} {what}, {needed} or more are needed: {how}")]
    TooFew {
        /// Of what.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there must be.
        needed: usize,
        /// How to get them.
        how: &'static str,
    },
    /// Times no spinning disk has.
    #[error(
        "the accesses spread over {band_ms:.3} ms beyond the seek, which is no revolution: 2 to 1000 ms is (30000 to 60 rpm). A disk without platters, or one whose reads come from a cache?"
    )]
    NotSpinning {
        /// The band's height.
        band_ms: f64,
    },
    /// What was found makes no disk.
    #[error("the fitted disk cannot be described: {0}")]
    Range(#[from] RangeError),
}

/// Fits a disk of `capacity` sectors, called `name`, to samples in the order they were made. `from` says
/// where they come from, for the description's sources.
///
/// # Errors
/// Where there are too few samples of a kind, or they are no spinning disk's.
pub fn fit(name: &str, capacity: u64, samples: &[Sample], from: &str) -> Result<Fit, FitError> {
    let capacity = samples.iter().map(|s| s.extent.end().0).fold(capacity, u64::max);
    let stepped = seeks::backward_steps(samples).filter(|ms| (2.0..=1000.0).contains(ms));
    let runs = zones::runs(samples, stepped);
    if runs.is_empty() {
        return Err(FitError::TooFew {
            what: "sequential runs of 8 reads",
            found: 0,
            needed: 1,
            how: "without them no bandwidth is known; read a few MiB in order at several places",
        });
    }
    let map = zones::Map::new(&runs, capacity);
    let mut pairs = seeks::pairs(samples, &map);
    if pairs.len() < seeks::PAIRS_MIN {
        return Err(FitError::TooFew {
            what: "reads at a distance from the access before them",
            found: pairs.len(),
            needed: seeks::PAIRS_MIN,
            how: "trace reads at random places, one at a time",
        });
    }
    let rough = seeks::rough_band(&pairs);
    if !(2.0..=1000.0).contains(&rough) {
        return Err(FitError::NotSpinning { band_ms: rough });
    }
    // Where a cache answers steps back, they tell nothing.
    let stepped = stepped.filter(|ms| (ms / rough - 1.0).abs() < 0.15);
    let mut revolution_ms = stepped.unwrap_or(rough);
    let mut tracks = map.tracks(revolution_ms);
    pairs.retain(|p| tracks.distance(p) >= seeks::TRACKS_MIN);
    let mut fitted = seeks::best(&pairs, &tracks, revolution_ms);
    if stepped.is_none() {
        // The band's height is only known with the curve, and the curve only with the height.
        for _ in 0..3 {
            revolution_ms = fitted.band_ms;
            tracks = map.tracks(revolution_ms);
            fitted = seeks::best(&pairs, &tracks, revolution_ms);
        }
    }
    let speed_from =
        if stepped.is_some() { SpeedFrom::BackwardSteps } else { SpeedFrom::BandHeight };
    let (spec, zones) = entry::describe(name, capacity, revolution_ms, &tracks, &fitted, from);
    spec.validate()?;
    let distance = match spec.seek {
        SeekSpec::CubicLinear { .. } => Distance::Sectors,
        _ => Distance::Tracks,
    };
    Ok(Fit {
        spec,
        revolution_ms,
        speed_from,
        band_ms: fitted.band_ms,
        zones,
        distance,
        envelope: fitted.by_sectors,
        points: pairs.iter().map(|p| (p.sectors(), p.ms)).collect(),
    })
}
