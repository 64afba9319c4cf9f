//! Messages for HTTP errors, as in the reference's client (apimachinery's `api/errors`).

use hpa_calc::{go_text::Quoted, report::error_texts::API_UNAVAILABLE};
use http::StatusCode;
use serde::Deserialize;

use crate::MetricError;

/// The longest quote of a body that is not a Status object, in bytes.
const MAX_QUOTE_BYTES: usize = 2048;

/// Returns the error for a response, with the message of its Status object. If the body is not the
/// Status object of a failure with a message, the message is [`generic_message`], followed by
/// `request` in parentheses.
pub(super) fn status_error(
    code: StatusCode,
    content_type: Option<&str>,
    body: &[u8],
    request: &str,
) -> MetricError {
    let message = status_message(body)
        .unwrap_or_else(|| format!("{} ({request})", generic_message(code, content_type, body)));
    MetricError::Status { code: code.as_u16(), message: message.into() }
}

/// Returns the message of a Status object, if that isn't empty and the status is `Failure`.
fn status_message(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Status {
        kind: String,
        #[serde(rename = "status")]
        outcome: String,
        #[serde(default)]
        message: String,
    }

    let status: Status = serde_json::from_slice(body).ok()?;
    (status.kind == "Status" && status.outcome == "Failure" && !status.message.is_empty())
        .then_some(status.message)
}

fn quote(body: &[u8]) -> String {
    String::from_utf8_lossy(body.get(..MAX_QUOTE_BYTES).unwrap_or(body)).trim().to_owned()
}

/// Returns client-go's message for an HTTP error without a Status object.
pub fn generic_message(code: StatusCode, content_type: Option<&str>, body: &[u8]) -> String {
    let is_text =
        content_type.is_none_or(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/"));
    let text = if is_text { quote(body) } else { "unknown".to_owned() };
    let message = match code.as_u16() {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 if text.is_empty() || text == "unknown" => {
            "the server was unable to respond with a content type that the client supports"
        }
        403 | 406 | 415 => text.as_str(),
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => API_UNAVAILABLE,
        504 => {
            "the server was unable to return a response in the time allotted, \
             but may still be processing the request"
        }
        500.. => {
            return format!(
                "an error on the server ({}) has prevented the request from succeeding",
                Quoted(&text)
            );
        }
        other => {
            return format!(
                "the server responded with the status code {other} \
                 but did not return more information"
            );
        }
    };
    message.to_owned()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const STATUS: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
        "message":"the server could not find the metric m for pods","reason":"NotFound",
        "code":404}"#;

    #[rstest]
    #[case(404, "application/json", STATUS, "the server could not find the metric m for pods")]
    #[case(
        404,
        "text/plain",
        "404 page not found",
        "the server could not find the requested resource (get pods.g)"
    )]
    #[case(
        500,
        "text/plain",
        "a\u{a0}b",
        "an error on the server (\"a\\u00a0b\") has prevented the request from succeeding \
         (get pods.g)"
    )]
    #[case(
        503,
        "text/plain",
        "x",
        "the server is currently unable to handle the request (get pods.g)"
    )]
    #[case(
        500,
        "text/plain; charset=utf-8",
        " oh \"no\"\n",
        "an error on the server (\"oh \\\"no\\\"\") has prevented the request from succeeding \
         (get pods.g)"
    )]
    #[case(
        502,
        "application/json",
        "{}",
        "an error on the server (\"unknown\") has prevented the request from succeeding \
         (get pods.g)"
    )]
    #[case(403, "text/plain", "go away", "go away (get pods.g)")]
    #[case(403, "Text/Plain", "go away", "go away (get pods.g)")]
    #[case(401, "", "", "the server has asked for the client to provide credentials (get pods.g)")]
    #[case(
        429,
        "",
        "",
        "the server has received too many requests and has asked us to try again later (get pods.g)"
    )]
    #[case(
        418,
        "",
        "",
        "the server responded with the status code 418 \
         but did not return more information (get pods.g)"
    )]
    fn messages_are_those_of_client_go(
        #[case] code: u16,
        #[case] content_type: &str,
        #[case] body: &str,
        #[case] message: &str,
    ) {
        let code = StatusCode::from_u16(code).unwrap();
        let content_type = Some(content_type).filter(|kind| !kind.is_empty());
        let error = status_error(code, content_type, body.as_bytes(), "get pods.g");
        assert_eq!(error.to_string(), message);
    }
}
