use hpa_calc::Selector;
use rstest::rstest;

use super::*;
use crate::rules::{Compat, Config, RuleSet, Series};
use hpa_metrics::{
    CustomQuery, Objects, resource::GroupResource, source::ListedCustomMetric,
    test_doubles::resources,
};

/// The rules of a file with the series of each.
fn discover(config: &str, series: &[&[Series]]) -> Vec<DiscoveredRule> {
    let resources = resources();
    let rules = RuleSet::compile(&Config::parse(config).unwrap(), &resources);
    let rules = rules.custom.into_iter().chain(rules.external).map(Result::unwrap);
    let rules = rules.zip(series).enumerate().map(|(index, (rule, series))| {
        let series = RuleSeries::new(&rule, &resources, *series).into();
        DiscoveredRule { index, rule, series }
    });
    rules.collect()
}

fn custom_query(resource: GroupResource, metric: &str, namespace: &str) -> CustomQuery {
    CustomQuery {
        resource,
        namespace: namespace.to_owned(),
        objects: Objects::Selected(Selector::everything()),
        metric: metric.to_owned(),
        metric_selector: Selector::everything(),
    }
}

const PODS: &str =
    "resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}";

#[test]
fn metrics_are_listed_for_each_resource_in_the_labels() {
    let config = format!("rules: [{{{PODS}, name: {{matches: '^(.*)_total$'}}}}]");
    let seen = [
        Series::new("a_total", &["namespace", "pod", "code"]),
        Series::new("b_total", &["namespace"]),
        Series::new("c_total", &["code"]),
        Series::new("d", &["pod"]),
    ];
    let registry = CustomRegistry::new(&discover(&config, &[&seen]));
    let listed = |resource, metric: &str, is_namespaced| ListedCustomMetric {
        resource,
        metric: metric.to_owned(),
        is_namespaced,
    };
    let expected = [
        listed(GroupResource::namespaces(), "a", false),
        listed(GroupResource::pods(), "a", true),
        listed(GroupResource::namespaces(), "b", false),
    ];
    assert_eq!(registry.metrics().collect::<Vec<_>>(), expected);
}

#[test]
fn last_rule_with_a_metric_takes_precedence() {
    let config = format!(
        "rules:\n- {{{PODS}, name: {{as: m}}}}\n- {{{PODS}, name: {{as: m}}}}\n- {{{PODS}}}\n"
    );
    let first = [Series::new("a", &["pod"]), Series::new("a", &["namespace"])];
    let second = [Series::new("b", &["pod"])];
    let registry = CustomRegistry::new(&discover(&config, &[&first, &second, &[]]));
    let pods = registry.metric_rule(&GroupResource::pods(), "m").unwrap();
    assert_eq!((pods.index, &*pods.series), (1, "b"));
    let namespaces = registry.metric_rule(&GroupResource::namespaces(), "m").unwrap();
    assert_eq!((namespaces.index, &*namespaces.series), (0, "a"));
}

/// The time must not grow with the square of the number of label sets.
#[test]
fn many_label_sets_of_one_name_are_read_quickly() {
    let resources = resources();
    let config = Config::parse(&format!("rules: [{{{PODS}}}]")).unwrap();
    let rule = RuleSet::compile(&config, &resources).custom.remove(0).unwrap();
    let labels: Vec<String> = (0..50_000).map(|index| format!("l{index}")).collect();
    let start = std::time::Instant::now();
    let mut builder = RuleSeries::builder(&rule, &resources);
    for label in labels.iter().chain(&labels) {
        builder.add("m", [label.as_str()]);
    }
    assert_eq!(builder.distinct_pair_count(), labels.len());
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}

#[rstest]
#[case::two(&["a", "b"], "b")]
#[case::first_again(&["a", "b", "a"], "a")]
#[case::same_again(&["a", "a", "b", "b"], "b")]
fn last_series_with_a_metric_takes_precedence(#[case] names: &[&str], #[case] expected: &str) {
    let config =
        format!("rules: [{{{PODS}, name: {{as: m}}}}]\nexternalRules: [{{name: {{as: m}}}}]");
    let seen: Vec<Series> = names.iter().map(|name| Series::new(name, &["pod"])).collect();
    let rules = discover(&config, &[&seen, &seen]);
    let custom = CustomRegistry::new(&rules[..1]);
    assert_eq!(&*custom.metric_rule(&GroupResource::pods(), "m").unwrap().series, expected);
    let external = ExternalRegistry::new(&rules[1..]);
    assert_eq!(&*external.metric_rule("m").unwrap().series, expected);
}

#[test]
fn custom_metric_is_found_by_any_name_of_its_resource() {
    let config = format!("rules: [{{{PODS}, metricsQuery: '<<.Series>>{{<<.LabelMatchers>>}}'}}]");
    let rules = discover(&config, &[&[Series::new("m", &["pod", "namespace"])]]);
    let registry = CustomRegistry::new(&rules);
    let resources = resources();
    let names = ["web".to_owned()];
    let query = |resource: &str, metric: &str, namespace: &str| {
        let request = custom_query(GroupResource::new("", resource), metric, namespace);
        let query = registry.query(&request, &names, &resources, Compat::Off);
        query.map_err(|error| error.to_string())
    };
    let expected = r#"m{namespace="shop",pod="web"}"#;
    assert_eq!(query("pods", "m", "shop").as_deref(), Ok(expected));
    assert_eq!(query("Pod", "m", "shop").as_deref(), Ok(expected));
    assert_eq!(query("namespaces", "m", "").as_deref(), Ok(r#"m{namespace="web"}"#));
    let unknown = |resource: &str| Err(format!("metric m is not registered for {resource}"));
    assert_eq!(query("pods", "m", ""), unknown("pods"));
    assert_eq!(query("services", "m", "shop"), unknown("services"));
    assert!(query("widgets", "m", "shop").unwrap_err().contains("no matches for"));
}

#[test]
fn request_without_names_has_no_query() {
    let request = custom_query(GroupResource::pods(), "m", "shop");
    let registry = CustomRegistry::default();
    let error = registry.query(&request, &[], &resources(), Compat::Off).unwrap_err();
    assert_eq!(error, CustomQueryError::NoNames);
}

#[test]
fn external_metrics_need_no_resource() {
    let config = "externalRules:\n\
        - {seriesQuery: a, metricsQuery: '<<.Series>>{<<.LabelMatchers>>}', \
           resources: {namespaced: false}}\n\
        - {seriesQuery: b, metricsQuery: x}\n";
    let rules = discover(config, &[&[Series::new("queue", &[])], &[Series::new("other", &[])]]);
    let registry = ExternalRegistry::new(&rules);
    let listed = |compat| {
        let metrics = registry.metrics(compat);
        metrics.map(|metric| (metric.metric, metric.is_namespaced)).collect::<Vec<_>>()
    };
    let expected = |queue| [("other".to_owned(), true), ("queue".to_owned(), queue)];
    assert_eq!(listed(Compat::Off), expected(false));
    assert_eq!(listed(Compat::Reference), expected(true));
    let query = |namespace, metric| {
        let MetricRule { rule, series, .. } = registry.metric_rule(metric).unwrap();
        let everything = Selector::everything();
        let query = rule.external_query(&series, namespace, &everything, &resources(), Compat::Off);
        query.map_err(|error| error.to_string())
    };
    assert_eq!(query("shop", "queue"), Ok("queue{}".to_owned()));
    assert_eq!(query("", "other"), Ok("x".to_owned()));
    assert!(query("shop", "other").unwrap_err().contains("no generic resource label form"));
    assert!(registry.metric_rule("none").is_none());
}
