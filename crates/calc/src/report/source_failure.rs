//! Advice about metrics that rules or collectors can't read.

use super::{
    error_texts::{
        AUTOSCALERS_NOT_SYNCED, INFINITE, INVALID_DOCUMENT, NO_AGGREGATOR, NO_RESULT, NOT_A_NUMBER,
        NOT_DISCOVERED, NOT_OF_PROMETHEUS, OF_OTHER_RESOURCES, PROMETHEUS, QUERY_SYNTAX,
        RANGE_VECTOR, REFUSED_ADDRESS, RESOURCES_NOT_READ, RESTRICTED_TO_NAMESPACE, SCALAR_IS_NAN,
        UNKNOWN_STATUS, has_no_number, is_5xx, is_api_missing, is_in_process, is_late,
        is_not_ready, is_over_limit, is_refused_access, is_refused_query, is_rejected_request,
        is_server_error_of_prometheus, is_unavailable, is_unknown_path, is_unsent_query,
        lacked_series,
    },
    inputs::Inputs,
    metrics::MetricReport,
    phrases::{metrics_api, namespace},
    target_pods::running_pod,
};
use crate::{
    api::{
        CrossVersionObjectReference, HorizontalPodAutoscaler, MetricSourceType, MetricSpec, plural,
    },
    shell::{quote, quote_always, quote_operand},
};

/// PromQL for 0 without labels.
const VECTOR_0: &str = "vector(0)";

/// Part of an error that shows a query.
pub(super) const THE_QUERY: &str = "the query ";

/// Part of the error of a collector that has no value. Its name, or a verb, follows.
const COLLECTOR: &str = "collector ";

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
        let cause = if is_late(error) {
            ADVICE_ABOUT_LATENESS
        } else {
            "The request to Prometheus fails here, as the message says. Check --prometheus-url \
             URL, or servers in the rules file."
        };
        format!(
            "{cause} If only the cluster reaches that server: kubectl port-forward --namespace \
             NAMESPACE service/NAME PORT, and here --prometheus-url http://localhost:PORT."
        )
    } else if error.contains(RESOURCES_NOT_READ) {
        ADVICE_ABOUT_DISCOVERY.to_owned()
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

/// Advice about a server at the URL of Prometheus that answers with an error: for example, it isn't
/// ready, refuses the credentials or isn't Prometheus. `None` for other errors. `url` is the
/// setting with the URL.
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
    } else if is_over_limit(error) {
        "The server answers, but limits requests (429). Raise its limits, or send fewer requests: \
         with a longer --metrics-relist-interval, fewer rules, or --share-queries=auto (the \
         default)."
            .to_owned()
    } else if is_server_error_of_prometheus(error) {
        "Prometheus answers with an error of its own, as the message says. Read its log.".to_owned()
    } else if is_unavailable(error) {
        "The server isn't available (503). Prometheus answers with this status while it reads its \
         write-ahead log after a start, and a proxy before it if it can't reach Prometheus or is \
         overloaded. If this persists, read the logs of both."
            .to_owned()
    } else if is_5xx(error) {
        "Prometheus, or a proxy before it, answers with an error of its own, as the message says. \
         Read the logs of both."
            .to_owned()
    } else if error.contains(UNKNOWN_STATUS) || error.contains(NOT_OF_PROMETHEUS) {
        format!(
            "The server answers, but not as Prometheus does, as the message says. Check {url} with \
             its path, or servers in the rules file. If they are right, read the log of that \
             server, or of the proxy before it, which may ask for a login."
        )
    } else {
        return None;
    })
}

/// Advice about Prometheus that doesn't respond in time.
pub(super) const ADVICE_ABOUT_LATENESS: &str = "Prometheus doesn't respond in time, as the message \
     says: it is slow or overloaded, or the packets are dropped on the way. Measure the query in \
     its user interface, and make a slow one a recording rule, or raise \
     --prometheus-query-timeout.";

/// Advice about the discovery of the API server, which rules need, if it can't be read.
pub(super) const ADVICE_ABOUT_DISCOVERY: &str = "The rules (--metrics-config) need the discovery \
     of the API server, which can't be read, as the message says. Check it: kubectl get --raw \
     /api, and kubectl get --raw /apis";

/// Advice about a query that Prometheus, or the server of a collector, refuses.
pub(super) fn about_refused_query(name: &str) -> String {
    format!(
        "The server answers, but refuses the query of {name}, as the message says. Correct the \
         query in its rule, or in its annotations. For rules: hpa rules check FILE \
         --prometheus-url URL"
    )
}

/// Advice about a metric that is missing in the rules, the collectors and the metrics API, as
/// `error` says.
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
        if lacked_series(error) { format!(" {ADVICE_ABOUT_RELIST}") } else { String::new() };
    let command = rules_explain_command(&inputs.hpa, index, None);
    if error.contains(OF_OTHER_RESOURCES) {
        return format!(
            "The rule in the message has {name}, but for other resources: {command} says for \
             which. Correct the metric in spec.metrics[{index}], or add an override for the \
             resource to the rule.{about_api}"
        );
    }
    format!(
        "Check the name in spec.metrics[{index}], and the rule or the collector of the controller \
         that is to have {name}: {command} says which rules have it.{about_list}{about_api}"
    )
}

/// Advice about series that were missing when the controller last listed them.
pub(super) const ADVICE_ABOUT_RELIST: &str = "The controller lists the series every \
     --metrics-relist-interval (10m by default) and at its start, so it reads new ones after the \
     next list.";

/// The command that says which rules have the metric at an index of `spec.metrics`, and why its
/// query has no value. It has placeholders for the rules file and the server. `pod` is the pod to
/// query. Object and External metrics ignore it.
pub fn rules_explain_command(
    hpa: &HorizontalPodAutoscaler,
    index: usize,
    pod: Option<&str>,
) -> String {
    let Some(metric) = hpa.spec.metrics.get(index) else { return "hpa rules explain".to_owned() };
    let name = metric.metric_name();
    let pod = pod.map(|pod| format!(" --name {}", quote(pod))).unwrap_or_default();
    let of_pods = format!("{}{pod}", quote(&format!("pods/{name}")));
    let object = metric.object.as_ref().map(|source| &source.described_object);
    let (argument, operand) = match metric.source_type {
        MetricSourceType::External if name.starts_with('-') => {
            ("external".to_owned(), format!(" -- {}", quote_operand(name)))
        }
        MetricSourceType::External => (format!("external {}", quote(name)), String::new()),
        MetricSourceType::Object => {
            let kind = object.map_or("", |object| &object.kind);
            let object_name = if object.is_some_and(CrossVersionObjectReference::is_namespace) {
                namespace(hpa)
            } else {
                quote(object.map_or("", |object| &object.name))
            };
            let metric = format!("{}/{name}", plural(kind));
            (format!("custom {} --name {object_name}", quote(&metric)), String::new())
        }
        MetricSourceType::Pods => (format!("custom {of_pods}"), String::new()),
        _ => (format!("resource {of_pods}"), String::new()),
    };
    let selector = metric.series_selector().filter(|selector| !selector.is_empty());
    let selector = selector.map(|one| format!(" --selector {}", quote_always(&one.to_string())));
    let selector = selector.unwrap_or_default();
    // Metrics of these kinds of the core group are read without a namespace.
    let is_root_scoped = object.is_some_and(|object| {
        object.group().is_empty()
            && matches!(&*object.kind, "Namespace" | "Node" | "PersistentVolume")
    });
    let namespace =
        if is_root_scoped { String::new() } else { format!(" --namespace {}", namespace(hpa)) };
    format!(
        "hpa rules explain {argument}{namespace}{selector} --config FILE --prometheus-url \
         URL{operand}"
    )
}

/// Advice about a rule or collector whose query has a result that can't be used. `None` for other
/// errors. `name` is that of the metric, and `default` is PromQL for 0.
fn about_unusable_result(name: &str, error: &str, default: &str) -> Option<String> {
    Some(if error.contains(NOT_A_NUMBER) {
        format!(
            "The query in the message returns NaN for {name}: a sample of its series is NaN, or it \
             divides 0 by 0, or takes a quantile of a histogram that counted nothing in its \
             window. A longer window helps against the last two. Or, if {name} is 0 then: (QUERY) \
             >= 0 or {default}."
        )
    } else if error.contains(SCALAR_IS_NAN) {
        format!(
            "The query in the message returns a scalar that is NaN for {name}: scalar() of no \
             series, or of several, is NaN, as is 0 divided by 0. Check the names and labels."
        )
    } else if error.contains(INFINITE) {
        format!(
            "The query in the message returns an infinite {name}: it divides by 0, or a sample of \
             its series is infinite. Correct the divisor."
        )
    } else if error.contains(RANGE_VECTOR) {
        format!(
            "The query in the message returns a range vector, which has no current value of \
             {name}: remove the range, such as [5m], or use a function of it, such as rate() for a \
             counter and max_over_time() for a gauge."
        )
    } else {
        return None;
    })
}

/// Advice about a collector's query whose result has no value. `None` for other errors.
pub fn about_result_of_collector(name: &str, error: &str) -> Option<String> {
    if !error.contains(NO_RESULT) {
        return None;
    }
    let about_namespace = || {
        error.contains(RESTRICTED_TO_NAMESPACE).then(|| {
            format!(
                "The query of {name} has no result in the namespace to which the controller \
                 restricts it (--collector-namespace-label), as the message says: check the \
                 namespace and the labels that it selects."
            )
        })
    };
    let advice = about_unusable_result(name, error, VECTOR_0).or_else(about_namespace);
    Some(advice.unwrap_or_else(|| {
        format!(
            "The query of {name} has no result now: check its names and labels, and that each \
             range, such as [5m], has at least two samples. Add `or {VECTOR_0}` only if the query \
             has a result under load, and none means 0."
        )
    }))
}

/// The problem with a collector's settings, as a clause without a full stop, if the server answered
/// without a value or if the query was not sent. `None` for other errors.
pub fn problem_of_collector_settings(error: &str) -> Option<&'static str> {
    Some(if error.contains(QUERY_SYNTAX) {
        "the query has a syntax error, as the message says, and is not sent to the server"
    } else if is_unsent_query(error) {
        "the query can't be restricted to the namespace (--collector-namespace-label), as the \
         message says, and is not sent to the server"
    } else if is_unknown_path(error) {
        "the server answers that it doesn't have the path of the request"
    } else if is_refused_access(error) {
        "the server answers, but refuses the credentials of the request, which may be those of the \
         operator"
    } else if is_rejected_request(error) {
        "the server answers, but rejects the request, as the message says: the address, the path \
         or the query is wrong"
    } else if error.contains(NO_AGGREGATOR) {
        "the path selects several values, and the setting aggregator (avg, min, max or sum), which \
         combines them, is missing"
    } else if error.contains(INVALID_DOCUMENT) {
        "the server answers, but not with JSON that can be read: the address and the path may be \
         those of a page or of metrics as text"
    } else if has_no_number(error) {
        "the server answers, but its response has no number at the path, as the message says"
    } else {
        return None;
    })
}

/// Advice about a metric that a rule or a collector has, but without a value. `error` says why.
pub(super) fn about_no_value(inputs: &Inputs, metric: &MetricReport, error: &str) -> String {
    let MetricReport { name, index, .. } = metric;
    let default = match metric.source_type {
        MetricSourceType::External => VECTOR_0,
        _ => "0 * OTHER, with OTHER a query that always has a number for these objects",
    };
    if let Some(advice) = about_unusable_result(name, error, default) {
        return advice;
    }
    if error.contains(THE_QUERY) {
        return format!(
            "The query in the message, that of {name}, has no result. Check the names and \
             selectors in spec.metrics[{index}]: {} says which series there are.",
            rules_explain_command(&inputs.hpa, *index, running_pod(inputs))
        );
    }
    if error.contains(COLLECTOR) {
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
