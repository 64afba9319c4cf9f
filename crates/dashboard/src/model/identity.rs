use std::fmt;

use hpa_controller::AutoscalerApi;

/// Identifies an autoscaler in addresses and messages: `core/shop/web`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) api: AutoscalerApi,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Identity {
    /// Parses what `Display` prints.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (api, rest) = text.split_once('/')?;
        let (namespace, name) = rest.split_once('/')?;
        let api = AutoscalerApi::ALL.into_iter().find(|one| api_name(*one) == api)?;
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            return None;
        }
        Some(Self { api, namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

fn api_name(api: AutoscalerApi) -> &'static str {
    match api {
        AutoscalerApi::Core => "core",
        AutoscalerApi::Custom => "custom",
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", api_name(self.api), self.namespace, self.name)
    }
}

impl serde::Serialize for Identity {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
