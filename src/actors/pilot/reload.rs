//! The Pilot reloads: loads and validates first, then carries out the [`plan`] step by step. Requests that come
//! meanwhile are answered together by one more reload.

use std::collections::HashSet;
use std::sync::Arc;

use actix::prelude::*;
use slog::{info, warn};
use tokio::sync::oneshot;

use super::plan::{Plan, next_to_stop, plan};
use super::{Pilot, Stage, configure_environment, facts};
use crate::actors::web_server::{AdoptListeners, DiscardListeners, PrepareListeners, WebServer};
use crate::config::spec::{JobSpec, Spec};
use crate::logging::PreparedLog;
use crate::messages::control::{Refusal, Reload, ReloadSummary};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::job::JobCommand;
use crate::offload;

/// Where the outcome of a reload goes.
pub type Answer = oneshot::Sender<Result<ReloadSummary, Refusal>>;

/// Reloads that were asked for and have not begun.
#[derive(Default)]
pub struct Requests {
    /// One was asked for.
    pending: bool,
    restart_all: bool,
    waiting: Vec<Answer>,
    /// A configuration is being loaded.
    loading: bool,
}

/// A reload under way: the old jobs are stopping.
pub struct Reloading {
    spec: Arc<Spec>,
    jobs: Vec<Arc<JobSpec>>,
    plan: Plan,
    told: Vec<bool>,
    log: PreparedLog,
    answers: Vec<Answer>,
}

impl Pilot {
    pub(super) fn request_reload(&mut self, reload: Reload, answer: Option<Answer>, ctx: &mut Context<Self>) {
        if reload.dry_run {
            return self.load(answer.into_iter().collect(), reload, ctx);
        }
        self.requests.restart_all |= reload.restart_all;
        self.requests.waiting.extend(answer);
        self.requests.pending = true;
        self.reload_next(ctx);
    }

    /// Begins the next reload, if one was asked for and none is under way.
    pub(super) fn reload_next(&mut self, ctx: &mut Context<Self>) {
        if !self.requests.pending || self.requests.loading || !matches!(self.stage, Stage::Running) {
            return;
        }
        self.requests.pending = false;
        self.requests.loading = true;
        let answers = std::mem::take(&mut self.requests.waiting);
        let restart_all = std::mem::take(&mut self.requests.restart_all);
        self.load(answers, Reload { restart_all, dry_run: false }, ctx);
    }

    /// Reads and validates on another thread: a slow disk or user database must not stop us.
    fn load(&self, answers: Vec<Answer>, reload: Reload, ctx: &mut Context<Self>) {
        let load = Arc::clone(&self.tools.load);
        let environment = self.tools.environ.borrow().for_templates();
        let loaded = offload::run(move || load(&environment));
        ctx.spawn(fut::wrap_future(loaded).map(move |outcome, pilot: &mut Self, ctx| {
            let outcome =
                outcome.unwrap_or_else(|error| Err(format!("cannot load the configuration: {error}")));
            if reload.dry_run {
                pilot.answer_dry_run(answers, outcome, reload);
            } else {
                pilot.prepare(answers, outcome, reload, ctx);
            }
        }));
    }

    /// Lets the WebServer bind the listeners that the configuration needs, before anything changes.
    fn prepare(
        &self,
        answers: Vec<Answer>,
        outcome: Result<Spec, String>,
        reload: Reload,
        ctx: &mut Context<Self>,
    ) {
        if !matches!(self.stage, Stage::Running) {
            return answer_all(answers, &Err(not_now()));
        }
        let checked = outcome.and_then(|spec| (self.tools.check)(&self.spec, &spec).map(|()| Arc::new(spec)));
        let web_server = self.tools.web_server.clone();
        let prepared = async move {
            let spec = checked?;
            if let Some(web_server) = web_server {
                let reply = web_server.send(PrepareListeners(Arc::clone(&spec))).await;
                reply.map_err(|error| format!("cannot prepare the listeners: {error}"))??;
            }
            Ok(spec)
        };
        ctx.spawn(fut::wrap_future(prepared).map(move |outcome, pilot: &mut Self, ctx| {
            pilot.requests.loading = false;
            pilot.begin_reload(answers, outcome, reload, ctx);
        }));
    }

    fn answer_dry_run(&self, answers: Vec<Answer>, outcome: Result<Spec, String>, reload: Reload) {
        let outcome = outcome.map_err(Refusal::BadConfiguration).map(|spec| {
            summary(&plan(&self.crew.specs(), &spec.jobs, &self.crew.halted(), reload.restart_all))
        });
        answer_all(answers, &outcome);
    }

    fn begin_reload(
        &mut self,
        answers: Vec<Answer>,
        outcome: Result<Arc<Spec>, String>,
        reload: Reload,
        ctx: &mut Context<Self>,
    ) {
        if !matches!(self.stage, Stage::Running) {
            return answer_all(answers, &Err(not_now()));
        }
        let prepare_log = |spec: Arc<Spec>| match self.tools.log.prepare(&spec.logging) {
            Ok(log) => Ok((spec, log)),
            Err(error) => Err(error.to_string()),
        };
        let (spec, log) = match outcome.and_then(prepare_log) {
            Ok(prepared) => prepared,
            Err(report) => {
                self.tell_web_server(DiscardListeners);
                warn!(
                    self.tools.log.logger(),
                    "the configuration was not reloaded, everything goes on as it was:\n{report}"
                );
                answer_all(answers, &Err(Refusal::BadConfiguration(report)));
                return self.reload_next(ctx);
            }
        };
        let jobs = spec.jobs.clone();
        self.crew.resolve_needs();
        let plan = plan(&self.crew.specs(), &jobs, &self.crew.halted(), reload.restart_all);
        let told = vec![false; plan.stop.len()];
        self.stage = Stage::Reloading(Reloading { spec, jobs, plan, told, log, answers });
        self.go_on_reloading(ctx);
    }

    fn tell_web_server<M>(&self, message: M)
    where
        M: Message<Result = ()> + Send + 'static,
        WebServer: Handler<M>,
    {
        if let Some(web_server) = &self.tools.web_server {
            web_server.do_send(message);
        }
    }

    /// Tells the next of the old jobs to stop; when all are gone, the new ones begin.
    pub(super) fn go_on_reloading(&mut self, ctx: &mut Context<Self>) {
        let Stage::Reloading(reloading) = &mut self.stage else { return };
        let views: Vec<_> = reloading
            .plan
            .stop
            .iter()
            .map(|name| self.crew.find(name).and_then(|index| self.crew.views().get(index)))
            .collect();
        let living: Vec<bool> =
            views.iter().map(|view| view.is_some_and(|view| !view.is_complete())).collect();
        if living.iter().any(|living| *living) {
            let needs: Vec<Vec<Arc<str>>> =
                views.iter().map(|view| view.map(|view| view.needs.clone()).unwrap_or_default()).collect();
            for index in next_to_stop(&needs, &reloading.plan.stop, &living, &reloading.told) {
                if let (Some(told), Some(name)) =
                    (reloading.told.get_mut(index), reloading.plan.stop.get(index))
                {
                    *told = true;
                    if let Some(index) = self.crew.find(name) {
                        self.crew.tell(index, JobCommand::Stop { cause: None, in_shutdown: false });
                    }
                }
            }
            return;
        }
        if let Stage::Reloading(reloading) = std::mem::replace(&mut self.stage, Stage::Running) {
            self.finish_reload(reloading, ctx);
        }
    }

    fn finish_reload(&mut self, reloading: Reloading, ctx: &mut Context<Self>) {
        let Reloading { spec, jobs, plan, log, answers, .. } = reloading;
        let old = std::mem::replace(&mut self.spec, Arc::clone(&spec));
        self.tools.log.adopt(log);
        self.tell_web_server(AdoptListeners);
        configure_environment(&mut self.tools.environ.borrow_mut(), &spec);
        let started: HashSet<&str> = plan.start.iter().map(|name| &**name).collect();
        let stopped: HashSet<&str> = plan.stop.iter().map(|name| &**name).collect();
        self.generation += 1;
        for name in stopped.iter().filter_map(|name| self.crew.find(name)) {
            self.crew.tell(name, JobCommand::Retire);
        }
        let mut facts = facts::known(self.crew.views(), &self.tools.board.read(), &stopped);
        facts.retain(|key| facts::is_observed_still(key, &old, &spec));
        let fresh: Vec<&Arc<JobSpec>> = jobs.iter().filter(|job| started.contains(&*job.name)).collect();
        {
            let mut board = self.tools.board.write();
            board.jobs.retain(|name, _| !stopped.contains(&**name));
        }
        let hands = fresh.iter().map(|job| (self.tools.hire)(job, self.generation)).collect();
        let order: Vec<Arc<str>> = jobs.iter().map(|job| job.name.clone()).collect();
        for hand in self.crew.change(|name| !stopped.contains(&**name), hands, &order) {
            self.tools.forget(&hand);
        }
        self.welcome(&fresh, &facts);
        // After the jobs: watches begin when coprocesses have started.
        self.tools.reconfigure(&old, &spec, &facts);
        let summary = summary(&plan);
        info!(self.tools.log.logger(), "reloaded"; "started" => summary.started.join(" "),
            "stopped" => summary.stopped.join(" "), "kept" => summary.kept.len());
        answer_all(answers, &Ok(summary));
        self.decide_soon(ctx);
        self.reload_next(ctx);
    }

    /// Tells new jobs of `startup`, and of what has come before them and still holds.
    fn welcome(&self, fresh: &[&Arc<JobSpec>], facts: &HashSet<EventKey>) {
        let startup = self.tools.bus.private(EventKey { code: EventCode::Startup, source: Source::Global });
        for job in fresh {
            let Some(notices) = self.crew.find(&job.name).and_then(|index| self.crew.notices(index)) else {
                continue;
            };
            if self.maintenance {
                self.crew.find(&job.name).into_iter().for_each(|index| {
                    self.crew.tell(index, JobCommand::Maintain(true));
                });
            }
            notices.do_send(startup.clone());
            for key in facts::wanted(&job.when.trigger).iter().filter(|key| facts.contains(key)) {
                notices.do_send(self.tools.bus.private(key.clone()));
            }
        }
    }

    /// No reload will be carried out any more.
    pub(super) fn refuse_reloads(&mut self) {
        // Also right if the WebServer is still preparing: it handles messages in order.
        self.tell_web_server(DiscardListeners);
        let waiting = std::mem::take(&mut self.requests.waiting);
        answer_all(waiting, &Err(not_now()));
        if let Stage::Reloading(reloading) = &mut self.stage {
            let answers = std::mem::take(&mut reloading.answers);
            answer_all(answers, &Err(not_now()));
        }
    }
}

fn not_now() -> Refusal {
    Refusal::NotNow("the program is shutting down".into())
}

fn summary(plan: &Plan) -> ReloadSummary {
    let texts = |names: &[Arc<str>]| names.iter().map(|name| name.to_string()).collect();
    ReloadSummary { started: texts(&plan.start), stopped: texts(&plan.stop), kept: texts(&plan.keep) }
}

fn answer_all(answers: Vec<Answer>, outcome: &Result<ReloadSummary, Refusal>) {
    for answer in answers {
        let _ = answer.send(outcome.clone());
    }
}
