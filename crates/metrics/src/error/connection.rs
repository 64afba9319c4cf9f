//! Causes of failed connections, in plain words.

use std::error::Error;

use hpa_calc::explain::list_first;
use http::Uri;
use jiff::Timestamp;

use super::with_causes;

/// The names of the settings that [`connection_cause`] recommends. An empty one gives no advice.
#[derive(Clone, Copy, Debug, Default)]
pub struct TlsSettingNames<'a> {
    /// The setting with the CA of the server.
    pub ca: &'a str,
    /// The settings with the client certificate and its key.
    pub client_certificate: &'a str,
}

/// The TLS alert of a server that requires a client certificate, in the errors of rustls.
const CERTIFICATE_REQUIRED: &str = "alert: CertificateRequired";

/// The TLS alert of a server that refuses the client certificate, in the errors of rustls. Some
/// servers also send it if the client has none, such as those of Go with TLS 1.2.
const BAD_CERTIFICATE: &str = "alert: BadCertificate";

/// Words in the errors of rustls, with the cause in plain words.
const TLS_CAUSES: [(&str, &str); 3] = [
    ("InvalidContentType", "the server doesn't speak TLS: use http://"),
    (
        "CaUsedAsEndEntity",
        "the certificate of the server is that of a CA: issue one with basicConstraints CA:FALSE",
    ),
    (
        "UnsupportedCertVersion",
        "the certificate of the server has X.509 version 1: issue one of version 3, with a \
         subjectAltName",
    ),
];

/// The maximum number of a certificate's names in an error.
const MAX_NAMES: usize = 5;

/// Scheme, host and port of a URL, without credentials, for messages. A port that the URL doesn't
/// have is left out.
pub fn url_origin(url: &Uri) -> String {
    let port = url.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme_str().unwrap_or("http"), url.host().unwrap_or_default())
}

/// Whether the HTTP client could not connect. hyper-util displays the kind of its error:
/// `client error (Connect)`. kube hides the error's type.
pub fn is_connection_failure(error: &(dyn Error + 'static)) -> bool {
    with_causes(error).contains("(Connect)")
}

/// Whether the server refused a connection because of a missing or refused client certificate. With
/// TLS 1.3, the client learns this only while it waits for the response.
pub fn is_client_certificate_refused(error: &(dyn Error + 'static)) -> bool {
    let cause = innermost(error).to_string();
    [CERTIFICATE_REQUIRED, BAD_CERTIFICATE].iter().any(|alert| cause.ends_with(alert))
}

/// The last error in the chain of sources, for example `Connection refused`.
pub fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last
}

/// The innermost cause of a failed connection, in plain words, with advice for TLS. The text of a
/// lasting cause is always the same: it doesn't contain the current time.
pub fn connection_cause(error: &(dyn Error + 'static), settings: TlsSettingNames<'_>) -> String {
    let advice = |prefix: &str, setting: &str| {
        if setting.is_empty() { String::new() } else { format!("{prefix}{setting}") }
    };
    let cause = innermost(error).to_string();
    if let Some((_, cause)) = TLS_CAUSES.iter().find(|(word, _)| cause.contains(word)) {
        return (*cause).to_owned();
    }
    // If a trusted CA has the same name as the unknown one, the signature doesn't match its key.
    if ["UnknownIssuer", "BadSignature"].iter().any(|problem| cause.contains(problem)) {
        let advice = advice(": set its CA with ", settings.ca);
        return format!("the certificate of the server was issued by an unknown CA{advice}");
    }
    if cause.ends_with(CERTIFICATE_REQUIRED) {
        let advice = advice(": set it with ", settings.client_certificate);
        return format!("the server requires a client certificate{advice}");
    }
    if cause.ends_with(BAD_CERTIFICATE) {
        let advice = advice(": set it with ", settings.client_certificate);
        return format!("the server refuses the client certificate, or requires one{advice}");
    }
    if let Some(problem) = certificate_problem(&cause) {
        return format!("the certificate of the server {problem}");
    }
    // The text before the error number says the same.
    match cause.split_once(" (os error ") {
        Some((text, _)) => text.to_owned(),
        None => cause,
    }
}

/// The problem with the validity of a server's certificate, from the error of rustls. That error
/// contains the time of the verification. `None` for other errors.
fn certificate_problem(cause: &str) -> Option<String> {
    let (_, problem) = cause.split_once("invalid peer certificate: certificate ")?;
    if problem.starts_with("expired") {
        let end = time_after(problem, " is not valid after ");
        return Some(end.map_or_else(
            || "has expired".to_owned(),
            |end| format!("expired on {}", end.strftime("%Y-%m-%d")),
        ));
    }
    if problem.starts_with("not valid yet") {
        let start = time_after(problem, " is not valid before ");
        return Some(start.map_or_else(
            || "is not valid yet".to_owned(),
            |start| format!("is not valid before {start}"),
        ));
    }
    let (expected, names) = problem.strip_prefix("not valid for name \"")?.split_once("\"; ")?;
    Some(match names.strip_prefix("certificate is only valid for ") {
        Some(names) => format!("is valid for {}, not for {expected}", plain_names(names)),
        None => format!("is not valid for {expected}: it has no names"),
    })
}

/// The time after a text, in seconds since the Unix epoch.
fn time_after(problem: &str, text: &str) -> Option<Timestamp> {
    let (_, rest) = problem.split_once(text)?;
    let seconds = rest.split(' ').next()?.parse().ok()?;
    Timestamp::from_second(seconds).ok()
}

/// The names in a list such as `DnsName("a.example"), DnsName("b.example") or IpAddress(10.0.0.1)`.
fn plain_names(list: &str) -> String {
    let names = list.split(", ").flat_map(|names| names.split(" or "));
    let names = names.map(|name| {
        let value = name.split_once('(').and_then(|(_, value)| value.strip_suffix(')'));
        value.map_or(name, |value| value.trim_matches('"'))
    });
    list_first(&names.collect::<Vec<_>>(), MAX_NAMES, ", ")
}
