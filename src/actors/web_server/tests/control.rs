//! The control socket's routes.

use super::*;
use crate::config::spec::{MetricKind, MetricSpec};

#[::core::prelude::v1::test]
fn put_and_post_are_alike() {
    in_scene(|scene| async move {
        let request = TestRequest::post().uri("/v3/env").set_payload(r#"{"A":"1"}"#);
        assert_eq!(scene.ask(Api::Control, request).await.status, 200);
        assert_eq!(scene.put("/v3/environ", r#"{"A":"1"}"#).await.status, 200);
        let orders = scene.orders();
        assert_eq!(orders.len(), 2);
        assert_eq!(orders[0], orders[1]);
    });
}

#[::core::prelude::v1::test]
fn environment_changes_are_all_or_nothing_and_name_the_bad_key() {
    in_scene(|scene| async move {
        let answer = scene.put("/v3/environ", r#"{"A":"x=y","B":null,"_c9":""}"#).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(
            scene.orders(),
            [r#"ChangeEnvironment([("A", Some("x=y")), ("B", None), ("_c9", None)])"#]
        );
        for (body, words) in [
            (r#"{"A":"1","9B":"2"}"#, "9B"),
            (r#"{"":"2"}"#, "\"\""),
            (r#"{"A B":"2"}"#, "A B"),
            (r#"{"A":5}"#, "A: expected a string or null, found 5"),
            (r#"{"A":["x"]}"#, "A: expected a string or null, found an array"),
            (r#"{"A":"a\u0000b"}"#, "NUL"),
        ] {
            scene.put("/v3/environ", body).await.assert_error(400, words);
        }
        assert_eq!(scene.orders(), Vec::<String>::new());
    });
}

#[::core::prelude::v1::test]
fn a_body_that_is_no_json_object_is_refused_with_422() {
    in_scene(|scene| async move {
        for path in ["/v3/environ", "/v3/metric", "/v3/reload", "/v3/jobs/app/signal"] {
            scene.put(path, "{").await.assert_error(422, "expected a JSON object such as {");
            scene.put(path, "[1]").await.assert_error(422, "found an array");
        }
        scene.put("/v3/environ", "").await.assert_error(422, "expected a JSON object");
        assert_eq!(scene.orders(), Vec::<String>::new());
    });
}

#[::core::prelude::v1::test]
fn a_body_over_one_mebibyte_is_refused_with_413() {
    in_scene(|scene| async move {
        let body = |size: usize| format!("{{\"A\":\"{}\"}}", "x".repeat(size - 8));
        assert_eq!(scene.put("/v3/environ", &body(1 << 20)).await.status, 200);
        scene.put("/v3/environ", &body((1 << 20) + 1)).await.assert_error(413, "larger than 1 MiB");
    });
}

#[::core::prelude::v1::test]
fn metrics_take_numbers_and_numbers_in_strings() {
    in_scene(|scene| async move {
        let metric = |name: &str, kind| MetricSpec { full_name: name.to_owned(), help: String::new(), kind };
        let specs = [metric("orders", MetricKind::Counter), metric("temperature", MetricKind::Gauge)];
        scene.state.recorder.metrics().reconfigure(&specs);
        assert_eq!(scene.put("/v3/metric", r#"{"orders":2,"temperature":"-1.5"}"#).await.status, 200);
        for (body, words) in [
            (
                r#"{"temperature":9,"oders":1}"#,
                "oders: telemetry.metrics defines no metric of this name; did you mean \"orders\"?",
            ),
            (r#"{"temperature":9,"orders":"many"}"#, "orders: expected a number, found \"many\""),
            (r#"{"temperature":9,"orders":true}"#, "orders: expected a number, found true"),
            (r#"{"temperature":9,"orders":"NaN"}"#, "orders: expected a finite number"),
            (r#"{"temperature":9,"orders":-1}"#, "orders: a counter only grows"),
        ] {
            scene.put("/v3/metric", body).await.assert_error(400, words);
        }
        let text = scene.get(Api::Telemetry, "/metrics").await.text;
        assert!(text.contains("\ntemperature -1.5\n") && text.contains("orders 2\n"), "{text}");
    });
}

#[::core::prelude::v1::test]
fn a_reload_tells_what_it_did_or_what_is_wrong() {
    in_scene(|scene| async move {
        let answer = scene.put("/v3/reload", "").await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json(), serde_json::json!({"started": ["a"], "stopped": [], "kept": ["b"]}));
        assert_eq!(scene.put("/v3/reload", r#"{"dryRun":true}"#).await.status, 200);
        scene.put("/v3/reload", r#"{"restart":"all"}"#).await.assert_error(422, "jobs[0] is wrong");
        assert_eq!(
            scene.orders(),
            [
                "Reload { restart_all: false, dry_run: false }",
                "Reload { restart_all: false, dry_run: true }",
                "Reload { restart_all: true, dry_run: false }",
            ]
        );
        for (body, words) in [
            (r#"{"restart":"some"}"#, "restart: expected \"all\", found \"some\""),
            (r#"{"dryRun":1}"#, "dryRun: expected true or false, found 1"),
            (r#"{"dryrun":true}"#, "found \"dryrun\""),
        ] {
            scene.put("/v3/reload", body).await.assert_error(422, words);
        }
        assert_eq!(scene.orders(), Vec::<String>::new());
    });
}

#[::core::prelude::v1::test]
fn maintenance_says_whether_anything_changed() {
    in_scene(|scene| async move {
        assert_eq!(scene.put("/v3/maintenance/enable", "").await.json()["updated"], true);
        assert_eq!(scene.put("/v3/maintenance/disable", "").await.json()["updated"], false);
        assert_eq!(scene.orders(), ["SetMaintenance(true)", "SetMaintenance(false)"]);
    });
}

#[::core::prelude::v1::test]
fn a_request_about_all_jobs_waits_until_they_have_told_what_the_last_one_changed() {
    in_scene(|scene| async move {
        tokio::time::pause();
        scene.state.queued.set(1001);
        let request = scene.put("/v3/maintenance/enable", "");
        let mut request = std::pin::pin!(request);
        let waited = tokio::time::timeout(Duration::from_secs(60), request.as_mut()).await;
        assert!(waited.is_err(), "it waits: {waited:?}");
        assert_eq!(scene.orders(), Vec::<String>::new());
        scene.state.queued.set(1000);
        assert_eq!(request.await.json()["updated"], true);
        assert_eq!(scene.orders(), ["SetMaintenance(true)"]);
    });
}

#[::core::prelude::v1::test]
fn jobs_are_controlled_by_name_whatever_it_is() {
    in_scene(|scene| async move {
        for (path, order) in [
            ("/v3/jobs/app/start", r#"ControlJob { name: "app", order: Start }"#),
            ("/v3/jobs/app/stop", r#"ControlJob { name: "app", order: Stop }"#),
            ("/v3/jobs/%2Fbin%2Fmy%20app/restart", r#"ControlJob { name: "/bin/my app", order: Restart }"#),
            ("/v3/jobs/usr/bin/app/start", r#"ControlJob { name: "usr/bin/app", order: Start }"#),
        ] {
            assert_eq!(scene.put(path, "").await.status, 200, "{path}");
            assert_eq!(scene.orders(), [order]);
        }
        assert_eq!(scene.put("/v3/jobs/app/signal", r#"{"signal":"SIGHUP"}"#).await.status, 200);
        assert_eq!(
            scene.orders(),
            [format!(
                "ControlJob {{ name: \"app\", order: Signal({:?}) }}",
                crate::messages::signal::Signal::HUP
            )]
        );
        scene.put("/v3/jobs/app/signal", r#"{"signal":"SIGNOPE"}"#).await.assert_error(422, "SIGNOPE");
        scene.put("/v3/jobs/app/signal", "{}").await.assert_error(422, "found nothing");
        scene.put("/v3/jobs/ghost/start", "").await.assert_error(404, "there is no job \"ghost\"");
        scene.put("/v3/jobs/busy/stop", "").await.assert_error(409, "a reload is under way");
    });
}

#[::core::prelude::v1::test]
fn the_event_stream_replays_what_is_asked_for() {
    in_scene(|scene| async move {
        (1..=3).for_each(|sequence| scene.publish(sequence));
        let answer = scene.get(Api::Control, "/v3/events?since=1&wait=0").await;
        assert_eq!((answer.status, answer.content_type.as_str()), (200, "text/event-stream"));
        assert_eq!(answer.text.matches("data: ").count(), 2, "{}", answer.text);
        assert_eq!(scene.get(Api::Control, "/v3/events?wait=0").await.text.matches("data: ").count(), 3);
        for (last, left) in [("2", 1), ("3", 0), ("4", 3)] {
            let request = TestRequest::get().uri("/v3/events?wait=0").insert_header(("Last-Event-ID", last));
            assert_eq!(scene.ask(Api::Control, request).await.text.matches("data: ").count(), left, "{last}");
        }
        for (query, words) in [("since=x", "since"), ("wait=maybe", "wait"), ("sinc=1", "sinc")] {
            scene.get(Api::Control, &format!("/v3/events?{query}")).await.assert_error(400, words);
        }
    });
}

#[::core::prelude::v1::test]
fn the_status_shows_every_job() {
    in_scene(|scene| async move {
        scene.show("app", |job| {
            job.essential = true;
            job.advertised = Some(("10.0.0.1".to_owned(), 80));
        });
        let status = scene.get(Api::Control, "/v3/status").await.json();
        let job = &status["jobs"][0];
        assert_eq!(job["name"], "app");
        assert_eq!(job["state"], "running");
        assert_eq!(job["pid"], 42);
        assert_eq!(job["restarts"], 3);
        assert_eq!(job["lastExit"]["status"], 143);
        assert_eq!(job["advertised"]["port"], 80);
        assert_eq!(job["since"], "1970-01-01T00:00:00.000000000Z");
        assert_eq!(status["maintenance"], false);
        assert!(status["uptime"].is_number() && status["version"].is_string());
    });
}

#[::core::prelude::v1::test]
fn requests_are_counted_by_pattern_and_never_by_what_a_client_made_up() {
    in_scene(|scene| async move {
        scene.put("/v3/jobs/ghost/start", "").await;
        scene.put("/v3/jobs/app/start", "").await;
        scene.get(Api::Control, "/v3/ping").await;
        for made_up in ["/x1", "/x2", "/v3/x3"] {
            scene.get(Api::Control, made_up).await;
        }
        let text = scene.get(Api::Telemetry, "/metrics").await.text;
        for line in [
            r#"containerpilot_control_http_requests{code="200",path="/v3/ping"} 1"#,
            r#"containerpilot_control_http_requests{code="200",path="/v3/jobs/{name}/start"} 1"#,
            r#"containerpilot_control_http_requests{code="404",path="/v3/jobs/{name}/start"} 1"#,
            r#"containerpilot_control_http_requests{code="404",path="unknown"} 3"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert!(!text.contains("ghost") && !text.contains("x1"), "{text}");
    });
}

#[::core::prelude::v1::test]
fn a_ping_is_answered_as_containerpilot_did_to_get_head_and_post() {
    in_scene(|scene| async move {
        for method in [Method::GET, Method::HEAD, Method::POST] {
            let request = TestRequest::default().method(method.clone()).uri("/v3/ping");
            assert_eq!(scene.ask(Api::Control, request).await.status, 200, "{method}");
        }
        let request = TestRequest::default().method(Method::DELETE).uri("/v3/ping");
        scene.ask(Api::Control, request).await.assert_error(405, "takes GET, HEAD, POST, not DELETE");
    });
}
