//! The process group and the program of a thread.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use rustc_hash::FxHashMap;
use seekless_jobs::PageUser;
use twox_hash::XxHash3_64;

/// How long a thread is what it was: a new process begins under the name of the shell.
const FRESH_NS: u64 = 20_000_000;
/// The kernel's thread that reads bitmaps of ext4 after a mount, ahead of any need. Nobody waits for
/// it.
const LAZY: &str = "ext4lazyinit";
/// Most threads that are remembered.
const THREADS: usize = 4096;
/// Most threads of a group that stand for it, and the longest time between their uses.
const TOGETHER: usize = 4;
const TOGETHER_NS: u64 = 100_000_000;

/// The threads of a process group that used something most recently. Nothing is read ahead for a
/// group whose work has ended. One thread says too little: `find -exec` has a new process for each
/// file, and a program may have threads that end before it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupThreads {
    /// Number and last use, the newest first; number 0: none.
    recent: [(u32, u64); TOGETHER],
}

impl GroupThreads {
    /// A thread of the group used something.
    pub(crate) fn used(&mut self, thread: u32, now: u64) {
        let place = self.recent.iter().position(|r| r.0 == thread).unwrap_or(TOGETHER - 1);
        self.recent[..=place].rotate_right(1);
        self.recent[0] = (thread, now);
        // A script that waits for its programs may unmount as soon as they have ended.
        let is_old = |r: &&mut (u32, u64)| now.saturating_sub(r.1) > TOGETHER_NS;
        self.recent.iter_mut().filter(is_old).for_each(|r| *r = (0, 0));
    }

    /// Whether one of them is still at work.
    pub(crate) fn is_alive(&self) -> bool {
        self.recent.iter().any(|r| r.0 != 0 && is_alive(r.0))
    }
}

/// Threads that were seen.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    threads: FxHashMap<u32, (u64, PageUser)>,
    /// Names of programs by hash, if names are kept.
    names: Option<FxHashMap<u64, String>>,
}

impl Processes {
    /// `names`: names of programs are kept.
    pub(crate) fn new(names: bool) -> Self {
        Self { names: names.then(FxHashMap::default), ..Self::default() }
    }

    /// Who this thread is, at this time in nanoseconds. A thread that has ended before it was seen
    /// is a group of its own. `None`: nobody waits for what this thread reads.
    pub(crate) fn who(&mut self, thread: u32, now: u64) -> Option<PageUser> {
        let before = self.threads.get(&thread).copied();
        if let Some((seen, who)) = before
            && now.saturating_sub(seen) < FRESH_NS
        {
            return Some(who);
        }
        if self.threads.len() >= THREADS {
            self.threads.clear();
        }
        let text = fs::read(format!("/proc/{thread}/stat")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let (group, name) = parse(&text).unwrap_or((thread, ""));
        if let Some((_, who)) = before.filter(|_| name.is_empty()) {
            return Some(who);
        }
        if name == LAZY {
            return None;
        }
        // Threads of the kernel are in group 0: each is on its own.
        let group = if group == 0 { thread } else { group };
        let user = fs::metadata(format!("/proc/{thread}")).map_or(0, |m| m.uid());
        let program = if name.is_empty() { 0 } else { program(user, name) };
        if let Some(names) = &mut self.names
            && !name.is_empty()
            && names.len() < THREADS
        {
            names.entry(program).or_insert_with(|| name.to_owned());
        }
        let who = PageUser { group, program };
        self.threads.insert(thread, (now, who));
        Some(who)
    }

    /// The name of a program, if names are kept.
    pub(crate) fn names(&self) -> impl Iterator<Item = (u64, &str)> {
        self.names.iter().flatten().map(|(&p, n)| (p, n.as_str()))
    }

    /// Numbers of threads are used again: forgets them when nothing goes on.
    pub(crate) fn forget(&mut self) {
        self.threads.clear();
    }
}

/// The same name of two users is two programs: runs of one change no job of the other. A program
/// that ends before its name is read has no user, and may change any job.
fn program(user: u32, name: &str) -> u64 {
    XxHash3_64::oneshot_with_seed(user.into(), name.as_bytes())
}

/// Process group and name: fields 5 and 2. The name is in parentheses, with any characters.
fn parse(stat: &str) -> Option<(u32, &str)> {
    let (head, rest) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1;
    Some((rest.split_whitespace().nth(2)?.parse().ok()?, name))
}

/// Whether a thread is still at work. One that has ended, and that its parent has not asked about
/// yet, keeps no mount busy any more.
fn is_alive(thread: u32) -> bool {
    fs::read(format!("/proc/{thread}/stat")).is_ok_and(|t| works(&String::from_utf8_lossy(&t)))
}

/// Field 3 is the state: Z and X have ended.
fn works(stat: &str) -> bool {
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
    state.is_some_and(|s| !["Z", "X", "x"].contains(&s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_names_are_found() {
        assert_eq!(parse("7 (a) b (c) S 1 42 3"), Some((42, "a) b (c")));
        assert_eq!(parse("7 (a"), None);
        let me = std::process::id();
        let mut processes = Processes::new(true);
        let who = processes.who(me, 0).unwrap();
        assert_eq!(who.group, rustix::process::getpgrp().as_raw_pid().cast_unsigned());
        assert!(who.program != 0 && processes.names().any(|(p, _)| p == who.program));
        assert_eq!(processes.who(u32::MAX, 0), Some(PageUser { group: u32::MAX, program: 0 }));
        assert!(program(0, "tar") != program(1000, "tar"));
        assert!(works("7 (a) b) S 1 42") && !works("7 (a) Z 1 42") && !works("7 (a"));
        assert!(is_alive(me) && !is_alive(u32::MAX) && !is_alive(0));
    }

    #[test]
    fn a_group_is_at_work_while_one_of_its_recent_threads_is() {
        let (me, gone) = (std::process::id(), u32::MAX);
        let mut group = GroupThreads::default();
        assert!(!group.is_alive());
        group.used(me, 0);
        (1..TOGETHER as u32).for_each(|n| group.used(gone - n, u64::from(n)));
        assert!(group.is_alive(), "as the children of `find -exec` end");
        group.used(gone - 1, 10);
        assert!(group.is_alive(), "one that is known takes no place of another");
        let mut crowded = group;
        crowded.used(gone, 11);
        assert!(!crowded.is_alive(), "the oldest one goes");
        group.used(gone - 1, TOGETHER_NS + 1);
        assert!(!group.is_alive(), "it may have left the mount since");
    }
}
