//! `seekless volume rescue`: serves the plain disk from home and area, read-only.

use std::path::PathBuf;

use seekless_block::Bytes;
use seekless_serve::Address;

use crate::serve;

/// RAM for cached pages.
const RAM: Bytes = Bytes(16 << 20);

/// Serve a volume read-only, on any machine, and write no byte to the volume
///
/// Clients read the data that clients of the volume last saw, also after a crash. The command does
/// not attach the area: area and backing stay unchanged, and may be on read-only media. A read of a
/// page whose only copy is damaged returns an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Copy the plain disk elsewhere
  seekless volume rescue disk.img --area disk.area --nbd unix:rescue.sock &
  nbdcopy 'nbd+unix:///?socket=rescue.sock' plain.img

  # Mount the file system of the volume
  seekless volume rescue /dev/sdb --fuse /run/rescued &
  mount -o loop,ro,noload /run/rescued /mnt")]
pub(crate) struct Args {
    /// The file or block device of the volume
    backing: PathBuf,
    /// The area of the volume, if the area is not within the backing
    #[arg(long, value_name = "FILE-or-DEVICE")]
    area: Option<PathBuf>,
    /// Serve over NBD: unix:PATH or tcp:HOST:PORT; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    nbd: Vec<Address>,
    /// Name of the NBD export
    #[arg(long, default_value = "", hide_default_value = true)]
    name: String,
    #[command(flatten)]
    access: serve::AccessArgs,
    /// Mount the volume over this regular file, which is made if absent
    #[arg(long, value_name = "PATH")]
    fuse: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    serve::run(&serve::Args {
        read_only: true,
        nbd: args.nbd.clone(),
        name: args.name.clone(),
        access: args.access.clone(),
        fuse: args.fuse.clone(),
        area: args.area.clone(),
        optimized: Some(Bytes(0)),
        background_rate: Bytes(0),
        cache: Some(RAM),
        read_ahead: Bytes(0),
        cluster: Bytes(0),
        ..serve::Args::defaults(&args.backing)
    })
}
