//! Verbs for a volume without a server: check, repair, dump and resize its area.

use anyhow::{Context as _, bail};
use seekless_block::Bytes;
use seekless_engine::{Examined, Finding, Repair, examine};
use seekless_serve::area::{self, AreaPlacement, GuardFault, Lasting, Repaired};
use seekless_serve::control::{Dump, ensure_unserved, open_unserved};

use super::{VolumeArgs, format::told};
use seekless_cli::args::size;
use seekless_cli::output;

/// Check an area, and with --data the checksum of every copy; writes nothing
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless volume check /dev/sdb --data
  seekless volume check disk.img --area disk.area")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    volume: VolumeArgs,
    /// Read every copy
    #[arg(long)]
    data: bool,
}

/// Repair an area that cannot be attached, or whose copies are damaged
///
/// If a repair would lose data that only the area has, the command lists these data. It writes
/// nothing then, unless --lose-data is given.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless volume repair /dev/sdb
  seekless volume repair disk.img --area disk.area --lose-data")]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    volume: VolumeArgs,
    /// Give up data that cannot be saved: home's older bytes replace them
    #[arg(long)]
    lose_data: bool,
}

/// Print the contents of an area: superblock, log, map; writes nothing
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless volume dump /dev/sdb
  seekless volume dump disk.img --area disk.area --json | jq '.map | length'")]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    volume: VolumeArgs,
    /// As JSON (schema seekless.dump/2), the map included
    #[arg(long)]
    json: bool,
}

/// Fit an area to a backing or a device of another size, or change the area's size
///
/// Drain and detach the area first, so that home is complete. The command drops the copies, and
/// divides the area again; its name stays. An area within its device keeps its size and its place,
/// because a move of the area would move the volume's data: there only the volume grows.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # The disk has grown: write all data home, then use the new size
  seekless volume detach disk.img --area disk.area
  truncate -s 20G disk.img
  seekless volume resize disk.img --area disk.area

  # A larger area
  seekless volume resize disk.img --area disk.area --optimized 2GiB")]
pub(crate) struct ResizeArgs {
    #[command(flatten)]
    volume: VolumeArgs,
    /// New size of the area [default: that of its file or device]
    #[arg(long, value_parser = size)]
    optimized: Option<Bytes>,
}

fn open(volume: &VolumeArgs, write: bool) -> anyhow::Result<Lasting> {
    Ok(open_unserved(&volume.backing, volume.area.as_deref(), write)?)
}

fn examined(lasting: &mut Lasting) -> anyhow::Result<Examined> {
    let place = lasting.place().display().to_string();
    let guard = lasting.is_guarded().err().map_or_else(String::new, |why| format!("{why}. Also, "));
    let why = format!("{guard}{place}: the area cannot be attached in its present state");
    examine(lasting.area()).context(why)
}

pub(crate) fn check(args: &CheckArgs) -> anyhow::Result<()> {
    let mut lasting = open(&args.volume, false)?;
    lasting.ensure_newest()?;
    let found = examined(&mut lasting)?;
    let all = found.copies().last().map_or(0, |(slot, ..)| u64::from(slot) + 1);
    let findings = output::with_bar(|bar| {
        found.check(lasting.area(), args.data, &mut |slots| bar("", slots, all))
    })?;
    let faults: String = findings.iter().map(|f| format!("{f}\n")).collect();
    if let Err(e) = is_usable(args, &mut lasting, &found, &findings) {
        if !faults.is_empty() {
            output::print(&faults)?;
        }
        return Err(e);
    }
    let replicas = found.superblock().free_map_pages > 0;
    let sound = if args.data && replicas {
        "sound: superblock, map, free map and log, and every copy in the write buffer matches its checksum; replicas are checked when they are read"
    } else if args.data {
        "sound: every copy matches its checksum"
    } else {
        "sound: superblock, map and log; --data reads every copy too"
    };
    output::print(&format!("{faults}{sound}"))
}

/// Refuses an area that no server can attach, or that has lost data.
fn is_usable(
    args: &CheckArgs,
    lasting: &mut Lasting,
    found: &Examined,
    findings: &[Finding],
) -> anyhow::Result<()> {
    let backing = args.volume.backing.display();
    if let Err(why) = lasting.is_guarded() {
        bail!("{backing}: {why}");
    }
    let lost = findings.iter().filter(|f| f.loss).count();
    if lost > 0 {
        bail!(
            "{lost} pages that only the area has are damaged; `seekless volume repair --lose-data` gives them up"
        );
    }
    let (made_for, home) = (found.superblock().home_capacity, lasting.home_capacity());
    if made_for != home {
        bail!(
            "{backing}: the area is made for a device of {} ({made_for}), and this one has {} ({home}). Restore the former size, or run `seekless volume resize`",
            made_for.bytes(),
            home.bytes()
        );
    }
    lasting
        .ensure_flushed()
        .context("only the host's memory of the area was checked, not its device")
}

pub(crate) fn repair(args: &RepairArgs) -> anyhow::Result<()> {
    let mut lasting = open(&args.volume, true)?;
    let done = lasting.repair(args.lose_data)?;
    // First what was done: no later repair names it again.
    let text = said(&done);
    if !text.is_empty() {
        output::print(&text)?;
    }
    let Repaired { restored, area, guard, error } = done;
    let backing = args.volume.backing.display();
    match (area, error) {
        (Repair::Stopped(_, e), _) => Err(e).context(
            "the area could not be written to its end: what is listed above may be done; run the command again",
        ),
        (_, Some(e)) => Err(e).context(
            "the area is repaired, and the repair of the disk's guard stopped: the listed repairs may be done; run the command again",
        ),
        (Repair::Done(_), None) => Ok(()),
        (Repair::WouldLose(_), None) => match guard.filter(|fault| fault.loses) {
            Some(fault) => bail!("{backing}: {}", fault.why),
            None if restored => bail!(
                "nothing else was written: these data would be lost; --lose-data gives them up"
            ),
            None => bail!("nothing was written: these data would be lost; --lose-data gives them up"),
        },
    }
}

/// What a repair has done, or would do, in lines.
fn said(done: &Repaired) -> String {
    let (Repair::Done(report) | Repair::WouldLose(report) | Repair::Stopped(report, _)) =
        &done.area;
    let is_done = matches!(done.area, Repair::Done(_));
    let mut lines: Vec<String> = report.mended.iter().map(ToString::to_string).collect();
    // Also if the guard's repair stopped: the next one may find no fault.
    let guard = done.guard.as_ref().filter(|_| is_done);
    lines.extend(guard.map(said_of_guard));
    if is_done && done.error.is_none() {
        let lost = report.mended.iter().any(|f| f.loss || f.perhaps)
            || guard.is_some_and(|fault| fault.loses || fault.unproven);
        lines.push(match report.lost.len() {
            0 if lines.is_empty() => "no fault found: the area can be attached".to_owned(),
            0 if lost => "repaired: the area can be attached; all that is lost, or perhaps lost, is listed above".to_owned(),
            0 => "repaired: the area can be attached; nothing was lost".to_owned(),
            n => format!(
                "repaired: the area can be attached; {n} pages of home have older bytes now"
            ),
        });
    }
    lines.join("\n")
}

fn said_of_guard(fault: &GuardFault) -> String {
    let what = fault.fault();
    if fault.loses {
        format!("given up: {what}")
    } else if fault.unproven {
        format!(
            "perhaps lost: {what}. With it the checksums of the disk's first and last 128 KiB are gone: nothing tells whether these data, which are in the area, are whole. Check the file system with its own program"
        )
    } else {
        format!("harmless: {what}")
    }
}

pub(crate) fn dump(args: &DumpArgs) -> anyhow::Result<()> {
    let mut lasting = open(&args.volume, false)?;
    lasting.ensure_newest()?;
    let found = examined(&mut lasting)?;
    let dump = Dump::of(&mut lasting, &found);
    if args.json {
        return output::print(&serde_json::to_string_pretty(&dump)?);
    }
    output::print(dump.to_string().trim_end())
}

pub(crate) fn resize(args: &ResizeArgs) -> anyhow::Result<()> {
    let backing = &args.volume.backing;
    ensure_unserved(backing, true)?;
    let made = area::resize(backing, args.volume.area.as_deref(), args.optimized)?;
    let at = args.volume.area.clone().map_or(AreaPlacement::Start, AreaPlacement::Beside);
    output::print(&told(backing, &at, &made))
}

#[cfg(test)]
mod tests {
    use seekless_engine::{AttachError, RepairReport};

    use super::*;

    fn fault(loses: bool, unproven: bool) -> Option<GuardFault> {
        let why = "the header is damaged; run `seekless volume repair`".to_owned();
        Some(GuardFault { why, loses, unproven })
    }

    fn report() -> RepairReport {
        let report = RepairReport::default();
        let what = "a page was given up".to_owned();
        let finding = Finding { loss: true, perhaps: false, what };
        RepairReport { mended: vec![finding], ..report }
    }

    #[test]
    fn what_was_given_up_is_said_although_the_repair_stopped() {
        let stopped = Repair::Stopped(report(), AttachError::NotDrained);
        let of_area =
            Repaired { restored: false, area: stopped, guard: fault(true, false), error: None };
        let error = Some(seekless_serve::ServeError::Stopped);
        let done = Repair::Done(report());
        let of_guard = Repaired { restored: false, area: done, guard: fault(true, false), error };
        assert_eq!(said(&of_area), "lost: a page was given up");
        let both = "lost: a page was given up\ngiven up: the header is damaged";
        assert_eq!(said(&of_guard), both);
    }

    #[test]
    fn what_was_not_checked_is_not_called_harmless() {
        for (loses, unproven, word, end) in [
            (false, false, "harmless: the header is damaged\n", "nothing was lost"),
            (false, true, "perhaps lost: the header is damaged.", "is listed above"),
            (true, true, "given up: the header is damaged\n", "is listed above"),
        ] {
            let area = Repair::Done(RepairReport::default());
            let done =
                Repaired { restored: false, area, guard: fault(loses, unproven), error: None };
            let said = said(&done);
            assert!(said.starts_with(word) && said.ends_with(end), "{said}");
        }
        let area = Repair::Done(RepairReport::default());
        let sound = Repaired { restored: false, area, guard: None, error: None };
        assert!(said(&sound).starts_with("no fault found"));
    }
}
