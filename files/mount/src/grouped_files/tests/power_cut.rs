//! A power cut at each step, over a model of unsynced changes.

use super::*;

/// The contents of an inode after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bytes {
    Whole,
    None,
    /// Written without a sync.
    Torn,
}

const NOT_ITS_BYTES: &str = "no marker, and not its bytes";

/// The reason why a file can be lost by a power cut after these events. Any part of the unsynced
/// changes may be kept.
fn lost(events: &[Event], handle: InodeHandle) -> Option<&'static str> {
    let mut sure = (Bytes::Whole, false);
    let mut loose: Vec<InodeStep> = Vec::new();
    let (mut number, mut leaving, mut settled) = (None, false, false);
    // Whether the entry may be gone, and whether it will be gone after the next sync of all.
    let (mut gone, mut going) = (false, false);
    let after = |(bytes, marked), step| match step {
        InodeStep::Marked => (bytes, true),
        InodeStep::Unmarked => (bytes, false),
        InodeStep::Truncated => (Bytes::None, marked),
        _ => (Bytes::Torn, marked),
    };
    for event in events {
        match *event {
            Event::Inode(InodeStep::AllSynced, _) => {
                sure = loose.drain(..).fold(sure, after);
                gone |= going;
            }
            Event::Inode(InodeStep::Synced, of) if of == handle => {
                sure = loose.drain(..).fold(sure, after);
            }
            Event::Inode(step, of) if of == handle => loose.push(step),
            Event::Entered(new, of) if of == handle => {
                (number, leaving, settled, gone, going) = (Some(new), false, false, false, false);
            }
            Event::Leaving(n) if number == Some(n) => leaving = true,
            Event::Settled(n) if number == Some(n) => (settled, leaving) = (true, false),
            Event::Removed(n) if number == Some(n) => going = true,
            _ => {}
        }
        // A sync makes torn bytes whole.
        if loose.is_empty() && sure.0 == Bytes::Torn {
            sure.0 = Bytes::Whole;
        }
    }
    (0..1u32 << loose.len()).find_map(|kept| {
        let kept = (0..).zip(&loose).filter(|(i, _)| kept & 1 << i != 0).map(|(_, s)| *s);
        let (bytes, marked) = kept.fold(sure, after);
        match (marked, number) {
            (false, _) => (bytes != Bytes::Whole).then_some(NOT_ITS_BYTES),
            (true, None) => Some("a marker without an entry"),
            (true, Some(_)) if gone => Some("a marker whose entry may be gone"),
            // Settled with bytes in the inode: this looks like a write by another program.
            (true, Some(_)) if settled && !leaving && bytes != Bytes::None => {
                Some("settled, and its inode has bytes")
            }
            _ => None,
        }
    })
}

/// Fails if a power cut after any of these events can lose a file.
pub(super) fn lost_at_any(events: &[Event], dir: &TestDir, what: &str, emptied: Option<usize>) {
    let all: Vec<InodeHandle> = dir.handles(&[0, 1, 2, 3]);
    for end in 0..=events.len() {
        for (name, handle) in all.iter().enumerate() {
            let lost = |events: &[Event]| {
                lost(events, *handle).filter(|w| emptied != Some(name) || *w != NOT_ITS_BYTES)
            };
            let mut events = events[..end].to_vec();
            let why = lost(&events);
            assert_eq!(why, None, "{what}: {name}, after {events:#?}");
            // Another program may sync everything at any time.
            events.push(Event::Inode(InodeStep::AllSynced, *handle));
            let why = lost(&events);
            assert_eq!(why, None, "{what}: {name}, after {events:#?}");
        }
    }
}

#[test]
fn with_the_power_cut_at_any_step_no_file_is_lost() {
    for action in ACTIONS {
        let Some(dir) = prepared(&Action { formed: false, ..*action }) else { return };
        let groups = dir.groups();
        if action.formed {
            dir.form();
        }
        let _ = (action.act)(&dir, groups);
        let _ = groups.ask(Ask::Sync { file: None });
        let events = held(groups.underlying.steps.events.lock()).clone();
        assert!(events.len() > 10, "{}: {events:?}", action.name);
        lost_at_any(&events, &dir, action.name, action.emptied);
        dir.check(action.name);
    }
}

/// The power of the store is cut at each step, also at each write and flush of the store: the synced
/// content or a later one is there, and in one place. The directory keeps all of its changes; the
/// test above has those that it may lose. The store keeps all or none of its unsynced writes in
/// turn, and some sectors of them.
#[test]
fn with_the_power_of_the_store_cut_at_any_step_synced_contents_are_there() {
    for action in ACTIONS {
        for stop in 0.. {
            let mut ended = false;
            for kept in [stop as u64 % 2, 2 + stop as u64] {
                let Some(mut dir) = TestDir::new() else { return };
                dir.cuts_store = true;
                dir.attach();
                if action.formed {
                    dir.form();
                }
                let steps = &dir.groups().underlying.steps;
                steps.left.store(stop, SeqCst);
                let _ = (action.act)(&dir, dir.groups());
                ended = steps.left.load(SeqCst) >= 0;
                let image = dir.cut(kept);
                dir.mounted = None;
                cut_device::restore(&dir.store(), image);
                dir.cuts_store = false;
                dir.attach();
                let when = format!("{}, cut after {stop} steps, kept {kept}", action.name);
                dir.check_twice(&when);
            }
            if ended {
                assert!(stop > 1, "{}: {stop} steps", action.name);
                break;
            }
        }
    }
}
