//! How a server divides its memory: one bound for everything. The rest of the memory is for pages
//! of RAM.
//!
//! Two rules prevent a deadlock. First, a request that holds memory never waits for more: the
//! server reserves all memory of its payload before it accepts the request. Second, an I/O holds
//! memory only while a device works.

use seekless_block::{Bytes, PAGE_BYTES, PAGE_SECTORS, Sectors};
use seekless_engine::Config;
use seekless_host::reserve::RESERVE_BYTES;

use crate::server::CLIENTS_MAX;
use crate::tls::CARRIERS_MAX;

/// The program itself, its threads, its rings, and what the adaptive policy learns.
const PROGRAM: u64 = 34 << 20;
/// Bookkeeping for each page of an area, and of RAM.
const OF_AREA_PAGE: u64 = 20;
const OF_RAM_PAGE: u64 = 192;
/// TLS: the thread of a connection, and its buffers; and the rest of its stack where memory is locked.
const OF_TLS_CLIENT: u64 = 256 << 10;
const OF_TLS_LOCKED: u64 = 256 << 10;
/// Requests of the kernel, and stacks of threads, where the volume is mounted on this host: all memory
/// is locked then, and the whole program too.
const MOUNTED: u64 = 48 << 20;
/// A home on another server: changes that no flush has covered, and connections with a request each.
const ELSEWHERE: u64 = 56 << 20;
/// An edge of the learner's graph, and a vertex for every other edge.
const OF_EDGE: u64 = 80;
/// The longest request.
const REQUEST: u64 = 32 << 20;
/// Least memory for pages.
const PAGES_LEAST: u64 = 4 << 20;
/// Usual memory of a server, however small the machine is.
const USUAL_LEAST: u64 = 128 << 20;
/// A usual server takes this part of the machine's memory.
const USUAL_SHARE: u64 = 64;

/// What has a share of the memory, beside clients and pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) area_pages: u64,
    /// Pages of the write buffer of the vanilla system that the guard of the policy has.
    pub(crate) vanilla_pages: u64,
    /// Pages of home whose state is kept, for replicas.
    pub(crate) free_pages: u64,
    /// The learner keeps a graph.
    pub(crate) graph: bool,
    pub(crate) tls: bool,
    pub(crate) mounted: bool,
    /// Clients may connect.
    pub(crate) clients: bool,
    /// Home is on another server.
    pub(crate) elsewhere: bool,
    /// The area outlasts the server, and may become a write buffer.
    pub(crate) lasting: bool,
    /// Memory for pages, where that was given.
    pub(crate) pages: Option<Bytes>,
}

/// The memory of each part of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// All of it; `None` for a server without a bound.
    pub(crate) all: Option<Bytes>,
    /// Pages of RAM.
    pub(crate) pages: Bytes,
    /// The staging memory, of a mode that destages and of any other.
    pub(crate) sweep: Bytes,
    pub(crate) stage: Bytes,
    /// Records of the log.
    pub(crate) records: u32,
    /// Edges of the learner's graph.
    pub(crate) edges: usize,
    /// What each client has for itself.
    pub(crate) client: ClientShare,
    /// Payload of all clients together, beyond their own shares.
    pub(crate) payload: usize,
    /// Memory of reads in flight.
    pub(crate) reads: usize,
    /// Buffers kept for reuse.
    pub(crate) kept: usize,
}

/// What a client has for itself, whatever other clients hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientShare {
    /// Its receive buffer.
    pub(crate) received: usize,
    /// Its buffer for small replies.
    pub(crate) replies: usize,
    /// Payload of requests, until their replies are sent.
    pub(crate) payload: usize,
}

impl ClientShare {
    const UNBOUND: Self = Self { received: 256 << 10, replies: 1 << 20, payload: usize::MAX };

    const fn bytes(&self) -> u64 {
        (self.received + self.replies + self.payload) as u64
    }
}

/// There is too little memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLittle {
    pub(crate) given: Bytes,
    pub(crate) least: Bytes,
}

impl Needs {
    /// Of an engine with an area of this size.
    pub(crate) fn of(config: &Config, area: Sectors, replicates: bool) -> Self {
        let pages = |sectors: Sectors| sectors.0.div_ceil(PAGE_SECTORS);
        let free_pages = if replicates { pages(config.capacity) } else { 0 };
        Self { area_pages: pages(area), free_pages, ..Self::default() }
    }

    /// With the guard of the policy: its vanilla system has a write buffer as large as that of the
    /// engine, and a map of its pages.
    pub(crate) fn beside_vanilla(self, divided: &Config) -> Self {
        let percent = u64::from(divided.write_buffer_percent);
        Self { vanilla_pages: divided.area.0 / PAGE_SECTORS * percent / 100, ..self }
    }

    /// Least memory for pages, with the bookkeeping for them.
    fn for_pages(&self) -> u64 {
        with_map(self.pages.unwrap_or(Bytes(PAGES_LEAST)))
    }
}

impl Shares {
    /// A server without a bound.
    pub(crate) const UNBOUND: Self = Self {
        all: None,
        pages: Bytes(0),
        sweep: Bytes(64 << 20),
        stage: Bytes(16 << 20),
        records: u32::MAX,
        edges: seekless_learn::EDGES_MAX,
        client: ClientShare::UNBOUND,
        payload: usize::MAX,
        reads: usize::MAX,
        kept: 64 << 20,
    };

    pub(crate) fn of(all: Bytes, needs: &Needs) -> Result<Self, TooLittle> {
        let shares = Self::parts(all, needs);
        let rest = all.0.saturating_sub(shares.taken(needs));
        if rest < needs.for_pages() {
            return Err(TooLittle { given: all, least: Self::least(needs) });
        }
        let room = Bytes(rest / (PAGE_BYTES + OF_RAM_PAGE) * PAGE_BYTES);
        Ok(Self { pages: needs.pages.unwrap_or(room), ..shares })
    }

    /// Divides what a server usually takes of a machine with this memory.
    pub(crate) fn usual(machine: Bytes, needs: &Needs) -> Result<Self, TooLittle> {
        let usual = Bytes(((machine.0 / USUAL_SHARE) >> 20 << 20).max(USUAL_LEAST));
        Self::of(usual.max(Self::least(needs)), needs)
    }

    /// The least memory, in MiB, that holds all parts.
    fn least(needs: &Needs) -> Bytes {
        let holds = |mib: u64| {
            let all = Bytes(mib << 20);
            Self::parts(all, needs).taken(needs) + needs.for_pages() <= all.0
        };
        let (mut low, mut high) = (0, 1 << 24);
        while low + 1 < high {
            let mid = low + (high - low) / 2;
            if holds(mid) { high = mid } else { low = mid }
        }
        Bytes(high << 20)
    }

    fn parts(all: Bytes, needs: &Needs) -> Self {
        let whole = |bytes: u64| bytes / PAGE_BYTES * PAGE_BYTES;
        let part = |of: u64, least: u64, most: u64| whole(all.0 / of).clamp(least, most);
        let kib = |k: u64| k << 10;
        let mib = |m: u64| m << 20;
        let stage = part(32, mib(2), mib(16));
        Self {
            all: Some(all),
            pages: Bytes(0),
            stage: Bytes(stage),
            sweep: Bytes(if needs.lasting { part(16, mib(2), mib(64)) } else { stage }),
            records: (part(64, mib(2), mib(64)) >> 20) as u32,
            edges: if needs.graph { part(8 * OF_EDGE, 1 << 12, 1 << 21) as usize } else { 16 },
            client: ClientShare {
                received: part(4096, kib(32), kib(256)) as usize,
                replies: part(4096, kib(32), kib(512)) as usize,
                payload: part(2048, kib(64), kib(512)) as usize,
            },
            payload: part(8, REQUEST, mib(512)) as usize,
            reads: part(32, mib(4), mib(256)) as usize,
            kept: part(32, mib(2), mib(64)) as usize,
        }
    }

    /// What all parts but the pages take.
    fn taken(&self, needs: &Needs) -> u64 {
        let clients = if needs.clients { CLIENTS_MAX as u64 } else { 0 };
        let carriers = if needs.tls && needs.clients { CARRIERS_MAX as u64 } else { 0 };
        let locked = if needs.mounted { OF_TLS_LOCKED } else { 0 };
        let tls = carriers * (OF_TLS_CLIENT + locked);
        // What stands in the staging memory is on its way through as many bytes of buffers. A long
        // write may need twice the records.
        let stage = 2 * self.sweep.0 + 2 * (u64::from(self.records) << 20);
        let graph = if needs.graph { self.edges as u64 * OF_EDGE } else { 0 };
        PROGRAM
            + (needs.area_pages + needs.vanilla_pages) * OF_AREA_PAGE
            + needs.free_pages / 4
            + stage
            + graph
            + tls
            + clients * self.client.bytes()
            + if needs.clients { self.payload as u64 } else { 0 }
            + 3 * self.reads as u64 / 2
            + self.kept as u64
            + if needs.mounted { MOUNTED + RESERVE_BYTES + program_bytes() } else { 0 }
            + if needs.elsewhere { ELSEWHERE } else { 0 }
    }
}

fn program_bytes() -> u64 {
    std::fs::metadata("/proc/self/exe").map_or(PROGRAM, |m| m.len())
}

/// Memory for pages, with the bookkeeping for them.
fn with_map(pages: Bytes) -> u64 {
    pages.0 + pages.0 / PAGE_BYTES * OF_RAM_PAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_no_more_than_the_whole() {
        let area = |gib: u64| Needs { area_pages: gib << 18, clients: true, ..Needs::default() };
        for needs in [
            Needs::default(),
            area(0),
            area(2),
            Needs { tls: true, mounted: true, graph: true, ..area(16) },
            Needs { pages: Some(Bytes(64 << 20)), ..area(2) },
        ] {
            let least = Shares::least(&needs);
            let little = Bytes(least.0 - (1 << 20));
            let refused = Shares::of(little, &needs).unwrap_err();
            assert_eq!(refused, TooLittle { given: little, least });
            for all in [least, Bytes(1 << 30), Bytes(64 << 30)] {
                let shares = Shares::of(all, &needs).unwrap();
                assert!(shares.taken(&needs) + with_map(shares.pages) <= all.0, "{all} {needs:?}");
                assert!(
                    shares.pages >= needs.pages.unwrap_or(Bytes(PAGES_LEAST)),
                    "{all} {needs:?}"
                );
                assert_eq!(shares.stage.0 % PAGE_BYTES, 0);
            }
        }
    }

    /// A map has 11 bytes for a page, and 1.25 entries of 4 bytes: the volume's, and that of the
    /// vanilla system, which has the pages of the write buffer.
    #[test]
    fn the_guard_has_a_map_too() {
        let pages = 200 << 18;
        let area = Sectors(pages * PAGE_SECTORS);
        for percent in [0, 40, 100] {
            let config = Config { area, write_buffer_percent: percent, ..Config::new(area) };
            let needs = Needs { lasting: true, ..Needs::of(&config, area, false) };
            let needs = needs.beside_vanilla(&config);
            let maps = 16 * (pages + pages * u64::from(percent) / 100);
            let none = Needs { lasting: true, ..Needs::default() };
            let shares = Shares::of(Bytes(4 << 30), &needs).unwrap();
            assert!(shares.taken(&needs) - shares.taken(&none) >= maps, "{percent}%");
        }
    }

    #[test]
    fn a_usual_server_takes_a_64th_and_never_too_little() {
        let all = |machine, needs: &Needs| Shares::usual(Bytes(machine), needs).unwrap().all;
        let usual = Needs { area_pages: 2 << 18, clients: true, ..Needs::default() };
        assert_eq!(all(64 << 30, &usual), Some(Bytes(1 << 30)));
        assert_eq!(all(1 << 30, &usual), Some(Bytes(128 << 20)));
        let large = Needs { area_pages: 64 << 18, ..Needs::default() };
        assert!(all(1 << 30, &large) > Some(Bytes(320 << 20)));
    }
}
