//! Hands the arguments on to [`containerpilot::cli`]. Before that, only what nobody else can do: the allocator is chosen here, and PID 1
//! holds back signals.

use std::process::ExitCode;

use containerpilot::process::{hold_signals, is_pid_one};

#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    // As PID 1, a stop signal would be lost that comes before signals are read.
    if is_pid_one() && hold_signals().is_err() {
        return ExitCode::FAILURE;
    }
    containerpilot::cli::run(std::env::args_os())
}
