//! `containerpilot`: an init and supervisor for multi-process containers.
//!
//! Every decision is a pure function over plain data; what acts on the world is a thin layer around it.
//!
//! ```text
//!  arguments ──► cli ──► config: text ─ template ─ JSON5 ─ validation ─► Spec
//!                 │                                                      │
//!                 └──────────────► actors: jobs, health checks, watches ◄┘
//!                                     │ events and commands (messages)
//!                                     ▼
//!                        process, consul, metrics, logging
//! ```
//!
//! Imports point one way: `main, cli → actors → process → {consul, metrics, logging} → config → messages`, and
//! `tests/project/architecture.rs` holds that line. Actors do not import each other; they meet in [`messages`].
//!
//! - [`messages`]: the vocabulary that actors share; types only.
//! - [`config`]: from what a user wrote to a validated [`config::spec::Spec`], with every problem and its place.
//! - [`consul`]: a client of Consul's HTTP API.
//! - [`dial`]: connections to a host by name or number.
//! - [`http_client`]: one HTTP request and its response, for checks and for the command line.
//! - [`metrics`]: what is counted, and the texts that Prometheus reads.
//! - [`offload`]: work that may block, on a thread of its own.
//! - [`printable`]: text from outside as it may be printed for people.
//! - [`reason`]: why something failed, in words for people.
//! - [`cli`]: arguments, commands, exit statuses.

pub mod actors;
pub mod cli;
pub mod config;
pub mod consul;
pub mod dial;
pub mod http_client;
pub mod logging;
pub mod messages;
pub mod metrics;
pub mod offload;
pub mod printable;
pub mod process;
pub mod reason;
