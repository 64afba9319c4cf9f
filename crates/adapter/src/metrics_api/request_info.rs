//! Derives the attributes for authorization from a request, as in kube-apiserver.

use crate::metrics_api::query::{ListOptions, UrlQuery, is_watch};

/// The attributes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// The decoded path.
    pub path: String,
    /// The verb: `get`, `list`, … Empty for an unknown method. For non-resource paths, the method
    /// in lower case.
    pub verb: String,
    /// The resource. `None` for non-resource paths.
    pub resource: Option<ResourceAttributes>,
}

/// A resource in a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceAttributes {
    pub group: String,
    pub version: String,
    /// Empty for all namespaces and for cluster-scoped objects. For a namespace, its own name.
    pub namespace: String,
    /// The resource, for example `pods`, or an external metric.
    pub resource: String,
    /// The subresource. For a custom metric, its name.
    pub subresource: String,
    /// The name of the object.
    pub name: String,
    /// The number of path segments from the resource to the end.
    pub segment_count: usize,
}

impl RequestInfo {
    /// `path` must be percent-decoded. Fails if nothing follows a `watch` or `proxy` prefix.
    pub fn new(method: &str, path: &str, query: &UrlQuery) -> Result<Self, String> {
        let mut info =
            Self { path: path.to_owned(), verb: method.to_ascii_lowercase(), resource: None };
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return Ok(info),
        };
        let (path_verb, rest) = match rest {
            ["watch" | "proxy"] => {
                return Err(format!("unable to determine kind and namespace from url, {path}"));
            }
            [verb @ ("watch" | "proxy"), rest @ ..] => (Some(*verb), rest),
            rest => (None, rest),
        };
        path_verb.unwrap_or_else(|| verb_of(method)).clone_into(&mut info.verb);
        let (namespace, rest) = split_namespace(rest);
        let segment = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
        let mut attributes = ResourceAttributes {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.to_owned(),
            resource: segment(0),
            name: segment(1),
            subresource: if info.verb == "proxy" { String::new() } else { segment(2) },
            segment_count: rest.len(),
        };
        if attributes.name.is_empty() {
            let (verb, name) = collection_verb(&info.verb, query);
            (info.verb, attributes.name) = (verb.to_owned(), name);
        }
        info.resource = Some(attributes);
        Ok(info)
    }
}

fn verb_of(method: &str) -> &'static str {
    match method {
        "POST" => "create",
        "GET" | "HEAD" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

/// Splits off `namespaces/NAMESPACE`, unless the namespace itself is the object.
fn split_namespace<'a, 'p>(segments: &'a [&'p str]) -> (&'p str, &'a [&'p str]) {
    match segments {
        ["namespaces", namespace, "status" | "finalize", ..] | ["namespaces", namespace] => {
            (*namespace, segments)
        }
        ["namespaces", namespace, rest @ ..] => (*namespace, rest),
        _ => ("", segments),
    }
}

/// The verb of a request without a name in its path, and the name of the object if a field selector
/// names one.
fn collection_verb<'v>(verb: &'v str, query: &UrlQuery) -> (&'v str, String) {
    let verb = match verb {
        "get" if is_watch(query) => "watch",
        "get" => "list",
        "delete" => return ("deletecollection", String::new()),
        verb => return (verb, String::new()),
    };
    let Ok(options) = ListOptions::parse(query) else { return (verb, String::new()) };
    let is_segment = |name: &&str| !matches!(*name, "." | "..") && !name.contains(['/', '%']);
    let exact = options.field_selector.exact_match("metadata.name").filter(is_segment);
    (verb, exact.unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// `verb group/version namespace resource name subresource`, with `-` for an empty part.
    fn describe(method: &str, target: &str) -> String {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let info = RequestInfo::new(method, path, &UrlQuery::parse(query)).unwrap();
        let Some(resource) = info.resource else { return format!("{} {}", info.verb, info.path) };
        let ResourceAttributes { group, version, namespace, resource, subresource, name, .. } =
            resource;
        [info.verb, format!("{group}/{version}"), namespace, resource, name, subresource]
            .map(|part| if part.is_empty() { "-".to_owned() } else { part })
            .join(" ")
    }

    #[rstest]
    #[case("GET", "/apis/g/v", "get /apis/g/v")]
    #[case("GET", "/metrics", "get /metrics")]
    #[case("GET", "/apis/g/v/namespaces/a/pods/*/m", "get g/v a pods * m")]
    #[case("GET", "/apis/g/v/namespaces//pods/*/m", "get g/v - pods * m")]
    #[case("GET", "/apis/g/v/namespaces/a/metrics/m", "get g/v a metrics m -")]
    #[case("GET", "/apis/g/v/namespaces/a", "get g/v a namespaces a -")]
    #[case("GET", "/apis/g/v/namespaces/a/status", "get g/v a namespaces a status")]
    #[case("GET", "/apis/g/v/namespaces/a/queue", "list g/v a queue - -")]
    #[case("GET", "/apis/g/v/namespaces/a/queue?watch=1", "watch g/v a queue - -")]
    #[case("GET", "/apis/g/v/x?watch=1&labelSelector=%2C", "watch g/v - x - -")]
    #[case("GET", "/apis/g/v/pods?fieldSelector=metadata.name%3Dp", "list g/v - pods p -")]
    #[case(
        "DELETE",
        "/apis/g/v/pods?fieldSelector=metadata.name%3Dp",
        "deletecollection g/v - pods - -"
    )]
    #[case("HEAD", "/apis/g/v/watch/namespaces/a/pods/*/m", "watch g/v a pods * m")]
    #[case("PATCH", "/apis/g/v/a/b/c/d", "patch g/v - a b c")]
    #[case("GET", "/api/v1/pods", "list /v1 - pods - -")]
    fn attributes_are_read_from_the_path(
        #[case] method: &str,
        #[case] target: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(describe(method, target), expected);
    }

    #[test]
    fn verb_without_a_resource_is_refused() {
        assert!(RequestInfo::new("GET", "/apis/g/v/watch", &UrlQuery::default()).is_err());
    }
}
