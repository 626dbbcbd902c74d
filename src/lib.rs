//! `containerpilot`: an init and supervisor for multi-process containers.
pub mod config;
pub mod messages;
pub mod process;
