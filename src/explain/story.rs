//! The whole story of a job: itself, then those that it waits for, down to the root cause.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use super::phases::{Told, awaited_members, tell};
use super::words::{clock, list};
use super::{Scene, Why};
use crate::config::spec::{JobKind, JobSpec, WatchSpec};
use crate::messages::account::Awaited;
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::health::Health;
use crate::messages::job::{Missing, Phase};
use crate::messages::status::{DiscoveryFailure, JobStatus};

/// The limit on the jobs that one story tells of: beyond it nobody reads on.
const MOST_JOBS: usize = 12;
/// The number of jobs at the beginning of a chain that are told one by one.
const FIRST_OF_CHAIN: usize = 5;
/// The longest chain that is followed.
const DEEPEST: usize = 1000;
/// The limit on pieces of advice.
const MOST_ADVICE: usize = 3;

/// Advice on a call to Consul that failed.
const fn remedy(failure: &DiscoveryFailure) -> &'static str {
    if failure.is_answer { "mend what Consul complains of" } else { "see whether Consul's agent runs" }
}

/// Why a job is where it is; `None` if there is no such job.
pub fn why(scene: &Scene<'_>, name: &str) -> Option<Why> {
    let (name, job) = scene.overview.jobs.get_key_value(name)?;
    let mut story = Story::new(scene);
    story.tell(name, job);
    Some(Why {
        state: job.shown_state(),
        summary: story.summary(job),
        waits_for: waits_for(scene, name, job),
        next_try: story.next_try,
        causes: story.causes,
        failed: story.failed,
    })
}

/// The events of its `when`. What a job has seen, it knows better than the Pilot, who hears of it later.
fn waits_for(scene: &Scene<'_>, name: &Arc<str>, job: &JobStatus) -> Vec<Awaited> {
    let mut events = scene.awaited.get(name).cloned().unwrap_or_default();
    if let (Phase::Waiting, Missing::AnyOf(keys) | Missing::AllOf(keys)) = (job.phase, &job.account.missing) {
        events.iter_mut().for_each(|event| event.happened = !keys.contains(&event.key));
    }
    events
}

struct Story<'a> {
    scene: &'a Scene<'a>,
    sentences: Vec<String>,
    /// What to do, that about the root cause last.
    advice: Vec<Vec<String>>,
    next_try: Option<SystemTime>,
    causes: Vec<u64>,
    /// The job nearest to the root cause whose last run failed.
    failed: Option<Arc<str>>,
    told: BTreeSet<Arc<str>>,
    /// How many of them were left out.
    hidden: usize,
    /// The jobs between the first and the one that is told about: each waits for the next.
    path: Vec<Arc<str>>,
}

impl<'a> Story<'a> {
    fn new(scene: &'a Scene<'a>) -> Self {
        Self {
            scene,
            sentences: vec![],
            advice: vec![],
            next_try: None,
            causes: vec![],
            failed: None,
            told: BTreeSet::new(),
            hidden: 0,
            path: vec![],
        }
    }

    fn tell(&mut self, name: &Arc<str>, job: &JobStatus) {
        self.told.insert(Arc::clone(name));
        self.path.push(Arc::clone(name));
        // The root of a long chain is told, not all that is between.
        let is_between = job.account.missing != Missing::Nothing && self.path.len() > FIRST_OF_CHAIN;
        if is_between || self.told.len() - self.hidden > MOST_JOBS {
            self.hidden += 1;
        } else {
            self.tell_one(name, job);
        }
        match &job.account.missing {
            Missing::Nothing => {}
            Missing::AnyOf(keys) | Missing::AllOf(keys) => keys.iter().for_each(|key| self.tell_awaited(key)),
        }
        if job.phase == Phase::Queued {
            for before in awaited_members(self.scene, name) {
                let key = EventKey { code: EventCode::Ready, source: Source::Job(Arc::clone(before)) };
                self.tell_other(before, &key);
            }
        }
        self.path.pop();
    }

    fn tell_one(&mut self, name: &Arc<str>, job: &JobStatus) {
        let Told { sentences, advice, next_try } = tell(self.scene, name, job, self.told.len() == 1);
        self.sentences.extend(sentences);
        self.advice.push(advice);
        self.next_try = self.next_try.or(next_try);
        self.causes.extend(job.account.cause);
        if job.account.failed && job.account.stop_reason.is_none() && job.phase != Phase::Running {
            self.failed = Some(Arc::clone(name));
        }
        self.tell_registration(name, job);
    }

    fn advise(&mut self, advice: String) {
        self.advice.push(vec![advice]);
    }

    /// The state of what is waited for.
    fn tell_awaited(&mut self, key: &EventKey) {
        match &key.source {
            Source::Job(name) | Source::Check(name) => self.tell_other(name, key),
            Source::Watch(name) => self.tell_watch(name),
            Source::Group(name) => self.tell_group(name, key),
            Source::Signal(signal) => self.advise(format!(
                "nothing, unless you want it to run now: then send {signal} to the program, or start it by hand"
            )),
            Source::Global => {
                if key.code == EventCode::Shutdown {
                    self.advise("nothing: it runs when the program ends".to_owned());
                }
            }
        }
    }

    /// The first member of a group that is not as it is waited for, or why the event of the group has not come.
    fn tell_group(&mut self, name: &Arc<str>, key: &EventKey) {
        let members = self.scene.overview.groups.iter().find(|group| group.name == *name);
        let jobs = members.map(|group| group.jobs.clone()).unwrap_or_default();
        let lacks = |job: &JobStatus| match key.code {
            EventCode::Healthy => !job.checks.is_empty() && job.health != Health::Healthy,
            EventCode::Stopped => !matches!(job.phase, Phase::Halted | Phase::Complete),
            EventCode::Unhealthy | EventCode::ExitFailed => false,
            EventCode::Ready
            | EventCode::Startup
            | EventCode::Shutdown
            | EventCode::ExitSuccess
            | EventCode::Changed
            | EventCode::Stopping
            | EventCode::EnterMaintenance
            | EventCode::ExitMaintenance
            | EventCode::Signal => !job.ready,
        };
        match jobs.iter().find(|job| self.scene.job(job).is_some_and(lacks)) {
            Some(job) => self.tell_other(job, key),
            None if key.code == EventCode::Unhealthy => {
                self.sentences.push(format!("No job of the group {name} is unhealthy."));
            }
            None if key.code == EventCode::ExitFailed => {
                self.sentences.push(format!("The group {name} has not given up."));
            }
            None => {}
        }
    }

    fn tell_other(&mut self, name: &Arc<str>, key: &EventKey) {
        if let Some(at) = self.path.iter().position(|job| job == name) {
            if self.path.iter().skip(at).all(|job| self.is_bound(job)) {
                self.tell_circle(at);
            }
            return;
        }
        if self.told.contains(name) || self.path.len() >= DEEPEST {
            return;
        }
        let Some(job) = self.scene.job(name) else {
            return self.sentences.push(format!("There is no job {name} any more."));
        };
        self.tell(name, job);
        if let Some(sentence) = self.why_not_yet(name, job, key) {
            self.sentences.push(sentence);
        }
    }

    /// Why a job that is well has not had the event that is waited for.
    fn why_not_yet(&self, name: &str, job: &JobStatus, key: &EventKey) -> Option<String> {
        let runs = job.phase == Phase::Running;
        match key.code {
            EventCode::ExitSuccess | EventCode::ExitFailed | EventCode::Stopping | EventCode::Stopped
                if runs =>
            {
                Some(format!("{name} has not ended."))
            }
            EventCode::Healthy if runs && job.checks.is_empty() => {
                Some(format!("{name} has no health check, so it never becomes healthy."))
            }
            EventCode::Ready if runs && !job.ready => Some(if job.tells_ready {
                format!("{name} has not told that it is ready.")
            } else {
                format!("{name} has not been healthy in this run.")
            }),
            EventCode::ExitSuccess if job.phase == Phase::Complete && job.has_run && !job.account.failed => {
                Some(format!("{name} succeeded before this job was there to see it."))
            }
            EventCode::Startup
            | EventCode::Shutdown
            | EventCode::ExitSuccess
            | EventCode::ExitFailed
            | EventCode::Ready
            | EventCode::Healthy
            | EventCode::Unhealthy
            | EventCode::Changed
            | EventCode::Stopping
            | EventCode::Stopped
            | EventCode::EnterMaintenance
            | EventCode::ExitMaintenance
            | EventCode::Signal => None,
        }
    }

    /// Whether a job cannot start without the one that the story went on with: nothing else starts it, and it waits without a
    /// time limit, after which others could start.
    fn is_bound(&self, name: &Arc<str>) -> bool {
        let has_limit = self.scene.spec_of(name).is_some_and(|spec| spec.when.timeout.is_some());
        let is_only_way = |job: &JobStatus| match &job.account.missing {
            Missing::Nothing => false,
            Missing::AnyOf(keys) => keys.len() == 1,
            Missing::AllOf(_) => true,
        };
        !has_limit && self.scene.job(name).is_some_and(|job| !job.has_run && is_only_way(job))
    }

    fn tell_circle(&mut self, at: usize) {
        let circle: Vec<String> = self.path.iter().skip(at).map(ToString::to_string).collect();
        let text = match circle.as_slice() {
            [one] => format!("{one} waits for itself, so nothing can start it."),
            several => format!(
                "{} wait for each other in a circle, so nothing can start them.",
                list(several, "and")
            ),
        };
        if !self.sentences.contains(&text) {
            self.sentences.push(text);
            self.advise("change `when` of one of them, and reload".to_owned());
        }
    }

    /// A coprocess that a watch waits for.
    fn coprocess_before(&self, watch: &str) -> Option<Arc<str>> {
        let waits = |spec: &&WatchSpec| *spec.name == *watch && spec.after_coprocesses;
        self.scene.spec.watches.iter().find(waits)?;
        let is_open = |job: &&Arc<JobSpec>| {
            let is_unstarted =
                |job: &JobStatus| job.starting || (job.phase == Phase::Waiting && !job.has_run);
            job.kind == JobKind::Coprocess && self.scene.job(&job.name).is_some_and(is_unstarted)
        };
        self.scene.spec.jobs.iter().find(is_open).map(|job| job.name.clone())
    }

    fn tell_waiting_watch(&mut self, name: &str, coprocess: &Arc<str>) {
        self.sentences.push(format!(
            "The watch {name} has not begun: it waits until the coprocess {coprocess} has been started."
        ));
        self.advise(format!("see why that is with `containerpilot why {coprocess}`"));
    }

    fn tell_watch(&mut self, name: &str) {
        let known = self.scene.overview.watches.get(name);
        let failure = self.scene.overview.discovery.failures.get(&*format!("watch.{name}"));
        let text = match (known, failure) {
            (_, Some(failure)) => {
                format!("Consul is in trouble, so nothing is known of {name}: {}.", failure.reason)
            }
            (None, None) => format!("There is no watch {name}."),
            (Some(watch), None) if !watch.known => match self.coprocess_before(name) {
                Some(coprocess) => return self.tell_waiting_watch(name, &coprocess),
                None => format!("Consul has not answered yet about {name}."),
            },
            (Some(watch), None) if watch.instances.is_empty() => {
                format!("Consul knows no healthy instance of {name}.")
            }
            (Some(watch), None) => {
                format!("Consul knows {} healthy instances of {name}.", watch.instances.len())
            }
        };
        self.sentences.push(text);
        self.advise(failure.map_or("see what Consul knows of it", remedy).to_owned());
    }

    /// Whether Consul knows of a job that is advertised.
    fn tell_registration(&mut self, name: &str, job: &JobStatus) {
        let Some(failure) = self.scene.overview.discovery.failures.get(name) else { return };
        if job.advertised.is_some() && job.phase == Phase::Running {
            let reason = &failure.reason;
            self.sentences.push(format!("Consul may not know {name}, because it is in trouble: {reason}."));
            self.advise(remedy(failure).to_owned());
        }
    }

    /// The paragraph: the job and what is behind it, what holds for the whole program, what to do.
    fn summary(&self, job: &JobStatus) -> String {
        let overview = self.scene.overview;
        let mut sentences = self.sentences.clone();
        match self.hidden {
            0 => {}
            1 => sentences.push("One more job is in this chain.".to_owned()),
            number => sentences.push(format!("{number} more jobs are in this chain.")),
        }
        if overview.shutting_down
            && !job.account.stop_reason.as_deref().unwrap_or_default().contains("shuts down")
        {
            sentences.push("The program is shutting down.".to_owned());
        }
        if let Some(time) = overview.refused_reload {
            let time = clock(time, self.scene.now);
            sentences.push(format!(
                "The reload at {time} was refused, so the configuration before it is still in force: see `containerpilot check`."
            ));
        }
        // Those about the root cause come last in the story, and first in what to do.
        let mut advice: Vec<&String> = Vec::new();
        for piece in self.advice.iter().rev().flatten() {
            if !advice.contains(&piece) && advice.len() < MOST_ADVICE {
                advice.push(piece);
            }
        }
        if !advice.is_empty() {
            let advice: Vec<&str> = advice.into_iter().map(String::as_str).collect();
            let advice = advice.join("; ");
            sentences.push(format!("What to do: {}.", advice.strip_prefix("then ").unwrap_or(&advice)));
        }
        sentences.join(" ")
    }
}
