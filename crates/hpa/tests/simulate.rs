//! `hpa simulate` and `hpa recommend` as commands.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::{fs, path::PathBuf, process::Command};

use serde_json::Value;

/// Runs the program. Returns its exit status, standard output and standard error.
fn hpa(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_hpa")).args(arguments).output().expect("hpa");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn example(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/simulate");
    folder.join(name).to_string_lossy().into_owned()
}

#[test]
fn simulate_compares_variants_and_explains_their_scalings() {
    let (status, table, errors) = hpa(&["simulate", &example("tolerance.yaml"), "--steps"]);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    let mut lines = table.lines();
    let answer = "Best variant (least overload, then lowest cost): tolerance 2 % up, overloaded \
                  for 0s, at $3.31 (+1.17 %), 8.28 pod-hours.";
    assert_eq!(lines.next(), Some(answer));
    let title = lines.next().unwrap_or_default();
    assert!(title.starts_with("tolerance, ") && title.ends_with(" simulated"), "{title}");
    assert!(table.contains("\n\nVARIANT"), "{table}");
    assert!(table.contains("\n\nColumns: docs/tuning.md#columns\n"), "{table}");
    assert!(table.contains("\nbase ") && table.contains("\ntarget 75 %"), "{table}");
    assert!(table.contains("3 -> 4: cpu is at"), "{table}");
}

#[test]
fn scenario_without_a_name_has_that_of_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("my-load.yaml");
    let scenario = fs::read_to_string(example("tolerance.yaml")).expect("a scenario");
    let scenario = scenario.replacen("name: tolerance\n", "", 1);
    fs::write(&file, &scenario).expect("a scenario");
    let (status, table, errors) = hpa(&["simulate", &file.to_string_lossy(), "--variant=base"]);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    let title = table.lines().nth(1).unwrap_or_default();
    assert!(title.starts_with("my-load, ") && title.ends_with(" simulated"), "{title}");
    let input = fs::File::open(&file).expect("a scenario");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hpa"));
    let output = command.args(["simulate", "-", "--variant=base"]).stdin(input).output();
    let output = String::from_utf8(output.expect("hpa").stdout).expect("UTF-8");
    let duration = title.trim_start_matches("my-load, ");
    assert_eq!(output.lines().nth(1), Some(duration));
}

#[test]
fn names_do_not_control_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("scenario.yaml");
    let scenario = fs::read_to_string(example("tolerance.yaml")).expect("a scenario");
    let scenario = scenario.replace("target 75 %", r#""\e[31mred\u202e""#);
    fs::write(&file, scenario).expect("a scenario");
    let (status, table, _) = hpa(&["simulate", &file.to_string_lossy()]);
    assert_eq!(status, Some(0));
    assert!(table.contains("\n\\u{1b}[31mred\\u{202e}"), "{table}");
    let (_, json, _) = hpa(&["simulate", &file.to_string_lossy(), "-ojson"]);
    assert!(json.contains(r"\\u{1b}[31mred\\u{202e}"), "{json}");
}

#[test]
fn reports_need_no_other_file_and_name_every_variant() {
    let folder = tempfile::tempdir().expect("a folder");
    let (html, svg) = (folder.path().join("report.html"), folder.path().join("charts.svg"));
    let (status, json, _) = hpa(&[
        "simulate",
        &example("flapping.yaml"),
        "--variant=base",
        "--variant=window 5m",
        "-ojson",
        "--html",
        &html.to_string_lossy(),
        "--svg",
        &svg.to_string_lossy(),
    ]);
    assert_eq!(status, Some(0));
    let output: Value = serde_json::from_str(&json).expect("JSON");
    let variants = output["variants"].as_array().expect("variants");
    assert_eq!(variants.len(), 2);
    assert_eq!(output["notes"], serde_json::json!([]));
    let scalings = |index: usize| variants[index]["steps"].as_array().map(Vec::len);
    assert!(scalings(0) > scalings(1), "the base flaps: {json}");
    let page = fs::read_to_string(html).expect("a page");
    let links = ["http://", "https://", "src="];
    let links = links.into_iter().filter(|link| page.contains(link)).collect::<Vec<_>>();
    assert!(links.is_empty(), "{links:?}");
    assert!(page.contains("<h2>★ window 5m</h2>") && page.matches("<svg").count() == 2);
    assert!(fs::read_to_string(svg).expect("charts").starts_with("<svg xmlns="));
}

#[test]
fn page_starts_with_the_answer_and_notes_samples_that_are_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let scenario = fs::read_to_string(example("flapping.yaml")).expect("a scenario");
    let (start, rest) = scenario.split_once("    sum:\n").expect("a load");
    let (_, end) = rest.split_once("metrics:\n").expect("metrics");
    let scenario = format!("{start}    samples: {{file: load.csv}}\nmetrics:\n{end}");
    fs::write(path("scenario.yaml"), scenario).expect("a scenario");
    fs::write(path("load.csv"), "time,load\n0s,300\n2h,400\n4h,300\n6h,300\n").expect("samples");
    let page = path("page.html");
    let (status, text, errors) =
        hpa(&["simulate", &path("scenario.yaml"), "--variant=base", "--html", &page]);
    assert_eq!(status, Some(0), "{errors}");
    let page = fs::read_to_string(page).expect("a page");
    let answer = text.lines().next().expect("the answer");
    assert!(page.contains(&format!("<h1>flapping</h1>\n<p>{answer}</p>\n")), "{page}");
    assert!(page.contains("after 2h are left out (duration).</p>"), "{page}");
}

#[test]
fn errors_name_file_line_and_field() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("scenario.yaml");
    let text = fs::read_to_string(example("flapping.yaml")).expect("the example");
    fs::write(&file, text.replace("cpuPerUnit", "cpuPerUnits")).expect("a file");
    let (status, _, errors) = hpa(&["simulate", &file.to_string_lossy()]);
    assert_eq!(status, Some(1));
    assert!(errors.contains("yaml: line 26, column 5: workload.profile.cpuPerUnits:"), "{errors}");
    let (status, _, errors) = hpa(&["simulate", &example("flapping.yaml"), "--variant=none"]);
    assert_eq!(status, Some(1));
    assert!(errors.contains("no variant \"none\": there are base, window 5m"), "{errors}");
}

#[test]
fn schema_is_printed() {
    let (status, schema, _) = hpa(&["simulate", "--schema"]);
    assert_eq!(status, Some(0));
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    assert!(schema["properties"]["workload"].is_object());
}

#[test]
fn suggestion_is_better_than_the_default_behavior() {
    let arguments = ["--candidates=60", "--seeds=1", "--load-factors=1", "-ojson"];
    let file = example("metric-outage.yaml");
    let (_, json, errors) = hpa(&[&["recommend", &file], &arguments[..]].concat());
    let found: Value = serde_json::from_str(&json).unwrap_or_else(|_| panic!("{errors}"));
    let number = |path: &str| found.pointer(path).and_then(Value::as_f64).expect("a number");
    let (cost, risk) = (number("/defaultBehavior/podHours"), number("/defaultBehavior/risk"));
    let (new_cost, new_risk) =
        (number("/suggested/score/podHours"), number("/suggested/score/risk"));
    assert!(
        new_risk < risk || new_risk <= risk + 1e-4 && new_cost < cost,
        "{cost} {risk} -> {new_cost} {new_risk}"
    );
    let front = found["front"].as_array().expect("the front");
    let risks: Vec<f64> = front.iter().filter_map(|one| one["score"]["risk"].as_f64()).collect();
    assert!(risks.is_sorted_by(|one, other| one >= other), "{risks:?}");
    let again = hpa(&[&["recommend", &file], &arguments[..]].concat());
    assert_eq!(again.1, json, "the same seed gives the same suggestion");
    let patch = &found["suggested"]["patch"];
    assert!(patch["spec"].is_object(), "{patch}");
}

#[test]
fn patch_is_for_the_resource_and_the_namespace_of_the_scenario() {
    let scenario = fs::read_to_string(example("metric-outage.yaml")).expect("an example");
    let dir = tempfile::tempdir().expect("a directory");
    let scenario = format!("caution: 'Trust: none.'\n{scenario}");
    let command = |api_version: &str, metadata: &str| {
        let path = dir.path().join("scenario.yaml");
        let scenario = scenario.replace("metadata: {name: web}", metadata);
        let scenario = scenario.replacen("autoscaling/v2", api_version, 1);
        fs::write(&path, scenario).expect("a file");
        let path = path.display().to_string();
        let few = ["--candidates=20", "--seeds=1", "--load-factors=1"];
        let (_, text, errors) = hpa(&[&["recommend", &path], &few[..]].concat());
        assert!(text.starts_with("Trust: none. Suggestion"), "{text}");
        let line = text.lines().find(|line| line.starts_with("kubectl "));
        line.unwrap_or_else(|| panic!("{text}{errors}")).to_owned()
    };
    let patch = "kubectl patch hpa web --type merge -p '{";
    assert!(command("autoscaling/v2", "metadata: {name: web}").starts_with(patch));
    let custom = command("autoscaling.hpa-rs.dev/v2", "metadata: {name: web}");
    assert!(custom.starts_with("kubectl patch rhpa web --type merge -p '{"), "{custom}");
    let patch = "kubectl patch hpa web -n shop --type merge -p '{";
    let shop = command("autoscaling/v2", "metadata: {name: web, namespace: shop}");
    assert!(shop.starts_with(patch), "{shop}");
}

#[test]
fn error_of_recommend_has_exit_status_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("none.yaml");
    let (status, _, errors) = hpa(&["recommend", &missing.to_string_lossy()]);
    assert_eq!(status, Some(2), "{errors}");
    assert!(errors.contains("none.yaml"), "{errors}");
    let file = folder.path().join("scenario.yaml");
    let scenario = fs::read_to_string(example("tolerance.yaml")).expect("a scenario");
    let check_error = |from: &str, to: &str, expected: &str| {
        fs::write(&file, scenario.replace(from, to)).expect("a scenario");
        let (status, _, errors) = hpa(&["recommend", &file.to_string_lossy()]);
        assert!(status == Some(2) && errors.ends_with(expected), "{status:?} {errors}");
    };
    let expected = "scenario.yaml: the scenario lacks metrics of the autoscaler: gpu\n";
    check_error("name: cpu", "name: gpu", expected);
    let expected = "scenario.yaml: the autoscaler never decided: autoscaling is off because the \
                    target is at 0 replicas\n";
    check_error("  replicas: 3\n", "  replicas: 0\n", expected);
    let paused = "metadata: {name: api, annotations: {autoscaling.hpa-rs.dev/pause: 'true'}}";
    let expected = "scenario.yaml: the autoscaler is paused or in a dry run: remove that setting \
                    from the scenario\n";
    check_error("metadata: {name: api}", paused, expected);
}
