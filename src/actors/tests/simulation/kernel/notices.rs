//! What processes tell by systemd's protocol. The datagrams are real and come from this process, so that only one process
//! speaks at a time: [`SimulatedKernel::speaker`] tells who that is.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tokio::time::Instant;

use super::super::story::Says;
use super::{Happening, Owner, SimulatedKernel};
use crate::messages::process::Pid;

impl SimulatedKernel {
    /// A process tells something, if it was given a socket; later, if another one speaks in this moment.
    pub(super) fn notify(&self, birth: u64, says: Says, repeats: bool) {
        let mut world = self.world.borrow_mut();
        let Some(process) = world.get(birth) else { return };
        let Some(address) = process.notify.clone() else { return };
        // The main process is known by its number, also if it has left its group.
        let group = if process.leads() { process.pid } else { process.group };
        let (owner, period) = (process.owner.clone(), process.manner.signs);
        let now = Instant::now();
        if world.speaker.is_some_and(|(other, at)| at == now && other != group) {
            return world.later(1, Happening::Notify(birth, says, repeats));
        }
        world.speaker = Some((group, now));
        if let Some(period) = period.filter(|_| repeats) {
            world.later(period, Happening::Notify(birth, says, repeats));
        }
        drop(world);
        let address = SocketAddr::from_abstract_name(address.trim_start_matches('@'));
        let sent = UnixDatagram::unbound().and_then(|socket| {
            socket.set_nonblocking(true)?;
            socket.send_to_addr(says.text().as_bytes(), &address?)
        });
        // Nobody reads what comes after the end of an execution.
        if let (Ok(_), Owner::Job(job)) = (sent, owner) {
            self.journal.note(format!("{job} says {says:?}"));
            self.observer.notified(&job, says);
        }
    }

    /// The group of the process that speaks in this moment: to the program, all speakers have the number of this process.
    pub(super) fn speaker(&self, process: Pid) -> Option<Pid> {
        let is_this = u32::try_from(process.number()).is_ok_and(|number| number == std::process::id());
        self.world.borrow().speaker.filter(|_| is_this).map(|(group, _)| group)
    }
}
