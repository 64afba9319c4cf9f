//! Negotiates media types, and encodes bodies in them.

use serde::Serialize;

use crate::metrics_api::{UrlQuery, protobuf};

pub const JSON: &str = "application/json";
pub const YAML: &str = "application/yaml";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The media types of documents and of lists, in the order of prometheus-adapter's error messages.
const DOCUMENT_TYPES: [&str; 3] = [JSON, YAML, PROTOBUF];
const LIST_TYPES: [&str; 5] = [
    JSON,
    YAML,
    PROTOBUF,
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

/// The media type of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediaType {
    pub encoding: Encoding,
    /// Whether JSON is indented.
    pub is_pretty: bool,
    /// The conversion of the response to another kind of object.
    pub conversion: Option<Conversion>,
}

/// The encoding of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    #[default]
    Json,
    Yaml,
    Protobuf,
}

/// A kind of object that a response is converted to: `as=Table;g=meta.k8s.io;v=v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversion {
    pub kind: String,
    pub group: String,
    pub version: String,
}

impl Conversion {
    /// Whether the target is a kind of `meta.k8s.io` in a known version.
    fn is_of_meta_group(&self) -> bool {
        self.group == "meta.k8s.io" && matches!(self.version.as_str(), "v1" | "v1beta1")
    }
}

/// The conversions that a route supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedConversions {
    None,
    /// Metadata only.
    Metadata,
    /// Tables and metadata.
    Table,
    /// Discovery of all groups in one document.
    Discovery,
}

impl AllowedConversions {
    fn allow(self, conversion: Option<&Conversion>) -> bool {
        let Some(conversion) = conversion else { return true };
        let is_metadata = matches!(
            conversion.kind.as_str(),
            "PartialObjectMetadata" | "PartialObjectMetadataList"
        );
        match self {
            Self::None => false,
            Self::Metadata => conversion.is_of_meta_group() && is_metadata,
            Self::Table => {
                conversion.is_of_meta_group() && (is_metadata || conversion.kind == "Table")
            }
            Self::Discovery => {
                conversion.kind == "APIGroupDiscoveryList"
                    && conversion.group == "apidiscovery.k8s.io"
                    && conversion.version == "v2"
            }
        }
    }
}

/// The media types of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representations {
    /// The media types of a document or an object.
    Document,
    List,
}

impl Representations {
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::Document => &DOCUMENT_TYPES,
            Self::List => &LIST_TYPES,
        }
    }

    /// Whether a client accepts any of the media types. As in prometheus-adapter, parameters are
    /// ignored and `application/*` matches none.
    pub fn are_accepted(self, accept: &str) -> bool {
        accept.is_empty()
            || accept.split(',').any(|clause| {
                let media_type = clause.split(';').next().unwrap_or_default().trim();
                media_type == "*/*" || self.names().contains(&media_type)
            })
    }
}

/// A clause of the header `Accept`.
struct Clause<'a> {
    main: &'a str,
    sub: &'a str,
    quality: f64,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';');
        let media_type = parts.next()?.trim();
        let (main, sub) = match media_type.split_once('/') {
            Some(types) => types,
            None if media_type == "*" => ("*", "*"),
            None => return None,
        };
        let mut clause = Self { main, sub, quality: 1.0, parameters: Vec::new() };
        for (key, value) in parts.filter_map(|parameter| parameter.split_once('=')) {
            let (key, value) = (key.trim(), value.trim());
            if key == "q" {
                clause.quality = value.parse().unwrap_or(0.0);
            } else {
                clause.parameters.push((key, value));
            }
        }
        Some(clause)
    }

    fn accepts(&self, main: &str, sub: &str) -> bool {
        (self.main == main && (self.sub == sub || self.sub == "*"))
            || (self.main == "*" && self.sub == "*")
    }

    /// The media type with the parameters of the clause, if the route supports it.
    fn media_type(&self, encoding: Encoding, conversions: AllowedConversions) -> Option<MediaType> {
        let mut media_type = MediaType { encoding, ..MediaType::default() };
        for (key, value) in &self.parameters {
            let value = (*value).to_owned();
            match *key {
                "as" => media_type.conversion.get_or_insert_default().kind = value,
                "g" => media_type.conversion.get_or_insert_default().group = value,
                "v" => media_type.conversion.get_or_insert_default().version = value,
                "pretty" => media_type.is_pretty = value == "1",
                "stream"
                    if !value.is_empty() && (encoding != Encoding::Json || value != "watch") =>
                {
                    return None;
                }
                "sv" if !value.is_empty() => return None,
                _ => {}
            }
        }
        let is_convertible = media_type.conversion.is_none() || encoding != Encoding::Protobuf;
        let is_allowed = conversions.allow(media_type.conversion.as_ref());
        (is_convertible && is_allowed).then_some(media_type)
    }
}

/// Determines the media type of a response. The first clause of `accept` that the route can serve
/// as JSON or YAML decides or, if there is none, the first that it can serve as protobuf. Clauses
/// with a higher quality come first. Fails if the route can't serve any.
pub fn negotiate(accept: &str, conversions: AllowedConversions) -> Result<MediaType, String> {
    if accept.is_empty() {
        return Ok(MediaType::default());
    }
    let mut clauses: Vec<Clause<'_>> = accept.split(',').filter_map(Clause::parse).collect();
    clauses.sort_by(|a, b| {
        let wildcards = |clause: &Clause<'_>| (clause.main == "*", clause.sub == "*");
        b.quality.total_cmp(&a.quality).then_with(|| wildcards(a).cmp(&wildcards(b)))
    });
    let find = |types: &[(&str, Encoding)]| {
        clauses.iter().find_map(|clause| {
            let mut accepted = types.iter().filter(|(sub, _)| clause.accepts("application", sub));
            accepted.find_map(|(_, encoding)| clause.media_type(*encoding, conversions))
        })
    };
    let found = find(&[("json", Encoding::Json), ("yaml", Encoding::Yaml)])
        .or_else(|| find(&[("vnd.kubernetes.protobuf", Encoding::Protobuf)]));
    found.ok_or_else(|| {
        format!("only the following media types are accepted: {}", DOCUMENT_TYPES.join(", "))
    })
}

/// Whether a request asks for indented JSON: by a parameter or, without one, because the client is
/// a browser, curl or Wget.
pub fn asks_for_pretty(query: &UrlQuery, user_agent: &str) -> bool {
    match query.get("pretty") {
        Some(value) if !value.is_empty() => {
            matches!(value, "1" | "t" | "T" | "TRUE" | "true" | "True")
        }
        _ => ["curl", "Wget", "Mozilla/5.0"].iter().any(|agent| user_agent.starts_with(agent)),
    }
}

/// An encoding error. No request can cause one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    #[error("unable to encode the response as JSON")]
    Json(#[from] serde_json::Error),
    #[error("the response has no protobuf form")]
    Protobuf,
    #[error("unable to encode the response as YAML")]
    Yaml(#[from] serde_saphyr::SerializeError),
}

impl MediaType {
    /// The value of the header `Content-Type`.
    pub fn content_type(&self) -> &'static str {
        match self.encoding {
            Encoding::Json => JSON,
            Encoding::Yaml => YAML,
            Encoding::Protobuf => PROTOBUF,
        }
    }

    pub fn encode(&self, body: &impl Serialize) -> Result<Vec<u8>, EncodeError> {
        match self.encoding {
            Encoding::Json if self.is_pretty => Ok(serde_json::to_vec_pretty(body)?),
            Encoding::Json => {
                let mut bytes = serde_json::to_vec(body)?;
                bytes.push(b'\n');
                Ok(bytes)
            }
            // The conversion to a value sorts the keys, as the API server does.
            Encoding::Yaml => {
                let value = serde_json::to_value(body)?;
                Ok(serde_saphyr::to_string(&value)?.into_bytes())
            }
            Encoding::Protobuf => {
                let encoded = protobuf::encode(&serde_json::to_value(body)?);
                encoded.ok_or(EncodeError::Protobuf)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::metrics_api::StatusError;

    const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

    fn describe(accept: &str, conversions: AllowedConversions) -> String {
        let Ok(media_type) = negotiate(accept, conversions) else { return "none".to_owned() };
        let encoding = format!("{:?}", media_type.encoding).to_lowercase();
        let conversion = media_type.conversion.unwrap_or_default();
        format!("{encoding} {}", conversion.kind).trim_end().to_owned()
    }

    #[rstest]
    #[case("", "json")]
    #[case("*/*", "json")]
    #[case("application/*", "json")]
    #[case("application/yaml", "yaml")]
    #[case("application/json;q=0.5,application/yaml", "yaml")]
    #[case("application/vnd.kubernetes.protobuf, */*", "json")]
    #[case("application/vnd.kubernetes.protobuf,application/json", "json")]
    #[case("application/vnd.kubernetes.protobuf", "protobuf")]
    #[case("application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1", "none")]
    #[case("text/html", "none")]
    #[case("application/json;as=Table;g=meta.k8s.io;v=v1", "none")]
    #[case("application/json;as=Table;g=meta.k8s.io;v=v1,application/json", "json")]
    #[case("application/json;stream=watch", "json")]
    fn first_supported_type_is_used(#[case] accept: &str, #[case] expected: &str) {
        assert_eq!(describe(accept, AllowedConversions::None), expected);
    }

    #[test]
    fn conversions_depend_on_the_route() {
        assert_eq!(describe(TABLE, AllowedConversions::Table), "json Table");
        assert_eq!(describe(TABLE, AllowedConversions::Metadata), "none");
        let metadata = TABLE.replace("Table", "PartialObjectMetadata");
        assert_eq!(describe(&metadata, AllowedConversions::Metadata), "json PartialObjectMetadata");
        let unknown_version = TABLE.replace("v=v1", "v=v2");
        assert_eq!(describe(&unknown_version, AllowedConversions::Table), "none");
        let discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        assert_eq!(
            describe(discovery, AllowedConversions::Discovery),
            "json APIGroupDiscoveryList"
        );
    }

    #[rstest]
    #[case("application/cbor", false)]
    #[case("application/*", false)]
    #[case("text/html, application/json;as=x", true)]
    #[case("text/html,*/*;q=0.1", true)]
    fn routes_ignore_parameters_of_media_types(#[case] accept: &str, #[case] accepted: bool) {
        assert_eq!(Representations::Document.are_accepted(accept), accepted);
    }

    #[rstest]
    #[case("pretty=true", "", true)]
    #[case("pretty=0", "curl/8", false)]
    #[case("", "curl/8", true)]
    #[case("pretty=", "kubectl", false)]
    fn json_is_indented_for_interactive_clients(
        #[case] query: &str,
        #[case] agent: &str,
        #[case] pretty: bool,
    ) {
        assert_eq!(asks_for_pretty(&UrlQuery::parse(query), agent), pretty);
    }

    fn encode(media_type: &MediaType) -> String {
        let error = StatusError::not_found("node", "a \"b\"");
        String::from_utf8(media_type.encode(&error).unwrap()).unwrap()
    }

    #[test]
    fn bodies_are_encoded_as_the_client_accepts_them() {
        let json = encode(&MediaType::default());
        assert!(
            json.starts_with("{\"kind\":\"Status\",\"apiVersion\":\"v1\"") && json.ends_with("}\n")
        );
        let pretty = encode(&MediaType { is_pretty: true, ..MediaType::default() });
        assert!(pretty.starts_with("{\n  \"kind\": \"Status\"") && pretty.ends_with("\n}"));
        let yaml = encode(&MediaType { encoding: Encoding::Yaml, ..MediaType::default() });
        assert!(yaml.starts_with("apiVersion: v1\ncode: 404\ndetails:\n  kind: node\n"), "{yaml}");
    }
}
