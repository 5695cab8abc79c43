//! The demo's client: asks what the trace asked, one request at a time, over NBD, and checks every byte.

use anyhow::{Context as _, bail};
use seekless_block::{Op, Request};
use seekless_nbd::{Command, CommandFlags, Options};
use seekless_serve::ServerHandle;
use seekless_serve::client::Client;

use super::content::Content;

/// What the client saw.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Replayed {
    pub(crate) requests: u64,
    pub(crate) bytes_checked: u64,
}

/// Replays the requests; `tick` is called after each.
pub(crate) fn replay(
    server: &ServerHandle,
    requests: &[Request],
    content: &mut Content,
    mut tick: impl FnMut(),
) -> anyhow::Result<Replayed> {
    let mut client = Client::new(Box::new(server.connect()?), Options::default())
        .context("the demo's client cannot connect")?;
    let mut expected = Vec::new();
    let mut done = Replayed::default();
    for request in requests {
        let extent = request.extent;
        let (offset, bytes) = (extent.start.0 * 512, extent.bytes().0);
        match request.op {
            Op::Read => {
                let got = client.read(offset, u32::try_from(bytes)?)?;
                content.bytes(extent, &mut expected);
                if got != expected {
                    let at = got.iter().zip(&expected).position(|(a, b)| a != b).unwrap_or(0);
                    bail!("WRONG BYTE: {extent} differs from what was written, at byte {at}");
                }
                done.bytes_checked += bytes;
            }
            Op::Write | Op::WriteZeroes => {
                content.write(extent);
                content.bytes(extent, &mut expected);
                let fua = request.flags.contains(seekless_block::Flags::FUA);
                let flags = if fua { CommandFlags::FUA } else { CommandFlags::default() };
                client.submit(Command::Write, flags, offset, u32::try_from(bytes)?, &expected)?;
                client.next_end()?.result?;
            }
            Op::Flush => client.flush()?,
            Op::Discard => {} // the trace's file system may read what it discarded; keep it simple to check
        }
        done.requests += 1;
        tick();
    }
    client.disconnect()?;
    Ok(done)
}
