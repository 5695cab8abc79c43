//! The report of `reproduce` in headless Chromium.

use serde_json::json;

use crate::browsing::{missing, pointing, report, toggling};
use crate::need;

#[test]
fn the_report_of_reproduce_works_in_a_browser() {
    need!("browser", missing());
    let more = json!({ "toggle": toggling(1), "tip": pointing(1, 0.5, 0.6) });
    let page = report("reproduce", &["reproduce", "fs2-disk"], 2, &more);
    let values = &page["values"];
    assert_eq!(values["toggle"], json!([0, true, "false", 0]));
    let tip = values["tip"].as_str().unwrap();
    assert!(tip.contains("sectors") && tip.contains(" ms"), "{tip}");
}
