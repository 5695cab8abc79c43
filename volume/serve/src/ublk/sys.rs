//! The kernel's ublk driver through io_uring: commands to its control device, and the queue of a
//! device. This file has all of the unsafe code.
#![allow(unsafe_code, reason = "each call says why it is sound")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr::NonNull;

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::mm::{MapFlags, ProtFlags};

use super::wire::{
    COMMIT_AND_FETCH, CONTROL, ControlCommand, DESCRIPTOR_BYTES, Descriptor, DeviceInfo, FETCH,
    Parameters, io_command,
};

#[derive(Debug)]
pub(super) struct ControlDevice(File);

impl ControlDevice {
    pub(super) fn open() -> io::Result<Self> {
        File::options().read(true).write(true).open(CONTROL).map(Self)
    }

    /// A command without a buffer.
    pub(super) fn send(&self, operation: u32, device: u32, data: u64) -> io::Result<()> {
        self.submit(operation, &ControlCommand::new(device, data))
    }

    /// A command that reads or writes the device's description.
    pub(super) fn with_info(
        &self,
        operation: u32,
        device: u32,
        info: &mut DeviceInfo,
    ) -> io::Result<()> {
        let len = size_of::<DeviceInfo>() as u16;
        let address = std::ptr::from_mut(info) as u64;
        self.submit(operation, &ControlCommand::with_buffer(device, len, address))
    }

    /// A command that reads or writes the device's parameters.
    pub(super) fn with_parameters(
        &self,
        operation: u32,
        device: u32,
        parameters: &mut Parameters,
    ) -> io::Result<()> {
        let len = size_of::<Parameters>() as u16;
        let address = std::ptr::from_mut(parameters) as u64;
        self.submit(operation, &ControlCommand::with_buffer(device, len, address))
    }

    fn submit(&self, operation: u32, command: &ControlCommand) -> io::Result<()> {
        let mut ring = IoUring::<squeue::Entry128, cqueue::Entry>::builder().build(1)?;
        let fd = types::Fd(self.0.as_raw_fd());
        let entry = opcode::UringCmd80::new(fd, operation).cmd(command.bytes()).build();
        // SAFETY: the device is open while `self` is borrowed. The kernel uses the buffer that the
        // command names only until the command has ended, and this function waits for that. The
        // buffer is a structure of the driver with its exact length, borrowed by the caller.
        let pushed = unsafe { ring.submission().push(&entry) };
        pushed.map_err(io::Error::other)?;
        loop {
            match ring.submit_and_wait(1) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => break other.map(|_| ())?,
            }
        }
        let ended = ring.completion().next();
        let result = ended.map_or(-libc::EIO, |e| e.result());
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
    }
}

/// The queue of a device. All of its calls must come from one thread.
pub(super) struct Queue {
    ring: IoUring,
    device: File,
    bell: OwnedFd,
    descriptors: NonNull<Descriptor>,
    depth: u16,
}

/// The number of a completion that is the bell's.
const BELL: u64 = u64::MAX;

pub(super) enum QueueEvent {
    /// The kernel sends the request of this tag.
    Request(u16),
    /// The tag is gone: the device ends.
    Gone,
    /// The bell was rung.
    Bell,
}

impl Queue {
    /// Maps the descriptors of the opened character device.
    pub(super) fn new(device: File, bell: OwnedFd, depth: u16) -> io::Result<Self> {
        let ring = IoUring::new(2 * u32::from(depth) + 2)?;
        let len = Self::mapped(depth);
        let at = std::ptr::null_mut();
        // SAFETY: the kernel chooses a range of addresses that is not in use.
        let map =
            unsafe { rustix::mm::mmap(at, len, ProtFlags::READ, MapFlags::SHARED, &device, 0) };
        let descriptors = NonNull::new(map?.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut queue = Self { ring, device, bell, descriptors, depth };
        for tag in 0..depth {
            queue.push(tag, FETCH, 0)?;
        }
        queue.listen()?;
        queue.ring.submit()?;
        Ok(queue)
    }

    const fn mapped(depth: u16) -> usize {
        (depth as usize * DESCRIPTOR_BYTES).next_multiple_of(4096)
    }

    /// The character device, for the data of requests.
    pub(super) const fn device(&self) -> &File {
        &self.device
    }

    /// The request of a tag that the kernel has sent and that has not been answered.
    pub(super) fn request(&self, tag: u16) -> Descriptor {
        let tag = tag.min(self.depth - 1);
        // SAFETY: the entry is within the mapping, which lives as long as `self`. The read is
        // volatile, because the kernel writes there. All bytes are valid values.
        unsafe { self.descriptors.add(tag.into()).read_volatile() }
    }

    /// Answers a request, and takes the tag's next one.
    pub(super) fn answer(&mut self, tag: u16, result: i32) -> io::Result<()> {
        self.push(tag, COMMIT_AND_FETCH, result)
    }

    /// Silences the bell, and waits for it again.
    pub(super) fn listen(&mut self) -> io::Result<()> {
        // Fails only if the bell is silent.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        let fd = types::Fd(self.bell.as_raw_fd());
        let entry = opcode::PollAdd::new(fd, libc::POLLIN as u32).build().user_data(BELL);
        self.enqueue(&entry)
    }

    /// Sends all answers, waits for an event, and hands over all that came.
    pub(super) fn wait(&mut self, events: &mut Vec<QueueEvent>) -> io::Result<()> {
        match self.ring.submit_and_wait(1) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => drop(other?),
        }
        for ended in self.ring.completion() {
            events.push(match (ended.user_data(), ended.result()) {
                (BELL, _) => QueueEvent::Bell,
                (tag, 0) => QueueEvent::Request(tag as u16),
                _ => QueueEvent::Gone,
            });
        }
        Ok(())
    }

    fn push(&mut self, tag: u16, operation: u32, result: i32) -> io::Result<()> {
        let fd = types::Fd(self.device.as_raw_fd());
        let command = opcode::UringCmd16::new(fd, operation).cmd(io_command(tag, result));
        self.enqueue(&command.build().user_data(tag.into()))
    }

    fn enqueue(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: device and bell are open as long as `self`. No entry has a pointer: the driver's
        // commands carry their values, and a poll has none.
        let pushed = unsafe { self.ring.submission().push(entry) };
        // The ring holds one entry for each tag, one for the bell, and more.
        pushed.map_err(io::Error::other)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: `new` made this mapping with this length, and no other code has a pointer to it.
        let _ = unsafe {
            rustix::mm::munmap(self.descriptors.as_ptr().cast(), Self::mapped(self.depth))
        };
    }
}
