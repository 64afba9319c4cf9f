//! Findings about the target, and about other autoscalers of the target.

use super::*;

#[test]
fn both_autoscalers_of_a_target_are_reported() {
    assert_eq!(rule_ids(&lint(manifests_and(other_autoscaler("web")))), ["shared-target"; 2]);
    assert!(lint(manifests_and(other_autoscaler("api"))).is_empty());
    let mut elsewhere = other_autoscaler("web");
    elsewhere["metadata"]["namespace"] = json!("bank");
    assert!(lint(manifests_and(elsewhere)).is_empty());
}

#[test]
fn bounds_that_exclude_those_of_another_autoscaler_of_the_target_are_an_error() {
    let mut other = with_bounds("other", 12, 20);
    let findings = lint(manifests_and(other.clone()));
    assert_eq!(rule_ids(&findings), ["conflicting-bounds"; 2]);
    assert_eq!(
        findings[0].message,
        "Deployment web is also the target of shop/other at f.yaml:3, with 12 to 20 replicas \
         instead of 2 to 10 replicas: both scale it to their own bounds, up and down, for as long \
         as both exist with these bounds. Delete one"
    );
    other["metadata"]["annotations"] = json!({ "autoscaling.hpa-rs.dev/pause": "true" });
    let findings = lint(manifests_and(other.clone()));
    assert_eq!(rule_ids(&findings), ["shared-target"; 2]);
    let effect = "one of them is paused or in dry run. Once the replicas stay within the bounds of \
                  all, none of them scales it by metrics";
    assert!(findings.iter().all(|one| one.message.ends_with(effect)), "{findings:?}");
    // kube-controller-manager ignores the pause.
    other["metadata"]["managedFields"] =
        json!([{ "manager": "kube-controller-manager", "subresource": "status" }]);
    let findings = lint(manifests_and(other));
    let conflicts = rule_ids(&findings).into_iter().filter(|id| *id == "conflicting-bounds");
    assert_eq!(conflicts.count(), 2, "{findings:?}");

    let mut scheduled = other_autoscaler("web");
    let mut entry = json!({ "days": ["Wed"], "start": "08:00", "end": "20:00",
        "minReplicas": 12, "maxReplicas": 20 });
    for (min, expected) in [(12, "conflicting-bounds"), (10, "shared-target")] {
        entry["minReplicas"] = json!(min);
        let bounds = json!([entry]).to_string();
        scheduled["metadata"]["annotations"] = json!({ "autoscaling.hpa-rs.dev/bounds": bounds });
        assert_eq!(rule_ids(&lint(manifests_and(scheduled.clone()))), [expected; 2]);
    }
}

fn with_bounds(name: &str, min: i32, max: i32) -> Value {
    let mut autoscaler = other_autoscaler("web");
    autoscaler["metadata"]["name"] = json!(name);
    (autoscaler["spec"]["minReplicas"], autoscaler["spec"]["maxReplicas"]) =
        (json!(min), json!(max));
    autoscaler
}

#[test]
fn shared_target_with_a_conflict_is_not_called_unscaled() {
    let mut objects = manifests();
    objects.remove(0);
    objects.extend([with_bounds("a", 2, 4), with_bounds("b", 5, 8), with_bounds("c", 3, 6)]);
    let findings = lint(objects);
    let of_rule = |id: &str| findings.iter().filter(|one| one.rule.id == id).collect::<Vec<_>>();
    assert_eq!(of_rule("conflicting-bounds").len(), 2, "{findings:?}");
    let shared = of_rule("shared-target");
    assert_eq!(shared.len(), 3, "{findings:?}");
    let effect = "some of its autoscalers have bounds that exclude each other, so they scale it up \
                  and down. Keep one autoscaler";
    assert!(shared.iter().all(|one| one.message.ends_with(effect)), "{findings:?}");
    let of_a = shared.iter().find(|one| one.autoscaler.ends_with("shop/a")).expect("a finding");
    assert!(!of_a.message.contains("shop/b"), "{findings:?}");
}

#[test]
fn conflict_of_two_others_of_different_apis_is_reported() {
    let mut custom = with_bounds("c", 6, 8);
    custom["apiVersion"] = json!(hpa_calc::crd::API_VERSION);
    let mut objects = manifests_and(with_bounds("b", 2, 4));
    objects.push(custom);
    let findings = lint(objects);
    let of_web = findings.iter().filter(|one| one.autoscaler == "shop/web").collect::<Vec<_>>();
    let ids: Vec<&str> = of_web.iter().map(|one| one.rule.id).collect();
    assert_eq!(ids, ["shared-target"; 2], "{findings:?}");
    let effect = "they scale it up and down. Keep one autoscaler";
    assert!(of_web.iter().all(|one| one.message.ends_with(effect)), "{findings:?}");
}

#[test]
fn conflicts_among_many_autoscalers_of_a_target_are_reported() {
    let mut objects = manifests();
    objects.extend((0..14).map(|index| with_bounds(&format!("a{index}"), 2, 10)));
    objects.push(with_bounds("high", 12, 20));
    let findings = lint(objects);
    let conflicts = findings.iter().filter(|one| one.rule.id == "conflicting-bounds");
    let (of_high, of_others): (Vec<_>, Vec<_>) =
        conflicts.partition(|one| one.autoscaler == "shop/high");
    // The findings about an autoscaler name at most 10 others.
    assert_eq!((of_high.len(), of_others.len()), (10, 15), "{findings:?}");
    let is_unscaled = |one: &&Finding| one.message.contains("the autoscalers stop scaling it");
    assert_eq!(findings.iter().find(is_unscaled).map(|one| &one.message), None);
}

#[test]
fn conflict_of_another_environment_does_not_count() {
    let mut objects = manifests_and(with_bounds("a", 2, 4));
    objects.extend([with_bounds("b", 6, 8), with_bounds("a", 6, 9)]);
    let mut manifests = numbered(objects);
    manifests[4].file = "g.yaml".to_owned();
    let findings = find_violations(&Workspace::from_manifests(manifests));
    let of_file: Vec<&Finding> = findings.iter().filter(|one| one.file == "g.yaml").collect();
    let [finding] = of_file.as_slice() else { panic!("{findings:?}") };
    assert_eq!(finding.rule.id, "shared-target");
    let effect = "the autoscalers stop scaling it by metrics (AmbiguousSelector) or overwrite each \
                  other's replicas";
    assert!(finding.message.ends_with(effect), "{finding:?}");
}

#[test]
fn autoscaler_of_the_custom_api_in_a_cluster_is_named_with_its_prefix() {
    let mut custom = manifests().remove(0);
    custom["apiVersion"] = json!(hpa_calc::crd::API_VERSION);
    let objects = manifests_and(custom).into_iter();
    let manifests = objects.map(|object| Manifest::new("cluster", 0, object)).collect();
    let findings = find_violations(&Workspace::from_manifests(manifests));
    let mut names: Vec<&str> = findings.iter().map(|one| one.autoscaler.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["rhpa/shop/web", "shop/web"], "{findings:?}");
}

/// Autoscalers whose targets are missing, and as many Deployments without an autoscaler.
fn missing_targets(count: usize) -> Vec<Value> {
    let pair = |index: usize| {
        manifests_with(&[
            (0, "/metadata/name", json!(format!("a{index}"))),
            (0, "/spec/scaleTargetRef/name", json!(format!("missing-{index}"))),
            (1, "/metadata/name", json!(format!("d{index}"))),
        ])
    };
    (0..count).flat_map(pair).collect()
}

/// Autoscalers with a common target, and as many Deployments without an autoscaler.
fn common_target(count: usize) -> Vec<Value> {
    let mut objects = missing_targets(count);
    for hpa in objects.iter_mut().filter(|object| object["kind"] == "HorizontalPodAutoscaler") {
        hpa["spec"]["scaleTargetRef"]["name"] = json!("d0");
    }
    objects
}

/// The time may grow 50 times: that of linear work grows 10 times, that of quadratic work 100
/// times. Other processes can delay one measurement, but not the shortest of three.
#[rstest]
#[case::missing(missing_targets)]
#[case::common(common_target)]
fn time_is_in_proportion_to_the_objects(#[case] objects: fn(usize) -> Vec<Value>) {
    let time = |count: usize| {
        let objects = numbered(objects(count));
        let start = std::time::Instant::now();
        find_violations(&Workspace::from_manifests(objects));
        start.elapsed()
    };
    let shortest_time = |count: usize| (0..3).map(|_| time(count)).min().unwrap();
    let (few, many) = (shortest_time(200), shortest_time(2000));
    assert!(many < few * 50, "{many:?} for 2000, but {few:?} for 200");
}

#[test]
fn autoscaler_without_a_namespace_may_share_a_target() {
    let mut anywhere = other_autoscaler("web");
    anywhere["metadata"].as_object_mut().unwrap().remove("namespace");
    let findings = lint(manifests_and(anywhere.clone()));
    assert_eq!(rule_ids(&findings), ["shared-target"; 2]);
    for finding in findings {
        assert!(finding.message.contains("add it if they are for different ones"), "{finding:?}");
    }
    // Without the target, both may be in different namespaces.
    let mut objects = manifests_and(anywhere);
    objects.retain(|object| object["kind"] == "HorizontalPodAutoscaler");
    assert!(!rule_ids(&lint(objects)).contains(&"shared-target"));
}

#[rstest]
#[case::same_target(json!({ "name": "web" }), true)]
#[case::other_target(json!({ "name": "api" }), false)]
fn scaled_object_of_the_target_is_reported(#[case] target: Value, #[case] is_reported: bool) {
    let scaled = json!({
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
        "metadata": { "name": "web", "namespace": "shop" }, "spec": { "scaleTargetRef": target },
    });
    let mut objects = manifests_and(scaled);
    assert_eq!(rule_ids(&lint(objects.clone())) == ["shared-target"], is_reported);
    // KEDA's own autoscaler has the ScaledObject as owner.
    let owner = json!({
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "web", "uid": "u",
    });
    objects[0]["metadata"]["ownerReferences"] = json!([owner]);
    assert!(lint(objects).is_empty());
}

#[rstest]
#[case::this("web", true)]
#[case::another("keda-hpa-web", false)]
fn scaled_object_that_takes_over_the_autoscaler_is_not_reported(
    #[case] name: &str,
    #[case] taken_over: bool,
) {
    let annotations = json!({ "scaledobject.keda.sh/transfer-hpa-ownership": "true" });
    let objects = manifests_and(json!({
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
        "metadata": { "name": "web", "namespace": "shop", "annotations": annotations },
        "spec": {
            "scaleTargetRef": { "name": "web" },
            "advanced": { "horizontalPodAutoscalerConfig": { "name": name } },
        },
    }));
    assert_eq!(lint(objects).is_empty(), taken_over);
}

#[rstest]
#[case::without(json!({ "specReplicasPath": ".spec.replicas" }), true)]
#[case::with(json!({ "labelSelectorPath": ".status.selector" }), false)]
fn custom_resource_without_selector_is_reported(#[case] scale: Value, #[case] is_reported: bool) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "rollouts.example.com" },
        "spec": {
            "group": "example.com", "names": { "kind": "Rollout" },
            "versions": [{ "name": "v1", "subresources": { "scale": scale } }],
        },
    });
    let mut objects = manifests_and(definition);
    objects[0]["spec"]["scaleTargetRef"] =
        json!({ "apiVersion": "example.com/v1", "kind": "Rollout", "name": "web" });
    let findings = lint(objects);
    assert_eq!(rule_ids(&findings) == ["missing-selector"], is_reported, "{findings:?}");
}

#[test]
fn missing_target_in_a_cluster_is_reported() {
    let served =
        ServedMetrics { groups: string_set(&["metrics.k8s.io"]), ..ServedMetrics::default() };
    let objects = |kind: &str| vec![manifests_with(&[(0, KIND, json!(kind))]).remove(0)];
    let findings = find_violations(&in_cluster(objects("Deployment"), served.clone()));
    assert_eq!(rule_ids(&findings), ["missing-target"]);
    // StatefulSets could not be listed.
    assert!(find_violations(&in_cluster(objects("StatefulSet"), served)).is_empty());
}

#[test]
fn replicas_of_a_target_in_a_cluster_are_not_reported() {
    let objects = manifests_with(&[(1, "/spec/replicas", json!(3))]);
    let served = ServedMetrics { groups: string_set(&["metrics.k8s.io"]), ..<_>::default() };
    assert!(find_violations(&in_cluster(objects, served)).is_empty());
}

#[test]
fn namespace_flag_applies_to_objects_without_a_namespace() {
    let mut workspace = Workspace::from_manifests(numbered(manifests_with(&[
        (0, "/metadata/namespace", Value::Null),
        (1, "/metadata/name", json!("web")),
    ])));
    assert_eq!(rule_ids(&find_violations(&workspace)), ["missing-target"]);
    workspace.set_namespace(Some("shop"));
    assert!(find_violations(&workspace).is_empty());
}

#[test]
fn autoscalers_of_a_target_are_named_once_with_their_place() {
    let mut objects = manifests_and(other_autoscaler("web"));
    objects.push(other_autoscaler("web"));
    let mut manifests = numbered(objects);
    // Manifests of several environments.
    for (index, manifest) in manifests.iter_mut().enumerate() {
        manifest.file = format!("{index}.yaml");
    }
    let findings = find_violations(&Workspace::from_manifests(manifests));
    assert_eq!(rule_ids(&findings), ["shared-target"; 3]);
    let start = "Deployment web is also the target of shop/other at 2.yaml:3: the autoscalers stop \
                 scaling it";
    assert!(findings[0].message.starts_with(start), "{findings:?}");
}

#[rstest]
#[case::autoscaler(0)]
#[case::workload(1)]
fn object_that_occurs_twice_in_a_file_is_reported(#[case] index: usize) {
    let again = manifests().remove(index);
    let objects = manifests_and(again.clone());
    let findings = lint(objects.clone());
    let [finding] = findings.as_slice() else { panic!("{findings:?}") };
    assert_eq!((finding.rule.id, finding.position.line), ("duplicate-object", index + 1));
    let expected = " web occurs again in line 3: kubectl apply overwrites this one with it";
    assert!(finding.message.ends_with(expected), "{finding:?}");

    // Another file may be of another environment.
    let mut manifests = numbered(objects);
    manifests[2].file = "g.yaml".to_owned();
    assert_eq!(rule_ids(&find_violations(&Workspace::from_manifests(manifests))), [""; 0]);
    let mut elsewhere = again;
    elsewhere["metadata"]["namespace"] = json!("bank");
    assert!(!rule_ids(&lint(manifests_and(elsewhere))).contains(&"duplicate-object"));
}
