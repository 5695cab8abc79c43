//! The reports and the live page in headless Chromium: they say nothing on the console, ask nobody
//! else, show what they should, react, and have no serious fault that axe-core finds.

use serde_json::json;

use crate::browsing::{missing, pointing, pointing_down, report, sample, toggling, visit};
use crate::host::words;
use crate::need;
use crate::watching::Watched;

#[test]
fn the_report_of_simulate_opens_anywhere() {
    need!("browser", missing());
    let more = json!({
        "toggle": toggling(1),
        // Zooming in twice shows a quarter of the time, before and after alike.
        "zoom": "(() => { const f = document.querySelector('figure.live');
            const last = () => [...f.querySelectorAll('svg.fig')].find(s => s.getBoundingClientRect().width > 0)
              .querySelectorAll('.xticks');
            const span = () => [...last()].map(g => { const t = [...g.querySelectorAll('text')];
              return Number(t.at(-1).textContent) - Number(t[0].textContent); });
            const was = span(), plus = f.querySelector('.zoom button'); plus.click(); plus.click();
            const now = span(); f.querySelector('.zoom button:last-child').click();
            return [was, now, span()]; })()",
        "tip": pointing(1, 0.5, 0.1),
    });
    let page = report("simulate", &["simulate", &sample(), "--disk", "wd800jb"], 3, &more);
    let values = &page["values"];
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
    // The second part of the first bar, by keyboard.
    assert!(values["keys"][0].as_str().unwrap().starts_with("vanilla, rotation: "), "{values:#}");
}

#[test]
fn the_report_of_stat_opens_anywhere() {
    need!("browser", missing());
    let more = json!({ "toggle": toggling(0), "cell": pointing(3, 0.02, 0.99), "tip": pointing(1, 0.5, 0.25) });
    let page = report("stat", &["stat", &sample()], 7, &more);
    let values = &page["values"];
    assert_eq!(values["toggle"], json!([0, true, "false", 0]));
    // The lowest row of the heat map: a count of requests, then a time and an address.
    let cell = values["cell"].as_str().unwrap();
    let (count, place) = cell.split_once('\n').unwrap();
    assert!(count.replace(',', "").parse::<u64>().is_ok() && place.contains("iB"), "{cell}");
    assert!(values["tip"].as_str().unwrap().starts_with("accesses\n"), "{values:#}");
}

#[test]
fn the_report_of_advise_opens_anywhere() {
    need!("browser", missing());
    let more = json!({ "toggle": toggling(1), "tip": pointing_down(1, 0.5) });
    let page = report("advise", &["advise", &sample(), "--disk", "wd800jb"], 2, &more);
    let values = &page["values"];
    assert_eq!(values["toggle"], json!([0, true, "false", 0]));
    assert!(values["tip"].as_str().unwrap().contains(" s"), "{values:#}");
}

#[test]
fn the_live_page_shows_what_happens() {
    need!("browser", missing());
    let disk = "--size 1GiB --disk wd800jb,speed=20 --http 127.0.0.1:0 --cache 64KiB --policy borg";
    let mut watched = Watched::on_tcp(&words(disk));
    let url = watched.url.clone();
    watched.read_groups(30);
    watched.server.learn();
    watched.read_groups(30);
    let run = json!({
        "overflow": "document.documentElement.scrollWidth",
        "verdict": "document.getElementById('verdict').textContent",
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
    assert_eq!(values["tiles"], 4, "{values:#}");
    assert!(values["verdict"].as_str().unwrap().starts_with("Last "), "{values:#}");
    assert_eq!(values["bars"], json!(["now", "vanilla"]));
    assert_eq!(json!([values["lines"], values["areas"], values["lost"]]), json!([2, 1, true]));
    assert!(values["marks"].as_u64() >= Some(3), "home, copies and moving: {values:#}");
    assert!(values["log"].as_str().unwrap().contains("Made a plan from"), "{values:#}");
    assert!(values["note"].as_str().unwrap().starts_with("Emulated disk wd800jb"));
    assert!(values["title"].as_str().unwrap().ends_with("disk.img · seekless"));
    watched.server.stop();
}
