//! The model against the reference simulator and against real drives, if their results are
//! available.

use std::path::Path;
use std::process::Command as Process;

use seekless_block::{Extent, Op, SimTime};
use seekless_disk::validate::{compare_measured, demerit, parse_measured};
use seekless_disk::{Command, Completion, Disk, DiskSpec, Drive, Scheduler, import_disksim};

use crate::beside::shared;

/// A request of a workload.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: SimTime,
    op: Op,
    extent: Extent,
}

/// The arrival of requests at the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loop {
    /// Each request at its own time.
    Open,
    /// This many requests in flight; each completion starts the next.
    Closed(usize),
}

/// The fields of each line.
fn fields(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines().filter(|l| !l.trim().is_empty() && !l.starts_with('#'));
    let is_gap = |c: char| c.is_whitespace() || c == ',';
    lines.map(move |l| l.split(is_gap).filter(|f| !f.is_empty()).collect())
}

/// DiskSim's default trace format: `arrival_ms device sector sectors flags`; bit 0 of the
/// flags means a read.
fn parse_arrivals(text: &str) -> Vec<Arrival> {
    let request = |f: Vec<&str>| Arrival {
        at: SimTime((f[0].parse::<f64>().unwrap() * 1e6).round() as u64),
        op: if u32::from_str_radix(f[4], 16).unwrap() & 1 == 1 { Op::Read } else { Op::Write },
        extent: Extent::new(f[2].parse().unwrap(), f[3].parse().unwrap()),
    };
    fields(text).map(request).collect()
}

/// Completions in the order of their ends.
fn replay(disk: Disk, scheduler: Scheduler, mode: Loop, requests: &[Arrival]) -> Vec<Completion> {
    let mut drive = Drive::new(disk, scheduler);
    let mut out = Vec::with_capacity(requests.len());
    let command = |tag: usize| {
        let Arrival { op, extent, .. } = requests[tag];
        Command::new(tag as u64, op, extent)
    };
    let mut next = match mode {
        Loop::Open => 0,
        Loop::Closed(depth) => depth.min(requests.len()),
    };
    for tag in 0..next {
        drive.submit(SimTime(0), command(tag)).unwrap();
    }
    loop {
        let event = drive.next_event();
        match (mode, requests.get(next)) {
            (Loop::Open, Some(r)) if event.is_none_or(|at| r.at < at) => {
                drive.submit(r.at, command(next)).unwrap();
                next += 1;
                continue;
            }
            _ => {}
        }
        let Some(at) = event else { return out };
        while let Some(c) = drive.poll(at) {
            out.push(c);
            if mode != Loop::Open && next < requests.len() {
                drive.submit(at, command(next)).unwrap();
                next += 1;
            }
        }
    }
}

/// The times of one request, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    seek: f64,
    rotation: f64,
    transfer: f64,
    /// From arrival to completion.
    response: f64,
}

/// A name, and the value of a recorded request.
type Part = (&'static str, fn(&Recorded) -> f64);

/// The times by name.
const PARTS: [Part; 4] = [
    ("seek", |r| r.seek),
    ("rotation", |r| r.rotation),
    ("transfer", |r| r.transfer),
    ("response", |r| r.response),
];

impl Recorded {
    fn service(&self) -> f64 {
        self.seek + self.rotation + self.transfer
    }

    fn of(c: &Completion) -> Self {
        Self {
            seek: c.access.seek.as_millis_f64(),
            rotation: c.access.rotation.as_millis_f64(),
            transfer: c.access.transfer.as_millis_f64(),
            response: c.finished.since(c.submitted).as_millis_f64(),
        }
    }
}

/// A reference run: comma-separated, with a header. Requests that never completed (-1) are left
/// out.
fn parse_recorded(text: &str) -> Vec<Recorded> {
    let mut all = fields(text);
    let names = all.next().unwrap();
    let column = |name: &str| names.iter().position(|n| *n == name).unwrap();
    let (s, r, x) = (column("seek_ms"), column("rotlat_ms"), column("xfer_ms"));
    let (done, response) = (column("complete_ms"), column("response_ms"));
    let request = |f: Vec<&str>| {
        let ms = |at: usize| f[at].parse::<f64>().unwrap();
        let whole =
            || Recorded { seek: ms(s), rotation: ms(r), transfer: ms(x), response: ms(response) };
        (ms(done) >= 0.0).then(whole)
    };
    all.filter_map(request).collect()
}

/// The model and its reference: means, and demerits as fractions of the reference's mean.
struct Comparison {
    requests: usize,
    reference: Recorded,
    model: Recorded,
    response_demerit: f64,
    service_demerit: f64,
}

/// The reference ends before its last requests in flight complete; as many of the model's last
/// requests are left out.
fn compare(ours: &[Completion], reference: &[Recorded]) -> Comparison {
    let ours: Vec<Recorded> = ours.iter().take(reference.len()).map(Recorded::of).collect();
    let column = |x: &[Recorded], f: fn(&Recorded) -> f64| x.iter().map(f).collect::<Vec<f64>>();
    let mean =
        |x: &[Recorded], f: fn(&Recorded) -> f64| x.iter().map(f).sum::<f64>() / x.len() as f64;
    let means = |x: &[Recorded]| Recorded {
        seek: mean(x, |r| r.seek),
        rotation: mean(x, |r| r.rotation),
        transfer: mean(x, |r| r.transfer),
        response: mean(x, |r| r.response),
    };
    let share = |f: fn(&Recorded) -> f64| {
        demerit(&column(&ours, f), &column(reference, f)) / mean(reference, f)
    };
    Comparison {
        requests: ours.len(),
        reference: means(reference),
        model: means(&ours),
        response_demerit: share(|r| r.response),
        service_demerit: share(Recorded::service),
    }
}

/// Disks of the reference simulator, with their models.
const DISKS: &[(&str, &str)] =
    &[("cheetah9lp", "cheetah9LP.model"), ("atlas10k", "atlas10k.model")];

/// Runs of the reference simulator on each disk: mechanics without a buffer, one request at a time.
/// The trace, the name of the run, the scheduler, the arrivals.
const RUNS: &[(&str, &str, Scheduler, Loop)] = &[
    ("rand4k", "rand4k", Scheduler::Fcfs, Loop::Open),
    ("seq64k", "seq64k", Scheduler::Fcfs, Loop::Closed(1)),
    ("mixopen8k", "mixopen8k_fcfs", Scheduler::Fcfs, Loop::Open),
    ("mix8k", "mix8k_drv_fcfs", Scheduler::Fcfs, Loop::Closed(16)),
    ("mix8k", "mix8k_drv_sstf", Scheduler::Sstf, Loop::Closed(16)),
    ("mix8k", "mix8k_drv_look", Scheduler::Look, Loop::Closed(16)),
    ("mix8k", "mix8k_drv_clook", Scheduler::CLook, Loop::Closed(16)),
    ("mix8k", "mix8k_drv_sptf", Scheduler::Sptf, Loop::Closed(16)),
];

/// A drive measured by the reference's authors.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RealDrive {
    specs: &'static str,
    trace: &'static str,
    reference_ms: f64,
}

/// The drives with measured requests in the reference.
const REAL_DRIVES: [RealDrive; 5] = [
    RealDrive { specs: "atlas10k.diskspecs", trace: "atlas10k.trace.zst", reference_ms: 0.268 },
    RealDrive { specs: "cheetah9LP.diskspecs", trace: "cheetah9LP.trace.zst", reference_ms: 0.107 },
    RealDrive { specs: "barracuda.diskspecs", trace: "barracuda.trace.zst", reference_ms: 0.349 },
    RealDrive { specs: "ibm18es.diskspecs", trace: "ibm18es.trace.zst", reference_ms: 0.135 },
    RealDrive {
        specs: "hp_c3323a_validate.diskspecs",
        trace: "hp_c3323a.trace.zst",
        reference_ms: 0.306,
    },
];

/// The text of a file compressed with zstd.
fn zstd(path: &Path) -> String {
    let out = Process::new("zstdcat").arg(path).output().unwrap();
    assert!(out.status.success(), "zstdcat {}", path.display());
    String::from_utf8(out.stdout).unwrap()
}

#[allow(clippy::disallowed_methods)] // a test reads files; the crate does not
fn import(folder: &Path, file: &str) -> DiskSpec {
    let mut open =
        |name: &str| std::fs::read_to_string(folder.join(name)).map_err(|e| e.to_string());
    let text = open(file).unwrap();
    import_disksim(file, &text, &mut open).unwrap()
}

#[test]
fn mechanical_runs_agree_with_the_reference_simulator() {
    let Some(reference) = shared("mechanical_runs_agree_with_the_reference_simulator", "reference")
    else {
        return;
    };
    let runs = DISKS.iter().flat_map(|disk| RUNS.iter().map(move |run| (disk, run)));
    for ((disk, model), (trace, run, scheduler, mode)) in runs {
        let name = format!("{disk}_mech_{run}");
        let text = |file: String| zstd(&reference.join("mech").join(file));
        let spec = import(&reference.with_file_name("traces").join("disks"), model);
        let requests = parse_arrivals(&text(format!("{disk}_{trace}.trace.zst")));
        let recorded = parse_recorded(&text(format!("{name}.req.csv.zst")));
        let disk = Disk::new(&spec).unwrap();
        let c = compare(&replay(disk, *scheduler, *mode, &requests), &recorded);
        assert!(c.requests > 19_900, "{name}");
        // One microsecond is allowed for the reference's drifting phase: its sequential reads wait
        // 6 to 17 us on average.
        for (part, of) in PARTS {
            let (ours, theirs) = (of(&c.model), of(&c.reference));
            println!("{name}: {part} {ours:.4}/{theirs:.4} ms");
            assert!((ours - theirs).abs() <= 0.005 * theirs + 0.001, "{name}: {part}");
        }
        let sptf = *scheduler == Scheduler::Sptf;
        let demerit = if sptf { c.service_demerit } else { c.response_demerit };
        let (response, service) = (c.response_demerit * 100.0, c.service_demerit * 100.0);
        println!("{name}: demerit response {response:.3}% service {service:.3}%");
        assert!(demerit < 0.005, "{name}: {demerit}");
    }
}

#[test]
fn measured_drives_agree_as_well_as_with_the_reference_simulator() {
    let Some(reference) =
        shared("measured_drives_agree_as_well_as_with_the_reference_simulator", "reference")
    else {
        return;
    };
    let folder = reference.with_file_name("traces").join("disks");
    for drive in REAL_DRIVES {
        let spec = import(&folder, drive.specs);
        let requests = parse_measured(drive.trace, &zstd(&folder.join(drive.trace))).unwrap();
        let m = compare_measured(Disk::new(&spec).unwrap(), &requests).unwrap();
        println!(
            "{}: measured {:.4} model {:.4} ms, demerit {:.4} ms ({:.2}%); the reference simulator's {:.3}",
            drive.trace,
            m.measured_ms_mean,
            m.model_ms_mean,
            m.demerit_ms,
            m.demerit_share * 100.0,
            drive.reference_ms
        );
        assert!(m.requests > 9_000);
        assert!(m.demerit_ms <= drive.reference_ms, "{}: {}", drive.trace, m.demerit_ms);
        // A round trip through TOML loses nothing.
        let again = DiskSpec::parse("again", &spec.to_toml().unwrap()).unwrap();
        assert_eq!(again, spec);
    }
}

#[test]
fn errors_in_measured_texts_name_file_line_and_column() {
    let e = parse_measured("m", "\nX Hit 1 2 3 4").unwrap_err().to_string();
    assert_eq!(e, "m:2: column 1 should be R or W, found 'X'");
    for text in ["R", "R Hit", "R Hit 1 2 3", "W Hit 18446744073709551615 9 nan inf"] {
        let _ = parse_measured("m", text);
    }
}

#[test]
fn measured_requests_with_and_without_the_buffer_column() {
    let with = "# a comment\n\nR Hit 16 8 1500.5 20\n  # another\n\tW   Trip  7\t1  250 0.25  \r\n";
    let without = "R 16 8 1500.5 20\nW,7,1,250,0.25\n";
    let requests = parse_measured("m", with).unwrap();
    assert_eq!(requests, parse_measured("m", without).unwrap());
    let [r, w] = requests[..] else { panic!("{requests:?}") };
    assert_eq!(
        (r.op, r.extent, r.service_ns, r.think_ns),
        (Op::Read, Extent::new(16, 8), 1_500_500, 20_000)
    );
    assert_eq!(
        (w.op, w.extent, w.service_ns, w.think_ns),
        (Op::Write, Extent::new(7, 1), 250_000, 250)
    );
    // Times that no clock can measure are refused.
    let told = |text: &str| parse_measured("m", text).unwrap_err().to_string();
    assert_eq!(
        told("R Hit 1 2 -3 4"),
        "m:1: column 5 should be the service time in microseconds, found -3"
    );
    assert!(told("R 1 2 3 inf").starts_with("m:1: column 5 should be the think time"));
    assert!(told("R 1 2 NaN 4").contains("column 4"));
    assert!(told("R Hit 1 0 3 4").contains("column 4 should be a number of sectors"));
    assert!(told("R Hit 1 2 3 2e15").contains("column 6"));
}
