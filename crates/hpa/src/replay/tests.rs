//! Tests that rebuild a known load from generated metrics and replicas.

use std::{collections::BTreeMap, time::Duration};

use clap::Parser;
use hpa_simulate::{Run, ScenarioFile};
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    agreement::{Agreement, Trust},
    caution,
    metric::{Metric, select_metrics},
    output::Replay,
    past::{Past, RecordedMetric},
    query::{Query, TargetRef, pod_names},
    read::{check_replicas, parse_load_query, rate_window_for_scrapes},
    save_scenario,
    scenario::{RebuiltScenario, rebuild},
    series::Series,
    window::Window,
};
use crate::args::{Arguments, Command};

const STEPS: usize = 240;

fn window() -> Window {
    let end = Timestamp::from_second(1_800_000_000).unwrap();
    Window::new(Duration::from_secs(3600), end, Some(Duration::from_secs(15)))
}

fn series(value: impl Fn(f64) -> f64) -> Series {
    Series((0..=STEPS).map(|step| Some(value(step as f64 * 15.0))).collect())
}

fn load(second: f64) -> f64 {
    if second < 1800.0 { 60.0 } else { 120.0 }
}

/// Replicas that follow [`load`], one for each 10 units.
fn replicas() -> Series {
    series(replicas_at)
}

fn replicas_at(second: f64) -> f64 {
    load(second) / 10.0
}

/// An hour with [`replicas`] in which nothing else is recorded.
fn past(metrics: Vec<RecordedMetric>) -> Past {
    Past {
        window: window(),
        requested_window: window(),
        replicas: replicas(),
        metrics,
        pod_requests: BTreeMap::new(),
        startup: None,
        capacity: None,
    }
}

/// Parses a rebuilt scenario as `hpa simulate` does.
fn parse(scenario: &Value) -> ScenarioFile {
    ScenarioFile::parse(&scenario.to_string(), &|_| Err("no files".to_owned())).unwrap()
}

fn autoscaler(metrics: &Value) -> Value {
    json!({
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 2, "maxReplicas": 30, "metrics": metrics,
        },
    })
}

fn external(name: &str, target: Value) -> Value {
    let metric = json!({ "name": name, "selector": { "matchLabels": { "queue": "mail" } } });
    json!({ "type": "External", "external": { "metric": metric, "target": target } })
}

fn pods(name: &str, target: &str) -> Value {
    let target = json!({ "type": "AverageValue", "averageValue": target });
    json!({ "type": "Pods", "pods": { "metric": { "name": name }, "target": target } })
}

fn cpu(percent: u32) -> Value {
    let target = json!({ "type": "Utilization", "averageUtilization": percent });
    json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } })
}

fn try_replay(
    metrics: &Value,
    values: Vec<Series>,
) -> anyhow::Result<(RebuiltScenario, Run, Agreement)> {
    replay_manifest(&autoscaler(metrics), values)
}

fn replay_manifest(
    manifest: &Value,
    values: Vec<Series>,
) -> anyhow::Result<(RebuiltScenario, Run, Agreement)> {
    let hpa = serde_json::from_value(manifest.clone())?;
    let metrics = Metric::used(&hpa, &[])?.into_iter().zip(values);
    let metrics = metrics.map(|(metric, value)| RecordedMetric { metric, value });
    let past = Past {
        pod_requests: BTreeMap::from([("cpu".to_owned(), 0.5)]),
        startup: Some(20.0),
        ..past(metrics.collect())
    };
    let mut rebuilt = rebuild(&past, &hpa)?;
    rebuilt.scenario["autoscaler"] = manifest.clone();
    let run = parse(&rebuilt.scenario).variants[0].run();
    let agreement = Agreement::new(6, &run.steps, &past.replicas, 15.0);
    Ok((rebuilt, run, agreement))
}

fn replay(metrics: &Value, values: Vec<Series>) -> (RebuiltScenario, Run, Agreement) {
    try_replay(metrics, values).unwrap()
}

#[rstest]
#[case::huge(1e15, "1000000000000000")]
#[case::negative(-3.0, "-3")]
fn replicas_outside_0_to_10000_are_refused(#[case] value: f64, #[case] text: &str) {
    let query = Query::new("replicas", "max(replicas)".to_owned(), "");
    assert!(check_replicas(&window(), &replicas(), &query).is_ok());
    let mut recorded = replicas();
    recorded.0[4] = Some(value);
    let error = check_replicas(&window(), &recorded, &query).unwrap_err().to_string();
    let expected = format!(
        "the query for replicas has the value {text} at 2027-01-15T07:01:00Z, which isn't between \
         0 and 10000. The query is max(replicas)"
    );
    assert_eq!(error, expected);
}

#[rstest]
#[case::pods(pods("rps", "10"), series(load))]
#[case::external_average(
    external("waiting", json!({ "type": "AverageValue", "averageValue": "10" })),
    series(load)
)]
// The value was 10 throughout, because the replicas followed the load.
#[case::external_value(
    external("latency", json!({ "type": "Value", "value": "10" })),
    series(|second| load(second) / replicas_at(second))
)]
// Utilization 40 % of 500m is 200m for each pod.
#[case::cpu(cpu(40), series(|second| load(second) / 50.0))]
fn each_kind_of_metric_gives_the_recorded_replicas(#[case] metric: Value, #[case] value: Series) {
    let (rebuilt, run, agreement) = replay(&json!([metric]), vec![value]);
    assert!(run.problems.is_empty(), "{:?}", run.problems);
    assert_eq!(agreement.trust, Trust::Good, "{agreement:?} {:?}", rebuilt.scenario);
    assert_eq!(run.outcome.replicas.max, 12);
}

/// An autoscaler of a metric whose collector divides the value by the replicas.
fn divided_by_replicas(target: Value) -> Value {
    let metric = json!({ "type": "Object", "object": {
        "metric": { "name": "jobs" }, "target": target,
        "describedObject": { "apiVersion": "v1", "kind": "Service", "name": "web" },
    } });
    let mut manifest = autoscaler(&json!([metric]));
    manifest["metadata"]["annotations"] = json!({
        "metric-config.object.jobs.prometheus/query": "sum(jobs)",
        "metric-config.object.jobs.prometheus/per-replica": "true",
    });
    manifest
}

#[test]
fn value_that_a_collector_divides_by_the_replicas_is_the_load() {
    let manifest = divided_by_replicas(json!({ "type": "Value", "value": "10" }));
    let (rebuilt, run, agreement) = replay_manifest(&manifest, vec![series(load)]).unwrap();
    assert!(run.problems.is_empty(), "{:?}", run.problems);
    assert_eq!(agreement.trust, Trust::Good, "{agreement:?} {:?}", rebuilt.scenario);
    assert_eq!((run.outcome.replicas.max, &rebuilt.scenario["loadUnit"]), (12, &json!("jobs")));
    let all = rebuilt.assumptions.join("\n");
    assert!(all.contains("The collector divides the value of jobs by the replicas"), "{all}");
    let hpa = serde_json::from_value(manifest).unwrap();
    let metric = Metric::used(&hpa, &[]).unwrap().remove(0);
    let error = TargetRef::new(&hpa).metric_query(&metric, None, 60).unwrap_err();
    let advice = "--load-query 'jobs=QUERY' (that of its annotations \
                  metric-config.object.jobs.prometheus/*)";
    assert!(error.contains(advice), "{error}");
}

#[test]
fn value_that_is_divided_by_the_replicas_twice_cannot_be_replayed() {
    let manifest = divided_by_replicas(json!({ "type": "AverageValue", "averageValue": "10" }));
    let error = replay_manifest(&manifest, vec![series(load)]).unwrap_err().to_string();
    assert!(error.ends_with("can't be replayed: add --ignore-metric jobs"), "{error}");
}

#[test]
fn load_comes_from_the_metric_that_asks_for_most_replicas() {
    // CPU asks for half of the replicas: a pod uses 20m, and 8m for each request.
    let cpu_value = series(|second| 0.02 * replicas_at(second) + 0.008 * load(second));
    let metrics = json!([cpu(40), pods("rps", "10")]);
    let (rebuilt, _, agreement) = replay(&metrics, vec![cpu_value, series(load)]);
    assert_eq!(rebuilt.load_metric, "rps");
    assert_eq!(agreement.trust, Trust::Good);
    let all = rebuilt.assumptions.join("\n");
    assert!(all.contains("cpu of a pod is a linear function of its load"), "{all}");
    let profile = &rebuilt.scenario["workload"]["profile"];
    assert_eq!(profile["capacity"], 20.0, "{profile}");
}

#[test]
fn steps_without_values_do_not_choose_the_main_metric() {
    let with_gap = |mut series: Series| {
        series.0[..150].fill(None);
        series
    };
    let metrics = json!([cpu(40), pods("rps", "10")]);
    let values = vec![with_gap(series(|_| 0.1)), with_gap(series(load))];
    assert_eq!(replay(&metrics, values).0.load_metric, "rps");
}

#[test]
fn gaps_and_unknown_capacity_are_assumptions() {
    let mut value = series(load);
    value.0[20..40].fill(None);
    let (rebuilt, ..) = replay(&json!([pods("rps", "10")]), vec![value]);
    let all = rebuilt.assumptions.join("\n");
    assert!(all.contains("Gaps (the longest: 5m)"), "{all}");
    let capacity = "The capacity of a pod is assumed: twice the target, 20 of rps. ";
    assert!(all.contains(capacity), "{all}");
    assert!(rebuilt.capacity_assumption.is_some_and(|one| one.starts_with(capacity)));
}

#[rstest]
#[case::name("cpu=up", Ok((0, "up")))]
#[case::index("2=up", Ok((2, "up")))]
#[case::ambiguous(
    "queue=up",
    Err("several metrics have the name queue: use an index in spec.metrics, such as 1=QUERY")
)]
#[case::unknown("memory=up", Err("the autoscaler has no metric memory; it has: cpu, queue, queue"))]
#[case::comparison(
    "cpu == 1",
    Err("must be METRIC=QUERY, where METRIC is one of cpu, queue, queue")
)]
fn load_query_names_one_metric(#[case] text: &str, #[case] expected: Result<(usize, &str), &str>) {
    let queue = external("queue", json!({ "type": "AverageValue", "averageValue": "10" }));
    let hpa = serde_json::from_value(autoscaler(&json!([cpu(40), queue, queue]))).unwrap();
    let metrics = Metric::used(&hpa, &[]).unwrap();
    let parsed = parse_load_query(text, &metrics);
    let parsed = parsed.map(|(metric, query)| (metric.index, query));
    let expected = expected.map_err(|end| format!("--load-query {text}: {end}"));
    assert_eq!(parsed.map_err(|error| error.to_string()), expected);
}

#[rstest]
#[case::name_of_another_index("0", &[1])]
#[case::name_of_two_metrics_and_index_of_one("2", &[2])]
#[case::index("3", &[3])]
#[case::index_that_is_not_used("4", &[])]
#[case::name_of_two_metrics("queue", &[5, 6])]
fn name_that_is_a_number_precedes_an_index(#[case] text: &str, #[case] expected: &[usize]) {
    let metrics = [(0, "cpu"), (1, "0"), (2, "2"), (3, "2"), (5, "queue"), (6, "queue")];
    assert_eq!(select_metrics(&metrics, text), expected);
}

/// A Prometheus that scraped every minute, and then every 5 s.
#[rstest]
#[case::two_days(288, 1, 240)]
#[case::half_an_hour(2, 2, 240)]
#[case::outlier(1, 40, 60)]
#[case::unknown(0, 0, 120)]
fn rate_window_fits_the_longest_scrape_interval(
    #[case] slow: usize,
    #[case] fast: usize,
    #[case] expected: i64,
) {
    let scrapes = Series([vec![Some(10.0); slow], vec![None], vec![Some(120.0); fast]].concat());
    assert_eq!(rate_window_for_scrapes(&scrapes), expected);
}

#[rstest]
#[case::cpu(cpu(40), "cores")]
#[case::memory(
    json!({ "type": "Resource", "resource": {
        "name": "memory", "target": { "type": "AverageValue", "averageValue": "64Mi" } } }),
    "MiB"
)]
#[case::pods(pods("rps", "10"), "rps")]
#[case::external_average(
    external("waiting", json!({ "type": "AverageValue", "averageValue": "10" })),
    "waiting"
)]
#[case::external_value(
    external("latency", json!({ "type": "Value", "value": "10" })),
    "latency × replicas"
)]
fn load_unit_is_that_of_the_metric(#[case] metric: Value, #[case] unit: &str) {
    let mut scenario = replay(&json!([metric]), vec![series(load)]).0.scenario;
    assert_eq!(scenario["loadUnit"], unit);
    scenario["autoscaler"] = autoscaler(&json!([metric]));
    assert_eq!(parse(&scenario).variants[0].load_unit, unit);
}

#[test]
fn page_has_the_recorded_replicas_and_the_match() {
    let metrics = json!([pods("rps", "10")]);
    let (rebuilt, run, agreement) = replay(&metrics, vec![series(load)]);
    let mut scenario = rebuilt.scenario;
    scenario["autoscaler"] = autoscaler(&metrics);
    let scenario_file = parse(&scenario);
    let (recorded, assumptions) = (replicas(), vec!["pods are equal".to_owned()]);
    let replay = Replay {
        name: "Replay of shop/web",
        window: window(),
        load_metric: "rps",
        recorded: &recorded,
        agreement: &agreement,
        assumptions,
    };
    let page = replay.page(&scenario_file, &[(scenario_file.variants[0].clone(), run)]);
    assert!(page.contains(">recorded replicas</text>"), "{page}");
    assert!(page.contains("Recorded replicas 6 to 12."), "{page}");
    // One step in the middle of the hour.
    let path = page.split("class=\"past\" d=\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!((path.matches('M').count(), path.matches('V').count()), (1, 1), "{path}");
    let first = page.split("<p>").nth(1).unwrap();
    assert!(first.starts_with("Trust: good."), "{first}");
    for sentence in ["<p>The rebuilt run has", "<p>Trust: good.", "<p>Assumption: pods are equal"] {
        assert!(page.contains(sentence), "{sentence}: {page}");
    }
}

#[test]
fn saved_scenario_has_restricted_trust_short_time_and_assumed_capacity_as_caution() {
    let metrics = json!([pods("rps", "10")]);
    let (rebuilt, _, agreement) = replay(&metrics, vec![series(load)]);
    assert_eq!(caution(&agreement, 3600.0, None), "");
    let short = "The scenario is a replay of only 4m: the load of other times may differ.";
    assert_eq!(caution(&agreement, 240.0, None), short);
    let capacity = rebuilt.capacity_assumption;
    assert_eq!(caution(&agreement, 3600.0, capacity.clone()), capacity.clone().unwrap());
    let poor = Agreement { trust: Trust::Poor, ..agreement };
    let mut scenario = rebuilt.scenario;
    scenario["autoscaler"] = autoscaler(&metrics);
    let file = tempfile::NamedTempFile::new().unwrap();
    save_scenario(file.path(), scenario, &caution(&poor, 240.0, capacity)).unwrap();
    let text = std::fs::read_to_string(file.path()).unwrap();
    let saved = ScenarioFile::parse(&text, &|_| Err("no files".to_owned())).unwrap();
    let caution = saved.variants[0].caution.as_deref().unwrap();
    assert!(caution.starts_with("Trust: none. ") && caution.contains(short), "{caution}");
    assert!(caution.ends_with("and replay with --pod-capacity."), "{caution}");
}

#[test]
fn scheduled_bounds_hold_at_the_replayed_time() {
    assert_eq!(window().start.to_string(), "2027-01-15T07:00:00Z");
    let mut manifest = autoscaler(&json!([pods("rps", "10")]));
    manifest["metadata"]["annotations"] = json!({
        "autoscaling.hpa-rs.dev/bounds":
            r#"[{"days":["Fri"],"start":"07:10","end":"07:20","timeZone":"UTC","minReplicas":20}]"#,
    });
    let (_, run, _) = replay_manifest(&manifest, vec![series(load)]).unwrap();
    let first = run.steps.first().expect("a scaling to the scheduled minimum");
    assert_eq!((first.from, first.to), (6, 20), "{first:?}");
    assert!((first.second - 600.0).abs() < 2.0, "{first:?}");
}

#[rstest]
#[case::end_in_the_future(
    &["--until=2999-01-01T00:00:00Z"],
    "--until 2999-01-01T00:00:00Z is in the future"
)]
#[case::second_query(
    &["--load-query=rps=a", "--load-query=0=b"],
    "--load-query 0=b: the metric rps has another query"
)]
#[case::second_request(
    &["--request=cpu=1", "--request=cpu=2"],
    "--request cpu=2: cpu has another request"
)]
fn invalid_flags_are_errors(#[case] flags: &[&str], #[case] expected: &str) {
    let mut manifest = autoscaler(&json!([pods("rps", "10")]));
    manifest["apiVersion"] = json!("autoscaling/v2");
    manifest["kind"] = json!("HorizontalPodAutoscaler");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), manifest.to_string()).unwrap();
    let path = file.path().to_str().unwrap();
    let common = ["hpa", "replay", "--prometheus=http://127.0.0.1:9", "-f", path];
    let arguments = Arguments::parse_from(common.iter().chain(flags));
    let Command::Replay(arguments) = arguments.command else { panic!("hpa replay") };
    let error = super::run(&arguments).unwrap_err().to_string();
    assert_eq!(error, expected);
}

#[test]
fn unrecorded_start_and_end_are_removed() {
    let hpa = serde_json::from_value(autoscaler(&json!([pods("rps", "10")]))).unwrap();
    let metric = Metric::used(&hpa, &[]).unwrap().remove(0);
    let (mut value, mut replicas) = (series(load), replicas());
    value.0[..40].fill(None);
    replicas.0[201..].fill(None);
    let past = Past { replicas, ..past(vec![RecordedMetric { metric, value }]) };
    let past = past.trimmed().unwrap();
    assert_eq!(past.window.start.as_second() - window().start.as_second(), 600);
    assert_eq!((past.window.step_count, past.replicas.0.len()), (160, 161));
    let missing = past.describe_missing_time().expect("a third of the hour is missing");
    let expected = "replicas and metrics for only 40m of the requested 1h. Only";
    assert!(missing.contains(expected), "{missing}");
    assert_eq!(past.metrics[0].value.get(0), Some(60.0));
    let mut single = Past { replicas: Series::empty(161), ..past };
    assert!(single.clone().trimmed().is_err());
    single.replicas.0[3] = Some(6.0);
    let single = single.trimmed().unwrap();
    assert_eq!((single.window.step_count, single.replicas.0.len()), (0, 1));
}

#[test]
fn error_about_an_unsupported_metric_names_the_field_and_the_remedy() {
    let target = json!({ "type": "Utilization", "averageUtilization": 40 });
    let container = json!({ "type": "ContainerResource", "containerResource": {
        "name": "cpu", "container": "app", "target": target } });
    let both = json!([cpu(40), container]);
    let error = try_replay(&both, vec![series(load), series(load)]).unwrap_err().to_string();
    assert!(
        error.contains("spec.metrics[1]: ") && error.ends_with("add --ignore-metric=1"),
        "{error}"
    );
    let hpa = serde_json::from_value(autoscaler(&both)).unwrap();
    let used = |ignored: &str| Metric::used(&hpa, &[ignored.to_owned()]);
    let fields: Vec<String> = used("1").unwrap().into_iter().map(|one| one.field).collect();
    assert_eq!(fields, ["spec.metrics[0]"]);
    assert!(used("cpu").is_err() && used("2").is_err());
    let gpu = json!([{ "type": "Resource", "resource": { "name": "gpu", "target": target } }]);
    let error = try_replay(&gpu, vec![series(load)]).unwrap_err().to_string();
    assert!(error.contains("spec.metrics[0]: the resource gpu"), "{error}");
}

#[test]
fn queries_select_the_pods_of_the_target() {
    let target = TargetRef {
        namespace: "shop".to_owned(),
        autoscaler: "web".to_owned(),
        kind: "Deployment".to_owned(),
        name: "web.v2".to_owned(),
        pods: pod_names("Deployment", "web.v2"),
    };
    let hpa = serde_json::from_value(autoscaler(&json!([cpu(40)]))).unwrap();
    let metric = Metric::used(&hpa, &[]).unwrap().remove(0);
    let query = target.metric_query(&metric, None, 60).unwrap();
    let pods = r#"namespace="shop",pod=~"web[.]v2-[a-z0-9]{1,10}-[a-z0-9]{5}""#;
    let rate = format!(
        r#"rate(container_cpu_usage_seconds_total{{{pods},container!="",container!="POD"}}[60s])"#
    );
    let ready = format!(r#"kube_pod_status_ready{{{pods},condition="true"}}"#);
    assert_eq!(
        query.text,
        format!(
            "avg(sum by (pod) ({rate}) and on (pod) max by (pod) \
             (min_over_time({ready}[60s]) * {ready}) == 1) \
             * sum(max by (pod) (sum_over_time({ready}[60s]))) \
             / max(count_over_time({ready}[60s])) or sum({rate})"
        )
    );
    assert_eq!(query.delay, SignedDuration::from_secs(30));
    let replicas = target.replicas_query(None).text;
    let first = r#"max(kube_deployment_spec_replicas{namespace="shop",deployment="web.v2"}) or "#;
    assert!(replicas.starts_with(first), "{replicas}");
    assert_eq!(target.replicas_query(Some("own")).text, "own");
}

/// The API server accepts names with quotes.
#[test]
fn names_cannot_change_a_query() {
    let hostile = r#"a"} or up{b="c|.*'`"#;
    let target = json!({ "type": "AverageValue", "averageValue": "1" });
    let metrics = json!([
        { "type": "ContainerResource",
          "containerResource": { "name": "memory", "container": hostile, "target": target } },
        { "type": "Pods", "pods": { "metric": { "name": hostile,
          "selector": { "matchLabels": { "a/b": hostile } } }, "target": target } },
    ]);
    let mut manifest = autoscaler(&metrics);
    manifest["spec"]["scaleTargetRef"]["name"] = json!(hostile);
    manifest["metadata"]["name"] = json!(hostile);
    let hpa = serde_json::from_value(manifest).unwrap();
    let target = TargetRef::new(&hpa);
    assert_eq!(
        pod_names("StatefulSet", hostile),
        r"a\x{22}\x{7d}\x{20}or\x{20}up\x{7b}b\x{3d}\x{22}c\x{7c}[.]\x{2a}\x{27}\x{60}-[0-9]+"
    );
    let mut queries = vec![
        target.replicas_query(None),
        target.startup_query(),
        target.scrapes_query(),
        target.requests_query("cpu", Some(hostile)),
    ];
    for metric in Metric::used(&hpa, &[]).unwrap() {
        queries.push(target.metric_query(&metric, None, 60).unwrap());
    }
    for query in queries {
        assert!(!query.text.contains(r#"a"}"#), "{}", query.text);
        hpa_prometheus::promql::parse(&query.text).unwrap();
    }
}

/// The notes about an hour with [`replicas`], optionally with scheduled bounds.
fn notes_with(bounds: Option<&str>) -> Vec<String> {
    let mut manifest = autoscaler(&json!([pods("rps", "10")]));
    manifest["spec"]["maxReplicas"] = json!(10);
    if let Some(bounds) = bounds {
        manifest["metadata"]["annotations"] = json!({ "autoscaling.hpa-rs.dev/bounds": bounds });
    }
    let hpa = serde_json::from_value(manifest).unwrap();
    // The replicas are recorded a minute after the change.
    let mut replicas = replicas();
    replicas.0[120..124].fill(Some(6.0));
    let metric = Metric::used(&hpa, &[]).unwrap().remove(0);
    let past = Past { replicas, ..past(vec![RecordedMetric { metric, value: series(load) }]) };
    super::notes(Vec::new(), &hpa, &past)
}

#[test]
fn notes_compare_replicas_with_the_scheduled_bounds() {
    let spec = notes_with(None);
    assert!(spec[0].contains("were outside 2-10, the bounds of this spec"), "{spec:?}");
    // The window ends at 08:00.
    let wide = r#"[{ "start": "07:30", "end": "09:00", "minReplicas": 11, "maxReplicas": 20 }]"#;
    assert_eq!(notes_with(Some(wide)), Vec::<String>::new());
    let narrow = r#"[{ "start": "07:30", "end": "09:00", "minReplicas": 11, "maxReplicas": 12 }]"#;
    let notes = notes_with(Some(narrow));
    assert!(notes.len() == 1 && notes[0].contains("the replicas were at maxReplicas"), "{notes:?}");
    let low = r#"[{ "start": "07:30", "end": "09:00", "maxReplicas": 5 }]"#;
    let notes = notes_with(Some(low));
    assert!(notes[0].contains("were outside the scheduled bounds of this spec"), "{notes:?}");
}
