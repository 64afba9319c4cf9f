use futures::FutureExt;
use tokio::time::advance;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn age_counts_from_the_last_confirmation() {
    let watch = WatchAge::default();
    advance(3 * SECOND).await;
    assert_eq!((watch.age(), watch.confirmed_age()), (Some(3 * SECOND), None));
    let list_started = Instant::now();
    advance(2 * SECOND).await;
    watch.confirm(list_started);
    assert_eq!((watch.age(), watch.confirmed_age()), (Some(2 * SECOND), Some(2 * SECOND)));
    watch.confirm(Instant::now());
    watch.confirm(list_started);
    assert_eq!(watch.age(), Some(Duration::ZERO), "an earlier confirmation has no effect");
    watch.set_unwatched();
    assert_eq!(watch.age(), None);
}

#[tokio::test(start_paused = true)]
async fn suspension_counts_until_a_later_confirmation() {
    let watch = Arc::new(WatchAge::default());
    let ages = WatchAges::default();
    ages.add("pods".to_owned(), watch.clone());
    let before = Instant::now();
    advance(2 * SECOND).await;
    ages.add_suspension(100 * SECOND);
    advance(SECOND).await;
    watch.confirm(before);
    assert!(watch.age() >= Some(101 * SECOND), "{:?}", watch.age());
    watch.confirm(Instant::now());
    assert_eq!(watch.age(), Some(Duration::ZERO));
}

/// The ages of two watches of pods, and of deployments, which aren't watched. Returns them with the
/// watches of pods.
fn ages_of_two_pod_watches() -> (WatchAges, [Arc<WatchAge>; 2]) {
    let ages = WatchAges::default();
    let [first, second, unwatched] = std::array::from_fn(|_| Arc::<WatchAge>::default());
    unwatched.set_unwatched();
    for (name, watch) in [("pods", &first), ("pods", &second), ("deployments.apps", &unwatched)] {
        ages.add(name.to_owned(), watch.clone());
    }
    (ages, [first, second])
}

#[tokio::test(start_paused = true)]
async fn resource_is_as_old_as_its_oldest_watch() {
    let (ages, [_, fresh]) = ages_of_two_pod_watches();
    advance(5 * SECOND).await;
    fresh.confirm(Instant::now());
    assert_eq!(ages.by_resource(), BTreeMap::from([("pods".to_owned(), 5 * SECOND)]));
}

#[tokio::test(start_paused = true)]
async fn resource_is_never_listed_until_each_of_its_watches_is_confirmed() {
    let (ages, [first, second]) = ages_of_two_pod_watches();
    let pods = || BTreeSet::from(["pods".to_owned()]);
    assert_eq!(ages.never_listed(), pods());
    first.list_started();
    first.list_completed();
    second.list_started();
    advance(SECOND).await;
    ages.add_suspension(100 * SECOND);
    assert_eq!(ages.never_listed(), pods());
    second.list_started();
    second.list_completed();
    assert_eq!(ages.never_listed(), BTreeSet::new());
}

#[tokio::test]
async fn error_lasts_until_the_watch_is_accepted() {
    let (ages, watch) = (WatchAges::default(), Arc::<WatchAge>::default());
    ages.add("pods".to_owned(), watch.clone());
    watch.set_error(Some("forbidden".to_owned()));
    let expected = BTreeMap::from([("pods".to_owned(), "forbidden".to_owned())]);
    assert_eq!(ages.errors(), expected);
    watch.set_error(None);
    assert_eq!(ages.errors(), BTreeMap::new());
    watch.set_error(Some("not found".to_owned()));
    watch.set_unwatched();
    assert_eq!(ages.errors(), BTreeMap::new(), "nothing is watched");
}

/// Whether the informer of this watch must relist.
fn is_outdated(watch: &WatchAge) -> bool {
    watch.outdated().now_or_never().is_some()
}

#[tokio::test(start_paused = true)]
async fn lower_version_outdates_all_watches_until_they_list() {
    let (pods, autoscalers) = (Arc::<WatchAge>::default(), Arc::<WatchAge>::default());
    let ages = WatchAges::default();
    for (resource, watch) in [("pods", &pods), ("horizontalpodautoscalers", &autoscalers)] {
        ages.add(resource.to_owned(), watch.clone());
        watch.list_started();
        watch.list_completed();
    }
    advance(SECOND).await;
    for (known, response) in [("9", "9"), ("9", "10"), ("", "3"), ("9", "")] {
        ages.detect_rewind("pods", known, response, Instant::now());
        assert!(!is_outdated(&pods) && pods.age().is_some(), "{known:?} {response:?}");
    }
    let sent = Instant::now();
    ages.detect_rewind("pods", "10", "9", sent);
    for watch in [&pods, &autoscalers] {
        assert!(is_outdated(watch));
        assert_eq!(watch.age(), None);
    }
    advance(SECOND).await;
    assert_eq!(ages.by_resource()["pods"], 2 * SECOND, "since the last confirmation");
    pods.list_started();
    ages.detect_rewind("pods", "10", "9", Instant::now());
    assert!(!is_outdated(&pods), "a list is running");
    pods.list_completed();
    assert_eq!(pods.age(), Some(Duration::ZERO));
    ages.detect_rewind("pods", "10", "9", sent);
    assert!(!is_outdated(&pods), "the list is newer than the response");
    advance(SECOND).await;
    ages.detect_rewind("pods", "10", "9", Instant::now());
    assert!(is_outdated(&pods), "rewound again");
}
