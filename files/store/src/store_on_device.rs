//! A group store on a device, for callers that can wait: each call ends after all of its I/O. Other
//! callers drive [`GroupStore`] themselves.

use std::collections::BTreeMap;

use seekless_block::{Device, Op, SimTime};

use crate::api::{Ask, Fault, Input, Output, Reply, RequestId};
use crate::attach::AttachError;
use crate::{Config, DiskPhase, GroupStore};

/// The other module, as the store needs it.
pub trait OtherModule {
    /// Makes all changes durable: set and removed markers, and files that moved back. False if that
    /// failed.
    fn sync(&mut self) -> bool;
}

impl<F: FnMut() -> bool> OtherModule for F {
    fn sync(&mut self) -> bool {
        self()
    }
}

/// A store, its device, and the other module.
#[derive(Debug)]
pub struct StoreOnDevice<D, O> {
    group_store: GroupStore,
    device: D,
    other: O,
    next: u64,
    ended: BTreeMap<RequestId, Result<Reply, Fault>>,
}

impl<D: Device, O: OtherModule> StoreOnDevice<D, O> {
    /// Attaches the store on `device`.
    ///
    /// # Errors
    /// See [`GroupStore::attach`].
    pub fn attach(mut device: D, other: O, config: Config) -> Result<Self, AttachError> {
        let group_store = GroupStore::attach(&mut device, config)?;
        Ok(Self { group_store, device, other, next: 0, ended: BTreeMap::new() })
    }

    /// The state of the store.
    #[must_use]
    pub const fn group_store(&self) -> &GroupStore {
        &self.group_store
    }

    /// Asks, and waits for the reply.
    ///
    /// # Errors
    /// The fault of the store.
    pub fn ask(&mut self, now: SimTime, ask: Ask) -> Result<Reply, Fault> {
        self.ask_all(now, vec![ask]).pop().unwrap_or(Err(Fault::Broken))
    }

    /// Sends many asks, which share flushes, and waits for all replies, in the same order.
    pub fn ask_all(&mut self, now: SimTime, asks: Vec<Ask>) -> Vec<Result<Reply, Fault>> {
        let first = self.next + 1;
        for ask in asks {
            self.next += 1;
            self.group_store.handle(now, Input::Ask { id: RequestId(self.next), ask });
        }
        self.carry_out(now);
        // Every ask ends after the I/O that it caused.
        let ended = |id| self.ended.remove(&RequestId(id)).unwrap_or(Err(Fault::Broken));
        (first..=self.next).map(ended).collect()
    }

    /// Commits changes that are old enough. Call this at [`GroupStore::wakeup`].
    pub fn tick(&mut self, now: SimTime) {
        self.group_store.handle(now, Input::Tick);
        self.carry_out(now);
    }

    /// See [`GroupStore::set_disk_phase`].
    pub const fn set_disk_phase(&mut self, phase: DiskPhase) {
        self.group_store.set_disk_phase(phase);
    }

    /// Ends the store and returns its device. Unsynced changes are lost.
    pub fn into_device(self) -> D {
        self.device
    }

    fn carry_out(&mut self, now: SimTime) {
        while let Some(output) = self.group_store.poll() {
            match output {
                Output::Submit(mut io) => {
                    let done = match io.op {
                        Op::Read => {
                            io.data.resize(io.extent.bytes().0 as usize, 0);
                            self.device.read(io.extent, &mut io.data)
                        }
                        Op::Write => {
                            let data = std::mem::take(&mut io.data);
                            self.device.write(io.extent, &data)
                        }
                        _ => self.device.flush(),
                    };
                    let result = done.is_ok().then_some(io.data);
                    self.group_store.handle(now, Input::Done { io: io.id, result });
                }
                Output::SyncOther => {
                    let done = self.other.sync();
                    self.group_store.handle(now, Input::OtherSynced(done));
                }
                Output::Complete { id, result } => {
                    self.ended.insert(id, result);
                }
            }
        }
    }
}
