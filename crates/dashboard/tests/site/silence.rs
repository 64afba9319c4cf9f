//! A controller that makes no decisions.

use std::sync::Arc;

use async_trait::async_trait;
use hpa_controller::HpaKey;
use hpa_dashboard::{Options, Past, PastDecision, PastSource};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{Cluster, options};

/// A controller whose last decision is this old.
struct SilentController(SignedDuration);

#[async_trait]
impl PastSource for SilentController {
    async fn past(
        &self,
        _: &HpaKey,
        _: Option<&str>,
        _: Option<Timestamp>,
    ) -> Result<Past, String> {
        // Its clock is behind the dashboard's.
        let now = Timestamp::now() - SignedDuration::from_hours(1);
        let until = now - self.0;
        let decision = PastDecision {
            from: until,
            until,
            current: Some(4),
            scaled_to: None,
            sentence: "stays".to_owned(),
        };
        Ok(Past { now: Some(now), decisions: vec![decision], ..Past::default() })
    }

    async fn silence(&self, managers: &[String], limit: SignedDuration) -> Option<String> {
        let is_silent = self.0 > limit;
        is_silent.then(|| format!("No controller makes decisions ({} managers).", managers.len()))
    }
}

async fn cluster(age: SignedDuration) -> Cluster {
    let past: Arc<dyn PastSource> = Arc::new(SilentController(age));
    Cluster::start(&[], Options { past: Some(past), ..options() }).await
}

#[tokio::test]
async fn silent_controller_is_reported_in_the_list_and_on_the_page() {
    let cluster = cluster(SignedDuration::from_secs(190)).await;
    let changes = cluster.list().await.until(|changes| changes["silent"] == true).await;
    assert_eq!(changes["problems"], json!(["No controller makes decisions (0 managers)."]));
    let mut detail = cluster.detail("web").await;
    let view = detail.until(|view| view["report"] != Value::Null).await;
    assert_eq!(view["problems"], changes["problems"]);
    let last: Timestamp = view["lastDecision"].as_str().expect("a time").parse().expect("a time");
    let age = Timestamp::now().duration_since(last).as_secs();
    assert!((190..600).contains(&age), "{age}");
}

#[tokio::test]
async fn old_status_of_a_controller_that_decides_is_not_reported() {
    let cluster = cluster(SignedDuration::from_secs(60)).await;
    let mut detail = cluster.detail("web").await;
    let view = detail.until(|view| view["report"] != Value::Null).await;
    assert_eq!((view.get("lastDecision"), &view["problems"]), (None, &json!([])));
}
