//! Extracts metric and label names from the queries of the dashboard and the alerts.

use hpa_prometheus::promql::{self, Node, Selector};

/// The names in a query.
pub(super) struct Query {
    /// Metrics, each with the labels that it is filtered by.
    pub(super) selectors: Vec<(String, Vec<String>)>,
    /// Labels that results are grouped or matched by, or that a dashboard variable lists.
    pub(super) grouping: Vec<String>,
}

impl Query {
    /// Parses PromQL, or the query of a dashboard variable, such as `label_values(up, job)`.
    pub(super) fn parse(text: &str) -> Self {
        // Grafana replaces the variable with a duration.
        let text = text.replace("$__rate_interval", "5m");
        let variable = text.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
        let (query, listed_label) = match variable.and_then(|rest| rest.rsplit_once(", ")) {
            Some((query, label)) => (query, Some(label)),
            None => (text.as_str(), None),
        };
        let expr = promql::parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
        let mut grouping: Vec<&str> = listed_label.into_iter().collect();
        expr.visit(&mut |expr| match &expr.node {
            Node::Aggregation(_, Some(modifier), _) => grouping.extend(&modifier.labels),
            Node::Binary(_, matching, _) => {
                grouping.extend(matching.labels.iter().chain(&matching.include));
            }
            _ => {}
        });
        let names = |Selector { name, matchers, .. }: Selector<'_>| {
            let labels = matchers.iter().map(|matcher| matcher.label.to_owned());
            (name.to_owned(), labels.collect())
        };
        Self {
            selectors: expr.selectors().into_iter().map(names).collect(),
            grouping: grouping.into_iter().map(ToOwned::to_owned).collect(),
        }
    }
}
