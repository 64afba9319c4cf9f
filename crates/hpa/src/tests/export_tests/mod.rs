//! Compares the metrics that a running controller exports with the documentation, the Grafana
//! dashboard and the alerts.

mod cluster;
mod dashboard;
mod exposition;
mod queries;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use self::queries::Query;
pub(crate) use self::{cluster::scrape_controller, exposition::Exposition};

const DASHBOARD: &str = include_str!("../../../../../charts/hpa-controller/files/dashboard.json");
const RULES: &str = include_str!("../../../../../charts/hpa-controller/files/rules.yaml");
const DOCUMENTATION: &str = include_str!("../../../../../docs/metrics.md");

/// Labels that Prometheus adds to each series of a scrape target.
const TARGET_LABELS: [&str; 4] = ["job", "namespace", "pod", "instance"];

/// Collects the strings under a key at any depth.
fn collect_strings<'a>(value: &'a Value, key: &str, strings: &mut Vec<&'a str>) {
    match value {
        Value::Object(members) => {
            strings.extend(members.get(key).and_then(Value::as_str));
            members.values().for_each(|member| collect_strings(member, key, strings));
        }
        Value::Array(items) => {
            for item in items {
                collect_strings(item, key, strings);
            }
        }
        _ => {}
    }
}

/// The alerting rules of all groups in a file of rules.
pub(crate) fn alerting_rules(file: &Value) -> impl Iterator<Item = &Value> {
    let groups = file["groups"].as_array().into_iter().flatten();
    groups.flat_map(|group| group["rules"].as_array().into_iter().flatten())
}

/// Returns the metrics and labels of a query that are not exported.
fn query_errors(query: &Query, exposition: &Exposition) -> Vec<String> {
    let mut errors = Vec::new();
    let mut all_labels = BTreeSet::from(TARGET_LABELS.map(ToOwned::to_owned));
    for (metric, matchers) in &query.selectors {
        let Some(labels) = exposition.series.get(metric) else {
            errors.push(format!("{metric} is not exported"));
            continue;
        };
        all_labels.extend(labels.iter().cloned());
        let is_known =
            |label: &String| labels.contains(label) || TARGET_LABELS.contains(&label.as_str());
        let unknown = matchers.iter().filter(|label| !is_known(label));
        errors.extend(unknown.map(|label| format!("{metric} has no label {label}")));
    }
    let unknown = query.grouping.iter().filter(|label| !all_labels.contains(*label));
    errors.extend(unknown.map(|label| format!("no label {label} to group by")));
    if query.selectors.is_empty() {
        errors.push("no metric".to_owned());
    }
    errors
}

/// Type and labels by metric, from the tables of the documentation.
fn documented_families() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let words =
        |cell: &str| cell.split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect::<Vec<_>>();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, kind, labels, ..] = cells.as_slice() else { return None };
        Some((
            words(name).into_iter().next()?,
            ((*kind).to_owned(), words(labels).into_iter().collect()),
        ))
    };
    DOCUMENTATION.lines().filter(|line| line.starts_with("| `")).filter_map(row).collect()
}

#[tokio::test]
async fn exported_metrics_match_documentation_dashboard_and_alerts() {
    let exposition = Exposition::parse(&scrape_controller().await);
    assert_eq!(exposition.families, documented_families());

    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let rules: Value = serde_saphyr::from_str(RULES).expect("YAML");
    let mut expressions = Vec::new();
    collect_strings(&dashboard, "expr", &mut expressions);
    let panel_query_count = expressions.len();
    collect_strings(&rules, "expr", &mut expressions);
    let alert_count = expressions.len() - panel_query_count;
    assert!(panel_query_count >= 18 && alert_count >= 11, "{expressions:#?}");
    let mut variables = Vec::new();
    collect_strings(&dashboard["templating"], "definition", &mut variables);
    expressions.extend(variables);
    for expression in expressions {
        let errors = query_errors(&Query::parse(expression), &exposition);
        assert!(errors.is_empty(), "{expression}: {errors:?}");
    }
}

#[test]
fn unknown_metrics_and_labels_of_a_query_are_detected() {
    let exposition = Exposition::parse(
        "# TYPE a_total counter\na_total{x=\"1\"} 3\n# TYPE b gauge\nb{y=\"}{\",z=\"\"} 1\n",
    );
    let errors = |query: &str| query_errors(&Query::parse(query), &exposition);
    assert_eq!(
        errors("sum by (x, job) (rate(a_total{x=~\"c\"}[5m])) / on(x) group_left max(b) > 1"),
        [""; 0]
    );
    assert_eq!(errors("rate(c_total[5m] offset 1h)"), ["c_total is not exported"]);
    assert_eq!(errors("a_total{y!=\"a\", x=\"rate(q)\"}"), ["a_total has no label y"]);
    assert_eq!(errors("sum(a_total) by (y)"), ["no label y to group by"]);
    assert_eq!(errors("label_values(b{z=\"1\"}, q)"), ["no label q to group by"]);
}
