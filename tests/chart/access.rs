//! Checks that the controller's chart grants what its values need, and no more.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::{files, helm::Helm, rendered::of_kind};

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

/// The role for single namespaces has the rights of the `ClusterRole` on the kinds that are scaled.
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
