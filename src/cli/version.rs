//! `-version`, in ContainerPilot's form.

use std::process::ExitCode;

use super::{CommandError, output};

/// The git commit that this program was built from, or `unknown`.
pub const GIT_HASH: &str = env!("CONTAINERPILOT_GIT_HASH");

/// Prints version and git hash.
pub fn print() -> Result<ExitCode, CommandError> {
    output::print(&format!("Version: {}\nGitHash: {GIT_HASH}\n", env!("CARGO_PKG_VERSION")))?;
    Ok(ExitCode::SUCCESS)
}
