//! Reads the objects to check from a cluster.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Context, bail};
use hpa_metrics::DiscoveryMapper;
use kube::Client;
use serde_json::Value;

use super::{
    rules::REFERENCE,
    served::{self, CUSTOM, EXTERNAL, METRICS_APIS},
    workspace::{Reference, ServedMetrics, Workspace, group, is_autoscaler},
};
use crate::{
    args::LintArguments,
    kubectl,
    manifests::{Manifest, text},
    terminal::warn,
};

/// The name that KEDA lists instead of its metrics.
const PLACEHOLDER: &str = "externalmetrics";

/// A kind that is listed.
struct List {
    /// Group and version, as in a path.
    api: &'static str,
    resource: &'static str,
    kind: &'static str,
    /// The checks that are incomplete if the kind can't be listed.
    consequence: &'static str,
}

/// The API of the only list that must succeed.
const AUTOSCALERS: &str = "apis/autoscaling/v2";
const WORKLOADS: &str = "missing-target, missing-container, missing-request and \
                         overlapping-selectors report nothing about them";

/// The kinds that are listed. All but the first may be missing or forbidden.
#[rustfmt::skip]
const LISTS: [List; 9] = [
    List::new(AUTOSCALERS, hpa_crd::PLURAL, hpa_crd::KIND, ""),
    List::new("apis/autoscaling.hpa-rs.dev/v2", hpa_crd::PLURAL, hpa_crd::KIND, "they are not checked, and shared-target doesn't see them"),
    List::new("apis/apps/v1", "deployments", "Deployment", WORKLOADS),
    List::new("apis/apps/v1", "statefulsets", "StatefulSet", WORKLOADS),
    List::new("apis/batch/v1", "cronjobs", "CronJob", "overlapping-selectors doesn't see their pods"),
    List::new("api/v1", "limitranges", "LimitRange", "missing-request doesn't see their default requests"),
    List::new("apis/autoscaling.k8s.io/v1", "verticalpodautoscalers", "VerticalPodAutoscaler", "vpa-conflict reports nothing"),
    List::new("apis/keda.sh/v1alpha1", "scaledobjects", "ScaledObject", "shared-target doesn't see them"),
    List::new("apis/apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", "missing-selector reports nothing"),
];
/// The kind without a namespace.
const CLUSTER_SCOPED: &str = "CustomResourceDefinition";

impl List {
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
        group(self.api.trim_start_matches("apis/").trim_start_matches("api/"))
    }

    fn path(&self, namespace: Option<&str>) -> String {
        let Self { api, resource, .. } = self;
        match namespace {
            Some(name) if self.kind != CLUSTER_SCOPED => {
                format!("/{api}/namespaces/{name}/{resource}")
            }
            _ => format!("/{api}/{resource}"),
        }
    }

    /// Warns that the objects can't be listed and that checks are incomplete.
    fn report_unlisted(&self, error: &anyhow::Error) {
        let Self { resource, consequence, .. } = self;
        let separator = if self.group().is_empty() { "" } else { "." };
        let group = self.group();
        warn(format_args!("unable to list {resource}{separator}{group}: {error:#}: {consequence}"));
    }
}

/// Lists the autoscalers of one or all namespaces, their usual targets, and the metrics of the
/// metrics APIs.
pub(super) async fn read(arguments: &LintArguments) -> anyhow::Result<Workspace> {
    let clients = kubectl::clients(&arguments.cluster).await?;
    let client = clients.api;
    let namespace = arguments.cluster.namespace.as_deref().filter(|_| !arguments.all_namespaces);
    let groups: Value =
        kubectl::get(&client, "/apis").await.context("unable to list the API groups")?;
    let groups = groups.get("groups").and_then(Value::as_array).cloned().unwrap_or_default();
    // If a group isn't served and the user may not list it, the API server answers 403, not 404.
    let is_served = |list: &&List| {
        let has_name = |group: &Value| text(group, "/name") == list.group();
        list.api == AUTOSCALERS || list.group().is_empty() || groups.iter().any(has_name)
    };
    let (mut objects, mut listed) = (Vec::new(), BTreeSet::new());
    for entry in LISTS.iter().filter(is_served) {
        match list(&client, &entry.path(namespace), entry.kind).await {
            Ok(Some(found)) => {
                objects.extend(found);
                listed.insert((entry.group().to_owned(), entry.kind.to_owned()));
            }
            Ok(None) if entry.api == AUTOSCALERS => bail!("{AUTOSCALERS} is not served"),
            Err(error) if entry.api == AUTOSCALERS => {
                return Err(error).context("unable to list the autoscalers");
            }
            Err(error) if is_needed(entry, &objects) => entry.report_unlisted(&error),
            Ok(None) | Err(_) => {}
        }
    }
    if objects.is_empty() {
        kubectl::require_namespace(&client, namespace).await?;
    }
    let mut served = served_by_apis(&client, &groups).await;
    let mapper = Arc::new(DiscoveryMapper(client));
    if let Some(of_rules) = served::by_rules(&arguments.sources.rules, mapper).await? {
        served.add(of_rules);
    }
    Ok(Workspace::from_cluster(objects, listed, served))
}

/// Whether a check of these objects needs the kind. Definitions are needed only if a target is a
/// custom resource; few users may list them.
fn is_needed(list: &List, objects: &[Manifest]) -> bool {
    let mut autoscalers = objects.iter().filter(|object| is_autoscaler(object));
    list.kind != CLUSTER_SCOPED
        || autoscalers.any(|one| Reference::at(&one.object, REFERENCE).group.contains('.'))
}

/// The objects of a list. `None` if the API server doesn't serve the kind.
async fn list(client: &Client, path: &str, kind: &str) -> anyhow::Result<Option<Vec<Manifest>>> {
    let (mut objects, mut token) = (Vec::new(), String::new());
    loop {
        let page = kubectl::get_if_served(client, &format!("{path}?limit=500{token}")).await?;
        let Some(page): Option<Value> = page else { return Ok(None) };
        let api_version = text(&page, "/apiVersion").to_owned();
        let items = page.get("items").and_then(Value::as_array).into_iter().flatten();
        objects.extend(items.map(|item| {
            let mut object = item.clone();
            if let Some(members) = object.as_object_mut() {
                members.insert("kind".to_owned(), kind.into());
                members.insert("apiVersion".to_owned(), api_version.clone().into());
            }
            Manifest::new("cluster", 0, object)
        }));
        match text(&page, "/metadata/continue") {
            "" => return Ok(Some(objects)),
            next => token = format!("&continue={}", kubectl::escape(next)),
        }
    }
}

/// The metrics APIs, with the metrics that their discovery lists.
async fn served_by_apis(client: &Client, groups: &[Value]) -> ServedMetrics {
    let mut served = ServedMetrics { by: "the cluster", ..ServedMetrics::default() };
    for group in groups {
        let name = text(group, "/name");
        if !METRICS_APIS.contains(&name) {
            continue;
        }
        served.groups.insert(name.to_owned());
        let version = text(group, "/preferredVersion/groupVersion");
        match name {
            CUSTOM => served.custom = listed(client, version).await,
            EXTERNAL => served.external = listed(client, version).await,
            _ => {}
        }
    }
    served
}

/// The metrics that the discovery of an API lists. `None` if the API is down, or if its server
/// doesn't list them.
async fn listed(client: &Client, version: &str) -> Option<BTreeSet<String>> {
    let resources: Value = kubectl::get(client, &format!("/apis/{version}")).await.ok()?;
    let resources = resources.get("resources")?.as_array()?;
    let names: BTreeSet<String> =
        resources.iter().map(|resource| text(resource, "/name").to_owned()).collect();
    let is_listed = !names.is_empty() && !names.contains(PLACEHOLDER);
    is_listed.then_some(names)
}
