//! Verb, resource and object of a request, parsed from its method and URI.

use std::fmt;

use http::{Method, Uri};
use serde::{Deserialize, Serialize};

/// Verb, resource and subresource of a request, as in the API server's own metrics.
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

/// A request's kind and the name of its object.
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
        let mut info = Self::with_verb("", uri);
        let is_collection = !info.kind.resource.is_empty() && info.name.is_empty();
        verb(method, is_collection, is_watch(uri)).clone_into(&mut info.kind.verb);
        info
    }

    /// Parses a request whose verb is known.
    pub(crate) fn with_verb(verb: &str, uri: &Uri) -> Self {
        let segments: Vec<&str> =
            uri.path().split('/').filter(|segment| !segment.is_empty()).collect();
        let (group, rest) = match segments.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => ("", [].as_slice()),
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let (plural, name, subresource) = match rest {
            [] => ("", "", ""),
            [plural] => (*plural, "", ""),
            [plural, name] => (*plural, *name, ""),
            [plural, name, subresource, ..] => (*plural, *name, *subresource),
        };
        let resource = match (plural, group) {
            ("", _) => String::new(),
            (_, EXTERNAL_METRICS) => EXTERNAL_METRICS.to_owned(),
            (plural, group) => qualified(plural, group),
        };
        let [verb, subresource] = [verb, subresource].map(ToOwned::to_owned);
        Self {
            kind: RequestKind { verb, resource, subresource },
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    pub(crate) fn is(&self, verbs: &[&str], resource: &str, subresource: &str) -> bool {
        let RequestKind { verb, resource: own, subresource: sub } = &self.kind;
        verbs.contains(&verb.as_str()) && own == resource && sub == subresource
    }
}

/// Joins a resource and its group.
pub(crate) fn qualified(plural: &str, group: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

fn verb(method: &Method, is_collection: bool, is_watch: bool) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ if is_watch => "watch",
        _ if is_collection => "list",
        _ => "get",
    }
}

fn is_watch(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query.split('&').any(|parameter| matches!(parameter, "watch=true" | "watch=1"))
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
