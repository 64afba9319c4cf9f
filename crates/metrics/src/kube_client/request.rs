//! Paths and query parameters, as the reference's clients build them.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::MetricError;

/// All characters but the unreserved ones (RFC 3986).
const ENCODED_IN_PARAMETERS: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// All characters but those that client-go keeps in a segment of a path.
const ENCODED_IN_SEGMENTS: &AsciiSet = &ENCODED_IN_PARAMETERS
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b':')
    .remove(b'=')
    .remove(b'@');

#[derive(Debug)]
pub(super) struct GetRequest {
    /// Percent-encoded path and query.
    pub(super) uri: String,
    /// The request in messages: `get <resource>.<group>[ <name>]`.
    pub(super) description: Box<str>,
}

pub(super) struct MetricsPath<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    /// `None` for all namespaces.
    pub(super) namespace: Option<&'a str>,
    pub(super) resource: &'a str,
    /// The object's name, `*` for the selected objects, or the metric of a namespace.
    pub(super) name: Option<&'a str>,
    pub(super) subresource: Option<&'a str>,
    /// Parameters, sorted by name. Parameters with an empty value are left out.
    pub(super) parameters: &'a [(&'static str, String)],
}

impl MetricsPath<'_> {
    /// Builds the request. Fails if a name can't be part of a path.
    pub(super) fn to_request(&self) -> Result<GetRequest, MetricError> {
        let mut uri = format!("/apis/{}/{}", self.group, self.version);
        if let Some(namespace) = self.namespace {
            uri.push_str("/namespaces");
            push_segment(&mut uri, "namespace", namespace)?;
        }
        validate_segment("resource", self.resource)?;
        // The reference requests the lower-case name, and reports the original one.
        push_segment(&mut uri, "resource", &self.resource.to_lowercase())?;
        let mut description = format!("get {}.{}", self.resource, self.group);
        if let Some(name) = self.name {
            push_segment(&mut uri, "resource name", name)?;
            description.push(' ');
            description.push_str(name);
        }
        if let Some(subresource) = self.subresource {
            push_segment(&mut uri, "subresource", subresource)?;
        }
        push_query(&mut uri, self.parameters);
        Ok(GetRequest { uri, description: description.into() })
    }
}

fn push_segment(uri: &mut String, part: &'static str, name: &str) -> Result<(), MetricError> {
    validate_segment(part, name)?;
    uri.push('/');
    uri.extend(utf8_percent_encode(name, ENCODED_IN_SEGMENTS));
    Ok(())
}

/// Rejects names that would change the structure of the path.
fn validate_segment(part: &'static str, name: &str) -> Result<(), MetricError> {
    let mut reasons = Vec::new();
    if name.is_empty() {
        reasons.push("may not be empty".to_owned());
    } else if name == "." || name == ".." {
        reasons.push(format!("may not be '{name}'"));
    } else {
        let illegal = ["/", "%"].into_iter().filter(|illegal| name.contains(illegal));
        reasons.extend(illegal.map(|illegal| format!("may not contain '{illegal}'")));
    }
    if reasons.is_empty() {
        return Ok(());
    }
    Err(MetricError::InvalidName { part, name: name.into(), reasons: reasons.join(" ").into() })
}

fn push_query(uri: &mut String, parameters: &[(&'static str, String)]) {
    let mut separator = '?';
    for (parameter, text) in parameters.iter().filter(|(_, text)| !text.is_empty()) {
        uri.push(separator);
        uri.push_str(parameter);
        uri.push('=');
        uri.extend(utf8_percent_encode(text, ENCODED_IN_PARAMETERS));
        separator = '&';
    }
}

/// Percent-encodes a segment of a path or a value of a query. Unreserved characters (RFC 3986) and
/// colons stay, so a shell interprets no character of the result inside a word.
pub fn percent_encode(text: &str) -> String {
    const ENCODED: &AsciiSet = &ENCODED_IN_PARAMETERS.remove(b':');
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use hpa_calc::selector::Selector;
    use rstest::rstest;

    use super::*;

    fn custom<'a>(
        name: &'a str,
        metric: &'a str,
        parameters: &'a [(&'static str, String)],
    ) -> MetricsPath<'a> {
        MetricsPath {
            group: "custom.metrics.k8s.io",
            version: "v1beta2",
            namespace: Some("ns"),
            resource: "pods",
            name: Some(name),
            subresource: Some(metric),
            parameters,
        }
    }

    #[test]
    fn names_and_selectors_are_encoded() {
        let pods = Selector::parse("app=web,tier in (a,b)").unwrap();
        let series = Selector::parse("path!=x_y").unwrap();
        let selectors =
            [("labelSelector", pods.to_string()), ("metricLabelSelector", series.to_string())];
        let get = custom("*", "m:rate 5m?", &selectors).to_request().unwrap();
        assert_eq!(
            get.uri,
            "/apis/custom.metrics.k8s.io/v1beta2/namespaces/ns/pods/%2A/m:rate%205m%3F\
             ?labelSelector=app%3Dweb%2Ctier%20in%20%28a%2Cb%29&metricLabelSelector=path%21%3Dx_y"
        );
        assert_eq!(&*get.description, "get pods.custom.metrics.k8s.io *");
        assert!(get.uri.parse::<http::Uri>().is_ok());
    }

    #[test]
    fn empty_selectors_are_left_out() {
        let (nothing, series) = (Selector::nothing(), Selector::parse("a=b").unwrap());
        let selectors =
            [("labelSelector", nothing.to_string()), ("metricLabelSelector", series.to_string())];
        let get = custom("*", "m", &selectors).to_request().unwrap();
        assert_eq!(
            get.uri,
            "/apis/custom.metrics.k8s.io/v1beta2/namespaces/ns/pods/%2A/m?metricLabelSelector=a%3Db"
        );
    }

    #[rstest]
    #[case("..", r#"invalid resource name "..": [may not be '..']"#)]
    #[case("", r#"invalid resource name "": [may not be empty]"#)]
    #[case(
        "a/b%2f",
        r#"invalid resource name "a/b%2f": [may not contain '/' may not contain '%']"#
    )]
    fn names_that_change_the_path_are_rejected(#[case] name: &str, #[case] message: &str) {
        assert_eq!(custom(name, "m", &[]).to_request().unwrap_err().to_string(), message);
    }
}
