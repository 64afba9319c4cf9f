//! Scale targets: the resource that a `scaleTargetRef` names, and the scale of one of its objects.

#[cfg(any(test, fuzzing))]
pub(crate) mod differential;
mod discovery;
mod failures;
mod mapper;
mod mapping;
mod owners;
mod reader;
mod scale;
#[cfg(test)]
mod tests;

pub use failures::{replica_failure, scheduling_failure, scheduling_failures};
pub use mapper::{MapperConfig, RestMapper};
pub use mapping::{GroupKind, MapperError, Mapping, parse_api_version};
pub use owners::Owners;
pub use reader::{TargetPods, TargetReader};
pub use scale::{ScaleClient, ScaleError, ScaleObject, ScaleUnavailable, read_scale};
