//! A client of Consul's HTTP API: typed calls, each with a deadline and a bounded answer.
//!
//! It retries nothing and decides nothing; errors never carry the token.

mod calls;
mod connect;
mod error;
mod tls;

pub use calls::Client;
pub use error::{CallError, SetupError};
pub use tls::system_config as system_tls;
