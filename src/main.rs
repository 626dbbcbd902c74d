//! Arguments → configuration → supervision → exit status; nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    containerpilot::cli::run(std::env::args_os())
}
