//! HTTP requests whose destination may be named by a tenant.
//!
//! `connect` is the only place that opens connections. It checks every address against the
//! [`Policy`] before.

mod connect;
mod exchange;
mod policy;
mod resolve;
mod tls;
pub(crate) mod url;

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, Method, Uri, header};
use hyper::body::Bytes;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

pub use self::policy::{Policy, Refusal};
#[cfg(test)]
pub(crate) use self::resolve::Resolve;
use self::{
    connect::Connector,
    exchange::{Message, exchange},
    resolve::SystemResolver,
    tls::Tls,
};
pub(crate) use self::{
    connect::Destination,
    exchange::Reply,
    policy::{check_url, host},
};
use crate::{
    error::{FetchError, HttpError},
    settings::{Limits, Secret, Settings},
};

const MAX_REDIRECTS: usize = 5;
/// How many large responses are received at a time. The time limit of a request bounds how long a
/// server can hold one of them up.
const LARGE_RESPONSES: usize = 16;

/// Sends requests.
pub(crate) struct GuardedHttp {
    connector: Connector,
    limits: Limits,
    slots: Arc<Semaphore>,
    /// For large responses that are received, each of which can have the maximum length.
    large_responses: Semaphore,
    /// For the one that is decoded, which takes a multiple of its length.
    decoder: Semaphore,
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) destination: Destination,
    pub(crate) connect_timeout: Duration,
    pub(crate) timeout: Duration,
}

impl Call {
    /// A request with a body, or a GET request without one.
    pub(crate) fn new(uri: Uri, destination: Destination, limits: &Limits) -> Self {
        Self {
            method: Method::GET,
            uri,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            destination,
            connect_timeout: limits.request_timeout,
            timeout: limits.request_timeout,
        }
    }

    /// A POST request.
    pub(crate) fn post(self, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let call = Self { method: Method::POST, body: body.into(), ..self };
        call.header(header::CONTENT_TYPE, HeaderValue::from_static(content_type))
    }

    pub(crate) fn header(mut self, name: header::HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Adds a credential: the scheme of the `Authorization` header, and the token.
    pub(crate) fn authorized(self, scheme: &str, token: &Secret) -> Result<Self, HttpError> {
        let value = HeaderValue::try_from(format!("{scheme} {}", token.text()));
        let mut value = value.map_err(|_| HttpError::Header)?;
        value.set_sensitive(true);
        Ok(self.header(header::AUTHORIZATION, value))
    }
}

impl GuardedHttp {
    pub(crate) fn new(settings: &Settings) -> Self {
        let connector = Connector {
            policy: settings.policy.clone(),
            proxy_permitted_hosts: settings.proxy_permitted_hosts,
            resolver: Arc::new(SystemResolver::new()),
            tls: Tls::new(settings.ca_file.clone()),
            environment: Arc::new(|name| std::env::var(name).ok()),
        };
        Self {
            connector,
            limits: settings.limits,
            slots: Arc::new(Semaphore::new(settings.limits.connections)),
            large_responses: Semaphore::new(LARGE_RESPONSES),
            decoder: Semaphore::new(1),
        }
    }

    #[cfg(test)]
    pub(crate) fn with_resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {
        self.connector.resolver = resolver;
        self
    }

    #[cfg(test)]
    pub(crate) fn with_environment(
        mut self,
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.connector.environment = Arc::new(environment);
        self
    }

    /// The value of an environment variable.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        (self.connector.environment)(name)
    }

    /// The right to decode a large body. Decoding doesn't wait for a server.
    pub(crate) async fn decoder(&self) -> Option<SemaphorePermit<'_>> {
        self.decoder.acquire().await.ok()
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Sends a request and reads the response. Redirections are errors.
    pub(crate) async fn send(&self, call: &Call) -> Result<Reply<'_>, FetchError> {
        let reply = self.send_once(call).await.and_then(|reply| match location(&reply) {
            Some(_) => Err(HttpError::Redirect("is not followed; configure the URL it leads to")),
            None => Ok(reply),
        });
        reply.map_err(|source| at(&call.uri, source))
    }

    /// Sends a GET request, and follows redirections. Each destination is checked.
    pub(crate) async fn get(&self, call: &Call) -> Result<Reply<'_>, FetchError> {
        let mut call = call.clone();
        // Waiting for a connection doesn't count.
        let limit = call.timeout + self.limits.queue_timeout;
        let result = timeout(limit, self.follow(&mut call)).await;
        result.unwrap_or(Err(HttpError::Timeout(limit))).map_err(|source| at(&call.uri, source))
    }

    async fn follow(&self, call: &mut Call) -> Result<Reply<'_>, HttpError> {
        for _ in 0..=MAX_REDIRECTS {
            let reply = self.send_once(call).await?;
            let Some(location) = location(&reply) else { return Ok(reply) };
            let target = url::join(&call.uri, location)?;
            redirect(call, target)?;
        }
        Err(HttpError::Redirect("is followed by too many others"))
    }

    async fn send_once(&self, call: &Call) -> Result<Reply<'_>, HttpError> {
        let limits = &self.limits;
        let permit = timeout(limits.queue_timeout, self.slots.clone().acquire_owned()).await;
        let permit = permit.ok().and_then(Result::ok);
        let permit = permit.ok_or(HttpError::Busy(limits.queue_timeout))?;
        let work = async {
            let limit = call.connect_timeout.min(call.timeout);
            let connection =
                self.connector.connect(&call.uri, call.destination, permit, limit).await?;
            let message = Message {
                method: &call.method,
                uri: &call.uri,
                headers: &call.headers,
                body: call.body.clone(),
            };
            exchange(connection, message, limits.response_bytes, &self.large_responses).await
        };
        let result = timeout(call.timeout, work).await;
        result.unwrap_or(Err(HttpError::Timeout(call.timeout)))
    }
}

/// Where a response redirects to.
fn location<'r>(reply: &'r Reply<'_>) -> Option<&'r str> {
    let is_redirection = matches!(reply.status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = reply.headers.get(header::LOCATION).filter(|_| is_redirection)?;
    location.to_str().ok()
}

/// Changes a request to the target of a redirection.
fn redirect(call: &mut Call, target: Uri) -> Result<(), HttpError> {
    if url::is_https(&call.uri) && !url::is_https(&target) {
        return Err(HttpError::Redirect("leads from https to http"));
    }
    if call.destination == Destination::Pod && url::host(&call.uri) != url::host(&target) {
        return Err(HttpError::Redirect("leads away from the pod"));
    }
    if !url::is_same_origin(&call.uri, &target) {
        call.headers.remove(header::AUTHORIZATION);
    }
    call.uri = target;
    Ok(())
}

/// An error with the server that it is about.
pub(crate) fn at(uri: &Uri, source: HttpError) -> FetchError {
    FetchError::Http { server: url::origin(uri), source }
}
