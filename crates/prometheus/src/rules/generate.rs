//! Generates rules for metrics with conventional names, like `config-gen` of prometheus-adapter.

/// Generates a rules file with container metrics of cAdvisor, metrics whose labels
/// `<prefix><resource>` name objects, and resource metrics. Rates are over `rate_interval`, a
/// Prometheus duration.
pub fn default_rules(rate_interval: &str, label_prefix: &str) -> String {
    include_str!("default_rules.yaml")
        .replace("RATE_INTERVAL", rate_interval)
        .replace("LABEL_PREFIX", label_prefix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{
        Config, CustomRegistry, RuleSeries, RuleSet, Series, registry::DiscoveredRule,
    };
    use hpa_metrics::{resource::GroupResource, test_doubles::resources};

    #[test]
    fn generated_rules_name_metrics_by_convention() {
        let config = Config::parse(&default_rules("5m", "kube_")).unwrap();
        let resources = resources();
        let rules = RuleSet::compile(&config, &resources);
        assert_eq!(rules.first_error(), None);
        let containers = [
            Series::new("container_cpu_usage_seconds_total", &["namespace", "pod"]),
            Series::new("container_fs_reads_total", &["namespace", "pod"]),
            Series::new("container_memory_rss", &["namespace", "pod"]),
        ];
        let others = [Series::new("http_requests_total", &["kube_namespace", "kube_pod"])];
        let discovered: Vec<DiscoveredRule> = rules
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
        let registry = CustomRegistry::new(&discovered);
        let metrics: Vec<String> = registry
            .metrics()
            .filter(|metric| metric.resource == GroupResource::pods())
            .map(|metric| metric.metric)
            .collect();
        let expected = ["cpu_usage", "fs_reads", "http_requests", "memory_rss"];
        assert_eq!(metrics, expected);
    }
}
