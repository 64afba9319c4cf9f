//! Output and exit status of `hpa lint` on files and on the testbed, of `hpa convert` on files, and
//! of `hpa rules check` and `hpa rules compare` on standard input.

#![allow(clippy::expect_used, clippy::panic, reason = "a test may fail")]

use std::{
    fs, io,
    path::Path,
    process::{Command, Output},
    sync::Arc,
};

use hpa_testbed::{Config, Effect, Fault, Faults, Match, Testbed};
use hpa_tests::harness::{NAMESPACE, ServedTestbed, TestbedExt, objects};
use serde_json::json;

const VALID: &str = "\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 5
";

/// Standard output, standard error and the exit status.
fn texts_and_status(output: io::Result<Output>) -> (String, String, Option<i32>) {
    let output = output.expect("the program runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (text(output.stdout), text(output.stderr), output.status.code())
}

/// Runs a command with `input` as standard input. Returns standard output, standard error and the
/// exit status.
fn run_with_input(arguments: &[&str], input: &str) -> (String, String, Option<i32>) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("input");
    fs::write(&path, input).expect("a file");
    let input = fs::File::open(&path).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hpa"));
    texts_and_status(command.args(arguments).stdin(input).output())
}

#[test]
fn rules_are_checked_from_standard_input() {
    let rules = "externalRules: [{seriesQuery: up, metricsQuery: up, resources: {namespaced: \
                 false}}]\n";
    let (output, errors, status) = run_with_input(&["rules", "check", "-"], rules);
    assert!(
        output.starts_with("standard input: no problems (1 external rule)\n"),
        "{output}{errors}"
    );
    assert_eq!(status, Some(0));
    let check =
        |url: &str| run_with_input(&["rules", "check", "-", "--prometheus-url", url], rules);
    let (_, _, status) = check("http://127.0.0.1:1");
    assert_eq!(status, Some(2));
    let (_, errors, status) = check("prometheus:9090");
    assert!(errors.contains("it must start with http:// or https://"), "{errors}");
    assert_eq!(status, Some(2));
    let (_, errors, status) = run_with_input(&["rules", "check", "-"], "rule: []\n");
    assert!(errors.contains("standard input: line 1, column 1: unknown field"), "{errors}");
    assert_eq!(status, Some(1));
}

#[test]
fn comparison_of_a_server_with_itself_has_a_warning() {
    // Nothing listens on the port.
    let url = "http://127.0.0.1:1";
    let compare = ["rules", "compare", "--left", url, "--right", url, "-f", "-"];
    let (_, errors, _) = run_with_input(&compare, "kind: Pod\n");
    let expected = "hpa: --left and --right are the same server: it is compared with itself\n";
    assert!(errors.starts_with(expected), "{errors}");
}

/// Runs `hpa lint` in a directory. Returns standard output, standard error and the exit status.
fn lint_files(directory: &Path, arguments: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hpa"));
    texts_and_status(command.current_dir(directory).arg("lint").args(arguments).output())
}

#[test]
fn unreadable_file_does_not_hide_the_findings_of_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).expect(name);
    write("a.yaml", &VALID.replace("maxReplicas: 5", "maxReplicas: 2"));
    write("b.yaml", "kind: HorizontalPodAutoscaler\nspec: {{ toYaml .Values.spec }}\n");
    write("c.yaml", "a: [\n");
    fs::create_dir(directory.path().join("nested")).expect("a directory");
    write("nested/d.yaml", &VALID.replace("maxReplicas", "maxReplica"));
    let (output, errors, status) = lint_files(directory.path(), &["-R", "."]);
    assert_eq!(status, Some(2), "{output}{errors}");
    assert!(output.contains("./a.yaml:6: warning: web: spec.minReplicas: "), "{output}");
    assert!(output.contains("./nested/d.yaml:7: error: web: spec.maxReplica: unknown"), "{output}");
    assert!(output.contains("\n2 autoscalers, "), "{output}");
    assert!(errors.contains("hpa: ./b.yaml:1: this is a template: render it first"), "{errors}");
    assert!(errors.contains("hpa: ./c.yaml:"), "{errors}");
    let (output, _, status) = lint_files(directory.path(), &["a.yaml"]);
    assert_eq!(status, Some(1), "{output}");
    let (output, _, status) = lint_files(directory.path(), &["a.yaml", "--warnings-as-notes"]);
    assert_eq!(status, Some(0), "{output}");
}

#[test]
fn unreachable_prometheus_is_a_problem_and_no_finding() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).expect(name);
    let metric =
        "{type: External, external: {metric: {name: lag}, target: {type: Value, value: 1}}}";
    write("web.yaml", &format!("{VALID}  metrics: [{metric}]\n"));
    let rule =
        "{seriesQuery: lag, metricsQuery: 'sum(<<.Series>>)', resources: {namespaced: false}}";
    write("rules.yaml", &format!("externalRules: [{rule}]\n"));
    // Nothing listens on the port of a closed socket.
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", socket.local_addr().expect("its address"));
    drop(socket);
    let (output, errors, status) = lint_files(
        directory.path(),
        &["web.yaml", "--metrics-config=rules.yaml", "--prometheus-url", &url],
    );
    assert_eq!(
        output, "1 autoscaler, 1 input not checked (see stderr), 0 warnings, 0 notes\n",
        "{errors}"
    );
    let expected =
        "hpa: --metrics-config rules.yaml: unable to discover the series of externalRules[0]";
    assert!(errors.starts_with(expected) && errors.contains("was not checked"), "{errors}");
    assert_eq!(status, Some(2));
    let (_, errors, _) = lint_files(directory.path(), &["web.yaml", "--prometheus-url", &url]);
    assert!(errors.contains("--prometheus-url has no effect"), "{errors}");
    let flags = ["web.yaml", "--external-rps-metrics=true"];
    let (_, errors, _) = lint_files(directory.path(), &flags);
    let expected = "hpa: --external-rps-metrics has no effect without --collectors\n";
    assert!(errors.contains(expected), "{errors}");
}

#[test]
fn missing_file_is_named_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let (output, errors, status) = lint_files(directory.path(), &["none.yaml"]);
    assert_eq!(output, "", "nothing was checked");
    assert_eq!(errors.matches("none.yaml").count(), 1, "{errors}");
    assert_eq!(status, Some(2));
}

#[test]
fn file_without_an_autoscaler_is_an_error_that_names_its_kinds() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("f.yaml"), "kind: Service\n---\nkind: Foo\n").expect("f");
    let (_, errors, status) = lint_files(directory.path(), &["f.yaml"]);
    let expected = "hpa: f.yaml: no HorizontalPodAutoscaler, found 1 Foo, 1 Service\n";
    assert_eq!((errors.as_str(), status), (expected, Some(2)));
    let (_, errors, status) = run_with_input(&["lint", "-"], "kind: Service\n");
    let expected = "hpa: standard input: no HorizontalPodAutoscaler, found 1 Service\n";
    assert_eq!((errors.as_str(), status), (expected, Some(2)));
}

#[test]
fn file_to_convert_is_an_argument_a_flag_or_standard_input() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("web.yaml");
    fs::write(&path, VALID).expect("a file");
    let convert = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hpa"));
        command.current_dir(directory.path()).arg("convert").args(arguments);
        let input = fs::File::open(&path).expect("a file");
        texts_and_status(command.stdin(input).output())
    };
    let converted = VALID.replace("autoscaling/v2", "autoscaling.hpa-rs.dev/v2");
    for arguments in [["web.yaml"].as_slice(), &["-f", "web.yaml"], &["-"], &[]] {
        assert_eq!(
            convert(arguments),
            (converted.clone(), String::new(), Some(0)),
            "{arguments:?}"
        );
    }
    let (_, errors, status) = convert(&["web.yaml", "-f", "web.yaml"]);
    assert!(errors.contains("cannot be used with") && status == Some(2), "{errors}");
    let (output, errors, status) = convert(&["none.yaml"]);
    assert_eq!((output.as_str(), status), ("", Some(1)), "{errors}");
    assert!(errors.contains("none.yaml"), "{errors}");
}

#[test]
fn convert_warns_of_annotations_that_stay_without_effect() {
    let metadata = "\n  name: web\n  annotations: {autoscaling.hpa-rs.dev/sync-period: soon}\n";
    let text = VALID.replacen(" {name: web}\n", metadata, 1);
    let (output, errors, status) = run_with_input(&["convert"], &text);
    assert!(output.contains("autoscaling.hpa-rs.dev/sync-period: soon"), "{output}");
    let start = "hpa: standard input:5: warning: web: \
                 metadata.annotations[autoscaling.hpa-rs.dev/sync-period]: must be a duration";
    assert!(errors.starts_with(start) && errors.lines().count() == 1, "{errors}");
    assert_eq!(status, Some(0));
}

#[test]
fn convert_writes_nothing_of_a_manifest_without_an_autoscaler() {
    for format in ["yaml", "json"] {
        let (output, errors, status) =
            run_with_input(&["convert", "-o", format], "kind: ScaledObject\n");
        let expected = "hpa: standard input: no HorizontalPodAutoscaler, found 1 ScaledObject\n";
        assert_eq!((&*output, &*errors, status), ("", expected, Some(2)));
    }
}

#[tokio::test]
async fn autoscalers_of_a_namespace_are_read_without_files() {
    let testbed = Testbed::new(Config::default());
    testbed.apply_all([objects::namespace()]);
    let mut hpa = objects::hpa("web", 3..=3, vec![objects::cpu_metric(60)]);
    testbed.apply_all([objects::running_deployment("web", 3), hpa.clone()]);
    hpa["metadata"]["name"] = "lost".into();
    hpa["spec"]["scaleTargetRef"]["name"] = "lost".into();
    testbed.apply_all([hpa]);
    let served = ServedTestbed::new(&testbed).await;
    let lint = async |arguments: &[&str]| {
        texts_and_status(served.command(env!("CARGO_BIN_EXE_hpa"), arguments).output().await)
    };
    for scope in [["-n", NAMESPACE].as_slice(), &["-A"]] {
        let (output, ..) = lint(&[&["lint"], scope].concat()).await;
        assert!(output.contains("cluster: warning: shop/web: spec.minReplicas: "), "{output}");
        let missing = "shop/lost: spec.scaleTargetRef.name: Deployment lost doesn't exist";
        assert!(output.contains(missing), "{output}");
        assert!(output.contains("\n2 autoscalers, "), "{output}");
    }
    // Definitions are listed whatever the namespace is.
    testbed.apply_all([json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "kind": "Widget", "plural": "widgets" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object" } },
            }],
        },
    })]);
    let (empty, _, status) = lint(&["lint", "-n", "default"]).await;
    assert!(empty.starts_with("0 autoscalers, ") && status == Some(0), "{empty}");
    let (output, errors, status) = lint(&["lint", "-n", "elsewhere"]).await;
    assert_eq!((&*output, status), ("", Some(2)), "{errors}");
    assert_eq!(errors, "hpa: the namespace elsewhere doesn't exist\n");
}

#[tokio::test]
async fn kinds_that_may_not_be_listed_are_named_with_the_rules_that_need_them() {
    let faults = Faults::new(1);
    let interceptor = Some(Arc::new(faults.clone()) as Arc<_>);
    let testbed = Testbed::new(Config { interceptor, ..Config::default() });
    testbed.apply_all([objects::namespace()]);
    let hpa = objects::hpa("web", 2..=3, vec![objects::cpu_metric(60)]);
    testbed.apply_all([objects::running_deployment("web", 3), hpa]);
    let message = "deployments.apps is forbidden: User \"u\" cannot list resource";
    let effect = Effect::status(403, "Forbidden", message);
    faults.add(Fault::on(Match::any().resource("deployments")).effect(effect));
    let served = ServedTestbed::new(&testbed).await;
    let arguments = ["lint", "-A", "--warnings-as-notes"];
    let output = served.command(env!("CARGO_BIN_EXE_hpa"), &arguments).output().await;
    let (_, errors, status) = texts_and_status(output);
    let expected = "hpa: unable to list deployments.apps: deployments.apps is forbidden: User \
                    \"u\" cannot list resource: missing-target, ";
    assert!(errors.starts_with(expected), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert_eq!(status, Some(0), "{errors}");
}

/// A tenant may choose the managed fields of an object, and nest them more deeply than
/// `serde_json` decodes.
#[tokio::test]
async fn deep_managed_fields_of_a_tenant_do_not_fail_commands_for_the_cluster() {
    let testbed = Testbed::new(Config::default());
    testbed.apply_all([objects::namespace()]);
    let web = objects::hpa("web", 3..=3, vec![objects::cpu_metric(60)]);
    let mut evil = objects::hpa("evil", 3..=3, vec![objects::cpu_metric(60)]);
    let deep = (0..130).fold(json!({}), |inner, _| json!({ "f:a": inner }));
    evil["metadata"]["managedFields"] = json!([{
        "manager": "k", "operation": "Update", "apiVersion": "autoscaling/v2",
        "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
        "fieldsV1": { "f:metadata": { "f:labels": deep } },
    }]);
    testbed.apply_all([objects::running_deployment("web", 3), web, evil]);
    let served = ServedTestbed::new(&testbed).await;
    for arguments in [["lint", "-A"].as_slice(), &["status"], &["explain", "shop/evil"]] {
        let output = served.command(env!("CARGO_BIN_EXE_hpa"), arguments).output().await;
        let (output, errors, _) = texts_and_status(output);
        assert!(!output.is_empty() && !errors.contains("recursion"), "{arguments:?}: {errors}");
        if arguments == ["lint", "-A"] {
            assert!(output.contains("cluster: warning: shop/web: spec.minReplicas: "), "{output}");
            assert!(output.contains("\n2 autoscalers, "), "{output}");
        }
    }
}
