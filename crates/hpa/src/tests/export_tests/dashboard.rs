//! Tests of the Grafana dashboard: Grafana's model, and the panels that alerts link to.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{DASHBOARD, RULES, alerting_rules, collect_strings, queries::Query};

/// Columns of Grafana's grid.
const COLUMNS: u64 = 24;
/// The variable that every panel with queries uses as its data source.
const DATA_SOURCE: &str = "${datasource}";
/// The Grafana units that the dashboard uses.
const UNITS: [&str; 6] = ["short", "none", "s", "ops", "reqps", "percentunit"];

/// Returns the mistakes that Grafana would reject or render wrongly.
fn dashboard_errors(dashboard: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    for field in ["title", "uid"] {
        if text(dashboard, field).is_empty() {
            errors.push(format!("no {field}"));
        }
    }
    if dashboard["schemaVersion"].as_u64().is_none_or(|version| version < 36) {
        errors.push("schemaVersion is too old".to_owned());
    }
    let panels = panels(dashboard);
    if panels.first().is_none_or(|panel| panel["type"] != "row") {
        errors.push("the first panel is not a row".to_owned());
    }
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeMap::new());
    for panel in panels {
        let title = text(panel, "title");
        let mut panel_errors = panel_errors(panel);
        if !panel["id"].as_u64().is_some_and(|id| id > 0 && ids.insert(id)) {
            panel_errors.push("id is missing or a duplicate".to_owned());
        }
        panel_errors.extend(position_errors(panel, &mut cells));
        errors.extend(panel_errors.into_iter().map(|error| format!("{title}: {error}")));
    }
    errors.extend(variable_errors(dashboard));
    errors
}

fn panels(dashboard: &Value) -> &[Value] {
    dashboard["panels"].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn panel_errors(panel: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    if text(panel, "title").is_empty() {
        errors.push("no title".to_owned());
    }
    match text(panel, "type") {
        // The panels of an expanded row follow the row instead of being in it.
        "row" if panel["collapsed"] == false && panel["panels"] == Value::Array(vec![]) => {
            return errors;
        }
        "timeseries" => {}
        "stat" if panel["options"]["reduceOptions"]["calcs"].as_array().is_some() => {
            errors.extend(threshold_errors(&panel["fieldConfig"]["defaults"]["thresholds"]));
        }
        kind => errors.push(format!("incomplete panel of type {kind:?}")),
    }
    let defaults = &panel["fieldConfig"]["defaults"];
    if !UNITS.contains(&text(defaults, "unit")) {
        errors.push(format!("unknown unit {}", defaults["unit"]));
    }
    if defaults.get("custom").is_some_and(|custom| custom["thresholdsStyle"]["mode"] == "line") {
        errors.extend(threshold_errors(&defaults["thresholds"]));
    }
    let targets = panel["targets"].as_array().map_or(&[][..], Vec::as_slice);
    let mut references = BTreeSet::new();
    for target in targets {
        if text(target, "expr").is_empty() || !references.insert(text(target, "refId")) {
            errors.push("a target has no expr or a duplicate refId".to_owned());
        }
    }
    let has_other_source = |part: &Value| {
        part["datasource"]["type"] != "prometheus" || part["datasource"]["uid"] != DATA_SOURCE
    };
    if targets.is_empty() || targets.iter().chain([panel]).any(has_other_source) {
        errors.push("no target, or another data source".to_owned());
    }
    errors
}

/// The first step must have no value (minus infinity), and the others must ascend.
fn threshold_errors(thresholds: &Value) -> Option<String> {
    let steps = thresholds["steps"].as_array().map_or(&[][..], Vec::as_slice);
    let values: Vec<Option<f64>> = steps.iter().map(|step| step["value"].as_f64()).collect();
    let is_ascending = values.first() == Some(&None)
        && values[1..].iter().all(Option::is_some)
        && values.windows(2).all(|pair| pair[0].is_none() || pair[0] < pair[1]);
    let has_colors = steps.iter().all(|step| !text(step, "color").is_empty());
    let is_valid = thresholds["mode"] == "absolute" && is_ascending && has_colors;
    (!is_valid).then(|| format!("invalid thresholds {thresholds}"))
}

/// The panel must be inside the grid and must not overlap another panel.
fn position_errors(panel: &Value, cells: &mut BTreeMap<(u64, u64), String>) -> Vec<String> {
    let position = ["x", "y", "w", "h"].map(|field| panel["gridPos"][field].as_u64());
    let [Some(x), Some(y), Some(w @ 1..), Some(h @ 1..)] = position else {
        return vec!["no gridPos".to_owned()];
    };
    if x + w > COLUMNS {
        return vec!["outside of the grid".to_owned()];
    }
    let positions = (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y)));
    let taken = positions.filter_map(|cell| cells.insert(cell, text(panel, "title").to_owned()));
    taken.collect::<BTreeSet<_>>().into_iter().map(|other| format!("overlaps {other}")).collect()
}

/// Queries must use only variables that the dashboard or Grafana defines.
fn variable_errors(dashboard: &Value) -> Vec<String> {
    let variables = dashboard["templating"]["list"].as_array().map_or(&[][..], Vec::as_slice);
    let defined: BTreeSet<&str> = variables
        .iter()
        .filter(|variable| matches!(text(variable, "type"), "datasource" | "query"))
        .map(|variable| text(variable, "name"))
        .chain(["__rate_interval"])
        .collect();
    let mut expressions = Vec::new();
    collect_strings(dashboard, "expr", &mut expressions);
    collect_strings(dashboard, "query", &mut expressions);
    collect_strings(dashboard, "uid", &mut expressions);
    let used = expressions.iter().flat_map(|text| text.split('$').skip(1)).map(|rest| {
        let rest = rest.trim_start_matches('{');
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        &rest[..end.unwrap_or(rest.len())]
    });
    let unknown: BTreeSet<&str> = used.filter(|name| !defined.contains(name)).collect();
    unknown.into_iter().map(|name| format!("unknown variable ${name}")).collect()
}

fn dashboard() -> Value {
    serde_json::from_str(DASHBOARD).expect("JSON")
}

#[test]
fn dashboard_follows_the_rules_of_grafana() {
    let dashboard = dashboard();
    assert_eq!(dashboard_errors(&dashboard), [""; 0]);
    let types: BTreeSet<&str> =
        panels(&dashboard).iter().map(|panel| text(panel, "type")).collect();
    assert_eq!(types, BTreeSet::from(["row", "stat", "timeseries"]));
}

#[test]
fn broken_dashboard_is_detected() {
    let changes: [(&str, Value, &str); 8] = [
        ("/panels/1/id", 20.into(), "id is missing or a duplicate"),
        ("/panels/1/gridPos/w", 4.into(), "overlaps"),
        ("/panels/1/gridPos/x", 23.into(), "outside of the grid"),
        ("/panels/1/type", "graph".into(), "incomplete panel of type \"graph\""),
        ("/panels/1/fieldConfig/defaults/unit", "furlong".into(), "unknown unit"),
        ("/panels/1/fieldConfig/defaults/thresholds/steps/2/value", 1.into(), "invalid thresholds"),
        ("/panels/1/targets/0/expr", "a{b=\"$c\"}".into(), "unknown variable $c"),
        ("/panels/1/targets/0/datasource/uid", "mine".into(), "another data source"),
    ];
    for (pointer, value, expected) in changes {
        let mut dashboard = dashboard();
        *dashboard.pointer_mut(pointer).expect("a field") = value;
        let errors = dashboard_errors(&dashboard);
        assert!(errors.iter().any(|error| error.contains(expected)), "{pointer}: {errors:?}");
    }
}

#[test]
fn every_alert_links_to_a_panel_with_its_metric() {
    let dashboard = dashboard();
    let rules: Value = serde_saphyr::from_str(RULES).expect("YAML");
    let alerts: Vec<&Value> = alerting_rules(&rules).collect();
    assert!(alerts.len() >= 11, "{alerts:?}");
    let metrics = |expression: &str| -> BTreeSet<String> {
        Query::parse(expression).selectors.into_iter().map(|(metric, _)| metric).collect()
    };
    for alert in alerts {
        let (name, annotations) = (text(alert, "alert"), &alert["annotations"]);
        assert_eq!(annotations["__dashboardUid__"], dashboard["uid"], "{name}");
        let id: u64 = text(annotations, "__panelId__").parse().expect("a panel");
        let panel = panels(&dashboard).iter().find(|panel| panel["id"] == id).expect("a panel");
        let mut expressions = Vec::new();
        collect_strings(panel, "expr", &mut expressions);
        let in_panel: BTreeSet<String> = expressions.into_iter().flat_map(metrics).collect();
        let in_alert = metrics(text(alert, "expr"));
        assert!(!in_panel.is_disjoint(&in_alert), "{name}: {in_alert:?}, panel: {in_panel:?}");
    }
}
