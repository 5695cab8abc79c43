//! The deterministic block engine. Time and I/O results are arguments, I/O requests are outputs; the
//! live server and the simulator are two loops around this one machine.
#![forbid(unsafe_code)]

mod api;

pub use api::{
    Class, Config, Fault, Input, Io, IoFailed, IoId, Memory, Move, Output, RequestId, Stats, Target,
};
use seekless_block::SimTime;

/// The engine.
#[derive(Debug)]
pub struct Engine {}

impl Engine {
    /// An engine with no copies: the vanilla system.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let _ = config;
        todo!()
    }

    /// Takes one input at time `now`, which never runs backwards. Then call [`Self::poll`] until it is
    /// empty.
    pub fn handle(&mut self, now: SimTime, input: Input) {
        let _ = (now, input);
        todo!()
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Output> {
        todo!()
    }

    /// When to call [`Self::handle`] with [`Input::Tick`], if ever.
    #[must_use]
    pub fn wakeup(&self) -> Option<SimTime> {
        todo!()
    }
}
