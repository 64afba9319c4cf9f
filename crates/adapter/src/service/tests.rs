//! Requests of one client don't delay those of the API server, of other users and of probes. Errors
//! are bounded and reveal nothing to unauthenticated clients.

use std::{collections::HashSet, pin::Pin};

use async_trait::async_trait;
use futures::{FutureExt, future::pending};
use hpa_calc::readings::MetricsApi;
use hpa_metrics::{
    ApiGroups, MetricError, NotFound, ObjectKey, ObjectMetadata,
    resource::GroupResource,
    test_doubles::{FixedObjects, FixedSource},
};
use http::{Request, header};
use parking_lot::Mutex;
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::*;
use crate::{
    authentication::Trust,
    reviews::{Access, AccessReviews, AuthorizerOptions, TokenAuthenticator, TokenReviews},
    test_certificates::{ClusterCas, Leaf, leaf},
};

/// An API server that reviews only known tokens and users, and never responds to other requests.
/// While `is_down`, all reviews fail.
#[derive(Default)]
pub(crate) struct KnownReviews {
    /// Valid tokens, each named like its user.
    pub(crate) tokens: HashSet<&'static str>,
    /// Users with all rights.
    pub(crate) users: HashSet<&'static str>,
    pub(crate) running: Mutex<usize>,
    pub(crate) is_down: Mutex<bool>,
}

impl KnownReviews {
    /// Counts a review that never ends.
    async fn never_review<T>(&self) -> T {
        *self.running.lock() += 1;
        pending().await
    }
}

#[async_trait]
impl TokenReviews for KnownReviews {
    async fn review_token(&self, token: &str) -> Result<Option<User>, ReviewError> {
        if *self.is_down.lock() {
            return Err(ReviewError::Timeout);
        }
        match self.tokens.get(token) {
            Some(name) => Ok(Some(User::new(name, &[]))),
            None => self.never_review().await,
        }
    }
}

#[async_trait]
impl AccessReviews for KnownReviews {
    async fn review_access(&self, user: &User, _: &RequestInfo) -> Result<Access, ReviewError> {
        if *self.is_down.lock() {
            return Err(ReviewError::Timeout);
        }
        if self.users.contains(&*user.name) {
            return Ok(Access { allowed: true, reason: String::new() });
        }
        self.never_review().await
    }
}

pub(crate) fn adapter(
    source: FixedSource,
    reviews: &Arc<KnownReviews>,
    cluster: &ClusterCas,
) -> Adapter {
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
        groups: watch::channel(ApiGroups::ALL).1,
        compat: Compat::Off,
        port: 6443,
        version: Version::default(),
        stop: CancellationToken::new(),
    };
    Adapter::new(Arc::new(source), Arc::new(authenticator), authorizer, metrics, options)
}

/// An adapter whose API server reviews these tokens and users.
fn adapter_without_metrics(
    tokens: &[&'static str],
    users: &[&'static str],
) -> (Adapter, Arc<KnownReviews>, ClusterCas) {
    let [tokens, users] = [tokens, users].map(|names| names.iter().copied().collect());
    let reviews = Arc::new(KnownReviews { tokens, users, ..KnownReviews::default() });
    let cluster = ClusterCas::new();
    (adapter(FixedSource::default(), &reviews, &cluster), reviews, cluster)
}

/// Replaces the trusted certificates of a running adapter.
pub(crate) fn set_trust(adapter: &Adapter, trust: Trust) {
    adapter.authenticator.set_trust(trust);
}

fn request(path: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

/// The status of a response that needs no waiting.
fn status(adapter: &Adapter, request: &Parts, peer: &Peer) -> u16 {
    let response = adapter.respond(request, peer).now_or_never();
    response.expect("a response at once").status().as_u16()
}

fn peer(chain: Vec<CertificateDer<'static>>) -> Peer {
    Peer::new([127, 0, 0, 1].into(), chain)
}

fn front_proxy(cluster: &ClusterCas) -> Peer {
    peer(leaf("front-proxy-client").issued_by(&cluster.front_proxy))
}

/// A client without a certificate.
fn client(last: u8) -> Peer {
    Peer::new([127, 0, 0, last].into(), Vec::new())
}

type WaitingRequests<'a> = Vec<Pin<Box<dyn Future<Output = Response<Bytes>> + 'a>>>;

/// Sends requests. Returns those that are waiting, and the number of 429 responses.
fn flood<'a>(
    adapter: &'a Adapter,
    requests: &'a [Parts],
    peer: &'a Peer,
) -> (WaitingRequests<'a>, usize) {
    let (mut waiting, mut refused) = (WaitingRequests::new(), 0);
    for request in requests {
        let mut response: Pin<Box<dyn Future<Output = _> + 'a>> =
            Box::pin(adapter.respond(request, peer));
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
const EVE: [(&str, &str); 1] = [("X-Remote-User", "eve")];

/// Requests with different tokens: no review is cached.
fn tokens(count: usize) -> Vec<Parts> {
    let token = |token| request(VERSION, &[("Authorization", &format!("Bearer {token}"))]);
    (0..count).map(token).collect()
}

fn paths(count: usize, headers: &[(&str, &str)]) -> Vec<Parts> {
    (0..count).map(|path| request(&format!("/{path}"), headers)).collect()
}

#[tokio::test(start_paused = true)]
async fn unreviewed_tokens_delay_no_other_requests() {
    let users = ["web", "new", "jane", "carl", "system:anonymous"];
    let (adapter, reviews, cluster) = adapter_without_metrics(&["web", "new"], &users);
    let (eve, prometheus, other) = (client(1), client(2), client(3));
    let web = request(VERSION, &[("Authorization", "Bearer web")]);
    assert_eq!(status(&adapter, &web, &prometheus), 200);
    assert_eq!(status(&adapter, &web, &eve), 200);

    let requests = tokens(1000);
    let (waiting, refused) = flood(&adapter, &requests, &eve);
    assert_eq!((waiting.len(), refused), (20, 980), "the burst of an address");
    assert_eq!(*reviews.running.lock(), 8, "half of the reviews");

    let proxied = request(VERSION, &JANE);
    let by_certificate = peer(leaf("carl").issued_by(&cluster.clients));
    assert_eq!(status(&adapter, &proxied, &front_proxy(&cluster)), 200);
    assert_eq!(status(&adapter, &request(VERSION, &[]), &by_certificate), 200);
    assert_eq!(status(&adapter, &web, &prometheus), 200, "its review is cached");
    let new = request(VERSION, &[("Authorization", "Bearer new")]);
    assert_eq!(status(&adapter, &new, &eve), 429);
    assert_eq!(status(&adapter, &new, &other), 200, "other addresses have reviews");
    assert_eq!(status(&adapter, &request("/readyz", &[]), &eve), 200);
    assert_eq!(status(&adapter, &request(VERSION, &[]), &eve), 200, "anonymous");
    tokio::time::advance(Duration::from_secs(11)).await;
    let others: Vec<_> = (10..20).map(client).collect();
    let _floods: Vec<_> = others.iter().map(|peer| flood(&adapter, &requests, peer)).collect();
    assert_eq!(status(&adapter, &web, &prometheus), 200, "its review isn't cached any more");
    assert_eq!(status(&adapter, &web, &eve), 200, "also behind the same address");
}

#[tokio::test(start_paused = true)]
async fn rate_of_reviews_of_unknown_tokens_is_limited() {
    let (adapter, ..) = adapter_without_metrics(&[], &[]);
    let (clients, requests) = ((0..20).map(client).collect::<Vec<_>>(), tokens(30));
    let mut reviewed = 0;
    for _ in 0..10 {
        for peer in &clients {
            // The client disconnects without waiting for reviews.
            reviewed += flood(&adapter, &requests, peer).0.len();
        }
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    // The burst in total, and then the rate for 9 s.
    assert_eq!(reviewed, 80 + 9 * 40);
}

/// The API server never ends these reviews. Each client disconnects without waiting for them.
#[tokio::test(start_paused = true)]
async fn rate_of_access_reviews_is_limited_except_for_front_proxies() {
    let (adapter, _, cluster) = adapter_without_metrics(&["eve"], &["jane"]);
    let (eve, proxy) = (client(1), front_proxy(&cluster));
    let anonymous_requests = paths(20, &[]);
    let user_requests = paths(50, &[("Authorization", "Bearer eve")]);
    let (mut of_anonymous, mut of_user) = (0, 0);
    for _ in 0..10 {
        for _ in 0..16 {
            of_anonymous += flood(&adapter, &anonymous_requests, &eve).0.len();
            of_user += flood(&adapter, &user_requests, &eve).0.len();
        }
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    // The burst of an address or user, and then the rate for 9 s.
    assert_eq!((of_anonymous, of_user), (300 + 9 * 10, 300 + 9 * 20));
    for request in paths(1000, &JANE) {
        assert_eq!(status(&adapter, &request, &proxy), 404, "{}", request.uri);
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_paths_of_anonymous_clients_need_one_review() {
    let (mut adapter, reviews, _) = adapter_without_metrics(&[], &["system:anonymous"]);
    let unknown = |adapter: &Adapter| {
        let paths = ["/a", "/b/c", "/apis/unknown.io", "/apis/metrics.k8s.io/v0"];
        paths.map(|path| status(adapter, &request(path, &[]), &client(1)))
    };
    assert_eq!(status(&adapter, &request("/x", &[]), &client(1)), 404);
    *reviews.is_down.lock() = true;
    assert_eq!(unknown(&adapter), [404; 4], "the review of `/` is cached");
    for known in [VERSION, "/metrics", "/apis", "/apis/metrics.k8s.io", "/api/v1/nodes"] {
        assert_eq!(status(&adapter, &request(known, &[]), &client(1)), 500, "{known}");
    }
    adapter.options.compat = Compat::Reference;
    assert_eq!(unknown(&adapter), [500; 4], "prometheus-adapter reviews each path");
}

#[tokio::test]
async fn anonymous_requests_delay_no_other_requests() {
    let (adapter, reviews, cluster) = adapter_without_metrics(&["web"], &["web", "jane"]);
    let (requests, eve) = (paths(1000, &[]), client(1));
    let (_waiting, refused) = flood(&adapter, &requests, &eve);
    // One address gets half of the anonymous limits: of 40 admitted and 4 running reviews.
    assert_eq!((refused, *reviews.running.lock()), (980, 2));
    let proxied = request(VERSION, &JANE);
    assert_eq!(status(&adapter, &proxied, &front_proxy(&cluster)), 200);
    let web = request(VERSION, &[("Authorization", "Bearer web")]);
    assert_eq!(status(&adapter, &web, &eve), 200);
    assert_eq!(status(&adapter, &request("/readyz", &[]), &eve), 200);
}

#[tokio::test]
async fn users_delay_neither_others_nor_the_front_proxy() {
    let (adapter, reviews, cluster) = adapter_without_metrics(&["eve"], &["jane", "carl"]);
    let requests = paths(1000, &[("Authorization", "Bearer eve")]);
    let eve = client(1);
    let (_waiting, refused) = flood(&adapter, &requests, &eve);
    // One user gets half of the limits for users: of 100 admitted and 8 running reviews.
    assert_eq!((refused, *reviews.running.lock()), (950, 4));
    let carl = peer(leaf("carl").issued_by(&cluster.clients));
    assert_eq!(status(&adapter, &request(VERSION, &[]), &carl), 200);
    let proxied = request(VERSION, &JANE);
    assert_eq!(status(&adapter, &proxied, &front_proxy(&cluster)), 200);
    let masters = Leaf { organizations: &["system:masters"], ..leaf("admin") };
    let masters = peer(masters.issued_by(&cluster.clients));
    assert_eq!(status(&adapter, &request(VERSION, &[]), &masters), 200);
}

#[tokio::test]
async fn users_behind_the_front_proxy_share_its_limits() {
    let (adapter, reviews, cluster) = adapter_without_metrics(&[], &["jane"]);
    let (requests, proxy) = (paths(1000, &EVE), front_proxy(&cluster));
    let (_waiting, refused) = flood(&adapter, &requests, &proxy);
    // One user gets half of the trusted limits: of 400 started and 20 running reviews.
    assert_eq!((refused, *reviews.running.lock()), (800, 10));
    assert_eq!(status(&adapter, &request(VERSION, &JANE), &proxy), 200);

    // Tenants can create any number of service accounts. Together, those of a namespace get half of
    // the 200 reviews that eve leaves free.
    let account = |name| ("X-Remote-User", format!("system:serviceaccount:shop:{name}"));
    let accounts: Vec<_> = (0..1000).map(account).collect();
    let requests: Vec<_> =
        accounts.iter().map(|(name, value)| request("/x", &[(name, value)])).collect();
    let (_waiting, refused) = flood(&adapter, &requests, &proxy);
    assert_eq!(refused, 900);
    assert_eq!(status(&adapter, &request(VERSION, &JANE), &proxy), 200);
}

#[tokio::test]
async fn responses_that_are_not_read_delay_only_the_same_client() {
    let (adapter, ..) = adapter_without_metrics(&[], &["system:anonymous"]);
    let (eve, other) = (client(1), client(2));
    let document = request("/openapi/v2", &[]);
    let mut unread = Vec::new();
    let refused = loop {
        let response = adapter.respond(&document, &eve).await;
        if response.status() != 200 {
            break response;
        }
        unread.push(response.into_body());
        assert!(unread.len() < 100_000, "no limit");
    };
    assert_eq!(refused.status(), 429);
    assert!(refused.body().is_empty(), "a refusal costs no memory");
    assert_eq!(unread.len(), 4096, "a short one counts as 1 KiB of 4 MiB");
    assert_eq!(status(&adapter, &document, &other), 200);
    assert_eq!(status(&adapter, &request("/readyz", &[]), &eve), 200);
    unread.clear();
    assert_eq!(status(&adapter, &document, &eve), 200);
}

/// The response to an invalid path contains it twice, encoded and decoded. Both texts are truncated
/// to 4096 bytes, and then escaped for HTML.
#[tokio::test]
async fn invalid_paths_are_reported_only_after_authentication() {
    let (adapter, _, cluster) = adapter_without_metrics(&[], &[]);
    let long = format!("/apis/{}/v1/watch", "%3C".repeat(10_000));
    let invalid = [("Authorization", "Bearer ")];
    let unknown = peer(leaf("jane").issued_by(&cluster.unknown));
    for path in [long.as_str(), "/%ff", "/apis/g/v/proxy"] {
        let response = adapter.respond(&request(path, &[]), &unknown).await;
        assert_eq!(response.status(), 401, "{path}");
    }
    let mut unread = Vec::new();
    for _ in 0..1000 {
        let response = adapter.respond(&request(&long, &invalid), &client(1)).await;
        unread.push(response.into_body());
    }
    let bytes: usize = unread.iter().map(Bytes::len).sum();
    assert!(bytes > 20_000 && bytes <= 4 << 20, "{bytes} bytes of one client");
    assert!(unread[0].len() < 50_000, "{} bytes", unread[0].len());
}

#[tokio::test]
async fn texts_of_errors_are_bounded() {
    let (adapter, _, cluster) = adapter_without_metrics(&[], &["jane"]);
    let long = "n".repeat(30_000);
    for path in [format!("nodes/{long}"), format!("{long}?fieldSelector=x")] {
        let path = format!("/apis/metrics.k8s.io/v1beta1/{path}");
        let response = adapter.respond(&request(&path, &JANE), &front_proxy(&cluster)).await;
        assert_eq!(response.status(), 404);
        assert!(response.body().len() < 20_000, "{} bytes", response.body().len());
    }
}

/// prometheus-adapter reports unreadable usage as missing.
#[tokio::test]
async fn unreadable_usage_is_an_error_and_missing_usage_is_not() {
    let (_, reviews, cluster) = adapter_without_metrics(&[], &["jane"]);
    let pod = ObjectMetadata { key: ObjectKey::new("shop", "web-0"), ..ObjectMetadata::default() };
    let node = ObjectMetadata { key: ObjectKey::new("", "n0"), ..ObjectMetadata::default() };
    let source = |error| {
        let objects =
            [(GroupResource::pods(), pod.clone()), (GroupResource::nodes(), node.clone())];
        let objects = FixedObjects { objects: objects.into(), ..FixedObjects::default() };
        FixedSource { objects, error: Some(error), ..FixedSource::default() }
    };
    let codes = async |error, compat| {
        let mut adapter = adapter(source(error), &reviews, &cluster);
        adapter.options.compat = compat;
        let mut codes = Vec::new();
        for path in ["namespaces/shop/pods", "pods", "namespaces/shop/pods/web-0", "nodes"] {
            let path = format!("/apis/metrics.k8s.io/v1beta1/{path}");
            let response = adapter.respond(&request(&path, &JANE), &front_proxy(&cluster)).await;
            codes.push(response.status().as_u16());
        }
        codes
    };
    let failed = MetricError::Unresponsive(MetricsApi::Resource);
    assert_eq!(codes(failed.clone(), Compat::Off).await, [500, 500, 500, 500]);
    assert_eq!(codes(failed, Compat::Reference).await, [200, 200, 404, 200]);
    let no_value = MetricError::NoValueForObject(NotFound::NotDiscovered);
    assert_eq!(codes(no_value, Compat::Off).await, [200, 200, 404, 200]);
}

/// While the API server is down, cached reviews are used until they expire, and other requests that
/// need a review are denied.
#[tokio::test(start_paused = true)]
async fn requests_are_denied_while_the_api_server_is_down() {
    let (adapter, reviews, cluster) = adapter_without_metrics(&["web"], &["web", "jane"]);
    let proxy = front_proxy(&cluster);
    let web = request(VERSION, &[("Authorization", "Bearer web")]);
    assert_eq!(status(&adapter, &web, &client(1)), 200);
    assert_eq!(status(&adapter, &request(VERSION, &JANE), &proxy), 200);

    *reviews.is_down.lock() = true;
    assert_eq!(status(&adapter, &web, &client(1)), 200);
    assert_eq!(status(&adapter, &request(VERSION, &JANE), &proxy), 200);
    assert_eq!(status(&adapter, &request("/metrics", &JANE), &proxy), 500);
    assert!(!adapter.authorization_warnings.try_acquire(), "one line a minute");
    assert_eq!(status(&adapter, &request("/readyz", &[]), &client(1)), 200);
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(status(&adapter, &web, &client(1)), 401, "not anonymous");
    assert_eq!(status(&adapter, &request(VERSION, &JANE), &proxy), 500);

    *reviews.is_down.lock() = false;
    assert_eq!(status(&adapter, &web, &client(1)), 200);
    assert_eq!(status(&adapter, &request(VERSION, &JANE), &proxy), 200);
}

#[tokio::test]
async fn stopping_adapter_is_not_ready() {
    let (adapter, ..) = adapter_without_metrics(&[], &[]);
    let readiness = request("/readyz", &[]);
    assert_eq!(status(&adapter, &readiness, &client(1)), 200);
    adapter.options.stop.cancel();
    assert_eq!(status(&adapter, &readiness, &client(1)), 500);
}
