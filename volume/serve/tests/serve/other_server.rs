//! The protocol of another server, whose disk is a test's. The unit tests of a home on another server
//! use it too.

use std::io::{Read, Write};

use seekless_nbd::{Command, Export, Request, ServerEvent, ServerSession};

/// Serves one client until it leaves. `carry_out` gets each request with the data of a write, and
/// appends the answer.
pub(crate) fn serve(
    mut stream: impl Read + Write,
    export: Export,
    mut carry_out: impl FnMut(&ServerSession, &Request, &[u8], &mut Vec<u8>) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let (mut out, mut held, mut payload) = (Vec::new(), Vec::new(), Vec::new());
    let mut session = ServerSession::new([export].into(), &mut out);
    let mut write = None;
    loop {
        let (taken, event) = session.step(&held, &mut out).unwrap();
        match event {
            ServerEvent::More(need) => {
                stream.write_all(&out)?;
                out.clear();
                let had = held.len();
                held.resize(need.max(had), 0);
                stream.read_exact(&mut held[had..])?;
                continue;
            }
            ServerEvent::Request(r) if r.command == Command::Write => write = Some(r),
            ServerEvent::Request(r) => carry_out(&session, &r, &[], &mut out)?,
            ServerEvent::Payload { last } => {
                payload.extend_from_slice(&held[..taken]);
                if last {
                    let r = write.take().unwrap();
                    carry_out(&session, &r, &std::mem::take(&mut payload), &mut out)?;
                }
            }
            ServerEvent::Close => return Ok(()),
            _ => {}
        }
        held.drain(..taken);
    }
}
