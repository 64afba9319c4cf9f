//! Instances in one election, with a clock and a network of their own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use hpa_lease::{Candidate, Clock, Election, ElectionConfig, Instants, Leadership, LeaseHooks};
use hpa_testbed::Testbed;
use http::{Request, Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, client::Body};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tower::service_fn;

pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(15);
pub(crate) const RENEW_DEADLINE: Duration = Duration::from_secs(10);
pub(crate) const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// Shorter than any period of the election.
pub(crate) const MOMENT: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Network {
    Works,
    Fails,
    Hangs,
    /// Requests reach the API server after this time.
    Slow(Duration),
    /// The API server handles requests at once, and the responses are delayed.
    DelaysResponses(Duration),
}

/// A clock that runs with tokio's time. Its wall clock can be skewed.
#[derive(Clone)]
pub(crate) struct SkewedClock {
    origin: Instant,
    skew_seconds: Arc<AtomicI64>,
}

impl SkewedClock {
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now(), skew_seconds: Arc::default() }
    }

    pub(crate) fn skew(&self, by: SignedDuration) {
        self.skew_seconds.store(by.as_secs(), Ordering::Relaxed);
    }
}

impl Clock for SkewedClock {
    fn instants(&self) -> Instants {
        let monotonic = self.origin.elapsed();
        let skew = SignedDuration::from_secs(self.skew_seconds.load(Ordering::Relaxed));
        let base = Timestamp::from_second(1_800_000_000).expect("a timestamp");
        Instants { wall: base + monotonic + skew, monotonic }
    }
}

/// Writes the annotation `instance`.
struct Annotation(String);

impl LeaseHooks for Annotation {
    fn annotations(&self) -> Vec<(&'static str, Option<String>)> {
        vec![("instance", Some(self.0.clone()))]
    }
}

pub(crate) struct Instance {
    pub(crate) candidate: Candidate,
    pub(crate) clock: SkewedClock,
    pub(crate) network: watch::Sender<Network>,
    pub(crate) client: Client,
}

impl Instance {
    pub(crate) fn start(testbed: &Testbed, name: &str, skew: SignedDuration) -> Self {
        let network = watch::Sender::new(Network::Works);
        let client = client(testbed, network.subscribe());
        let election = election(client.clone(), name);
        let clock = SkewedClock::start();
        clock.skew(skew);
        let hooks = Arc::new(Annotation(name.to_owned()));
        let candidate = Candidate::new(Some(&election), Arc::new(clock.clone()), hooks);
        Self { candidate, clock, network, client }
    }

    pub(crate) async fn leader(testbed: &Testbed, name: &str) -> Self {
        let instance = Self::start(testbed, name, SignedDuration::ZERO);
        timeout(MOMENT, instance.leadership().acquired())
            .await
            .expect("a free lease")
            .expect("the leader");
        instance
    }

    /// An instance that has observed another leader.
    pub(crate) async fn standby(testbed: &Testbed, name: &str) -> Self {
        let instance = Self::start(testbed, name, SignedDuration::ZERO);
        sleep(MOMENT).await;
        assert!(!instance.is_leader());
        instance
    }

    pub(crate) fn leadership(&self) -> &Leadership {
        self.candidate.leadership()
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.leadership().is_leader()
    }
}

pub(crate) fn election(client: Client, name: &str) -> Election {
    let config = ElectionConfig {
        namespace: "kube-system".to_owned(),
        name: "hpa-controller".to_owned(),
        identity: name.to_owned(),
        lease_duration: LEASE_DURATION,
        renew_deadline: RENEW_DEADLINE,
        retry_period: RETRY_PERIOD,
    };
    Election { client, config }
}

pub(crate) fn client(testbed: &Testbed, network: watch::Receiver<Network>) -> Client {
    let server = testbed.client();
    let service = service_fn(move |request: Request<Body>| {
        let (server, mode) = (server.clone(), *network.borrow());
        async move {
            match mode {
                Network::Works => {}
                Network::Slow(time) => sleep(time).await,
                Network::Hangs => std::future::pending().await,
                Network::DelaysResponses(time) => {
                    let response = server.send(request).await;
                    sleep(time).await;
                    return response;
                }
                Network::Fails => {
                    let response = Response::builder().status(StatusCode::SERVICE_UNAVAILABLE);
                    return Ok(response.body(Body::empty()).expect("a response"));
                }
            }
            server.send(request).await
        }
    });
    Client::new(service, "default")
}

pub(crate) fn leases(testbed: &Testbed) -> Api<Lease> {
    Api::namespaced(testbed.client(), "kube-system")
}

/// The holder, the duration in seconds, and the number of transitions.
pub(crate) async fn lease(testbed: &Testbed) -> (String, i32, i32) {
    let lease = leases(testbed).get("hpa-controller").await.expect("the lease");
    let spec = lease.spec.expect("a spec");
    let number = |number: Option<i32>| number.expect("a number");
    (
        spec.holder_identity.expect("a holder"),
        number(spec.lease_duration_seconds),
        number(spec.lease_transitions),
    )
}

/// Waits and asserts every 100 ms that there is at most one leader.
pub(crate) async fn assert_single_leader_for(time: Duration, instances: &[&Instance]) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        sleep(Duration::from_millis(100)).await;
        let leaders = instances.iter().filter(|instance| instance.is_leader()).count();
        assert!(leaders <= 1, "{leaders} leaders");
    }
}

/// Waits until the second instance is the leader, and returns the time that this took. Asserts
/// every 100 ms that not both are leaders.
pub(crate) async fn takeover(first: &Instance, second: &Instance) -> Duration {
    let start = Instant::now();
    while !second.is_leader() {
        assert_single_leader_for(Duration::from_millis(100), &[first, second]).await;
        assert!(start.elapsed() < Duration::from_mins(2), "the lease was not acquired");
    }
    start.elapsed()
}
