//! Verb, resource and object of a request, parsed from its method and URI.

use std::fmt;

use hpa_testbed::name_with_group;
use http::{Method, Uri};
use serde::{Deserialize, Serialize};

/// Verb, resource and subresource of a request. Requests are counted by them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct RequestKind {
    pub(crate) verb: String,
    /// With its group (`deployments.apps`). Empty for discovery and other non-resource paths. All
    /// external metrics count as one resource.
    pub(crate) resource: String,
    pub(crate) subresource: String,
}

impl fmt::Display for RequestKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, resource, subresource } = self;
        let resource = if resource.is_empty() { "(discovery, version)" } else { resource };
        let slash = if subresource.is_empty() { "" } else { "/" };
        write!(formatter, "{verb} {resource}{slash}{subresource}")
    }
}

/// A request's kind, and the namespace and name of its object. Missing ones are empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    pub(crate) kind: RequestKind,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

pub(crate) const POD_METRICS: &str = "pods.metrics.k8s.io";
const EXTERNAL_METRICS: &str = "external.metrics.k8s.io";

impl RequestInfo {
    pub(crate) fn new(method: &Method, uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        let is_watch =
            query.split('&').any(|parameter| matches!(parameter, "watch=true" | "watch=1"));
        let info = hpa_testbed::RequestInfo::new(method, uri.path(), is_watch);
        let resource = match (info.resource.as_str(), info.group.as_str()) {
            ("", _) => String::new(),
            (_, EXTERNAL_METRICS) => EXTERNAL_METRICS.to_owned(),
            (plural, group) => name_with_group(plural, group),
        };
        let kind = RequestKind { verb: info.verb, resource, subresource: info.subresource };
        Self { kind, namespace: info.namespace, name: info.name }
    }

    /// Parses a request whose verb is known.
    pub(crate) fn with_verb(verb: &str, uri: &Uri) -> Self {
        let mut info = Self::new(&Method::GET, uri);
        verb.clone_into(&mut info.kind.verb);
        info
    }

    /// Whether the request has one of the verbs, and this resource and subresource.
    pub(crate) fn matches(&self, verbs: &[&str], resource: &str, subresource: &str) -> bool {
        let kind = &self.kind;
        verbs.contains(&kind.verb.as_str())
            && kind.resource == resource
            && kind.subresource == subresource
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Method::GET, "/apis", ["get", "", "", "", ""])]
    #[case(Method::GET, "/apis/apps/v1", ["get", "", "", "", ""])]
    #[case(Method::GET, "/api/v1/pods?limit=500", ["list", "pods", "", "", ""])]
    #[case(Method::GET, "/api/v1/pods?a=b&watch=true", ["watch", "pods", "", "", ""])]
    #[case(Method::GET, "/api/v1/namespaces/n", ["get", "namespaces", "", "", "n"])]
    #[case(Method::POST, "/api/v1/namespaces/n/events", ["create", "events", "", "n", ""])]
    #[case(
        Method::GET,
        "/apis/apps/v1/namespaces/n/deployments/w/scale",
        ["get", "deployments.apps", "scale", "n", "w"]
    )]
    #[case(
        Method::PUT,
        "/apis/apps/v1/namespaces/n/deployments/w/scale",
        ["update", "deployments.apps", "scale", "n", "w"]
    )]
    #[case(
        Method::GET,
        "/apis/metrics.k8s.io/v1/namespaces/n/pods",
        ["list", POD_METRICS, "", "n", ""]
    )]
    #[case(
        Method::GET,
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/n/m",
        ["list", EXTERNAL_METRICS, "", "n", ""]
    )]
    fn request_is_parsed(
        #[case] method: Method,
        #[case] uri: &'static str,
        #[case] expected: [&str; 5],
    ) {
        let RequestInfo { kind, namespace, name } =
            RequestInfo::new(&method, &Uri::from_static(uri));
        assert_eq!([kind.verb, kind.resource, kind.subresource, namespace, name], expected);
    }
}
