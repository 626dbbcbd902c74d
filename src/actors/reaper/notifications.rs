//! How the process of a job tells us something: that it is ready, by a descriptor or its output, and all that systemd's
//! notify protocol has. Only processes of the job's own group are heard.

use std::collections::{HashMap, HashSet};
use std::io::{self, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use slog::warn;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use super::Reaper;
use crate::actors::task::Task;
use crate::config::spec::{JobSpec, ReadyBy};
use crate::logging::LineWatch;
use crate::messages::process::{ExecutionId, ExecutionReport, Pid};
use crate::process::{Datagram, FIRST_PASSED, Message, NotifySocket, Order, Passed, pipe_to_us};

/// Messages of one execution that are read before others have their turn.
const MESSAGES_PER_TURN: usize = 32;
/// The pause after so many messages: a job that floods us waits, and nobody else does.
const PAUSE: Duration = Duration::from_millis(1);
/// Messages that are read when a process has ended: no queue of the kernel holds more.
const MOST_LEFT: usize = 4096;
/// Descriptors that are kept for a job.
const MOST_STORED: usize = 64;

/// Descriptors that jobs have stored, for their next execution.
#[derive(Default)]
pub(super) struct Stores(HashMap<Arc<str>, Vec<(String, Arc<OwnedFd>)>>);

impl Stores {
    /// Forgets those of all other jobs.
    pub(super) fn keep(&mut self, jobs: &HashSet<Arc<str>>) {
        self.0.retain(|job, _| jobs.contains(job));
    }

    /// Keeps descriptors under a name; false if there were too many.
    fn store(&mut self, job: &JobSpec, name: &str, descriptors: Vec<OwnedFd>) -> bool {
        let stored = self.0.entry(Arc::clone(&job.name)).or_default();
        let room = most_stored(job).saturating_sub(stored.len());
        let fits = descriptors.len() <= room;
        stored.extend(descriptors.into_iter().take(room).map(|it| (name.to_owned(), Arc::new(it))));
        fits
    }

    fn remove(&mut self, job: &str, name: &str) {
        if let Some(stored) = self.0.get_mut(job) {
            stored.retain(|(known, _)| known != name);
        }
    }

    /// Gives a new execution what its job has stored.
    fn give(&self, job: &JobSpec, passed: &mut Passed) {
        let stored = self.0.get(&job.name).map(Vec::as_slice).unwrap_or_default();
        // There may be more than it may have since a reload has changed it.
        let stored = stored.get(..most_stored(job)).unwrap_or(stored);
        if stored.is_empty() {
            return;
        }
        let descriptors = stored.iter().zip(FIRST_PASSED..).map(|((_, it), number)| (Arc::clone(it), number));
        passed.descriptors.extend(descriptors);
        let names: Vec<&str> = stored.iter().map(|(name, _)| name.as_str()).collect();
        passed.tell("LISTEN_FDS", stored.len().to_string());
        passed.tell("LISTEN_FDNAMES", names.join(":"));
        passed.tell_own_number("LISTEN_PID");
    }
}

/// The most descriptors that are kept for a job.
fn most_stored(job: &JobSpec) -> usize {
    match job.ready.by {
        // The descriptors are passed from 3 on, and this one has its place.
        Some(ReadyBy::Descriptor(number)) => {
            usize::try_from(number - FIRST_PASSED).unwrap_or(0).min(MOST_STORED)
        }
        Some(ReadyBy::Notify | ReadyBy::Log(_)) | None => MOST_STORED,
    }
}

/// The ways by which the process of an execution can tell us something.
pub(super) struct Ways {
    job: Arc<JobSpec>,
    /// The read end of the pipe that a newline makes ready.
    pipe: Option<PipeReader>,
    socket: Option<Rc<NotifySocket>>,
    /// The expression for the line that makes ready.
    line: Option<String>,
    /// What waits for a newline, and for a message.
    newline_task: Option<Task>,
    message_task: Option<Task>,
    has_warned: bool,
}

impl Ways {
    /// Opens what the job asks for, and says what its process gets; nothing for a health check or a job that asks for
    /// nothing.
    pub(super) fn open(order: &Order, stores: &Stores) -> io::Result<(Option<Self>, Passed)> {
        let mut passed = Passed::default();
        let Some(job) = order.own_job().filter(|job| job.ready.by.is_some() || job.watchdog.is_some()) else {
            return Ok((None, passed));
        };
        let mut ways = Self {
            job: Arc::clone(job),
            pipe: None,
            socket: None,
            line: None,
            newline_task: None,
            message_task: None,
            has_warned: false,
        };
        stores.give(job, &mut passed);
        if job.has_notify_socket() {
            let socket = NotifySocket::open()?;
            passed.tell("NOTIFY_SOCKET", socket.address());
            passed.own_session = true;
            ways.socket = Some(Rc::new(socket));
        }
        if let Some(watchdog) = job.watchdog {
            passed.tell("WATCHDOG_USEC", watchdog.as_micros().to_string());
            passed.tell_own_number("WATCHDOG_PID");
        }
        match &job.ready.by {
            Some(ReadyBy::Descriptor(number)) => {
                let (reader, writer) = pipe_to_us()?;
                passed.descriptors.push((Arc::new(writer.into()), *number));
                passed.tell("CONTAINERPILOT_READY_FD", number.to_string());
                ways.pipe = Some(reader);
            }
            Some(ReadyBy::Log(expression)) => ways.line = Some(expression.clone()),
            Some(ReadyBy::Notify) | None => {}
        }
        Ok((Some(ways), passed))
    }

    /// Whether the pipe has a newline now.
    fn has_newline(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let length = self.pipe.as_mut().and_then(|pipe| pipe.read(&mut bytes).ok()).unwrap_or(0);
        bytes.get(..length).is_some_and(|bytes| bytes.contains(&b'\n'))
    }
}

impl Reaper {
    /// Begins to listen to a process that was started.
    pub(super) fn listen(&mut self, execution: ExecutionId, ctx: &mut Context<Self>) {
        let Some(ways) = self.ways.get_mut(&execution) else { return };
        if let Some(pipe) = ways.pipe.as_ref().and_then(|pipe| pipe.try_clone().ok()) {
            let heard = move |is_ready, reaper: &mut Self, _: &mut Context<Self>| {
                if is_ready {
                    reaper.tell_ready(execution);
                }
                if let Some(ways) = reaper.ways.get_mut(&execution) {
                    ways.pipe = None;
                }
            };
            ways.newline_task = Some(Task::spawn(newline(pipe), ctx, heard));
        }
        if ways.socket.is_some() {
            self.await_message(execution, Duration::ZERO, ctx);
        }
    }

    /// Looks at the log for the line that makes an execution ready.
    pub(super) fn watch_lines(&mut self, execution: ExecutionId) -> Option<LineWatch> {
        let expression = self.ways.get_mut(&execution)?.line.take()?;
        let owner = self.handles.get(&execution)?.owner.clone();
        LineWatch::new(&expression, Rc::new(move || owner.do_send(ExecutionReport::Ready(execution))))
    }

    fn tell_ready(&self, execution: ExecutionId) {
        if let Some(handles) = self.handles.get(&execution) {
            handles.owner.do_send(ExecutionReport::Ready(execution));
        }
    }

    fn await_message(&mut self, execution: ExecutionId, pause: Duration, ctx: &mut Context<Self>) {
        let Some(ways) = self.ways.get_mut(&execution) else { return };
        let Some(socket) = ways.socket.clone() else { return };
        let wait = async move {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            socket.readable().await.is_ok()
        };
        let heard = move |is_open, reaper: &mut Self, ctx: &mut Context<Self>| {
            if is_open {
                let is_full = reaper.read_messages(execution, MESSAGES_PER_TURN, NotifySocket::receive)
                    == MESSAGES_PER_TURN;
                reaper.await_message(execution, if is_full { PAUSE } else { Duration::ZERO }, ctx);
            }
        };
        ways.message_task = Some(Task::spawn(wait, ctx, heard));
    }

    /// Hears what a process said before it ended, while it is a zombie: then the kernel still knows its group.
    pub(super) fn hear_the_last(&mut self, execution: ExecutionId) {
        self.read_messages(execution, MOST_LEFT, NotifySocket::receive_unnoticed);
        let is_ready = self.ways.get_mut(&execution).is_some_and(Ways::has_newline);
        if is_ready {
            self.tell_ready(execution);
        }
    }

    /// Listens no longer.
    pub(super) fn listen_no_more(&mut self, execution: ExecutionId, ctx: &mut Context<Self>) {
        if let Some(ways) = self.ways.remove(&execution) {
            for task in [ways.newline_task, ways.message_task].into_iter().flatten() {
                task.cancel(ctx);
            }
        }
    }

    /// Reads at most so many messages; how many there were. Of equal ones in a row, the job is told one.
    fn read_messages(
        &mut self,
        execution: ExecutionId,
        most: usize,
        receive: fn(&NotifySocket) -> io::Result<Option<Datagram>>,
    ) -> usize {
        let Some(socket) = self.ways.get(&execution).and_then(|ways| ways.socket.clone()) else { return 0 };
        let mut last = None;
        for number in 0..most {
            let Ok(Some(datagram)) = receive(&socket) else { return number };
            let Some(message) = self.heard(execution, datagram) else { continue };
            if last.as_ref() != Some(&message) {
                if let Some(handles) = self.handles.get(&execution) {
                    let news = Box::new(message.notification.clone());
                    handles.owner.do_send(ExecutionReport::Notified(execution, news));
                }
                last = Some(message);
            }
        }
        most
    }

    /// What a message says, if it is of a process of the execution. The descriptors that are not kept are closed here, which
    /// also answers `BARRIER=1`.
    fn heard(&mut self, execution: ExecutionId, datagram: Datagram) -> Option<Message> {
        let group = self.driver.machine().group_of(execution)?;
        let is_of_it = |pid: Pid| pid == group || self.kernel.group_of(pid) == Some(group);
        if !datagram.sender.is_some_and(is_of_it) {
            self.warn_once(execution, "a process that is not of this job has written to its notify socket");
            return None;
        }
        let mut message = Message::parse(&datagram.text);
        let main = &mut message.notification.main_process;
        *main = main.filter(|pid| is_of_it(*pid));
        if datagram.has_lost_descriptors {
            self.warn_once(
                execution,
                "sends descriptors that cannot all be opened here (too many open files?): they are closed",
            );
        }
        let job = Arc::clone(&self.ways.get(&execution)?.job);
        if message.stores && !self.stores.store(&job, &message.name_to_store(), datagram.descriptors) {
            self.warn_once(execution, "stores more descriptors than are kept: some are closed");
        }
        if let (true, Some(name)) = (message.removes, &message.name) {
            self.stores.remove(&job.name, name);
        }
        Some(message)
    }

    fn warn_once(&mut self, execution: ExecutionId, text: &str) {
        let Some(ways) = self.ways.get_mut(&execution) else { return };
        if !std::mem::replace(&mut ways.has_warned, true) {
            warn!(self.log.logger(), "{text}"; "job" => &*ways.job.name);
        }
    }
}

/// Whether a newline comes before the end of the pipe.
async fn newline(pipe: PipeReader) -> bool {
    let Ok(mut pipe) = pipe::Receiver::from_owned_fd(pipe.into()) else { return false };
    let mut bytes = [0; 512];
    loop {
        match pipe.read(&mut bytes).await {
            Ok(0) | Err(_) => return false,
            Ok(length) if bytes.get(..length).is_some_and(|bytes| bytes.contains(&b'\n')) => return true,
            Ok(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_reload_stored_descriptors_leave_the_number_of_the_ready_pipe_free() {
        let mut job = JobSpec::new("app".into(), None);
        job.ready.by = Some(ReadyBy::Notify);
        let mut stores = Stores::default();
        let descriptor = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        assert!(stores.store(&job, "a", vec![descriptor(), descriptor(), descriptor()]));
        for (number, expected) in [(3, vec![]), (4, vec![3]), (9, vec![3, 4, 5])] {
            job.ready.by = Some(ReadyBy::Descriptor(number));
            let mut passed = Passed::default();
            stores.give(&job, &mut passed);
            let numbers: Vec<i32> = passed.descriptors.iter().map(|(_, number)| *number).collect();
            assert_eq!(numbers, expected);
        }
    }
}
