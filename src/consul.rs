//! A client of Consul's HTTP API: typed calls, each with a deadline and a bounded response. HTTP checks of jobs use its
//! connections and TLS settings, too.
//!
//! It retries nothing. Errors never contain the token.
//!
//! Written upon awc. The crates for Consul (`consul`, `rs-consul`) bring reqwest or hyper, a second HTTP client.

pub mod blocking;
mod calls;
mod connect;
mod error;
mod self_signed;
mod stream;
mod tls;

pub use calls::{Client, Scope};
pub use connect::encryption;
pub use error::{CallError, SetupError};
pub use stream::{Stream, Target, Tls, open};
