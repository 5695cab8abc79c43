//! Forming groups: files move from the directory to the store.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustc_hash::FxHashSet;
use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use seekless_host::sys::{Others, lease, leased};
use seekless_store::{Arrival, Ask, FILE_BYTES_MAX, Fault, FileNumber, Member, Reply};

use super::{GroupedFile, GroupedFiles, MarkerCheck, attributes, held, in_parallel};
use crate::inode_handle::InodeHandle;
use crate::underlying;

/// A file on its way to the store.
struct MovingFile {
    handle: InodeHandle,
    file: File,
    stat: Stat,
    data: Vec<u8>,
}

/// One group that is to be formed.
struct PlannedGroup {
    /// The store was asked for it; a group without members is not asked for.
    asked: bool,
    /// Number of members that the store has already.
    here: usize,
    newcomers: Range<usize>,
}

/// A newcomer with a durable marker.
type Marked<'a> = (&'a MovingFile, FileNumber, Stat);

/// A newcomer that is a file of the store, and whether its inode was truncated.
type Came<'a> = (&'a MovingFile, FileNumber, bool);

/// Waits until the next write to a file changes its modification time. Times have the steps of the
/// kernel's clock; inodes of 128 bytes have whole seconds.
fn wait_for_another_time(file: &Stat) {
    let is_now = || {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        let rest = file.st_mtime_nsec as i64;
        file.st_mtime == now.tv_sec && (rest == now.tv_nsec || rest == 0)
    };
    while is_now() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Size and modification time: every write after [`wait_for_another_time`] changes one of them.
fn written(stat: &Stat) -> (i64, i64, i64) {
    (stat.st_size, stat.st_mtime, stat.st_mtime_nsec as i64)
}

impl GroupedFiles {
    /// Forms groups: files of the directory move to the store, unless `busy` says that the file is
    /// open. Returns for each group the number of moved files, or the fault of the store; the files
    /// of a failed group have not moved.
    pub(crate) fn form_groups(
        &self,
        groups: &[Vec<InodeHandle>],
        busy: impl Fn(&InodeHandle) -> bool + Sync,
    ) -> Vec<Result<usize, Fault>> {
        let mut coming: Vec<MovingFile> = Vec::new();
        let (mut asks, mut wanted) = (Vec::new(), Vec::new());
        for files in groups {
            wanted.push(self.collect(files, &busy, &mut coming, &mut asks));
        }
        let mut replies = self.ask_all(asks).into_iter();
        let mut numbers: Vec<Option<FileNumber>> = vec![None; coming.len()];
        let mut results = Vec::new();
        for group in &wanted {
            let reply = if group.asked { replies.next() } else { None };
            results.push(match reply {
                None => Ok(()),
                Some(Ok(Reply::Numbers(given))) => {
                    let given = given.iter().skip(group.here);
                    for (to, number) in numbers[group.newcomers.clone()].iter_mut().zip(given) {
                        *to = Some(*number);
                    }
                    Ok(())
                }
                Some(Ok(_)) => Err(Fault::Broken),
                Some(Err(fault)) => Err(fault),
            });
        }
        let given: Vec<(&MovingFile, FileNumber)> =
            coming.iter().zip(numbers).filter_map(|(c, n)| Some((c, n?))).collect();
        let came = self.hand_over(&given, &busy);
        let mut watched = held(self.watched.lock());
        for c in &coming {
            watched.remove(&c.handle);
        }
        let count = |part: &Range<usize>| {
            coming[part.clone()].iter().filter(|c| came.contains(&c.handle)).count()
        };
        results.into_iter().zip(&wanted).map(|(r, w)| r.map(|()| count(&w.newcomers))).collect()
    }

    /// Reads the newcomers of a group, and adds the ask for the group.
    fn collect(
        &self,
        files: &[InodeHandle],
        busy: &impl Fn(&InodeHandle) -> bool,
        coming: &mut Vec<MovingFile>,
        asks: &mut Vec<Ask>,
    ) -> PlannedGroup {
        let (mut here, first) = (Vec::new(), coming.len());
        for handle in files {
            let found = {
                let _lock = self.reading(handle);
                self.lookup_clean(handle)
            };
            match found {
                Ok(Some(file)) => here.push(file.number),
                Ok(None) => coming.extend(self.fetch(handle, busy)),
                Err(_) => {}
            }
        }
        let arrivals = coming[first..].iter_mut().map(|c| {
            let (attributes, data) = (attributes(&c.stat), std::mem::take(&mut c.data));
            Member::New(Arrival { attributes, name: c.handle.to_name(), data })
        });
        let members: Vec<Member> = here.iter().map(|n| Member::Here(*n)).chain(arrivals).collect();
        let asked = !members.is_empty();
        if asked {
            asks.push(Ask::Group { members });
        }
        PlannedGroup { asked, here: here.len(), newcomers: first..coming.len() }
    }

    /// Reads a newcomer. From now on a write to the file is noted.
    fn fetch(
        &self,
        handle: &InodeHandle,
        busy: &impl Fn(&InodeHandle) -> bool,
    ) -> Option<MovingFile> {
        {
            let _lock = self.changing(handle);
            if busy(handle) {
                return None;
            }
            held(self.watched.lock()).insert(*handle, false);
        }
        let newcomer = self.read_newcomer(handle);
        if newcomer.is_none() {
            held(self.watched.lock()).remove(handle);
        }
        newcomer
    }

    fn read_newcomer(&self, handle: &InodeHandle) -> Option<MovingFile> {
        let flags = OFlags::RDWR | OFlags::NOATIME;
        let file = File::from(self.underlying.open_handle(handle, flags).ok()?);
        // Writes through a memory mapping leave no trace: a mapped file must not move.
        lease(&file, Others::Any).ok()?;
        let before = rustix::fs::fstat(&file).ok()?;
        wait_for_another_time(&before);
        let stat = rustix::fs::fstat(&file).ok()?;
        if written(&stat) != written(&before) {
            return None;
        }
        let small = (1..=i64::from(FILE_BYTES_MAX)).contains(&stat.st_size);
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        // Another name may be outside the directory: its readers would see an empty file. After a
        // crash during a move, the times come from the store.
        let stays = stat.st_nlink != 1
            || underlying::has_capabilities(&file)
            || !underlying::can_be_stored(&underlying::times(&stat));
        if !small || !regular || stays {
            return None;
        }
        let mut data = vec![0; stat.st_size as usize];
        file.read_exact_at(&mut data, 0).ok()?;
        Some(MovingFile { handle: *handle, file, stat, data })
    }

    /// The store has the bytes of the newcomers durably: files that were not used meanwhile belong
    /// to the store from now on. Returns these files.
    fn hand_over(
        &self,
        coming: &[(&MovingFile, FileNumber)],
        busy: &impl Fn(&InodeHandle) -> bool,
    ) -> FxHashSet<InodeHandle> {
        let mut locks: Vec<usize> = coming.iter().map(|(c, _)| self.lock_of(&c.handle)).collect();
        locks.sort_unstable();
        locks.dedup();
        let guards: Vec<_> = locks.iter().map(|&i| held(self.locks[i].write())).collect();
        let (marked, mut unwanted) = self.mark_all(coming, busy);
        let came = self.take_over(&marked, &mut unwanted);
        // Until they are settled, no client moves them home, where a settled file has no bytes of
        // ours, and no client writes to them, whose inodes may still have the old bytes after a crash.
        self.settle_emptied(&came);
        drop(guards);
        self.counts.came.fetch_add(came.len() as u64, Relaxed);
        self.counts.given_up.fetch_add(unwanted.len() as u64, Relaxed);
        for number in unwanted {
            let _ = self.ask(Ask::Remove { file: number });
        }
        came.iter().map(|(c, ..)| c.handle).collect()
    }

    /// Sets the markers durably. Returns the marked files, and the entries of the others.
    fn mark_all<'a>(
        &self,
        coming: &[(&'a MovingFile, FileNumber)],
        busy: &impl Fn(&InodeHandle) -> bool,
    ) -> (Vec<Marked<'a>>, FxHashSet<FileNumber>) {
        let mut marked = Vec::new();
        let mut unwanted = FxHashSet::default();
        for &(c, number) in coming {
            match self.mark(c, number, busy) {
                Ok(now) => marked.push((c, number, now)),
                Err(_) => drop(unwanted.insert(number)),
            }
        }
        let durable = in_parallel(&marked, |(c, ..)| self.underlying.sync_file(&c.file).is_ok());
        let mut durable = durable.into_iter();
        marked.retain(|(c, number, _)| {
            let synced = durable.next() == Some(true);
            if !synced {
                held(self.owed_errors.lock()).insert(c.handle);
                if self.unmark(c, *number) {
                    unwanted.insert(*number);
                }
            }
            synced
        });
        (marked, unwanted)
    }

    /// Makes files of the store of newcomers with durable markers. Those that another program has
    /// written to or opened during the syncs stay in the directory: their entries are unwanted.
    /// Returns the files that came.
    fn take_over<'a>(
        &self,
        marked: &[Marked<'a>],
        unwanted: &mut FxHashSet<FileNumber>,
    ) -> Vec<Came<'a>> {
        let mut came = Vec::new();
        for &(c, number, ref now) in marked {
            // Between the last look and the truncation nobody writes to the file.
            match leased(&c.file, Others::Any, || self.empty_inode(c, number, now)) {
                Ok(Some(is_empty)) => came.push((c, number, is_empty)),
                _ if self.unmark(c, number) => drop(unwanted.insert(number)),
                _ => {}
            }
        }
        came
    }

    /// Lists a marked file as a file of the store, and truncates its inode. False if the truncation
    /// failed; `None` if the file has changed and was not listed.
    fn empty_inode(&self, c: &MovingFile, number: FileNumber, now: &Stat) -> Option<bool> {
        let same = rustix::fs::fstat(&c.file).is_ok_and(|s| written(&s) == written(now));
        if !same {
            return None;
        }
        let (size, check) = (now.st_size as u32, MarkerCheck::Confirmed);
        self.insert(c.handle, GroupedFile { number, size, check, cached: false });
        Some(self.underlying.truncate(&c.file, &underlying::times(now)).is_ok())
    }

    /// A newcomer with a marker stays in the directory. False if the removal of the marker may not
    /// be durable: then nobody may write to the file.
    fn unmark(&self, c: &MovingFile, number: FileNumber) -> bool {
        let unmarked = self.underlying.clear_marker(&c.file);
        let Err(e) = unmarked.and_then(|()| self.underlying.sync_file(&c.file)) else {
            return true;
        };
        let (size, check) = (c.stat.st_size as u32, MarkerCheck::Unsure);
        self.insert(c.handle, GroupedFile { number, size, check, cached: false });
        self.note_unsure(&format!("its marker could not be removed and synced: {e}"));
        false
    }

    /// Sets the marker of a newcomer, if its bytes have not changed since they were read.
    fn mark(
        &self,
        c: &MovingFile,
        number: FileNumber,
        busy: &impl Fn(&InodeHandle) -> bool,
    ) -> Result<Stat, Errno> {
        let touched = held(self.watched.lock()).get(&c.handle).is_none_or(|t| *t);
        let now = rustix::fs::fstat(&c.file)?;
        if touched || busy(&c.handle) || written(&now) != written(&c.stat) || now.st_nlink != 1 {
            return Err(Errno::AGAIN);
        }
        lease(&c.file, Others::Any).map_err(|_| Errno::AGAIN)?;
        self.underlying.set_marker(&c.file, &self.marker(number, &now))?;
        Ok(now)
    }

    /// Settles the files whose inodes are durably empty: bytes in the inode of a settled file were
    /// written by another program. The inodes of the others may keep their old bytes: their entries
    /// do not stay arriving, where such bytes must be those of the store.
    fn settle_emptied(&self, came: &[Came<'_>]) {
        let empty = in_parallel(came, |(c, _, is_empty)| {
            *is_empty && self.underlying.sync_file(&c.file).is_ok()
        });
        let (mut settled, mut others) = (Vec::new(), Vec::new());
        for (file, is_empty) in came.iter().zip(empty) {
            if is_empty {
                settled.push(file.1);
            } else {
                others.push(file);
            }
        }
        if !settled.is_empty() {
            let _ = self.ask(Ask::Settle { files: settled });
        }
        let files: Vec<FileNumber> = others.iter().map(|(_, number, _)| *number).collect();
        if !files.is_empty() && self.ask(Ask::Leave { files }).is_err() {
            for (c, number, _) in others {
                self.set_check(&c.handle, *number, MarkerCheck::Unsure);
            }
            self.note_unsure("its inode could not be emptied and synced");
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{Timespec, Timestamps};

    use super::*;

    /// Otherwise a program could write once more in the same step of the clock, after the read.
    #[test]
    fn a_file_that_was_just_written_is_read_in_the_next_step_of_the_clock() {
        let file = tempfile::tempfile().unwrap();
        let modified = |time: Timespec| {
            let times = Timestamps { last_access: time, last_modification: time };
            rustix::fs::futimens(&file, &times).unwrap();
            rustix::fs::fstat(&file).unwrap()
        };
        let now = || {
            let time = clock_gettime(ClockId::RealtimeCoarse);
            (time.tv_sec, time.tv_nsec)
        };
        let (tv_sec, tv_nsec) = now();
        wait_for_another_time(&modified(Timespec { tv_sec, tv_nsec }));
        assert_ne!(now(), (tv_sec, tv_nsec));
        let (tv_sec, _) = now();
        wait_for_another_time(&modified(Timespec { tv_sec, tv_nsec: 0 }));
        assert!(now().0 > tv_sec, "a time in whole seconds");
        // Such a wait would not end.
        wait_for_another_time(&modified(Timespec { tv_sec: tv_sec + 1_000_000, tv_nsec: 0 }));
    }
}
