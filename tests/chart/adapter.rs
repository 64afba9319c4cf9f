//! Checks the rendered objects of the adapter's chart.

use anyhow::{Context as _, Result, ensure};
use hpa_metrics::resource::{ApiResource, ApiResources, GroupResource};
use hpa_prometheus::rules::{Config, RuleSet};
use serde_json::{Value, json};

use crate::helm::{Helm, parse_documents};
use crate::rendered::{self, deployment, of_kind, pod_spec};

/// The default of `--metrics-config-credentials`.
const CREDENTIALS: &str = "/etc/hpa/credentials";

/// The registered APIs of a set of values, sorted.
fn expected_apis(value_set: &str) -> &'static [&'static str] {
    match value_set {
        "everything" => &[
            "v1beta1.custom.metrics.k8s.io",
            "v1beta1.external.metrics.k8s.io",
            "v1beta1.metrics.k8s.io",
            "v1beta2.custom.metrics.k8s.io",
        ],
        "cert-manager" => &["v1beta1.external.metrics.k8s.io"],
        _ => &["v1beta1.custom.metrics.k8s.io", "v1beta2.custom.metrics.k8s.io"],
    }
}

/// The probes have their own port. Only the set `moved` has the probes of prometheus-adapter's
/// chart.
pub(crate) fn check_probes(objects: &[Value], value_set: &str) -> Result<()> {
    let container = &pod_spec(objects)?["containers"][0];
    let is_moved = value_set == "moved";
    let paths = if is_moved { ["/healthz"; 2] } else { ["/readyz", "/livez"] };
    let (port, scheme) = if is_moved { ("https", "HTTPS") } else { ("health", "HTTP") };
    for (probe, path) in ["readinessProbe", "livenessProbe"].into_iter().zip(paths) {
        let get = &container[probe]["httpGet"];
        let expected = json!({"path": path, "port": port, "scheme": scheme});
        ensure!(*get == expected, "{probe}: {get}");
    }
    for (index, (name, flag)) in
        [("https", "--secure-port"), ("health", "--health-port")].into_iter().enumerate()
    {
        let port = &container["ports"][index];
        let flag = format!("{flag}={}", port["containerPort"]);
        ensure!(port["name"] == name, "{port}");
        ensure!(rendered::arguments(objects)?.contains(&flag), "no {flag}");
    }
    Ok(())
}

/// With `metrics.prometheus`, the controller's chart has rules that compile, flags and volumes for
/// them, and a `NetworkPolicy` that permits connections to Prometheus.
pub(crate) fn check_in_process_rules(controller: &Helm) -> Result<()> {
    let objects = controller.template("everything")?;
    let (config, rules) = compile_rules(&objects)?;
    ensure!((config.rules.len(), config.external_rules.len()) == (1, 1), "{config:?}");
    ensure!(rules.errors().next().is_none(), "{rules:?}");
    check_prometheus_port(&objects, 9090)?;
    let url = "metrics.prometheus.url=https://prometheus,metrics.prometheus.rules.existing=mine";
    let objects = controller.template_with(&format!("{url},networkPolicy.enabled=true"))?;
    check_prometheus_port(&objects, 443)?;
    for mode in ["auto", "never"] {
        let set = format!("{url},metrics.prometheus.shareQueries={mode}");
        let arguments = rendered::arguments(&controller.template_with(&set)?)?;
        let expected = format!("--share-queries={mode}");
        ensure!(arguments.contains(&expected), "{arguments:?}");
    }
    let volumes = &pod_spec(&objects)?["volumes"];
    ensure!(volumes[0]["configMap"]["name"] == "mine", "{volumes}");
    ensure!(of_kind(&objects, "ConfigMap").is_empty(), "a ConfigMap");
    let secret = "metrics.prometheus.rules.credentialsSecret=mimir";
    check_credentials(&controller.template_with(&format!("{url},{secret}"))?)
}

/// The second egress rule of the `NetworkPolicy` permits only this port.
fn check_prometheus_port(objects: &[Value], port: u16) -> Result<()> {
    let policy = of_kind(objects, "NetworkPolicy");
    let ports = &policy.first().context("no NetworkPolicy")?["spec"]["egress"][1]["ports"];
    ensure!(*ports == json!([{"port": port, "protocol": "TCP"}]), "{ports}");
    Ok(())
}

/// The Secret `mimir` is mounted at the default of the flag.
fn check_credentials(objects: &[Value]) -> Result<()> {
    let pod = pod_spec(objects)?;
    ensure!(pod["volumes"][1]["secret"]["secretName"] == "mimir", "{pod}");
    let mount = &pod["containers"][0]["volumeMounts"][1]["mountPath"];
    ensure!(*mount == CREDENTIALS, "{mount}");
    Ok(())
}

/// The notes have the next steps, which differ if the APIs are not registered.
pub(crate) fn check_notes(helm: &Helm) -> Result<()> {
    let registered = helm.notes("replicas=2")?;
    ensure!(registered.contains("kubectl get --raw /apis/custom"), "{registered}");
    ensure!(!registered.contains("rules compare"), "{registered}");
    ensure!(registered.contains("hpa rules explain custom pods/METRIC"), "{registered}");
    let unregistered = helm.notes("apiServices.create=false")?;
    ensure!(!unregistered.contains("--raw"), "reads the other server: {unregistered}");
    ensure!(unregistered.contains("hpa rules compare --right"), "{unregistered}");
    Ok(())
}

/// The rules file of a chart, parsed and compiled.
fn compile_rules(objects: &[Value]) -> Result<(Config, RuleSet)> {
    let maps = of_kind(objects, "ConfigMap");
    let mut texts = maps.iter().filter_map(|map| map["data"]["config.yaml"].as_str());
    let config = Config::parse(texts.next().context("no rules")?)?;
    let rules = RuleSet::compile(&config, &resources());
    Ok((config, rules))
}

/// The rules compile, and their numbers are those in the values.
pub(crate) fn check_rules(objects: &[Value], value_set: &str) -> Result<()> {
    let (config, rules) = compile_rules(objects)?;
    let counts = (config.rules.len(), config.external_rules.len(), config.resource_rules.is_some());
    let expected = match value_set {
        "everything" => (7, 1, true),
        "cert-manager" => (0, 1, false),
        "moved" => (1, 0, false),
        _ => (6, 0, false),
    };
    ensure!(counts == expected, "{counts:?}");
    let errors: Vec<_> =
        rules.errors().map(|error| format!("{error}: {}", error.problem)).collect();
    ensure!(errors.is_empty(), "{errors:?}");
    Ok(())
}

fn resources() -> ApiResources {
    let kinds = ["Pod", "Namespace", "Node", "Service"];
    ApiResources::new(kinds.map(|kind| ApiResource {
        group_resource: GroupResource::new("", &format!("{}s", kind.to_lowercase())),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        singular: kind.to_lowercase(),
    }))
}

/// The APIs that have rules are registered for the Service, with a CA.
pub(crate) fn check_api_services(objects: &[Value], value_set: &str) -> Result<()> {
    let found = of_kind(objects, "APIService");
    let mut names: Vec<&str> =
        found.iter().filter_map(|api| api["metadata"]["name"].as_str()).collect();
    names.sort_unstable();
    ensure!(names == expected_apis(value_set), "{names:?}");
    let service = *of_kind(objects, "Service").first().context("no Service")?;
    let secrets = of_kind(objects, "Secret");
    for api in found {
        let (spec, metadata) = (&api["spec"], &api["metadata"]);
        let version = spec["version"].as_str().unwrap_or_default();
        let group = spec["group"].as_str().unwrap_or_default();
        ensure!(metadata["name"] == format!("{version}.{group}"), "{metadata}");
        let target = json!({
            "name": service["metadata"]["name"],
            "namespace": service["metadata"]["namespace"],
            "port": service["spec"]["ports"][0]["port"],
        });
        ensure!(spec["service"] == target, "{spec}");
        ensure!(spec["insecureSkipTLSVerify"] == false, "{spec}");
        if value_set == "cert-manager" {
            let from = &metadata["annotations"]["cert-manager.io/inject-ca-from"];
            let root = of_kind(objects, "Certificate")
                .into_iter()
                .find(|certificate| certificate["spec"]["isCA"] == true)
                .context("no root certificate")?;
            let (namespace, name) = (&root["metadata"]["namespace"], &root["metadata"]["name"]);
            let expected = format!(
                "{}/{}",
                namespace.as_str().unwrap_or_default(),
                name.as_str().unwrap_or_default()
            );
            ensure!(*from == expected && secrets.is_empty(), "{from}, not {expected}");
        } else {
            // The adapter writes its CA when it starts.
            ensure!(spec["caBundle"].is_null(), "{spec}");
            let name = &secrets.first().context("no Secret")?["metadata"]["name"];
            let name = name.as_str().unwrap_or_default();
            let flag = format!("--serving-secret={name}");
            ensure!(rendered::arguments(objects)?.contains(&flag), "no {flag}");
        }
    }
    Ok(())
}

/// The adapter may change only its certificate, its `APIServices`, the leases and events of its
/// leader, and the status of scaling schedules.
pub(crate) fn check_write_permissions(objects: &[Value]) -> Result<()> {
    let roles = [of_kind(objects, "ClusterRole"), of_kind(objects, "Role")].concat();
    for role in &roles {
        for rule in role["rules"].as_array().context("rules")? {
            let groups: Vec<&str> = texts(&rule["apiGroups"]);
            let resources = texts(&rule["resources"]);
            let verbs = texts(&rule["verbs"]);
            let only_reads = verbs.iter().all(|verb| ["get", "list", "watch"].contains(verb));
            let names = texts(&rule["resourceNames"]);
            let is_allowed = match (&*resources, &*verbs) {
                (["secrets"], ["get", "update"]) => names == names_of(objects, "Secret"),
                (["apiservices"], ["get", "list", "watch", "patch"]) => {
                    names == names_of(objects, "APIService")
                }
                (["scalingschedules/status", "clusterscalingschedules/status"], ["patch"])
                | (["leases"], ["create"])
                | (["events"], ["create", "patch"]) => true,
                (["leases"], ["get", "list", "watch", "update"]) => names.len() == 1,
                (["secrets" | "apiservices" | "configmaps"], _) => false,
                _ => only_reads && (!resources.contains(&"*") || is_metrics_group(&groups)),
            };
            ensure!(!verbs.is_empty() && is_allowed, "{}: {rule}", role["metadata"]["name"]);
        }
    }
    check_bindings(objects, &roles)
}

/// The adapter has only the permissions that its configuration needs.
pub(crate) fn check_needed_permissions(helm: &Helm) -> Result<()> {
    let external = "rules.default=false,rules.external[0].seriesQuery=up,\
                    rules.external[0].metricsQuery=up,rbac.readers=null";
    let with = |set: &str| format!("{external},{set}");
    let collectors = [
        "deployments/scale",
        "events",
        "horizontalpodautoscalers",
        "pods",
        "rollouts/scale",
        "statefulsets/scale",
    ];
    let cases: [(String, Vec<&str>); 7] = [
        (external.to_owned(), vec![]),
        ("replicas=2".to_owned(), vec!["namespaces", "pods", "services"]),
        (with("rules.resource.cpu.containerQuery=up"), vec!["nodes", "pods"]),
        (with("collectors.enabled=true"), collectors.to_vec()),
        (
            with("collectors.enabled=true,collectors.skipperIngress=true"),
            [&collectors[..], &["ingresses"]].concat(),
        ),
        (
            with("collectors.enabled=true,collectors.skipperRouteGroup=true"),
            [&collectors[..], &["routegroups"]].concat(),
        ),
        (
            with("rbac.selectableResources[0].group=apps,rbac.selectableResources[0].resource=x"),
            vec!["x"],
        ),
    ];
    for (set, mut expected) in cases {
        let objects = helm.template_with(&set)?;
        let rules = own_cluster_role(&objects)?["rules"].as_array().context("no rules")?;
        let mut found: Vec<&str> =
            rules.iter().flat_map(|rule| texts(&rule["resources"])).collect();
        found.sort_unstable();
        // The adapter writes its CA into its APIServices.
        expected.push("apiservices");
        expected.sort_unstable();
        ensure!(found == expected, "{set}: {found:?}, not {expected:?}");
    }
    let bare = helm.template_with(&with("certManager.enabled=true"))?;
    let role = own_cluster_role(&bare)?;
    ensure!(role["rules"] == json!([]), "{role}");
    Ok(())
}

/// The `ClusterRole` with the name of the Deployment.
fn own_cluster_role(objects: &[Value]) -> Result<&Value> {
    let name = &deployment(objects)?["metadata"]["name"];
    let mut roles = of_kind(objects, "ClusterRole").into_iter();
    roles.find(|role| role["metadata"]["name"] == *name).context("no ClusterRole")
}

/// The manifests for users without Helm equal those of the chart.
pub(crate) fn check_manifests(helm: &Helm) -> Result<()> {
    let path = hpa_tests::repository_path("examples/adapter/hpa-adapter.yaml");
    let rendered = helm.manifests("hpa-adapter")?;
    if std::env::var_os("UPDATE_MANIFESTS").is_some() {
        std::fs::write(&path, &rendered)?;
    }
    let stored = std::fs::read_to_string(&path)?;
    let is_equal = parse_documents(&stored)? == parse_documents(&rendered)?;
    ensure!(is_equal, "{} differs from the chart: just adapter-manifests", path.display());
    Ok(())
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn is_metrics_group(groups: &[&str]) -> bool {
    groups.iter().all(|group| group.ends_with(".metrics.k8s.io"))
}

fn names_of<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a str> {
    let objects = of_kind(objects, kind).into_iter();
    objects.filter_map(|object| object["metadata"]["name"].as_str()).collect()
}

/// Each role is bound to the adapter, or aggregated to another role.
fn check_bindings(objects: &[Value], roles: &[&Value]) -> Result<()> {
    let account = &pod_spec(objects)?["serviceAccountName"];
    let namespace = &deployment(objects)?["metadata"]["namespace"];
    let expected_subjects =
        json!([{"kind": "ServiceAccount", "name": account, "namespace": namespace}]);
    let bindings =
        [of_kind(objects, "ClusterRoleBinding"), of_kind(objects, "RoleBinding")].concat();
    let find = |name: &Value| bindings.iter().find(|one| one["roleRef"]["name"] == *name);
    let own_role = &deployment(objects)?["metadata"]["name"];
    let reader = json!("extension-apiserver-authentication-reader");
    for role in [own_role, &json!("system:auth-delegator"), &reader] {
        let binding = find(role).with_context(|| format!("{role} is not bound"))?;
        ensure!(binding["subjects"] == expected_subjects, "{binding}");
    }
    let reader = find(&reader).context("the reader is not bound")?;
    ensure!(reader["metadata"]["namespace"] == "kube-system", "{reader}");
    for role in roles {
        let (name, labels) = (&role["metadata"]["name"], &role["metadata"]["labels"]);
        let is_aggregated = labels["rbac.authorization.k8s.io/aggregate-to-view"] == "true";
        ensure!(is_aggregated || find(name).is_some(), "{name} is not bound");
    }
    Ok(())
}

/// Values become arguments, with the conversions of prometheus-adapter's chart.
pub(crate) fn check_arguments(helm: &Helm) -> Result<()> {
    let cases = [
        ("replicas=2", "--prometheus-url=http://prometheus.default.svc:9090"),
        ("prometheus.port=null", "--prometheus-url=http://prometheus.default.svc"),
        ("prometheus.path=/prom", "--prometheus-url=http://prometheus.default.svc:9090/prom"),
        (
            "prometheus.url=https://{{ .Release.Name }}.svc,prometheus.port=443",
            "--prometheus-url=https://test.svc:443",
        ),
        ("logLevel=4", "--log-level=info"),
        ("logLevel=6", "--log-level=debug"),
        ("logLevel=10", "--log-level=trace"),
        ("logLevel=warn", "--log-level=warn"),
        ("metricsRelistInterval=30s", "--metrics-relist-interval=30s"),
        ("replicas=2", "--share-queries=auto"),
        ("shareQueries=never", "--share-queries=never"),
        ("compat=prometheus-adapter", "--compat=prometheus-adapter"),
        ("extraArguments={--metrics-max-age=5m}", "--metrics-max-age=5m"),
        ("replicas=1", "--service=autoscaling-system/test-hpa-adapter"),
        ("certManager.enabled=true", "--tls-cert-file=/etc/hpa/tls/tls.crt"),
        ("replicas=1", "--external-metrics=false"),
    ];
    for (set, expected) in cases {
        let arguments = rendered::arguments(&helm.template_with(set)?)?;
        ensure!(arguments.iter().any(|one| one == expected), "{set}: {arguments:?}");
    }
    Ok(())
}

/// Optional objects are rendered only if their value is set.
pub(crate) fn check_switches(helm: &Helm) -> Result<()> {
    let defaults = helm.template("defaults")?;
    ensure!(of_kind(&defaults, "NetworkPolicy").is_empty(), "a NetworkPolicy by default");
    check_prometheus_port(&helm.template_with("networkPolicy.enabled=true")?, 9090)?;
    ensure!(of_kind(&defaults, "PodDisruptionBudget").len() == 1, "no PodDisruptionBudget");
    let single = helm.template_with("replicas=1")?;
    ensure!(of_kind(&single, "PodDisruptionBudget").is_empty(), "a budget for one pod");
    let bare = helm.template_with("rbac.create=false,serviceAccount.create=false")?;
    for kind in ["ClusterRole", "Role", "ServiceAccount", "RoleBinding", "ClusterRoleBinding"] {
        ensure!(of_kind(&bare, kind).is_empty(), "{kind}");
    }
    let existing = helm.template_with("rules.existing=mine,apiServices.external=true")?;
    ensure!(of_kind(&existing, "ConfigMap").is_empty(), "a ConfigMap");
    ensure!(of_kind(&existing, "APIService").len() == 3, "the APIs of the existing rules");
    let unregistered = helm.template_with("apiServices.create=false")?;
    ensure!(of_kind(&unregistered, "APIService").is_empty(), "an APIService");
    let volumes = &pod_spec(&existing)?["volumes"];
    ensure!(volumes[0]["configMap"]["name"] == "mine", "{volumes}");
    let volumes = pod_spec(&defaults)?["volumes"].as_array();
    ensure!(volumes.is_some_and(|volumes| volumes.len() == 1), "{volumes:?}");
    check_credentials(&helm.template_with("rules.credentialsSecret=mimir")?)?;
    let host = helm.template_with("hostNetwork.enabled=true")?;
    let pod = pod_spec(&host)?;
    ensure!(pod["hostNetwork"] == true && pod["dnsPolicy"] == "ClusterFirstWithHostNet", "{pod}");
    let as_cluster_role = helm.template_with("rbac.useAuthReaderClusterRole=true")?;
    ensure!(of_kind(&as_cluster_role, "RoleBinding").len() == 1, "a RoleBinding");
    check_given_certificates(helm)
}

/// Given certificates are used, with their CA in the `APIServices`.
fn check_given_certificates(helm: &Helm) -> Result<()> {
    let pem = "-----BEGIN X-----";
    let given = format!("tls.enable=true,tls.ca={pem},tls.key={pem},tls.certificate={pem}");
    let by_arguments = format!("tls.ca={pem},extraArguments={{--tls-cert-file=/tls/crt}}");
    for (set, secrets) in [(given, 1), (by_arguments, 0)] {
        let objects = helm.template_with(&set)?;
        let bundle = &of_kind(&objects, "APIService")[0]["spec"]["caBundle"];
        ensure!(*bundle == "LS0tLS1CRUdJTiBYLS0tLS0=", "{set}: {bundle}");
        ensure!(of_kind(&objects, "Secret").len() == secrets, "{set}");
        ensure!(of_kind(&objects, "Role").is_empty(), "{set}: the right to change a Secret");
        let arguments = rendered::arguments(&objects)?.join(" ");
        ensure!(!arguments.contains("--service="), "{set}: {arguments}");
    }
    Ok(())
}

/// Rendering fails for invalid values, and the error names the value.
pub(crate) fn check_invalid_values(helm: &Helm) -> Result<()> {
    let invalid = [
        ("replica=3", "replica"),
        ("image.repository=registry.k8s.io/prometheus-adapter/prometheus-adapter", "hpa image"),
        ("image.digest=latest", "digest"),
        ("listenPort=443", "listenPort"),
        ("healthPort=6443", "healthPort must not be listenPort"),
        ("prometheus.url=prometheus", "url"),
        ("prometheus.url=http://prometheus:9091", "write the port into prometheus.port only"),
        ("prometheus.path=prom", "path"),
        ("metricsRelistInterval=60", "metricsRelistInterval"),
        ("compat=pa", "compat"),
        ("logLevel=verbose", "logLevel"),
        ("logLevel=-1", "logLevel"),
        ("rules.default=false", "no API is served"),
        ("apiServices.external=true", "apiServices.external=true needs rules in rules.external"),
        ("rules.custom[0].seriesQuery=up", "metricsQuery"),
        ("tls.enable=true", "tls.ca"),
        ("extraArguments={--tls-cert-file=/tls/crt}", "tls.ca must have its authority"),
        ("tls.enable=true,certManager.enabled=true", "exclude each other"),
        ("podDisruptionBudget.minAvailable=half", "minAvailable"),
    ];
    rendered::check_rejected(helm, &invalid)
}
