//! Names, namespaces and selectors can't break out of the quotes of a query.
#![no_main]

use hpa_calc::Selector;
use hpa_metrics::resource::{ApiResource, ApiResources, GroupResource};
use hpa_prometheus::rules::{
    Compat,
    config::{OverrideTarget, ResourceMapping},
    labels::ResourceLabels,
    query::{ObjectQuery, QueriedObjects, QueryContext, QueryTemplate},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str, Vec<String>)| {
    let (selector, namespace, names) = input;
    let Ok(selector) = Selector::parse(selector) else { return };
    let resource = |kind: &str| ApiResource {
        group_resource: GroupResource::new("", &format!("{kind}s")),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        singular: kind.to_owned(),
    };
    let resources = ApiResources::new([resource("pod"), resource("namespace")]);
    let target = |name: &str| OverrideTarget { group: String::new(), resource: name.to_owned() };
    let mut mapping = ResourceMapping::default();
    for name in ["pod", "namespace"] {
        mapping.overrides.set(name.to_owned(), target(name));
    }
    let labels = ResourceLabels::new(&mapping, &resources).expect("valid");
    let template = QueryTemplate::new("<<.LabelMatchers>>").expect("valid");

    for compat in [Compat::Off, Compat::Reference] {
        let context = QueryContext { labels: &labels, resources: &resources, compat };
        let objects = QueriedObjects { resource: &GroupResource::pods(), namespace, names: &names };
        let query = ObjectQuery {
            template: &template,
            series: "m",
            objects,
            selector: &selector,
            extra_label: None,
            context,
        };
        let Ok(query) = query.render() else { continue };
        // One more matcher selects the names.
        let expected = selector.requirements().len() + usize::from(!namespace.is_empty()) + 1;
        assert_eq!(count_matchers(&query), expected, "{query}");
    }
});

/// Counts the label matchers. Panics if a value breaks out of its quotes.
fn count_matchers(mut query: &str) -> usize {
    let mut count = 0;
    loop {
        let (label, rest) = query.split_once('"').expect("an opening quote");
        assert!(!label.contains(['{', '}', '\\', '\n']), "{label}");
        let mut is_escaped = false;
        let end = rest.find(|char| {
            let ends = char == '"' && !is_escaped;
            is_escaped = char == '\\' && !is_escaped;
            ends
        });
        let (_, rest) = rest.split_at(end.expect("a closing quote"));
        count += 1;
        match rest.strip_prefix("\",") {
            Some(rest) => query = rest,
            None => {
                assert_eq!(rest, "\"");
                return count;
            }
        }
    }
}
