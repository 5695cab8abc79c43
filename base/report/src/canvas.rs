//! The canvas that a figure is drawn on: text, lines, boxes, axes and a legend, in pixels. It knows
//! shapes and positions, not their meaning.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr as _;

use crate::axis_ticks::{Mapped, Scale};
use crate::escape::esc;
use crate::figure::Axis;

/// Height of text in pixels; the same for all text of a figure, at every width.
pub(crate) const TEXT: f64 = 12.0;
/// Number of colours, dashes and symbols before they repeat.
pub(crate) const STYLES: usize = 7;

/// Symbols for points, as relative path commands: dot, plus, cross, triangle, square, diamond, bar.
pub(crate) const GLYPHS: [&str; STYLES] = [
    "h0",
    "m-3 0h6m-3-3v6",
    "m-2-2l4 4m0-4l-4 4",
    "m0-3l3 5h-6z",
    "m-2-2h4v4h-4z",
    "m0-3l3 3l-3 3l-3-3z",
    "m-3 0h6",
];

/// The dash, symbol or pattern of a series. Colours repeat after [`STYLES`] series. The shapes are
/// then shifted by one, so that the first 49 series all look different.
pub(crate) fn shape(series: usize) -> usize {
    (series + series / STYLES) % STYLES
}

/// A pixel coordinate as short text; always a plain decimal number.
pub(crate) fn px(v: f64) -> String {
    if !v.is_finite() {
        return "0".to_owned();
    }
    let tenths = (v.clamp(-1e6, 1e6) * 10.0).round() as i64;
    let (sign, tenths) = (if tenths < 0 { "-" } else { "" }, tenths.abs());
    if tenths % 10 == 0 {
        format!("{sign}{}", tenths / 10)
    } else {
        format!("{sign}{}.{}", tenths / 10, tenths % 10)
    }
}

/// Two pixel coordinates, as in a path.
pub(crate) fn xy((x, y): (f64, f64)) -> String {
    format!("{} {}", px(x), px(y))
}

/// Path commands of a line through these points.
pub(crate) fn polyline(points: &[(f64, f64)]) -> String {
    points.iter().map(|p| xy(*p)).collect::<Vec<_>>().join("L")
}

/// Approximate width of a text in the reader's sans-serif font.
pub(crate) fn text_px(text: &str) -> f64 {
    text.width() as f64 * TEXT * 0.6 + 2.0
}

/// The text, shortened with `…` to about `room` pixels.
pub(crate) fn fit(text: &str, room: f64) -> String {
    if text_px(text) <= room {
        return text.to_owned();
    }
    let mut out = String::new();
    for c in text.chars() {
        out.push(c);
        if text_px(&out) + TEXT * 0.8 > room {
            out.pop();
            break;
        }
    }
    out.trim_end().to_owned() + "…"
}

/// The box that contains the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

impl Frame {
    /// Position and size, as attributes of a rectangle.
    pub(crate) fn attributes(&self) -> String {
        let (w, h) = ((self.right - self.left).max(0.0), (self.bottom - self.top).max(0.0));
        let [x, y, w, h] = [self.left, self.top, w, h].map(px);
        format!("x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"")
    }
}

/// The mark beside a name in the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// A line with its dashes and symbol.
    Line,
    /// A patch with its pattern.
    Patch,
    /// A symbol, as an index of [`GLYPHS`].
    Glyph(usize),
    /// A shaded area.
    Area,
}

pub(crate) struct Canvas {
    pub(crate) width: f64,
    /// Prefix of every id, unique on the page.
    pub(crate) id: String,
    /// Whether to draw details that only a zoomed figure shows.
    pub(crate) zooms: bool,
    pub(crate) out: String,
}

impl Canvas {
    pub(crate) fn new(width: f64, id: &str) -> Self {
        Self { width, id: id.to_owned(), zooms: false, out: String::new() }
    }

    pub(crate) fn text(&mut self, x: f64, y: f64, class: &str, anchor: &str, text: &str) {
        let (x, y, text) = (px(x), px(y), esc(text));
        let _ = write!(
            self.out,
            "<text x=\"{x}\" y=\"{y}\" class=\"{class}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    /// A text centred at `x`, but never beyond the edges of the figure.
    fn centred(&mut self, x: f64, y: f64, text: &str) {
        let half = text_px(text) / 2.0 + 1.0;
        let x = x.min(self.width - half).max(half);
        self.text(x, y, "tick", "middle", text);
    }

    pub(crate) fn line(&mut self, class: &str, a: (f64, f64), b: (f64, f64)) {
        let _ = write!(self.out, "<path class=\"{class}\" d=\"M{}\"/>", polyline(&[a, b]));
    }

    /// A box with a tooltip. `series` is the legend entry that shows and hides it.
    pub(crate) fn rect(&mut self, class: &str, series: Option<usize>, f: Frame, tip: &str) {
        let series = series.map_or(String::new(), |s| format!(" data-s=\"{s}\""));
        let _ = write!(self.out, "<rect class=\"{class}\"{series} {}", f.attributes());
        if tip.is_empty() {
            self.out.push_str("/>");
        } else {
            let _ = write!(self.out, "><title>{}</title></rect>", esc(tip));
        }
    }

    /// Draws a legend in rows from `y` downwards. Returns its lower end. One entry needs no legend
    /// unless `always`.
    pub(crate) fn legend(&mut self, y: f64, keys: &[(usize, Key, &str)]) -> f64 {
        let (mut x, mut y) = (0.0, y);
        for &(style, key, name) in keys {
            let name = fit(name, self.width - 34.0);
            let w = 26.0 + text_px(&name) + 16.0;
            if x > 0.0 && x + w - 16.0 > self.width {
                (x, y) = (0.0, y + 22.0);
            }
            let (s, mid) = (style % STYLES, y + 9.0);
            let _ = write!(self.out, "<g class=\"key s{s}\" data-key=\"{style}\">");
            let hit = boxed(x, y - 1.0, w - 12.0, 20.0).attributes();
            let _ = write!(self.out, "<rect class=\"hit\" {hit} rx=\"4\"/>");
            match key {
                Key::Line => {
                    self.line(&format!("ln d{}", shape(style)), (x + 2.0, mid), (x + 20.0, mid));
                    self.bead(style, x + 11.0, mid);
                }
                Key::Patch => self.patch(style, None, boxed(x + 4.0, mid - 6.0, 14.0, 12.0), ""),
                Key::Glyph(g) => self.glyph(g, x + 11.0, mid),
                Key::Area => self.rect("area", None, boxed(x + 4.0, mid - 6.0, 14.0, 12.0), ""),
            }
            self.text(x + 25.0, mid + 4.0, "name", "start", &name);
            self.out.push_str("</g>");
            x += w;
        }
        if keys.is_empty() { y } else { y + 24.0 }
    }

    /// A curve's symbol: a filled shape that is visible on a line.
    pub(crate) fn bead(&mut self, style: usize, x: f64, y: f64) {
        let g = [0, 4, 3, 5, 2, 1, 6][shape(style)];
        let (at, mark) = (xy((x, y)), GLYPHS[g]);
        let _ = write!(self.out, "<path class=\"mk at g{g}\" d=\"M{at}{mark}\"/>");
    }

    fn glyph(&mut self, glyph: usize, x: f64, y: f64) {
        let (g, at) = (glyph % STYLES, xy((x, y)));
        let _ = write!(self.out, "<path class=\"mk g{g}\" d=\"M{at}{}\"/>", GLYPHS[g]);
    }

    /// A box in the colour of a series, with its pattern.
    pub(crate) fn patch(&mut self, style: usize, series: Option<usize>, f: Frame, tip: &str) {
        let s = style % STYLES;
        self.rect(&format!("fl s{s}"), series, f, tip);
        let p = shape(style);
        if p > 0 {
            let series = series.map_or(String::new(), |s| format!(" data-s=\"{s}\""));
            let (at, id) = (f.attributes(), &self.id);
            let _ = write!(self.out, "<rect class=\"ov\"{series} {at} fill=\"url(#{id}-p{p})\"/>");
        }
    }

    /// The patterns of [`Canvas::patch`].
    pub(crate) fn patterns(&mut self) {
        const LINES: [&str; STYLES - 1] = [
            "M-2 2L2-2M0 8L8 0M6 10L10 6",
            "M2 2h.01M6 6h.01",
            "M0 0L8 8M-2 6L2 10M6-2L10 2",
            "M0 4H8",
            "M4 0V8",
            "M0 0L8 8M0 8L8 0",
        ];
        self.out.push_str("<defs>");
        for (i, d) in LINES.iter().enumerate() {
            let _ = write!(
                self.out,
                "<pattern id=\"{}-p{}\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\"><path class=\"hatch\" d=\"{d}\"/></pattern>",
                self.id,
                i + 1
            );
        }
        self.out.push_str("</defs>");
    }

    /// Draws the frame's grid, ticks and labels. The label of the vertical axis is above the axis,
    /// so that it is horizontal.
    pub(crate) fn axes(&mut self, f: Frame, x: (&Mapped, &Axis), y: (&Mapped, &Axis)) {
        self.y_axis(f, y.0, &y.1.heading(&y.0.unit));
        self.x_axis(f, x.0, &x.1.heading(&x.0.unit), x.0.scale == Scale::Log);
    }

    pub(crate) fn y_axis(&mut self, f: Frame, y: &Mapped, label: &str) {
        for (value, text) in &y.ticks {
            let Some(at) = y.place(*value) else { continue };
            self.line("grid", (f.left, at), (f.right, at));
            self.text(f.left - 6.0, at + 4.0, "tick", "end", text);
        }
        if !label.is_empty() {
            self.text(0.0, f.top - 14.0, "lab", "start", &fit(label, self.width));
        }
    }

    pub(crate) fn x_axis(&mut self, f: Frame, x: &Mapped, label: &str, grid: bool) {
        self.line("axis", (f.left, f.bottom), (f.right, f.bottom));
        let unit = esc(&x.unit);
        let y = px(f.bottom);
        let _ = write!(self.out, "<g class=\"xticks\" data-y=\"{y}\" data-unit=\"{unit}\">");
        let mut free = f64::NEG_INFINITY;
        for (value, text) in &x.ticks {
            let Some(at) = x.place(*value) else { continue };
            if grid {
                self.line("grid", (at, f.top), (at, f.bottom));
            }
            self.line("axis", (at, f.bottom), (at, f.bottom + 4.0));
            let half = text_px(text) / 2.0;
            if at - half > free {
                self.centred(at, f.bottom + 17.0, text);
                free = at + half + 4.0;
            }
        }
        self.out.push_str("</g>");
        if !label.is_empty() {
            let label = fit(label, self.width - f.left);
            self.text(f.right, f.bottom + 34.0, "lab", "end", &label);
        }
    }

    /// Opens a group for scripts: it contains its frame and the scales of its axes.
    pub(crate) fn open_panel(
        &mut self,
        f: Frame,
        name: &str,
        x: &Mapped,
        y: &Mapped,
        units: (&str, &str),
    ) {
        let axis = |m: &Mapped, unit: &str| {
            let kind = if m.scale == Scale::Log { "log" } else { "lin" };
            format!("{:e} {:e} {kind} {}", m.lo, m.hi, esc(unit))
        };
        let (name, x, y) = (esc(name), axis(x, units.0), axis(y, units.1));
        let frame = format!("{} {}", xy((f.left, f.top)), xy((f.right, f.bottom)));
        let _ = write!(
            self.out,
            "<g class=\"panel\" data-name=\"{name}\" data-frame=\"{frame}\" data-x=\"{x}\" data-y=\"{y}\">"
        );
    }

    pub(crate) fn close(&mut self) {
        self.out.push_str("</g>");
    }

    /// Writes that there is no data. Returns the figure's height.
    pub(crate) fn no_data(&mut self) -> f64 {
        let f = boxed(0.5, 0.5, self.width - 1.0, 79.0);
        self.rect("none", None, f, "");
        self.text(self.width / 2.0, 44.0, "lab", "middle", "no data");
        80.0
    }
}

pub(crate) fn boxed(left: f64, top: f64, width: f64, height: f64) -> Frame {
    Frame { left, top, right: left + width, bottom: top + height }
}
