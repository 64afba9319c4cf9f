//! `hpa rules compare`: compares the metrics and values of two servers of the metrics APIs.

mod difference;
mod report;
mod requests;
mod server;
#[cfg(test)]
mod tests;
mod values;

use std::path::Path;

use anyhow::Context;
use hpa_calc::HorizontalPodAutoscaler;
use hpa_controller::{AutoscalerApi, HpaKey, k8s::ClientSource};
use serde_json::Value;

use self::{
    report::{Report, RequestComparison, ServerSummary},
    requests::MetricRequest,
    server::{Endpoint, MetricsResponse, Server, SkipReason},
};
use super::outcome::Outcome;
use crate::{
    args::RulesCompareArguments,
    autoscaler_name::{self, is_not_served},
    listed_autoscalers,
    manifests::{self, Manifest, string_at},
    terminal,
};

/// The APIs that both servers may have, in all versions that prometheus-adapter serves. Its chart
/// doesn't register v1beta2, and its document of the group doesn't list it.
const APIS: [&str; 4] = [
    "custom.metrics.k8s.io/v1beta1",
    "custom.metrics.k8s.io/v1beta2",
    "external.metrics.k8s.io/v1beta1",
    "metrics.k8s.io/v1beta1",
];

/// The APIs that a server may lack. An adapter with v1beta2 also serves v1beta1, where each metric
/// is compared. An adapter serves `metrics.k8s.io` only if it has `resourceRules`. Otherwise,
/// metrics-server serves it.
const OPTIONAL_APIS: [&str; 2] = ["custom.metrics.k8s.io/v1beta2", "metrics.k8s.io/v1beta1"];

/// The maximum number of reads of a value, because the servers may have read it at different times.
const MAX_ATTEMPTS: usize = 3;

/// The name of an autoscaler in messages, such as `rhpa/shop/web`, and the autoscaler.
type NamedAutoscaler = (String, HorizontalPodAutoscaler);

/// Compares two servers. Returns the report and the outcome.
pub(super) async fn compare(
    arguments: &RulesCompareArguments,
) -> anyhow::Result<(String, Outcome)> {
    let connect_cluster = async || {
        let (path, context) = (arguments.kubeconfig.clone(), arguments.context.clone());
        Server::for_cluster(ClientSource::Kubeconfig { path, context }).await
    };
    let left = match &arguments.left {
        None => connect_cluster().await?,
        Some(url) => Server::new(&Endpoint {
            name: "left",
            url: url.clone(),
            token_file: arguments.left_token_file.as_deref(),
            ca_file: arguments.left_ca_file.as_deref(),
            server_name: arguments.left_server_name.as_deref(),
            is_insecure: arguments.left_insecure_skip_tls_verify,
        })?,
    };
    let autoscalers = match (&arguments.autoscalers, &arguments.left) {
        (Some(path), _) => read_autoscalers(path)?,
        // The left server is the cluster.
        (None, None) => list_autoscalers(&left).await?,
        (None, Some(_)) => list_autoscalers(&connect_cluster().await?).await?,
    };
    let right = Server::new(&Endpoint {
        name: "right",
        url: arguments.right.clone(),
        token_file: arguments.right_token_file.as_deref(),
        ca_file: arguments.right_ca_file.as_deref(),
        server_name: arguments.right_server_name.as_deref(),
        is_insecure: arguments.right_insecure_skip_tls_verify,
    })?;
    if arguments.left.as_ref() == Some(&arguments.right) {
        terminal::warn("--left and --right are the same server: it is compared with itself");
    }
    let report = compare_servers(&left, &right, &autoscalers, arguments.tolerance).await?;
    Ok((report.to_string(), report.outcome()))
}

async fn compare_servers(
    left: &Server,
    right: &Server,
    autoscalers: &[NamedAutoscaler],
    tolerance: f64,
) -> anyhow::Result<Report> {
    let mut report = Report {
        autoscaler_count: autoscalers.len(),
        left: ServerSummary::new(left.label(), left.has_token),
        right: ServerSummary::new(right.label(), right.has_token),
        apis: Vec::new(),
        requests: Vec::new(),
    };
    for api in APIS {
        let path = format!("/apis/{api}");
        let responses = tokio::try_join!(left.get(&path), right.get(&path));
        let (left, right) = responses.context("nothing was compared")?;
        report.left.statuses.insert(left.status);
        report.right.statuses.insert(right.status);
        report.apis.push(difference::compare_lists(api, &left, &right)?);
    }
    let skipped = report.apis.iter().filter(|api| api.is_skipped());
    let skipped: Vec<String> = skipped.map(|api| format!("/apis/{}/", api.name)).collect();
    let is_skipped = |path: &str| skipped.iter().any(|api| path.starts_with(api.as_str()));
    let requests = requests::requests_for(autoscalers).into_iter();
    for request in requests.filter(|request| !is_skipped(&request.path)) {
        let compared = compare_values(left, right, request, tolerance).await;
        let compared = compared.context("the comparison is incomplete")?;
        if !report.repeats_v1beta1(&compared) {
            report.requests.push(compared);
        }
    }
    Ok(report)
}

/// Reads the values of both servers until they agree, at most [`MAX_ATTEMPTS`] times.
async fn compare_values(
    left: &Server,
    right: &Server,
    request: MetricRequest,
    tolerance: f64,
) -> anyhow::Result<RequestComparison> {
    let mut attempt = 1;
    loop {
        let (left, right) = tokio::try_join!(left.get(&request.path), right.get(&request.path))?;
        let skip_reason = left.skip_reason().or(right.skip_reason());
        let parse = |side: &str, response: &MetricsResponse| {
            values::parse(response).with_context(|| format!("{side}: {}", request.path))
        };
        let (left, right) = (parse("left", &left)?, parse("right", &right)?);
        let differences = difference::value_differences(&left, &right, tolerance);
        let is_forbidden = skip_reason == Some(SkipReason::Forbidden);
        if differences.is_empty() || is_forbidden || attempt == MAX_ATTEMPTS {
            let is_compared = left.is_ok() && right.is_ok();
            let value_count = left.ok().filter(|_| is_compared).map_or(0, |values| values.len());
            return Ok(RequestComparison {
                request,
                is_compared,
                skip_reason,
                value_count,
                differences,
            });
        }
        attempt += 1;
    }
}

/// Reads the autoscalers of all documents of a file, including the items of lists.
fn read_autoscalers(path: &Path) -> anyhow::Result<Vec<NamedAutoscaler>> {
    let manifests = manifests::read_files(&[path.to_owned()])?.into_iter();
    let autoscalers = manifests.filter(|manifest| manifest.kind() == hpa_calc::crd::KIND);
    let decoded = autoscalers.map(|Manifest { file, line, object, .. }| {
        decode(&object).with_context(|| format!("{file}:{line}"))
    });
    decoded.collect()
}

/// Lists the autoscalers of both APIs. Warns if those of the custom API can't be listed.
async fn list_autoscalers(cluster: &Server) -> anyhow::Result<Vec<NamedAutoscaler>> {
    let client = &cluster.client;
    let mut all = listed_autoscalers::list_autoscalers(client, AutoscalerApi::Core, None).await?;
    if !is_not_served(client, AutoscalerApi::Custom).await {
        match listed_autoscalers::list_autoscalers(client, AutoscalerApi::Custom, None).await {
            Ok(listed) => all.extend(listed),
            Err(error) => terminal::warn(format!("{error:#}: their metrics are not compared")),
        }
    }
    Ok(all.into_iter().map(|one| (one.name, one.hpa)).collect())
}

fn decode(object: &Value) -> anyhow::Result<NamedAutoscaler> {
    let hpa = autoscaler_name::decode(object)?;
    let api = AutoscalerApi::from_api_version(string_at(object, "/apiVersion"));
    let (namespace, name) = (&*hpa.metadata.namespace, &*hpa.metadata.name);
    let key = HpaKey::for_api(api.unwrap_or(AutoscalerApi::Core), namespace, name);
    Ok((key.to_string(), hpa))
}
