//! The URLs of services of AWS.

use http::Uri;

use crate::fetch::{
    error::FetchError,
    http::{Http, url},
};

/// The URL of a service. The variables are those of the SDKs of AWS.
pub(super) fn endpoint(
    http: &Http,
    service: &'static str,
    region: &str,
) -> Result<Uri, FetchError> {
    let variable = format!("AWS_ENDPOINT_URL_{}", service.to_ascii_uppercase());
    let configured = http.variable(&variable).or_else(|| http.variable("AWS_ENDPOINT_URL"));
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    let url = configured.filter(|url| !url.is_empty());
    let url = url.unwrap_or_else(|| format!("https://{service}.{region}.{domain}/"));
    url::parse(&url).map_err(|_| FetchError::NotConfigured("the URL of a service of AWS"))
}
