//! The sentences for a job between two runs: what is left of the last one, and how long the next one waits.

use super::{Subject, Told};
use crate::config::spec::backoff;
use crate::explain::words::{span, times};

impl Subject<'_> {
    pub(super) fn sweeping(&self) -> Told {
        let exit = self.last_exit_or("its main process has ended");
        let text = format!(
            "{} has ended ({exit}); before its next run, the rest of its process group is being ended since {}.",
            self.name,
            self.since()
        );
        Told::new(text)
    }

    pub(super) fn delayed(&self) -> Told {
        let (name, job) = (self.name, self.job);
        let when = self.until().map_or("soon".to_owned(), |time| format!("in {time}"));
        let exit = self.last_exit_or("has ended");
        let early = match job.early_ends {
            0 | 1 => String::new(),
            ends => format!(
                " It ended {} in a row within {} of its start{}.",
                times(u64::from(ends)),
                span(job.settles_after),
                self.later_delays()
            ),
        };
        let text =
            format!("{name} does not run: at {} it {exit}; it is restarted {when}.{early}", self.since());
        let told = Told::new(text).and(self.ill_health()).advise(self.look_at_end());
        Told { next_try: job.account.until, ..told }
    }

    /// How long the restarts after this one wait, if it goes on like that.
    fn later_delays(&self) -> String {
        let Some(spec) = self.spec else { return String::new() };
        let ends = self.job.early_ends;
        let delay = backoff::delay(&spec.backoff, ends);
        if backoff::delay(&spec.backoff, ends.saturating_add(1)) > delay {
            ", so each restart waits longer".to_owned()
        } else {
            format!(", so each restart waits {}", span(delay))
        }
    }

    /// Advice on the way it ended, or the command that shows more of that.
    pub(super) fn look_at_end(&self) -> String {
        let name = self.name;
        let words = self.job.last_exit.as_ref().map_or("", |(_, words)| words.as_str());
        if words.contains("Operation not permitted") {
            return format!(
                "run the container as a user that may do this, or take this setting away from {name}"
            );
        }
        if words.starts_with("cannot execute") {
            return format!("correct `exec` of {name}, or the file that it names");
        }
        if words.starts_with("cannot ") {
            return format!("correct what {name} cannot do, or the setting of {name} that asks for it");
        }
        if words.contains("killed for memory") {
            return format!(
                "give the container more memory or have {name} use less; see what it used with `containerpilot crashes {name}`"
            );
        }
        format!("see how {name} ended and what it printed last with `containerpilot crashes {name}`")
    }

    /// Why it was stopped for ill health, if it was.
    pub(super) fn ill_health(&self) -> Option<String> {
        let failing: Vec<String> = self
            .job
            .checks
            .iter()
            .filter_map(|(check, _)| Some(format!("{check}: {}", self.failure(check)?.reason)))
            .collect();
        let reason = self.job.account.stop_reason.as_deref();
        let is_stopped_for_it = reason.is_some_and(|reason| reason.starts_with("it is unhealthy"));
        (is_stopped_for_it && !failing.is_empty())
            .then(|| format!("It was stopped because it was unhealthy: {}.", failing.join("; ")))
    }
}
