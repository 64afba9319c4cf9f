//! Checks that the controller's chart grants what its values need, and no more.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::{
    files,
    helm::{Helm, NAMESPACE},
    rendered::{arguments, of_kind, pod_spec},
};

/// The verbs that a dry run needs.
const READ_VERBS: [&str; 3] = ["get", "list", "watch"];

/// The `NetworkPolicy` permits connections to each URL of Prometheus.
pub(crate) fn check_egress_to_prometheus(helm: &Helm) -> Result<()> {
    let ports = |set: &str| -> Result<Value> {
        let set = format!("networkPolicy.enabled=true,{set}");
        let objects = helm.template_with(&set)?;
        let policy = of_kind(&objects, "NetworkPolicy");
        let egress = &policy.first().context("no NetworkPolicy")?["spec"]["egress"];
        let ports: Vec<&Value> = egress
            .as_array()
            .context("no egress")?
            .iter()
            .flat_map(|rule| rule["ports"].as_array().into_iter().flatten())
            .map(|port| &port["port"])
            // The ports of the API server and of DNS are always permitted.
            .filter(|port| !matches!(port.as_u64(), Some(443 | 6443 | 53)))
            .collect();
        Ok(json!(ports))
    };
    let forecasts = "forecasts.prometheusUrl=http://thanos:10902/";
    let rules = "metrics.prometheus.rules.existing=mine";
    let metrics = format!("metrics.prometheus.url=http://prometheus:9090,{rules}");
    let collectors = "collectors.prometheusUrl=http://other:8080";
    for (set, expected) in [
        (forecasts.to_owned(), json!([10902])),
        (format!("{metrics},{forecasts}"), json!([9090, 10902])),
        (format!("{metrics},forecasts.prometheusUrl=http://prometheus:9090"), json!([9090])),
        (format!("{forecasts},{collectors},collectors.enabled=true"), json!([10902, 8080])),
        (format!("{metrics},{collectors},collectors.enabled=true"), json!([9090])),
        (collectors.to_owned(), json!([])),
    ] {
        let ports = ports(&set)?;
        ensure!(ports == expected, "{set}: {ports}");
    }
    Ok(())
}

/// Ingresses and `RouteGroups` may be read only if skipper's metrics are read.
pub(crate) fn check_skipper_rights(helm: &Helm) -> Result<()> {
    let url = "collectors.prometheusUrl=http://prometheus:9090";
    for (set, expected) in [
        ("collectors.enabled=true", &[] as &[&str]),
        ("collectors.enabled=true,collectors.skipperIngress=true", &["ingresses"]),
        ("collectors.enabled=true,collectors.skipperRouteGroup=true", &["routegroups"]),
        ("collectors.skipperIngress=true,collectors.skipperRouteGroup=true", &[]),
    ] {
        let objects = helm.template_with(&format!("{url},{set}"))?;
        let roles = of_kind(&objects, "ClusterRole");
        let role = roles.first().context("no ClusterRole")?;
        let granted: Vec<&str> = role["rules"]
            .as_array()
            .context("no rules")?
            .iter()
            .filter_map(|rule| rule["resources"][0].as_str())
            .filter(|resource| matches!(*resource, "ingresses" | "routegroups"))
            .collect();
        ensure!(granted == expected, "{set}: {granted:?}");
    }
    Ok(())
}

/// The role for single namespaces has the verbs of the `ClusterRole` for the kinds of `apps`.
pub(crate) fn check_namespaced_role() -> Result<()> {
    let verbs = |file: &str| -> Result<Value> {
        let role = files::read_controller_file(file)?;
        let rules = role["rules"].as_array().context("no rules")?;
        let is_apps = |rule: &&Value| rule["apiGroups"][0] == "apps";
        Ok(rules.iter().find(is_apps).context("no rule")?["verbs"].clone())
    };
    let (namespaced, cluster) =
        (verbs("files/role-namespaced.yaml")?, verbs("files/clusterrole.yaml")?);
    ensure!(namespaced == cluster, "{namespaced} instead of {cluster}");
    Ok(())
}

/// The rules of the shipped role files that a set of values needs.
fn rules_for(value_set: &str) -> Result<Value> {
    let mut files = vec!["files/clusterrole.yaml"];
    if value_set == "everything" {
        files.push("files/role-schedules.yaml");
        files.extend(["files/role-skipper-ingress.yaml", "files/role-skipper-routegroup.yaml"]);
    }
    let mut rules = Vec::new();
    for file in files {
        let role = files::read_controller_file(file)?;
        rules.extend(role["rules"].as_array().context("no rules")?.clone());
    }
    Ok(rules.into())
}

/// The rendered roles have the rules of the shipped files: the `ClusterRole`, for the cluster or
/// per namespace, and the role for leader election.
pub(crate) fn check_permissions(objects: &[Value], value_set: &str) -> Result<()> {
    let (shipped, election) = (
        files::read_controller_file("files/clusterrole.yaml")?,
        files::read_controller_file("files/role.yaml")?,
    );
    let (of_users, cluster_roles) = cluster_roles(objects);
    check_roles_of_users(objects, &of_users)?;
    let roles = of_kind(objects, "Role");
    if value_set == "namespaced" {
        ensure!(cluster_roles.is_empty(), "a ClusterRole");
        let namespaces: Vec<_> = roles.iter().map(|role| &role["metadata"]["namespace"]).collect();
        ensure!(namespaces == ["shop", "pay"], "{namespaces:?}");
    }
    let is_election = |role: &&Value| {
        role["metadata"]["name"].as_str().is_some_and(|name| name.ends_with("-election"))
    };
    let (elections, main): (Vec<&Value>, Vec<&Value>) = roles.into_iter().partition(is_election);
    for role in cluster_roles.into_iter().chain(main) {
        if value_set == "shadow" {
            check_read_only(role, &shipped)?;
        } else {
            ensure!(role["rules"] == rules_for(value_set)?, "{}", role["metadata"]["name"]);
        }
    }
    ensure!(
        elections.len() == usize::from(has_leader_election(objects)?),
        "{} leader election roles",
        elections.len()
    );
    check_leases(&of_kind(objects, "Lease"), &elections, value_set == "shadow")?;
    for role in elections {
        ensure!(
            role["rules"] == rules_for_lease(&election["rules"], &lease_name(objects)?)?,
            "the leader election role"
        );
        ensure!(
            role["metadata"]["namespace"] == NAMESPACE,
            "the role is not in the namespace of the lease"
        );
    }
    check_bindings(objects)
}

/// A Lease object is a hook that deletes the lease at the end of `helm uninstall`. In shadow mode,
/// it also deletes the lease after the upgrade to shadow mode.
fn check_leases(leases: &[&Value], roles: &[&Value], is_shadow: bool) -> Result<()> {
    ensure!(leases.len() == usize::from(is_shadow) + roles.len(), "{} leases", leases.len());
    for lease in leases {
        // Helm must delete it after the role bindings.
        let annotations = json!({
            "helm.sh/hook": if is_shadow { "post-delete,post-upgrade" } else { "post-delete" },
            "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
        });
        ensure!(lease["metadata"]["annotations"] == annotations, "{lease}");
    }
    for (lease, role) in leases.iter().zip(roles) {
        let name = &lease["metadata"]["name"];
        ensure!(role["rules"][0]["resourceNames"][0] == *name, "{name} is not the role's lease");
    }
    Ok(())
}

/// The role has the rules of the shipped file, without write verbs.
fn check_read_only(role: &Value, shipped: &Value) -> Result<()> {
    let reading = |entry: &Value| {
        let mut reduced = entry.clone();
        let verbs = reduced["verbs"].as_array_mut()?;
        verbs.retain(|verb| READ_VERBS.iter().any(|allowed| verb == allowed));
        (!verbs.is_empty()).then_some(reduced)
    };
    let expected: Vec<Value> =
        shipped["rules"].as_array().into_iter().flatten().filter_map(reading).collect();
    ensure!(expected.len() > 3 && role["rules"] == Value::Array(expected), "{}", role["rules"]);
    Ok(())
}

fn has_leader_election(objects: &[Value]) -> Result<bool> {
    Ok(arguments(objects)?.contains(&"--leader-elect=true".to_owned()))
}

fn lease_name(objects: &[Value]) -> Result<String> {
    let named = |argument: String| {
        argument.strip_prefix("--leader-elect-resource-name=").map(ToOwned::to_owned)
    };
    arguments(objects)?.into_iter().find_map(named).context("no lease")
}

/// The shipped rules, for a lease of another name.
fn rules_for_lease(rules: &Value, lease: &str) -> Result<Value> {
    Ok(serde_json::from_str(&rules.to_string().replace("hpa-controller", lease))?)
}

/// The `ClusterRole`s that are aggregated to those of users, and the others.
fn cluster_roles(objects: &[Value]) -> (Vec<&Value>, Vec<&Value>) {
    let is_aggregated = |role: &&Value| {
        let labels = role["metadata"]["labels"].as_object();
        let mut names = labels.into_iter().flat_map(|labels| labels.keys());
        names.any(|name| name.starts_with("rbac.authorization.k8s.io/aggregate-to-"))
    };
    of_kind(objects, "ClusterRole").into_iter().partition(is_aggregated)
}

/// With the CRD, users get rights to the custom API, and to nothing else.
fn check_roles_of_users(objects: &[Value], of_users: &[&Value]) -> Result<()> {
    let has_crd = !of_kind(objects, "CustomResourceDefinition").is_empty();
    ensure!(of_users.len() == if has_crd { 2 } else { 0 }, "{} roles of users", of_users.len());
    let rules = of_users.iter().flat_map(|role| role["rules"].as_array().into_iter().flatten());
    for rule in rules {
        ensure!(rule["apiGroups"] == json!(["autoscaling.hpa-rs.dev"]), "{rule}");
    }
    Ok(())
}

/// Every role is bound to the service account of the pods, and there are no other bindings.
fn check_bindings(objects: &[Value]) -> Result<()> {
    let account = &pod_spec(objects)?["serviceAccountName"];
    for (kind, binder) in [("ClusterRole", "ClusterRoleBinding"), ("Role", "RoleBinding")] {
        let bindings = of_kind(objects, binder);
        let roles = if kind == "Role" { of_kind(objects, kind) } else { cluster_roles(objects).1 };
        ensure!(
            roles.len() == bindings.len(),
            "{} {kind}s, {} bindings",
            roles.len(),
            bindings.len()
        );
        for (role, binding) in roles.iter().zip(bindings) {
            ensure!(binding["roleRef"]["name"] == role["metadata"]["name"], "{binding}");
            ensure!(binding["metadata"]["namespace"] == role["metadata"]["namespace"], "{binding}");
            let subject =
                json!([{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]);
            ensure!(binding["subjects"] == subject, "{binding}");
        }
    }
    Ok(())
}
