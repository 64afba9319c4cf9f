use hpa_calc::{
    HorizontalPodAutoscaler, MilliValue, Settings,
    report::{State, Surroundings},
    settings::SettingPolicy,
};
use hpa_controller::{
    AutoscalerApi, HpaKey,
    debug::{ActingController, DecisionSample},
    k8s::StatusController,
};
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    Board, ObservedAutoscaler, Row, Sample, SourceState, Update,
    row::RowState::{self, Reported},
    series::Series,
};
use crate::past::{ControllerActivity, IdleAutoscaler, PastDecision, UnstoredStatus};

mod cluster;

fn id(name: &str) -> HpaKey {
    HpaKey::new("shop", name)
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn cpu_metric(utilization: i32) -> Value {
    let target = json!({ "type": "Utilization", "averageUtilization": utilization });
    json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } })
}

fn cpu_status(utilization: i32) -> Value {
    let current = json!({ "averageUtilization": utilization, "averageValue": "100m" });
    json!({ "type": "Resource", "resource": { "name": "cpu", "current": current } })
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({ "type": kind, "status": status, "reason": reason, "message": format!("{reason}!") })
}

fn hpa(status: Value) -> HorizontalPodAutoscaler {
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
    serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "1" },
        "spec": { "scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 9,
            "metrics": [cpu_metric(60)] },
        "status": status,
    }))
    .unwrap()
}

/// The row of an autoscaler alone, with its own settings.
fn row_of(hpa: &HorizontalPodAutoscaler) -> Row {
    let settings = Settings::default().for_autoscaler(hpa, &SettingPolicy::default()).settings;
    Row::new(id("web"), hpa, &settings, Surroundings::default(), at(0))
}

/// A status whose conditions are the usual ones, replaced by those of `special` with the same type.
fn status(current: i32, desired: i32, special: &[Value]) -> Value {
    let mut conditions = vec![
        condition("AbleToScale", "True", "ReadyForNewScale"),
        condition("ScalingActive", "True", "ValidMetricFound"),
        condition("ScalingLimited", "False", "DesiredWithinRange"),
    ];
    for condition in special {
        conditions.retain(|usual| usual["type"] != condition["type"]);
        conditions.push(condition.clone());
    }
    json!({ "currentReplicas": current, "desiredReplicas": desired, "conditions": conditions,
        "currentMetrics": [cpu_status(90)] })
}

#[test]
fn autoscaler_that_never_decided_has_no_desired_replicas() {
    let row = |status| row_of(&hpa(status));
    let new = row(Value::Null);
    let shown = (new.state, new.load, new.current, new.desired);
    assert_eq!(shown, (Reported(State::New), None, None, None));
    let failed = condition("ScalingActive", "False", "FailedGetResourceMetric");
    let failing = row(status(1, 0, std::slice::from_ref(&failed)));
    let shown = (failing.state, failing.current, failing.desired);
    assert_eq!(shown, (Reported(State::Failing), Some(1), None));
    assert_eq!(row(status(4, 3, &[failed])).desired, Some(3), "it decided before");
    assert_eq!(row(status(1, 0, &[])).desired, None, "the first write was refused");
    let zero = condition("ScaledToZero", "True", "ScaledToZero");
    assert_eq!(row(status(1, 0, &[zero])).desired, Some(0), "it scales to zero");
}

#[rstest]
#[case::valid("pause", false)]
#[case::misspelled("paused", true)]
fn invalid_settings_are_marked(#[case] name: &str, #[case] is_invalid: bool) {
    let mut hpa = hpa(status(4, 4, &[]));
    hpa.metadata.annotations.insert(format!("autoscaling.hpa-rs.dev/{name}"), "true".into());
    let row = row_of(&hpa);
    assert_eq!(row.has_invalid_settings, is_invalid, "{row:?}");
}

#[test]
fn dry_run_without_a_status_is_shown_as_a_setting() {
    let mut hpa = hpa(Value::Null);
    for (name, value) in [("dry-run", "true"), ("tolerance", "0.2")] {
        hpa.metadata.annotations.insert(format!("autoscaling.hpa-rs.dev/{name}"), value.into());
    }
    let row = row_of(&hpa);
    assert_eq!((row.state, row.current, row.desired), (Reported(State::DryRun), None, None));
    assert_eq!(row.settings.as_deref(), Some("dry-run=true, tolerance=200m"));
}

#[test]
fn replicas_of_a_missing_target_are_unknown() {
    let unread = [
        condition("AbleToScale", "False", "FailedGetScale"),
        condition("ScalingActive", "False", "FailedGetScale"),
    ];
    let missing = hpa(status(0, 0, &unread));
    let row = row_of(&missing);
    assert_eq!((row.state, row.current, row.desired), (Reported(State::Failing), None, None));
    let sample = Sample::from_status(&missing, at(0));
    assert_eq!((sample.current, sample.desired), (None, None));
}

#[test]
fn load_is_the_largest_ratio_of_value_to_target() {
    let mut hpa = hpa(status(4, 4, &[]));
    hpa.spec.metrics.push(serde_json::from_value(cpu_metric(30)).unwrap());
    hpa.status.current_metrics.push(serde_json::from_value(cpu_status(90)).unwrap());
    // A metric that could not be read has an empty status.
    hpa.spec.metrics.push(serde_json::from_value(cpu_metric(1)).unwrap());
    hpa.status.current_metrics.push(serde_json::from_value(json!({ "type": "" })).unwrap());
    let row = row_of(&hpa);
    assert_eq!(row.load, Some(3.0));
    let sentence = "no value of cpu, so it only scales up; cpu is at 90% of requests, target 30%";
    assert_eq!(row.sentence, sentence);
}

/// An autoscaler whose target has its name.
fn observed(name: &str, status: Value) -> ObservedAutoscaler {
    let mut hpa = hpa(status);
    name.clone_into(&mut hpa.spec.scale_target_ref.name);
    ObservedAutoscaler { id: id(name), hpa: Ok(hpa), controller: StatusController::default() }
}

/// The writer of a status at an unknown time.
fn controlled_by(manager: &str) -> StatusController {
    StatusController { name: Some(manager.to_owned()), ..StatusController::default() }
}

fn board(names: &[&str]) -> Board {
    let board = Board::new(&[AutoscalerApi::Core], Settings::default(), SettingPolicy::default());
    let all = names.iter().map(|name| observed(name, status(4, 4, &[]))).collect();
    board.update(Update::Replace(AutoscalerApi::Core, all), at(0));
    board
}

#[test]
fn reader_gets_all_rows_first_and_then_changes() {
    let board = board(&["a", "b", "c"]);
    let first = board.changes_since(0, at(0));
    assert_eq!((first.reset, first.rows.len(), first.is_reading), (true, 3, false));
    board.update(Update::Apply(Box::new(observed("b", status(4, 6, &[])))), at(1));
    board.update(Update::Delete(id("c")), at(1));
    let next = board.changes_since(first.version, at(1));
    let names: Vec<_> = next.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!((next.reset, names, next.deleted), (false, vec!["b"], vec![id("c")]));
    let last = board.changes_since(next.version, at(1));
    assert!(last.rows.is_empty() && last.deleted.is_empty());
}

#[test]
fn unchanged_object_of_a_relist_is_not_sent_again() {
    let board = board(&["a", "b"]);
    let first = board.changes_since(0, at(0));
    let all = ["a", "d"].map(|name| observed(name, status(4, 4, &[]))).to_vec();
    board.update(Update::Replace(AutoscalerApi::Core, all), at(1));
    let next = board.changes_since(first.version, at(1));
    let names: Vec<_> = next.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!((names, next.deleted), (vec!["d"], vec![id("b")]));
}

#[test]
fn deleted_and_created_autoscaler_is_not_reported_as_deleted() {
    let board = board(&["a"]);
    let version = board.changes_since(0, at(0)).version;
    board.update(Update::Delete(id("a")), at(1));
    board.update(Update::Apply(Box::new(observed("a", status(1, 1, &[])))), at(1));
    let next = board.changes_since(version, at(1));
    assert_eq!((next.rows.len(), next.deleted.len()), (1, 0));
}

#[test]
fn reader_that_missed_too_many_deletions_gets_everything() {
    let board = board(&["a"]);
    let version = board.changes_since(0, at(0)).version;
    for _ in 0..=super::rows::MAX_DELETIONS {
        board.update(Update::Apply(Box::new(observed("b", status(1, 1, &[])))), at(1));
        board.update(Update::Delete(id("b")), at(1));
    }
    let next = board.changes_since(version, at(1));
    assert_eq!((next.reset, next.rows.len()), (true, 1));
}

fn fail_list(board: &Board, api: AutoscalerApi, is_unanswered: bool, second: i64) {
    board.fail_source(api, is_unanswered, at(second), |since| format!("broken since {since}"));
}

#[test]
fn list_is_incomplete_only_if_its_own_api_fails_or_lacks_the_namespace() {
    let board = board(&["a"]);
    let inactivity = Some("No controller makes decisions.".to_owned());
    board.set_activity(ControllerActivity { inactivity, ..ControllerActivity::default() }, at(0));
    board.set_note(AutoscalerApi::Custom, "only one namespace of the custom API".to_owned());
    board.set_namespace(AutoscalerApi::Custom, "other".to_owned());
    fail_list(&board, AutoscalerApi::Custom, false, 0);
    assert!(board.is_complete(&id("b")));
    board.set_namespace(AutoscalerApi::Core, "other".to_owned());
    assert!(!board.is_complete(&id("b")), "another namespace");
    board.set_namespace(AutoscalerApi::Core, "shop".to_owned());
    fail_list(&board, AutoscalerApi::Core, false, 0);
    assert!(!board.is_complete(&id("b")));
}

#[test]
fn recorded_decision_replaces_a_status_that_is_older() {
    let board = board(&["a", "b"]);
    let row = || board.get(&id("a")).unwrap().row;
    let stored = row();
    let decision = |scaled_to| PastDecision {
        from: at(0),
        until: at(1000),
        current: Some(8),
        scaled_to,
        sentence: "cpu is at 200%".to_owned(),
    };
    let unstored = |scaled_to| {
        let last_decision = Some(decision(scaled_to));
        let unstored = UnstoredStatus { error: "forbidden".to_owned(), last_decision };
        let unstored = [(id("a"), unstored)].into();
        ControllerActivity { unstored, ..ControllerActivity::default() }
    };
    board.set_activity(unstored(Some(9)), at(1001));
    let Row { state, current, desired, load, sentence, last_scale, .. } = row();
    let expected = (Reported(State::Failing), Some(8), Some(9), None);
    assert_eq!((state, current, desired, load), expected);
    assert_eq!(last_scale, Some(at(1000)));
    let expected = "the controller can't store the status: forbidden; its last decision: cpu is at \
                    200%";
    assert_eq!(sentence, expected);
    board.set_activity(unstored(None), at(1016));
    let Row { desired, last_scale, .. } = row();
    assert_eq!((desired, last_scale), (Some(8), None));
    board.set_activity(ControllerActivity::default(), at(1031));
    assert_eq!(row(), stored);
}

#[test]
fn time_without_decision_is_sent_once_and_survives_a_change_of_the_object() {
    let board = board(&["a", "b"]);
    let overdue = |since| {
        let overdue = [(id("a"), at(since))].into();
        ControllerActivity { overdue, ..ControllerActivity::default() }
    };
    let since = |board: &Board| board.get(&id("a")).unwrap().row.undecided_since;
    board.set_activity(overdue(800), at(1000));
    assert_eq!(since(&board), Some(at(800)));
    let version = board.changes_since(0, at(1000)).version;
    board.set_activity(overdue(798), at(1015));
    assert_eq!(board.changes_since(version, at(1015)).rows, []);
    board.update(Update::Apply(Box::new(observed("a", status(4, 6, &[])))), at(1016));
    assert_eq!(since(&board), Some(at(800)));
    board.set_activity(ControllerActivity::default(), at(1020));
    assert_eq!(since(&board), None);
    let changes = board.changes_since(version, at(1020));
    assert_eq!(changes.rows.iter().map(|row| &*row.name).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn row_of_an_autoscaler_without_a_controller_is_not_steady() {
    let board = board(&[]);
    let mut steady = status(4, 4, &[]);
    steady["currentMetrics"] = json!([cpu_status(60)]);
    for name in ["a", "b"] {
        board.update(Update::Apply(Box::new(observed(name, steady.clone()))), at(0));
    }
    let row = |name| board.get(&id(name)).unwrap().row;
    let stored = row("a");
    assert_eq!(stored.state, Reported(State::Steady));
    let idle = |reason: &str| {
        let clause = "Maybe no controller acts on this autoscaler".to_owned();
        let idle = [(id("a"), IdleAutoscaler { clause, reason: reason.to_owned() })].into();
        let inactivity = Some("Maybe no controller acts on 1 autoscaler.".to_owned());
        ControllerActivity { inactivity, idle, ..ControllerActivity::default() }
    };
    board.set_activity(idle("no lease was found"), at(1));
    let expected = format!(
        "Maybe no controller acts on this autoscaler: no lease was found; before: {}",
        stored.sentence
    );
    assert_eq!((row("a").state, row("a").sentence), (RowState::NotHandled, expected));
    assert_eq!(serde_json::to_value(row("a")).unwrap()["state"], "notHandled");
    assert_eq!(serde_json::to_value(row("b")).unwrap()["state"], "steady");
    board.set_activity(ControllerActivity::default(), at(2));
    assert_eq!(row("a"), stored);
}

/// The default window is five minutes. Clocks may differ by a minute.
#[test]
fn status_that_is_older_than_its_stabilization_window_is_old() {
    let board = board(&[]);
    let held = condition("AbleToScale", "True", "ScaleDownStabilized");
    let mut low = status(4, 4, &[held]);
    low["currentMetrics"] = json!([cpu_status(30)]);
    let controller = StatusController { at: Some(at(1000)), ..controlled_by("hpa-controller") };
    let observed = ObservedAutoscaler { controller, ..observed("a", low) };
    board.update(Update::Apply(Box::new(observed)), at(1001));
    let row = || board.get(&id("a")).unwrap().row;
    let stored = row();
    assert_eq!(stored.state, Reported(State::Stabilizing));
    board.set_activity(ControllerActivity::default(), at(1360));
    assert_eq!(row(), stored);
    board.set_activity(ControllerActivity::default(), at(1361));
    let expected = format!(
        "the status is from 1970-01-01T00:16:40Z, longer ago than the stabilization window of \
         300s; before: {}",
        stored.sentence
    );
    assert_eq!((row().state, row().sentence), (RowState::OldStatus, expected.clone()));
    let recently_decided = [id("a")].into();
    let decided = ControllerActivity { recently_decided, ..ControllerActivity::default() };
    board.set_activity(decided, at(1362));
    assert_eq!((row().state, row().sentence), (stored.state, stored.sentence));
    board.set_activity(ControllerActivity::default(), at(1363));
    assert_eq!((row().state, row().sentence), (RowState::OldStatus, expected));
}

#[test]
fn inactivity_is_unknown_until_the_first_activity_is_read() {
    let board = board(&["a"]);
    assert_eq!(board.changes_since(0, at(0)).inactive, Some(false), "no source");
    board.expect_activity();
    let changes = board.changes_since(0, at(0));
    assert_eq!(changes.inactive, None);
    board.set_activity(ControllerActivity::default(), at(1));
    let next = board.changes_since(changes.version, at(1));
    assert_eq!(next.inactive, Some(false));
    assert!(next.version > changes.version);
}

#[test]
fn undecodable_object_is_a_row_with_its_error() {
    let board = board(&[]);
    let hpa = Err("invalid type: string".to_owned());
    let observed = ObservedAutoscaler { id: id("a"), hpa, controller: StatusController::default() };
    board.update(Update::Apply(Box::new(observed)), at(0));
    let rows = board.changes_since(0, at(0)).rows;
    assert_eq!(rows[0].state, Reported(State::Failing));
    let Row { current, min, max, .. } = rows[0];
    assert_eq!((current, min, max), (None, None, None));
    assert_eq!(rows[0].sentence, "unable to decode the autoscaler: invalid type: string");
}

fn sample(second: i64, current: i32) -> Sample {
    let values = Box::new([Some(MilliValue::from_units(60))]);
    Sample {
        at: at(second),
        current: Some(current),
        desired: Some(current),
        recommended: None,
        values,
    }
}

fn times(series: &Series) -> Vec<i64> {
    series.samples().map(|sample| sample.at.as_second()).collect()
}

#[test]
fn series_keeps_the_last_changes_up_to_its_capacity() {
    let mut series = Series::default();
    for (second, current) in [(1, 4), (2, 4), (3, 5), (4, 6), (5, 7)] {
        series.record(sample(second, current), 3);
    }
    assert_eq!(times(&series), [3, 4, 5]);
    series.record(sample(2, 9), 3);
    assert_eq!(times(&series), [2], "the clock was set back");
}

/// A sample that the controller recorded.
fn past_sample(second: i64, current: i32) -> DecisionSample {
    let values = vec![Some(60)];
    DecisionSample { at: at(second), current, desired: None, proposed: Some(9), values }
}

#[test]
fn past_values_have_the_unit_of_their_target() {
    let mut series = Series::default();
    series.set_metrics(&hpa(Value::Null));
    let other = DecisionSample { values: vec![Some(1), Some(2)], ..past_sample(1, 4) };
    series.merge(vec![other, past_sample(2, 5)], SignedDuration::ZERO, 9);
    let values: Vec<_> = series.samples().map(|sample| sample.values.to_vec()).collect();
    assert_eq!(values, [vec![None], vec![Some(MilliValue::from_units(60))]]);
}

#[test]
fn unit_depends_on_the_resource_not_on_the_container_name() {
    let mut hpa = hpa(Value::Null);
    let target = json!({ "type": "AverageValue", "averageValue": "400m" });
    let metric = |name: &str, target: &Value| {
        let source = json!({ "name": name, "container": "memory-store", "target": target });
        let spec = json!({ "type": "ContainerResource", "containerResource": source });
        serde_json::from_value(spec).unwrap()
    };
    let percent = json!({ "type": "Utilization", "averageUtilization": 60 });
    hpa.spec.metrics = vec![metric("cpu", &target), metric("memory", &percent)];
    let mut series = Series::default();
    series.set_metrics(&hpa);
    let series = serde_json::to_value(series).unwrap();
    let units = |metric: usize| {
        let line = &series["metrics"][metric];
        (line["unit"].clone(), line["sampleUnit"].clone())
    };
    assert_eq!(units(0), (json!("quantity"), json!("quantity")));
    assert_eq!(units(1), (json!("percent"), json!("bytes")));
}

#[test]
fn past_samples_replace_those_of_the_same_period() {
    let mut series = Series::default();
    for (second, current) in [(10, 4), (20, 5), (30, 6)] {
        series.record(sample(second, current), 9);
    }
    let past = [(5, 3), (15, 3), (25, 7)].map(|(second, current)| past_sample(second, current));
    series.merge(past.to_vec(), SignedDuration::ZERO, 9);
    assert_eq!(times(&series), [5, 25, 30], "equal ones that follow each other are one");
    series.merge(vec![past_sample(31, 8), past_sample(32, 9)], SignedDuration::ZERO, 3);
    assert_eq!(times(&series), [30, 31, 32], "the oldest are dropped");
    series.merge(Vec::new(), SignedDuration::ZERO, 3);
    assert_eq!(times(&series), [30, 31, 32]);
}

#[test]
fn past_samples_are_converted_to_the_clock_of_the_dashboard() {
    let mut series = Series::default();
    series.record(sample(100, 4), 9);
    // The controller's clock is 3 s ahead.
    series.merge(vec![past_sample(104, 5)], SignedDuration::from_secs(-3), 9);
    assert_eq!((times(&series), series.past_until()), (vec![100, 101], Some(at(104))));
    series.record(sample(102, 6), 9);
    assert_eq!(times(&series), [100, 101, 102]);
}

#[test]
fn all_past_samples_are_read_again_after_a_drop() {
    let mut series = Series::default();
    series.set_metrics(&hpa(Value::Null));
    series.merge(vec![past_sample(10, 5)], SignedDuration::ZERO, 9);
    let mut other = hpa(Value::Null);
    other.spec.metrics.clear();
    series.set_metrics(&other);
    assert_eq!((times(&series), series.past_until()), (vec![], None));
    series.merge(vec![past_sample(10, 5)], SignedDuration::ZERO, 9);
    series.record(sample(9, 6), 9);
    assert_eq!((times(&series), series.past_until()), (vec![9], None), "the clock was set back");
}

#[test]
fn samples_survive_a_new_metric_target_but_not_a_re_created_object() {
    let board = board(&["a"]);
    board.record_sample(&id("a"), sample(1, 5));
    let count = |board: &Board| board.get(&id("a")).unwrap().series.samples().count();
    assert_eq!(count(&board), 2);
    let mut other_target = observed("a", status(4, 4, &[]));
    other_target.hpa.as_mut().unwrap().spec.metrics =
        vec![serde_json::from_value(cpu_metric(70)).unwrap()];
    board.update(Update::Apply(Box::new(other_target.clone())), at(2));
    assert_eq!(count(&board), 3, "the metric is the same");
    let mut recreated = other_target;
    recreated.hpa.as_mut().unwrap().metadata.uid = "2".to_owned();
    board.update(Update::Apply(Box::new(recreated)), at(3));
    assert_eq!(count(&board), 1);
}

#[test]
fn sample_is_serialized_as_an_array() {
    let json = serde_json::to_value(sample(1, 4)).unwrap();
    assert_eq!(json, json!([1000, 4, 4, null, [60_000]]));
}

#[test]
fn others_of_a_controller_have_its_api_or_its_field_manager() {
    let board = Board::new(&AutoscalerApi::ALL, Settings::default(), SettingPolicy::default());
    for (api, name, manager) in [
        (AutoscalerApi::Core, "web", "hpa-controller:a/hpa"),
        (AutoscalerApi::Core, "same-api", "kube-controller-manager"),
        (AutoscalerApi::Custom, "same-controller", "hpa-controller:a/hpa"),
        (AutoscalerApi::Custom, "other", "hpa-controller:b/hpa"),
    ] {
        let controller = controlled_by(manager);
        let id = HpaKey { api, ..id(name) };
        let observed = ObservedAutoscaler { id, hpa: Ok(hpa(Value::Null)), controller };
        board.update(Update::Apply(Box::new(observed)), at(0));
    }
    let others = board.others_of_controller(&id("web")).into_iter();
    let mut names: Vec<_> = others.map(|(name, _)| name).collect();
    names.sort();
    assert_eq!(names, ["rhpa/shop/same-controller", "shop/same-api"]);
}

#[test]
fn row_has_the_settings_that_the_controller_applies() {
    let board = Board::new(
        &[AutoscalerApi::Core],
        Settings::default(),
        SettingPolicy { allowed: vec!["bounds"], ..SettingPolicy::default() },
    );
    let applied = condition("CustomSettings", "True", "SetOnAutoscaler");
    let row = |annotations: Value, manager: &str| {
        let mut hpa = hpa(status(4, 4, std::slice::from_ref(&applied)));
        hpa.metadata.annotations = serde_json::from_value(annotations).unwrap();
        let controller = controlled_by(manager);
        let observed = ObservedAutoscaler { id: id("web"), hpa: Ok(hpa), controller };
        board.update(Update::Apply(Box::new(observed)), at(0));
        board.get(&id("web")).unwrap().row
    };
    let schedule = json!([{ "start": "00:00", "end": "00:00", "minReplicas": 5 }]).to_string();
    let bounds = json!({ "autoscaling.hpa-rs.dev/bounds": schedule });
    let scheduled = row(bounds.clone(), "hpa-controller");
    assert_eq!((scheduled.min, scheduled.max), (Some(5), Some(9)));
    assert_eq!(scheduled.settings.as_deref(), Some("SetOnAutoscaler!"));
    // The reference ignores the annotation.
    assert_eq!(row(bounds.clone(), "kube-controller-manager").min, Some(2));
    let sentence = || board.get(&id("web")).unwrap().row.sentence;
    assert!(sentence().contains("hpa-rs would apply the setting bounds"), "{}", sentence());
    let set_acting = |manager: &str, acting: ActingController| {
        let acting = [((id("web").namespace, manager.to_owned()), acting)].into();
        board.set_activity(ControllerActivity { acting, ..ControllerActivity::default() }, at(0));
    };
    let built_in = |is_status_of_kube_controller_manager| ActingController::KubeControllerManager {
        is_status_of_kube_controller_manager,
    };
    set_acting("kube-controller-manager", built_in(true));
    assert!(sentence().contains("the setting bounds has no effect"), "{}", sentence());
    set_acting("kube-controller-manager", ActingController::HpaRs);
    assert_eq!(board.get(&id("web")).unwrap().row.min, Some(5), "hpa-rs has replaced it");
    assert_eq!(row(bounds.clone(), "kube-controller-manager").min, Some(5));
    let own = "hpa-controller:a/hpa";
    assert_eq!(row(bounds, own).min, Some(5));
    set_acting(own, built_in(false));
    assert!(sentence().contains("kube-controller-manager, which acts now, "), "{}", sentence());
    assert_eq!(board.get(&id("web")).unwrap().row.min, Some(2), "it has replaced hpa-rs");
}
