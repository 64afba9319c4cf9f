//! Queries for requests per second, and values of their results.

use std::collections::BTreeMap;

use crate::{Compat, config::MetricConfig, error::PlanError};

const SKIPPER_SERIES: &str = "skipper_serve_host_duration_seconds_count";

/// Why a query can't be made, or has no value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum QueryError {
    /// Traffic is divided between backends, and the metric names none.
    #[error(
        "backend name must be specified for requests-per-second when traffic switching is used"
    )]
    NoBackend,
    /// The object has no host.
    #[error("no hosts defined on {kind} {namespace}/{name}, unable to create collector")]
    NoHosts {
        /// Kind of the object.
        kind: &'static str,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The weights in an annotation are not JSON.
    #[error("annotation {annotation}: {error}")]
    Weights {
        /// The annotation.
        annotation: String,
        /// What is wrong.
        error: String,
    },
    /// There is no result, or it is NaN.
    #[error("query '{0}' did not result a valid response")]
    NoResult(String),
    /// The target has no replicas, or its kind has none that are known.
    #[error("unable to get average value for {0} replicas")]
    NoReplicas(i32),
    /// The value can't be represented.
    #[error("the value {0} is out of range")]
    OutOfRange(f64),
}

/// The query of an external metric `requests-per-second`, with the name of its series.
pub fn external_rps(
    config: &MetricConfig,
    series: &str,
    compat: Compat,
) -> Result<String, PlanError> {
    let hosts = config.value("hostnames").ok_or(PlanError::NoHostname)?;
    for host in hosts.split(',') {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
        if host.is_empty() || !host.bytes().all(is_valid) {
            return Err(PlanError::Hostname(host.to_owned()));
        }
    }
    let weight = match config.value("weight") {
        Some(text) => {
            parse_weight(text, compat).ok_or_else(|| PlanError::Weight(text.to_owned()))?
        }
        None => 1.0,
    };
    let hosts = hosts.replace(',', "|").replace('.', "_");
    Ok(rps(series, &hosts, weight))
}

/// A weight in percent, as a factor. Compatible with the reference, it may be infinite or NaN.
fn parse_weight(text: &str, compat: Compat) -> Option<f64> {
    let weight: f64 = text.parse().ok()?;
    let names_it = || text.to_ascii_lowercase().contains('n');
    let is_accepted = match compat {
        Compat::Off => weight.is_finite() && weight >= 0.0,
        // A number that is out of range is an error, but its name is not.
        Compat::KubeMetricsAdapter => weight.is_finite() || names_it(),
    };
    is_accepted.then_some(weight / 100.0)
}

/// The part of an Ingress that a query depends on.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "as in the API")]
pub struct Ingress<'o> {
    pub namespace: &'o str,
    pub name: &'o str,
    pub hosts: &'o [String],
    pub annotations: &'o BTreeMap<String, String>,
}

/// The part of a `RouteGroup` that a query depends on.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "as in the API")]
pub struct RouteGroup<'o> {
    pub namespace: &'o str,
    pub name: &'o str,
    pub hosts: &'o [String],
    /// Name and weight in percent.
    pub default_backends: &'o [(String, i64)],
}

/// The query of an Ingress. `weight_annotations` name the annotations with weights of backends.
pub fn ingress(
    ingress: Ingress<'_>,
    weight_annotations: &[String],
    backend: &str,
    compat: Compat,
) -> Result<String, QueryError> {
    let mut weight: Option<f64> = None;
    for annotation in weight_annotations {
        let Some(text) = ingress.annotations.get(annotation) else { continue };
        let weights: Option<BTreeMap<String, Option<f64>>> =
            serde_json::from_str(text).map_err(|error| QueryError::Weights {
                annotation: annotation.clone(),
                error: error.to_string(),
            })?;
        let of_backend = weights.unwrap_or_default().get(backend).copied().flatten();
        let of_backend = of_backend.unwrap_or_default() / 100.0;
        weight = Some(weight.unwrap_or_default().max(of_backend));
    }
    let weight = match weight {
        None => 1.0,
        Some(_) if backend.is_empty() => return Err(QueryError::NoBackend),
        Some(weight) => weight,
    };
    let Ingress { namespace, name, hosts, .. } = ingress;
    let hosts = host_pattern(hosts, compat).ok_or_else(|| no_hosts("Ingress", namespace, name))?;
    Ok(rps(SKIPPER_SERIES, &hosts, weight))
}

/// The query of a `RouteGroup`.
pub fn route_group(
    group: RouteGroup<'_>,
    backend: &str,
    compat: Compat,
) -> Result<String, QueryError> {
    let RouteGroup { namespace, name, hosts, default_backends } = group;
    let weight = match default_backends {
        [] | [_] => 1.0,
        _ if backend.is_empty() => return Err(QueryError::NoBackend),
        backends => {
            let found = backends.iter().find(|(name, _)| name == backend);
            found.map_or(0.0, |(_, weight)| *weight as f64 / 100.0)
        }
    };
    let hosts =
        host_pattern(hosts, compat).ok_or_else(|| no_hosts("RouteGroup", namespace, name))?;
    Ok(rps(SKIPPER_SERIES, &hosts, weight))
}

fn no_hosts(kind: &'static str, namespace: &str, name: &str) -> QueryError {
    QueryError::NoHosts { kind, namespace: namespace.to_owned(), name: name.to_owned() }
}

/// A regular expression for hosts as skipper names them. By default, its backslashes are escaped
/// for the string in the query, without which Prometheus refuses it.
fn host_pattern(hosts: &[String], compat: Compat) -> Option<String> {
    let pattern = |host: &String| {
        let mut pattern = String::new();
        for char in host.replace('.', "_").chars() {
            if r"\.+*?()|[]{}^$".contains(char) {
                pattern.push('\\');
            }
            pattern.push(char);
        }
        pattern
    };
    let pattern = hosts.iter().map(pattern).collect::<Vec<_>>().join("|");
    if hosts.is_empty() {
        return None;
    }
    Some(match compat {
        Compat::Off => pattern.replace('\\', r"\\").replace('"', "\\\""),
        Compat::KubeMetricsAdapter => pattern,
    })
}

fn rps(series: &str, hosts: &str, weight: f64) -> String {
    let weight = if weight.is_infinite() {
        if weight > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        format!("{weight:.4}")
    };
    format!("scalar(sum(rate({series}{{host=~\"{hosts}\"}}[1m])) * {weight})")
}

/// The result of a query.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryResult {
    /// The values of a vector, of which the first one counts.
    Vector(Vec<f64>),
    /// A scalar.
    Scalar(f64),
    /// A matrix or a string. The reference takes it for 0.
    Other,
}

/// The value of a result in thousandths, divided by `replicas` if that is given.
pub fn value(
    query: &str,
    result: &QueryResult,
    replicas: Option<i32>,
    compat: Compat,
) -> Result<i64, QueryError> {
    let no_result = || QueryError::NoResult(query.to_owned());
    let value = match result {
        QueryResult::Vector(values) => *values.first().ok_or_else(no_result)?,
        QueryResult::Scalar(value) => *value,
        QueryResult::Other if compat == Compat::Off => return Err(no_result()),
        QueryResult::Other => 0.0,
    };
    if value.is_nan() {
        return Err(no_result());
    }
    let value = match replicas {
        Some(replicas) if replicas < 1 && compat == Compat::Off => {
            return Err(QueryError::NoReplicas(replicas));
        }
        Some(replicas) => value / f64::from(replicas),
        None => value,
    };
    to_milli(value * 1000.0, compat)
}

/// Divides a value by the replicas, for targets that are no average.
pub fn average(milli: i64, replicas: i32) -> Result<i64, QueryError> {
    if replicas < 1 {
        return Err(QueryError::NoReplicas(replicas));
    }
    to_milli(milli as f64 / f64::from(replicas), Compat::KubeMetricsAdapter)
}

/// A value in thousandths.
pub fn milli(value: f64, compat: Compat) -> Result<i64, QueryError> {
    to_milli(value * 1000.0, compat)
}

/// Truncates. Go's result for a number out of range is the smallest integer.
fn to_milli(milli: f64, compat: Compat) -> Result<i64, QueryError> {
    const END: f64 = 9_223_372_036_854_775_808.0;
    #[expect(clippy::cast_possible_truncation, reason = "in range, and truncated")]
    if (-END..END).contains(&milli) {
        return Ok(milli as i64);
    }
    match compat {
        Compat::Off => Err(QueryError::OutOfRange(milli / 1000.0)),
        Compat::KubeMetricsAdapter => Ok(i64::MIN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(hosts: &[&str]) -> Vec<String> {
        hosts.iter().map(|host| (*host).to_owned()).collect()
    }

    #[test]
    fn wildcard_host_is_escaped_for_the_regular_expression_and_the_string() {
        let hosts = hosts(&["*.example.org"]);
        let group = RouteGroup { namespace: "n", name: "g", hosts: &hosts, default_backends: &[] };
        let query = |compat| route_group(group, "", compat).expect("a query");
        assert!(query(Compat::Off).contains(r#"host=~"\\*_example_org""#));
        assert!(query(Compat::KubeMetricsAdapter).contains(r#"host=~"\*_example_org""#));
    }

    #[test]
    fn largest_weight_of_an_ingress_counts() {
        let hosts = hosts(&["a.b"]);
        let annotations = BTreeMap::from([
            ("w1".to_owned(), r#"{"x": 20, "y": 80}"#.to_owned()),
            ("w2".to_owned(), r#"{"x": 30}"#.to_owned()),
        ]);
        let names = ["w1".to_owned(), "w2".to_owned(), "w3".to_owned()];
        let object =
            Ingress { namespace: "n", name: "i", hosts: &hosts, annotations: &annotations };
        let query = ingress(object, &names, "x", Compat::Off).expect("a query");
        assert!(query.ends_with("[1m])) * 0.3000)"), "{query}");
        assert_eq!(ingress(object, &names, "", Compat::Off), Err(QueryError::NoBackend));
    }

    #[test]
    fn value_that_is_none_is_an_error_unless_compatible() {
        let read = |result: QueryResult, replicas, compat| value("q", &result, replicas, compat);
        let infinite = QueryResult::Scalar(f64::INFINITY);
        for (result, replicas, reference) in [
            (infinite, None, i64::MIN),
            (QueryResult::Scalar(1.0), Some(0), i64::MIN),
            (QueryResult::Other, None, 0),
        ] {
            read(result.clone(), replicas, Compat::Off).expect_err("no value");
            assert_eq!(read(result, replicas, Compat::KubeMetricsAdapter), Ok(reference));
        }
        let nan = QueryResult::Vector(vec![f64::NAN]);
        read(nan, None, Compat::KubeMetricsAdapter).expect_err("NaN");
        assert_eq!(read(QueryResult::Vector(vec![1.5, 9.0]), Some(3), Compat::Off), Ok(500));
    }
}
