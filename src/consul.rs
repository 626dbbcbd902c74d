//! A client of Consul's HTTP API: typed calls, each with a deadline and a bounded answer. Its connections serve the
//! HTTP checks of jobs too.
//!
//! It retries nothing and decides nothing; errors never carry the token.

pub mod blocking;
mod calls;
mod connect;
mod error;
mod stream;
mod tls;

pub use calls::{Client, Scope};
pub use connect::encryption;
pub use error::{CallError, SetupError};
pub use stream::{Stream, Target, Tls, open};
