//! Chooses the proxy to a server, such as the API server or Prometheus.
//!
//! The rules are those of Go and client-go. If the client is configured by a kubeconfig whose
//! cluster has a `proxy-url`, it uses that proxy, even for a server on this machine or in
//! `NO_PROXY`. Otherwise, the scheme of the server selects `HTTPS_PROXY` or `HTTP_PROXY`, which
//! don't apply to those servers. The rules of the crate kube differ: it compares `NO_PROXY` with
//! the host of the proxy instead of the server, and reads no variables in a pod.
//!
//! Errors don't contain the URL, because it may have a password.

use std::{fmt, net::IpAddr};

use http::{Uri, uri::Scheme};
use ipnet::IpNet;
use kube::config::Kubeconfig;

/// The default port of SOCKS proxies, as in Go.
const SOCKS_PORT: u16 = 1080;

/// The [`Proxy::origin`] of a proxy from the kubeconfig.
const KUBECONFIG_FIELD: &str = "proxy-url";

/// A proxy, and the variable or field that sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// The URL. It may have a user and a password.
    pub url: Uri,
    /// The name of the variable or of the kubeconfig field, for messages.
    pub origin: &'static str,
}

/// Scheme, host and port, without user and password.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host) = (self.url.scheme_str(), self.url.host());
        write!(f, "{}://{}", scheme.unwrap_or_default(), host.unwrap_or_default())?;
        self.url.port_u16().map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// An unusable proxy URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// The value can't be parsed as a URL, or has no host.
    #[error("{origin} is not a proxy URL")]
    InvalidUrl {
        /// The variable or the kubeconfig field that sets the URL.
        origin: &'static str,
    },
    /// The scheme isn't `http`, `https`, `socks5` or `socks5h`.
    #[error("the protocol of {origin} is not supported: it must be http, https or socks5")]
    UnsupportedProtocol {
        /// The variable or the kubeconfig field that sets the URL.
        origin: &'static str,
    },
}

/// Returns the proxy for a server, or `None` for a direct connection. `configured` is the proxy of
/// the kubeconfig; `variable` returns the value of an environment variable.
pub fn for_server(
    server: &Uri,
    configured: Option<&str>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Proxy>, ProxyError> {
    if let Some(url) = configured.filter(|url| !url.is_empty()) {
        return parse(url, KUBECONFIG_FIELD).map(Some);
    }
    let first_set = |names: [&'static str; 2]| {
        let value = |name| variable(name).filter(|value| !value.is_empty());
        names.into_iter().find_map(|name| value(name).map(|value| (name, value)))
    };
    let names = if server.scheme() == Some(&Scheme::HTTPS) {
        ["HTTPS_PROXY", "https_proxy"]
    } else {
        ["HTTP_PROXY", "http_proxy"]
    };
    let Some((origin, url)) = first_set(names) else { return Ok(None) };
    let exceptions = first_set(["NO_PROXY", "no_proxy"]).map(|(_, value)| value);
    if is_direct(server, &exceptions.unwrap_or_default()) {
        return Ok(None);
    }
    parse(&url, origin).map(Some)
}

/// Returns `proxy-url` of a cluster in a kubeconfig. The cluster is `cluster`, or else that of
/// `context`, or else that of the current context.
pub fn of_kubeconfig(
    kubeconfig: &Kubeconfig,
    context: Option<&str>,
    cluster: Option<&str>,
) -> Option<String> {
    let of_context = || {
        let name = context.or(kubeconfig.current_context.as_deref())?;
        let context = kubeconfig.contexts.iter().find(|context| context.name == name)?;
        Some(context.context.as_ref()?.cluster.as_str())
    };
    let name = cluster.or_else(of_context)?;
    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == name)?;
    cluster.cluster.as_ref()?.proxy_url.clone()
}

/// Parses a proxy's URL. As in Go, the scheme may be missing.
fn parse(url: &str, origin: &'static str) -> Result<Proxy, ProxyError> {
    let invalid = ProxyError::InvalidUrl { origin };
    let url = url.trim();
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "http" => "http",
        "https" => "https",
        // The proxy resolves the name of the server in both cases.
        "socks5" | "socks5h" => "socks5",
        _ => return Err(ProxyError::UnsupportedProtocol { origin }),
    };
    let url: Uri = format!("{scheme}://{rest}").parse().map_err(|_| invalid)?;
    if url.host().is_none_or(str::is_empty) {
        return Err(invalid);
    }
    if scheme == "socks5" && url.port().is_none() {
        let authority = url.authority().map_or("", |authority| authority.as_str());
        let url = format!("socks5://{}:{SOCKS_PORT}", authority.trim_end_matches(':'));
        return Ok(Proxy { url: url.parse().map_err(|_| invalid)?, origin });
    }
    Ok(Proxy { url, origin })
}

/// Whether the variables set no proxy for a server: its host is `localhost` or a loopback address,
/// or `exceptions` (the value of `NO_PROXY`) lists it.
fn is_direct(server: &Uri, exceptions: &str) -> bool {
    let host = without_brackets(server.host().unwrap_or_default()).to_ascii_lowercase();
    let ip = host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
    if host == "localhost" || ip.is_some_and(|ip| ip.is_loopback()) {
        return true;
    }
    let default_port = if server.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    let port = server.port_u16().unwrap_or(default_port);
    exceptions
        .split(',')
        .map(|exception| exception.trim().to_ascii_lowercase())
        .any(|exception| matches(&exception, &host, ip, port))
}

/// Whether an entry of `NO_PROXY` matches a server. An entry is `*`, a CIDR, an IP address, a
/// domain (which includes its subdomains), or a domain after `.` or `*.` (only its subdomains). IP
/// addresses and domains may have a port.
fn matches(exception: &str, host: &str, ip: Option<IpAddr>, port: u16) -> bool {
    if exception == "*" {
        return true;
    }
    if let Ok(net) = exception.parse::<IpNet>() {
        return ip.is_some_and(|ip| net.contains(&ip));
    }
    let (name, expected_port) = split_port(exception);
    if expected_port.is_some_and(|expected| expected != port.to_string()) {
        return false;
    }
    match (without_brackets(name).parse::<IpAddr>(), ip) {
        (Ok(expected), _) => ip == Some(expected.to_canonical()),
        (Err(_), Some(_)) => false,
        (Err(_), None) => {
            let domain = name.strip_prefix('*').filter(|name| name.starts_with('.'));
            let domain = domain.unwrap_or(name);
            let subdomains = domain.strip_prefix('.');
            let parent = subdomains.unwrap_or(domain);
            let is_subdomain =
                host.strip_suffix(parent).is_some_and(|prefix| prefix.ends_with('.'));
            !parent.is_empty() && (is_subdomain || (subdomains.is_none() && host == parent))
        }
    }
}

/// Splits `host:port` and `[ip]:port`. An IPv6 address without brackets has no port.
fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    }
}

fn without_brackets(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use http::Uri;
    use rstest::rstest;

    use super::{ProxyError, for_server};

    const PROXY: &str = "http://me:hunter2@proxy.example:3128";

    fn chosen_proxy(
        server: &'static str,
        configured: Option<&str>,
        variables: &[(&str, &str)],
    ) -> Result<Option<String>, ProxyError> {
        let variable = |name: &str| {
            let variable = variables.iter().find(|(candidate, _)| *candidate == name);
            variable.map(|(_, value)| (*value).to_owned())
        };
        let proxy = for_server(&Uri::from_static(server), configured, variable)?;
        Ok(proxy.map(|proxy| format!("{} {proxy}", proxy.origin)))
    }

    #[rstest]
    #[case("https://api:6443", &[], None)]
    #[case("https://api:6443", &[("HTTPS_PROXY", "")], None)]
    #[case(
        "https://api:6443",
        &[("HTTPS_PROXY", PROXY)],
        Some("HTTPS_PROXY http://proxy.example:3128")
    )]
    #[case("https://api", &[("https_proxy", PROXY)], Some("https_proxy http://proxy.example:3128"))]
    #[case("https://api", &[("HTTPS_PROXY", "https://p")], Some("HTTPS_PROXY https://p"))]
    #[case("https://api", &[("HTTPS_PROXY", "p:3128")], Some("HTTPS_PROXY http://p:3128"))]
    #[case("https://api", &[("HTTPS_PROXY", "me:pw@p:31")], Some("HTTPS_PROXY http://p:31"))]
    #[case("https://api", &[("HTTPS_PROXY", "socks5h://p")], Some("HTTPS_PROXY socks5://p:1080"))]
    #[case(
        "https://api",
        &[("HTTPS_PROXY", "socks5://me:pw@[::1]")],
        Some("HTTPS_PROXY socks5://[::1]:1080")
    )]
    #[case("https://api", &[("HTTPS_PROXY", "socks5://p:80")], Some("HTTPS_PROXY socks5://p:80"))]
    #[case("https://api", &[("HTTP_PROXY", PROXY)], None)]
    #[case("http://api", &[("HTTPS_PROXY", PROXY)], None)]
    #[case("http://api", &[("HTTP_PROXY", "p")], Some("HTTP_PROXY http://p"))]
    fn proxy_comes_from_the_variable_for_the_scheme(
        #[case] server: &'static str,
        #[case] variables: &[(&str, &str)],
        #[case] expected: Option<&str>,
    ) {
        assert_eq!(chosen_proxy(server, None, variables).unwrap().as_deref(), expected);
    }

    #[rstest]
    #[case("https://api.example:6443", "*", true)]
    #[case("https://api.example:6443", "other, *", true)]
    #[case("https://api.example:6443", "api.example", true)]
    #[case("https://API.example:6443", "api.EXAMPLE", true)]
    #[case("https://api.example:6443", "example", true)]
    #[case("https://api.example:6443", ".example,", true)]
    #[case("https://api.example:6443", "*.example", true)]
    #[case("https://api.example:6443", "api.example:6443", true)]
    #[case("https://api.example:6443", "api.example:443", false)]
    #[case("https://api.example", "api.example:443", true)]
    #[case("https://api.example:6443", ".api.example", false)]
    #[case("https://api.example:6443", "pi.example", false)]
    #[case("https://api.example:6443", "proxy.example", false)]
    #[case("https://api.example:6443", "", false)]
    #[case("https://api.example:6443", ",,:6443,.", false)]
    #[case("https://10.96.0.1:443", "10.96.0.0/12", true)]
    #[case("https://10.96.0.1:443", "10.96.0.1", true)]
    #[case("https://10.96.0.1:443", "10.96.0.1:443", true)]
    #[case("https://10.96.0.1:443", "10.96.0.1:80", false)]
    #[case("https://10.96.0.1:443", "10.0.0.0/16", false)]
    #[case("https://10.96.0.1:443", "0.1", false)]
    #[case("https://[fd00::1]:6443", "fd00::/8", true)]
    #[case("https://[fd00::1]:6443", "fd00::1", true)]
    #[case("https://[fd00::1]:6443", "[fd00::1]:6443", true)]
    #[case("https://[fd00::1]:6443", "[fd00::1]:80", false)]
    #[case("https://localhost:6443", "", true)]
    #[case("https://127.0.0.1:6443", "", true)]
    #[case("https://[::1]:6443", "", true)]
    fn no_proxy_matches_the_server(
        #[case] server: &'static str,
        #[case] exceptions: &str,
        #[case] direct: bool,
    ) {
        let variables = [("HTTPS_PROXY", PROXY), ("NO_PROXY", exceptions)];
        assert_eq!(chosen_proxy(server, None, &variables).unwrap().is_none(), direct);
    }

    #[test]
    fn proxy_of_the_kubeconfig_overrides_all_variables() {
        let variables = [("HTTPS_PROXY", PROXY), ("NO_PROXY", "*")];
        let proxy = chosen_proxy("https://127.0.0.1", Some("http://other:80"), &variables).unwrap();
        assert_eq!(proxy.as_deref(), Some("proxy-url http://other:80"));
    }

    #[rstest]
    #[case(
        "ftp://me:hunter2@proxy",
        "the protocol of HTTPS_PROXY is not supported: it must be http, https or socks5"
    )]
    #[case("http://me:hunter2@", "HTTPS_PROXY is not a proxy URL")]
    #[case("http://me:hunter2@pro xy", "HTTPS_PROXY is not a proxy URL")]
    fn unusable_proxy_is_reported_without_its_password(#[case] url: &str, #[case] expected: &str) {
        let error = chosen_proxy("https://api", None, &[("HTTPS_PROXY", url)]).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(!format!("{error:?}").contains("hunter2"));
    }
}
