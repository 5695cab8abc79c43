//! Which room may use which: the one table. ARCHITECTURE.md carries it as `cargo xtask arrows`
//! prints it.

use std::fmt::Write as _;

use crate::repo::{Finding, Repo};

pub(crate) struct Room {
    /// The group of rooms: a folder at the repository's root.
    pub(crate) group: &'static str,
    pub(crate) name: &'static str,
    /// Whether it may not touch a clock, a thread, a socket or a file.
    pub(crate) pure: bool,
    /// The rooms it may use, in tests too.
    uses: &'static str,
}

impl Room {
    /// Its folder, from the repository's root.
    pub(crate) fn folder(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }

    fn uses(&self) -> impl Iterator<Item = &'static str> {
        self.uses.split_whitespace()
    }

    /// [`Self::uses`] in words.
    fn may_use(&self) -> String {
        if self.uses.is_empty() { "none of ours".to_owned() } else { self.uses.replace(' ', ", ") }
    }
}

/// Each group, and the groups whose rooms its rooms may use.
#[cfg(test)]
const GROUPS: &[(&str, &[&str])] = &[
    ("base", &["base"]),
    ("files", &["base", "files"]),
    ("volume", &["base", "volume"]),
    ("watch", &["base", "watch"]),
    ("lab", &["base", "files", "volume", "lab"]),
    ("bin", &["base", "files", "volume", "watch", "lab", "bin"]),
];

const fn room(group: &'static str, name: &'static str, pure: bool, uses: &'static str) -> Room {
    Room { group, name, pure, uses }
}

/// From the bottom to the top: a room uses only rooms above it in this list.
pub(crate) const ROOMS: &[Room] = &[
    room("base", "block", true, ""),
    room("base", "nbd", true, ""),
    room("base", "trace", false, "block"),
    room("base", "disk", true, "block"),
    room("base", "report", false, "block"),
    room("base", "host", false, "block"),
    room("files", "store", true, "block"),
    room("files", "mount", false, "block disk host store"),
    room("watch", "jobs", true, "block"),
    room("watch", "daemon", false, "block report host jobs"),
    room("volume", "learn", true, "block"),
    room("volume", "engine", true, "block learn"),
    room("volume", "sim", true, "block disk learn engine"),
    room("volume", "compare", false, "block trace disk learn engine sim"),
    room("volume", "serve", false, "block nbd trace disk host learn engine sim"),
    room("lab", "workload", false, "block report host serve"),
    room("lab", "papers", false, "block trace disk report learn store engine sim compare serve"),
    room("bin", "cli", false, "block trace disk report sim compare"),
    room("bin", "python", false, "block trace disk learn compare"),
    room(
        "bin",
        "seekless",
        false,
        "block nbd trace disk report host store mount daemon learn engine sim compare serve cli",
    ),
    room(
        "bin",
        "seekless-lab",
        false,
        "block trace disk report learn engine sim compare serve workload papers cli",
    ),
];

const DOCUMENT: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- arrows: written by `cargo xtask arrows` -->";
const END: &str = "<!-- end of arrows -->";

/// The table as ARCHITECTURE.md carries it, marks included.
pub(crate) fn table() -> String {
    let mut out = format!("{BEGIN}\n| room | pure | may use |\n|:--|:--|:--|\n");
    for room in ROOMS {
        let pure = if room.pure { "yes" } else { "" };
        let _ = writeln!(out, "| {} | {pure} | {} |", room.folder(), room.may_use());
    }
    out + END + "\n"
}

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut found: Vec<Finding> = repo
        .packages
        .iter()
        .filter(|p| p.ours && p.name != "xtask")
        .flat_map(|p| package(&p.name, &p.dependencies))
        .collect();
    match repo.text(DOCUMENT) {
        None => found.push(Finding::new(DOCUMENT, "is missing; it must carry `cargo xtask arrows`")),
        Some(text) if !text.contains(&table()) => found.push(Finding::new(
            DOCUMENT,
            format!("must carry the table of rooms, from `{BEGIN}` on, as `cargo xtask arrows` prints it"),
        )),
        Some(_) => {}
    }
    found
}

fn room_of(package: &str) -> Option<&str> {
    match package {
        "seekless" | "seekless-lab" => Some(package),
        _ => package.strip_prefix("seekless-"),
    }
}

fn package(name: &str, dependencies: &[String]) -> Vec<Finding> {
    let Some(room) = room_of(name).and_then(|n| ROOMS.iter().find(|r| r.name == n)) else {
        let text = "is not in the table of rooms in xtask/src/rules/arrows.rs; add it";
        return vec![Finding::new(name, text)];
    };
    dependencies
        .iter()
        .filter_map(|d| room_of(d))
        .filter(|used| room.uses().all(|u| u != *used))
        .map(|used| {
            Finding::new(name, format!("may not use {used}; it may use {}", room.may_use()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::Package;

    fn ours(name: &str, dependencies: &[&str]) -> Package {
        let dependencies = dependencies.iter().map(|&d| d.to_owned()).collect();
        Package { name: name.to_owned(), ours: true, dependencies, ..Package::default() }
    }

    #[test]
    fn the_table_points_one_way() {
        for (i, room) in ROOMS.iter().enumerate() {
            for used in room.uses() {
                assert!(ROOMS[..i].iter().any(|r| r.name == used), "{} uses {used}", room.name);
            }
            let group = |name: &str| ROOMS.iter().find(|r| r.name == name).map(|r| r.group);
            let allowed = GROUPS.iter().find(|g| g.0 == room.group).map(|g| g.1);
            for used in room.uses() {
                let of = group(used);
                assert!(
                    allowed.is_some_and(|all| of.is_some_and(|g| all.contains(&g))),
                    "{} uses {used} of another product",
                    room.name
                );
            }
            let impure = ROOMS.iter().find(|r| !r.pure && room.uses().any(|u| u == r.name));
            assert!(!room.pure || impure.is_none(), "{} is pure", room.name);
        }
    }

    #[test]
    fn an_arrow_upwards_or_an_unknown_room_is_found() {
        let mut repo = Repo::of(&[(DOCUMENT, &format!("# House\n\n{}\nMore.\n", table()))]);
        repo.packages = vec![
            ours("seekless-engine", &["seekless-block", "seekless-learn", "serde"]),
            ours("seekless", &["seekless-report", "seekless-serve"]),
            ours("xtask", &["anyhow"]),
        ];
        assert_eq!(check(&repo), []);
        repo.packages = vec![ours("seekless-engine", &["seekless-disk"])];
        assert_eq!(check(&repo)[0].text, "may not use disk; it may use block, learn");
        repo.packages = vec![ours("seekless-nbd", &["seekless-block"])];
        assert_eq!(check(&repo).len(), 1);
        repo.packages =
            vec![ours("seekless-report", &["seekless-engine"]), ours("seekless-attic", &[])];
        assert_eq!(check(&repo).len(), 2);
        repo.packages = vec![Package { ours: false, ..ours("seekless-attic", &[]) }];
        assert_eq!(check(&repo), []);
    }

    #[test]
    fn a_document_out_of_step_is_found() {
        assert_eq!(check(&Repo::of(&[])).len(), 1);
        let stale =
            table().replace("engine | yes | block, learn |", "engine | yes | block, learn, disk |");
        assert_ne!(stale, table());
        assert_eq!(check(&Repo::of(&[(DOCUMENT, &stale)])).len(), 1);
    }
}
