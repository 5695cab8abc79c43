//! Facts about the host; results are only comparable with them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::attempt;
use super::filesystem::FsKind;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    /// Release and version of the kernel.
    pub kernel: String,
    /// Number of processors, and their model name.
    pub processors: String,
    pub memory_bytes: u64,
    /// The programs that create file systems, with their versions.
    pub programs: BTreeMap<String, String>,
}

impl Facts {
    /// The facts of this host, with the programs of these file systems.
    pub(crate) fn gather<'a>(kinds: impl IntoIterator<Item = &'a FsKind>) -> Self {
        let read = |p: &str| std::fs::read_to_string(p).unwrap_or_default();
        let kernel = format!(
            "{} {}",
            read("/proc/sys/kernel/osrelease").trim(),
            read("/proc/sys/kernel/version").trim()
        );
        let cpu = read("/proc/cpuinfo");
        let name = cpu
            .lines()
            .find_map(|l| l.strip_prefix("model name")?.split_once(':').map(|x| x.1.trim()));
        let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let memory = read("/proc/meminfo");
        let total = memory.lines().find_map(|l| {
            l.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok()
        });
        let mut programs = BTreeMap::new();
        for kind in kinds {
            if let (Some(program), Ok((_, said))) =
                (kind.version.first(), attempt(&kind.version, Path::new("/")))
            {
                let first = said.lines().map(str::trim).find(|l| !l.is_empty()).unwrap_or_default();
                programs.insert(program.clone(), first.to_owned());
            }
        }
        Self {
            kernel,
            processors: format!("{count} x {}", name.unwrap_or("unnamed")),
            memory_bytes: total.unwrap_or(0) * 1024,
            programs,
        }
    }
}

/// Writes dirty pages and drops the kernel's caches of files (needs root).
///
/// # Errors
/// The kernel refuses.
pub fn drop_caches() -> std::io::Result<()> {
    rustix::fs::sync();
    std::fs::write("/proc/sys/vm/drop_caches", "3")
}
