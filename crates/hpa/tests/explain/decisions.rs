//! The decision, its reasons, and advice on changing it.

use hpa_tests::harness::{SettableMetrics, objects};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    AUTOSCALER, Cluster, DEPLOYMENT, FIRST_POD, annotate, custom_api_definition, overwritten_event,
    set_status, web, web_with,
};

#[tokio::test]
async fn report_names_counted_pods_and_the_next_change() {
    let cluster = Cluster::new(web(4, vec![objects::cpu_metric(60)])).await;
    cluster
        .expect(&[
            "shop/web stays at 4: cpu is at 60% of requests, target 60%; within tolerance",
            "scales to 5 when average cpu rises to 670m (67% of requests); now 600m",
            "counted (4): web-0, web-1, web-2, web-3",
            "No controller has stored a status",
        ])
        .await;
}

#[tokio::test]
async fn limiting_bound_or_policy_is_named() {
    Cluster::new(web(10, vec![objects::cpu_metric(30)]))
        .await
        .expect(&[
            "stays at 10: cpu is at 60% of requests, target 30%; maxReplicas is 10, metrics ask \
             for 20",
            "scales to 20 with a maxReplicas of 20",
            "Raise spec.maxReplicas",
        ])
        .await;
    Cluster::new(web(2, vec![objects::cpu_metric(200)]))
        .await
        .expect(&["stays at 2", "minReplicas is 2, metrics ask for 1"])
        .await;
    let disabled = |all: &mut Vec<Value>| {
        all[AUTOSCALER]["spec"]["behavior"] = json!({ "scaleUp": { "selectPolicy": "Disabled" } });
    };
    Cluster::new(web_with(4, objects::cpu_metric(30), disabled))
        .await
        .expect(&["stays at 4", "spec.behavior.scaleUp.selectPolicy is Disabled"])
        .await;
    let one_pod = json!([{ "type": "Pods", "value": 1, "periodSeconds": 60 }]);
    let policy = |all: &mut Vec<Value>| {
        all[AUTOSCALER]["spec"]["behavior"] = json!({ "scaleUp": { "policies": one_pod } });
    };
    Cluster::new(web_with(4, objects::cpu_metric(30), policy))
        .await
        .expect(&[
            "would scale from 4 to 5: cpu is at 60% of requests, target 30%; policies allow 5 for \
             now, metrics ask for 8; no controller has stored a status",
            "1 Pods in 60s, from 4: at most 5",
        ])
        .await;
}

#[tokio::test]
async fn unknown_history_is_reported_when_stabilization_holds() {
    let message = "recent recommendations were higher than current one";
    let condition = ["AbleToScale", "True", "ScaleDownStabilized", message];
    let stabilized = |all: &mut Vec<Value>| set_status(&mut all[AUTOSCALER], 4, &[condition]);
    Cluster::new(web_with(4, objects::cpu_metric(120), stabilized))
        .await
        .expect(&[
            "would scale from 4 to 2: cpu is at 60% of requests, target 120%; the controller last \
             reported ScaleDownStabilized",
            "past recommendations are not known",
            "It reports ScaleDownStabilized",
            "so it may stay at 4 for now",
        ])
        .await;
}

#[tokio::test]
async fn uncounted_pods_are_named() {
    let pods = |all: &mut Vec<Value>| {
        all[FIRST_POD + 1]["status"]["phase"] = json!("Pending");
        all[FIRST_POD + 2]["status"]["phase"] = json!("Failed");
        all[FIRST_POD + 3]["status"]["conditions"] = json!([]);
    };
    Cluster::new(web_with(4, objects::cpu_metric(30), pods))
        .await
        .expect(&[
            "unready (2): web-1 is pending; web-3 has no start time or no Ready condition",
            "ignored (1): web-2 has failed",
            "Check why 1 of 3 pods is pending",
            "hold the decision back: web-3.",
        ])
        .await;
    let none = |all: &mut Vec<Value>| {
        for pod in all.iter_mut().skip(FIRST_POD) {
            pod["status"]["phase"] = json!("Pending");
        }
    };
    Cluster::new(web_with(2, objects::cpu_metric(30), none))
        .await
        .expect(&["stays at 2: cpu cannot be read", "No pod has a sample of cpu that counts"])
        .await;
}

#[tokio::test]
async fn pod_that_cannot_be_scheduled_has_the_message_of_the_scheduler() {
    let unschedulable = |all: &mut Vec<Value>| {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/5 nodes are available: 5 Insufficient cpu. preemption: 0/5 nodes are \
                available: 5 No preemption victims found for incoming pod.",
        });
        all[FIRST_POD + 3]["status"] = json!({ "phase": "Pending", "conditions": [condition] });
    };
    let clause = "; 1 of 4 pods can't be scheduled (0/5 nodes are available: 5 Insufficient cpu)";
    Cluster::new(web_with(4, objects::external_metric("queue", "10"), unschedulable))
        .await
        .expect(&["shop/web stays at 4: ", clause])
        .await;
}

/// The controller can't be reached, so there is no debug API.
#[tokio::test]
async fn overwritten_scalings_are_read_from_the_event() {
    let mut all = web(4, vec![objects::cpu_metric(60)]);
    set_status(&mut all[AUTOSCALER], 4, &[["ScalingActive", "True", "ValidMetricFound", ""]]);
    all.push(overwritten_event(Timestamp::now()));
    let cluster = Cluster::new(all).await;
    let clause = "; another client has changed the replicas after at least 3 scalings";
    cluster.expect(&[clause]).await;
    let output = cluster.explain(&["-A"]).await;
    assert!(output.contains(clause), "{output}");
    let (status, ..) = cluster.hpa(&["status"]).await;
    let warning = "1 autoscaler whose replicas another client changes after each scaling \
                   (ReplicasOverwritten): shop/web";
    assert!(status.contains(warning), "{status}");
}

#[tokio::test]
async fn surplus_pods_and_missing_requests_are_named() {
    let foreign = |all: &mut Vec<Value>| {
        let mut job = objects::pod("job", 0);
        job["metadata"]["labels"] = json!({ "app": "web" });
        all.push(job);
    };
    Cluster::new(web_with(2, objects::cpu_metric(60), foreign))
        .await
        .expect(&["The selector matches 3 pods, but the target has 2"])
        .await;
    let sidecar = |all: &mut Vec<Value>| {
        let container = json!({ "name": "proxy" });
        let containers =
            all[FIRST_POD + 1]["spec"]["containers"].as_array_mut().expect("containers");
        containers.push(container);
    };
    Cluster::new(web_with(2, objects::cpu_metric(60), sidecar))
        .await
        .expect(&["missing request for cpu in container proxy of Pod web-1", "(missing in web-1)"])
        .await;
}

#[tokio::test]
async fn unusable_target_is_explained() {
    let missing = |all: &mut Vec<Value>| {
        all.remove(DEPLOYMENT);
    };
    Cluster::new(web_with(2, objects::cpu_metric(60), missing))
        .await
        .expect(&["shop/web can't decide: ", "Check that Deployment web exists"])
        .await;
    let renamed = |all: &mut Vec<Value>| all[DEPLOYMENT]["metadata"]["name"] = json!("webs");
    Cluster::new(web_with(2, objects::cpu_metric(60), renamed))
        .await
        .expect(&["Did you mean Deployment webs? There is no Deployment web: correct"])
        .await;
    let kind = |all: &mut Vec<Value>| {
        all[AUTOSCALER]["spec"]["scaleTargetRef"]["kind"] = json!("Deploymint");
    };
    Cluster::new(web_with(2, objects::cpu_metric(60), kind))
        .await
        .expect(&["can't decide: ", "kind Deploymint is not one of them"])
        .await;
    let zero = |all: &mut Vec<Value>| all[DEPLOYMENT]["spec"]["replicas"] = json!(0);
    Cluster::new(web_with(2, objects::cpu_metric(60), zero))
        .await
        .expect(&[
            "stays at 0: autoscaling is off",
            "kubectl scale Deployment web --replicas=2 --namespace shop",
        ])
        .await;
    let twice = |all: &mut Vec<Value>| {
        let mut other = all[AUTOSCALER].clone();
        other["metadata"]["name"] = json!("other");
        all.push(other);
    };
    let message = "pods by selector app=web are controlled by multiple HPAs: [shop/other shop/web]";
    let ambiguous = |all: &mut Vec<Value>| {
        twice(all);
        let condition = ["ScalingActive", "False", "AmbiguousSelector", message];
        set_status(&mut all[AUTOSCALER], 2, &[condition]);
    };
    Cluster::new(web_with(2, objects::cpu_metric(60), ambiguous))
        .await
        .expect(&[
            "shop/web isn't scaled: shop/other selects the same pods",
            "Merge this one and shop/other into one autoscaler with several metrics",
        ])
        .await;
    // No condition says that the autoscalers stopped scaling.
    Cluster::new(web_with(2, objects::cpu_metric(60), twice))
        .await
        .expect(&[
            "shop/web shares its target with shop/other and stays at 2",
            "they may stop scaling by metrics (AmbiguousSelector), or each may overwrite the \
             replicas of the others",
        ])
        .await;
}

#[tokio::test]
async fn bounds_that_exclude_those_of_another_autoscaler_precede_its_condition() {
    let conflicting = |all: &mut Vec<Value>| {
        let message = "pods by selector app=web are controlled by multiple HPAs: [shop/other \
                       shop/web]";
        let condition = ["ScalingActive", "False", "AmbiguousSelector", message];
        set_status(&mut all[AUTOSCALER], 4, &[condition]);
        let mut other = all[AUTOSCALER].clone();
        other["metadata"]["name"] = json!("other");
        (other["spec"]["minReplicas"], other["spec"]["maxReplicas"]) = (json!(12), json!(20));
        all.push(other);
    };
    Cluster::new(web_with(4, objects::cpu_metric(60), conflicting))
        .await
        .expect(&[
            "shop/web conflicts by its bounds, 2 to 10 replicas, with shop/other (12 to 20): both \
             scale Deployment web to their own bounds, up and down, for as long as both exist",
            "Only one autoscaler may scale Deployment web: delete the others",
        ])
        .await;
}

#[tokio::test]
async fn autoscaler_that_scales_beside_one_in_dry_run_is_explained_by_its_metrics() {
    let beside_dry_run = |all: &mut Vec<Value>| {
        let mut other = all[AUTOSCALER].clone();
        other["metadata"]["name"] = json!("other");
        annotate(&mut other, "dry-run", "true");
        all.push(other);
        set_status(&mut all[AUTOSCALER], 2, &[["ScalingActive", "True", "ValidMetricFound", ""]]);
    };
    Cluster::new(web_with(2, objects::cpu_metric(60), beside_dry_run))
        .await
        .expect(&["shop/web shares its target with shop/other and stays at 2"])
        .await;
}

#[tokio::test]
async fn conflicting_autoscaler_is_named_once_beside_others_of_the_target() {
    let three = |all: &mut Vec<Value>| {
        let message = "pods by selector app=web are controlled by multiple HPAs";
        let condition = ["ScalingActive", "False", "AmbiguousSelector", message];
        set_status(&mut all[AUTOSCALER], 4, &[condition]);
        for (name, min, max) in [("big", 12, 20), ("middle", 8, 14)] {
            let mut other = all[AUTOSCALER].clone();
            other["metadata"]["name"] = json!(name);
            (other["spec"]["minReplicas"], other["spec"]["maxReplicas"]) = (json!(min), json!(max));
            all.push(other);
        }
    };
    let cluster = Cluster::new(web_with(4, objects::cpu_metric(60), three)).await;
    let output = cluster.explain(&["shop/web"]).await;
    let start = "shop/web shares its target with shop/middle and conflicts by its bounds, 2 to 10 \
                 replicas, with shop/big (12 to 20): ";
    assert!(output.starts_with(start), "{output}");
    assert!(!output.contains("Merge the autoscalers of the target"), "{output}");
}

#[tokio::test]
async fn failing_metric_and_its_effect_are_named() {
    let metrics = vec![
        objects::cpu_metric(200),
        objects::external_metric(SettableMetrics::METRIC_WITHOUT_SERIES, "1"),
    ];
    Cluster::new(web(4, metrics))
        .await
        .expect(&[
            "stays at 4: broken cannot be read",
            "external.metrics.k8s.io works but has no value of broken",
            "the autoscaler scales up by the others, but not down",
        ])
        .await;
}

#[tokio::test]
async fn surplus_pods_of_a_rolling_update_are_reported() {
    let surge = |all: &mut Vec<Value>| all[DEPLOYMENT]["status"]["replicas"] = json!(5);
    Cluster::new(web_with(4, objects::external_metric("queue", "8"), surge))
        .await
        .expect(&["The target has 5 pods for 4 replicas, as during a rolling update"])
        .await;
}

#[tokio::test]
async fn similar_names_of_unknown_metrics_are_listed() {
    let mut cpus = objects::cpu_metric(60);
    cpus["resource"]["name"] = "cpus".into();
    for (metric, expected) in [
        (
            objects::pods_metric("http_request", "1"),
            "custom.metrics.k8s.io has no metric http_request (similar: http_requests). Correct \
             the name in spec.metrics[0]",
        ),
        (
            objects::pods_metric("jobs", "1"),
            "custom.metrics.k8s.io has no metric jobs (it has http_requests, lag).",
        ),
        (
            objects::pods_metric("lag", "1"),
            "custom.metrics.k8s.io has lag for services, not for pods. Use a metric of type Object",
        ),
        (
            objects::external_metric("queue_lenght", "1"),
            "external.metrics.k8s.io has no metric queue_lenght (similar: queue_length).",
        ),
        (cpus, "metrics.k8s.io has no resource cpus for the target's pods (similar: cpu)."),
    ] {
        let cluster = Cluster::new(web(4, vec![metric])).await;
        cluster.metrics.restrict_to(&["pods/http_requests", "services/lag", "queue_length"]);
        cluster.expect(&[expected]).await;
    }
}

#[tokio::test]
async fn autoscalers_of_one_target_name_each_other_across_both_apis() {
    let mut all = web(4, vec![objects::cpu_metric(60)]);
    let mut custom = all[AUTOSCALER].clone();
    custom["apiVersion"] = json!("autoscaling.hpa-rs.dev/v2");
    all.extend([custom_api_definition(), custom]);
    let cluster = Cluster::new(all.clone()).await;
    for (own, other) in [("shop/web", "rhpa/shop/web"), ("rhpa/shop/web", "shop/web")] {
        let output = cluster.explain(&[own]).await;
        let start = format!("{own} shares its target with {other} and stays at 4: ");
        assert!(output.starts_with(&start), "{output}");
        let advice = "Merge the autoscalers of the target into one with several metrics: this one ";
        assert!(output.contains(&format!("{advice}and {other}.")), "{output}");
    }
    // A controller of both APIs has reported that they share a target.
    let message = "pods by selector app=web are controlled by multiple HPAs: [shop/web \
                   rhpa/shop/web]";
    for index in [AUTOSCALER, all.len() - 1] {
        let condition = ["ScalingActive", "False", "AmbiguousSelector", message];
        set_status(&mut all[index], 4, &[condition]);
    }
    let cluster = Cluster::new(all).await;
    for (own, other) in [("shop/web", "rhpa/shop/web"), ("rhpa/shop/web", "shop/web")] {
        let output = cluster.explain(&[own]).await;
        let start = format!("{own} isn't scaled: {other} selects the same pods\n");
        assert!(output.starts_with(&start), "{output}");
        assert!(output.contains(&format!("Merge this one and {other} into one")), "{output}");
    }
}

#[tokio::test]
async fn autoscalers_with_problems_get_one_line_each() {
    let failing = |all: &mut Vec<Value>| {
        let message = "the HPA was unable to compute the replica count: failed to get cpu \
                       utilization: unable to get metrics for resource cpu: no metrics returned \
                       from resource metrics API";
        let condition = ["ScalingActive", "False", "FailedGetResourceMetric", message];
        set_status(&mut all[AUTOSCALER], 4, &[condition]);
        all[AUTOSCALER]["status"]["desiredReplicas"] = json!(0);
    };
    let cluster = Cluster::new(web_with(4, objects::cpu_metric(60), failing)).await;
    let output = cluster.explain(&["-A"]).await;
    let line = "shop/web  cpu cannot be read: no metrics returned from resource metrics API\n";
    assert!(output.starts_with(line), "{output}");
    assert!(output.contains("1 of 1 autoscaler has a problem"), "{output}");
    let held = |all: &mut Vec<Value>| {
        let conditions = [
            ["AbleToScale", "True", "ReadyForNewScale", ""],
            ["ScalingActive", "True", "ValidMetricFound", ""],
            ["ScalingLimited", "True", "TooManyReplicas", ""],
        ];
        set_status(&mut all[AUTOSCALER], 10, &conditions);
    };
    let at_maximum = Cluster::new(web_with(10, objects::cpu_metric(60), held)).await;
    let output = at_maximum.explain(&["-A"]).await;
    assert!(output.starts_with("shop/web  "), "it can't do what its metrics ask for: {output}");
    let none = cluster.explain(&["-A", "-n", "default"]).await;
    assert!(none.starts_with("None of 0 autoscalers has a problem"), "{none}");
}

#[tokio::test]
async fn metric_name_does_not_control_the_terminal() {
    let metric = objects::external_metric("a\u{1b}[31mb", "1");
    let cluster = Cluster::new(web(4, vec![metric])).await;
    let output = cluster.explain(&["shop/web"]).await;
    assert!(output.contains("a\\u{1b}[31mb") && !output.contains('\u{1b}'), "{output}");
}
