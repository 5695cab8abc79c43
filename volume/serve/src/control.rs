//! Control of a volume: the commands of a running volume, its state, the socket for both, and
//! administration with or without a server.
//!
//! A server answers on a unix socket in a directory of its user alone. Without a server, the
//! administrator's own process opens the volume.

mod administer;
mod ask;
mod dump;
mod listen;
mod replicate;
mod socket;
mod state;
mod status_text;

use seekless_block::Extent;
use seekless_engine::Command;
use serde::{Deserialize, Serialize};

pub use administer::{
    AdministerError, Administered, Progress, Proven, ensure_unserved, open_unserved, state_of,
};
pub use ask::{AskError, TOKEN, ask};
pub use dump::Dump;
pub use listen::{MainThread, start};
pub use replicate::{Placed, extents_of_file};
pub use state::{ReplicaState, VolumeState, mode_name, mode_of};

/// A command to a running server: one type from the command line through the control socket to the
/// server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum VolumeCommand {
    /// Make a new plan of everything learned, and move to it.
    Replan,
    /// Write replicas of the pages of `homes` side by side in free space, close to `near`.
    Replicate {
        /// Where the replicas should stand.
        near: Extent,
        /// What to replicate, in the order of the replicas.
        homes: Vec<Extent>,
    },
    /// Say who uses the volume on this host; nobody is an empty text.
    Users,
    /// End the server with the area saved. Without `force`, refused while the volume is in use.
    Stop {
        /// Cut off its users.
        force: bool,
    },
    /// A command to the engine, written as the engine's own.
    #[serde(untagged)]
    Engine(Command),
}

#[cfg(test)]
mod tests {
    use seekless_engine::Mode;

    use super::*;

    #[test]
    fn every_command_survives_the_socket() {
        let extent = Extent::new(8, 16);
        for command in [
            VolumeCommand::Engine(Command::Drain),
            VolumeCommand::Engine(Command::SetMode(Mode::WriteBack)),
            VolumeCommand::Engine(Command::SetMode(Mode::WriteThrough)),
            VolumeCommand::Replan,
            VolumeCommand::Replicate { near: extent, homes: vec![extent, Extent::new(64, 8)] },
            VolumeCommand::Users,
            VolumeCommand::Stop { force: false },
            VolumeCommand::Stop { force: true },
        ] {
            let text = serde_json::to_vec(&command).unwrap();
            assert_eq!(serde_json::from_slice::<VolumeCommand>(&text).unwrap(), command);
        }
        for bad in ["", "{}", "\"dance\"", "{\"set_mode\":\"sideways\"}", "{\"replicate\":{}}"] {
            assert!(serde_json::from_slice::<VolumeCommand>(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
