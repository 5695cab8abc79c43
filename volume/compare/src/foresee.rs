//! The pass before the run: finds places of areas, the reads that a clairvoyant policy knows, and
//! free space.

use std::ops::ControlFlow;

use seekless_block::{Extent, Lba, Op};
use seekless_engine::ram_pages;
use seekless_learn::{AreaAt, Policy, PolicyName};

use crate::error::StudyError;
use crate::replicas::Touched;
use crate::rolling::{AssumedFree, FoldedTrace, Learners, RollingStage, Tell, area_of};
use crate::system::System;

/// Facts known before the first request is served.
#[derive(Debug, Default)]
pub(crate) struct Foreseen {
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
        || policy.has_area() && policy.area_at == AreaAt::Median && !policy.adapts()
}

/// True if the policy knows all reads of the trace.
pub(crate) fn is_clairvoyant(system: &System) -> bool {
    system.policy().is_some_and(|p| p.name() == PolicyName::Clairvoyant)
}

/// Reads the trace once, as far as any system needs it.
pub(crate) fn foresee(
    trip: &FoldedTrace<'_>,
    systems: &[System],
    progress: Tell<'_>,
) -> Result<Foreseen, StudyError> {
    let policies = || systems.iter().filter_map(System::policy);
    let clairvoyant = systems.iter().any(is_clairvoyant);
    let replicates = policies().any(|p| p.replicates());
    let places = policies().any(|p| learns_place(&p));
    let mut foreseen = Foreseen { area_at: vec![None; systems.len()], ..Foreseen::default() };
    if !replicates && !clairvoyant && !places {
        return Ok(foreseen);
    }
    let mut learners = Learners::of(trip, systems, learns_place);
    let mut touched = replicates.then(|| Touched::new(trip.scan.capacity));
    trip.each(|reader, stop| {
        if stop.fold == 0 {
            learners.observe(&stop);
        } else if !replicates && !clairvoyant {
            return Ok(ControlFlow::Break(()));
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
    for (system, area_at) in systems.iter().zip(&mut foreseen.area_at) {
        let policy = system.policy().filter(learns_place);
        let learner = policy.and_then(|policy| learners.by(&policy));
        *area_at = learner.and_then(|learner| area_of(system, learner, &trip.scan));
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
