//! Tests of reports from files.

use hpa_calc::{
    MilliValue, Reading,
    readings::{MetricsApi, ReadError},
    report::OverwrittenScalings,
};

use super::*;

/// An autoscaler whose status kube-controller-manager stored last, beside other objects.
fn subject(others: &[Value]) -> Subject {
    let managed = json!([{
        "manager": "kube-controller-manager", "subresource": "status",
        "time": "2026-01-01T00:00:00Z",
    }]);
    let hpa = hpa(json!({
        "name": "web", "managedFields": managed,
        "annotations": { "autoscaling.hpa-rs.dev/tolerance": "0.3" },
    }));
    subject_of(None, [hpa].into_iter().chain(others.iter().cloned()))
}

/// An autoscaler that counts owned pods, and its scale. No controller has stored its status.
fn subject_with_owned_pods() -> Subject {
    let annotations = json!({ "autoscaling.hpa-rs.dev/pods": "owned" });
    let hpa = hpa(json!({ "name": "web", "annotations": annotations }));
    subject_of(None, [hpa, scale_object(2, 2)])
}

/// An autoscaler of the target `web`.
fn hpa(metadata: Value) -> Value {
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
    json!({
        "kind": "HorizontalPodAutoscaler", "metadata": metadata,
        "spec": { "scaleTargetRef": target, "maxReplicas": 3 },
    })
}

/// The autoscaler of this name, or the only one, among these objects.
fn subject_of(name: Option<&str>, objects: impl IntoIterator<Item = Value>) -> Subject {
    let manifests = objects.into_iter().map(|object| Manifest::new("f", 1, object));
    let dump = Dump::new(manifests.collect());
    dump.subject(name, None, <_>::default(), &<_>::default(), None).expect("an autoscaler")
}

/// The scale of the target `web`.
fn scale_object(desired: i32, existing: i32) -> Value {
    json!({
        "kind": "Scale", "metadata": { "name": "web" },
        "spec": { "replicas": desired }, "status": { "replicas": existing, "selector": "app=web" },
    })
}

/// The debug API's document about the autoscaler.
fn record() -> Value {
    json!({
        "kind": AutoscalerDetail::KIND, "apiVersion": AutoscalerDetail::API_VERSION,
        "now": "2026-01-01T00:00:00Z", "runs": [], "metricNames": [], "samples": [],
        "autoscaler": {
            "api": "core", "namespace": "", "name": "web", "uid": "u", "isFailing": false,
        },
        "settings": {
            "tolerance": 0.1, "downscaleStabilizationSeconds": 300.0,
            "cpuInitializationPeriodSeconds": 300.0, "initialReadinessDelaySeconds": 30.0,
            "scaleToZero": true,
        },
    })
}

#[test]
fn record_of_the_debug_api_takes_precedence_over_the_field_manager() {
    let tolerance = |others: &[Value]| subject(others).inputs.settings.tolerance;
    assert!((tolerance(&[]) - 0.1).abs() < 1e-9);
    assert!((tolerance(&[record()]) - 0.3).abs() < 1e-9);
}

#[test]
fn record_of_an_autoscaler_of_the_other_api_is_not_read() {
    let hpa = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": "web" },
        "spec": { "maxReplicas": 3, "scaleTargetRef": { "kind": "Deployment", "name": "web" } },
    });
    let mut record = record();
    assert!(subject_of(None, [hpa.clone(), record.clone()]).found.record.is_ok());
    record["autoscaler"]["api"] = json!("custom");
    assert!(subject_of(None, [hpa, record]).found.record.is_err());
}

/// The controller reads a metric of pods from its own source.
#[test]
fn decision_of_the_controller_is_the_first_line_if_a_metric_can_not_be_read_here() {
    let mut record = record();
    record["autoscaler"]["lastReconcileSecondsAgo"] = json!(5.0);
    record["runs"] = json!([{
        "from": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:00:00Z", "count": 1,
        "decision": {
            "currentReplicas": 2, "desiredReplicas": 2, "scaledTo": null, "proposedReplicas": 2,
            "reason": "metrics", "sentence": "cpu is at 60%, target 60%", "error": null,
        },
        "explanation": { "metrics": [{ "metric": "cpu", "error": null }] },
    }]);
    let sentence = |record: &Value| {
        let scale = scale_object(2, 2);
        let mut subject = subject(&[record.clone(), scale]);
        let external = json!([{ "type": "External", "external": {
            "metric": { "name": "cpu" }, "target": { "type": "Value", "value": "60" },
        } }]);
        subject.inputs.hpa.spec.metrics = serde_json::from_value(external).expect("metrics");
        let error = ReadError::fetch(MetricsApi::External, "no server");
        subject.inputs.readings = [(0, Err(error))].into_iter().collect();
        subject.report().sentence
    };
    let first = "stays at 2: cpu is at 60%, target 60%, as the controller decided last; cpu can't \
                 be read here";
    assert_eq!(sentence(&record), first);
    record["runs"][0]["explanation"]["metrics"][0]["error"] = json!("no server");
    assert!(!sentence(&record).contains("as the controller decided"));
    record["runs"][0]["explanation"]["metrics"][0]["error"] = Value::Null;
    record["autoscaler"]["lastReconcileSecondsAgo"] = json!(50.0);
    assert!(!sentence(&record).contains("as the controller decided"), "an old decision");
}

#[test]
fn overwritten_scalings_are_in_the_first_line() {
    let mut record = record();
    record["autoscaler"]["overwrittenScalings"] = json!(6);
    record["autoscaler"]["overwrittenAt"] = json!("2026-01-31T11:58:00.5Z");
    let report = subject(&[record]).report();
    let text = "; another client has changed the replicas after at least 6 scalings, seen at \
                2026-01-31T11:58:00Z";
    assert!(report.sentence.contains(text), "{}", report.sentence);
    assert!(report.advice[0].starts_with("Find the client. "), "{:?}", report.advice);
    let command = ": kubectl get Deployment web --show-managed-fields -o yaml --namespace ";
    assert!(report.advice[0].contains(command), "{:?}", report.advice);

    let overwritten_scalings = Some(OverwrittenScalings { count: 3, seen_at: None });
    let by_events = Subject { overwritten_scalings, ..subject(&[]) }.report();
    let text = "; another client has changed the replicas after at least 3 scalings";
    assert!(by_events.sentence.contains(text), "{}", by_events.sentence);
}

#[test]
fn wrong_clock_in_either_direction_is_in_the_first_line_and_the_advice() {
    for (minutes, direction) in [(4, "ahead of"), (-4, "behind")] {
        let mut subject = subject(&[]);
        subject.found.clock_lead = SignedDuration::from_mins(minutes);
        let report = subject.report();
        let clock = format!(
            "; the controller misjudges times: its clock is 4m {direction} that of the API server"
        );
        assert!(report.sentence.contains(&clock), "{}", report.sentence);
        assert!(report.advice[0].starts_with("Correct the clock "), "{:?}", report.advice);
        let sentence = subject.sentence_without_durations();
        assert!(sentence.contains("; its clock is wrong"), "{sentence}");
    }
}

/// The controller lacks its rights, which this user has.
#[test]
fn failure_of_the_controller_is_the_first_line_although_all_can_be_read_here() {
    let mut record = record();
    record["autoscaler"]["lastReconcileSecondsAgo"] = json!(5.0);
    record["autoscaler"]["statusWriteError"] = json!("cannot patch");
    let forbidden = "deployments.apps \"web\" is forbidden: User \"hpa\" cannot get resource \
                     \"deployments/scale\" in API group \"apps\" in the namespace \"shop\"";
    let failure = format!("failed to query scale subresource for Deployment/web: {forbidden}");
    record["runs"] = json!([{
        "from": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:00:00Z", "count": 1,
        "decision": {
            "currentReplicas": null, "desiredReplicas": null, "scaledTo": null,
            "proposedReplicas": null, "reason": "failed", "sentence": failure, "error": failure,
        },
        "explanation": { "metrics": [] },
    }]);
    let scale = scale_object(2, 2);
    let mut subject = subject(&[record, scale]);
    let external = json!([{ "type": "External", "external": {
        "metric": { "name": "queue" }, "target": { "type": "AverageValue", "averageValue": "60" },
    } }]);
    subject.inputs.hpa.spec.metrics = serde_json::from_value(external).expect("metrics");
    subject.inputs.hpa.spec.max_replicas = 2;
    let value = MilliValue::from_milli(180_000);
    subject.inputs.readings =
        [(0, Ok(Reading::External(vec![value].into())))].into_iter().collect();
    let report = subject.report();
    let first = format!(
        "can't decide: {failure}, as the controller decided last; this doesn't fail here; the \
         controller can't store its status"
    );
    assert_eq!(report.sentence, first);
    assert!(report.changes.is_empty(), "nothing scales before the failure ends: {report}");
    assert!(!report.advice.iter().any(|one| one.starts_with("Raise ")), "{report}");
    let advice = format!("The controller can't decide: {failure}. Give the user in the message");
    assert!(report.advice.iter().any(|one| one.starts_with(&advice)), "{report}");
    let rule = r#"{apiGroups: ["apps"], resources: ["deployments/scale"], verbs: ["get"]}"#;
    assert!(report.advice.iter().any(|one| one.contains(rule)), "{report}");
}

#[test]
fn status_that_can_not_be_stored_is_in_the_first_line_and_the_advice() {
    let mut record = record();
    record["autoscaler"]["statusWriteError"] = json!("cannot patch");
    let report = subject(std::slice::from_ref(&record)).report();
    assert!(report.sentence.ends_with("; the controller can't store its status"), "{report}");
    assert!(report.advice[0].ends_with("than its last decision: cannot patch"), "{report}");
    let forbidden = "horizontalpodautoscalers.autoscaling \"web\" is forbidden: User \"ann\" \
                     cannot patch resource \"horizontalpodautoscalers/status\" in API group \
                     \"autoscaling\" in the namespace \"shop\"";
    record["autoscaler"]["statusWriteError"] = json!(forbidden);
    let report = subject(&[record]).report();
    let rule = ". Give the user in the message the right that it lacks, with this rule of a role: \
                {apiGroups: [\"autoscaling\"], resources: [\"horizontalpodautoscalers/status\"], \
                verbs: [\"patch\"]}.";
    assert!(report.advice[0].ends_with(rule), "{report}");
}

#[test]
fn recent_status_of_kube_controller_manager_is_a_doubt_about_the_debug_api() {
    let mut subject = subject(&[record()]);
    for (now, lead_minutes, is_doubtful) in [
        ("2026-01-01T00:01:00Z", 0, true),
        ("2026-01-01T00:01:01Z", 0, false),
        ("2026-01-01T00:05:30Z", 5, true),
    ] {
        subject.inputs.now = now.parse().expect("a time");
        subject.found.clock_lead = SignedDuration::from_mins(lead_minutes);
        let sentence = subject.report().sentence;
        let doubt = "; kube-controller-manager stored the status last, and may decide otherwise by \
                     its own history";
        assert_eq!(sentence.contains(doubt), is_doubtful, "{sentence}");
    }
}

#[test]
fn names_from_files_are_escaped_for_the_shell() {
    let mut inputs = subject(&[]).inputs;
    inputs.hpa.metadata.namespace = "n'; rm *".to_owned();
    inputs.hpa.spec.scale_target_ref.name = "x; rm *".to_owned();
    let advice = Dump::new(Vec::new()).missing_object_advice(&inputs);
    let [scale, pods, ..] = advice.as_slice() else { panic!("{advice:?}") };
    let namespace = "-n n%27%3B%20rm%20%2A -o yaml";
    let command = "kubectl get deployment 'x; rm *' --subresource=scale";
    assert!(scale.ends_with(&format!("{command} {namespace}")), "{scale}");
    assert!(pods.ends_with(&format!("kubectl get pods {namespace}")), "{pods}");
}

#[test]
fn commands_have_the_paths_that_the_controller_requests() {
    let target = json!({ "type": "Value", "value": "1" });
    let selector = json!({ "matchLabels": { "queue": "orders" } });
    let object = |kind: &str, version: &str| {
        let described = json!({ "apiVersion": version, "kind": kind, "name": "main" });
        let metric = json!({ "name": "rps" });
        let source = json!({ "describedObject": described, "metric": metric, "target": target });
        json!({ "type": "Object", "object": source })
    };
    let metric = |name: &str| json!({ "name": name, "selector": selector });
    let metrics = json!([
        { "type": "Pods", "pods": { "metric": metric("rps"), "target": target } },
        object("Ingress", "networking.k8s.io/v1"),
        object("Namespace", "v1"),
        { "type": "External", "external": { "metric": metric("Lag"), "target": target } },
    ]);
    let mut inputs = subject(&[]).inputs;
    inputs.hpa.metadata.namespace = "shop".to_owned();
    inputs.hpa.spec.metrics = serde_json::from_value(metrics).expect("metrics");
    let advice = Dump::new(Vec::new()).missing_object_advice(&inputs);
    let paths = advice.iter().filter_map(|one| Some(one.split_once("kubectl get --raw ")?.1));
    let custom = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop";
    let external = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop";
    let expected = [
        format!("'{custom}/pods/*/rps?metricLabelSelector=queue%3Dorders'"),
        format!("{custom}/ingresses.networking.k8s.io/main/rps"),
        format!("{custom}/metrics/rps"),
        format!("'{external}/lag?labelSelector=queue%3Dorders'"),
    ];
    assert_eq!(paths.collect::<Vec<_>>(), expected);
}

/// The API may leave out the selector in its values.
#[test]
fn values_of_another_selector_are_not_read() {
    let selector = |queue: &str| json!({ "matchLabels": { "queue": queue } });
    let value = |selector: Option<Value>, value: &str| {
        json!({
            "kind": "MetricValue", "describedObject": { "kind": "Namespace", "name": "shop" },
            "metric": { "name": "lag", "selector": selector },
            "timestamp": "2026-01-01T00:00:00Z", "value": value,
        })
    };
    let with = value(Some(selector("orders")), "5");
    let other = value(Some(selector("bills")), "7");
    let without = value(None, "9");
    let mut v1beta1 = with.clone();
    v1beta1["metric"] = Value::Null;
    v1beta1["metricName"] = json!("lag");
    v1beta1["selector"] = selector("orders");
    let read = |wanted: Option<Value>, values: &[&Value]| {
        let mut hpa = hpa(json!({ "name": "web", "namespace": "shop" }));
        hpa["spec"]["metrics"] = json!([{ "type": "Object", "object": {
            "describedObject": { "apiVersion": "v1", "kind": "Namespace", "name": "any" },
            "metric": { "name": "lag", "selector": wanted },
            "target": { "type": "Value", "value": "1" },
        } }]);
        let values = values.iter().copied().cloned();
        let objects = [hpa, scale_object(1, 1)].into_iter().chain(values);
        let readings = subject_of(None, objects).inputs.readings;
        readings.get(0)?.as_ref().ok()?.total_milli()
    };
    let orders = || Some(selector("orders"));
    assert_eq!(read(orders(), &[&other, &with, &without]), Some(5000));
    assert_eq!(read(orders(), &[&other, &v1beta1]), Some(5000));
    assert_eq!(read(orders(), &[&other, &without]), Some(9000));
    assert_eq!(read(orders(), &[&other]), None);
    assert_eq!(read(None, &[&other, &without]), Some(9000));
}

#[test]
fn advice_names_the_objects_that_the_files_lack() {
    let advice = subject(&[]).report().advice;
    let [scale, pods, usage] = advice.as_slice() else { panic!("{advice:?}") };
    let start = "The files lack the Scale of Deployment web. Save the output of this command to a \
                 file, and add it with -f: ";
    let command = "kubectl get deployment web --subresource=scale -n NAMESPACE -o yaml";
    assert_eq!(*scale, format!("{start}{command}"));
    assert!(pods.contains("lack the Pods of the target"), "{pods}");
    assert!(usage.contains("kubectl get pods.metrics.k8s.io -n NAMESPACE"), "{usage}");
    let scale = scale_object(0, 0);
    let advice = subject(&[scale]).report().advice.join(" ");
    assert!(!advice.contains("the Pods"), "{advice}");
    let manifest = json!({
        "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "selector": { "matchLabels": { "app": "web" } } },
    });
    let advice = subject(&[manifest]).report().advice;
    assert!(advice.len() == 3 && advice[0].contains("lack the Scale"), "{advice:?}");
}

#[test]
fn first_line_says_that_replicas_are_assumed() {
    let target =
        |spec: Value| json!({ "kind": "Deployment", "metadata": { "name": "web" }, "spec": spec });
    let selector = json!({ "matchLabels": { "app": "web" } });
    let sentence = |spec| subject(&[target(spec)]).report().sentence;
    let assumed = "; the manifest of the target sets no replicas, so 1 is assumed";
    let without = sentence(json!({ "selector": selector }));
    assert!(without.starts_with("stays at 1: ") && without.ends_with(assumed), "{without}");
    let with = sentence(json!({ "selector": selector, "replicas": 1 }));
    assert_eq!(with, without.replace(assumed, ""));
    let scale = scale_object(2, 2);
    let others = [target(json!({ "selector": selector })), scale];
    let sentence = subject(&others).report().sentence;
    assert!(sentence.starts_with("stays at 2: ") && !sentence.contains("assumed"), "{sentence}");
}

#[test]
fn number_of_pods_is_unknown_without_a_status() {
    let selector = json!({ "matchLabels": { "app": "web" } });
    let target = |status: &Value| {
        json!({
            "kind": "Deployment", "metadata": { "name": "web" },
            "spec": { "replicas": 3, "selector": selector }, "status": status,
        })
    };
    for (status, expected) in [
        (Value::Null, "how many exist is unknown"),
        (json!({}), "how many exist is unknown"),
        (json!({ "observedGeneration": 1 }), "0 exist"),
        (json!({ "replicas": 1 }), "1 exists"),
    ] {
        let report = subject(&[target(&status)]).report();
        let expected = format!("Deployment/web: 3 replicas desired, {expected}, selector");
        assert!(report.to_string().contains(&expected), "{report}");
        assert_eq!(report.status_replicas.is_none(), expected.contains("unknown"));
        let sentence = "stays at 3: cpu cannot be read: the files have no PodMetrics";
        assert_eq!(report.sentence, sentence);
    }
}

#[test]
fn controller_is_unknown_if_the_files_lack_field_managers() {
    let mut subject = subject_with_owned_pods();
    assert_eq!(subject.describe_controller(), "No controller has stored a status.");
    let condition = json!({ "type": "AbleToScale", "status": "True", "reason": "R" });
    subject.inputs.hpa.status.conditions =
        serde_json::from_value(json!([condition])).expect("conditions");
    let text = subject.describe_controller();
    assert!(text.starts_with("The controller that stored the status is unknown"), "{text}");
}

#[test]
fn reported_absence_of_the_metrics_api_precedes_commands_that_read_it() {
    let message = "the HPA was unable to compute the replica count: failed to get cpu utilization: \
                   unable to get metrics for resource cpu: unable to fetch metrics from resource \
                   metrics API: the server could not find the requested resource (get \
                   pods.metrics.k8s.io)";
    // As kubectl prints it: without managedFields.
    let hpa = json!({
        "kind": "HorizontalPodAutoscaler", "metadata": { "name": "web" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "maxReplicas": 3,
        },
        "status": { "conditions": [{
            "type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric",
            "message": message,
        }] },
    });
    let subject = subject_of(None, [hpa]);
    let report = subject.report();
    assert!(report.to_string().starts_with("web can't decide: "), "{report}");
    let [scale, pods, usage] = report.advice.as_slice() else { panic!("{:?}", report.advice) };
    assert!(scale.contains("lack the Scale") && pods.contains("lack the Pods"), "{report}");
    assert!(usage.starts_with("No server is registered for metrics.k8s.io: install"), "{usage}");
    let controller = subject.describe_controller();
    let unknown = "The controller that stored the status is unknown: the autoscaler has no \
                   managedFields";
    assert!(controller.starts_with(unknown), "{controller}");
}

#[test]
fn target_beside_its_scale_says_why_pods_cannot_be_created() {
    let scale = scale_object(3, 2);
    let message = "pods \"web-1\" is forbidden: exceeded quota: pods";
    let condition = json!({ "type": "ReplicaFailure", "status": "True", "message": message });
    let target = json!({
        "kind": "Deployment", "metadata": { "name": "web" },
        "status": { "conditions": [condition] },
    });
    let selected = subject(&[scale, target]).inputs.selected;
    assert_eq!(selected.replica_failure.as_deref(), Some("exceeded quota: pods"));
}

#[test]
fn pod_that_cannot_be_scheduled_has_the_message_of_the_scheduler() {
    let scale = scale_object(3, 3);
    let pod = |name: &str, app: &str, message: &str| {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": message,
        });
        json!({
            "kind": "Pod", "metadata": { "name": name, "labels": { "app": app } },
            "status": { "phase": "Pending", "conditions": [condition] },
        })
    };
    let cpu = "0/5 nodes are available: 5 Insufficient cpu";
    // The other pods are those of another target.
    let [db_0, db_1] = ["db-0", "db-1"].map(|name| pod(name, "db", "untolerated taint"));
    let report = subject(&[scale, pod("web-0", "web", cpu), db_0, db_1]).report();
    let clause = format!("the only pod can't be scheduled ({cpu})");
    assert!(report.sentence.contains(&clause), "{}", report.sentence);
}

#[test]
fn advice_about_owned_pods_suggests_reading_the_cluster() {
    let report = subject_with_owned_pods().report();
    let advice = report.advice.join(" ");
    assert!(advice.contains("run hpa explain NAMESPACE/NAME without --filename"), "{advice}");
    assert!(!advice.contains("permission"), "{advice}");
}

#[test]
fn bounds_that_exclude_those_of_another_autoscaler_of_the_files_are_named() {
    let autoscaler = |name: &str, min: i32, max: i32, target: &str| {
        let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": target });
        let active = json!({
            "type": "ScalingActive", "status": "False", "reason": "AmbiguousSelector",
            "message": "pods by selector app=web are controlled by multiple HPAs",
        });
        json!({
            "kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2",
            "metadata": { "name": name, "namespace": "shop" },
            "spec": { "scaleTargetRef": target, "minReplicas": min, "maxReplicas": max },
            "status": { "conditions": [active] },
        })
    };
    let sentence = |other: Value| {
        let objects = [autoscaler("big", 6, 8, "web"), other, scale_object(6, 6)];
        subject_of(Some("shop/big"), objects).report().sentence
    };
    let expected = "conflicts by its bounds, 6 to 8 replicas, with shop/small (2 to 4): both scale \
                    Deployment web to their own bounds, up and down, for as long as both exist \
                    with these bounds";
    assert_eq!(sentence(autoscaler("small", 2, 4, "web")), expected);
    for other in [autoscaler("small", 2, 6, "web"), autoscaler("small", 2, 4, "other")] {
        let sentence = sentence(other);
        assert!(!sentence.contains("conflicts"), "{sentence}");
    }
}

#[test]
fn autoscaler_of_the_same_pods_prevents_scaling_only_if_a_status_says_so() {
    let autoscaler = |name: &str, reason: &str| {
        let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
        let active = json!({
            "type": "ScalingActive", "reason": reason,
            "status": if reason == "ValidMetricFound" { "True" } else { "False" },
            "message": "pods by selector app=web are controlled by multiple HPAs: [shop/other \
                        shop/web]",
        });
        let conditions = if reason.is_empty() { json!([]) } else { json!([active]) };
        json!({
            "kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2",
            "metadata": { "name": name, "namespace": "shop" },
            "spec": { "scaleTargetRef": target, "maxReplicas": 3 },
            "status": { "conditions": conditions },
        })
    };
    let pod = json!({
        "kind": "Pod",
        "metadata": { "name": "web-0", "namespace": "shop", "labels": { "app": "web" } },
        "spec": { "containers": [] }, "status": { "phase": "Running" },
    });
    for (own, other, is_unscaled) in [
        ("ValidMetricFound", "ValidMetricFound", false),
        // The other one has been out of its bounds since, so its condition is old.
        ("ValidMetricFound", "AmbiguousSelector", false),
        ("AmbiguousSelector", "ValidMetricFound", true),
        ("", "AmbiguousSelector", true),
        ("", "", false),
    ] {
        let autoscalers = [autoscaler("web", own), autoscaler("other", other)];
        let objects = autoscalers.into_iter().chain([scale_object(2, 2), pod.clone()]);
        let sentence = subject_of(Some("shop/web"), objects).report().sentence;
        let expected = if is_unscaled {
            "isn't scaled: shop/other selects the same pods"
        } else {
            "shares its target with shop/other and "
        };
        assert!(sentence.starts_with(expected), "{own} {other}: {sentence}");
    }
}

#[test]
fn usage_of_a_pod_of_another_namespace_is_not_read() {
    let metadata = |namespace: &str, name: &str| json!({ "namespace": namespace, "name": name, "labels": { "app": "web" } });
    let usage = |namespace: &str, cpu: &str| {
        json!({
            "kind": "PodMetrics", "metadata": metadata(namespace, "web-0"),
            "timestamp": "2026-01-01T00:00:00Z", "window": "30s",
            "containers": [{ "name": "web", "usage": { "cpu": cpu } }],
        })
    };
    let objects = [
        hpa(metadata("shop", "web")),
        scale_object(1, 1),
        json!({
            "kind": "Pod", "metadata": metadata("shop", "web-0"),
            "spec": { "containers": [] }, "status": { "phase": "Running" },
        }),
        usage("shop", "100m"),
        usage("blog", "900m"),
    ];
    let readings = subject_of(Some("shop/web"), objects).inputs.readings;
    let Some(Ok(Reading::Pods(samples))) = readings.get(0) else { panic!("{readings:?}") };
    let value = samples.get("web-0").map(|sample| sample.value);
    assert_eq!(value, Some(MilliValue::from_milli(100)));
}

#[test]
fn sharing_autoscaler_is_reported_if_its_name_is_a_substring() {
    let mut subject = subject(&[]);
    assert!(subject.report().sentence.contains("web"));
    subject.inputs.selected.sharing_target = vec!["we".to_owned()];
    let sentence = subject.report().sentence;
    assert!(sentence.starts_with("shares its target with we and "), "{sentence}");
}

/// `--watch` prints the report again if the first line has changed.
#[test]
fn evidence_age_is_ignored_when_first_lines_are_compared() {
    let sentence = |age: &str| {
        let conflict = crate::liveness::Conflict {
            managers: ["hpa-controller", "kube-controller-manager"].map(str::to_owned).into(),
            autoscalers: vec!["shop/web".to_owned()],
            uncertain_evidence: Some(age.to_owned()),
        };
        let mut subject = subject(&[]);
        subject.found.conflict = Some(conflict);
        let sentence = subject.report().sentence;
        assert!(sentence.contains(&format!("a status stored {age} names")), "{sentence}");
        subject.sentence_without_durations()
    };
    assert_eq!(sentence("5m ago"), sentence("6m ago"));
}
