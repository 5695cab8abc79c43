//! Exports every figure of a report as files: SVG, CSV with all its numbers, and PNG for programs
//! that can show neither. Only this file of the crate touches the host: it finds fonts and makes a
//! folder.

use std::io;
use std::path::Path;
use std::sync::Arc;

use resvg::{tiny_skia, usvg};

use crate::escape::slug;
use crate::{Block, Figure, Report};

/// PNG pixels per SVG pixel: sharp on screens and in print.
const SCALE: f32 = 2.0;
/// Sans-serif font families in order of preference; otherwise the first font found.
const FAMILIES: [&str; 6] =
    ["Noto Sans", "DejaVu Sans", "Liberation Sans", "Arial", "Helvetica", "Roboto"];

const NO_FONT: &str =
    "no font is installed on this machine; install one, for example the package fonts-dejavu-core";

/// Draws figures as PNG, with a font of this machine. With other fonts a figure looks slightly
/// different; SVG and CSV are the same everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Painter {
    fonts: Arc<usvg::fontdb::Database>,
    family: String,
}

impl Painter {
    /// Finds fonts, which takes some milliseconds. One painter can draw many figures.
    pub(crate) fn new() -> Result<Self, String> {
        let mut fonts = usvg::fontdb::Database::new();
        fonts.load_system_fonts();
        Self::with(fonts)
    }

    fn with(mut fonts: usvg::fontdb::Database) -> Result<Self, String> {
        let name = |f: &usvg::fontdb::FaceInfo| f.families.first().map(|f| f.0.clone());
        let has = |family: &str| fonts.faces().any(|f| name(f).is_some_and(|n| n == family));
        let preferred = FAMILIES.iter().find(|f| has(f)).map(|f| (*f).to_owned());
        let family = preferred.or_else(|| fonts.faces().find_map(name)).ok_or(NO_FONT)?;
        fonts.set_sans_serif_family(family.clone());
        Ok(Self { fonts: Arc::new(fonts), family })
    }

    /// The figure as a PNG file, in light colours, two pixels per SVG pixel.
    pub(crate) fn png(&self, figure: &Figure) -> Result<Vec<u8>, String> {
        let draw = |e: &dyn std::fmt::Display| format!("the figure cannot be drawn: {e}");
        let options = usvg::Options {
            font_family: self.family.clone(),
            fontdb: Arc::clone(&self.fonts),
            ..usvg::Options::default()
        };
        let tree = usvg::Tree::from_str(&figure.light_svg(), &options).map_err(|e| draw(&e))?;
        let size = tree.size().to_int_size().scale_by(SCALE);
        let picture = size.and_then(|s| tiny_skia::Pixmap::new(s.width(), s.height()));
        let mut picture = picture.ok_or_else(|| draw(&"it is too large"))?;
        resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut picture.as_mut());
        picture.encode_png().map_err(|e| draw(&e))
    }
}

impl Report {
    /// The report's figures, in order.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.sections.iter().flat_map(|s| &s.blocks).filter_map(|b| match b {
            Block::Figure(figure) => Some(figure),
            Block::Text(_) | Block::Table(_) => None,
        })
    }

    /// Writes every figure into `dir`, which is created: `NN-title.svg`, `.csv` with all numbers in
    /// base units, and `.png`. `write` gives a file its bytes. The report itself is not written.
    /// Returns the reason if there are no PNG files.
    pub fn export(
        &self,
        dir: &Path,
        write: impl Fn(&Path, &[u8]) -> io::Result<()>,
    ) -> io::Result<Option<String>> {
        let at = |path: &Path| {
            let path = path.display().to_string();
            move |e: io::Error| io::Error::new(e.kind(), format!("cannot write {path}: {e}"))
        };
        std::fs::create_dir_all(dir).map_err(at(dir))?;
        let mut painter = Painter::new();
        for (i, figure) in self.figures().enumerate() {
            let name = format!("{:02}-{}", i + 1, slug(&figure.title));
            let save = |end: &str, bytes: &[u8]| {
                let path = dir.join(format!("{name}.{end}"));
                write(&path, bytes).map_err(at(&path))
            };
            save("svg", figure.svg().as_bytes())?;
            save("csv", figure.csv().as_bytes())?;
            let png = painter.as_ref().map_err(Clone::clone).and_then(|p| p.png(figure));
            match png {
                Ok(png) => save("png", &png)?,
                Err(error) => painter = Err(error),
            }
        }
        Ok(painter.err().filter(|_| self.figures().next().is_some()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Basis, Section, StackedBars, Unit, Values};

    fn bars(value: f64) -> Figure {
        let bars = StackedBars {
            axis: Axis::new("Busy", Unit::Seconds),
            parts: vec!["seek".into(), "rotation".into()],
            bars: vec![Values::new("vanilla", [value, 2.0]), Values::new("borg", [1.0, 2.0])],
        };
        Figure::new("Same / title: …", Basis::Synthetic, bars)
    }

    fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
        std::fs::write(path, bytes)
    }

    fn report() -> Report {
        Report::new("A", "B")
            .section(Section::new("C").text("t").figure(bars(3.0)).figure(bars(7.0)))
    }

    #[test]
    fn every_figure_is_written_three_times_and_its_numbers_are_in_the_csv() {
        let dir = tempfile::tempdir().unwrap();
        let into = dir.path().join("new/figures");
        let no_png = report().export(&into, write).unwrap();
        let files = || std::fs::read_dir(&into).unwrap().count();
        let kinds = if no_png.is_some() { 2 } else { 3 };
        assert_eq!(files(), 2 * kinds);
        let csv = std::fs::read_to_string(into.join("02-same-title.csv")).unwrap();
        assert!(csv.contains("7"), "{csv}");
        assert_eq!(
            std::fs::read_to_string(into.join("01-same-title.svg")).unwrap(),
            bars(3.0).svg()
        );
        // The second export writes the same files.
        assert_eq!(report().export(&into, write).unwrap(), no_png);
        assert_eq!(files(), 2 * kinds);
    }

    #[test]
    fn the_error_names_a_folder_that_cannot_be_created() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = report().export(&file.path().join("x"), write).unwrap_err().to_string();
        assert!(error.contains(&*file.path().to_string_lossy()), "{error}");
    }

    #[test]
    fn without_a_font_there_is_no_png_and_a_reason() {
        let none = Painter::with(usvg::fontdb::Database::new());
        assert_eq!(none.unwrap_err(), NO_FONT);
    }

    #[test]
    fn a_png_shows_the_bars_in_their_colours_and_the_labels() {
        let Ok(painter) = Painter::new() else {
            println!("SKIPPED: no font is installed");
            return;
        };
        let picture =
            |figure: &Figure| tiny_skia::Pixmap::decode_png(&painter.png(figure).unwrap()).unwrap();
        let (small, large) = (picture(&bars(1.0)), picture(&bars(4.0)));
        assert_eq!(small.width(), 2 * 792);
        // The first colour of the light palette: the seek part of each bar.
        let blue = |p: &tiny_skia::Pixmap| {
            let is = |c: &&tiny_skia::PremultipliedColorU8| {
                (c.red(), c.green(), c.blue(), c.alpha()) == (0x00, 0x72, 0xb2, 255)
            };
            p.pixels().iter().filter(is).count() as f64
        };
        // Vanilla 1 + 2 and 4 + 2 on axes that end at the largest sum: seek is (1 + 1)/3 and (4 +
        // 1)/6 of a full bar.
        let ratio = blue(&large) / blue(&small);
        assert!(
            (1.0..1.6).contains(&ratio),
            "{ratio}: 1.25 is expected, axes end at round numbers"
        );
        let ink = |p: &tiny_skia::Pixmap| {
            p.pixels()
                .iter()
                .filter(|c| c.red() < 0x60 && c.blue() < 0x70 && c.green() < 0x60)
                .count()
        };
        assert!(ink(&small) > 1000, "labels are drawn: {} dark pixels", ink(&small));
        assert!(small.pixels().iter().all(|c| c.alpha() == 255), "the ground is opaque");
    }
}
