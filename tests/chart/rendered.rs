//! Checks rendered objects.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::files;
use crate::helm::Helm;

pub(crate) fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

pub(crate) fn deployment(objects: &[Value]) -> Result<&Value> {
    of_kind(objects, "Deployment").first().copied().context("no Deployment")
}

/// The pod spec of the Deployment.
pub(crate) fn pod_spec(objects: &[Value]) -> Result<&Value> {
    Ok(&deployment(objects)?["spec"]["template"]["spec"])
}

/// The arguments of the container.
pub(crate) fn arguments(objects: &[Value]) -> Result<Vec<String>> {
    let container = &pod_spec(objects)?["containers"][0];
    Ok(serde_json::from_value(container["args"].clone())?)
}

/// The rules of all groups in the spec of a `PrometheusRule`.
pub(crate) fn alert_rules(spec: &Value) -> impl Iterator<Item = &Value> {
    let groups = spec["groups"].as_array().into_iter().flatten();
    groups.flat_map(|group| group["rules"].as_array().into_iter().flatten())
}

/// The pod is unprivileged, has requests, and is selected by all selectors.
pub(crate) fn check_pod_security(objects: &[Value]) -> Result<()> {
    let deployment = deployment(objects)?;
    let template = &deployment["spec"]["template"];
    let (pod, container) = (&template["spec"], &template["spec"]["containers"][0]);
    let context = &pod["securityContext"];
    ensure!(
        context["runAsNonRoot"] == true && context["runAsUser"].as_u64() > Some(0),
        "{context}"
    );
    ensure!(context["seccompProfile"]["type"] == "RuntimeDefault", "{context}");
    let context = &container["securityContext"];
    ensure!(
        context["readOnlyRootFilesystem"] == true && context["privileged"] == false,
        "{context}"
    );
    ensure!(context["allowPrivilegeEscalation"] == false, "{context}");
    ensure!(context["capabilities"] == json!({"drop": ["ALL"]}), "{context}");
    for host in ["hostNetwork", "hostPID", "hostIPC"] {
        ensure!(pod[host].is_null(), "{host}");
    }
    ensure!(container["resources"]["requests"]["memory"].is_string(), "no memory request");
    check_selectors(objects, deployment)
}

/// The probes use the metrics port.
pub(crate) fn check_probes(objects: &[Value]) -> Result<()> {
    let container = &pod_spec(objects)?["containers"][0];
    let has_tls =
        arguments(objects)?.iter().any(|argument| argument.starts_with("--tls-cert-file"));
    let scheme = if has_tls { "HTTPS" } else { "HTTP" };
    for (probe, path) in [("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")] {
        let get = &container[probe]["httpGet"];
        let expected = json!({"path": path, "port": "metrics", "scheme": scheme});
        ensure!(*get == expected, "{probe}: {get}");
    }
    Ok(())
}

/// Every selector matches the pods.
fn check_selectors(objects: &[Value], deployment: &Value) -> Result<()> {
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    let selectors = [
        ("Deployment", "/spec/selector/matchLabels"),
        ("PodDisruptionBudget", "/spec/selector/matchLabels"),
        ("NetworkPolicy", "/spec/podSelector/matchLabels"),
        ("PodMonitor", "/spec/selector/matchLabels"),
        ("Service", "/spec/selector"),
    ];
    for (kind, pointer) in selectors {
        for object in of_kind(objects, kind) {
            let selector = object.pointer(pointer).and_then(Value::as_object).context(kind)?;
            ensure!(
                !selector.is_empty() && selector.iter().all(|(key, value)| labels[key] == *value),
                "{kind}"
            );
        }
    }
    Ok(())
}

/// CRD, alerts, dashboard and `PodMonitor` equal the shipped files.
pub(crate) fn check_shipped_files(objects: &[Value]) -> Result<()> {
    for definition in of_kind(objects, "CustomResourceDefinition") {
        ensure!(
            definition["spec"] == files::read_controller_file("files/crd.yaml")?["spec"],
            "the definition"
        );
        let policy = &definition["metadata"]["annotations"]["helm.sh/resource-policy"];
        ensure!(policy == "keep", "uninstalling would delete every autoscaler");
    }
    for rule in of_kind(objects, "PrometheusRule") {
        ensure!(rule["spec"] == files::read_controller_file("files/rules.yaml")?, "the alerts");
    }
    for monitor in of_kind(objects, "PodMonitor") {
        let shipped = files::read_controller_file("files/podmonitor.yaml")?;
        let (endpoint, expected) = (
            &monitor["spec"]["podMetricsEndpoints"][0],
            &shipped["spec"]["podMetricsEndpoints"][0],
        );
        for field in ["port", "path", "honorLabels"] {
            ensure!(endpoint[field] == expected[field], "{endpoint}");
        }
    }
    let maps = of_kind(objects, "ConfigMap");
    for text in maps.iter().filter_map(|map| map["data"]["hpa-controller.json"].as_str()) {
        let dashboard: Value = serde_json::from_str(text)?;
        ensure!(dashboard == files::read_controller_file("files/dashboard.json")?, "the dashboard");
    }
    Ok(())
}

/// With the URLs of Grafana and the documentation, every alert links to its panel and section.
pub(crate) fn check_alert_links(helm: &Helm) -> Result<()> {
    let (grafana, runbook) = ("https://grafana.example/", "https://docs.example/alerts.md");
    let set = format!(
        "metrics.rules.enabled=true,metrics.rules.dashboardURL={grafana},\
         metrics.rules.runbookURL={runbook}"
    );
    let objects = helm.template_with(&set)?;
    let rules = of_kind(&objects, "PrometheusRule");
    let spec = &rules.first().context("no PrometheusRule")?["spec"];
    let alerts: Vec<&Value> = alert_rules(spec).collect();
    ensure!(!alerts.is_empty(), "no alerts");
    for alert in alerts {
        let (name, links) = (alert["alert"].as_str().unwrap_or_default(), &alert["annotations"]);
        let panel = links["__panelId__"].as_str().context("no panel")?;
        let expected = format!("https://grafana.example/d/hpa-controller?viewPanel={panel}");
        ensure!(links["dashboard_url"] == expected, "{alert}");
        ensure!(links["runbook_url"] == format!("{runbook}#{}", name.to_lowercase()), "{alert}");
    }
    Ok(())
}

/// The command accepts all flags and values: it parses them before it handles `--help`.
pub(crate) fn check_flags(objects: &[Value], binary: &Path) -> Result<()> {
    let arguments = arguments(objects)?;
    let command = arguments.first().map(String::as_str);
    ensure!(matches!(command, Some("run" | "adapter")), "{arguments:?}");
    let output = Command::new(binary).args(&arguments).arg("--help").output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Optional objects are rendered only if their value is set.
pub(crate) fn check_switches(helm: &Helm) -> Result<()> {
    let defaults = helm.template("defaults")?;
    let switches = [
        ("metrics.service.enabled=true", "Service"),
        ("metrics.podMonitor.enabled=true", "PodMonitor"),
        ("metrics.rules.enabled=true", "PrometheusRule"),
        ("metrics.dashboard.enabled=true", "ConfigMap"),
        ("crd.install=true", "CustomResourceDefinition"),
        ("networkPolicy.enabled=true", "NetworkPolicy"),
    ];
    for (set, kind) in switches {
        ensure!(of_kind(&defaults, kind).is_empty(), "{kind} by default");
        ensure!(of_kind(&helm.template_with(set)?, kind).len() == 1, "no {kind} by {set}");
    }
    ensure!(of_kind(&defaults, "PodDisruptionBudget").len() == 1, "no PodDisruptionBudget");
    ensure!(
        of_kind(&helm.template_with("replicas=1")?, "PodDisruptionBudget").is_empty(),
        "a PodDisruptionBudget for one pod"
    );
    let named = "dryRun=true,leaderElection.resourceName=a-lease";
    ensure!(
        of_kind(&helm.template_with(named)?, "Lease").is_empty(),
        "a dry run deletes a lease that may be that of another release"
    );
    let bare = helm.template_with("rbac.create=false,serviceAccount.create=false")?;
    for kind in ["ClusterRole", "Role", "ServiceAccount", "RoleBinding", "ClusterRoleBinding"] {
        ensure!(of_kind(&bare, kind).is_empty(), "{kind}");
    }
    for (set, flag) in [
        ("autoscalerApi=both", "--autoscaler-api=both"),
        ("dryRun=true", "--dry-run"),
        ("allowOtherController=true", "--allow-other-controller"),
    ] {
        ensure!(!arguments(&defaults)?.contains(&flag.to_owned()), "{flag} by default");
        ensure!(
            arguments(&helm.template_with(set)?)?.contains(&flag.to_owned()),
            "no {flag} by {set}"
        );
    }
    Ok(())
}

/// A release and a namespace are named `on`, which YAML reads as a boolean unless it is quoted.
pub(crate) fn check_quoted_names(helm: &Helm, value_set: &str) -> Result<()> {
    let rendered = helm.render_text("on", value_set)?;
    for line in rendered.lines() {
        ensure!(!line.ends_with(": on"), "{line} is a boolean");
    }
    ensure!(rendered.contains("instance: \"on\""), "no label has the name of the release");
    Ok(())
}

/// Rendering fails for invalid values, and the error names the value.
pub(crate) fn check_invalid_values(helm: &Helm) -> Result<()> {
    let invalid = [
        ("replica=3", "replica"),
        ("autoscaling.syncPeriod=15", "syncPeriod"),
        ("autoscaling.tolerance=-1", "tolerance"),
        ("autoscaling.allowSettings={pausee}", "allowSettings"),
        ("autoscalerApi=mine", "autoscalerApi"),
        ("namespaces={Shop}", "namespaces"),
        ("image.digest=latest", "digest"),
        ("metrics.port=80", "port"),
        ("debug.enabled=true,debug.port=8080", "debug.port must not be metrics.port"),
        ("debug.memoryLimit=64MB", "memoryLimit"),
        ("leaderElection.enabled=false", "replicas=1"),
        ("client.burst=5", "client.qps"),
        ("collectors.enabled=true,namespaces={shop}", "leave out namespaces"),
        (
            "metrics.prometheus.url=http://prometheus:9090,\
             metrics.prometheus.rules.resource.cpu.nodeQuery=up",
            "metrics.prometheus.rules.resource needs both cpu and memory",
        ),
        (
            "leaderElection.leaseDuration=5s",
            "leaseDuration=5s must be greater than leaderElection.renewDeadline=10s",
        ),
        ("leaderElection.leaseDuration=1m,leaderElection.renewDeadline=60s", "renewDeadline=60s"),
        (
            "leaderElection.retryPeriod=9s",
            "renewDeadline=10s must be greater than 1.2 times leaderElection.retryPeriod=9s",
        ),
        ("shutdownGracePeriod=30s", "less than terminationGracePeriodSeconds=30"),
        ("terminationGracePeriodSeconds=10", "shutdownGracePeriod=10s"),
        ("client.requestTimeout=5ms", "client.requestTimeout=5ms must be at least 10ms"),
        ("autoscaling.downscaleStabilization=8761h", "at most 8760h"),
        ("metrics.prometheus.url=prometheus:9090", "url"),
        (
            "metrics.prometheus.url=http://prometheus:9090",
            "metrics.prometheus.url needs metrics.prometheus.rules",
        ),
        (
            "metrics.prometheus.rules.existing=mine",
            "metrics.prometheus.rules needs metrics.prometheus.url",
        ),
        ("forecasts.prometheusUrl=prometheus:9090", "prometheusUrl"),
        ("forecasts.timeZone=Europe Berlin", "timeZone"),
        ("collectors.prometheusUrl=prometheus:9090", "prometheusUrl"),
        (
            "collectors.enabled=true,collectors.externalRps=true",
            "externalRps need collectors.prometheusUrl",
        ),
        ("log.level=warning", "level"),
        ("log.level=", "level"),
        ("log.level=hpa_control=debug", "level"),
        (r"log.level=info\,hpa_controller=debg", "level"),
    ];
    check_rejected(helm, &invalid)
}

/// Rendering fails with each `--set`, and the error contains the text beside it.
pub(crate) fn check_rejected(helm: &Helm, invalid: &[(&str, &str)]) -> Result<()> {
    for (set, text) in invalid {
        let error = helm.template_with(set).err().with_context(|| format!("{set} is accepted"))?;
        ensure!(format!("{error:#}").contains(text), "{set}: {error:#}");
    }
    Ok(())
}

/// The chart and `hpa run` both accept values at the limits.
pub(crate) fn check_valid_values(helm: &Helm, binary: &Path) -> Result<()> {
    let valid = [
        "leaderElection.leaseDuration=10001ms",
        "leaderElection.retryPeriod=8333ms",
        "shutdownGracePeriod=29.9s",
        "shutdownGracePeriod=0s",
        "autoscaling.downscaleStabilization=8760h",
        "autoscaling.allowSettings={pause,bounds}",
        "autoscaling.allowSettings={none}",
        "forecasts.timeZone=America/Argentina/Buenos_Aires",
        "forecasts.timeZone=Etc/GMT+5",
        "collectors.enabled=true,collectors.externalRps=true,\
         extraArgs={--prometheus-url=http://prometheus:9090}",
        "collectors.enabled=true,collectors.externalRps=true,\
         extraEnv[0].name=HPA_PROMETHEUS_URL,extraEnv[0].value=http://prometheus:9090",
        "log.level=off",
        "log.level=WARN",
        r"log.level=info\,hpa_controller::reconcile=debug\,kube_client=trace",
    ];
    valid
        .into_iter()
        .try_for_each(|set| check_flags(&helm.template_with(set)?, binary).context(set))
}

/// The chart renders for Kubernetes 1.28 and later, with the version suffixes of vendors, and for
/// development builds.
pub(crate) fn check_kube_versions(helm: &Helm) -> Result<()> {
    let supported = [
        "v1.28.0",
        "v1.33.5-gke.1080000",
        "v1.33.4-eks-ba24e9c",
        "v1.36.0+k3s1",
        "v1.38.0-alpha.2",
        "v0.0.0-abc1234",
    ];
    for version in supported {
        helm.template_for_version(version).with_context(|| format!("{version} is refused"))?;
    }
    for version in ["v1.27.16", "v1.27.9-gke.100"] {
        ensure!(helm.template_for_version(version).is_err(), "{version} is accepted");
    }
    Ok(())
}
