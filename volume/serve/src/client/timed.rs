//! A socket on which a handshake, or the answers to requests, must end in time. A server that sends
//! a byte now and then is never silent, also under TLS.

use std::io::{self, IoSlice, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// See the module.
pub(super) struct Timed {
    socket: UnixStream,
    end: End,
}

/// Until then, reads and writes may begin.
#[derive(Clone)]
pub(super) struct End(Arc<Mutex<Instant>>);

impl End {
    /// All must be over before `limit` has passed. Until then, one more read or write of the socket
    /// may wait.
    pub(super) fn set(&self, limit: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + limit;
    }

    fn check(&self) -> io::Result<()> {
        if Instant::now() < *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Ok(())
        } else {
            Err(io::ErrorKind::TimedOut.into())
        }
    }
}

impl Timed {
    /// With `limit` for the handshake.
    pub(super) fn on(socket: UnixStream, limit: Duration) -> (Self, End) {
        let end = End(Arc::new(Mutex::new(Instant::now() + limit)));
        (Self { socket, end: end.clone() }, end)
    }
}

impl Read for Timed {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.end.check()?;
        self.socket.read(buf)
    }
}

impl Write for Timed {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.end.check()?;
        self.socket.write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.end.check()?;
        self.socket.write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

#[cfg(test)]
mod tests {
    use seekless_nbd::Options;

    use super::super::{Client, ClientError};
    use super::*;

    #[test]
    fn a_server_that_sends_a_byte_now_and_then_is_dead() {
        let (socket, mut server) = UnixStream::pair().unwrap();
        let limit = Duration::from_millis(200);
        socket.set_read_timeout(Some(limit)).unwrap();
        let drip = std::thread::spawn(move || {
            let begun = Instant::now();
            server.write_all(b"NBDMAGICIHAVEOPT\0\x03").unwrap();
            // An answer of 16 KiB to the first option, byte by byte.
            let head =
                [0, 3, 0xE8, 0x89, 4, 0x55, 0x65, 0xA9, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0x40, 0];
            server.write_all(&head).unwrap();
            while begun.elapsed() < Duration::from_secs(10) && server.write_all(&[0]).is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let (stream, _) = Timed::on(socket, limit);
        let error = match Client::begin(Box::new(stream), Options::default(), None) {
            Err(ClientError::Io(error)) => error,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("a session began"),
        };
        // The other one if the server's thread stood still.
        assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock));
        drip.join().unwrap();
    }
}
