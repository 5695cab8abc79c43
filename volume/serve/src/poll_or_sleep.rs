//! When the loop of a volume polls before it sleeps.

use std::time::Duration;

/// Time to poll for the next request before sleeping, if one is likely: about the cost of a
/// wake-up.
pub(crate) const SPIN: Duration = Duration::from_micros(50);
/// Decides whether to poll for a moment before sleeping. A client that waits for each reply sends
/// its next request within microseconds, faster than a wake-up. Polling is a waste if there is no
/// such client, or if the client needs this core.
#[derive(Debug, Default)]
pub(crate) struct Eagerness {
    /// The last sleep was short: the next event is probably near.
    near: bool,
    /// Rounds to sleep at once, after polling in vain.
    rest: u32,
    /// Length of the next pause: doubled after polling in vain, halved after success.
    rest_next: u32,
}

impl Eagerness {
    /// With this limit, polling in vain costs a few percent of the rounds between. A longer pause
    /// would affect a client long after it paused.
    const REST_MAX: u32 = 127;

    pub(crate) fn wants_spin(&mut self) -> bool {
        if self.rest > 0 {
            self.rest -= 1;
            return false;
        }
        self.near
    }

    pub(crate) fn spun(&mut self, found: bool) {
        if found {
            self.rest_next /= 2;
        } else {
            self.near = false;
            self.rest = self.rest_next;
            self.rest_next = (self.rest_next * 2 + 1).min(Self::REST_MAX);
        }
    }

    pub(crate) fn slept(&mut self, time: Duration) {
        self.near = time < 2 * SPIN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_pays_or_is_given_up() {
        let mut e = Eagerness::default();
        assert!(!e.wants_spin(), "an idle server sleeps");
        e.slept(Duration::from_micros(20));
        assert!(e.wants_spin(), "somebody asks again at once");
        // Polls in vain, each after a short sleep: longer and longer pauses, up to a limit.
        let mut looks = 0;
        for _ in 0..100_000 {
            e.slept(Duration::from_micros(20));
            if e.wants_spin() {
                looks += 1;
                e.spun(false);
            }
        }
        assert!((700..900).contains(&looks), "{looks}");
        // After success, polling soon happens every time.
        for _ in 0..30_000 {
            if e.wants_spin() {
                e.spun(true);
            } else {
                e.slept(Duration::from_micros(20));
            }
        }
        assert_eq!((e.rest, e.rest_next), (0, 0));
        e.slept(Duration::from_millis(1));
        assert!(!e.wants_spin(), "nothing is near");
    }
}
