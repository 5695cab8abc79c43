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

const INTRODUCTION: &str = include_str!("document.md");

/// The document, as Markdown.
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
         Positions are in pages from the area's start. A *slot* is a page of the segments, numbered from 0\n\
         and below 2^32. A segment has 8 to 256 slots, a power of two; the default is {SEGMENT_PAGES_DEFAULT}.\n\
         Segments are numbered from 0 too: first `R` segments for reading, at least one, then `L` segments\n\
         of log, at least {LOG_SEGMENTS_MIN}. The example is an area of 1 GiB, a tenth of it log.\n"
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
        "\nIf `free_map_pages` is not 0, copies (replicas) stand in discarded pages of home. Then the area has\n\
         these regions, in this order:\n\n\
         1. superblock, and a page that is not used\n\
         2. two checkpoints\n\
         3. two free maps of `free_map_pages` pages ({RUNS_PER_PAGE} runs each): one for the checkpoint of the\n   \
         same number\n\
         4. a map page for each read segment\n\
         5. superblock, log, superblock\n\n\
         There is no plan. The other pages of a read segment stand at home, in a row from the page that the\n\
         segment's map names.\n\n\
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
