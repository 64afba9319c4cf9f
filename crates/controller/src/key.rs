//! The name of an autoscaler, and the API it belongs to.

use std::{fmt, sync::Arc};

/// Names a HorizontalPodAutoscaler. Prints as `namespace/name`, one of our own API as `rhpa/namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HpaKey {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
    /// The API it is of.
    pub api: AutoscalerApi,
}

impl HpaKey {
    /// The key of an autoscaler of Kubernetes' own API.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self::for_api(AutoscalerApi::Core, namespace, name)
    }

    /// The key of an autoscaler.
    pub fn for_api(
        api: AutoscalerApi,
        namespace: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
    ) -> Self {
        Self { namespace: namespace.into(), name: name.into(), api }
    }
}

impl fmt::Display for HpaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.api == AutoscalerApi::Custom {
            write!(f, "{}/", hpa_crd::SHORT_NAME)?;
        }
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The API of an autoscaler. Objects of the two have nothing to do with each other, whatever their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AutoscalerApi {
    /// `autoscaling/v2`: that of Kubernetes.
    #[default]
    Core,
    /// `autoscaling.hpa-rs.dev/v2`: that of the `CustomResourceDefinition` of `hpa-crd`.
    Custom,
}

impl AutoscalerApi {
    /// The group and version, as an object names them.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Core => "autoscaling/v2",
            Self::Custom => hpa_crd::API_VERSION,
        }
    }

    /// Both.
    pub const ALL: [Self; 2] = [Self::Core, Self::Custom];
}

impl fmt::Display for AutoscalerApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.api_version())
    }
}
