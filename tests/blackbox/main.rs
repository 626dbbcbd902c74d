//! The program as its users see it: each test starts the real one, in a folder, on ports and on a socket of its own.
//!
//! They are one test program because each one links the whole crate. Its tests run beside each other in one process, so
//! none may change that process; one that must goes into `tests/process.rs`. One that measures calls `support::alone`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "helpers of tests may panic and print as tests do"
)]

#[path = "../support/mod.rs"]
mod support;

mod autopilot;
mod capacity;
mod cli;
mod consul_access;
mod consul_blocking;
mod consul_control;
mod consul_dependencies;
mod consul_outages;
mod consul_partition;
mod consul_registration;
mod consul_watches;
mod container;
mod container_limits;
mod containerpilot_compat;
mod containerpilot_scenarios;
mod control;
mod cookbook;
mod coprocess;
mod crashes;
mod env_files;
mod events;
mod examples;
mod exit_status;
mod flooded_log;
mod forward;
mod groups;
mod hardening;
mod health_exec;
mod health_http;
mod hostile_clients;
mod interval;
mod job_control;
mod kept_logs;
mod known_defects;
mod migrate;
mod operator;
mod output;
mod page;
mod processes;
mod prometheus;
mod readiness;
mod readiness_isolation;
mod readiness_of_programs;
mod reaper;
mod reload;
mod reload_hooks;
mod replay;
mod report;
mod restart_rules;
mod restarts;
mod schedule;
mod shutdown;
mod signals;
mod startup;
mod telemetry;
mod terminal;
mod why;
