//! Carrying out a list: hot files' blocks exchanged for a run of free space, one file after another. May be ended between any
//! two instructions: each exchange is a transaction of the file system, and what was exchanged stays so. Run again, it
//! goes on with what still lies apart.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use anyhow::{Context as _, bail};
use seekless_block::Bytes;
use seekless_serve::extents;
use serde::Serialize;

use super::donor::{self, Donor};
use super::lies;
use super::list::{Hot, List};
use super::place::{Place, Survey, Travel, Trip, survey};
use super::volume::Volume;

/// Moving less than this share of the way away is not worth it.
const WORTH: f64 = 0.05;

/// What came of it.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    schema: &'static str,
    /// Files of the list.
    pub(super) files: usize,
    pub(super) moved_files: u64,
    pub(super) moved_bytes: u64,
    /// Reasons, and how many files.
    pub(super) left_alone: BTreeMap<&'static str, u64>,
    pub(super) before: Trip,
    /// What was foretold of the place that was found.
    pub(super) foretold: Option<Trip>,
    pub(super) after: Trip,
    /// Where nothing was moved: why.
    pub(super) why_not: Option<String>,
}

pub(super) fn apply(
    volume: &Volume,
    travel: &Travel,
    list: &List,
    progress: &mut dyn FnMut(u64, u64),
) -> anyhow::Result<Outcome> {
    if let Some(why) = volume.refusal() {
        bail!("nothing can be moved on {}: {why}", volume.path.display());
    }
    let found = survey(volume, list);
    let before = travel.of(&found.lies());
    let mut outcome = Outcome {
        schema: "seekless.cluster/1",
        files: list.files.len(),
        moved_files: 0,
        moved_bytes: 0,
        left_alone: found.left_alone().clone(),
        before,
        foretold: None,
        after: before,
        why_not: None,
    };
    let apart = found.apart();
    if apart.is_empty() {
        outcome.why_not = Some("what may be moved lies together already".to_owned());
        return Ok(outcome);
    }
    let order = found.organ_pipe(&apart);
    let need: u64 = order.iter().map(|&i| found.files[i].1.bytes()).sum();
    let spare = volume.blocks / 100;
    if need / volume.block + spare > volume.free {
        bail!(
            "moving {} needs as much free space for a while, and one per cent to spare; {} has {} free",
            Bytes(need),
            volume.path.display(),
            Bytes(volume.free * volume.block)
        );
    }
    let name = |i: usize| &list.files[found.files[i].0];
    let layout = |donor: &Donor| layout(&found, &order, donor);
    let donor = donor::best(volume, need, order.iter().map(|&i| name(i).path.as_str()), |d| {
        travel.of(&layout(d)).distance
    })
    .with_context(|| format!("cannot take free space on {}", volume.path.display()))?;
    let foretold = travel.of(&layout(&donor));
    outcome.foretold = Some(foretold);
    if foretold.distance > before.distance * (1.0 - WORTH) {
        outcome.why_not = Some(format!("it would not shorten the way by {:.0} %", WORTH * 100.0));
        return Ok(outcome);
    }
    let (mut at, mut done) = (0, 0);
    for &i in &order {
        let planned = found.files[i].1.bytes();
        match exchange(volume, name(i), planned, &donor, at) {
            Ok(bytes) => {
                outcome.moved_files += 1;
                outcome.moved_bytes += bytes;
            }
            Err(why) => *outcome.left_alone.entry(why).or_insert(0) += 1,
        }
        at += planned;
        done += planned;
        progress(done, need);
    }
    // Before the old blocks are anybody's.
    rustix::fs::syncfs(&volume.root)?;
    drop(donor);
    outcome.after = travel.of(&survey(volume, list).lies());
    if outcome.moved_files == 0 {
        outcome.why_not = Some("ext4 refused every file".to_owned());
    }
    Ok(outcome)
}

/// Where everything would lie: what is moved in the donor's space, the rest where it is.
fn layout(found: &Survey, order: &[usize], donor: &Donor) -> Vec<Place> {
    let mut places = Vec::new();
    let mut stays = vec![true; found.files.len()];
    let mut at = 0;
    for &i in order {
        stays[i] = false;
        let (hot, movable) = &found.files[i];
        let bytes = movable.bytes();
        let part = |(start, len): (u64, u64)| {
            (start, len, found.heat[*hot] * len as f64 / bytes.max(1) as f64)
        };
        places.extend(donor.pieces(at, bytes).map(part));
        at += bytes;
    }
    for (hot, movable) in found.files.iter().zip(stays).filter(|f| f.1).map(|f| f.0) {
        let bytes = movable.bytes().max(1) as f64;
        places.extend(
            movable
                .runs
                .iter()
                .map(|r| (r.physical, r.len, found.heat[*hot] * r.len as f64 / bytes)),
        );
    }
    places
}

/// Exchanges all that is written in a file for the donor's blocks from byte `at` on. The error is why it was left alone, or
/// not moved to its end: it is whole either way.
fn exchange(
    volume: &Volume,
    hot: &Hot,
    planned: u64,
    donor: &Donor,
    at: u64,
) -> Result<u64, &'static str> {
    // What was looked at before may have changed since.
    let movable = lies::look(volume, hot)?;
    lies::allowed(&movable)?;
    if movable.bytes() != planned {
        return Err("it changed meanwhile");
    }
    let file =
        volume.file(&hot.path, true).map_err(|_| "may not be written, or is being executed")?;
    let same =
        |m: &std::fs::Metadata| m.is_file() && m.ino() == hot.inode && m.dev() == volume.device;
    if !file.metadata().is_ok_and(|m| same(&m)) {
        return Err("another file has its name now");
    }
    let mut to = at / volume.block;
    for run in &movable.runs {
        let (mut from, mut left) = (run.logical / volume.block, run.len / volume.block);
        while left > 0 {
            match extents::exchange(&file, &donor.file, from, to, left) {
                Ok(moved @ 1..) => {
                    let moved = moved.min(left);
                    (from, to, left) = (from + moved, to + moved, left - moved);
                }
                _ => return Err("ext4 refused, or somebody changed it"),
            }
        }
    }
    Ok(movable.bytes())
}
