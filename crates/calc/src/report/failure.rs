//! Advice about metrics that fail, or whose samples are old.

use jiff::{SignedDuration, Timestamp};

use super::{
    error_texts::{
        ALSO_NOT_BY_API, AUTOSCALERS_NOT_SYNCED, FORBIDDEN, NO_RESPONSE_WITHIN, NO_VALUE,
        REFUSED_ADDRESS, REJECTED_REQUEST, UNKNOWN_METRIC, is_api_missing, is_in_process,
        is_metric_missing, is_server_error, is_unknown_kind,
    },
    inputs::Inputs,
    metrics::{MetricReport, PodReport},
    phrases::{age, metrics_api, metrics_server, names},
    source_failure::{
        THE_QUERY, about_absence, about_no_value, about_refused_address, about_rule,
        rules_explain_command,
    },
    target_pods::{
        NOT_READY, count_states, creation_events, idle_state, ignored_pods_by_state, pods_command,
        running_pod,
    },
};
use crate::{
    api::{MetricSourceType, MetricTargetType, PodPhase},
    decision::Decision,
    explain::MetricFailure,
    pods::PodClass,
    quantity::MilliValue,
};

/// A sample is stale if it is older than its measurement window plus this duration.
const STALE_AFTER: SignedDuration = SignedDuration::from_mins(2);

/// Advice about a metric that the controller may read, as the sentence `start` says, but that could
/// not be read here.
pub(super) fn about_unread(inputs: &Inputs, metric: &MetricReport, start: &str) -> String {
    let name = &metric.name;
    let error = metric.explanation.error.as_deref().unwrap_or_default();
    if error.contains(FORBIDDEN) {
        return format!(
            "You may not read {name}, as the message says. The controller has its own \
             permissions, and its last status has a value."
        );
    }
    let about_kind = about_unknown_kind(metric.index, error);
    if let Some(advice) = about_kind.or_else(|| about_rule(name, error)) {
        return format!("{start} {advice}");
    }
    if is_in_process(error) {
        return format!(
            "{start} It may have other rules and collectors than the flags here, or its source has \
             failed since."
        );
    }
    let or_debug_api =
        if inputs.history.is_some() { "" } else { ", or its debug API (hpa run --debug-port)" };
    let of_own_source = format!(
        "If it reads a source of its own, use its flags here (--metrics-config, --prometheus-url, \
         --collectors, --scaling-schedule){or_debug_api}."
    );
    if is_metric_missing(error) {
        return format!(
            "{start} {of_own_source} If it reads the API of the message, it can't read {name} now \
             either."
        );
    }
    let api = metrics_api(&metric.source_type);
    let or_waits = if error.contains(NO_RESPONSE_WITHIN) {
        "it may wait longer (use its --request-timeout here), or "
    } else {
        ""
    };
    format!(
        "{start} If it reads {api}, {or_waits}that has failed since: kubectl get apiservices | \
         grep {api} names the service behind it. {of_own_source}"
    )
}

/// Describes the target's pods if a metric by pod has no value because no pod runs or is ready, or
/// because none has the container.
pub(super) fn pods_without_metrics(inputs: &Inputs, decision: &Decision<'_>) -> Option<String> {
    let metrics = inputs.hpa.spec.metrics.iter().zip(&decision.explanation().metrics);
    metrics.enumerate().find_map(|(index, (spec, metric))| match metric.failure? {
        failure
            if has_no_value(failure, metric.error.as_deref())
                && !spec.source_type.exists_without_pods() =>
        {
            describe_idle_pods(inputs)
        }
        MetricFailure::NoSamples => absent_container(inputs, index)
            .map(|container| format!("no pod has a container {container}"))
            .or_else(|| describe_idle_pods(inputs)),
        _ => None,
    })
}

/// Whether a metrics API or a collector answered, but without a value.
fn has_no_value(failure: MetricFailure, error: Option<&str>) -> bool {
    failure == MetricFailure::Empty
        || failure == MetricFailure::Fetch && error.is_some_and(|error| error.starts_with(NO_VALUE))
}

/// A clause that counts the target's pods by state. `None` if one of them runs and may be ready, or
/// if there are none.
fn describe_idle_pods(inputs: &Inputs) -> Option<String> {
    let states = inputs.selected.pods.iter().map(|pod| idle_state(pod));
    let states: Vec<&str> = states.collect::<Option<_>>()?;
    let runs = if states.contains(&NOT_READY) { "is ready" } else { "runs" };
    match states.as_slice() {
        [] => None,
        [state] => Some(format!("the only pod is {state}")),
        _ => {
            let counts = count_states(&states);
            Some(format!("none of the {} pods {runs} ({counts})", states.len()))
        }
    }
}

/// Advice about a metric that failed.
pub(super) fn about_failure(
    inputs: &Inputs,
    metric: &MetricReport,
    failure: MetricFailure,
) -> String {
    let MetricReport { name, index, .. } = metric;
    let is_by_pod = !metric.source_type.exists_without_pods();
    let failure = match failure {
        // Without pods, the response about pods is empty.
        MetricFailure::Empty if is_by_pod && inputs.selected.pods.is_empty() => {
            MetricFailure::NoPods
        }
        // A pod without the container has no sample of it.
        MetricFailure::NoSamples if absent_container(inputs, *index).is_some() => {
            MetricFailure::NoContainer
        }
        failure => failure,
    };
    if is_by_pod
        && has_no_value(failure, metric.explanation.error.as_deref())
        && let Some(state) = describe_idle_pods(inputs)
    {
        return about_idle_pods(inputs, metric, &state);
    }
    match failure {
        MetricFailure::InvalidSpec => about_invalid_spec(inputs, metric),
        MetricFailure::Fetch => about_failed_request(inputs, metric),
        MetricFailure::Empty => about_empty_response(inputs, metric),
        MetricFailure::NotRead => {
            format!("Without a value of {name}, nothing is scaled down: add its value.")
        }
        MetricFailure::TooOld => {
            let server = metrics_server(&metric.source_type, "the");
            format!(
                "Check why the samples of {name} are old: {server} may have stopped measuring. Or \
                 raise max-sample-age."
            )
        }
        MetricFailure::NoPods => format!(
            "No pod matches the target's selector. Check that the target's pods exist and carry \
             its labels: {}",
            pods_command(inputs, "get")
        ),
        MetricFailure::NoSamples => about_missing_samples(inputs, metric),
        MetricFailure::MissingRequest => {
            let without = metric.pod_list.iter().filter(|pod| pod.request.is_none());
            let pods = names(without.map(|pod| &pod.name));
            let amount = inputs.settings.metric(*index).utilization_of.singular();
            about_missing_amount(amount, &format!(" (missing in {pods})"))
        }
        MetricFailure::NoContainer => format!(
            "Correct the name of the container in spec.metrics[{index}], or select only pods that \
             have it: {}",
            pods_command(inputs, "get")
        ),
    }
}

/// Advice about an empty response while no pod runs or is ready, as `state` says.
fn about_idle_pods(inputs: &Inputs, metric: &MetricReport, state: &str) -> String {
    let (name, command) = (&metric.name, pods_command(inputs, "describe"));
    // A collector reads only ready pods, but the query of a rule may read others.
    let error = metric.explanation.error.as_deref();
    let is_of_collector =
        error.is_some_and(|error| is_in_process(error) && !error.contains(THE_QUERY));
    if is_of_collector || inputs.selected.pods.iter().all(|pod| pod.phase != PodPhase::Running) {
        return format!(
            "There is no value of {name}, because {state}. The events of the pods say why: \
             {command}"
        );
    }
    // A container that runs has a value although its pod is not ready.
    let server = metrics_server(&metric.source_type, "an");
    format!(
        "There is no value of {name}, and {state}. If the containers run, see the log of {server}. \
         If not, the events of the pods say why: {command}"
    )
}

/// Advice about a metrics API that responded without a value of the metric.
fn about_empty_response(inputs: &Inputs, metric: &MetricReport) -> String {
    let api = metrics_api(&metric.source_type);
    let server = metrics_server(&metric.source_type, "an");
    let MetricReport { name, index, .. } = metric;
    if metric.source_type.is_resource() {
        return format!(
            "{api} works but has no value of {name} for the target's pods. kubectl get \
             apiservices | grep {api} names the service behind it, such as {server}: see its \
             log. With --metrics-config, see the rules file and Prometheus."
        );
    }
    let is_by_pod = !metric.source_type.exists_without_pods();
    let of_pods = if is_by_pod { " for the target's pods" } else { "" };
    format!(
        "{api} works but has no value of {name}. Check the names and selectors in \
         spec.metrics[{index}], and that {server} has the metric{of_pods}. If it has a rules file, \
         this says why, with that file and its Prometheus: {}",
        rules_explain_command(&inputs.hpa, *index, running_pod(inputs))
    )
}

/// Advice about pods without a sample that counts. Pods that are being deleted or have ended never
/// count, so only other pods are worth a check.
fn about_missing_samples(inputs: &Inputs, metric: &MetricReport) -> String {
    let pods = metric.pod_list.iter().filter(|pod| pod.class != PodClass::Ready);
    let (ignored, waiting): (Vec<&PodReport>, Vec<&PodReport>) =
        pods.partition(|pod| pod.class == PodClass::Ignored);
    let start = format!("No pod has a sample of {} that counts", metric.name);
    let states = ignored_pods_by_state(inputs);
    if waiting.is_empty()
        && let Some(states) = &states
    {
        let pods = names(ignored.into_iter().map(|pod| &pod.name));
        let events = creation_events(inputs);
        return format!(
            "{start}: {pods} ({states}). Wait until other pods have been measured. If there are \
             none, the {events}"
        );
    }
    let pods = if waiting.is_empty() { ignored } else { waiting };
    let step = match stale_sample_time(inputs, metric) {
        Some(newest) => format!(
            "The newest sample is {} old, maybe older than the pods. Check {} and the clocks of \
             the nodes.",
            age(newest, inputs.now_by_samples()),
            metrics_server(&metric.source_type, "the")
        ),
        None if pods.iter().all(|pod| pod.is_starting) => {
            "They have started recently. Wait until they are ready and measured.".to_owned()
        }
        None => {
            "Check why the pods are not ready, or wait until they have been measured.".to_owned()
        }
    };
    let pods = names(pods.into_iter().map(|pod| &pod.name));
    let others = states.map(|states| format!(" (others don't count: {states})"));
    format!("{start}: {pods}{}. {step}", others.unwrap_or_default())
}

/// Advice about pods without a readable `amount`: `request` or `limit`. `pods` names them in
/// parentheses, after a space. It is empty if they are unknown.
pub(super) fn about_missing_amount(amount: &str, pods: &str) -> String {
    format!(
        "A utilization is a percentage of {amount}s. Set the {amount} in every container of every \
         pod that the selector matches{pods}, or use a target of type AverageValue, or a \
         ContainerResource metric."
    )
}

/// Advice about a metric whose spec the API server accepts, but no controller.
fn about_invalid_spec(inputs: &Inputs, metric: &MetricReport) -> String {
    let MetricReport { name, index, .. } = metric;
    let spec = inputs.hpa.spec.metrics.get(*index);
    let object = spec.and_then(|metric| metric.object.as_ref());
    let Some(target) = object.map(|object| &object.target) else {
        return format!("Correct spec.metrics[{index}]: {name}.");
    };
    let (field, fitting) = match (&target.value, &target.average_value) {
        (Some(_), None) if target.target_type != MetricTargetType::Value => ("value", "Value"),
        (None, Some(_)) if target.target_type != MetricTargetType::AverageValue => {
            ("averageValue", "AverageValue")
        }
        _ => return format!("Correct spec.metrics[{index}].object: {name}."),
    };
    format!(
        "Set spec.metrics[{index}].object.target.type to {fitting}: it is {}, but {field} is set.",
        target.target_type
    )
}

/// Advice if the request for a metric failed, by the text of the error.
fn about_failed_request(inputs: &Inputs, metric: &MetricReport) -> String {
    let api = metrics_api(&metric.source_type);
    let MetricReport { name, index, .. } = metric;
    let error = metric.explanation.error.as_deref().unwrap_or_default();
    if let Some(advice) = about_unknown_kind(*index, error) {
        return advice;
    }
    if error.contains(ALSO_NOT_BY_API) {
        return about_absence(inputs, metric, error);
    }
    if error.contains(FORBIDDEN) {
        return format!(
            "You may not read {name} from {api}, as the message says. The controller has its own \
             permissions."
        );
    }
    if error.contains(UNKNOWN_METRIC) {
        let server = metrics_server(&metric.source_type, "An");
        return format!(
            "{api} has no metric {name}. Check the names and selectors in spec.metrics[{index}]. \
             {server} serves metrics by its configuration: check that this one is in it."
        );
    }
    if let Some(advice) = about_rule(name, error) {
        return advice;
    }
    if error.contains(AUTOSCALERS_NOT_SYNCED) {
        return format!(
            "If a collector reads {name}, it has to list the autoscalers and pods first. The \
             message says why it could not."
        );
    }
    if error.starts_with(NO_VALUE) {
        return about_no_value(inputs, metric, error);
    }
    if error.contains(REFUSED_ADDRESS) {
        return about_refused_address();
    }
    if is_in_process(error) {
        return format!(
            "The error is that of a rule or a collector, which reads {name} without {api}: check \
             its settings and its server."
        );
    }
    if is_api_missing(error) {
        return about_missing_api(&metric.source_type);
    }
    about_failing_api(&metric.source_type, error)
}

/// Advice about an object of a kind that the API server doesn't have. `None` for other errors.
pub(super) fn about_unknown_kind(index: usize, error: &str) -> Option<String> {
    is_unknown_kind(error).then(|| {
        format!(
            "Correct apiVersion and kind in spec.metrics[{index}].object.describedObject: the API \
             server doesn't have that kind."
        )
    })
}

/// Advice if the API of metrics of this type is registered, and fails with this error.
pub(super) fn about_failing_api(source_type: &MetricSourceType, error: &str) -> String {
    let api = metrics_api(source_type);
    if error.contains(REJECTED_REQUEST) {
        return format!(
            "{api} answers, but rejects the request: check the names and selectors in \
             spec.metrics, and the log of the service behind it, which kubectl get apiservices | \
             grep {api} names."
        );
    }
    if is_server_error(error) {
        return format!(
            "{api} answers with an error: see the log of the service behind it, which kubectl get \
             apiservices | grep {api} names. If the controller reads another source, see that."
        );
    }
    format!(
        "Check that {api} works: kubectl get apiservices | grep {api} names the service behind it."
    )
}

/// Advice if no server is registered for the API of metrics of this type.
pub(super) fn about_missing_api(source_type: &MetricSourceType) -> String {
    let api = metrics_api(source_type);
    let install = if source_type.is_resource() {
        "metrics-server, or hpa adapter with resource rules"
    } else {
        "hpa adapter (docs/adapter.md) or another adapter"
    };
    format!(
        "No server is registered for {api}: install {install}. If the controller is to read \
         another source, such as Prometheus, check its flags."
    )
}

/// Advice if even the newest sample of a metric is old: the metrics server may have stopped
/// measuring. `None` for a newer sample, and if no sample counts: the advice about that failure has
/// the age.
pub(super) fn about_age(inputs: &Inputs, metric: &MetricReport) -> Option<String> {
    let newest = stale_sample_time(inputs, metric)?;
    let effect = match metric.explanation.failure {
        None => ", so the decision follows an old load",
        Some(MetricFailure::NoSamples) => return None,
        Some(_) => "",
    };
    Some(format!(
        "The newest sample of {} is {} old{effect}. Check {}.",
        metric.name,
        age(newest, inputs.now_by_samples()),
        metrics_server(&metric.source_type, "the")
    ))
}

/// The value of an Object or External metric, if it is negative.
pub(super) fn negative_value(inputs: &Inputs, metric: &MetricReport) -> Option<MilliValue> {
    let total = inputs.readings.get(metric.index)?.as_ref().ok()?.total_milli()?;
    i64::try_from(total).ok().filter(|total| *total < 0).map(MilliValue::from_milli)
}

/// A clause about the effect of a negative value on the proposal: it counts as the largest number
/// if its average overflows, as in the reference, and as 0 replicas otherwise.
pub(super) fn negative_value_effect(inputs: &Inputs, metric: &MetricReport) -> Option<String> {
    let value = negative_value(inputs, metric)?;
    let has_overflowed = metric.explanation.usage? > MilliValue::ZERO;
    let effect = if has_overflowed { "the largest number" } else { "0 replicas" };
    Some(format!("{value} counts as {effect}, as in kube-controller-manager"))
}

/// Advice about a metric with a negative value.
pub(super) fn about_negative_value(inputs: &Inputs, metric: &MetricReport) -> Option<String> {
    let value = negative_value(inputs, metric)?;
    Some(format!(
        "The value of {} is {value}. A load can't be negative: correct its source, or in \
         Prometheus clamp_min(QUERY, 0).",
        metric.name
    ))
}

/// A clause about a metric whose newest sample is old. It has the time of the sample, which stays
/// the same in later reports.
pub(super) fn stale_metric(inputs: &Inputs, metric: &MetricReport) -> Option<String> {
    let newest = stale_sample_time(inputs, metric)?.strftime("%H:%M:%SZ");
    Some(format!("the newest sample of {} is old ({newest})", metric.name))
}

/// The time of a metric's newest sample, if it is stale.
fn stale_sample_time(inputs: &Inputs, metric: &MetricReport) -> Option<Timestamp> {
    let (newest, _) = metric.sample_times()?;
    let window = metric.pod_list.iter().filter_map(|pod| pod.window_seconds).max().unwrap_or(0);
    let limit = SignedDuration::from_secs(window).saturating_add(STALE_AFTER);
    (inputs.now_by_samples().duration_since(newest) > limit).then_some(newest)
}

/// The container of a metric, if no pod has it.
fn absent_container(inputs: &Inputs, index: usize) -> Option<&str> {
    let source = inputs.hpa.spec.metrics.get(index)?.container_resource.as_ref()?;
    let name = source.container.as_str();
    let mut containers = inputs.selected.pods.iter().flat_map(|pod| &pod.resources.spec.containers);
    (!containers.any(|container| *container.name == *name)).then_some(name)
}
