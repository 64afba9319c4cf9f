//! The destinations that tenants may choose.
//!
//! Tenants write URLs in annotations, but the operator's pod connects to them. Without rules,
//! tenants could read metadata services and other endpoints that only this pod can reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{Compat, ConfigError};

/// Checks the syntax of the URL in the setting `key`. By default, it must be an absolute HTTP URL
/// with a host and without credentials. With compatibility, it must only pass some of the checks of
/// Go's parser.
pub(crate) fn check_url_syntax(
    key: &'static str,
    url: &str,
    compat: Compat,
) -> Result<(), ConfigError> {
    let result = check_go_url(url).and_then(|()| match compat {
        Compat::Off => parse_host(url).map(|_| ()),
        Compat::Reference => Ok(()),
    });
    result.map_err(|problem| ConfigError::Url { key, url: url.to_owned(), problem })
}

/// Some of the checks of Go's `url.Parse`, with its messages.
fn check_go_url(url: &str) -> Result<(), &'static str> {
    if url.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL");
    }
    let url = url.split('#').next().unwrap_or_default();
    if url.starts_with(':') {
        return Err("missing protocol scheme");
    }
    let is_in_scheme = |char: char| char.is_ascii_alphanumeric() || "+-.".contains(char);
    let has_scheme = url.starts_with(|char: char| char.is_ascii_alphabetic())
        && url.trim_start_matches(is_in_scheme).starts_with(':');
    let first_segment = url.split(['?', '/']).next().unwrap_or_default();
    if !has_scheme && first_segment.contains(':') {
        return Err("first path segment in URL cannot contain colon");
    }
    Ok(())
}

/// The host of an HTTP URL, without the brackets of an IPv6 address. Fails if the URL is invalid,
/// or has credentials or a backslash.
pub(crate) fn parse_host(url: &str) -> Result<&str, &'static str> {
    let (scheme, rest) = url.split_once("://").ok_or("must start with http:// or https://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err("must start with http:// or https://");
    }
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    if rest.contains('\\') {
        return Err("must not have a backslash");
    }
    if authority.contains('@') {
        return Err("must not have a user name");
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => {
            let (host, port) = bracketed.split_once(']').ok_or("has no closing bracket")?;
            host.parse::<Ipv6Addr>().map_err(|_| "has an invalid IPv6 address")?;
            (host, port)
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port_is_valid = match port.strip_prefix(':') {
        Some(port) => port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok(),
        None => port.is_empty(),
    };
    if !port_is_valid {
        return Err("has an invalid port");
    }
    if host.is_empty() { Err("has no host") } else { Ok(host) }
}

/// The destinations that the operator permits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Permitted hosts: exact names, or `*.` and a domain for all names below it. An empty list
    /// permits all hosts.
    pub hosts: Vec<String>,
    /// Addresses that are permitted although their network is refused.
    pub addresses: Vec<IpAddr>,
}

/// A refused destination.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the URL {0}")]
    Url(&'static str),
    #[error("the host {0} is not permitted (--collector-host)")]
    Host(String),
    /// The address is in a refused network.
    #[error("{0} is {1} address (--collector-address permits it)")]
    Address(IpAddr, &'static str),
    /// The name has no address.
    #[error("the host {0} has no address")]
    NoAddress(String),
    /// The address is that of the operator's server of this name.
    #[error(
        "it is the operator's server {0}, which URLs of this namespace must not lead to \
         (--collector-permission, --collector-namespace-label)"
    )]
    RestrictedServer(String),
    /// The URL has the port of the operator's server of this name, whose addresses are unknown.
    #[error(
        "it may be the operator's server {0}, whose name can't be resolved, and which URLs of this \
         namespace must not lead to"
    )]
    UnknownRestrictedServer(String),
}

impl Policy {
    /// Checks the host of a tenant's URL, or of the URL that its server redirects to. Addresses of
    /// a host name are checked by [`Self::check_addresses`].
    pub fn check_url(&self, url: &str) -> Result<(), Refusal> {
        let host = parse_host(url).map_err(Refusal::Url)?;
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        let is_permitted = |permitted: &String| {
            let permitted = permitted.to_ascii_lowercase();
            match permitted.strip_prefix("*.") {
                Some(domain) => name
                    .strip_suffix(domain)
                    .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
                None => name == permitted,
            }
        };
        if !self.hosts.is_empty() && !self.hosts.iter().any(is_permitted) {
            return Err(Refusal::Host(name));
        }
        match name.parse::<IpAddr>() {
            Ok(address) => self.check_address(address),
            Err(_) if name == "localhost" || name.ends_with(".localhost") => {
                self.check_address(Ipv4Addr::LOCALHOST.into())
            }
            // Resolvers read `127.1`, `0x7f000001` and `2130706433` as addresses.
            Err(_) if is_numeric(&name) => Err(Refusal::Url("has an address in an unusual form")),
            Err(_) => Ok(()),
        }
    }

    /// Checks the addresses of a name. If one address is refused, the name is refused. The caller
    /// must connect only to these addresses, because resolving the name again may return others.
    pub fn check_addresses(&self, host: &str, addresses: &[IpAddr]) -> Result<(), Refusal> {
        if addresses.is_empty() {
            return Err(Refusal::NoAddress(host.to_owned()));
        }
        addresses.iter().try_for_each(|address| self.check_address(*address))
    }

    /// Checks one address: its network must be permitted, or the address listed in
    /// [`Self::addresses`].
    pub fn check_address(&self, address: IpAddr) -> Result<(), Refusal> {
        let canonical = address.to_canonical();
        if self.addresses.contains(&address) || self.addresses.contains(&canonical) {
            return Ok(());
        }
        let kind = match canonical {
            IpAddr::V4(address) => refused_kind_v4(address),
            IpAddr::V6(address) => refused_kind_v6(address),
        };
        kind.map_or(Ok(()), |kind| Err(Refusal::Address(address, kind)))
    }
}

/// Whether the last label may be a number. If so, resolvers may read the name as an address.
fn is_numeric(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_hex = last
        .strip_prefix("0x")
        .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    is_hex || !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit())
}

/// Describes a refused address. `None` if it is permitted. Private networks are permitted, because
/// pods and services have private addresses.
fn refused_kind_v4(address: Ipv4Addr) -> Option<&'static str> {
    match address.octets() {
        [0, ..] => Some("an unspecified"),
        [127, ..] => Some("a loopback"),
        // Includes the metadata service of most clouds.
        [169, 254, ..] => Some("a link-local"),
        [100, 100, 100, 200] | [192, 0, 0, 192] | [168, 63, 129, 16] => Some("a metadata"),
        [224..=239, ..] => Some("a multicast"),
        [240..=255, ..] => Some("a reserved"),
        _ => None,
    }
}

fn refused_kind_v6(address: Ipv6Addr) -> Option<&'static str> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("an unspecified"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("a loopback"),
        _ if is_metadata_v6(address) => Some("a metadata"),
        [0xfe80..=0xfebf, ..] => Some("a link-local"),
        [0xfec0..=0xfeff, ..] => Some("a site-local"),
        [0xff00..=0xffff, ..] => Some("a multicast"),
        // NAT64 for local use: the position of the IPv4 address depends on the network.
        [0x64, 0xff9b, 1, ..] => Some("a translated"),
        [0x2001, 0, ..] => Some("a tunnel"),
        _ => {
            let mut embedded = [translated_v4(address), isatap_v4(address)].into_iter().flatten();
            embedded.find_map(refused_kind_v4)
        }
    }
}

/// Whether a metadata service of a cloud has the address. All of them are unique local addresses.
/// Other unique local addresses are permitted, as are the private ones of IPv4.
fn is_metadata_v6(address: Ipv6Addr) -> bool {
    matches!(
        address.segments(),
        // AWS. The network also serves the credentials of pods.
        [0xfd00, 0xec2, ..]
            // Google Cloud.
            | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254]
            // Oracle Cloud.
            | [0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe]
            // Alibaba Cloud.
            | [0xfd00, 0x100, 0, 0, 0, 0, 0x100, 0x200]
            // Akamai.
            | [0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1]
            // Scaleway.
            | [0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42]
    )
}

/// The IPv4 address in a translated IPv6 address: compatible, IPv4-translated, NAT64 or 6to4.
fn translated_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let ([0, 0, 0, 0, 0 | 0xffff, 0, high, low]
    | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
    | [0x2002, high, low, ..]) = address.segments()
    else {
        return None;
    };
    Some(from_segments(high, low))
}

/// The IPv4 address in the interface identifier of an ISATAP address (RFC 5214), in any network.
fn isatap_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => Some(from_segments(high, low)),
        _ => None,
    }
}

fn from_segments(high: u16, low: u16) -> Ipv4Addr {
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Ipv4Addr::new(a, b, c, d)
}

/// The IPv4 address that an address stands for, or else the address itself.
pub(super) fn without_translation(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        // The loopback address has the form of an IPv4-compatible one.
        IpAddr::V6(address) if !address.is_loopback() => {
            let embedded = translated_v4(address).or_else(|| isatap_v4(address));
            embedded.map_or(address.into(), IpAddr::V4)
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("http://127.0.0.1/")]
    #[case("http://127.8.9.10:80/")]
    #[case("http://localhost/")]
    #[case("http://LOCALHOST:9090/metrics")]
    #[case("http://localhost./")]
    #[case("http://a.localhost/")]
    #[case("http://0.0.0.0/")]
    #[case("http://0.1.2.3/")]
    #[case("http://169.254.169.254/latest/meta-data/")]
    #[case("http://169.254.170.2/v2/credentials")]
    #[case("http://100.100.100.200/")]
    #[case("http://192.0.0.192/")]
    #[case("http://224.0.0.1/")]
    #[case("http://255.255.255.255/")]
    #[case("http://240.0.0.1/")]
    #[case("http://[::1]/")]
    #[case("http://[::]/")]
    #[case("http://[0:0:0:0:0:0:0:1]:8080/")]
    #[case("http://[::ffff:127.0.0.1]/")]
    #[case("http://[::ffff:169.254.169.254]/")]
    #[case("http://[::127.0.0.1]/")]
    #[case("http://[64:ff9b::7f00:1]/")]
    #[case("http://[64:ff9b::a9fe:a9fe]/")]
    #[case("http://[2002:7f00:1::]/")]
    #[case("http://[fe80::1]/")]
    #[case("http://[fe80::1%25eth0]/")]
    #[case("http://[fec0::1]/")]
    #[case("http://[ff02::1]/")]
    #[case("http://[fd00:ec2::254]/")]
    #[case("http://[fd20:ce::254]/")]
    #[case("http://[fd00:c1::a9fe:a9fe]/")]
    #[case("http://[fd00:100::100:200]/")]
    #[case("http://[fd00:a9fe:a9fe::1]/")]
    #[case("http://[fd00:42::42]/")]
    #[case("http://[2001:db8::5efe:169.254.169.254]/")]
    #[case("http://[fd00:1::200:5efe:7f00:1]/")]
    #[case("http://[::5efe:127.0.0.1]/")]
    #[case("http://[2002:7f00:1::5efe:10.0.0.1]/")]
    #[case("http://168.63.129.16/")]
    #[case("http://[fd00:ec2::23]/")]
    #[case("http://[64:ff9b:1::7f00:1]/")]
    #[case("http://[::ffff:0:127.0.0.1]/")]
    #[case("http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/")]
    #[case("http://127.1/")]
    #[case("http://2130706433/")]
    #[case("http://0x7f000001/")]
    #[case("http://0177.0.0.1/")]
    #[case("http://127.0.0.1./")]
    #[case("http://user@10.0.0.1/")]
    #[case("http://10.0.0.1\\@127.0.0.1/")]
    #[case("http://10.0.0.1:99999/")]
    #[case("http://")]
    #[case("http:///path")]
    #[case("file:///etc/passwd")]
    #[case("gopher://10.0.0.1/")]
    #[case("unix:///var/run/docker.sock")]
    #[case("//10.0.0.1/")]
    fn unsafe_url_of_a_tenant_is_refused(#[case] url: &str) {
        Policy::default().check_url(url).expect_err(url);
    }

    #[rstest]
    #[case("http://10.0.0.1/")]
    #[case("http://192.168.1.1:8080/x?y=z")]
    #[case("https://metrics.example.org/")]
    #[case("http://service.namespace.svc:80/")]
    #[case("http://[2001:db8::1]:8080/")]
    #[case("http://[fd00:10:96::a]:8080/")]
    #[case("http://[fd00:10:96::5efe:10.0.0.1]/")]
    #[case("HTTP://10.0.0.1")]
    fn url_of_a_service_is_permitted(#[case] url: &str) {
        assert_eq!(Policy::default().check_url(url), Ok(()));
    }

    #[rstest]
    #[case::mapped("::ffff:10.0.0.1")]
    #[case::compatible("::10.0.0.1")]
    #[case::translated("::ffff:0:10.0.0.1")]
    #[case::nat64("64:ff9b::a00:1")]
    #[case::six_to_four("2002:a00:1::5")]
    #[case::isatap("2001:db8::5efe:10.0.0.1")]
    fn translated_address_stands_for_its_ipv4_address(#[case] text: &str) {
        let address = without_translation(text.parse().unwrap());
        assert_eq!(address, IpAddr::from([10, 0, 0, 1]));
        let loopback = IpAddr::from(Ipv6Addr::LOCALHOST);
        assert_eq!(without_translation(loopback), loopback);
    }

    #[test]
    fn name_with_a_refused_address_is_refused_after_resolution() {
        let policy = Policy::default();
        let (good, bad) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([127, 0, 0, 1]));
        assert_eq!(policy.check_addresses("a.org", &[good]), Ok(()));
        let error = policy.check_addresses("a.org", &[good, bad]).expect_err("rebinding");
        let expected = "127.0.0.1 is a loopback address (--collector-address permits it)";
        assert_eq!(error.to_string(), expected);
        policy.check_addresses("a.org", &[]).expect_err("no address");
    }

    #[test]
    fn only_listed_hosts_are_permitted_if_there_is_a_list() {
        let hosts = vec!["a.org".to_owned(), "*.b.org".to_owned()];
        let policy = Policy { hosts, addresses: vec![IpAddr::from([127, 0, 0, 1])] };
        for permitted in ["http://a.org/", "http://A.ORG./", "http://x.b.org/", "http://x.y.b.org/"]
        {
            assert_eq!(policy.check_url(permitted), Ok(()), "{permitted}");
        }
        for refused in
            ["http://b.org/", "http://xb.org/", "http://a.org.evil.org/", "http://.b.org/"]
        {
            policy.check_url(refused).expect_err(refused);
        }
        assert_eq!(policy.check_address(IpAddr::from([127, 0, 0, 1])), Ok(()));
        policy.check_address(IpAddr::from([127, 0, 0, 2])).expect_err("not listed");
    }
}
