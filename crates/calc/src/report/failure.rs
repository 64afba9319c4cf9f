//! Advice about metrics that fail, or whose samples are old.

use jiff::SignedDuration;

use super::{
    error_texts::{
        ALSO_NOT_BY_API, FORBIDDEN, NO_VALUE, NOT_DISCOVERED, PROMETHEUS, REFUSED_ADDRESS,
        SERVER_ERROR, UNKNOWN_METRIC, is_api_missing, is_in_process,
    },
    inputs::Inputs,
    metrics::MetricReport,
    phrases::{age, names, namespace},
};
use crate::{
    api::{MetricSourceType, MetricSpec, MetricTargetType},
    explain::MetricFailure,
    pods::PodClass,
    settings::UtilizationOf,
    shell::{quote, quote_always},
};

/// A sample is stale if it is older than its measurement window plus this duration.
const STALE_AFTER: SignedDuration = SignedDuration::from_mins(2);

/// Parts of the API server's errors if a metrics API answered with status 500.
const ERRORS_OF_ADAPTERS: [&str; 2] = [SERVER_ERROR, "Internal error occurred"];

/// Advice about a metric that has a value in the controller's status, but could not be read here.
pub(super) fn about_unread(inputs: &Inputs, metric: &MetricReport) -> String {
    let name = &metric.name;
    let error = metric.explanation.error.as_deref().unwrap_or_default();
    if error.contains(FORBIDDEN) {
        return format!(
            "You may not read {name}, as the message says. The controller has its own \
             permissions, and its last status has a value."
        );
    }
    if is_in_process(error) {
        return format!(
            "The controller had a value of {name} in its last status: it may have other rules and \
             collectors than the flags here, or its source has failed since."
        );
    }
    let or_debug_api =
        if inputs.history.is_some() { "" } else { ", or its debug API (hpa run --debug-port)" };
    format!(
        "The controller had a value of {name} in its last status. If it reads a source of its own, \
         use its flags here (--metrics-config, --prometheus-url, --collectors, \
         --scaling-schedule){or_debug_api}. If it reads the API of the message, that has failed \
         since."
    )
}

/// Advice about a metric that neither the rules nor the collectors have, nor a metrics API. `error`
/// is the text that says so.
pub(super) fn about_absence(
    inputs: &Inputs,
    index: usize,
    metric: &MetricReport,
    error: &str,
) -> String {
    let name = inputs.hpa.spec.metrics.get(index).map_or("", MetricSpec::metric_name);
    let argument = match metric.source_type {
        MetricSourceType::External => format!("external {}", quote(name)),
        MetricSourceType::Object => format!("custom {}", quote(&format!("RESOURCE/{name}"))),
        _ => format!("custom {}", quote(&format!("pods/{name}"))),
    };
    let (api, _) = api_and_server(&metric.source_type);
    let about_api = if is_api_missing(error) {
        String::new()
    } else {
        format!(" If {api} is to have it: kubectl get apiservices | grep {api} names its service.")
    };
    format!(
        "Check the name in spec.metrics[{index}], and the rule or the collector of the controller \
         that is to have {name}: hpa rules explain {argument} --namespace {} --config FILE \
         --prometheus-url URL says which rules have it.{about_api}",
        namespace(&inputs.hpa)
    )
}

/// Advice about a metric that a rule or a collector has, but without a value.
pub(super) fn about_no_value(index: usize, name: &str) -> String {
    format!(
        "A rule or a collector has {name}, but returned no value. Check the names and selectors in \
         spec.metrics[{index}], and whether Prometheus has such series."
    )
}

/// Advice about a collector that may not read the address in the message.
pub(super) fn about_refused_address() -> String {
    format!(
        "The collector may not read the address in the message. If it is to read it, run the \
         controller with {REFUSED_ADDRESS} and that address."
    )
}

pub(super) fn about_failure(
    inputs: &Inputs,
    index: usize,
    metric: &MetricReport,
    failure: MetricFailure,
) -> String {
    let namespace = namespace(&inputs.hpa);
    let name = &metric.name;
    let selector = quote_always(inputs.scale.as_ref().map_or("", |scale| &scale.selector));
    let is_by_pod =
        !matches!(metric.source_type, MetricSourceType::Object | MetricSourceType::External);
    let failure = match failure {
        // Without pods, the response about pods is empty.
        MetricFailure::Empty if is_by_pod && inputs.selected.pods.is_empty() => {
            MetricFailure::NoPods
        }
        // A pod without the container has no sample of it.
        MetricFailure::NoSamples if no_pod_has_container(inputs, index) => {
            MetricFailure::NoContainer
        }
        failure => failure,
    };
    match failure {
        MetricFailure::InvalidSpec => about_invalid_spec(inputs, index, name),
        MetricFailure::Fetch => about_failed_request(inputs, index, metric),
        MetricFailure::Empty if is_resource(&metric.source_type) => {
            let (api, server) = api_and_server(&metric.source_type);
            format!(
                "{api} works but has no value of {name} for the target's pods. kubectl get \
                 apiservices | grep {api} names the service behind it, such as {server}: see its \
                 log. With --metrics-config, see the rules file and Prometheus."
            )
        }
        MetricFailure::Empty => {
            let (api, server) = api_and_server(&metric.source_type);
            format!(
                "{api} works but has no value of {name}. Check the names and selectors in \
                 spec.metrics[{index}], and that {} has the metric{}.",
                server.replacen("An adapter", "an adapter", 1),
                if is_by_pod { " for the target's pods" } else { "" },
            )
        }
        MetricFailure::NotRead => {
            format!("Without a value of {name}, nothing is scaled down: add its value.")
        }
        MetricFailure::TooOld => {
            let (_, server) = api_and_server(&metric.source_type);
            format!(
                "Check why the samples of {name} are old: {} may have stopped measuring. Or raise \
                 max-sample-age.",
                server.replacen("An adapter", "the adapter", 1)
            )
        }
        MetricFailure::NoPods => format!(
            "No pod matches the target's selector. Check that the target's pods exist and carry \
             its labels: kubectl get pods --selector {selector} --namespace {namespace}"
        ),
        MetricFailure::NoSamples => {
            let pods = metric.pod_list.iter().filter(|pod| pod.class != PodClass::Ready);
            let pods: Vec<_> = pods.map(|pod| pod.name.as_str()).collect();
            let step = if pods.iter().all(|pod| is_starting(inputs, pod)) {
                "They have started recently. Wait until they are ready and measured."
            } else {
                "Check why the pods are not ready, or wait until they have been measured."
            };
            let pods = names(pods.into_iter());
            format!("No pod has a sample of {name} that counts: {pods}. {step}")
        }
        MetricFailure::MissingRequest => {
            let without = metric.pod_list.iter().filter(|pod| pod.request.is_none());
            let utilization_of = inputs.settings.metric(index).utilization_of;
            let (plural, singular) = match utilization_of {
                UtilizationOf::Requests => ("requests", "request"),
                UtilizationOf::Limits => ("limits", "limit"),
            };
            format!(
                "A utilization is a percentage of {plural}. Set the {singular} in every container \
                 of every pod that the selector matches (missing in {}), or use a target of type \
                 AverageValue, or a ContainerResource metric.",
                names(without.map(|pod| pod.name.as_str()))
            )
        }
        MetricFailure::NoContainer => format!(
            "Correct the name of the container in spec.metrics[{index}], or select only pods that \
             have it: kubectl get pods --selector {selector} --namespace {namespace}"
        ),
    }
}

/// Advice about a metric whose spec the API server accepts, but no controller.
fn about_invalid_spec(inputs: &Inputs, index: usize, name: &str) -> String {
    let metric = inputs.hpa.spec.metrics.get(index);
    let object = metric.and_then(|metric| metric.object.as_ref());
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
fn about_failed_request(inputs: &Inputs, index: usize, metric: &MetricReport) -> String {
    let (api, server) = api_and_server(&metric.source_type);
    let name = &metric.name;
    let error = metric.explanation.error.as_deref().unwrap_or_default();
    if error.contains(ALSO_NOT_BY_API) {
        return about_absence(inputs, index, metric, error);
    }
    if error.contains(FORBIDDEN) {
        return format!(
            "You may not read {name} from {api}, as the message says. The controller has its own \
             permissions."
        );
    }
    if error.contains(UNKNOWN_METRIC) {
        return format!(
            "{api} has no metric {name}. Check the names and selectors in spec.metrics[{index}]. \
             {server} serves metrics by its configuration: check that this one is in it."
        );
    }
    if error.contains(PROMETHEUS) {
        return "Check that Prometheus runs, and that the URL in the message is right \
                (--prometheus-url, or servers in the rules file)."
            .to_owned();
    }
    if error.contains(NOT_DISCOVERED) {
        return "The series of the rules (--metrics-config) could not be read. Check that \
                Prometheus runs, and that its URL is right (--prometheus-url): hpa rules check \
                FILE --prometheus-url URL"
            .to_owned();
    }
    if error.starts_with(NO_VALUE) {
        return about_no_value(index, name);
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
    if ERRORS_OF_ADAPTERS.iter().any(|text| error.contains(text)) {
        return format!(
            "{api} answers with an error: see the log of the service behind it, which kubectl get \
             apiservices | grep {api} names. If the controller reads another source, see that."
        );
    }
    if is_api_missing(error) {
        return about_missing_api(&metric.source_type);
    }
    format!(
        "Check that {api} works: kubectl get apiservices | grep {api} names the service behind it."
    )
}

/// Advice if no server is registered for the API of metrics of this type.
pub(super) fn about_missing_api(source_type: &MetricSourceType) -> String {
    let (api, _) = api_and_server(source_type);
    let install = if is_resource(source_type) {
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
/// measuring.
pub(super) fn about_age(inputs: &Inputs, metric: &MetricReport) -> Option<String> {
    let (newest, _) = metric.sample_times()?;
    let window = metric.pod_list.iter().filter_map(|pod| pod.window_seconds).max().unwrap_or(0);
    let limit = SignedDuration::from_secs(window).saturating_add(STALE_AFTER);
    let is_old = inputs.now.duration_since(newest) > limit;
    let (_, server) = api_and_server(&metric.source_type);
    is_old.then(|| {
        format!(
            "The newest sample of {} is {} old, so the decision follows an old load. Check {}.",
            metric.name,
            age(newest, inputs.now),
            server.replacen("An adapter", "the adapter", 1)
        )
    })
}

/// Whether a pod is within its CPU initialization period, so that being unready or not measured yet
/// is normal.
pub(super) fn is_starting(inputs: &Inputs, name: &str) -> bool {
    let pod = inputs.selected.pods.iter().find(|pod| pod.name.as_ref() == name);
    pod.and_then(|pod| pod.start_time).is_some_and(|start| {
        inputs.now.duration_since(start) < inputs.settings.cpu_initialization_period
    })
}

fn no_pod_has_container(inputs: &Inputs, index: usize) -> bool {
    let metric = inputs.hpa.spec.metrics.get(index);
    let Some(source) = metric.and_then(|metric| metric.container_resource.as_ref()) else {
        return false;
    };
    let mut containers = inputs.selected.pods.iter().flat_map(|pod| &pod.resources.spec.containers);
    !containers.any(|container| *container.name == source.container)
}

fn is_resource(source_type: &MetricSourceType) -> bool {
    matches!(source_type, MetricSourceType::Resource | MetricSourceType::ContainerResource)
}

/// The API that a metric is read from, and the server that usually serves it.
fn api_and_server(source_type: &MetricSourceType) -> (&'static str, &'static str) {
    match source_type {
        source_type if is_resource(source_type) => ("metrics.k8s.io", "metrics-server"),
        MetricSourceType::External => {
            ("external.metrics.k8s.io", "An adapter such as hpa adapter or KEDA")
        }
        _ => ("custom.metrics.k8s.io", "An adapter such as hpa adapter"),
    }
}
