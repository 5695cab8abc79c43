//! Writes docs/changing/on-disk-format.md from the definitions that the code reads and writes by:
//! `cargo xtask format-doc`. `cargo xtask tidy` tells if the document is out of date.

use std::fmt::Write as _;

use seekless_block::{PAGE_BYTES, Sectors, format_size};

use super::field::{Layout, Part};
use super::{
    CHECKSUM_AT, CheckpointHeader, CheckpointPage, Content, Contents, CopyState, ENTRIES_PER_PAGE,
    FIELDS_AT, FreeMapPage, GUARD_PAGES, GUARD_REGION_PAGES, Geometry, GuardHeader, GuardPage,
    Header, KIND_AT, LOG_SEGMENTS_MIN, LearnedPage, OLDEST, PLAN_PER_PAGE, PlanHeader, PlanPage,
    RUNS_PER_PAGE, SEGMENT_PAGES_DEFAULT, Superblock, VERSION, VERSION_AT, value::AreaFlags,
};

const PAGES: [Layout; 10] = [
    Superblock::LAYOUT,
    CheckpointHeader::LAYOUT,
    CheckpointPage::LAYOUT,
    PlanHeader::LAYOUT,
    PlanPage::LAYOUT,
    Header::LAYOUT,
    GuardHeader::LAYOUT,
    GuardPage::LAYOUT,
    FreeMapPage::LAYOUT,
    LearnedPage::LAYOUT,
];

const INTRODUCTION: &str = "\
# On-disk format of the area

<!-- Written by `cargo xtask format-doc` from volume/engine/src/format. Change it there. -->

An area is a file, a device, or the end of the device that holds home. This page describes every
byte of the area that is not data. Numbers are little endian, in the units named. A page is 4 KiB, a
sector 512 bytes. Bytes outside of all fields are zero; a page with other bytes there is refused.

## Damage and its cost

Lost means: neither home nor the area has the data any more. If an essential part of an area is
damaged, the area is not attached: the error names the damage and its position, and nothing is
changed.

| event | loss |
|:--|:--|
| the server stops in order | nothing |
| the server or the machine stops at any moment | writes that no flush and no FUA covered, as with any disk; each copy is used again once it is proven equal to home |
| a copy for reading is damaged | nothing: its checksum tells, and home is read |
| the map of a read segment is damaged | its copies |
| a page of the log is damaged, and home has the page | nothing |
| a page of the log is damaged, and home does not have the page | that page: a read of it fails, and never returns other bytes |
| the same in a record that no later record confirms | that page: home or an older record has an older one, and the attach names the page |
| one sector of a record's header is damaged | nothing: the other half of the page has the header too |
| a header in the middle of the log is damaged | nothing yet: a later header knows of it, and the area is not attached |
| a page at which the log may go on is unreadable | nothing yet: the area is not attached, and `repair` says what may be lost |
| one superblock is damaged | nothing: the newest of the others is used, and the damaged one is written first |
| the first superblock is damaged, and another one | nothing: `repair` searches all pages for the last one |
| an older copy of the area is restored | nothing: home's guard names a later generation, and the copy is not attached |
| all superblocks are damaged, or a page of the checkpoint in use | nothing if nothing was dirty: a new area learns from the start; else the area is not attached, and the log's headers find the dirty data |
| the plan is damaged | the plan |
| the learned state is damaged | what the adaptive policy had learned |
| a page of the guard region is damaged | that page: its checksum tells, the area is not attached, and a read fails; a page that was written since the attach has no checksum |
| the header of the guard region is damaged | nothing: home's ends tell the state, and `repair` writes the header again |
| the area is lost | in write-through nothing; in write-back all data that was not destaged, and the two ends of home that the guard replaced |

## The order of writes

A bar is a flush: all writes before it are on stable storage before any write behind it begins.

- **A change of the superblock**: the first copy | the other copies |. One copy is always valid. At
  an attach, all copies but the newest valid one | that one |.
- **An attach**: all that an earlier server wrote to the area | a checkpoint | the superblock, with a
  higher generation | that generation in the first sector of home's guard, if the guard is up | only
  then the first request. A guard with a later generation than the superblock belongs to a newer
  copy of the area.
- **A new area**: zeroes over all superblocks | all copies |. Former contents cannot count as a part
  of the new area: every page names its area.
- **A checkpoint**: its header and pages, in the place that is not in use; all pages written home |
  the superblock. A checkpoint need not be of one moment: recovery applies the log from the
  checkpoint's position on.
- **An absorbed write**: header and data in one write. The record counts if the checksums of both
  match; a flush of the area makes it durable.
- **A write home of pages in the log**: the write home | a record of kind `Tombstones` |, before a
  client's flush or FUA is answered.
- **A destage**: the write home, and the records that have replaced pages of the segment | a record
  whose `tail` is past the segment | only then may the segment be overwritten. Recovery believes a
  `tail` even if pages of a record just before it are torn.
- **A read segment that is written again**: a record of kind `Invalid` | map and data, then a record
  of kind `Committed`. No flush stands between those: after an unclean stop, copies are used only
  once they are proven.
- **Discarded pages, free map**: with any of these records, after a flush of home. A region in which
  the client writes discarded pages again: a record of kind `FreeMap` that opens the region |,
  before a client's flush or FUA is answered; a checkpoint closes the region. Pages that may hold
  bytes of replicas are recorded one by one, before and after: a record that they are `Stained` |
  the replicas; the client's write | a record that they are `Used` |, before its flush or FUA is
  answered.
- **A plan**: a superblock without a plan | header and pages of the plan | the superblock that names
  the plan.
- **A stop in order**: with a trail, the learned state, in place of a plan, is among the pages of the
  last checkpoint. The superblock before it names neither a plan nor learned state.
- **A write into the guard region**: the header without the checksums of these pages | the pages. The
  next attach, and a stop in order: the pages | the header with all checksums |.
- **The guard goes up**, before anything is absorbed: all pages written home | home's ends into the
  guard region, and its header, `between` | guard pages over home's ends | its header, `up` | only
  then the superblock that says write-back.
- **The guard goes down**, when everything is home and the superblock says so: the guard region |
  its header, `between` | home's ends as the region has them | its header, `down` |. After a crash a
  guard in state `between` is taken down. If no sector of home's ends is the guard's, home counts.
  If each is the guard's or the region's, home's ends are written again from the region. Other
  sectors come from somebody who wrote home without the server, and are refused.

## The end of the log

From the checkpoint's position on, a header is the next record's if the page is undamaged, area and
position are right, the sequence number is the expected one, and `previous` is the checksum of the
header before. Without one there, the start of the next segment is tried; without one there either,
the log ends. No record crosses the end of a segment, and each written segment begins with a header.
A header is in a page if it is in one of its halves. A record of data with a sequence number above
the highest `durable` found may be torn: its pages that do not match their checksums do not count,
and are named; its other pages and later records do. The log is damaged in its middle if a header
of this area with a higher sequence number says that more was durable than the last record.

**The sum of a page's bytes** is the upper 48 bits of their XXH3-64 (no seed). The sum tells that a
copy still equals home after a crash, so different bytes must have different sums: chance makes two
equal once in 2^48 times. Version 1 had a CRC-32C, which proves nothing: two versions of a block
that ends with its own CRC-32C (ext4's superblock, its blocks of directories and extents) always
have the same CRC-32C.

An entry of the log counts as dirty unless the `tail` has passed its segment. A later record of the
same home page, or a tombstone, replaces it.

## Versions

An attach of an area of version 2 reads it by these same rules, clean or not, and writes a
checkpoint and superblocks of version 4; its log's records may be of both versions. Such an area
keeps its division, with two superblocks in the first two pages: `spread` is 0. A resize divides it
with three. The guard pages on home become those of version 4 with the guard's next move; the first
sector does so at the attach. Areas of version 3 differ in this alone: no copy in them is written in
place. No version reads a later one.
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
        "These {FIELDS_AT} bytes keep their meaning in all later versions. This is version {VERSION}; pages of version\n\
         {OLDEST} are read too, and a page of another version is refused.\n"
    )?;
    table_head(out, &["byte", "bytes", "field", "type", "meaning"])?;
    let about = [
        (0, VERSION_AT, "magic", "ASCII", "`SEEKLESS`"),
        (VERSION_AT, KIND_AT, "version", "u16", "of the format"),
        (KIND_AT, CHECKSUM_AT, "kind", "u16", "the kind of page, see below"),
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
    writeln!(out, "The items follow the count, each as long as its type.\n")?;
    table_head(out, &["kind", "name", "item", "items at most", "meaning"])?;
    for kind in Content::KINDS {
        let about = joined(kind.about);
        writeln!(
            out,
            "| {} | `{}` | {} | {} | {about} |",
            kind.code, kind.name, kind.item, kind.most
        )?;
    }
    writeln!(out, "\n## States of a slot\n")?;
    table_head(out, &["state", "name", "meaning"])?;
    for state in CopyState::ALL {
        let about = match state {
            CopyState::Free => "no copy; the rest of the entry is zero",
            CopyState::Suspect => "a copy not proven equal to home since the area was attached",
            CopyState::Clean => "a copy that equals home",
            CopyState::Dirty => "a copy newer than home; in the log alone",
        };
        writeln!(out, "| {} | `{state:?}` | {about} |", state as u8)?;
    }
    writeln!(out, "\n## Flags of the area\n")?;
    table_head(out, &["value", "name", "meaning"])?;
    for (flag, name, about) in AreaFlags::ALL {
        writeln!(out, "| {} | `{name}` | {about} |", flag.bits())?;
    }
    Ok(())
}

/// The positions of the regions, and an example.
fn regions(out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "\n## Regions\n\n\
         In pages from the area's start. A *slot* is a page of the segments, numbered from 0 and below\n\
         2^32. A segment has 8 to 256 slots, a power of two; the default is {SEGMENT_PAGES_DEFAULT}. Segments are\n\
         numbered from 0 as well: first `R` for reading, at least one, then `L` of log, at least {LOG_SEGMENTS_MIN}.\n\
         The example is an area of 1 GiB, a tenth of it log.\n"
    )?;
    table_head(out, &["region", "pages", "example: from page"])?;
    if let Ok(g) =
        Geometry::lasting(Sectors(1 << 21), SEGMENT_PAGES_DEFAULT, Contents::new(10, Sectors(0)))
    {
        example(out, &g)?;
    }
    writeln!(
        out,
        "\nHome's page `p` begins at sector `grid + 8 p` of home. Sectors before the first whole page, and\n\
         behind the last, have no copy. Home pages are numbered below 2^38 (1 PiB)."
    )
}

/// The regions of an area of a GiB.
fn example(out: &mut String, g: &Geometry) -> std::fmt::Result {
    let checkpoint = format!("`C` = 1 + slots / {ENTRIES_PER_PAGE}, rounded up");
    let plan = format!("1 + slots of the read segments / {PLAN_PER_PAGE}, rounded up");
    let guard = format!("{GUARD_REGION_PAGES} = 1 + 2 * {GUARD_PAGES}");
    let [first, middle, last] = g.superblocks(Sectors(1 << 21));
    for (name, pages, at) in [
        ("superblock", "1", first),
        ("not used; superblock in an area of version 2", "1", 1),
        ("checkpoint, place 0", &checkpoint, g.checkpoint_at(0)),
        ("checkpoint, place 1", "`C`", g.checkpoint_at(1)),
        ("plan, or learned state from its first page on", &plan, g.plan_at()),
        ("read segments", "`R` segments", g.data_at()),
        ("superblock; not in an area of version 2", "1", middle),
        ("log", "`L` segments", middle + 1),
        ("not used", "too few for one segment more", g.pages() - 1),
        ("superblock; not in an area of version 2", "1", last),
        ("guard region, behind an area that is not inside", &guard, (1 << 30) / PAGE_BYTES),
    ] {
        writeln!(out, "| {name} | {pages} | {at} |")?;
    }
    writeln!(
        out,
        "\nIf `free_map_pages` is not 0, copies (replicas) stand in discarded pages of home. Then the regions\n\
         are: superblock and a page that is not used, two checkpoints, two free maps of `free_map_pages` pages ({RUNS_PER_PAGE} runs each),\n\
         one for the checkpoint of the same number, a map page for each read segment, superblock, log, superblock.\n\
         There is no plan. The other pages of a read segment stand at home, in a row from the page that its map names.\n\n\
         In the example there are {} read segments and {} of log; {} of {} hold data or headers.",
        g.read_segments(),
        g.log_segments(),
        format_size(u64::from(g.slots()) * PAGE_BYTES),
        format_size(1 << 30),
    )
}

fn page(out: &mut String, layout: &Layout) -> std::fmt::Result {
    let mut name = layout.name.to_owned();
    name[..1].make_ascii_uppercase();
    writeln!(out, "\n## {name} (kind {})\n", layout.kind)?;
    writeln!(out, "{}\n", joined(layout.about))?;
    table_head(out, &["byte", "bytes", "field", "type", "meaning"])?;
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
