//! Checks the URL of Prometheus as prometheus-adapter does, with `--compat prometheus-adapter`.

use anyhow::bail;
use hpa_prometheus::rules::Compat;
use tracing::warn;

/// A URL without a server: each request fails, like requests to an unusable URL in
/// prometheus-adapter.
const UNUSABLE_URL: &str = "http://unusable-prometheus-url.invalid";

/// Returns the URL to use. Without compatibility, this is `url`, which the client checks. With
/// compatibility, fails if Go can't parse `url`. If it is not an HTTP URL, warns and returns
/// [`UNUSABLE_URL`], because prometheus-adapter starts but its requests fail.
pub(super) fn compatible_url(url: &str, compat: Compat) -> anyhow::Result<String> {
    let is_http = ["http://", "https://"].iter().any(|scheme| {
        url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    if compat == Compat::Off || is_http {
        return Ok(url.to_owned());
    }
    // Without user and password.
    let displayed_url = url.rsplit('@').next().unwrap_or_default();
    if let Some(problem) = parse_error(url) {
        bail!("invalid Prometheus URL {displayed_url:?}: {problem}");
    }
    warn!(
        url = displayed_url,
        "requests to Prometheus will fail, because the URL is not an HTTP URL"
    );
    Ok(UNUSABLE_URL.to_owned())
}

/// The reason why Go can't parse a URL whose scheme is not HTTP.
fn parse_error(url: &str) -> Option<&'static str> {
    if url.chars().any(|char| char.is_ascii_control()) {
        return Some("invalid control character in URL");
    }
    if url.starts_with(':') {
        return Some("missing protocol scheme");
    }
    let is_scheme = |text: &str| {
        text.starts_with(|char: char| char.is_ascii_alphabetic())
            && text.chars().all(|char| char.is_ascii_alphanumeric() || "+-.".contains(char))
    };
    let has_scheme = url.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme));
    let first_segment = url.split(['/', '?', '#']).next().unwrap_or_default();
    if !has_scheme && first_segment.contains(':') {
        return Some("first path segment in URL cannot contain colon");
    }
    let authority = url.split_once("//").map_or("", |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('[') && !authority.contains(']') {
        return Some("missing ']' in host");
    }
    if authority.contains(' ') {
        return Some("invalid character \" \" in host name");
    }
    None
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", true)]
    #[case("ftp://x", true)]
    #[case("prometheus", true)]
    #[case("prometheus:9090", true)]
    #[case(":bad", false)]
    #[case("ftp://[::1", false)]
    #[case("1a:b", false)]
    fn compatible_mode_starts_with_any_url_that_go_parses(#[case] url: &str, #[case] starts: bool) {
        assert_eq!(compatible_url(url, Compat::Reference).is_ok(), starts, "{url}");
        assert_eq!(compatible_url(url, Compat::Off).unwrap(), url, "the client reports it");
    }
}
