//! The queue of a ublk device: requests of the kernel become requests to the volume, in any number
//! and order.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use seekless_block::{Extent, Flags, Op, SECTOR_BYTES};
use seekless_nbd::Errno;

use super::sys::{Queue, QueueEvent};
use super::wire::{Descriptor, OP_DISCARD, OP_FLUSH, OP_READ, OP_WRITE, OP_WRITE_ZEROES, data_at};
use crate::backend::host_number;
use crate::backend::workers::ring;
use crate::handle::Injector;
use crate::server::Job;

type Answer = (u16, Result<Vec<u8>, Errno>);

/// The queue's thread.
pub(super) struct Service {
    queue: Queue,
    volume: Injector,
    read_only: bool,
    bell: Arc<OwnedFd>,
    send: Sender<Answer>,
    answers: Receiver<Answer>,
    /// Buffers for later requests.
    spare: Vec<Vec<u8>>,
}

/// The answer to a request. A volume that has ended drops it, which says so.
struct Ticket {
    tag: u16,
    to: Option<Sender<Answer>>,
    bell: Arc<OwnedFd>,
}

impl Ticket {
    fn end(&mut self, result: Result<Vec<u8>, Errno>) {
        if let Some(to) = self.to.take() {
            // The thread ends after the last answer.
            let _ = to.send((self.tag, result));
            ring(&self.bell);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.end(Err(Errno::Shutdown));
    }
}

impl Service {
    pub(super) fn new(queue: Queue, bell: Arc<OwnedFd>, volume: Injector, read_only: bool) -> Self {
        let (send, answers) = channel();
        Self { queue, volume, read_only, bell, send, answers, spare: Vec::new() }
    }

    /// Serves until the kernel has taken back all of the device's tags.
    pub(super) fn run(mut self, depth: u16) -> io::Result<()> {
        let (mut events, mut gone) = (Vec::new(), 0);
        while gone < depth {
            self.queue.wait(&mut events)?;
            for event in events.drain(..) {
                match event {
                    QueueEvent::Request(tag) => self.begin(tag)?,
                    QueueEvent::Gone => gone += 1,
                    QueueEvent::Bell => {
                        self.queue.listen()?;
                        while let Ok((tag, result)) = self.answers.try_recv() {
                            self.answer(tag, of_request(result)?)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, tag: u16) -> io::Result<()> {
        match self.job(tag, &self.queue.request(tag)) {
            Ok(job) => {
                // A volume that has ended drops the job, which answers it.
                let _ = self.volume.submit(job);
                Ok(())
            }
            Err(errno) => self.queue.answer(tag, -host_number(errno)),
        }
    }

    fn job(&mut self, tag: u16, request: &Descriptor) -> Result<Job, Errno> {
        let mut extent = Extent::new(request.start, request.sectors.into());
        let mut flags = Flags::NONE;
        let mut data = Vec::new();
        let op = match request.op() {
            OP_READ => Op::Read,
            OP_WRITE => Op::Write,
            OP_FLUSH => Op::Flush,
            OP_DISCARD => Op::Discard,
            OP_WRITE_ZEROES => Op::WriteZeroes,
            _ => return Err(Errno::NotSup),
        };
        if op.is_write_like() {
            if self.read_only {
                return Err(Errno::Perm);
            }
            if request.is_fua() {
                flags = flags.union(Flags::FUA);
            }
        }
        match op {
            Op::Flush => extent = Extent::default(),
            Op::WriteZeroes if request.keeps_space() => flags = flags.union(Flags::NO_HOLE),
            Op::Read | Op::Write => {
                data = self.spare.pop().unwrap_or_default();
                data.resize((u64::from(request.sectors) * SECTOR_BYTES) as usize, 0);
            }
            _ => {}
        }
        if op == Op::Write {
            let read = self.queue.device().read_exact_at(&mut data, data_at(tag));
            read.map_err(|_| Errno::Io)?;
        }
        let mut ticket = Ticket { tag, to: Some(self.send.clone()), bell: Arc::clone(&self.bell) };
        let reply = Box::new(move |result| ticket.end(result));
        Ok(Job { op, extent, flags, data, reply })
    }

    /// Gives a result to the kernel: the bytes of a read or write, else zero.
    fn answer(&mut self, tag: u16, result: Result<Vec<u8>, Errno>) -> io::Result<()> {
        let request = self.queue.request(tag);
        let bytes = u64::from(request.sectors) * SECTOR_BYTES;
        let result = match (result, request.op()) {
            (Err(errno), _) => -host_number(errno),
            (Ok(data), OP_READ) => {
                let part = data.get(..bytes as usize).unwrap_or_default();
                let given = self.queue.device().write_all_at(part, data_at(tag));
                let whole = given.is_ok() && part.len() as u64 == bytes;
                self.spare.push(data);
                if whole { bytes as i32 } else { -libc::EIO }
            }
            (Ok(data), OP_WRITE) => {
                self.spare.push(data);
                bytes as i32
            }
            (Ok(_), _) => 0,
        };
        self.queue.answer(tag, result)
    }
}

/// The result of a request. If a volume ends before its device, there is no result, and the server
/// does not answer the request. The kernel keeps the request for the next server, and the program
/// gets no error.
fn of_request(result: Result<Vec<u8>, Errno>) -> io::Result<Result<Vec<u8>, Errno>> {
    if matches!(result, Err(Errno::Shutdown)) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    #[test]
    fn a_volume_that_has_ended_answers_nothing() {
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        let (send, answers) = channel();
        let ticket = |tag| Ticket { tag, to: Some(send.clone()), bell: Arc::clone(&bell) };
        for given in [Ok(vec![7]), Err(Errno::Io)] {
            ticket(1).end(given.clone());
            assert_eq!(of_request(answers.try_recv().unwrap().1).unwrap(), given);
        }
        drop(ticket(2));
        let (tag, result) = answers.try_recv().unwrap();
        assert!(tag == 2 && of_request(result).is_err());
    }
}
