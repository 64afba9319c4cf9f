//! Keys of autoscalers, and the scopes of a controller.

use std::{fmt, sync::Arc};

use kube::core::{ApiResource, GroupVersionKind, Request};
use serde::{Deserialize, Serialize, Serializer};
use tracing::{Span, error_span};

/// Identifies an autoscaler. Prints as `namespace/name`, and as `rhpa/namespace/name` for the
/// custom API. In URLs and JSON, it is `core/namespace/name` or `custom/namespace/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HpaKey {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub api: AutoscalerApi,
}

impl HpaKey {
    /// The key of an autoscaler of the core API.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self::for_api(AutoscalerApi::Core, namespace, name)
    }

    pub fn for_api(
        api: AutoscalerApi,
        namespace: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
    ) -> Self {
        Self { namespace: namespace.into(), name: name.into(), api }
    }

    /// Parses the form in URLs and JSON.
    pub fn parse_id(text: &str) -> Option<Self> {
        let (api, rest) = text.split_once('/')?;
        let (namespace, name) = rest.split_once('/')?;
        let api = AutoscalerApi::ALL.into_iter().find(|one| one.name() == api)?;
        let is_valid = !namespace.is_empty() && !name.is_empty() && !name.contains('/');
        is_valid.then(|| Self::for_api(api, namespace, name))
    }

    /// The span of all work on this autoscaler, which names it on each log line. It has level
    /// error: if a filter disabled the span, log lines at warn would lose the name.
    pub fn span(&self) -> Span {
        error_span!(target: "hpa_controller::reconcile", "reconcile", hpa = %self)
    }
}

impl fmt::Display for HpaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.api == AutoscalerApi::Custom {
            write!(f, "{}/", hpa_calc::crd::SHORT_NAME)?;
        }
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Serialize for HpaKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { namespace, name, api } = self;
        serializer.collect_str(&format_args!("{}/{namespace}/{name}", api.name()))
    }
}

/// The API that an autoscaler belongs to. Autoscalers of the same name in both APIs are unrelated.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "camelCase")]
pub enum AutoscalerApi {
    /// `autoscaling/v2`, which is built into Kubernetes.
    #[default]
    Core,
    /// `autoscaling.hpa-rs.dev/v2`, which `hpa_calc::crd` defines.
    Custom,
}

impl AutoscalerApi {
    pub const ALL: [Self; 2] = [Self::Core, Self::Custom];

    /// Group and version, as in an object's `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Core => "autoscaling/v2",
            Self::Custom => hpa_calc::crd::API_VERSION,
        }
    }

    /// The API with this group and version. `None` for other APIs.
    pub fn from_api_version(api_version: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|api| api.api_version() == api_version)
    }

    /// The resource of this API's autoscalers.
    pub fn resource(self) -> ApiResource {
        let (group, version) = self.api_version().split_once('/').unwrap_or_default();
        let kind = GroupVersionKind::gvk(group, version, hpa_calc::crd::KIND);
        ApiResource::from_gvk_with_plural(&kind, hpa_calc::crd::PLURAL)
    }

    /// Builds requests for this API's autoscalers in a namespace.
    pub(crate) fn request(self, namespace: &str) -> Request {
        let (version, plural) = (self.api_version(), hpa_calc::crd::PLURAL);
        Request::new(format!("/apis/{version}/namespaces/{namespace}/{plural}"))
    }

    /// The name in flags, URLs and JSON: `core` or `custom`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Custom => "custom",
        }
    }
}

impl fmt::Display for AutoscalerApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.api_version())
    }
}

/// A namespace, or `None` for all namespaces. A controller has the single scope `None`, or one
/// scope for each of its namespaces.
pub type Scope = Option<String>;

/// A value for each scope of a controller.
#[derive(Debug)]
pub(crate) struct ByScope<T>(Vec<(Scope, T)>);

impl<T> ByScope<T> {
    pub(crate) fn new(scopes: &[Scope], value: impl Fn() -> T) -> Self {
        Self(scopes.iter().map(|scope| (scope.clone(), value())).collect())
    }

    pub(crate) fn entries(&self) -> &[(Scope, T)] {
        &self.0
    }

    /// The value for a namespace. `None` if the namespace is in no scope.
    pub(crate) fn for_namespace(&self, namespace: &str) -> Option<&T> {
        let is_in = |scope: &Scope| scope.as_deref().is_none_or(|scope| scope == namespace);
        self.0.iter().find(|(scope, _)| is_in(scope)).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("core/shop/web", true)]
    #[case("custom/shop/web", true)]
    #[case("other/shop/web", false)]
    #[case("core/shop", false)]
    #[case("core//web", false)]
    #[case("core/shop/web/x", false)]
    fn only_valid_id_is_parsed_and_printed_unchanged(#[case] text: &str, #[case] is_valid: bool) {
        let parsed = HpaKey::parse_id(text).map(|key| serde_json::to_value(key).unwrap());
        assert_eq!(parsed, is_valid.then(|| json!(text)));
    }
}
