//! Reads the requests per second of an Ingress, a `RouteGroup` or host names, from skipper's
//! metrics in Prometheus.

use std::collections::BTreeMap;

use async_trait::async_trait;
use hpa_calc::api::CrossVersionObjectReference;

use super::prometheus::{Division, NO_SELECTOR, PrometheusQuery};
use crate::{
    Compat,
    cluster::{Ingress, RouteGroup},
    collector::{Collector, Context, Environment, Server, Values},
    config::MetricConfig,
    error::{ConfigError, FetchError, QueryError},
    settings::DEFAULT_PROMETHEUS,
};

const SERIES: &str = "skipper_serve_host_duration_seconds_count";

/// The maximum length of a backend's name in an error. Kubernetes limits a label's value to the
/// same length.
const MAX_BACKEND_IN_ERROR: usize = 63;

/// Requests per second of an Ingress or `RouteGroup`. The query depends on the object.
#[derive(Clone, Debug)]
pub(crate) struct RequestRate {
    object: CrossVersionObjectReference,
    backend: String,
    division: Division,
}

#[async_trait]
impl Collector for RequestRate {
    fn parse(metric: &MetricConfig, environment: &Environment) -> Result<Self, ConfigError> {
        let object = metric.object.clone();
        let object = object.ok_or_else(|| ConfigError::NoCollector(metric.display_name()))?;
        let name = &metric.metric.name;
        if !name.starts_with("requests-per-second") {
            return Err(ConfigError::SkipperMetric(name.clone()));
        }
        // The legacy form: the name contains the backend.
        let legacy = || match name.split(',').collect::<Vec<_>>().as_slice() {
            [_, backend] => (*backend).to_owned(),
            _ => String::new(),
        };
        let backend = metric.value("backend").map_or_else(legacy, str::to_owned);
        let division = match (metric.has_average_target, environment.compat) {
            (true, _) => Division::None,
            (false, Compat::Off) => Division::AtUse,
            (false, Compat::Reference) => Division::AfterTruncation,
        };
        Ok(Self { object, backend, division })
    }

    fn servers(&self) -> Vec<Server> {
        vec![Server::Operator(DEFAULT_PROMETHEUS.to_owned())]
    }

    fn is_per_replica(&self) -> bool {
        self.division == Division::AtUse
    }

    async fn read(&self, context: &Context<'_>) -> Result<Values, FetchError> {
        let query = self.build_query(context).await?;
        PrometheusQuery::for_default_server(query, self.division).read(context).await
    }
}

impl RequestRate {
    async fn build_query(&self, context: &Context<'_>) -> Result<String, FetchError> {
        let (clients, namespace) = (context.clients, context.namespace);
        let (name, backend) = (self.object.name.as_str(), self.backend.as_str());
        let compat = clients.compat;
        if self.object.kind == "Ingress" {
            let ingress = clients.cluster.ingress(namespace, name).await?;
            let annotations = &clients.weight_annotations;
            return Ok(ingress_query((namespace, name), &ingress, annotations, backend, compat)?);
        }
        let group = clients.cluster.route_group(namespace, name).await?;
        Ok(route_group_query((namespace, name), &group, backend, compat)?)
    }
}

/// Requests per second of host names.
#[derive(Clone, Debug)]
pub(crate) struct HostRequestRate(PrometheusQuery);

#[async_trait]
impl Collector for HostRequestRate {
    fn parse(metric: &MetricConfig, environment: &Environment) -> Result<Self, ConfigError> {
        let query = external_query(metric, &environment.external_rps_metric, environment.compat)?;
        metric.require_selector(NO_SELECTOR)?;
        Ok(Self(PrometheusQuery::for_default_server(query, Division::None)))
    }

    fn servers(&self) -> Vec<Server> {
        self.0.servers()
    }

    async fn read(&self, context: &Context<'_>) -> Result<Values, FetchError> {
        self.0.read(context).await
    }
}

/// The query of an external metric `requests-per-second`. `series` is the name of the time series
/// with the number of requests by host.
fn external_query(
    config: &MetricConfig,
    series: &str,
    compat: Compat,
) -> Result<String, ConfigError> {
    let missing = "hostname is not specified, unable to create collector";
    let hosts = config.require("hostnames", missing)?;
    for host in hosts.split(',') {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
        if host.is_empty() || !host.bytes().all(is_valid) {
            let message = format!("invalid hostname format, unable to create collector: {host}");
            return Err(ConfigError::of_setting("hostnames", message));
        }
    }
    let weight = match config.value("weight") {
        Some(text) => parse_weight(text, compat).ok_or_else(|| {
            let message =
                format!("could not parse weight annotation, unable to create collector: {text}");
            ConfigError::of_setting("weight", message)
        })?,
        None => 1.0,
    };
    let hosts = hosts.replace(',', "|").replace('.', "_");
    Ok(rps_query(series, &hosts, weight))
}

/// Parses a weight in percent into a factor. With compatibility, it may be negative, infinite or
/// NaN.
fn parse_weight(text: &str, compat: Compat) -> Option<f64> {
    let weight: f64 = text.parse().ok()?;
    let is_spelled_out = || text.to_ascii_lowercase().contains('n');
    let is_accepted = match compat {
        Compat::Off => weight.is_finite() && weight >= 0.0,
        // In Go, a number out of range is an error, but `inf` and `nan` aren't.
        Compat::Reference => weight.is_finite() || is_spelled_out(),
    };
    is_accepted.then_some(weight / 100.0)
}

/// The query of an Ingress. `weight_annotations` name the annotations with weights of backends.
fn ingress_query(
    (namespace, name): (&str, &str),
    ingress: &Ingress,
    weight_annotations: &[String],
    backend: &str,
    compat: Compat,
) -> Result<String, QueryError> {
    let object = format!("Ingress {namespace}/{name}");
    let mut all_weights = Vec::new();
    for annotation in weight_annotations {
        let Some(text) = ingress.annotations.get(annotation) else { continue };
        let invalid = || {
            QueryError::Object(format!("annotation {annotation} is not a JSON object of weights"))
        };
        let weights: Option<BTreeMap<String, Option<f64>>> =
            serde_json::from_str(text).map_err(|_| invalid())?;
        let weights = weights.unwrap_or_default().into_iter();
        let weights: Weights =
            weights.filter_map(|(backend, weight)| Some((backend, weight?))).collect();
        if compat == Compat::Off && weights.iter().any(|(_, weight)| *weight < 0.0) {
            return Err(invalid());
        }
        all_weights.push(weights);
    }
    let weight = match all_weights.as_slice() {
        [] => 1.0,
        _ if backend.is_empty() => return Err(QueryError::NoBackend),
        all_weights => all_weights
            .iter()
            .filter_map(|weights| share_of(weights, backend, 100.0, compat))
            .reduce(f64::max)
            .ok_or_else(|| weight_error(backend, "no weight", &object))?
            .max(0.0),
    };
    hosts_query(&ingress.hosts, weight, &object, compat)
}

fn route_group_query(
    (namespace, name): (&str, &str),
    group: &RouteGroup,
    backend: &str,
    compat: Compat,
) -> Result<String, QueryError> {
    let object = format!("RouteGroup {namespace}/{name}");
    let weight = match group.default_backends.as_slice() {
        [] | [_] => 1.0,
        _ if backend.is_empty() => return Err(QueryError::NoBackend),
        backends => {
            let weights = backends.iter().map(|(name, weight)| (name.clone(), *weight as f64));
            let weights: Weights = weights.collect();
            let negative = weights.iter().find(|(_, weight)| *weight < 0.0);
            if let (Compat::Off, Some((backend, _))) = (compat, negative) {
                return Err(weight_error(backend, "a negative weight", &object));
            }
            share_of(&weights, backend, f64::INFINITY, compat)
                .ok_or_else(|| weight_error(backend, "no weight", &object))?
        }
    };
    hosts_query(&group.hosts, weight, &object, compat)
}

/// The weights of backends, by their names.
type Weights = Vec<(String, f64)>;

/// The share of a backend in the requests. Skipper divides the weight by the sum of all weights of
/// a path. If all are 0, the backends have equal shares.
///
/// The sum counts as at most `max_sum`. That is 100 for the annotation of an Ingress: its weights
/// are usually percentages, and may be those of several paths.
///
/// With compatibility, the weight is a percentage of the requests, and a missing weight is 0.
fn share_of(weights: &Weights, backend: &str, max_sum: f64, compat: Compat) -> Option<f64> {
    let weight = weights.iter().find(|(name, _)| name == backend).map(|(_, weight)| *weight);
    if compat == Compat::Reference {
        return Some(weight.unwrap_or_default() / 100.0);
    }
    let weight = weight?;
    let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
    if sum > 0.0 {
        return Some((weight / sum.min(max_sum)).clamp(0.0, 1.0));
    }
    Some(1.0 / weights.len() as f64)
}

/// The error of a backend that has `weight` in the object.
fn weight_error(backend: &str, weight: &str, object: &str) -> QueryError {
    let backend: String = backend.chars().take(MAX_BACKEND_IN_ERROR).collect();
    QueryError::Object(format!("the backend {backend:?} has {weight} in {object}"))
}

/// The query for the requests per second to all hosts of an object.
fn hosts_query(
    hosts: &[String],
    weight: f64,
    object: &str,
    compat: Compat,
) -> Result<String, QueryError> {
    if hosts.is_empty() {
        let message = format!("no hosts defined on {object}, unable to create collector");
        return Err(QueryError::Object(message));
    }
    Ok(rps_query(SERIES, &host_pattern(hosts, compat), weight))
}

/// A regular expression for skipper's host names. By default, it is escaped for the string literal
/// in the query. kube-metrics-adapter doesn't do that, and Prometheus refuses its backslashes.
fn host_pattern(hosts: &[String], compat: Compat) -> String {
    let escape = |host: &String| {
        let mut escaped = String::new();
        for char in host.replace('.', "_").chars() {
            if r"\.+*?()|[]{}^$".contains(char) {
                escaped.push('\\');
            }
            escaped.push(char);
        }
        escaped
    };
    let pattern = hosts.iter().map(escape).collect::<Vec<_>>().join("|");
    match compat {
        Compat::Off => pattern.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n"),
        Compat::Reference => pattern,
    }
}

/// The query for the requests per second of `hosts` times `weight`.
fn rps_query(series: &str, hosts: &str, weight: f64) -> String {
    let weight = if weight.is_infinite() {
        if weight > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        format!("{weight:.4}")
    };
    format!("scalar(sum(rate({series}{{host=~\"{hosts}\"}}[1m])) * {weight})")
}

#[cfg(test)]
mod tests;
