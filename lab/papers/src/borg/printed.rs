//! The numbers that BORG (FAST'09) prints in its text and tables. Bars of figures without a number
//! in the text are left out: tables show them as missing, we read no number off a picture.

/// A program of Table 4. Each pair is vanilla and BORG.
pub(super) struct PrintedStart {
    pub(super) name: &'static str,
    /// Start-up time in seconds.
    pub(super) seconds: [f64; 2],
    /// Random I/O in per cent.
    pub(super) random: [f64; 2],
    /// Mean seek in cylinders.
    pub(super) seek: [f64; 2],
    /// Whether the training includes starts of the program.
    pub(super) trained: bool,
}

const fn start(
    name: &'static str,
    seconds: [f64; 2],
    random: [f64; 2],
    seek: [f64; 2],
    trained: bool,
) -> PrintedStart {
    PrintedStart { name, seconds, random, seek, trained }
}

/// Table 4.
pub(super) const STARTS: [PrintedStart; 7] = [
    start("firefox", [3.71, 2.32], [2.7, 1.2], [132.0, 37.0], true),
    start("oowriter", [5.30, 2.74], [3.8, 0.2], [193.0, 20.0], true),
    start("xemacs", [7.26, 2.72], [2.1, 0.3], [87.0, 9.0], true),
    start("acoread", [6.20, 2.65], [4.6, 0.1], [39.0, 9.0], true),
    start("eclipse", [4.12, 1.52], [2.5, 0.3], [198.0, 29.0], true),
    start("gimp", [3.62, 3.66], [2.5, 2.1], [102.0, 63.0], false),
    start("oaimpress", [5.18, 1.97], [2.7, 0.3], [61.0, 39.0], false),
];

/// The text about single bars of Figures 6 to 8 and 11: figure, system, phase, and the words.
const BARS: [(&str, &str, &str, &str); 9] = [
    ("6", "borg", "N2", "about −45 %, the best"),
    ("6", "borg", "R3", "272 s"),
    ("6", "borg", "R4", "564 s"),
    ("7", "borg", "N5", "+25 %"),
    ("7", "borg", "R3", "about 7 min long"),
    ("7", "borg", "R4", "about 7 min long"),
    ("8", "borg-C", "N5", "+6 %"),
    ("8", "borg-C", "all", "−14 %, moving counted"),
    ("8", "borg-P", "all", "−18 %, moving counted"),
];

/// The text about a bar.
pub(super) fn bar(figure: &str, system: &str, phase: &str) -> Option<&'static str> {
    let system = system.replace("borg-paper", "borg");
    BARS.iter().find(|b| (b.0, b.1, b.2) == (figure, &*system, phase)).map(|b| b.3)
}

/// Non-sequential share and mean seek in cylinders over all normal phases, vanilla and BORG (6.1.1
/// and 6.1.2).
pub(super) const SVN_SEEKS: [[f64; 2]; 2] = [[0.0170, 0.0115], [704.0, 201.0]];
pub(super) const DEVELOPER_SEEKS: [[f64; 2]; 2] = [[0.0393, 0.0330], [1203.0, 782.0]];
