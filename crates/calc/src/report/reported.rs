//! The controller's status about the metrics that can't be read here.

use std::{borrow::Cow, cmp::Reverse, collections::BTreeMap};

use super::{
    error_texts::{
        ALSO_NOT_BY_API, FORBIDDEN, NO_KNOWN_VERSION, UNKNOWN_METRIC, is_in_process,
        is_metric_missing, is_server_error, is_unreadable_source,
    },
    inputs::Inputs,
};
use crate::{
    api::{
        Condition, ConditionStatus, ConditionType, CrossVersionObjectReference,
        HorizontalPodAutoscaler, MetricSpec,
    },
    combine::without_empty_selector,
    decision::Decision,
    explain::{Explanation, Measurement, MetricExplanation, MetricFailure, metric_name},
    messages::UNABLE_TO_UPDATE_SCALE,
    selector::go_string,
};

/// The prefix of the reference's messages about metrics.
pub(super) const UNABLE_TO_COMPUTE: &str = "the HPA was unable to compute the replica count: ";

const LAST_REPORTED: &str = ", as the controller last reported";
const NOT_READ_HERE: &str = "; this can't be read here";

/// Part of the names of the metrics APIs, which the API server's errors have.
const METRICS_API: &str = "metrics.k8s.io";

/// The controller's status about the metrics that can't be read here. The controller may read them
/// from another source, such as Prometheus or a schedule.
#[derive(Default)]
pub(super) struct ReportedMetrics<'a> {
    /// The causes for which the controller could not read metrics, by the index of the metric. They
    /// come from its debug API, or else from the condition `ScalingActive=False`, which is about
    /// one metric. Metrics that can be read here, or that fail here for the same cause, are left
    /// out.
    causes: BTreeMap<usize, &'a str>,
    /// The last values of other metrics that can't be read here, each with the metric's index.
    pub(super) values: Vec<(usize, Measurement)>,
    /// The indices of the metrics that can't be read here, and about which the controller reported
    /// neither a value nor a cause. Empty unless it reported a value of another metric.
    unknown: Vec<usize>,
    /// Whether a rule or a collector failed for one of several metrics with the same name. The
    /// condition doesn't say for which of them, and none of them can be read here.
    has_ambiguous_failure_of_source: bool,
    /// Whether the last status has neither a value nor a failure of any metric, although a metric
    /// can't be read here. The last decision needed no metrics, for example because of the bounds.
    pub(super) is_silent: bool,
    /// The indices of the metrics that no API has here, and of which no failure is known: the last
    /// status is [silent](Self::is_silent), or the controller read them for its last decision.
    without_failure: Vec<usize>,
    /// The indices of the metrics that an API lacks here, and whose fallbacks are active by the
    /// status. The status doesn't have the cause for which the controller can't read them.
    by_fallback: Vec<usize>,
}

impl<'a> ReportedMetrics<'a> {
    pub(super) fn new(inputs: &'a Inputs, decision: &Decision<'_>) -> Self {
        let (hpa, status) = (&inputs.hpa, &inputs.hpa.status);
        let metrics = &decision.explanation().metrics;
        let error = |index: usize| metrics.get(index).and_then(|metric| metric.error.as_deref());
        let unread = unread_metrics(inputs, metrics);
        let without_failure = |is_silent: bool| -> Vec<usize> {
            let unread = unread.iter().copied();
            let absent = unread.filter(|index| error(*index).is_some_and(is_metric_missing));
            let has_no_failure =
                |index: &usize| is_silent || inputs.readings.was_read_by_controller(*index);
            absent.filter(has_no_failure).collect()
        };
        let without_report = || Self { without_failure: without_failure(false), ..Self::default() };
        let Some(active) = status.condition(&ConditionType::ScalingActive) else {
            return without_report();
        };
        let mut failed = failed_metrics(hpa, active);
        // Other reasons, such as that of an ambiguous selector, are not failures to read metrics.
        if active.status != ConditionStatus::True && failed.is_empty() {
            return without_report();
        }
        // The status may be older than the controller's last decision.
        failed.retain(|index| !inputs.readings.was_read_by_controller(*index));
        let cause = root_cause(&active.message);
        let is_of_condition =
            |index: &usize| error(*index).is_some_and(|error| is_same(error, cause));
        let is_ambiguous = failed.len() > 1 && !failed.iter().any(is_of_condition);
        let has_ambiguous_failure_of_source = is_ambiguous
            && is_in_process(cause)
            && failed.iter().all(|index| unread.contains(index));
        let of_condition = failed.first().filter(|_| failed.len() == 1);
        let mut causes: BTreeMap<usize, &str> =
            of_condition.map(|index| (*index, cause)).into_iter().collect();
        causes.extend(inputs.readings.controller_errors());
        let values = unread.iter().copied().filter(|index| !causes.contains_key(index));
        let values = values.filter_map(|index| {
            Some((index, Measurement::of_status(hpa, &inputs.settings, index)?))
        });
        let values: Vec<_> = values.collect();
        let mut reported =
            Self { causes, values, has_ambiguous_failure_of_source, ..Self::default() };
        // With the history, the causes are known.
        let is_by_fallback = |index: &usize| {
            inputs.history.is_none()
                && metrics.get(*index).is_some_and(|metric| {
                    lacks_metric(hpa, *index, metric) && metric.has_active_fallback()
                })
                && !reported.is_reported(*index)
        };
        reported.by_fallback = unread.iter().copied().filter(is_by_fallback).collect();
        reported.is_silent = active.status == ConditionStatus::True
            && status.current_metrics.is_empty()
            && reported.causes.is_empty()
            && reported.by_fallback.is_empty()
            && !unread.is_empty();
        reported.without_failure = without_failure(reported.is_silent);
        if !reported.values.is_empty() {
            let unknown = unread.iter().copied().filter(|index| !reported.is_reported(*index));
            reported.unknown = unknown.collect();
        }
        reported.causes.retain(|index, cause| {
            let differs =
                error(*index).is_some_and(|error| !cause.is_empty() && !is_same(error, cause));
            unread.contains(index) && differs
        });
        reported
    }

    pub(super) fn has_value(&self, index: usize) -> bool {
        self.values.iter().any(|(other, _)| *other == index)
    }

    /// Whether the controller may read the metric, although it can't be read here: its last status
    /// has a value, or no failure of the metric is known.
    pub(super) fn controller_may_read(&self, index: usize) -> bool {
        self.has_value(index) || self.without_failure.contains(&index)
    }

    /// The reason why [the controller may read](Self::controller_may_read) a metric, as a sentence.
    /// `None` for other metrics.
    pub(super) fn describe_success(&self, index: usize, name: &str) -> Option<String> {
        if self.has_value(index) {
            return Some(format!("The controller had a value of {name} in its last status."));
        }
        self.controller_may_read(index)
            .then(|| format!("The controller reports no failure of {name}."))
    }

    /// The cause for which the controller could not read a metric that can't be read here.
    pub(super) fn cause(&self, index: usize) -> Option<&'a str> {
        self.causes.get(&index).copied()
    }

    /// Whether the controller seems to read rules or collectors: it reported an error of one, or
    /// the status has a value of one metric that can't be read here, and nothing about another.
    pub(super) fn has_own_sources(&self) -> bool {
        !self.unknown.is_empty()
            || self.has_ambiguous_failure_of_source
            || self.causes.values().any(|cause| is_in_process(cause))
    }

    /// Whether an API lacks the metric here, and its fallback is active by the status, which
    /// doesn't have the cause.
    pub(super) fn is_by_fallback(&self, index: usize) -> bool {
        self.by_fallback.contains(&index)
    }

    /// Whether the controller may have a source for a metric that no metrics API has here, but
    /// can't read that source now.
    pub(super) fn may_be_of_unreadable_source(
        &self,
        index: usize,
        metric: &MetricExplanation,
    ) -> bool {
        let error = metric.error.as_deref().unwrap_or_default();
        let may_have_source = error.contains(UNKNOWN_METRIC)
            && !is_in_process(error)
            && !self.is_reported(index)
            && self.causes.values().any(|cause| is_unreadable_source(cause));
        may_have_source || self.is_by_fallback(index)
    }

    /// The names of the metrics of [`Self::unknown`].
    pub(super) fn unknown_names(&self, hpa: &HorizontalPodAutoscaler) -> Vec<String> {
        self.unknown.iter().map(|index| metric_name(&hpa.spec.metrics, *index)).collect()
    }

    /// The values, and the errors of reading them here, except errors that the text `known`
    /// contains. Empty without values.
    pub(super) fn values_text(&self, explanation: &Explanation, known: &str) -> String {
        if self.values.is_empty() {
            return String::new();
        }
        let values: Vec<_> = self.values.iter().map(|(_, value)| value.to_string()).collect();
        let indices = self.values.iter().map(|(index, _)| *index);
        values.join(" and ") + LAST_REPORTED + &not_read_here(explanation, indices, known)
    }

    /// The causes that the controller reported, and the errors of reading those metrics here,
    /// except errors that the text `known` contains. Empty without causes.
    pub(super) fn causes_text(
        &self,
        hpa: &HorizontalPodAutoscaler,
        explanation: &Explanation,
        known: &str,
    ) -> String {
        if self.causes.is_empty() {
            return String::new();
        }
        let causes = explanation.failures_by(hpa, "cannot be read", |index| {
            let name = hpa.spec.metrics.get(index).map_or("", MetricSpec::metric_name);
            self.cause(index).map(|cause| without_name(cause, name).into_owned())
        });
        let others =
            self.causes.keys().filter(|index| !self.fails_like_another(explanation, **index));
        let others: Vec<usize> = others.copied().collect();
        let here = if others.is_empty() {
            String::new()
        } else {
            let known: Vec<&str> = self.causes.values().copied().chain([known]).collect();
            not_read_here(explanation, others, &known.join("; "))
        };
        format!("{}{LAST_REPORTED}{here}", causes.unwrap_or_default())
    }

    /// The metrics that failed, as a sentence, with the controller's report about each. `None` if
    /// no metric failed.
    pub(super) fn failures(
        &self,
        hpa: &HorizontalPodAutoscaler,
        explanation: &Explanation,
    ) -> Option<String> {
        let mut reported = self.causes.keys();
        let repeats = reported.any(|index| self.fails_like_another(explanation, *index));
        let is_unknown = self.is_silent || fails_without_status(hpa, explanation);
        let may_differ =
            repeats || self.has_own_sources() || is_unknown || !self.by_fallback.is_empty();
        let verb = if may_differ { "cannot be read here" } else { "cannot be read" };
        let here = explanation.failures_by(hpa, verb, |index| {
            let is_named = !self.is_reported(index) || self.fails_like_another(explanation, index);
            explanation.metrics.get(index)?.error.clone().filter(|_| is_named)
        });
        let here = here.unwrap_or_default();
        let causes = self.causes_text(hpa, explanation, &here);
        let values = self.values_text(explanation, &format!("{causes}{here}"));
        let mut texts = vec![causes, here, values];
        texts.retain(|text| !text.is_empty());
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    /// Whether the controller reported a value of the metric, or another cause of its failure.
    fn is_reported(&self, index: usize) -> bool {
        self.has_value(index) || self.causes.contains_key(&index)
    }

    /// Whether the controller reported a cause for a metric, but nothing about another metric that
    /// fails here with the same error.
    fn fails_like_another(&self, explanation: &Explanation, index: usize) -> bool {
        let Some(error) = explanation.metrics.get(index).and_then(|metric| metric.error.as_ref())
        else {
            return false;
        };
        let mut others = explanation.metrics.iter().enumerate();
        self.causes.contains_key(&index)
            && others.any(|(other, metric)| {
                !self.is_reported(other) && metric.error.as_ref() == Some(error)
            })
    }
}

/// The indices of the metrics that can't be read here, but that the controller may read.
fn unread_metrics(inputs: &Inputs, metrics: &[MetricExplanation]) -> Vec<usize> {
    use MetricFailure::{Empty, Fetch, NotRead};
    // kube-controller-manager reads the same APIs. Its status is older than the error here.
    let reads_same_apis = inputs.settings.is_for_built_in();
    let is_forbidden = |error: &str| error.contains(FORBIDDEN);
    let unread = metrics.iter().enumerate().filter(|(_, metric)| {
        matches!(metric.failure, Some(Fetch | Empty | NotRead))
            && (!reads_same_apis || metric.error.as_deref().is_some_and(is_forbidden))
    });
    unread.map(|(index, _)| index).collect()
}

/// Replaces the metric's name by `it` in a cause that says why no rule or collector has the metric.
/// The text before the cause has the name already.
fn without_name<'a>(cause: &'a str, name: &str) -> Cow<'a, str> {
    let Some((why, by_api)) = cause.split_once(ALSO_NOT_BY_API) else { return cause.into() };
    let why = format!("{why},").replace(&format!(" {name},"), " it,");
    let why = why.strip_suffix(',').unwrap_or(&why);
    format!("{why}{ALSO_NOT_BY_API}{by_api}").into()
}

/// Whether a metrics API has no metric of this name, or returned no value of it. `false` for an
/// empty response to a metric by pod, because it says nothing about the name.
fn lacks_metric(hpa: &HorizontalPodAutoscaler, index: usize, metric: &MetricExplanation) -> bool {
    let error = metric.error.as_deref().unwrap_or_default();
    let spec = hpa.spec.metrics.get(index);
    let is_empty = metric.failure == Some(MetricFailure::Empty)
        && spec.is_some_and(|spec| spec.source_type.exists_without_pods());
    (is_empty || error.contains(UNKNOWN_METRIC)) && !is_in_process(error)
}

/// Whether a metric could not be read here, and no controller has stored a status.
fn fails_without_status(hpa: &HorizontalPodAutoscaler, explanation: &Explanation) -> bool {
    use MetricFailure::{Empty, Fetch};
    let mut failures = explanation.metrics.iter().map(|metric| metric.failure);
    hpa.status.conditions.is_empty()
        && failures.any(|failure| matches!(failure, Some(Fetch | Empty)))
}

/// The end of a text about metrics that can't be read here: it states this, and the errors, except
/// errors that the text `known` contains.
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

/// The indices of the metrics that a condition `ScalingActive=False` can be about, by its reason
/// and message. Several if they have the same name, and the message doesn't say which of them it
/// is. Empty if it isn't about a metric that can't be read.
pub(super) fn failed_metrics(hpa: &HorizontalPodAutoscaler, condition: &Condition) -> Vec<usize> {
    let message = without_empty_selector(&condition.message);
    let message = message.strip_prefix(UNABLE_TO_COMPUTE).unwrap_or(message);
    if condition.status != ConditionStatus::False {
        return Vec::new();
    }
    let is_named = |spec: &MetricSpec, text: &str| {
        let reason = format!("FailedGet{}Metric", spec.source_type);
        reason == condition.reason.as_str() && text.contains(spec.metric_name())
    };
    let metrics_in = |text: &str| -> Vec<usize> {
        let named = hpa.spec.metrics.iter().enumerate().filter(|one| is_named(one.1, text));
        let (identified, others): (Vec<_>, Vec<_>) =
            named.partition(|(_, spec)| identifies(message, hpa, spec));
        let mut named = if identified.is_empty() { others } else { identified };
        // The longest name, because it may contain another one.
        let metric_names = named.iter().map(|(_, spec)| spec.metric_name());
        let longest = metric_names.min_by_key(|name| Reverse(name.len()));
        named.retain(|(_, spec)| Some(spec.metric_name()) == longest);
        named.into_iter().map(|(index, _)| index).collect()
    };
    // A URL in the cause may contain the name of another metric.
    let before_cause = message.strip_suffix(root_cause(message)).unwrap_or_default();
    let metrics = metrics_in(before_cause);
    if metrics.is_empty() { metrics_in(message) } else { metrics }
}

/// Whether a message that has the name of this metric also has its selector, object or container.
/// Messages about Pods metrics never have the selector.
fn identifies(message: &str, hpa: &HorizontalPodAutoscaler, spec: &MetricSpec) -> bool {
    let namespace = &hpa.metadata.namespace;
    if let Some(source) = &spec.external {
        let (name, selector) = (&source.metric.name, source.metric.selector.as_ref());
        let selector = go_string(selector);
        return message.contains(&format!("external metric {namespace}/{name}/{selector}"));
    }
    if let Some(source) = &spec.object {
        let CrossVersionObjectReference { kind, name, .. } = &source.described_object;
        // kube-controller-manager before 1.37 confuses the arguments (kubernetes#139029).
        return message.contains(&format!(" on {kind} {namespace}/{name}: "))
            || message.contains(&format!(": {kind} on {namespace} {name}/"));
    }
    spec.container_resource.as_ref().is_some_and(|source| {
        let container = &source.container;
        message.contains(&format!("container {container} of Pod "))
            || message.contains(&format!("container {container} not found in Pod "))
    })
}

/// Whether two causes are the same failure. The digits of an address or a time don't count, except
/// in errors about rights: there, they are those of names, such as that of the user. All failures
/// of the metrics APIs are the same.
fn is_same(error: &str, cause: &str) -> bool {
    let without_digits = |text: &str| {
        let keeps_digits = text.contains(FORBIDDEN);
        text.replace(|one: char| one.is_ascii_digit() && !keeps_digits, "")
    };
    match (is_in_process(error), is_in_process(cause)) {
        (true, true) => error.contains(cause) || cause.contains(error),
        (false, false) => {
            let (bare_error, bare_cause) = (without_digits(error), without_digits(cause));
            bare_error.contains(&bare_cause)
                || bare_cause.contains(&bare_error)
                || is_failure_of_api(error) && is_failure_of_api(cause)
        }
        _ => false,
    }
}

/// Whether a metrics API failed with this error.
pub(super) fn is_failure_of_api(error: &str) -> bool {
    let is_of_api =
        error.contains(METRICS_API) || error.contains(NO_KNOWN_VERSION) || is_server_error(error);
    is_of_api && !error.contains(FORBIDDEN) && !is_in_process(error)
}

/// The cause in a message about metrics or a write of the scale, without the texts that the
/// reference puts before it.
pub fn root_cause(message: &str) -> &str {
    let message = without_empty_selector(message);
    if let Some((_, cause)) = message.split_once("unable to fetch metrics from ") {
        return cause.split_once(" metrics API: ").map_or(cause, |(_, cause)| cause);
    }
    if let Some(at) = message.find("no metrics returned from ") {
        return message.get(at..).unwrap_or(message);
    }
    let of_scale = || message.strip_prefix(UNABLE_TO_UPDATE_SCALE);
    let mut rest = message.strip_prefix(UNABLE_TO_COMPUTE).or_else(of_scale).unwrap_or(message);
    while let Some((_, cause)) = rest.split_once(": ").filter(|(start, _)| {
        start.starts_with("failed to get ") || start.starts_with("unable to get ")
    }) {
        rest = cause;
    }
    rest
}
