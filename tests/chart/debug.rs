//! Checks the objects of the debug API.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::{
    helm::{Helm, NAMESPACE},
    rendered::{arguments, of_kind, pod_spec},
};

/// Flag, port, roles and bindings exist only if `debug.enabled` is set. They match each other and
/// the requests of `hpa`.
pub(crate) fn check_debug_api(helm: &Helm) -> Result<()> {
    let mentions_debug = |object: &Value| object.to_string().contains("debug");
    let defaults = helm.template("defaults")?;
    ensure!(!defaults.iter().any(mentions_debug), "a debug API by default");

    let objects = helm.template_with(
        "debug.enabled=true,debug.port=9000,debug.memoryLimit=16Mi,networkPolicy.enabled=true,\
         leaderElection.resourceName=a-lease,debug.readers[0].kind=Group,debug.readers[0].name=sre",
    )?;
    check_port(&objects)?;
    check_reader(&objects)?;
    check_account(&objects)?;

    // The controller may review tokens and accesses, and the readers may read.
    let reviews = find_by_suffix(&objects, "ClusterRoleBinding", "-auth-delegator")?;
    ensure!(reviews["roleRef"]["name"] == "system:auth-delegator", "{reviews}");
    let controller_account = &pod_spec(&objects)?["serviceAccountName"];
    ensure!(reviews["subjects"][0]["name"] == *controller_account, "{reviews}");
    let readers = find_by_suffix(&objects, "RoleBinding", "-debug-reader")?;
    ensure!(readers["subjects"] == json!([{ "kind": "Group", "name": "sre" }]), "{readers}");

    let bare = helm.template_with("debug.enabled=true,rbac.create=false")?;
    ensure!(of_kind(&bare, "ClusterRoleBinding").is_empty(), "a binding without rbac.create");
    Ok(())
}

/// The container has the flags and the port, and the `NetworkPolicy` permits connections to it.
fn check_port(objects: &[Value]) -> Result<()> {
    let arguments = arguments(objects)?;
    for flag in ["--debug-port=9000", "--debug-memory-limit=16Mi"] {
        ensure!(arguments.iter().any(|argument| argument == flag), "no {flag}: {arguments:?}");
    }
    let container = &pod_spec(objects)?["containers"][0];
    let port = json!({ "name": "debug", "containerPort": 9000, "protocol": "TCP" });
    ensure!(container["ports"].as_array().is_some_and(|ports| ports.contains(&port)), "no port");
    ensure!(container["env"][0]["name"] == "HPA_POD_NAME", "{}", container["env"]);
    let policy = of_kind(objects, "NetworkPolicy");
    let ingress = &policy.first().context("no NetworkPolicy")?["spec"]["ingress"];
    ensure!(ingress[1]["ports"][0]["port"] == "debug", "{ingress}");
    Ok(())
}

/// A reader has only the rights that the requests of `hpa` need.
fn check_reader(objects: &[Value]) -> Result<()> {
    let reader = find_by_suffix(objects, "Role", "-debug-reader")?;
    let rights: Vec<_> = reader["rules"].as_array().into_iter().flatten().collect();
    let right = |group: &str, resource: &str, name: Option<&str>, verb: &str| {
        let mut rule = json!({ "apiGroups": [group], "resources": [resource], "verbs": [verb] });
        if let Some(name) = name {
            rule["resourceNames"] = json!([name]);
        }
        rule
    };
    let expected = [
        right("coordination.k8s.io", "leases", Some("a-lease"), "get"),
        right("", "pods", None, "get"),
        right("", "pods/proxy", None, "get"),
        right("", "serviceaccounts/token", Some("a-lease-debug"), "create"),
    ];
    ensure!(rights.iter().copied().eq(&expected), "{rights:?}");
    Ok(())
}

/// The service account whose tokens the readers request may only GET `/debug/v1/*`.
fn check_account(objects: &[Value]) -> Result<()> {
    let account = json!([{
        "kind": "ServiceAccount", "name": "a-lease-debug", "namespace": NAMESPACE,
    }]);
    let documents = find_by_suffix(objects, "ClusterRole", "-debug")?;
    let get = json!([{ "nonResourceURLs": ["/debug/v1/*"], "verbs": ["get"] }]);
    ensure!(documents["rules"] == get, "{documents}");
    let bound: Vec<_> = ["ClusterRoleBinding", "RoleBinding"]
        .into_iter()
        .flat_map(|kind| of_kind(objects, kind))
        .filter(|binding| binding["subjects"] == account)
        .map(|binding| &binding["roleRef"]["name"])
        .collect();
    ensure!(bound == [&documents["metadata"]["name"]], "{bound:?}");
    let accounts = of_kind(objects, "ServiceAccount");
    let named = accounts.iter().find(|one| one["metadata"]["name"] == "a-lease-debug");
    ensure!(named.is_some_and(|one| one["automountServiceAccountToken"] == false), "no account");
    Ok(())
}

/// The object of a kind whose name has this suffix.
fn find_by_suffix<'a>(objects: &'a [Value], kind: &str, suffix: &str) -> Result<&'a Value> {
    let is_named = |object: &&Value| {
        object["metadata"]["name"].as_str().is_some_and(|name| name.ends_with(suffix))
    };
    let found = of_kind(objects, kind).into_iter().find(is_named);
    found.with_context(|| format!("no {kind} {suffix}"))
}
