//! A specification read from TOML: every error names line and column, the field, and the allowed
//! values.

use serde::Deserialize;
use toml::Spanned;

use super::{Cell, Combine, DeviceKind, DeviceSpec, StudySpec, WorkloadSpec};
use crate::config_text::{self, Amount, ConfigText, Parsed, TextError};
use crate::host::{FsKind, FsTable};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: Spanned<String>,
    #[serde(default)]
    about: String,
    #[serde(default)]
    seed: u64,
    least_runs: Option<Spanned<u32>>,
    most_runs: Option<Spanned<u32>>,
    half_width: Option<Spanned<f64>>,
    warm_up: Option<Spanned<f64>>,
    seconds: Spanned<f64>,
    idle: Option<Spanned<f64>>,
    power: Option<String>,
    memory: Option<Spanned<Amount>>,
    #[serde(default)]
    check: bool,
    #[serde(default)]
    combine: Combine,
    device: Vec<Spanned<RawDevice>>,
    workload: Vec<RawWorkload>,
    system: Vec<RawSystem>,
    #[serde(default)]
    filesystem: Vec<FsKind>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawKind {
    Loop,
    Block,
    Emulated,
    Served,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDevice {
    name: Spanned<String>,
    kind: RawKind,
    size: Option<Spanned<Amount>>,
    direct_io: Option<bool>,
    path: Option<String>,
    disk: Option<String>,
    scheduler: Option<String>,
    speed: Option<Spanned<f64>>,
    arguments: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWorkload {
    personality: Spanned<String>,
    name: Option<Spanned<String>>,
    scale: Option<Spanned<f64>>,
    threads: Option<Spanned<f64>>,
    #[serde(default)]
    rates: Vec<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSystem {
    filesystem: Spanned<String>,
    #[serde(default)]
    format: Vec<Spanned<String>>,
    #[serde(default)]
    mount: Vec<Spanned<String>>,
    #[serde(default)]
    default: Option<bool>,
    workloads: Option<Vec<Spanned<String>>>,
}

struct Reader<'a>(ConfigText<'a>);

impl StudySpec {
    /// Reads a specification.
    ///
    /// # Errors
    /// Line and column of the error, the field, and its allowed values.
    pub fn toml(file: &str, text: &str) -> Result<Self, TextError> {
        let raw: Raw = config_text::toml(file, text)?;
        let place = ConfigText { file, text };
        let r = Reader(place);
        let least_runs = place.within_or("least_runs", raw.least_runs, 5, 1..=1000)?;
        let most_runs = place.within_or("most_runs", raw.most_runs, least_runs.max(5), 1..=1000)?;
        if most_runs < least_runs {
            let what = format!("most_runs = {most_runs} is less than least_runs = {least_runs}");
            return place.refuse(0, what);
        }
        let mut kinds = FsTable::built_in()?;
        kinds.add(raw.filesystem);
        let name = r.name(&raw.name)?;
        let mut spec = Self {
            name,
            about: raw.about,
            seed: raw.seed,
            least_runs,
            most_runs,
            half_width: place.within_or("half_width", raw.half_width, 0.05, 0.0001..=10.0)?,
            warm_up_s: place.within_or("warm_up", raw.warm_up, 5.0, 0.0..=86_400.0)?,
            seconds: place.within("seconds", raw.seconds, 0.05..=604_800.0)?,
            idle_s: place.within_or("idle", raw.idle, 0.0, 0.0..=3600.0)?,
            power: raw.power.unwrap_or_else(|| "auto".to_owned()),
            memory: r.bytes("memory", raw.memory, 16 << 20)?,
            check: raw.check,
            devices: Vec::new(),
            workloads: Vec::new(),
            kinds,
            cells: Vec::new(),
        };
        for device in raw.device {
            let device = r.device(device, &spec.devices)?;
            spec.devices.push(device);
        }
        for workload in raw.workload {
            let workload = r.workload(workload, &spec.workloads)?;
            spec.workloads.push(workload);
        }
        let mut systems = Vec::new();
        for system in raw.system {
            let only = r.only(system.workloads.as_deref(), &spec.workloads)?;
            let cells = r.systems(system, raw.combine, &spec.kinds)?;
            systems.extend(cells.into_iter().map(|c| (c, only.clone())));
        }
        spec.multiply(&systems);
        if spec.cells.is_empty() {
            return place.refuse(0, "the matrix is empty: a study has at least one [[device]], [[workload]] and [[system]]");
        }
        let mut ids: Vec<_> = spec.cells.iter().map(Cell::id).collect();
        ids.sort();
        if let Some(twice) = ids.windows(2).find(|w| w[0] == w[1]) {
            return place.refuse(0, format!("'{}' is in the matrix twice", twice[0]));
        }
        Ok(spec)
    }
}

/// Cells of a system without device and workload, and the names of its workloads; `None` is all
/// workloads.
type SystemCells = Vec<(Cell, Option<Vec<String>>)>;

impl StudySpec {
    /// Every device with every workload and every system.
    fn multiply(&mut self, systems: &SystemCells) {
        let mut cells = Vec::new();
        for device in &self.devices {
            for workload in &self.workloads {
                for (system, only) in systems {
                    if only.as_ref().is_some_and(|o| !o.contains(&workload.name)) {
                        continue;
                    }
                    let cell = |rate| Cell {
                        device: device.name.clone(),
                        workload: workload.name.clone(),
                        rate,
                        ..system.clone()
                    };
                    cells.push(cell(None));
                    if system.is_default() {
                        cells.extend(workload.rates.iter().map(|rate| cell(Some(*rate))));
                    }
                }
            }
        }
        self.cells = cells;
    }
}

impl Reader<'_> {
    fn bytes(&self, field: &str, value: Option<Spanned<Amount>>, low: u64) -> Parsed<Option<u64>> {
        let Some(value) = value else { return Ok(None) };
        let (offset, bytes) = (value.span().start, value.into_inner().0);
        let what = || format!("{field} is out of range; allowed: {} MiB to 64 TiB", low >> 20);
        (low..=1 << 46)
            .contains(&bytes)
            .then_some(Some(bytes))
            .ok_or_else(|| self.0.error(offset, what()))
    }

    /// The workloads of a system; `None` is all.
    fn only(
        &self,
        names: Option<&[Spanned<String>]>,
        workloads: &[WorkloadSpec],
    ) -> Parsed<Option<Vec<String>>> {
        let Some(names) = names else { return Ok(None) };
        let known: Vec<_> = workloads.iter().map(|w| w.name.as_str()).collect();
        match names.iter().find(|n| !known.contains(&n.get_ref().as_str())) {
            None => Ok(Some(names.iter().map(|n| n.get_ref().clone()).collect())),
            Some(bad) => self.0.refuse(
                bad.span().start,
                format!("there is no workload '{}'; allowed: {}", bad.get_ref(), known.join(", ")),
            ),
        }
    }

    fn name(&self, name: &Spanned<String>) -> Parsed<String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
        let text = name.get_ref();
        if text.is_empty() || !text.chars().all(plain) || text.starts_with('.') {
            let what = format!("'{text}': a name is letters, digits, -, _ and :");
            return self.0.refuse(name.span().start, what);
        }
        Ok(text.clone())
    }

    fn device(&self, raw: Spanned<RawDevice>, others: &[DeviceSpec]) -> Parsed<DeviceSpec> {
        let (offset, raw) = (raw.span().start, raw.into_inner());
        let name = self.name(&raw.name)?;
        if others.iter().any(|d| d.name == name) {
            return self.0.refuse(raw.name.span().start, format!("there are two devices '{name}'"));
        }
        self.check_fields(offset, &raw)?;
        let bytes = self.bytes("size", raw.size, 1 << 20)?.unwrap_or(0);
        let kind = match raw.kind {
            RawKind::Loop => DeviceKind::Loop { direct_io: raw.direct_io.unwrap_or(true) },
            RawKind::Block => DeviceKind::Block { path: raw.path.unwrap_or_default() },
            RawKind::Emulated => DeviceKind::Emulated {
                disk: raw.disk.unwrap_or_default(),
                scheduler: raw.scheduler.unwrap_or_else(|| "fcfs".to_owned()),
                speed: self.0.within_or("speed", raw.speed, 1.0, 0.001..=1e6)?,
            },
            RawKind::Served => DeviceKind::Served { arguments: raw.arguments.unwrap_or_default() },
        };
        Ok(DeviceSpec { name, kind, bytes })
    }

    /// Refuses missing fields, and fields of other kinds of device.
    fn check_fields(&self, offset: usize, raw: &RawDevice) -> Parsed<()> {
        let given = [
            ("size", raw.size.is_some()),
            ("direct_io", raw.direct_io.is_some()),
            ("path", raw.path.is_some()),
            ("disk", raw.disk.is_some()),
            ("scheduler", raw.scheduler.is_some()),
            ("speed", raw.speed.is_some()),
            ("arguments", raw.arguments.is_some()),
        ];
        let (must, may): (&[&str], &[&str]) = match raw.kind {
            RawKind::Loop => (&["size"], &["direct_io"]),
            RawKind::Block => (&["path"], &[]),
            RawKind::Emulated => (&["disk", "size"], &["scheduler", "speed"]),
            RawKind::Served => (&["size"], &["arguments"]),
        };
        let fields = (must, may);
        self.0.check_fields(offset, "this kind of device", &given, fields, "name, kind")
    }

    fn workload(&self, raw: RawWorkload, others: &[WorkloadSpec]) -> Parsed<WorkloadSpec> {
        let name = match &raw.name {
            Some(name) => self.name(name)?,
            None => {
                let text = raw.personality.get_ref();
                text.rsplit('/')
                    .next()
                    .unwrap_or(text)
                    .trim_end_matches(".toml")
                    .trim_end_matches(".f")
                    .to_owned()
            }
        };
        let offset = raw.personality.span().start;
        if others.iter().any(|w| w.name == name) {
            let what = format!("there are two workloads '{name}'; give one a 'name'");
            return self.0.refuse(offset, what);
        }
        let mut rates = Vec::new();
        for rate in raw.rates {
            rates.push(self.0.within("rates", rate, 0.001..=1e9)?);
        }
        Ok(WorkloadSpec {
            name,
            personality: raw.personality.into_inner(),
            scale: self.0.within_or("scale", raw.scale, 1.0, 1e-6..=1e6)?,
            threads: self.0.within_or("threads", raw.threads, 1.0, 1e-6..=1e6)?,
            rates,
        })
    }

    fn systems(&self, raw: RawSystem, combine: Combine, kinds: &FsTable) -> Parsed<Vec<Cell>> {
        let name = raw.filesystem.get_ref();
        let kind = kinds.get(name).ok_or_else(|| {
            let known: Vec<_> = kinds.filesystem.iter().map(|k| k.name.as_str()).collect();
            let what = format!("there is no file system '{name}'; allowed: {}, or one of your own as [[filesystem]]", known.join(", "));
            self.0.error(raw.filesystem.span().start, what)
        })?;
        let options = |given: &[Spanned<String>], known: Vec<&str>| -> Parsed<Vec<Vec<String>>> {
            given
                .iter()
                .map(|text| {
                    let names: Vec<String> =
                        text.get_ref().split('+').map(|n| n.trim().to_owned()).collect();
                    match names.iter().find(|n| !known.contains(&n.as_str())) {
                        None => Ok(names),
                        Some(bad) => {
                            let what = format!(
                                "{name} has no option '{bad}'; allowed: {}, several with + between",
                                known.join(", ")
                            );
                            self.0.refuse(text.span().start, what)
                        }
                    }
                })
                .collect()
        };
        let format = options(&raw.format, kind.format.keys().map(String::as_str).collect())?;
        let mount = options(&raw.mount, kind.mount.keys().map(String::as_str).collect())?;
        let cell = |format: &[String], mount: &[String]| Cell {
            device: String::new(),
            filesystem: kind.name.clone(),
            short: kind.short.clone(),
            format: format.to_vec(),
            mount: mount.to_vec(),
            workload: String::new(),
            rate: None,
        };
        let mut all = Vec::new();
        if raw.default.unwrap_or(true) {
            all.push(cell(&[], &[]));
        }
        all.extend(mount.iter().map(|m| cell(&[], m)));
        all.extend(format.iter().map(|f| cell(f, &[])));
        if combine == Combine::All {
            all.extend(format.iter().flat_map(|f| mount.iter().map(|m| cell(f, m))));
        }
        Ok(all)
    }
}
