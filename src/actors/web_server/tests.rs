//! The routes, without sockets: requests go straight into the application, orders to an actor that notes them.

mod control;
mod listeners;
mod pipelined;
mod telemetry;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use actix_web::http::{Method, StatusCode, header};
use actix_web::test::{self, TestRequest};
use serde_json::Value;

use super::*;
use crate::messages::control::{Refusal, ReloadSummary};
use crate::messages::event::{Detail, Event, EventCode, EventKey, Source};
use crate::messages::health::Health;
use crate::messages::job::Phase;
use crate::messages::status::JobStatus;

/// Notes what it is asked to do and answers as agreed: the job `ghost` does not exist, `busy` cannot.
#[derive(Clone, Default)]
struct Stub(Rc<RefCell<Vec<String>>>);

impl Actor for Stub {
    type Context = Context<Self>;
}

impl Stub {
    fn note(&self, order: impl std::fmt::Debug) {
        self.0.borrow_mut().push(format!("{order:?}"));
    }
}

impl Handler<Reload> for Stub {
    type Result = Result<ReloadSummary, Refusal>;

    fn handle(&mut self, reload: Reload, _: &mut Context<Self>) -> Self::Result {
        self.note(reload);
        if reload.restart_all {
            return Err(Refusal::BadConfiguration("error: jobs[0] is wrong".to_owned()));
        }
        Ok(ReloadSummary { started: vec!["a".to_owned()], stopped: vec![], kept: vec!["b".to_owned()] })
    }
}

impl Handler<ControlJob> for Stub {
    type Result = Result<(), Refusal>;

    fn handle(&mut self, control: ControlJob, _: &mut Context<Self>) -> Self::Result {
        self.note(&control);
        match control.name.as_str() {
            "ghost" => Err(Refusal::NoSuchJob(control.name)),
            "busy" => Err(Refusal::NotNow("a reload is under way".to_owned())),
            _ => Ok(()),
        }
    }
}

impl Handler<SetMaintenance> for Stub {
    type Result = bool;

    fn handle(&mut self, order: SetMaintenance, _: &mut Context<Self>) -> bool {
        self.note(order);
        order.0
    }
}

impl Handler<ChangeEnvironment> for Stub {
    type Result = Result<(), Refusal>;

    fn handle(&mut self, order: ChangeEnvironment, _: &mut Context<Self>) -> Self::Result {
        self.note(order);
        Ok(())
    }
}

impl Handler<Inquire> for Stub {
    type Result = MessageResult<Inquire>;

    fn handle(&mut self, _: Inquire, _: &mut Context<Self>) -> Self::Result {
        MessageResult(inquiry::Knowledge { spec: Arc::new(Spec::default()), awaited: BTreeMap::new() })
    }
}

/// The web server's inside, and what the Pilot would have heard.
struct Scenery {
    state: Data<AppState>,
    orders: Rc<RefCell<Vec<String>>>,
}

/// What came back.
#[derive(Debug)]
struct Answer {
    status: u16,
    content_type: String,
    allow: String,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    fn assert_error(&self, status: u16, words: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.content_type, "application/json");
        let error = self.json()["error"].as_str().unwrap_or_default().to_owned();
        assert!(error.contains(words), "{words:?} in {error:?}");
    }
}

fn in_scene<F: Future<Output = ()>>(test: impl FnOnce(Scenery) -> F) {
    System::new().block_on(async {
        let stub = Stub::default();
        let orders = Rc::clone(&stub.0);
        test(Scenery { state: Data::new(state(stub)), orders }).await;
    });
}

/// The state of a program whose Pilot is this one.
fn state(pilot: Stub) -> AppState {
    let pilot = pilot.start();
    AppState {
        pilot: PilotLink {
            reload: pilot.clone().recipient(),
            job: pilot.clone().recipient(),
            maintenance: pilot.clone().recipient(),
            environment: pilot.clone().recipient(),
            inquiry: pilot.recipient(),
        },
        board: Board::default(),
        recorder: Recorder::default(),
        events: EventLog::default(),
        kept: KeptOutput::default(),
        dossiers: Dossiers::default(),
        queued: Rc::new(Cell::new(0)),
        started: Instant::now(),
        sink: None,
        feed: Feed::default(),
    }
}

impl Scenery {
    async fn ask(&self, api: Api, request: TestRequest) -> Answer {
        let service = test::init_service(application(api, self.state.clone())).await;
        let response = test::call_service(&service, request.to_request()).await;
        let header = |name: header::HeaderName| {
            let value = response.headers().get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let (content_type, allow) = (header(header::CONTENT_TYPE), header(header::ALLOW));
        let status = response.status().as_u16();
        let text = String::from_utf8(test::read_body(response).await.to_vec()).unwrap();
        Answer { status, content_type, allow, text }
    }

    async fn get(&self, api: Api, path: &str) -> Answer {
        self.ask(api, TestRequest::get().uri(path)).await
    }

    async fn put(&self, path: &str, body: &str) -> Answer {
        self.ask(Api::Control, TestRequest::put().uri(path).set_payload(body.to_owned())).await
    }

    fn orders(&self) -> Vec<String> {
        self.orders.take()
    }

    fn show(&self, name: &str, change: impl FnOnce(&mut JobStatus)) {
        let mut status = JobStatus {
            pid: Some(42),
            restarts: 3,
            last_exit: Some((143, "killed by SIGTERM".to_owned())),
            has_run: true,
            ..JobStatus::new(Phase::Running)
        };
        change(&mut status);
        self.state.board.write().jobs.insert(Arc::from(name), Arc::new(status));
    }

    fn publish(&self, sequence: u64) {
        let key = EventKey { code: EventCode::Healthy, source: Source::Job("app".into()) };
        let (time, detail) = (SystemTime::UNIX_EPOCH, Detail::default());
        self.state.events.push(Arc::new(Event { sequence, time, cause: None, key, detail }));
    }
}

#[::core::prelude::v1::test]
fn unknown_paths_and_wrong_methods_are_told_as_json() {
    in_scene(|scene| async move {
        for api in [Api::Control, Api::Telemetry] {
            scene.get(api, "/nope").await.assert_error(404, "/nope");
            scene.get(api, "/").await.assert_error(404, "/");
        }
        for path in ["/v3/environ", "/v3/env", "/v3/metric", "/v3/reload", "/v3/jobs/app/start"] {
            let answer = scene.get(Api::Control, path).await;
            answer.assert_error(405, "takes PUT, POST, not GET");
            assert_eq!(answer.allow, "PUT, POST");
        }
        for (api, path) in [(Api::Control, "/v3/ping"), (Api::Telemetry, "/metrics")] {
            let request = TestRequest::default().method(Method::DELETE).uri(path);
            scene.ask(api, request).await.assert_error(405, "takes GET");
        }
        assert_eq!(StatusCode::OK, scene.get(Api::Control, "/v3/ping").await.status);
    });
}
