//! Checks the names, queries and values of the recipes in docs/prometheus.md.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use hpa_calc::{
    Quantity, Selector,
    api::{ExternalMetricSource, MetricSpec},
};
use hpa_metrics::{
    CustomQuery, ExternalQuery, MetricSource as _, Objects, resource::GroupResource,
    wire::ItemLabels,
};
use hpa_prometheus::source::PrometheusSource;

use crate::{
    document::Recipe,
    reader::{NAMESPACE, Reader, compare, metric_names},
};

/// The expected results of a recipe.
struct Expected {
    title: &'static str,
    /// The metrics in discovery.
    metrics: &'static [&'static str],
    query: &'static str,
    /// Values by object, or by label of an external metric.
    values: &'static [(&'static str, f64)],
}

const EXPECTED: &[Expected] = &[
    Expected {
        title: "Requests per second",
        metrics: &["namespaces/http_requests_per_second", "pods/http_requests_per_second"],
        query: "sum by (pod) (rate(http_request_duration_seconds_count\
                {namespace=\"shop\",pod=~\"web-1|web-2|web-3\"}[2m]))",
        values: &[("web-1", 20.0), ("web-2", 30.0)],
    },
    Expected {
        title: "Queue length",
        metrics: &["queue_messages_ready"],
        query: "max by (queue) (rabbitmq_queue_messages_ready\
                {queue=\"orders\",namespace=\"shop\"})",
        values: &[("orders", 120.0)],
    },
    Expected {
        title: "Ratio",
        metrics: &["namespaces/worker_utilization", "pods/worker_utilization"],
        query: "sum by (pod) (worker_threads_busy{namespace=\"shop\",pod=~\"web-1|web-2|web-3\"}) \
                / sum by (pod) (worker_threads{namespace=\"shop\",pod=~\"web-1|web-2|web-3\"})",
        // `web-3` is 0 / 0.
        values: &[("web-1", 0.75), ("web-2", 0.25)],
    },
    Expected {
        title: "99th percentile",
        metrics: &[
            "namespaces/http_request_duration_p99_seconds",
            "services/http_request_duration_p99_seconds",
        ],
        query: "histogram_quantile(0.99,\n  sum by (service, le) \
                (rate(http_request_duration_seconds_bucket\
                {namespace=\"shop\",service=\"web\"}[5m])))",
        // Of 50 requests, 25 take up to 0.1 s and all up to 0.5 s.
        values: &[("web", 0.1 + 0.4 * (49.5 - 25.0) / 25.0)],
    },
    Expected {
        title: "Ingress",
        metrics: &[
            "ingresses.networking.k8s.io/ingress_requests_per_second",
            "namespaces/ingress_requests_per_second",
        ],
        query: "sum by (ingress) (rate(nginx_ingress_controller_requests\
                {exported_namespace=\"shop\",ingress=\"shop\"}[2m]))",
        values: &[("shop", 100.0)],
    },
    Expected {
        title: "JVM heap",
        metrics: &["namespaces/jvm_heap_utilization", "pods/jvm_heap_utilization"],
        query: "sum by (pod) (avg_over_time(jvm_memory_used_bytes\
                {area=\"heap\",namespace=\"shop\",pod=~\"web-1|web-2|web-3\"}[5m])) \
                / sum by (pod) (jvm_memory_max_bytes\
                {area=\"heap\",namespace=\"shop\",pod=~\"web-1|web-2|web-3\"} > 0)",
        values: &[("web-1", 0.75)],
    },
    Expected {
        title: "GPU utilization",
        metrics: &["namespaces/gpu_utilization_percent", "pods/gpu_utilization_percent"],
        query: "avg by (exported_pod) (avg_over_time(DCGM_FI_DEV_GPU_UTIL\
                {exported_namespace=\"shop\",exported_pod=~\"web-1|web-2|web-3\"}[2m]))",
        values: &[("web-1", 80.0)],
    },
    Expected {
        title: "A metric per tenant",
        metrics: &["jobs_waiting"],
        query: "sum by (tenant) (tenant_jobs_waiting{tenant=\"acme\"})",
        values: &[("acme", 12.0)],
    },
    Expected {
        title: "Recording rules",
        metrics: &[
            "deployments.apps/http_requests_per_second",
            "namespaces/http_requests_per_second",
        ],
        query: "sum by (deployment) (namespace_deployment:http_requests:rate5m\
                {namespace=\"shop\",deployment=\"web\"})",
        values: &[("web", 50.0)],
    },
    Expected {
        title: "Labels of kube-state-metrics",
        metrics: &["deployments.apps/open_connections", "namespaces/open_connections"],
        query: "sum by (label_app) (\n  open_connections{namespace=\"shop\"}\n  * on (namespace, \
                pod) group_left (label_app) kube_pod_labels{namespace=\"shop\",label_app=\"web\"})",
        values: &[("web", 65.0)],
    },
];

/// Checks that the document has exactly the tested recipes.
pub(crate) fn check_titles(recipes: &[Recipe]) -> Result<()> {
    let documented: Vec<&str> = recipes.iter().map(|recipe| recipe.title.as_str()).collect();
    let tested: Vec<&str> = EXPECTED.iter().map(|expected| expected.title).collect();
    ensure!(documented == tested, "documented {documented:?}, tested {tested:?}");
    Ok(())
}

/// Checks that discovery has the metrics of a recipe's rules, and that the autoscaler's metric has
/// the expected query and values.
pub(crate) async fn check(reader: &Reader, recipe: &Recipe) -> Result<()> {
    let expected = EXPECTED.iter().find(|expected| expected.title == recipe.title);
    let expected = expected.context("not tested")?;
    let source = reader.source(&recipe.rules).await?;
    let metrics = metric_names(&source);
    ensure!(metrics == expected.metrics, "the metrics are {metrics:?}");
    let (query, values) = read(reader, &source, &recipe.metric).await?;
    ensure!(query == expected.query, "the query is {query}");
    compare(&values, expected.values)
}

/// Reads the metric as an autoscaler does. Returns the query, and the values by object or label.
async fn read(
    reader: &Reader,
    source: &PrometheusSource,
    spec: &MetricSpec,
) -> Result<(String, BTreeMap<String, f64>)> {
    let Some(query) = custom_query(reader, spec)? else {
        let metric = spec.external.as_ref().context("not a custom or external metric")?;
        return read_external(source, metric).await;
    };
    let query = match &spec.object {
        Some(object) => query.named(&object.described_object.name),
        None => query,
    };
    let values = source.read_custom(query).await?;
    let by_name = values.items.into_iter();
    let by_name = by_name.map(|item| (item.object.into(), Quantity::from(item.value).as_f64()));
    Ok((values.origin.query.clone(), by_name.collect()))
}

/// The query for the metric of all objects. `None` if it is neither a pods nor an object metric.
pub(crate) fn custom_query(reader: &Reader, spec: &MetricSpec) -> Result<Option<CustomQuery>> {
    let (resource, metric) = match (&spec.pods, &spec.object) {
        (Some(pods), _) => (GroupResource::pods(), &pods.metric.name),
        (None, Some(object)) => {
            let described = &object.described_object;
            let group = described.api_version.split_once('/').map_or("", |(group, _)| group);
            let resource = reader.resources.resolve(group, &described.kind)?;
            (resource.group_resource.clone(), &object.metric.name)
        }
        (None, None) => return Ok(None),
    };
    Ok(Some(CustomQuery {
        resource,
        namespace: NAMESPACE.to_owned(),
        objects: Objects::Selected(Selector::everything()),
        metric: metric.clone(),
        metric_selector: Selector::everything(),
    }))
}

async fn read_external(
    source: &PrometheusSource,
    external: &ExternalMetricSource,
) -> Result<(String, BTreeMap<String, f64>)> {
    let query = ExternalQuery {
        namespace: NAMESPACE.to_owned(),
        metric: external.metric.name.clone(),
        metric_selector: Selector::from_label_selector(external.metric.selector.as_ref())?,
    };
    let values = source.read_external(query).await?;
    let by_label = values.items.into_iter().map(|item| {
        let labels: Vec<&str> =
            item.labels.iter().flat_map(ItemLabels::pairs).map(|(_, value)| value).collect();
        (labels.join(","), Quantity::from(item.value).as_f64())
    });
    Ok((values.origin.query.clone(), by_label.collect()))
}
