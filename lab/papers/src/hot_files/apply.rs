//! Applying a list: the blocks of hot files are exchanged for a run of free space, one file after
//! another. The process may end between any two instructions: each exchange is a transaction of the
//! file system, and finished exchanges last. The next run continues with the files that still lie
//! apart.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use seekless_block::Bytes;
use seekless_serve::extents;
use serde::Serialize;

use super::donor::{self, Donor};
use super::error::HotFilesError;
use super::list::{HotFile, List};
use super::location;
use super::mounted::Mounted;
use super::survey::{Survey, ranges, survey};
use super::travel::{HotRange, Travel, Trip};

/// The least share by which the head's travel must become shorter.
const WORTH: f64 = 0.05;

/// The result of applying a list.
#[derive(Debug, Serialize)]
pub struct Outcome {
    schema: &'static str,
    /// Files of the list.
    pub files: usize,
    /// Files moved.
    pub moved_files: u64,
    /// Bytes moved.
    pub moved_bytes: u64,
    /// Files left alone, by reason.
    pub left_alone: BTreeMap<&'static str, u64>,
    /// The head's travel before.
    pub before: Trip,
    /// The travel predicted for the free space that was found.
    pub foretold: Option<Trip>,
    /// The head's travel afterwards.
    pub after: Trip,
    /// Why nothing was moved.
    pub why_not: Option<String>,
}

impl Outcome {
    fn new(list: &List, found: &Survey, before: Trip) -> Self {
        Self {
            schema: "seekless.cluster/1",
            files: list.files.len(),
            moved_files: 0,
            moved_bytes: 0,
            left_alone: found.left_alone().clone(),
            before,
            foretold: None,
            after: before,
            why_not: None,
        }
    }

    fn nothing(mut self, why: impl Into<String>) -> Self {
        self.why_not = Some(why.into());
        self
    }
}

/// Moves the files of a list together. `progress` gets the bytes done and all bytes.
///
/// # Errors
/// If blocks cannot be exchanged here, or the free space does not suffice.
pub fn apply(
    mounted: &Mounted,
    travel: &Travel,
    list: &List,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Outcome, HotFilesError> {
    if let Some(why) = mounted.refusal() {
        let path = mounted.path().display();
        return Err(HotFilesError::Refused(format!("nothing can be moved on {path}: {why}")));
    }
    let found = survey(mounted, list);
    let before = travel.between(&found.present());
    let mut outcome = Outcome::new(list, &found, before);
    let apart = found.apart();
    if apart.is_empty() {
        return Ok(outcome.nothing("all files that may be moved lie together already"));
    }
    let order = found.organ_pipe(&apart);
    let need: u64 = order.iter().map(|&i| found.files[i].1.bytes()).sum();
    check_space(mounted, need)?;
    let donor = choose_donor(mounted, travel, list, &found, &order, need)?;
    let foretold = travel.between(&layout(&found, &order, &donor));
    outcome.foretold = Some(foretold);
    if foretold.distance > before.distance * (1.0 - WORTH) {
        let why = format!("the head's travel would not become shorter by {:.0} %", WORTH * 100.0);
        return Ok(outcome.nothing(why));
    }
    let (mut at, mut done) = (0, 0);
    for &i in &order {
        let (hot, movable) = &found.files[i];
        let planned = movable.bytes();
        match exchange(mounted, &list.files[*hot], planned, &donor, at) {
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
    // Before the kernel may give the old blocks to other files.
    rustix::fs::syncfs(mounted.root())?;
    drop(donor);
    outcome.after = travel.between(&survey(mounted, list).present());
    if outcome.moved_files == 0 {
        outcome.why_not = Some("ext4 refused every file".to_owned());
    }
    Ok(outcome)
}

fn check_space(mounted: &Mounted, need: u64) -> Result<(), HotFilesError> {
    let spare = mounted.bytes() / 100;
    if need + spare <= mounted.free_bytes() {
        return Ok(());
    }
    Err(HotFilesError::Refused(format!(
        "moving {} needs as much free space for a while, and one per cent to spare; {} has {} free",
        Bytes(need),
        mounted.path().display(),
        Bytes(mounted.free_bytes())
    )))
}

/// The free space with the shortest travel.
fn choose_donor(
    mounted: &Mounted,
    travel: &Travel,
    list: &List,
    found: &Survey,
    order: &[usize],
    need: u64,
) -> Result<Donor, HotFilesError> {
    let paths = order.iter().map(|&i| list.files[found.files[i].0].path.as_str());
    donor::best(mounted, need, paths, |d| travel.between(&layout(found, order, d)).distance)
        .map_err(|source| HotFilesError::Io {
            what: "take free space on",
            path: mounted.path().to_owned(),
            source,
        })
}

/// All files after the move: the moved files in the donor's space, the others at their present
/// locations.
fn layout(found: &Survey, order: &[usize], donor: &Donor) -> Vec<HotRange> {
    let mut all = Vec::new();
    let mut stays = vec![true; found.files.len()];
    let mut at = 0;
    for &i in order {
        stays[i] = false;
        let (hot, movable) = &found.files[i];
        let bytes = movable.bytes();
        let part = |(start, len): (u64, u64)| {
            (start, len, found.heat[*hot] * len as f64 / bytes.max(1) as f64)
        };
        all.extend(donor.pieces(at, bytes).map(part));
        at += bytes;
    }
    for (hot, movable) in found.files.iter().zip(stays).filter(|f| f.1).map(|f| f.0) {
        all.extend(ranges(movable, found.heat[*hot]));
    }
    all
}

/// Exchanges all written blocks of a file for the donor's blocks from byte `at` on. Bytes moved.
fn exchange(
    mounted: &Mounted,
    hot: &HotFile,
    planned: u64,
    donor: &Donor,
    at: u64,
) -> Result<u64, &'static str> {
    // The file may have changed since the survey.
    let movable = location::locate(mounted, hot)?;
    location::check_exchangeable(&movable)?;
    if movable.bytes() != planned {
        return Err("it changed meanwhile");
    }
    let file =
        mounted.file(&hot.path, true).map_err(|_| "may not be written, or is being executed")?;
    let same =
        |m: &std::fs::Metadata| m.is_file() && m.ino() == hot.inode && m.dev() == mounted.device();
    if !file.metadata().is_ok_and(|m| same(&m)) {
        return Err("another file has its name now");
    }
    let block = mounted.block();
    let mut to = at / block;
    for run in &movable.runs {
        let (mut from, mut left) = (run.logical / block, run.len / block);
        while left > 0 {
            match extents::exchange(&file, &donor.file, from, to, left) {
                Ok(moved @ 1..) => {
                    let moved = moved.min(left);
                    (from, to, left) = (from + moved, to + moved, left - moved);
                }
                _ => return Err("ext4 refused, or a program changed it"),
            }
        }
    }
    Ok(movable.bytes())
}
