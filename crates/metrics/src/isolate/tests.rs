use std::collections::HashMap;

use futures::future::join_all;
use hpa_calc::selector::Selector;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::{ExternalQuery, ExternalValues, UsageList};

const TIMEOUT: Duration = Duration::from_secs(10);

/// A source that responds after as many seconds as the external metric's name says, or times out.
/// The name `invalid` is an error, and usage is read at once. Records the highest concurrency by
/// API.
#[derive(Clone, Default)]
struct Source {
    running: Arc<Mutex<HashMap<MetricsApi, usize>>>,
    highest: Arc<Mutex<HashMap<MetricsApi, usize>>>,
}

impl Source {
    fn record_start(&self, api: MetricsApi) {
        let (mut running, mut highest) = (self.running.lock(), self.highest.lock());
        let (running, highest) = (running.entry(api).or_default(), highest.entry(api).or_default());
        *running += 1;
        *highest = (*highest).max(*running);
    }
}

#[async_trait]
impl MetricSource for Source {
    async fn read(&self, query: &Query) -> Result<Values, MetricError> {
        if matches!(query, Query::External(query) if query.metric == "invalid") {
            let (name, reasons) = ("..".into(), "may not be '..'".into());
            return Err(MetricError::InvalidName { part: "metric name", name, reasons });
        }
        let api = query.api();
        self.record_start(api);
        let seconds = match query {
            Query::External(query) => query.metric.parse().expect("a number"),
            _ => 0,
        };
        let response = timeout(TIMEOUT, sleep(Duration::from_secs(seconds))).await;
        *self.running.lock().entry(api).or_default() -= 1;
        match (response, query) {
            (Err(_), _) => Err(MetricError::Timeout { limit: TIMEOUT, request: "get".into() }),
            (Ok(()), Query::PodUsage { .. }) => Ok(Values::PodMetrics(UsageList::default())),
            _ => Ok(Values::External(ExternalValues::default())),
        }
    }
}

fn external(namespace: &str, seconds: u64) -> Query {
    Query::External(ExternalQuery {
        namespace: namespace.to_owned(),
        metric: seconds.to_string(),
        metric_selector: Selector::everything(),
    })
}

fn pod_metrics() -> Query {
    Query::pod_usage("shop", &Selector::everything())
}

fn isolating(source: &Source) -> Isolating<Source> {
    let unresponsive_after = Duration::from_secs(30);
    let settings = IsolationSettings { concurrency: 4, unresponsive_after };
    Isolating::new(source.clone(), settings)
}

/// The outcome of a request, and its duration in seconds.
async fn fetch(source: &Isolating<Source>, query: Query) -> (Result<(), String>, u64) {
    let start = Instant::now();
    let outcome = source.read(&query).await.map(drop).map_err(|error| error.to_string());
    (outcome, start.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn slow_requests_delay_no_other_api_and_no_other_namespace() {
    let source = Source::default();
    let isolating = isolating(&source);
    let slow = join_all((0..6).map(|_| fetch(&isolating, external("slow", 9))));
    let others =
        join_all([fetch(&isolating, external("shop", 1)), fetch(&isolating, pod_metrics())]);
    let (slow, others) = tokio::join!(slow, others);
    let seconds: Vec<_> = slow.iter().map(|(_, seconds)| *seconds).collect();
    assert_eq!(seconds, [9, 9, 18, 18, 27, 27]);
    assert_eq!(others, [(Ok(()), 1), (Ok(()), 0)]);
}

#[tokio::test(start_paused = true)]
async fn concurrency_of_an_api_is_limited() {
    let source = Source::default();
    let isolating = isolating(&source);
    let namespaces: Vec<_> = (0..12).map(|at| format!("ns-{}", at / 2)).collect();
    join_all(namespaces.iter().map(|namespace| fetch(&isolating, external(namespace, 1)))).await;
    assert_eq!(source.highest.lock().get(&MetricsApi::External), Some(&4));
}

/// Sends requests that time out until the API is unresponsive.
async fn open_breaker(isolating: &Isolating<Source>) {
    for _ in 0..4 {
        let (outcome, seconds) = fetch(isolating, external("slow", 3600)).await;
        assert!(outcome.is_err() && seconds == 10);
    }
}

#[tokio::test(start_paused = true)]
async fn unresponsive_api_gets_one_request_at_a_time_for_each_namespace() {
    let isolating = isolating(&Source::default());
    open_breaker(&isolating).await;
    let hanging = |namespace| fetch(&isolating, external(namespace, 3600));
    let outcomes = join_all([hanging("slow"), hanging("slow"), hanging("shop")]).await;
    let seconds: Vec<_> = outcomes.iter().map(|(_, seconds)| *seconds).collect();
    assert_eq!(seconds, [10, 0, 10]);
    let unresponsive = "external.metrics.k8s.io does not respond: its last requests timed out, and \
                        another request of the namespace is being tried";
    assert_eq!(outcomes[1].0, Err(unresponsive.to_owned()));
    // Other APIs are not affected.
    assert_eq!(fetch(&isolating, pod_metrics()).await, (Ok(()), 0));
    assert_eq!(hanging("slow").await.1, 10);
}

#[tokio::test(start_paused = true)]
async fn response_closes_the_breaker() {
    let isolating = isolating(&Source::default());
    open_breaker(&isolating).await;
    assert_eq!(fetch(&isolating, external("shop", 1)).await, (Ok(()), 1));
    let fast = join_all((0..2).map(|_| fetch(&isolating, external("slow", 1)))).await;
    assert_eq!(fast, [(Ok(()), 1), (Ok(()), 1)]);
}

#[tokio::test(start_paused = true)]
async fn unsent_query_does_not_close_the_breaker() {
    let isolating = isolating(&Source::default());
    open_breaker(&isolating).await;
    let invalid = Query::External(ExternalQuery {
        namespace: "shop".to_owned(),
        metric: "invalid".to_owned(),
        metric_selector: Selector::everything(),
    });
    assert!(fetch(&isolating, invalid).await.0.is_err());
    let hanging = || fetch(&isolating, external("slow", 3600));
    let (trial, refused) = tokio::join!(hanging(), hanging());
    assert_eq!((trial.1, refused.1), (10, 0));
}

#[tokio::test(start_paused = true)]
async fn dropped_trial_allows_the_next_one() {
    let isolating = isolating(&Source::default());
    open_breaker(&isolating).await;
    let abandoned = timeout(Duration::from_secs(1), fetch(&isolating, external("slow", 3600)));
    assert!(abandoned.await.is_err());
    assert_eq!(fetch(&isolating, external("slow", 1)).await, (Ok(()), 1));
}

#[tokio::test(start_paused = true)]
async fn api_with_some_responses_is_not_unresponsive() {
    let isolating = isolating(&Source::default());
    for _ in 0..10 {
        let (slow, healthy) = tokio::join!(
            fetch(&isolating, external("slow", 3600)),
            fetch(&isolating, external("shop", 1)),
        );
        assert_eq!((slow.1, healthy), (10, (Ok(()), 1)));
    }
    let slow = join_all((0..2).map(|_| fetch(&isolating, external("slow", 3600)))).await;
    assert!(slow.iter().all(|(_, seconds)| *seconds == 10), "{slow:?}");
}
