//! Builds a disk's description from measured durations of single accesses, after FS2 (SOSP 2005)
//! 4.2.
//!
//! Plotted over the distance from the access before, the access times form a band. The band's lower
//! envelope is the seek curve, and the band's height is one revolution. Long sequential reads give
//! the bandwidth of each zone. The input is position and duration of each access, not its phases,
//! so the controller's own time counts as part of the seek.

mod catalogue_entry;
mod seek_band;
mod workload;
mod zones;

use seekless_block::{Duration, Extent, Op};

use crate::RangeError;
use crate::spec::{DiskSpec, SeekSpec};

pub use workload::{Pace, workload};

/// A measured access without other requests to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Only reads are fitted. Writes only give the position of the arm.
    pub op: Op,
    /// The sectors.
    pub extent: Extent,
    /// Duration of the access.
    pub service: Duration,
}

/// The distance that the seek curve uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// Sectors from address to address, as in FS2.
    Sectors,
    /// Tracks: sectors divided by the sectors per track of each zone.
    Tracks,
}

/// The method that gave the rotation speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpeedFrom {
    /// Reads that step backwards on a track: each waits one revolution minus the step.
    BackwardSteps,
    /// The height of the band of access times.
    BandHeight,
}

/// A range of addresses with one bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedZone {
    /// First sector.
    pub first: u64,
    /// Sector after the last sector.
    pub end: u64,
    /// Sustained bandwidth in sectors per second, including track switches.
    pub sectors_per_second: f64,
    /// Sectors per track.
    pub sectors_per_track: u32,
    /// Time from the last sector of a track to the first of the next, in milliseconds.
    pub switch_ms: f64,
}

/// The result of a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The description.
    pub spec: DiskSpec,
    /// One revolution, in milliseconds.
    pub revolution_ms: f64,
    /// The method that gave the rotation speed.
    pub speed_from: SpeedFrom,
    /// The band's height in milliseconds; present for both methods.
    pub band_ms: f64,
    /// Zones, outermost first.
    pub zones: Vec<FittedZone>,
    /// The distance that the seek curve of the description uses.
    pub distance: Distance,
    /// Lower envelope over logical distance: sectors and milliseconds.
    pub envelope: Vec<(f64, f64)>,
    /// The accesses fitted: logical distance in sectors, access time in milliseconds.
    pub points: Vec<(f64, f64)>,
}

/// The samples are not sufficient for a fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say the same")]
pub enum FitError {
    #[error("{found} {what}, {needed} or more are needed: {how}")]
    TooFew { what: &'static str, found: usize, needed: usize, how: &'static str },
    #[error(
        "the accesses spread over {band_ms:.3} ms beyond the seek, which is not a possible revolution (2 to 1000 ms, or 30000 to 60 rpm). Does the disk have platters, and are its reads answered by the disk, not by a cache?"
    )]
    NotSpinning { band_ms: f64 },
    #[error("the fitted values are not a valid disk: {0}")]
    Range(#[from] RangeError),
}

/// Fits a disk with `capacity` sectors and the name `name` to samples in the order of measurement.
/// `from` describes the origin of the samples, for the sources in the description.
pub fn fit(name: &str, capacity: u64, samples: &[Sample], from: &str) -> Result<Fit, FitError> {
    let capacity = samples.iter().map(|s| s.extent.end().0).fold(capacity, u64::max);
    let stepped = seek_band::backward_steps(samples).filter(|ms| (2.0..=1000.0).contains(ms));
    let runs = zones::runs(samples, stepped);
    if runs.is_empty() {
        return Err(FitError::TooFew {
            what: "sequential runs of 8 reads",
            found: 0,
            needed: 1,
            how: "they give the bandwidth; read a few MiB in order at several positions",
        });
    }
    let map = zones::Map::new(&runs, capacity);
    let mut pairs = seek_band::pairs(samples, &map);
    if pairs.len() < seek_band::PAIRS_MIN {
        return Err(FitError::TooFew {
            what: "reads at a distance from the access before them",
            found: pairs.len(),
            needed: seek_band::PAIRS_MIN,
            how: "record reads at random positions, one at a time",
        });
    }
    let rough = seek_band::rough_band(&pairs);
    if !(2.0..=1000.0).contains(&rough) {
        return Err(FitError::NotSpinning { band_ms: rough });
    }
    // A cache that answers steps backwards makes them useless.
    let stepped = stepped.filter(|ms| (ms / rough - 1.0).abs() < 0.15);
    let mut revolution_ms = stepped.unwrap_or(rough);
    let mut tracks = map.tracks(revolution_ms);
    pairs.retain(|p| tracks.distance(p) >= seek_band::TRACKS_MIN);
    let mut fitted = seek_band::best(&pairs, &tracks, revolution_ms);
    if stepped.is_none() {
        // The band's height needs the curve, and the curve needs the height, so repeat.
        for _ in 0..3 {
            revolution_ms = fitted.band_ms;
            tracks = map.tracks(revolution_ms);
            fitted = seek_band::best(&pairs, &tracks, revolution_ms);
        }
    }
    let speed_from =
        if stepped.is_some() { SpeedFrom::BackwardSteps } else { SpeedFrom::BandHeight };
    let (spec, zones) =
        catalogue_entry::describe(name, capacity, revolution_ms, &tracks, &fitted, from);
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
