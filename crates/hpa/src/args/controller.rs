use std::net::IpAddr;

use clap::Args;
use http::Uri;

use super::values::{HPA_PREFIX, dns_label, dns_subdomain};

/// The location of the controller. By default, it is read from the status of the autoscalers.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Controller")]
#[expect(clippy::struct_field_names, reason = "the names of the flags")]
pub(crate) struct ControllerArguments {
    /// Namespace of the controller's lease [default: from the status of autoscalers, else
    /// kube-system or autoscaling]
    #[arg(long, value_name = "NAME", value_parser = dns_label)]
    pub(crate) controller_namespace: Option<String>,
    /// Name of the controller's lease [default: from the status of autoscalers, else
    /// hpa-controller]
    #[arg(long, value_name = "NAME", value_parser = dns_subdomain)]
    pub(crate) controller_lease: Option<String>,
    /// URL of the debug API, on a loopback address. For example that of kubectl port-forward
    /// [default: the leader's debug API, through the API server]
    #[arg(long, env = HPA_PREFIX, value_name = "URL", value_parser = url,
        conflicts_with_all = ["controller_namespace", "controller_lease"])]
    pub(crate) controller_url: Option<Uri>,
}

/// Parses an HTTP URL with a loopback address. Between two machines, responses in HTTP could be
/// read and forged. The client sends no token to the URL.
fn url(text: &str) -> Result<Uri, String> {
    let uri = text.trim_end_matches('/').parse::<Uri>().ok();
    let uri = uri.filter(|uri| uri.scheme_str() == Some("http") && uri.path().len() <= 1);
    let uri = uri.ok_or_else(|| {
        "must be a URL such as http://127.0.0.1:8081. HTTPS is only read through the API server, \
         without this flag. A controller serves HTTP with --debug-bind-address 127.0.0.1"
            .to_owned()
    })?;
    let host = uri.host().unwrap_or_default();
    if !is_loopback(host) {
        return Err(format!(
            "{host} is not a loopback address, and HTTP to another machine can be read and forged \
             on the way. Leave out this flag, or run kubectl port-forward and use \
             http://127.0.0.1:PORT"
        ));
    }
    Ok(uri)
}

fn is_loopback(host: &str) -> bool {
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn https_is_refused_with_the_flag_that_serves_http() {
        let error = url("https://127.0.0.1:8081").unwrap_err();
        assert!(error.ends_with("serves HTTP with --debug-bind-address 127.0.0.1"), "{error}");
    }

    #[rstest]
    #[case("http://127.0.0.1:8081/", true)]
    #[case("http://localhost:8081", true)]
    #[case("http://[::1]:8081", true)]
    #[case("http://controller.example:8081", false)]
    #[case("http://127.0.0.1.example:8081", false)]
    #[case("http://127.0.0.1:80@controller.example", false)]
    #[case("http://10.1.2.3:8081", false)]
    fn url_must_be_on_loopback(#[case] text: &str, #[case] is_accepted: bool) {
        match url(text) {
            Ok(_) => assert!(is_accepted, "{text}"),
            Err(error) => {
                assert!(!is_accepted, "{text}: {error}");
                assert!(error.contains("is not a loopback address"), "{error}");
            }
        }
    }
}
