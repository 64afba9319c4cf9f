//! Advice about metrics of collectors, which the controller reads in its process.

use std::collections::BTreeMap;

use hpa_calc::{Inputs, ReadError, api::MetricSpec, report::error_texts, shell::quote};
use hpa_collectors::{
    CollectorSource, Compat, Finding, Server, collection::CollectionSettings, source_of,
};

use crate::args::{CollectorArguments, SourceArguments};

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
                Some(Ok(source)) => self.source_advice(query.metric_name(), &source, error),
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
        name: &str,
        source: &CollectorSource,
        error: &ReadError,
    ) -> Option<String> {
        let CollectorSource { collector, subject, is_annotated, servers } = source;
        let displayed_collector = collector_name(source);
        let failure = match error {
            ReadError::Fetch { message, .. } => message.as_str(),
            _ => "",
        };
        if !self.has_collectors {
            return is_annotated.then(|| {
                format!(
                    "The {subject} are settings of the collector {displayed_collector}. If the \
                     controller runs with --collectors, use its flags here."
                )
            });
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
        if let Some(advice) = answer_advice(name, source, failure) {
            return Some(advice);
        }
        let (place, check) = match servers.first() {
            Some(Server::Operator(_)) => (
                format!("the server of {}", CollectorArguments::flags_that_enable(collector)),
                "that this server runs and answers".to_owned(),
            ),
            Some(Server::Url(_)) => (
                "a URL of the autoscaler".to_owned(),
                "that the controller reaches that server".to_owned(),
            ),
            Some(Server::Pods) | None => (
                "the target's pods".to_owned(),
                "that the pods are ready, and that the controller reaches them".to_owned(),
            ),
        };
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

/// Advice if a server answered, but without a value.
fn answer_advice(name: &str, source: &CollectorSource, failure: &str) -> Option<String> {
    let CollectorSource { collector, subject, .. } = source;
    if error_texts::is_refused_query(failure) {
        return Some(format!(
            "The server answers, but refuses the query of {name}, as the message says: correct it \
             in the {subject}."
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
