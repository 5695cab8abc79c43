//! Checking an area without attaching it, and repairing an area that cannot be attached.

use std::ops::Range;

use seekless_block::{Device, Extent, Lba, PAGE_BYTES, PAGE_SECTORS, Sectors};

use crate::Config;
use crate::area::attach::{AttachError, resume, write_superblock};
use crate::area::proof::Proof;
use crate::area::recover::{Recovered, recover};
use crate::area::recover_log::Incomplete;
use crate::area::salvage::{Salvage, salvage};
use crate::core::page_map::{CopyState, HomePage, Slot, slots};
use crate::format::{
    AreaFlags, PageSum, Superblock, SuperblockError, UNSUMMED, find_superblock, page_extent,
    page_sum, read_superblock,
};
use crate::free_space::extents::Extents;

const PIECE: u32 = 256;

/// The contents of an area.
#[derive(Debug)]
pub struct Examined {
    recovered: Recovered,
}

/// A fault in an area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether clients' bytes are lost.
    pub loss: bool,
    /// They are lost if a flush covered them, which nothing tells.
    pub perhaps: bool,
    /// Kind and position of the fault.
    pub what: String,
}

impl Finding {
    const fn new(loss: bool, what: String) -> Self {
        Self { loss, perhaps: false, what }
    }

    const fn perhaps(what: String) -> Self {
        Self { loss: false, perhaps: true, what }
    }

    /// The log's newest writes are not complete, and no later record tells whether they were.
    fn incomplete(recovered: &Recovered, record: &Incomplete) -> Self {
        let Incomplete { sequence, homes } = record;
        let homes: Vec<String> = homes.iter().map(|&p| recovered.home_of(p).to_string()).collect();
        let which = match homes.len() {
            0 => "is missing, although a later record exists".to_owned(),
            _ => format!("lacks the newest bytes of {}", homes.join(", ")),
        };
        let what = format!(
            "record {sequence} of the log {which}: this is normal after a crash if no flush covered the record; otherwise the area was damaged"
        );
        Self::perhaps(what)
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match (self.loss, self.perhaps) {
            (true, _) => "lost: ",
            (_, true) => "perhaps lost: ",
            _ => "harmless: ",
        })?;
        f.write_str(&self.what)
    }
}

/// The result of a repair.
#[derive(Clone, Debug, Default)]
pub struct RepairReport {
    /// The repaired faults.
    pub mended: Vec<Finding>,
    /// Extents of home whose newest bytes are gone: home has older ones.
    pub lost: Vec<Extent>,
    /// After the loss of a checkpoint, or a cut of the log: extents whose copy in the log counts as
    /// the newest. Such a copy may be older than home.
    pub doubtful: Vec<Extent>,
    /// Set if nothing tells any more which pages are discarded: none counts as discarded from now
    /// on. These extents of home may hold bytes of replicas, as far as the area tells. Clients read
    /// these bytes where they expect zeroes.
    pub stained: Option<Vec<Extent>>,
}

/// The end of a repair.
#[derive(Debug)]
pub enum Repair {
    /// The area can be attached.
    Done(RepairReport),
    /// Clients' bytes would be lost, and that was not allowed: nothing was written.
    WouldLose(RepairReport),
    /// The area could not be written to its end: all or nothing of the report may hold. A later
    /// repair does not name again what this one gave up.
    Stopped(RepairReport, AttachError),
}

/// Reads the contents of an area: superblock, checkpoint and log. Nothing is written.
///
/// # Errors
/// As [`attach`](crate::attach), if the area cannot be attached as it is.
pub fn examine(area: &mut dyn Device) -> Result<Examined, AttachError> {
    Ok(Examined { recovered: recover(area)? })
}

impl Examined {
    /// The superblock.
    pub const fn superblock(&self) -> &Superblock {
        &self.recovered.superblock
    }

    /// Whether the area was detached in order, and nothing was written since.
    pub fn is_clean(&self) -> bool {
        self.recovered.is_clean()
    }

    /// Records of the log behind the checkpoint.
    pub const fn records(&self) -> u64 {
        self.recovered.records
    }

    /// Slots and their copies: `(slot, home page, state, sum)`, in order of slot. After an unclean
    /// stop a copy that the checkpoint calls clean is in doubt.
    pub fn copies(&self) -> impl Iterator<Item = (u32, u64, CopyState, PageSum)> {
        let map = &self.recovered.map;
        let clean = self.is_clean();
        let log = self.recovered.geo.read_segments * self.recovered.geo.segment_pages;
        slots(0..self.recovered.geo.slots()).filter_map(move |slot| {
            let state = match map.state(slot) {
                // The rest of the log may be newer than home.
                CopyState::Clean | CopyState::Suspect if !clean && slot.0 >= log => {
                    CopyState::Dirty
                }
                CopyState::Clean if !clean => CopyState::Suspect,
                state => state,
            };
            Some((slot.0, map.home(slot)?.0, state, map.sum(slot)))
        })
    }

    /// The only valid copy of a home page, if it stands in the area: its sectors there and its sum.
    pub fn newest(&self, page: u64) -> Option<(Extent, PageSum)> {
        let r = &self.recovered;
        let slot = r.map.find(HomePage(page))?;
        let dirty = r.map.state(slot) == CopyState::Dirty
            || r.geo.log_slots().contains(&slot.0) && !self.is_clean();
        let place = r.geo.page_of(slot.0).filter(|_| dirty)?;
        Some((page_extent(place, 1), r.map.sum(slot)))
    }

    /// Extents of home whose newest bytes stood in the log's last records, and are not complete. They
    /// are lost if a flush covered them.
    pub fn incomplete(&self) -> impl Iterator<Item = Extent> + '_ {
        self.recovered.incomplete.iter().flat_map(|i| &i.homes).map(|&page| self.home_of(page))
    }

    /// The sectors of a home page.
    pub fn home_of(&self, page: u64) -> Extent {
        self.recovered.home_of(page)
    }

    /// Counts as free the pages that an [`attach`](crate::attach) with this proof would.
    #[must_use]
    pub fn doubting(mut self, proof: &Proof) -> Self {
        self.recovered.doubt_free(proof);
        self
    }

    /// Whether the client has discarded a home page and not written it since. Such a page reads as
    /// zeroes, whatever home holds.
    pub fn is_free(&self, page: u64) -> bool {
        self.recovered.free.contains(page)
    }

    /// The size of all such pages, and of those that may hold bytes of replicas.
    pub fn free(&self) -> (Sectors, Sectors) {
        let sectors = |set: &Extents| Sectors(set.pages() * PAGE_SECTORS);
        (sectors(&self.recovered.free), sectors(&self.recovered.stained))
    }

    /// Faults with which the area can still be attached. With `data`, every copy is read and
    /// compared with its checksum; `progress` is called with slots read.
    ///
    /// # Errors
    /// If the device fails as a whole. An unreadable page is a finding.
    pub fn check(
        &self,
        area: &mut dyn Device,
        data: bool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Vec<Finding>, AttachError> {
        let mut findings = Vec::new();
        for (page, problem) in &self.recovered.others {
            let what = format!(
                "the copy of the superblock in page {page} {problem}; the next attach repairs it"
            );
            findings.push(Finding::new(false, what));
        }
        let incomplete = &self.recovered.incomplete;
        findings.extend(incomplete.iter().map(|i| Finding::incomplete(&self.recovered, i)));
        if !data {
            return Ok(findings);
        }
        let most = self.recovered.geo.slots().min(PIECE);
        let mut buffer = vec![0; (most * PAGE_BYTES as u32) as usize];
        // Replicas stand at home, which is not open here: reads check them.
        let geo = &self.recovered.geo;
        let copies: Vec<(u32, u64, CopyState, PageSum)> =
            self.copies().filter(|&(slot, ..)| geo.page_of(slot).is_some()).collect();
        let mut at = 0;
        while let Some(&(first, ..)) = copies.get(at) {
            let run = copies[at..]
                .iter()
                .zip(first..)
                .take(PIECE as usize)
                .take_while(|(copy, slot)| copy.0 == *slot)
                .count();
            let place = page_extent(geo.page_of(first).unwrap_or_default(), run as u64);
            let bytes = &mut buffer[..run * PAGE_BYTES as usize];
            let read = area.read(place, bytes).is_ok();
            for (copy, page) in
                copies[at..at + run].iter().zip(bytes.chunks_exact_mut(PAGE_BYTES as usize))
            {
                let &(slot, home, state, sum) = copy;
                let here = page_extent(geo.page_of(slot).unwrap_or_default(), 1);
                let readable = read || area.read(here, page).is_ok();
                if !readable || sum != UNSUMMED && page_sum(page) != sum {
                    let how =
                        if readable { "does not match its checksum" } else { "cannot be read" };
                    let home = self.home_of(home);
                    let (loss, whose) = match state {
                        CopyState::Dirty => (true, "the only copy"),
                        _ => (false, "a copy"),
                    };
                    let what = format!("{whose} of {home}, at {here} of the area, {how}");
                    findings.push(Finding::new(loss, what));
                }
            }
            at += run;
            progress(u64::from(first) + run as u64);
        }
        Ok(findings)
    }
}

/// Repairs an area that [`examine`] refuses, or whose only copies are damaged: rebuilds a lost
/// checkpoint from the segments, cuts a broken log, gives up damaged pages without another copy. If
/// a damaged free map or a lost record leaves in doubt which pages are discarded, none counts as
/// discarded any more: no byte that a client wrote is hidden by zeroes or overwritten with them.
/// After a lost checkpoint or a cut, pages of the log replace home's, which may be newer: the report
/// names them. With `lose` false, nothing is written if clients' bytes would be given up. A repair
/// of an area without a fault writes nothing.
///
/// # Errors
/// If there is no superblock, or the area cannot be read. Nothing was changed then, except that
/// copies of the superblock may stand in their places again.
pub fn repair(area: &mut dyn Device, lose: bool) -> Result<Repair, AttachError> {
    repair_beside(area, lose, false)
}

/// The same if records of the area may be out of date: another program wrote home, over the guard
/// and perhaps elsewhere, or the end of the area is lost. From then on no page counts as discarded:
/// a read there would return zeroes in place of bytes that were written, and zeroes could be written
/// over them. The write buffer's pages still replace home's, and the report names them. Call this
/// before the guard is restored: a guard proves that nobody else wrote home.
///
/// # Errors
/// As [`repair`].
pub fn repair_outdated(area: &mut dyn Device, lose: bool) -> Result<Repair, AttachError> {
    repair_beside(area, lose, true)
}

/// The report of a [`repair`] with `lose`, which is not carried out: nothing is written.
///
/// # Errors
/// If there is no superblock, or the area cannot be read.
pub fn repair_report(area: &mut dyn Device) -> Result<RepairReport, AttachError> {
    planned(area, false).map(|(.., report)| report)
}

/// What a repair makes of an area, and its report; writes nothing. `outdated`: records of the area
/// may be out of date.
fn planned(
    area: &mut dyn Device,
    outdated: bool,
) -> Result<(Recovered, Salvage, RepairReport), AttachError> {
    let (mut recovered, mut salvaged) = salvage(area)?;
    if outdated {
        salvaged.doubt_records(&mut recovered, area);
    }
    let mut report = report_of(&recovered, &salvaged);
    give_up_damaged(area, &mut recovered, &mut report);
    Ok((recovered, salvaged, report))
}

fn repair_beside(area: &mut dyn Device, lose: bool, outdated: bool) -> Result<Repair, AttachError> {
    let restored = restore_superblock(area)?;
    let (recovered, salvage, mut report) = planned(area, outdated)?;
    if restored {
        let what = "a copy of the superblock was found elsewhere and written to its places";
        report.mended.push(Finding::new(false, what.to_owned()));
    }
    if !lose && report.mended.iter().any(|f| f.loss) {
        return Ok(Repair::WouldLose(report));
    }
    if report.mended.is_empty() {
        // Without a write: copies and learned data that a stop in order left stay usable.
        return Ok(Repair::Done(report));
    }
    let keeps_metadata = report.lost.is_empty() && !salvage.changes_metadata();
    match carry_out(area, recovered, salvage.unreadable, keeps_metadata) {
        Ok(()) => Ok(Repair::Done(report)),
        Err(error) => Ok(Repair::Stopped(report, error)),
    }
}

/// Writes the repaired area. `keeps_metadata`: the map and the free pages are as the area says.
fn carry_out(
    area: &mut dyn Device,
    mut recovered: Recovered,
    mut unreadable: Vec<u64>,
    keeps_metadata: bool,
) -> Result<(), AttachError> {
    let s = &recovered.superblock;
    if s.free_map_pages > 0 && recovered.is_clean() {
        // An area that is marked as in use would be trusted about free pages, even if somebody else
        // wrote home.
        if keeps_metadata {
            return Ok(write_superblock(area, s, recovered.valid, true)?);
        }
        recovered.free = recovered.stained.clone();
    }
    let log_pages = recovered.geo.log_slots().len();
    // All copies are in doubt now; dirty ones stay dirty.
    recovered.superblock.flags = recovered.superblock.flags.difference(AreaFlags::CLEAN);
    let config = Config::new(Sectors(recovered.superblock.home_capacity.0));
    resume(area, recovered, config, &Proof::NONE)?;
    // The next attach reads these pages again, or the log continues there. Most devices can read a
    // page that was written again.
    for _ in 0..=log_pages {
        for page in unreadable.drain(..) {
            area.write_zeroes(page_extent(page, 1))?;
            area.flush()?;
        }
        match recover(area) {
            Err(AttachError::Unreadable { page, .. }) => unreadable.push(page),
            _ => break,
        }
    }
    Ok(())
}

/// If no superblock stands where one is expected, searches all pages for a copy, and writes all
/// copies again. False if nothing was to be done.
///
/// # Errors
/// If there is none, or the device fails.
pub fn restore_superblock(area: &mut dyn Device) -> Result<bool, AttachError> {
    if !matches!(read_superblock(area, Lba(0)), Err(SuperblockError::None { .. })) {
        return Ok(false);
    }
    let found = find_superblock(area, Lba(0))?;
    write_superblock(area, &found.superblock, found.page, true)?;
    Ok(true)
}

fn report_of(recovered: &Recovered, salvage: &Salvage) -> RepairReport {
    let mut report = RepairReport::default();
    let mut repaired = |loss, what| report.mended.push(Finding::new(loss, what));
    for (page, problem) in &recovered.others {
        repaired(false, format!("the copy of the superblock in page {page} {problem}"));
    }
    if let Some(why) = &salvage.rebuilt {
        repaired(false, format!("the map was rebuilt from the segments, because: {why}"));
    }
    if salvage.incomplete {
        let what = "the log before the lost checkpoint is damaged as well: its data is gone";
        repaired(true, what.to_owned());
    }
    if let Some((first, later)) = salvage.lost_records {
        let what = format!(
            "the log was cut before record {first}, which is missing, although record {later} refers to it: all data of the log from there on is gone"
        );
        repaired(true, what);
    }
    for &page in &salvage.replaced {
        let what = format!(
            "the copy of {} was written in place, and another copy may have replaced it, according to a lost part of the area's metadata: home has older bytes",
            recovered.home_of(page)
        );
        repaired(true, what);
    }
    for page in &salvage.unreadable {
        let what = format!(
            "page {page} of the area cannot be read: the log from there on, if any, is gone, and zeroes are written there"
        );
        repaired(true, what);
    }
    if let Some(why) = &salvage.free_map {
        repaired(false, format!("the free map was given up, because: {why}"));
    }
    if salvage.outdated {
        let what = "another program wrote to the disk, or the end of the area is lost. Nothing tells which pages of the disk are newer than the area. Pages of the write buffer replace the disk's; its other pages stay as they are";
        repaired(true, what.to_owned());
    }
    if salvage.stained.is_some() {
        let what = "no page counts as discarded any more. Discarded space may read as older bytes, or as other bytes of this disk, instead of zeroes. Check the file system with its own program, then run `fstrim`";
        repaired(true, what.to_owned());
    }
    let incomplete = recovered.incomplete.iter().map(|i| Finding::incomplete(recovered, i));
    report.mended.extend(incomplete);
    name_doubts(recovered, salvage, &mut report);
    report.lost = salvage.replaced.iter().map(|&p| recovered.home_of(p)).collect();
    report.doubtful = salvage.doubtful.iter().map(|&p| recovered.home_of(p)).collect();
    report
}

/// Names the extents of home that may read as other bytes than a client expects.
fn name_doubts(recovered: &Recovered, salvage: &Salvage, report: &mut RepairReport) {
    let extent_of = |part: Range<u64>| {
        let first = recovered.home_of(part.start);
        Extent { len: Sectors((part.end - part.start) * PAGE_SECTORS), ..first }
    };
    let mut name = |set: &Extents, what: &str| {
        let extents: Vec<Extent> = set.iter().map(extent_of).collect();
        let findings = extents.iter().map(|extent| Finding::perhaps(format!("{extent} {what}")));
        report.mended.extend(findings);
        extents
    };
    let mut old = Extents::default();
    old.extend(salvage.doubtful.iter().map(|&page| page..page + 1));
    name(&old, "has its bytes of the write buffer: home may have newer ones");
    if salvage.outdated {
        let mut kept = Extents::default();
        kept.extend(only_copies(recovered).map(|(_, home)| home.0..home.0 + 1));
        name(&kept, "has its bytes of the write buffer, whatever was written to the disk there");
    }
    if let Some(stained) = &salvage.stained {
        let stained = name(stained, "may hold a replica, which clients read there from now on");
        report.stained = Some(stained);
    }
}

/// The slots and homes of copies that count as newer than home.
fn only_copies(recovered: &Recovered) -> impl Iterator<Item = (Slot, HomePage)> + '_ {
    let (map, log) = (&recovered.map, recovered.geo.log_slots());
    slots(0..recovered.geo.slots())
        .filter_map(move |slot| Some((slot, map.home(slot)?)))
        .filter(move |&(slot, _)| log.contains(&slot.0) || map.state(slot) == CopyState::Dirty)
}

/// Drops the map's entries of pages of the log that are unreadable or damaged.
fn give_up_damaged(area: &mut dyn Device, recovered: &mut Recovered, report: &mut RepairReport) {
    let mut page = vec![0; PAGE_BYTES as usize];
    let copies: Vec<(Slot, HomePage)> = only_copies(recovered).collect();
    for (slot, home) in copies {
        let here = page_extent(recovered.geo.page_of(slot.0).unwrap_or_default(), 1);
        let sum = recovered.map.sum(slot);
        let good =
            area.read(here, &mut page).is_ok() && (sum == UNSUMMED || page_sum(&page) == sum);
        if !good {
            let extent = recovered.home_of(home.0);
            report.lost.push(extent);
            let what = format!(
                "the only copy of {extent}, at {here} of the area, was damaged: home has an older one"
            );
            report.mended.push(Finding::new(true, what));
            recovered.map.clear(slot);
        }
    }
}
