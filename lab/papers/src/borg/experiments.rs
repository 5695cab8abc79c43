//! The experiments as section 6 describes them. Requests, disks and areas have the paper's numbers;
//! a comment names each number that the paper does not print.

use seekless_block::{Bytes, Duration, Sectors, SimTime};
use seekless_disk::{Scheduler, catalogue};
use seekless_learn::{PolicyName, Training};
use seekless_trace::Source;

use super::printed::{PrintedStart, STARTS};
use super::replay::{BorgJob, BorgPhase, BorgRun, BorgSystem, borg};
use super::start_up::{Program, Started, start_ups};
use crate::claims::{Answerer, BOTH, Beyond, Paper};
use crate::synth::{Matched, StartUp, Synthetic, counted, matched};
use crate::{PaperError, Progress};

const HOUR: u64 = 3_600_000_000_000;
const WEEK: u64 = 7 * 24 * HOUR;
/// The traces of the Subversion server and the developer were replayed 168 times as fast, a week in
/// an hour (6.1). The web server and the virtual machines ran.
fn speed(trace: &str) -> u64 {
    match trace {
        "borg-svn" | "borg-developer" => 168,
        _ => 1,
    }
}
/// Drives like the paper's have write caches, and file systems of 2007 send no flushes: a write is
/// acknowledged from the drive's RAM. The paper says neither. Our models of its WD drives have no write cache; our write
/// buffer gathers writes in RAM for a second.
const GATHER: Duration = Duration::from_millis(1_000);
/// Requests that wait for the disk are merged with their neighbours, and served in one sweep after
/// another, in order of address: the paper's Linux has an elevator below BORG.
const SCHEDULER: Scheduler = Scheduler::Elevator;
/// Reconfigurations of a replay, equally spaced (6).
const RECONFIGURATIONS: u64 = 4;
/// Share of oaimpress's start-up reads that are oowriter's, "large shared libraries" (6.4). Not
/// printed: our guess.
const SHARED: f64 = 0.8;

/// A disk of Table 3, and the area on it.
pub(super) struct Host {
    pub(super) name: &'static str,
    pub(super) disk: &'static str,
    pub(super) area_gb: f64,
}

pub(super) const O1: Host = Host { name: "O1", disk: "wd2500aaks", area_gb: 1.0 };
pub(super) const O2: Host = Host { name: "O2", disk: "wd360gd", area_gb: 2.0 };
pub(super) const O3: Host = Host { name: "O3", disk: "maxtor-6l020", area_gb: 2.0 };
pub(super) const O4: Host = Host { name: "O4", disk: "wd2500aaks", area_gb: 8.0 };
pub(super) const O5: Host = Host { name: "O5", disk: "maxtor-6l020", area_gb: 1.0 };
/// Size of O3's file system in GB.
const O3_SIZE: f64 = 15.0;
/// GB of a virtual machine's partition, and seconds of its boot with vanilla (6.3).
const PARTITION: f64 = 4.0;
const BOOT: f64 = 167.0;

/// Vanilla and one or more learning systems over one trace: Figures 6, 7, 8 and 11. `R`: a replay's
/// results; its number, until all have run.
pub(super) struct Phases<R = BorgRun> {
    pub(super) figure: &'static str,
    pub(super) trace: &'static str,
    pub(super) host: Host,
    pub(super) write_buffer_percent: u8,
    /// The first is vanilla.
    pub(super) systems: Vec<(&'static str, R)>,
}

impl Phases {
    pub(super) fn vanilla(&self) -> Option<&BorgRun> {
        self.systems.first().map(|s| &s.1)
    }

    /// The learning systems that answer for the paper's rule, or for ours.
    pub(super) fn of(&self, who: Answerer) -> Vec<&BorgRun> {
        let learned = self.systems.iter().skip(1);
        let all = learned.filter(|s| s.0.starts_with("borg-paper") == (who == Paper));
        all.map(|s| &s.1).collect()
    }
}

/// The policy that answers.
const fn policy(who: Answerer) -> PolicyName {
    match who {
        Paper => PolicyName::BorgPaper,
        Beyond => PolicyName::Borg,
    }
}

/// A setting with its throughput improvements: in normal phases, and with moving and the last
/// destaging.
pub(super) type CurvePoint = (String, f64, f64);

/// A curve of Figure 12: the varied setting, and the trace.
pub(super) struct Curve<P = CurvePoint> {
    pub(super) varied: &'static str,
    pub(super) trace: &'static str,
    pub(super) who: Answerer,
    pub(super) points: Vec<P>,
}

pub(super) struct Results {
    pub(super) scale: f64,
    pub(super) seed: u64,
    pub(super) table1: Vec<(&'static str, [Matched; 8])>,
    pub(super) phases: Vec<Phases>,
    pub(super) starts: Vec<Started>,
    pub(super) starts_moving_s: f64,
    /// The boots of virtual machines (6.3).
    pub(super) boots: Vec<Started>,
    pub(super) curves: Vec<Curve>,
}

impl Results {
    pub(super) fn figure(&self, figure: &str) -> Option<&Phases> {
        self.phases.iter().find(|p| p.figure == figure)
    }
}

/// Sectors of a cylinder of a catalogue disk, on the mean.
pub(super) fn cylinder(disk: &str) -> Result<f64, PaperError> {
    let spec = catalogue::get(disk)?;
    let cylinders: u64 = spec.geometry.zones.iter().map(|z| u64::from(z.cylinders)).sum();
    Ok(spec.capacity_sectors as f64 / cylinders.max(1) as f64)
}

struct Replays<'a> {
    scale: f64,
    jobs: Vec<BorgJob<'a>>,
}

impl<'a> Replays<'a> {
    fn bytes(&self, gb: f64) -> Bytes {
        // Whole segments of the area.
        let mib = (gb * self.scale * 1024.0).round().max(4.0) as u64;
        Bytes(mib << 20)
    }

    fn add(
        &mut self,
        (synthetic, source): &'a Week,
        disk: &str,
        policy: PolicyName,
        area: Option<(f64, u8)>,
        training: Training,
        reconfigure: Vec<SimTime>,
    ) -> Result<usize, PaperError> {
        let (area, write_buffer_percent) =
            area.map_or((Bytes(0), 0), |(gb, percent)| (self.bytes(gb), percent));
        let system = BorgSystem {
            disk: catalogue::device(disk)?,
            policy,
            area,
            write_buffer_percent,
            gather: GATHER,
            training,
            speed: speed(synthetic.personality.name),
            scheduler: SCHEDULER,
            reconfigure,
        };
        let capacity = synthetic.size().sectors_ceil();
        self.jobs.push(BorgJob { source, capacity, system });
        Ok(self.jobs.len() - 1)
    }
}

/// Times of reconfigurations, equally spaced in a week.
fn spaced() -> Vec<SimTime> {
    (1..=RECONFIGURATIONS).map(|k| SimTime(WEEK * k / (RECONFIGURATIONS + 1))).collect()
}

/// Times of reconfigurations: a base reconfiguration at six hours (6.5), then one every `hours`: 20
/// at 8 hours, 2 at 72. The paper has 18 and 1 (6.5.1).
fn every(hours: u64) -> Vec<SimTime> {
    let base = 6 * HOUR;
    std::iter::successors(Some(base), |at| Some(at + hours * HOUR))
        .take_while(|at| *at < WEEK)
        .map(SimTime)
        .collect()
}

/// A setting of Figure 12: its name, hours between reconfigurations, GB of the area, per cent of
/// write buffer.
type Setting = (String, u64, f64, u8);

fn settings(trace: &str) -> Vec<(&'static str, Vec<Setting>)> {
    let developer = trace == "borg-developer";
    // 6.5.2: the best intervals; 6.5.3: the best sizes.
    let (hours, gb) = if developer { (72, 2.0) } else { (24, 4.0) };
    let intervals = [8, 12, 24, 48, 72].map(|h| (format!("{h} h"), h, 1.0, 50)).to_vec();
    let sizes = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
        .map(|gb| (format!("{} MiB", gb * 1024.0), hours, gb, 50))
        .to_vec();
    let buffers = [0, 25, 50, 75, 100].map(|p| (format!("{p} %"), hours, gb, p)).to_vec();
    vec![("interval", intervals), ("size of the area", sizes), ("write buffer", buffers)]
}

/// A made-up week, and its trace.
type Week = (Synthetic, Source);

/// A setting of a curve with the numbers of two replays: vanilla, and with the setting.
type CurveJob = (String, usize, usize);

impl<'a> Replays<'a> {
    /// Figures 6, 7, 8 and 11.
    fn phases(
        &mut self,
        figure: &'static str,
        week: &'a Week,
        host: Host,
        percent: u8,
    ) -> Result<Phases<usize>, PaperError> {
        // The paper does not name the training of the replays of 6.1: cumulative, as 6.3 says of
        // its own. Nor does it name the write buffer of the web server and the virtual machines: 20
        // %, as of the Subversion server.
        let area = Some((host.area_gb, percent));
        let (c, p) = (Training::Cumulative, Training::Partial);
        let learning: &[(&str, Answerer, Training)] = match figure {
            "8" => &[
                ("borg-C", Beyond, c),
                ("borg-P", Beyond, p),
                ("borg-paper-C", Paper, c),
                ("borg-paper-P", Paper, p),
            ],
            _ => &[("borg", Beyond, c), ("borg-paper", Paper, c)],
        };
        let vanilla = self.add(week, host.disk, PolicyName::Borg, None, c, spaced())?;
        let mut systems = vec![("vanilla", vanilla)];
        for &(name, who, training) in learning {
            let run = self.add(week, host.disk, policy(who), area, training, spaced())?;
            systems.push((name, run));
        }
        let trace = week.0.personality.name;
        Ok(Phases { figure, trace, host, write_buffer_percent: percent, systems })
    }

    /// The curves of Figure 12 over one trace.
    fn curves(&mut self, week: &'a Week) -> Result<Vec<Curve<CurveJob>>, PaperError> {
        // The paper does not name the training; the interval "becomes larger" with the training set.
        let training = Training::Partial;
        let trace = week.0.personality.name;
        let none = every(24 * 7);
        let vanilla = self.add(week, O1.disk, PolicyName::Borg, None, training, none)?;
        let mut curves = Vec::new();
        for who in BOTH {
            for (varied, settings) in settings(trace) {
                let mut points = Vec::new();
                for (name, hours, gb, percent) in settings {
                    let (area, times) = (Some((gb, percent)), every(hours));
                    let at = self.add(week, O1.disk, policy(who), area, training, times)?;
                    points.push((name, vanilla, at));
                }
                curves.push(Curve { varied, trace, who, points });
            }
        }
        Ok(curves)
    }
}

impl Curve<CurveJob> {
    fn results(self, runs: &[BorgRun]) -> Curve {
        // The first phase lies before the base reconfiguration.
        let busy = |run: &BorgRun| {
            let all = BorgPhase::sum(&run.phases[1..]);
            let later = run.reconfigurations.iter().skip(1);
            let moving: f64 = later.map(|r| r.reconfigurer_s).sum();
            (all.disk_s(), all.disk_s() + moving + run.drained.disk_s())
        };
        let point = |(name, vanilla, at): CurveJob| {
            let (vanilla, _) = busy(&runs[vanilla]);
            let (normal, all) = busy(&runs[at]);
            (name, vanilla / normal - 1.0, vanilla / all - 1.0)
        };
        let points = self.points.into_iter().map(point).collect();
        Curve { varied: self.varied, trace: self.trace, who: self.who, points }
    }
}

pub(super) fn run(scale: f64, seed: u64, progress: &Progress<'_>) -> Result<Results, PaperError> {
    let week = |name| -> Result<Week, PaperError> {
        let synthetic = Synthetic::new(name, scale, seed).map_err(PaperError::Invalid)?;
        Ok((synthetic, synthetic.source()))
    };
    let (office, developer) = (week("borg-office")?, week("borg-developer")?);
    let (svn, web, vmm) = (week("borg-svn")?, week("borg-web")?, week("borg-vmm")?);
    let mut replays = Replays { scale, jobs: Vec::new() };
    let phases = [
        replays.phases("6", &svn, O2, 20)?,
        replays.phases("7", &developer, O1, 40)?,
        replays.phases("8", &web, O4, 20)?,
        replays.phases("11", &vmm, O5, 20)?,
    ];
    let mut curves = replays.curves(&developer)?;
    curves.extend(replays.curves(&svn)?);

    let all = replays.jobs.len() as u64;
    let mut runs = borg(&replays.jobs, &|done| progress("replaying", done as u64, all))?;
    let curves = curves.into_iter().map(|c| c.results(&runs)).collect();
    let mut results_of = |p: Phases<usize>| {
        let Phases { figure, trace, host, write_buffer_percent, systems } = p;
        let systems = systems.into_iter();
        let systems = systems.map(|(name, at)| (name, std::mem::take(&mut runs[at]))).collect();
        Phases { figure, trace, host, write_buffer_percent, systems }
    };
    let phases = phases.into_iter().map(&mut results_of).collect();
    let mut table1 = Vec::new();
    for (synthetic, source) in [&office, &developer, &svn, &web] {
        let counts = counted(synthetic, source, progress)?;
        table1.push((synthetic.personality.name, matched(synthetic, &counts)));
    }
    let (starts, starts_moving_s) = starts(seed)?;
    let boots = boots(seed)?;
    Ok(Results { scale, seed, table1, phases, starts, starts_moving_s, boots, curves })
}

fn sectors(gb: f64) -> Sectors {
    Sectors((gb * f64::from(1 << 30) / 512.0) as u64 / 8 * 8)
}

/// Boots of four virtual machines on O5, each in its partition of 4 GB, after training with all
/// four boots (6.3). The paper prints the seconds alone: the reads are like Table 4's programs on
/// the mean.
fn boots(seed: u64) -> Result<Vec<Started>, PaperError> {
    const MACHINES: u64 = 4;
    let mean =
        |of: fn(&PrintedStart) -> f64| STARTS.iter().map(of).sum::<f64>() / STARTS.len() as f64;
    let size = sectors(PARTITION);
    let like = StartUp {
        reads: 0,
        sectors: 100.0 / mean(|s| s.random[0]),
        distance: mean(|s| s.seek[0]) * cylinder(O5.disk)?,
        size,
    };
    let machine =
        |i| Program { seconds: BOOT, like, at: Sectors(i * size.0), trained: true, shares: None };
    let machines: Vec<Program> = (0..MACHINES).map(machine).collect();
    let disk = catalogue::device(O5.disk)?;
    let all = Sectors(MACHINES * size.0);
    Ok(start_ups(&disk, &machines, all, sectors(O5.area_gb), seed)?.0)
}

/// Table 4 on O3.
fn starts(seed: u64) -> Result<(Vec<Started>, f64), PaperError> {
    let cylinder = cylinder(O3.disk)?;
    let programs: Vec<Program> = STARTS
        .iter()
        .map(|s| Program {
            seconds: s.seconds[0],
            like: StartUp {
                reads: 0,
                sectors: 100.0 / s.random[0],
                distance: s.seek[0] * cylinder,
                size: sectors(O3_SIZE),
            },
            at: Sectors(0),
            trained: s.trained,
            shares: (s.name == "oaimpress").then_some((1, SHARED)),
        })
        .collect();
    let disk = catalogue::device(O3.disk)?;
    Ok(start_ups(&disk, &programs, sectors(O3_SIZE), sectors(O3.area_gb), seed)?)
}

#[cfg(test)]
mod tests {
    use super::every;

    #[test]
    fn plans_after_the_base_plan_are_as_many_as_is_said() {
        assert_eq!([8, 72].map(|hours| every(hours).len() - 1), [20, 2]);
    }
}
