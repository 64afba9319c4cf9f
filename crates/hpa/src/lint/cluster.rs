//! Reads the objects and the served metrics of a cluster.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Context, bail};
use hpa_metrics::DiscoveryMapper;
use kube::Client;
use serde_json::Value;

use super::{
    object::{Reference, TARGET_POINTER, group, is_autoscaler},
    served::{self, CUSTOM, EXTERNAL, METRICS_APIS, ServedMetrics},
    workspace::Workspace,
};
use crate::{
    args::LintArguments,
    findings::CLUSTER,
    kubectl,
    listed_autoscalers::{ListScope, list_in_scope},
    manifests::{Manifest, items, string_at},
    terminal::warn,
};

/// A kind whose objects are listed.
struct ListedKind {
    /// The path of its group and version, without a leading slash.
    api: &'static str,
    resource: &'static str,
    kind: &'static str,
    /// The end of the warning if the kind can't be listed: the rules that are incomplete then.
    consequence: &'static str,
}

const WORKLOADS_CONSEQUENCE: &str = "missing-target, missing-container, missing-request and \
                                     overlapping-selectors report nothing about them";

/// The autoscalers of the core API, which must be listed.
const CORE_AUTOSCALERS: ListedKind =
    ListedKind::new("apis/autoscaling/v2", hpa_calc::crd::PLURAL, hpa_calc::crd::KIND, "");

/// The other kinds that are listed. They may be unserved or forbidden.
#[rustfmt::skip]
const OTHER_KINDS: [ListedKind; 11] = [
    ListedKind::new("apis/autoscaling.hpa-rs.dev/v2", hpa_calc::crd::PLURAL, hpa_calc::crd::KIND, "they are not checked, and shared-target doesn't see them"),
    ListedKind::new("apis/apps/v1", "deployments", "Deployment", WORKLOADS_CONSEQUENCE),
    ListedKind::new("apis/apps/v1", "statefulsets", "StatefulSet", WORKLOADS_CONSEQUENCE),
    ListedKind::new("apis/batch/v1", "cronjobs", "CronJob", "overlapping-selectors doesn't see their pods"),
    ListedKind::new("apis/batch/v1", "jobs", JOB, "overlapping-selectors doesn't see their pods"),
    ListedKind::new("api/v1", "limitranges", "LimitRange", "missing-request doesn't see their default requests"),
    ListedKind::new("apis/autoscaling.k8s.io/v1", "verticalpodautoscalers", "VerticalPodAutoscaler", "vpa-conflict reports nothing"),
    ListedKind::new("apis/keda.sh/v1alpha1", "scaledobjects", "ScaledObject", "shared-target doesn't see them"),
    ListedKind::new("apis/zalando.org/v1", "scalingschedules", SCHEDULE, "unserved-metric doesn't see that one is missing"),
    ListedKind::new("apis/zalando.org/v1", "clusterscalingschedules", CLUSTER_SCHEDULE, "unserved-metric doesn't see that one is missing"),
    ListedKind::new("apis/apiextensions.k8s.io/v1", "customresourcedefinitions", DEFINITION, "missing-selector reports nothing"),
];
/// The kind whose objects are read only if they pass [`may_have_own_pods`].
const JOB: &str = "Job";
const SCHEDULE: &str = "ScalingSchedule";
const CLUSTER_SCHEDULE: &str = "ClusterScalingSchedule";
const DEFINITION: &str = "CustomResourceDefinition";
/// The listed kinds whose objects have no namespace.
const CLUSTER_SCOPED: [&str; 2] = [CLUSTER_SCHEDULE, DEFINITION];

impl ListedKind {
    const fn new(
        api: &'static str,
        resource: &'static str,
        kind: &'static str,
        consequence: &'static str,
    ) -> Self {
        Self { api, resource, kind, consequence }
    }

    /// The API group; empty for the core group.
    fn group(&self) -> &'static str {
        group(self.api_version())
    }

    fn group_and_kind(&self) -> (String, String) {
        (self.group().to_owned(), self.kind.to_owned())
    }

    /// The group and version, as in manifests.
    fn api_version(&self) -> &'static str {
        self.api.trim_start_matches("apis/").trim_start_matches("api/")
    }

    fn path(&self, namespace: Option<&str>) -> String {
        let Self { api, resource, .. } = self;
        match namespace {
            Some(name) if !CLUSTER_SCOPED.contains(&self.kind) => {
                format!("/{api}/namespaces/{}/{resource}", kubectl::escape(name))
            }
            _ => format!("/{api}/{resource}"),
        }
    }

    /// Warns that the objects can't be listed and that checks are incomplete.
    fn warn_unlisted(&self, error: &anyhow::Error) {
        let Self { resource, consequence, .. } = self;
        let separator = if self.group().is_empty() { "" } else { "." };
        let group = self.group();
        warn(format_args!("unable to list {resource}{separator}{group}: {error:#}: {consequence}"));
    }
}

/// Lists the objects of [`CORE_AUTOSCALERS`] and [`OTHER_KINDS`] in one or all namespaces, and the
/// metrics of the metrics APIs and of the rules of `--metrics-config`. If the user may not list the
/// autoscalers of all namespaces, lists the objects of the kubeconfig context's namespace. If one
/// of the other kinds can't be listed, warns.
pub(super) async fn read_workspace(arguments: &LintArguments) -> anyhow::Result<Workspace> {
    let clients = kubectl::clients(&arguments.cluster).await?;
    let client = clients.api;
    let namespace = arguments.cluster.namespace.clone().filter(|_| !arguments.all_namespaces);
    let groups: Value =
        kubectl::get(&client, "/apis").await.context("unable to list the API groups")?;
    let groups = groups.get("groups").and_then(Value::as_array).cloned().unwrap_or_default();
    // If a group isn't served and the user may not list it, the API server answers 403, not 404.
    let is_served = |kind: &&ListedKind| {
        let has_name = |group: &Value| string_at(group, "/name") == kind.group();
        kind.group().is_empty() || groups.iter().any(has_name)
    };
    let (autoscalers, scope) =
        list_autoscalers(&client, namespace).await.context("unable to list the autoscalers")?;
    let Some(mut objects) = autoscalers else {
        bail!("{} is not served", CORE_AUTOSCALERS.api_version());
    };
    scope.describe_limits().iter().for_each(warn);
    let namespace = scope.namespace.as_deref();
    let mut listed = BTreeSet::from([CORE_AUTOSCALERS.group_and_kind()]);
    for kind in OTHER_KINDS.iter().filter(is_served) {
        match list_objects(&client, kind, namespace).await {
            Ok(Some(manifests)) => {
                objects.extend(manifests);
                listed.insert(kind.group_and_kind());
            }
            Err(error) if is_needed(kind, &objects) => kind.warn_unlisted(&error),
            Ok(None) | Err(_) => {}
        }
    }
    // Objects without a namespace, such as definitions, say nothing about the namespace.
    if !objects.iter().any(is_autoscaler) {
        kubectl::require_namespace(&client, namespace).await?;
    }
    let mut served = read_apis(&client, &groups).await;
    let mapper = Arc::new(DiscoveryMapper(client));
    if let Some(metrics) = served::read_rules(&arguments.sources.rules, mapper).await? {
        served.add(metrics);
    }
    Ok(Workspace::from_cluster(objects, listed, served))
}

/// Whether a check of these objects needs the kind. `CustomResourceDefinition`s are needed only if
/// a target is a custom resource. Schedules are needed only if a metric is the value of one. Few
/// users may list these kinds, so a warning about an unneeded kind would only distract.
fn is_needed(kind: &ListedKind, objects: &[Manifest]) -> bool {
    let mut autoscalers = objects.iter().filter(|object| is_autoscaler(object));
    match kind.kind {
        DEFINITION => {
            autoscalers.any(|one| Reference::at(&one.object, TARGET_POINTER).group.contains('.'))
        }
        SCHEDULE | CLUSTER_SCHEDULE => {
            autoscalers.any(|one| has_metric_of_kind(&one.object, kind.kind))
        }
        _ => true,
    }
}

/// Whether an autoscaler has an Object metric of an object of this kind.
fn has_metric_of_kind(autoscaler: &Value, kind: &str) -> bool {
    let mut metrics = items(autoscaler.pointer("/spec/metrics"));
    metrics.any(|metric| string_at(metric, "/object/describedObject/kind") == kind)
}

/// Whether a Job may have pods of its own. A finished Job has no running pods, and the pods of a
/// Job with an owner are those of its `CronJob`. A cluster may have thousands of such Jobs.
fn may_have_own_pods(job: &Value) -> bool {
    let is_finished = items(job.pointer("/status/conditions")).any(|condition| {
        ["Complete", "Failed"].contains(&string_at(condition, "/type"))
            && string_at(condition, "/status") == "True"
    });
    !is_finished && job.pointer("/metadata/ownerReferences").is_none()
}

/// Lists the autoscalers of the core API, in the scope that [`list_in_scope`] selects.
async fn list_autoscalers(
    client: &Client,
    namespace: Option<String>,
) -> anyhow::Result<(Option<Vec<Manifest>>, ListScope)> {
    let list = |namespace: Option<String>| async move {
        list_objects(client, &CORE_AUTOSCALERS, namespace.as_deref()).await
    };
    list_in_scope(client, namespace, list).await
}

/// Lists all objects of a kind, except for Jobs without pods of their own. `None` if the API server
/// doesn't serve the kind.
async fn list_objects(
    client: &Client,
    kind: &ListedKind,
    namespace: Option<&str>,
) -> anyhow::Result<Option<Vec<Manifest>>> {
    let is_read: fn(&Value) -> bool = if kind.kind == JOB { may_have_own_pods } else { |_| true };
    let objects = match kubectl::list_needed(client, &kind.path(namespace), is_read).await {
        Err(error) if kubectl::is_not_found(&error) => return Ok(None),
        objects => objects?,
    };
    let manifests = objects.into_iter().map(|mut object| {
        // The API server leaves out the kind of the items of a list.
        if let Some(members) = object.as_object_mut() {
            members.insert("kind".to_owned(), kind.kind.into());
            members.insert("apiVersion".to_owned(), kind.api_version().into());
        }
        Manifest::new(CLUSTER, 0, object)
    });
    Ok(Some(manifests.collect()))
}

/// Reads which metrics APIs are registered, and the metrics that their discovery lists.
async fn read_apis(client: &Client, groups: &[Value]) -> ServedMetrics {
    let mut served = ServedMetrics::default();
    for group in groups {
        let name = string_at(group, "/name");
        if !METRICS_APIS.contains(&name) {
            continue;
        }
        served.groups.insert(name.to_owned());
        let version = string_at(group, "/preferredVersion/groupVersion");
        match (list_metrics(client, version).await, name) {
            (Ok(names), CUSTOM) => served.custom = names,
            (Ok(names), EXTERNAL) => served.external = names,
            (Ok(_), _) => {}
            (Err(error), _) => {
                served.api_errors.insert(name.to_owned(), format!("{error:#}"));
            }
        }
    }
    served
}

/// The metrics that the discovery of an API lists. `None` if it lists no metrics, like that of
/// KEDA.
async fn list_metrics(client: &Client, version: &str) -> anyhow::Result<Option<BTreeSet<String>>> {
    let discovery: Value = kubectl::get(client, &format!("/apis/{version}")).await?;
    Ok(kubectl::listed_metrics(&discovery).filter(|names| !names.is_empty()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::kubectl::answering_client;

    #[rstest]
    #[case::new(json!({}), true)]
    #[case::running(json!({ "status": { "active": 1, "conditions": [] } }), true)]
    #[case::suspended(
        json!({ "status": { "conditions": [{ "type": "Suspended", "status": "True" }] } }),
        true
    )]
    #[case::complete(
        json!({ "status": { "conditions": [{ "type": "Complete", "status": "True" }] } }),
        false
    )]
    #[case::failed(
        json!({ "status": { "conditions": [{ "type": "Failed", "status": "True" }] } }),
        false
    )]
    #[case::of_a_cron_job(json!({ "metadata": { "ownerReferences": [{}] } }), false)]
    fn jobs_without_pods_of_their_own_are_not_read(#[case] job: Value, #[case] is_read: bool) {
        assert_eq!(may_have_own_pods(&job), is_read);
    }

    #[rstest]
    #[case::schedule("ScalingSchedule", &[SCHEDULE])]
    #[case::of_the_cluster("ClusterScalingSchedule", &[CLUSTER_SCHEDULE])]
    #[case::another("RouteGroup", &[])]
    fn schedules_are_needed_only_for_their_metrics(#[case] kind: &str, #[case] needed: &[&str]) {
        let autoscaler = json!({
            "apiVersion": "autoscaling/v2", "kind": hpa_calc::crd::KIND,
            "spec": { "metrics": [{ "object": { "describedObject": { "kind": kind } } }] },
        });
        let objects = [Manifest::new("cluster", 0, autoscaler)];
        let schedules = OTHER_KINDS.iter().filter(|one| one.group() == "zalando.org");
        let found: Vec<&str> =
            schedules.filter(|one| is_needed(one, &objects)).map(|one| one.kind).collect();
        assert_eq!(found, needed);
    }

    #[tokio::test]
    async fn own_namespace_is_listed_if_listing_all_is_forbidden() {
        let own = CORE_AUTOSCALERS.path(Some("default"));
        let client = answering_client(move |path| {
            if path == own {
                (200, json!({ "metadata": {}, "items": [{ "metadata": { "name": "web" } }] }))
            } else {
                (403, json!({ "message": "not permitted" }))
            }
        });
        let (objects, scope) = list_autoscalers(&client, None).await.expect("a list");
        assert_eq!(objects.as_ref().map(Vec::len), Some(1));
        assert!(scope.is_fallback, "{scope:?}");
    }

    #[tokio::test]
    async fn metrics_api_that_does_not_answer_is_no_api_without_metrics() {
        let client = answering_client(|path| match path {
            "/apis/external.metrics.k8s.io/v1beta1" => (200, json!({ "resources": [] })),
            _ => (503, json!({ "message": "the server is currently unable to handle it" })),
        });
        let groups = METRICS_APIS.map(|group| {
            let version = format!("{group}/v1beta1");
            json!({ "name": group, "preferredVersion": { "groupVersion": version } })
        });
        let served = read_apis(&client, &groups).await;
        assert_eq!(served.groups.len(), METRICS_APIS.len());
        assert_eq!((served.custom, served.external), (None, None));
        let failed: Vec<&str> = served.api_errors.keys().map(String::as_str).collect();
        assert_eq!(failed, [CUSTOM, "metrics.k8s.io"]);
        let error = &served.api_errors[CUSTOM];
        assert!(error.contains("unable to handle it"), "{error}");
    }

    #[rstest]
    #[case::job(JOB, "/apis/batch/v1/namespaces/shop/jobs")]
    #[case::cron_job("CronJob", "/apis/batch/v1/namespaces/shop/cronjobs")]
    #[case::core_group("LimitRange", "/api/v1/namespaces/shop/limitranges")]
    #[case::of_the_cluster(CLUSTER_SCHEDULE, "/apis/zalando.org/v1/clusterscalingschedules")]
    fn only_kinds_with_a_namespace_are_listed_in_it(#[case] kind: &str, #[case] path: &str) {
        let listed = OTHER_KINDS.iter().find(|one| one.kind == kind).expect("a listed kind");
        assert_eq!(listed.path(Some("shop")), path);
    }
}
