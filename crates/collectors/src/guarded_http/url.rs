//! Parses and builds URLs.

use hpa_metrics::url_origin;
use http::{Uri, uri::Scheme};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::HttpError;

/// The characters that Go's `net/url` encodes in a path.
const ENCODED_IN_PATHS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// Characters that are encoded because they can't occur in a URL. `%` is not among them, because
/// the URL may already be encoded.
const INVALID: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'`').add(b'{').add(b'|').add(b'}');

/// Parses an HTTP URL. Drops its fragment, and encodes invalid characters.
pub(crate) fn parse(text: &str) -> Result<Uri, HttpError> {
    let without_fragment = text.split('#').next().unwrap_or_default();
    let encoded = utf8_percent_encode(without_fragment, INVALID).to_string();
    let uri: Uri = encoded.parse().map_err(|_| HttpError::Url("is invalid"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(uri),
        _ => Err(HttpError::Url("must start with http:// or https://, and have a host")),
    }
}

/// The path and the query of a pod's URL. As in Go, the query is used as it is, except that invalid
/// characters are encoded.
pub(crate) fn path_and_query(path: &str, raw_query: &str) -> String {
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut encoded = format!("{slash}{}", utf8_percent_encode(path, ENCODED_IN_PATHS));
    if !raw_query.is_empty() {
        encoded.push('?');
        encoded.extend(utf8_percent_encode(raw_query, INVALID));
    }
    encoded
}

/// Appends a path and parameters to a URL. Drops its credentials and its own query.
pub(crate) fn with_path(base: &Uri, path: &str, parameters: &[(&str, &str)]) -> Option<Uri> {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
    let mark = if query.is_empty() { "" } else { "?" };
    let base_path = base.path().trim_end_matches('/');
    format!("{}{base_path}{path}{mark}{query}", url_origin(base)).parse().ok()
}

/// The host of a URL, without the brackets of an IPv6 address.
pub(crate) fn host(uri: &Uri) -> &str {
    uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
}

pub(crate) fn is_https(uri: &Uri) -> bool {
    uri.scheme() == Some(&Scheme::HTTPS)
}

pub(crate) fn port(uri: &Uri) -> u16 {
    uri.port_u16().unwrap_or(if is_https(uri) { 443 } else { 80 })
}

/// Whether two URLs have the same scheme, host and port.
pub(crate) fn is_same_origin(left: &Uri, right: &Uri) -> bool {
    left.scheme() == right.scheme()
        && host(left).eq_ignore_ascii_case(host(right))
        && port(left) == port(right)
}

/// Resolves a location, which may be relative, against a URL.
pub(crate) fn join(base: &Uri, location: &str) -> Result<Uri, HttpError> {
    let scheme = base.scheme_str().unwrap_or("http");
    let authority = base.authority().map_or("", |authority| authority.as_str());
    let is_absolute = location.split(['/', '?', '#']).next().is_some_and(|part| part.contains(':'));
    let url = if is_absolute {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else if location.starts_with('?') {
        format!("{scheme}://{authority}{}{location}", base.path())
    } else {
        let directory = base.path().rsplit_once('/').map_or("", |(directory, _)| directory);
        format!("{scheme}://{authority}{directory}/{location}")
    };
    parse(&url)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::absolute("https://b.org/x", "https://b.org/x")]
    #[case::other_host("//b.org/x", "http://b.org/x")]
    #[case::absolute_path("/x?y=z", "http://a.org:8080/x?y=z")]
    #[case::query("?page=2", "http://a.org:8080/dir/file?page=2")]
    #[case::relative("other", "http://a.org:8080/dir/other")]
    #[case::space("/x y#part", "http://a.org:8080/x%20y")]
    fn location_is_relative_to_the_request(#[case] location: &str, #[case] expected: &str) {
        let base = Uri::from_static("http://a.org:8080/dir/file?page=1");
        assert_eq!(join(&base, location).unwrap().to_string(), expected);
    }

    #[rstest]
    #[case("file:///etc/passwd")]
    #[case("gopher://a.org/")]
    #[case("javascript:1")]
    fn location_of_another_scheme_is_refused(#[case] location: &str) {
        join(&Uri::from_static("http://a.org/"), location).unwrap_err();
    }

    #[rstest]
    #[case("metrics", "", "/metrics")]
    #[case("/a b/%41?x", "", "/a%20b/%2541%3Fx")]
    #[case("/m", "a=b&c=%20d e", "/m?a=b&c=%20d%20e")]
    #[case("", "x", "/?x")]
    fn path_is_encoded_and_query_is_raw(
        #[case] path: &str,
        #[case] query: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(path_and_query(path, query), expected);
    }
}
