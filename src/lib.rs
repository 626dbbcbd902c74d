//! `containerpilot`: an init and supervisor for multi-process containers.
//!
//! Every decision is a pure function over plain data: a state machine in `actors/NAME/machine.rs`. The actor around it,
//! `actors/NAME.rs`, turns messages into inputs and actions into effects.
//!
//! ```text
//!  arguments ──► cli ──► config: text ─ template ─ JSON5 ─ validation ─► Spec
//!                 │                                                      │
//!                 └──────────► actors: pilot, jobs, checks, watches ◄────┘
//!                                     │ events and commands (messages)
//!                                     ▼
//!                        process, consul, metrics, logging
//! ```
//!
//! This is the way of the data. Imports point one way, too: from `cli` to `actors`, to `process` and `consul`, to `logging` and `metrics`, to
//! `config`, to `messages`; `tests/project/architecture.rs` has all layers and checks them. Actors exchange [`messages`] and do not import
//! each other, with two exceptions: `actors::assembly` puts them together, and the Pilot, their root, knows those that it creates
//! or commands.
//!
//! - [`messages`]: the messages between actors, and what they share to be shown; no decisions.
//! - [`actors`]: the state machines, and the actors around them.
//! - [`process`]: starts, signals and waits for processes.
//! - [`config`]: from the text of a configuration to a validated [`config::spec::Spec`], or to all errors in it.
//! - [`consul`]: a client of Consul's HTTP API.
//! - [`dial`]: TCP connections to a host name or address.
//! - [`explain`]: why a job is where it is, in sentences.
//! - [`graph`]: what waits for what, as text and pictures.
//! - [`http_client`]: one HTTP request and its response, for checks and for the command line.
//! - [`logging`]: our own log records and the output of children.
//! - [`masking`]: how secrets are serialised into a record.
//! - [`metrics`]: counters and other metrics, in the formats of Prometheus.
//! - [`offload`]: runs work that may block on another thread.
//! - [`printable`]: makes text from outside safe to print.
//! - [`reason`]: the text of an error, for people.
//! - [`recording`]: writes down every input of every machine.
//! - [`replay`]: runs the machines of such a record again.
//! - [`cli`]: arguments, commands, exit statuses.

pub mod actors;
pub mod cli;
pub mod config;
pub mod consul;
pub mod dial;
pub mod explain;
pub mod graph;
pub mod http_client;
pub mod logging;
pub mod masking;
pub mod messages;
pub mod metrics;
pub mod offload;
pub mod printable;
pub mod process;
pub mod reason;
pub mod recording;
pub mod replay;

#[cfg(test)]
#[allow(dead_code, reason = "shared with the other test programs")]
#[path = "../tests/support/needs.rs"]
mod needs;
