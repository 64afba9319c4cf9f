//! Absent objects, missing permissions and API servers that don't answer, as commands report them.

use std::{
    fs,
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hpa_controller::INSTANCE_SCOPE;
use hpa_testbed::{Config, Effect, Fault, Faults, Match, Testbed};
use hpa_tests::harness::{ServedTestbed, TestbedExt, objects};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::{net::TcpListener, process::Command, time::timeout};

use super::{AUTOSCALER, Cluster, FIRST_POD, custom_api_definition, web, web_with};

#[tokio::test]
async fn hanging_api_server_is_reported_after_one_request() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let connection_count = Arc::new(AtomicUsize::new(0));
    let accepted = connection_count.clone();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            accepted.fetch_add(1, Ordering::SeqCst);
            open.push(connection);
        }
    });
    let dir = tempfile::tempdir().expect("a directory");
    let kubeconfig = dir.path().join("kubeconfig");
    fs::write(&kubeconfig, Testbed::kubeconfig(address)).expect("a kubeconfig");
    let mut explain = Command::new(env!("CARGO_BIN_EXE_hpa"));
    explain.args(["explain", "shop/web", "--request-timeout=1s", "--kubeconfig"]).arg(kubeconfig);
    let output = explain.output().await.expect("the program runs");
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    let expected = format!(
        "unable to read the autoscaler shop/web: no response from the API server at {address} \
         within 1 s (--request-timeout)"
    );
    assert!(error.contains(&expected), "{error}");
    assert_eq!(connection_count.load(Ordering::SeqCst), 1, "{error}");
}

#[tokio::test]
async fn absent_autoscaler_is_an_error_that_names_it() {
    let cluster = Cluster::new(web(4, vec![objects::cpu_metric(60)])).await;
    for (name, others) in [
        ("shop/none", ". The namespace shop has web"),
        ("shop/web-", ". Similar: web"),
        ("default/web", ": the namespace default has none. web is in shop"),
        ("default/none", ": the namespace default has none"),
        ("mail/web", ": the namespace mail doesn't exist"),
        ("shopp/web", ": the namespace shopp doesn't exist. Similar: shop"),
    ] {
        let (_, error, is_success) = cluster.hpa(&["explain", name]).await;
        let expected = format!("hpa: there is no autoscaler {name}{others}\n");
        assert!(!is_success && error == expected, "{error}");
        let replay = ["replay", name, "--prometheus", "http://127.0.0.1:9"];
        let (_, error, is_success) = cluster.hpa(&replay).await;
        assert!(!is_success && error == expected, "{error}");
    }
}

#[tokio::test]
async fn error_about_an_absent_autoscaler_names_a_few_similar_ones() {
    let autoscaler = |name: &&str| objects::hpa(name, 2..=10, vec![objects::cpu_metric(60)]);
    let names = ["web1", "web2", "web3", "web4", "web5"];
    let cluster = Cluster::new(names.iter().map(autoscaler).collect::<Vec<_>>()).await;
    let (_, error, is_success) = cluster.hpa(&["explain", "shop/web0"]).await;
    let expected = "hpa: there is no autoscaler shop/web0. Similar: web1, web2, web3 and 2 more\n";
    assert!(!is_success && error == expected, "{error}");
}

#[tokio::test]
async fn error_about_an_absent_autoscaler_names_those_of_the_other_api() {
    let mut custom = objects::hpa("api", 2..=10, vec![objects::cpu_metric(60)]);
    custom["apiVersion"] = json!("autoscaling.hpa-rs.dev/v2");
    let cluster = Cluster::new([custom_api_definition(), custom]).await;
    for (name, others) in [
        ("shop/none", ". The namespace shop has rhpa/shop/api"),
        ("shop/apis", ". Similar: rhpa/shop/api"),
    ] {
        let (_, error, is_success) = cluster.hpa(&["explain", name]).await;
        let expected = format!("hpa: there is no autoscaler {name}{others}\n");
        assert!(!is_success && error == expected, "{error}");
    }
}

#[tokio::test]
async fn absent_namespace_is_an_error_of_commands_that_list() {
    let cluster = Cluster::new(web(4, vec![objects::cpu_metric(60)])).await;
    for command in ["lint", "status", "explain"] {
        let arguments: &[&str] = if command == "explain" { &["-A"] } else { &[] };
        let arguments = [&[command, "-n", "shopp"], arguments].concat();
        let (output, error, is_success) = cluster.hpa(&arguments).await;
        let expected = "hpa: the namespace shopp doesn't exist. Similar: shop\n";
        assert_eq!((&*output, &*error, is_success), ("", expected, false), "{command}");
    }
    let compare = ["shadow-report", "--namespace", "shopp", "--for", "1s"];
    let (_, error, is_success) = cluster.hpa(&compare).await;
    let expected = "nothing was compared: the namespace shopp doesn't exist. Similar: shop\n";
    assert!(!is_success && error.ends_with(expected), "{error}");
}

/// A testbed that refuses these requests with the status code 403.
fn testbed_forbidding(requests: impl IntoIterator<Item = Match>, message: &str) -> Testbed {
    let faults = Faults::new(1);
    for request in requests {
        faults.add(Fault::on(request).effect(Effect::status(403, "Forbidden", message)));
    }
    Testbed::new(Config { interceptor: Some(Arc::new(faults)), ..Config::default() })
}

/// A tenant's kubeconfig has the namespace `default`.
#[tokio::test]
async fn own_namespace_is_read_if_reading_all_is_forbidden() {
    let of_all = Match::verb("list").resource("horizontalpodautoscalers").namespace("");
    let requests = [of_all, Match::verb("get").resource("leases")];
    let testbed = testbed_forbidding(requests, "not permitted");
    let mut autoscaler = objects::hpa("web", 2..=10, [objects::cpu_metric(60)]);
    autoscaler["metadata"]["namespace"] = json!("default");
    testbed.apply_all([autoscaler]);
    let served = ServedTestbed::new(&testbed).await;
    let read = async |arguments: &[&str]| {
        let output = served.command(env!("CARGO_BIN_EXE_hpa"), arguments).output().await;
        let output = output.expect("the program runs");
        String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8")
    };
    let only = "nly the autoscalers of the namespace default are read, because you may not list \
                those of all namespaces; -n selects another one";
    let all = read(&["explain", "-A"]).await;
    assert!(all.starts_with(&format!("O{only}.\n")) && all.contains("default/web"), "{all}");
    let unknown = "Whether a controller is active is not known";
    let forbidden = "not permitted to get the lease ";
    assert!(all.contains(&format!("\n{unknown}: {forbidden}")), "{all}");
    let one = read(&["explain", "web"]).await;
    let missing = format!("\n{unknown}, and its past decisions are missing: {forbidden}");
    assert!(one.contains(&missing), "{one}");
    let status = read(&["status"]).await;
    assert!(status.contains(&format!("\n- o{only}\n")), "{status}");
    let headline = status.lines().next().unwrap_or_default();
    assert!(headline.ends_with("; whether a controller is active is not known"), "{status}");
}

#[tokio::test]
async fn forbidden_request_is_not_reported_as_a_decision() {
    let message = "deployments.apps \"web\" is forbidden: User \"ann\" cannot get resource \
                   \"deployments/scale\" in API group \"apps\" in the namespace \"shop\"";
    let testbed = testbed_forbidding([Match::verb("get").resource("deployments")], message);
    testbed.apply_all([objects::namespace()]);
    testbed.apply_all(web(2, vec![objects::cpu_metric(30)]));
    let served = ServedTestbed::new(&testbed).await;
    let output = served.command(env!("CARGO_BIN_EXE_hpa"), &["explain", "shop/web"]).output().await;
    let output = output.expect("the program runs");
    let error = String::from_utf8_lossy(&output.stderr);
    let expected =
        format!("unable to explain shop/web: {message}. The controller has its own permissions");
    assert!(error.contains(&expected) && !error.contains("can't decide"), "{error}");
    assert_eq!((output.stdout, output.status.code()), (Vec::new(), Some(1)));
}

#[tokio::test]
async fn missing_permission_ends_shadow_report_at_once() {
    for (verb, group, resource, expected) in [
        ("list", "", "pods", "pods can't be listed: "),
        ("list", "metrics.k8s.io", "pods", "metrics of pods can't be listed: "),
        ("get", "apps", "deployments", "the scale of Deployment shop/web can't be read: "),
    ] {
        let message = format!("{resource} is forbidden: User \"ann\" cannot {verb} it");
        let request = Match::verb(verb).group(group).resource(resource);
        let testbed = testbed_forbidding([request], &message);
        testbed.apply_all([objects::namespace()]);
        testbed.apply_all(web(2, vec![objects::cpu_metric(30)]));
        let served = ServedTestbed::new(&testbed).await;
        let mut command = served.command(env!("CARGO_BIN_EXE_hpa"), &["shadow-report", "--for=1h"]);
        let output = timeout(Duration::from_secs(30), command.output()).await;
        let output = output.expect("it ends at once").expect("the program runs");
        let error = String::from_utf8_lossy(&output.stderr);
        let expected = format!("nothing was compared: {expected}{message}");
        assert!(error.contains(&expected), "{error}");
        assert_eq!((output.stdout, output.status.code()), (Vec::new(), Some(2)));
    }
}

#[tokio::test]
async fn time_out_of_range_is_reported_with_object_and_field() {
    for (index, field, expected) in [
        (
            AUTOSCALER,
            "lastScaleTime",
            "unable to decode the autoscaler shop/web: status.lastScaleTime: ",
        ),
        (FIRST_POD, "startTime", "unable to decode pod shop/web-0: status.startTime: "),
    ] {
        let set_time =
            |all: &mut Vec<Value>| all[index]["status"][field] = json!("9999-12-31T23:59:59Z");
        let cluster = Cluster::new(web_with(2, objects::cpu_metric(60), set_time)).await;
        let (_, error, is_success) = cluster.hpa(&["explain", "shop/web"]).await;
        assert!(!is_success && error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn error_about_the_custom_api_names_the_flag() {
    let mut moved = objects::hpa("moved", 2..=10, vec![objects::cpu_metric(60)]);
    moved["apiVersion"] = json!("autoscaling.hpa-rs.dev/v2");
    let cluster = Cluster::new([custom_api_definition(), moved]).await;
    let (_, error, is_success) = cluster.hpa(&["explain", "shop/moved"]).await;
    let expected = "shop/moved is an autoscaler of autoscaling.hpa-rs.dev/v2, not of \
                    autoscaling/v2: add --autoscaler-api=custom";
    assert!(!is_success && error.contains(expected), "{error}");
    cluster.testbed.apply_all([objects::hpa("web", 2..=10, vec![objects::cpu_metric(60)])]);
    let (_, error, is_success) = cluster.hpa(&["explain", "rhpa/shop/web"]).await;
    let expected = "shop/web is an autoscaler of autoscaling/v2, not of \
                    autoscaling.hpa-rs.dev/v2: leave out rhpa/";
    assert!(!is_success && error.contains(expected), "{error}");
}

#[tokio::test]
async fn custom_api_that_is_not_installed_is_named() {
    let mut lease = objects::lease("kube-system", "hpa-controller", "a_1", Timestamp::now());
    let scope = json!({ "holder": "a_1", "apis": ["core", "custom"] });
    lease["metadata"]["annotations"][INSTANCE_SCOPE] = scope.to_string().into();
    let all = web(4, vec![objects::cpu_metric(60)]).into_iter().chain([lease]);
    let cluster = Cluster::new(all).await;
    let unserved = "autoscaling.hpa-rs.dev/v2 is not installed (hpa crd prints its definition)";
    let (_, error, is_success) = cluster.hpa(&["explain", "rhpa/shop/gone"]).await;
    let expected = format!("hpa: unable to read the autoscaler shop/gone: {unserved}\n");
    assert!(!is_success && error == expected, "{error}");
    let warning =
        format!("{unserved}, but the holder of the lease kube-system/hpa-controller handles it");
    let all: [&[&str]; 2] = [&["status"], &["explain", "-A"]];
    for arguments in all {
        let (output, ..) = cluster.hpa(arguments).await;
        assert!(output.contains(&warning), "{arguments:?}: {output}");
    }
    cluster.testbed.apply_all([custom_api_definition()]);
    for arguments in all {
        let (output, ..) = cluster.hpa(arguments).await;
        assert!(!output.contains(unserved), "{arguments:?}: {output}");
    }
}

#[tokio::test]
async fn unreachable_api_server_is_named_once() {
    let cluster = Cluster::new([]).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let kubeconfig = cluster.served.dir.path().join("gone");
    fs::write(&kubeconfig, Testbed::kubeconfig(address)).expect("a file");
    let flag = format!("--kubeconfig={}", kubeconfig.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_hpa"));
    let output = command.args(["explain", "shop/web", &flag]).output().await;
    let output = output.expect("the program runs");
    let error = String::from_utf8_lossy(&output.stderr);
    let expected = format!("unable to connect to the API server at {address}: Connection refused");
    assert!(!output.status.success() && error.contains(&expected), "{error}");
    assert_eq!(error.matches("onnect").count(), 2, "once, and the cause: {error}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hpa"));
    let output = command.args(["shadow-report", "--for=200ms", &flag]).output().await;
    let output = output.expect("the program runs");
    let error = String::from_utf8_lossy(&output.stderr);
    let expected = "nothing was compared: horizontalpodautoscalers can't be listed: unable to \
                    connect to the API server at ";
    assert!(error.contains(expected), "{error}");
    assert_eq!((output.stdout, output.status.code()), (Vec::new(), Some(2)));
}

#[tokio::test]
async fn client_key_of_another_certificate_is_an_error_with_its_cause() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let [own, other] = ["own", "other"]
        .map(|name| rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate"));
    let certificate = file("tls.crt", &own.cert.pem());
    let key = file("tls.key", &other.signing_key.serialize_pem());
    let cluster = json!({ "server": "https://127.0.0.1:1", "certificate-authority": certificate });
    let user = json!({ "client-certificate": certificate, "client-key": key });
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{ "name": "a", "cluster": cluster }], "users": [{ "name": "a", "user": user }],
        "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "a" } }],
    });
    let flag = format!("--kubeconfig={}", file("kubeconfig", &config.to_string()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_hpa"));
    let output = command.args(["explain", "shop/web", &flag]).output().await;
    let error = String::from_utf8(output.expect("the program runs").stderr).expect("UTF-8");
    let end = ": invalid client certificate or key: keys may not be consistent: KeyMismatch\n";
    assert!(error.ends_with(end), "{error}");
}
