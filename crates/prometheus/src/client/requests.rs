//! The client of a server: sends requests and reads the responses.

use std::{
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::TryStreamExt;
use hpa_metrics::SingleFlight;
use http::{HeaderValue, Method, Request, Response, Uri, header, uri::Scheme};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::client::Body;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit},
    time::{Instant, timeout_at},
};
use tokio_util::bytes::BytesMut;

use crate::{
    client::{
        RequestObserver,
        connection::{ConnectionError, Connector},
        decode,
        error::QueryFailure,
        outage_log::OutageLog,
        range::{RangeQuery, RangeSeries, decode_range},
        response::{check_status, is_json, limited_reader},
        series::SeriesReader,
        server_warning::ServerWarning,
        settings::{Settings, SettingsError, Verb},
        time,
    },
    rules::{Compat, results::QueryResult},
};

const QUERY_PATH: &str = "/api/v1/query";
const RANGE_PATH: &str = "/api/v1/query_range";
const METADATA_PATH: &str = "/api/v1/metadata";
const SERIES_PATH: &str = "/api/v1/series";
/// The longest encoded parameters of a GET request. Longer ones are sent with POST, because a `Uri`
/// has at most 64 KiB, the server's URL included.
const MAX_GET_BYTES: usize = 60 << 10;
/// The size of the buffer between a response and its [`SeriesReader`].
const PIPE_BYTES: usize = 128 << 10;

/// Responses are read concurrently up to this size. The rest of a larger one is read and decoded
/// alone, because several decoded responses could use up the memory. Lists of series are streamed
/// and don't count. [`QueryFailure::BusyReading`] names the size.
const SMALL_RESPONSE_BYTES: usize = 1 << 20;

/// An instant query, evaluated at the time of the request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InstantQuery {
    pub query: String,
    pub timeout: TimeoutParameter,
}

/// The parameter `timeout` of a query, after which Prometheus cancels it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimeoutParameter {
    /// The time limit of the request.
    #[default]
    Limit,
    /// `timeout=`, as prometheus-adapter sends it for custom and external metrics.
    Empty,
    /// No parameter, as in prometheus-adapter for resource metrics.
    Absent,
}

/// The time limit of a request, and its end.
#[derive(Clone, Copy)]
struct TimeLimit {
    duration: Duration,
    deadline: Instant,
}

/// Sends requests to a server, without retries.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    queries: Arc<SingleFlight<InstantQuery, QueryResult, QueryFailure>>,
}

struct Inner {
    settings: Arc<Settings>,
    /// Host and port of the server.
    address: Arc<str>,
    connector: Connector,
    /// A permit for each concurrent request.
    slots: Arc<Semaphore>,
    /// The only permit to read and decode a large response.
    large_response: Semaphore,
    observer: Arc<dyn RequestObserver>,
    outages: Arc<OutageLog>,
    warning: ServerWarning,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.inner.settings.name).finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client. Reads no file and sends nothing.
    pub fn new(
        settings: Settings,
        observer: Arc<dyn RequestObserver>,
    ) -> Result<Self, SettingsError> {
        settings.validate()?;
        let settings = Arc::new(settings);
        let variables = Arc::new(|name: &str| std::env::var(name).ok());
        let connector = Connector::new(settings.clone(), variables);
        let outages = OutageLog::of_server(&settings.url_without_credentials());
        Ok(Self::from_parts(settings, connector, observer, outages))
    }

    /// Creates a client that looks up environment variables in `variables`.
    #[cfg(test)]
    pub(crate) fn with_variables(
        settings: Settings,
        variables: crate::client::connection::Environment,
    ) -> Self {
        let settings = Arc::new(settings);
        let connector = Connector::new(settings.clone(), variables);
        Self::from_parts(settings, connector, Arc::new(()), Arc::default())
    }

    /// Creates a client that sends its requests with `client`, for tests.
    pub fn from_kube_client(settings: Settings, client: kube::Client) -> Self {
        let settings = Arc::new(settings);
        let connector = Connector::fixed(&settings, client);
        Self::from_parts(settings, connector, Arc::new(()), Arc::default())
    }

    fn from_parts(
        settings: Arc<Settings>,
        connector: Connector,
        observer: Arc<dyn RequestObserver>,
        outages: Arc<OutageLog>,
    ) -> Self {
        let slots = Arc::new(Semaphore::new(settings.concurrency.get()));
        let large_response = Semaphore::new(1);
        let address = address(&settings.url).into();
        let inner = Inner {
            settings,
            address,
            connector,
            slots,
            large_response,
            observer,
            outages,
            warning: ServerWarning::default(),
        };
        let inner = Arc::new(inner);
        Self { inner, queries: Arc::new(SingleFlight::new(Duration::ZERO)) }
    }

    /// The settings of the server.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// Whether the client has logged the outage that a failure is part of. Callers then don't log
    /// the failure.
    pub(crate) fn has_logged(&self, failure: &QueryFailure) -> bool {
        self.inner.outages.has_logged(failure)
    }

    /// The newest warning of the server about the result of an instant query, if it is of the last
    /// minute. The result may lack series.
    pub fn recent_warning(&self) -> Option<String> {
        self.inner.warning.recent()
    }

    /// Creates the connection, to report unusable files or proxy settings before the first request.
    pub async fn check_files(&self) -> Result<(), Arc<ConnectionError>> {
        self.inner.connector.connection().await.map(drop).map_err(Arc::new)
    }

    /// Sends an instant query. Equal concurrent queries share a request.
    pub async fn query(&self, query: &InstantQuery) -> Result<Arc<QueryResult>, QueryFailure> {
        let inner = self.inner.clone();
        self.queries.get(query.clone(), |query| async move { inner.query(&query).await }).await
    }

    /// Sends a range query. Prometheus refuses one with more than 11 000 points per series.
    pub async fn query_range(&self, query: &RangeQuery) -> Result<Vec<RangeSeries>, QueryFailure> {
        self.inner.query_range(query).await
    }

    /// Reads the type of a metric, such as `gauge`. `None` if the server has no metadata of it.
    pub async fn read_metric_type(&self, metric: &str) -> Result<Option<String>, QueryFailure> {
        let decode = |body: &[u8]| decode::decode_metric_type(body, metric);
        self.inner.request(METADATA_PATH, &[("metric", metric)], decode).await
    }

    /// Reads the series that a selector matches and that have samples since `since`. Fails if their
    /// list is longer than `max_bytes`. `read` runs in a thread in which it may block.
    pub async fn read_series<T: Send + 'static>(
        &self,
        selector: &str,
        since: Timestamp,
        max_bytes: u64,
        read: impl FnOnce(SeriesReader) -> Result<T, QueryFailure> + Send + 'static,
    ) -> Result<T, QueryFailure> {
        self.inner.read_series(selector, since, max_bytes, read).await
    }
}

impl Inner {
    async fn query(&self, query: &InstantQuery) -> Result<QueryResult, QueryFailure> {
        let limit = self.settings.query_timeout;
        let timeout = match query.timeout {
            TimeoutParameter::Limit => Some(format!("{}ms", limit.as_millis())),
            TimeoutParameter::Empty => Some(String::new()),
            TimeoutParameter::Absent => None,
        };
        let mut parameters = vec![("query", &*query.query)];
        let now = time::format_seconds(Timestamp::now());
        if self.settings.compat == Compat::Reference {
            // Otherwise, the parameter is omitted, and the server evaluates the query by its own
            // clock, which also determines the times of samples.
            parameters.push(("time", &now));
        }
        parameters.extend(timeout.as_deref().map(|timeout| ("timeout", timeout)));

        let decode = |body: &[u8]| {
            let (result, warnings) =
                decode::decode_instant_with_warnings(body, self.settings.compat)?;
            self.warning.record(&self.settings.name, &warnings);
            Ok(result)
        };
        self.request(QUERY_PATH, &parameters, decode).await
    }

    async fn query_range(&self, query: &RangeQuery) -> Result<Vec<RangeSeries>, QueryFailure> {
        let (start, end) = (time::format_seconds(query.start), time::format_seconds(query.end));
        let step = format!("{}ms", query.step.as_millis());
        let timeout = format!("{}ms", self.settings.query_timeout.as_millis());
        let parameters = [
            ("query", &*query.query),
            ("start", &start),
            ("end", &end),
            ("step", &step),
            ("timeout", &timeout),
        ];
        self.request(RANGE_PATH, &parameters, decode_range).await
    }

    /// Sends a request within the time limit of queries, and decodes the body of its response.
    async fn request<T>(
        &self,
        path: &'static str,
        parameters: &[(&str, &str)],
        decode: impl FnOnce(&[u8]) -> Result<T, QueryFailure>,
    ) -> Result<T, QueryFailure> {
        let request = async |limit: TimeLimit| {
            let _slot = self.acquire_slot(limit).await?;
            let response = self.send(path, parameters, limit).await?;
            let (body, _large) = self.read_body(response, limit).await?;
            decode(&body)
        };
        self.send_observed(path, self.settings.query_timeout, request).await
    }

    async fn read_series<T: Send + 'static>(
        &self,
        selector: &str,
        since: Timestamp,
        max_bytes: u64,
        read: impl FnOnce(SeriesReader) -> Result<T, QueryFailure> + Send + 'static,
    ) -> Result<T, QueryFailure> {
        let since = time::format_seconds(since);
        let parameters = [("match[]", selector), ("start", &since)];
        let request = async |limit: TimeLimit| {
            let _slot = self.acquire_slot(limit).await?;
            let response = self.send(SERIES_PATH, &parameters, limit).await?;
            let received = Arc::new(AtomicU64::new(0));
            let mut body = limited_reader(response, limit.deadline, max_bytes, received.clone());
            // Copies the body, because the threads of the runtime allocate its chunks and should
            // also free them. If another thread frees them, mimalloc retains them for a while,
            // which costs 22 MB with 200 000 series.
            let (pipe_reader, mut pipe_writer) = tokio::io::duplex(PIPE_BYTES);
            let reader = SeriesReader::new(Box::new(pipe_reader));
            let task = tokio::task::spawn_blocking(move || read(reader));
            let copied = async move { tokio::io::copy_buf(&mut body, &mut pipe_writer).await };
            let (copied, task) = tokio::join!(copied, task);
            match task {
                // `read` sees the exceeded limit only as an I/O error of the body.
                Ok(Err(_)) if received.load(Ordering::Relaxed) > max_bytes => {
                    Err(QueryFailure::TooManySeries(max_bytes))
                }
                // `read` sees the timeout only as an I/O error of the body.
                Ok(Err(_)) if Instant::now() >= limit.deadline => {
                    Err(self.slow_response_error(limit))
                }
                Ok(Err(failure)) => Err(match copied {
                    // The reader closed the pipe after its own failure.
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => failure,
                    Err(error) => QueryFailure::Body(Arc::new(error)),
                    Ok(_) => failure,
                }),
                Ok(result) => result,
                Err(error) => Err(QueryFailure::Decode(format!("reading it panicked: {error}"))),
            }
        };
        self.send_observed(SERIES_PATH, self.settings.series_timeout(), request).await
    }

    /// Sends a request that must end within `limit`, and reports its outcome to the observer.
    async fn send_observed<T>(
        &self,
        path: &'static str,
        limit: Duration,
        request: impl AsyncFnOnce(TimeLimit) -> Result<T, QueryFailure>,
    ) -> Result<T, QueryFailure> {
        let start = Instant::now();
        let result = request(TimeLimit { duration: limit, deadline: start + limit }).await;
        let duration = start.elapsed();
        let failure = result.as_ref().err();
        self.observer.observe(&self.settings.name, path, duration, failure);
        self.outages.record(&self.settings, start, failure);
        result
    }

    fn timeout_error(&self, limit: TimeLimit) -> QueryFailure {
        QueryFailure::Timeout { address: self.address.clone(), limit: limit.duration }
    }

    fn slow_response_error(&self, limit: TimeLimit) -> QueryFailure {
        QueryFailure::SlowResponse { address: self.address.clone(), limit: limit.duration }
    }

    /// Waits until a request may be sent.
    async fn acquire_slot(&self, limit: TimeLimit) -> Result<OwnedSemaphorePermit, QueryFailure> {
        let slot = timeout_at(limit.deadline, self.slots.clone().acquire_owned()).await;
        slot.ok().and_then(Result::ok).ok_or(QueryFailure::Busy(limit.duration))
    }

    /// Sends a request and checks the status of the response. The failure for a 4xx or 5xx has the
    /// error that Prometheus reports in the body, if it does.
    async fn send(
        &self,
        path: &'static str,
        parameters: &[(&str, &str)],
        limit: TimeLimit,
    ) -> Result<Response<Body>, QueryFailure> {
        let connection = timeout_at(limit.deadline, self.connector.connection()).await;
        let connection = connection.map_err(|_| self.timeout_error(limit))?.map_err(Arc::new)?;
        let mut request = self.build_request(path, parameters);
        for (name, value) in &*connection.headers {
            request.headers_mut().append(name, value.clone());
        }
        let response = timeout_at(limit.deadline, connection.client.send(request)).await;
        let response = response.map_err(|_| self.timeout_error(limit))?;
        let response = response
            .map_err(|error| QueryFailure::from_request_error(self.address.clone(), &error))?;
        let Err(mut failure) = check_status(&self.settings, &response) else {
            return Ok(response);
        };
        let status = response.status();
        if let QueryFailure::Status { reported, .. } = &mut failure
            && (status.is_client_error() || status.is_server_error())
            && is_json(&response)
            && let Ok((body, _large)) = self.read_body(response, limit).await
            && let Err(error @ QueryFailure::Api { .. }) = decode::decode_data(&body)
        {
            *reported = format!(": {error}");
        }
        Err(failure)
    }

    /// Builds a request without the server's URL, which the client adds.
    fn build_request(&self, path: &str, parameters: &[(&str, &str)]) -> Request<Body> {
        let mut encoded = form_urlencoded::Serializer::new(String::new());
        encoded.extend_pairs(parameters);
        let encoded = encoded.finish();
        let configured_query = self.settings.url.query().filter(|query| !query.is_empty());
        let is_compat = self.settings.compat == Compat::Reference;
        let verb = match self.settings.verb {
            // The metadata endpoint has no POST.
            _ if path == METADATA_PATH => Verb::Get,
            Verb::Get if encoded.len() > MAX_GET_BYTES => Verb::Post,
            verb => verb,
        };
        let (method, uri, body) = match (verb, configured_query) {
            // prometheus-adapter drops the parameters of the URL.
            (Verb::Get, Some(configured)) if !is_compat => {
                (Method::GET, format!("{path}?{configured}&{encoded}"), Vec::new())
            }
            (Verb::Get, _) => (Method::GET, format!("{path}?{encoded}"), Vec::new()),
            (Verb::Post, Some(configured)) => {
                (Method::POST, format!("{path}?{configured}"), encoded.into_bytes())
            }
            (Verb::Post, None) => (Method::POST, path.to_owned(), encoded.into_bytes()),
        };
        let mut request = Request::new(Body::from(body));
        // Parsing can't fail, because the text is short, all characters are encoded, and the URL
        // was parsed before.
        *request.uri_mut() = uri.parse().unwrap_or_default();
        if method == Method::POST {
            let form = HeaderValue::from_static("application/x-www-form-urlencoded");
            request.headers_mut().insert(header::CONTENT_TYPE, form);
        }
        *request.method_mut() = method;
        request
    }

    /// Reads the body. For a large body, also returns a permit, which the caller must hold until
    /// the body is decoded.
    async fn read_body(
        &self,
        response: Response<Body>,
        limit: TimeLimit,
    ) -> Result<(BytesMut, Option<SemaphorePermit<'_>>), QueryFailure> {
        let max = self.settings.max_response_bytes;
        let mut chunks = response.into_body().into_data_stream();
        let (mut body, mut large) = (BytesMut::new(), None);
        loop {
            let chunk = timeout_at(limit.deadline, chunks.try_next()).await;
            let chunk = chunk.map_err(|_| self.slow_response_error(limit))?;
            let chunk =
                chunk.map_err(|error| QueryFailure::Body(Arc::new(io::Error::other(error))))?;
            let Some(chunk) = chunk else {
                return Ok((body, large));
            };
            let len = body.len() + chunk.len();
            if len > max {
                return Err(QueryFailure::TooLong(max));
            }
            if len > SMALL_RESPONSE_BYTES && large.is_none() {
                let permit = timeout_at(limit.deadline, self.large_response.acquire()).await;
                let permit = permit.ok().and_then(Result::ok);
                large = Some(permit.ok_or(QueryFailure::BusyReading(limit.duration))?);
            }
            body.extend_from_slice(&chunk);
        }
    }
}

/// Host and port, without user and password.
fn address(url: &Uri) -> String {
    let host = url.host().unwrap_or_default();
    let default_port = if url.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    format!("{host}:{}", url.port_u16().unwrap_or(default_port))
}
