//! Checks of the metrics APIs that autoscalers need.

use hpa_calc::api::{ConditionStatus, ConditionType, MetricSourceType};

use super::{
    check::{Check, Level, named},
    cluster::{Observed, ObservedAutoscaler},
};

const GROUPS: [&str; 3] = ["metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"];

pub(super) fn check(observed: &Observed) -> Vec<Check> {
    let services = match &observed.metrics_apis {
        Ok(Some(services)) => services,
        Ok(None) => {
            let text = "the API server registers no metrics APIs (it has no aggregation layer), so \
                        whether they work is unknown";
            return vec![Check::new(Level::Skipped, text)];
        }
        Err(error) => {
            let text = format!("the registered APIs can't be read: {error}");
            return vec![Check::new(Level::Warning, text)];
        }
    };
    let mut checks = Vec::new();
    for group in GROUPS {
        let dependents: Vec<&ObservedAutoscaler> =
            observed.autoscalers.iter().filter(|one| needs(one, group)).collect();
        let versions: Vec<_> = services.iter().filter(|service| service.group == group).collect();
        if versions.is_empty() {
            checks.extend(not_installed(group, &dependents));
            continue;
        }
        let dependents = names(dependents.iter());
        for service in versions {
            let (version, unavailable) = (&service.version, &service.unavailable);
            checks.push(match unavailable {
                None => Check::new(
                    Level::Ok,
                    format!("{group}/{version} is available, by its APIService"),
                ),
                Some(reason) => {
                    let text = format!("{group}/{version} is not available: {reason}");
                    let level = if dependents.is_empty() { Level::Warning } else { Level::Error };
                    let hint = match dependents.as_slice() {
                        [] => "no autoscaler needs it".to_owned(),
                        names => format!("needed by {}", named(names)),
                    };
                    Check::new(level, text).hint(hint)
                }
            });
        }
    }
    if checks.is_empty() {
        checks.push(Check::new(Level::Ok, "no required API is missing"));
    }
    checks
}

fn names<'a>(autoscalers: impl Iterator<Item = &'a &'a ObservedAutoscaler>) -> Vec<String> {
    autoscalers.map(|one| one.name.clone()).collect()
}

/// The check of an API that is not installed. The controller may read the metrics itself, so only
/// autoscalers whose condition names the API need it.
fn not_installed(group: &str, dependents: &[&ObservedAutoscaler]) -> Option<Check> {
    let has_source = dependents.iter().any(|one| is_read(one, group));
    let failing = names(dependents.iter().filter(|one| fails_by_api(one, group)));
    let new = names(dependents.iter().filter(|one| one.hpa.status.conditions.is_empty()));
    let (level, affected) = match (failing.is_empty(), has_source) {
        (false, _) => (Level::Error, failing),
        (true, false) if !new.is_empty() => (Level::Warning, new),
        (true, false) => return None,
        (true, true) => {
            let text = format!(
                "{group} is not installed: the controller reads these metrics from another source, \
                 such as Prometheus"
            );
            return Some(Check::new(Level::Ok, text));
        }
    };
    let text = format!("{group} is not installed, but needed by {}", named(&affected));
    let hint = if has_source {
        "the controller reads metrics of others from another source, such as Prometheus: check \
         that it has these"
    } else {
        install_hint(group)
    };
    Some(Check::new(level, text).hint(hint))
}

/// Whether the controller has read a metric of the API's kind.
fn is_read(autoscaler: &ObservedAutoscaler, group: &str) -> bool {
    let status = &autoscaler.hpa.status;
    let mut read = status.current_metrics.iter();
    status.is_true(&ConditionType::ScalingActive)
        && read.any(|metric| group_of(&metric.source_type) == group)
}

/// Whether the metrics of an autoscaler fail because the API can't be reached.
fn fails_by_api(autoscaler: &ObservedAutoscaler, group: &str) -> bool {
    let condition = autoscaler.hpa.status.condition(&ConditionType::ScalingActive);
    let failed = condition.filter(|condition| condition.status == ConditionStatus::False);
    failed.is_some_and(|condition| names_api(&condition.message, group))
}

/// Whether a message names an API group or one of its resources, such as `pods.metrics.k8s.io`.
fn names_api(message: &str, group: &str) -> bool {
    let is_end = |char: char| !(char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '_'));
    let of_word = |word: &str| {
        let is_of = |group: &&&str| {
            word.strip_suffix(**group).is_some_and(|start| start.is_empty() || start.ends_with('.'))
        };
        // The longest match, because all groups end with `metrics.k8s.io`.
        GROUPS.iter().filter(is_of).max_by_key(|group| group.len()).copied()
    };
    message.split(is_end).any(|word| of_word(word) == Some(group))
}

fn needs(autoscaler: &ObservedAutoscaler, group: &str) -> bool {
    autoscaler.hpa.spec.metrics.iter().any(|metric| group_of(&metric.source_type) == group)
}

fn group_of(source_type: &MetricSourceType) -> &'static str {
    match source_type {
        MetricSourceType::Resource | MetricSourceType::ContainerResource => "metrics.k8s.io",
        MetricSourceType::Pods | MetricSourceType::Object => "custom.metrics.k8s.io",
        MetricSourceType::External => "external.metrics.k8s.io",
        _ => "",
    }
}

fn install_hint(group: &str) -> &'static str {
    match group {
        "metrics.k8s.io" => "install metrics-server, or hpa adapter with resource rules",
        _ => "install hpa adapter (docs/adapter.md) or another adapter",
    }
}
