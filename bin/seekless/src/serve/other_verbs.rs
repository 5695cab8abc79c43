//! The arguments with which other verbs serve: `disk emulate` and `volume rescue`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use seekless_block::Bytes;
use seekless_disk::{Scheduler, SpinDown};
use seekless_learn::{Policy, PolicyName};
use seekless_serve::{Address, HostQueue};

use super::disk::Emulated;
use super::watching::HttpArgs;
use super::{AccessArgs, Args};

/// RAM to read ahead into while a volume is rescued.
const RESCUE_CACHE: Bytes = Bytes(16 << 20);

impl Args {
    /// An emulated disk and nothing else: no learning, no cache, no read-ahead.
    pub(crate) fn emulation(
        (name, speed): (&str, f64),
        (scheduler, host, spin_down): (Scheduler, Option<HostQueue>, SpinDown),
        image: &Path,
        size: Bytes,
        front: (&[Address], AccessArgs, Option<&Path>),
        json: Option<&Path>,
        watching: HttpArgs,
    ) -> Self {
        Self {
            backing: image.to_owned(),
            size: Some(size),
            read_only: false,
            nbd: front.0.to_vec(),
            name: String::new(),
            access: front.1,
            ublk: None,
            fuse: front.2.map(ToOwned::to_owned),
            area: None,
            moved: false,
            optimized: Some(Bytes(0)),
            area_dir: None,
            learn_every: Duration::from_secs(3600),
            observe: None,
            state: None,
            policy: Some(Policy::new(PolicyName::Vanilla)),
            background_rate: Bytes(0),
            scrub: Duration::from_secs(7 * 86_400),
            gather: None,
            memory: None,
            cache: Some(Bytes(0)),
            read_ahead: Bytes(0),
            cluster: Bytes(0),
            disk: Some(Emulated { name: name.to_owned(), speed, host }),
            scheduler,
            spin_down,
            watching,
            model: None,
            json: json.map(ToOwned::to_owned),
        }
    }

    /// The volume with its area, read-only; backing and area stay unchanged.
    pub(crate) fn rescue(
        backing: PathBuf,
        area: Option<PathBuf>,
        front: (Vec<Address>, AccessArgs, Option<PathBuf>),
        name: String,
    ) -> Self {
        let (nbd, access, fuse) = front;
        let mut args = Self::emulation(
            ("", 1.0),
            (Scheduler::Fcfs, None, SpinDown::default()),
            &backing,
            Bytes(0),
            (&nbd, access, fuse.as_deref()),
            None,
            HttpArgs::default(),
        );
        (args.read_only, args.size, args.disk) = (true, None, None);
        (args.policy, args.cache) = (None, Some(RESCUE_CACHE));
        (args.area, args.name) = (area, name);
        args
    }
}
