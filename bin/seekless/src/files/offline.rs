//! Verbs for a group store that is not mounted.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::bail;
use seekless_block::Bytes;

use seekless_cli::args::size;
use seekless_cli::output;

/// Make a group store
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless files format /var/lib/seekless/www.groups --size 1GiB
  seekless files format /dev/sdb1 --cluster 64KiB")]
pub(crate) struct FormatArgs {
    /// A new or existing file, or a device
    store: PathBuf,
    /// If the file does not exist, make a file of this size; the file takes its space at once
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<Bytes>,
    /// Cluster size: 64KiB or 128KiB
    #[arg(long, value_name = "SIZE", default_value = "128KiB", value_parser = size)]
    cluster: Bytes,
    /// Overwrite existing data
    #[arg(long)]
    force: bool,
}

/// Compare a directory with its group store: reads every group and every file, writes nothing
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless files check /srv/www --store /var/lib/seekless/www.groups")]
pub(crate) struct CheckArgs {
    /// The directory, not mounted
    dir: PathBuf,
    /// Its group store
    #[arg(long, value_name = "FILE-or-DEVICE")]
    store: PathBuf,
}

pub(super) fn check(args: &CheckArgs) -> anyhow::Result<()> {
    let found = output::with_bar(|bar| {
        seekless_mount::check(&args.dir, &args.store, &mut |files| bar("files", files, 1))
    })?;
    let mut text = format!(
        "{} files, {} of them in groups; the store has {}\n",
        found.files, found.grouped, found.store
    );
    let dir = &args.dir;
    for (files, what) in [
        (
            &found.damaged,
            "damaged: its group cannot be read, or has a wrong checksum; if the file is not empty here, it was moving at a crash, and `setfattr -x trusted.seekless.group FILE` keeps these bytes",
        ),
        (&found.lost, "lost: its marker names a file that is not in this store"),
        (
            &found.written,
            "written without the mount: `setfattr -x trusted.seekless.group FILE` keeps the bytes that were written, `truncate -s 0 FILE` the bytes in the store",
        ),
    ] {
        for file in files {
            let _ = writeln!(text, "{}: {what}", dir.join(file).display());
        }
    }
    if found.unsettled > 0 {
        let _ = writeln!(
            text,
            "harmless: {} unsettled files, which the next mount settles",
            found.unsettled
        );
    }
    if found.dead > 0 {
        let _ = if found.alone {
            writeln!(
                text,
                "harmless: {} entries of files that were removed or moved back",
                found.dead
            )
        } else {
            writeln!(
                text,
                "{} entries without a file here: removed, moved back, or files of another directory that an older version mounted with this store",
                found.dead
            )
        };
    }
    if !found.is_sound() {
        output::print(text.trim_end())?;
        bail!("{}: not every file has its bytes in exactly one place", dir.display());
    }
    text += "sound: every file has its bytes in exactly one place";
    output::print(&text)
}

pub(super) fn format(args: &FormatArgs) -> anyhow::Result<()> {
    seekless_mount::format(&args.store, args.size, args.cluster, args.force)?;
    let store = args.store.display();
    output::print(&format!(
        "group store {store}\nmount: seekless files mount DIR MOUNTPOINT --store {store}"
    ))
}
