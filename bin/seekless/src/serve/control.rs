//! The control socket of a server: `seekless volume status`, `replan`, `replicate`, `drain`, `mode` and `detach` speak to it.

use std::sync::mpsc::Sender;

use seekless_block::{Extent, Lba, PAGE_SECTORS};
use seekless_engine::Mode;
use seekless_learn::side_by_side;
use seekless_serve::http::HttpServer;
use seekless_serve::{Injector, ServerHandle};

use super::{Args, Event};
use crate::volume::{Placed, VolumeState, control_dir, mode_of};

/// `/replicate/NEAR/HOME,HOME...`, each START+LENGTH in sectors: lays what has no replica yet side by side in free space
/// near there.
fn replicate(volume: &Injector, path: &str) -> Result<String, String> {
    let bad = || format!("'{path}' is no list of extents");
    let extent = |text: &str| {
        let (start, len) = text.split_once('+')?;
        let (start, len): (u64, u64) = (start.parse().ok()?, len.parse().ok()?);
        Some(Extent::span(start, start.checked_add(len)?))
    };
    let mut words = path.trim_start_matches("/replicate/").split('/');
    let near = words.next().and_then(extent).ok_or_else(bad)?;
    let homes = words.next().map(|list| list.split(',').map(extent).collect::<Option<Vec<_>>>());
    let homes = homes.flatten().ok_or_else(bad)?;
    let room = volume.room().map_err(|e| e.to_string())?;
    let room = room.ok_or("its area was not made for replicas")?;
    if room.state.suspended {
        return Err("less than 10% of the volume is discarded and spare: nothing is replicated before 15% are".to_owned());
    }
    let mut wanted: Vec<Extent> = Vec::new();
    let (mut asked, mut left) = (0, room.state.room.0);
    for home in homes {
        let home = room.pages.touched(home);
        asked += home.len.0;
        for page in (home.start.0..home.end().0).step_by(PAGE_SECTORS as usize) {
            if left < PAGE_SECTORS || room.is_placed(Lba(page)) {
                continue;
            }
            left -= PAGE_SECTORS;
            match wanted.last_mut() {
                Some(last) if last.end().0 == page => last.len.0 += PAGE_SECTORS,
                _ => wanted.push(Extent::new(page, PAGE_SECTORS)),
            }
        }
    }
    let list = side_by_side(&wanted, room.free.iter().copied(), near);
    let placed = list.iter().flat_map(|r| &r.homes).map(|e| e.len.0).sum();
    volume.replicate(list).map_err(|e| e.to_string())?;
    let placed = Placed { asked_sectors: asked, placed_sectors: placed };
    serde_json::to_string(&placed).map_err(|e| e.to_string())
}

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
            ("POST", path) if path.starts_with("/replicate/") => replicate(&volume, path),
            ("POST", path) => match mode_of(path.strip_prefix("/mode/")?).ok()? {
                Mode::WriteBack if !lasting => Err(
                    "its area is gone when the server ends, and would take what it absorbed along: make one that lasts with `seekless volume format`".to_owned(),
                ),
                mode => volume.set_mode(mode).map_err(ended).and_then(|()| done()),
            },
            _ => return None,
        })
    };
    Ok(HttpServer::control(socket, Box::new(commands))?)
}
