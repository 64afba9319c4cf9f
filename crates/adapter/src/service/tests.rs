//! Requests that anybody can send don't delay those of the API server, of users and of probes.

use std::{collections::HashSet, pin::Pin};

use crate::reviews::{Access, AccessReviews, AuthorizerOptions, TokenAuthenticator, TokenReviews};
use async_trait::async_trait;
use futures::{FutureExt, future::pending};
use hpa_metrics::test_doubles::FixedSource;
use http::Request;
use parking_lot::Mutex;

use super::*;
use crate::test_certificates::{Cluster, leaf};

/// An API server that reviews only what it is prepared for, and never answers other requests.
#[derive(Default)]
pub(crate) struct Reviews {
    /// Tokens whose name is that of their user.
    pub(crate) tokens: HashSet<&'static str>,
    /// Users who may do everything.
    pub(crate) users: HashSet<&'static str>,
    pub(crate) running: Mutex<usize>,
}

impl Reviews {
    async fn forever<T>(&self) -> T {
        *self.running.lock() += 1;
        pending().await
    }
}

#[async_trait]
impl TokenReviews for Reviews {
    async fn review_token(&self, token: &str) -> Result<Option<User>, ReviewError> {
        match self.tokens.get(token) {
            Some(name) => Ok(Some(User::new(name, &[]))),
            None => self.forever().await,
        }
    }
}

#[async_trait]
impl AccessReviews for Reviews {
    async fn review_access(&self, user: &User, _: &RequestInfo) -> Result<Access, ReviewError> {
        if self.users.contains(&*user.name) {
            return Ok(Access { allowed: true, reason: String::new() });
        }
        self.forever().await
    }
}

pub(crate) fn adapter(source: FixedSource, reviews: &Arc<Reviews>, cluster: &Cluster) -> Adapter {
    let lifetime = Duration::from_secs(10);
    let tokens = TokenAuthenticator::new(reviews.clone(), lifetime);
    let authenticator = Authenticator::new(cluster.trust(|_| ()), Some(tokens));
    let options = AuthorizerOptions {
        always_allowed: vec!["/readyz".to_owned()],
        allowed_lifetime: lifetime,
        denied_lifetime: lifetime,
    };
    let authorizer = Authorizer::new(reviews.clone(), &options);
    let metrics = Arc::new(Metrics::new().unwrap());
    let options = AdapterOptions {
        groups: InstalledGroups { custom: true, external: true, resource: true },
        compat: Compat::Off,
        port: 6443,
        version: Version::default(),
    };
    Adapter::new(Arc::new(source), Arc::new(authenticator), authorizer, metrics, options)
}

fn request(path: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

/// The status of a response, or 0 if the request waits.
fn status(adapter: &Adapter, request: &Parts, peer: Option<&Peer>) -> u16 {
    let response = adapter.respond(request, peer).now_or_never();
    response.map_or(0, |response| response.status().as_u16())
}

fn front_proxy(cluster: &Cluster) -> Peer {
    Peer::new(leaf("front-proxy-client").issued_by(&cluster.front_proxy))
}

/// Requests that wait.
type Waiting<'a> = Vec<Pin<Box<dyn Future<Output = Response<Bytes>> + 'a>>>;

/// Sends requests and returns those that wait, and how many were refused with 429.
fn flood<'a>(adapter: &'a Adapter, requests: &'a [Parts]) -> (Waiting<'a>, usize) {
    let (mut waiting, mut refused) = (Waiting::new(), 0);
    for request in requests {
        let mut response: Pin<Box<dyn Future<Output = _> + 'a>> =
            Box::pin(adapter.respond(request, None));
        match response.as_mut().now_or_never() {
            None => waiting.push(response),
            Some(response) => {
                assert_eq!(response.status(), 429);
                assert_eq!(response.headers()[header::RETRY_AFTER], "1");
                refused += 1;
            }
        }
    }
    (waiting, refused)
}

const VERSION: &str = "/version";
const JANE: [(&str, &str); 1] = [("X-Remote-User", "jane")];

#[tokio::test]
async fn unreviewed_tokens_delay_no_other_requests() {
    let reviews = Reviews {
        tokens: ["web"].into(),
        users: ["web", "jane", "carl", "system:anonymous"].into(),
        ..Reviews::default()
    };
    let (reviews, cluster) = (Arc::new(reviews), Cluster::new());
    let adapter = adapter(FixedSource::default(), &reviews, &cluster);
    let web = request(VERSION, &[("Authorization", "Bearer web")]);
    assert_eq!(status(&adapter, &web, None), 200);

    let requests: Vec<_> = (0..1000)
        .map(|token| request(VERSION, &[("Authorization", &format!("Bearer {token}"))]))
        .collect();
    let (waiting, refused) = flood(&adapter, &requests);
    assert_eq!((waiting.len(), refused, *reviews.running.lock()), (128, 872, 16));

    let proxied = request(VERSION, &JANE);
    let by_certificate = Peer::new(leaf("carl").issued_by(&cluster.clients));
    assert_eq!(status(&adapter, &proxied, Some(&front_proxy(&cluster))), 200);
    assert_eq!(status(&adapter, &request(VERSION, &[]), Some(&by_certificate)), 200);
    assert_eq!(status(&adapter, &web, None), 200, "its review is cached");
    assert_eq!(status(&adapter, &request("/readyz", &[]), None), 200);
    assert_eq!(status(&adapter, &request(VERSION, &[]), None), 200, "anonymous");
    drop(waiting);
    assert_eq!(status(&adapter, &requests[0], None), 0, "there is room for reviews again");
}

#[tokio::test]
async fn anonymous_requests_delay_no_other_requests() {
    let reviews =
        Reviews { tokens: ["web"].into(), users: ["web", "jane"].into(), ..Reviews::default() };
    let (reviews, cluster) = (Arc::new(reviews), Cluster::new());
    let adapter = adapter(FixedSource::default(), &reviews, &cluster);
    let requests: Vec<_> = (0..1000).map(|path| request(&format!("/{path}"), &[])).collect();
    let (_waiting, refused) = flood(&adapter, &requests);
    assert_eq!((refused, *reviews.running.lock()), (960, 4));
    let proxied = request(VERSION, &JANE);
    assert_eq!(status(&adapter, &proxied, Some(&front_proxy(&cluster))), 200);
    let web = request(VERSION, &[("Authorization", "Bearer web")]);
    assert_eq!(status(&adapter, &web, None), 200);
    assert_eq!(status(&adapter, &request("/readyz", &[]), None), 200);
}

#[tokio::test]
async fn users_delay_neither_masters_nor_the_front_proxy() {
    let reviews = Reviews { tokens: ["eve"].into(), users: ["jane"].into(), ..Reviews::default() };
    let (reviews, cluster) = (Arc::new(reviews), Cluster::new());
    let adapter = adapter(FixedSource::default(), &reviews, &cluster);
    let eve = [("Authorization", "Bearer eve")];
    let requests: Vec<_> = (0..1000).map(|path| request(&format!("/{path}"), &eve)).collect();
    let (_waiting, refused) = flood(&adapter, &requests);
    assert_eq!((refused, *reviews.running.lock()), (900, 8));
    let proxied = request(VERSION, &JANE);
    assert_eq!(status(&adapter, &proxied, Some(&front_proxy(&cluster))), 200);
    let masters =
        crate::test_certificates::Leaf { organizations: &["system:masters"], ..leaf("admin") };
    let masters = Peer::new(masters.issued_by(&cluster.clients));
    assert_eq!(status(&adapter, &request(VERSION, &[]), Some(&masters)), 200);
}

#[tokio::test]
async fn responses_that_are_not_read_delay_only_equal_callers() {
    let users = ["system:anonymous", "jane"].into();
    let (reviews, cluster) = (Arc::new(Reviews { users, ..Reviews::default() }), Cluster::new());
    let adapter = adapter(FixedSource::default(), &reviews, &cluster);
    let document = request("/openapi/v2", &[]);
    let mut unread = Vec::new();
    let refused = loop {
        let response = adapter.respond(&document, None).await;
        if response.status() != 200 {
            break response;
        }
        unread.push(response.into_body());
        assert!(unread.len() < 100_000, "no limit");
    };
    assert_eq!(refused.status(), 429);
    assert_eq!(unread.len(), 4096, "a short one counts as 1 KiB of 4 MiB");
    let proxied = request("/openapi/v2", &JANE);
    assert_eq!(status(&adapter, &proxied, Some(&front_proxy(&cluster))), 200);
    assert_eq!(status(&adapter, &request("/readyz", &[]), None), 200);
    unread.clear();
    assert_eq!(status(&adapter, &document, None), 200);
}
