//! Power loss at any moment, over both modules. A history is random: writes, syncs, shuffles,
//! returns and removals, whose I/Os end in any order. At each moment the test attaches some of the
//! states that a crash can leave, some of them damaged. The driver follows the rules of the crate's
//! documentation. In the other module, the changes of one file keep their order; changes of two
//! files may change places.

mod recovered;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use rand::Rng;
use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_pcg::Pcg64Mcg;
use seekless_block::{Bytes, Duration, Op, SimTime};
use seekless_store::{
    Arrival, Ask, Attributes, Config, Fault, FileNumber, GroupStore, Input, Io, Member, Output,
    Reply, RequestId, StoreOnDevice, format_store,
};

use crate::medium::{Image, Medium};
use recovered::{damage, look, recover};

const FILES: usize = 14;
const CLUSTERS: u64 = 24;

type Content = Rc<Vec<u8>>;

/// A file of the other module.
#[derive(Clone, Debug, Default, PartialEq)]
struct Inode {
    content: Content,
    marker: Option<FileNumber>,
}

/// A file on stable storage, and its later changes; `None`: there is no file.
#[derive(Clone, Debug, Default)]
struct Ordered {
    stable: Option<Inode>,
    since: Vec<Option<Inode>>,
}

impl Ordered {
    fn now(&self) -> Option<&Inode> {
        self.since.last().unwrap_or(&self.stable).as_ref()
    }
    fn set(&mut self, inode: Option<Inode>) {
        self.since.push(inode);
    }
    fn sync(&mut self) {
        if let Some(last) = self.since.drain(..).next_back() {
            self.stable = last;
        }
    }
    fn crash(&self, rng: &mut Pcg64Mcg) -> Self {
        let kept = rng.random_range(0..=self.since.len());
        let stable = self.since[..kept].last().unwrap_or(&self.stable).clone();
        Self { stable, since: Vec::new() }
    }
}

/// The states that clients may find: the last synced one, and all later ones.
type Truth = Vec<Option<Content>>;

#[derive(Clone, Debug)]
enum Pending {
    /// The file has this content now.
    Edit(usize, Option<Content>),
    Group(Vec<usize>),
    Leave(usize),
    /// A file that is leaving has this content now.
    LateEdit(usize, Content),
    Back(usize),
    /// Files, and the lengths of their truths at that time.
    Sync(Vec<(usize, usize)>),
    Nothing,
}

#[derive(Debug)]
struct World {
    group_store: GroupStore,
    medium: Medium,
    other: Vec<Ordered>,
    truth: Vec<Truth>,
    pending: BTreeMap<u64, Pending>,
    busy: BTreeSet<usize>,
    sent: Vec<(Io, u64)>,
    /// A sync of the other module is in progress; true if it takes effect at its end.
    syncing: Option<bool>,
    /// Numbers whose inode was removed: their entries may remain.
    unlinked: BTreeSet<FileNumber>,
    next: u64,
    now: u64,
    tally: Tally,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    states: u64,
    damaged: u64,
    told: u64,
    arrived: u64,
    returned: u64,
    late: u64,
    removed: u64,
    emptied: u64,
    synced: u64,
    checkpoints: u64,
    dead: u64,
    split: u64,
}

fn config(rng: &mut Pcg64Mcg) -> Config {
    let cache = *[0, 150_000, 1 << 22].choose(rng).unwrap();
    Config { cache: Bytes(cache), commit_after: Duration(40), commit_along: Duration(10) }
}

fn empty() -> Image {
    let mut image = Image::zeroed(1_800 + CLUSTERS * 128);
    format_store(&mut image, [5; 16], Bytes(65_536), "crash").unwrap();
    image
}

fn name(id: usize) -> Vec<u8> {
    format!("{id}").into_bytes()
}

impl World {
    fn new(
        image: Image,
        other: Vec<Ordered>,
        truth: Vec<Truth>,
        rng: &mut Pcg64Mcg,
        tally: Tally,
    ) -> Self {
        let mut image = image;
        let group_store = GroupStore::attach(&mut image, config(rng)).unwrap();
        let (pending, busy, sent, unlinked) =
            (BTreeMap::new(), BTreeSet::new(), Vec::new(), BTreeSet::new());
        let medium = Medium::new(image);
        Self {
            group_store,
            medium,
            other,
            truth,
            pending,
            busy,
            sent,
            syncing: None,
            unlinked,
            next: 0,
            now: 1,
            tally,
        }
    }

    fn ask(&mut self, ask: Ask, pending: Pending) {
        self.next += 1;
        self.pending.insert(self.next, pending);
        self.handle(Input::Ask { id: RequestId(self.next), ask });
    }

    fn handle(&mut self, input: Input) {
        self.now += 1;
        self.group_store.handle(SimTime(self.now), input);
        while let Some(output) = self.group_store.poll() {
            match output {
                Output::Submit(io) => {
                    let ticket = match io.op {
                        Op::Write => self.medium.start_write(io.extent, &io.data),
                        Op::Flush => self.medium.start_flush(),
                        _ => 0,
                    };
                    self.sent.push((io, ticket));
                }
                Output::SyncOther => {
                    let late = self.now.is_multiple_of(2);
                    self.syncing = Some(late);
                    if !late {
                        self.other.iter_mut().for_each(Ordered::sync);
                    }
                }
                Output::Complete { id, result } => {
                    let pending = self.pending.remove(&id.0).unwrap();
                    self.completed(pending, result);
                }
            }
        }
    }

    fn marker(&self, id: usize) -> Option<FileNumber> {
        self.other[id].now().and_then(|i| i.marker)
    }

    fn completed(&mut self, pending: Pending, result: Result<Reply, Fault>) {
        match (pending, result) {
            (Pending::Edit(id, content), Ok(_)) => {
                self.truth[id].push(content);
                self.busy.remove(&id);
            }
            (Pending::Edit(id, _), Err(Fault::NoSpace)) => {
                self.busy.remove(&id);
            }
            (Pending::Group(ids), Ok(Reply::Numbers(numbers))) => {
                let mut settled = Vec::new();
                for (id, number) in ids.into_iter().zip(numbers) {
                    self.busy.remove(&id);
                    if self.marker(id).is_some() {
                        continue;
                    }
                    let content = Rc::clone(&self.other[id].now().unwrap().content);
                    self.other[id].set(Some(Inode { content, marker: Some(number) }));
                    self.other[id].sync();
                    self.other[id]
                        .set(Some(Inode { content: Rc::default(), marker: Some(number) }));
                    settled.push(number);
                    self.tally.arrived += 1;
                }
                self.ask(Ask::Settle { files: settled }, Pending::Nothing);
            }
            (Pending::Group(ids), Err(Fault::NoSpace)) => {
                self.busy.retain(|id| !ids.contains(id));
            }
            (Pending::Leave(id), Ok(_)) => {
                let file = self.marker(id).unwrap();
                // A mount lets clients write, and sync, until the bytes are read.
                if self.next.is_multiple_of(3) {
                    let mut after = self.truth[id].last().unwrap().as_ref().unwrap().to_vec();
                    let (offset, data) = (after.len() as u64 / 2, vec![self.next as u8; 50]);
                    after.resize(after.len().max(offset as usize + 50), 0);
                    after[offset as usize..][..50].copy_from_slice(&data);
                    let ask = Ask::Write { file, offset, data, time: 1 };
                    self.ask(ask, Pending::LateEdit(id, Rc::new(after)));
                } else {
                    self.ask(Ask::Read { file, offset: 0, len: 1 << 17 }, Pending::Back(id));
                }
            }
            (Pending::LateEdit(id, content), result) => {
                let file = self.marker(id).unwrap();
                if result.is_ok() {
                    self.tally.late += 1;
                    self.truth[id].push(Some(content));
                    if self.next.is_multiple_of(2) {
                        let lengths = vec![(id, self.truth[id].len())];
                        self.ask(Ask::Sync { file: Some(file) }, Pending::Sync(lengths));
                    }
                } else {
                    assert_eq!(result, Err(Fault::NoSpace));
                }
                self.ask(Ask::Read { file, offset: 0, len: 1 << 17 }, Pending::Back(id));
            }
            (Pending::Back(id), Ok(Reply::Data(data))) => {
                let marker = self.marker(id);
                let content = Rc::new(data);
                assert_eq!(
                    Some(&content),
                    self.truth[id].last().unwrap().as_ref(),
                    "file {id} goes back"
                );
                self.other[id].set(Some(Inode { content: Rc::clone(&content), marker }));
                self.other[id].sync();
                // Durable with the next change there, or with the end of the entry.
                self.other[id].set(Some(Inode { content, marker: None }));
                self.busy.remove(&id);
                self.tally.returned += 1;
                self.ask(Ask::Remove { file: marker.unwrap() }, Pending::Nothing);
            }
            (Pending::Sync(lengths), Ok(_)) => {
                self.tally.synced += 1;
                // States before the synced state can no longer be found. Lengths only grow
                // meanwhile.
                for (id, len) in lengths {
                    for state in &mut self.truth[id][..len - 1] {
                        *state = Some(Rc::new(b"void".to_vec()));
                    }
                }
            }
            (Pending::Nothing, Ok(_)) => {}
            (pending, result) => panic!("{pending:?} ended with {result:?}"),
        }
    }

    /// Completes one I/O; without an I/O, time passes.
    fn execute(&mut self, rng: &mut Pcg64Mcg) -> bool {
        if let Some(late) = self.syncing
            && (self.sent.is_empty() || rng.random_ratio(1, 8))
        {
            self.syncing = None;
            if late {
                self.other.iter_mut().for_each(Ordered::sync);
            }
            self.handle(Input::OtherSynced(true));
            return true;
        }
        if self.sent.is_empty() {
            let Some(at) = self.group_store.wakeup() else { return false };
            self.now = self.now.max(at.0);
            self.handle(Input::Tick);
            return true;
        }
        let (io, ticket) = self.sent.swap_remove(rng.random_range(0..self.sent.len()));
        let mut data = Vec::new();
        match io.op {
            Op::Write => self.medium.finish_write(ticket),
            Op::Flush => self.medium.finish_flush(ticket),
            _ => {
                data.resize(io.extent.bytes().0 as usize, 0);
                seekless_block::Device::read(&mut self.medium.current, io.extent, &mut data)
                    .unwrap();
            }
        }
        self.handle(Input::Done { io: io.id, result: Some(data) });
        true
    }

    fn step(&mut self, rng: &mut Pcg64Mcg) {
        let id = rng.random_range(0..FILES);
        let busy = self.busy.contains(&id);
        let here = self.marker(id);
        match rng.random_range(0..20u8) {
            // Makes the file, or writes it in its place.
            0..=6 if !busy => {
                let before = self.truth[id].last().unwrap().clone();
                let len = if rng.random_ratio(1, 6) { 40_000 } else { 3_000 };
                let data = vec![rng.random::<u8>() | 1; rng.random_range(1..len)];
                let Some(before) = before else {
                    let content = Rc::new(data);
                    self.other[id].set(Some(Inode { content: Rc::clone(&content), marker: None }));
                    self.truth[id].push(Some(content));
                    return;
                };
                let offset = rng.random_range(0..=before.len().min(60_000 - len));
                let mut after = before.to_vec();
                after.resize(after.len().max(offset + data.len()), 0);
                after[offset..offset + data.len()].copy_from_slice(&data);
                let content = Some(Rc::new(after));
                match here {
                    Some(file) => {
                        self.busy.insert(id);
                        let ask = Ask::Write { file, offset: offset as u64, data, time: 1 };
                        self.ask(ask, Pending::Edit(id, content));
                    }
                    None => {
                        let inode = content.clone().map(|content| Inode { content, marker: None });
                        self.other[id].set(inode);
                        self.truth[id].push(content);
                    }
                }
            }
            7 if !busy => {
                let (Some(file), Some(before)) = (here, self.truth[id].last().unwrap().clone())
                else {
                    return;
                };
                let size = rng.random_range(0..=before.len() + 100).min(60_000);
                let mut after = before.to_vec();
                after.resize(size, 0);
                self.busy.insert(id);
                let ask = Ask::Resize { file, size: size as u64, time: 1 };
                self.ask(ask, Pending::Edit(id, Some(Rc::new(after))));
            }
            // Makes the file durable.
            8..=10 => {
                let lengths = |w: &Self, ids: &[usize]| {
                    ids.iter().map(|&i| (i, w.truth[i].len())).collect::<Vec<_>>()
                };
                if rng.random() && !busy {
                    match here {
                        Some(file) => {
                            let lengths = lengths(self, &[id]);
                            self.ask(Ask::Sync { file: Some(file) }, Pending::Sync(lengths));
                        }
                        None => {
                            self.other[id].sync();
                            let lengths = lengths(self, &[id]);
                            self.completed(Pending::Sync(lengths), Ok(Reply::Done));
                        }
                    }
                } else {
                    // A sync of all files; it does not cover files on their way.
                    let ids: Vec<usize> = (0..FILES).filter(|i| !self.busy.contains(i)).collect();
                    self.other.iter_mut().for_each(Ordered::sync);
                    let lengths = lengths(self, &ids);
                    self.ask(Ask::Sync { file: None }, Pending::Sync(lengths));
                }
            }
            // A shuffle.
            11..=13 => {
                let mut ids: Vec<usize> = (0..FILES)
                    .filter(|i| !self.busy.contains(i) && self.other[*i].now().is_some())
                    .filter(|_| rng.random_ratio(2, 5))
                    .collect();
                ids.truncate(6);
                if ids.is_empty() {
                    return;
                }
                let member = |id: &usize| match self.marker(*id) {
                    Some(number) => Member::Here(number),
                    None => Member::New(Arrival {
                        attributes: Attributes::default(),
                        name: name(*id),
                        data: self.other[*id].now().unwrap().content.to_vec(),
                    }),
                };
                let members = ids.iter().map(member).collect();
                self.busy.extend(ids.iter().copied());
                self.ask(Ask::Group { members }, Pending::Group(ids));
            }
            14 | 15 if !busy => {
                let Some(file) = here else { return };
                self.busy.insert(id);
                self.ask(Ask::Leave { files: vec![file] }, Pending::Leave(id));
            }
            16 if !busy && self.other[id].now().is_some() => {
                self.other[id].set(None);
                self.truth[id].push(None);
                self.tally.removed += 1;
                if let Some(file) = here {
                    self.unlinked.insert(file);
                    self.ask(Ask::Remove { file }, Pending::Nothing);
                }
            }
            17 if rng.random_ratio(1, 3) => self.ask(Ask::Checkpoint, Pending::Nothing),
            // Truncated to nothing: the inode has no bytes, and needs none from the store.
            18 if !busy => {
                let Some(file) = here else { return };
                self.other[id].set(Some(Inode::default()));
                self.truth[id].push(Some(Rc::default()));
                self.unlinked.insert(file);
                self.tally.emptied += 1;
                self.ask(Ask::Remove { file }, Pending::Nothing);
            }
            _ => {
                for _ in 0..rng.random_range(1..6) {
                    self.execute(rng);
                }
            }
        }
    }

    /// Checks a state that a crash now can leave.
    fn inspect(&mut self, rng: &mut Pcg64Mcg) -> (Image, Vec<Ordered>, Vec<Truth>) {
        let mut image = self.medium.crash(rng);
        let other: Vec<Ordered> = self.other.iter().map(|o| o.crash(rng)).collect();
        let kept = (image.clone(), other.clone());
        self.tally.states += 1;
        let rot = rng.random_ratio(1, 3).then(|| damage(&mut image, rng));
        let found = look(image, other, &self.unlinked, rng);
        let excused = rot.is_some_and(|last| last);
        let mut truth = Vec::new();
        match found {
            Err(error) => {
                assert!(rot.is_some(), "not attached: {error:?}");
                self.tally.told += 1;
                truth.clone_from(&self.truth);
            }
            Ok(found) => {
                self.tally.dead += found.dead;
                for (id, state) in found.files.into_iter().enumerate() {
                    match state {
                        Err(said) if rot.is_some() => {
                            assert!(said.starts_with("damaged") || excused, "file {id}: {said}");
                            self.tally.told += 1;
                            truth.push(self.truth[id].clone());
                        }
                        Err(said) => panic!("file {id}: {said}"),
                        Ok(state) => {
                            assert!(
                                self.truth[id].contains(&state) || excused,
                                "file {id} is {:?}, and may be {:?}",
                                state.map(|s| (s.len(), s[..s.len().min(4)].to_vec())),
                                self.truth[id]
                                    .iter()
                                    .map(|t| t
                                        .as_ref()
                                        .map(|s| (s.len(), s[..s.len().min(4)].to_vec())))
                                    .collect::<Vec<_>>(),
                            );
                            truth.push(vec![state]);
                        }
                    }
                }
            }
        }
        if rot.is_some() {
            self.tally.damaged += 1;
            // The history continues only from undamaged states.
            truth.clear();
        }
        (kept.0, kept.1, truth)
    }
}

/// `tally`: the counts so far.
pub(crate) fn live(seed: u64, steps: usize, tally: Tally) -> Tally {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let other = vec![Ordered::default(); FILES];
    let truth = vec![vec![None]; FILES];
    let mut world = World::new(empty(), other, truth, &mut rng, tally);
    let mut seen = 0;
    for _ in 0..steps {
        world.step(&mut rng);
        if world.medium.clock() != seen || rng.random_ratio(1, 8) {
            seen = world.medium.clock();
            let (image, other, truth) = world.inspect(&mut rng);
            if rng.random_ratio(1, 60) && truth.iter().all(|t| t.len() == 1) && truth.len() == FILES
            {
                // The history continues from this state.
                let stats = world.group_store.stats();
                world.tally.checkpoints += stats.checkpoints;
                world.tally.split += stats.split;
                let mut store = StoreOnDevice::attach(image, || true, config(&mut rng)).unwrap();
                let mut other = other;
                recover(&mut store, &mut other);
                other.iter_mut().for_each(Ordered::sync);
                store.ask(SimTime(1), Ask::Sync { file: None }).unwrap();
                let unlinked = std::mem::take(&mut world.unlinked);
                world = World::new(store.into_device(), other, truth, &mut rng, world.tally);
                world.unlinked = unlinked;
                seen = 0;
            }
        }
    }
    while !world.sent.is_empty() || world.syncing.is_some() || world.group_store.wakeup().is_some()
    {
        world.execute(&mut rng);
    }
    assert!(world.pending.is_empty(), "never ended: {:?}", world.pending);
    let stats = world.group_store.stats();
    world.tally.checkpoints += stats.checkpoints;
    world.tally.split += stats.split;
    world.tally
}

/// SEEKLESS_FS_SEEDS is the number of histories.
#[test]
#[allow(clippy::print_stdout)]
fn every_synced_file_is_whole_and_in_one_place_after_every_crash() {
    let seeds = std::env::var("SEEKLESS_FS_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(24);
    let mut all = Tally::default();
    for seed in 0..seeds {
        let found = std::panic::catch_unwind(|| live(seed, 400, all));
        all = found.unwrap_or_else(|_| panic!("seed {seed}"));
    }
    println!("{all:?}");
    assert!(all.states > 100 * seeds && all.damaged > 30 * seeds && all.told > seeds, "{all:?}");
    assert!(all.arrived > 10 * seeds && all.returned > seeds && all.removed > seeds, "{all:?}");
    assert!(all.emptied > seeds && all.late > seeds, "{all:?}");
    assert!(all.synced > 10 * seeds && all.checkpoints > seeds, "{all:?}");
}
