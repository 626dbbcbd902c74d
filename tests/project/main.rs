//! The texts of the project: its sources keep the direction of imports, its manual is complete and true, and every wrong
//! configuration gets the report that it should.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "helpers of tests may panic and print as tests do"
)]

#[path = "../support/mod.rs"]
mod support;

mod architecture;
mod config_diagnostics;
mod documentation;
mod manual;
mod skipping;
