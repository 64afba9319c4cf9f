//! The parameters in the query of a request.

use std::fmt::Display;

use http::{Request, Uri};

pub(crate) fn is_watch<B>(request: &Request<B>) -> bool {
    let parameters = request.uri().query().unwrap_or_default();
    parameters.split('&').any(|parameter| matches!(parameter, "watch=true" | "watch=1"))
}

/// The value of a parameter, still percent-encoded.
pub(crate) fn query_parameter<'a>(uri: &'a Uri, name: &str) -> Option<&'a str> {
    let mut parameters = uri.query()?.split('&');
    parameters.find_map(|parameter| parameter.strip_prefix(name)?.strip_prefix('='))
}

/// Replaces the value of a parameter. A URI without the parameter stays as it is. `None` if the URI
/// has no query.
pub(crate) fn with_query_parameter(uri: &Uri, name: &str, value: impl Display) -> Option<Uri> {
    let prefix = format!("{name}=");
    let parameter = format!("{prefix}{value}");
    let parameters = uri.query()?.split('&');
    let replaced = parameters.map(|old| if old.starts_with(&prefix) { &*parameter } else { old });
    let query = replaced.collect::<Vec<&str>>().join("&");
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{}?{query}", uri.path()).parse().ok()?);
    Uri::from_parts(parts).ok()
}
