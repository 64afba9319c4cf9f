//! Generates rules for metrics with conventional names, like `config-gen` of prometheus-adapter.

/// Generates a rules file with container metrics of cAdvisor, metrics whose labels
/// `<prefix><resource>` name objects, and resource metrics. Rates are over `rate_interval`, a
/// Prometheus duration.
pub fn default_rules(rate_interval: &str, label_prefix: &str) -> String {
    let containers = r#"{__name__=~"^container_.*",container!="POD",namespace!="",pod!=""}"#;
    let others = format!(r#"{{{label_prefix}namespace!="",__name__!~"^container_.*"}}"#);
    let container_rate = format!(
        r#"sum(rate(<<.Series>>{{<<.LabelMatchers>>,container!="POD"}}[{rate_interval}])) by (<<.GroupBy>>)"#
    );
    let rate =
        format!("sum(rate(<<.Series>>{{<<.LabelMatchers>>}}[{rate_interval}])) by (<<.GroupBy>>)");
    format!(
        r#"rules:
# Containers: CPU time and other counters in seconds, as rates.
- seriesQuery: '{containers}'
  resources:
    overrides: &container
      namespace: {{resource: namespace}}
      pod: {{resource: pod}}
  name: {{matches: '^container_(.*)_seconds_total$'}}
  metricsQuery: '{container_rate}'
# Containers: other counters, as rates.
- seriesQuery: '{containers}'
  seriesFilters: [{{isNot: '^container_.*_seconds_total$'}}]
  resources: {{overrides: *container}}
  name: {{matches: '^container_(.*)_total$'}}
  metricsQuery: '{container_rate}'
# Containers: gauges.
- seriesQuery: '{containers}'
  seriesFilters: [{{isNot: '^container_.*_total$'}}]
  resources: {{overrides: *container}}
  name: {{matches: '^container_(.*)$'}}
  metricsQuery: 'sum(<<.Series>>{{<<.LabelMatchers>>,container!="POD"}}) by (<<.GroupBy>>)'
# Objects that labels name: gauges.
- seriesQuery: '{others}'
  seriesFilters: [{{isNot: '.*_total$'}}]
  resources: {{template: '{label_prefix}<<.Resource>>'}}
  metricsQuery: 'sum(<<.Series>>{{<<.LabelMatchers>>}}) by (<<.GroupBy>>)'
# Objects that labels name: counters, as rates.
- seriesQuery: '{others}'
  seriesFilters: [{{isNot: '.*_seconds_total'}}]
  resources: {{template: '{label_prefix}<<.Resource>>'}}
  name: {{matches: '^(.*)_total$'}}
  metricsQuery: '{rate}'
# Objects that labels name: counters in seconds, as rates.
- seriesQuery: '{others}'
  resources: {{template: '{label_prefix}<<.Resource>>'}}
  name: {{matches: '^(.*)_seconds_total$'}}
  metricsQuery: '{rate}'
resourceRules:
  cpu:
    containerQuery: 'sum(rate(container_cpu_usage_seconds_total{{<<.LabelMatchers>>}}[{rate_interval}])) by (<<.GroupBy>>)'
    nodeQuery: 'sum(rate(container_cpu_usage_seconds_total{{<<.LabelMatchers>>,id="/"}}[{rate_interval}])) by (<<.GroupBy>>)'
    resources:
      overrides: &usage
        namespace: {{resource: namespace}}
        pod: {{resource: pod}}
        instance: {{resource: node}}
    containerLabel: container
  memory:
    containerQuery: 'sum(container_memory_working_set_bytes{{<<.LabelMatchers>>}}) by (<<.GroupBy>>)'
    nodeQuery: 'sum(container_memory_working_set_bytes{{<<.LabelMatchers>>,id="/"}}) by (<<.GroupBy>>)'
    resources: {{overrides: *usage}}
    containerLabel: container
  window: {rate_interval}
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{
        Config, CustomRegistry, RuleSeries, RuleSet, Series, registry::DiscoveredRule,
    };
    use hpa_metrics::test_doubles::resources;

    #[test]
    fn generated_rules_name_metrics_by_convention() {
        let config = Config::parse(&default_rules("5m", "kube_")).unwrap();
        let resources = resources();
        let rules = RuleSet::compile(&config, &resources);
        assert_eq!(rules.first_error(), None);
        let series = |name: &str, labels: &[&str]| Series {
            name: name.to_owned(),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        };
        let containers = [
            series("container_cpu_usage_seconds_total", &["namespace", "pod"]),
            series("container_fs_reads_total", &["namespace", "pod"]),
            series("container_memory_rss", &["namespace", "pod"]),
        ];
        let others = [series("http_requests_total", &["kube_namespace", "kube_pod"])];
        let sources: Vec<DiscoveredRule> = rules
            .custom
            .iter()
            .enumerate()
            .map(|(index, rule)| {
                let rule = rule.clone().unwrap();
                let all = if index < 3 { &containers[..] } else { &others[..] };
                let series = RuleSeries::new(&rule, &resources, all).into();
                DiscoveredRule { index, rule, series }
            })
            .collect();
        let registry = CustomRegistry::new(&sources);
        let metrics: Vec<String> = registry
            .metrics()
            .map(|metric| metric.api_name())
            .filter(|name| name.starts_with("pods/"))
            .collect();
        let expected = ["pods/cpu_usage", "pods/fs_reads", "pods/http_requests", "pods/memory_rss"];
        assert_eq!(metrics, expected);
    }
}
