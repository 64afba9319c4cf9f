use hpa_calc::{
    MilliValue,
    api::ResourceName,
    readings::{MetricsApi, PodSample, ReadError, Sample},
    selector::{Labels, Selector},
};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn cpu_of(containers: &str, container: Option<&str>) -> Option<i64> {
    let item = format!(r#"[{{"metadata":{{"name":"web-1"}},"containers":{containers}}}]"#);
    let items: Vec<PodMetrics> = serde_json::from_str(&item).unwrap();
    let samples = resource_samples(&items, &ResourceName::Cpu, container).unwrap();
    samples.get("web-1").map(|sample| sample.value.as_milli())
}

#[rstest]
#[case::sum(
    r#"[{"name":"a","usage":{"cpu":"1","memory":"1Gi"}},{"name":"b","usage":{"cpu":"250m"}}]"#,
    Some(1250)
)]
#[case::rounded_up_each(
    r#"[{"name":"a","usage":{"cpu":"1u"}},{"name":"b","usage":{"cpu":"1n"}}]"#,
    Some(2)
)]
#[case::last_container_lacks_cpu(
    r#"[{"name":"a","usage":{"cpu":"1"}},{"name":"b","usage":{"memory":"1"}}]"#,
    None
)]
#[case::first_container_lacks_cpu(
    r#"[{"name":"b","usage":{"memory":"1"}},{"name":"a","usage":{"cpu":"1"}}]"#,
    None
)]
#[case::no_usage(r#"[{"name":"a"}]"#, None)]
#[case::null_usage(r#"[{"name":"a","usage":null}]"#, None)]
#[case::null_value(r#"[{"name":"a","usage":{"cpu":null}}]"#, Some(0))]
#[case::number(r#"[{"name":"a","usage":{"cpu":2}},{"name":"b","usage":{"cpu":0.25}}]"#, Some(2250))]
#[case::escaped(r#"[{"name":"a","usage":{"c\u0070u":" 3m "}}]"#, Some(3))]
#[case::no_container("[]", None)]
#[case::null_containers("null", None)]
#[case::at_the_limit(
    r#"[{"name":"a","usage":{"cpu":"9e15"}},{"name":"b","usage":{"cpu":"9e15"}}]"#,
    Some(i64::MAX)
)]
fn usage_of_a_pod_is_the_sum_of_its_containers(
    #[case] containers: &str,
    #[case] milli: Option<i64>,
) {
    assert_eq!(cpu_of(containers, None), milli);
    assert_eq!(cpu_of(containers, Some("")), milli);
}

#[rstest]
#[case::other_container_is_ignored(
    r#"[{"name":"side","usage":{}},{"name":"app","usage":{"cpu":"5m"}}]"#,
    Some(5)
)]
#[case::first_of_that_name(
    r#"[{"name":"app","usage":{"cpu":"5m"}},{"name":"app","usage":{"cpu":"7m"}}]"#,
    Some(5)
)]
#[case::first_container_lacks_cpu(
    r#"[{"name":"app","usage":{}},{"name":"app","usage":{"cpu":"7m"}}]"#,
    None
)]
#[case::absent(r#"[{"name":"side","usage":{"cpu":"5m"}}]"#, None)]
fn usage_of_a_container_is_that_of_the_first_with_its_name(
    #[case] containers: &str,
    #[case] milli: Option<i64>,
) {
    assert_eq!(cpu_of(containers, Some("app")), milli);
}

#[test]
fn pod_metrics_list_is_decoded() {
    let body = br#"{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1",
        "metadata":{},"items":[
        {"metadata":{"name":"web-1","namespace":"ns","creationTimestamp":"2000-01-01T00:00:00Z",
          "labels":{"app":"web","tier":"a\"b","empty":""}},
         "timestamp":"2000-01-01T00:00:47Z","window":"1m0.5s",
         "containers":[{"name":"app","usage":{"cpu":"4805m","memory":"817664381"}}]},
        {"metadata":{"name":"web-2"},
         "containers":[{"name":"app","usage":{"example.com/gpu":"2"}}]}]}"#;
    let items: Vec<PodMetrics> = decode_list(body).unwrap();
    let memory = resource_samples(&items, &ResourceName::Memory, None).unwrap();
    let expected = PodSample {
        value: MilliValue::from_units(817_664_381),
        timestamp: "2000-01-01T00:00:47Z".parse().unwrap(),
        window: SignedDuration::from_millis(60_500),
    };
    assert_eq!(memory.get("web-1"), Some(&expected));
    assert_eq!(memory.len(), 1);
    let gpu =
        resource_samples(&items, &ResourceName::from("example.com/gpu"), Some("app")).unwrap();
    let zero_time: Timestamp = "0001-01-01T00:00:00Z".parse().unwrap();
    let expected = PodSample {
        value: MilliValue::from_units(2),
        timestamp: zero_time,
        window: SignedDuration::ZERO,
    };
    assert_eq!(gpu.get("web-2"), Some(&expected));
    assert_eq!(gpu.len(), 1);

    let labels = &items[0].metadata.labels;
    assert_eq!(labels.label("tier"), Some("a\"b"));
    assert_eq!(labels.label("empty"), Some(""));
    assert_eq!(labels.label("web"), None, "values are not keys");
    assert!(Selector::parse("app=web,!other").unwrap().matches(labels));
    assert!(items[1].metadata.labels.is_empty());
}

#[test]
fn last_of_equal_labels_counts() {
    let item: ExternalMetricValue =
        serde_json::from_str(r#"{"metricLabels":{"a":"1","b":"2","a":"3"}}"#).unwrap();
    assert_eq!((item.labels.label("a"), item.labels.label("b")), (Some("3"), Some("2")));
}

#[rstest]
#[case(r#"{"items":[[{"name":"web-1"}]]}"#, "expected an object")]
#[case(r#"{"items":[{"metadata":["web-1"]}]}"#, "expected an object")]
#[case(r#"{"items":[{"containers":[["app"]]}]}"#, "expected an object")]
#[case(r#"{"items":[],"items":[{}]}"#, "duplicate field `items`")]
#[case(r#"{"items":[{"window":"1s","window":"2s"}]}"#, "duplicate field `window`")]
fn ambiguous_list_is_rejected(#[case] body: &str, #[case] part: &str) {
    let error = decode_list::<PodMetrics>(body.as_bytes()).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains(part), "{cause}");
}

#[test]
fn labels_with_nul_are_skipped() {
    let labels: ItemLabels = [("a\0b", "c"), ("d", "e\0f"), ("g", "h")].into_iter().collect();
    assert_eq!((labels.label("a"), labels.label("d"), labels.label("g")), (None, None, Some("h")));
}

#[rstest]
#[case("a=2", true)]
#[case("a=1", false)]
#[case("a=2,a,b,b=1,b!=2,!c,c!=1", true)]
#[case("a=1,a,b,b=1,b!=2,!c,c!=1", false)]
#[case("a=2,a,b,b=1,b!=2,c,c!=1", false)]
fn labels_are_selected_by_few_and_many_requirements(
    #[case] selector: &str,
    #[case] expected: bool,
) {
    // The last of equal keys counts.
    let labels: ItemLabels = [("a", "1"), ("a", "2"), ("b", "1")].into_iter().collect();
    assert_eq!(labels.are_selected_by(&Selector::parse(selector).unwrap()), expected);
}

#[test]
fn both_versions_of_custom_metrics_are_decoded() {
    let old = br#"{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/v1beta1",
        "metadata":{},"items":[
        {"describedObject":{"kind":"Pod","namespace":"ns","name":"web-1","apiVersion":"/v1"},
         "metricName":"m",
         "timestamp":"2000-01-01T00:00:10Z","window":30,"value":"500m","selector":null}]}"#;
    let new = br#"{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/v1beta2",
        "metadata":{},"items":[
        {"describedObject":{"kind":"Pod","namespace":"ns","name":"web-1","apiVersion":"v1"},
         "metric":{"name":"m","selector":{"matchLabels":{"a":"b"}}},
         "timestamp":"2000-01-01T00:00:10Z","windowSeconds":30,"value":"500m"}]}"#;
    let items: Vec<MetricValue> = decode_list(old).unwrap();
    assert_eq!(items, decode_list(new).unwrap());
    let sample = PodSample {
        value: MilliValue::from_milli(500),
        timestamp: "2000-01-01T00:00:10Z".parse().unwrap(),
        window: SignedDuration::from_secs(30),
    };
    assert_eq!(pod_samples(&items).unwrap().get("web-1"), Some(&sample));
    let timestamp = Some(sample.timestamp);
    assert_eq!(object_value(&items), Ok(Sample { value: sample.value, timestamp }));
}

#[rstest]
#[case(r#"{"value":"1"}"#)]
#[case(r#"{"value":"1","windowSeconds":null}"#)]
#[case(r#"{"value":"1","windowSeconds":0}"#)]
fn window_of_a_custom_metric_without_one_is_zero(#[case] item: &str) {
    let items: Vec<MetricValue> = serde_json::from_str(&format!("[{item}]")).unwrap();
    assert_eq!(pod_samples(&items).unwrap().get("").unwrap().window, SignedDuration::ZERO);
}

#[test]
fn external_metrics_are_decoded() {
    let body = br#"{"kind":"ExternalMetricValueList","items":[
        {"metricName":"q","metricLabels":{"queue":"a"},"timestamp":null,"value":"404m"},
        {"metricName":"q","metricLabels":null,"value":"12"},{}]}"#;
    let items: Vec<ExternalMetricValue> = decode_list(body).unwrap();
    let value = [404, 12_000, 0].map(MilliValue::from_milli).to_vec();
    assert_eq!(external_values(&items), Ok(value.into()));
    assert_eq!(items[0].labels.label("queue"), Some("a"));
}

#[rstest]
#[case::oldest_series(
    &["2026-01-01T00:05:00Z", "2026-01-01T00:01:00Z"],
    Some("2026-01-01T00:01:00Z")
)]
#[case::zero_time_is_none(
    &["0001-01-01T00:00:00Z", "2026-01-01T00:05:00Z"],
    Some("2026-01-01T00:05:00Z")
)]
#[case::no_time(&["0001-01-01T00:00:00Z"], None)]
fn external_value_has_the_time_of_its_oldest_series(
    #[case] times: &[&str],
    #[case] expected: Option<&str>,
) {
    let item = |time: &&str| format!(r#"{{"timestamp":"{time}","value":"1"}}"#);
    let items: Vec<_> = times.iter().map(item).collect();
    let body = format!(r#"{{"items":[{}]}}"#, items.join(","));
    let items: Vec<ExternalMetricValue> = decode_list(body.as_bytes()).unwrap();
    let expected: Option<Timestamp> = expected.map(|time| time.parse().unwrap());
    assert_eq!(external_values(&items).unwrap().timestamp, expected);
}

#[rstest]
#[case("{}")]
#[case(r#"{"kind":"","items":null}"#)]
#[case(r#"{"kind":"PodMetricsList","items":[]}"#)]
fn response_without_items_is_an_empty_error(#[case] body: &str) {
    let items: Vec<PodMetrics> = decode_list(body.as_bytes()).unwrap();
    let error = ReadError::Empty(MetricsApi::Resource);
    assert_eq!(resource_samples(&items, &ResourceName::Cpu, None), Err(error));
    assert_eq!(pod_samples(&[]), Err(ReadError::Empty(MetricsApi::Custom)));
    assert_eq!(external_values(&[]), Err(ReadError::Empty(MetricsApi::External)));
}

#[test]
fn object_metric_has_exactly_one_value() {
    let message = |count| {
        format!(
            "unable to fetch metrics from custom metrics API: \
             the custom metrics API server returned {count} results when we asked for exactly one"
        )
    };
    let two: Vec<MetricValue> = serde_json::from_str("[{},{}]").unwrap();
    assert_eq!(object_value(&[]).unwrap_err().to_string(), message(0));
    assert_eq!(object_value(&two).unwrap_err().to_string(), message(2));
}

#[rstest]
#[case(r#"{"items":[{"containers":[{"usage":{"cpu":"1x"}}]}]}"#, "usage of cpu: \"1x\": ")]
#[case(r#"{"items":[{"containers":[{"usage":{"memory":""}}]}]}"#, "usage of memory: \"\": ")]
#[case(r#"{"items":[{"window":"15"}]}"#, "time: missing unit in duration \"15\"")]
#[case(r#"{"items":[{"window":null}]}"#, "time: invalid duration \"\"")]
#[case(r#"{"items":[{"timestamp":"yesterday"}]}"#, "parsing time \"yesterday\": ")]
#[case("", "EOF while parsing")]
#[case("404 page not found", "line 1")]
fn decode_error_has_its_cause(#[case] body: &str, #[case] part: &str) {
    let error = decode_list::<PodMetrics>(body.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "cannot decode PodMetricsList");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains(part), "{cause}");
}

#[test]
fn other_kinds_are_rejected() {
    let status =
        br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no"}"#;
    assert_eq!(decode_list::<MetricValue>(status).unwrap_err().to_string(), "no");
    let other = br#"{"kind":"PodList","items":[]}"#;
    assert_eq!(
        decode_list::<MetricValue>(other).unwrap_err().to_string(),
        "the server didn't return MetricValueList, the type is PodList"
    );
}

#[rstest]
#[case("2026-01-01T00:00:00Z")]
#[case("0001-01-01T00:00:00Z")]
#[case("9999-12-31T23:59:59Z")]
#[case("2024-02-29T12:34:56Z")]
#[case("2023-02-29T12:34:56Z")]
#[case("2026-13-01T00:00:00Z")]
#[case("2026-01-01T24:00:00Z")]
#[case("2026-01-01T23:59:60Z")]
#[case("2026-01-01t00:00:00z")]
#[case("2026-01-01T00:00:00+0")]
#[case("2026-01-01 00:00:00Z")]
#[case("2026-01-01T00:00:0éZ")]
#[case("-026-01-01T00:00:00Z")]
fn fast_parser_agrees_with_the_general_one(#[case] text: &str) {
    let expected: Option<Timestamp> = text.parse().ok();
    let time = field::parse_whole_seconds(text);
    assert!(time.is_none() || time == expected, "{text}: {time:?}");
    let item = serde_json::from_str::<ExternalMetricValue>(&format!(r#"{{"timestamp":"{text}"}}"#));
    assert_eq!(item.map(|item| item.timestamp).ok(), expected);
}

#[test]
fn invalid_utf8_is_rejected() {
    let error = decode_list::<PodMetrics>(b"{\"kind\":\"\xff\"}").unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("invalid utf-8"), "{cause}");
}

proptest! {
    #[test]
    fn times_in_whole_seconds_use_the_fast_parser(seconds in -62_135_596_800_i64..253_402_207_200) {
        let time = Timestamp::from_second(seconds).unwrap();
        prop_assert_eq!(field::parse_whole_seconds(&time.to_string()), Some(time));
    }
}
