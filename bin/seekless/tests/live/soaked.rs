//! A long soak of a server through its socket: clients with several requests in flight read, write,
//! discard and flush in write-back, with the adaptive policy and its trail, while an administrator
//! asks and changes modes. Every byte that is read is compared with a model, and memory stays flat.
//! A million requests, N with SEEKLESS_REQUESTS=N: at most ten million for one server, then the next
//! server attaches the area.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use seekless_nbd::{Command, CommandFlags};
use seekless_serve::client::Client;

use crate::host::{self, Numbers, Server, run, seekless, status};
use crate::hungry::field;
use crate::need;

const SECTOR: usize = 512;
/// Sectors of each client's own range.
const RANGE: u64 = (128 << 20) / SECTOR as u64;
const CLIENTS: u64 = 2;
/// Requests in flight of each client.
const DEPTH: usize = 16;
/// Requests for one server.
const MOST: u64 = 10_000_000;
/// Calls of the administrator to each server.
const CALLS: u64 = 200;
/// The bound on a server's memory, and how much it may grow after the first tenth.
const MEMORY_MIB: u64 = 160;
const GROWTH_KIB: u64 = 8 << 10;

/// A request in flight.
struct Flight {
    cookie: u64,
    command: Command,
    from: u64,
    sectors: u64,
}

/// A client, and the version of each sector of its range. Sectors of version 0 are zeroes.
struct Talker {
    begin: u64,
    versions: Vec<u32>,
    newest: u32,
    numbers: Numbers,
    path: u64,
    flights: Vec<Flight>,
}

fn fill(sector: u64, version: u32, bytes: &mut [u8]) {
    let mut word = (sector << 32 | u64::from(version)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for part in bytes.chunks_exact_mut(8) {
        word = if version == 0 { 0 } else { word.rotate_left(23).wrapping_add(sector | 1) };
        part.copy_from_slice(&word.to_le_bytes());
    }
}

impl Talker {
    fn new(number: u64) -> Self {
        Self {
            begin: number * RANGE,
            versions: vec![0; RANGE as usize],
            newest: 0,
            numbers: Numbers::new(number + 5),
            path: 0,
            flights: Vec::new(),
        }
    }

    /// The next request: half of them follow a path that repeats, the others go anywhere.
    fn choose(&mut self) -> (Command, u64, u64) {
        let any = self.numbers.next();
        let from = if any.is_multiple_of(2) {
            self.path += 1;
            self.path % 20_000 * 40_503 * 8 % (RANGE - 128)
        } else {
            (any >> 20) % (RANGE - 128)
        };
        let (command, sectors) = match any >> 1 & 63 {
            0 => return (Command::Flush, 0, 0),
            1 => (Command::Trim, 128),
            2 => (Command::WriteZeroes, 1 + (any >> 8 & 63)),
            3..16 => (Command::Write, 1 + (any >> 8 & 31)),
            _ => (Command::Read, 1 + (any >> 8 & 63)),
        };
        // Most requests are of whole pages.
        let grid = if any >> 14 & 7 == 0 { 1 } else { 8 };
        (command, from / grid * grid, sectors.next_multiple_of(grid))
    }

    fn bytes(&self, from: u64, sectors: u64) -> Vec<u8> {
        let mut bytes = vec![0; sectors as usize * SECTOR];
        for (sector, part) in (from..).zip(bytes.chunks_exact_mut(SECTOR)) {
            fill(self.begin + sector, self.versions[sector as usize], part);
        }
        bytes
    }

    /// Asks, as soon as no request in flight has one of these sectors.
    fn ask(&mut self, client: &mut Client) {
        let (command, from, sectors) = self.choose();
        let meets = |f: &Flight| from < f.from + f.sectors && f.from < from + sectors;
        while self.flights.len() == DEPTH || self.flights.iter().any(meets) {
            self.end(client);
        }
        let mut payload = Vec::new();
        if matches!(command, Command::Write | Command::WriteZeroes | Command::Trim) {
            self.newest += 1;
            let version = if command == Command::Write { self.newest } else { 0 };
            self.versions[from as usize..(from + sectors) as usize].fill(version);
        }
        if command == Command::Write {
            payload = self.bytes(from, sectors);
        }
        let (at, len) = ((self.begin + from) * SECTOR as u64, sectors as u32 * SECTOR as u32);
        let at = if command == Command::Flush { 0 } else { at };
        let cookie = client.submit(command, CommandFlags::NONE, at, len, &payload).unwrap();
        self.flights.push(Flight { cookie, command, from, sectors });
    }

    fn end(&mut self, client: &mut Client) {
        let ended = client.next_end().unwrap();
        ended.result.unwrap();
        let at = self.flights.iter().position(|f| f.cookie == ended.cookie).unwrap();
        let Flight { command, from, sectors, .. } = self.flights.swap_remove(at);
        if command == Command::Read {
            let right = self.bytes(from, sectors);
            assert!(ended.data == right, "{sectors} sectors at {} of {}", from, self.begin);
        }
    }

    fn soak(&mut self, address: &str, requests: u64, done: &AtomicU64) {
        let mut client = Client::connect(&address.parse().unwrap()).unwrap();
        for _ in 0..requests {
            self.ask(&mut client);
            done.fetch_add(1, Ordering::Relaxed);
        }
        while !self.flights.is_empty() {
            self.end(&mut client);
        }
    }
}

/// The server's memory now and at most, in KiB. Prints its parts, and the largest of them.
fn memory(server: &Server, requests: u64) -> (u64, u64) {
    let kib = |name: &str| field(server, name) >> 10;
    let (now, most) = (kib("VmRSS:"), kib("VmHWM:"));
    let (own, files, shared) = (kib("RssAnon:"), kib("RssFile:"), kib("RssShmem:"));
    let smaps = std::fs::read_to_string(format!("/proc/{}/smaps", server.id())).unwrap();
    let sizes =
        smaps.lines().filter_map(|line| line.strip_prefix("Rss:")?.split_whitespace().next());
    let mut sizes: Vec<u64> = sizes.map(|size| size.parse().unwrap()).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes.truncate(5);
    eprintln!(
        "{requests} requests: {now} KiB ({own} own, {files} of files, {shared} shared; largest {sizes:?}), at most {most}"
    );
    (now, most)
}

/// The administrator's next call, which must succeed.
fn administer(image: &Path, call: u64) {
    let call = match call % 6 {
        0 | 3 => return assert_eq!(status(image, &[])["lasting"], true),
        1 => &["mode", "writethrough"][..],
        4 => &["drain"],
        _ => &["mode", "writeback"],
    };
    let image = [image.to_str().unwrap()];
    run([&[crate::PROGRAM, "volume"], call, &image].concat());
}

/// One server's requests; prints its memory.
fn serve(dir: &Path, talkers: &mut [Talker], requests: u64) {
    let image = dir.join("disk.img");
    let address = format!("unix:{}", dir.join("nbd.sock").display());
    let memory_most = format!("{MEMORY_MIB}MiB");
    let args = ["--area", "disk.area", "--memory", &memory_most, "--nbd", &address];
    let server = Server::start(dir, &image, None, &args);
    run([crate::PROGRAM, "volume", "mode", "writeback", image.to_str().unwrap()]);
    let (done, mut early) = (AtomicU64::new(0), 0);
    std::thread::scope(|scope| {
        let each = requests / CLIENTS;
        for talker in talkers {
            let (address, done) = (&address, &done);
            scope.spawn(move || talker.soak(address, each, done));
        }
        for call in 0..CALLS {
            while done.load(Ordering::Relaxed) < each * CLIENTS * call / CALLS {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            administer(&image, call);
            if call % 20 == 0 {
                let now = memory(&server, done.load(Ordering::Relaxed)).0;
                early = if call == CALLS / 10 { now } else { early };
            }
        }
    });
    let (now, most) = memory(&server, requests);
    let counts = server.stop();
    eprintln!("{} read from copies", counts["copy_reads"]);
    assert!(most <= MEMORY_MIB << 10 && now <= early + GROWTH_KIB, "{early}, {now}, {most} KiB");
}

#[test]
fn a_server_that_is_used_for_long_keeps_every_byte_and_grows_no_more() {
    need!("soak", "long");
    // Memory takes a flush at once.
    let memory = Path::new("/dev/shm").is_dir().then_some("/dev/shm");
    let dir = tempfile::tempdir_in(memory.map_or_else(std::env::temp_dir, Into::into)).unwrap();
    let image = dir.path().join("disk.img");
    File::create(&image).unwrap().set_len(CLIENTS * RANGE * SECTOR as u64).unwrap();
    let format = host::words("volume format disk.img --at disk.area --optimized 64MiB");
    host::succeeds(seekless().args(format).current_dir(dir.path()));
    let mut talkers: Vec<_> = (0..CLIENTS).map(Talker::new).collect();
    let mut left = host::rounds("SEEKLESS_REQUESTS", 0, 1_000_000);
    while left > 0 {
        let requests = left.min(MOST);
        serve(dir.path(), &mut talkers, requests);
        left -= requests;
    }
    let area = dir.path().join("disk.area");
    let (image_name, area) = (image.to_str().unwrap(), area.to_str().unwrap());
    run([crate::PROGRAM, "volume", "drain", image_name, "--area", area]);
    let (file, mut bytes) = (File::open(&image).unwrap(), vec![0; 64 << 10]);
    for talker in talkers {
        for from in (0..RANGE).step_by(128) {
            file.read_exact_at(&mut bytes, (talker.begin + from) * SECTOR as u64).unwrap();
            assert!(bytes == talker.bytes(from, 128), "{from} of {}", talker.begin);
        }
    }
}
