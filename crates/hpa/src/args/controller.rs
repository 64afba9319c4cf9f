use clap::Args;
use http::Uri;

use super::values::{dns_label, dns_subdomain};

/// The location of the controller. By default, it is read from the status of the autoscalers.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Controller")]
#[expect(clippy::struct_field_names, reason = "the names of the flags")]
pub(crate) struct ControllerArguments {
    /// Namespace of the controller's lease [default: from the status of autoscalers]
    #[arg(long, value_name = "NAME", value_parser = dns_label)]
    pub(crate) controller_namespace: Option<String>,
    /// Name of the controller's lease [default: from the status of autoscalers, else
    /// hpa-controller]
    #[arg(long, value_name = "NAME", value_parser = dns_subdomain)]
    pub(crate) controller_lease: Option<String>,
    /// URL of the debug API, on a loopback address. For example that of kubectl port-forward
    /// [default: the leader's debug API, through the API server]
    #[arg(
        long,
        env = "HPA_CONTROLLER_URL",
        value_name = "URL",
        value_parser = url,
        conflicts_with_all = ["controller_namespace", "controller_lease"]
    )]
    pub(crate) controller_url: Option<Uri>,
}

/// Parses a URL without TLS: the client sends its token only through the API server, never to this
/// URL.
fn url(text: &str) -> Result<Uri, String> {
    let uri = text.trim_end_matches('/').parse::<Uri>().ok();
    let uri = uri.filter(|uri| uri.scheme_str() == Some("http") && uri.path().len() <= 1);
    uri.ok_or_else(|| {
        "must be a URL such as http://127.0.0.1:8081. HTTPS is only read through the API server, \
         without this flag"
            .to_owned()
    })
}
