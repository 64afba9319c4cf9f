//! Advice about metrics that can't be read, from the rules of `--metrics-config`.

use std::collections::BTreeMap;

use hpa_calc::{
    Inputs, MetricQuery, ReadError,
    report::error_texts::{ALSO_NOT_BY_API, is_api_missing},
    shell::quote,
    suggestions::most_similar,
};
use hpa_metrics::MetricSource;
use hpa_prometheus::source::PrometheusSource;

use crate::args::RulesFileArguments;

/// Advice for each metric whose rule returned nothing, and for each misspelled name that neither a
/// rule nor an API has. A metric that the controller could read has no misspelled name.
pub(super) fn advise(rules: &PrometheusSource, inputs: &Inputs) -> BTreeMap<usize, String> {
    let plan = inputs.plan();
    // The controller has read these metrics, so it may have other rules.
    let read_by_controller = inputs.metrics_read_by_controller_only();
    let mut advice = BTreeMap::new();
    for (index, query) in plan.queries() {
        let Some(Err(error)) = inputs.readings.get(index) else { continue };
        let Some(known_names) = metric_names(rules, query) else { continue };
        let name = query.metric_name();
        let has_rule = known_names.iter().any(|known| known == name);
        let text = match error {
            ReadError::Empty(_) if has_rule => Some(format!(
                "A rule of --metrics-config has {name}, but its query returned no value. Check the \
                 names and selectors in spec.metrics[{index}], and whether Prometheus has such \
                 series."
            )),
            ReadError::Fetch { message, .. } if is_absent(message) && !has_rule => {
                let similar = most_similar(name, known_names.iter().map(String::as_str));
                similar.filter(|_| !read_by_controller.contains(&index)).map(|similar| {
                    format!(
                        "Correct the name in spec.metrics[{index}], or add a rule: no rule of \
                         --metrics-config has {name} (similar: {similar}). hpa rules check FILE \
                         --prometheus-url URL lists the metrics of a rules file."
                    )
                })
            }
            _ => None,
        };
        advice.extend(text.map(|text| (index, text)));
    }
    advice
}

/// The placeholders in commands about rules whose values the flags have. A URL with credentials is
/// not printed.
pub(super) fn placeholders(arguments: &RulesFileArguments) -> Vec<(&'static str, String)> {
    let mut placeholders = Vec::new();
    if let Some(file) = &arguments.metrics_config {
        let file = file.to_string_lossy();
        let file = quote(&file);
        placeholders.push(("--config FILE", format!("--config {file}")));
        placeholders.push(("hpa rules check FILE", format!("hpa rules check {file}")));
    }
    let url = arguments.prometheus.prometheus_url.as_deref().filter(|url| !url.contains('@'));
    if let Some(url) = url {
        placeholders.push(("--prometheus-url URL", format!("--prometheus-url {}", quote(url))));
    }
    placeholders
}

/// Whether no rule, collector or metrics API has the metric.
fn is_absent(message: &str) -> bool {
    message.contains(ALSO_NOT_BY_API) && is_api_missing(message)
}

/// The names of the rules' metrics in the API of a query. `None` for resource metrics.
fn metric_names(rules: &PrometheusSource, query: &MetricQuery) -> Option<Vec<String>> {
    let catalog = rules.catalog();
    Some(match query {
        MetricQuery::Pods { .. } | MetricQuery::Object { .. } => {
            catalog.custom_metrics().into_iter().map(|metric| metric.metric).collect()
        }
        MetricQuery::External { .. } => {
            catalog.external_metrics().into_iter().map(|metric| metric.metric).collect()
        }
        MetricQuery::Resource { .. } => return None,
    })
}
