//! The settings of the adapter, from its flags.

use hpa_adapter::{
    AuthorizerOptions, Version,
    authentication::{ConfigMapLookup, FrontProxyFlags, FrontProxyNames, TrustSettings},
    server::ServerOptions,
};
use hpa_metrics::ApiGroups;
use hpa_prometheus::rules::Compat;
use jiff::SignedDuration;

use crate::{
    args::{AdapterArguments, to_std},
    version,
};

/// The default time for which an authorization is cached, as in kube-apiserver's webhook
/// authorizer.
const AUTHORIZED_LIFETIME: SignedDuration = SignedDuration::from_mins(5);
/// The default time in prometheus-adapter. It is shorter than the default sync period, so the next
/// request of an autoscaler needs another `SubjectAccessReview`.
const COMPAT_AUTHORIZED_LIFETIME: SignedDuration = SignedDuration::from_secs(10);

/// The API groups that no flag disables.
pub(super) fn allowed_groups(arguments: &AdapterArguments) -> ApiGroups {
    ApiGroups {
        custom: arguments.custom_metrics,
        external: arguments.external_metrics,
        resource: arguments.resource_metrics,
    }
}

pub(super) fn trust_settings(arguments: &AdapterArguments) -> TrustSettings {
    let flags = &arguments.authentication;
    let lookup = if flags.authentication_skip_lookup {
        ConfigMapLookup::Skipped
    } else if flags.authentication_tolerate_lookup_failure {
        ConfigMapLookup::Optional
    } else {
        ConfigMapLookup::Required
    };
    let front_proxy = flags.requestheader_client_ca_file.clone().map(|ca_file| {
        let names = FrontProxyNames {
            allowed: flags.requestheader_allowed_names.clone(),
            username_headers: flags.requestheader_username_headers.clone(),
            uid_headers: flags.requestheader_uid_headers.clone(),
            group_headers: flags.requestheader_group_headers.clone(),
            extra_header_prefixes: flags.requestheader_extra_headers_prefix.clone(),
        };
        FrontProxyFlags { ca_file, names }
    });
    TrustSettings { client_ca_file: flags.client_ca_file.clone(), front_proxy, lookup }
}

pub(super) fn authorizer_options(arguments: &AdapterArguments) -> AuthorizerOptions {
    let flags = &arguments.authorization;
    let default = match arguments.compat.rules_compat() {
        Compat::Off => AUTHORIZED_LIFETIME,
        Compat::Reference => COMPAT_AUTHORIZED_LIFETIME,
    };
    let allowed_lifetime = flags.authorization_webhook_cache_authorized_ttl.unwrap_or(default);
    AuthorizerOptions {
        always_allowed: flags.authorization_always_allow_paths.clone(),
        allowed_lifetime: to_std(allowed_lifetime),
        denied_lifetime: to_std(flags.authorization_webhook_cache_unauthorized_ttl),
    }
}

pub(super) fn server_options(arguments: &AdapterArguments) -> ServerOptions {
    let streams = arguments.serving.http2_max_streams_per_connection;
    ServerOptions {
        disable_http2: arguments.serving.disable_http2,
        max_streams: (streams > 0).then_some(streams),
    }
}

/// The version that `/version` returns.
pub(super) fn version() -> Version {
    let build = version::build_info();
    let mut numbers = build.version.split('.');
    Version {
        major: numbers.next().unwrap_or_default().to_owned(),
        minor: numbers.next().unwrap_or_default().to_owned(),
        git_version: format!("v{}", build.version),
        git_commit: build.revision.clone(),
        build_date: build.date.clone(),
        compiler: "rustc".to_owned(),
        platform: version::platform(),
    }
}
