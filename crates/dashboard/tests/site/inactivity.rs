//! Controllers that made their last decision long ago, or whose debug API doesn't answer.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use hpa_controller::{
    HpaKey,
    debug::{ActingController, DecisionSample},
};
use hpa_dashboard::{
    AutoscalerStatusWriter, ControllerActivity, ControllerRecords, IdleAutoscaler, PastDecision,
    RecordSource,
};
use hpa_tests::harness::{NAMESPACE, TestbedExt};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{Cluster, hpa};

/// A controller whose last decision has a fixed age.
#[derive(Default)]
struct AgedController {
    /// `None` if its debug API doesn't answer.
    age: Option<SignedDuration>,
    /// Whether its debug API doesn't answer any more.
    has_stopped: Arc<AtomicBool>,
    /// Whether the leases show that no controller acts on `web`.
    is_idle: bool,
    /// Whether they show that kube-controller-manager has replaced `hpa-controller`.
    is_replaced: bool,
}

#[async_trait]
impl RecordSource for AgedController {
    async fn records(
        &self,
        _: &HpaKey,
        _: Option<&str>,
        _: Option<Timestamp>,
    ) -> Result<ControllerRecords, String> {
        let age = self.age.filter(|_| !self.has_stopped.load(Ordering::Relaxed));
        let age = age.ok_or("nothing answers")?;
        // The controller's clock is an hour behind the dashboard's.
        let now = Timestamp::now() - SignedDuration::from_hours(1);
        let until = now - age;
        let decision = PastDecision {
            from: until,
            until,
            current: Some(4),
            scaled_to: None,
            sentence: "stays".to_owned(),
        };
        let (desired, proposed, values) = (None, None, vec![None]);
        let sample = DecisionSample { at: until, current: 9, desired, proposed, values };
        let (decisions, samples) = (vec![decision], vec![sample]);
        Ok(ControllerRecords { now: Some(now), decisions, samples, ..ControllerRecords::default() })
    }

    async fn activity(
        &self,
        writers: &[AutoscalerStatusWriter],
        limit: SignedDuration,
    ) -> ControllerActivity {
        let is_inactive = self.age.is_none_or(|age| age > limit);
        let web = HpaKey::new(NAMESPACE, "web");
        let clause = "No controller acts on this autoscaler".to_owned();
        let sentence = || format!("No controller makes decisions ({} statuses).", writers.len());
        let overdue = |age| (web.clone(), Timestamp::now() - age);
        let idle = IdleAutoscaler { clause, reason: "no lease was found".to_owned() };
        let writer = (web.namespace.clone(), "hpa-controller".to_owned());
        let built_in =
            ActingController::KubeControllerManager { is_status_of_kube_controller_manager: false };
        ControllerActivity {
            inactivity: is_inactive.then(sentence),
            overdue: self.age.filter(|age| *age > limit).map(overdue).into_iter().collect(),
            idle: self.is_idle.then(|| (web.clone(), idle)).into_iter().collect(),
            acting: self.is_replaced.then_some((writer, built_in)).into_iter().collect(),
            ..ControllerActivity::default()
        }
    }
}

async fn start_cluster(age: Option<SignedDuration>) -> Cluster {
    let controller = AgedController { age, ..AgedController::default() };
    Cluster::with_records(Arc::new(controller)).await
}

#[tokio::test]
async fn inactive_controller_is_reported_in_the_list_and_on_the_page() {
    // The limit is two minutes.
    let cluster = start_cluster(Some(SignedDuration::from_secs(190))).await;
    let changes = cluster.open_list().await.until(|changes| changes["inactive"] == true).await;
    assert_eq!(changes["problems"], json!(["No controller makes decisions (0 statuses)."]));
    let mut detail = cluster.open_detail("web").await;
    let view = detail.until(|view| view["report"] != Value::Null).await;
    assert_eq!(view["problems"], changes["problems"]);
    let time = |text: &Value| text.as_str().expect("a time").parse().expect("a time");
    let sample = &view["series"]["samples"][0];
    assert_eq!(sample[1], 9);
    let sampled = sample[0].as_i64().and_then(|at| Timestamp::from_millisecond(at).ok());
    let decided = time(&view["decisions"][0]["until"]);
    for at in [time(&view["lastDecision"]), decided, sampled.expect("a time")] {
        // The age at the read, and the time that the test takes.
        let age = Timestamp::now().duration_since(at).as_secs();
        assert!((190..600).contains(&age), "{age}");
    }
}

#[tokio::test]
async fn controller_with_a_decision_a_minute_ago_is_not_reported() {
    let cluster = start_cluster(Some(SignedDuration::from_secs(60))).await;
    let mut detail = cluster.open_detail("web").await;
    let view = detail.until(|view| view["report"] != Value::Null).await;
    assert_eq!((view.get("lastDecision"), &view["problems"]), (None, &json!([])));
}

#[tokio::test]
async fn inactive_controller_makes_a_scaling_doubtful() {
    let old = Some(SignedDuration::from_secs(190));
    for (age, doubt) in [(None, "may make no decisions"), (old, "made its last decision long ago")]
    {
        let cluster = start_cluster(age).await;
        cluster.open_list().await.until(|changes| changes["inactive"] == true).await;
        cluster.metrics.set_cpu_percent(180);
        let mut detail = cluster.open_detail("web").await;
        let view = detail.until(|view| view["report"]["scaleTo"] == 8).await;
        let sentence = view["report"]["sentence"].as_str().expect("a sentence");
        let start = format!("the controller {doubt}; would scale from 4 to 8: ");
        assert!(sentence.starts_with(&start), "{sentence}");
        assert!(!sentence.ends_with(doubt), "{sentence}");
        assert_eq!(view["row"]["state"], "steady", "the state is that of the last status");
    }
}

/// kube-controller-manager has replaced the instance at `--controller-url`, which was stopped on
/// purpose.
#[tokio::test]
async fn silent_instance_that_was_replaced_makes_no_scaling_doubtful() {
    let cluster = start_replaced(AgedController::default()).await;
    cluster.metrics.set_cpu_percent(180);
    let has_no_doubt = |view: &Value| {
        let sentence = view["report"]["sentence"].as_str().unwrap_or_default();
        view["report"]["scaleTo"] == 8 && !sentence.contains("the controller may")
    };
    cluster.open_detail("web").await.until(has_no_doubt).await;
}

/// The page is open while the instance is stopped.
#[tokio::test]
async fn old_decision_of_a_replaced_instance_makes_no_scaling_doubtful() {
    let age = Some(SignedDuration::from_secs(190));
    let has_stopped = Arc::new(AtomicBool::new(false));
    let controller =
        AgedController { age, has_stopped: has_stopped.clone(), ..AgedController::default() };
    let cluster = start_replaced(controller).await;
    cluster.metrics.set_cpu_percent(180);
    let mut detail = cluster.open_detail("web").await;
    let has_doubt = |view: &Value| {
        let sentence = view["report"]["sentence"].as_str().unwrap_or_default();
        view.get("lastDecision").is_some() && sentence.contains("made its last decision long ago")
    };
    detail.until(has_doubt).await;
    has_stopped.store(true, Ordering::Relaxed);
    let view = detail.until(|view| view.get("lastDecision").is_none()).await;
    assert_eq!(view["report"]["scaleTo"], 8);
    let sentence = view["report"]["sentence"].as_str().expect("a sentence");
    let has_doubt = sentence.contains("long ago") || sentence.contains("the controller may");
    assert!(!has_doubt, "{sentence}");
}

/// Starts a cluster in which kube-controller-manager has replaced the controller that stored the
/// status of `web`, and waits until the dashboard has read this.
async fn start_replaced(controller: AgedController) -> Cluster {
    let controller = AgedController { is_replaced: true, ..controller };
    let cluster = Cluster::with_records(Arc::new(controller)).await;
    cluster.open_list().await.until(|changes| changes["inactive"] == true).await;
    let mut web = cluster.testbed.hpa("web").expect("an autoscaler");
    web["metadata"]["managedFields"] = json!([{
        "manager": "hpa-controller", "operation": "Update", "subresource": "status",
        "apiVersion": "autoscaling/v2", "fieldsType": "FieldsV1", "fieldsV1": {},
        "time": "2026-01-01T00:00:00Z",
    }]);
    cluster.testbed.apply_all([web]);
    cluster
}

#[tokio::test]
async fn page_says_first_that_no_controller_acts() {
    let controller = AgedController { is_idle: true, ..AgedController::default() };
    let cluster = Cluster::with_records(Arc::new(controller)).await;
    let first = "No controller acts on this autoscaler; ";
    let starts = |view: &Value| {
        view["report"]["sentence"].as_str().is_some_and(|sentence| sentence.starts_with(first))
    };
    let mut detail = cluster.open_detail("web").await;
    let view = detail.until(starts).await;
    let sentence = view["report"]["sentence"].as_str().expect("a sentence");
    assert!(sentence.starts_with(&format!("{first}stays at 4: ")), "{sentence}");
    assert_eq!(sentence.matches("No controller").count(), 1, "{sentence}");
    cluster.metrics.set_cpu_percent(180);
    let view = detail.until(|view| view["report"]["scaleTo"] == 8).await;
    let sentence = view["report"]["sentence"].as_str().expect("a sentence");
    assert!(sentence.starts_with(&format!("{first}would scale from 4 to 8: ")), "{sentence}");
    assert_eq!(view["row"]["state"], "notHandled");
}

/// A controller whose debug API doesn't answer until it is notified.
#[derive(Default)]
struct SilentController {
    answer: Notify,
}

#[async_trait]
impl RecordSource for SilentController {
    async fn records(
        &self,
        _: &HpaKey,
        _: Option<&str>,
        _: Option<Timestamp>,
    ) -> Result<ControllerRecords, String> {
        self.answer.notified().await;
        Ok(ControllerRecords::default())
    }

    async fn activity(
        &self,
        _: &[AutoscalerStatusWriter],
        _: SignedDuration,
    ) -> ControllerActivity {
        std::future::pending().await
    }
}

#[tokio::test]
async fn silent_debug_api_delays_neither_the_list_nor_the_page() {
    let controller = Arc::new(SilentController::default());
    let cluster = Cluster::with_records(controller.clone()).await;
    let mut list = cluster.open_list().await;
    let changes = list.until(|changes| changes["rows"] != json!([])).await;
    assert_eq!(changes["rows"][0]["name"], "web");
    assert_eq!(changes["inactive"], Value::Null, "it is pending");
    let mut detail = cluster.open_detail("web").await;
    let view = detail.until(|view| view["report"] != Value::Null).await;
    let missing = view["missing"][0].as_str().expect("a sentence");
    assert!(missing.ends_with("its debug API has not answered yet."), "{missing}");
    controller.answer.notify_one();
    let is_answered =
        |view: &Value| view["missing"][0].as_str().is_some_and(|text| !text.contains("pending"));
    detail.until(is_answered).await;
    // A page may be open before its autoscaler exists.
    let mut late = cluster.open_detail("late").await;
    late.until(|view| view["isReading"] == false).await;
    cluster.testbed.apply_all([hpa("late")]);
    late.until(|view| view["report"] != Value::Null).await;
}

#[tokio::test]
async fn row_has_the_time_of_the_last_decision_if_that_is_old() {
    let cluster = start_cluster(Some(SignedDuration::from_secs(190))).await;
    cluster.testbed.apply_all([hpa("other")]);
    let mut times = BTreeMap::new();
    let mut list = cluster.open_list().await;
    list.until(|changes| {
        for row in changes["rows"].as_array().expect("rows") {
            let name = row["name"].as_str().expect("a name").to_owned();
            times.insert(name, row["undecidedSince"].clone());
        }
        times.contains_key("other") && times.get("web").is_some_and(Value::is_string)
    })
    .await;
    assert_eq!(times["other"], Value::Null, "only web is overdue");
    let since: Timestamp = times["web"].as_str().expect("a time").parse().expect("a time");
    let age = Timestamp::now().duration_since(since).as_secs();
    assert!((190..600).contains(&age), "{age}");
}
