//! Events: facts, broadcast to every subscriber in one order.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::signal::Signal;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EventCode {
    /// Configuration is done; telemetry and control socket are serving.
    Startup,
    /// The program begins to shut down.
    Shutdown,
    /// An execution of a job's process ended with status 0.
    ExitSuccess,
    /// An execution of a job's process ended in any other way, a failed spawn included.
    ExitFailed,
    /// An execution of a job can be used.
    Ready,
    /// A job's health, or a watch's set of instances, became good.
    Healthy,
    /// A job's health, or a watch's set of instances, became bad.
    Unhealthy,
    /// The set of healthy instances of a watch changed.
    Changed,
    /// A job was told to stop, or will not run again.
    Stopping,
    /// A job is over: its process group is gone and it is deregistered.
    Stopped,
    /// The control plane put the container into maintenance.
    EnterMaintenance,
    /// The control plane took the container out of maintenance.
    ExitMaintenance,
    /// A signal arrived.
    Signal,
}

impl EventCode {
    /// Every code, in the order of the documentation.
    pub const ALL: [Self; 13] = [
        Self::Startup,
        Self::Shutdown,
        Self::ExitSuccess,
        Self::ExitFailed,
        Self::Ready,
        Self::Healthy,
        Self::Unhealthy,
        Self::Changed,
        Self::Stopping,
        Self::Stopped,
        Self::EnterMaintenance,
        Self::ExitMaintenance,
        Self::Signal,
    ];

    /// The code as configurations and `CONTAINERPILOT_EVENT_CODE` spell it.
    pub const fn config_name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Shutdown => "shutdown",
            Self::ExitSuccess => "exitSuccess",
            Self::ExitFailed => "exitFailed",
            Self::Ready => "ready",
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
            Self::Changed => "changed",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::EnterMaintenance => "enterMaintenance",
            Self::ExitMaintenance => "exitMaintenance",
            Self::Signal => "signal",
        }
    }

    /// The code as ContainerPilot's metrics spell it.
    pub const fn metric_name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Shutdown => "Shutdown",
            Self::ExitSuccess => "ExitSuccess",
            Self::ExitFailed => "ExitFailed",
            Self::Ready => "Ready",
            Self::Healthy => "StatusHealthy",
            Self::Unhealthy => "StatusUnhealthy",
            Self::Changed => "StatusChanged",
            Self::Stopping => "Stopping",
            Self::Stopped => "Stopped",
            Self::EnterMaintenance => "EnterMaintenance",
            Self::ExitMaintenance => "ExitMaintenance",
            Self::Signal => "Signal",
        }
    }

    /// Whether events of this code come from the program itself rather than from a job, watch or signal.
    pub const fn is_global(self) -> bool {
        matches!(self, Self::Startup | Self::Shutdown | Self::EnterMaintenance | Self::ExitMaintenance)
    }
}

/// The subject of an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Source {
    /// The program itself.
    Global,
    /// The job of that name.
    Job(Arc<str>),
    /// The watch of that name (without the `watch.` prefix).
    Watch(Arc<str>),
    /// The health checks of the job of that name.
    Check(Arc<str>),
    /// The group of that name (without the `group.` prefix).
    Group(Arc<str>),
    /// The signal that arrived.
    Signal(Signal),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global => f.write_str("global"),
            Self::Job(name) => f.write_str(name),
            Self::Watch(name) => write!(f, "watch.{name}"),
            Self::Check(name) => write!(f, "check.{name}"),
            Self::Group(name) => write!(f, "group.{name}"),
            Self::Signal(signal) => write!(f, "{signal}"),
        }
    }
}

/// A code together with its source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EventKey {
    /// What happened.
    pub code: EventCode,
    /// The subject.
    pub source: Source,
}

impl fmt::Display for EventKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.source, self.code.config_name())
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its sequence number, from 1.
    pub sequence: u64,
    /// When it was published.
    pub time: SystemTime,
    /// The sequence number of the event that led to this one, if one did.
    pub cause: Option<u64>,
    /// Code and source.
    pub key: EventKey,
    /// Details.
    pub detail: Detail,
}

/// Details of an event, for people. No decision depends on them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Detail {
    /// The process that it is about.
    pub pid: Option<i32>,
    /// How that process ended: its status, or 128 plus the signal.
    pub status: Option<u8>,
    /// The signal that ended it, if one did.
    pub signal: Option<Signal>,
    /// Why it happened, in words.
    pub reason: Option<String>,
}

impl Detail {
    /// A detail with only a reason.
    pub fn reason(reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), ..Self::default() }
    }
}
