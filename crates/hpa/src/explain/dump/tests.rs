//! Tests of reports from files.

use hpa_calc::{
    MilliValue, Reading,
    readings::{MetricsApi, ReadError},
};

use super::*;

/// An autoscaler whose status kube-controller-manager stored last. If `pods` isn't empty, it
/// has the annotation `pods` and a scale instead.
fn subject(pods: &str, others: &[Value]) -> Subject {
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
    let managed = json!([{
        "manager": "kube-controller-manager", "subresource": "status",
        "time": "2026-01-01T00:00:00Z",
    }]);
    let mut objects = vec![json!({
        "kind": "HorizontalPodAutoscaler",
        "metadata": {
            "name": "web", "managedFields": managed,
            "annotations": { "autoscaling.hpa-rs.dev/tolerance": "0.3" },
        },
        "spec": { "scaleTargetRef": target, "maxReplicas": 3 },
    })];
    if !pods.is_empty() {
        objects[0]["metadata"]["managedFields"] = Value::Null;
        objects[0]["metadata"]["annotations"] = json!({ "autoscaling.hpa-rs.dev/pods": pods });
        objects.push(scale_object(2, 2));
    }
    objects.extend_from_slice(others);
    let manifests =
        objects.into_iter().enumerate().map(|(at, object)| Manifest::new("f", at + 1, object));
    let dump = Dump::new(manifests.collect());
    dump.subject(None, None, <_>::default(), &<_>::default(), None).expect("an autoscaler")
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
    let tolerance = |others: &[Value]| subject("", others).inputs.settings.tolerance;
    assert!((tolerance(&[]) - 0.1).abs() < 1e-9);
    assert!((tolerance(&[record()]) - 0.3).abs() < 1e-9);
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
        let mut subject = subject("", &[record.clone(), scale]);
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
    let report = subject("", &[record]).report();
    let text = "; another client has changed the replicas after at least 6 scalings";
    assert!(report.sentence.contains(text), "{}", report.sentence);
    assert!(report.advice[0].starts_with("Find the client. "), "{:?}", report.advice);

    let by_events = Subject { overwritten_scalings: 3, ..subject("", &[]) }.report();
    let text = "; another client has changed the replicas after at least 3 scalings";
    assert!(by_events.sentence.contains(text), "{}", by_events.sentence);
}

#[test]
fn wrong_clock_in_either_direction_is_in_the_first_line_and_the_advice() {
    for (minutes, direction) in [(4, "ahead of"), (-4, "behind")] {
        let clock_lead = SignedDuration::from_mins(minutes);
        let subject = Subject { clock_lead, ..subject("", &[]) };
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
    let mut subject = subject("", &[record, scale]);
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
    let report = subject("", std::slice::from_ref(&record)).report();
    assert!(report.sentence.ends_with("; the controller can't store its status"), "{report}");
    assert!(report.advice[0].ends_with("than its last decision: cannot patch"), "{report}");
    let forbidden = "horizontalpodautoscalers.autoscaling \"web\" is forbidden: User \"ann\" \
                     cannot patch resource \"horizontalpodautoscalers/status\" in API group \
                     \"autoscaling\" in the namespace \"shop\"";
    record["autoscaler"]["statusWriteError"] = json!(forbidden);
    let report = subject("", &[record]).report();
    let rule = ". Give the user in the message the right that it lacks, with this rule of a role: \
                {apiGroups: [\"autoscaling\"], resources: [\"horizontalpodautoscalers/status\"], \
                verbs: [\"patch\"]}.";
    assert!(report.advice[0].ends_with(rule), "{report}");
}

#[test]
fn recent_status_of_kube_controller_manager_is_a_doubt_about_the_debug_api() {
    let mut subject = subject("", &[record()]);
    for (now, lead_minutes, is_doubtful) in [
        ("2026-01-01T00:01:00Z", 0, true),
        ("2026-01-01T00:01:01Z", 0, false),
        ("2026-01-01T00:05:30Z", 5, true),
    ] {
        subject.inputs.now = now.parse().expect("a time");
        subject.clock_lead = SignedDuration::from_mins(lead_minutes);
        let sentence = subject.report().sentence;
        let doubt = "; kube-controller-manager stored the status last, and may decide otherwise by \
                     its own history";
        assert_eq!(sentence.contains(doubt), is_doubtful, "{sentence}");
    }
}

#[test]
fn names_from_files_are_escaped_for_the_shell() {
    let mut inputs = subject("", &[]).inputs;
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
fn advice_names_the_objects_that_the_files_lack() {
    let advice = subject("", &[]).report().advice;
    let [scale, pods, usage] = advice.as_slice() else { panic!("{advice:?}") };
    let start = "The files lack the Scale of Deployment web. Add with -f what this prints: ";
    let command = "kubectl get deployment web --subresource=scale -n NAMESPACE -o yaml";
    assert_eq!(*scale, format!("{start}{command}"));
    assert!(pods.contains("lack the Pods of the target"), "{pods}");
    assert!(usage.contains("kubectl get pods.metrics.k8s.io -n NAMESPACE"), "{usage}");
    let scale = scale_object(0, 0);
    let advice = subject("", &[scale]).report().advice.join(" ");
    assert!(!advice.contains("the Pods"), "{advice}");
    let manifest = json!({
        "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "selector": { "matchLabels": { "app": "web" } } },
    });
    let advice = subject("", &[manifest]).report().advice;
    assert!(advice.len() == 3 && advice[0].contains("lack the Scale"), "{advice:?}");
}

#[test]
fn first_line_says_that_replicas_are_assumed() {
    let target =
        |spec: Value| json!({ "kind": "Deployment", "metadata": { "name": "web" }, "spec": spec });
    let selector = json!({ "matchLabels": { "app": "web" } });
    let sentence = |spec| subject("", &[target(spec)]).report().sentence;
    let assumed = "; the manifest of the target sets no replicas, so 1 is assumed";
    let without = sentence(json!({ "selector": selector }));
    assert!(without.starts_with("stays at 1: ") && without.ends_with(assumed), "{without}");
    let with = sentence(json!({ "selector": selector, "replicas": 1 }));
    assert_eq!(with, without.replace(assumed, ""));
    let scale = scale_object(2, 2);
    let others = [target(json!({ "selector": selector })), scale];
    let sentence = subject("", &others).report().sentence;
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
        let report = subject("", &[target(&status)]).report();
        let expected = format!("Deployment/web: 3 replicas desired, {expected}, selector");
        assert!(report.to_string().contains(&expected), "{report}");
        assert_eq!(report.status_replicas.is_none(), expected.contains("unknown"));
        let sentence = "stays at 3: cpu cannot be read: the files have no PodMetrics";
        assert_eq!(report.sentence, sentence);
    }
}

#[test]
fn controller_is_unknown_if_the_files_lack_field_managers() {
    let mut subject = subject("owned", &[]);
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
    let dump = Dump::new(vec![Manifest::new("f", 1, hpa)]);
    let subject =
        dump.subject(None, None, <_>::default(), &<_>::default(), None).expect("an autoscaler");
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
    let selected = subject("", &[scale, target]).inputs.selected;
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
    let report = subject("", &[scale, pod("web-0", "web", cpu), db_0, db_1]).report();
    let clause = format!("the only pod can't be scheduled ({cpu})");
    assert!(report.sentence.contains(&clause), "{}", report.sentence);
}

#[test]
fn advice_about_owned_pods_suggests_reading_the_cluster() {
    let report = subject("owned", &[]).report();
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
    let scale = json!({
        "kind": "Scale", "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "replicas": 6 }, "status": { "replicas": 6, "selector": "app=web" },
    });
    let sentence = |other: Value| {
        let objects = [autoscaler("big", 6, 8, "web"), other, scale.clone()].into_iter();
        let dump = Dump::new(objects.map(|object| Manifest::new("f", 1, object)).collect());
        let subject = dump.subject(Some("shop/big"), None, <_>::default(), &<_>::default(), None);
        subject.expect("an autoscaler").report().sentence
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
    let scale = json!({
        "kind": "Scale", "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "replicas": 2 }, "status": { "replicas": 2, "selector": "app=web" },
    });
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
        let objects = autoscalers.into_iter().chain([scale.clone(), pod.clone()]);
        let dump = Dump::new(objects.map(|object| Manifest::new("f", 1, object)).collect());
        let subject = dump.subject(Some("shop/web"), None, <_>::default(), &<_>::default(), None);
        let sentence = subject.expect("an autoscaler").report().sentence;
        let expected = if is_unscaled {
            "isn't scaled: shop/other selects the same pods"
        } else {
            "shares its target with shop/other and "
        };
        assert!(sentence.starts_with(expected), "{own} {other}: {sentence}");
    }
}

#[test]
fn name_that_is_part_of_a_word_of_the_sentence_is_reported() {
    let mut subject = subject("", &[]);
    assert!(subject.report().sentence.contains("web"));
    subject.inputs.selected.sharing_target = vec!["we".to_owned()];
    let sentence = subject.report().sentence;
    assert!(sentence.starts_with("shares its target with we and "), "{sentence}");
}

/// `--watch` prints the report again if the first line has changed.
#[test]
fn age_of_the_evidence_of_a_conflict_is_no_change_of_the_first_line() {
    let sentence = |age: &str| {
        let conflict = crate::liveness::Conflict {
            managers: ["hpa-controller", "kube-controller-manager"].map(str::to_owned).into(),
            autoscalers: vec!["shop/web".to_owned()],
            uncertain_evidence: Some(age.to_owned()),
        };
        let subject = Subject { conflict: Some(conflict), ..subject("", &[]) };
        let sentence = subject.report().sentence;
        assert!(sentence.contains(&format!("a status stored {age} names")), "{sentence}");
        subject.sentence_without_durations()
    };
    assert_eq!(sentence("5m ago"), sentence("6m ago"));
}
