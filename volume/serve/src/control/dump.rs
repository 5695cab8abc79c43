//! The contents of an area, for a reader: superblock, log and map.

use std::fmt;

use seekless_block::{PAGE_SECTORS, Sectors};
use seekless_engine::Examined;
use seekless_engine::format::{AreaFlags, CopyState};
use serde::Serialize;

use super::mode_name;
use crate::area::Lasting;

/// Schema `seekless.dump/2`. Addresses and sizes are in sectors of 512 bytes, unless the name says
/// pages.
#[derive(Serialize)]
pub struct Dump {
    schema: &'static str,
    superblock: SuperblockDump,
    log_records_behind_checkpoint: u64,
    clean: bool,
    /// Home's two ends are in the area; `null` if that is unknown.
    guarded: Option<bool>,
    /// Why that is unknown.
    #[serde(skip)]
    guard_unknown: Option<String>,
    /// Discarded sectors of home, and those of them that may hold bytes of replicas.
    free: u64,
    stained: u64,
    map: Vec<CopyDump>,
}

#[derive(Serialize)]
struct SuperblockDump {
    uuid: String,
    generation: u64,
    label: String,
    home_capacity: u64,
    area_size: u64,
    area_at: Option<u64>,
    grid: u8,
    mode: &'static str,
    flags: Vec<String>,
    segment_pages: u32,
    read_segments: u32,
    log_segments: u32,
    /// Pages of the free map, if copies are replicas in home's discarded pages.
    free_map_pages: u32,
    checkpoint_slot: u8,
    checkpoint_generation: u64,
    log_segment: u32,
    log_page: u32,
    tail_segment: u32,
    next_sequence: u64,
}

#[derive(Serialize)]
struct CopyDump {
    slot: u32,
    home: u64,
    state: String,
    sum: String,
}

fn state_name(state: CopyState) -> String {
    format!("{state:?}").to_lowercase()
}

fn flag_names(flags: AreaFlags) -> Vec<String> {
    let set = AreaFlags::ALL.iter().filter(|(flag, ..)| flags.contains(*flag));
    set.map(|(_, name, _)| name.to_lowercase()).collect()
}

impl SuperblockDump {
    fn of(found: &Examined) -> Self {
        let s = found.superblock();
        Self {
            uuid: s.uuid.to_string(),
            generation: s.generation,
            label: s.label.as_str().to_owned(),
            home_capacity: s.home_capacity.0,
            area_size: s.area_size.0,
            area_at: s.inside.then_some(s.area_at.0),
            grid: s.grid,
            mode: mode_name(s.mode),
            flags: flag_names(s.flags),
            segment_pages: s.segment_pages,
            read_segments: s.read_segments,
            log_segments: s.log_segments,
            free_map_pages: s.free_map_pages,
            checkpoint_slot: s.checkpoint_slot,
            checkpoint_generation: s.checkpoint_generation,
            log_segment: s.position.segment,
            log_page: s.position.page,
            tail_segment: s.tail,
            next_sequence: s.next_sequence,
        }
    }
}

impl Dump {
    /// The contents of an examined area.
    pub fn of(lasting: &mut Lasting, found: &Examined) -> Self {
        let map = found.copies().map(|(slot, page, state, sum)| CopyDump {
            slot,
            home: found.home_of(page).start.0,
            state: state_name(state),
            sum: format!("{sum:012x}"),
        });
        let guarded = lasting.is_guarded();
        let (free, stained) = found.free();
        Self {
            schema: "seekless.dump/2",
            superblock: SuperblockDump::of(found),
            log_records_behind_checkpoint: found.records(),
            clean: found.is_clean(),
            guarded: guarded.as_ref().ok().copied(),
            guard_unknown: guarded.err(),
            free: free.0,
            stained: stained.0,
            map: map.collect(),
        }
    }
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = serde_json::to_value(&self.superblock).map_err(|_| fmt::Error)?;
        for (name, value) in fields.as_object().into_iter().flatten() {
            let value = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
            writeln!(f, "{name:<22} {value}")?;
        }
        writeln!(f, "{:<22} {}", "detached in order", self.clean)?;
        let guarded = self.guarded.map(|up| up.to_string());
        let guarded = guarded.or_else(|| self.guard_unknown.clone()).unwrap_or_default();
        writeln!(f, "{:<22} {guarded}", "guarded")?;
        let records = self.log_records_behind_checkpoint;
        writeln!(f, "{:<22} {records} records behind the checkpoint", "log")?;
        if self.superblock.free_map_pages > 0 {
            writeln!(f, "{:<22} {}", "discarded", Sectors(self.free).bytes())?;
            writeln!(f, "{:<22} {}", "stained by replicas", Sectors(self.stained).bytes())?;
        }
        for state in [CopyState::Dirty, CopyState::Clean, CopyState::Suspect].map(state_name) {
            let pages = self.map.iter().filter(|copy| copy.state == state).count() as u64;
            let bytes = Sectors(pages * PAGE_SECTORS).bytes();
            writeln!(f, "{state:<22} {pages} pages ({bytes})")?;
        }
        writeln!(f, "\n{:>10} {:>16} {:<8} sum", "slot", "home sector", "state")?;
        for copy in &self.map {
            let CopyDump { slot, home, state, sum } = copy;
            writeln!(f, "{slot:>10} {home:>16} {state:<8} {sum}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_and_state_has_its_name() {
        assert_eq!(flag_names(AreaFlags::DIRTY.union(AreaFlags::IN_PLACE)), ["dirty", "in_place"]);
        assert_eq!(flag_names(AreaFlags::CLEAN), ["clean"]);
        assert_eq!(CopyState::ALL.map(state_name), ["free", "suspect", "clean", "dirty"]);
    }
}
