//! Makes the behaviour of the simulated processes.

use super::Dice;
use crate::actors::tests::simulation::story::{AtTerm, Life, Manner, Offspring, Place, Says, Start};
use crate::messages::process::ExitStatus;
use crate::messages::signal::Signal;

impl Dice {
    pub(super) fn status(&mut self) -> ExitStatus {
        match self.weighted(&[4, 2, 1]) {
            0 => ExitStatus::Code(0),
            1 => ExitStatus::Code(self.0.u8(1..)),
            _ => ExitStatus::Signal { signal: Signal::QUIT, core_dumped: true },
        }
    }

    pub(super) fn life(&mut self) -> Life {
        match self.weighted(&[6, 5, 1]) {
            0 => Life::Serves,
            1 => Life::Ends(self.status(), self.time()),
            _ => Life::Starves(self.time()),
        }
    }

    /// Milliseconds: often none, or so few that several things happen together.
    pub(super) fn time(&mut self) -> u64 {
        match self.weighted(&[2, 3, 3]) {
            0 => 0,
            1 => self.0.u64(1..40),
            _ => self.0.u64(40..1500),
        }
    }

    pub(super) fn at_term(&mut self) -> AtTerm {
        match self.weighted(&[5, 3, 1]) {
            0 => AtTerm::Dies,
            1 => AtTerm::Exits(self.0.u8(0..3), self.time()),
            _ => AtTerm::Ignores,
        }
    }

    pub(super) fn start(&mut self) -> Start {
        match self.weighted(&[24, 2, 2, 1, 1, 1]) {
            0 => Start::AtOnce,
            1 => Start::Searches(self.0.u64(1..400)),
            2 => Start::Executes(self.0.u64(1..400)),
            3 => Start::Hangs,
            4 => Start::Fails(self.pick(&[libc::ENOENT, libc::EACCES])),
            _ => Start::FailsToExecute(self.pick(&[libc::ENOENT, libc::ENOEXEC, libc::E2BIG])),
        }
    }

    pub(super) fn manner(&mut self) -> Manner {
        let number = self.weighted(&[10, 3, 2, 1]);
        Manner {
            start: self.start(),
            life: self.life(),
            at_term: self.at_term(),
            lines: if self.one_in(3) { self.0.u8(1..30) } else { 0 },
            offspring: (0..number).map(|_| self.offspring()).collect(),
            stops_itself: self.one_in(25).then(|| self.time()),
            notices: self.notices(),
            signs: self.one_in(3).then(|| self.0.u64(50..1000)),
            leaves_group: self.one_in(8).then(|| self.time()),
        }
    }

    /// Most that can tell something tell that they are ready.
    pub(super) fn notices(&mut self) -> Vec<(u64, Says)> {
        let mut notices = vec![];
        if !self.one_in(4) {
            notices.push((self.time(), Says::Ready));
        }
        while self.one_in(4) {
            let time = Says::NeedsTime(self.0.u64(10..3000));
            let says = [Says::Ready, Says::Lives, Says::Stops, Says::Reloads, Says::Nonsense, time];
            notices.push((self.time(), self.pick(&says)));
        }
        notices
    }

    pub(super) fn offspring(&mut self) -> Offspring {
        let place = match self.weighted(&[5, 2, 4, 1]) {
            0 => Place::Group,
            1 => Place::Apart,
            2 => Place::Daemon,
            _ => Place::Becoming(self.0.u8(1..90)),
        };
        Offspring { after: self.time(), place, life: self.life(), at_term: self.at_term() }
    }

    /// Most checks pass, soon.
    pub(super) fn check_manner(&mut self) -> Manner {
        let code = if self.one_in(4) { 1 } else { 0 };
        let life = match self.weighted(&[12, 1, 1]) {
            0 => Life::Ends(ExitStatus::Code(code), self.0.u64(0..30)),
            1 => Life::Ends(ExitStatus::Code(code), self.0.u64(30..2500)),
            _ => Life::Serves,
        };
        let plain = Manner { life, ..Manner::plain() };
        if self.one_in(6) { Manner { life, ..self.manner() } } else { plain }
    }
}
