//! `--http` of `seekless watch`: its page, its state and its metrics. They are asked for through
//! the daemon's own socket, so that a browser cannot hold its loop for longer than `status` does.

use std::path::PathBuf;

use seekless_daemon::{FilesystemReport, SCHEMA_JSON, WatchReport, ask};
use seekless_serve::http::{MetricText, Shown};

/// A daemon with its state in this folder.
pub(super) struct Daemon(pub(super) PathBuf);

impl Daemon {
    fn report(&self) -> Result<WatchReport, String> {
        ask(&self.0).map_err(|e| e.to_string())
    }
}

impl Shown for Daemon {
    fn page(&self) -> (&'static str, &'static str) {
        (include_str!("page.html"), include_str!("page.js"))
    }

    fn status(&self) -> Result<String, String> {
        serde_json::to_string(&self.report()?).map_err(|e| e.to_string())
    }

    fn schema(&self) -> &'static str {
        SCHEMA_JSON
    }

    fn metrics(&self, text: &mut MetricText) -> Result<(), String> {
        metrics(&self.report()?, text);
        Ok(())
    }
}

fn metrics(r: &WatchReport, t: &mut MetricText) {
    let version = format!("{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    t.family("info", "seekless_build", "", "The version that watches.", &[(&version, 1.0)]);
    let seconds = r.seconds as f64;
    t.gauge("seekless_uptime_seconds", "seconds", "Time since the start.", seconds);
    let help = "1 if nothing is read ahead.";
    t.gauge("seekless_watch_dry_run", "", help, f64::from(u8::from(r.dry_run)));
    let help = "Events that the kernel lost because the daemon was too slow.";
    t.counter("seekless_watch_lost_events", "", help, r.lost_events);
    let help = "Pages that may be read ahead and not used now; 0 under memory pressure.";
    t.gauge("seekless_watch_ahead_limit_pages", "pages", help, r.pages_ahead as f64);
    type Of = fn(&FilesystemReport) -> f64;
    let counters: [(&str, &str, &str, Of); 7] = [
        ("waits", "", "Times that programs waited for the disk.", |f| f.totals.misses as f64),
        ("recognized_runs", "", "Recognized runs of jobs.", |f| f.totals.recognized as f64),
        ("orders", "", "Orders for reads.", |f| f.totals.orders as f64),
        ("fetched_pages", "pages", "Pages read ahead.", |f| f.totals.fetched as f64),
        ("used_pages", "pages", "Of these, pages that were used.", |f| f.totals.used as f64),
        ("vain_pages", "pages", "Pages not used when their run ended.", |f| f.totals.vain as f64),
        ("guarded", "", "Times that the guard allowed nothing.", |f| f.totals.guarded as f64),
    ];
    for (name, unit, help, of) in counters {
        family(t, r, "counter", name, unit, help, of);
    }
    family(t, r, "gauge", "jobs", "", "Jobs that are known.", |f| f.jobs.len() as f64);
    let help = "The disk's time for reads in vain, in the last hour.";
    let of = |f: &FilesystemReport| f.totals.vain_last_hour as f64 / 1000.0;
    family(t, r, "gauge", "vain_last_hour_seconds", "seconds", help, of);
}

fn family(
    t: &mut MetricText,
    r: &WatchReport,
    kind: &str,
    name: &str,
    unit: &str,
    help: &str,
    of: impl Fn(&FilesystemReport) -> f64,
) {
    let labels: Vec<_> = r.filesystems.iter().map(|f| label(&f.mount)).collect();
    let samples: Vec<_> =
        labels.iter().zip(&r.filesystems).map(|(l, f)| (l.as_str(), of(f))).collect();
    t.family(kind, &format!("seekless_watch_{name}"), unit, help, &samples);
}

/// A mount point may have any character.
fn label(mount: &str) -> String {
    let mount = mount.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{{mount=\"{mount}\"}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_cannot_end_its_label() {
        assert_eq!(label("/a\"} 1\n\\"), "{mount=\"/a\\\"} 1\\n\\\\\"}");
    }
}
