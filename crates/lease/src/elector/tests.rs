use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU16, Ordering},
};

use http::{Request, Response};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::json;
use tower::service_fn;

use super::*;
use crate::SystemClock;

/// An elector whose API server refuses each request with this code.
fn elector(refusal_code: impl Fn() -> u16 + Clone + Send + 'static) -> Elector {
    let service = service_fn(move |_: Request<Body>| {
        let code = refusal_code();
        let reason = if code == 404 { "NotFound" } else { "AlreadyExists" };
        let status =
            json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason });
        let response =
            Response::builder().status(code).body(Body::from(status.to_string().into_bytes()));
        async move { response }
    });
    let config = ElectionConfig {
        namespace: "missing".to_owned(),
        name: "hpa-controller".to_owned(),
        identity: "one".to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };
    let election = Election { client: Client::new(service, "default"), config };
    Elector::new(&election, Arc::new(SystemClock::default()), Arc::new(())).0
}

#[tokio::test]
async fn create_in_missing_namespace_is_a_failure() {
    let mut elector = elector(|| 404);
    assert!(elector.read_lease().await, "there is no lease");
    assert!(matches!(elector.write_lease(Step::Create).await, LeaseWrite::Failed));
    assert!(elector.failure_logged_at.is_some(), "the failure is logged");
}

#[tokio::test(start_paused = true)]
async fn lasting_failure_is_logged_once_a_minute() {
    for code in [401, 403, 500] {
        let mut elector = elector(move || code);
        assert!(!elector.read_lease().await);
        let first = elector.failure_logged_at;
        assert!(first.is_some(), "{code}");
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(!elector.read_lease().await);
        assert_eq!(elector.failure_logged_at, first, "{code}");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!elector.read_lease().await);
        assert_eq!(elector.failure_logged_at, Some(Instant::now()), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_get_the_start_and_the_end_of_failures() {
    #[derive(Default)]
    struct FailureRecord(Mutex<Vec<Option<Instant>>>);
    impl LeaseHooks for FailureRecord {
        fn on_failing_since(&self, since: Option<Instant>) {
            self.0.lock().push(since);
        }
    }
    let code = Arc::new(AtomicU16::new(500));
    let response_code = code.clone();
    let mut elector = elector(move || response_code.load(Ordering::Relaxed));
    let record = Arc::new(FailureRecord::default());
    elector.hooks = record.clone();
    let start = Instant::now();
    assert!(!elector.read_lease().await);
    tokio::time::advance(Duration::from_secs(5)).await;
    assert!(!elector.read_lease().await);
    code.store(404, Ordering::Relaxed);
    assert!(elector.read_lease().await);
    assert!(elector.read_lease().await);
    assert_eq!(*record.0.lock(), [Some(start), None]);
}

#[tokio::test]
async fn lease_that_another_client_created_or_deleted_is_a_conflict() {
    let mut created = elector(|| 409);
    assert!(matches!(created.write_lease(Step::Create).await, LeaseWrite::Conflict));
    let mut deleted = elector(|| 404);
    assert!(matches!(deleted.write_lease(Step::Renew).await, LeaseWrite::Conflict));
}

#[tokio::test]
async fn hook_gets_each_new_holder_once() {
    #[derive(Default)]
    struct Holders(Mutex<Vec<(String, BTreeMap<String, String>)>>);
    impl LeaseHooks for Holders {
        fn on_new_holder(&self, holder: &str, annotations: &BTreeMap<String, String>) {
            self.0.lock().push((holder.to_owned(), annotations.clone()));
        }
    }
    let mut elector = elector(|| 500);
    let holders = Arc::new(Holders::default());
    elector.hooks = holders.clone();
    let lease = |holder: &str| {
        serde_json::from_value(json!({
            "metadata": { "annotations": { "scope": holder } },
            "spec": { "holderIdentity": holder },
        }))
        .expect("a lease")
    };
    for holder in ["two", "two", "", "one", "three"] {
        elector.observe(Some(lease(holder)));
    }
    let expected = ["two", "three"].map(|holder| {
        (holder.to_owned(), BTreeMap::from([("scope".to_owned(), holder.to_owned())]))
    });
    assert_eq!(*holders.0.lock(), expected);
}
