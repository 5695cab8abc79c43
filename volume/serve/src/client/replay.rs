//! A client that sends the requests of a trace, and checks every byte.

use seekless_block::{Extent, Flags, Op, Request};
use seekless_nbd::{Command, CommandFlags, Options};

use super::{Client, ClientError, Content};
use crate::handle::ServerHandle;

/// The client's counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replayed {
    /// Requests that ended.
    pub requests: u64,
    /// Bytes that were read and compared.
    pub bytes_checked: u64,
}

impl std::ops::AddAssign for Replayed {
    fn add_assign(&mut self, more: Self) {
        self.requests += more.requests;
        self.bytes_checked += more.bytes_checked;
    }
}

struct InFlight {
    cookie: u64,
    request: Request,
    /// The expected bytes of a read.
    expected: Vec<u8>,
}

/// Replays the requests in their order. Up to `depth` requests are in flight, if they share no
/// sectors. `tick` is called after each.
///
/// # Errors
/// The server cannot be reached, a request fails, or a byte differs from what was written there.
pub fn replay(
    server: &ServerHandle,
    requests: &[Request],
    depth: usize,
    content: &mut Content,
    mut tick: impl FnMut(),
) -> Result<Replayed, ClientError> {
    let stream = server.connect().map_err(|_| ClientError::Closed)?;
    let mut client = Client::new(Box::new(stream), Options::default())?;
    let mut flying: Vec<InFlight> = Vec::with_capacity(depth);
    let mut payload = Vec::new();
    let mut done = Replayed::default();
    for &request in requests {
        let touches = |f: &InFlight| {
            let writes = f.request.op.is_write_like() || request.op.is_write_like();
            writes && f.request.extent.overlaps(request.extent)
        };
        while flying.len() >= depth || flying.iter().any(touches) {
            end_one(&mut client, &mut flying, &mut done)?;
            tick();
        }
        let mut expected = Vec::new();
        payload.clear();
        let command = match request.op {
            Op::Read => {
                content.bytes(request.extent, &mut expected);
                Command::Read
            }
            Op::Write | Op::WriteZeroes => {
                content.write(request.extent);
                content.bytes(request.extent, &mut payload);
                Command::Write
            }
            Op::Flush => Command::Flush,
            // Discarded sectors have no defined content to check.
            Op::Discard => continue,
        };
        let fua = command == Command::Write && request.flags.contains(Flags::FUA);
        let flags = if fua { CommandFlags::FUA } else { CommandFlags::default() };
        let extent = if request.op == Op::Flush { Extent::default() } else { request.extent };
        let len = u32::try_from(extent.bytes().0).unwrap_or(u32::MAX);
        let cookie = client.submit(command, flags, extent.start.0 * 512, len, &payload)?;
        flying.push(InFlight { cookie, request, expected });
    }
    while !flying.is_empty() {
        end_one(&mut client, &mut flying, &mut done)?;
        tick();
    }
    client.disconnect()?;
    Ok(done)
}

fn end_one(
    client: &mut Client,
    flying: &mut Vec<InFlight>,
    done: &mut Replayed,
) -> Result<(), ClientError> {
    let ended = client.next_end()?;
    let Some(at) = flying.iter().position(|f| f.cookie == ended.cookie) else {
        return Err(ClientError::Unasked(ended.cookie));
    };
    let InFlight { request, expected, .. } = flying.swap_remove(at);
    ended.result?;
    if request.op == Op::Read {
        if ended.data != expected {
            let at = ended.data.iter().zip(&expected).position(|(a, b)| a != b).unwrap_or(0);
            return Err(ClientError::WrongByte { extent: request.extent, at });
        }
        done.bytes_checked += request.extent.bytes().0;
    }
    done.requests += 1;
    Ok(())
}
