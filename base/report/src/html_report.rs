//! A report as one HTML file: the finding first, then the numbers, then their origin. The file
//! needs no network.

use std::fmt::{Display, Write as _};

use crate::escape::esc;
use crate::{Figure, Table, style};

/// A key number in large type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tile {
    /// The name of the number.
    pub label: String,
    /// The number with its unit, for example `−34 %`.
    pub value: String,
    /// The comparison or the parts of the number; can be empty.
    pub note: String,
}

impl Tile {
    /// A tile.
    pub fn new(
        label: impl Into<String>,
        value: impl Into<String>,
        note: impl Into<String>,
    ) -> Self {
        Self { label: label.into(), value: value.into(), note: note.into() }
    }
}

/// A part of a section.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Block {
    Text(String),
    Table(Table),
    Figure(Figure),
}

/// A part of a report under a heading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Its heading.
    pub heading: String,
    /// The content, in order.
    pub blocks: Vec<Block>,
}

impl Section {
    /// An empty section.
    pub fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), blocks: Vec::new() }
    }

    /// Adds a paragraph.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.blocks.push(Block::Text(text.into()));
        self
    }

    /// Adds a table.
    #[must_use]
    pub fn table(mut self, table: Table) -> Self {
        self.blocks.push(Block::Table(table));
        self
    }

    /// Adds a figure.
    #[must_use]
    pub fn figure(mut self, figure: Figure) -> Self {
        self.blocks.push(Block::Figure(figure));
        self
    }
}

/// The origin of the numbers, so that they can be reproduced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The command line that made the report.
    pub command: String,
    /// Versions, inputs, seeds: names and values.
    pub facts: Vec<(String, String)>,
    /// The quantities observed on real devices or in real traces.
    pub measured: Vec<String>,
    /// The quantities computed by a model.
    pub modelled: Vec<String>,
}

impl Provenance {
    /// Numbers of this version, for a command line.
    pub fn of(command: impl Into<String>) -> Self {
        let empty = Self { command: command.into(), ..Self::default() };
        empty.fact("seekless", env!("CARGO_PKG_VERSION"))
    }

    /// Adds a fact.
    #[must_use]
    pub fn fact(mut self, name: impl Into<String>, value: impl Display) -> Self {
        self.facts.push((name.into(), value.to_string()));
        self
    }

    /// Adds an observed quantity.
    #[must_use]
    pub fn measured(mut self, what: impl Into<String>) -> Self {
        self.measured.push(what.into());
        self
    }

    /// Adds a computed quantity.
    #[must_use]
    pub fn modelled(mut self, what: impl Into<String>) -> Self {
        self.modelled.push(what.into());
        self
    }
}

/// A report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Its title.
    pub title: String,
    /// The finding in plain words, one or two sentences.
    pub lead: String,
    /// The key numbers.
    pub tiles: Vec<Tile>,
    /// The body.
    pub sections: Vec<Section>,
    /// The origin of the numbers.
    pub provenance: Provenance,
}

impl Report {
    /// A report with only its title and finding.
    pub fn new(title: impl Into<String>, lead: impl Into<String>) -> Self {
        Self { title: title.into(), lead: lead.into(), ..Self::default() }
    }

    /// Adds a tile.
    #[must_use]
    pub fn tile(mut self, tile: Tile) -> Self {
        self.tiles.push(tile);
        self
    }

    /// Adds a section.
    #[must_use]
    pub fn section(mut self, section: Section) -> Self {
        self.sections.push(section);
        self
    }

    /// Sets the origin of the numbers.
    #[must_use]
    pub fn provenance(mut self, provenance: Provenance) -> Self {
        self.provenance = provenance;
        self
    }

    /// The report as one HTML file. It loads nothing from outside, works without scripts, and
    /// follows the reader's preference for light or dark. `#light` and `#dark` in the address
    /// select one.
    pub fn html(&self) -> String {
        let mut body = String::new();
        let _ = write!(
            body,
            "<header><h1>{}</h1><p class=\"lead\">{}</p></header>",
            esc(&self.title),
            prose(&self.lead)
        );
        self.tiles_html(&mut body);
        let mut figures = 0;
        for section in &self.sections {
            let _ = write!(body, "<section><h2>{}</h2>", esc(&section.heading));
            for block in &section.blocks {
                match block {
                    Block::Text(text) => {
                        let _ = write!(body, "<p>{}</p>", prose(text));
                    }
                    Block::Table(table) => body.push_str(&table.html()),
                    Block::Figure(figure) => {
                        figures += 1;
                        body.push_str(&figure.html(&format!("fig-{figures}")));
                    }
                }
            }
            body.push_str("</section>");
        }
        self.provenance_html(&mut body);
        // A file opened from disk has no server that could send this policy, so the page contains
        // it.
        let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:";
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>\n:root{{{light}}}\n\
             @media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}\n\
             @media screen{{:root[data-theme=dark]{{{dark}}}}}\n{page}{figure}</style>\n\
             <script type=\"text/plain\" id=\"svg-style\">{alone}</script>\n</head>\n<body>\n\
             <main>{body}</main>\n<script>\n{script}</script>\n</body>\n</html>\n",
            title = esc(&self.title),
            light = style::variables(false),
            dark = style::variables(true),
            page = style::PAGE,
            figure = style::FIGURE,
            alone = style::standalone(),
            script = style::SCRIPT,
        )
    }

    fn tiles_html(&self, out: &mut String) {
        if self.tiles.is_empty() {
            return;
        }
        out.push_str("<dl class=\"tiles\">");
        for tile in &self.tiles {
            let _ = write!(
                out,
                "<div><dt>{}</dt><dd class=\"value\">{}</dd>",
                esc(&tile.label),
                esc(&tile.value)
            );
            if !tile.note.is_empty() {
                let _ = write!(out, "<dd class=\"note\">{}</dd>", esc(&tile.note));
            }
            out.push_str("</div>");
        }
        out.push_str("</dl>");
    }

    fn provenance_html(&self, out: &mut String) {
        let from = &self.provenance;
        if *from == Provenance::default() {
            return;
        }
        out.push_str("<section class=\"provenance\"><h2>How this was made</h2>");
        if !from.command.is_empty() {
            let _ = write!(
                out,
                "<pre tabindex=\"0\" role=\"region\" aria-label=\"Command line\"><code>{}</code></pre>",
                esc(&from.command)
            );
        }
        for (name, list) in [("Measured", &from.measured), ("Modelled", &from.modelled)] {
            if !list.is_empty() {
                let _ = write!(out, "<h3>{name}</h3><ul>");
                for item in list {
                    let _ = write!(out, "<li>{}</li>", esc(item));
                }
                out.push_str("</ul>");
            }
        }
        if !from.facts.is_empty() {
            out.push_str("<h3>Inputs and versions</h3><dl class=\"facts\">");
            for (name, value) in &from.facts {
                let _ = write!(out, "<div><dt>{}</dt><dd>{}</dd></div>", esc(name), esc(value));
            }
            out.push_str("</dl>");
        }
        out.push_str("</section>");
    }
}

/// A paragraph in which numbers stay together with their percent sign.
fn prose(text: &str) -> String {
    esc(text).replace(" %", "\u{a0}%")
}

#[cfg(test)]
mod tests;
