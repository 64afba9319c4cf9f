//! An API of our own with the schema of autoscaling/v2 `HorizontalPodAutoscaler`, as a
//! `CustomResourceDefinition`.
//!
//! It is for clusters whose control plane somebody else runs, where the built-in controller cannot be switched off: that
//! one does not see objects of another group. The schema is generated from the types of [`hpa_calc::api`]; what the API
//! server checks for autoscaling/v2 is told to it as bounds, enumerations and rules in CEL.
//!
//! ```
//! let definition = hpa_crd::definition()?;
//! assert_eq!(definition["spec"]["group"], hpa_crd::GROUP);
//! # Ok::<(), hpa_crd::DefinitionError>(())
//! ```

mod definition;
mod place;
mod rules;
mod schema;
mod types;

pub use definition::{definition, manifest};
pub use types::type_errors;

/// The API group.
pub const GROUP: &str = "autoscaling.hpa-rs.dev";
/// The one version: that of the schema in the group `autoscaling`.
pub const VERSION: &str = "v2";
/// `GROUP/VERSION`.
pub const API_VERSION: &str = "autoscaling.hpa-rs.dev/v2";
/// The kind, the same as Kubernetes' own.
pub const KIND: &str = "HorizontalPodAutoscaler";
/// The name in URLs and rules of access.
pub const PLURAL: &str = "horizontalpodautoscalers";
/// The short name for kubectl; `hpa` is that of Kubernetes' own.
pub const SHORT_NAME: &str = "rhpa";

/// Why the definition could not be generated: the types do not fit the rules written for them.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// A rule is about a field that the types do not have.
    #[error("the schema has no {0}")]
    NoSuchField(String),
    /// The definition cannot be written as YAML.
    #[error("cannot write YAML: {0}")]
    Yaml(String),
}
