//! docs/on-disk-format.md, from the definitions that the code reads and writes by. `cargo xtask format-doc`
//! writes it, `cargo xtask tidy` says when it is out of date.

use std::fmt::Write as _;

use seekless_block::{PAGE_BYTES, Sectors, format_size};

use super::field::{Layout, Part};
use super::{
    CHECKSUM_AT, CheckpointHeader, CheckpointPage, Content, ENTRIES_PER_PAGE, FIELDS_AT, Geometry,
    Header, KIND_AT, LOG_SEGMENTS_MIN, PLAN_PER_PAGE, PlanHeader, PlanPage, SEGMENT_PAGES_DEFAULT,
    State, Superblock, VERSION, VERSION_AT, value::AreaFlags,
};

const PAGES: [Layout; 6] = [
    Superblock::LAYOUT,
    CheckpointHeader::LAYOUT,
    CheckpointPage::LAYOUT,
    PlanHeader::LAYOUT,
    PlanPage::LAYOUT,
    Header::LAYOUT,
];

const INTRODUCTION: &str = "\
# What stands on the area

<!-- Written by `cargo xtask format-doc` from crates/engine/src/format. Change it there. -->

An area is a file, a device, or the end of the device that holds home. This is every byte of it that is not
data. Numbers are little endian and counted in the units named; a page is 4 KiB, a sector 512 bytes. Bytes
that no field covers are zero, and a page that holds something there is refused.

## What survives what

| what happens | what is lost |
|:--|:--|
| the server stops in order | nothing |
| the server or the machine stops at any moment | writes that no flush and no FUA promised, as with any disk; copies for reading must be proven equal to home before they are used again |
| a page of copies for reading rots | nothing: its checksum tells, and home is read |
| a page of the log that home has already rots | nothing |
| a page of the log that home has not yet rots | that page: reading it is an error, never other bytes |
| a header in the middle of the log rots | nothing yet: the area is not served until a repair has said what to give up |
| one superblock rots | nothing: the other one is used, and the first written anew |
| both superblocks rot | nothing, where nothing was dirty; else the area is not served until a repair has found the log by its headers |
| the newest checkpoint rots | in writethrough nothing: copies are learned anew; in writeback the area is not served until a repair has read the log |
| the plan rots | the plan: another one is learned |
| the area is lost | in writethrough nothing; in writeback what was not written home yet |

## The order of writes

`|` is a flush of the device, which ends before the next begins.

- **A change of the superblock**: copy A | copy B |. Each is whole before the other is touched, so that one is
  always good. Where one is found damaged or older, it is made equal to the other | before any change.
- **A new area**: zeroes over both superblocks | copy A | copy B |. What stood there before can never be taken
  for a part of it: every page names its area.
- **A checkpoint**: its pages and its header, in the place that is not in use | the superblock that names it.
  It need not be of one moment: records from its position on are read over it.
- **A write to the log**: the header and its data, in any order. It counts once both are whole, which the
  checksums tell; a flush of the area makes it durable.
- **A plan**: the superblock with plan generation 0 | pages and header of the plan | the superblock that names it.
- **A read segment**: a record of kind `Invalid` | data and map | a record of kind `Committed`.
- **Home made newer than the log**: the write home | a record of kind `Tombstones` |, before the client's flush ends.
- **Dirty data brought home**: the write home | only then may its segment of the log be overwritten.

## Finding the end of the log

From the checkpoint's position on, a header is the next one where page and checksum are good, area and position
are right, its sequence number is the expected one and `previous` is the checksum of the header before. Where
it is not, the start of the next segment is tried; where that is not either, the log ends. Records never cross
the end of a segment, and each segment of the log begins with a header. A record of data above the highest
`durable` that any later header names may be torn: it counts where its data has the checksums that it says.
Where, behind the end, a header of this area has a higher sequence number and says that the missing record was
durable, the log is damaged in its middle, and nothing is served from it.
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

/// Where the regions stand, and an example.
fn regions(out: &mut String) -> std::fmt::Result {
    writeln!(out, "\n## Where things stand\n")?;
    writeln!(
        out,
        "In pages from the area's start. A *slot* is a page of the segments, numbered from 0; a segment has 8 to 256\n\
         of them, a power of two, {SEGMENT_PAGES_DEFAULT} where nobody asks otherwise. There are `R` segments for reading, one at least, and\n\
         behind them `L` of log, {LOG_SEGMENTS_MIN} at least. Slots are fewer than 2^32. The example is an area of 1 GiB, a\n\
         tenth of it log.\n"
    )?;
    let example = Geometry::fit(Sectors(1 << 21), SEGMENT_PAGES_DEFAULT, 10);
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
            ("not used".to_owned(), "less than a segment's".to_owned(), g.pages()),
        ];
        for (name, pages, at) in rows {
            writeln!(out, "| {name} | {pages} | {at} |")?;
        }
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
        let many = if part.count > 1 { format!("{} of: ", part.count) } else { String::new() };
        let limits = match part.limits {
            Some((low, u64::MAX)) => format!(", from {low} on"),
            Some((low, high)) => format!(", {low} to {high}"),
            None => String::new(),
        };
        let what = joined(part.about);
        writeln!(out, "| {at} | {bytes} | `{name}` | {many}{}{limits} | {what} |", part.format)?;
    }
    Ok(())
}

fn table_head(out: &mut String, columns: &[&str]) -> std::fmt::Result {
    writeln!(out, "| {} |", columns.join(" | "))?;
    writeln!(out, "|{}", ":--|".repeat(columns.len()))
}

/// Lines of a doc comment as one.
fn joined(lines: &[&str]) -> String {
    let lines: Vec<&str> = lines.iter().map(|l| l.trim()).collect();
    lines.join(" ").trim().to_owned()
}
