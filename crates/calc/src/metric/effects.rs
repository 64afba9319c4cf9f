//! The effects of settings on the proposal of a metric, in words.

use super::context::Context;
use crate::{
    explain::{SettingEffect, counted, number},
    replicas::{PodAverage, Proposal, SkippedPods},
    settings::{Aggregate, UtilizationOf},
};

/// The name of the setting that leaves pods out.
pub(crate) const MISSING_REQUESTS: &str = "missing-requests";

/// The effects of settings on an average over pods. `resource` is the resource of a utilization
/// target, and `too_old` is the number of samples that don't count.
pub(super) fn of_average(
    average: &PodAverage,
    too_old: usize,
    context: &Context<'_>,
    resource: Option<&str>,
) -> Vec<SettingEffect> {
    let (changes, settings) = (&average.changes, context.metric);
    let mut effects = Vec::new();
    let mut add = |setting, text| effects.push(SettingEffect { setting, text });
    if too_old > 0 {
        add("max-sample-age", format!("{} too old to count", counted(too_old, "sample")));
    }
    if let Some(resource) = resource {
        let of = settings.utilization_of.as_str();
        if settings.utilization_of == UtilizationOf::Limits {
            add("utilization-of", "the target is a percentage of limits".to_owned());
        }
        if changes.resized > 0 {
            let pods = counted(changes.resized, "pod");
            add("requests", format!("{pods} with other applied {of} than those of the spec"));
        }
        if changes.skipped.count > 0 {
            add(MISSING_REQUESTS, skipped(&changes.skipped, of, resource));
        }
    }
    if let (Some(times), aggregate) = (changes.aggregate_by_mean, settings.aggregate)
        && aggregate != Aggregate::Average
    {
        let (name, pods) = (aggregate.as_str(), counted(changes.aggregated, "pod"));
        let times = if times.is_finite() {
            format!(", {} times their mean", number(times))
        } else {
            String::new()
        };
        add("aggregate", format!("{name} of {pods}{times}"));
    }
    effects.extend(surge(&average.proposal, changes.with_surge));
    effects
}

fn skipped(skipped: &SkippedPods, of: &str, resource: &str) -> String {
    let rest = match skipped.count - skipped.names.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    format!(
        "{} without {of} of {resource} left out: {}{rest}",
        counted(skipped.count, "pod"),
        skipped.names.join(", ")
    )
}

/// The effect of ignoring the surge, if the surge would change the proposal.
pub(super) fn surge(proposal: &Proposal, with_surge: Option<i32>) -> Option<SettingEffect> {
    let with_surge = with_surge.filter(|with_surge| *with_surge != proposal.replicas)?;
    let text =
        format!("the metric asks for {}, with the surge for {with_surge}", proposal.replicas);
    Some(SettingEffect { setting: "rollout", text })
}
