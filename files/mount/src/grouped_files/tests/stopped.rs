//! A stop or a failure at each step.

use std::sync::atomic::Ordering::SeqCst;
use std::time::UNIX_EPOCH;

use rustc_hash::{FxHashMap, FxHashSet};

use super::power_cut::lost_at_any;
use super::*;

#[test]
fn stopped_at_any_step_every_file_is_whole_and_in_one_place() {
    for action in ACTIONS {
        for stop in 0.. {
            let Some(mut dir) = prepared(action) else { return };
            let groups = dir.groups();
            groups.underlying.steps.left.store(stop, SeqCst);
            let _ = (action.act)(&dir, groups);
            let ended = groups.underlying.steps.left.load(SeqCst) >= 0;
            let groups = dir.attach();
            let when = format!("{}, stopped after {stop} steps", action.name);
            settled_only_what_is_durable(&held(groups.underlying.steps.events.lock()), &when);
            dir.check_twice(&when);
            if ended {
                assert!(stop > 1, "{}: {stop} steps", action.name);
                break;
            }
        }
    }
}

/// An entry is settled only after its inode is durable.
fn settled_only_what_is_durable(events: &[Event], when: &str) {
    let (mut loose, mut entered) = (FxHashSet::default(), FxHashMap::default());
    for event in events {
        match event {
            Event::Entered(number, of) => drop(entered.insert(*number, *of)),
            Event::Inode(InodeStep::Truncated, of) => drop(loose.insert(*of)),
            Event::Inode(InodeStep::Synced, of) => drop(loose.remove(of)),
            Event::Settled(number) => {
                let durable = match entered.get(number) {
                    Some(handle) => !loose.contains(handle),
                    // The file moved before these events.
                    None => loose.is_empty(),
                };
                assert!(durable, "{when}: {number:?} of {events:#?}");
            }
            _ => {}
        }
    }
}

#[test]
fn where_any_one_step_fails_every_file_is_whole_and_in_one_place() {
    where_steps_fail(ACTIONS, 1);
}

/// The undo of a failed step fails, too.
#[test]
fn where_any_step_and_the_next_fail_every_file_that_comes_is_whole_and_in_one_place() {
    where_steps_fail(&ACTIONS[..2], 2);
}

fn where_steps_fail(actions: &[Action], failures: i64) {
    for action in actions {
        for fail in 0.. {
            let Some(mut dir) = prepared(action) else { return };
            let groups = dir.groups();
            groups.underlying.steps.failures.store(failures, SeqCst);
            groups.underlying.steps.fails.store(fail, SeqCst);
            let _ = (action.act)(&dir, groups);
            let ended = groups.underlying.steps.fails.load(SeqCst) >= 0;
            let when = format!("{}, where {failures} from step {fail} on fail", action.name);
            let events = held(groups.underlying.steps.events.lock()).clone();
            settled_only_what_is_durable(&events, &when);
            lost_at_any(&events, &dir, &when, action.emptied);
            dir.attach();
            dir.check(&when);
            if ended {
                break;
            }
        }
    }
}

/// A client writes to a file whose entry is leaving, and the move is stopped at each step.
#[test]
fn a_write_before_the_move_of_a_leaving_file_is_not_taken_for_one_by_another_program() {
    for stop in 0..12 {
        let Some(mut dir) = prepared(&ACTIONS[1]) else { return };
        let (fh, handle) = (dir.open(1, OFlags::RDWR), dir.handle(1));
        let groups = dir.groups();
        let number = groups.peek(&handle).unwrap().number;
        groups.ask(Ask::Leave { files: vec![number] }).unwrap();
        dir.write(fh, 4_500, b"longer, without a sync").unwrap();
        groups.underlying.steps.left.store(stop, SeqCst);
        let moved = groups.move_prepared(&handle, (number, true), true);
        assert!(stop < 11 || moved == Ok(true), "{moved:?}");
        dir.attach();
        dir.check_twice(&format!("stopped after {stop} steps"));
    }
}

/// A client has tried to move a file home, between the two halves of a move by the shuffler, and has
/// settled the file again.
#[test]
fn a_move_of_a_file_that_was_settled_meanwhile_makes_it_leave_again() {
    for stop in 0.. {
        let Some(mut dir) = prepared(&ACTIONS[1]) else { return };
        let (groups, handle) = (dir.groups(), dir.handle(1));
        let number = groups.peek(&handle).unwrap().number;
        groups.ask(Ask::Leave { files: vec![number] }).unwrap();
        groups.ask(Ask::Settle { files: vec![number] }).unwrap();
        groups.ask(Ask::Sync { file: None }).unwrap();
        let steps = &groups.underlying.steps;
        steps.left.store(stop, SeqCst);
        let moved = groups.move_prepared(&handle, (number, true), true);
        let ended = steps.left.load(SeqCst) >= 0;
        dir.attach();
        dir.check_twice(&format!("stopped after {stop} steps"));
        if ended {
            assert_eq!(moved, Ok(true));
            break;
        }
    }
}

/// Bytes that another program wrote without the mount after a kill of the server, before the next
/// mount: the store has not committed yet that the inode was empty.
#[test]
fn bytes_written_after_a_kill_without_the_mount_are_kept() {
    for (bytes, leaving, restored, kept) in [
        (b"by somebody".to_vec(), false, false, true),
        (b"by somebody".to_vec(), true, false, true),
        (vec![7; 70_000], true, false, true),
        // What a move home had written.
        (content(0)[..1_000].to_vec(), true, false, false),
        ([&[0; 512], &content(0)[512..]].concat(), true, false, false),
        // Restored from a backup, with the old time.
        (b"by somebody".to_vec(), false, true, true),
        (vec![7; content(0).len()], false, true, true),
        (vec![7; 70_000], false, true, true),
        // What there was before the move to the store; the host had not written all of it.
        (content(0), false, true, false),
        (content(0)[..1_000].to_vec(), false, true, false),
        ([&content(0)[..512], &[0; 2_488]].concat(), false, true, false),
    ] {
        let Some(mut dir) = prepared(&ACTIONS[1]) else { return };
        if leaving {
            let number = dir.groups().peek(&dir.handle(0)).unwrap().number;
            dir.groups().ask(Ask::Leave { files: vec![number] }).unwrap();
        }
        dir.mounted = None;
        fs::write(dir.path(0), &bytes).unwrap();
        if restored {
            let file = File::options().write(true).open(dir.path(0)).unwrap();
            file.set_modified(UNIX_EPOCH).unwrap();
        }
        for _ in 0..if kept { 2 } else { 0 } {
            let handle = dir.handle(0);
            let groups = dir.attach();
            assert_eq!(groups.lookup_clean(&handle).map(|_| ()), Err(Errno::IO));
            groups.ask(Ask::Sync { file: None }).unwrap();
            assert_eq!(fs::read(dir.path(0)).unwrap(), bytes);
        }
        dir.mounted = None;
        if kept {
            // The owner decides for the bytes in the store.
            fs::write(dir.path(0), b"").unwrap();
        }
        dir.attach();
        dir.check_twice("after the decision");
    }
}

/// The group of a file that was moving at a crash is damaged: its inode has the only whole copy.
#[test]
fn an_inode_is_not_emptied_if_the_store_cannot_read_its_file() {
    for leaving in [false, true] {
        let Some(mut dir) = prepared(&ACTIONS[1]) else { return };
        let (path, handle) = (dir.path(0), dir.handle(0));
        if leaving {
            let number = dir.groups().peek(&handle).unwrap().number;
            dir.groups().ask(Ask::Leave { files: vec![number] }).unwrap();
        }
        dir.mounted = None;
        // The move has not emptied the inode, or has filled it; its time is the old one.
        fs::write(&path, content(0)).unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(UNIX_EPOCH).unwrap();
        let (mut store, bytes) = (fs::read(dir.store()).unwrap(), content(0));
        let at = store.windows(bytes.len()).position(|b| b == bytes).unwrap();
        store[at] ^= 1;
        fs::write(dir.store(), store).unwrap();
        for _ in 0..2 {
            let groups = dir.attach();
            assert!(groups.trouble().is_some_and(|t| t.contains("cannot read its file")));
            assert_eq!(groups.lookup_clean(&handle).map(|_| ()), Err(Errno::IO));
            groups.end(false).unwrap();
            assert_eq!(fs::read(&path).unwrap(), content(0), "leaving: {leaving}");
        }
        dir.mounted = None;
        let checked = crate::check(&dir.dir(), &dir.store(), &mut |_| {}).unwrap();
        assert!(checked.damaged.contains(&PathBuf::from("0")), "{checked:?}");
        // The owner decides for the bytes in the directory.
        rustix::fs::removexattr(&path, underlying::MARKER).unwrap();
        let groups = dir.attach();
        assert_eq!(groups.lookup_clean(&handle).map(|file| file.is_some()), Ok(false));
        assert_eq!(fs::read(&path).unwrap(), content(0));
    }
}
