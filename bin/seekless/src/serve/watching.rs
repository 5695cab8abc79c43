//! `--http`: the live page, its API and the metrics, set up from arguments.

use std::str::FromStr;

use seekless_disk::Device;
use seekless_serve::control::TOKEN;
use seekless_serve::http::HttpServer;
use seekless_serve::{About, Address, MakeShadow, ServeError, ServerHandle, StandIn, disk_shadow};

use super::Args;

/// The live page.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct HttpArgs {
    /// A live page, JSON and metrics at HOST:PORT, PORT on this machine, or unix:PATH
    #[arg(long, value_name = "ADDRESS", help_heading = "Watching")]
    pub(super) http: Option<HttpAddress>,
    /// Token for other machines, 16 characters or more; SEEKLESS_HTTP_TOKEN is safer
    #[arg(long, value_name = "TOKEN", requires = "http", help_heading = "Watching")]
    pub(super) http_token: Option<String>,
}

impl HttpArgs {
    /// Starts the web server if that was asked for, and says where it is.
    pub(crate) fn listen(
        &self,
        start: impl FnOnce(&Address, Option<&str>) -> Result<HttpServer, ServeError>,
    ) -> anyhow::Result<Option<(HttpServer, String)>> {
        let Some(HttpAddress(address)) = &self.http else { return Ok(None) };
        let token = token(self.http_token.as_ref());
        let http = start(address, token.as_deref())?;
        let place = match (http.tcp_address(), address) {
            (Some(found), _) => format!("http  http://{found}/"),
            (None, address) => format!("http  {address}"),
        };
        let secret = if token.is_some() { "  (with the token as password)" } else { "" };
        Ok(Some((http, place + secret)))
    }
}

/// The address of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpAddress(pub(crate) Address);

impl FromStr for HttpAddress {
    type Err = ServeError;

    fn from_str(text: &str) -> Result<Self, ServeError> {
        let whole = if text.parse::<u16>().is_ok() {
            format!("tcp:127.0.0.1:{text}")
        } else if text.starts_with("unix:") || text.starts_with("tcp:") {
            text.to_owned()
        } else {
            format!("tcp:{text}")
        };
        whole.parse().map(Self)
    }
}

/// The token, from the command line or the environment.
pub(crate) fn token(given: Option<&String>) -> Option<String> {
    given.cloned().or_else(|| std::env::var(TOKEN).ok().filter(|t| !t.is_empty()))
}

/// The description for the watcher, and its shadow on this disk. Without a disk, the adaptive policy
/// is guarded by a disk that stands in.
pub(super) fn about(args: &Args, disk: Option<Device>) -> (About, Option<MakeShadow>) {
    let stand_in = (disk.is_none() && args.may_adapt()).then(|| StandIn::of(&args.backing));
    let named = args.disk_name().cloned();
    let about = About {
        backing: args.backing.display().to_string(),
        disk: stand_in.map_or(named.unwrap_or_default(), |s| format!("{}, a stand-in", s.name())),
        stand_in: stand_in.is_some(),
        provider: args
            .disk_name()
            .and_then(|name| seekless_cli::disk::named(name).ok()?.priced().cloned()),
        speed: args.disk.as_ref().map_or(1.0, |d| d.speed),
        background_rate: args.background_rate,
    };
    let (scheduler, spin_down, emulated) = (args.scheduler, args.spin_down, args.disk.is_some());
    // The simulation of the vanilla system has no queue at a host.
    let queues = args.disk.as_ref().is_some_and(|d| d.host.is_some());
    let shadow = disk.filter(|_| !queues);
    let shadow = shadow.map(|disk| disk_shadow(disk, scheduler, spin_down, emulated));
    (about, shadow.or_else(|| Some(stand_in?.shadow())))
}

/// Starts the web server if that was asked for, and returns its address.
pub(super) fn start(
    args: &Args,
    server: &ServerHandle,
) -> anyhow::Result<Option<(HttpServer, String)>> {
    let Some(board) = server.board() else { return Ok(None) };
    args.watching.listen(|address, token| HttpServer::start(address, token, board))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use seekless_disk::Scheduler;
    use seekless_serve::HostQueue;

    use super::super::Emulated;
    use super::*;

    #[test]
    fn a_queue_at_the_host_is_compared_with_nothing() {
        let about = |host| {
            let mut args = Args::defaults(Path::new("disk.img"));
            args.disk = Some(Emulated { name: "wd800jb".to_owned(), speed: 1.0, host });
            let disk = Device::new(&seekless_cli::disk::named("wd800jb").unwrap()).unwrap();
            about(&args, Some(disk)).1.is_some()
        };
        let queue = HostQueue { depth: 1, scheduler: Scheduler::Fcfs };
        assert_eq!((about(None), about(Some(queue))), (true, false));
    }

    #[test]
    fn addresses_as_people_write_them() {
        for (text, expected) in [
            ("9713", Some("tcp:127.0.0.1:9713")),
            ("127.0.0.1:0", Some("tcp:127.0.0.1:0")),
            ("[::1]:80", Some("tcp:[::1]:80")),
            ("tcp:host:80", Some("tcp:host:80")),
            ("unix:/run/s", Some("unix:/run/s")),
            ("", None),
            ("host", None),
            ("99999", None),
        ] {
            let found = text.parse::<HttpAddress>().ok().map(|a| a.0.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
