use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, future::join_all};
use hpa_calc::{
    MilliValue,
    api::ResourceName,
    readings::{MetricsApi, PodSamples, ReadError},
    selector::Selector,
};
use tokio::time::{advance, sleep, timeout};

use super::*;
use crate::{
    testing::{Source, object, pod, selector},
    wire::WireError,
};

const PERIOD: Duration = Duration::from_secs(15);
const DELAY: Duration = Duration::from_millis(100);

fn settings() -> CoalescingSettings {
    CoalescingSettings::for_sync_period(PERIOD)
}

/// Two pods of each app `a0`, `a1`, ...
fn items(apps: usize, labelled: bool) -> Vec<PodMetrics> {
    let items = (0..apps * 2).map(|index| {
        let (app, name) = (format!("a{}", index / 2), format!("p{index}"));
        let labels: &[(&str, &str)] = if labelled { &[("app", &app)] } else { &[] };
        serde_json::from_value(pod(&name, labels, &format!("{index}m"))).unwrap()
    });
    items.collect()
}

/// What a server answers that has `apps` apps.
fn answer(apps: usize, labelled: bool, selector: &str) -> Vec<PodMetrics> {
    let selector = Selector::parse(selector).unwrap();
    let matching = items(apps, true)
        .iter()
        .map(|item| selector.matches(&item.metadata.labels))
        .collect::<Vec<_>>();
    items(apps, labelled)
        .into_iter()
        .zip(matching)
        .filter(|(_, matches)| *matches)
        .map(|(item, _)| item)
        .collect()
}

/// A source of `served` apps.
fn serving(served: usize, labelled: bool) -> Source {
    Source::new(DELAY, move |_, selector| Ok(answer(served, labelled, selector)))
}

async fn cpu<S: MetricsSource>(
    client: &Coalescing<S>,
    pods: &str,
) -> Result<PodSamples, ReadError> {
    client.resource("ns", &selector(pods), &ResourceName::Cpu, None).await
}

/// All apps ask together; each must get its own two pods.
async fn sync(client: &Coalescing<Source>, apps: usize) {
    let selectors: Vec<String> = (0..apps).map(|app| format!("app=a{app}")).collect();
    let answers = join_all(selectors.iter().map(|pods| cpu(client, pods))).await;
    for (app, samples) in answers.into_iter().enumerate() {
        let samples = samples.unwrap();
        assert_eq!(samples.len(), 2);
        for index in [app * 2, app * 2 + 1] {
            let value = samples.get(&format!("p{index}")).unwrap().value;
            assert_eq!(usize::try_from(value.as_milli()), Ok(index));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_question_is_one_request() {
    let source = serving(1, true);
    let client = Coalescing::new(source.clone(), settings());
    let (pods, memory) = (selector("app=a0"), ResourceName::Memory);
    let (one, two, three) = tokio::join!(
        cpu(&client, "app=a0"),
        cpu(&client, "app=a0"),
        client.resource("ns", &pods, &memory, Some("app"))
    );
    assert_eq!(one, two);
    assert_eq!((one.unwrap().len(), three.unwrap().len()), (2, 0));
    assert_eq!(source.asked(), ["ns app=a0"]);
    advance(Duration::from_millis(800)).await;
    assert!(cpu(&client, "app=a0").await.is_ok());
    assert!(source.asked().is_empty(), "fresh 0.9 s after the request");
    advance(Duration::from_millis(100)).await;
    assert!(cpu(&client, "app=a0").await.is_ok());
    assert_eq!(source.asked(), ["ns app=a0"], "not 1 s after it");
}

#[tokio::test(start_paused = true)]
async fn other_questions_are_other_requests() {
    let source = serving(1, true);
    let client = Coalescing::new(source.clone(), settings());
    let (pods, all) = (selector("app=a0"), Selector::everything());
    let (main, front) = (object("v1", "Service", "main"), object("v1", "Service", "front"));
    for _ in 0..2 {
        let (one, two, three, four, five, six) = tokio::join!(
            client.pods("ns", &pods, "m", &all),
            client.pods("ns", &pods, "m", &pods),
            client.object("ns", &main, "m", &all),
            client.object("ns", &front, "m", &all),
            client.external("ns", "m", &all),
            client.external("other", "m", &all),
        );
        assert_eq!(one, two);
        assert_eq!(one.unwrap().get("web-1").unwrap().value.as_milli(), 1500);
        assert_eq!((three, four), (Ok(MilliValue::from_units(7)), Ok(MilliValue::from_units(7))));
        let series = Ok(vec![MilliValue::from_units(1), MilliValue::from_units(2)]);
        assert_eq!((five, six), (series.clone(), series));
    }
    let mut asked = source.asked();
    asked.sort_unstable();
    let expected = [
        "ns Service/front m ",
        "ns Service/main m ",
        "ns app=a0 m ",
        "ns app=a0 m app=a0",
        "ns m ",
        "other m ",
    ];
    assert_eq!(asked, expected);
}

#[tokio::test(start_paused = true)]
async fn without_freshness_only_requests_under_way_are_shared() {
    let source = serving(1, true);
    let client = Coalescing::new(
        source.clone(),
        CoalescingSettings { freshness: Duration::ZERO, ..settings() },
    );
    let _both = tokio::join!(cpu(&client, "app=a0"), cpu(&client, "app=a0"));
    assert_eq!(source.asked().len(), 1);
    assert!(cpu(&client, "app=a0").await.is_ok());
    assert_eq!(source.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_error_is_for_those_who_waited() {
    let failing = Arc::new(AtomicBool::new(true));
    let state = Arc::clone(&failing);
    let source = Source::new(DELAY, move |_, selector| {
        if state.load(Ordering::Relaxed) {
            return Err(FetchError::Refused { code: 503, message: "gone".into() });
        }
        Ok(answer(1, true, selector))
    });
    let client = Coalescing::new(source.clone(), settings());
    let gone = Err(ReadError::Fetch { api: MetricsApi::Resource, message: "gone".into() });
    assert_eq!(tokio::join!(cpu(&client, "app=a0"), cpu(&client, "app=a0")), (gone.clone(), gone));
    failing.store(false, Ordering::Relaxed);
    assert!(cpu(&client, "app=a0").await.is_ok());
    assert_eq!(source.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn who_waits_does_not_depend_on_who_asked_first() {
    let source = serving(1, true);
    let client = Arc::new(Coalescing::new(source.clone(), settings()));
    let asker = |client: &Arc<Coalescing<Source>>| {
        let client = Arc::clone(client);
        tokio::spawn(async move { cpu(&client, "app=a0").await })
    };
    let first = asker(&client);
    sleep(DELAY / 4).await;
    let second = asker(&client);
    sleep(DELAY / 4).await;
    first.abort();
    let answer = timeout(DELAY, second).await.expect("hangs").unwrap();
    assert_eq!(answer.unwrap().len(), 2);
    assert_eq!(source.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_nobody_waits_for_is_not_taken_up_again() {
    let source = serving(1, true);
    let client = Coalescing::new(source.clone(), settings());
    assert!(timeout(DELAY / 2, cpu(&client, "app=a0")).await.is_err());
    // Polled once, then dropped.
    assert!(cpu(&client, "app=a0").now_or_never().is_none());
    assert!(cpu(&client, "app=a0").await.is_ok());
    assert_eq!(source.asked().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn autoscalers_that_sync_together_share_a_list() {
    let source = serving(3, true);
    let client = Coalescing::new(source.clone(), settings());
    sync(&client, 2).await;
    assert_eq!(source.asked().len(), 2, "nothing is known yet");
    for _ in 0..3 {
        advance(PERIOD).await;
        sync(&client, 3).await;
        assert_eq!(source.asked(), ["ns "]);
    }
    // A selector that matches nothing gets the error it would have got.
    assert_eq!(cpu(&client, "app=none").await, Err(ReadError::Empty(MetricsApi::Resource)));
    assert!(source.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn many_that_come_at_once_share_from_the_third_on() {
    let source = serving(40, true);
    let client = Coalescing::new(source.clone(), settings());
    sync(&client, 40).await;
    assert_eq!(source.asked(), ["ns app=a0", "ns app=a1", "ns "]);
}

#[tokio::test(start_paused = true)]
async fn autoscalers_that_sync_apart_ask_apart() {
    let source = serving(3, true);
    let client = Coalescing::new(source.clone(), settings());
    for _ in 0..9 {
        for app in 0..3 {
            assert!(cpu(&client, &format!("app=a{app}")).await.is_ok());
            advance(PERIOD / 3).await;
        }
    }
    assert!(source.asked().iter().all(|asked| asked.starts_with("ns app=a")));
}

#[tokio::test(start_paused = true)]
async fn a_corner_of_a_large_namespace_is_asked_for_by_itself() {
    let source = serving(500, true);
    let client = Coalescing::new(source.clone(), settings());
    sync(&client, 2).await;
    source.asked();
    advance(PERIOD).await;
    sync(&client, 2).await;
    assert_eq!(source.asked(), ["ns "], "one look");
    for _ in 0..10 {
        advance(PERIOD).await;
        sync(&client, 2).await;
        assert_eq!(source.asked(), ["ns app=a0", "ns app=a1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_threshold_keeps_requests_apart() {
    let source = serving(3, true);
    let client = Coalescing::new(source.clone(), CoalescingSettings { threshold: 4, ..settings() });
    for _ in 0..3 {
        sync(&client, 3).await;
        assert_eq!(source.asked().len(), 3);
        advance(PERIOD).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_list_is_fresh_for_longer() {
    let (source, all) = (serving(2100, true), Selector::everything());
    let client = Coalescing::new(source.clone(), settings());
    let ask = || client.resource("ns", &all, &ResourceName::Cpu, None);
    assert_eq!(ask().await.map(|samples| samples.len()), Ok(4200));
    advance(Duration::from_millis(1800)).await;
    assert_eq!(ask().await.map(|samples| samples.len()), Ok(4200));
    assert_eq!(source.asked(), ["ns "], "twice as long as a list of less than 4000 items");
    advance(Duration::from_millis(200)).await;
    assert_eq!(ask().await.map(|samples| samples.len()), Ok(4200));
    assert_eq!(source.asked(), ["ns "]);
}

#[tokio::test(start_paused = true)]
async fn items_without_labels_are_not_shared() {
    let source = serving(3, false);
    let client = Coalescing::new(source.clone(), settings());
    sync(&client, 2).await;
    source.asked();
    advance(PERIOD).await;
    sync(&client, 3).await;
    assert_eq!(source.asked(), ["ns ", "ns app=a0", "ns app=a1", "ns app=a2"]);
    for _ in 0..10 {
        advance(PERIOD).await;
        sync(&client, 3).await;
        assert_eq!(source.asked().len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_cannot_be_read_harms_nobody() {
    let source = Source::new(DELAY, |_, selector| {
        if selector.is_empty() {
            let source = WireError::Failure("one pod is broken".into()).into();
            return Err(FetchError::Decode { request: "get pods.metrics.k8s.io".into(), source });
        }
        Ok(answer(3, true, selector))
    });
    let client = Coalescing::new(source.clone(), settings());
    sync(&client, 3).await;
    advance(PERIOD).await;
    sync(&client, 3).await;
    advance(PERIOD).await;
    sync(&client, 3).await;
    assert_eq!(source.asked().iter().filter(|asked| *asked == "ns ").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_list_is_not_asked_for_again_in_parts() {
    let source = Source::new(DELAY, |_, selector| {
        if selector.is_empty() {
            return Err(FetchError::Refused { code: 503, message: "gone".into() });
        }
        Ok(answer(3, true, selector))
    });
    let client = Coalescing::new(source.clone(), settings());
    sync(&client, 2).await;
    source.asked();
    advance(PERIOD).await;
    let (one, two) = tokio::join!(cpu(&client, "app=a0"), cpu(&client, "app=a1"));
    assert!(one.is_err() && one == two);
    assert_eq!(source.asked(), ["ns "]);
    advance(PERIOD).await;
    sync(&client, 3).await;
    assert_eq!(source.asked().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_selector_of_nothing_is_sent_as_the_empty_string() {
    let source = serving(3, true);
    let client = Coalescing::new(source.clone(), settings());
    for _ in 0..2 {
        sync(&client, 3).await;
        let samples =
            client.resource("ns", &Selector::nothing(), &ResourceName::Cpu, None).await.unwrap();
        assert_eq!(samples.len(), 6);
        advance(PERIOD).await;
    }
}

#[tokio::test(start_paused = true)]
async fn state_is_forgotten() {
    let source = serving(1, true);
    let client = Coalescing::new(source.clone(), settings());
    let all = Selector::everything();
    for round in 0..1000 {
        let _ = cpu(&client, &format!("app=b{round}")).await;
        let _ = client.resource(&format!("ns{round}"), &all, &ResourceName::Cpu, None).await;
        advance(PERIOD / 15).await;
    }
    let (namespaces, selectors) = client.sharing.len("ns");
    assert!(namespaces <= 100, "{namespaces} namespaces");
    assert!(selectors <= 30, "{selectors} selectors");
    assert!(client.pod_metrics.len() <= 50, "{} answers", client.pod_metrics.len());
}
