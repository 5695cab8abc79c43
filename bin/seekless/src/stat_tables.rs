//! A trace's statistics as tables and a sentence.

use seekless_report::{Cell, Column, Table, Unit};
use seekless_trace::stats::{Distribution, Estimate, ProcessRow, Summary};

use crate::stat::By;

/// The number with its unit, and its error if it is an estimate.
pub(crate) fn told(e: Estimate, unit: &Unit) -> String {
    let value = unit.format(e.value, 3);
    if e.is_exact() { value } else { format!("{value} {}", trust(e, unit)) }
}

/// `exact`, or `± 1.2 %` of the number; for a share, percentage points.
pub(crate) fn trust(e: Estimate, unit: &Unit) -> String {
    if e.is_exact() {
        return "exact".to_owned();
    }
    let off = if *unit == Unit::Share { e.error } else { e.error / e.value.abs() };
    format!("± {}", Unit::Share.format(off, 2))
}

/// Every table, in the order of reading.
pub(crate) fn all(s: &Summary, top: usize, by: By) -> Vec<Table> {
    let mut tables = vec![table1(s), mix(s), distributions(s), order(s)];
    tables.extend(bursts(s));
    tables.push(reuse(s));
    tables.extend(days(s, top));
    tables.extend(persistence(s));
    if s.devices.len() > 1 {
        tables.push(devices(s, top));
    }
    tables.extend(processes(s, top, by));
    tables
}

/// A line of a table: what it is, its value, and how well it is known.
type Line = (String, String, String);

fn estimated(name: impl Into<String>, e: Estimate, unit: &Unit) -> Line {
    (name.into(), unit.format(e.value, 3), trust(e, unit))
}

fn lines(title: &str, all: &[Line]) -> Table {
    Table::of(title, all)
        .text("", |l| l.0.as_str())
        .right("value", |l| l.1.as_str())
        .right("known", |l| l.2.as_str())
        .done()
}

/// BORG's Table 1.
pub(crate) fn table1(s: &Summary) -> Table {
    let t = &s.table1;
    let exact = |name: &str, value: String| (name.to_owned(), value, "exact".to_owned());
    let moved = |requests, bytes| format!("{}, {}", Unit::count(requests), Unit::bytes(bytes));
    let whole = Estimate { value: t.pages.value.round(), ..t.pages };
    let size =
        t.size_bytes.map(|b| ("size, from --size".to_owned(), Unit::bytes(b), String::new()));
    let accessed = t.accessed_share.map(|e| estimated("of the size accessed", e, &Unit::Share));
    let mut all = Vec::from_iter(size);
    all.extend([
        exact("reads", moved(t.reads, t.read_bytes)),
        exact("writes", moved(t.writes, t.written_bytes)),
        estimated("unique bytes read", t.unique_read_bytes, &Unit::Bytes),
        estimated("unique bytes written", t.unique_written_bytes, &Unit::Bytes),
        estimated("footprint: read or written", t.unique_bytes, &Unit::Bytes),
        estimated("both read and written", t.unique_both_bytes, &Unit::Bytes),
        estimated("pages of 4 KiB", whole, &Unit::Count),
    ]);
    all.extend(accessed);
    all.extend([
        estimated("accesses to the hottest 20% of pages", t.top20_share, &Unit::Share),
        estimated("partial determinism", t.determinism.share, &Unit::Share),
        estimated("  repeated 100 times or more", t.determinism.share_100, &Unit::Share),
    ]);
    lines("BORG's Table 1", &all)
}

fn mix(s: &Summary) -> Table {
    let all = s.trace.requests.max(1) as f64;
    Table::of("Operations", s.mix.iter().filter(|r| r.requests > 0))
        .text("operation", |r| r.op)
        .number("requests", Unit::Count, |r| r.requests)
        .number("of all", Unit::Share, |r| r.requests as f64 / all)
        .number("bytes named", Unit::Bytes, |r| r.bytes)
        .done()
        .note("Exact.")
}

fn distributions(s: &Summary) -> Table {
    let columns = ["", "mean", "smallest", "median", "90%", "99%", "largest", "known"];
    let columns = columns.map(Column::text).into_iter().enumerate();
    let columns = columns.map(|(i, c)| if i == 0 { c } else { c.right() }).collect();
    let mut table = Table::new("Sizes, distances, times", columns);
    let mut add = |name: &str, d: &Distribution, unit: Unit| {
        if d.count > 0 {
            let n = |v: f64| Cell::from(unit.format(v, 3));
            let known = if d.plus_minus_share == 0.0 {
                "exact".to_owned()
            } else {
                format!("± {}", Unit::Share.format(d.plus_minus_share, 1))
            };
            let cells = [n(d.mean), n(d.min), n(d.p50), n(d.p90), n(d.p99), n(d.max)];
            let cells = [name.into()].into_iter().chain(cells).chain([known.into()]);
            table = std::mem::take(&mut table).row(cells);
        }
    };
    add("size of reads", &s.shape.read_size_bytes, Unit::Bytes);
    add("size of writes", &s.shape.write_size_bytes, Unit::Bytes);
    add("seek distance, where not sequential", &s.shape.seek_bytes, Unit::Bytes);
    if let Some(t) = &s.time {
        add("from one request to the next", &t.interarrival_s, Unit::Seconds);
    }
    if let Some(t) = &s.service {
        add("service time of reads", &t.read_s, Unit::Seconds);
        add("service time of writes", &t.write_s, Unit::Seconds);
    }
    table.note("Mean, smallest and largest are exact in any case.")
}

fn order(s: &Summary) -> Table {
    let shape = &s.shape;
    let all = [
        ("start where the one before ended", Some(shape.sequential_share)),
        ("  within one process", shape.sequential_in_process_share),
        ("of seeks, towards lower addresses", Some(shape.backward_share)),
        ("start at a multiple of 4 KiB", Some(shape.aligned_start_share)),
        ("length is a multiple of 4 KiB", Some(shape.aligned_length_share)),
    ];
    Table::of("Order and alignment", all.into_iter().filter(|line| line.1.is_some()))
        .text("", |line| line.0)
        .number("of reads and writes", Unit::Share, |line| line.1)
        .done()
        .note("Exact.")
}

fn bursts(s: &Summary) -> Option<Table> {
    let t = s.time.as_ref().filter(|t| !t.bursts.is_empty())?;
    let table = Table::of("Bursts", &t.bursts)
        .text("window", |b| Unit::Seconds.format(b.window_s, 3))
        .number("windows", Unit::Count, |b| b.windows)
        .number("index of dispersion", Unit::Number, |b| b.dispersion)
        .number("most requests", Unit::Count, |b| b.peak)
        .number("peak to mean", Unit::Number, |b| b.peak_to_mean)
        .done();
    let rate = t.requests_per_s.map_or(String::new(), |r| {
        format!("{} on average. ", Unit::Other("requests/s".into()).format(r, 3))
    });
    Some(table.note(format!("{rate}Dispersion is 1 where requests come independently. Exact.")))
}

fn reuse(s: &Summary) -> Table {
    let doubling = |p: &&seekless_trace::stats::MissPoint| p.pages.is_power_of_two();
    let points: Vec<_> = s.reuse.curve.iter().filter(doubling).collect();
    // Every other doubling, from the largest on; first accesses have their own row.
    let shown = points.iter().rev().step_by(2).rev();
    let all: Vec<_> = shown
        .map(|p| estimated(Unit::bytes(p.bytes), p.miss_ratio, &Unit::Share))
        .chain([estimated("first accesses: no cache helps", s.reuse.first_share, &Unit::Share)])
        .collect();
    lines("Misses of an LRU cache of this size", &all).note("Share of page accesses.")
}

fn days(s: &Summary, top: usize) -> Option<Table> {
    let days = s.days.as_ref().filter(|d| d.active > 1)?;
    let share = |e: Option<Estimate>| e.map(|e| e.value);
    let table = Table::of("Working sets by day (BORG, Figure 1)", days.rows.iter().take(top))
        .number("day", Unit::Count, |d| d.day)
        .number("requests", Unit::Count, |d| d.requests)
        .number("pages", Unit::Bytes, |d| d.pages.value * 4096.0)
        .number("of the first day", Unit::Share, |d| share(d.of_first_day))
        .number("top 20%", Unit::Share, |d| share(d.top20_of_first_day))
        .number("of the day before", Unit::Share, |d| share(d.of_day_before))
        .number("top 20%", Unit::Share, |d| share(d.top20_of_day_before))
        .done();
    let known = match worst(days.rows.iter().flat_map(|d| [d.of_day_before, d.top20_of_day_before]))
    {
        0.0 => "Exact.".to_owned(),
        off => format!("Shares ± {}.", Unit::Share.format(off, 2)),
    };
    let rest = match days.active.saturating_sub(top as u64) {
        0 => String::new(),
        more => format!("{} more days; --top shows them. ", Unit::count(more)),
    };
    Some(table.note(format!("{rest}{known}")))
}

fn worst(all: impl Iterator<Item = Option<Estimate>>) -> f64 {
    all.flatten().map(|e| e.error).fold(0.0, f64::max)
}

fn persistence(s: &Summary) -> Option<Table> {
    let days = s.days.as_ref().filter(|d| d.active > 1)?;
    let shown = [0.01, 0.05, 0.2, 0.5, 1.0];
    let name = |later: u64| match later {
        0 => "that day".to_owned(),
        1 => "the next".to_owned(),
        n => format!("{n} later"),
    };
    let mut table = Table::of("How heat lasts: share of accesses on active days to come", shown)
        .text("hottest pages of a day", |space| Unit::Share.format(space, 2));
    for p in &days.persistence {
        table = table.number(&name(p.days_later), Unit::Share, |space| {
            p.curve.iter().find(|c| c.0 == space).map(|c| c.1)
        });
    }
    let off = days.persistence.iter().map(|p| p.plus_minus).fold(0.0, f64::max);
    let known = if off == 0.0 {
        "Exact.".to_owned()
    } else {
        format!("± {}.", Unit::Share.format(off, 2))
    };
    Some(table.done().note(format!("Mean over all pairs of such days. {known}")))
}

pub(crate) fn devices(s: &Summary, top: usize) -> Table {
    let table = Table::of("Devices", s.devices.iter().take(top))
        .text("device", |d| d.name.as_str())
        .number("requests", Unit::Count, |d| d.requests)
        .number("reads", Unit::Count, |d| d.reads)
        .number("read", Unit::Bytes, |d| d.read_bytes)
        .number("written", Unit::Bytes, |d| d.written_bytes)
        .right("footprint", |d| told(d.unique_bytes, &Unit::Bytes))
        .number("sequential", Unit::Share, |d| d.sequential_share)
        .number("ends at", Unit::Bytes, |d| d.end_bytes)
        .done();
    rest(table, s.devices.len(), top)
}

fn rest(table: Table, all: usize, top: usize) -> Table {
    match all.saturating_sub(top) {
        0 => table,
        more => table.note(format!("{more} more; --top shows them.")),
    }
}

pub(crate) fn processes(s: &Summary, top: usize, by: By) -> Option<Table> {
    if s.processes.is_empty() {
        return None;
    }
    let mut rows: Vec<&ProcessRow> = s.processes.iter().collect();
    let key = |p: &ProcessRow| match by {
        By::Requests => p.requests as f64,
        By::Bytes => p.read_bytes as f64 + p.written_bytes as f64,
        By::Pages => p.pages.value,
    };
    rows.sort_by(|a, b| key(b).total_cmp(&key(a)));
    let table = Table::of("Processes", rows.iter().take(top).copied())
        .text("process", |p| if p.name.is_empty() { "(unknown)" } else { p.name.as_str() })
        .number("how many", Unit::Count, |p| p.processes)
        .number("requests", Unit::Count, |p| p.requests)
        .number("reads", Unit::Count, |p| p.reads)
        .number("read", Unit::Bytes, |p| p.read_bytes)
        .number("written", Unit::Bytes, |p| p.written_bytes)
        .right("pages", |p| told(p.pages.scaled(4096.0), &Unit::Bytes))
        .number("sequential", Unit::Share, |p| p.sequential_share)
        .done();
    Some(rest(table, rows.len(), top))
}

pub(crate) fn finding(s: &Summary) -> String {
    let t = &s.table1;
    let percent = |x: f64| Unit::Share.format(x, 3);
    let mut text = format!(
        "{} requests access {}; the hottest fifth of the pages gets {} of the accesses; {} of the non-sequential \
         accesses repeat.",
        Unit::count(s.trace.requests),
        Unit::Bytes.format(t.unique_bytes.value, 3),
        percent(t.top20_share.value),
        percent(t.determinism.share.value),
    );
    let next = s.days.as_ref().and_then(|d| d.persistence.iter().find(|p| p.days_later == 1));
    if let Some(share) = next.and_then(|p| p.curve.iter().find(|c| c.0 == 0.2)) {
        text += &format!(
            " The hottest fifth of a day's pages gets {} of the accesses of the next active day.",
            percent(share.1)
        );
    }
    for d in s.devices.iter().filter(|d| d.offset_sectors.is_some_and(|o| o > 0)).take(3) {
        let name =
            if d.name.is_empty() { "The device".to_owned() } else { format!("Device {}", d.name) };
        text += &format!(
            " {name}: nearly all requests of whole pages start {} sectors past a 4 KiB boundary; its partition is \
             not aligned.",
            d.offset_sectors.unwrap_or(0)
        );
    }
    text
}
