//! Advice about metrics of collectors, which the controller reads in its process.

use std::collections::BTreeMap;

use hpa_calc::{
    HorizontalPodAutoscaler, Inputs, ReadError,
    api::MetricSpec,
    go_text::truncate,
    report::{
        about_result_of_collector, collector_events_command, error_texts,
        problem_of_collector_settings, reported_absence,
    },
    shell::quote,
};
use hpa_collectors::{CollectorSource, Environment, Finding, FindingSubject, Server, source_of};

use crate::{
    args::CollectorArguments,
    collectors::{InProcessSources, environment_of_unknown_flags, lacks_collectors},
    lint::{mistake_of_annotation, unknown_collector_type},
};

/// The maximum number of characters of a path in advice.
const MAX_PATH_CHARS: usize = 200;
/// The name of the collector of scaling schedules.
const SCHEDULE_COLLECTOR: &str = "schedule";

/// Adds advice for metrics of collectors that can't be read, or whose query has a likely mistake,
/// unless they already have advice.
pub(super) fn add(
    sources: &InProcessSources,
    inputs: &Inputs,
    advice: &mut BTreeMap<usize, String>,
) {
    let unknown = (!sources.has_collectors).then(|| environment_of_unknown_flags(&inputs.hpa));
    let environment = unknown.as_ref().unwrap_or(&sources.settings.environment);
    for (index, _) in inputs.plan().queries() {
        let Some(metric) = inputs.hpa.spec.metrics.get(index) else { continue };
        let text = match inputs.readings.get(index) {
            _ if advice.contains_key(&index) => None,
            Some(Ok(_)) => mistake_advice(&inputs.hpa, metric, environment),
            Some(Err(error)) => failure_advice(sources, inputs, index, metric, environment, error),
            None => None,
        };
        advice.extend(text.map(|text| (index, text)));
    }
}

/// Advice about a metric that has a value, but whose query in an annotation has a likely mistake.
fn mistake_advice(
    hpa: &HorizontalPodAutoscaler,
    metric: &MetricSpec,
    environment: &Environment,
) -> Option<String> {
    let mistake = mistake_of_annotation(hpa, metric, environment)?;
    Some(format!("Check {}: {mistake}.", metric.metric_name()))
}

/// Advice about a metric of a collector that can't be read.
fn failure_advice(
    sources: &InProcessSources,
    inputs: &Inputs,
    index: usize,
    metric: &MetricSpec,
    environment: &Environment,
    error: &ReadError,
) -> Option<String> {
    match source_of(&inputs.hpa, metric, environment)? {
        Ok(source) if source.collector == SCHEDULE_COLLECTOR => {
            Some(schedule_advice(sources, inputs, index, metric))
        }
        Ok(source) if !sources.has_collectors => {
            let is_for_built_in = inputs.settings.is_for_built_in();
            let are_off = lacks_collectors(&inputs.hpa, index);
            advice_without_collectors(&source, error, is_for_built_in, are_off)
        }
        Ok(source) => {
            let name = metric.metric_name();
            Some(source_advice(sources, &inputs.hpa, name, &source, error))
        }
        Err(finding) => {
            let has_annotations = !matches!(finding.subject, FindingSubject::Metric(..));
            // The label `type` of an external metric names its collector. Another metric without
            // annotations may be that of a metrics API.
            let is_named_by_label =
                metric.external.is_some() && error_texts::is_metric_missing(message_of(error));
            let is_of_collector = sources.has_collectors || has_annotations || is_named_by_label;
            let cause = cause(&inputs.hpa, index, &finding);
            is_of_collector.then(|| invalid_settings_advice(sources, inputs, &cause))
        }
    }
}

fn schedule_advice(
    sources: &InProcessSources,
    inputs: &Inputs,
    index: usize,
    metric: &MetricSpec,
) -> String {
    let (name, object) = (metric.metric_name(), metric.object.as_ref());
    let object = object.map(|object| &object.described_object);
    let (kind, schedule) = object.map_or(("", ""), |object| (&*object.kind, &*object.name));
    let (flag, advice) = if sources.has_schedules {
        (" (--scaling-schedule)", "")
    } else if reported_absence(&inputs.hpa, index).is_some() {
        ("", " The controller reads no schedules: start hpa run with --scaling-schedule.")
    } else {
        ("", " If the controller runs with --scaling-schedule, use its flags here.")
    };
    let namespace = &inputs.hpa.metadata.namespace;
    let namespace = if kind.starts_with("Cluster") {
        String::new()
    } else {
        format!(" -n {}", quote(namespace))
    };
    format!(
        "{name} is the value of {kind} {schedule}{flag}.{advice} Check that object: kubectl get \
         {kind} {}{namespace} -o yaml",
        quote(schedule)
    )
}

fn source_advice(
    sources: &InProcessSources,
    hpa: &HorizontalPodAutoscaler,
    name: &str,
    source: &CollectorSource,
    error: &ReadError,
) -> String {
    let CollectorSource { collector, subject, .. } = source;
    let displayed_collector = collector_name(source);
    let failure = message_of(error);
    if !sources.settings.collectors.contains(collector) {
        return format!(
            "{name} needs the collector {displayed_collector} ({subject}), which is off: add \
             {}, as the controller needs it too.",
            sources.missing_flags(collector)
        );
    }
    if failure.contains(error_texts::AUTOSCALERS_NOT_SYNCED) {
        return format!(
            "{name} is read by the collector {displayed_collector} ({subject}), which has to \
             list the autoscalers and pods first. The message says why it could not."
        );
    }
    let advice = unknown_path_advice(hpa, source, failure)
        .or_else(|| answer_advice(name, source, failure))
        .or_else(|| advice_without_failed_request(name, source, failure));
    advice.unwrap_or_else(|| {
        let (place, check) = place_and_check(source);
        format!(
            "The collector {displayed_collector} reads {name} from {place}. Check {check}, and the \
             settings: {subject}."
        )
    })
}

fn message_of(error: &ReadError) -> &str {
    match error {
        ReadError::Fetch { message, .. } => message,
        _ => "",
    }
}

/// Advice if no request to a server failed: the address is refused, or the cause is elsewhere, such
/// as an object of the cluster that doesn't exist.
fn advice_without_failed_request(
    name: &str,
    source: &CollectorSource,
    failure: &str,
) -> Option<String> {
    let CollectorSource { subject, .. } = source;
    let collector = collector_name(source);
    let refused = error_texts::REFUSED_ADDRESS;
    if failure.contains(refused) {
        return Some(format!(
            "The collector {collector} may not read the address in the message: correct the \
             {subject}. If it should read that address, add {refused} with it, as the controller \
             needs it too."
        ));
    }
    let is_elsewhere = !failure.is_empty() && !error_texts::is_of_server(failure);
    is_elsewhere.then(|| {
        format!(
            "The collector {collector} has no value of {name}. Correct the cause in the message, \
             or the {subject}."
        )
    })
}

/// The servers that a collector reads, and what to check if this machine got no value from them.
/// The controller may reach servers of the cluster that this machine doesn't.
fn place_and_check(source: &CollectorSource) -> (String, &'static str) {
    match source.servers.first() {
        Some(Server::Operator(_)) => (
            format!("the server of {}", CollectorArguments::flags_that_enable(source.collector)),
            "that this server runs and that this machine reaches it (from outside the cluster: \
             kubectl port-forward)",
        ),
        Some(Server::Url(_)) => (
            "a URL of the autoscaler, from which this machine got no value".to_owned(),
            "that this server runs and answers from the controller's network, or from here with \
             kubectl port-forward",
        ),
        Some(Server::Pods) | None => (
            "the target's pods, from which this machine got no value".to_owned(),
            "that the pods are ready and answer from the controller's network, or from here with \
             kubectl port-forward",
        ),
    }
}

/// Advice if no flag turns collectors on. `are_off` is whether those of the controller are off too,
/// by [`lacks_collectors`].
///
/// A metric with annotations always has advice, unless its metrics API is unavailable. One without
/// annotations has advice in two cases: no metrics API has it or a value of it, or the API answers
/// with an error, because an adapter may read it by a collector. Otherwise, it is probably a metric
/// of that API.
fn advice_without_collectors(
    source: &CollectorSource,
    error: &ReadError,
    is_for_built_in: bool,
    are_off: bool,
) -> Option<String> {
    let CollectorSource { collector, subject, .. } = source;
    let (name, failure) = (collector_name(source), message_of(error));
    // The metrics API is the cause, and has advice of its own.
    if failure.contains(error_texts::API_UNAVAILABLE) {
        return None;
    }
    let has_server_error = error_texts::is_server_error(failure);
    let owner = if !matches!(subject, FindingSubject::Metric(..)) {
        format!("The {subject} are settings of the collector {name}.")
    } else if has_server_error
        || error.is_empty_response()
        || error_texts::is_metric_missing(failure)
    {
        format!("The {subject} is one that the collector {name} reads.")
    } else {
        return None;
    };
    if is_for_built_in {
        return Some(format!(
            "{owner} kube-controller-manager has no collectors, so an adapter has to serve the \
             metric: kubectl get apiservices | grep metrics.k8s.io names its service, whose log \
             may have the cause."
        ));
    }
    let flags = CollectorArguments::describe_further_flags(collector);
    if are_off {
        return Some(format!(
            "{owner} The controller has no collectors, as its message shows: start hpa run with \
             --collectors{flags} (in the chart, collectors.enabled)."
        ));
    }
    // An adapter with collectors doesn't pass on the causes.
    let log = if has_server_error {
        " If an adapter does, the log of its service has the cause: kubectl get apiservices | grep \
         metrics.k8s.io"
    } else {
        ""
    };
    Some(format!(
        "{owner} If the controller runs with --collectors, use its flags here{flags}.{log}"
    ))
}

/// Advice if the server doesn't have the path of the request. Names the path if a setting has the
/// whole path.
fn unknown_path_advice(
    hpa: &HorizontalPodAutoscaler,
    source: &CollectorSource,
    failure: &str,
) -> Option<String> {
    if !error_texts::is_unknown_path(failure) {
        return None;
    }
    let CollectorSource { collector, subject, servers, .. } = source;
    let key = match (servers.first()?, *collector) {
        (Server::Pods, _) => "path",
        (Server::Url(_), "prometheus") => "prometheus-server",
        (Server::Url(_), "influxdb") => "address",
        (Server::Url(_), _) => "endpoint",
        (Server::Operator(_), _) => {
            let flags = CollectorArguments::flags_that_enable(collector);
            return Some(format!(
                "The server answers with 404: check the path in the URL of {flags}, and the \
                 settings: {subject}."
            ));
        }
    };
    let annotation = match subject {
        FindingSubject::MetricAnnotations { prefix, .. } => Some(format!("{prefix}{key}")),
        _ => None,
    };
    let value = annotation.as_ref().and_then(|name| hpa.metadata.annotations.get(name));
    let setting = match (annotation, value) {
        (Some(annotation), Some(_)) => format!("annotation {annotation}"),
        _ => format!("setting {key} of the {subject}"),
    };
    let has_whole_path = matches!(key, "path" | "endpoint");
    let path = match value.filter(|_| has_whole_path) {
        Some(value) => truncate(path_of(value).to_owned(), MAX_PATH_CHARS),
        None => "the path".to_owned(),
    };
    Some(format!("The server answers with 404: check {path} in the {setting}."))
}

/// The path of a URL, or of a setting that is a path. Without the query, which may have a token.
fn path_of(value: &str) -> &str {
    let value = value.split(['?', '#']).next().unwrap_or_default();
    let Some((_, rest)) = value.split_once("://") else { return value };
    rest.find('/').and_then(|start| rest.get(start..)).unwrap_or("/")
}

/// Advice if a server answered without a value, or if nothing was sent to it.
fn answer_advice(name: &str, source: &CollectorSource, failure: &str) -> Option<String> {
    let CollectorSource { subject, .. } = source;
    if error_texts::is_refused_query(failure) {
        return Some(format!(
            "The server answers, but refuses the query of {name}, as the message says: correct it \
             in the {subject}."
        ));
    }
    if error_texts::is_failing_server(failure) {
        let server = match source.servers.first() {
            Some(Server::Pods) => "A pod of the target",
            _ => "The server",
        };
        return Some(format!(
            "{server} answers with an error of its own, as the message says: its log may have the \
             cause. Check the {subject} too."
        ));
    }
    if let Some(problem) = problem_of_collector_settings(failure) {
        return Some(format!("Check the {subject} for {name}: {problem}."));
    }
    let advice = about_result_of_collector(name, failure)?;
    Some(format!("{advice} The query is in the {subject}."))
}

/// The collector's name in the annotations, in which `json-path` is the collector of pods and that
/// of URLs.
fn collector_name(source: &CollectorSource) -> &str {
    match &source.subject {
        FindingSubject::MetricAnnotations { prefix, .. } => {
            let name = prefix.trim_end_matches('/').rsplit_once('.');
            name.map_or(source.collector, |(_, name)| name)
        }
        _ => source.collector,
    }
}

/// The settings that a finding is about, and its message. If the label `type` of the metric names
/// no collector, the label is the cause instead of the annotations.
fn cause(hpa: &HorizontalPodAutoscaler, index: usize, finding: &Finding) -> String {
    if let Some((field, message)) =
        unknown_collector_type(hpa, index).filter(|_| finding.has_no_collector)
    {
        return format!("field {field}: {message}");
    }
    let Finding { subject, message, .. } = finding;
    let without_annotations = match subject {
        FindingSubject::Metric(..) => ", which has no annotations metric-config.*",
        _ => "",
    };
    format!("{subject}{without_annotations}: {message}")
}

/// Advice about settings that no collector accepts. `cause` is a result of [`cause`].
fn invalid_settings_advice(sources: &InProcessSources, inputs: &Inputs, cause: &str) -> String {
    let reporter = if sources.has_collectors {
        "the controller"
    } else if inputs.settings.is_for_built_in() {
        "an adapter with collectors"
    } else {
        "the controller, if it has --collectors,"
    };
    format!(
        "Correct the {cause}. No collector reads the metric until then, and {reporter} reports it \
         as an event: {}",
        collector_events_command(&inputs.hpa)
    )
}

#[cfg(test)]
mod tests;
