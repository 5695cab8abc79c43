//! The units of systemd for an adopted disk: the templates of packaging/systemd, for one name.

use std::path::{Component, Path, PathBuf};
use std::process::Command;

use seekless_host::{Users, quoted};
use serde::{Deserialize, Serialize};

use super::fstab::Entry;
use super::record::Record;
use super::{AdoptError, file, refused};

const FILE_UNIT: &str = include_str!("../../../../packaging/systemd/seekless-file@.service");
const LOOP_UNIT: &str = include_str!("../../../../packaging/systemd/seekless-loop@.service");
const UBLK_UNIT: &str = include_str!("../../../../packaging/systemd/seekless-ublk@.service");
/// The script of the unit for ublk. Each adoption has its own: the package need not be installed, and
/// after an upgrade the script still fits the unit.
const SCRIPT: &str = include_str!("../../../../packaging/systemd/ublk-mounts");
const UNITS: &str = "/etc/systemd/system";
/// The targets that start a volume: the folder of their links, and the words in a unit.
const USUAL: (&str, &str) = ("multi-user.target.wants", "WantedBy=multi-user.target");
const LOCAL: (&str, &str) = ("local-fs.target.requires", "RequiredBy=local-fs.target");
const LOCAL_OR_NONE: (&str, &str) = ("local-fs.target.wants", "WantedBy=local-fs.target");
/// Names in the templates, which the units of an adoption replace.
const PROGRAM: &str = "/usr/local/bin/seekless";
const SCRIPT_PATH: &str = "/usr/local/libexec/seekless/ublk-mounts";
const AREA: &str = "--area-dir ${STATE_DIRECTORY}";
/// An adopted volume has its own place for the area; systemd would leave this folder behind.
const STATE: &str = "StateDirectory=seekless/%i\nStateDirectoryMode=0700\n";
const NEEDS: &str = "RequiresMountsFor=/var/lib/seekless /run/seekless";
/// The command after the one that runs when the server of a ublk device has started.
const RELOAD: &str = "ExecReload=";
/// The mount of the server's file; systemd escapes a `-` in the name of a disk.
const SERVED: &str = "run-seekless-%i-disk.mount";
/// Longest name of an adoption: it is part of file names and of a unit's name.
const NAME_MOST: usize = 64;

/// What systemd, the shell of the units and the server need before any mount.
const OWN: &[&str] = &[
    "/bin/sh",
    "/etc/seekless",
    "/etc/systemd/system",
    "/lib/modules",
    "/lib/systemd",
    "/run/seekless",
    "/sbin/modprobe",
    "/usr/bin/sh",
    "/usr/lib/modules",
    "/usr/lib/systemd",
    "/usr/sbin/modprobe",
    "/var/lib/seekless",
];

/// This name has settings of another unit: /etc/seekless/watch.conf.
const WATCH: &str = "watch";

/// A path of the system below another root.
pub(super) fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Refuses a folder that a link leads out of the root: it belongs to the system that runs.
pub(super) fn check_stays(root: &Path, folder: &Path) -> Result<(), AdoptError> {
    let top = root.canonicalize().map_err(file(root, "find it"))?;
    // What does not exist will be made in the folder above.
    let found = folder.ancestors().find_map(|folder| below(root, folder).canonicalize().ok());
    if found.is_none_or(|found| found.starts_with(&top)) {
        return Ok(());
    }
    Err(refused(&below(root, folder), "a link leads out of the root on the way to it"))
}

/// A path of this system as the system below this root sees it. The root has no links.
pub(super) fn seen(root: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(root).map_or_else(|_| path.to_owned(), |rest| Path::new("/").join(rest))
}

/// Where the served disk is mounted, and by which unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mounted {
    pub(super) dir: PathBuf,
    pub(super) unit: String,
    kind: Option<String>,
    options: Option<String>,
    /// Its line of /etc/fstab keeps the machine from starting without this mount.
    #[serde(default)]
    required: bool,
}

impl Mounted {
    /// Mounted on this directory, as the line of /etc/fstab says.
    pub(super) fn at(dir: &Path, entry: Option<&Entry>) -> Result<Self, AdoptError> {
        entry.map_or(Ok(()), Entry::check)?;
        check_path(dir)?;
        if dir == Path::new("/") {
            return Err(refused(
                dir,
                "cannot be mounted by seekless: the server itself starts from this directory",
            ));
        }
        if dir.exists() && !dir.is_dir() {
            return Err(refused(dir, "is no folder; name a folder to mount on"));
        }
        // The unit mounts a loop device: no second one above it.
        let words = |e: &Entry| {
            let words = e.options.split(',').filter(|o| *o != "loop");
            words.collect::<Vec<_>>().join(",")
        };
        let options = entry.map(words).filter(|o| !o.is_empty());
        let kind = entry.map(|e| e.kind.clone()).filter(|k| k != "auto");
        for text in options.iter().chain(&kind) {
            check(text, Path::new("/etc/fstab"))?;
        }
        let unit = format!("{}.mount", escaped(dir));
        let required = entry.is_some_and(Entry::is_required);
        Ok(Self { dir: dir.to_owned(), unit, kind, options, required })
    }

    /// Whether it comes after the network, by the option of its line.
    pub(super) fn waits_for_network(&self) -> bool {
        self.options.as_deref().is_some_and(|all| all.split(',').any(|o| o == "_netdev"))
    }

    /// The target that starts the mount, and how: as the line of /etc/fstab says. An area on a device
    /// of its own may die alone, and then the machine starts without the mount.
    fn start(&self, area_is_device: bool) -> (&'static str, &'static str) {
        match (self.required, area_is_device) {
            (true, false) => LOCAL,
            (true, true) => LOCAL_OR_NONE,
            (false, _) => USUAL,
        }
    }
}

pub(super) fn name_of(backing: &Path) -> String {
    let stem = if backing.starts_with("/dev") { backing.file_name() } else { backing.file_stem() };
    let text = stem.unwrap_or_default().to_string_lossy();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    let name: String =
        text.chars().map(|c| if fits(c) { c } else { '_' }).take(NAME_MOST).collect();
    match name.trim_start_matches('.') {
        "" => "disk".to_owned(),
        WATCH => format!("{WATCH}_"),
        name => name.to_owned(),
    }
}

pub(super) fn check_name(name: &str) -> Result<(), AdoptError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let good = !name.is_empty() && name.len() <= NAME_MOST && name.chars().all(fits);
    if name == WATCH {
        let why = "is the name of the settings of seekless-watch.service; give another --name";
        return Err(refused(Path::new(name), why));
    }
    if good && !name.starts_with(['.', '-']) {
        return Ok(());
    }
    let why = "cannot be the name of an adoption: use at most 64 letters, digits, '.', '_' and '-'";
    Err(refused(Path::new(name), why))
}

/// Refuses a path that means something else in a unit file.
pub(super) fn check_path(path: &Path) -> Result<(), AdoptError> {
    check(path.to_str().unwrap_or(" "), path)
}

/// Refuses a mount over files that the server needs before the mount.
pub(super) fn check_needed(path: &Path, mount: &Mounted) -> Result<(), AdoptError> {
    let dir = &mount.dir;
    let mut needed = [path].into_iter().chain(OWN.iter().map(Path::new));
    needed.find(|path| path.starts_with(dir)).map_or(Ok(()), |path| {
        let why = format!("holds {}, which the server needs before the mount", path.display());
        Err(refused(dir, why))
    })
}

fn check(text: &str, path: &Path) -> Result<(), AdoptError> {
    let odd = |c: &char| !(c.is_ascii_alphanumeric() || "/._-+:@,=".contains(*c));
    let Some(odd) = text.chars().find(odd) else { return Ok(()) };
    let why = format!(
        "has the character {odd:?}, which has another meaning in units of systemd; use another name, or a link without this character"
    );
    Err(refused(path, why))
}

/// A path as part of a unit's name: `/srv/my-data` is `srv-my\x2ddata`.
fn escaped(path: &Path) -> String {
    let parts = path.components().filter_map(|c| match c {
        Component::Normal(part) => part.to_str(),
        _ => None,
    });
    let escape = |part: &str| -> String {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '.');
        let one = |c: char| if fits(c) { c.to_string() } else { format!("\\x{:02x}", c as u32) };
        part.chars().map(one).collect()
    };
    let name = parts.map(escape).collect::<Vec<_>>().join("-");
    name.strip_prefix('.').map_or_else(|| name.clone(), |rest| format!("\\x2e{rest}"))
}

/// The folder of a running server.
pub(super) fn run_of(name: &str) -> PathBuf {
    Path::new("/run/seekless").join(name)
}

/// Needs of the server before it starts: mounts below files, and devices.
fn needs(record: &Record, program: &Path) -> String {
    let mut lines = format!("{NEEDS} {}", program.display());
    let (devices, files): (Vec<&PathBuf>, Vec<&PathBuf>) =
        [&record.backing, &record.area].into_iter().partition(|p| p.starts_with("/dev"));
    for path in files {
        lines += &format!(" {}", path.display());
    }
    for path in devices {
        let unit = format!("{}.device", escaped(path));
        lines += &format!("\nRequires={unit}\nAfter={unit}");
    }
    // The disk of such a mount may be on the network, which must outlive the server at a shutdown.
    if record.mount.as_ref().is_some_and(Mounted::waits_for_network) {
        lines += "\nAfter=network.target network-online.target remote-fs-pre.target";
    }
    lines
}

/// The links that start the volume with the machine, and where they lead.
pub(super) fn wanted(record: &Record) -> (PathBuf, PathBuf) {
    let unit = top(record);
    let units = Path::new(UNITS);
    let (folder, _) = record.mount.as_ref().map_or(USUAL, |m| m.start(record.area_is_device));
    (units.join(folder).join(&unit), units.join(&unit))
}

/// The unit that brings up all others: the mount, or the device.
fn top(record: &Record) -> String {
    record.mount.as_ref().map_or_else(|| device_unit(record), |m| m.unit.clone())
}

/// The unit of the block device. The server of a ublk device is this unit too.
pub(super) fn device_unit(record: &Record) -> String {
    let kind = if record.ublk.is_some() { "ublk" } else { "loop" };
    format!("seekless-{kind}@{}.service", record.name)
}

/// The unit of the server below a loop device.
fn file_unit(record: &Record) -> String {
    format!("seekless-file@{}.service", record.name)
}

/// The files of an adoption, and their texts.
pub(super) fn texts(record: &Record, program: &Path, serve: &[String]) -> Vec<(PathBuf, String)> {
    let Record { name, backing, area, .. } = record;
    let by = format!(
        "# Made by `seekless adopt`; `seekless release {name}` removes it. Changes made here are lost then.\n"
    );
    let number = record.ublk.map_or_else(String::new, |number| format!("UBLK={number}\n"));
    let settings = format!(
        "{by}BACKING={}\nAREA={}\n{number}# Any other option of `seekless serve`\nOPTIONS={}\n",
        backing.display(),
        area.display(),
        serve.join(" ")
    );
    let server = |template: &str| {
        template
            .replace(PROGRAM, &program.to_string_lossy())
            .replace(AREA, "--area ${AREA}")
            .replace(STATE, "")
            .replace(NEEDS, &needs(record, program))
    };
    let script = format!("/etc/seekless/{name}.sh");
    let made = if record.ublk.is_some() {
        let text = server(UBLK_UNIT)
            .replace(RELOAD, &format!("{}{RELOAD}", tried_again(record)))
            // The shell also reads it where programs may not be started from /etc.
            .replace(SCRIPT_PATH, &format!("/bin/sh {script}"));
        vec![(device_unit(record), text)]
    } else {
        let served = format!("{}.mount", escaped(&run_of(name).join("disk")));
        vec![
            (file_unit(record), server(FILE_UNIT).replace(SERVED, &served)),
            (device_unit(record), LOOP_UNIT.replace(SERVED, &served)),
        ]
    };
    let mount = record.mount.iter().map(|mount| (mount.unit.clone(), mount_unit(record, mount)));
    let units = made.into_iter().chain(mount);
    let units = units.map(|(unit, text)| (Path::new(UNITS).join(unit), format!("{by}{text}")));
    let settings = (PathBuf::from(format!("/etc/seekless/{name}.conf")), settings);
    // Behind its first line, which names the shell.
    let text = SCRIPT.replacen('\n', &format!("\n{by}"), 1);
    let script = record.ublk.map(|_| (PathBuf::from(script), text));
    [settings].into_iter().chain(script).chain(units).collect()
}

/// The command that mounts after a start of the server, if the mount has failed: systemd tries the
/// mount after the first start of the server alone, even if this start fails.
fn tried_again(record: &Record) -> String {
    record.mount.as_ref().map_or_else(String::new, |mount| {
        let dir = mount.dir.display();
        format!(
            "ExecStartPost=-/bin/sh -c 'if systemctl -q is-failed {dir}; then systemctl start --no-block {dir}; fi'\n"
        )
    })
}

/// The mount above the device: it stops before the device and the server do. A ublk device outlives
/// its server, which may be started again below the mount.
fn mount_unit(record: &Record, mount: &Mounted) -> String {
    let device = device_unit(record);
    let needs = if record.ublk.is_some() { "Wants" } else { "Requires" };
    let option = |key: &str, value: &Option<String>| {
        value.as_ref().map_or_else(String::new, |v| format!("{key}={v}\n"))
    };
    format!(
        "[Unit]\nDescription=seekless: {name} at {dir}\n{needs}={device}\nAfter={device}\n\n[Mount]\nWhat=/run/seekless/{name}/device\nWhere={dir}\n{}{}\n[Install]\n{}\n",
        option("Type", &mount.kind),
        option("Options", &mount.options),
        mount.start(record.area_is_device).1,
        name = record.name,
        dir = mount.dir.display(),
    )
}

/// The commands that start an adopted volume under systemd.
pub(super) fn starting(record: &Record) -> Vec<String> {
    vec!["systemctl daemon-reload".to_owned(), format!("systemctl start {}", quoted(&top(record)))]
}

/// The commands that stop it: file system, device, server.
pub(super) fn stopping(record: &Record) -> Vec<String> {
    stops(record).iter().map(|unit| format!("systemctl stop {}", quoted(unit))).collect()
}

fn stops(record: &Record) -> Vec<String> {
    let mount = record.mount.as_ref().map(|m| m.unit.clone());
    let below = record.ublk.is_none().then(|| file_unit(record));
    mount.into_iter().chain([device_unit(record)]).chain(below).collect()
}

/// The commands that the user types where systemd does not run.
pub(super) fn by_hand(record: &Record) -> Vec<String> {
    let Record { name, backing, area, mount, .. } = record;
    let serve = format!("seekless serve {} --area {}", backing.display(), area.display());
    let (mut lines, device) = if let Some(number) = record.ublk {
        let lines = vec!["modprobe ublk_drv".to_owned(), format!("{serve} --ublk {number} &")];
        (lines, format!("/dev/ublkb{number}"))
    } else {
        let disk = format!("/run/seekless/{name}/disk");
        let lines = vec![
            format!("mkdir -p -m 700 /run/seekless /run/seekless/{name}"),
            format!("{serve} --fuse {disk} &"),
            format!("losetup -f --show --direct-io=on {disk}"),
        ];
        (lines, "/dev/loopN".to_owned())
    };
    lines.extend(mount.as_ref().map(|m| format!("mount {device} {}", m.dir.display())));
    lines
}

/// The service manager of the system at a root.
#[derive(Debug)]
pub(super) struct Systemd {
    pub(super) root: PathBuf,
    pub(super) runs: bool,
}

impl Systemd {
    /// As sd_booted(3): systemd runs if its folder exists.
    pub(super) fn of(root: &Path) -> Result<Self, AdoptError> {
        if !root.is_dir() {
            return Err(refused(root, "is no folder; --root names the root of a system"));
        }
        let runs = below(root, Path::new("/run/systemd/system")).is_dir();
        Ok(Self { root: root.to_owned(), runs })
    }

    pub(super) fn at(&self, path: &Path) -> PathBuf {
        below(&self.root, path)
    }

    pub(super) fn reload(&self) -> Result<(), AdoptError> {
        Self::call(&["daemon-reload"])
    }

    /// Starts the volume. Returns when it is served, and mounted if that was asked for.
    pub(super) fn start(&self, record: &Record) -> Result<(), AdoptError> {
        self.reload()?;
        Self::call(&["start", &top(record)])
    }

    /// Stops the units that were written, the mount first. A mount in use ends it with an error. If an
    /// earlier release has removed a unit of the server, systemd may still have it, and start it again.
    /// A mount without its unit may be that of a line of /etc/fstab by now.
    pub(super) fn stop(&self, record: &Record, say: &dyn Fn(&str)) -> Result<(), AdoptError> {
        for unit in stops(record) {
            if self.at(&Path::new(UNITS).join(&unit)).exists() {
                Self::name_needing(&unit, say);
                Self::call(&["stop", &unit]).map_err(|e| name_users(e, &record.name))?;
            } else {
                Self::try_stop(&unit, say);
            }
        }
        Ok(())
    }

    /// Stops servers that were started while their units were removed: without an area they would try
    /// to start without end.
    pub(super) fn stop_tries(record: &Record, say: &dyn Fn(&str)) {
        stops(record).iter().for_each(|unit| Self::try_stop(unit, say));
    }

    /// Names the programs that stop with a mount, and that nobody starts again.
    fn name_needing(unit: &str, say: &dyn Fn(&str)) {
        if !unit.ends_with(".mount") {
            return;
        }
        let show = ["show", "-p", "RequiredBy", "-p", "BoundBy", "--value", unit];
        let output = Command::new("systemctl").args(show).output();
        let shown = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
        let shown = shown.unwrap_or_default();
        let needing = shown.split_whitespace().filter(|u| u.ends_with(".service"));
        let needing: Vec<&str> = needing.filter(|u| Self::may_be_at_work(u)).collect();
        if !needing.is_empty() {
            say(&format!("{unit} is stopped, and with it what needs it: {}", needing.join(", ")));
        }
    }

    /// Stops a unit of the server whose file is gone, if systemd still has it. This may take minutes.
    fn try_stop(unit: &str, say: &dyn Fn(&str)) {
        if unit.ends_with(".service") && Self::may_be_at_work(unit) {
            say(&format!("waits until systemd has stopped {unit}, whose file is gone"));
            // What counts is that it has ended, and not how.
            let _ = Self::call(&["stop", unit]);
        }
    }

    fn may_be_at_work(unit: &str) -> bool {
        let show = ["show", "-p", "ActiveState", "-p", "Job", unit];
        let output = Command::new("systemctl").args(show).output();
        output.map_or(true, |output| {
            !output.status.success() || is_at_work(&String::from_utf8_lossy(&output.stdout))
        })
    }

    fn call(args: &[&str]) -> Result<(), AdoptError> {
        let output = Command::new("systemctl").args(args).output();
        let output = output.map_err(file(Path::new("systemctl"), "run it"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim().replace('\n', "; ");
        Err(AdoptError::Systemd { command: format!("systemctl {}", args.join(" ")), said })
    }
}

/// Whether `systemctl show` says that a unit runs, or that systemd starts or stops it.
fn is_at_work(shown: &str) -> bool {
    shown.lines().filter_map(|line| line.split_once('=')).any(|(key, value)| match key {
        "ActiveState" => !["inactive", "failed"].contains(&value),
        // Such as one that waits for its disk.
        "Job" => !["", "0"].contains(&value),
        _ => false,
    })
}

/// Adds the users of the served disk to an error of systemd, which does not name them.
fn name_users(error: AdoptError, name: &str) -> AdoptError {
    let users = Users::of_file(&run_of(name).join("device"));
    match error {
        AdoptError::Systemd { command, said } if !users.is_empty() => {
            AdoptError::Systemd { command, said: format!("{said}. In use: {users}") }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests;
