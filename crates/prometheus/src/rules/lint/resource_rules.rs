//! Lints `resourceRules`.

use hpa_metrics::resource::GroupResource;

use super::{Finding, Linter, RESOURCE_RULES};
use crate::{
    promql,
    rules::{
        Compat,
        config::ResourceRules,
        explain::expression_warnings,
        query::QueriedObjects,
        resource_metrics::{ResourceMetrics, UsageResource},
    },
};

impl Linter<'_> {
    pub(super) fn check_resource_rules(&mut self, metrics: &ResourceMetrics) {
        let definition = self.config.resource_rules.as_ref();
        let missing = definition.and_then(ResourceRules::missing_rule);
        if let Some(path) = missing {
            let message = "it is missing: metrics.k8s.io has only pods and nodes with both cpu and \
                           memory";
            self.findings.push(Finding {
                path: path.to_owned(),
                position: self.config.positions.get("resourceRules"),
                is_warning: false,
                message: message.to_owned(),
            });
        }
        for usage in UsageResource::ALL {
            let rule = metrics.rule(usage);
            self.rule_path = format!("{RESOURCE_RULES}.{}", usage.name());
            if missing == Some(&self.rule_path) {
                continue;
            }
            let names = &["web".to_owned()];
            let queries = [
                ("containerQuery", &GroupResource::pods(), "shop"),
                ("nodeQuery", &GroupResource::nodes(), ""),
            ];
            for (field, resource, namespace) in queries {
                let objects = QueriedObjects { resource, namespace, names };
                let query = rule.query(objects, self.resources, Compat::Off).render();
                if field == "containerQuery"
                    && let Ok(query) = &query
                {
                    self.check_container_matchers(query, &rule.container_label);
                }
                for warning in query.iter().flat_map(|query| expression_warnings("", query)) {
                    self.add_warning(field, warning.to_string());
                }
                self.check_query(field, query, None);
            }
            if rule.container_label.is_empty() {
                self.add_error("containerLabel", "it is missing: write, for example, container");
            }
        }
        if missing.is_none() && definition.is_some_and(|rules| rules.window.is_zero()) {
            RESOURCE_RULES.clone_into(&mut self.rule_path);
            self.add_warning(
                "window",
                "it is missing: write the range of cpu's queries, such as 5m",
            );
        }
    }

    /// Warns if `containerQuery` doesn't exclude cAdvisor's series of whole pods. The usage of a
    /// pod is the sum of all results with its name.
    fn check_container_matchers(&mut self, query: &str, label: &str) {
        let Ok(expr) = promql::parse(query) else { return };
        let label = if label.is_empty() { "container" } else { label };
        let labels = [label, "container", "container_name", "image", "name"];
        let reads_pods = expr.selectors().iter().any(|selector| {
            let mut matchers = selector.matchers.iter();
            selector.metric_name().is_some_and(|name| name.starts_with("container_"))
                && matchers.all(|one| one.accepts_empty || !labels.contains(&one.label))
        });
        if reads_pods {
            let message = format!(
                "without the matcher {label}!=\"\", cAdvisor's series of whole pods count again in \
                 the sum over containers: add {label}!=\"\",{label}!=\"POD\""
            );
            self.add_warning("containerQuery", message);
        }
    }
}
