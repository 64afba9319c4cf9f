//! Finds the differences between the responses of both servers.

use std::collections::BTreeSet;

use anyhow::Context;
use hpa_calc::{Quantity, explain::counted};
use serde_json::Value;

use super::{
    OPTIONAL_APIS,
    report::ApiComparison,
    server::{MetricsResponse, SkipReason},
    values::Values,
};

/// The prefixes of the names of schedules' metrics in a discovery.
const SCHEDULE_PREFIXES: [&str; 2] =
    ["scalingschedules.zalando.org/", "clusterscalingschedules.zalando.org/"];

/// Compares the metrics that an API lists on both servers. A 404 means that a server doesn't serve
/// the API. After any other error, the lists are not compared. If only one server has an API of
/// [`OPTIONAL_APIS`], its list is not compared either.
pub(super) fn compare_lists(
    api: &'static str,
    left: &MetricsResponse,
    right: &MetricsResponse,
) -> anyhow::Result<ApiComparison> {
    let is_error = |(_, response): &(_, &MetricsResponse)| !matches!(response.status, 200 | 404);
    let errors = [("left", left), ("right", right)].into_iter().filter(is_error);
    let mut obstacles: Vec<_> =
        errors.map(|(side, response)| format!("{side} answers {response}")).collect();
    let skip_reason = left.skip_reason().or(right.skip_reason());
    let statuses_differ = left.status != right.status && skip_reason.is_none();
    if !obstacles.is_empty() {
        let is_forbidden = skip_reason == Some(SkipReason::Forbidden);
        obstacles.extend(is_forbidden.then(|| format!("needed right: get /apis/{api}")));
        return Ok(ApiComparison {
            name: api,
            obstacles,
            skip_reason,
            statuses_differ,
            ..<_>::default()
        });
    }
    let names_of = |side: &str, response: &MetricsResponse| {
        names(response).with_context(|| format!("{side}: /apis/{api}"))
    };
    let (left_names, right_names) = (names_of("left", left)?, names_of("right", right)?);
    let unserved = match (&left_names, &right_names) {
        (None, Some(_)) => Some(format!("left does not serve it: {left}")),
        (Some(_), None) => Some(format!("right does not serve it: {right}")),
        _ => None,
    };
    let is_compared = left_names.is_some() && right_names.is_some();
    if !is_compared && OPTIONAL_APIS.contains(&api) {
        let obstacles = unserved.into_iter().collect();
        return Ok(ApiComparison { name: api, obstacles, ..<_>::default() });
    }
    let (left_names, right_names) =
        (left_names.unwrap_or_default(), right_names.unwrap_or_default());
    Ok(ApiComparison {
        name: api,
        is_compared,
        common_count: left_names.intersection(&right_names).count(),
        only_left: left_names.difference(&right_names).cloned().collect(),
        only_right: right_names.difference(&left_names).cloned().collect(),
        unserved,
        obstacles,
        skip_reason,
        statuses_differ,
    })
}

/// The names of the metrics in the discovery of an API. `None` if the API is not served. Leaves out
/// metrics of schedules: kube-metrics-adapter lists those that it has read, and `hpa adapter` none,
/// because it has them under any name.
fn names(response: &MetricsResponse) -> anyhow::Result<Option<BTreeSet<String>>> {
    if response.status == 404 {
        return Ok(None);
    }
    let resources = response.body.get("resources").and_then(Value::as_array);
    let resources = resources.context("the response has no list of resources")?;
    let name = |resource: &Value| Some(resource.get("name")?.as_str()?.to_owned());
    let is_compared =
        |name: &String| !SCHEDULE_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    Ok(Some(resources.iter().filter_map(name).filter(is_compared).collect()))
}

/// Compares values, and returns a line for each difference. Errors with the same status are equal,
/// regardless of their messages.
pub(super) fn value_differences(left: &Values, right: &Values, tolerance: f64) -> Vec<String> {
    let (left, right) = match (left, right) {
        (Err((left, _)), Err((right, _))) if left == right => return Vec::new(),
        (Ok(left), Ok(right)) => (left, right),
        _ => return vec![format!("left {}, right {}", describe(left), describe(right))],
    };
    let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let difference = |name: &String| match (left.get(name), right.get(name)) {
        (Some(left), Some(right)) if is_near(left, right, tolerance) => None,
        (Some(left), Some(right)) => Some(format!("{name}: left {left}, right {right}")),
        (Some(left), None) if left.is_zero() => Some(format!(
            "{name}: left 0, right has no value (prometheus-adapter reports NaN as 0)"
        )),
        (Some(left), None) => Some(format!("{name}: left {left}, right has no value")),
        (None, Some(right)) => Some(format!("{name}: left has no value, right {right}")),
        (None, None) => None,
    };
    names.into_iter().filter_map(difference).collect()
}

/// Describes the response of a server, as in "has 3 values".
fn describe(values: &Values) -> String {
    match values {
        Ok(values) => format!("has {}", counted(values.len(), "value")),
        Err((_, message)) => format!("answers {message}"),
    }
}

/// Whether the values differ by at most `tolerance`, as a share of the larger absolute value.
fn is_near(left: &Quantity, right: &Quantity, tolerance: f64) -> bool {
    let (left, right) = (left.as_f64(), right.as_f64());
    (left - right).abs() <= tolerance * left.abs().max(right.abs())
}
