//! What the controller exports when it runs, against what the documentation, the dashboard and the alerts say it does.

mod cluster;
mod exposition;
mod queries;

use std::collections::{BTreeMap, BTreeSet};

use cluster::exported;
use exposition::Exposition;
use queries::Query;

const DASHBOARD: &str = include_str!("../../../../charts/hpa-controller/files/dashboard.json");
const RULES: &str = include_str!("../../../../charts/hpa-controller/files/rules.yaml");
const DOCUMENTED: &str = include_str!("../../../../docs/metrics.md");

/// What Prometheus adds to each series by where it was scraped.
const TARGET_LABELS: [&str; 3] = ["job", "pod", "instance"];

/// Every text under a key, however deep.
fn texts<'a>(value: &'a serde_json::Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        serde_json::Value::Object(members) => {
            found.extend(members.get(key).and_then(serde_json::Value::as_str));
            members.values().for_each(|member| texts(member, key, found));
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| texts(item, key, found)),
        _ => {}
    }
}

/// What is wrong with a query, given what is exported.
fn faults(query: &Query, exposition: &Exposition) -> Vec<String> {
    let mut faults = Vec::new();
    let mut all_labels = BTreeSet::from(TARGET_LABELS.map(ToOwned::to_owned));
    for (metric, matchers) in &query.selectors {
        let Some(labels) = exposition.series.get(metric) else {
            faults.push(format!("{metric} is not exported"));
            continue;
        };
        all_labels.extend(labels.iter().cloned());
        let known =
            |label: &String| labels.contains(label) || TARGET_LABELS.contains(&label.as_str());
        let unknown = matchers.iter().filter(|label| !known(label));
        faults.extend(unknown.map(|label| format!("{metric} has no label {label}")));
    }
    let unknown = query.grouping.iter().filter(|label| !all_labels.contains(*label));
    faults.extend(unknown.map(|label| format!("there is no label {label} to group by")));
    if query.selectors.is_empty() {
        faults.push("no metric is named".to_owned());
    }
    faults
}

/// The rows of the table: a metric's type and labels.
fn documented() -> BTreeMap<String, (String, BTreeSet<String>)> {
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
    DOCUMENTED.lines().filter(|line| line.starts_with("| `")).filter_map(row).collect()
}

#[tokio::test]
async fn what_is_exported_is_what_is_documented_and_queried() {
    let exposition = Exposition::parse(&exported().await);
    assert_eq!(exposition.families, documented());

    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let rules: serde_json::Value = serde_saphyr::from_str(RULES).expect("YAML");
    let mut expressions = Vec::new();
    texts(&dashboard, "expr", &mut expressions);
    let panels = expressions.len();
    texts(&rules, "expr", &mut expressions);
    assert!(panels >= 18 && expressions.len() >= panels + 11, "{expressions:#?}");
    let mut variables = Vec::new();
    texts(&dashboard["templating"], "definition", &mut variables);
    expressions.extend(variables);
    for expression in expressions {
        let faults = faults(&Query::parse(expression), &exposition);
        assert!(faults.is_empty(), "{expression}: {faults:?}");
    }
}

#[test]
fn query_that_fits_nothing_is_found_out() {
    let exposition = Exposition::parse(
        "# TYPE a_total counter\na_total{x=\"1\"} 3\n# TYPE b gauge\nb{y=\"}{\",z=\"\"} 1\n",
    );
    let faults = |query: &str| faults(&Query::parse(query), &exposition);
    assert_eq!(
        faults("sum by (x, job) (rate(a_total{x=~\"c\"}[5m])) / on(x) group_left max(b) > 1"),
        [""; 0]
    );
    assert_eq!(faults("rate(c_total[5m] offset 1h)"), ["c_total is not exported"]);
    assert_eq!(faults("a_total{y!=\"a\", x=\"rate(q)\"}"), ["a_total has no label y"]);
    assert_eq!(faults("sum(a_total) by (y)"), ["there is no label y to group by"]);
    assert_eq!(faults("label_values(b{z=\"1\"}, q)"), ["there is no label q to group by"]);
}
