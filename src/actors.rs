//! The actors: thin engines around pure decisions. [`assembly`] puts them together; only the Pilot, their root,
//! knows others.

pub mod assembly;
pub mod consul_agent;
pub mod health_check;
pub mod job;
pub mod machine;
pub mod pilot;
pub mod reaper;
pub mod registry;
pub mod task;
#[cfg(test)]
mod tests;
pub mod watch;
pub mod web_server;
