//! Generates the `CustomResourceDefinition` of the custom API, and checks manifests of both APIs.
//! Objects of the custom API have the fields of `HorizontalPodAutoscaler` in autoscaling/v2, and
//! fields for the settings of single autoscalers.
//!
//! The custom API is for clusters with a managed control plane, where the built-in controller can't
//! be turned off. That controller ignores objects of another API group. The schema is generated
//! from the types of [`crate::api`]. The API server's validation of autoscaling/v2 becomes
//! bounds, enumerations and CEL rules of the schema.
//!
//! `hpa crd` prints the definition. Commands that read manifests check types with [`type_errors`],
//! field names with [`unknown_fields`], or both. Some commands and the testbed convert objects of
//! older versions with [`versions`]. The controller writes [`targets_text`] to the status, and the
//! testbed prints it. `hpa-collectors` generates its definitions with [`schema`], and checks its
//! field names with [`fields_not_in`].
//!
//! ```
//! let definition = hpa_calc::crd::definition()?;
//! assert_eq!(definition["spec"]["group"], hpa_calc::crd::GROUP);
//! # Ok::<(), hpa_calc::crd::DefinitionError>(())
//! ```

mod definition;
mod rules;
pub mod schema;
mod targets;
mod types;
pub mod versions;

pub use definition::{definition, manifest};
pub use targets::{TARGETS_FIELD, targets_text};
pub use types::{
    FieldError, UnknownField, fields_not_in, member_path, quote_fractions, type_errors,
    unknown_fields, with_metadata,
};

/// The API group of the custom API.
pub const GROUP: &str = "autoscaling.hpa-rs.dev";
/// The only version of the custom API, named like the version of `autoscaling` that it mirrors.
pub const VERSION: &str = "v2";
/// The `apiVersion` of objects of the custom API: `GROUP/VERSION`.
pub const API_VERSION: &str = "autoscaling.hpa-rs.dev/v2";
/// The kind of autoscalers, in the custom API and in the core API.
pub const KIND: &str = "HorizontalPodAutoscaler";
/// The resource name in URLs and RBAC rules.
pub const PLURAL: &str = "horizontalpodautoscalers";
/// The short name for kubectl: `kubectl get rhpa`. The short name in the core API is `hpa`.
pub const SHORT_NAME: &str = "rhpa";

/// An error while a definition is generated.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// The generated schema lacks a field that the definition changes. Contains its path.
    #[error("the schema has no {0}")]
    NoSuchField(String),
    /// The definition can't be serialized.
    #[error("failed to serialize the definition as YAML")]
    Yaml(#[source] serde_saphyr::SerializeError),
}
