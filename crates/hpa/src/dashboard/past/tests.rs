//! Tests of the activity that leases and debug APIs show.

use axum::{Router, routing::any};
use hpa_testbed::{Action, Config, Interceptor, RequestInfo, Testbed};
use hpa_tests::harness::{TestbedExt, objects, serve};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{
    debug_api::MARKER_HEADER,
    debug_client::{KUBE_CONTROLLER_MANAGER, status_document},
};

fn flags(namespace: Option<&str>) -> ControllerArguments {
    ControllerArguments {
        controller_namespace: namespace.map(str::to_owned),
        controller_lease: namespace.map(|_| "hpa".to_owned()),
        controller_url: None,
    }
}

fn flags_with_url(url: &str) -> ControllerArguments {
    ControllerArguments { controller_url: Some(url.parse().expect("a URL")), ..flags(None) }
}

fn new_source(testbed: &Testbed, flags: &ControllerArguments) -> ClusterRecordSource {
    ClusterRecordSource::new(testbed.client(), flags, Duration::from_secs(10))
}

fn writer(name: &str, manager: &str, at: Option<Timestamp>) -> AutoscalerStatusWriter {
    let (key, manager) = (HpaKey::new("shop", name), manager.to_owned());
    AutoscalerStatusWriter { key, manager, at, overwritten: Vec::new(), dry_run: false }
}

/// If no instance holds `hpa`, the usual leases of both namespaces are read, then the leases of
/// each are listed: a list is a request with the empty name.
#[rstest]
#[case::released(
    "",
    None,
    ActingController::Unknown { is_status_of_kube_controller_manager: false },
    &["hpa", "hpa-controller", "hpa-controller", "", "", KUBE_CONTROLLER_MANAGER]
)]
#[case::held("b_1", Some("shop"), ActingController::HpaRs, &["hpa", KUBE_CONTROLLER_MANAGER])]
#[tokio::test]
async fn activity_reads_each_lease_once(
    #[case] holder: &str,
    #[case] namespace: Option<&str>,
    #[case] acting: ActingController,
    #[case] expected: &[&str],
) {
    let reads = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let recorded = reads.clone();
    let interceptor = move |request: &RequestInfo| {
        if request.resource == "leases" {
            recorded.lock().push(request.name.clone());
        }
        Action::Pass
    };
    let interceptor: Option<Arc<dyn Interceptor>> = Some(Arc::new(interceptor));
    let testbed = Testbed::new(Config { interceptor, ..Config::default() });
    let now = Timestamp::now();
    let built_in = objects::lease("kube-system", KUBE_CONTROLLER_MANAGER, "a_1", now);
    let own = objects::lease("shop", "hpa", holder, now);
    testbed.apply_all([objects::namespace(), own, built_in]);
    let source = new_source(&testbed, &flags(namespace));
    let manager = "hpa-controller:shop/hpa";
    let writers = [writer("web", manager, None)];
    let activity = source.activity(&writers, SignedDuration::from_mins(2)).await;
    let writer = (writers[0].key.namespace.clone(), manager.to_owned());
    assert_eq!(activity.acting, BTreeMap::from([(writer, acting)]));
    assert_eq!(*reads.lock(), expected);
}

fn testbed_with_expired_leases() -> Testbed {
    let testbed = Testbed::new(Config::default());
    let old = "2026-01-01T00:00:00Z".parse().expect("a time");
    let leases = [("shop", "hpa"), ("kube-system", KUBE_CONTROLLER_MANAGER)];
    let leases = leases.map(|(namespace, name)| objects::lease(namespace, name, "a_1", old));
    testbed.apply_all([objects::namespace()]);
    testbed.apply_all(leases);
    testbed
}

#[tokio::test]
async fn expired_lease_makes_only_its_own_autoscalers_idle() {
    let testbed = testbed_with_expired_leases();
    let source = new_source(&testbed, &flags(None));
    let writers = [writer("a", "hpa-controller:shop/hpa", None), writer("b", "k3s", None)];
    let mut activity = source.activity(&writers, SignedDuration::from_mins(2)).await;
    let (key, idle) = activity.idle.pop_first().expect("an autoscaler");
    assert_eq!((key, activity.idle.len()), (HpaKey::new("shop", "a"), 0));
    assert_eq!(idle.clause, "No controller with a known lease acts on this autoscaler");
    let start = "no controller has renewed the lease shop/hpa for ";
    assert!(idle.reason.starts_with(start), "{}", idle.reason);
    assert!(activity.inactivity.is_some());
}

/// The holder has just renewed its lease.
#[tokio::test]
async fn holder_whose_clock_is_ahead_is_reported_with_the_lead() {
    let testbed = Testbed::new(Config::default());
    let (now, lead) = (Timestamp::now(), SignedDuration::from_mins(5));
    let mut lease = objects::lease("shop", "hpa", "a_1", now + lead);
    lease["metadata"]["managedFields"] = json!([{
        "manager": "hpa", "operation": "Update", "apiVersion": "coordination.k8s.io/v1",
        "time": now.strftime("%FT%TZ").to_string(), "fieldsType": "FieldsV1",
        "fieldsV1": { "f:spec": { "f:renewTime": {} } },
    }]);
    testbed.apply_all([objects::namespace(), lease]);
    let source = new_source(&testbed, &flags(None));
    let manager = "hpa-controller:shop/hpa";
    let writers = [writer("a", manager, None)];
    let activity = source.activity(&writers, SignedDuration::from_mins(2)).await;
    let clock = activity.wrong_clock.expect("a wrong clock");
    let sentence = "The controller misjudges times: its clock is 5m ahead of that of the API \
                    server.";
    assert_eq!((&*clock.sentence, clock.manager.as_deref()), (sentence, Some(manager)));
    assert_eq!(clock.lead.as_mins(), 5);
}

#[tokio::test]
async fn expired_lease_is_reported_although_the_url_does_not_answer() {
    let testbed = testbed_with_expired_leases();
    let source = new_source(&testbed, &flags_with_url("http://127.0.0.1:1"));
    let writers = [writer("a", "hpa-controller:shop/hpa", None)];
    let activity = source.activity(&writers, SignedDuration::from_mins(2)).await;
    let inactivity = activity.inactivity.expect("a sentence");
    let start = "No controller with a known lease acts on 1 autoscaler: no controller has renewed \
                 the lease shop/hpa for ";
    assert!(inactivity.starts_with(start), "{inactivity}");
    let url = ". Whether the controller of --controller-url makes decisions is unknown: ";
    assert!(inactivity.contains(url), "{inactivity}");
    assert_eq!(inactivity.matches("The rest of the page may be old.").count(), 1, "{inactivity}");
    assert_eq!(activity.idle.len(), 1);
}

/// The kernel completes the connection, and nothing answers, as with a stopped process.
#[tokio::test(start_paused = true)]
async fn silent_url_delays_the_report_of_an_expired_lease_by_one_request_timeout() {
    let testbed = testbed_with_expired_leases();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let source = new_source(&testbed, &flags_with_url(&url));
    let writers = [writer("a", "hpa-controller:shop/hpa", None)];
    let start = tokio::time::Instant::now();
    let activity = source.activity(&writers, SignedDuration::from_mins(2)).await;
    assert_eq!(start.elapsed().as_secs(), 10);
    let inactivity = activity.inactivity.expect("a sentence");
    assert!(inactivity.contains("no response within 10s (--request-timeout)"), "{inactivity}");
    let expired = "no controller has renewed the lease shop/hpa for ";
    assert!(inactivity.contains(expired), "{inactivity}");
    assert!(source.last_search.lock().await.is_none(), "the next poll searches for the leader");

    let key = HpaKey::new("shop", "a");
    let records = source.records(&key, Some("hpa-controller:shop/hpa"), None).await;
    let error = records.expect_err("an error");
    assert!(error.contains("no response within 10s (--request-timeout)"), "{error}");
    assert_eq!(start.elapsed().as_secs(), 10, "a page doesn't wait for it again");
}

/// The instance reconciles the autoscaler `a`, and can't store a status.
#[rstest]
#[case::of_a(Some("cannot patch"), None)]
#[case::unknown(
    None,
    Some(
        "Statuses may be old: the controller can't store the status of 1 autoscaler: cannot patch. \
         It is unknown which ones; this page may not show them."
    )
)]
#[tokio::test]
async fn debug_api_at_a_url_answers_only_for_its_autoscalers(
    #[case] error: Option<&str>,
    #[case] problem: Option<&str>,
) {
    let mut status = status_document();
    status["now"] = "2026-01-01T00:00:00Z".into();
    status["isWorking"] = true.into();
    status["failedStatusWrites"] = json!({ "autoscalers": 1, "error": "cannot patch" });
    let item = json!({
        "api": "core", "namespace": "shop", "name": "a", "uid": "u", "isFailing": true,
        "statusWriteError": error, "lastReconcileSecondsAgo": 5.0,
        "last": {
            "from": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:00:00Z", "count": 1,
            "decision": { "reason": "maxReplicas", "sentence": "maxReplicas is 9" },
        },
    });
    let list = json!({ "now": "2026-01-01T00:00:00Z", "items": [item] });
    let reply = |body: Value| any(async move || ([(MARKER_HEADER, "v1")], body.to_string()));
    let router = Router::new()
        .route("/debug/v1/status", reply(status))
        .route("/debug/v1/autoscalers", reply(list));
    let url = format!("http://{}", serve(router).await);
    let testbed = testbed_with_expired_leases();
    let source = new_source(&testbed, &flags_with_url(&url));
    let writers = ["a", "b"].map(|name| writer(name, "hpa-controller:shop/hpa", None));
    let activity = source.activity(&writers, SignedDuration::from_mins(2)).await;
    let idle: Vec<_> = activity.idle.into_keys().collect();
    assert_eq!(idle, [HpaKey::new("shop", "b")]);
    // If the instance names the autoscalers of failed writes, the dashboard counts them itself.
    assert_eq!(activity.status_problems, problem.into_iter().collect::<Vec<_>>());
    let unstored: Vec<_> = activity.unstored.into_keys().collect();
    let expected = error.map(|_| HpaKey::new("shop", "a"));
    assert_eq!(unstored, expected.into_iter().collect::<Vec<_>>());
    assert_eq!(activity.recently_decided, [HpaKey::new("shop", "a")].into());
    let decision = activity.autoscalers[&HpaKey::new("shop", "a")].last_decision.as_deref();
    assert_eq!(decision, Some("maxReplicas is 9"));
}

#[tokio::test]
async fn controllers_that_both_store_statuses_are_a_conflict() {
    let testbed = Testbed::new(Config::default());
    let now = Timestamp::now();
    let own = objects::lease("shop", "hpa", "a_1", now);
    let built_in = objects::lease("kube-system", KUBE_CONTROLLER_MANAGER, "a_1", now);
    testbed.apply_all([objects::namespace(), own, built_in]);
    let source = new_source(&testbed, &flags(None));
    let conflict = async |age: i64| {
        let at = |seconds| Some(now - SignedDuration::from_secs(seconds));
        let of_hpa_rs = writer("a", "hpa-controller:shop/hpa", at(5));
        let writers = [of_hpa_rs, writer("b", KUBE_CONTROLLER_MANAGER, at(age))];
        let activity = source.activity(&writers, SignedDuration::from_mins(2)).await;
        assert_eq!(activity.inactivity, None);
        activity.status_problems.into_iter().next()
    };
    let both = "hpa-controller:shop/hpa and kube-controller-manager both act on 2 autoscalers \
                (shop/a, shop/b) and overwrite each other's decisions. hpa status says more.";
    assert_eq!(conflict(10).await.as_deref(), Some(both));
    assert_eq!(conflict(600).await, None, "a status that doesn't change keeps its writer");
    let key = HpaKey::for_api(AutoscalerApi::Custom, "shop", "a");
    let of_hpa_rs = writer("a", "hpa-controller:shop/hpa", Some(now));
    let custom = AutoscalerStatusWriter { key, ..of_hpa_rs };
    let writers = [custom, writer("b", KUBE_CONTROLLER_MANAGER, Some(now))];
    let activity = source.activity(&writers, SignedDuration::from_mins(2)).await;
    assert_eq!(activity.status_problems, Vec::<String>::new(), "each has its own API");
}

/// kube-controller-manager, whose flags can't be read, has stored a status in one of three
/// namespaces.
#[tokio::test]
async fn acting_controllers_differ_by_namespace() {
    let testbed = Testbed::new(Config::default());
    let now = Timestamp::now();
    let built_in = objects::lease("kube-system", KUBE_CONTROLLER_MANAGER, "a_1", now);
    testbed.apply_all([objects::namespace(), built_in]);
    let source = new_source(&testbed, &flags(None));
    let manager = "hpa-controller";
    let writers = ["shop", "blog", "pay"].map(|namespace| {
        let key = HpaKey::new(namespace, "web");
        AutoscalerStatusWriter { key, ..writer("web", manager, Some(now)) }
    });
    let of_built_in = writer("other", KUBE_CONTROLLER_MANAGER, Some(now));
    let writers: Vec<_> = writers.into_iter().chain([of_built_in]).collect();
    let activity = source.activity(&writers, SignedDuration::from_mins(2)).await;
    let unknown = ActingController::Unknown { is_status_of_kube_controller_manager: false };
    let hpa_rs = ActingController::HpaRs;
    let acting = |namespace: &str, manager: &str| {
        let writer = (Arc::<str>::from(namespace), manager.to_owned());
        activity.acting.get(&writer).copied()
    };
    assert_eq!(acting("shop", manager), Some(unknown));
    assert_eq!(acting("shop", KUBE_CONTROLLER_MANAGER), Some(unknown));
    assert_eq!([acting("blog", manager), acting("pay", manager)], [Some(hpa_rs); 2]);
}
