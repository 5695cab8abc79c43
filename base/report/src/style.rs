//! The style sheet and the script that a report contains. The rules for figures are used in the
//! page, where colours are variables, and in single SVG files, where colours are written out.

/// Rules for figures; colours are `var(--name)`.
pub(crate) const FIGURE: &str = include_str!("style/figure.css");
pub(crate) const PAGE: &str = include_str!("style/page.css");
/// The script of the page; it is optional for reading.
pub(crate) const SCRIPT: &str = include_str!("style/page.js");

/// Colours by name, in light and dark. Series use Okabe and Ito's palette, which people with any
/// common kind of colour blindness can distinguish. Some colours are shifted for contrast.
const COLOURS: [(&str, &str, &str); 22] = [
    ("paper", "#ffffff", "#15181c"),
    ("panel", "#f6f7f8", "#1d2126"),
    ("ink", "#1b1f24", "#e8eaed"),
    ("ink2", "#4d5560", "#b3bac4"),
    ("line", "#d9dde2", "#363c44"),
    ("grid", "#e6e9ec", "#2a2f36"),
    ("axis", "#7a828d", "#7f8893"),
    ("link", "#005a8d", "#7cc4f2"),
    ("good", "#00694b", "#4fd1a5"),
    ("bad", "#a83c00", "#ff9a66"),
    ("focus", "#0072b2", "#56b4e9"),
    ("area", "#f3dfa6", "#5c5226"),
    ("track", "#8b95a1", "#727d8a"),
    ("heat", "#0072b2", "#56b4e9"),
    ("c0", "#0072b2", "#56b4e9"),
    ("c1", "#d55e00", "#f0883e"),
    ("c2", "#008a65", "#2fbf95"),
    ("c3", "#b8608f", "#dd93bb"),
    ("c4", "#b57a00", "#e6b13c"),
    ("c5", "#3d8fbf", "#8cb7d9"),
    ("c6", "#555b63", "#c3c9d1"),
    ("shadow", "#00000022", "#00000088"),
];

/// Declarations of all colours as variables.
pub(crate) fn variables(dark: bool) -> String {
    COLOURS.iter().map(|(name, l, d)| format!("--{name}:{};", if dark { d } else { l })).collect()
}

/// The rules for figures with the colours written out.
pub(crate) fn written(dark: bool) -> String {
    COLOURS.iter().fold(FIGURE.to_owned(), |css, (name, l, d)| {
        css.replace(&format!("var(--{name})"), if dark { d } else { l })
    })
}

/// The same: light, and dark if the reader prefers it.
pub(crate) fn standalone() -> String {
    format!("{}@media (prefers-color-scheme:dark){{{}}}", written(false), written(true))
}

#[cfg(test)]
mod tests;
