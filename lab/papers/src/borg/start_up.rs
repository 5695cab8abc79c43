//! Program starts (BORG, FAST'09, 6.4 and Table 4), on made-up reads: the disk time of a start with
//! the original layout, and with a plan learned from starts of some of the programs. Computing
//! takes no time here.

use crate::synth::{StartUp, start_up};
use seekless_block::{Extent, Lba, Op, Request, Sectors, SimTime, StreamId};
use seekless_disk::{Device, DeviceSpec, Scheduler, SpinDown};
use seekless_engine::Config;
use seekless_learn::{Learner, Plan, PolicyName, Training};
use seekless_sim::{Replay, SimConfig, Simulation, shape_of};

use super::replay::{BorgPhase, failed, paper_policy};
use seekless_compare::StudyError;

/// Starts of each trained program in the training.
const TRAINED: usize = 8;
/// Reads that measure the time of one read.
const SOUNDING: u32 = 400;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Program {
    /// Disk time of its start with the original layout, in seconds; determines the number of
    /// made-up reads.
    pub seconds: f64,
    /// The kind of its reads; their number is computed.
    pub like: StartUp,
    /// Where its file system begins.
    pub at: Sectors,
    /// Whether the training includes starts of the program.
    pub trained: bool,
    /// An earlier program (by index) that shares its first reads with this one, and the share of
    /// this program's reads.
    pub shares: Option<(usize, f64)>,
}

/// The disk's cost of one program start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Started {
    /// With the original layout.
    pub vanilla: BorgPhase,
    /// With the learned plan.
    pub borg: BorgPhase,
}

/// Makes up the programs' reads from `seed`, and starts each program once in both systems, with
/// empty RAM. The number is the disk's busy time for moving, in seconds.
pub(super) fn start_ups(
    disk: &DeviceSpec,
    programs: &[Program],
    size: Sectors,
    area: Sectors,
    seed: u64,
) -> Result<(Vec<Started>, f64), StudyError> {
    let device = Device::new(disk)?;
    let engine = |area: Sectors| Config { area, ..Config::new(size) };
    let new = |area: Sectors| {
        let config = SimConfig {
            area_at: Lba(size.0),
            engine: engine(area),
            scheduler: Scheduler::Fcfs,
            spin_down: SpinDown::None,
            replay: Replay::Closed { depth: 1 },
        };
        Simulation::new(device.clone(), config).map_err(failed)
    };
    let mut reads: Vec<Vec<Extent>> = Vec::with_capacity(programs.len());
    for (i, program) in programs.iter().enumerate() {
        let seed = seed.wrapping_mul(1_000).wrapping_add(i as u64);
        let make = |reads| -> Vec<Extent> {
            let own = start_up(&StartUp { reads, ..program.like }, seed);
            own.into_iter().map(|e| Extent { start: e.start + program.at, ..e }).collect()
        };
        let sounded = make(SOUNDING);
        let took = start(&mut new(Sectors(0))?, i, &sounded)?.busy_s;
        let count = (program.seconds / took * f64::from(SOUNDING)).round().max(1.0);
        let (mut own, from) = match program.shares {
            Some((other, share)) => {
                let shared = (count * share) as usize;
                (reads[other].iter().copied().take(shared).collect::<Vec<_>>(), shared)
            }
            None => (Vec::new(), 0),
        };
        let rest = (count as u32).saturating_sub(from as u32);
        own.extend(make(rest));
        reads.push(own);
    }
    let mut learner =
        Learner::new(paper_policy(PolicyName::Borg, Training::Cumulative), shape_of(&engine(area)));
    for _ in 0..TRAINED {
        for (i, own) in reads.iter().enumerate().filter(|(i, _)| programs[*i].trained) {
            own.iter().for_each(|&e| learner.observe(SimTime(0), &read(i, e)));
        }
    }
    let (mut vanilla, mut borg) = (new(Sectors(0))?, new(area)?);
    borg.install(learner.replan(SimTime(0), &Plan::default())).map_err(failed)?;
    let moving_s = borg.lap().map_err(failed)?.background.busy().as_secs_f64();
    let mut started = Vec::with_capacity(programs.len());
    for (i, own) in reads.iter().enumerate() {
        started.push(Started {
            vanilla: start(&mut vanilla, i, own)?,
            borg: start(&mut borg, i, own)?,
        });
    }
    Ok((started, moving_s))
}

fn read(program: usize, extent: Extent) -> Request {
    let stream = StreamId(1 + program as u32);
    Request { stream, ..Request::new(SimTime(0), Op::Read, extent) }
}

fn start(
    simulation: &mut Simulation,
    program: usize,
    reads: &[Extent],
) -> Result<BorgPhase, StudyError> {
    for &extent in reads {
        simulation.offer(&read(program, extent)).map_err(failed)?;
    }
    let measured = simulation.lap().map_err(failed)?;
    Ok(BorgPhase::new(&measured, reads.iter().map(|e| e.len.0).sum(), 0.0))
}
