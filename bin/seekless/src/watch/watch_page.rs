//! `--http` of `seekless watch`: its page, its state and its metrics. They are asked for through
//! the daemon's own socket, so that a browser cannot hold its loop for longer than `status` does.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use seekless_daemon::{FilesystemReport, SCHEMA_JSON, WatchReport, ask};
use seekless_serve::http::{MetricText, Shown};

/// Any local user may ask for the page as often as they like, and each question to the daemon holds
/// its loop: all who ask within this time get the same answer.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// A daemon with its state in a folder.
pub(super) struct Daemon {
    state: PathBuf,
    /// Its last answer, and the time when it came.
    last: Mutex<Option<(Instant, DaemonAnswer)>>,
}

type DaemonAnswer = Result<Arc<WatchReport>, String>;

impl Daemon {
    pub(super) fn new(state: PathBuf) -> Self {
        Self { state, last: Mutex::default() }
    }

    fn report(&self) -> DaemonAnswer {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, answer)) = &*last
            && at.elapsed() < ASK_EVERY
        {
            return answer.clone();
        }
        let answer = ask(&self.state).map(Arc::new).map_err(|e| e.to_string());
        *last = Some((Instant::now(), answer.clone()));
        answer
    }
}

impl Shown for Daemon {
    fn page(&self) -> (&'static str, &'static str) {
        (include_str!("page.html"), include_str!("page.js"))
    }

    fn status(&self) -> Result<String, String> {
        serde_json::to_string(&*self.report()?).map_err(|e| e.to_string())
    }

    fn schema(&self) -> &'static str {
        SCHEMA_JSON
    }

    fn metrics(&self, text: &mut MetricText) -> Result<(), String> {
        metrics(&*self.report()?, text);
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
    use std::io::Write as _;
    use std::os::unix::net::UnixListener;
    use std::sync::atomic::{AtomicU64, Ordering};

    use seekless_daemon::SCHEMA;

    use super::*;

    /// Answers in place of a daemon; `seconds` is the number of the question.
    fn stand_in(listener: &UnixListener, asked: &AtomicU64) {
        for stream in listener.incoming() {
            let report = WatchReport {
                schema: SCHEMA.to_owned(),
                seconds: asked.fetch_add(1, Ordering::Relaxed) + 1,
                dry_run: false,
                lost_events: 0,
                pages_ahead: 0,
                filesystems: Vec::new(),
            };
            stream.unwrap().write_all(&serde_json::to_vec(&report).unwrap()).unwrap();
        }
    }

    #[test]
    fn who_asks_often_gets_the_same_answer_for_a_moment() {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("control")).unwrap();
        let asked = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&asked);
        std::thread::spawn(move || stand_in(&listener, &count));
        let daemon = Daemon::new(dir.path().to_owned());
        let start = Instant::now();
        (0..100).for_each(|_| drop(daemon.status().unwrap()));
        let most = 1 + start.elapsed().as_millis() / ASK_EVERY.as_millis();
        let asked = asked.load(Ordering::Relaxed);
        assert!(u128::from(asked) <= most, "{asked} questions, {most} at most");
        // The answer does not stay for ever.
        while daemon.report().unwrap().seconds == asked {
            assert!(start.elapsed() < Duration::from_secs(60), "an old answer");
            std::thread::sleep(ASK_EVERY / 10);
        }
    }

    #[test]
    fn a_mount_point_cannot_end_its_label() {
        assert_eq!(label("/a\"} 1\n\\"), "{mount=\"/a\\\"} 1\\n\\\\\"}");
    }
}
