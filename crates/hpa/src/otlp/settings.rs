//! OpenTelemetry's environment variables that the SDK doesn't read, or whose errors it ignores.

use std::env;

use anyhow::{Context, bail};
use opentelemetry::KeyValue;
use opentelemetry_otlp::{OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT};
use opentelemetry_sdk::{
    Resource,
    resource::{EnvResourceDetector, TelemetryResourceDetector},
};

use crate::args::TraceArguments;

/// The default of `service.name`.
const SERVICE: &str = "hpa-controller";

/// True if an endpoint is configured and the SDK is not disabled.
pub(super) fn is_enabled(arguments: &TraceArguments) -> bool {
    let is_disabled =
        variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let has_endpoint = arguments.otlp_endpoint.is_some()
        || variable(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT).is_some()
        || variable(OTEL_EXPORTER_OTLP_ENDPOINT).is_some();
    has_endpoint && !is_disabled
}

/// Rejects a sampler that the SDK would replace with one that samples everything.
pub(super) fn check_sampler() -> anyhow::Result<()> {
    let sampler = variable("OTEL_TRACES_SAMPLER");
    let ratio = variable("OTEL_TRACES_SAMPLER_ARG");
    check(sampler.as_deref(), ratio.as_deref())
}

fn check(sampler: Option<&str>, ratio: Option<&str>) -> anyhow::Result<()> {
    match sampler {
        None
        | Some("always_on" | "always_off" | "parentbased_always_on" | "parentbased_always_off") => {
            Ok(())
        }
        Some("traceidratio" | "parentbased_traceidratio") => {
            let ratio = ratio.context("the sampler needs OTEL_TRACES_SAMPLER_ARG, such as 0.1")?;
            let is_ratio = ratio.parse::<f64>().is_ok_and(|ratio| (0.0..=1.0).contains(&ratio));
            if is_ratio {
                Ok(())
            } else {
                bail!("OTEL_TRACES_SAMPLER_ARG must be from 0 to 1, not {ratio}")
            }
        }
        Some(other) => bail!("OTEL_TRACES_SAMPLER {other} is not supported"),
    }
}

/// The resource attributes of all traces.
pub(super) fn resource() -> Resource {
    let builder = Resource::builder_empty()
        .with_service_name(SERVICE)
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_detector(Box::new(EnvResourceDetector::new()));
    match variable("OTEL_SERVICE_NAME") {
        Some(name) => builder.with_service_name(name).build(),
        None => builder.build(),
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_sampler_is_rejected() {
        for (sampler, ratio) in [
            (None, None),
            (Some("always_off"), None),
            (Some("traceidratio"), Some("0.25")),
            (Some("parentbased_traceidratio"), Some("1")),
        ] {
            assert!(check(sampler, ratio).is_ok(), "{sampler:?} {ratio:?}");
        }
        for (sampler, ratio) in [
            (Some("sometimes"), None),
            (Some("traceidratio"), None),
            (Some("traceidratio"), Some("10%")),
            (Some("parentbased_traceidratio"), Some("1.1")),
            (Some("parentbased_traceidratio"), Some("NaN")),
        ] {
            assert!(check(sampler, ratio).is_err(), "{sampler:?} {ratio:?}");
        }
    }
}
