//! Selectors for the series that rules read.

use hpa_calc::go_text::Quoted;
use hpa_prometheus::{
    promql::{self, Node},
    rules::query::selects_objects,
    source::RuleInspection,
};

/// A selector for the series with a name that an external rule reads for a namespace.
pub(super) fn external_selector(rule: &RuleInspection, series: &str, namespace: &str) -> String {
    let is_selected = selects_namespace(rule);
    let added = is_selected.then(|| equality_matcher(&namespace_label(rule), namespace));
    selector_with(&rule.definition.series_query, series, |_| true, added)
}

/// A selector for the series with a name that a rule reads: with the matchers of `seriesQuery`, and
/// only series that have all `labels`.
pub(super) fn selector(series_query: &str, series: &str, labels: &[&str]) -> String {
    let added = labels.iter().map(|label| presence_matcher(label));
    selector_with(series_query, series, |_| true, added)
}

/// A selector for the series of a namespace that lack `label`, with the matchers of `seriesQuery`
/// about other labels.
pub(super) fn selector_without(
    label: &str,
    series_query: &str,
    series: &str,
    (namespace_label, namespace): (&str, &str),
) -> String {
    let added = [equality_matcher(namespace_label, namespace), equality_matcher(label, "")];
    selector_with(series_query, series, |name| name != label, added)
}

/// A matcher for series with a label.
pub(super) fn presence_matcher(label: &str) -> String {
    format!("{}!=\"\"", label_name(label))
}

/// A matcher for series with this value of a label.
pub(crate) fn equality_matcher(label: &str, value: &str) -> String {
    format!("{}={}", label_name(label), Quoted(value))
}

/// The name of a label as PromQL has it. Prometheus 3 accepts any name in quotes.
pub(super) fn label_name(name: &str) -> String {
    let is_plain = name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
        && !name.starts_with(|c: char| c.is_ascii_digit());
    if is_plain { name.to_owned() } else { Quoted(name).to_string() }
}

/// A selector for the series with a name, with the matchers of `seriesQuery` about the kept labels,
/// and those of `added`.
pub(super) fn selector_with(
    series_query: &str,
    series: &str,
    is_kept: impl Fn(&str) -> bool,
    added: impl IntoIterator<Item = String>,
) -> String {
    let mut matchers = vec![format!("__name__={}", Quoted(series))];
    if let Ok(promql::Expr { node: Node::Selector(selector), .. }) = promql::parse(series_query) {
        let others = selector.matchers.iter().filter(|matcher| matcher.label != "__name__");
        let kept = others.filter(|matcher| is_kept(matcher.label));
        matchers.extend(kept.map(|matcher| matcher.source.to_owned()));
    }
    matchers.extend(added);
    format!("{{{}}}", matchers.join(","))
}

/// Whether the query of an external rule selects the namespace of a request.
pub(super) fn selects_namespace(rule: &RuleInspection) -> bool {
    let definition = &rule.definition;
    definition.resources.namespaced != Some(false) && selects_objects(&definition.metrics_query)
}

/// The namespace label of an external rule.
pub(super) fn namespace_label(rule: &RuleInspection) -> String {
    let resources = &rule.definition.resources;
    let mut overrides = resources.overrides.iter();
    let namespace_override = overrides.find(|(_, target)| {
        ["namespace", "namespaces"].contains(&target.resource.as_str()) && target.group.is_empty()
    });
    match namespace_override {
        Some((label, _)) => label.to_owned(),
        None if resources.template.is_empty() => "namespace".to_owned(),
        None => resources.template.replace("<<.Resource>>", "namespace"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selector_has_the_escapes_of_promql() {
        let selector = selector("m", "a\u{200b}", &["pod", "app/name"]);
        assert_eq!(selector, "{__name__=\"a\\u200b\",pod!=\"\",\"app/name\"!=\"\"}");
        let selector = selector_without("app/name", "m", "a", ("app/ns", "b"));
        assert_eq!(selector, "{__name__=\"a\",\"app/ns\"=\"b\",\"app/name\"=\"\"}");
    }
}
