//! The controller's status about the metrics that can't be read here.

use std::{borrow::Cow, cmp::Reverse, collections::BTreeMap};

use super::{
    error_texts::{
        ALSO_NOT_BY_API, AUTOSCALERS_NOT_SYNCED, FORBIDDEN, NO_VALUE, NOT_DISCOVERED, PROMETHEUS,
        REFUSED_ADDRESS, RESOURCES_NOT_READ, UNKNOWN_METRIC, has_no_number, is_api_missing,
        is_in_process, is_refused_query, is_unknown_path, is_unsent_query,
    },
    failure,
    inputs::Inputs,
    metrics::MetricReport,
    phrases::namespace,
    source_failure,
};
use crate::{
    api::{Condition, ConditionStatus, ConditionType, HorizontalPodAutoscaler, MetricSpec},
    decision::Decision,
    explain::{Explanation, Measurement, MetricFailure, metric_name, status_value, target_value},
    shell::quote,
};

/// The prefix of the reference's messages about metrics.
pub(super) const UNABLE_TO_COMPUTE: &str = "the HPA was unable to compute the replica count: ";

const NOT_READ_HERE: &str = ", as the controller last reported; this can't be read here";

/// Part of the names of the metrics APIs, which the API server's errors have.
const METRICS_API: &str = "metrics.k8s.io";
/// The prefix of annotations that configure collectors.
const COLLECTORS: &str = "metric-config.";

/// The controller's status about the metrics that can't be read here. The controller may read them
/// from another source, such as Prometheus or a schedule.
#[derive(Default)]
pub(super) struct ReportedMetrics<'a> {
    /// The index of the metric that the condition `ScalingActive=False` is about, and the cause
    /// that it reports. `None` if the metric could be read here, or could not for the same cause.
    pub(super) failure: Option<(usize, &'a str)>,
    /// The last values of the other metrics that can't be read here, each after the metric's index.
    pub(super) values: Vec<(usize, Measurement)>,
}

impl<'a> ReportedMetrics<'a> {
    pub(super) fn new(inputs: &'a Inputs, decision: &Decision<'_>) -> Self {
        use MetricFailure::{Empty, Fetch, NotRead};
        let (hpa, status) = (&inputs.hpa, &inputs.hpa.status);
        let Some(active) = status.condition(&ConditionType::ScalingActive) else {
            return Self::default();
        };
        let failed = failed_metric(hpa, active);
        // Other reasons, such as that of an ambiguous selector, are not failures to read metrics.
        if active.status != ConditionStatus::True && failed.is_none() {
            return Self::default();
        }
        let metrics = &decision.explanation().metrics;
        let is_unread = |index: usize| {
            let failure = metrics.get(index).and_then(|metric| metric.failure);
            matches!(failure, Some(Fetch | Empty | NotRead))
        };
        let cause = root_cause(&active.message);
        let differs = |index: usize| {
            let error = metrics.get(index).and_then(|metric| metric.error.as_deref());
            error.is_some_and(|error| !cause.is_empty() && !is_same(error, cause))
        };
        let values = hpa.spec.metrics.iter().zip(&status.current_metrics).enumerate();
        let values = values.filter(|(index, _)| is_unread(*index) && failed != Some(*index));
        let values = values.filter_map(|(index, (spec, current))| {
            let (value, target) = (status_value(spec, current)?, target_value(spec)?);
            let has_pods = status.current_replicas > 0;
            let utilization_of = inputs.settings.metric(index).utilization_of;
            Some((index, Measurement::of_value(spec, utilization_of, value, target, has_pods)))
        });
        let failure = failed.filter(|index| is_unread(*index) && differs(*index));
        Self { failure: failure.map(|index| (index, cause)), values: values.collect() }
    }

    pub(super) fn has_value(&self, index: usize) -> bool {
        self.values.iter().any(|(other, _)| *other == index)
    }

    /// Whether the controller reads rules or collectors, by the cause that it reported.
    pub(super) fn has_own_sources(&self) -> bool {
        self.failure.is_some_and(|(_, cause)| is_in_process(cause))
    }

    /// The values, and the errors of reading them here, except errors that the text `known`
    /// contains. Empty without values.
    pub(super) fn values_text(&self, explanation: &Explanation, known: &str) -> String {
        if self.values.is_empty() {
            return String::new();
        }
        let values: Vec<_> = self.values.iter().map(|(_, value)| value.to_string()).collect();
        let indices = self.values.iter().map(|(index, _)| *index);
        values.join(" and ") + &not_read_here(explanation, indices, known)
    }

    /// The metrics that failed, as a sentence, with the controller's report about each. `None` if
    /// no metric failed.
    pub(super) fn failures(
        &self,
        hpa: &HorizontalPodAutoscaler,
        explanation: &Explanation,
    ) -> Option<String> {
        let mut unreported = explanation.clone();
        let reported = self.values.iter().map(|(index, _)| *index);
        for index in reported.chain(self.failure.map(|(index, _)| index)) {
            if let Some(metric) = unreported.metrics.get_mut(index) {
                metric.error = None;
            }
        }
        let mut unreported = unreported.failures(hpa).unwrap_or_default();
        if self.has_own_sources() || fails_without_status(hpa, explanation) {
            unreported = unreported.replace(" cannot be read: ", " cannot be read here: ");
        }
        let failure = self.failure.map(|(index, cause)| {
            let name = hpa.spec.metrics.get(index).map(metric_name).unwrap_or_default();
            let here = not_read_here(explanation, [index], &format!("{cause}{unreported}"));
            format!("{name} cannot be read: {}{here}", without_name(cause, &name))
        });
        let failure = failure.unwrap_or_default();
        let values = self.values_text(explanation, &format!("{failure}{unreported}"));
        let mut texts = vec![failure, unreported, values];
        texts.retain(|text| !text.is_empty());
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

/// The cause with `it` instead of the metric's name, if it says why no rule or collector has the
/// metric. The text before the cause has the name.
fn without_name<'a>(cause: &'a str, name: &str) -> Cow<'a, str> {
    let Some((why, by_api)) = cause.split_once(ALSO_NOT_BY_API) else { return cause.into() };
    let why = format!("{why},").replace(&format!(" {name},"), " it,");
    let why = why.strip_suffix(',').unwrap_or(&why);
    format!("{why}{ALSO_NOT_BY_API}{by_api}").into()
}

/// Whether a metric could not be read here, and no controller has stored a status.
fn fails_without_status(hpa: &HorizontalPodAutoscaler, explanation: &Explanation) -> bool {
    use MetricFailure::{Empty, Fetch};
    let mut failures = explanation.metrics.iter().map(|metric| metric.failure);
    hpa.status.conditions.is_empty()
        && failures.any(|failure| matches!(failure, Some(Fetch | Empty)))
}

/// The end of a text about metrics that the controller reported: it states this, and the errors of
/// reading the metrics here, except errors that the text `known` contains.
fn not_read_here(
    explanation: &Explanation,
    indices: impl IntoIterator<Item = usize>,
    known: &str,
) -> String {
    let metrics = indices.into_iter().filter_map(|index| explanation.metrics.get(index));
    let errors = metrics.filter_map(|metric| metric.error.as_deref());
    let mut errors: Vec<&str> = errors.filter(|error| !known.contains(*error)).collect();
    // Metrics of one API mostly fail alike.
    errors.dedup();
    let separator = if errors.is_empty() { "" } else { ": " };
    format!("{NOT_READ_HERE}{separator}{}", errors.join("; "))
}

/// The index of the metric that a condition `ScalingActive=False` is about, by its reason and
/// message. `None` if it isn't about a metric that can't be read.
pub(super) fn failed_metric(hpa: &HorizontalPodAutoscaler, condition: &Condition) -> Option<usize> {
    let message = condition.message.strip_prefix(UNABLE_TO_COMPUTE).unwrap_or(&condition.message);
    if condition.status != ConditionStatus::False {
        return None;
    }
    let is_named = |spec: &MetricSpec, text: &str| {
        let reason = format!("FailedGet{}Metric", spec.source_type);
        reason == condition.reason.as_str() && text.contains(spec.metric_name())
    };
    let longest_name_in = |text: &str| {
        let named = hpa.spec.metrics.iter().enumerate().filter(|one| is_named(one.1, text));
        // The longest name, because it may contain another one.
        let longest = named.min_by_key(|(_, spec)| Reverse(spec.metric_name().len()));
        longest.map(|(index, _)| index)
    };
    // A URL in the cause may contain the name of another metric.
    let before_cause = message.strip_suffix(root_cause(message)).unwrap_or_default();
    longest_name_in(before_cause).or_else(|| longest_name_in(message))
}

/// Whether two causes are the same failure. A metrics API may fail in several ways.
fn is_same(error: &str, cause: &str) -> bool {
    let is_of_api = |text: &str| {
        text.contains(METRICS_API) && !text.contains(FORBIDDEN) && !text.contains(ALSO_NOT_BY_API)
    };
    let are_of_one_source = is_in_process(error) == is_in_process(cause);
    are_of_one_source && (error.contains(cause) || cause.contains(error))
        || is_of_api(error) && is_of_api(cause)
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

/// Advice for the metrics of an API for which no server is registered, as the controller reported.
/// By the index of the metric.
pub(super) fn about_unserved_api(hpa: &HorizontalPodAutoscaler) -> BTreeMap<usize, String> {
    let active = hpa.status.condition(&ConditionType::ScalingActive);
    let is_unserved = |active: &&Condition| {
        let cause = root_cause(&active.message);
        is_api_missing(cause) && !is_in_process(cause)
    };
    let failed = active.filter(is_unserved).and_then(|active| failed_metric(hpa, active));
    let Some(failed) = failed.and_then(|index| hpa.spec.metrics.get(index)) else {
        return BTreeMap::new();
    };
    let advice = failure::about_missing_api(&failed.source_type);
    let metrics = hpa.spec.metrics.iter().enumerate();
    let of_api =
        metrics.filter(|(_, other)| failure::about_missing_api(&other.source_type) == advice);
    of_api.map(|(index, _)| (index, advice.clone())).collect()
}

/// Advice about the cause that the controller reported for a metric, and about reading it here.
pub(super) fn advise(
    inputs: &Inputs,
    index: usize,
    metric: &MetricReport,
    cause: &str,
) -> Vec<String> {
    let error = metric.explanation.error.as_deref().unwrap_or_default();
    let here = if error.contains(FORBIDDEN) {
        Some("You may not read the metrics here. The controller has its own permissions.")
    } else if is_in_process(error) {
        // The flags were given.
        None
    } else {
        Some(
            "To read the metrics here as the controller does, use its flags: --metrics-config, \
             --prometheus-url, --collectors, --scaling-schedule.",
        )
    };
    let about_cause = about_cause(inputs, index, metric, cause);
    about_cause.into_iter().chain(here.map(str::to_owned)).collect()
}

/// Advice about the cause that the controller reported for a metric.
pub(super) fn about_cause(
    inputs: &Inputs,
    index: usize,
    metric: &MetricReport,
    cause: &str,
) -> Option<String> {
    let metadata = &inputs.hpa.metadata;
    let has_collectors = metadata.annotations.keys().any(|key| key.starts_with(COLLECTORS));
    let missing = ["request", "limit"].into_iter().find(|amount| {
        [format!("missing {amount} for "), format!("missing pod-level {amount} for ")]
            .iter()
            .any(|start| cause.starts_with(start))
    });
    if cause.contains(FORBIDDEN) {
        Some(
            "Give the user in the message, as which the controller runs, the right that it lacks: \
             the ClusterRole of the chart hpa-controller has all rights that a controller needs."
                .to_owned(),
        )
    } else if let Some(amount) = missing {
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
    } else if cause.contains(RESOURCES_NOT_READ) {
        Some(source_failure::about_api_server_resources())
    } else if cause.contains(PROMETHEUS)
        || (cause.contains(NOT_DISCOVERED) && !cause.contains(AUTOSCALERS_NOT_SYNCED))
    {
        Some(
            "Check that Prometheus runs, and that the controller's URL of it is right \
             (--prometheus-url, or servers in the rules file)."
                .to_owned(),
        )
    } else if is_in_process(cause) && is_refused_query(cause) {
        Some(source_failure::about_refused_query(&metric.name))
    } else if cause.contains(REFUSED_ADDRESS) {
        Some(source_failure::about_refused_address())
    } else if cause.contains(ALSO_NOT_BY_API) {
        Some(source_failure::about_absence(inputs, index, metric, cause))
    } else if cause.starts_with(NO_VALUE) {
        Some(source_failure::about_no_value(index, metric, cause))
    } else if is_api_missing(cause) {
        Some(failure::about_missing_api(&metric.source_type))
    } else if has_collectors && !cause.contains(METRICS_API) {
        let check = if is_unknown_path(cause) {
            "the server in the message and these annotations: the server answers that it doesn't \
             have the path of the request"
        } else if has_no_number(cause) {
            "these annotations: the server answers, but its response has no number at the path"
        } else if is_unsent_query(cause) {
            "the query in these annotations, which is not sent to the server"
        } else {
            "the server in the message and these annotations"
        };
        Some(format!(
            "If the metric is that of annotations {COLLECTORS}*, check {check}. Events name those \
             that no collector accepts: kubectl get events --namespace {} --field-selector {}",
            namespace(&inputs.hpa),
            quote(&format!(
                "reason=CreateNewMetricsCollector,involvedObject.name={}",
                metadata.name
            ))
        ))
    } else if cause.contains(UNKNOWN_METRIC) || cause.starts_with("no metrics returned from ") {
        Some(
            "Check the names and selectors in spec.metrics, and that the controller's source has \
             these metrics."
                .to_owned(),
        )
    } else {
        None
    }
}
