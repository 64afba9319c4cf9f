//! Charts, HTML pages and answers of runs.

use hpa_calc::explain::is_format;
use rstest::rstest;

use super::{RecordedReplicas, html, svg};
use crate::{
    file::ScenarioFile,
    measure::Rescales,
    run::{Problem, RunOptions},
};

fn scenario(rest: &str) -> ScenarioFile {
    let text = format!(
        "
name: shop
duration: 30m
autoscaler:
  metadata: {{name: web}}
  spec:
    scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: web}}
    minReplicas: 2
    maxReplicas: 10
workload:
  profile: {{cpuRequest: 100m, cpuPerUnit: 1m, capacity: 100}}
  load: {{steps: [{{at: 0, value: 100}}, {{at: 5m, value: 500}}]}}
{rest}
"
    );
    ScenarioFile::parse_alone(&text).unwrap()
}

fn run(scenario_file: &ScenarioFile) -> Vec<super::VariantRun> {
    let options = RunOptions { records_timeline: true, on_hour: None };
    let run = |variant: &crate::Variant| (variant.clone(), variant.run_with(options));
    scenario_file.variants.iter().map(run).collect()
}

/// The texts of `<text>` elements.
fn texts(page: &str) -> Vec<&str> {
    let texts = page.split("<text").skip(1).filter_map(|part| part.split_once('>'));
    texts.filter_map(|(_, text)| text.split('<').next()).collect()
}

#[test]
fn axis_has_the_unit_of_the_load() {
    let scenario_file = scenario("loadUnit: 'requests <GET>'");
    let page = html(&scenario_file, &run(&scenario_file), None);
    assert!(texts(&page).contains(&"load and capacity (requests &lt;GET&gt;)"), "{page}");
    let scenario_file = scenario("");
    let chart = svg(&run(&scenario_file));
    assert!(texts(&chart).contains(&"load and capacity (units per second)"), "{chart}");
}

#[rstest]
#[case::of_the_controller("", "30s")]
#[case::of_the_autoscaler("annotations: {autoscaling.hpa-rs.dev/sync-period: 5s}, ", "5s")]
fn page_has_the_sync_period_of_the_simulation(#[case] annotations: &str, #[case] expected: &str) {
    let text = format!(
        "
duration: 5m
controller: {{syncPeriod: 30s}}
autoscaler:
  metadata: {{{annotations}name: web}}
  spec:
    scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: web}}
    maxReplicas: 10
workload:
  profile: {{cpuRequest: 100m, cpuPerUnit: 1m, capacity: 100}}
  load: {{constant: 1}}
"
    );
    let scenario_file = ScenarioFile::parse_alone(&text).unwrap();
    let page = html(&scenario_file, &run(&scenario_file), None);
    assert!(page.contains(&format!("sync period {expected}, seed")), "{page}");
}

#[test]
fn every_line_has_a_label_with_a_swatch_of_its_stroke() {
    let scenario_file = scenario("");
    let results = run(&scenario_file);
    let recorded =
        RecordedReplicas { step: 60.0, values: vec![Some(3.0); 31], ..RecordedReplicas::default() };
    let page = html(&scenario_file, &results, Some(&recorded));
    for (class, label) in [
        ("load", "load"),
        ("cap", "capacity"),
        ("rep", "replicas"),
        ("past", "recorded replicas"),
        ("ready", "ready pods"),
        ("rec", "recommended"),
        ("limit", "min 2"),
        ("limit", "max 10"),
    ] {
        let drawn = page.matches(&format!("<path class=\"{class}\"")).count();
        assert_eq!(drawn, usize::from(class != "limit"), "{class}");
        let swatch = format!("<line class=\"{class}\"");
        let mut labels = page.split(&swatch).skip(1).filter_map(|part| part.split_once("</text>"));
        assert!(labels.any(|(text, _)| text.ends_with(&format!(">{label}"))), "{label}");
        let style = format!(".chart .{class}{{stroke:");
        assert!(page.contains(&style), "{class}");
    }
}

#[test]
fn recorded_replicas_are_drawn_with_their_gaps_and_described() {
    let scenario_file = scenario("");
    let results = run(&scenario_file);
    let mut values = vec![Some(2.0); 10];
    values.extend([None; 10]);
    // Rounded to 14.
    values.extend([Some(13.6); 11]);
    let recorded =
        RecordedReplicas { step: 60.0, values, start: "2026-11-22T17:00:00Z".parse().unwrap() };
    let page = html(&scenario_file, &results, Some(&recorded));
    let path = page.split("class=\"past\" d=\"").nth(1).unwrap().split('"').next().unwrap();
    let parts: Vec<&str> = path.split('M').skip(1).collect();
    let [before, after] = parts[..] else { panic!("{path}") };
    // The gap is from minute 10 to 20 of 30, on 720 pixels from x = 56 on.
    assert!(before.starts_with("56.0 ") && before.ends_with("H296.0"), "{path}");
    assert!(after.starts_with("536.0 ") && after.ends_with("H776.0"), "{path}");
    let text = page.split("aria-label=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(text.ends_with("Recorded replicas 2 to 14."), "{text}");
    assert!(texts(&page).contains(&"17:05"), "{page}");
    assert!(page.contains("<td class=\"n\">2026-11-22 17:"), "{page}");
    assert!(!html(&scenario_file, &results, None).contains("class=\"past\""));
}

#[test]
fn labels_do_not_overlap_and_are_beside_their_plot() {
    let scenario_file = scenario("");
    let mut results = run(&scenario_file);
    let problem = Problem { from: 0.0, to: 60.0, sentence: "no metrics".to_owned() };
    results[0].1.problems.push(problem);
    let chart = svg(&results);
    let number = |text: &str, name: &str| -> f64 {
        text.split_once(&format!("{name}=\""))
            .unwrap()
            .1
            .split('"')
            .next()
            .unwrap()
            .parse()
            .unwrap()
    };
    let labels = chart.split("<text").skip(1).filter(|text| number(text, "x") > 776.0);
    let mut heights: Vec<f64> =
        labels.filter(|text| !text.contains("soft")).map(|text| number(text, "y")).collect();
    // The upper plot has labels for load, capacity and two areas, the lower plot for replicas,
    // ready, recommended, min and max.
    assert_eq!(heights.len(), 9, "{chart}");
    heights.sort_by(f64::total_cmp);
    assert!(heights.windows(2).all(|pair| pair[1] - pair[0] > 13.9), "{heights:?}");
    assert!(heights[3] < 165.0 && heights[8] < 340.0, "{heights:?}");
}

#[test]
fn chart_has_an_accessible_description_of_its_run() {
    let scenario_file = scenario("");
    let results = run(&scenario_file);
    let chart = svg(&results);
    let (_, run) = &results[0];
    let text = chart.split("aria-label=\"").nth(1).unwrap().split('"').next().unwrap();
    let replicas = format!("Replicas 2 to {}, ", run.outcome.replicas.max);
    let scalings = format!("of at least 2 and at most 10; {} scalings.", run.steps.len());
    assert!(text.starts_with("base over 30m. Load 100 to 500, capacity 200 to "), "{text}");
    assert!(text.contains(&replicas) && text.contains(&scalings), "{text}");
}

#[test]
fn legend_explains_the_columns_that_the_table_has() {
    let scenario_file = scenario("");
    let page = html(&scenario_file, &run(&scenario_file), None);
    assert!(page.contains("<th>LATENCY P99</th>") && page.contains("LATENCY P99: "));
    assert!(!page.contains("WAIT P99"), "there is no queue: {page}");
}

#[test]
fn long_tables_of_scalings_are_printed_only_if_open() {
    let scenario_file = scenario("");
    let mut results = run(&scenario_file);
    assert!(!html(&scenario_file, &results, None).contains("printed if open"));
    let step = results[0].1.steps[0].clone();
    results[0].1.steps = vec![step; 201];
    let page = html(&scenario_file, &results, None);
    assert!(page.contains("<details class=\"long\">") && page.contains("(printed if open)"));
    assert!(!page.contains("class=\"mark\""), "more marks can't be distinguished");
}

#[test]
fn headers_of_tables_are_repeated_on_every_printed_page() {
    let scenario_file = scenario("");
    let page = html(&scenario_file, &run(&scenario_file), None);
    let tables: Vec<_> = page.split("<table>").skip(1).map(str::trim_start).collect();
    assert_eq!(tables.len(), 2);
    assert!(tables.iter().all(|table| table.starts_with("<thead><tr><th>")), "{page}");
}

#[test]
fn control_and_format_characters_are_escaped_in_pages_and_charts() {
    let mut scenario_file = scenario("variants:\n- {name: other, patch: {duration: 10m}}");
    let hostile = "a\u{1b}[31m\u{202e}b\nc";
    scenario_file.description = hostile.to_owned();
    for variant in &mut scenario_file.variants {
        (variant.description, variant.load_unit) = (hostile.to_owned(), hostile.to_owned());
    }
    let results = run(&scenario_file);
    let (page, charts) = (html(&scenario_file, &results, None), svg(&results));
    let is_raw = |c: char| (c.is_control() && c != '\n') || is_format(c);
    assert!(!page.contains(is_raw) && !charts.contains(is_raw), "{page}\n{charts}");
    let paragraphs = "<p>a\\u{1b}[31m\\u{202e}b</p>\n<p>c</p>\n";
    assert_eq!(page.matches(paragraphs).count(), 3, "{page}");
    assert!(charts.contains("other: a\\u{1b}[31m\\u{202e}b c</text>"), "{charts}");
}

#[test]
fn long_word_breaks_in_pages() {
    let scenario_file = scenario("");
    let page = html(&scenario_file, &run(&scenario_file), None);
    assert!(page.contains("\nh1,h2,p,td{overflow-wrap:anywhere}\n"), "{page}");
}

#[test]
fn variant_without_overload_is_better_than_a_cheaper_one_with_some() {
    let scenario_file = scenario("variants:\n- {name: other, patch: {duration: 10m}}");
    let mut results = run(&scenario_file);
    for (index, share, seconds, pod_hours) in [(0, 9e-7, 16.0, 1.0), (1, 0.0, 0.0, 2.0)] {
        let outcome = &mut results[index].1.outcome;
        (outcome.overload.share_of_load, outcome.overload.seconds) = (share, seconds);
        (outcome.pod_hours, outcome.cost) = (pod_hours, pod_hours);
    }
    assert_eq!(super::table::best_index(&results), Some(1));
    results[1].1.outcome.overload.seconds = 1.0;
    assert_eq!(super::table::best_index(&results), Some(0));
}

#[test]
fn slow_variant_is_worse_than_an_expensive_one_and_the_answer_has_its_latency() {
    let scenario_file = scenario("variants:\n- {name: small, patch: {duration: 10m}}");
    let mut results = run(&scenario_file);
    for (index, seconds, pod_hours, p99) in [(0, 1.0, 2.0, 3.0), (1, 0.0, 1.0, 100.0)] {
        let outcome = &mut results[index].1.outcome;
        (outcome.overload.share_of_load, outcome.overload.seconds) = (0.0, seconds);
        outcome.pod_hours = pod_hours;
        outcome.rescales = Rescales::default();
        outcome.latency.as_mut().unwrap().p99 = p99;
    }
    let expected = "Best variant (least overload, p99 latency up to 10×, then fewest pod-hours): \
                    base, overloaded for 1s, at 2 pod-hours.";
    assert_eq!(super::answer_sentence(&results), expected);
    results[0].1.outcome.latency.as_mut().unwrap().p99 = 100.0;
    let expected = "Best variant (least overload, then fewest pod-hours): small, overloaded for \
                    0s, with a p99 latency of 100×, at 1 pod-hours (−50 %).";
    assert_eq!(super::answer_sentence(&results), expected);
}

#[test]
fn answer_has_the_cost_if_there_are_prices() {
    let scenario_file = scenario("variants:\n- {name: other, patch: {duration: 10m}}");
    let mut results = run(&scenario_file);
    for (index, pod_hours, price) in [(0, 25.3, 0.08), (1, 98.9, 0.01)] {
        let (variant, run) = &mut results[index];
        variant.cost.per_pod_hour = price;
        variant.cost.currency = "$".to_owned();
        let outcome = &mut run.outcome;
        (outcome.overload.share_of_load, outcome.overload.seconds) = (0.0, 0.0);
        (outcome.pod_hours, outcome.cost) = (pod_hours, pod_hours * price);
        (outcome.latency, outcome.rescales) = (None, Rescales::default());
    }
    let legend = "come first, then those without any overload, then those with the lowest cost.";
    assert!(html(&scenario_file, &results, None).contains(legend));
    let best = "Best variant (least overload, then lowest cost):";
    let expected = format!("{best} other, overloaded for 0s, at $0.99 (−51.1 %), 98.9 pod-hours.");
    assert_eq!(super::answer_sentence(&results), expected);
    results[1].0.cost.per_pod_hour = 0.0;
    let legend =
        "come first, then those without any overload, then those with the fewest pod-hours.";
    assert!(html(&scenario_file, &results, None).contains(legend));
    let best = "Best variant (least overload, then fewest pod-hours):";
    for (up, reversals, text) in
        [(40, 59, "with 59 reversals in 74 scalings"), (1, 1, "with 1 reversal in 35 scalings")]
    {
        results[0].1.outcome.rescales = Rescales { up, down: 34, reversals };
        let expected = format!("{best} base, overloaded for 0s, at 25.3 pod-hours, {text}.");
        assert_eq!(super::answer_sentence(&results), expected);
    }
}

#[test]
fn answer_and_page_start_with_the_caution_of_the_scenario() {
    let scenario_file = scenario("caution: \"Trust:\\nnone.\"");
    let results = run(&scenario_file);
    let answer = super::answer_sentence(&results);
    assert!(answer.starts_with("Trust:\\nnone. "), "{answer}");
    let page = html(&scenario_file, &results, None);
    assert!(page.contains("<p>Trust:\\nnone.</p>\n<p>Simulated: "), "{page}");
}

#[test]
fn answer_starts_with_the_variants_that_are_paused() {
    let annotations = "{annotations: {autoscaling.hpa-rs.dev/pause: 'true'}}";
    let patch = format!("patch: {{autoscaler: {{metadata: {annotations}}}}}");
    let results = run(&scenario(&format!("variants:\n- {{name: paused, {patch}}}\n")));
    let answer = super::answer_sentence(&results);
    let expected = "The autoscaler has a pause or a dry run (variant paused), so it doesn't scale ";
    assert!(answer.starts_with(expected), "{answer}");
    assert_eq!(super::pause_sentence(&results[..1]), None);
}

#[test]
fn answer_starts_with_the_settings_that_have_no_effect() {
    let annotations = |value: &str| {
        let annotation = format!("{{autoscaling.hpa-rs.dev/downscale-stabilization: {value}}}");
        format!("patch: {{autoscaler: {{metadata: {{annotations: {annotation}}}}}}}")
    };
    let scenario_file = scenario(&format!(
        "variants:\n- {{name: without unit, {}}}\n- {{name: valid, {}}}\n",
        annotations("'60'"),
        annotations("60s")
    ));
    let results = run(&scenario_file);
    let expected = "A setting has no effect (variant without unit): annotation \
                    autoscaling.hpa-rs.dev/downscale-stabilization must be ";
    let answer = super::answer_sentence(&results);
    assert!(answer.starts_with(expected), "{answer}");
    assert!(answer.contains(", ignored. Best variant"), "{answer}");
    assert_eq!(super::ineffective_settings_sentence(&results[2..]), None);
}

#[test]
fn answer_starts_with_the_metrics_that_the_scenario_lacks() {
    let metric = |kind: &str, source: &str| {
        format!("patch: {{autoscaler: {{spec: {{metrics: [{{type: {kind}, {source}}}]}}}}}}")
    };
    let queue =
        "external: {metric: {name: queue}, target: {type: AverageValue, averageValue: '5'}}";
    let rps = "pods: {metric: {name: rps}, target: {type: AverageValue, averageValue: '5'}}";
    let gpu = "resource: {name: gpu, target: {type: AverageValue, averageValue: '5'}}";
    let variants = format!(
        "externalMetrics:\n- {{metric: lag, value: {{curve: {{constant: 1}}}}}}\nvariants:\n\
         - {{name: queue, {}}}\n- {{name: lag, {}}}\n- {{name: rps, {}}}\n- {{name: gpu, {}}}\n",
        metric("External", queue),
        metric("External", &queue.replace("queue", "lag")),
        metric("Pods", rps),
        metric("Resource", gpu),
    );
    let results = run(&scenario(&variants));
    let absent = results.iter().map(|(_, run)| run.absent_metrics.join(" ")).collect::<Vec<_>>();
    assert_eq!(absent, ["", "queue", "", "rps", "gpu"]);
    let answer = |range: std::ops::Range<usize>| super::answer_sentence(&results[range]);
    let single = answer(1..2);
    let expected = "queue isn't in the scenario, so nothing can scale on it. The pods were ";
    assert!(single.starts_with(expected), "{single}");
    let one = answer(0..2);
    let expected = "queue isn't in the scenario (variant queue), so nothing can scale on it. Best";
    assert!(one.starts_with(expected), "{one}");
    let all = answer(0..5);
    let expected = "gpu and queue and rps aren't in the scenario (variants queue, rps, gpu), so \
                    nothing can scale on them. Best variant";
    assert!(all.starts_with(expected), "{all}");
    let none = answer(0..1);
    assert!(none.starts_with("The pods were "), "{none}");
}

#[rstest]
#[case::request_of_a_sidecar(
    "workload: {profile: {sidecars: [{name: s}]}}",
    "cpu cannot be read: missing request for cpu in container s of Pod web-"
)]
#[case::request_of_zero("workload: {profile: {cpuRequest: 0}}", "cpu cannot be read: ")]
#[case::zero_replicas(
    "workload: {replicas: 0}",
    "autoscaling is off because the target is at 0 replicas"
)]
fn answer_starts_with_the_reason_if_the_autoscaler_never_decided(
    #[case] patch: &str,
    #[case] problem: &str,
) {
    let scenario_file = scenario(&format!("variants:\n- name: other\n  patch: {{{patch}}}\n"));
    let results = run(&scenario_file);
    let [(_, base), (_, other)] = &results[..] else { panic!("{results:?}") };
    assert!(base.reconciles.decided > 0 && !base.reconciles.never_decided());
    assert!(other.reconciles.never_decided(), "{:?}", other.reconciles);
    let expected = format!("The autoscaler never decided: {problem}");
    let answer = super::answer_sentence(&results[1..]);
    assert!(answer.starts_with(&expected), "{answer}");
    let expected = format!("The autoscaler never decided (variant other): {problem}");
    let answer = super::answer_sentence(&results);
    assert!(answer.starts_with(&expected), "{answer}");
}

#[test]
fn answer_has_the_share_of_failed_reconciles_unless_it_is_small() {
    let outage = |minutes: u32| {
        let incident = format!("{{kind: metricsOutage, at: 10m, for: {minutes}m}}");
        let results = run(&scenario(&format!("incidents: [{incident}]")));
        (results[0].1.reconciles.failed_share(), super::answer_sentence(&results))
    };
    let (share, answer) = outage(15);
    assert!((0.45..0.55).contains(&share), "{share}");
    let expected = format!(
        "The autoscaler could not decide in {} of the reconciles: cpu cannot be read: ",
        super::percent(share)
    );
    assert!(answer.starts_with(&expected), "{answer}");
    let (_, answer) = outage(1);
    assert!(answer.starts_with("The pods were "), "{answer}");
}

#[test]
fn charts_share_their_axes_and_the_best_variant_has_a_star() {
    let scenario_file = scenario(
        "variants:\n- {name: large, patch: {autoscaler: {spec: {minReplicas: 9}}}}\n\
         - {name: small, patch: {autoscaler: {spec: {maxReplicas: 2}}}}",
    );
    let results = run(&scenario_file);
    let overload = |index: usize| results[index].1.outcome.overload.share_of_load;
    assert!(overload(1) < 1e-4 && overload(0) > 1e-4 && overload(2) > overload(0));
    let page = html(&scenario_file, &results, None);
    assert!(page.contains("<tr class=\"best\"><td>★ large</td>"), "{page}");
    assert!(page.contains("<h2>★ large</h2>") && !page.contains("★ small"));
    assert!(svg(&results).contains(">★ large<"));
    let axes: Vec<Vec<&str>> = page
        .split("<svg class=\"chart\"")
        .skip(1)
        .map(|chart| texts(chart).into_iter().filter(|text| text.parse::<f64>().is_ok()).collect())
        .collect();
    assert_eq!(axes.len(), 3);
    assert!(axes.windows(2).all(|pair| pair[0] == pair[1]), "{axes:?}");
    assert!(
        !html(&scenario_file, &results[..1], None).contains('★'),
        "there is nothing to compare"
    );
}
