//! The telemetry port's routes.

use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::config::spec::{PageSpec, TelemetrySpec};
use crate::messages::status::{Layout, WatchStatus};

#[::core::prelude::v1::test]
fn metrics_come_in_the_format_that_is_preferred() {
    in_scene(|scene| async move {
        let text = scene.get(Api::Telemetry, "/metrics").await;
        assert_eq!(text.content_type, "text/plain; version=0.0.4; charset=utf-8");
        assert!(text.text.contains("process_resident_memory_bytes"));
        let request = TestRequest::get()
            .uri("/metrics")
            .insert_header((header::ACCEPT, "application/openmetrics-text;version=1.0.0,*/*;q=0.1"));
        let open = scene.ask(Api::Telemetry, request).await;
        assert_eq!(open.content_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
        assert!(open.text.ends_with("# EOF\n"));
    });
}

#[::core::prelude::v1::test]
fn metrics_show_jobs_and_watches() {
    in_scene(|scene| async move {
        scene.show("app", |job| job.health = Health::Healthy);
        scene.state.board.write().watches.insert(
            Arc::from("db"),
            WatchStatus { instances: vec![("i".to_owned(), "10.0.0.2".to_owned(), 5432)], known: true },
        );
        let text = scene.get(Api::Telemetry, "/metrics").await.text;
        for line in [
            r#"containerpilot_job_up{name="app"} 1"#,
            r#"containerpilot_job_restarts_total{name="app"} 3"#,
            r#"containerpilot_job_last_exit_code{name="app"} 143"#,
            r#"containerpilot_job_health{name="app",health="healthy"} 1"#,
            r#"containerpilot_job_health{name="app",health="unhealthy"} 0"#,
            r#"containerpilot_watch_instances{service="db"} 1"#,
            "containerpilot_maintenance 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    });
}

#[::core::prelude::v1::test]
fn the_status_has_containerpilots_form_and_order() {
    in_scene(|scene| async move {
        scene.show("plain", |_| {});
        scene.show("a-checked", |job| job.health = Health::Healthy);
        scene.show("a-removed", |_| {});
        scene.state.board.write().layout = Layout {
            jobs: ["plain", "served", "a-checked", "not-yet"].map(Arc::from).into(),
            watches: ["mq", "db"].map(Arc::from).into(),
            telemetry: Some(("10.0.0.1".to_owned(), 9090)),
            ..Layout::default()
        };
        scene.state.board.write().watches.insert(Arc::from("mq"), WatchStatus::default());
        scene.show("served", |job| {
            job.advertised = Some(("10.0.0.1".to_owned(), 80));
            job.health = Health::Unhealthy;
        });
        scene.state.board.write().watches.insert(Arc::from("db"), WatchStatus::default());
        assert_eq!(
            scene.get(Api::Telemetry, "/status").await.json(),
            serde_json::json!({
                "Version": env!("CARGO_PKG_VERSION"),
                "Jobs": [
                    { "Name": "plain", "Status": "unknown" },
                    { "Name": "a-checked", "Status": "healthy" },
                    { "Name": "a-removed", "Status": "unknown" },
                ],
                "Services": [
                    { "Name": "served", "Address": "10.0.0.1", "Port": 80, "Status": "unhealthy" },
                    { "Name": "containerpilot", "Address": "10.0.0.1", "Port": 9090, "Status": "healthy" },
                ],
                "Watches": ["mq", "db"],
            })
        );
    });
}

#[::core::prelude::v1::test]
fn ready_means_that_nothing_speaks_against_any_required_job() {
    in_scene(|scene| async move {
        let status = || async { scene.get(Api::Telemetry, "/readyz").await.status };
        assert_eq!(scene.get(Api::Telemetry, "/healthz").await.status, 200);
        assert_eq!(status().await, 200);
        scene.show("helper", |job| job.health = Health::Unhealthy);
        assert_eq!(status().await, 200);
        scene.show("main", |job| {
            job.required = true;
            job.phase = Phase::Delayed;
        });
        let answer = scene.get(Api::Telemetry, "/readyz").await;
        assert_eq!(answer.status, 503);
        let expected = serde_json::json!([{
            "name": "main", "state": "delayed", "health": "unknown",
            "reason": "is about to be restarted: killed by SIGTERM",
        }]);
        assert_eq!(answer.json()["notReady"], expected);
        scene.show("main", |job| (job.required, job.ready) = (true, true));
        assert_eq!(status().await, 200, "unchecked, and it runs");
        scene.state.board.write().shutting_down = true;
        assert_eq!(status().await, 503);
    });
}

#[::core::prelude::v1::test]
fn the_page_is_there_as_far_as_the_configuration_asks_for_it() {
    in_scene(|scene| async move {
        scene.show("app", |_| {});
        let show = |page| {
            let telemetry = TelemetrySpec {
                port: 9090,
                address: IpAddr::V4(Ipv4Addr::LOCALHOST),
                tags: vec![],
                metrics: vec![],
                page,
            };
            let spec = Spec { telemetry: Some(telemetry), ..Spec::default() };
            scene.state.feed.configure(&spec, Duration::ZERO);
        };
        let status = |method, path| {
            let request = TestRequest::default().method(method).uri(path);
            let answer = scene.ask(Api::Telemetry, request);
            async move { answer.await.status }
        };
        for (page, expected) in [
            (PageSpec::Off, [404, 404, 404]),
            (PageSpec::Overview, [200, 405, 404]),
            (PageSpec::Full, [200, 405, 200]),
        ] {
            show(page);
            let found = [
                status(Method::GET, "/").await,
                status(Method::HEAD, "/page/events").await,
                status(Method::GET, "/page/crashes/app").await,
            ];
            assert_eq!(found, expected, "{page:?}");
        }
    });
}
