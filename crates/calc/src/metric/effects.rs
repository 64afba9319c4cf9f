//! The effects of settings on the proposal of a metric, in words.

use super::context::MetricContext;
use crate::{
    explain::{SettingEffect, counted, number},
    replicas::{PodAverage, Proposal, SkippedPods},
    settings::UtilizationOf,
};

/// The name of the setting that leaves pods out.
pub(crate) const MISSING_REQUESTS: &str = "missing-requests";

/// The effects of settings on an average over pods. `resource` is the resource of a utilization
/// target, and `too_old` is the number of samples that are too old to count.
pub(super) fn average_effects(
    average: &PodAverage,
    too_old: usize,
    context: &MetricContext<'_>,
    resource: Option<&str>,
) -> Vec<SettingEffect> {
    let (changes, settings) = (&average.changes, context.metric_settings);
    let mut effects = Vec::new();
    let mut add = |setting, text| effects.push(SettingEffect { setting, text });
    if too_old > 0 {
        add("max-sample-age", format!("{} too old to count", counted(too_old, "sample")));
    }
    if let Some(resource) = resource {
        let base = settings.utilization_of.as_str();
        if settings.utilization_of == UtilizationOf::Limits {
            add("utilization-of", "the target is a percentage of limits".to_owned());
        }
        if changes.resized_pod_count > 0 {
            let pods = counted(changes.resized_pod_count, "pod");
            add("requests", format!("{pods} with other applied {base} than those of the spec"));
        }
        if changes.skipped.count > 0 {
            add(MISSING_REQUESTS, skipped_pods_text(&changes.skipped, base, resource));
        }
    }
    if let Some(ratio) = changes.aggregate_to_mean {
        let name = settings.aggregate.as_str();
        let pods = counted(changes.aggregated_pod_count, "pod");
        let times = if ratio.is_finite() {
            format!(", {} times their mean", number(ratio))
        } else {
            String::new()
        };
        add("aggregate", format!("{name} of {pods}{times}"));
    }
    effects.extend(surge_effect(&average.proposal, changes.replicas_with_surge));
    effects
}

fn skipped_pods_text(skipped: &SkippedPods, base: &str, resource: &str) -> String {
    let rest = match skipped.count - skipped.names.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    format!(
        "{} without {base} of {resource} left out: {}{rest}",
        counted(skipped.count, "pod"),
        skipped.names.join(", ")
    )
}

/// The effect of ignoring the surge pods of a rollout, if they would change the proposal.
pub(super) fn surge_effect(
    proposal: &Proposal,
    replicas_with_surge: Option<i32>,
) -> Option<SettingEffect> {
    let replicas = proposal.replicas;
    let with_surge = replicas_with_surge.filter(|with_surge| *with_surge != replicas)?;
    let text = format!("the metric asks for {replicas}, with the surge for {with_surge}");
    Some(SettingEffect { setting: "rollout", text })
}
