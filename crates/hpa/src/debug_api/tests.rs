use std::{net::IpAddr, sync::Mutex, time::Duration};

use hpa_adapter::metrics_api::RequestInfo;
use hpa_adapter::reviews::{AccessReviews, ReviewError, TokenReviews, User};
use hpa_controller::{SystemClock, Telemetry, cache::PodLookup};
use hpa_metrics::FixedMapper;
use hpa_prometheus::{
    rules::Config,
    source::{PrometheusSettings, Servers},
};
use http::HeaderMap;
use rstest::rstest;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::advance,
};

use super::{access::ACCESS_RATE_OF_USER, *};
use crate::cached_pods::CachedPods;

const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Accepts tokens that consist of this prefix and a user's name. The review of the token
/// `unreviewed` fails.
struct Tokens(&'static str);

#[async_trait]
impl TokenReviews for Tokens {
    async fn review_token(&self, token: &str) -> Result<Option<User>, ReviewError> {
        if token == "unreviewed" {
            return Err(ReviewError::Timeout);
        }
        let name = token.strip_prefix(self.0);
        Ok(name.map(|name| User::new(name, &[])))
    }
}

/// Allows `reader` to get documents, and records the reviews. A review of the user `unreviewed`
/// fails.
#[derive(Default)]
struct Accesses(Mutex<Vec<String>>);

#[async_trait]
impl AccessReviews for Accesses {
    async fn review_access(
        &self,
        user: &User,
        request: &RequestInfo,
    ) -> Result<hpa_adapter::reviews::Access, ReviewError> {
        let User { name, groups, .. } = user;
        let review = format!("{name} {groups:?} {} {}", request.verb, request.path);
        self.0.lock().expect("a lock").push(review);
        if name == "unreviewed" {
            return Err(ReviewError::Timeout);
        }
        let allowed = name == "reader" && request.resource.is_none();
        Ok(hpa_adapter::reviews::Access { allowed, reason: String::new() })
    }
}

fn view() -> DebugView {
    let telemetry = Arc::new(Telemetry::default());
    let recorder = Arc::new(DecisionRecorder::new(telemetry.clone(), 1 << 20));
    DebugView {
        telemetry,
        recorder,
        clock: Arc::new(SystemClock::default()),
        sync_period: Duration::from_secs(15),
        decision_settings: hpa_calc::Settings::default(),
        dry_run: false,
        keep_history: true,
        refused_rules_file: Box::new(|| None),
    }
}

/// Reviewed access, and the recorded reviews.
fn reviewed_access() -> (Access, Arc<Accesses>) {
    let accesses = Arc::<Accesses>::default();
    let (api, debug) = (Arc::new(Tokens("api-")), Arc::new(Tokens("debug-")));
    (Access::with_reviews(api, debug, accesses.clone()), accesses)
}

/// A server with reviewed access, the recorded reviews, and its address.
async fn start_with_reviews() -> (Server, Arc<Accesses>, SocketAddr) {
    let (access, accesses) = reviewed_access();
    let (server, address) =
        serve_view(LOOPBACK, None, access, view().into()).await.expect("a port");
    (server, accesses, address)
}

/// Sends a request. Returns the status and the whole text of the response.
async fn send(address: SocketAddr, request: &str, headers: &[&str]) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.expect("a server");
    let headers = [headers, &["connection: close"]].concat().join("\r\n");
    let request = format!("{request} HTTP/1.1\r\n{headers}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("a server");
    let mut response = String::new();
    stream.read_to_string(&mut response).await.expect("a response");
    let status = response.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), response)
}

#[test]
fn only_failed_reviews_count_towards_the_limit_of_their_log_line() {
    let warnings = LogLimit::default();
    assert_eq!(review_error_to_log(&Denied::NoToken, &warnings), None);
    let unreviewed = Denied::Unreviewed("no response".to_owned());
    assert_eq!(review_error_to_log(&unreviewed, &warnings), Some("no response"));
    assert_eq!(review_error_to_log(&unreviewed, &warnings), None, "a minute has not passed");
}

const STATUS: &str = "GET /debug/v1/status";
const HOST: &str = "host: x";

#[rstest]
#[case::nothing(STATUS, &[HOST], 401)]
#[case::api_token(STATUS, &[HOST, "authorization: Bearer api-reader"], 200)]
#[case::debug_token(STATUS, &[HOST, "hpa-debug-authorization: Bearer debug-reader"], 200)]
#[case::scheme_in_lower_case(STATUS, &[HOST, "authorization: bearer api-reader"], 200)]
#[case::invalid(STATUS, &[HOST, "authorization: Bearer x"], 401)]
#[case::empty(STATUS, &[HOST, "authorization: Bearer "], 401)]
#[case::without_scheme(STATUS, &[HOST, "authorization: api-reader"], 401)]
#[case::basic(STATUS, &[HOST, "authorization: Basic api-reader"], 401)]
#[case::in_the_query("GET /debug/v1/status?access_token=api-reader", &[HOST], 401)]
#[case::cookie(STATUS, &[HOST, "cookie: token=api-reader"], 401)]
#[case::api_token_in_the_header_of_debug_tokens(
    STATUS, &[HOST, "hpa-debug-authorization: Bearer api-reader"], 401
)]
#[case::debug_token_in_the_header_of_api_tokens(
    STATUS, &[HOST, "authorization: Bearer debug-reader"], 401
)]
#[case::invalid_debug_token_beside_a_valid_one(
    STATUS,
    &[HOST, "hpa-debug-authorization: Bearer x", "authorization: Bearer api-reader"],
    401
)]
#[case::headers_of_a_front_proxy(
    STATUS, &[HOST, "x-remote-user: reader", "x-remote-group: system:masters"], 401
)]
#[case::impersonation(STATUS, &[HOST, "impersonate-user: reader"], 401)]
#[case::forwarded_from_loopback(STATUS, &["host: localhost", "x-forwarded-for: 127.0.0.1"], 401)]
#[case::other_user(STATUS, &[HOST, "authorization: Bearer api-eve"], 403)]
#[case::anonymous_by_token(STATUS, &[HOST, "authorization: Bearer api-system:anonymous"], 403)]
#[case::name_of_the_group_of_masters(
    STATUS, &[HOST, "authorization: Bearer api-system:masters"], 403
)]
#[case::token_review_fails(STATUS, &[HOST, "authorization: Bearer unreviewed"], 503)]
#[case::access_review_fails(STATUS, &[HOST, "authorization: Bearer api-unreviewed"], 503)]
#[case::path_of_a_resource(
    "GET /api/v1/namespaces/x/pods/y", &[HOST, "authorization: Bearer api-reader"], 403
)]
#[case::unknown_path("GET /debug/v1/x", &[HOST, "authorization: Bearer api-reader"], 404)]
#[case::unknown_path_without_token("GET /debug/v1/x", &[HOST], 401)]
#[case::unknown_autoscaler(
    "GET /debug/v1/autoscalers/shop/web", &[HOST, "authorization: Bearer api-reader"], 404
)]
#[case::post("POST /debug/v1/status", &[HOST, "authorization: Bearer api-reader"], 405)]
#[case::post_without_token("POST /debug/v1/status", &[HOST], 401)]
#[case::wrong_parameter(
    "GET /debug/v1/autoscalers?limit=x", &[HOST, "authorization: Bearer api-reader"], 400
)]
#[tokio::test]
async fn only_users_who_may_get_the_path_read_documents(
    #[case] request: &str,
    #[case] headers: &[&str],
    #[case] expected: u16,
) {
    let (_server, _, address) = start_with_reviews().await;
    let (status, text) = send(address, request, headers).await;
    assert_eq!(status, expected, "{text}");
    assert!(text.contains("\r\nhpa-debug-api: v1\r\n"), "{text}");
    assert!(text.contains("\r\ncache-control: no-store\r\n"), "{text}");
    assert_eq!(text.contains("\"syncPeriodSeconds\":15.0"), expected == 200, "{text}");
    assert_eq!(text.contains("\r\nwww-authenticate: Bearer\r\n"), expected == 401, "{text}");
}

#[tokio::test]
async fn long_token_is_refused_without_a_review() {
    let (_server, accesses, address) = start_with_reviews().await;
    // The limit for a token is 16 KiB. hyper accepts a header of this length.
    let header = format!("authorization: Bearer api-{}", "r".repeat(20_000));
    assert_eq!(send(address, STATUS, &[HOST, &header]).await.0, 401);
    assert!(accesses.0.lock().expect("a lock").is_empty());
}

#[tokio::test]
async fn access_review_has_path_and_groups_and_is_cached() {
    let (_server, accesses, address) = start_with_reviews().await;
    for name in ["web", "api", "web"] {
        let path = format!("GET /debug/v1/autoscalers/shop/{name}?since=x");
        send(address, &path, &[HOST, "authorization: Bearer api-reader"]).await;
    }
    let reviews = accesses.0.lock().expect("a lock").clone();
    let review_for = |name: &str| {
        format!("reader [\"system:authenticated\"] get /debug/v1/autoscalers/shop/{name}")
    };
    assert_eq!(reviews, [review_for("web"), review_for("api")], "an equal review is cached");
}

/// Authorizes a request without a server, for tests in virtual time.
async fn authorize(access: &Access, token: &str, path: &str) -> StatusCode {
    let mut headers = HeaderMap::new();
    let bearer = format!("Bearer {token}").parse().expect("a header");
    headers.insert(header::AUTHORIZATION, bearer);
    match access.authorize(IpAddr::from([10, 0, 0, 1]), &headers, path).await {
        Ok(()) => StatusCode::OK,
        Err(denied) => denied_response(&denied).status(),
    }
}

#[tokio::test(start_paused = true)]
async fn rate_of_access_reviews_of_a_user_is_limited() {
    let (access, accesses) = reviewed_access();
    let known = "/debug/v1/status";
    assert_eq!(authorize(&access, "api-reader", known).await, StatusCode::OK);
    let mut refused = Vec::new();
    for number in 0..1000 {
        let status = authorize(&access, "api-reader", &format!("/debug/v1/{number}")).await;
        refused.extend((status != StatusCode::OK).then_some(status));
    }
    let review_count = accesses.0.lock().expect("a lock").len();
    assert_eq!(review_count, ACCESS_RATE_OF_USER.burst as usize);
    assert!(refused.iter().all(|status| *status == StatusCode::TOO_MANY_REQUESTS));
    assert_eq!(authorize(&access, "api-reader", known).await, StatusCode::OK, "cached");
    assert_eq!(authorize(&access, "api-eve", known).await, StatusCode::FORBIDDEN, "another user");
    advance(Duration::from_secs(1)).await;
    assert_eq!(authorize(&access, "api-reader", "/debug/v1/new").await, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn invalid_tokens_exhaust_their_rate_but_known_tokens_work() {
    let (access, _) = reviewed_access();
    let path = "/debug/v1/status";
    assert_eq!(authorize(&access, "api-reader", path).await, StatusCode::OK);
    // The cached reviews expire, but the token remains known.
    advance(Duration::from_mins(2)).await;
    let mut statuses = Vec::new();
    for number in 0..100 {
        statuses.push(authorize(&access, &format!("invalid-{number}"), path).await);
    }
    assert_eq!(statuses.first(), Some(&StatusCode::UNAUTHORIZED));
    assert_eq!(statuses.last(), Some(&StatusCode::TOO_MANY_REQUESTS));
    assert_eq!(authorize(&access, "api-reader", path).await, StatusCode::OK);
}

#[test]
fn refused_review_is_answered_with_retry_after() {
    let response = denied_response(&Denied::Busy);
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    assert!(!denied_response(&Denied::NoToken).headers().contains_key(header::RETRY_AFTER));
}

#[rstest]
#[case("host: localhost:8081", 200)]
#[case("host: 127.0.0.1:8081", 200)]
#[case("host: [::1]:8081", 200)]
#[case("host: localhost", 200)]
#[case("host: attacker.example", 403)]
#[case("host: localhost.attacker.example", 403)]
#[case("host: 127.0.0.1.attacker.example", 403)]
#[case("host: x@attacker.example", 403)]
#[case("host: ", 403)]
#[tokio::test]
async fn local_access_rejects_other_host_names(#[case] host: &str, #[case] expected: u16) {
    let (_server, address) =
        serve_view(LOOPBACK, None, Access::Local, view().into()).await.expect("a port");
    let (status, text) = send(address, STATUS, &[host]).await;
    assert_eq!(status, expected, "{text}");
}

#[test]
fn rules_file_is_reported_while_it_is_refused() {
    let source = PrometheusSource::new(
        Config::default(),
        Servers::new(None, Arc::new(())),
        PrometheusSettings::default(),
        Arc::new(FixedMapper::default()),
        Arc::new(CachedPods(PodLookup::default())),
    );
    let source = source.expect("a source");
    let path = Path::new("missing.yaml");
    assert_eq!(refused_rules_file(&source, path), None);
    source.reload("").expect_err("no rules");
    let refused = refused_rules_file(&source, path).expect("a refused file");
    let error = "the rules file has no rules";
    assert_eq!((&*refused.path, &*refused.error), ("missing.yaml", error));
    assert_eq!(refused.changed_at, None, "it can't be read");
}
