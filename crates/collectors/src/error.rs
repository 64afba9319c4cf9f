//! What is wrong with annotations and metrics. Texts are those of the reference, which users know
//! from its events.

use hpa_calc::go_duration::DurationError;

/// An annotation that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {annotation}: {reason}")]
pub struct AnnotationProblem {
    /// The key of the annotation.
    pub annotation: String,
    /// Why it can't be used.
    pub reason: AnnotationError,
}

/// Why an annotation can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    /// The key has another form.
    #[error("the key is not metric-config.TYPE.METRIC.COLLECTOR/NAME")]
    Key,
    /// Another annotation names another collector for the metric.
    #[error("ignored, because the metric is collected by {0}")]
    OtherCollector(String),
    /// The interval is no duration.
    #[error("failed to parse interval value {value} for {metric}: {error}")]
    Interval {
        /// The value.
        value: String,
        /// Type and name of the metric.
        metric: String,
        /// What is wrong.
        error: DurationError,
    },
    /// The age is no duration.
    #[error("failed to parse min-pod-ready-age value {value} for {metric}: {error}")]
    MinPodReadyAge {
        /// The value.
        value: String,
        /// Type and name of the metric.
        metric: String,
        /// What is wrong.
        error: DurationError,
    },
}

/// Why a metric can't be collected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum PlanError {
    #[error(transparent)]
    Annotation(AnnotationError),
    #[error("no plugin found for {0}")]
    NoCollector(String),
    #[error(
        "failed to get pod label selector: unable to get pod label selector for scale target ref '{0}'"
    )]
    TargetKind(String),
    #[error("format '{0}' not supported")]
    PodFormat(String),
    #[error("config value json-key or json-eval must be set")]
    PodNoJson,
    #[error("config value json-key and json-eval are mutually exclusive")]
    PodTwoJson,
    #[error("config value json-key or json-eval not found")]
    HttpNoJson,
    #[error("config value json-key and json-eval cannot be used together")]
    HttpTwoJson,
    #[error("config value endpoint not found")]
    NoEndpoint,
    #[error("parse {0:?}: {1}")]
    Url(String, &'static str),
    #[error("no label selector specified for metric: {0}")]
    HttpNoSelector(String),
    #[error("strconv.Atoi: parsing {0:?}: {1}")]
    Integer(String, &'static str),
    #[error("aggregator function: {0} is unknown")]
    Aggregator(String),
    #[error(transparent)]
    Duration(#[from] DurationError),
    #[error("invalid {0} config value: {1}")]
    Invalid(&'static str, String),
    #[error(transparent)]
    JsonPath(crate::jsonpath::ExtractError),
    #[error("no prometheus query defined")]
    NoObjectQuery,
    #[error("selector for prometheus query is not specified")]
    PrometheusNoSelector,
    #[error("query or query name not specified on metric")]
    NoQueryName,
    #[error("no prometheus query defined for metric")]
    NoQuery,
    #[error("no additional prometheus server found for alias {0}")]
    PrometheusAlias(String),
    #[error("metric '{0}' not supported")]
    SkipperMetric(String),
    #[error("hostname is not specified, unable to create collector")]
    NoHostname,
    #[error("invalid hostname format, unable to create collector: {0}")]
    Hostname(String),
    #[error("could not parse weight annotation, unable to create collector: {0}")]
    Weight(String),
    #[error(
        "selector for Flux query is not specified, please add \
         metricSelector.matchLabels.query-name: <...> to .yml description"
    )]
    FluxNoQueryName,
    #[error("no Flux query defined for metric \"{0}\"")]
    FluxNoQuery(String),
    #[error("selector for queue is not specified")]
    SqsNoSelector,
    #[error("sqs queue name not specified on metric")]
    SqsNoName,
    #[error("sqs queue region is not specified on metric")]
    SqsNoRegion,
    #[error("the metric region: {0} is not configured")]
    SqsRegion(String),
    #[error("selector for zmon-check is not specified")]
    ZmonNoSelector,
    #[error("ZMON check ID not specified on metric")]
    ZmonNoCheck,
    #[error("selector for nakadi is not specified")]
    NakadiNoSelector,
    #[error("metric-type not specified on metric")]
    NakadiNoType,
    #[error("metric-type must be either 'consumer-lag-seconds' or 'unconsumed-events', was '{0}'")]
    NakadiType(String),
    #[error(
        "either subscription-id or all of [owning-application, event-types, consumer-group] must \
         be specified on the metric"
    )]
    NakadiSubscription,
}
