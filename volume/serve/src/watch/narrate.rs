//! The events of a volume in words, for the board.

use seekless_block::{Bytes, SECTOR_BYTES};
use seekless_engine::Trouble;

use super::WatcherWork;
use crate::observe;
use crate::server::{AdaptiveCounts, ServerStats};
use crate::status::BusyStatus;

impl WatcherWork {
    /// Describes changes since the last look.
    pub(super) fn narrate(&mut self, stats: &ServerStats, busy: Option<&BusyStatus>, unix: u64) {
        let tell = |text: String| self.board.tell(unix, text);
        let streams = self.from.streams.as_ref().map(|s| observe::read(s)).unwrap_or_default();
        if streams != self.streams {
            tell(format!("Streams: {streams}."));
            self.streams = streams;
        }
        let Some((before, ..)) = self.before.clone() else {
            let what = match (&self.from.learned, stats.adaptive) {
                (Some(_), _) => format!("The server learns; copies may take {}", self.from.area),
                (None, Some(AdaptiveCounts { trail: Some((_, size)), .. })) => {
                    format!("The server learns at each request, and keeps a trail of {size}")
                }
                (None, Some(_)) => {
                    "The server learns at each request how far to read ahead, and keeps no trail"
                        .to_owned()
                }
                (None, None) => {
                    "The server learns and copies nothing: this is the vanilla system".to_owned()
                }
            };
            return tell(format!("Serving {} of {}. {what}.", self.about.backing, self.from.size));
        };
        match stats.clients as i64 - before.clients as i64 {
            0 => {}
            n if n > 0 => tell(format!("NBD clients: {} ({n} connected).", stats.clients)),
            n => tell(format!("NBD clients: {} ({} disconnected).", stats.clients, -n)),
        }
        match stats.area.trouble {
            trouble if trouble == before.area.trouble => {}
            Some(trouble) => tell(format!("No progress: {trouble}.")),
            None => tell("The volume makes progress again.".to_owned()),
        }
        self.narrate_area(stats, &before, unix);
        if stats.engine.plans_refused > before.engine.plans_refused {
            tell("Refused a plan that does not fit this volume; the layout does not change. Please report this.".to_owned());
        }
        self.narrate_plan(unix);
        if stats.adaptive.is_none() {
            self.narrate_move(stats, &before, unix);
        }
        let once = |said: &mut bool, now: bool, text: &str| {
            if now && !*said {
                *said = true;
                self.board.tell(unix, text.to_owned());
            }
        };
        let text = "Requests come faster than the learner takes them: it leaves some out, and counts them.";
        once(&mut self.said.missed, stats.unobserved > 0, text);
        let text =
            "Requests come faster than the watcher takes them: the busy times do not include some.";
        once(&mut self.said.unwatched, self.from.tap.missed() > 0, text);
        if let Some(b) = busy.filter(|b| b.vanilla.is_none()) {
            let text = format!("No comparison with the vanilla system: {}.", b.note);
            once(&mut self.said.vanilla, true, &text);
        }
    }

    /// Damage that the scrub found, and the end of write-back by an area that fails.
    fn narrate_area(&self, stats: &ServerStats, before: &ServerStats, unix: u64) {
        let tell = |text: String| self.board.tell(unix, text);
        let done = |stats: &ServerStats| stats.area.scrub.unwrap_or_default();
        let (now, was) = (done(stats), done(before));
        if now.damaged_pages > was.damaged_pages {
            let pages = now.damaged_pages - was.damaged_pages;
            tell(format!("The scrub found {pages} damaged pages of the area."));
        }
        if now.lost_pages > was.lost_pages {
            tell(format!(
                "{} damaged pages have no other copy: reads of them fail.",
                now.lost_pages
            ));
        }
        if stats.area.fell_back && !before.area.fell_back {
            tell("The area fails: writes go home from now on.".to_owned());
        }
        let gone = |stats: &ServerStats| stats.area.trouble == Some(Trouble::Gone);
        if gone(stats) && !gone(before) {
            tell("The area is gone with newest data: the volume is read-only.".to_owned());
        }
    }

    fn narrate_plan(&mut self, unix: u64) {
        let learned = self.from.learned.as_ref().map(|l| l.latest()).unwrap_or_default();
        if learned.plans <= self.plans {
            return;
        }
        self.plans = learned.plans;
        let text = match (learned.observed, learned.sectors) {
            (0, _) => "No requests yet: everything stays at home.".to_owned(),
            (n, 0) => {
                format!("Found nothing worth a copy in {n} requests: everything stays at home.")
            }
            (n, sectors) => format!(
                "Made a plan from {n} requests in {:.1} s: {} extents, {}, belong side by side.",
                learned.took.as_secs_f64(),
                learned.extents,
                Bytes(sectors * SECTOR_BYTES),
            ),
        };
        self.board.tell(unix, text);
    }

    fn narrate_move(&mut self, stats: &ServerStats, before: &ServerStats, unix: u64) {
        if let Some(p) = stats.progress {
            self.progress = (p.done.bytes().0, p.total.bytes().0);
            if before.progress.is_none_or(|b| b.total != p.total) {
                let pace = match self.about.background_rate {
                    Bytes(0) => "without a limit".to_owned(),
                    limit => format!("at no more than {limit}/s"),
                };
                let text = format!("Moving {} to the optimized area, {pace}.", p.total.bytes());
                self.board.tell(unix, text);
            }
        } else if stats.engine.moved_bytes > before.engine.moved_bytes || before.progress.is_some()
        {
            self.progress.0 = self.progress.1;
            let usable = Bytes(stats.copied_sectors * SECTOR_BYTES);
            self.board.tell(unix, format!("The move is over: copies of {usable} may be used."));
        }
    }
}
