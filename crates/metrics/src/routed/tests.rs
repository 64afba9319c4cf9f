use hpa_calc::{MilliValue, Quantity, Selector, api::ResourceName, readings::MetricQuery};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use super::*;
use crate::{
    CustomQuery, ObjectKey, ObjectKind, Objects,
    objects::ObjectMetadata,
    query::ExternalQuery,
    resource::GroupResource,
    test_doubles::{FixedObjects, FixedSource, external_value, value},
    test_support::{self, kinds},
    values::{NoValue, OmittedSample},
    wire::{ContainerMetrics, ItemMeta, PodMetrics},
};

fn source(metrics: &[(&str, &str)]) -> Arc<dyn MetricSource> {
    let external = metrics.iter().map(|(metric, quantity)| {
        ((*metric).to_owned(), "shop".to_owned(), external_value(None, quantity))
    });
    let groups = ApiGroups { external: true, ..ApiGroups::default() };
    Arc::new(FixedSource { groups, external: external.collect(), ..FixedSource::default() })
}

fn external(metric: &str) -> Query {
    Query::External(ExternalQuery {
        namespace: "shop".to_owned(),
        metric: metric.to_owned(),
        metric_selector: Selector::everything(),
    })
}

async fn read(routed: &Routed, metric: &str) -> Result<String, MetricError> {
    let values = routed.read(&external(metric)).await?.into_external()?;
    Ok(Quantity::from(values.items[0].value).to_string())
}

#[tokio::test]
async fn first_source_that_has_a_metric_answers() {
    let first = source(&[("queue", "1")]);
    let routed = Routed::new(vec![first, source(&[("queue", "2"), ("lag", "3")])]);
    assert_eq!(read(&routed, "queue").await.unwrap(), "1");
    assert_eq!(read(&routed, "lag").await.unwrap(), "3");
    let error = read(&routed, "other").await.unwrap_err();
    assert_eq!(error.to_string(), "no such metric: external metric other is not registered");
    let listed: Vec<_> = routed.external_metrics().into_iter().map(|entry| entry.metric).collect();
    assert_eq!(listed, ["lag", "queue"]);
}

#[tokio::test]
async fn api_without_a_source_has_no_metrics() {
    let routed = Routed::new(vec![source(&[])]);
    let query = Query::Custom(CustomQuery {
        resource: GroupResource::pods(),
        namespace: "shop".to_owned(),
        objects: Objects::Named("web-0".to_owned()),
        metric: "rps".to_owned(),
        metric_selector: Selector::everything(),
    });
    let error = routed.read(&query).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    assert!(!routed.groups().custom && routed.groups().external);
}

/// Counts its queries, and fails.
#[derive(Default)]
struct Next(Arc<Mutex<usize>>);

#[async_trait]
impl MetricSource for Next {
    async fn read(&self, _: &Query) -> Result<Values, MetricError> {
        *self.0.lock() += 1;
        Err(MetricError::NoCustomApi)
    }
}

fn rules() -> FixedSource {
    let kind = |group: &str, plural: &str, kind: &str| ObjectKind {
        resource: GroupResource::new(group, plural),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
    };
    let pod = |name: &str, app: &str| {
        let metadata = ObjectMetadata {
            key: ObjectKey::new("shop", name),
            labels: [("app", app)].into_iter().collect(),
        };
        (GroupResource::pods(), metadata)
    };
    let custom = |kind, namespace: &str, name: &str, quantity: &str| {
        (kind, "rps".to_owned(), namespace.to_owned(), value(name, quantity))
    };
    let usage = [(ResourceName::Cpu, MilliValue::from_milli(250))];
    FixedSource {
        groups: ApiGroups::ALL,
        custom: vec![
            custom(kind("", "pods", "Pod"), "shop", "web-0", "1500m"),
            custom(kind("", "pods", "Pod"), "shop", "api-0", "7"),
            custom(kind("apps", "deployments", "Deployment"), "shop", "main", "9"),
            custom(kind("", "namespaces", "Namespace"), "", "shop", "11"),
        ],
        external: vec![(
            "queue".to_owned(),
            "shop".to_owned(),
            external_value(Some(&[("q", "mail")]), "3"),
        )],
        pods: vec![PodMetrics {
            metadata: ItemMeta {
                name: "web-0".into(),
                namespace: "shop".into(),
                labels: [("app", "web")].into_iter().collect(),
            },
            timestamp: Timestamp::UNIX_EPOCH,
            window: SignedDuration::from_secs(60),
            containers: vec![ContainerMetrics {
                name: "app".into(),
                usage: usage.into_iter().collect(),
            }],
        }],
        objects: FixedObjects {
            objects: vec![pod("web-0", "web"), pod("api-0", "api")],
            ..FixedObjects::default()
        },
        ..FixedSource::default()
    }
}

/// The answer to a metric of an autoscaler, and the number of queries to the next source.
async fn read_with_fallback(
    source: FixedSource,
    metric: MetricQuery,
) -> (Result<Values, MetricError>, usize) {
    let next = Next::default();
    let next_queries = next.0.clone();
    let pods = Selector::parse("app=web").unwrap();
    let query = Query::for_metric("shop", &pods, &metric, &kinds()).await;
    let result = match query {
        Ok(query) => Fallback::new(Arc::new(source), next).read(&query).await,
        Err(error) => Err(error),
    };
    let next_queries = *next_queries.lock();
    (result, next_queries)
}

fn pods(metric: &str) -> MetricQuery {
    let metric_selector = Selector::everything();
    MetricQuery::Pods { metric: metric.to_owned(), metric_selector }
}

fn object(api_version: &str, kind: &str, name: &str) -> MetricQuery {
    MetricQuery::Object {
        object: test_support::object(api_version, kind, name),
        metric: "rps".to_owned(),
        metric_selector: Selector::everything(),
    }
}

fn cpu() -> MetricQuery {
    MetricQuery::Resource { resource: ResourceName::Cpu, container: None }
}

#[tokio::test]
async fn values_of_selected_pods_come_from_the_first_source() {
    let (values, next_queries) = read_with_fallback(rules(), pods("rps")).await;
    let items = values.unwrap().into_custom().unwrap().items;
    assert_eq!((items.len(), &*items[0].object), (1, "web-0"));
    assert_eq!(items[0].value, MilliValue::from_milli(1500));
    assert_eq!(next_queries, 0);
}

#[tokio::test]
async fn unknown_metrics_come_from_the_next_source() {
    assert_eq!(read_with_fallback(rules(), pods("other")).await.1, 1);
    let without_resource_rules =
        FixedSource { groups: ApiGroups { resource: false, ..rules().groups }, ..rules() };
    assert_eq!(read_with_fallback(without_resource_rules, cpu()).await.1, 1);
}

#[tokio::test]
async fn error_of_the_next_source_has_the_reason_of_the_first_one() {
    let error = read_with_fallback(rules(), pods("other")).await.0.unwrap_err();
    let text = "no value of other is fixed, and reading it from a metrics API failed: no \
                custom metrics API (custom.metrics.k8s.io) registered";
    assert_eq!(crate::describe(&error), text);
    // Without a reason, the error is that of the metrics API alone.
    let groups = ApiGroups { resource: false, ..rules().groups };
    let without_usage = FixedSource { groups, ..rules() };
    let error = read_with_fallback(without_usage, cpu()).await.0.unwrap_err();
    assert!(matches!(error, MetricError::NoCustomApi), "{error}");
    let two = Routed::new(vec![source(&[("a", "1")]), source(&[])]);
    let absence = "no value of c is fixed, and no value of c is fixed";
    assert_eq!(two.absence(&external("c")).as_deref(), Some(absence));
}

#[test]
fn external_metric_without_a_value_is_an_error_of_the_first_source() {
    let origin = |query: &str| Origin {
        rule: "externalRules[0]".to_owned(),
        query: query.to_owned(),
        ..Origin::default()
    };
    let nan = OmittedSample { subject: "{}".to_owned(), reason: NoValue::NotANumber };
    for (query, omitted, expected) in [
        ("sum(a)", vec![], "no value: the query sum(a) has no result"),
        ("", vec![], "no value: externalRules[0] returned none"),
        (
            "sum(a)",
            vec![nan],
            "no value: the query sum(a) has no usable value: the sample is not a number (NaN)",
        ),
    ] {
        let values = ExternalValues { items: Vec::new(), omitted, origin: origin(query) };
        let error = require_value(Values::External(values)).unwrap_err();
        assert_eq!(crate::describe(&error), expected);
    }
    let error = require_value(Values::External(ExternalValues::default())).unwrap_err();
    assert_eq!(crate::describe(&error), "no value: the source returned none");
}

#[test]
fn metric_of_pods_without_a_value_is_an_error_with_the_query() {
    let values = |query: String, omitted| {
        let origin = Origin { rule: "rules[0]".to_owned(), query, ..Origin::default() };
        Values::Custom(CustomValues { omitted, origin, ..CustomValues::default() })
    };
    let error = |query: String, omitted| {
        crate::describe(&require_value(values(query, omitted)).unwrap_err())
    };
    let text = "no value: the query sum(a) by (pod) has no result for these pods";
    assert_eq!(error("sum(a) by (pod)".to_owned(), Vec::new()), text);
    let nan = OmittedSample { subject: "web-0".to_owned(), reason: NoValue::NotANumber };
    let text = "no value: the query a has no usable value: the sample is not a number (NaN)";
    assert_eq!(error("a".to_owned(), vec![nan]), text);
    let long = error("x".repeat(10_000), Vec::new());
    assert!(long.len() < 400 && long.ends_with(" has no result for these pods"), "{long}");
    // A collector without a query returns an empty list if there are no pods.
    assert!(require_value(values(String::new(), Vec::new())).is_ok());
}

#[test]
fn usage_of_pods_without_a_result_is_an_error_with_the_query() {
    let usage = |query: Option<&str>, failures| {
        let query_without_result = query.map(str::to_owned);
        Values::PodMetrics(UsageList { items: Vec::new(), failures, query_without_result })
    };
    let error = require_value(usage(Some("sum(c)"), Vec::new())).unwrap_err();
    let text = "no value: the query sum(c) has no result for these pods";
    assert_eq!(crate::describe(&error), text);
    // Without pods, there is no query. A failure of another query is the error.
    assert!(require_value(usage(None, Vec::new())).is_ok());
    let failure = MetricError::from_fetch_error(std::io::Error::other("boom"));
    assert!(require_value(usage(Some("sum(c)"), vec![failure])).is_ok());
}

#[tokio::test]
async fn error_of_the_first_source_is_the_answer() {
    let broken = FixedSource {
        error: Some(MetricError::from_fetch_error(std::io::Error::other("boom"))),
        ..rules()
    };
    let (result, next_queries) = read_with_fallback(broken, pods("rps")).await;
    assert_eq!(crate::describe(&result.unwrap_err()), "unable to fetch metrics: boom");
    assert_eq!(next_queries, 0);
}

#[tokio::test]
async fn undiscovered_source_answers_503_for_metrics_it_may_have() {
    let unready = || FixedSource { problems: vec!["no rules".to_owned()], ..rules() };
    for query in [cpu(), pods("other")] {
        let (result, next_queries) = read_with_fallback(unready(), query).await;
        let error = result.unwrap_err();
        assert!(matches!(error, MetricError::Status { code: 503, .. }), "{error}");
        let text = "the metrics of sources in this process are not discovered yet: no rules";
        assert_eq!((error.to_string().as_str(), next_queries), (text, 0));
    }
    assert!(read_with_fallback(unready(), pods("rps")).await.0.is_ok());
    let no_custom = ApiGroups { custom: false, ..rules().groups };
    let unready = FixedSource { groups: no_custom, custom: Vec::new(), ..unready() };
    assert_eq!(read_with_fallback(unready, pods("rps")).await.1, 1);
}

#[test]
fn only_undiscovered_sources_are_named() {
    let source = |problems: &[&str]| -> Arc<dyn MetricSource> {
        let problems = problems.iter().map(|&problem| problem.to_owned()).collect();
        Arc::new(FixedSource { problems, ..rules() })
    };
    let routed = Routed::new(vec![source(&[]), source(&["no rules", "no file"])]);
    let text = "the metrics of sources in this process are not discovered yet: no rules; no file";
    let query = external("queue");
    assert_eq!(routed.undiscovered(&query).as_deref(), Some(text));
    assert_eq!(Routed::new(vec![source(&[])]).undiscovered(&query), None);
}

#[tokio::test]
async fn objects_external_metrics_and_usage_come_from_the_first_source() {
    for (object, expected) in [
        (object("apps/v1", "Deployment", "main"), 9),
        // The name of a Namespace is ignored.
        (object("v1", "Namespace", "elsewhere"), 11),
    ] {
        let (values, _) = read_with_fallback(rules(), object).await;
        let items = values.unwrap().into_custom().unwrap().items;
        assert_eq!(items[0].value, MilliValue::from_units(expected));
    }
    // `Selector::nothing` is the selector of a metric without one.
    for metric_selector in [Selector::everything(), Selector::nothing()] {
        let query = MetricQuery::External { metric: "queue".to_owned(), metric_selector };
        let (values, _) = read_with_fallback(rules(), query).await;
        let items = values.unwrap().into_external().unwrap().items;
        let labels: Vec<_> = items[0].labels.as_ref().unwrap().pairs().collect();
        assert_eq!(labels, [("q", "mail")]);
    }
    let (values, _) = read_with_fallback(rules(), cpu()).await;
    let items = values.unwrap().into_pods().unwrap().items;
    assert_eq!((items.len(), &*items[0].metadata.name), (1, "web-0"));
}
