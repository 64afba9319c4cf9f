//! Advice about metrics that rules or collectors can't read.

use super::{
    error_texts::{
        AUTOSCALERS_NOT_SYNCED, INFINITE, NOT_A_NUMBER, NOT_DISCOVERED, NOT_OF_PROMETHEUS,
        PROMETHEUS, REFUSED_ADDRESS, RESOURCES_NOT_READ, UNKNOWN_STATUS, is_api_missing,
        is_in_process, is_not_ready, is_refused_access, is_refused_query,
        is_server_error_of_prometheus, is_unavailable, lacked_series,
    },
    inputs::Inputs,
    metrics::MetricReport,
    phrases::{metrics_api, namespace},
};
use crate::{
    api::{HorizontalPodAutoscaler, MetricSourceType, MetricSpec, plural},
    shell::{quote, quote_always, quote_operand},
};

/// Part of an error that shows a query.
const THE_QUERY: &str = "the query ";

/// Advice about a metric that a rule could not read here: the request to Prometheus failed, or
/// Prometheus refused the query. `None` for other errors.
pub(super) fn about_rule(name: &str, error: &str) -> Option<String> {
    if !is_in_process(error) {
        // An adapter may also report the error of its own Prometheus.
        return None;
    }
    if let Some(advice) = about_answer(error, "--prometheus-url URL") {
        return Some(advice);
    }
    Some(if error.contains(PROMETHEUS) {
        "The request to Prometheus fails here, as the message says. Check --prometheus-url URL, or \
         servers in the rules file. If only the cluster reaches that server: kubectl port-forward \
         --namespace NAMESPACE service/NAME PORT, and here --prometheus-url http://localhost:PORT."
            .to_owned()
    } else if error.contains(RESOURCES_NOT_READ) {
        about_api_server_resources()
    } else if error.contains(NOT_DISCOVERED) && !error.contains(AUTOSCALERS_NOT_SYNCED) {
        "The series of the rules (--metrics-config) could not be read here. The details: hpa rules \
         check FILE --prometheus-url URL"
            .to_owned()
    } else if is_refused_query(error) {
        about_refused_query(name)
    } else {
        return None;
    })
}

/// Advice about a server at the URL of Prometheus that answers, but refuses the credentials or
/// isn't Prometheus, or isn't ready. `None` for other errors. `url` is the setting with the URL.
pub(super) fn about_answer(error: &str, url: &str) -> Option<String> {
    Some(if is_not_ready(error) && (is_in_process(error) || error.contains(PROMETHEUS)) {
        "Prometheus answers, but isn't ready, as the message says: after a start, it first reads \
         its write-ahead log. If this persists, read its log."
            .to_owned()
    } else if !error.contains(PROMETHEUS) {
        return None;
    } else if is_refused_access(error) {
        "The server answers, but refuses the credentials of the request. Check \
         --prometheus-token-file, --prometheus-username with --prometheus-password-file, and \
         --prometheus-header, or the credentials of the server in the rules file."
            .to_owned()
    } else if is_server_error_of_prometheus(error) {
        "Prometheus answers with an error of its own, as the message says. Read its log.".to_owned()
    } else if is_unavailable(error) {
        "The server isn't available (503): Prometheus answers so while it reads its write-ahead log \
         after a start, and a proxy before it if it doesn't reach Prometheus or is overloaded. If \
         this persists, read the logs of both."
            .to_owned()
    } else if error.contains(UNKNOWN_STATUS) || error.contains(NOT_OF_PROMETHEUS) {
        format!(
            "The server answers, but not as Prometheus does, as the message says. Check {url} with \
             its path, or servers in the rules file. If they are right, read the log of that \
             server, or of the proxy before it."
        )
    } else {
        return None;
    })
}

/// Advice about the discovery of the API server, which rules need, if it can't be read.
pub(super) fn about_api_server_resources() -> String {
    "The rules (--metrics-config) need the discovery of the API server, which can't be read, as the \
     message says. Check it: kubectl get --raw /api, and kubectl get --raw /apis"
        .to_owned()
}

/// Advice about a query that Prometheus, or the server of a collector, refuses.
pub(super) fn about_refused_query(name: &str) -> String {
    format!(
        "The server answers, but refuses the query of {name}, as the message says. Correct the \
         query in its rule, or in its annotations. For rules: hpa rules check FILE \
         --prometheus-url URL"
    )
}

/// Advice about a metric that neither the rules nor the collectors have, nor a metrics API. `error`
/// is the text that says so.
pub(super) fn about_absence(inputs: &Inputs, metric: &MetricReport, error: &str) -> String {
    let index = metric.index;
    let name = inputs.hpa.spec.metrics.get(index).map_or("", MetricSpec::metric_name);
    let api = metrics_api(&metric.source_type);
    let about_api = if is_api_missing(error) {
        String::new()
    } else {
        format!(" If {api} is to have it: kubectl get apiservices | grep {api} names its service.")
    };
    let about_list =
        if lacked_series(error) { format!(" {}", about_relist()) } else { String::new() };
    format!(
        "Check the name in spec.metrics[{index}], and the rule or the collector of the controller \
         that is to have {name}: {} says which rules have it.{about_list}{about_api}",
        rules_explain_command(&inputs.hpa, index, None)
    )
}

/// Advice about series that were missing when the controller last listed them.
pub(super) fn about_relist() -> &'static str {
    "The controller lists the series every --metrics-relist-interval (10m by default) and at its \
     start, so it reads new ones after the next list."
}

/// The command that says which rules have the metric at an index of `spec.metrics`, and why its
/// query has no value, for `pod` unless it is a metric of objects or an external one. With
/// placeholders for the rules file and the server.
pub fn rules_explain_command(
    hpa: &HorizontalPodAutoscaler,
    index: usize,
    pod: Option<&str>,
) -> String {
    let Some(metric) = hpa.spec.metrics.get(index) else { return "hpa rules explain".to_owned() };
    let name = metric.metric_name();
    let pod = pod.map(|pod| format!(" --name {}", quote(pod))).unwrap_or_default();
    let of_pods = format!("{}{pod}", quote(&format!("pods/{name}")));
    let (argument, operand) = match metric.source_type {
        MetricSourceType::External if name.starts_with('-') => {
            ("external".to_owned(), format!(" -- {}", quote_operand(name)))
        }
        MetricSourceType::External => (format!("external {}", quote(name)), String::new()),
        MetricSourceType::Object => {
            let object = metric.object.as_ref().map(|source| &source.described_object);
            let kind = object.map_or("", |object| &object.kind);
            let object = object.map_or("", |object| &object.name);
            let metric = format!("{}/{name}", plural(kind));
            let metric = quote(&metric);
            (format!("custom {metric} --name {}", quote(object)), String::new())
        }
        MetricSourceType::Pods => (format!("custom {of_pods}"), String::new()),
        _ => (format!("resource {of_pods}"), String::new()),
    };
    let selector = metric.series_selector().filter(|selector| !selector.is_empty());
    let selector = selector.map(|one| format!(" --selector {}", quote_always(&one.to_string())));
    let selector = selector.unwrap_or_default();
    format!(
        "hpa rules explain {argument} --namespace {}{selector} --config FILE --prometheus-url \
         URL{operand}",
        namespace(hpa)
    )
}

/// Advice about a metric that a rule or a collector has, but without a value. `error` says why.
pub(super) fn about_no_value(inputs: &Inputs, metric: &MetricReport, error: &str) -> String {
    let MetricReport { name, index, .. } = metric;
    if error.contains(NOT_A_NUMBER) {
        let default = match metric.source_type {
            MetricSourceType::External => "vector(0)",
            _ => "0 * OTHER, with OTHER a query that always has a number for these objects",
        };
        return format!(
            "The query in the message returns NaN for {name}: it divides 0 by 0, or takes a \
             quantile of a histogram that counted nothing in its window. Use a longer window. Or, \
             if {name} is 0 then: (QUERY) >= 0 or {default}."
        );
    }
    if error.contains(INFINITE) {
        return format!(
            "The query in the message returns an infinite {name}: it divides by 0. Correct the \
             divisor."
        );
    }
    if error.contains(THE_QUERY) {
        return format!(
            "The query in the message, that of {name}, has no result. Check the names and selectors \
             in spec.metrics[{index}]: {} says which series there are.",
            rules_explain_command(&inputs.hpa, *index, None)
        );
    }
    if error.contains("collector ") {
        return format!(
            "The collector found no value of {name}. Check the names and selectors in \
             spec.metrics[{index}], its settings in annotations metric-config.*, and its server."
        );
    }
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
