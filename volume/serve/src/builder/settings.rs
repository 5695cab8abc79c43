//! The engine's settings, and the share of each part of a server in its memory.

use seekless_block::{Bytes, PAGE_BYTES};
use seekless_engine::format::Superblock;
use seekless_engine::{Config, divided_like};
use seekless_host::pressure;
use seekless_learn::{Policy, PolicyName};

use super::{Backing, Builder, MOUNTED_STAGE, MemoryBound};
use crate::error::ServeError;
use crate::memory_shares::{Needs, Shares};

impl Builder {
    /// What needs memory beside an area that lasts.
    pub(super) fn needs(
        &self,
        policy: Policy,
        found: &Config,
        s: &Superblock,
        replicates: bool,
    ) -> Needs {
        let needs = Needs { lasting: true, ..Needs::of(found, s.area_size, replicates) };
        let guarded = policy.name() == PolicyName::Adaptive && !self.read_only;
        match s.geometry() {
            Ok(geo) if guarded => needs.beside_vanilla(&divided_like(*found, s, &geo)),
            _ => needs,
        }
    }

    /// The engine's settings, once capacity and area are known, and the share of each part of the
    /// server in its memory.
    pub(super) fn config(
        &mut self,
        policy: Policy,
        found: Config,
        needs: Needs,
    ) -> Result<(Config, Shares), ServeError> {
        let tune = std::mem::replace(&mut self.tune, Box::new(|_| {}));
        let stage = if self.mounted { MOUNTED_STAGE } else { found.stage_bytes };
        let mut config = Config { stage_bytes: stage, ..found };
        tune(&mut config);
        let MemoryBound::Most(most, pages) = self.memory else {
            return Ok((configured(config, policy)?, Shares::UNBOUND));
        };
        let needs = Needs {
            graph: !matches!(policy.name(), PolicyName::Adaptive | PolicyName::Vanilla),
            tls: self.tls.is_some(),
            mounted: self.mounted,
            clients: !self.addresses.is_empty(),
            elsewhere: matches!(self.backing, Backing::Nbd(_)),
            pages,
            ..needs
        };
        let shares = match most {
            Some(most) => Shares::of(most, &needs),
            None => Shares::usual(Bytes(pressure::machine_bytes()), &needs),
        };
        let shares = shares.map_err(|little| ServeError::Memory {
            given: little.given,
            least: little.least,
            pages: pages.is_some(),
        })?;
        config.cache_bytes = shares.pages;
        config.stage_bytes = config.stage_bytes.min(shares.stage);
        config.sweep_bytes = config.sweep_bytes.min(shares.sweep);
        config.records = config.records.min(shares.records);
        if !self.mounted {
            pressure::return_freed_memory();
        }
        Ok((configured(config, policy)?, shares))
    }
}

/// The engine's settings for a policy.
fn configured(mut config: Config, policy: Policy) -> Result<Config, ServeError> {
    config.adaptive = policy.name() == PolicyName::Adaptive;
    config.in_place = policy.writes_in_place();
    if !policy.trail {
        config.append_pages = 0;
    }
    if config.adaptive && config.cache_bytes.0 < PAGE_BYTES {
        let why = "the policy adaptive reads ahead into RAM, and there is none: give --cache SIZE, or another --policy";
        return Err(ServeError::Learning(why.to_owned()));
    }
    Ok(config)
}
