use std::collections::BTreeSet;

use rstest::rstest;
use serde_json::{Map, Value, json};

use super::*;
use crate::api::HorizontalPodAutoscaler;

#[rstest]
#[case::even(1.0, true)]
#[case::upper_edge(1.1, true)]
#[case::above(1.1_f64.next_up(), false)]
#[case::lower_edge(0.8, true)]
#[case::below(0.8_f64.next_down(), false)]
#[case::not_a_number(f64::NAN, false)]
#[case::infinite(f64::INFINITY, false)]
fn ratio_is_within_tolerance_at_both_edges(#[case] ratio: f64, #[case] expected: bool) {
    assert_eq!(Tolerances { up: 0.1, down: 0.2 }.contain(ratio), expected);
}

#[rstest]
#[case::none(json!({}), 0.1, 0.1)]
#[case::behavior_without(json!({ "behavior": { "scaleUp": {}, "scaleDown": {} } }), 0.1, 0.1)]
#[case::up(json!({ "behavior": { "scaleUp": { "tolerance": "50m" } } }), 0.05, 0.1)]
#[case::down(json!({ "behavior": { "scaleDown": { "tolerance": "0" } } }), 0.1, 0.0)]
fn behavior_overrides_tolerance(#[case] spec: Value, #[case] up: f64, #[case] down: f64) {
    let spec = serde_json::from_value(spec).unwrap();
    assert_eq!(Tolerances::for_spec(&spec, &Settings::default()), Tolerances { up, down });
}

/// The settings with this schedule, for an autoscaler from 2 to 10 replicas with an External
/// metric.
fn scheduled(entries: Value) -> (HorizontalPodAutoscalerSpec, Settings) {
    let external = json!({ "type": "External", "external": { "metric": { "name": "m" } } });
    let spec = json!({ "minReplicas": 2, "maxReplicas": 10, "metrics": [external] });
    let bounds: Vec<ScheduledBounds> = serde_json::from_value(entries).unwrap();
    let settings = Settings { bounds: Some(bounds.into()), ..Settings::default() };
    (serde_json::from_value(spec).unwrap(), settings)
}

fn bounds_at(entries: Value, time: &str) -> (i32, i32) {
    let (spec, settings) = scheduled(entries);
    let bounds = settings.bounds_at(&spec, time.parse().unwrap());
    (bounds.min_replicas, bounds.max_replicas)
}

/// The changes after a time, each with its time and the bounds from then on.
fn changes(entries: Value, time: &str, count: usize) -> Vec<String> {
    let (spec, settings) = scheduled(entries);
    let mut now: Timestamp = time.parse().unwrap();
    let change = || {
        let change = settings.next_bounds_change(&spec, now)?;
        assert_eq!(settings.bounds_at(&spec, change.at), change.bounds);
        let tick = SignedDuration::from_nanos(1);
        assert_ne!(settings.bounds_at(&spec, change.at - tick), change.bounds);
        now = change.at;
        Some(format!("{}: {}", change.at, change.bounds))
    };
    std::iter::from_fn(change).take(count).collect()
}

fn entry(start: &str, end: &str, zone: &str) -> Value {
    json!({ "start": start, "end": end, "timeZone": zone, "minReplicas": 5 })
}

#[rstest]
#[case::before("08:00", "20:00", "2026-01-05T07:59:59.999999999Z", 2)]
#[case::start("08:00", "20:00", "2026-01-05T08:00:00Z", 5)]
#[case::just_before_the_end("08:00", "20:00", "2026-01-05T19:59:59Z", 5)]
#[case::end("08:00", "20:00", "2026-01-05T20:00:00Z", 2)]
#[case::evening_of_the_night("22:00", "06:00", "2026-01-05T22:00:00Z", 5)]
#[case::morning_of_the_night("22:00", "06:00", "2026-01-06T05:59:00Z", 5)]
#[case::after_the_night("22:00", "06:00", "2026-01-06T06:00:00Z", 2)]
#[case::whole_day("00:00", "00:00", "2026-01-05T23:59:59Z", 5)]
#[case::next_whole_day("00:00", "00:00", "2026-01-06T00:00:00Z", 5)]
fn entry_holds_from_its_start_to_its_end(
    #[case] start: &str,
    #[case] end: &str,
    #[case] time: &str,
    #[case] min: i32,
) {
    assert_eq!(bounds_at(json!([entry(start, end, "UTC")]), time), (min, 10));
}

#[rstest]
#[case::friday_night("2026-01-09T23:00:00Z", 5)]
#[case::friday_night_after_midnight("2026-01-10T05:00:00Z", 5)]
#[case::saturday_night("2026-01-10T23:00:00Z", 2)]
#[case::thursday_night("2026-01-09T05:00:00Z", 2)]
fn days_of_an_entry_are_those_on_which_it_starts(#[case] time: &str, #[case] min: i32) {
    let mut entry = entry("22:00", "06:00", "UTC");
    entry["days"] = json!(["Fri"]);
    assert_eq!(bounds_at(json!([entry]), time), (min, 10));
}

#[rstest]
#[case::highest_of_each(json!([[4, 8], [3, 20], [null, 9]]), (4, 20))]
#[case::only_minimum(json!([[4, null]]), (4, 10))]
#[case::only_maximum(json!([[null, 4]]), (2, 4))]
#[case::lower_minimum(json!([[1, null]]), (1, 10))]
#[case::maximum_is_raised(json!([[30, null]]), (30, 30))]
#[case::maximum_of_another_entry_is_raised(json!([[12, null], [null, 4]]), (12, 12))]
#[case::zero(json!([[0, null]]), (0, 10))]
fn highest_bounds_of_active_entries_win(#[case] entries: Value, #[case] expected: (i32, i32)) {
    let entries = entries.as_array().unwrap().iter().map(|bounds| {
        let (min, max) = (&bounds[0], &bounds[1]);
        json!({ "start": "00:00", "end": "00:00", "minReplicas": min, "maxReplicas": max })
    });
    assert_eq!(bounds_at(entries.collect(), "2026-01-05T12:00:00Z"), expected);
}

#[test]
fn scheduled_zero_needs_an_object_or_external_metric() {
    let entry = json!({ "start": "00:00", "end": "00:00", "minReplicas": 0 });
    let (mut spec, settings) = scheduled(json!([entry]));
    let now = Timestamp::UNIX_EPOCH;
    let off = settings.clone().with(|settings| settings.scale_to_zero = false);
    assert_eq!(off.bounds_at(&spec, now).min_replicas, 1);
    spec.metrics.clear();
    assert_eq!(settings.bounds_at(&spec, now).min_replicas, 1);
}

// In 2026, the clocks of Berlin skip 02:00 to 03:00 on March 29 and show it twice on October 25.
#[rstest]
#[case::before_the_gap("01:30", "04:00", "03-28", ["03-29T00:30", "03-29T02:00"])]
#[case::start_in_the_gap("02:30", "04:00", "03-28", ["03-29T01:30", "03-29T02:00"])]
#[case::end_in_the_gap("01:00", "02:30", "03-28", ["03-29T00:00", "03-29T01:30"])]
#[case::gap_leaves_nothing("02:00", "03:00", "03-28", ["03-30T00:00", "03-30T01:00"])]
#[case::start_in_the_fold("02:30", "04:00", "10-24", ["10-25T00:30", "10-25T03:00"])]
#[case::end_in_the_fold("01:00", "02:30", "10-24", ["10-24T23:00", "10-25T00:30"])]
#[case::around_the_fold("01:00", "04:00", "10-24", ["10-24T23:00", "10-25T03:00"])]
fn entry_follows_the_clocks(
    #[case] start: &str,
    #[case] end: &str,
    #[case] day_before: &str,
    #[case] times: [&str; 2],
) {
    let [starts_at, ends_at] = times;
    let noon = format!("2026-{day_before}T12:00:00Z");
    let found = changes(json!([entry(start, end, "Europe/Berlin")]), &noon, 2);
    let expected = [
        format!("2026-{starts_at}:00Z: 5 to 10 replicas"),
        format!("2026-{ends_at}:00Z: 2 to 10 replicas"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn overlapping_occurrences_of_an_entry_hold_until_the_last_one_ends() {
    // On March 29, the clocks show 03:30 instead of 02:30, so the entry starts again before it
    // ends.
    assert_eq!(
        changes(json!([entry("03:00", "02:30", "Europe/Berlin")]), "2026-03-28T12:00:00Z", 2),
        ["2026-03-30T00:30:00Z: 2 to 10 replicas", "2026-03-30T01:00:00Z: 5 to 10 replicas"]
    );
}

#[test]
fn next_change_is_the_next_time_with_other_bounds() {
    let whole_day = json!({ "start": "00:00", "end": "00:00", "minReplicas": 5 });
    assert_eq!(changes(json!([whole_day]), "2026-01-05T12:00:00Z", 1), [""; 0]);
    let weaker = json!({ "start": "08:00", "end": "20:00", "minReplicas": 4 });
    assert_eq!(changes(json!([whole_day, weaker]), "2026-01-05T12:00:00Z", 1), [""; 0]);
    let weekly = json!({ "days": ["Sun"], "start": "02:00", "end": "03:00", "maxReplicas": 20,
        "timeZone": "Europe/Berlin" });
    // On the 29th, the clocks skip it.
    assert_eq!(
        changes(json!([weekly]), "2026-03-22T02:00:00Z", 2),
        ["2026-04-05T00:00:00Z: 2 to 20 replicas", "2026-04-05T01:00:00Z: 2 to 10 replicas"]
    );
    let back_to_back = [("08:00", "12:00", 5), ("12:00", "14:00", 5), ("14:00", "16:00", 6)]
        .map(|(start, end, min)| json!({ "start": start, "end": end, "minReplicas": min }));
    assert_eq!(
        changes(json!(back_to_back), "2026-01-05T08:00:00Z", 2),
        ["2026-01-05T14:00:00Z: 6 to 10 replicas", "2026-01-05T16:00:00Z: 2 to 10 replicas"]
    );
}

#[rstest]
#[case("Europe/Atlantis")]
#[case("+02:00")]
#[case("../../etc/passwd")]
#[case("")]
fn unknown_time_zone_is_an_error(#[case] zone: &str) {
    let error = serde_json::from_value::<ScheduledBounds>(entry("08:00", "20:00", zone));
    assert!(error.unwrap_err().to_string().contains("unknown time zone"));
}

#[test]
fn time_zone_is_written_by_its_name() {
    let entry = entry("08:00", "20:00", "Europe/Berlin");
    let read: ScheduledBounds = serde_json::from_value(entry.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), entry);
}

fn hpa(annotations: Value, spec: Value) -> HorizontalPodAutoscaler {
    let mut full = json!({
        "metrics": [
            { "type": "Resource", "resource": { "name": "cpu" } },
            { "type": "External", "external": { "metric": { "name": "queue" } } },
            { "type": "External", "external": { "metric": { "name": "queue" } } },
        ],
    });
    let members = spec.as_object().unwrap().clone();
    full.as_object_mut().unwrap().extend(members);
    let annotations: Map<String, Value> = annotations
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (format!("{DOMAIN}/{name}"), value.clone()))
        .collect();
    serde_json::from_value(json!({ "metadata": { "annotations": annotations }, "spec": full }))
        .unwrap()
}

fn resolve(annotations: Value, spec: Value) -> ResolvedSettings {
    Settings::default().for_autoscaler(&hpa(annotations, spec), &SettingPolicy::default())
}

fn problems(resolved: &ResolvedSettings) -> Vec<String> {
    resolved.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn autoscaler_without_settings_has_those_of_the_flags() {
    let flags = Settings::default().with(|settings| settings.tolerance = 0.05);
    let resolved = flags.for_autoscaler(&hpa(json!({}), json!({})), &SettingPolicy::default());
    assert_eq!(resolved.settings, flags);
    assert_eq!(problems(&resolved), [""; 0]);
}

#[test]
fn example_of_every_setting_is_valid_and_equal_as_annotation_and_field() {
    for setting in SETTINGS {
        let text = setting.example();
        let annotated = resolve(json!({ setting.name: text }), json!({}));
        assert_eq!(problems(&annotated), [""; 0], "{}", setting.name);
        let has_own_condition = ["pause", "dry-run"].contains(&setting.name);
        assert_eq!(annotated.settings.summary.is_none(), has_own_condition, "{}", setting.name);
        let field = setting.annotation_to_field(text).unwrap();
        let same = setting.field_to_annotation(&field).unwrap();
        let again = resolve(json!({ setting.name: same }), json!({}));
        assert_eq!(again.settings, annotated.settings, "{}", setting.name);
        if setting.metric_types().is_none() {
            let by_field = resolve(json!({}), json!({ setting.field: field }));
            assert_eq!(by_field.settings, annotated.settings, "{}", setting.name);
        }
    }
}

#[test]
fn names_are_unique_and_defaults_are_stated() {
    let names: BTreeSet<_> = SETTINGS.iter().map(|setting| setting.name).collect();
    assert_eq!(names.len(), SETTINGS.len());
    assert!(SETTINGS.iter().all(|setting| !setting.default.is_empty()));
}

#[rstest]
#[case::choice("pods", "mine", "must be \"selected\" or \"owned\"")]
#[case::switch("dry-run", "yes", "must be \"true\" or \"false\"")]
#[case::without_unit("zero-after", "30", "must be a duration from 0s to 24h, such as \"30s\"")]
#[case::too_long(
    "sync-period",
    "2h",
    "must be a duration from 3s to 1h, such as \"30s\" (at least 5s by --min-sync-period)"
)]
#[case::quantity("tolerance", "1.1", "must be a quantity from 0 to 1, such as 0.5 or 500m")]
#[case::percent("tolerance", "50%", "must be a quantity from 0 to 1, such as 0.5 or 500m")]
#[case::negative("tolerance", "-1", "must be a quantity from 0 to 1")]
#[case::no_json("bounds", "always 3", "must be a JSON list such as ")]
#[case::empty("bounds", "[]", "must have 1 to 50 entries")]
#[case::no_bound(
    "bounds",
    r#"[{"start":"08:00","end":"09:00"}]"#,
    "[0]: minReplicas or maxReplicas must be set"
)]
#[case::day(
    "bounds",
    r#"[{"days":["Monday"],"start":"08:00","end":"09:00","minReplicas":1}]"#,
    "is invalid: [0].days: unknown variant `Monday`"
)]
#[case::time("bounds", r#"[{"start":"8:00","end":"09:00","minReplicas":1}]"#, "a time must be ")]
#[case::end_of_the_day(
    "bounds",
    r#"[{"start":"08:00","end":"24:00","minReplicas":1}]"#,
    "the end of the day is 00:00"
)]
#[case::unknown_member("fallback", r#"{"replicas":1,"after":3}"#, "unknown field `after`")]
#[case::too_early(
    "fallback",
    r#"{"replicas":1,"failureDurationSeconds":29}"#,
    "failureDurationSeconds must be from 30 to 86400"
)]
fn invalid_value_is_ignored_and_the_allowed_values_are_reported(
    #[case] name: &str,
    #[case] value: &str,
    #[case] expected: &str,
) {
    let resolved = resolve(json!({ name: value }), json!({}));
    let reported = resolved.settings.summary.as_deref().map(|summary| summary.problems.clone());
    assert_eq!(reported, Some(problems(&resolved).join("; ")));
    assert_eq!(Settings { summary: None, ..resolved.settings.clone() }, Settings::default());
    let [problem] = resolved.problems.as_slice() else { panic!("{:?}", resolved.problems) };
    assert_eq!(problem.kind, ProblemKind::InvalidValue);
    assert_eq!(problem.place, SettingPlace::Annotation(format!("{DOMAIN}/{name}")));
    assert!(problem.message.contains(expected), "{problem}");
}

#[test]
fn field_has_precedence_over_annotation() {
    let resolved = resolve(json!({ "sync-period": "1m" }), json!({ "syncPeriodSeconds": 30 }));
    assert_eq!(resolved.settings.sync_period, Some(SignedDuration::from_secs(30)));
    assert_eq!(
        problems(&resolved),
        ["annotation autoscaling.hpa-rs.dev/sync-period is ignored: spec.syncPeriodSeconds has \
          precedence"]
    );
    assert_eq!(resolved.problems[0].kind, ProblemKind::Overridden);
}

#[rstest]
#[case::window(
    json!({ "scaleDown": { "stabilizationWindowSeconds": 120 } }),
    &["downscale-stabilization has no effect: \
       spec.behavior.scaleDown.stabilizationWindowSeconds has precedence"]
)]
#[case::tolerances(
    json!({ "scaleUp": { "tolerance": "0.2" }, "scaleDown": { "tolerance": "0" } }),
    &["tolerance has no effect: the tolerances in spec.behavior have precedence"]
)]
#[case::other_direction(
    json!({ "scaleUp": { "stabilizationWindowSeconds": 120, "tolerance": "0.2" } }), &[]
)]
fn behavior_has_precedence_over_settings(#[case] behavior: Value, #[case] expected: &[&str]) {
    let annotations = json!({ "downscale-stabilization": "30s", "tolerance": "0.3" });
    let resolved = resolve(annotations, json!({ "behavior": behavior }));
    let expected: Vec<_> =
        expected.iter().map(|one| format!("annotation {DOMAIN}/{one}")).collect();
    assert_eq!(problems(&resolved), expected);
    let summary = resolved.settings.summary.as_deref().expect("an applied setting");
    assert_eq!(summary.problems, "");
    let applied = summary.applied.split(", ").count();
    assert_eq!(applied, 2 - expected.len(), "{}", summary.applied);
}

#[test]
fn annotation_can_name_metrics() {
    let fallback = json!({ "queue": { "replicas": 3 } }).to_string();
    let utilization_of = json!({ "0": "limits" }).to_string();
    let activation = json!({ "2": "5" }).to_string();
    let resolved = resolve(
        json!({
            "fallback": fallback, "utilization-of": utilization_of, "activation": activation,
            "max-sample-age": "1m",
        }),
        json!({}),
    );
    assert_eq!(problems(&resolved), [""; 0]);
    let of = |index| resolved.settings.metric(index);
    let replicas = |index| of(index).fallback.map(|fallback| fallback.replicas);
    assert_eq!([0, 1, 2].map(replicas), [None, Some(3), Some(3)]);
    assert_eq!(of(0).utilization_of, UtilizationOf::Limits);
    assert_eq!([1, 2].map(|index| of(index).activation.is_some()), [false, true]);
    assert!([0, 1, 2].iter().all(|index| of(*index).max_sample_age.is_some()));
}

#[test]
fn metric_that_the_autoscaler_lacks_is_reported() {
    let resolved = resolve(
        json!({ "utilization-of": r#"{"memory": "limits"}"#, "aggregate": r#"{"queue": "max"}"# }),
        json!({}),
    );
    assert!(resolved.settings.metrics.is_none());
    assert_eq!(
        problems(&resolved),
        [
            "annotation autoscaling.hpa-rs.dev/aggregate names \"queue\": the autoscaler has no \
             such metric of type Resource, ContainerResource, Pods",
            "annotation autoscaling.hpa-rs.dev/utilization-of names \"memory\": the autoscaler has \
             no such metric of type Resource, ContainerResource",
        ]
    );
}

#[test]
fn fields_of_metrics_are_read() {
    let spec = json!({ "metrics": [
        { "type": "Resource", "resource": { "name": "cpu", "utilizationOf": "Limits" } },
        { "type": "External", "external": {
            "metric": { "name": "queue" }, "fallback": { "replicas": -1 },
        } },
    ] });
    let resolved = resolve(json!({}), spec);
    assert_eq!(resolved.settings.metric(0).utilization_of, UtilizationOf::Limits);
    assert_eq!(resolved.settings.metric(1), &MetricSettings::default());
    assert_eq!(
        problems(&resolved),
        ["spec.metrics[1].external.fallback is invalid: replicas must not be negative, ignored"]
    );
}

#[test]
fn text_of_applied_settings_has_a_limit() {
    let metric = |index| {
        json!({ "type": "External", "external": {
            "metric": { "name": format!("queue{index}") }, "fallback": { "replicas": 3 },
        } })
    };
    let metrics: Vec<_> = (0..200).map(metric).collect();
    let summary = resolve(json!({}), json!({ "metrics": metrics })).settings.summary.unwrap();
    // 1000 characters and `…`.
    assert!((900..=1001).contains(&summary.applied.chars().count()), "{}", summary.applied);
}

#[test]
fn operator_can_restrict_settings() {
    let policy = SettingPolicy {
        allowed: vec!["sync-period"],
        min_sync_period: SignedDuration::from_secs(10),
    };
    let hpa = hpa(json!({ "pods": "owned", "sync-period": "4s" }), json!({}));
    let resolved = Settings::default().for_autoscaler(&hpa, &policy);
    assert_eq!(resolved.settings.pods, PodSelection::Selected);
    assert_eq!(resolved.settings.sync_period, Some(policy.min_sync_period));
    assert_eq!(
        problems(&resolved),
        [
            "annotation autoscaling.hpa-rs.dev/sync-period is 4s, but --min-sync-period is 10s, \
             which is used instead",
            "annotation autoscaling.hpa-rs.dev/pods is not allowed by --allow-settings, ignored",
        ]
    );
}

#[rstest]
#[case::misspelled(&["paused"], "paused is not a setting (did you mean pause?), ignored")]
#[case::unlike_any(&["owner"], "owner is not a setting, ignored")]
#[case::two(&["a", "b"], "a is not a setting, nor is 1 other, ignored")]
#[case::three(&["a", "b", "c"], "a is not a setting, nor are 2 others, ignored")]
fn unknown_names_are_one_problem(#[case] names: &[&str], #[case] expected: &str) {
    let annotations: Map<_, _> = names.iter().map(|name| ((*name).to_owned(), json!(""))).collect();
    let resolved = resolve(annotations.into(), json!({}));
    let expected = format!("annotation autoscaling.hpa-rs.dev/{expected}");
    assert_eq!(problems(&resolved), [expected.as_str()]);
    assert_eq!(resolved.settings.summary.unwrap().problems, expected);
}

#[test]
fn annotation_filter_does_not_change_the_count_of_unknown_names() {
    let names = (0..1000).map(|index| (format!("{}{index:04}", "x".repeat(200)), json!("true")));
    let all = hpa(names.collect::<Map<_, _>>().into(), json!({}));
    let (mut cached, mut filter) = (all.clone(), AnnotationFilter::default());
    cached.metadata.annotations.retain(|name, _| filter.accept(name));
    let policy = SettingPolicy::default();
    let of = |hpa| problems(&Settings::default().for_autoscaler(hpa, &policy));
    let texts = of(&all);
    assert_eq!(texts, of(&cached));
    assert!(texts[0].ends_with(" is not a setting, nor are more than 16 others, ignored"));
    assert!(texts.len() == 1 && texts[0].len() < 250, "{texts:?}");
}

/// Otherwise, a user of the cluster could forge lines of the log.
#[test]
fn messages_about_values_are_short_and_have_no_control_characters() {
    let long = "x".repeat(MAX_ANNOTATION_LEN + 1);
    let resolved = resolve(json!({ "fallback": format!("{{\"{long}\": {{}}}}") }), json!({}));
    assert!(
        problems(&resolved)[0].ends_with("must have at most 8192 bytes, ignored"),
        "{resolved:?}"
    );
    let forged = json!({ "fallback": "{\"a\\nFATAL \\u001b[31m\": 1}" });
    let message = problems(&resolve(forged, json!({}))).remove(0);
    assert!(!message.contains(char::is_control) && message.len() < 500, "{message:?}");
    let truncated_len =
        |value| AnnotationFilter::truncate_value("autoscaling.hpa-rs.dev/pause", value).len();
    assert_eq!((truncated_len(&long), truncated_len("ü")), (MAX_ANNOTATION_LEN + 1, 2));
}
