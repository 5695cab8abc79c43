//! Structures and numbers of Linux's `include/uapi/linux/ublk_cmd.h`, as of 6.5. All integers are
//! the host's.

/// Device to make commands to.
pub(super) const CONTROL: &str = "/dev/ublk-control";

/// Size of `struct ublksrv_ctrl_cmd` in bytes.
const CTRL_BYTES: u32 = 32;
/// Size of `struct ublksrv_io_cmd` in bytes.
const IO_BYTES: u32 = 16;

/// `_IOR('u', number, size)` if the kernel only writes to us, else `_IOWR`.
const fn request(number: u32, size: u32, reads_only: bool) -> u32 {
    let direction = if reads_only { 2 } else { 3 };
    direction << 30 | size << 16 | (b'u' as u32) << 8 | number
}

pub(super) const GET_DEV_INFO: u32 = request(0x02, CTRL_BYTES, true);
pub(super) const ADD_DEV: u32 = request(0x04, CTRL_BYTES, false);
pub(super) const DEL_DEV: u32 = request(0x05, CTRL_BYTES, false);
pub(super) const START_DEV: u32 = request(0x06, CTRL_BYTES, false);
pub(super) const STOP_DEV: u32 = request(0x07, CTRL_BYTES, false);
pub(super) const SET_PARAMS: u32 = request(0x08, CTRL_BYTES, false);
pub(super) const GET_PARAMS: u32 = request(0x09, CTRL_BYTES, true);
pub(super) const START_USER_RECOVERY: u32 = request(0x10, CTRL_BYTES, false);
pub(super) const END_USER_RECOVERY: u32 = request(0x11, CTRL_BYTES, false);
pub(super) const DEL_DEV_ASYNC: u32 = request(0x14, CTRL_BYTES, true);

pub(super) const FETCH: u32 = request(0x20, IO_BYTES, false);
pub(super) const COMMIT_AND_FETCH: u32 = request(0x21, IO_BYTES, false);

/// The device stays when its server dies, and sends the open requests again to the next one.
const USER_RECOVERY: u64 = 1 << 3;
const USER_RECOVERY_REISSUE: u64 = 1 << 4;
const CMD_IOCTL_ENCODE: u64 = 1 << 6;
/// Data is read from and written to the character device.
const USER_COPY: u64 = 1 << 7;
pub(super) const FEATURES: u64 =
    USER_RECOVERY | USER_RECOVERY_REISSUE | CMD_IOCTL_ENCODE | USER_COPY;

/// `ublksrv_ctrl_dev_info.state`.
pub(super) const STATE_LIVE: u16 = 1;
pub(super) const STATE_QUIESCED: u16 = 2;

/// A device number that the kernel replaces by a free one.
pub(super) const ANY_DEVICE: u32 = u32::MAX;
/// `queue_id` of a command to the whole device.
const NO_QUEUE: u16 = u16::MAX;

/// `struct ublksrv_ctrl_cmd`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct ControlCommand {
    device: u32,
    queue: u16,
    len: u16,
    address: u64,
    data: u64,
    path_len: u16,
    pad: u16,
    reserved: u32,
}

const _: () = assert!(size_of::<ControlCommand>() == CTRL_BYTES as usize);

impl ControlCommand {
    /// A command with a buffer of `len` bytes at `address`.
    pub(super) const fn with_buffer(device: u32, len: u16, address: u64) -> Self {
        let mut command = Self::new(device, 0);
        (command.len, command.address) = (len, address);
        command
    }

    pub(super) const fn new(device: u32, data: u64) -> Self {
        let (queue, len, address, path_len, pad, reserved) = (NO_QUEUE, 0, 0, 0, 0, 0);
        Self { device, queue, len, address, data, path_len, pad, reserved }
    }

    /// The bytes in a submission of 128 bytes.
    pub(super) fn bytes(&self) -> [u8; 80] {
        joined(&[
            &self.device.to_ne_bytes(),
            &self.queue.to_ne_bytes(),
            &self.len.to_ne_bytes(),
            &self.address.to_ne_bytes(),
            &self.data.to_ne_bytes(),
            &self.path_len.to_ne_bytes(),
            &self.pad.to_ne_bytes(),
            &self.reserved.to_ne_bytes(),
        ])
    }
}

/// `struct ublksrv_ctrl_dev_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeviceInfo {
    pub(super) queues: u16,
    pub(super) depth: u16,
    pub(super) state: u16,
    pub(super) pad: u16,
    pub(super) io_bytes_max: u32,
    pub(super) device: u32,
    pub(super) pid: i32,
    pub(super) pad1: u32,
    pub(super) flags: u64,
    /// The server's own: the kernel only keeps it.
    pub(super) owner_mark: u64,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) reserved: [u64; 2],
}

const _: () = assert!(size_of::<DeviceInfo>() == 64);

/// `struct ublk_params`, up to the part for discards.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters {
    pub(super) len: u32,
    pub(super) types: u32,
    pub(super) attributes: u32,
    pub(super) logical_shift: u8,
    pub(super) physical_shift: u8,
    pub(super) io_opt_shift: u8,
    pub(super) io_min_shift: u8,
    pub(super) max_sectors: u32,
    pub(super) chunk_sectors: u32,
    pub(super) sectors: u64,
    pub(super) virt_boundary: u64,
    pub(super) discard_alignment: u32,
    pub(super) discard_granularity: u32,
    pub(super) discard_sectors_max: u32,
    pub(super) zero_sectors_max: u32,
    pub(super) discard_segments_max: u16,
    pub(super) pad: u16,
    /// Only for the length: the kernel's structure goes on.
    pub(super) pad1: u32,
}

const _: () = assert!(size_of::<Parameters>() == 64);

/// `types`: the basic parameters; those for discards.
pub(super) const BASIC: u32 = 1;
pub(super) const DISCARD: u32 = 2;
/// `attributes`.
pub(super) const READ_ONLY: u32 = 1;
pub(super) const ROTATIONAL: u32 = 2;
pub(super) const VOLATILE_CACHE: u32 = 4;
pub(super) const FUA: u32 = 8;

/// `struct ublksrv_io_desc`: one request of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Descriptor {
    op_flags: u32,
    pub(super) sectors: u32,
    pub(super) start: u64,
    address: u64,
}

pub(super) const DESCRIPTOR_BYTES: usize = size_of::<Descriptor>();
const _: () = assert!(DESCRIPTOR_BYTES == 24);

pub(super) const OP_READ: u8 = 0;
pub(super) const OP_WRITE: u8 = 1;
pub(super) const OP_FLUSH: u8 = 2;
pub(super) const OP_DISCARD: u8 = 3;
pub(super) const OP_WRITE_ZEROES: u8 = 5;

impl Descriptor {
    pub(super) const fn op(&self) -> u8 {
        (self.op_flags & 0xff) as u8
    }

    pub(super) const fn is_fua(&self) -> bool {
        self.op_flags & 1 << 13 != 0
    }

    /// Zeroes that keep their space.
    pub(super) const fn keeps_space(&self) -> bool {
        self.op_flags & 1 << 15 != 0
    }
}

/// `struct ublksrv_io_cmd`: the queue, the request's tag, and its result.
pub(super) fn io_command(tag: u16, result: i32) -> [u8; 16] {
    joined(&[&0u16.to_ne_bytes(), &tag.to_ne_bytes(), &result.to_ne_bytes()])
}

/// The parts one after the other, and zeroes.
fn joined<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.iter_mut().zip(parts.concat()).for_each(|(to, from)| *to = from);
    bytes
}

/// Where a request's data begins in the character device: `UBLKSRV_IO_BUF_OFFSET`, and the tag
/// above 25 bits of offset.
pub(super) const fn data_at(tag: u16) -> u64 {
    0x8000_0000 + ((tag as u64) << 25)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_kernels_header() {
        // As `gcc` computes them from the header.
        assert_eq!(ADD_DEV, 0xc020_7504);
        assert_eq!(GET_DEV_INFO, 0x8020_7502);
        assert_eq!(FETCH, 0xc010_7520);
        assert_eq!(data_at(3), 0x8600_0000);
        let command = ControlCommand { len: 64, address: 0x1122, ..ControlCommand::new(7, 9) };
        let bytes = command.bytes();
        assert_eq!(bytes[..8], [7, 0, 0, 0, 0xff, 0xff, 64, 0]);
        assert_eq!((bytes[8], bytes[9], bytes[16]), (0x22, 0x11, 9));
        assert_eq!(io_command(5, -5)[..8], [0, 0, 5, 0, 0xfb, 0xff, 0xff, 0xff]);
    }
}
