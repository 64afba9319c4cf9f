//! `hpa rules check` with a server: values of correct rules, and messages about wrong ones.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

struct Case {
    name: &'static str,
    rules: &'static str,
    /// Whether the exit status is 0.
    is_success: bool,
    /// Texts that the report must contain.
    expected: &'static [&'static str],
    /// A text that the report must not contain.
    unexpected: &'static str,
}

const CASES: &[Case] = &[
    Case {
        name: "sample_matches_the_selector_of_the_rule",
        rules: "
rules:
- seriesQuery: 'open_connections{pod=\"web-2\"}'
  resources: {template: <<.Resource>>}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>,pod=\"web-2\"}) by (<<.GroupBy>>)
",
        is_success: true,
        expected: &["shop/web-2 = 25"],
        unexpected: "api-1",
    },
    Case {
        name: "value_that_is_no_number_is_a_warning",
        rules: "
rules:
- seriesQuery: 'worker_threads{pod=\"web-3\"}'
  resources: {template: <<.Resource>>}
  metricsQuery: >-
    sum(worker_threads_busy{<<.LabelMatchers>>}) by (<<.GroupBy>>) /
    sum(worker_threads{<<.LabelMatchers>>}) by (<<.GroupBy>>)
",
        is_success: true,
        expected: &["  warning: shop/web-3: "],
        unexpected: "problem:",
    },
    Case {
        name: "external_value_that_is_no_number_is_a_warning",
        rules: "
externalRules:
- seriesQuery: 'worker_threads{pod=\"web-3\"}'
  resources: {overrides: {namespace: {resource: namespace}}}
  metricsQuery: >-
    sum(worker_threads_busy{<<.LabelMatchers>>,pod=\"web-3\"}) /
    sum(worker_threads{<<.LabelMatchers>>,pod=\"web-3\"})
",
        is_success: true,
        expected: &["  warning: worker_threads {}: the sample is not a number (NaN)\n"],
        unexpected: "no result",
    },
    Case {
        name: "series_query_with_labels_that_the_series_do_not_have",
        rules: "
rules:
- seriesQuery: 'nginx_ingress_controller_requests{namespace!=\"\",ingress!=\"\"}'
  resources: {template: <<.Resource>>}
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)
",
        is_success: false,
        expected: &[
            "  problem: the newest series of nginx_ingress_controller_requests has no label \
             `namespace`, which seriesQuery requires; it has exported_namespace\n",
        ],
        unexpected: "no such series",
    },
    Case {
        name: "series_without_a_namespace",
        rules: "
rules:
- seriesQuery: skipper_serve_host_duration_seconds_count
  resources: {overrides: {host: {group: networking.k8s.io, resource: ingress}}}
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)
",
        is_success: false,
        expected: &[
            "line 4, column 14: rules[0].resources: unable to convert resource namespaces",
            "`namespaced: false` in an external rule",
        ],
        unexpected: "not registered",
    },
    Case {
        name: "summary_is_first_and_findings_are_in_the_order_of_lines",
        rules: "
rules:
- seriesQuery: sessions_total
  name: {matches: '^(x?)', as: '$1'}
  resources: {template: <<.Resource>>}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
- seriesQuery: sessions_total
  resources: {overrides: {pod: {resource: podd}}}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
",
        is_success: false,
        expected: &[
            ": 2 problems\nrules[0] (line 3, column 3): sessions_total\n",
            "  problem: the name of the metric of sessions_total is empty: check name.matches",
            "\nrules[1] (line 7, column 3): sessions_total\n  problem: line 8, column 32: ",
            "the API has no resource `podd`: did you mean `pods`?",
        ],
        unexpected: "/ <- ",
    },
    Case {
        name: "external_rule_uses_its_namespace_label",
        rules: "
externalRules:
- seriesQuery: nginx_ingress_controller_requests
  resources: {overrides: {exported_namespace: {resource: namespace}}}
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m]))
",
        is_success: true,
        expected: &["exported_namespace=\"shop\"", "{} = 107"],
        unexpected: "no result",
    },
    Case {
        name: "override_of_a_label_that_the_series_do_not_have",
        rules: "
rules:
- seriesQuery: sessions_total
  resources: {overrides: {kubernetes_namespace: {resource: namespace}, pod: {resource: pod}}}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
",
        is_success: false,
        expected: &[
            ": 1 problem\n",
            "  problem: sessions_total has no label `kubernetes_namespace`, which queries use \
             to select the namespace: the series have the label `namespace`: map it with \
             resources.overrides: {namespace: {resource: namespace}}\n",
        ],
        unexpected: "relabeling",
    },
    Case {
        name: "override_for_a_resource_without_a_metric",
        rules: "
rules:
- seriesQuery: sessions_total
  resources: {overrides: {namespace: {resource: namespace}, pod_name: {resource: pod}}}
  metricsQuery: |
    sum(<<.Series>>{<<.LabelMatchers>>})
    by (<<.GroupBy>>)
",
        is_success: true,
        expected: &[
            ": no problems, 1 warning\n",
            "  warning: pods have no metric, because no series has the label `pod_name`: the \
             series have the label `pod`: map it with resources.overrides: {pod: {resource: \
             pod}}\n",
            "  query: sum(sessions_total{namespace=\"shop\"}) by (namespace)\n",
        ],
        unexpected: "problem:",
    },
    Case {
        name: "query_without_matchers_has_a_sample_without_a_namespace",
        rules: "
rules:
- seriesQuery: unlabeled_requests
  resources: {template: <<.Resource>>}
  metricsQuery: sum(unlabeled_requests) by (pod)
",
        is_success: true,
        expected: &[
            ": no problems, 1 warning\n",
            "  default/web-1 = 5\n  warning: the query selects no objects",
        ],
        unexpected: "has no label",
    },
    Case {
        name: "series_of_no_object",
        rules: "
rules:
- seriesQuery: unlabeled_requests
  resources: {overrides: {namespace: {resource: namespace}, node: {resource: node}}}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
",
        is_success: false,
        expected: &[
            "  problem: no label of the series is mapped to a resource; the labels are instance, \
             job, pod: map the one with the object's name in resources.overrides, or use \
             externalRules",
        ],
        unexpected: "no problems",
    },
    Case {
        name: "gauge_with_the_name_of_a_counter",
        rules: "
rules:
- seriesQuery: sessions_total
  resources: {template: <<.Resource>>}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
",
        is_success: true,
        expected: &["shop/web-1 = 12"],
        unexpected: "counter",
    },
    Case {
        name: "resource_rules_have_results_and_labels",
        rules: "
resourceRules:
  cpu:
    containerQuery: sum(rate(container_cpu_usage_seconds_total{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)
    nodeQuery: sum(rate(process_cpu_seconds_total{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)
    resources: &labels
      overrides: {namespace: {resource: namespace}, pod: {resource: pod}, instance: {resource: node}}
    containerLabel: container
  memory:
    containerQuery: sum(container_memory_working_set_bytes{<<.LabelMatchers>>}) by (pod)
    nodeQuery: sum(node_memory{<<.LabelMatchers>>}) by (<<.GroupBy>>)
    resources: *labels
    containerLabel: container
  window: 2m
",
        is_success: false,
        expected: &[
            "  warning: line 4, column 21: resourceRules.cpu.containerQuery: without the matcher \
             container!=\"\"",
            "cpu.containerQuery: pods: 1, such as web-1",
            "cpu.nodeQuery: `instance` is 127.0.0.1:",
            "an address and not the name of a node",
            "memory.containerQuery: the result has no label `container`",
            "memory.nodeQuery: no result: check names and labels in \
             `sum(node_memory{instance!=\"\"})",
        ],
        unexpected: "no problems",
    },
];

/// The results, by the name of the case.
pub(crate) async fn check(binary: &Path, url: &str) -> Vec<(&'static str, Result<()>)> {
    let mut results = Vec::new();
    for case in CASES {
        results.push((case.name, check_case(binary, url, case).await));
    }
    results
}

async fn check_case(binary: &Path, url: &str, case: &Case) -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), case.rules)?;
    let mut command = Command::new(binary);
    command.args(["rules", "check", "--prometheus-url", url]).arg(file.path()).env_clear();
    let output = command.output().await.context("hpa rules check")?;
    let text = String::from_utf8([output.stdout, output.stderr].concat())?;
    ensure!(output.status.success() == case.is_success, "{}: {text}", output.status);
    for expected in case.expected {
        ensure!(text.contains(expected), "no {expected:?} in: {text}");
    }
    ensure!(!text.contains(case.unexpected), "{:?} in: {text}", case.unexpected);
    Ok(())
}
