use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, future::join_all};
use hpa_calc::{
    MetricsApi, MilliValue,
    api::{CrossVersionObjectReference, ResourceName},
};
use tokio::time::{advance, sleep, timeout};

use super::*;
use crate::{
    test_support::{Source, kinds, object, pod, selector},
    wire::{ItemLabels, WireError},
};

const PERIOD: Duration = Duration::from_secs(15);
const DELAY: Duration = Duration::from_millis(100);

fn settings() -> CoalescingSettings {
    CoalescingSettings::for_sync_period(PERIOD)
}

/// The selected items of a server that has two pods of each app `a0`, `a1`, ...
fn select_items(apps: usize, selector: &str) -> Vec<PodMetrics> {
    let selector = Selector::parse(selector).unwrap();
    let items = (0..apps * 2).map(|index| {
        let (app, name) = (format!("a{}", index / 2), format!("p{index}"));
        serde_json::from_value(pod(&name, &[("app", &app)], &format!("{index}m"))).unwrap()
    });
    items.filter(|item: &PodMetrics| selector.matches(&item.metadata.labels)).collect()
}

/// A source of the usage of this many apps.
fn serving(apps: usize) -> Source {
    Source::new(DELAY, move |_, selector| Ok(select_items(apps, selector)))
}

async fn cpu<S: MetricSource>(client: &Coalescing<S>, pods: &str) -> Result<PodSamples, ReadError> {
    resource(client, "ns", &selector(pods), ResourceName::Cpu, None).await
}

async fn resource<S: MetricSource>(
    client: &Coalescing<S>,
    namespace: &str,
    pods: &Selector,
    resource: ResourceName,
    container: Option<&str>,
) -> Result<PodSamples, ReadError> {
    let query = MetricQuery::Resource { resource, container: container.map(ToOwned::to_owned) };
    match client.read(namespace, pods, &query).await? {
        Reading::Pods(samples) => Ok(samples),
        other => panic!("{other:?}"),
    }
}

/// Reads the usage of all apps at the same time. Each app must get its own two pods.
async fn read_all_apps(client: &Coalescing<Source>, apps: usize) {
    let selectors: Vec<String> = (0..apps).map(|app| format!("app=a{app}")).collect();
    let results = join_all(selectors.iter().map(|pods| cpu(client, pods))).await;
    for (app, samples) in results.into_iter().enumerate() {
        let samples = samples.unwrap();
        assert_eq!(samples.len(), 2);
        for index in [app * 2, app * 2 + 1] {
            let value = samples.get(&format!("p{index}")).unwrap().value;
            assert_eq!(usize::try_from(value.as_milli()), Ok(index));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn equal_requests_are_sent_once() {
    let source = serving(1);
    let client = Coalescing::new(source.clone(), kinds(), settings());
    let (pods, memory) = (selector("app=a0"), ResourceName::Memory);
    let (one, two, three) = tokio::join!(
        cpu(&client, "app=a0"),
        cpu(&client, "app=a0"),
        resource(&client, "ns", &pods, memory, Some("app"))
    );
    assert_eq!(one, two);
    assert_eq!((one.unwrap().len(), three.unwrap().len()), (2, 0));
    assert_eq!(source.take_requests(), ["ns app=a0"]);
    advance(Duration::from_millis(800)).await;
    assert!(cpu(&client, "app=a0").await.is_ok());
    assert!(source.take_requests().is_empty(), "fresh 0.9 s after the request");
    advance(Duration::from_millis(100)).await;
    assert!(cpu(&client, "app=a0").await.is_ok());
    assert_eq!(source.take_requests(), ["ns app=a0"], "not 1 s after it");
}

#[tokio::test(start_paused = true)]
async fn different_requests_are_sent_separately() {
    let source = serving(1);
    let client = Coalescing::new(source.clone(), kinds(), settings());
    let (pods, all) = (selector("app=a0"), Selector::everything());
    let (main, front) = (object("v1", "Service", "main"), object("v1", "Service", "front"));
    let pod_values = |metric_selector: &Selector| MetricQuery::Pods {
        metric: "m".into(),
        metric_selector: metric_selector.clone(),
    };
    let object_value = |object: &CrossVersionObjectReference| MetricQuery::Object {
        object: object.clone(),
        metric: "m".into(),
        metric_selector: all.clone(),
    };
    let external = MetricQuery::External { metric: "m".into(), metric_selector: all.clone() };
    let [unfiltered, filtered] = [&all, &pods].map(pod_values);
    let [of_main, of_front] = [&main, &front].map(object_value);
    for _ in 0..2 {
        let (one, two, three, four, five, six) = tokio::join!(
            client.read("ns", &pods, &unfiltered),
            client.read("ns", &pods, &filtered),
            client.read("ns", &pods, &of_main),
            client.read("ns", &pods, &of_front),
            client.read("ns", &pods, &external),
            client.read("other", &pods, &external),
        );
        assert_eq!(one, two);
        let Ok(Reading::Pods(samples)) = one else { panic!("{one:?}") };
        assert_eq!(samples.get("web-1").unwrap().value.as_milli(), 1500);
        let value = Ok(Reading::Object(MilliValue::from_units(7).into()));
        assert_eq!((three, four), (value.clone(), value));
        let series = Ok(Reading::External([1, 2].map(MilliValue::from_units).to_vec().into()));
        assert_eq!((five, six), (series.clone(), series));
    }
    let mut requests = source.take_requests();
    requests.sort_unstable();
    let expected = [
        "ns m ",
        "ns pods/app=a0 m ",
        "ns pods/app=a0 m app=a0",
        "ns services/front m ",
        "ns services/main m ",
        "other m ",
    ];
    assert_eq!(requests, expected);
}

#[tokio::test(start_paused = true)]
async fn without_freshness_only_requests_in_flight_are_shared() {
    let source = serving(1);
    let settings = CoalescingSettings { freshness: Duration::ZERO, ..settings() };
    let client = Coalescing::new(source.clone(), kinds(), settings);
    let _both = tokio::join!(cpu(&client, "app=a0"), cpu(&client, "app=a0"));
    assert_eq!(source.take_requests().len(), 1);
    assert!(cpu(&client, "app=a0").await.is_ok());
    assert_eq!(source.take_requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn error_goes_to_waiting_callers_only() {
    let is_broken = Arc::new(AtomicBool::new(true));
    let fails = Arc::clone(&is_broken);
    let source = Source::new(DELAY, move |_, selector| {
        if fails.load(Ordering::Relaxed) {
            return Err(MetricError::Status { code: 503, message: "gone".into() });
        }
        Ok(select_items(1, selector))
    });
    let client = Coalescing::new(source.clone(), kinds(), settings());
    let gone = Err(ReadError::Fetch { api: MetricsApi::Resource, message: "gone".into() });
    assert_eq!(tokio::join!(cpu(&client, "app=a0"), cpu(&client, "app=a0")), (gone.clone(), gone));
    is_broken.store(false, Ordering::Relaxed);
    assert!(cpu(&client, "app=a0").await.is_ok());
    assert_eq!(source.take_requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn waiting_caller_gets_the_response_after_the_first_caller_is_dropped() {
    let source = serving(1);
    let client = Arc::new(Coalescing::new(source.clone(), kinds(), settings()));
    let caller = |client: &Arc<Coalescing<Source>>| {
        let client = Arc::clone(client);
        tokio::spawn(async move { cpu(&client, "app=a0").await })
    };
    let first = caller(&client);
    sleep(DELAY / 4).await;
    let second = caller(&client);
    sleep(DELAY / 4).await;
    first.abort();
    let response = timeout(DELAY, second).await.expect("hangs").unwrap();
    assert_eq!(response.unwrap().len(), 2);
    assert_eq!(source.take_requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn request_without_callers_is_cancelled() {
    let source = serving(1);
    let client = Coalescing::new(source.clone(), kinds(), settings());
    assert!(timeout(DELAY / 2, cpu(&client, "app=a0")).await.is_err());
    // Polled once, then dropped.
    assert!(cpu(&client, "app=a0").now_or_never().is_none());
    assert!(cpu(&client, "app=a0").await.is_ok());
    assert_eq!(source.take_requests().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn simultaneous_reconciles_share_a_list() {
    let source = serving(3);
    let client = Coalescing::new(source.clone(), kinds(), settings());
    read_all_apps(&client, 2).await;
    assert_eq!(source.take_requests().len(), 2, "the namespace is unknown");
    for _ in 0..3 {
        advance(PERIOD).await;
        read_all_apps(&client, 3).await;
        assert_eq!(source.take_requests(), ["ns "]);
    }
    // A selector without pods gets the same error as from a separate request.
    assert_eq!(cpu(&client, "app=none").await, Err(ReadError::Empty(MetricsApi::Resource)));
    assert!(source.take_requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn third_simultaneous_selector_requests_the_namespace_list() {
    let source = serving(40);
    let client = Coalescing::new(source.clone(), kinds(), settings());
    read_all_apps(&client, 40).await;
    assert_eq!(source.take_requests(), ["ns app=a0", "ns app=a1", "ns "]);
}

#[tokio::test(start_paused = true)]
async fn distributed_reconciles_send_separate_requests() {
    let source = serving(3);
    let client = Coalescing::new(source.clone(), kinds(), settings());
    for _ in 0..9 {
        for app in 0..3 {
            assert!(cpu(&client, &format!("app=a{app}")).await.is_ok());
            advance(PERIOD / 3).await;
        }
    }
    assert!(source.take_requests().iter().all(|request| request.starts_with("ns app=a")));
}

#[tokio::test(start_paused = true)]
async fn small_part_of_a_large_namespace_is_requested_separately() {
    let source = serving(500);
    let client = Coalescing::new(source.clone(), kinds(), settings());
    read_all_apps(&client, 2).await;
    source.take_requests();
    advance(PERIOD).await;
    read_all_apps(&client, 2).await;
    assert_eq!(source.take_requests(), ["ns "], "determines the size");
    for _ in 0..10 {
        advance(PERIOD).await;
        read_all_apps(&client, 2).await;
        assert_eq!(source.take_requests(), ["ns app=a0", "ns app=a1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn few_selectors_share_no_namespace_list() {
    let source = serving(3);
    let settings = CoalescingSettings { min_selectors: 4, ..settings() };
    let client = Coalescing::new(source.clone(), kinds(), settings);
    for _ in 0..3 {
        read_all_apps(&client, 3).await;
        assert_eq!(source.take_requests().len(), 3);
        advance(PERIOD).await;
    }
}

#[tokio::test(start_paused = true)]
async fn long_list_is_fresh_for_longer() {
    let (source, all) = (serving(2100), Selector::everything());
    let client = Coalescing::new(source.clone(), kinds(), settings());
    let read_all = || resource(&client, "ns", &all, ResourceName::Cpu, None);
    assert_eq!(read_all().await.map(|samples| samples.len()), Ok(4200));
    advance(Duration::from_millis(1800)).await;
    assert_eq!(read_all().await.map(|samples| samples.len()), Ok(4200));
    assert_eq!(
        source.take_requests(),
        ["ns "],
        "fresh for twice as long as a list with fewer than 4000 items"
    );
    advance(Duration::from_millis(200)).await;
    assert_eq!(read_all().await.map(|samples| samples.len()), Ok(4200));
    assert_eq!(source.take_requests(), ["ns "]);
}

#[tokio::test(start_paused = true)]
async fn items_without_labels_are_not_shared() {
    let source = Source::new(DELAY, |_, selector| {
        let mut items = select_items(3, selector);
        for item in &mut items {
            item.metadata.labels = ItemLabels::default();
        }
        Ok(items)
    });
    let client = Coalescing::new(source.clone(), kinds(), settings());
    read_all_apps(&client, 2).await;
    source.take_requests();
    advance(PERIOD).await;
    read_all_apps(&client, 3).await;
    assert_eq!(source.take_requests(), ["ns ", "ns app=a0", "ns app=a1", "ns app=a2"]);
    for _ in 0..10 {
        advance(PERIOD).await;
        read_all_apps(&client, 3).await;
        assert_eq!(source.take_requests().len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn undecodable_list_is_replaced_by_separate_requests() {
    let source = Source::new(DELAY, |_, selector| {
        if selector.is_empty() {
            let source = WireError::Failure("one pod is broken".into()).into();
            return Err(MetricError::Decode { request: "get pods.metrics.k8s.io".into(), source });
        }
        Ok(select_items(3, selector))
    });
    let client = Coalescing::new(source.clone(), kinds(), settings());
    read_all_apps(&client, 3).await;
    advance(PERIOD).await;
    read_all_apps(&client, 3).await;
    advance(PERIOD).await;
    read_all_apps(&client, 3).await;
    assert_eq!(source.take_requests().iter().filter(|request| *request == "ns ").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn failed_list_is_not_retried_by_selector() {
    let source = Source::new(DELAY, |_, selector| {
        if selector.is_empty() {
            return Err(MetricError::Status { code: 503, message: "gone".into() });
        }
        Ok(select_items(3, selector))
    });
    let client = Coalescing::new(source.clone(), kinds(), settings());
    read_all_apps(&client, 2).await;
    source.take_requests();
    advance(PERIOD).await;
    let (one, two) = tokio::join!(cpu(&client, "app=a0"), cpu(&client, "app=a1"));
    assert!(one.is_err() && one == two);
    assert_eq!(source.take_requests(), ["ns "]);
    advance(PERIOD).await;
    read_all_apps(&client, 3).await;
    assert_eq!(source.take_requests().len(), 3);
}

/// [`Selector::nothing`] is sent as the empty string, which selects everything.
#[tokio::test(start_paused = true)]
async fn selector_of_nothing_gets_all_pods() {
    let source = serving(3);
    let client = Coalescing::new(source.clone(), kinds(), settings());
    for _ in 0..2 {
        read_all_apps(&client, 3).await;
        let samples =
            resource(&client, "ns", &Selector::nothing(), ResourceName::Cpu, None).await.unwrap();
        assert_eq!(samples.len(), 6);
        advance(PERIOD).await;
    }
}

#[tokio::test(start_paused = true)]
async fn unused_state_is_dropped() {
    let source = serving(1);
    let client = Coalescing::new(source.clone(), kinds(), settings());
    let all = Selector::everything();
    for round in 0..1000 {
        let _ = cpu(&client, &format!("app=b{round}")).await;
        let _ = resource(&client, &format!("ns{round}"), &all, ResourceName::Cpu, None).await;
        advance(PERIOD / 15).await;
    }
    // A round takes 1.2 s. A selector is dropped at the first decision after 30 s, a namespace by a
    // sweep at most 30 s later. Responses are fresh for 1 s.
    let (namespaces, selectors) = client.sharing.len("ns");
    assert!(namespaces <= 100, "{namespaces} namespaces");
    assert!(selectors <= 30, "{selectors} selectors");
    assert!(client.pod_metrics.len() <= 50, "{} responses", client.pod_metrics.len());
}
