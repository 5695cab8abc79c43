//! A sync of a move fails, and a client writes and syncs afterwards.

use std::sync::atomic::Ordering::SeqCst;

use super::*;

/// Steps from `fail` on fail during a move of file 1; then a client opens, writes and syncs it.
fn moved_then_written(action: Act, formed: bool, (fail, failures): (i64, i64)) -> Option<TestDir> {
    let dir = TestDir::new().map(|mut dir| {
        dir.attach();
        dir
    })?;
    if formed {
        assert_eq!(dir.groups().form_groups(&[dir.handles(&[1])], NOT_BUSY), [Ok(1)]);
    }
    let steps = &dir.groups().underlying.steps;
    steps.failures.store(failures, SeqCst);
    steps.fails.store(fail, SeqCst);
    let _ = action(&dir, dir.groups());
    steps.fails.store(i64::MAX, SeqCst);
    let fh = dir.open(1, OFlags::WRONLY);
    for at in [1, 2_000] {
        if dir.write(fh, at, b"by a client").is_ok() {
            let _ = dir.sync(fh, true);
        }
    }
    Some(dir)
}

/// A marker whose removal failed, or is not durable, would bring older bytes back.
#[test]
fn a_synced_write_outlives_a_move_of_its_file_in_which_steps_failed() {
    let moves: [(Act, bool); 3] = [
        (
            |p, g| {
                g.form_groups(&[p.handles(&[1])], NOT_BUSY);
                Ok(())
            },
            false,
        ),
        (|p, g| g.move_back(&p.handle(1)), true),
        (
            |p, g| {
                g.move_all_back(&p.handles(&[1]));
                Ok(())
            },
            true,
        ),
    ];
    for (n, (action, formed)) in moves.into_iter().enumerate() {
        for fail in 0..8 {
            for failures in 1..=4 {
                let Some(mut dir) = moved_then_written(action, formed, (fail, failures)) else {
                    return;
                };
                let when = format!("move {n}, {failures} failed from step {fail} on");
                let handle = dir.handle(1);
                let unmarked = |event: &Event| *event == Event::Inode(InodeStep::Unmarked, handle);
                let synced = Event::Inode(InodeStep::Synced, handle);
                let events = held(dir.groups().underlying.steps.events.lock()).clone();
                let last = events.iter().rposition(unmarked);
                let is_durable = last.is_none_or(|at| events[at..].contains(&synced));
                let is_used = dir.groups().lookup_clean(&handle).is_ok();
                assert!(is_durable || !is_used, "{when}: {events:?}");
                dir.attach();
                dir.check_twice(&when);
            }
        }
    }
}

/// The inode of a file that came could not be emptied durably, and a power cut undoes that.
#[test]
fn a_synced_write_outlives_old_bytes_in_an_inode_that_was_not_durably_emptied() {
    let mut undone = Vec::new();
    for fail in 0..8 {
        let Some(mut dir) = TestDir::new() else { return };
        let (handle, modified) = (dir.handle(1), dir.path(1).metadata().unwrap().modified());
        dir.attach();
        let steps = &dir.groups().underlying.steps;
        steps.fails.store(fail, SeqCst);
        dir.groups().form_groups(&[vec![handle]], NOT_BUSY);
        steps.fails.store(i64::MAX, SeqCst);
        let events = held(steps.events.lock()).clone();
        let truncated = events.contains(&Event::Inode(InodeStep::Truncated, handle));
        let synced = events.iter().rfind(|event| matches!(event, Event::Inode(..)))
            == Some(&Event::Inode(InodeStep::Synced, handle));
        if dir.groups().peek(&handle).is_none() || truncated && synced {
            continue;
        }
        let fh = dir.open(1, OFlags::WRONLY);
        dir.write(fh, 7, b"newer").unwrap();
        dir.sync(fh, true).unwrap();
        dir.mounted = None;
        fs::write(dir.path(1), content(1)).unwrap();
        let file = File::options().write(true).open(dir.path(1)).unwrap();
        file.set_modified(modified.unwrap()).unwrap();
        drop(file);
        dir.attach();
        dir.check_twice(&format!("step {fail} failed"));
        undone.push(fail);
    }
    assert_eq!(undone.len(), 2, "the truncation, and its sync: {undone:?}");
}

/// The host reports a failed write of file pages once, here to the shuffle.
#[test]
fn the_next_sync_of_a_client_fails_if_the_sync_of_a_shuffle_did() {
    let Some(mut dir) = TestDir::new() else { return };
    let wanted = [dir.handles(&[1])];
    let groups = dir.attach();
    // The entry and the marker come before.
    groups.underlying.steps.fails.store(2, SeqCst);
    assert_eq!(groups.form_groups(&wanted, NOT_BUSY), [Ok(0)]);
    let fh = dir.open(1, OFlags::WRONLY);
    assert_eq!(dir.sync(fh, false), Err(Errno::IO));
    dir.sync(fh, false).unwrap();
    dir.check_twice("after the error");
}

/// The move home and its undo fail: bytes stay in the inode of a file of the store.
#[test]
fn bytes_of_a_failed_move_do_not_come_back_at_the_end_of_a_file() {
    let Some(mut dir) = prepared(&ACTIONS[1]) else { return };
    let (groups, handle) = (dir.groups(), dir.handle(1));
    groups.underlying.steps.failures.store(2, SeqCst);
    groups.underlying.steps.fails.store(4, SeqCst);
    assert_eq!(groups.move_back(&handle), Err(Errno::IO));
    let file = OwnedFd::from(File::open(dir.path(1)).unwrap());
    assert!(rustix::fs::fstat(&file).unwrap().st_size > 100);
    dir.resize(100).unwrap();
    assert_eq!(dir.mounted().attributes(&file, &handle).unwrap().size, 100);
    groups.move_back(&handle).unwrap();
    assert_eq!(dir.mounted().attributes(&file, &handle).unwrap().size, 100);
    dir.check_twice("home");
}
