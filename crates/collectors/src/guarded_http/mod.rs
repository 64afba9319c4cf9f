//! Sends HTTP requests to destinations that tenants may choose.
//!
//! Only the module `connect` opens connections. Before it connects to a pod or to the host of a
//! tenant's URL, it checks the addresses against the [`Policy`].

mod connect;
mod exchange;
pub(crate) mod policy;
mod request;
mod resolve;
mod restricted;
mod tls;
pub(crate) mod url;

use std::sync::Arc;

use hpa_metrics::FairSemaphore;
use http::{Uri, header};
use tokio::{
    task::JoinError,
    time::{Instant, timeout},
};

pub(crate) use self::policy::check_url_syntax;
#[cfg(test)]
pub(crate) use self::resolve::Resolve;
use self::{
    connect::{Connector, MAX_RESOLUTIONS},
    exchange::exchange,
    resolve::SystemResolver,
    restricted::restricted_servers,
    tls::Tls,
};
pub use self::{
    exchange::Reply,
    policy::{Policy, Refusal},
    request::{Destination, HttpRequest},
};
use crate::{
    error::{FetchError, HttpError},
    settings::{Limits, Settings},
};

const MAX_REDIRECTS: usize = 5;
/// The maximum number of large responses that are read or evaluated at the same time. A slow server
/// occupies a permit at most until the request times out.
const MAX_LARGE_RESPONSES: usize = 16;
/// The maximum number of concurrent evaluations of documents.
const MAX_EVALUATIONS: usize = 2;

/// An HTTP client that checks destinations and limits resources.
pub(crate) struct GuardedHttp {
    connector: Connector,
    limits: Limits,
    connections: FairSemaphore,
    large_responses: FairSemaphore,
    /// Limits concurrent evaluations, because each needs memory of several times the length of the
    /// document.
    evaluations: FairSemaphore,
}

impl GuardedHttp {
    pub(crate) fn new(settings: &Settings) -> Self {
        let connector = Connector {
            policy: settings.policy.clone(),
            restricted_servers: restricted_servers(settings),
            resolver: Arc::new(SystemResolver),
            resolutions: FairSemaphore::new(MAX_RESOLUTIONS),
            tls: Tls::new(settings.ca_file.clone()),
            environment: Arc::new(|name| std::env::var(name).ok()),
        };
        Self {
            connector,
            limits: settings.limits,
            connections: FairSemaphore::new(settings.limits.connections),
            large_responses: FairSemaphore::new(MAX_LARGE_RESPONSES),
            evaluations: FairSemaphore::new(MAX_EVALUATIONS),
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

    /// The value of an environment variable. `None` if it is empty or unset.
    pub(crate) fn env_var(&self, name: &str) -> Option<String> {
        (self.connector.environment)(name).filter(|value| !value.is_empty())
    }

    /// Runs CPU-bound work for a namespace on a blocking thread. If the caller is cancelled, the
    /// work keeps its permit until it ends.
    pub(crate) async fn evaluate<T: Send + 'static>(
        &self,
        namespace: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let permit = self.evaluations.acquire(namespace).await;
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        task.await
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether the operator lists the hosts of tenants' URLs.
    pub(crate) fn has_host_list(&self) -> bool {
        !self.connector.policy.hosts.is_empty()
    }

    /// Sends a request and reads the response. Redirections are errors.
    pub(crate) async fn send(&self, request: &HttpRequest) -> Result<Reply, FetchError> {
        let reply = self.send_once(request).await.and_then(|reply| match location(&reply) {
            Some(_) => Err(HttpError::Redirect("is not followed; configure the URL it leads to")),
            None => Ok(reply),
        });
        reply.map_err(|source| http_error(&request.uri, source))
    }

    /// Sends a GET request, and follows up to [`MAX_REDIRECTS`] redirections. Each destination is
    /// checked.
    pub(crate) async fn get(&self, request: &HttpRequest) -> Result<Reply, FetchError> {
        // The timeout of a request doesn't include the wait for a connection.
        let limit = request.timeout + self.limits.queue_timeout;
        let result = timeout(limit, self.follow_redirections(request.clone())).await;
        result
            .unwrap_or(Err(HttpError::Timeout(limit)))
            .map_err(|source| http_error(&request.uri, source))
    }

    async fn follow_redirections(&self, mut request: HttpRequest) -> Result<Reply, HttpError> {
        let mut reply = self.send_once(&request).await?;
        for _ in 0..MAX_REDIRECTS {
            let Some(location) = location(&reply) else { return Ok(reply) };
            // Errors don't contain the location, because they must not quote responses.
            let new_uri = url::join(&request.uri, location)
                .map_err(|_| HttpError::Redirect("has an invalid destination"))?;
            redirect(&mut request, new_uri)?;
            drop(reply);
            reply = self.send_once(&request).await.map_err(HttpError::after_redirection)?;
        }
        if location(&reply).is_none() {
            return Ok(reply);
        }
        Err(HttpError::Redirect("exceeds the limit of five redirections"))
    }

    async fn send_once(&self, request: &HttpRequest) -> Result<Reply, HttpError> {
        let limits = &self.limits;
        let permit =
            timeout(limits.queue_timeout, self.connections.acquire(&request.namespace)).await;
        let permit = permit.ok().flatten();
        let permit = permit.ok_or(HttpError::Busy(limits.queue_timeout))?;
        let deadline = Instant::now() + request.timeout;
        // Connecting has a time limit of its own, which is at most that of the request.
        let connection = self.connector.connect(request, permit).await?;
        let max_bytes = limits.response_bytes;
        exchange(connection, request, deadline, max_bytes, &self.large_responses).await
    }
}

/// The `Location` header of a redirection. `None` for other responses.
fn location(reply: &Reply) -> Option<&str> {
    let is_redirection = matches!(reply.status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = reply.headers.get(header::LOCATION).filter(|_| is_redirection)?;
    location.to_str().ok()
}

/// Changes the URL of a request. Refuses redirections from HTTPS to HTTP and from a pod to another
/// host. Removes credentials if the origin changes.
fn redirect(request: &mut HttpRequest, new_uri: Uri) -> Result<(), HttpError> {
    if url::is_https(&request.uri) && !url::is_https(&new_uri) {
        return Err(HttpError::Redirect("leads from https to http"));
    }
    if request.destination == Destination::Pod && url::host(&request.uri) != url::host(&new_uri) {
        return Err(HttpError::Redirect("leads away from the pod"));
    }
    if !url::is_same_origin(&request.uri, &new_uri) {
        request.headers.remove(header::AUTHORIZATION);
    }
    request.uri = new_uri;
    Ok(())
}

/// Adds the scheme, host and port of a URL to an error.
pub(crate) fn http_error(uri: &Uri, source: HttpError) -> FetchError {
    FetchError::Http { server: hpa_metrics::url_origin(uri), source }
}
