//! Signs requests to AWS (signature version 4).

use std::fmt::Write;

use jiff::Timestamp;
use ring::{digest, hmac};

use super::credentials::AwsCredentials;

/// The signed parts of a POST request without parameters in its URL.
pub(super) struct SignedRequest<'r> {
    pub(super) region: &'r str,
    pub(super) service: &'r str,
    pub(super) path: &'r str,
    /// Names in lower case, sorted. `host` and `x-amz-date` must be among them.
    pub(super) headers: &'r [(&'r str, &'r str)],
    pub(super) body: &'r [u8],
}

/// The value of the header `x-amz-date`.
pub(super) fn date(now: Timestamp) -> String {
    now.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// The value of the header `Authorization`.
pub(super) fn authorization(
    credentials: &AwsCredentials,
    date: &str,
    request: &SignedRequest<'_>,
) -> String {
    let day = date.split('T').next().unwrap_or_default();
    let SignedRequest { region, service, .. } = request;
    let scope = format!("{day}/{region}/{service}/aws4_request");
    let header_names: Vec<&str> = request.headers.iter().map(|(name, _)| *name).collect();
    let header_names = header_names.join(";");
    let headers: String = request.headers.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name}:{}", value.trim());
        text
    });
    let body_hash = hex(digest::digest(&digest::SHA256, request.body).as_ref());
    let canonical = format!("POST\n{}\n\n{headers}\n{header_names}\n{body_hash}", request.path);
    let request_hash = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let string_to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{request_hash}");

    let mut key = format!("AWS4{}", credentials.secret_key.text()).into_bytes();
    for part in [day, region, service, "aws4_request"] {
        key = hmac_sha256(&key, part);
    }
    let signature = hex(&hmac_sha256(&key, &string_to_sign));
    let id = &credentials.access_key_id;
    format!(
        "AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={header_names}, \
         Signature={signature}"
    )
}

fn hmac_sha256(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Secret;

    fn authorization_of(headers: &[(&str, &str)], body: &str) -> String {
        let credentials = AwsCredentials {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_key: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            session_token: None,
            expiration: None,
        };
        let request = SignedRequest {
            region: "us-east-1",
            service: "service",
            path: "/",
            headers,
            body: body.as_bytes(),
        };
        authorization(&credentials, "20150830T123600Z", &request)
    }

    /// `post-vanilla` and `post-x-www-form-urlencoded` of the published AWS test suite.
    #[test]
    fn signatures_match_the_published_test_suite() {
        let host = ("host", "example.amazonaws.com");
        let date = ("x-amz-date", "20150830T123600Z");
        assert_eq!(
            authorization_of(&[host, date], ""),
            "AWS4-HMAC-SHA256 \
             Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders=host;x-amz-date, \
             Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
        );
        let form = ("content-type", "application/x-www-form-urlencoded");
        let header = authorization_of(&[form, host, date], "Param1=value1");
        assert!(
            header.ends_with("ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"),
            "{header}"
        );
    }

    #[test]
    fn date_has_the_basic_format() {
        assert_eq!(date("2026-01-02T03:04:05.9Z".parse().unwrap()), "20260102T030405Z");
    }
}
