//! `hpa run --metrics-config`: metrics that the controller reads in process, without a metrics API,
//! from a fake Prometheus and a real one. Also tests `explain`, `lint` and `rules` with the same
//! rules.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may fail"
)]

use std::{
    collections::HashMap,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    Form, Json, Router,
    extract::Request,
    http::StatusCode,
    middleware::{self, Next},
    routing::any,
};
use hpa_testbed::{Config, Testbed};
use hpa_tests::harness::{
    NAMESPACE, REQUEST_RULES, ServedTestbed, TestbedExt, objects, prometheus_success, serve,
};
use k8s_openapi::api::{autoscaling::v2::HorizontalPodAutoscaler, core::v1::Event};
use kube::{Api, api::ListParams, runtime::wait::await_condition};
use serde_json::json;
use tokio::{
    process::{Child, Command},
    time::timeout,
};

const FLAGS: [&str; 4] = [
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--horizontal-pod-autoscaler-downscale-stabilization=0s",
    "--metrics-relist-interval=2s",
    "--metrics-max-age=1m",
];

/// Requests per second of each pod.
type RequestRate = Arc<AtomicU64>;

/// A testbed with a Deployment of two pods and its autoscaler.
struct Cluster {
    testbed: Testbed,
    served: ServedTestbed,
}

impl Cluster {
    async fn new() -> Self {
        let testbed = Testbed::new(Config::default());
        testbed.apply_all([
            objects::namespace(),
            objects::running_deployment("web", 2),
            objects::pod("web", 0),
            objects::pod("web", 1),
            objects::hpa("web", 1..=9, [objects::pods_metric("http_requests_per_second", "10")]),
        ]);
        let served = ServedTestbed::new(&testbed).await;
        Self { testbed, served }
    }

    /// Writes a file of rules. Returns its path.
    fn write_rules(&self, rules: &str) -> String {
        let path = self.served.dir.path().join("rules.yaml");
        fs::write(&path, rules).unwrap();
        path.display().to_string()
    }

    /// Runs a command. Returns standard output, followed by standard error.
    async fn run(&self, arguments: &[&str], flags: &[&str]) -> String {
        let mut command = self.served.command(env!("CARGO_BIN_EXE_hpa"), arguments);
        let output = command.args(flags).output().await.unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    }

    fn start_controller(&self, url: &str) -> Child {
        let rules = format!("--metrics-config={}", self.write_rules(REQUEST_RULES));
        let url = format!("--prometheus-url={url}");
        let mut flags = FLAGS.to_vec();
        flags.extend([&*rules, &*url]);
        self.served.start_hpa(env!("CARGO_BIN_EXE_hpa"), &flags, &[])
    }

    async fn wait_for_replicas(&self, expected: i64) {
        self.served.wait_for_replicas("web", expected).await;
    }
}

/// The rule of a resource in `resourceRules`.
const USAGE_RULE: &str = "    containerQuery: sum(c{<<.LabelMatchers>>}) by (<<.GroupBy>>)
    nodeQuery: sum(n{<<.LabelMatchers>>}) by (<<.GroupBy>>)
    resources: {template: <<.Resource>>}
    containerLabel: container
";

/// Rules for the resources `cpu` and `memory`.
fn resource_rules() -> String {
    format!("resourceRules:\n  cpu:\n{USAGE_RULE}  memory:\n{USAGE_RULE}")
}

/// Answers the query of [`REQUEST_RULES`] with the rate of each pod, and others without a sample.
fn fake_prometheus(rate: &RequestRate) -> Router {
    let rate = rate.clone();
    let name = "http_requests_total";
    let series =
        json!([{ "__name__": name, "namespace": NAMESPACE, "pod": "web-0", "code": "200" }]);
    let query = move |Form(form): Form<HashMap<String, String>>| async move {
        let expected = format!(
            "sum(rate(http_requests_total{{namespace={NAMESPACE:?},pod=~\"web-0|web-1\"}}[10s])) \
             by (pod)"
        );
        let is_expected = form.get("query") == Some(&expected);
        let value = rate.load(Ordering::SeqCst).to_string();
        let sample = |pod: &str| json!({ "metric": { "pod": pod }, "value": [1.0, value] });
        let samples = if is_expected { vec![sample("web-0"), sample("web-1")] } else { Vec::new() };
        prometheus_success(json!({ "resultType": "vector", "result": samples }))
    };
    Router::new()
        .route("/prefix/api/v1/series", any(async move || prometheus_success(series.clone())))
        .route("/prefix/api/v1/query", any(query))
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_per_second_scale_both_ways() {
    let rate = RequestRate::new(30.into());
    let prometheus = serve(fake_prometheus(&rate)).await;
    let cluster = Cluster::new().await;
    let url = format!("http://{prometheus}/prefix/");
    let _controller = cluster.start_controller(&url);
    cluster.wait_for_replicas(6).await;
    rate.store(5, Ordering::SeqCst);
    cluster.wait_for_replicas(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn first_reconcile_follows_the_discovery() {
    let rate = RequestRate::new(30.into());
    let slow_series = middleware::from_fn(async |request: Request, next: Next| {
        if request.uri().path().ends_with("/series") {
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        next.run(request).await
    });
    let prometheus = serve(fake_prometheus(&rate).layer(slow_series)).await;
    let cluster = Cluster::new().await;
    let _controller = cluster.start_controller(&format!("http://{prometheus}/prefix/"));
    cluster.wait_for_replicas(6).await;
    let events: Api<Event> = Api::namespaced(cluster.testbed.client(), NAMESPACE);
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let warnings: Vec<_> =
        events.iter().filter(|event| event.type_.as_deref() == Some("Warning")).collect();
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_refuses_the_rule_that_rules_check_reports() {
    let cluster = Cluster::new().await;
    // `run` fails before it asks the API server for the resource of the override.
    let invalid = REQUEST_RULES.to_owned()
        + "\n- seriesQuery: b\n  resources: {overrides: {s: {group: example.com, resource: s}}}\n  \
           name: {matches: '('}\n  metricsQuery: sum(<<.Series>>)\n";
    let rules = cluster.write_rules(&invalid);
    let hpa = |arguments: &[&str]| cluster.served.command(env!("CARGO_BIN_EXE_hpa"), arguments);
    let flags = ["--metrics-port=0", "--leader-elect=false", "--prometheus-url=http://127.0.0.1:9"];
    let flag = format!("--metrics-config={rules}");
    let run = hpa(&["run", &flag]).args(flags).output();
    let run = timeout(Duration::from_secs(100), run).await.expect("it ends").unwrap();
    let log = String::from_utf8(run.stderr).unwrap();
    let line = invalid.lines().position(|line| line.contains("matches: '('")).unwrap() + 1;
    let problem =
        format!("line {line}, column 19: rules[1].name.matches: `(` is not a valid regular");
    assert_eq!(run.status.code(), Some(1), "{log}");
    assert!(log.contains(&format!("--metrics-config {rules}: {problem}")), "{log}");
    // `rules check` has no cluster here to look up example.com/s.
    let with_known_resource =
        invalid.replace("example.com", "apps").replace("resource: s}", "resource: deployments}");
    cluster.write_rules(&with_known_resource);
    let mut check = Command::new(env!("CARGO_BIN_EXE_hpa"));
    let check = check.args(["rules", "check", &rules]).output().await.unwrap();
    assert!(String::from_utf8(check.stdout).unwrap().contains(&problem));
}

#[tokio::test(flavor = "multi_thread")]
async fn run_warns_of_a_relist_interval_that_is_too_short() {
    let cluster = Cluster::new().await;
    let flags = ["run", "--metrics-port=0", "--leader-elect=false", "--metrics-relist-interval=0s"];
    let mut run = cluster.served.command(env!("CARGO_BIN_EXE_hpa"), &flags);
    let run = run.arg("--metrics-config=missing.yaml").output();
    let run = timeout(Duration::from_secs(100), run).await.expect("it ends").unwrap();
    let log = String::from_utf8(run.stderr).unwrap();
    assert!(log.contains("--metrics-relist-interval is too short; using 1s"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn condition_names_the_rule_without_series() {
    let no_series = any(async move || prometheus_success(json!([])));
    let prometheus = serve(Router::new().route("/api/v1/series", no_series)).await;
    let cluster = Cluster::new().await;
    let _controller = cluster.start_controller(&format!("http://{prometheus}"));
    let described = "rules[0] of --metrics-config describes http_requests_per_second, but found no \
                     series when last listed, and reading it from a metrics API failed: ";
    let is_reported = |hpa: Option<&HorizontalPodAutoscaler>| {
        let status = hpa.and_then(|hpa| hpa.status.as_ref());
        let mut conditions = status.and_then(|it| it.conditions.as_ref()).into_iter().flatten();
        conditions.any(|it| it.message.as_ref().is_some_and(|text| text.contains(described)))
    };
    let autoscalers: Api<HorizontalPodAutoscaler> =
        Api::namespaced(cluster.testbed.client(), NAMESPACE);
    let reported = await_condition(autoscalers, "web", is_reported);
    let reported = timeout(Duration::from_secs(100), reported).await;
    reported.unwrap_or_else(|_| panic!("{}", cluster.served.log())).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_metric_of_a_rule_is_explained() {
    let url =
        format!("http://{}/prefix/", serve(fake_prometheus(&RequestRate::new(10.into()))).await);
    let cluster = Cluster::new().await;
    let external = "\nexternalRules:\n- seriesQuery: http_requests_total\n  resources: {overrides: \
                    {namespace: {resource: namespace}}}\n  metricsQuery: \
                    sum(<<.Series>>{<<.LabelMatchers>>})\n";
    let rules = cluster.write_rules(&[REQUEST_RULES, external, &resource_rules()].concat());
    let flags = ["--metrics-config", &rules, "--prometheus-url", &url];
    let explain = async |metric| {
        cluster.testbed.apply_all([objects::hpa("web", 1..=9, [metric])]);
        cluster.run(&["explain", "shop/web"], &flags).await
    };
    let text = explain(objects::pods_metric("http_requests_per_secnd", "10")).await;
    let expected = "cannot be read here: no rule of --metrics-config has http_requests_per_secnd, \
                    and reading it from a metrics API failed: ";
    assert!(text.lines().next().unwrap().contains(expected), "{text}");
    let expected = "no rule of --metrics-config has http_requests_per_secnd (similar: \
                    http_requests_per_second). ";
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("kubectl get apiservices"), "{text}");
    let text = explain(objects::external_metric("http_requests_total", "1")).await;
    let expected = "cannot be read here: no value: the query sum(http_requests_total{";
    assert!(text.lines().next().unwrap().contains(expected), "{text}");
    assert!(text.contains("in the message, that of http_requests_total, has no result"), "{text}");
    assert!(!text.contains("external.metrics.k8s.io works"), "{text}");
    let text = explain(objects::cpu_metric(50)).await;
    let expected = "To see why: hpa rules explain resource pods/cpu --name web-0 --namespace shop";
    assert!(text.contains(expected) && !text.contains("apiservices"), "{text}");
    let expected = "cannot be read here: no value: the query sum(c{";
    assert!(text.lines().next().unwrap().contains(expected), "{text}");
    let mut gpu = objects::cpu_metric(50);
    gpu["resource"]["name"] = json!("gpu");
    let text = explain(gpu).await;
    assert!(!text.contains("has gpu, but"), "rules have only cpu and memory: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_of_prometheus_is_explained_with_its_flag_or_rule() {
    let serve_query = async |status: StatusCode, body: serde_json::Value| {
        let name = "http_requests_total";
        let series = json!([{ "__name__": name, "namespace": NAMESPACE, "pod": "web-0" }]);
        let query = move || {
            let body = body.clone();
            async move { (status, Json(body)) }
        };
        let router = Router::new()
            .route("/api/v1/series", any(async move || prometheus_success(series.clone())))
            .route("/api/v1/query", any(query));
        format!("http://{}", serve(router).await)
    };
    let error = json!({ "status": "error", "errorType": "bad_data", "error": "parse error" });
    let rejecting = serve_query(StatusCode::BAD_REQUEST, error).await;
    let total = json!([{ "metric": {}, "value": [1.0, "5"] }]);
    let data = json!({ "resultType": "vector", "result": total });
    let unlabeled = json!({ "status": "success", "data": data });
    let unlabeled = serve_query(StatusCode::OK, unlabeled).await;
    let cluster = Cluster::new().await;
    let rules = cluster.write_rules(REQUEST_RULES);
    let explain = async |url: &str| {
        let flags = ["--metrics-config", &rules, "--prometheus-url", url];
        let text = cluster.run(&["explain", "shop/web"], &flags).await;
        assert!(!text.contains("kubectl get apiservices"), "{text}");
        text
    };
    let text = explain("http://127.0.0.1:1").await;
    let expected = "Check --prometheus-url http://127.0.0.1:1, or servers in the rules file.";
    assert!(text.contains(expected), "{text}");
    let text = explain(&rejecting).await;
    let expected = "Prometheus rejects the query of rules[0] for http_requests_per_second: \
                    bad_data: parse error. Correct its metricsQuery. To check it: hpa rules check ";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains(&format!(" --prometheus-url {rejecting}\n")), "{text}");
    let text = explain(&unlabeled).await;
    let expected = "A rule of --metrics-config has http_requests_per_second, but no value for a \
                    pod of the target. To see why: hpa rules explain custom \
                    pods/http_requests_per_second --name web-0 --namespace shop --config ";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains(&format!(" --prometheus-url {unlabeled}\n")), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_of_rules_are_explained_and_linted() {
    let rate = RequestRate::new(10.into());
    let url = format!("http://{}/prefix/", serve(fake_prometheus(&rate)).await);
    let cluster = Cluster::new().await;
    let rules = cluster.write_rules(REQUEST_RULES);
    let flags = ["--metrics-config", &rules, "--prometheus-url", &url];

    let text = cluster.run(&["explain", "shop/web"], &flags).await;
    let expected = "shop/web stays at 2: http_requests_per_second is at 10 per pod, target 10; \
                    within tolerance";
    assert!(text.contains(expected), "{text}");
    let without = cluster.run(&["explain", "shop/web"], &[]).await;
    assert!(without.contains("http_requests_per_second cannot be read"), "{without}");
    let needed = cluster.run(&["explain", "shop/web"], &flags[..2]).await;
    assert!(needed.contains("needs a server: add --prometheus-url"), "{needed}");

    let unserved = "spec.metrics[0]: the cluster has no API custom.metrics.k8s.io";
    let linted = cluster.run(&["lint", "-A"], &[]).await;
    assert!(linted.contains(unserved), "{linted}");
    let linted = cluster.run(&["lint", "-A"], &flags).await;
    assert!(!linted.contains(unserved) && linted.contains("1 autoscaler,"), "{linted}");
    // Files are checked against the rules alone.
    let manifest = cluster.served.dir.path().join("hpa.yaml");
    let metrics =
        [objects::pods_metric("http_requests_per_second", "10"), objects::pods_metric("no", "1")];
    fs::write(&manifest, objects::hpa("web", 1..=9, metrics).to_string()).unwrap();
    let linted = cluster.run(&["lint", &manifest.display().to_string()], &flags).await;
    let expected = "spec.metrics[1]: the metric no of pods is not in the rules file for \
                    custom.metrics.k8s.io";
    assert!(linted.contains(expected) && !linted.contains("spec.metrics[0]"), "{linted}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_per_second_of_a_real_prometheus_scale_both_ways() {
    let rate = RequestRate::new(30.into());
    let application = serve(counting_application(&rate)).await;
    let cluster = Cluster::new().await;
    let Some((_prometheus, url)) = start_prometheus(cluster.served.dir.path(), application) else {
        hpa_tests::programs::skip("prometheus", "there is no prometheus in PATH");
        return;
    };
    let _controller = cluster.start_controller(&url);
    cluster.wait_for_replicas(6).await;
    check_and_explain(&cluster, &url).await;
    rate.store(5, Ordering::SeqCst);
    cluster.wait_for_replicas(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn first_line_of_rules_explain_is_the_answer() {
    let labels = json!({ "pod": "web-0", "namespace": NAMESPACE, "container": "app" });
    let samples = json!([{ "metric": labels, "value": [1.0, "3"] }]);
    let series = json!([{ "__name__": "m", "namespace": NAMESPACE, "pod": "web-0" }]);
    let vector = json!({ "resultType": "vector", "result": samples });
    let router = Router::new()
        .route("/api/v1/series", any(async move || prometheus_success(series.clone())))
        .route("/api/v1/query", any(async move || prometheus_success(vector.clone())));
    let url = format!("http://{}", serve(router).await);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rules.yaml");
    let custom = |query: &str| {
        format!(
            "rules:\n- seriesQuery: m\n  resources: {{template: <<.Resource>>}}\n  metricsQuery: \
             {query}\n"
        )
    };
    let resource = resource_rules();
    let refused = "- seriesQuery: up\n  name: {as: other}\n  metricsQuery: <<Series>>\n";
    let refused_without_it = custom("<<.Series>>") + refused;
    let unclosed = resource.replacen("sum(n{<<.LabelMatchers>>}", "sum(n{<<.LabelMatchers}", 1);
    for (text, api, metric, expected) in [
        (&resource, "resource", "pods/cpu", "pods/cpu has values of 1 pod, by resourceRules.cpu."),
        (
            &resource,
            "resource",
            "nodes/memory",
            "nodes/memory has no value: resourceRules.memory.nodeQuery: the result has no label \
             `node`: group by (<<.GroupBy>>)",
        ),
        (
            &unclosed,
            "resource",
            "pods/cpu",
            "pods/cpu has no value: resourceRules are refused: line 4, column 16: \
             resourceRules.cpu.nodeQuery: `<<.LabelMatchers` is not closed: write \
             <<.LabelMatchers>>",
        ),
        (
            &custom("<<.Serie>>"),
            "resource",
            "pods/cpu",
            "pods/cpu has no value: the file has no resourceRules",
        ),
        (
            &custom("<<.Serie>>"),
            "custom",
            "pods/m",
            "m has no value: rules[0] (line 2, column 3) has it, but metricsQuery is wrong: \
             queries have no <<.Serie>>: did you mean <<.Series>>?",
        ),
        (
            &custom("<<Series>>"),
            "custom",
            "pods/m",
            "m isn't found: the only rule is refused: line 4, column 17: rules[0].metricsQuery: \
             the dot is missing: write <<.Series>>, not <<Series>>",
        ),
        (
            &custom("<<.Series>>"),
            "custom",
            "services/m",
            "m has no value: rules[0] (line 2, column 3) has it, but not for this resource: no \
             series has the label `service`",
        ),
        (
            &custom("<<.Series>>"),
            "custom",
            "pods/other",
            "other has no value: the only rule doesn't have it",
        ),
        (
            &refused_without_it,
            "custom",
            "pods/mm",
            "mm has no value: no rule has it; did you mean m of rules[0]?",
        ),
    ] {
        fs::write(&file, text).unwrap();
        let file = file.display().to_string();
        let mut arguments = vec!["explain", api, metric, "--config", &file];
        arguments.extend(if api == "custom" { &["-n", NAMESPACE][..] } else { &[] });
        let (output, is_found) = run_rules(&arguments, &url).await;
        let first = output.lines().next().unwrap_or_default();
        assert!(first.starts_with(expected), "{output}");
        assert!(!first.contains("template:"), "{output}");
        assert_eq!(is_found, expected.contains("has values"), "{output}");
    }
}

/// Runs `hpa rules`, and returns its output and whether it succeeded.
async fn run_rules(arguments: &[&str], url: &str) -> (String, bool) {
    let output = Command::new(env!("CARGO_BIN_EXE_hpa"))
        .arg("rules")
        .args(arguments)
        .args(["--prometheus-url", url])
        .env_clear()
        .output()
        .await
        .unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (text, output.status.success())
}

async fn check_and_explain(cluster: &Cluster, url: &str) {
    let valid = cluster.served.dir.path().join("rules.yaml").display().to_string();
    let (report, is_good) = run_rules(&["check", &valid], url).await;
    assert!(is_good, "{report}");
    assert!(report.contains("pods/http_requests_per_second <- http_requests_total"), "{report}");
    assert!(report.contains("/web-0 = "), "{report}");
    let explain = async |file: &str, metric: &str, flags: &[&str]| {
        let arguments = ["explain", "custom", metric, "--config", file];
        run_rules(&[&arguments, flags].concat(), url).await
    };
    let flags = ["-n", NAMESPACE];
    let (text, is_found) = explain(&valid, "pods/http_requests_per_second", &flags).await;
    assert!(is_found && text.contains("web-1 = "), "{text}");

    let bad = cluster.served.dir.path().join("bad.yaml");
    fs::write(&bad, MISTAKEN_RULES).unwrap();
    let bad = bad.display().to_string();
    for (metric, flags, expected) in [
        ("pods/wrong_label", &flags[..], "No series has the label `kubernetes_pod`"),
        ("pods/filtered", &flags, "seriesFilters[0].is `_sum$` doesn't match it"),
        ("ingresses/missing_override", &flags, "Add an override for the label"),
        ("pods/counter", &flags, "looks like a counter"),
        ("pods/clash", &flags, "rules[5] also has the metric, and the last rule takes precedence"),
        ("pods/counter", &[], "metrics of pods are read in a namespace: add --namespace"),
        ("pods/typo", &flags, "can't evaluate field Serie"),
        ("pods/http_requests_total", &flags, "its metric is named `counter`: request that name"),
        ("pods/absent", &flags, "Prometheus has no series for the seriesQuery `absent`"),
    ] {
        let (text, _) = explain(&bad, metric, flags).await;
        assert!(text.contains(expected), "{metric}: {text}");
    }
    let (report, is_good) = run_rules(&["check", &bad], url).await;
    assert!(!is_good && report.contains("problem: Prometheus has no such series"), "{report}");
    assert!(report.contains("  not queried, because of the mistake in the rule"), "{report}");
    assert!(!report.contains("unable to construct query: template"), "{report}");
}

/// Frequent mistakes in rules.
const MISTAKEN_RULES: &str = "
rules:
- seriesQuery: http_requests_total
  name: {as: wrong_label}
  resources: {overrides: {kubernetes_pod: {resource: pod}}}
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[10s])) by (<<.GroupBy>>)
- seriesQuery: http_requests_total
  seriesFilters: [{is: _sum$}]
  resources: {template: <<.Resource>>}
- seriesQuery: http_requests_total
  name: {as: missing_override}
  resources: {overrides: {pod: {resource: pod}}}
- seriesQuery: http_requests_total
  name: {as: counter}
  resources: {template: <<.Resource>>}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
- seriesQuery: http_requests_total
  name: {as: clash}
  resources: {template: <<.Resource>>}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
- seriesQuery: http_requests_total
  name: {as: clash}
  resources: {template: <<.Resource>>}
  metricsQuery: max(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
- seriesQuery: http_requests_total
  name: {as: typo}
  resources: {template: <<.Resource>>}
  metricsQuery: sum(<<.Serie>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
- seriesQuery: absent
  resources: {template: <<.Resource>>}
";

/// An application with a counter of requests for each pod.
fn counting_application(rate: &RequestRate) -> Router {
    let rate = rate.clone();
    let counted = Arc::new(parking_lot::Mutex::new((Instant::now(), 0.0)));
    let metrics = async move || {
        let mut counted = counted.lock();
        let rate = u32::try_from(rate.load(Ordering::SeqCst)).map_or(0.0, f64::from);
        counted.1 += counted.0.elapsed().as_secs_f64() * rate;
        counted.0 = Instant::now();
        let series = ["web-0", "web-1"].map(|pod| {
            let total = counted.1;
            format!("http_requests_total{{namespace={NAMESPACE:?},pod={pod:?}}} {total}\n")
        });
        format!("# TYPE http_requests_total counter\n{}", series.concat())
    };
    Router::new().route("/metrics", any(metrics))
}

/// Starts Prometheus, if it is installed. It scrapes the application every second.
fn start_prometheus(dir: &Path, application: SocketAddr) -> Option<(Child, String)> {
    let config = dir.join("prometheus.yml");
    let text = format!(
        "global: {{scrape_interval: 1s}}\n\
         scrape_configs: [{{job_name: app, static_configs: [{{targets: ['{application}']}}]}}]\n"
    );
    fs::write(&config, text).unwrap();
    let [port] = hpa_tests::kube_apiserver::free_ports().unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let child = Command::new("prometheus")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", dir.join("data").display()))
        .arg(format!("--web.listen-address={address}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .ok()?;
    Some((child, format!("http://{address}")))
}
