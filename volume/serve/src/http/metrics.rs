//! The status for Prometheus and similar collectors: as Prometheus' text, or as OpenMetrics 1.0
//! (<https://prometheus.io/docs/specs/om/open_metrics_spec/>) if the collector accepts that.

use std::fmt::Write as _;

use crate::status::{
    AdaptiveStatus, Busy, BusyStatus, ElsewhereStatus, MemoryStatus, OperationStatus, ScrubStatus,
    Status,
};

/// Which text a collector takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Prometheus,
    OpenMetrics,
}

impl Dialect {
    /// The dialect for an `Accept` header.
    pub(super) fn accepted(accept: &[u8]) -> Self {
        let accept = String::from_utf8_lossy(accept).to_ascii_lowercase();
        let open = accept.contains("application/openmetrics-text");
        if open { Self::OpenMetrics } else { Self::Prometheus }
    }

    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Metrics as text.
pub struct MetricText(String, Dialect);

impl MetricText {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self(String::with_capacity(4096), dialect)
    }

    pub(super) fn end(self) -> String {
        if self.1 == Dialect::OpenMetrics { self.0 + "# EOF\n" } else { self.0 }
    }

    /// A family with its samples (labels and values). Without samples there is no family.
    pub fn family(
        &mut self,
        kind: &str,
        name: &str,
        unit: &str,
        help: &str,
        samples: &[(&str, f64)],
    ) {
        if samples.is_empty() {
            return;
        }
        let out = &mut self.0;
        let end = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        match self.1 {
            Dialect::OpenMetrics => {
                let _ = writeln!(out, "# TYPE {name} {kind}");
                if !unit.is_empty() {
                    let _ = writeln!(out, "# UNIT {name} {unit}");
                }
                let _ = writeln!(out, "# HELP {name} {help}");
            }
            Dialect::Prometheus => {
                // The family has the name of its samples, and there is no kind for facts.
                let kind = if kind == "info" { "gauge" } else { kind };
                let _ = writeln!(out, "# HELP {name}{end} {help}\n# TYPE {name}{end} {kind}");
            }
        }
        for (labels, value) in samples {
            let _ = writeln!(out, "{name}{end}{labels} {value}");
        }
    }

    /// A counter without labels.
    pub fn counter(&mut self, name: &str, unit: &str, help: &str, value: u64) {
        self.family("counter", name, unit, help, &[("", value as f64)]);
    }

    /// A gauge without labels.
    pub fn gauge(&mut self, name: &str, unit: &str, help: &str, value: f64) {
        self.family("gauge", name, unit, help, &[("", value)]);
    }
}

fn flag(on: bool) -> f64 {
    f64::from(u8::from(on))
}

pub(super) fn text(s: &Status, dialect: Dialect) -> String {
    let mut t = MetricText::new(dialect);
    let version = format!("{{version=\"{}\"}}", s.version);
    t.family("info", "seekless_build", "", "The version that serves.", &[(&version, 1.0)]);
    t.gauge("seekless_uptime_seconds", "seconds", "Time since the start.", s.uptime_s);
    t.gauge("seekless_volume_bytes", "bytes", "Size of the volume.", s.volume.size_bytes as f64);
    t.gauge("seekless_nbd_clients", "", "NBD clients connected.", s.volume.nbd_clients as f64);
    let help = "1 if the server cannot make progress.";
    t.gauge("seekless_trouble", "", help, flag(s.volume.trouble.is_some()));
    let r = &s.requests;
    t.counter("seekless_requests", "", "Requests of clients.", r.total);
    let help = "Reads answered from RAM alone, and device reads of copies and of home.";
    let reads = [
        ("{from=\"ram\"}", r.ram_reads as f64),
        ("{from=\"copy\"}", r.copy_reads as f64),
        ("{from=\"home\"}", r.home_reads as f64),
    ];
    t.family("counter", "seekless_reads", "", help, &reads);
    copies(&mut t, s);
    let l = &s.learning;
    let help = "Requests that the learner missed.";
    t.counter("seekless_unlearned_requests", "requests", help, l.missed_requests);
    let help =
        "1 while the learner sees the process of each request, from the kernel's block trace.";
    t.gauge("seekless_streams_observed", "", help, flag(l.streams == "observed"));
    let help = "Lost events of the kernel's block trace.";
    t.counter("seekless_lost_events", "", help, l.lost_events);
    let help = "Requests and I/Os that the watcher missed; busy times leave them out.";
    t.counter("seekless_unwatched", "", help, l.unwatched);
    if let Some(a) = &s.adaptive {
        adaptive(&mut t, a);
    }
    if let Some(c) = &s.scrub {
        scrub(&mut t, c);
    }
    memory(&mut t, &s.memory);
    if let Some(e) = &s.elsewhere {
        elsewhere(&mut t, e);
    }
    if let Some(o) = &s.operations {
        operations(&mut t, o);
    }
    if let Some(b) = &s.busy {
        busy(&mut t, b);
    }
    t.end()
}

fn memory(t: &mut MetricText, m: &MemoryStatus) {
    if let Some(most) = m.most_bytes {
        let help = "The bound on the server's memory.";
        t.gauge("seekless_memory_limit_bytes", "bytes", help, most as f64);
    }
    t.gauge("seekless_memory_pages_bytes", "bytes", "Pages of RAM.", m.pages_bytes as f64);
    let help = "Buffers of requests and of moves.";
    t.gauge("seekless_memory_buffers_bytes", "bytes", help, m.buffers_bytes as f64);
    let help = "Clients that wait for memory for a long request.";
    t.gauge("seekless_memory_waiting_clients", "", help, m.waiting_clients as f64);
}

/// Copies, the plan, and moving data.
fn copies(t: &mut MetricText, s: &Status) {
    let (c, p) = (&s.copies, &s.plan);
    t.gauge("seekless_area_bytes", "bytes", "Size of the optimized area.", c.area_bytes as f64);
    t.gauge("seekless_copies_bytes", "bytes", "Usable copies.", c.usable_bytes as f64);
    t.counter("seekless_moved_bytes", "bytes", "Written into the optimized area.", c.moved_bytes);
    let help = "Copies dropped because their home was written while they were made.";
    t.counter("seekless_overtaken_bytes", "bytes", help, c.overtaken_bytes);
    t.counter("seekless_plans", "", "Plans made.", p.made);
    t.counter("seekless_plans_refused", "", "Plans refused because they did not fit.", p.refused);
    t.gauge("seekless_plan_bytes", "bytes", "Size of the latest plan.", p.plan_bytes as f64);
    t.gauge("seekless_moving", "", "1 while copies are being written.", flag(p.moving));
    let help = "Bytes to copy in the current or last move.";
    t.gauge("seekless_move_bytes", "bytes", help, p.total_bytes as f64);
    let help = "Of these, copied or dropped.";
    t.gauge("seekless_move_done_bytes", "bytes", help, p.done_bytes as f64);
    let limit: Vec<_> = s.budget.limit_bytes_per_s.iter().map(|l| ("", *l as f64)).collect();
    let help = "Most bytes per second that moving data reads and writes.";
    let name = "seekless_move_limit_bytes_per_second";
    t.family("gauge", name, "bytes_per_second", help, &limit);
}

fn scrub(t: &mut MetricText, s: &ScrubStatus) {
    t.counter("seekless_scrub_passes", "", "Checks of the whole area that have ended.", s.passes);
    let help = "Pages of the area that the scrub compared with their checksums.";
    t.counter("seekless_scrub_pages", "pages", help, s.pages);
    t.counter("seekless_scrub_damaged_pages", "pages", "Of these, damaged pages.", s.damaged_pages);
    let help = "Damaged pages that have no other copy now.";
    t.gauge("seekless_scrub_lost_pages", "pages", help, s.lost_pages as f64);
    let ended: Vec<_> = s.last_end_unix_ms.iter().map(|ms| ("", *ms as f64 / 1000.0)).collect();
    let help = "End of the last pass, since 1970.";
    t.family("gauge", "seekless_scrub_last_end_seconds", "seconds", help, &ended);
}

fn elsewhere(t: &mut MetricText, e: &ElsewhereStatus) {
    t.gauge("seekless_home_connected", "", "0 if home is not connected.", flag(e.connected));
    let help = "Requests that home's server answered.";
    let kinds = [("{kind=\"read\"}", e.reads as f64), ("{kind=\"change\"}", e.changes as f64)];
    t.family("counter", "seekless_home_operations", "", help, &kinds);
    let help = "How often connections to home's server were made again.";
    t.counter("seekless_home_reconnects", "", help, e.reconnects);
    let help = "Requests to home's server that were sent again.";
    t.counter("seekless_home_sent_again", "", help, e.sent_again);
    let help = "Time without a connection to home's server.";
    t.family("counter", "seekless_home_away_seconds", "seconds", help, &[("", e.away_s)]);
}

fn operations(t: &mut MetricText, o: &OperationStatus) {
    let help = "Operations as home's provider counts them, modelled.";
    let systems = ["{system=\"now\"}", "{system=\"vanilla\"}"];
    let [now, vanilla] = systems;
    let counts = [(now, o.now as f64), (vanilla, o.vanilla as f64)];
    t.family("counter", "seekless_provider_operations", "", help, &counts);
    if let Some((now_usd, vanilla_usd)) = o.now_usd.zip(o.vanilla_usd) {
        let help = "Price of these operations in US dollars.";
        let prices = [(now, now_usd), (vanilla, vanilla_usd)];
        t.family("counter", "seekless_provider_operations_usd", "usd", help, &prices);
    }
}

fn adaptive(t: &mut MetricText, a: &AdaptiveStatus) {
    let help = "Pages that were read before a client asked for them.";
    t.counter("seekless_prefetched_pages", "pages", help, a.prefetched_pages);
    let help = "Of these, pages that a client used, and pages that left RAM unused.";
    let (used, unused) = (a.prefetch_used_pages as f64, a.prefetch_unused_pages as f64);
    let ends = [("{used=\"yes\"}", used), ("{used=\"no\"}", unused)];
    t.family("counter", "seekless_prefetch_ended_pages", "pages", help, &ends);
    t.gauge("seekless_trail_bytes", "bytes", "Size of the trail.", a.trail_bytes as f64);
    let help = "Where the trail is written next.";
    t.gauge("seekless_trail_position_bytes", "bytes", help, a.trail_position_bytes as f64);
    let help = "Written to the trail.";
    t.counter("seekless_trail_written_bytes", "bytes", help, a.trail_written_bytes);
    let Some(g) = &a.guard else { return };
    let help = "Disk time on this UTC day, actual and of the vanilla system.";
    let days =
        [("{layout=\"now\"}", g.actual_today_s), ("{layout=\"vanilla\"}", g.vanilla_today_s)];
    t.family("gauge", "seekless_guard_today_seconds", "seconds", help, &days);
    let help = "Largest excess of the actual disk time within a day.";
    t.gauge("seekless_guard_worst_excess_seconds", "seconds", help, g.worst_excess_s);
    let help = "1 while the policy stands aside.";
    t.gauge("seekless_guard_bypassing", "", help, flag(g.bypassing));
    let bypassed = [("", g.bypassed_s)];
    let help = "Disk time while the policy stood aside.";
    t.family("counter", "seekless_guard_bypassed_seconds", "seconds", help, &bypassed);
}

fn busy(t: &mut MetricText, b: &BusyStatus) {
    let phases = |layout: &str, b: &Busy| {
        [
            ("seek", b.seek_s),
            ("rotation", b.rotation_s),
            ("transfer", b.transfer_s),
            ("overhead", b.overhead_s),
        ]
        .map(|(p, v)| (format!("{{layout=\"{layout}\",phase=\"{p}\"}}"), v))
    };
    let mut busy = phases("now", &b.now).to_vec();
    let mut energy = vec![("{layout=\"now\"}", b.now.energy_j)];
    if let Some(v) = &b.vanilla {
        busy.extend(phases("vanilla", v));
        energy.push(("{layout=\"vanilla\"}", v.energy_j));
    }
    let busy: Vec<_> = busy.iter().map(|(l, v)| (l.as_str(), *v)).collect();
    let help = "Busy time of the emulated or modelled disk, with copies and as the vanilla system.";
    t.family("counter", "seekless_disk_busy_seconds", "seconds", help, &busy);
    let help = "Of the busy time with copies, moving data.";
    let moving = [("", b.moving_s)];
    t.family("counter", "seekless_disk_moving_seconds", "seconds", help, &moving);
    let help = "Energy of the busy times, modelled; idling is not counted.";
    t.family("counter", "seekless_disk_energy_joules", "joules", help, &energy);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{BusyStatus, GuardStatus};

    #[test]
    fn a_status_reads_as_written_by_hand() {
        let mut s = Status { version: "1.2.3".to_owned(), ..Status::default() };
        s.requests.copy_reads = 7;
        let text = text(&s, Dialect::OpenMetrics);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "# TYPE seekless_build info");
        assert!(lines.contains(&"seekless_build_info{version=\"1.2.3\"} 1"));
        assert!(lines.contains(&"seekless_reads_total{from=\"copy\"} 7"));
        assert!(lines.contains(&"# UNIT seekless_moved_bytes bytes"));
        assert!(lines.contains(&"seekless_moved_bytes_total 0"));
        assert!(!text.contains("disk_busy"), "no disk is known");
        assert!(!text.contains("limit"), "there is none");
        assert!(text.ends_with("\n# EOF\n"));
    }

    #[test]
    fn plain_text_names_families_as_their_samples() {
        let s = Status { version: "1.2.3".to_owned(), ..Status::default() };
        let text = text(&s, Dialect::accepted(b"text/plain;version=0.0.4"));
        let info = "# TYPE seekless_build_info gauge\nseekless_build_info{version=\"1.2.3\"} 1\n";
        assert!(text.contains(info), "{text}");
        assert!(
            text.contains("# TYPE seekless_requests_total counter\nseekless_requests_total 0\n")
        );
        assert!(!text.contains("UNIT") && !text.contains("EOF"), "{text}");
        let open = b"application/OpenMetrics-text;version=1.0.0;q=0.6,text/plain;q=0.4";
        assert_eq!(Dialect::accepted(open), Dialect::OpenMetrics);
    }

    #[test]
    fn each_family_is_whole_and_wears_its_unit() {
        let busy = BusyStatus { vanilla: Some(Busy::default()), ..BusyStatus::default() };
        let guard = Some(GuardStatus { bypassing: true, ..GuardStatus::default() });
        let adaptive = Some(AdaptiveStatus { guard, ..AdaptiveStatus::default() });
        let mut s = Status { busy: Some(busy), adaptive, ..Status::default() };
        s.budget.limit_bytes_per_s = Some(5);
        let text = text(&s, Dialect::OpenMetrics);
        let mut family = String::new();
        let mut seen = std::collections::BTreeSet::new();
        for line in text.lines().filter(|l| *l != "# EOF") {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                family = rest.split(' ').next().unwrap().to_owned();
                assert!(seen.insert(family.clone()), "{family} twice");
            } else if let Some(rest) = line.strip_prefix("# UNIT ") {
                let (name, unit) = rest.split_once(' ').unwrap();
                assert!(name == family && name.ends_with(&format!("_{unit}")), "{line}");
            } else if !line.starts_with("# HELP ") {
                assert!(line.starts_with(&family), "{line} in {family}");
            }
        }
        assert!(seen.len() > 27, "{}", seen.len());
        assert!(text.contains("\nseekless_guard_bypassing 1\n"), "{text}");
    }
}
