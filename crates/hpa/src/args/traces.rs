use clap::Args;
use http::Uri;

/// The destination of traces. OpenTelemetry's environment variables set everything else.
#[derive(Args, Debug)]
#[command(next_help_heading = "Traces")]
pub(crate) struct TraceArguments {
    /// Send a trace of each reconcile to this OpenTelemetry collector, as OTLP protobuf over HTTP,
    /// such as http://collector:4318 [default: $OTEL_EXPORTER_OTLP_ENDPOINT, else no traces]
    #[arg(long, env = "HPA_OTLP_ENDPOINT", value_name = "URL", value_parser = endpoint)]
    pub(crate) otlp_endpoint: Option<String>,
}

fn endpoint(text: &str) -> Result<String, String> {
    let is_url = text.parse::<Uri>().is_ok_and(|url| {
        matches!(url.scheme_str(), Some("http" | "https"))
            && url.authority().is_some()
            && url.query().is_none()
    });
    if is_url {
        Ok(text.to_owned())
    } else {
        Err("must be a URL such as http://collector:4318".to_owned())
    }
}
