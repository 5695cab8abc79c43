//! The tables of docs/changing/group-store-format.md, from the definitions of the codec. `cargo xtask
//! format-doc` writes them; `cargo xtask tidy` finds outdated ones.

use std::fmt::Write as _;

use super::field::Layout;
use super::{Change, CheckpointHeader, FRAME_BYTES, RecordPage, Superblock, VERSION};

/// The document from its tables on, as Markdown.
pub fn document() -> String {
    let mut out = String::new();
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
