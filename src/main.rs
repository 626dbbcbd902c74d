//! Arguments → configuration → supervision → exit status; nothing else.

use std::process::ExitCode;

// For its memcpy, in the place of the C library's.
#[cfg(all(target_arch = "x86_64", target_env = "musl"))]
use containerpilot_copy as _;

fn main() -> ExitCode {
    containerpilot::cli::run(std::env::args_os())
}
