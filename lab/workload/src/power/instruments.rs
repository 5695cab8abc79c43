//! Instruments: the processors' own counters (RAPL, by Linux's powercap), sensors (hwmon),
//! batteries, and any program that prints watts. Each instrument reads below a given folder, so
//! that tests can use their own folder.

use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Basis, Meter, Reading, Source};

fn number(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn word(path: &Path) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

/// The folders in a folder, ordered by name.
fn below(root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let mut all: Vec<_> = entries.map(|e| e.path()).collect();
    all.sort();
    all
}

/// Converts instruments to meters.
pub(super) fn boxed<M: Meter + 'static>(all: Vec<M>) -> Vec<Box<dyn Meter>> {
    all.into_iter().map(|m| Box::new(m) as Box<dyn Meter>).collect()
}

pub(super) fn auto() -> Vec<Box<dyn Meter>> {
    let found = boxed(Rapl::all());
    let found = if found.is_empty() { boxed(Hwmon::all()) } else { found };
    if found.is_empty() { boxed(Battery::all()) } else { found }
}

/// A RAPL zone: a package or its DRAM. Its counter of microjoules wraps at a limit.
#[derive(Debug)]
pub(super) struct Rapl {
    folder: PathBuf,
    name: String,
    range: u64,
    last: Option<u64>,
    joules: f64,
}

impl Rapl {
    /// All packages and their DRAM on this host. Empty if there are none or they cannot be read.
    pub(super) fn all() -> Vec<Self> {
        Self::below(Path::new("/sys/class/powercap"))
    }

    /// The same below another folder. Cores and graphics are parts of a package and are left out.
    pub(super) fn below(root: &Path) -> Vec<Self> {
        let zone = |folder: PathBuf| {
            let file = folder.file_name()?.to_str()?.to_owned();
            let part = word(&folder.join("name"))?;
            let is_one =
                file.starts_with("intel-rapl:") && (part.starts_with("package") || part == "dram");
            number(&folder.join("energy_uj")).filter(|_| is_one)?;
            let range = number(&folder.join("max_energy_range_uj")).unwrap_or(u64::MAX);
            // The DRAM zones of all packages have the same name, so add the package.
            let of = file.split(':').nth(1).unwrap_or_default();
            let name =
                if part == "dram" { format!("rapl:dram-{of}") } else { format!("rapl:{part}") };
            Some(Self { folder, name, range, last: None, joules: 0.0 })
        };
        below(root).into_iter().filter_map(zone).collect()
    }
}

impl Meter for Rapl {
    fn source(&self) -> Source {
        let by = "the processor's energy counter (RAPL)".to_owned();
        Source { name: self.name.clone(), basis: Basis::Measured, by }
    }

    fn read(&mut self) -> Option<Reading> {
        let now = number(&self.folder.join("energy_uj"))?;
        if let Some(last) = self.last {
            let more =
                if now >= last { now - last } else { (self.range - last.min(self.range)) + now };
            self.joules += more as f64 * 1e-6;
        }
        self.last = Some(now);
        Some(Reading::Joules(self.joules))
    }
}

/// A power sensor of the hardware monitor, in microwatts.
#[derive(Debug)]
pub(super) struct Hwmon {
    file: PathBuf,
    name: String,
}

impl Hwmon {
    /// All sensors of this host.
    pub(super) fn all() -> Vec<Self> {
        Self::below(Path::new("/sys/class/hwmon"))
    }

    /// The same below another folder.
    pub(super) fn below(root: &Path) -> Vec<Self> {
        let mut all = Vec::new();
        for folder in below(root) {
            let chip = word(&folder.join("name")).unwrap_or_else(|| "unnamed".to_owned());
            for file in below(&folder) {
                let Some(name) = file.file_name().and_then(|n| n.to_str()) else { continue };
                let number_of = name.strip_prefix("power").and_then(|n| n.split_once('_'));
                let Some((n, "input" | "average")) = number_of else { continue };
                if number(&file).is_some() {
                    let label = word(&folder.join(format!("power{n}_label")));
                    let name =
                        format!("hwmon:{chip}:{}", label.unwrap_or_else(|| format!("power{n}")));
                    all.push(Self { file, name });
                }
            }
        }
        all
    }
}

impl Meter for Hwmon {
    fn source(&self) -> Source {
        let by = format!("the sensor {}", self.file.display());
        Source { name: self.name.clone(), basis: Basis::Measured, by }
    }

    fn read(&mut self) -> Option<Reading> {
        Some(Reading::Watts(number(&self.file)? as f64 * 1e-6))
    }
}

/// A battery that is being discharged; it gives the power of the whole machine.
#[derive(Debug)]
pub(super) struct Battery {
    folder: PathBuf,
}

impl Battery {
    /// All batteries of this host that report their power.
    pub(super) fn all() -> Vec<Self> {
        Self::below(Path::new("/sys/class/power_supply"))
    }

    /// The same below another folder.
    pub(super) fn below(root: &Path) -> Vec<Self> {
        let is_one = |f: &PathBuf| word(&f.join("type")).is_some_and(|t| t == "Battery");
        let all = below(root).into_iter().filter(is_one).map(|folder| Self { folder });
        all.filter(|b| b.watts().is_some()).collect()
    }

    fn watts(&self) -> Option<f64> {
        let of = |name: &str| number(&self.folder.join(name)).map(|n| n as f64 * 1e-6);
        of("power_now").or_else(|| Some(of("current_now")? * of("voltage_now")?))
    }
}

impl Meter for Battery {
    fn source(&self) -> Source {
        let name =
            self.folder.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let by = "the battery's own reading".to_owned();
        Source { name: format!("battery:{name}"), basis: Basis::Measured, by }
    }

    fn read(&mut self) -> Option<Reading> {
        // With mains power, a battery reports its charging power.
        let empties = word(&self.folder.join("status")).is_some_and(|s| s == "Discharging");
        self.watts().filter(|_| empties).map(Reading::Watts)
    }
}

/// A program that prints a number of watts per line, about once a second: IPMI, a serial meter, a
/// smart plug.
#[derive(Debug)]
pub(super) struct CommandMeter {
    command: String,
    child: Child,
    /// The bits of the last number; NaN before the first.
    last: Arc<AtomicU64>,
}

impl CommandMeter {
    /// Starts the program with the shell.
    pub(super) fn start(command: &str) -> io::Result<Self> {
        if command.trim().is_empty() {
            return Err(io::Error::other("the command is empty"));
        }
        let mut child = Command::new("/bin/sh")
            .args(["-c", &format!("exec {command}")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let last = Arc::new(AtomicU64::new(f64::NAN.to_bits()));
        if let Some(out) = child.stdout.take() {
            let last = Arc::clone(&last);
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    let watts = line.trim().trim_end_matches(['W', 'w', ' ']).parse::<f64>();
                    let sound = |w: &f64| w.is_finite() && *w >= 0.0;
                    if let Some(watts) = watts.ok().filter(sound) {
                        last.store(watts.to_bits(), Ordering::Relaxed);
                    }
                }
                last.store(f64::NAN.to_bits(), Ordering::Relaxed);
            });
        }
        Ok(Self { command: command.to_owned(), child, last })
    }
}

impl Drop for CommandMeter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Meter for CommandMeter {
    fn source(&self) -> Source {
        let by = format!("the output of '{}'", self.command);
        Source { name: "command".to_owned(), basis: Basis::Measured, by }
    }

    fn read(&mut self) -> Option<Reading> {
        let watts = f64::from_bits(self.last.load(Ordering::Relaxed));
        watts.is_finite().then_some(Reading::Watts(watts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn rapl_counts_packages_and_dram_and_wraps() {
        let dir = tree(&[
            ("intel-rapl:0/name", "package-0\n"),
            ("intel-rapl:0/energy_uj", "999000000\n"),
            ("intel-rapl:0/max_energy_range_uj", "1000000000\n"),
            ("intel-rapl:0:0/name", "core\n"),
            ("intel-rapl:0:0/energy_uj", "5\n"),
            ("intel-rapl:0:1/name", "dram\n"),
            ("intel-rapl:0:1/energy_uj", "7000000\n"),
            ("intel-rapl/enabled", "1\n"),
            ("intel-rapl-mmio:0/name", "package-0\n"),
            ("intel-rapl-mmio:0/energy_uj", "1\n"),
        ]);
        let mut zones = Rapl::below(dir.path());
        let names: Vec<_> = zones.iter().map(|z| z.source().name).collect();
        assert_eq!(names, ["rapl:package-0", "rapl:dram-0"]);
        assert_eq!(zones[0].read(), Some(Reading::Joules(0.0)));
        std::fs::write(dir.path().join("intel-rapl:0/energy_uj"), "2000000\n").unwrap();
        assert_eq!(
            zones[0].read(),
            Some(Reading::Joules(3.0)),
            "one joule up to the limit, two after it"
        );
        std::fs::remove_file(dir.path().join("intel-rapl:0/energy_uj")).unwrap();
        assert_eq!(zones[0].read(), None);
        assert!(Rapl::below(Path::new("/nonexistent")).is_empty());
    }

    #[test]
    fn sensors_and_batteries() {
        let dir = tree(&[
            ("hwmon0/name", "ina3221\n"),
            ("hwmon0/power1_input", "1500000\n"),
            ("hwmon0/power1_label", "board\n"),
            ("hwmon0/temp1_input", "40000\n"),
            ("hwmon1/name", "acpi\n"),
            ("hwmon1/power2_average", "250000\n"),
        ]);
        let mut all = Hwmon::below(dir.path());
        let names: Vec<_> = all.iter().map(|z| z.source().name).collect();
        assert_eq!(names, ["hwmon:ina3221:board", "hwmon:acpi:power2"]);
        assert_eq!(all[0].read(), Some(Reading::Watts(1.5)));
        let dir = tree(&[
            ("AC/type", "Mains\n"),
            ("BAT0/type", "Battery\n"),
            ("BAT0/status", "Discharging\n"),
            ("BAT0/current_now", "2000000\n"),
            ("BAT0/voltage_now", "11000000\n"),
        ]);
        let mut all = Battery::below(dir.path());
        assert_eq!((all.len(), all[0].read()), (1, Some(Reading::Watts(22.0))));
        std::fs::write(dir.path().join("BAT0/status"), "Charging\n").unwrap();
        assert_eq!(all[0].read(), None);
    }

    #[test]
    fn a_command_prints_watts() {
        let mut meter = CommandMeter::start("sh -c 'echo junk; echo 12.5 W; sleep 20'").unwrap();
        let begun = std::time::Instant::now();
        let reading = loop {
            match meter.read() {
                None if begun.elapsed().as_secs() < 10 => std::thread::yield_now(),
                reading => break reading,
            }
        };
        assert_eq!(reading, Some(Reading::Watts(12.5)));
        assert_eq!(meter.source().basis, Basis::Measured);
    }
}
