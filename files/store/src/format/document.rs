//! docs/changing/group-store-format.md, from the definitions of the codec. `cargo xtask format-doc`
//! writes the document; `cargo xtask tidy` finds an outdated one.

use std::fmt::Write as _;

use super::field::Layout;
use super::{Change, CheckpointHeader, FRAME_BYTES, RecordPage, Superblock, VERSION};

const INTRODUCTION: &str = "\
# The format of a group store

<!-- Written by `cargo xtask format-doc` from files/store/src/format. Change it there. -->

A group store is a file or a device. It holds the small files that `seekless` keeps together in
groups (EEFS). This page describes every byte of the store except the contents of the files.
Numbers are little endian. A page is 4 KiB, a sector 512 bytes, a cluster 64 or 128 KiB. Bytes
without a field are zero. If one of these bytes is not zero, the page is refused.

## Layout

| part | pages |
|:--|:--|
| superblock, twice | 0 and 1 |
| checkpoint with an even generation | `C` = `checkpoint_pages`: its header, then pages of records |
| checkpoint with an odd generation | `C` |
| the log, written cyclically | `L` = `log_pages` |
| clusters, from a multiple of their size on | the rest |

The *file lookup table* and the *group table* are in memory. A checkpoint is the list of changes
that builds both tables from nothing. The log has the changes since the checkpoint. The *cluster
usage bitmap* follows from the group table and is not stored.

## The order of writes

A bar is a flush: writes before the bar are on stable storage before the writes after the bar begin.

- **A commit**: groups, into clusters that are free now and in the last checkpoint; for a removed
  file, all changes of the other module | one batch of the log |
- **A checkpoint**: pages of records, in the place that is not in use | its header |
- **A new store**: zeroes over both superblocks | the first checkpoint | both superblocks |

A batch counts if all of its pages are whole and belong to the same attempt. No batch crosses the
end of the log: a batch that does not fit begins at the first page of the log.

## Damage and its consequences

| event | loss |
|:--|:--|
| the server or the machine stops at any moment | changes that no sync covered |
| a page of the newest checkpoint is damaged, and no batch was written since | nothing: the checkpoint before it and the log replace it |
| a page of the newest checkpoint is damaged later | the store is refused |
| a batch that is not the last is damaged | the store is refused |
| the last batch is damaged | its changes, without a message: it looks like a batch that a crash cut short |
| a group is damaged | its files: a read returns an error, never other bytes |
| one superblock is damaged | nothing |
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
    writeln!(out, "\n## The first bytes of every page\n")?;
    writeln!(
        out,
        "Pages of clusters hold only contents of files, without these fields. This is version {VERSION}.\n"
    )?;
    writeln!(out, "| byte | bytes | field | type | meaning |\n|:--|:--|:--|:--|:--|")?;
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
        "\n# Records\n\nA record is a tag of one byte and its fields. No record crosses a page. After tag 2 stands the\n\
         number (u64) of a removed file."
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
    writeln!(out, "| byte | bytes | field | type | meaning |\n|:--|:--|:--|:--|:--|")?;
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
