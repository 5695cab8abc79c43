//! Computes every statistic again, slowly: with plain lists, sets and sorts over all records. It
//! shares only types with the crate.

use std::collections::{BTreeMap, BTreeSet};

use seekless_block::Op;
use seekless_trace::Record;
use seekless_trace::stats::{Distribution, Estimate, Summary};

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

fn exactly(e: Estimate, want: f64, what: &str) {
    assert!(e.is_exact() && near(e.value, want), "{what}: {e:?}, slowly {want}");
}

fn same(fast: f64, slow: f64, what: &str) {
    assert!(near(fast, slow), "{what}: {fast}, slowly {slow}");
}

fn part(n: usize, of: usize) -> f64 {
    if of == 0 { 0.0 } else { n as f64 / of as f64 }
}

fn reads(r: &Record) -> bool {
    r.request.op == Op::Read
}

fn sectors(records: &[&Record]) -> BTreeSet<(u32, u64)> {
    let each = |r: &&Record| {
        let (e, device) = (r.request.extent, r.device);
        (e.start.0..e.end().0).map(move |s| (device, s))
    };
    records.iter().flat_map(each).collect()
}

/// Pages in order of access.
fn pages(records: &[&Record]) -> Vec<(u32, u64)> {
    let mut out = Vec::new();
    for r in records {
        let e = r.request.extent;
        let set: BTreeSet<u64> = (e.start.0..e.end().0).map(|s| s / 8).collect();
        out.extend(set.into_iter().map(|p| (r.device, p)));
    }
    out
}

fn counts(accesses: &[(u32, u64)]) -> Vec<u64> {
    let mut of: BTreeMap<_, u64> = BTreeMap::new();
    for a in accesses {
        *of.entry(a).or_insert(0) += 1;
    }
    let mut counts: Vec<u64> = of.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts
}

/// Accesses of the hottest share; the page at the border counts in part.
fn hottest(counts: &[u64], share: f64) -> f64 {
    let want = share * counts.len() as f64;
    let sum: f64 =
        counts.iter().enumerate().map(|(i, n)| (want - i as f64).clamp(0.0, 1.0) * *n as f64).sum();
    sum / counts.iter().sum::<u64>().max(1) as f64
}

fn distribution(d: &Distribution, mut values: Vec<u64>, unit: f64, what: &str) {
    values.sort_unstable();
    assert_eq!(d.count as usize, values.len(), "{what}");
    let (Some(first), Some(last)) = (values.first(), values.last()) else { return };
    same(d.mean, values.iter().sum::<u64>() as f64 / values.len() as f64 * unit, what);
    same(d.min, *first as f64 * unit, what);
    same(d.max, *last as f64 * unit, what);
    for (p, fast) in [(0.5, d.p50), (0.9, d.p90), (0.99, d.p99)] {
        let rank = ((p * values.len() as f64).ceil() as usize).clamp(1, values.len());
        let slow = values[rank - 1] as f64 * unit;
        assert!(
            (fast - slow).abs() <= d.plus_minus_share * slow + 1e-12,
            "{what} p{p}: {fast} {slow}"
        );
    }
    for (value, share) in &d.curve {
        let upto = values
            .iter()
            .filter(|v| **v as f64 * unit <= value * (1.0 + d.plus_minus_share) + 1e-12);
        let below = values
            .iter()
            .filter(|v| **v as f64 * unit <= value * (1.0 - d.plus_minus_share) + 1e-12);
        let (upto, below) = (part(upto.count(), values.len()), part(below.count(), values.len()));
        assert!(below <= share + 1e-9 && *share <= upto + 1e-9, "{what}: {share} at {value}");
    }
}

/// Compares everything.
pub(crate) fn check(all: &[Record], s: &Summary, names: &[&str], day_ns: u64) {
    let moving: Vec<&Record> = all
        .iter()
        .filter(|r| matches!(r.request.op, Op::Read | Op::Write | Op::WriteZeroes))
        .collect();
    assert_eq!(s.trace.requests as usize, all.len());
    table1(s, &moving);
    mix(s, all);
    shape(s, &moving);
    ranking(s, &moving);
    rows(s, all, &moving, names);
    if s.trace.has_times {
        times(s, all);
    }
    days(s, all, day_ns);
    heat(s, all);
}

fn table1(s: &Summary, moving: &[&Record]) {
    let t = &s.table1;
    let (r, w): (Vec<&Record>, Vec<&Record>) = moving.iter().copied().partition(|r| reads(r));
    let bytes = |l: &[&Record]| l.iter().map(|r| r.request.extent.len.0 * 512).sum::<u64>();
    assert_eq!((t.reads as usize, t.writes as usize), (r.len(), w.len()));
    assert_eq!((t.read_bytes, t.written_bytes), (bytes(&r), bytes(&w)));
    let (ru, wu) = (sectors(&r), sectors(&w));
    exactly(t.unique_read_bytes, ru.len() as f64 * 512.0, "unique read");
    exactly(t.unique_written_bytes, wu.len() as f64 * 512.0, "unique written");
    exactly(t.unique_bytes, ru.union(&wu).count() as f64 * 512.0, "unique");
    exactly(t.unique_both_bytes, ru.intersection(&wu).count() as f64 * 512.0, "both");
    let accesses = pages(moving);
    assert_eq!(t.page_accesses as usize, accesses.len());
    let counts = counts(&accesses);
    exactly(t.pages, counts.len() as f64, "pages");
    if !counts.is_empty() {
        exactly(t.top20_share, hottest(&counts, 0.2), "top 20%");
    }
    if let Some(size) = t.size_bytes {
        let share = (counts.len() as f64 * 4096.0 / size as f64).min(1.0);
        exactly(t.accessed_share.unwrap(), share, "accessed");
    }
    // Pairs of consecutive requests of each device.
    let mut pairs: BTreeMap<(u32, u64, u64), usize> = BTreeMap::new();
    for (a, b) in successive(moving, |r| r.device) {
        if a.request.extent.end() != b.request.extent.start {
            let pair = (a.device, a.request.extent.start.0, b.request.extent.start.0);
            *pairs.entry(pair).or_insert(0) += 1;
        }
    }
    let all: usize = pairs.values().sum();
    let often = |n: usize| pairs.values().filter(|c| **c >= n).sum::<usize>();
    assert_eq!(t.determinism.non_sequential as usize, all);
    exactly(t.determinism.share, part(often(2), all), "determinism");
    exactly(t.determinism.share_100, part(often(100), all), "determinism, a hundred times");
    exactly(t.determinism.pairs, pairs.len() as f64, "pairs");
}

/// Each request with the request before it that has the same key.
fn successive<'a, K: Ord>(
    list: &[&'a Record],
    key: impl Fn(&Record) -> K,
) -> Vec<(&'a Record, &'a Record)> {
    let mut out = Vec::new();
    for (i, b) in list.iter().enumerate() {
        if let Some(a) = list[..i].iter().rev().find(|a| key(a) == key(b)) {
            out.push((*a, *b));
        }
    }
    out
}

fn follows(a: &Record, b: &Record) -> bool {
    a.device == b.device && a.request.extent.end() == b.request.extent.start
}

fn mix(s: &Summary, all: &[Record]) {
    let names = [
        ("read", Op::Read),
        ("write", Op::Write),
        ("discard", Op::Discard),
        ("write_zeroes", Op::WriteZeroes),
        ("flush", Op::Flush),
    ];
    assert_eq!(s.mix.len(), names.len());
    for (row, (name, op)) in s.mix.iter().zip(names) {
        let of: Vec<_> = all.iter().filter(|r| r.request.op == op).collect();
        let bytes: u64 = of.iter().map(|r| r.request.extent.len.0 * 512).sum();
        assert_eq!((row.op, row.requests as usize, row.bytes), (name, of.len(), bytes));
    }
}

fn shape(s: &Summary, moving: &[&Record]) {
    let sizes =
        |read| moving.iter().filter(|r| reads(r) == read).map(|r| r.request.extent.len.0).collect();
    distribution(&s.shape.read_size_bytes, sizes(true), 512.0, "read sizes");
    distribution(&s.shape.write_size_bytes, sizes(false), 512.0, "write sizes");
    let pairs = successive(moving, |r| r.device);
    let seek = |(a, b): &(&Record, &Record)| {
        b.request.extent.start.0 as i64 - a.request.extent.end().0 as i64
    };
    let seeks: Vec<i64> = pairs.iter().map(seek).filter(|d| *d != 0).collect();
    distribution(
        &s.shape.seek_bytes,
        seeks.iter().map(|d| d.unsigned_abs()).collect(),
        512.0,
        "seeks",
    );
    same(
        s.shape.backward_share,
        part(seeks.iter().filter(|d| **d < 0).count(), seeks.len()),
        "backward",
    );
    let n = moving.len();
    let sequential = pairs.iter().filter(|(a, b)| follows(a, b)).count();
    same(s.shape.sequential_share, part(sequential, n), "sequential");
    if let Some(share) = s.shape.sequential_in_process_share {
        let by = successive(moving, |r| r.request.stream);
        same(share, part(by.iter().filter(|(a, b)| follows(a, b)).count(), n), "by process");
    }
    let share = |f: &dyn Fn(&Record) -> bool| part(moving.iter().filter(|r| f(r)).count(), n);
    same(s.shape.aligned_start_share, share(&|r| r.request.extent.start.0 % 8 == 0), "starts");
    same(s.shape.aligned_length_share, share(&|r| r.request.extent.len.0 % 8 == 0), "lengths");
    for (i, n) in s.shape.start_sector_in_page.iter().enumerate() {
        let slow = moving.iter().filter(|r| r.request.extent.start.0 % 8 == i as u64).count();
        assert_eq!(*n as usize, slow);
    }
    if let Some(service) = &s.service {
        let of = |read| {
            moving
                .iter()
                .filter(|r| reads(r) == read)
                .filter_map(|r| r.service)
                .map(|d| d.0)
                .collect()
        };
        distribution(&service.read_s, of(true), 1e-9, "service of reads");
        distribution(&service.write_s, of(false), 1e-9, "service of writes");
    }
}

fn ranking(s: &Summary, moving: &[&Record]) {
    let (r, w): (Vec<&Record>, Vec<&Record>) = moving.iter().copied().partition(|r| reads(r));
    let f = &s.rank_frequency;
    for (points, list) in [(&f.all, &moving.to_vec()), (&f.reads, &r), (&f.writes, &w)] {
        let counts = counts(&pages(list));
        assert_eq!(points.is_empty(), counts.is_empty());
        for p in points {
            assert_eq!(counts[p.rank.value as usize - 1], p.accesses, "{p:?}");
        }
        if let Some(last) = points.last() {
            assert_eq!(last.rank.value as usize, counts.len());
        }
    }
    let counts = counts(&pages(moving));
    for p in &s.temperature {
        exactly(p.accesses, hottest(&counts, p.space), "temperature");
    }
    // An LRU list, searched from its front.
    let accesses = pages(moving);
    let mut list: Vec<(u32, u64)> = Vec::new();
    let mut distances: Vec<Option<usize>> = Vec::new();
    for a in &accesses {
        let at = list.iter().position(|p| p == a);
        distances.push(at);
        at.map(|i| list.remove(i));
        list.insert(0, *a);
    }
    for p in &s.reuse.curve {
        let misses = distances.iter().filter(|d| d.is_none_or(|d| d as u64 >= p.pages)).count();
        exactly(p.miss_ratio, part(misses, accesses.len()), "miss ratio");
        assert_eq!(p.bytes, p.pages * 4096);
    }
    let firsts = distances.iter().filter(|d| d.is_none()).count();
    exactly(s.reuse.first_share, part(firsts, accesses.len()), "first accesses");
}

fn rows(s: &Summary, all: &[Record], moving: &[&Record], names: &[&str]) {
    let devices: BTreeSet<u32> = all.iter().map(|r| r.device).collect();
    assert_eq!(s.devices.len(), devices.len());
    assert!(s.devices.is_sorted_by(|a, b| a.requests >= b.requests));
    for device in devices {
        let row = s.devices.iter().find(|d| d.name == format!("dev{device}")).unwrap();
        let of: Vec<&Record> = moving.iter().copied().filter(|r| r.device == device).collect();
        let requests = all.iter().filter(|r| r.device == device).count();
        assert_eq!(row.requests as usize, requests);
        exactly(row.unique_bytes, sectors(&of).len() as f64 * 512.0, "unique of a device");
        let end = of.iter().map(|r| r.request.extent.end().0 * 512).max().unwrap_or(0);
        assert_eq!(row.end_bytes, end);
        let sequential = of.windows(2).filter(|p| follows(p[0], p[1])).count();
        same(row.sequential_share, part(sequential, of.len()), "sequential on a device");
        let whole: Vec<u64> = of
            .iter()
            .filter(|r| r.request.extent.len.0 % 8 == 0)
            .map(|r| r.request.extent.start.0 % 8)
            .collect();
        let most = (0..8).find(|i| {
            let n = whole.iter().filter(|p| *p == i).count();
            !whole.is_empty() && n as f64 >= 0.8 * whole.len() as f64
        });
        assert_eq!(row.offset_sectors, most, "offset of {device}");
    }
    if !s.trace.has_processes {
        assert!(s.processes.is_empty());
        return;
    }
    let name = |r: &Record| names[r.request.stream.0 as usize];
    let all_names: BTreeSet<&str> = all.iter().map(name).collect();
    assert_eq!(s.processes.len(), all_names.len());
    for wanted in all_names {
        let row = s.processes.iter().find(|p| p.name == wanted).unwrap();
        let of: Vec<&Record> = moving.iter().copied().filter(|r| name(r) == wanted).collect();
        let (r, w): (Vec<&Record>, Vec<&Record>) = of.iter().copied().partition(|r| reads(r));
        let bytes = |l: &[&Record]| l.iter().map(|r| r.request.extent.len.0 * 512).sum::<u64>();
        assert_eq!((row.reads as usize, row.writes as usize), (r.len(), w.len()));
        assert_eq!((row.read_bytes, row.written_bytes), (bytes(&r), bytes(&w)));
        let streams: BTreeSet<_> =
            all.iter().filter(|r| name(r) == wanted).map(|r| r.request.stream).collect();
        assert_eq!(row.processes as usize, streams.len());
        let touched: BTreeSet<_> = pages(&of).into_iter().collect();
        exactly(row.pages, touched.len() as f64, "pages of a process");
        let by = successive(&of, |r| r.request.stream);
        let sequential = by.iter().filter(|(a, b)| follows(a, b)).count();
        same(row.sequential_share, part(sequential, of.len()), "sequential in a process");
    }
}

/// Times that never decrease, from the first request.
fn clock(all: &[Record]) -> Vec<u64> {
    let first = all.first().map_or(0, |r| r.request.arrival.0);
    let mut latest = 0;
    let at = |r: &Record| {
        latest = latest.max(r.request.arrival.0.saturating_sub(first));
        latest
    };
    all.iter().map(at).collect()
}

fn times(s: &Summary, all: &[Record]) {
    let clock = clock(all);
    let t = s.time.as_ref().unwrap();
    distribution(
        &t.interarrival_s,
        clock.windows(2).map(|p| p[1] - p[0]).collect(),
        1e-9,
        "between",
    );
    let span = clock.last().copied().unwrap_or(0);
    same(s.trace.span_s.unwrap(), span as f64 / 1e9, "span");
    let lengths: Vec<u64> = (7..=12).map(|e| 10u64.pow(e)).filter(|l| span / l >= 2).collect();
    assert_eq!(t.bursts.len(), lengths.len());
    for (burst, length) in t.bursts.iter().zip(lengths) {
        // The window in which the trace ends is not a whole one.
        let mut counts = vec![0.0f64; (span / length) as usize];
        let whole = clock.iter().filter(|c| *c / length < span / length);
        whole.for_each(|c| counts[(c / length) as usize] += 1.0);
        let n = counts.len() as f64;
        let mean = counts.iter().sum::<f64>() / n;
        let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / n;
        let peak = counts.iter().copied().fold(0.0, f64::max);
        assert_eq!((burst.windows, burst.peak), (counts.len() as u64, peak as u64));
        same(burst.window_s, length as f64 / 1e9, "window");
        assert!((burst.dispersion - variance / mean).abs() < 1e-6, "{burst:?} {}", variance / mean);
        same(burst.peak_to_mean, peak / mean, "peak to mean");
    }
}

fn days(s: &Summary, all: &[Record], day_ns: u64) {
    let clock = clock(all);
    let (mut latest, mut of) = (0, BTreeMap::new());
    for (r, at) in all.iter().zip(clock) {
        if matches!(r.request.op, Op::Discard | Op::Flush) {
            continue;
        }
        let day = r.day.map(u64::from).or_else(|| s.trace.has_times.then(|| at / day_ns));
        let Some(day) = day else { continue };
        latest = latest.max(day);
        of.entry(latest).or_insert_with(Vec::new).push(r);
    }
    let Some(days) = &s.days else {
        assert!(of.is_empty());
        return;
    };
    assert_eq!(days.active as usize, of.len());
    for (row, (day, list)) in days.rows.iter().zip(&of) {
        let list: Vec<&Record> = list.clone();
        let touched = pages(&list);
        assert_eq!((row.day, row.requests as usize), (*day, list.len()));
        assert_eq!(row.page_accesses as usize, touched.len());
        exactly(row.pages, touched.iter().collect::<BTreeSet<_>>().len() as f64, "pages of a day");
    }
}

fn heat(s: &Summary, all: &[Record]) {
    let clock = clock(all);
    for heat in &s.heat {
        let mut cells = vec![0; heat.cells.len()];
        for (i, r) in all.iter().enumerate() {
            if matches!(r.request.op, Op::Discard | Op::Flush)
                || format!("dev{}", r.device) != heat.device
            {
                continue;
            }
            let x = if s.trace.has_times { clock[i] as f64 / 1e9 } else { i as f64 };
            let row = r.request.extent.start.0 * 512 / heat.row_bytes;
            cells[row as usize * heat.columns + (x / heat.column) as usize] += 1;
        }
        assert_eq!(heat.cells, cells);
        assert!(heat.columns <= 128 && heat.cells.len() <= heat.columns * 128);
    }
}
