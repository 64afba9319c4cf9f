//! Checks by a user who may read the autoscalers of a namespace, but no lease.

use super::*;
use crate::kubectl;

const DOUBT: &str = "whether a controller is active is not known (the newest status was stored 10s \
                     ago)";

/// A cluster without a problem, as a tenant of the namespace `shop` reads it.
fn as_tenant() -> ClusterState {
    let forbidden =
        |action: &str| Unavailable::Forbidden { action: action.into(), message: "no".into() };
    let mut cluster = healthy();
    cluster.scope.namespace = Some("shop".to_owned());
    set_unavailable(&mut cluster, &forbidden("get the lease scaling/hpa"));
    cluster.built_in.holder = Err(forbidden("get the lease kube-system/kube-controller-manager"));
    cluster.built_in.flags = None;
    cluster.metrics_apis = Err(kubectl::forbidden("no APIServices"));
    cluster
}

fn headline(cluster: &ClusterState) -> String {
    run_checks(cluster).text(false).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn headline_of_a_tenant_is_about_the_autoscalers() {
    let mut cluster = as_tenant();
    let found = problems(&cluster);
    assert!(found.iter().all(|one| one.0 == Level::Skipped), "{found:?}");
    let lease = "whether a controller is active is not known: not permitted to get the lease \
                 scaling/hpa: no. ";
    assert!(found.iter().any(|one| one.1.starts_with(lease)), "{found:?}");
    let can_scale =
        "- 1 autoscaler in the namespace shop can scale according to the stored statuses";
    assert_eq!(headline(&cluster), format!("{can_scale}; {DOUBT}"));
    assert_eq!(run_checks(&cluster).level, Level::Skipped, "no health that wasn't read");

    let failed = json!([condition("AbleToScale", "False", "FailedGetScale", "not found")]);
    cluster.autoscalers = vec![autoscaler("web", failed)];
    let failing = "× 1 error, 0 warnings: 1 of 1 autoscaler in the namespace shop can't scale \
                   according to the stored statuses";
    assert_eq!(headline(&cluster), format!("{failing}; {DOUBT}"));
}

#[test]
fn forbidden_lease_of_a_whole_cluster_is_a_warning() {
    let mut cluster = as_tenant();
    cluster.scope = ListScope::default();
    let expected =
        "‼ 0 errors, 2 warnings: the lease can't be read: not permitted to get the lease";
    assert!(headline(&cluster).starts_with(expected), "{}", headline(&cluster));
}

#[test]
fn headline_without_problems_is_about_what_was_read() {
    let mut cluster = healthy();
    cluster.scope.unread_api = Some("The autoscalers of b are not read: no\nresponse".to_owned());
    let unread = "the autoscalers of b are not read: no\\nresponse";
    let expected = format!("- 1 autoscaler can scale; {unread}");
    assert_eq!(headline(&cluster), expected);
    assert_eq!(run_checks(&cluster).level, Level::Skipped);
    let failed = json!([condition("AbleToScale", "False", "FailedGetScale", "not found")]);
    cluster.autoscalers = vec![autoscaler("web", failed)];
    let expected = format!("× 1 error, 0 warnings: 1 of 1 autoscaler can't scale; {unread}");
    assert_eq!(headline(&cluster), expected);

    let mut cluster = healthy();
    let namespace = Some("shop".to_owned());
    cluster.scope = ListScope { namespace, is_fallback: true, unread_api: None };
    assert_eq!(headline(&cluster), "- 1 autoscaler in the namespace shop can scale");
    let mut cluster = as_tenant();
    cluster.scope.unread_api = Some("The autoscalers of b are not read".to_owned());
    let end = format!("; the autoscalers of b are not read; {DOUBT}");
    assert!(headline(&cluster).ends_with(&end), "{}", headline(&cluster));
}

#[test]
fn forbidden_pod_and_debug_api_are_no_problem_of_a_tenant() {
    let mut cluster = as_tenant();
    cluster.lease.holder = healthy().lease.holder;
    let action = "get the pod scaling/hpa-1".to_owned();
    cluster.leader = Err(Unavailable::Forbidden { action, message: "no".into() });
    let found = problems(&cluster);
    assert!(found.iter().all(|one| one.0 == Level::Skipped), "{found:?}");
    assert!(headline(&cluster).starts_with("√ no problems found; "), "the lease is held");
}

#[test]
fn other_writers_of_a_tenant_are_a_problem_only_if_they_write_at_the_same_time() {
    let mut cluster = as_tenant();
    cluster.autoscalers[0].controller.name = Some("kube-controller-manager".to_owned());
    let found = problems(&cluster);
    assert!(found.iter().all(|one| one.0 == Level::Skipped), "{found:?}");

    cluster.autoscalers.push(autoscaler("new", healthy_conditions()));
    cluster.autoscalers[0].controller.at = "2026-01-31T11:00:00Z".parse().ok();
    let found = problems(&cluster);
    assert!(found.iter().all(|one| one.0 == Level::Skipped), "a migration: {found:?}");

    cluster.autoscalers[0].controller.at = cluster.autoscalers[1].controller.at;
    let conflict = "‼ 0 errors, 1 warning: kube-controller-manager stored the status of 1 \
                    autoscaler last, most recently 10s ago: shop/web; if it handles the same \
                    autoscalers as the holder of the lease, both overwrite each other's decisions; \
                    whether a controller is active";
    assert!(headline(&cluster).starts_with(conflict), "{}", headline(&cluster));
}
