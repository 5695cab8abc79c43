//! Pages in headless Chromium: what holds of every page, and how to point at a figure and press its
//! legend. Screenshots go to SEEKLESS_SCREENSHOTS where that names a folder.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::host;

const DRIVE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../seekless/tests/live/browser/drive.py");

/// What is missing to open pages.
pub(crate) fn missing() -> Option<String> {
    host::lacks("chromium python3 timeout")
}

/// axe-core's script, which `.ci/run` fetches; not part of this repository.
pub(crate) fn axe() -> Option<PathBuf> {
    std::env::var_os("SEEKLESS_AXE").map(PathBuf::from).filter(|p| p.is_file())
}

/// The number of tables that are wider than their place, in JavaScript.
const CLIPPED: &str = "[...document.querySelectorAll('.table, .bars')].filter(e => e.scrollWidth > e.clientWidth).length";

/// Opens a page, wide and narrow, light and dark; checks what holds of every page, on paper too;
/// what was seen wide.
pub(crate) fn visit(name: &str, url: &str, ready: &str, run: &Value) -> Value {
    if axe().is_none() {
        eprintln!("SKIPPED accessibility of the {name}: SEEKLESS_AXE names no axe-core script");
    }
    let mut run = run.clone();
    run["clipped"] = json!(CLIPPED);
    let shots = std::env::var_os("SEEKLESS_SCREENSHOTS").map(PathBuf::from);
    let looks = [(1200, false), (390, true)];
    let jobs = looks.map(|(width, dark)| {
        let shot = shots.as_ref().map(|d| d.join(format!("{name}-{width}.png")));
        json!({
            "url": url, "width": width, "dark": dark, "ready": ready, "run": run, "axe": axe(), "shot": shot,
            "print": !dark,
        })
    });
    // One browser for both: its start takes longer than a page.
    let mut browser = host::limited(75);
    browser.args(["python3", DRIVE, "chromium", &json!(jobs).to_string()]);
    let mut seen: Vec<Value> = serde_json::from_value(host::json(&mut browser)).unwrap();
    assert_eq!(seen.len(), looks.len());
    for (page, (width, dark)) in seen.iter().zip(looks) {
        assert_eq!(page["console"], json!([]), "{name}, {width} wide");
        let own = url.split_inclusive('/').take(3).collect::<String>();
        for asked in page["requests"].as_array().unwrap() {
            let asked = asked.as_str().unwrap();
            let within = asked.starts_with("data:") || asked.starts_with("blob:");
            assert!(within || asked.starts_with(&own), "{name}: asked for {asked}");
        }
        for fault in page["axe"].as_array().into_iter().flatten() {
            let grave = ["serious", "critical"].iter().any(|i| fault["impact"] == *i);
            assert!(!grave, "{name}, {width} wide: {fault:#}");
        }
        // A page of text and figures takes some 20 KB of PDF, an empty one less than 2.
        assert!(dark || page["pdf"].as_u64() > Some(8_000), "{name}: printed as {}", page["pdf"]);
        assert_eq!(page["values"]["clipped"], 0, "{name}, {width} wide: columns are cut off");
        let wide = page["values"]["overflow"].as_i64().unwrap();
        assert!(wide <= width, "{name}: {wide} pixels on a page of {width}");
    }
    seen.swap_remove(0)
}

/// Figures on show, in JavaScript.
pub(crate) const SHOWN: &str = "[...document.querySelectorAll('figure svg.fig')].filter(s => s.getBoundingClientRect().width > 0)";

/// Runs the binary, which writes a report, and opens it. Besides `more`, it says of every figure
/// how many marks it has and how high it is, what the arrow keys read in it, and which tables are
/// cut at 1200 pixels. `figures` is how many there are.
pub(crate) fn report(name: &str, args: &[&str], figures: usize, more: &Value) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("report.html");
    let mut command = host::seekless();
    command.args(args).arg("--report").arg(&path);
    host::succeeds(&mut command);
    let mut run = json!({
        "overflow": "document.documentElement.scrollWidth",
        "marks": format!("{SHOWN}.map(s => s.querySelectorAll('.series,.fl,.heat').length)"),
        "sizes": format!("{SHOWN}.map(s => s.getBoundingClientRect().height)"),
        "cut": "[...document.querySelectorAll('section > .table')].filter(t => t.scrollWidth > t.clientWidth)
            .map(t => t.getAttribute('aria-label'))",
        "keys": format!("{SHOWN}.map(svg => {{ svg.focus();
            const press = () => svg.dispatchEvent(new KeyboardEvent('keydown', {{key: 'ArrowRight', bubbles: true}}));
            press(); press(); const tip = document.getElementById('tip'), said = tip.hidden ? '' : tip.textContent;
            svg.blur(); return said; }})"),
        "quiet": "document.getElementById('tip').hidden",
        // The page's own ink: dark on light, or light on dark.
        "ink": "getComputedStyle(document.body).color",
    });
    run.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let page = visit(name, &format!("file://{}", path.display()), "true", &run);
    let values = &page["values"];
    let of = |key: &str| values[key].as_array().unwrap().clone();
    assert_eq!(of("marks").len(), figures, "{name}");
    assert!(of("marks").iter().all(|n| n.as_u64() >= Some(1)), "{name}: {:?}", of("marks"));
    assert!(of("sizes").iter().all(|h| h.as_f64() > Some(100.0)), "{name}");
    assert_eq!(values["cut"], json!([]), "{name}: tables wider than the page");
    let read = of("keys");
    assert!(read.iter().all(|t| t.as_str().is_some_and(|t| !t.is_empty())), "{name}: {read:?}");
    assert_eq!((&values["quiet"], &values["ink"]), (&json!(true), &json!("rgb(27, 31, 36)")));
    // Nothing was asked for but the page itself.
    assert_eq!(page["requests"].as_array().unwrap().len(), 1);
    page
}

pub(crate) fn sample() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../sample/desktop.trace.zst").to_owned()
}

/// Pointing into the first figure's plot, a share of the way across and down, and what is said
/// then.
pub(crate) fn pointing(figure: usize, across: f64, down: f64) -> String {
    format!(
        "(() => {{ const svg = {SHOWN}[{figure}], b = svg.querySelector('.panel').getBoundingClientRect();
        svg.dispatchEvent(new PointerEvent('pointermove', {{bubbles: true, clientX: b.left + b.width * {across},
            clientY: b.top + b.height * {down}}}));
        const tip = document.getElementById('tip'), said = tip.hidden ? '' : tip.textContent;
        svg.dispatchEvent(new PointerEvent('pointerleave')); return said; }})()"
    )
}

/// The same at the first height, from above, at which anything is said: lines lie where the figures
/// of the day put them.
pub(crate) fn pointing_down(figure: usize, across: f64) -> String {
    let at = |twentieth: u32| pointing(figure, across, f64::from(twentieth) / 20.0);
    (1..20).map(at).collect::<Vec<_>>().join(" || ")
}

/// Pressing the first key of a figure's legend: hidden marks before, whether any then, what it
/// says, hidden marks after.
pub(crate) fn toggling(figure: usize) -> String {
    format!(
        "(() => {{ const svg = {SHOWN}[{figure}], key = svg.querySelector('.key');
        const press = () => key.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Enter', bubbles: true}}));
        const off = () => svg.querySelectorAll('.off').length, was = off();
        press(); const hidden = off(), pressed = key.getAttribute('aria-pressed'); press();
        return [was, hidden > 0, pressed, off()]; }})()"
    )
}
