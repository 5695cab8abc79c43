//! Free space for replicas (FS2), asked of the volume's thread in parts, and only for a plan.

use std::cell::OnceCell;

use seekless_block::{Extent, Lba};
use seekless_engine::{Replicated, RoomFrom};
use seekless_learn::{Pages, ReplicaProgress, ReplicaSpace, needs_no_more};

/// Free space for replicas, and existing replicas.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    /// Free pages without replicas, in order; none if nothing may be replicated now.
    pub(crate) free: Vec<Extent>,
    /// First sectors of pages with a current or coming replica, in order, each with the replica's
    /// place.
    pub(crate) placed: Vec<(Lba, Lba)>,
    /// Most replicas of a page.
    pub(crate) degree: u32,
    /// The volume's pages.
    pub(crate) pages: Pages,
    /// State of replication.
    pub(crate) state: Replicated,
}

/// A part of the room, and the start of the next part.
pub(crate) type RoomReply = Option<(Room, Option<RoomFrom>)>;

impl Room {
    /// True if the page that begins at this sector has a replica.
    pub(crate) fn has_replica(&self, page: Lba) -> bool {
        self.places(page).next().is_some()
    }

    /// Places of replicas of the page that begins at this sector.
    fn places(&self, page: Lba) -> impl Iterator<Item = Lba> + '_ {
        let from = self.placed.partition_point(|p| p.0 < page);
        self.placed[from..].iter().take_while(move |p| p.0 == page).map(|p| p.1)
    }

    /// Joins and sorts parts, because the volume's thread has no time for all at once.
    pub(crate) fn of_parts<E>(
        mut part: impl FnMut(RoomFrom) -> Result<RoomReply, E>,
    ) -> Result<Option<Self>, E> {
        let Some((mut all, mut next)) = part(RoomFrom::default())? else { return Ok(None) };
        while let Some(from) = next {
            let Some((more, then)) = part(from)? else { break };
            all.free.extend(more.free);
            all.placed.extend(more.placed);
            (all.state, next) = (more.state, then);
        }
        all.placed.sort_unstable();
        Ok(Some(all))
    }
}

impl ReplicaSpace for Room {
    fn progress(&self) -> ReplicaProgress {
        let Replicated { suspended, under_way, answered, .. } = self.state;
        ReplicaProgress { blocked: suspended || under_way, answered }
    }

    fn free(&self) -> Vec<Extent> {
        self.free.clone()
    }

    fn is_placed(&self, page: Lba, hot: Extent) -> bool {
        needs_no_more(self.places(page), hot, self.degree)
    }
}

/// The room, asked for once, on demand.
pub(crate) struct LazySpace<'a> {
    ask: &'a dyn Fn() -> Option<Room>,
    room: OnceCell<Option<Room>>,
}

impl<'a> LazySpace<'a> {
    pub(crate) const fn new(ask: &'a dyn Fn() -> Option<Room>) -> Self {
        Self { ask, room: OnceCell::new() }
    }

    fn room(&self) -> Option<&Room> {
        self.room.get_or_init(self.ask).as_ref()
    }
}

impl ReplicaSpace for LazySpace<'_> {
    fn progress(&self) -> ReplicaProgress {
        let nothing = ReplicaProgress { blocked: true, ..ReplicaProgress::default() };
        self.room().map_or(nothing, Room::progress)
    }

    fn free(&self) -> Vec<Extent> {
        self.room().map(Room::free).unwrap_or_default()
    }

    fn is_placed(&self, page: Lba, hot: Extent) -> bool {
        self.room().is_none_or(|room| room.is_placed(page, hot))
    }
}
