//! Checks of the metrics APIs that autoscalers need.

use hpa_calc::api::{ConditionReason, ConditionStatus, ConditionType, MetricSourceType};

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
        let needing: Vec<&ObservedAutoscaler> =
            observed.autoscalers.iter().filter(|one| needs(one, group)).collect();
        let versions: Vec<_> = services.iter().filter(|service| service.group == group).collect();
        if versions.is_empty() {
            // The controller may read the metrics itself. So only autoscalers whose metrics fail, or
            // that have no conditions yet, say that the API is missing.
            let failing = names(needing.iter().filter(|one| lacks_metrics(one)));
            let new = names(needing.iter().filter(|one| one.hpa.status.conditions.is_empty()));
            let (level, affected) =
                if failing.is_empty() { (Level::Warning, new) } else { (Level::Error, failing) };
            if !affected.is_empty() {
                let text = format!("{group} is not installed, but needed by {}", named(&affected));
                checks.push(Check::new(level, text).hint(install_hint(group)));
            }
            continue;
        }
        let needing = names(needing.iter());
        for service in versions {
            let (version, unavailable) = (&service.version, &service.unavailable);
            checks.push(match unavailable {
                None => Check::new(Level::Ok, format!("{group}/{version} is available")),
                Some(why) => {
                    let text = format!("{group}/{version} is not available: {why}");
                    let level = if needing.is_empty() { Level::Warning } else { Level::Error };
                    let hint = match needing.as_slice() {
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

/// Whether the metrics of an autoscaler fail. A target that was scaled to zero by hand doesn't count:
/// nothing is read for it.
fn lacks_metrics(autoscaler: &ObservedAutoscaler) -> bool {
    let condition = autoscaler.hpa.status.condition(&ConditionType::ScalingActive);
    condition.is_some_and(|condition| {
        condition.status == ConditionStatus::False
            && condition.reason != ConditionReason::ScalingDisabled
    })
}

fn needs(autoscaler: &ObservedAutoscaler, group: &str) -> bool {
    autoscaler.hpa.spec.metrics.iter().any(|metric| {
        let needed = match metric.source_type {
            MetricSourceType::Resource | MetricSourceType::ContainerResource => "metrics.k8s.io",
            MetricSourceType::Pods | MetricSourceType::Object => "custom.metrics.k8s.io",
            MetricSourceType::External => "external.metrics.k8s.io",
            _ => "",
        };
        needed == group
    })
}

fn install_hint(group: &str) -> &'static str {
    match group {
        "metrics.k8s.io" => "install metrics-server, or hpa adapter with resource rules",
        _ => "install hpa adapter (docs/adapter.md) or another adapter",
    }
}
