//! A client of Consul's HTTP API: typed calls, each with a deadline and a bounded answer. Its connections serve the
//! HTTP checks of jobs too.
//!
//! It retries nothing and decides nothing; errors never carry the token.

mod blocking;
mod calls;
mod connect;
mod error;
mod stream;
mod tls;

pub use blocking::{Cursor, HELD, Reply};
pub use calls::{Client, Scope};
pub use connect::encryption;
pub use error::{CallError, SetupError};
pub use stream::{Stream, Target, Tls, open};
