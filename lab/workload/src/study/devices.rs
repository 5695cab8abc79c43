//! The devices of a study: attached for one run, with a server of this project in front of the
//! device where its kind asks for that.

use std::path::{Path, PathBuf};
use std::time::Duration;

use seekless_serve::Address;
use seekless_serve::control::ask;
use seekless_serve::status::Status;

use super::error::StudyError;
use super::runner::Study;
use super::spec::DeviceKind;
use crate::host::{Attached, BlockDevice, LedgerEntry};
use crate::power::{Basis, Energy, Source};

/// The basis of an emulated disk's joules, as records say it.
const TOTAL: &str = "the emulated disk's own account of its total energy, with idling";

/// A status of an emulated disk's server: the energy so far, and two clocks.
#[derive(Clone, Debug)]
pub(super) struct DiskReading {
    disk: String,
    /// Total energy, with idling.
    joules: f64,
    /// Seconds of the disk, which may be faster than real ones.
    disk_s: f64,
    /// Real seconds of the server.
    real_s: f64,
}

impl DiskReading {
    /// Asks the server at `http`; `None` if its disk is not emulated.
    pub(super) fn ask(http: &Address) -> Option<Self> {
        let status: Status = ask(http, None, "/api/status").ok()?;
        let busy = status.busy.filter(|b| b.basis == "emulated")?;
        Some(Self {
            disk: busy.disk,
            joules: busy.total_j?,
            disk_s: busy.elapsed_s,
            real_s: status.uptime_s,
        })
    }
}

/// The readings of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct DiskReadings {
    first: Option<DiskReading>,
    last: Option<DiskReading>,
}

impl DiskReadings {
    /// Reads at the start of the measured time, and from its end on: the last reading counts.
    pub(super) fn look(
        &mut self,
        at: Duration,
        measured: Duration,
        read: impl FnOnce() -> Option<DiskReading>,
    ) {
        if at.is_zero() {
            self.first = read();
        } else if at >= measured {
            self.last = read();
        }
    }

    /// The energy in `seconds` at the mean power between the readings. The server renews its status
    /// a few times a second, so the two are not exactly as far apart as they were asked for: their
    /// own clocks count. `None` without two statuses.
    pub(super) fn energy(self, seconds: f64) -> Option<Energy> {
        let (first, last) = (self.first?, self.last?);
        let joules = last.joules - first.joules;
        let (disk_s, real_s) = (last.disk_s - first.disk_s, last.real_s - first.real_s);
        if disk_s <= 0.0 || real_s <= 0.0 {
            return None;
        }
        let source = Source {
            name: format!("disk:{}", last.disk),
            basis: Basis::Modelled,
            by: TOTAL.to_owned(),
        };
        let energy = Energy::new(source, joules * seconds / real_s, seconds, None);
        // A disk of another speed has its own seconds.
        Some(Energy { watts: joules / disk_s, ..energy })
    }
}

impl Study<'_> {
    /// Where a server of this study answers.
    pub(super) fn http(&self) -> PathBuf {
        self.ledger.dir().join("http.sock")
    }

    /// Attaches the device of a kind on its image. An emulated disk has its server only after its
    /// files were written (`filled`).
    pub(super) fn attach(
        &mut self,
        kind: &DeviceKind,
        image: &Path,
        filled: bool,
    ) -> Result<Attached, StudyError> {
        let fuse = self.ledger.dir().join("volume");
        let server = match kind {
            DeviceKind::Block { .. } => {
                let device = BlockDevice::unused(image)?;
                return Ok(Attached { device: device.path().to_owned(), served: false });
            }
            DeviceKind::Loop { direct_io } => {
                let device = self.ledger.attach_loop(image, *direct_io)?;
                return Ok(Attached { device, served: false });
            }
            DeviceKind::Emulated { .. } if !filled => {
                let device = self.ledger.attach_loop(image, true)?;
                return Ok(Attached { device, served: false });
            }
            DeviceKind::Emulated { disk, scheduler, speed } => {
                let mut args = self.server(&["disk", "emulate", disk], image, &fuse);
                let speed = speed.to_string();
                args.extend(["--scheduler", scheduler, "--speed", &speed].map(str::to_owned));
                args
            }
            DeviceKind::Served { arguments } => {
                let mut args = self.server(&["serve"], image, &fuse);
                args.extend(arguments.iter().cloned());
                args
            }
        };
        self.ledger.note(LedgerEntry::Files, &self.http())?;
        let server = self.ledger.start_server(&server, &fuse)?;
        let device = self.ledger.attach_loop(&fuse, true)?;
        self.servers.push(server);
        Ok(Attached { device, served: true })
    }

    /// The command line of a server of this project on an image.
    fn server(&self, verb: &[&str], image: &Path, fuse: &Path) -> Vec<String> {
        let text = |p: &Path| p.display().to_string();
        let mut args = vec![text(self.seekless())];
        args.extend(verb.iter().map(|&word| word.to_owned()));
        let http = format!("unix:{}", text(&self.http()));
        args.extend([text(image), "--fuse".to_owned(), text(fuse), "--http".to_owned(), http]);
        args
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(joules: f64, disk_s: f64, real_s: f64) -> DiskReading {
        DiskReading { disk: "toy".to_owned(), joules, disk_s, real_s }
    }

    fn energy(first: DiskReading, last: DiskReading, seconds: f64) -> Option<Energy> {
        DiskReadings { first: Some(first), last: Some(last) }.energy(seconds)
    }

    #[test]
    fn power_is_that_between_the_statuses_by_the_disks_own_clock() {
        // Measured for 2.25 s, between statuses that are 2 s apart.
        let e = energy(reading(5.0, 1.0, 1.0), reading(25.0, 3.0, 3.0), 2.25).unwrap();
        assert_eq!((e.watts, e.joules), (10.0, 22.5));
        assert_eq!(e.source.name, "disk:toy");
        // The same disk at twenty times the speed: the power of a disk, and what it used meanwhile.
        let e = energy(reading(100.0, 20.0, 1.0), reading(500.0, 60.0, 3.0), 2.25).unwrap();
        assert_eq!((e.watts, e.joules), (10.0, 450.0));
        let same = reading(5.0, 1.0, 1.0);
        assert_eq!(energy(same.clone(), same, 0.2), None, "one status, twice");
    }

    #[test]
    fn a_warm_up_and_what_follows_are_not_in_the_energy() {
        // 5 W before the measured second, and 10 W in it.
        let mut readings = DiskReadings::default();
        let measured = Duration::from_secs(1);
        for (at_ms, joules) in [(0, 50.0), (500, 55.0), (1000, 60.0), (1010, 60.1)] {
            let s = 10.0 + at_ms as f64 / 1e3;
            let at = Duration::from_millis(at_ms);
            readings.look(at, measured, || Some(reading(joules, s, s)));
        }
        let e = readings.energy(1.01).unwrap();
        assert!((e.watts - 10.0).abs() < 1e-9 && (e.joules - 10.1).abs() < 1e-9, "{e:?}");
    }
}
