//! Decisions that use a controller's records, or metrics from sources other than the metrics APIs.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use hpa_calc::{
    History, Inputs, MetricsApi, MilliValue, ReadError, Reading, Readings, Settings,
    history::Recommendation, report::OverwrittenScalings,
};
use hpa_controller::{
    HpaKey,
    debug::{Decision, DecisionSample, StayDecision},
};
use hpa_dashboard::{
    AutoscalerStatusWriter, ControllerActivity, ControllerRecords, DecisionMetrics, Options,
    PastDecision, RecordSource, WrongClock,
};
use hpa_tests::harness::{TestbedExt, objects};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{Cluster, hpa, options};

/// A controller that recommended 4 replicas a minute ago. Its clock is an hour behind.
struct RecordingController;

#[async_trait]
impl RecordSource for RecordingController {
    async fn records(
        &self,
        autoscaler: &HpaKey,
        manager: Option<&str>,
        after: Option<Timestamp>,
    ) -> Result<ControllerRecords, String> {
        if &*autoscaler.name != "web" {
            return Err(format!("{autoscaler} is not handled"));
        }
        assert_eq!(manager, None, "the status was not stored by a controller");
        let now = Timestamp::now() - SignedDuration::from_hours(1);
        let at = now - SignedDuration::from_secs(60);
        let recommendations = vec![Recommendation { replicas: 4, at }];
        let history = Some(History { recommendations, ..History::default() });
        let sample = DecisionSample {
            at,
            current: 3,
            desired: Some(4),
            proposed: Some(4),
            values: vec![Some(80)],
        };
        let decision = PastDecision {
            from: at,
            until: at,
            current: Some(3),
            scaled_to: Some(4),
            sentence: "cpu was high".to_owned(),
        };
        let samples = if after.is_none() { vec![sample] } else { Vec::new() };
        let settings = Some(Settings::default().with(|settings| settings.tolerance = 0.5));
        Ok(ControllerRecords {
            now: Some(now),
            history,
            settings,
            samples,
            decisions: vec![decision],
            ..ControllerRecords::default()
        })
    }
}

#[tokio::test]
async fn recorded_past_is_shown_and_used_for_the_decision() {
    let cluster = Cluster::with_records(Arc::new(RecordingController)).await;
    cluster.metrics.set_cpu_percent(10);
    let mut detail = cluster.open_detail("web").await;
    let view = detail.until(|view| view["report"]["metrics"][0]["podList"] != Value::Null).await;
    assert_eq!(view["report"]["historyKnown"], true);
    let sentence = view["report"]["sentence"].as_str().expect("a sentence");
    let held = "; stabilization holds 4, metrics ask for ";
    assert!(sentence.contains("stays at 4: ") && sentence.contains(held), "{sentence}");
    assert_eq!(view["decisions"][0]["sentence"], "cpu was high");
    assert_eq!(view["report"]["metrics"][0]["tolerances"], json!([0.5, 0.5]));
    let first = &view["series"]["samples"][0];
    assert_eq!((&first[1], &first[3], &first[4]), (&json!(3), &json!(4), &json!([80_000])));
    assert_eq!(view["missing"], json!([]));
    cluster.testbed.apply_all([hpa("other")]);
    let mut detail = cluster.open_detail("other").await;
    let view = detail.until(|view| view["missing"] != json!([])).await;
    assert!(view["missing"][0].as_str().is_some_and(|text| text.ends_with("is not handled.")));
}

/// A controller with the same records of each autoscaler.
struct FixedRecords(ControllerRecords);

#[async_trait]
impl RecordSource for FixedRecords {
    async fn records(
        &self,
        _autoscaler: &HpaKey,
        _manager: Option<&str>,
        _after: Option<Timestamp>,
    ) -> Result<ControllerRecords, String> {
        Ok(self.0.clone())
    }

    async fn activity(
        &self,
        _writers: &[AutoscalerStatusWriter],
        _limit: SignedDuration,
    ) -> ControllerActivity {
        let lead = self.0.now.map(|now| now.duration_since(Timestamp::now()));
        let wrong_clock = lead.map(|lead| WrongClock {
            lead,
            clause: "its clock is wrong".to_owned(),
            sentence: "Its clock is wrong.".to_owned(),
            manager: None,
        });
        ControllerActivity { wrong_clock, ..ControllerActivity::default() }
    }
}

/// The metrics of an autoscaler with a schedule, whose value is 4.2.
struct ScheduleMetrics;

#[async_trait]
impl DecisionMetrics for ScheduleMetrics {
    async fn read(&self, _inputs: &Inputs) -> (Readings, Vec<String>) {
        let mut readings = Readings::new();
        readings.insert(0, Ok(Reading::Object(MilliValue::from_milli(4200).into())));
        (readings, Vec::new())
    }
}

/// Metrics that can't be read, with advice.
struct AdvisedMetrics;

#[async_trait]
impl DecisionMetrics for AdvisedMetrics {
    async fn read(&self, _inputs: &Inputs) -> (Readings, Vec<String>) {
        let mut readings = Readings::new();
        readings.insert(0, Err(ReadError::fetch(MetricsApi::Resource, "unknown")));
        (readings, Vec::new())
    }

    async fn advise(&self, inputs: &Inputs) -> BTreeMap<usize, String> {
        let failed = (0..2).filter(|index| matches!(inputs.readings.get(*index), Some(Err(_))));
        failed.map(|index| (index, "Correct the name: --config FILE.".to_owned())).collect()
    }

    fn fill_placeholders(&self, advice: &str) -> String {
        advice.replace("FILE", "rules.yaml")
    }
}

#[tokio::test]
async fn detail_has_the_advice_of_the_source_of_metrics() {
    let metrics: Option<Arc<dyn DecisionMetrics>> = Some(Arc::new(AdvisedMetrics));
    let cluster = Cluster::with_options(Options { metrics, ..options() }).await;
    let mut detail = cluster.open_detail("web").await;
    let advice = "Correct the name: --config rules.yaml.";
    let has_advice = |view: &Value| view["report"]["advice"].to_string().contains(advice);
    detail.until(has_advice).await;
}

#[tokio::test]
async fn decision_of_the_controller_is_shown_if_its_metrics_can_not_be_read_here() {
    let metrics: Option<Arc<dyn DecisionMetrics>> = Some(Arc::new(AdvisedMetrics));
    let decision_in_effect = Some(Decision {
        current_replicas: Some(4),
        desired_replicas: Some(4),
        sentence: "cpu is at 50%".to_owned(),
        ..Decision::default()
    });
    let errors = vec![None];
    let records = ControllerRecords { decision_in_effect, errors, ..ControllerRecords::default() };
    let records: Option<Arc<dyn RecordSource>> = Some(Arc::new(FixedRecords(records)));
    let cluster = Cluster::with_options(Options { metrics, records, ..options() }).await;
    let mut detail = cluster.open_detail("web").await;
    let view = detail.until(|view| view["report"] != Value::Null).await;
    let expected =
        "stays at 4: cpu is at 50%, as the controller decided last; cpu can't be read here";
    assert_eq!(view["report"]["sentence"], expected);
    assert_eq!(view["row"]["state"], "steady", "the state is that of the status");
}

#[tokio::test]
async fn overwritten_scalings_are_on_the_page_of_the_autoscaler() {
    let seen_at = "2026-01-31T12:00:00Z".parse().ok();
    let overwritten_scalings = Some(OverwrittenScalings { count: 3, seen_at });
    let records = ControllerRecords { overwritten_scalings, ..ControllerRecords::default() };
    let cluster = Cluster::with_records(Arc::new(FixedRecords(records))).await;
    let mut detail = cluster.open_detail("web").await;
    let view = detail.until(|view| view["report"] != Value::Null).await;
    assert_reports_another_client(&view);
}

/// The controller's clock is 5 minutes ahead, so a scheduled minimum holds for it already.
#[tokio::test]
async fn page_decides_by_the_clock_of_the_controller() {
    let ahead = SignedDuration::from_mins(5);
    let by_controller = Timestamp::now() + ahead;
    let recommendations = vec![Recommendation { replicas: 4, at: by_controller }];
    let records = ControllerRecords {
        now: Some(by_controller),
        history: Some(History { recommendations, ..History::default() }),
        settings: Some(Settings::default()),
        ..ControllerRecords::default()
    };
    let cluster = Cluster::with_records(Arc::new(FixedRecords(records))).await;
    let minutes = |minutes: i64| {
        (Timestamp::now() + SignedDuration::from_mins(minutes)).strftime("%H:%M").to_string()
    };
    let bounds = json!([{ "start": minutes(3), "end": minutes(30), "minReplicas": 7 }]);
    let mut scheduled = hpa("web");
    let annotations = json!({ "autoscaling.hpa-rs.dev/bounds": bounds.to_string() });
    scheduled["metadata"]["annotations"] = annotations;
    cluster.testbed.apply_all([scheduled]);
    let mut detail = cluster.open_detail("web").await;
    let scales_to_seven = |view: &Value| {
        let sentence = view["report"]["sentence"].as_str().unwrap_or_default();
        sentence.contains("from 4 to 7") && sentence.ends_with("; its clock is wrong")
    };
    let view = detail.until(scales_to_seven).await;
    let samples = view["series"]["samples"].as_array().expect("samples");
    let last = samples.last().and_then(|sample| sample[0].as_i64()).expect("a time");
    let by_dashboard = (Timestamp::now() + SignedDuration::from_mins(1)).as_millisecond();
    assert!(last < by_dashboard, "the times of the page are those of the dashboard's clock");
}

/// An event has no number of scalings, so the sentence has the smallest number that is reported.
#[tokio::test]
async fn event_about_overwritten_scalings_is_used_without_records() {
    let cluster = Cluster::new().await;
    let mut event = cluster.event("web", "The replicas were changed.");
    event["reason"] = "ReplicasOverwritten".into();
    event["lastTimestamp"] = format!("{:.0}", Timestamp::now()).into();
    cluster.testbed.apply_all([event]);
    let mut detail = cluster.open_detail("web").await;
    let view = detail.until(|view| view["report"] != Value::Null).await;
    assert_reports_another_client(&view);
}

fn assert_reports_another_client(view: &Value) {
    let sentence = view["report"]["sentence"].as_str().unwrap_or_default();
    let end = "; another client has changed the replicas after at least 3 scalings, seen at 2";
    assert!(sentence.contains(end), "{sentence}");
    let advice = view["report"]["advice"][0].as_str().unwrap_or_default();
    assert!(advice.starts_with("Find the client. "), "{advice}");
}

#[tokio::test]
async fn decision_of_the_controller_about_other_pods_is_first() {
    let current_stay = Some(StayDecision { replicas: 4, counted_pods: vec![Some(2)] });
    let records = ControllerRecords { current_stay, ..ControllerRecords::default() };
    let cluster = Cluster::with_records(Arc::new(FixedRecords(records))).await;
    cluster.metrics.set_cpu_percent(120);
    let mut detail = cluster.open_detail("web").await;
    let view = detail.until(|view| view["report"]["metrics"][0]["podList"] != Value::Null).await;
    let sentence = view["report"]["sentence"].as_str().expect("a sentence");
    let start = "the controller stayed at 4 in its last decision, which counted 2 pods, not 4; \
                 would scale from 4 to ";
    assert!(sentence.starts_with(start), "{sentence}");
    let advice = view["report"]["advice"][0].as_str().unwrap_or_default();
    assert!(advice.contains("cache of pods is old"), "{advice}");
}

#[tokio::test]
async fn schedule_has_no_tolerance_if_the_controller_reads_schedules() {
    let metric = json!({ "type": "Object", "object": {
        "describedObject":
            { "apiVersion": "zalando.org/v1", "kind": "ScalingSchedule", "name": "evening" },
        "metric": { "name": "scheduled" },
        "target": { "type": "AverageValue", "averageValue": "1" },
    } });
    let report = async |tolerance: f64, records: Option<Arc<dyn RecordSource>>| {
        let settings = Settings::default().with(|settings| settings.tolerance = tolerance);
        let metrics: Option<Arc<dyn DecisionMetrics>> = Some(Arc::new(ScheduleMetrics));
        let options = Options { settings, records, metrics, ..options() };
        let cluster = Cluster::with_options(options).await;
        cluster.testbed.apply_all([objects::hpa("scheduled", 2..=10, [metric.clone()])]);
        cluster.testbed.apply_all([objects::running_deployment("scheduled", 4)]);
        cluster.testbed.apply_all((0..4).map(|index| objects::pod("scheduled", index)));
        let mut detail = cluster.open_detail("scheduled").await;
        let view =
            detail.until(|view| view["report"]["metrics"][0]["podList"] != Value::Null).await;
        view["report"]["sentence"].as_str().expect("a sentence").to_owned()
    };
    let default_tolerance = Settings::default().tolerance;
    for (tolerance, is_exact) in
        [(default_tolerance, false), (default_tolerance, true), (0.2, false), (0.2, true)]
    {
        let settings = Some(Settings::default().with(|settings| settings.exact_schedules = true));
        let records = ControllerRecords { settings, ..ControllerRecords::default() };
        let controller: Arc<dyn RecordSource> = Arc::new(FixedRecords(records));
        let sentence = report(tolerance, is_exact.then_some(controller)).await;
        let expected = if is_exact { "would scale from 4 to 5" } else { "stays at 4" };
        assert!(sentence.starts_with(expected), "{tolerance} {is_exact}: {sentence}");
    }
}
