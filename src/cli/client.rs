//! Requests to a running containerpilot.

use std::path::Path;
use std::process::ExitCode;

use super::CommandError;
use super::request::ClientRequest;

/// Sends the request to the control socket that the configuration names.
pub fn run(_config: Option<&Path>, _request: &ClientRequest) -> Result<ExitCode, CommandError> {
    Err(CommandError::new("this build cannot do that yet: the control socket arrives with the control plane"))
}
