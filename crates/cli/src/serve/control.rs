//! The control socket of a server: `seekless status`, `replan`, `drain`, `mode` and `detach` speak to it.

use std::sync::mpsc::Sender;

use seekless_engine::Mode;
use seekless_serve::ServerHandle;
use seekless_serve::http::HttpServer;

use super::{Args, Event};
use crate::admin::{VolumeState, control_dir, mode_of};

/// Starts it at `socket`. A server without it serves as well.
pub(super) fn start(
    args: &Args,
    socket: &std::path::Path,
    server: &ServerHandle,
    events: Sender<Event>,
) -> anyhow::Result<HttpServer> {
    control_dir(socket)?;
    let volume = server.injector();
    let (backing, sizes) = (args.backing.clone(), (server.size(), server.area()));
    let (learns, lasting) = (args.learns(), server.attached().is_some());
    let done = || Ok("{}".to_owned());
    let commands = move |method: &str, path: &str| -> Option<Result<String, String>> {
        let event = |event: Event| events.send(event).map_err(|_| "it is ending".to_owned());
        let ended = |e: seekless_serve::ServeError| e.to_string();
        Some(match (method, path) {
            ("GET", "/state") => volume.stats().map_err(ended).and_then(|stats| {
                let state = VolumeState::of(&backing, sizes, &stats);
                serde_json::to_string(&state).map_err(|e| e.to_string())
            }),
            ("POST", "/replan") if !learns => Err("it learns nothing: --no-learn".to_owned()),
            ("POST", "/replan") => event(Event::Learn).and_then(|()| done()),
            ("POST", "/stop") => event(Event::Stop).and_then(|()| done()),
            ("POST", "/drain") => volume.drain().map_err(ended).and_then(|()| done()),
            ("POST", path) => match mode_of(path.strip_prefix("/mode/")?).ok()? {
                Mode::WriteBack if !lasting => Err(
                    "its area is gone when the server ends, and would take what it absorbed along: make one that lasts with `seekless format`".to_owned(),
                ),
                mode => volume.set_mode(mode).map_err(ended).and_then(|()| done()),
            },
            _ => return None,
        })
    };
    Ok(HttpServer::control(socket, Box::new(commands))?)
}
