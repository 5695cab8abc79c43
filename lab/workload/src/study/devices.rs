//! The devices of a study: attached for one run, with a server of this project in front of the
//! device where its kind asks for that.

use std::path::{Path, PathBuf};

use seekless_serve::Address;
use seekless_serve::control::ask;
use seekless_serve::status::Status;

use super::error::StudyError;
use super::runner::Study;
use super::spec::DeviceKind;
use crate::host::{Attached, BlockDevice, LedgerEntry};
use crate::power::{Basis, Energy, Source};

/// The energy that an emulated disk has used.
#[derive(Clone, Debug)]
pub(super) struct DiskEnergy {
    disk: String,
    joules: f64,
}

impl DiskEnergy {
    /// The energy since `first`, times `share`, as used within `seconds`.
    pub(super) fn since(self, first: &Self, share: f64, seconds: f64) -> Energy {
        let source = Source {
            name: format!("disk:{}", self.disk),
            basis: Basis::Modelled,
            by: "the emulated disk's own account of seeking, turning, moving data and idling"
                .to_owned(),
        };
        Energy::new(source, (self.joules - first.joules) * share, seconds, None)
    }
}

impl Study<'_> {
    fn http(&self) -> PathBuf {
        self.ledger.dir().join("http.sock")
    }

    /// The energy of the disk behind the server; `None` if the disk is not emulated.
    pub(super) fn disk_energy(&self) -> Option<DiskEnergy> {
        let address = Address::Unix(self.http());
        let status: Status = ask(&address, None, "/api/status").ok()?;
        let busy = status.busy.filter(|b| b.basis == "emulated")?;
        Some(DiskEnergy { disk: busy.disk, joules: busy.now.energy_j })
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
