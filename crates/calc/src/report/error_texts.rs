//! Texts in the errors of metrics and of writes of the scale. Reports detect the cause of a failure
//! by them. The crates that compose these errors use the same constants.

/// The error of an API server that doesn't reach the server of an API.
pub const API_UNAVAILABLE: &str = "the server is currently unable to handle the request";

/// Part of the error of a metrics API that doesn't have the metric.
pub const UNKNOWN_METRIC: &str = "could not find the metric";

/// The error if no server is registered for the custom metrics API, as in the reference.
pub const NO_CUSTOM_API: &str = "no custom metrics API (custom.metrics.k8s.io) registered";

/// The error if a metrics API is registered, but the API server lists no version of it that the
/// controller supports: also while its server fails. As in the reference.
pub const NO_KNOWN_VERSION: &str = "no known available metric versions found";

/// The start of the error if the kind of an object can't be mapped to a resource. The kind follows.
pub const UNMAPPED_KIND: &str = "unable to map kind ";

/// Part of the error with [`UNMAPPED_KIND`] if the API server doesn't have the kind.
const NO_SUCH_KIND: &str = "no matches for kind ";

/// Whether the API server doesn't have the kind of the object whose metric was to be read.
pub fn is_unknown_kind(error: &str) -> bool {
    error.contains(UNMAPPED_KIND) && error.contains(NO_SUCH_KIND)
}

/// The start of the error of a request if no server is registered for the API.
const UNKNOWN_RESOURCE: &str = "the server could not find the requested resource (";

/// The start of the errors of a request that a server answers with status 400 or 422.
pub(super) const REJECTED_REQUEST: &str = "the server rejected our request ";

/// Part of the API server's error if the client may not read the metric.
pub const FORBIDDEN: &str = " is forbidden: User ";

/// Parts of the errors of a request that an API server, or the server behind it, answers with
/// status 500.
const SERVER_ERRORS: [&str; 2] =
    ["has prevented the request from succeeding", "Internal error occurred"];

/// Part of the error with [`NOT_DISCOVERED`] if the discovery of the API server, which rules need,
/// can't be read. The cause follows.
pub const RESOURCES_NOT_READ: &str = "unable to read the resources of the API server";

/// The start of the error of a request or reconcile that exceeded its time limit. It is Go's,
/// because conditions and events show it.
pub const DEADLINE_EXCEEDED: &str = "context deadline exceeded";

/// Part of the errors of requests without a complete response in time. The time limit follows.
pub const NO_RESPONSE_WITHIN: &str = "no response within ";

/// The end of the error of a write of the scale that was not sent, because other writes hang.
pub const WRITES_WAIT: &str = " writes of scales in the namespace wait for responses";

/// Part of the error if Prometheus doesn't respond in time. The server follows.
pub const NO_RESPONSE_FROM: &str = "no response from ";

/// Part of the error if a response of Prometheus isn't complete in time. The time limit follows.
pub const TOOK_LONGER_THAN: &str = " took longer than ";

/// Whether Prometheus didn't respond in time.
pub(super) fn is_late(error: &str) -> bool {
    let parts = [TOOK_LONGER_THAN, NO_RESPONSE_WITHIN, NO_RESPONSE_FROM];
    error.contains(PROMETHEUS) && parts.iter().any(|part| error.contains(part))
}

/// Part of the errors if Prometheus doesn't respond. The server follows: its address, or the flag
/// that has its URL.
pub const PROMETHEUS: &str = "Prometheus at ";

/// Part of the error if Prometheus, or a proxy before it, answers with a status code that the API
/// of Prometheus doesn't have. The code follows, and the error in the response, if it has one.
pub const UNKNOWN_STATUS: &str = "unknown response code ";

/// Part of the error if a response isn't one of Prometheus.
pub const NOT_OF_PROMETHEUS: &str = "the response isn't a response of Prometheus";

/// Part of the error if a rule selected no series when they were last listed.
pub const FOUND_NO_SERIES: &str = "found no series";

/// Part of the error if no series had the metric's name when the rule's series were last listed.
pub const NO_SERIES_OF_NAME: &str = "none of its series has that name";

/// Part of the error if a rule has the metric, but not for the resource, which follows.
pub const OF_OTHER_RESOURCES: &str = "but not for ";

/// Whether a rule didn't have the metric when its series were last listed. It has the metric after
/// the next list if the series exist by then.
pub fn lacked_series(error: &str) -> bool {
    error.contains(FOUND_NO_SERIES) || error.contains(NO_SERIES_OF_NAME)
}

/// Part of the error if rules or collectors may have the metric, but haven't listed their metrics
/// yet.
pub const NOT_DISCOVERED: &str = " are not discovered yet";

/// The start of the error with [`NOT_DISCOVERED`].
const METRICS_OF: &str = "the metrics of ";

/// Part of the error with [`NOT_DISCOVERED`] if the autoscalers, whose annotations configure
/// collectors, were not listed.
pub const AUTOSCALERS_NOT_SYNCED: &str = "the autoscalers are not synced yet";

/// Part of the error if neither the rules, the collectors nor the metrics API have a metric. The
/// text before it says why, the text after it is the error of the metrics API. If the API failed,
/// its error comes first, without this text.
pub const ALSO_NOT_BY_API: &str = ", and reading it from a metrics API failed";

/// Part of the error of a metrics API if the controller has collectors. The name of the metric
/// follows.
pub const NO_COLLECTOR_READS: &str = "no collector reads ";

/// The start of the error if a rule or a collector has the metric, but returned no value.
pub const NO_VALUE: &str = "no value";

/// The reason if the sample of a query is NaN.
pub const NOT_A_NUMBER: &str = "the sample is not a number (NaN)";

/// The reason if the sample of a query is infinite.
pub const INFINITE: &str = "the sample is infinite";

/// The reason if the query of a collector returns a scalar that is NaN.
pub const SCALAR_IS_NAN: &str = "the scalar is not a number (NaN)";

/// The reason if the query of a collector returns a range vector.
pub const RANGE_VECTOR: &str = "the result is a range vector";

/// The reason if the query of a collector returns no samples.
pub const NO_SAMPLES: &str = "the result has no samples";

/// Part of the error if a collector may not read an address, with the flag that permits it.
pub const REFUSED_ADDRESS: &str = "--collector-address";

/// Part of the error if the result of a collector's query has no value. The reason follows.
pub const NO_RESULT: &str = " did not result a valid response";

/// Part of the error with [`NO_RESULT`] if a restriction to a namespace was added to the query. The
/// namespace follows.
pub const RESTRICTED_TO_NAMESPACE: &str = "the query is restricted to the namespace ";

/// Part of the error if a server other than Prometheus refuses the query of a collector.
pub const REFUSES_THE_QUERY: &str = " refuses the query: ";

/// The kinds of errors with which Prometheus refuses a query.
const REFUSALS_OF_PROMETHEUS: [&str; 2] = ["bad_data: ", "execution: "];

/// The kinds with which `VictoriaMetrics` refuses a query: the status code.
const REFUSALS_OF_VICTORIA_METRICS: [&str; 2] = ["400: ", "422: "];

/// Whether an error says that a server responded, but refused the query.
pub fn is_refused_query(error: &str) -> bool {
    error.contains(REFUSES_THE_QUERY)
        || REFUSALS_OF_PROMETHEUS.iter().any(|kind| error.contains(kind))
        || refusal_of_rule(error).is_some()
}

/// The message of the server that refused the query of a rule. `None` for other errors, also those
/// of collectors.
pub fn refusal_of_rule(error: &str) -> Option<&str> {
    let cause = error.strip_prefix(FETCH_FAILED)?;
    let mut kinds = REFUSALS_OF_PROMETHEUS.iter().chain(&REFUSALS_OF_VICTORIA_METRICS);
    kinds.any(|kind| cause.starts_with(kind)).then_some(cause)
}

/// Part of the error of a collector if a server responds with another status than the expected one.
/// The status follows.
pub const UNSUCCESSFUL_RESPONSE: &str = "unsuccessful response: ";

/// The error of a collector if the path selects nothing in the document of a server.
pub const PATH_SELECTS_NOTHING: &str = "the path selects nothing";

/// The error of a collector if a path selects several values, which no aggregator combines.
pub const NO_AGGREGATOR: &str = "several values, but no aggregator";

/// The error of a collector if a path selects several values, and one of them is no number.
pub const ONE_IS_NOT_NUMERIC: &str = "one of several values is not a number";

/// The end of the error of a collector if a path selects a value of another type.
pub const OF_ANOTHER_TYPE: &str = ", not a number";

/// The start of the error of a collector if the document of a server can't be read.
pub const INVALID_DOCUMENT: &str = "the response can't be read as JSON: ";

/// The start of the error of a collector if a path can't be evaluated for the document of a server.
pub const EVALUATION_FAILED: &str = "evaluation failed: ";

/// Whether a server responded to a collector with JSON, but without a number at the path.
pub(super) fn has_no_number(error: &str) -> bool {
    let parts = [PATH_SELECTS_NOTHING, ONE_IS_NOT_NUMERIC, OF_ANOTHER_TYPE, EVALUATION_FAILED];
    parts.iter().any(|part| error.contains(part))
}

/// The start of the error of a collector if a query, which is to be restricted to a namespace,
/// can't be parsed.
pub const QUERY_SYNTAX: &str = "the query has a syntax error at byte ";

/// The start of the error of a collector if a query can't be restricted to a namespace.
pub const QUERY_NOT_RESTRICTED: &str = "the query can't be restricted to the namespace: ";

/// Whether a collector refused a query, and didn't send it.
pub(super) fn is_unsent_query(error: &str) -> bool {
    error.contains(QUERY_SYNTAX) || error.contains(QUERY_NOT_RESTRICTED)
}

/// Whether Prometheus, or a proxy before it, responded with 503. Until Prometheus has read its
/// write-ahead log, it sends this status without an error in the response.
pub(super) fn is_unavailable(error: &str) -> bool {
    has_status(error, UNKNOWN_STATUS, &["503"])
}

/// Whether Prometheus, or a proxy before it, responded with a 5xx.
pub(super) fn is_5xx(error: &str) -> bool {
    has_status(error, UNKNOWN_STATUS, &["5"])
}

/// Whether a server responded to a collector that it doesn't have the path of the request.
pub fn is_unknown_path(error: &str) -> bool {
    has_status(error, UNSUCCESSFUL_RESPONSE, &["404"])
}

/// Whether a server responded to a collector that the request is wrong.
pub(super) fn is_rejected_request(error: &str) -> bool {
    has_status(error, UNSUCCESSFUL_RESPONSE, &["400", "405", "422"])
}

/// Whether a server responded to a collector with a 5xx.
pub fn is_failing_server(error: &str) -> bool {
    has_status(error, UNSUCCESSFUL_RESPONSE, &["5"])
}

/// Whether a server, or a proxy before it, refused the credentials of a request, or their absence.
pub(super) fn is_refused_access(error: &str) -> bool {
    let texts = [UNKNOWN_STATUS, UNSUCCESSFUL_RESPONSE];
    texts.iter().any(|text| has_status(error, text, &["401", "403"]))
}

/// The values of `errorType` of Prometheus for which the query isn't at fault. `VictoriaMetrics`
/// reports the status instead.
const SERVER_ERROR_TYPES: [&str; 6] =
    ["503", "canceled", "internal", "not_acceptable", "not_found", "timeout"];

/// Whether Prometheus itself answered with an error that isn't due to the query. Its response has
/// that error, even with a 5xx. A proxy's 5xx has none.
pub(super) fn is_server_error_of_prometheus(error: &str) -> bool {
    let status = error.split_once(UNKNOWN_STATUS).map_or("", |(_, status)| status);
    let has_error = status.starts_with('5')
        && status.get(3..).is_some_and(|after_code| after_code.starts_with(": "));
    // The URL has no ": ".
    let answer = error.split_once(PROMETHEUS).and_then(|(_, server)| server.split_once(": "));
    let error_type = answer.and_then(|(_, answer)| answer.split_once(": ")).map(|(kind, _)| kind);
    let reported = error.split_once(REPORTED).map_or("", |(_, reported)| reported);
    let reported = reported.split([':', ';', ',']).next();
    let mut types = error_type.into_iter().chain(reported);
    has_error || types.any(|kind| SERVER_ERROR_TYPES.contains(&kind))
}

/// Whether a status code with one of these first digits follows `text` in an error.
fn has_status(error: &str, text: &str, first_digits: &[&str]) -> bool {
    let status = error.split_once(text).map_or("", |(_, status)| status);
    first_digits.iter().any(|digits| status.starts_with(digits))
}

/// Part of the error of a collector if a request failed. The server follows.
pub const REQUEST_TO: &str = "the request to ";

/// The start of an error of Prometheus without its message. The type follows.
pub const REPORTED: &str = "Prometheus reported ";

/// Whether Prometheus responded that it isn't ready yet.
pub(super) fn is_not_ready(error: &str) -> bool {
    error.contains(": unavailable: ") || error.contains(&format!("{REPORTED}unavailable"))
}

/// Whether Prometheus, or a proxy before it, responded with 429, because of a limit of requests.
pub(super) fn is_over_limit(error: &str) -> bool {
    has_status(error, UNKNOWN_STATUS, &["429"])
}

/// Part of the error of a collector if a query to Prometheus failed. The server follows.
pub const QUERY_TO: &str = "the query to ";

/// Part of the error of a collector if the time limit ended before a server answered. The limit
/// follows.
pub const NOT_READ_WITHIN: &str = "not read within ";

/// Whether a request of a collector to a server failed. Otherwise, the cause is elsewhere, such as
/// an object of the cluster that doesn't exist.
pub fn is_of_server(error: &str) -> bool {
    [REQUEST_TO, QUERY_TO, NOT_READ_WITHIN].iter().any(|part| error.contains(part))
}

/// The start of the error of a rule or a collector whose request failed. The cause follows.
const FETCH_FAILED: &str = "unable to fetch metrics: ";

/// The starts of the errors of rules and collectors, which are read without a metrics API.
const IN_PROCESS: [&str; 7] = [
    FETCH_FAILED,
    "unable to generate a query for the metric",
    "unable to convert the result",
    "unable to list matching resources",
    "no value for the object: ",
    "no value: ",
    "no such metric: ",
];

/// The error if `sources`, such as `rules`, may have the metric, but haven't listed their metrics
/// yet. `problems` are the causes, if known.
pub fn not_discovered(sources: &str, problems: &[String]) -> String {
    let separator = if problems.is_empty() { "" } else { ": " };
    format!("{METRICS_OF}{sources}{NOT_DISCOVERED}{separator}{}", problems.join("; "))
}

/// Whether an API server, or the server behind it, answered with status 500.
pub fn is_server_error(error: &str) -> bool {
    SERVER_ERRORS.iter().any(|part| error.contains(part))
}

/// Whether an error says that no server is registered for a metrics API.
pub fn is_api_missing(error: &str) -> bool {
    error.contains(NO_CUSTOM_API) || error.contains(UNKNOWN_RESOURCE)
}

/// Whether an error says that no metrics API has the metric.
pub fn is_metric_missing(error: &str) -> bool {
    error.contains(UNKNOWN_METRIC) || is_api_missing(error)
}

/// Whether an error is that of a source in the controller's process, such as a rule or a collector.
/// The controller may have read a metrics API in addition, because that source lacks the metric.
pub fn is_in_process(error: &str) -> bool {
    IN_PROCESS.iter().any(|start| error.starts_with(start))
        || error.contains(ALSO_NOT_BY_API)
        || (error.starts_with(METRICS_OF) && error.contains(NOT_DISCOVERED))
}

/// Whether a source in the controller's process could not be read, so that it is unknown which
/// metrics it has.
pub(super) fn is_unreadable_source(error: &str) -> bool {
    let parts = [PROMETHEUS, NOT_DISCOVERED];
    is_in_process(error)
        && !error.contains(ALSO_NOT_BY_API)
        && parts.iter().any(|part| error.contains(part))
}
