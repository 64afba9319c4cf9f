//! The labels of the metrics about a request.

use crate::metrics_api::{Group, InstalledGroups, RequestInfo, ResourceAttributes};

/// The labels of a request, with the values of kube-apiserver's libraries. What clients can choose
/// freely is not told apart, because there would be no limit to the number of series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestLabels {
    /// The verb as in authorization, for metrics of our own.
    pub(crate) request_verb: &'static str,
    pub(crate) verb: &'static str,
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) subresource: &'static str,
    pub(crate) scope: &'static str,
    pub(crate) component: &'static str,
}

impl Default for RequestLabels {
    /// A request that can't be read.
    fn default() -> Self {
        Self {
            request_verb: "other",
            verb: "other",
            group: "",
            version: "",
            resource: "",
            subresource: "",
            scope: "",
            component: "apiserver",
        }
    }
}

/// Verbs as in authorization, and as in metrics of kube-apiserver.
const VERBS: [(&str, &str); 11] = [
    ("get", "GET"),
    ("list", "LIST"),
    ("watch", "WATCH"),
    ("create", "POST"),
    ("post", "POST"),
    ("update", "PUT"),
    ("put", "PUT"),
    ("patch", "PATCH"),
    ("delete", "DELETE"),
    ("head", "HEAD"),
    ("options", "OPTIONS"),
];

impl RequestLabels {
    /// The labels of a request.
    pub(crate) fn new(groups: InstalledGroups, info: &RequestInfo) -> Self {
        let verb = VERBS.into_iter().find(|(verb, _)| *verb == info.verb);
        let request_verb = ["get", "list", "watch"].into_iter().find(|verb| *verb == info.verb);
        let labels = Self {
            request_verb: request_verb.unwrap_or("other"),
            verb: verb.map_or("other", |(_, verb)| verb),
            ..Self::default()
        };
        let Some(target) = &info.resource else { return labels };
        let Some(group) = groups.iter().find(|group| group.name() == target.group) else {
            return labels;
        };
        let version = group.versions().iter().find(|version| **version == target.version);
        let labels =
            Self { group: group.name(), version: version.copied().unwrap_or(""), ..labels };
        labels.of_resource(group, target)
    }

    fn of_resource(self, group: Group, target: &ResourceAttributes) -> Self {
        let is_namespaced = !target.namespace.is_empty();
        let reads = matches!(self.verb, "GET" | "LIST");
        // As in the reference: all reads of custom and external metrics are lists of anything.
        let (component, scope) = match group {
            Group::Resource => return self.of_usage(target),
            Group::Custom => {
                ("custom-metrics", if is_namespaced { "namespace" } else { "cluster" })
            }
            Group::External => ("external-metrics", "cluster"),
        };
        let verb = if reads { "LIST" } else { self.verb };
        Self { verb, resource: "*", subresource: "*", scope, component, ..self }
    }

    /// Pods and nodes.
    fn of_usage(self, target: &ResourceAttributes) -> Self {
        let known = ["pods", "nodes"].into_iter().find(|known| *known == target.resource);
        let scope = if !target.name.is_empty() {
            "resource"
        } else if target.namespace.is_empty() {
            "cluster"
        } else {
            "namespace"
        };
        Self { resource: known.unwrap_or(""), scope, ..self }
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics_api::Query;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(
        "GET",
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/*/load",
        "LIST custom.metrics.k8s.io v1beta2 * * namespace custom-metrics"
    )]
    #[case(
        "GET",
        "/apis/custom.metrics.k8s.io/v1beta1/nodes/n/load",
        "LIST custom.metrics.k8s.io v1beta1 * * cluster custom-metrics"
    )]
    #[case(
        "GET",
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue",
        "LIST external.metrics.k8s.io v1beta1 * * cluster external-metrics"
    )]
    #[case(
        "GET",
        "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods",
        "LIST metrics.k8s.io v1beta1 pods  namespace apiserver"
    )]
    #[case(
        "GET",
        "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/web-0",
        "GET metrics.k8s.io v1beta1 pods  resource apiserver"
    )]
    #[case(
        "GET",
        "/apis/metrics.k8s.io/v1beta1/nodes",
        "LIST metrics.k8s.io v1beta1 nodes  cluster apiserver"
    )]
    #[case::unknown_resource(
        "GET",
        "/apis/metrics.k8s.io/v9/random-name",
        "LIST metrics.k8s.io    cluster apiserver"
    )]
    #[case::unknown_group("GET", "/apis/random/v1/pods", "LIST      apiserver")]
    #[case::discovery("GET", "/apis", "GET      apiserver")]
    #[case::unknown_method("RANDOM", "/apis", "other      apiserver")]
    #[case(
        "POST",
        "/apis/custom.metrics.k8s.io/v1beta1/nodes/n/load",
        "POST custom.metrics.k8s.io v1beta1 * * cluster custom-metrics"
    )]
    fn labels_have_few_values(#[case] method: &str, #[case] path: &str, #[case] expected: &str) {
        let groups = InstalledGroups { custom: true, external: true, resource: true };
        let info = RequestInfo::new(method, path, &Query::default()).unwrap();
        let labels = RequestLabels::new(groups, &info);
        let RequestLabels { verb, group, version, resource, subresource, scope, component, .. } =
            labels;
        let texts = [verb, group, version, resource, subresource, scope, component];
        assert_eq!(texts.join(" "), expected);
    }
}
