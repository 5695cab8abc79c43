//! `seekless volume format`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use seekless_block::{Bytes, PAGE_SECTORS};
use seekless_engine::Mode;
use seekless_serve::area::{AreaPlacement, Made, MakeOptions, Share, make};
use seekless_serve::{Backing, Builder};

use seekless_cli::args::{number, size};
use seekless_cli::output;
use seekless_serve::control::mode_of;

/// Make a lasting optimized area, on a blank disk or beside a disk in use
///
/// On a blank disk the area takes a part of the disk, and the volume is smaller by this part. The
/// bare disk then begins with a page of seekless, so that no program mounts the disk by accident.
/// `seekless serve BACKING` finds this area without an option. For a disk in use the area is
/// another file or device (--at FILE-or-DEVICE): no byte of the disk changes. In write-through,
/// other programs can use the disk without seekless at any time. In write-back, the first and last
/// 128 KiB of the disk are in the area while the volume is served or dirty. This guard keeps
/// programs from mounting the bare disk.
///
/// With --replicas, copies are not in the area but in space that the volume's clients have
/// discarded (FS2): near the head, at no cost of space. A client's write to this space ends the use
/// of the copies there at once. The area then has only maps and the write buffer. It is small, best
/// a file on another disk. Mount with `-o discard`, or run `fstrim` from time to time: only
/// discarded space counts as free. See docs/believing/replicas.md. `seekless volume detach` ends
/// the use of replicas, and leaves the disk unchanged.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # A new volume on a blank disk, a twentieth of it for the area
  seekless volume format /dev/sdb
  seekless serve /dev/sdb --nbd unix:/run/disk.sock

  # A disk with a file system on it; the area is a file on another disk
  seekless volume format /dev/sda --at /var/lib/seekless/sda.area --optimized 8GiB
  seekless serve /dev/sda --area /var/lib/seekless/sda.area --fuse /run/disk

  # Replicas in the free space of an ext4 that is not mounted: up to a tenth of the disk
  seekless volume format /dev/sda --at /var/lib/seekless/sda.area --replicas 10% --free-from ext
  seekless serve /dev/sda --area /var/lib/seekless/sda.area --fuse /run/disk

  # Write-back, with half of the area as write buffer
  seekless volume format /dev/sdb --optimized 10% --mode writeback --write-buffer 50%")]
pub(crate) struct FormatArgs {
    /// The file or block device for the volume
    backing: PathBuf,
    /// Size of the area, or its share of the backing [default: 5%; with --replicas 32 MiB and about
    /// a fortieth of the replicas; or all of a file or device given as --at]
    #[arg(long, value_name = "SIZE|PERCENT%", value_parser = share)]
    optimized: Option<Share>,
    /// Place of the area: start, middle or end of the backing; or a new or existing file; or a
    /// device
    #[arg(long, value_name = "start|middle|end|FILE-or-DEVICE", value_parser = at, default_value = "middle")]
    at: AreaPlacement,
    /// Keep copies in the volume's discarded pages: at most this size, or this share of the backing
    #[arg(long, value_name = "SIZE|PERCENT%", value_parser = share, conflicts_with = "write_buffer")]
    replicas: Option<Share>,
    /// With --replicas: begin with the free space of the ext2, ext3 or ext4 on the backing, which
    /// must be unmounted
    #[arg(long, value_name = "ext", value_parser = ["ext"], requires = "replicas")]
    free_from: Option<String>,
    /// Share of the area for the write buffer; with --replicas it takes all remaining space
    #[arg(long, value_name = "PERCENT%", value_parser = percent, default_value = "40%")]
    write_buffer: u8,
    /// Destination of writes: home at once, or the write buffer first
    #[arg(long, value_name = "writethrough|writeback", value_parser = mode_of, default_value = "writethrough")]
    mode: Mode,
    /// First sector, 0 to 7, of the first whole 4 KiB page: 7 for partitions at sector 63 [default:
    /// by the partition table]
    #[arg(long, value_name = "SECTOR", value_parser = number::<u8>("a sector of a page", 0..=7, 7))]
    align: Option<u8>,
    /// Overwrite a backing or an area that holds data
    #[arg(long)]
    force: bool,
}

pub(crate) fn format(args: &FormatArgs) -> anyhow::Result<()> {
    let options = MakeOptions {
        at: args.at.clone(),
        size: args.optimized,
        write_buffer_percent: args.write_buffer,
        replicas: args.replicas,
        mode: args.mode,
        grid: args.align,
        force: args.force,
    };
    ensure!(
        !matches!(args.replicas, Some(Share::Bytes(Bytes(0)) | Share::Percent(0))),
        "--replicas 0 allows no replica: leave it out, or give a size or share"
    );
    let made = make(&args.backing, &options).context("cannot format")?;
    output::print(&told(&args.backing, &args.at, &made))?;
    if args.free_from.is_none() {
        return Ok(());
    }
    // Only the area is written: draining it needs no guard.
    let area = if let AreaPlacement::Beside(path) = &args.at { Some(path.clone()) } else { None };
    let builder = Builder::new(Backing::named(&args.backing)?).to_drain(true).area_path(area);
    let server = builder.free_from_ext(true).spawn().context(
        "the area is made; no space counts as free until the file system discards it (fstrim), because",
    )?;
    let free = server.stats()?.area.replicas.map_or(Bytes(0), |r| r.free.bytes());
    server.stop()?;
    output::print(&format!("free   {free}, as the file system has it"))
}

/// The new area, and the command that serves the volume.
pub(super) fn told(backing: &Path, at: &AreaPlacement, made: &Made) -> String {
    let backing = backing.display();
    let g = &made.geometry;
    let segment = u64::from(g.segment_pages()) * PAGE_SECTORS;
    let bytes = |segments: u32| seekless_block::Sectors(u64::from(segments) * segment).bytes();
    let (place, option) = match at {
        AreaPlacement::Beside(path) => {
            (path.display().to_string(), format!(" --area {}", path.display()))
        }
        _ => (format!("{backing}, {}", made.at.unwrap_or_default()), String::new()),
    };
    let whose = if g.free_map_pages() > 0 { "replicas in discarded pages" } else { "copies" };
    format!(
        "volume {} ({}), pages from sector {}\narea   {} on {place}: {} for {whose}, {} write buffer\nuuid   {}\nserve: seekless serve {backing}{option} --nbd unix:PATH",
        backing,
        made.volume.bytes(),
        made.grid,
        made.area.bytes(),
        bytes(g.read_segments()),
        bytes(g.log_segments()),
        made.uuid,
    )
}

fn percent(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').and_then(|n| n.parse().ok()).filter(|n| *n <= 100);
    number.ok_or_else(|| format!("'{text}' is not a share: expected 0% to 100%, for example 40%"))
}

/// A size, or a share of the disk.
pub(crate) fn share(text: &str) -> Result<Share, String> {
    if text.ends_with('%') {
        percent(text).map(Share::Percent)
    } else {
        size(text).map(Share::Bytes)
    }
}

fn at(text: &str) -> Result<AreaPlacement, String> {
    Ok(match text {
        "" => return Err("start, middle, end, or a file or device".to_owned()),
        "start" => AreaPlacement::Start,
        "middle" => AreaPlacement::Middle,
        "end" => AreaPlacement::End,
        path => AreaPlacement::Beside(path.into()),
    })
}
