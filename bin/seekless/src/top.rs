//! `seekless top`: the status of a running volume in a terminal. The data come from the server of
//! the live page.

mod screen;

use std::io::{IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use seekless_report::visible;
use seekless_serve::status::{Events, History, Status};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::serve::watching::{HttpAddress, token};
pub(crate) use screen::Look;
use screen::screen;
use seekless_cli::output;
use seekless_serve::control::ask;

const EVERY: Duration = Duration::from_secs(1);

/// Watch a running volume: sources of reads, busy time of the disk, the plan, and decisions
///
/// Shows in a terminal the page that `seekless serve --http ADDRESS` shows in a browser. Changes
/// nothing. Ends on q, or on Ctrl-C. If standard output is no terminal, prints the status once.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless top 9713
  seekless top unix:/run/seekless.http
  SEEKLESS_HTTP_TOKEN=... seekless top server:9713 --json | jq .requests")]
pub(crate) struct Args {
    /// Address of the page: HOST:PORT, PORT on this machine, or unix:PATH
    #[arg(default_value = "9713")]
    address: HttpAddress,
    /// Print the status once and end
    #[arg(long)]
    once: bool,
    /// Print the status once as JSON (schema seekless.status/1)
    #[arg(long)]
    json: bool,
    /// The server's token [default: SEEKLESS_HTTP_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    http_token: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let token = token(args.http_token.as_ref());
    let (address, token) = (&args.address.0, token.as_deref());
    if args.json {
        let status: serde_json::Value = ask(address, token, "/api/status")?;
        return output::print(&serde_json::to_string_pretty(&status)?);
    }
    Screen::follow(args.once, |look| {
        let status: Status = ask(address, token, "/api/status")?;
        let history: History = ask(address, token, "/api/history")?;
        let events: Events = ask(address, token, "/api/events")?;
        Ok(screen(&status, &history, &events, look))
    })
}

/// The terminal's second screen, restored when dropped.
pub(crate) struct Screen {
    before: Option<Termios>,
    end: Arc<AtomicBool>,
    quit: std::cell::Cell<bool>,
}

impl Screen {
    /// Shows this text each second until the user ends it; once, if `once` or without a terminal.
    pub(crate) fn follow(
        once: bool,
        text: impl Fn(Look) -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        let look = |(width, height)| text(Look { width, height, colour: output::colour() });
        if once || !std::io::stdout().is_terminal() {
            return output::print(&look((output::width().min(120), usize::MAX))?);
        }
        // An unreachable server is reported on the normal screen.
        look((80, 24))?;
        let screen = Self::take()?;
        while !screen.wants_to_end() {
            let size =
                terminal_size::terminal_size().map_or((80, 24), |(w, h)| (w.0.into(), h.0.into()));
            let text = match look(size) {
                Ok(text) => text,
                Err(error) => visible(&format!("{error:#}\nTrying again; q ends.\n")),
            };
            screen.show(&text)?;
            screen.wait(EVERY);
        }
        Ok(())
    }

    fn take() -> anyhow::Result<Self> {
        let end = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&end))
                .context("cannot listen to signals")?;
        }
        // Keys without waiting for a line; none if standard input is no terminal.
        let stdin = std::io::stdin();
        let before = tcgetattr(stdin.as_fd()).ok();
        if let Some(before) = &before {
            let mut raw = before.clone();
            raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            raw.special_codes[SpecialCodeIndex::VMIN] = 0;
            raw.special_codes[SpecialCodeIndex::VTIME] = 0;
            tcsetattr(stdin.as_fd(), OptionalActions::Now, &raw)
                .context("cannot set the terminal")?;
        }
        let screen = Self { before, end, quit: std::cell::Cell::new(false) };
        write("\x1b[?1049h\x1b[?25l")?;
        Ok(screen)
    }

    fn wants_to_end(&self) -> bool {
        self.quit.get() || self.end.load(Ordering::Relaxed)
    }

    /// In one write, line by line over the old lines, so that nothing flickers.
    fn show(&self, text: &str) -> anyhow::Result<()> {
        write(&format!("\x1b[H{}\x1b[J", text.replace('\n', "\x1b[K\r\n")))
    }

    /// Waits for a key, a signal or the time.
    fn wait(&self, at_most: Duration) {
        let stdin = std::io::stdin();
        if self.before.is_none() {
            return std::thread::sleep(at_most);
        }
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        let time = Timespec::try_from(at_most).ok();
        if poll(&mut ready, time.as_ref()) == Ok(1) {
            let mut keys = [0; 16];
            match rustix::io::read(stdin.as_fd(), &mut keys) {
                Ok(n) if n > 0 => {
                    self.quit.set(keys[..n].iter().any(|k| matches!(k, b'q' | b'Q' | 4)));
                }
                _ => self.quit.set(true),
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A closed terminal needs no restoring.
        let _ = write("\x1b[?25h\x1b[?1049l");
        if let Some(before) = &self.before {
            let _ = tcsetattr(std::io::stdin().as_fd(), OptionalActions::Now, before);
        }
    }
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
