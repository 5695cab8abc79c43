//! docs/changing/group-store-format.md, from the definitions that the code reads and writes by. `cargo xtask format-doc`
//! writes it, `cargo xtask tidy` says when it is out of date.

use std::fmt::Write as _;

use super::field::Layout;
use super::{Change, CheckpointHeader, FRAME_BYTES, RecordPage, Superblock, VERSION};

const INTRODUCTION: &str = "\
# What stands on a group store

<!-- Written by `cargo xtask format-doc` from files/store/src/format. Change it there. -->

A group store is a file or a device that holds the small files that `seekless` keeps together in groups, after EEFS. This is
every byte of it but the files' own. Numbers are little endian; a page is 4 KiB, a sector 512 bytes, a cluster 64 or
128 KiB. Bytes that no field covers are zero, and a page that holds something there is refused.

## Where things stand

| what | pages |
|:--|:--|
| superblock, twice | 0 and 1 |
| checkpoint with an even generation | `C` = `checkpoint_pages`: its header, then pages of records |
| checkpoint with an odd generation | `C` |
| the log, round and round | `L` = `log_pages` |
| clusters, from a multiple of their size on | the rest |

The *file lookup table* and the *group table* are in memory; the changes that make them out of nothing are a checkpoint, and
the changes since then are the log. The *cluster usage bitmap* follows from the group table and is not written.

## The order of writes

A bar is a flush: what comes before it is on stable storage before anything behind it is written.

- **A commit**: groups, to clusters that no group stands in, neither now nor by the last checkpoint; where a file is gone,
  all that the other module was told | one batch of the log |
- **A checkpoint**: pages of records, in the place that is not in use | its header |
- **A new store**: zeroes over both superblocks | the first checkpoint | both superblocks |

A batch counts where all of its pages are whole and of the same attempt. No batch crosses the end of the log: where
it does not fit, it stands at the log's first page.

## What survives what

| what happens | what is lost |
|:--|:--|
| the server or the machine stops at any moment | changes that no sync covered |
| a page of the newest checkpoint rots, and no batch was written since | nothing: the one before it and the log make up for it |
| a page of the newest checkpoint rots later | the store is refused |
| a batch that is not the last rots | the store is refused |
| the last batch rots | it is taken for one that a crash tore: what it said is lost, without a word |
| a group rots | its files: reading them is an error, never other bytes |
| one superblock rots | nothing |
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
    writeln!(out, "\n## How every page begins\n")?;
    writeln!(
        out,
        "Pages of clusters are the files' own and have none of this. This is version {VERSION}.\n"
    )?;
    writeln!(out, "| byte | bytes | field | type | what it is |\n|:--|:--|:--|:--|:--|")?;
    for (at, bytes, name, format, what) in [
        (0, 8, "magic", "ASCII", "`SEEKGRPS`"),
        (8, 2, "version", "u16", "of the format"),
        (10, 2, "kind", "u16", "1 superblock, 2 checkpoint, 3 page of records"),
        (12, 4, "checksum", "u32", "CRC-32C of the whole page, these four bytes taken as zero"),
    ] {
        writeln!(out, "| {at} | {bytes} | `{name}` | {format} | {what} |")?;
    }
    for layout in [Superblock::LAYOUT, CheckpointHeader::LAYOUT, RecordPage::LAYOUT] {
        structure(out, &layout, FRAME_BYTES)?;
    }
    writeln!(
        out,
        "\n# Records\n\nA record is a tag of one byte and what follows it; none crosses a page. Tag 2 is followed by the\n\
         number (u64) of a file that is gone."
    )?;
    for layout in &Change::LAYOUTS {
        structure(out, layout, 0)?;
    }
    Ok(())
}

fn structure(out: &mut String, layout: &Layout, from: usize) -> std::fmt::Result {
    let mut name = layout.name.to_owned();
    name[..1].make_ascii_uppercase();
    writeln!(out, "\n## {name}\n\n{}\n", joined(layout.about))?;
    writeln!(out, "| byte | bytes | field | type | what it is |\n|:--|:--|:--|:--|:--|")?;
    let mut at = from;
    for part in layout.parts {
        let what = joined(part.about);
        writeln!(out, "| {at} | {} | `{}` | {} | {what} |", part.bytes, part.name, part.format)?;
        at += part.bytes;
    }
    Ok(())
}

/// Lines of a doc comment as one.
fn joined(lines: &[&str]) -> String {
    let lines: Vec<&str> = lines.iter().map(|l| l.trim()).filter(|l| !l.is_empty()).collect();
    lines.join(" ")
}
