//! The descriptor tables of processes: the file and the position of each descriptor. As in the
//! kernel, duplicated and inherited descriptors share their position.

use rustc_hash::FxHashMap;
use slab::Slab;

use crate::error::{BadRecord, Parsed};

/// Maximum number of descriptors and of processes; a trace with more is hostile.
const MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) file: u32,
    pub(super) at: u64,
    pub(super) append: bool,
    /// Number of descriptors that refer to it.
    refs: u32,
}

#[derive(Debug, Default)]
struct Table {
    fds: FxHashMap<u32, u32>,
    directory: Option<Box<[u8]>>,
    /// Number of processes that share it.
    refs: u32,
}

#[derive(Debug, Default)]
pub(super) struct Tables {
    of_pid: FxHashMap<u32, u32>,
    tables: Slab<Table>,
    open: Slab<Open>,
    fds: usize,
}

impl Tables {
    pub(super) fn knows(&self, pid: u32) -> bool {
        self.of_pid.contains_key(&pid)
    }

    /// A process without known descriptors.
    pub(super) fn begin(&mut self, pid: u32) -> Parsed<()> {
        let table = self.new_table(Table::default())?;
        self.assign(pid, table);
        Ok(())
    }

    /// Gives `child` its parent's descriptors: a copy, or the same table.
    pub(super) fn fork(&mut self, parent: u32, child: u32, share: bool) -> Parsed<()> {
        let Some(&table) = self.of_pid.get(&parent) else { return self.begin(child) };
        let table = if share {
            table
        } else {
            let from = &self.tables[table as usize];
            if self.fds + from.fds.len() > MAX {
                return Err(BadRecord::new("at most 1,048,576 descriptors open at once"));
            }
            let copy = Table { fds: from.fds.clone(), directory: from.directory.clone(), refs: 0 };
            for &open in copy.fds.values() {
                self.open[open as usize].refs += 1;
            }
            self.fds += copy.fds.len();
            self.new_table(copy)?
        };
        self.assign(child, table);
        Ok(())
    }

    /// Sets the number of the process that appeared first without a number.
    pub(super) fn rename(&mut self, from: u32, to: u32) {
        if let Some(table) = self.of_pid.remove(&from) {
            self.of_pid.insert(to, table);
        }
    }

    pub(super) fn end(&mut self, pid: u32) {
        if let Some(table) = self.of_pid.remove(&pid) {
            self.release(table);
        }
    }

    fn new_table(&mut self, table: Table) -> Parsed<u32> {
        if self.tables.len() >= MAX {
            return Err(BadRecord::new("at most 1,048,576 processes at once"));
        }
        Ok(self.tables.insert(table) as u32)
    }

    fn assign(&mut self, pid: u32, table: u32) {
        self.tables[table as usize].refs += 1;
        if let Some(old) = self.of_pid.insert(pid, table) {
            self.release(old);
        }
    }

    fn release(&mut self, table: u32) {
        let t = &mut self.tables[table as usize];
        t.refs -= 1;
        if t.refs == 0 {
            let fds = self.tables.remove(table as usize).fds;
            self.fds -= fds.len();
            fds.into_values().for_each(|open| self.drop_open(open));
        }
    }

    fn table(&mut self, pid: u32) -> Option<&mut Table> {
        let table = *self.of_pid.get(&pid)?;
        self.tables.get_mut(table as usize)
    }

    pub(super) fn directory(&self, pid: u32) -> Option<&[u8]> {
        let table = *self.of_pid.get(&pid)?;
        self.tables[table as usize].directory.as_deref()
    }

    pub(super) fn set_directory(&mut self, pid: u32, path: &[u8]) {
        if let Some(table) = self.table(pid)
            && table.directory.as_deref() != Some(path)
        {
            table.directory = Some(path.into());
        }
    }

    pub(super) fn get(&mut self, pid: u32, fd: u32) -> Option<&mut Open> {
        let open = *self.table(pid)?.fds.get(&fd)?;
        self.open.get_mut(open as usize)
    }

    /// Makes a descriptor refer to `file`.
    pub(super) fn open(&mut self, pid: u32, fd: u32, file: u32, append: bool) -> Parsed<()> {
        let open = self.open.insert(Open { file, at: 0, append, refs: 0 });
        self.set(pid, fd, open as u32)
    }

    /// Makes `to` refer to the same open file as `from`.
    pub(super) fn duplicate(&mut self, pid: u32, from: u32, to: u32) -> Parsed<()> {
        let open = self.table(pid).and_then(|t| t.fds.get(&from).copied());
        match open {
            Some(open) if from != to => self.set(pid, to, open),
            Some(_) => Ok(()),
            None => {
                self.close(pid, to);
                Ok(())
            }
        }
    }

    fn set(&mut self, pid: u32, fd: u32, open: u32) -> Parsed<()> {
        self.open[open as usize].refs += 1;
        let full = self.fds >= MAX;
        let Some(table) = self.table(pid) else { return Ok(()) };
        if full && !table.fds.contains_key(&fd) {
            return Err(BadRecord::new("at most 1,048,576 descriptors open at once"));
        }
        match table.fds.insert(fd, open) {
            Some(old) => self.drop_open(old),
            None => self.fds += 1,
        }
        Ok(())
    }

    /// Closes a descriptor. Returns its file.
    pub(super) fn close(&mut self, pid: u32, fd: u32) -> Option<u32> {
        let open = self.table(pid)?.fds.remove(&fd)?;
        let file = self.open[open as usize].file;
        self.fds -= 1;
        self.drop_open(open);
        Some(file)
    }

    /// The open descriptors in an inclusive range, in order.
    pub(super) fn fds_between(&mut self, pid: u32, first: u64, last: u64) -> Vec<u32> {
        let Some(table) = self.table(pid) else { return Vec::new() };
        let inside = |fd: &u32| (first..=last).contains(&u64::from(*fd));
        let mut fds: Vec<u32> = table.fds.keys().copied().filter(inside).collect();
        fds.sort_unstable();
        fds
    }

    fn drop_open(&mut self, open: u32) {
        let o = &mut self.open[open as usize];
        o.refs -= 1;
        if o.refs == 0 {
            self.open.remove(open as usize);
        }
    }
}
