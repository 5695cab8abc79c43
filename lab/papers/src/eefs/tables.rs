//! Tables 1 to 3, and the numbers behind Figures 5 and 6.

use seekless_report::{Column, Table};
use seekless_trace::FileOp;

use super::experiments::{Compared, SYSTEMS, at_work, part_of};
use super::replay::FileOutcome;
use crate::synth::{FILE_DAYS, FilePlay};

fn column(name: &str) -> Column {
    Column::text(name).right()
}

pub(super) fn share(v: f64) -> String {
    format!("{:.1} %", v * 100.0)
}

pub(super) fn percent(new: f64, old: f64) -> String {
    if old == 0.0 { "-".to_owned() } else { format!("{:+.1} %", (new / old - 1.0) * 100.0) }
}

pub(super) fn table1(scale: f64, seed: u64) -> Table {
    let rows = FILE_DAYS.map(|day| {
        let part = part_of(&day, scale);
        let mut play = FilePlay::new(day, part, seed);
        let counts = play.by_ref().fold([0u64; 3], |[n, r, w], e| match e.op {
            FileOp::Read => [n + 1, r + e.len, w],
            FileOp::Write => [n + 1, r, w + e.len],
            _ => [n + 1, r, w],
        });
        let small = play.files().iter().filter(|f| f.size < 16_384).count() as f64;
        (day, part, counts, play.files().len(), small)
    });
    let mb = |bytes: u64| format!("{:.0}", bytes as f64 / f64::from(1 << 20));
    let table = Table::of("Table 1: the days", rows)
        .text("", |(day, ..)| day.name)
        .right("requests", |(_, _, [requests, ..], ..)| requests.to_string())
        .right("paper", |(day, part, ..)| format!("{:.0}", day.requests as f64 * part))
        .right("read MB", |(_, _, [_, read, _], ..)| mb(read))
        .right("paper", |(day, part, ..)| format!("{:.0}", day.read_mb * part))
        .right("written MB", |(_, _, [.., written], ..)| mb(written))
        .right("paper", |(day, part, ..)| format!("{:.0}", day.written_mb * part))
        .right("files", |(.., files, _)| files.to_string())
        .right("below 16 KiB", |(.., files, small)| share(small / files as f64))
        .right("paper", |(day, ..)| share(day.small))
        .done();
    table.note(format!("The paper's requests and megabytes times {scale} (the light day: at least 0.2). Made up to match."))
}

/// FFS alone beside the paper: the numbers to which the days are fitted.
pub(super) fn fit(all: &[Compared], scale: f64) -> Table {
    let rows = all.iter().zip(&FILE_DAYS).filter_map(|(c, day)| {
        let (paper, ffs) = (c.paper?, c.outcomes.first()?);
        Some((c, paper, ffs, paper.requests[0] as f64 * part_of(day, scale)))
    });
    let table = Table::of("The fit: FFS alone", rows)
        .text("", |(c, ..)| c.name.as_str())
        .right("requests", |(_, _, ffs, _)| (ffs.disk_reads + ffs.disk_writes).to_string())
        .right("paper", |(.., printed)| format!("{printed:.0}"))
        .right("hits", |(_, _, ffs, _)| share(ffs.hits))
        .right("paper", |(_, p, ..)| p.hits.map_or("-".to_owned(), |h| format!("{} %", h[0])))
        .right("name cache", |(_, _, ffs, _)| share(ffs.name_hits))
        .right("paper", |_| "70 %")
        .right("busy", |(_, _, ffs, _)| share(ffs.busy))
        .right("paper", |(_, p, ..)| share(p.busy()))
        .done();
    table.note(
        "Directories, hours and memory of a day were chosen so that the numbers of FFS alone are close to the printed \
         numbers. Busy is the share of the time in which the disk works. The paper's share is derived \
         from Table 3: rotation and seek save the time by which idling grows.",
    )
}

pub(super) fn requests(all: &[Compared]) -> Table {
    let n = |c: &Compared, i: usize| (c.outcomes[i].disk_reads + c.outcomes[i].disk_writes) as f64;
    Table::of("Table 3: requests of the disk", all)
        .text("", |c| c.name.as_str())
        .right("FFS", |c| n(c, 0).to_string())
        .right("read-ahead", |c| n(c, 1).to_string())
        .right("EEFS", |c| n(c, 2).to_string())
        .right("EEFS / FFS", |c| format!("{:.2}", n(c, 2) / n(c, 0).max(1.0)))
        .right("EEFS / read-ahead", |c| format!("{:.2}", n(c, 2) / n(c, 1).max(1.0)))
        .right("paper: EEFS / FFS", |c| {
            c.paper.map_or("-".to_owned(), |p| {
                format!("{:.2}", p.requests[1] as f64 / p.requests[0] as f64)
            })
        })
        .done()
}

/// Each day under each system: the day, the system's index, its outcome and its name.
fn rows(all: &[Compared]) -> impl Iterator<Item = (&Compared, usize, &FileOutcome, &'static str)> {
    all.iter().flat_map(|c| {
        let outcomes = c.outcomes.iter().zip(SYSTEMS).enumerate();
        outcomes.map(move |(i, (o, (_, name)))| (c, i, o, name))
    })
}

/// Requests by cause: all, or per `of_opens` opens of files.
pub(super) fn causes(all: &[Compared], of_opens: f64) -> Table {
    let per = of_opens > 0.0;
    let title =
        if per { "The same, per 1,000 opens of files" } else { "Requests of the disk, by cause" };
    let count = |o: &FileOutcome, n: u64| {
        let share = n as f64 * of_opens / o.opens.max(1) as f64;
        if per { format!("{share:.1}") } else { n.to_string() }
    };
    let table = Table::of(title, rows(all))
        .text("", |(c, _, _, name)| format!("{}, {name}", c.name))
        .right("inodes read", |(_, _, o, _)| count(o, o.causes.inodes_read))
        .right("names read", |(_, _, o, _)| count(o, o.causes.names_read))
        .right("data read", |(_, _, o, _)| count(o, o.causes.data_read))
        .right("inodes written", |(_, _, o, _)| count(o, o.causes.inodes_written))
        .right("names written", |(_, _, o, _)| count(o, o.causes.names_written))
        .right("data written", |(_, _, o, _)| count(o, o.causes.data_written))
        .right("groups read", |(_, _, o, _)| count(o, o.causes.groups_read))
        .right("groups written", |(_, _, o, _)| count(o, o.causes.groups_written))
        .right("log written", |(_, _, o, _)| count(o, o.causes.log_written))
        .right("moving read", |(_, _, o, _)| count(o, o.causes.moves_read))
        .right("moving written", |(_, _, o, _)| count(o, o.causes.moves_written))
        .right("all", |(_, _, o, _)| count(o, o.disk_reads + o.disk_writes))
        .done();
    table.note("Inodes, names and data are the fast file system's; under EEFS, of files in no group. Moving is the file system's part of a shuffle.")
}

pub(super) fn energy(all: &[Compared]) -> Table {
    let names = ["read", "write", "rotation", "seek", "idle", "standby", "total", "without idle"];
    let columns = std::iter::once(Column::text("against FFS"));
    let mut table =
        Table::new("Table 3: energy", columns.chain(names.iter().map(|n| column(n))).collect());
    for c in all {
        let parts = |o: &FileOutcome| {
            let e = o.energy;
            [e.read, e.write, e.rotation, e.seek, e.idle, e.standby, e.total, at_work(o)]
        };
        let ffs = parts(&c.outcomes[0]);
        let joules = ffs.iter().map(|j| format!("{j:.1} J").into());
        table = table.row(std::iter::once(format!("{}, FFS", c.name).into()).chain(joules));
        for (o, (_, name)) in c.outcomes.iter().zip(SYSTEMS).skip(1) {
            let changes = parts(o).into_iter().zip(ffs).map(|(new, old)| percent(new, old).into());
            let name = format!("{}, {name}", c.name).into();
            table = table.row(std::iter::once(name).chain(changes));
        }
        if let Some(p) = c.paper {
            let [read, write, rotation, seek, idle, total] = p.energy.map(|v| format!("{v:+.1} %"));
            let cells = [read, write, rotation, seek, idle, "-".to_owned(), total, "-".to_owned()];
            let name = format!("{}, EEFS in the paper", c.name).into();
            table = table.row(std::iter::once(name).chain(cells.into_iter().map(Into::into)));
        }
    }
    table.note("Hours of a day are fitted, so that FFS's disk works for the share of the time that the paper's changes imply.")
}

pub(super) fn times(all: &[Compared]) -> Table {
    let table = Table::of("Figure 6: response times, and hits of the cache", rows(all))
        .text("", |(c, _, _, name)| format!("{}, {name}", c.name))
        .right("open", |(_, _, o, _)| format!("{:.3} ms", o.open_ms))
        .right("read", |(_, _, o, _)| format!("{:.3} ms", o.read_ms))
        .right("write", |(_, _, o, _)| format!("{:.3} ms", o.write_ms))
        .right("hits", |(_, _, o, _)| share(o.hits))
        .right("paper: hits", |(c, i, ..)| {
            let paper = c.paper.and_then(|p| p.hits).and_then(|h| match i {
                0 => Some(h[0]),
                2 => Some(h[1]),
                _ => None,
            });
            paper.map_or("-".to_owned(), |h| format!("{h:.1} %"))
        })
        .right("spin-downs", |(_, _, o, _)| o.spin_downs.to_string())
        .done();
    table.note("The paper says up to 21% less for INS and RES, and prints no numbers. Requests without disk I/O take no time here. With --spin-down, shuffles and the group store's commits wait while the disk sleeps; the fast file system's delayed writes, alone or beside the groups, do not wait.")
}

pub(super) fn groups(all: &[Compared]) -> Table {
    let names = [
        "shuffles", "before", "after", "stable", "size", "left", "joined", "came", "went",
        "grouped", "used", "in 1 s", "in 5 min",
    ];
    let columns = std::iter::once(Column::text(""));
    let mut table = Table::new(
        "Table 2 and Figure 5: groups",
        columns.chain(names.iter().map(|n| column(n))).collect(),
    );
    for c in all {
        let Some(g) = c.outcomes.iter().find_map(|o| o.grouping) else { continue };
        table = table.row(
            [
                c.name.clone(),
                g.shuffles.to_string(),
                format!("{:.0}", g.changes[0]),
                format!("{:.0}", g.changes[1]),
                format!("{:.0}", g.changes[2]),
                format!("{:.1}", g.changes[3]),
                share(g.changes[4]),
                share(g.changes[5]),
                g.arrived.to_string(),
                g.returned.to_string(),
                share(g.grouped_opens),
                share(g.used_after_first),
                share(g.at_once),
                share(g.within_five_minutes),
            ]
            .map(Into::into),
        );
        if let Some(p) = c.paper
            && let (Some(t), Some(f)) = (p.groups, p.figure5)
        {
            let dash = || "-".to_owned();
            table = table.row(
                [
                    format!("{}, paper", c.name),
                    dash(),
                    t[0].to_string(),
                    t[1].to_string(),
                    t[2].to_string(),
                    t[3].to_string(),
                    format!("{} %", t[4]),
                    format!("{} %", t[5]),
                    dash(),
                    dash(),
                    "70 to 89 %".to_owned(),
                    dash(),
                    format!("{} %", f[0]),
                    format!("{} %", f[1]),
                ]
                .map(Into::into),
            );
        }
    }
    table.note("Groups before and after a shuffle, means over all shuffles. Stable: at most a quarter of the files in either group are not in both. Left and joined: shares of the files in groups; came and went: files moved. Grouped: share of all opens. Used: share of a group's other files until the next shuffle. The days are fitted to the paper's two shares, taken for the shares used at once and within five minutes.")
}
