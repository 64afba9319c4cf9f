//! Advice about metrics of collectors, which the controller reads in its process.

use std::collections::BTreeMap;

use hpa_calc::{
    HorizontalPodAutoscaler, Inputs, ReadError, api::MetricSpec, go_text::truncate,
    report::error_texts, shell::quote,
};
use hpa_collectors::{
    CollectorSource, Compat, Finding, Server, collection::CollectionSettings, source_of,
};

use crate::args::{CollectorArguments, SourceArguments};

/// The maximum length of a path in advice, in characters.
const MAX_PATH_LEN: usize = 200;
/// The name of the collector of scaling schedules.
const SCHEDULE_COLLECTOR: &str = "schedule";

/// The collectors that flags turn on.
pub(super) struct EnabledCollectors {
    /// `--collectors`.
    has_collectors: bool,
    /// `--scaling-schedule`.
    has_schedules: bool,
    settings: CollectionSettings,
}

impl EnabledCollectors {
    pub(super) fn new(sources: &SourceArguments) -> Self {
        let has_prometheus = sources.rules.prometheus.prometheus_url.is_some();
        Self {
            has_collectors: sources.collectors.collectors,
            has_schedules: sources.schedules.scaling_schedule,
            settings: sources.collectors.collection_settings(Compat::Off, has_prometheus),
        }
    }

    /// Adds advice for metrics of collectors that can't be read, unless they already have advice.
    pub(super) fn add_advice(&self, inputs: &Inputs, advice: &mut BTreeMap<usize, String>) {
        for (index, query) in inputs.plan().queries() {
            let Some(Err(error)) = inputs.readings.get(index) else { continue };
            if advice.contains_key(&index) {
                continue;
            }
            let Some(metric) = inputs.hpa.spec.metrics.get(index) else { continue };
            let text = match source_of(&inputs.hpa, metric, &self.settings.environment) {
                Some(Ok(source)) if source.collector == SCHEDULE_COLLECTOR => {
                    Some(self.schedule_advice(inputs, metric))
                }
                Some(Ok(source)) => {
                    self.source_advice(&inputs.hpa, query.metric_name(), &source, error)
                }
                Some(Err(finding)) if self.has_collectors => {
                    Some(invalid_settings_advice(inputs, &finding))
                }
                Some(Err(_)) | None => None,
            };
            advice.extend(text.map(|text| (index, text)));
        }
    }

    fn schedule_advice(&self, inputs: &Inputs, metric: &MetricSpec) -> String {
        let (name, object) = (metric.metric_name(), metric.object.as_ref());
        let object = object.map(|object| &object.described_object);
        let (kind, schedule) = object.map_or(("", ""), |object| (&*object.kind, &*object.name));
        if !self.has_schedules {
            return format!(
                "{name} is the value of {kind} {schedule}, which no metrics API has. If the \
                 controller runs with --scaling-schedule, use its flags here."
            );
        }
        let namespace = &inputs.hpa.metadata.namespace;
        let namespace = if kind.starts_with("Cluster") {
            String::new()
        } else {
            format!(" -n {}", quote(namespace))
        };
        format!(
            "{name} is the value of {kind} {schedule} (--scaling-schedule). Check that object: \
             kubectl get {kind} {}{namespace} -o yaml",
            quote(schedule)
        )
    }

    fn source_advice(
        &self,
        hpa: &HorizontalPodAutoscaler,
        name: &str,
        source: &CollectorSource,
        error: &ReadError,
    ) -> Option<String> {
        let CollectorSource { collector, subject, .. } = source;
        let displayed_collector = collector_name(source);
        let failure = match error {
            ReadError::Fetch { message, .. } => message.as_str(),
            _ => "",
        };
        if !self.has_collectors {
            return advice_without_collectors(source, failure);
        }
        if !self.settings.collectors.contains(collector) {
            return Some(format!(
                "{name} needs the collector {displayed_collector} ({subject}), which is off: add \
                 {}, as the controller needs it too.",
                CollectorArguments::flags_that_enable(collector)
            ));
        }
        if failure.contains(error_texts::AUTOSCALERS_NOT_SYNCED) {
            return Some(format!(
                "{name} is read by the collector {displayed_collector} ({subject}), which has to \
                 list the autoscalers and pods first. The message says why it could not."
            ));
        }
        let answer = answer_advice(name, source, failure);
        if let Some(advice) = answer.or_else(|| unknown_path_advice(hpa, source, failure)) {
            return Some(advice);
        }
        let (place, check) = place_and_check(source);
        let refused = error_texts::REFUSED_ADDRESS;
        let permit = if failure.contains(refused) {
            format!(" If it is to read the address in the message, add {refused} with it.")
        } else {
            String::new()
        };
        Some(format!(
            "The collector {displayed_collector} reads {name} from {place}. Check {check}, and the \
             settings: {subject}.{permit}"
        ))
    }
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

/// Advice if no flag turns collectors on. A metric without annotations may be that of a metrics
/// API, unless the failure says that no metrics API has it.
fn advice_without_collectors(source: &CollectorSource, failure: &str) -> Option<String> {
    let CollectorSource { collector, subject, is_annotated, .. } = source;
    let name = collector_name(source);
    let is_absent =
        failure.contains(error_texts::UNKNOWN_METRIC) || error_texts::is_api_missing(failure);
    let owner = if *is_annotated {
        format!("The {subject} are settings of the collector {name}.")
    } else if is_absent {
        format!("The {subject} is one that the collector {name} reads.")
    } else {
        return None;
    };
    let flags = match CollectorArguments::flags_that_enable(collector) {
        "--collectors" => String::new(),
        others => format!(", with {others}"),
    };
    Some(format!("{owner} If the controller runs with --collectors, use its flags here{flags}."))
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
    let annotation = subject.strip_prefix("annotations ").and_then(|all| all.strip_suffix('*'));
    let annotation = annotation.map(|start| format!("{start}{key}"));
    let value = annotation.as_ref().and_then(|name| hpa.metadata.annotations.get(name));
    let setting = match (annotation, value) {
        (Some(annotation), Some(_)) => format!("annotation {annotation}"),
        _ => format!("setting {key} of the {subject}"),
    };
    let has_whole_path = matches!(key, "path" | "endpoint");
    let path = match value.filter(|_| has_whole_path) {
        Some(value) => truncate(path_of(value).to_owned(), MAX_PATH_LEN),
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

/// Advice if a server answered, but without a value.
fn answer_advice(name: &str, source: &CollectorSource, failure: &str) -> Option<String> {
    let CollectorSource { collector, subject, .. } = source;
    if error_texts::is_refused_query(failure) {
        return Some(format!(
            "The server answers, but refuses the query of {name}, as the message says: correct it \
             in the {subject}."
        ));
    }
    if failure.contains(error_texts::QUERY_SYNTAX) {
        return Some(format!(
            "Correct the syntax of the query of {name}, as the message says, in the {subject}. It \
             is not sent to the server."
        ));
    }
    if error_texts::is_unsent_query(failure) {
        return Some(format!(
            "The query of {name} is not sent to the server, because it can't be restricted to the \
             namespace (--collector-namespace-label), as the message says: change it in the \
             {subject}."
        ));
    }
    if error_texts::has_no_number(failure) {
        return Some(format!(
            "The server answers, but its response has no number for {name}, as the message says: \
             correct the path to the value in the {subject}."
        ));
    }
    let default = match *collector {
        "prometheus" => ", or add `or vector(0)` if nothing means 0",
        _ => "",
    };
    failure.contains(error_texts::NO_RESULT).then(|| {
        format!(
            "The query of {name} has no result now: check its names and labels{default}. It is in \
             the {subject}."
        )
    })
}

/// The collector's name in the annotations, in which `json-path` is the collector of pods and that
/// of URLs.
fn collector_name(source: &CollectorSource) -> &str {
    let annotation = source.subject.strip_suffix("/*").filter(|_| source.is_annotated);
    let name = annotation.and_then(|annotation| annotation.rsplit_once('.'));
    name.map_or(source.collector, |(_, name)| name)
}

/// Advice about settings that no collector accepts.
fn invalid_settings_advice(inputs: &Inputs, Finding { subject, message, .. }: &Finding) -> String {
    let metadata = &inputs.hpa.metadata;
    format!(
        "Correct the {subject}: {message}. No collector reads the metric until then, and the \
         controller reports it as an event: kubectl get events --namespace {} --field-selector \
         {}",
        quote(&metadata.namespace),
        quote(&format!("reason=CreateNewMetricsCollector,involvedObject.name={}", metadata.name))
    )
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn source(collector: &'static str, subject: &str, server: Server) -> CollectorSource {
        CollectorSource {
            collector,
            subject: subject.to_owned(),
            is_annotated: subject.starts_with("annotations "),
            servers: vec![server],
        }
    }

    #[rstest]
    #[case::pods(
        "pods",
        Server::Pods,
        "path",
        "/stats",
        "404: check /stats in the annotation metric-config.x.y.z/path."
    )]
    #[case::endpoint(
        "http",
        Server::Url(String::new()),
        "endpoint",
        "https://user:secret@h:1/a/b?token=secret",
        "404: check /a/b in the annotation metric-config.x.y.z/endpoint."
    )]
    #[case::start_of_the_path(
        "prometheus",
        Server::Url(String::new()),
        "prometheus-server",
        "http://p",
        "404: check the path in the annotation metric-config.x.y.z/prometheus-server."
    )]
    #[case::in_a_label(
        "http",
        Server::Url(String::new()),
        "other",
        "x",
        "404: check the path in the setting endpoint of the annotations metric-config.x.y.z/*."
    )]
    #[case::server_of_the_operator(
        "zmon", Server::Operator("zmon".to_owned()), "key", "p99",
        "of --zmon-kariosdb-endpoint, and the settings: annotations metric-config.x.y.z/*."
    )]
    fn advice_about_an_unknown_path_names_it_and_its_setting(
        #[case] collector: &'static str,
        #[case] server: Server,
        #[case] key: &str,
        #[case] value: &str,
        #[case] expected: &str,
    ) {
        let mut hpa = HorizontalPodAutoscaler::default();
        let annotation = format!("metric-config.x.y.z/{key}");
        hpa.metadata.annotations.insert(annotation, value.to_owned());
        let source = source(collector, "annotations metric-config.x.y.z/*", server);
        let advise = |failure: &str| unknown_path_advice(&hpa, &source, failure);
        let request = "unable to fetch metrics: the request to http://h:1 failed: ";
        let advice = advise(&format!("{request}unsuccessful response: 404 Not Found"));
        let advice = advice.expect("advice");
        assert!(advice.starts_with("The server answers with 404"), "{advice}");
        assert!(advice.ends_with(expected) && !advice.contains("secret"), "{advice}");
        assert_eq!(advise(&format!("{request}unsuccessful response: 500 Error")), None);
    }

    #[rstest]
    #[case::url(Server::Url(String::new()), "a URL of the autoscaler")]
    #[case::pods(Server::Pods, "the target's pods")]
    fn advice_says_that_only_this_machine_failed(#[case] server: Server, #[case] start: &str) {
        let (place, check) = place_and_check(&source("json-path", "metric", server));
        assert_eq!(place, format!("{start}, from which this machine got no value"));
        let end = "from the controller's network, or from here with kubectl port-forward";
        assert!(check.ends_with(end), "{check}");
    }

    #[rstest]
    #[case::annotated(
        "prometheus",
        "annotations metric-config.x.y.prometheus/*",
        "",
        Some(
            "The annotations metric-config.x.y.prometheus/* are settings of the collector \
             prometheus. If the controller runs with --collectors, use its flags here, with \
             --prometheus-url or --additional-prometheus-server."
        )
    )]
    #[case::by_label(
        "sqs",
        "metric external/q {type=sqs-queue-length}",
        "the server could not find the metric q for ",
        Some(
            "The metric external/q {type=sqs-queue-length} is one that the collector sqs reads. If \
             the controller runs with --collectors, use its flags here, with \
             --aws-external-metrics."
        )
    )]
    #[case::of_an_api("sqs", "metric external/q {type=sqs-queue-length}", "down", None)]
    fn advice_without_collectors_names_the_flags_that_the_collector_needs(
        #[case] collector: &'static str,
        #[case] subject: &str,
        #[case] failure: &str,
        #[case] expected: Option<&str>,
    ) {
        let source = source(collector, subject, Server::Operator(String::new()));
        assert_eq!(advice_without_collectors(&source, failure).as_deref(), expected);
    }

    #[rstest]
    #[case::parse_error(
        "unable to fetch metrics: the query to prometheus failed: bad_data: parse error",
        Some(
            "The server answers, but refuses the query of jobs, as the message says: correct it \
             in the annotations metric-config.external.jobs.prometheus/*."
        )
    )]
    #[case::tenant_server(
        "the query to http://p failed: Prometheus reported execution: message omitted",
        Some("The server answers, but refuses the query of jobs")
    )]
    #[case::no_result(
        "unable to fetch metrics: query 'up' did not result a valid response",
        Some(
            "The query of jobs has no result now: check its names and labels, or add `or \
             vector(0)` if nothing means 0. It is in the annotations metric-config."
        )
    )]
    #[case::syntax(
        "unable to fetch metrics: the query has a syntax error at byte 9: the query ends",
        Some("Correct the syntax of the query of jobs, as the message says, in the annotations ")
    )]
    #[case::not_restricted(
        "unable to fetch metrics: the query can't be restricted to the namespace: info",
        Some("The query of jobs is not sent to the server, because it can't be restricted to ")
    )]
    #[case::wrong_path(
        "unable to fetch metrics: none of 2 pods has a value; web-1: the path selects nothing",
        Some(
            "The server answers, but its response has no number for jobs, as the message says: \
             correct the path to the value in the annotations "
        )
    )]
    #[case::text_in_the_response(
        "unable to fetch metrics: the value is a string, not a number",
        Some("The server answers, but its response has no number for jobs")
    )]
    #[case::no_connection(
        "the query to prometheus failed: the request to Prometheus at p failed: Connection refused",
        None
    )]
    fn advice_depends_on_whether_the_server_answered(
        #[case] failure: &str,
        #[case] expected: Option<&str>,
    ) {
        let source = CollectorSource {
            collector: "prometheus",
            subject: "annotations metric-config.external.jobs.prometheus/*".to_owned(),
            is_annotated: true,
            servers: Vec::new(),
        };
        let advice = answer_advice("jobs", &source, failure);
        match expected {
            Some(start) => assert!(advice.as_deref().unwrap().starts_with(start), "{advice:?}"),
            None => assert_eq!(advice, None),
        }
    }
}
