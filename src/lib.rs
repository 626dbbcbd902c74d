//! `containerpilot`: an init and supervisor for multi-process containers.
pub mod actors;
pub mod config;
pub mod messages;
