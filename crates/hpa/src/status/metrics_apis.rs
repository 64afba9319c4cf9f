//! Checks of the metrics APIs that autoscalers need.

use std::collections::BTreeMap;

use hpa_calc::{
    MetricsApi,
    api::{ConditionStatus, ConditionType, MetricSpec},
    explain::status_value,
    report::{
        error_texts::{ALSO_NOT_BY_API, is_in_process},
        root_cause,
    },
};

use super::{
    check::{Check, Level, Weight},
    cluster::{ClusterState, MetricsApiService},
};
use crate::{kubectl, listed_autoscalers::ListedAutoscaler, terminal::shorten_names};

/// The hint about metrics without a value if the controller reads others of the API.
const OTHER_SOURCE_HINT: &str = "the controller reads metrics of others from another source, such \
                                 as Prometheus: check that it has these";

const RESOURCE: &str = MetricsApi::Resource.group();
const GROUPS: [&str; 3] = [RESOURCE, MetricsApi::Custom.group(), MetricsApi::External.group()];

pub(super) fn check(cluster: &ClusterState) -> Vec<Check> {
    let services = match &cluster.metrics_apis {
        Ok(Some(services)) => services,
        Ok(None) => {
            let text = "the API server registers no metrics APIs (it has no aggregation layer), so \
                        whether they work is unknown";
            return vec![Check::new(Level::Skipped, text)];
        }
        Err(error) => {
            let is_hidden = cluster.is_of_one_namespace() && kubectl::is_forbidden(error);
            let level = if is_hidden { Level::Skipped } else { Level::Warning };
            let text = format!("the registered APIs can't be read: {error:#}");
            return vec![Check::new(level, text)];
        }
    };
    let mut checks = Vec::new();
    for group in GROUPS {
        if !services.iter().any(|service| service.group == group) {
            checks.extend(not_installed(group, &cluster.autoscalers));
        }
    }
    let mut outages = BTreeMap::<String, Vec<&MetricsApiService>>::new();
    for service in services.iter().filter(|service| GROUPS.contains(&service.group.as_str())) {
        let name = service.name();
        match &service.unavailable {
            None => {
                let text = format!("{name} is available according to its APIService");
                checks.push(Check::new(Level::Ok, text));
            }
            Some(reason) => {
                // The message about a failed request has the path of the API.
                let reason = reason.replace(&format!("/apis/{name}"), "");
                outages.entry(reason).or_default().push(service);
            }
        }
    }
    let outages = outages.iter();
    checks.extend(outages.map(|(reason, apis)| outage(reason, apis, &cluster.autoscalers)));
    if checks.is_empty() {
        checks.push(Check::new(Level::Ok, "no required API is missing"));
    }
    checks
}

/// The check of APIs that are not available for the same reason.
fn outage(reason: &str, apis: &[&MetricsApiService], autoscalers: &[ListedAutoscaler]) -> Check {
    let (is, it_has, it) = match apis {
        [_] => ("is", "it has", "it"),
        _ => ("are", "they have", "them"),
    };
    let api_names: Vec<String> = apis.iter().map(|api| api.name()).collect();
    let text = format!("{} {is} not available: {reason}", api_names.join(", "));
    let with = |predicate: fn(&ListedAutoscaler, &str) -> bool| {
        let is_match = |one: &&ListedAutoscaler| apis.iter().any(|api| predicate(one, &api.group));
        names(autoscalers.iter().filter(is_match))
    };
    let dependents = with(needs_api);
    let failing = with(|one, group| needs_api(one, group) && lacks_value(one, group));
    let level = if failing.is_empty() { Level::Warning } else { Level::Error };
    let hint = match (dependents.as_slice(), failing.as_slice()) {
        ([], _) => format!("no autoscaler needs {it}"),
        (names, []) => format!(
            "the last status of {} has all values: {it_has} failed since, or the controller reads \
             these metrics from another source",
            shorten_names(names)
        ),
        (_, failing) => format!("needed by {}", shorten_names(failing)),
    };
    Check::new(level, text).with_hint(hint)
}

fn names<'a>(autoscalers: impl IntoIterator<Item = &'a ListedAutoscaler>) -> Vec<String> {
    autoscalers.into_iter().map(|one| one.name.clone()).collect()
}

/// The check of an API that is not installed. The controller may read its metrics from another
/// source. So an autoscaler needs the API only if its condition names the API, if one of these
/// metrics has no value, or if the autoscaler is new.
fn not_installed(group: &str, autoscalers: &[ListedAutoscaler]) -> Option<Check> {
    let dependents: Vec<_> = autoscalers.iter().filter(|one| needs_api(one, group)).collect();
    let has_source = dependents.iter().any(|one| has_value_of(one, group));
    let is_failing = |one: &&ListedAutoscaler| {
        fails_by_api(one, group) || !has_source && scales_without_value(one, group)
    };
    let failing = names(dependents.iter().copied().filter(is_failing));
    let has_no_condition = |one: &&ListedAutoscaler| one.hpa.status.conditions.is_empty();
    let new = names(dependents.iter().copied().filter(has_no_condition));
    let (level, affected) = if !failing.is_empty() {
        (Level::Error, failing)
    } else if has_source {
        return Some(replaced(group, &dependents));
    } else if !new.is_empty() {
        (Level::Warning, new)
    } else {
        return without_values(group, &dependents);
    };
    let text = format!("{group} is not installed, but needed by {}", shorten_names(&affected));
    let hint = if has_source { OTHER_SOURCE_HINT } else { install_hint(group) };
    Some(Check::new(level, text).with_hint(hint))
}

/// The check of an API that is not installed, if the controller reads its metrics from another
/// source.
fn replaced(group: &str, dependents: &[&ListedAutoscaler]) -> Check {
    let unread: Vec<String> =
        dependents.iter().flat_map(|one| unread_metrics(one, group)).collect();
    if unread.is_empty() {
        let text = format!(
            "{group} is not installed: the controller reads these metrics from another source, \
             such as Prometheus"
        );
        return Check::new(Level::Ok, text);
    }
    let text = format!(
        "{group} is not installed, and no value from another source is known of {}",
        shorten_names(&unread)
    );
    Check::new(Level::Warning, text).with_hint(OTHER_SOURCE_HINT)
}

/// The check of an API that is not installed, if no status has a value of its metrics, and no
/// condition names it. `None` if no autoscaler needs it.
fn without_values(group: &str, dependents: &[&ListedAutoscaler]) -> Option<Check> {
    if dependents.is_empty() {
        return None;
    }
    let failing = names(dependents.iter().copied().filter(|one| fails_by_other_source(one)));
    if failing.is_empty() {
        let text = format!(
            "{group} is not installed, and whether the controller reads the metrics of {} from \
             another source, such as Prometheus, is unknown: no status has a value",
            shorten_names(&names(dependents.iter().copied()))
        );
        return Some(Check::new(Level::Skipped, text));
    }
    let text = format!(
        "{group} is not installed: the controller reads these metrics from another source, such as \
         Prometheus, and got no value for {}",
        shorten_names(&failing)
    );
    // The check of the autoscalers reports the error.
    Some(Check::new(Level::Warning, text).with_weight(Weight::Repetition))
}

/// Whether the metrics of an autoscaler fail, and the cause in its condition is the error of a rule
/// or a collector of the controller.
fn fails_by_other_source(autoscaler: &ListedAutoscaler) -> bool {
    failure_of(autoscaler).is_some_and(|message| is_in_process(root_cause(message)))
}

/// Whether the status has a value of a metric of the API, from any source.
fn has_value_of(autoscaler: &ListedAutoscaler, group: &str) -> bool {
    let is_active = autoscaler.hpa.status.is_true(&ConditionType::ScalingActive);
    is_active && metrics_of(autoscaler, group).any(|(_, has_value)| has_value)
}

/// Whether the autoscaler has metrics of the API.
fn needs_api(autoscaler: &ListedAutoscaler, group: &str) -> bool {
    metrics_of(autoscaler, group).next().is_some()
}

/// Whether the status has no value of a metric of the API, or can't have one.
fn lacks_value(autoscaler: &ListedAutoscaler, group: &str) -> bool {
    let status = &autoscaler.hpa.status;
    let active = status.condition(&ConditionType::ScalingActive);
    // If one metric fails, the status has the values of the others.
    let is_of_metric = active.is_some_and(|active| {
        let reason = active.reason.as_str();
        reason.starts_with("FailedGet") && reason.ends_with("Metric")
    });
    let may_have_values = status.is_true(&ConditionType::ScalingActive) || is_of_metric;
    !may_have_values || metrics_of(autoscaler, group).any(|(_, has_value)| !has_value)
}

/// Whether the status has values of other metrics, but none of a metric of the API.
fn scales_without_value(autoscaler: &ListedAutoscaler, group: &str) -> bool {
    scales_by_metrics(autoscaler) && lacks_value(autoscaler, group)
}

/// Whether the autoscaler scales by metrics, and its status has their values.
fn scales_by_metrics(autoscaler: &ListedAutoscaler) -> bool {
    let status = &autoscaler.hpa.status;
    status.is_true(&ConditionType::ScalingActive) && !status.current_metrics.is_empty()
}

/// The metrics of the API, and whether the status has a value of each.
fn metrics_of<'a>(
    autoscaler: &'a ListedAutoscaler,
    group: &str,
) -> impl Iterator<Item = (&'a MetricSpec, bool)> {
    let (spec, status) = (&autoscaler.hpa.spec, &autoscaler.hpa.status);
    spec.metrics.iter().enumerate().filter_map(move |(index, spec)| {
        spec.source_type.metrics_api().filter(|api| api.group() == group)?;
        let current = status.current_metrics.get(index);
        Some((spec, current.is_some_and(|current| status_value(spec, current).is_some())))
    })
}

/// The metrics of the API that have no value, with the autoscaler. If the condition says that the
/// controller's sources lack a metric, returns only the metric that it names. Otherwise, if the
/// status has values, returns the metrics without one.
fn unread_metrics(autoscaler: &ListedAutoscaler, group: &str) -> Vec<String> {
    let scales_by_metrics = scales_by_metrics(autoscaler);
    let failure = failure_of(autoscaler).filter(|text| text.contains(ALSO_NOT_BY_API));
    let unread = metrics_of(autoscaler, group).filter(|(spec, has_value)| match failure {
        Some(message) => names_metric(message, spec.metric_name()),
        None => scales_by_metrics && !has_value,
    });
    unread.map(|(spec, _)| format!("{} ({})", autoscaler.name, spec.metric_name())).collect()
}

/// The message of the condition if the metrics of an autoscaler fail. `None` if the status is known
/// to be old.
fn failure_of(autoscaler: &ListedAutoscaler) -> Option<&str> {
    if autoscaler.unstored.is_some() {
        return None;
    }
    let condition = autoscaler.hpa.status.condition(&ConditionType::ScalingActive);
    let failed = condition.filter(|condition| condition.status == ConditionStatus::False);
    failed.map(|condition| &*condition.message)
}

/// Whether a message has the name of a metric as a word. Names contain the punctuation that may
/// follow them in a sentence.
fn names_metric(message: &str, name: &str) -> bool {
    let is_end = |char: char| !(char.is_ascii_alphanumeric() || "._-:/".contains(char));
    message.split(is_end).any(|word| word.trim_end_matches(['.', ':']) == name)
}

/// Whether the metrics of an autoscaler fail, and its condition names the API as the cause. If the
/// controller has rules or collectors, the cause is that they lack the metric.
fn fails_by_api(autoscaler: &ListedAutoscaler, group: &str) -> bool {
    let message = failure_of(autoscaler);
    message.is_some_and(|text| !text.contains(ALSO_NOT_BY_API) && names_api(text, group))
}

/// Whether a message names an API group or one of its resources, such as `pods.metrics.k8s.io`.
fn names_api(message: &str, group: &str) -> bool {
    let is_end = |char: char| !(char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '_'));
    let group_in = |word: &str| {
        let is_suffix = |group: &&&str| {
            word.strip_suffix(**group).is_some_and(|start| start.is_empty() || start.ends_with('.'))
        };
        // All groups end with `metrics.k8s.io`, so only the longest match counts.
        GROUPS.iter().filter(is_suffix).max_by_key(|group| group.len()).copied()
    };
    message.split(is_end).any(|word| group_in(word) == Some(group))
}

fn install_hint(group: &str) -> &'static str {
    match group {
        RESOURCE => {
            "install metrics-server, or hpa adapter with resource rules; if it is installed, \
             restore its APIService"
        }
        _ => {
            "install hpa adapter (docs/adapter.md) or another adapter, or if it is installed, \
             restore its APIService; if hpa run reads rules (--metrics-config), check with hpa \
             rules explain that they have these metrics"
        }
    }
}
