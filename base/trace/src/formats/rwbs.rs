//! The kernel's letters for a request's kind, as printed by blkparse and tracefs (`blk_fill_rwbs`):
//! an optional F for a flush before, the operation (R, W, D, N none, F flush, E erase, Z zone or
//! zeroes), then F for forced unit access, A read-ahead, S synchronous, M metadata.

use seekless_block::{Flags, Op};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// `None` if the request moves no data that a disk model knows (zone management, drivers'
    /// commands).
    pub(crate) op: Option<Op>,
    pub(crate) flags: Flags,
    /// Completed writes must be durable before it starts.
    pub(crate) flush_before: bool,
}

/// Parses the letters. `None` if they are invalid.
pub(crate) fn parse(letters: &[u8]) -> Option<Kind> {
    let (flush_before, rest) = match letters {
        [b'F', rest @ ..] => (true, rest),
        _ => (false, letters),
    };
    let (op, rest) = match rest {
        [b'R', rest @ ..] => (Some(Op::Read), rest),
        [b'W', b'Z', rest @ ..] => (Some(Op::WriteZeroes), rest),
        [b'W', rest @ ..] => (Some(Op::Write), rest),
        [b'D', b'E', rest @ ..] | [b'D', rest @ ..] => (Some(Op::Discard), rest),
        [b'N', rest @ ..] if flush_before => (Some(Op::Flush), rest),
        [b'N', rest @ ..] | [b'Z', _, rest @ ..] => (None, rest),
        // `F`, `FF`, `FS`: only a flush.
        _ if flush_before => (Some(Op::Flush), rest),
        _ => return None,
    };
    let flags = rest.iter().try_fold(Flags::NONE, |flags, b| {
        Some(flags.union(match b {
            b'F' => Flags::FUA,
            b'A' => Flags::AHEAD,
            b'S' => Flags::SYNC,
            b'M' => Flags::META,
            // Atomic writes, and letters of earlier kernels that have no effect here.
            b'U' | b'B' | b'E' => Flags::NONE,
            _ => return None,
        }))
    })?;
    Some(Kind { op, flags, flush_before })
}
