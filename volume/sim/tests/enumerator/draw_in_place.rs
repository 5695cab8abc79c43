//! Histories with writes in place: plans that copy most of home, and bursts of writes of any sectors.

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use seekless_block::{Op, PAGE_SECTORS};

use super::draw::{Bent, KINDS};
use super::history::{History, HistoryStep};
use super::machine::Setup;

/// The draws for writes in place.
const IN_PLACE: u64 = 0x1_97ac_e000;
/// And for lives with a trail between them.
const TRAILS: u64 = 0x7_4a11_5000;

impl History {
    /// Draws lives with writes in place, and lives without.
    pub(super) fn draw_in_place(&mut self) {
        let mut rng = Pcg64Mcg::seed_from_u64(self.seed ^ IN_PLACE);
        let setup = &mut self.setup;
        setup.in_place = true;
        setup.in_place_toggles = rng.random_ratio(1, 6);
        // A trail takes the place of plans.
        (setup.adaptive, setup.toggles) = (setup.adaptive && rng.random(), false);
        if setup.adaptive {
            setup.append_pages = 0;
        }
        let (home, grid) = (setup.home, setup.grid);
        let pages = (home - grid) / PAGE_SECTORS;
        let (plans, writes) = (rng.random_range(10..40), rng.random_range(1..5));
        for (at, step) in std::mem::take(&mut self.steps).into_iter().enumerate() {
            if at == 0 || rng.random_ratio(1, plans) {
                // Most of home, in runs, in any order.
                let (mut pieces, mut page) = (Vec::new(), rng.random_range(0..4));
                while page < pages {
                    let run = rng.random_range(1..7).min(pages - page);
                    pieces.push((grid + page * PAGE_SECTORS, run * PAGE_SECTORS, 0));
                    page += run + rng.random_range(0..3u64).saturating_sub(1);
                }
                pieces.shuffle(&mut rng);
                self.steps.push(HistoryStep::Install(pieces));
                if rng.random_ratio(3, 4) {
                    self.steps.push(HistoryStep::Settle(rng.random()));
                }
            }
            let burst = if rng.random_ratio(1, writes) { rng.random_range(1..5) } else { 0 };
            for _ in 0..burst {
                let (start, len) = (rng.random_range(0..home), rng.random_range(1..30));
                let (len, fua) = (len.min(home - start), rng.random_ratio(1, 8));
                self.steps.push(HistoryStep::Ask { op: Op::Write, start, len, fua });
                if rng.random() {
                    self.steps.push(HistoryStep::Execute(rng.random_range(0..64)));
                }
            }
            if burst > 0 && rng.random_ratio(1, 3) {
                let (op, start, len, fua) = (Op::Flush, 0, 0, false);
                self.steps.push(HistoryStep::Ask { op, start, len, fua });
            }
            self.steps.push(step);
        }
        self.draw_lives_with_a_trail();
    }

    /// Draws lives with a trail between the others: it takes the places of copies that were written.
    /// Clients repeat their reads, so that there is a trail.
    fn draw_lives_with_a_trail(&mut self) {
        let mut rng = Pcg64Mcg::seed_from_u64(self.seed ^ TRAILS);
        let setup = &mut self.setup;
        if setup.adaptive || setup.cache_pages == 0 || rng.random_ratio(2, 3) {
            return;
        }
        (setup.toggles, setup.append_pages) = (true, rng.random_range(1..3));
        setup.cache_pages = [4, 8, 16][rng.random_range(0..3)];
        setup.home_nanos = 30_000_000;
        let pages = (setup.home - setup.grid) / PAGE_SECTORS;
        let path: Vec<u64> = (0..rng.random_range(4..14))
            .map(|_| setup.grid + rng.random_range(0..pages) * PAGE_SECTORS)
            .collect();
        let (often, lives) = (rng.random_range(4..12), rng.random_range(6..20));
        for step in std::mem::take(&mut self.steps) {
            self.steps.push(step);
            if rng.random_ratio(1, often) {
                for &start in &path {
                    let (op, len, fua) = (Op::Read, PAGE_SECTORS, false);
                    self.steps.push(HistoryStep::Ask { op, start, len, fua });
                    if rng.random() {
                        self.steps.push(HistoryStep::Settle(rng.random()));
                    }
                }
            }
            if rng.random_ratio(1, lives) {
                let (choice, again) = (rng.random(), Vec::new());
                self.steps.push(HistoryStep::Crash { choice, again });
            }
        }
    }
}

/// Plans come often, and most writes fall on pages that they copy. With a bent to break, devices
/// fail too.
pub(super) fn lean_in_place(
    bent: Bent,
    rng: &mut Pcg64Mcg,
    setup: &mut Setup,
    weights: &mut [u32; KINDS],
) -> std::ops::Range<u32> {
    setup.write_back = true;
    setup.write_buffer_percent = [1, 20, 40, 60][rng.random_range(0..4)];
    setup.area = [96, 128, 160][rng.random_range(0..3)] * PAGE_SECTORS;
    let settles = rng.random_range(2..12);
    for (kind, weight) in
        [(0, 40), (1, 10), (2, 6), (3, 14), (4, 5), (5, 8), (6, 6), (11, settles), (12, 7), (16, 5)]
    {
        weights[kind] = weight;
    }
    for kind in [7, 8, 13, 14, 15, 17, 18, 22] {
        weights[kind] = rng.random_range(0..3);
    }
    if bent == Bent::Break {
        (weights[20], weights[21]) = (rng.random_range(1..4), rng.random_range(1..4));
    }
    30..120
}
