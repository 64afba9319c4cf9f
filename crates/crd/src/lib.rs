//! The `CustomResourceDefinition` of the custom API, which has the schema of
//! `HorizontalPodAutoscaler` in autoscaling/v2. [`schema`] also serves the definitions of
//! `hpa-collectors`.
//!
//! The custom API is for clusters with a managed control plane, where the built-in controller can't
//! be turned off. That controller ignores objects of another API group. The schema is generated
//! from the types of [`hpa_calc::api`]. The API server's validation of autoscaling/v2 becomes
//! bounds, enumerations and CEL rules of the schema. `hpa crd` prints the definition; `hpa lint`
//! and `hpa convert` check manifests against it.
//!
//! ```
//! let definition = hpa_crd::definition()?;
//! assert_eq!(definition["spec"]["group"], hpa_crd::GROUP);
//! # Ok::<(), hpa_crd::DefinitionError>(())
//! ```

mod definition;
pub mod path;
mod rules;
pub mod schema;
mod targets;
mod types;

pub use definition::{definition, manifest};
pub use targets::{TARGETS_FIELD, targets};
pub use types::{
    FieldError, UnknownField, member_path, quote_fractions, type_errors, unknown_fields,
};

pub const GROUP: &str = "autoscaling.hpa-rs.dev";
/// The only version. It has the name of the version in the group `autoscaling` with the same
/// schema.
pub const VERSION: &str = "v2";
/// `GROUP/VERSION`.
pub const API_VERSION: &str = "autoscaling.hpa-rs.dev/v2";
/// The kind, as in the core API.
pub const KIND: &str = "HorizontalPodAutoscaler";
/// The resource name in URLs and RBAC rules.
pub const PLURAL: &str = "horizontalpodautoscalers";
/// The short name for kubectl. The core API has `hpa`.
pub const SHORT_NAME: &str = "rhpa";

/// An error while the definition is generated.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    #[error("the schema has no {0}")]
    NoSuchField(String),
    #[error("failed to serialize the definition as YAML")]
    Yaml(#[source] serde_saphyr::SerializeError),
}
