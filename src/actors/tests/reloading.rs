//! Reload, maintenance and control by hand.

use super::*;
use crate::config::spec::{Limit, StopBudget};
use crate::messages::control::{
    ChangeEnvironment, ControlJob, JobOrder, Refusal, Reload, ReloadSummary, SetMaintenance,
};
use crate::messages::health::Health;
use crate::messages::job::Phase;

impl Scene {
    async fn reload(&self) -> Result<ReloadSummary, Refusal> {
        self.ask(Reload { restart_all: false, dry_run: false }).await
    }

    async fn ask(&self, reload: Reload) -> Result<ReloadSummary, Refusal> {
        self.pilot.send(reload).await.unwrap()
    }

    async fn order(&self, name: &str, order: JobOrder) -> Result<(), Refusal> {
        let answer = self.pilot.send(ControlJob { name: name.into(), order }).await.unwrap();
        self.settle().await;
        answer
    }

    fn phase(&self, name: &str) -> Phase {
        self.board.read().jobs[name].phase
    }

    fn set_next(&self, jobs: Vec<JobSpec>) {
        *self.next.lock().unwrap() = spec(jobs);
    }
}

fn restarting(name: &str) -> JobSpec {
    let mut job = job(name);
    job.restarts = Limit::Unlimited;
    job
}

#[test]
fn a_reload_touches_only_what_changed() {
    let (_, scene) = play(spec(vec![job("same"), job("changed"), job("gone")]), &[], |scene| async move {
        scene.wait(100).await;
        scene.set_next(vec![job("new"), restarting("changed"), job("same")]);
        let summary = scene.reload().await.unwrap();
        assert_eq!(summary.kept, ["same"]);
        assert_eq!(summary.stopped, ["changed", "gone"]);
        assert_eq!(summary.started, ["new", "changed"]);
        scene.settle().await;
        assert!(["same", "changed", "new"].iter().all(|name| scene.fake.runs_now(name)));
        assert!(!scene.fake.runs_now("gone"));
        assert!(!scene.board.read().jobs.contains_key("gone"));
        scene.signal(Signal::TERM);
    });
    assert_eq!((scene.fake.runs("same"), scene.fake.runs("changed"), scene.fake.runs("new")), (1, 2, 1));
    assert_eq!(scene.events_of("changed")[..4], ["ready", "stopping", "exitFailed", "stopped"]);
}

#[test]
fn a_thousand_reloads_restart_nothing_that_did_not_change() {
    let (_, scene) = play(spec(vec![job("a"), job("b")]), &[], |scene| async move {
        scene.wait(100).await;
        for _ in 0..1000 {
            assert_eq!(scene.reload().await.unwrap().kept.len(), 2);
        }
        scene.signal(Signal::TERM);
    });
    assert_eq!((scene.fake.runs("a"), scene.fake.runs("b")), (1, 1));
}

#[test]
fn the_old_process_is_gone_before_the_new_one_starts() {
    let (_, scene) = play(spec(vec![job("app")]), &[("app", Manner::Stubborn)], |scene| async move {
        scene.wait(100).await;
        scene.set_next(vec![restarting("app")]);
        scene.reload().await.unwrap();
        scene.settle().await;
        scene.signal(Signal::TERM);
    });
    assert_eq!(scene.fake.runs("app"), 2);
    assert_eq!(scene.fake.most_at_once(), 1);
}

#[test]
fn a_new_job_does_not_wait_for_what_has_already_come() {
    let mut db = job("db");
    db.health = vec![health::exec_check("check", 1000)];
    let jobs = vec![db.clone(), job("setup")];
    let manners = [("check", Manner::Ends(0, 1)), ("setup", Manner::Ends(0, 1))];
    let (_, scene) = play(spec(jobs), &manners, |scene| async move {
        scene.wait(500).await;
        let both = vec![event("db", EventCode::Healthy), event("setup", EventCode::ExitSuccess)];
        scene.set_next(vec![db, job("setup"), triggered("app", Trigger::All(both))]);
        scene.reload().await.unwrap();
        scene.settle().await;
        assert!(scene.fake.runs_now("app"));
        scene.signal(Signal::TERM);
    });
    assert_eq!(scene.fake.runs("setup"), 1, "a completed job that did not change does not run again");
}

#[test]
fn a_dry_run_changes_nothing() {
    let (_, scene) = play(spec(vec![job("app")]), &[], |scene| async move {
        scene.wait(100).await;
        scene.set_next(vec![restarting("app"), job("new")]);
        let summary = scene.ask(Reload { restart_all: false, dry_run: true }).await.unwrap();
        assert_eq!(summary.started, ["app", "new"]);
        scene.wait(100).await;
        scene.signal(Signal::TERM);
    });
    assert_eq!((scene.fake.runs("app"), scene.fake.runs("new")), (1, 0));
}

#[test]
fn concurrent_reloads_collapse_and_all_are_answered() {
    let (_, scene) = play(spec(vec![job("app")]), &[("app", Manner::Slow(500))], |scene| async move {
        scene.wait(100).await;
        scene.set_next(vec![restarting("app")]);
        let asked: Vec<_> = (0..50)
            .map(|_| scene.pilot.send(Reload { restart_all: true, dry_run: false }))
            .map(actix_rt::spawn)
            .collect();
        for answer in asked {
            assert!(answer.await.unwrap().unwrap().is_ok());
        }
        scene.signal(Signal::TERM);
    });
    assert!(scene.fake.runs("app") <= 3, "{} runs", scene.fake.runs("app"));
}

#[test]
fn a_shutdown_during_a_reload_ends_it() {
    let (status, scene) = play(spec(vec![job("app")]), &[("app", Manner::Stubborn)], |scene| async move {
        scene.wait(100).await;
        scene.set_next(vec![restarting("app")]);
        let reload = actix_rt::spawn(scene.pilot.send(Reload { restart_all: false, dry_run: false }));
        scene.wait(1000).await;
        scene.signal(Signal::TERM);
        let refusal = reload.await.unwrap().unwrap();
        assert!(matches!(refusal, Err(Refusal::NotNow(_))), "{refusal:?}");
    });
    assert_eq!((status, scene.fake.runs("app")), (0, 1));
}

#[test]
fn a_reload_to_no_jobs_at_all_ends_the_program() {
    let (status, _) = play(spec(vec![job("app")]), &[], |scene| async move {
        scene.wait(100).await;
        scene.set_next(vec![]);
        scene.reload().await.unwrap();
    });
    assert_eq!(status, 0);
}

#[test]
fn an_essential_job_that_a_reload_stops_does_not_end_the_program() {
    let mut main = job("main");
    main.essential = true;
    let (_, scene) = play(spec(vec![main.clone()]), &[], |scene| async move {
        scene.wait(100).await;
        main.restarts = Limit::Finite(1);
        scene.set_next(vec![main]);
        scene.reload().await.unwrap();
        scene.wait(100).await;
        assert!(scene.fake.runs_now("main"));
        scene.signal(Signal::TERM);
    });
    assert_eq!(scene.fake.runs("main"), 2);
}

#[test]
fn the_new_stop_budget_holds_after_a_reload() {
    let (_, scene) = play(spec(vec![job("app")]), &[("app", Manner::Stubborn)], |scene| async move {
        scene.wait(100).await;
        scene.next.lock().unwrap().stop_timeout = StopBudget::Within(Duration::from_millis(200));
        scene.reload().await.unwrap();
        scene.signal(Signal::TERM);
    });
    assert!(scene.elapsed() < Duration::from_millis(600), "{:?}", scene.elapsed());
}

#[test]
fn sighup_reloads_unless_a_job_waits_for_it() {
    let (_, scene) = play(spec(vec![job("app")]), &[], |scene| async move {
        scene.wait(100).await;
        let hup = EventKey { code: EventCode::Signal, source: Source::Signal(Signal::HUP) };
        scene.set_next(vec![job("app"), triggered("hup", Trigger::Each(hup))]);
        scene.signal(Signal::HUP);
        scene.wait(100).await;
        assert_eq!((scene.fake.runs("hup"), scene.board.read().jobs.len()), (0, 2));
        scene.set_next(vec![job("app")]);
        scene.signal(Signal::HUP);
        scene.wait(100).await;
        assert_eq!((scene.fake.runs("hup"), scene.board.read().jobs.len()), (1, 2));
        scene.signal(Signal::TERM);
    });
    assert_eq!(scene.fake.runs("app"), 1);
}

#[test]
fn a_job_stopped_by_hand_stays_so_until_it_is_started_by_hand() {
    let (_, scene) = play(spec(vec![restarting("app")]), &[], |scene| async move {
        scene.wait(100).await;
        scene.order("app", JobOrder::Stop).await.unwrap();
        scene.wait(60_000).await;
        assert_eq!((scene.phase("app"), scene.fake.runs("app")), (Phase::Halted, 1));
        assert!(matches!(scene.order("app", JobOrder::Stop).await, Err(Refusal::NotNow(_))));
        scene.order("app", JobOrder::Start).await.unwrap();
        assert_eq!((scene.phase("app"), scene.fake.runs("app")), (Phase::Running, 2));
        scene.signal(Signal::TERM);
    });
    assert_eq!(scene.events_of("app")[..4], ["ready", "stopping", "exitFailed", "stopped"]);
}

#[test]
fn a_reload_starts_what_was_stopped_by_hand() {
    play(spec(vec![job("app")]), &[], |scene| async move {
        scene.wait(100).await;
        scene.order("app", JobOrder::Stop).await.unwrap();
        scene.wait(100).await;
        scene.reload().await.unwrap();
        scene.settle().await;
        assert!(scene.fake.runs_now("app"));
        scene.signal(Signal::TERM);
    });
}

#[test]
fn a_job_is_restarted_and_signalled_by_hand() {
    let (_, scene) = play(spec(vec![job("app")]), &[("app", Manner::Stubborn)], |scene| async move {
        scene.wait(100).await;
        scene.order("app", JobOrder::Signal(Signal::USR1)).await.unwrap();
        assert_eq!(scene.fake.signals_to("app"), [Signal::USR1]);
        scene.order("app", JobOrder::Restart).await.unwrap();
        scene.wait(5100).await;
        assert!(matches!(scene.order("nobody", JobOrder::Start).await, Err(Refusal::NoSuchJob(_))));
        scene.signal(Signal::TERM);
    });
    assert_eq!(scene.fake.runs("app"), 2);
}

#[test]
fn a_periodic_job_started_by_hand_again_keeps_its_rhythm() {
    let mut task = triggered("task", Trigger::Interval(Duration::from_secs(1)));
    task.restarts = Limit::Unlimited;
    play(spec(vec![task]), &[("task", Manner::Ends(0, 1))], |scene| async move {
        scene.wait(1500).await;
        scene.order("task", JobOrder::Stop).await.unwrap();
        scene.wait(5000).await;
        assert_eq!(scene.fake.runs("task"), 2);
        scene.order("task", JobOrder::Start).await.unwrap();
        scene.wait(3500).await;
        assert_eq!(scene.fake.runs("task"), 6);
        scene.signal(Signal::TERM);
    });
}

#[test]
fn nothing_is_checked_in_maintenance_and_everything_after_it() {
    let mut app = job("app");
    app.health = vec![health::exec_check("check", 1000)];
    let next = app.clone();
    let enter = EventKey { code: EventCode::EnterMaintenance, source: Source::Global };
    let jobs = vec![app, triggered("hook", Trigger::Each(enter))];
    let manners = [("check", Manner::Ends(0, 1)), ("hook", Manner::Ends(0, 1))];
    let (_, scene) = play(spec(jobs), &manners, |scene| async move {
        scene.wait(500).await;
        assert!(scene.pilot.send(SetMaintenance(true)).await.unwrap());
        assert!(!scene.pilot.send(SetMaintenance(true)).await.unwrap(), "idempotent");
        scene.settle().await;
        let checks = scene.fake.runs("check");
        scene.wait(10_000).await;
        assert_eq!((scene.fake.runs("check"), scene.fake.runs("hook")), (checks, 1));
        assert_eq!(scene.board.read().jobs["app"].health, Health::Maintenance);
        scene.set_next(vec![JobSpec { restarts: Limit::Finite(7), ..next }]);
        scene.reload().await.unwrap();
        scene.wait(10_000).await;
        assert_eq!(scene.fake.runs("check"), checks, "maintenance survives a reload");
        assert!(scene.pilot.send(SetMaintenance(false)).await.unwrap());
        scene.wait(500).await;
        assert_eq!(scene.board.read().jobs["app"].health, Health::Healthy);
        scene.signal(Signal::TERM);
    });
    assert_eq!(scene.events_of("app").iter().filter(|event| *event == "healthy").count(), 2);
}

#[test]
fn the_environment_set_by_a_job_is_seen_by_those_started_later() {
    let after = triggered("app", Trigger::Once(event("setup", EventCode::ExitSuccess)));
    let (_, scene) =
        play(spec(vec![job("setup"), after]), &[("setup", Manner::Ends(0, 200))], |scene| async move {
            scene.wait(100).await;
            scene
                .pilot
                .send(ChangeEnvironment(vec![("FOUND".into(), Some("1".into()))]))
                .await
                .unwrap()
                .unwrap();
            scene.wait(200).await;
            scene.signal(Signal::TERM);
        });
    assert!(scene.fake.started("app")[0].environment.contains_key(std::ffi::OsStr::new("FOUND")));
    assert!(!scene.fake.started("setup")[0].environment.contains_key(std::ffi::OsStr::new("FOUND")));
}
