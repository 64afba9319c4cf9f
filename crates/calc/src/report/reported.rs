//! Failures of metrics that the controller reported, if the metrics can't be read here either, but
//! for another reason.

use super::{inputs::Inputs, metrics::MetricReport};
use crate::{
    api::{ConditionStatus, ConditionType},
    decision::Decision,
    explain::{MetricFailure, Reason},
};

/// Part of the errors of metrics APIs that don't have the metric.
pub(super) const UNKNOWN_METRIC: &str = "could not find the metric";

/// Part of the errors if a metric is read from Prometheus without a metrics API.
pub(super) const PROMETHEUS: &str = "the request to Prometheus at ";

/// Part of the API server's errors if the client may not read the metric.
pub(super) const FORBIDDEN: &str = " is forbidden: User ";

/// Part of the errors if the series of the rules have not been listed yet.
pub(super) const NOT_DISCOVERED: &str = "are not discovered yet";

/// The prefix of the reference's messages about metrics.
pub(super) const UNABLE_TO_COMPUTE: &str = "the HPA was unable to compute the replica count: ";

/// Part of the names of the metrics APIs, which the API server's errors have.
const METRICS_API: &str = "metrics.k8s.io";
/// The prefix of annotations that configure collectors.
const COLLECTORS: &str = "metric-config.";

/// The cause in the condition `ScalingActive=False`, if no metric could be read here either, but
/// for other reasons.
pub(super) fn failure<'a>(inputs: &'a Inputs, decision: &Decision<'_>) -> Option<&'a str> {
    use MetricFailure::{Empty, Fetch, NotRead};
    let explanation = decision.explanation();
    let metrics = &explanation.metrics;
    let is_unread = metrics.iter().all(|one| matches!(one.failure, Some(Fetch | Empty | NotRead)));
    if explanation.reason() != Reason::Failed || metrics.is_empty() || !is_unread {
        return None;
    }
    let active = inputs.hpa.status.condition(&ConditionType::ScalingActive)?;
    // Other reasons, such as that of an ambiguous selector, are not failures to read metrics.
    let is_failed =
        active.status == ConditionStatus::False && active.reason.as_str().starts_with("FailedGet");
    let cause = Some(root_cause(&active.message)).filter(|cause| is_failed && !cause.is_empty())?;
    let is_same = |error: &str| {
        // The same API may fail in several ways.
        let is_of_api = |text: &str| text.contains(METRICS_API) && !text.contains(FORBIDDEN);
        error.contains(cause) || cause.contains(error) || is_of_api(error) && is_of_api(cause)
    };
    let mut errors = metrics.iter().map(|metric| metric.error.as_deref().unwrap_or_default());
    (!errors.any(is_same)).then_some(cause)
}

/// The cause in a message about metrics, without the texts that the reference puts before it.
pub(super) fn root_cause(message: &str) -> &str {
    if let Some((_, cause)) = message.split_once("unable to fetch metrics from ") {
        return cause.split_once(" metrics API: ").map_or(cause, |(_, cause)| cause);
    }
    if let Some(at) = message.find("no metrics returned from ") {
        return message.get(at..).unwrap_or(message);
    }
    let mut rest = message.strip_prefix(UNABLE_TO_COMPUTE).unwrap_or(message);
    while let Some((_, cause)) = rest.split_once(": ").filter(|(start, _)| {
        start.starts_with("failed to get ") || start.starts_with("unable to get ")
    }) {
        rest = cause;
    }
    rest
}

/// The errors of reading the metrics here. Of equal errors in a row, only one is listed.
pub(super) fn errors<'a>(metrics: impl Iterator<Item = Option<&'a str>>) -> String {
    let mut errors: Vec<&str> = metrics.flatten().collect();
    errors.dedup();
    errors.join("; ")
}

/// Advice about the cause that the controller reported, and about reading the metrics here.
pub(super) fn advise(inputs: &Inputs, cause: &str, metrics: &[MetricReport]) -> Vec<String> {
    let metadata = &inputs.hpa.metadata;
    let has_collectors = metadata.annotations.keys().any(|key| key.starts_with(COLLECTORS));
    let missing = ["request", "limit"].into_iter().find(|amount| {
        [format!("missing {amount} for "), format!("missing pod-level {amount} for ")]
            .iter()
            .any(|start| cause.starts_with(start))
    });
    let about_cause = if let Some(amount) = missing {
        Some(format!(
            "A utilization is a percentage of {amount}s. Set the {amount} in every container of \
             every pod that the selector matches, or use a target of type AverageValue, or a \
             ContainerResource metric."
        ))
    } else if cause.starts_with("container ") && cause.contains(" not found in Pod ") {
        Some(
            "Correct the name of the container in spec.metrics, or select only pods that have it."
                .to_owned(),
        )
    } else if cause.contains(PROMETHEUS) || cause.contains(NOT_DISCOVERED) {
        Some(
            "Check that Prometheus runs, and that the controller's URL of it is right \
             (--prometheus-url, or servers in the rules file)."
                .to_owned(),
        )
    } else if has_collectors && !cause.contains(METRICS_API) {
        Some(format!(
            "If the metric is that of annotations {COLLECTORS}*, check the server in the message \
             and these annotations. Events name those that no collector accepts: kubectl get \
             events --namespace {} --field-selector \
             reason=CreateNewMetricsCollector,involvedObject.name={}",
            metadata.namespace, metadata.name
        ))
    } else if cause.contains(UNKNOWN_METRIC) || cause.starts_with("no metrics returned from ") {
        Some(
            "Check the names and selectors in spec.metrics, and that the controller's source has \
             these metrics."
                .to_owned(),
        )
    } else {
        None
    };
    let is_forbidden = |metric: &MetricReport| {
        metric.explanation.error.as_deref().is_some_and(|error| error.contains(FORBIDDEN))
    };
    // The errors of the sources that flags of this command configure.
    let has_flags = |metric: &MetricReport| {
        metric.explanation.error.as_deref().is_some_and(|error| {
            [PROMETHEUS, NOT_DISCOVERED, "--metrics-config"].iter().any(|one| error.contains(one))
        })
    };
    let here = if metrics.iter().any(is_forbidden) {
        "You may not read the metrics here. The controller has its own permissions."
    } else if metrics.iter().any(has_flags) {
        return about_cause.into_iter().collect();
    } else {
        "To read the metrics here as the controller does, use its flags: --metrics-config, \
         --prometheus-url, --collectors, --scaling-schedule."
    };
    about_cause.into_iter().chain([here.to_owned()]).collect()
}
