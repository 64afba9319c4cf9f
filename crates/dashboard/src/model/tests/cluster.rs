//! Outages, and sentences that depend on other autoscalers or on the target's scale.

use std::time::{Duration, Instant};

use hpa_calc::{Scale, explain::UnschedulablePods, report::OverwrittenScalings};
use hpa_controller::{debug::AutoscalerActivity, scale_target::TargetPods};

use super::*;
use crate::{
    model::{FailureKind, Outage},
    past::WrongClock,
};

fn fail_connection(board: &Board, second: i64, kind: FailureKind, cause: &str) {
    board.mark_down(at(second), |since| Outage {
        subject: "The API server".to_owned(),
        kind: Some(kind),
        since,
        text: format!("The API server {kind} since {since}: {cause}"),
    });
}

/// The end of sentences that a row has until the scale of its target is read.
const UNREAD_SCALE: &str = "; the number of existing pods is not read yet";

#[test]
fn failed_list_is_a_problem_until_it_is_synced() {
    let board = board(&["a"]);
    fail_list(&board, AutoscalerApi::Core, false, 5);
    fail_list(&board, AutoscalerApi::Core, false, 9);
    assert_eq!(board.problems(), ["broken since 1970-01-01T00:00:05Z."]);
    let outage = board.outage_summary().unwrap();
    assert_eq!((outage.since, outage.values_at, outage.is_partial), (at(5), Some(at(5)), false));
    board.set_source(AutoscalerApi::Core, SourceState::Synced);
    board.set_note(AutoscalerApi::Core, "only one namespace".to_owned());
    assert_eq!(
        (board.problems(), board.outage_summary()),
        (vec!["only one namespace".to_owned()], None)
    );
}

#[test]
fn outage_of_the_api_server_replaces_other_problems() {
    let board = board(&["a"]);
    board.mark_up(at(100));
    let activity = ControllerActivity {
        inactivity: Some("No controller makes decisions.".to_owned()),
        status_problems: vec!["Several controllers stored the statuses.".to_owned()],
        ..ControllerActivity::default()
    };
    board.set_activity(activity, at(100));
    fail_list(&board, AutoscalerApi::Core, true, 110);
    fail_connection(&board, 110, FailureKind::Unreachable, "refused");
    fail_connection(&board, 120, FailureKind::Unreachable, "starting");
    let unreachable = "The API server has been unreachable since 1970-01-01T00:01:50Z: starting.";
    assert_eq!(board.problems(), [unreachable]);
    let changes = board.changes_since(0, at(130));
    let shown = (changes.rows.len(), changes.inactive);
    assert_eq!(shown, (1, Some(false)), "the lease can't be read");
    let outage = changes.outage.unwrap();
    assert_eq!(
        (outage.since, outage.values_at, outage.is_partial),
        (at(110), Some(at(100)), false)
    );
    assert!(!board.is_complete(&id("b")));
    fail_connection(&board, 135, FailureKind::ServerError, "full");
    let failed = "The API server has failed since 1970-01-01T00:02:15Z: full.";
    assert_eq!(board.problems(), [failed]);
    assert_eq!(board.outage_summary().unwrap().since, at(110), "of the first failure");
    board.mark_up(at(140));
    let of_leases = ["No controller makes decisions.", "Several controllers stored the statuses."];
    assert_eq!(board.problems(), of_leases);
    assert!(board.is_reading(), "the list is read again");
}

#[test]
fn outage_before_the_first_list_has_no_time_of_values() {
    let board = Board::new(&[AutoscalerApi::Core], Settings::default(), SettingPolicy::default());
    assert!(board.is_reading());
    fail_connection(&board, 1, FailureKind::Unreachable, "refused");
    let changes = board.changes_since(0, at(2));
    assert!(!changes.is_reading);
    assert_eq!(changes.outage.unwrap().values_at, None);
}

#[test]
fn failed_list_of_one_api_names_the_api_that_is_shown() {
    let apis = [AutoscalerApi::Core, AutoscalerApi::Custom];
    let board = Board::new(&apis, Settings::default(), SettingPolicy::default());
    board.set_note(AutoscalerApi::Custom, "only one namespace".to_owned());
    board.update(Update::Replace(AutoscalerApi::Core, Vec::new()), at(0));
    fail_list(&board, AutoscalerApi::Custom, false, 5);
    let shown = "broken since 1970-01-01T00:00:05Z. The autoscalers of autoscaling/v2 are shown.";
    assert_eq!(board.problems(), [shown]);
    assert!(board.outage_summary().unwrap().is_partial);
    board.set_source(AutoscalerApi::Core, SourceState::Reading);
    assert!(board.outage_summary().unwrap().is_partial, "it may be read");
    board.set_source(AutoscalerApi::Core, SourceState::NotServed);
    assert!(!board.outage_summary().unwrap().is_partial);
}

#[test]
fn autoscalers_of_the_same_target_name_each_other_across_apis() {
    let board = board(&["a"]);
    let sentence = |board: &Board, id: &HpaKey| board.get(id).unwrap().row.sentence;
    let alone = sentence(&board, &id("a"));
    let decision = alone.strip_suffix(UNREAD_SCALE).expect("the scale is not read");
    let custom = HpaKey { api: AutoscalerApi::Custom, ..id("b") };
    let mut other = observed("b", status(4, 4, &[]));
    other.id = custom.clone();
    other.hpa.as_mut().unwrap().spec.scale_target_ref.name = "a".to_owned();
    board.update(Update::Apply(Box::new(other.clone())), at(1));
    for (id, peer) in [(id("a"), "rhpa/shop/b"), (custom, "shop/a")] {
        let expected = format!("{decision}; {peer} has the same target{UNREAD_SCALE}");
        assert_eq!(sentence(&board, &id), expected);
    }
    other.hpa.as_mut().unwrap().spec.scale_target_ref.name = "other".to_owned();
    board.update(Update::Apply(Box::new(other)), at(2));
    assert_eq!(sentence(&board, &id("a")), alone);
}

#[test]
fn bounds_that_exclude_those_of_another_autoscaler_are_a_conflict_until_they_change() {
    let board = board(&["a"]);
    let bounds = |name: &str, min, max| {
        let mut one = observed(name, status(4, 4, &[]));
        let spec = &mut one.hpa.as_mut().unwrap().spec;
        (spec.min_replicas, spec.max_replicas) = (Some(min), max);
        spec.scale_target_ref.name = "a".to_owned();
        board.update(Update::Apply(Box::new(one)), at(1));
    };
    bounds("a", 6, 8);
    bounds("b", 2, 4);
    let row = |name: &str| board.get(&id(name)).unwrap().row;
    let conflict = "conflicts by its bounds, 6 to 8 replicas, with shop/b (2 to 4): both scale \
                    Deployment a to their own bounds, up and down, for as long as both exist with \
                    these bounds";
    assert!(row("a").sentence.ends_with(&format!("; {conflict}{UNREAD_SCALE}")), "{:?}", row("a"));
    assert_eq!(row("a").bounds_conflict.as_deref(), Some(conflict));
    bounds("b", 2, 6);
    assert_eq!(row("a").bounds_conflict, None);
    bounds("c", 9, 9);
    let conflict = row("b").bounds_conflict.unwrap();
    assert!(conflict.contains("with shop/c (9 to 9): both"), "{conflict}");
    board.update(Update::Delete(id("c")), at(2));
    assert_eq!(row("b").bounds_conflict, None);
}

#[test]
fn bounds_conflict_follows_a_change_of_the_acting_controller() {
    let board = board(&[]);
    let mut scheduled = observed("scheduled", status(4, 4, &[]));
    let schedule = json!([{ "start": "00:00", "end": "00:00", "minReplicas": 6 }]).to_string();
    let annotations = json!({ "autoscaling.hpa-rs.dev/bounds": schedule });
    let scheduled_hpa = scheduled.hpa.as_mut().unwrap();
    scheduled_hpa.metadata.annotations = serde_json::from_value(annotations).unwrap();
    let manager = "kube-controller-manager".to_owned();
    scheduled.controller = controlled_by(&manager);
    let mut other = observed("scheduled", status(4, 4, &[]));
    other.id = id("other");
    other.hpa.as_mut().unwrap().spec.max_replicas = 4;
    board.update(Update::Replace(AutoscalerApi::Core, vec![scheduled, other]), at(0));
    let conflict = || board.get(&id("other")).unwrap().row.bounds_conflict;
    assert_eq!(conflict(), None, "kube-controller-manager ignores the schedule");
    let acting = [((id("other").namespace, manager), ActingController::HpaRs)].into();
    board.set_activity(ControllerActivity { acting, ..ControllerActivity::default() }, at(1));
    let text = conflict().unwrap();
    assert!(text.contains("with shop/scheduled (6 to 9): both"), "{text}");
}

#[test]
fn schedules_that_change_at_the_same_time_are_no_conflict() {
    let board = board(&[]);
    let scheduled = |name: &str, current| {
        let mut one = observed("web", status(current, 4, &[]));
        one.id = id(name);
        let hpa = one.hpa.as_mut().unwrap();
        hpa.spec.max_replicas = 4;
        let later =
            json!([{ "start": "01:00", "end": "02:00", "minReplicas": 6, "maxReplicas": 8 }]);
        let annotations = json!({ "autoscaling.hpa-rs.dev/bounds": later.to_string() });
        hpa.metadata.annotations = serde_json::from_value(annotations).unwrap();
        one
    };
    let all = vec![scheduled("one", 3), scheduled("other", 3)];
    board.update(Update::Replace(AutoscalerApi::Core, all), at(0));
    board.update(Update::Apply(Box::new(scheduled("one", 4))), at(3600));
    for name in ["one", "other"] {
        let row = board.get(&id(name)).unwrap().row;
        assert_eq!((row.min, row.bounds_conflict), (Some(6), None), "{name}");
    }
}

#[test]
fn change_of_one_of_many_autoscalers_of_a_target_is_cheap() {
    const COUNT: i32 = 500;
    let of_target = |index: i32, current| {
        let mut one = observed("web", status(current, 4, &[]));
        one.id = id(&format!("web-{index}"));
        one
    };
    let board = board(&[]);
    let start = Instant::now();
    let all = (0..COUNT).map(|index| of_target(index, 4)).collect();
    board.update(Update::Replace(AutoscalerApi::Core, all), at(0));
    let sentence = board.get(&id("web-3")).unwrap().row.sentence;
    assert!(sentence.contains(" and 494 more have the same target"), "{sentence}");
    for index in 0..COUNT {
        board.update(Update::Apply(Box::new(of_target(index, 5))), at(1));
    }
    // It takes minutes if each change computes the rows of the others.
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn unstored_statuses_of_listed_autoscalers_are_counted() {
    let board = board(&["a", "b"]);
    let activity = |names: &[(&str, &str)]| {
        let unstored = names.iter().map(|(namespace, name)| {
            let error = format!("cannot patch {name}");
            (HpaKey::new(*namespace, *name), UnstoredStatus { error, last_decision: None })
        });
        ControllerActivity { unstored: unstored.collect(), ..ControllerActivity::default() }
    };
    board.set_activity(activity(&[("bank", "a"), ("shop", "b")]), at(1));
    let problem = "Statuses may be old: the controller can't store the status of 1 autoscaler: \
                   cannot patch b.";
    assert_eq!(board.problems(), [problem]);
    board.set_activity(activity(&[("bank", "a")]), at(2));
    assert_eq!(board.problems(), Vec::<String>::new(), "it is of another namespace");
}

#[test]
fn wrong_clock_is_a_problem_and_applies_to_autoscalers_of_its_controller() {
    let board = board(&["a"]);
    let set_lead = |seconds: i64| {
        let wrong_clock = Some(WrongClock {
            lead: SignedDuration::from_secs(seconds),
            clause: format!("its clock is {seconds}s ahead"),
            sentence: format!("Its clock is {seconds}s ahead."),
            manager: Some("hpa-controller:a/hpa".to_owned()),
        });
        let activity = ControllerActivity { wrong_clock, ..ControllerActivity::default() };
        board.set_activity(activity, at(1));
    };
    set_lead(40);
    set_lead(41);
    assert_eq!(board.problems(), ["Its clock is 40s ahead."], "the difference is inexact");
    let lead = |manager: &str| {
        let name = Some(manager.to_owned());
        let controller = StatusController { name, ..StatusController::default() };
        board.wrong_clock(&id("a"), &controller, true).map(|clock| clock.lead.as_secs())
    };
    assert_eq!((lead("hpa-controller:a/hpa"), lead("hpa-controller:b/hpa")), (Some(40), None));
    set_lead(50);
    assert_eq!(board.problems(), ["Its clock is 50s ahead."]);
}

/// Sets the activity of the controller for one autoscaler.
fn set_activity_of(board: &Board, name: &str, activity: AutoscalerActivity, second: i64) {
    let autoscalers = [(id(name), activity)].into();
    let activity = ControllerActivity { autoscalers, ..ControllerActivity::default() };
    board.set_activity(activity, at(second));
}

#[test]
fn overwritten_scalings_are_in_the_sentence_of_the_row() {
    let board = board(&["a"]);
    let overwritten_scalings = Some(OverwrittenScalings { count: 3, seen_at: None });
    let activity = AutoscalerActivity { overwritten_scalings, ..AutoscalerActivity::default() };
    set_activity_of(&board, "a", activity, 1);
    let text = "another client has changed the replicas after at least 3 scalings";
    let sentence = board.get(&id("a")).unwrap().row.sentence;
    assert!(sentence.contains(text), "{sentence}");
}

#[test]
fn row_at_maximum_notes_an_unread_scale_and_yields_to_unschedulable_pods() {
    let board = board(&[]);
    let limited = condition("ScalingLimited", "True", "TooManyReplicas");
    let held = observed("web", status(9, 9, &[limited]));
    board.update(Update::Apply(Box::new(held)), at(1));
    let row = || board.get(&id("web")).unwrap().row;
    let check_row = |state, end: &str| {
        let row = row();
        assert!(row.state == Reported(state) && row.sentence.ends_with(end), "{row:?}");
    };
    check_row(State::AtMaximum, &format!("; maxReplicas is 9{UNREAD_SCALE}"));
    board.set_scales(vec![(id("web"), None)], at(2));
    check_row(State::AtMaximum, "; maxReplicas is 9");
    let unschedulable_pods = Some(UnschedulablePods { count: 3, total: 9 });
    let activity = AutoscalerActivity { unschedulable_pods, ..AutoscalerActivity::default() };
    set_activity_of(&board, "web", activity, 3);
    check_row(State::WaitingForPods, "; 3 of 9 pods can't be scheduled");
    board.set_activity(ControllerActivity::default(), at(4));
    check_row(State::AtMaximum, "; maxReplicas is 9");
    let decision = "maxReplicas is 9, metrics ask for 12; 2 of 9 pods are not ready";
    let last_decision = Some(decision.to_owned());
    let activity = AutoscalerActivity { last_decision, ..AutoscalerActivity::default() };
    set_activity_of(&board, "web", activity, 5);
    check_row(State::AtMaximum, decision);
}

/// Each change is sent to all pages, and the sentence of a row that scales is that of its status.
#[test]
fn last_decision_that_no_row_shows_is_no_new_version() {
    let board = board(&[]);
    board.update(Update::Apply(Box::new(observed("a", status(4, 6, &[])))), at(1));
    let version = *board.subscribe().borrow();
    let last_decision = Some("cpu is at 61%".to_owned());
    let activity = AutoscalerActivity { last_decision, ..AutoscalerActivity::default() };
    set_activity_of(&board, "a", activity, 2);
    assert_eq!(*board.subscribe().borrow(), version);
}

#[test]
fn missing_pods_are_counted_and_old_scales_are_read_again() {
    let board = board(&[]);
    let unmet = status(3, 3, &[]);
    for name in ["a", "b", "c"] {
        board.update(Update::Apply(Box::new(observed(name, unmet.clone()))), at(1));
    }
    let due = |since| {
        let due = board.without_recent_scale(2, at(since)).into_iter();
        due.map(|(id, _)| id.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(due(0).len(), 2, "at most this many");
    let scale = Scale { spec_replicas: 3, status_replicas: 2, selector: "app=web".into() };
    let pods = |failure: Option<&str>| {
        let replica_failure = failure.map(str::to_owned);
        Some(TargetPods { scale: scale.clone(), replica_failure })
    };
    let refused = pods(Some("exceeded quota"));
    board.set_scales(vec![(id("a"), pods(None)), (id("b"), refused)], at(10));
    assert_eq!(due(5), ["c"]);
    board.set_scales(vec![(id("c"), None)], at(12));
    assert_eq!(due(5), Vec::<String>::new());
    assert_eq!(due(11).len(), 2);
    let sentence = |name| board.get(&id(name)).unwrap().row.sentence;
    assert!(sentence("a").ends_with("; 2 of 3 pods exist"), "{}", sentence("a"));
    let refused = sentence("b");
    assert!(refused.ends_with("; 2 of 3 pods exist: exceeded quota"), "{refused}");
    // No page was open for a while.
    let viewer = board.add_viewer(at(9), at(20));
    drop(board.add_viewer(at(10), at(20)));
    assert!(sentence("a").ends_with("; 2 of 3 pods exist"), "another page is open");
    drop(viewer);
    drop(board.add_viewer(at(10), at(20)));
    assert!(!sentence("a").contains("2 of 3 pods"), "{}", sentence("a"));
    let waits = sentence("c");
    let end = "; stays at 3, maybe because pods of its selector are not ready or not measured";
    assert!(waits.ends_with(end), "{waits}");
}
