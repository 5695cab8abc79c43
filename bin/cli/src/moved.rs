//! Verbs of earlier versions: each answers with its new name.

use std::process::ExitCode;

use crate::output::say;

/// Refuses an earlier verb, and names the new one: exit status 2. `moved` has pairs of the earlier
/// verb and its present name.
#[must_use]
pub fn refuse(moved: &[(&str, &str)]) -> Option<ExitCode> {
    let verb = std::env::args_os().nth(1)?;
    let (old, new) = moved.iter().find(|(old, _)| verb == *old)?;
    say(&format!("seekless: '{old}' is '{new}' today; `{new} --help` explains its arguments"));
    Some(ExitCode::from(2))
}
