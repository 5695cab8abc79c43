//! The orders of a file system: what its chases want, in the order of the disk, as far as the guard
//! allows.

use std::collections::BTreeMap;

use seekless_block::{Duration, SimTime};

use super::{IDLE, IN_FLIGHT, ORDER_GROUPS, ORDER_PAGES, Order, PIECES_ALL, Watcher};
use crate::PIECE_PAGES;
use crate::chase::Chase;
use crate::fills::Pages;
use crate::guard::{VAIN_MOST, cost};
use crate::job::between;
use crate::piece::{HOLE, Piece, spans};
use crate::run::Run;

/// The key is the order on the disk.
pub(super) type Queue = BTreeMap<Key, (u32, Piece)>;
type Key = (bool, u64, u64, u32, u32);

impl Watcher {
    /// The next pages to fetch, in the disk's order, metadata first. `files`: pages of files may be
    /// fetched now.
    pub fn next_order(&mut self, now: SimTime, files: bool) -> Option<Order> {
        self.refill(now);
        if !self.limits.act {
            self.clear_orders();
            return None;
        }
        if self.ahead.saturating_add(self.held) >= self.limits.pages_ahead {
            return None;
        }
        let (metadata, key) = match self.first(now, true) {
            Some(key) => (true, key),
            None => (false, self.first(now, false).filter(|_| files)?),
        };
        let ahead = self.cost_ahead();
        if !self.guard_allows(now, ahead) {
            // Of other file systems, it is not known what is ahead, and what was in vain.
            let next = Duration(self.limits.price.0.saturating_mul(IN_FLIGHT));
            if self.held > 0 || self.guard.allows(now, next) {
                // May be allowed once these are done, or once what is ahead is used, here or there.
                return None;
            }
            // Nothing more is ordered until the allowance returns.
            self.clear_orders();
            self.totals.guarded += 1;
            return None;
        }
        self.arm[usize::from(metadata)] = (key.0, key.1);
        let queue = if metadata { &mut self.metadata } else { &mut self.files };
        let (group, piece) = queue.remove(&key)?;
        let mut order = self.cut(group, piece, metadata);
        if metadata {
            self.widen(&mut order);
        }
        self.totals.orders += 1;
        // Groups of inodes are a read each.
        let reads = if metadata && self.by_inode { order.pages.count } else { 1 };
        if let Some(chase) = self.runs.get_mut(&order.group).and_then(|r| r.chase.as_mut()) {
            chase.took.0 += reads;
        }
        if self.recent.len() >= IN_FLIGHT as usize {
            self.recent.pop_front();
        }
        self.recent.push_back((order.group, order.pages));
        Some(order)
    }

    /// The next order behind the arm. Nothing is fetched for a run that is idle: its program may have
    /// ended.
    fn first(&self, now: SimTime, metadata: bool) -> Option<Key> {
        if self.is_busy() && !self.is_at_work(now) {
            // Without a look at each piece.
            return None;
        }
        let queue = if metadata { &self.metadata } else { &self.files };
        let (unknown, at) = self.arm[usize::from(metadata)];
        let from = (unknown, at, 0, 0, 0);
        let is_at_work = |g: &u32| self.runs.get(g).is_none_or(|r| between(r.last, now) < IDLE);
        let mut all = queue.range(from..).chain(queue.range(..from));
        all.find(|(_, (group, _))| is_at_work(group)).map(|(&key, _)| key)
    }

    /// The disk's time in vain, if all that is ahead is in vain too.
    pub fn vain_at_most(&mut self, now: SimTime) -> Duration {
        let ahead = self.cost_ahead().0;
        Duration(self.guard.last_hour(now).0.saturating_add(ahead))
    }

    fn guard_allows(&mut self, now: SimTime, ahead: Duration) -> bool {
        let under_way = self.limits.price.0.saturating_mul(IN_FLIGHT.saturating_add(self.held));
        let at_risk = ahead.0.saturating_add(under_way);
        let at_risk = at_risk.saturating_add(self.limits.vain_elsewhere.0);
        self.guard.allows(now, Duration(at_risk))
    }

    /// The disk's time for the pages that are ahead. Each chase has its own mean: single pages cost a
    /// read each, and pages of long files little. The rest came late.
    fn cost_ahead(&self) -> Duration {
        let (mut rest, mut all) = (self.ahead, 0u64);
        for chase in self.runs.values().filter_map(|r| r.chase.as_ref()) {
            rest = rest.saturating_sub(chase.ahead);
            all = all.saturating_add(cost(chase.ahead, chase.took, self.limits.price).0);
        }
        Duration(all.saturating_add(cost(rest, self.last_took, self.limits.price).0))
    }

    /// The first span of a piece; the rest goes back to the queue.
    fn cut(&mut self, group: u32, mut piece: Piece, metadata: bool) -> Order {
        let (first, count) = self.first_span(piece.pages, metadata).unwrap_or((0, 1));
        let order = Order {
            group,
            pages: Pages {
                file: piece.place.file,
                first: piece.place.first_page() + u64::from(first),
                count: u64::from(count),
            },
            generation: piece.generation,
        };
        piece.pages &= !(((1u64 << (first + count)) - 1) as u32);
        if piece.pages != 0 {
            let queue = if metadata { &mut self.metadata } else { &mut self.files };
            queue.insert(key(group, &piece), (group, piece));
        }
        order
    }

    /// The first pages of a piece that one order may have: first page and number.
    fn first_span(&self, pages: u32, metadata: bool) -> Option<(u32, u32)> {
        let (first, count) = spans(pages, self.hole(metadata)).next()?;
        let most = if metadata && self.by_inode { ORDER_GROUPS } else { ORDER_PAGES };
        Some((first, count.min(most as u32)))
    }

    /// Longest hole that is read along. Groups of inodes are a read each.
    const fn hole(&self, metadata: bool) -> u32 {
        if metadata && self.by_inode { 0 } else { HOLE }
    }

    /// Adds the neighbours behind an order for metadata.
    fn widen(&mut self, order: &mut Order) {
        loop {
            let end = order.pages.first + order.pages.count;
            let next = self.metadata.range((false, end / PIECE_PAGES, 0, 0, 0)..).next();
            let Some((&key, &(group, piece))) = next else { return };
            let Some((first, count)) = self.first_span(piece.pages, true) else { return };
            let start = piece.place.first_page() + u64::from(first);
            let stop = start + u64::from(count);
            // Another run may have ordered some of these as well.
            let known = start >= order.pages.first && stop <= end;
            let follows = start >= end && start - end <= u64::from(self.hole(true));
            // Groups of inodes are a read each: many of them would hold all threads.
            let most = if self.by_inode { ORDER_GROUPS } else { ORDER_PAGES };
            let fits = follows && stop - order.pages.first <= most;
            if !known && !fits {
                return;
            }
            self.metadata.remove(&key);
            let _ = self.cut(group, piece, true);
            order.pages.count = stop.max(end) - order.pages.first;
        }
    }

    /// Lets every chase order what its windows allow.
    fn refill(&mut self, now: SimTime) {
        self.book_late(now);
        self.park(now);
        let mut vain = Vec::new();
        // An idle one orders nothing.
        let fetches =
            |r: &&Run| between(r.last, now) < IDLE && r.chase.as_ref().is_some_and(|c| c.fetch);
        let helped = self.runs.values().filter(fetches).count().max(1) as u64;
        let places = |r: &Run| r.chase.as_ref().map_or(0, Chase::places);
        let ordered = self.runs.values().map(places).sum::<usize>();
        let mut free = PIECES_ALL.saturating_sub(ordered);
        // The guard allows no more than this at risk.
        let allowed = VAIN_MOST.0.saturating_sub(self.guard.last_hour(now).0);
        let allowed = allowed.saturating_sub(self.limits.vain_elsewhere.0);
        for (&group, run) in &mut self.runs {
            if between(run.last, now) >= IDLE {
                continue;
            }
            let Some(chase) = run.chase.as_mut().filter(|c| c.fetch) else { continue };
            let Some(job) = self.jobs.iter().find(|j| j.id == chase.job) else { continue };
            vain.push((chase.judge(job), chase.took));
            let each = cost(1, chase.took, self.limits.price).0.max(1);
            let most_pages = self.limits.pages_ahead.min(allowed / each) / helped;
            while free > 0
                && let Some(piece) = chase.next(job, most_pages)
            {
                free -= 1;
                let metadata = piece.place.is_metadata();
                let queue = if metadata { &mut self.metadata } else { &mut self.files };
                queue.insert(key(group, &piece), (group, piece));
            }
        }
        for (pages, took) in vain {
            self.in_vain(now, pages, took);
        }
    }

    pub(super) fn book_late(&mut self, now: SimTime) {
        let late = std::mem::take(&mut self.late);
        self.in_vain(now, late, self.last_took);
    }

    /// Takes orders of runs that became idle out of the queues, and returns those of runs that are
    /// at work again.
    fn park(&mut self, now: SimTime) {
        for (&group, run) in &self.runs {
            let idle = between(run.last, now) >= IDLE;
            if idle == self.parked.contains_key(&group) {
                continue;
            }
            let queues = [&mut self.metadata, &mut self.files];
            if let Some(parked) = self.parked.remove(&group) {
                queues.into_iter().zip(parked).for_each(|(queue, own)| queue.extend(own));
                continue;
            }
            let parked = queues.map(|queue| {
                let (own, others) =
                    std::mem::take(queue).into_iter().partition(|(_, (g, _))| *g == group);
                *queue = others;
                own
            });
            self.parked.insert(group, parked);
        }
    }

    fn clear_orders(&mut self) {
        self.metadata.clear();
        self.files.clear();
        self.parked.clear();
    }

    pub(super) fn drop_orders(&mut self, group: u32) {
        self.parked.remove(&group);
        self.metadata.retain(|_, (g, _)| *g != group);
        self.files.retain(|_, (g, _)| *g != group);
    }
}

pub(super) fn key(group: u32, piece: &Piece) -> Key {
    let (unknown, at) = piece.order();
    (unknown, at, piece.place.file, piece.place.chunk, group)
}
