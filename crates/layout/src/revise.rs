//! Changing a plan no more than is worth the move. A plan made from nothing stands in another order every time, and
//! moving all of it costs more than a better order brings. So what stands stays, and only what pays for its move
//! moves.
//!
//! **The rule.** An access graph says what followed what, how often. A layout says what each of these passages
//! would cost: nothing, where reading the first vertex brings the second along; a near access, where it stands close
//! by; else a far one ([`Cost`]). A vertex moves if, over all that is remembered, the passages that touch it
//! would have cost less in its new place, by at least the price of moving it: what was lost by not moving
//! earlier has then reached that price. This is how to choose between renting and buying when nobody knows how long
//! it will be used (Karlin, Manasse, Rudolph and Sleator, Algorithmica 3, 1988): it never costs more than twice what
//! knowing would have. No share, threshold or period is to be chosen.
//!
//! **The end.** A plan is adopted only if it lowers the cost of all passages by more than its moves
//! cost. Costs are whole numbers and fall at each step, so revising ends; the plan it ends with, revised again
//! over the same graph, is itself: no new request, no motion.
//!
//! **Room** is dealt in slots ([`Cost::slot`]). What moves is laid into empty slots, side by side in the order of the
//! strategy; where there are none, into those whose copies are worth less than what comes.

use seekless_block::{Lba, Sectors};

use crate::graph::ACCESS;
use crate::strategy::{Links, order};
use crate::{AccessGraph, Copy, Plan, PlanConfig, Repeats, Vertex};

/// What an access and a move cost, and what one access brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Time of an access far from the one before it, without transfer: a seek and half a turn. In microseconds.
    pub far: u32,
    /// Time of an access near the one before it: the shortest seek and half a turn. In microseconds.
    pub near: u32,
    /// What a read of home brings at least.
    pub read_ahead: Sectors,
    /// What a read of a copy brings: this much, aligned.
    pub cluster: Sectors,
    /// What is transferred in the time of a far access, in whole clusters. Longer extents are left where they are: a
    /// copy would save less than half of what they cost. Accesses within this distance are near.
    pub slot: Sectors,
}

impl Default for Cost {
    /// A disk of 7,200 turns a minute: half a turn takes 4.2 ms, a seek over a third of the tracks 8.5 ms and to the
    /// next track 0.8 ms, as data sheets have it since 2000. 512 KiB in 12.7 ms are 41 MB/s: the disks of that time.
    fn default() -> Self {
        Self {
            far: 12_700,
            near: 5_000,
            read_ahead: Sectors(128),
            cluster: Sectors(128),
            slot: Sectors(1024),
        }
    }
}

/// No copy.
const HOME: u64 = u64::MAX;
/// Movers that do not pay are sorted out at most so often.
const ROUNDS: usize = 16;

/// The plan that takes `old`'s place, given what `graph` remembers: `old` itself where nothing is worth a move, but
/// for copies of what is forgotten, which cost nothing to drop.
#[must_use]
pub fn revise(old: &Plan, graph: &AccessGraph, config: &PlanConfig, cost: &Cost) -> Plan {
    let (vertices, edges) = graph.snapshot();
    let links = Links::new(vertices.len(), &edges);
    drop(edges); // as large as the links
    let mut revision = Revision::new(&vertices, &links, graph.repeats(), config, cost, old);
    loop {
        while revision.drop_stale() {}
        if !revision.improve() {
            break;
        }
    }
    revision.plan()
}

#[derive(Debug)]
struct Revision<'a> {
    vertices: &'a [Vertex],
    links: &'a Links,
    cost: &'a Cost,
    repeats: Repeats,
    /// Slots that fit the area.
    slots: usize,
    /// What may have a copy, in the strategy's order.
    ideal: Vec<u32>,
    /// Where each vertex's copy stands; [`HOME`] where it has none.
    places: Vec<u64>,
}

impl<'a> Revision<'a> {
    fn new(
        vertices: &'a [Vertex],
        links: &'a Links,
        repeats: Repeats,
        config: &PlanConfig,
        cost: &'a Cost,
        old: &Plan,
    ) -> Self {
        let slots = (config.area.0 / cost.slot.0) as usize;
        let mut new =
            Self { vertices, links, cost, repeats, slots, ideal: Vec::new(), places: Vec::new() };
        new.places = places(old, vertices);
        for (place, vertex) in new.places.iter_mut().zip(vertices) {
            if *place != HOME && *place + vertex.extent.len.0 > config.area.0 {
                *place = HOME;
            }
        }
        let eligible: Vec<Vertex> = (0..vertices.len() as u32)
            .map(|v| {
                let vertex = vertices[v as usize];
                // A copy that is never in the way of anything still cannot save more than every access.
                let all = new.expected(2 * u64::from(vertex.reads) * u64::from(cost.far));
                let may = vertex.extent.len <= cost.slot && all >= new.price(v);
                Vertex { writes: if may { vertex.writes } else { u32::MAX }, ..vertex }
            })
            .collect();
        new.ideal = order(&eligible, links, config);
        new
    }

    /// What is to be saved in future by what would have saved this much in the past.
    fn expected(&self, past: u64) -> u64 {
        let odds =
            u128::from(past) * u128::from(self.repeats.known) / u128::from(self.repeats.new + 1);
        u64::try_from(odds).unwrap_or(u64::MAX)
    }

    /// What moving `v` costs, and making its copy again for every write since.
    fn price(&self, v: u32) -> u64 {
        self.copying(v) * u64::from(ACCESS) + self.upkeep(v)
    }

    /// What making the copy of `v` once costs: an access, unless the read before it ends there (reads go in order
    /// of address), and its transfer, twice.
    fn copying(&self, v: u32) -> u64 {
        let extent = self.vertices[v as usize].extent;
        let before = (v as usize).checked_sub(1).map(|u| self.vertices[u].extent);
        let goes_on = before.is_some_and(|b| b.end() == extent.start);
        let access = if goes_on { 0 } else { u64::from(self.cost.near) };
        access + 2 * u64::from(self.cost.far) * extent.len.0 / self.cost.slot.0
    }

    /// What it costs that a written copy is made again.
    fn upkeep(&self, v: u32) -> u64 {
        self.copying(v) * u64::from(self.vertices[v as usize].writes)
    }

    /// The slots that some of `v` would stand in at this place.
    fn slots_of(&self, v: u32, place: u64) -> std::ops::RangeInclusive<usize> {
        let last = place + self.vertices[v as usize].extent.len.0 - 1;
        (place / self.cost.slot.0) as usize..=(last / self.cost.slot.0) as usize
    }

    /// What the passages over one edge cost with vertices at these places.
    fn passage(&self, places: &[u64], from: u32, to: u32, weight: u32) -> u64 {
        let Cost { far, near, read_ahead, cluster, slot } = *self.cost;
        let len = self.vertices[from as usize].extent.len.0;
        let (a, b) = (places[from as usize], places[to as usize]);
        // What reading the first brings, and where the second starts.
        let (start, end, next) = match (a == HOME, b == HOME) {
            (true, true) => {
                let start = self.vertices[from as usize].extent.start.0;
                (start, start + len.max(read_ahead.0), self.vertices[to as usize].extent.start.0)
            }
            (false, false) => {
                let cluster = cluster.0.max(1);
                (a / cluster * cluster, (a + len).next_multiple_of(cluster), b)
            }
            _ => return u64::from(weight) * u64::from(far),
        };
        let each = if (start..=end).contains(&next) {
            0
        } else if (start.saturating_sub(slot.0)..=end + slot.0).contains(&next) || a != HOME {
            near
        } else {
            far
        };
        u64::from(weight) * u64::from(each)
    }

    /// What all passages cost with vertices at these places.
    fn total(&self, places: &[u64]) -> u64 {
        (0..self.vertices.len() as u32).map(|v| self.arrivals(places, v)).sum()
    }

    /// What the passages to `v` cost.
    fn arrivals(&self, places: &[u64], v: u32) -> u64 {
        self.links.incoming(v).iter().map(|&(u, w)| self.passage(places, u, v, w)).sum()
    }

    /// What moving `v` gains, less its price: every edge between movers counts for the one it leads to.
    fn gain(&self, new: &[u64], v: u32) -> i64 {
        let old = &self.places;
        let moves = |u: u32| new[u as usize] != old[u as usize];
        let mut gain = self.arrivals(old, v) as i64 - self.arrivals(new, v) as i64;
        for &(to, w) in self.links.outgoing(v) {
            if !moves(to) {
                gain += self.passage(old, v, to, w) as i64 - self.passage(new, v, to, w) as i64;
            }
        }
        let expected = self.expected(gain.unsigned_abs()) as i64;
        (if gain < 0 { -expected } else { expected }) - self.price(v) as i64
    }

    /// Drops copies that save less than making them again after every write costs. False where there is none.
    fn drop_stale(&mut self) -> bool {
        let mut dropped = false;
        for v in 0..self.vertices.len() as u32 {
            let place = self.places[v as usize];
            if place == HOME || self.vertices[v as usize].writes == 0 {
                continue;
            }
            let with = self.touching(v);
            self.places[v as usize] = HOME;
            let saves = self.touching(v).saturating_sub(with);
            if self.expected(saves) < self.upkeep(v) {
                dropped = true;
            } else {
                self.places[v as usize] = place;
            }
        }
        dropped
    }

    /// What the passages to and from `v` cost as things stand.
    fn touching(&self, v: u32) -> u64 {
        let leave = self.links.outgoing(v).iter();
        let leave: u64 = leave.map(|&(to, w)| self.passage(&self.places, v, to, w)).sum();
        self.arrivals(&self.places, v) + leave
    }

    /// Moves what is worth it. False where nothing is.
    fn improve(&mut self) -> bool {
        // As if the area were empty ...
        let all = vec![true; self.slots];
        let mut movers = self.ideal.clone();
        let mut new = self.places.clone();
        self.lay(&movers, &all, &mut new);
        // ... then less and less of it.
        for _ in 0..ROUNDS {
            let before = movers.len();
            let gains: Vec<i64> = movers
                .iter()
                .map(|&v| {
                    if new[v as usize] == self.places[v as usize] { -1 } else { self.gain(&new, v) }
                })
                .collect();
            let mut keep = gains.iter().map(|&g| g >= 0);
            movers.retain(|_| keep.next().unwrap_or(false));
            if movers.is_empty() {
                return false;
            }
            let gain: Vec<i64> = gains.into_iter().filter(|&g| g >= 0).collect();
            self.settle(&mut movers, &gain, &mut new);
            if movers.len() == before {
                break;
            }
        }
        let price: u64 = movers
            .iter()
            .filter(|&&v| new[v as usize] != self.places[v as usize])
            .map(|&v| self.price(v))
            .sum();
        let saves = self.total(&self.places).saturating_sub(self.total(&new));
        if self.expected(saves) <= price {
            return false;
        }
        self.places = new;
        true
    }

    /// Lays the movers into free slots, side by side in their order, and into those that are worth less than they
    /// gain; movers without room are left out. All others stay where they are, or lose their copy to a mover.
    fn settle(&self, movers: &mut Vec<u32>, gains: &[i64], new: &mut Vec<u64>) {
        new.clone_from(&self.places);
        for &v in &*movers {
            new[v as usize] = HOME;
        }
        // What each slot is worth to those that would stay.
        let mut worth = vec![0i64; self.slots + 1];
        for v in 0..self.vertices.len() as u32 {
            let place = new[v as usize];
            if place != HOME {
                new[v as usize] = HOME;
                let home = self.arrivals(new, v);
                new[v as usize] = place;
                let saves = home as i64 - self.arrivals(new, v) as i64;
                for slot in self.slots_of(v, place) {
                    worth[slot] += saves.max(0) + 1;
                }
            }
        }
        let mut cheapest: Vec<usize> = (0..self.slots).collect();
        cheapest.sort_by_key(|&s| worth[s]);
        // Units of a slot each.
        let mut wants = Vec::new();
        let (mut used, mut gained) = (0, 0);
        for (&v, &gain) in movers.iter().zip(gains) {
            let len = self.vertices[v as usize].extent.len.0;
            if used + len > self.cost.slot.0 {
                wants.push(gained);
                (used, gained) = (0, 0);
            }
            used += len;
            gained += gain;
        }
        wants.push(gained);
        wants.sort_unstable_by(|a, b| b.cmp(a));
        let mut taken = vec![false; self.slots + 1];
        for (&slot, &gained) in cheapest.iter().zip(&wants) {
            taken[slot] = worth[slot] == 0 || worth[slot] < gained;
        }
        for (v, place) in new.iter_mut().enumerate() {
            if *place != HOME && taken[self.slots_of(v as u32, *place)].contains(&true) {
                *place = HOME;
            }
        }
        let placed = self.lay(movers, &taken, new);
        movers.truncate(placed);
    }

    /// Gives vertices places in the slots that are free, in order. How many found room.
    fn lay(&self, order: &[u32], free: &[bool], places: &mut [u64]) -> usize {
        let slot = self.cost.slot.0;
        let mut slots = (0..self.slots as u64).filter(|&s| free[s as usize]);
        let (mut at, mut end) = (0, 0);
        for (n, &v) in order.iter().enumerate() {
            let len = self.vertices[v as usize].extent.len.0;
            if at + len > end {
                let Some(next) = slots.next() else { return n };
                // A slot that follows the last one continues it.
                at = if next * slot == end { at } else { next * slot };
                end = (next + 1) * slot;
            }
            places[v as usize] = at;
            at += len;
        }
        order.len()
    }

    /// The copies, in order of place.
    fn plan(&self) -> Plan {
        let mut copies: Vec<Copy> = self
            .vertices
            .iter()
            .zip(&self.places)
            .filter(|(_, place)| **place != HOME)
            .map(|(vertex, &place)| Copy { home: vertex.extent, place: Lba(place) })
            .collect();
        copies.sort_unstable_by_key(|c| c.place);
        Plan { copies }
    }
}

/// Where each vertex stands under a plan; [`HOME`] where no copy holds all of it.
fn places(plan: &Plan, vertices: &[Vertex]) -> Vec<u64> {
    let mut copies = plan.copies.clone();
    copies.sort_unstable_by_key(|c| c.home.start);
    let mut runs: Vec<Copy> = Vec::with_capacity(copies.len());
    for copy in copies {
        match runs.last_mut() {
            Some(run) if run.home.end() == copy.home.start && run.placed().end() == copy.place => {
                run.home.len += copy.home.len;
            }
            _ => runs.push(copy),
        }
    }
    vertices
        .iter()
        .map(|vertex| {
            let at = runs.partition_point(|r| r.home.start <= vertex.extent.start);
            match at.checked_sub(1).map(|at| runs[at]) {
                Some(run) if run.home.contains(vertex.extent) => {
                    (run.place + (vertex.extent.start - run.home.start)).0
                }
                _ => HOME,
            }
        })
        .collect()
}
