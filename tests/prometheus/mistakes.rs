//! The most common mistakes in rules: `hpa rules explain` must say what to change.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

use crate::reader::NAMESPACE;

/// Rules with a mistake, and the expected advice.
struct Mistake {
    name: &'static str,
    rules: &'static str,
    /// The requested metric: `RESOURCE/NAME`, or the name of an external metric.
    metric: &'static str,
    flags: &'static [&'static str],
    advice: &'static str,
}

const IN_NAMESPACE: &[&str] = &["--namespace", NAMESPACE];

const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "wrong_label",
        rules: "
rules:
- seriesQuery: http_requests_total
  resources:
    overrides: {kubernetes_namespace: {resource: namespace}, kubernetes_pod: {resource: pod}}
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)
",
        metric: "pods/http_requests_total",
        flags: IN_NAMESPACE,
        advice: "No series has the label `kubernetes_pod`; the labels are deployment, instance, \
                 job, namespace, pod. Change the override or the template",
    },
    Mistake {
        name: "regex_that_matches_nothing",
        rules: "
rules:
- seriesQuery: '{__name__=~\"http_requests.*\"}'
  resources: {template: <<.Resource>>}
  name: {matches: ^(.*)_count$, as: $1}
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)
",
        metric: "pods/http_requests",
        flags: IN_NAMESPACE,
        advice: "seriesFilters and name.matches accept no series: http_requests_total \
                 (name.matches `^(.*)_count$` doesn't match it)",
    },
    Mistake {
        name: "missing_override",
        rules: "
rules:
- seriesQuery: http_requests_total
  resources: {overrides: {namespace: {resource: namespace}}}
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)
",
        metric: "pods/http_requests_total",
        flags: IN_NAMESPACE,
        advice: "No override and no template has the resource; the labels are deployment, \
                 instance, job, namespace, pod. Add an override",
    },
    Mistake {
        name: "counter_without_rate",
        rules: "
rules:
- seriesQuery: http_requests_total
  resources: {template: <<.Resource>>}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
",
        metric: "pods/http_requests_total",
        flags: IN_NAMESPACE,
        advice: "http_requests_total looks like a counter, which only grows: use \
                 rate(http_requests_total{…}[2m])",
    },
    Mistake {
        name: "rule_order",
        rules: "
rules:
- seriesQuery: http_requests_total
  resources: {template: <<.Resource>>}
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)
- seriesQuery: '{namespace!=\"\",pod!=\"\"}'
  resources: {template: <<.Resource>>}
  metricsQuery: max(rate(<<.Series>>{<<.LabelMatchers>>}[5m])) by (<<.GroupBy>>)
",
        metric: "pods/http_requests_total",
        flags: IN_NAMESPACE,
        advice: "rules[1] also has the metric, and the last rule takes precedence. Rename the \
                 metric in one of them, or change their order. Not used: \
                 sum(rate(http_requests_total{",
    },
    Mistake {
        name: "namespace_missing",
        rules: "
rules:
- seriesQuery: http_requests_total
  resources: {template: <<.Resource>>}
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)
",
        metric: "pods/http_requests_total",
        flags: &[],
        advice: "metrics of pods are read in a namespace: add --namespace NAME",
    },
    Mistake {
        name: "other_namespace",
        rules: "
rules:
- seriesQuery: http_requests_total
  resources: {template: <<.Resource>>}
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)
",
        metric: "pods/http_requests_total",
        flags: &["--namespace", "other"],
        advice: "no object of the namespace other has series of the metric: http_requests_total is \
                 in shop",
    },
    Mistake {
        name: "series_query_with_labels_that_the_series_do_not_have",
        rules: "
rules:
- seriesQuery: 'nginx_ingress_controller_requests{namespace!=\"\",ingress!=\"\"}'
  resources: {template: <<.Resource>>}
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)
",
        metric: "ingresses/nginx_ingress_controller_requests",
        flags: IN_NAMESPACE,
        advice: "nginx_ingress_controller_requests has no value: rules[0] (line 3, column 3): the \
                 newest series of nginx_ingress_controller_requests has no label `namespace`, \
                 which seriesQuery requires; it has exported_namespace\n",
    },
    Mistake {
        name: "no_namespace_label",
        rules: "
rules:
- seriesQuery: unlabeled_requests
  resources:
    overrides: {namespace: {resource: namespace}, pod: {resource: pod}}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
",
        metric: "pods/unlabeled_requests",
        flags: IN_NAMESPACE,
        advice: "unlabeled_requests has no value: unlabeled_requests has no label `namespace`, \
                 which queries use to select the namespace: add it by relabeling, or set \
                 `namespaced: false` in an external rule; the labels are instance, job, pod",
    },
    Mistake {
        name: "override_of_a_label_that_the_series_do_not_have",
        rules: "
rules:
- seriesQuery: http_requests_total
  resources:
    overrides: {kubernetes_namespace: {resource: namespace}, pod: {resource: pod}}
  name: {as: requests}
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)
",
        metric: "pods/requests",
        flags: IN_NAMESPACE,
        advice: "requests has no value: http_requests_total has no label `kubernetes_namespace`, \
                 which queries use to select the namespace: the series have the label `namespace`: \
                 map it with resources.overrides: {namespace: {resource: namespace}}",
    },
    Mistake {
        name: "metric_for_another_resource",
        rules: "
rules:
- seriesQuery: unlabeled_requests
  resources: {template: <<.Resource>>}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
",
        metric: "services/unlabeled_requests",
        flags: IN_NAMESPACE,
        advice: "unlabeled_requests has no value: rules[0] (line 3, column 3) has it, but not for \
                 this resource: no series has the label `service`\n",
    },
    Mistake {
        name: "external_query_without_a_result",
        rules: "
externalRules:
- seriesQuery: open_connections
  resources: {overrides: {namespace: {resource: namespace}}}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>) > 1000
",
        metric: "open_connections",
        flags: IN_NAMESPACE,
        advice: "the query has no result, which blocks scaling down: check its labels and the \
                 selector, or end it with `or vector(0)` if nothing means 0",
    },
    Mistake {
        name: "external_series_in_another_namespace",
        rules: "
externalRules:
- seriesQuery: open_connections
  resources: {overrides: {namespace: {resource: namespace}}}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
",
        metric: "open_connections",
        flags: &["--namespace", "elsewhere"],
        advice: "the namespace elsewhere has no series of the metric: open_connections is in shop",
    },
    Mistake {
        name: "series_too_old",
        rules: OLD_SERIES,
        metric: "pods/stopped_requests_total",
        flags: &["--namespace", NAMESPACE, "--metrics-max-age", "1m"],
        // The age depends on the duration of the run.
        advice: "The newest sample is ",
    },
    Mistake {
        name: "series_without_a_sample_now",
        rules: OLD_SERIES,
        metric: "pods/stopped_requests_total",
        flags: IN_NAMESPACE,
        // The age depends on the duration of the run.
        advice: "The newest sample is ",
    },
    Mistake {
        name: "template_typo",
        rules: "
rules:
- seriesQuery: http_requests_total
  resources: {template: <<.Resource>>}
  metricsQuery: sum(rate(<<.Serie>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)
",
        metric: "pods/http_requests_total",
        flags: IN_NAMESPACE,
        advice: "can't evaluate field Serie",
    },
    Mistake {
        name: "name_clash",
        rules: "
rules:
- seriesQuery: worker_threads
  resources: {template: <<.Resource>>}
  name: {as: load}
  metricsQuery: max(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
- seriesQuery: open_connections
  resources: {template: <<.Resource>>}
  name: {as: load}
  metricsQuery: max(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
",
        metric: "pods/load",
        flags: IN_NAMESPACE,
        advice: "rules[1] also has the metric, and the last rule takes precedence. Rename the \
                 metric in one of them",
    },
    Mistake {
        name: "unit",
        rules: "
rules:
- seriesQuery: request_latency_ms
  resources: {template: <<.Resource>>}
  metricsQuery: avg(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
",
        metric: "pods/request_latency_ms",
        flags: IN_NAMESPACE,
        advice: "the values of request_latency_ms are in milliseconds: a target of 500m is half a \
                 millisecond",
    },
];

const OLD_SERIES: &str = "
rules:
- seriesQuery: stopped_requests_total
  resources: {template: <<.Resource>>}
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)
";

/// The results, by the name of the mistake.
pub(crate) async fn check(binary: &Path, url: &str) -> Vec<(&'static str, Result<()>)> {
    let mut results = Vec::new();
    for mistake in MISTAKES {
        results.push((mistake.name, explain(binary, url, mistake).await));
    }
    results
}

async fn explain(binary: &Path, url: &str, mistake: &Mistake) -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), mistake.rules)?;
    let api = if mistake.metric.contains('/') { "custom" } else { "external" };
    let output = Command::new(binary)
        .args(["rules", "explain", api, mistake.metric, "--prometheus-url", url])
        .args(mistake.flags)
        .arg("--config")
        .arg(file.path())
        .env_clear()
        .output();
    let output = output.await.context("hpa rules explain")?;
    let text = String::from_utf8([output.stdout, output.stderr].concat())?;
    ensure!(text.contains(mistake.advice), "{text}");
    let metric = mistake.metric.rsplit('/').next().unwrap_or_default();
    ensure!(text.starts_with(metric), "the first line isn't about the metric: {text}");
    Ok(())
}
