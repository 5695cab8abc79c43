//! Tables 1 to 3, and the numbers behind Figures 5 and 6.

use seekless_report::{Column, Table};
use seekless_trace::FileOp;

use super::experiments::{Compared, SYSTEMS, at_work, part_of};
use super::replay::FileOutcome;
use crate::synth::{FILE_DAYS, FilePlay};

pub(super) fn column(name: &str) -> Column {
    Column::text(name).right()
}

pub(super) fn percent(new: f64, old: f64) -> String {
    if old == 0.0 { "-".to_owned() } else { format!("{:+.1} %", (new / old - 1.0) * 100.0) }
}

pub(super) fn table1(scale: f64, seed: u64) -> Table {
    let names = [
        "",
        "requests",
        "paper",
        "read MB",
        "paper",
        "written MB",
        "paper",
        "files",
        "below 16 KiB",
        "paper",
    ];
    let mut table = Table::new(
        "Table 1: the days",
        names.iter().map(|n| if n.is_empty() { Column::text("") } else { column(n) }).collect(),
    );
    for day in &FILE_DAYS {
        let part = part_of(day, scale);
        let mut play = FilePlay::new(*day, part, seed);
        let [requests, read, written] = play.by_ref().fold([0u64; 3], |[n, r, w], e| match e.op {
            FileOp::Read => [n + 1, r + e.len, w],
            FileOp::Write => [n + 1, r, w + e.len],
            _ => [n + 1, r, w],
        });
        let mb = |bytes: u64| format!("{:.0}", bytes as f64 / f64::from(1 << 20));
        let small = play.files().iter().filter(|f| f.size < 16_384).count() as f64;
        table = table.row([
            day.name.into(),
            requests.to_string().into(),
            format!("{:.0}", day.requests as f64 * part).into(),
            mb(read).into(),
            format!("{:.0}", day.read_mb * part).into(),
            mb(written).into(),
            format!("{:.0}", day.written_mb * part).into(),
            play.files().len().to_string().into(),
            format!("{:.1} %", small / play.files().len() as f64 * 100.0).into(),
            format!("{:.1} %", day.small * 100.0).into(),
        ]);
    }
    table.note(format!("The paper's requests and megabytes times {scale} (the light day: at least 0.2). Made up to match."))
}

/// FFS alone beside the paper: the numbers to which the days are fitted.
pub(super) fn fit(all: &[Compared], scale: f64) -> Table {
    let names = ["requests", "paper", "hits", "paper", "name cache", "paper", "busy", "paper"];
    let columns = std::iter::once(Column::text(""));
    let mut table =
        Table::new("The fit: FFS alone", columns.chain(names.iter().map(|n| column(n))).collect());
    let share = |v: f64| format!("{:.1} %", v * 100.0);
    for (c, day) in all.iter().zip(&FILE_DAYS) {
        let (Some(paper), [ffs, ..]) = (c.paper, &c.outcomes[..]) else { continue };
        let printed = paper.requests[0] as f64 * part_of(day, scale);
        table = table.row(
            [
                c.name.clone(),
                (ffs.disk_reads + ffs.disk_writes).to_string(),
                format!("{printed:.0}"),
                share(ffs.hits),
                paper.hits.map_or("-".to_owned(), |h| format!("{} %", h[0])),
                share(ffs.name_hits),
                "70 %".to_owned(),
                share(ffs.busy),
                share(paper.busy()),
            ]
            .map(Into::into),
        );
    }
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

/// Requests by cause: all, or per `of_opens` opens of files.
pub(super) fn causes(all: &[Compared], of_opens: f64) -> Table {
    let names = [
        "inodes", "names", "data", "inodes", "names", "data", "groups", "groups", "log", "moving",
        "moving", "all",
    ];
    let kinds = [
        "read", "read", "read", "written", "written", "written", "read", "written", "written",
        "read", "written", "",
    ];
    let columns = std::iter::once(Column::text(""));
    let names = names.iter().zip(kinds).map(|(name, kind)| column(format!("{name} {kind}").trim()));
    let per = of_opens > 0.0;
    let title =
        if per { "The same, per 1,000 opens of files" } else { "Requests of the disk, by cause" };
    let mut table = Table::new(title, columns.chain(names).collect());
    for c in all {
        for (o, (_, name)) in c.outcomes.iter().zip(SYSTEMS) {
            let n = o.causes;
            let counts = [
                n.inodes_read,
                n.names_read,
                n.data_read,
                n.inodes_written,
                n.names_written,
                n.data_written,
                n.groups_read,
                n.groups_written,
                n.log_written,
                n.moves_read,
                n.moves_written,
                o.disk_reads + o.disk_writes,
            ];
            let cells = counts.map(|n| {
                let share = n as f64 * of_opens / o.opens.max(1) as f64;
                if per { format!("{share:.1}") } else { n.to_string() }.into()
            });
            table = table.row(std::iter::once(format!("{}, {name}", c.name).into()).chain(cells));
        }
    }
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
    let rows = all.iter().flat_map(|c| {
        let outcomes = c.outcomes.iter().zip(SYSTEMS).enumerate();
        outcomes.map(move |(i, (o, (_, name)))| (c, i, o, name))
    });
    let table = Table::of("Figure 6: response times, and hits of the cache", rows)
        .text("", |(c, _, _, name)| format!("{}, {name}", c.name))
        .right("open", |(_, _, o, _)| format!("{:.3} ms", o.open_ms))
        .right("read", |(_, _, o, _)| format!("{:.3} ms", o.read_ms))
        .right("write", |(_, _, o, _)| format!("{:.3} ms", o.write_ms))
        .right("hits", |(_, _, o, _)| format!("{:.1} %", o.hits * 100.0))
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
        let share = |v: f64| format!("{:.1} %", v * 100.0);
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
    table.note("Groups before and after a shuffle, means over all shuffles. Stable: at most a quarter of the files in either group are not in both. Left and joined: shares of the files in groups; came and went: files moved. Grouped: share of all opens. Used: share of a group's other files until the next shuffle. The paper's numbers for this may be shares at once and within five minutes.")
}
