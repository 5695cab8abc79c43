//! The pass before the run: finds places of areas, the plans of an oracle, and free space.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use seekless_block::{Extent, Lba, Op, SimTime};
use seekless_engine::ram_pages;
use seekless_learn::{AreaAt, Plan, Policy, PolicyName};

use crate::error::StudyError;
use crate::replicas::Touched;
use crate::rolling::{AssumedFree, Learners, RollingStage, Stop, Tell, Trip, area_of, plan_of};
use crate::system::System;

/// Facts known before the first request is served.
#[derive(Debug, Default)]
pub(crate) struct Foreseen {
    /// An oracle's plans, by system and fold.
    pub(crate) plans: BTreeMap<(usize, usize), Plan>,
    /// By system, the first sector of its area, if that is learned.
    pub(crate) area_at: Vec<Option<Lba>>,
    /// All reads, if a policy knows them.
    pub(crate) reads: seekless_learn::Foreseen,
    /// Free space, for systems with replicas.
    pub(crate) free: Vec<Extent>,
    /// A note for the reader.
    pub(crate) note: Option<String>,
}

/// True if the policy learns the place of its area from reads.
fn learns_place(policy: &Policy) -> bool {
    policy.name() == PolicyName::OuterZone
        || policy.has_area()
            && !policy.adapts()
            && policy.name() != PolicyName::Judged
            && policy.area_at == AreaAt::Median
}

/// Reads the trace once, as far as any system needs it.
pub(crate) fn foresee(
    trip: &Trip<'_>,
    systems: &[System],
    progress: Tell<'_>,
) -> Result<Foreseen, StudyError> {
    let policies = || systems.iter().filter_map(System::policy);
    let oracles = policies().any(|p| p.name() == PolicyName::Oracle);
    let clairvoyant = policies().any(|p| p.name() == PolicyName::Clairvoyant);
    let replicates = policies().any(|p| p.replicates());
    let mut foreseen = Foreseen { area_at: vec![None; systems.len()], ..Foreseen::default() };
    if !oracles && !replicates && !clairvoyant && !policies().any(|p| learns_place(&p)) {
        return Ok(foreseen);
    }
    let mut learners =
        Learners::of(trip, systems, |p| p.name() == PolicyName::Oracle || learns_place(p));
    let mut touched = replicates.then(|| Touched::new(trip.scan.capacity));
    let (mut fold, mut over) = (0, false);
    let mut began = SimTime::ZERO;
    trip.each(|reader, stop| {
        if stop.fold != fold {
            foreseen.close(trip, systems, &learners, fold);
            over = !oracles && !replicates && !clairvoyant;
            if over {
                return Ok(ControlFlow::Break(()));
            }
            if trip.cut.trains {
                // Systems with foresight know only the measured part.
                learners.restart(trip);
            }
            (fold, began) = (stop.fold, stop.now);
        }
        if oracles || stop.fold == 0 {
            // The measured part is foreseen as a whole: the learner forgets nothing of it.
            let now = if trip.cut.trains && fold > 0 { began } else { stop.now };
            learners.observe(&Stop { now, ..stop });
        }
        if clairvoyant && stop.request.op == Op::Read {
            let pages = ram_pages(trip.scan.grid, stop.request.extent);
            pages.for_each(|page| foreseen.reads.is_ahead(page));
        }
        if let Some(touched) = &mut touched {
            touched.observe(&stop.request);
        }
        if stop.index.is_multiple_of(65_536) {
            progress(RollingStage::Foresee, reader.progress());
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if !over {
        foreseen.close(trip, systems, &learners, fold);
    }
    if let Some(touched) = touched.filter(|t| !t.discards()) {
        let AssumedFree { share, seed } = trip.options.free;
        let (free, had) = touched.assumed_free(share, seed);
        foreseen.free = free;
        foreseen.note = Some(format!(
            "the trace discards nothing: {:.0}% of the device, which the trace never touches, is assumed to be free (seed {seed}); {:.0}% were requested",
            had * 100.0,
            share * 100.0
        ));
    }
    Ok(foreseen)
}

impl Foreseen {
    /// A fold has ended.
    fn close(&mut self, trip: &Trip<'_>, systems: &[System], learners: &Learners, fold: usize) {
        for (i, system) in systems.iter().enumerate() {
            let Some(policy) = system.policy() else { continue };
            let Some(learner) = learners.by(&policy) else { continue };
            let oracle = policy.name() == PolicyName::Oracle;
            if oracle && fold > 0 {
                let plan = plan_of(system, learner, &trip.scan);
                self.plans.extend(plan.map(|plan| ((i, fold), plan)));
            }
            // The place is learned from the first fold; an oracle of the measured part learns it
            // from that part.
            let its_fold = usize::from(oracle && trip.cut.trains);
            if learns_place(&policy) && fold == its_fold {
                self.area_at[i] = area_of(system, learner, &trip.scan);
            }
        }
    }
}
