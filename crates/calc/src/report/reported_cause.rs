//! Advice about the causes that the controller reported.

use std::collections::BTreeMap;

use super::{
    error_texts::{
        ALSO_NOT_BY_API, AUTOSCALERS_NOT_SYNCED, FORBIDDEN, NO_COLLECTOR_READS, NO_VALUE,
        NOT_DISCOVERED, PROMETHEUS, REFUSED_ADDRESS, RESOURCES_NOT_READ, UNKNOWN_METRIC,
        is_api_missing, is_in_process, is_late, is_of_server, is_refused_query,
    },
    failure,
    inputs::Inputs,
    metrics::MetricReport,
    phrases::{metrics_api, namespace},
    reported::{failed_metrics, is_failure_of_api, root_cause},
    source_failure,
};
use crate::{
    api::{Condition, ConditionType, HorizontalPodAutoscaler, MetricSpec},
    readings::{MetricsApi, ReadError},
    shell::quote,
};

/// The setting with the URL of the controller's Prometheus.
const CONTROLLER_URL: &str = "the controller's --prometheus-url";
/// The prefix of annotations that configure collectors.
const COLLECTORS: &str = "metric-config.";

impl Inputs {
    /// Advice for the metrics of an API for which no server is registered, as the controller
    /// reported in `ScalingActive=False`. By the index of the metric.
    pub fn advice_about_unserved_api(&self) -> BTreeMap<usize, String> {
        let hpa = &self.hpa;
        let active = hpa.status.condition(&ConditionType::ScalingActive);
        let is_unserved = |active: &&Condition| {
            let cause = root_cause(&active.message);
            is_api_missing(cause) && !is_in_process(cause)
        };
        let failed = active.filter(is_unserved).map(|active| failed_metrics(hpa, active));
        // If there are several, they have the same type.
        let first = failed.unwrap_or_default().first().copied();
        let Some(failed) = first.and_then(|index| hpa.spec.metrics.get(index)) else {
            return BTreeMap::new();
        };
        let api = metrics_api(&failed.source_type);
        let metrics = hpa.spec.metrics.iter().enumerate();
        let of_api = metrics.filter(|(_, other)| metrics_api(&other.source_type) == api);
        let advice = failure::about_missing_api(&failed.source_type);
        of_api.map(|(index, _)| (index, advice.clone())).collect()
    }
}

/// The cause in `ScalingActive=False` if the controller's rules, its collectors and a metrics API
/// all lack the metric at an index. `None` for other causes.
pub fn reported_absence(hpa: &HorizontalPodAutoscaler, index: usize) -> Option<&str> {
    let active = hpa.status.condition(&ConditionType::ScalingActive)?;
    let cause = root_cause(&active.message);
    let is_absent = || failed_metrics(hpa, active).contains(&index);
    (cause.contains(ALSO_NOT_BY_API) && is_absent()).then_some(cause)
}

/// Whether the condition names this cause as a failure of the resource metrics API. A rule or a
/// collector of the controller has other causes.
fn is_of_resource_api(hpa: &HorizontalPodAutoscaler, index: usize, cause: &str) -> bool {
    let failure = ReadError::fetch(MetricsApi::Resource, cause).to_string();
    let names_api = |active: &Condition| {
        active.message.contains(&failure) && failed_metrics(hpa, active).contains(&index)
    };
    let active = hpa.status.condition(&ConditionType::ScalingActive);
    !is_in_process(cause) && active.is_some_and(names_api)
}

/// Whether the controller reported that nothing reads a metric that has annotations.
pub(super) fn ignores_annotations(inputs: &Inputs, index: usize, cause: &str) -> bool {
    let name = inputs.hpa.spec.metrics.get(index).map_or("", MetricSpec::metric_name);
    let of_metric = format!(".{name}.");
    let mut keys = inputs.hpa.metadata.annotations.keys();
    (cause.contains(NO_COLLECTOR_READS) || cause.contains(ALSO_NOT_BY_API))
        && keys.any(|key| key.starts_with(COLLECTORS) && key.contains(&of_metric))
}

/// Advice about the cause that the controller reported for a metric, and about reading it here.
/// `known` is the caller's advice about the error here. It may name the server of the API.
pub(super) fn advise(
    inputs: &Inputs,
    metric: &MetricReport,
    cause: &str,
    known: Option<&String>,
) -> Vec<String> {
    let error = metric.explanation.error.as_deref().unwrap_or_default();
    let is_of_resource_api = is_of_resource_api(&inputs.hpa, metric.index, cause);
    let here = if error.contains(FORBIDDEN) {
        Some(
            "You may not read the metrics here. The controller has its own permissions.".to_owned(),
        )
    } else if is_in_process(error) || is_of_resource_api {
        // The flags were given, or the controller reads the same API as this command.
        None
    } else {
        let start = if is_in_process(cause) {
            "To read the metrics here as the controller does"
        } else {
            // kube-controller-manager has no such flags.
            "If the controller is hpa run with a source of its own"
        };
        Some(format!(
            "{start}, use its flags: --metrics-config, --prometheus-url, --collectors, \
             --scaling-schedule."
        ))
    };
    let is_of_api = is_of_resource_api || is_failure_of_api(cause);
    let about_api = || is_of_api.then(|| failure::about_failing_api(&metric.source_type, cause));
    let about_cause = about_cause(inputs, metric, cause).or_else(|| known.cloned());
    let about_cause = about_cause.or_else(about_api);
    about_cause.into_iter().chain(here).collect()
}

/// Advice about the cause that the controller reported for a metric.
pub(super) fn about_cause(inputs: &Inputs, metric: &MetricReport, cause: &str) -> Option<String> {
    let mut annotations = inputs.hpa.metadata.annotations.keys();
    let has_collectors = annotations.any(|key| key.starts_with(COLLECTORS));
    let missing = cause.strip_prefix("missing ").and_then(|rest| rest.split_once(" for "));
    let missing = missing.map(|(amount, _)| amount.trim_start_matches("pod-level "));
    let missing = missing.filter(|amount| ["request", "limit"].contains(amount));
    Some(if cause.contains(FORBIDDEN) {
        "Give the user in the message, as which the controller runs, the right that it lacks: the \
         ClusterRole of the chart hpa-controller has all rights that a controller needs."
            .to_owned()
    } else if let Some(advice) = failure::about_unknown_kind(metric.index, cause) {
        advice
    } else if let Some(advice) = about_missing_schedule(metric.index, cause) {
        advice
    } else if let Some(amount) = missing {
        failure::about_missing_amount(amount, "")
    } else if cause.starts_with("container ") && cause.contains(" not found in Pod ") {
        "Correct the name of the container in spec.metrics, or select only pods that have it."
            .to_owned()
    } else if cause.contains(RESOURCES_NOT_READ) {
        source_failure::ADVICE_ABOUT_DISCOVERY.to_owned()
    } else if let Some(advice) = source_failure::about_answer(cause, CONTROLLER_URL) {
        advice
    } else if is_late(cause) {
        source_failure::ADVICE_ABOUT_LATENESS.to_owned()
    } else if cause.contains(PROMETHEUS)
        || (cause.contains(NOT_DISCOVERED) && !cause.contains(AUTOSCALERS_NOT_SYNCED))
    {
        "Check that Prometheus runs, and that the controller's URL of it is right \
         (--prometheus-url, or servers in the rules file)."
            .to_owned()
    } else if is_in_process(cause) && is_refused_query(cause) {
        source_failure::about_refused_query(&metric.name)
    } else if cause.contains(REFUSED_ADDRESS) {
        source_failure::about_refused_address()
    } else if cause.contains(ALSO_NOT_BY_API) {
        source_failure::about_absence(inputs, metric, cause)
    } else if cause.starts_with(NO_VALUE) {
        source_failure::about_no_value(inputs, metric, cause)
    } else if let Some(advice) = source_failure::about_result_of_collector(&metric.name, cause) {
        advice
    } else if is_api_missing(cause) {
        failure::about_missing_api(&metric.source_type)
    } else if has_collectors && !is_failure_of_api(cause) {
        about_annotations(&inputs.hpa, cause)
    } else if cause.contains(UNKNOWN_METRIC) || cause.starts_with("no metrics returned from ") {
        "Check the names and selectors in spec.metrics, and that the controller's source has \
         these metrics."
            .to_owned()
    } else {
        return None;
    })
}

/// Advice about a scaling schedule that doesn't exist. `None` for other causes.
fn about_missing_schedule(index: usize, cause: &str) -> Option<String> {
    let (_, object) = cause.rsplit_once("there is no ")?;
    let (kind, rest) = object.split_once(' ')?;
    let name = rest.split([' ', ',', ';']).next().filter(|name| !name.is_empty())?;
    ["ScalingSchedule", "ClusterScalingSchedule"].contains(&kind).then(|| {
        format!(
            "Create the {kind} {name}, or correct spec.metrics[{index}].object.describedObject. A \
             ScalingSchedule must be in the namespace of the autoscaler, a ClusterScalingSchedule \
             is in none."
        )
    })
}

/// Advice about the annotations of a collector that failed for this cause.
fn about_annotations(hpa: &HorizontalPodAutoscaler, cause: &str) -> String {
    let problem = source_failure::problem_of_collector_settings(cause);
    let check = match problem {
        Some(problem) => format!("these annotations: {problem}"),
        None if is_of_server(cause) => "the server in the message and these annotations".to_owned(),
        None => "these annotations, as the message says".to_owned(),
    };
    format!(
        "If the metric is that of annotations {COLLECTORS}*, check {check}. Events name those \
         that no collector accepts: {}",
        collector_events_command(hpa)
    )
}

/// The command that prints the events about settings that no collector accepts.
pub fn collector_events_command(hpa: &HorizontalPodAutoscaler) -> String {
    let of_autoscaler =
        format!("reason=CreateNewMetricsCollector,involvedObject.name={}", hpa.metadata.name);
    let (namespace, selector) = (namespace(hpa), quote(&of_autoscaler));
    format!("kubectl get events --namespace {namespace} --field-selector {selector}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_schedule_is_named() {
        let advice = |cause| about_missing_schedule(1, cause);
        let missing = advice("custom metrics API: there is no ScalingSchedule shop/bad").unwrap();
        let start = "Create the ScalingSchedule shop/bad, or correct \
                     spec.metrics[1].object.describedObject. ";
        assert!(missing.starts_with(start), "{missing}");
        assert_eq!(advice("there is no Deployment shop/web"), None);
        assert_eq!(advice("there is no ScalingSchedule "), None);
    }
}
