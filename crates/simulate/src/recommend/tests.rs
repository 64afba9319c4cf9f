use std::sync::atomic::{AtomicUsize, Ordering};

use hpa_calc::history::Direction;
use serde_json::Value;

use super::{
    Candidate, Change, Choice, Evaluator, Goal, Recommendation, Score, SearchOptions, Setting,
    Tuning, effects, evaluate::dominates, recommend,
};
use crate::{
    file::{ScenarioFile, Variant},
    report::percent,
};

/// A target that is far too low: nearly every higher target is cheaper.
const WASTEFUL: &str = "
seed: 1
duration: 15m
autoscaler:
  metadata: {name: web}
  spec:
    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
    minReplicas: 2
    maxReplicas: 20
    metrics:
    - type: Resource
      resource: {name: cpu, target: {type: Utilization, averageUtilization: 30}}
workload:
  replicas: 8
  profile: {cpuRequest: 100m, cpuPerUnit: 1m, capacity: 100, readiness: 5s}
  load: {constant: 210}
";

fn scenario(text: &str) -> Variant {
    ScenarioFile::parse_alone(text).unwrap().variants.remove(0)
}

fn wasteful() -> Variant {
    scenario(WASTEFUL)
}

fn options() -> SearchOptions {
    SearchOptions { candidates: 40, seeds: 2, load_factors: vec![1.0], max_risk: 0.001 }
}

fn search(accepts: impl Fn(&Value) -> bool + Sync) -> Recommendation {
    recommend(&wasteful(), &options(), &accepts, &|| {})
}

#[test]
fn suggestion_costs_less_at_no_more_risk_with_an_effect_per_setting() {
    let found = search(|_| true);
    let suggested = found.suggested.expect("a suggestion");
    assert!(suggested.score.pod_hours < 0.95 * found.default_behavior.pod_hours);
    assert!(suggested.score.risk <= found.default_behavior.risk + 1e-4);
    let target = &suggested.patch["spec"]["metrics"][0]["resource"]["target"];
    assert!(target["averageUtilization"].as_i64().unwrap() > 30, "{target}");
    assert_eq!(found.effects.len(), suggested.settings.len());
    let target = found.effects.iter().find(|effect| effect.setting.starts_with("target"));
    let without = target.expect("the effect of the target").without;
    assert!(without.pod_hours > suggested.score.pod_hours);
}

/// Three pods are enough: a target of 70 %.
#[test]
fn suggested_target_can_be_a_multiple_of_the_current_one() {
    let base = scenario(&WASTEFUL.replace("averageUtilization: 30", "averageUtilization: 15"));
    let options = SearchOptions { candidates: 100, ..options() };
    let found = recommend(&base, &options, &|_| true, &|| {});
    let suggested = found.suggested.expect("a suggestion");
    assert!(suggested.score.pod_hours < 1.5, "{suggested:?}");
    assert!(
        found.assumptions.contains(&"targets are from 10 % to 95 %".to_owned()),
        "{:?}",
        found.assumptions
    );
}

#[test]
fn settings_of_the_front_trade_cost_for_risk() {
    let front = search(|_| true).front;
    assert!(!front.is_empty());
    for pair in front.windows(2) {
        let (cheap, safe) = (pair[0].score, pair[1].score);
        assert!(cheap.pod_hours <= safe.pod_hours && cheap.risk >= safe.risk, "{cheap:?} {safe:?}");
    }
}

#[test]
fn rejected_settings_are_not_suggested() {
    let keeps_target = |manifest: &Value| {
        manifest["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 30
    };
    let found = search(keeps_target);
    let patches = found.front.iter().chain(&found.suggested).map(|choice| &choice.patch);
    for patch in patches {
        assert!(patch.pointer("/spec/metrics").is_none(), "{patch}");
    }
}

#[test]
fn assumptions_have_the_load_factors_and_the_capacity_and_the_caution_of_the_scenario() {
    let base = scenario(&format!("{WASTEFUL}loadUnit: rps\ncaution: 'Trust: none.'\n"));
    let options = SearchOptions { candidates: 2, load_factors: vec![1.0, 1.15], ..options() };
    let assumptions = recommend(&base, &options, &|_| true, &|| {}).assumptions;
    for expected in [
        "runs: 2 seeds from 1 on, each with 100 %, 115 % of the scenario's load",
        "the capacity of a pod is 100 rps",
        "Trust: none.",
    ] {
        assert!(assumptions.iter().any(|one| one == expected), "{assumptions:?}");
    }
}

#[test]
fn rules_that_the_suggestion_removes_have_an_effect() {
    let behavior = "maxReplicas: 20\n    behavior: {scaleDown: {stabilizationWindowSeconds: 60}}";
    let base = scenario(&WASTEFUL.replace("maxReplicas: 20", behavior));
    let options = options();
    let on_run = || {};
    let evaluator = Evaluator::new(&base, &options, &on_run);
    let changes = [(Setting::UpTolerance, Change::tolerance(Direction::Up, 2))].into();
    let tuning = Tuning { replaces_behavior: true, changes };
    let trial = evaluator.run_all(Candidate::new(&base, tuning).unwrap());
    let effects = effects(&base, &trial, &evaluator);
    let settings: Vec<&str> = effects.iter().map(|effect| effect.setting.as_str()).collect();
    assert_eq!(settings, ["tolerance 2 % up", "default scale-down window 300s"]);
}

#[test]
fn number_of_runs_is_slightly_above_the_estimate() {
    let runs = AtomicUsize::new(0);
    let count = || {
        runs.fetch_add(1, Ordering::Relaxed);
    };
    recommend(&wasteful(), &options(), &|_| true, &count);
    let (runs, estimate) = (runs.load(Ordering::Relaxed), options().estimated_runs());
    // The estimate leaves out the runs without one of the suggestion's changes: at most 40, for ten
    // changes that are dropped twice, with two seeds each.
    assert!((estimate..=estimate + 40).contains(&runs), "{runs} of {estimate}");
}

#[test]
fn equal_settings_are_run_once() {
    let (base, runs) = (wasteful(), AtomicUsize::new(0));
    let count = || {
        runs.fetch_add(1, Ordering::Relaxed);
    };
    let options = options();
    let evaluator = Evaluator::new(&base, &options, &count);
    let scores = [(); 2].map(|()| evaluator.run_all(Candidate::current(&base)).score);
    assert_eq!(scores[0], scores[1]);
    assert_eq!(runs.load(Ordering::Relaxed), 2, "one run per seed");
}

#[test]
fn cheaper_settings_win_if_both_risks_round_to_the_maximum() {
    let score = |risk, pod_hours| Score { pod_hours, risk, ..Score::default() };
    let goal = Goal { current: Score::default(), default: score(0.01, 9.0), max_risk: 0.001 };
    let (below, above) = (score(0.000_97, 9.0), score(0.001_03, 5.0));
    assert!(goal.compare(&above, &below).is_lt());
    assert!(goal.compare(&below, &above).is_gt());
}

#[test]
fn risk_above_the_maximum_must_fall_by_a_twentieth() {
    let score = |risk, pod_hours| Score { pod_hours, risk, ..Score::default() };
    let current = score(0.3, 5.0);
    let goal = Goal { current, default: current, max_risk: 0.001 };
    let refusal = goal.check_improvement(&score(0.299, 5.0)).expect_err("too little");
    assert!(refusal.starts_with("no settings lower the risk by"), "{refusal}");
    assert_eq!(goal.check_improvement(&score(0.28, 5.0)), Ok(()));
    assert_eq!(goal.check_improvement(&score(0.299, 4.0)), Ok(()), "it is cheaper");
}

/// The load triples in five minutes at a target of 90 %, so the default behavior is overloaded. A
/// lower target costs more and provides a reserve.
const OVERLOADED: &str = "
seed: 1
duration: 20m
autoscaler:
  metadata: {name: web}
  spec:
    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
    minReplicas: 2
    maxReplicas: 40
    metrics:
    - type: Resource
      resource: {name: cpu, target: {type: Utilization, averageUtilization: 90}}
workload:
  replicas: 4
  profile: {cpuRequest: 100m, cpuPerUnit: 1m, capacity: 100, readiness: 40s}
  load: {ramp: {from: 320, to: 960, start: 5m, over: 5m}}
";

#[test]
fn overloaded_scenario_gets_a_suggestion_with_more_pods() {
    let base = scenario(OVERLOADED);
    let found = recommend(&base, &options(), &|_| true, &|| {});
    let (default, suggested) = (found.default_behavior, found.suggested.expect("a suggestion"));
    assert!(default.risk > 0.01, "{default:?}");
    assert!(suggested.score.risk <= 0.001 + 1e-4, "{} {:?}", found.reason, suggested.score);
    assert!(suggested.score.pod_hours > default.pod_hours, "reserve costs pods");
    let cheaper = found.front.iter().filter(|one| one.score.pod_hours < suggested.score.pod_hours);
    assert!(cheaper.into_iter().all(|one| one.score.risk > 0.001), "{:?}", found.front);
    let is_dominated = |choice: &Choice| dominates(&suggested.score, &choice.score);
    assert!(!found.front.iter().any(is_dominated), "{:?}", found.front);
}

/// A load that needs 20 pods. It is far above the target at once, so only `maxReplicas` matters.
const PINNED: &str = "
seed: 1
duration: 15m
autoscaler:
  metadata: {name: web}
  spec:
    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
    minReplicas: 2
    maxReplicas: 4
workload:
  replicas: 4
  profile: {cpuRequest: 20m, cpuPerUnit: 1m, capacity: 100, readiness: 5s}
  load: {constant: 2000}
";

#[test]
fn suggestion_at_the_highest_max_replicas_says_so_and_changes_nothing_else() {
    let base = scenario(PINNED);
    let options = SearchOptions { candidates: 100, ..options() };
    let found = recommend(&base, &options, &|_| true, &|| {});
    let suggested = found.suggested.expect("a suggestion");
    let expected = format!(
        "the least risk: none of the settings that were tried reach 0.1 %, these {}; maxReplicas \
         above 8 was not tried",
        percent(suggested.score.risk)
    );
    assert_eq!(found.reason, expected);
    assert_eq!(suggested.patch["spec"]["maxReplicas"], 8);
    let changed: Vec<&str> = found.effects.iter().map(|effect| effect.setting.as_str()).collect();
    assert_eq!(changed, ["maxReplicas 8"]);
}
