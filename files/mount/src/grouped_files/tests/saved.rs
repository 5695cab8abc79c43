//! The command by which an unmount saves the store.

use super::*;
use crate::control::{SAVE_COMMAND, run_command};

/// Otherwise an unmount would say that it has saved writes that are lost.
#[test]
fn a_save_makes_writes_durable_or_fails() {
    let Some(mut dir) = prepared(&ACTIONS[1]) else { return };
    let fh = dir.open(1, OFlags::WRONLY);
    dir.write(fh, 0, b"saved").unwrap();
    run_command(dir.mounted(), SAVE_COMMAND).unwrap();
    // The content from before may not come back.
    held(dir.may.lock()).drain(..1);
    dir.write(fh, 0, b"not saved").unwrap();
    dir.groups().underlying.steps.left.store(0, SeqCst);
    assert_eq!(run_command(dir.mounted(), SAVE_COMMAND), Err(Errno::IO));
    dir.attach();
    dir.check_twice("after the failed save");
}
