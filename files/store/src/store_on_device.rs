//! A group store with a device under it: asks are carried out one after the other, each to its end. The driver for
//! those who have a thread to wait in; whoever has none drives [`GroupStore`] itself.

use std::collections::BTreeMap;

use seekless_block::{Device, Op, SimTime};

use crate::api::{Ask, Fault, Input, Output, Reply, RequestId};
use crate::attach::AttachError;
use crate::{Config, DiskPhase, GroupStore};

/// The other module, as far as the store needs it.
pub trait OtherModule {
    /// Makes all that it was told on stable storage: markers set and taken away, files that went back. False where it
    /// could not.
    fn sync(&mut self) -> bool;
}

impl<F: FnMut() -> bool> OtherModule for F {
    fn sync(&mut self) -> bool {
        self()
    }
}

/// A store, its device, and the module that has all other files.
#[derive(Debug)]
pub struct StoreOnDevice<D, O> {
    gfs: GroupStore,
    device: D,
    other: O,
    next: u64,
    ended: BTreeMap<RequestId, Result<Reply, Fault>>,
}

impl<D: Device, O: OtherModule> StoreOnDevice<D, O> {
    /// Attaches the store on `device`.
    ///
    /// # Errors
    /// As [`GroupStore::attach`].
    pub fn attach(mut device: D, other: O, config: Config) -> Result<Self, AttachError> {
        let gfs = GroupStore::attach(&mut device, config)?;
        Ok(Self { gfs, device, other, next: 0, ended: BTreeMap::new() })
    }

    /// What it knows.
    #[must_use]
    pub const fn gfs(&self) -> &GroupStore {
        &self.gfs
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// Why it could not be done.
    pub fn ask(&mut self, now: SimTime, ask: Ask) -> Result<Reply, Fault> {
        self.ask_all(now, vec![ask]).pop().unwrap_or(Err(Fault::Broken))
    }

    /// Asks many things at once, which share their flushes, and waits for all answers, in the same order.
    pub fn ask_all(&mut self, now: SimTime, asks: Vec<Ask>) -> Vec<Result<Reply, Fault>> {
        let first = self.next + 1;
        for ask in asks {
            self.next += 1;
            self.gfs.handle(now, Input::Ask { id: RequestId(self.next), ask });
        }
        self.carry_out(now);
        // Every ask ends once all I/O has ended that it made necessary.
        let ended = |id| self.ended.remove(&RequestId(id)).unwrap_or(Err(Fault::Broken));
        (first..=self.next).map(ended).collect()
    }

    /// Lets the store do what is due. Call it at [`GroupStore::wakeup`].
    pub fn tick(&mut self, now: SimTime) {
        self.gfs.handle(now, Input::Tick);
        self.carry_out(now);
    }

    /// See [`GroupStore::set_disk_phase`].
    pub const fn set_disk_phase(&mut self, phase: DiskPhase) {
        self.gfs.set_disk_phase(phase);
    }

    /// The device, once the store is no longer needed. What was not synced is lost.
    pub fn into_device(self) -> D {
        self.device
    }

    fn carry_out(&mut self, now: SimTime) {
        while let Some(output) = self.gfs.poll() {
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
                    self.gfs.handle(now, Input::Done { io: io.id, result });
                }
                Output::SyncOther => {
                    let done = self.other.sync();
                    self.gfs.handle(now, Input::OtherSynced(done));
                }
                Output::Complete { id, result } => {
                    self.ended.insert(id, result);
                }
            }
        }
    }
}
