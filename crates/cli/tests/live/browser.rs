//! The report and the live page in headless Chromium: they say nothing on the console, ask nobody else, show
//! what they should, react, and have no serious fault that axe-core finds. Screenshots go to
//! SEEKLESS_SCREENSHOTS where that names a folder.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::host;
use crate::need;
use crate::watching::Watched;

const DRIVE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/live/browser/drive.py");

/// What is missing to open pages.
fn missing() -> Option<String> {
    host::programs(&["chromium", "python3"])
}

/// axe-core's script, which `.ci/run` fetches; not part of this repository.
fn axe() -> Option<PathBuf> {
    std::env::var_os("SEEKLESS_AXE").map(PathBuf::from).filter(|p| p.is_file())
}

/// Opens a page, wide and narrow, light and dark; checks what holds of every page; what was seen wide.
fn visit(name: &str, url: &str, ready: &str, run: &Value) -> Value {
    if axe().is_none() {
        eprintln!("SKIPPED accessibility of the {name}: SEEKLESS_AXE names no axe-core script");
    }
    let shots = std::env::var_os("SEEKLESS_SCREENSHOTS").map(PathBuf::from);
    let mut seen = Vec::new();
    for (width, dark) in [(900, false), (390, true)] {
        let shot = shots.as_ref().map(|d| d.join(format!("{name}-{width}.png")));
        let job = json!({
            "url": url, "width": width, "dark": dark, "ready": ready, "run": run, "axe": axe(), "shot": shot,
        });
        let text = host::run(["python3", DRIVE, "chromium", &job.to_string()]);
        let page: Value = serde_json::from_str(&text).unwrap();
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
        let wide = page["values"]["overflow"].as_i64().unwrap();
        assert!(wide <= width, "{name}: {wide} pixels on a page of {width}");
        seen.push(page);
    }
    seen.swap_remove(0)
}

#[test]
fn the_report_opens_anywhere() {
    need!("browser", missing());
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report.html");
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sample/desktop.trace.zst");
    let mut command = host::seekless();
    command.arg("simulate").arg(sample).args(["--disk", "wd800jb", "--report"]).arg(&report);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = "[...document.querySelectorAll('figure svg.fig')].filter(s => s.getBoundingClientRect().width > 0)";
    let run = json!({
        "overflow": "document.documentElement.scrollWidth",
        "figures": format!("{shown}.map(s => s.querySelectorAll('path,rect').length)"),
        "sizes": format!("{shown}.map(s => s.getBoundingClientRect().height)"),
        // A key of the legend hides its series, by keyboard, and shows it again.
        "toggle": format!("(() => {{ const svg = {shown}[1], key = svg.querySelector('.key');
            const press = () => key.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Enter', bubbles: true}}));
            const off = () => svg.querySelectorAll('.off').length, was = off();
            press(); const hidden = off(), pressed = key.getAttribute('aria-pressed'); press();
            return [was, hidden > 0, pressed, off()]; }})()"),
        // Zooming in twice shows a quarter of the time, before and after alike.
        "zoom": "(() => { const f = document.querySelector('figure.live');
            const last = () => [...f.querySelectorAll('svg.fig')].find(s => s.getBoundingClientRect().width > 0)
              .querySelectorAll('.xticks');
            const span = () => [...last()].map(g => { const t = [...g.querySelectorAll('text')];
              return Number(t.at(-1).textContent) - Number(t[0].textContent); });
            const was = span(), plus = f.querySelector('.zoom button'); plus.click(); plus.click();
            const now = span(); f.querySelector('.zoom button:last-child').click();
            return [was, now, span()]; })()",
        // Pointing at a curve says its value.
        "tip": format!("(() => {{ const svg = {shown}[1], b = svg.querySelector('.panel').getBoundingClientRect();
            svg.dispatchEvent(new PointerEvent('pointermove', {{clientX: b.left + b.width / 2, clientY: b.top + 20, bubbles: true}}));
            const tip = document.getElementById('tip'); return tip.hidden ? '' : tip.textContent; }})()"),
    });
    let page = visit("report", &format!("file://{}", report.display()), "true", &run);
    let values = &page["values"];
    let figures = values["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 3);
    assert!(figures.iter().all(|n| n.as_u64() > Some(10)), "{figures:?}");
    assert!(values["sizes"].as_array().unwrap().iter().all(|h| h.as_f64() > Some(100.0)));
    assert_eq!(values["toggle"], json!([0, true, "false", 0]));
    let (was, now) = (&values["zoom"][0], &values["zoom"][1]);
    assert_eq!(was, &values["zoom"][2], "the whole run again");
    for (was, now) in was.as_array().unwrap().iter().zip(now.as_array().unwrap()) {
        let share = now.as_f64().unwrap() / was.as_f64().unwrap();
        assert!(
            (0.1..0.4).contains(&share),
            "{share} of the time; ticks are where round numbers fall"
        );
    }
    assert!(values["tip"].as_str().unwrap().contains('%'), "{values:#}");
    // Nothing was asked for but the page itself.
    assert_eq!(page["requests"].as_array().unwrap().len(), 1);
}

#[test]
fn the_live_page_shows_what_happens() {
    need!("browser", missing());
    let disk = [
        "--size",
        "1GiB",
        "--disk",
        "wd800jb,speed=20",
        "--http",
        "127.0.0.1:0",
        "--cache",
        "64KiB",
    ];
    let mut watched = Watched::on_tcp(&disk);
    let url = watched.url.clone();
    watched.read_groups(30);
    watched.server.learn();
    watched.read_groups(30);
    let run = json!({
        "overflow": "document.documentElement.scrollWidth",
        "title": "document.title",
        "tiles": "document.querySelectorAll('.tiles dd').length",
        "marks": "document.querySelectorAll('#path .mark').length",
        "areas": "document.querySelectorAll('#path .area').length",
        "bars": "[...document.querySelectorAll('#busy tbody tr')].map(r => r.querySelector('th').textContent)",
        "lines": "document.querySelectorAll('#busy-time .ln').length",
        "log": "document.getElementById('log').textContent",
        "lost": "document.getElementById('lost').hidden",
        "note": "document.getElementById('busy-note').textContent",
    });
    let page = visit("live", &url, "document.body.dataset.ready === 'yes'", &run);
    let values = &page["values"];
    assert_eq!(values["tiles"], 5, "{values:#}");
    assert_eq!(values["bars"], json!(["now", "vanilla"]));
    assert_eq!(
        (&values["lines"], &values["areas"], &values["lost"]),
        (&json!(2), &json!(1), &json!(true))
    );
    assert!(values["marks"].as_u64() >= Some(3), "home, copies and moving: {values:#}");
    assert!(values["log"].as_str().unwrap().contains("Made a plan from"), "{values:#}");
    assert!(values["note"].as_str().unwrap().starts_with("Emulated disk wd800jb"));
    assert!(values["title"].as_str().unwrap().ends_with("disk.img · seekless"));
    watched.server.stop();
}
