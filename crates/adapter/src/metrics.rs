//! Metrics of the server itself.

use std::time::Duration;

use hpa_calc::MetricsApi;
use hpa_metrics::ApiGroups;
use jiff::Timestamp;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
    core::Collector,
};

use crate::metrics_api::{
    RequestInfo, ResourceAttributes,
    group::{installed_apis, served_versions},
};

/// The media type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics that the server exports.
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    request_seconds: HistogramVec,
    authentications: IntCounterVec,
    authorizations: IntCounterVec,
    requests_in_flight: IntGauge,
    // The following metrics have the names of prometheus-adapter.
    freshness: HistogramVec,
    apiserver_requests: IntCounterVec,
    apiserver_request_seconds: HistogramVec,
    apiserver_requests_in_flight: IntGauge,
}

/// Counts a request as in progress until dropped, which also happens if the client disconnects.
pub(crate) struct InFlightRequest<'a>(&'a Metrics);

impl Drop for InFlightRequest<'_> {
    fn drop(&mut self) {
        self.0.requests_in_flight.dec();
        self.0.apiserver_requests_in_flight.dec();
    }
}

/// The labels of requests that the libraries of kube-apiserver export.
const APISERVER_LABELS: [&str; 8] =
    ["verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"];

/// Bucket bounds of request durations, as in kube-apiserver.
const DURATION_BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

/// A metric's name is taken, or a metric can't be encoded.
#[derive(Debug, thiserror::Error)]
#[error("unable to register or encode a metric")]
pub struct MetricsError(#[from] prometheus::Error);

/// Bucket bounds of the age of values, as in prometheus-adapter: 20 buckets, each 1.364 times the
/// previous one.
fn freshness_buckets() -> Vec<f64> {
    std::iter::successors(Some(1.0), |bound| Some(bound * 1.364)).take(20).collect()
}

/// Registers a metric, and returns it.
fn registered<M: Collector + Clone + 'static>(
    registry: &Registry,
    metric: M,
) -> prometheus::Result<M> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

impl Metrics {
    pub fn new() -> Result<Self, MetricsError> {
        let registry = Registry::new();
        let counter = |name: &str, help: &str, labels: &[&str]| {
            registered(&registry, IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        let histogram = |options: HistogramOpts, labels: &[&str]| {
            registered(&registry, HistogramVec::new(options, labels)?)
        };
        let gauge = |options: Opts| registered(&registry, IntGauge::with_opts(options)?);
        Ok(Self {
            requests: counter(
                "hpa_adapter_requests_total",
                "Requests by API group, verb and code",
                &["group", "verb", "code"],
            )?,
            request_seconds: histogram(
                HistogramOpts::new(
                    "hpa_adapter_request_duration_seconds",
                    "Duration of requests by API group",
                ),
                &["group"],
            )?,
            authentications: counter(
                "hpa_adapter_authentications_total",
                "Authentications by result",
                &["result"],
            )?,
            authorizations: counter(
                "hpa_adapter_authorizations_total",
                "Authorizations by result",
                &["result"],
            )?,
            freshness: histogram(
                HistogramOpts::new(
                    "metrics_apiserver_metric_freshness_seconds",
                    "Freshness of metrics exported",
                )
                .buckets(freshness_buckets()),
                &["group"],
            )?,
            apiserver_requests: counter(
                "apiserver_request_total",
                "Counter of apiserver requests broken out for each verb, dry run value, group, \
                 version, resource, scope, component, and HTTP response code.",
                &[&APISERVER_LABELS[..], &["code"]].concat(),
            )?,
            apiserver_request_seconds: histogram(
                HistogramOpts::new(
                    "apiserver_request_duration_seconds",
                    "Response latency distribution in seconds for each verb, dry run value, group, \
                     version, resource, subresource, scope and component.",
                )
                .buckets(DURATION_BUCKETS.to_vec()),
                &APISERVER_LABELS,
            )?,
            apiserver_requests_in_flight: gauge(
                Opts::new(
                    "apiserver_current_inflight_requests",
                    "Number of currently used inflight request limit of this apiserver per request \
                     kind.",
                )
                .const_label("request_kind", "readOnly"),
            )?,
            requests_in_flight: gauge(Opts::new(
                "hpa_adapter_requests_in_flight",
                "Requests in progress",
            ))?,
            registry,
        })
    }

    /// Adds metrics of other components.
    pub fn register(&self, collector: impl Collector + 'static) -> Result<(), MetricsError> {
        Ok(self.registry.register(Box::new(collector))?)
    }

    /// The metrics in Prometheus' text format.
    pub fn render(&self) -> Result<String, MetricsError> {
        Ok(TextEncoder::new().encode_to_string(&self.registry.gather())?)
    }

    pub(crate) fn start_request(&self) -> InFlightRequest<'_> {
        self.requests_in_flight.inc();
        self.apiserver_requests_in_flight.inc();
        InFlightRequest(self)
    }

    pub(crate) fn observe_request(&self, labels: RequestLabels, code: u16, elapsed: Duration) {
        let RequestLabels { verb, group, version, resource, subresource, scope, component, .. } =
            labels;
        let (code, seconds) = (code.to_string(), elapsed.as_secs_f64());
        self.requests.with_label_values(&[group, labels.authorization_verb, &code]).inc();
        self.request_seconds.with_label_values(&[group]).observe(seconds);
        let mut values = vec![verb, "", group, version, resource, subresource, scope, component];
        self.apiserver_request_seconds.with_label_values(&values).observe(seconds);
        values.push(&code);
        self.apiserver_requests.with_label_values(&values).inc();
    }

    pub(crate) fn observe_authentication(&self, result: &str) {
        self.authentications.with_label_values(&[result]).inc();
    }

    pub(crate) fn observe_authorization(&self, result: &str) {
        self.authorizations.with_label_values(&[result]).inc();
    }

    /// Observes the age of returned values.
    pub(crate) fn observe_freshness(
        &self,
        group: MetricsApi,
        now: Timestamp,
        times: impl Iterator<Item = Timestamp>,
    ) {
        let freshness: Histogram = self.freshness.with_label_values(&[group.group()]);
        for time in times {
            freshness.observe(now.duration_since(time).as_secs_f64());
        }
    }
}

/// The labels of a request, with the values of kube-apiserver's libraries. Names that clients
/// choose are not label values, because the number of series would be unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestLabels {
    /// The verb of authorization, for `hpa_adapter_requests_total`: `get`, `list`, `watch` or
    /// `other`.
    pub(crate) authorization_verb: &'static str,
    pub(crate) verb: &'static str,
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) subresource: &'static str,
    pub(crate) scope: &'static str,
    pub(crate) component: &'static str,
}

impl Default for RequestLabels {
    /// The labels of an invalid request.
    fn default() -> Self {
        Self {
            authorization_verb: "other",
            verb: "other",
            group: "",
            version: "",
            resource: "",
            subresource: "",
            scope: "",
            component: "apiserver",
        }
    }
}

/// Values of [`RequestInfo::verb`], each with the verb of kube-apiserver's metrics.
const VERBS: [(&str, &str); 11] = [
    ("get", "GET"),
    ("list", "LIST"),
    ("watch", "WATCH"),
    ("create", "POST"),
    ("post", "POST"),
    ("update", "PUT"),
    ("put", "PUT"),
    ("patch", "PATCH"),
    ("delete", "DELETE"),
    ("head", "HEAD"),
    ("options", "OPTIONS"),
];

impl RequestLabels {
    pub(crate) fn new(groups: ApiGroups, info: &RequestInfo) -> Self {
        let verb = VERBS.into_iter().find(|(verb, _)| *verb == info.verb);
        let authorization_verb =
            ["get", "list", "watch"].into_iter().find(|verb| *verb == info.verb);
        let labels = Self {
            authorization_verb: authorization_verb.unwrap_or("other"),
            verb: verb.map_or("other", |(_, verb)| verb),
            ..Self::default()
        };
        let Some(target) = &info.resource else { return labels };
        let Some(group) = installed_apis(groups).find(|group| group.group() == target.group) else {
            return labels;
        };
        let version = served_versions(group).iter().find(|version| **version == target.version);
        let labels =
            Self { group: group.group(), version: version.copied().unwrap_or(""), ..labels };
        labels.with_resource(group, target)
    }

    fn with_resource(self, group: MetricsApi, target: &ResourceAttributes) -> Self {
        let is_namespaced = !target.namespace.is_empty();
        let is_read = matches!(self.verb, "GET" | "LIST");
        // As in prometheus-adapter, all reads of custom and external metrics are lists of `*`.
        let (component, scope) = match group {
            MetricsApi::Resource => return self.with_usage_resource(target),
            MetricsApi::Custom => {
                ("custom-metrics", if is_namespaced { "namespace" } else { "cluster" })
            }
            MetricsApi::External => ("external-metrics", "cluster"),
        };
        let verb = if is_read { "LIST" } else { self.verb };
        Self { verb, resource: "*", subresource: "*", scope, component, ..self }
    }

    fn with_usage_resource(self, target: &ResourceAttributes) -> Self {
        let resource = ["pods", "nodes"].into_iter().find(|name| *name == target.resource);
        let scope = if !target.name.is_empty() {
            "resource"
        } else if target.namespace.is_empty() {
            "cluster"
        } else {
            "namespace"
        };
        Self { resource: resource.unwrap_or(""), scope, ..self }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::metrics_api::UrlQuery;

    #[test]
    fn freshness_has_the_buckets_of_the_reference() {
        let metrics = Metrics::new().unwrap();
        let now = Timestamp::from_second(100).unwrap();
        let times = [Timestamp::from_second(99).unwrap(), Timestamp::from_second(40).unwrap()];
        metrics.observe_freshness(MetricsApi::Custom, now, times.into_iter());
        let text = metrics.render().unwrap();
        let line = |bound: &str, count: u32| {
            format!(
                "metrics_apiserver_metric_freshness_seconds_bucket\
                 {{group=\"custom.metrics.k8s.io\",le=\"{bound}\"}} {count}\n"
            )
        };
        assert!(text.contains(&line("1", 1)), "{text}");
        assert!(text.contains(&line("1.364", 1)), "{text}");
        assert!(text.contains(&line("+Inf", 2)), "{text}");
    }

    #[test]
    fn requests_have_the_metrics_of_apiserver() {
        let metrics = Metrics::new().unwrap();
        let labels = RequestLabels {
            verb: "LIST",
            group: "custom.metrics.k8s.io",
            version: "v1beta2",
            resource: "*",
            subresource: "*",
            scope: "namespace",
            component: "custom-metrics",
            ..RequestLabels::default()
        };
        metrics.observe_request(labels, 200, Duration::from_millis(20));
        let request = metrics.start_request();
        let text = metrics.render().unwrap();
        let common = "component=\"custom-metrics\",dry_run=\"\",group=\"custom.metrics.k8s.io\"";
        let rest = "resource=\"*\",scope=\"namespace\",subresource=\"*\",verb=\"LIST\",\
                    version=\"v1beta2\"";
        let code = "code=\"200\"";
        for line in [
            format!("apiserver_request_total{{{code},{common},{rest}}} 1\n"),
            format!(
                "apiserver_request_duration_seconds_bucket{{{common},{rest},le=\"0.025\"}} 1\n"
            ),
            "apiserver_current_inflight_requests{request_kind=\"readOnly\"} 1\n".to_owned(),
        ] {
            assert!(text.contains(&line), "{line} in {text}");
        }
        drop(request);
        let text = metrics.render().unwrap();
        assert!(
            text.contains("apiserver_current_inflight_requests{request_kind=\"readOnly\"} 0\n")
        );
    }

    #[test]
    fn every_metric_is_documented() {
        let document = include_str!("../../../docs/adapter.md");
        let metrics = Metrics::new().unwrap();
        metrics.observe_request(RequestLabels::default(), 200, Duration::ZERO);
        metrics.observe_authentication("anonymous");
        metrics.observe_authorization("allowed");
        metrics.observe_freshness(
            MetricsApi::Custom,
            Timestamp::now(),
            [Timestamp::now()].into_iter(),
        );
        let families = metrics.registry.gather();
        assert_eq!(families.len(), 9);
        for family in families {
            assert!(document.contains(&format!("`{}`", family.name())), "{}", family.name());
        }
    }

    #[rstest]
    #[case(
        "GET",
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/*/load",
        "LIST custom.metrics.k8s.io v1beta2 * * namespace custom-metrics"
    )]
    #[case(
        "GET",
        "/apis/custom.metrics.k8s.io/v1beta1/nodes/n/load",
        "LIST custom.metrics.k8s.io v1beta1 * * cluster custom-metrics"
    )]
    #[case(
        "GET",
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue",
        "LIST external.metrics.k8s.io v1beta1 * * cluster external-metrics"
    )]
    #[case(
        "GET",
        "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods",
        "LIST metrics.k8s.io v1beta1 pods  namespace apiserver"
    )]
    #[case(
        "GET",
        "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/web-0",
        "GET metrics.k8s.io v1beta1 pods  resource apiserver"
    )]
    #[case(
        "GET",
        "/apis/metrics.k8s.io/v1beta1/nodes",
        "LIST metrics.k8s.io v1beta1 nodes  cluster apiserver"
    )]
    #[case::unknown_resource(
        "GET",
        "/apis/metrics.k8s.io/v9/random-name",
        "LIST metrics.k8s.io    cluster apiserver"
    )]
    #[case::unknown_group("GET", "/apis/random/v1/pods", "LIST      apiserver")]
    #[case::discovery("GET", "/apis", "GET      apiserver")]
    #[case::unknown_method("RANDOM", "/apis", "other      apiserver")]
    #[case(
        "POST",
        "/apis/custom.metrics.k8s.io/v1beta1/nodes/n/load",
        "POST custom.metrics.k8s.io v1beta1 * * cluster custom-metrics"
    )]
    fn labels_have_no_names_that_clients_choose(
        #[case] method: &str,
        #[case] path: &str,
        #[case] expected: &str,
    ) {
        let info = RequestInfo::new(method, path, &UrlQuery::default()).unwrap();
        let labels = RequestLabels::new(ApiGroups::ALL, &info);
        let RequestLabels { verb, group, version, resource, subresource, scope, component, .. } =
            labels;
        let texts = [verb, group, version, resource, subresource, scope, component];
        assert_eq!(texts.join(" "), expected);
    }
}
