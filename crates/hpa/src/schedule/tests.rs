use hpa_collectors::schedules::{Compat, Settings};
use rstest::rstest;

use super::{bounds::BoundsPreview, field_warnings::field_warnings, preview::Preview};
use crate::manifests;

const MANIFEST: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: List
items:
- apiVersion: zalando.org/v1
  kind: ScalingSchedule
  metadata: {name: evening, namespace: shop}
  spec:
    scalingWindowDurationMinutes: 60
    schedules:
    - type: Repeating
      value: 100
      period: {startTime: '22:00', endTime: '02:00', days: [Fri], timezone: UTC}
    - {type: OneTime, date: 2026-11-24T12:00:00Z, durationMinutes: 60, value: 25}
";

/// Previews the file `f.yaml` with this text.
fn preview_manifests(
    text: &str,
    settings: &Settings,
    from: &str,
    to: &str,
) -> anyhow::Result<(Vec<Preview>, Vec<BoundsPreview>)> {
    let manifests = manifests::parse("f.yaml", text)?;
    super::preview_manifests(&manifests, settings, from.parse()?, to.parse()?)
}

/// Previews schedules with the default settings.
fn preview_schedules(text: &str, from: &str, to: &str) -> anyhow::Result<Vec<Preview>> {
    Ok(preview_manifests(text, &Settings::default(), from, to)?.0)
}

fn preview_week(manifest: &str) -> anyhow::Result<Vec<Preview>> {
    preview_schedules(manifest, "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z")
}

fn single_preview(manifest: &str) -> Preview {
    preview_week(manifest).expect("a preview").pop().expect("one preview")
}

#[test]
fn week_is_drawn_with_a_window_across_midnight() {
    let text = single_preview(MANIFEST).text(false);
    let expected = "\
ScalingSchedule shop/evening, times in UTC

            0     3     6     9     12    15    18    21
Mon 23 Nov  ················································  0
Tue 24 Nov  ······················▁▂▂▂▂▁····················  25
Wed 25 Nov  ················································  0
Thu 26 Nov  ················································  0
Fri 27 Nov  ··········································▄█████  100
Sat 28 Nov  █████▄··········································  100
Sun 29 Nov  ················································  0

Tue 2026-11-24 12:00 +00:00 to Tue 2026-11-24 13:00 +00:00        25  spec.schedules[1]
Fri 2026-11-27 22:00 +00:00 to Sat 2026-11-28 02:00 +00:00       100  spec.schedules[0]
Mon 2026-11-23 00:00 +00:00: value 0, next 2 at Tue 2026-11-24 11:06 +00:00; ramps of 60 min
";
    assert_eq!(text, expected);
}

#[test]
fn color_does_not_change_the_text() {
    let preview = single_preview(MANIFEST);
    let colored = preview.text(true);
    let bar_after_zeros = "·\x1b[0m\x1b[36m▄█";
    assert!(colored.contains(bar_after_zeros), "{colored}");
    let mut plain = colored;
    for sequence in ["\x1b[36m", "\x1b[2m", "\x1b[0m"] {
        plain = plain.replace(sequence, "");
    }
    assert_eq!(plain, preview.text(false));
}

#[test]
fn negative_value_counts_as_zero() {
    let preview = single_preview(
        "
apiVersion: zalando.org/v1
kind: ScalingSchedule
metadata: {name: s}
spec:
  schedules:
  - type: Repeating
    durationMinutes: 60
    value: -70
    period: {startTime: '10:00', days: [Wed], timezone: UTC}
",
    );
    let text = preview.text(false);
    assert!(!text.contains("-70"), "{text}");
    assert!(text.contains("0  spec.schedules[0] (negative, so it counts as 0)\n"), "{text}");
    assert_eq!(preview.json()["windows"][0]["value"], 0);
}

#[test]
fn window_with_compat_ends_at_midnight() {
    let manifest = "
apiVersion: zalando.org/v1
kind: ClusterScalingSchedule
metadata: {name: late}
spec:
  scalingWindowDurationMinutes: 0
  schedules:
  - type: Repeating
    durationMinutes: 60
    value: 7
    period: {startTime: '23:30', days: [Mon], timezone: UTC}
";
    let settings = Settings { compat: Compat::Reference, ..Settings::default() };
    let (from, to) = ("2026-11-23T00:00:00Z", "2026-11-25T00:00:00Z");
    let previews = preview_manifests(manifest, &settings, from, to).expect("a preview").0;
    let json = previews[0].json();
    assert_eq!(json["windows"][0]["end"], "2026-11-24T00:00:00Z");
    let expected = serde_json::json!([
        { "at": "2026-11-23T23:30:00Z", "value": 7 },
        { "at": "2026-11-24T00:00:00Z", "value": 0 },
    ]);
    assert_eq!(json["changes"], expected);
}

#[test]
fn json_has_all_changes_and_windows() {
    let json = single_preview(MANIFEST).json();
    assert_eq!(json["windows"][1]["start"], "2026-11-27T22:00:00Z");
    assert_eq!(json["windows"][1]["end"], "2026-11-28T02:00:00Z");
    assert_eq!(json["changes"][0]["at"], "2026-11-24T11:06:00Z");
    assert_eq!(json["changes"][0]["value"], 2);
    // Two windows with ten steps up and ten down each.
    assert_eq!(json["changes"].as_array().map(Vec::len), Some(40));
}

#[test]
fn skipped_hour_is_blank() {
    let manifest = MANIFEST.replace("UTC", "Europe/Berlin");
    let previews = preview_schedules(&manifest, "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z");
    let text = previews.expect("a preview")[0].text(false);
    assert!(text.contains("Sun 29 Mar  ····  ····"), "{text}");
}

#[test]
fn schedule_with_an_invalid_entry_has_no_values() {
    let preview = single_preview(&MANIFEST.replace("22:00", "22.00"));
    assert!(!preview.is_valid());
    let text = preview.text(false);
    let problem = "spec.schedules[0].period.startTime: \"22.00\" is not a time HH:MM";
    assert!(text.ends_with(&format!("\nf.yaml:17: error: {problem}\n")), "{text}");
    assert_eq!(preview.json()["problems"][0], problem);
}

#[test]
fn unknown_time_zone_is_a_warning() {
    let preview = single_preview(&MANIFEST.replace("UTC", "Mars/Base"));
    assert!(preview.is_valid());
    let text = preview.text(false);
    let warning = "\nf.yaml:17: warning: spec.schedules[0].period.timezone: unknown time zone \
                   \"Mars/Base\", using Europe/Berlin\n";
    assert!(text.contains(warning), "{text}");
}

#[test]
fn error_names_the_object_and_the_field() {
    let describe = |manifest: &str| {
        let Err(error) = preview_week(manifest) else { panic!("no error: {manifest}") };
        format!("{error:#}")
    };
    let error = describe(&MANIFEST.replace("value: 100", "value: many"));
    let field = "spec.schedules[0].value: ";
    let start = format!("f.yaml:16: ScalingSchedule shop/evening: {field}");
    assert!(error.starts_with(&start), "{error}");
    let error = describe(&MANIFEST.replace("[Fri]", "[Friday]"));
    assert!(error.contains("spec.schedules[0].period.days[0]: unknown variant"), "{error}");
    let error = describe(&MANIFEST.replace("Minutes: 60\n", "Minutes: -1\n"));
    assert!(error.contains("spec.scalingWindowDurationMinutes: -1 is negative"), "{error}");
    assert!(describe("kind: Pod").contains("no ScalingSchedule"), "other kinds");
    assert_eq!(describe("a: ["), "f.yaml:1: unable to read YAML: unclosed bracket '['");
}

#[test]
fn unknown_and_repeated_fields_are_named_with_object_and_line() {
    let warnings = |manifest: &str| {
        let manifests = manifests::parse("f.yaml", manifest).expect("manifests");
        field_warnings(&manifests).expect("schemas")
    };
    assert_eq!(warnings(MANIFEST), [""; 0]);
    assert_eq!(warnings(BOUNDS), [""; 0]);
    let misspelled = MANIFEST
        .replace("durationMinutes: 60, value", "duraton: 60, value")
        .replace("value: 100\n", "value: 100\n      value: 50\n")
        .replace("days: [Fri]", "day: [Fri]");
    let schedule = "warning: ScalingSchedule shop/evening: spec.schedules";
    assert_eq!(
        warnings(&misspelled),
        [
            format!(
                "f.yaml:18: {schedule}[0].period.day: unknown field, which has no effect: did you \
                 mean days?"
            ),
            format!(
                "f.yaml:19: {schedule}[1].duraton: unknown field, which has no effect: check its \
                 spelling and indentation"
            ),
            format!("f.yaml:16: {schedule}[0].value: occurs twice: the value in line 17 is used"),
        ]
    );
    let expected = "f.yaml:14: warning: HorizontalPodAutoscaler shop/web: spec.maxReplica: unknown \
                    field, which has no effect: did you mean maxReplicas?";
    assert_eq!(warnings(&BOUNDS.replace("maxReplicas: 8", "maxReplica: 8")), [expected]);
}

#[test]
fn hour_with_one_digit_is_a_warning() {
    let manifest = MANIFEST.replace("22:00", "8:00");
    let manifests = manifests::parse("f.yaml", &manifest).expect("manifests");
    let expected = "f.yaml:17: warning: ScalingSchedule shop/evening: \
                    spec.schedules[0].period.startTime: the API server refuses \"8:00\": write \
                    \"08:00\"";
    assert_eq!(field_warnings(&manifests).expect("schemas"), [expected]);
    assert!(single_preview(&manifest).is_valid());
}

#[rstest]
#[case::later(
    "date: 2026-12-24T12:00:00Z, durationMinutes: 60",
    "is outside of the drawn time: Thu 2026-12-24 12:00 +00:00 to Thu 2026-12-24 13:00 +00:00 (see \
     --from)"
)]
#[case::end_before_start(
    "date: 2026-11-24T12:00:00Z, endDate: 2026-11-24T11:00:00Z",
    "has an empty window: its end is not after its start, Tue 2026-11-24 12:00 +00:00"
)]
fn entry_without_a_drawn_window_has_a_note(#[case] dates: &str, #[case] expected: &str) {
    let manifest = MANIFEST.replace("date: 2026-11-24T12:00:00Z, durationMinutes: 60", dates);
    let text = single_preview(&manifest).text(false);
    assert!(text.contains(&format!("\nnote: spec.schedules[1] {expected}\n")), "{text}");
}

/// The clocks skip 02:30, so the window starts when it ends: 03:30.
#[test]
fn window_that_the_clocks_skip_is_empty() {
    let manifest = MANIFEST
        .replace("'22:00', endTime: '02:00'", "'02:30', endTime: '03:30'")
        .replace("[Fri], timezone: UTC", "[Sun], timezone: Europe/Berlin");
    let text_of = |manifest: &str| {
        let previews = preview_schedules(manifest, "2027-03-26T00:00:00Z", "2027-04-02T00:00:00Z");
        previews.expect("a preview")[0].text(false)
    };
    let text = text_of(&manifest);
    let expected = "\nnote: spec.schedules[0] has an empty window: its end is not after its start, \
                    Sun 2027-03-28 03:30 +02:00, because the clocks go forward\n";
    assert!(text.contains(expected), "{text}");
    // A window that is empty for another cause, an hour and a half after the clocks went forward.
    let text = text_of(&manifest.replace(
        "date: 2026-11-24T12:00:00Z, durationMinutes: 60",
        "date: 2027-03-28T02:30:00Z, endDate: 2027-03-28T02:00:00Z",
    ));
    let other = "spec.schedules[1] has an empty window: its end is not after its start, Sun \
                 2027-03-28 04:30 +02:00\n";
    assert!(text.contains(other), "{text}");
}

#[test]
fn each_invalid_entry_of_each_schedule_is_named() {
    let two = MANIFEST.replace("[Fri]", "[Friday]").replace("value: 25", "value: x");
    let manifest = format!("{MANIFEST}---{two}---{}", two.replace("evening", "night"));
    let error = preview_week(&manifest).err().expect("an error").to_string();
    let lines: Vec<_> =
        error.lines().map(|line| line.split(": ").take(3).collect::<Vec<_>>()).collect();
    assert_eq!(
        lines,
        [
            vec!["4 errors:"],
            vec!["f.yaml:35", "ScalingSchedule shop/evening", "spec.schedules[0].period.days[0]"],
            vec!["f.yaml:36", "ScalingSchedule shop/evening", "spec.schedules[1].value"],
            vec!["f.yaml:53", "ScalingSchedule shop/night", "spec.schedules[0].period.days[0]"],
            vec!["f.yaml:54", "ScalingSchedule shop/night", "spec.schedules[1].value"],
        ]
    );
}

/// A schedule with many entries that apply on all days. Each has as many steps as its value.
fn daily_schedule(name: &str, entries: usize) -> String {
    let head = format!(
        "---\napiVersion: zalando.org/v1\nkind: ClusterScalingSchedule\n\
         metadata: {{name: {name}}}\nspec:\n  schedules:\n"
    );
    let entry = |at: usize| {
        let (hour, minute) = (at / 60 % 24, at % 60);
        format!(
            "  - type: Repeating\n    value: 900\n    \
             period: {{startTime: '{hour:02}:{minute:02}', \
             days: [Sun, Mon, Tue, Wed, Thu, Fri, Sat], timezone: UTC}}\n"
        )
    };
    let entries: Vec<_> = (0..entries).map(entry).collect();
    head + &entries.concat()
}

/// The limit is reached by the second schedule. These windows are empty, but have ramps.
#[test]
fn steps_of_all_schedules_of_a_file_are_limited() {
    let settings = Settings { ramp_steps: 1000, ..Settings::default() };
    let preview = |text: &str| {
        preview_manifests(text, &settings, "2026-11-23T12:00:00Z", "2026-11-25T12:00:00Z")
    };
    let manifest = daily_schedule("a", 2) + &daily_schedule("b", 400);
    let error = preview(&manifest).err().expect("an error").to_string();
    let expected = "ClusterScalingSchedule b: spec.schedules: with this schedule, the ramps in the \
                    previewed time have 1447200 steps, at most 1000000 are allowed";
    assert!(error.starts_with(expected), "{error}");
    let (previews, _) = preview(&daily_schedule("a", 2)).expect("few");
    assert!(previews[0].windows.is_empty());
    assert!(previews[0].changes.len() > 1000, "{}", previews[0].changes.len());
}

const BOUNDS: &str = r#"
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: web
  namespace: shop
  annotations:
    autoscaling.hpa-rs.dev/bounds: |
      [{"days": ["Sat"], "start": "22:00", "end": "05:00", "timeZone": "Europe/Berlin",
        "minReplicas": 10, "maxReplicas": 20}]
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 8
"#;

fn bounds_text(manifest: &str) -> String {
    // The clocks go back on Sunday 2026-10-25.
    let (from, to) = ("2026-10-23T00:00:00Z", "2026-10-30T00:00:00Z");
    let previews = preview_manifests(manifest, &Settings::default(), from, to);
    let (_, previews) = previews.expect("previews");
    previews.iter().map(BoundsPreview::text).collect()
}

#[test]
fn bounds_follow_a_change_of_the_clocks() {
    let expected = "\
HorizontalPodAutoscaler shop/web, times in Europe/Berlin

Sat 2026-10-24 22:00 +02:00  10 to 20 replicas
Sun 2026-10-25 05:00 +01:00  2 to 8 replicas
Fri 2026-10-23 02:00 +02:00: 2 to 8 replicas, next 10 to 20 replicas at Sat 2026-10-24 22:00 +02:00
";
    assert_eq!(bounds_text(BOUNDS), expected);
}

#[test]
fn invalid_bounds_are_reported_without_changes() {
    let text = bounds_text(&BOUNDS.replace("22:00", "22:60"));
    let error = "\nf.yaml:8: error: annotation autoscaling.hpa-rs.dev/bounds";
    assert!(text.contains(error), "{text}");
    assert!(!text.contains("no change in this time"), "{text}");
}

#[test]
fn bounds_of_the_field_are_shown_if_the_annotation_is_overridden() {
    let field = "spec:\n  bounds:\n  - {days: [Sat], start: \"10:00\", end: \"11:00\", timeZone: \
                 UTC, minReplicas: 5}\n";
    let custom = BOUNDS.replace("autoscaling/v2", hpa_calc::crd::API_VERSION);
    let text = bounds_text(&custom.replace("spec:\n", field));
    let warning = ": warning: annotation autoscaling.hpa-rs.dev/bounds is ignored: spec.bounds ";
    assert!(text.contains(warning), "{text}");
    assert!(text.contains("\nSat 2026-10-24 10:00 +00:00  5 to 8 replicas\n"), "{text}");
}

#[test]
fn bounds_that_the_built_in_controller_ignores_are_reported() {
    let managed = "metadata:\n  managedFields:\n  - manager: kube-controller-manager\n    \
                   subresource: status\n";
    let text = bounds_text(&BOUNDS.replacen("metadata:\n", managed, 1));
    let warning = "\nwarning: kube-controller-manager, which stored the status last, ignores the \
                   bounds: they have an effect only if hpa-rs handles the autoscaler\n";
    assert!(text.contains(warning), "{text}");
}

#[test]
fn manifest_without_schedule_or_bounds_is_an_error() {
    let without = BOUNDS.replace("/bounds:", "/other:");
    let error = preview_week(&without).err().expect("an error").to_string();
    assert!(error.ends_with("no autoscaler with the setting bounds in the manifest"), "{error}");
}
