//! `hpa forecast` on files, and on a server that answers as Prometheus does.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests")]

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use axum::{Form, Json, Router, routing::any};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Writes a load for `days` days: 60 from 08:00 to 18:00 in New York, otherwise 20.
fn write_load(folder: &TempDir, days: i64) -> PathBuf {
    let start: Timestamp = "2026-01-05T05:00:00Z".parse().unwrap();
    let mut text = "time,load\n".to_owned();
    for minute in (0..days * 1440).step_by(5) {
        let hour = minute % 1440 / 60;
        let load = if (8..18).contains(&hour) { 60 } else { 20 };
        let at = start + SignedDuration::from_mins(minute);
        writeln!(text, "{at},{load}").unwrap();
    }
    let path = folder.path().join("load.csv");
    fs::write(&path, text).unwrap();
    path
}

fn forecast_file(file: &Path, arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_hpa");
    Command::new(program).args(["forecast", "--file"]).arg(file).args(arguments).output().unwrap()
}

fn utf8(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn steep_mornings_are_forecastable() {
    let folder = tempfile::tempdir().unwrap();
    let file = write_load(&folder, 28);
    let (html, svg) = (folder.path().join("report.html"), folder.path().join("chart.svg"));
    let output = forecast_file(
        &file,
        &[
            "--time-zone=America/New_York",
            "--target=1",
            &format!("--html={}", html.display()),
            &format!("--svg={}", svg.display()),
        ],
    );
    let stdout = utf8(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{stdout}{}", utf8(&output.stderr));
    for part in [
        "Forecasts would have helped: ",
        "simulated pods with an assumed capacity were overloaded for ",
        "Forecasts are for 4m ahead (the horizon): pods are ready after 2m",
        "from 2026-01-05 00:00 to 2026-02-01 23:55 (America/New_York)",
        "   LOAD BEYOND CAPACITY\n",
        "   FORECASTS HELP\n",
        "   yes\n",
        "if the load were known",
        "Recommended setting: horizon 240s, quantile ",
        "Assumptions:\n",
    ] {
        assert!(stdout.contains(part), "no {part:?} in\n{stdout}");
    }
    let headline = stdout.lines().next().unwrap_or_default();
    assert!(headline.contains(" with target × "), "the compared row is named: {headline}");
    assert_eq!(stdout.matches('×').count(), 2, "only of the target: {stdout}");
    assert!(!stdout.contains("Forecasting"), "no name of an enum: {stdout}");
    let page = fs::read_to_string(html).unwrap();
    assert!(page.contains("The last week") && page.contains("Recommended setting"));
    let svg = fs::read_to_string(svg).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains(">With forecasts: the load, its forecast"));
}

#[test]
fn forecasts_are_compared_with_a_target_of_similar_cost() {
    let folder = tempfile::tempdir().unwrap();
    // Every load is a multiple of the target, so any lower target needs one more pod.
    let stdout = utf8(&forecast_file(&write_load(&folder, 28), &["--target=10"]).stdout);
    let headline = stdout.lines().next().unwrap_or_default();
    assert!(headline.ends_with(" more pod-hours than forecasts."), "{stdout}");
    assert!(stdout.contains("target × 0.9999"), "{stdout}");
}

#[test]
fn json_has_reason_and_comparison() {
    let folder = tempfile::tempdir().unwrap();
    let file = write_load(&folder, 28);
    let output = forecast_file(&file, &["--output=json", "--target=1", "--quantile=0.9"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["reason"], "Forecasting", "{json:#}");
    assert_eq!(json["horizonSeconds"], 240.0);
    assert_eq!(json["quantiles"].as_array().map(Vec::len), Some(1));
    let overload = |run: &str| json["comparison"][run]["overloadMinutes"].as_f64().unwrap();
    assert!(overload("forecast") < overload("lowered"), "{json:#}");
}

#[test]
fn short_load_is_reported_as_not_enough_history() {
    let folder = tempfile::tempdir().unwrap();
    let output = forecast_file(&write_load(&folder, 5), &[]);
    assert_eq!(output.status.code(), Some(1));
    let stdout = utf8(&output.stdout);
    assert!(stdout.contains("Not enough history: it covers 5d, "), "{stdout}");
    assert!(!stdout.contains("Recommended"), "{stdout}");

    let rows: Vec<_> = (0..58).map(|minute| format!("{},1", 600 + minute * 60)).collect();
    let file = folder.path().join("short.csv");
    fs::write(&file, rows.join("\n")).unwrap();
    let stdout = utf8(&forecast_file(&file, &[]).stdout);
    assert!(stdout.starts_with("Not enough history: it covers 58m, "), "{stdout}");
}

#[test]
fn missing_part_of_a_long_history_is_stated() {
    let folder = tempfile::tempdir().unwrap();
    let file = write_load(&folder, 28);
    let sentence = " % of the history is missing.";
    let forecast = || utf8(&forecast_file(&file, &["--target=1"]).stdout);
    assert!(!forecast().contains(sentence));
    let text = fs::read_to_string(&file).unwrap();
    // Leave out three days.
    let is_kept = |(line, _): &(usize, &str)| !(1000..1864).contains(line);
    let kept: Vec<&str> = text.lines().enumerate().filter(is_kept).map(|(_, text)| text).collect();
    fs::write(&file, kept.join("\n")).unwrap();
    let stdout = forecast();
    assert!(stdout.starts_with("Forecasts would have helped"), "{stdout}");
    assert!(stdout.contains(sentence), "{stdout}");
    let json = forecast_file(&file, &["--target=1", "--output=json"]).stdout;
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert!((0.1..0.12).contains(&json["missingShare"].as_f64().unwrap()), "{json:#}");
}

#[test]
fn constant_load_needs_no_forecasts() {
    let folder = tempfile::tempdir().unwrap();
    let file = write_load(&folder, 28);
    let constant = fs::read_to_string(&file).unwrap().replace(",20\n", ",60\n");
    fs::write(&file, constant).unwrap();
    let stdout = utf8(&forecast_file(&file, &[]).stdout);
    assert!(stdout.starts_with("No forecasts needed: the load never changes."), "{stdout}");
    assert!(!stdout.contains("POD-HOURS"), "{stdout}");
}

#[test]
fn column_is_chosen_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("two.csv");
    let rows: Vec<_> = (0..58).map(|minute| format!("{},1,{minute}", 600 + minute * 60)).collect();
    fs::write(&file, format!("Time,web,api\n{}", rows.join("\n"))).unwrap();
    let stderr = utf8(&forecast_file(&file, &[]).stderr);
    let problem = r#"several columns of values: set --column to one of "web", "api""#;
    assert!(stderr.contains(problem), "{stderr}");
    let stdout = utf8(&forecast_file(&file, &["--column=api"]).stdout);
    assert!(stdout.contains("a load of 0.57"), "a hundredth of the peak: {stdout}");
}

#[test]
fn error_names_file_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.csv");
    fs::write(&file, "time,load\n2026-01-05T00:00:00Z,1\n2026-01-05T00:05:00Z, many\n").unwrap();
    let output = forecast_file(&file, &[]);
    assert_eq!(output.status.code(), Some(2));
    let stderr = utf8(&output.stderr);
    let problem = r#"bad.csv: line 3: column "load": "many" is not a number of at least 0"#;
    assert!(stderr.contains(problem), "{stderr}");
    let missing = forecast_file(&folder.path().join("none.csv"), &[]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(utf8(&missing.stderr).contains("none.csv"));
}

/// The parameters of a range query.
#[derive(Deserialize)]
struct Range {
    query: String,
    start: f64,
    end: f64,
    /// Such as `60000ms`.
    step: String,
}

/// Answers with ten replicas, and 60 requests per second from 08:00 to 18:00 UTC, otherwise 20.
/// The load rises and falls in ten minutes.
async fn query_range(Form(range): Form<Range>) -> Json<Value> {
    let load = |second: f64| {
        let minute = second.rem_euclid(86_400.0) / 60.0;
        let share = (minute - 480.0).clamp(0.0, 10.0).min((1080.0 - minute).clamp(0.0, 10.0));
        20.0 + 4.0 * share
    };
    let value = |second: f64| if range.query == "sum(requests)" { load(second) } else { 10.0 };
    let step: f64 = range.step.trim_end_matches("ms").parse::<f64>().unwrap() / 1000.0;
    let times = (0..20_000).map(|index| range.start + f64::from(index) * step);
    let values = times.take_while(|second| *second <= range.end);
    let values: Vec<Value> =
        values.map(|second| json!([second, value(second).to_string()])).collect();
    let result = match range.query.as_str() {
        "sum(requests)" | "replicas" => json!([{ "metric": {}, "values": values }]),
        _ => json!([]),
    };
    Json(json!({ "status": "success", "data": { "resultType": "matrix", "result": result } }))
}

#[tokio::test(flavor = "multi_thread")]
async fn past_of_an_autoscaler_is_read_from_prometheus() {
    let routes = Router::new().route("/api/v1/query_range", any(query_range));
    let url = format!("http://{}", hpa_tests::harness::serve(routes).await);
    let folder = tempfile::tempdir().unwrap();
    let manifest = folder.path().join("hpa.json");
    let target = json!({ "type": "AverageValue", "averageValue": "1" });
    let metric = json!({ "metric": { "name": "requests" }, "target": target });
    let hpa = json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "maxReplicas": 100, "metrics": [{ "type": "External", "external": metric }],
        },
    });
    fs::write(&manifest, hpa.to_string()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_hpa"))
        .args(["forecast", "-ojson", "--replicas-query=replicas", "--load-query=sum(requests)"])
        .args(["--until=2026-02-02T00:00:00Z", "--prometheus", &url, "--filename"])
        .arg(&manifest)
        .output()
        .unwrap();
    let error = utf8(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["name"], "shop/web");
    assert_eq!(json["metric"], "requests");
    assert_eq!(json["from"], "2026-01-05T00:00:00Z");
    assert_eq!(json["reason"], "Forecasting", "{json:#}");
    let assumptions = json["assumptions"].to_string();
    assert!(assumptions.contains("no kube_pod_status_ready_time"), "{assumptions}");
}
