//! The state of a volume as lines of text: a pure function of the server's status.

use std::fmt::Write as _;

use seekless_report::Unit;
use seekless_serve::status::{AdaptiveStatus, Busy, Events, History, Sample, Status};

/// Intervals of the present rate, two seconds; and of the shares of reads, ten seconds.
const NOW: usize = 8;
const LATE: usize = 40;
/// Heights of a bar of text, an eighth each.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Seek, rotation, transfer and overhead in a bar.
const SHADES: [char; 4] = ['█', '▓', '▒', '░'];

#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) colour: bool,
}

/// At most `look.height` lines, each with a line break, none wider than `look.width`.
pub(super) fn screen(s: &Status, h: &History, e: &Events, look: Look) -> String {
    let mut lines: Vec<String> = Vec::new();
    let v = &s.volume;
    lines.push(format!(
        "{}  {}{}, up {}, NBD clients {}, seekless {}",
        v.backing,
        Unit::bytes(v.size_bytes),
        if v.read_only { ", read-only" } else { "" },
        Unit::Seconds.format(s.uptime_s.floor(), 3),
        v.nbd_clients,
        s.version
    ));
    if let Some(trouble) = &v.trouble {
        lines.push(format!("no progress: {trouble}"));
    }
    if let Some(verdict) = &s.verdict {
        lines.push(verdict.text.clone());
    }
    lines.push(String::new());
    requests(s, h, look.width, &mut lines);
    lines.push(String::new());
    busy(s, look.width, &mut lines);
    plan(s, &mut lines);
    let limit = s
        .budget
        .limit_bytes_per_s
        .map_or("no limit".to_owned(), |l| format!("at most {}/s", Unit::bytes(l)));
    lines.push(format!(
        "budget    {}/s of {limit}; {} moved since the start",
        Unit::Bytes.format(s.budget.used_bytes_per_s, 3),
        Unit::bytes(s.copies.moved_bytes)
    ));
    head(h, look.width, &mut lines);
    lines.push(String::new());
    lines.push("decided   newest first".to_owned());
    for event in e.events.iter().rev() {
        lines.push(format!("  {:>6}  {}", ago(s.time_unix_ms, event.time_unix_ms), event.text));
    }
    let heading = |line: &str| {
        let bold = look.colour && line.find("  ").is_some_and(|at| at > 0 && at < 10);
        match line.split_once("  ") {
            Some((name, rest)) if bold => format!("\x1b[1m{name}\x1b[0m  {rest}"),
            _ => line.to_owned(),
        }
    };
    let mut out = String::new();
    for line in lines.iter().take(look.height.saturating_sub(1).max(1)) {
        let _ = writeln!(out, "{}", heading(&fit(line, look.width)));
    }
    out
}

fn requests(s: &Status, h: &History, width: usize, lines: &mut Vec<String>) {
    let (now, late) = (last(h, NOW), last(h, LATE));
    let rate = now.requests as f64 / now.took_s.max(1e-9);
    lines.push(format!(
        "requests  {} a second, {} since the start",
        count(if now.took_s > 0.0 { rate } else { 0.0 }),
        count(s.requests.total as f64)
    ));
    let r = &s.requests;
    let (all, of) = (r.ram_reads + r.copy_reads + r.home_reads, |n: u64, all: u64| {
        if all == 0 { 0.0 } else { n as f64 / all as f64 }
    });
    let recent = late.ram_reads + late.copy_reads + late.home_reads;
    let wide = width.saturating_sub(52).clamp(8, 40);
    for (name, n, total) in [
        ("reads     RAM   ", late.ram_reads, r.ram_reads),
        ("          copies", late.copy_reads, r.copy_reads),
        ("          home  ", late.home_reads, r.home_reads),
    ] {
        let share = of(n, recent);
        lines.push(format!(
            "{name} {} {:>6}  ({} since the start)",
            bar(&[share], wide),
            Unit::Share.format(share, 2),
            Unit::Share.format(of(total, all), 2)
        ));
    }
}

fn adaptive(a: &AdaptiveStatus, lines: &mut Vec<String>) {
    let ended = a.prefetch_used_pages + a.prefetch_unused_pages;
    let used = a.prefetch_used_pages as f64 / ended.max(1) as f64;
    lines.push(format!(
        "adaptive  {} pages read ahead: {} used, {} not ({} used)",
        count(a.prefetched_pages as f64),
        count(a.prefetch_used_pages as f64),
        count(a.prefetch_unused_pages as f64),
        Unit::Share.format(used, 2)
    ));
    lines.push(if a.trail_bytes == 0 {
        "          no trail".to_owned()
    } else {
        format!(
            "          trail of {}, written at {}; {} written since the start",
            Unit::bytes(a.trail_bytes),
            Unit::bytes(a.trail_position_bytes),
            Unit::bytes(a.trail_written_bytes)
        )
    });
    if let Some(g) = &a.guard {
        let s = |v: f64| Unit::Seconds.format(v, 3);
        lines.push(format!(
            "guard     today {}, vanilla {}; worst excess {}",
            s(g.actual_today_s),
            s(g.vanilla_today_s),
            s(g.worst_excess_s)
        ));
    }
    lines.push(format!("          {}", a.guard_note));
}

fn plan(s: &Status, lines: &mut Vec<String>) {
    if let Some(a) = &s.adaptive {
        return adaptive(a, lines);
    }
    let p = &s.plan;
    lines.push(if !s.learning.learns {
        "plan      nothing is learned: the vanilla system".to_owned()
    } else if p.made == 0 {
        "plan      none yet".to_owned()
    } else {
        let state = if p.moving {
            format!("moving, {} of {}", Unit::bytes(p.done_bytes), Unit::bytes(p.total_bytes))
        } else {
            format!("copies of {} may be used", Unit::bytes(s.copies.usable_bytes))
        };
        format!(
            "plan      number {}: {} extents, {}; {state}",
            p.made,
            count(p.extents as f64),
            Unit::bytes(p.plan_bytes)
        )
    });
    if s.learning.learns {
        lines.push(format!("streams   {}", s.learning.streams_note));
    }
}

fn busy(s: &Status, width: usize, lines: &mut Vec<String>) {
    let Some(b) = &s.busy else {
        lines.push(
            "busy      not known: no disk is emulated (--disk) or modelled (--model)".to_owned(),
        );
        return;
    };
    // The text before a bar takes 18 columns, the text after it up to 50.
    let wide = width.saturating_sub(68).clamp(8, 40);
    let most = b.vanilla.map_or(0.0, |v| v.total_s()).max(b.now.total_s()).max(1e-9);
    let row = |name: &str, x: &Busy| {
        let parts = [x.seek_s, x.rotation_s, x.transfer_s, x.overhead_s];
        let say = |v: f64| Unit::Seconds.format(v, 3);
        let named: Vec<String> =
            SHADES.iter().zip(parts).map(|(shade, p)| format!("{shade} {}", say(p))).collect();
        format!(
            "{name} {} {}: {}",
            bar(&parts.map(|p| p / most), wide),
            say(x.total_s()),
            named.join(" ")
        )
    };
    lines.push(row("busy      now    ", &b.now));
    match &b.vanilla {
        Some(vanilla) => lines.push(row("          vanilla", vanilla)),
        None => lines.push(format!("          vanilla not known: {}", b.note)),
    }
    let [seek, rotation, transfer, overhead] = SHADES;
    lines.push(format!(
        "          {seek} seek {rotation} rotation {transfer} transfer {overhead} overhead"
    ));
    lines.push(format!(
        "          {} {}; {} of it now for moving data",
        b.basis,
        b.disk,
        Unit::Seconds.format(b.moving_s, 3)
    ));
}

/// The number of I/Os of the last minute, over the disk from its start to its end.
fn head(h: &History, width: usize, lines: &mut Vec<String>) {
    let columns = width.saturating_sub(12).clamp(10, 100);
    if h.end_bytes == 0 || h.points.is_empty() {
        return;
    }
    let mut counts = vec![0usize; columns];
    let place = |b: u64| {
        (b as u128 * columns as u128 / h.end_bytes as u128).min(columns as u128 - 1) as usize
    };
    for p in &h.points {
        counts[place(p.at_bytes)] += 1;
    }
    let most = counts.iter().copied().max().unwrap_or(1).max(1);
    let text: String = counts
        .iter()
        .map(|n| if *n == 0 { ' ' } else { BARS[(n * 8).div_ceil(most) - 1] })
        .collect();
    lines.push(format!("{:<9} {text}", h.position));
    let end = Unit::bytes(h.end_bytes);
    let area = if h.area_from_bytes < h.end_bytes {
        format!("; from {} on, the optimized area", Unit::bytes(h.area_from_bytes))
    } else {
        String::new()
    };
    lines.push(format!("          I/Os of the last minute, from 0 to {end}{area}"));
}

/// The sum of the last intervals.
fn last(h: &History, n: usize) -> Sample {
    h.samples.iter().rev().take(n).fold(Sample::default(), |a, b| Sample {
        took_s: a.took_s + b.took_s,
        requests: a.requests + b.requests,
        ram_reads: a.ram_reads + b.ram_reads,
        copy_reads: a.copy_reads + b.copy_reads,
        home_reads: a.home_reads + b.home_reads,
        ..a
    })
}

/// The parts of a whole beside each other, each in another shade.
fn bar(parts: &[f64], width: usize) -> String {
    let mut out = String::new();
    let (mut sum, mut drawn) = (0.0, 0);
    for (part, shade) in parts.iter().zip(SHADES) {
        sum += part;
        let to = ((sum * width as f64).round() as usize).min(width);
        out.extend(std::iter::repeat_n(shade, to.saturating_sub(drawn)));
        drawn = drawn.max(to);
    }
    out.extend(std::iter::repeat_n('·', width - drawn));
    out
}

fn count(n: f64) -> String {
    Unit::Count.format(n.round(), 3)
}

fn ago(now: u64, then: u64) -> String {
    Unit::Seconds.format((now.saturating_sub(then) / 1000) as f64, 2)
}

/// The line cut to a width. Control characters are replaced: a name may have any bytes.
fn fit(line: &str, width: usize) -> String {
    let safe = line.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c });
    let mut out: String = safe.clone().take(width).collect();
    if safe.count() > width {
        out.pop();
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use seekless_serve::status::{BusyStatus, Event, GuardStatus, Point};

    use super::*;

    fn look(width: usize, height: usize) -> Look {
        Look { width, height, colour: false }
    }

    fn example() -> (Status, History, Events) {
        let mut s = Status { time_unix_ms: 100_000, uptime_s: 61.5, ..Status::default() };
        s.volume.backing = "disk\u{1b}[2J.img".to_owned();
        s.volume.size_bytes = 8 << 30;
        s.requests.total = 1234;
        s.requests.copy_reads = 3;
        s.requests.home_reads = 1;
        s.learning.learns = true;
        s.plan.made = 2;
        s.plan.moving = true;
        s.plan.done_bytes = 1 << 20;
        s.plan.total_bytes = 4 << 20;
        let now = Busy { seek_s: 1.0, rotation_s: 1.0, transfer_s: 2.0, ..Busy::default() };
        let vanilla = Busy { seek_s: 4.0, rotation_s: 2.0, transfer_s: 2.0, ..Busy::default() };
        s.busy = Some(BusyStatus { now, vanilla: Some(vanilla), ..BusyStatus::default() });
        let sample = Sample {
            took_s: 0.25,
            requests: 50,
            copy_reads: 1,
            home_reads: 3,
            ..Sample::default()
        };
        let points = [0, 0, 0, 99].map(|at_bytes| Point { at_bytes, ..Point::default() });
        let h = History {
            end_bytes: 100,
            area_from_bytes: 90,
            position: "head".to_owned(),
            samples: vec![sample; 8],
            points: points.to_vec(),
            ..History::default()
        };
        let event = |n, t: u64| Event { number: n, time_unix_ms: t, text: format!("event {n}") };
        (s, h, Events { events: vec![event(1, 0), event(2, 95_000)], ..Events::default() })
    }

    #[test]
    fn a_screen_by_hand() {
        let (s, h, e) = example();
        let text = screen(&s, &h, &e, look(80, 100));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("disk\u{FFFD}[2J.img  8 GiB, up 61"), "{}", lines[0]);
        // 50 requests in each quarter of a second.
        assert!(lines[2].contains("200 a second, 1,234 since"), "{}", lines[2]);
        // One read in four of late, three in four since the start; 28 columns of bar.
        assert!(
            lines[4].contains(&format!("{}{} ", "█".repeat(7), "·".repeat(21))),
            "{}",
            lines[4]
        );
        assert!(lines[4].contains("25 %  (75 % since"), "{}", lines[4]);
        // 1 + 1 + 2 of 8 seconds: 1.5, 1.5 and 3 of 12 columns, each ending at the nearest.
        let now = "now     ██▓▒▒▒······ 4 s: █ 1 s ▓ 1 s ▒ 2 s ░ 0 s";
        assert!(lines[7].ends_with(now), "{}", lines[7]);
        assert!(text.contains("moving, 1 MiB of 4 MiB"), "{text}");
        let head = lines.iter().find(|l| l.starts_with("head ")).unwrap();
        // Three I/Os at the start, one at the end: full height, and three eighths.
        assert_eq!((head.chars().nth(10), head.chars().last()), (Some('█'), Some('▃')));
        assert!(lines[lines.len() - 2].ends_with("5 s  event 2"), "{text}");
        assert!(lines[lines.len() - 1].contains("event 1"));
    }

    #[test]
    fn the_adaptive_policy_takes_the_place_of_a_plan() {
        let (mut s, h, e) = example();
        let guard =
            GuardStatus { vanilla_today_s: 8.0, actual_today_s: 2.0, ..GuardStatus::default() };
        s.adaptive = Some(AdaptiveStatus {
            prefetched_pages: 1_010,
            prefetch_used_pages: 750,
            prefetch_unused_pages: 250,
            trail_bytes: 1 << 30,
            trail_position_bytes: 3 << 20,
            trail_written_bytes: 5 << 20,
            guard: Some(guard),
            guard_note: "the policy is in use".to_owned(),
        });
        let text = screen(&s, &h, &e, look(80, 100));
        for line in [
            "adaptive  1,010 pages read ahead: 750 used, 250 not (75 % used)",
            "          trail of 1 GiB, written at 3 MiB; 5 MiB written since the start",
            "guard     today 2 s, vanilla 8 s; worst excess 0 s",
            "          the policy is in use",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{text}");
        }
        assert!(!text.contains("\nplan "), "{text}");
    }

    #[test]
    fn nothing_of_the_busy_times_is_cut_at_80_columns() {
        let (mut s, h, e) = example();
        let long = Busy {
            seek_s: 12_345.6,
            rotation_s: 0.123_4,
            transfer_s: 1234.5,
            overhead_s: 0.9,
            ..Busy::default()
        };
        s.busy = Some(BusyStatus {
            now: long,
            vanilla: Some(long),
            moving_s: 12_345.6,
            ..BusyStatus::default()
        });
        let text = screen(&s, &h, &e, look(80, 100));
        let cut: Vec<&str> = text.lines().skip(7).take(4).filter(|l| l.contains('…')).collect();
        assert!(text.contains("░ 900 ms") && cut.is_empty(), "{text}");
    }

    #[test]
    fn it_fits_every_terminal_and_steers_none() {
        let (s, h, e) = example();
        for width in [1, 2, 10, 40, 79, 300] {
            for height in [1, 2, 5, 24] {
                let text = screen(&s, &h, &e, look(width, height));
                assert!(text.lines().count() <= height, "{width} by {height}");
                assert!(text.lines().all(|l| l.chars().count() <= width), "{width}: {text}");
                assert!(!text.contains('\u{1b}'));
            }
        }
        let coloured = screen(&s, &h, &e, Look { colour: true, ..look(80, 24) });
        assert!(coloured.contains("\x1b[1mrequests\x1b[0m  "));
        let plain =
            screen(&Status::default(), &History::default(), &Events::default(), look(80, 24));
        assert!(plain.contains("not known") && plain.contains("vanilla system"));
    }
}
