//! Media types: what a client accepts, and what a route has.

/// JSON.
pub const JSON: &str = "application/json";
/// YAML.
pub const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The media types that error messages list. The reference has protobuf, too.
const DOCUMENT_TYPES: [&str; 3] = [JSON, YAML, PROTOBUF];
const LIST_TYPES: [&str; 5] = [
    JSON,
    YAML,
    PROTOBUF,
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

/// What a response is encoded as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediaType {
    /// YAML instead of JSON.
    pub is_yaml: bool,
    /// JSON with indentation.
    pub is_pretty: bool,
    /// The object that is returned instead of the metrics.
    pub conversion: Option<Conversion>,
}

/// An object that metrics are converted to: `as=Table;g=meta.k8s.io;v=v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversion {
    /// The kind.
    pub kind: String,
    /// The group.
    pub group: String,
    /// The version.
    pub version: String,
}

impl Conversion {
    /// Whether this is a kind of `meta.k8s.io` in a known version.
    fn is_meta(&self) -> bool {
        self.group == "meta.k8s.io" && matches!(self.version.as_str(), "v1" | "v1beta1")
    }
}

/// The conversions that a route has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversions {
    /// None.
    None,
    /// Metadata only.
    Metadata,
    /// Tables and metadata.
    Table,
    /// Discovery of all groups in one document.
    Discovery,
}

impl Conversions {
    fn allow(self, conversion: Option<&Conversion>) -> bool {
        let Some(conversion) = conversion else { return true };
        let is_meta = || {
            conversion.is_meta()
                && matches!(
                    conversion.kind.as_str(),
                    "PartialObjectMetadata" | "PartialObjectMetadataList"
                )
        };
        match self {
            Self::None => false,
            Self::Metadata => is_meta(),
            Self::Table => is_meta() || (conversion.is_meta() && conversion.kind == "Table"),
            Self::Discovery => {
                conversion.kind == "APIGroupDiscoveryList"
                    && conversion.group == "apidiscovery.k8s.io"
                    && conversion.version == "v2"
            }
        }
    }
}

/// No media type that the client accepts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("only the following media types are accepted: {}", DOCUMENT_TYPES.join(", "))]
pub struct NotAcceptable;

/// The media types of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representations {
    /// Those of a document or an object.
    Document,
    /// Those of a list.
    List,
}

impl Representations {
    /// The media types, for an error message.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::Document => &DOCUMENT_TYPES,
            Self::List => &LIST_TYPES,
        }
    }

    /// Whether a client accepts any of them. Parameters don't count, and neither do subtypes that
    /// are wildcards.
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

    /// The media type with the parameters of the clause, if the route has it.
    fn options(&self, is_yaml: bool, conversions: Conversions) -> Option<MediaType> {
        let mut media_type = MediaType { is_yaml, ..MediaType::default() };
        for (key, value) in &self.parameters {
            let value = (*value).to_owned();
            match *key {
                "as" => media_type.conversion.get_or_insert_default().kind = value,
                "g" => media_type.conversion.get_or_insert_default().group = value,
                "v" => media_type.conversion.get_or_insert_default().version = value,
                "pretty" => media_type.is_pretty = value == "1",
                "stream" if !value.is_empty() && (is_yaml || value != "watch") => return None,
                "sv" if !value.is_empty() => return None,
                _ => {}
            }
        }
        conversions.allow(media_type.conversion.as_ref()).then_some(media_type)
    }
}

/// The media type of a response: the first clause of `accept`, by quality, that the route can
/// answer.
pub fn negotiate(accept: &str, conversions: Conversions) -> Result<MediaType, NotAcceptable> {
    if accept.is_empty() {
        return Ok(MediaType::default());
    }
    let mut clauses: Vec<Clause<'_>> = accept.split(',').filter_map(Clause::parse).collect();
    clauses.sort_by(|a, b| {
        let wildcards = |clause: &Clause<'_>| (clause.main == "*", clause.sub == "*");
        b.quality.total_cmp(&a.quality).then_with(|| wildcards(a).cmp(&wildcards(b)))
    });
    let types = [("application", "json", false), ("application", "yaml", true)];
    let found = clauses.iter().find_map(|clause| {
        let accepted = types.iter().filter(|(main, sub, _)| clause.accepts(main, sub));
        accepted.into_iter().find_map(|(_, _, is_yaml)| clause.options(*is_yaml, conversions))
    });
    found.ok_or(NotAcceptable)
}

/// Whether a request asks for indented JSON: by a parameter, or because the client is for people.
pub fn asks_for_pretty(query: &crate::metrics_api::Query, user_agent: &str) -> bool {
    match query.get("pretty") {
        Some(value) if !value.is_empty() => {
            matches!(value, "1" | "t" | "T" | "TRUE" | "true" | "True")
        }
        _ => ["curl", "Wget", "Mozilla/5.0"].iter().any(|agent| user_agent.starts_with(agent)),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

    fn describe(accept: &str, conversions: Conversions) -> String {
        let Ok(media_type) = negotiate(accept, conversions) else { return "none".to_owned() };
        let encoding = if media_type.is_yaml { "yaml" } else { "json" };
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
    #[case("application/vnd.kubernetes.protobuf", "none")]
    #[case("text/html", "none")]
    #[case("application/json;as=Table;g=meta.k8s.io;v=v1", "none")]
    #[case("application/json;as=Table;g=meta.k8s.io;v=v1,application/json", "json")]
    #[case("application/json;stream=watch", "json")]
    fn first_accepted_type_counts(#[case] accept: &str, #[case] expected: &str) {
        assert_eq!(describe(accept, Conversions::None), expected);
    }

    #[test]
    fn conversions_depend_on_the_route() {
        assert_eq!(describe(TABLE, Conversions::Table), "json Table");
        assert_eq!(describe(TABLE, Conversions::Metadata), "none");
        let metadata = TABLE.replace("Table", "PartialObjectMetadata");
        assert_eq!(describe(&metadata, Conversions::Metadata), "json PartialObjectMetadata");
        let unknown_version = TABLE.replace("v=v1", "v=v2");
        assert_eq!(describe(&unknown_version, Conversions::Table), "none");
        let discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        assert_eq!(describe(discovery, Conversions::Discovery), "json APIGroupDiscoveryList");
    }

    #[rstest]
    #[case("application/cbor", false)]
    #[case("application/*", false)]
    #[case("text/html, application/json;as=x", true)]
    #[case("text/html,*/*;q=0.1", true)]
    fn routes_check_the_media_type_alone(#[case] accept: &str, #[case] accepted: bool) {
        assert_eq!(Representations::Document.are_accepted(accept), accepted);
    }

    #[rstest]
    #[case("pretty=true", "", true)]
    #[case("pretty=0", "curl/8", false)]
    #[case("", "curl/8", true)]
    #[case("pretty=", "kubectl", false)]
    fn indentation_is_for_people(#[case] query: &str, #[case] agent: &str, #[case] pretty: bool) {
        assert_eq!(asks_for_pretty(&crate::metrics_api::Query::parse(query), agent), pretty);
    }
}
