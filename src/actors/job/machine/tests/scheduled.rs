//! Jobs that the clock starts: cron schedules, and intervals that leave out the run at startup.

use super::schedule::NextRun;
use super::*;
use crate::config::schedule::CronSpec;
use crate::config::schedule::cron::Pattern;
use crate::config::schedule::zone::Zone;
use crate::messages::process::Unstarted;

const MINUTE: u64 = 60_000;

pub(super) fn cron(text: &str) -> JobSpec {
    let schedule = CronSpec {
        text: text.to_owned(),
        pattern: Pattern::parse(text).unwrap(),
        zone: Zone::utc(),
        jitter: Duration::ZERO,
        catch_up: false,
    };
    JobSpec { restarts: Limit::Unlimited, ..with_trigger(Trigger::Cron(Arc::new(schedule))) }
}

fn begun(spec: JobSpec) -> (Job, Vec<Action>) {
    let mut job = Job::of(spec);
    job.on(Input::Created);
    let actions = job.happens(startup());
    (job, actions)
}

impl Job {
    /// The clocks go on, and the timer of the schedule elapses.
    fn clock_goes_on(&mut self, milliseconds: u64) -> Vec<Action> {
        self.after(milliseconds);
        self.clocks.wall = self.clocks.wall.plus(ms(milliseconds));
        self.clocks.since_boot += ms(milliseconds);
        self.on(Input::ClockRead(self.clocks))
    }
}

fn clock_starts(actions: &[Action]) -> Vec<i64> {
    let started =
        |action: &Action| if let Action::StartClock(at) = action { Some(at.seconds()) } else { None };
    actions.iter().filter_map(started).collect()
}

#[test]
fn a_schedule_begins_at_startup_and_starts_nothing_then() {
    let (job, actions) = begun(cron("*/5 * * * *"));
    assert!(actions.contains(&Action::ReadClock) && !is_launched(&actions));
    assert_eq!(clock_starts(&actions), [300]);
    assert_eq!(job.state.next_run(job.now), Some(NextRun::At(WallTime::from_seconds(300))));
    let told = actions.iter().any(|action| matches!(action, Action::Report(change) if change.missing == crate::messages::job::Missing::Nothing));
    assert!(told, "the Pilot must not take it for one that waits in vain");
}

#[test]
fn each_due_time_runs_the_job_once_and_arms_the_next() {
    let (mut job, _) = begun(cron("* * * * *"));
    for minute in 1..=3 {
        let actions = job.clock_goes_on(MINUTE);
        assert!(is_launched(&actions));
        assert_eq!(clock_starts(&actions), [(minute + 1) * 60]);
        job.starts();
        assert!(!is_launched(&job.ends(u8::from(minute == 2))), "a failure waits for the next tick");
    }
    assert_eq!(job.state.status().missed_runs, Some(0));
}

#[test]
fn the_first_run_of_a_schedule_is_no_restart() {
    let (mut job, _) = begun(JobSpec { restarts: Limit::Finite(1), ..cron("* * * * *") });
    for _ in 0..2 {
        assert!(is_launched(&job.clock_goes_on(MINUTE)));
        job.starts();
        job.ends(0);
    }
    assert_eq!(job.state.life.phase, Phase::Complete);
    assert_eq!(job.state.next_run(job.now), None);
}

#[test]
fn a_run_whose_program_is_not_found_in_time_counts_all_the_same() {
    let spec = JobSpec { restarts: Limit::Finite(1), timeout: Some(ms(100)), ..cron("* * * * *") };
    let (mut job, _) = begun(spec);
    for _ in 0..2 {
        assert!(is_launched(&job.clock_goes_on(MINUTE)));
        let cancelled = ProcessEnded { pid: None, unstarted: Some(Unstarted::Cancelled), ..job.ended(0) };
        job.on(Input::Ended(cancelled));
    }
    assert_eq!(job.state.life.phase, Phase::Complete);
}

#[test]
fn a_tick_that_finds_the_run_alive_is_skipped_and_counted() {
    let (mut job, _) = begun(cron("* * * * *"));
    job.clock_goes_on(MINUTE);
    job.starts();
    let actions = job.clock_goes_on(MINUTE);
    assert!(!is_launched(&actions) && actions.contains(&Action::Show));
    assert_eq!(job.state.status().missed_runs, Some(1));
    job.ends(0);
    assert!(is_launched(&job.clock_goes_on(MINUTE)));
}

#[test]
fn runs_that_a_pause_left_out_are_told() {
    let (mut job, _) = begun(cron("* * * * *"));
    job.clock_goes_on(10 * MINUTE + 30_000);
    assert_eq!(job.state.status().missed_runs, Some(9), "the last one is on time");
    job.starts();
    job.ends(0);
    let actions = job.clock_goes_on(200 * 365 * 24 * 60 * MINUTE);
    assert!(logged(&actions).iter().any(|(severity, _)| *severity == Severity::Warning));
}

#[test]
fn a_stop_ends_the_schedule_and_a_start_by_hand_begins_it_anew() {
    let (mut job, _) = begun(cron("* * * * *"));
    assert!(job.told(JobCommand::Halt).contains(&Action::StopClock));
    assert_eq!(job.on(Input::ClockRead(job.clocks)), [], "too late");
    let actions = job.told(JobCommand::Start);
    assert!(is_launched(&actions) && actions.contains(&Action::ReadClock));
    assert_eq!(clock_starts(&actions), [60]);
    let actions = job.told(STOP);
    assert!(!actions.contains(&Action::StopClock), "not before it is over");
    job.starts();
    job.on(Input::HoldReleased(job.state.holds));
    assert!(job.ends(0).contains(&Action::StopClock));
}

#[test]
fn a_schedule_that_never_comes_says_so() {
    let (_, actions) = begun(cron("0 0 30 2 *"));
    assert_eq!(logged(&actions), [(Severity::Warning, "will not run: its schedule never comes")]);
    assert!(clock_starts(&actions).is_empty());
}

#[test]
fn an_interval_can_leave_out_the_run_at_startup() {
    let mut spec = JobSpec { restarts: Limit::Finite(1), ..with_trigger(Trigger::Interval(ms(500))) };
    spec.when.skips_startup = true;
    let (mut job, actions) = begun(spec);
    assert!(!is_launched(&actions) && actions.contains(&Action::StartSchedule(ms(500))));
    assert_eq!(job.state.next_run(job.now), Some(NextRun::In(ms(500))));
    for _ in 0..2 {
        job.after(500);
        assert!(is_launched(&job.on(Input::ScheduleElapsed)));
        job.starts();
        job.ends(0);
    }
    assert_eq!(job.state.life.phase, Phase::Complete, "one run and one restart");
}

#[test]
fn the_second_run_of_a_schedule_is_a_restart_however_long_the_first_took() {
    let spec = JobSpec { restarts: Limit::Finite(1), ..cron("*/10 * * * *") };
    let (mut job, _) = begun(spec);
    for (until_due, is_last) in [(10 * MINUTE, false), (5 * MINUTE, true)] {
        assert!(is_launched(&job.clock_goes_on(until_due)));
        job.starts();
        job.clock_goes_on(5 * MINUTE);
        job.ends(0);
        assert_eq!(job.state.life.phase == Phase::Complete, is_last);
    }
}

#[test]
fn a_start_by_hand_does_not_begin_a_clock_that_waits_for_another_job() {
    let interval = with_trigger(Trigger::Interval(ms(MINUTE)));
    let db = EventKey { code: EventCode::Ready, source: Source::Job("db".into()) };
    for mut spec in [cron("* * * * *"), interval] {
        spec.when.after = vec![db.clone()];
        let (mut job, _) = begun(spec);
        let begins = |actions: &[Action]| {
            actions.iter().any(|action| matches!(action, Action::ReadClock | Action::StartSchedule(_)))
        };
        assert!(!begins(&job.told(JobCommand::Start)));
        assert!(begins(&job.happens(db.clone())));
    }
}

#[test]
fn a_start_by_hand_leaves_the_clock_of_a_schedule_alone() {
    let (mut job, _) = begun(cron("* * * * *"));
    assert!(!job.told(JobCommand::Start).contains(&Action::ReadClock));
}
