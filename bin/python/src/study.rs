//! Simulations, sweeps and advice, and the disks that they run on.

use pyo3::prelude::*;
use seekless_compare::{AdviseOptions, Axis, Cutting, Options, one_replay};
use seekless_disk::{DeviceSpec, catalogue};
use seekless_learn::Policy;
use seekless_trace::OpenOptions;
use serde::Serialize;
use serde_json::json;

use crate::errors;

/// A disk as Python gives it: the name in the catalogue, or the name and the text of a TOML file.
pub(crate) type NamedDisk = (String, Option<String>);

/// Options as Python gives them: names of the command line, and values as text.
pub(crate) type Pairs = Vec<(String, String)>;

/// The options of a study.
#[derive(FromPyObject)]
pub(crate) struct StudyArgs {
    #[pyo3(item)]
    pub(crate) disk: NamedDisk,
    #[pyo3(item)]
    pub(crate) policies: Vec<String>,
    #[pyo3(item)]
    pub(crate) options: Pairs,
    #[pyo3(item)]
    pub(crate) device: Option<String>,
}

/// Options of `simulate` without meaning for `advise`.
const NOT_ADVISE: [&str; 5] = ["free", "free-seed", "optimized", "train", "write-buffer"];

pub(crate) fn spec((name, toml): &NamedDisk) -> PyResult<DeviceSpec> {
    if let Some(text) = toml {
        return DeviceSpec::parse(name, text).map_err(|e| errors::option(e.to_string()));
    }
    if !catalogue::names().any(|n| n == name) {
        let names = catalogue::names().collect::<Vec<_>>().join(", ");
        return Err(errors::option(format!(
            "no disk '{name}' in the catalogue: {names}; or give Disk.from_toml(path)"
        )));
    }
    catalogue::device(name).map_err(|e| errors::option(e.to_string()))
}

impl StudyArgs {
    pub(crate) fn options(&self, open: OpenOptions) -> PyResult<Options> {
        let policies = self.policies.iter().map(|p| p.parse::<Policy>());
        let policies =
            policies.collect::<Result<_, _>>().map_err(|e| errors::option(e.to_string()))?;
        let mut options = Options::new(spec(&self.disk)?, policies);
        options.rolling.open = open;
        options.rolling.device.clone_from(&self.device);
        let given = self.options.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        one_replay(given).map_err(errors::option)?;
        for (key, value) in &self.options {
            options.set(key, value).map_err(|e| errors::option(format!("{key}: {e}")))?;
        }
        Ok(options)
    }

    pub(crate) fn question(
        &self,
        open: OpenOptions,
        folds: u32,
        others: &[NamedDisk],
    ) -> PyResult<AdviseOptions> {
        if let Some((key, _)) = self.options.iter().find(|(k, _)| NOT_ADVISE.contains(&k.as_str()))
        {
            return Err(errors::option(format!("'{key}' is an option of simulate, not of advise")));
        }
        if !(2..=64).contains(&folds) {
            return Err(errors::option(format!("folds is {folds}; expected 2 to 64")));
        }
        let mut options = self.options(open)?;
        options.rolling.cutting = Cutting::Folds(folds);
        let others = others.iter().map(spec).collect::<Result<_, _>>()?;
        let Options { rolling, host, policies, .. } = options;
        Ok(AdviseOptions { rolling, host, policies, others, named: "DISK".to_owned() })
    }
}

pub(crate) fn axes(grid: &[(String, Vec<String>)]) -> PyResult<Vec<Axis>> {
    let axis = |(key, values): &(String, Vec<String>)| {
        // Checks the key.
        let named: Axis = format!("{key}=x").parse().map_err(errors::option)?;
        if values.is_empty() {
            return Err(errors::option(format!("'{key}' has no values")));
        }
        Ok(Axis { values: values.clone(), ..named })
    };
    grid.iter().map(axis).collect()
}

pub(crate) fn json(document: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(document).map_err(|e| errors::option(e.to_string()))
}

fn facts(spec: &DeviceSpec, toml: Option<&str>) -> serde_json::Value {
    json!({
        "name": spec.name(),
        "title": spec.title(),
        "kind": spec.kind().to_string(),
        "capacity_bytes": spec.capacity().bytes().0,
        "toml": toml,
    })
}

/// The catalogue: a JSON object for each device.
#[pyfunction]
pub(crate) fn disks() -> PyResult<Vec<String>> {
    let one = |name: &str| json(&facts(&spec(&(name.to_owned(), None))?, None));
    catalogue::names().map(one).collect()
}

/// The device of a TOML text, checked; messages call the text `name`.
#[pyfunction]
pub(crate) fn disk(name: String, toml: String) -> PyResult<String> {
    let spec = spec(&(name, Some(toml.clone())))?;
    json(&facts(&spec, Some(&toml)))
}
