//! The messages between actors, the bus that carries them, and what actors share to be shown. No decisions.
pub mod account;
pub mod bus;
pub mod control;
pub mod crashes;
pub mod discovery;
pub mod event;
pub mod health;
pub mod job;
pub mod moment;
pub mod notify;
pub mod process;
pub mod signal;
pub mod status;
