//! Tenants must not reach some destinations. The tests use real connections: servers on the
//! loopback addresses must not receive any.

use std::{
    collections::{HashMap, VecDeque},
    io,
};

use hpa_metrics::FairPermit;
use rstest::rstest;

use super::*;
use crate::{collectors::http::HttpDocument, guarded_http::Resolve};

/// A resolver with answers for each name, in the order of its lookups. The last one is repeated.
#[derive(Clone, Default)]
pub(super) struct Names {
    answers: Arc<Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>>,
    lookups: Arc<AtomicUsize>,
}

impl Names {
    pub(super) fn with(self, name: &str, answers: &[&[&str]]) -> Self {
        let parse = |answer: &&[&str]| answer.iter().map(|text| text.parse().unwrap()).collect();
        let answers = answers.iter().map(parse).collect();
        self.answers.lock().insert(name.to_owned(), answers);
        self
    }
}

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, host: &str, _: Option<FairPermit>) -> io::Result<Vec<IpAddr>> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock();
        let answers = answers.get_mut(host).ok_or(io::ErrorKind::NotFound)?;
        let first = answers.front().cloned().unwrap_or_default();
        if answers.len() > 1 {
            answers.pop_front();
        }
        Ok(first)
    }
}

/// Servers on both loopback addresses, with the same port.
struct Victim([Server; 2]);

impl Victim {
    async fn start() -> Self {
        loop {
            let first = Server::start(|_| ok(r#"{"v": 1}"#)).await;
            let port = first.address.port();
            // A test also starts a server on 127.0.0.2.
            let is_free = |host| std::net::TcpListener::bind((host, port)).is_ok();
            if is_free("::1") && is_free("127.0.0.2") {
                let address = format!("[::1]:{port}");
                let second = Server::start_on(&address, None, |_| ok(r#"{"v": 1}"#)).await;
                return Self([first, second]);
            }
        }
    }

    fn port(&self) -> String {
        self.0[0].port()
    }

    /// Replaces `PORT` by the port.
    fn text(&self, text: &str) -> String {
        text.replace("PORT", &self.port())
    }

    fn connections(&self) -> usize {
        self.0.iter().map(Server::max_open).sum()
    }
}

pub(super) fn clients(settings: Settings, names: Names) -> Clients {
    let clients = Clients::new(settings, Arc::new(FakeCluster::default())).unwrap();
    clients.map_http(|http| http.with_resolver(Arc::new(names)))
}

/// The plan that reads a URL, without the checks of [`CollectorPlan::new`].
fn unchecked_plan(url: &str) -> CollectorPlan {
    let query = crate::jsonpath::Query::key("$.v").unwrap();
    let extractor = Arc::new(crate::jsonpath::Extractor::new(query, None));
    CollectorPlan::for_collector(HttpDocument { endpoint: url.to_owned(), extractor })
}

#[tokio::test]
async fn permitted_addresses_are_reached() {
    let victim = Victim::start().await;
    let names = Names::default().with("pod.example", &[&["::1"]]);
    let clients = clients(settings(), names);
    for url in ["http://127.0.0.1:PORT/", "http://[::1]:PORT/", "http://pod.example:PORT/"] {
        let url = victim.text(url);
        assert_eq!(milli(fetch_with(&clients, &unchecked_plan(&url)).await), 1000, "{url}");
    }
    assert!(victim.connections() >= 2);
}

#[rstest]
#[case::loopback("http://127.0.0.1:PORT/")]
#[case::loopback_network("http://127.9.9.9:PORT/")]
#[case::short("http://127.1:PORT/")]
#[case::decimal("http://2130706433:PORT/")]
#[case::hexadecimal("http://0x7f000001:PORT/")]
#[case::hexadecimal_parts("http://0x7f.0.0.0x1:PORT/")]
#[case::octal("http://0177.0.0.1:PORT/")]
#[case::trailing_dot("http://127.0.0.1.:PORT/")]
#[case::unspecified("http://0.0.0.0:PORT/")]
#[case::zero("http://0:PORT/")]
#[case::localhost("http://localhost:PORT/")]
#[case::localhost_upper("http://LOCALHOST:PORT/")]
#[case::localhost_dot("http://localhost.:PORT/")]
#[case::localhost_below("http://x.localhost:PORT/")]
#[case::ipv6_loopback("http://[::1]:PORT/")]
#[case::ipv6_long("http://[0:0:0:0:0:0:0:1]:PORT/")]
#[case::ipv6_unspecified("http://[::]:PORT/")]
#[case::ipv6_mapped("http://[::ffff:127.0.0.1]:PORT/")]
#[case::ipv6_mapped_hex("http://[::ffff:7f00:1]:PORT/")]
#[case::ipv6_compatible("http://[::127.0.0.1]:PORT/")]
#[case::ipv6_nat64("http://[64:ff9b::7f00:1]:PORT/")]
#[case::ipv6_6to4("http://[2002:7f00:1::]:PORT/")]
#[case::ipv6_zone("http://[fe80::1%25lo]:PORT/")]
#[case::metadata("http://169.254.169.254/latest/meta-data/")]
#[case::metadata_containers("http://169.254.170.2/v2/credentials")]
#[case::metadata_ipv6("http://[fd00:ec2::254]/latest/meta-data/")]
#[case::metadata_other_cloud("http://100.100.100.200/latest/meta-data/")]
#[case::multicast("http://224.0.0.1:PORT/")]
#[case::broadcast("http://255.255.255.255:PORT/")]
#[case::user("http://user@127.0.0.1:PORT/")]
#[case::user_hides_host("http://example.org@127.0.0.1:PORT/")]
#[case::backslash("http://example.org\\@127.0.0.1:PORT/")]
#[case::encoded_host("http://%31%32%37.0.0.1:PORT/")]
#[case::wide_digits("http://\u{ff11}\u{ff12}\u{ff17}.0.0.1:PORT/")]
#[case::wide_dots("http://127\u{3002}0\u{3002}0\u{3002}1:PORT/")]
#[case::fragment("http://127.0.0.1:PORT#@example.org/")]
#[case::no_host("http:///127.0.0.1:PORT/")]
#[case::no_scheme("//127.0.0.1:PORT/")]
#[case::file("file:///etc/passwd")]
#[case::gopher("gopher://127.0.0.1:PORT/_x")]
#[case::line_break("http://127.0.0.1:PORT/\r\nX: y")]
#[case::name_of_loopback("http://four.test:PORT/")]
#[case::name_of_ipv6_loopback("http://six.test:PORT/")]
#[case::name_of_mapped_loopback("http://mapped.test:PORT/")]
#[case::name_of_metadata("http://metadata.test:PORT/")]
#[case::name_of_unspecified("http://zero.test:PORT/")]
#[case::name_of_link_local("http://link.test:PORT/")]
#[case::name_with_one_bad_address("http://mixed.test:PORT/")]
#[case::name_without_address("http://none.test:PORT/")]
#[tokio::test]
async fn url_of_a_tenant_reaches_no_local_address(#[case] url: &str) {
    let victim = Victim::start().await;
    let names = Names::default()
        .with("four.test", &[&["127.0.0.1"]])
        .with("six.test", &[&["::1"]])
        .with("mapped.test", &[&["::ffff:127.0.0.1"]])
        .with("metadata.test", &[&["169.254.169.254"]])
        .with("zero.test", &[&["0.0.0.0"]])
        .with("link.test", &[&["fe80::1"]])
        .with("mixed.test", &[&["127.0.0.2", "127.0.0.1"]])
        .with("none.test", &[&[]]);
    // 127.0.0.2 is permitted, so `mixed.test` is only refused if both of its addresses are checked.
    let policy = Policy { addresses: vec!["127.0.0.2".parse().unwrap()], ..Policy::default() };
    let clients = clients(Settings { policy, ..Settings::default() }, names);
    let url = victim.text(url);
    let error = fetch_with(&clients, &unchecked_plan(&url)).await.unwrap_err();
    let is_malformed = matches!(error, FetchError::Setting { .. });
    assert!(is_refused(&error) || is_malformed, "{url}: {error:?}");
    assert_eq!(victim.connections(), 0, "{url}");
}

#[rstest]
#[case::loopback("http://127.0.0.1:PORT/")]
#[case::other_form("http://2130706433:PORT/")]
#[case::without_scheme("//127.0.0.1:PORT/")]
#[case::localhost("http://localhost:PORT/")]
#[case::ipv6("http://[::1]:PORT/")]
#[case::name("http://four.test:PORT/")]
#[case::metadata("http://169.254.169.254/")]
#[case::user("http://user@127.0.0.2:PORT/")]
#[case::file("file:///etc/passwd")]
#[case::gopher("gopher://127.0.0.1:PORT/")]
#[tokio::test]
async fn redirection_reaches_no_local_address(#[case] location: &str) {
    let victim = Victim::start().await;
    let location = victim.text(location);
    let server = Server::start_on("127.0.0.2:0", None, move |_| redirect(&location)).await;
    let policy = Policy { addresses: vec!["127.0.0.2".parse().unwrap()], ..Policy::default() };
    let names = Names::default().with("four.test", &[&["127.0.0.1"]]);
    let clients = clients(Settings { policy, ..Settings::default() }, names);
    fetch_with(&clients, &unchecked_plan(&server.url("/"))).await.unwrap_err();
    assert_eq!((server.requests().len(), victim.connections()), (1, 0));
}

#[rstest]
#[case::other("http://other.test:PORT/")]
#[case::suffix("http://evil-listed.test:PORT/")]
#[case::prefix("http://listed.test.evil.test:PORT/")]
#[case::address("http://127.0.0.1:PORT/")]
#[case::port_as_user("http://listed.test:PORT@other.test:PORT/")]
#[tokio::test]
async fn hosts_that_are_not_listed_are_refused(#[case] url: &str) {
    let victim = Victim::start().await;
    let mut names = Names::default();
    for name in ["other.test", "evil-listed.test", "listed.test.evil.test", "listed.test"] {
        names = names.with(name, &[&["127.0.0.1"]]);
    }
    let mut settings = settings();
    settings.policy.hosts = vec!["listed.test".to_owned()];
    let clients = clients(settings, names);
    let refused = fetch_with(&clients, &unchecked_plan(&victim.text(url))).await.unwrap_err();
    assert!(is_refused(&refused), "{refused:?}");
    assert_eq!(victim.connections(), 0);
    // The same holds after a redirection.
    let location = victim.text(url);
    let server = Server::start(move |_| redirect(&location)).await;
    let listed = format!("http://listed.test:{}/", server.port());
    fetch_with(&clients, &unchecked_plan(&listed)).await.unwrap_err();
    assert_eq!((server.requests().len(), victim.connections()), (1, 0));
}

/// A name whose second lookup returns a refused address (DNS rebinding).
#[tokio::test]
async fn connection_uses_the_checked_address_without_another_lookup() {
    let victim = Victim::start().await;
    let address = format!("127.0.0.2:{}", victim.port());
    let good = Server::start_on(&address, None, |_| ok(r#"{"v": 2}"#)).await;
    let names = Names::default().with("rebinding.test", &[&["127.0.0.2"], &["127.0.0.1"]]);
    let policy = Policy { addresses: vec!["127.0.0.2".parse().unwrap()], ..Policy::default() };
    let settings = Settings { policy, ..Settings::default() };
    let clients = clients(settings, names.clone());
    let plan = unchecked_plan(&victim.text("http://rebinding.test:PORT/"));
    assert_eq!(milli(fetch_with(&clients, &plan).await), 2000);
    assert_eq!(names.lookups.load(Ordering::SeqCst), 1);
    // The next request resolves again, and checks the new address.
    assert!(is_refused(&fetch_with(&clients, &plan).await.unwrap_err()));
    assert_eq!((good.requests().len(), victim.connections()), (1, 0));
}

#[rstest]
#[case::prometheus("prometheus", &[("query", "up"), ("prometheus-server", "URL")])]
#[case::influx("influxdb", &[("query", "x"), ("address", "URL")])]
#[case::http("json-path", &[("endpoint", "URL"), ("json-key", "$")])]
#[tokio::test]
async fn each_collector_with_a_url_is_checked(
    #[case] kind: &str,
    #[case] values: &[(&str, &str)],
    #[values("http://127.0.0.1:PORT", "http://four.test:PORT")] url: &str,
) {
    let victim = Victim::start().await;
    let plan = external_at(&victim.text(url), kind, values);
    let names = Names::default().with("four.test", &[&["127.0.0.1"]]);
    let clients = clients(Settings::default(), names);
    let refused = fetch_with(&clients, &plan).await.unwrap_err();
    assert!(is_refused(&refused), "{refused:?}");
    assert_eq!(victim.connections(), 0);
}

#[rstest]
#[case::other_host("http://127.0.0.1:PORT/")]
#[case::name("http://four.test:PORT/")]
#[case::without_scheme("//127.0.0.1:PORT/")]
#[tokio::test]
async fn pod_cannot_redirect_to_another_host(#[case] location: &str) {
    let victim = Victim::start().await;
    let location = victim.text(location);
    let server = Server::start_on("127.0.0.2:0", None, move |_| redirect(&location)).await;
    let plan = pod_plan(&[("json-key", "$"), ("port", &server.port())]);
    // Both addresses are permitted.
    let mut settings = settings();
    settings.policy.addresses.push("127.0.0.2".parse().unwrap());
    let objects = with_pods(&[pod("a", "127.0.0.2")]);
    let error = error(fetch(settings, objects, &plan).await);
    assert!(error.ends_with("the redirection leads away from the pod"), "{error}");
    assert_eq!((server.requests().len(), victim.connections()), (1, 0));
}

/// A proxy resolves names itself: it must not receive tenants' URLs.
#[tokio::test]
async fn url_of_a_tenant_does_not_use_the_proxy() {
    let (proxy, server) =
        (Server::start(|_| ok(r#"{"v": 1}"#)).await, Server::start(|_| ok(r#"{"v": 2}"#)).await);
    let names = Names::default().with("a.test", &[&["127.0.0.1"]]);
    let mut settings = settings();
    settings.policy.hosts = vec!["a.test".to_owned()];
    let url = proxy.url("");
    let clients = clients(settings, names).map_http(|http| {
        http.with_environment(move |name| (name == "HTTP_PROXY").then(|| url.clone()))
    });
    let plan = unchecked_plan(&format!("http://a.test:{}/", server.port()));
    assert_eq!(milli(fetch_with(&clients, &plan).await), 2000);
    assert!(proxy.requests().is_empty());
}

/// A resolver whose lookups of `slow.example` never end.
#[derive(Clone, Default)]
struct SlowNames(Arc<AtomicUsize>);

#[async_trait]
impl Resolve for SlowNames {
    async fn resolve(&self, host: &str, permit: Option<FairPermit>) -> io::Result<Vec<IpAddr>> {
        if host == "slow.example" {
            self.0.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>().await;
        }
        drop(permit);
        Ok(vec![[127, 0, 0, 1].into()])
    }
}

#[tokio::test]
async fn slow_names_of_a_namespace_do_not_block_others() {
    let victim = Victim::start().await;
    let names = SlowNames::default();
    let clients = Clients::new(settings(), Arc::new(FakeCluster::default())).unwrap();
    let clients = clients.map_http(|http| http.with_resolver(Arc::new(names.clone())));
    let (slow, fast) = (
        unchecked_plan("http://slow.example/"),
        unchecked_plan(&victim.text("http://fast.example:PORT/")),
    );
    // A namespace gets 8 of the 16 resolutions.
    let all = futures::future::join_all((0..20).map(|_| fetch_with(&clients, &slow)));
    let (target, time) = (target(), now());
    let other = async {
        while names.0.load(Ordering::SeqCst) < 8 {
            tokio::task::yield_now().await;
        }
        fast.read(&Context::new(&clients, "other", &target, time)).await
    };
    tokio::select! {
        biased;
        results = all => panic!("{results:?}"),
        value = other => assert_eq!(milli(value), 1000),
    }
    assert_eq!(names.0.load(Ordering::SeqCst), 8);
}
