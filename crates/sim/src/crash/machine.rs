//! What is put to the test: an engine, by the words that it shares with its driver.

use seekless_block::SimTime;
use seekless_engine::{Input, Output};

use super::medium::Disk;

/// How the devices and the engine are set up; sizes are small, so that rare things are frequent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Home's sectors.
    pub home: u64,
    /// The area's sectors.
    pub area: u64,
    /// Sectors before the first home page, 0 to 7.
    pub grid: u64,
    /// Pages of a segment.
    pub segment_pages: u32,
    /// Share of the segments that are the write buffer, in percent.
    pub write_buffer_percent: u8,
    /// Whether it begins with write-back.
    pub write_back: bool,
    /// Pages of RAM; 0 is none.
    pub cache_pages: u64,
    /// Read-ahead in bytes.
    pub read_ahead: u64,
    /// What a read of the area is widened to, in bytes.
    pub cluster: u64,
    /// Length of a buffer in bytes.
    pub buffer_bytes: u64,
    /// Length of the staging memory in bytes.
    pub stage_bytes: u64,
    /// One cache serves home and area.
    pub shared: bool,
}

/// Why an engine does not take a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// What stands there is damaged, and it says so.
    Damaged(String),
    /// Any other reason.
    Other(String),
}

/// What is asked of the engine itself, at any moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Absorb writes.
    WriteBack,
    /// Write home at once.
    WriteThrough,
    /// Bring all home.
    Drain,
    /// Come to rest, for good.
    Detach,
}

/// An engine under test.
pub trait Machine: Sized {
    /// Makes a new area.
    ///
    /// # Errors
    /// Why it cannot.
    fn format(setup: &Setup, area: &mut Disk) -> Result<(), String>;
    /// Takes the devices as they are.
    ///
    /// # Errors
    /// Why it does not.
    fn attach(setup: &Setup, area: &mut Disk, home: &mut Disk) -> Result<Self, Refused>;
    /// Sectors that a plan may fill.
    fn room(&self) -> u64;
    /// What a check of the area finds wrong.
    fn check(area: &mut Disk, home: &mut Disk) -> Vec<String>;
    /// See [`seekless_engine::Engine::handle`].
    fn handle(&mut self, now: SimTime, input: Input);
    /// Something that is asked of the engine itself.
    fn wish(&mut self, now: SimTime, wish: Wish);
    /// See [`seekless_engine::Engine::poll`].
    fn poll(&mut self) -> Option<Output>;
    /// See [`seekless_engine::Engine::wakeup`].
    fn wakeup(&self) -> Option<SimTime>;
}
