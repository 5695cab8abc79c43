//! Checks the colours against the Web Content Accessibility Guidelines 2.2.

use super::*;

/// Relative luminance of `#rrggbb`.
fn luminance(colour: &str) -> f64 {
    let channel = |i: usize| {
        let c = f64::from(u8::from_str_radix(&colour[i..i + 2], 16).unwrap()) / 255.0;
        if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
}

fn contrast(a: &str, b: &str) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

fn colour(name: &str, dark: bool) -> &'static str {
    let (_, l, d) = COLOURS.iter().find(|c| c.0 == name).unwrap();
    if dark { d } else { l }
}

#[test]
fn black_on_white_is_twenty_one() {
    assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 1e-9);
}

#[test]
fn text_has_aa_contrast_and_marks_three_to_one_in_both_themes() {
    for dark in [false, true] {
        for ground in ["paper", "panel"] {
            for text in ["ink", "ink2", "link", "good", "bad"] {
                let c = contrast(colour(text, dark), colour(ground, dark));
                assert!(c >= 4.5, "{text} on {ground}, dark {dark}: {c:.2}");
            }
        }
        for mark in ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "axis", "focus", "heat"] {
            let c = contrast(colour(mark, dark), colour("paper", dark));
            assert!(c >= 3.0, "{mark}, dark {dark}: {c:.2}");
        }
    }
}

#[test]
fn every_variable_has_a_colour_and_single_files_have_no_variables() {
    for css in [FIGURE, PAGE] {
        for piece in css.split("var(--").skip(1) {
            let name = piece.split(')').next().unwrap();
            assert!(COLOURS.iter().any(|c| c.0 == name), "{name}");
        }
    }
    assert!(!standalone().contains("var("));
    // The rules are inside a style element of an XML file, and inside a script element of a page.
    assert!(!standalone().contains(['<', '&']));
}

#[test]
fn the_script_stays_in_its_element_and_never_writes_markup() {
    for word in
        ["</", "innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function("]
    {
        assert!(!SCRIPT.contains(word), "{word}");
    }
}
