//! A window of a chase: how many pieces may be ahead of a program.

/// Pieces of the first window. Windows count pieces, and not pages: a seek of the disk costs more
/// than the pages of a piece, and a program may use these pages throughout its run.
pub(super) const WINDOW_FIRST: usize = 64;
/// The same, for the program that ran the job last.
pub(super) const WINDOW_SAME: usize = 256;
/// A smaller window is closed.
const WINDOW_LEAST: usize = 8;
/// Largest window in pieces.
const WINDOW_MOST: usize = 1 << 20;
/// A window grows and shrinks by this factor.
const STEP: usize = 4;
/// Fewest judged pieces that shrink a window.
const JUDGED: u32 = 16;

#[derive(Debug, Default)]
pub(super) struct Window {
    /// Next position in the job to look at.
    pub(super) next: usize,
    /// Positions before this one are judged.
    pub(super) judged: usize,
    /// Learned from the program's uses, in pieces.
    pub(super) size: usize,
    /// The limits of the moment allow no larger window. When they allow more, the learned size is
    /// still there.
    pub(super) most: usize,
    /// Pieces that were ordered, and of which no page was used yet.
    pub(super) ahead: usize,
    /// Pieces that were used since the window last grew.
    uses: usize,
    pub(super) good: u32,
    pub(super) bad: u32,
    pub(super) open: bool,
}

impl Window {
    pub(super) const fn new(at: usize, size: usize, open: bool) -> Self {
        let most = WINDOW_MOST;
        Self { next: at, judged: at, size, most, ahead: 0, uses: 0, good: 0, bad: 0, open }
    }

    /// True if one piece more may be ahead now.
    pub(super) fn has_space(&self) -> bool {
        self.open && self.ahead < self.size.min(self.most)
    }

    pub(super) fn hit(&mut self) {
        self.ahead = self.ahead.saturating_sub(1);
        self.uses += 1;
        // A window that the limits make smaller says nothing about a larger one.
        let tried = self.size <= self.most;
        if tried && self.uses * STEP >= self.size && self.good >= self.bad {
            self.uses = 0;
            self.size = (self.size * STEP).min(WINDOW_MOST);
        }
    }

    pub(super) fn verdict(&mut self, used: bool) {
        *if used { &mut self.good } else { &mut self.bad } += 1;
        if self.good + self.bad > 8 * JUDGED {
            (self.good, self.bad) = (self.good / 2, self.bad / 2);
        }
        if self.bad > self.good && self.bad >= JUDGED {
            (self.good, self.bad, self.uses) = (0, 0, 0);
            // Too large is what was ahead, and not what the limits kept back.
            self.size = self.size.min(self.most) / STEP;
            self.open = self.size >= WINDOW_LEAST;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_the_limits_hold_does_not_grow_and_shrinks_from_there() {
        let mut window = Window::new(0, WINDOW_SAME, true);
        window.most = WINDOW_FIRST;
        (0..WINDOW_SAME).for_each(|_| window.hit());
        assert_eq!(window.size, WINDOW_SAME, "kept");
        (0..JUDGED).for_each(|_| window.verdict(false));
        assert_eq!((window.size, window.open), (WINDOW_FIRST / STEP, true));
        window.most = WINDOW_MOST;
        (0..WINDOW_FIRST).for_each(|_| window.hit());
        assert_eq!(window.size, WINDOW_FIRST * STEP, "as usual");
        window.most = WINDOW_FIRST / STEP;
        (0..JUDGED).for_each(|_| window.verdict(false));
        assert_eq!((window.size, window.open), (WINDOW_FIRST / STEP / STEP, false));
    }
}
