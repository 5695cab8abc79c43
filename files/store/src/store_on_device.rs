//! A group store on a device, for callers that can wait: each call ends after all of its I/O,
//! except a later sync of the other module. Other callers drive [`GroupStore`] themselves.

use std::collections::BTreeMap;
use std::ops::Range;

use seekless_block::{Device, Op, SimTime};

use crate::api::{Ask, Fault, Input, Output, Reply, RequestId};
use crate::attach::AttachError;
use crate::{Config, DiskPhase, GroupStore};

/// The other module, as the store needs it.
pub trait OtherModule {
    /// Makes all changes durable: set and removed markers, and files that moved back. False if that
    /// failed; `None` if the caller of the store does this later, see
    /// [`StoreOnDevice::begins_sync`].
    fn sync(&mut self) -> Option<bool>;
}

impl<F: FnMut() -> bool> OtherModule for F {
    fn sync(&mut self) -> Option<bool> {
        Some(self())
    }
}

/// A sync of the other module that the caller of the store carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LaterSync {
    NotNeeded,
    Owed,
    Running,
}

/// A store, its device, and the other module.
#[derive(Debug)]
pub struct StoreOnDevice<D, O> {
    group_store: GroupStore,
    device: D,
    other: O,
    later: LaterSync,
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
        let (later, ended) = (LaterSync::NotNeeded, BTreeMap::new());
        Ok(Self { group_store, device, other, later, next: 0, ended })
    }

    /// The state of the store.
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
        let ids = self.send(now, asks);
        // Every ask ends after the I/O that it caused.
        self.take_replies(ids)
    }

    /// Sends many asks, which share flushes. Asks that wait for a later sync of the other module
    /// have not ended yet.
    pub fn send(&mut self, now: SimTime, asks: Vec<Ask>) -> Range<u64> {
        let first = self.next + 1;
        for ask in asks {
            self.next += 1;
            self.group_store.handle(now, Input::Ask { id: RequestId(self.next), ask });
        }
        self.carry_out(now);
        first..self.next + 1
    }

    /// True if each of these asks has ended.
    pub fn have_ended(&self, asks: &Range<u64>) -> bool {
        asks.clone().all(|id| self.ended.contains_key(&RequestId(id)))
    }

    /// The replies to these asks, in the same order.
    pub fn take_replies(&mut self, asks: Range<u64>) -> Vec<Result<Reply, Fault>> {
        let reply = |id| self.ended.remove(&RequestId(id)).unwrap_or(Err(Fault::Broken));
        asks.map(reply).collect()
    }

    /// True if the store waits for a sync of the other module that nobody has begun. The caller
    /// begins the sync now, and then calls [`StoreOnDevice::other_synced`].
    pub fn begins_sync(&mut self) -> bool {
        let begins = self.later == LaterSync::Owed;
        if begins {
            self.later = LaterSync::Running;
        }
        begins
    }

    /// True if a sync of the other module has begun and not ended.
    pub fn is_syncing(&self) -> bool {
        self.later == LaterSync::Running
    }

    /// A later sync of the other module has ended; false if it failed.
    pub fn other_synced(&mut self, now: SimTime, done: bool) {
        self.later = LaterSync::NotNeeded;
        self.group_store.handle(now, Input::OtherSynced(done));
        self.carry_out(now);
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
                Output::SyncOther => match self.other.sync() {
                    Some(done) => self.group_store.handle(now, Input::OtherSynced(done)),
                    None => self.later = LaterSync::Owed,
                },
                Output::Complete { id, result } => {
                    self.ended.insert(id, result);
                }
            }
        }
    }
}
