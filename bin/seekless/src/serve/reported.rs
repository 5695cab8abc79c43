//! What a running server has said already, so that each change is said once.

use indicatif::ProgressBar;
use seekless_block::Sectors;
use seekless_engine::Trouble;
use seekless_host::notify::Manager;
use seekless_serve::{ServerHandle, ServerStats, Streams};

use super::{Args, tell_running};

/// The service manager, and the last reported source of the learner's requests.
pub(super) struct Reported {
    pub(super) manager: Option<Manager>,
    streams: Streams,
    lost: u64,
    fell_back: bool,
    gone: bool,
}

impl Reported {
    pub(super) fn new(manager: Option<Manager>) -> Self {
        Self { manager, streams: Streams::default(), lost: 0, fell_back: false, gone: false }
    }

    pub(super) fn manager(&self, state: &str, status: &str) {
        if let Some(manager) = &self.manager {
            manager.tell(state, status);
        }
    }

    /// Reports an area that lost data or fails.
    pub(super) fn area(&mut self, stats: &ServerStats, say: &dyn Fn(&str)) {
        let lost = stats.area.scrub.unwrap_or_default().lost_pages;
        if lost > self.lost {
            say(&format!(
                "DATA LOST: {lost} damaged pages of the area have no other copy; reads of them fail: see `seekless volume status`"
            ));
        }
        if stats.area.fell_back && !self.fell_back {
            say("the area fails: writes go home from now on; see `seekless volume status`");
        }
        let gone = stats.area.trouble == Some(Trouble::Gone);
        if gone && !self.gone {
            say(&format!(
                "DATA LOST unless the area returns: {} of newest data are only in the area, and the area is gone; the volume is read-only",
                Sectors(stats.area.dirty_sectors).bytes()
            ));
        }
        (self.lost, self.fell_back, self.gone) = (lost, stats.area.fell_back, gone);
    }

    /// Reports a changed source of the learner's requests, and the status.
    pub(super) fn status(
        &mut self,
        args: &Args,
        server: &ServerHandle,
        line: &ProgressBar,
        state: Option<&str>,
        status: String,
    ) {
        let streams = server.streams();
        if streams != self.streams {
            tell_running(args, line, &format!("streams: {streams}"));
            self.streams = streams;
        }
        if let Some(state) = state {
            self.manager(state, &status);
        }
        line.set_message(status);
    }
}
