//! Orders changes of sectors. A change of a part of a sector reads the sector, and writes the whole
//! sector. Another change of this sector in between would be lost, so it must wait. Changes of
//! whole sectors do not conflict here: the engine orders them.

use seekless_block::Extent;

/// The sectors of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) extent: Extent,
    /// No other change may touch these sectors.
    pub(crate) alone: bool,
}

impl Span {
    const fn conflicts(&self, other: &Self) -> bool {
        (self.alone || other.alone) && self.extent.overlaps(other.extent)
    }
}

/// Proof of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// Conflicting changes enter one after the other, in their order of arrival.
#[derive(Debug)]
pub(crate) struct Gate<T> {
    inside: Vec<(Ticket, Span)>,
    waiting: Vec<(Span, T)>,
    next: u64,
}

impl<T> Gate<T> {
    pub(crate) const fn new() -> Self {
        Self { inside: Vec::new(), waiting: Vec::new(), next: 0 }
    }

    /// Admits a change, or keeps it until [`Self::leave`] admits it.
    pub(crate) fn enter(&mut self, span: Span, item: T) -> Option<(Ticket, T)> {
        if self.inside.iter().any(|(_, s)| s.conflicts(&span))
            || self.waiting.iter().any(|(s, _)| s.conflicts(&span))
        {
            self.waiting.push((span, item));
            return None;
        }
        let ticket = Ticket(self.next);
        self.next += 1;
        self.inside.push((ticket, span));
        Some((ticket, item))
    }

    /// Ends a change. Returns the waiting changes that may go now.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Vec<(Ticket, T)> {
        self.inside.retain(|(t, _)| *t != ticket);
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_iter().filter_map(|(span, item)| self.enter(span, item)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against the definition: of two conflicting changes, the later enters only after the
        /// earlier has left. A change without an earlier conflict does not wait.
        #[test]
        fn conflicting_changes_go_one_by_one_in_order_and_nobody_waits_for_nothing(
            spans in prop::collection::vec((0u64..12, 1u64..4, any::<bool>()), 1..40),
            leaves in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 80),
        ) {
            let spans: Vec<Span> = spans
                .iter()
                .map(|&(at, len, alone)| Span { extent: Extent::new(at, len), alone })
                .collect();
            let mut gate = Gate::new();
            let mut left = vec![false; spans.len()];
            let mut inside: Vec<(Ticket, usize)> = Vec::new();
            let (mut come, mut choices) = (0, leaves.iter().cycle());
            while left.iter().any(|l| !l) {
                let (enter, which) = choices.next().unwrap();
                if come < spans.len() && (*enter || inside.is_empty()) {
                    inside.extend(gate.enter(spans[come], come));
                    come += 1;
                } else {
                    let (ticket, i) = inside.swap_remove(which.index(inside.len()));
                    left[i] = true;
                    inside.extend(gate.leave(ticket));
                }
                for i in 0..come {
                    let blocked = (0..i).any(|j| !left[j] && spans[i].conflicts(&spans[j]));
                    let is_inside = inside.iter().any(|&(_, k)| k == i);
                    prop_assert_eq!(is_inside, !left[i] && !blocked, "change {}", i);
                }
            }
            prop_assert!(gate.inside.is_empty() && gate.waiting.is_empty());
        }
    }
}
