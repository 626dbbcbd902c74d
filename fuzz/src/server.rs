//! Our own servers, the control socket and the telemetry port, without their listeners: connections are socket pairs. The
//! Pilot behind them only replies.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_web::web::Data;
use containerpilot::actors::web_server::connection::{Serve, serving};
use containerpilot::actors::web_server::connections::Connections;
use containerpilot::actors::web_server::event_log::EventLog;
use containerpilot::actors::web_server::inquiry::{Inquire, Knowledge};
use containerpilot::actors::web_server::page::feed::Feed;
use containerpilot::actors::web_server::{Api, AppState, PilotLink, application};
use containerpilot::config::spec::Spec;
use containerpilot::config::{System as Machine, load_text};
use containerpilot::logging::KeptOutput;
use containerpilot::messages::control::{
    ChangeEnvironment, ControlJob, Refusal, Reload, ReloadSummary, SetMaintenance,
};
use containerpilot::messages::crashes::Dossiers;
use containerpilot::messages::event::{Detail, Event, EventCode, EventKey, Source};
use containerpilot::messages::job::Phase;
use containerpilot::messages::status::{Board, JobStatus, Layout};
use containerpilot::metrics::Recorder;
use tokio::net::UnixStream;
use tokio::time::Instant;

const CONFIGURATION: &str = "{
    jobs: [{name: 'app', exec: 'app', restarts: 'unlimited'}],
    telemetry: {port: 9090, interfaces: ['static:127.0.0.1'], metrics: [
        {namespace: 'count', name: 'total', help: 'x', type: 'counter'},
        {name: 'level', help: 'x', type: 'gauge'},
        {name: 'time', help: 'x', type: 'histogram'},
        {name: 'summary', help: 'x', type: 'summary'},
    ]},
}";

/// Both servers, over one state.
pub struct Servers {
    control: Serve,
    telemetry: Serve,
    state: Data<AppState>,
    events: u64,
}

impl Servers {
    /// Servers of a program with one job, which is not ready.
    pub async fn new() -> Self {
        let state = Data::new(state());
        let control = serving(application(Api::Control, state.clone())).await.expect("an application");
        let telemetry = serving(application(Api::Telemetry, state.clone())).await.expect("an application");
        Self { control, telemetry, state, events: 0 }
    }

    /// A connection to one of the servers, among these.
    pub fn connect(&self, api: Api, connections: &Connections) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().expect("two sockets");
        let serve = if api == Api::Control { &self.control } else { &self.telemetry };
        connections.add(Box::new(theirs), serve);
        ours
    }

    /// Publishes an event.
    pub fn publish(&mut self) {
        self.events += 1;
        let key = EventKey { code: EventCode::Healthy, source: Source::Job("app".into()) };
        let (sequence, time, detail) = (self.events, SystemTime::UNIX_EPOCH, Detail::default());
        self.state.events.push(Arc::new(Event { sequence, time, cause: None, key, detail }));
    }
}

fn state() -> AppState {
    let (board, recorder) = (Board::default(), Recorder::default());
    let loaded = load_text("fuzz.json5", CONFIGURATION, &BTreeMap::new(), &Machine::default());
    let spec = Arc::new(loaded.unwrap_or_else(|report| panic!("{report}")).spec);
    recorder.metrics().reconfigure(&spec.telemetry.as_ref().expect("telemetry").metrics);
    let pilot = Pilot(spec).start();
    let job = JobStatus { required: true, ..JobStatus::new(Phase::Waiting) };
    board.write().jobs.insert("app".into(), Arc::new(job));
    let stop_budget = Duration::from_secs(5);
    board.write().layout =
        Layout { jobs: vec!["app".into()], watches: Vec::new(), telemetry: None, stop_budget };
    AppState {
        pilot: PilotLink {
            reload: pilot.clone().recipient(),
            job: pilot.clone().recipient(),
            maintenance: pilot.clone().recipient(),
            environment: pilot.clone().recipient(),
            inquiry: pilot.recipient(),
        },
        board,
        recorder,
        events: EventLog::default(),
        kept: KeptOutput::default(),
        dossiers: Dossiers::default(),
        queued: Rc::new(Cell::new(0)),
        started: Instant::now(),
        sink: None,
        feed: Feed::default(),
    }
}

/// Replies as agreed: the job `ghost` does not exist, `busy` cannot. It knows the configuration.
struct Pilot(Arc<Spec>);

impl Actor for Pilot {
    type Context = Context<Self>;
}

impl Handler<Inquire> for Pilot {
    type Result = MessageResult<Inquire>;

    fn handle(&mut self, _: Inquire, _: &mut Context<Self>) -> Self::Result {
        MessageResult(Knowledge { spec: Arc::clone(&self.0), awaited: BTreeMap::new() })
    }
}

impl Handler<Reload> for Pilot {
    type Result = Result<ReloadSummary, Refusal>;

    fn handle(&mut self, reload: Reload, _: &mut Context<Self>) -> Self::Result {
        if reload.restart_all {
            return Err(Refusal::BadConfiguration("error: jobs[0] is wrong\n  \u{1b}[1m".to_owned()));
        }
        Ok(ReloadSummary::default())
    }
}

impl Handler<ControlJob> for Pilot {
    type Result = Result<(), Refusal>;

    fn handle(&mut self, control: ControlJob, _: &mut Context<Self>) -> Self::Result {
        match control.name.as_str() {
            "ghost" => Err(Refusal::NoSuchJob(control.name)),
            "busy" => Err(Refusal::NotNow("a reload is under way".to_owned())),
            _ => Ok(()),
        }
    }
}

impl Handler<SetMaintenance> for Pilot {
    type Result = bool;

    fn handle(&mut self, order: SetMaintenance, _: &mut Context<Self>) -> bool {
        order.0
    }
}

impl Handler<ChangeEnvironment> for Pilot {
    type Result = Result<(), Refusal>;

    fn handle(&mut self, _: ChangeEnvironment, _: &mut Context<Self>) -> Self::Result {
        Ok(())
    }
}
