//! How clients ask: one request right behind another, or with time between them. Clients that press
//! gain most if the disk works in long pieces. Others gain most if the disk is free when they ask.

use seekless_block::{Duration, SimTime};

/// Longest gap that counts.
const GAP_MOST: Duration = Duration(40_000_000);
/// Clients press while the mean gap is shorter than this.
const PRESSED: Duration = Duration(5_000_000);
/// One gap is this part of the mean: clients that think are noticed within some ten requests, clients
/// that press within some hundred.
const WEIGHT: f32 = 1.0 / 32.0;
/// Share of the gaps that are shorter than the short gap.
const SHORT: f32 = 0.05;
/// The short gap grows and shrinks by parts of this, in nanoseconds.
const STEP: f32 = 1_000_000.0;

/// The gaps that clients leave before they ask, and before they wait for an I/O.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// Since when no client waits for an I/O; `None` while one waits.
    quiet_since: Option<SimTime>,
    /// The last request.
    asked_at: SimTime,
    /// Mean gap before a request, in nanoseconds. Pages that RAM holds are asked for too: a job
    /// whose pages were all read ahead seldom waits, but leaves no time.
    gap: f32,
    /// Most gaps before an I/O are longer, in nanoseconds.
    short: f32,
}

impl Pace {
    /// A client asks. If another one waits for an I/O, there is no gap.
    pub(crate) fn asked(&mut self, now: SimTime) {
        let answered = self.quiet_since.map_or(now, |quiet| quiet.max(self.asked_at));
        let gap = now.since(answered).min(GAP_MOST);
        self.gap += WEIGHT * (gap.0 as f32 - self.gap);
        self.asked_at = now;
    }

    /// Whether a client waits for an I/O now.
    pub(crate) fn look(&mut self, now: SimTime, waits: bool) {
        match self.quiet_since {
            Some(since) if waits => {
                let gap = now.since(since).min(GAP_MOST).0 as f32;
                self.short += STEP * if gap < self.short { SHORT - 1.0 } else { SHORT };
                self.short = self.short.max(0.0);
                self.quiet_since = None;
            }
            None if !waits => self.quiet_since = Some(now),
            _ => {}
        }
    }

    /// Since when no client waits; `None` while one waits.
    pub(crate) const fn quiet_since(&self) -> Option<SimTime> {
        self.quiet_since
    }

    /// Whether clients ask without a pause.
    pub(crate) fn presses(&self) -> bool {
        self.gap < PRESSED.0 as f32
    }

    /// A time that nearly all gaps exceed.
    pub(crate) const fn short_gap(&self) -> Duration {
        Duration(self.short as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests that take 8 ms each, and begin this long after the end of the one before.
    fn ask(pace: &mut Pace, at: &mut u64, gap: u64, requests: u32) {
        for _ in 0..requests {
            *at += gap;
            pace.asked(SimTime(*at));
            pace.look(SimTime(*at), true);
            *at += 8_000_000;
            pace.look(SimTime(*at), false);
            pace.look(SimTime(*at + gap / 2), false);
        }
    }

    #[test]
    fn a_client_that_thinks_is_noticed_soon_and_one_that_presses_late() {
        let (mut pace, mut at) = (Pace::default(), 0);
        assert!(pace.presses(), "nothing is known");
        ask(&mut pace, &mut at, 0, 100);
        assert!(pace.presses());
        ask(&mut pace, &mut at, 20_000_000, 40);
        assert!(!pace.presses());
        ask(&mut pace, &mut at, 0, 20);
        assert!(!pace.presses(), "a burst");
        ask(&mut pace, &mut at, 0, 1000);
        assert!(pace.presses());
        assert_eq!(pace.quiet_since(), Some(SimTime(at)));
    }

    #[test]
    fn a_client_whose_pages_are_in_ram_presses_as_well() {
        let (mut pace, mut at) = (Pace::default(), 0);
        for _ in 0..1000 {
            ask(&mut pace, &mut at, 1_000_000, 1);
            for _ in 0..20 {
                at += 1_000_000;
                pace.asked(SimTime(at));
                pace.look(SimTime(at), false);
            }
        }
        assert!(pace.presses());
        assert!(pace.short_gap() > Duration(15_000_000), "20 ms before each I/O");
    }
}
