//! Parsed requests.

use axum::{body::Bytes, extract::Query as UriQuery};
use http::{HeaderMap, Method, Uri, header};
use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::error::ApiError;

/// The operation and the resource of a request, like kube-apiserver's `RequestInfo`. Missing parts
/// are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequestInfo {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`. If the
    /// path names no resource: the HTTP method in lower case.
    pub verb: String,
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    /// Plural name.
    pub resource: String,
    /// Such as `status` or `scale`. For a custom metric, the metric's name, unless it describes a
    /// namespace.
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub path: String,
    /// The name given to [`Testbed::client_named`](crate::Testbed::client_named), or else the
    /// product in the `User-Agent` header: `kubectl` of `kubectl/v1.37.0`.
    pub client: String,
}

impl RequestInfo {
    /// Parses a method and a path. `is_watch` is whether the query asks for a watch.
    pub fn new(method: &Method, path: &str, is_watch: bool) -> Self {
        let mut info = Self { path: path.to_owned(), ..Self::default() };
        let segments: Vec<String> =
            path.split('/').filter(|part| !part.is_empty()).map(decode).collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let rest = match segments.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => {
                (*version).clone_into(&mut info.version);
                rest
            }
            ["apis", group, version, rest @ ..] if !rest.is_empty() => {
                (*group).clone_into(&mut info.group);
                (*version).clone_into(&mut info.version);
                rest
            }
            _ => {
                info.verb = method.as_str().to_lowercase();
                return info;
            }
        };
        info.parse_resource(rest);
        verb(method, !info.name.is_empty(), is_watch).clone_into(&mut info.verb);
        info
    }

    fn parse_resource(&mut self, segments: &[&str]) {
        let segments = match segments {
            ["namespaces", _, "status" | "finalize"] => segments,
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => {
                (*namespace).clone_into(&mut self.namespace);
                rest
            }
            _ => segments,
        };
        let mut segments = segments.iter().map(|&segment| segment.to_owned());
        self.resource = segments.next().unwrap_or_default();
        self.name = segments.next().unwrap_or_default();
        self.subresource = segments.collect::<Vec<_>>().join("/");
    }
}

fn verb(method: &Method, has_name: bool, is_watch: bool) -> &'static str {
    match (method.as_str(), has_name) {
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        (_, true) if !is_watch => "get",
        (_, _) if is_watch => "watch",
        _ => "list",
    }
}

fn decode(segment: &str) -> String {
    percent_decode_str(segment).decode_utf8_lossy().into_owned()
}

/// A request with its body.
#[derive(Clone, Debug)]
pub(crate) struct ApiRequest {
    pub(crate) method: Method,
    pub(crate) info: RequestInfo,
    query: Vec<(String, String)>,
    pub(crate) accept: String,
    pub(crate) content_type: String,
    /// The product in the `User-Agent` header: `kubectl` of `kubectl/v1.37.0`.
    product: String,
    pub(crate) body: Bytes,
    /// The age of the state that a GET or list returns, in resource versions. Set by
    /// `Effect::Stale`, otherwise 0.
    pub(crate) revisions_back: u64,
}

impl ApiRequest {
    pub(crate) fn new(method: Method, uri: &Uri, headers: &HeaderMap, body: Bytes) -> Self {
        let query: Vec<(String, String)> =
            UriQuery::try_from_uri(uri).map(|UriQuery(query)| query).unwrap_or_default();
        let header = |name| {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let user_agent = header(header::USER_AGENT);
        let product = user_agent.split('/').next().unwrap_or_default().to_owned();
        let mut request = Self {
            info: RequestInfo::default(),
            accept: header(header::ACCEPT),
            content_type: header(header::CONTENT_TYPE),
            product,
            method,
            query,
            body,
            revisions_back: 0,
        };
        let info = RequestInfo::new(&request.method, uri.path(), request.is_true("watch"));
        request.info = RequestInfo { client: request.product.clone(), ..info };
        request
    }

    /// A query parameter, or `""`.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        self.query.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// Whether a query parameter is `true` or `1`.
    pub(crate) fn is_true(&self, name: &str) -> bool {
        matches!(self.parameter(name), "true" | "1")
    }

    /// A numeric query parameter, or `None` if it is absent or not a number.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.parameter(name).parse().ok()
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        self.parameter("dryRun") == "All"
    }

    /// The `fieldManager` parameter, or the product in the `User-Agent` header.
    pub(crate) fn field_manager(&self) -> &str {
        match self.parameter("fieldManager") {
            "" => &self.product,
            name => name,
        }
    }

    /// The media type of the body, without parameters.
    pub(crate) fn media_type(&self) -> &str {
        self.content_type.split(';').next().unwrap_or_default().trim()
    }

    /// Rejects a body with another media type than JSON. The media type may be absent.
    pub(crate) fn require_json(&self) -> Result<(), ApiError> {
        match self.media_type() {
            "" | "application/json" => Ok(()),
            _ => Err(ApiError::unsupported_media_type(
                "application/json, application/vnd.kubernetes.protobuf",
            )),
        }
    }

    /// The body as JSON, regardless of its media type.
    pub(crate) fn parse_json_body(&self) -> Result<Value, ApiError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| ApiError::bad_request(format!("the body is not JSON: {error}")))
    }
}
