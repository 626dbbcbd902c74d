//! `containerpilot`: an init and supervisor for multi-process containers.
pub mod config;
pub mod logging;
pub mod messages;
