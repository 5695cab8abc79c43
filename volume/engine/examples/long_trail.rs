//! What a long trail costs: memory, time to attach, time of a request. The engine alone, without
//! data; the area's metadata stands in a sparse file.
//!
//!     long_trail fill AREA GIB                 makes an area, fills it, and detaches it in order
//!     long_trail attach AREA REQUESTS [wait]   attaches it, asks, and ends as if killed
//!
//! `fill` reads random pieces of 256 KiB of 20 TB until the trail has gone around. Home takes 20 ms
//! for an access, the area next to nothing: so the ledger allows each append. `attach` prints seconds
//! of the processor and MiB of memory. With `wait`, it waits for a line of input before it asks, so
//! that a counter of instructions can begin there.
#![allow(clippy::print_stdout, reason = "a program")]
#![allow(clippy::disallowed_types, reason = "it measures; the engine is told the time")]
#![allow(clippy::disallowed_methods, reason = "it measures; the engine is told the time")]

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;

use seekless_block::{
    Bytes, Device, DeviceError, Extent, Lba, Op, PAGE_SECTORS, Request, Sectors, SimTime,
};
use seekless_engine::{
    AttachReport, Config, Engine, FormatOptions, Input, Io, Memory, Mode, Output, PageSum, Proof,
    RequestId, Target, attach, format_area,
};

const HOME: Sectors = Sectors(20_000_000_000_000 / 4096 * 8);
/// Pages of a request.
const PIECE: u64 = 64;
const STAMP: [u8; 32] = [7; 32];
static SUMS: [PageSum; 4096] = [0; 4096];

/// The area in a sparse file.
struct Area(File, Sectors);

impl Device for Area {
    fn capacity(&self) -> Sectors {
        self.1
    }
    fn read(&mut self, extent: Extent, buf: &mut [u8]) -> Result<(), DeviceError> {
        let found = self.0.read_exact_at(buf, extent.start.0 * 512);
        found.map_err(|source| DeviceError::Io { op: "read", extent, source })
    }
    fn write(&mut self, extent: Extent, buf: &[u8]) -> Result<(), DeviceError> {
        let written = self.0.write_all_at(buf, extent.start.0 * 512);
        written.map_err(|source| DeviceError::Io { op: "write", extent, source })
    }
    fn flush(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn write_zeroes(&mut self, extent: Extent) -> Result<(), DeviceError> {
        self.write(extent, &vec![0; extent.bytes().0 as usize])
    }
}

struct World {
    engine: Engine,
    area: Area,
    queue: VecDeque<Io>,
    /// Pages of metadata, by buffer and page of it.
    buffers: HashMap<(u32, u64), [u8; 4096]>,
    /// Where the last I/O ended.
    head: (Target, Lba),
    now: SimTime,
    asked: u64,
    dice: u64,
}

impl World {
    fn feed(&mut self, input: Input) -> Result<(), Box<dyn Error>> {
        self.engine.handle(self.now, input);
        while let Some(output) = self.engine.poll() {
            match output {
                Output::Submit(io) => self.queue.push_back(io),
                Output::Put { page, to: Memory::Buffer { index, offset } } => {
                    self.buffers.insert((index, offset.0 / PAGE_SECTORS), *self.engine.page(page));
                }
                Output::Sum(sum) => {
                    self.engine.summed(SUMS.get(..sum.pages as usize).unwrap_or_default());
                }
                Output::Complete { result, .. } => result.map_err(|fault| format!("{fault:?}"))?,
                Output::Put { .. } | Output::Move(_) | Output::Zero { .. } => {}
            }
        }
        Ok(())
    }

    /// Ends an I/O: of writes, only metadata has bytes.
    fn carry_out(&mut self, io: &Io) -> Result<(), Box<dyn Error>> {
        if let (Op::Write, Target::Area, Some(Memory::Buffer { index, offset })) =
            (io.op, io.target, io.memory)
        {
            for i in 0..io.extent.len.0 / PAGE_SECTORS {
                let bytes = self.buffers.remove(&(index, offset.0 / PAGE_SECTORS + i));
                let at = (io.extent.start.0 + i * PAGE_SECTORS) * 512;
                self.area.0.write_all_at(&bytes.unwrap_or([0; 4096]), at)?;
            }
        }
        let pages = io.extent.len.0.div_ceil(PAGE_SECTORS);
        let goes_on = (io.target, io.extent.start) == self.head;
        self.now.0 += match io.target {
            Target::Home if goes_on => pages * 70_000,
            Target::Home => 20_000_000 + pages * 70_000,
            Target::Area => 100_000 + pages * 10_000,
        };
        self.head = (io.target, io.extent.end());
        self.feed(Input::Done { io: io.id, result: Ok(()) })
    }

    fn serve(&mut self, input: Input) -> Result<(), Box<dyn Error>> {
        self.feed(input)?;
        while let Some(io) = self.queue.pop_front() {
            self.carry_out(&io)?;
        }
        Ok(())
    }

    /// Reads the piece of this number: each number names another place.
    fn read(&mut self, number: u64) -> Result<(), Box<dyn Error>> {
        let pieces = HOME.0 / PAGE_SECTORS / PIECE;
        let start = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % pieces * PIECE * PAGE_SECTORS;
        self.asked += 1;
        let request = Request::new(self.now, Op::Read, Extent::new(start, PIECE * PAGE_SECTORS));
        self.serve(Input::Request { id: RequestId(self.asked), request })
    }

    fn attach(mut area: Area, stamp: [u8; 32]) -> Result<(Self, AttachReport), Box<dyn Error>> {
        let config = Config {
            cache_bytes: Bytes(16 << 20),
            read_ahead: Bytes(128 << 10),
            cluster: Bytes(64 << 10),
            adaptive: true,
            ..Config::new(HOME)
        };
        let (engine, report) = attach(&mut area, config, &Proof { stamp, ..Proof::NONE })?;
        let (queue, buffers, now) = (VecDeque::new(), HashMap::new(), SimTime(0));
        let head = (Target::Home, Lba(0));
        Ok((Self { engine, area, queue, buffers, head, now, asked: 0, dice: 1 }, report))
    }
}

fn fill(path: &str, gib: u64) -> Result<(), Box<dyn Error>> {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    file.set_len((gib << 30) + (gib << 24))?;
    let size = Sectors(((gib << 30) + (gib << 24)) / 512);
    let mut area = Area(file, size);
    let options = FormatOptions {
        uuid: [3; 16],
        capacity: HOME,
        inside: None,
        grid: Sectors(0),
        mode: Mode::WriteThrough,
        segment_pages: 256,
        write_buffer_percent: 0,
        replicas: Sectors(0),
        label: "trail".to_owned(),
    };
    format_area(&mut area, &options)?;
    let (mut world, _) = World::attach(area, [0; 32])?;
    let (_, room) = world.engine.trail().ok_or("no trail")?;
    let mut number = 0;
    while world.engine.stats().moved_bytes < room.0 {
        world.read(number)?;
        number += 1;
    }
    println!("{number} requests, {} of {} bytes", world.engine.stats().moved_bytes, room.0);
    world.serve(Input::Detach { stamp: STAMP })?;
    while !world.engine.is_detached() {
        world.now.0 += 1_000_000_000;
        world.serve(Input::Tick)?;
    }
    Ok(())
}

fn status(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    let kib = line.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

/// Seconds of the processor, of this process.
fn spent() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn measure(path: &str, requests: u64, waits: bool) -> Result<(), Box<dyn Error>> {
    let file = File::options().read(true).write(true).open(path)?;
    let size = Sectors(file.metadata()?.len() / 512);
    let (mut world, report) = World::attach(Area(file, size), STAMP)?;
    println!(
        "attach: {:.2} s of the processor, peak {:.0} MiB, anonymous {:.0} MiB; {report:?}",
        spent(),
        status("VmHWM:"),
        status("RssAnon:")
    );
    if waits {
        std::io::stdin().read_line(&mut String::new())?;
    }
    let (_, room) = world.engine.trail().ok_or("no trail")?;
    let half = room.0 / 4096 / PIECE / 2;
    let before = spent();
    for i in 0..requests {
        world.dice = world.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Every other piece was read before, and is not overwritten next.
        let old = half + (world.dice >> 33) % (half / 2);
        world.read(if i % 2 == 0 { (1 << 40) + i } else { old })?;
    }
    let stats = world.engine.stats();
    println!(
        "{requests} requests: {:.1} us of the processor each, peak {:.0} MiB, anonymous {:.0} MiB; {} reads at home, {} of copies, {} MiB appended",
        (spent() - before) * 1e6 / requests.max(1) as f64,
        status("VmHWM:"),
        status("RssAnon:"),
        stats.home_reads,
        stats.copy_reads,
        stats.moved_bytes >> 20
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = args.iter().skip(1).map(String::as_str).collect();
    match words.as_slice() {
        ["fill", path, gib] => fill(path, gib.parse()?),
        ["attach", path, requests] => measure(path, requests.parse()?, false),
        ["attach", path, requests, "wait"] => measure(path, requests.parse()?, true),
        _ => Err("usage: long_trail fill AREA GIB | attach AREA REQUESTS [wait]".into()),
    }
}
