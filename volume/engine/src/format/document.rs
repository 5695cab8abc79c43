//! Writes docs/changing/on-disk-format.md from the definitions that the code reads and writes by:
//! `cargo xtask format-doc`. `cargo xtask tidy` tells if the document is out of date.

use std::fmt::Write as _;

use seekless_block::{PAGE_BYTES, Sectors, format_size};

use super::field::{Layout, Part};
use super::{
    CHECKSUM_AT, CheckpointHeader, CheckpointPage, Content, Contents, ENTRIES_PER_PAGE, FIELDS_AT,
    FreeMapPage, GUARD_PAGES, GUARD_REGION_PAGES, Geometry, GuardHeader, GuardPage, Header,
    KIND_AT, LOG_SEGMENTS_MIN, PLAN_PER_PAGE, PlanHeader, PlanPage, RUNS_PER_PAGE,
    SEGMENT_PAGES_DEFAULT, State, Superblock, VERSION, VERSION_AT, value::AreaFlags,
};

const PAGES: [Layout; 9] = [
    Superblock::LAYOUT,
    CheckpointHeader::LAYOUT,
    CheckpointPage::LAYOUT,
    PlanHeader::LAYOUT,
    PlanPage::LAYOUT,
    Header::LAYOUT,
    GuardHeader::LAYOUT,
    GuardPage::LAYOUT,
    FreeMapPage::LAYOUT,
];

const INTRODUCTION: &str = "\
# What stands on the area

<!-- Written by `cargo xtask format-doc` from volume/engine/src/format. Change it there. -->

An area is a file, a device, or the end of the device that holds home. This is every byte of it that is not
data. Numbers are little endian and counted in the units named; a page is 4 KiB, a sector 512 bytes. Bytes
that no field covers are zero, and a page that holds something there is refused.

## What survives what

Lost is what cannot be had again from home and area together. An area in which something is damaged that
somebody needs is not attached: the error says what and where, and nothing is changed.

| what happens | what is lost |
|:--|:--|
| the server stops in order | nothing |
| the server or the machine stops at any moment | writes that no flush and no FUA promised, as with any disk; copies are used again once each was proven equal to home |
| a copy for reading rots | nothing: its checksum tells, and home is read |
| the map of a read segment rots | its copies |
| a page of the log that home has already rots | nothing |
| a page of the log that home has not yet rots | that page: reading it is an error, never other bytes |
| a header in the middle of the log rots | nothing yet: a later header knows that it was there, and the area is not attached |
| a page at which the log may go on cannot be read | nothing yet: the area is not attached, and `repair` says what may be lost |
| one superblock rots | nothing: the other one is used, and the first written anew |
| both superblocks rot, or a page of the checkpoint in use | nothing where nothing was dirty: a new area learns anew; else the area is not attached, and what is dirty stands in the log, found by its headers |
| the plan rots | the plan |
| the header of the guard region rots | nothing: what stands on home's ends tells the rest, and `repair` writes it anew |
| the area is lost | in write-through nothing; in write-back what was not written home yet, and the two ends of home that the guard replaced |

## The order of writes

A bar is a flush: what comes before it is on stable storage before anything behind it is written.

- **A change of the superblock**: copy A | copy B |. One is always good. Where one is found damaged or older
  than the other, it is the first to be written.
- **A new area**: zeroes over both superblocks | both copies |. What stood here before cannot be taken for a
  part of it: every page names its area.
- **A checkpoint**: its header and pages, in the place that is not in use; whatever was written home | the
  superblock. It need not be of one moment: the log from its position on is read over it.
- **A write that is absorbed**: header and data in one write. It counts where both are whole, which checksums
  tell; a flush of the area makes it durable.
- **A write home of what the log holds**: the write home | a record of kind `Tombstones` |, before a client's
  flush or FUA is answered.
- **Dirty data brought home**: the write home | a record whose `tail` is past its segment | only then may the
  segment be overwritten.
- **A read segment written anew**: a record of kind `Invalid` | map and data, then a record of kind `Committed`.
  Copies are not used after an unclean stop before they are proven, so no flush stands between those.
- **Discarded pages, free map**: with any of these records, after home was flushed. A region in which the client writes
  discarded pages again: a record of kind `FreeMap` that opens it |, before a client's flush or FUA is answered; a
  checkpoint closes it again. Pages that may hold bytes of replicas are told one by one, before and after: a record
  that they are `Stained` | the replicas; the client's write | a record that they are `Used` |, before its flush or
  FUA is answered.
- **A plan**: a superblock without a plan | header and pages of the plan | the superblock that names it.
- **The guard put up**, before anything is absorbed: what was written home | home's ends into the guard region, and
  its header, `between` | guard pages over home's ends | its header, `up` | only then the superblock that says write-back.
- **The guard taken down**, when everything is home and the superblock says so: the guard region | its header,
  `between` | home's ends as the region has them | its header, `down` |. After a crash a guard that was `between` is
  taken down: where no sector of home's ends is the guard's, home counts; where each is the guard's or the region's,
  they are written anew; anything else is somebody's who wrote past us, and is refused.

## Finding the end of the log

From the checkpoint's position on, a header is the next where the page is good, area and place are right, the
sequence number is the expected one and `previous` is the checksum of the header before. Where there is none,
the start of the next segment is tried; where there is none either, the log ends. No record crosses the end of
a segment, and each segment that was written begins with a header. A record of data with a sequence number above
the highest `durable` that is found may be torn: where its data does not have the checksums that it says, the
log ends before it. Where a header of this area with a higher sequence number than the last one says that
more than the last one was durable, the log is damaged in its middle.

**The sum of a page's bytes** is the upper 48 bits of their XXH3-64 (no seed). It tells that a copy still equals home after
a crash, so it must differ whenever bytes do: by chance it does not once in 2^48 times. It was a CRC-32C in version 1. That is no
proof: two versions of a block which ends with its own CRC-32C (ext4's superblock, its blocks of directories and extents) have
the same CRC-32C, always.

An entry of the log counts as dirty, unless the `tail` has passed its segment; a later record of the same home
page, or a tombstone, takes its place.
";

/// The document, as Markdown.
#[must_use]
pub fn document() -> String {
    let mut out = INTRODUCTION.to_owned();
    // Writing to a string cannot fail.
    let _ = write(&mut out);
    out
}

fn write(out: &mut String) -> std::fmt::Result {
    regions(out)?;
    writeln!(out, "\n## How every page begins\n")?;
    writeln!(
        out,
        "These {FIELDS_AT} bytes keep their meaning in every version to come. This is version {VERSION}; a page of\n\
         another one is refused.\n"
    )?;
    table_head(out, &["byte", "bytes", "field", "type", "what it is"])?;
    let about = [
        (0, VERSION_AT, "magic", "ASCII", "`SEEKLESS`"),
        (VERSION_AT, KIND_AT, "version", "u16", "of the format"),
        (KIND_AT, CHECKSUM_AT, "kind", "u16", "which of the pages below it is"),
        (
            CHECKSUM_AT,
            FIELDS_AT,
            "checksum",
            "u32",
            "CRC-32C (RFC 3720, B.4) of the whole page, these four bytes taken as zero",
        ),
    ];
    for (at, end, name, format, what) in about {
        writeln!(out, "| {at} | {} | `{name}` | {format} | {what} |", end - at)?;
    }
    for layout in &PAGES {
        page(out, layout)?;
    }
    writeln!(out, "\n## Kinds of record\n")?;
    writeln!(out, "Behind the count stand the items, each as long as its type.\n")?;
    table_head(out, &["kind", "name", "item", "items at most", "what it says"])?;
    for kind in Content::KINDS {
        let about = joined(kind.about);
        writeln!(
            out,
            "| {} | `{}` | {} | {} | {about} |",
            kind.code, kind.name, kind.item, kind.most
        )?;
    }
    writeln!(out, "\n## States of a slot\n")?;
    table_head(out, &["state", "name", "what it says"])?;
    for state in State::ALL {
        let about = match state {
            State::Free => "no copy stands here; the rest of the entry is zero",
            State::Suspect => "a copy not proven equal to home since the area was attached",
            State::Clean => "a copy that equals home",
            State::Dirty => "a copy newer than home; in the log alone",
        };
        writeln!(out, "| {} | `{state:?}` | {about} |", state as u8)?;
    }
    writeln!(out, "\n## Flags of the area\n")?;
    table_head(out, &["value", "name", "what it says"])?;
    for (flag, name, about) in AreaFlags::ALL {
        writeln!(out, "| {} | `{name}` | {about} |", flag.bits())?;
    }
    Ok(())
}

/// The positions of the regions, and an example.
fn regions(out: &mut String) -> std::fmt::Result {
    writeln!(out, "\n## Where things stand\n")?;
    writeln!(
        out,
        "In pages from the area's start. A *slot* is a page of the segments, numbered from 0 and fewer than 2^32; a\n\
         segment has 8 to 256 of them, a power of two, {SEGMENT_PAGES_DEFAULT} where nobody asks otherwise. Segments are numbered from 0\n\
         as well: `R` for reading, one at least, and behind them `L` of log, {LOG_SEGMENTS_MIN} at least. The example is an area of\n\
         1 GiB, a tenth of it log.\n"
    )?;
    let example =
        Geometry::fit(Sectors(1 << 21), SEGMENT_PAGES_DEFAULT, Contents::new(10, Sectors(0)));
    table_head(out, &["region", "pages", "example: from page"])?;
    if let Ok(g) = example {
        let rows = [
            ("superblock A".to_owned(), "1".to_owned(), 0),
            ("superblock B".to_owned(), "1".to_owned(), 1),
            (
                "checkpoint, place 0".to_owned(),
                format!("`C` = 1 + slots / {ENTRIES_PER_PAGE}, rounded up"),
                g.checkpoint_at(0),
            ),
            ("checkpoint, place 1".to_owned(), "`C`".to_owned(), g.checkpoint_at(1)),
            (
                "plan".to_owned(),
                format!("1 + slots of the read segments / {PLAN_PER_PAGE}, rounded up"),
                g.plan_at(),
            ),
            ("read segments".to_owned(), "`R` segments".to_owned(), g.data_at()),
            ("log".to_owned(), "`L` segments".to_owned(), g.data_at() + u64::from(g.read_slots())),
            ("not used".to_owned(), "what one segment more would not fit in".to_owned(), g.pages()),
            (
                "guard region, behind an area that is not inside".to_owned(),
                format!("{GUARD_REGION_PAGES} = 1 + 2 * {GUARD_PAGES}"),
                (1 << 30) / PAGE_BYTES,
            ),
        ];
        for (name, pages, at) in rows {
            writeln!(out, "| {name} | {pages} | {at} |")?;
        }
        writeln!(
            out,
            "\nWhere `free_map_pages` is not 0, copies (replicas) stand in discarded pages of home. Then the regions are: two\n\
             superblocks, two checkpoints, two free maps of `free_map_pages` pages ({RUNS_PER_PAGE} runs each; that of a checkpoint\n\
             stands in the place of the same number), a map page for each read segment, the log. There is no plan; the pages of\n\
             a read segment but its map stand in home, in a row from the page that its map names."
        )?;
        writeln!(
            out,
            "\nIn the example there are {} read segments and {} of log; {} of {} hold data or headers.",
            g.read_segments(),
            g.log_segments(),
            format_size(u64::from(g.slots()) * PAGE_BYTES),
            format_size(1 << 30),
        )?;
    }
    writeln!(
        out,
        "\nHome's page `p` begins at sector `grid + 8 p` of home. What lies before the first whole page, and behind\n\
         the last, has no copy. Home pages are numbered below 2^38 (1 PiB)."
    )
}

fn page(out: &mut String, layout: &Layout) -> std::fmt::Result {
    let mut name = layout.name.to_owned();
    name[..1].make_ascii_uppercase();
    writeln!(out, "\n## {name} (kind {})\n", layout.kind)?;
    writeln!(out, "{}\n", joined(layout.about))?;
    table_head(out, &["byte", "bytes", "field", "type", "what it is"])?;
    for part in layout.parts {
        let Part { at, bytes, name, .. } = part;
        let format = match (part.count, part.format) {
            (1, format) => format.to_owned(),
            (count, "u8") => format!("{count} bytes"),
            (count, format) => format!("{count} times: {format}"),
        };
        let limits = match part.limits {
            Some((low, high)) => format!(", {low} to {}", limit(high)),
            None => String::new(),
        };
        let what = joined(part.about);
        writeln!(out, "| {at} | {bytes} | `{name}` | {format}{limits} | {what} |")?;
    }
    Ok(())
}

/// A number in its common form.
fn limit(n: u64) -> String {
    match n {
        n if n < 1 << 32 => n.to_string(),
        n if n.is_power_of_two() => format!("2^{}", n.ilog2()),
        n if (n + 1).is_power_of_two() => format!("2^{} - 1", (n + 1).ilog2()),
        n => n.to_string(),
    }
}

fn table_head(out: &mut String, columns: &[&str]) -> std::fmt::Result {
    writeln!(out, "| {} |", columns.join(" | "))?;
    writeln!(out, "|{}", ":--|".repeat(columns.len()))
}

/// Lines of a doc comment as one.
fn joined(lines: &[&str]) -> String {
    let lines: Vec<&str> = lines.iter().map(|l| l.trim()).filter(|l| !l.is_empty()).collect();
    lines.join(" ")
}
