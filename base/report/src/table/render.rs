//! Renders a table for each medium: terminal, HTML, CSV. It decides the layout, never the numbers.

use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::{Align, Cell, ShownColumn, Table, Verdict};
use crate::escape::{csv_line, csv_number, esc, plain};
use crate::number_format::MISSING;

const GAP: usize = 2;
/// Minimum width of shortened words before the table becomes a list.
const SHORTEST: usize = 12;

impl Table {
    /// The table for a terminal of `width` columns, with ANSI colours if `colour`. If it is too
    /// wide, headings take several lines; then long words are shortened with `…`; finally each row
    /// becomes a list of its cells. Ends with a line end.
    pub fn terminal(&self, width: usize, colour: bool) -> String {
        let ink = TerminalColours { colour };
        let mut columns = self.shown();
        let mut out = String::new();
        if !self.title.is_empty() {
            let _ = writeln!(out, "{}", ink.paint("1", &plain(&self.title)));
        }
        let mut sizes: Vec<Size> = columns.iter().map(|c| Size::of(c, false)).collect();
        let total = |sizes: &[Size]| {
            sizes.iter().map(Size::total).sum::<usize>() + GAP * sizes.len().saturating_sub(1)
        };
        if total(&sizes) > width {
            sizes = columns.iter().map(|c| Size::of(c, true)).collect();
        }
        while total(&sizes) > width {
            let widest = (0..columns.len())
                .filter(|&c| columns[c].align == Align::Left && sizes[c].text > SHORTEST)
                .max_by_key(|&c| sizes[c].text);
            let Some(c) = widest else { break };
            let over = total(&sizes) - width;
            let room = sizes[c].text.saturating_sub(over).max(SHORTEST);
            for cell in &mut columns[c].cells {
                cell.text = cut(&cell.text, room);
            }
            columns[c].name = cut(&columns[c].name, room);
            let after = Size::of(&columns[c], true);
            if after.total() >= sizes[c].total() {
                break;
            }
            sizes[c] = after;
        }
        if total(&sizes) > width {
            self.list(&mut out, &ink);
        } else {
            grid(&mut out, &columns, &sizes, self.rows.len(), &ink);
        }
        for remark in [self.legend(), Some(plain(&self.note))].into_iter().flatten() {
            if !remark.is_empty() {
                let _ = writeln!(out, "{}", ink.paint("2", &remark));
            }
        }
        out
    }

    /// One block of lines per row, for narrow terminals.
    fn list(&self, out: &mut String, ink: &TerminalColours) {
        let columns = self.shown();
        for r in 0..self.rows.len() {
            for (i, column) in columns.iter().enumerate() {
                let cell = &column.cells[r];
                if cell.text.is_empty() && cell.change.is_none() {
                    continue;
                }
                let bare = column.unit.is_empty() || cell.text == MISSING;
                let unit = if bare { String::new() } else { format!(" {}", column.unit) };
                let change = cell.change.as_ref().map_or(String::new(), |(text, verdict)| {
                    format!(" {}", ink.verdict(*verdict, text))
                });
                let lead = if i == 0 { "" } else { "  " };
                let _ = writeln!(out, "{lead}{}: {}{unit}{change}", column.name, cell.text);
            }
        }
    }

    /// The table as HTML: a `<table>` in a box that can scroll sideways.
    pub fn html(&self) -> String {
        let columns = self.shown();
        let mut out = "<div class=\"table\" tabindex=\"0\" role=\"region\"".to_owned();
        let name = if self.title.is_empty() { "Table" } else { &self.title };
        let _ = write!(out, " aria-label=\"{}\"><table>", esc(name));
        if !self.title.is_empty() {
            let _ = write!(out, "<caption><span>{}</span></caption>", esc(&self.title));
        }
        out.push_str("<thead><tr>");
        for column in &columns {
            // An empty heading is not a heading for screen readers.
            if column.name.is_empty() && column.unit.is_empty() {
                out.push_str("<td></td>");
                continue;
            }
            let _ = write!(out, "<th scope=\"col\"{}>{}", class(column.align), esc(&column.name));
            if !column.unit.is_empty() {
                let _ = write!(out, " <span class=\"unit\">({})</span>", esc(&column.unit));
            }
            if !column.arrow.is_empty() {
                let says = if column.arrow == "↓" { "lower" } else { "higher" };
                let _ = write!(
                    out,
                    " <span class=\"arrow\" title=\"{says} is better\">{}</span>",
                    column.arrow
                );
            }
            out.push_str("</th>");
        }
        out.push_str("</tr></thead><tbody>");
        self.html_rows(&columns, &mut out);
        out.push_str("</tbody></table></div>");
        for remark in [self.legend(), Some(self.note.clone())].into_iter().flatten() {
            if !remark.is_empty() {
                let _ = write!(out, "<p class=\"remark\">{}</p>", esc(&remark));
            }
        }
        out
    }

    fn html_rows(&self, columns: &[ShownColumn], out: &mut String) {
        for r in 0..self.rows.len() {
            out.push_str(if self.baseline == Some(r) { "<tr class=\"base\">" } else { "<tr>" });
            for (c, column) in columns.iter().enumerate() {
                let tag =
                    if c == 0 && column.align == Align::Left { "th scope=\"row\"" } else { "td" };
                // On a narrow screen each row is a list, and each cell carries its heading.
                let heading = if tag == "td" {
                    format!(" data-h=\"{}\"", esc(&column.heading()))
                } else {
                    String::new()
                };
                let text = esc(&column.cells[r].text);
                let _ = write!(out, "<{tag}{}{heading}>{text}", class(column.align));
                if let Some((text, verdict)) = &column.cells[r].change {
                    let word = match verdict {
                        Verdict::Better => "better",
                        Verdict::Worse => "worse",
                        Verdict::Same => "same",
                    };
                    let _ = write!(
                        out,
                        " <span class=\"delta {word}\" title=\"{word}\">{}</span>",
                        esc(text)
                    );
                }
                let _ = write!(out, "</{}>", &tag[..2]);
            }
            out.push_str("</tr>");
        }
    }

    /// The table as CSV: every number with all its digits in its base unit, which the heading
    /// names.
    pub fn csv(&self) -> String {
        let mut out = String::new();
        csv_line(&mut out, self.columns.iter().map(|c| c.unit.of(&c.name)));
        for r in 0..self.rows.len() {
            let cells = (0..self.columns.len()).map(|c| match self.cell(r, c) {
                Cell::Empty => String::new(),
                Cell::Text(text) => text.clone(),
                Cell::Number(v) | Cell::Quantity(v, _) => csv_number(*v),
                Cell::Change { value, base, .. } => csv_number((value - base) / base.abs()),
            });
            csv_line(&mut out, cells);
        }
        out
    }
}

impl ShownColumn {
    fn heading(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" ({})", self.unit) };
        let arrow = if self.arrow.is_empty() { String::new() } else { format!(" {}", self.arrow) };
        format!("{}{unit}{arrow}", self.name)
    }

    /// The heading, broken between words, in as few lines as `room` columns or its longest word
    /// allow. Unit and arrow stay together.
    fn stacked(&self, room: usize) -> Vec<String> {
        let heading = self.heading();
        let tail = heading[self.name.len()..].trim_start();
        let words: Vec<&str> =
            self.name.split(' ').chain((!tail.is_empty()).then_some(tail)).collect();
        let room = words.iter().map(|w| w.width()).max().unwrap_or(0).max(room);
        let mut lines: Vec<String> = Vec::new();
        for word in words {
            match lines.last_mut() {
                Some(line) if line.width() + 1 + word.width() <= room => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
        lines
    }
}

fn class(align: Align) -> &'static str {
    match align {
        Align::Left => "",
        Align::Right => " class=\"num\"",
    }
}

/// The width of a terminal column: its text with the changes beside it, and its heading by lines.
struct Size {
    head: Vec<String>,
    text: usize,
    change: usize,
}

impl Size {
    fn of(column: &ShownColumn, stacked: bool) -> Self {
        let text = column.cells.iter().map(|c| c.text.width()).max().unwrap_or(0);
        let change = column.cells.iter().filter_map(|c| c.change.as_ref());
        let change = change.map(|(t, _)| t.width()).max().unwrap_or(0);
        let mut size = Self { head: vec![column.heading()], text, change };
        if stacked {
            size.head = column.stacked(size.body());
        }
        size
    }

    fn body(&self) -> usize {
        self.text + self.change + usize::from(self.text > 0 && self.change > 0)
    }

    fn total(&self) -> usize {
        self.head.iter().map(|line| line.width()).fold(self.body(), usize::max)
    }
}

fn grid(
    out: &mut String,
    columns: &[ShownColumn],
    sizes: &[Size],
    rows: usize,
    ink: &TerminalColours,
) {
    let tallest = sizes.iter().map(|s| s.head.len()).max().unwrap_or(0);
    for l in 0..tallest {
        let heads = columns.iter().zip(sizes).map(|(column, size)| {
            // Short headings are at the bottom, directly above the rule.
            let at = (l + size.head.len()).checked_sub(tallest);
            let text = at.map_or("", |at| &size.head[at]);
            let pad = " ".repeat(size.total() - text.width());
            let text = ink.paint("1", text);
            if column.align == Align::Right { pad + &text } else { text + &pad }
        });
        line(out, heads.collect());
    }
    let rules = sizes.iter().map(|s| ink.paint("2", &"─".repeat(s.total())));
    line(out, rules.collect());
    for r in 0..rows {
        let cells = columns.iter().zip(sizes).map(|(column, size)| {
            let cell = &column.cells[r];
            let right = column.align == Align::Right;
            let pad = " ".repeat(size.text - cell.text.width());
            let mut text = if right { pad + &cell.text } else { cell.text.clone() + &pad };
            if size.change > 0 {
                if size.text > 0 {
                    text.push(' ');
                }
                let (change, verdict) =
                    cell.change.as_ref().map_or(("", Verdict::Same), |(t, v)| (t, *v));
                text.push_str(&" ".repeat(size.change - change.width()));
                text.push_str(&ink.verdict(verdict, change));
            }
            let pad = " ".repeat(size.total() - size.body());
            if right { pad + &text } else { text + &pad }
        });
        line(out, cells.collect());
    }
}

fn line(out: &mut String, cells: Vec<String>) {
    out.push_str(cells.join(&" ".repeat(GAP)).trim_end());
    out.push('\n');
}

/// The text in at most `room` terminal columns.
fn cut(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_owned();
    }
    let (mut out, mut used) = (String::new(), 1);
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > room {
            break;
        }
        out.push(c);
    }
    out + "…"
}

struct TerminalColours {
    colour: bool,
}

impl TerminalColours {
    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    fn verdict(&self, verdict: Verdict, text: &str) -> String {
        match verdict {
            Verdict::Better => self.paint("32", text),
            Verdict::Worse => self.paint("31", text),
            Verdict::Same => text.to_owned(),
        }
    }
}
