use rstest::rstest;

use super::*;
use crate::rules::config::{OverrideTarget, ResourceMapping};
use hpa_metrics::test_doubles::resources;

const TEMPLATE: &str = "<<.Series>>{<<.LabelMatchers>>} by (<<.GroupBy>>)";

fn mapping(overrides: &[(&str, &str)]) -> ResourceMapping {
    let mut mapping = ResourceMapping::default();
    for (label, resource) in overrides {
        let target = OverrideTarget { group: String::new(), resource: (*resource).to_owned() };
        mapping.overrides.set((*label).to_owned(), target);
    }
    mapping
}

fn pods_query(
    template: &str,
    names: &[&str],
    selector: &str,
    compat: Compat,
) -> Result<String, QueryError> {
    let resources = resources();
    let mapping = mapping(&[("namespace", "namespace"), ("pod", "pod")]);
    let labels = ResourceLabels::new(&mapping, &resources).unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let pods = GroupResource::pods();
    let objects = QueriedObjects { resource: &pods, namespace: "shop", names: &names };
    let query = ObjectQuery {
        template: &QueryTemplate::new(template).unwrap(),
        series: "m",
        objects,
        selector: &Selector::parse(selector).unwrap(),
        extra_label: None,
        context: QueryContext { labels: &labels, resources: &resources, compat },
    };
    query.render()
}

#[rstest]
#[case::one_name(&["a"], "", r#"m{namespace="shop",pod="a"} by (pod)"#)]
#[case::several_names(&["a", "b"], "", r#"m{namespace="shop",pod=~"a|b"} by (pod)"#)]
#[case::selector_first(
    &["a"],
    "z=1,app!=x,tier in (b,a),env,!old,v notin (1)",
    r#"m{app!="x",env!="",old="",tier=~"a|b",v!~"1",z="1",namespace="shop",pod="a"} by (pod)"#
)]
fn query_selects_objects(#[case] names: &[&str], #[case] selector: &str, #[case] expected: &str) {
    for compat in [Compat::Off, Compat::Reference] {
        assert_eq!(pods_query(TEMPLATE, names, selector, compat).unwrap(), expected);
    }
}

#[rstest]
#[case::off(Compat::Off, r#"m{app=~"x[.]y",namespace="shop",pod=~"a[.]b|c"} by (pod)"#)]
#[case::reference(Compat::Reference, r#"m{app=~"x.y",namespace="shop",pod=~"a.b|c"} by (pod)"#)]
fn dots_are_escaped_without_compatibility(#[case] compat: Compat, #[case] expected: &str) {
    assert_eq!(pods_query(TEMPLATE, &["a.b", "c"], "app in (x.y)", compat).unwrap(), expected);
}

#[test]
fn one_name_with_a_dot_is_compared_exactly() {
    let query = pods_query(TEMPLATE, &["a.b"], "", Compat::Off).unwrap();
    assert_eq!(query, r#"m{namespace="shop",pod="a.b"} by (pod)"#);
}

#[rstest]
#[case::operator(TEMPLATE, "a>5", "operator not supported by prometheus")]
#[case::empty("<<if false>>x<<end>>", "", "empty query produced by metrics query template")]
#[case::field(
    "<<.Serie>>",
    "",
    "template: metrics-query:1:2: executing \"metrics-query\" at <.Serie>: can't evaluate field \
     Serie in type naming.queryTemplateArgs"
)]
fn unsupported_queries_are_errors(
    #[case] template: &str,
    #[case] selector: &str,
    #[case] expected: &str,
) {
    let error = pods_query(template, &["a"], selector, Compat::Off).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn external_query_has_no_group_by() {
    let resources = resources();
    let labels = ResourceLabels::new(&mapping(&[("ns", "namespace")]), &resources).unwrap();
    let context = QueryContext { labels: &labels, resources: &resources, compat: Compat::Off };
    let template =
        QueryTemplate::new("<<.Series>>{<<.LabelMatchers>>} <<.GroupBySlice>><<.GroupBy>>");
    let template = template.unwrap();
    let selector = Selector::parse("queue=a").unwrap();
    assert_eq!(
        template.for_external("m", "shop", &selector, context).unwrap(),
        r#"m{queue="a",ns="shop"} []"#
    );
    assert_eq!(template.for_external("m", "", &selector, context).unwrap(), r#"m{queue="a"} []"#);
}
