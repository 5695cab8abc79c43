//! Paths of the server: the page, the JSON API with its schema, and the metrics.

use serde::Serialize;

use super::metrics::{self, Dialect, MetricText};
use super::{Answer, Shown};
use crate::watch::Board;

const FRAME: &str = include_str!("frame.html");
const COMMON: &str = include_str!("common.js");
const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const SCHEMA: &str = include_str!("schema.json");

/// The answer for a path; `dialect` is that of metrics.
pub(super) fn answer(path: &str, board: &Board, dialect: Dialect) -> Answer {
    match path {
        "/" => page(PAGE, SCRIPT),
        "/api/status" => json(&*board.status()),
        "/api/history" => json(&board.history()),
        "/api/events" => json(&board.events()),
        "/api/schema" => Answer::new("application/schema+json", SCHEMA),
        "/metrics" => Answer::new(dialect.content_type(), metrics::text(&board.status(), dialect)),
        _ => Answer::refusal(
            "404 Not Found",
            "there are /, /api/status, /api/history, /api/events, /api/schema and /metrics",
        ),
    }
}

/// The same for something else than a volume.
pub(super) fn shown(path: &str, shown: &dyn Shown, dialect: Dialect) -> Answer {
    let answer = |kind, body: Result<String, String>| match body {
        Ok(body) => Answer::new(kind, body),
        Err(why) => Answer::refusal("503 Service Unavailable", &why),
    };
    match path {
        "/" => {
            let (body, script) = shown.page();
            page(body, script)
        }
        "/api/status" => answer("application/json", shown.status()),
        "/api/schema" => Answer::new("application/schema+json", shown.schema()),
        "/metrics" => {
            let mut text = MetricText::new(dialect);
            let body = shown.metrics(&mut text).map(|()| text.end());
            answer(dialect.content_type(), body)
        }
        _ => Answer::refusal("404 Not Found", "there are /, /api/status, /api/schema and /metrics"),
    }
}

fn json(value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(body) => Answer::new("application/json", body),
        Err(e) => Answer::refusal("500 Internal Server Error", &e.to_string()),
    }
}

/// One file without external parts. Only scripts and styles with this answer's nonce run in it.
fn page(body: &str, script: &str) -> Answer {
    let mut random = [0; 16];
    if rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).is_err() {
        return Answer::refusal("500 Internal Server Error", "the host gives no random bytes");
    }
    let nonce: String = random.iter().map(|b| format!("{b:02x}")).collect();
    let body = FRAME
        .replace("/*STYLE*/", STYLE)
        .replace("<!--BODY-->", body)
        .replace("/*SCRIPT*/", &format!("(() => {{\n{COMMON}{script}}})();\n"))
        .replace("NONCE", &nonce);
    Answer::new("text/html; charset=utf-8", body)
        .with(&format!(
            "Content-Security-Policy: default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; \
             connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ))
        .with("X-Frame-Options: DENY")
}

#[cfg(test)]
#[path = "../../../../base/block/tests/schema/mod.rs"]
mod schema;

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::schema::check;
    use super::*;
    use crate::status::{
        AdaptiveStatus, Busy, BusyStatus, GuardStatus, Head, Status, VerdictStatus,
    };

    fn full() -> Board {
        let (vanilla, head) = (Some(Busy::default()), Some(Head::default()));
        let busy = BusyStatus { vanilla, head, ..BusyStatus::default() };
        let guard = Some(GuardStatus::default());
        let adaptive = Some(AdaptiveStatus { guard, ..AdaptiveStatus::default() });
        let mut status = Status {
            busy: Some(busy),
            adaptive,
            verdict: Some(VerdictStatus::default()),
            ..Status::default()
        };
        status.schema = "seekless.status/1".to_owned();
        status.budget.limit_bytes_per_s = Some(1);
        Board::of(status)
    }

    #[test]
    fn the_status_is_what_its_schema_says() {
        let schema: Value = serde_json::from_str(SCHEMA).unwrap();
        for board in [
            full(),
            Board::of(Status { schema: "seekless.status/1".to_owned(), ..Status::default() }),
        ] {
            let body = answer("/api/status", &board, Dialect::Prometheus).body;
            check(&schema, &schema, &serde_json::from_slice(&body).unwrap(), "status");
        }
    }

    #[test]
    fn the_page_loads_nothing_and_each_nonce_is_used_once() {
        let (one, two) = (page(PAGE, SCRIPT), page(PAGE, SCRIPT));
        let text = String::from_utf8(one.body).unwrap();
        for word in [
            "http:",
            "https:",
            "//cdn",
            "@import",
            "url(",
            "src=",
            "<link",
            "<iframe",
            "innerHTML",
            "eval(",
        ] {
            assert!(!text.replace("http://www.w3.org/2000/svg", "").contains(word), "{word}");
        }
        assert!(!text.contains("NONCE") && !text.contains("/*S"));
        assert_eq!(text.matches("<script nonce=").count(), 1);
        assert!(one.headers.contains("default-src 'none'"));
        assert_ne!(one.headers, two.headers);
        assert!(
            !text.contains(" style=") && !text.contains(" onclick="),
            "the policy would refuse it"
        );
    }

    #[test]
    fn elsewhere_there_is_nothing() {
        for path in ["", "/api", "/api/status/", "/../etc/passwd", "/metrics/x", "*"] {
            assert_eq!(&answer(path, &full(), Dialect::Prometheus).status[..3], "404", "{path}");
        }
    }
}
