//! Runs kubectl, if it is installed, against the testbed.

#![allow(clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "../../../tests/support/programs.rs"]
#[allow(unreachable_pub, reason = "a file of the library of the test suites")]
mod programs;

use std::{env, ffi::OsStr, fs, path::PathBuf};

use hpa_testbed::{ServerHandle, Testbed};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

/// The path of kubectl: `KUBECTL`, or else the first one in `KUBEBUILDER_ASSETS`, the store of
/// setup-envtest, or `PATH`.
fn kubectl_program() -> Option<PathBuf> {
    if let Some(program) = env::var_os("KUBECTL").filter(|program| !program.is_empty()) {
        return Some(program.into());
    }
    let store = env::home_dir().map(|home| home.join(".local/share/kubebuilder-envtest/k8s"));
    let store = store.and_then(|store| fs::read_dir(store).ok()).into_iter().flatten().flatten();
    let assets = env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    assets
        .into_iter()
        .chain(store.map(|entry| entry.path()))
        .chain(env::split_paths(&path))
        .map(|dir| dir.join("kubectl"))
        .find(|program| program.is_file())
}

struct Cluster {
    program: PathBuf,
    testbed: Testbed,
    dir: TempDir,
    _server: ServerHandle,
}

impl Cluster {
    /// A testbed with the Deployment `web`. `None` if there is no kubectl.
    async fn start() -> Option<Self> {
        let Some(program) = kubectl_program() else {
            let searched = "KUBEBUILDER_ASSETS, the store of setup-envtest, or PATH";
            let reason = format!("KUBECTL is not set, and there is no kubectl in {searched}");
            programs::skip("kubectl", reason);
            return None;
        };
        let testbed = Testbed::default();
        let (address, server) =
            testbed.serve(([127, 0, 0, 1], 0).into()).await.expect("a free port");
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("kubeconfig"), Testbed::kubeconfig(address)).expect("a file");
        let labels = json!({ "app": "web" });
        let container = json!({ "name": "main", "image": "web:1" });
        let template =
            json!({ "metadata": { "labels": labels }, "spec": { "containers": [container] } });
        let spec = json!({ "selector": { "matchLabels": labels }, "template": template });
        let metadata = json!({ "name": "web" });
        let web = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec,
        });
        testbed.apply(web).expect("a Deployment");
        Some(Self { program, testbed, dir, _server: server })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs kubectl. Returns whether it succeeded, and its output.
    async fn run(&self, arguments: &[impl AsRef<OsStr>]) -> (bool, String) {
        let output = Command::new(&self.program)
            .args(arguments)
            .env_clear()
            .env("KUBECONFIG", self.path("kubeconfig"))
            .env("HOME", self.dir.path())
            .env("TMPDIR", self.dir.path())
            .env("KUBE_EDITOR", "sed -i s/maxReplicas/maxReplicaz/")
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .output()
            .await
            .expect("kubectl runs");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (output.status.success(), text(output.stdout) + &text(output.stderr))
    }

    async fn succeeds(&self, arguments: &[&str]) -> String {
        let (is_ok, output) = self.run(arguments).await;
        assert!(is_ok, "{arguments:?}: {output}");
        output
    }

    async fn fails(&self, arguments: &[&str], expected: &str) {
        let (is_ok, output) = self.run(arguments).await;
        assert!(!is_ok && output.contains(expected), "{arguments:?}: {output}");
    }

    /// Creates an autoscaler of `web` with a target of 50 % CPU. `--cpu` is new in kubectl 1.34 and
    /// replaces `--cpu-percent`.
    async fn autoscale(&self) {
        let help = self.succeeds(&["autoscale", "--help"]).await;
        let cpu = if help.contains("--cpu=") { "--cpu=50%" } else { "--cpu-percent=50" };
        self.succeeds(&["autoscale", "deployment", "web", "--min=2", "--max=5", cpu]).await;
    }

    fn autoscaler(&self, name: &str) -> Option<Value> {
        self.testbed.get("autoscaling/v2", "HorizontalPodAutoscaler", "default", name)
    }

    /// Writes a manifest of the autoscaler `api` with one more field. Returns its path.
    fn manifest(&self, field: &str) -> String {
        let path = self.path("hpa.yaml");
        let text = format!(
            "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {{name: api}}\n\
             spec: {{scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: web}}, \
             {field}, maxReplicas: 5}}\n"
        );
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    }
}

#[tokio::test]
async fn kubectl_creates_objects_with_protobuf() {
    let Some(cluster) = Cluster::start().await else { return };
    cluster.autoscale().await;
    let spec = cluster.autoscaler("web").map(|hpa| hpa["spec"].clone()).expect("an autoscaler");
    assert_eq!((&spec["minReplicas"], &spec["maxReplicas"]), (&json!(2), &json!(5)));
    let target = json!({ "type": "Utilization", "averageUtilization": 50 });
    assert_eq!(spec["metrics"][0]["resource"], json!({ "name": "cpu", "target": target }));
    cluster.succeeds(&["create", "deployment", "db", "--image=db:1", "--port=80"]).await;
    let db = cluster.testbed.get("apps/v1", "Deployment", "default", "db").expect("a Deployment");
    assert_eq!(db["spec"]["template"]["spec"]["containers"][0]["image"], "db:1");
    cluster.succeeds(&["create", "configmap", "c", "--from-literal=a=b"]).await;
    cluster.succeeds(&["create", "namespace", "shop"]).await;
    cluster.succeeds(&["delete", "deployment", "db"]).await;
}

#[tokio::test]
async fn fields_are_explained() {
    let Some(cluster) = Cluster::start().await else { return };
    for (field, expected) in [
        ("hpa.spec.behavior", "scaleDown\t<HPAScalingRules>"),
        ("deployment.spec.template.spec.containers.resources", "limits\t<map[string]Quantity>"),
        ("pods.spec", "nodeSelector\t<map[string]string>"),
    ] {
        let output = cluster.succeeds(&["explain", field]).await;
        assert!(output.contains(expected) && output.contains("DESCRIPTION:"), "{output}");
    }
    cluster
        .fails(&["explain", "hpa.spec.minReplicaz"], "field \"minReplicaz\" does not exist")
        .await;
}

#[tokio::test]
async fn misspelled_fields_are_reported_by_validation_mode() {
    let Some(cluster) = Cluster::start().await else { return };
    let file = cluster.manifest("minReplicaz: 2");
    let unknown = "unknown field \"spec.minReplicaz\"";
    cluster.fails(&["apply", "-f", &file], unknown).await;
    cluster.fails(&["create", "-f", &file, "--validate=strict"], unknown).await;
    assert_eq!(cluster.autoscaler("api"), None);
    let output = cluster.succeeds(&["apply", "-f", &file, "--validate=warn"]).await;
    assert!(output.contains(&format!("Warning: {unknown}")), "{output}");
    let output = cluster.succeeds(&["apply", "-f", &file, "--validate=ignore"]).await;
    assert!(!output.contains("Warning"), "{output}");
    let stored = cluster.autoscaler("api").expect("an autoscaler");
    assert_eq!(
        (&stored["spec"]["minReplicaz"], &stored["spec"]["minReplicas"]),
        (&Value::Null, &json!(1))
    );
    cluster.fails(&["apply", "-f", &file], unknown).await;
    let file = cluster.manifest("minReplicas: 2");
    cluster.succeeds(&["apply", "-f", &file]).await;
    cluster
        .fails(
            &["apply", "-f", &cluster.manifest("minReplicaz: 3"), "--server-side"],
            "minReplicaz",
        )
        .await;
    cluster.fails(&["edit", "hpa", "api"], "is invalid").await;
}

#[tokio::test]
async fn autoscalers_are_also_served_as_v1() {
    let Some(cluster) = Cluster::start().await else { return };
    let hpa = "horizontalpodautoscalers.v1.autoscaling";
    cluster.autoscale().await;
    let output = cluster.succeeds(&["get", hpa, "-o", "yaml"]).await;
    assert!(output.contains("apiVersion: autoscaling/v1"), "{output}");
    assert!(output.contains("targetCPUUtilizationPercentage: 50"), "{output}");
    let output = cluster.succeeds(&["get", hpa]).await;
    assert!(output.contains("cpu: <unknown>/50%"), "{output}");
    let change = r#"{"spec":{"targetCPUUtilizationPercentage":70}}"#;
    cluster.succeeds(&["patch", hpa, "web", "--type=merge", "-p", change]).await;
    let stored = cluster.autoscaler("web").expect("an autoscaler");
    assert_eq!(stored["apiVersion"], "autoscaling/v2");
    let target = &stored["spec"]["metrics"][0]["resource"]["target"];
    assert_eq!(target["averageUtilization"], 70, "{stored}");
    let output = cluster.succeeds(&["describe", "hpa", "web"]).await;
    assert!(output.contains("<unknown> / 70%"), "{output}");
}
