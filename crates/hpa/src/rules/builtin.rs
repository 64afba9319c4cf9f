//! Built-in resources of Kubernetes that metrics can describe.

use std::sync::Arc;

use hpa_metrics::{
    FixedMapper, ResourceMapper,
    resource::{ApiResource, ApiResources, GroupResource},
};

/// Group, version, plural, kind.
const RESOURCES: [(&str, &str, &str, &str); 18] = [
    ("", "v1", "pods", "Pod"),
    ("", "v1", "services", "Service"),
    ("", "v1", "nodes", "Node"),
    ("", "v1", "namespaces", "Namespace"),
    ("", "v1", "persistentvolumes", "PersistentVolume"),
    ("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    ("", "v1", "endpoints", "Endpoints"),
    ("", "v1", "configmaps", "ConfigMap"),
    ("", "v1", "secrets", "Secret"),
    ("", "v1", "serviceaccounts", "ServiceAccount"),
    ("apps", "v1", "deployments", "Deployment"),
    ("apps", "v1", "statefulsets", "StatefulSet"),
    ("apps", "v1", "daemonsets", "DaemonSet"),
    ("apps", "v1", "replicasets", "ReplicaSet"),
    ("batch", "v1", "jobs", "Job"),
    ("batch", "v1", "cronjobs", "CronJob"),
    ("networking.k8s.io", "v1", "ingresses", "Ingress"),
    ("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
];

/// A mapper of only the built-in resources of Kubernetes.
pub(crate) fn mapper() -> Arc<dyn ResourceMapper> {
    // The singular name of each resource is its kind in lower case.
    Arc::new(FixedMapper(ApiResources::new(RESOURCES.map(|(group, version, plural, kind)| {
        ApiResource {
            group_resource: GroupResource::new(group, plural),
            version: version.to_owned(),
            kind: kind.to_owned(),
            singular: kind.to_lowercase(),
        }
    }))))
}
